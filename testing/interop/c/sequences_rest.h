// The calls of a sequence that ask, that take events, and that are not in this release; and a pair that has to work
// whatever was called before.

#ifndef NONIC_INTEROP_SEQUENCES_REST_H
#define NONIC_INTEROP_SEQUENCES_REST_H

#include "sequences_requests.h"

// ---- events --------------------------------------------------------------------------------------------------------

static void req_notify(void)
{
    struct object *o = some(CQ);
    struct ibv_cq *dead = one_in(8) ? a_gone(CQ) : NULL;
    if (!o && !dead)
        return;
    int solicited = one_in(6) ? (int)wild() : (int)random_below(2);
    next_call("ibv_req_notify_cq(%p, %d)", dead ? (void *)dead : o->at, solicited);
    expect(ibv_req_notify_cq(dead ? dead : (struct ibv_cq *)o->at, solicited), dead ? ENOENT : 0);
}

static void cq_event(void)
{
    struct object *channel = some(CHANNEL), *o;
    void *at = one_in(8) ? no_object(CHANNEL) : channel ? channel->at : NULL, *context = NULL;
    struct ibv_cq *cq = NULL;
    channel = find_object(CHANNEL, at);
    next_call("ibv_get_cq_event(%p)", at);
    int result = ibv_get_cq_event(at, &cq, &context);
    if (result) {
        int error = errno;
        expect(result, -1);
        expect(error, channel ? EAGAIN : EINVAL);
        return;
    }
    o = find_object(CQ, cq);
    if (!o || o != context || o->of[1] != channel)
        wrong("an event of a completion queue that is not the channel's");
    o->events++;
    if (one_in(2)) {
        ibv_ack_cq_events(cq, (unsigned)o->events);
        o->events = 0;
    }
    if (one_in(8)) { // of what is no queue: nothing happens
        void *none = no_object(CQ);
        next_call("ibv_ack_cq_events(%p)", none);
        ibv_ack_cq_events(none, (unsigned)wild());
    }
}

static void async_event(void)
{
    struct object *o = some(CONTEXT);
    void *context = one_in(12) ? no_object(CONTEXT) : o->at;
    struct ibv_async_event event = {0};
    o = find_object(CONTEXT, context);
    next_call("ibv_get_async_event(%p)", context);
    int result = ibv_get_async_event(context, &event);
    if (result) {
        int error = errno;
        expect(result, -1);
        expect(error, o ? EAGAIN : EINVAL);
        return;
    }
    struct object *of = NULL;
    switch ((int)event.event_type) {
    case IBV_EVENT_CQ_ERR:
        of = find_object(CQ, event.element.cq);
        if (of && !of->may_overrun)
            wrong("a completion queue with room has overrun");
        break;
    case IBV_EVENT_QP_FATAL ... IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        of = find_object(QP, event.element.qp);
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        of = find_object(SRQ, event.element.srq);
        break;
    }
    if (!of || context_of(of) != context)
        wrong("an event %d of what is no object of the context", event.event_type);
    if (one_in(2))
        ibv_ack_async_event(&event);
    else
        of->async_events++;
    if (one_in(8)) {
        event.element.qp = no_object(QP);
        event.event_type = IBV_EVENT_QP_FATAL;
        next_call("ibv_ack_async_event(%p)", (void *)event.element.qp);
        ibv_ack_async_event(&event);
    }
}

// ---- questions -----------------------------------------------------------------------------------------------------

static void query(void)
{
    struct ibv_context *context = some(CONTEXT)->at;
    struct ibv_port_attr port;
    struct ibv_device_attr device;
    struct ibv_srq_attr limits;
    struct ibv_gid_entry entry;
    union ibv_gid gid;
    uint16_t pkey;
    uint8_t number = one_in(2) ? 1 : (uint8_t)wild();
    int index = one_in(2) ? 0 : (int)wild(), place;
    void *srq = no_object(SRQ);
    next_call("queries of port %d, index %d, srq %p", number, index, srq);
    expect(ibv_query_device(context, &device), 0);
    expect(ibv_query_port(context, 1, &port), 0);
    expect(ibv_query_gid(context, number, index, &gid), number == 1 && index >= 0 && index < port.gid_tbl_len ? 0 : -1);
    expect(ibv_query_pkey(context, number, index, &pkey), number == 1 && index >= 0 && index < port.pkey_tbl_len ? 0
           : -1);
    place = ibv_get_pkey_index(context, number, htobe16((uint16_t)one_in(2) ? 0xffff : (uint16_t)random_word()));
    expect_either(place, -1, number == 1 ? 0 : -1);
    expect(ibv_query_port(context, number, &port), number == 1 ? 0 : EINVAL);
    int result = ibv_query_gid_ex(context, number, (uint32_t)index, &entry, one_in(4) ? (uint32_t)wild() : 0);
    if (result != 0 && result != EINVAL && result != ENODATA)
        wrong("ibv_query_gid_ex answered %d", result);
    expect(ibv_query_srq(srq, &limits), ENOENT);
}

