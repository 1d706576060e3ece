// Measures what the project promises about speed and idle cost, through the C library, with the machine's own limits
// measured in the same run. One line a figure: name, value, unit, and the promise where there is one.
//
// Usage: bench_verbs [--quick] [--idle SECONDS]      --quick: few repetitions, to prove that it runs

#include "common.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/uio.h>

static bool quick;

static void figure(const char *name, double value, const char *unit, const char *promise)
{
    if (self.active)
        printf("%-58s %12.3f %-6s %s\n", name, value, unit, promise);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile_us(int64_t *ns, int count, double part)
{
    qsort(ns, count, sizeof *ns, by_value);
    return ns[(int)((count - 1) * part)] / 1000.0;
}

static long status_kib(const char *field)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, field, strlen(field)))
            sscanf(line + strlen(field), ": %ld", &kib);
    if (f)
        fclose(f);
    return kib;
}

static double cpu_ms(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
}

// ---- the machine's own limits --------------------------------------------------------------------------------------

// Two processes wake each other by eventfd.
static void reference_eventfd(const int *fds)
{
    int rounds = quick ? 2000 : 50000;
    static int64_t took[50000];
    uint64_t one = 1;
    meet();
    for (int i = 0; i < rounds; i++) {
        int64_t start = now_ns();
        if (self.active)
            REQUIRE(write(fds[0], &one, 8) == 8 && read(fds[1], &one, 8) == 8);
        else
            REQUIRE(read(fds[0], &one, 8) == 8 && write(fds[1], &one, 8) == 8);
        took[i] = (now_ns() - start) / 2;
    }
    figure("reference: eventfd, half round trip, median", percentile_us(took, rounds, 0.5), "us", "");
}

static void reference_process_vm(void)
{
    static const size_t sizes[] = {8, 65536, 1 << 20};
    enum { LARGEST = 1 << 20 };
    unsigned char *bytes = aligned_alloc(4096, LARGEST);
    REQUIRE(bytes);
    memset(bytes, self.active ? 1 : 2, LARGEST);
    struct {
        pid_t pid;
        void *bytes;
    } ours = {getpid(), bytes}, theirs;
    swap_values(&ours, &theirs, sizeof ours);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && self.active; i++) {
        int rounds = (int)((quick ? 1 : 20) * ((64u << 20) / (sizes[i] + 16384)));
        struct iovec here = {bytes, sizes[i]}, there = {theirs.bytes, sizes[i]};
        char name[80];
        int64_t start = now_ns();
        ssize_t moved = 0;
        for (int k = 0; k < rounds && moved >= 0; k++)
            moved = process_vm_writev(theirs.pid, &here, 1, &there, 1, 0);
        double us = (now_ns() - start) / 1000.0 / rounds;
        if (moved < 0) {
            printf("reference: process_vm_writev is not allowed here (%s)\n", strerror(errno));
            break;
        }
        snprintf(name, sizeof name, "reference: process_vm_writev of %zu bytes", sizes[i]);
        figure(name, us, "us", "");
        if (sizes[i] >= 65536) {
            snprintf(name, sizeof name, "reference: process_vm_writev of %zu bytes, rate", sizes[i]);
            figure(name, sizes[i] / us / 1000.0, "GB/s", "");
        }
    }
    meet();
    free(bytes);
}

// ---- costs of being there ------------------------------------------------------------------------------------------

static void opening(void)
{
    int rounds = quick ? 5 : 50;
    int64_t took[50];
    if (self.active) {
        long before = status_kib("VmRSS");
        int64_t start = now_ns();
        struct ibv_context *first = open_device();
        int64_t took_first = now_ns() - start;
        long after = status_kib("VmRSS");
        figure("open device, the first of a process", took_first / 1e6, "ms", "promise: under 5");
        figure("resident memory of an open device", (after - before) / 1024.0, "MiB", "promise: under 4");
        for (int i = 0; i < rounds; i++) {
            start = now_ns();
            struct ibv_context *context = open_device();
            took[i] = now_ns() - start;
            REQUIRE(ibv_close_device(context) == 0);
        }
        figure("open device, further ones, median", percentile_us(took, rounds, 0.5) / 1000, "ms", "promise: under 5");
        REQUIRE(ibv_close_device(first) == 0);
    }
    meet();
}

