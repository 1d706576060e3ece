// Data transfers: every size and cut, every flag, every refusal at the post and every failure after it, each with the proof
// that nothing moved; and shared receive queues.

#include "ends.h"

#define LARGE (1ul << 20)

static DAT_RMR_CONTEXT there_context;
static uint64_t there;
static DAT_EVENT event;

static int64_t state(void) { return CALL(near, state_of); }

// What a refused post must leave alone.
static bool nothing_happened(void)
{
    return is_empty(near->receives) && is_empty(near->requests) && is_empty(near->connections) && state() == DAT_EP_STATE_CONNECTED;
}

static void sizes(void)
{
    static const size_t list[] = {0, 1, 7, 8, 63, 64, 65, 255, 4095, 4096, 4097, 16384, 65535, 65536, 262144,
                                  LARGE / 2};
    chapter("sizes");
    int64_t wrong = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        size_t n = list[i];
        unsigned seed = 100 + i;
        fill(near->room, n, seed);
        at_far(fill_room, 0, n + 64, 1);
        REQUIRE(at_far(receive, 0, n, 5) == 0);
        wrong += CALL(near, send_bytes, 0, n, 0) != 0 || at_far(received, 1, n, 5) != 0 || !at_far(room_filled, 0, n,
                                                            seed);
        // Stored to what is written to next.
        at_far(fill_room, 0, n + 64, 1);
        at_far(collect_room, 0, n + 64);
        publish(near->ia, near->local, near->room, n);
        wrong += CALL(near, write_there, 0, n, there_context, there, 0) != 0;
        at_far(collect_room, 0, n + 64);
        wrong += n && !at_far(room_filled, 0, n, seed);
        memset(near->room, 0, n);
        wrong += CALL(near, read_there, 0, n, there_context, there, 0) != 0 || !filled(near->room, n, seed);
        if (wrong) {
            printf("# %zu bytes\n", n);
            break;
        }
    }
    CHECK_EQ("dto", "a message, a write and a read of any size bring their bytes", wrong, 0);
    CHECK("dto", "an endpoint may be given no memory at all", CALL(near, write_there, 0, 0, 0, 0, 0) == 0);
}

