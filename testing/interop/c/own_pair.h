// Queue pairs of one program, connected to each other, on one completion queue.

#ifndef NONIC_INTEROP_OWN_PAIR_H
#define NONIC_INTEROP_OWN_PAIR_H

#include "common.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq; // of all queue pairs, with events
static unsigned char *buffer;
static struct ibv_mr *mr;

static struct ibv_qp *new_qp(struct ibv_srq *shared)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .srq = shared, .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
    };
    return ibv_create_qp(pd, &init);
}

static struct node node_of(struct ibv_qp *qp)
{
    struct node n = {.context = context, .type = IBV_QPT_RC, .qp = qp, .qp_access = ALL_REMOTE, .timeout = 14, .retries = 7,
                     .rnr_retries = 7, .rnr_timer = 1, .max_rd_atomic = 4, .mr = mr, .buffer = buffer};
    return n;
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *other)
{
    struct node n = node_of(qp), o = node_of(other);
    struct card there = card_of(&o);
    REQUIRE(to_init(&n) == 0 && to_rtr(&n, &there) == 0 && to_rts(&n, there.psn) == 0);
}

#endif
