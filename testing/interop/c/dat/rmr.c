// dat_rmr_bind: what a bound region allows, when it begins and ends to, and what is refused. proves: RMR-1 to RMR-13.

#include "ends.h"

#define AT (32 * PAGE) // of the near room: what the RMRs here lie in
#define LENGTH (2 * PAGE)
#define SEED 5
#define BOTH ((DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG))
#define READ DAT_MEM_PRIV_REMOTE_READ_FLAG
#define WRITE DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define DEFAULT DAT_COMPLETION_DEFAULT_FLAG

static const DAT_RMR_CONTEXT UNTOUCHED = 0x77777777;
static DAT_RMR_HANDLE rmr;

static unsigned char *own(size_t offset)
{
    return near->room + AT + offset;
}

static DAT_LMR_TRIPLET part_of_room(size_t offset, size_t length)
{
    return piece(near->local, own(offset), length);
}

static DAT_RETURN bind_with(DAT_LMR_TRIPLET p, DAT_MEM_PRIV_FLAGS privileges, uint64_t value, unsigned flags,
                            DAT_RMR_CONTEXT *context)
{
    return dat_rmr_bind(rmr, &p, privileges, near->ep, cookie(value), (DAT_COMPLETION_FLAGS)flags, context);
}

// Binds a part of the room and waits for the completion.
static DAT_RMR_CONTEXT bound(size_t offset, size_t length, DAT_MEM_PRIV_FLAGS privileges)
{
    DAT_RMR_CONTEXT context = UNTOUCHED;
    MUST(bind_with(part_of_room(offset, length), privileges, 21, DEFAULT, &context));
    struct done d = next_done(near->requests);
    REQUIRE(d.status == 0 && d.cookie == 21 && d.ep == rmr);
    return context;
}

static int64_t far_writes(DAT_RMR_CONTEXT context, const void *address, size_t length, unsigned seed)
{
    at_far(fill_room, 0, length, seed);
    return at_far(write_there, 0, length, context, (int64_t)address_of(address), 0);
}

static int64_t far_reads(DAT_RMR_CONTEXT context, const void *address, size_t length)
{
    at_far(fill_room, 0, length, 99);
    int64_t status = at_far(read_there, 0, length, context, (int64_t)address_of(address), 0);
    return status && !at_far(room_filled, 0, length, 99) ? 101 : status;
}

static void prepare(void)
{
    collect(near->ia, near->local, own(0), LENGTH);
    fill(own(0), LENGTH, SEED);
    publish(near->ia, near->local, own(0), LENGTH);
}

static bool untouched(void)
{
    collect(near->ia, near->local, own(0), LENGTH);
    return filled(own(0), LENGTH, SEED);
}

static void refused_there(const char *id, const char *what, int64_t status)
{
    CHECK_EQ(id, what, status, DAT_DTO_ERR_REMOTE_ACCESS);
    CHECK(id, "... it broke the connection at both ends", both_broken());
    CHECK(id, "... and no byte changed", untouched());
    connect_again();
}

static DAT_RMR_PARAM facts(void)
{
    DAT_RMR_PARAM p;
    memset(&p, 0x5a, sizeof p);
    MUST(dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, &p));
    return p;
}

static bool is_unbound(void)
{
    DAT_RMR_PARAM p = facts();
    return p.ia_handle == near->ia && p.pz_handle == near->pz && p.mem_priv == DAT_MEM_PRIV_NONE_FLAG &&
           p.lmr_triplet.lmr_context == 0 && p.lmr_triplet.virtual_address == 0 && p.lmr_triplet.segment_length == 0;
}

// ---- what a bind does ---------------------------------------------------------------------------------------------

