// Threads: connections that each have one, dispatchers that many feed, adapters and endpoints that go while others use them.

#include "ends.h"

#define THREADS 4
#define MESSAGES 600

static void join_all(pthread_t *ids, int count, uintptr_t *sum)
{
    for (int i = 0; i < count; i++) {
        void *result;
        REQUIRE(pthread_join(ids[i], &result) == 0);
        *sum += (uintptr_t)result;
    }
}

// ---- a connection for each thread ---------------------------------------------------------------------------------

struct lane {
    struct end *e;
    int number;
    DAT_EVD_HANDLE receives, requests;
    DAT_EP_HANDLE ep;
    bool first;
};

static struct lane near_lanes[THREADS], far_lanes[THREADS];

// Sends and receives in turn; every message has the number of its turn and of its thread.
static void *play(void *argument)
{
    struct lane *l = argument;
    unsigned char *out = l->e->room + l->number * 4 * PAGE, *in = out + PAGE;
    uintptr_t wrong = 0;
    DAT_LMR_TRIPLET send = piece(l->e->local, out, 16), receive = piece(l->e->local, in, 64);
    for (uint64_t i = 0; i < MESSAGES && !wrong; i++) {
        for (int half = 0; half < 2; half++) {
            if ((half == 0) == l->first) {
                uint64_t message[2] = {i, (uint64_t)l->number};
                memcpy(out, message, 16);
                wrong += dat_ep_post_send(l->ep, 1, &send, cookie(i), DAT_COMPLETION_DEFAULT_FLAG) != DAT_SUCCESS;
                struct done d = next_done(l->requests);
                wrong += d.status != 0 || d.cookie != i || d.ep != l->ep;
            } else {
                struct done d = next_done(l->receives);
                uint64_t message[2];
                memcpy(message, in, 16);
                wrong += d.status != 0 || d.length != 16 || d.ep != l->ep || message[0] != i || message[1] != (uint64_t)l->number;
                wrong += dat_ep_post_recv(l->ep, 1, &receive, cookie(i), DAT_COMPLETION_DEFAULT_FLAG) != DAT_SUCCESS;
            }
        }
    }
    return (void *)wrong;
}

static int64_t play_all(struct end *e, const int64_t *a)
{
    pthread_t ids[THREADS];
    uintptr_t wrong = 0;
    struct lane *lanes = a[0] ? near_lanes : far_lanes;
    (void)e;
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, play, &lanes[i]) == 0);
    join_all(ids, THREADS, &wrong);
    return (int64_t)wrong;
}

static int64_t make_lane(struct end *e, const int64_t *a)
{
    struct lane *l = &(a[1] ? near_lanes : far_lanes)[a[0]];
    *l = (struct lane){.e = e, .number = (int)a[0], .first = a[1]};
    MUST(dat_evd_create(e->ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &l->receives));
    MUST(dat_evd_create(e->ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &l->requests));
    MUST(dat_ep_create(e->ia, e->pz, l->receives, l->requests, e->connections, NULL, &l->ep));
    e->ep = l->ep;
    DAT_LMR_TRIPLET p = piece(e->local, e->room + l->number * 4 * PAGE + PAGE, 64);
    MUST(dat_ep_post_recv(l->ep, 1, &p, cookie(0), DAT_COMPLETION_DEFAULT_FLAG));
    return 0;
}

static int64_t accept_lane(struct end *e, const int64_t *a)
{
    DAT_CR_HANDLE cr = next_request(e);
    CALL(e, make_lane, a[0], 0);
    return -(int64_t)dat_cr_accept(cr, e->ep, 0, NULL);
}

static int64_t drop_lanes(struct end *e, const int64_t *a)
{
    struct lane *lanes = a[0] ? near_lanes : far_lanes;
    for (int i = 0; i < THREADS; i++) {
        MUST(dat_ep_free(lanes[i].ep));
        MUST(dat_evd_free(lanes[i].receives));
        MUST(dat_evd_free(lanes[i].requests));
    }
    e->ep = DAT_HANDLE_NULL;
    drain_end(e);
    return 0;
}

