// What events of the connection manager say, in which order they come, and what the library has done by then.
//
// proves: rdmacm 2, 3.1, 3.2, 3.3, 6, 8

#include "rdmacm.h"

static const char greeting[] = "a request", answer[] = "a reply", refusal[] = "no";

static struct rdma_conn_param with(const char *text)
{
    return (struct rdma_conn_param){
        .private_data = text,
        .private_data_len = strlen(text) + 1,
        .responder_resources = 3,
        .initiator_depth = 5,
        .retry_count = 10,
        .rnr_retry_count = 6,
    };
}

static bool is_padded(const void *data, size_t from, size_t to)
{
    for (const char *byte = (const char *)data + from; byte < (const char *)data + to; byte++)
        if (*byte)
            return false;
    return true;
}

static void connection(void)
{
    struct rdma_cm_id *l = listener(RDMA_PS_TCP, "0.0.0.0"), *id = routed(RDMA_PS_TCP, ntohs(rdma_get_src_port(l)));
    struct rdma_conn_param request = with(greeting), reply = with(answer);
    struct sockaddr_in *source = (struct sockaddr_in *)&id->route.addr.src_addr;
    struct rdma_cm_event *event;
    struct rdma_cm_id *new;

    CHECK("5", "a wildcard has no device", !l->verbs);
    CHECK("5", "the way has one", id->verbs && id->pd && id->port_num == 1 && source->sin_port);
    CHECK_EQ("5", "and leads from loopback to loopback", ntohl(source->sin_addr.s_addr), INADDR_LOOPBACK);
    CHECK("2", "a route has a path",
          id->route.num_paths == 1 && id->route.path_rec->packet_life_time == 18 &&
              !memcmp(&id->route.path_rec->dgid, &id->route.addr.addr.ibaddr.dgid, 16));
    add_qp(id);
    CHECK("2", "missing completion queues are made",
          id->send_cq && id->recv_cq && id->send_cq != id->recv_cq && id->send_cq->channel == id->send_cq_channel &&
              id->recv_cq_channel != id->send_cq_channel && id->send_cq->cq_context == id);
    CHECK_EQ("2", "a queue pair begins in INIT", state_of(id), IBV_QPS_INIT);
    REQUIRE(rdma_connect(id, &request) == 0);

    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    new = event->id;
    CHECK("3.2", "a request brings an identifier",
          event->listen_id == l && new != l && new->context == l->context && new->channel == channel &&
              new->verbs == id->verbs && new->qp_type == IBV_QPT_RC && !event->status);
    CHECK("3.2", "which knows both ports",
          rdma_get_dst_port(new) == rdma_get_src_port(id) && rdma_get_src_port(new) == rdma_get_src_port(l));
    CHECK("3.2", "56 bytes, with zeros behind what was said",
          event->param.conn.private_data_len == 56 && !strcmp(event->param.conn.private_data, greeting) &&
              is_padded(event->param.conn.private_data, sizeof(greeting), 56));
    CHECK("3.2", "depths as this side may use them",
          event->param.conn.responder_resources == 5 && event->param.conn.initiator_depth == 3);
    CHECK("9", "more than seven retries are seven",
          event->param.conn.retry_count == 7 && event->param.conn.rnr_retry_count == 6);
    CHECK_EQ("3.2", "and the peer's queue pair", event->param.conn.qp_num, id->qp->qp_num);
    CHECK_EQ("2", "it is acknowledged", rdma_ack_cm_event(event), 0);
    REFUSED("2", "once", rdma_ack_cm_event(event), EINVAL);

    add_qp(new);
    REQUIRE(rdma_accept(new, &reply) == 0);
    CHECK_EQ("2", "accepting moves the queue pair to RTS", state_of(new), IBV_QPS_RTS);
    event = next(RDMA_CM_EVENT_ESTABLISHED);
    CHECK("3.3", "who asked is first", event->id == id);
    CHECK("3.2", "196 bytes",
          event->param.conn.private_data_len == 196 && !strcmp(event->param.conn.private_data, answer) &&
              event->param.conn.qp_num == new->qp->qp_num);
    CHECK_EQ("3.1", "its queue pair is in RTS", state_of(id), IBV_QPS_RTS);
    rdma_ack_cm_event(event);
    event = next(RDMA_CM_EVENT_ESTABLISHED);
    CHECK("3.2", "who was asked is told nothing", event->id == new && !event->param.conn.private_data_len);
    rdma_ack_cm_event(event);
    REFUSED("3", "what is established is not accepted", rdma_accept(new, &reply), EINVAL);
    CHECK_EQ("3", "and stays", state_of(new), IBV_QPS_RTS);

    CHECK_EQ("3.3", "one side ends it", rdma_disconnect(id), 0);
    CHECK_EQ("3.3", "and fails its queue pair at once", state_of(id), IBV_QPS_ERR);
    event = next(RDMA_CM_EVENT_DISCONNECTED);
    CHECK("3.3", "the other is told", event->id == new);
    CHECK_EQ("3.3", "and keeps its queue pair", state_of(new), IBV_QPS_RTS);
    rdma_ack_cm_event(event);
    CHECK("3.3", "the first hears nothing before the answer", is_quiet());
    CHECK_EQ("3.3", "which is a disconnect", rdma_disconnect(new), 0);
    event = next(RDMA_CM_EVENT_DISCONNECTED);
    CHECK("3.3", "then it does", event->id == id);
    rdma_ack_cm_event(event);
    CHECK_EQ("2", "again is harmless", rdma_disconnect(new), 0);
    expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
    expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
    drop(new);
    drop(id);
    drop(l);
}

