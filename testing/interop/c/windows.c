// Memory windows as programs use them: type 1 by ibv_bind_mw, type 2 by work requests, taken out of use by their owner
// and by the peer. The active process owns the memory and binds; the passive one does what it is told with the keys.
//
// proves: 5.4

#include "common.h"

#define AT 4096u    // where windows begin in the buffer
#define LONG 8192u  // and how long they are
#define GUARDED 0x5a
#define BINDABLE (ALL_REMOTE | IBV_ACCESS_MW_BIND)
#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define END (-1)

struct order {
    int opcode;
    uint32_t rkey;
    uint64_t address;
    uint32_t length, seed;
};

// The whole life of the passive process: one request an order, and a new connection after each that failed.
static void serve(struct node *n)
{
    struct order order;
    bring_up(n);
    for (take(&order, sizeof order); order.opcode != END; take(&order, sizeof order)) {
        struct ibv_sge sge = piece(n->buffer, order.length, n->mr->lkey);
        fill(n->buffer, order.length, order.seed);
        if (order.opcode == IBV_WR_SEND_WITH_INV) {
            struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge,
                                     .num_sge = order.length ? 1 : 0}, *bad;
            wr.invalidate_rkey = order.rkey;
            REQUIRE(ibv_post_send(n->qp, &wr, &bad) == 0);
        } else if (order.opcode == ADD) {
            REQUIRE(post_atomic(n->qp, 0, ADD, sge, order.address, order.rkey, order.seed, 0) == 0);
        } else {
            REQUIRE(post(n->qp, 0, (enum ibv_wr_opcode)order.opcode, sge, order.address, order.rkey) == 0);
        }
        int status = next_completion(n->send_cq).status;
        give(&status, sizeof status);
        if (status != IBV_WC_SUCCESS)
            bring_up(n);
    }
}

// The peer carries out a request; returns the status of its completion. A failed one costs the connection.
static int peer_does(struct node *n, int opcode, uint32_t rkey, uint64_t address, uint32_t length, unsigned seed)
{
    struct order order = {opcode, rkey, address, length, seed};
    int status;
    give(&order, sizeof order);
    take(&status, sizeof status);
    if (status != IBV_WC_SUCCESS)
        bring_up(n);
    return status;
}

static uint64_t window_address(struct node *n) { return (uintptr_t)n->buffer + AT; }

static void wipe(struct node *n) { memset(n->buffer, GUARDED, BUFFER); }

// The key reaches the window and nothing else.
static void check_works(struct node *n, const char *sentence, uint32_t rkey, unsigned seed)
{
    wipe(n);
    CHECK_EQ("5.4", sentence, peer_does(n, WRITE, rkey, window_address(n), LONG, seed), IBV_WC_SUCCESS);
    CHECK("5.4", "its bytes stand in the window and nowhere else",
          all_bytes(n->buffer, AT, GUARDED) && filled(n->buffer + AT, LONG, seed) &&
              all_bytes(n->buffer + AT + LONG, BUFFER - AT - LONG, GUARDED));
}

static void check_dead(struct node *n, const char *sentence, uint32_t rkey)
{
    static const int opcodes[] = {WRITE, READ, ADD};
    wipe(n);
    for (int i = 0; i < 3; i++)
        CHECK_EQ("5.4", sentence, peer_does(n, opcodes[i], rkey, window_address(n), 8, 3), IBV_WC_REM_ACCESS_ERR);
    CHECK("5.4", "and no byte has moved", all_bytes(n->buffer, BUFFER, GUARDED));
}

static struct ibv_mw_bind_info part(struct ibv_mr *mr, uint64_t address, uint64_t length, unsigned access)
{
    struct ibv_mw_bind_info info = {.mr = mr, .addr = address, .length = length, .mw_access_flags = access};
    return info;
}

