/* What the border judges: numbers that are no endpoints, flags without a meaning, pointers that lead nowhere. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <scif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int checks;

#define CHECK(what)                                                                    \
	do {                                                                           \
		if (!(what)) {                                                         \
			printf("line %d: %s (errno %d)\n", __LINE__, #what, errno);    \
			exit(1);                                                       \
		}                                                                      \
		checks++;                                                              \
	} while (0)
#define FAILS(call, number)                                                            \
	do {                                                                           \
		errno = 0;                                                             \
		long result = (long)(call);                                            \
		if (result != -1 || errno != (number)) {                               \
			printf("line %d: %s: %ld, errno %d\n", __LINE__, #call, result, errno); \
			exit(1);                                                       \
		}                                                                      \
		checks++;                                                              \
	} while (0)

static char *const nowhere = (char *)16;
static char page[4096] __attribute__((aligned(4096)));

/* Every call with an endpoint, with words that are wrong as well: the number comes first. */
static void no_endpoint(int number)
{
	scif_epd_t fresh = 77;
	struct scif_portID peer = { 7, 7 };
	int mark = 7;
	FAILS(scif_bind(number, 2050), EINVAL);
	FAILS(scif_listen(number, 0), EINVAL);
	FAILS(scif_connect(number, NULL), EINVAL);
	FAILS(scif_accept(number, &peer, &fresh, 2), EINVAL);
	FAILS(scif_accept(number, NULL, NULL, 0), EINVAL);
	FAILS(scif_send(number, page, 1, 2), EINVAL);
	FAILS(scif_send(number, page, -1, 0), EINVAL);
	FAILS(scif_send(number, nowhere, 1, 0), EINVAL);
	FAILS(scif_connect(number, (void *)nowhere), EINVAL);
	FAILS(scif_recv(number, page, 1, 2), EINVAL);
	FAILS(scif_register(number, page, 4096, 0, 8, 0), EINVAL);
	FAILS(scif_register(number, page, 4096, 0, 3, 1), EINVAL);
	FAILS(scif_unregister(number, 0, 0), EINVAL);
	FAILS(scif_mmap(NULL, 4096, 8, 0, number, 0), EINVAL);
	FAILS(scif_readfrom(number, 0, 0, 0, 0x10), EINVAL);
	FAILS(scif_writeto(number, 0, 0, 0, 0x10), EINVAL);
	FAILS(scif_vreadfrom(number, page, 0, 0, 0x10), EINVAL);
	FAILS(scif_vwriteto(number, page, 0, 0, 0x10), EINVAL);
	FAILS(scif_fence_mark(number, 3, &mark), EINVAL);
	FAILS(scif_fence_wait(number, 0), EINVAL);
	FAILS(scif_fence_signal(number, 0, 0, 0, 0, 0), EINVAL);
	FAILS(scif_close(number), EINVAL);
	CHECK(fresh == 77 && peer.node == 7 && peer.port == 7 && mark == 7);
}

static void *connect_to(void *argument)
{
	scif_epd_t epd = scif_open();
	CHECK(scif_connect(epd, argument) > 0);
	return (void *)(long)epd;
}

