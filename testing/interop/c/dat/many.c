// Thousands of connections one after the other, and many at once; 10,000 endpoints; objects without end: neither
// descriptors nor memory grow.

#include "ends.h"

#include <dirent.h>

struct use {
    size_t descriptors;
    long kib, threads, mappings;
};

static struct use used(void)
{
    struct use u = {0};
    char line[256];
    DIR *d = opendir("/proc/self/fd");
    REQUIRE(d);
    while (readdir(d))
        u.descriptors++;
    closedir(d);
    FILE *f = fopen("/proc/self/status", "re");
    REQUIRE(f);
    while (fgets(line, sizeof line, f)) {
        sscanf(line, "VmRSS: %ld", &u.kib);
        sscanf(line, "Threads: %ld", &u.threads);
    }
    fclose(f);
    f = fopen("/proc/self/maps", "re");
    REQUIRE(f);
    while (fgets(line, sizeof line, f))
        u.mappings++;
    fclose(f);
    return u;
}

static struct use far_before;

static int64_t remember_use(struct end *e, const int64_t *a)
{
    (void)e, (void)a;
    far_before = used();
    return 0;
}

// Descriptors, threads and mappings are those of before; memory grew by no more than a little.
static int64_t grew(struct end *e, const int64_t *a)
{
    struct use now = used();
    (void)e;
    bool good = now.descriptors <= far_before.descriptors + 1 && now.threads <= far_before.threads &&
                now.mappings <= far_before.mappings + 16 && now.kib <= far_before.kib + a[0];
    if (!good)
        printf("# descriptors %zu to %zu, threads %ld to %ld, mappings %ld to %ld, KiB %ld to %ld\n",
               far_before.descriptors,
               now.descriptors, far_before.threads, now.threads, far_before.mappings, now.mappings, far_before.kib, now.kib);
    return !good;
}

// Accepts so many, one after the other, each until its peer disconnects.
static int64_t accept_many(struct end *e, const int64_t *a)
{
    for (int64_t i = 0; i < a[0]; i++) {
        if (CALL(e, accept_next) || CALL(e, next_connection) != DAT_CONNECTION_EVENT_ESTABLISHED ||
            CALL(e, next_connection) != DAT_CONNECTION_EVENT_DISCONNECTED)
            return i + 1;
        CALL(e, drop_endpoint);
    }
    return 0;
}

static void connect_and_disconnect(int rounds)
{
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    if (!alone)
        far_begins(accept_many, rounds);
    for (int i = 0; i < rounds; i++) {
        CALL(near, make_endpoint);
        MUST(ask(near, service, PATIENCE, 0, NULL));
        if (alone)
            REQUIRE(at_far(accept_next) == 0);
        REQUIRE(CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
        MUST(dat_ep_disconnect(near->ep, DAT_CLOSE_ABRUPT_FLAG));
        REQUIRE(CALL(near, next_connection) == DAT_CONNECTION_EVENT_DISCONNECTED);
        CALL(near, drop_endpoint);
        if (alone) {
            REQUIRE(at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED &&
                    at_far(next_connection) == DAT_CONNECTION_EVENT_DISCONNECTED);
            at_far(drop_endpoint);
        }
    }
    if (!alone)
        REQUIRE(far_ends() == 0);
    at_far(stop_listening);
}

static void one_after_the_other(void)
{
    chapter("connections one after the other");
    connect_and_disconnect(200);
    CALL(near, remember_use);
    if (!alone)
        at_far(remember_use);
    int64_t began = now_ns();
    connect_and_disconnect(3000);
    printf("# %.0f connections a second\n", 3000 / ((now_ns() - began) / 1e9));
    CHECK("many", "3,000 connections come and go and leave nothing", !CALL(near, grew, 2048));
    if (!alone)
        CHECK("many", "... at either end", !at_far(grew, 2048));
}

// Endpoints that are not connected.
static void endpoints(void)
{
    enum { MANY = 10000 };
    static DAT_EP_HANDLE eps[MANY];
    chapter("10,000 endpoints");
    DAT_EP_PARAM now;
    for (int round = 0; round < 2; round++) {
        struct use before = used();
        int64_t began = now_ns();
        int made = 0;
        while (made < MANY &&
               dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->connections, NULL,
                             &eps[made]) == DAT_SUCCESS)
            made++;
        CHECK_EQ("many", "10,000 endpoints are made", made, MANY);
        struct use after = used();
        printf("# %.2f s, %ld bytes each\n", (now_ns() - began) / 1e9, (after.kib - before.kib) * 1024 / MANY);
        // One for each 4,096 numbers of queue pairs.
        CHECK("many", "... without a descriptor for each", after.descriptors <= before.descriptors + 4);
        CHECK("many", "... which tell what they are",
              dat_ep_query(eps[MANY / 2], DAT_EP_FIELD_ALL,
                           &now) == DAT_SUCCESS && now.recv_evd_handle == near->receives);
        int wrong = 0;
        for (int i = 0; i < made; i++)
            wrong += dat_ep_free(eps[i]) != DAT_SUCCESS;
        CHECK_EQ("many", "... and freed", wrong, 0);
    }
}

