// fork, exec, vfork and posix_spawn around registered memory: each process has its own bytes, while memory is registered
// and afterwards.
//
// Usage: forks [fork-init]      with `ibv_fork_init` first: the child may then miss the memory, as the manual page says
//        forks load COUNT       only forks under load, so many of them
//
// proves: MEM-3

#include "remote.h"

#include <spawn.h>

#define PAGES 32u
#define LENGTH (PAGES * PAGE)
#define HALF (LENGTH / 2)

static bool fork_init;
static int under_load; // how many forks, if nothing else is to be done

// A child and the line to it. One byte from the parent is "go on", one byte from the child is "done, and all is well".
struct child {
    pid_t pid;
    int line;
};

static struct child raise_child(void (*life)(int line, unsigned char *at), unsigned char *at)
{
    int ends[2];
    struct child child;
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    REQUIRE((child.pid = fork()) >= 0);
    if (child.pid == 0) {
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        life(ends[1], at);
        _exit(0);
    }
    close(ends[1]);
    child.line = ends[0];
    return child;
}

// In the child: says whether all is well, and waits for the parent to go on.
static void report_and_wait(int line, bool well)
{
    char byte = well;
    if (write(line, &byte, 1) != 1 || read(line, &byte, 1) != 1)
        _exit(9);
}

static bool hears_that_all_is_well(struct child child)
{
    char byte = 0;
    struct pollfd p = {.fd = child.line, .events = POLLIN};
    return poll(&p, 1, PATIENCE_MS) == 1 && read(child.line, &byte, 1) == 1 && byte == 1;
}

static void let_go_on(struct child child)
{
    char byte = 1;
    REQUIRE(send(child.line, &byte, 1, MSG_NOSIGNAL) == 1);
}

static void ends_well(struct child child, const char *sentence)
{
    let_go_on(child);
    CHECK_EQ("fork", sentence, child_status(child.pid), 0);
    close(child.line);
}

// ---- both sides write ----------------------------------------------------------------------------------------------

// Writes the first half and only looks at the second, which the parent and its peer write meanwhile.
static void writes_its_half(int line, unsigned char *at)
{
    static unsigned char whole[LENGTH];
    fill(whole, LENGTH, 1);
    bool inherited = filled(at, LENGTH, 1);
    memset(at, 0x66, HALF);
    report_and_wait(line, inherited);
    bool alone = all_bytes(at, HALF, 0x66);
    bool as_forked = memcmp(at + HALF, whole + HALF, HALF) == 0;
    report_and_wait(line, alone && as_forked);
    // The parent has deregistered.
    alone = all_bytes(at, HALF, 0x66) && memcmp(at + HALF, whole + HALF, HALF) == 0;
    memset(at, 0x67, LENGTH);
    report_and_wait(line, alone && all_bytes(at, LENGTH, 0x67));
}

static void both_write_while_registered(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    check_adopted("fork", at, LENGTH);
    CHECK_EQ("fork", "the peer writes", peer_writes(n, mr, at, LENGTH, 1), IBV_WC_SUCCESS);
    struct child child = raise_child(writes_its_half, at);
    CHECK("fork", "a child has every byte and writes", hears_that_all_is_well(child));
    CHECK("fork", "which the parent does not see", filled(at, LENGTH, 1));
    CHECK("fork", "nor its peer", peer_reads(n, mr, at, LENGTH, 1));
    CHECK_EQ("fork", "the peer writes again", peer_writes(n, mr, at, LENGTH, 2), IBV_WC_SUCCESS);
    CHECK("fork", "and the parent sees that", filled(at, LENGTH, 2));
    memset(at + HALF, 0x31, HALF);
    let_go_on(child);
    CHECK("fork", "neither the peer's bytes nor the parent's reach the child", hears_that_all_is_well(child));
    CHECK_EQ("fork", "the region is deregistered while the child lives", ibv_dereg_mr(mr), 0);
    check_private("fork", at, LENGTH);
    memset(at, 0x32, LENGTH);
    let_go_on(child);
    CHECK("fork", "which takes nothing from the child", hears_that_all_is_well(child));
    CHECK("fork", "and the parent's bytes are its own", all_bytes(at, LENGTH, 0x32));
    ends_well(child, "and the child ends well");
    REQUIRE(munmap(at, LENGTH) == 0);
}