static void lanes(void)
{
    chapter("a connection for each thread");
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    for (int i = 0; i < THREADS; i++) {
        CALL(near, make_lane, i, 1);
        MUST(ask(near, service, PATIENCE, 0, NULL));
        REQUIRE(at_far(accept_lane, i) == 0 && CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED &&
                at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    int64_t far_wrong = 0;
    if (alone) {
        // The far lanes need threads of their own here.
        static struct lane *all = far_lanes;
        pthread_t ids[THREADS];
        uintptr_t wrong = 0;
        for (int i = 0; i < THREADS; i++)
            REQUIRE(pthread_create(&ids[i], NULL, play, &all[i]) == 0);
        CHECK_EQ("threads", "messages of four connections never meet", CALL(near, play_all, 1), 0);
        join_all(ids, THREADS, &wrong);
        far_wrong = (int64_t)wrong;
    } else {
        far_begins(play_all, 0);
        CHECK_EQ("threads", "messages of four connections never meet", CALL(near, play_all, 1), 0);
        far_wrong = far_ends();
    }
    CHECK_EQ("threads", "... at the other end as well", far_wrong, 0);
    at_far(stop_listening);
    CALL(near, drop_lanes, 1);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(at_far(next_connection) == DAT_CONNECTION_EVENT_DISCONNECTED);
    at_far(drop_lanes, 0);
}

// ---- a dispatcher that many feed ----------------------------------------------------------------------------------

static DAT_EVD_HANDLE fed;

static void *feed(void *argument)
{
    uintptr_t number = (uintptr_t)argument, wrong = 0;
    for (uintptr_t i = 0; i < MESSAGES; i++) {
        DAT_EVENT e = {.event_number = DAT_SOFTWARE_EVENT};
        e.event_data.software_event_data.pointer = (void *)(number << 32 | i);
        DAT_RETURN code;
        while (DAT_GET_TYPE(code = dat_evd_post_se(fed, &e)) == DAT_QUEUE_FULL)
            sched_yield();
        wrong += code != DAT_SUCCESS;
    }
    return (void *)wrong;
}

static void many_feed(bool waits)
{
    chapter(waits
            ? "a dispatcher that four threads feed and one waits for" : "a dispatcher that four threads feed and one looks at");
    pthread_t ids[THREADS];
    uintptr_t wrong = 0, next[THREADS] = {0};
    MUST(dat_evd_create(near->ia, 32, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &fed));
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, feed, (void *)i) == 0);
    for (int i = 0; i < THREADS * MESSAGES; i++) {
        DAT_EVENT e;
        polling = !waits;
        REQUIRE(next_event(fed, &e));
        uintptr_t value = (uintptr_t)e.event_data.software_event_data.pointer;
        wrong += value >> 32 >= THREADS || (value & 0xffffffff) != next[value >> 32 & 3]++;
        if (i % 500 == 250) {
            // Refused if more wait just now.
            DAT_RETURN code = dat_evd_resize(fed, 32 + i % 1000);
            wrong += code != DAT_SUCCESS && DAT_GET_TYPE(code) != DAT_INVALID_STATE;
        }
    }
    polling = false;
    join_all(ids, THREADS, &wrong);
    CHECK_EQ("threads", "every event comes once, those of a thread in order", wrong, 0);
    CHECK("threads", "... and then none", is_empty(fed));
    MUST(dat_evd_free(fed));
}

// ---- connecting all at once ---------------------------------------------------------------------------------------

static DAT_CONN_QUAL common_service;

static void *connect_often(void *argument)
{
    struct end own = *near;
    uintptr_t wrong = 0;
    (void)argument;
    MUST(dat_evd_create(near->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &own.connections));
    for (int i = 0; i < 100 && !wrong; i++) {
        CALL(&own, make_endpoint);
        wrong += ask(&own, common_service, PATIENCE, 0, NULL) != DAT_SUCCESS;
        wrong += CALL(&own, next_connection) != DAT_CONNECTION_EVENT_ESTABLISHED;
        wrong += dat_ep_disconnect(own.ep, DAT_CLOSE_ABRUPT_FLAG) != DAT_SUCCESS;
        wrong += CALL(&own, next_connection) != DAT_CONNECTION_EVENT_DISCONNECTED;
        wrong += dat_ep_free(own.ep) != DAT_SUCCESS;
    }
    wrong += dat_evd_free(own.connections) != DAT_SUCCESS;
    return (void *)wrong;
}

// Accepts so many requests, as they come, and waits for the end of each.
static int64_t accept_all(struct end *e, const int64_t *a)
{
    static DAT_EP_HANDLE eps[1000];
    int64_t ended = 0, accepted = 0;
    MUST(dat_evd_resize(e->connections, 2 * (DAT_COUNT)a[0] + 16));
    while (accepted < a[0]) {
        if (CALL(e, accept_next))
            return -1;
        eps[accepted++] = e->ep;
    }
    while (ended < a[0]) {
        int64_t event = CALL(e, next_connection);
        if (event == DAT_CONNECTION_EVENT_DISCONNECTED)
            ended++;
        else if (event != DAT_CONNECTION_EVENT_ESTABLISHED)
            return event;
    }
    for (int i = 0; i < accepted; i++)
        MUST(dat_ep_free(eps[i]));
    e->ep = DAT_HANDLE_NULL;
    return 0;
}