static void signature(void)
{
    chapter("the call");
    DAT_RETURN (*call)(DAT_RMR_HANDLE, DAT_LMR_TRIPLET *, DAT_MEM_PRIV_FLAGS, DAT_EP_HANDLE, DAT_RMR_COOKIE,
                       DAT_COMPLETION_FLAGS, DAT_RMR_CONTEXT *) = dat_rmr_bind;
    DAT_LMR_TRIPLET p = part_of_room(100, 200);
    DAT_RMR_CONTEXT context = UNTOUCHED;
    DAT_EVENT event;
    CHECK("RMR-10", "a new RMR has no memory", is_unbound());
    memset(&event, 0x5a, sizeof event);
    CHECK_DONE("RMR-1", "it takes and gives what the page says",
               call(rmr, &p, BOTH, near->ep, cookie(0xfedcba9876543210), DEFAULT, &context));
    memset(&p, 0xee, sizeof p); // the caller's again
    CHECK("RMR-1", "it answers a context", context != UNTOUCHED && context != 0);
    REQUIRE(next_event(near->requests, &event));
    DAT_RMR_BIND_COMPLETION_EVENT_DATA *data = &event.event_data.rmr_completion_event_data;
    CHECK("RMR-3", "its completion is a bind event on the endpoint's request dispatcher",
          event.event_number == DAT_RMR_BIND_COMPLETION_EVENT && event.evd_handle == near->requests);
    CHECK("RMR-3", "... of this RMR, and succeeded", data->rmr_handle == rmr && data->status == DAT_DTO_SUCCESS);
    CHECK("RMR-11", "... with the cookie, bit by bit", data->user_cookie.as_64 == 0xfedcba9876543210);
    DAT_RMR_PARAM f = facts();
    CHECK("RMR-2", "the RMR says what it is bound to",
          f.lmr_triplet.lmr_context == near->local && f.lmr_triplet.virtual_address == address_of(own(100)) &&
              f.lmr_triplet.segment_length == 200 && f.mem_priv == BOTH && f.rmr_context == context);
    prepare();
    CHECK_EQ("RMR-2", "the far end reads its range", far_reads(context, own(100), 200), 0);
    CHECK_EQ("RMR-2", "... and writes its first byte", far_writes(context, own(100), 1, 40), 0);
    CHECK_EQ("RMR-2", "... and its last", far_writes(context, own(299), 1, 41), 0);
    collect(near->ia, near->local, own(0), LENGTH);
    CHECK("RMR-2", "... and there they are",
          own(100)[0] == pattern_byte(0, 40) && own(299)[0] == pattern_byte(0, 41) && own(99)[0] == pattern_byte(99,
                                                            SEED) &&
              own(300)[0] == pattern_byte(300, SEED));
    prepare();
    refused_there("RMR-2", "one byte behind is out of reach, though its LMR has it",
                  far_writes(context, own(299), 2, 9));
    refused_there("RMR-2", "... and one before", far_reads(context, own(99), 1));
    CHECK_EQ("RMR-2", "the bind outlives the endpoint it was posted to", far_reads(context, own(100), 200), 0);
}

static void contexts(void)
{
    enum { BINDS = 700 };
    static DAT_RMR_CONTEXT seen[BINDS];
    chapter("contexts");
    size_t again = 0;
    for (int i = 0; i < BINDS; i++) {
        seen[i] = bound(i % 64, 64, BOTH);
        for (int k = 0; k < i; k++)
            again += seen[k] == seen[i];
    }
    CHECK_EQ("RMR-2", "700 binds give 700 contexts", again, 0);
    prepare();
    CHECK_EQ("RMR-2", "the last one serves", far_reads(seen[BINDS - 1], own((BINDS - 1) % 64), 64), 0);
    refused_there("RMR-7", "the one before it is dead", far_writes(seen[BINDS - 2], own((BINDS - 2) % 64), 64, 9));
    refused_there("RMR-7", "... and the first", far_reads(seen[0], own(0), 64));
    DAT_RMR_CONTEXT last = bound(0, 64, BOTH);
    MUST(dat_rmr_free(rmr));
    refused_there("RMR-7", "the context of a freed RMR is dead", far_writes(last, own(0), 64, 9));
    CHECK_CODE("RMR-13", "a freed RMR is not bound", bind_with(part_of_room(0, 8), BOTH, 1, 0, &last), BAD_HANDLE(RMR));
    CHECK_CODE("RMR-13", "... nor freed again", dat_rmr_free(rmr), BAD_HANDLE(RMR));
    MUST(dat_rmr_create(near->pz, &rmr));
}

