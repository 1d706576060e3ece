// One process survives; its peers are killed with SIGKILL at random points under load, one after another.
//
// Each round a fresh peer opens a device, connects, and both sides send, write, read and add as fast as they can.
// Then the peer dies. The survivor must get a completion for every request it posted, in time, with a status that
// tells the truth, must be able to connect to the next peer, and must lose nothing by it: no descriptor, no mapping,
// no socket name, no memory.
//
// proves: issue "kill -9 of either side", verbs-abi 7.4 (no answer, flush)
//
// Usage: survivor ROUNDS SEED

#include "common.h"

#include <dirent.h>
#include <sys/prctl.h>

#define ROOM (256 * 1024)
#define WINDOW 24    // requests outstanding on the send queue
#define RECEIVES 48  // receives kept posted
#define WARM_UP 4    // rounds after which nothing may grow any more
#define SETTLE_MS 10000

enum kind { FORK = 1, PID, CARD, READY, DIED, QUIT };

// Everything that crosses the socket pair. A message of another round is stale: its writer or reader was killed.
struct message {
    enum kind kind;
    uint32_t round;
    pid_t pid;
    struct card card;
};

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 11) % limit);
}

static void tell(int fd, enum kind kind, uint32_t round, pid_t pid, const struct card *card)
{
    struct message m = {.kind = kind, .round = round, .pid = pid};
    if (card)
        m.card = *card;
    if (send(fd, &m, sizeof m, MSG_NOSIGNAL) != sizeof m)
        _exit(3);
}

// The next message of this round; kind 0 when none comes in time.
static struct message hear(int fd, uint32_t round, int wait_ms)
{
    struct message m;
    int64_t deadline = now_ns() + (int64_t)wait_ms * 1000000;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = (deadline - now_ns()) / 1000000;
        int ready = poll(&p, 1, left > 0 ? (int)left : 0);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0 || recv(fd, &m, sizeof m, 0) != sizeof m) {
            memset(&m, 0, sizeof m);
            return m;
        }
        if (m.round == round)
            return m;
    }
}

// ---- load --------------------------------------------------------------------------------------------------------

struct load {
    struct node *node;
    struct card there;
    int sends, receives; // outstanding
    uint64_t posted, done, wrong;
    bool broken;         // an error completion came: post no more
    int first_status;
};

static bool post_next(struct load *l)
{
    struct node *n = l->node;
    struct ibv_sge sge = piece(n->buffer, 512, n->mr->lkey);
    uint64_t id = l->posted;
    int failed;
    switch (id % 6) {
    case 0:
        failed = post(n->qp, id, IBV_WR_SEND, sge, 0, 0);
        break;
    case 1:
        sge.length = 65536;
        failed = post(n->qp, id, IBV_WR_RDMA_WRITE, sge, l->there.address + 65536, l->there.rkey);
        break;
    case 2:
        sge.length = 16384;
        sge.addr += 131072;
        failed = post(n->qp, id, IBV_WR_RDMA_READ, sge, l->there.address, l->there.rkey);
        break;
    case 3:
        sge.length = 8;
        sge.addr += ROOM - 8;
        failed = post_atomic(n->qp, id, IBV_WR_ATOMIC_FETCH_AND_ADD, sge, l->there.address + ROOM - 16, l->there.rkey, 1,
                             0);
        break;
    case 4:
        sge.length = 4096;
        failed = post(n->qp, id, IBV_WR_RDMA_WRITE_WITH_IMM, sge, l->there.address + 8192, l->there.rkey);
        break;
    default:
        sge.length = 8;
        failed = post(n->qp, id, IBV_WR_SEND, sge, 0, 0);
        break;
    }
    if (!failed) {
        l->posted++;
        l->sends++;
    }
    return !failed;
}

static void post_receives(struct load *l)
{
    while (l->receives < RECEIVES && post_receive(l->node->qp, 0, piece(l->node->buffer, 4096, l->node->mr->lkey)) == 0)
        l->receives++;
}

static void count(struct load *l, const struct ibv_wc *wc)
{
    if (wc->status == IBV_WC_SUCCESS)
        return;
    if (!l->broken)
        l->first_status = wc->status;
    l->broken = true;
    if (wc->status != IBV_WC_WR_FLUSH_ERR && wc->status != IBV_WC_RETRY_EXC_ERR)
        l->wrong++;
}

