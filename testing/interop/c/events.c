// Completion channels, solicited events, asynchronous events, the shared receive queue, and what a datagram's
// receiver is told, between two processes.
//
// proves: verbs-abi 4 (descriptors obey O_NONBLOCK, poll and epoll, and are never writable), 6 (notification, overrun),
//         7.4 (UD's 40 bytes), 7.5 (shared receive queues), 7.6 (asynchronous events)

#include "common.h"

#include <pthread.h>
#include <sys/epoll.h>

// Never is it writable, as a program may ask (libuv's UV_READABLE | UV_WRITABLE): it would not sleep then.
static bool readable(int fd, int wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
    int ready = poll(&p, 1, wait_ms);
    REQUIRE(ready == 0 || (ready == 1 && p.revents == POLLIN));
    return ready == 1;
}

static void set_nonblocking(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    REQUIRE(flags >= 0 && fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0);
}

// Takes one event and acknowledges it; says whether it was for this queue.
static bool take_event(struct ibv_comp_channel *channel, struct ibv_cq *expected, void *expected_context)
{
    struct ibv_cq *cq = NULL;
    void *context = NULL;
    if (ibv_get_cq_event(channel, &cq, &context))
        return false;
    ibv_ack_cq_events(cq, 1);
    return cq == expected && context == expected_context;
}

static int send_flagged(struct node *n, uint64_t id, uint32_t length, int flags)
{
    struct ibv_sge sge = piece(n->buffer, length, n->mr->lkey);
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED | flags}, *bad;
    return ibv_post_send(n->qp, &wr, &bad);
}

// One send from the active side, seen complete there. The passive side has a receive for it.
static void one_message(struct node *n, int flags)
{
    if (!self.active)
        REQUIRE(post_receive(n->qp, 1, piece(n->buffer, 64, n->mr->lkey)) == 0);
    meet();
    if (self.active) {
        REQUIRE(send_flagged(n, 1, 16, flags) == 0);
        REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
    }
}

// A node whose receive queue reports to a channel; `n->channel` is that channel and the queue's context is the node.
static void attach_channel(struct node *n)
{
    drop_qp(n);
    REQUIRE(ibv_destroy_cq(n->recv_cq) == 0);
    REQUIRE(n->channel = ibv_create_comp_channel(n->context));
    REQUIRE(n->recv_cq = ibv_create_cq(n->context, 128, n, n->channel, 0));
}

// ---- completion channels (4, 6) ----------------------------------------------------------------------------------

static void an_armed_queue_tells_of_the_next_completion(struct node *n)
{
    bring_up(n);
    if (!self.active) {
        CHECK_EQ("6", "req_notify_cq returns 0", ibv_req_notify_cq(n->recv_cq, 0), 0);
        CHECK("6", "arming alone causes no event", !readable(n->channel->fd, 0));
    }
    one_message(n, 0);
    if (!self.active) {
        CHECK("6", "the next completion makes the descriptor readable", readable(n->channel->fd, PATIENCE_MS));
        CHECK("6", "get_cq_event names the queue and its context", take_event(n->channel, n->recv_cq, n));
        CHECK_EQ("6", "the completion is there", next_completion(n->recv_cq).status, IBV_WC_SUCCESS);
        CHECK("6", "one arming gives one event", !readable(n->channel->fd, 0));
    }
    meet();
    // Not armed: no event for a completion. The completion itself proves that it could have come.
    one_message(n, 0);
    if (!self.active) {
        CHECK_EQ("6", "a queue that is not armed still completes", next_completion(n->recv_cq).status, IBV_WC_SUCCESS);
        CHECK("6", "and causes no event", !readable(n->channel->fd, 0));
        REQUIRE(ibv_req_notify_cq(n->recv_cq, 0) == 0);
    }
    meet();
    // A program asleep in get_cq_event is woken.
    one_message(n, 0);
    if (!self.active) {
        CHECK("6", "a program asleep on the channel is woken", take_event(n->channel, n->recv_cq, n));
        REQUIRE(next_completion(n->recv_cq).status == IBV_WC_SUCCESS);
    }
    meet();
    if (self.active)
        CHECK_EQ("6", "without a channel req_notify_cq answers 0", ibv_req_notify_cq(n->send_cq, 0), 0);
    meet();
}

