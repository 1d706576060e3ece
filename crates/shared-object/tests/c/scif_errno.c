/* Tutorials set errno to 0, work, and exit with it: a call that succeeds must leave it alone. */
#define _GNU_SOURCE
#include <pthread.h>
#include <scif.h>
#include <stdio.h>
#include <stdlib.h>

#define MARK 4711

static int calls;

#define SUCCEEDS(what)                                                                 \
	do {                                                                           \
		errno = MARK;                                                          \
		if (!(what) || errno != MARK) {                                        \
			printf("line %d: %s, errno %d\n", __LINE__, #what, errno);     \
			exit(1);                                                       \
		}                                                                      \
	} while (0)
/* Of the same call only the first success counts. */
#define FIRST(what)                                                                    \
	do {                                                                           \
		SUCCEEDS(what);                                                        \
		calls++;                                                               \
	} while (0)

static char own[8192] __attribute__((aligned(4096)));
static char theirs[8192] __attribute__((aligned(4096)));
static struct scif_portID target;

static void *connect_to(void *argument)
{
	scif_epd_t epd = *(scif_epd_t *)argument;
	SUCCEEDS(scif_connect(epd, &target) > 0);
	return NULL;
}

int main(void)
{
	scif_epd_t listener, left, right;
	struct scif_portID peer;
	struct scif_pollepd entry;
	pthread_t thread;
	off_t here, there;
	void *map;
	char byte = 1;
	int port, mark;
	uint16_t self;
	FIRST((listener = scif_open()) >= 0);
	FIRST((port = scif_bind(listener, 0)) > 0);
	FIRST(scif_listen(listener, 1) == 0);
	FIRST(scif_get_nodeIDs(NULL, 0, &self) > 0);
	target.node = self;
	target.port = (uint16_t)port;
	SUCCEEDS((left = scif_open()) >= 0);
	if (pthread_create(&thread, NULL, connect_to, &left) != 0)
		return 1;
	FIRST(scif_accept(listener, &peer, &right, SCIF_ACCEPT_SYNC) == 0);
	if (pthread_join(thread, NULL) != 0)
		return 1;
	calls++; /* scif_connect */
	FIRST(scif_send(left, &byte, 1, SCIF_SEND_BLOCK) == 1);
	SUCCEEDS(scif_recv(left, &byte, 1, 0) == 0);
	FIRST(scif_recv(right, &byte, 1, SCIF_RECV_BLOCK) == 1);
	entry.epd = right;
	entry.events = SCIF_POLLIN | SCIF_POLLOUT;
	FIRST(scif_poll(&entry, 1, 0) == 1);
	FIRST((here = scif_register(left, own, sizeof own, 0, SCIF_PROT_READ | SCIF_PROT_WRITE, 0)) > 0);
	SUCCEEDS((there = scif_register(right, theirs, sizeof theirs, 0, SCIF_PROT_READ | SCIF_PROT_WRITE, 0)) > 0);
	FIRST((map = scif_mmap(NULL, 4096, SCIF_PROT_READ | SCIF_PROT_WRITE, 0, left, there)) != SCIF_MMAP_FAILED);
	FIRST(scif_munmap(map, 4096) == 0);
	FIRST(scif_readfrom(left, here, 8, there, SCIF_RMA_SYNC) == 0);
	FIRST(scif_writeto(left, here, 8192, there, 0) == 0);
	FIRST(scif_vreadfrom(left, own, 8, there, SCIF_RMA_USECPU) == 0);
	FIRST(scif_vwriteto(left, own, 8, there, SCIF_RMA_ORDERED) == 0);
	FIRST(scif_fence_mark(left, SCIF_FENCE_INIT_SELF, &mark) == 0);
	FIRST(scif_fence_wait(left, mark) == 0);
	FIRST(scif_fence_signal(left, here, 1, there, 2, SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL | SCIF_SIGNAL_REMOTE) ==
	      0);
	FIRST(scif_unregister(left, here, sizeof own) == 0);
	FIRST(scif_get_fd(left) == left);
	FIRST(scif_close(left) == 0);
	SUCCEEDS(scif_close(right) == 0);
	SUCCEEDS(scif_close(listener) == 0);
	printf("%d calls left errno alone\n", calls);
	return 0;
}
