// The verbs calls that each scenario would otherwise repeat: a device with what belongs to it, two of them connected, one
// request of each kind, the next completion, the next event.

#ifndef NONIC_INTEROP_COMMON_H
#define NONIC_INTEROP_COMMON_H

#include "harness.h"

#include <infiniband/verbs.h>

#define PORT 1
#define GID_INDEX 0
#define BUFFER 65536
#define ALL_REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

// One side of a connection: everything a scenario needs. `timeout`, `retries`, `rnr_retries`, `rnr_timer` and
// `qp_access` are used by the next `bring_up`.
struct node {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    enum ibv_qp_type type;
    unsigned char *buffer;
    struct ibv_mr *mr;
    struct ibv_qp_cap cap;
    int qp_access;
    int timeout, retries, rnr_retries, rnr_timer;
    int max_rd_atomic;
};

// What the other side has to know.
struct card {
    uint32_t qpn, psn, rkey, qkey;
    uint64_t address;
    uint16_t lid;
    union ibv_gid gid;
};

static UNUSED struct ibv_context *open_device(void)
{
    int count = 0;
    struct ibv_device **list;
    struct ibv_context *context;
    REQUIRE((list = ibv_get_device_list(&count)) && count > 0);
    REQUIRE(context = ibv_open_device(list[0]));
    ibv_free_device_list(list);
    return context;
}

static UNUSED struct ibv_qp *make_qp(struct node *n, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr init = {
        .send_cq = n->send_cq,
        .recv_cq = n->recv_cq,
        .srq = n->srq,
        .qp_type = type,
        .sq_sig_all = 0,
        .cap = n->cap,
    };
    return ibv_create_qp(n->pd, &init);
}

// What a node is before it has anything of its own but a device.
static UNUSED struct node node_on(struct ibv_context *context)
{
    return (struct node){
        .type = IBV_QPT_RC,
        .cap = {.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 64},
        .qp_access = ALL_REMOTE,
        .timeout = 14,
        .retries = 7,
        .rnr_retries = 7,
        .rnr_timer = 12,
        .max_rd_atomic = 4,
        .context = context,
    };
}

static UNUSED struct node open_node(void)
{
    struct node n = node_on(open_device());
    REQUIRE(n.pd = ibv_alloc_pd(n.context));
    REQUIRE(n.send_cq = ibv_create_cq(n.context, 128, NULL, NULL, 0));
    REQUIRE(n.recv_cq = ibv_create_cq(n.context, 128, NULL, NULL, 0));
    REQUIRE(posix_memalign((void **)&n.buffer, 4096, BUFFER) == 0);
    memset(n.buffer, 0, BUFFER);
    REQUIRE(n.mr = ibv_reg_mr(n.pd, n.buffer, BUFFER, ALL_REMOTE));
    return n;
}

static UNUSED void drop_qp(struct node *n)
{
    if (n->qp) {
        int failed = ibv_destroy_qp(n->qp);
        if (failed)
            CHECK_EQ("destroy", "a queue pair is destroyed", failed, 0);
        n->qp = NULL;
    }
}

static UNUSED void close_node(struct node *n)
{
    drop_qp(n);
    CHECK_EQ("destroy", "the region is deregistered", ibv_dereg_mr(n->mr), 0);
    if (n->srq)
        CHECK_EQ("destroy", "the shared receive queue is destroyed", ibv_destroy_srq(n->srq), 0);
    CHECK_EQ("destroy", "the send completion queue is destroyed", ibv_destroy_cq(n->send_cq), 0);
    CHECK_EQ("destroy", "the receive completion queue is destroyed", ibv_destroy_cq(n->recv_cq), 0);
    if (n->channel)
        CHECK_EQ("destroy", "the completion channel is destroyed", ibv_destroy_comp_channel(n->channel), 0);
    CHECK_EQ("destroy", "the protection domain is deallocated", ibv_dealloc_pd(n->pd), 0);
    CHECK_EQ("destroy", "the device is closed", ibv_close_device(n->context), 0);
    free(n->buffer);
    memset(n, 0, sizeof *n);
}

static UNUSED struct card card_of(struct node *n)
{
    struct ibv_port_attr port;
    struct card c = {
        .qpn = n->qp ? n->qp->qp_num : 0,
        .psn = 0x123456,
        .rkey = n->mr->rkey,
        .qkey = 0x11111111,
        .address = (uintptr_t)n->buffer,
    };
    REQUIRE(ibv_query_port(n->context, PORT, &port) == 0);
    c.lid = port.lid;
    REQUIRE(ibv_query_gid(n->context, PORT, GID_INDEX, &c.gid) == 0);
    return c;
}

static UNUSED struct ibv_ah_attr route_to(const struct card *there)
{
    struct ibv_ah_attr route = {
        .is_global = 1,
        .dlid = there->lid,
        .port_num = PORT,
        .grh = {.dgid = there->gid, .sgid_index = GID_INDEX, .hop_limit = 64},
    };
    return route;
}

static UNUSED int to_init(struct node *n)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = n->qp_access};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if (n->type == IBV_QPT_UD) {
        attr.qkey = 0x11111111;
        mask |= IBV_QP_QKEY;
    } else {
        mask |= IBV_QP_ACCESS_FLAGS;
    }
    return ibv_modify_qp(n->qp, &attr, mask);
}