static void only_solicited_completions_wake_who_asked_for_them(struct node *n)
{
    bring_up(n);
    if (!self.active)
        REQUIRE(ibv_req_notify_cq(n->recv_cq, 1) == 0);
    one_message(n, 0);
    if (!self.active) {
        CHECK_EQ("6", "an unsolicited message completes", next_completion(n->recv_cq).status, IBV_WC_SUCCESS);
        CHECK("6", "and causes no event where solicited ones were asked for", !readable(n->channel->fd, 0));
    }
    meet();
    one_message(n, IBV_SEND_SOLICITED);
    if (!self.active) {
        CHECK("6", "a solicited one causes it", readable(n->channel->fd, PATIENCE_MS));
        REQUIRE(take_event(n->channel, n->recv_cq, n));
        REQUIRE(next_completion(n->recv_cq).status == IBV_WC_SUCCESS);
        REQUIRE(ibv_req_notify_cq(n->recv_cq, 1) == 0);
        REQUIRE(ibv_req_notify_cq(n->recv_cq, 0) == 0);
        REQUIRE(ibv_req_notify_cq(n->recv_cq, 1) == 0);
    }
    meet();
    one_message(n, 0);
    if (!self.active) {
        CHECK("6", "arming both kinds gives the wider one", readable(n->channel->fd, PATIENCE_MS));
        REQUIRE(take_event(n->channel, n->recv_cq, n));
        REQUIRE(next_completion(n->recv_cq).status == IBV_WC_SUCCESS);
        REQUIRE(ibv_req_notify_cq(n->recv_cq, 1) == 0);
        REQUIRE(post_receive(n->qp, 5, piece(n->buffer, 64, n->mr->lkey)) == 0);
        struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
        REQUIRE(ibv_modify_qp(n->qp, &err, IBV_QP_STATE) == 0);
        CHECK("6", "an error completion counts as solicited", readable(n->channel->fd, PATIENCE_MS));
        REQUIRE(take_event(n->channel, n->recv_cq, n));
        CHECK_EQ("6", "and is the flushed receive", next_completion(n->recv_cq).status, IBV_WC_WR_FLUSH_ERR);
    }
    meet();
}

static void the_channel_is_a_good_descriptor(struct node *n)
{
    bring_up(n);
    int level = epoll_create1(EPOLL_CLOEXEC), edge = epoll_create1(EPOLL_CLOEXEC);
    REQUIRE(level >= 0 && edge >= 0);
    struct epoll_event on_level = {.events = EPOLLIN}, on_edge = {.events = EPOLLIN | EPOLLET}, got;
    REQUIRE(epoll_ctl(level, EPOLL_CTL_ADD, n->channel->fd, &on_level) == 0);
    REQUIRE(epoll_ctl(edge, EPOLL_CTL_ADD, n->channel->fd, &on_edge) == 0);
    struct ibv_cq *cq;
    void *context;

    set_nonblocking(n->channel->fd, true);
    errno = 0;
    CHECK_EQ("4", "with O_NONBLOCK and no event get_cq_event returns -1", ibv_get_cq_event(n->channel, &cq, &context),
             -1);
    CHECK_EQ("4", "and errno says EAGAIN", errno, EAGAIN);
    for (int round = 0; round < 3; round++) {
        if (!self.active)
            REQUIRE(ibv_req_notify_cq(n->recv_cq, 0) == 0);
        one_message(n, 0);
        if (!self.active) {
            CHECK_EQ("4", "epoll, edge triggered, reports the event", epoll_wait(edge, &got, 1, PATIENCE_MS), 1);
            CHECK_EQ("4", "once", epoll_wait(edge, &got, 1, 0), 0);
            CHECK_EQ("4", "epoll, level triggered, reports it", epoll_wait(level, &got, 1, PATIENCE_MS), 1);
            CHECK_EQ("4", "again and again", epoll_wait(level, &got, 1, 0), 1);
            CHECK("4", "with O_NONBLOCK an event that is there is taken", take_event(n->channel, n->recv_cq, n));
            CHECK_EQ("4", "after which level triggered epoll is silent", epoll_wait(level, &got, 1, 0), 0);
            errno = 0;
            CHECK_EQ("4", "and a further get says -1", ibv_get_cq_event(n->channel, &cq, &context), -1);
            CHECK_EQ("4", "with EAGAIN", errno, EAGAIN);
            REQUIRE(next_completion(n->recv_cq).status == IBV_WC_SUCCESS);
        }
        meet();
    }
    set_nonblocking(n->channel->fd, false);
    close(level);
    close(edge);
}

