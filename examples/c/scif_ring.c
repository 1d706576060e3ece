// A ring buffer in the producer's memory, which the consumer has mapped: messages without a call on either side.
//
//     make scif_ring && nonic run -- ./scif_ring                         both sides here, on one node
//     nonic run --node 1 -- ./scif_ring producer 2051                    or each on its own node:
//     nonic run --node 0 -- ./scif_ring consumer 1 2051
//
// The producer registers one page of positions and some pages of slots. The consumer maps both with scif_mmap, reads
// slots by plain loads and stores its position where the producer sees it.

#include <scif.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define PAGE 4096
#define SLOTS 512
#define MESSAGES 200000
#define MUST(what)                                                                                                  \
    do {                                                                                                            \
        if (!(what)) {                                                                                              \
            perror(#what);                                                                                          \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

struct ring {
    _Alignas(64) uint64_t written; // Each position has a cache line of its own.
    _Alignas(64) uint64_t read;
    _Alignas(PAGE) uint64_t slots[SLOTS];
};

static uint64_t load(uint64_t *position)
{
    return __atomic_load_n(position, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *position, uint64_t value)
{
    __atomic_store_n(position, value, __ATOMIC_RELEASE);
}

static scif_epd_t listen_on(uint16_t *port)
{
    scif_epd_t listener = scif_open();
    int bound;
    MUST(listener != SCIF_OPEN_FAILED);
    MUST((bound = scif_bind(listener, *port)) > 0);
    MUST(scif_listen(listener, 1) == 0);
    *port = (uint16_t)bound;
    return listener;
}

static void produce(scif_epd_t listener)
{
    struct scif_portID peer;
    scif_epd_t endpoint;
    void *memory;
    MUST(scif_accept(listener, &peer, &endpoint, SCIF_ACCEPT_SYNC) == 0);
    MUST(scif_close(listener) == 0);
    MUST(posix_memalign(&memory, PAGE, sizeof(struct ring)) == 0);
    memset(memory, 0, sizeof(struct ring));
    struct ring *ring = memory;
    off_t offset =
        scif_register(endpoint, ring, sizeof *ring, 0x80000, SCIF_PROT_READ | SCIF_PROT_WRITE, SCIF_MAP_FIXED);
    MUST(offset == 0x80000);
    char ready = 'r';
    MUST(scif_send(endpoint, &ready, 1, SCIF_SEND_BLOCK) == 1);

    for (uint64_t i = 0; i < MESSAGES; i++) {
        while (i - load(&ring->read) == SLOTS)
            sched_yield();
        ring->slots[i % SLOTS] = i * i;
        store(&ring->written, i + 1);
    }
    // The peer closes when it has read everything; a receive then ends with ECONNRESET.
    MUST(scif_recv(endpoint, &ready, 1, SCIF_RECV_BLOCK) == -1 && errno == ECONNRESET);
    MUST(load(&ring->read) == MESSAGES);
    MUST(scif_close(endpoint) == 0);
    free(memory);
    printf("producer: all %d messages were read\n", MESSAGES);
}

static void consume(struct scif_portID target)
{
    scif_epd_t endpoint = scif_open();
    char ready;
    MUST(endpoint != SCIF_OPEN_FAILED);
    MUST(scif_connect(endpoint, &target) > 0);
    MUST(scif_recv(endpoint, &ready, 1, SCIF_RECV_BLOCK) == 1);
    struct ring *ring =
        scif_mmap(NULL, sizeof *ring, SCIF_PROT_READ | SCIF_PROT_WRITE, 0, endpoint, 0x80000);
    MUST(ring != SCIF_MMAP_FAILED);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        while (load(&ring->written) == i)
            sched_yield();
        if (ring->slots[i % SLOTS] != i * i) {
            printf("consumer: message %llu is wrong\n", (unsigned long long)i);
            exit(1);
        }
        store(&ring->read, i + 1);
    }
    MUST(scif_munmap(ring, sizeof *ring) == 0);
    MUST(scif_close(endpoint) == 0);
    printf("consumer: %d messages came through the mapping\n", MESSAGES);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && !strcmp(argv[1], "producer")) {
        uint16_t port = (uint16_t)atoi(argv[2]);
        produce(listen_on(&port));
    } else if (argc == 4 && !strcmp(argv[1], "consumer")) {
        struct scif_portID target = { (uint16_t)atoi(argv[2]), (uint16_t)atoi(argv[3]) };
        consume(target);
    } else if (argc == 1) {
        struct scif_portID target = { 0, 0 };
        int status;
        MUST(scif_get_nodeIDs(NULL, 0, &target.node) > 0);
        scif_epd_t listener = listen_on(&target.port);
        pid_t child = fork(); // The child inherits the listener.
        MUST(child >= 0);
        if (child == 0) {
            produce(listener);
            exit(0);
        }
        MUST(scif_close(listener) == 0);
        consume(target);
        MUST(waitpid(child, &status, 0) == child);
        return status != 0;
    } else {
        fprintf(stderr, "usage: %s [producer PORT | consumer NODE PORT]\n", argv[0]);
        return 2;
    }
    return 0;
}
