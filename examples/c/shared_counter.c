// Four processes count together in the device memory of a fifth.
//
//     make shared_counter && nonic run -- ./shared_counter
//
// The owner allocates a few bytes of device memory, registers them (zero based: addresses are offsets) and hands out
// the key. The others add to the counter with RDMA atomics; the owner never touches it until all are done.

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNTERS 4
#define ROUNDS 1000
#define MUST(what)                                                                                                  \
    do {                                                                                                            \
        if (!(what)) {                                                                                              \
            perror(#what);                                                                                          \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

struct introduction {
    uint32_t queue_pair, rkey;
    uint16_t lid;
    union ibv_gid gid;
};

struct device {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
};

static struct device open_device(void)
{
    struct device d;
    struct ibv_device **list = ibv_get_device_list(NULL);
    MUST(list && list[0]);
    MUST(d.context = ibv_open_device(list[0]));
    ibv_free_device_list(list);
    MUST(d.pd = ibv_alloc_pd(d.context));
    MUST(d.cq = ibv_create_cq(d.context, 64, NULL, NULL, 0));
    return d;
}

static void close_device(struct device *d)
{
    ibv_destroy_cq(d->cq);
    ibv_dealloc_pd(d->pd);
    ibv_close_device(d->context);
}

static struct ibv_qp *create_queue_pair(struct device *d)
{
    struct ibv_qp_init_attr init = {
        .send_cq = d->cq,
        .recv_cq = d->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *qp = ibv_create_qp(d->pd, &init);
    MUST(qp);
    return qp;
}

// Exchanges introductions over the socket and connects. Returns the other side's.
static struct introduction meet(struct device *d, struct ibv_qp *qp, uint32_t rkey, int other)
{
    struct introduction here = {.queue_pair = qp->qp_num, .rkey = rkey}, there;
    struct ibv_port_attr port;
    MUST(ibv_query_port(d->context, 1, &port) == 0);
    here.lid = port.lid;
    MUST(ibv_query_gid(d->context, 1, 0, &here.gid) == 0);
    MUST(write(other, &here, sizeof here) == sizeof here);
    MUST(read(other, &there, sizeof there) == sizeof there);

    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC};
    MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = there.queue_pair,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .grh = {.dgid = there.gid, .hop_limit = 1}, .dlid = there.lid, .port_num = 1},
    };
    MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
    MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    char ready = 1;
    MUST(write(other, &ready, 1) == 1 && read(other, &ready, 1) == 1);
    return there;
}

// Adds 1 to the counter at offset 0 of the owner's region, ROUNDS times; says when done.
static int count(int number, int owner)
{
    struct device d = open_device();
    struct ibv_qp *qp = create_queue_pair(&d);
    struct introduction there = meet(&d, qp, 0, owner);
    uint64_t before = 0;
    struct ibv_mr *mr = ibv_reg_mr(d.pd, &before, sizeof before, IBV_ACCESS_LOCAL_WRITE);
    MUST(mr);
    for (int i = 0; i < ROUNDS; i++) {
        struct ibv_sge piece = {.addr = (uintptr_t)&before, .length = sizeof before, .lkey = mr->lkey};
        struct ibv_send_wr request = {
            .sg_list = &piece,
            .num_sge = 1,
            .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.atomic = {.remote_addr = 0, .rkey = there.rkey, .compare_add = 1},
        }, *refused;
        MUST(ibv_post_send(qp, &request, &refused) == 0);
        struct ibv_wc completion;
        while (ibv_poll_cq(d.cq, 1, &completion) == 0)
            ;
        MUST(completion.status == IBV_WC_SUCCESS);
    }
    printf("counter %d: added %d, the last value I saw was %llu\n", number, ROUNDS, (unsigned long long)before);
    MUST(write(owner, "d", 1) == 1);
    ibv_destroy_qp(qp);
    ibv_dereg_mr(mr);
    close_device(&d);
    return 0;
}

int main(void)
{
    int others[COUNTERS];
    for (int i = 0; i < COUNTERS; i++) {
        int ends[2];
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0)
            return count(i, ends[1]);
        close(ends[1]);
        others[i] = ends[0];
    }

    struct device d = open_device();
    struct ibv_alloc_dm_attr size = {.length = 64, .log_align_req = 3};
    struct ibv_dm *dm = ibv_alloc_dm(d.context, &size);
    MUST(dm);
    uint64_t counter = 0;
    MUST(ibv_memcpy_to_dm(dm, 0, &counter, sizeof counter) == 0);
    struct ibv_mr *mr = ibv_reg_dm_mr(d.pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
                                                           IBV_ACCESS_REMOTE_ATOMIC);
    MUST(mr);
    struct ibv_qp *qps[COUNTERS];
    for (int i = 0; i < COUNTERS; i++) {
        qps[i] = create_queue_pair(&d);
        meet(&d, qps[i], mr->rkey, others[i]);
    }
    for (int i = 0; i < COUNTERS; i++) {
        char done;
        MUST(read(others[i], &done, 1) == 1);
    }
    MUST(ibv_memcpy_from_dm(&counter, dm, 0, sizeof counter) == 0);
    printf("owner: %d processes added %d each, the counter says %llu\n", COUNTERS, ROUNDS,
           (unsigned long long)counter);

    for (int i = 0; i < COUNTERS; i++)
        ibv_destroy_qp(qps[i]);
    ibv_dereg_mr(mr);
    ibv_free_dm(dm);
    close_device(&d);
    while (wait(NULL) > 0)
        ;
    return counter == COUNTERS * ROUNDS ? 0 : 1;
}
