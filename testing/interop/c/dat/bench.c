// Speed of uDAPL beside verbs, measured in turn within the same run: every round measures the limit, then the call, and the
// ratio is taken round by round. A row shows the least, the median and the most.
//
// Usage: bench [--quick]      --quick: few repetitions, to prove that it runs. Exits with 1 if a goal was missed.

#include "ends.h"
#include "bench_verbs_side.h"
#include "../bench.h"

#include <sys/resource.h>

#define MIB (1ul << 20)

// ---- figures ------------------------------------------------------------------------------------------------------

static void figure(const char *name, double value, const char *unit, double goal, bool at_least)
{
    printf("%-46s%10.1f %s", name, value, unit);
    if (goal > 0) {
        bool kept = at_least ? value >= goal : value <= goal;
        missed += !kept;
        printf("   %s %.1f: %s", at_least ? "at least" : "at most", goal, kept ? "kept" : "MISSED");
    }
    printf("\n");
}

// ---- transfers ----------------------------------------------------------------------------------------------------

static void poll_one(DAT_EVD_HANDLE evd)
{
    DAT_EVENT event;
    DAT_RETURN code;
    while ((code = dat_evd_dequeue(evd, &event)) == DAT_QUEUE_EMPTY)
        ;
    REQUIRE(code == DAT_SUCCESS && event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS);
}

static void send_one(struct end *e)
{
    DAT_LMR_TRIPLET p = piece(e->local, e->room, 8);
    MUST(dat_ep_post_send(e->ep, 1, &p, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
}

static void receive_one(struct end *e)
{
    DAT_LMR_TRIPLET p = piece(e->local, e->room + PAGE, 64);
    poll_one(e->receives);
    MUST(dat_ep_post_recv(e->ep, 1, &p, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
}

static int64_t post_receives(struct end *e, const int64_t *a)
{
    (void)a;
    for (int i = 0; i < 8; i++)
        REQUIRE(CALL(e, receive, PAGE, 64, 1) == 0);
    return 0;
}

static int64_t echo(struct end *e, const int64_t *a)
{
    for (int64_t i = 0; i < a[0]; i++) {
        receive_one(e);
        send_one(e);
        poll_one(e->requests);
    }
    return 0;
}

static double ping(int iterations)
{
    far_begins(echo, iterations);
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++) {
        send_one(near);
        receive_one(near);
        poll_one(near->requests);
    }
    double took = since(began, iterations);
    far_ends();
    return took;
}

static int64_t echo_verbs(struct end *e, const int64_t *a)
{
    (void)e;
    verbs_echo((int)a[0]);
    return 0;
}

static double ping_verbs(int iterations)
{
    far_begins(echo_verbs, iterations);
    int64_t began = now_ns();
    verbs_send(iterations);
    double took = since(began, iterations);
    far_ends();
    return took;
}

static DAT_RMR_CONTEXT there_context;
static uint64_t there;

static double write_of(int iterations, size_t length)
{
    DAT_LMR_TRIPLET p = piece(near->local, near->room, length);
    DAT_RMR_TRIPLET t = target(there_context, there, length);
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++) {
        MUST(dat_ep_post_rdma_write(near->ep, 1, &p, cookie(1), &t, DAT_COMPLETION_DEFAULT_FLAG));
        poll_one(near->requests);
    }
    return since(began, iterations);
}

static double verbs_write_of(int iterations, unsigned length)
{
    int64_t began = now_ns();
    verbs_write(iterations, length);
    return since(began, iterations);
}

static double write_small(int iterations) { return write_of(iterations, 8); }
static double write_large(int iterations) { return write_of(iterations, MIB); }
static double verbs_write_small(int iterations) { return verbs_write_of(iterations, 8); }
static double verbs_write_large(int iterations) { return verbs_write_of(iterations, MIB); }

// ---- memory -------------------------------------------------------------------------------------------------------

static DAT_RMR_HANDLE rmr;

static double bind_window(int iterations)
{
    DAT_LMR_TRIPLET p = piece(near->local, near->room, PAGE);
    DAT_RMR_CONTEXT context;
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++) {
        MUST(dat_rmr_bind(rmr, &p, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, near->ep, cookie(1), DAT_COMPLETION_DEFAULT_FLAG,
                          &context));
        poll_one(near->requests);
    }
    return since(began, iterations);
}

// Only the making is measured.
static double region_on_region(int iterations)
{
    enum { BATCH = 64 };
    DAT_LMR_HANDLE made[BATCH];
    DAT_LMR_CONTEXT local;
    DAT_RMR_CONTEXT remote;
    DAT_REGION_DESCRIPTION base = {.for_lmr_handle = near->lmr};
    int64_t took = 0;
    int done = 0;
    while (done < iterations) {
        int64_t began = now_ns();
        for (int i = 0; i < BATCH; i++)
            MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_LMR, base, 0, near->pz, ALL_PRIVILEGES, &made[i], &local,
                                &remote, NULL, NULL));
        took += now_ns() - began;
        for (int i = 0; i < BATCH; i++)
            MUST(dat_lmr_free(made[i]));
        done += BATCH;
    }
    return (double)took / done;
}

