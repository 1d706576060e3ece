// What runs out: descriptors, adapters, endpoints. Each refusal names it, leaves everything as it was, and is over as soon as there
// is room again.

#include "ends.h"

#include <sys/resource.h>

// Adapters that can be open at a time in a process.
#define ADAPTERS 4095

static struct rlimit before;

// Lets nothing more be opened than `count` descriptors in all.
static void descriptors(rlim_t count)
{
    struct rlimit limit = {.rlim_cur = count, .rlim_max = before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static DAT_RETURN open_one(DAT_IA_HANDLE *ia)
{
    DAT_EVD_HANDLE async = DAT_EVD_ASYNC_EXISTS;
    *ia = (void *)0x1234;
    return dat_ia_open((DAT_NAME_PTR) "nonic", 8, &async, ia);
}

static void no_descriptors(void)
{
    chapter("no descriptors");
    DAT_IA_HANDLE ia;
    DAT_PSP_HANDLE untouched = (void *)0x1234, psp = untouched;
    // (This program runs several times at once.)
    DAT_CONN_QUAL own = 0x7000000000000000 + (DAT_CONN_QUAL)getpid(), any = 0;
    descriptors(0);
    DAT_RETURN opened = open_one(&ia);
    DAT_RETURN created = dat_psp_create(near->ia, own, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp);
    DAT_RETURN found = dat_psp_create_any(near->ia, &any, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp);
    descriptors(before.rlim_cur);
    CHECK_CODE("ia", "no adapter can be opened", opened, ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    CHECK("ia", "... and none was", ia == (void *)0x1234);
    CHECK_CODE("psp", "nobody can listen", created, ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    CHECK_CODE("psp", "... anywhere", found, ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    CHECK("psp", "... and nobody does", psp == untouched && any == 0);
    CHECK_DONE("ia", "with descriptors one is opened", open_one(&ia));
    CHECK_DONE("ia", "... and closed", dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_DONE("psp", "... and there", dat_psp_create(near->ia, own, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    CHECK_DONE("psp", "... one listens", dat_psp_free(psp));
    connect_ends();
    CHECK("ep", "... and talks", talks());
}

static void no_numbers(void)
{
    chapter("no adapters");
    static DAT_IA_HANDLE open[ADAPTERS + 1];
    // Each has descriptors of its own.
    if (before.rlim_max < 4 * ADAPTERS) {
        printf("# %d adapters need more descriptors than the %lu that may be had here\n", ADAPTERS,
               (unsigned long)before.rlim_max);
        return;
    }
    descriptors(before.rlim_max);
    int count = 0;
    DAT_RETURN code;
    while (count <= ADAPTERS && (code = open_one(&open[count])) == DAT_SUCCESS)
        count++;
    CHECK_CODE("ia", "adapters end", code, ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    CHECK("ia", "... with the last number", count > ADAPTERS - 8 && open[count] == (void *)0x1234);
    CHECK("ia", "... and the others work", talks());
    MUST(dat_ia_close(open[7], DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_DONE("ia", "... where one was closed there is one", open_one(&open[7]));
    bool all = true;
    for (int i = 0; i < count; i++)
        all &= dat_ia_close(open[i], DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS;
    CHECK("ia", "... and all close", all);
    descriptors(before.rlim_cur);
}

static void no_endpoints(void)
{
    chapter("no endpoints");
    DAT_IA_ATTR has;
    MUST(dat_ia_query(near->ia, NULL, DAT_IA_FIELD_ALL, &has, 0, NULL));
    int most = has.max_eps, count = 0;
    DAT_EP_HANDLE *eps = calloc(most + 1, sizeof *eps);
    REQUIRE(eps);
    DAT_RETURN code = DAT_SUCCESS;
    while (count <= most && (code = dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->connections, NULL,
                                                  &eps[count])) == DAT_SUCCESS)
        count++;
    CHECK_CODE("ep", "endpoints end", code, ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP));
    // Those of the two ends count too.
    CHECK("ep", "... with as many as the adapter says", count <= most && count >= most - 8);
    CHECK("ep", "... and those there are work", talks());
    MUST(dat_ep_free(eps[7]));
    CHECK_DONE("ep", "... where one was freed there is one",
               dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->connections, NULL, &eps[7]));
    bool all = true;
    for (int i = 0; i < count; i++)
        all &= dat_ep_free(eps[i]) == DAT_SUCCESS;
    CHECK("ep", "... and all are freed", all);
    free(eps);
}

static void no_regions(void)
{
    chapter("no regions");
    DAT_IA_ATTR has;
    DAT_PZ_HANDLE pz, full;
    DAT_REGION_DESCRIPTION base = {.for_lmr_handle = near->lmr};
    MUST(dat_ia_query(near->ia, NULL, DAT_IA_FIELD_ALL, &has, 0, NULL));
    MUST(dat_pz_create(near->ia, &pz));
    MUST(dat_pz_create(near->ia, &full));
    int most = has.max_lmrs, count = 0;
    DAT_LMR_HANDLE *lmrs = calloc(most + 1, sizeof *lmrs), untouched = (void *)0x1234, lmr = untouched;
    REQUIRE(lmrs);
    DAT_LMR_CONTEXT local = 71;
    DAT_RMR_CONTEXT remote = 81;
    DAT_RETURN code = DAT_SUCCESS;
    while (count <= most && (code = dat_lmr_create(near->ia, DAT_MEM_TYPE_LMR, base, 0, pz, ALL_PRIVILEGES, &lmrs[count],
                                                   NULL, NULL, NULL, NULL)) == DAT_SUCCESS)
        count++;
    DAT_RETURN none_left = ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
    CHECK_CODE("LMR-16", "regions end", code, none_left);
    printf("# %d of %d\n", count, most);
    // Where memory is not coherent each has two places; those of the two ends count too.
    CHECK("LMR-16", "... with as many as the adapter says", count <= most && count >= (coherent ? most : most / 2) - 64);
    DAT_REGION_DESCRIPTION memory = {.for_va = near->room};
    CHECK_CODE("LMR-16", "... of every kind",
               dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, memory, PAGE, full, ALL_PRIVILEGES, &lmr, &local, &remote,
                              NULL, NULL), none_left);
    CHECK("LMR-16", "... and no result is written", lmr == untouched && local == 71 && remote == 81);
    CHECK_DONE("LMR-16", "... nor a region made, so its zone can go", dat_pz_free(full));
    CHECK("LMR-16", "... and the others work", talks());
    bool all = true;
    for (int i = 0; i < count; i++)
        all &= dat_lmr_free(lmrs[i]) == DAT_SUCCESS;
    CHECK("LMR-16", "... and all are freed", all);
    CHECK_DONE("LMR-16", "... and none is left in their zone", dat_pz_free(pz));
    CHECK_DONE("LMR-16", "then there are regions again",
               dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, memory, PAGE, near->pz, ALL_PRIVILEGES, &lmr, NULL, NULL,
                              NULL, NULL));
    MUST(dat_lmr_free(lmr));
    free(lmrs);
}

int main(int argc, char **argv)
{
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    begin(argc, argv);
    no_descriptors();
    no_numbers();
    no_endpoints();
    no_regions();
    part();
    return end();
}
