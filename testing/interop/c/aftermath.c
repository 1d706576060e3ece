// What a program does with memory after its deregistration, and with the map around it: everything is as if the memory
// had never been registered.
//
// proves: MEM-2

#include "remote.h"

#define PAGES 48u
#define LENGTH (PAGES * PAGE)

// The mode of the mapping that holds an address, such as "rw-p"; "none" if there is none.
static const char *mode_of(const void *at)
{
    static char mode[8];
    char line[1024];
    uint64_t start, end;
    FILE *maps = fopen("/proc/self/maps", "re");
    REQUIRE(maps);
    strcpy(mode, "none");
    while (fgets(line, sizeof line, maps)) {
        char found[8];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, found) == 3 && start <= (uintptr_t)at &&
            (uintptr_t)at < end)
            strcpy(mode, found);
    }
    fclose(maps);
    return mode;
}

// Registers, lets the peer write all of it, deregisters. The bytes are pattern `seed` afterwards.
static void through_a_registration(struct node *n, void *at, size_t length, unsigned seed)
{
    struct ibv_mr *mr = register_all(n, at, length);
    check_adopted("aftermath", at, length);
    CHECK_EQ("aftermath", "the peer writes", peer_writes(n, mr, at, length, seed), IBV_WC_SUCCESS);
    CHECK_EQ("aftermath", "the region is deregistered", ibv_dereg_mr(mr), 0);
    check_private("aftermath", at, length);
    CHECK("aftermath", "and its bytes stay", filled(at, length, seed));
}

static void purged_pages_are_zeros(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    memset(at, 0x5a, LENGTH);
    through_a_registration(n, at, LENGTH, 1);
    CHECK_EQ("purge", "MADV_DONTNEED is accepted", madvise(at + 4 * PAGE, 8 * PAGE, MADV_DONTNEED), 0);
    CHECK("purge", "and the pages are zeros", all_bytes(at + 4 * PAGE, 8 * PAGE, 0));
    CHECK_EQ("purge", "MADV_DONTNEED of everything is accepted", madvise(at, LENGTH, MADV_DONTNEED), 0);
    CHECK("purge", "and everything is zeros", all_bytes(at, LENGTH, 0));
    at[5] = 1;
    through_a_registration(n, at, LENGTH, 2);
    CHECK_EQ("purge", "MADV_FREE is accepted", madvise(at, LENGTH, MADV_FREE), 0);
    memset(at, 0x77, LENGTH);
    CHECK("purge", "what is written after MADV_FREE stays", all_bytes(at, LENGTH, 0x77));
    REQUIRE(munmap(at, LENGTH) == 0);
}

// Pages never touched before, during and after: they are zeros all the time, and touching one touches no other.
static void untouched_pages_stay_untouched(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    at[7 * PAGE] = 9;
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    check_adopted("untouched", at, LENGTH);
    CHECK_EQ("untouched", "the peer writes one page", peer_writes(n, mr, at + 9 * PAGE, PAGE, 4), IBV_WC_SUCCESS);
    at[11 * PAGE + 5] = 3;
    CHECK_EQ("untouched", "the region is deregistered", ibv_dereg_mr(mr), 0);
    check_private("untouched", at, LENGTH);
    CHECK("untouched", "what was touched is there",
          at[7 * PAGE] == 9 && filled(at + 9 * PAGE, PAGE, 4) && at[11 * PAGE + 5] == 3);
    at[7 * PAGE] = at[11 * PAGE + 5] = 0;
    memset(at + 9 * PAGE, 0, PAGE);
    CHECK("untouched", "and nothing else", all_bytes(at, LENGTH, 0));
    REQUIRE(munmap(at, LENGTH) == 0);
}

// The neighbour stays registered and full of bytes: what grows next to it must not show them.
static void a_mapping_grows_with_zeros(struct node *n)
{
    unsigned char *at = map_pages(2 * LENGTH), *neighbour = at + LENGTH;
    memset(at, 0x21, 2 * LENGTH);
    struct ibv_mr *beside = register_all(n, neighbour, LENGTH);
    through_a_registration(n, at, LENGTH, 5);
    unsigned char *grown = mremap(at, LENGTH, 2 * LENGTH, MREMAP_MAYMOVE);
    CHECK("grow", "a mapping grows, elsewhere, since its neighbour is in the way", grown != MAP_FAILED && grown != at);
    REQUIRE(grown != MAP_FAILED);
    CHECK("grow", "its bytes move along", filled(grown, LENGTH, 5));
    CHECK("grow", "and what is new is zeros", all_bytes(grown + LENGTH, LENGTH, 0));
    memset(grown, 0xee, 2 * LENGTH);
    CHECK("grow", "it writes into its own pages only", all_bytes(neighbour, LENGTH, 0x21));
    CHECK_EQ("grow", "the peer still writes the neighbour", peer_writes(n, beside, neighbour, LENGTH, 6), IBV_WC_SUCCESS);
    CHECK("grow", "and only that", filled(neighbour, LENGTH, 6) && all_bytes(grown, 2 * LENGTH, 0xee));
    CHECK_EQ("grow", "the neighbour is deregistered", ibv_dereg_mr(beside), 0);
    CHECK("grow", "and keeps its bytes", filled(neighbour, LENGTH, 6));
    REQUIRE(munmap(grown, 2 * LENGTH) == 0 && munmap(neighbour, LENGTH) == 0);
}