static DAT_EP_HANDLE far_eps[2000];

static int64_t accept_and_keep(struct end *e, const int64_t *a)
{
    for (int64_t i = 0; i < a[0]; i++) {
        if (CALL(e, accept_next))
            return i + 1;
        far_eps[i] = e->ep;
        if (CALL(e, next_connection) != DAT_CONNECTION_EVENT_ESTABLISHED)
            return -i - 1;
    }
    return 0;
}

static int64_t receive_on_each(struct end *e, const int64_t *a)
{
    int64_t failed = 0;
    for (int64_t i = 0; i < a[0]; i++) {
        e->ep = far_eps[i];
        failed += CALL(e, receive, i % 64 * 64, 64, i) != 0;
    }
    return failed;
}

static int64_t free_each(struct end *e, const int64_t *a)
{
    int64_t failed = 0;
    for (int64_t i = 0; i < a[0]; i++) {
        int64_t event = CALL(e, next_connection);
        failed += event != DAT_CONNECTION_EVENT_DISCONNECTED;
    }
    for (int64_t i = 0; i < a[0]; i++)
        failed += dat_ep_free(far_eps[i]) != DAT_SUCCESS;
    e->ep = DAT_HANDLE_NULL;
    drain_end(e);
    return failed;
}

// For the events of that many endpoints at once.
static int64_t make_room(struct end *e, const int64_t *a)
{
    MUST(dat_evd_resize(e->connections, (DAT_COUNT)a[0]));
    MUST(dat_evd_resize(e->receives, (DAT_COUNT)a[0]));
    return 0;
}