static void privileges(void)
{
    chapter("privileges");
    prepare();
    DAT_RMR_CONTEXT c = bound(0, LENGTH, READ);
    CHECK_EQ("RMR-9", "remote read reads", far_reads(c, own(0), LENGTH), 0);
    refused_there("RMR-9", "... and does not write", far_writes(c, own(0), 8, 9));
    c = bound(0, LENGTH, WRITE);
    CHECK_EQ("RMR-9", "remote write writes", far_writes(c, own(0), LENGTH, SEED), 0);
    CHECK("RMR-9", "... its bytes", untouched());
    refused_there("RMR-9", "... and does not read", far_reads(c, own(0), 8));
    c = bound(0, LENGTH, DAT_MEM_PRIV_NONE_FLAG);
    refused_there("RMR-9", "no privilege does not read", far_reads(c, own(0), 8));
    refused_there("RMR-9", "... nor write", far_writes(c, own(0), 8, 9));
    c = bound(0, LENGTH, DAT_MEM_PRIV_ALL_FLAG);
    CHECK_EQ("RMR-9", "of all privileges the remote ones count",
             far_reads(c, own(0), 8) + far_writes(c, own(0), LENGTH, SEED), 0);

    // The privileges of the LMR below.
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT local;
    DAT_RMR_CONTEXT remote;
    DAT_REGION_DESCRIPTION what = {.for_va = own(0)};
    MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, what, LENGTH, near->pz, DAT_MEM_PRIV_LOCAL_READ_FLAG, &lmr,
                        &local,
                        &remote, NULL, NULL));
    DAT_LMR_TRIPLET p = piece(local, own(0), 64);
    prepare();
    publish(near->ia, local, own(0), LENGTH);
    c = UNTOUCHED;
    CHECK_TYPE("RMR-9", "remote write needs local write of the LMR", bind_with(p, WRITE, 1, 0, &c),
               DAT_PRIVILEGES_VIOLATION);
    CHECK_CODE("RMR-13", "... and says which is missing", bind_with(p, BOTH, 1, 0, &c),
               ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_WRITE));
    CHECK("RMR-9", "... and nothing was bound", c == UNTOUCHED && facts().lmr_triplet.lmr_context == near->local &&
                                                     is_empty(near->requests));
    CHECK_DONE("RMR-9", "remote read needs no remote privilege of the LMR", bind_with(p, READ, 1, 0, &c));
    REQUIRE(next_done(near->requests).status == 0);
    CHECK_EQ("RMR-9", "... and reads", far_reads(c, own(0), 64), 0);
    bound(0, 64, BOTH);
    MUST(dat_lmr_free(lmr));

    MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, what, LENGTH, near->pz, DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &lmr,
                        &local, &remote, NULL, NULL));
    p = piece(local, own(0), 64);
    c = UNTOUCHED;
    CHECK_CODE("RMR-9", "remote read needs local read of the LMR", bind_with(p, READ, 1, 0, &c),
               ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_READ));
    CHECK_CODE("RMR-9", "... also beside remote write", bind_with(p, BOTH, 1, 0, &c),
               ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_READ));
    CHECK("RMR-9", "... and nothing was bound", c == UNTOUCHED && facts().lmr_triplet.lmr_context == near->local &&
                                                     is_empty(near->requests));
    CHECK_DONE("RMR-9", "remote write needs no more", bind_with(p, WRITE, 1, 0, &c));
    REQUIRE(next_done(near->requests).status == 0);
    CHECK_EQ("RMR-9", "... and writes", far_writes(c, own(0), 64, SEED), 0);
    bound(0, 64, BOTH);
    MUST(dat_lmr_free(lmr));
}

static void flags(void)
{
    chapter("completion flags");
    DAT_RMR_CONTEXT a = UNTOUCHED, b;
    prepare();
    CHECK_DONE("RMR-4", "a bind that is silent about success",
               bind_with(part_of_room(0, 64), BOTH, 31, DAT_COMPLETION_SUPPRESS_FLAG, &a));
    CHECK_DONE("RMR-4", "... and one that waits for what came before",
               bind_with(part_of_room(64, 64), BOTH, 32, DAT_COMPLETION_BARRIER_FENCE_FLAG, &b));
    struct done d = next_done(near->requests);
    CHECK("RMR-4", "only the second completes aloud", d.status == 0 && d.cookie == 32 && is_empty(near->requests));
    CHECK_EQ("RMR-4", "... and holds", far_reads(b, own(64), 64), 0);
    refused_there("RMR-7", "... and not the first", far_reads(a, own(0), 64));
    DAT_RMR_CONTEXT c = UNTOUCHED;
    CHECK_TYPE("RMR-4", "unsignalled is refused where the endpoint is not made for it",
               bind_with(part_of_room(0, 64), BOTH, 33, DAT_COMPLETION_UNSIGNALLED_FLAG, &c), DAT_INVALID_PARAMETER);
    CHECK_TYPE("RMR-4", "so are bits that mean nothing", bind_with(part_of_room(0, 64), BOTH, 33, 0x40, &c),
               DAT_INVALID_PARAMETER);
    CHECK("RMR-4", "... and nothing was bound", c == UNTOUCHED && facts().rmr_context == b && is_empty(near->requests));
    CHECK_EQ("RMR-4", "... and what was still serves", far_reads(b, own(64), 64), 0);
}

