// What an ordinary program does, all of it, with its bytes checked: run under limits, filters and missing
// directories to see that it still works.
//
// proves: HOST-5

#include "common.h"

static void sends_of_every_size(struct node *n)
{
    static const uint32_t sizes[] = {1, 7, 64, 1000, 4096, 16384, 30000};
    bring_up(n);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(n->buffer, 0x3c, BUFFER);
        if (!self.active)
            REQUIRE(post_receive(n->qp, i, piece(n->buffer, 32768, n->mr->lkey)) == 0);
        meet();
        if (self.active) {
            fill(n->buffer, sizes[i], i);
            REQUIRE(post(n->qp, i, IBV_WR_SEND, piece(n->buffer, sizes[i], n->mr->lkey), 0, 0) == 0);
            CHECK_EQ("everyday", "a send succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        } else {
            struct ibv_wc wc = next_completion(n->recv_cq);
            CHECK("everyday", "and arrives whole",
                  wc.status == IBV_WC_SUCCESS && wc.byte_len == sizes[i] && filled(n->buffer, sizes[i], i) &&
                      all_bytes(n->buffer + sizes[i], BUFFER - sizes[i], 0x3c));
        }
        meet();
    }
}

static void one_sided_transfers(struct node *n)
{
    struct card theirs = bring_up(n);
    memset(n->buffer, 0, BUFFER);
    if (!self.active)
        fill(n->buffer + 32768, 16384, 8);
    meet();
    if (self.active) {
        fill(n->buffer, 20000, 7);
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 20000, n->mr->lkey), theirs.address, theirs.rkey) ==
                0);
        CHECK_EQ("everyday", "a write succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        REQUIRE(post(n->qp, 2, IBV_WR_RDMA_READ, piece(n->buffer + 40000, 16384, n->mr->lkey), theirs.address + 32768,
                     theirs.rkey) == 0);
        CHECK_EQ("everyday", "a read succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        CHECK("everyday", "and brings the bytes", filled(n->buffer + 40000, 16384, 8));
        for (int i = 0; i < 5; i++) {
            REQUIRE(post_atomic(n->qp, 3, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(n->buffer, 8, n->mr->lkey),
                                theirs.address + 65528, theirs.rkey, 10, 0) == 0);
            uint64_t before;
            CHECK_EQ("everyday", "a fetch and add succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
            memcpy(&before, n->buffer, 8);
            CHECK_EQ("everyday", "and returns the value before", before, 10 * i);
        }
        REQUIRE(post_atomic(n->qp, 4, IBV_WR_ATOMIC_CMP_AND_SWP, piece(n->buffer, 8, n->mr->lkey),
                            theirs.address + 65528, theirs.rkey, 50, 7) == 0);
        CHECK_EQ("everyday", "a compare and swap succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    if (!self.active) {
        uint64_t counter;
        memcpy(&counter, n->buffer + 65528, 8);
        CHECK("everyday", "the write arrived whole", filled(n->buffer, 20000, 7));
        CHECK_EQ("everyday", "the atomics add up", counter, 7);
    }
    meet();
}

static void a_large_write(struct node *n)
{
    enum { LARGE = 8 << 20 };
    unsigned char *bytes;
    struct ibv_mr *mr;
    bring_up(n);
    REQUIRE(posix_memalign((void **)&bytes, 4096, LARGE) == 0);
    memset(bytes, 0, LARGE);
    mr = ibv_reg_mr(n->pd, bytes, LARGE, ALL_REMOTE);
    CHECK("everyday", "8 MiB can be registered", mr != NULL);
    REQUIRE(mr);
    struct card ours = {.rkey = mr->rkey, .address = (uintptr_t)bytes}, theirs;
    swap_values(&ours, &theirs, sizeof ours);
    if (self.active) {
        fill(bytes, LARGE, 3);
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(bytes, LARGE, mr->lkey), theirs.address, theirs.rkey) == 0);
        CHECK_EQ("everyday", "a write of 8 MiB succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    if (!self.active)
        CHECK("everyday", "and arrives whole", filled(bytes, LARGE, 3));
    meet();
    REQUIRE(ibv_dereg_mr(mr) == 0);
    free(bytes);
}

static void device_memory(struct node *n)
{
    struct ibv_alloc_dm_attr attr = {.length = 8192};
    struct ibv_dm *dm = ibv_alloc_dm(n->context, &attr);
    CHECK("everyday", "device memory can be allocated", dm != NULL);
    REQUIRE(dm);
    struct ibv_mr *mr = ibv_reg_dm_mr(n->pd, dm, 0, 8192, ALL_REMOTE | IBV_ACCESS_ZERO_BASED);
    REQUIRE(mr);
    bring_up(n);
    uint32_t their_key;
    swap_values(&mr->rkey, &their_key, sizeof their_key);
    if (self.active) {
        fill(n->buffer, 8192, 4);
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 8192, n->mr->lkey), 0, their_key) == 0);
        CHECK_EQ("everyday", "a write to device memory succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    if (!self.active) {
        unsigned char back[8192];
        CHECK("everyday", "and arrives whole", ibv_memcpy_from_dm(back, dm, 0, 8192) == 0 && filled(back, 8192, 4));
    }
    meet();
    REQUIRE(ibv_dereg_mr(mr) == 0 && ibv_free_dm(dm) == 0);
}

