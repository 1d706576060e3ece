// See the header.

#include "../common.h"
#include "bench_verbs_side.h"

enum { LARGEST = 1 << 20 };

static struct node n;
static struct ibv_mr *large;
static struct card there;

void verbs_connect(int peer, bool active, pid_t other)
{
    self.peer = peer;
    self.active = active;
    self.other = other;
    n = open_node();
    bring_up(&n);
    // Memory of the same kind as the room of the other side.
    unsigned char *bytes = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(bytes != MAP_FAILED);
    memset(bytes, 1, LARGEST);
    large = ibv_reg_mr(n.pd, bytes, LARGEST, ALL_REMOTE);
    REQUIRE(large);
    struct card ours = {.rkey = large->rkey, .address = (uintptr_t)bytes};
    swap_values(&ours, &there, sizeof ours);
    for (int i = 0; i < 8; i++)
        REQUIRE(post_receive(n.qp, i, piece(n.buffer + 4096, 64, n.mr->lkey)) == 0);
    meet();
}

static void poll_one(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int got;
    while ((got = ibv_poll_cq(cq, 1, &wc)) == 0)
        ;
    REQUIRE(got == 1 && wc.status == IBV_WC_SUCCESS);
}

static void send_one(void)
{
    REQUIRE(post(n.qp, 1, IBV_WR_SEND, piece(n.buffer, 8, n.mr->lkey), 0, 0) == 0);
}

static void receive_one(void)
{
    poll_one(n.recv_cq);
    REQUIRE(post_receive(n.qp, 1, piece(n.buffer + 4096, 64, n.mr->lkey)) == 0);
}

void verbs_send(int iterations)
{
    for (int i = 0; i < iterations; i++) {
        send_one();
        receive_one();
        poll_one(n.send_cq);
    }
}

void verbs_echo(int iterations)
{
    for (int i = 0; i < iterations; i++) {
        receive_one();
        send_one();
        poll_one(n.send_cq);
    }
}

void verbs_write(int iterations, unsigned length)
{
    for (int i = 0; i < iterations; i++) {
        REQUIRE(post(n.qp, 1, IBV_WR_RDMA_WRITE, piece(large->addr, length, large->lkey), there.address,
                     there.rkey) == 0);
        poll_one(n.send_cq);
    }
}
