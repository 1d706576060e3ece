// Many windows one after another, in a program with one thread: each holds its pages and can be mapped, whatever the library's
// own threads are doing at that moment. Then with other threads, which store to the pages while they are registered.
//
// Usage: many_windows two|alone ROUNDS IDLE_ROUNDS [unshielded]
//        unshielded: nothing holds other threads back (no userfaultfd), so windows opened beside them may follow addresses

#include "far.h"

#include <stdatomic.h>

#define LENGTH (2 * PAGE)

static struct {
    int refused, not_mapped, others, lost;
} seen;

static void nap_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static long threads_now(void)
{
    char line[256];
    long threads = -1;
    FILE *f = fopen("/proc/self/status", "re");
    REQUIRE(f);
    while (fgets(line, sizeof line, f))
        sscanf(line, "Threads: %ld", &threads);
    fclose(f);
    return threads;
}

static void judge(const char *when)
{
    CHECK_EQ(when, "every window opens", seen.refused, 0);
    CHECK_EQ(when, "every window is mapped", seen.not_mapped, 0);
    CHECK_EQ(when, "every window keeps its pages when the program maps others there", seen.others, 0);
    CHECK_EQ(when, "no byte is lost", seen.lost, 0);
    memset(&seen, 0, sizeof seen);
}

// Opens a window on new pages; 0 on failure.
static off_t open_window(unsigned char *pages, unsigned seed)
{
    fresh_pages(pages, LENGTH);
    fill(pages, LENGTH, seed);
    off_t at = scif_register(epd, pages, LENGTH, 0, BOTH, 0);
    seen.refused += at < 0;
    return at < 0 ? 0 : at;
}

// The peer maps the window and sees these pages; so it does when the program has mapped others there. Answers the mapping.
static int64_t use_window(unsigned char *pages, off_t at, unsigned seed)
{
    int64_t mapped = at_far(FAR_MMAP, at, LENGTH, BOTH);
    seen.not_mapped += mapped == -1;
    seen.lost += !filled(pages, LENGTH, seed);
    fresh_pages(pages, LENGTH);
    memset(pages, 0x55, LENGTH);
    seen.others += at_far(FAR_VREAD, 0, LENGTH, at, SYNC) != 0 || at_far(FAR_FILLED, 0, LENGTH, seed) != 1;
    return mapped;
}

static void unmap(int64_t mapped)
{
    REQUIRE(mapped == -1 || at_far(FAR_MUNMAP, mapped, LENGTH) == 0);
}

// The library is at work: windows end while they are mapped, and copies that nobody waits for are under way.
static void in_a_row(unsigned char *pages, int rounds)
{
    connect_ends();
    for (int i = 0; i < rounds; i++) {
        off_t at = open_window(pages, (unsigned)i);
        if (!at)
            continue;
        int64_t mapped = use_window(pages, at, (unsigned)i);
        if (i % 3 == 1)
            REQUIRE(at_far(FAR_VWRITE, 0, LENGTH, at, 0) == 0);
        if (i % 2 == 0)
            unmap(mapped);
        REQUIRE(scif_unregister(epd, at, LENGTH) == 0);
        if (i % 2 == 1)
            unmap(mapped);
    }
    part();
    judge("in a row");
}

// The library's helper starts with a connection, and ends a while after it had something to do.
static void after_idling(unsigned char *pages, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        connect_ends();
        nap_ms(i % 4 == 0 ? 0 : 198 + i % 8);
        off_t at = open_window(pages, (unsigned)i);
        if (at) {
            unmap(use_window(pages, at, (unsigned)i));
            REQUIRE(scif_unregister(epd, at, LENGTH) == 0);
        }
        part();
    }
    judge("after idling");
}

#define THREADS 2

static atomic_bool stop;
static unsigned char *counted; // a page for each thread

static void *count(void *argument)
{
    _Atomic uint64_t *word = (_Atomic uint64_t *)(counted + (intptr_t)argument * PAGE);
    uint64_t stored = 0;
    while (!atomic_load(&stop)) {
        for (int i = 0; i < 100; i++)
            atomic_store(word, ++stored);
        sched_yield();
    }
    return (void *)stored;
}

// Windows open on pages that other threads store to: no store is lost, and the peer sees the last of them.
static void beside_threads(int rounds, bool unshielded)
{
    pthread_t threads[THREADS];
    connect_ends();
    counted = fresh_pages(NULL, THREADS * PAGE);
    for (intptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, count, (void *)i) == 0);
    int mapped_ones = 0;
    off_t last = 0;
    for (int i = 0; i < rounds; i++) {
        REQUIRE(last == 0 || scif_unregister(epd, last, THREADS * PAGE) == 0);
        last = scif_register(epd, counted, THREADS * PAGE, 0, BOTH, 0);
        seen.refused += last < 0;
        REQUIRE(last > 0);
        int64_t mapped = at_far(FAR_MMAP, last, THREADS * PAGE, BOTH);
        mapped_ones += mapped != -1;
        REQUIRE(mapped == -1 || at_far(FAR_MUNMAP, mapped, THREADS * PAGE) == 0);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        void *stored;
        REQUIRE(pthread_join(threads[i], &stored) == 0);
        seen.lost += at_far(FAR_VREAD, 0, 8, last + i * PAGE, SYNC) != 0;
        seen.lost += (void *)at_far(FAR_WORD, 0) != stored;
    }
    CHECK("beside threads", "every window is mapped, where something holds the threads back",
          unshielded || mapped_ones == rounds);
    REQUIRE(scif_unregister(epd, last, THREADS * PAGE) == 0);
    part();
    judge("beside threads");
    munmap(counted, THREADS * PAGE);
}

// The threads are gone for the kernel, too.
static void wait_for_threads_to_end(long threads)
{
    int64_t patience = PATIENCE_MS;
    while (threads_now() > threads && patience-- > 0)
        nap_ms(1);
    REQUIRE(patience > 0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int rounds = argc > 2 ? atoi(argv[2]) : 200, idle_rounds = argc > 3 ? atoi(argv[3]) : 16;
    bool unshielded = argc > 4 && strcmp(argv[4], "unshielded") == 0;
    unsigned char *pages = fresh_pages(NULL, LENGTH);
    in_a_row(pages, rounds);
    after_idling(pages, idle_rounds);
    long threads = threads_now();
    beside_threads(rounds, unshielded);
    wait_for_threads_to_end(threads + 1);
    in_a_row(pages, rounds);
    return end();
}
