// A device that is changed from outside by `nonic ctl`: what events, queries and files tell, what becomes of requests and messages
// meanwhile, and what cannot be changed.
//
// proves: verbs-abi 7.6 (events of the port and the device), 7.3 (retries of a reliable queue pair, silence of the others)

#include "common.h"

#include "changes.h"

#include <arpa/inet.h>

static bool no_event(struct ibv_context *context)
{
    struct pollfd p = {.fd = context->async_fd, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

static void expect(struct ibv_context *context, enum ibv_event_type type)
{
    struct ibv_async_event event = next_event(context);
    CHECK_EQ("7.6", ibv_event_type_str(type), event.event_type, type);
    if (type != IBV_EVENT_DEVICE_FATAL)
        CHECK_EQ("7.6", "it names the port", event.element.port_num, PORT);
}

static struct ibv_port_attr port_of(struct node *n)
{
    struct ibv_port_attr port;
    REQUIRE(ibv_query_port(n->context, PORT, &port) == 0);
    return port;
}

// By their members: nobody fills what lies between these.
static bool same_port(const struct ibv_port_attr *a, const struct ibv_port_attr *b)
{
    return a->state == b->state && a->phys_state == b->phys_state && a->lid == b->lid && a->sm_lid == b->sm_lid &&
           a->gid_tbl_len == b->gid_tbl_len && a->pkey_tbl_len == b->pkey_tbl_len && a->link_layer == b->link_layer &&
           a->port_cap_flags == b->port_cap_flags && a->active_mtu == b->active_mtu;
}

static bool is_idle(struct ibv_cq *cq, int for_ms)
{
    struct ibv_wc wc;
    int64_t end = now_ns() + (int64_t)for_ms * 1000000;
    do
        if (ibv_poll_cq(cq, 1, &wc) != 0)
            return false;
    while (now_ns() < end);
    return true;
}

// ---- a port that is down -------------------------------------------------------------------------------------------

// The requests of the active side while the port of one side is down, which comes up again in time.
static void requests_wait_for_the_port(struct node *n, bool here)
{
    n->timeout = 0; // it never gives up
    struct card there = bring_up(n);
    struct ibv_context *other = open_device();
    fill(n->buffer, 20000, 1);
    memset(n->buffer + 32768, 0, 20000);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 9, piece(n->buffer + 32768, 20000, n->mr->lkey)) == 0);
    meet();
    bool mine = here == self.active;
    if (mine) {
        CHANGE("port down");
        CHECK_EQ("7.6", "the port is down", port_of(n).state, IBV_PORT_DOWN);
        CHECK_EQ("7.6", "and polls", port_of(n).phys_state, 2);
        CHECK("file", "so says its file", !strcmp(file_of("state"), "1: DOWN"));
        CHECK("file", "and that of the wire", !strcmp(file_of("phys_state"), "2: Polling"));
        expect(n->context, IBV_EVENT_PORT_ERR);
        expect(other, IBV_EVENT_PORT_ERR);
        CHECK_EQ("7.6", "what is so is no change", change("port down"), 0);
        CHECK("7.6", "and has no event", no_event(n->context) && no_event(other));
    } else {
        CHECK_EQ("7.6", "the other side's port is up", port_of(n).state, IBV_PORT_ACTIVE);
    }
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 16, n->mr->lkey), there.address + 60000, there.rkey) == 0);
        REQUIRE(post(n->qp, 2, IBV_WR_SEND, piece(n->buffer, 20000, n->mr->lkey), 0, 0) == 0);
        CHECK("7.3", "nothing completes while the port is down", is_idle(n->send_cq, 30));
    } else {
        CHECK("7.3", "nothing arrives while the port is down", is_idle(n->recv_cq, 30));
        CHECK("7.3", "no byte is written", all_bytes(n->buffer + 60000, 16, 0));
    }
    meet();
    if (mine) {
        CHANGE("port up");
        CHECK_EQ("7.6", "the port is up", port_of(n).state, IBV_PORT_ACTIVE);
        CHECK("file", "so says its file", !strcmp(file_of("state"), "4: ACTIVE"));
        expect(n->context, IBV_EVENT_PORT_ACTIVE);
        expect(other, IBV_EVENT_PORT_ACTIVE);
    }
    if (self.active) {
        for (uint64_t id = 1; id <= 2; id++) {
            struct ibv_wc wc = next_completion(n->send_cq);
            CHECK_EQ("7.3", "a request goes on when the port is up", wc.status, IBV_WC_SUCCESS);
            CHECK_EQ("7.3", "in its order", wc.wr_id, id);
        }
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK_EQ("7.3", "its message arrives", wc.status, IBV_WC_SUCCESS);
        CHECK_EQ("7.3", "in the receive that waited", wc.wr_id, 9);
        CHECK("7.3", "whole", filled(n->buffer + 32768, 20000, 1));
        CHECK("7.3", "behind the write", filled(n->buffer + 60000, 16, 1));
    }
    meet();
    CHECK("7.6", "no further event came", no_event(n->context));
    REQUIRE(ibv_close_device(other) == 0);
}