static double plain_region(int iterations)
{
    DAT_LMR_HANDLE made;
    DAT_REGION_DESCRIPTION what = {.for_va = near->room};
    int64_t took = 0;
    for (int i = 0; i < iterations; i++) {
        int64_t began = now_ns();
        MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, what, PAGE, near->pz, ALL_PRIVILEGES, &made, NULL, NULL,
                            NULL, NULL));
        took += now_ns() - began;
        MUST(dat_lmr_free(made));
    }
    return (double)took / iterations;
}

static size_t sync_length = MIB;

static double sync_writes(int iterations)
{
    DAT_LMR_TRIPLET p = piece(near->local, near->room, sync_length);
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        MUST(dat_lmr_sync_rdma_write(near->ia, &p, 1));
    return since(began, iterations);
}

static double sync_reads(int iterations)
{
    DAT_LMR_TRIPLET p = piece(near->local, near->room, PAGE);
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        MUST(dat_lmr_sync_rdma_read(near->ia, &p, 1));
    return since(began, iterations);
}

// ---- memory that is not coherent ----------------------------------------------------------------------------------

static int64_t reopen(struct end *e, const int64_t *a)
{
    (void)a;
    MUST(dat_ia_close(e->ia, DAT_CLOSE_ABRUPT_FLAG));
    setenv("DAT_TEST_ADAPTER", "nonic-noncoherent", 1);
    open_end(e);
    return 0;
}

// The far end writes one page in so many.
static int64_t write_pages(struct end *e, const int64_t *a)
{
    for (int64_t i = 0; i < a[2]; i++)
        if (CALL(e, write_there, 0, PAGE, a[0], a[1] + i * (int64_t)PAGE * a[3], 0))
            return 1;
    return 0;
}

static int dirty_pages, page_step;

static double sync_dirty(int iterations)
{
    DAT_LMR_TRIPLET p = piece(near->local, near->room, sync_length);
    int64_t took = 0;
    for (int i = 0; i < iterations; i++) {
        REQUIRE(at_far(write_pages, near->remote, (int64_t)address_of(near->room), dirty_pages, page_step) == 0);
        int64_t began = now_ns();
        MUST(dat_lmr_sync_rdma_write(near->ia, &p, 1));
        took += now_ns() - began;
    }
    return (double)took / iterations;
}

static void not_coherent(void)
{
    part();
    at_far(reopen);
    CALL(near, reopen);
    REQUIRE(!coherent);
    connect_ends();
    dirty_pages = 0;
    double untouched = row("sync of 1 MiB, nothing written, not coherent", sync_dirty, NULL, NULL, 100, 0);
    dirty_pages = 4;
    page_step = 64;
    row("... 4 pages of it written", sync_dirty, NULL, NULL, 100, 0);
    sync_length = 4 * PAGE;
    page_step = 1;
    double near_by = row("sync of 16 KiB, all 4 pages of it written", sync_dirty, NULL, NULL, 100, 0);
    sync_length = MIB;
    dirty_pages = 256;
    double all = row("sync of 1 MiB, all 256 pages of it written", sync_dirty, NULL, NULL, 20, 0);
    figure("a page nobody wrote to one that was written", untouched / 256 / (near_by / 4), "times", 1, false);
    figure("256 pages to 4 pages, by page", all / 256 / (near_by / 4), "times", 3, false);
}

// ---- asleep -------------------------------------------------------------------------------------------------------

static double cpu_ms(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
}

static long switches(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_nvcsw;
}

// Waits until the near end sleeps, then a while, then sends.
static int64_t send_later(struct end *e, const int64_t *a)
{
    await_asleep((pid_t)a[0], (pid_t)a[0]);
    nanosleep(&(struct timespec){.tv_nsec = a[1] * 1000000}, NULL);
    send_one(e);
    poll_one(e->requests);
    return 0;
}

static void asleep(void)
{
    DAT_EVENT event;
    DAT_COUNT more;
    int64_t wait_ms = (int64_t)(800 * quick) + 100;
    struct series cpu = {0}, wakes = {0};
    for (int i = 0; i < 3; i++) {
        far_begins(send_later, getpid(), wait_ms);
        double before = cpu_ms();
        long woken = switches();
        MUST(dat_evd_wait(near->receives, PATIENCE, 1, &event, &more));
        cpu.value[cpu.count++] = (cpu_ms() - before) * 1000.0 / (double)(wait_ms + 3);
        wakes.value[wakes.count++] = (double)(switches() - woken);
        far_ends();
        REQUIRE(CALL(near, receive, PAGE, 64, 1) == 0);
    }
    figure("asleep in dat_evd_wait: CPU of a second", at_rank(&cpu, 50), "ms", 1, false);
    // One for the wait; the agent's turn to sleep may be in the span as well.
    figure("... times the process gave up a CPU", at_rank(&wakes, 50), "", 3, false);
}

