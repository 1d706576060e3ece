// Memory of an allocator, by several threads: allocated, registered, written by a peer, deregistered, freed, purged,
// allocated again. Run over glibc's allocator and over others that are preloaded; each counts on pages that read as zeros
// after they were given to the kernel.
//
// Usage: allocators ROUNDS SEED
//
// proves: MEM-2

#include "remote.h"

#include <malloc.h>

#define THREADS 4
#define BLOCKS 24 // kept by each thread

struct block {
    unsigned char *at;
    size_t length;
    unsigned seed;
};

// A word in a block that another thread counts up all the time: a count that is missed was a write that was lost.
struct ticket {
    pthread_mutex_t lock;
    volatile uint64_t *word;
    uint64_t counted;
};

struct worker {
    struct node *n;
    pthread_t thread;
    uint64_t random;
    unsigned rounds;
    struct block blocks[BLOCKS];
    struct ticket ticket;
    uint64_t registered, not_zero, wrong_bytes, lost_counts, refused, counted, adopted;
};

static struct worker workers[THREADS];
static volatile bool over;

static uint32_t below(struct worker *w, uint32_t limit)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (uint32_t)((w->random >> 11) % limit);
}

// Mostly what an arena gives from its heap; now and then what it maps, now and then what shares its page with others.
static size_t some_length(struct worker *w)
{
    switch (below(w, 8)) {
    case 0: return 16 + below(w, 2000);
    case 1: return 256 * 1024 + below(w, 1024 * 1024);
    default: return 3000 + below(w, 120 * 1024);
    }
}

static void *ticker(void *unused)
{
    (void)unused;
    while (!over)
        for (int i = 0; i < THREADS; i++) {
            struct ticket *t = &workers[i].ticket;
            pthread_mutex_lock(&t->lock);
            for (int k = 0; t->word && k < 200; k++) {
                *t->word += 1;
                t->counted++;
            }
            pthread_mutex_unlock(&t->lock);
        }
    return NULL;
}

static void hand_out(struct ticket *t, unsigned char *at)
{
    pthread_mutex_lock(&t->lock);
    t->word = (uint64_t *)(((uintptr_t)at + 7) / 8 * 8);
    *t->word = t->counted = 0;
    pthread_mutex_unlock(&t->lock);
}

static bool take_back(struct worker *w)
{
    struct ticket *t = &w->ticket;
    pthread_mutex_lock(&t->lock);
    bool whole = *t->word == t->counted;
    w->counted += t->counted;
    t->word = NULL;
    pthread_mutex_unlock(&t->lock);
    return whole;
}

static void replace(struct worker *w, struct block *b)
{
    if (b->at) {
        w->wrong_bytes += !filled(b->at, b->length, b->seed);
        free(b->at);
    }
    b->length = some_length(w);
    b->seed = below(w, 1 << 20);
    if (below(w, 2)) {
        REQUIRE(b->at = calloc(1, b->length));
        w->not_zero += !all_bytes(b->at, b->length, 0);
    } else {
        REQUIRE(b->at = malloc(b->length));
    }
    fill(b->at, b->length, b->seed);
}

// The peer writes the first half, this thread the rest, and a third one counts in the last words.
static void register_for_a_while(struct worker *w, struct block *b)
{
    unsigned seed = below(w, 1 << 20);
    size_t half = b->length / 2;
    unsigned char *tail = b->length >= 64 ? b->at + b->length - 32 : NULL;
    if (tail)
        hand_out(&w->ticket, tail);
    struct ibv_mr *mr = register_all(w->n, b->at, b->length);
    w->registered++;
    if (expected("adopted") && below(w, 16) == 0)
        w->adopted += adopted_bytes(b->at, b->length);
    if (below(w, 3) == 0) {
        w->refused += peer_writes(w->n, mr, b->at, half, seed) != IBV_WC_SUCCESS;
        w->wrong_bytes += !filled(b->at, half, seed);
    }
    fill(b->at, tail ? b->length - 32 : b->length, b->seed);
    w->refused += ibv_dereg_mr(mr) != 0;
    if (tail)
        w->lost_counts += !take_back(w);
    w->wrong_bytes += !filled(b->at, tail ? b->length - 32 : b->length, b->seed);
    fill(b->at, b->length, b->seed);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    for (unsigned round = 0; round < w->rounds; round++) {
        for (int i = 0; i < 6; i++)
            replace(w, &w->blocks[below(w, BLOCKS)]);
        struct block *b = &w->blocks[below(w, BLOCKS)];
        if (b->at)
            register_for_a_while(w, b);
        if (below(w, 8) == 0)
            malloc_trim(0);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (w->blocks[i].at) {
            w->wrong_bytes += !filled(w->blocks[i].at, w->blocks[i].length, w->blocks[i].seed);
            free(w->blocks[i].at);
        }
    return NULL;
}

static unsigned rounds;
static uint64_t seed;

static void program(struct node *n)
{
    pthread_t counter;
    struct worker sum = {0};
    for (int i = 0; i < THREADS; i++) {
        workers[i].n = n;
        workers[i].rounds = rounds;
        workers[i].random = seed * 2654435761u + (uint64_t)i * 40503u + 1;
        pthread_mutex_init(&workers[i].ticket.lock, NULL);
    }
    // Under another allocator nobody has used the C library's, and malloc_trim, the first to set it up, says so before it has: a second
    // thread that trims meanwhile follows lists that are not there.
    malloc_trim(0);
    REQUIRE(pthread_create(&counter, NULL, ticker, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        struct worker *w = &workers[i];
        REQUIRE(pthread_join(w->thread, NULL) == 0);
        sum.registered += w->registered;
        sum.not_zero += w->not_zero;
        sum.wrong_bytes += w->wrong_bytes;
        sum.lost_counts += w->lost_counts;
        sum.refused += w->refused;
        sum.counted += w->counted;
        sum.adopted += w->adopted;
    }
    over = true;
    REQUIRE(pthread_join(counter, NULL) == 0);
    printf("  seed %" PRIu64 ": %" PRIu64 " registrations by %d threads, %" PRIu64 " counts by another, %" PRIu64
           " adopted bytes sampled\n", seed, sum.registered, THREADS, sum.counted, sum.adopted);
    CHECK("allocator", "blocks are registered", sum.registered > 0);
    CHECK("allocator", "another thread writes them meanwhile", sum.counted > 0);
    CHECK("allocator", "and they are adopted, where that is expected", !expected("adopted") || sum.adopted > 0);
    CHECK_EQ("allocator", "no call fails", sum.refused, 0);
    CHECK_EQ("allocator", "no block loses a byte", sum.wrong_bytes, 0);
    CHECK_EQ("allocator", "no write of another thread is lost", sum.lost_counts, 0);
    CHECK_EQ("allocator", "calloc gives zeros", sum.not_zero, 0);
    // n->buffer, which lives as long as the connection, is all that may be shared now.
    CHECK("allocator", "nothing stays shared", adopted_bytes((void *)PAGE, 1ul << 47) <= BUFFER);
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 300;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    return with_a_peer(program);
}