static void requests_fail_when_the_port_stays_down(struct node *n, bool here)
{
    n->timeout = 10; // 4.2 ms
    n->retries = 2;
    struct card there = bring_up(n);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 9, piece(n->buffer, 64, n->mr->lkey)) == 0);
    if (here == self.active)
        CHANGE("port down");
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 16, n->mr->lkey), there.address, there.rkey) == 0);
        CHECK_EQ("7.3", "its retries are used up", next_completion(n->send_cq).status, IBV_WC_RETRY_EXC_ERR);
        CHECK_EQ("7.3", "the queue pair is in error", state_of(n->qp), IBV_QPS_ERR);
    }
    meet();
    if (!self.active) {
        CHECK_EQ("7.3", "the other one is not", state_of(n->qp), IBV_QPS_RTS);
        CHECK("7.3", "and keeps its receive", is_idle(n->recv_cq, 0));
    }
    if (here == self.active)
        CHANGE("port up");
    meet();
    drain_events(n->context);
}

static void messages_without_answers_are_lost(struct node *n, bool here)
{
    bring_up(n);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 9, piece(n->buffer, 1024, n->mr->lkey)) == 0);
    meet();
    if (here == self.active)
        CHANGE("port down");
    meet();
    struct ibv_ah *ah = NULL;
    struct card theirs, mine = card_of(n);
    swap_values(&mine, &theirs, sizeof mine);
    if (self.active && n->type == IBV_QPT_UD) {
        struct ibv_ah_attr route = route_to(&theirs);
        REQUIRE(ah = ibv_create_ah(n->pd, &route));
    }
    for (int round = 0; round < 2; round++) {
        if (self.active) {
            memset(n->buffer, 'a' + round, 64);
            struct ibv_sge sge = piece(n->buffer, 64, n->mr->lkey);
            struct ibv_send_wr wr = {.wr_id = round, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                                     .send_flags = IBV_SEND_SIGNALED}, *bad;
            if (ah) {
                wr.wr.ud.ah = ah;
                wr.wr.ud.remote_qpn = theirs.qpn;
                wr.wr.ud.remote_qkey = theirs.qkey;
            }
            REQUIRE(ibv_post_send(n->qp, &wr, &bad) == 0);
            CHECK_EQ("7.3", "the sender learns nothing", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        }
        meet();
        if (round == 0) {
            if (!self.active)
                CHECK("7.3", "what was sent is lost, and the receive stays", is_idle(n->recv_cq, 30));
            if (here == self.active)
                CHANGE("port up");
        } else if (!self.active) {
            size_t head = n->type == IBV_QPT_UD ? 40 : 0;
            CHECK_EQ("7.3", "what is sent later arrives", next_completion(n->recv_cq).status, IBV_WC_SUCCESS);
            CHECK("7.3", "and is what was sent later", all_bytes(n->buffer + head, 64, 'b'));
        }
        meet();
    }
    if (ah)
        REQUIRE(ibv_destroy_ah(ah) == 0);
    drain_events(n->context);
}

// ---- tables --------------------------------------------------------------------------------------------------------

