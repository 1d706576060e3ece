// Completion queues that are read entry by entry (ibv_create_cq_ex(3)): they tell what ibv_poll_cq tells, whatever happens
// between the beginning of a batch and its end; and events that tell of several completions together (ibv_modify_cq(3)).
//
// proves: verbs-abi 6 (extended completion queues, overrun, moderation)

#include "common.h"

#include <pthread.h>

#define MANY 64

static struct ibv_cq_ex *make_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex init)
{
    return ibv_create_cq_ex(context, &init);
}

static int start(struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr attr = {0};
    return ibv_start_poll(cq, &attr);
}

// Begins a batch as soon as something comes.
static int start_soon(struct ibv_cq_ex *cq)
{
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    int status;
    while ((status = start(cq)) == ENOENT && now_ns() < deadline)
        sched_yield();
    return status;
}

// Has the node's sends complete in an extended queue; returns the one before.
static struct ibv_cq *adopt(struct node *n, struct ibv_cq_ex *cq)
{
    struct ibv_cq *before = n->send_cq;
    drop_qp(n);
    n->send_cq = ibv_cq_ex_to_cq(cq);
    return before;
}

static void restore(struct node *n, struct ibv_cq *before)
{
    drop_qp(n);
    REQUIRE(ibv_destroy_cq(n->send_cq) == 0);
    n->send_cq = before;
}

// A queue pair of one side, connected to itself.
static void to_itself(struct node *n)
{
    drop_qp(n);
    drain(n->recv_cq);
    REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
    struct card here = card_of(n);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);
}

static void write_eight(struct node *n, uint64_t id)
{
    uint64_t there = (uintptr_t)n->buffer + 4096;
    REQUIRE(post(n->qp, id, IBV_WR_RDMA_WRITE, piece(n->buffer, 8, n->mr->lkey), there, n->mr->rkey) == 0);
}

// Waits until every request before has completed, without a look at their queue: a read, and a fenced message behind it that
// comes into the other queue.
static void settle(struct node *n)
{
    struct ibv_sge sge = piece(n->buffer + 32768, 8, n->mr->lkey);
    struct ibv_send_wr *bad, send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_FENCE};
    struct ibv_send_wr read = {.next = &send, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};
    read.wr.rdma.remote_addr = (uintptr_t)n->buffer + 40960;
    read.wr.rdma.rkey = n->mr->rkey;
    REQUIRE(post_receive(n->qp, 1, piece(n->buffer + 49152, 8, n->mr->lkey)) == 0);
    REQUIRE(ibv_post_send(n->qp, &read, &bad) == 0 && next_completion(n->recv_cq).status == IBV_WC_SUCCESS);
}

static void refusals_create_nothing(struct node *n)
{
    struct ibv_context *other = open_device();
    struct ibv_comp_channel *channel = ibv_create_comp_channel(n->context), *foreign = ibv_create_comp_channel(other);
    struct ibv_device_attr device;
    REQUIRE(channel && foreign && ibv_query_device(n->context, &device) == 0);
    struct ibv_cq_init_attr_ex good = {.cqe = 16, .channel = channel, .wc_flags = IBV_WC_STANDARD_FLAGS}, bad;
    static const uint64_t lacking[] = {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO, 1u << 12};
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        bad = good;
        bad.wc_flags |= lacking[i];
        CHECK_NULL("6", "what only a card knows cannot be asked for", make_cq(n->context, bad), EOPNOTSUPP);
    }
