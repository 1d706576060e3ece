// FLUSH (annex A19): a requester learns that what it wrote is visible, if it was given the right. One process, a queue pair connected to
// itself.
//
// proves: 7.3

#include "common.h"
#include "flush.h"

#define UNTOUCHED 0xee
#define FAR 32768u // where the target lies in the buffer

static struct ibv_qp_init_attr_ex wanted(struct node *n, enum ibv_qp_type type, uint64_t operations)
{
    return (struct ibv_qp_init_attr_ex){
        .send_cq = n->send_cq,
        .recv_cq = n->recv_cq,
        .cap = n->cap,
        .qp_type = type,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = n->pd,
        .send_ops_flags = operations,
    };
}

static struct ibv_qp_ex *to_itself(struct node *n, int access)
{
    struct ibv_qp_init_attr_ex init = wanted(n, IBV_QPT_RC, FLUSH_OPERATION | IBV_QP_EX_WITH_RDMA_WRITE);
    drop_qp(n);
    drain(n->send_cq);
    REQUIRE(n->qp = ibv_create_qp_ex(n->context, &init));
    n->qp_access = access;
    struct card here = card_of(n);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(n->qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    return qp;
}

static uint64_t far_address(struct node *n) { return (uintptr_t)n->buffer + FAR; }

static void wipe(struct node *n)
{
    fill(n->buffer, 4096, 5);
    memset(n->buffer + FAR, UNTOUCHED, 8192);
}

static bool nothing_moved(struct node *n)
{
    struct ibv_wc wc;
    return ibv_poll_cq(n->send_cq, 1, &wc) == 0 && all_bytes(n->buffer + FAR, 8192, UNTOUCHED);
}

// What a flush of these bytes ends with, which is posted alone.
static struct ibv_wc flushed(struct node *n, struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, size_t length, uint8_t type, uint8_t level)
{
    ibv_wr_start(qp);
    qp->wr_id = 9;
    wr_flush(qp, rkey, address, length, type, level);
    REQUIRE(ibv_wr_complete(qp) == 0);
    return next_completion(n->send_cq);
}

static void it_is_announced(struct node *n)
{
    struct ibv_device_attr_ex attr;
    REQUIRE(ibv_query_device_ex(n->context, NULL, &attr) == 0);
    CHECK("7.3", "flushes to visibility are announced, those to persistence are not", (attr.device_cap_flags_ex >> 38 & 3) == 1);
    bool paged = attr.odp_caps.general_caps & IBV_ODP_SUPPORT;
    CHECK("7.3", "and those of paged memory", !paged || attr.odp_caps.per_transport_caps.rc_odp_caps & FLUSH_PAGED);
}

static void writes_are_there_when_it_ends(struct node *n, struct ibv_mr *mr)
{
    struct ibv_qp_ex *qp = to_itself(n, ALL_REMOTE | FLUSH_GLOBAL | FLUSH_PERSISTENT);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    REQUIRE(ibv_query_qp(n->qp, &attr, IBV_QP_ACCESS_FLAGS, &init) == 0);
    CHECK_EQ("7.3", "a queue pair has the rights that it was given", attr.qp_access_flags, n->qp_access);
    wipe(n);
    ibv_wr_start(qp);
    for (unsigned i = 0; i < 3; i++) {
        qp->wr_id = i;
        qp->wr_flags = i == 2 ? IBV_SEND_SIGNALED : 0;
        if (i == 2) {
            wr_flush(qp, mr->rkey, far_address(n), 4096, TO_GLOBAL, OF_RANGE);
            break;
        }
        ibv_wr_rdma_write(qp, mr->rkey, far_address(n) + 64 * i);
        ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)n->buffer + 64 * i, 64);
    }
    CHECK_EQ("7.3", "two writes and a flush are taken", ibv_wr_complete(qp), 0);
    struct ibv_wc wc = next_completion(n->send_cq);
    CHECK("7.3", "the flush completes as one", wc.status == IBV_WC_SUCCESS && wc.wr_id == 2 && (int)wc.opcode == FLUSH_COMPLETION);
    CHECK("7.3", "and the writes are there", !memcmp(n->buffer + FAR, n->buffer, 128));
    CHECK("7.3", "and nothing else", all_bytes(n->buffer + FAR + 128, 4096, UNTOUCHED));
    CHECK_EQ("7.3", "all of a region may be meant, whatever its address", flushed(n, qp, mr->rkey, 3, SIZE_MAX, TO_GLOBAL, OF_REGION).status, IBV_WC_SUCCESS);
    CHECK_EQ("7.3", "or no bytes of it", flushed(n, qp, mr->rkey, far_address(n), 0, TO_GLOBAL, OF_RANGE).status, IBV_WC_SUCCESS);
}

