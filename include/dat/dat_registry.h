/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dat_registry.h - what providers need of the registry
 */
/* Whichever is included, everything is. */
#ifndef _UDAT_H_
#include <dat/udat.h>
#endif

#ifndef _DAT_REGISTRY_H_
#define _DAT_REGISTRY_H_

#include <dat/udat_redirection.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Has a table of functions stand for a name; it is kept until it is removed. */
extern DAT_RETURN dat_registry_add_provider(
	IN const DAT_PROVIDER *provider,
	IN const DAT_PROVIDER_INFO *provider_info);

extern DAT_RETURN dat_registry_remove_provider(
	IN const DAT_PROVIDER *provider,
	IN const DAT_PROVIDER_INFO *provider_info);

/* What a provider calls the adapter that programs know by this number, and the other way round. */
extern DAT_RETURN dats_get_ia_handle(
	IN unsigned long handle,
	OUT DAT_IA_HANDLE *ia_handle);

/* What a library that dat.conf names has to define. */
#define DAT_PROVIDER_INIT_FUNC_NAME dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME dat_provider_fini
#define DAT_PROVIDER_INIT_FUNC_STR "dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR "dat_provider_fini"

/* It calls dat_registry_add_provider for this name and version. The text is the entry's seventh word. */
typedef void (*DAT_PROVIDER_INIT_FUNC)(IN const DAT_PROVIDER_INFO *provider_info, IN const char *instance_data);
/* It calls dat_registry_remove_provider. */
typedef void (*DAT_PROVIDER_FINI_FUNC)(IN const DAT_PROVIDER_INFO *provider_info);

#ifdef __cplusplus
}
#endif

#endif /* _DAT_REGISTRY_H_ */
