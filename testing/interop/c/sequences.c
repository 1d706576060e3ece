// Sequences of verbs calls as chance has them: many objects of every kind, right, nearly right and wild arguments,
// objects that were destroyed, work requests between queue pairs that are connected to each other. Each answer is
// compared with what its page says is due; completions are those of requests that were taken; memory nobody may write
// to keeps its bytes; a pair made at the end of each sequence works; everything can be destroyed and nothing is left.
//
// Usage: sequences SEQUENCES SEED

#include "sequences_rest.h"

static struct ibv_device_attr device;

// ---- contexts, domains, channels, address handles -------------------------------------------------------------------

static void open_context(void)
{
    struct object *o = a_place(CONTEXT);
    if (!o)
        return;
    struct ibv_device **list = ibv_get_device_list(NULL);
    REQUIRE(list && list[0]);
    next_call("ibv_open_device");
    struct ibv_context *context = ibv_open_device(list[0]);
    if (expect_object(context, 0)) {
        comes_to_life(o, context, NULL, NULL, NULL, NULL);
        REQUIRE(fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK) == 0);
    }
    ibv_free_device_list(list);
}

static void alloc_pd(void)
{
    struct object *o = a_place(PD), *of = some(CONTEXT);
    if (!o)
        return;
    void *context = one_in(12) ? no_object(CONTEXT) : of->at;
    bool right = find_object(CONTEXT, context);
    next_call("ibv_alloc_pd(%p)", context);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    if (expect_object(pd, right ? 0 : EINVAL))
        comes_to_life(o, pd, of, NULL, NULL, NULL);
}

