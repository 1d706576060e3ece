// The calls of ibv_wr_post(3): what they build is posted as a whole, does what ibv_post_send does, and after a mistake
// nothing of it happens. One process, a queue pair connected to itself.
//
// proves: 7.3 5.4

#include "common.h"

#include <pthread.h>

#define UNTOUCHED 0xee
#define FAR 32768u // where the target lies in the buffer

#define EVERY_RC                                                                                                    \
    (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |                         \
     IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |                  \
     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |                      \
     IBV_QP_EX_WITH_SEND_WITH_INV)

static struct ibv_qp_init_attr_ex wanted(struct node *n, uint64_t operations)
{
    struct ibv_qp_init_attr_ex init = {
        .send_cq = n->send_cq,
        .recv_cq = n->recv_cq,
        .cap = n->cap,
        .qp_type = n->type,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = n->pd,
        .send_ops_flags = operations,
    };
    return init;
}

static struct ibv_qp_ex *make(struct node *n, uint64_t operations)
{
    struct ibv_qp_init_attr_ex init = wanted(n, operations);
    drop_qp(n);
    drain(n->send_cq);
    drain(n->recv_cq);
    REQUIRE(n->qp = ibv_create_qp_ex(n->context, &init));
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(n->qp);
    REQUIRE(qp);
    qp->wr_id = 0;
    qp->wr_flags = IBV_SEND_SIGNALED;
    return qp;
}

static struct ibv_qp_ex *to_itself(struct node *n, uint64_t operations)
{
    struct ibv_qp_ex *qp = make(n, operations);
    struct card here = card_of(n);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);
    return qp;
}

static unsigned char *far_end(struct node *n) { return n->buffer + FAR; }

static uint64_t far_address(struct node *n) { return (uintptr_t)far_end(n); }

static void wipe(struct node *n)
{
    fill(n->buffer, 4096, 5);
    memset(far_end(n), UNTOUCHED, 8192);
}

static bool nothing_moved(struct node *n)
{
    struct ibv_wc wc;
    return ibv_poll_cq(n->send_cq, 1, &wc) == 0 && ibv_poll_cq(n->recv_cq, 1, &wc) == 0 &&
           all_bytes(far_end(n), 8192, UNTOUCHED);
}

static bool done(struct node *n, uint64_t id, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = next_completion(n->send_cq);
    return wc.status == IBV_WC_SUCCESS && wc.wr_id == id && wc.opcode == opcode;
}

// One write of eight bytes, the seed's in its place.
static void build_write(struct node *n, struct ibv_qp_ex *qp, uint64_t id, unsigned place)
{
    qp->wr_id = id;
    ibv_wr_rdma_write(qp, n->mr->rkey, far_address(n) + 8 * place);
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer + 8 * place, 8);
}