static void both_write_afterwards(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    CHECK_EQ("fork", "the peer writes", peer_writes(n, mr, at, LENGTH, 1), IBV_WC_SUCCESS);
    CHECK_EQ("fork", "the region is deregistered", ibv_dereg_mr(mr), 0);
    struct child child = raise_child(writes_its_half, at);
    CHECK("fork", "a child forked after that has every byte and writes", hears_that_all_is_well(child));
    CHECK("fork", "which the parent does not see", filled(at, LENGTH, 1));
    memset(at, 0x33, LENGTH);
    let_go_on(child);
    CHECK("fork", "nor the child what the parent writes", hears_that_all_is_well(child));
    let_go_on(child);
    CHECK("fork", "to the end", hears_that_all_is_well(child));
    CHECK("fork", "and the parent's bytes are its own", all_bytes(at, LENGTH, 0x33));
    ends_well(child, "and the child ends well");
    REQUIRE(munmap(at, LENGTH) == 0);
}

// ---- a child that forks, and one that opens the device ------------------------------------------------------------------

static void forks_in_turn(int line, unsigned char *at)
{
    pid_t grandchild = fork();
    if (grandchild == 0) {
        bool inherited = filled(at, LENGTH, 1);
        memset(at, 0x44, LENGTH);
        _exit(inherited ? 0 : 1);
    }
    int status = child_status(grandchild);
    report_and_wait(line, status == 0 && filled(at, LENGTH, 1));
}

static void a_grandchild_has_its_own_bytes(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    CHECK_EQ("fork", "the peer writes", peer_writes(n, mr, at, LENGTH, 1), IBV_WC_SUCCESS);
    struct child child = raise_child(forks_in_turn, at);
    CHECK("fork", "a grandchild has every byte, and a child sees nothing of what it writes",
          hears_that_all_is_well(child));
    CHECK("fork", "nor does the parent", filled(at, LENGTH, 1));
    ends_well(child, "and the child ends well");
    CHECK_EQ("fork", "the region is deregistered", ibv_dereg_mr(mr), 0);
    REQUIRE(munmap(at, LENGTH) == 0);
}

// Its own device, its own region at the address of the parent's, its own transfers, to itself.
static void registers_the_same_memory(int line, unsigned char *at)
{
    struct node n = open_node();
    REQUIRE(n.qp = make_qp(&n, IBV_QPT_RC));
    struct card ours = card_of(&n);
    struct ibv_mr *mr = register_all(&n, at, LENGTH);
    bool well = to_init(&n) == 0 && to_rtr(&n, &ours) == 0 && to_rts(&n, ours.psn) == 0;
    well = well && filled(at, LENGTH, 1);
    fill(n.buffer, HALF, 5);
    well = well && post(n.qp, 1, WRITE, piece(n.buffer, HALF, n.mr->lkey), (uintptr_t)at, mr->rkey) == 0 &&
           next_completion(n.send_cq).status == IBV_WC_SUCCESS && filled(at, HALF, 5);
    report_and_wait(line, well);
    // The parent has written, and so has its peer.
    well = filled(at, HALF, 5);
    well = ibv_dereg_mr(mr) == 0 && filled(at, HALF, 5) && well;
    report_and_wait(line, well && adopted_bytes(at, LENGTH) == 0);
}

static void a_child_registers_what_its_parent_has_registered(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    CHECK_EQ("fork", "the peer writes", peer_writes(n, mr, at, LENGTH, 1), IBV_WC_SUCCESS);
    struct child child = raise_child(registers_the_same_memory, at);
    CHECK("fork", "a child opens the device and registers the same addresses", hears_that_all_is_well(child));
    CHECK("fork", "and what is written there does not reach the parent", filled(at, LENGTH, 1));
    CHECK_EQ("fork", "the peer writes", peer_writes(n, mr, at, LENGTH, 3), IBV_WC_SUCCESS);
    CHECK("fork", "and the parent sees that", filled(at, LENGTH, 3));
    let_go_on(child);
    CHECK("fork", "and the child does not, and deregisters", hears_that_all_is_well(child));
    CHECK("fork", "which changes nothing of the parent's", filled(at, LENGTH, 3));
    ends_well(child, "and the child ends well");
    CHECK("fork", "after the child's end the peer still reads the parent's bytes", peer_reads(n, mr, at, LENGTH, 3));
    CHECK_EQ("fork", "the region is deregistered", ibv_dereg_mr(mr), 0);
    CHECK("fork", "and has its bytes", filled(at, LENGTH, 3));
    REQUIRE(munmap(at, LENGTH) == 0);
}

