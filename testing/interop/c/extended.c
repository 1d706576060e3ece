// Extended reliable connections (XRC): domains, the shared receive queues that requests name, queue pairs that several have
// open. The passive process receives, in two protection domains; the active one sends.
//
// proves: 7.5

#include "common.h"

#define FAR 32768u // where transfers go in the buffer
#define UNTOUCHED 0x3c

static int file;       // of the domain of both processes
static int other_file; // of another

// What the passive side has besides: a second protection domain over the same bytes, and its own queue.
struct receiver {
    struct ibv_xrcd *domain;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_cq *cq[2];
    struct ibv_srq *srq[2];
    uint32_t number[2];
};

// What the active side is told.
struct invitation {
    struct card card;
    uint32_t rkey[2], number[2];
};

static struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int flags)
{
    struct ibv_xrcd_init_attr attr = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = flags};
    return ibv_open_xrcd(context, &attr);
}

static struct ibv_srq_init_attr_ex queue_attributes(struct ibv_pd *pd, struct ibv_xrcd *domain, struct ibv_cq *cq)
{
    struct ibv_srq_init_attr_ex attr = {
        .attr = {.max_wr = 8, .max_sge = 1},
        .comp_mask =
            IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
        .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = domain, .cq = cq,
    };
    return attr;
}

static struct ibv_srq *make_queue(struct ibv_pd *pd, struct ibv_xrcd *domain, struct ibv_cq *cq)
{
    struct ibv_srq_init_attr_ex attr = queue_attributes(pd, domain, cq);
    return ibv_create_srq_ex(pd->context, &attr);
}

static struct ibv_qp *make_target(struct ibv_xrcd *domain)
{
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain};
    return ibv_create_qp_ex(domain->context, &attr);
}

static struct ibv_qp *open_target(struct ibv_xrcd *domain, uint32_t number)
{
    struct ibv_qp_open_attr attr = {
        .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
        .qp_num = number, .xrcd = domain, .qp_type = IBV_QPT_XRC_RECV, .qp_context = &file};
    return ibv_open_qp(domain->context, &attr);
}

static int receive_in(struct receiver *r, struct node *n, int which, uint64_t id)
{
    struct ibv_sge sge = piece(n->buffer + FAR, 16384, which ? r->mr->lkey : n->mr->lkey);
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    return ibv_post_srq_recv(r->srq[which], &wr, &bad);
}

static struct receiver open_receiver(struct node *n)
{
    struct receiver r = {.domain = open_domain(n->context, file, O_CREAT)};
    REQUIRE(r.domain && (r.pd = ibv_alloc_pd(n->context)));
    REQUIRE(r.mr = ibv_reg_mr(r.pd, n->buffer, BUFFER, ALL_REMOTE));
    for (int i = 0; i < 2; i++) {
        REQUIRE(r.cq[i] = ibv_create_cq(n->context, 16, NULL, NULL, 0));
        REQUIRE(r.srq[i] = make_queue(i ? r.pd : n->pd, r.domain, r.cq[i]));
        REQUIRE(ibv_get_srq_num(r.srq[i], &r.number[i]) == 0);
    }
    return r;
}

static void close_receiver(struct receiver *r)
{
    for (int i = 0; i < 2; i++) {
        CHECK_EQ("xrc", "a completion queue that a shared receive queue completes to is in use", ibv_destroy_cq(r->cq[i]),
                 EBUSY);
        CHECK_EQ("xrc", "and the domain it is in", ibv_close_xrcd(r->domain), EBUSY);
        CHECK_EQ("xrc", "a shared receive queue is destroyed", ibv_destroy_srq(r->srq[i]), 0);
        CHECK_EQ("xrc", "and then its completion queue", ibv_destroy_cq(r->cq[i]), 0);
    }
    REQUIRE(ibv_dereg_mr(r->mr) == 0 && ibv_dealloc_pd(r->pd) == 0);
    CHECK_EQ("xrc", "and then the domain is closed", ibv_close_xrcd(r->domain), 0);
}

