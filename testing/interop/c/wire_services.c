// Two hosts whose addresses are of the family AF_IB, or of one of them only: what a request carries by the wire, and whom it is for.
// One side serves at three services of one address, the other asks each of them: wire_services ADDRESS PORT [asks]. Or one process
// serves by both families at one port, or two by one each, and the other side asks by both:
// wire_services ADDRESS PORT (both | ip | gid | asks-both) PORT. The last is for the end.
//
// proves: rdmacm 3.2, 4

#include "rdmacm.h"

#include <endian.h>
#include <infiniband/ib.h>

#define CONNECTIONS RDMA_PS_TCP
#define DATAGRAMS RDMA_PS_UDP

static uint8_t said[216];
static const char *text;
static uint16_t port;

static struct sockaddr_ib gid(enum rdma_port_space space)
{
    struct sockaddr_ib address = {.sib_family = AF_IB, .sib_pkey = htons(0xffff), .sib_sid_mask = UINT64_MAX};
    char mapped[64];
    address.sib_sid = htobe64((uint64_t)space << 16 | port);
    snprintf(mapped, sizeof(mapped), "%s%s", strchr(text, ':') ? "" : "::ffff:", text);
    REQUIRE(inet_pton(AF_INET6, mapped, &address.sib_addr) == 1);
    return address;
}

static struct sockaddr_storage ip(void)
{
    struct sockaddr_storage address = {0};
    if (strchr(text, ':'))
        *(struct sockaddr_in6 *)&address = any6(text, port);
    else
        *(struct sockaddr_in *)&address = any4(text, port);
    return address;
}

static struct rdma_cm_id *serve(enum rdma_port_space space, struct sockaddr *at)
{
    struct rdma_cm_id *id = make(space);
    REQUIRE(rdma_bind_addr(id, at) == 0);
    REQUIRE(rdma_listen(id, 4) == 0);
    return id;
}

static struct rdma_cm_id *find(enum rdma_port_space space, struct sockaddr *to)
{
    struct rdma_cm_id *id = make(space);
    REQUIRE(rdma_resolve_addr(id, NULL, to, MS) == 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    REQUIRE(rdma_resolve_route(id, MS) == 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
}

static int ask(struct rdma_cm_id *id, uint8_t length)
{
    struct rdma_conn_param param = {.private_data = said, .private_data_len = length, .qp_num = 77, .retry_count = 7};
    return rdma_connect(id, &param);
}

// The next request, at this listener; its new identifier has a queue pair, or was rejected.
static struct rdma_cm_id *asked(struct rdma_cm_id *there, uint8_t length, uint8_t front, bool accepted)
{
    struct rdma_cm_event *event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    bool datagrams = there->qp_type == IBV_QPT_UD;
    const uint8_t *data = datagrams ? event->param.ud.private_data : event->param.conn.private_data;
    uint8_t got = datagrams ? event->param.ud.private_data_len : event->param.conn.private_data_len;
    struct rdma_cm_id *new = event->id;
    uint8_t family = strchr(text, ':') ? 6 : 4;

    CHECK("3.2", "a request comes to who listens there", event->listen_id == there && new->ps == there->ps);
    CHECK_EQ("3.2", "with all that a request by the listener's family has", got, length);
    if (front)
        CHECK("3.2", "addresses in front", data[0] == 0 && data[1] == family << 4 && !memcmp(data + front, said, got - front));
    else
        CHECK("3.2", "as it was said", !memcmp(data, said, got));
    REQUIRE(rdma_ack_cm_event(event) == 0);
    if (accepted) {
        struct rdma_conn_param param = {.private_data = said, .private_data_len = 136};
        add_qp(new);
        param.qp_num = new->qp->qp_num;
        REQUIRE(rdma_accept(new, &param) == 0);
    } else {
        REQUIRE(rdma_reject(new, NULL, 0) == 0);
    }
    return new;
}

static int serves(void)
{
    struct sockaddr_ib connections = gid(CONNECTIONS), datagrams = gid(DATAGRAMS);
    struct sockaddr_storage address = ip();
    struct rdma_cm_id *by_address = serve(RDMA_PS_IB, SA(address)), *by_gid[2], *new[4];

    by_gid[1] = serve(RDMA_PS_UDP, SA(datagrams));
    by_gid[0] = serve(RDMA_PS_IB, SA(connections));
    new[0] = asked(by_gid[0], 92, 0, true);
    expect(RDMA_CM_EVENT_ESTABLISHED);
    expect(RDMA_CM_EVENT_DISCONNECTED);
    REQUIRE(rdma_disconnect(new[0]) == 0);
    // The other side may ask again before the time of late packets is over.
    drop(new[0]);
    new[1] = asked(by_gid[1], 216, 0, true);
    new[2] = asked(by_gid[0], 92, 36, false);
    // In between it was asked by a GID, of which it does not hear.
    new[3] = asked(by_address, 56, 0, false);
    for (int i = 1; i < 4; i++)
        drop(new[i]);
    drop(by_gid[0]);
    drop(by_gid[1]);
    drop(by_address);
    return end();
}

static void refused(struct rdma_cm_id *id, uint8_t length, int status)
{
    struct rdma_cm_event *event;
    REQUIRE(ask(id, length) == 0);
    event = next(RDMA_CM_EVENT_REJECTED);
    CHECK_EQ("3.2", "who asked is told why not", event->status, status);
    REQUIRE(rdma_ack_cm_event(event) == 0);
    drop(id);
}

static int asks(void)
{
    struct sockaddr_ib connections = gid(CONNECTIONS), datagrams = gid(DATAGRAMS), own = gid(RDMA_PS_IB);
    struct sockaddr_storage address = ip();
    struct rdma_cm_id *id = find(RDMA_PS_IB, SA(connections));
    struct rdma_conn_param param = {.private_data = said, .private_data_len = 93, .retry_count = 7};
    struct rdma_cm_event *event;

    add_qp(id);
    REFUSED("3.2", "more than a request by a GID carries", rdma_connect(id, &param), EINVAL);
    param.private_data_len = 92;
    REQUIRE(rdma_connect(id, &param) == 0);
    event = next(RDMA_CM_EVENT_ESTABLISHED);
    CHECK("3.2", "a reply has its own length", event->param.conn.private_data_len == 196 && state_of(id) == IBV_QPS_RTS);
    REQUIRE(rdma_ack_cm_event(event) == 0);
    REQUIRE(rdma_disconnect(id) == 0);
    expect(RDMA_CM_EVENT_DISCONNECTED);
    expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
    drop(id);

    id = find(RDMA_PS_UDP, SA(datagrams));
    REQUIRE(ask(id, 216) == 0);
    event = next(RDMA_CM_EVENT_ESTABLISHED);
    CHECK("3.2", "nor is that of datagrams longer", event->param.ud.private_data_len == 136);
    REQUIRE(rdma_ack_cm_event(event) == 0);
    drop(id);

    refused(find(RDMA_PS_TCP, SA(address)), 56, 28);
    refused(find(RDMA_PS_IB, SA(own)), 92, 28);
    refused(find(RDMA_PS_IB, SA(address)), 56, 28);
    return end();
}

static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP};
static uint16_t last;

// The other port, of which each family has a service of its own.
static struct sockaddr_storage end_of(bool by_gid)
{
    struct sockaddr_storage address = {0};
    uint16_t own = port;
    port = last;
    if (by_gid)
        *(struct sockaddr_ib *)&address = gid(spaces[1]);
    else
        address = ip();
    port = own;
    return address;
}

// By either family, or both, at one port of each space; each is asked by its own only.
static int serves_families(bool by_ip, bool by_gid)
{
    struct sockaddr_storage address = ip();
    struct rdma_cm_id *there[2][2] = {0}, *over[2] = {0};

    for (int family = 0; family < 2; family++) {
        struct sockaddr_storage end = end_of(family);
        if (family ? !by_gid : !by_ip)
            continue;
        over[family] = serve(spaces[family], SA(end));
        for (int i = 0; i < 2; i++) {
            struct sockaddr_ib service = gid(spaces[i]);
            there[i][family] = serve(spaces[i], family ? SA(service) : SA(address));
        }
    }
    printf("listens\n");
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 2; i++) {
            uint8_t room = spaces[i] == RDMA_PS_UDP ? 216 : 92;
            if (by_ip)
                drop(asked(there[i][0], room - 36, 0, false));
            if (by_gid)
                drop(asked(there[i][1], room, 0, false));
        }
    }
    // What is asked of the other process this one hears, too, and lets alone while that listens: so nobody goes before each has heard
    // all, which is when it is asked here.
    for (int turn = 0; turn < 2; turn++) {
        if (by_ip)
            drop(asked(over[0], 56, 0, false));
        if (by_gid)
            drop(asked(over[1], 216, 0, false));
    }
    CHECK("4", "no request is left", is_quiet());
    for (int family = 0; family < 2; family++) {
        if (!over[family])
            continue;
        drop(over[family]);
        drop(there[0][family]);
        drop(there[1][family]);
    }
    return end();
}