static void many_at_once(void)
{
    enum { MANY = 601 };
    static DAT_EP_HANDLE eps[MANY];
    chapter("601 connections at once");
    CALL(near, remember_use);
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    size_t before = used().descriptors;
    CALL(near, make_room, 2 * MANY);
    at_far(make_room, 2 * MANY);
    if (!alone)
        far_begins(accept_and_keep, MANY);
    for (int i = 0; i < MANY; i++) {
        CALL(near, make_endpoint);
        MUST(ask(near, service, PATIENCE, 0, NULL));
        eps[i] = near->ep;
        if (alone)
            REQUIRE(at_far(accept_next) == 0 && (far_eps[i] = far_end.ep) &&
                    at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
        REQUIRE(CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    if (!alone)
        REQUIRE(far_ends() == 0);
    CHECK("many", "a connection takes no descriptor", used().descriptors <= before + 2);
    REQUIRE(at_far(receive_on_each, MANY) == 0);
    int wrong = 0;
    for (int i = 0; i < MANY; i++) {
        near->ep = eps[(i * 7) % MANY];
        wrong += CALL(near, send_bytes, 0, 32, 0) != 0;
        wrong += at_far(received, 1, 32, (i * 7) % MANY) != 0;
    }
    CHECK_EQ("many", "each carries its message to its own end", wrong, 0);
    for (int i = 0; i < MANY; i++)
        wrong += dat_ep_disconnect(eps[i], DAT_CLOSE_ABRUPT_FLAG) != DAT_SUCCESS;
    for (int i = 0; i < MANY; i++)
        wrong += CALL(near, next_connection) != DAT_CONNECTION_EVENT_DISCONNECTED;
    for (int i = 0; i < MANY; i++)
        wrong += dat_ep_free(eps[i]) != DAT_SUCCESS;
    near->ep = DAT_HANDLE_NULL;
    wrong += at_far(free_each, MANY);
    at_far(stop_listening);
    drain_end(near);
    CHECK_EQ("many", "and each ends with its event, at both ends", wrong, 0);
}

static void objects(void)
{
    chapter("objects without end");
    DAT_CNO_HANDLE cno;
    DAT_EVD_HANDLE evd;
    DAT_PZ_HANDLE pz;
    DAT_LMR_HANDLE lmr, on;
    DAT_RMR_HANDLE rmr;
    DAT_SRQ_HANDLE srq;
    DAT_EP_HANDLE ep;
    DAT_PSP_HANDLE psp;
    DAT_CONN_QUAL service;
    DAT_SRQ_ATTR sizes = {.max_recv_dtos = 8, .max_recv_iov = 1};
    DAT_REGION_DESCRIPTION memory = {.for_va = near->room}, base;
    for (int i = 0; i < 3000; i++) {
        if (i == 300)
            CALL(near, remember_use);
        MUST(dat_cno_create(near->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
        MUST(dat_evd_create(near->ia, 8, cno, DAT_EVD_DEFAULT_FLAG & ~DAT_EVD_ASYNC_FLAG, &evd));
        MUST(dat_pz_create(near->ia, &pz));
        MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, memory, PAGE, pz, ALL_PRIVILEGES, &lmr, NULL, NULL, NULL,
                            NULL));
        base.for_lmr_handle = lmr;
        MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_LMR, base, 0, pz, ALL_PRIVILEGES, &on, NULL, NULL, NULL, NULL));
        MUST(dat_rmr_create(pz, &rmr));
        MUST(dat_srq_create(near->ia, pz, &sizes, &srq));
        MUST(dat_ep_create(near->ia, pz, evd, evd, evd, NULL, &ep));
        MUST(dat_psp_create_any(near->ia, &service, evd, DAT_PSP_CONSUMER_FLAG, &psp));
        MUST(dat_psp_free(psp));
        MUST(dat_ep_free(ep));
        MUST(dat_srq_free(srq));
        MUST(dat_rmr_free(rmr));
        MUST(dat_lmr_free(on));
        MUST(dat_lmr_free(lmr));
        MUST(dat_pz_free(pz));
        MUST(dat_evd_free(evd));
        MUST(dat_cno_free(cno));
    }
    CHECK("many", "3,000 of every kind come and go and leave nothing", !CALL(near, grew, 4096));
    DAT_IA_HANDLE ia;
    for (int i = 0; i < 400; i++) {
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        if (i == 50)
            CALL(near, remember_use);
        MUST(dat_ia_open((DAT_NAME_PTR)adapter_name(), 8, &async, &ia));
        MUST(dat_pz_create(ia, &pz));
        MUST(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, memory, PAGE, pz, ALL_PRIVILEGES, &lmr, NULL, NULL, NULL, NULL));
        MUST(dat_evd_create(ia, 8, NULL, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, &evd));
        MUST(dat_ep_create(ia, pz, evd, evd, evd, NULL, &ep));
        MUST(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
    }
    CHECK("many", "so do 350 adapters with objects in them", !CALL(near, grew, 2048));
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    one_after_the_other();
    endpoints();
    many_at_once();
    objects();
    connect_ends();
    CHECK("many", "after all that a connection works", talks());
    part();
    return end();
}
