/* Stands in front of libibverbs: the first queue pair that is to receive gets there late, as on a machine that keeps the process off its
 * processors just then. Whoever sends to it already hears nothing meanwhile. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <time.h>
#include <unistd.h>

/* More than the eight timeouts of 67 ms that a requester with retry_cnt 7 and timeout 14 has at least, less than the 27 it gets. */
static const struct timespec LATE = { .tv_nsec = 900 * 1000 * 1000 };

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
	static int (*real)(struct ibv_qp *, struct ibv_qp_attr *, int);
	if (!real)
		real = (int (*)(struct ibv_qp *, struct ibv_qp_attr *, int))dlsym(RTLD_NEXT, "ibv_modify_qp");
	static int was_late;
	if (mask & IBV_QP_STATE && attributes->qp_state == IBV_QPS_RTR && !was_late) {
		was_late = 1;
		nanosleep(&LATE, NULL);
		if (write(2, "receives late\n", 14) != 14)
			return -1;
	}
	return real(qp, attributes, mask);
}
