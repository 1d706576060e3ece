// Sequences of SCIF calls as chance has them: endpoints in every state, connected to each other in this process,
// numbers that are no endpoint, windows, mappings, copies, streams and fences with right, nearly right and wild
// arguments. A model says which answers are due: none but those. Bytes move where they should and nowhere else; at the
// end everything is closed and no descriptor or mapping is left.
//
// Usage: sequences SEQUENCES SEED

// Windows split what is mapped, page by page, and what is behind them ends a while later.
#define DESCRIPTORS_MORE 8
#define MAPPINGS_MORE 64

#include "../sequences.h"

#include <scif.h>

#define PAGE 4096l
#define ROOM_PAGES 24
#define ROOM (ROOM_PAGES * PAGE)
#define TOP 0x4000000000000000l
#define ENDPOINTS 24
#define WINDOWS 12
#define MAPPINGS 16
#define STREAM 4095

enum state { NONE, UNBOUND, BOUND, LISTENING, CONNECTING, CONNECTED, HUNG };

struct window {
    off_t offset;
    size_t pages;
    int prot;
    unsigned char *at;
};

struct endpoint {
    enum state state;
    int number, port;
    bool holds_port;
    bool uncollected;             // it was accepted, and has not asked
    struct endpoint *peer, *asks; // whom it is connected to; whose request waits at this listener
    int side;                     // whose room its windows are in
    struct window windows[WINDOWS];
    int window_count;
    bool parted;                  // windows ended: their offsets may be taken for a while
    unsigned char stream[STREAM]; // what waits to be received
    int waiting;
    int marks[8], mark_count;
};

static struct endpoint endpoints[ENDPOINTS];
static unsigned char *rooms[2], *copies[2]; // memory, and what must be in it
static unsigned char *reserve, *read_only, *no_memory;
static struct {
    unsigned char *at;
    size_t length;
} mappings[MAPPINGS];
static uint16_t own_node;
static int others[4]; // descriptors that are no endpoints

// ---- what is due ---------------------------------------------------------------------------------------------------

static int due[8], due_count;
static bool unsure; // success is right as well

static void begin(void) { due_count = 0, unsure = false; }

static void is_due(bool wrong_here, int error)
{
    if (wrong_here && due_count < 8)
        due[due_count++] = error;
}

// Whether the call succeeded, as it must if nothing is due, and must not if something is.
static bool judged(long long result)
{
    int error = errno;
    if (result != -1) {
        if (due_count && !unsure)
            wrong("it answered %lld; -1 with %s is due: %s", result, strerror(due[0]), last_call());
        return true;
    }
    calls_refused++;
    for (int i = 0; i < due_count; i++)
        if (due[i] == error)
            return false;
    wrong("it is refused with %s; %s is due: %s", strerror(error), due_count ? strerror(due[0]) : "success",
          last_call());
}

// ---- endpoints -----------------------------------------------------------------------------------------------------

static struct endpoint *some(enum state state)
{
    uint32_t from = random_below(ENDPOINTS);
    for (int i = 0; i < ENDPOINTS; i++) {
        struct endpoint *e = &endpoints[(from + i) % ENDPOINTS];
        if (e->state != NONE && (state == NONE || e->state == state))
            return e;
    }
    return NULL;
}

static struct endpoint *a_place(void)
{
    for (int i = 0; i < ENDPOINTS; i++)
        if (endpoints[i].state == NONE) {
            memset(&endpoints[i], 0, sizeof endpoints[i]);
            return &endpoints[i];
        }
    return NULL;
}

static int no_endpoint(void)
{
    switch (random_below(4)) {
    case 0:
        return (int)wild() | INT32_MIN;
    case 1:
        return 900 + (int)random_below(100); // nobody has so many
    case 2:
        return INT32_MAX - (int)random_below(4);
    default:
        return others[random_below(4)];
    }
}

// An endpoint, often one that may do what comes, or none. What is due if it is none.
static struct endpoint *chosen(enum state state, int *number)
{
    struct endpoint *e = one_in(3) ? some(NONE) : some(state);
    begin();
    if (!e || one_in(14)) {
        *number = no_endpoint();
        is_due(true, EINVAL);
        return NULL;
    }
    *number = e->number;
    return e;
}

static void needs_connection(const struct endpoint *e)
{
    is_due(e->state < CONNECTED, ENOTCONN);
    is_due(e->state == HUNG, ECONNRESET);
}

static void open_one(void)
{
    struct endpoint *e = a_place();
    if (!e)
        return;
    next_call("scif_open()");
    begin();
    int number = scif_open();
    if (judged(number)) {
        e->state = UNBOUND;
        e->number = number;
    }
}

static bool is_taken(int port)
{
    for (int i = 0; i < ENDPOINTS; i++)
        if (endpoints[i].state != NONE && endpoints[i].holds_port && endpoints[i].port == port)
            return true;
    return false;
}

