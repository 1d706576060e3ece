// Threads that are cancelled (pthread_cancel(3)): in the two calls that wait, where they leave everything in order, and in
// every other call, which none of them notices before it is over.
//
// Usage: cancelled ROUNDS SEED

#include "own_pair.h"

#include <pthread.h>

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 11) % limit);
}

static struct ibv_qp *pair[2];  // connected to each other
static struct ibv_srq *srq;

// ---- calls that wait --------------------------------------------------------------------------------------------

enum how { CHANNEL, ASYNC };

struct waiter {
    pthread_t thread;
    enum how how;
    bool waits, got, cleaned;
};

static void cleaned(void *argument)
{
    ((struct waiter *)argument)->cleaned = true;
}

static void *wait_for_event(void *argument)
{
    struct waiter *w = argument;
    struct ibv_async_event event;
    struct ibv_cq *which;
    void *unused;
    pthread_cleanup_push(cleaned, w);
    __atomic_store_n(&w->waits, true, __ATOMIC_SEQ_CST);
    if (w->how == CHANNEL ? ibv_get_cq_event(channel, &which, &unused) == 0 : ibv_get_async_event(context, &event) == 0) {
        w->got = true;
        if (w->how == CHANNEL)
            ibv_ack_cq_events(which, 1);
        else
            ibv_ack_async_event(&event);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void start(struct waiter *w, enum how how)
{
    *w = (struct waiter){.how = how};
    REQUIRE(pthread_create(&w->thread, NULL, wait_for_event, w) == 0);
    while (!__atomic_load_n(&w->waits, __ATOMIC_SEQ_CST))
        sched_yield();
}

// Whether it was cancelled, and not too late.
static bool cancel(struct waiter *w)
{
    void *result;
    REQUIRE(pthread_cancel(w->thread) == 0);
    REQUIRE(pthread_join(w->thread, &result) == 0);
    bool is_cancelled = result == PTHREAD_CANCELED;
    REQUIRE(is_cancelled == w->cleaned);
    REQUIRE(is_cancelled != w->got);
    return is_cancelled;
}

static struct ibv_qp *spent;  // raised the last asynchronous event

// Has an event come, on the channel or the context.
static void cause(enum how how)
{
    if (how == CHANNEL) {
        REQUIRE(post_receive(pair[1], 1, piece(buffer, 64, mr->lkey)) == 0);
        REQUIRE(post(pair[0], 2, IBV_WR_SEND, piece(buffer, 64, mr->lkey), 0, 0) == 0);
    } else {
        // It takes no more from its shared receive queue.
        struct ibv_qp *with_srq;
        REQUIRE(with_srq = new_qp(srq));
        struct node n = node_of(with_srq);
        struct card there = card_of(&n);
        struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
        REQUIRE(to_init(&n) == 0 && to_rtr(&n, &there) == 0);
        REQUIRE(ibv_modify_qp(with_srq, &error, IBV_QP_STATE) == 0);
        spent = with_srq;
    }
}

static int drained(struct ibv_cq *queue)
{
    struct ibv_wc wc;
    int count = 0, n;
    while ((n = ibv_poll_cq(queue, 1, &wc)) > 0)
        count++;
    return n < 0 ? n : count;
}

static void is_cancelled_asleep(enum how how, int rounds)
{
    struct waiter w[3];
    int cancelled = 0;
    for (int i = 0; i < rounds; i++) {
        // One drives the device while it waits, the others sleep.
        for (int k = 0; k < 3; k++)
            start(&w[k], how);
        if (i % 4)
            usleep(random_below(300));
        for (int k = 0; k < 3; k++)
            cancelled += cancel(&w[(i + k) % 3]);
    }
    CHECK_EQ("cancel", "every thread that waits for an event is cancelled", cancelled, 3 * rounds);
}

// A thread is cancelled at about the moment at which an event comes: it got it, or the next who asks does.
static void no_event_is_lost(enum how how, int rounds)
{
    int got = 0, left = 0;
    for (int i = 0; i < rounds; i++) {
        struct waiter w, next;
        if (how == CHANNEL)
            REQUIRE(ibv_req_notify_cq(cq, 0) == 0);
        start(&w, how);
        usleep(random_below(100));
        cause(how);
        for (uint32_t spin = random_below(3000); spin > 0; spin--)
            __asm__ volatile("pause");
        if (cancel(&w)) {
            left++;
            start(&next, how);
            REQUIRE(pthread_join(next.thread, NULL) == 0);
            REQUIRE(next.got);
        } else {
            got++;
        }
        if (how == CHANNEL) {
            for (int done = 0; done < 2;)
                done += drained(cq);
        } else {
            REQUIRE(ibv_destroy_qp(spent) == 0);
        }
        struct pollfd p = {.fd = how == CHANNEL ? channel->fd : context->async_fd, .events = POLLIN};
        while (how == ASYNC && poll(&p, 1, 0) == 1)
            next_event(context);
    }
    printf("  %d threads got the event, %d were cancelled and left it\n", got, left);
    CHECK_EQ("cancel", "an event goes to a thread that is not cancelled", got + left, rounds);
}

// ---- every other call -------------------------------------------------------------------------------------------

static void *is_no_point(void *argument)
{
    bool *over = argument;
    int before;
    // From here on the request is pending, and the first point of cancellation ends the thread.
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *own = list ? ibv_open_device(list[0]) : NULL;
    struct ibv_device_attr attributes;
    struct ibv_port_attr port;
    union ibv_gid gid;
    struct ibv_wc wc;
    unsigned char *memory = malloc(1 << 20);
    struct ibv_pd *own_pd = own ? ibv_alloc_pd(own) : NULL;
    bool good = own && own_pd && memory;
    good = good && !ibv_query_device(own, &attributes) && !ibv_query_port(own, 1, &port) && !ibv_query_gid(own, 1, 0, &gid);
    ibv_free_device_list(list);
    struct ibv_comp_channel *own_channel = good ? ibv_create_comp_channel(own) : NULL;
    struct ibv_cq *own_cq = own_channel ? ibv_create_cq(own, 16, NULL, own_channel, 0) : NULL;
    struct ibv_mr *own_mr = own_cq ? ibv_reg_mr(own_pd, memory, 1 << 20, ALL_REMOTE) : NULL;
    good = own_mr && !ibv_dereg_mr(own_mr);
    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_srq *own_srq = good ? ibv_create_srq(own_pd, &srq_init) : NULL;
    struct ibv_qp_init_attr init = {
        .send_cq = own_cq, .recv_cq = own_cq, .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *qp = own_srq ? ibv_create_qp(own_pd, &init) : NULL;
    good = qp != NULL;
    if (good) {
        struct node n = node_of(qp);
        struct ibv_qp_attr asked;
        good = to_init(&n) == 0 && !ibv_query_qp(qp, &asked, IBV_QP_STATE, &init);
    }
    good = good && !ibv_req_notify_cq(own_cq, 0) && ibv_poll_cq(own_cq, 1, &wc) == 0;
    // To a queue pair that another thread's program has connected.
    good = good && post_receive(pair[1], 7, piece(buffer, 64, mr->lkey)) == 0;
    good = good && post(pair[0], 8, IBV_WR_SEND, piece(buffer, 64, mr->lkey), 0, 0) == 0;
    for (int done = 0; good && done < 2;)
        done += drained(cq);
    good = good && !ibv_destroy_qp(qp) && !ibv_destroy_srq(own_srq) && !ibv_destroy_cq(own_cq);
    good = good && !ibv_destroy_comp_channel(own_channel) && !ibv_dealloc_pd(own_pd) && !ibv_close_device(own);
    free(memory);
    *over = good;
    pthread_testcancel();
    *over = false;
    return NULL;
}

static void nothing_else_is_one(void)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        bool over = false;
        void *result;
        REQUIRE(pthread_create(&thread, NULL, is_no_point, &over) == 0);
        REQUIRE(pthread_join(thread, &result) == 0);
        if (!over || result != PTHREAD_CANCELED || i == 19) {
            CHECK("cancel", "no other call is a point of cancellation", over && result == PTHREAD_CANCELED);
            return;
        }
    }
}

// ---- objects destroyed under those who wait ---------------------------------------------------------------------

static uint64_t events;

static void *take_events(void *argument)
{
    enum how how = *(enum how *)argument;
    for (;;) {
        struct ibv_async_event event;
        struct ibv_cq *which;
        void *unused;
        if (how == CHANNEL) {
            if (ibv_get_cq_event(channel, &which, &unused))
                return NULL;
            ibv_ack_cq_events(which, 1);
        } else {
            if (ibv_get_async_event(context, &event))
                return NULL;
            ibv_ack_async_event(&event);
        }
        __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
    }
}

// Every kind of object is destroyed with an event under way to threads that wait for it.
static void nobody_stands_still_at_the_end_of_objects(int rounds)
{
    pthread_t threads[4];
    enum how hows[4] = {CHANNEL, ASYNC, CHANNEL, ASYNC};
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, take_events, &hows[i]) == 0);
    for (int i = 0; i < rounds; i++) {
        struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
        struct ibv_cq *own;
        struct ibv_srq *shared;
        struct ibv_qp *qps[2];
        REQUIRE(own = ibv_create_cq(context, 16, NULL, channel, 0));
        REQUIRE(shared = ibv_create_srq(pd, &init));
        for (int k = 0; k < 2; k++) {
            struct ibv_qp_init_attr attributes = {
                .send_cq = own, .recv_cq = own, .srq = k ? shared : NULL, .qp_type = IBV_QPT_RC,
                .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
            };
            REQUIRE(qps[k] = ibv_create_qp(pd, &attributes));
        }
        connect_to(qps[0], qps[1]);
        connect_to(qps[1], qps[0]);
        // Its limit is reached by the send.
        struct ibv_recv_wr receive = {.wr_id = 1}, *bad;
        struct ibv_srq_attr limit = {.srq_limit = 1};
        REQUIRE(ibv_post_srq_recv(shared, &receive, &bad) == 0);
        REQUIRE(ibv_modify_srq(shared, &limit, IBV_SRQ_LIMIT) == 0);
        REQUIRE(ibv_req_notify_cq(own, 0) == 0);
        REQUIRE(post(qps[0], 2, IBV_WR_SEND, piece(NULL, 0, 0), 0, 0) == 0);
        if (i % 2)
            for (int count = 0; count < 2;)
                count += drained(own);
        struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
        REQUIRE(ibv_modify_qp(qps[1], &error, IBV_QP_STATE) == 0);
        for (uint32_t spin = random_below(2000); spin > 0; spin--)
            __asm__ volatile("pause");
        REQUIRE(ibv_destroy_qp(qps[1]) == 0);
        REQUIRE(ibv_destroy_qp(qps[0]) == 0);
        REQUIRE(ibv_destroy_srq(shared) == 0);
        REQUIRE(ibv_destroy_cq(own) == 0);
    }
    for (int i = 0; i < 4; i++) {
        void *result;
        REQUIRE(pthread_cancel(threads[i]) == 0);
        REQUIRE(pthread_join(threads[i], &result) == 0);
        REQUIRE(result == PTHREAD_CANCELED);
    }
    printf("  %d objects of each kind destroyed, %llu events taken meanwhile\n", rounds, (unsigned long long)events);
    CHECK("cancel", "objects end under threads that wait for their events", events > 0);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 0;
    if (argc != 3 || rounds <= 0) {
        fprintf(stderr, "usage: cancelled ROUNDS SEED\n");
        return 2;
    }
    random_state = strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15u + 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
    context = open_device();
    REQUIRE(pd = ibv_alloc_pd(context));
    REQUIRE(channel = ibv_create_comp_channel(context));
    REQUIRE(cq = ibv_create_cq(context, 64, NULL, channel, 0));
    REQUIRE(srq = ibv_create_srq(pd, &init));
    REQUIRE(posix_memalign((void **)&buffer, 4096, 4096) == 0);
    REQUIRE(mr = ibv_reg_mr(pd, buffer, 4096, ALL_REMOTE));
    REQUIRE((pair[0] = new_qp(NULL)) && (pair[1] = new_qp(NULL)));
    connect_to(pair[0], pair[1]);
    connect_to(pair[1], pair[0]);
    is_cancelled_asleep(CHANNEL, rounds);
    is_cancelled_asleep(ASYNC, rounds);
    no_event_is_lost(CHANNEL, 2 * rounds);
    no_event_is_lost(ASYNC, 2 * rounds);
    nothing_else_is_one();
    nobody_stands_still_at_the_end_of_objects(5 * rounds);
    REQUIRE(ibv_destroy_qp(pair[0]) == 0 && ibv_destroy_qp(pair[1]) == 0);
    REQUIRE(ibv_destroy_srq(srq) == 0 && ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
    REQUIRE(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    return finish_alone();
}