// An endpoint made for unsignalled completions: they are there, and wake nobody.
static void unsignalled(void)
{
    chapter("unsignalled");
    DAT_EP_PARAM now;
    MUST(dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &now));
    DAT_EP_ATTR attributes = now.ep_attr;
    attributes.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
    part();
    // A dispatcher that no other endpoint has used: its mode comes from the first.
    DAT_EVD_HANDLE before = near->requests;
    MUST(dat_evd_create(near->ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &near->requests));
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    ep_attributes = &attributes;
    CALL(near, make_endpoint);
    ep_attributes = NULL;
    MUST(ask(near, service, PATIENCE, 0, NULL));
    REQUIRE(at_far(accept_next) == 0 && CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED &&
            at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED && at_far(stop_listening) == 0);
    DAT_RMR_CONTEXT c;
    DAT_EVENT event;
    DAT_COUNT more = -1;
    prepare();
    CHECK_DONE("RMR-4", "unsignalled is taken where the endpoint is made for it",
               bind_with(part_of_room(0, 64), BOTH, 41, DAT_COMPLETION_UNSIGNALLED_FLAG, &c));
    CHECK_EQ("RMR-4", "... it binds", far_reads(c, own(0), 64), 0);
    CHECK_DONE("RMR-3", "the next one is signalled", bind_with(part_of_room(0, 64), BOTH, 42, 0, &c));
    CHECK_DONE("RMR-3", "... and wakes", dat_evd_wait(near->requests, PATIENCE, 1, &event, &more));
    CHECK("RMR-4", "... and the silent one comes out first, in order",
          event.event_data.rmr_completion_event_data.user_cookie.as_64 == 41);
    CHECK("RMR-3", "... then the other", next_done(near->requests).cookie == 42);
    part();
    MUST(dat_evd_free(near->requests));
    near->requests = before;
    connect_ends();
}

// ---- order --------------------------------------------------------------------------------------------------------

// Receives a context and the address behind it, and writes there at once: the status of the write.
static int64_t use_what_arrives(struct end *e, const int64_t *a)
{
    struct {
        uint64_t address;
        DAT_RMR_CONTEXT context;
    } note;
    int64_t failed = 0;
    for (int i = 0; i < a[0]; i++) {
        if (CALL(e, receive, PAGE, 64, i) || CALL(e, received, 1, sizeof note, i))
            return -5;
        memcpy(&note, e->room + PAGE, sizeof note);
        failed += CALL(e, write_there, 0, 64, note.context, (int64_t)note.address, 0) != 0;
        if (CALL(e, send_bytes, 0, 1, 0))
            return -6;
    }
    return failed;
}

static void fencing(void)
{
    enum { ROUNDS = 400 };
    chapter("what is posted behind a bind finds it done");
    struct {
        uint64_t address;
        DAT_RMR_CONTEXT context;
    } note;
    prepare();
    if (!alone)
        far_begins(use_what_arrives, ROUNDS);
    for (int i = 0; i < (alone ? 0 : ROUNDS); i++) {
        DAT_LMR_TRIPLET message = piece(near->local, near->room, sizeof note);
        MUST(bind_with(part_of_room(i, 64), BOTH, i, i % 2 ? DAT_COMPLETION_SUPPRESS_FLAG : 0, &note.context));
        note.address = address_of(own(i));
        memcpy(near->room, &note, sizeof note);
        REQUIRE(CALL(near, receive, PAGE, 64, i) == 0);
        MUST(dat_ep_post_send(near->ep, 1, &message, cookie(1000 + i), DEFAULT));
        if (i % 2 == 0)
            REQUIRE(next_done(near->requests).cookie == (uint64_t)i);
        REQUIRE(next_done(near->requests).cookie == 1000u + i);
        REQUIRE(CALL(near, received, 1, 1, i) == 0);
    }
    if (!alone)
        CHECK_EQ("RMR-5", "a context sent behind its bind serves the peer, each time", far_ends(), 0);
    // Completions are in the order of posting, whatever is between.
    DAT_LMR_TRIPLET p = part_of_room(0, 256), q = piece(near->local, near->room, 256);
    DAT_RMR_TRIPLET t = target((DAT_RMR_CONTEXT)at_far(far_context), (uint64_t)at_far(far_address), 256);
    DAT_RMR_CONTEXT c;
    MUST(dat_ep_post_rdma_read(near->ep, 1, &q, cookie(1), &t, DEFAULT));
    MUST(bind_with(p, BOTH, 2, DAT_COMPLETION_BARRIER_FENCE_FLAG, &c));
    MUST(dat_ep_post_rdma_write(near->ep, 1, &q, cookie(3), &t, DEFAULT));
    MUST(bind_with(p, READ, 4, DEFAULT, &c));
    MUST(bind_with(p, BOTH, 5, DEFAULT, &c));
    MUST(dat_ep_post_rdma_read(near->ep, 1, &q, cookie(6), &t, DEFAULT));
    bool order = true;
    for (uint64_t i = 1; i <= 6; i++) {
        struct done d = next_done(near->requests);
        order &= d.status == 0 && d.cookie == i;
    }
    CHECK("RMR-5", "reads, writes and binds complete in the order of posting", order);
    prepare();
    CHECK_EQ("RMR-5", "and the last bind holds", far_reads(c, own(0), 256), 0);
}