// ---- groups: whatever is attached is detached once ------------------------------------------------------------------

static void groups(void)
{
    struct object *qp = some(QP);
    union ibv_gid gid = {.raw = {one_in(4) ? 0xfe : 0xff, 0x12, [15] = (uint8_t)random_below(4)}};
    uint16_t lid = one_in(4) ? 0xbfff : (uint16_t)(0xc000 + random_below(2));
    next_call("groups of %p, lid %#x", qp ? qp->at : NULL, lid);
    expect(ibv_attach_mcast(no_object(QP), &gid, lid), ENOENT);
    expect(ibv_detach_mcast(no_object(QP), &gid, lid), ENOENT);
    if (!qp)
        return;
    int due = ((struct ibv_qp *)qp->at)->qp_type == IBV_QPT_UD && gid.raw[0] == 0xff && lid >= 0xc000 ? 0 : EINVAL;
    expect(ibv_detach_mcast(qp->at, &gid, lid), EINVAL);
    expect(ibv_attach_mcast(qp->at, &gid, lid), due);
    expect(ibv_attach_mcast(qp->at, &gid, lid), due);
    expect(ibv_detach_mcast(qp->at, &gid, lid), due);
    expect(ibv_detach_mcast(qp->at, &gid, lid), EINVAL);
}

// ---- what is not in this release, and says so ----------------------------------------------------------------------

static void not_there(void)
{
    struct ibv_context *context = some(CONTEXT)->at;
    struct object *pd = some(PD), *mr = some(MR), *qp = some(QP);
    struct ibv_cq_init_attr_ex cq = {.cqe = (uint32_t)wild(), .wc_flags = IBV_WC_EX_WITH_CVLAN | random_below(128)};
    struct ibv_xrcd_init_attr xrcd = {.comp_mask = (uint32_t)wild() | IBV_XRCD_INIT_ATTR_RESERVED, .fd = -1};
    struct ibv_ece ece = {0};
    struct ibv_sge piece = {0};
    struct ibv_td_init_attr td = {.comp_mask = 1 + random_below(1000)};
    void *none_mr = no_object(MR), *none_qp = no_object(QP);
    next_call("calls that are not in this release");
    expect_object(ibv_create_cq_ex(context, &cq), EOPNOTSUPP);
    errno = 0;
    expect_object(ibv_open_xrcd(context, &xrcd), EOPNOTSUPP);
    errno = 0;
    expect_object(ibv_alloc_td(context, &td), EINVAL);
    errno = 0;
    expect_object(ibv_import_device((int)(wild() | 1ull << 31)), EINVAL);
    expect(ibv_query_ece(none_qp, &ece), ENOENT);
    expect(ibv_set_ece(none_qp, &ece), ENOENT);
    if (qp) {
        expect(ibv_set_ece(qp->at, &ece), EOPNOTSUPP);
    }
    if (pd) {
        struct ibv_mr *null = ibv_alloc_null_mr(pd->at);
        if (!null || null->rkey || ibv_dereg_mr(null) != 0)
            wrong("a null region does not come or go");
        errno = 0;
        expect_object(ibv_reg_dmabuf_mr(pd->at, wild(), wild(), wild(), (int)wild(), (int)wild()), EOPNOTSUPP);
        uint32_t flags = (uint32_t)wild();
        expect(ibv_advise_mr(pd->at, IBV_ADVISE_MR_ADVICE_PREFETCH, flags, &piece, 1), flags & ~1u ? EINVAL : 0);
    }
    // Unknown ones among them: what is changed in earnest is in reregistration.c.
    int flags = 8 << random_below(28) | (int)random_below(8);
    if (mr) {
        struct ibv_mr before = *(struct ibv_mr *)mr->at;
        next_call("ibv_rereg_mr(%p, %#x)", mr->at, flags);
        expect(ibv_rereg_mr(mr->at, flags, pd ? pd->at : NULL, open_memory, wild(), (int)wild()),
               IBV_REREG_MR_ERR_INPUT);
        expect(errno, EINVAL);
        if (memcmp(&before, mr->at, sizeof before) != 0)
            wrong("a refused ibv_rereg_mr changed the region");
    }
    next_call("ibv_rereg_mr(%p, %#x)", none_mr, flags);
    expect(ibv_rereg_mr(none_mr, flags, no_object(PD), open_memory, 1, 0), IBV_REREG_MR_ERR_CMD);
    expect(errno, ENOENT);
}

