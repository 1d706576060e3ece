// Registers, deregisters, unmaps and maps again, with 1 to 64 MiB at a time, most of it never touched, and watches what
// the process holds: it must not grow.
//
// Usage: registration_loop ROUNDS EVERY SEED      prints a row of figures EVERY so many rounds
//
// proves: MEM-4

#include "remote.h"

#include <sys/stat.h>

#define MIB (1ul << 20)

struct figures {
    long resident_kib, shared_kib, file_kib;
    int mappings, descriptors;
};

// What the files behind adopted pages hold, mapped or not: pages that were not given back show here and nowhere else.
static long file_kib(void)
{
    DIR *d = opendir("/proc/self/fd");
    struct dirent *entry;
    char link[300], name[256];
    long kib = 0;
    struct stat about;
    REQUIRE(d);
    while ((entry = readdir(d))) {
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(link, name, sizeof name - 1);
        name[length > 0 ? length : 0] = 0;
        if (strstr(name, "nonic-pages") && stat(link, &about) == 0)
            kib += about.st_blocks / 2;
    }
    closedir(d);
    return kib;
}

static struct figures figures(void)
{
    return (struct figures){status_kib("VmRSS"), status_kib("RssShmem"), file_kib(), lines_of("/proc/self/maps", "-"),
                            entries_of("/proc/self/fd")};
}

static void print_row(unsigned round, struct figures f)
{
    printf("  %8u %10ld KiB %10ld KiB %10ld KiB %9d %12d\n", round, f.resident_kib, f.shared_kib, f.file_kib, f.mappings,
           f.descriptors);
    fflush(stdout);
}

static unsigned rounds, every;
static uint64_t wrong, adopted;

// A page is written before, a few are written while registered, by either side; the others are zeros all the time.
static void one_round(struct node *n, unsigned round)
{
    size_t length = (1 + random_below(64)) * MIB, pages = length / PAGE;
    unsigned char *at = map_pages(length);
    size_t before = random_below(pages), during = random_below(pages), by_peer = random_below(pages);
    at[before * PAGE] = 1;
    for (size_t i = 0, touched = random_below(64); i < touched; i++)
        at[random_below(pages) * PAGE + 1] = 2;
    struct ibv_mr *mr = register_all(n, at, length);
    if (round % 64 == 0)
        adopted += adopted_bytes(at, length);
    at[during * PAGE + 2] = 3;
    bool told = random_below(16) == 0;
    if (told)
        wrong += peer_writes(n, mr, at + by_peer * PAGE + 64, 512, round) != IBV_WC_SUCCESS;
    bool unmapped_first = random_below(8) == 0;
    if (unmapped_first)
        REQUIRE(munmap(at, length) == 0);
    wrong += ibv_dereg_mr(mr) != 0;
    if (unmapped_first)
        return;
    wrong += at[before * PAGE] != 1 || at[during * PAGE + 2] != 3;
    wrong += told && !filled(at + by_peer * PAGE + 64, 512, round);
    wrong += at[random_below(pages) * PAGE + 3000] != 0;
    REQUIRE(munmap(at, length) == 0);
}

static void program(struct node *n)
{
    struct figures first = {0}, now, most = {0};
    printf("  %8s %14s %14s %14s %9s %12s\n", "rounds", "resident", "of it shared", "in the file", "mappings",
           "descriptors");
    for (unsigned round = 1; round <= rounds; round++) {
        one_round(n, round);
        if (round % every && round != rounds)
            continue;
        now = figures();
        print_row(round, now);
        if (round == every)
            first = now;
        most.resident_kib = now.resident_kib > most.resident_kib ? now.resident_kib : most.resident_kib;
        most.shared_kib = now.shared_kib > most.shared_kib ? now.shared_kib : most.shared_kib;
        most.file_kib = now.file_kib > most.file_kib ? now.file_kib : most.file_kib;
        most.mappings = now.mappings > most.mappings ? now.mappings : most.mappings;
        most.descriptors = now.descriptors > most.descriptors ? now.descriptors : most.descriptors;
    }
    CHECK_EQ("loop", "no call fails and no byte is wrong", wrong, 0);
    if (expected("adopted"))
        CHECK("loop", "the regions are adopted", adopted > 0);
    // A round touches less than 1 MiB. What is only allowed once must not be allowed per round.
    CHECK("loop", "resident memory does not grow", most.resident_kib < first.resident_kib + 2048);
    CHECK("loop", "shared memory does not grow", most.shared_kib < first.shared_kib + 1024);
    CHECK("loop", "the file behind adopted pages does not grow", most.file_kib < first.file_kib + 1024);
    CHECK("loop", "mappings do not grow", most.mappings < first.mappings + 16);
    CHECK("loop", "descriptors do not grow", most.descriptors <= first.descriptors);
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 2000;
    every = argc > 2 ? (unsigned)atoi(argv[2]) : rounds / 10;
    random_state = (argc > 3 ? strtoull(argv[3], NULL, 10) : 1) * 2654435761u + 88172645463325252u;
    return with_a_peer(program);
}