static void bind_one(void)
{
    int number;
    struct endpoint *e = chosen(UNBOUND, &number);
    uint16_t port = one_in(3) ? 0 : one_in(4) ? (uint16_t)wild() : (uint16_t)(2000 + random_below(8));
    next_call("scif_bind(%d, %u)", number, port);
    is_due(port > 0 && port < SCIF_ADMIN_PORT_END && geteuid() != 0, EACCES);
    if (e) {
        is_due(e->state == BOUND || e->state == HUNG || (e->state == UNBOUND && is_taken(port)), EINVAL);
        is_due(e->state >= LISTENING, EISCONN);
    }
    int result = scif_bind(number, port);
    if (judged(result)) {
        if (port ? result != port : result <= SCIF_PORT_RSVD)
            wrong("it is bound to port %d", result);
        e->state = BOUND;
        e->port = result;
        e->holds_port = true;
    }
}

static void listen_on(void)
{
    int number, backlog = one_in(3) ? (int)wild() : 1 + (int)random_below(4);
    struct endpoint *e = chosen(BOUND, &number);
    next_call("scif_listen(%d, %d)", number, backlog);
    is_due(backlog <= 0, EINVAL);
    if (e) {
        is_due(e->state == UNBOUND || e->state == HUNG, EINVAL);
        is_due(e->state >= LISTENING, EISCONN);
    }
    if (judged(scif_listen(number, backlog)))
        e->state = LISTENING;
}

// To where nobody listens: the refusal leaves it bound.
static void connect_to_nobody(void)
{
    int number;
    struct endpoint *e = chosen(BOUND, &number);
    struct scif_portID there = {own_node, one_in(6) ? 0 : 60001};
    bool null = one_in(16);
    if (one_in(6))
        there.node = (uint16_t)(1000 + random_below(60000));
    if (e && (e->state == CONNECTING || e->uncollected))
        return;
    next_call("scif_connect(%d, %u:%u)", number, there.node, there.port);
    is_due(null || there.port == 0, EINVAL);
    is_due(!null && there.node >= 1000, ENODEV);
    if (e) {
        is_due(e->state == LISTENING, EOPNOTSUPP);
        is_due(e->state == CONNECTED, EISCONN);
        is_due(e->state == HUNG, EINVAL);
        is_due(e->state <= BOUND, ECONNREFUSED);
    }
    judged(scif_connect(number, null ? NULL : &there));
    if (e && e->state == UNBOUND && errno == ECONNREFUSED) {
        // It has taken a port now.
        begin();
        is_due(true, EINVAL);
        next_call("scif_bind(%d, 0) of one that was refused", number);
        judged(scif_bind(number, 0));
        e->state = BOUND;
        e->port = -1; // which one, nothing tells
    }
}

static void accept_at(void)
{
    int number, flags = one_in(6) ? (int)wild() : 0, end = -7;
    struct endpoint *e = chosen(LISTENING, &number), *new_end = a_place();
    struct scif_portID who = {7, 7}, *peer = one_in(12) ? NULL : one_in(12) ? (void *)no_memory : &who;
    int *result = one_in(12) ? NULL : one_in(12) ? (int *)read_only : &end;
    if (!new_end)
        return;
    if (flags == SCIF_ACCEPT_SYNC)
        flags = 0;
    next_call("scif_accept(%d, %p, %p, %#x)", number, (void *)peer, (void *)result, flags);
    is_due(flags != 0 || !peer || !result || (e && e->state != LISTENING), EINVAL);
    is_due(peer == (void *)no_memory || result == (int *)read_only, EFAULT);
    // A request has its way to go.
    is_due(e, EAGAIN);
    unsure = !due_count || (due_count == 1 && e && e->asks);
    struct endpoint *asking = e ? e->asks : NULL;
    if (!judged(scif_accept(number, peer, result, flags)))
        return;
    e->asks = NULL;
    *new_end = (struct endpoint){.state = CONNECTED, .number = end, .port = e->port, .peer = asking, .side = 1};
    asking->peer = new_end;
    asking->state = CONNECTED;
    asking->uncollected = true;
    if (who.node != own_node || end < 0)
        wrong("scif_accept stored node %u and endpoint %d", who.node, end);
}

// A connector that has been accepted learns it by asking again.
static void connect_again(struct endpoint *e, struct endpoint *listener)
{
    struct scif_portID there = {own_node, (uint16_t)listener->port};
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    for (;;) {
        next_call("scif_connect(%d, %u:%u) again", e->number, there.node, there.port);
        int port = scif_connect(e->number, &there);
        if (port > 0) {
            e->port = port;
            e->state = CONNECTED;
            return;
        }
        if (errno != EINPROGRESS || now_ns() > deadline)
            wrong("a connector that was accepted is told %s", strerror(errno));
        sched_yield();
    }
}