static UNUSED int to_rtr(struct node *n, const struct card *there)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .ah_attr = route_to(there),
        .dest_qp_num = there->qpn,
        .rq_psn = there->psn,
        .max_dest_rd_atomic = n->max_rd_atomic,
        .min_rnr_timer = n->rnr_timer,
    };
    int mask = IBV_QP_STATE;
    if (n->type != IBV_QPT_UD)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (n->type == IBV_QPT_RC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(n->qp, &attr, mask);
}

static UNUSED int to_rts(struct node *n, uint32_t psn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = psn,
        .timeout = n->timeout,
        .retry_cnt = n->retries,
        .rnr_retry = n->rnr_retries,
        .max_rd_atomic = n->max_rd_atomic,
    };
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (n->type == IBV_QPT_RC)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return ibv_modify_qp(n->qp, &attr, mask);
}

static UNUSED enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ? (enum ibv_qp_state)99 : attr.qp_state;
}

static UNUSED void drain(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) > 0)
        ;
}

// A fresh queue pair on each side, connected to the other's. Returns the other's card.
static UNUSED struct card bring_up(struct node *n)
{
    drop_qp(n);
    drain(n->send_cq);
    drain(n->recv_cq);
    REQUIRE(n->qp = make_qp(n, n->type));
    struct card ours = card_of(n), theirs;
    swap_values(&ours, &theirs, sizeof ours);
    REQUIRE(to_init(n) == 0);
    REQUIRE(to_rtr(n, &theirs) == 0);
    REQUIRE(to_rts(n, ours.psn) == 0);
    meet();
    return theirs;
}

// The next completion, or status -1 when none comes in time.
static UNUSED struct ibv_wc next_completion(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    memset(&wc, 0, sizeof wc);
    for (;;) {
        int n = ibv_poll_cq(cq, 1, &wc);
        if (n == 1)
            return wc;
        if (n < 0 || now_ns() > deadline) {
            wc.status = (enum ibv_wc_status)-1;
            return wc;
        }
        sched_yield();
    }
}

static UNUSED struct ibv_sge piece(const void *address, uint32_t length, uint32_t lkey)
{
    struct ibv_sge sge = {.addr = (uintptr_t)address, .length = length, .lkey = lkey};
    return sge;
}

static UNUSED int post_receive(struct ibv_qp *qp, uint64_t id, struct ibv_sge sge)
{
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = sge.length ? 1 : 0}, *bad;
    return ibv_post_recv(qp, &wr, &bad);
}

// One send work request, signalled. `address` and `rkey` for the one-sided ones.
static UNUSED int post(struct ibv_qp *qp, uint64_t id, enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t address,
                       uint32_t rkey)
{
    struct ibv_send_wr wr = {
        .wr_id = id,
        .sg_list = &sge,
        .num_sge = sge.length ? 1 : 0,
        .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED,
    }, *bad;
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    return ibv_post_send(qp, &wr, &bad);
}

static UNUSED int post_atomic(struct ibv_qp *qp, uint64_t id, enum ibv_wr_opcode opcode, struct ibv_sge sge,
                              uint64_t address, uint32_t rkey, uint64_t compare_or_add, uint64_t swap)
{
    struct ibv_send_wr wr = {
        .wr_id = id,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED,
    }, *bad;
    wr.wr.atomic.remote_addr = address;
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.compare_add = compare_or_add;
    wr.wr.atomic.swap = swap;
    return ibv_post_send(qp, &wr, &bad);
}

// The next asynchronous event, acknowledged; type -1 when none comes in time.
static UNUSED struct ibv_async_event next_event(struct ibv_context *context)
{
    struct ibv_async_event event;
    struct pollfd p = {.fd = context->async_fd, .events = POLLIN};
    memset(&event, 0, sizeof event);
    event.event_type = (enum ibv_event_type)-1;
    if (poll(&p, 1, PATIENCE_MS) == 1 && ibv_get_async_event(context, &event) == 0)
        ibv_ack_async_event(&event);
    return event;
}

// Takes every event that waits, so that the next one seen is new.
static UNUSED void drain_events(struct ibv_context *context)
{
    struct pollfd p = {.fd = context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    while (poll(&p, 1, 0) == 1 && ibv_get_async_event(context, &event) == 0)
        ibv_ack_async_event(&event);
}

// A pattern that no accident produces, different for each seed.
static UNUSED void fill(void *at, size_t length, unsigned seed)
{
    unsigned char *bytes = at;
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)((i * 31 + seed * 97 + 7) ^ (i >> 8));
}

static UNUSED bool filled(const void *at, size_t length, unsigned seed)
{
    const unsigned char *bytes = at;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != (unsigned char)((i * 31 + seed * 97 + 7) ^ (i >> 8)))
            return false;
    return true;
}

static UNUSED bool all_bytes(const void *at, size_t length, unsigned char value)
{
    const unsigned char *bytes = at;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

#define WRITE IBV_WR_RDMA_WRITE
#define READ IBV_WR_RDMA_READ
#define SWAP IBV_WR_ATOMIC_CMP_AND_SWP
#define ADD IBV_WR_ATOMIC_FETCH_AND_ADD
#define SEND IBV_WR_SEND

// Posts one request of the kind, from or to the start of our buffer.
static UNUSED int post_one(struct node *n, uint64_t id, enum ibv_wr_opcode opcode, uint32_t length, uint64_t address,
                           uint32_t rkey)
{
    struct ibv_sge sge = piece(n->buffer, length, n->mr->lkey);
    if (opcode == SWAP || opcode == ADD)
        return post_atomic(n->qp, id, opcode, sge, address, rkey, 1, 2);
    return post(n->qp, id, opcode, sge, address, rkey);
}

#endif
