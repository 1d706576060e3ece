// The calls of a sequence that move queue pairs between states, post requests and take what comes of them, with what is
// due.

#ifndef NONIC_INTEROP_SEQUENCES_REQUESTS_H
#define NONIC_INTEROP_SEQUENCES_REQUESTS_H

#include "flush.h"
#include "sequences_objects.h"

#define PIECES 8 // at most, in a request that is taken
#define Q_KEY 0x11111111u

// ---- requests and their completions --------------------------------------------------------------------------------

#define REQUESTS 8192

struct request {
    struct object *of; // queue pair or shared receive queue
    bool open, sends;
    uint64_t place;    // among those of its queue pair
};

static struct request requests[REQUESTS];
static uint32_t request_count;
static uint64_t statuses[IBV_WC_GENERAL_ERR + 1];
static uint32_t key_apart[2];

static void begin_requests(void) { request_count = 0; }

static uint64_t next_id(void) { return request_count | sequence_seed << 32; }

// No completion of the queue pair comes any more.
static void forget_requests(struct object *qp)
{
    for (uint32_t i = 0; i < request_count; i++)
        if (requests[i].of == qp)
            requests[i].open = false;
}

static void may_come(struct object *cq)
{
    cq->owed++;
    cq->may_overrun |= cq->owed > (uint64_t)cq->entries;
}

static void taken(struct object *of, bool sends, uint64_t id)
{
    uint32_t number = (uint32_t)id;
    requests[number] = (struct request){of, true, sends, 0};
    if (sends) {
        requests[number].place = ++of->sends;
        may_come(of->of[1]);
    } else if (of->kind == QP) {
        requests[number].place = ++of->receives;
        may_come(of->of[2]);
    } else {
        of->posted++;
        for (int i = 0; i < PLACES; i++)
            if (objects[QP][i].live && objects[QP][i].of[3] == of)
                may_come(objects[QP][i].of[2]);
    }
}

// What was polled is of a request that was taken, once, in order, on the queue where it belongs.
static void check_completion(struct object *cq, const struct ibv_wc *wc)
{
    uint32_t number = (uint32_t)wc->wr_id;
    if (wc->wr_id >> 32 != (uint32_t)sequence_seed || number >= request_count || !requests[number].open)
        wrong("a completion of no request: id %#" PRIx64 ", status %d", wc->wr_id, wc->status);
    struct request *r = &requests[number];
    struct object *qp = NULL;
    for (int i = 0; i < PLACES; i++)
        if (objects[QP][i].live && ((struct ibv_qp *)objects[QP][i].at)->qp_num == wc->qp_num)
            qp = &objects[QP][i];
    if (!qp || (r->of->kind == QP ? r->of != qp : qp->of[3] != r->of))
        wrong("a completion of another queue pair's request: id %#" PRIx64, wc->wr_id);
    if (qp->of[r->sends ? 1 : 2] != cq)
        wrong("a completion in another queue: id %#" PRIx64, wc->wr_id);
    if (wc->status > IBV_WC_GENERAL_ERR || (wc->status == IBV_WC_SUCCESS && !!(wc->opcode & IBV_WC_RECV) == r->sends))
        wrong("a completion that cannot be: status %d, opcode %d", wc->status, wc->opcode);
    if (r->of->kind == QP) {
        uint64_t *last = r->sends ? &r->of->sends_done : &r->of->receives_done;
        if (r->place <= *last)
            wrong("completions in another order than their requests: id %#" PRIx64, wc->wr_id);
        *last = r->place;
    }
    statuses[wc->status]++;
    r->open = false;
    cq->owed -= cq->owed > 0;
}

static void poll_cq(void)
{
    static struct ibv_wc wc[700];
    struct object *o = some(CQ);
    struct ibv_cq *dead = one_in(12) ? a_gone(CQ) : NULL;
    if (!o && !dead)
        return;
    int most = one_in(12) ? -(int)random_below(INT32_MAX) - 1 : one_in(3) ? 700 : (int)random_below(8);
    next_call("ibv_poll_cq(%p, %d)", dead ? (void *)dead : o->at, most);
    int got = ibv_poll_cq(dead ? dead : (struct ibv_cq *)o->at, most, wc);
    if (dead || most < 0) {
        expect(got, -1);
        return;
    }
    if (got > most || (got < 0 && !o->may_overrun))
        wrong("ibv_poll_cq answered %d", got);
    for (int i = 0; i < got; i++)
        check_completion(o, &wc[i]);
}

// ---- states --------------------------------------------------------------------------------------------------------

static struct ibv_ah_attr route_in(struct ibv_context *context)
{
    struct ibv_port_attr port;
    struct ibv_ah_attr route = {.is_global = one_in(2), .port_num = 1, .grh = {.hop_limit = 64}};
    REQUIRE(ibv_query_port(context, 1, &port) == 0 && ibv_query_gid(context, 1, 0, &route.grh.dgid) == 0);
    route.dlid = port.lid;
    return route;
}