// Two more that are connected, by the way that waits for nothing.
static void join(void)
{
    struct endpoint *listener = some(LISTENING);
    open_one();
    struct endpoint *e = some(UNBOUND);
    if (!listener || !e || listener->asks || listener->port < 0 || !a_place())
        return;
    struct scif_portID there = {own_node, (uint16_t)listener->port}, who;
    int end = -1;
    REQUIRE(fcntl(e->number, F_SETFL, fcntl(e->number, F_GETFL) | O_NONBLOCK) == 0);
    next_call("scif_connect(%d, %u:%u)", e->number, there.node, there.port);
    begin();
    is_due(true, EINPROGRESS);
    judged(scif_connect(e->number, &there));
    e->state = CONNECTING;
    e->port = -1;
    if (one_in(8)) { // somebody else accepts it, or nobody does
        listener->asks = e;
        e->peer = NULL;
        return;
    }
    struct endpoint *other = a_place();
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    next_call("scif_accept(%d) of it", listener->number);
    while (scif_accept(listener->number, &who, &end, 0) != 0) {
        if (errno != EAGAIN || now_ns() > deadline)
            wrong("a request that waits is not accepted: %s", strerror(errno));
        sched_yield();
    }
    *other = (struct endpoint){.state = CONNECTED, .number = end, .port = listener->port, .peer = e, .side = 1};
    e->peer = other;
    connect_again(e, listener);
    REQUIRE(fcntl(e->number, F_SETFL, fcntl(e->number, F_GETFL) & ~O_NONBLOCK) == 0);
}

static void close_endpoint(struct endpoint *e)
{
    next_call("close %d in state %d", e->number, e->state);
    begin();
    // Of those that connect by themselves the library has more, and notices a close(2) later.
    judged(e->state == CONNECTED && e->side && one_in(3) ? close(e->number) : scif_close(e->number));
    if (e->peer) {
        struct endpoint *peer = e->peer;
        peer->peer = NULL;
        peer->window_count = 0;
        peer->state = peer->state == CONNECTING ? CONNECTING : HUNG;
    }
    if (e->asks) { // is refused, and may try again
        e->asks->state = BOUND;
        e->asks->uncollected = true;
    }
    e->state = NONE;
    for (int i = 0; i < ENDPOINTS; i++)
        // it waits no more, but takes a place until somebody looks
        if (endpoints[i].state == LISTENING && endpoints[i].asks == e) {
            struct scif_portID who;
            int end;
            endpoints[i].asks = NULL;
            begin();
            is_due(true, EAGAIN);
            next_call("scif_accept(%d) of a request that was given up", endpoints[i].number);
            judged(scif_accept(endpoints[i].number, &who, &end, 0));
        }
}

// What is undecided is over before anything else is asked of it.
static void close_one(void)
{
    struct endpoint *e = one_in(2) ? some(CONNECTING) : some(NONE);
    int number = no_endpoint();
    if (e) {
        close_endpoint(e);
        // The number is none now, unless it is given anew.
        begin();
        is_due(true, EINVAL);
        next_call("scif_bind(%d, 0) of a closed one", e->number);
        judged(scif_bind(e->number, 0));
    }
    for (int i = 0; i < 4; i++)
        if (number == others[i])
            return;
    begin();
    is_due(true, EINVAL);
    next_call("scif_close(%d)", number);
    judged(scif_close(number));
}

// ---- the byte stream -----------------------------------------------------------------------------------------------

static void transfer_stream(void)
{
    static unsigned char bytes[8192];
    int number, length = one_in(4) ? (int)wild() : (int)random_below(600), flags = one_in(8) ? (int)wild() : 0;
    struct endpoint *e = chosen(CONNECTED, &number);
    bool sends = one_in(2), elsewhere = one_in(12);
    if (length > (int)sizeof bytes)
        length = (int)sizeof bytes;
    int room = !e ? 0 : sends ? (e->peer ? STREAM - e->peer->waiting : 0) : e->waiting;
    bool waits = flags & 1;
    // Nobody else would end a call that waits.
    if (waits && length > room && e && e->state == CONNECTED)
        flags = 0, waits = false;
    void *at = elsewhere ? no_memory : bytes;
    for (int i = 0; sends && i < length; i++)
        bytes[i] = (unsigned char)(random_state + (uint64_t)i);
    next_call("scif_%s(%d, %p, %d, %#x), %d fit", sends ? "send" : "recv", number, at, length, flags, room);
    is_due(length < 0 || (length > 0 && flags && !(flags & 1)), EINVAL);
    if (e && length > 0) {
        is_due(e->state < CONNECTED, ENOTCONN);
        is_due(e->state == HUNG && (sends || !e->waiting), ECONNRESET);
        is_due(elsewhere, EFAULT);
        unsure = elsewhere && due_count == 1 && room == 0;
        // Whoever waits for more than is left is told that nothing more comes.
        if (e->state == HUNG && !sends && length > e->waiting && !due_count)
            is_due(waits && e->waiting == 0, ECONNRESET);
    }
    int result = sends ? scif_send(number, at, length, flags) : scif_recv(number, at, length, flags);
    if (!judged(result))
        return;
    int want = length < room ? length : room;
    if (result != want)
        wrong("it answered %d bytes; %d are due: %s", result, want, last_call());
    if (sends && result > 0) {
        memcpy(e->peer->stream + e->peer->waiting, bytes, (size_t)result);
        e->peer->waiting += result;
    } else if (result > 0) {
        if (memcmp(bytes, e->stream, (size_t)result) != 0)
            wrong("other bytes came than were sent");
        e->waiting -= result;
        memmove(e->stream, e->stream + result, (size_t)e->waiting);
    }
}