// Takes what is complete; returns how much that was.
static int reap(struct load *l)
{
    struct ibv_wc wc[16];
    int n = ibv_poll_cq(l->node->send_cq, 16, wc), m;
    for (int i = 0; i < n; i++) {
        l->sends--;
        l->done++;
        count(l, &wc[i]);
    }
    m = ibv_poll_cq(l->node->recv_cq, 16, wc);
    for (int i = 0; i < m; i++) {
        l->receives--;
        count(l, &wc[i]);
    }
    return (n > 0 ? n : 0) + (m > 0 ? m : 0);
}

static void pump(struct load *l)
{
    reap(l);
    if (!l->broken) {
        post_receives(l);
        while (l->sends < WINDOW && post_next(l))
            ;
    }
}

// Waits on the channel until something completes, as a program does that does not poll.
static void sleep_until_told(struct load *l)
{
    struct pollfd p = {.fd = l->node->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;
    REQUIRE(ibv_req_notify_cq(l->node->send_cq, 0) == 0 && ibv_req_notify_cq(l->node->recv_cq, 0) == 0);
    if (reap(l) == 0)
        poll(&p, 1, PATIENCE_MS);
    while (poll(&p, 1, 0) == 1 && ibv_get_cq_event(l->node->channel, &cq, &context) == 0)
        ibv_ack_cq_events(cq, 1);
}

static struct node load_node(void)
{
    struct node n = open_node();
    REQUIRE(ibv_dereg_mr(n.mr) == 0);
    free(n.buffer);
    REQUIRE(posix_memalign((void **)&n.buffer, 4096, ROOM) == 0);
    memset(n.buffer, 0x11, ROOM);
    REQUIRE(n.mr = ibv_reg_mr(n.pd, n.buffer, ROOM, ALL_REMOTE));
    REQUIRE(ibv_destroy_cq(n.send_cq) == 0 && ibv_destroy_cq(n.recv_cq) == 0);
    REQUIRE(n.channel = ibv_create_comp_channel(n.context));
    REQUIRE(n.send_cq = ibv_create_cq(n.context, 128, NULL, n.channel, 0));
    REQUIRE(n.recv_cq = ibv_create_cq(n.context, 128, NULL, n.channel, 0));
    n.cap.max_send_wr = n.cap.max_recv_wr = 64;
    n.cap.max_inline_data = 0;
    n.timeout = 14; // 67 ms
    n.retries = 2;
    n.rnr_timer = 1;
    return n;
}

static bool connect_to(struct node *n, const struct card *there, uint32_t psn)
{
    return to_rtr(n, there) == 0 && to_rts(n, psn) == 0;
}

// ---- the peer that will be killed --------------------------------------------------------------------------------

static void victim(int fd, uint32_t round)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct node n = load_node();
    REQUIRE(n.qp = make_qp(&n, IBV_QPT_RC));
    REQUIRE(to_init(&n) == 0);
    struct load l = {.node = &n};
    post_receives(&l);
    struct card ours = card_of(&n);
    tell(fd, CARD, round, getpid(), &ours);
    struct message m = hear(fd, round, PATIENCE_MS);
    if (m.kind != CARD)
        _exit(4);
    l.there = m.card;
    REQUIRE(connect_to(&n, &m.card, ours.psn));
    tell(fd, READY, round, getpid(), NULL);
    m = hear(fd, round, PATIENCE_MS);
    while (m.kind == READY)
        pump(&l);
    _exit(5);
}

// Forks peers on request; never opens a device, so each peer starts from nothing.
static void nursery(int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        struct message m;
        if (recv(fd, &m, sizeof m, 0) != sizeof m || m.kind == QUIT)
            _exit(0);
        if (m.kind != FORK)
            continue; // meant for a peer that is dead
        pid_t pid = fork();
        if (pid == 0)
            victim(fd, m.round);
        tell(fd, PID, m.round, pid, NULL);
        int status;
        waitpid(pid, &status, 0);
        tell(fd, DIED, m.round, status, NULL);
    }
}

// ---- the survivor ------------------------------------------------------------------------------------------------

