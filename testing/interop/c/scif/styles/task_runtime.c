// As a task runtime uses SCIF: one port for each kind of traffic, connect tried until it works, FIXED windows for buffers,
// blocking transfers with USECPU and without, and signals as remote stores.

#include <scif.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT SCIF_ST_PORT_0 // 1044

static struct scif_portID there;

static void *device(void *unused)
{
    scif_epd_t listener = scif_open(), epd;
    struct scif_portID peer;
    void *buffer;
    off_t window;
    (void)unused;
    if (scif_bind(listener, PORT) < 0 || scif_listen(listener, 10) < 0)
        return (void *)1;
    if (scif_accept(listener, &peer, &epd, SCIF_ACCEPT_SYNC) != 0)
        return (void *)2;
    if (posix_memalign(&buffer, 0x1000, 0x2000))
        return (void *)3;
    window = scif_register(epd, buffer, 0x2000, 0x80000, SCIF_PROT_READ | SCIF_PROT_WRITE, SCIF_MAP_FIXED);
    if (window != 0x80000 || scif_send(epd, &window, sizeof window, SCIF_SEND_BLOCK) != sizeof window)
        return (void *)4;
    while (*(volatile uint64_t *)((char *)buffer + 0x1000) != 0xabcdef)
        usleep(100);
    if (strcmp(buffer, "a task"))
        return (void *)5;
    scif_close(epd);
    scif_close(listener);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    scif_epd_t epd;
    off_t window;
    char task[] = "a task";
    void *failed;
    int tries = 0;
    scif_get_nodeIDs(NULL, 0, &there.node);
    there.port = PORT;
    if (pthread_create(&thread, NULL, device, NULL))
        return 1;
    epd = scif_open();
    while (scif_connect(epd, &there) < 0 && errno == ECONNREFUSED && ++tries < 20000)
        usleep(100);
    if (scif_recv(epd, &window, sizeof window, SCIF_RECV_BLOCK) != sizeof window)
        return 2;
    if (scif_vwriteto(epd, task, sizeof task, window, SCIF_RMA_USECPU))
        return 3;
    if (scif_fence_signal(epd, 0, 0, window + 0x1000, 0xabcdef, SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_REMOTE))
        return 4;
    pthread_join(thread, &failed);
    if (failed)
        return 5;
    if (scif_recv(epd, task, 1, SCIF_RECV_BLOCK) != -1 || errno != ECONNRESET)
        return 6;
    puts("works");
    return scif_close(epd);
}
