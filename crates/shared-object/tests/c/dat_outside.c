/*
 * A program with an adapter of another provider's: one that dat.conf names ("outside", and "broken" and "refusing" beside it), and
 * one that is linked into it ("linked"). Their calls reach the provider with what the program passed, the built-in provider works
 * beside them, and garbage is refused all the same.
 */
#include "dat_provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks;

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		checks++;                                                                                              \
		if (!(condition)) {                                                                                    \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                 \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)
#define DONE(call) CHECK((call) == DAT_SUCCESS)

static int notes(const char *wanted)
{
	char line[512];
	int found = 0;
	FILE *file = fopen(getenv("DAT_PROVIDER_NOTES"), "r");
	while (file && fgets(line, sizeof line, file))
		found += !strncmp(line, wanted, strlen(wanted));
	if (file)
		fclose(file);
	return found;
}

static void agent(DAT_PVOID instance, DAT_EVD_HANDLE evd)
{
	(void)instance, (void)evd;
}

static void use(DAT_IA_HANDLE ia)
{
	DAT_IA_ATTR attributes;
	DAT_HANDLE_TYPE type;
	DAT_CONTEXT context, kept;
	DAT_CNO_HANDLE cno;
	DAT_CNO_PARAM cno_param;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM lmr_param;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN size;
	DAT_VADDR address;
	DAT_IA_HANDLE real, again;
	char name[DAT_LMR_COOKIE_SIZE];
	CHECK((unsigned long)ia > 0 && (unsigned long)ia < 4096);
	DONE(dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attributes, 0, NULL));
	CHECK(!strcmp(attributes.adapter_name, "outside"));
	DONE(dat_get_handle_type(ia, &type));
	CHECK(type == DAT_HANDLE_TYPE_IA);
	DONE(dats_get_ia_handle((unsigned long)ia, &real));
	CHECK(real != ia);
	DONE(dats_get_ia_handle((unsigned long)real, &again));
	CHECK(again == ia);
	context.as_64 = 0x123456789abcdef0;
	DONE(dat_set_consumer_context(ia, context));
	DONE(dat_get_consumer_context(ia, &kept));
	CHECK(kept.as_64 == context.as_64);

	DAT_OS_WAIT_PROXY_AGENT proxy = { &kept, agent };
	DONE(dat_cno_create(ia, proxy, &cno));
	cno_param.ia_handle = real;
	DONE(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &cno_param));
	CHECK(cno_param.agent.instance_data == &kept && cno_param.agent.proxy_agent_func == agent);
	CHECK(cno_param.ia_handle == ia);

	DAT_REGION_DESCRIPTION region;
	region.for_shared_memory.virtual_address = &context;
	region.for_shared_memory.shared_memory_id = &name;
	DONE(dat_lmr_create(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, 77, NULL, DAT_MEM_PRIV_WRITE_FLAG, &lmr, &lmr_context,
			    &rmr_context, &size, &address));
	CHECK(lmr_context == DAT_MEM_TYPE_SHARED_VIRTUAL && rmr_context == DAT_MEM_PRIV_WRITE_FLAG && size == 77);
	CHECK(address == (DAT_VADDR)(uintptr_t)&context);
	DONE(DAT_LMR_QUERY(lmr, DAT_LMR_FIELD_ALL, &lmr_param));
	CHECK(lmr_param.region_desc.for_shared_memory.shared_memory_id == &name);
	DONE(dat_lmr_free(lmr));
	DONE(dat_cno_free(cno));

	/* Garbage is as wrong as ever, also where the provider would have followed it. */
	CHECK(dat_lmr_free((DAT_LMR_HANDLE)0xdeadbee8) == DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR));
	CHECK(dat_lmr_free(&context) == DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR));
	CHECK(dat_cno_free((DAT_CNO_HANDLE)use) == DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CNO));
	CHECK(dat_ia_close((DAT_IA_HANDLE)0x1000, DAT_CLOSE_DEFAULT) == DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));

	CHECK(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG) == DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE));
}