struct late_ack {
    struct ibv_cq *cq;
    struct ibv_async_event event;
    int64_t acked_ns;
};

static void *ack_cq_late(void *argument)
{
    struct late_ack *late = argument;
    struct timespec a_while = {.tv_nsec = 100000000};
    nanosleep(&a_while, NULL);
    late->acked_ns = now_ns();
    ibv_ack_cq_events(late->cq, 1);
    return NULL;
}

static void *ack_async_late(void *argument)
{
    struct late_ack *late = argument;
    struct timespec a_while = {.tv_nsec = 100000000};
    nanosleep(&a_while, NULL);
    late->acked_ns = now_ns();
    ibv_ack_async_event(&late->event);
    return NULL;
}

static void destroying_a_queue_waits_for_acknowledgements(struct node *n)
{
    bring_up(n);
    if (!self.active)
        REQUIRE(ibv_req_notify_cq(n->recv_cq, 0) == 0);
    one_message(n, 0);
    if (!self.active) {
        struct late_ack late = {0};
        void *context;
        pthread_t thread;
        REQUIRE(ibv_get_cq_event(n->channel, &late.cq, &context) == 0);
        drop_qp(n);
        REQUIRE(pthread_create(&thread, NULL, ack_cq_late, &late) == 0);
        CHECK_EQ("6", "destroy_cq returns 0", ibv_destroy_cq(n->recv_cq), 0);
        int64_t destroyed_ns = now_ns();
        pthread_join(thread, NULL);
        CHECK("6", "but not before its event is acknowledged", destroyed_ns >= late.acked_ns);
        REQUIRE(n->recv_cq = ibv_create_cq(n->context, 128, n, n->channel, 0));
    }
    meet();
}

// ---- overrun (6, 7.6) --------------------------------------------------------------------------------------------

static void an_overrun_queue_says_so(struct node *n)
{
    enum { MANY = 24 };
    bring_up(n);
    drain_events(n->context);
    if (!self.active) {
        struct ibv_cq *small = ibv_create_cq(n->context, 1, NULL, NULL, 0), *kept = n->recv_cq;
        REQUIRE(small);
        n->recv_cq = small;
        drop_qp(n);
        n->cap.max_recv_wr = 4096;
        int room = small->cqe;
        give(&room, sizeof room);
        bring_up(n);
        for (int i = 0; i < room + MANY && i < 4096; i++)
            REQUIRE(post_receive(n->qp, i, piece(n->buffer, 64, n->mr->lkey)) == 0);
        meet();
        struct ibv_async_event event = next_event(n->context);
        CHECK_EQ("6", "a completion queue that overruns raises CQ_ERR", event.event_type, IBV_EVENT_CQ_ERR);
        CHECK("7.6", "which names the queue", event.element.cq == small);
        meet();
        n->recv_cq = kept;
        int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
        while (state_of(n->qp) != IBV_QPS_ERR && now_ns() < deadline)
            sched_yield();
        CHECK_EQ("6", "and takes its queue pairs to ERR", state_of(n->qp), IBV_QPS_ERR);
        drain_events(n->context);
        drop_qp(n);
        CHECK_EQ("6", "an overrun queue can be destroyed", ibv_destroy_cq(small), 0);
        n->cap.max_recv_wr = 32;
    } else {
        int room;
        take(&room, sizeof room);
        bring_up(n);
        meet();
        int outstanding = 0;
        for (int i = 0; i < room + MANY; i++) {
            if (send_flagged(n, i, 8, 0))
                break;
            if (++outstanding == 16) {
                if (next_completion(n->send_cq).status != IBV_WC_SUCCESS)
                    break;
                outstanding--;
            }
        }
        meet();
        drop_qp(n);
    }
    meet();
}