static void create_channel(void)
{
    struct object *o = a_place(CHANNEL), *of = some(CONTEXT);
    if (!o)
        return;
    void *context = one_in(12) ? no_object(CONTEXT) : of->at;
    next_call("ibv_create_comp_channel(%p)", context);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    if (expect_object(channel, find_object(CONTEXT, context) ? 0 : EINVAL)) {
        comes_to_life(o, channel, of, NULL, NULL, NULL);
        REQUIRE(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
    }
}

static void create_ah(void)
{
    struct object *o = a_place(AH), *of = some(PD);
    if (!o || !of)
        return;
    struct ibv_ah_attr attr = route_in(context_of(of));
    bool right = !spoil_route(&attr);
    void *pd = one_in(12) ? no_object(PD) : of->at;
    next_call("ibv_create_ah(%p, port %d, gid %d)", pd, attr.port_num, attr.grh.sgid_index);
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);
    if (expect_object(ah, right && find_object(PD, pd) ? 0 : EINVAL))
        comes_to_life(o, ah, of, NULL, NULL, NULL);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

#define WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define REMOTE (WRITES | IBV_ACCESS_REMOTE_READ)

static unsigned some_access(void)
{
    unsigned access = random_below(64) & (IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED);
    if (!one_in(4))
        access |= IBV_ACCESS_LOCAL_WRITE;
    if (one_in(24))
        access |= 1u << random_below(32);
    return access;
}

static int access_is_due(unsigned access)
{
    unsigned known = IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB |
                     IBV_ACCESS_ON_DEMAND | FLUSH_GLOBAL | FLUSH_PERSISTENT | IBV_ACCESS_OPTIONAL_RANGE;
    if (access & ~known || (access & WRITES && !(access & IBV_ACCESS_LOCAL_WRITE)))
        return EINVAL;
    return access & FLUSH_PERSISTENT ? EOPNOTSUPP : 0;
}

static void reg_mr(void)
{
    struct object *o = a_place(MR), *of = some(PD);
    if (!o || !of)
        return;
    unsigned access = some_access() & ~IBV_ACCESS_ON_DEMAND; // see paging.c
    unsigned char *at = open_memory + random_below(OPEN);
    size_t length = 1 + random_below((uint32_t)(open_memory + OPEN - at));
    int due = 0;
    switch (random_below(10)) {
    case 0: // without any right to write, so it is another's
        at = closed_memory + random_below(CLOSED - 1);
        length = 1 + random_below((uint32_t)(closed_memory + CLOSED - at));
        access &= ~(WRITES | IBV_ACCESS_LOCAL_WRITE);
        break;
    case 1:
        at = sealed_memory + random_below(SEALED - 1);
        length = 1 + random_below((uint32_t)(sealed_memory + SEALED - at));
        due = access & IBV_ACCESS_LOCAL_WRITE ? EFAULT : 0;
        break;
    case 2: // into what is not mapped for anybody
        length = (size_t)(no_memory - at) + 1 + random_below(PAGE);
        access &= ~(WRITES | IBV_ACCESS_LOCAL_WRITE);
        due = EFAULT;
        break;
    case 3:
        at = (unsigned char *)(uintptr_t)random_below(65536 - 4096);
        length = 1 + random_below(4096);
        due = EFAULT;
        break;
    case 4:
        length = one_in(2) ? 0 : SIZE_MAX - random_below(4096);
        due = length ? EINVAL : 0;
        break;
    case 5:
        at = (unsigned char *)(uintptr_t)(1ull << 63 | random_word() >> 2);
        due = EFAULT;
        break;
    }
    void *pd = one_in(16) ? no_object(PD) : of->at;
    int access_due = access_is_due(access);
    due = !find_object(PD, pd) ? EINVAL : access_due ? access_due : due;
    uint64_t iova = one_in(2) ? (uintptr_t)at : wild();
    bool named = one_in(4);
    if (named && !(access & IBV_ACCESS_ZERO_BASED) && length && iova + length - 1 < iova && !due)
        due = EINVAL;
    // What is not mapped and an address that wraps are both wrong: either may be said.
    int other = due == EFAULT && named && length && iova + length - 1 < iova ? EINVAL : due;
    next_call("ibv_reg_mr%s(%p, %p, %zu, %#" PRIx64 ", %#x)", named ? "_iova" : "", pd, at, length, iova, access);
    struct ibv_mr *mr = named ? ibv_reg_mr_iova(pd, at, length, iova, access) : (ibv_reg_mr)(pd, at, length, access);
    if (!mr && errno == other)
        due = other;
    if (expect_object(mr, due)) {
        comes_to_life(o, mr, of, NULL, NULL, NULL);
        o->access = access;
        o->length = length;
        o->base = access & IBV_ACCESS_ZERO_BASED ? 0 : named ? iova : (uintptr_t)at;
        if (mr->addr != at || mr->length != length || mr->pd != pd || mr->lkey == mr->rkey)
            wrong("a region is not what was asked for");
    }
}

static void alloc_dm(void)
{
    struct object *o = a_place(DM), *of = some(CONTEXT);
    if (!o)
        return;
    struct ibv_alloc_dm_attr attr = {.length = 1 + random_below(20000), .log_align_req = random_below(13)};
    int due = 0;
    if (one_in(6)) {
        attr.length = ONE_OF(0ul, 1ul << 40, SIZE_MAX, SIZE_MAX - 4095);
        due = EINVAL;
    } else if (one_in(8)) {
        attr.log_align_req = ONE_OF(27u, 31u, 32u, 63u, 64u, 255u, UINT32_MAX);
        due = EINVAL;
    } else if (one_in(12)) {
        attr.comp_mask = 1 << random_below(32);
        due = EINVAL;
    }
    next_call("ibv_alloc_dm(%zu, align 2^%u, %#x)", attr.length, attr.log_align_req, attr.comp_mask);
    errno = 0;
    struct ibv_dm *dm = ibv_alloc_dm(of->at, &attr);
    if (expect_object(dm, due)) {
        comes_to_life(o, dm, of, NULL, NULL, NULL);
        o->length = attr.length;
        REQUIRE(o->bytes = calloc(1, attr.length));
    }
}

static void copy_dm(void)
{
    static unsigned char there[65536];
    struct object *o = some(DM);
    if (!o)
        return;
    uint64_t offset = one_in(4) ? wild() : random_below((uint32_t)o->length + 8);
    size_t length = one_in(4) ? wild() : random_below(2048);
    bool fits = offset <= o->length && length <= o->length - offset;
    struct ibv_dm *gone_dm = one_in(16) ? a_gone(DM) : NULL, *dm = gone_dm ? gone_dm : o->at;
    if (gone_dm)
        length = random_below(64);
    bool in = one_in(2);
    next_call("ibv_memcpy_%s_dm(%p, %#" PRIx64 ", %#zx)", in ? "to" : "from", (void *)dm, offset, length);
    // What does not fit is refused before a byte of the program's memory is looked at.
    memset(there, 0x5a, sizeof there);
    if (in)
        for (size_t i = 0; i < (fits ? length : 0); i++)
            there[i] = (unsigned char)random_state + (unsigned char)(i * 7);
    int result = in ? ibv_memcpy_to_dm(dm, offset, there, length) : ibv_memcpy_from_dm(there, dm, offset, length);
    expect(result, gone_dm ? ENOENT : fits ? 0 : EFAULT);
    if (!o->bytes || result)
        return;
    if (in)
        memcpy(o->bytes + offset, there, length);
    else if (memcmp(o->bytes + offset, there, length) != 0)
        wrong("device memory has other bytes than were copied there");
}

static void reg_dm_mr(void)
{
    struct object *o = a_place(MR), *of = some(PD), *dm = some(DM);
    if (!o || !of || !dm)
        return;
    unsigned access = some_access() | (one_in(8) ? 0 : IBV_ACCESS_ZERO_BASED);
    uint64_t offset = one_in(4) ? wild() : random_below((uint32_t)dm->length);
    size_t length = one_in(4) ? wild() : random_below((uint32_t)dm->length);
    bool inside = offset <= dm->length && length <= dm->length - offset && context_of(of) == context_of(dm);
    int due = access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB) || !(access & IBV_ACCESS_ZERO_BASED) ? EINVAL : access_is_due(access);
    due = due ? due : inside ? 0 : EINVAL;
    next_call("ibv_reg_dm_mr(%#" PRIx64 ", %#zx, %#x)", offset, length, access);
    struct ibv_mr *mr = ibv_reg_dm_mr(of->at, dm->at, offset, length, access);
    if (expect_object(mr, due)) {
        comes_to_life(o, mr, of, dm, NULL, NULL);
        o->access = access;
        o->length = length;
        if (access & IBV_ACCESS_LOCAL_WRITE) { // from now on requests change it
            free(dm->bytes);
            dm->bytes = NULL;
        }
    }
}

