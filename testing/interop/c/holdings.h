// For programs that live through many rounds: reproducible chance, and counts of what a process holds, which may not grow.

#ifndef NONIC_INTEROP_HOLDINGS_H
#define NONIC_INTEROP_HOLDINGS_H

#include "harness.h"

#include <dirent.h>

#define WARM_UP 4    // rounds after which nothing may grow any more
#define SETTLE_MS 10000
// What may be held more than before, whatever the number of rounds. The allocator may have split or grown a mapping of its
// own: two are allowed for it.
#ifndef DESCRIPTORS_MORE
#define DESCRIPTORS_MORE 0
#define MAPPINGS_MORE 2
#endif
// How long a survivor may take to see the end of who was killed. It takes some ms; on a loaded machine a second is possible.
#define PROMISED_MS 5000

static uint64_t random_state;

static UNUSED uint32_t random_below(uint32_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 11) % limit);
}

static UNUSED void nap_ns(uint32_t most)
{
    struct timespec a_moment = {.tv_nsec = random_below(most)};
    nanosleep(&a_moment, NULL);
}

// What a program was told to do: rounds and a seed, which is printed.
static UNUSED int rounds_and_seed(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    random_state = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)now_ns();
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%d rounds, seed %" PRIu64 "\n", rounds, random_state);
    random_state = random_state * 2654435761u + 88172645463325252u;
    return rounds;
}

// ---- what a process holds ------------------------------------------------------------------------------------------

static UNUSED int entries_of(const char *directory)
{
    DIR *d = opendir(directory);
    int count = 0;
    if (!d)
        return -1;
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static UNUSED int lines_of(const char *path, const char *containing)
{
    FILE *f = fopen(path, "re");
    char line[4096];
    int count = 0;
    if (!f)
        return -1;
    while (fgets(line, sizeof line, f))
        count += strstr(line, containing) != NULL;
    fclose(f);
    return count;
}

static UNUSED long resident_kib(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long kib = -1;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

struct holdings {
    int descriptors, mappings, names;
};

static UNUSED struct holdings holdings(void)
{
    // Names: abstract sockets of this network namespace; the caller gives the program one of its own.
    return (struct holdings){entries_of("/proc/self/fd"), lines_of("/proc/self/maps", "-"),
                             lines_of("/proc/net/unix", " @")};
}

static UNUSED bool no_more_than(struct holdings now, struct holdings before)
{
    return now.descriptors <= before.descriptors + DESCRIPTORS_MORE && now.mappings <= before.mappings + MAPPINGS_MORE &&
           now.names <= before.names;
}

static UNUSED bool same(struct holdings a, struct holdings b)
{
    return a.descriptors == b.descriptors && a.mappings == b.mappings && a.names == b.names;
}

// What is held once nothing has changed for a tenth of a second.
static UNUSED struct holdings steady(void)
{
    int64_t deadline = now_ns() + (int64_t)SETTLE_MS * 1000000;
    struct timespec tick = {.tv_nsec = 100000000};
    struct holdings last = holdings(), now;
    for (;;) {
        nanosleep(&tick, NULL);
        now = holdings();
        if (same(last, now) || now_ns() > deadline)
            return now;
        last = now;
    }
}

// The engine may notice a dead peer a moment later than the program does.
static UNUSED struct holdings settled(struct holdings before)
{
    int64_t deadline = now_ns() + (int64_t)SETTLE_MS * 1000000;
    struct holdings now = holdings();
    struct timespec tick = {.tv_nsec = 5000000};
    while (!no_more_than(now, before) && now_ns() < deadline) {
        nanosleep(&tick, NULL);
        now = holdings();
    }
    return now;
}

// What short lives leave in the arenas of the allocators: 2 MiB after 300 peers, and no more after 10,000.
#define RESIDENT_MORE_KIB 4096

// Says that nothing has grown since `before`.
static UNUSED void check_nothing_leaked(struct holdings before, long resident_before)
{
    struct holdings after = settled(before);
    printf("     before: %d descriptors, %d mappings, %d names, %ld KiB; after: %d, %d, %d, %ld KiB\n",
           before.descriptors, before.mappings, before.names, resident_before, after.descriptors, after.mappings,
           after.names, resident_kib());
    CHECK("kill", "no descriptor leaked", after.descriptors <= before.descriptors + DESCRIPTORS_MORE);
    CHECK("kill", "no mapping leaked", after.mappings <= before.mappings + MAPPINGS_MORE);
    CHECK("kill", "no socket name leaked", after.names <= before.names);
    CHECK("kill", "no memory leaked", resident_kib() <= resident_before + RESIDENT_MORE_KIB);
}

#endif
