// Connections: every way to ask, to be asked, to refuse, to hand on, to end; private data of every size; every state that
// forbids a call. A call that is refused leaves endpoint, request and dispatchers as they were.

#include "ends.h"

#define NOBODY_LISTENS 0x7fff1234 // a number above all 16-bit ones

static DAT_EVENT event;
static int most; // bytes of private data

static DAT_EP_PARAM facts(void)
{
    DAT_EP_PARAM p;
    memset(&p, 0x5a, sizeof p);
    MUST(dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &p));
    return p;
}

static DAT_EP_STATE state(void) { return (DAT_EP_STATE)CALL(near, state_of); }

static bool nothing_happened(void)
{
    return is_empty(near->connections) && is_empty(near->arrivals) && is_empty(near->receives) && is_empty(near->requests);
}

// ---- far steps ----------------------------------------------------------------------------------------------------

static DAT_CR_HANDLE held;

static int64_t take_request(struct end *e, const int64_t *a)
{
    (void)a;
    held = next_request(e);
    return e->private_size;
}

static int64_t private_is(struct end *e, const int64_t *a)
{
    return e->private_size == a[0] && filled(e->private_data, a[0], (unsigned)a[1]);
}

static int64_t accept_held(struct end *e, const int64_t *a)
{
    unsigned char bytes[1024];
    fill(bytes, a[0], (unsigned)a[1]);
    CALL(e, make_endpoint);
    return -(int64_t)dat_cr_accept(held, e->ep, (DAT_COUNT)a[0], a[0] ? bytes : NULL);
}

static int64_t reject_held(struct end *e, const int64_t *a)
{
    (void)e, (void)a;
    return -(int64_t)dat_cr_reject(held);
}

static int64_t hand_on_held(struct end *e, const int64_t *a)
{
    (void)e;
    return -(int64_t)dat_cr_handoff(held, (DAT_CONN_QUAL)a[0]);
}

static int64_t listen_at(struct end *e, const int64_t *a)
{
    return -(int64_t)dat_psp_create(e->ia, (DAT_CONN_QUAL)a[0], e->arrivals, (DAT_PSP_FLAGS)a[1], &e->psp);
}

// These numbers are everybody's: the same program may be at it in another environment.
static int64_t listen_when_free(DAT_CONN_QUAL number)
{
    int64_t answer;
    for (int tries = 0; tries < 60000; tries++) {
        answer = at_far(listen_at, (int64_t)number, 0);
        if (answer != -(int64_t)DAT_CONN_QUAL_IN_USE)
            break;
        usleep(1000);
    }
    return answer;
}

static int64_t disconnect_far(struct end *e, const int64_t *a)
{
    return -(int64_t)dat_ep_disconnect(e->ep, (DAT_CLOSE_FLAGS)a[0]);
}

static int64_t no_request(struct end *e, const int64_t *a)
{
    (void)a;
    return is_empty(e->arrivals);
}

static int64_t free_far(struct end *e, const int64_t *a)
{
    (void)a;
    return dat_ep_free(e->ep);
}

static int64_t ask_far(struct end *e, const int64_t *a)
{
    (void)a;
    return ask(e, NOBODY_LISTENS, PATIENCE, 0, NULL);
}

static void ask_service(DAT_CONN_QUAL service, int size, unsigned seed)
{
    unsigned char bytes[1024];
    fill(bytes, size, seed);
    CALL(near, make_endpoint);
    MUST(ask(near, service, PATIENCE, size, size ? bytes : NULL));
}

static int64_t next_is(void) { return CALL(near, next_connection); }

// ---- private data -------------------------------------------------------------------------------------------------

