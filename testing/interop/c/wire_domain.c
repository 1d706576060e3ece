/* An XRC domain that two processes of a host have open, and a peer: requests come to a queue pair of one of the two and name the shared
 * receive queue of the other, in whose memory the bytes are in the end. Then that one is killed. */
#include "wire_pair.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { REGION = 262144, LENGTH = 100001, FAR = 131072 };

enum { SENDS, ONE_SIDED, NOT_ALLOWED, KILLED, ROUNDS };
static const char *const said[ROUNDS] = {
	"messages reach a queue of another process",
	"memory behind it is written, read and changed",
	"what it does not allow is refused",
	"a process that is killed is gone",
};

static uint8_t memory[REGION] __attribute__((aligned(8)));

/* What the peer is told of the queue. */
struct given {
	uint64_t address;
	uint32_t key, number;
	/* Memory of the other process. */
	uint64_t wrong_address;
	uint32_t wrong_key;
};

static uint8_t nth(unsigned place)
{
	return (uint8_t)(place * 7 + (unsigned)turn * 31 + 1);
}

static struct ibv_xrcd *domain_of(struct ibv_context *context, int file)
{
	struct ibv_xrcd_init_attr wanted = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = file, .oflags = O_CREAT};
	struct ibv_xrcd *domain = ibv_open_xrcd(context, &wanted);
	CHECK(domain);
	return domain;
}