#define REFUSED(sentence, member, value, code)                                                                      \
    bad = good;                                                                                                     \
    bad.member = value;                                                                                             \
    CHECK_NULL("6", sentence, make_cq(n->context, bad), code)
    REFUSED("an unknown bit of comp_mask is refused", comp_mask, 1u << 5, EINVAL);
    REFUSED("no entries are refused", cqe, 0, EINVAL);
    REFUSED("more entries than there can be are refused", cqe, device.max_cqe + 1u, EINVAL);
    REFUSED("a vector that is not there is refused", comp_vector, (unsigned)n->context->num_comp_vectors, EINVAL);
    REFUSED("the channel of another context is refused", channel, foreign, EINVAL);
    bad = good;
    bad.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    bad.flags = 1u << 2;
    CHECK_NULL("6", "an unknown flag is refused", make_cq(n->context, bad), EINVAL);
    CHECK_EQ("6", "no refused queue counts as a user of its channel", channel->refcnt, 0);
    bad.comp_mask = 0;
    struct ibv_cq_ex *cq = make_cq(n->context, bad);
    CHECK("6", "flags that are not announced are not looked at", cq && cq->context == n->context && channel->refcnt == 1);
    CHECK_EQ("6", "a queue keeps its channel", ibv_destroy_comp_channel(channel), EBUSY);
    CHECK_EQ("6", "it is destroyed like any other", ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    CHECK_EQ("6", "and is not found any more", ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), ENOENT);
    struct ibv_poll_cq_attr attr = {0};
    CHECK_EQ("6", "nor read", ibv_start_poll(cq, &attr), EINVAL);
    CHECK_EQ("6", "then the channel is free", ibv_destroy_comp_channel(channel), 0);
    REQUIRE(ibv_destroy_comp_channel(foreign) == 0 && ibv_close_device(other) == 0);
}

static void misuse_is_refused_and_moves_nothing(struct node *n, struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr bad = {.comp_mask = 1};
    to_itself(n);
    errno = 0;
    CHECK_EQ("6", "an empty queue begins no batch", start(cq), ENOENT);
    CHECK_EQ("6", "which is no error", errno, 0);
    CHECK_EQ("6", "there is nothing to go on with", ibv_next_poll(cq), EINVAL);
    write_eight(n, 7);
    write_eight(n, 8);
    settle(n);
    CHECK_EQ("6", "an unknown bit of the poll is refused", ibv_start_poll(cq, &bad), EINVAL);
    CHECK("6", "and takes nothing", start(cq) == 0 && cq->wr_id == 7);
    CHECK_EQ("6", "a second batch of the same thread is refused", start(cq), EINVAL);
    CHECK("6", "and the first goes on", cq->wr_id == 7 && ibv_next_poll(cq) == 0 && cq->wr_id == 8);
    CHECK_EQ("6", "to its end", ibv_next_poll(cq), ENOENT);
    CHECK("6", "where the last completion still stands", cq->wr_id == 8 && ibv_wc_read_opcode(cq) == IBV_WC_RDMA_WRITE);
    CHECK_EQ("6", "a queue in use is not destroyed", ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), EBUSY);
    ibv_end_poll(cq);
}

// What was read of one completion, in the words of ibv_poll_cq.
static struct ibv_wc read_all(struct ibv_cq_ex *cq)
{
    struct ibv_wc wc = {
        .wr_id = cq->wr_id,
        .status = cq->status,
        .opcode = ibv_wc_read_opcode(cq),
        .vendor_err = ibv_wc_read_vendor_err(cq),
        .byte_len = ibv_wc_read_byte_len(cq),
        .imm_data = ibv_wc_read_imm_data(cq),
        .qp_num = ibv_wc_read_qp_num(cq),
        .src_qp = ibv_wc_read_src_qp(cq),
        .wc_flags = ibv_wc_read_wc_flags(cq),
        .slid = (uint16_t)ibv_wc_read_slid(cq),
        .sl = ibv_wc_read_sl(cq),
        .dlid_path_bits = ibv_wc_read_dlid_path_bits(cq),
    };
    return wc;
}

static bool same(const struct ibv_wc *a, const struct ibv_wc *b)
{
    return a->wr_id == b->wr_id && a->status == b->status && a->opcode == b->opcode && a->vendor_err == b->vendor_err &&
           a->byte_len == b->byte_len && a->imm_data == b->imm_data && a->qp_num == b->qp_num && a->src_qp == b->src_qp &&
           a->wc_flags == b->wc_flags && a->slid == b->slid && a->sl == b->sl && a->dlid_path_bits == b->dlid_path_bits;
}

