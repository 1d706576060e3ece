// Every kind of memory a program may register: written and read by a second process, deregistered, and as it should be
// afterwards. What cannot be registered is refused, and nothing of it changes.
//
// proves: MEM-1

#include "remote.h"

#include <sys/stat.h>
#include <ucontext.h>

#define PAGES 24u
#define LENGTH (PAGES * PAGE)
#define HUGE_PAGE (2ul << 20)

// A kind the machine cannot give: said, and counted by who runs this.
static void skip(const char *kind, const char *why)
{
    printf("SKIPPED %s: %s\n", kind, why);
}

enum lot { ORDINARY, NOT_ADOPTED, EITHER };

static void check_kind(const char *kind, const void *at, size_t length, enum lot lot)
{
    if (lot == ORDINARY)
        check_adopted(kind, at, length);
    if (lot == NOT_ADOPTED)
        CHECK_EQ(kind, "memory of this kind is not moved", adopted_bytes(at, length), 0);
}

// The whole life of a region that may be written: seed 1 before, 2 by the peer, 3 by the program, then deregistered.
static void writable(struct node *n, const char *kind, unsigned char *at, size_t length, enum lot lot)
{
    fill(at, length, 1);
    struct ibv_mr *mr = ibv_reg_mr(n->pd, at, length, ALL_REMOTE);
    CHECK(kind, "it is registered", mr != NULL);
    if (!mr)
        return;
    check_kind(kind, at, length, lot);
    CHECK(kind, "the bytes from before are there", filled(at, length, 1));
    CHECK(kind, "the peer reads what was there before", peer_reads(n, mr, at, length, 1));
    CHECK_EQ(kind, "the peer writes", peer_writes(n, mr, at, length, 2), IBV_WC_SUCCESS);
    CHECK(kind, "and the program sees it", filled(at, length, 2));
    fill(at, length, 3);
    CHECK(kind, "the peer reads what the program wrote", peer_reads(n, mr, at, length, 3));
    CHECK_EQ(kind, "it is deregistered", ibv_dereg_mr(mr), 0);
    check_private(kind, at, length);
    CHECK(kind, "and keeps its bytes", filled(at, length, 3));
    fill(at, length, 4);
    CHECK(kind, "and can be written", filled(at, length, 4));
}