static struct ibv_mw_bind bind_of(struct ibv_mw_bind_info info)
{
    struct ibv_mw_bind bind = {.wr_id = 77, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
    return bind;
}

static struct ibv_send_wr bind_request(struct ibv_mw *mw, uint32_t rkey, struct ibv_mw_bind_info info)
{
    struct ibv_send_wr wr = {.wr_id = 78, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = info;
    return wr;
}

static int post_bind(struct node *n, struct ibv_mw *mw, uint32_t rkey, struct ibv_mw_bind_info info)
{
    struct ibv_send_wr wr = bind_request(mw, rkey, info), *bad = NULL;
    int failed = ibv_post_send(n->qp, &wr, &bad);
    if (failed)
        CHECK("5.4", "a bind that is not taken is named", bad == &wr);
    return failed;
}

static int post_invalidate(struct node *n, uint32_t rkey)
{
    struct ibv_send_wr wr = {.wr_id = 79, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.invalidate_rkey = rkey;
    return ibv_post_send(n->qp, &wr, &bad);
}

static void check_done(struct node *n, const char *sentence, uint64_t id, int opcode)
{
    struct ibv_wc wc = next_completion(n->send_cq);
    CHECK_EQ("5.4", sentence, wc.status, IBV_WC_SUCCESS);
    CHECK("5.4", "its completion says what it was", wc.wr_id == id && wc.opcode == (enum ibv_wc_opcode)opcode);
}

// A request that was taken fails; so does the connection.
static void check_fails(struct node *n, const char *sentence)
{
    CHECK_EQ("5.4", sentence, next_completion(n->send_cq).status, IBV_WC_MW_BIND_ERR);
    CHECK_EQ("5.4", "the queue pair is in error", state_of(n->qp), IBV_QPS_ERR);
    CHECK_EQ("5.4", "what follows is taken", post(n->qp, 5, SEND, piece(NULL, 0, 0), 0, 0), 0);
    CHECK_EQ("5.4", "and flushed", next_completion(n->send_cq).status, IBV_WC_WR_FLUSH_ERR);
}

// A new connection without a request of the peer's having failed: the peer tries something that must.
static void connect_again(struct node *n)
{
    struct order order = {WRITE, 0x7fffff00, 0, 8, 0};
    int status;
    give(&order, sizeof order);
    take(&status, sizeof status);
    bring_up(n);
}

static void bind_well(struct node *n, struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
    struct ibv_mw_bind bind = bind_of(info);
    uint32_t before = mw->rkey;
    CHECK_EQ("5.4", "a bind is taken", ibv_bind_mw(n->qp, mw, &bind), 0);
    CHECK("5.4", "the new key stands in the window at once: another one of the same index",
          mw->rkey != before && mw->rkey >> 8 == before >> 8);
    check_done(n, "and completes", 77, IBV_WC_BIND_MW);
}

// ---- objects ------------------------------------------------------------------------------------------------------

static void objects(struct node *n)
{
    struct ibv_device_attr attr;
    REQUIRE(ibv_query_device(n->context, &attr) == 0);
    CHECK("5.4", "the device says that it has windows, of type 2B, and keys that can be taken out of use",
          (attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW) && (attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) &&
              !(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A) &&
              (attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS));
    CHECK("5.4", "and how many", attr.max_mw > 0);
    CHECK_NULL("5.4", "a window of no type is refused", ibv_alloc_mw(n->pd, (enum ibv_mw_type)0), EINVAL);
    CHECK_NULL("5.4", "and one of type 3", ibv_alloc_mw(n->pd, (enum ibv_mw_type)3), EINVAL);
    for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
        struct ibv_pd *pd;
        struct ibv_mw *mw;
        REQUIRE(pd = ibv_alloc_pd(n->context));
        REQUIRE(mw = ibv_alloc_mw(pd, (enum ibv_mw_type)type));
        CHECK("5.4", "a window says what it is",
              mw->context == n->context && mw->pd == pd && mw->type == (enum ibv_mw_type)type && mw->rkey != 0);
        CHECK_EQ("5.4", "its domain cannot go", ibv_dealloc_pd(pd), EBUSY);
        uint32_t handle = mw->handle;
        mw->handle ^= 0xff00;
        CHECK_EQ("5.4", "with another handle it is not found", ibv_dealloc_mw(mw), ENOENT);
        mw->handle = handle;
        CHECK_EQ("5.4", "it is given back", ibv_dealloc_mw(mw), 0);
        CHECK_EQ("5.4", "once", ibv_dealloc_mw(mw), ENOENT);
        CHECK_EQ("5.4", "and its domain, too", ibv_dealloc_pd(pd), 0);
    }
}

// ---- type 1 -------------------------------------------------------------------------------------------------------

static void type_1(struct node *n, struct ibv_mr *mr)
{
    struct ibv_mw *mw;
    REQUIRE(mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1));
    uint32_t never = mw->rkey;
    check_dead(n, "a window that was never bound leads nowhere", never);
    bind_well(n, mw, part(mr, window_address(n), LONG, REMOTE));
    uint32_t first = mw->rkey;
    check_works(n, "the peer writes through the window", first, 1);
    CHECK_EQ("5.4", "its region cannot go", ibv_dereg_mr(mr), EBUSY);
    check_works(n, "and the window goes on", first, 2);
    wipe(n);
    CHECK_EQ("5.4", "a byte behind it is refused", peer_does(n, WRITE, first, window_address(n) + LONG, 1, 1),
             IBV_WC_REM_ACCESS_ERR);
    CHECK_EQ("5.4", "a byte before it, too", peer_does(n, READ, first, window_address(n) - 1, 1, 1),
             IBV_WC_REM_ACCESS_ERR);
    CHECK_EQ("5.4", "and a range that leaves it", peer_does(n, WRITE, first, window_address(n) + LONG - 8, 16, 1),
             IBV_WC_REM_ACCESS_ERR);
    CHECK("5.4", "no byte has moved", all_bytes(n->buffer, BUFFER, GUARDED));
    bind_well(n, mw, part(mr, window_address(n), LONG, IBV_ACCESS_REMOTE_WRITE));
    uint32_t second = mw->rkey;
    check_dead(n, "after another bind the old key is dead", first);
    check_works(n, "and the new one holds", second, 3);
    wipe(n);
    CHECK_EQ("5.4", "rights it was not bound with are missed", peer_does(n, READ, second, window_address(n), 8, 1),
             IBV_WC_REM_ACCESS_ERR);
    bind_well(n, mw, part(NULL, 0, 0, 0));
    check_dead(n, "bound to no bytes, it is unbound", second);
    check_dead(n, "and its new key leads nowhere", mw->rkey);
    bind_well(n, mw, part(mr, window_address(n), LONG, REMOTE | IBV_ACCESS_ZERO_BASED));
    wipe(n);
    CHECK_EQ("5.4", "a zero based window counts from its own first byte", peer_does(n, WRITE, mw->rkey, 0, LONG, 4),
             IBV_WC_SUCCESS);
    CHECK("5.4", "and reaches its bytes",
          filled(n->buffer + AT, LONG, 4) && all_bytes(n->buffer + AT + LONG, BUFFER - AT - LONG, GUARDED));
    uint32_t last = mw->rkey;
    CHECK_EQ("5.4", "a bound window is given back", ibv_dealloc_mw(mw), 0);
    check_dead(n, "its key is dead", last);
}

// What is wrong is told by the call: nothing is posted, and the old key holds.
static void refused_by_the_call(struct node *n, struct ibv_mr *mr)
{
    struct ibv_pd *pd;
    struct ibv_mr *other;
    struct ibv_mw *mw, *type_2;
    REQUIRE(pd = ibv_alloc_pd(n->context));
    REQUIRE(other = ibv_reg_mr(pd, n->buffer, BUFFER, BINDABLE));
    REQUIRE((mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1)) && (type_2 = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2)));
    bind_well(n, mw, part(mr, window_address(n), LONG, REMOTE));
    uint32_t key = mw->rkey;
    struct {
        const char *sentence;
        struct ibv_mw_bind bind;
        int expected;
    } binds[] = {
        {"no region but a length is refused", bind_of(part(NULL, 0, 8, REMOTE)), EINVAL},
        {"no region but an address, too", bind_of(part(NULL, 8, 0, REMOTE)), EINVAL},
        {"a region of another domain is refused", bind_of(part(other, window_address(n), 8, REMOTE)), EPERM},
        {"the right to bind is refused", bind_of(part(mr, window_address(n), 8, IBV_ACCESS_MW_BIND)), EINVAL},
        {"an unknown right is refused", bind_of(part(mr, window_address(n), 8, 1 << 9)), EINVAL},
        {"unknown flags are refused", bind_of(part(mr, window_address(n), 8, REMOTE)), EINVAL},
    };
    binds[5].bind.send_flags = 1 << 9;
    for (size_t i = 0; i < sizeof binds / sizeof binds[0]; i++) {
        CHECK_EQ("5.4", binds[i].sentence, ibv_bind_mw(n->qp, mw, &binds[i].bind), binds[i].expected);
        CHECK("5.4", "and the key stays", mw->rkey == key);
    }
    // As on cards, where it means nothing: a window has no local key.
    bind_well(n, mw, part(mr, window_address(n), 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    fill(n->buffer, BUFFER, 5);
    CHECK_EQ("5.4", "local write is taken", peer_does(n, READ, mw->rkey, window_address(n), 8, 1), IBV_WC_SUCCESS);
    CHECK_EQ("5.4", "and gives a peer nothing", peer_does(n, WRITE, mw->rkey, window_address(n), 8, 1),
             IBV_WC_REM_ACCESS_ERR);
    CHECK("5.4", "so that nothing moves", filled(n->buffer, BUFFER, 5));
    struct ibv_mw_bind bind = bind_of(part(mr, window_address(n), 8, REMOTE));
    CHECK_EQ("5.4", "ibv_bind_mw refuses type 2", ibv_bind_mw(n->qp, type_2, &bind), EINVAL);
    CHECK_EQ("5.4", "a work request refuses type 1", post_bind(n, mw, ibv_inc_rkey(key), bind.bind_info), EINVAL);
    CHECK_EQ("5.4", "and no window", post_bind(n, NULL, 5, bind.bind_info), EINVAL);
    CHECK_EQ("5.4", "and a region of another domain",
             post_bind(n, type_2, ibv_inc_rkey(type_2->rkey), part(other, window_address(n), 8, REMOTE)), EPERM);
    // Completions not polled fill the queue.
    int taken = 0, failed;
    while ((failed = ibv_bind_mw(n->qp, mw, &bind)) == 0)
        taken++;
    CHECK_EQ("5.4", "a full queue takes no more", failed, ENOMEM);
    CHECK("5.4", "but what its capacity says", taken >= 32);
    key = mw->rkey;
    for (int i = 0; i < taken; i++)
        REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
    CHECK("5.4", "nothing else completes", !ibv_poll_cq(n->send_cq, 1, &(struct ibv_wc){0}) && mw->rkey == key);
    wipe(n);
    CHECK_EQ("5.4", "the last key that was taken holds", peer_does(n, WRITE, key, window_address(n), 8, 1),
             IBV_WC_SUCCESS);
    REQUIRE(ibv_dealloc_mw(mw) == 0 && ibv_dealloc_mw(type_2) == 0 && ibv_dereg_mr(other) == 0 && ibv_dealloc_pd(pd) == 0);
}

// What is wrong shows when the bind completes, and the old key holds.
static void refused_later(struct node *n, struct ibv_mr *mr)
{
    struct ibv_mr *bare, *read_only;
    struct ibv_mw *mw;
    REQUIRE(bare = ibv_reg_mr(n->pd, n->buffer, BUFFER, ALL_REMOTE));
    REQUIRE(read_only = ibv_reg_mr(n->pd, n->buffer, BUFFER, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND));
    REQUIRE(mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1));
    bind_well(n, mw, part(mr, window_address(n), LONG, REMOTE));
    uint32_t key = mw->rkey;
    struct {
        const char *sentence;
        struct ibv_mw_bind_info info;
    } binds[] = {
        {"a region without the right to bind fails", part(bare, window_address(n), 8, IBV_ACCESS_REMOTE_READ)},
        {"a range beyond the region fails", part(mr, (uintptr_t)n->buffer + BUFFER - 8, 9, IBV_ACCESS_REMOTE_READ)},
        {"a range that wraps around fails", part(mr, UINT64_MAX - 3, 8, IBV_ACCESS_REMOTE_READ)},
        {"remote write needs the region's local write", part(read_only, window_address(n), 8, IBV_ACCESS_REMOTE_WRITE)},
        {"and so do atomics", part(read_only, window_address(n), 8, IBV_ACCESS_REMOTE_ATOMIC)},
    };
    for (size_t i = 0; i < sizeof binds / sizeof binds[0]; i++) {
        struct ibv_mw_bind bind = bind_of(binds[i].info);
        bind.send_flags = 0;
        CHECK_EQ("5.4", "a bind is taken", ibv_bind_mw(n->qp, mw, &bind), 0);
        check_fails(n, binds[i].sentence);
        uint32_t wrong = mw->rkey;
        connect_again(n);
        check_dead(n, "the key it was to get leads nowhere", wrong);
        check_works(n, "the old key holds", key, 6 + (unsigned)i);
    }
    CHECK_EQ("5.4", "what was never bound to can go", ibv_dereg_mr(bare) | ibv_dereg_mr(read_only), 0);
    CHECK_EQ("5.4", "the window is given back", ibv_dealloc_mw(mw), 0);
}