// Every kind of request, and the receives they meet.
static void one_of_each(struct node *n)
{
    struct ibv_sge sge = piece(n->buffer, 24, n->mr->lkey);
    uint64_t there = (uintptr_t)n->buffer + 8192;
    struct ibv_send_wr *bad, send = {.wr_id = 4, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
                                     .imm_data = 0x01020304, .send_flags = IBV_SEND_SIGNALED};
    for (int i = 0; i < 2; i++)
        REQUIRE(post_receive(n->qp, 100 + i, piece(n->buffer + 16384, 64, n->mr->lkey)) == 0);
    REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, sge, there, n->mr->rkey) == 0);
    REQUIRE(post(n->qp, 2, IBV_WR_RDMA_READ, sge, there, n->mr->rkey) == 0);
    REQUIRE(post_atomic(n->qp, 3, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(n->buffer, 8, n->mr->lkey), there, n->mr->rkey, 1, 0) == 0);
    REQUIRE(ibv_post_send(n->qp, &send, &bad) == 0);
    send.wr_id = 5;
    send.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    send.wr.rdma.remote_addr = there;
    send.wr.rdma.rkey = n->mr->rkey;
    REQUIRE(ibv_post_send(n->qp, &send, &bad) == 0);
}

static void one_that_fails(struct node *n)
{
    struct ibv_sge sge = piece(n->buffer, 24, n->mr->lkey);
    REQUIRE(post(n->qp, 6, IBV_WR_RDMA_WRITE, sge, (uintptr_t)n->buffer + 8192, n->mr->rkey ^ 0x1000) == 0);
}

static void both_ways_tell_the_same(struct node *n, struct ibv_cq_ex *cq)
{
    enum { KINDS = 8 };
    struct ibv_cq *receives = n->recv_cq;
    struct ibv_wc plain[KINDS], extended[KINDS];
    memset(plain, 0, sizeof plain);
    memset(extended, 0, sizeof extended);
    n->recv_cq = n->send_cq;
    for (int way = 0; way < 2; way++) {
        drain(n->send_cq);
        n->recv_cq = n->send_cq;
        to_itself(n);
        one_of_each(n);
        for (int got = 0; got < KINDS;) {
            if (got == KINDS - 1)
                one_that_fails(n);
            if (way == 0) {
                plain[got++] = next_completion(n->send_cq);
            } else {
                REQUIRE(start_soon(cq) == 0);
                do
                    extended[got++] = read_all(cq);
                while (got < KINDS - 1 && ibv_next_poll(cq) == 0);
                ibv_end_poll(cq);
            }
        }
        for (int i = 0; i < KINDS; i++) {
            struct ibv_wc *wc = &(way ? extended : plain)[i];
            // The two ways have a queue pair each.
            wc->qp_num -= n->qp->qp_num;
            wc->src_qp -= wc->src_qp ? n->qp->qp_num : 0;
        }
    }
    bool equal = true;
    int successes = 0;
    for (int i = 0; i < KINDS; i++) {
        equal = equal && same(&plain[i], &extended[i]);
        successes += extended[i].status == IBV_WC_SUCCESS;
    }
    CHECK("6", "every kind of completion reads as ibv_poll_cq tells it", equal);
    CHECK_EQ("6", "the one that fails too", successes, KINDS - 1);
    drop_qp(n);
    n->recv_cq = receives;
}

static void a_queue_is_read_in_any_way(struct node *n, struct ibv_cq_ex *cq)
{
    struct ibv_wc wc[MANY];
    to_itself(n);
    for (int i = 0; i < 24; i++)
        write_eight(n, i);
    settle(n);
    REQUIRE(start(cq) == 0 && ibv_next_poll(cq) == 0 && ibv_next_poll(cq) == 0);
    CHECK_EQ("6", "a batch stands at the third completion", cq->wr_id, 2);
    ibv_end_poll(cq);
    CHECK("6", "what was not read waits for ibv_poll_cq", ibv_poll_cq(n->send_cq, 2, wc) == 2 && wc[0].wr_id == 3 && wc[1].wr_id == 4);
    CHECK("6", "and for the next batch", start(cq) == 0 && cq->wr_id == 5 && ibv_next_poll(cq) == 0 && cq->wr_id == 6);
    ibv_end_poll(cq);
    CHECK("6", "nothing is lost and the order stays", ibv_poll_cq(n->send_cq, MANY, wc) == 17 && wc[0].wr_id == 7 && wc[16].wr_id == 23);
    CHECK_EQ("6", "and nothing comes twice", start(cq), ENOENT);
}