static int entries_of(const char *directory)
{
    DIR *d = opendir(directory);
    int count = 0;
    if (!d)
        return -1;
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static int lines_of(const char *path, const char *containing)
{
    FILE *f = fopen(path, "re");
    char line[4096];
    int count = 0;
    if (!f)
        return -1;
    while (fgets(line, sizeof line, f))
        count += strstr(line, containing) != NULL;
    fclose(f);
    return count;
}

static long resident_kib(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long kib = -1;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

struct holdings {
    int descriptors, mappings, names;
};

static struct holdings holdings(void)
{
    // Names: abstract sockets of this network namespace; the caller gives the program one of its own.
    return (struct holdings){entries_of("/proc/self/fd"), lines_of("/proc/self/maps", "-"),
                             lines_of("/proc/net/unix", " @")};
}

static bool no_more_than(struct holdings now, struct holdings before)
{
    // The allocator may have split or grown a mapping of its own: two are allowed for it, over all rounds.
    return now.descriptors <= before.descriptors && now.mappings <= before.mappings + 2 && now.names <= before.names;
}

static bool same(struct holdings a, struct holdings b)
{
    return a.descriptors == b.descriptors && a.mappings == b.mappings && a.names == b.names;
}

// What is held once nothing has changed for a tenth of a second.
static struct holdings steady(void)
{
    int64_t deadline = now_ns() + (int64_t)SETTLE_MS * 1000000;
    struct timespec tick = {.tv_nsec = 100000000};
    struct holdings last = holdings(), now;
    for (;;) {
        nanosleep(&tick, NULL);
        now = holdings();
        if (same(last, now) || now_ns() > deadline)
            return now;
        last = now;
    }
}

// The engine may notice a dead peer a moment later than the program does.
static struct holdings settled(struct holdings before)
{
    int64_t deadline = now_ns() + (int64_t)SETTLE_MS * 1000000;
    struct holdings now = holdings();
    struct timespec tick = {.tv_nsec = 5000000};
    while (!no_more_than(now, before) && now_ns() < deadline) {
        nanosleep(&tick, NULL);
        now = holdings();
    }
    return now;
}

enum when { WHILE_OPENING, WHILE_CONNECTING, UNDER_LOAD }; // and every third round asleep on the channel

struct tally {
    int rounds, unanswered, hung, wrong_status, early, connected;
    int statuses[32];
    int64_t slowest_ms;
};

// One peer's life and death. Returns false when the machinery itself failed.
static bool round_of(struct node *n, int fd, uint32_t round, struct tally *t)
{
    enum when when = round % 5 == 4 ? WHILE_OPENING : round % 5 == 2 ? WHILE_CONNECTING : UNDER_LOAD;
    bool asleep = round % 3 == 0;
    struct load l = {.node = n};
    drain(n->send_cq);
    drain(n->recv_cq);
    REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
    REQUIRE(to_init(n) == 0);
    post_receives(&l);
    struct card ours = card_of(n);

    tell(fd, FORK, round, 0, NULL);
    struct message m = hear(fd, round, PATIENCE_MS);
    if (m.kind == CARD) // the peer was faster than the nursery
        l.there = m.card;
    bool have_card = m.kind == CARD;
    pid_t pid = m.pid;
    if (m.kind != PID && m.kind != CARD)
        return false;
    if (when == WHILE_OPENING) {
        struct timespec a_moment = {.tv_nsec = random_below(4000000)};
        nanosleep(&a_moment, NULL);
        kill(pid, SIGKILL);
    }
    while (!have_card) {
        m = hear(fd, round, PATIENCE_MS);
        if (m.kind == CARD) {
            l.there = m.card;
            have_card = true;
        } else if (m.kind == DIED) {
            t->early++;
            drop_qp(n);
            return true;
        } else if (m.kind != PID) {
            return false;
        }
    }
    tell(fd, CARD, round, 0, &ours);
    if (!connect_to(n, &l.there, ours.psn)) {
        // Only a peer that died meanwhile excuses this: the queue pair is then in ERR and its receives are flushed.
        if (when == UNDER_LOAD || state_of(n->qp) != IBV_QPS_ERR) {
            printf("     round %u: the pair could not be connected, and is in state %d\n", round, state_of(n->qp));
            t->wrong_status++;
        }
        l.broken = true;
        kill(pid, SIGKILL);
    }
    bool died = false;
    if (when == UNDER_LOAD) {
        do
            m = hear(fd, round, PATIENCE_MS);
        while (m.kind == PID);
        if (m.kind != READY)
            return false;
        t->connected++;
        tell(fd, READY, round, 0, NULL);
    } else if (when == WHILE_CONNECTING) {
        struct timespec a_moment = {.tv_nsec = random_below(300000)};
        nanosleep(&a_moment, NULL);
        kill(pid, SIGKILL);
    }

    int64_t kill_at = now_ns() + random_below(20000) * 1000, start = 0;
    bool killed = when != UNDER_LOAD;
    if (killed)
        start = now_ns();
    // Until the first error; after the kill it has to come, because requests go on being posted.
    while (!l.broken) {
        pump(&l);
        if (killed && asleep && !l.broken)
            sleep_until_told(&l);
        if (!killed && now_ns() >= kill_at) {
            kill(pid, SIGKILL);
            killed = true;
            start = now_ns();
        }
        if (killed && now_ns() - start > (int64_t)PATIENCE_MS * 1000000)
            break;
    }
    if (!killed) {
        printf("     round %u: status %d (%s) before the peer was killed\n", round, l.first_status,
               ibv_wc_status_str(l.first_status));
        t->wrong_status++;
        kill(pid, SIGKILL);
        start = now_ns();
    }
    if (!l.broken)
        t->hung++;
    // Every request, and every receive, comes back.
    while (l.sends + l.receives > 0 && now_ns() - start < (int64_t)PATIENCE_MS * 1000000)
        if (!reap(&l))
            sched_yield();
    int64_t took_ms = (now_ns() - start) / 1000000;
    if (took_ms > t->slowest_ms)
        t->slowest_ms = took_ms;
    if (l.sends + l.receives > 0) {
        printf("     round %u: %d sends and %d receives never completed\n", round, l.sends, l.receives);
        t->unanswered++;
    }
    if (l.wrong) {
        printf("     round %u: %" PRIu64 " completions with a status other than flushed and retry exceeded, first %d\n",
               round, l.wrong, l.first_status);
        t->wrong_status++;
    }
    if (l.first_status)
        t->statuses[l.first_status & 31]++;
    if (l.broken && state_of(n->qp) != IBV_QPS_ERR)
        t->wrong_status++;
    while (!died) {
        m = hear(fd, round, PATIENCE_MS);
        died = m.kind == DIED;
        if (!m.kind)
            return false;
    }
    drop_qp(n);
    return true;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20, ends[2];
    random_state = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)now_ns();
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%d rounds, seed %" PRIu64 "\n", rounds, random_state);
    random_state = random_state * 2654435761u + 88172645463325252u;
    self.active = true;
    // The nursery reports deaths by its own exit status only; messages keep their borders.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
        perror("socketpair");
        return 2;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        nursery(ends[1]);
    }
    close(ends[1]);
    self.other = pid;

    struct node n = load_node();
    struct tally t = {0};
    struct holdings before = {0};
    long resident_before = 0;
    for (int round = 0; round < rounds + WARM_UP; round++) {
        if (round == WARM_UP) {
            before = steady();
            resident_before = resident_kib();
        }
        if (!round_of(&n, ends[0], round, &t)) {
            printf("FAIL the peer of round %d did not come up\n", round);
            self.failed++;
            break;
        }
        t.rounds++;
    }
    struct holdings after = settled(before);
    printf("     %d peers killed, %d of them before they were known, %d connected; first statuses: %d flushed, "
           "%d retry exceeded; slowest %" PRId64 " ms\n",
           t.rounds, t.early, t.connected, t.statuses[IBV_WC_WR_FLUSH_ERR], t.statuses[IBV_WC_RETRY_EXC_ERR],
           t.slowest_ms);
    printf("     before: %d descriptors, %d mappings, %d names, %ld KiB; after: %d, %d, %d, %ld KiB\n",
           before.descriptors, before.mappings, before.names, resident_before, after.descriptors, after.mappings,
           after.names, resident_kib());
    CHECK_EQ("kill", "every peer could be connected to, whatever befell the one before", t.rounds, rounds + WARM_UP);
    CHECK_EQ("kill", "no round hung", t.hung, 0);
    CHECK_EQ("kill", "every request came back", t.unanswered, 0);
    CHECK_EQ("kill", "with flushed or retry exceeded", t.wrong_status, 0);
    CHECK("kill", "no descriptor leaked", after.descriptors <= before.descriptors);
    CHECK("kill", "no mapping leaked", after.mappings <= before.mappings + 2);
    CHECK("kill", "no socket name leaked", after.names <= before.names);
    CHECK("kill", "no memory leaked", resident_kib() <= resident_before + 2048);
    tell(ends[0], QUIT, 0, 0, NULL);
    waitpid(pid, NULL, 0);
    close_node(&n);
    return finish_alone();
}
