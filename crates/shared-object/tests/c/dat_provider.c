/*
 * A provider of somebody else's: as small as one can be. It keeps its objects in memory of its own, whose first word leads to its
 * table, and notes in a file what the registry asks of it. Built as a library that dat.conf names, and into a program.
 */
#include "dat_provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct object {
	const DAT_PROVIDER *provider; /* has to be first */
	DAT_HANDLE_TYPE type;
	DAT_CONTEXT context;
	DAT_REGION_DESCRIPTION region;
	DAT_OS_WAIT_PROXY_AGENT agent;
};

static DAT_PROVIDER table;

static void note(const char *what, const char *name)
{
	const char *path = getenv("DAT_PROVIDER_NOTES");
	FILE *notes = path ? fopen(path, "a") : NULL;
	if (notes) {
		fprintf(notes, "%s %s\n", what, name);
		fclose(notes);
	}
}

static struct object *make(DAT_HANDLE_TYPE type)
{
	struct object *made = calloc(1, sizeof *made);
	made->provider = &table;
	made->type = type;
	return made;
}

static DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async, DAT_IA_HANDLE *ia)
{
	note("open", name);
	if (qlen == 13)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS);
	*async = make(DAT_HANDLE_TYPE_EVD);
	*ia = make(DAT_HANDLE_TYPE_IA);
	return DAT_SUCCESS;
}

static DAT_RETURN ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE *async, DAT_IA_ATTR_MASK ia_mask, DAT_IA_ATTR *ia_attributes,
			   DAT_PROVIDER_ATTR_MASK mask, DAT_PROVIDER_ATTR *attributes)
{
	(void)async, (void)mask, (void)attributes;
	if (((struct object *)ia)->provider != &table)
		return DAT_ERROR(DAT_INTERNAL_ERROR, 0);
	if (ia_mask) {
		memset(ia_attributes, 0, sizeof *ia_attributes);
		strcpy(ia_attributes->adapter_name, "outside");
	}
	return DAT_SUCCESS;
}

static DAT_RETURN ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
	if (flags == DAT_CLOSE_GRACEFUL_FLAG)
		return DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
	note("close", "");
	free(ia);
	return DAT_SUCCESS;
}

static DAT_RETURN set_context(DAT_HANDLE handle, DAT_CONTEXT context)
{
	((struct object *)handle)->context = context;
	return DAT_SUCCESS;
}

static DAT_RETURN get_context(DAT_HANDLE handle, DAT_CONTEXT *context)
{
	*context = ((struct object *)handle)->context;
	return DAT_SUCCESS;
}

static DAT_RETURN get_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type)
{
	*type = ((struct object *)handle)->type;
	return DAT_SUCCESS;
}

static DAT_RETURN cno_create(DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *cno)
{
	struct object *made = make(DAT_HANDLE_TYPE_CNO);
	(void)ia;
	made->agent = agent;
	*cno = made;
	return DAT_SUCCESS;
}

static DAT_RETURN cno_query(DAT_CNO_HANDLE cno, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param)
{
	(void)mask;
	param->agent = ((struct object *)cno)->agent;
	/* The program knows its adapter by a number. */
	return dats_get_ia_handle((unsigned long)param->ia_handle, &param->ia_handle);
}

static DAT_RETURN lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region, DAT_VLEN length,
			     DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS privileges, DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
			     DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *size, DAT_VADDR *address)
{
	struct object *made = make(DAT_HANDLE_TYPE_LMR);
	(void)ia, (void)pz;
	made->region = region;
	*lmr = made;
	*lmr_context = type;
	*rmr_context = privileges;
	*size = length;
	*address = (DAT_VADDR)(uintptr_t)region.for_shared_memory.virtual_address;
	return DAT_SUCCESS;
}

static DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM *param)
{
	(void)mask;
	param->region_desc = ((struct object *)lmr)->region;
	return DAT_SUCCESS;
}

static DAT_RETURN object_free(DAT_HANDLE handle)
{
	free(handle);
	return DAT_SUCCESS;
}

const DAT_PROVIDER *outside_provider(const char *name)
{
	table.device_name = name;
	table.ia_open_func = ia_open;
	table.ia_query_func = ia_query;
	table.ia_close_func = ia_close;
	table.set_consumer_context_func = set_context;
	table.get_consumer_context_func = get_context;
	table.get_handle_type_func = get_type;
	table.cno_create_func = cno_create;
	table.cno_query_func = cno_query;
	table.cno_free_func = object_free;
	table.lmr_create_func = lmr_create;
	table.lmr_query_func = lmr_query;
	table.lmr_free_func = object_free;
	return &table;
}

void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *parameters)
{
	note("init", parameters);
	/* A provider that has nothing for this name. */
	if (!strcmp(parameters, "refuse"))
		return;
	dat_registry_add_provider(outside_provider("outside"), info);
}

void dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
	note("fini", info->ia_name);
	dat_registry_remove_provider(&table, info);
}