static void every_operation_does_what_its_opcode_does(struct node *n)
{
    struct ibv_qp_ex *qp = to_itself(n, EVERY_RC);
    wipe(n);
    for (int i = 0; i < 4; i++)
        REQUIRE(post_receive(n->qp, 100 + i, piece(far_end(n) + 4096 + 64 * i, 64, n->mr->lkey)) == 0);

    ibv_wr_start(qp);
    qp->wr_id = 1;
    ibv_wr_rdma_write(qp, n->mr->rkey, far_address(n));
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 64);
    qp->wr_id = 2;
    ibv_wr_rdma_write_imm(qp, n->mr->rkey, far_address(n) + 64, 0x01020304);
    struct ibv_sge two[2] = {piece(n->buffer + 64, 24, n->mr->lkey), piece(n->buffer + 88, 40, n->mr->lkey)};
    ibv_wr_set_sge_list(qp, 2, two);
    memset(two, 0, sizeof two);
    qp->wr_id = 3;
    ibv_wr_send(qp);
    unsigned char own[16];
    fill(own, sizeof own, 9);
    ibv_wr_set_inline_data(qp, own, sizeof own);
    memset(own, 0, sizeof own);
    qp->wr_id = 4;
    ibv_wr_send_imm(qp, 0x0a0b0c0d);
    unsigned char parts[2][8];
    fill(parts, sizeof parts, 11);
    struct ibv_data_buf buffers[2] = {{parts[0], 3}, {parts[0] + 3, 13}};
    ibv_wr_set_inline_data_list(qp, 2, buffers);
    memset(parts, 0, sizeof parts);
    qp->wr_id = 5;
    ibv_wr_rdma_read(qp, n->mr->rkey, (uintptr_t)n->buffer + 1024);
    ibv_wr_set_sge(qp, n->mr->lkey, far_address(n) + 1024, 128);
    CHECK("7.3", "before ibv_wr_complete nothing has moved", nothing_moved(n));
    CHECK_EQ("7.3", "ibv_wr_complete returns 0", ibv_wr_complete(qp), 0);

    CHECK("7.3", "a write is done under its number", done(n, 1, IBV_WC_RDMA_WRITE));
    CHECK("7.3", "a write with immediate follows", done(n, 2, IBV_WC_RDMA_WRITE));
    CHECK("7.3", "then a send", done(n, 3, IBV_WC_SEND));
    CHECK("7.3", "then one with immediate", done(n, 4, IBV_WC_SEND));
    CHECK("7.3", "then a read", done(n, 5, IBV_WC_RDMA_READ));
    CHECK("7.3", "the writes stand where they were sent", !memcmp(far_end(n), n->buffer, 128));
    CHECK("7.3", "the read brought its bytes", !memcmp(far_end(n) + 1024, n->buffer + 1024, 128));
    struct ibv_wc wc = next_completion(n->recv_cq);
    CHECK("7.3", "the immediate of the write arrives", wc.wr_id == 100 && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
                                                           wc.imm_data == 0x01020304 && wc.byte_len == 64);
    wc = next_completion(n->recv_cq);
    CHECK("7.3", "inline data arrives as it was at its call",
          wc.wr_id == 101 && wc.byte_len == 16 && filled(far_end(n) + 4096 + 64, 16, 9));
    wc = next_completion(n->recv_cq);
    CHECK("7.3", "a list of inline data arrives joined, with the immediate",
          wc.wr_id == 102 && wc.byte_len == 16 && filled(far_end(n) + 4096 + 128, 16, 11) &&
              wc.imm_data == 0x0a0b0c0d && (wc.wc_flags & IBV_WC_WITH_IMM));

    uint64_t *counter = (uint64_t *)far_end(n), *before = (uint64_t *)n->buffer;
    *counter = 41;
    ibv_wr_start(qp);
    qp->wr_id = 6;
    ibv_wr_atomic_fetch_add(qp, n->mr->rkey, far_address(n), 1);
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)before, 8);
    qp->wr_id = 7;
    ibv_wr_atomic_cmp_swp(qp, n->mr->rkey, far_address(n), 42, 7);
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)(before + 1), 8);
    qp->wr_id = 8;
    ibv_wr_send(qp);
    CHECK_EQ("7.3", "atomics and a send without data are taken", ibv_wr_complete(qp), 0);
    CHECK("7.3", "an addition is done", done(n, 6, IBV_WC_FETCH_ADD) && before[0] == 41);
    CHECK("7.3", "and a swap after it", done(n, 7, IBV_WC_COMP_SWAP) && before[1] == 42 && *counter == 7);
    CHECK("7.3", "without a setter a message has no bytes",
          done(n, 8, IBV_WC_SEND) && next_completion(n->recv_cq).byte_len == 0);

    ibv_wr_start(qp);
    CHECK_EQ("7.3", "nothing at all is taken as well", ibv_wr_complete(qp), 0);

    // Flags count at the call that begins the request.
    wipe(n);
    ibv_wr_start(qp);
    qp->wr_flags = 0;
    build_write(n, qp, 9, 0);
    qp->wr_flags = IBV_SEND_SIGNALED;
    build_write(n, qp, 10, 1);
    qp->wr_flags = 0;
    qp->wr_id = 99;
    CHECK_EQ("7.3", "two writes are taken", ibv_wr_complete(qp), 0);
    CHECK("7.3", "only the signalled one completes", done(n, 10, IBV_WC_RDMA_WRITE));
    struct ibv_wc none;
    CHECK("7.3", "and nothing else", ibv_poll_cq(n->send_cq, 1, &none) == 0);
    CHECK("7.3", "both were written", !memcmp(far_end(n), n->buffer, 16));
    qp->wr_flags = IBV_SEND_SIGNALED;

    // The old way and the new one, one after the other.
    REQUIRE(post(n->qp, 11, IBV_WR_RDMA_WRITE, piece(n->buffer, 8, n->mr->lkey), far_address(n), n->mr->rkey) == 0);
    ibv_wr_start(qp);
    build_write(n, qp, 12, 3);
    CHECK_EQ("7.3", "behind ibv_post_send", ibv_wr_complete(qp), 0);
    CHECK("7.3", "in its order", done(n, 11, IBV_WC_RDMA_WRITE) && done(n, 12, IBV_WC_RDMA_WRITE));
}