/* The process that has the queue. It says what it was told to look at. */
static int keep(int file)
{
	char word;
	if (recv(line, &word, 1, 0) != 1)
		return 0; /* This is the peer's side. */
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(devices[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *completions = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_mr *region = ibv_reg_mr(pd, memory, REGION,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(pd && completions && region);
	struct ibv_srq_init_attr_ex wanted = {
		.attr = {.max_wr = 8, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = domain_of(context, file), .cq = completions,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ};
	struct ibv_srq *queue = ibv_create_srq_ex(context, &wanted);
	struct given given = {.address = (uintptr_t)memory, .key = region->rkey};
	CHECK(queue && ibv_get_srq_num(queue, &given.number) == 0);
	tell(&given, sizeof(given));
	struct ibv_sge piece = {.addr = (uintptr_t)memory, .length = LENGTH, .lkey = region->lkey};
	for (turn = 0; turn < ROUNDS; turn++) {
		memset(memory, 0, sizeof(memory));
		struct ibv_recv_wr receive = {.wr_id = (uint64_t)turn, .sg_list = &piece, .num_sge = 1}, *bad;
		if (turn == SENDS)
			CHECK(ibv_post_srq_recv(queue, &receive, &bad) == 0);
		meet(); /* It can begin. */
		if (turn == SENDS) {
			struct ibv_wc found = completion(completions);
			CHECK(found.status == IBV_WC_SUCCESS && found.byte_len == LENGTH && found.wr_id == SENDS);
		}
		meet(); /* It has ended. */
		for (unsigned place = 0; place < LENGTH; place++) {
			uint8_t there = turn == NOT_ALLOWED ? 0 : turn == ONE_SIDED && place < 8 ? (place == 0 ? 5 : 0) : nth(place);
			CHECK(memory[place] == there);
		}
		meet(); /* All of it is right. */
	}
	return 0;
}

static enum ibv_wc_status ended(struct ibv_qp *pair, struct ibv_mr *region, struct given to, enum ibv_wr_opcode opcode, uint8_t *at,
				uint32_t length)
{
	struct ibv_sge piece = {.addr = (uintptr_t)at, .length = length, .lkey = region->lkey};
	struct ibv_send_wr request = {.sg_list = &piece, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
				      .qp_type.xrc.remote_srqn = to.number}, *bad;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		request.wr.atomic.remote_addr = to.address;
		request.wr.atomic.rkey = to.key;
		request.wr.atomic.compare_add = 5;
	} else {
		request.wr.rdma.remote_addr = to.address;
		request.wr.rdma.rkey = to.key;
	}
	CHECK(ibv_post_send(pair, &request, &bad) == 0);
	return completion(pair->send_cq).status;
}

/* The peer. */
static void use(struct ibv_qp *pair, struct ibv_mr *region)
{
	struct given to;
	hear(&to, sizeof(to));
	for (unsigned place = 0; place < LENGTH; place++)
		memory[place] = nth(place);
	switch (turn) {
	case SENDS:
		CHECK(ended(pair, region, to, IBV_WR_SEND, memory, LENGTH) == IBV_WC_SUCCESS);
		break;
	case ONE_SIDED:
		CHECK(ended(pair, region, to, IBV_WR_RDMA_WRITE, memory, LENGTH) == IBV_WC_SUCCESS);
		CHECK(ended(pair, region, to, IBV_WR_RDMA_READ, memory + FAR, LENGTH) == IBV_WC_SUCCESS);
		CHECK(memcmp(memory, memory + FAR, LENGTH) == 0);
		memset(memory, 0, 8);
		CHECK(ended(pair, region, to, IBV_WR_RDMA_WRITE, memory, 8) == IBV_WC_SUCCESS);
		CHECK(ended(pair, region, to, IBV_WR_ATOMIC_FETCH_AND_ADD, memory + FAR, 8) == IBV_WC_SUCCESS);
		CHECK(memcmp(memory, memory + FAR, 8) == 0);
		break;
	case NOT_ALLOWED:
		to.address = to.wrong_address;
		to.key = to.wrong_key;
		CHECK(ended(pair, region, to, IBV_WR_RDMA_WRITE, memory, LENGTH) == IBV_WC_REM_ACCESS_ERR);
		break;
	case KILLED:
		CHECK(ended(pair, region, to, IBV_WR_RDMA_WRITE, memory, LENGTH) == IBV_WC_REM_ACCESS_ERR);
		break;
	}
	meet();
}

static void meet_keeper(int keeper)
{
	int peer = line;
	line = keeper;
	meet();
	line = peer;
}

int main(int argc, char **argv)
{
	char name[] = "/tmp/nonic-domain-XXXXXX";
	int file = mkstemp(name), ends[2];
	CHECK(file >= 0 && unlink(name) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	pid_t keeping = fork();
	CHECK(keeping >= 0);
	line = ends[keeping == 0];
	close(ends[keeping != 0]);
	if (keeping == 0)
		return keep(file);
	int keeper = line;
	struct ibv_context *context;
	struct given given = {0};
	bool owner = begin(argc, argv, &context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *queue = ibv_create_cq(context, 16, NULL, NULL, 0);
	const unsigned rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_mr *region = ibv_reg_mr(pd, memory, REGION, (int)rights);
	CHECK(pd && queue && region);
	struct ibv_xrcd *domain = domain_of(context, file);
	if (owner) {
		char word = 'k';
		CHECK(send(keeper, &word, 1, MSG_NOSIGNAL) == 1);
		CHECK(recv(keeper, &given, sizeof(given), MSG_WAITALL) == sizeof(given));
		given.wrong_address = (uintptr_t)memory;
		given.wrong_key = region->rkey;
	} else {
		close(keeper);
	}
	for (turn = 0; turn < ROUNDS; turn++) {
		struct ibv_qp_init_attr_ex wanted = {.qp_type = owner ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND, .send_cq = queue, .pd = pd,
						     .xrcd = domain, .cap = {.max_send_wr = 4, .max_send_sge = 1},
						     .comp_mask = owner ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD};
		struct ibv_qp *pair = ibv_create_qp_ex(context, &wanted);
		CHECK(pair);
		connect_pair(pair, rights);
		if (!owner) {
			use(pair, region);
		} else {
			meet_keeper(keeper);
			if (turn == KILLED)
				CHECK(kill(keeping, SIGKILL) == 0 && waitpid(keeping, NULL, 0) == keeping);
			tell(&given, sizeof(given));
			meet();
			for (unsigned place = 0; place < LENGTH; place++)
				CHECK(memory[place] == 0);
			if (turn != KILLED) {
				meet_keeper(keeper);
				meet_keeper(keeper);
			}
		}
		CHECK(ibv_destroy_qp(pair) == 0);
		printf("%s: so it is\n", said[turn]);
	}
	CHECK(ibv_close_xrcd(domain) == 0);
	return 0;
}