// The context reaches the far end by another way, perhaps before the bind is done.
static void early(void)
{
    chapter("a context that comes too early");
    for (int i = 0; i < 20; i++) {
        DAT_RMR_CONTEXT c;
        prepare();
        MUST(bind_with(part_of_room(0, 64), BOTH, 51, DEFAULT, &c));
        int64_t status = far_writes(c, own(0), 64, 60);
        REQUIRE(next_done(near->requests).status == 0);
        collect(near->ia, near->local, own(0), LENGTH);
        if (status) {
            CHECK_EQ("RMR-6", "it may be refused", status, DAT_DTO_ERR_REMOTE_ACCESS);
            CHECK("RMR-6", "... and then moved nothing", filled(own(0), LENGTH, SEED));
            connect_again();
        } else {
            CHECK("RMR-6", "or it serves whole", filled(own(0), 64, 60));
        }
    }
}

// ---- the end of a bind --------------------------------------------------------------------------------------------

static void unbinding(void)
{
    chapter("rebind and unbind");
    DAT_RMR_CONTEXT first = bound(0, 64, BOTH), second = bound(128, 64, BOTH);
    prepare();
    refused_there("RMR-7", "after a rebind the old context is dead", far_writes(first, own(0), 64, 9));
    refused_there("RMR-7", "... on the new range too", far_writes(first, own(128), 64, 9));
    refused_there("RMR-7", "... and the new one on the old range", far_writes(second, own(0), 64, 9));
    CHECK_EQ("RMR-2", "the new context serves the new range", far_reads(second, own(128), 64), 0);
    DAT_LMR_TRIPLET nothing = {.lmr_context = 0xdeadbeef, .virtual_address = 1, .segment_length = 0};
    CHECK_DONE("RMR-10", "length 0 unbinds, whatever stands beside it", bind_with(nothing, BOTH, 61, DEFAULT, NULL));
    struct done d = next_done(near->requests);
    CHECK("RMR-10", "... and completes as any bind", d.status == 0 && d.cookie == 61 && d.ep == rmr);
    CHECK("RMR-10", "the RMR has no memory any more", is_unbound());
    refused_there("RMR-7", "... and its context is dead", far_reads(second, own(128), 64));
    CHECK_DONE("RMR-10", "it is unbound once more", bind_with(nothing, DAT_MEM_PRIV_NONE_FLAG, 62, DEFAULT, &first));
    CHECK_EQ("RMR-10", "... without harm", next_done(near->requests).status, 0);
    CHECK("RMR-10", "... and still has none", is_unbound());
}

// Its RMR is freed while the bind waits for a send that the far end has no receive for.
static void fails_by_itself(void)
{
    DAT_RMR_HANDLE shared = rmr;
    DAT_RMR_CONTEXT kept = bound(0, 64, BOTH), context = UNTOUCHED;
    prepare();
    MUST(dat_rmr_create(near->pz, &rmr));
    DAT_LMR_TRIPLET q = piece(near->local, near->room, 8);
    MUST(dat_ep_post_send(near->ep, 1, &q, cookie(72), DEFAULT));
    CHECK_DONE("RMR-8", "a bind waits for a send",
               bind_with(part_of_room(0, 64), BOTH, 73, DAT_COMPLETION_SUPPRESS_FLAG, &context));
    CHECK_DONE("RMR-8", "its RMR is freed meanwhile", dat_rmr_free(rmr));
    CHECK("RMR-8", "nothing has ended yet", is_empty(near->requests));
    REQUIRE(at_far(receive, 0, 8, 1) == 0);
    struct done d = next_done(near->requests);
    CHECK("RMR-8", "the send succeeds", d.cookie == 72 && d.status == DAT_DTO_SUCCESS);
    d = next_done(near->requests);
    CHECK("RMR-8", "the bind fails, and says so though it was to be silent",
          d.cookie == 73 && d.status == (int64_t)DAT_RMR_OPERATION_FAILED);
    CHECK_EQ("RMR-8", "it broke the connection", CALL(near, next_connection), DAT_CONNECTION_EVENT_BROKEN);
    CHECK_EQ("RMR-8", "... and disconnected the endpoint", CALL(near, state_of), DAT_EP_STATE_DISCONNECTED);
    connect_again();
    refused_there("RMR-8", "its context leads nowhere", far_writes(context, own(0), 8, 9));
    CHECK_EQ("RMR-8", "another RMR on the same bytes serves as before", far_reads(kept, own(0), 64), 0);
    rmr = shared;
}

