// A process with both registries: the distribution's of uDAPL 2.0, which it is linked with, and ours of 1.2, which it loads
// late. Their functions have the same names under other versions.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include <dat2/udat.h>

typedef DAT_RETURN open_function(const char *, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *, uint32_t, uint32_t, int);
typedef DAT_RETURN create_function(DAT_IA_HANDLE, DAT_PZ_HANDLE *);
typedef DAT_RETURN free_function(DAT_PZ_HANDLE);
typedef DAT_RETURN close_function(DAT_IA_HANDLE, int);

#define REQUIRE(sentence, condition)                                                                                \
    do {                                                                                                            \
        if (!(condition)) {                                                                                         \
            printf("wrong: %s (line %d)\n", sentence, __LINE__);                                                    \
            return 1;                                                                                               \
        }                                                                                                           \
    } while (0)

int main(void)
{
    void *old = dlopen("libdat.so.1", RTLD_NOW | RTLD_GLOBAL);
    REQUIRE("the library of 1.2 is there", old != NULL);
    open_function *open_1 = (open_function *)dlvsym(old, "dat_ia_openv", "DAT_1.2");
    create_function *create_1 = (create_function *)dlvsym(old, "dat_pz_create", "DAT_1.2");
    free_function *free_1 = (free_function *)dlvsym(old, "dat_pz_free", "DAT_1.2");
    close_function *close_1 = (close_function *)dlvsym(old, "dat_ia_close", "DAT_1.2");
    REQUIRE("it has its functions", open_1 && create_1 && free_1 && close_1);

    DAT_EVD_HANDLE async_1 = NULL, async_2 = NULL;
    DAT_IA_HANDLE ia_1, ia_2;
    DAT_PZ_HANDLE pz_1, pz_2;
    REQUIRE("an adapter of 1.2 is opened", open_1("nonic", 8, &async_1, &ia_1, 1, 2, 0) == 0);
    REQUIRE("and one of 2.0 beside it", dat_ia_open("nonic", 8, &async_2, &ia_2) == DAT_SUCCESS);
    REQUIRE("each has zones", create_1(ia_1, &pz_1) == 0 && dat_pz_create(ia_2, &pz_2) == DAT_SUCCESS);
    DAT_PZ_PARAM zone;
    REQUIRE("a zone knows its adapter by the number of its own registry",
            dat_pz_query(pz_2, DAT_PZ_FIELD_ALL, &zone) == DAT_SUCCESS && zone.ia_handle == ia_2);
    REQUIRE("handles of one version mean nothing to the other", free_1(pz_2) == 0x8005000f && free_1(pz_1) == 0);
    REQUIRE("and are as they were", dat_pz_free(pz_2) == DAT_SUCCESS);
    REQUIRE("both close", close_1(ia_1, 1) == 0 && dat_ia_close(ia_2, DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS);
    printf("both\n");
    return 0;
}