// Built or posted, a word arrives as one, and what is no word is refused and moves nothing.
static void an_atomic_write_is_of_a_word(struct node *n)
{
    struct ibv_device_attr_ex attr;
    REQUIRE(ibv_query_device_ex(n->context, NULL, &attr) == 0);
    CHECK("7.3", "atomic writes are announced", attr.device_cap_flags_ex >> 40 & 1);
    struct ibv_qp_ex *qp = to_itself(n, EVERY_RC | IBV_QP_EX_WITH_ATOMIC_WRITE);
    wipe(n);
    uint64_t word = 0x0123456789abcdef;
    ibv_wr_start(qp);
    qp->wr_id = 1;
    ibv_wr_atomic_write(qp, n->mr->rkey, far_address(n) + 8, &word);
    word = 0;
    CHECK_EQ("7.3", "an atomic write is built", ibv_wr_complete(qp), 0);
    CHECK("7.3", "and carried out", done(n, 1, IBV_WC_ATOMIC_WRITE));
    memcpy(&word, far_end(n) + 8, 8);
    CHECK("7.3", "with the word as it was at the call", word == 0x0123456789abcdef);
    REQUIRE(post(n->qp, 2, IBV_WR_ATOMIC_WRITE, piece(n->buffer, 8, n->mr->lkey), far_address(n) + 16, n->mr->rkey) == 0);
    CHECK("7.3", "one is posted", done(n, 2, IBV_WC_ATOMIC_WRITE) && memcmp(far_end(n) + 16, n->buffer, 8) == 0);
    CHECK("7.3", "and nothing beside it is written", all_bytes(far_end(n), 8, UNTOUCHED) && all_bytes(far_end(n) + 24, 64, UNTOUCHED));

    wipe(n);
    const struct { const char *sentence; uint32_t length, off; } wrong[] = {
        {"an atomic write of 4 bytes is refused", 4, 0}, {"of 16 bytes", 16, 0}, {"of none", 0, 0}, {"of a word at no multiple of 8", 8, 4},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_EQ("7.3", wrong[i].sentence,
                 post(n->qp, 3, IBV_WR_ATOMIC_WRITE, piece(n->buffer, wrong[i].length, n->mr->lkey), far_address(n) + wrong[i].off, n->mr->rkey), EINVAL);
    ibv_wr_start(qp);
    build_write(n, qp, 4, 1);
    ibv_wr_atomic_write(qp, n->mr->rkey, far_address(n) + 4, &word);
    CHECK_EQ("7.3", "also when it is built", ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    ibv_wr_atomic_write(qp, n->mr->rkey, far_address(n), &word);
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 8);
    CHECK_EQ("7.3", "it takes no other data", ibv_wr_complete(qp), EINVAL);
    CHECK("7.3", "nothing of these moved", nothing_moved(n));
    n->type = IBV_QPT_UC;
    struct ibv_qp_init_attr_ex init = wanted(n, IBV_QP_EX_WITH_ATOMIC_WRITE);
    CHECK_NULL("7.1", "an unreliable queue pair has none", ibv_create_qp_ex(n->context, &init), EOPNOTSUPP);
    n->type = IBV_QPT_RC;
}

// What a mistake is, between a good request and another.
enum mistake {
    TOO_MANY_PIECES, TOO_MUCH_INLINE, TOO_MUCH_IN_A_LIST, NO_LIST, A_SECOND_SETTER, INLINE_READ, DATA_OF_AN_INVALIDATION,
    FLAGS, NOT_ASKED_FOR, SEGMENTATION, ATOMIC_WRITE, SOMEBODY_ELSES_ADDRESS, XRC, STARTED_TWICE, TYPE_1, NO_WINDOW,
    NO_BIND_INFO, REGION_OF_ANOTHER_DOMAIN, MISTAKES
};

static const struct { const char *what; int error; } mistakes[MISTAKES] = {
    [TOO_MANY_PIECES] = {"more pieces than the queue pair takes", EINVAL},
    [TOO_MUCH_INLINE] = {"more inline data than the queue pair takes", EINVAL},
    [TOO_MUCH_IN_A_LIST] = {"inline data longer than memory", EINVAL},
    [NO_LIST] = {"a count of buffers without a list", EINVAL},
    [A_SECOND_SETTER] = {"a second setter of data", EINVAL},
    [INLINE_READ] = {"a read into inline data", EINVAL},
    [DATA_OF_AN_INVALIDATION] = {"data of an invalidation", EINVAL},
    [FLAGS] = {"unknown flags", EINVAL},
    [NOT_ASKED_FOR] = {"an operation the queue pair was not created for", EOPNOTSUPP},
    [SEGMENTATION] = {"segmentation", EOPNOTSUPP},
    [ATOMIC_WRITE] = {"an atomic write", EOPNOTSUPP},
    [SOMEBODY_ELSES_ADDRESS] = {"an address on a connected queue pair", EINVAL},
    [XRC] = {"a shared receive queue of XRC", EINVAL},
    [STARTED_TWICE] = {"a second start", EINVAL},
    [TYPE_1] = {"binding a window of type 1", EINVAL},
    [NO_WINDOW] = {"binding no window", EINVAL},
    [NO_BIND_INFO] = {"binding to nothing that was said", EINVAL},
    [REGION_OF_ANOTHER_DOMAIN] = {"binding to a region of another domain", EPERM},
};

static void make_mistake(struct node *n, struct ibv_qp_ex *qp, enum mistake mistake, struct ibv_mw *windows[2],
                         struct ibv_mr *foreign)
{
    static unsigned char large[8192];
    struct ibv_sge many[64];
    struct ibv_data_buf wrapping[2] = {{large, SIZE_MAX}, {large, 2}};
    struct ibv_mw_bind_info info = {.mr = n->mr, .addr = far_address(n), .length = 64,
                                    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    for (int i = 0; i < 64; i++)
        many[i] = piece(n->buffer, 8, n->mr->lkey);
    switch (mistake) {
    case TOO_MANY_PIECES:
        ibv_wr_rdma_write(qp, n->mr->rkey, far_address(n));
        ibv_wr_set_sge_list(qp, 64, many);
        break;
    case TOO_MUCH_INLINE:
        ibv_wr_rdma_write(qp, n->mr->rkey, far_address(n));
        ibv_wr_set_inline_data(qp, large, sizeof large);
        break;
    case TOO_MUCH_IN_A_LIST:
        ibv_wr_rdma_write(qp, n->mr->rkey, far_address(n));
        ibv_wr_set_inline_data_list(qp, 2, wrapping);
        break;
    case NO_LIST:
        ibv_wr_rdma_write(qp, n->mr->rkey, far_address(n));
        ibv_wr_set_inline_data_list(qp, 2, NULL);
        break;
    case A_SECOND_SETTER:
        build_write(n, qp, 1, 1);
        ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 8);
        break;
    case INLINE_READ:
        ibv_wr_rdma_read(qp, n->mr->rkey, (uintptr_t)n->buffer);
        ibv_wr_set_inline_data(qp, large, 8);
        break;
    case DATA_OF_AN_INVALIDATION:
        ibv_wr_local_inv(qp, n->mr->rkey);
        ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 8);
        break;
    case FLAGS:
        qp->wr_flags = 1 << 20;
        build_write(n, qp, 1, 1);
        qp->wr_flags = IBV_SEND_SIGNALED;
        break;
    case NOT_ASKED_FOR:
        ibv_wr_atomic_fetch_add(qp, n->mr->rkey, far_address(n), 1);
        break;
    case SEGMENTATION:
        ibv_wr_send_tso(qp, large, 16, 256);
        break;
    case ATOMIC_WRITE:
        qp->wr_atomic_write(qp, n->mr->rkey, far_address(n), large);
        break;
    case SOMEBODY_ELSES_ADDRESS:
        ibv_wr_send(qp);
        ibv_wr_set_ud_addr(qp, NULL, 1, 1);
        break;
    case XRC:
        ibv_wr_send(qp);
        ibv_wr_set_xrc_srqn(qp, 1);
        break;
    case STARTED_TWICE:
        ibv_wr_start(qp);
        break;
    case TYPE_1:
        ibv_wr_bind_mw(qp, windows[0], windows[0]->rkey + 1, &info);
        break;
    case NO_WINDOW:
        ibv_wr_bind_mw(qp, NULL, 1, &info);
        break;
    case NO_BIND_INFO:
        ibv_wr_bind_mw(qp, windows[1], windows[1]->rkey + 1, NULL);
        break;
    case REGION_OF_ANOTHER_DOMAIN:
        info.mr = foreign;
        ibv_wr_bind_mw(qp, windows[1], windows[1]->rkey + 1, &info);
        break;
    case MISTAKES:
        break;
    }
}