static void what_was_not_given_is_refused(struct node *n, struct ibv_mr *mr)
{
    const int all = ALL_REMOTE | FLUSH_GLOBAL | FLUSH_PERSISTENT;
    const struct { const char *sentence; uint32_t rkey; uint64_t address; size_t length; uint8_t type, level; int access, status; } cases[] = {
        {"a region without the right is not flushed", n->mr->rkey, far_address(n), 8, TO_GLOBAL, OF_RANGE, all, IBV_WC_REM_ACCESS_ERR},
        {"not even all of it", n->mr->rkey, 0, 0, TO_GLOBAL, OF_REGION, all, IBV_WC_REM_ACCESS_ERR},
        {"nor is what no key leads to", mr->rkey + 1, far_address(n), 0, TO_GLOBAL, OF_RANGE, all, IBV_WC_REM_ACCESS_ERR},
        {"nor what lies beyond the region", mr->rkey, far_address(n), BUFFER, TO_GLOBAL, OF_RANGE, all, IBV_WC_REM_ACCESS_ERR},
        {"nothing is flushed to persistence", mr->rkey, far_address(n), 8, TO_PERSISTENT, OF_RANGE, all, IBV_WC_REM_ACCESS_ERR},
        {"also not to both", mr->rkey, far_address(n), 8, TO_GLOBAL | TO_PERSISTENT, OF_RANGE, all, IBV_WC_REM_ACCESS_ERR},
        {"a queue pair without the right lets none through", mr->rkey, far_address(n), 8, TO_GLOBAL, OF_RANGE, ALL_REMOTE, IBV_WC_REM_INV_REQ_ERR},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ibv_qp_ex *qp = to_itself(n, cases[i].access);
        wipe(n);
        struct ibv_wc wc = flushed(n, qp, cases[i].rkey, cases[i].address, cases[i].length, cases[i].type, cases[i].level);
        // The queue pair is its own peer: as the one that refuses it may be in ERR before it hears of the refusal.
        CHECK_EITHER("7.3", cases[i].sentence, (int)wc.status, cases[i].status, IBV_WC_WR_FLUSH_ERR);
        CHECK("7.3", "and nothing moves", nothing_moved(n));
    }
    struct ibv_qp_ex *qp = to_itself(n, all);
    REQUIRE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_REMOTE) == 0);
    struct ibv_wc wc = flushed(n, qp, mr->rkey, far_address(n), 8, TO_GLOBAL, OF_RANGE);
    CHECK_EITHER("7.3", "a right that was taken back is gone", (int)wc.status, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR);
    CHECK_EQ("7.3", "no region can have that to persistence", ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_REMOTE | FLUSH_PERSISTENT), IBV_REREG_MR_ERR_CMD);
    CHECK_NULL("5.1", "nor can a new one", ibv_reg_mr(n->pd, n->buffer, BUFFER, ALL_REMOTE | FLUSH_PERSISTENT), EOPNOTSUPP);
}

static void what_makes_no_sense_is_not_posted(struct node *n, struct ibv_mr *mr)
{
    struct ibv_qp_ex *qp = to_itself(n, ALL_REMOTE | FLUSH_GLOBAL);
    wipe(n);
    const struct { const char *sentence; size_t length; uint8_t type, level; } cases[] = {
        {"a flush to nowhere is refused", 8, 0, OF_RANGE},
        {"to what is no placement", 8, 4, OF_RANGE},
        {"of what is no level", 8, TO_GLOBAL, 2},
        {"of more than a header can say", (size_t)1 << 32, TO_GLOBAL, OF_RANGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ibv_wr_start(qp);
        ibv_wr_rdma_write(qp, mr->rkey, far_address(n));
        ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)n->buffer, 64);
        wr_flush(qp, mr->rkey, far_address(n), cases[i].length, cases[i].type, cases[i].level);
        CHECK_EQ("7.3", cases[i].sentence, ibv_wr_complete(qp), EINVAL);
    }
    ibv_wr_start(qp);
    wr_flush(qp, mr->rkey, far_address(n), 8, TO_GLOBAL, OF_RANGE);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)n->buffer, 8);
    CHECK_EQ("7.3", "it has no bytes of this side's", ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    wr_flush(qp, mr->rkey, far_address(n), 8, TO_GLOBAL, OF_RANGE);
    ibv_wr_set_inline_data(qp, n->buffer, 8);
    CHECK_EQ("7.3", "also not inline", ibv_wr_complete(qp), EINVAL);
    CHECK_EQ("7.3", "ibv_post_send has no place for what it says", post(n->qp, 1, (enum ibv_wr_opcode)FLUSH_OPCODE, piece(n->buffer, 8, mr->lkey), far_address(n), mr->rkey), EOPNOTSUPP);
    CHECK("7.3", "nothing of these moved", nothing_moved(n));
    const enum ibv_qp_type without[] = {IBV_QPT_UC, IBV_QPT_UD};
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_init_attr_ex init = wanted(n, without[i], FLUSH_OPERATION);
        CHECK_NULL("7.1", "an unreliable queue pair has none", ibv_create_qp_ex(n->context, &init), EOPNOTSUPP);
    }
    struct ibv_qp_init_attr_ex init = wanted(n, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
    drop_qp(n);
    REQUIRE(n->qp = ibv_create_qp_ex(n->context, &init));
    qp = ibv_qp_to_qp_ex(n->qp);
    ibv_wr_start(qp);
    wr_flush(qp, mr->rkey, far_address(n), 8, TO_GLOBAL, OF_RANGE);
    CHECK_EQ("7.3", "nor has one that was not created for it", ibv_wr_complete(qp), EOPNOTSUPP);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    struct node n = open_node();
    struct ibv_mr *mr = ibv_reg_mr(n.pd, n.buffer, BUFFER, ALL_REMOTE | FLUSH_GLOBAL);
    REQUIRE(mr);
    it_is_announced(&n);
    writes_are_there_when_it_ends(&n, mr);
    what_makes_no_sense_is_not_posted(&n, mr);
    what_was_not_given_is_refused(&n, mr);
    drop_qp(&n);
    REQUIRE(ibv_dereg_mr(mr) == 0);
    close_node(&n);
    return finish_alone();
}