static void datagrams_and_unreliable_writes(struct node *n)
{
    n->type = IBV_QPT_UC;
    struct card theirs = bring_up(n);
    memset(n->buffer, 0, BUFFER);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 1, piece(NULL, 0, 0)) == 0);
    meet();
    if (self.active) {
        fill(n->buffer, 4000, 5);
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 4000, n->mr->lkey), theirs.address, theirs.rkey) == 0);
        CHECK_EQ("everyday", "a UC write succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        REQUIRE(post(n->qp, 2, IBV_WR_SEND, piece(n->buffer, 0, 0), 0, 0) == 0);
        CHECK_EQ("everyday", "a UC send succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        CHECK_EQ("everyday", "the UC send arrives", next_completion(n->recv_cq).status, IBV_WC_SUCCESS);
        CHECK("everyday", "and the UC write before it, whole", filled(n->buffer, 4000, 5));
    }
    meet();
    n->type = IBV_QPT_UD;
    theirs = bring_up(n);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 1, piece(n->buffer, 40 + 1024, n->mr->lkey)) == 0);
    meet();
    if (self.active) {
        struct ibv_ah_attr route = route_to(&theirs);
        struct ibv_ah *ah = ibv_create_ah(n->pd, &route);
        struct ibv_sge sge = piece(n->buffer, 1024, n->mr->lkey);
        struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                                 .send_flags = IBV_SEND_SIGNALED}, *bad;
        REQUIRE(ah);
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = theirs.qpn;
        wr.wr.ud.remote_qkey = theirs.qkey;
        REQUIRE(ibv_post_send(n->qp, &wr, &bad) == 0);
        CHECK_EQ("everyday", "a datagram succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        drop_qp(n);
        REQUIRE(ibv_destroy_ah(ah) == 0);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("everyday", "and arrives whole",
              wc.status == IBV_WC_SUCCESS && wc.byte_len == 1064 && filled(n->buffer + 40, 1024, 5));
    }
    meet();
    n->type = IBV_QPT_RC;
}

static void many_queue_pairs(struct node *n)
{
    enum { MANY = 100 };
    struct ibv_qp *qps[MANY];
    int made = 0;
    while (made < MANY && (qps[made] = make_qp(n, IBV_QPT_RC)))
        made++;
    CHECK_EQ("everyday", "a hundred queue pairs need no descriptors of their own", made, MANY);
    for (int i = 0; i < made; i++)
        REQUIRE(ibv_destroy_qp(qps[i]) == 0);
}

int main(void)
{
    split();
    struct node n = open_node();
    sends_of_every_size(&n);
    one_sided_transfers(&n);
    a_large_write(&n);
    device_memory(&n);
    datagrams_and_unreliable_writes(&n);
    many_queue_pairs(&n);
    close_node(&n);
    return finish();
}