static void failing(void)
{
    chapter("a bind that fails after the call");
    DAT_RMR_CONTEXT before = bound(0, 64, BOTH), after = UNTOUCHED;
    prepare();
    // Behind a write that the far end refuses.
    DAT_LMR_TRIPLET q = piece(near->local, near->room, 64);
    DAT_RMR_TRIPLET nowhere = target(0x00badbad, (uint64_t)at_far(far_address), 64);
    MUST(dat_ep_post_rdma_write(near->ep, 1, &q, cookie(70), &nowhere, DAT_COMPLETION_SUPPRESS_FLAG));
    DAT_RETURN code = bind_with(part_of_room(64, 64), BOTH, 71, DAT_COMPLETION_SUPPRESS_FLAG, &after);
    struct done d = next_done(near->requests);
    CHECK("RMR-8", "a failure is reported though it was to be silent", d.cookie == 70 &&
          d.status == DAT_DTO_ERR_REMOTE_ACCESS);
    CHECK_EQ("RMR-8", "the bind behind it was taken", code, DAT_SUCCESS);
    d = next_done(near->requests);
    CHECK("RMR-8", "... and is flushed", d.cookie == 71 && d.status == DAT_DTO_ERR_FLUSHED && d.ep == rmr);
    CHECK_EQ("RMR-8", "the connection is broken", CALL(near, next_connection), DAT_CONNECTION_EVENT_BROKEN);
    CHECK_EQ("RMR-8", "and the endpoint disconnected", CALL(near, state_of), DAT_EP_STATE_DISCONNECTED);
    CHECK("RMR-8", "the RMR is bound as before", facts().rmr_context == before &&
          facts().lmr_triplet.virtual_address == address_of(own(0)));
    connect_again();
    CHECK_EQ("RMR-8", "... and serves", far_reads(before, own(0), 64), 0);
    refused_there("RMR-8", "... and the flushed bind does not", far_reads(after, own(64), 64));
    fails_by_itself();
}

