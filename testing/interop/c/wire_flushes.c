/* FLUSH (annex A19) between two processes, by addresses: the peer writes and flushes, and tells the owner by another way that it has; what was
 * written is there then. What the owner does not give is refused. Verbs alone, so that either side may be another device, whose library
 * has to know the operation.
 *
 * -k: the owner's device is the kernel's software RoCE, on which a refusal leaves a queue pair whose destruction hangs: none is tried.
 */
#include "flush.h"
#include "wire_pair.h"

enum { REGION = 262144, LENGTH = 100001, GUARD = 0x5a, PIECES = 5 };

enum { FLUSH_RANGE, FLUSH_REGION, FLUSH_OFTEN, NOT_GIVEN, ROUNDS };
static const char *const said[ROUNDS] = {
	"a range is flushed",
	"a region is flushed",
	"flushes between writes",
	"no right to flush",
};

static uint8_t memory[REGION];

struct given {
	uint64_t address;
	uint32_t key;
};

static uint8_t nth(unsigned place)
{
	return (uint8_t)(place * 7 + (unsigned)turn * 31 + 1);
}

static void own(struct ibv_mr *region)
{
	struct given given = {.address = (uintptr_t)memory, .key = region->rkey};
	tell(&given, sizeof(given));
	for (int piece = 0; piece < (turn == FLUSH_OFTEN ? PIECES : 1); piece++) {
		meet(); /* It has flushed. */
		unsigned from = (unsigned)piece * LENGTH / PIECES, to = turn == FLUSH_OFTEN ? from + LENGTH / PIECES : LENGTH;
		for (unsigned place = from; place < to; place++)
			CHECK(memory[place] == (turn == NOT_GIVEN ? GUARD : nth(place)));
		meet();
	}
	for (unsigned place = LENGTH; place < REGION; place++)
		CHECK(memory[place] == GUARD);
}

/* A write, if it is of any length, and a flush behind it; what the flush ends with. */
static enum ibv_wc_status flushed(struct ibv_qp *pair, struct ibv_mr *region, struct given to, unsigned from, unsigned length, uint8_t level)
{
	struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(pair);
	ibv_wr_start(extended);
	if (length) {
		extended->wr_id = 1;
		extended->wr_flags = 0;
		ibv_wr_rdma_write(extended, to.key, to.address + from);
		ibv_wr_set_sge(extended, region->lkey, (uintptr_t)memory + from, length);
	}
	extended->wr_id = 2;
	extended->wr_flags = IBV_SEND_SIGNALED;
	wr_flush(extended, to.key, level == OF_REGION ? 0 : to.address + from, level == OF_REGION ? 0 : length, TO_GLOBAL, level);
	CHECK(ibv_wr_complete(extended) == 0);
	struct ibv_wc found = completion(pair->send_cq);
	CHECK(found.wr_id == 2);
	CHECK(found.status != IBV_WC_SUCCESS || (int)found.opcode == FLUSH_COMPLETION);
	return found.status;
}

static void use(struct ibv_qp *pair, struct ibv_mr *region)
{
	struct given to;
	hear(&to, sizeof(to));
	for (unsigned place = 0; place < LENGTH; place++)
		memory[place] = nth(place);
	int count = turn == FLUSH_OFTEN ? PIECES : 1;
	for (int piece = 0; piece < count; piece++) {
		unsigned length = turn == NOT_GIVEN ? 0 : turn == FLUSH_OFTEN ? LENGTH / PIECES : LENGTH;
		enum ibv_wc_status ended = flushed(pair, region, to, (unsigned)piece * LENGTH / PIECES, length, turn == FLUSH_REGION ? OF_REGION : OF_RANGE);
		CHECK(ended == (turn == NOT_GIVEN ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS));
		meet();
		meet();
	}
}

int main(int argc, char **argv)
{
	struct ibv_context *context;
	bool owner = begin(argc, argv, &context);
	struct ibv_pd *domain = ibv_alloc_pd(context);
	struct ibv_cq *queue = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(domain && queue);
	const unsigned rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	for (turn = 0; turn < (kernel ? NOT_GIVEN : ROUNDS); turn++) {
		struct ibv_mr *region = ibv_reg_mr(domain, memory, REGION, rights | (turn == NOT_GIVEN ? 0 : FLUSH_GLOBAL));
		struct ibv_qp_init_attr_ex wanted = {
			.send_cq = queue, .recv_cq = queue, .qp_type = IBV_QPT_RC, .pd = domain,
			.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | FLUSH_OPERATION,
		};
		struct ibv_qp *pair = ibv_create_qp_ex(context, &wanted);
		CHECK(region && pair);
		memset(memory, GUARD, sizeof(memory));
		connect_pair(pair, rights | FLUSH_GLOBAL);
		if (owner)
			own(region);
		else
			use(pair, region);
		CHECK(ibv_destroy_qp(pair) == 0 && ibv_dereg_mr(region) == 0);
		printf("%s: so it is\n", said[turn]);
	}
	return 0;
}