// ---- other programs ------------------------------------------------------------------------------------------------

static int spawned(char *const *words)
{
    extern char **environ;
    pid_t pid;
    return posix_spawn(&pid, words[0], NULL, NULL, words, environ) ? -1 : child_status(pid);
}

static int exec_after(pid_t (*how)(void), char *const *words)
{
    pid_t pid = how();
    if (pid == 0) {
        execv(words[0], words);
        _exit(127);
    }
    return child_status(pid);
}

static void other_programs_are_started(struct node *n)
{
    static char *const words[] = {"/bin/sh", "-c", "exit 7", NULL};
    unsigned char *at = map_pages(LENGTH);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    for (unsigned i = 0; i < 20; i++) {
        CHECK_EQ("exec", "the peer writes", peer_writes(n, mr, at, LENGTH, i), IBV_WC_SUCCESS);
        int status = -1;
        switch (i % 4) {
        case 0: status = exec_after(fork, words); break;
        case 1: status = exec_after(vfork, words); break;
        case 2: status = spawned(words); break;
        default: status = system("exit 7"); break;
        }
        CHECK_EQ("exec", "a program is started by fork, vfork, posix_spawn or system, and ends as it should", status,
                 7 << 8);
        CHECK("exec", "and no byte is lost", filled(at, LENGTH, i));
    }
    CHECK_EQ("exec", "the region is deregistered", ibv_dereg_mr(mr), 0);
    CHECK("exec", "and no byte is lost", filled(at, LENGTH, 19));
    REQUIRE(munmap(at, LENGTH) == 0);
}

// ---- forks while another thread registers ----------------------------------------------------------------------------

static volatile bool enough;

struct registrar {
    struct node *n;
    uint64_t rounds, wrong;
};

static void *registers_all_the_time(void *argument)
{
    struct registrar *r = argument;
    unsigned char *at = map_pages(LENGTH);
    while (!enough) {
        unsigned seed = (unsigned)r->rounds++;
        fill(at, LENGTH, seed);
        struct ibv_mr *mr = register_all(r->n, at, LENGTH);
        r->wrong += !filled(at, LENGTH, seed);
        r->wrong += peer_writes(r->n, mr, at, PAGE, seed + 1) != IBV_WC_SUCCESS;
        r->wrong += ibv_dereg_mr(mr) != 0;
        r->wrong += !filled(at, PAGE, seed + 1);
        r->wrong += madvise(at, LENGTH, MADV_DONTNEED) != 0 || !all_bytes(at, LENGTH, 0);
    }
    munmap(at, LENGTH);
    return NULL;
}

// Regions that live through all of it, of every length up to the whole.
#define LIVE 8
static unsigned char *live[LIVE];

static size_t live_length(int i) { return (size_t)(i + 1) * LENGTH / LIVE - (i % 2 ? 0 : 100); }

static void looks_and_writes(int line, unsigned char *at)
{
    bool inherited = filled(at, LENGTH, 1);
    memset(at, 0x55, LENGTH);
    for (int i = 0; i < LIVE; i++) {
        inherited = inherited && filled(live[i], live_length(i), 10 + i);
        memset(live[i], 0x56, live_length(i));
    }
    report_and_wait(line, inherited);
}