static void idling(double seconds)
{
    struct ibv_context *context = open_device();
    meet();
    double cpu = cpu_ms();
    struct timespec rest = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (time_t)seconds) * 1e9)};
    while (nanosleep(&rest, &rest) && errno == EINTR)
        ;
    double used = cpu_ms() - cpu;
    char name[80];
    snprintf(name, sizeof name, "CPU of an open device without traffic, over %.0f s", seconds);
    figure(name, used, "ms", "promise: none");
    meet();
    REQUIRE(ibv_close_device(context) == 0);
}

// The same with a connection that has carried something: its peer is idle as well.
static void idling_connected(struct node *n, double seconds)
{
    bring_up(n);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 1, piece(n->buffer, 64, n->mr->lkey)) == 0);
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 1, IBV_WR_SEND, piece(n->buffer, 8, n->mr->lkey), 0, 0) == 0);
        REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
    } else {
        REQUIRE(next_completion(n->recv_cq).status == IBV_WC_SUCCESS);
    }
    meet();
    struct timespec settle = {.tv_nsec = 200000000}, rest = {.tv_sec = (time_t)seconds};
    nanosleep(&settle, NULL);
    double cpu = cpu_ms();
    nanosleep(&rest, NULL);
    char name[80];
    snprintf(name, sizeof name, "CPU of an idle connection, over %.0f s", seconds);
    figure(name, cpu_ms() - cpu, "ms", "promise: none");
    meet();
}

static void registering(struct node *n)
{
    enum { ROUNDS = 20000 };
    static int64_t took[ROUNDS], back[ROUNDS];
    int rounds = quick ? 1000 : ROUNDS;
    for (int i = 0; i < rounds && self.active; i++) {
        int64_t start = now_ns();
        struct ibv_mr *mr = ibv_reg_mr(n->pd, n->buffer, 4096, ALL_REMOTE);
        took[i] = now_ns() - start;
        REQUIRE(mr);
        start = now_ns();
        REQUIRE(ibv_dereg_mr(mr) == 0);
        back[i] = now_ns() - start;
    }
    if (self.active) {
        figure("register 4 KiB, median", percentile_us(took, rounds, 0.5), "us", "promise: under 2");
        figure("register 4 KiB, 99 %", percentile_us(took, rounds, 0.99), "us", "");
        figure("deregister 4 KiB, median", percentile_us(back, rounds, 0.5), "us", "");
    }
    meet();
}

// Rights alone: now peers may read, now they may write, too.
static void changing_rights(struct node *n)
{
    enum { ROUNDS = 20000 };
    static int64_t took[ROUNDS];
    int rounds = quick ? 1000 : ROUNDS;
    struct ibv_mr *mr = ibv_reg_mr(n->pd, n->buffer, 4096, ALL_REMOTE);
    REQUIRE(mr);
    for (int i = 0; i < rounds && self.active; i++) {
        int rights = i % 2 ? ALL_REMOTE : IBV_ACCESS_REMOTE_READ;
        int64_t start = now_ns();
        REQUIRE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, rights) == 0);
        took[i] = now_ns() - start;
    }
    REQUIRE(ibv_dereg_mr(mr) == 0);
    if (self.active) {
        figure("change the rights of a region, median", percentile_us(took, rounds, 0.5), "us", "promise: under 3");
        figure("change the rights of a region, 99 %", percentile_us(took, rounds, 0.99), "us", "");
    }
    meet();
}