static void a_program_does_anything_within_a_batch(struct node *n, struct ibv_cq_ex *cq)
{
    to_itself(n);
    write_eight(n, 1);
    REQUIRE(start_soon(cq) == 0);
    for (int i = 2; i <= 20; i++)
        write_eight(n, i);
    int last = (int)cq->wr_id;
    bool in_order = last == 1;
    while (last < 20 && (ibv_next_poll(cq) == 0 || sched_yield() == 0))
        if ((int)cq->wr_id != last)
            in_order = in_order && (int)cq->wr_id == ++last;
    CHECK("6", "completions that are added to an open batch are read in it", in_order);
    ibv_end_poll(cq);

    for (int i = 0; i < 10; i++)
        write_eight(n, i);
    settle(n);
    REQUIRE(start(cq) == 0 && ibv_next_poll(cq) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(20);
        bool good = cq->wr_id == 1 && ibv_next_poll(cq) == 0 && cq->wr_id == 2;
        ibv_end_poll(cq);
        _exit(good && start(cq) == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ("6", "a child reads its copy of the batch", status, 0);
    CHECK("6", "and takes nothing from its parent", ibv_next_poll(cq) == 0 && cq->wr_id == 2);
    uint32_t number = ibv_wc_read_qp_num(cq);
    drop_qp(n);
    CHECK("6", "the completion it stands at outlives its queue pair", cq->wr_id == 2 && ibv_wc_read_qp_num(cq) == number);
    CHECK_EQ("6", "the others go with it, taken ahead or not", ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    CHECK_EQ("6", "and do not come back", start(cq), ENOENT);
}

// ---- several threads -----------------------------------------------------------------------------------------------

enum { THREADS = 4, WRITES = 20000 };

static struct {
    struct ibv_cq_ex *cq;
    unsigned char seen[WRITES];
    int left, wrong;
} shared;

static void *reader(void *unused)
{
    (void)unused;
    while (__atomic_load_n(&shared.left, __ATOMIC_RELAXED) > 0) {
        int status = start(shared.cq);
        if (status == ENOENT) {
            sched_yield();
            continue;
        }
        if (status != 0)
            __atomic_add_fetch(&shared.wrong, 1, __ATOMIC_RELAXED);
        int most = 1 + rand() % 5;
        do {
            uint64_t id = shared.cq->wr_id;
            // Nobody else moves the batch: what is read later is of the same completion.
            sched_yield();
            if (shared.cq->wr_id != id || id >= WRITES || shared.seen[id]++ || shared.cq->status != IBV_WC_SUCCESS)
                __atomic_add_fetch(&shared.wrong, 1, __ATOMIC_RELAXED);
            __atomic_sub_fetch(&shared.left, 1, __ATOMIC_RELAXED);
        } while (--most && ibv_next_poll(shared.cq) == 0);
        ibv_end_poll(shared.cq);
    }
    return NULL;
}

static void threads_read_each_completion_once(struct node *n, struct ibv_cq_ex *cq)
{
    pthread_t threads[THREADS];
    memset(&shared, 0, sizeof shared);
    shared.cq = cq;
    shared.left = WRITES;
    to_itself(n);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, reader, NULL) == 0);
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    for (int i = 0; i < WRITES;) {
        struct ibv_sge sge = piece(n->buffer, 8, n->mr->lkey);
        int failed = post(n->qp, i, IBV_WR_RDMA_WRITE, sge, (uintptr_t)n->buffer + 4096, n->mr->rkey);
        REQUIRE((failed == 0 || failed == ENOMEM) && now_ns() < deadline);
        i += failed == 0;
        if (failed)
            sched_yield();
    }
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ("6", "threads that read batches at once read each completion once, and whole", shared.wrong, 0);
}

// ---- time ----------------------------------------------------------------------------------------------------------

static uint64_t device_clock(struct ibv_context *context)
{
    struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    REQUIRE(ibv_query_rt_values_ex(context, &values) == 0 && values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
    return (uint64_t)values.raw_clock.tv_sec * 1000000000 + values.raw_clock.tv_nsec;
}

static uint64_t time_of_day(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void completions_tell_when_they_came(struct node *n)
{
    struct ibv_device_attr_ex device;
    REQUIRE(ibv_query_device_ex(n->context, NULL, &device) == 0);
    CHECK("6", "the device says that it has a clock, and how fast it is",
          device.completion_timestamp_mask != 0 && device.hca_core_clock == 1000000);
    struct ibv_values_ex values = {.comp_mask = 2};
    CHECK_EQ("6", "values that it does not have are refused", ibv_query_rt_values_ex(n->context, &values), EINVAL);
    struct ibv_cq_ex *cq = make_cq(n->context, (struct ibv_cq_init_attr_ex){
        .cqe = 128, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK});
    REQUIRE(cq);
    struct ibv_cq *before = adopt(n, cq);
    to_itself(n);
    uint64_t clock = device_clock(n->context), day = time_of_day();
    for (int i = 0; i < 10; i++)
        write_eight(n, i);
    settle(n);
    uint64_t clock_after = device_clock(n->context), day_after = time_of_day();
    struct ibv_wc wc;
    CHECK("6", "such a queue is polled plainly, too", ibv_poll_cq(n->send_cq, 1, &wc) == 1 && wc.wr_id == 0);
    bool good = start(cq) == 0;
    int read = 0;
    do {
        uint64_t c = ibv_wc_read_completion_ts(cq), d = ibv_wc_read_completion_wallclock_ns(cq);
        good = good && c >= clock && c <= clock_after && d >= day && d <= day_after;
        clock = c;
        day = d;
    } while (++read < 6 && ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
    good = good && start(cq) == 0;
    do {
        good = good && ibv_wc_read_completion_ts(cq) >= clock && ibv_wc_read_completion_ts(cq) <= clock_after;
        clock = ibv_wc_read_completion_ts(cq);
        read++;
    } while (ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
    CHECK("6", "each says when it came, by both clocks, also when it was taken ahead and given back", good && read == 9);
    restore(n, before);
}

// ---- too many completions ------------------------------------------------------------------------------------------

static void a_full_queue_fails_or_overwrites(struct node *n)
{
    enum { ROOM = 8, MORE = 10 };
    struct ibv_cq_init_attr_ex init = {.cqe = ROOM, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                       .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN | IBV_CREATE_CQ_ATTR_SINGLE_THREADED};
    struct ibv_cq_ex *cq = make_cq(n->context, init);
    REQUIRE(cq);
    struct ibv_cq *before = adopt(n, cq);
    to_itself(n);
    drain_events(n->context);
    for (int i = 0; i < ROOM + MORE; i++)
        write_eight(n, i);
    settle(n);
    int read = 0;
    bool in_order = start(cq) == 0;
    do
        in_order = in_order && cq->wr_id == (uint64_t)(MORE + read) && cq->status == IBV_WC_SUCCESS;
    while (++read < 2 * ROOM && ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
    CHECK("6", "a queue that ignores an overrun keeps the newest completions", in_order && read == ROOM);
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    for (int i = 0; i < 200 && now_ns() < deadline;) {
        uint64_t there = (uintptr_t)n->buffer + 4096;
        i += post(n->qp, i, IBV_WR_RDMA_WRITE, piece(n->buffer, 8, n->mr->lkey), there, n->mr->rkey) == 0;
    }
    CHECK("6", "those that were overwritten gave their places back: nobody has to read any", now_ns() < deadline);
    CHECK("6", "its queue pair goes on and nobody is alarmed",
          state_of(n->qp) == IBV_QPS_RTS && poll(&(struct pollfd){.fd = n->context->async_fd, .events = POLLIN}, 1, 0) == 0);
    restore(n, before);

    init.flags = 0;
    REQUIRE(cq = make_cq(n->context, init));
    before = adopt(n, cq);
    to_itself(n);
    for (int i = 0; i < ROOM + 1; i++)
        write_eight(n, i);
    struct ibv_async_event event = next_event(n->context);
    CHECK("6", "any other says that it overran", event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == ibv_cq_ex_to_cq(cq));
    CHECK_EQ("6", "what it held is still read", start(cq), 0);
    for (read = 1; ibv_next_poll(cq) == 0;)
        read++;
    ibv_end_poll(cq);
    CHECK_EQ("6", "all of it", read, ROOM);
    CHECK_EQ("6", "then it fails", start(cq), EIO);
    CHECK_EQ("6", "every time", start(cq), EIO);
    restore(n, before);
    drain_events(n->context);
}

// ---- events --------------------------------------------------------------------------------------------------------

static bool readable(struct ibv_comp_channel *channel, int wait_ms)
{
    return poll(&(struct pollfd){.fd = channel->fd, .events = POLLIN}, 1, wait_ms) == 1;
}

static bool take_event(struct ibv_comp_channel *channel, struct ibv_cq_ex *expected)
{
    struct ibv_cq *cq = NULL;
    void *context;
    if (ibv_get_cq_event(channel, &cq, &context))
        return false;
    ibv_ack_cq_events(cq, 1);
    return cq == ibv_cq_ex_to_cq(expected);
}

static int moderate(struct ibv_cq_ex *cq, uint16_t count, uint16_t period)
{
    struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = count, .cq_period = period}};
    return ibv_modify_cq(ibv_cq_ex_to_cq(cq), &attr);
}

static void read_everything(struct ibv_cq_ex *cq)
{
    if (start(cq) == 0) {
        while (ibv_next_poll(cq) == 0)
            ;
        ibv_end_poll(cq);
    }
}

static void events_tell_of_several_completions_together(struct node *n)
{
    enum { LONG = 65535, SHORT = 20000 };
    struct ibv_comp_channel *channel = ibv_create_comp_channel(n->context);
    struct ibv_device_attr_ex device;
    struct ibv_cq_ex *cq = make_cq(n->context, (struct ibv_cq_init_attr_ex){.cqe = 128, .channel = channel});
    REQUIRE(cq && ibv_query_device_ex(n->context, NULL, &device) == 0);
    CHECK("6", "the device says how far it moderates events",
          device.cq_mod_caps.max_cq_count == UINT16_MAX && device.cq_mod_caps.max_cq_period == UINT16_MAX);
    struct ibv_cq *before = adopt(n, cq);
    to_itself(n);
    struct ibv_modify_cq_attr unknown = {.attr_mask = 2, .moderate = {.cq_count = 100, .cq_period = LONG}};
    CHECK_EQ("6", "an unknown attribute is refused", ibv_modify_cq(ibv_cq_ex_to_cq(cq), &unknown), EINVAL);
    REQUIRE(ibv_req_notify_cq(n->send_cq, 0) == 0);
    write_eight(n, 1);
    CHECK("6", "and changes nothing: one completion brings its event", take_event(channel, cq));
    read_everything(cq);

    REQUIRE(moderate(cq, 4, LONG) == 0 && ibv_req_notify_cq(n->send_cq, 0) == 0);
    int64_t began = now_ns();
    for (int i = 0; i < 3; i++)
        write_eight(n, i);
    settle(n);
    bool early = readable(channel, 0) && now_ns() - began < LONG * 1000LL;
    CHECK("6", "fewer completions than were asked for bring no event yet", !early);
    write_eight(n, 3);
    CHECK("6", "as many bring one", take_event(channel, cq));
    read_everything(cq);
    for (int i = 0; i < 8; i++)
        write_eight(n, i);
    settle(n);
    CHECK("6", "a queue that is not armed brings none", !readable(channel, 0));
    read_everything(cq);

    REQUIRE(moderate(cq, 100, SHORT) == 0 && ibv_req_notify_cq(n->send_cq, 0) == 0);
    began = now_ns();
    write_eight(n, 1);
    bool came = readable(channel, PATIENCE_MS);
    int64_t took = now_ns() - began;
    CHECK("6", "a single one is told of when the time is up, and not before", came && took >= SHORT * 1000LL);
    CHECK("6", "once", take_event(channel, cq) && !readable(channel, 0));
    read_everything(cq);

    REQUIRE(moderate(cq, 100, LONG) == 0 && ibv_req_notify_cq(n->send_cq, 0) == 0);
    write_eight(n, 1);
    REQUIRE(moderate(cq, 0, 0) == 0);
    CHECK("6", "who stops it is told at once of what has come", take_event(channel, cq));
    read_everything(cq);
    REQUIRE(moderate(cq, 5, 0) == 0 && ibv_req_notify_cq(n->send_cq, 0) == 0);
    write_eight(n, 1);
    CHECK("6", "a count without a time puts nothing off", take_event(channel, cq));
    read_everything(cq);
    restore(n, before);
    CHECK_EQ("6", "a queue that moderated leaves its channel", ibv_destroy_comp_channel(channel), 0);
}

// ---- another process -----------------------------------------------------------------------------------------------

static void messages_come_into_an_open_batch(struct node *n, struct ibv_cq_ex *cq)
{
    enum { MESSAGES = 2000, WINDOW = 32 };
    struct ibv_cq *before = n->recv_cq;
    drop_qp(n);
    n->recv_cq = ibv_cq_ex_to_cq(cq);
    bring_up(n);
    for (int i = 0; i < WINDOW && !self.active; i++)
        REQUIRE(post_receive(n->qp, i, piece(n->buffer, 64, n->mr->lkey)) == 0);
    meet();
    bool in_order = true;
    if (self.active) {
        for (int i = 0; i < MESSAGES; i++) {
            REQUIRE(post(n->qp, i, IBV_WR_SEND, piece(n->buffer, 8 + i % 8, n->mr->lkey), 0, 0) == 0);
            REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
        }
    } else {
        for (int got = 0; got < MESSAGES;) {
            REQUIRE(start_soon(cq) == 0);
            do {
                in_order = in_order && cq->status == IBV_WC_SUCCESS && cq->wr_id == (uint64_t)got &&
                           ibv_wc_read_byte_len(cq) == 8u + got % 8 && ibv_wc_read_opcode(cq) == IBV_WC_RECV;
                // Within the batch, while others arrive.
                REQUIRE(post_receive(n->qp, got + WINDOW, piece(n->buffer, 64, n->mr->lkey)) == 0);
                got++;
            } while (ibv_next_poll(cq) == 0);
            ibv_end_poll(cq);
        }
        CHECK("6", "messages of another process are read in their order, into batches that are open", in_order);
    }
    meet();
    drop_qp(n);
    n->recv_cq = before;
}

int main(void)
{
    split();
    struct node n = open_node();
    struct ibv_cq_ex *cq = make_cq(n.context, (struct ibv_cq_init_attr_ex){.cqe = 128, .wc_flags = IBV_WC_STANDARD_FLAGS});
    REQUIRE(cq);
    messages_come_into_an_open_batch(&n, cq);
    if (self.active) {
        struct ibv_cq *before = adopt(&n, cq);
        refusals_create_nothing(&n);
        misuse_is_refused_and_moves_nothing(&n, cq);
        both_ways_tell_the_same(&n, cq);
        a_queue_is_read_in_any_way(&n, cq);
        a_program_does_anything_within_a_batch(&n, cq);
        threads_read_each_completion_once(&n, cq);
        drop_qp(&n);
        n.send_cq = before;
        completions_tell_when_they_came(&n);
        a_full_queue_fails_or_overwrites(&n);
        events_tell_of_several_completions_together(&n);
    }
    meet();
    CHECK_EQ("6", "an extended queue is destroyed", ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    close_node(&n);
    return finish();
}