static void after_a_mistake_nothing_is_posted(struct node *n)
{
    struct ibv_qp_ex *qp = to_itself(n, EVERY_RC & ~IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
    struct ibv_pd *other = ibv_alloc_pd(n->context);
    struct ibv_mw *windows[2] = {ibv_alloc_mw(n->pd, IBV_MW_TYPE_1), ibv_alloc_mw(n->pd, IBV_MW_TYPE_2)};
    REQUIRE(other && windows[0] && windows[1]);
    struct ibv_mr *foreign = ibv_reg_mr(other, n->buffer, 4096, ALL_REMOTE | IBV_ACCESS_MW_BIND);
    REQUIRE(foreign);
    uint32_t keys[2] = {windows[0]->rkey, windows[1]->rkey};
    wipe(n);
    for (int mistake = 0; mistake < MISTAKES; mistake++) {
        ibv_wr_start(qp);
        build_write(n, qp, 1, 0);
        make_mistake(n, qp, (enum mistake)mistake, windows, foreign);
        build_write(n, qp, 2, 2);
        CHECK_EQ("7.3", mistakes[mistake].what, ibv_wr_complete(qp), mistakes[mistake].error);
        CHECK("7.3", "and nothing around it was posted", nothing_moved(n));
    }
    CHECK("7.3", "no window shows another key", windows[0]->rkey == keys[0] && windows[1]->rkey == keys[1]);

    ibv_wr_start(qp);
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 8);
    CHECK_EQ("7.3", "a setter without a request is EINVAL", ibv_wr_complete(qp), EINVAL);
    CHECK_EQ("7.3", "a completion without a start is EINVAL", ibv_wr_complete(qp), EINVAL);
    ibv_wr_send(qp);
    CHECK_EQ("7.3", "so is one of a request without a start", ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    build_write(n, qp, 1, 0);
    ibv_wr_abort(qp);
    CHECK("7.3", "what is aborted is forgotten", nothing_moved(n));
    ibv_wr_abort(qp);

    ibv_wr_start(qp);
    build_write(n, qp, 3, 0);
    CHECK_EQ("7.3", "after all that the queue pair works", ibv_wr_complete(qp), 0);
    CHECK("7.3", "and carries out what it is told, alone", done(n, 3, IBV_WC_RDMA_WRITE) &&
                                                               !memcmp(far_end(n), n->buffer, 8) &&
                                                               all_bytes(far_end(n) + 8, 4096, UNTOUCHED));
    REQUIRE(!ibv_dereg_mr(foreign) && !ibv_dealloc_mw(windows[0]) && !ibv_dealloc_mw(windows[1]));
    REQUIRE(!ibv_dealloc_pd(other));
}

static void a_batch_fits_or_is_refused(struct node *n)
{
    struct ibv_qp_ex *qp = to_itself(n, IBV_QP_EX_WITH_RDMA_WRITE);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    REQUIRE(ibv_query_qp(n->qp, &attr, IBV_QP_CAP, &init) == 0);
    unsigned room = init.cap.max_send_wr;
    wipe(n);
    ibv_wr_start(qp);
    for (unsigned i = 0; i <= room; i++)
        build_write(n, qp, i, i);
    CHECK_EQ("7.3", "one more than the send queue takes is ENOMEM", ibv_wr_complete(qp), ENOMEM);
    CHECK("7.3", "and none is posted", nothing_moved(n));
    ibv_wr_start(qp);
    for (unsigned i = 0; i < room - 1; i++)
        build_write(n, qp, i, i);
    CHECK_EQ("7.3", "one less is taken", ibv_wr_complete(qp), 0);
    memset(far_end(n), UNTOUCHED, 8192);
    ibv_wr_start(qp);
    build_write(n, qp, 500, 0);
    build_write(n, qp, 501, 1);
    CHECK_EQ("7.3", "two do not fit into one place", ibv_wr_complete(qp), ENOMEM);
    CHECK("7.3", "and neither is posted", all_bytes(far_end(n), 8192, UNTOUCHED));
    ibv_wr_start(qp);
    build_write(n, qp, room - 1, 0);
    CHECK_EQ("7.3", "one does", ibv_wr_complete(qp), 0);
    unsigned in_order = 0;
    for (unsigned i = 0; i < room; i++)
        in_order += done(n, i, IBV_WC_RDMA_WRITE);
    CHECK_EQ("7.3", "all complete in order", in_order, room);

    qp = make(n, IBV_QP_EX_WITH_RDMA_WRITE);
    wipe(n);
    for (unsigned count = 1; count <= 2; count++) {
        ibv_wr_start(qp);
        for (unsigned i = 0; i < count; i++)
            build_write(n, qp, i, i);
        CHECK_EQ("7.3", "in RESET a batch is EINVAL", ibv_wr_complete(qp), EINVAL);
    }
    CHECK("7.3", "and nothing is posted in RESET", nothing_moved(n));
    struct card here = card_of(n);
    struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
    REQUIRE(to_init(n) == 0 && to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);
    REQUIRE(ibv_modify_qp(n->qp, &err, IBV_QP_STATE) == 0);
    ibv_wr_start(qp);
    build_write(n, qp, 7, 0);
    build_write(n, qp, 8, 1);
    CHECK_EQ("7.3", "in ERR it is taken", ibv_wr_complete(qp), 0);
    struct ibv_wc first = next_completion(n->send_cq), second = next_completion(n->send_cq);
    CHECK("7.3", "and flushed", first.status == IBV_WC_WR_FLUSH_ERR && first.wr_id == 7 &&
                                    second.status == IBV_WC_WR_FLUSH_ERR && second.wr_id == 8);
    CHECK("7.3", "without moving anything", nothing_moved(n));
}

static void windows_are_bound_and_invalidated(struct node *n)
{
    struct ibv_qp_ex *qp = to_itself(n, EVERY_RC);
    struct ibv_mr *mr = ibv_reg_mr(n->pd, n->buffer, BUFFER, ALL_REMOTE | IBV_ACCESS_MW_BIND);
    struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2);
    REQUIRE(mr && mw);
    struct ibv_mw_bind_info info = {.mr = mr, .addr = far_address(n), .length = 64,
                                    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    uint32_t key = ibv_inc_rkey(mw->rkey);
    wipe(n);

    // Bound, used and taken out of use in one turn.
    ibv_wr_start(qp);
    qp->wr_id = 1;
    ibv_wr_bind_mw(qp, mw, key, &info);
    memset(&info, 0, sizeof info);
    qp->wr_id = 2;
    ibv_wr_rdma_write(qp, key, far_address(n));
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 64);
    qp->wr_id = 3;
    ibv_wr_local_inv(qp, key);
    CHECK("5.4", "before ibv_wr_complete the window shows its old key", mw->rkey != key);
    CHECK_EQ("5.4", "a bind, a write through it and its invalidation are taken", ibv_wr_complete(qp), 0);
    CHECK_EQ("5.4", "the window shows the key that was asked for", mw->rkey, key);
    CHECK("5.4", "the bind is done", done(n, 1, IBV_WC_BIND_MW));
    CHECK("5.4", "then the write", done(n, 2, IBV_WC_RDMA_WRITE) && !memcmp(far_end(n), n->buffer, 64));
    CHECK("5.4", "then the invalidation", done(n, 3, IBV_WC_LOCAL_INV));

    // Taken out of use by a message.
    info = (struct ibv_mw_bind_info){.mr = mr, .addr = far_address(n), .length = 64,
                                     .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    key = ibv_inc_rkey(key);
    REQUIRE(post_receive(n->qp, 50, piece(far_end(n) + 4096, 64, n->mr->lkey)) == 0);
    ibv_wr_start(qp);
    qp->wr_id = 4;
    ibv_wr_bind_mw(qp, mw, key, &info);
    qp->wr_id = 5;
    ibv_wr_send_inv(qp, key);
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 16);
    CHECK_EQ("5.4", "a bind and a send that takes it back are taken", ibv_wr_complete(qp), 0);
    CHECK("5.4", "both are done", done(n, 4, IBV_WC_BIND_MW) && done(n, 5, IBV_WC_SEND));
    struct ibv_wc wc = next_completion(n->recv_cq);
    CHECK("5.4", "the receive tells which key is gone", wc.status == IBV_WC_SUCCESS && wc.wr_id == 50 &&
                                                            (wc.wc_flags & IBV_WC_WITH_INV) &&
                                                            wc.invalidated_rkey == key);
    wipe(n);
    ibv_wr_start(qp);
    qp->wr_id = 6;
    ibv_wr_rdma_write(qp, key, far_address(n));
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 8);
    REQUIRE(ibv_wr_complete(qp) == 0);
    // The queue pair is its own peer: as the one that refuses it may be in ERR before it hears of the refusal.
    CHECK_EITHER("5.4", "and it is", next_completion(n->send_cq).status, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR);
    CHECK("5.4", "no byte has moved", all_bytes(far_end(n), 8192, UNTOUCHED));

    // What only carrying out can tell is told by the completion.
    qp = to_itself(n, EVERY_RC);
    info.length = BUFFER;
    ibv_wr_start(qp);
    qp->wr_id = 7;
    ibv_wr_bind_mw(qp, mw, ibv_inc_rkey(key), &info);
    CHECK_EQ("5.4", "a bind beyond its region is taken", ibv_wr_complete(qp), 0);
    wc = next_completion(n->send_cq);
    CHECK("5.4", "and completes with MW_BIND_ERR", wc.status == IBV_WC_MW_BIND_ERR && wc.wr_id == 7);
    drop_qp(n);
    REQUIRE(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr));
}

