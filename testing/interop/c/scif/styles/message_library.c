// As a message library uses SCIF inside a node: windows FIXED at the address of their memory, reads and writes between
// plain memory and windows with USECACHE and SYNC, a fence for what the peer started, a mapping of the peer's flags.

#include <scif.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 0x1000

struct channel {
    scif_epd_t epd;
    struct scif_portID peer;
    off_t window;
};

static int open_window(struct channel *c, void *base, size_t length)
{
    c->window = scif_register(c->epd, base, length, (off_t)(uintptr_t)base, SCIF_PROT_READ | SCIF_PROT_WRITE,
                              SCIF_MAP_FIXED);
    return c->window == SCIF_REGISTER_FAILED ? -1 : 0;
}

int main(void)
{
    struct channel a = {.epd = scif_open()}, b;
    scif_epd_t listener = scif_open();
    struct portID there;
    int mark, port = scif_bind(listener, 0);
    char *base, plain[100];
    if (port < 0 || scif_listen(listener, 64) || scif_get_nodeIDs(NULL, 0, &there.node) < 1)
        return 1;
    there.port = (uint16_t)port;
    fcntl(scif_get_fd(a.epd), F_SETFL, O_NONBLOCK);
    if (scif_connect(a.epd, &there) != -1 || errno != EINPROGRESS)
        return 2;
    if (scif_accept(listener, &b.peer, &b.epd, SCIF_ACCEPT_SYNC) || scif_connect(a.epd, &there) < 0)
        return 3;
    if (posix_memalign((void **)&base, PAGE, 4 * PAGE) || open_window(&b, base, 4 * PAGE))
        return 4;
    strcpy(plain, "by address");
    if (scif_vwriteto(a.epd, plain, 11, (off_t)(uintptr_t)base + 30, SCIF_RMA_USECACHE | SCIF_RMA_SYNC))
        return 5;
    memset(plain, 0, sizeof plain);
    if (scif_vreadfrom(a.epd, plain, 11, (off_t)(uintptr_t)base + 30, SCIF_RMA_USECACHE | SCIF_RMA_SYNC))
        return 6;
    if (strcmp(plain, "by address") || strcmp(base + 30, plain))
        return 7;
    if (scif_fence_mark(b.epd, SCIF_FENCE_INIT_PEER, &mark) || scif_fence_wait(b.epd, mark))
        return 8;
    volatile uint64_t *flag = scif_mmap(NULL, PAGE, SCIF_PROT_READ | SCIF_PROT_WRITE, 0, a.epd, b.window + PAGE);
    if ((void *)flag == SCIF_MMAP_FAILED)
        return 9;
    *flag = 5;
    if (*(volatile uint64_t *)(base + PAGE) != 5 || scif_munmap((void *)flag, PAGE))
        return 10;
    if (scif_unregister(b.epd, b.window, 4 * PAGE) || scif_close(a.epd) || scif_close(b.epd) || scif_close(listener))
        return 11;
    puts("works");
    return 0;
}
