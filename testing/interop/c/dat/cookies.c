// Memory that processes share by a cookie: a cookie names one memory for all processes of a user, of whatever kind the memory
// is, for as long as one of them uses it, however each of them ends. What peers see of it where it is not coherent is one for
// all of them. proves: LMR-5 LMR-6 LMR-7 LMR-12 SYNC-2 SYNC-4

#include "ends.h"

#include <sys/ipc.h>
#include <sys/shm.h>

#define LENGTH (3 * PAGE)

// What both ends know of a memory before either maps it.
static int descriptor, other_descriptor;
static int segment, other_segment;
static char name[64], other_name[64], path[64], other_path[64];
static unsigned char *inherited, *other_inherited;

enum kind { INHERITED, MEMFD, POSIX, SYSTEM_V, ORDINARY_FILE, KINDS };
static const char *const KIND[] = {"inherited", "a memfd", "of shm_open", "of System V", "a file"};

static int new_file(const char *where, bool posix)
{
    int file = posix ? shm_open(where, O_RDWR | O_CREAT, 0600) : open(where, O_RDWR | O_CREAT, 0600);
    REQUIRE(file >= 0 && ftruncate(file, LENGTH) == 0);
    return file;
}

static void prepare_memory(void)
{
    int pid = (int)getpid();
    inherited = fresh_pages(LENGTH, MAP_SHARED);
    other_inherited = fresh_pages(LENGTH, MAP_SHARED);
    descriptor = (int)syscall(SYS_memfd_create, "one", 0);
    other_descriptor = (int)syscall(SYS_memfd_create, "other", 0);
    REQUIRE(ftruncate(descriptor, LENGTH) == 0 && ftruncate(other_descriptor, LENGTH) == 0);
    segment = shmget(IPC_PRIVATE, LENGTH, IPC_CREAT | 0600);
    other_segment = shmget(IPC_PRIVATE, LENGTH, IPC_CREAT | 0600);
    REQUIRE(segment >= 0 && other_segment >= 0);
    snprintf(name, sizeof name, "/nonic-cookies-one.%d", pid);
    snprintf(other_name, sizeof name, "/nonic-cookies-other.%d", pid);
    snprintf(path, sizeof path, "/tmp/nonic-cookies-one.%d", pid);
    snprintf(other_path, sizeof path, "/tmp/nonic-cookies-other.%d", pid);
    close(new_file(name, true));
    close(new_file(other_name, true));
    close(new_file(path, false));
    close(new_file(other_path, false));
}

static void remove_memory(void)
{
    shmctl(segment, IPC_RMID, NULL);
    shmctl(other_segment, IPC_RMID, NULL);
    shm_unlink(name);
    shm_unlink(other_name);
    unlink(path);
    unlink(other_path);
}

// Memory of a kind, mapped anew: this process's view of what both have, or of the other one.
static unsigned char *map_memory(enum kind kind, bool other)
{
    if (kind == INHERITED)
        return other ? other_inherited : inherited;
    if (kind == SYSTEM_V) {
        void *at = shmat(other ? other_segment : segment, NULL, 0);
        REQUIRE(at != (void *)-1);
        return at;
    }
    int file = kind == MEMFD   ? dup(other ? other_descriptor : descriptor)
               : kind == POSIX ? new_file(other ? other_name : name, true)
                               : new_file(other ? other_path : path, false);
    unsigned char *at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(at != MAP_FAILED);
    close(file);
    return at;
}

// A region of an end's.
struct region {
    DAT_LMR_HANDLE handle;
    DAT_LMR_CONTEXT local;
    DAT_RMR_CONTEXT remote;
    DAT_VLEN size;
    DAT_VADDR address;
};

static const struct region UNTOUCHED = {(DAT_LMR_HANDLE)0x5, 6, 7, 8, 9};
static struct region mine, theirs;
static unsigned char *theirs_at;
static pid_t program;

static DAT_RETURN share_at(struct end *e, void *at, DAT_VLEN length, int last, struct region *r)
{
    char cookie_bytes[40] = {0};
    DAT_REGION_DESCRIPTION what;
    memcpy(cookie_bytes + 1, &program, sizeof program);
    memset(cookie_bytes + 30, 0x5a, 9);
    cookie_bytes[39] = (char)last;
    what.for_shared_memory.virtual_address = at;
    what.for_shared_memory.shared_memory_id = &cookie_bytes;
    *r = UNTOUCHED;
    return dat_lmr_create(e->ia, DAT_MEM_TYPE_SHARED_VIRTUAL, what, length, e->pz, ALL_PRIVILEGES, &r->handle, &r->local,
                          &r->remote, &r->size, &r->address);
}

// At the far end: a kind, whether it is the other memory, how much of it, the cookie's last byte. The code, with its class.
static int64_t share(struct end *e, const int64_t *a)
{
    theirs_at = map_memory((enum kind)a[0], a[1]);
    return (int64_t)share_at(e, theirs_at, (DAT_VLEN)a[2], (int)a[3], &theirs);
}

