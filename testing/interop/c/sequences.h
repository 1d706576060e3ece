// Sequences of calls as chance has them, each judged by what its page says: many objects live, arguments are right,
// nearly right or wild, objects are used after their end. What a program needs for that: reproducible chance, the last
// calls in words, an end for whatever crashes or hangs, and counts of what the process holds.
//
// A sequence is made from a seed of its own, the first one's plus its number: who repeats one gives that seed.
//
// Usage: PROGRAM SEQUENCES SEED

#ifndef NONIC_INTEROP_SEQUENCES_H
#define NONIC_INTEROP_SEQUENCES_H

#include "holdings.h"

#include <stdarg.h>

#define LAST_CALLS 48
// A sequence takes some milliseconds.
#define SEQUENCE_SECONDS 120

static char last_calls[LAST_CALLS][200];
static unsigned calls_made, calls_refused;
static uint64_t sequence_seed;

// ---- chance --------------------------------------------------------------------------------------------------------

static UNUSED bool one_in(uint32_t n) { return random_below(n) == 0; }

static UNUSED uint64_t random_word(void)
{
    return (uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX);
}

#define ONE_OF(first, ...)                                                                                           \
    ({                                                                                                               \
        const __typeof__(first) list_[] = {first, __VA_ARGS__};                                                      \
        list_[random_below(sizeof list_ / sizeof *list_)];                                                           \
    })

// A number that mistakes are made with: an edge, or any.
static UNUSED uint64_t wild(void)
{
    static const uint64_t edges[] = {0, 1, 2, 7, 8, 63, 64, 255, 256, 4095, 4096, 4097, 65535, 65536, INT32_MAX,
                                     1ull << 31, UINT32_MAX, 1ull << 32, 1ull << 47, INT64_MAX, 1ull << 63,
                                         UINT64_MAX - 4095,
                                     UINT64_MAX};
    uint32_t which = random_below(sizeof edges / sizeof *edges + 4);
    return which < sizeof edges / sizeof *edges ? edges[which] : random_word() >> random_below(64);
}

// ---- what happened -------------------------------------------------------------------------------------------------

// Says which call comes next, before it is made.
static UNUSED __attribute__((format(printf, 1, 2))) void next_call(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(last_calls[calls_made++ % LAST_CALLS], sizeof *last_calls, format, list);
    va_end(list);
}

static UNUSED const char *last_call(void) { return last_calls[(calls_made - 1) % LAST_CALLS]; }

// Async-signal-safe, but for the numbers.
static UNUSED void print_last_calls(void)
{
    char line[128];
    unsigned first = calls_made > LAST_CALLS ? calls_made - LAST_CALLS : 0;
    snprintf(line, sizeof line, "     call %u of the sequence that seed %" PRIu64 " begins; the last ones:\n",
             calls_made,
             sequence_seed);
    ssize_t written = write(1, line, strlen(line));
    for (unsigned i = first; i < calls_made && written >= 0; i++) {
        const char *words = last_calls[i % LAST_CALLS];
        written = write(1, "       ", 7);
        written = write(1, words, strlen(words));
        written = write(1, "\n", 1);
    }
}

static UNUSED __attribute__((format(printf, 1, 2), noreturn)) void wrong(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("FAIL ");
    vprintf(format, list);
    printf(" (seed %" PRIu64 ")\n", sequence_seed);
    va_end(list);
    fflush(stdout);
    print_last_calls();
    self.failed++;
    give_up();
    __builtin_unreachable();
}

static void last_words(int signal_number)
{
    const char *words = signal_number == SIGALRM ? "FAIL a call does not return\n" : "FAIL a call crashed\n";
    if (write(1, words, strlen(words)) > 0)
        print_last_calls();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

// An answer that must be one of two, mostly the same.
static UNUSED void expect_either(long long got, long long one, long long other)
{
    calls_refused += got != 0 && got != -1 && (one != 0 || other != 0);
    if (got != one && got != other)
        wrong("it answered %lld (%s); %lld or %lld is due: %s", got, got > 0 ? strerror((int)got) : "", one, other,
              last_call());
}

static UNUSED void expect(long long got, long long due) { expect_either(got, due, due); }

// Whether there is an object, which is due unless an errno is.
static UNUSED bool expect_object(const void *object, int due)
{
    int error = errno;
    calls_refused += !object;
    if (object && due)
        wrong("it made an object; errno %d (%s) is due: %s", due, strerror(due), last_call());
    if (!object && error != due)
        wrong("it answered errno %d (%s); %s is due: %s", error, strerror(error), due ? strerror(due) : "an object",
              last_call());
    return object != NULL;
}

static UNUSED void print_descriptors(void)
{
    char path[64], to[256];
    for (int i = 0; i < 1024; i++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", i);
        ssize_t length = readlink(path, to, sizeof to - 1);
        if (length > 0)
            printf("     descriptor %d: %.*s\n", i, (int)length, to);
    }
}

// ---- the sequences -------------------------------------------------------------------------------------------------

struct weighted_call {
    uint32_t weight;
    void (*call)(void);
};

// Makes one of the calls, each as often as it weighs.
static UNUSED void make_one_of(const struct weighted_call *calls, size_t count)
{
    uint32_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += calls[i].weight;
    uint32_t chosen = random_below(all);
    while (chosen >= calls->weight)
        chosen -= calls++->weight;
    errno = 0;
    calls->call();
}

// Runs them. What the process holds must not have grown since the first half.
static UNUSED int run_sequences(int argc, char **argv, void (*sequence)(void))
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGALRM};
    int count = argc > 1 ? atoi(argv[1]) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)now_ns();
    uint64_t calls = 0, refused = 0;
    struct holdings most = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        signal(fatal[i], last_words);
    printf("%d sequences, seed %" PRIu64 "\n", count, first);
    for (int i = 0; i < count; i++) {
        sequence_seed = first + (uint64_t)i;
        random_state = (sequence_seed + 1) * 0x9e3779b97f4a7c15u;
        random_state ^= random_state >> 32 | 1;
        calls_made = calls_refused = 0;
        alarm(SEQUENCE_SECONDS);
        sequence();
        calls += calls_made;
        refused += calls_refused;
        struct holdings now = holdings();
        if (i <= count / 2) {
            most.descriptors = now.descriptors > most.descriptors ? now.descriptors : most.descriptors;
            most.mappings = now.mappings > most.mappings ? now.mappings : most.mappings;
        }
    }
    alarm(0);
    most.names = INT32_MAX; // of everybody here
    struct holdings after = settled(most);
    printf("     %" PRIu64 " calls, %" PRIu64 " refused; at most %d descriptors, %d mappings; at the end %d, %d\n",
           calls, refused, most.descriptors, most.mappings, after.descriptors, after.mappings);
    CHECK("sequences", "every call was answered as its page says", calls > 0);
    CHECK("sequences", "some were refused", count < 20 || refused > 0);
    CHECK("sequences", "no descriptor is left", after.descriptors <= most.descriptors + DESCRIPTORS_MORE);
    if (after.descriptors > most.descriptors + DESCRIPTORS_MORE)
        print_descriptors();
    CHECK("sequences", "no mapping is left", after.mappings <= most.mappings + MAPPINGS_MORE);
    return finish_alone();
}

#endif