// ---- connections and endpoints ------------------------------------------------------------------------------------

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

static void connections(void)
{
    int count = (int)(3000 * quick) + 100;
    part();
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    far_begins(accept_many, count);
    int64_t began = now_ns();
    for (int i = 0; i < count; i++) {
        CALL(near, make_endpoint);
        MUST(ask(near, service, PATIENCE, 0, NULL));
        REQUIRE(CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
        MUST(dat_ep_disconnect(near->ep, DAT_CLOSE_ABRUPT_FLAG));
        REQUIRE(CALL(near, next_connection) == DAT_CONNECTION_EVENT_DISCONNECTED);
        CALL(near, drop_endpoint);
    }
    figure("connections made and ended, a second", count / ((now_ns() - began) / 1e9), "", 1000, true);
    REQUIRE(far_ends() == 0);
    at_far(stop_listening);
}

static long resident_kib(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long kib = 0;
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "VmRSS: %ld", &kib);
    if (f)
        fclose(f);
    return kib;
}

static void endpoints(void)
{
    enum { MANY = 10000 };
    static DAT_EP_HANDLE eps[MANY];
    long before = resident_kib();
    int64_t began = now_ns();
    for (int i = 0; i < MANY; i++)
        MUST(dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->connections, NULL, &eps[i]));
    figure("10,000 endpoints, made in", (now_ns() - began) / 1e6, "ms", 2000, false);
    figure("... memory of each", (resident_kib() - before) * 1024.0 / MANY, "bytes", 0, false);
    began = now_ns();
    for (int i = 0; i < MANY; i++)
        MUST(dat_ep_free(eps[i]));
    figure("... freed in", (now_ns() - began) / 1e6, "ms", 2000, false);
}

// ---- the run ------------------------------------------------------------------------------------------------------

static int64_t prepare(struct end *e, const int64_t *a)
{
    pin((int)a[0]);
    verbs_connect(self.peer, self.active, self.other);
    memset(e->room, 1, ROOM); // pages that nobody has written to are all one page
    return 0;
}

int main(int argc, char **argv)
{
    if (has_word(argc, argv, "--quick")) {
        quick = 0.02;
        rounds = 3;
    }
    begin(argc, argv);
    REQUIRE(!alone && coherent);
    cpu_set_t set;
    int cpus[2] = {0, 0}, count = 0;
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < CPU_SETSIZE && count < 2; i++)
        if (CPU_ISSET(i, &set))
            cpus[count++] = i;
    if (count < 2)
        cpus[1] = cpus[0];
    polling = true;
    far_begins(prepare, cpus[1]);
    CALL(near, prepare, cpus[0]);
    REQUIRE(far_ends() == 0);
    connect_ends();
    CALL(near, post_receives);
    at_far(post_receives);
    there_context = (DAT_RMR_CONTEXT)at_far(far_context);
    there = (uint64_t)at_far(far_address);
    MUST(dat_rmr_create(near->pz, &rmr));
    printf("%-46s%10s%10s%10s   %-28s%10s  %7s%7s%7s\n", "nanoseconds", "least", "median", "most", "limit", "median",
           "ratio:", "", "");
    row("send of 8 B, there and back, both polling", ping, "verbs", ping_verbs, 20000, 1.5);
    row("RDMA write of 8 B to its completion", write_small, "verbs", verbs_write_small, 100000, 1.5);
    row("RDMA write of 1 MiB to its completion", write_large, "verbs", verbs_write_large, 200, 1.1);
    row("dat_rmr_bind to its completion", bind_window, NULL, NULL, 100000, 500);
    row("dat_lmr_create on an LMR", region_on_region, NULL, NULL, 20000, 500);
    row("dat_lmr_create of 4 KiB", plain_region, NULL, NULL, 5000, 0);
    row("dat_lmr_sync_rdma_write of 1 MiB, coherent", sync_writes, NULL, NULL, 500000, 50);
    row("dat_lmr_sync_rdma_read of 4 KiB, coherent", sync_reads, NULL, NULL, 500000, 50);
    asleep();
    MUST(dat_rmr_free(rmr));
    connections();
    endpoints();
    connect_ends();
    not_coherent();
    printf("%d goals missed\n", missed);
    part();
    far_begins(exit_now);
    waitpid(self.other, NULL, 0);
    return missed && quick == 1;
}
