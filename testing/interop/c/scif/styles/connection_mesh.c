// As an MPI port uses SCIF: every rank listens, connects to those below it and accepts those above, then a ring of lines in
// registered memory that the sender fills through a mapping. Ranks are threads here.

#include <scif.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 4
#define PAGE 0x1000
#define MESSAGES 200
#define LINES 32

static struct scif_portID addresses[RANKS];
static scif_epd_t listeners[RANKS];

struct line {
    volatile uint64_t number; // 0: empty
    uint64_t bytes[7];
};

static int exchange(scif_epd_t epd, int rank, int other)
{
    struct line *own;
    off_t here, there;
    if (posix_memalign((void **)&own, PAGE, PAGE))
        return 1;
    memset(own, 0, PAGE);
    here = scif_register(epd, own, PAGE, 0, SCIF_PROT_READ | SCIF_PROT_WRITE, 0);
    if (here < 0 || scif_send(epd, &here, sizeof here, SCIF_SEND_BLOCK) != sizeof here ||
        scif_recv(epd, &there, sizeof there, SCIF_RECV_BLOCK) != sizeof there)
        return 2;
    struct line *remote = scif_mmap(NULL, PAGE, SCIF_PROT_READ | SCIF_PROT_WRITE, 0, epd, there);
    if (remote == SCIF_MMAP_FAILED)
        return 3;
    for (uint64_t i = 1; i <= MESSAGES; i++) {
        struct line *out = &remote[i % LINES], *in = &own[i % LINES];
        while (out->number)
            sched_yield();
        out->bytes[0] = i * 100 + (uint64_t)rank;
        __atomic_store_n(&out->number, i, __ATOMIC_RELEASE);
        while (__atomic_load_n(&in->number, __ATOMIC_ACQUIRE) != i)
            sched_yield();
        if (in->bytes[0] != i * 100 + (uint64_t)other)
            return 4;
        __atomic_store_n(&in->number, 0, __ATOMIC_RELEASE);
    }
    char done = 1;
    if (scif_send(epd, &done, 1, 1) != 1 || scif_recv(epd, &done, 1, 1) != 1 || scif_munmap(remote, PAGE))
        return 5;
    int failed = scif_close(epd);
    free(own);
    return failed;
}

static void *rank_main(void *argument)
{
    int rank = (int)(intptr_t)argument;
    for (int other = 0; other < rank; other++) {
        scif_epd_t epd = scif_open();
        if (scif_connect(epd, &addresses[other]) < 0 || scif_send(epd, &rank, sizeof rank, 1) != sizeof rank)
            return (void *)1;
        int failed = exchange(epd, rank, other);
        if (failed)
            return (void *)(intptr_t)(100 + failed);
    }
    for (int more = rank + 1; more < RANKS; more++) {
        struct scif_portID peer;
        scif_epd_t epd;
        int other;
        if (scif_accept(listeners[rank], &peer, &epd, SCIF_ACCEPT_SYNC) || scif_recv(epd, &other, sizeof other, 1) < 0)
            return (void *)2;
        int failed = exchange(epd, rank, other);
        if (failed)
            return (void *)(intptr_t)(200 + failed);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[RANKS];
    for (int i = 0; i < RANKS; i++) {
        listeners[i] = scif_open();
        scif_get_nodeIDs(NULL, 0, &addresses[i].node);
        int port = scif_bind(listeners[i], 0);
        if (port < 0 || scif_listen(listeners[i], RANKS))
            return 1;
        addresses[i].port = (uint16_t)port;
    }
    for (intptr_t i = 0; i < RANKS; i++)
        pthread_create(&threads[i], NULL, rank_main, (void *)i);
    for (int i = 0; i < RANKS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        if (failed) {
            printf("rank %d: %d\n", i, (int)(intptr_t)failed);
            return 2;
        }
    }
    puts("works");
    return 0;
}
