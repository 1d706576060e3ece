// What two processes see of a domain that both have open: part of `extended.c`. The passive one has the queue pair that requests come
// to, and the active one, which sends them, the shared receive queues that they name and the memory behind these.

#ifndef NONIC_INTEROP_EXTENDED_SHARED_H
#define NONIC_INTEROP_EXTENDED_SHARED_H

static uint32_t own_key(struct node *n, struct receiver *r, int which) { return which ? r->mr->rkey : n->mr->rkey; }

static void queues_of_another_process_are_named(struct node *n, struct receiver *r)
{
    static const uint32_t sizes[] = {0, 1, 64, 9000, 16384};
    struct invitation there = connect_extended(n, r);
    for (unsigned i = 0; self.active && i < 2 * sizeof sizes / sizeof *sizes; i++) {
        uint32_t length = sizes[i / 2], which = i % 2;
        fill(n->buffer, length, i);
        memset(n->buffer + FAR, UNTOUCHED, 16384);
        REQUIRE(receive_in(r, n, which, 300 + i) == 0);
        enum ibv_wr_opcode opcode = i % 3 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
        REQUIRE(post_to(n, r->number[which], opcode, length, 0, 0) == 0);
        CHECK_EQ("xrc", "a send to a queue of another process succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        struct ibv_wc wc = next_completion(r->cq[which]);
        CHECK("xrc", "it completes there, for the queue pair it came to",
              wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == length && wc.wr_id == 300 + i &&
                  wc.qp_num == there.card.qpn);
        CHECK("xrc", "and is whole", filled(n->buffer + FAR, length, i));
    }
    for (int which = 0; self.active && which < 2; which++) {
        uint32_t queue = r->number[which], rkey = own_key(n, r, which);
        uint64_t address = (uintptr_t)n->buffer + FAR, before;
        fill(n->buffer, 20000, 40 + which);
        REQUIRE(post_to(n, queue, IBV_WR_RDMA_WRITE, 20000, address, rkey) == 0);
        CHECK_EQ("xrc", "a write to its memory succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        CHECK("xrc", "and is there", filled(n->buffer + FAR, 20000, 40 + which));
        memset(n->buffer, 0, 20000);
        REQUIRE(post_to(n, queue, IBV_WR_RDMA_READ, 20000, address, rkey) == 0);
        CHECK_EQ("xrc", "a read succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        CHECK("xrc", "and brings what was written", filled(n->buffer, 20000, 40 + which));
        memset(n->buffer + FAR, 0, 8);
        REQUIRE(post_to(n, queue, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, address, rkey) == 0);
        CHECK_EQ("xrc", "a fetch and add succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        memcpy(&before, n->buffer + FAR, 8);
        CHECK_EQ("xrc", "and has added", before, 3);
        REQUIRE(receive_in(r, n, which, 9) == 0);
        REQUIRE(post_to(n, queue, IBV_WR_RDMA_WRITE_WITH_IMM, 100, address + 100, rkey) == 0);
        CHECK_EQ("xrc", "a write with immediate data succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        struct ibv_wc wc = next_completion(r->cq[which]);
        CHECK("xrc", "and takes a receive of the queue it names",
              wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == 77 && wc.wr_id == 9);
    }
    meet();
    if (!self.active)
        CHECK("xrc", "nothing came to the memory of the process that has the queue pair", all_bytes(n->buffer, BUFFER, UNTOUCHED));
    meet();
}

static void what_a_queue_of_another_process_does_not_allow_is_refused(struct node *n, struct receiver *r)
{
    struct invitation there = connect_extended(n, r);
    if (self.active)
        memset(n->buffer + FAR, UNTOUCHED, FAR);
    refused(n, r, "memory of the process that has the queue pair is not its", r->number[0], IBV_WR_RDMA_WRITE,
            there.card.address, there.rkey[0]);
    there = connect_extended(n, r);
    refused(n, r, "nor is memory of another protection domain than the queue's", self.active ? r->number[0] : 0,
            IBV_WR_RDMA_WRITE, (uintptr_t)n->buffer + FAR, r->mr->rkey);
    if (self.active)
        CHECK("xrc", "and nothing has moved", all_bytes(n->buffer + FAR, FAR, UNTOUCHED));
    there = connect_extended(n, r);
    uint32_t before = r->number[1];
    if (self.active) {
        REQUIRE(ibv_destroy_srq(r->srq[1]) == 0);
        REQUIRE(r->srq[1] = make_queue(r->pd, r->domain, r->cq[1]));
        REQUIRE(ibv_get_srq_num(r->srq[1], &r->number[1]) == 0);
    }
    refused(n, r, "a queue of another process that is gone is not there", before, IBV_WR_SEND, 0, 0);
}

// Until it is gone: who gives it back last does not wait for it.
static bool is_gone(struct ibv_xrcd *domain, uint32_t number)
{
    for (int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000; now_ns() < end; sched_yield()) {
        struct ibv_qp *found = open_target(domain, number);
        if (!found)
            return errno == EINVAL;
        REQUIRE(ibv_destroy_qp(found) == 0);
    }
    return false;
}

static void a_queue_pair_of_another_process_is_open(struct node *n, struct receiver *r)
{
    struct invitation there = connect_extended(n, r);
    struct ibv_qp *opened = NULL;
    if (self.active) {
        drain_events(n->context);
        opened = open_target(r->domain, there.card.qpn);
        CHECK("xrc", "a queue pair that another process created is opened",
              opened && opened->qp_num == there.card.qpn && opened->qp_context == &file);
        REQUIRE(opened);
        CHECK_EQ("xrc", "it is in the state it is in there", state_of(opened), IBV_QPS_RTS);
        CHECK_EQ("xrc", "a domain in which one has it open is in use", ibv_close_xrcd(r->domain), EBUSY);
        struct ibv_sge sge = piece(n->buffer, 8, n->mr->lkey);
        CHECK_EQ("xrc", "it takes no requests", post(opened, 1, IBV_WR_SEND, sge, 0, 0), EINVAL);
        CHECK_EQ("xrc", "nor receives", post_receive(opened, 1, sge), EINVAL);
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
        CHECK_EQ("xrc", "nor moves that are none", ibv_modify_qp(opened, &attr, IBV_QP_STATE), EINVAL);
    }
    meet();
    if (!self.active) {
        CHECK_EQ("xrc", "which leave it as it was", state_of(n->qp), IBV_QPS_RTS);
        CHECK_EQ("xrc", "who created it gives it back", ibv_destroy_qp(n->qp), 0);
        n->qp = NULL;
    }
    meet();
    if (self.active) {
        REQUIRE(receive_in(r, n, 0, 4) == 0);
        REQUIRE(post_to(n, r->number[0], IBV_WR_SEND, 8, 0, 0) == 0);
        CHECK_EQ("xrc", "and it goes on for the other", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        CHECK_EQ("xrc", "whose queue is reached through it", next_completion(r->cq[0]).wr_id, 4);
        REQUIRE(post_to(n, 0xfffffe, IBV_WR_SEND, 8, 0, 0) == 0);
        CHECK_EQ("xrc", "a queue that is not there is refused", next_completion(n->send_cq).status, IBV_WC_REM_ACCESS_ERR);
        struct ibv_async_event event = next_event(n->context);
        CHECK("xrc", "who has it open is told as of its own",
              event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == opened);
        CHECK_EQ("xrc", "it is there as long as somebody has it open", state_of(opened), IBV_QPS_ERR);
        CHECK_EQ("xrc", "the last gives it back", ibv_destroy_qp(opened), 0);
        CHECK("xrc", "and it is gone", is_gone(r->domain, there.card.qpn));
    }
    meet();
}

static void a_domain_is_known_by_its_file_to_all(struct node *n, struct receiver *r)
{
    (void)r;
    struct ibv_xrcd *opened = NULL;
    if (self.active)
        REQUIRE(opened = open_domain(n->context, other_file, O_CREAT | O_EXCL));
    meet();
    if (!self.active) {
        CHECK_NULL("xrc", "nobody has a domain alone that another process has open",
                   open_domain(n->context, other_file, O_CREAT | O_EXCL), EINVAL);
        CHECK("xrc", "it is there without being made", (opened = open_domain(n->context, other_file, 0)) != NULL);
    }
    meet();
    REQUIRE(!opened || ibv_close_xrcd(opened) == 0);
    meet();
    if (self.active)
        CHECK_NULL("xrc", "and ends with the last who has it open", open_domain(n->context, other_file, 0), EAGAIN);
    meet();
}

#endif
