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
    DAT_CONN_QUAL any = 0;
    descriptors(0);
    DAT_RETURN opened = open_one(&ia);
    DAT_RETURN created = dat_psp_create(near->ia, 0x7000000000000001, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp);
    DAT_RETURN found = dat_psp_create_any(near->ia, &any, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp);
    descriptors(before.rlim_cur);
    CHECK_CODE("ia", "no adapter can be opened", opened, ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    CHECK("ia", "... and none was", ia == (void *)0x1234);
    CHECK_CODE("psp", "nobody can listen", created, ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    CHECK_CODE("psp", "... anywhere", found, ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    CHECK("psp", "... and nobody does", psp == untouched && any == 0);
    CHECK_DONE("ia", "with descriptors one is opened", open_one(&ia));
    CHECK_DONE("ia", "... and closed", dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_DONE("psp", "... and there", dat_psp_create(near->ia, 0x7000000000000001, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
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

int main(int argc, char **argv)
{
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    begin(argc, argv);
    no_descriptors();
    no_numbers();
    no_endpoints();
    part();
    return end();
}
