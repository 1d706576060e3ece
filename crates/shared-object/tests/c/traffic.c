/* Two queue pairs of one process: requests, completions, events and what posting refuses. */

#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>

static char buffer[8192];

static void await(struct ibv_cq *cq, struct ibv_wc *wc)
{
	time_t end = time(NULL) + 10;
	int found;
	while (!(found = ibv_poll_cq(cq, 1, wc)) && time(NULL) < end)
		;
	CHECK("a completion within ten seconds", found == 1);
}

static void refused_posts(struct fixture *f, struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge[3] = {{(uintptr_t)buffer, 8, mr->lkey}};
	struct ibv_send_wr *bad;
	struct ibv_send_wr unknown = {.wr_id = 2, .opcode = 99};
	struct ibv_send_wr good = {
		.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 1, .next = &unknown, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;
	CHECK("no list", !ibv_post_send(qp, NULL, &bad));
	CHECK("unknown opcode in second place", ibv_post_send(qp, &good, &bad) == EINVAL && bad == &unknown);
	await(f->cq, &wc);
	CHECK("the first was posted", wc.status == IBV_WC_SUCCESS && wc.wr_id <= 1);
	await(f->cq, &wc);
	good.next = NULL;
	good.num_sge = 3;
	CHECK("too many pieces", ibv_post_send(qp, &good, &bad) == EINVAL && bad == &good);
	good.num_sge = -1;
	CHECK("a negative count", ibv_post_send(qp, &good, &bad) == EINVAL && bad == &good);
	good.num_sge = 1;
	sge[0].length = 4096;
	good.send_flags = IBV_SEND_INLINE;
	CHECK("too much inline data", ibv_post_send(qp, &good, &bad) == EINVAL && bad == &good);
	good.send_flags = 1 << 20;
	CHECK("unknown flags", ibv_post_send(qp, &good, &bad) == EINVAL && bad == &good);
	good.send_flags = 0;
	good.opcode = IBV_WR_TSO;
	CHECK("an opcode for later", ibv_post_send(qp, &good, &bad) == EOPNOTSUPP && bad == &good);
	CHECK("none of those completed", ibv_poll_cq(f->cq, 1, &wc) == 0);
}

int main(void)
{
	struct fixture f;
	open_fixture(&f);
	struct ibv_mr *mr = ibv_reg_mr(f.pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK("a region", mr);
	struct ibv_qp *a = make_qp(&f, IBV_QPT_RC, NULL), *b = make_qp(&f, IBV_QPT_RC, NULL);
	connect_qp(&f, a, b->qp_num);
	connect_qp(&f, b, a->qp_num);

	struct ibv_sge into = {(uintptr_t)buffer + 4096, 4096, mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &into, .num_sge = 1}, *bad_receive;
	CHECK("receives", !ibv_post_recv(b, &receive, &bad_receive) && !ibv_post_recv(b, &receive, &bad_receive));
	refused_posts(&f, a, mr);

	CHECK("O_NONBLOCK", !fcntl(f.channel->fd, F_SETFL, fcntl(f.channel->fd, F_GETFL) | O_NONBLOCK));
	struct ibv_cq *cq;
	void *cq_context;
	REFUSED("no event yet", EAGAIN, ibv_get_cq_event(f.channel, &cq, &cq_context));
	CHECK("armed", !ibv_req_notify_cq(f.cq, 0));
	strcpy(buffer, "one message");
	struct ibv_sge from = {(uintptr_t)buffer, 12, mr->lkey};
	struct ibv_send_wr send = {.wr_id = 7,
				   .opcode = IBV_WR_SEND_WITH_IMM,
				   .sg_list = &from,
				   .num_sge = 1,
				   .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				   .imm_data = 0x01020304},
			   *bad;
	CHECK("send", !ibv_post_send(a, &send, &bad));
	struct pollfd waiting = {.fd = f.channel->fd, .events = POLLIN};
	CHECK("the channel becomes readable", poll(&waiting, 1, 10000) == 1);
	CHECK("the event names the queue", !ibv_get_cq_event(f.channel, &cq, &cq_context) && cq == f.cq && cq_context == &f);
	ibv_ack_cq_events(cq, 1);
	CHECK("the structure counts", f.cq->comp_events_completed == 1);
	struct ibv_wc wc[2];
	await(f.cq, &wc[0]);
	await(f.cq, &wc[1]);
	struct ibv_wc *received = wc[0].opcode & IBV_WC_RECV ? &wc[0] : &wc[1];
	CHECK("received", received->status == IBV_WC_SUCCESS && received->byte_len == 12 && received->qp_num == b->qp_num);
	CHECK("with immediate", received->wc_flags == IBV_WC_WITH_IMM && received->imm_data == 0x01020304);
	CHECK("the bytes arrived", !strcmp(buffer + 4096, "one message"));

	send.opcode = IBV_WR_RDMA_WRITE;
	send.send_flags = IBV_SEND_SIGNALED;
	send.wr.rdma.remote_addr = (uintptr_t)buffer + 4096;
	send.wr.rdma.rkey = mr->lkey;
	CHECK("write with the wrong kind of key", !ibv_post_send(a, &send, &bad));
	await(f.cq, &wc[0]);
	CHECK("is an access error", wc[0].status == IBV_WC_REM_ACCESS_ERR && wc[0].wr_id == 7 && wc[0].qp_num == a->qp_num);

	CHECK("the queue pairs go", !ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	CHECK("the region goes", !ibv_dereg_mr(mr));
	close_fixture(&f);
	return finish();
}
