// A process that loads both libraries has one engine: what one of them opens the other goes on with.

#include <stdio.h>

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

int main(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ibv_device_attr attr;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) || rdma_bind_addr(id, (struct sockaddr *)&address))
		return 1;
	if (ibv_query_device(id->verbs, &attr) || !(pd = ibv_alloc_pd(id->verbs)) || ibv_dealloc_pd(pd))
		return 2;
	if (ibv_reg_mr(id->pd, &attr, sizeof(attr), IBV_ACCESS_LOCAL_WRITE) == NULL)
		return 3;
	if (rdma_destroy_id(id))
		return 4;
	printf("one engine\n");
	return 0;
}
