// Sequences of uDAPL calls as chance has them: every call with handles that are right, of another kind, freed or never
// were, and with right, nearly right and wild arguments, among many objects and connections within this process. Each
// answer is one that the call's page lists; what is no handle is refused by that name, what is in use is not freed, and
// what is not is; memory that nobody may write to keeps its bytes; at the end everything is closed and nothing is left.
//
// Usage: sequences SEQUENCES SEED

#define DESCRIPTORS_MORE 8
#define MAPPINGS_MORE 16

#include "../sequences.h"

#include <dat/udat.h>

#define PAGE 4096ul
#define OPEN (32 * PAGE)   // anything may happen to it
#define CLOSED (16 * PAGE) // registered for reading only
#define PATIENCE ((DAT_TIMEOUT)PATIENCE_MS * 1000)
#define PLACES 16
#define GONE 16

enum kind { EP, LMR, RMR, PZ, PSP, RSP, CR, CNO, EVD, SRQ, KINDS };
static const char *const NAMES[KINDS] = {"EP", "LMR", "RMR", "PZ", "PSP", "RSP", "CR", "CNO", "EVD", "SRQ"};

struct object {
    bool live;
    DAT_HANDLE at;
    int users;
    struct object *of[5];
    bool doubtful; // what uses it is not for calls alone to say
    uint32_t contexts[2];
    unsigned char *memory;
    size_t length;
};

static struct object objects[KINDS][PLACES];
static DAT_HANDLE gone[KINDS][GONE];
static unsigned gone_count[KINDS];
static unsigned char *open_memory, *closed_memory, *no_memory;

// What connections are made with, which no other call touches.
static struct {
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE async, receives, requests, connections, arrivals;
    DAT_PZ_HANDLE pz;
    DAT_PSP_HANDLE psp;
    DAT_CONN_QUAL service;
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT local;
    DAT_RMR_CONTEXT remote;
    DAT_IA_ADDRESS_PTR address;
} home;

// ---- objects -------------------------------------------------------------------------------------------------------

static struct object *find(enum kind kind, DAT_HANDLE at)
{
    for (int i = 0; i < PLACES; i++)
        if (objects[kind][i].live && objects[kind][i].at == at)
            return &objects[kind][i];
    return NULL;
}

static struct object *some(enum kind kind)
{
    uint32_t from = random_below(PLACES);
    for (int i = 0; i < PLACES; i++)
        if (objects[kind][(from + i) % PLACES].live)
            return &objects[kind][(from + i) % PLACES];
    return NULL;
}

static struct object *a_place(enum kind kind)
{
    for (int i = 0; i < PLACES; i++)
        if (!objects[kind][i].live) {
            objects[kind][i] = (struct object){0};
            return &objects[kind][i];
        }
    return NULL;
}

static void uses(struct object *o, int place, struct object *of)
{
    if (o->of[place])
        o->of[place]->users--;
    o->of[place] = of;
    if (of)
        of->users++;
}

static void is_gone(enum kind kind, struct object *o)
{
    gone[kind][gone_count[kind]++ % GONE] = o->at;
    for (int i = 0; i < 5; i++)
        uses(o, i, NULL);
    o->live = false;
}

// A handle for a call that wants one of this kind, and whether it is one.
static DAT_HANDLE handle(enum kind kind, bool *right)
{
    static uint64_t zeros[64];
    struct object *o = some(kind), *other = some(random_below(KINDS));
    DAT_HANDLE h = o ? o->at : NULL;
    if (!o || one_in(7))
        switch (random_below(7)) {
        case 0:
            h = NULL;
            break;
        case 1:
            h = (DAT_HANDLE)(uintptr_t)wild();
            break;
        case 2:
            h = zeros;
            break;
        case 3:
            h = no_memory;
            break;
        case 4:
            h = other ? other->at : home.ia;
            break;
        case 5:
            h = o ? (char *)o->at + 1 + random_below(15) : NULL; // further on is another one
            break;
        default:
            h = gone_count[kind] ? gone[kind][random_below(gone_count[kind] < GONE ? gone_count[kind] : GONE)] : NULL;
        }
    *right = find(kind, h) != NULL;
    return h;
}

// ---- answers -------------------------------------------------------------------------------------------------------

enum {
    H = 1, P = 2, S = 4, R = 8, EMPTY = 16, FULL = 32, TIMEOUT = 64, INTERRUPTED = 128, MODEL = 256, LENGTH = 512,
        ADDRESS = 1024,
    IN_USE = 2048, UNAVAILABLE = 4096, PRIVILEGES = 8192, PROTECTION = 16384,
};

static const DAT_RETURN types[] = {DAT_INVALID_HANDLE, DAT_INVALID_PARAMETER, DAT_INVALID_STATE,
                                   DAT_INSUFFICIENT_RESOURCES,
                                   DAT_QUEUE_EMPTY, DAT_QUEUE_FULL, DAT_TIMEOUT_EXPIRED, DAT_INTERRUPTED_CALL,
                                   DAT_MODEL_NOT_SUPPORTED, DAT_LENGTH_ERROR, DAT_INVALID_ADDRESS, DAT_CONN_QUAL_IN_USE,
                                   DAT_CONN_QUAL_UNAVAILABLE, DAT_PRIVILEGES_VIOLATION, DAT_PROTECTION_VIOLATION};

static const char *words(DAT_RETURN code)
{
    static char text[4][96];
    static int next;
    const char *major = "?", *minor = "";
    dat_strerror(code, &major, &minor);
    snprintf(text[next %= 4], sizeof *text, "0x%08x %s %s", code, major, minor);
    return text[next++];
}