// Its queue pair is in RTS when it has accepted, and the client's in INIT until that has been told.
static void a_server_that_speaks_first(void)
{
    struct rdma_cm_id *l = listener(RDMA_PS_TCP, "127.0.0.1"), *id = routed(RDMA_PS_TCP, ntohs(rdma_get_src_port(l)));
    struct rdma_conn_param param = with(greeting);
    struct rdma_cm_event *event;
    struct ibv_wc wc;
    char words[2][sizeof(answer)] = {"", ""};

    add_qp(id);
    struct ibv_mr *to = rdma_reg_msgs(id, words[0], sizeof(answer));
    REQUIRE(to && rdma_post_recv(id, NULL, words[0], sizeof(answer), to) == 0);
    REQUIRE(rdma_connect(id, &param) == 0);
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *new = event->id;
    rdma_ack_cm_event(event);
    add_qp(new);
    struct ibv_mr *from = rdma_reg_msgs(new, words[1], sizeof(answer));
    memcpy(words[1], answer, sizeof(answer));
    REQUIRE(from && rdma_accept(new, &param) == 0);
    REQUIRE(rdma_post_send(new, NULL, words[1], sizeof(answer), from, IBV_SEND_SIGNALED) == 0);
    CHECK_EQ("3.2", "a client that was not told yet receives nothing", ibv_poll_cq(id->recv_cq, 1, &wc), 0);
    CHECK_EQ("3.2", "since its queue pair is in INIT", state_of(id), IBV_QPS_INIT);
    int64_t start = now_ns();
    expect(RDMA_CM_EVENT_ESTABLISHED);
    int got = 0;
    while (!(got = ibv_poll_cq(id->recv_cq, 1, &wc)) && now_ns() - start < PATIENCE_MS * 1000000ll)
        sched_yield();
    CHECK("3.2", "what the server sent behind its reply comes then", got == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(words[0], answer));
    CHECK("3.2", "and not after the timeout of a second", now_ns() - start < 900000000);
    expect(RDMA_CM_EVENT_ESTABLISHED);
    REQUIRE(rdma_dereg_mr(to) == 0 && rdma_dereg_mr(from) == 0);
    drop(id);
    expect(RDMA_CM_EVENT_DISCONNECTED);
    drop(new);
    drop(l);
}

static void without_queue_pairs(void)
{
    struct rdma_cm_id *l = listener(RDMA_PS_TCP, "127.0.0.1"), *id = routed(RDMA_PS_TCP, ntohs(rdma_get_src_port(l)));
    struct rdma_conn_param request = with(greeting), reply = with(answer);
    struct rdma_cm_event *event;
    struct rdma_cm_id *new;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask = 0;

    request.qp_num = 0x1234;
    reply.qp_num = 0x4321;
    REQUIRE(rdma_connect(id, &request) == 0);
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    new = event->id;
    CHECK_EQ("2", "a request names the queue pair that it was told", event->param.conn.qp_num, 0x1234);
    rdma_ack_cm_event(event);
    REQUIRE(rdma_accept(new, &reply) == 0);
    event = next(RDMA_CM_EVENT_CONNECT_RESPONSE);
    CHECK("3.1", "without a queue pair there is a response", event->id == id && event->param.conn.qp_num == 0x4321);
    CHECK_EQ("2", "which has attributes", rdma_init_qp_attr(id, &attr, &mask), 0);
    CHECK("2", "that lead to the peer", attr.dest_qp_num == 0x4321 && mask & IBV_QP_DEST_QPN && mask & IBV_QP_AV);
    rdma_ack_cm_event(event);
    CHECK_EQ("2", "it is established by a call", rdma_establish(id), 0);
    event = next(RDMA_CM_EVENT_ESTABLISHED);
    CHECK("3.2", "of which the other side hears", event->id == new);
    rdma_ack_cm_event(event);
    // The identifier goes: that is an end, too.
    drop(id);
    expect(RDMA_CM_EVENT_DISCONNECTED);
    drop(new);
    drop(l);
}