static void datagrams_name_where_they_go(struct node *n)
{
    n->type = IBV_QPT_UD;
    struct ibv_qp_ex *qp = to_itself(n, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
    struct card here = card_of(n);
    struct ibv_ah_attr route = route_to(&here);
    struct ibv_ah *ah = ibv_create_ah(n->pd, &route);
    REQUIRE(ah);
    wipe(n);
    for (int i = 0; i < 2; i++)
        REQUIRE(post_receive(n->qp, 60 + i, piece(far_end(n) + 1024 * i, 512, n->mr->lkey)) == 0);
    ibv_wr_start(qp);
    qp->wr_id = 1;
    ibv_wr_send(qp);
    ibv_wr_set_ud_addr(qp, ah, n->qp->qp_num, here.qkey);
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 100);
    qp->wr_id = 2;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 100);
    CHECK_EQ("7.3", "a datagram without an address is EINVAL", ibv_wr_complete(qp), EINVAL);
    CHECK("7.3", "and the one before it is not posted", nothing_moved(n));
    ibv_wr_start(qp);
    qp->wr_id = 3;
    ibv_wr_send(qp);
    ibv_wr_set_ud_addr(qp, ah, n->qp->qp_num, here.qkey);
    ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 100);
    qp->wr_id = 4;
    ibv_wr_send_imm(qp, 77);
    ibv_wr_set_inline_data(qp, n->buffer + 100, 20);
    ibv_wr_set_ud_addr(qp, ah, n->qp->qp_num, here.qkey);
    CHECK_EQ("7.3", "setters come in either order", ibv_wr_complete(qp), 0);
    CHECK("7.3", "both datagrams are sent", done(n, 3, IBV_WC_SEND) && done(n, 4, IBV_WC_SEND));
    struct ibv_wc wc = next_completion(n->recv_cq);
    CHECK("7.3", "the first arrives",
          wc.wr_id == 60 && wc.byte_len == 140 && !memcmp(far_end(n) + 40, n->buffer, 100));
    wc = next_completion(n->recv_cq);
    CHECK("7.3", "and the second", wc.wr_id == 61 && wc.byte_len == 60 && wc.imm_data == 77 &&
                                       !memcmp(far_end(n) + 1024 + 40, n->buffer + 100, 20));
    drop_qp(n);
    REQUIRE(ibv_destroy_ah(ah) == 0);
    n->type = IBV_QPT_RC;
}

