// The library without its engine: every kind of call fails in the way of its type, and nothing crashes.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

static int failures;

#define FAILS(call)                                                                                                 \
	do {                                                                                                        \
		errno = 0;                                                                                          \
		if (!(call) || errno != ENODEV) {                                                                   \
			printf("%s: errno %d\n", #call, errno);                                                     \
			return 1;                                                                                   \
		}                                                                                                   \
		failures++;                                                                                         \
	} while (0)

int main(void)
{
	struct rdma_addrinfo *info = NULL;
	struct rdma_cm_id *id = NULL;

	FAILS(!rdma_create_event_channel());
	FAILS(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == -1);
	FAILS(rdma_getaddrinfo("localhost", "1", NULL, &info) == -1);
	FAILS(!rdma_get_devices(NULL));
	FAILS(rdma_get_src_port(id) == 0);
	FAILS(rsocket(AF_INET, SOCK_STREAM, 0) == -1);
	FAILS(riomap(0, NULL, 1, 0, 0, 0) == -1);
	rdma_destroy_event_channel(NULL);
	if (strcmp(rdma_event_str(0), "UNKNOWN EVENT"))
		return 1;
	printf("%d calls failed\n", failures);
	return 0;
}