static void forks_meet_registrations(struct node *n, int count)
{
    unsigned char *at = map_pages(LENGTH);
    struct ibv_mr *mr = register_all(n, at, LENGTH), *live_mr[LIVE];
    struct registrar registrar = {.n = n};
    pthread_t thread;
    uint64_t wrong = 0;
    int64_t start = now_ns();
    CHECK_EQ("fork", "the peer writes", peer_writes(n, mr, at, LENGTH, 1), IBV_WC_SUCCESS);
    for (int i = 0; i < LIVE; i++) {
        live[i] = map_pages(LENGTH);
        live_mr[i] = register_all(n, live[i], live_length(i));
        CHECK_EQ("fork", "and elsewhere", peer_writes(n, live_mr[i], live[i], live_length(i), 10 + i), IBV_WC_SUCCESS);
    }
    REQUIRE(pthread_create(&thread, NULL, registers_all_the_time, &registrar) == 0);
    for (int i = 0; i < count; i++) {
        struct child child = raise_child(looks_and_writes, at);
        wrong += !hears_that_all_is_well(child);
        wrong += !filled(at, LENGTH, 1);
        let_go_on(child);
        wrong += child_status(child.pid) != 0;
        close(child.line);
        wrong += !filled(live[i % LIVE], live_length(i % LIVE), 10 + i % LIVE);
    }
    enough = true;
    REQUIRE(pthread_join(thread, NULL) == 0);
    printf("     %d forks, %" PRIu64 " registrations meanwhile, %" PRId64 " ms\n", count, registrar.rounds,
           (now_ns() - start) / 1000000);
    CHECK_EQ("fork", "all children and their parent have their own bytes while another thread registers", wrong, 0);
    CHECK("fork", "which goes on meanwhile", registrar.rounds > 0);
    CHECK_EQ("fork", "and loses nothing", registrar.wrong, 0);
    CHECK_EQ("fork", "the region is deregistered", ibv_dereg_mr(mr), 0);
    REQUIRE(munmap(at, LENGTH) == 0);
    for (int i = 0; i < LIVE; i++) {
        CHECK_EQ("fork", "so are those that lived through it", ibv_dereg_mr(live_mr[i]), 0);
        CHECK("fork", "and keep their bytes", filled(live[i], live_length(i), 10 + i));
        REQUIRE(munmap(live[i], LENGTH) == 0);
    }
}

// ---- ibv_fork_init -----------------------------------------------------------------------------------------------------

// With ibv_fork_init a child has either no such memory or bytes of its own: never the parent's.
static void fork_init_keeps_apart(struct node *n)
{
    unsigned char *at = map_pages(LENGTH);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    check_adopted("fork-init", at, LENGTH);
    CHECK_EQ("fork-init", "the peer writes", peer_writes(n, mr, at, LENGTH, 1), IBV_WC_SUCCESS);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_DUMPABLE, 0); // no core of an expected end
        bool inherited = filled(at, LENGTH, 1);
        memset(at, 0x66, LENGTH);
        _exit(inherited ? 0 : 1);
    }
    int status = child_status(child);
    CHECK("fork-init", "a child has no such memory or bytes of its own",
          status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
    CHECK("fork-init", "the parent's bytes stay", filled(at, LENGTH, 1));
    CHECK_EQ("fork-init", "the peer writes", peer_writes(n, mr, at, LENGTH, 2), IBV_WC_SUCCESS);
    CHECK("fork-init", "and the parent sees that", filled(at, LENGTH, 2));
    CHECK_EQ("fork-init", "the region is deregistered", ibv_dereg_mr(mr), 0);
    if ((child = fork()) == 0) {
        bool inherited = filled(at, LENGTH, 2);
        memset(at, 0x66, LENGTH);
        _exit(inherited ? 0 : 1);
    }
    CHECK_EQ("fork-init", "a child forked after that has every byte", child_status(child), 0);
    CHECK("fork-init", "and the parent its own", filled(at, LENGTH, 2));
    REQUIRE(munmap(at, LENGTH) == 0);
}

static void program(struct node *n)
{
    if (under_load) {
        forks_meet_registrations(n, under_load);
        return;
    }
    if (fork_init) {
        fork_init_keeps_apart(n);
    } else {
        both_write_while_registered(n);
        both_write_afterwards(n);
        a_grandchild_has_its_own_bytes(n);
        a_child_registers_what_its_parent_has_registered(n);
    }
    other_programs_are_started(n);
    if (!fork_init)
        forks_meet_registrations(n, 60);
}

int main(int argc, char **argv)
{
    under_load = argc > 2 && strcmp(argv[1], "load") == 0 ? atoi(argv[2]) : 0;
    fork_init = argc > 1 && strcmp(argv[1], "fork-init") == 0;
    if (fork_init && ibv_fork_init() != 0) {
        printf("FAIL ibv_fork_init refuses\n0 passed, 1 failed\n");
        return 1;
    }
    return with_a_peer(program);
}