// ---- asynchronous events (4, 7.6) --------------------------------------------------------------------------------

static void the_async_descriptor_is_a_good_one(struct node *n)
{
    struct ibv_async_event event;
    drain_events(n->context);
    set_nonblocking(n->context->async_fd, true);
    errno = 0;
    CHECK_EQ("4", "with O_NONBLOCK and no event get_async_event returns -1", ibv_get_async_event(n->context, &event), -1);
    CHECK_EQ("4", "and errno says EAGAIN", errno, EAGAIN);
    set_nonblocking(n->context->async_fd, false);
    CHECK("4", "an async descriptor without events is not readable", !readable(n->context->async_fd, 0));
}

static void destroying_a_queue_pair_waits_for_its_event(struct node *n)
{
    struct card theirs = bring_up(n);
    drain_events(n->context);
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 8, n->mr->lkey), theirs.address, 0xdeadbeef) == 0);
        REQUIRE(next_completion(n->send_cq).status == IBV_WC_REM_ACCESS_ERR);
    } else {
        struct late_ack late = {0};
        pthread_t thread;
        CHECK("4", "an event makes the async descriptor readable", readable(n->context->async_fd, PATIENCE_MS));
        REQUIRE(ibv_get_async_event(n->context, &late.event) == 0);
        CHECK("7.6", "a refused access is QP_ACCESS_ERR of that queue pair",
              late.event.event_type == IBV_EVENT_QP_ACCESS_ERR && late.event.element.qp == n->qp);
        REQUIRE(pthread_create(&thread, NULL, ack_async_late, &late) == 0);
        CHECK_EQ("7.6", "destroy_qp returns 0", ibv_destroy_qp(n->qp), 0);
        int64_t destroyed_ns = now_ns();
        n->qp = NULL;
        pthread_join(thread, NULL);
        CHECK("7.6", "but not before its event is acknowledged", destroyed_ns >= late.acked_ns);
    }
    meet();
}