// ---- nothing else has changed --------------------------------------------------------------------------------------

static void completes(struct ibv_cq *cq, uint64_t id, const char *what)
{
    struct ibv_wc wc = {.status = (enum ibv_wc_status)-1};
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (ibv_poll_cq(cq, 1, &wc) == 0 && now_ns() < deadline)
        sched_yield();
    if (wc.status != IBV_WC_SUCCESS || wc.wr_id != id)
        wrong("of a fresh pair %s ended with status %d, id %" PRIu64, what, (int)wc.status, wc.wr_id);
}

static void do_one(struct ibv_qp *qp, struct ibv_cq *cq, int opcode, struct ibv_mr *mr, size_t from, size_t to,
                   uint32_t length,
                   const char *what)
{
    unsigned char *there = mr->addr;
    struct ibv_sge piece = {(uintptr_t)there + from, length, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 77, .sg_list = &piece, .num_sge = 1, .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.atomic.remote_addr = (uintptr_t)there + to;
    wr.wr.atomic.rkey = mr->rkey;
    wr.wr.atomic.compare_add = 5;
    if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ) {
        wr.wr.rdma.remote_addr = (uintptr_t)there + to;
        wr.wr.rdma.rkey = mr->rkey;
    }
    next_call("a fresh pair's %s", what);
    expect(ibv_post_send(qp, &wr, &bad), 0);
    completes(cq, 77, what);
}

static void a_fresh_pair_works(struct ibv_context *context)
{
    static unsigned char there[4 * 4096] __attribute__((aligned(4096)));
    struct object fake_context = {.kind = CONTEXT, .at = context},
        o[2] = {{.kind = QP, .type = IBV_QPT_RC}, {.kind = QP, .type = IBV_QPT_RC}};
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq[2] = {ibv_create_cq(context, 8, NULL, NULL, 0), ibv_create_cq(context, 8, NULL, NULL, 0)};
    struct ibv_mr *mr = ibv_reg_mr(pd, there, sizeof there, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    next_call("a fresh pair");
    if (!pd || !cq[0] || !cq[1] || !mr)
        wrong("nothing new can be made");
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_init_attr init = {.send_cq = cq[i], .recv_cq = cq[i], .qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1,
                                                .max_recv_sge = 1}};
        o[i].at = ibv_create_qp(pd, &init);
        if (!o[i].at)
            wrong("no new queue pair can be made");
        o[i].of[0] = &fake_context;
        o[i].cap = init.cap;
    }
    for (int i = 0; i < 2; i++)
        for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
            struct ibv_qp_attr attr;
            int mask = good_attributes(&o[i], &o[1 - i], to, &attr);
            attr.qp_access_flags = 15;
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
            attr.timeout = 14;
            attr.retry_cnt = attr.rnr_retry = 7;
            attr.min_rnr_timer = 1;
            expect(ibv_modify_qp(o[i].at, &attr, mask), 0);
        }
    for (size_t i = 0; i < sizeof there; i++)
        there[i] = (unsigned char)(i * 13 + sequence_seed);
    uint64_t word, sum;
    memcpy(&word, there + 8192, 8);
    do_one(o[0].at, cq[0], IBV_WR_RDMA_WRITE, mr, 0, 4096, 4000, "write");
    do_one(o[1].at, cq[1], IBV_WR_RDMA_READ, mr, 12288, 4096, 4000, "read");
    if (memcmp(there, there + 4096, 4000) != 0 || memcmp(there, there + 12288, 4000) != 0)
        wrong("a fresh pair moves other bytes");
    do_one(o[0].at, cq[0], IBV_WR_ATOMIC_FETCH_AND_ADD, mr, 8, 8192, 8, "fetch and add");
    memcpy(&sum, there + 8192, 8);
    if (memcmp(there + 8, &word, 8) != 0 || sum != word + 5)
        wrong("a fresh pair adds otherwise");
    struct ibv_sge piece = {(uintptr_t)there + 8192, 100, mr->lkey};
    struct ibv_recv_wr receive = {.wr_id = 78, .sg_list = &piece, .num_sge = 1}, *bad;
    expect(ibv_post_recv(o[1].at, &receive, &bad), 0);
    do_one(o[0].at, cq[0], IBV_WR_SEND, mr, 0, 0, 100, "send");
    completes(cq[1], 78, "receive");
    if (memcmp(there, there + 8192, 100) != 0)
        wrong("a fresh pair sends other bytes");
    next_call("the end of a fresh pair");
    expect(ibv_destroy_qp(o[0].at) | ibv_destroy_qp(o[1].at), 0);
    expect(ibv_dereg_mr(mr) | ibv_destroy_cq(cq[0]) | ibv_destroy_cq(cq[1]) | ibv_dealloc_pd(pd), 0);
}

#endif