static void *accept_in_thread(void *argument)
{
    (void)argument;
    return (void *)(intptr_t)CALL(&far_end, accept_all, THREADS * 100);
}

static void connecting(void)
{
    chapter("four threads that connect at once");
    pthread_t ids[THREADS], acceptor;
    uintptr_t wrong = 0;
    common_service = (DAT_CONN_QUAL)at_far(listen_any);
    if (alone)
        REQUIRE(pthread_create(&acceptor, NULL, accept_in_thread, NULL) == 0);
    else
        far_begins(accept_all, THREADS * 100);
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, connect_often, (void *)i) == 0);
    join_all(ids, THREADS, &wrong);
    CHECK_EQ("threads", "each has its own 100 connections", wrong, 0);
    if (alone) {
        void *result;
        pthread_join(acceptor, &result);
        CHECK("threads", "... and the other end all of them", result == NULL);
    } else {
        CHECK_EQ("threads", "... and the other end all of them", far_ends(), 0);
    }
    at_far(stop_listening);
}

// ---- what goes while it is used -----------------------------------------------------------------------------------

static DAT_EP_HANDLE going;
static DAT_LMR_HANDLE going_lmr;
static DAT_LMR_CONTEXT going_context;
static bool stop;

// Only codes that make sense may come; nothing may crash.
static void *use_what_goes(void *argument)
{
    uintptr_t odd = 0;
    (void)argument;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        DAT_LMR_TRIPLET p = piece(__atomic_load_n(&going_context, __ATOMIC_ACQUIRE), near->room, 8);
        DAT_RMR_TRIPLET t = target(near->remote, address_of(near->room), 8);
        DAT_EP_HANDLE ep = __atomic_load_n(&going, __ATOMIC_ACQUIRE);
        DAT_EP_PARAM param;
        DAT_LMR_PARAM lmr;
        DAT_RETURN codes[] = {dat_ep_post_recv(ep, 1, &p, cookie(1), 0),
                              dat_ep_post_rdma_write(ep, 1, &p, cookie(2), &t, 0),
                              dat_ep_query(ep, DAT_EP_FIELD_ALL, &param), dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG),
                              dat_lmr_query(__atomic_load_n(&going_lmr, __ATOMIC_ACQUIRE), DAT_LMR_FIELD_ALL, &lmr),
                              dat_lmr_sync_rdma_write(near->ia, &p, 1)};
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
            DAT_RETURN type = DAT_GET_TYPE(codes[i]);
            odd += type == DAT_INTERNAL_ERROR || type > DAT_CONN_QUAL_UNAVAILABLE;
        }
        sched_yield(); // the turn of who frees them, on one CPU
    }
    return (void *)odd;
}

static void going_away(void)
{
    chapter("objects that go while threads use them");
    pthread_t ids[2];
    uintptr_t odd = 0;
    DAT_REGION_DESCRIPTION memory = {.for_va = near->room};
    DAT_EVD_HANDLE events;
    MUST(dat_evd_create(near->ia, 4096, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, &events));
    for (uintptr_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&ids[i], NULL, use_what_goes, NULL) == 0);
    for (int i = 0; i < 300; i++) {
        DAT_EP_HANDLE ep;
        DAT_LMR_HANDLE lmr;
        DAT_LMR_CONTEXT context;
        MUST(dat_ep_create(near->ia, near->pz, events, events, events, NULL, &ep));
        MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, memory, PAGE, near->pz, ALL_PRIVILEGES, &lmr, &context,
                            NULL, NULL, NULL));
        __atomic_store_n(&going_context, context, __ATOMIC_RELEASE);
        __atomic_store_n(&going_lmr, lmr, __ATOMIC_RELEASE);
        __atomic_store_n(&going, ep, __ATOMIC_RELEASE);
        for (int k = 0; k < 5; k++)
            sched_yield();
        MUST(dat_lmr_free(lmr));
        MUST(dat_ep_free(ep));
        drain(events);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    join_all(ids, 2, &odd);
    CHECK_EQ("threads", "they are refused or served, and nothing else", odd, 0);
    drain(events);
    MUST(dat_evd_free(events));
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    lanes();
    many_feed(true);
    many_feed(false);
    connecting();
    going_away();
    connect_ends();
    CHECK("threads", "after all that a connection works", talks());
    part();
    return end();
}