// ---- type 2 -------------------------------------------------------------------------------------------------------

static uint32_t bind_type_2(struct node *n, struct ibv_mw *mw, struct ibv_mr *mr)
{
    uint32_t key = ibv_inc_rkey(mw->rkey);
    // Only the low 8 bits are the program's to choose.
    CHECK_EQ("5.4", "a bind of type 2 is taken",
             post_bind(n, mw, (key & 0xff) | 0xabcdef00, part(mr, window_address(n), LONG, REMOTE)), 0);
    CHECK_EQ("5.4", "the key asked for stands in the window", mw->rkey, key);
    check_done(n, "and completes", 78, IBV_WC_BIND_MW);
    return key;
}

static void type_2(struct node *n, struct ibv_mr *mr)
{
    struct ibv_mw *mw;
    REQUIRE(mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2));
    uint32_t first = bind_type_2(n, mw, mr);
    check_works(n, "the peer writes through the window", first, 11);
    CHECK_EQ("5.4", "its region cannot go", ibv_dereg_mr(mr), EBUSY);
    CHECK_EQ("5.4", "its owner takes the key out of use", post_invalidate(n, first), 0);
    check_done(n, "which completes", 79, IBV_WC_LOCAL_INV);
    uint32_t second = bind_type_2(n, mw, mr);
    check_works(n, "the new key holds", second, 12);
    CHECK_EQ("5.4", "a second bind is taken",
             post_bind(n, mw, ibv_inc_rkey(second), part(mr, window_address(n), 8, REMOTE)), 0);
    check_fails(n, "and fails: the window is bound");
    connect_again(n);
    check_dead(n, "the first key is dead, and with its queue pair the second", first);
    check_dead(n, "the second is, too", second);
    CHECK_EQ("5.4", "a bind to no bytes is taken", post_bind(n, mw, ibv_inc_rkey(mw->rkey), part(mr, 0, 0, 0)), 0);
    check_fails(n, "and fails for type 2");
    connect_again(n);
    CHECK_EQ("5.4", "a key that is not bound here is not taken out of use", post_invalidate(n, second), 0);
    check_fails(n, "but fails");
    connect_again(n);
    CHECK_EQ("5.4", "nor is a region's", post_invalidate(n, mr->rkey), 0);
    check_fails(n, "which fails");
    connect_again(n);
    CHECK_EQ("5.4", "the window is given back", ibv_dealloc_mw(mw), 0);
}

