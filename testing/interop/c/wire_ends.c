/* Connects to a server of the RDMA connection manager and ends: it destroys nothing, and says nothing. With a third argument it stays, and
 * says nothing. */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 4)
		return 2;
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
	if (rdma_getaddrinfo(argv[1], argv[2], &hints, &found)) {
		perror("rdma_getaddrinfo");
		return 1;
	}
	struct ibv_qp_init_attr wanted = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_cm_id *id;
	if (rdma_create_ep(&id, found, NULL, &wanted) || rdma_connect(id, NULL)) {
		perror("connecting");
		return 1;
	}
	printf("connected\n");
	fflush(stdout);
	if (argc == 4)
		pause();
	return 0;
}
