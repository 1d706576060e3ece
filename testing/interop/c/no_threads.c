// The user may have no more threads: a device is opened all the same, a queue pair is refused, and made when there are threads to be had.

#include "harness.h"

#include <infiniband/verbs.h>
#include <sys/resource.h>

static struct ibv_qp *queue_pair(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr wanted = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    return ibv_create_qp(pd, &wanted);
}

int main(void)
{
    struct rlimit before, none;
    REQUIRE(getrlimit(RLIMIT_NPROC, &before) == 0);
    none = before;
    none.rlim_cur = 1; // Which this process is already.
    REQUIRE(setrlimit(RLIMIT_NPROC, &none) == 0);

    self.active = true;
    struct ibv_device **devices = ibv_get_device_list(NULL);
    REQUIRE(devices && devices[0]);
    struct ibv_context *context = ibv_open_device(devices[0]);
    CHECK("threads", "the device is opened without a thread", context != NULL);
    REQUIRE(context);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    REQUIRE(pd && cq);
    for (int turn = 0; turn < 2; turn++) {
        errno = 0;
        struct ibv_qp *refused = queue_pair(pd, cq);
        CHECK("threads", "a queue pair is refused", refused == NULL);
        CHECK_EQ("threads", "for want of a thread", errno, EAGAIN);
    }
    REQUIRE(setrlimit(RLIMIT_NPROC, &before) == 0);
    struct ibv_qp *qp = queue_pair(pd, cq);
    CHECK("threads", "it is made when a thread is to be had", qp != NULL);
    if (qp)
        CHECK_EQ("threads", "and destroyed", ibv_destroy_qp(qp), 0);
    CHECK_EQ("threads", "nothing is left of those refused: the queue goes", ibv_destroy_cq(cq), 0);
    CHECK_EQ("threads", "and the domain", ibv_dealloc_pd(pd), 0);
    CHECK_EQ("threads", "and the device", ibv_close_device(context), 0);
    ibv_free_device_list(devices);
    return finish_alone();
}
