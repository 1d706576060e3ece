// What a window is on memory of every kind: whether the peer maps it, whether it keeps its pages when the program unmaps the
// addresses, and that copies reach it both ways in any case.

#ifndef NONIC_SCIF_KINDS_H
#define NONIC_SCIF_KINDS_H

#include "far.h"

#include <pthread.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum lot {
    REFUSED,   // it cannot be registered
    ADDRESSES, // copied; the window follows the addresses
    HELD,      // copied; the window keeps its pages, which the peer cannot map
    MAPPED,    // copied and mapped by the peer; the window keeps its pages
};

struct kind {
    const char *name;
    unsigned char *(*make)(size_t length);
    enum lot alone, threads; // in a program with one thread; beside another one
    bool read_only;
};

// What the kernel allows this process, which some kinds depend on.
static bool may_open_mappings, has_userfaultfd, has_process_vm, has_shm;

static void look_at_environment(void)
{
    char name[64], line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end;
    do
        REQUIRE(maps && fgets(line, sizeof line, maps) && sscanf(line, "%lx-%lx", &start, &end) == 2);
    while (!strchr(line, '/'));
    fclose(maps);
    snprintf(name, sizeof name, "/proc/self/map_files/%lx-%lx", start, end);
    int file = open(name, O_RDONLY | O_CLOEXEC);
    may_open_mappings = file >= 0;
    if (file >= 0)
        close(file);
    int fault = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
    has_userfaultfd = fault >= 0;
    if (fault >= 0)
        close(fault);
    snprintf(name, sizeof name, "/nonic-kinds-try-%d", getpid());
    int shm = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    has_shm = shm >= 0;
    if (has_shm) {
        close(shm);
        REQUIRE(shm_unlink(name) == 0);
    }
    char from = 1, to = 0;
    struct iovec near = {&to, 1}, there = {&from, 1};
    has_process_vm = process_vm_readv(getpid(), &near, 1, &there, 1, 0) == 1;
}

static unsigned char *mapping(size_t length, int protection, int flags, int file, off_t offset)
{
    unsigned char *at = mmap(NULL, length, protection, flags, file, offset);
    REQUIRE(at != MAP_FAILED);
    return at;
}

static unsigned char *anonymous(size_t length, int protection, int flags)
{
    return mapping(length, protection, flags | MAP_ANONYMOUS, -1, 0);
}

#define RW (PROT_READ | PROT_WRITE)

static unsigned char *private_memory(size_t length) { return anonymous(length, RW, MAP_PRIVATE); }
static unsigned char *unreserved(size_t length) { return anonymous(length, RW, MAP_PRIVATE | MAP_NORESERVE); }
static unsigned char *populated(size_t length) { return anonymous(length, RW, MAP_PRIVATE | MAP_POPULATE); }
static unsigned char *read_only(size_t length) { return anonymous(length, PROT_READ, MAP_PRIVATE); }
static unsigned char *growing_down(size_t length) { return anonymous(length, RW, MAP_PRIVATE | MAP_GROWSDOWN); }
static unsigned char *executable(size_t length) { return anonymous(length, RW | PROT_EXEC, MAP_PRIVATE); }
static unsigned char *shared_memory(size_t length) { return anonymous(length, RW, MAP_SHARED); }

static unsigned char *shared_zero(size_t length)
{
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    REQUIRE(zero >= 0);
    unsigned char *at = mapping(length, RW, MAP_SHARED, zero, 0);
    close(zero);
    return at;
}

static unsigned char *advised(size_t length, int advice)
{
    unsigned char *at = private_memory(length);
    REQUIRE(madvise(at, length, advice) == 0);
    return at;
}

static unsigned char *not_in_children(size_t length) { return advised(length, MADV_DONTFORK); }
static unsigned char *not_in_dumps(size_t length) { return advised(length, MADV_DONTDUMP); }
static unsigned char *wiped_in_children(size_t length) { return advised(length, MADV_WIPEONFORK); }

static unsigned char *locked(size_t length)
{
    unsigned char *at = private_memory(length);
    REQUIRE(mlock(at, length) == 0);
    return at;
}

static int open_file; // stays open while a kind is tried, if it is one

static unsigned char *of_memfd(size_t length, int protection, int flags, bool stays)
{
    int file = memfd_create("pages", MFD_CLOEXEC);
    REQUIRE(file >= 0 && ftruncate(file, (off_t)length + 5 * PAGE) == 0);
    unsigned char *at = mapping(length, protection, flags, file, 2 * PAGE);
    if (stays)
        open_file = file;
    else
        close(file);
    return at;
}

