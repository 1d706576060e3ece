/* Memory windows between two processes, by addresses: one binds them, the other writes and reads through them, and looks what is refused when
 * they are invalidated (by the peer's message, by their owner) or do not allow it. Verbs alone, so that either side may be another device.
 *
 * -k: the owner's device is the kernel's software RoCE. It hands programs the kernel's own flag of an invalidation, whose bit is
 * IBV_WC_IP_CSUM_OK in verbs; it looks at a region's end, not at a window's; and a refusal for want of a right leaves a queue pair whose
 * destruction hangs. So only invalidation is tried there.
 */
#include "wire_pair.h"

enum { REGION = 32768, AT = 8192, LENGTH = 10001, GUARD = 0x5a };

enum { PEER_INVALIDATES, OWNER_INVALIDATES, BEYOND_THE_END, WITHOUT_THE_RIGHT, ROUNDS };
static const char *const said[ROUNDS] = {
	"invalidated by the peer's send",
	"invalidated by its owner",
	"a byte beyond its end",
	"no right to write",
};

static uint8_t memory[REGION], copy[REGION];

struct window {
	uint64_t address;
	uint32_t key;
};

/* What becomes of a request. */
static enum ibv_wc_status ends(struct ibv_qp *pair, struct ibv_send_wr request)
{
	struct ibv_send_wr *bad;
	request.send_flags |= IBV_SEND_SIGNALED;
	CHECK(ibv_post_send(pair, &request, &bad) == 0);
	return completion(pair->send_cq).status;
}

static enum ibv_wc_status one_sided(struct ibv_qp *pair, struct ibv_mr *region, enum ibv_wr_opcode what, struct window to,
				    uint32_t length)
{
	struct ibv_sge place = {.addr = (uintptr_t)region->addr, .length = length, .lkey = region->lkey};
	struct ibv_send_wr request = {.sg_list = &place, .num_sge = 1, .opcode = what};
	request.wr.rdma.remote_addr = to.address;
	request.wr.rdma.rkey = to.key;
	return ends(pair, request);
}

static uint8_t nth(unsigned place, unsigned seed)
{
	return (uint8_t)(place * 7 + seed * 31 + 1);
}

/* A connected queue pair. */
static struct ibv_qp *connected(struct ibv_pd *domain, struct ibv_cq *queue)
{
	struct ibv_qp_init_attr wanted = {
		.send_cq = queue, .recv_cq = queue, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *pair = ibv_create_qp(domain, &wanted);
	CHECK(pair);
	connect_pair(pair, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	return pair;
}

/* The memory is as it was written, and not a byte beside it was. */
static void look(void)
{
	for (unsigned place = 0; place < REGION; place++) {
		int within = place >= AT && place < AT + LENGTH && turn != WITHOUT_THE_RIGHT;
		CHECK(memory[place] == (within ? nth(place - AT, (unsigned)turn) : GUARD));
	}
}

static void own(struct ibv_qp *pair, struct ibv_mr *region)
{
	unsigned rights = IBV_ACCESS_REMOTE_READ | (turn == WITHOUT_THE_RIGHT ? 0 : IBV_ACCESS_REMOTE_WRITE);
	struct ibv_mw *window = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2);
	CHECK(window);
	memset(memory, GUARD, sizeof(memory));
	struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW};
	bind.bind_mw.mw = window;
	bind.bind_mw.rkey = ibv_inc_rkey(window->rkey);
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = region, .addr = (uintptr_t)memory + AT, .length = LENGTH, .mw_access_flags = rights,
	};
	CHECK(ends(pair, bind) == IBV_WC_SUCCESS);
	struct window given = {.address = (uintptr_t)memory + AT, .key = bind.bind_mw.rkey};
	struct ibv_recv_wr receive = {.wr_id = 7}, *bad;
	CHECK(ibv_post_recv(pair, &receive, &bad) == 0);
	tell(&given, sizeof(given));
	if (turn == PEER_INVALIDATES) {
		struct ibv_wc found = completion(pair->recv_cq);
		CHECK(found.status == IBV_WC_SUCCESS);
		CHECK(found.wr_id == 7);
		CHECK((found.wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK)) == (kernel ? IBV_WC_IP_CSUM_OK : IBV_WC_WITH_INV));
		CHECK(found.invalidated_rkey == given.key);
	}
	meet(); /* It has written. */
	look();
	if (turn == OWNER_INVALIDATES) {
		struct ibv_send_wr end = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = given.key};
		CHECK(ends(pair, end) == IBV_WC_SUCCESS);
	}
	meet(); /* It may try what is refused. */
	meet(); /* It has been. */
	look();
	CHECK(ibv_destroy_qp(pair) == 0);
	CHECK(ibv_dealloc_mw(window) == 0);
}

static void use(struct ibv_qp *pair, struct ibv_mr *region)
{
	struct window given;
	uint32_t refused = 1000;
	hear(&given, sizeof(given));
	if (turn != WITHOUT_THE_RIGHT) {
		for (unsigned place = 0; place < LENGTH; place++)
			memory[place] = nth(place, (unsigned)turn);
		memcpy(copy, memory, LENGTH);
		CHECK(one_sided(pair, region, IBV_WR_RDMA_WRITE, given, LENGTH) == IBV_WC_SUCCESS);
	} else {
		memset(copy, GUARD, LENGTH);
	}
	memset(memory, 0, sizeof(memory));
	CHECK(one_sided(pair, region, IBV_WR_RDMA_READ, given, LENGTH) == IBV_WC_SUCCESS);
	CHECK(memcmp(memory, copy, LENGTH) == 0);
	if (turn == PEER_INVALIDATES) {
		struct ibv_send_wr end = {.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = given.key};
		CHECK(ends(pair, end) == IBV_WC_SUCCESS);
	}
	meet();
	meet();
	memset(memory, 0xee, sizeof(memory));
	if (turn == BEYOND_THE_END)
		given.address += LENGTH - refused + 1;
	CHECK(one_sided(pair, region, IBV_WR_RDMA_WRITE, given, refused) == IBV_WC_REM_ACCESS_ERR);
	meet();
	CHECK(ibv_destroy_qp(pair) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_context *context;
	bool owner = begin(argc, argv, &context);
	struct ibv_pd *domain = ibv_alloc_pd(context);
	struct ibv_cq *queue = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(domain && queue);
	struct ibv_mr *region = ibv_reg_mr(domain, memory, REGION, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CHECK(region);
	for (turn = 0; turn < ROUNDS; turn++) {
		if (kernel && turn > OWNER_INVALIDATES)
			break;
		struct ibv_qp *pair = connected(domain, queue);
		if (owner)
			own(pair, region);
		else
			use(pair, region);
		struct ibv_wc rest;
		while (ibv_poll_cq(queue, 1, &rest) > 0) /* Receives that were flushed. */
			;
		printf("%s: so it is\n", said[turn]);
	}
	return 0;
}
