/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dat_registry.h - how providers make themselves known to the registry
 *
 * A provider's library exports dat_provider_init and dat_provider_fini; the first calls dat_registry_add_provider with the
 * description it was given.
 */
#ifndef _DAT_REGISTRY_H_
#define _DAT_REGISTRY_H_

#ifndef _UDAT_H_
#error include <dat/udat.h>
#endif

#include <dat/udat_redirection.h>

#ifdef __cplusplus
extern "C" {
#endif

extern DAT_RETURN DAT_API dat_registry_add_provider(
	IN const DAT_PROVIDER *provider,
	IN const DAT_PROVIDER_INFO *provider_info);

extern DAT_RETURN DAT_API dat_registry_remove_provider(
	IN const DAT_PROVIDER *provider,
	IN const DAT_PROVIDER_INFO *provider_info);

#define DAT_PROVIDER_INIT_FUNC_NAME dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME dat_provider_fini
#define DAT_PROVIDER_INIT_FUNC_STR "dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR "dat_provider_fini"

typedef void (DAT_API *DAT_PROVIDER_INIT_FUNC)(
	IN const DAT_PROVIDER_INFO *provider_info,
	IN const char *instance_data);
typedef void (DAT_API *DAT_PROVIDER_FINI_FUNC)(
	IN const DAT_PROVIDER_INFO *provider_info);

#ifdef __cplusplus
}
#endif

#endif