static void alloc_mw(void)
{
    struct object *o = a_place(MW), *of = some(PD);
    if (!o || !of)
        return;
    int type = one_in(8) ? (int)wild() : ONE_OF(IBV_MW_TYPE_1, IBV_MW_TYPE_2);
    next_call("ibv_alloc_mw(type %d)", type);
    struct ibv_mw *mw = ibv_alloc_mw(of->at, type);
    if (expect_object(mw, type == IBV_MW_TYPE_1 || type == IBV_MW_TYPE_2 ? 0 : EINVAL))
        comes_to_life(o, mw, of, NULL, NULL, NULL);
}

// ---- queues ---------------------------------------------------------------------------------------------------------

static void create_cq(void)
{
    struct object *o = a_place(CQ), *of = some(CONTEXT), *channel = one_in(2) ? some(CHANNEL) : NULL;
    if (!o)
        return;
    int cqe = one_in(8) ? (int)wild() : 1 + (int)random_below(600), vector = one_in(16) ? (int)wild() : 0;
    if (cqe > 10000 && cqe <= device.max_cqe)
        cqe = 10000;
    void *context = one_in(16) ? no_object(CONTEXT) : of->at;
    void *of_channel = channel ? channel->at : one_in(16) ? no_object(CHANNEL) : NULL;
    bool right = find_object(CONTEXT, context) && cqe > 0 && cqe <= device.max_cqe && vector == 0 &&
                 (!of_channel || (channel && channel->of[0] == of));
    next_call("ibv_create_cq(%p, %d, channel %p, vector %d)", context, cqe, of_channel, vector);
    struct ibv_cq *cq = ibv_create_cq(context, cqe, o, of_channel, vector);
    if (expect_object(cq, right ? 0 : EINVAL)) {
        comes_to_life(o, cq, of, channel, NULL, NULL);
        o->entries = cq->cqe;
        if (cq->cqe < cqe || cq->cq_context != o)
            wrong("a completion queue is not what was asked for");
    }
}

static void resize_cq(void)
{
    struct object *o = some(CQ);
    void *cq = one_in(8) ? no_object(CQ) : o ? o->at : NULL;
    o = find_object(CQ, cq);
    int cqe = one_in(4) ? (int)wild() : 1 + (int)random_below(600);
    if (cqe > 10000 && cqe <= device.max_cqe)
        cqe = 10000;
    next_call("ibv_resize_cq(%p, %d)", cq, cqe);
    int result = ibv_resize_cq(cq, cqe);
    if (!o) {
        expect(result, ENOENT);
    } else if (cqe <= 0 || cqe > device.max_cqe) {
        expect(result, EINVAL);
    } else {
        // What waits there must fit.
        expect_either(result, 0, (uint64_t)cqe < o->owed ? EINVAL : 0);
        if (result == 0 && ((struct ibv_cq *)cq)->cqe < cqe)
            wrong("a completion queue is smaller than asked for");
    }
    if (o) {
        o->entries = ((struct ibv_cq *)cq)->cqe;
        o->may_overrun |= o->owed > (uint64_t)o->entries;
    }
}