// ---- windows -------------------------------------------------------------------------------------------------------

static bool overlaps(const struct endpoint *e, off_t offset, size_t length)
{
    for (int i = 0; i < e->window_count; i++)
        if (offset < e->windows[i].offset + (off_t)e->windows[i].pages * PAGE &&
            e->windows[i].offset < offset + (off_t)length)
            return true;
    return false;
}

static off_t some_offset(const struct endpoint *e)
{
    if (e && e->window_count && !one_in(4))
        return e->windows[random_below((uint32_t)e->window_count)].offset + (one_in(3) ? 0
                                                                             : (off_t)random_below(3) * PAGE);
    return one_in(3) ? (off_t)wild() : (off_t)random_below(40) * PAGE;
}

static void register_one(void)
{
    int number, prot = one_in(8) ? (int)wild() : 1 + (int)random_below(3), flags = one_in(2) ? SCIF_MAP_FIXED : 0;
    struct endpoint *e = chosen(CONNECTED, &number);
    size_t pages = 1 + random_below(4), page = random_below(ROOM_PAGES - 4), length = pages * PAGE;
    unsigned char *at = rooms[e ? e->side : 0] + page * PAGE;
    off_t offset = one_in(4) ? (off_t)wild() : (off_t)random_below(40) * PAGE;
    if (e && e->window_count == WINDOWS)
        return;
    if (one_in(16))
        flags |= 1 << random_below(31);
    if (one_in(16))
        at += 1 + random_below(4095);
    if (one_in(16))
        length = one_in(2) ? length - 1 : 0;
    bool elsewhere = false, sealed = false, huge = false;
    if (one_in(16))
        at = no_memory, elsewhere = true, length = PAGE;
    else if (one_in(16))
        at = read_only, sealed = true, length = PAGE;
    else if (one_in(16))
        length = ONE_OF(1ul << 32, 1ul << 47, 1ul << 62, -4096ul), huge = true;
    pages = length / PAGE;
    bool fixed = flags & SCIF_MAP_FIXED;
    next_call("scif_register(%d, %p, %#zx, %#lx, %#x, %#x)", number, (void *)at, length, (long)offset, prot, flags);
    is_due(flags & ~SCIF_MAP_FIXED || !prot || prot & ~3 || (uintptr_t)at % PAGE || length % PAGE || length == 0 ||
           offset < 0 ||
               offset % PAGE, EINVAL);
    if (e) {
        needs_connection(e);
        is_due(fixed && e->window_count && overlaps(e, offset, length), EADDRINUSE);
        is_due(fixed && (offset >= TOP || length > (size_t)TOP || offset + (off_t)length > TOP), EADDRINUSE);
        is_due(elsewhere || (sealed && prot & SCIF_PROT_WRITE), EFAULT);
        is_due(huge, EFAULT);
        is_due(huge, ENOMEM);
        unsure = !fixed && offset % PAGE && due_count == 1 && offset > 0;
        if (fixed && e->parted) { // the old one may have to go first
            unsure = unsure || !due_count;
            is_due(true, EADDRINUSE);
        }
    }
    off_t result = scif_register(number, at, length, offset, prot, flags);
    if (!judged(result))
        return;
    if ((fixed && result != offset) || result < 0 || result % PAGE || overlaps(e, result, length))
        wrong("the window is at %#lx", (long)result);
    e->windows[e->window_count++] = (struct window){result, pages, prot, at};
    if (at == read_only) // its bytes are nobody's business here
        e->windows[e->window_count - 1].at = NULL;
}

