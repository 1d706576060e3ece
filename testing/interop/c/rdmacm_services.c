// Addresses of the family AF_IB: what a request carries, whom it is for, and identifiers of RDMA_PS_IB at services of the spaces of
// TCP and UDP. Both sides in one process.
//
// proves: rdmacm 3.2, 4

#include "rdmacm.h"

#include <endian.h>
#include <infiniband/ib.h>

#define CONNECTIONS ((uint64_t)RDMA_PS_TCP << 16)
#define DATAGRAMS ((uint64_t)RDMA_PS_UDP << 16)
#define OWN ((uint64_t)RDMA_PS_IB << 16)
#define ALL UINT64_MAX

// A service of 127.0.0.1.
static struct sockaddr_ib gid(uint64_t service, uint64_t mask)
{
    struct sockaddr_ib address = {.sib_family = AF_IB, .sib_pkey = htons(0xffff)};
    address.sib_sid = htobe64(service);
    address.sib_sid_mask = htobe64(mask);
    REQUIRE(inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.sib_addr) == 1);
    return address;
}

static uint64_t service_of(struct sockaddr *address)
{
    REQUIRE(address->sa_family == AF_IB);
    return be64toh(((struct sockaddr_ib *)address)->sib_sid);
}

static struct rdma_cm_id *serve(struct rdma_cm_id *id, uint64_t service)
{
    struct sockaddr_ib at = gid(service, ALL);
    REQUIRE(rdma_bind_addr(id, SA(at)) == 0);
    REQUIRE(rdma_listen(id, 4) == 0);
    return id;
}