static void create_srq(void)
{
    struct object *o = a_place(SRQ), *of = some(PD);
    if (!o || !of)
        return;
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 1 + random_below(40), .max_sge = random_below(5)}};
    if (one_in(6))
        init.attr.max_wr = (uint32_t)wild();
    if (one_in(6))
        init.attr.max_sge = (uint32_t)wild();
    bool right = init.attr.max_wr > 0 && init.attr.max_wr <= (uint32_t)device.max_srq_wr &&
                 init.attr.max_sge <= (uint32_t)device.max_srq_sge;
    void *pd = one_in(16) ? no_object(PD) : of->at;
    next_call("ibv_create_srq(%p, %u, %u)", pd, init.attr.max_wr, init.attr.max_sge);
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    if (expect_object(srq, right && find_object(PD, pd) ? 0 : EINVAL)) {
        comes_to_life(o, srq, of, NULL, NULL, NULL);
        o->max_wr = init.attr.max_wr;
        o->max_sge = init.attr.max_sge;
    }
}

static void modify_srq(void)
{
    struct object *o = some(SRQ);
    void *srq = one_in(8) ? no_object(SRQ) : o ? o->at : NULL;
    struct ibv_srq_attr attr = {.max_wr = one_in(3) ? (uint32_t)wild() : random_below(60),
                                .srq_limit = one_in(3) ? (uint32_t)wild() : random_below(20)}, before = {0},
                                    after = {0};
    int mask = one_in(6) ? (int)wild() : (int)random_below(4);
    o = find_object(SRQ, srq);
    if (o)
        ibv_query_srq(srq, &before);
    next_call("ibv_modify_srq(%p, max_wr %u, limit %u, %#x)", srq, attr.max_wr, attr.srq_limit, mask);
    int result = ibv_modify_srq(srq, &attr, mask);
    if (!o) {
        expect(result, ENOENT);
        return;
    }
    if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
        expect(result, EINVAL);
    expect_either(result, 0, EINVAL);
    expect(ibv_query_srq(srq, &after), 0);
    // Messages that arrive may use up an armed limit; nothing else changes by itself.
    if (result && (after.max_wr != before.max_wr || (after.srq_limit && after.srq_limit != before.srq_limit)))
        wrong("a refused ibv_modify_srq changed the queue");
    if (!result && mask & IBV_SRQ_MAX_WR && after.max_wr != attr.max_wr)
        wrong("ibv_modify_srq did not change the size");
    o->max_wr = after.max_wr;
}

