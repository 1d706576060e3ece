// What the connection manager refuses, with which errno, and that nothing has changed then.
//
// proves: rdmacm 2, 3, 4, 5, 6, 7, 8

#include "rdmacm.h"

#include <endian.h>
#include <infiniband/ib.h>

static void objects(void)
{
    struct rdma_cm_id *id, *stale;
    struct rdma_event_channel *other;
    struct rdma_cm_event *event;

    REFUSED("2", "there is no port space 7", rdma_create_id(channel, &id, NULL, 7), EINVAL);
    REFUSED("2", "an identifier needs a place", rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP), EINVAL);
    REFUSED("2", "an event needs a place", rdma_get_cm_event(channel, NULL), EINVAL);
    REFUSED("2", "no event is not acknowledged", rdma_ack_cm_event(NULL), EINVAL);
    REFUSED("2", "no identifier is not destroyed", rdma_destroy_id(NULL), EINVAL);
    stale = make(RDMA_PS_TCP);
    CHECK("2", "an identifier shows what it was made with",
          stale->channel == channel && stale->context == &channel && stale->ps == RDMA_PS_TCP && !stale->verbs &&
              stale->qp_type == IBV_QPT_RC && !stale->port_num && !stale->pd);
    REQUIRE(rdma_destroy_id(stale) == 0);
    REFUSED("1", "a destroyed identifier is not followed", rdma_listen(stale, 1), EINVAL);
    REFUSED("1", "nor destroyed again", rdma_destroy_id(stale), EINVAL);
    other = rdma_create_event_channel();
    REQUIRE(other);
    rdma_destroy_event_channel(other);
    REFUSED("1", "a destroyed channel is not waited on", rdma_get_cm_event(other, &event), EINVAL);
    REFUSED("1", "nor an identifier made on it", rdma_create_id(other, &id, NULL, RDMA_PS_TCP), EINVAL);
    REQUIRE(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
    REFUSED("2", "a channel that does not block says that there is nothing", rdma_get_cm_event(channel, &event), EAGAIN);
    REQUIRE(fcntl(channel->fd, F_SETFL, 0) == 0);
    CHECK("2", "kinds of events have names",
          !strcmp(rdma_event_str(RDMA_CM_EVENT_REJECTED), "RDMA_CM_EVENT_REJECTED") &&
              !strcmp(rdma_event_str(99), "UNKNOWN EVENT"));
}

static void addresses(void)
{
    struct rdma_cm_id *a = make(RDMA_PS_TCP), *b = make(RDMA_PS_TCP), *c = make(RDMA_PS_UDP);
    struct sockaddr_in free_port = any4("127.0.0.1", 0), wildcard, foreign = any4("192.0.2.77", 0);
    struct sockaddr unknown = {.sa_family = AF_UNIX};
    struct sockaddr_in6 six = any6("::1", 5), link_local = any6("fe80::1", 0);
    uint16_t port;

    REFUSED("2", "no address is no address", rdma_bind_addr(a, NULL), EINVAL);
    REFUSED("2", "nor is one of a family without RDMA", rdma_bind_addr(a, &unknown), EINVAL);
    REFUSED("2", "an address of nobody here cannot be bound", rdma_bind_addr(a, SA(foreign)), EADDRNOTAVAIL);
    REFUSED("2", "a link-local address needs a scope", rdma_bind_addr(a, SA(link_local)), EINVAL);
    CHECK_EQ("2", "nothing was bound", rdma_get_src_port(a), 0);
    CHECK_EQ("2", "an own address can", rdma_bind_addr(a, SA(free_port)), 0);
    port = ntohs(rdma_get_src_port(a));
    CHECK("4", "a port was chosen", port != 0);
    CHECK("5", "and a device is shown", a->verbs && a->port_num == 1 && a->pd && a->pd->context == a->verbs);
    REFUSED("2", "twice it cannot", rdma_bind_addr(a, SA(free_port)), EINVAL);
    CHECK_EQ("3", "and the port is the same", ntohs(rdma_get_src_port(a)), port);
    free_port.sin_port = htons(port);
    REFUSED("4", "nor by another identifier of the space", rdma_bind_addr(b, SA(free_port)), EADDRNOTAVAIL);
    wildcard = any4("0.0.0.0", port);
    REFUSED("4", "nor as part of a wildcard", rdma_bind_addr(b, SA(wildcard)), EADDRNOTAVAIL);
    CHECK_EQ("4", "but by one of another space", rdma_bind_addr(c, SA(free_port)), 0);

    REFUSED("5", "no destination is none", rdma_resolve_addr(b, NULL, NULL, MS), EINVAL);
    REFUSED("5", "two families do not meet", rdma_resolve_addr(b, SA(free_port), SA(six), MS), EINVAL);
    REFUSED("5", "a source of nobody here is refused", rdma_resolve_addr(b, SA(foreign), SA(foreign), MS), EADDRNOTAVAIL);
    REFUSED("2", "a route needs an address", rdma_resolve_route(b, MS), EINVAL);
    CHECK("3", "no event came of it", is_quiet());
    drop(c);
    drop(b);
    drop(a);
}