static void rejections(void)
{
    struct rdma_cm_id *l = listener(RDMA_PS_TCP, "127.0.0.1"), *id = routed(RDMA_PS_TCP, ntohs(rdma_get_src_port(l)));
    struct rdma_conn_param request = with(greeting);
    struct rdma_cm_event *event = NULL;

    add_qp(id);
    REQUIRE(rdma_connect(id, &request) == 0);
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    CHECK_EQ("2", "a request is rejected", rdma_reject(event->id, refusal, sizeof(refusal)), 0);
    REFUSED("2", "once", rdma_reject(event->id, NULL, 0), EINVAL);
    drop(event->id);
    rdma_ack_cm_event(event);
    event = next(RDMA_CM_EVENT_REJECTED);
    CHECK("3.2", "with 148 bytes, for a reason of the program's",
          event->id == id && event->status == 28 && event->param.conn.private_data_len == 148 &&
              !strcmp(event->param.conn.private_data, refusal));
    CHECK_EQ("3.1", "the queue pair has failed", state_of(id), IBV_QPS_ERR);
    rdma_ack_cm_event(event);
    drop(id);

    id = routed(RDMA_PS_TCP, ntohs(rdma_get_src_port(l)));
    REQUIRE(rdma_connect(id, &request) == 0);
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    drop(event->id);
    rdma_ack_cm_event(event);
    event = next(RDMA_CM_EVENT_REJECTED);
    CHECK_EQ("3.3", "so is one whose identifier goes", event->status, 28);
    rdma_ack_cm_event(event);
    drop(id);
    id = routed(RDMA_PS_TCP, ntohs(rdma_get_src_port(l)));
    drop(l);
    REQUIRE(rdma_connect(id, &request) == 0);
    event = next(RDMA_CM_EVENT_REJECTED);
    CHECK_EQ("3.2", "and one where nobody listens", event->status, 8);
    rdma_ack_cm_event(event);
    drop(id);
}

static void datagrams(void)
{
    struct rdma_cm_id *l = listener(RDMA_PS_UDP, "127.0.0.1"), *id = routed(RDMA_PS_UDP, ntohs(rdma_get_src_port(l)));
    struct rdma_conn_param request = with(greeting), reply = with(answer);
    struct rdma_cm_event *event;
    struct rdma_cm_id *new;

    REQUIRE(rdma_connect(id, &request) == 0);
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    new = event->id;
    CHECK("8", "a question is 180 bytes, from nowhere",
          event->param.ud.private_data_len == 180 && !strcmp(event->param.ud.private_data, greeting) &&
              new->qp_type == IBV_QPT_UD);
    rdma_ack_cm_event(event);
    add_qp(new);
    CHECK_EQ("2", "a queue pair of datagrams begins in RTS", state_of(new), IBV_QPS_RTS);
    REQUIRE(rdma_accept(new, &reply) == 0);
    event = next(RDMA_CM_EVENT_ESTABLISHED);
    CHECK("8", "the answer says where to send",
          event->id == id && event->param.ud.qp_num == new->qp->qp_num && event->param.ud.qkey == RDMA_UDP_QKEY &&
              event->param.ud.private_data_len == 136 && !strcmp(event->param.ud.private_data, answer));
    struct ibv_ah *ah = ibv_create_ah(id->pd, &event->param.ud.ah_attr);
    CHECK("8", "by an address that can be used", ah != NULL);
    REQUIRE(ibv_destroy_ah(ah) == 0);
    rdma_ack_cm_event(event);
    CHECK_EQ("8", "nothing is ended", rdma_disconnect(id), 0);
    CHECK_EQ("8", "and nothing fails", state_of(new), IBV_QPS_RTS);
    CHECK("8", "nor does anybody hear of it", is_quiet());
    drop(new);
    drop(id);
    drop(l);
}

static void *acknowledge(void *event)
{
    usleep(50000);
    self.other = 1;
    rdma_ack_cm_event(event);
    return NULL;
}

