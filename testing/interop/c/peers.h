// For programs whose peers come and go: a nursery that forks them, messages to and from them, and a load of every kind of
// request.

#ifndef NONIC_INTEROP_PEERS_H
#define NONIC_INTEROP_PEERS_H

#include "common.h"
#include "holdings.h"

#include <sys/prctl.h>

#define ROOM (256 * 1024)
#define WINDOW 24    // requests outstanding on the send queue
#define RECEIVES 48  // receives kept posted
#define GUARD 4096   // bytes around the room that are not registered
#define GUARDED 0x77 // and what stands there

enum kind { FORK = 1, PID, CARD, READY, DIED, QUIT };

// Everything that crosses the socket pair. A message of another round is stale: its writer or reader was killed.
struct message {
    enum kind kind;
    uint32_t round;
    pid_t pid;
    struct card card;
};

static UNUSED void tell(int fd, enum kind kind, uint32_t round, pid_t pid, const struct card *card)
{
    struct message m = {.kind = kind, .round = round, .pid = pid};
    if (card)
        m.card = *card;
    if (send(fd, &m, sizeof m, MSG_NOSIGNAL) != sizeof m)
        _exit(3);
}

// The next message of this round; kind 0 when none comes in time.
static UNUSED struct message hear(int fd, uint32_t round, int wait_ms)
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

static UNUSED bool post_next(struct load *l)
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

static UNUSED void post_receives(struct load *l)
{
    while (l->receives < RECEIVES && post_receive(l->node->qp, 0, piece(l->node->buffer, 4096, l->node->mr->lkey)) == 0)
        l->receives++;
}

static UNUSED void count(struct load *l, const struct ibv_wc *wc)
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
static UNUSED int reap(struct load *l)
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

static UNUSED void pump(struct load *l)
{
    reap(l);
    if (!l->broken) {
        post_receives(l);
        while (l->sends < WINDOW && post_next(l))
            ;
    }
}

// Waits on the channel until something completes, as a program does that does not poll.
static UNUSED void sleep_until_told(struct load *l)
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

static UNUSED struct node load_node(void)
{
    struct node n = open_node();
    REQUIRE(ibv_dereg_mr(n.mr) == 0);
    free(n.buffer);
    unsigned char *around;
    REQUIRE(posix_memalign((void **)&around, GUARD, ROOM + 2 * GUARD) == 0);
    memset(around, GUARDED, ROOM + 2 * GUARD);
    n.buffer = around + GUARD;
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

// Whether what lies around the registered room, which no peer was ever granted, is as it was.
static UNUSED bool guards_stand(const struct node *n)
{
    return all_bytes(n->buffer - GUARD, GUARD, GUARDED) && all_bytes(n->buffer + ROOM, GUARD, GUARDED);
}

static UNUSED void close_load_node(struct node *n)
{
    n->buffer -= GUARD; // where the allocation begins
    close_node(n);
}

static UNUSED bool connect_to(struct node *n, const struct card *there, uint32_t psn)
{
    return to_rtr(n, there) == 0 && to_rts(n, psn) == 0;
}

// Gives a peer's node its queue pair, which takes receives now.
static UNUSED void make_ready(struct node *n)
{
    REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
    REQUIRE(to_init(n) == 0);
}

// Connects it to the survivor, which is told when that is done. A survivor that does not answer has ended.
static UNUSED void greet_survivor(struct node *n, int fd, uint32_t round)
{
    struct card ours = card_of(n);
    tell(fd, CARD, round, getpid(), &ours);
    struct message m = hear(fd, round, PATIENCE_MS);
    if (m.kind != CARD)
        _exit(4);
    REQUIRE(connect_to(n, &m.card, ours.psn));
    tell(fd, READY, round, getpid(), NULL);
}

// ---- the nursery ---------------------------------------------------------------------------------------------------

// Forks peers on request; never opens a device, so each peer starts from nothing.
static UNUSED void nursery(int fd, void (*life)(int fd, uint32_t round))
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
            life(fd, m.round);
        tell(fd, PID, m.round, pid, NULL);
        int status;
        waitpid(pid, &status, 0);
        tell(fd, DIED, m.round, status, NULL);
    }
}

#endif