// Whether the route is wrong now.
static bool spoil_route(struct ibv_ah_attr *route)
{
    if (!one_in(5))
        return false;
    switch (random_below(4)) {
    case 0:
        route->port_num = ONE_OF(0, 2, 255);
        return true;
    case 1:
        route->sl = (uint8_t)(16 + random_below(240));
        return true;
    case 2:
        route->is_global = 1;
        route->grh.sgid_index = 255;
        return true;
    default: // to nobody, which is for later to find out
        route->dlid = (uint16_t)random_word();
        route->grh.dgid.global.subnet_prefix = random_word();
        return false;
    }
}

// The table of ibv_modify_qp(3) and of the kernel: whether a queue pair goes from one state to another with these
// attributes.
static bool move_is_legal(enum ibv_qp_type type, int from, int to, int mask)
{
    bool ud = type == IBV_QPT_UD, rc = type == IBV_QPT_RC;
    int identity = IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS), needs = 0, takes = 0;
    int running = ud ? IBV_QP_CUR_STATE | IBV_QP_QKEY
                     : IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE |
                         (rc ? IBV_QP_MIN_RNR_TIMER : 0);
    if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET)) {
    } else if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) {
        needs = identity;
    } else if (from == IBV_QPS_INIT && to == IBV_QPS_INIT) {
        takes = identity;
    } else if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) {
        if (!ud)
            needs = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        if (rc)
            needs |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        takes = ud ? IBV_QP_PKEY_INDEX | IBV_QP_QKEY : IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
    } else if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) {
        needs = IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
                                 : 0);
        takes = running;
    } else if ((from == IBV_QPS_RTS || from == IBV_QPS_SQD) && to == IBV_QPS_RTS) {
        takes = running;
    } else if (from == IBV_QPS_RTS && to == IBV_QPS_SQD) {
        takes = IBV_QP_EN_SQD_ASYNC_NOTIFY;
    } else if (from == IBV_QPS_SQD && to == IBV_QPS_SQD) {
        takes = ud ? IBV_QP_PKEY_INDEX | IBV_QP_QKEY
                   : IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE;
        if (rc)
            takes |= IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    } else if (from == IBV_QPS_SQE && to == IBV_QPS_RTS && !rc) {
        takes = IBV_QP_CUR_STATE | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    } else {
        return false;
    }
    return (mask & needs) == needs && !(mask & ~(needs | takes | IBV_QP_STATE));
}

static bool values_are_legal(const struct ibv_qp_attr *a, int mask, int from)
{
    unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
        IBV_ACCESS_REMOTE_ATOMIC |
                     IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |
                     FLUSH_GLOBAL | FLUSH_PERSISTENT | IBV_ACCESS_OPTIONAL_RANGE;
    return !(mask & IBV_QP_STATE && (a->qp_state < 0 || a->qp_state > IBV_QPS_ERR)) &&
           !(mask & IBV_QP_CUR_STATE && (int)a->cur_qp_state != from) &&
           !(mask & IBV_QP_PORT && a->port_num != 1) && !(mask & IBV_QP_PKEY_INDEX && a->pkey_index != 0) &&
           !(mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096)) &&
           !(mask & IBV_QP_TIMEOUT && a->timeout > 31) && !(mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7) &&
           !(mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7) &&
           !(mask & IBV_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > 16) &&
           !(mask & IBV_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic > 16) && !(mask & IBV_QP_ALT_PATH) &&
           !(mask & IBV_QP_PATH_MIG_STATE && a->path_mig_state != IBV_MIG_MIGRATED) &&
           !(mask & IBV_QP_ACCESS_FLAGS && a->qp_access_flags & ~known) &&
           !(mask & IBV_QP_AV && (a->ah_attr.port_num != 1 || a->ah_attr.sl > 15 ||
                                  (a->ah_attr.is_global && a->ah_attr.grh.sgid_index == 255)));
}