// `realloc` of a large block is `mremap` in glibc.
static void blocks_are_reallocated(struct node *n)
{
    size_t length = 1 << 20;
    unsigned char *block = malloc(length), *larger;
    REQUIRE(block);
    memset(block, 1, length);
    through_a_registration(n, block, length, 7);
    REQUIRE(larger = realloc(block, 4 * length));
    CHECK("realloc", "a block deregistered before keeps its bytes when it grows", filled(larger, length, 7));
    memset(larger, 2, 4 * length);
    through_a_registration(n, larger, 4 * length, 8);
    REQUIRE(block = realloc(larger, length / 2));
    CHECK("realloc", "and when it shrinks", filled(block, length / 2, 8));

    // The program's fault, and common: the block grows while it is registered.
    struct ibv_mr *mr = register_all(n, block, length / 2);
    REQUIRE(larger = realloc(block, 4 * length));
    CHECK("realloc", "a block that grows while it is registered keeps its bytes", filled(larger, length / 2, 8));
    memset(larger, 3, 4 * length);
    CHECK("realloc", "and can be written", all_bytes(larger, 4 * length, 3));
    CHECK_EQ("realloc", "its registration ends", ibv_dereg_mr(mr), 0);
    CHECK("realloc", "and that changes none of its bytes", all_bytes(larger, 4 * length, 3));
    through_a_registration(n, larger, 4 * length, 9);
    free(larger);
    unsigned char *zeros = calloc(4, length);
    REQUIRE(zeros);
    CHECK("realloc", "calloc gives zeros after that", all_bytes(zeros, 4 * length, 0));
    free(zeros);
}