static void pieces(void)
{
    chapter("pieces");
    DAT_LMR_TRIPLET p[] = {piece(near->local, near->room + 10, 5), piece(0, NULL, 0), piece(near->local, near->room, 3),
                           piece(near->local, near->room + PAGE - 1, 2)};
    DAT_RMR_TRIPLET t = target(there_context, there, 10);
    fill(near->room, PAGE + 1, 7);
    unsigned char whole[10];
    memcpy(whole, near->room + 10, 5);
    memcpy(whole + 5, near->room, 3);
    memcpy(whole + 8, near->room + PAGE - 1, 2);
    REQUIRE(at_far(receive, 0, 64, 1) == 0);
    MUST(dat_ep_post_send(near->ep, 4, p, cookie(1), 0));
    memset(p, 0, sizeof p); // the caller's again
    REQUIRE(next_done(near->requests).status == 0);
    CHECK_EQ("dto", "pieces are put together, those of no bytes skipped", at_far(received, 1, 10, 1), 0);
    at_far(publish_room, 0, 64);
    REQUIRE(CALL(near, read_there, 2 * PAGE, 10, there_context, there, 0) == 0);
    CHECK("dto", "... in order", memcmp(near->room + 2 * PAGE, whole, 10) == 0);
    // Scattered.
    DAT_LMR_TRIPLET into[] = {piece(near->local, near->room + 3 * PAGE, 4),
                              piece(near->local, near->room + 3 * PAGE + 100, 60)};
    memset(near->room + 3 * PAGE, 0, 200);
    MUST(dat_ep_post_rdma_read(near->ep, 1, into, cookie(2),
                               &(DAT_RMR_TRIPLET){.rmr_context = there_context, .target_address = there,
                                                  .segment_length = 4}, 0));
    REQUIRE(next_done(near->requests).status == 0);
    MUST(dat_ep_post_recv(near->ep, 2, into, cookie(3), 0));
    at_far(fill_room, 0, 40, 8);
    REQUIRE(at_far(send_bytes, 0, 40, 0) == 0);
    CHECK_EQ("dto", "a message is scattered", CALL(near, received, 1, 40, 3), 0);
    unsigned char got[40];
    memcpy(got, near->room + 3 * PAGE, 4);
    memcpy(got + 4, near->room + 3 * PAGE + 100, 36);
    CHECK("dto", "... in order, and no byte more", filled(got, 40, 8) && near->room[3 * PAGE + 136] == 0 &&
          near->room[3 * PAGE + 4] == 0);
    REQUIRE(at_far(receive, 0, 64, 1) == 0);
    CHECK_DONE("dto", "no piece at all is a message", dat_ep_post_send(near->ep, 0, NULL, cookie(4), 0));
    CHECK("dto", "... of no bytes", next_done(near->requests).status == 0 && at_far(received, 1, 0, 1) == 0);
    // Refused.
    DAT_EP_PARAM now;
    static DAT_LMR_TRIPLET many[4096];
    MUST(dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &now));
    REQUIRE(now.ep_attr.max_request_iov < 4096 && now.ep_attr.max_recv_iov < 4096);
    for (size_t i = 0; i < 4096; i++)
        many[i] = piece(near->local, near->room, 1);
    t.segment_length = 4096;
    CHECK_TYPE("dto", "more pieces than the endpoint takes",
               dat_ep_post_send(near->ep, now.ep_attr.max_request_iov + 1, many, cookie(1), 0), DAT_INVALID_PARAMETER);
    CHECK_TYPE("dto", "... of a receive", dat_ep_post_recv(near->ep, now.ep_attr.max_recv_iov + 1, many, cookie(1), 0),
               DAT_INVALID_PARAMETER);
    CHECK_TYPE("dto", "... of a write",
               dat_ep_post_rdma_write(near->ep, now.ep_attr.max_rdma_write_iov + 1, many, cookie(1), &t,
                                      0), DAT_INVALID_PARAMETER);
    CHECK_TYPE("dto", "... of a read",
               dat_ep_post_rdma_read(near->ep, now.ep_attr.max_rdma_read_iov + 1, many, cookie(1), &t,
                                     0), DAT_INVALID_PARAMETER);
    CHECK_CODE("dto", "fewer than none", dat_ep_post_send(near->ep, -1, many, cookie(1), 0), BAD_ARGUMENT(2));
    CHECK_CODE("dto", "pieces that are not there", dat_ep_post_send(near->ep, 1, NULL, cookie(1), 0), BAD_ARGUMENT(3));
    CHECK_CODE("dto", "... of a receive", dat_ep_post_recv(near->ep, 1, NULL, cookie(1), 0), BAD_ARGUMENT(3));
    CHECK_CODE("dto", "no target of a write", dat_ep_post_rdma_write(near->ep, 1, many, cookie(1), NULL, 0),
               BAD_ARGUMENT(5));
    CHECK_CODE("dto", "no source of a read", dat_ep_post_rdma_read(near->ep, 1, many, cookie(1), NULL, 0),
               BAD_ARGUMENT(5));
    CHECK("dto", "... and nothing was posted", nothing_happened());
    // More here than there.
    at_far(fill_room, 0, 128, 1);
    t.segment_length = 63;
    many[0].segment_length = 64;
    CHECK_TYPE("dto", "a write of more than its target has",
               dat_ep_post_rdma_write(near->ep, 1, many, cookie(1), &t, 0), DAT_LENGTH_ERROR);
    CHECK_TYPE("dto", "a read of less than its source",
               dat_ep_post_rdma_read(near->ep, 1,
                                     &(DAT_LMR_TRIPLET){.lmr_context = near->local,
                                                        .virtual_address = address_of(near->room), .segment_length = 62}, cookie(1), &t, 0), DAT_LENGTH_ERROR);
    CHECK("dto", "... and nothing was posted", nothing_happened() && at_far(room_filled, 0, 128, 1));
    REQUIRE(talks());
}