static void many_queue_pairs(struct node *n)
{
    enum { MANY = 10000 };
    static struct ibv_qp *qps[MANY];
    if (self.active) {
        struct ibv_qp_cap cap = n->cap;
        n->cap = (struct ibv_qp_cap){.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1};
        long before = status_kib("VmRSS");
        int64_t start = now_ns();
        int made = 0;
        while (made < MANY && (qps[made] = make_qp(n, IBV_QPT_RC)))
            made++;
        double seconds = (now_ns() - start) / 1e9;
        long after = status_kib("VmRSS");
        if (made < MANY)
            printf("only %d of %d queue pairs could be made: %s\n", made, MANY, strerror(errno));
        figure("10,000 queue pairs, made in", seconds, "s", "promise: under 1");
        figure("10,000 queue pairs, memory of each, idle", (after - before) * 1024.0 / (made ? made : 1), "bytes",
               "promise: under 1024");
        start = now_ns();
        for (int i = 0; i < made; i++)
            REQUIRE(ibv_destroy_qp(qps[i]) == 0);
        figure("10,000 queue pairs, destroyed in", (now_ns() - start) / 1e9, "s", "");
        n->cap = cap;
    }
    meet();
}

// ---- transfers -----------------------------------------------------------------------------------------------------

static void send_latency(struct node *n)
{
    enum { ROUNDS = 100000 };
    static int64_t took[ROUNDS];
    int rounds = quick ? 2000 : ROUNDS;
    bring_up(n);
    for (int i = 0; i < 16; i++)
        REQUIRE(post_receive(n->qp, i, piece(n->buffer + 4096, 64, n->mr->lkey)) == 0);
    meet();
    for (int i = 0; i < rounds; i++) {
        struct ibv_wc wc;
        int64_t start = now_ns();
        if (self.active)
            REQUIRE(post(n->qp, 1, IBV_WR_SEND, piece(n->buffer, 8, n->mr->lkey), 0, 0) == 0);
        int got;
        while ((got = ibv_poll_cq(n->recv_cq, 1, &wc)) == 0)
            ;
        REQUIRE(got == 1 && wc.status == IBV_WC_SUCCESS);
        if (!self.active)
            REQUIRE(post(n->qp, 1, IBV_WR_SEND, piece(n->buffer, 8, n->mr->lkey), 0, 0) == 0);
        took[i] = (now_ns() - start) / 2;
        while ((got = ibv_poll_cq(n->send_cq, 1, &wc)) == 0)
            ;
        REQUIRE(got == 1 && wc.status == IBV_WC_SUCCESS);
        REQUIRE(post_receive(n->qp, 1, piece(n->buffer + 4096, 64, n->mr->lkey)) == 0);
    }
    figure("RC send of 8 bytes, both polling, half round trip, median", percentile_us(took, rounds, 0.5), "us",
           "promise: at most 1");
    figure("RC send of 8 bytes, both polling, half round trip, 99 %", percentile_us(took, rounds, 0.99), "us", "");
    meet();
}

// Keeps up to 16 requests of this kind outstanding; the rate and the time of each.
static void rate_of(struct node *n, const char *what, enum ibv_wr_opcode opcode, uint32_t length, int rounds)
{
    enum { LARGEST = 1 << 20 };
    unsigned char *bytes = aligned_alloc(4096, LARGEST);
    char name[80];
    REQUIRE(bytes);
    memset(bytes, 1, LARGEST);
    struct ibv_mr *mr = ibv_reg_mr(n->pd, bytes, LARGEST, ALL_REMOTE);
    REQUIRE(mr);
    bring_up(n);
    struct card ours = {.rkey = mr->rkey, .address = (uintptr_t)bytes}, theirs;
    swap_values(&ours, &theirs, sizeof ours);
    if (self.active) {
        if (quick)
            rounds = rounds / 20 + 16;
        int posted = 0, done = 0;
        int64_t start = now_ns();
        while (done < rounds) {
            struct ibv_wc wc[16];
            struct ibv_sge sge = piece(bytes, length, mr->lkey);
            while (posted < rounds && posted - done < 16) {
                bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
                REQUIRE((atomic ? post_atomic(n->qp, 1, opcode, sge, theirs.address, theirs.rkey, 1, 0)
                                : post(n->qp, 1, opcode, sge, theirs.address, theirs.rkey)) == 0);
                posted++;
            }
            int got = ibv_poll_cq(n->send_cq, 16, wc);
            REQUIRE(got >= 0);
            for (int i = 0; i < got; i++)
                REQUIRE(wc[i].status == IBV_WC_SUCCESS);
            done += got;
        }
        double us = (now_ns() - start) / 1000.0 / rounds;
        snprintf(name, sizeof name, "%s of %u bytes", what, length);
        figure(name, us, "us", "");
        if (length >= 65536) {
            snprintf(name, sizeof name, "%s of %u bytes, rate", what, length);
            figure(name, length / us / 1000.0, "GB/s",
                   opcode == IBV_WR_RDMA_WRITE && length == 65536 ? "promise: as process_vm_writev" : "");
        }
    }
    meet();
    drop_qp(n);
    REQUIRE(ibv_dereg_mr(mr) == 0);
    free(bytes);
}