// Whether the call succeeded. It may if `handles` are right, and else is refused for one of them or for what else its
// page lists; of what is no handle (`first`) nothing else is looked at.
static bool judged(DAT_RETURN code, bool first, bool handles, int listed)
{
    const char *call = last_call();
    calls_refused += code != DAT_SUCCESS;
    if (code == DAT_SUCCESS) {
        if (!first)
            wrong("it succeeded with what is no handle: %s", call);
        return true;
    }
    if (!first && DAT_GET_TYPE(code) != DAT_INVALID_HANDLE)
        wrong("it answered %s; an invalid handle is due: %s", words(code), call);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((listed | (first && handles ? 0 : H)) >> i & 1 && DAT_GET_TYPE(code) == types[i])
            return false;
    wrong("it answered %s, which its page does not say: %s", words(code), call);
}

// ---- what objects are made of --------------------------------------------------------------------------------------

static void create_pz(void)
{
    struct object *o = a_place(PZ);
    DAT_HANDLE made = NULL;
    if (!o)
        return;
    DAT_IA_HANDLE ia = one_in(10) ? no_memory : home.ia;
    next_call("dat_pz_create(%p)", ia);
    if (judged(dat_pz_create(ia, one_in(10) ? NULL : &made), ia == home.ia, true, P)) {
        o->live = true;
        o->at = made;
    }
}

static void create_cno(void)
{
    struct object *o = a_place(CNO);
    DAT_HANDLE made = NULL;
    if (!o)
        return;
    next_call("dat_cno_create");
    if (judged(dat_cno_create(home.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, one_in(10) ? NULL : &made), true, true, P | R)) {
        o->live = true;
        o->at = made;
    }
}

static void create_evd(void)
{
    struct object *o = a_place(EVD);
    DAT_HANDLE made = NULL;
    bool right = true;
    if (!o)
        return;
    DAT_HANDLE cno = one_in(2) ? handle(CNO, &right) : NULL;
    right |= cno == NULL;
    DAT_COUNT length = one_in(4) ? (DAT_COUNT)wild() : 1 + (DAT_COUNT)random_below(64);
    if (length > 4096)
        length = one_in(2) ? INT32_MAX : 4096;
    DAT_EVD_FLAGS flags = one_in(8) ? (DAT_EVD_FLAGS)wild()
        : (DAT_EVD_FLAGS)random_below(128) & ~(DAT_EVD_FLAGS)DAT_EVD_ASYNC_FLAG;
    next_call("dat_evd_create(%d, %p, %#x)", length, cno, flags);
    if (judged(dat_evd_create(home.ia, length, cno, flags, &made), true, right, P | R | S)) {
        if (length <= 0)
            wrong("a dispatcher of no length was made");
        o->live = true;
        o->at = made;
        uses(o, 0, find(CNO, cno));
    }
}

static void create_srq(void)
{
    struct object *o = a_place(SRQ);
    DAT_HANDLE made = NULL;
    bool right;
    if (!o)
        return;
    DAT_PZ_HANDLE pz = handle(PZ, &right);
    DAT_SRQ_ATTR attr = {.max_recv_dtos = one_in(4) ? (DAT_COUNT)wild() : (DAT_COUNT)random_below(40),
                         .max_recv_iov = one_in(4) ? (DAT_COUNT)wild() : (DAT_COUNT)random_below(5),
                         .low_watermark = one_in(2) ? DAT_SRQ_LW_DEFAULT : (DAT_COUNT)wild()};
    next_call("dat_srq_create(%p, %d, %d)", pz, attr.max_recv_dtos, attr.max_recv_iov);
    if (judged(dat_srq_create(home.ia, pz, &attr, &made), true, right, P | R | S | MODEL)) {
        if (!right)
            wrong("a queue was made in no zone");
        o->live = true;
        o->at = made;
        uses(o, 0, find(PZ, pz));
    }
}