// Fresh queue pairs, connected: on the active side one that sends, on the passive side one of the domain.
static struct invitation connect_extended(struct node *n, struct receiver *r)
{
    drop_qp(n);
    drain(n->send_cq);
    drain_events(n->context);
    n->type = IBV_QPT_RC; // its attributes: what the other end's are is not looked at
    if (self.active) {
        struct ibv_qp_init_attr_ex attr = {.send_cq = n->send_cq, .cap = n->cap, .qp_type = IBV_QPT_XRC_SEND,
                                           .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = n->pd};
        REQUIRE(n->qp = ibv_create_qp_ex(n->context, &attr));
    } else {
        memset(n->buffer, UNTOUCHED, BUFFER);
        REQUIRE(n->qp = make_target(r->domain));
    }
    struct invitation ours = {.card = card_of(n)}, theirs;
    if (!self.active)
        for (int i = 0; i < 2; i++) {
            drain(r->cq[i]);
            ours.number[i] = r->number[i];
            ours.rkey[i] = i ? r->mr->rkey : n->mr->rkey;
        }
    swap_values(&ours, &theirs, sizeof ours);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &theirs.card) == 0 && to_rts(n, ours.card.psn) == 0);
    meet();
    return theirs;
}

static int post_to(struct node *n, uint32_t queue, enum ibv_wr_opcode opcode, uint32_t length, uint64_t address,
                   uint32_t rkey)
{
    struct ibv_sge sge = piece(n->buffer, length, n->mr->lkey);
    struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED, .imm_data = 77}, *bad;
    wr.qp_type.xrc.remote_srqn = queue;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 3;
    } else {
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = rkey;
    }
    return ibv_post_send(n->qp, &wr, &bad);
}

