// Two ends of uDAPL: `near`, which reads like an ordinary program, and a far end that does what it is told: in another
// process, or, with the argument "alone", in this one on an adapter of its own. So one program reads from top to bottom
// and proves the same between processes and within one.
//
// A function for an end takes the end and six numbers. It is called here with CALL(near, ...), there with at_far(...):
// both processes are one image that forked, so that a function has one address.
//
// Sentences are checked and counted as in harness.h. A refusal is followed by a proof that nothing moved.

#ifndef NONIC_DAT_ENDS_H
#define NONIC_DAT_ENDS_H

#include "../harness.h"
#include "../asleep.h"
#include "../bytes.h"

#include <pthread.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <dat/udat.h>

#define PAGE 4096ul
#define ROOM (512 * PAGE)
#define PATIENCE ((DAT_TIMEOUT)PATIENCE_MS * 1000)
#define ALL_PRIVILEGES DAT_MEM_PRIV_ALL_FLAG

#define ERROR(type, subtype) ((DAT_RETURN)(DAT_CLASS_ERROR | (type) | (subtype)))
#define BAD_ARGUMENT(number) ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + (number) - 1)
#define BAD_HANDLE(kind) ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_##kind)
#define BAD_STATE(kind) ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_##kind)

// ---- sentences ----------------------------------------------------------------------------------------------------

// A code in words, for messages; several may be alive at once.
static UNUSED const char *words(DAT_RETURN code)
{
    static __thread char text[4][96];
    static __thread int next;
    const char *major = "?", *minor = "";
    char *out = text[next++ % 4];
    dat_strerror(code, &major, &minor);
    snprintf(out, 96, "0x%08x %s %s", code, major, minor);
    return out;
}