static void the_first_packet_in_rtr_is_communication_established(struct node *n)
{
    drop_qp(n);
    REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
    drain_events(n->context);
    struct card ours = card_of(n), theirs;
    swap_values(&ours, &theirs, sizeof ours);
    REQUIRE(to_init(n) == 0);
    REQUIRE(post_receive(n->qp, 1, piece(n->buffer, 64, n->mr->lkey)) == 0);
    REQUIRE(to_rtr(n, &theirs) == 0);
    meet();
    if (self.active) {
        REQUIRE(to_rts(n, ours.psn) == 0);
        REQUIRE(send_flagged(n, 1, 16, 0) == 0);
        CHECK_EQ("7.2", "a send to a queue pair in RTR succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        struct ibv_async_event event = next_event(n->context);
        CHECK_EQ("7.6", "the first packet that arrives in RTR raises COMM_EST", event.event_type, IBV_EVENT_COMM_EST);
        CHECK("7.6", "of that queue pair", event.element.qp == n->qp);
        CHECK_EQ("7.2", "and the receive is filled in RTR", next_completion(n->recv_cq).status, IBV_WC_SUCCESS);
        CHECK_EQ("7.2", "it can go to RTS", to_rts(n, ours.psn), 0);
    }
    meet();
}

// ---- shared receive queues (7.5) ---------------------------------------------------------------------------------

static int resize(struct node *n, unsigned max_wr, unsigned limit, int mask)
{
    struct ibv_srq_attr attr = {.max_wr = max_wr, .srq_limit = limit};
    return ibv_modify_srq(n->srq, &attr, mask);
}

static bool size_and_limit_are(struct node *n, unsigned max_wr, unsigned limit)
{
    struct ibv_srq_attr attr = {0};
    REQUIRE(ibv_query_srq(n->srq, &attr) == 0);
    return attr.max_wr == max_wr && attr.srq_limit == limit;
}

// The queue holds five receives and has limit three, and so it is afterwards.
static void resize_around_five_receives(struct node *n, const struct ibv_srq_init_attr *init)
{
    const int both = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
    unsigned size = init->attr.max_wr;
    struct ibv_device_attr device;
    REQUIRE(ibv_query_device(n->context, &device) == 0);
    if (!(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE)) {
        CHECK_EITHER("7.5", "without SRQ_RESIZE a new size is EINVAL or EOPNOTSUPP", resize(n, 64, 0, IBV_SRQ_MAX_WR),
                     EINVAL, EOPNOTSUPP);
        return;
    }
    CHECK_EQ("7.5", "a size below the receives that wait is EINVAL", resize(n, 4, 0, IBV_SRQ_MAX_WR), EINVAL);
    CHECK_EQ("7.5", "a size of 0 is EINVAL", resize(n, 0, 0, IBV_SRQ_MAX_WR), EINVAL);
    CHECK_EQ("7.5", "a size above max_srq_wr is EINVAL", resize(n, device.max_srq_wr + 1, 0, IBV_SRQ_MAX_WR), EINVAL);
    CHECK_EQ("7.5", "a good size with a limit above it is EINVAL", resize(n, 64, 65, both), EINVAL);
    CHECK_EQ("7.5", "a good limit with a bad size is EINVAL", resize(n, 4, 1, both), EINVAL);
    CHECK_EQ("7.5", "an unknown bit beside a good size is EINVAL", resize(n, 64, 0, IBV_SRQ_MAX_WR | 1 << 7), EINVAL);
    CHECK("7.5", "and none of them changed anything", size_and_limit_are(n, size, 3));
    CHECK_EQ("7.5", "a queue grows", resize(n, 64, 0, IBV_SRQ_MAX_WR), 0);
    CHECK("7.5", "and keeps its limit", size_and_limit_are(n, 64, 3));
    CHECK_EQ("7.5", "it shrinks to what it holds, and takes a limit", resize(n, 5, 5, both), 0);
    CHECK("7.5", "both at once", size_and_limit_are(n, 5, 5));
    struct ibv_sge sge = piece(n->buffer, 64, n->mr->lkey);
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad = NULL;
    CHECK_EQ("7.5", "and is full then", ibv_post_srq_recv(n->srq, &wr, &bad), ENOMEM);
    CHECK_EQ("7.5", "a size below the armed limit is EINVAL", resize(n, 4, 0, IBV_SRQ_MAX_WR), EINVAL);
    CHECK_EQ("7.5", "it grows with a limit that only the new size allows", resize(n, size, 3, both), 0);
    CHECK("7.5", "as it was at first", size_and_limit_are(n, size, 3));
}

static void a_shared_queue_serves_counts_and_warns(struct node *n)
{
    struct ibv_srq_init_attr init = {.srq_context = n, .attr = {.max_wr = 16, .max_sge = 1}};
    struct ibv_srq_attr attr = {.srq_limit = 3};
    struct ibv_recv_wr wr = {0}, *bad;
    struct ibv_sge sge = piece(n->buffer, 64, n->mr->lkey);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (!self.active)
        REQUIRE(n->srq = ibv_create_srq(n->pd, &init));
    bring_up(n);
    drain_events(n->context);
    if (!self.active) {
        for (int i = 0; i < 5; i++) {
            wr.wr_id = 100 + i;
            REQUIRE(ibv_post_srq_recv(n->srq, &wr, &bad) == 0);
        }
        CHECK_EQ("7.5", "modify_srq arms a limit", ibv_modify_srq(n->srq, &attr, IBV_SRQ_LIMIT), 0);
        memset(&attr, 0, sizeof attr);
        CHECK_EQ("7.5", "query_srq returns 0", ibv_query_srq(n->srq, &attr), 0);
        CHECK("7.5", "and tells limit and size", attr.srq_limit == 3 && attr.max_wr >= 16);
        attr.srq_limit = init.attr.max_wr + 1;
        CHECK_EQ("7.5", "a limit above the size is EINVAL", ibv_modify_srq(n->srq, &attr, IBV_SRQ_LIMIT), EINVAL);
        resize_around_five_receives(n, &init);
        CHECK("7.5", "with five receives and limit three there is no event", !readable(n->context->async_fd, 0));
    }
    meet();
    for (int i = 0; i < 3; i++) {
        if (self.active) {
            REQUIRE(send_flagged(n, i, 16, 0) == 0);
            REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
        } else {
            struct ibv_wc wc = next_completion(n->recv_cq);
            CHECK("7.5", "a message takes a receive of the shared queue",
                  wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)(100 + i) && wc.qp_num == n->qp->qp_num);
            if (i == 1)
                CHECK("7.5", "with exactly the limit left there is no event yet", !readable(n->context->async_fd, 0));
        }
        meet();
    }
    if (!self.active) {
        struct ibv_async_event event = next_event(n->context);
        CHECK_EQ("7.5", "below the limit SRQ_LIMIT_REACHED comes", event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
        CHECK("7.6", "of that queue", event.element.srq == n->srq);
        REQUIRE(ibv_query_srq(n->srq, &attr) == 0);
        CHECK_EQ("7.5", "once: the limit is disarmed", attr.srq_limit, 0);

        struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
        struct ibv_wc wc;
        REQUIRE(ibv_modify_qp(n->qp, &err, IBV_QP_STATE) == 0);
        event = next_event(n->context);
        CHECK_EQ("7.5", "a queue pair of a shared queue that enters ERR raises QP_LAST_WQE_REACHED", event.event_type,
                 IBV_EVENT_QP_LAST_WQE_REACHED);
        CHECK("7.6", "of that queue pair", event.element.qp == n->qp);
        CHECK_EQ("7.4", "the shared receives are not flushed", ibv_poll_cq(n->recv_cq, 1, &wc), 0);
    }
    // The two receives left serve the next queue pair.
    bring_up(n);
    if (self.active) {
        REQUIRE(send_flagged(n, 9, 16, 0) == 0);
        REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("7.5", "what a dead queue pair left is taken by the next",
              wc.status == IBV_WC_SUCCESS && wc.wr_id == 103);
    }
    meet();
    drop_qp(n);
    if (n->srq)
        REQUIRE(ibv_destroy_srq(n->srq) == 0);
    n->srq = NULL;
    meet();
}

// ---- datagrams (7.4) ---------------------------------------------------------------------------------------------

static void a_datagram_brings_forty_bytes_and_its_sender(struct node *n)
{
    n->type = IBV_QPT_UD;
    struct card theirs = bring_up(n);
    fill(n->buffer, 100, 3);
    memset(n->buffer + 4096, 0x3c, 4096);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 1, piece(n->buffer + 4096, 40 + 256, n->mr->lkey)) == 0);
    else
        REQUIRE(post_receive(n->qp, 2, piece(n->buffer + 4096, 40 + 256, n->mr->lkey)) == 0);
    meet();
    struct ibv_ah_attr route = route_to(&theirs);
    struct ibv_ah *ah = NULL;
    struct ibv_sge sge = piece(n->buffer, 100, n->mr->lkey);
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
                             .imm_data = 0x01020304, .send_flags = IBV_SEND_SIGNALED}, *bad;
    if (self.active) {
        REQUIRE(ah = ibv_create_ah(n->pd, &route));
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = theirs.qpn;
        wr.wr.ud.remote_qkey = theirs.qkey;
        REQUIRE(ibv_post_send(n->qp, &wr, &bad) == 0);
        CHECK_EQ("7.4", "a datagram with immediate data is sent", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("7.4", "the answer comes to the sender of the first", wc.status == IBV_WC_SUCCESS &&
                                                                        wc.src_qp == theirs.qpn);
        CHECK("7.4", "with the bytes", filled(n->buffer + 4096 + 40, 100, 3));
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK_EQ("7.4", "it arrives", wc.status, IBV_WC_SUCCESS);
        CHECK_EQ("7.4", "byte_len counts the 40 bytes", wc.byte_len, 140);
        CHECK("7.4", "GRH and WITH_IMM are flagged", (wc.wc_flags & IBV_WC_GRH) && (wc.wc_flags & IBV_WC_WITH_IMM));
        CHECK_EQ("7.4", "the immediate is the sender's, untouched", wc.imm_data, 0x01020304);
        CHECK_EQ("7.4", "the source queue pair is named", wc.src_qp, theirs.qpn);
        CHECK_EQ("7.4", "the opcode is RECV", wc.opcode, IBV_WC_RECV);
        CHECK("7.4", "the bytes stand behind the 40", filled(n->buffer + 4096 + 40, 100, 3));
        CHECK("7.4", "and nothing behind them moved", all_bytes(n->buffer + 4096 + 140, 1024, 0x3c));
        ah = ibv_create_ah_from_wc(n->pd, &wc, (struct ibv_grh *)(n->buffer + 4096), PORT);
        CHECK("7.4", "an address handle can be made from the completion", ah != NULL);
        REQUIRE(ah);
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = wc.src_qp;
        wr.wr.ud.remote_qkey = 0x11111111;
        REQUIRE(ibv_post_send(n->qp, &wr, &bad) == 0);
        CHECK_EQ("7.4", "and used to answer", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    drop_qp(n);
    REQUIRE(ibv_destroy_ah(ah) == 0);
    n->type = IBV_QPT_RC;

    // A reliable receive has no such header.
    bring_up(n);
    one_message(n, 0);
    if (!self.active) {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("7.4", "a reliable receive carries no GRH", wc.status == IBV_WC_SUCCESS && !(wc.wc_flags & IBV_WC_GRH) &&
                                                              wc.byte_len == 16);
    }
    meet();
}

static void immediate_data_takes_a_receive_and_leaves_it_alone(struct node *n)
{
    struct card theirs = bring_up(n);
    memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 1, piece(n->buffer, 64, n->mr->lkey)) == 0);
    meet();
    if (self.active) {
        struct ibv_sge sge = piece(n->buffer, 32, n->mr->lkey);
        struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                 .imm_data = 0x0a0b0c0d, .send_flags = IBV_SEND_SIGNALED}, *bad;
        wr.wr.rdma.remote_addr = theirs.address + 4096;
        wr.wr.rdma.rkey = theirs.rkey;
        REQUIRE(ibv_post_send(n->qp, &wr, &bad) == 0);
        struct ibv_wc wc = next_completion(n->send_cq);
        CHECK("7.4", "a write with immediate completes as RDMA_WRITE",
              wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_WRITE);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("7.4", "it takes a receive, which completes as RECV_RDMA_WITH_IMM",
              wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wr_id == 1);
        CHECK("7.4", "with the immediate and the length written",
              (wc.wc_flags & IBV_WC_WITH_IMM) && wc.imm_data == 0x0a0b0c0d && wc.byte_len == 32);
        CHECK("7.4", "the bytes are where the write sent them", all_bytes(n->buffer + 4096, 32, 0xa5));
        CHECK("7.4", "and nowhere else, the receive's buffer included",
              all_bytes(n->buffer, 4096, 0x3c) && all_bytes(n->buffer + 4128, BUFFER - 4128, 0x3c));
    }
    meet();
}

int main(void)
{
    split();
    struct node n = open_node();
    attach_channel(&n);
    an_armed_queue_tells_of_the_next_completion(&n);
    only_solicited_completions_wake_who_asked_for_them(&n);
    the_channel_is_a_good_descriptor(&n);
    destroying_a_queue_waits_for_acknowledgements(&n);
    an_overrun_queue_says_so(&n);
    the_async_descriptor_is_a_good_one(&n);
    destroying_a_queue_pair_waits_for_its_event(&n);
    the_first_packet_in_rtr_is_communication_established(&n);
    a_shared_queue_serves_counts_and_warns(&n);
    a_datagram_brings_forty_bytes_and_its_sender(&n);
    immediate_data_takes_a_receive_and_leaves_it_alone(&n);
    close_node(&n);
    return finish();
}