// ---- threads -----------------------------------------------------------------------------------------------------

enum { TURNS = 2000, THREADS = 3, BATCH = 4 };

struct contender {
    struct node *n;
    struct ibv_qp_ex *qp;
    uint64_t number;
    int refused;
};

static void *contend(void *argument)
{
    struct contender *c = argument;
    for (int turn = 0; turn < TURNS;) {
        ibv_wr_start(c->qp);
        for (unsigned i = 0; i < BATCH; i++) {
            c->qp->wr_flags = i + 1 == BATCH ? IBV_SEND_SIGNALED : 0;
            build_write(c->n, c->qp, c->number * TURNS + turn, i);
        }
        int failed = ibv_wr_complete(c->qp);
        if (!failed)
            turn++;
        else if (failed != ENOMEM)
            c->refused = failed;
        if (failed)
            sched_yield();
        if (c->refused)
            break;
    }
    return NULL;
}

static void threads_take_turns(struct node *n)
{
    struct ibv_qp_ex *qp = to_itself(n, IBV_QP_EX_WITH_RDMA_WRITE);
    struct contender contenders[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        contenders[i] = (struct contender){.n = n, .qp = qp, .number = i};
        REQUIRE(pthread_create(&threads[i], NULL, contend, &contenders[i]) == 0);
    }
    // One completion a batch, each thread's in its order: had two batches mixed, an unsignalled request would stand last.
    int next[THREADS] = {0}, good = 0;
    for (int i = 0; i < THREADS * TURNS; i++) {
        struct ibv_wc wc = next_completion(n->send_cq);
        if (wc.status != IBV_WC_SUCCESS)
            break;
        unsigned of = wc.wr_id / TURNS;
        good += of < THREADS && wc.wr_id % TURNS == (uint64_t)next[of]++;
    }
    int refused = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        refused |= contenders[i].refused;
    }
    CHECK_EQ("7.3", "threads that build at the same time complete each of their batches once and in order", good,
             THREADS * TURNS);
    CHECK_EQ("7.3", "and none was refused but for want of room", refused, 0);
    struct ibv_wc wc;
    CHECK("7.3", "nothing else completed", ibv_poll_cq(n->send_cq, 1, &wc) == 0);
}