static struct rdma_cm_id *find(struct rdma_cm_id *id, uint64_t service)
{
    struct sockaddr_ib to = gid(service, ALL);
    REQUIRE(rdma_resolve_addr(id, NULL, SA(to), MS) == 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    REQUIRE(rdma_resolve_route(id, MS) == 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
}

static uint8_t said[256];

static int ask(struct rdma_cm_id *id, uint8_t length)
{
    struct rdma_conn_param param = {.private_data = said, .private_data_len = length, .qp_num = 77, .retry_count = 7};
    return rdma_connect(id, &param);
}

static const uint8_t *asked(struct rdma_cm_event *event, uint8_t *length)
{
    bool datagrams = event->id->qp_type == IBV_QPT_UD;
    *length = datagrams ? event->param.ud.private_data_len : event->param.conn.private_data_len;
    return datagrams ? event->param.ud.private_data : event->param.conn.private_data;
}

// The request is rejected, and both ends of it go.
static void turn_away(struct rdma_cm_event *event, struct rdma_cm_id *id, int status)
{
    bool datagrams = id->qp_type == IBV_QPT_UD;

    if (event) {
        struct rdma_cm_id *new = event->id;
        REQUIRE(rdma_ack_cm_event(event) == 0);
        REQUIRE(rdma_reject(new, NULL, 0) == 0);
        drop(new);
    }
    event = next(datagrams ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED);
    CHECK_EQ("3.2", "who asked is told why not", event->status, status);
    REQUIRE(rdma_ack_cm_event(event) == 0);
    drop(id);
}

static void rooms(enum rdma_port_space space, uint64_t service, uint8_t room)
{
    struct rdma_cm_id *there = serve(make(space), service), *id;
    uint64_t own = service_of(rdma_get_local_addr(there));
    struct rdma_cm_event *event;
    const uint8_t *data;
    uint8_t length;

    id = find(make(space), own);
    CHECK("3.2", "the peer is shown by the service that was asked for", service_of(rdma_get_peer_addr(id)) == own);
    REFUSED("3.2", "a byte more than a request by a GID carries", ask(id, room + 1), EINVAL);
    CHECK("3.2", "and nothing was asked", is_quiet());
    CHECK_EQ("3.2", "as much as it carries", ask(id, room), 0);
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    data = asked(event, &length);
    CHECK_EQ("3.2", "is what arrives", length, room);
    CHECK("3.2", "its first byte being the manager's", data[0] == 0 && !memcmp(data + 1, said + 1, room - 1));
    CHECK("3.2", "at the service, from one that says none",
          service_of(rdma_get_local_addr(event->id)) == own && service_of(rdma_get_peer_addr(event->id)) == 0 &&
              event->id->ps == space && rdma_get_dst_port(event->id) == 0);
    turn_away(event, id, space == RDMA_PS_UDP ? 2 : 28);
    drop(there);
}

static void families(void)
{
    struct rdma_cm_id *there = serve(make(RDMA_PS_TCP), CONNECTIONS), *id;
    struct rdma_cm_event *event;
    const uint8_t *data;
    uint8_t length;

    id = routed(RDMA_PS_TCP, ntohs(rdma_get_src_port(there)));
    REFUSED("3.2", "more than addresses of IP leave of a request", ask(id, 57), EINVAL);
    CHECK_EQ("3.2", "as much as they leave", ask(id, 56), 0);
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    data = asked(event, &length);
    CHECK("3.2", "is shown behind them to who listens by a GID",
          length == 92 && data[0] == 0 && data[1] == 4 << 4 && !memcmp(data + 36, said, 56));
    turn_away(event, id, 28);
    drop(there);
    there = listener(RDMA_PS_TCP, "127.0.0.1");
    id = find(make(RDMA_PS_TCP), CONNECTIONS | ntohs(rdma_get_src_port(there)));
    CHECK_EQ("3.2", "a request by a GID", ask(id, 92), 0);
    turn_away(NULL, id, 28);
    CHECK("3.2", "is not for who listens by an address", is_quiet());
    drop(there);
}

static void one_family(struct rdma_cm_id *id)
{
    int one = 1;
    REQUIRE(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one, sizeof(one)) == 0);
}

// A port that is listened at by an address of IP and by a GID.
static void beside(enum rdma_port_space space, uint64_t first, const char *ip, const char *at)
{
    struct rdma_cm_id *by_address = listener(space, ip), *by_gid = make(space), *id;
    uint16_t port = ntohs(rdma_get_src_port(by_address));
    struct sockaddr_ib own = gid(first | port, ALL);
    struct rdma_cm_event *event;
    const uint8_t *data;
    uint8_t length, room = space == RDMA_PS_UDP ? 216 : 92;
    int status = space == RDMA_PS_UDP ? 2 : 28;

    REQUIRE(inet_pton(AF_INET6, at, &own.sib_addr) == 1);
    REFUSED("4", "a GID beside an address, of which one is every device's", rdma_bind_addr(by_gid, SA(own)), EADDRNOTAVAIL);
    CHECK("4", "is not bound", !rdma_get_src_port(by_gid) && !rdma_get_local_addr(by_gid)->sa_family);
    one_family(by_gid);
    CHECK_EQ("4", "unless both are of one family only", rdma_bind_addr(by_gid, SA(own)), 0);
    REQUIRE(rdma_listen(by_gid, 4) == 0);
    for (int turn = 0; turn < 2; turn++) {
        id = routed(space, port);
        REQUIRE(ask(id, room - 36) == 0);
        event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
        data = asked(event, &length);
        CHECK("4", "who asks by an address asks who listens at it",
              event->listen_id == by_address && length == room - 36 && !memcmp(data, said, length));
        turn_away(event, id, status);
        id = find(make(space), first | port);
        REQUIRE(ask(id, room) == 0);
        event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
        data = asked(event, &length);
        CHECK("4", "and who asks by a GID who listens at that",
              event->listen_id == by_gid && length == room && !memcmp(data + 1, said + 1, length - 1));
        turn_away(event, id, status);
    }
    CHECK("4", "no event is left", is_quiet());
    drop(by_address);
    drop(by_gid);
}

// An identifier of RDMA_PS_IB at a service of a space.
static void spaces(enum rdma_port_space space, uint64_t first)
{
    struct rdma_cm_id *there = serve(make(RDMA_PS_IB), first), *other = make(space), *id;
    uint64_t own = service_of(rdma_get_local_addr(there));
    struct sockaddr_ib taken = gid(own, ALL);

    CHECK("4", "an identifier of RDMA_PS_IB listens for a port of another space",
          there->ps == RDMA_PS_IB && own == (first | ntohs(rdma_get_src_port(there))) && own != first);
    REFUSED("4", "which nobody of that space has then", rdma_bind_addr(other, SA(taken)), EADDRNOTAVAIL);
    CHECK("4", "and that one is not bound", !rdma_get_src_port(other));
    drop(other);
    id = find(make(RDMA_PS_IB), own);
    REQUIRE(ask(id, 0) == 0);
    struct rdma_cm_event *event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    CHECK("4", "and is asked by others of its own", event->id->ps == RDMA_PS_IB && event->id->qp_type == IBV_QPT_RC);
    turn_away(event, id, 28);
    drop(there);
}

static void connected(void)
{
    struct rdma_cm_id *there = serve(make(RDMA_PS_IB), CONNECTIONS), *id, *new;
    struct rdma_conn_param param = {.private_data = said, .private_data_len = 92, .retry_count = 7};
    struct rdma_cm_event *event;

    id = find(make(RDMA_PS_IB), service_of(rdma_get_local_addr(there)));
    add_qp(id);
    REQUIRE(rdma_connect(id, &param) == 0);
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    new = event->id;
    REQUIRE(rdma_ack_cm_event(event) == 0);
    add_qp(new);
    param.private_data_len = 196;
    CHECK_EQ("4", "a connection at a service of another space", rdma_accept(new, &param), 0);
    event = next(RDMA_CM_EVENT_ESTABLISHED);
    CHECK("4", "is made, with a reply as anywhere",
          event->id == id && event->param.conn.private_data_len == 196 &&
              !memcmp(event->param.conn.private_data, said, 196));
    REQUIRE(rdma_ack_cm_event(event) == 0);
    expect(RDMA_CM_EVENT_ESTABLISHED);
    CHECK("4", "between queue pairs that send", state_of(id) == IBV_QPS_RTS && state_of(new) == IBV_QPS_RTS);
    drop(new);
    expect(RDMA_CM_EVENT_DISCONNECTED);
    drop(id);
    drop(there);
}

static void kinds(void)
{
    struct rdma_cm_id *there = serve(make(RDMA_PS_UDP), DATAGRAMS), *id;
    struct rdma_addrinfo wanted = {.ai_port_space = RDMA_PS_IB, .ai_qp_type = IBV_QPT_UD, .ai_flags = RAI_PASSIVE};
    struct sockaddr_ib at = gid(DATAGRAMS, ALL);
    struct rdma_cm_event *event;

    id = find(make(RDMA_PS_IB), service_of(rdma_get_local_addr(there)));
    REQUIRE(ask(id, 0) == 0);
    turn_away(NULL, id, 28);
    CHECK("4", "a connection is not to be had of a service of datagrams", is_quiet());
    drop(there);
    // An endpoint says what it is.
    wanted.ai_src_addr = SA(at);
    wanted.ai_src_len = sizeof(at);
    REQUIRE(rdma_create_ep(&there, &wanted, NULL, NULL) == 0);
    REQUIRE(rdma_migrate_id(there, channel) == 0);
    REQUIRE(rdma_listen(there, 4) == 0);
    id = find(make(RDMA_PS_UDP), service_of(rdma_get_local_addr(there)));
    REQUIRE(ask(id, 216) == 0);
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    CHECK("4", "an endpoint of datagrams in RDMA_PS_IB is such a service",
          event->id->ps == RDMA_PS_IB && event->id->qp_type == IBV_QPT_UD && event->param.ud.private_data_len == 216);
    turn_away(event, id, 2);
    rdma_destroy_ep(there);
}

static void refused(void)
{
    const struct {
        enum rdma_port_space space;
        uint64_t service;
    } cases[] = {
        {RDMA_PS_TCP, DATAGRAMS}, {RDMA_PS_UDP, CONNECTIONS},         {RDMA_PS_TCP, OWN},
        {RDMA_PS_IB, 7},          {RDMA_PS_IB, 0x1000000000000007},   {RDMA_PS_IB, (uint64_t)RDMA_PS_IPOIB << 16},
        {RDMA_PS_IB, 0x01530007}, {RDMA_PS_IB, 1ull << 32 | 0x01060007},
    };
    struct sockaddr_ib address;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rdma_cm_id *id = make(cases[i].space);
        address = gid(cases[i].service, ALL);
        REFUSED("4", "a service that is no port of the space", rdma_bind_addr(id, SA(address)), EPROTONOSUPPORT);
        CHECK("4", "and it is not bound", !id->verbs && !rdma_get_local_addr(id)->sa_family);
        address = gid(cases[i].service, 0);
        CHECK_EQ("4", "the same, where no bit counts", rdma_bind_addr(id, SA(address)), 0);
        CHECK("4", "is any port of its own",
              service_of(rdma_get_local_addr(id)) >> 16 == cases[i].space && rdma_get_src_port(id));
        address = gid((uint64_t)RDMA_PS_UDP << 48, ALL);
        REFUSED("4", "once bound, whatever the service", rdma_bind_addr(id, SA(address)), EINVAL);
        drop(id);
    }
    // Of a peer any service may be asked for.
    struct rdma_cm_id *id = find(make(RDMA_PS_IB), 0x1000000000000007);
    CHECK("4", "is shown as it was", service_of(rdma_get_peer_addr(id)) == 0x1000000000000007);
    REQUIRE(ask(id, 0) == 0);
    turn_away(NULL, id, 8);
    CHECK("4", "no event is left", is_quiet());
}

int main(void)
{
    self.active = true;
    setbuf(stdout, NULL);
    REQUIRE(channel = rdma_create_event_channel());
    for (size_t i = 0; i < sizeof(said); i++)
        said[i] = (uint8_t)(0xa5 + i);
    said[1] = 0x5a;
    rooms(RDMA_PS_TCP, CONNECTIONS, 92);
    rooms(RDMA_PS_UDP, DATAGRAMS, 216);
    rooms(RDMA_PS_IB, OWN, 92);
    families();
    beside(RDMA_PS_TCP, CONNECTIONS, "127.0.0.1", "::ffff:127.0.0.1");
    beside(RDMA_PS_TCP, CONNECTIONS, "0.0.0.0", "::");
    beside(RDMA_PS_UDP, DATAGRAMS, "127.0.0.1", "::");
    beside(RDMA_PS_IB, OWN, "0.0.0.0", "::ffff:127.0.0.1");
    spaces(RDMA_PS_TCP, CONNECTIONS);
    spaces(RDMA_PS_UDP, DATAGRAMS);
    connected();
    kinds();
    refused();
    rdma_destroy_event_channel(channel);
    return end();
}