static void create_lmr(void)
{
    struct object *o = a_place(LMR);
    bool right;
    if (!o)
        return;
    DAT_PZ_HANDLE pz = handle(PZ, &right);
    unsigned char *at = open_memory + random_below(OPEN - 1);
    size_t length = 1 + random_below((uint32_t)(open_memory + OPEN - at));
    DAT_MEM_PRIV_FLAGS rights = one_in(8) ? (DAT_MEM_PRIV_FLAGS)wild() : (DAT_MEM_PRIV_FLAGS)random_below(64);
    DAT_MEM_TYPE type = one_in(12) ? (DAT_MEM_TYPE)wild() : DAT_MEM_TYPE_VIRTUAL;
    bool possible = true;
    if (one_in(4)) {
        at = closed_memory + random_below(CLOSED - 1);
        length = 1 + random_below((uint32_t)(closed_memory + CLOSED - at));
        rights &= ~(DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    } else if (one_in(6)) {
        at = no_memory;
        possible = false;
    } else if (one_in(6)) {
        length = ONE_OF(0ul, SIZE_MAX, 1ul << 47, 1ul << 63);
        possible = false;
    }
    DAT_REGION_DESCRIPTION where = {.for_va = at};
    // What the other types point to would be read.
    if (type == DAT_MEM_TYPE_LMR || type == DAT_MEM_TYPE_SHARED_VIRTUAL)
        type = DAT_MEM_TYPE_VIRTUAL;
    DAT_LMR_HANDLE made = NULL;
    DAT_LMR_CONTEXT local = 0;
    DAT_RMR_CONTEXT remote = 0;
    DAT_VLEN size = 0;
    DAT_VADDR address = 0;
    next_call("dat_lmr_create(type %d, %p, %#zx, %p, %#x)", type, (void *)at, length, pz, rights);
    if (judged(dat_lmr_create(home.ia, type, where, length, pz, rights, &made, &local, &remote, &size, &address), true,
               right,
               P | R | S | MODEL)) {
        if (!possible || !right)
            wrong("memory was registered that is not there, or in no zone");
        o->live = true;
        o->at = made;
        o->contexts[0] = local;
        o->contexts[1] = remote;
        o->memory = at;
        o->length = length;
        uses(o, 0, find(PZ, pz));
    }
}

static void create_rmr(void)
{
    struct object *o = a_place(RMR);
    DAT_HANDLE made = NULL;
    bool right;
    if (!o)
        return;
    DAT_PZ_HANDLE pz = handle(PZ, &right);
    next_call("dat_rmr_create(%p)", pz);
    if (judged(dat_rmr_create(pz, &made), right, right, P | R)) {
        o->live = true;
        o->at = made;
        uses(o, 0, find(PZ, pz));
    }
}

// What an endpoint says that it is made of.
static void note_parts(struct object *o)
{
    DAT_EP_PARAM param;
    memset(&param, 0, sizeof param);
    DAT_RETURN code = dat_ep_query(o->at, DAT_EP_FIELD_ALL, &param);
    if (code != DAT_SUCCESS)
        wrong("an endpoint cannot be queried: %s", words(code));
    uses(o, 0, find(PZ, param.pz_handle));
    uses(o, 1, find(EVD, param.recv_evd_handle));
    uses(o, 2, find(EVD, param.request_evd_handle));
    uses(o, 3, find(EVD, param.connect_evd_handle));
    uses(o, 4, find(SRQ, param.srq_handle));
}

static void some_ep_attributes(DAT_EP_ATTR *attr)
{
    memset(attr, 0, sizeof *attr);
    attr->service_type = one_in(12) ? (DAT_SERVICE_TYPE)wild() : DAT_SERVICE_TYPE_RC;
    attr->max_mtu_size = one_in(8) ? wild() : 4096;
    attr->max_rdma_size = one_in(8) ? wild() : 4096;
    attr->max_recv_dtos = one_in(8) ? (DAT_COUNT)wild() : (DAT_COUNT)random_below(32);
    attr->max_request_dtos = one_in(8) ? (DAT_COUNT)wild() : (DAT_COUNT)random_below(32);
    attr->max_recv_iov = one_in(8) ? (DAT_COUNT)wild() : 1 + (DAT_COUNT)random_below(4);
    attr->max_request_iov = one_in(8) ? (DAT_COUNT)wild() : 1 + (DAT_COUNT)random_below(4);
    attr->max_rdma_read_in = attr->max_rdma_read_out = one_in(8) ? (DAT_COUNT)wild() : (DAT_COUNT)random_below(8);
    attr->qos = DAT_QOS_BEST_EFFORT;
}

static void create_ep(void)
{
    struct object *o = a_place(EP);
    bool right[5] = {true, true, true, true, true};
    DAT_EP_ATTR attr;
    DAT_EP_HANDLE made = NULL;
    if (!o)
        return;
    DAT_PZ_HANDLE pz = handle(PZ, &right[0]);
    DAT_EVD_HANDLE evd[3];
    for (int i = 0; i < 3; i++) {
        evd[i] = one_in(2) ? (i == 0 ? home.receives : i == 1 ? home.requests : home.connections)
            : handle(EVD, &right[i + 1]);
        right[i + 1] |= evd[i] == home.receives || evd[i] == home.requests || evd[i] == home.connections;
    }
    DAT_SRQ_HANDLE srq = one_in(4) ? handle(SRQ, &right[4]) : NULL;
    bool shared = srq != NULL || one_in(12);
    some_ep_attributes(&attr);
    bool all = right[0] && right[1] && right[2] && right[3] && (right[4] || !shared);
    next_call("dat_ep_create%s(%p, %p, %p, %p, %p)", shared ? "_with_srq" : "", pz, evd[0], evd[1], evd[2], srq);
    DAT_RETURN code = shared ? dat_ep_create_with_srq(home.ia, pz, evd[0], evd[1], evd[2], srq, &attr, &made)
                             : dat_ep_create(home.ia, pz, evd[0], evd[1], evd[2], one_in(3) ? NULL : &attr, &made);
    // No zone and no dispatcher may be right for what the endpoint is to do.
    if (judged(code, true, false, P | R | S | MODEL)) {
        bool none = !pz || !evd[0] || !evd[1] || !evd[2];
        if (!all && !none)
            wrong("an endpoint was made of what is no handle");
        o->live = true;
        o->at = made;
        o->doubtful = true;
        note_parts(o);
    }
}

static void create_service_point(void)
{
    bool reserved = one_in(3), right = true, ep_right = true;
    struct object *o = a_place(reserved ? RSP : PSP);
    DAT_HANDLE made = NULL;
    DAT_CONN_QUAL service = one_in(3) ? wild() : 40000 + random_below(8);
    if (!o)
        return;
    DAT_EVD_HANDLE evd = one_in(2) ? home.arrivals : handle(EVD, &right);
    right |= evd == home.arrivals;
    DAT_PSP_FLAGS flags = one_in(8) ? (DAT_PSP_FLAGS)wild() : one_in(4) ? DAT_PSP_PROVIDER_FLAG : DAT_PSP_CONSUMER_FLAG;
    DAT_RETURN code;
    if (reserved) {
        DAT_EP_HANDLE ep = handle(EP, &ep_right);
        next_call("dat_rsp_create(%#lx, %p, %p)", (unsigned long)service, ep, evd);
        code = dat_rsp_create(home.ia, service, ep, evd, &made);
    } else if (one_in(2)) {
        next_call("dat_psp_create(%#lx, %p, %#x)", (unsigned long)service, evd, flags);
        code = dat_psp_create(home.ia, service, evd, flags, &made);
    } else {
        next_call("dat_psp_create_any(%p, %#x)", evd, flags);
        code = dat_psp_create_any(home.ia, &service, evd, flags, &made);
    }
    // A dispatcher of other events is no such handle.
    if (judged(code, true, evd == home.arrivals && ep_right, P | R | S | IN_USE | UNAVAILABLE | MODEL)) {
        if (!right || !ep_right)
            wrong("a service point was made of what is no handle");
        o->live = true;
        o->at = made;
        uses(o, 0, find(EVD, evd));
    }
}

// ---- the end of objects --------------------------------------------------------------------------------------------

static DAT_RETURN free_at(enum kind kind, DAT_HANDLE h)
{
    static DAT_RETURN (*const calls[KINDS])(DAT_HANDLE) = {
        [EP] = dat_ep_free, [LMR] = dat_lmr_free, [RMR] = dat_rmr_free, [PZ] = dat_pz_free, [PSP] = dat_psp_free,
        [RSP] = dat_rsp_free, [CR] = dat_cr_reject, [CNO] = dat_cno_free, [EVD] = dat_evd_free, [SRQ] = dat_srq_free,
    };
    next_call("free %s %p", NAMES[kind], h);
    return calls[kind](h);
}

static void free_one(enum kind kind, DAT_HANDLE h)
{
    struct object *o = find(kind, h);
    bool free_now = o && o->users == 0 && !o->doubtful && kind != LMR && kind != CR;
    DAT_RETURN code = free_at(kind, h);
    // A request that waits may be over by itself.
    if (kind == CR && o && DAT_GET_TYPE(code) == DAT_INVALID_HANDLE) {
        is_gone(kind, o);
        return;
    }
    if (judged(code, o, true, free_now ? 0 : S)) {
        if (o->users && kind != EP && kind != PSP && kind != RSP)
            wrong("%s was freed though it is in use", NAMES[kind]);
        is_gone(kind, o);
    } else if (o && o->users == 0 && free_now) {
        wrong("%s was not freed: %s", NAMES[kind], words(code));
    }
}

static void free_some(void)
{
    enum kind kind = random_below(KINDS);
    bool right;
    if (kind != CR)
        free_one(kind, handle(kind, &right));
}

// ---- connections ---------------------------------------------------------------------------------------------------

static DAT_EP_HANDLE new_end(void)
{
    struct object *o = a_place(EP);
    DAT_EP_HANDLE made = NULL;
    if (!o)
        return NULL;
    next_call("dat_ep_create for a connection");
    if (!judged(dat_ep_create(home.ia, home.pz, home.receives, home.requests, home.connections, NULL, &made), true,
                true, 0))
        return NULL;
    o->live = true;
    o->at = made;
    o->doubtful = true;
    return made;
}

static void are_established(const DAT_EP_HANDLE *ends)
{
    DAT_EVENT event;
    DAT_COUNT more;
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    for (bool is[2] = {false, false}; !is[0] || !is[1];) {
        next_call("dat_evd_wait for a connection");
        DAT_RETURN code = dat_evd_wait(home.connections, PATIENCE, 1, &event, &more);
        if (code != DAT_SUCCESS || now_ns() > deadline)
            wrong("a connection that was accepted is not established: %s", words(code));
        next_call("  event %#x of %p", event.event_number, event.event_data.connect_event_data.ep_handle);
        for (int i = 0; i < 2; i++)
            is[i] |= event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED &&
                     event.event_data.connect_event_data.ep_handle == ends[i];
    }
}

static uint64_t joined;

static void join(void)
{
    DAT_EVENT event;
    DAT_COUNT more;
    DAT_EP_HANDLE ends[2] = {new_end(), new_end()};
    if (!ends[0] || !ends[1])
        return;
    next_call("dat_ep_connect(%p)", ends[0]);
    uint64_t sign = ++joined;
    judged(dat_ep_connect(ends[0], home.address, home.service, PATIENCE, sizeof sign, &sign, DAT_QOS_BEST_EFFORT,
                          DAT_CONNECT_DEFAULT_FLAG),
           true, true, 0);
    // Requests of other endpoints may wait, and such as were given up.
    DAT_CR_HANDLE cr = NULL;
    while (!cr) {
        next_call("dat_evd_wait for a request");
        if (dat_evd_wait(home.arrivals, PATIENCE, 1, &event, &more) != DAT_SUCCESS)
            wrong("a request for a connection does not come");
        if (event.event_number != DAT_CONNECTION_REQUEST_EVENT)
            continue;
        DAT_CR_HANDLE came = event.event_data.cr_arrival_event_data.cr_handle;
        DAT_CR_PARAM param;
        if (dat_cr_query(came, DAT_CR_FIELD_ALL, &param) == DAT_SUCCESS &&
            param.private_data_size >= (DAT_COUNT)sizeof sign &&
            memcmp(param.private_data, &sign, sizeof sign) == 0)
            cr = came;
        else
            dat_cr_reject(came);
    }
    struct object *kept = one_in(8) ? a_place(CR) : NULL;
    if (kept) { // for other calls
        kept->live = true;
        kept->at = cr;
        return;
    }
    next_call("dat_cr_accept(%p, %p)", cr, ends[1]);
    judged(dat_cr_accept(cr, ends[1], 0, NULL), true, true, 0);
    are_established(ends);
}

static void change_connection(void)
{
    bool right, cr_right;
    DAT_EP_HANDLE ep = handle(EP, &right), other = handle(EP, &cr_right);
    static unsigned char data[1024];
    DAT_COUNT size = one_in(4) ? (DAT_COUNT)wild() : (DAT_COUNT)random_below(300);
    // More than there may be is refused before it is looked at.
    DAT_PVOID bytes = one_in(12) ? NULL : data;
    DAT_CLOSE_FLAGS how = one_in(6) ? (DAT_CLOSE_FLAGS)wild() : (DAT_CLOSE_FLAGS)random_below(2);
    DAT_CONN_QUAL service = one_in(4) ? wild() : 40000 + random_below(8);
    DAT_TIMEOUT within = one_in(2) ? DAT_TIMEOUT_INFINITE : (DAT_TIMEOUT)random_below(1 << 20);
    struct object *cr;
    DAT_CR_HANDLE request;
    DAT_RETURN code;
    // An endpoint without a dispatcher for it is told so by that name.
    switch (random_below(7)) {
    case 0:
        next_call("dat_ep_connect(%p, %#lx, %d bytes)", ep, (unsigned long)service, size);
        judged(dat_ep_connect(ep, one_in(12) ? NULL : home.address, service, within, size, bytes,
                              one_in(8) ? (DAT_QOS)wild() : DAT_QOS_BEST_EFFORT,
                              one_in(8) ? (DAT_CONNECT_FLAGS)wild() : DAT_CONNECT_DEFAULT_FLAG),
               right, false, P | R | S | ADDRESS | MODEL);
        return;
    case 1:
        next_call("dat_ep_dup_connect(%p, %p, %d bytes)", ep, other, size);
        judged(dat_ep_dup_connect(ep, other, within, size, bytes, DAT_QOS_BEST_EFFORT), right, false,
               P | R | S | ADDRESS | MODEL);
        return;
    case 2:
        next_call("dat_ep_disconnect(%p, %#x)", ep, how);
        judged(dat_ep_disconnect(ep, how), right, right, P | S);
        return;
    case 3:
        next_call("dat_ep_reset(%p)", ep);
        judged(dat_ep_reset(ep), right, right, S);
        return;
    case 4:
        request = handle(CR, &cr_right);
        next_call("dat_cr_accept(%p, %p, %d bytes)", request, ep, size);
        code = dat_cr_accept(request, ep, size, bytes);
        break;
    case 5:
        request = handle(CR, &cr_right);
        next_call("dat_cr_handoff(%p, %#lx)", request, (unsigned long)service);
        code = dat_cr_handoff(request, service);
        break;
    default:
        request = handle(CR, &cr_right);
        next_call("dat_cr_reject(%p)", request);
        code = dat_cr_reject(request);
    }
    cr = find(CR, request);
    if (judged(code, cr_right, false, P | R | S) && cr)
        is_gone(CR, cr);
}

// ---- transfers -----------------------------------------------------------------------------------------------------

static DAT_LMR_TRIPLET some_segment(void)
{
    struct object *o = some(LMR);
    DAT_LMR_TRIPLET s = {.lmr_context = home.local, .virtual_address = (uintptr_t)open_memory + random_below(OPEN),
                         .segment_length = random_below(3000)};
    if (o && one_in(2)) {
        s.lmr_context = o->contexts[one_in(8)];
        s.virtual_address = (uintptr_t)o->memory + random_below((uint32_t)o->length);
    }
    if (one_in(10))
        s.lmr_context = (DAT_LMR_CONTEXT)wild();
    if (one_in(10))
        s.virtual_address = wild();
    if (one_in(10))
        s.segment_length = wild();
    return s;
}

static DAT_RMR_TRIPLET some_target(void)
{
    struct object *o = some(LMR);
    DAT_RMR_TRIPLET t = {.rmr_context = home.remote, .target_address = (uintptr_t)open_memory + random_below(OPEN),
                         .segment_length = random_below(3000)};
    if (o && one_in(2)) {
        t.rmr_context = o->contexts[!one_in(8)];
        t.target_address = (uintptr_t)o->memory + random_below((uint32_t)o->length);
    }
    if (one_in(10))
        t.rmr_context = (DAT_RMR_CONTEXT)wild();
    if (one_in(10))
        t.target_address = wild();
    if (one_in(10))
        t.segment_length = wild();
    return t;
}

static void post(void)
{
    bool right, rmr_right = true, srq_right;
    DAT_EP_HANDLE ep = handle(EP, &right);
    DAT_LMR_TRIPLET segments[8];
    for (int i = 0; i < 8; i++)
        segments[i] = some_segment();
    DAT_RMR_TRIPLET target = some_target();
    DAT_COUNT count = one_in(10) ? ONE_OF(-1, INT32_MIN, INT32_MAX, 1000) : (DAT_COUNT)random_below(6);
    DAT_LMR_TRIPLET *list = one_in(20) ? NULL : segments;
    DAT_COMPLETION_FLAGS flags = one_in(10) ? (DAT_COMPLETION_FLAGS)wild() : one_in(4)
        ? (DAT_COMPLETION_FLAGS)random_below(16) : 0;
    DAT_DTO_COOKIE cookie = {.as_64 = calls_made};
    DAT_RMR_CONTEXT context;
    DAT_RMR_HANDLE rmr;
    DAT_SRQ_HANDLE srq;
    switch (random_below(7)) {
    case 0:
    case 1:
        next_call("dat_ep_post_send(%p, %d, %#x)", ep, count, flags);
        judged(dat_ep_post_send(ep, count, list, cookie, flags), right, right, P | R | S | LENGTH);
        return;
    case 2:
        next_call("dat_ep_post_recv(%p, %d, %#x)", ep, count, flags);
        judged(dat_ep_post_recv(ep, count, list, cookie, flags), right, right, P | R | S | LENGTH);
        return;
    case 3:
        next_call("dat_ep_post_rdma_read(%p, %d, %#x)", ep, count, flags);
        judged(dat_ep_post_rdma_read(ep, count, list, cookie, one_in(20) ? NULL : &target, flags), right, right, P | R |
               S | LENGTH);
        return;
    case 4:
        next_call("dat_ep_post_rdma_write(%p, %d, %#x)", ep, count, flags);
        judged(dat_ep_post_rdma_write(ep, count, list, cookie, one_in(20) ? NULL : &target, flags), right, right, P |
               R | S | LENGTH);
        return;
    case 5:
        rmr = handle(RMR, &rmr_right);
        next_call("dat_rmr_bind(%p, %p, %#lx, %#lx)", rmr, ep, (unsigned long)segments[0].virtual_address,
                  (unsigned long)segments[0].segment_length);
        judged(dat_rmr_bind(rmr, one_in(20) ? NULL : segments,
                            (DAT_MEM_PRIV_FLAGS)(one_in(8) ? wild() : random_below(64)), ep,
                                (DAT_RMR_COOKIE){.as_64 = 3}, flags, one_in(4) ? NULL : &context),
               rmr_right, right && rmr_right, P | R | S | MODEL | PRIVILEGES | PROTECTION);
        return;
    default:
        srq = handle(SRQ, &srq_right);
        next_call("dat_srq_post_recv(%p, %d)", srq, count);
        judged(dat_srq_post_recv(srq, count, list, cookie), srq_right, srq_right, P | R | LENGTH);
    }
}

static void synchronize(void)
{
    DAT_LMR_TRIPLET segments[4];
    for (int i = 0; i < 4; i++)
        segments[i] = some_segment();
    // A list that is not there, and more of it than there is, is for the program to avoid.
    DAT_VLEN count = random_below(5);
    DAT_IA_HANDLE ia = one_in(10) ? (DAT_IA_HANDLE)open_memory : home.ia;
    bool reads = one_in(2);
    next_call("dat_lmr_sync_rdma_%s(%p, %lu)", reads ? "read" : "write", ia, (unsigned long)count);
    judged(reads ? dat_lmr_sync_rdma_read(ia, segments, count) : dat_lmr_sync_rdma_write(ia, segments, count),
           ia == home.ia, true, P);
}

// ---- events, and everything else -----------------------------------------------------------------------------------

static union {
    DAT_IA_ATTR ia;
    DAT_EP_PARAM ep;
    DAT_EVD_PARAM evd;
    DAT_CNO_PARAM cno;
    DAT_CR_PARAM cr;
    DAT_PSP_PARAM psp;
    DAT_RSP_PARAM rsp;
    DAT_PZ_PARAM pz;
    DAT_LMR_PARAM lmr;
    DAT_RMR_PARAM rmr;
    DAT_SRQ_PARAM srq;
    DAT_EVENT event;
    DAT_CONTEXT context;
    DAT_HANDLE_TYPE type;
    DAT_HANDLE handle;
    DAT_EP_STATE state;
    DAT_COUNT counts[2];
} out;

static void with_dispatcher(void)
{
    bool right, cno_right;
    DAT_EVD_HANDLE h = handle(EVD, &right);
    DAT_CNO_HANDLE cno = one_in(2) ? NULL : handle(CNO, &cno_right);
    struct object *o = find(EVD, h);
    DAT_COUNT number = one_in(3) ? (DAT_COUNT)wild() : 1 + (DAT_COUNT)random_below(32);
    if (number > 4096)
        number = INT32_MAX;
    DAT_EVENT event = {.event_number = one_in(6) ? (DAT_EVENT_NUMBER)wild() : DAT_SOFTWARE_EVENT};
    DAT_RETURN code;
    switch (random_below(9)) {
    case 0:
        next_call("dat_evd_enable(%p)", h);
        judged(dat_evd_enable(h), right, right, 0);
        return;
    case 1:
        next_call("dat_evd_disable(%p)", h);
        judged(dat_evd_disable(h), right, right, 0);
        return;
    case 2:
        next_call("dat_evd_wait(%p, 0, %d)", h, number);
        judged(dat_evd_wait(h, 0, number, one_in(16) ? NULL : &out.event, &out.counts[0]), right, right, P | S |
               TIMEOUT | INTERRUPTED);
        return;
    case 3:
        next_call("dat_evd_resize(%p, %d)", h, number);
        judged(dat_evd_resize(h, number), right, right, P | S | R);
        return;
    case 4:
        next_call("dat_evd_post_se(%p, %d)", h, event.event_number);
        judged(dat_evd_post_se(h, one_in(16) ? NULL : &event), right, right, P | FULL);
        return;
    case 5:
        next_call("dat_evd_dequeue(%p)", h);
        judged(dat_evd_dequeue(h, one_in(16) ? NULL : &out.event), right, right, P | S | EMPTY);
        return;
    case 6:
        next_call("dat_evd_set_unwaitable(%p)", h);
        judged(one_in(2) ? dat_evd_set_unwaitable(h) : dat_evd_clear_unwaitable(h), right, right, 0);
        return;
    case 7:
        next_call("dat_cno_wait(%p, 0)", cno);
        judged(dat_cno_wait(cno, 0, &out.handle), find(CNO, cno), true, P | S | EMPTY | INTERRUPTED);
        return;
    default:
        next_call("dat_evd_modify_cno(%p, %p)", h, cno);
        code = dat_evd_modify_cno(h, cno);
        if (judged(code, right, false, S)) {
            if (cno && !find(CNO, cno))
                wrong("a dispatcher tells what is no handle");
            uses(o, 0, find(CNO, cno));
        }
    }
}

static void ask(void)
{
    static const uint64_t masks[] = {0, 1, 3, 0xff, 0x3ff, 0xffff, 0xffffffff};
    enum kind kind = random_below(KINDS);
    bool right;
    DAT_HANDLE h = handle(kind, &right);
    uint64_t mask = masks[random_below(7)];
    DAT_RETURN code;
    void *place = one_in(10) ? NULL : &out;
    if (kind == EVD && !h)
        return;
    next_call("query of %s %p, %#lx, %p", NAMES[kind], h, (unsigned long)mask, place);
    switch (kind) {
    case EP:
        code = dat_ep_query(h, (DAT_EP_PARAM_MASK)mask, place);
        break;
    case LMR:
        code = dat_lmr_query(h, (DAT_LMR_PARAM_MASK)mask, place);
        break;
    case RMR:
        code = dat_rmr_query(h, (DAT_RMR_PARAM_MASK)mask, place);
        break;
    case PZ:
        code = dat_pz_query(h, (DAT_PZ_PARAM_MASK)mask, place);
        break;
    case PSP:
        code = dat_psp_query(h, (DAT_PSP_PARAM_MASK)mask, place);
        break;
    case RSP:
        code = dat_rsp_query(h, (DAT_RSP_PARAM_MASK)mask, place);
        break;
    case CR: {
        code = dat_cr_query(h, (DAT_CR_PARAM_MASK)mask, place);
        struct object *o = find(CR, h);
        if (o && DAT_GET_TYPE(code) == DAT_INVALID_HANDLE) { // it is over
            is_gone(CR, o);
            return;
        }
        break;
    }
    case CNO:
        code = dat_cno_query(h, (DAT_CNO_PARAM_MASK)mask, place);
        break;
    case EVD:
        code = dat_evd_query(h, (DAT_EVD_PARAM_MASK)mask, place);
        break;
    default:
        code = dat_srq_query(h, (DAT_SRQ_PARAM_MASK)mask, place);
    }
    judged(code, right, right, P);
    next_call("type and context of %s %p", NAMES[kind], h);
    bool any = h == home.ia;
    for (int k = 0; k < KINDS; k++)
        any |= find(k, h) != NULL;
    if (kind == CR)
        return;
    DAT_CONTEXT context = {.as_64 = random_word()};
    judged(dat_get_handle_type(h, &out.type), any, true, P);
    if (judged(dat_set_consumer_context(h, context), any, true, P) &&
        (judged(dat_get_consumer_context(h, &out.context), any, true, P), out.context.as_64 != context.as_64))
        wrong("an object has another context than it was given");
}

static void with_endpoint(void)
{
    bool right, srq_right;
    DAT_EP_HANDLE ep = handle(EP, &right);
    DAT_SRQ_HANDLE srq = handle(SRQ, &srq_right);
    DAT_COUNT a = one_in(3) ? (DAT_COUNT)wild() : (DAT_COUNT)random_below(32), b = one_in(3) ? (DAT_COUNT)wild()
        : (DAT_COUNT)random_below(32);
    DAT_EP_PARAM param;
    DAT_BOOLEAN idle[2];
    bool parts = true;
    struct object *o = find(EP, ep);
    switch (random_below(6)) {
    case 0:
        next_call("dat_ep_get_status(%p)", ep);
        judged(dat_ep_get_status(ep, &out.state, &idle[0], &idle[1]), right, right, P);
        return;
    case 1:
        next_call("dat_ep_recv_query(%p)", ep);
        judged(dat_ep_recv_query(ep, &out.counts[0], &out.counts[1]), right, right, S | P | MODEL);
        return;
    case 2:
        next_call("dat_ep_set_watermark(%p, %d, %d)", ep, a, b);
        judged(dat_ep_set_watermark(ep, a, b), right, right, S | P | MODEL);
        return;
    case 3:
        next_call("dat_srq_resize(%p, %d)", srq, a);
        judged(dat_srq_resize(srq, a), srq_right, srq_right, P | S | R);
        return;
    case 4:
        next_call("dat_srq_set_lw(%p, %d)", srq, a);
        judged(dat_srq_set_lw(srq, a), srq_right, srq_right, P | S);
        return;
    default:
        memset(&param, 0, sizeof param);
        some_ep_attributes(&param.ep_attr);
        param.pz_handle = handle(PZ, &parts);
        param.recv_evd_handle = handle(EVD, &parts);
        param.request_evd_handle = handle(EVD, &parts);
        param.connect_evd_handle = handle(EVD, &parts);
        uint64_t mask = one_in(8) ? wild() : 1ull << random_below(32) | (one_in(2) ? 1ull << random_below(32) : 0);
        next_call("dat_ep_modify(%p, %#lx)", ep, (unsigned long)mask);
        if (judged(dat_ep_modify(ep, (DAT_EP_PARAM_MASK)mask, one_in(20) ? NULL : &param), right, false, P | S | R |
                   MODEL))
            note_parts(o);
    }
}

// The events of connections that were made are taken, so that there is room for others.
static void drain(void)
{
    DAT_EVENT event;
    DAT_EVD_HANDLE list[] = {home.receives, home.requests, home.connections, home.async};
    next_call("events are taken");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        while (dat_evd_dequeue(list[i], &event) == DAT_SUCCESS)
            if (event.evd_handle != list[i])
                wrong("an event of another dispatcher");
}

// ---- a sequence ----------------------------------------------------------------------------------------------------

#define MUST(call)                                                                                                   \
    do {                                                                                                             \
        next_call("%s", #call);                                                                                      \
        judged((call), true, true, 0);                                                                               \
    } while (0)

static void check_memory(void)
{
    for (size_t i = 0; i < CLOSED; i++)
        if (closed_memory[i] != (unsigned char)(i * 31 ^ i >> 8))
            wrong("byte %zu of memory that nobody may write to has changed", i);
}

static void open_home(void)
{
    const char *name = getenv("DAT_TEST_ADAPTER");
    DAT_IA_ATTR attr;
    DAT_REGION_DESCRIPTION whole = {.for_va = open_memory};
    DAT_VLEN size;
    DAT_VADDR address;
    home.async = DAT_HANDLE_NULL;
    MUST(dat_ia_open((DAT_NAME_PTR)(name ? name : "nonic"), 64, &home.async, &home.ia));
    MUST(dat_pz_create(home.ia, &home.pz));
    MUST(dat_evd_create(home.ia, 256, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &home.receives));
    MUST(dat_evd_create(home.ia, 256, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &home.requests));
    MUST(dat_evd_create(home.ia, 256, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &home.connections));
    MUST(dat_evd_create(home.ia, 64, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &home.arrivals));
    MUST(dat_psp_create_any(home.ia, &home.service, home.arrivals, DAT_PSP_CONSUMER_FLAG, &home.psp));
    MUST(dat_lmr_create(home.ia, DAT_MEM_TYPE_VIRTUAL, whole, OPEN, home.pz, DAT_MEM_PRIV_ALL_FLAG, &home.lmr,
                        &home.local,
                        &home.remote, &size, &address));
    MUST(dat_ia_query(home.ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
    home.address = attr.ia_address_ptr;
}

static void close_home(void)
{
    static const enum kind order[] = {CR, PSP, RSP, EP, RMR, LMR, SRQ, PZ, EVD, CNO};
    bool all = !one_in(3), kept = false;
    for (size_t k = 0; all && k < sizeof order / sizeof *order; k++)
        for (int i = 0; i < PLACES; i++)
            if (objects[order[k]][i].live) {
                struct object *o = &objects[order[k]][i];
                free_one(order[k], o->at);
                // An endpoint stays that a request waits for, and what it is made of.
                kept |= o->live && order[k] == EP;
                if (o->live && order[k] != LMR && !kept)
                    wrong("%s is left", NAMES[order[k]]);
            }
    for (int k = 0; k < KINDS; k++) // with its adapter
        for (int i = 0; i < PLACES; i++)
            if (objects[k][i].live) {
                objects[k][i].users = 0;
                is_gone(k, &objects[k][i]);
            }
    MUST(dat_ia_close(home.ia, DAT_CLOSE_ABRUPT_FLAG));
    next_call("dat_ia_close again");
    judged(dat_ia_close(home.ia, DAT_CLOSE_ABRUPT_FLAG), false, true, 0);
    for (int k = 0; k < KINDS; k++)
        for (unsigned i = 0; k != CR && i < GONE && i < gone_count[k]; i++)
            judged(free_at(k, gone[k][i]), false, true, 0);
}

static void a_sequence(void)
{
    static const struct weighted_call calls[] = {
        {3, create_pz}, {2, create_cno}, {5, create_evd}, {2, create_srq}, {6, create_lmr}, {3, create_rmr},
            {5, create_ep},
        {3, create_service_point}, {10, free_some}, {4, join}, {8, change_connection}, {40, post}, {6, synchronize},
        {16, with_dispatcher}, {10, ask}, {8, with_endpoint}, {4, drain},
    };
    if (!open_memory) {
        open_memory = mmap(NULL, OPEN + CLOSED + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(open_memory != MAP_FAILED);
        closed_memory = open_memory + OPEN;
        no_memory = closed_memory + CLOSED;
        for (size_t i = 0; i < CLOSED; i++)
            closed_memory[i] = (unsigned char)(i * 31 ^ i >> 8);
        REQUIRE(mprotect(no_memory, PAGE, PROT_NONE) == 0);
    }
    memset(objects, 0, sizeof objects);
    memset(gone_count, 0, sizeof gone_count);
    open_home();
    for (uint32_t left = 100 + random_below(300); left > 0; left--)
        make_one_of(calls, sizeof calls / sizeof *calls);
    check_memory();
    close_home();
    check_memory();
}

int main(int argc, char **argv) { return run_sequences(argc, argv, a_sequence); }