// A thread of the parent is between start and completion while the process forks.
struct holder {
    struct ibv_qp_ex *qp;
    pthread_barrier_t begun, forked;
};

static void *hold(void *argument)
{
    struct holder *h = argument;
    ibv_wr_start(h->qp);
    pthread_barrier_wait(&h->begun);
    pthread_barrier_wait(&h->forked);
    ibv_wr_abort(h->qp);
    return NULL;
}

static void a_child_is_told_that_the_queue_pair_is_not_its_own(struct node *n)
{
    struct holder h = {.qp = to_itself(n, IBV_QP_EX_WITH_RDMA_WRITE)};
    pthread_t thread;
    int status = 0;
    wipe(n);
    REQUIRE(!pthread_barrier_init(&h.begun, NULL, 2) && !pthread_barrier_init(&h.forked, NULL, 2));
    REQUIRE(pthread_create(&thread, NULL, hold, &h) == 0);
    pthread_barrier_wait(&h.begun);
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(PATIENCE_MS / 1000);
        ibv_wr_start(h.qp);
        build_write(n, h.qp, 1, 0);
        _exit(ibv_wr_complete(h.qp) == EIO ? 0 : 1);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK("7.3", "a child is refused with EIO, and does not wait for a thread of its parent's",
          WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pthread_barrier_wait(&h.forked);
    pthread_join(thread, NULL);
    CHECK("7.3", "nothing of what it built is posted", nothing_moved(n));
    ibv_wr_start(h.qp);
    build_write(n, h.qp, 2, 0);
    CHECK_EQ("7.3", "and the parent goes on", ibv_wr_complete(h.qp), 0);
    CHECK("7.3", "as before", done(n, 2, IBV_WC_RDMA_WRITE) && !memcmp(far_end(n), n->buffer, 8));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    struct node n = open_node();
    every_operation_does_what_its_opcode_does(&n);
    an_atomic_write_is_of_a_word(&n);
    after_a_mistake_nothing_is_posted(&n);
    a_batch_fits_or_is_refused(&n);
    windows_are_bound_and_invalidated(&n);
    datagrams_name_where_they_go(&n);
    threads_take_turns(&n);
    a_child_is_told_that_the_queue_pair_is_not_its_own(&n);
    close_node(&n);
    return finish_alone();
}
