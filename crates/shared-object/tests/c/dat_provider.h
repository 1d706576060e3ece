#ifndef DAT_PROVIDER_TEST_H
#define DAT_PROVIDER_TEST_H

#include <dat/udat.h>

/* The table of the provider in dat_provider.c. */
const DAT_PROVIDER *outside_provider(const char *name);
void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *parameters);
void dat_provider_fini(const DAT_PROVIDER_INFO *info);

#endif