static void send_with_invalidate(struct node *n, struct ibv_mr *mr)
{
    static const uint32_t lengths[] = {0, 8, 8192, 20000};
    struct ibv_mw *mw;
    REQUIRE(mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2));
    for (int i = 0; i < 4; i++) {
        uint32_t key = bind_type_2(n, mw, mr), length = lengths[i];
        check_works(n, "the peer writes through the window", key, 20);
        wipe(n);
        REQUIRE(post_receive(n->qp, 3, piece(n->buffer + 32768, 32768, mr->lkey)) == 0);
        CHECK_EQ("5.4", "the peer sends and takes the key out of use",
                 peer_does(n, IBV_WR_SEND_WITH_INV, key, 0, length, 21), IBV_WC_SUCCESS);
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("5.4", "the receive completes", wc.status == IBV_WC_SUCCESS && wc.wr_id == 3 && wc.byte_len == length);
        CHECK("5.4", "and says which key is out of use",
              wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == key);
        CHECK("5.4", "the message is there", filled(n->buffer + 32768, length, 21));
    }
    check_dead(n, "the last key is dead", mw->rkey);
    uint32_t keys[] = {ibv_inc_rkey(mw->rkey), mr->rkey, mr->lkey, 0xfffffe00};
    for (int i = 0; i < 4; i++) {
        wipe(n);
        REQUIRE(post_receive(n->qp, 4, piece(n->buffer + 32768, 32768, mr->lkey)) == 0);
        struct order order = {IBV_WR_SEND_WITH_INV, keys[i], 0, 4096, 22};
        int status;
        give(&order, sizeof order);
        take(&status, sizeof status);
        CHECK_EQ("5.4", "a key that is not bound here is refused", status, IBV_WC_REM_ACCESS_ERR);
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("5.4", "its receive fails", wc.status == IBV_WC_REM_INV_REQ_ERR && wc.wr_id == 4);
        CHECK_EQ("5.4", "and the connection with it", state_of(n->qp), IBV_QPS_ERR);
        CHECK("5.4", "no byte has moved", all_bytes(n->buffer, BUFFER, GUARDED));
        bring_up(n);
    }
    CHECK_EQ("5.4", "the window is given back", ibv_dealloc_mw(mw), 0);
}