static void create_qp(void)
{
    struct object *o = a_place(QP), *pd = some(PD), *send_cq = some(CQ), *recv_cq = some(CQ),
                  *srq = one_in(4) ? some(SRQ) : NULL;
    if (!o || !pd || !send_cq || !recv_cq)
        return;
    struct ibv_qp_init_attr_ex init = {
        .send_cq = send_cq->at, .recv_cq = recv_cq->at, .srq = srq ? srq->at : NULL, .pd = pd->at,
        .qp_type = one_in(12) ? (int)wild() : ONE_OF(IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD),
        .sq_sig_all = one_in(4) ? (int)random_below(3) : 0,
        .cap = {random_below(40), random_below(40), random_below(5), random_below(5), random_below(257)},
    };
    if (init.qp_type == IBV_QPT_XRC_SEND) // which this model does not know how to move
        init.qp_type = IBV_QPT_RAW_PACKET;
    uint32_t *caps[] = {&init.cap.max_send_wr, &init.cap.max_recv_wr, &init.cap.max_send_sge, &init.cap.max_recv_sge,
                        &init.cap.max_inline_data};
    if (one_in(5))
        *caps[random_below(5)] = (uint32_t)wild();
    if (one_in(24))
        init.send_cq = no_object(CQ);
    if (one_in(24))
        init.recv_cq = no_object(CQ);
    if (one_in(24))
        init.srq = no_object(SRQ);
    bool supported = init.qp_type == IBV_QPT_RC || init.qp_type == IBV_QPT_UC || init.qp_type == IBV_QPT_UD;
    bool lacking = init.qp_type == IBV_QPT_RAW_PACKET || init.qp_type == IBV_QPT_DRIVER;
    send_cq = find_object(CQ, init.send_cq);
    recv_cq = find_object(CQ, init.recv_cq);
    srq = find_object(SRQ, init.srq);
    struct ibv_context *context = context_of(pd);
    uint32_t wr = (uint32_t)device.max_qp_wr, sge = (uint32_t)device.max_sge;
    bool right = supported && send_cq && recv_cq && (srq || !init.srq) && context_of(send_cq) == context &&
                 context_of(recv_cq) == context && (!srq || context_of(srq) == context) && init.cap.max_send_wr <= wr &&
                 init.cap.max_send_sge <= sge && init.cap.max_inline_data <= 1024 &&
                 (srq || (init.cap.max_recv_wr <= wr && init.cap.max_recv_sge <= sge));
    bool builds = one_in(3);
    int due = lacking ? EOPNOTSUPP : right ? 0 : EINVAL;
    if (builds) {
        init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = operations_of(init.qp_type) & (one_in(3) ? random_word() : UINT64_MAX);
        if (one_in(8))
            init.send_ops_flags |= 1ull << random_below(64);
        if (one_in(12))
            init.comp_mask |= 1u << random_below(32);
        int extended = extended_is_due(&init);
        due = extended ? extended : due;
    }
    next_call("ibv_create_qp%s(type %d, wr %u %u, sge %u %u, inline %u, mask %#x, operations %#" PRIx64 ")",
              builds ? "_ex" : "", (int)init.qp_type, init.cap.max_send_wr, init.cap.max_recv_wr, init.cap.max_send_sge,
              init.cap.max_recv_sge, init.cap.max_inline_data, init.comp_mask, (uint64_t)init.send_ops_flags);
    struct ibv_qp_cap asked = init.cap;
    struct ibv_qp *qp = builds ? ibv_create_qp_ex(context, &init)
        : ibv_create_qp(pd->at, (struct ibv_qp_init_attr *)&init);
    if (!expect_object(qp, due)) {
        if (memcmp(&asked, &init.cap, sizeof asked) != 0)
            wrong("a refused ibv_create_qp wrote capabilities");
        return;
    }
    comes_to_life(o, qp, pd, send_cq, recv_cq, srq);
    o->type = init.qp_type;
    o->cap = init.cap;
    o->builds = builds;
    o->operations = init.send_ops_flags;
    // Receives that wait at the shared queue may all come to this one.
    recv_cq->owed += srq ? srq->posted : 0;
    recv_cq->may_overrun |= recv_cq->owed > (uint64_t)recv_cq->entries;
    if (init.cap.max_send_wr < asked.max_send_wr || (!srq && init.cap.max_recv_wr < asked.max_recv_wr) ||
        (ibv_qp_to_qp_ex(qp) != NULL) != builds)
        wrong("a queue pair is not what was asked for");
}

// ---- the end of objects ---------------------------------------------------------------------------------------------

static void acknowledge(struct object *o)
{
    if (o->events) {
        next_call("ibv_ack_cq_events(%p, %d)", o->at, o->events);
        ibv_ack_cq_events(o->at, (unsigned)o->events);
        o->events = 0;
    }
    while (o->async_events) {
        struct ibv_async_event event = {.element = {.cq = o->at}};
        event.event_type = o->kind == CQ ? IBV_EVENT_CQ_ERR : o->kind == QP ? IBV_EVENT_QP_FATAL : IBV_EVENT_SRQ_ERR;
        next_call("ibv_ack_async_event(%p)", o->at);
        ibv_ack_async_event(&event);
        o->async_events--;
    }
}

static int destroy_at(enum kind kind, void *at)
{
    next_call("destroy %s %p", kind_names[kind], at);
    switch (kind) {
    case CONTEXT: {
        int result = ibv_close_device(at);
        return result == -1 ? errno : result;
    }
    case PD:
        return ibv_dealloc_pd(at);
    case CHANNEL:
        return ibv_destroy_comp_channel(at);
    case CQ:
        return ibv_destroy_cq(at);
    case SRQ:
        return ibv_destroy_srq(at);
    case QP:
        return ibv_destroy_qp(at);
    case AH:
        return ibv_destroy_ah(at);
    case MR:
        return ibv_dereg_mr(at);
    case MW:
        return ibv_dealloc_mw(at);
    case DM:
        return ibv_free_dm(at);
    default:
        return -1;
    }
}

