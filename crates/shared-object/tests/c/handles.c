/* A handle the program overwrote, or an object it destroyed, is refused by every call that takes it, and nothing moves. */

#include "check.h"

#define GARBLED(object, sentence, expected, call)                                                                      \
	do {                                                                                                           \
		(object)->handle ^= 0x5a5a5a5a;                                                                        \
		REFUSED(sentence, expected, call);                                                                     \
		(object)->handle ^= 0x5a5a5a5a;                                                                        \
	} while (0)

int main(void)
{
	static char buffer[4096];
	struct fixture f;
	open_fixture(&f);

	GARBLED(f.pd, "domain: dealloc", ENOENT, ibv_dealloc_pd(f.pd));
	GARBLED(f.pd, "domain: reg_mr", EINVAL, ibv_reg_mr(f.pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE));
	struct ibv_mr *mr = ibv_reg_mr(f.pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	CHECK("a region", mr && mr->addr == buffer && mr->length == sizeof(buffer) && mr->lkey != mr->rkey);
	GARBLED(mr, "region: dereg", ENOENT, ibv_dereg_mr(mr));
	REFUSED("domain with a region: dealloc", EBUSY, ibv_dealloc_pd(f.pd));
	CHECK("the region goes", !ibv_dereg_mr(mr));
	REFUSED("region: second dereg", ENOENT, ibv_dereg_mr(mr));

	GARBLED(f.cq, "queue: destroy", ENOENT, ibv_destroy_cq(f.cq));
	GARBLED(f.cq, "queue: resize", ENOENT, ibv_resize_cq(f.cq, 128));
	GARBLED(f.cq, "queue: req_notify", ENOENT, ibv_req_notify_cq(f.cq, 0));
	CHECK("the queue still answers", !ibv_resize_cq(f.cq, 128) && f.cq->cqe >= 128);
	REFUSED("queue: size 0", EINVAL, ibv_resize_cq(f.cq, 0));
	REFUSED("queue: negative size", EINVAL, ibv_create_cq(f.context, -1, NULL, NULL, 0));
	REFUSED("queue: no such vector", EINVAL, ibv_create_cq(f.context, 1, NULL, NULL, f.context->num_comp_vectors));
	REFUSED("queue: negative vector", EINVAL, ibv_create_cq(f.context, 1, NULL, NULL, -1));
	REFUSED("channel with a queue: destroy", EBUSY, ibv_destroy_comp_channel(f.channel));

	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(f.pd, &srq_init);
	CHECK("a shared receive queue", srq && srq_init.attr.max_wr >= 8);
	struct ibv_srq_attr srq_attr = {.srq_limit = 2};
	GARBLED(srq, "shared queue: modify", ENOENT, ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT));
	GARBLED(srq, "shared queue: query", ENOENT, ibv_query_srq(srq, &srq_attr));
	GARBLED(srq, "shared queue: destroy", ENOENT, ibv_destroy_srq(srq));
	REFUSED("shared queue: unknown bit", EINVAL, ibv_modify_srq(srq, &srq_attr, 1 << 5));
	CHECK("shared queue: query", !ibv_query_srq(srq, &srq_attr) && srq_attr.srq_limit == 0);
	struct ibv_qp *taker = make_qp(&f, IBV_QPT_RC, srq);
	REFUSED("shared queue with a queue pair: destroy", EBUSY, ibv_destroy_srq(srq));
	CHECK("its queue pair goes", !ibv_destroy_qp(taker));
	CHECK("the shared queue goes", !ibv_destroy_srq(srq));
	REFUSED("shared queue: second destroy", ENOENT, ibv_destroy_srq(srq));

	struct ibv_qp *qp = make_qp(&f, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr init;
	GARBLED(qp, "queue pair: modify", ENOENT, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	GARBLED(qp, "queue pair: query", ENOENT, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	GARBLED(qp, "queue pair: destroy", ENOENT, ibv_destroy_qp(qp));
	CHECK("queue pair: query", !ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RESET);
	CHECK("it says what it was made with", init.send_cq == f.cq && init.qp_type == IBV_QPT_RC && !init.sq_sig_all);
	REFUSED("queue with a queue pair: destroy", EBUSY, ibv_destroy_cq(f.cq));
	attr.qp_state = 77;
	REFUSED("queue pair: a state that is none", EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	REFUSED("queue pair: RESET to RTS", EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	CHECK("the queue pair goes", !ibv_destroy_qp(qp));
	REFUSED("queue pair: second destroy", ENOENT, ibv_destroy_qp(qp));
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
	CHECK("posting to a destroyed queue pair is refused", ibv_post_send(qp, &send, &bad_send) == EINVAL);
	CHECK("and the request is named", bad_send == &send);

	struct ibv_ah_attr path = {.port_num = 1, .dlid = f.port.lid, .is_global = 1, .grh = {.dgid = f.gid}};
	struct ibv_ah *ah = ibv_create_ah(f.pd, &path);
	CHECK("an address handle", ah);
	GARBLED(ah, "address handle: destroy", ENOENT, ibv_destroy_ah(ah));
	CHECK("the address handle goes", !ibv_destroy_ah(ah));
	REFUSED("address handle: second destroy", ENOENT, ibv_destroy_ah(ah));
	path.port_num = 2;
	REFUSED("address handle: no such port", EINVAL, ibv_create_ah(f.pd, &path));

	struct ibv_alloc_dm_attr dm_attr = {.length = 4096};
	struct ibv_dm *dm = ibv_alloc_dm(f.context, &dm_attr);
	CHECK("device memory", dm && dm->comp_mask == IBV_DM_MASK_HANDLE);
	GARBLED(dm, "device memory: free", ENOENT, ibv_free_dm(dm));
	GARBLED(dm, "device memory: copy", ENOENT, ibv_memcpy_to_dm(dm, 0, buffer, 8));
	GARBLED(dm, "device memory: reg_dm_mr", EINVAL, ibv_reg_dm_mr(f.pd, dm, 0, 8, IBV_ACCESS_ZERO_BASED));
	CHECK("the device memory goes", !ibv_free_dm(dm));
	REFUSED("device memory: second free", ENOENT, ibv_free_dm(dm));

	struct ibv_pd *pd = f.pd;
	close_fixture(&f);
	REFUSED("domain: second dealloc", ENOENT, ibv_dealloc_pd(pd));
	REFUSED("device: second close", EINVAL, ibv_close_device(f.context));
	REFUSED("no device", EINVAL, ibv_open_device(NULL));
	return finish();
}