static void protection_is_kept(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    memset(at, 1, LENGTH);
    through_a_registration(n, at, LENGTH, 10);
    CHECK("protect", "a private mapping is private again", strcmp(mode_of(at), "rw-p") == 0);
    REQUIRE(mprotect(at, PAGE, PROT_READ) == 0);
    pid_t child = fork();
    if (child == 0) {
        at[0] = 1;
        _exit(0);
    }
    int status = child_status(child);
    CHECK("protect", "a page made read-only later refuses to be written",
          WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CHECK("protect", "and is read", filled(at, LENGTH, 10));
    REQUIRE(mprotect(at, PAGE, PROT_READ | PROT_WRITE) == 0);

    struct ibv_mr *mr = register_all(n, at, LENGTH);
    REQUIRE(mprotect(at + 2 * PAGE, PAGE, PROT_READ) == 0 && mprotect(at + 4 * PAGE, PAGE, PROT_NONE) == 0);
    CHECK_EQ("protect", "a region with pages protected meanwhile is deregistered", ibv_dereg_mr(mr), 0);
    CHECK("protect", "a page made read-only meanwhile stays so", strcmp(mode_of(at + 2 * PAGE), "r--p") == 0);
    CHECK("protect", "a page made inaccessible meanwhile stays so", strcmp(mode_of(at + 4 * PAGE), "---p") == 0);
    CHECK("protect", "the others stay as they were", strcmp(mode_of(at + 3 * PAGE), "rw-p") == 0);
    REQUIRE(mprotect(at, LENGTH, PROT_READ | PROT_WRITE) == 0);
    CHECK("protect", "and no byte is lost", filled(at, LENGTH, 10));
    REQUIRE(munmap(at, LENGTH) == 0);
}

static void locked_pages_stay_locked(struct node *n)
{
    size_t length = 8 * PAGE;
    unsigned char *at = map_pages(length);
    memset(at, 1, length);
    long before = status_kib("VmLck");
    CHECK_EQ("lock", "32 KiB are locked", mlock(at, length), 0);
    struct ibv_mr *mr = register_all(n, at, length);
    CHECK_EQ("lock", "and stay locked while they are registered", status_kib("VmLck") - before, length / 1024);
    CHECK_EQ("lock", "the peer writes locked memory", peer_writes(n, mr, at, length, 11), IBV_WC_SUCCESS);
    CHECK_EQ("lock", "the region is deregistered", ibv_dereg_mr(mr), 0);
    CHECK_EQ("lock", "and stays locked", status_kib("VmLck") - before, length / 1024);
    CHECK("lock", "and has what was written", filled(at, length, 11));
    CHECK_EQ("lock", "until it is unlocked", munlock(at, length) ? -1 : status_kib("VmLck"), before);

    mr = register_all(n, at, length);
    CHECK_EQ("lock", "memory is locked while it is registered", mlock(at, length), 0);
    CHECK_EQ("lock", "the peer writes it", peer_writes(n, mr, at, length, 12), IBV_WC_SUCCESS);
    CHECK_EQ("lock", "the region is deregistered", ibv_dereg_mr(mr), 0);
    CHECK_EQ("lock", "and stays locked", status_kib("VmLck") - before, length / 1024);
    CHECK("lock", "and has what was written", filled(at, length, 12));
    CHECK_EQ("lock", "until it is unlocked", munlock(at, length) ? -1 : status_kib("VmLck"), before);
    REQUIRE(munmap(at, length) == 0);
}

// ---- advice ---------------------------------------------------------------------------------------------------------

// Those of the flags of a mapping, in /proc/self/smaps, that a program sets by advice.
static void advice_of(const void *at, char *flags, size_t room)
{
    static const char *const known[] = {"dc", "dd", "hg", "nh", "wf", "mg", "lo", "sr", "rr"};
    char line[1024];
    uint64_t start, end;
    bool ours = false;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    REQUIRE(smaps);
    flags[0] = 0;
    while (fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
            ours = start <= (uintptr_t)at && (uintptr_t)at < end;
        if (ours && strncmp(line, "VmFlags:", 8) == 0)
            for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                if (strstr(line, known[i]))
                    strncat(strncat(flags, known[i], room - strlen(flags) - 1), " ", room - strlen(flags) - 1);
    }
    fclose(smaps);
}

static void advice_is_kept(struct node *n)
{
    static const struct {
        int advice;
        const char *name;
    } advices[] = {
        {MADV_NORMAL, "no advice"},
        {MADV_DONTFORK, "MADV_DONTFORK"},
        {MADV_DONTDUMP, "MADV_DONTDUMP"},
        {MADV_WIPEONFORK, "MADV_WIPEONFORK"},
    };
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++) {
        unsigned char *at = map_pages(LENGTH);
        char before[64], after[64], sentence[256];
        if (madvise(at, LENGTH, advices[i].advice) != 0) {
            REQUIRE(munmap(at, LENGTH) == 0); // this kernel has no such thing
            continue;
        }
        memset(at, 1, LENGTH);
        advice_of(at, before, sizeof before);
        struct ibv_mr *mr = register_all(n, at, LENGTH);
        advice_of(at, after, sizeof after);
        snprintf(sentence, sizeof sentence, "%s is in force while the memory is registered (%sthen: %s)",
                 advices[i].name, before, after);
        if (advices[i].advice != MADV_NORMAL)
            CHECK("advice", sentence, strcmp(before, after) == 0);
        CHECK_EQ("advice", "the peer writes", peer_writes(n, mr, at, LENGTH, 13), IBV_WC_SUCCESS);
        CHECK_EQ("advice", "the region is deregistered", ibv_dereg_mr(mr), 0);
        advice_of(at, after, sizeof after);
        snprintf(sentence, sizeof sentence, "%s is in force afterwards as before (%safter: %s)", advices[i].name, before,
                 after);
        CHECK("advice", sentence, strcmp(before, after) == 0);
        CHECK("advice", "and the bytes are there", filled(at, LENGTH, 13));
        REQUIRE(munmap(at, LENGTH) == 0);
    }
}

// ---- the map changes while it is registered -----------------------------------------------------------------------