static void states(void)
{
    struct rdma_conn_param much = {.responder_resources = 200}, none = {0}, fits = {.retry_count = 7};
    struct rdma_cm_id *l = listener(RDMA_PS_TCP, "127.0.0.1"), *bound = make(RDMA_PS_TCP), *id;
    struct sockaddr_in address = any4("127.0.0.1", 0);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    char data[200] = "";
    int mask;

    REQUIRE(rdma_bind_addr(bound, SA(address)) == 0);
    REFUSED("3", "a bound identifier does not connect", rdma_connect(bound, &none), EINVAL);
    REFUSED("3", "nor accept", rdma_accept(bound, &none), EINVAL);
    REFUSED("3", "nor reject", rdma_reject(bound, NULL, 0), EINVAL);
    REFUSED("3", "nor disconnect", rdma_disconnect(bound), EINVAL);
    REFUSED("3", "nor establish", rdma_establish(bound), EINVAL);
    REFUSED("3", "nor hear of anything", rdma_notify(bound, IBV_EVENT_COMM_EST), EINVAL);
    REFUSED("2", "nor know of a peer", rdma_init_qp_attr(bound, &attr, &mask), EINVAL);
    CHECK_EQ("3", "it listens all the same", rdma_listen(bound, 0), 0);
    REFUSED("3", "twice it does not", rdma_listen(bound, 0), EINVAL);
    REFUSED("3", "a listener does not resolve", rdma_resolve_addr(l, NULL, SA(address), MS), EINVAL);
    REFUSED("3", "nor bind", rdma_bind_addr(l, SA(address)), EINVAL);
    REFUSED("2", "a request is waited for by who is synchronous", rdma_get_request(l, &id), EINVAL);

    id = make(RDMA_PS_TCP);
    address.sin_port = rdma_get_src_port(l);
    REFUSED("1", "a queue pair needs a device", rdma_create_qp(id, NULL, &(struct ibv_qp_init_attr){0}), EINVAL);
    REQUIRE(rdma_resolve_addr(id, NULL, SA(address), MS) == 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    REFUSED("2", "no time is too little for a route", rdma_resolve_route(id, 0), EINVAL);
    REFUSED("3", "an address is resolved once", rdma_resolve_addr(id, NULL, SA(address), MS), EINVAL);
    REFUSED("3", "and does not listen", rdma_listen(id, 1), EINVAL);
    REFUSED("3", "without a route nobody connects", rdma_connect(id, &fits), EINVAL);
    REQUIRE(rdma_resolve_route(id, MS) == 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    REFUSED("3", "a route is resolved once", rdma_resolve_route(id, MS), EINVAL);
    REFUSED("2", "neither queue pair nor parameters are too little", rdma_connect(id, NULL), EINVAL);
    REFUSED("2", "depths beyond the device's are too much", rdma_connect(id, &much), EINVAL);
    fits.private_data = data;
    fits.private_data_len = 57;
    REFUSED("8", "57 bytes are too many", rdma_connect(id, &fits), EINVAL);
    CHECK("3", "none of that reached the listener", is_quiet());
    fits.private_data_len = 56;
    CHECK_EQ("8", "56 are not", rdma_connect(id, &fits), 0);
    REFUSED("3", "once is enough", rdma_connect(id, &fits), EINVAL);
    struct rdma_cm_event *request = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *new = request->id;
    add_qp(new);
    REFUSED("2", "a second queue pair is refused", rdma_create_qp(new, NULL, &(struct ibv_qp_init_attr){0}), EINVAL);
    CHECK_EQ("2", "and the first stays", state_of(new), IBV_QPS_INIT);
    struct rdma_conn_param reply = {.private_data = data, .private_data_len = 197};
    REFUSED("2", "197 bytes are too many for a reply", rdma_accept(new, &reply), EINVAL);
    CHECK_EQ("2", "the queue pair has failed", state_of(new), IBV_QPS_ERR);
    rdma_ack_cm_event(request);
    expect(RDMA_CM_EVENT_REJECTED);
    REFUSED("2", "after a rejection nobody connects again", rdma_connect(id, &fits), EINVAL);
    drop(new);
    drop(id);
    drop(bound);
    drop(l);
}

static void queues(void)
{
    struct rdma_cm_id *id = make(RDMA_PS_TCP), *other = make(RDMA_PS_TCP);
    struct sockaddr_in address = any4("127.0.0.1", 0);
    struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct ibv_srq_init_attr_ex srq = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq_init_attr plain = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context;
    struct ibv_pd *pd;

    REQUIRE(list && (context = ibv_open_device(list[0])) && (pd = ibv_alloc_pd(context)));
    REQUIRE(rdma_bind_addr(id, SA(address)) == 0 && rdma_bind_addr(other, SA(address)) == 0);
    REFUSED("2", "a domain of another context", rdma_create_qp(id, pd, &init), EINVAL);
    CHECK("2", "leaves no queues", !id->qp && !id->send_cq && !id->recv_cq && !id->send_cq_channel);
    init.cap.max_send_wr = 1 << 30;
    REFUSED("2", "more than the device holds", rdma_create_qp(id, NULL, &init), EINVAL);
    CHECK("2", "leaves none either", !id->qp && !id->send_cq && !id->recv_cq && !init.send_cq && !init.recv_cq);
    init.cap.max_send_wr = 1;
    init.qp_type = IBV_QPT_UD;
    REFUSED("2", "a type that the identifier is not of", rdma_create_qp(id, NULL, &init), EINVAL);
    init.qp_type = IBV_QPT_RC;
    REFUSED("2", "no attributes", rdma_create_qp(id, NULL, NULL), EINVAL);
    CHECK_EQ("2", "what is right is created", rdma_create_qp(id, NULL, &init), 0);
    CHECK("2", "with queues that are written back", init.send_cq == id->send_cq && init.cap.max_send_wr >= 1);
    add_qp(other);
    struct ibv_qp_init_attr differs = init;
    rdma_destroy_qp(id);
    CHECK("2", "and destroyed with them", !id->qp && !id->send_cq && !id->recv_cq && !id->recv_cq_channel);
    differs.send_cq = differs.recv_cq = other->send_cq;
    CHECK_EQ("2", "queues may be the program's", rdma_create_qp(id, NULL, &differs), 0);
    CHECK("2", "and are not the identifier's then", !id->send_cq && id->qp->send_cq == other->send_cq);
    rdma_destroy_qp(id);
    rdma_destroy_qp(other);

    REFUSED("2", "a shared queue needs a type", rdma_create_srq_ex(id, &srq), EINVAL);
    srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
    srq.srq_type = IBV_SRQT_TM;
    REFUSED("2", "and not that of tag matching", rdma_create_srq_ex(id, &srq), EOPNOTSUPP);
    srq.srq_type = IBV_SRQT_XRC;
    srq.attr.max_wr = 1u << 30;
    REFUSED("2", "one of XRC has a size", rdma_create_srq_ex(id, &srq), EINVAL);
    CHECK("2", "and leaves no completion queue if it is refused", !id->srq && !id->recv_cq && !id->recv_cq_channel);
    srq.attr.max_wr = 4;
    srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
    CHECK_EQ("2", "one that is right", rdma_create_srq_ex(id, &srq), 0);
    uint32_t number = 0;
    CHECK("2", "brings its XRC domain and its completion queue",
          srq.xrcd && srq.cq == id->recv_cq && ibv_get_srq_num(id->srq, &number) == 0 && number);
    rdma_destroy_srq(id);
    CHECK("2", "which goes with it", !id->srq && !id->recv_cq && !id->recv_cq_channel);
    CHECK_EQ("2", "a shared queue", rdma_create_srq(id, NULL, &plain), 0);
    REFUSED("2", "is made once", rdma_create_srq(id, NULL, &plain), EINVAL);
    init.send_cq = init.recv_cq = NULL;
    CHECK_EQ("2", "a queue pair", rdma_create_qp(id, NULL, &init), 0);
    CHECK("2", "receives from it", id->qp->srq == id->srq);
    rdma_destroy_qp(id);
    rdma_destroy_srq(id);
    CHECK("2", "which is destroyed", !id->srq);
    drop(other);
    drop(id);
    REQUIRE(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    ibv_free_device_list(list);
}

static void options(void)
{
    struct rdma_cm_id *id = make(RDMA_PS_TCP), *datagrams = make(RDMA_PS_UDP), *l = listener(RDMA_PS_TCP, "127.0.0.1");
    uint8_t byte = 4;
    int one = 1;

    CHECK_EQ("7", "a type of service", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1), 0);
    REFUSED("7", "is one byte", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &one, 4), EINVAL);
    CHECK_EQ("7", "addresses may be shared", rdma_set_option(id, 0, RDMA_OPTION_ID_REUSEADDR, &one, 4), 0);
    REFUSED("7", "not by one that listens", rdma_set_option(l, 0, RDMA_OPTION_ID_REUSEADDR, &one, 4), EINVAL);
    CHECK_EQ("7", "one family only", rdma_set_option(id, 0, RDMA_OPTION_ID_AFONLY, &one, 4), 0);
    CHECK_EQ("7", "a time to wait", rdma_set_option(id, 0, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), 0);
    REFUSED("7", "not for datagrams", rdma_set_option(datagrams, 0, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), EINVAL);
    REFUSED("7", "there is no option 4", rdma_set_option(id, 0, 4, &one, 4), ENOSYS);
    REFUSED("7", "nor a level 2", rdma_set_option(id, 2, 0, &one, 4), ENOSYS);
    REFUSED("7", "no path is none", rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &one, 4), EINVAL);
    struct ibv_ece ece = {.vendor_id = 0};
    REFUSED("2", "options of no vendor", rdma_set_local_ece(id, &ece), EINVAL);
    REFUSED("2", "and none", rdma_set_local_ece(id, NULL), EINVAL);
    ece.vendor_id = 5;
    CHECK_EQ("2", "options of a vendor", rdma_set_local_ece(id, &ece), 0);
    CHECK_EQ("2", "and none of a peer", rdma_get_remote_ece(id, &ece) | ece.vendor_id, 0);
    struct sockaddr_in group = any4("239.1.2.3", 0);
    REFUSED("8", "who connects joins no group", rdma_join_multicast(id, SA(group), NULL), EINVAL);
    REFUSED("8", "nor who is not bound", rdma_join_multicast(datagrams, SA(group), NULL), EINVAL);
    REFUSED("8", "what was not joined is not left", rdma_leave_multicast(datagrams, SA(group)), EADDRNOTAVAIL);
    struct rdma_cm_join_mc_attr_ex join = {.comp_mask = 4, .addr = SA(group)};
    REFUSED("8", "an attribute that nobody knows", rdma_join_multicast_ex(datagrams, &join, NULL), EOPNOTSUPP);
    join.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
    REFUSED("8", "flags are needed", rdma_join_multicast_ex(datagrams, &join, NULL), EINVAL);
    drop(l);
    drop(datagrams);
    drop(id);
}