static void tables_tell_the_new_truth(struct node *n)
{
    union ibv_gid before, gid;
    struct ibv_gid_entry entry;
    bool ethernet = port_of(n).link_layer == IBV_LINK_LAYER_ETHERNET;
    uint16_t pkey;
    REQUIRE(ibv_query_gid(n->context, PORT, 0, &before) == 0);

    CHANGE("gid set 0 fe80::77");
    expect(n->context, IBV_EVENT_GID_CHANGE);
    CHECK_EQ("gid", "the entry can be read", ibv_query_gid(n->context, PORT, 0, &gid), 0);
    CHECK("gid", "it is the new one", gid.raw[0] == 0xfe && gid.raw[15] == 0x77);
    CHECK("file", "so says its file", !strcmp(file_of("gids/0"), "fe80:0000:0000:0000:0000:0000:0000:0077"));
    CHANGE("gid remove 0");
    expect(n->context, IBV_EVENT_GID_CHANGE);
    CHECK_EQ("gid", "an empty entry can be read", ibv_query_gid(n->context, PORT, 0, &gid), 0);
    CHECK("gid", "it is zero", all_bytes(gid.raw, 16, 0));
    CHECK_EQ("gid", "and has no type", ibv_query_gid_ex(n->context, PORT, 0, &entry, 0), ENODATA);
    CHECK("file", "so says its file", !strcmp(file_of("gids/0"), "0000:0000:0000:0000:0000:0000:0000:0000"));
    CHANGE("gid add 10.99.98.97");
    expect(n->context, IBV_EVENT_GID_CHANGE);
    CHECK_EQ("gid", "an added one is in the first empty entry", ibv_query_gid(n->context, PORT, 0, &gid), 0);
    CHECK("gid", "as it was given", gid.raw[10] == 0xff && gid.raw[12] == 10 && gid.raw[15] == 97);
    char words[INET6_ADDRSTRLEN];
    REQUIRE(inet_ntop(AF_INET6, before.raw, words, sizeof words));
    REQUIRE(ctl("--pid %d gid set 0 %s", (int)getpid(), words) == 0);
    expect(n->context, IBV_EVENT_GID_CHANGE);
    REQUIRE(ibv_query_gid(n->context, PORT, 0, &gid) == 0);
    CHECK("gid", "the first one is back", !memcmp(&gid, &before, sizeof gid));

    CHANGE("pkey set 0 0x8123");
    expect(n->context, IBV_EVENT_PKEY_CHANGE);
    CHECK_EQ("pkey", "the entry can be read", ibv_query_pkey(n->context, PORT, 0, &pkey), 0);
    CHECK_EQ("pkey", "it is the new one", be16toh(pkey), 0x8123);
    CHECK_EQ("pkey", "which is found", ibv_get_pkey_index(n->context, PORT, htobe16(0x8123)), 0);
    CHECK_EQ("pkey", "and the one before is not", ibv_get_pkey_index(n->context, PORT, htobe16(0xffff)), -1);
    CHECK("file", "so says its file", !strcmp(file_of("pkeys/0"), "0x8123"));
    CHANGE("pkey set 0 0xffff");
    expect(n->context, IBV_EVENT_PKEY_CHANGE);

    if (ethernet) {
        CHECK_EQ("lid", "an Ethernet port has no LID to change", change("lid 7"), 1);
        CHECK_EQ("lid", "nor a subnet manager", change("sm-change"), 1);
        CHECK_EQ("lid", "with which anything is registered", change("client-reregister"), 1);
    } else {
        CHANGE("lid 0x77");
        expect(n->context, IBV_EVENT_LID_CHANGE);
        CHECK_EQ("lid", "the LID is the new one", port_of(n).lid, 0x77);
        CHECK("file", "so says its file", !strcmp(file_of("lid"), "0x77"));
        CHANGE("sm-change 9");
        expect(n->context, IBV_EVENT_SM_CHANGE);
        CHECK_EQ("sm", "the subnet manager is the new one", port_of(n).sm_lid, 9);
        CHECK("file", "so says its file", !strcmp(file_of("sm_lid"), "0x9"));
        CHANGE("client-reregister");
        expect(n->context, IBV_EVENT_CLIENT_REREGISTER);
        CHANGE("lid 1");
        expect(n->context, IBV_EVENT_LID_CHANGE);
    }
    CHECK("7.6", "no further event came", no_event(n->context));
}

static void what_cannot_be_changed_is_refused(struct node *n)
{
    struct ibv_port_attr before = port_of(n), after;
    pid_t none = fork();
    if (none == 0)
        _exit(0);
    waitpid(none, NULL, 0);
    CHECK_EQ("refused", "an index beyond the GID table", change("gid set 64 fe80::1"), 1);
    CHECK_EQ("refused", "one beyond the P_Key table", change("pkey remove 1"), 1);
    CHECK_EQ("refused", "a device that is not there", ctl("--pid %d --device mlx5_0 port down", (int)getpid()), 1);
    CHECK_EQ("refused", "no process", ctl("--pid %d port down", (int)none), 1);
    CHECK_EQ("refused", "no change", change("port sideways"), 2);
    CHECK_EQ("refused", "a LID of a group", change("lid 0xc000"), 2);
    CHECK_EQ("refused", "nobody in particular", ctl("port down"), 2);
    after = port_of(n);
    CHECK("refused", "nothing has changed", same_port(&before, &after));
    CHECK("refused", "nobody was told", no_event(n->context));
}

