// Many more threads than a link has places for, each with a mix of every kind of operation on queue pairs of its own, which
// it makes and destroys over and over. Nobody stands still, nothing is lost, and all together are not slower than half of
// one alone.
//
// Usage: many_threads loopback|processes SECONDS     seconds for each number of threads

#include "common.h"

#include <pthread.h>
#include <sys/resource.h>

#define MOST 256
#define ROUND 128         // operations on one pair of queue pairs
#define LONG_BYTES 32768
#define ROOM 131072
#define COUNTER (ROOM - 64)
#define STANDSTILL_MS 40000
#define RUNS 20           // so often a disturbed measurement is made

static struct ibv_context *context;
static struct ibv_pd *pd;
static bool between_processes;
static int ends[MOST][2];  // a way for each thread to its counterpart in the other process
static bool stop;

struct worker {
    pthread_t thread;
    int number;
    int way;
    uint64_t done;         // read by the watchdog
    const char *at;
    bool over;
};

static struct worker workers[MOST];

// What a thread works with.
struct desk {
    struct worker *me;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_mw *mw;
    unsigned char *buffer;
    int received;
};

static void now_at(struct worker *me, const char *what)
{
    __atomic_store_n(&me->at, what, __ATOMIC_RELAXED);
}

static struct node node_of(struct ibv_qp *qp)
{
    struct node n = {.context = context, .type = IBV_QPT_RC, .qp = qp, .qp_access = ALL_REMOTE, .timeout = 14, .retries = 7,
                     .rnr_retries = 7, .rnr_timer = 1, .max_rd_atomic = 4};
    return n;
}

static struct ibv_qp *new_qp(struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16, .max_recv_wr = ROUND, .max_send_sge = 2, .max_recv_sge = 1},
    };
    return ibv_create_qp(pd, &init);
}

static struct card card_for(struct ibv_qp *qp, struct ibv_mr *mr, void *buffer)
{
    struct node n = node_of(qp);
    n.mr = mr;
    n.buffer = buffer;
    return card_of(&n);
}

static void connect_to(struct ibv_qp *qp, const struct card *there)
{
    struct node n = node_of(qp);
    REQUIRE(to_init(&n) == 0);
    REQUIRE(to_rtr(&n, there) == 0);
    REQUIRE(to_rts(&n, there->psn) == 0);
}

static void through(int way, const void *ours, void *theirs, size_t size)
{
    REQUIRE(send(way, ours, size, MSG_NOSIGNAL) == (ssize_t)size);
    size_t have = 0;
    while (have < size) {
        // Whoever sleeps here is served by others.
        ssize_t n = recv(way, (char *)theirs + have, size - have, 0);
        REQUIRE(n > 0);
        have += n;
    }
}

// Takes a completion if there is one; false: none. Receives are counted, requests answered by their number.
static bool take_completion(struct desk *d, uint64_t *id)
{
    struct ibv_wc wc;
    int n = ibv_poll_cq(d->cq, 1, &wc);
    REQUIRE(n >= 0);
    if (n == 0) {
        sched_yield();
        return false;
    }
    if (wc.status != IBV_WC_SUCCESS)
        printf("thread %d: %s: status %s\n", d->me->number, d->me->at, ibv_wc_status_str(wc.status));
    REQUIRE(wc.status == IBV_WC_SUCCESS);
    if (wc.opcode & IBV_WC_RECV) {
        d->received++;
        return false;
    }
    *id = wc.wr_id;
    return true;
}

static void complete(struct desk *d, uint64_t wanted)
{
    uint64_t id = 0;
    while (!take_completion(d, &id))
        ;
    REQUIRE(id == wanted);
    __atomic_add_fetch(&d->me->done, 1, __ATOMIC_RELAXED);
}

static void bind_and_register(struct desk *d, uint64_t id)
{
    now_at(d->me, "binding");
    struct ibv_mw_bind bind = {
        .wr_id = id, .send_flags = IBV_SEND_SIGNALED,
        .bind_info = {.mr = d->mr, .addr = (uintptr_t)d->buffer, .length = 4096, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE},
    };
    REQUIRE(ibv_bind_mw(d->qp, d->mw, &bind) == 0);
    complete(d, id);
    now_at(d->me, "registering");
    struct ibv_mr *mr;
    REQUIRE(mr = ibv_reg_mr(pd, d->buffer, 2 * 4096, ALL_REMOTE));
    now_at(d->me, "deregistering");
    REQUIRE(ibv_dereg_mr(mr) == 0);
}