static void names(void)
{
    struct rdma_addrinfo hints = {0}, *res = NULL;
    struct sockaddr_in *four;

    REFUSED("6", "neither name nor service nor hints", rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
    CHECK_EQ("6", "a name and a service", rdma_getaddrinfo("127.0.0.1", "7471", NULL, &res), 0);
    four = (struct sockaddr_in *)res->ai_dst_addr;
    CHECK("6", "are a destination of connections",
          res->ai_family == AF_INET && res->ai_qp_type == IBV_QPT_RC && res->ai_port_space == RDMA_PS_TCP &&
              res->ai_dst_len == sizeof(*four) && four->sin_port == htons(7471) && !res->ai_src_len && !res->ai_next);
    rdma_freeaddrinfo(res);
    hints.ai_flags = RAI_PASSIVE;
    hints.ai_port_space = RDMA_PS_UDP;
    CHECK_EQ("6", "a service to wait at", rdma_getaddrinfo(NULL, "7471", &hints, &res), 0);
    CHECK("6", "is a source of datagrams",
          res->ai_flags == RAI_PASSIVE && res->ai_qp_type == IBV_QPT_UD && res->ai_src_len && !res->ai_dst_len);
    rdma_freeaddrinfo(res);
    hints = (struct rdma_addrinfo){.ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP};
    CHECK_EQ("6", "a name is no number", rdma_getaddrinfo("localhost", "1", &hints, &res), EAI_NONAME);
    hints.ai_flags |= RAI_FAMILY;
    hints.ai_family = AF_IB;
    CHECK_EQ("6", "a GID", rdma_getaddrinfo("fe80::1", "7", &hints, &res), 0);
    CHECK("6", "is an address of InfiniBand", res->ai_family == AF_IB && res->ai_dst_len == 48);
    rdma_freeaddrinfo(res);
    rdma_freeaddrinfo(NULL);
}

static void gids(void)
{
    struct rdma_addrinfo hints = {.ai_family = AF_IB, .ai_port_space = RDMA_PS_TCP}, *res = NULL;
    struct rdma_cm_id *id = make(RDMA_PS_TCP), *other = make(RDMA_PS_UDP);
    struct sockaddr_in four = any4("127.0.0.1", 7471);
    struct sockaddr_ib *asked, *own;

    hints.ai_flags = RAI_NUMERICHOST | RAI_FAMILY | RAI_PASSIVE;
    REQUIRE(rdma_getaddrinfo("::ffff:127.0.0.1", "0", &hints, &res) == 0);
    asked = (struct sockaddr_ib *)res->ai_src_addr;
    REFUSED("2", "a GID with a service of another space", rdma_bind_addr(other, res->ai_src_addr), EPROTONOSUPPORT);
    CHECK("2", "and it is not bound", !other->verbs && !rdma_get_src_port(other));
    CHECK_EQ("2", "a GID to bind to", rdma_bind_addr(id, res->ai_src_addr), 0);
    own = (struct sockaddr_ib *)rdma_get_local_addr(id);
    CHECK("2", "is shown as one", own->sib_family == AF_IB && !memcmp(&own->sib_addr, &asked->sib_addr, 16));
    CHECK("2", "with a port of the space as its service",
          be64toh(own->sib_sid) == ((uint64_t)RDMA_PS_TCP << 16 | ntohs(rdma_get_src_port(id))) && rdma_get_src_port(id));
    REFUSED("5", "from a GID to an address of IP", rdma_resolve_addr(id, NULL, SA(four), 100), EINVAL);
    CHECK("5", "and it has no destination", rdma_get_peer_addr(id)->sa_family == 0 && own->sib_family == AF_IB);
    REFUSED("5", "from an address of IP to a GID", rdma_resolve_addr(other, SA(four), res->ai_src_addr, 100), EINVAL);
    REFUSED("5", "from a GID with a service of another space", rdma_resolve_addr(other, res->ai_src_addr, res->ai_src_addr, 100),
            EPROTONOSUPPORT);
    CHECK("5", "and it has no source", !other->verbs && !rdma_get_src_port(other));
    rdma_freeaddrinfo(res);
    drop(other);
    drop(id);
}

static void devices(void)
{
    int count = 0;
    struct ibv_context **list = rdma_get_devices(&count);
    struct rdma_cm_id *id = make(RDMA_PS_TCP);
    struct sockaddr_in address = any4("127.0.0.1", 0);

    REQUIRE(list && count > 0);
    REQUIRE(rdma_bind_addr(id, SA(address)) == 0);
    CHECK("2", "the devices are those that identifiers show", list[0] == id->verbs && !list[count]);
    rdma_free_devices(list);
    drop(id);
}

int main(void)
{
    self.active = true;
    setbuf(stdout, NULL);
    REQUIRE(channel = rdma_create_event_channel());
    objects();
    addresses();
    states();
    queues();
    options();
    names();
    gids();
    devices();
    CHECK("3", "no event is left", is_quiet());
    rdma_destroy_event_channel(channel);
    return end();
}