static void unregister_some(void)
{
    int number;
    struct endpoint *e = chosen(CONNECTED, &number);
    off_t offset = some_offset(e);
    size_t length = one_in(6) ? (size_t)wild() : (size_t)random_below(6) * PAGE;
    if (e && e->window_count && one_in(3)) {
        struct window *w = &e->windows[random_below((uint32_t)e->window_count)];
        offset = w->offset;
        length = w->pages * PAGE;
    }
    next_call("scif_unregister(%d, %#lx, %#zx)", number, (long)offset, length);
    bool odd = offset < 0 || offset % PAGE || length % PAGE || length == 0, any = false, part = false;
    bool wraps = length > (size_t)INT64_MAX - (size_t)(offset < 0 ? 0 : offset);
    is_due(odd || wraps, EINVAL);
    is_due(wraps, ENXIO);
    off_t end = wraps || offset < 0 ? INT64_MAX : offset + (off_t)length;
    for (int i = 0; e && i < e->window_count; i++) {
        off_t first = e->windows[i].offset, last = first + (off_t)e->windows[i].pages * PAGE;
        bool inside = first >= offset && last <= end, touched = first < end && offset < last;
        any |= inside;
        part |= touched && !inside;
    }
    unsure = wraps && any && !part && !odd;
    if (e) {
        needs_connection(e);
        is_due(part, EINVAL);
        is_due(!part && !any, ENXIO);
    }
    if (!judged(scif_unregister(number, offset, length)))
        return;
    e->parted = true;
    for (int i = e->window_count - 1; i >= 0; i--) {
        off_t first = e->windows[i].offset, last = first + (off_t)e->windows[i].pages * PAGE;
        if (first >= offset && last <= end)
            e->windows[i] = e->windows[--e->window_count];
    }
}

static const struct window *window_at(const struct endpoint *e, off_t offset)
{
    for (int i = 0; i < e->window_count; i++)
        if (offset >= e->windows[i].offset && offset < e->windows[i].offset + (off_t)e->windows[i].pages * PAGE)
            return &e->windows[i];
    return NULL;
}

// What is due for bytes of an endpoint's windows. Their addresses, byte by byte, if there are any.
static void range_is_due(const struct endpoint *e, off_t offset, size_t length, int prot, unsigned char **addresses)
{
    if (offset < 0 || length > 65536) {
        is_due(true, ENXIO);
        is_due(true, EACCES);
        return;
    }
    bool absent = false, denied = false;
    for (size_t i = 0; i < length; i++) {
        const struct window *w = window_at(e, offset + (off_t)i);
        absent |= !w;
        denied |= w && (w->prot & prot) != prot;
        if (addresses)
            addresses[i] = w && w->at ? w->at + (offset + (off_t)i - w->offset) : NULL;
    }
    is_due(absent, ENXIO);
    is_due(denied, EACCES);
}

static size_t some_size(void) { return one_in(8) ? (size_t)wild() : one_in(3) ? random_below(9000)
                               : random_below(200); }

// The same bytes go where the library's should have gone. What goes over itself is as it turned out.
static void follow(unsigned char **from, unsigned char **to, size_t length)
{
    static unsigned char bytes[65536];
    bool twice = false;
    for (size_t i = 0; i < length; i++)
        for (int side = 0; side < 2; side++)
            if (from[i] >= rooms[side] && from[i] < rooms[side] + ROOM)
                bytes[i] = copies[side][from[i] - rooms[side]];
            else if (!from[i] || from[i] == read_only)
                twice = true;
    for (size_t i = PAGE; i < length && !twice; i++)
        for (size_t back = PAGE - PAGE % (size_t)PAGE; back <= i && !twice; back += PAGE)
            twice = back && to[i] == to[i - back];
    for (size_t i = 0; i < length; i++)
        for (int side = 0; side < 2; side++)
            if (to[i] >= rooms[side] && to[i] < rooms[side] + ROOM)
                copies[side][to[i] - rooms[side]] = twice ? *to[i] : bytes[i];
}

static void fence(struct endpoint *e)
{
    int mark;
    next_call("scif_fence_mark(%d) and scif_fence_wait", e->number);
    begin();
    if (judged(scif_fence_mark(e->number, SCIF_FENCE_INIT_SELF, &mark)))
        judged(scif_fence_wait(e->number, mark));
}