static void a_message_goes_to_the_queue_it_names(struct node *n, struct receiver *r)
{
    static const uint32_t sizes[] = {1, 64, 4096, 9000, 16384};
    struct invitation there = connect_extended(n, r);
    for (unsigned i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        uint32_t length = sizes[i / 2], which = i % 2;
        if (!self.active) {
            REQUIRE(receive_in(r, n, 0, 100 + i) == 0 && receive_in(r, n, 1, 200 + i) == 0);
        }
        meet();
        if (self.active) {
            enum ibv_wr_opcode opcode = i % 3 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
            fill(n->buffer, length, i);
            REQUIRE(post_to(n, there.number[which], opcode, length, 0, 0) == 0);
            CHECK_EQ("xrc", "a send succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        } else {
            struct ibv_wc wc = next_completion(r->cq[which]);
            CHECK("xrc", "it completes where the queue it names completes, for the queue pair it came to",
                  wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == length &&
                      wc.qp_num == n->qp->qp_num && wc.wr_id == (which ? 200 : 100) + i);
            CHECK_EQ("xrc", "and nowhere else", ibv_poll_cq(r->cq[1 - which], 1, &wc), 0);
            CHECK("xrc", "and is whole", filled(n->buffer + FAR, length, i));
            // The receive of the other queue is taken by a message of no bytes.
        }
        meet();
        if (self.active) {
            REQUIRE(post_to(n, there.number[1 - which], IBV_WR_SEND, 0, 0, 0) == 0);
            REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
        } else {
            REQUIRE(next_completion(r->cq[1 - which]).status == IBV_WC_SUCCESS);
        }
        meet();
    }
}

static void memory_is_judged_by_the_domain_of_the_queue(struct node *n, struct receiver *r)
{
    struct invitation there = connect_extended(n, r);
    if (!self.active) {
        REQUIRE(receive_in(r, n, 1, 9) == 0);
        memset(n->buffer, 0, 8);
    }
    meet();
    if (self.active) {
        for (int i = 0; i < 2; i++) {
            uint32_t queue = there.number[i], rkey = there.rkey[i];
            fill(n->buffer, 20000, 4 + i);
            REQUIRE(post_to(n, queue, IBV_WR_RDMA_WRITE, 20000, there.card.address + FAR, rkey) == 0);
            CHECK_EQ("xrc", "a write succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
            memset(n->buffer, 0, 20000);
            REQUIRE(post_to(n, queue, IBV_WR_RDMA_READ, 20000, there.card.address + FAR, rkey) == 0);
            CHECK_EQ("xrc", "a read succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
            CHECK("xrc", "and brings what was written", filled(n->buffer, 20000, 4 + i));
            REQUIRE(post_to(n, queue, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, there.card.address, rkey) == 0);
            CHECK_EQ("xrc", "a fetch and add succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
            uint64_t before;
            memcpy(&before, n->buffer, 8);
            CHECK_EQ("xrc", "and returns the value before", before, 3 * i);
        }
        REQUIRE(post_to(n, there.number[1], IBV_WR_RDMA_WRITE_WITH_IMM, 100, there.card.address + 100, there.rkey[1]) == 0);
        CHECK_EQ("xrc", "a write with immediate data succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        struct ibv_wc wc = next_completion(r->cq[1]);
        CHECK("xrc", "its immediate data come to the queue that it names",
              wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == 77 && wc.wr_id == 9);
    }
    meet();
}

// The request fails with this status, both queue pairs are in error, the receiver is told why, and nothing has moved.
static void refused(struct node *n, struct receiver *r, const char *what, uint32_t queue, enum ibv_wr_opcode opcode,
                    uint64_t address, uint32_t rkey)
{
    struct ibv_wc wc;
    if (self.active) {
        fill(n->buffer, 64, 1);
        REQUIRE(post_to(n, queue, opcode, 64, address, rkey) == 0);
        CHECK_EQ("xrc", what, next_completion(n->send_cq).status, IBV_WC_REM_ACCESS_ERR);
        CHECK_EQ("xrc", "and the queue pair that sent it is in error", state_of(n->qp), IBV_QPS_ERR);
        CHECK("xrc", "a read has brought nothing", filled(n->buffer, 64, 1));
        meet();
    } else {
        meet();
        CHECK_EQ("xrc", "the receiver is told", next_event(n->context).event_type, IBV_EVENT_QP_ACCESS_ERR);
        CHECK_EQ("xrc", "and its queue pair is in error", state_of(n->qp), IBV_QPS_ERR);
        CHECK("xrc", "and nothing has moved", all_bytes(n->buffer, BUFFER, UNTOUCHED));
        CHECK("xrc", "and no receive was taken",
              ibv_poll_cq(r->cq[0], 1, &wc) == 0 && ibv_poll_cq(r->cq[1], 1, &wc) == 0);
    }
    meet();
}

static void what_a_queue_does_not_allow_is_refused(struct node *n, struct receiver *r)
{
    struct invitation there = connect_extended(n, r);
    refused(n, r, "a send to a queue that is not there is refused", 0xabcdef, IBV_WR_SEND, 0, 0);
    there = connect_extended(n, r);
    refused(n, r, "and one to queue 0", 0, IBV_WR_SEND, 0, 0);
    uint32_t foreign = 0;
    struct ibv_xrcd *domain = NULL;
    struct ibv_srq *srq = NULL;
    if (!self.active) {
        REQUIRE(domain = open_domain(n->context, -1, O_CREAT));
        REQUIRE(srq = make_queue(n->pd, domain, r->cq[0]));
        REQUIRE(ibv_get_srq_num(srq, &foreign) == 0);
        give(&foreign, sizeof foreign);
    } else {
        take(&foreign, sizeof foreign);
    }
    there = connect_extended(n, r);
    refused(n, r, "a send to a queue of another domain is refused", foreign, IBV_WR_SEND, 0, 0);
    if (!self.active)
        REQUIRE(ibv_destroy_srq(srq) == 0 && ibv_close_xrcd(domain) == 0);
    there = connect_extended(n, r);
    refused(n, r, "a write to memory of another protection domain than the queue's is refused", there.number[0],
            IBV_WR_RDMA_WRITE, there.card.address, there.rkey[1]);
    there = connect_extended(n, r);
    refused(n, r, "a read of it is refused", there.number[1], IBV_WR_RDMA_READ, there.card.address, there.rkey[0]);
    there = connect_extended(n, r);
    if (!self.active) {
        REQUIRE(ibv_destroy_srq(r->srq[1]) == 0);
        meet();
        meet();
        CHECK_EQ("xrc", "the receiver is told", next_event(n->context).event_type, IBV_EVENT_QP_ACCESS_ERR);
        REQUIRE(r->srq[1] = make_queue(r->pd, r->domain, r->cq[1]));
        uint32_t before = r->number[1];
        REQUIRE(ibv_get_srq_num(r->srq[1], &r->number[1]) == 0);
        CHECK("xrc", "a new queue has a new number", r->number[1] != before);
    } else {
        meet();
        REQUIRE(post_to(n, there.number[1], IBV_WR_SEND, 64, 0, 0) == 0);
        CHECK_EQ("xrc", "a send to a queue that is gone is refused", next_completion(n->send_cq).status,
                 IBV_WC_REM_ACCESS_ERR);
        meet();
    }
    meet();
}

static void a_queue_without_receives_is_waited_for(struct node *n, struct receiver *r)
{
    struct invitation there = connect_extended(n, r);
    if (self.active) {
        fill(n->buffer, 64, 2);
        REQUIRE(post_to(n, there.number[0], IBV_WR_SEND, 64, 0, 0) == 0);
        meet();
        CHECK_EQ("xrc", "a send waits for a receive and succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        REQUIRE(receive_in(r, n, 1, 1) == 0); // of no use to it
        meet();
        REQUIRE(receive_in(r, n, 0, 2) == 0);
        CHECK_EQ("xrc", "which is that of the queue it names", next_completion(r->cq[0]).wr_id, 2);
    }
    meet();
}

static void requests_are_built(struct node *n, struct receiver *r)
{
    struct invitation there = connect_extended(n, r);
    if (self.active) {
        struct ibv_qp_init_attr_ex attr = {
            .send_cq = n->send_cq, .cap = n->cap, .qp_type = IBV_QPT_XRC_SEND, .pd = n->pd,
            .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND};
        REQUIRE(ibv_destroy_qp(n->qp) == 0);
        REQUIRE(n->qp = ibv_create_qp_ex(n->context, &attr));
    } else {
        REQUIRE(ibv_destroy_qp(n->qp) == 0);
        REQUIRE(n->qp = make_target(r->domain));
        REQUIRE(receive_in(r, n, 0, 3) == 0);
    }
    struct card ours = card_of(n), theirs;
    swap_values(&ours, &theirs, sizeof ours);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &theirs) == 0 && to_rts(n, ours.psn) == 0);
    meet();
    if (self.active) {
        struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(n->qp);
        ibv_wr_start(qp);
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 8);
        CHECK_EQ("xrc", "a request that names no queue is refused", ibv_wr_complete(qp), EINVAL);
        ibv_wr_start(qp);
        ibv_wr_send(qp);
        ibv_wr_set_xrc_srqn(qp, there.number[0]);
        ibv_wr_set_sge(qp, n->mr->lkey, (uintptr_t)n->buffer, 8);
        CHECK_EQ("xrc", "one that names one is posted", ibv_wr_complete(qp), 0);
        CHECK_EQ("xrc", "and succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        struct ibv_wc wc = next_completion(r->cq[0]);
        CHECK("xrc", "a request that was built comes to the queue it names", wc.wr_id == 3 && wc.byte_len == 8);
    }
    meet();
}

static void other_services_find_nobody(struct node *n, struct receiver *r)
{
    drop_qp(n);
    n->retries = 1;
    n->timeout = 10;
    if (self.active)
        REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
    else
        REQUIRE(n->qp = make_target(r->domain));
    struct card ours = card_of(n), theirs;
    swap_values(&ours, &theirs, sizeof ours);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &theirs) == 0 && to_rts(n, ours.psn) == 0);
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 1, IBV_WR_SEND, piece(n->buffer, 8, n->mr->lkey), 0, 0) == 0);
        CHECK_EQ("xrc", "a queue pair of a domain does not answer a plain request", next_completion(n->send_cq).status,
                 IBV_WC_RETRY_EXC_ERR);
    }
    meet();
    if (!self.active)
        CHECK_EQ("xrc", "and goes on", state_of(n->qp), IBV_QPS_RTS);
    n->retries = 7;
    n->timeout = 14;
}