static void memory_unmapped_meanwhile_is_left_alone(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    memset(at, 1, LENGTH);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    CHECK_EQ("unmap", "the peer writes", peer_writes(n, mr, at, LENGTH, 14), IBV_WC_SUCCESS);
    // Pages 8 to 15 go; something else comes to 10 and 11.
    REQUIRE(munmap(at + 8 * PAGE, 8 * PAGE) == 0);
    unsigned char *other = mmap(at + 10 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    REQUIRE(other == at + 10 * PAGE);
    CHECK("unmap", "memory mapped where registered memory was is zeros", all_bytes(other, 2 * PAGE, 0));
    fill(other, 2 * PAGE, 15);
    CHECK_EQ("unmap", "the region is deregistered", ibv_dereg_mr(mr), 0);
    check_private("unmap", at, LENGTH);
    CHECK("unmap", "what was mapped meanwhile keeps its bytes", filled(other, 2 * PAGE, 15));
    CHECK("unmap", "what was unmapped stays unmapped",
          strcmp(mode_of(at + 8 * PAGE), "none") == 0 && strcmp(mode_of(at + 12 * PAGE), "none") == 0);
    static unsigned char whole[LENGTH];
    fill(whole, LENGTH, 14);
    CHECK("unmap", "what stayed keeps its bytes",
          memcmp(at, whole, 8 * PAGE) == 0 && memcmp(at + 16 * PAGE, whole + 16 * PAGE, LENGTH - 16 * PAGE) == 0);
    through_a_registration(n, other, 2 * PAGE, 16);
    REQUIRE(munmap(at, LENGTH) == 0);
}

// A new mapping at the address of a region that still lives is registered in its turn: two regions, two memories.
static void an_address_is_registered_again(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    memset(at, 1, LENGTH);
    struct ibv_mr *old = register_all(n, at, LENGTH);
    REQUIRE(munmap(at, LENGTH) == 0);
    REQUIRE(mmap(at, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);
    CHECK("again", "the new mapping is zeros", all_bytes(at, LENGTH, 0));
    memset(at, 2, LENGTH);
    struct ibv_mr *young = register_all(n, at, LENGTH);
    CHECK("again", "the new mapping keeps its bytes", all_bytes(at, LENGTH, 2));
    CHECK_EQ("again", "the peer writes by the new key", peer_writes(n, young, at, LENGTH, 17), IBV_WC_SUCCESS);
    CHECK("again", "and the program sees it", filled(at, LENGTH, 17));
    CHECK_EQ("again", "the old region is deregistered", ibv_dereg_mr(old), 0);
    CHECK("again", "which changes nothing of the new one", filled(at, LENGTH, 17));
    CHECK_EQ("again", "the peer writes once more by the new key", peer_writes(n, young, at, LENGTH, 18), IBV_WC_SUCCESS);
    CHECK("again", "and the program sees it", filled(at, LENGTH, 18));
    CHECK_EQ("again", "the new region is deregistered", ibv_dereg_mr(young), 0);
    check_private("again", at, LENGTH);
    CHECK("again", "and keeps its bytes", filled(at, LENGTH, 18));
    CHECK_EQ("again", "MADV_DONTNEED is accepted", madvise(at, LENGTH, MADV_DONTNEED), 0);
    CHECK("again", "and gives zeros", all_bytes(at, LENGTH, 0));
    REQUIRE(munmap(at, LENGTH) == 0);
}

// Regions that overlap, ended in either order: pages are shared as long as one region is on them, and no longer.
static void overlapping_regions_end_in_any_order(struct node *n)
{
    for (int order = 0; order < 2; order++) {
        unsigned char *at = map_pages(LENGTH);
        memset(at, 1, LENGTH);
        struct ibv_mr *mr[2] = {register_all(n, at, 32 * PAGE), register_all(n, at + 16 * PAGE, 32 * PAGE)};
        CHECK_EQ("overlap", "the peer writes the first", peer_writes(n, mr[0], at, 32 * PAGE, 19), IBV_WC_SUCCESS);
        CHECK("overlap", "the second shows the same bytes to the program", filled(at, 32 * PAGE, 19));
        CHECK_EQ("overlap", "one is deregistered", ibv_dereg_mr(mr[order]), 0);
        unsigned char *left = order == 0 ? at + 16 * PAGE : at;
        CHECK_EQ("overlap", "the peer writes the other", peer_writes(n, mr[!order], left, 32 * PAGE, 20), IBV_WC_SUCCESS);
        CHECK("overlap", "and the program sees it", filled(left, 32 * PAGE, 20));
        CHECK_EQ("overlap", "the other is deregistered", ibv_dereg_mr(mr[!order]), 0);
        check_private("overlap", at, LENGTH);
        CHECK("overlap", "and keeps its bytes", filled(left, 32 * PAGE, 20));
        CHECK_EQ("overlap", "MADV_DONTNEED is accepted", madvise(at, LENGTH, MADV_DONTNEED), 0);
        CHECK("overlap", "and gives zeros", all_bytes(at, LENGTH, 0));
        REQUIRE(munmap(at, LENGTH) == 0);
    }
}

static void program(struct node *n)
{
    purged_pages_are_zeros(n);
    untouched_pages_stay_untouched(n);
    a_mapping_grows_with_zeros(n);
    blocks_are_reallocated(n);
    protection_is_kept(n);
    locked_pages_stay_locked(n);
    advice_is_kept(n);
    memory_unmapped_meanwhile_is_left_alone(n);
    an_address_is_registered_again(n);
    overlapping_regions_end_in_any_order(n);
}

int main(void)
{
    return with_a_peer(program);
}