// What a queue pair needs to be connected to another one, and the attributes of the move that comes next.
static int good_attributes(struct object *o, struct object *there, int to, struct ibv_qp_attr *attr)
{
    bool ud = o->type == IBV_QPT_UD, rc = o->type == IBV_QPT_RC;
    *attr = (struct ibv_qp_attr){
        .qp_state = to, .port_num = 1, .qkey = Q_KEY, .qp_access_flags = one_in(6) ? random_below(16) : 15,
        .path_mtu = 1 + random_below(5), .ah_attr = route_in(context_of(o)), .rq_psn = 7, .sq_psn = 7,
        .dest_qp_num = ((struct ibv_qp *)there->at)->qp_num, .max_dest_rd_atomic = random_below(17),
        .max_rd_atomic = random_below(17), .min_rnr_timer = 1 + random_below(6), .timeout = 1 + random_below(10),
        .retry_cnt = random_below(8), .rnr_retry = random_below(8),
    };
    switch (to) {
    case IBV_QPS_INIT:
        return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    case IBV_QPS_RTR:
        return IBV_QP_STATE | (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
               (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
    case IBV_QPS_RTS:
        return IBV_QP_STATE | IBV_QP_SQ_PSN |
               (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
    default:
        return IBV_QP_STATE;
    }
}

static struct ibv_qp_attr queried(struct object *o)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    expect(ibv_query_qp(o->at, &attr, IBV_QP_STATE, &init), 0);
    if (init.qp_context != ((struct ibv_qp *)o->at)->qp_context || memcmp(&init.cap, &o->cap, sizeof init.cap) != 0)
        wrong("ibv_query_qp answered other capabilities than were written");
    return attr;
}

// The members between them are padding, and packet numbers move with packets.
static bool same_attributes(const struct ibv_qp_attr *a, const struct ibv_qp_attr *b)
{
    return a->path_mtu == b->path_mtu && a->path_mig_state == b->path_mig_state && a->qkey == b->qkey &&
           a->dest_qp_num == b->dest_qp_num && a->qp_access_flags == b->qp_access_flags &&
           memcmp(&a->cap, &b->cap, sizeof a->cap) == 0 &&
               memcmp(&a->ah_attr.grh.dgid, &b->ah_attr.grh.dgid, 16) == 0 &&
           a->ah_attr.dlid == b->ah_attr.dlid && a->ah_attr.is_global == b->ah_attr.is_global &&
           a->ah_attr.grh.sgid_index == b->ah_attr.grh.sgid_index && a->ah_attr.sl == b->ah_attr.sl &&
           a->ah_attr.port_num == b->ah_attr.port_num && a->pkey_index == b->pkey_index &&
           a->en_sqd_async_notify == b->en_sqd_async_notify && a->max_rd_atomic == b->max_rd_atomic &&
           a->max_dest_rd_atomic == b->max_dest_rd_atomic && a->min_rnr_timer == b->min_rnr_timer &&
           a->port_num == b->port_num && a->timeout == b->timeout && a->retry_cnt == b->retry_cnt &&
               a->rnr_retry == b->rnr_retry;
}

// For what its peer does, for what it carries out, and because a completion queue of its overran, which comes later.
static bool may_fail_by_itself(const struct object *o, int state)
{
    bool overrun = o->of[1]->may_overrun || o->of[2]->may_overrun;
    return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD || (overrun && state != IBV_QPS_RESET);
}

static void move(struct object *o, struct ibv_qp_attr *attr, int mask)
{
    struct ibv_qp_attr before = queried(o);
    int from = before.qp_state, to = mask & IBV_QP_STATE ? (int)attr->qp_state : from;
    bool legal = values_are_legal(attr, mask, from) && move_is_legal(o->type, from, to, mask);
    next_call("ibv_modify_qp(%p, state %d to %d, %#x), which is %s", o->at, from, to, mask, legal ? "right" : "wrong");
    int result = ibv_modify_qp(o->at, attr, mask);
    struct ibv_qp_attr after = queried(o);
    // It may have failed by itself before the call came.
    if (may_fail_by_itself(o, from) && (after.qp_state == IBV_QPS_ERR || after.qp_state == IBV_QPS_SQE) &&
        to != IBV_QPS_RESET && to != IBV_QPS_ERR) {
        expect_either(result, 0, EINVAL);
        return;
    }
    expect(result, legal ? 0 : EINVAL);
    if (result == 0) {
        if ((int)after.qp_state != to && !may_fail_by_itself(o, to))
            wrong("after ibv_modify_qp to %d the state is %d", to, after.qp_state);
        if (to == IBV_QPS_RESET) {
            forget_requests(o);
            o->sends = o->receives = o->sends_done = o->receives_done = 0;
        }
        return;
    }
    if (!same_attributes(&before, &after) || (before.qp_state != after.qp_state && !may_fail_by_itself(o, from)))
        wrong("a refused ibv_modify_qp changed the queue pair");
}

static void modify_qp(void)
{
    struct object *o = some(QP), *there = some(QP);
    struct ibv_qp_attr attr;
    if (one_in(8)) {
        struct ibv_qp_init_attr init;
        memset(&attr, 0xff, sizeof attr);
        void *qp = no_object(QP);
        next_call("ibv_modify_qp(%p) and ibv_query_qp, of no queue pair", qp);
        expect(ibv_modify_qp(qp, &attr, (int)random_word()), ENOENT);
        expect(ibv_query_qp(qp, &attr, (int)random_word(), &init), ENOENT);
        expect((intptr_t)ibv_qp_to_qp_ex(qp), 0);
        return;
    }
    if (!o)
        return;
    int state = queried(o).qp_state, to = one_in(3) ? (int)random_below(8) : state < IBV_QPS_RTS ? state + 1 : state;
    int mask = good_attributes(o, there, to, &attr);
    if (one_in(2))
        for (int flips = 1 + (int)random_below(3); flips; flips--)
            mask ^= 1 << random_below(one_in(4) ? 31 : 21);
    attr.cur_qp_state = one_in(3) ? (int)random_below(9) : state;
    if (one_in(2)) {
        attr.en_sqd_async_notify = (uint8_t)random_below(3);
        uint8_t *small[] = {&attr.port_num, &attr.timeout, &attr.retry_cnt, &attr.rnr_retry, &attr.min_rnr_timer,
                            &attr.max_rd_atomic, &attr.max_dest_rd_atomic, (uint8_t *)&attr.pkey_index};
        *small[random_below(8)] = (uint8_t)wild();
        if (one_in(3))
            attr.qp_access_flags = (unsigned)wild();
        if (one_in(4))
            attr.path_mtu = (int)wild();
        if (one_in(4))
            attr.dest_qp_num = (uint32_t)wild();
        if (one_in(4))
            attr.rq_psn = attr.sq_psn = (uint32_t)wild();
        if (one_in(6))
            attr.qp_state = (int)wild();
        spoil_route(&attr.ah_attr);
    }
    move(o, &attr, mask);
}

static void connect_one(struct object *o, struct object *there, int as_far_as)
{
    struct ibv_qp_attr attr;
    for (int to = IBV_QPS_INIT; to <= as_far_as; to++) {
        int mask = good_attributes(o, there, to, &attr);
        move(o, &attr, mask);
    }
}

static void connect_pair(void)
{
    struct object *a = some(QP), *b = some(QP);
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    if (!a || !b || a->type != b->type)
        return;
    move(a, &reset, IBV_QP_STATE);
    move(b, &reset, IBV_QP_STATE);
    connect_one(a, b, one_in(12) ? (int)random_below(4) : IBV_QPS_RTS);
    if (a != b)
        connect_one(b, a, one_in(12) ? (int)random_below(4) : IBV_QPS_RTS);
}

// ---- send requests -------------------------------------------------------------------------------------------------

static int some_count(uint32_t most)
{
    return (int)random_below((most < PIECES ? most : PIECES - 1) + (one_in(8) ? 2 : 1));
}

static bool tame; // the next request is to be right, if there is what it needs

static void fill_pieces(struct object *of, struct ibv_sge *pieces, int count)
{
    bool right = tame || !one_in(3);
    for (int i = 0; i < count; i++) {
        struct object *mr = right ? some_bytes(of->of[0], IBV_ACCESS_LOCAL_WRITE, &pieces[i].addr, &pieces[i].length)
            : NULL;
        if (mr) {
            pieces[i].lkey = ((struct ibv_mr *)mr->at)->lkey;
            continue;
        }
        uint32_t key = one_in(24) ? key_apart[random_below(2)] : some_key(false);
        pieces[i] = (struct ibv_sge){some_address(), some_length(), key};
    }
}

// Mostly where a peer may do something.
static void remote_place(struct object *o, uint64_t *address, uint32_t *key)
{
    uint32_t length;
    struct object *mr = !tame && one_in(3) ? NULL : some_bytes(o->of[0], 15, address, &length);
    if (mr)
        *key = ((struct ibv_mr *)mr->at)->rkey;
}

static struct ibv_mw_bind_info some_bind(struct object *mw, struct object **mr)
{
    *mr = one_in(10) ? NULL : some(MR);
    if (*mr && mw && (*mr)->of[0] != mw->of[0] && !one_in(4))
        *mr = NULL;
    struct ibv_mw_bind_info info = {.mr = *mr ? (*mr)->at : one_in(6) ? a_gone(MR) : NULL};
    if (*mr && !one_in(6)) {
        info.addr = (*mr)->access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)((struct ibv_mr *)info.mr)->addr;
        info.length = (*mr)->length;
    } else if (info.mr || one_in(4)) {
        info.addr = some_address();
        info.length = some_length();
    }
    info.mw_access_flags = random_below(8) << 1 | (one_in(3) ? IBV_ACCESS_ZERO_BASED : 0);
    if (one_in(12))
        info.mw_access_flags |= 1u << random_below(32);
    return info;
}

static int bind_is_due(struct object *mw, enum ibv_mw_type type, const struct ibv_mw_bind_info *info)
{
    unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
        IBV_ACCESS_REMOTE_ATOMIC |
                     IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;
    struct object *mr = find_object(MR, info->mr);
    if (!mw || ((struct ibv_mw *)mw->at)->type != type || info->mw_access_flags & ~known ||
        (!info->mr && (info->addr || info->length)) || (info->mr && !mr))
        return EINVAL;
    return mr && mr->of[0] != mw->of[0] ? EPERM : 0;
}

static const int opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
                              IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                  IBV_WR_LOCAL_INV,
                              IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV, IBV_WR_TSO};