static int64_t share_private(struct end *e, const int64_t *a)
{
    (void)a;
    return (int64_t)share_at(e, fresh_pages(LENGTH, MAP_PRIVATE), LENGTH, 1, &theirs);
}

static int64_t is_untouched(struct end *e, const int64_t *a)
{
    (void)e, (void)a;
    return memcmp(&theirs, &UNTOUCHED, sizeof theirs) == 0;
}

static int64_t stop_sharing(struct end *e, const int64_t *a)
{
    (void)e, (void)a;
    return dat_lmr_free(theirs.handle);
}

static int64_t their_context(struct end *e, const int64_t *a)
{
    (void)e, (void)a;
    return theirs.remote;
}

static int64_t their_address(struct end *e, const int64_t *a)
{
    (void)e, (void)a;
    return (int64_t)theirs.address;
}

// at, length, seed.
static int64_t store_there(struct end *e, const int64_t *a)
{
    (void)e;
    fill(theirs_at + a[0], (size_t)a[1], (unsigned)a[2]);
    return 0;
}

static int64_t holds_there(struct end *e, const int64_t *a)
{
    (void)e;
    return filled(theirs_at + a[0], (size_t)a[1], (unsigned)a[2]);
}

static int64_t collect_there(struct end *e, const int64_t *a)
{
    collect(e->ia, theirs.local, theirs_at + a[0], (size_t)a[1]);
    return 0;
}

static int64_t publish_there(struct end *e, const int64_t *a)
{
    publish(e->ia, theirs.local, theirs_at + a[0], (size_t)a[1]);
    return 0;
}

// ---- kinds of memory ----------------------------------------------------------------------------------------------

static void of_every_kind(void)
{
    for (enum kind kind = 0; kind < KINDS; kind++) {
        unsigned char *at = map_memory(kind, false);
        printf("# %s\n", KIND[kind]);
        CHECK_DONE("LMR-5", "memory is shared under a cookie", share_at(near, at, LENGTH, 1, &mine));
        fill(at, LENGTH, 10);
        publish(near->ia, mine.local, at, LENGTH);
        CHECK_EQ("LMR-5", "another process that says the same of other memory is refused",
                 at_far(share, kind, 1, LENGTH, 1), (int64_t)BAD_ARGUMENT(3));
        CHECK("LMR-5", "... and nothing was made", at_far(is_untouched));
        CHECK_EQ("LMR-5", "... or of less of it", at_far(share, kind, 0, LENGTH - PAGE, 1), (int64_t)BAD_ARGUMENT(3));
        for (enum kind others = 0; others < KINDS; others++)
            if (others != kind && at_far(share, others, 0, LENGTH, 1) != (int64_t)BAD_ARGUMENT(3))
                CHECK("LMR-5", KIND[others], false);
        CHECK_EQ("LMR-7", "... or of memory of its own: invalid state", at_far(share_private),
                 (int64_t)ERROR(DAT_INVALID_STATE, 0));
        CHECK("LMR-7", "... and nothing was made", at_far(is_untouched));
        CHECK_EQ("LMR-6", "under a cookie with another last byte it may", at_far(share, kind, 1, LENGTH, 2), DAT_SUCCESS);
        REQUIRE(at_far(stop_sharing) == DAT_SUCCESS);
        CHECK("LMR-5", "nothing of the memory has changed by all that", filled(at, LENGTH, 10));
        CHECK_EQ("LMR-5", "another process shares the same memory", at_far(share, kind, 0, LENGTH, 1), DAT_SUCCESS);
        // Through its region.
        DAT_RMR_CONTEXT context = (DAT_RMR_CONTEXT)at_far(their_context);
        int64_t address = at_far(their_address);
        fill(near->room, 300, 20);
        CHECK_EQ("LMR-12", "a peer writes through the other's region",
                 CALL(near, write_there, 0, 300, context, address + 4000, 0), 0);
        CHECK_EQ("SYNC-4", "... which is seen at once if memory is coherent, and not yet if not",
                 filled(at + 4000, 300, 20), coherent);
        collect(near->ia, mine.local, at + 4000, 200);
        CHECK("SYNC-2", "what one process makes consistent",
              filled(at + 4000, 200, 20) && at_far(holds_there, 4000, 200, 20));
        CHECK_EQ("SYNC-4", "... is that and no more", filled(at + 4000, 300, 20), coherent);
        at_far(collect_there, 4200, 100);
        CHECK("SYNC-2", "... and the other the rest, for both", filled(at + 4000, 300, 20));
        fill(at + 100, 50, 30);
        CHECK_EQ("LMR-12", "a peer reads what the other stored",
                 CALL(near, read_there, PAGE, 50, context, address + 100, 0), 0);
        CHECK_EQ("SYNC-4", "... if memory is coherent", filled(near->room + PAGE, 50, 30), coherent);
        publish(near->ia, mine.local, at + 100, 50);
        REQUIRE(CALL(near, read_there, PAGE, 50, context, address + 100, 0) == 0);
        CHECK("SYNC-2", "... and if not when that one says so", filled(near->room + PAGE, 50, 30));
        at_far(store_there, 8000, 50, 40);
        at_far(publish_there, 8000, 50);
        CHECK_EQ("LMR-12", "and the other way", at_far(read_there, 0, 50, mine.remote, (int64_t)mine.address + 8000, 0), 0);
        CHECK("LMR-12", "... too", at_far(room_filled, 0, 50, 40));
        MUST(dat_lmr_free(mine.handle));
        CHECK_CODE("LMR-5", "the cookie is the other's when this one has gone",
                   share_at(near, map_memory(kind, true), LENGTH, 1, &mine), BAD_ARGUMENT(3));
        REQUIRE(at_far(stop_sharing) == DAT_SUCCESS);
        CHECK_DONE("LMR-5", "... and anybody's when both have",
                   share_at(near, map_memory(kind, true), LENGTH, 1, &mine));
        MUST(dat_lmr_free(mine.handle));
    }
}