static void flags(void)
{
    chapter("completion flags");
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 64);
    DAT_RMR_TRIPLET t = target(there_context, there, 64);
    for (int i = 0; i < 6; i++)
        MUST(dat_ep_post_rdma_write(near->ep, 1, &p, cookie(i), &t, DAT_COMPLETION_SUPPRESS_FLAG));
    MUST(dat_ep_post_rdma_read(near->ep, 1, &p, cookie(6), &t, DAT_COMPLETION_SUPPRESS_FLAG |
                               DAT_COMPLETION_BARRIER_FENCE_FLAG));
    MUST(dat_ep_post_rdma_write(near->ep, 1, &p, cookie(7), &t, DAT_COMPLETION_DEFAULT_FLAG));
    struct done d = next_done(near->requests);
    CHECK("dto", "what is to be silent is, and the next one covers it", d.cookie == 7 && d.status == 0 &&
          d.length == 64 && is_empty(near->requests));
    DAT_BOOLEAN idle[2] = {DAT_FALSE, DAT_FALSE};
    MUST(dat_ep_get_status(near->ep, NULL, &idle[0], &idle[1]));
    CHECK("dto", "... and nothing is outstanding", idle[0] == DAT_TRUE && idle[1] == DAT_TRUE);
    CHECK_TYPE("dto", "unsignalled, where the endpoint is not made for it",
               dat_ep_post_send(near->ep, 1, &p, cookie(1), DAT_COMPLETION_UNSIGNALLED_FLAG), DAT_INVALID_PARAMETER);
    CHECK_TYPE("dto", "bits that mean nothing",
               dat_ep_post_send(near->ep, 1, &p, cookie(1), (DAT_COMPLETION_FLAGS)0x40), DAT_INVALID_PARAMETER);
    CHECK_TYPE("dto", "a receive that is to be silent",
               dat_ep_post_recv(near->ep, 1, &p, cookie(1), DAT_COMPLETION_SUPPRESS_FLAG), DAT_INVALID_PARAMETER);
    CHECK_TYPE("dto", "... or means nothing", dat_ep_post_recv(near->ep, 1, &p, cookie(1), (DAT_COMPLETION_FLAGS)0x40),
               DAT_INVALID_PARAMETER);
    CHECK("dto", "... and nothing was posted", nothing_happened());
    // More in silence than the queue has places.
    int64_t refused = 0;
    for (int i = 0; i < 2000; i++) {
        DAT_RETURN code;
        bool last = i % 8 == 7;
        while ((code = dat_ep_post_rdma_write(near->ep, 1, &p, cookie(i), &t,
                                              last ? 0 : DAT_COMPLETION_SUPPRESS_FLAG)) != DAT_SUCCESS &&
               DAT_GET_TYPE(code) == DAT_INSUFFICIENT_RESOURCES)
            sched_yield();
        refused += code != DAT_SUCCESS;
        if (last)
            refused += next_done(near->requests).cookie != (uint64_t)i;
    }
    CHECK_EQ("dto", "2000 writes, of which each eighth completes aloud, all find room", refused, 0);
}