int main(void)
{
	uint16_t own = 9, nodes[4] = { 9, 9, 9, 9 };
	int file = open("/dev/null", O_RDWR);
	no_endpoint(-1);
	no_endpoint(9999);
	no_endpoint(file);
	CHECK(fcntl(file, F_GETFD) == 0);
	char *constant = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* Nodes. */
	FAILS(scif_get_nodeIDs(nodes, -1, &own), EINVAL);
	FAILS(scif_get_nodeIDs((void *)nowhere, 4, &own), EFAULT);
	FAILS(scif_get_nodeIDs((void *)constant, 4, &own), EFAULT);
	FAILS(scif_get_nodeIDs(nodes, 4, NULL), EFAULT);
	CHECK(own == 9 && nodes[0] == 9);
	CHECK(scif_get_nodeIDs(NULL, 0, &own) == 2 && own == 0);
	CHECK(scif_get_nodeIDs(nodes, 1, &own) == 2 && nodes[0] == 0 && nodes[1] == 9);
	CHECK(scif_get_nodeIDs(nodes, 4, &own) == 2 && nodes[1] == 1 && nodes[2] == 9);

	/* A listener, on which a request will wait. */
	scif_epd_t listener = scif_open(), fresh = 77;
	struct scif_portID target = { 0, 0 }, peer = { 7, 7 };
	int port = scif_bind(listener, 0);
	CHECK(port > 0 && scif_listen(listener, 4) == 0);
	target.port = (uint16_t)port;
	FAILS(scif_accept(listener, &peer, &fresh, 2), EINVAL);
	FAILS(scif_accept(listener, &peer, &fresh, -1), EINVAL);
	FAILS(scif_accept(listener, NULL, &fresh, 0), EINVAL);
	FAILS(scif_accept(listener, &peer, NULL, 0), EINVAL);
	FAILS(scif_accept(listener, &peer, &fresh, 0), EAGAIN);
	FAILS(scif_send(listener, page, 1, 0), ENOTCONN);

	scif_epd_t idle = scif_open();
	FAILS(scif_connect(idle, NULL), EINVAL);
	FAILS(scif_connect(idle, (void *)nowhere), EFAULT);
	FAILS(scif_accept(idle, &peer, &fresh, 0), EINVAL);
	CHECK(scif_send(idle, nowhere, 0, 2) == 0);
	CHECK(scif_recv(idle, nowhere, 0, 2) == 0);

	/* A bad pointer takes no request. */
	pthread_t thread;
	void *connected;
	CHECK(pthread_create(&thread, NULL, connect_to, &target) == 0);
	struct scif_pollepd entry = { listener, SCIF_POLLIN, 0 };
	CHECK(scif_poll(&entry, 1, -1) == 1 && entry.revents == SCIF_POLLIN);
	FAILS(scif_accept(listener, (void *)nowhere, &fresh, SCIF_ACCEPT_SYNC), EFAULT);
	FAILS(scif_accept(listener, &peer, (void *)nowhere, SCIF_ACCEPT_SYNC), EFAULT);
	FAILS(scif_accept(listener, (void *)constant, &fresh, SCIF_ACCEPT_SYNC), EFAULT);
	CHECK(scif_poll(&entry, 1, 0) == 1);
	CHECK(fresh == 77 && peer.node == 7);
	CHECK(scif_accept(listener, &peer, &fresh, SCIF_ACCEPT_SYNC) == 0);
	CHECK(pthread_join(thread, &connected) == 0);
	CHECK(peer.node == 0 && peer.port > 0 && fcntl(fresh, F_GETFD) == 0);
	scif_epd_t other = (int)(long)connected;

	/* Flags of a connection. */
	FAILS(scif_send(fresh, page, 1, 2), EINVAL);
	FAILS(scif_send(fresh, page, -1, 0), EINVAL);
	FAILS(scif_recv(fresh, page, -1, 1), EINVAL);
	FAILS(scif_recv(fresh, page, 1, 0x100), EINVAL);
	CHECK(scif_recv(fresh, page, 1, 0) == 0);
	CHECK(scif_send(fresh, page, 2, 0x101) == 2 && scif_recv(other, page, 2, 0x101) == 2);
	FAILS(scif_send(fresh, nowhere, 1, 1), EFAULT);
	CHECK(scif_send(fresh, page, 1, 1) == 1);
	FAILS(scif_recv(other, nowhere, 1, 1), EFAULT);
	FAILS(scif_recv(other, constant, 1, 1), EFAULT);
	CHECK(scif_recv(other, page, 4, 0) == 1);

	/* Flags of windows, copies and fences. */
	int bits[] = { 1, 2, 4, 8, 0x20, 0x40, 0x100, 1 << 30, -1 };
	off_t offset = scif_register(fresh, page, 4096, 0, SCIF_PROT_READ | SCIF_PROT_WRITE, 0);
	CHECK(offset == (off_t)1 << 62);
	for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
		FAILS(scif_register(fresh, page, 4096, 0, 3, bits[i]), EINVAL);
	FAILS(scif_register(fresh, page, 4096, 0, 4, 0), EINVAL);
	FAILS(scif_register(fresh, page, 4096, 0, 7, 0), EINVAL);
	FAILS(scif_mmap(NULL, 4096, 4, 0, other, offset), EINVAL);
	FAILS(scif_mmap(NULL, 4096, 3, SCIF_MAP_KERNEL, other, offset), EINVAL);
	FAILS(scif_vreadfrom(other, page, 8, offset, 0x10), EINVAL);
	FAILS(scif_vreadfrom(other, page, 8, offset, SCIF_RMA_SYNC | 0x10), EINVAL);
	int mark = 7;
	FAILS(scif_fence_mark(other, 0, &mark), EINVAL);
	FAILS(scif_fence_mark(other, 3, &mark), EINVAL);
	FAILS(scif_fence_mark(other, SCIF_FENCE_RAS_SELF, &mark), EINVAL);
	FAILS(scif_fence_mark(other, SCIF_FENCE_INIT_SELF, NULL), EFAULT);
	FAILS(scif_fence_mark(other, SCIF_FENCE_INIT_PEER, (void *)constant), EFAULT);
	CHECK(mark == 7);
	FAILS(scif_fence_signal(other, 0, 0, offset, 1, SCIF_FENCE_INIT_SELF), EINVAL);
	FAILS(scif_fence_signal(other, 0, 0, offset, 1, SCIF_SIGNAL_REMOTE), EINVAL);
	FAILS(scif_fence_signal(other, 0, 0, offset, 1, 3 | SCIF_SIGNAL_REMOTE), EINVAL);
	FAILS(scif_fence_signal(other, 0, 0, offset, 1, 5 | SCIF_SIGNAL_REMOTE), EINVAL);
	for (int i = 0; i < 4096; i++)
		CHECK(page[i] == 0);

	/* Poll. */
	FAILS(scif_poll((void *)nowhere, 1, 0), EFAULT);
	FAILS(scif_poll(NULL, 1u << 30, 0), EINVAL);
	CHECK(scif_poll(NULL, 0, 1) == 0);
	CHECK(scif_get_fd(12345) == 12345);

	CHECK(scif_close(other) == 0 && scif_close(fresh) == 0 && scif_close(listener) == 0 && scif_close(idle) == 0);
	FAILS(scif_close(fresh), EINVAL);
	printf("%d checks\n", checks);
	return 0;
}