static void turned_away(struct rdma_cm_id *id, uint8_t length)
{
    bool datagrams = id->qp_type == IBV_QPT_UD;
    struct rdma_cm_event *event;
    REQUIRE(ask(id, length) == 0);
    event = next(datagrams ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED);
    CHECK_EQ("4", "who listens by the family answers", event->status, datagrams ? 2 : 28);
    REQUIRE(rdma_ack_cm_event(event) == 0);
    drop(id);
}

static int asks_families(void)
{
    struct sockaddr_storage address = ip(), ends[] = {end_of(false), end_of(true)};
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 2; i++) {
            struct sockaddr_ib service = gid(spaces[i]);
            uint8_t room = spaces[i] == RDMA_PS_UDP ? 216 : 92;
            turned_away(find(spaces[i], SA(address)), room - 36);
            turned_away(find(spaces[i], SA(service)), room);
        }
    }
    for (int turn = 0; turn < 2; turn++) {
        turned_away(find(spaces[0], SA(ends[0])), 56);
        turned_away(find(spaces[1], SA(ends[1])), 216);
    }
    return end();
}

static int as_told(const char *word)
{
    if (!strcmp(word, "asks"))
        return asks();
    if (!strcmp(word, "asks-both"))
        return asks_families();
    bool both = !strcmp(word, "both");
    REQUIRE(both || !strcmp(word, "ip") || !strcmp(word, "gid"));
    return serves_families(both || *word == 'i', both || *word == 'g');
}

int main(int argc, char **argv)
{
    REQUIRE(argc >= 3 && argc <= 5);
    text = argv[1];
    port = (uint16_t)atoi(argv[2]);
    last = argc == 5 ? (uint16_t)atoi(argv[4]) : 0;
    self.active = argc > 3 && argv[3][0] == 'a';
    setbuf(stdout, NULL);
    for (size_t i = 0; i < sizeof(said); i++)
        said[i] = (uint8_t)i;
    said[1] = 0x5a;
    REQUIRE(channel = rdma_create_event_channel());
    return argc > 3 ? as_told(argv[3]) : serves();
}
