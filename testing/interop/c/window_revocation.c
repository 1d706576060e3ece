// Memory windows taken back from peers that are in the middle of writing through them: running, stopped or killed. Once
// the request has completed, or the call has returned, nothing of theirs lands any more, though the region goes on.
//
// Usage: window_revocation running ROUNDS   a peer goes on writing while its key is taken out of use, so many times
//        window_revocation stopped          a peer is stopped in the middle of a long write, and continued later
//        window_revocation killed           a peer is killed in the middle of a long write
//
// proves: 5.4

#include "writers.h"

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
// How long is waited for what must not happen.
#define NEVER_MS 200

enum way { BIND_AGAIN, UNBIND, INVALIDATE, GIVE_BACK, WAYS };

// Binds a window of the type the way needs to the whole region.
static struct ibv_mw *open_window(struct node *n, struct ibv_mr *mr, enum way way)
{
    struct ibv_mw *mw;
    struct ibv_mw_bind_info info = {mr, (uintptr_t)mr->addr, mr->length, REMOTE};
    if (way == INVALIDATE) {
        struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
        REQUIRE(mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2));
        wr.bind_mw.mw = mw;
        wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
        wr.bind_mw.bind_info = info;
        REQUIRE(ibv_post_send(n->qp, &wr, &bad) == 0);
    } else {
        struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = info};
        REQUIRE(mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1));
        REQUIRE(ibv_bind_mw(n->qp, mw, &bind) == 0);
    }
    REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
    return mw;
}

// Posts what takes the key out of use.
static void begin_to_take_back(struct node *n, struct ibv_mw *mw, struct ibv_mr *mr, enum way way)
{
    if (way == INVALIDATE) {
        struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;
        wr.invalidate_rkey = mw->rkey;
        REQUIRE(ibv_post_send(n->qp, &wr, &bad) == 0);
    } else {
        struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
        if (way == BIND_AGAIN)
            bind.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)mr->addr, mr->length, REMOTE};
        REQUIRE(ibv_bind_mw(n->qp, mw, &bind) == 0);
    }
}

static void take_back(struct node *n, struct ibv_mw *mw, struct ibv_mr *mr, enum way way)
{
    if (way == GIVE_BACK) {
        REQUIRE(ibv_dealloc_mw(mw) == 0);
        return;
    }
    begin_to_take_back(n, mw, mr, way);
    REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
}