// In two pieces: then it is carried out under three slots at once.
static int post_read(struct ibv_qp *qp, uint64_t id, struct ibv_sge here, const struct card *there)
{
    struct ibv_sge halves[2] = {here, here};
    halves[0].length = here.length / 2;
    halves[1].length = here.length - here.length / 2;
    halves[1].addr += here.length / 2;
    struct ibv_send_wr wr = {
        .wr_id = id, .sg_list = halves, .num_sge = 2, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = there->address, .rkey = there->rkey},
    }, *bad;
    return ibv_post_send(qp, &wr, &bad);
}

// A round of operations on memory of `there`; returns how often it added one to the counter.
static int operate(struct desk *d, const struct card *there)
{
    int adds = 0;
    uint32_t key = d->mr->lkey;
    for (uint64_t i = 0; i < ROUND; i++) {
        uint32_t length = i % 8 < 4 ? 64 : LONG_BYTES;
        struct ibv_sge here = piece(d->buffer + LONG_BYTES, length, key);
        int failed;
        switch (i % 4) {
        case 0:
            now_at(d->me, "a send");
            failed = post(d->qp, i, IBV_WR_SEND, here, 0, 0);
            break;
        case 1:
            now_at(d->me, "a write");
            failed = post(d->qp, i, IBV_WR_RDMA_WRITE, here, there->address, there->rkey);
            break;
        case 2:
            now_at(d->me, "a read");
            failed = post_read(d->qp, i, here, there);
            break;
        default:
            now_at(d->me, "an atomic");
            here.length = 8;
            failed = post_atomic(d->qp, i, IBV_WR_ATOMIC_FETCH_AND_ADD, here, there->address + COUNTER, there->rkey, 1, 0);
            adds++;
        }
        REQUIRE(!failed);
        complete(d, i);
        if (i % 64 == 63)
            bind_and_register(d, i);
    }
    return adds;
}

static void post_all_receives(struct desk *d, struct ibv_qp *qp)
{
    for (int i = 0; i < ROUND / 4; i++)
        REQUIRE(post_receive(qp, i, piece(d->buffer + 2 * LONG_BYTES, LONG_BYTES, d->mr->lkey)) == 0);
}

static void await_receives(struct desk *d)
{
    uint64_t id;
    now_at(d->me, "receiving");
    while (d->received < ROUND / 4)
        REQUIRE(!take_completion(d, &id));
}

// One pair of queue pairs from its beginning to its end. False: the other process is done.
static bool a_round(struct desk *d)
{
    uint64_t *counter = (uint64_t *)(d->buffer + COUNTER);
    *counter = 0;
    d->received = 0;
    now_at(d->me, "creating");
    REQUIRE(d->qp = new_qp(d->cq));
    if (!between_processes) {
        struct ibv_qp *other;
        REQUIRE(other = new_qp(d->cq));
        struct card one = card_for(d->qp, d->mr, d->buffer), two = card_for(other, d->mr, d->buffer);
        now_at(d->me, "connecting");
        connect_to(d->qp, &two);
        connect_to(other, &one);
        post_all_receives(d, other);
        REQUIRE(*counter == 0);
        REQUIRE((uint64_t)operate(d, &two) == __atomic_load_n(counter, __ATOMIC_SEQ_CST));
        await_receives(d);
        now_at(d->me, "destroying");
        REQUIRE(ibv_destroy_qp(other) == 0);
        REQUIRE(ibv_destroy_qp(d->qp) == 0);
        return true;
    }
    // Each says whether it would go on; both must want to.
    bool mine = !__atomic_load_n(&stop, __ATOMIC_SEQ_CST), theirs;
    now_at(d->me, "agreeing");
    through(d->me->way, &mine, &theirs, sizeof mine);
    if (mine && theirs) {
        struct card ours = card_for(d->qp, d->mr, d->buffer), there;
        now_at(d->me, "meeting");
        through(d->me->way, &ours, &there, sizeof ours);
        now_at(d->me, "connecting");
        connect_to(d->qp, &there);
        post_all_receives(d, d->qp);
        char here = 0;
        now_at(d->me, "meeting once connected");
        through(d->me->way, &here, &here, 1);
        int adds = operate(d, &there), theirs_added;
        await_receives(d);
        now_at(d->me, "meeting at the end");
        through(d->me->way, &adds, &theirs_added, sizeof adds);
        REQUIRE((uint64_t)theirs_added == __atomic_load_n(counter, __ATOMIC_SEQ_CST));
    }
    now_at(d->me, "destroying");
    REQUIRE(ibv_destroy_qp(d->qp) == 0);
    return mine && theirs;
}