static unsigned char *memfd_open(size_t length) { return of_memfd(length, RW, MAP_SHARED, true); }
static unsigned char *memfd_closed(size_t length) { return of_memfd(length, RW, MAP_SHARED, false); }
static unsigned char *memfd_read_only(size_t length) { return of_memfd(length, PROT_READ, MAP_SHARED, true); }
static unsigned char *memfd_private(size_t length) { return of_memfd(length, RW, MAP_PRIVATE, true); }

static unsigned char *of_posix(size_t length, bool stays, bool unlinked)
{
    char name[64];
    static int number;
    snprintf(name, sizeof name, "/nonic-kinds-%d-%d", getpid(), number++);
    int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    REQUIRE(file >= 0 && ftruncate(file, (off_t)length) == 0);
    unsigned char *at = mapping(length, RW, MAP_SHARED, file, 0);
    REQUIRE(!unlinked || shm_unlink(name) == 0);
    if (stays)
        open_file = file;
    else
        close(file);
    return at;
}

static unsigned char *posix_unlinked_open(size_t length) { return of_posix(length, true, true); }
static unsigned char *posix_unlinked_closed(size_t length) { return of_posix(length, false, true); }

static char linked_name[64];

static unsigned char *posix_linked(size_t length)
{
    snprintf(linked_name, sizeof linked_name, "/nonic-kinds-%d", getpid());
    int file = shm_open(linked_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    REQUIRE(file >= 0 && ftruncate(file, (off_t)length) == 0);
    unsigned char *at = mapping(length, RW, MAP_SHARED, file, 0);
    close(file);
    return at;
}

static bool is_posix(const struct kind *kind)
{
    return kind->make == posix_linked || kind->make == posix_unlinked_open || kind->make == posix_unlinked_closed;
}

static unsigned char *of_system_v(size_t length, int flags, bool removed)
{
    int id = shmget(IPC_PRIVATE, length, IPC_CREAT | 0600);
    REQUIRE(id >= 0);
    unsigned char *at = shmat(id, NULL, flags);
    REQUIRE(at != (void *)-1);
    if (removed)
        REQUIRE(shmctl(id, IPC_RMID, NULL) == 0);
    else
        open_file = -2 - id;
    return at;
}

static unsigned char *system_v(size_t length) { return of_system_v(length, 0, false); }
static unsigned char *system_v_removed(size_t length) { return of_system_v(length, 0, true); }
static unsigned char *system_v_read_only(size_t length) { return of_system_v(length, SHM_RDONLY, true); }

static unsigned char *system_v_closed(size_t length)
{
    int id = shmget(IPC_PRIVATE, length, IPC_CREAT | 0600);
    unsigned char *at = shmat(id, NULL, 0);
    struct shmid_ds status;
    REQUIRE(id >= 0 && at != (void *)-1 && shmctl(id, IPC_STAT, &status) == 0);
    status.shm_perm.mode = 0;
    REQUIRE(shmctl(id, IPC_SET, &status) == 0);
    open_file = -2 - id;
    return at;
}

static void forget_file(void)
{
    if (open_file >= 0)
        close(open_file);
    if (open_file < -1)
        shmctl(-2 - open_file, IPC_RMID, NULL);
    if (linked_name[0])
        shm_unlink(linked_name);
    open_file = -1;
    linked_name[0] = 0;
}

static const struct kind KINDS[] = {
    {"private memory", private_memory, MAPPED, MAPPED, false},
    {"private memory, not reserved", unreserved, MAPPED, MAPPED, false},
    {"private memory, populated", populated, MAPPED, MAPPED, false},
    {"private memory, read only", read_only, MAPPED, MAPPED, true},
    {"private memory that children do not have", not_in_children, MAPPED, MAPPED, false},
    {"private memory that is in no dump", not_in_dumps, MAPPED, MAPPED, false},
    {"private memory that is wiped in children", wiped_in_children, MAPPED, MAPPED, false},
    {"private memory that can be executed", executable, MAPPED, MAPPED, false},
    {"a private mapping of a file", memfd_private, MAPPED, MAPPED, false},
    {"a file that is open", memfd_open, MAPPED, MAPPED, false},
    {"a file, read only", memfd_read_only, MAPPED, MAPPED, true},
    {"a file that is not open and has a name", posix_linked, MAPPED, MAPPED, false},
    {"a file that is open and has no name", posix_unlinked_open, MAPPED, MAPPED, false},
    {"a file that is neither open nor has a name", posix_unlinked_closed, HELD, HELD, false},
    {"an anonymous file that is not open", memfd_closed, HELD, HELD, false},
    {"shared anonymous memory", shared_memory, MAPPED, HELD, false},
    {"a shared mapping of /dev/zero", shared_zero, MAPPED, HELD, false},
    {"a System V segment", system_v, MAPPED, MAPPED, false},
    {"a System V segment that was removed", system_v_removed, MAPPED, MAPPED, false},
    {"a System V segment, read only", system_v_read_only, MAPPED, MAPPED, true},
    {"a System V segment that nobody may attach", system_v_closed, HELD, HELD, false},
    {"locked memory", locked, ADDRESSES, ADDRESSES, false},
    {"memory that grows down", growing_down, ADDRESSES, ADDRESSES, false},
};

static enum lot expected(const struct kind *kind, bool threads)
{
    enum lot lot = threads ? kind->threads : kind->alone;
    const char *adopts = getenv("NONIC_ADOPT");
    bool never = adopts && strcmp(adopts, "never") == 0;
    // The kernel opens the file behind any mapping for those who may ask.
    if (lot == HELD && may_open_mappings)
        return MAPPED;
    bool moves = kind->make == private_memory || kind->make == unreserved || kind->make == populated ||
                 kind->make == read_only || kind->make == not_in_children || kind->make == not_in_dumps ||
                 kind->make == wiped_in_children || kind->make == executable || kind->make == memfd_private;
    if (moves && (never || (threads && !has_userfaultfd)))
        return ADDRESSES;
    if (never && !may_open_mappings && (kind->make == shared_memory || kind->make == shared_zero))
        return HELD;
    return lot;
}

// The peer stores and loads through a mapping of its own.
static void is_mapped(const struct kind *kind, unsigned char *at, size_t length, off_t offset)
{
    int64_t there = at_far(FAR_MMAP, offset, length, kind->read_only ? SCIF_PROT_READ : BOTH);
    CHECK("SCIF-5", "the peer maps it", there != -1);
    if (there == -1)
        return;
    int64_t in_room = there - (int64_t)(intptr_t)far.room;
    int64_t word;
    memcpy(&word, at + 8, 8);
    CHECK_EQ("SCIF-5", "... and loads what is there", at_far(FAR_WORD, in_room + 8), word);
    if (!kind->read_only) {
        fill(at, length, 11);
        CHECK_EQ("SCIF-5", "... and what is stored", at_far(FAR_FILLED, in_room, length, 11), 1);
        FAR_MUST(FAR_FILL, in_room, length, 12);
        CHECK("SCIF-5", "what it stores is in the memory", filled(at, length, 12));
    }
    FAR_MUST(FAR_MUNMAP, there, length);
}

// Copies both ways, through a window at `offset`.
static void is_copied(const struct kind *kind, unsigned char *at, size_t length, off_t offset)
{
    if (kind->read_only) {
        int64_t word;
        memcpy(&word, at + 100, 8);
        CHECK_DONE("scif 3.2", "the peer reads it", at_far(FAR_VREAD, 0, length, offset, SYNC), 0);
        CHECK_EQ("scif 3.2", "... as it is", at_far(FAR_WORD, 100), word);
        CHECK_REFUSED("scif 3.2", "the peer does not write it", at_far(FAR_VWRITE, 0, 8, offset, SYNC), EACCES);
        return;
    }
    fill(at, length, 3);
    CHECK_DONE("scif 3.2", "the peer reads it", at_far(FAR_VREAD, 0, length, offset, SYNC), 0);
    CHECK_EQ("scif 3.2", "... as it is", at_far(FAR_FILLED, 0, length, 3), 1);
    FAR_MUST(FAR_FILL, 0, 4000, 4);
    CHECK_DONE("scif 3.2", "the peer writes it", at_far(FAR_VWRITE, 0, 4000, offset + 50, SYNC), 0);
    CHECK("scif 3.2", "... and that is there", filled(at + 50, 4000, 4));
    CHECK("scif 3.2", "... and no more", at[49] == pattern_byte(49, 3) && at[4050] == pattern_byte(4050, 3));
}

// What the peer has mapped is not given back, nor its place, whether it is asked or the kernel.
static void stays_while_mapped(const struct kind *kind, unsigned char *at, size_t length)
{
    int prot = kind->read_only ? SCIF_PROT_READ : BOTH;
    off_t place = scif_register(epd, at, length, 0x10000, prot, FIXED);
    int64_t there = at_far(FAR_MMAP, place, length, SCIF_PROT_READ), word;
    REQUIRE(place == 0x10000 && there != -1);
    CHECK_DONE("scif 3.3", "it is unregistered while the peer has it mapped", scif_unregister(epd, place, length), 0);
    CHECK_REFUSED("scif 3.3", "... and its place stays taken", scif_register(epd, at, length, place, prot, FIXED), EADDRINUSE);
    memcpy(&word, at + 16, 8);
    CHECK_EQ("scif 3.4", "... and the mapping stays", at_far(FAR_WORD, there - (int64_t)(intptr_t)far.room + 16), word);
    FAR_MUST(FAR_MUNMAP, there, length);
    CHECK_DONE("scif 3.3", "... until it is unmapped", scif_register(epd, at, length, place, prot, FIXED), place);
    REQUIRE(scif_unregister(epd, place, length) == 0);
}

static int64_t far_reads(off_t offset)
{
    return at_far(FAR_VREAD, 0, 64, offset, SYNC);
}

// A window on memory of a kind, from its first use to its end.
static void is_of_kind(const struct kind *kind, enum lot lot, unsigned char *at, size_t length)
{
    off_t offset = scif_register(epd, at, length, 0, kind->read_only ? SCIF_PROT_READ : BOTH, 0);
    CHECK("scif 3.2", "it can be registered", offset == TOP);
    if (offset < 0)
        return;
    if (lot != MAPPED && !has_process_vm) {
        CHECK_REFUSED("scif 3.2", "the kernel does not let the peer read it", far_reads(offset), EPERM);
        CHECK_REFUSED("scif 3.4", "the peer cannot map it", at_far(FAR_MMAP, offset, length, SCIF_PROT_READ), ENOMEM);
        CHECK_DONE("scif 3.2", "it is unregistered", scif_unregister(epd, offset, length), 0);
        return;
    }
    is_copied(kind, at, length, offset);
    if (lot == MAPPED)
        is_mapped(kind, at, length, offset);
    else
        CHECK_REFUSED("scif 3.4", "the peer cannot map it", at_far(FAR_MMAP, offset, length, SCIF_PROT_READ), ENOMEM);
    int64_t before;
    if (!kind->read_only)
        fill(at, length, 5);
    memcpy(&before, at + 8, 8);
    fresh_pages(at, length);
    memset(at, 0x77, length);
    int64_t now = lot == ADDRESSES ? 0x7777777777777777 : before;
    CHECK_DONE("SCIF-7", "after munmap the peer reads", at_far(FAR_VREAD, 0, 64, offset, SYNC), 0);
    CHECK_EQ("SCIF-7", lot == ADDRESSES ? "... what the address holds" : "... the same pages", at_far(FAR_WORD, 8), now);
    if (lot == MAPPED) {
        int64_t there = at_far(FAR_MMAP, offset, length, SCIF_PROT_READ);
        CHECK("SCIF-7", "... and maps them", there != -1);
        if (there != -1) {
            CHECK_EQ("SCIF-7", "... as they are", at_far(FAR_WORD, there - (int64_t)(intptr_t)far.room + 8), before);
            FAR_MUST(FAR_MUNMAP, there, length);
        }
    }
    if (lot != ADDRESSES && !kind->read_only) {
        CHECK_DONE("SCIF-7", "... and writes them", at_far(FAR_VWRITE, 0, length, offset, SYNC), 0);
        CHECK("SCIF-7", "... and nothing else", at[0] == 0x77 && at[length - 1] == 0x77);
    }
    CHECK_DONE("scif 3.2", "it is unregistered", scif_unregister(epd, offset, length), 0);
    CHECK("scif 3.2", "... and the memory at the address is the program's", at[0] == 0x77 && at[length - 1] == 0x77);
}

static void every_kind(bool threads)
{
    size_t length = 3 * PAGE;
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        static const char *const LOTS[] = {"refused", "follows addresses", "holds pages", "mapped"};
        open_file = -1;
        if (!has_shm && is_posix(&KINDS[i])) {
            printf("# %s: there is no /dev/shm to have it from\n", KINDS[i].name);
            continue;
        }
        enum lot lot = expected(&KINDS[i], threads);
        printf("# %s%s: %s\n", KINDS[i].name, threads ? ", beside a thread" : "", LOTS[lot]);
        // Twice: what was registered before is as good as new.
        unsigned char *at = KINDS[i].make(length);
        off_t offset = scif_register(epd, at, length, 0, KINDS[i].read_only ? SCIF_PROT_READ : BOTH, 0);
        CHECK("scif 3.2", "it can be registered and unregistered",
              offset == TOP && scif_unregister(epd, offset, length) == 0);
        if (lot == MAPPED)
            stays_while_mapped(&KINDS[i], at, length);
        is_of_kind(&KINDS[i], lot, at, length);
        munmap(at, length);
        forget_file();
    }
}

// ---- beside another thread ---------------------------------------------------------------------------------------

static void *idle(void *end)
{
    char byte;
    REQUIRE(read(*(int *)end, &byte, 1) == 0);
    return NULL;
}

static void every_kind_beside_a_thread(void)
{
    pthread_t thread;
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0 && pthread_create(&thread, NULL, idle, &ends[0]) == 0);
    every_kind(true);
    close(ends[1]);
    REQUIRE(pthread_join(thread, NULL) == 0);
    close(ends[0]);
}

#endif