static void copy_bytes(void)
{
    static unsigned char *near[65536 + 1], *far[65536 + 1];
    int number, flags = one_in(8) ? (int)wild() : (int)random_below(16);
    struct endpoint *e = chosen(CONNECTED, &number);
    bool out = one_in(2), virtually = one_in(2);
    size_t length = some_size();
    off_t there = some_offset(e ? e->peer : NULL) + (one_in(2) ? (off_t)random_below(4096) : 0);
    off_t here = some_offset(e) + (one_in(2) ? (off_t)random_below(4096) : 0);
    unsigned char *at = rooms[e ? e->side : 0] + random_below(ROOM - 9000);
    bool elsewhere = virtually && one_in(12), sealed = !elsewhere && virtually && one_in(12);
    if (elsewhere)
        at = no_memory + random_below(PAGE);
    if (sealed)
        at = read_only;
    if (sealed && length > (size_t)PAGE)
        length = PAGE;
    if (virtually && length > 9000 && length < 1ul << 32)
        length = 9000;
    bool long_one = length > 9000;
    next_call("scif_%s%s(%d, %p or %#lx, %#zx, %#lx, %#x)", virtually ? "v" : "", out ? "writeto" : "readfrom", number,
              (void *)at,
              (long)here, length, (long)there, flags);
    is_due(flags & ~15 || length == 0, EINVAL);
    if (e) {
        needs_connection(e);
        if (e->state == CONNECTED) {
            range_is_due(e->peer, there, length, out ? SCIF_PROT_WRITE : SCIF_PROT_READ, far);
            if (!virtually)
                range_is_due(e, here, length, out ? SCIF_PROT_READ : SCIF_PROT_WRITE, near);
        }
        is_due(elsewhere || (sealed && !out) || (virtually && long_one), EFAULT);
    }
    int result = virtually ? (out ? scif_vwriteto : scif_vreadfrom)(number, at, length, there, flags)
                           : (out ? scif_writeto : scif_readfrom)(number, here, length, there, flags);
    if (!judged(result))
        return;
    if (!(flags & (SCIF_RMA_SYNC | SCIF_RMA_USECPU)))
        fence(e);
    for (size_t i = 0; virtually && i < length; i++)
        near[i] = sealed ? read_only : at + i;
    follow(out ? near : far, out ? far : near, length);
}

// ---- mappings ------------------------------------------------------------------------------------------------------

#define RESERVE (16 * PAGE)

static void reserve_again(void *at, size_t length)
{
    REQUIRE(mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == at);
}

static void map_one(void)
{
    int number, prot = one_in(8) ? (int)wild() : 1 + (int)random_below(3), flags = 0, place = -1;
    struct endpoint *e = chosen(CONNECTED, &number);
    off_t there = some_offset(e ? e->peer : NULL);
    size_t length = one_in(8) ? (size_t)wild() : (1 + random_below(3)) * PAGE;
    unsigned char *at = one_in(2) ? NULL : (unsigned char *)(wild() >> 17);
    for (int i = 0; i < MAPPINGS; i++)
        if (!mappings[i].at)
            place = i;
    if (place < 0)
        return;
    if (one_in(3)) {
        flags = SCIF_MAP_FIXED;
        at = reserve + random_below(8) * PAGE + (one_in(8) ? 17 : 0);
        for (int i = 0; i < MAPPINGS; i++) // one at a time there
            if (mappings[i].at >= reserve && mappings[i].at < reserve + RESERVE)
                return;
    }
    if (one_in(16))
        flags |= 1 << random_below(31);
    if (flags & SCIF_MAP_FIXED && !(at >= reserve && at < reserve + RESERVE))
        flags &= ~SCIF_MAP_FIXED;
    next_call("scif_mmap(%p, %#zx, %#x, %#x, %d, %#lx)", (void *)at, length, prot, flags, number, (long)there);
    is_due(flags & ~SCIF_MAP_FIXED || !prot || prot & ~3 || length == 0 || length % PAGE || there % PAGE ||
               (flags & SCIF_MAP_FIXED && (uintptr_t)at % PAGE), EINVAL);
    is_due(there < 0, EINVAL);
    if (e) {
        needs_connection(e);
        if (e->state == CONNECTED)
            range_is_due(e->peer, there, length, prot & 3, NULL);
    }
    is_due(length > 65536, ENOMEM);
    // A window on read-only memory of nobody's file cannot be mapped by everybody.
    const struct window *w = e && e->state == CONNECTED && there >= 0 ? window_at(e->peer, there) : NULL;
    if (!due_count && w) {
        for (size_t i = 0; i < length; i += PAGE)
            if (!window_at(e->peer, there + (off_t)i)->at)
                is_due(unsure = true, ENOMEM);
    }
    unsigned char *got = scif_mmap(at, length, prot, flags, number, there);
    if (!judged((intptr_t)got))
        return;
    if (flags & SCIF_MAP_FIXED && got != at)
        wrong("a fixed mapping is at %p", (void *)got);
    if (prot & SCIF_PROT_READ && w->at && memcmp(got, w->at + (there - w->offset), 64) != 0)
        wrong("a mapping shows other bytes than the window's");
    mappings[place].at = got;
    mappings[place].length = length;
}

static void unmap(int i)
{
    next_call("munmap(%p, %#zx)", (void *)mappings[i].at, mappings[i].length);
    begin();
    judged(one_in(3) ? munmap(mappings[i].at, mappings[i].length) : scif_munmap(mappings[i].at, mappings[i].length));
    if (mappings[i].at >= reserve && mappings[i].at < reserve + RESERVE)
        reserve_again(mappings[i].at, mappings[i].length);
    mappings[i].at = NULL;
}