static void *work(void *argument)
{
    struct worker *me = argument;
    struct desk d = {.me = me};
    REQUIRE(posix_memalign((void **)&d.buffer, 4096, ROOM) == 0);
    memset(d.buffer, 0, ROOM);
    REQUIRE(d.cq = ibv_create_cq(context, 2 * ROUND, NULL, NULL, 0));
    REQUIRE(d.mr = ibv_reg_mr(pd, d.buffer, ROOM, ALL_REMOTE | IBV_ACCESS_MW_BIND));
    REQUIRE(d.mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1));
    while ((between_processes || !__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) && a_round(&d))
        ;
    now_at(me, "ending");
    REQUIRE(ibv_dealloc_mw(d.mw) == 0);
    REQUIRE(ibv_dereg_mr(d.mr) == 0);
    REQUIRE(ibv_destroy_cq(d.cq) == 0);
    free(d.buffer);
    __atomic_store_n(&me->over, true, __ATOMIC_SEQ_CST);
    return NULL;
}

static uint64_t total(int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += __atomic_load_n(&workers[i].done, __ATOMIC_RELAXED);
    return sum;
}

static void nobody_stands_still(int count, uint64_t *seen, int64_t *since)
{
    for (int i = 0; i < count; i++) {
        uint64_t done = __atomic_load_n(&workers[i].done, __ATOMIC_RELAXED);
        if (done != seen[i] || __atomic_load_n(&workers[i].over, __ATOMIC_SEQ_CST)) {
            seen[i] = done;
            since[i] = now_ns();
        } else if (now_ns() - since[i] > (int64_t)STANDSTILL_MS * 1000000) {
            printf("FAIL %s thread %d of %d stands still at %s after %llu operations\n", role(), i, count, workers[i].at,
                   (unsigned long long)done);
            self.failed++;
            give_up();
        }
    }
}

// Operations a second of so many threads.
static double run(int count, int seconds)
{
    static uint64_t seen[MOST];
    static int64_t since[MOST];
    pthread_attr_t small;
    REQUIRE(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 256 * 1024) == 0);
    __atomic_store_n(&stop, false, __ATOMIC_SEQ_CST);
    if (between_processes)
        meet();
    for (int i = 0; i < count; i++) {
        workers[i] = (struct worker){.number = i, .way = ends[i][self.active ? 0 : 1], .at = "beginning"};
        seen[i] = 0;
        since[i] = now_ns();
        REQUIRE(pthread_create(&workers[i].thread, &small, work, &workers[i]) == 0);
    }
    int64_t began = now_ns();
    while (now_ns() - began < (int64_t)seconds * 1000000000) {
        usleep(20000);
        nobody_stands_still(count, seen, since);
    }
    double rate = total(count) * 1e9 / (now_ns() - began);
    __atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
    for (int left = count; left > 0;) {
        usleep(2000);
        nobody_stands_still(count, seen, since);
        left = 0;
        for (int i = 0; i < count; i++)
            left += !__atomic_load_n(&workers[i].over, __ATOMIC_SEQ_CST);
    }
    for (int i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    return rate;
}

int main(int argc, char **argv)
{
    static const int counts[] = {2, 16, 64, 256};
    if (argc != 3) {
        fprintf(stderr, "usage: many_threads loopback|processes SECONDS\n");
        return 2;
    }
    int seconds = atoi(argv[2]);
    between_processes = strcmp(argv[1], "processes") == 0;
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    if (between_processes) {
        for (int i = 0; i < MOST; i++)
            REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]) == 0);
        split();
        for (int i = 0; i < MOST; i++)
            close(ends[i][self.active ? 1 : 0]);
    }
    context = open_device();
    REQUIRE(pd = ibv_alloc_pd(context));
    double one = run(1, seconds);
    if (self.active)
        printf("    1 thread:  %.0f operations a second\n", one);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        double rate = 0;
        for (int tries = 0; tries < RUNS; tries++) {
            rate = run(counts[i], seconds);
            bool slow = rate < one / 2;
            // Measured beside others' load: a second look, at both.
            if (between_processes && self.active)
                give(&slow, sizeof slow);
            if (between_processes && !self.active)
                take(&slow, sizeof slow);
            if (!slow)
                break;
            double again = run(1, seconds);
            one = again < one ? again : one;
        }
        if (self.active) {
            printf("  %3d threads: %.0f operations a second\n", counts[i], rate);
            CHECK("many-threads", "many threads together are not slower than half of one alone", rate >= one / 2);
        }
    }
    REQUIRE(ibv_dealloc_pd(pd) == 0);
    REQUIRE(ibv_close_device(context) == 0);
    CHECK("many-threads", "nobody stood still", true);
    return between_processes ? finish() : finish_alone();
}
