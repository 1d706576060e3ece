// A device that is changed from outside, as programs of the connection manager meet it: DEVICE_REMOVAL for what is bound to it, the
// end of its connections for those at their other ends, ADDR_CHANGE when the address that an identifier is bound to has gone.
//
// proves: rdmacm 3.3 (DEVICE_REMOVAL, ADDR_CHANGE)

#include "rdmacm.h"

#include "changes.h"

static void server(void)
{
    struct rdma_cm_id *bound = listener(RDMA_PS_TCP, "127.0.0.1"), *wild = listener(RDMA_PS_TCP, "0.0.0.0");
    struct rdma_cm_id *resolved, *connected;
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    uint16_t port = ntohs(rdma_get_src_port(bound));
    int removed[3] = {0, 0, 0}, others = 0;

    give(&port, sizeof port);
    struct rdma_cm_event *event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    connected = event->id;
    REQUIRE(rdma_ack_cm_event(event) == 0);
    add_qp(connected);
    REQUIRE(rdma_accept(connected, &param) == 0);
    expect(RDMA_CM_EVENT_ESTABLISHED);
    resolved = routed(RDMA_PS_TCP, port);
    meet();

    // The address goes and comes back.
    union ibv_gid gid;
    int index = -1;
    for (int i = 0; i < 64 && index < 0; i++)
        if (ibv_query_gid(connected->verbs, 1, i, &gid) == 0 && gid.raw[10] == 0xff && gid.raw[12] == 127)
            index = i;
    REQUIRE(index >= 0);
    char words[64];
    snprintf(words, sizeof words, "gid set %d 10.99.98.97", index);
    CHANGE(words);
    for (int i = 0; i < 3; i++) {
        event = next(RDMA_CM_EVENT_ADDR_CHANGE);
        CHECK("3.3", "ADDR_CHANGE is for an identifier that is bound to the address",
              event->id == bound || event->id == resolved || event->id == connected);
        REQUIRE(rdma_ack_cm_event(event) == 0);
    }
    CHECK("3.3", "and for no other", is_quiet());
    snprintf(words, sizeof words, "gid set %d 127.0.0.1", index);
    CHANGE(words);
    CHECK("3.3", "that it is back is no event", is_quiet());
    CHANGE("port down");
    CHANGE("port up");
    CHECK("3.3", "a port that goes down is none of the connection manager's", is_quiet());

    CHANGE("fatal");
    meet();
    while (removed[0] + removed[1] + removed[2] < 3) {
        struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
        REQUIRE(poll(&fd, 1, PATIENCE_MS) == 1);
        REQUIRE(rdma_get_cm_event(channel, &event) == 0);
        if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            removed[0] += event->id == bound;
            removed[1] += event->id == connected;
            removed[2] += event->id == resolved;
        } else {
            others++;
        }
        REQUIRE(rdma_ack_cm_event(event) == 0);
    }
    CHECK("3.3", "DEVICE_REMOVAL came once for each bound identifier", removed[0] == 1 && removed[1] == 1 && removed[2] == 1);
    CHECK("3.3", "and nothing else came, for a wildcard neither", others == 0 && is_quiet());
    REFUSED("3.3", "disconnecting is too late", rdma_disconnect(connected), ENXIO);
    REFUSED("3.3", "so is connecting", rdma_connect(resolved, &param), ENXIO);
    REFUSED("3.3", "and listening", rdma_listen(bound, 1), ENXIO);
    rdma_destroy_qp(connected);
    CHECK_EQ("3.3", "the connected identifier is destroyed", rdma_destroy_id(connected), 0);
    CHECK_EQ("3.3", "the resolved one is", rdma_destroy_id(resolved), 0);
    CHECK_EQ("3.3", "the listener is", rdma_destroy_id(bound), 0);

    // As after a reset: the wildcard goes on, over the device that is there now.
    port = ntohs(rdma_get_src_port(wild));
    give(&port, sizeof port);
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    connected = event->id;
    CHECK("3.3", "a wildcard is asked anew", event->listen_id == wild && connected->verbs);
    REQUIRE(rdma_ack_cm_event(event) == 0);
    add_qp(connected);
    REQUIRE(rdma_accept(connected, &param) == 0);
    expect(RDMA_CM_EVENT_ESTABLISHED);
    meet();
    drop(connected);
    drop(wild);
}

static void client(void)
{
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 1};
    uint16_t port;
    take(&port, sizeof port);
    struct rdma_cm_id *id = routed(RDMA_PS_TCP, port);
    add_qp(id);
    REQUIRE(rdma_connect(id, &param) == 0);
    expect(RDMA_CM_EVENT_ESTABLISHED);
    meet();
    meet();
    expect(RDMA_CM_EVENT_DISCONNECTED);
    CHECK("3.3", "the other side's device fails: DISCONNECTED", true);
    drop(id);
    take(&port, sizeof port);
    id = routed(RDMA_PS_TCP, port);
    add_qp(id);
    REQUIRE(rdma_connect(id, &param) == 0);
    expect(RDMA_CM_EVENT_ESTABLISHED);
    meet();
    drop(id);
}

int main(void)
{
    split();
    REQUIRE(channel = rdma_create_event_channel());
    if (self.active)
        client();
    else
        server();
    rdma_destroy_event_channel(channel);
    return finish();
}