static void unmap_one(void)
{
    int i = (int)random_below(MAPPINGS);
    if (mappings[i].at)
        unmap(i);
    begin();
    is_due(true, EINVAL);
    void *at = reserve + (one_in(2) ? 1 : 0);
    size_t length = (uintptr_t)at % PAGE ? wild() : one_in(2) ? 0 : SIZE_MAX - random_below(4096);
    next_call("scif_munmap(%p, %#zx)", at, length);
    judged(scif_munmap(at, length));
}

// ---- fences --------------------------------------------------------------------------------------------------------

static void mark_or_wait(void)
{
    int number, flags = one_in(4) ? (int)wild() : 1 + (int)random_below(2), mark = -7;
    struct endpoint *e = chosen(CONNECTED, &number);
    if (one_in(2)) {
        int *at = one_in(10) ? NULL : one_in(10) ? (int *)no_memory : one_in(10) ? (int *)read_only : &mark;
        next_call("scif_fence_mark(%d, %#x, %p)", number, flags, (void *)at);
        is_due(flags != 1 && flags != 2, EINVAL);
        if (e)
            needs_connection(e);
        is_due(at != &mark, EFAULT);
        if (judged(scif_fence_mark(number, flags, at)))
            e->marks[e->mark_count++ % 8] = mark;
        return;
    }
    bool known = e && e->mark_count && !one_in(3);
    mark = known ? e->marks[random_below(e->mark_count < 8 ? (uint32_t)e->mark_count : 8)] : (int)wild();
    next_call("scif_fence_wait(%d, %d)", number, mark);
    if (e)
        needs_connection(e);
    if (!known && e && !due_count)
        unsure = true;
    is_due(!known, EINVAL);
    judged(scif_fence_wait(number, mark));
}

static void signal_one(void)
{
    static unsigned char *near[8], *far[8];
    int number, flags = one_in(6) ? (int)wild() : (int)(1 + random_below(2)) | (int)(1 + random_below(3)) << 4;
    struct endpoint *e = chosen(CONNECTED, &number);
    off_t here = some_offset(e) + (off_t)random_below(1024) * 4,
        there = some_offset(e ? e->peer : NULL) + (off_t)random_below(1024) * 4;
    uint64_t words[2] = {random_word(), random_word()};
    if (one_in(8))
        here += 1 + random_below(3);
    if (one_in(8))
        there += 1 + random_below(3);
    bool local = flags & SCIF_SIGNAL_LOCAL, remote = flags & SCIF_SIGNAL_REMOTE;
    int initiator = flags & ~(SCIF_SIGNAL_LOCAL | SCIF_SIGNAL_REMOTE);
    next_call("scif_fence_signal(%d, %#lx, %#lx, %#x)", number, (long)here, (long)there, flags);
    is_due((initiator != 1 && initiator != 2) || (!local && !remote) || (local && here % 4) || (remote && there % 4),
           EINVAL);
    if (e) {
        needs_connection(e);
        if (e->state == CONNECTED && local)
            range_is_due(e, here, 8, SCIF_PROT_WRITE, near);
        if (e->state == CONNECTED && remote)
            range_is_due(e->peer, there, 8, SCIF_PROT_WRITE, far);
        is_due(local && here >= 0 && window_at(e, here) != window_at(e, here + 7), ENXIO);
        is_due(remote && e->peer && there >= 0 && window_at(e->peer, there) != window_at(e->peer, there + 7), ENXIO);
    }
    if (!judged(scif_fence_signal(number, here, words[0], there, words[1], flags)))
        return;
    fence(e);
    for (int i = 0; i < 8; i++)
        for (int side = 0; side < 2; side++) {
            if (local && near[i] >= rooms[side] && near[i] < rooms[side] + ROOM)
                copies[side][near[i] - rooms[side]] = ((unsigned char *)&words[0])[i];
            if (remote && far[i] >= rooms[side] && far[i] < rooms[side] + ROOM)
                copies[side][far[i] - rooms[side]] = ((unsigned char *)&words[1])[i];
        }
}

// ---- questions -----------------------------------------------------------------------------------------------------