// ---- reading completions -------------------------------------------------------------------------------------------

enum { TURNS = 256 };

static void write_some(struct node *n, const struct card *theirs, int count)
{
    for (int i = 0; i < count; i++)
        REQUIRE(post(n->qp, i, IBV_WR_RDMA_WRITE, piece(n->buffer, 8, n->mr->lkey), theirs->address, theirs->rkey) == 0);
}

// Reads so many completions; what a program looks at is added up, so that it is looked at.
static uint64_t read_plainly(struct ibv_cq *cq, int count)
{
    struct ibv_wc wc[16];
    uint64_t sum = 0;
    for (int done = 0, got; done < count; done += got) {
        REQUIRE((got = ibv_poll_cq(cq, count - done, wc)) >= 0);
        for (int i = 0; i < got; i++)
            sum += wc[i].wr_id + wc[i].status + wc[i].opcode + wc[i].qp_num;
    }
    return sum;
}

static uint64_t read_one_by_one(struct ibv_cq_ex *cq, int count)
{
    struct ibv_poll_cq_attr attr = {0};
    uint64_t sum = 0;
    for (int done = 0; done < count;) {
        if (ibv_start_poll(cq, &attr))
            continue;
        do
            sum += cq->wr_id + cq->status + ibv_wc_read_opcode(cq) + ibv_wc_read_qp_num(cq);
        while (++done < count && ibv_next_poll(cq) == 0);
        ibv_end_poll(cq);
    }
    return sum;
}

// Nanoseconds each of writes and the reading of their completions, so many a turn.
static double turns_of(struct node *n, const struct card *theirs, int count, struct ibv_cq_ex *extended, uint64_t *sum)
{
    int64_t start = now_ns();
    for (int i = 0; i < TURNS; i++) {
        write_some(n, theirs, count);
        *sum += extended ? read_one_by_one(extended, count) : read_plainly(n->send_cq, count);
    }
    return (double)(now_ns() - start) / TURNS / count;
}

// The same of the reading alone: everything is there.
static double reading_of(struct node *n, const struct card *theirs, int count, struct ibv_cq_ex *extended, uint64_t *sum)
{
    write_some(n, theirs, TURNS);
    int64_t start = now_ns();
    for (int i = 0; i < TURNS; i += count)
        *sum += extended ? read_one_by_one(extended, count) : read_plainly(n->send_cq, count);
    return (double)(now_ns() - start) / TURNS;
}