static struct ibv_mr *register_bindable(struct node *n, void *at, size_t length)
{
    struct ibv_mr *mr;
    REQUIRE(mr = ibv_reg_mr(n->pd, at, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
    check_adopted("5.4", at, length);
    return mr;
}

static void running(unsigned rounds)
{
    struct peer peer = raise_peer();
    struct node n = open_node();
    unsigned char *at = map_pages(MIB);
    struct ibv_mr *mr = register_bindable(&n, at, MIB);
    unsigned refused = 0, landed = 0, kept = 0;
    for (unsigned round = 0; round < rounds; round++) {
        enum way way = (enum way)(round % WAYS);
        connect_with(&n, peer);
        memset(at, 0, MIB);
        struct ibv_mw *mw = open_window(&n, mr, way);
        set_to_work(peer, (struct job){WRITE_MIXED_ON, mw->rkey, (uintptr_t)at, MIB, PEER_BYTE});
        // The key is taken out of use at all points of a write.
        wait_for_byte(at + (uint64_t)round * 7919 % MIB, PEER_BYTE);
        take_back(&n, mw, mr, way);
        fill(at, MIB, round);
        kept += filled(at, MIB, round);
        // The peer reports when its last request has completed: nothing of it is under way any more.
        refused += report_of(peer) == IBV_WC_REM_ACCESS_ERR;
        landed += !filled(at, MIB, round);
        if (way != GIVE_BACK)
            REQUIRE(ibv_dealloc_mw(mw) == 0);
    }
    CHECK_EQ("5.4", "rounds in which the bytes were the program's own at once", kept, rounds);
    CHECK_EQ("5.4", "rounds in which the peer's request was refused for its key", refused, rounds);
    CHECK_EQ("5.4", "rounds in which anything landed afterwards", landed, 0);
    CHECK_EQ("5.4", "the region is deregistered", ibv_dereg_mr(mr), 0);
    dismiss(peer);
    close_node(&n);
}

// Has the peer write through a new window, and stops it in the middle.
static struct ibv_mw *stopped_inside(struct node *n, struct peer peer, struct ibv_mr *mr, enum way way)
{
    unsigned char *at = mr->addr;
    connect_with(n, peer);
    memset(at, 0, LONG);
    struct ibv_mw *mw = open_window(n, mr, way);
    set_to_work(peer, (struct job){WRITE_ON, mw->rkey, (uintptr_t)at, LONG, PEER_BYTE});
    wait_for_byte(at + LONG / 4, PEER_BYTE);
    stop(peer);
    return mw;
}

static bool completes_within(struct ibv_cq *cq, int ms)
{
    struct ibv_wc wc;
    int64_t start = now_ns();
    int got = 0;
    while ((got = ibv_poll_cq(cq, 1, &wc)) == 0 && ms_since(start) < ms)
        sched_yield();
    REQUIRE(got == 0 || (got == 1 && wc.status == IBV_WC_SUCCESS));
    return got == 1;
}

// Returns whether the peer was stopped inside a copy: then the request completes when it goes on, and not before.
static bool stopped_once(struct node *n, struct peer peer, struct ibv_mr *mr, enum way way)
{
    unsigned char *at = mr->addr;
    struct ibv_mw *mw = stopped_inside(n, peer, mr, way);
    bool inside;
    if (way == GIVE_BACK) {
        int failed = ibv_dealloc_mw(mw);
        inside = failed == EBUSY;
        CHECK("5.4", "a window is not given back while a stopped peer is inside", failed == 0 || inside);
    } else {
        begin_to_take_back(n, mw, mr, way);
        inside = !completes_within(n->send_cq, NEVER_MS);
    }
    if (!inside)
        fill(at, LONG, 5);
    go_on(peer);
    if (inside && way == GIVE_BACK)
        CHECK_EQ("5.4", "and is once the peer has gone on", ibv_dealloc_mw(mw), 0);
    else if (inside)
        CHECK("5.4", "the key is out of use once the peer has gone on", completes_within(n->send_cq, PATIENCE_MS));
    if (inside)
        fill(at, LONG, 5);
    CHECK_EQ("5.4", "the request of the continued peer is refused", report_of(peer), IBV_WC_REM_ACCESS_ERR);
    CHECK("5.4", "and nothing of it lands", filled(at, LONG, 5));
    if (way != GIVE_BACK)
        CHECK_EQ("5.4", "the window is given back", ibv_dealloc_mw(mw), 0);
    return inside;
}

static void stopped(void)
{
    struct peer peer = raise_peer();
    struct node n = open_node();
    unsigned char *at = map_pages(LONG);
    struct ibv_mr *mr = register_bindable(&n, at, LONG);
    for (enum way way = BIND_AGAIN; way < WAYS; way++) {
        bool inside = false;
        for (int tries = 0; tries < 20 && !inside; tries++)
            inside = stopped_once(&n, peer, mr, way);
        CHECK("5.4", "the peer was stopped inside a copy", inside);
    }
    CHECK_EQ("5.4", "the region is deregistered", ibv_dereg_mr(mr), 0);
    dismiss(peer);
    close_node(&n);
}

static void killed(void)
{
    struct peer peers[WAYS];
    for (int i = 0; i < WAYS; i++)
        peers[i] = raise_peer();
    struct node n = open_node();
    unsigned char *at = map_pages(LONG);
    struct ibv_mr *mr = register_bindable(&n, at, LONG);
    for (int i = 0; i < WAYS; i++) {
        // The partner's death costs the connection, so that only the call is sure to be carried out.
        struct ibv_mw *mw = stopped_inside(&n, peers[i], mr, GIVE_BACK);
        REQUIRE(kill(peers[i].pid, SIGKILL) == 0);
        CHECK_EQ("5.4", "a window is given back under a peer that was just killed", ibv_dealloc_mw(mw), 0);
        fill(at, LONG, i);
        REQUIRE(WIFSIGNALED(child_status(peers[i].pid)));
        CHECK("5.4", "nothing lands after that", filled(at, LONG, i));
    }
    CHECK_EQ("5.4", "the region is deregistered", ibv_dereg_mr(mr), 0);
    close_node(&n);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    if (strcmp(what, "running") == 0 && argc > 2)
        running((unsigned)atoi(argv[2]));
    else if (strcmp(what, "stopped") == 0)
        stopped();
    else if (strcmp(what, "killed") == 0)
        killed();
    else
        REQUIRE(!"one of the uses above");
    return finish_alone();
}