static void poll_some(void)
{
    struct scif_pollepd list[8];
    struct endpoint *of[8];
    unsigned count = random_below(8);
    for (unsigned i = 0; i < 8; i++) {
        of[i] = one_in(8) ? NULL : some(NONE);
        list[i] = (struct scif_pollepd){of[i] ? of[i]->number : one_in(2) ? -1 : 950, SCIF_POLLIN | SCIF_POLLOUT, 0x55};
    }
    void *at = one_in(10) ? (void *)no_memory : list;
    if (one_in(12))
        count = ONE_OF(UINT32_MAX, 1u << 31, 1u << 30);
    next_call("scif_poll(%p, %u, 0)", at, count);
    begin();
    is_due(count > 8, EINVAL);
    is_due(at != list && count > 0, EFAULT);
    int result = scif_poll(at, count, 0), set = 0;
    if (!judged(result))
        return;
    for (unsigned i = 0; i < count; i++) {
        int events = list[i].revents, want = 0, mask = SCIF_POLLIN | SCIF_POLLOUT | SCIF_POLLERR | SCIF_POLLHUP |
            SCIF_POLLNVAL;
        set += events != 0;
        if (!of[i]) {
            want = list[i].epd < 0 ? 0 : SCIF_POLLNVAL;
        } else if (of[i]->uncollected) {
            continue;
        } else if (of[i]->state <= BOUND) {
            want = SCIF_POLLERR;
        } else if (of[i]->state == CONNECTED) {
            want = (of[i]->waiting ? SCIF_POLLIN : 0) | (of[i]->peer->waiting < STREAM ? SCIF_POLLOUT : 0);
        } else if (of[i]->state == HUNG) {
            want = SCIF_POLLHUP | (of[i]->waiting ? SCIF_POLLIN : 0);
            mask = SCIF_POLLHUP | SCIF_POLLIN | SCIF_POLLNVAL;
        } else {
            continue; // that a request waits is for others to say
        }
        if ((events & mask) != want)
            wrong("scif_poll says %#x of endpoint %d in state %d; %#x is due", events, list[i].epd, of[i]
                  ? of[i]->state : 0, want);
    }
    if (set != result)
        wrong("scif_poll answered %d of %d", result, set);
}

static void ask_nodes(void)
{
    uint16_t nodes[8] = {0}, own = 77, *at = one_in(6) ? (void *)no_memory : nodes, *self_at = one_in(6) ? NULL : &own;
    int length = one_in(3) ? -(int)random_below(1 << 30) - 1 : (int)random_below(8);
    next_call("scif_get_nodeIDs(%p, %d, %p)", (void *)at, length, (void *)self_at);
    begin();
    is_due(length < 0, EINVAL);
    is_due(!self_at || (at != nodes && length > 0), EFAULT);
    if (judged(scif_get_nodeIDs(at, length, self_at)) && own != own_node)
        wrong("the own node is %u", own);
    if (scif_get_fd(length) != length)
        wrong("scif_get_fd answered another number");
}

// ---- a sequence ----------------------------------------------------------------------------------------------------

static void check_rooms(void)
{
    for (int side = 0; side < 2; side++)
        for (long i = 0; i < ROOM; i++)
            if (rooms[side][i] != copies[side][i])
                wrong("byte %ld of room %d is not what was copied there", i, side);
}

static void make_memory(void)
{
    int sockets[2];
    if (rooms[0])
        return;
    for (int side = 0; side < 2; side++) {
        rooms[side] = mmap(NULL, (size_t)ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(rooms[side] != MAP_FAILED && (copies[side] = malloc((size_t)ROOM)));
    }
    reserve = mmap(NULL, (size_t)RESERVE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    read_only = mmap(NULL, (size_t)PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    no_memory = mmap(NULL, 2 * (size_t)PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(reserve != MAP_FAILED && read_only != MAP_FAILED && no_memory != MAP_FAILED);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    others[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
    others[1] = sockets[0];
    others[2] = sockets[1];
    others[3] = memfd_create("none", MFD_CLOEXEC);
    REQUIRE(scif_get_nodeIDs(NULL, 0, &own_node) > 0);
}

static void a_sequence(void)
{
    static const struct weighted_call calls[] = {
        {3, open_one}, {4, bind_one}, {3, listen_on}, {3, connect_to_nobody}, {4, accept_at}, {6, join}, {4, close_one},
        {16, transfer_stream}, {12, register_one}, {6, unregister_some}, {30, copy_bytes}, {8, map_one}, {6, unmap_one},
        {8, mark_or_wait}, {6, signal_one}, {6, poll_some}, {2, ask_nodes},
    };
    make_memory();
    for (int side = 0; side < 2; side++)
        for (long i = 0; i < ROOM; i++)
            rooms[side][i] = copies[side][i] = (unsigned char)((uint64_t)i * 31 + sequence_seed + (uint64_t)side);
    memset(endpoints, 0, sizeof endpoints);
    struct endpoint *listener = a_place();
    REQUIRE((listener->number = scif_open()) >= 0 && (listener->port = scif_bind(listener->number, 0)) > 0 &&
            scif_listen(listener->number, 8) == 0);
    listener->state = LISTENING;
    listener->holds_port = true;
    join();
    for (uint32_t left = 100 + random_below(200); left > 0; left--)
        make_one_of(calls, sizeof calls / sizeof *calls);
    check_rooms();
    for (int i = 0; i < MAPPINGS; i++)
        if (mappings[i].at)
            unmap(i);
    for (int i = 0; i < ENDPOINTS; i++)
        if (endpoints[i].state != NONE)
            close_endpoint(&endpoints[i]);
    check_rooms();
}

int main(int argc, char **argv) { return run_sequences(argc, argv, a_sequence); }
