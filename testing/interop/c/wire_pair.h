/* What programs have that try something by addresses between two processes, with verbs alone: a line between them, a queue pair that is
 * connected along it, and their options.
 *
 *     PROGRAM [-d DEVICE] [-g GID_INDEX] [-m MTU] [-p PORT] [-k]             the owner of the memory
 *     PROGRAM [-d DEVICE] [-g GID_INDEX] [-m MTU] [-p PORT] [-k] ADDRESS     its peer
 */
#pragma once

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

enum { PATIENCE = 40 };

#define CHECK(true_thing)                                                                       \
	do {                                                                                    \
		if (!(true_thing)) {                                                            \
			fprintf(stderr, "turn %d, line %d: not so: %s\n", turn, __LINE__, #true_thing); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

static int line;
/* The owner's device is the kernel's software RoCE. */
static bool kernel;
static int turn;
static int gid_index = 1;
static enum ibv_mtu path_mtu = IBV_MTU_1024;

struct hello {
	union ibv_gid gid;
	uint32_t number, first;
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

/* Connects a queue pair, through which the peer has these rights. */
static void connect_pair(struct ibv_qp *pair, unsigned rights)
{
	struct hello own = {.number = pair->qp_num, .first = (uint32_t)rand() & 0xffffff}, other;
	CHECK(ibv_query_gid(pair->context, 1, gid_index, &own.gid) == 0);
	struct ibv_qp_attr to = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = rights,
	};
	CHECK(ibv_modify_qp(pair, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	tell(&own, sizeof(own));
	hear(&other, sizeof(other));
	to = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = path_mtu, .dest_qp_num = other.number, .rq_psn = other.first,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = other.gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64}},
	};
	CHECK(ibv_modify_qp(pair, &to, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	to = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = own.first, .max_rd_atomic = 1,
	};
	CHECK(ibv_modify_qp(pair, &to, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC) == 0);
	meet();
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

/* The device that the options name, open, and the line to the other process; whether this is the owner. */
static bool begin(int argc, char **argv, struct ibv_context **context)
{
	const char *device = NULL, *port = "18515";
	int option, count;
	while ((option = getopt(argc, argv, "d:g:km:p:")) != -1) {
		switch (option) {
		case 'd': device = optarg; break;
		case 'g': gid_index = atoi(optarg); break;
		case 'k': kernel = true; break;
		case 'm': path_mtu = atoi(optarg) == 4096 ? IBV_MTU_4096 : IBV_MTU_1024; break;
		case 'p': port = optarg; break;
		default: exit(2);
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
	*context = ibv_open_device(*devices);
	CHECK(*context);
	return !address;
}
