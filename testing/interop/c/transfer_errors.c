// Every way in which a reliable transfer between two processes fails: the status on each side, the state afterwards, the
// asynchronous event at the target, and that not one byte moved.
//
// proves: verbs-abi 5.1 (keys, rights, zero length), 7.3 (flush), 7.4 (the table), 7.6 (access and request errors)

#include "common.h"

// ---- one-sided requests the target must refuse -------------------------------------------------------------------

enum key { GOOD_KEY, NONSENSE_KEY, LOCAL_KEY, FREED_KEY, OTHER_DOMAIN, NO_REMOTE_RIGHTS, READ_ONLY_KEY, WRITE_ONLY_KEY,
           KEYS };

// The keys of the target's regions. All cover its buffer.
struct keys {
    uint32_t key[KEYS];
    uint64_t address;
};

struct regions {
    struct ibv_pd *other_pd;
    struct ibv_mr *other, *none, *read_only, *write_only;
    struct keys keys;
};

static struct regions register_regions(struct node *n)
{
    struct regions r = {0};
    REQUIRE(r.other_pd = ibv_alloc_pd(n->context));
    REQUIRE(r.other = ibv_reg_mr(r.other_pd, n->buffer, BUFFER, ALL_REMOTE));
    REQUIRE(r.none = ibv_reg_mr(n->pd, n->buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE));
    REQUIRE(r.read_only = ibv_reg_mr(n->pd, n->buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    REQUIRE(r.write_only = ibv_reg_mr(n->pd, n->buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    struct ibv_mr *freed = ibv_reg_mr(n->pd, n->buffer, BUFFER, ALL_REMOTE);
    REQUIRE(freed);
    r.keys = (struct keys){
        .address = (uintptr_t)n->buffer,
        .key = {[GOOD_KEY] = n->mr->rkey, [NONSENSE_KEY] = 0xdeadbeef, [LOCAL_KEY] = n->mr->lkey,
                [FREED_KEY] = freed->rkey, [OTHER_DOMAIN] = r.other->rkey, [NO_REMOTE_RIGHTS] = r.none->rkey,
                [READ_ONLY_KEY] = r.read_only->rkey, [WRITE_ONLY_KEY] = r.write_only->rkey},
    };
    REQUIRE(ibv_dereg_mr(freed) == 0);
    return r;
}

static void deregister_regions(struct regions *r)
{
    REQUIRE(ibv_dereg_mr(r->other) == 0 && ibv_dereg_mr(r->none) == 0);
    REQUIRE(ibv_dereg_mr(r->read_only) == 0 && ibv_dereg_mr(r->write_only) == 0);
    REQUIRE(ibv_dealloc_pd(r->other_pd) == 0);
}

struct refusal {
    const char *sentence;
    enum ibv_wr_opcode opcode;
    enum key key;
    int64_t offset; // from the target's buffer
    uint32_t length;
    int qp_access; // of the target
    enum ibv_wc_status status;
    int event, event_too; // at the target; -1: none asked for
};

#define REM_ACCESS IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR
#define REM_REQUEST IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_REQ_ERR
#define NOT_ENABLED IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_REQ_ERR
#define LOCAL_AND_REMOTE_WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define WRAPS (INT64_MIN) // marks an address whose sum with the length wraps around

static const struct refusal refusals[] = {
    {"a write with a key nobody gave out", WRITE, NONSENSE_KEY, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"a read with a key nobody gave out", READ, NONSENSE_KEY, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"a compare and swap with a key nobody gave out", SWAP, NONSENSE_KEY, 64, 8, ALL_REMOTE, REM_ACCESS},
    {"a fetch and add with a key nobody gave out", ADD, NONSENSE_KEY, 64, 8, ALL_REMOTE, REM_ACCESS},
    {"a write with the local key in place of the remote one", WRITE, LOCAL_KEY, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"a read with the local key in place of the remote one", READ, LOCAL_KEY, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"a write with the key of a deregistered region", WRITE, FREED_KEY, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"a read with the key of a deregistered region", READ, FREED_KEY, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"a write to a region of another domain", WRITE, OTHER_DOMAIN, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"a read of a region of another domain", READ, OTHER_DOMAIN, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"an atomic on a region of another domain", ADD, OTHER_DOMAIN, 64, 8, ALL_REMOTE, REM_ACCESS},
    {"a write to a region without remote rights", WRITE, NO_REMOTE_RIGHTS, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"a read of a region without remote rights", READ, NO_REMOTE_RIGHTS, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"a write to a region with remote read only", WRITE, READ_ONLY_KEY, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"an atomic on a region with remote read only", ADD, READ_ONLY_KEY, 64, 8, ALL_REMOTE, REM_ACCESS},
    {"a read of a region with remote write only", READ, WRITE_ONLY_KEY, 64, 32, ALL_REMOTE, REM_ACCESS},
    {"a compare and swap on a region with remote write only", SWAP, WRITE_ONLY_KEY, 64, 8, ALL_REMOTE, REM_ACCESS},
    {"a write across the end of the region", WRITE, GOOD_KEY, BUFFER - 16, 32, ALL_REMOTE, REM_ACCESS},
    {"a read across the end of the region", READ, GOOD_KEY, BUFFER - 16, 32, ALL_REMOTE, REM_ACCESS},
    {"a write across the start of the region", WRITE, GOOD_KEY, -16, 32, ALL_REMOTE, REM_ACCESS},
    {"a read across the start of the region", READ, GOOD_KEY, -16, 32, ALL_REMOTE, REM_ACCESS},
    {"a write behind the end of the region", WRITE, GOOD_KEY, BUFFER, 8, ALL_REMOTE, REM_ACCESS},
    {"an atomic behind the end of the region", ADD, GOOD_KEY, BUFFER, 8, ALL_REMOTE, REM_ACCESS},
    {"a write whose address plus length wraps", WRITE, GOOD_KEY, WRAPS, 32, ALL_REMOTE, REM_ACCESS},
    {"a read whose address plus length wraps", READ, GOOD_KEY, WRAPS, 32, ALL_REMOTE, REM_ACCESS},
    {"a write larger than one ring message, across the end", WRITE, GOOD_KEY, 64, BUFFER, ALL_REMOTE, REM_ACCESS},
    {"a misaligned compare and swap", SWAP, GOOD_KEY, 68, 8, ALL_REMOTE, REM_REQUEST},
    {"a misaligned fetch and add", ADD, GOOD_KEY, 65, 8, ALL_REMOTE, REM_REQUEST},
    {"a misaligned atomic, judged before its key", ADD, NONSENSE_KEY, 65, 8, ALL_REMOTE, REM_REQUEST},
    {"a write to a queue pair that did not enable writes", WRITE, GOOD_KEY, 64, 32,
     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, NOT_ENABLED},
    {"a read of a queue pair that did not enable reads", READ, GOOD_KEY, 64, 32, LOCAL_AND_REMOTE_WRITE, NOT_ENABLED},
    {"an atomic to a queue pair that did not enable atomics", ADD, GOOD_KEY, 64, 8,
     LOCAL_AND_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, NOT_ENABLED},
};

static void the_target_refuses(struct node *n)
{
    char sentence[200];
    struct regions r = register_regions(n);
    struct keys theirs;
    swap_values(&r.keys, &theirs, sizeof theirs);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *bad = &refusals[i];
        n->qp_access = self.active ? ALL_REMOTE : bad->qp_access;
        bring_up(n);
        drain_events(n->context);
        memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
        meet();
        if (self.active) {
            uint64_t address = bad->offset == WRAPS ? UINT64_MAX - 15 : theirs.address + bad->offset;
            // An unsignalled write follows: it must flush, and must not overtake the refusal.
            struct ibv_sge sge = piece(n->buffer, 8, n->mr->lkey);
            struct ibv_send_wr later = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = WRITE}, *bad_wr;
            later.wr.rdma.remote_addr = theirs.address + 4096;
            later.wr.rdma.rkey = theirs.key[GOOD_KEY];
            REQUIRE(post_one(n, 1, bad->opcode, bad->length, address, theirs.key[bad->key]) == 0);
            int later_posted = ibv_post_send(n->qp, &later, &bad_wr);
            struct ibv_wc wc = next_completion(n->send_cq);
            CHECK_EQ("7.4", bad->sentence, wc.status, bad->status);
            CHECK("7.4", "its completion names the request and the queue pair",
                  wc.wr_id == 1 && wc.qp_num == n->qp->qp_num);
            if (later_posted == 0) {
                wc = next_completion(n->send_cq);
                CHECK("7.4", "the request behind it is flushed, though unsignalled",
                      wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 2);
            }
            CHECK_EQ("7.4", "the queue pair is in ERR", state_of(n->qp), IBV_QPS_ERR);
            CHECK("7.4", "nothing moved here", all_bytes(n->buffer, BUFFER, 0xa5));
        }
        meet();
        if (!self.active) {
            snprintf(sentence, sizeof sentence, "%s: nothing moved at the target", bad->sentence);
            CHECK("7.4", sentence, all_bytes(n->buffer, BUFFER, 0x3c));
            struct ibv_async_event event = next_event(n->context);
            snprintf(sentence, sizeof sentence, "%s: the target is told by an event", bad->sentence);
            CHECK_EITHER("7.6", sentence, event.event_type, bad->event, bad->event_too);
            CHECK("7.6", "of that queue pair", event.element.qp == n->qp);
            CHECK_EQ("7.4", "the target's queue pair is in ERR too", state_of(n->qp), IBV_QPS_ERR);
        }
        meet();
    }
    n->qp_access = ALL_REMOTE;
    deregister_regions(&r);
}

// ---- requests our own side must refuse ---------------------------------------------------------------------------

static void the_own_side_refuses(struct node *n)
{
    struct regions r = register_regions(n);
    struct ibv_mr *no_write = ibv_reg_mr(n->pd, n->buffer, BUFFER, IBV_ACCESS_REMOTE_READ);
    struct card theirs;
    REQUIRE(no_write);
    const struct {
        const char *sentence;
        enum ibv_wr_opcode opcode;
        uint64_t address;
        uint32_t length, lkey;
        bool remote_key_good;
        enum ibv_wc_status status;
    } bad[] = {
        {"a write from a key nobody gave out is LOC_PROT_ERR", WRITE, (uintptr_t)n->buffer, 32, 0xdeadbeef, true,
         IBV_WC_LOC_PROT_ERR},
        {"a send from a key nobody gave out is LOC_PROT_ERR", SEND, (uintptr_t)n->buffer, 32, 0xdeadbeef, true,
         IBV_WC_LOC_PROT_ERR},
        {"a write from the remote key is LOC_PROT_ERR", WRITE, (uintptr_t)n->buffer, 32, n->mr->rkey, true,
         IBV_WC_LOC_PROT_ERR},
        {"a write from a region of another domain is LOC_PROT_ERR", WRITE, (uintptr_t)n->buffer, 32, r.other->lkey,
         true, IBV_WC_LOC_PROT_ERR},
        {"a write from across the end of the region is LOC_PROT_ERR", WRITE, (uintptr_t)n->buffer + BUFFER - 16, 32,
         n->mr->lkey, true, IBV_WC_LOC_PROT_ERR},
        {"a write from an address that wraps is LOC_PROT_ERR", WRITE, UINT64_MAX - 15, 32, n->mr->lkey, true,
         IBV_WC_LOC_PROT_ERR},
        {"a read into a region without local write is LOC_PROT_ERR", READ, (uintptr_t)n->buffer, 32, no_write->lkey,
         true, IBV_WC_LOC_PROT_ERR},
        {"an atomic into a region without local write is LOC_PROT_ERR", ADD, (uintptr_t)n->buffer, 8, no_write->lkey,
         true, IBV_WC_LOC_PROT_ERR},
        {"a write with both keys wrong is LOC_PROT_ERR", WRITE, (uintptr_t)n->buffer, 32, 0xdeadbeef, false,
         IBV_WC_LOC_PROT_ERR},
        {"a read with both keys wrong is REM_ACCESS_ERR", READ, (uintptr_t)n->buffer, 32, 0xdeadbeef, false,
         IBV_WC_REM_ACCESS_ERR},
        {"an atomic with both keys wrong is REM_ACCESS_ERR", ADD, (uintptr_t)n->buffer, 8, 0xdeadbeef, false,
         IBV_WC_REM_ACCESS_ERR},
        {"an atomic with a local buffer of 4 bytes is LOC_LEN_ERR", ADD, (uintptr_t)n->buffer, 4, n->mr->lkey, true,
         IBV_WC_LOC_LEN_ERR},
        {"an atomic with a local buffer of 16 bytes is LOC_LEN_ERR", ADD, (uintptr_t)n->buffer, 16, n->mr->lkey, true,
         IBV_WC_LOC_LEN_ERR},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        theirs = bring_up(n);
        memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
        if (!self.active)
            REQUIRE(post_receive(n->qp, 1, piece(n->buffer, 64, n->mr->lkey)) == 0);
        meet();
        if (self.active) {
            struct ibv_sge sge = {.addr = bad[i].address, .length = bad[i].length, .lkey = bad[i].lkey};
            uint64_t at = theirs.address + 64;
            uint32_t rkey = bad[i].remote_key_good ? theirs.rkey : 0xdeadbeef;
            int posted = bad[i].opcode == ADD ? post_atomic(n->qp, 1, ADD, sge, at, rkey, 1, 2)
                                              : post(n->qp, 1, bad[i].opcode, sge, at, rkey);
            REQUIRE(posted == 0);
            CHECK_EQ("7.4", bad[i].sentence, next_completion(n->send_cq).status, bad[i].status);
            CHECK_EQ("7.4", "the queue pair is in ERR", state_of(n->qp), IBV_QPS_ERR);
            CHECK("7.4", "nothing moved here", all_bytes(n->buffer, BUFFER, 0xa5));
        }
        meet();
        if (!self.active) {
            struct ibv_wc wc;
            CHECK("7.4", "nothing moved at the target", all_bytes(n->buffer, BUFFER, 0x3c));
            if (bad[i].remote_key_good)
                CHECK_EQ("7.4", "the target's receive is still waiting", ibv_poll_cq(n->recv_cq, 1, &wc), 0);
        }
        meet();
    }

    // More than the port's largest message. The pages exist only on paper.
    struct ibv_port_attr port;
    REQUIRE(ibv_query_port(n->context, PORT, &port) == 0);
    size_t part = (size_t)port.max_msg_sz / 4 + 4096;
    void *paper = mmap(NULL, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct ibv_mr *large = paper == MAP_FAILED ? NULL : ibv_reg_mr(n->pd, paper, part, IBV_ACCESS_LOCAL_WRITE);
    theirs = bring_up(n);
    if (self.active && large) {
        struct ibv_sge sges[4];
        for (int i = 0; i < 4; i++)
            sges[i] = piece(paper, part, large->lkey);
        struct ibv_send_wr wr = {.wr_id = 1, .sg_list = sges, .num_sge = 4, .opcode = WRITE,
                                 .send_flags = IBV_SEND_SIGNALED}, *bad_wr;
        wr.wr.rdma.remote_addr = theirs.address;
        wr.wr.rdma.rkey = theirs.rkey;
        REQUIRE(ibv_post_send(n->qp, &wr, &bad_wr) == 0);
        CHECK_EQ("7.4", "more than max_msg_sz is LOC_LEN_ERR", next_completion(n->send_cq).status, IBV_WC_LOC_LEN_ERR);
    } else if (self.active) {
        printf("skip %s [7.4] no address space for a message of %zu bytes\n", role(), (size_t)port.max_msg_sz + 1);
    }
    meet();
    if (large)
        REQUIRE(ibv_dereg_mr(large) == 0);
    if (paper != MAP_FAILED)
        munmap(paper, part);
    REQUIRE(ibv_dereg_mr(no_write) == 0);
    deregister_regions(&r);
}

// ---- receives that cannot take what arrives ----------------------------------------------------------------------

static void receives_that_do_not_fit(struct node *n)
{
    struct regions r = register_regions(n);
    const struct {
        const char *sentence;
        struct ibv_sge receive;
        enum ibv_wc_status sender, receiver;
    } bad[] = {
        {"a receive buffer that is too small", piece(n->buffer, 31, n->mr->lkey), IBV_WC_REM_INV_REQ_ERR,
         IBV_WC_LOC_LEN_ERR},
        {"a receive with a key nobody gave out", piece(n->buffer, 64, 0xdeadbeef), IBV_WC_REM_OP_ERR,
         IBV_WC_LOC_PROT_ERR},
        {"a receive with the remote key", piece(n->buffer, 64, n->mr->rkey), IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
        {"a receive across the end of its region", piece(n->buffer + BUFFER - 16, 64, n->mr->lkey), IBV_WC_REM_OP_ERR,
         IBV_WC_LOC_PROT_ERR},
        {"a receive into a region of another domain", piece(n->buffer, 64, r.other->lkey), IBV_WC_REM_OP_ERR,
         IBV_WC_LOC_PROT_ERR},
    };
    char sentence[200];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bring_up(n);
        memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
        if (!self.active) {
            REQUIRE(post_receive(n->qp, 1, bad[i].receive) == 0);
            REQUIRE(post_receive(n->qp, 2, piece(n->buffer, 64, n->mr->lkey)) == 0);
        }
        meet();
        if (self.active) {
            REQUIRE(post_one(n, 1, SEND, 32, 0, 0) == 0);
            snprintf(sentence, sizeof sentence, "%s: the sender's status", bad[i].sentence);
            CHECK_EQ("7.4", sentence, next_completion(n->send_cq).status, bad[i].sender);
            CHECK_EQ("7.4", "and its queue pair is in ERR", state_of(n->qp), IBV_QPS_ERR);
        } else {
            struct ibv_wc wc = next_completion(n->recv_cq);
            snprintf(sentence, sizeof sentence, "%s: the receiver's status", bad[i].sentence);
            CHECK_EQ("7.4", sentence, wc.status, bad[i].receiver);
            CHECK_EQ("7.4", "of that receive", wc.wr_id, 1);
            wc = next_completion(n->recv_cq);
            CHECK("7.4", "the receive behind it is flushed", wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 2);
            CHECK_EQ("7.4", "and its queue pair is in ERR", state_of(n->qp), IBV_QPS_ERR);
            CHECK("7.4", "and nothing moved", all_bytes(n->buffer, BUFFER, 0x3c));
        }
        meet();
    }

    // A write with immediate whose write is refused: the receive that was due fails too, untouched.
    struct card theirs = bring_up(n);
    memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 7, piece(n->buffer, 64, n->mr->lkey)) == 0);
    meet();
    if (self.active) {
        REQUIRE(post_one(n, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 32, theirs.address + 64, 0xdeadbeef) == 0);
        CHECK_EQ("7.4", "a write with immediate to a bad key is REM_ACCESS_ERR", next_completion(n->send_cq).status,
                 IBV_WC_REM_ACCESS_ERR);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("7.4", "the receive due for it completes with LOC_ACCESS_ERR, LOC_PROT_ERR or flushed",
              wc.wr_id == 7 && (wc.status == IBV_WC_LOC_ACCESS_ERR || wc.status == IBV_WC_LOC_PROT_ERR ||
                                wc.status == IBV_WC_WR_FLUSH_ERR));
        CHECK("7.4", "and nothing moved", all_bytes(n->buffer, BUFFER, 0x3c));
    }
    meet();
    deregister_regions(&r);
}

// ---- zero length -------------------------------------------------------------------------------------------------

static void nothing_to_move_needs_no_key(struct node *n)
{
    bring_up(n);
    memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 1, piece(NULL, 0, 0)) == 0);
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 1, WRITE, piece(NULL, 0, 0), 12345, 0xdeadbeef) == 0);
        CHECK_EQ("5.1", "a write of no bytes succeeds with a nonsense key", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
        REQUIRE(post(n->qp, 2, READ, piece(NULL, 0, 0), UINT64_MAX, 0xdeadbeef) == 0);
        CHECK_EQ("5.1", "a read of no bytes succeeds with a nonsense key", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
        REQUIRE(post(n->qp, 3, SEND, piece(NULL, 0, 0), 0, 0) == 0);
        CHECK_EQ("5.1", "a send of no bytes succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("5.1", "and takes one receive, of 0 bytes", wc.status == IBV_WC_SUCCESS && wc.byte_len == 0);
    }
    meet();
    CHECK("5.1", "nothing moved", all_bytes(n->buffer, BUFFER, self.active ? 0xa5 : 0x3c));
    CHECK_EQ("5.1", "the queue pair is still in RTS", state_of(n->qp), IBV_QPS_RTS);
    meet();
}

// ---- nobody is ready, nobody answers -----------------------------------------------------------------------------

static void no_receive_is_told_after_timer_and_count(struct node *n)
{
    struct node saved = *n;
    // Responder's timer 20: 10.24 ms. With 3 retries the failure cannot come before three of them.
    n->rnr_timer = 20;
    n->rnr_retries = 3;
    bring_up(n);
    memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
    meet();
    if (self.active) {
        int64_t start = now_ns();
        REQUIRE(post_one(n, 1, SEND, 32, 0, 0) == 0 && post_one(n, 2, SEND, 32, 0, 0) == 0);
        struct ibv_wc wc = next_completion(n->send_cq);
        int64_t took_us = (now_ns() - start) / 1000;
        CHECK_EQ("7.4", "a send without a receive ends with RNR_RETRY_EXC_ERR", wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
        printf("     it took %" PRId64 " us for 3 retries of 10240 us\n", took_us);
        CHECK("7.2", "not before three of the responder's timers", took_us >= 3 * 10240 - 500);
        wc = next_completion(n->send_cq);
        CHECK("7.4", "the send behind it is flushed", wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 2);
        CHECK_EQ("7.4", "the sender is in ERR", state_of(n->qp), IBV_QPS_ERR);
    }
    meet();
    if (!self.active) {
        CHECK_EQ("7.4", "nothing happens to the responder", state_of(n->qp), IBV_QPS_RTS);
        CHECK("7.4", "and nothing moved", all_bytes(n->buffer, BUFFER, 0x3c));
    }

    n->rnr_timer = 1;
    n->rnr_retries = 0;
    bring_up(n);
    if (self.active) {
        REQUIRE(post_one(n, 1, SEND, 32, 0, 0) == 0);
        CHECK_EQ("7.4", "with no retries it ends at the first", next_completion(n->send_cq).status,
                 IBV_WC_RNR_RETRY_EXC_ERR);
    }
    meet();

    // 7 is for ever: the receive comes late and the send gets through. The write behind it keeps its place.
    n->rnr_retries = 7;
    struct card theirs = bring_up(n);
    memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
    meet();
    if (self.active) {
        REQUIRE(post_one(n, 1, SEND, 32, 0, 0) == 0);
        REQUIRE(post_one(n, 2, WRITE, 32, theirs.address + 4096, theirs.rkey) == 0);
    }
    meet();
    if (!self.active) {
        struct timespec a_while = {.tv_nsec = 30000000}; // three thousand timers of 10 us
        nanosleep(&a_while, NULL);
        CHECK("7.3", "a write behind a send that waits does not overtake it", all_bytes(n->buffer, BUFFER, 0x3c));
        REQUIRE(post_receive(n->qp, 5, piece(n->buffer, 64, n->mr->lkey)) == 0);
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("7.4", "a receive posted late is filled", wc.status == IBV_WC_SUCCESS && wc.byte_len == 32);
        CHECK("7.4", "with the bytes sent", all_bytes(n->buffer, 32, 0xa5));
    } else {
        CHECK_EQ("7.4", "the send that waited succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        CHECK_EQ("7.4", "then the write", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    if (!self.active)
        CHECK("7.4", "whose bytes are there", all_bytes(n->buffer + 4096, 32, 0xa5));
    n->rnr_timer = saved.rnr_timer;
    n->rnr_retries = saved.rnr_retries;
}

static void nobody_answers(struct node *n)
{
    static const struct {
        const char *sentence;
        int state; // of the peer; -1: its queue pair is destroyed
    } silent[] = {
        {"a peer queue pair in RESET", IBV_QPS_RESET},
        {"a peer queue pair in INIT", IBV_QPS_INIT},
        {"a peer queue pair in ERR", IBV_QPS_ERR},
        {"a peer queue pair that was destroyed", -1},
    };
    char sentence[200];
    int timeout = n->timeout, retries = n->retries;
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        // 4.096 us * 2^12 = 16.8 ms, (2 + 1) times.
        n->timeout = 12;
        n->retries = 2;
        struct card theirs = bring_up(n);
        memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
        if (!self.active) {
            struct ibv_qp_attr attr = {.qp_state = silent[i].state == IBV_QPS_ERR ? IBV_QPS_ERR : IBV_QPS_RESET};
            REQUIRE(ibv_modify_qp(n->qp, &attr, IBV_QP_STATE) == 0);
            if (silent[i].state == IBV_QPS_INIT)
                REQUIRE(to_init(n) == 0);
            if (silent[i].state == -1)
                drop_qp(n);
        }
        meet();
        if (self.active) {
            int64_t start = now_ns();
            REQUIRE(post_one(n, 1, WRITE, 32, theirs.address, theirs.rkey) == 0);
            REQUIRE(post_one(n, 2, SEND, 32, 0, 0) == 0);
            struct ibv_wc wc = next_completion(n->send_cq);
            int64_t took_us = (now_ns() - start) / 1000;
            snprintf(sentence, sizeof sentence, "%s: RETRY_EXC_ERR", silent[i].sentence);
            CHECK_EITHER("7.4", sentence, wc.status, IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_OP_ERR);
            printf("     it took %" PRId64 " us for 3 timeouts of 16777 us\n", took_us);
            if (wc.status == IBV_WC_RETRY_EXC_ERR)
                CHECK("7.2", "after the timeouts, not before", took_us >= 3 * 16777 - 500);
            wc = next_completion(n->send_cq);
            CHECK("7.4", "the request behind it is flushed", wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 2);
            CHECK_EQ("7.4", "the queue pair is in ERR", state_of(n->qp), IBV_QPS_ERR);
        }
        meet();
        if (!self.active)
            CHECK("7.4", "nothing moved", all_bytes(n->buffer, BUFFER, 0x3c));
        meet();
    }

    // A number that no queue pair has.
    drop_qp(n);
    if (self.active) {
        REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
        struct card nobody = card_of(n);
        nobody.qpn ^= 0x00abcd;
        n->retries = 1;
        REQUIRE(to_init(n) == 0);
        CHECK_EQ("7.2", "RTR towards a number nobody has is taken", to_rtr(n, &nobody), 0);
        CHECK_EQ("7.2", "and RTS", to_rts(n, nobody.psn), 0);
        REQUIRE(post_one(n, 1, SEND, 32, 0, 0) == 0);
        CHECK_EQ("7.4", "a send to it is RETRY_EXC_ERR", next_completion(n->send_cq).status, IBV_WC_RETRY_EXC_ERR);
    }
    meet();
    n->timeout = timeout;
    n->retries = retries;
}

// Who sends before its peer takes anything does not wait for a timeout once it does.
static void a_peer_that_is_ready_later(struct node *n)
{
    int timeout = n->timeout;
    bring_up(n);
    struct ibv_qp *before = n->qp;
    n->timeout = 19; // 2.1 s
    REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
    struct card ours = card_of(n), theirs;
    swap_values(&ours, &theirs, sizeof ours);
    REQUIRE(to_init(n) == 0);
    memset(n->buffer, 0x3c, BUFFER);
    if (!self.active) {
        REQUIRE(post_receive(before, 2, piece(n->buffer + 4096, 4096, n->mr->lkey)) == 0);
        REQUIRE(post_receive(n->qp, 3, piece(n->buffer, 4096, n->mr->lkey)) == 0);
    }
    meet();
    struct ibv_wc wc;
    int64_t start = now_ns();
    if (self.active) {
        fill(n->buffer, 32, 9);
        REQUIRE(to_rtr(n, &theirs) == 0 && to_rts(n, ours.psn) == 0 && post_one(n, 1, SEND, 32, 0, 0) == 0);
        // What comes behind it by another queue pair shows that it was looked at.
        REQUIRE(post(before, 2, SEND, piece(n->buffer, 32, n->mr->lkey), 0, 0) == 0);
        wc = next_completion(n->send_cq);
        REQUIRE(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2);
    } else {
        wc = next_completion(n->recv_cq);
        CHECK("7.2", "nothing is received in INIT",
              wc.status == IBV_WC_SUCCESS && wc.wr_id == 2 && all_bytes(n->buffer, 4096, 0x3c));
        REQUIRE(to_rtr(n, &theirs) == 0);
    }
    wc = next_completion(self.active ? n->send_cq : n->recv_cq);
    CHECK("7.2", "what was sent to a queue pair in INIT arrives when that is in RTR",
          wc.status == IBV_WC_SUCCESS && filled(n->buffer, 32, 9));
    CHECK("7.2", "and not after a timeout", now_ns() - start < 1000000000);
    meet();
    REQUIRE(ibv_destroy_qp(before) == 0);
    n->timeout = timeout;
}

// The sender counts from another number than the receiver was told.
static void numbers_that_do_not_agree(struct node *n)
{
    static const struct {
        const char *sentence;
        int by;
    } wrong[] = {
        {"a sender that starts before the number that its peer expects", -7},
        {"a sender that starts behind it", 7},
    };
    char sentence[200];
    int timeout = n->timeout, retries = n->retries;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        n->timeout = 12;
        n->retries = 1;
        drop_qp(n);
        REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
        struct card ours = card_of(n), theirs;
        swap_values(&ours, &theirs, sizeof ours);
        REQUIRE(to_init(n) == 0 && to_rtr(n, &theirs) == 0 && to_rts(n, ours.psn + wrong[i].by) == 0);
        memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
        if (!self.active)
            REQUIRE(post_receive(n->qp, 3, piece(n->buffer, 4096, n->mr->lkey)) == 0);
        meet();
        if (self.active) {
            REQUIRE(post_one(n, 1, SEND, 32, 0, 0) == 0);
            snprintf(sentence, sizeof sentence, "%s: RETRY_EXC_ERR", wrong[i].sentence);
            CHECK_EQ("7.4", sentence, next_completion(n->send_cq).status, IBV_WC_RETRY_EXC_ERR);
        }
        meet();
        if (!self.active) {
            struct ibv_wc wc;
            CHECK("7.4", "nothing moved", ibv_poll_cq(n->recv_cq, 1, &wc) == 0 && all_bytes(n->buffer, BUFFER, 0x3c));
        }
        meet();
    }
    n->timeout = timeout;
    n->retries = retries;
}

// ---- flush -------------------------------------------------------------------------------------------------------

static void entering_err_flushes_everything(struct node *n)
{
    struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR}, reset = {.qp_state = IBV_QPS_RESET};
    bring_up(n);
    if (self.active) {
        // Sends that wait for a receive the peer never posts, one of them unsignalled; and receives.
        struct ibv_sge sge = piece(n->buffer, 8, n->mr->lkey);
        struct ibv_send_wr quiet = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = SEND}, *bad;
        for (int i = 1; i <= 3; i++)
            REQUIRE(post_receive(n->qp, 10 + i, piece(n->buffer, 64, n->mr->lkey)) == 0);
        REQUIRE(post_one(n, 1, SEND, 8, 0, 0) == 0);
        REQUIRE(ibv_post_send(n->qp, &quiet, &bad) == 0);
        REQUIRE(post_one(n, 3, SEND, 8, 0, 0) == 0);
        REQUIRE(ibv_modify_qp(n->qp, &err, IBV_QP_STATE) == 0);
        for (int i = 1; i <= 3; i++) {
            struct ibv_wc sent = next_completion(n->send_cq), received = next_completion(n->recv_cq);
            CHECK("7.4", "a pending send, signalled or not, is flushed in its turn",
                  sent.status == IBV_WC_WR_FLUSH_ERR && sent.wr_id == (uint64_t)i);
            CHECK("7.4", "a pending receive is flushed in its turn",
                  received.status == IBV_WC_WR_FLUSH_ERR && received.wr_id == (uint64_t)(10 + i));
        }
        CHECK_EQ("7.3", "a send in ERR is accepted", post_one(n, 4, SEND, 8, 0, 0), 0);
        CHECK_EQ("7.3", "and flushed", next_completion(n->send_cq).status, IBV_WC_WR_FLUSH_ERR);
        CHECK_EQ("7.3", "a receive in ERR is accepted", post_receive(n->qp, 5, piece(n->buffer, 8, n->mr->lkey)), 0);
        CHECK_EQ("7.3", "and flushed", next_completion(n->recv_cq).status, IBV_WC_WR_FLUSH_ERR);
        REQUIRE(ibv_modify_qp(n->qp, &reset, IBV_QP_STATE) == 0);
        CHECK_EQ("7.3", "back in RESET a receive is refused",
                 post_receive(n->qp, 6, piece(n->buffer, 8, n->mr->lkey)), EINVAL);
        CHECK_EQ("7.3", "and a send", post_one(n, 7, SEND, 8, 0, 0), EINVAL);
    }
    meet();
    // The same queue pair numbers serve again after RESET, with nothing left over.
    struct card ours = card_of(n), theirs;
    if (!self.active)
        REQUIRE(ibv_modify_qp(n->qp, &reset, IBV_QP_STATE) == 0);
    swap_values(&ours, &theirs, sizeof ours);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &theirs) == 0 && to_rts(n, ours.psn) == 0);
    meet();
    if (self.active) {
        fill(n->buffer, 32, 5);
        REQUIRE(post_one(n, 1, WRITE, 32, theirs.address, theirs.rkey) == 0);
        CHECK_EQ("7.2", "after RESET the pair can be connected again", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
    }
    meet();
    if (!self.active)
        CHECK("7.2", "and carries bytes", filled(n->buffer, 32, 5));
    meet();
}

int main(void)
{
    split();
    struct node n = open_node();
    the_target_refuses(&n);
    the_own_side_refuses(&n);
    receives_that_do_not_fit(&n);
    nothing_to_move_needs_no_key(&n);
    no_receive_is_told_after_timer_and_count(&n);
    a_peer_that_is_ready_later(&n);
    numbers_that_do_not_agree(&n);
    nobody_answers(&n);
    entering_err_flushes_everything(&n);
    close_node(&n);
    return finish();
}