static unsigned char *mapped(int protection, int flags, int fd, size_t length)
{
    void *at = mmap(NULL, length, protection, flags, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

// ---- anonymous memory --------------------------------------------------------------------------------------------------

static unsigned char initialised[3 * LENGTH] = {1};
static unsigned char zeroed[3 * LENGTH];

static void anonymous_memory(struct node *n)
{
    static const struct {
        const char *kind;
        int flags;
        enum lot lot;
    } kinds[] = {
        {"private", MAP_PRIVATE | MAP_ANONYMOUS, ORDINARY},
        {"populated", MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, ORDINARY},
        {"not reserved", MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ORDINARY},
        {"for a stack", MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, NOT_ADOPTED},
        {"shared", MAP_SHARED | MAP_ANONYMOUS, NOT_ADOPTED},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        unsigned char *at = mapped(PROT_READ | PROT_WRITE, kinds[i].flags, -1, LENGTH);
        REQUIRE(at);
        writable(n, kinds[i].kind, at, LENGTH, kinds[i].lot);
        // Not at the start of a page, nor to the end of one.
        writable(n, kinds[i].kind, at + 100, LENGTH - 300, kinds[i].lot);
        REQUIRE(munmap(at, LENGTH) == 0);
    }
    writable(n, "initialised data", initialised, sizeof initialised, EITHER);
    writable(n, "zeroed data", zeroed, sizeof zeroed, EITHER);
    unsigned char *heap = sbrk(LENGTH);
    REQUIRE(heap != (void *)-1);
    writable(n, "break", heap, LENGTH, ORDINARY);
}

static void huge_pages(struct node *n)
{
    unsigned char *at = mapped(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 4 * HUGE_PAGE);
    REQUIRE(at);
    unsigned char *aligned = (unsigned char *)(((uintptr_t)at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    if (madvise(aligned, 2 * HUGE_PAGE, MADV_HUGEPAGE) == 0)
        writable(n, "transparent huge", aligned, 2 * HUGE_PAGE, EITHER);
    else
        skip("transparent huge pages", strerror(errno));
    munmap(at, 4 * HUGE_PAGE);
    for (int shared = 0; shared < 2; shared++) {
        int flags = MAP_ANONYMOUS | MAP_HUGETLB | (shared ? MAP_SHARED : MAP_PRIVATE);
        const char *kind = shared ? "shared huge pages" : "private huge pages";
        at = mapped(PROT_READ | PROT_WRITE, flags, -1, 2 * HUGE_PAGE);
        if (at) {
            writable(n, kind, at, 2 * HUGE_PAGE, NOT_ADOPTED);
            munmap(at, 2 * HUGE_PAGE);
        } else {
            skip(kind, "none are reserved (vm.nr_hugepages)");
        }
    }
}

// ---- files -----------------------------------------------------------------------------------------------------------

static bool file_has(int fd, size_t length, unsigned seed)
{
    static unsigned char bytes[LENGTH];
    return pread(fd, bytes, length, 0) == (ssize_t)length && filled(bytes, length, seed);
}

static int temporary_file(void)
{
    char name[300];
    const char *folder = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/nonic-kinds-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(name);
    if (fd >= 0)
        unlink(name);
    return fd;
}

static int posix_shared_memory(void)
{
    char name[64];
    snprintf(name, sizeof name, "/nonic-kinds-%d", getpid());
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd >= 0)
        shm_unlink(name);
    return fd;
}

static void file_memory(struct node *n, const char *kind, int fd)
{
    static unsigned char seven[LENGTH];
    char sentence[64];
    if (fd < 0) {
        skip(kind, strerror(errno));
        return;
    }
    REQUIRE(ftruncate(fd, LENGTH) == 0);
    snprintf(sentence, sizeof sentence, "%s, shared", kind);
    unsigned char *at = mapped(PROT_READ | PROT_WRITE, MAP_SHARED, fd, LENGTH);
    REQUIRE(at);
    writable(n, sentence, at, LENGTH, NOT_ADOPTED);
    CHECK(sentence, "and the file has the bytes", file_has(fd, LENGTH, 4));
    REQUIRE(munmap(at, LENGTH) == 0);

    snprintf(sentence, sizeof sentence, "%s, private", kind);
    fill(seven, LENGTH, 7);
    REQUIRE(pwrite(fd, seven, LENGTH, 0) == LENGTH);
    at = mapped(PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, LENGTH);
    REQUIRE(at);
    CHECK(sentence, "a private mapping shows the file", filled(at, LENGTH, 7));
    writable(n, sentence, at, LENGTH, NOT_ADOPTED);
    CHECK(sentence, "and nothing of it reaches the file", file_has(fd, LENGTH, 7));
    CHECK(sentence, "MADV_DONTNEED shows the file again",
          madvise(at, LENGTH, MADV_DONTNEED) == 0 && filled(at, LENGTH, 7));
    REQUIRE(munmap(at, LENGTH) == 0);
    close(fd);
}

// ---- stacks ----------------------------------------------------------------------------------------------------------

static struct node *here;

static void on_this_stack(const char *kind)
{
    unsigned char buffer[12 * PAGE + 123];
    writable(here, kind, buffer, sizeof buffer, NOT_ADOPTED);
}

static void *in_a_thread(void *unused)
{
    on_this_stack("stack of a thread");
    return unused;
}

static ucontext_t back;
static unsigned char *coroutine_stack;
static size_t coroutine_length = 64 * PAGE;

// The whole stack, the frames in use among it: no buffer a program would choose, but one it may.
static void in_a_coroutine(void)
{
    struct ibv_mr *mr = ibv_reg_mr(here->pd, coroutine_stack, coroutine_length, ALL_REMOTE);
    CHECK("coroutine", "the stack that a coroutine runs on is registered", mr != NULL);
    if (mr) {
        CHECK_EQ("coroutine", "its unused end is written by the peer", peer_writes(here, mr, coroutine_stack, PAGE, 6),
                 IBV_WC_SUCCESS);
        CHECK("coroutine", "and seen", filled(coroutine_stack, PAGE, 6));
        CHECK_EQ("coroutine", "it is deregistered", ibv_dereg_mr(mr), 0);
        CHECK("coroutine", "and keeps its bytes", filled(coroutine_stack, PAGE, 6));
    }
}

static void stacks(struct node *n)
{
    static ucontext_t coroutine;
    pthread_t thread;
    here = n;
    on_this_stack("stack of the program");
    REQUIRE(pthread_create(&thread, NULL, in_a_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    REQUIRE(coroutine_stack = map_pages(coroutine_length));
    REQUIRE(getcontext(&coroutine) == 0);
    coroutine.uc_stack.ss_sp = coroutine_stack;
    coroutine.uc_stack.ss_size = coroutine_length;
    coroutine.uc_link = &back;
    makecontext(&coroutine, in_a_coroutine, 0);
    REQUIRE(swapcontext(&back, &coroutine) == 0);
    REQUIRE(munmap(coroutine_stack, coroutine_length) == 0);
}

// ---- protection ------------------------------------------------------------------------------------------------------

static bool dies_by_writing(unsigned char *at)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_DUMPABLE, 0); // no core of an expected end
        *(volatile unsigned char *)at = 1;
        _exit(0);
    }
    int status = child_status(child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void read_only_memory(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    fill(at, LENGTH, 1);
    REQUIRE(mprotect(at, LENGTH, PROT_READ) == 0);
    struct ibv_mr *mr = ibv_reg_mr(n->pd, at, LENGTH, IBV_ACCESS_REMOTE_READ);
    CHECK("read-only", "read-only memory is registered for reading", mr != NULL);
    REQUIRE(mr);
    CHECK("read-only", "the peer reads", peer_reads(n, mr, at, LENGTH, 1));
    CHECK_EQ("read-only", "the peer's write is refused", peer_writes(n, mr, at, LENGTH, 2), IBV_WC_REM_ACCESS_ERR);
    CHECK("read-only", "and changes nothing", filled(at, LENGTH, 1));
    CHECK("read-only", "nor may the program write it", dies_by_writing(at));
    CHECK_EQ("read-only", "it is deregistered", ibv_dereg_mr(mr), 0);
    check_private("read-only", at, LENGTH);
    CHECK("read-only", "the program may not write it afterwards either", dies_by_writing(at));
    CHECK("read-only", "and it keeps its bytes", filled(at, LENGTH, 1));
    CHECK_NULL("read-only", "read-only memory is not registered for writing", ibv_reg_mr(n->pd, at, LENGTH, ALL_REMOTE),
               EFAULT);
    CHECK("read-only", "and keeps its bytes", filled(at, LENGTH, 1));
    REQUIRE(munmap(at, LENGTH) == 0);
}

static void refused_with_nothing_changed(struct node *n, const char *kind, unsigned char *at, bool mapped_there)
{
    static unsigned char whole[LENGTH];
    fill(whole, LENGTH, 1);
    CHECK_NULL(kind, "the region is refused", ibv_reg_mr(n->pd, at, LENGTH, ALL_REMOTE), EFAULT);
    CHECK_EQ(kind, "no page of it is shared", adopted_bytes(at, LENGTH), 0);
    CHECK(kind, "every byte before and behind is as it was",
          memcmp(at, whole, 8 * PAGE) == 0 && memcmp(at + 10 * PAGE, whole + 10 * PAGE, LENGTH - 10 * PAGE) == 0);
    if (mapped_there) {
        CHECK(kind, "the page in the middle is as inaccessible as it was", dies_by_writing(at + 8 * PAGE));
        REQUIRE(mprotect(at, LENGTH, PROT_READ | PROT_WRITE) == 0);
        CHECK(kind, "and its bytes are there when it is accessible again", memcmp(at, whole, LENGTH) == 0);
    } else {
        unsigned char seen;
        CHECK(kind, "the hole is still a hole", mincore(at + 8 * PAGE, PAGE, &seen) == -1 && errno == ENOMEM);
    }
    REQUIRE(munmap(at, LENGTH) == 0);
}

static void pages_in_the_middle(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    fill(at, LENGTH, 1);
    REQUIRE(mprotect(at + 8 * PAGE, 2 * PAGE, PROT_NONE) == 0);
    refused_with_nothing_changed(n, "inaccessible middle", at, true);
    at = map_pages(LENGTH);
    fill(at, LENGTH, 1);
    REQUIRE(munmap(at + 8 * PAGE, 2 * PAGE) == 0);
    refused_with_nothing_changed(n, "hole in the middle", at, false);
}

static void guard_pages(struct node *n)
{
    unsigned char *at = map_pages(LENGTH + 2 * PAGE);
    REQUIRE(mprotect(at, PAGE, PROT_NONE) == 0 && mprotect(at + PAGE + LENGTH, PAGE, PROT_NONE) == 0);
    writable(n, "between guard pages", at + PAGE, LENGTH, ORDINARY);
    CHECK("between guard pages", "the guards still guard", dies_by_writing(at) && dies_by_writing(at + PAGE + LENGTH));
    REQUIRE(munmap(at, LENGTH + 2 * PAGE) == 0);
}

// One region over private memory, then shared, then private again.
static void several_kinds_at_once(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    REQUIRE(mmap(at + 8 * PAGE, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            at + 8 * PAGE);
    writable(n, "several kinds", at, LENGTH, EITHER);
    REQUIRE(munmap(at, LENGTH) == 0);
}

static void program(struct node *n)
{
    anonymous_memory(n);
    huge_pages(n);
    file_memory(n, "memfd", memfd_create("kinds", MFD_CLOEXEC));
    file_memory(n, "POSIX shared memory", posix_shared_memory());
    file_memory(n, "file", temporary_file());
    stacks(n);
    read_only_memory(n);
    pages_in_the_middle(n);
    guard_pages(n);
    several_kinds_at_once(n);
}

int main(void)
{
    return with_a_peer(program);
}
