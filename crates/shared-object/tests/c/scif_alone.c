/* Without an engine: every call fails with ENXIO and the value that its type has for that. */
#include <scif.h>
#include <stdio.h>

static int count;

#define FAILS(call, value)                                                             \
	do {                                                                           \
		errno = 0;                                                             \
		if ((call) != (value) || errno != ENXIO) {                             \
			printf("%s: errno %d\n", #call, errno);                        \
			return 1;                                                      \
		}                                                                      \
		count++;                                                               \
	} while (0)

int main(void)
{
	struct scif_portID id = { 0, 2050 };
	struct scif_pollepd entry = { -1, SCIF_POLLIN, 0 };
	scif_epd_t new_epd;
	uint16_t own;
	char byte = 0;
	int mark;
	FAILS(scif_open(), SCIF_OPEN_FAILED);
	FAILS(scif_close(0), -1);
	FAILS(scif_bind(0, 2050), -1);
	FAILS(scif_listen(0, 1), -1);
	FAILS(scif_connect(0, &id), -1);
	FAILS(scif_accept(0, &id, &new_epd, SCIF_ACCEPT_SYNC), -1);
	FAILS(scif_send(0, &byte, 1, 0), -1);
	FAILS(scif_recv(0, &byte, 1, 0), -1);
	FAILS(scif_poll(&entry, 1, 0), -1);
	FAILS(scif_register(0, &byte, 4096, 0, SCIF_PROT_READ, 0), SCIF_REGISTER_FAILED);
	FAILS(scif_unregister(0, 0, 4096), -1);
	FAILS(scif_mmap(NULL, 4096, SCIF_PROT_READ, 0, 0, 0), SCIF_MMAP_FAILED);
	FAILS(scif_munmap(&byte, 4096), -1);
	FAILS(scif_readfrom(0, 0, 1, 0, 0), -1);
	FAILS(scif_writeto(0, 0, 1, 0, 0), -1);
	FAILS(scif_vreadfrom(0, &byte, 1, 0, 0), -1);
	FAILS(scif_vwriteto(0, &byte, 1, 0, 0), -1);
	FAILS(scif_fence_mark(0, SCIF_FENCE_INIT_SELF, &mark), -1);
	FAILS(scif_fence_wait(0, 0), -1);
	FAILS(scif_fence_signal(0, 0, 0, 0, 0, SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL), -1);
	FAILS(scif_get_nodeIDs(NULL, 0, &own), -1);
	if (scif_get_fd(7) != 7)
		return 1;
	printf("%d calls failed\n", count);
	return 0;
}