// ---- order --------------------------------------------------------------------------------------------------------

// A list: a bind and what relies on it.
static void in_order(struct node *n, struct ibv_mr *mr)
{
    struct ibv_mw *mw;
    REQUIRE(mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2));
    uint32_t key = ibv_inc_rkey(mw->rkey);
    struct ibv_send_wr invalidate = {.wr_id = 3, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;
    struct ibv_send_wr second = bind_request(mw, ibv_inc_rkey(key), part(mr, window_address(n), LONG, REMOTE));
    struct ibv_send_wr first = bind_request(mw, key, part(mr, window_address(n), LONG, REMOTE));
    invalidate.invalidate_rkey = key;
    invalidate.next = &second;
    first.next = &invalidate;
    first.send_flags = 0;
    CHECK_EQ("5.4", "bind, take out of use and bind again are one list", ibv_post_send(n->qp, &first, &bad), 0);
    check_done(n, "the signalled ones complete", 3, IBV_WC_LOCAL_INV);
    check_done(n, "in order", 78, IBV_WC_BIND_MW);
    CHECK_EQ("5.4", "the last key stands in the window", mw->rkey, ibv_inc_rkey(key));
    check_works(n, "and holds", mw->rkey, 30);
    CHECK_EQ("5.4", "a queue pair with a bound window can go", ibv_destroy_qp(n->qp), 0);
    n->qp = NULL;
    CHECK_EQ("5.4", "and then the window", ibv_dealloc_mw(mw), 0);
    struct order order = {WRITE, key, 0, 8, 0};
    int status;
    give(&order, sizeof order);
    take(&status, sizeof status);
    CHECK("5.4", "the peer's next request fails", status != IBV_WC_SUCCESS);
    bring_up(n);
}

int main(void)
{
    split();
    struct node n = open_node();
    // So that a peer whose partner is gone gives up soon.
    n.timeout = 10;
    n.retries = 3;
    if (!self.active) {
        serve(&n);
        close_node(&n);
        return finish();
    }
    struct ibv_mr *mr;
    struct order end = {.opcode = END};
    REQUIRE(mr = ibv_reg_mr(n.pd, n.buffer, BUFFER, BINDABLE));
    bring_up(&n);
    objects(&n);
    type_1(&n, mr);
    refused_by_the_call(&n, mr);
    refused_later(&n, mr);
    type_2(&n, mr);
    send_with_invalidate(&n, mr);
    in_order(&n, mr);
    CHECK_EQ("5.4", "with all windows gone the region goes", ibv_dereg_mr(mr), 0);
    give(&end, sizeof end);
    close_node(&n);
    return finish();
}