static bool operation_fits(enum ibv_qp_type type, int opcode)
{
    if (type == IBV_QPT_UD)
        return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
    return type == IBV_QPT_RC || (opcode != IBV_WR_RDMA_READ && opcode != IBV_WR_ATOMIC_CMP_AND_SWP &&
                                  opcode != IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static bool is_full(const struct object *qp) { return qp->sends - qp->sends_done >= qp->cap.max_send_wr; }

// A request, and what is due for it on this queue pair, but for a full queue. The region it binds a window to, if any.
static int some_request(struct object *o, int state, struct ibv_send_wr *wr, struct ibv_sge *pieces,
                        struct object **bound)
{
    struct object *mw = NULL, *ah = NULL;
    int due = 0;
    memset(wr, 0, sizeof *wr);
    *bound = NULL;
    tame = one_in(2);
    bool ud = o->type == IBV_QPT_UD; // whose requests name an address handle, whatever they are
    if (tame && !ud)
        wr->opcode = opcodes[random_below(7)];
    else if (one_in(40))
        wr->opcode = (int)wild();
    else
        wr->opcode = opcodes[ud && !one_in(6) ? 2 + random_below(2) : random_below(11)];
    if (ud && (int)wr->opcode >= 0 && wr->opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD && wr->opcode != IBV_WR_SEND_WITH_IMM)
        wr->opcode = IBV_WR_SEND; // one-sided ones are taken, and fail: see unreliable.c
    if (wr->opcode == IBV_WR_ATOMIC_WRITE)
        wr->opcode = IBV_WR_SEND; // see wr_calls.c
    wr->send_flags = (one_in(3) ? 0 : IBV_SEND_SIGNALED) | (one_in(6) ? IBV_SEND_FENCE : 0);
    wr->send_flags |= one_in(6) ? IBV_SEND_SOLICITED : 0;
    if (!tame && one_in(40))
        wr->send_flags |= 1u << random_below(32);
    wr->num_sge = tame ? 1 : one_in(30) ? ONE_OF(-1, INT32_MIN, INT32_MAX, 1000, 33) : some_count(o->cap.max_send_sge);
    wr->sg_list = !tame && one_in(60) ? NULL : pieces;
    fill_pieces(o, pieces, PIECES);
    wr->imm_data = some_key(true);
    if (one_in(5))
        wr->send_flags |= IBV_SEND_INLINE;
    uint64_t total = 0;
    if (wr->send_flags & IBV_SEND_INLINE)
        for (int i = 0; i < PIECES; i++) {
            // The bytes are read in the call: a program's own fault if they are not there.
            pieces[i].addr = (uintptr_t)open_memory + random_below(OPEN / 2);
            pieces[i].length = one_in(12) ? (uint32_t)wild() : random_below(60);
            total += i < wr->num_sge ? pieces[i].length : 0;
        }
    if (!ud && (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)) {
        wr->wr.atomic.remote_addr = some_address();
        wr->wr.atomic.rkey = one_in(8) ? key_apart[1] : some_key(true);
        remote_place(o, &wr->wr.atomic.remote_addr, &wr->wr.atomic.rkey);
        wr->wr.atomic.compare_add = random_word();
        if ((tame || one_in(2)) && !(wr->send_flags & IBV_SEND_INLINE))
            pieces[0].length = 8;
    } else if (ud) {
        ah = one_in(16) ? NULL : some(AH);
        wr->wr.ud.ah = ah ? ah->at : one_in(2) ? a_gone(AH) : NULL;
        struct object *there = some(QP);
        wr->wr.ud.remote_qpn = one_in(4) ? (uint32_t)wild() : ((struct ibv_qp *)there->at)->qp_num;
        wr->wr.ud.remote_qkey = one_in(4) ? (uint32_t)wild() : Q_KEY;
    } else {
        wr->wr.rdma.remote_addr = some_address();
        wr->wr.rdma.rkey = one_in(8) ? key_apart[1] : some_key(true);
        remote_place(o, &wr->wr.rdma.remote_addr, &wr->wr.rdma.rkey);
    }
    tame = false;
    if (wr->opcode == IBV_WR_BIND_MW) {
        mw = some(MW);
        wr->bind_mw.mw = mw && !one_in(10) ? mw->at : one_in(2) ? a_gone(MW) : NULL;
        mw = find_object(MW, wr->bind_mw.mw);
        wr->bind_mw.rkey = (uint32_t)random_word();
        wr->bind_mw.bind_info = some_bind(mw, bound);
        due = bind_is_due(mw, IBV_MW_TYPE_2, &wr->bind_mw.bind_info);
    }
    if (due == 0 && (wr->opcode == IBV_WR_TSO || (int)wr->opcode == 14))
        due = EOPNOTSUPP;
    bool known = wr->opcode <= IBV_WR_TSO && wr->opcode != IBV_WR_DRIVER1;
    bool flags = !(wr->send_flags & ~(uint32_t)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |
                                                IBV_SEND_INLINE));
    bool list = wr->num_sge == 0 || (wr->num_sge > 0 && wr->num_sge <= (int)o->cap.max_send_sge && wr->sg_list);
    bool fetches = wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                   wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    list = list && !(fetches && wr->send_flags & IBV_SEND_INLINE);
    bool right = known && flags && list && state != IBV_QPS_RESET && operation_fits(o->type, wr->opcode) &&
                 total <= (wr->send_flags & IBV_SEND_INLINE ? o->cap.max_inline_data : UINT64_MAX) &&
                 !(ud && !ah);
    return due ? due : right ? 0 : EINVAL;
}

static void bound_to(struct object *mr)
{
    if (mr)
        mr->maybe_bound = true;
}

static void post_send(void)
{
    struct ibv_send_wr wr[4], *bad = (void *)8;
    struct ibv_sge pieces[4][PIECES];
    struct object *o = some(QP), *bound[4];
    struct ibv_qp *dead = one_in(24) ? a_gone(QP) : NULL;
    int count = one_in(2) ? 1 : 1 + (int)random_below(4), due = 0, first = count, dues[4];
    if (!o || request_count + 4 > REQUESTS)
        return;
    int state = queried(o).qp_state;
    for (int i = 0; i < count; i++) {
        dues[i] = some_request(o, state, &wr[i], pieces[i], &bound[i]);
        wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
        wr[i].wr_id = request_count++ | sequence_seed << 32;
    }
    next_call("ibv_post_send(%p in state %d, %d requests, first: opcode %d, flags %#x, %d pieces of %u.. at %#" PRIx64
              ", remote %#" PRIx64 " %#x)", dead ? (void *)dead : o->at, state, count, wr[0].opcode, wr[0].send_flags,
              wr[0].num_sge, pieces[0][0].length, pieces[0][0].addr, wr[0].wr.rdma.remote_addr, wr[0].wr.rdma.rkey);
    if (dead) {
        expect(ibv_post_send(dead, wr, &bad), EINVAL);
        if (bad != wr)
            wrong("bad_wr is not the first request of a queue pair that is gone");
        return;
    }
    for (int i = 0; i < count && !due; i++) {
        uint64_t waiting = o->sends - o->sends_done + (uint64_t)i;
        due = dues[i] == 0 && waiting >= o->cap.max_send_wr ? ENOMEM : dues[i];
        first = due ? i : count;
    }
    int result = ibv_post_send(o->at, wr, &bad);
    bool no_room = first < count && o->sends - o->sends_done + (uint64_t)first >= o->cap.max_send_wr;
    expect_either(result, due, no_room && dues[first] == EINVAL ? ENOMEM : due);
    if (result && bad != &wr[first])
        wrong("bad_wr is request %td, and %d is due", bad - wr, first);
    if (!result && bad != (void *)8)
        wrong("bad_wr was written though all was taken");
    for (int i = 0; i < first; i++) {
        taken(o, true, wr[i].wr_id);
        bound_to(bound[i]);
    }
}

static void bind_mw(void)
{
    struct object *o = some(QP), *mw = some(MW), *mr;
    if (!o || !mw || request_count + 1 > REQUESTS)
        return;
    struct ibv_mw_bind bind = {.wr_id = request_count++ | sequence_seed << 32, .send_flags = one_in(3) ? 0
                               : IBV_SEND_SIGNALED};
    struct ibv_qp *dead = one_in(24) ? a_gone(QP) : NULL;
    bind.bind_info = some_bind(mw, &mr);
    if (bind.bind_info.mr && !mr) // the header looks into it
        bind.bind_info.mr = NULL;
    if (one_in(24))
        bind.send_flags |= 1u << random_below(32);
    int state = queried(o).qp_state, due = bind_is_due(mw, IBV_MW_TYPE_1, &bind.bind_info);
    uint32_t before = ((struct ibv_mw *)mw->at)->rkey;
    // The header looks at the domains before the library looks at the rest.
    if (((struct ibv_mw *)mw->at)->type == IBV_MW_TYPE_1 && mr && mr->of[0] != mw->of[0])
        due = EPERM;
    if (due == 0 && (bind.send_flags & ~15u || state == IBV_QPS_RESET || o->type == IBV_QPT_UD || dead))
        due = EINVAL;
    int full = (due == 0 || due == EINVAL) && is_full(o) ? ENOMEM : due;
    next_call("ibv_bind_mw(%p in state %d, %p, mr %p, %#" PRIx64 " %#" PRIx64 " %#x)", dead ? (void *)dead : o->at,
              state, mw->at,
              (void *)bind.bind_info.mr, bind.bind_info.addr, bind.bind_info.length, bind.bind_info.mw_access_flags);
    int result = ibv_bind_mw(dead ? dead : (struct ibv_qp *)o->at, mw->at, &bind);
    expect_either(result, due == 0 ? full : due, full);
    if (result && ((struct ibv_mw *)mw->at)->rkey != before)
        wrong("a refused ibv_bind_mw changed the key");
    if (!result) {
        taken(o, true, bind.wr_id);
        bound_to(mr);
        if (((struct ibv_mw *)mw->at)->rkey == before)
            wrong("ibv_bind_mw did not change the key");
    }
}

// ---- receive requests ----------------------------------------------------------------------------------------------

static void post_receives(struct object *o, uint32_t most_pieces, uint32_t most, uint64_t waiting_at_most, bool refused,
                          int (*post)(void *, struct ibv_recv_wr *, struct ibv_recv_wr **), void *dead)
{
    struct ibv_recv_wr wr[4], *bad = (void *)8;
    struct ibv_sge pieces[4][PIECES];
    int count = 1 + (int)random_below(4), first = count;
    for (int i = 0; i < count; i++) {
        int num = one_in(16) ? ONE_OF(-1, INT32_MIN, INT32_MAX, 33, 1000) : some_count(most_pieces);
        fill_pieces(o, pieces[i], PIECES);
        wr[i] = (struct ibv_recv_wr){request_count++ | sequence_seed << 32, i + 1 < count ? &wr[i + 1] : NULL,
                                     pieces[i], num};
        if (first == count && (refused || num < 0 || num > (int)most_pieces))
            first = i;
    }
    next_call("post %d receives to %s %p", count, kind_names[o->kind], dead ? dead : o->at);
    int result = post(dead ? dead : o->at, wr, &bad), due = first < count ? EINVAL : 0;
    if (dead) {
        expect(result, EINVAL);
        return;
    }
    if (result == ENOMEM && bad >= wr && bad - wr <= first && !refused &&
        waiting_at_most + (uint64_t)(bad - wr) >= most) {
        first = (int)(bad - wr);
    } else {
        expect(result, due);
        if (result && bad != &wr[first])
            wrong("bad_wr is receive %td, and %d is due", bad - wr, first);
    }
    for (int i = 0; i < first; i++)
        taken(o, false, wr[i].wr_id);
}

static int to_qp(void *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) { return ibv_post_recv(qp, wr, bad); }
static int to_srq(void *srq, struct ibv_recv_wr *wr,
                  struct ibv_recv_wr **bad) { return ibv_post_srq_recv(srq, wr, bad); }

static void post_recv(void)
{
    struct object *o = some(QP);
    if (!o || request_count + 4 > REQUESTS)
        return;
    post_receives(o, o->cap.max_recv_sge, o->cap.max_recv_wr, o->receives - o->receives_done,
                  o->of[3] || queried(o).qp_state == IBV_QPS_RESET, to_qp, one_in(24) ? a_gone(QP) : NULL);
}

static void post_srq_recv(void)
{
    struct object *o = some(SRQ);
    if (!o || request_count + 4 > REQUESTS)
        return;
    post_receives(o, o->max_sge, o->max_wr, o->posted, false, to_srq, one_in(24) ? a_gone(SRQ) : NULL);
}

// ---- requests built call by call -----------------------------------------------------------------------------------

static uint64_t operations_of(int type)
{
    uint64_t datagrams = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    uint64_t unreliable = datagrams | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
        IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    if (type == IBV_QPT_UD)
        return datagrams;
    return type == IBV_QPT_UC ? unreliable
                              : unreliable | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_WRITE |
                                  FLUSH_OPERATION;
}

// What is due for what only ibv_create_qp_ex has.
static int extended_is_due(const struct ibv_qp_init_attr_ex *init)
{
    uint32_t refused = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    uint32_t known = refused | IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
                     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    uint64_t all = operations_of(IBV_QPT_RC) | IBV_QP_EX_WITH_TSO;
    if (init->comp_mask & ~known)
        return EINVAL;
    if (init->comp_mask & refused)
        return EOPNOTSUPP;
    if (init->qp_type != IBV_QPT_RC && init->qp_type != IBV_QPT_UC && init->qp_type != IBV_QPT_UD)
        return 0; // the type says it
    if (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
        if (init->send_ops_flags & ~all)
            return EINVAL;
        if (init->send_ops_flags & ~operations_of(init->qp_type))
            return EOPNOTSUPP;
    }
    return 0;
}

struct batch {
    struct object *qp;
    int due;
    uint32_t count;
    uint64_t ids[8];
    struct object *bound[8];
    bool has_data, is_local, fetches; // the last one
    bool addressed[8];
};

static void fails(struct batch *b, int due) { b->due = b->due ? b->due : due; }

static void build_operation(struct batch *b)
{
    struct object *o = b->qp, *mr = NULL, *mw;
    struct ibv_qp_ex *qp = o->at;
    uint64_t address = some_address();
    uint32_t key = one_in(8) ? key_apart[1] : some_key(true), which = random_below(11);
    remote_place(o, &address, &key);
    static const uint64_t flags[] = {IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_INV,
                                     IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
                                         IBV_QP_EX_WITH_RDMA_READ,
                                     IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
                                     IBV_QP_EX_WITH_LOCAL_INV, IBV_QP_EX_WITH_BIND_MW, 0};
    qp->wr_id = next_id();
    qp->wr_flags = (one_in(3) ? 0 : IBV_SEND_SIGNALED) | (one_in(12) ? IBV_SEND_FENCE : 0);
    qp->wr_flags |= one_in(30) ? 1u << random_below(32) : 0;
    bool flags_right = !(qp->wr_flags & ~15u);
    int due = which == 10 || !(o->operations & flags[which]) ? EOPNOTSUPP : b->count >= o->cap.max_send_wr ? ENOMEM : 0;
    struct ibv_mw_bind_info info;
    next_call("  ibv_wr_* %u, flags %#x, id %#" PRIx64, which, qp->wr_flags, qp->wr_id);
    switch (which) {
    case 0:
        ibv_wr_send(qp);
        break;
    case 1:
        ibv_wr_send_imm(qp, key);
        break;
    case 2:
        ibv_wr_send_inv(qp, key);
        break;
    case 3:
        ibv_wr_rdma_write(qp, key, address);
        break;
    case 4:
        ibv_wr_rdma_write_imm(qp, key, address, 5);
        break;
    case 5:
        ibv_wr_rdma_read(qp, key, address);
        break;
    case 6:
        ibv_wr_atomic_cmp_swp(qp, key, address, 1, 2);
        break;
    case 7:
        ibv_wr_atomic_fetch_add(qp, key, address, 3);
        break;
    case 8:
        ibv_wr_local_inv(qp, key);
        break;
    case 9:
        mw = some(MW);
        info = some_bind(mw, &mr);
        ibv_wr_bind_mw(qp, mw ? mw->at : NULL, key, &info);
        due = due ? due : bind_is_due(mw, IBV_MW_TYPE_2, &info);
        break;
    default:
        ibv_wr_send_tso(qp, open_memory, 8, 8);
    }
    if (!due && !flags_right)
        due = EINVAL;
    fails(b, due);
    if (!b->due) {
        b->ids[b->count] = qp->wr_id;
        b->bound[b->count] = mr;
        b->addressed[b->count++] = false;
        request_count++;
        b->has_data = false;
        b->is_local = which == 8 || which == 9;
        b->fetches = which >= 5 && which <= 7;
    }
}

static void build_setter(struct batch *b)
{
    struct object *o = b->qp, *ah;
    struct ibv_qp_ex *qp = o->at;
    struct ibv_sge pieces[PIECES];
    struct ibv_data_buf buffers[3];
    size_t count = random_below(6), length = one_in(8) ? wild() : random_below(300);
    bool last_takes = b->count && !b->has_data && !b->is_local;
    fill_pieces(o, pieces, PIECES);
    switch (random_below(5)) {
    case 0:
        next_call("  ibv_wr_set_sge");
        ibv_wr_set_sge(qp, pieces[0].lkey, pieces[0].addr, pieces[0].length);
        fails(b, last_takes && o->cap.max_send_sge >= 1 ? 0 : EINVAL);
        break;
    case 1:
        next_call("  ibv_wr_set_sge_list of %zu", count);
        ibv_wr_set_sge_list(qp, count, pieces);
        fails(b, last_takes && count <= o->cap.max_send_sge ? 0 : EINVAL);
        break;
    case 2:
        next_call("  ibv_wr_set_inline_data of %#zx", length);
        ibv_wr_set_inline_data(qp, open_memory, length);
        fails(b, last_takes && !b->fetches && length <= o->cap.max_inline_data ? 0 : EINVAL);
        break;
    case 3:
        for (int i = 0; i < 3; i++)
            buffers[i] = (struct ibv_data_buf){open_memory + i, i == 2 ? length : 3};
        next_call("  ibv_wr_set_inline_data_list of 6 and %#zx", length);
        ibv_wr_set_inline_data_list(qp, 3, buffers);
        fails(b, last_takes && !b->fetches && length <= o->cap.max_inline_data && length + 6 <= o->cap.max_inline_data
              ? 0 : EINVAL);
        break;
    default:
        ah = some(AH);
        next_call("  ibv_wr_set_ud_addr");
        ibv_wr_set_ud_addr(qp, ah ? ah->at : NULL, ((struct ibv_qp *)o->at)->qp_num, Q_KEY);
        fails(b, o->type == IBV_QPT_UD && b->count ? 0 : EINVAL);
        if (!b->due)
            b->addressed[b->count - 1] = ah != NULL;
        return;
    }
    b->has_data = true;
}

static void build(void)
{
    struct batch b = {.qp = some(QP)};
    if (!b.qp || !b.qp->builds || request_count + 8 > REQUESTS)
        return;
    struct ibv_qp_ex *qp = b.qp->at;
    int state = queried(b.qp).qp_state;
    bool starts = !one_in(10), aborts = one_in(8);
    next_call("ibv_wr_start(%p in state %d)%s", (void *)qp, state, starts ? "" : ", left out");
    if (starts)
        ibv_wr_start(qp);
    else
        b.due = EINVAL;
    if (starts && one_in(24)) {
        ibv_wr_start(qp);
        b.due = EINVAL;
    }
    for (uint32_t n = random_below(6); n; n--) {
        build_operation(&b);
        if (b.qp->type == IBV_QPT_UD && b.count && !one_in(4)) {
            struct object *ah = some(AH);
            next_call("  ibv_wr_set_ud_addr");
            ibv_wr_set_ud_addr(qp, ah ? ah->at : NULL, b.qp->at ? ((struct ibv_qp *)b.qp->at)->qp_num : 0, Q_KEY);
            if (!b.due)
                b.addressed[b.count - 1] = ah != NULL;
        }
        if (!one_in(3))
            build_setter(&b);
    }
    next_call("ibv_wr_%s(%p), %u requests", aborts ? "abort" : "complete", (void *)qp, b.count);
    if (aborts) {
        ibv_wr_abort(qp);
        return;
    }
    int result = ibv_wr_complete(qp), due = b.due, full = due;
    if (!due && b.count) {
        bool homeless = false;
        for (uint32_t i = 0; i < b.count; i++)
            homeless |= b.qp->type == IBV_QPT_UD && !b.addressed[i];
        due = state == IBV_QPS_RESET || homeless ? EINVAL : 0;
        full = due;
        if (state != IBV_QPS_RESET && b.qp->sends - b.qp->sends_done + b.count > b.qp->cap.max_send_wr) {
            full = ENOMEM;
            due = homeless ? EINVAL : ENOMEM;
        }
    }
    expect_either(result, due, full);
    for (uint32_t i = 0; i < b.count && !result; i++) {
        taken(b.qp, true, b.ids[i]);
        bound_to(b.bound[i]);
    }
}

#endif