// ---- ends of processes --------------------------------------------------------------------------------------------

enum death { KILLED, EXECUTES, LEAVES, EXITS, LEAVES_A_CHILD, DEATHS };
static const char *const DEATH[] = {"was killed", "runs another program", "left at once", "exited",
                                    "left a child behind"};

// A process that uses the cookie for the other memory, says so, and goes on or ends when it is told.
static void sharer(enum death death, int say, int hear)
{
    static struct end own;
    char byte = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    own.room = fresh_pages(ROOM, MAP_PRIVATE);
    open_end(&own);
    if (share_at(&own, map_memory(MEMFD, true), LENGTH, 3, &mine) || write(say, &byte, 1) != 1)
        _exit(1);
    if (read(hear, &byte, 1) != 1)
        _exit(1);
    switch (death) {
    case EXECUTES:
        // It goes on until its input ends, which is this pipe.
        dup2(hear, 0);
        execlp("cat", "cat", (char *)NULL);
        _exit(1);
    case EXITS:
        exit(0);
    case LEAVES_A_CHILD:
        if (fork() == 0) {
            // It keeps whatever it has inherited until the test is over.
            while (read(hear, &byte, 1) > 0)
                ;
            _exit(0);
        }
        _exit(0);
    default:
        _exit(0);
    }
}

static void however_it_ends(void)
{
    chapter("however a process ends");
    for (enum death death = 0; death < DEATHS; death++) {
        int say[2], hear[2];
        char byte = 0;
        REQUIRE(pipe2(say, O_CLOEXEC) == 0 && pipe2(hear, O_CLOEXEC) == 0);
        fflush(stdout);
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            close(hear[1]);
            sharer(death, say[1], hear[0]);
        }
        REQUIRE(read(say[0], &byte, 1) == 1);
        unsigned char *at = map_memory(MEMFD, false);
        CHECK_CODE("LMR-5", "a cookie that a process uses is taken", share_at(near, at, LENGTH, 3, &mine),
                   BAD_ARGUMENT(3));
        if (death == KILLED) {
            // While it is stopped it is still its own, and is not waited for.
            int status;
            REQUIRE(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
            CHECK_CODE("LMR-5", "... also while it is stopped", share_at(near, at, LENGTH, 3, &mine), BAD_ARGUMENT(3));
            REQUIRE(kill(pid, SIGKILL) == 0);
        } else {
            REQUIRE(write(hear[1], &byte, 1) == 1);
        }
        if (death != EXECUTES)
            REQUIRE(waitpid(pid, NULL, 0) == pid);
        // When another program begins, and when a child has let go of what it inherited, cannot be waited for otherwise.
        bool later = death == EXECUTES || death == LEAVES_A_CHILD;
        DAT_RETURN code;
        int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
        while ((code = share_at(near, at, LENGTH, 3, &mine)) == BAD_ARGUMENT(3) && later && now_ns() < deadline)
            sched_yield();
        CHECK_DONE("LMR-5", DEATH[death], code);
        if (code == DAT_SUCCESS)
            MUST(dat_lmr_free(mine.handle));
        close(hear[1]);
        close(hear[0]);
        close(say[0]);
        close(say[1]);
        if (death == EXECUTES)
            REQUIRE(waitpid(pid, NULL, 0) == pid);
    }
    // And a child of this process takes nothing with it.
    unsigned char *at = map_memory(MEMFD, false);
    MUST(share_at(near, at, LENGTH, 3, &mine));
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0)
        exit(dat_lmr_free(mine.handle) == DAT_SUCCESS);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ("LMR-5", "a child cannot end its parent's regions", status, 0);
    CHECK_EQ("LMR-5", "... and does not by ending", at_far(share, MEMFD, 1, LENGTH, 3), (int64_t)BAD_ARGUMENT(3));
    CHECK_EQ("LMR-5", "... nor the sharing", at_far(share, MEMFD, 0, LENGTH, 3), DAT_SUCCESS);
    MUST(dat_lmr_free(mine.handle));
    REQUIRE(at_far(stop_sharing) == DAT_SUCCESS);
}

int main(int argc, char **argv)
{
    program = getpid();
    prepare_memory();
    begin(argc, argv);
    connect_ends();
    of_every_kind();
    part();
    however_it_ends();
    remove_memory();
    return end();
}