static void destroy_object(struct object *o)
{
    // Whoever destroys what has events nobody acknowledged waits for ever, says the page.
    acknowledge(o);
    int result = destroy_at(o->kind, o->at);
    // Windows bind and end when requests are carried out.
    int busy = o->kind == MR && o->maybe_bound ? EBUSY : 0;
    expect_either(result, o->users ? EBUSY : 0, o->users ? EBUSY : busy);
    if (result == 0) {
        if (o->kind == QP)
            forget_requests(o);
        is_gone(o);
    }
}

static void destroy_some(void)
{
    enum kind kind = 1 + random_below(KINDS - 1);
    struct object *o = some(kind);
    if (one_in(4)) {
        // Those that the header looks into before it calls the library are followed by the program itself.
        void *at = kind == MW || kind == DM ? a_gone(kind) : no_object(kind);
        if (at || (kind != MW && kind != DM))
            expect(destroy_at(kind, at), ENOENT);
    } else if (o && o->kind != PD && !(o->kind == MR && o->users)) {
        destroy_object(o);
    } else if (o && one_in(4)) {
        destroy_object(o);
    }
}

// ---- a sequence -----------------------------------------------------------------------------------------------------

static void destroy_all(void)
{
    static const enum kind order[] = {QP, SRQ, MW, MR, DM, AH, CQ, CHANNEL, PD, CONTEXT};
    // "Objects still open on it can no longer be used but may still be destroyed."
    if (one_in(8)) {
        struct object *o = some(CONTEXT);
        expect(destroy_at(CONTEXT, o->at), 0);
        is_gone(o);
        o->users = 0;
    }
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (int i = 0; i < PLACES; i++) {
            struct object *o = &objects[order[k]][i];
            if (!o->live)
                continue;
            o->maybe_bound = false;
            destroy_object(o);
            if (o->live)
                wrong("a %s is left", kind_names[o->kind]);
        }
}

// Memory with every right, in a domain that no queue pair is ever made in.
static struct ibv_pd *pd_apart;
static struct ibv_mr *mr_apart;

static void a_sequence(void)
{
    static const struct weighted_call calls[] = {
        {1, open_context}, {1, alloc_pd}, {2, create_channel}, {2, create_ah}, {6, reg_mr}, {2, alloc_dm}, {4, copy_dm},
        {2, reg_dm_mr}, {3, alloc_mw}, {3, create_cq}, {2, resize_cq}, {2, create_srq}, {2, modify_srq}, {6, create_qp},
        {8, destroy_some}, {12, modify_qp}, {20, connect_pair}, {40, post_send}, {12, post_recv}, {6, post_srq_recv},
        {10, build}, {6, bind_mw}, {24, poll_cq}, {4, req_notify}, {4, cq_event}, {4, async_event}, {6, query},
        {4, groups},
        {4, not_there},
    };
    map_memory();
    begin_objects();
    begin_requests();
    open_context();
    struct ibv_context *context = some(CONTEXT)->at;
    REQUIRE(ibv_query_device(context, &device) == 0);
    REQUIRE(pd_apart = ibv_alloc_pd(context));
    REQUIRE(mr_apart = ibv_reg_mr(pd_apart, apart_memory, APART, IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND));
    key_apart[0] = mr_apart->lkey;
    key_apart[1] = mr_apart->rkey;
    for (int i = 0; i < 2; i++) {
        alloc_pd();
        create_cq();
        reg_mr();
    }
    for (uint32_t left = 100 + random_below(300); left > 0; left--) {
        make_one_of(calls, sizeof calls / sizeof *calls);
        if (!some(CONTEXT))
            open_context();
    }
    check_memory();
    a_fresh_pair_works(context);
    expect(ibv_dereg_mr(mr_apart), 0);
    expect(ibv_dealloc_pd(pd_apart), 0);
    destroy_all();
    check_memory();
}

int main(int argc, char **argv)
{
    int status = run_sequences(argc, argv, a_sequence);
    printf("     completions:");
    for (int i = 0; i <= IBV_WC_GENERAL_ERR; i++)
        if (statuses[i])
            printf(" %s %" PRIu64 ",", ibv_wc_status_str(i), statuses[i]);
    printf("\n");
    return status;
}