static void private_data(void)
{
    chapter("private data of every size");
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    int wrong = 0;
    for (int size = 0; size <= most; size += size < 70 || size > most - 3 ? 1 : 13) {
        ask_service(service, size, size);
        wrong += at_far(take_request) != size || !at_far(private_is, size, size);
        wrong += at_far(accept_held, most - size, size + 1) != 0;
        wrong += next_is() != DAT_CONNECTION_EVENT_ESTABLISHED || !CALL(near, private_is, most - size, size + 1);
        wrong += at_far(next_connection) != DAT_CONNECTION_EVENT_ESTABLISHED || at_far(private_is, 0, 0) != 1;
        part();
        if (wrong) {
            printf("# size %d\n", size);
            break;
        }
    }
    CHECK_EQ("connect", "any number of bytes travels whole, with its size, both ways", wrong, 0);
    unsigned char bytes[2048];
    CALL(near, make_endpoint);
    CHECK_CODE("connect", "more than the most is refused", ask(near, service, PATIENCE, most + 1, bytes),
               BAD_ARGUMENT(5));
    CHECK_CODE("connect", "so is less than none", ask(near, service, PATIENCE, -1, bytes), BAD_ARGUMENT(5));
    CHECK_CODE("connect", "so is a size without bytes", ask(near, service, PATIENCE, 8, NULL), BAD_ARGUMENT(6));
    CHECK("connect", "... and nothing was asked", state() == DAT_EP_STATE_UNCONNECTED && nothing_happened() &&
          at_far(no_request));
    MUST(dat_ep_free(near->ep));
    ask_service(service, 0, 0);
    REQUIRE(at_far(take_request) == 0);
    CHECK_EQ("connect", "an answer of more than the most is refused", at_far(accept_held, most + 1, 0),
             -(int64_t)BAD_ARGUMENT(3));
    at_far(drop_endpoint);
    CHECK_EQ("connect", "... and the request is still there", at_far(accept_held, 0, 0), 0);
    CHECK("connect", "... and accepted", next_is() == DAT_CONNECTION_EVENT_ESTABLISHED &&
          at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
    REQUIRE(talks());
    part();
    at_far(stop_listening);
}

// ---- asking -------------------------------------------------------------------------------------------------------

static void asking(void)
{
    chapter("asking");
    // Of some link, and nobody knows of which: no way leads there, whatever networks there are.
    struct sockaddr_in6 far_away = {.sin6_family = AF_INET6, .sin6_addr.s6_addr = {0xfe, 0x80, [15] = 1}};
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    struct sockaddr other = {.sa_family = AF_UNIX};
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    CALL(near, make_endpoint);
    struct sockaddr *here = address_of_end(near);
#define CONNECT(address, timeout, size, data, qos, flags)                                                            \
    dat_ep_connect(near->ep, (DAT_IA_ADDRESS_PTR)(address), service, timeout, size, data, qos, flags)
    CHECK_CODE("connect", "no time", CONNECT(here, 0, 0, NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
               BAD_ARGUMENT(4));
    CHECK_CODE("connect", "no address",
               CONNECT(NULL, PATIENCE, 0, NULL, DAT_QOS_BEST_EFFORT,
                       DAT_CONNECT_DEFAULT_FLAG), ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED));
    CHECK_CODE("connect", "an address of another family",
               CONNECT(&other, PATIENCE, 0, NULL, DAT_QOS_BEST_EFFORT,
                       DAT_CONNECT_DEFAULT_FLAG), ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED));
    DAT_QOS classes[] = {DAT_QOS_HIGH_THROUGHPUT, DAT_QOS_LOW_LATENCY, DAT_QOS_ECONOMY, DAT_QOS_PREMIUM};
    for (int i = 0; i < 4; i++)
        CHECK_CODE("connect", "another class of service",
                   CONNECT(here, PATIENCE, 0, NULL, classes[i],
                           DAT_CONNECT_DEFAULT_FLAG), ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
    CHECK_CODE("connect", "several paths",
               CONNECT(here, PATIENCE, 0, NULL, DAT_QOS_BEST_EFFORT,
                       DAT_CONNECT_MULTIPATH_FLAG), ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
    CHECK("connect", "... and nothing was asked", state() == DAT_EP_STATE_UNCONNECTED && nothing_happened() &&
          at_far(no_request));
    // Nobody there.
    DAT_RETURN code = CONNECT(&far_away, PATIENCE, 0, NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
    CHECK("connect", "a host that no way leads to is unreachable, at once or by an event",
          (code == DAT_SUCCESS && next_is() == DAT_CONNECTION_EVENT_UNREACHABLE &&
           state() == DAT_EP_STATE_DISCONNECTED) ||
              code == ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE));
    CALL(near, drop_endpoint);
    CALL(near, make_endpoint);
    CHECK_DONE("connect", "a number on which nobody listens", ask(near, NOBODY_LISTENS, PATIENCE, 0, NULL));
    CHECK_EQ("connect", "... is refused, and not by a peer", next_is(), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CHECK_EQ("connect", "... and the endpoint is disconnected", state(), DAT_EP_STATE_DISCONNECTED);
    CHECK_CODE("connect", "which does not connect", ask(near, service, PATIENCE, 0, NULL), BAD_STATE(EP_DISCONNECTED));
    CHECK_DONE("connect", "until it is reset", dat_ep_reset(near->ep));
    // By the loopback address, and any family of it.
    CHECK_DONE("connect", "the loopback address serves",
               CONNECT(&loopback, PATIENCE, 0, NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    CHECK_EQ("connect", "the endpoint waits", state(), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    CHECK_CODE("connect", "... and does not ask twice", ask(near, service, PATIENCE, 0, NULL),
               BAD_STATE(EP_ACTCONNPENDING));
    CHECK_CODE("connect", "... is not reset", dat_ep_reset(near->ep), BAD_STATE(EP_ACTCONNPENDING));
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 8);
    CHECK_CODE("connect", "... and sends nothing", dat_ep_post_send(near->ep, 1, &p, cookie(1), 0),
               BAD_STATE(EP_ACTCONNPENDING));
    REQUIRE(at_far(take_request) == 0 && at_far(accept_held, 0, 0) == 0);
    REQUIRE(next_is() == DAT_CONNECTION_EVENT_ESTABLISHED &&
            at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
    DAT_EP_PARAM f = facts();
    CHECK("connect", "connected, it knows where to",
          f.ep_state == DAT_EP_STATE_CONNECTED && f.remote_port_qual == service && f.remote_ia_address_ptr &&
              f.remote_ia_address_ptr->sa_family == AF_INET && f.local_ia_address_ptr);
    CHECK_CODE("connect", "... and does not ask again", ask(near, service, PATIENCE, 0, NULL), BAD_STATE(EP_CONNECTED));
    CHECK_CODE("connect", "... is not reset", dat_ep_reset(near->ep), BAD_STATE(EP_CONNECTED));
    CHECK("connect", "... and works", talks());
    part();
    // A time that runs out, but not before the other process, which may have to wait for a processor, has the request.
    CALL(near, make_endpoint);
    int64_t began = now_ns();
    CHECK_DONE("connect", "for a second", ask(near, service, 1000000, 0, NULL));
    CHECK_EQ("connect", "... nobody answers", next_is(), DAT_CONNECTION_EVENT_TIMED_OUT);
    CHECK("connect", "... and they have passed", now_ns() - began >= 1000000000);
    CHECK_EQ("connect", "... and the endpoint is disconnected", state(), DAT_EP_STATE_DISCONNECTED);
    REQUIRE(at_far(take_request) == 0);
    CHECK_EQ("connect", "who accepts then", at_far(accept_held, 0, 0), 0);
    CHECK_EQ("connect", "... is told that it was too late", at_far(next_connection),
             DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    CHECK_EQ("connect", "... and is disconnected", at_far(state_of), DAT_EP_STATE_DISCONNECTED);
    at_far(drop_endpoint);
    CALL(near, drop_endpoint);
    // Given up by the one who asked.
    CALL(near, make_endpoint);
    REQUIRE(CALL(near, receive, 0, 8, 9) == 0);
    MUST(ask(near, service, DAT_TIMEOUT_INFINITE, 0, NULL));
    REQUIRE(at_far(take_request) == 0);
    CHECK_DONE("connect", "an attempt is given up", dat_ep_disconnect(near->ep, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_EQ("connect", "... which ends it", next_is(), DAT_CONNECTION_EVENT_DISCONNECTED);
    CHECK_EQ("connect", "... and flushes its receives", CALL(near, received), DAT_DTO_ERR_FLUSHED);
    CHECK_EQ("connect", "... and disconnects it", state(), DAT_EP_STATE_DISCONNECTED);
    CALL(near, drop_endpoint);
    CHECK_EQ("connect", "who rejects such a request", at_far(reject_held), 0);
    CHECK("connect", "... does no harm", nothing_happened());
    at_far(stop_listening);
    // An endpoint without what it needs.
    DAT_EP_HANDLE bare;
    MUST(dat_ep_create(near->ia, DAT_HANDLE_NULL, near->receives, near->requests, near->connections, NULL, &bare));
    near->ep = bare;
    CHECK_CODE("connect", "an endpoint without a zone does not connect", ask(near, service, PATIENCE, 0, NULL),
               BAD_STATE(EP_NOTREADY));
    MUST(dat_ep_free(bare));
    MUST(dat_ep_create(near->ia, near->pz, near->receives, near->requests, DAT_HANDLE_NULL, NULL, &bare));
    near->ep = bare;
    CHECK_CODE("connect", "nor one without a connect dispatcher", ask(near, service, PATIENCE, 0, NULL),
               BAD_HANDLE(EVD_CONN));
    CHECK_EQ("connect", "... and both stay unconnected", state(), DAT_EP_STATE_UNCONNECTED);
    MUST(dat_ep_free(bare));
    near->ep = DAT_HANDLE_NULL;
}

// ---- being asked --------------------------------------------------------------------------------------------------

static void answering(void)
{
    chapter("answering");
    // The near end is asked by itself here: requests, endpoints and events all are in sight.
    DAT_CONN_QUAL service;
    DAT_PSP_HANDLE psp;
    DAT_PSP_PARAM point;
    DAT_CR_PARAM request;
    unsigned char bytes[4] = {1, 2, 3, 4};
    MUST(dat_psp_create_any(near->ia, &service, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    memset(&point, 0x5a, sizeof point);
    MUST(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &point));
    CHECK("psp", "a service point says what it is",
          point.ia_handle == near->ia && point.conn_qual == service && point.evd_handle == near->arrivals && point.psp_flags == DAT_PSP_CONSUMER_FLAG);
    CHECK_CODE("psp", "a query of fields that do not exist", dat_psp_query(psp, (DAT_PSP_PARAM_MASK)0x10, &point),
               BAD_ARGUMENT(2));
    CHECK_CODE("psp", "a query into nothing", dat_psp_query(psp, DAT_PSP_FIELD_ALL, NULL), BAD_ARGUMENT(3));
    CHECK_CODE("psp", "a dispatcher that it feeds cannot go", dat_evd_free(near->arrivals), BAD_STATE(EVD_IN_USE));
    ask_service(service, 3, 5);
    DAT_EP_HANDLE active = near->ep, passive, other;
    REQUIRE(next_event(near->arrivals, &event));
    DAT_CR_ARRIVAL_EVENT_DATA *arrival = &event.event_data.cr_arrival_event_data;
    CHECK("cr", "a request says where it arrived",
          event.event_number == DAT_CONNECTION_REQUEST_EVENT && arrival->conn_qual == service && arrival->sp_handle.psp_handle == psp &&
              arrival->local_ia_address_ptr && event.evd_handle == near->arrivals);
    DAT_CR_HANDLE cr = arrival->cr_handle;
    memset(&request, 0x5a, sizeof request);
    MUST(dat_cr_query(cr, DAT_CR_FIELD_ALL, &request));
    CHECK("cr", "... and what came with it", request.private_data_size == 3 && filled(request.private_data, 3, 5) &&
                                                 request.local_ep_handle == DAT_HANDLE_NULL && request.remote_ia_address_ptr &&
                                                 request.remote_port_qual != 0);
    CHECK_CODE("cr", "a query of fields that do not exist", dat_cr_query(cr, (DAT_CR_PARAM_MASK)0x20, &request),
               BAD_ARGUMENT(2));
    CHECK_CODE("cr", "a query into nothing", dat_cr_query(cr, DAT_CR_FIELD_ALL, NULL), BAD_ARGUMENT(3));
    CALL(near, make_endpoint);
    passive = near->ep;
    MUST(dat_ep_create(near->ia, DAT_HANDLE_NULL, near->receives, near->requests, near->connections, NULL, &other));
    CHECK_CODE("cr", "it needs an endpoint", dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), BAD_HANDLE(EP));
    CHECK_CODE("cr", "... with a zone", dat_cr_accept(cr, other, 0, NULL), BAD_HANDLE(EP));
    CHECK_TYPE("cr", "... that is not connecting itself", dat_cr_accept(cr, active, 0, NULL), DAT_INVALID_STATE);
    CHECK_CODE("cr", "a size without bytes", dat_cr_accept(cr, passive, 4, NULL), BAD_ARGUMENT(4));
    CHECK_CODE("cr", "a size below none", dat_cr_accept(cr, passive, -1, bytes), BAD_ARGUMENT(3));
    MUST(dat_ep_free(other));
    DAT_EP_STATE s;
    MUST(dat_ep_get_status(passive, &s, NULL, NULL));
    CHECK("cr", "... and nothing was accepted", s == DAT_EP_STATE_UNCONNECTED && is_empty(near->connections));
    MUST(dat_psp_free(psp));
    CHECK_DONE("cr", "a request outlives its service point", dat_cr_accept(cr, passive, 4, bytes));
    CHECK_CODE("cr", "... and is gone when it is accepted", dat_cr_accept(cr, passive, 0, NULL), BAD_HANDLE(CR));
    CHECK_CODE("cr", "... either way", dat_cr_reject(cr), BAD_HANDLE(CR));
    DAT_EP_HANDLE seen[2];
    for (int i = 0; i < 2; i++) {
        REQUIRE(next_event(near->connections, &event) && event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED);
        seen[i] = event.event_data.connect_event_data.ep_handle;
        int size = event.event_data.connect_event_data.private_data_size;
        CHECK("connect", "each side is told, the asking one with the answer",
              (seen[i] == active && size == 4 &&
               memcmp(event.event_data.connect_event_data.private_data, bytes, 4) == 0) ||
                  (seen[i] == passive && size == 0));
    }
    CHECK("connect", "... both", seen[0] != seen[1]);
    CHECK_DONE("connect", "one disconnects", dat_ep_disconnect(active, DAT_CLOSE_DEFAULT));
    for (int i = 0; i < 2; i++)
        REQUIRE(next_event(near->connections, &event) && event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED);
    CHECK("connect", "and both are told", is_empty(near->connections));
    MUST(dat_ep_free(active));
    MUST(dat_ep_free(passive));
    // The same number again.
    MUST(dat_psp_create(near->ia, service, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    DAT_PSP_HANDLE again = (void *)0x1234;
    CHECK_EQ("psp", "a number in use, of this end",
             DAT_GET_TYPE(dat_psp_create(near->ia, service, near->arrivals, DAT_PSP_CONSUMER_FLAG,
                                         &again)), DAT_CONN_QUAL_IN_USE);
    CHECK_CODE("psp", "flags that do not exist",
               dat_psp_create(near->ia, service + 1, near->arrivals, (DAT_PSP_FLAGS)2, &again), BAD_ARGUMENT(4));
    CHECK_TYPE("psp", "no place for it",
               dat_psp_create(near->ia, service + 1, near->arrivals, DAT_PSP_CONSUMER_FLAG,
                              NULL), DAT_INVALID_PARAMETER);
    CHECK("psp", "... and nothing was made", again == (void *)0x1234);
    CHECK_EQ("psp", "nor has it the other end", -at_far(listen_at, (int64_t)service, 0), DAT_CONN_QUAL_IN_USE);
    MUST(dat_psp_free(psp));
    CHECK_EQ("psp", "until it is free", at_far(listen_at, (int64_t)service, 0), 0);
    at_far(stop_listening);
    // Numbers of 64 bits.
    DAT_CONN_QUAL wide[] = {1, 65535, 65536, 0x8000000000000000u, 0xffffffffffffffffu};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        CHECK_EQ("psp", "a number may have 64 bits", listen_when_free(wide[i]), 0);
        ask_service(wide[i], 0, 0);
        REQUIRE(at_far(accept_next) == 0);
        CHECK("psp", "... and is found", next_is() == DAT_CONNECTION_EVENT_ESTABLISHED &&
              facts().remote_port_qual == wide[i]);
        REQUIRE(at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
        part();
        at_far(stop_listening);
    }
}

static void rejecting(void)
{
    chapter("rejecting and handing on");
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    ask_service(service, 8, 1);
    REQUIRE(at_far(take_request) == 8);
    CHECK_EQ("cr", "a request is rejected", at_far(reject_held), 0);
    CHECK_EQ("cr", "... which its sender is told", next_is(), DAT_CONNECTION_EVENT_PEER_REJECTED);
    CHECK_EQ("cr", "... and is disconnected by", state(), DAT_EP_STATE_DISCONNECTED);
    CHECK_EQ("cr", "it is not rejected twice", at_far(reject_held), -(int64_t)BAD_HANDLE(CR));
    CALL(near, drop_endpoint);
    // To a service point of the near end.
    DAT_CONN_QUAL own;
    DAT_PSP_HANDLE psp;
    MUST(dat_psp_create_any(near->ia, &own, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    ask_service(service, 40, 2);
    REQUIRE(at_far(take_request) == 40);
    CHECK("cr", "it is not handed to where nobody listens",
          DAT_GET_TYPE((DAT_RETURN)-at_far(hand_on_held, NOBODY_LISTENS)) == DAT_INVALID_PARAMETER);
    CHECK_EQ("cr", "it is handed on", at_far(hand_on_held, (int64_t)own), 0);
    CHECK_EQ("cr", "... and is gone there", at_far(reject_held), -(int64_t)BAD_HANDLE(CR));
    DAT_EP_HANDLE active = near->ep;
    DAT_CR_HANDLE cr = next_request(near);
    CHECK("cr", "... with its bytes", CALL(near, private_is, 40, 2));
    CALL(near, make_endpoint);
    DAT_EP_HANDLE passive = near->ep;
    CHECK_DONE("cr", "... and is accepted there", dat_cr_accept(cr, passive, 0, NULL));
    CHECK("cr", "... by both", next_is() == DAT_CONNECTION_EVENT_ESTABLISHED &&
          next_is() == DAT_CONNECTION_EVENT_ESTABLISHED);
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 64), q = piece(near->local, near->room + PAGE, 64);
    fill(near->room, 64, 3);
    MUST(dat_ep_post_recv(passive, 1, &q, cookie(1), 0));
    MUST(dat_ep_post_send(active, 1, &p, cookie(2), 0));
    CHECK("cr", "... and talk", next_done(near->receives).status == 0 && next_done(near->requests).status == 0 &&
          filled(near->room + PAGE, 64, 3));
    MUST(dat_ep_free(active));
    MUST(dat_ep_free(passive));
    near->ep = DAT_HANDLE_NULL;
    drain_end(near);
    MUST(dat_psp_free(psp));
    at_far(stop_listening);
}

static void backlog(void)
{
    chapter("backlog");
    DAT_EVD_HANDLE small;
    DAT_PSP_HANDLE psp;
    DAT_CONN_QUAL service;
    DAT_EVD_PARAM p;
    MUST(dat_evd_create(near->ia, 2, NULL, DAT_EVD_CR_FLAG, &small));
    MUST(dat_evd_query(small, DAT_EVD_FIELD_ALL, &p));
    MUST(dat_psp_create_any(near->ia, &service, small, DAT_PSP_CONSUMER_FLAG, &psp));
    int room = p.evd_qlen;
    DAT_EP_HANDLE eps[64];
    REQUIRE(room < 60);
    for (int i = 0; i <= room; i++) {
        ask_service(service, 0, 0);
        eps[i] = near->ep;
    }
    CHECK("psp", "more requests than its dispatcher has room for are refused",
          next_event(near->connections, &event) && event.event_number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CHECK("psp", "... the last", event.event_data.connect_event_data.ep_handle == eps[room]);
    int there = 0;
    DAT_CR_HANDLE crs[64];
    while (there < room && next_event(small, &event))
        crs[there++] = event.event_data.cr_arrival_event_data.cr_handle;
    CHECK("psp", "... and the others wait, unharmed", there == room && is_empty(small));
    for (int i = 0; i < there; i++) {
        MUST(dat_cr_reject(crs[i]));
        REQUIRE(next_is() == DAT_CONNECTION_EVENT_PEER_REJECTED);
    }
    for (int i = 0; i <= room; i++)
        MUST(dat_ep_free(eps[i]));
    near->ep = DAT_HANDLE_NULL;
    MUST(dat_psp_free(psp));
    MUST(dat_evd_free(small));
}

// ---- reserved service points, and points whose endpoints the provider makes ----------------------------------------

static int64_t reserve(struct end *e, const int64_t *a)
{
    DAT_RSP_PARAM p;
    static DAT_RSP_HANDLE rsp;
    if (a[0] == 0)
        return -(int64_t)dat_rsp_free(rsp);
    CALL(e, make_endpoint);
    DAT_RETURN code = dat_rsp_create(e->ia, (DAT_CONN_QUAL)a[0], e->ep, e->arrivals, &rsp);
    if (code)
        return -(int64_t)code;
    MUST(dat_rsp_query(rsp, DAT_RSP_FIELD_ALL, &p));
    return p.conn_qual == (DAT_CONN_QUAL)a[0] && p.ep_handle == e->ep && p.evd_handle == e->arrivals && p.ia_handle == e->ia ? 0 : 1;
}

static int64_t accept_own(struct end *e, const int64_t *a)
{
    DAT_CR_PARAM p;
    MUST(dat_cr_query(held, DAT_CR_FIELD_ALL, &p));
    e->ep = p.local_ep_handle;
    if (a[0]) { // the provider made it: it has neither zone nor dispatchers
        DAT_EP_PARAM now, wanted = {.pz_handle = e->pz, .recv_evd_handle = e->receives,
                                    .request_evd_handle = e->requests, .connect_evd_handle = e->connections};
        MUST(dat_ep_query(e->ep, DAT_EP_FIELD_ALL, &now));
        if (now.ep_state != DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING || now.pz_handle || now.recv_evd_handle)
            return 1;
        if (dat_cr_accept(held, DAT_HANDLE_NULL, 0, NULL) == DAT_SUCCESS)
            return 2;
        if (dat_ep_free(e->ep) != BAD_STATE(EP_TENTCONNPENDING) || dat_ep_reset(e->ep) != BAD_STATE(EP_TENTCONNPENDING))
            return 3;
        MUST(dat_ep_modify(e->ep, DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                           DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE, &wanted));
    }
    if (dat_cr_accept(held, e->ep, 0, NULL) == DAT_SUCCESS)
        return 4;
    return -(int64_t)dat_cr_accept(held, DAT_HANDLE_NULL, 0, NULL);
}

static void other_points(void)
{
    chapter("reserved service points");
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    CHECK_EQ("rsp", "a number in use", DAT_GET_TYPE((DAT_RETURN)-at_far(reserve, (int64_t)service)),
             DAT_CONN_QUAL_IN_USE);
    CHECK_EQ("rsp", "... leaves the endpoint unconnected", at_far(state_of), DAT_EP_STATE_UNCONNECTED);
    at_far(drop_endpoint);
    at_far(stop_listening);
    CHECK_EQ("rsp", "a service point for one endpoint", at_far(reserve, (int64_t)service), 0);
    CHECK_EQ("rsp", "... reserves it", at_far(state_of), DAT_EP_STATE_RESERVED);
    CHECK_EQ("rsp", "... so that it is not freed", at_far(free_far), BAD_STATE(EP_RESERVED));
    CHECK_EQ("rsp", "... and does not connect", at_far(ask_far), BAD_STATE(EP_RESERVED));
    CHECK_EQ("rsp", "... and does not disconnect", -at_far(disconnect_far, 0), BAD_STATE(EP_RESERVED));
    ask_service(service, 5, 5);
    REQUIRE(at_far(take_request) == 5);
    CHECK_EQ("rsp", "a request makes it wait for the answer", at_far(state_of),
             DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    CHECK_EQ("rsp", "... during which it is not freed", at_far(free_far), BAD_STATE(EP_PASSCONNPENDING));
    CHECK_EQ("rsp", "... nor connects", at_far(ask_far), BAD_STATE(EP_PASSCONNPENDING));
    CHECK_EQ("rsp", "... nor disconnects", -at_far(disconnect_far, 0), BAD_STATE(EP_PASSCONNPENDING));
    CHECK_EQ("rsp", "... nor sends", -at_far(send_bytes, 0, 8, 0), BAD_STATE(EP_PASSCONNPENDING));
    DAT_EP_HANDLE first = near->ep;
    ask_service(service, 0, 0);
    CHECK_EQ("rsp", "a second request is refused", next_is(), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CALL(near, drop_endpoint);
    near->ep = first;
    CHECK_EQ("rsp", "the first is accepted with the endpoint it brings, and no other", at_far(accept_own, 0), 0);
    CHECK("rsp", "... and stands", next_is() == DAT_CONNECTION_EVENT_ESTABLISHED &&
          at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED && talks());
    CHECK_EQ("rsp", "the point is freed after all", at_far(reserve, 0), 0);
    part();
    REQUIRE(at_far(reserve, (int64_t)service) == 0);
    ask_service(service, 0, 0);
    REQUIRE(at_far(take_request) == 0);
    CHECK_EQ("rsp", "a request is rejected", at_far(reject_held), 0);
    CHECK_EQ("rsp", "... which its sender is told", next_is(), DAT_CONNECTION_EVENT_PEER_REJECTED);
    CHECK_EQ("rsp", "... and the endpoint is unconnected again", at_far(state_of), DAT_EP_STATE_UNCONNECTED);
    REQUIRE(at_far(reserve, 0) == 0);
    at_far(drop_endpoint);
    CALL(near, drop_endpoint);
    REQUIRE(at_far(reserve, (int64_t)service) == 0);
    CHECK_EQ("rsp", "a point that nobody asked is freed", at_far(reserve, 0), 0);
    CHECK_EQ("rsp", "... and its endpoint with it", at_far(state_of), DAT_EP_STATE_UNCONNECTED);
    at_far(drop_endpoint);

    chapter("service points whose endpoints the provider makes");
    REQUIRE(at_far(listen_at, (int64_t)service, DAT_PSP_PROVIDER_FLAG) == 0);
    ask_service(service, 0, 0);
    REQUIRE(at_far(take_request) == 0);
    CHECK_EQ("psp", "a request brings an endpoint, which is given zone and dispatchers and then accepted with none",
             at_far(accept_own, 1), 0);
    CHECK("psp", "... and stands", next_is() == DAT_CONNECTION_EVENT_ESTABLISHED &&
          at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED && talks());
    part();
    ask_service(service, 0, 0);
    REQUIRE(at_far(take_request) == 0 && at_far(reject_held) == 0);
    CHECK_EQ("psp", "rejected, its sender is told", next_is(), DAT_CONNECTION_EVENT_PEER_REJECTED);
    CALL(near, drop_endpoint);
    at_far(stop_listening);
}

// ---- the same again, and the end ----------------------------------------------------------------------------------

static void duplicates(void)
{
    chapter("connecting as another endpoint is");
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    ask_service(service, 0, 0);
    REQUIRE(at_far(accept_next) == 0 && next_is() == DAT_CONNECTION_EVENT_ESTABLISHED &&
            at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
    DAT_EP_HANDLE first = near->ep, far_first = (DAT_EP_HANDLE)(intptr_t)at_far(take_endpoint);
    unsigned char bytes[16];
    fill(bytes, 16, 4);
    CALL(near, make_endpoint);
    CHECK_CODE("dup", "no time", dat_ep_dup_connect(near->ep, first, 0, 0, NULL, DAT_QOS_BEST_EFFORT), BAD_ARGUMENT(3));
    CHECK_TYPE("dup", "too many bytes",
               dat_ep_dup_connect(near->ep, first, PATIENCE, most + 1, bytes,
                                  DAT_QOS_BEST_EFFORT), DAT_INVALID_PARAMETER);
    CHECK_CODE("dup", "another class of service",
               dat_ep_dup_connect(near->ep, first, PATIENCE, 0, NULL, DAT_QOS_PREMIUM), ERROR(DAT_MODEL_NOT_SUPPORTED,
                                                            0));
    CHECK_CODE("dup", "as one that is not connected",
               dat_ep_dup_connect(near->ep, near->ep, PATIENCE, 0, NULL,
                                  DAT_QOS_BEST_EFFORT), BAD_STATE(EP_UNCONNECTED));
    CHECK_CODE("dup", "by one that is", dat_ep_dup_connect(first, first, PATIENCE, 0, NULL, DAT_QOS_BEST_EFFORT),
               BAD_STATE(EP_CONNECTED));
    CHECK("dup", "... and nothing was asked", at_far(no_request) && state() == DAT_EP_STATE_UNCONNECTED);
    CHECK_DONE("dup", "to where the first is",
               dat_ep_dup_connect(near->ep, first, PATIENCE, 16, bytes, DAT_QOS_BEST_EFFORT));
    REQUIRE(at_far(take_request) == 16);
    CHECK("dup", "... with bytes", at_far(private_is, 16, 4));
    REQUIRE(at_far(accept_held, 0, 0) == 0);
    CHECK("dup", "... and stands beside it", next_is() == DAT_CONNECTION_EVENT_ESTABLISHED &&
          at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED && talks());
    part();
    near->ep = first;
    at_far(put_endpoint, (int64_t)(intptr_t)far_first);
    CHECK("dup", "the first goes on when it ends", talks());
    part();
    at_far(stop_listening);
}

static void ending(void)
{
    chapter("the end of a connection");
    connect_ends();
    CHECK_CODE("end", "flags that do not exist", dat_ep_disconnect(near->ep, (DAT_CLOSE_FLAGS)2), BAD_ARGUMENT(2));
    CHECK_EQ("end", "... and it stands", state(), DAT_EP_STATE_CONNECTED);
    for (int i = 0; i < 3; i++)
        REQUIRE(CALL(near, receive, i * 64, 64, 600 + i) == 0 && at_far(receive, i * 64, 64, 700 + i) == 0);
    CHECK_DONE("end", "abruptly", dat_ep_disconnect(near->ep, DAT_CLOSE_ABRUPT_FLAG));
    CHECK_EQ("end", "... one is told", next_is(), DAT_CONNECTION_EVENT_DISCONNECTED);
    CHECK_EQ("end", "... and the other", at_far(next_connection), DAT_CONNECTION_EVENT_DISCONNECTED);
    bool flushed = true;
    for (int i = 0; i < 3; i++) {
        struct done d = next_done(near->receives);
        flushed &= d.status == DAT_DTO_ERR_FLUSHED && d.cookie == 600u + i && at_far(received) == DAT_DTO_ERR_FLUSHED;
    }
    CHECK("end", "... and the receives of both are flushed, in order", flushed);
    CHECK("end", "... both are disconnected", state() == DAT_EP_STATE_DISCONNECTED &&
          at_far(state_of) == DAT_EP_STATE_DISCONNECTED);
    CHECK_DONE("end", "once more is no error", dat_ep_disconnect(near->ep, DAT_CLOSE_ABRUPT_FLAG));
    CHECK_DONE("end", "... either way", dat_ep_disconnect(near->ep, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK("end", "... and no event", is_empty(near->connections));
    CHECK_EQ("end", "a receive posted now", CALL(near, receive, 0, 64, 650), 0);
    CHECK_EQ("end", "... is flushed", CALL(near, received), DAT_DTO_ERR_FLUSHED);
    CHECK_EQ("end", "a send posted now is taken and flushed",
             CALL(near, send_bytes, 0, 8, DAT_COMPLETION_SUPPRESS_FLAG), DAT_DTO_ERR_FLUSHED);
    CHECK_EQ("end", "so is a write", CALL(near, write_there, 0, 8, 1, 1, 0), DAT_DTO_ERR_FLUSHED);
    CHECK_EQ("end", "and a read", CALL(near, read_there, 0, 8, 1, 1, 0), DAT_DTO_ERR_FLUSHED);
    DAT_BOOLEAN idle[2] = {DAT_FALSE, DAT_FALSE};
    MUST(dat_ep_get_status(near->ep, NULL, &idle[0], &idle[1]));
    CHECK("end", "nothing is outstanding", idle[0] == DAT_TRUE && idle[1] == DAT_TRUE);
    CHECK_DONE("end", "it is reset", dat_ep_reset(near->ep));
    CHECK_EQ("end", "... to its beginning", state(), DAT_EP_STATE_UNCONNECTED);
    CHECK_DONE("end", "reset again is nothing", dat_ep_reset(near->ep));
    CHECK_CODE("end", "an unconnected one does not disconnect", dat_ep_disconnect(near->ep, DAT_CLOSE_ABRUPT_FLAG),
               BAD_STATE(EP_UNCONNECTED));
    CHECK_CODE("end", "... nor send", (DAT_RETURN)-CALL(near, send_bytes, 0, 8, 0), BAD_STATE(EP_UNCONNECTED));
    // The same endpoint once more, with a receive posted before.
    at_far(drop_endpoint);
    DAT_CONN_QUAL service = (DAT_CONN_QUAL)at_far(listen_any);
    REQUIRE(CALL(near, receive, 0, 64, 42) == 0);
    MUST(ask(near, service, PATIENCE, 0, NULL));
    REQUIRE(at_far(accept_next) == 0 && next_is() == DAT_CONNECTION_EVENT_ESTABLISHED &&
            at_far(next_connection) == DAT_CONNECTION_EVENT_ESTABLISHED);
    CHECK_EQ("end", "it connects again", at_far(send_bytes, 0, 16, 0), 0);
    CHECK_EQ("end", "... and has the receive that was posted before", CALL(near, received, 1, 16, 42), 0);
    CHECK("end", "... and works", talks());

    chapter("gracefully");
    for (int i = 0; i < 8; i++)
        REQUIRE(at_far(receive, i * 512, 512, 800 + i) == 0);
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 512);
    for (int i = 0; i < 8; i++)
        MUST(dat_ep_post_send(near->ep, 1, &p, cookie(900 + i), 0));
    CHECK_DONE("end", "with sends on their way", dat_ep_disconnect(near->ep, DAT_CLOSE_GRACEFUL_FLAG));
    bool all = true;
    for (int i = 0; i < 8; i++) {
        struct done d = next_done(near->requests);
        all &= d.status == 0 && d.cookie == 900u + i;
    }
    CHECK("end", "... they all succeed", all);
    for (int i = 0; i < 8; i++)
        all &= at_far(received, 1, 512, 800 + i) == 0;
    CHECK("end", "... and arrive", all);
    CHECK_EQ("end", "then it ends", next_is(), DAT_CONNECTION_EVENT_DISCONNECTED);
    CHECK_EQ("end", "... at both ends", at_far(next_connection), DAT_CONNECTION_EVENT_DISCONNECTED);
    CHECK_EQ("end", "... disconnected", state(), DAT_EP_STATE_DISCONNECTED);
    part();
    // A graceful end that cannot come: nobody receives what was sent.
    connect_ends();
    MUST(dat_ep_post_send(near->ep, 1, &p, cookie(1), 0));
    MUST(dat_ep_disconnect(near->ep, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_EQ("end", "while something is outstanding the end is pending", state(), DAT_EP_STATE_DISCONNECT_PENDING);
    CHECK_CODE("end", "... and nothing new is taken", dat_ep_post_send(near->ep, 1, &p, cookie(2), 0),
               BAD_STATE(EP_DISCPENDING));
    CHECK_CODE("end", "... nor a reset", dat_ep_reset(near->ep), BAD_STATE(EP_DISCPENDING));
    CHECK_DONE("end", "... a second graceful one changes nothing",
               dat_ep_disconnect(near->ep, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_EQ("end", "... at all", state(), DAT_EP_STATE_DISCONNECT_PENDING);
    CHECK_DONE("end", "an abrupt one ends it", dat_ep_disconnect(near->ep, DAT_CLOSE_ABRUPT_FLAG));
    CHECK_EQ("end", "... the send is flushed", next_done(near->requests).status, DAT_DTO_ERR_FLUSHED);
    CHECK_EQ("end", "... with its event", next_is(), DAT_CONNECTION_EVENT_DISCONNECTED);
    part();
    // An endpoint that is freed while it is connected.
    connect_ends();
    CHECK_DONE("end", "a connected endpoint is freed", dat_ep_free(near->ep));
    near->ep = DAT_HANDLE_NULL;
    CHECK_EQ("end", "... and its peer told", at_far(next_connection), DAT_CONNECTION_EVENT_DISCONNECTED);
    at_far(drop_endpoint);
    drain_end(near);
}

// ---- attributes of an endpoint ------------------------------------------------------------------------------------

static void modifying(void)
{
    chapter("changing an endpoint");
    DAT_EP_PARAM before, wanted, now;
    DAT_PZ_HANDLE zone;
    MUST(dat_pz_create(near->ia, &zone));
    CALL(near, make_endpoint);
    before = facts();
    CHECK("ep", "it says what it is",
          before.ia_handle == near->ia && before.ep_state == DAT_EP_STATE_UNCONNECTED && before.pz_handle == near->pz &&
              before.recv_evd_handle == near->receives && before.request_evd_handle == near->requests &&
              before.connect_evd_handle == near->connections && before.srq_handle == DAT_HANDLE_NULL &&
              before.ep_attr.service_type == DAT_SERVICE_TYPE_RC && before.ep_attr.max_recv_dtos >= 16 &&
              before.ep_attr.max_request_dtos >= 16 && before.ep_attr.max_recv_iov >= 4 && before.ep_attr.max_request_iov >= 4 &&
              before.ep_attr.qos == DAT_QOS_BEST_EFFORT);
    wanted = before;
    uint64_t never[] = {DAT_EP_FIELD_IA_HANDLE, DAT_EP_FIELD_EP_STATE, DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR,
                        DAT_EP_FIELD_LOCAL_PORT_QUAL,
                        DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR, DAT_EP_FIELD_REMOTE_PORT_QUAL, 1ull << 40};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        CHECK_CODE("ep", "what is not the program's is not changed",
                   dat_ep_modify(near->ep, (DAT_EP_PARAM_MASK)never[i], &wanted), BAD_ARGUMENT(2));
    CHECK_CODE("ep", "nor by nothing", dat_ep_modify(near->ep, DAT_EP_FIELD_PZ_HANDLE, NULL), BAD_ARGUMENT(3));
    wanted.ep_attr.max_recv_dtos = -5;
    CHECK_TYPE("ep", "nor to what makes no sense",
               dat_ep_modify(near->ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &wanted), DAT_INVALID_PARAMETER);
    wanted.pz_handle = near->receives;
    CHECK_TYPE("ep", "nor to a zone that is none", dat_ep_modify(near->ep, DAT_EP_FIELD_PZ_HANDLE, &wanted),
               DAT_INVALID_HANDLE);
    now = facts();
    CHECK("ep", "... and nothing was",
          now.pz_handle == before.pz_handle && now.ep_attr.max_recv_dtos == before.ep_attr.max_recv_dtos &&
              now.ep_state == before.ep_state && now.recv_evd_handle == before.recv_evd_handle &&
              now.ep_attr.max_request_dtos == before.ep_attr.max_request_dtos);
    wanted = before;
    wanted.pz_handle = zone;
    wanted.ep_attr.max_recv_dtos = 40;
    wanted.ep_attr.max_request_dtos = 50;
    CHECK_DONE("ep", "zone and sizes are changed before it connects",
               dat_ep_modify(near->ep, DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
                             DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &wanted));
    now = facts();
    CHECK("ep", "... and say so", now.pz_handle == zone && now.ep_attr.max_recv_dtos >= 40 &&
          now.ep_attr.max_request_dtos >= 50);
    CHECK_CODE("ep", "a zone that it refers to stays", dat_pz_free(zone), BAD_STATE(PZ_IN_USE));
    MUST(dat_ep_free(near->ep));
    MUST(dat_pz_free(zone));
    connect_ends();
    CHECK_CODE("ep", "a connected one is not given another zone",
               dat_ep_modify(near->ep, DAT_EP_FIELD_PZ_HANDLE, &before), BAD_STATE(EP_CONNECTED));
    CHECK_CODE("ep", "... nor other dispatchers", dat_ep_modify(near->ep, DAT_EP_FIELD_RECV_EVD_HANDLE, &before),
               BAD_STATE(EP_CONNECTED));
    CHECK_CODE("ep", "a query of fields that do not exist",
               dat_ep_query(near->ep, (DAT_EP_PARAM_MASK)(1ull << 40), &now), BAD_ARGUMENT(2));
    CHECK_CODE("ep", "a query into nothing", dat_ep_query(near->ep, DAT_EP_FIELD_ALL, NULL), BAD_ARGUMENT(3));
    CHECK("ep", "... and it works", talks());
    part();
    // Attributes that make no sense.
    DAT_EP_HANDLE made = (void *)0x1234;
    DAT_EP_ATTR a;
#define NO_ENDPOINT(sentence, change)                                                                                \
    a = before.ep_attr;                                                                                              \
    change;                                                                                                          \
    CHECK_CODE("ep", sentence, dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->connections, &a, &made), BAD_ARGUMENT(6)); \
    CHECK("ep", "... and nothing was made", made == (void *)0x1234)
    NO_ENDPOINT("another service", a.service_type = (DAT_SERVICE_TYPE)7);
    NO_ENDPOINT("receives of no pieces", a.max_recv_iov = 0);
    NO_ENDPOINT("requests of no pieces", a.max_request_iov = 0);
    NO_ENDPOINT("more receives than the adapter has", a.max_recv_dtos = 0x7fffffff);
    NO_ENDPOINT("more requests than the adapter has", a.max_request_dtos = 0x7fffffff);
    NO_ENDPOINT("fewer than none", a.max_request_dtos = -3);
    NO_ENDPOINT("receives that complete in silence", a.recv_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG);
    a = before.ep_attr;
    CHECK_CODE("ep", "receives without a dispatcher for them",
               dat_ep_create(near->ia, near->pz, NULL, near->requests, near->connections, &a, &made), BAD_ARGUMENT(6));
    CHECK_CODE("ep", "no place for the handle",
               dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->connections, NULL,
                             NULL), BAD_ARGUMENT(7));
    CHECK("ep", "... and nothing was made", made == (void *)0x1234);
    a.max_message_size = 0;
    a.max_rdma_size = 0;
    CHECK_DONE("ep", "sizes of 0 are those that come of themselves",
               dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->connections, &a, &made));
    MUST(dat_ep_free(made));
}

int main(int argc, char **argv)
{
    DAT_PROVIDER_ATTR provider;
    begin(argc, argv);
    MUST(dat_ia_query(near->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &provider));
    most = provider.max_private_data_size;
    CHECK("connect", "there is room for 64 bytes of private data, and no more than fit here", most >= 64 &&
          most <= 512);
    private_data();
    asking();
    answering();
    rejecting();
    backlog();
    other_points();
    duplicates();
    ending();
    modifying();
    connect_ends();
    REQUIRE(talks());
    part();
    return end();
}