// A call that answers exactly this code.
#define CHECK_CODE(id, sentence, call, wanted)                                                                       \
    do {                                                                                                             \
        DAT_RETURN got_ = (call), wanted_ = (wanted);                                                                \
        verdict(got_ == wanted_, __LINE__, id, sentence);                                                            \
        if (got_ != wanted_)                                                                                         \
            printf(": got %s, expected %s (%s)", words(got_), words(wanted_), #call);                                \
        printf("\n");                                                                                                \
    } while (0)

#define CHECK_DONE(id, sentence, call) CHECK_CODE(id, sentence, call, DAT_SUCCESS)

// A call that is refused with this type, whatever the subtype.
#define CHECK_TYPE(id, sentence, call, wanted)                                                                       \
    do {                                                                                                             \
        DAT_RETURN got_ = (call);                                                                                    \
        verdict(DAT_GET_TYPE(got_) == (wanted), __LINE__, id, sentence);                                             \
        if (DAT_GET_TYPE(got_) != (wanted))                                                                          \
            printf(": got %s, expected type %s (%s)", words(got_), words(wanted), #call);                            \
        printf("\n");                                                                                                \
    } while (0)

// Something without which the rest makes no sense.
#define MUST(call)                                                                                                   \
    do {                                                                                                             \
        DAT_RETURN got_ = (call);                                                                                    \
        if (got_ != DAT_SUCCESS) {                                                                                   \
            printf("FAIL %s needed to go on, line %d of %s: %s answered %s\n", role(), __LINE__, __FILE__, #call,    \
                   words(got_));                                                                                     \
            self.failed++;                                                                                           \
            give_up();                                                                                               \
        }                                                                                                            \
    } while (0)

static UNUSED void chapter(const char *name)
{
    printf("# %s\n", name);
}

// ---- an end -------------------------------------------------------------------------------------------------------

struct end {
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE async, receives, requests, connections, arrivals;
    DAT_PZ_HANDLE pz;
    DAT_EP_HANDLE ep;
    DAT_PSP_HANDLE psp;
    DAT_CONN_QUAL service; // of the service point
    unsigned char *room;
    DAT_LMR_HANDLE lmr;    // the whole room, with every privilege
    DAT_LMR_CONTEXT local;
    DAT_RMR_CONTEXT remote;
    unsigned char private_data[512]; // of the last connection event or request
    int private_size;
};

static struct end near_end, far_end;
static struct end *const near = &near_end;
static bool alone;
static bool coherent;       // the adapter's lmr_sync_req is FALSE
static bool polling;        // events are awaited by dequeue
static UNUSED DAT_EP_ATTR *ep_attributes; // of endpoints made from now on; NULL: as they come

typedef int64_t (*end_function)(struct end *e, const int64_t *a);

#define CALL(e, function, ...) function((e), (const int64_t[8]){__VA_ARGS__})

static UNUSED const char *adapter_name(void)
{
    const char *name = getenv("DAT_TEST_ADAPTER");
    return name ? name : "nonic";
}

static UNUSED unsigned char *fresh_pages(size_t length, int kind)
{
    unsigned char *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    return pages;
}

static UNUSED void open_end(struct end *e)
{
    e->async = DAT_HANDLE_NULL;
    MUST(dat_ia_open((DAT_NAME_PTR)adapter_name(), 16, &e->async, &e->ia));
    MUST(dat_pz_create(e->ia, &e->pz));
    MUST(dat_evd_create(e->ia, 256, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &e->receives));
    MUST(dat_evd_create(e->ia, 256, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &e->requests));
    MUST(dat_evd_create(e->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &e->connections));
    MUST(dat_evd_create(e->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &e->arrivals));
    DAT_REGION_DESCRIPTION whole = {.for_va = e->room};
    DAT_VLEN size;
    DAT_VADDR address;
    MUST(dat_lmr_create(e->ia, DAT_MEM_TYPE_VIRTUAL, whole, ROOM, e->pz, ALL_PRIVILEGES, &e->lmr, &e->local,
                        &e->remote, &size, &address));
    DAT_PROVIDER_ATTR attributes;
    MUST(dat_ia_query(e->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attributes));
    coherent = !attributes.lmr_sync_req;
}

// ---- events -------------------------------------------------------------------------------------------------------

// The next event; false if none came.
static UNUSED bool next_event(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
    DAT_RETURN code;
    if (polling) {
        int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
        while ((code = dat_evd_dequeue(evd, event)) == DAT_QUEUE_EMPTY && now_ns() < deadline)
            sched_yield();
    } else {
        DAT_COUNT more = -1;
        code = dat_evd_wait(evd, PATIENCE, 1, event, &more);
    }
    if (code != DAT_SUCCESS)
        printf("# no event came: %s\n", words(code));
    return code == DAT_SUCCESS;
}

static UNUSED bool is_empty(DAT_EVD_HANDLE evd)
{
    DAT_EVENT event;
    return dat_evd_dequeue(evd, &event) == DAT_QUEUE_EMPTY;
}

static UNUSED void drain(DAT_EVD_HANDLE evd)
{
    DAT_EVENT event;
    while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS)
        ;
}

// The number of the next connection event; its private data is kept. -1: none came.
static UNUSED int64_t next_connection(struct end *e, const int64_t *a)
{
    DAT_EVENT event;
    (void)a;
    if (!next_event(e->connections, &event))
        return -1;
    DAT_CONNECTION_EVENT_DATA *data = &event.event_data.connect_event_data;
    e->private_size = data->private_data_size;
    if (data->private_data_size > 0 && data->private_data_size <= (int)sizeof e->private_data)
        memcpy(e->private_data, data->private_data, data->private_data_size);
    return event.event_number;
}

// How a data transfer ended.
struct done {
    int status; // -1: no completion came; -2: it is no completion
    int64_t length;
    uint64_t cookie;
    DAT_EP_HANDLE ep;
};

static UNUSED struct done next_done(DAT_EVD_HANDLE evd)
{
    DAT_EVENT event;
    if (!next_event(evd, &event))
        return (struct done){.status = -1};
    if (event.event_number == DAT_RMR_BIND_COMPLETION_EVENT) {
        DAT_RMR_BIND_COMPLETION_EVENT_DATA *bound = &event.event_data.rmr_completion_event_data;
        return (struct done){bound->status, 0, bound->user_cookie.as_64, bound->rmr_handle};
    }
    DAT_DTO_COMPLETION_EVENT_DATA *data = &event.event_data.dto_completion_event_data;
    if (event.event_number != DAT_DTO_COMPLETION_EVENT)
        return (struct done){.status = -2};
    return (struct done){data->status, (int64_t)data->transfered_length, data->user_cookie.as_64, data->ep_handle};
}

// ---- data transfers -----------------------------------------------------------------------------------------------

static UNUSED DAT_DTO_COOKIE cookie(uint64_t value)
{
    return (DAT_DTO_COOKIE){.as_64 = value};
}

static UNUSED DAT_LMR_TRIPLET piece(DAT_LMR_CONTEXT context, const void *at, size_t length)
{
    return (DAT_LMR_TRIPLET){
        .lmr_context = context, .virtual_address = (DAT_VADDR)(uintptr_t)at, .segment_length = length};
}

static UNUSED DAT_RMR_TRIPLET target(DAT_RMR_CONTEXT context, uint64_t address, size_t length)
{
    return (DAT_RMR_TRIPLET){.rmr_context = context, .target_address = address, .segment_length = length};
}

static UNUSED uint64_t address_of(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

// The functions below answer the status of the completion, or minus the code of a call that was refused.

// Posts a receive into the room: at, length, cookie.
static UNUSED int64_t receive(struct end *e, const int64_t *a)
{
    DAT_LMR_TRIPLET p = piece(e->local, e->room + a[0], a[1]);
    return -(int64_t)dat_ep_post_recv(e->ep, 1, &p, cookie(a[2]), DAT_COMPLETION_DEFAULT_FLAG);
}

// Ends a receive: its status; its length and cookie are compared if a[0] says so (a[1], a[2]), -3 if they differ.
static UNUSED int64_t received(struct end *e, const int64_t *a)
{
    struct done d = next_done(e->receives);
    if (a[0] && d.status == DAT_DTO_SUCCESS && (d.length != a[1] || (int64_t)d.cookie != a[2]))
        return -3;
    return d.status;
}

// Sends from the room and waits: at, length, flags.
static UNUSED int64_t send_bytes(struct end *e, const int64_t *a)
{
    DAT_LMR_TRIPLET p = piece(e->local, e->room + a[0], a[1]);
    DAT_RETURN code = dat_ep_post_send(e->ep, 1, &p, cookie(1), (DAT_COMPLETION_FLAGS)a[2]);
    return code ? -(int64_t)code : next_done(e->requests).status;
}

// Writes from the room, and waits: at, length, context, address, flags.
static UNUSED int64_t write_there(struct end *e, const int64_t *a)
{
    DAT_LMR_TRIPLET p = piece(e->local, e->room + a[0], a[1]);
    DAT_RMR_TRIPLET t = target((DAT_RMR_CONTEXT)a[2], (uint64_t)a[3], a[1]);
    DAT_RETURN code = dat_ep_post_rdma_write(e->ep, 1, &p, cookie(2), &t, (DAT_COMPLETION_FLAGS)a[4]);
    return code ? -(int64_t)code : next_done(e->requests).status;
}

// Reads into the room, and waits: at, length, context, address, flags.
static UNUSED int64_t read_there(struct end *e, const int64_t *a)
{
    DAT_LMR_TRIPLET p = piece(e->local, e->room + a[0], a[1]);
    DAT_RMR_TRIPLET t = target((DAT_RMR_CONTEXT)a[2], (uint64_t)a[3], a[1]);
    DAT_RETURN code = dat_ep_post_rdma_read(e->ep, 1, &p, cookie(3), &t, (DAT_COMPLETION_FLAGS)a[4]);
    return code ? -(int64_t)code : next_done(e->requests).status;
}

// The room's bytes: at, length, seed.
static UNUSED int64_t fill_room(struct end *e, const int64_t *a)
{
    fill(e->room + a[0], a[1], (unsigned)a[2]);
    return 0;
}

static UNUSED int64_t room_filled(struct end *e, const int64_t *a)
{
    return filled(e->room + a[0], a[1], (unsigned)a[2]);
}

// The room as a peer names it.
static UNUSED int64_t far_context(struct end *e, const int64_t *a)
{
    (void)a;
    return e->remote;
}

static UNUSED int64_t far_address(struct end *e, const int64_t *a)
{
    (void)a;
    return (int64_t)address_of(e->room);
}

static UNUSED int64_t state_of(struct end *e, const int64_t *a)
{
    DAT_EP_STATE state = (DAT_EP_STATE)-1;
    (void)a;
    if (dat_ep_get_status(e->ep, &state, NULL, NULL))
        return -1;
    return state;
}

// After local stores, before a peer reads or writes: nothing to do where memory is coherent, but always allowed.
static UNUSED void publish(DAT_IA_HANDLE ia, DAT_LMR_CONTEXT context, const void *at, size_t length)
{
    DAT_LMR_TRIPLET p = piece(context, at, length);
    MUST(dat_lmr_sync_rdma_read(ia, &p, 1));
}

// After a peer wrote, before local loads.
static UNUSED void collect(DAT_IA_HANDLE ia, DAT_LMR_CONTEXT context, const void *at, size_t length)
{
    DAT_LMR_TRIPLET p = piece(context, at, length);
    MUST(dat_lmr_sync_rdma_write(ia, &p, 1));
}

static UNUSED int64_t collect_room(struct end *e, const int64_t *a)
{
    collect(e->ia, e->local, e->room + a[0], a[1]);
    return 0;
}

static UNUSED int64_t publish_room(struct end *e, const int64_t *a)
{
    publish(e->ia, e->local, e->room + a[0], a[1]);
    return 0;
}

// ---- the far end --------------------------------------------------------------------------------------------------

struct far_call {
    end_function function;
    int64_t a[8];
};

#define at_far(function, ...) at_far_((function), (const int64_t[8]){__VA_ARGS__})
#define far_begins(function, ...) far_begins_((function), (const int64_t[8]){__VA_ARGS__})

// Begins a step that ends only when this end does something; not where the ends share a thread.
static UNUSED void far_begins_(end_function function, const int64_t *a)
{
    struct far_call c = {.function = function};
    memcpy(c.a, a, sizeof c.a);
    give(&c, sizeof c);
}

static UNUSED int64_t far_ends(void)
{
    int64_t result;
    take(&result, sizeof result);
    return result;
}

static UNUSED int64_t at_far_(end_function function, const int64_t *a)
{
    if (alone)
        return function(&far_end, a);
    far_begins_(function, a);
    return far_ends();
}

static UNUSED int64_t exit_now(struct end *e, const int64_t *a)
{
    (void)e, (void)a;
    fflush(stdout);
    _exit(0);
}

static UNUSED void be_far(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        struct far_call c;
        take(&c, sizeof c);
        int64_t result = c.function(&far_end, c.a);
        give(&result, sizeof result);
    }
}

static UNUSED int64_t open_far(struct end *e, const int64_t *a)
{
    (void)a;
    open_end(e);
    return 0;
}

static UNUSED bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

// Both ends are open; the far end is another process unless the program was told "alone".
static UNUSED void begin(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    alone = has_word(argc, argv, "alone");
    polling = has_word(argc, argv, "poll");
    self.active = true;
    far_end.room = fresh_pages(ROOM, MAP_PRIVATE);
    if (!alone) {
        split();
        if (!self.active)
            be_far();
    }
    near_end.room = fresh_pages(ROOM, MAP_PRIVATE);
    open_end(near);
    at_far(open_far);
}

// Ends the far process and prints the summary.
static UNUSED int end(void)
{
    if (!alone && self.other > 0) {
        far_begins(exit_now);
        int status;
        REQUIRE(waitpid(self.other, &status, 0) == self.other);
        CHECK_EQ("far", "the far process lived until it was told to end", status, 0);
    }
    return finish_alone();
}

// ---- connections --------------------------------------------------------------------------------------------------

// An endpoint on the end's own zone and dispatchers.
static UNUSED int64_t make_endpoint(struct end *e, const int64_t *a)
{
    (void)a;
    MUST(dat_ep_create(e->ia, e->pz, e->receives, e->requests, e->connections, ep_attributes, &e->ep));
    return 0;
}

// Sets the endpoint aside, and takes it up again.
static UNUSED int64_t take_endpoint(struct end *e, const int64_t *a)
{
    (void)a;
    return (int64_t)(intptr_t)e->ep;
}

static UNUSED int64_t put_endpoint(struct end *e, const int64_t *a)
{
    e->ep = (DAT_EP_HANDLE)(intptr_t)a[0];
    return 0;
}

// A service point on any number: that number.
static UNUSED int64_t listen_any(struct end *e, const int64_t *a)
{
    (void)a;
    MUST(dat_psp_create_any(e->ia, &e->service, e->arrivals, DAT_PSP_CONSUMER_FLAG, &e->psp));
    return (int64_t)e->service;
}

static UNUSED int64_t stop_listening(struct end *e, const int64_t *a)
{
    (void)a;
    DAT_RETURN code = dat_psp_free(e->psp);
    e->psp = DAT_HANDLE_NULL;
    return code;
}

// The next connection request; its private data is kept.
static UNUSED DAT_CR_HANDLE next_request(struct end *e)
{
    DAT_EVENT event;
    DAT_CR_PARAM request;
    REQUIRE(next_event(e->arrivals, &event));
    REQUIRE(event.event_number == DAT_CONNECTION_REQUEST_EVENT);
    DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
    MUST(dat_cr_query(cr, DAT_CR_FIELD_ALL, &request));
    e->private_size = request.private_data_size;
    if (request.private_data_size > 0 && request.private_data_size <= (int)sizeof e->private_data)
        memcpy(e->private_data, request.private_data, request.private_data_size);
    return cr;
}

// Takes the next request with a new endpoint: size and seed of the answer's private data.
static UNUSED int64_t accept_next(struct end *e, const int64_t *a)
{
    unsigned char bytes[512];
    DAT_CR_HANDLE cr = next_request(e);
    fill(bytes, a[0], (unsigned)a[1]);
    CALL(e, make_endpoint);
    DAT_RETURN code = dat_cr_accept(cr, e->ep, (DAT_COUNT)a[0], a[0] ? bytes : NULL);
    return -(int64_t)code;
}

static UNUSED struct sockaddr *address_of_end(struct end *e)
{
    static __thread struct sockaddr_storage copy;
    DAT_IA_ATTR attributes;
    MUST(dat_ia_query(e->ia, NULL, DAT_IA_FIELD_ALL, &attributes, 0, NULL));
    memcpy(&copy, attributes.ia_address_ptr,
           attributes.ia_address_ptr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    return (struct sockaddr *)&copy;
}

static UNUSED DAT_RETURN ask(struct end *e, DAT_CONN_QUAL service, DAT_TIMEOUT timeout, int size, void *bytes)
{
    return dat_ep_connect(e->ep, address_of_end(e), service, timeout, size, bytes, DAT_QOS_BEST_EFFORT,
                          DAT_CONNECT_DEFAULT_FLAG);
}

// A new connection, `near->ep` here and `far_end.ep` there. The service point goes at once.
static UNUSED void connect_ends(void)
{
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    CALL(near, make_endpoint);
    MUST(ask(near, service, PATIENCE, 0, NULL));
    REQUIRE(at_far(accept_next) == 0);
    REQUIRE(CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
    REQUIRE(at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
    REQUIRE(at_far(stop_listening) == DAT_SUCCESS);
}

static UNUSED void drain_end(struct end *e)
{
    drain(e->receives);
    drain(e->requests);
    drain(e->connections);
}

// Frees the end's endpoint, in whatever state it is, and forgets its events.
static UNUSED int64_t drop_endpoint(struct end *e, const int64_t *a)
{
    (void)a;
    if (e->ep) {
        MUST(dat_ep_free(e->ep));
        e->ep = DAT_HANDLE_NULL;
    }
    drain_end(e);
    return 0;
}

// Disconnects and waits for the end of the connection, if it stands.
static UNUSED int64_t hang_up(struct end *e, const int64_t *a)
{
    (void)a;
    if (state_of(e, NULL) == DAT_EP_STATE_CONNECTED)
        MUST(dat_ep_disconnect(e->ep, DAT_CLOSE_ABRUPT_FLAG));
    while (state_of(e, NULL) != DAT_EP_STATE_DISCONNECTED)
        REQUIRE(next_connection(e, NULL) > 0);
    return 0;
}

// Ends the connection on both sides, whatever became of it.
static UNUSED void part(void)
{
    CALL(near, hang_up);
    at_far(hang_up);
    at_far(drop_endpoint);
    CALL(near, drop_endpoint);
}

static UNUSED void connect_again(void)
{
    part();
    connect_ends();
}

// The connection works, in both directions.
static UNUSED bool talks(void)
{
    size_t at = ROOM - 4 * PAGE;
    fill(near->room + at, 64, 9);
    at_far(fill_room, at + PAGE, 64, 8);
    if (at_far(receive, at, 64, 77) || CALL(near, receive, at + PAGE, 64, 78))
        return false;
    if (CALL(near, send_bytes, at, 64, 0) || at_far(received, 1, 64, 77) || !at_far(room_filled, at, 64, 9))
        return false;
    return at_far(send_bytes, at + PAGE, 64, 0) == 0 && CALL(near, received, 1, 64, 78) == 0 &&
           CALL(near, room_filled, at + PAGE, 64, 8);
}

// A work request of the far end was refused and took the connection with it, at both ends.
static UNUSED bool both_broken(void)
{
    return at_far(next_connection) == DAT_CONNECTION_EVENT_BROKEN &&
           CALL(near, next_connection) == DAT_CONNECTION_EVENT_BROKEN &&
           at_far(state_of) == DAT_EP_STATE_DISCONNECTED && CALL(near, state_of) == DAT_EP_STATE_DISCONNECTED;
}

#endif
