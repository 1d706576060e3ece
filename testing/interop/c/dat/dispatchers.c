// Event dispatchers and notification objects: waiting, thresholds, the one waiter, states, resizing, software events,
// merged streams, overflow, what wakes a notification object and what does not.

#include "ends.h"

static DAT_EVD_HANDLE evd;
static DAT_EVENT event;
static DAT_COUNT more;
static uint64_t nobody;

static DAT_EVD_HANDLE dispatcher(DAT_COUNT length, DAT_CNO_HANDLE cno, unsigned streams)
{
    DAT_EVD_HANDLE made;
    MUST(dat_evd_create(near->ia, length, cno, (DAT_EVD_FLAGS)streams, &made));
    return made;
}

static DAT_RETURN post(DAT_EVD_HANDLE to, uintptr_t value)
{
    DAT_EVENT e;
    memset(&e, 0x5a, sizeof e);
    e.event_number = DAT_SOFTWARE_EVENT;
    e.event_data.software_event_data.pointer = (void *)value;
    return dat_evd_post_se(to, &e);
}

static uintptr_t taken(void)
{
    return event.event_number == DAT_SOFTWARE_EVENT ? (uintptr_t)event.event_data.software_event_data.pointer : 0;
}

static DAT_RETURN wait_for(DAT_EVD_HANDLE from, DAT_TIMEOUT timeout, DAT_COUNT threshold)
{
    memset(&event, 0x5a, sizeof event);
    more = -77;
    return dat_evd_wait(from, timeout, threshold, &event, &more);
}

static DAT_EVD_PARAM facts(DAT_EVD_HANDLE of)
{
    DAT_EVD_PARAM p;
    memset(&p, 0x5a, sizeof p);
    MUST(dat_evd_query(of, DAT_EVD_FIELD_ALL, &p));
    return p;
}

// ---- making -------------------------------------------------------------------------------------------------------

