// The host writes into the card's memory while the card's program only looks.
//
//     make scif_window && nonic run -- ./scif_window                     both sides here, on one node
//     nonic run --node 1 -- ./scif_window card 2050                      or each on its own node:
//     nonic run --node 0 -- ./scif_window host 1 2050
//
// The card registers a window and tells its offset in a message. The host copies numbers there with scif_writeto and has
// a word stored behind them with scif_fence_signal: whoever sees the word sees the numbers. Then both say goodbye.

#include <scif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define PAGE 4096
#define NUMBERS 100000
#define BYTES (NUMBERS * sizeof(uint64_t))
#define LENGTH ((BYTES + 8 + PAGE - 1) / PAGE * PAGE) // The numbers, the word behind them, whole pages.
#define MUST(what)                                                                                                  \
    do {                                                                                                            \
        if (!(what)) {                                                                                              \
            perror(#what);                                                                                          \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

static uint64_t *pages(size_t length)
{
    void *memory = NULL;
    MUST(posix_memalign(&memory, PAGE, length) == 0);
    memset(memory, 0, length);
    return memory;
}

// A listener; on port 0 the library chooses one.
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

static void card(scif_epd_t listener)
{
    struct scif_portID peer;
    scif_epd_t endpoint;
    MUST(scif_accept(listener, &peer, &endpoint, SCIF_ACCEPT_SYNC) == 0);
    MUST(scif_close(listener) == 0);

    uint64_t *numbers = pages(LENGTH);
    off_t offset = scif_register(endpoint, numbers, LENGTH, 0, SCIF_PROT_READ | SCIF_PROT_WRITE, 0);
    MUST(offset != SCIF_REGISTER_FAILED);
    MUST(scif_send(endpoint, &offset, sizeof offset, SCIF_SEND_BLOCK) == sizeof offset);

    // No call: the word appears in this memory, and the numbers are there before it.
    volatile uint64_t *word = &numbers[NUMBERS];
    while (*word == 0)
        ;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    uint64_t sum = 0;
    for (int i = 0; i < NUMBERS; i++)
        sum += numbers[i];
    if (sum != *word) {
        printf("card: the numbers add up to %llu, the host says %llu\n", (unsigned long long)sum,
               (unsigned long long)*word);
        exit(1);
    }
    printf("card: %d numbers came from node %u port %u and add up to %llu\n", NUMBERS, peer.node, peer.port,
           (unsigned long long)sum);
    MUST(scif_send(endpoint, &sum, sizeof sum, SCIF_SEND_BLOCK) == sizeof sum);
    MUST(scif_close(endpoint) == 0);
    free(numbers);
}

static void host(struct scif_portID target)
{
    scif_epd_t endpoint = scif_open();
    MUST(endpoint != SCIF_OPEN_FAILED);
    MUST(scif_connect(endpoint, &target) > 0);
    off_t there;
    MUST(scif_recv(endpoint, &there, sizeof there, SCIF_RECV_BLOCK) == sizeof there);

    uint64_t *numbers = pages(LENGTH), sum = 0;
    for (int i = 0; i < NUMBERS; i++)
        sum += numbers[i] = (uint64_t)i * 7 + 1;
    off_t here = scif_register(endpoint, numbers, LENGTH, 0, SCIF_PROT_READ | SCIF_PROT_WRITE, 0);
    MUST(here != SCIF_REGISTER_FAILED);
    MUST(scif_writeto(endpoint, here, BYTES, there, 0) == 0);
    MUST(scif_fence_signal(endpoint, 0, 0, there + (off_t)BYTES, sum, SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_REMOTE) == 0);

    uint64_t answer;
    MUST(scif_recv(endpoint, &answer, sizeof answer, SCIF_RECV_BLOCK) == sizeof answer);
    MUST(answer == sum);
    MUST(scif_close(endpoint) == 0);
    free(numbers);
    printf("host: the card on node %u has seen every number\n", target.node);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && !strcmp(argv[1], "card")) {
        uint16_t port = (uint16_t)atoi(argv[2]);
        card(listen_on(&port));
    } else if (argc == 4 && !strcmp(argv[1], "host")) {
        struct scif_portID target = { (uint16_t)atoi(argv[2]), (uint16_t)atoi(argv[3]) };
        host(target);
    } else if (argc == 1) {
        struct scif_portID target = { 0, 0 };
        int status;
        MUST(scif_get_nodeIDs(NULL, 0, &target.node) > 0);
        scif_epd_t listener = listen_on(&target.port);
        pid_t child = fork(); // The child inherits the listener.
        MUST(child >= 0);
        if (child == 0) {
            card(listener);
            exit(0);
        }
        MUST(scif_close(listener) == 0);
        host(target);
        MUST(waitpid(child, &status, 0) == child);
        return status != 0;
    } else {
        fprintf(stderr, "usage: %s [card PORT | host NODE PORT]\n", argv[0]);
        return 2;
    }
    return 0;
}
