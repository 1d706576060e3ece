/* Memory windows between two processes, by addresses: one binds them, the other writes and reads through them, and looks what is refused when
 * they are invalidated (by the peer's message, by their owner) or do not allow it. Verbs alone, so that either side may be another device.
 *
 *     wire_windows [-d DEVICE] [-g GID_INDEX] [-m MTU] [-p PORT] [-k]             the owner
 *     wire_windows [-d DEVICE] [-g GID_INDEX] [-m MTU] [-p PORT] [-k] ADDRESS     the peer
 *
 * -k: the owner's device is the kernel's software RoCE. It hands programs the kernel's own flag of an invalidation, whose bit is
 * IBV_WC_IP_CSUM_OK in verbs; it looks at a region's end, not at a window's; and a refusal for want of a right leaves a queue pair whose
 * destruction hangs. So only invalidation is tried there.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REGION = 32768, AT = 8192, LENGTH = 10001, GUARD = 0x5a, PATIENCE = 40 };

enum { PEER_INVALIDATES, OWNER_INVALIDATES, BEYOND_THE_END, WITHOUT_THE_RIGHT, ROUNDS };
static const char *const said[ROUNDS] = {
	"invalidated by the peer's send",
	"invalidated by its owner",
	"a byte beyond its end",
	"no right to write",
};

#define CHECK(true_thing)                                                                       \
	do {                                                                                    \
		if (!(true_thing)) {                                                            \
			fprintf(stderr, "turn %d, line %d: not so: %s\n", turn, __LINE__, #true_thing); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

static int line;
static bool kernel;
static int turn;
static uint8_t memory[REGION], copy[REGION];

struct hello {
	union ibv_gid gid;
	uint32_t number, first;
};

struct window {
	uint64_t address;
	uint32_t key;
};

static void tell(const void *what, size_t length)
{
	CHECK(send(line, what, length, MSG_NOSIGNAL) == (ssize_t)length);
}

static void hear(void *what, size_t length)
{
	CHECK(recv(line, what, length, MSG_WAITALL) == (ssize_t)length);
}

/* Neither goes on before the other is here. */
static void meet(void)
{
	char word = 'm';
	tell(&word, 1);
	hear(&word, 1);
}

static struct ibv_wc completion(struct ibv_cq *queue)
{
	struct ibv_wc found = {.status = IBV_WC_GENERAL_ERR};
	int count = 0;
	for (time_t end = time(NULL) + PATIENCE; count == 0 && time(NULL) < end;)
		count = ibv_poll_cq(queue, 1, &found);
	CHECK(count == 1);
	return found;
}

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
static struct ibv_qp *connected(struct ibv_pd *domain, struct ibv_cq *queue, int index, enum ibv_mtu mtu)
{
	struct ibv_qp_init_attr wanted = {
		.send_cq = queue, .recv_cq = queue, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *pair = ibv_create_qp(domain, &wanted);
	CHECK(pair);
	struct hello own = {.number = pair->qp_num, .first = (uint32_t)rand() & 0xffffff}, other;
	CHECK(ibv_query_gid(domain->context, 1, index, &own.gid) == 0);
	struct ibv_qp_attr to = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	CHECK(ibv_modify_qp(pair, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	tell(&own, sizeof(own));
	hear(&other, sizeof(other));
	to = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = other.number, .rq_psn = other.first,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = other.gid, .sgid_index = (uint8_t)index, .hop_limit = 64}},
	};
	CHECK(ibv_modify_qp(pair, &to, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	to = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = own.first, .max_rd_atomic = 1,
	};
	CHECK(ibv_modify_qp(pair, &to, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC) == 0);
	meet();
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

static int joined(const char *address, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET}, *found;
	int yes = 1, listening;
	if (!address)
		hints.ai_flags = AI_PASSIVE;
	CHECK(getaddrinfo(address, port, &hints, &found) == 0);
	int made = socket(found->ai_family, SOCK_STREAM, 0);
	CHECK(made >= 0);
	if (address)
		return connect(made, found->ai_addr, found->ai_addrlen) ? -1 : made;
	CHECK(setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0);
	CHECK(bind(made, found->ai_addr, found->ai_addrlen) == 0 && listen(made, 1) == 0);
	listening = made;
	made = accept(listening, NULL, NULL);
	close(listening);
	return made;
}

int main(int argc, char **argv)
{
	const char *device = NULL, *port = "18515";
	int index = 1, mtu = 1024, option, count;
	while ((option = getopt(argc, argv, "d:g:km:p:")) != -1) {
		switch (option) {
		case 'd': device = optarg; break;
		case 'g': index = atoi(optarg); break;
		case 'k': kernel = true; break;
		case 'm': mtu = atoi(optarg); break;
		case 'p': port = optarg; break;
		default: return 2;
		}
	}
	const char *address = argv[optind];
	struct ibv_device **devices = ibv_get_device_list(&count);
	CHECK(devices && count > 0);
	while (device && *devices && strcmp(ibv_get_device_name(*devices), device))
		devices++;
	CHECK(*devices);
	line = joined(address, port);
	CHECK(line >= 0);
	srand((unsigned)getpid());
	struct ibv_context *context = ibv_open_device(*devices);
	CHECK(context);
	struct ibv_pd *domain = ibv_alloc_pd(context);
	struct ibv_cq *queue = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(domain && queue);
	struct ibv_mr *region = ibv_reg_mr(domain, memory, REGION, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CHECK(region);
	for (turn = 0; turn < ROUNDS; turn++) {
		if (kernel && turn > OWNER_INVALIDATES)
			break;
		struct ibv_qp *pair = connected(domain, queue, index, mtu == 4096 ? IBV_MTU_4096 : IBV_MTU_1024);
		if (address)
			use(pair, region);
		else
			own(pair, region);
		struct ibv_wc rest;
		while (ibv_poll_cq(queue, 1, &rest) > 0) /* Receives that were flushed. */
			;
		printf("%s: so it is\n", said[turn]);
	}
	return 0;
}
