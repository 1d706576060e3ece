/* What the C test programs share: a check that names itself, and an open device with the usual objects. */

#ifndef NONIC_CHECK_H
#define NONIC_CHECK_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks;

/* Every check prints its sentence when it fails, with what it found; the program then ends with status 1. */
#define CHECK(sentence, condition)                                                                                     \
	do {                                                                                                           \
		checks++;                                                                                              \
		errno = 0;                                                                                             \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, sentence, errno);        \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

/* A call must be refused with exactly this errno, returned or set. */
#define REFUSED(sentence, expected, call)                                                                              \
	do {                                                                                                           \
		checks++;                                                                                              \
		errno = 0;                                                                                             \
		long returned = (long)(call);                                                                          \
		if (returned == 0 ? errno != (expected) : returned == -1 ? errno != (expected) : returned != (expected)) { \
			fprintf(stderr, "%s:%d: not so: %s (returned %ld, errno %d, expected %d)\n", __FILE__,         \
				__LINE__, sentence, returned, errno, (expected));                                      \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

struct fixture {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_port_attr port;
	union ibv_gid gid;
};

static inline void open_fixture(struct fixture *f)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK("there is a device", list && count > 0 && list[0] && !list[count]);
	CHECK("it opens", (f->context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK("its port answers", !ibv_query_port(f->context, 1, &f->port));
	CHECK("its first GID answers", !ibv_query_gid(f->context, 1, 0, &f->gid));
	CHECK("a domain", (f->pd = ibv_alloc_pd(f->context)));
	CHECK("a channel", (f->channel = ibv_create_comp_channel(f->context)));
	CHECK("a queue", (f->cq = ibv_create_cq(f->context, 64, f, f->channel, 0)));
}

static inline void close_fixture(struct fixture *f)
{
	CHECK("the queue goes", !ibv_destroy_cq(f->cq));
	CHECK("the channel goes", !ibv_destroy_comp_channel(f->channel));
	CHECK("the domain goes", !ibv_dealloc_pd(f->pd));
	CHECK("the device closes", !ibv_close_device(f->context));
}

static inline struct ibv_qp *make_qp(struct fixture *f, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.srq = srq,
		.qp_type = type,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64},
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);
	CHECK("a queue pair", qp);
	CHECK("its real sizes are at least those asked for", init.cap.max_send_wr >= 4 && init.cap.max_inline_data >= 64);
	return qp;
}

/* From RESET to RTS, to a queue pair of this very process. */
static inline void connect_qp(struct fixture *f, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	CHECK("to INIT",
	      !ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK("the structure knows its state", qp->state == IBV_QPS_INIT);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = peer;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr.port_num = 1;
	a.ah_attr.dlid = f->port.lid;
	a.ah_attr.is_global = 1;
	a.ah_attr.grh.dgid = f->gid;
	a.ah_attr.grh.hop_limit = 1;
	CHECK("to RTR", !ibv_modify_qp(qp, &a,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	CHECK("to RTS", !ibv_modify_qp(qp, &a,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC));
}

static inline int finish(void)
{
	printf("%d checks\n", checks);
	return 0;
}

#endif