static double poll_in_vain(struct ibv_cq_ex *cq, bool extended)
{
    enum { LOOKS = 20000 };
    struct ibv_poll_cq_attr attr = {0};
    struct ibv_wc wc[16];
    int64_t start = now_ns();
    for (int i = 0; i < LOOKS; i++)
        REQUIRE(extended ? ibv_start_poll(cq, &attr) == ENOENT : ibv_poll_cq(ibv_cq_ex_to_cq(cq), 16, wc) == 0);
    return (double)(now_ns() - start) / LOOKS;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compare(const char *what, double *plain, double *extended, int rounds, const char *promise)
{
    double ratio[201];
    char name[80];
    for (int i = 0; i < rounds; i++)
        ratio[i] = extended[i] / plain[i];
    qsort(plain, rounds, sizeof *plain, by_size);
    qsort(extended, rounds, sizeof *extended, by_size);
    qsort(ratio, rounds, sizeof *ratio, by_size);
    snprintf(name, sizeof name, "%s, ibv_poll_cq, median", what);
    figure(name, plain[rounds / 2], "ns", "");
    snprintf(name, sizeof name, "%s, ibv_start_poll, median", what);
    figure(name, extended[rounds / 2], "ns", "");
    snprintf(name, sizeof name, "%s, ratio", what);
    figure(name, ratio[rounds / 2], "", promise);
}

static void reading_completions(struct node *n)
{
    static const struct {
        const char *what;
        double (*measure)(struct node *, const struct card *, int, struct ibv_cq_ex *, uint64_t *);
        int count;
        const char *promise;
    } ways[] = {
        {"8 bytes written, completions read 16 a turn", turns_of, 16, "promise: at most 1.05"},
        {"8 bytes written, completions read singly", turns_of, 1, "promise: at most 1.05"},
        // A call for each field that is read, where ibv_poll_cq has written it to memory.
        {"completions read 16 a turn", reading_of, 16, ""},
        {"completions read singly", reading_of, 1, "promise: at most 1.05"},
    };
    struct ibv_cq_init_attr_ex init = {.cqe = TURNS, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(n->context, &init);
    struct ibv_cq *before = n->send_cq;
    struct ibv_qp_cap cap = n->cap;
    REQUIRE(cq);
    drop_qp(n);
    n->send_cq = ibv_cq_ex_to_cq(cq);
    n->cap.max_send_wr = TURNS;
    struct card theirs = bring_up(n);
    if (self.active) {
        int rounds = quick ? 11 : 201;
        double plain[201], extended[201];
        uint64_t sums[2] = {0};
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            for (int i = 0; i < rounds; i++) {
                plain[i] = ways[w].measure(n, &theirs, ways[w].count, NULL, &sums[0]);
                extended[i] = ways[w].measure(n, &theirs, ways[w].count, cq, &sums[1]);
            }
            REQUIRE(sums[0] == sums[1]);
            compare(ways[w].what, plain, extended, rounds, ways[w].promise);
        }
        for (int i = 0; i < rounds; i++) {
            plain[i] = poll_in_vain(cq, false);
            extended[i] = poll_in_vain(cq, true);
        }
        compare("polls in vain", plain, extended, rounds, "promise: at most 1.05");
    }
    meet();
    drop_qp(n);
    REQUIRE(ibv_destroy_cq(n->send_cq) == 0);
    n->send_cq = before;
    n->cap = cap;
}

int main(int argc, char **argv)
{
    double idle = 10;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--idle") && i + 1 < argc)
            idle = atof(argv[++i]);
    }
    int fds[2] = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};
    split();
    reference_eventfd(fds);
    reference_process_vm();
    opening();
    idling(idle);
    struct node n = open_node();
    registering(&n);
    changing_rights(&n);
    many_queue_pairs(&n);
    send_latency(&n);
    reading_completions(&n);
    rate_of(&n, "RDMA write", IBV_WR_RDMA_WRITE, 8, 200000);
    rate_of(&n, "RDMA write", IBV_WR_RDMA_WRITE, 65536, 20000);
    rate_of(&n, "RDMA write", IBV_WR_RDMA_WRITE, 1 << 20, 2000);
    rate_of(&n, "RDMA read", IBV_WR_RDMA_READ, 65536, 20000);
    rate_of(&n, "fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 200000);
    idling_connected(&n, idle);
    drop_qp(&n);
    REQUIRE(ibv_dereg_mr(n.mr) == 0 && ibv_destroy_cq(n.send_cq) == 0 && ibv_destroy_cq(n.recv_cq) == 0);
    REQUIRE(ibv_dealloc_pd(n.pd) == 0 && ibv_close_device(n.context) == 0);
    meet();
    return 0;
}