// A queue of requests that only suppressed ones go through.
static void suppressed(void)
{
    chapter("suppressed requests");
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 8);
    DAT_RMR_TRIPLET t = target(there_context, there, 8);
    DAT_EP_PARAM now;
    MUST(dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &now));
    int places = now.ep_attr.max_request_dtos, tries = 0;
    int64_t refused = 0;
    // Some ways let a request end later than it was posted.
    for (int i = 0; i < 50 * places; i++) {
        DAT_RETURN code;
        while (DAT_GET_TYPE(code = i % 2 ? dat_ep_post_rdma_read(near->ep, 1, &p, cookie(i), &t, DAT_COMPLETION_SUPPRESS_FLAG)
                                         : dat_ep_post_rdma_write(near->ep, 1, &p, cookie(i), &t, DAT_COMPLETION_SUPPRESS_FLAG))
               == DAT_INSUFFICIENT_RESOURCES && tries++ < 10000000)
            sched_yield();
        refused += code != DAT_SUCCESS;
    }
    CHECK_EQ("dto", "writes and reads in silence, fifty times the queue, find room", refused, 0);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < places; i++)
            REQUIRE(at_far(receive, 0, 8, i) == 0);
        for (int i = 0; i < places; i++) {
            DAT_RETURN code;
            while (DAT_GET_TYPE(code = dat_ep_post_send(near->ep, 1, &p, cookie(i), DAT_COMPLETION_SUPPRESS_FLAG))
                   == DAT_INSUFFICIENT_RESOURCES && tries++ < 10000000)
                sched_yield();
            refused += code != DAT_SUCCESS;
        }
        for (int i = 0; i < places; i++)
            refused += at_far(received, 1, 8, i) != 0;
    }
    CHECK_EQ("dto", "... and sends", refused, 0);
    CHECK("dto", "... and nothing of them is seen", is_empty(near->requests));
    // What is shown counts until it is taken.
    for (int i = 0; i < places; i++) {
        DAT_RETURN code;
        while ((code = dat_ep_post_rdma_write(near->ep, 1, &p, cookie(i), &t, 0)) != DAT_SUCCESS && tries++ < 10000000)
            sched_yield();
        refused += code != DAT_SUCCESS;
    }
    DAT_BOOLEAN idle = DAT_FALSE;
    while (idle == DAT_FALSE)
        MUST(dat_ep_get_status(near->ep, NULL, NULL, &idle));
    at_far(fill_room, 0, 8, 3);
    CHECK_EQ("dto", "writes aloud fill the queue", refused, 0);
    for (int i = 0; i < 3; i++)
        refused += dat_ep_post_rdma_write(near->ep, 1, &p, cookie(99), &t, DAT_COMPLETION_SUPPRESS_FLAG) ==
                   (DAT_CLASS_ERROR | DAT_INSUFFICIENT_RESOURCES | DAT_RESOURCE_CREDITS);
    CHECK("dto", "... until they are taken, though they are done", refused == 3 && at_far(room_filled, 0, 8, 3));
    for (int i = 0; i < places; i++) {
        struct done d = next_done(near->requests);
        refused += d.status != 0 || d.cookie != (uint64_t)i;
    }
    CHECK("dto", "... and each is told", refused == 3 && is_empty(near->requests));
    CHECK("dto", "and everything goes on", talks());
}

static void full_queues(void)
{
    chapter("full queues");
    DAT_EP_PARAM now;
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 8);
    MUST(dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &now));
    int taken = 0;
    DAT_RETURN code;
    while ((code = dat_ep_post_recv(near->ep, 1, &p, cookie(taken), 0)) == DAT_SUCCESS && taken < 100000)
        taken++;
    CHECK_TYPE("dto", "receives end with their places", code, DAT_INSUFFICIENT_RESOURCES);
    CHECK("dto", "... as many as the endpoint has", taken >= now.ep_attr.max_recv_dtos);
    bool all = true;
    for (int i = 0; i < taken; i++)
        all &= at_far(send_bytes, 0, 8, 0) == 0 && CALL(near, received, 1, 8, i) == 0;
    CHECK("dto", "... and each takes its message", all && is_empty(near->receives));
    DAT_RMR_TRIPLET t = target(there_context, there, 8);
    taken = 0;
    while ((code = dat_ep_post_rdma_write(near->ep, 1, &p, cookie(taken), &t, 0)) == DAT_SUCCESS && taken < 100000)
        taken++;
    CHECK_TYPE("dto", "requests end with their places", code, DAT_INSUFFICIENT_RESOURCES);
    CHECK("dto", "... as many as the endpoint has", taken >= now.ep_attr.max_request_dtos);
    for (int i = 0; i < taken; i++) {
        struct done d = next_done(near->requests);
        all &= d.status == 0 && d.cookie == (uint64_t)i;
    }
    CHECK("dto", "... and each is done", all && is_empty(near->requests));
    CHECK("dto", "and everything goes on", talks());
}

