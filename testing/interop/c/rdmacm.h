// What programs of the RDMA connection manager would otherwise repeat: refusals, addresses, the next event, an identifier in
// each state. One process holds both sides, so that every event is seen and nothing has to be waited for.

#ifndef NONIC_INTEROP_RDMACM_H
#define NONIC_INTEROP_RDMACM_H

#include "harness.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define MS 2000

// A call that must be refused: -1, and this errno.
#define REFUSED(id, sentence, call, want_errno)                                                                     \
    do {                                                                                                            \
        errno = 0;                                                                                                  \
        int result_ = (call), errno_ = errno;                                                                       \
        verdict(result_ == -1 && errno_ == (want_errno), __LINE__, id, sentence);                                   \
        if (result_ != -1)                                                                                          \
            printf(": got %d (%s)", result_, #call);                                                                \
        else if (errno_ != (want_errno))                                                                            \
            printf(": got errno %d (%s), expected %d", errno_, strerror(errno_), (want_errno));                     \
        printf("\n");                                                                                               \
    } while (0)

static UNUSED struct rdma_event_channel *channel;

static UNUSED struct sockaddr_in any4(const char *text, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    REQUIRE(inet_pton(AF_INET, text, &address.sin_addr) == 1);
    return address;
}

static UNUSED struct sockaddr_in6 any6(const char *text, uint16_t port)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    REQUIRE(inet_pton(AF_INET6, text, &address.sin6_addr) == 1);
    return address;
}

#define SA(address) ((struct sockaddr *)&(address))

static UNUSED struct rdma_cm_id *make(enum rdma_port_space space)
{
    struct rdma_cm_id *id;
    REQUIRE(rdma_create_id(channel, &id, (void *)&channel, space) == 0);
    return id;
}

// The next event, of this kind.
static UNUSED struct rdma_cm_event *next(enum rdma_cm_event_type kind)
{
    struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;
    REQUIRE(poll(&fd, 1, PATIENCE_MS) == 1);
    REQUIRE(rdma_get_cm_event(channel, &event) == 0);
    if (event->event != kind)
        printf("got %s instead of %s\n", rdma_event_str(event->event), rdma_event_str(kind));
    REQUIRE(event->event == kind);
    return event;
}

static UNUSED void expect(enum rdma_cm_event_type kind)
{
    REQUIRE(rdma_ack_cm_event(next(kind)) == 0);
}

// Nor is it writable, which it never is.
static UNUSED bool is_quiet(void)
{
    struct pollfd fd = {.fd = channel->fd, .events = POLLIN | POLLOUT};
    return poll(&fd, 1, 0) == 0;
}

static UNUSED struct rdma_cm_id *listener(enum rdma_port_space space, const char *text)
{
    struct rdma_cm_id *id = make(space);
    struct sockaddr_in address = any4(text, 0);
    REQUIRE(rdma_bind_addr(id, SA(address)) == 0);
    REQUIRE(rdma_listen(id, 4) == 0);
    return id;
}

// An identifier for which the way to a listener is known.
static UNUSED struct rdma_cm_id *routed(enum rdma_port_space space, uint16_t port)
{
    struct rdma_cm_id *id = make(space);
    struct sockaddr_in to = any4("127.0.0.1", port);
    REQUIRE(rdma_resolve_addr(id, NULL, SA(to), MS) == 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    REQUIRE(rdma_resolve_route(id, MS) == 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
}

static UNUSED void add_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = id->qp_type,
    };
    REQUIRE(rdma_create_qp(id, NULL, &init) == 0);
}

static UNUSED int state_of(struct rdma_cm_id *id)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    REQUIRE(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init) == 0);
    return attr.qp_state;
}

static UNUSED void drop(struct rdma_cm_id *id)
{
    if (id->qp)
        rdma_destroy_qp(id);
    REQUIRE(rdma_destroy_id(id) == 0);
}

static UNUSED int end(void)
{
    printf("%d passed, %d failed\n", self.passed, self.failed);
    return self.failed != 0;
}

#endif