static void a_partition_that_is_gone_is_silent(struct node *n)
{
    n->timeout = 0;
    struct card there = bring_up(n);
    memset(n->buffer, self.active ? 5 : 0, 64);
    if (!self.active)
        CHANGE("pkey remove 0");
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 64, n->mr->lkey), there.address, there.rkey) == 0);
        CHECK("pkey", "nothing completes", is_idle(n->send_cq, 30));
    }
    meet();
    if (!self.active) {
        CHECK("pkey", "no byte is written", all_bytes(n->buffer, 64, 0));
        CHANGE("pkey set 0 0xffff");
    }
    if (self.active)
        CHECK_EQ("pkey", "it is done when the key is back", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    meet();
    if (!self.active)
        CHECK("pkey", "the bytes are there", all_bytes(n->buffer, 64, 5));
    drain_events(n->context);
}

// ---- the end of a device -------------------------------------------------------------------------------------------

static void a_device_fails(struct node *n)
{
    n->timeout = 10;
    n->retries = 2;
    struct card there = bring_up(n);
    meet();
    if (!self.active) {
        struct ibv_port_attr port;
        struct ibv_device_attr device;
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
        struct ibv_qp_init_attr init;
        struct ibv_sge sge = piece(n->buffer, 8, n->mr->lkey);
        struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;
        struct ibv_send_wr send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
        struct ibv_wc wc;
        union ibv_gid gid;
        CHANGE("fatal");
        expect(n->context, IBV_EVENT_DEVICE_FATAL);
        CHECK_EQ("fatal", "posting a send", ibv_post_send(n->qp, &send, &bad), EIO);
        CHECK_EQ("fatal", "posting a receive", ibv_post_recv(n->qp, &receive, &bad_receive), EIO);
        CHECK("fatal", "polling", ibv_poll_cq(n->recv_cq, 1, &wc) < 0);
        CHECK_EQ("fatal", "asking for an event", ibv_req_notify_cq(n->recv_cq, 0), EIO);
        CHECK_EQ("fatal", "moving a queue pair", ibv_modify_qp(n->qp, &attr, IBV_QP_STATE), EIO);
        CHECK_EQ("fatal", "asking for its state", ibv_query_qp(n->qp, &attr, IBV_QP_STATE, &init), EIO);
        CHECK_EQ("fatal", "asking for the port", ibv_query_port(n->context, PORT, &port), EIO);
        CHECK_EQ("fatal", "asking for the device", ibv_query_device(n->context, &device), EIO);
        CHECK_EQ("fatal", "asking for a GID", ibv_query_gid(n->context, PORT, 0, &gid), -1);
        CHECK_NULL("fatal", "a new protection domain", ibv_alloc_pd(n->context), EIO);
        CHECK_NULL("fatal", "a new region", ibv_reg_mr(n->pd, n->buffer, 4096, 0), EIO);
        CHECK_NULL("fatal", "a new completion queue", ibv_create_cq(n->context, 4, NULL, NULL, 0), EIO);
        CHECK_NULL("fatal", "a new completion channel", ibv_create_comp_channel(n->context), EIO);
        CHECK_NULL("fatal", "a new queue pair", make_qp(n, IBV_QPT_RC), EIO);
        CHECK_EQ("fatal", "it cannot be changed any more", change("port down"), 1);
    }
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 8, n->mr->lkey), there.address, there.rkey) == 0);
        CHECK_EQ("fatal", "its peer finds nobody", next_completion(n->send_cq).status, IBV_WC_RETRY_EXC_ERR);
    }
    meet();
}

int main(void)
{
    split();
    static const enum ibv_qp_type silent[] = {IBV_QPT_UC, IBV_QPT_UD};
    for (int here = 0; here < 2; here++) {
        struct node n = open_node();
        requests_wait_for_the_port(&n, here);
        close_node(&n);
        n = open_node();
        requests_fail_when_the_port_stays_down(&n, here);
        close_node(&n);
        for (int i = 0; i < 2; i++) {
            n = open_node();
            n.type = silent[i];
            messages_without_answers_are_lost(&n, here);
            close_node(&n);
        }
    }
    struct node n = open_node();
    if (self.active) {
        tables_tell_the_new_truth(&n);
        what_cannot_be_changed_is_refused(&n);
    }
    meet();
    a_partition_that_is_gone_is_silent(&n);
    close_node(&n);
    n = open_node();
    a_device_fails(&n);
    close_node(&n);
    n = open_node(); // as after a reset
    struct card there = bring_up(&n);
    if (self.active) {
        REQUIRE(post(n.qp, 1, IBV_WR_RDMA_WRITE, piece(n.buffer, 8, n.mr->lkey), there.address, there.rkey) == 0);
        CHECK_EQ("fatal", "opened again, the device works", next_completion(n.send_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    close_node(&n);
    return finish();
}