static void failures(void)
{
    chapter("failures");
    // A receive that is too small.
    at_far(fill_room, 0, 128, 1);
    fill(near->room, 128, 2);
    REQUIRE(at_far(receive, 0, 63, 1) == 0 && at_far(receive, 0, 128, 2) == 0);
    CHECK_EQ("dto", "a message longer than its receive", CALL(near, send_bytes, 0, 64, 0),
             DAT_DTO_ERR_REMOTE_RESPONDER);
    CHECK_EQ("dto", "... fails the receive", at_far(received), DAT_DTO_ERR_LOCAL_LENGTH);
    CHECK_EQ("dto", "... flushes the next", at_far(received), DAT_DTO_ERR_FLUSHED);
    CHECK("dto", "... breaks both ends", both_broken());
    CHECK("dto", "... and no byte is placed", at_far(room_filled, 0, 128, 1));
    connect_again();
    // A remote failure: what comes after it is flushed, in order, and moves nothing.
    at_far(fill_room, 0, 128, 1);
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 64);
    DAT_RMR_TRIPLET bad = target(0x00badbad, there, 64), good = target(there_context, there, 64);
    MUST(dat_ep_post_rdma_write(near->ep, 1, &p, cookie(1), &bad, DAT_COMPLETION_SUPPRESS_FLAG));
    for (int i = 2; i < 6; i++) {
        DAT_RETURN code = dat_ep_post_rdma_write(near->ep, 1, &p, cookie(i), &good, DAT_COMPLETION_SUPPRESS_FLAG);
        REQUIRE(code == DAT_SUCCESS);
    }
    struct done d = next_done(near->requests);
    CHECK("dto", "a write to nowhere fails aloud", d.cookie == 1 && d.status == DAT_DTO_ERR_REMOTE_ACCESS);
    bool order = true;
    for (uint64_t i = 2; i < 6; i++) {
        d = next_done(near->requests);
        order &= d.cookie == i && d.status == DAT_DTO_ERR_FLUSHED;
    }
    CHECK("dto", "... and what was behind it is flushed in order", order && is_empty(near->requests));
    CHECK("dto", "... and moves nothing", at_far(room_filled, 0, 128, 1));
    CHECK("dto", "... both ends are broken", CALL(near, next_connection) == DAT_CONNECTION_EVENT_BROKEN &&
          at_far(next_connection) == DAT_CONNECTION_EVENT_BROKEN);
    CHECK("dto", "... once", is_empty(near->connections));
    connect_again();
    bad = target(there_context, there + ROOM - 63, 64);
    MUST(dat_ep_post_rdma_read(near->ep, 1, &p, cookie(1), &bad, 0));
    fill(near->room, 64, 3);
    CHECK_EQ("dto", "a read beyond the region", next_done(near->requests).status, DAT_DTO_ERR_REMOTE_ACCESS);
    CHECK("dto", "... brings nothing", filled(near->room, 64, 3) && both_broken());
    connect_again();
    bad = target(there_context, (uint64_t)-32, 64);
    MUST(dat_ep_post_rdma_write(near->ep, 1, &p, cookie(1), &bad, 0));
    CHECK_EQ("dto", "a write around the end of all addresses", next_done(near->requests).status,
             DAT_DTO_ERR_REMOTE_ACCESS);
    CHECK("dto", "... breaks it", both_broken());
    connect_again();
    // A number of times.
    int wrong = 0;
    for (int i = 0; i < 50; i++) {
        bad = target(0x00badbad + i, there, 64);
        MUST(dat_ep_post_rdma_write(near->ep, 1, &p, cookie(1), &bad, 0));
        wrong += next_done(near->requests).status != DAT_DTO_ERR_REMOTE_ACCESS || !both_broken();
        connect_again();
    }
    CHECK_EQ("dto", "50 times over", wrong, 0);
    CHECK("dto", "and the next connection is good", talks());
}

// A message that waits for a receive which comes later.
static void late_receive(void)
{
    chapter("a receive that comes late");
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 64);
    fill(near->room, 64, 6);
    MUST(dat_ep_post_send(near->ep, 1, &p, cookie(1), 0));
    DAT_BOOLEAN idle[2] = {DAT_FALSE, DAT_TRUE};
    MUST(dat_ep_get_status(near->ep, NULL, &idle[0], &idle[1]));
    CHECK("dto", "the send is outstanding", idle[1] == DAT_FALSE && idle[0] == DAT_TRUE && is_empty(near->requests));
    REQUIRE(at_far(receive, 0, 64, 3) == 0);
    CHECK_EQ("dto", "... until the receive comes", next_done(near->requests).status, 0);
    CHECK("dto", "... with the bytes", at_far(received, 1, 64, 3) == 0 && at_far(room_filled, 0, 64, 6));
}

// ---- shared receive queues ----------------------------------------------------------------------------------------

static DAT_SRQ_PARAM srq_facts(DAT_SRQ_HANDLE srq)
{
    DAT_SRQ_PARAM p;
    memset(&p, 0x5a, sizeof p);
    MUST(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &p));
    return p;
}

