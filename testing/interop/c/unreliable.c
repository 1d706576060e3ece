// What unreliable connections and datagrams drop, in silence, and what stops their own send queue.
//
// proves: verbs-abi 7.2 (SQE), 7.3 (opcodes by type), 7.4 (UC and UD)

#include "common.h"

// An unreliable message may still be on its way when its sender has a completion. Whoever polls takes in what has
// arrived, so this meeting with a poll on the target's side puts an end to messages that find no receive.
static void meet_and_take_in(struct node *n)
{
    struct ibv_wc wc;
    meet();
    if (!self.active)
        CHECK_EQ("7.4", "a message that finds no receive completes nothing", ibv_poll_cq(n->recv_cq, 1, &wc), 0);
    meet();
}

static void unreliable_connections_drop_in_silence(struct node *n)
{
    n->type = IBV_QPT_UC;
    struct card theirs = bring_up(n);
    memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
    meet();
    if (self.active) {
        REQUIRE(post_one(n, 1, WRITE, 32, theirs.address + 64, 0xdeadbeef) == 0);
        CHECK_EQ("7.4", "a UC write with a bad key succeeds here", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        REQUIRE(post_one(n, 2, WRITE, 32, theirs.address + BUFFER, theirs.rkey) == 0);
        CHECK_EQ("7.4", "a UC write beyond the region succeeds here", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
        REQUIRE(post_one(n, 3, SEND, 32, 0, 0) == 0);
        CHECK_EQ("7.4", "a UC send without a receive succeeds here", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
        int refused = post_one(n, 4, READ, 32, theirs.address, theirs.rkey);
        CHECK("7.3", "a read on UC is EINVAL, or LOC_QP_OP_ERR later",
              refused == EINVAL || next_completion(n->send_cq).status == IBV_WC_LOC_QP_OP_ERR);
    }
    meet_and_take_in(n);
    if (self.active && state_of(n->qp) == IBV_QPS_SQE) {
        struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
        CHECK_EQ("7.2", "SQE to RTS works", ibv_modify_qp(n->qp, &rts, IBV_QP_STATE), 0);
    }
    if (!self.active)
        REQUIRE(post_receive(n->qp, 9, piece(n->buffer + 4096, 64, n->mr->lkey)) == 0);
    meet();
    if (self.active) {
        REQUIRE(post_one(n, 5, SEND, 32, 0, 0) == 0);
        CHECK_EQ("7.4", "the next UC send succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("7.4", "the first receive is filled by the message sent after it was posted",
              wc.status == IBV_WC_SUCCESS && wc.wr_id == 9 && wc.byte_len == 32);
        CHECK("7.4", "the dropped ones moved nothing", all_bytes(n->buffer, 4096, 0x3c));
        CHECK_EQ("7.4", "and the queue pair lives", state_of(n->qp), IBV_QPS_RTS);
    }
    meet();

    // A local error stops the send queue only.
    theirs = bring_up(n);
    memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
    meet();
    if (self.active) {
        REQUIRE(post_receive(n->qp, 20, piece(n->buffer + 8192, 64, n->mr->lkey)) == 0);
        REQUIRE(post(n->qp, 1, WRITE, piece(n->buffer, 32, 0xdeadbeef), theirs.address, theirs.rkey) == 0);
        CHECK_EQ("7.4", "a UC write from a bad local key is LOC_PROT_ERR", next_completion(n->send_cq).status,
                 IBV_WC_LOC_PROT_ERR);
        CHECK_EQ("7.4", "and the queue pair is in SQE", state_of(n->qp), IBV_QPS_SQE);
        REQUIRE(post_one(n, 2, WRITE, 32, theirs.address, theirs.rkey) == 0);
        CHECK_EQ("7.4", "in SQE a send is flushed", next_completion(n->send_cq).status, IBV_WC_WR_FLUSH_ERR);
    }
    meet();
    if (!self.active) {
        CHECK("7.4", "nothing moved", all_bytes(n->buffer, BUFFER, 0x3c));
        REQUIRE(post_one(n, 1, SEND, 16, 0, 0) == 0);
        CHECK_EQ("7.4", "the peer may send", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("7.4", "in SQE the receive side goes on", wc.status == IBV_WC_SUCCESS && wc.wr_id == 20);
        struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS}, init = {.qp_state = IBV_QPS_INIT};
        CHECK_EQ("7.2", "SQE to INIT is EINVAL", ibv_modify_qp(n->qp, &init, IBV_QP_STATE), EINVAL);
        CHECK_EQ("7.2", "SQE to RTS works", ibv_modify_qp(n->qp, &rts, IBV_QP_STATE), 0);
        REQUIRE(post_one(n, 3, WRITE, 32, theirs.address, theirs.rkey) == 0);
        CHECK_EQ("7.2", "and the send queue works again", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    n->type = IBV_QPT_RC;
}

static int send_datagram(struct node *n, uint64_t id, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint32_t length)
{
    struct ibv_sge sge = piece(n->buffer, length, n->mr->lkey);
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = SEND,
                             .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = qkey;
    return ibv_post_send(n->qp, &wr, &bad);
}

static void datagrams_drop_in_silence(struct node *n)
{
    struct ibv_port_attr port;
    n->type = IBV_QPT_UD;
    REQUIRE(ibv_query_port(n->context, PORT, &port) == 0);
    uint32_t mtu = 128u << port.active_mtu;
    struct card theirs = bring_up(n);
    struct ibv_ah_attr route = route_to(&theirs);
    struct ibv_ah *ah = ibv_create_ah(n->pd, &route);
    REQUIRE(ah);
    memset(n->buffer, self.active ? 0xa5 : 0x3c, BUFFER);
    meet();
    if (self.active) {
        REQUIRE(send_datagram(n, 1, ah, theirs.qpn, theirs.qkey, 32) == 0);
        CHECK_EQ("7.4", "a datagram without a receive succeeds here", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
    }
    meet_and_take_in(n);
    if (!self.active) {
        REQUIRE(post_receive(n->qp, 1, piece(n->buffer, 40 + 32, n->mr->lkey)) == 0);
        REQUIRE(post_receive(n->qp, 2, piece(n->buffer + 8192, 40 + 64, n->mr->lkey)) == 0);
    }
    meet();
    if (self.active) {
        REQUIRE(send_datagram(n, 2, ah, theirs.qpn, theirs.qkey + 1, 32) == 0);
        CHECK_EQ("7.4", "a datagram with the wrong Q_Key succeeds here", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
        REQUIRE(send_datagram(n, 3, ah, theirs.qpn ^ 0xabcd, theirs.qkey, 32) == 0);
        CHECK_EQ("7.4", "a datagram to a number nobody has succeeds here", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
        n->buffer[0] = 0x77;
        REQUIRE(send_datagram(n, 4, ah, theirs.qpn, theirs.qkey, 24) == 0);
        CHECK_EQ("7.4", "a good datagram succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("7.4", "the first to arrive is the good one",
              wc.status == IBV_WC_SUCCESS && wc.byte_len == 40 + 24 && wc.wr_id == 1 && n->buffer[40] == 0x77);
        CHECK("7.4", "nothing else moved", all_bytes(n->buffer + 64, BUFFER - 64, 0x3c));
    }
    meet();
    if (self.active) {
        REQUIRE(send_datagram(n, 5, ah, theirs.qpn, theirs.qkey, mtu + 1) == 0);
        CHECK_EQ("7.4", "a datagram above the MTU is LOC_LEN_ERR", next_completion(n->send_cq).status,
                 IBV_WC_LOC_LEN_ERR);
        CHECK_EQ("7.4", "and the queue pair is in SQE", state_of(n->qp), IBV_QPS_SQE);
        struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
        CHECK_EQ("7.2", "SQE to RTS works", ibv_modify_qp(n->qp, &rts, IBV_QP_STATE), 0);

        static const enum ibv_wr_opcode one_sided[] = {WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, READ, SWAP, ADD};
        for (size_t i = 0; i < sizeof one_sided / sizeof *one_sided; i++) {
            CHECK_EQ("7.3", "a one-sided request on UD is taken", post_one(n, 6, one_sided[i], 8, theirs.address, theirs.rkey), 0);
            CHECK_EQ("7.3", "and is LOC_QP_OP_ERR", next_completion(n->send_cq).status, IBV_WC_LOC_QP_OP_ERR);
            CHECK_EQ("7.3", "and puts the queue pair into SQE", state_of(n->qp), IBV_QPS_SQE);
            REQUIRE(ibv_modify_qp(n->qp, &rts, IBV_QP_STATE) == 0);
        }
        CHECK_EQ("7.3", "what takes a key out of use is not", post_one(n, 6, IBV_WR_SEND_WITH_INV, 8, 0, 0), EINVAL);
        int refused;
        struct ibv_pd *other = ibv_alloc_pd(n->context);
        struct ibv_ah *foreign = other ? ibv_create_ah(other, &route) : NULL;
        REQUIRE(foreign);
        refused = send_datagram(n, 7, foreign, theirs.qpn, theirs.qkey, 8);
        enum ibv_wc_status status = refused ? IBV_WC_LOC_QP_OP_ERR : next_completion(n->send_cq).status;
        CHECK_EITHER("7.4", "an address handle of another domain is LOC_QP_OP_ERR, or the datagram is dropped", status,
                     IBV_WC_LOC_QP_OP_ERR, IBV_WC_SUCCESS);
        if (state_of(n->qp) == IBV_QPS_SQE)
            REQUIRE(ibv_modify_qp(n->qp, &rts, IBV_QP_STATE) == 0);
        REQUIRE(ibv_destroy_ah(foreign) == 0 && ibv_dealloc_pd(other) == 0);
        REQUIRE(send_datagram(n, 8, ah, theirs.qpn, theirs.qkey, 64) == 0);
        CHECK_EQ("7.4", "afterwards a good datagram succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("7.4", "and is the next to arrive", wc.status == IBV_WC_SUCCESS && wc.wr_id == 2 &&
                                                      wc.byte_len == 40 + 64 && n->buffer[8192 + 40] == 0x77);
    }
    meet();
    drop_qp(n);
    REQUIRE(ibv_destroy_ah(ah) == 0);
    n->type = IBV_QPT_RC;
}

int main(void)
{
    split();
    struct node n = open_node();
    unreliable_connections_drop_in_silence(&n);
    datagrams_drop_in_silence(&n);
    close_node(&n);
    return finish();
}
