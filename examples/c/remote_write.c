// One process writes a sentence into the memory of another, which does nothing but look at it.
//
//     make remote_write && nonic run -- ./remote_write
//
// The whole life of an RDMA write: open a device, register memory, connect two queue pairs, tell the other side where
// the memory is, write, and see it arrive. The two processes exchange what they must know by a socket pair; programs
// on two hosts would use TCP.

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 4096
#define MUST(what)                                                                                                  \
    do {                                                                                                            \
        if (!(what)) {                                                                                              \
            perror(#what);                                                                                          \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

// What the other side has to know to reach us.
struct introduction {
    uint32_t queue_pair, rkey;
    uint64_t address;
    uint16_t lid;
    union ibv_gid gid;
};

static void connect_queue_pair(struct ibv_qp *qp, const struct introduction *there)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);

    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = there->queue_pair,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .grh = {.dgid = there->gid, .hop_limit = 1}, .dlid = there->lid, .port_num = 1},
    };
    MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);

    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void say(volatile char *buffer, struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr,
                const struct introduction *there)
{
    const char *sentence = "these bytes were written by another process";
    memcpy((char *)buffer, sentence, strlen(sentence) + 1);
    // The last byte of the message says that all of it is there: it is written last.
    buffer[LENGTH - 1] = 1;

    struct ibv_sge piece = {.addr = (uintptr_t)buffer, .length = LENGTH, .lkey = mr->lkey};
    struct ibv_send_wr request = {
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = there->address, .rkey = there->rkey},
    }, *refused;
    MUST(ibv_post_send(qp, &request, &refused) == 0);

    struct ibv_wc completion;
    while (ibv_poll_cq(cq, 1, &completion) == 0)
        ;
    printf("writer: the write of %d bytes completed: %s\n", LENGTH, ibv_wc_status_str(completion.status));
    MUST(completion.status == IBV_WC_SUCCESS);
}

static void watch(const volatile char *buffer)
{
    while (buffer[LENGTH - 1] == 0)
        ;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    printf("target: my memory now says: %s\n", (const char *)buffer);
}

int main(void)
{
    // Two processes first, then a device in each: a device does not survive a fork.
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t child = fork();
    MUST(child >= 0);
    int other = ends[child ? 0 : 1];

    struct ibv_device **devices = ibv_get_device_list(NULL);
    MUST(devices && devices[0]);
    struct ibv_context *context = ibv_open_device(devices[0]);
    MUST(context);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    MUST(pd);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    MUST(cq);
    char *buffer = aligned_alloc(4096, LENGTH);
    MUST(buffer);
    memset(buffer, 0, LENGTH);
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, LENGTH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    MUST(mr);
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    MUST(qp);

    struct ibv_port_attr port;
    struct introduction here = {.queue_pair = qp->qp_num, .rkey = mr->rkey, .address = (uintptr_t)buffer}, there;
    MUST(ibv_query_port(context, 1, &port) == 0);
    here.lid = port.lid;
    MUST(ibv_query_gid(context, 1, 0, &here.gid) == 0);
    MUST(write(other, &here, sizeof here) == sizeof here);
    MUST(read(other, &there, sizeof there) == sizeof there);
    connect_queue_pair(qp, &there);
    // Both must be connected before the first write.
    char ready = 1;
    MUST(write(other, &ready, 1) == 1 && read(other, &ready, 1) == 1);

    if (child)
        say(buffer, qp, cq, mr, &there);
    else
        watch(buffer);

    ibv_destroy_qp(qp);
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
    ibv_free_device_list(devices);
    int status = 0;
    if (child)
        waitpid(child, &status, 0);
    return status ? 1 : 0;
}