int main(void)
{
	DAT_EVD_HANDLE async = NULL;
	DAT_IA_HANDLE own, ia[2];
	DAT_PZ_HANDLE pz;
	DONE(dat_ia_open("nonic", 8, &async, &own));
	DONE(dat_pz_create(own, &pz));

	/* By dat.conf: loaded at the first open, kept as long as one is open, and loaded anew afterwards. */
	for (int turn = 1; turn <= 2; turn++) {
		for (int i = 0; i < 2; i++) {
			async = NULL;
			DONE(dat_ia_open("RO_AWARE_outside", 8, &async, &ia[i]));
		}
		CHECK(notes("init ib0 1") == turn && notes("open outside") == 2 * turn);
		use(ia[0]);
		DONE(dat_pz_free(pz));
		DONE(dat_pz_create(own, &pz));
		DONE(dat_ia_close(ia[0], DAT_CLOSE_ABRUPT_FLAG));
		CHECK(dat_ia_close(ia[0], DAT_CLOSE_ABRUPT_FLAG) == DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
		CHECK(notes("fini") == turn - 1);
		use(ia[1]);
		DONE(dat_ia_close(ia[1], DAT_CLOSE_ABRUPT_FLAG));
		CHECK(notes("fini outside") == turn);
	}

	/* An answer of the provider's comes as it is, and the library is let go. */
	async = NULL;
	CHECK(dat_ia_open("outside", 13, &async, &ia[0]) == DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS));
	CHECK(notes("init ib0 1") == 3 && notes("fini outside") == 3);

	/* Libraries that are not there, or register nothing. */
	CHECK(dat_ia_open("broken", 8, &async, &ia[0]) == DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
	CHECK(dat_ia_open("refusing", 8, &async, &ia[0]) == DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
	CHECK(notes("init refuse") == 1 && notes("fini refusing") == 1);
	/* A name of the built-in provider works all the same; and one that dat.conf gives it. */
	DONE(dat_ia_open("OpenIB-cma", 8, &async, &ia[0]));
	DONE(dat_ia_close(ia[0], DAT_CLOSE_GRACEFUL_FLAG));
	async = NULL;
	DONE(dat_ia_open("mine", 8, &async, &ia[0]));
	DONE(dat_ia_close(ia[0], DAT_CLOSE_GRACEFUL_FLAG));

	/* Linked into the program. */
	DAT_PROVIDER_INFO info = { "linked", 1, 2, DAT_FALSE };
	const DAT_PROVIDER *provider = outside_provider("linked");
	CHECK(dat_registry_add_provider(NULL, &info) == DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
	CHECK(dat_registry_add_provider(provider, NULL) == DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
	DONE(dat_registry_add_provider(provider, &info));
	CHECK(dat_registry_add_provider(provider, &info) == DAT_ERROR(DAT_PROVIDER_ALREADY_REGISTERED, 0));
	async = NULL;
	DONE(dat_ia_open("linked", 8, &async, &ia[0]));
	use(ia[0]);
	CHECK(dat_registry_remove_provider(provider, &info) == DAT_ERROR(DAT_PROVIDER_IN_USE, 0));
	DONE(dat_ia_close(ia[0], DAT_CLOSE_ABRUPT_FLAG));
	DONE(dat_registry_remove_provider(provider, &info));
	CHECK(DAT_GET_TYPE(dat_registry_remove_provider(provider, &info)) == DAT_PROVIDER_NOT_FOUND);
	CHECK(DAT_GET_TYPE(dat_ia_open("linked", 8, &async, &ia[0])) == DAT_PROVIDER_NOT_FOUND);

	/* The list: dat.conf's entries in their order, whatever their version, then the built-in ones. */
	static const char *const names[] = { "outside", "broken", "refusing", "OpenIB-cma", "other", "safe", "mine", "nonic",
					     "nonic-noncoherent" };
	DAT_PROVIDER_INFO room[9], *list[9];
	DAT_COUNT count = -1;
	for (int i = 0; i < 9; i++)
		list[i] = &room[i];
	CHECK(dat_registry_list_providers(9, NULL, list) == DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
	CHECK(dat_registry_list_providers(0, &count, NULL) == DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
	CHECK(count == 9);
	CHECK(dat_registry_list_providers(-1, &count, list) == DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
	CHECK(dat_registry_list_providers(9, &count, NULL) == DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
	list[8] = NULL;
	memset(room, 0xaa, sizeof room);
	CHECK(dat_registry_list_providers(9, &count, list) == DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
	CHECK((unsigned char)room[0].ia_name[0] == 0xaa);
	DONE(dat_registry_list_providers(8, &count, list));
	CHECK(count == 8);
	list[8] = &room[8];
	DONE(dat_registry_list_providers(9, &count, list));
	CHECK(count == 9);
	for (int i = 0; i < 9; i++)
		CHECK(!strcmp(room[i].ia_name, names[i]));
	CHECK(room[4].dapl_version_major == 2 && room[4].dapl_version_minor == 0 && room[5].is_thread_safe == DAT_TRUE);

	/* What about a name is not there. */
	CHECK(dat_ia_open("absent", 8, &async, &ia[0]) == DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
	CHECK(dat_ia_open("other", 8, &async, &ia[0]) == DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND));
	CHECK(dat_ia_openv("nonic", 8, &async, &ia[0], 1, 3, DAT_FALSE) == DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MINOR_NOT_FOUND));
	CHECK(dat_ia_open("safe", 8, &async, &ia[0]) == DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND));
	char name[300];
	memset(name, 'x', sizeof name);
	name[256] = 0;
	CHECK(dat_ia_open(NULL, 8, &async, &ia[0]) == DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
	CHECK(dat_ia_open(name, 8, &async, &ia[0]) == DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
	CHECK(dat_ia_open("nonic", 8, &async, NULL) == DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
	CHECK(dat_ia_open("nonic", 8, NULL, &ia[0]) == DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));

	DONE(dat_pz_free(pz));
	DONE(dat_ia_close(own, DAT_CLOSE_GRACEFUL_FLAG));
	printf("%d checks\n", checks);
	return 0;
}