static DAT_RETURN post_shared(DAT_SRQ_HANDLE srq, size_t at, size_t length, uint64_t value)
{
    DAT_LMR_TRIPLET p = piece(near->local, near->room + at, length);
    return dat_srq_post_recv(srq, 1, &p, cookie(value));
}

// How many receives an endpoint of two may have in use. The second one breaks, and there is another in its place.
static void high_watermarks(DAT_EP_HANDLE *eps, int64_t *far_eps, DAT_SRQ_HANDLE srq)
{
    DAT_COUNT used = -7, span = -7;
    CHECK_DONE("ep", "an endpoint tells how many shared receives it has in use",
               dat_ep_recv_query(eps[1], &used, &span));
    CHECK("ep", "... none", used == 0 && span == 0);
    CHECK_CODE("ep", "a soft mark below none", dat_ep_set_watermark(eps[1], -5, 9), BAD_ARGUMENT(2));
    CHECK_CODE("ep", "a hard mark below none", dat_ep_set_watermark(eps[1], 5, -9), BAD_ARGUMENT(3));
    CHECK_DONE("ep", "marks are set", dat_ep_set_watermark(eps[1], 2, DAT_WATERMARK_INFINITE));
    at_far(put_endpoint, far_eps[1]);
    for (int i = 0; i < 2; i++)
        REQUIRE(at_far(send_bytes, 0, 16, 0) == 0);
    CHECK("ep", "two are used", dat_ep_recv_query(eps[1], &used, &span) == DAT_SUCCESS && used == 2 &&
          is_empty(near->async));
    REQUIRE(at_far(send_bytes, 0, 16, 0) == 0);
    CHECK("ep", "the third passes the soft mark", next_event(near->async, &event));
    CHECK("ep", "... which is told of the endpoint",
          event.event_number == DAT_ASYNC_ERROR_EP_BROKEN && event.event_data.asynch_error_event_data.dat_handle == eps[1] &&
              event.event_data.asynch_error_event_data.reason == 2);
    REQUIRE(at_far(send_bytes, 0, 16, 0) == 0);
    for (int i = 0; i < 4; i++)
        REQUIRE(next_done(near->receives).status == 0);
    CHECK("ep", "... once, and it goes on", is_empty(near->async) &&
          dat_ep_recv_query(eps[1], &used, &span) == DAT_SUCCESS && used == 0);
    near->ep = eps[1];
    CHECK_DONE("ep", "a hard mark is set", dat_ep_set_watermark(eps[1], DAT_WATERMARK_INFINITE, 1));
    REQUIRE(at_far(send_bytes, 0, 16, 0) == 0);
    CHECK_EQ("ep", "one does not pass it", CALL(near, state_of), DAT_EP_STATE_CONNECTED);
    CHECK("ep", "the second breaks the connection", at_far(send_bytes, 0, 16, 0) >= 0 && both_broken());
    part();
    // The other endpoint is none the worse.
    CHECK_CODE("srq", "the queue is still in use", dat_srq_free(srq), BAD_STATE(SRQ_IN_USE));
    DAT_EP_PARAM like;
    MUST(dat_ep_query(eps[0], DAT_EP_FIELD_ALL, &like));
    drain(near->async);
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    MUST(dat_ep_create_with_srq(near->ia, near->pz, near->receives, near->requests, near->connections, srq,
                                &like.ep_attr, &near->ep));
    MUST(ask(near, service, PATIENCE, 0, NULL));
    REQUIRE(at_far(accept_next) == 0 && CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED &&
            at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
    at_far(stop_listening);
    eps[1] = near->ep;
    far_eps[1] = at_far(take_endpoint);
}

static void shared_receives(void)
{
    chapter("shared receive queues");
    DAT_SRQ_HANDLE srq, made = (void *)0x1234;
    DAT_SRQ_ATTR a = {.max_recv_dtos = 16, .max_recv_iov = 2, .low_watermark = DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_ATTR wrong[] = {{0, 2, 0}, {16, 0, 0}, {-1, 2, 0}, {0x7fffffff, 2, 0}, {16, 0x7fffffff, 0}, {16, 2, 5}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        DAT_RETURN code = dat_srq_create(near->ia, near->pz, &wrong[i], &made);
        CHECK("srq", "sizes that make no sense are refused", DAT_GET_TYPE(code) == DAT_INVALID_PARAMETER ||
              DAT_GET_TYPE(code) == DAT_INSUFFICIENT_RESOURCES);
    }
    CHECK_CODE("srq", "no sizes", dat_srq_create(near->ia, near->pz, NULL, &made), BAD_ARGUMENT(3));
    CHECK_CODE("srq", "no place for it", dat_srq_create(near->ia, near->pz, &a, NULL), BAD_ARGUMENT(4));
    CHECK("srq", "... and nothing was made", made == (void *)0x1234);
    MUST(dat_srq_create(near->ia, near->pz, &a, &srq));
    DAT_SRQ_PARAM f = srq_facts(srq);
    CHECK("srq", "it says what it is",
          f.ia_handle == near->ia && f.pz_handle == near->pz && f.srq_state == DAT_SRQ_STATE_OPERATIONAL && f.max_recv_dtos >= 16 &&
              f.max_recv_iov >= 2 && f.low_watermark == 0 && (f.available_dto_count == 0 ||
                                                            f.available_dto_count == DAT_VALUE_UNKNOWN) &&
              f.outstanding_dto_count == 0);
    CHECK_CODE("srq", "a query of fields that do not exist", dat_srq_query(srq, (DAT_SRQ_PARAM_MASK)0x100, &f),
               BAD_ARGUMENT(2));
    CHECK_CODE("srq", "a query into nothing", dat_srq_query(srq, DAT_SRQ_FIELD_ALL, NULL), BAD_ARGUMENT(3));
    // Two endpoints take from it.
    DAT_EP_ATTR attributes;
    DAT_EP_PARAM now;
    DAT_EP_HANDLE eps[2];
    int64_t far_eps[2];
    CALL(near, make_endpoint);
    MUST(dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &now));
    attributes = now.ep_attr;
    attributes.max_recv_dtos = DAT_HW_DEFAULT;
    attributes.srq_soft_hw = DAT_HW_DEFAULT;
    MUST(dat_ep_free(near->ep));
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    for (int i = 0; i < 2; i++) {
        MUST(dat_ep_create_with_srq(near->ia, near->pz, near->receives, near->requests, near->connections, srq,
                                    &attributes, &near->ep));
        MUST(ask(near, service, PATIENCE, 0, NULL));
        REQUIRE(at_far(accept_next) == 0 && CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED &&
                at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
        eps[i] = near->ep;
        far_eps[i] = at_far(take_endpoint);
    }
    at_far(stop_listening);
    MUST(dat_ep_query(eps[0], DAT_EP_FIELD_ALL, &now));
    CHECK("srq", "an endpoint says which it takes from", now.srq_handle == srq);
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 64);
    CHECK_TYPE("srq", "... and takes no receives of its own", dat_ep_post_recv(eps[0], 1, &p, cookie(1), 0),
               DAT_INVALID_STATE);
    CHECK_CODE("srq", "a queue in use cannot go", dat_srq_free(srq), BAD_STATE(SRQ_IN_USE));
    CHECK_CODE("srq", "pieces that are not there", dat_srq_post_recv(srq, 1, NULL, cookie(1)), BAD_ARGUMENT(3));
    CHECK_CODE("srq", "fewer than none", dat_srq_post_recv(srq, -1, &p, cookie(1)), BAD_ARGUMENT(2));
    CHECK_TYPE("srq", "more pieces than it takes", dat_srq_post_recv(srq, 200, (DAT_LMR_TRIPLET[200]){{0}}, cookie(1)),
               DAT_INVALID_PARAMETER);
    CHECK_EQ("srq", "... and nothing was posted", srq_facts(srq).outstanding_dto_count, 0);
    for (int i = 0; i < 8; i++)
        MUST(post_shared(srq, i * 64, 64, 500 + i));
    f = srq_facts(srq);
    CHECK("srq", "it counts", (f.available_dto_count == 8 || f.available_dto_count == DAT_VALUE_UNKNOWN) &&
          f.outstanding_dto_count == 8);
    for (int i = 0; i < 4; i++) {
        at_far(put_endpoint, far_eps[i % 2]);
        REQUIRE(at_far(send_bytes, 0, 16, 0) == 0);
        struct done d = next_done(near->receives);
        CHECK("srq", "whoever has a message takes the next receive", d.status == 0 && d.length == 16 &&
              d.cookie == 500u + i && d.ep == eps[i % 2]);
    }
    f = srq_facts(srq);
    CHECK("srq", "... and it counts on", (f.available_dto_count == 4 || f.available_dto_count == DAT_VALUE_UNKNOWN) &&
          f.outstanding_dto_count == 4);
    // Sizes.
    CHECK_TYPE("srq", "to fewer than are outstanding", dat_srq_resize(srq, 3), DAT_INVALID_STATE);
    CHECK_TYPE("srq", "to none", dat_srq_resize(srq, 0), DAT_INVALID_PARAMETER);
    CHECK_EQ("srq", "... changes nothing", srq_facts(srq).max_recv_dtos, f.max_recv_dtos);
    CHECK_DONE("srq", "to more", dat_srq_resize(srq, 100));
    CHECK("srq", "... which it says", srq_facts(srq).max_recv_dtos >= 100);
    int taken = 0;
    DAT_RETURN code;
    while ((code = post_shared(srq, 0, 64, 600 + taken)) == DAT_SUCCESS && taken < 100000)
        taken++;
    CHECK("srq", "... and has", taken + 4 >= 100);
    CHECK_TYPE("srq", "and no more", code, DAT_INSUFFICIENT_RESOURCES);
    // The low watermark: one event.
    CHECK_CODE("srq", "a mark above the queue", dat_srq_set_lw(srq, srq_facts(srq).max_recv_dtos + 1), BAD_ARGUMENT(2));
    CHECK_CODE("srq", "... or below none", dat_srq_set_lw(srq, -1), BAD_ARGUMENT(2));
    int left = taken + 4;
    CHECK_DONE("srq", "a mark is set", dat_srq_set_lw(srq, left - 2));
    CHECK_EQ("srq", "... and told", srq_facts(srq).low_watermark, left - 2);
    CHECK("srq", "... and nothing happens yet", is_empty(near->async));
    for (int i = 0; i < 4; i++) {
        REQUIRE(at_far(send_bytes, 0, 16, 0) == 0);
        REQUIRE(next_done(near->receives).status == 0);
    }
    CHECK("srq", "below it there is an event", next_event(near->async, &event));
    CHECK("srq", "... of this queue, and why", event.event_data.asynch_error_event_data.dat_handle == srq &&
          event.event_data.asynch_error_event_data.reason == 2);
    CHECK("srq", "... once", is_empty(near->async));
    CHECK_DONE("srq", "set where it is passed already", dat_srq_set_lw(srq, left - 2));
    CHECK("srq", "... it is told at once", next_event(near->async, &event) && is_empty(near->async));
    high_watermarks(eps, far_eps, srq);
    // One endpoint ends, the other goes on.
    at_far(put_endpoint, far_eps[0]);
    near->ep = eps[0];
    part();
    at_far(put_endpoint, far_eps[1]);
    near->ep = eps[1];
    REQUIRE(at_far(send_bytes, 0, 16, 0) == 0);
    CHECK_EQ("srq", "receives outlive an endpoint", next_done(near->receives).status, 0);
    part();
    CHECK_DONE("srq", "without endpoints it goes", dat_srq_free(srq));
}

static void watermarks(void)
{
    chapter("watermarks of an endpoint");
    DAT_COUNT allocated = -7, span = -7;
    connect_ends();
    DAT_RETURN code = dat_ep_recv_query(near->ep, &allocated, &span);
    CHECK("ep", "an endpoint with receives of its own tells nothing of shared ones",
          DAT_GET_TYPE(code) == DAT_INVALID_STATE && allocated == -7 && span == -7);
    CHECK_TYPE("ep", "... and has no marks for them", dat_ep_set_watermark(near->ep, 5, 10), DAT_INVALID_STATE);
    CHECK("ep", "... and it works", talks());
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    there_context = (DAT_RMR_CONTEXT)at_far(far_context);
    there = (uint64_t)at_far(far_address);
    connect_ends();
    sizes();
    pieces();
    flags();
    suppressed();
    full_queues();
    late_receive();
    failures();
    part();
    shared_receives();
    watermarks();
    part();
    return end();
}