static void making(void)
{
    chapter("making");
    DAT_EVD_HANDLE made = (void *)0x1234;
    DAT_IA_ATTR limits;
    DAT_PROVIDER_ATTR provider;
    MUST(dat_ia_query(near->ia, NULL, DAT_IA_FIELD_ALL, &limits, DAT_PROVIDER_FIELD_ALL, &provider));
    CHECK_CODE("evd", "no room", dat_evd_create(near->ia, 0, NULL, DAT_EVD_DTO_FLAG, &made), BAD_ARGUMENT(2));
    CHECK_CODE("evd", "less than none", dat_evd_create(near->ia, -1, NULL, DAT_EVD_DTO_FLAG, &made), BAD_ARGUMENT(2));
    CHECK_CODE("evd", "more than there can be",
               dat_evd_create(near->ia, limits.max_evd_qlen + 1, NULL, DAT_EVD_DTO_FLAG, &made),
               ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
    CHECK_CODE("evd", "no stream", dat_evd_create(near->ia, 8, NULL, (DAT_EVD_FLAGS)0, &made), BAD_ARGUMENT(4));
    CHECK_CODE("evd", "streams that do not exist", dat_evd_create(near->ia, 8, NULL, (DAT_EVD_FLAGS)0x2000, &made),
               BAD_ARGUMENT(4));
    CHECK_CODE("evd", "asynchronous errors beside others",
               dat_evd_create(near->ia, 8, NULL, (DAT_EVD_FLAGS)(DAT_EVD_ASYNC_FLAG | DAT_EVD_DTO_FLAG),
                              &made), BAD_ARGUMENT(4));
    CHECK_TYPE("evd", "no place for the handle", dat_evd_create(near->ia, 8, NULL, DAT_EVD_DTO_FLAG, NULL),
               DAT_INVALID_PARAMETER);
    CHECK("evd", "... and nothing was made", made == (void *)0x1234);
    // Every pair of streams, as the provider's table says.
    static const unsigned stream[6] = {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_CR_FLAG, DAT_EVD_DTO_FLAG,
                                       DAT_EVD_CONNECTION_FLAG,
                                       DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++) {
            DAT_RETURN code = dat_evd_create(near->ia, 8, NULL, (DAT_EVD_FLAGS)(stream[i] | stream[k]), &made);
            CHECK("evd", "streams are merged where the provider says so",
                  provider.evd_stream_merging_supported[i][k] && code == DAT_SUCCESS);
            DAT_EVD_PARAM p = facts(made);
            CHECK("evd", "... and the dispatcher tells which",
                  p.evd_flags == (DAT_EVD_FLAGS)(stream[i] | stream[k]) && p.evd_qlen >= 8 && p.ia_handle == near->ia &&
                      p.cno_handle == NULL && p.evd_state == (DAT_EVD_STATE)(DAT_EVD_STATE_ENABLED |
                                                            DAT_EVD_STATE_WAITABLE));
            MUST(dat_evd_free(made));
        }
    DAT_EVD_PARAM p;
    CHECK_CODE("evd", "a query of fields that do not exist", dat_evd_query(near->receives, 0x20, &p), BAD_ARGUMENT(2));
    CHECK_CODE("evd", "a query into nothing", dat_evd_query(near->receives, DAT_EVD_FIELD_ALL, NULL), BAD_ARGUMENT(3));
    CHECK_CODE("evd", "a dispatcher that an endpoint feeds cannot go", dat_evd_free(near->receives),
               BAD_STATE(EVD_IN_USE));
    CHECK_CODE("evd", "... whichever way", dat_evd_free(near->connections), BAD_STATE(EVD_IN_USE));
    CHECK("evd", "... and goes on", talks());
}

// ---- software events and waiting ----------------------------------------------------------------------------------

static void software(void)
{
    chapter("software events");
    DAT_EVENT wrong = {.event_number = DAT_DTO_COMPLETION_EVENT};
    evd = dispatcher(4, NULL, DAT_EVD_SOFTWARE_FLAG);
    CHECK_CODE("evd", "an empty dispatcher", dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY);
    CHECK_CODE("evd", "one that takes none", post(near->receives, 1), BAD_ARGUMENT(1));
    CHECK_CODE("evd", "an event of another kind", dat_evd_post_se(evd, &wrong), BAD_ARGUMENT(2));
    CHECK_TYPE("evd", "no event", dat_evd_post_se(evd, NULL), DAT_INVALID_PARAMETER);
    CHECK_TYPE("evd", "no place for one", dat_evd_dequeue(evd, NULL), DAT_INVALID_PARAMETER);
    CHECK_CODE("evd", "... and none was posted", dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY);
    int length = facts(evd).evd_qlen, posted = 0;
    while (posted < length && post(evd, 100 + posted) == DAT_SUCCESS)
        posted++;
    CHECK_EQ("evd", "as many fit as it said", posted, length);
    CHECK_TYPE("evd", "one more does not", post(evd, 999), DAT_QUEUE_FULL);
    bool order = true;
    for (int i = 0; i < posted; i++) {
        order &= dat_evd_dequeue(evd, &event) == DAT_SUCCESS && taken() == 100u + i;
        order &= event.evd_handle == evd;
    }
    CHECK("evd", "they come out in order", order);
    CHECK_CODE("evd", "... and no more than went in", dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY);
    CHECK_DONE("evd", "a full queue did no harm", post(evd, 7));
    CHECK_DONE("evd", "... it is waited for", wait_for(evd, 0, 1));
    CHECK("evd", "... and there", taken() == 7 && more == 0);
}

static void waiting(void)
{
    chapter("waiting");
    int64_t began = now_ns();
    CHECK_CODE("evd", "nothing comes in no time", wait_for(evd, 0, 1), ERROR(DAT_TIMEOUT_EXPIRED, 0));
    CHECK_EQ("evd", "... and that many are left", more, 0);
    CHECK_CODE("evd", "nothing comes in 20 ms", wait_for(evd, 20000, 1), ERROR(DAT_TIMEOUT_EXPIRED, 0));
    CHECK("evd", "... which have passed", now_ns() - began >= 20000000);
    CHECK_CODE("evd", "no place for the event", dat_evd_wait(evd, 0, 1, NULL, &more), BAD_ARGUMENT(4));
    CHECK_CODE("evd", "no place for the number", dat_evd_wait(evd, 0, 1, &event, NULL), BAD_ARGUMENT(5));
    CHECK_CODE("evd", "a threshold of none", wait_for(evd, 0, 0), BAD_ARGUMENT(3));
    CHECK_CODE("evd", "a threshold below none", wait_for(evd, 0, -1), BAD_ARGUMENT(3));
    MUST(post(evd, 1));
    MUST(post(evd, 2));
    CHECK_CODE("evd", "a threshold on a dispatcher of another mode", wait_for(evd, 0, 2), BAD_STATE(EVD_CONFIG_NOTIFY));
    CHECK_DONE("evd", "a refused wait took nothing", wait_for(evd, 0, 1));
    CHECK("evd", "... the first is still first, and one is left", taken() == 1 && more == 1);
    MUST(wait_for(evd, 0, 1));
    CHECK("evd", "... then none", taken() == 2 && more == 0);
}

// A thread that waits, and what came of it.
struct waiter {
    DAT_EVD_HANDLE evd;
    DAT_CNO_HANDLE cno;
    DAT_TIMEOUT timeout;
    DAT_COUNT threshold;
    pthread_t id;
    pid_t thread;
    DAT_RETURN code;
    DAT_EVENT event;
    DAT_COUNT more;
    DAT_EVD_HANDLE hint;
    double cpu_ms;
};

static double thread_cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void *wait_in_thread(void *argument)
{
    struct waiter *w = argument;
    double before = thread_cpu_ms();
    __atomic_store_n(&w->thread, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    if (w->cno)
        w->code = dat_cno_wait(w->cno, w->timeout, &w->hint);
    else
        w->code = dat_evd_wait(w->evd, w->timeout, w->threshold, &w->event, &w->more);
    w->cpu_ms = thread_cpu_ms() - before;
    return NULL;
}

// Begins it, and returns when it sleeps.
static void begin_wait(struct waiter *w)
{
    w->thread = 0;
    w->more = -77;
    w->hint = &nobody;
    REQUIRE(pthread_create(&w->id, NULL, wait_in_thread, w) == 0);
    while (!__atomic_load_n(&w->thread, __ATOMIC_ACQUIRE))
        sched_yield();
    await_asleep(getpid(), w->thread);
}

static void end_wait(struct waiter *w)
{
    REQUIRE(pthread_join(w->id, NULL) == 0);
}

static void one_waiter(void)
{
    chapter("the one waiter");
    struct waiter w = {.evd = evd, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1};
    begin_wait(&w);
    CHECK_CODE("evd", "a second thread does not wait", wait_for(evd, 0, 1), BAD_STATE(EVD_WAITER));
    CHECK_CODE("evd", "... nor take events", dat_evd_dequeue(evd, &event), BAD_STATE(EVD_WAITER));
    CHECK_TYPE("evd", "nor is the dispatcher freed", dat_evd_free(evd), DAT_INVALID_STATE);
    CHECK_DONE("evd", "an event is posted", post(evd, 5));
    end_wait(&w);
    CHECK_DONE("evd", "the waiter has it", w.code);
    CHECK("evd", "... whole", w.event.event_data.software_event_data.pointer == (void *)5 && w.more == 0);
    CHECK("evd", "... and used no CPU to speak of", w.cpu_ms < 50);
    begin_wait(&w);
    CHECK_DONE("evd", "it is made unwaitable", dat_evd_set_unwaitable(evd));
    end_wait(&w);
    CHECK_CODE("evd", "which wakes the waiter", w.code, BAD_STATE(EVD_UNWAITABLE));
    CHECK_EQ("evd", "it says so", facts(evd).evd_state, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_UNWAITABLE);
    CHECK_DONE("evd", "again changes nothing", dat_evd_set_unwaitable(evd));
    CHECK_DONE("evd", "events still come", post(evd, 6));
    CHECK_CODE("evd", "nobody waits", wait_for(evd, 0, 1), BAD_STATE(EVD_UNWAITABLE));
    CHECK_DONE("evd", "but they are taken", dat_evd_dequeue(evd, &event));
    CHECK_EQ("evd", "... as they are", taken(), 6);
    CHECK_DONE("evd", "it is waitable again", dat_evd_clear_unwaitable(evd));
    MUST(post(evd, 8));
    CHECK_DONE("evd", "... and waited for", wait_for(evd, PATIENCE, 1));
    CHECK_EQ("evd", "... as before", taken(), 8);
}

static void resizing(void)
{
    chapter("resizing");
    CHECK_CODE("evd", "to nothing", dat_evd_resize(evd, 0), BAD_ARGUMENT(2));
    CHECK_TYPE("evd", "beyond the limit", dat_evd_resize(evd, 0x7fffffff), DAT_INSUFFICIENT_RESOURCES);
    for (int i = 0; i < 4; i++)
        MUST(post(evd, 20 + i));
    CHECK_DONE("evd", "to more", dat_evd_resize(evd, 64));
    int length = facts(evd).evd_qlen;
    CHECK("evd", "... which it says", length >= 64);
    for (int i = 4; i < length; i++)
        MUST(post(evd, 20 + i));
    CHECK_TYPE("evd", "to fewer than there are", dat_evd_resize(evd, 3), DAT_INVALID_STATE);
    CHECK_EQ("evd", "... changes nothing", facts(evd).evd_qlen, length);
    bool order = true;
    for (int i = 0; i < length; i++)
        order &= dat_evd_dequeue(evd, &event) == DAT_SUCCESS && taken() == 20u + i;
    CHECK("evd", "no event was lost, and none changed places", order);
    CHECK_DONE("evd", "to fewer, when there is none", dat_evd_resize(evd, 4));
    CHECK_DONE("evd", "... works on", post(evd, 9));
    MUST(wait_for(evd, PATIENCE, 1));
    CHECK_EQ("evd", "... as before", taken(), 9);
    MUST(dat_evd_free(evd));
}

// ---- completions: thresholds, modes, merged streams ---------------------------------------------------------------

static void thresholds(void)
{
    chapter("thresholds");
    CHECK_TYPE("evd", "above the queue", wait_for(near->receives, 0, facts(near->receives).evd_qlen + 1),
               DAT_INVALID_PARAMETER);
    for (int i = 0; i < 4; i++)
        REQUIRE(CALL(near, receive, i * 64, 64, 300 + i) == 0);
    struct waiter w = {.evd = near->receives, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 3};
    begin_wait(&w);
    REQUIRE(at_far(send_bytes, 0, 8, 0) == 0 && at_far(send_bytes, 0, 8, 0) == 0);
    await_asleep(getpid(), w.thread);
    CHECK_DONE("evd", "two completions do not wake who waits for three", w.code);
    REQUIRE(at_far(send_bytes, 0, 8, 0) == 0);
    end_wait(&w);
    CHECK_DONE("evd", "the third does", w.code);
    CHECK("evd", "... and two are left", w.more == 2 &&
          w.event.event_data.dto_completion_event_data.user_cookie.as_64 == 300);
    CHECK_CODE("evd", "three do not come again", wait_for(near->receives, 1000, 3), ERROR(DAT_TIMEOUT_EXPIRED, 0));
    CHECK_EQ("evd", "... and no event was taken", more, 2);
    CHECK_DONE("evd", "two are there", wait_for(near->receives, 0, 2));
    CHECK("evd", "... in order", event.event_data.dto_completion_event_data.user_cookie.as_64 == 301 && more == 1);
    drain(near->receives);
    REQUIRE(at_far(send_bytes, 0, 8, 0) == 0 && CALL(near, received, 1, 8, 303) == 0);
}

// Completions that wait while their dispatcher changes its size, and dispatchers that change before the connection.
static void completions_stay(void)
{
    chapter("completions in a dispatcher that is resized");
    for (int i = 0; i < 12; i++)
        REQUIRE(CALL(near, receive, i * 64, 64, 500 + i) == 0);
    for (int i = 0; i < 12; i++)
        REQUIRE(at_far(send_bytes, 0, 8, 0) == 0);
    int before = facts(near->receives).evd_qlen;
    CHECK_DONE("evd", "to more", dat_evd_resize(near->receives, 2 * before));
    CHECK_EQ("evd", "one comes out", next_done(near->receives).cookie, 500);
    CHECK_TYPE("evd", "to fewer than wait", dat_evd_resize(near->receives, 10), DAT_INVALID_STATE);
    CHECK_DONE("evd", "to just as many", dat_evd_resize(near->receives, 11));
    bool order = true;
    for (unsigned i = 1; i < 12; i++) {
        struct done d = next_done(near->receives);
        order &= d.status == 0 && d.length == 8 && d.cookie == 500 + i;
    }
    CHECK("evd", "... and all come out, in order", order && is_empty(near->receives));
    CHECK_DONE("evd", "to what it was", dat_evd_resize(near->receives, before));
    CHECK("evd", "... and it works", talks());

    chapter("an endpoint that is given other dispatchers");
    struct end kept = *near;
    DAT_EP_PARAM change;
    part();
    CALL(near, make_endpoint);
    change.recv_evd_handle = near->receives = dispatcher(32, NULL, DAT_EVD_DTO_FLAG);
    change.request_evd_handle = near->requests = dispatcher(32, NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
    change.connect_evd_handle = near->connections = dispatcher(32, NULL, DAT_EVD_CONNECTION_FLAG);
    DAT_RETURN code = dat_ep_modify(near->ep, DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                    DAT_EP_FIELD_CONNECT_EVD_HANDLE, &change);
    CHECK_DONE("ep", "before it connects it is", code);
    REQUIRE(CALL(near, receive, 0, 64, 600) == 0);
    DAT_EP_PARAM back = {.recv_evd_handle = kept.receives};
    CHECK_CODE("ep", "... but not with receives posted", dat_ep_modify(near->ep, DAT_EP_FIELD_RECV_EVD_HANDLE, &back),
               BAD_STATE(EP_NOTREADY));
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    MUST(ask(near, service, PATIENCE, 0, NULL));
    REQUIRE(at_far(accept_next) == 0);
    CHECK_EQ("ep", "events of the connection come there", CALL(near, next_connection),
             DAT_CONNECTION_EVENT_ESTABLISHED);
    REQUIRE(at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED && at_far(stop_listening) == 0);
    REQUIRE(at_far(send_bytes, 0, 8, 0) == 0);
    CHECK_EQ("ep", "... and the receive that was posted before", next_done(near->receives).cookie, 600);
    CHECK("ep", "... and all others", talks());
    CHECK("ep", "... and nothing where they were", is_empty(kept.receives) && is_empty(kept.requests) &&
          is_empty(kept.connections));
    part();
    MUST(dat_evd_free(near->receives));
    MUST(dat_evd_free(near->requests));
    MUST(dat_evd_free(near->connections));
    *near = kept;
    near->ep = DAT_HANDLE_NULL;
    connect_ends();
}

// An endpoint whose receives wake only for solicited sends.
static void solicited(void)
{
    chapter("solicited events");
    struct end kept = *near;
    DAT_EP_PARAM now;
    MUST(dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &now));
    DAT_EP_ATTR attributes = now.ep_attr;
    attributes.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
    near->receives = dispatcher(64, NULL, DAT_EVD_DTO_FLAG);
    part();
    ep_attributes = &attributes;
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    CALL(near, make_endpoint);
    ep_attributes = NULL;
    MUST(ask(near, service, PATIENCE, 0, NULL));
    REQUIRE(at_far(accept_next) == 0 && CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED &&
            at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED && at_far(stop_listening) == 0);
    CHECK("evd", "the dispatcher says so", facts(near->receives).evd_state & DAT_EVD_STATE_CONFIG_SOLICITED);
    CHECK_CODE("evd", "... and takes no threshold", wait_for(near->receives, 0, 2), BAD_STATE(EVD_CONFIG_SOLICITED));
    for (int i = 0; i < 3; i++)
        REQUIRE(CALL(near, receive, i * 64, 64, 400 + i) == 0);
    struct waiter w = {.evd = near->receives, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1};
    begin_wait(&w);
    REQUIRE(at_far(send_bytes, 0, 8, 0) == 0);
    await_asleep(getpid(), w.thread);
    REQUIRE(at_far(send_bytes, 0, 8, DAT_COMPLETION_SOLICITED_WAIT_FLAG) == 0);
    end_wait(&w);
    CHECK("evd", "an unsolicited send does not wake, a solicited one does, and both come out in order",
          w.code == DAT_SUCCESS && w.more == 1 && w.event.event_data.dto_completion_event_data.user_cookie.as_64 == 400);
    CHECK("evd", "... the second is there", next_done(near->receives).cookie == 401);
    begin_wait(&w);
    at_far(hang_up);
    end_wait(&w);
    CHECK("evd", "a flush counts as solicited", w.code == DAT_SUCCESS &&
          w.event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED);
    part();
    MUST(dat_evd_free(near->receives));
    near->receives = kept.receives;
    connect_ends();
}

// Everything on one dispatcher.
static void merged(void)
{
    chapter("all streams on one dispatcher");
    struct end kept = *near;
    part();
    DAT_EVD_HANDLE all = dispatcher(64, NULL, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG | DAT_EVD_DTO_FLAG |
                                                  DAT_EVD_CONNECTION_FLAG | DAT_EVD_RMR_BIND_FLAG);
    near->receives = near->requests = near->connections = near->arrivals = all;
    connect_ends();
    DAT_RMR_HANDLE rmr;
    DAT_RMR_CONTEXT context;
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 64);
    MUST(dat_rmr_create(near->pz, &rmr));
    MUST(post(all, 1));
    MUST(dat_rmr_bind(rmr, &p, DAT_MEM_PRIV_REMOTE_READ_FLAG, near->ep, cookie(2), DAT_COMPLETION_DEFAULT_FLAG,
                      &context));
    REQUIRE(at_far(receive, 0, 64, 1) == 0);
    MUST(dat_ep_post_send(near->ep, 1, &p, cookie(3), DAT_COMPLETION_DEFAULT_FLAG));
    REQUIRE(at_far(received) == 0);
    REQUIRE(CALL(near, receive, PAGE, 64, 4) == 0);
    REQUIRE(at_far(send_bytes, 0, 8, 0) == 0);
    unsigned seen = 0;
    for (int i = 0; i < 4; i++) {
        REQUIRE(next_event(all, &event));
        CHECK("evd", "every event says where it is", event.evd_handle == all);
        if (event.event_number == DAT_SOFTWARE_EVENT)
            seen |= taken() == 1 ? 1 : 0;
        else if (event.event_number == DAT_RMR_BIND_COMPLETION_EVENT)
            seen |= event.event_data.rmr_completion_event_data.user_cookie.as_64 == 2 ? 2 : 0;
        else if (event.event_number == DAT_DTO_COMPLETION_EVENT)
            seen |= event.event_data.dto_completion_event_data.user_cookie.as_64 == 3 ? ((seen & 2) << 1) : 8;
    }
    CHECK_EQ("evd", "each of four streams came once, a send behind the bind before it", seen, 15);
    CHECK("evd", "... and nothing more", is_empty(all));
    // Completions come before the end of their connection.
    REQUIRE(CALL(near, receive, PAGE, 64, 5) == 0 && CALL(near, receive, PAGE, 64, 6) == 0);
    at_far(hang_up);
    int order = 0;
    for (int i = 0; i < 3; i++) {
        REQUIRE(next_event(all, &event));
        bool flushed = event.event_number == DAT_DTO_COMPLETION_EVENT &&
                       event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED &&
                       event.event_data.dto_completion_event_data.user_cookie.as_64 == 5u + i;
        order += i < 2 ? flushed : event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED;
    }
    CHECK_EQ("evd", "flushed receives come before DISCONNECTED", order, 3);
    MUST(dat_rmr_free(rmr));
    part();
    MUST(dat_evd_free(all));
    *near = kept;
    near->ep = DAT_HANDLE_NULL;
    connect_ends();
}

static void overflow(void)
{
    chapter("overflow");
    struct end kept = *near;
    part();
    near->receives = dispatcher(1, NULL, DAT_EVD_DTO_FLAG);
    int length = facts(near->receives).evd_qlen;
    DAT_EP_ATTR attributes;
    DAT_EP_PARAM p;
    CALL(near, make_endpoint);
    MUST(dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &p));
    attributes = p.ep_attr;
    MUST(dat_ep_free(near->ep));
    attributes.max_recv_dtos = length + 2;
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    ep_attributes = &attributes;
    CALL(near, make_endpoint);
    ep_attributes = NULL;
    MUST(ask(near, service, PATIENCE, 0, NULL));
    REQUIRE(at_far(accept_next) == 0 && CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED &&
            at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED && at_far(stop_listening) == 0);
    for (int i = 0; i < length + 2; i++)
        REQUIRE(CALL(near, receive, 0, 8, i) == 0);
    for (int i = 0; i < length + 2; i++)
        at_far(send_bytes, 0, 8, 0);
    CHECK_DONE("evd", "an overflow is told on the asynchronous dispatcher", wait_for(near->async, PATIENCE, 1));
    CHECK_EQ("evd", "... by its name", event.event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    CHECK("evd", "... and of this adapter", event.event_data.asynch_error_event_data.dat_handle == near->ia);
    CHECK_TYPE("evd", "the dispatcher gives nothing any more", wait_for(near->receives, 0, 1), DAT_INVALID_STATE);
    CHECK_TYPE("evd", "... either way", dat_evd_dequeue(near->receives, &event), DAT_INVALID_STATE);
    CHECK_CODE("evd", "it is told once", wait_for(near->async, 0, 1), ERROR(DAT_TIMEOUT_EXPIRED, 0));
    MUST(dat_ep_free(near->ep));
    at_far(drop_endpoint);
    drain(near->connections);
    CHECK_DONE("evd", "and it can go", dat_evd_free(near->receives));
    *near = kept;
    near->ep = DAT_HANDLE_NULL;
    connect_ends();
    CHECK("evd", "everything else is as before", talks());
}

// ---- notification objects -----------------------------------------------------------------------------------------

static int agent_calls;
static DAT_EVD_HANDLE agent_saw;
static void *agent_instance;

static void agent(DAT_PVOID instance, DAT_EVD_HANDLE from)
{
    agent_instance = instance;
    agent_saw = from;
    __atomic_add_fetch(&agent_calls, 1, __ATOMIC_RELEASE);
}

static bool agent_ran(int times)
{
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (__atomic_load_n(&agent_calls, __ATOMIC_ACQUIRE) < times && now_ns() < deadline)
        sched_yield();
    return agent_calls == times;
}

static void notification(void)
{
    chapter("notification objects");
    DAT_CNO_HANDLE cno, other;
    DAT_CNO_PARAM p;
    DAT_EVD_HANDLE hint = &nobody, second;
    MUST(dat_cno_create(near->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
    MUST(dat_cno_create(near->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &other));
    CHECK_TYPE("cno", "no place for one", dat_cno_create(near->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, NULL),
               DAT_INVALID_PARAMETER);
    memset(&p, 0x5a, sizeof p);
    MUST(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &p));
    CHECK("cno", "it has an adapter and no agent", p.ia_handle == near->ia && p.agent.proxy_agent_func == NULL);
    CHECK_CODE("cno", "a query of fields that do not exist", dat_cno_query(cno, (DAT_CNO_PARAM_MASK)8, &p),
               BAD_ARGUMENT(2));
    CHECK_CODE("cno", "a query into nothing", dat_cno_query(cno, DAT_CNO_FIELD_ALL, NULL), BAD_ARGUMENT(3));
    CHECK_TYPE("cno", "no place for the hint", dat_cno_wait(cno, 0, NULL), DAT_INVALID_PARAMETER);
    CHECK_CODE("cno", "nothing comes in 5 ms", dat_cno_wait(cno, 5000, &hint), DAT_QUEUE_EMPTY);
    CHECK("cno", "... and there is no hint", hint == DAT_HANDLE_NULL);
    evd = dispatcher(8, cno, DAT_EVD_SOFTWARE_FLAG);
    second = dispatcher(8, cno, DAT_EVD_SOFTWARE_FLAG);
    CHECK("cno", "a dispatcher says whom it notifies", facts(evd).cno_handle == cno);
    CHECK_CODE("cno", "one that is notified cannot go", dat_cno_free(cno), BAD_STATE(CNO_IN_USE));
    struct waiter w = {.cno = cno, .timeout = DAT_TIMEOUT_INFINITE};
    begin_wait(&w);
    MUST(post(second, 1));
    end_wait(&w);
    CHECK_DONE("cno", "an event on any of its dispatchers wakes it", w.code);
    CHECK("cno", "... and it says which", w.hint == second && w.cpu_ms < 50);
    MUST(post(evd, 2));
    CHECK_DONE("cno", "while one holds events it does not sleep", dat_cno_wait(cno, PATIENCE, &hint));
    drain(evd);
    drain(second);
    while (dat_cno_wait(cno, 0, &hint) == DAT_SUCCESS) // what was remembered of before
        ;
    CHECK_DONE("cno", "a dispatcher is disabled", dat_evd_disable(evd));
    CHECK_EQ("cno", "... and says so", facts(evd).evd_state, DAT_EVD_STATE_DISABLED | DAT_EVD_STATE_WAITABLE);
    MUST(post(evd, 3));
    CHECK_CODE("cno", "its events wake nobody", dat_cno_wait(cno, 1000, &hint), DAT_QUEUE_EMPTY);
    CHECK_DONE("cno", "... but who waits for it directly", wait_for(evd, 0, 1));
    MUST(post(evd, 4));
    CHECK_DONE("cno", "enabled again", dat_evd_enable(evd));
    CHECK_DONE("cno", "... what it holds wakes", dat_cno_wait(cno, PATIENCE, &hint));
    CHECK("cno", "... and is named", hint == evd);
    drain(evd);
    while (dat_cno_wait(cno, 0, &hint) == DAT_SUCCESS)
        ;
    // Another object.
    MUST(post(evd, 5));
    CHECK_DONE("cno", "a dispatcher is given another object", dat_evd_modify_cno(evd, other));
    CHECK_DONE("cno", "... which hears of what is there", dat_cno_wait(other, PATIENCE, &hint));
    drain(evd);
    while (dat_cno_wait(cno, 0, &hint) == DAT_SUCCESS || dat_cno_wait(other, 0, &hint) == DAT_SUCCESS)
        ;
    CHECK_DONE("cno", "... and none", dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
    MUST(post(evd, 6));
    CHECK_CODE("cno", "then nobody hears", dat_cno_wait(other, 1000, &hint), DAT_QUEUE_EMPTY);
    drain(evd);
    MUST(dat_evd_modify_cno(evd, cno));
    // The direct waiter wins.
    struct waiter direct = {.evd = evd, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1};
    begin_wait(&direct);
    MUST(post(evd, 7));
    end_wait(&direct);
    CHECK_DONE("cno", "who waits for the dispatcher has the event", direct.code);
    CHECK_CODE("cno", "... and the object hears nothing", dat_cno_wait(cno, 1000, &hint), DAT_QUEUE_EMPTY);
    begin_wait(&w);
    CHECK_CODE("cno", "an object on which a thread waits cannot go", dat_cno_free(cno), BAD_STATE(CNO_IN_USE));
    MUST(post(evd, 8));
    end_wait(&w);
    drain(evd);
    while (dat_cno_wait(cno, 0, &hint) == DAT_SUCCESS)
        ;

    chapter("agents");
    DAT_OS_WAIT_PROXY_AGENT proxy = {.instance_data = &agent_calls, .proxy_agent_func = agent};
    CHECK_DONE("cno", "an agent is set", dat_cno_modify_agent(cno, proxy));
    MUST(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &p));
    CHECK("cno", "... and told", p.agent.proxy_agent_func == agent && p.agent.instance_data == &agent_calls);
    MUST(post(evd, 9));
    CHECK("cno", "it is called", agent_ran(1));
    CHECK("cno", "... with its own data and the dispatcher", agent_instance == &agent_calls && agent_saw == evd);
    MUST(dat_evd_dequeue(evd, &event));
    MUST(post(evd, 10));
    MUST(dat_evd_dequeue(evd, &event));
    CHECK_EQ("cno", "... once", agent_calls, 1);
    MUST(dat_cno_modify_agent(cno, proxy));
    // By a completion, which another process causes.
    MUST(dat_evd_modify_cno(near->receives, cno));
    REQUIRE(CALL(near, receive, 0, 64, 1) == 0 && at_far(send_bytes, 0, 8, 0) == 0);
    CHECK("cno", "set again, a completion calls it", agent_ran(2));
    CHECK("cno", "... with its dispatcher", agent_saw == near->receives);
    REQUIRE(CALL(near, received, 1, 8, 1) == 0);
    MUST(dat_evd_modify_cno(near->receives, DAT_HANDLE_NULL));
    MUST(dat_cno_modify_agent(cno, proxy));
    CHECK_DONE("cno", "it is taken away", dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT_NULL));
    MUST(post(evd, 11));
    MUST(dat_evd_dequeue(evd, &event));
    CHECK_EQ("cno", "... and not called", agent_calls, 2);
    MUST(dat_evd_free(evd));
    MUST(dat_evd_free(second));
    CHECK_DONE("cno", "objects without dispatchers go", dat_cno_free(cno));
    CHECK_DONE("cno", "... both", dat_cno_free(other));
    CHECK("cno", "and the connection works", talks());
}

// A completion of the far end wakes a thread that sleeps on a notification object.
static void woken_by_completions(void)
{
    chapter("completions wake");
    DAT_CNO_HANDLE cno;
    MUST(dat_cno_create(near->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
    MUST(dat_evd_modify_cno(near->receives, cno));
    for (int i = 0; i < 20; i++) {
        REQUIRE(CALL(near, receive, 0, 64, i) == 0);
        struct waiter w = {.cno = cno, .timeout = DAT_TIMEOUT_INFINITE};
        begin_wait(&w);
        REQUIRE(at_far(send_bytes, 0, 8, 0) == 0);
        end_wait(&w);
        REQUIRE(w.code == DAT_SUCCESS && w.hint == near->receives);
        REQUIRE(CALL(near, received, 1, 8, i) == 0);
        DAT_EVD_HANDLE hint;
        while (dat_cno_wait(cno, 0, &hint) == DAT_SUCCESS)
            ;
    }
    CHECK("cno", "20 completions wake 20 sleepers", true);
    MUST(dat_evd_modify_cno(near->receives, DAT_HANDLE_NULL));
    MUST(dat_cno_free(cno));
}

// ---- the end of an adapter ----------------------------------------------------------------------------------------

static void closing(void)
{
    chapter("an adapter that closes while threads wait");
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL, waited;
    DAT_CNO_HANDLE cno;
    MUST(dat_ia_open((DAT_NAME_PTR)adapter_name(), 8, &async, &ia));
    MUST(dat_evd_create(ia, 8, NULL, DAT_EVD_SOFTWARE_FLAG, &waited));
    MUST(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
    struct waiter w = {.evd = waited, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1};
    struct waiter a = {.evd = async, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1};
    struct waiter c = {.cno = cno, .timeout = DAT_TIMEOUT_INFINITE};
    begin_wait(&w);
    begin_wait(&a);
    begin_wait(&c);
    CHECK_CODE("ia", "gracefully it does not close", dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
    CHECK_DONE("ia", "abruptly it does", dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
    end_wait(&w);
    end_wait(&a);
    end_wait(&c);
    CHECK_TYPE("ia", "who waited for events is told", w.code, DAT_ABORT);
    CHECK_TYPE("ia", "... and for asynchronous ones", a.code, DAT_ABORT);
    CHECK_CODE("ia", "who waited for a notification is told that there is nothing any more", c.code,
               BAD_STATE(CNO_DEAD));
    CHECK("ia", "... and has no dispatcher", c.hint == DAT_HANDLE_NULL);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    connect_ends();
    making();
    software();
    waiting();
    one_waiter();
    resizing();
    thresholds();
    completions_stay();
    solicited();
    merged();
    overflow();
    notification();
    woken_by_completions();
    closing();
    part();
    return end();
}