static void states(void)
{
    chapter("states");
    DAT_RMR_CONTEXT before = bound(0, 64, BOTH), c = UNTOUCHED;
    prepare();
    // Disconnected: taken and flushed at once.
    CALL(near, hang_up);
    at_far(hang_up);
    drain_end(near);
    CHECK_DONE("RMR-12", "a disconnected endpoint takes a bind",
               bind_with(part_of_room(64, 64), BOTH, 81, DEFAULT, &c));
    struct done d = next_done(near->requests);
    CHECK("RMR-12", "... and flushes it", d.cookie == 81 && d.status == DAT_DTO_ERR_FLUSHED && d.ep == rmr);
    CHECK("RMR-12", "... and nothing was bound", facts().rmr_context == before);
    DAT_LMR_TRIPLET nothing = {0};
    CHECK_DONE("RMR-12", "the same of an unbind", bind_with(nothing, BOTH, 82, DAT_COMPLETION_SUPPRESS_FLAG, &c));
    CHECK_EQ("RMR-12", "... flushed", next_done(near->requests).status, DAT_DTO_ERR_FLUSHED);
    CHECK("RMR-12", "... and the RMR is bound", facts().rmr_context == before);
    MUST(dat_ep_reset(near->ep));
    c = UNTOUCHED;
    CHECK_CODE("RMR-12", "an unconnected one does not", bind_with(part_of_room(64, 64), BOTH, 83, DEFAULT, &c),
               BAD_STATE(EP_UNCONNECTED));
    CHECK("RMR-12", "... and nothing comes of it", c == UNTOUCHED && is_empty(near->requests) &&
          facts().rmr_context == before);
    // A connection on its way: the far end does not answer yet.
    at_far(drop_endpoint);
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    MUST(ask(near, service, DAT_TIMEOUT_INFINITE, 0, NULL));
    CHECK_CODE("RMR-12", "nor one that is being connected", bind_with(part_of_room(64, 64), BOTH, 84, DEFAULT, &c),
               BAD_STATE(EP_ACTCONNPENDING));
    REQUIRE(at_far(accept_next) == 0 && CALL(near, next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
    REQUIRE(at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED && at_far(stop_listening) == 0);
    CHECK("RMR-12", "... and nothing came of it", c == UNTOUCHED && is_empty(near->requests) &&
          facts().rmr_context == before);
    CHECK_EQ("RMR-12", "and the bind of old holds", far_reads(before, own(0), 64), 0);
    // Reserved for a service point.
    DAT_EP_HANDLE connected = near->ep;
    DAT_RSP_HANDLE rsp;
    DAT_CONN_QUAL number;
    DAT_PSP_HANDLE psp;
    MUST(dat_psp_create_any(near->ia, &number, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    MUST(dat_psp_free(psp));
    CALL(near, make_endpoint);
    MUST(dat_rsp_create(near->ia, number, near->ep, near->arrivals, &rsp));
    CHECK_CODE("RMR-12", "nor one that is reserved", bind_with(part_of_room(64, 64), BOTH, 85, DEFAULT, &c),
               BAD_STATE(EP_RESERVED));
    CHECK("RMR-12", "... and nothing came of it", c == UNTOUCHED && is_empty(near->requests) &&
          facts().rmr_context == before);
    MUST(dat_rsp_free(rsp));
    MUST(dat_ep_free(near->ep));
    near->ep = connected;
}

// ---- refusals -----------------------------------------------------------------------------------------------------

static void results(void)
{
    chapter("refusals");
    DAT_RMR_CONTEXT before = bound(0, 64, BOTH), c = UNTOUCHED;
    prepare();
    DAT_LMR_TRIPLET good = part_of_room(64, 64);
    struct {
        const char *sentence;
        DAT_LMR_TRIPLET p;
    } beyond[] = {
        {"a range that ends behind the LMR", piece(near->local, near->room + ROOM - 63, 64)},
        {"one that begins before it", piece(near->local, near->room - 1, 64)},
        {"one far away", piece(near->local, near->room + ROOM + PAGE, 64)},
        {"one around the end of all addresses", piece(near->local, own(0), (size_t)-1)},
        {"one that begins there", piece(near->local, (void *)-64l, 128)},
        {"an LMR context that was made up", piece(0x00badbad, own(0), 64)},
        {"an RMR context", piece(near->remote, own(0), 64)},
        {"no context", piece(0, own(0), 64)},
    };
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        CHECK_CODE("RMR-13", beyond[i].sentence, bind_with(beyond[i].p, BOTH, 1, 0, &c), BAD_ARGUMENT(2));
    CHECK_CODE("RMR-13", "no triplet", dat_rmr_bind(rmr, NULL, BOTH, near->ep, cookie(1), 0, &c), BAD_ARGUMENT(2));
    CHECK_TYPE("RMR-13", "privileges that do not exist", bind_with(good, (DAT_MEM_PRIV_FLAGS)0x44, 1, 0, &c),
               DAT_INVALID_PARAMETER);
    CHECK_CODE("RMR-13", "no RMR", dat_rmr_bind(NULL, &good, BOTH, near->ep, cookie(1), 0, &c), BAD_HANDLE(RMR));
    CHECK_CODE("RMR-13", "an LMR for an RMR", dat_rmr_bind(near->lmr, &good, BOTH, near->ep, cookie(1), 0, &c),
               BAD_HANDLE(RMR));
    CHECK_CODE("RMR-13", "no endpoint", dat_rmr_bind(rmr, &good, BOTH, NULL, cookie(1), 0, &c), BAD_HANDLE(EP));
    CHECK_CODE("RMR-13", "a zone for an endpoint", dat_rmr_bind(rmr, &good, BOTH, near->pz, cookie(1), 0, &c),
               BAD_HANDLE(EP));

    DAT_PZ_HANDLE other;
    DAT_RMR_HANDLE foreign_rmr;
    DAT_LMR_HANDLE foreign_lmr;
    DAT_LMR_CONTEXT foreign;
    DAT_REGION_DESCRIPTION what = {.for_va = own(0)};
    MUST(dat_pz_create(near->ia, &other));
    MUST(dat_rmr_create(other, &foreign_rmr));
    MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, what, LENGTH, other, ALL_PRIVILEGES, &foreign_lmr, &foreign,
                        NULL, NULL, NULL));
    CHECK_TYPE("RMR-13", "an RMR of another zone", dat_rmr_bind(foreign_rmr, &good, BOTH, near->ep, cookie(1), 0, &c),
               DAT_PROTECTION_VIOLATION);
    CHECK_TYPE("RMR-13", "an LMR of another zone", bind_with(piece(foreign, own(0), 64), BOTH, 1, 0, &c),
               DAT_PROTECTION_VIOLATION);
    DAT_LMR_TRIPLET there = piece(foreign, own(0), 64);
    CHECK_TYPE("RMR-13", "an endpoint of another zone",
               dat_rmr_bind(foreign_rmr, &there, BOTH, near->ep, cookie(1), 0, &c), DAT_PROTECTION_VIOLATION);
    CHECK("RMR-13", "after all that nothing was bound", c == UNTOUCHED && facts().rmr_context == before &&
          is_empty(near->requests));
    CHECK_EQ("RMR-13", "... the connection stands", CALL(near, state_of), DAT_EP_STATE_CONNECTED);
    CHECK_EQ("RMR-13", "... and what was bound serves", far_reads(before, own(0), 64), 0);
    CHECK("RMR-13", "... and no byte changed", untouched());
    CHECK_CODE("RMR-13", "a zone with an RMR cannot go", dat_pz_free(other), BAD_STATE(PZ_IN_USE));
    MUST(dat_lmr_free(foreign_lmr));
    MUST(dat_rmr_free(foreign_rmr));
    MUST(dat_pz_free(other));

    // A queue that is full: nobody takes completions.
    DAT_RETURN code;
    int taken = 0;
    while ((code = bind_with(part_of_room(taken % 64, 64), BOTH, taken, DEFAULT, &c)) == DAT_SUCCESS && taken < 100000)
        taken++;
    CHECK_TYPE("RMR-13", "no room among the requests: no resources", code, DAT_INSUFFICIENT_RESOURCES);
    DAT_EP_PARAM now;
    MUST(dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &now));
    CHECK("RMR-13", "... after as many as the endpoint was made for", taken >= now.ep_attr.max_request_dtos);
    bool all = true;
    for (int i = 0; i < taken; i++) {
        struct done d = next_done(near->requests);
        all &= d.status == 0 && d.cookie == (uint64_t)i;
    }
    CHECK("RMR-13", "... which all complete", all && is_empty(near->requests));
    CHECK("RMR-13", "... and then there is room", bound(0, 64, BOTH) != 0);
}

// An endpoint whose requests go where no bind events are taken.
static void no_stream(void)
{
    chapter("no stream for binds");
    DAT_RMR_CONTEXT before = facts().rmr_context, c = UNTOUCHED;
    DAT_EVD_HANDLE requests = near->requests;
    part();
    MUST(dat_evd_create(near->ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &near->requests));
    connect_ends();
    CHECK_CODE("RMR-13", "an endpoint whose request dispatcher takes no bind events: model not supported",
               bind_with(part_of_room(0, 64), BOTH, 1, 0, &c), ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
    CHECK("RMR-13", "... and nothing was bound", c == UNTOUCHED && facts().rmr_context == before &&
          is_empty(near->requests));
    CHECK("RMR-13", "... and the connection works", talks());
    part();
    MUST(dat_evd_free(near->requests));
    near->requests = requests;
    connect_ends();
}

// Any endpoint of the zone, not only the one that carried the bind.
static void scope(void)
{
    chapter("scope");
    prepare();
    DAT_RMR_CONTEXT c = bound(0, 64, BOTH);
    DAT_EP_HANDLE first = near->ep, far_first = (DAT_EP_HANDLE)at_far(take_endpoint);
    connect_ends();
    CHECK_EQ("RMR-2", "it serves another endpoint of the zone", far_reads(c, own(0), 64), 0);
    part();
    near->ep = first;
    at_far(put_endpoint, (int64_t)(intptr_t)far_first);
    CHECK_EQ("RMR-2", "... and the one it was bound on", far_reads(c, own(0), 64), 0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    MUST(dat_rmr_create(near->pz, &rmr));
    connect_ends();
    signature();
    contexts();
    privileges();
    flags();
    unsignalled();
    fencing();
    early();
    unbinding();
    failing();
    states();
    results();
    no_stream();
    scope();
    part();
    MUST(dat_rmr_free(rmr));
    return end();
}