static void waits(void)
{
    struct rdma_cm_id *id = make(RDMA_PS_TCP);
    struct sockaddr_in to = any4("127.0.0.1", 9);
    struct rdma_event_channel *before = channel;
    struct rdma_cm_event *event;
    pthread_t thread;

    REQUIRE(rdma_resolve_addr(id, NULL, SA(to), MS) == 0);
    event = next(RDMA_CM_EVENT_ADDR_RESOLVED);
    REQUIRE(pthread_create(&thread, NULL, acknowledge, event) == 0);
    drop(id);
    CHECK_EQ("2", "destroying waits for the acknowledgement", self.other, 1);
    self.other = 0;
    REQUIRE(pthread_join(thread, NULL) == 0);

    id = make(RDMA_PS_TCP);
    REQUIRE(rdma_resolve_addr(id, NULL, SA(to), MS) == 0);
    REQUIRE(channel = rdma_create_event_channel());
    CHECK_EQ("2", "an identifier moves", rdma_migrate_id(id, channel), 0);
    event = next(RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK("2", "and takes its events along", id->channel == channel && event->id == id);
    rdma_ack_cm_event(event);
    drop(id);
    id = make(RDMA_PS_TCP);
    REQUIRE(rdma_resolve_addr(id, NULL, SA(to), MS) == 0);
    rdma_destroy_event_channel(channel);
    channel = before;
    CHECK("2", "which are not where they were", is_quiet());
    REFUSED("2", "an identifier whose channel is gone does nothing", rdma_resolve_route(id, MS), EINVAL);
    CHECK_EQ("2", "but go", rdma_destroy_id(id), 0);
}

static void *serve(void *listen)
{
    struct rdma_cm_id *id;
    char word[8] = "";

    if (rdma_get_request(listen, &id))
        return "no request";
    if (!id->qp || id->event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
        return "a request without queue pair or event";
    memcpy(word, id->event->param.conn.private_data, 4);
    if (rdma_accept(id, NULL) || id->event->event != RDMA_CM_EVENT_ESTABLISHED)
        return "accepting does not wait";
    if (rdma_disconnect(id))
        return "disconnecting does not wait";
    if (rdma_disconnect(id))
        return "disconnecting twice fails";
    rdma_destroy_ep(id);
    if (rdma_get_request(listen, &id) || rdma_reject(id, NULL, 0))
        return "no second request";
    rdma_destroy_ep(id);
    return strcmp(word, "fore") ? "other private data" : NULL;
}

static void endpoints(void)
{
    struct ibv_qp_init_attr init = {.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
    struct rdma_conn_param param = {.private_data = "most", .private_data_len = 4, .retry_count = 7};
    struct rdma_cm_id *listen, *id;
    void *wrong = "it did not end";
    pthread_t thread;
    char port[8];

    REQUIRE(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res) == 0);
    REQUIRE(rdma_create_ep(&listen, res, NULL, &init) == 0);
    CHECK("6", "a listener has no queue pair", !listen->qp && listen->channel);
    rdma_freeaddrinfo(res);
    REFUSED("2", "it is synchronous already", rdma_migrate_id(listen, NULL), EINVAL);
    REQUIRE(rdma_listen(listen, 0) == 0);
    REQUIRE(pthread_create(&thread, NULL, serve, listen) == 0);
    snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listen)));
    hints.ai_flags = 0;
    REQUIRE(rdma_getaddrinfo("127.0.0.1", port, &hints, &res) == 0);
    REQUIRE(res->ai_connect = strdup("fore"));
    res->ai_connect_len = 4;
    CHECK_EQ("6", "an endpoint is made in one call", rdma_create_ep(&id, res, NULL, &init), 0);
    CHECK_EQ("6", "with its queue pair", state_of(id), IBV_QPS_INIT);
    CHECK_EQ("6", "connecting waits", rdma_connect(id, &param), 0);
    CHECK("6", "and keeps what it waited for", id->event && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
    CHECK_EQ("6", "as does the end", rdma_disconnect(id), 0);
    rdma_destroy_ep(id);
    CHECK("6", "completion queues are written back", init.send_cq && init.recv_cq);
    init.send_cq = init.recv_cq = NULL;
    REQUIRE(rdma_create_ep(&id, res, NULL, &init) == 0);
    REFUSED("6", "a rejection is an errno", rdma_connect(id, &param), ECONNREFUSED);
    rdma_destroy_ep(id);
    rdma_freeaddrinfo(res);
    REQUIRE(pthread_join(thread, &wrong) == 0);
    if (wrong)
        printf("%s\n", (char *)wrong);
    CHECK("6", "the other side saw the same", !wrong);
    rdma_destroy_ep(listen);
}

int main(void)
{
    self.active = true;
    setbuf(stdout, NULL);
    REQUIRE(channel = rdma_create_event_channel());
    connection();
    a_server_that_speaks_first();
    without_queue_pairs();
    rejections();
    datagrams();
    waits();
    endpoints();
    CHECK("3", "no event is left", is_quiet());
    rdma_destroy_event_channel(channel);
    return end();
}