#include "extended_alone.h"
#include "extended_shared.h"

int main(void)
{
    char name[] = "/tmp/nonic-extended-XXXXXX", other[] = "/tmp/nonic-extended-XXXXXX";
    file = mkstemp(name);
    other_file = mkstemp(other);
    if (file < 0 || other_file < 0 || unlink(name) || unlink(other)) {
        perror("a file in /tmp");
        return 2;
    }
    split();
    struct node n = open_node();
    struct receiver r = open_receiver(&n);
    a_message_goes_to_the_queue_it_names(&n, &r);
    memory_is_judged_by_the_domain_of_the_queue(&n, &r);
    what_a_queue_does_not_allow_is_refused(&n, &r);
    a_queue_without_receives_is_waited_for(&n, &r);
    requests_are_built(&n, &r);
    queues_of_another_process_are_named(&n, &r);
    what_a_queue_of_another_process_does_not_allow_is_refused(&n, &r);
    a_queue_pair_of_another_process_is_open(&n, &r);
    a_domain_is_known_by_its_file_to_all(&n, &r);
    other_services_find_nobody(&n, &r);
    if (self.active) {
        domains_are_known_by_their_files(&n, &r);
        refusals_change_nothing(&n, &r);
        several_have_a_queue_pair_open(&n, &r);
    }
    meet();
    drop_qp(&n);
    close_receiver(&r);
    close_node(&n);
    return finish();
}
