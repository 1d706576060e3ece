// Taking memory back from peers that are in the middle of writing it: running, stopped or killed. Once the call has
// returned nothing of theirs lands any more.
//
// Usage: revocation stopped          a peer is stopped in the middle of a long write, and continued later
//        revocation killed           a peer is killed in the middle of a long write
//        revocation running ROUNDS   a peer goes on writing while the memory is taken back, so many times
//        revocation device-memory    a peer is stopped in the middle of a write to device memory, which is freed
//        revocation unreachable      a peer fetches a send from memory that it cannot map any more
//
// proves: REV-1, REV-2, REV-3, REV-4, REV-5

#include "writers.h"

#include <sys/resource.h>

#define KILLED 3
#define KILLED_LONG (64u * MIB)
#define NEW_PEER_BYTE 0xcd
// A stopped peer is waited for 2 s; the rest is for giving the pages back, and for whatever else the machine does.
#define BOUND_MS 8000

// What the library says, from here on: into a file, where the program can look it up.
static int said;

static void listen_to_the_library(void)
{
    FILE *file = tmpfile();
    REQUIRE(file && (said = dup(fileno(file))) >= 0 && dup2(said, STDERR_FILENO) == STDERR_FILENO);
    fclose(file);
}

// How many peers the library has given up so far, because they stopped inside a copy and did not leave.
static int given_up(void)
{
    static char text[65536];
    ssize_t length = pread(said, text, sizeof text - 1, 0);
    int count = 0;
    REQUIRE(length >= 0 && length < (ssize_t)sizeof text - 1);
    text[length] = 0;
    for (const char *at = text; (at = strstr(at, "a peer stopped inside an operation")); at++)
        count++;
    return count;
}

// Registers long memory, has the peer write it again and again, and returns when it is in the middle.
static struct ibv_mr *written_by(struct node *n, struct peer peer, unsigned char *at, size_t length)
{
    memset(at, 0, length);
    struct ibv_mr *mr = register_all(n, at, length);
    check_adopted("REV", at, length);
    set_to_work(peer, (struct job){WRITE_ON, mr->rkey, (uintptr_t)at, length, PEER_BYTE});
    wait_for_byte(at + length / 4, PEER_BYTE);
    return mr;
}

// ---- a stopped peer -----------------------------------------------------------------------------------------------

// Takes the memory back from a stopped peer. Returns whether the peer was stopped inside a copy.
static bool taken_back(struct ibv_mr *mr)
{
    unsigned char *at = mr->addr;
    int before = given_up();
    int64_t start = now_ns();
    CHECK_EQ("REV-2", "memory of a peer that was stopped is deregistered", ibv_dereg_mr(mr), 0);
    int64_t took = ms_since(start);
    CHECK("REV-2", "in bounded time", took < BOUND_MS);
    check_private("REV-2", at, LONG);
    printf("  deregistered under a stopped peer in %" PRId64 " ms\n", took);
    return given_up() > before;
}

// The program goes on with its memory: it is private, or registered anew and written by another peer.
static bool stopped_once(struct node *n, struct peer old, struct peer new, unsigned char *at, bool again)
{
    connect_with(n, old);
    struct ibv_mr *mr = written_by(n, old, at, LONG);
    stop(old);
    bool inside = taken_back(mr);
    if (again) {
        connect_with(n, new);
        mr = register_all(n, at, LONG);
        check_adopted("REV-2", at, LONG);
        CHECK_EQ("REV-2", "another peer writes the memory meanwhile", writes_once(new, mr, NEW_PEER_BYTE),
                 IBV_WC_SUCCESS);
    } else {
        fill(at, LONG, 5);
    }
    go_on(old);
    CHECK("REV-2", "the request of the continued peer fails", report_of(old) != IBV_WC_SUCCESS);
    if (again) {
        CHECK("REV-2", "and touches nothing of what the other wrote", all_bytes(at, LONG, NEW_PEER_BYTE));
        CHECK_EQ("REV-2", "the other's region is deregistered", ibv_dereg_mr(mr), 0);
        CHECK("REV-2", "and keeps its bytes", all_bytes(at, LONG, NEW_PEER_BYTE));
    } else {
        CHECK("REV-2", "and touches nothing of what the program wrote", filled(at, LONG, 5));
    }
    return inside;
}

static void stopped(void)
{
    struct peer old = raise_peer(), new = raise_peer();
    listen_to_the_library();
    struct node n = open_node();
    unsigned char *at = map_pages(LONG);
    for (int again = 0; again < 2; again++) {
        bool inside = false;
        for (int tries = 0; tries < 10 && !inside; tries++)
            inside = stopped_once(&n, old, new, at, again);
        CHECK("REV-2", "the peer was stopped inside a copy", inside);
    }
    struct ibv_mr *mr = register_all(&n, at, LONG);
    connect_with(&n, old);
    CHECK_EQ("REV-2", "the peer can connect once more and write", writes_once(old, mr, PEER_BYTE), IBV_WC_SUCCESS);
    CHECK("REV-2", "what it writes is there", all_bytes(at, LONG, PEER_BYTE));
    CHECK_EQ("REV-2", "the region is deregistered", ibv_dereg_mr(mr), 0);
    dismiss(old);
    dismiss(new);
    close_node(&n);
}

// ---- a killed peer ------------------------------------------------------------------------------------------------

static void killed(void)
{
    struct peer peers[KILLED + 1];
    for (int i = 0; i <= KILLED; i++)
        peers[i] = raise_peer();
    listen_to_the_library();
    struct node n = open_node();
    unsigned char *at = map_pages(KILLED_LONG);
    for (int i = 0; i < KILLED; i++) {
        connect_with(&n, peers[i]);
        struct ibv_mr *mr = written_by(&n, peers[i], at, KILLED_LONG);
        REQUIRE(kill(peers[i].pid, SIGKILL) == 0);
        int64_t start = now_ns();
        CHECK_EQ("REV-3", "memory of a peer that was just killed is deregistered", ibv_dereg_mr(mr), 0);
        int64_t took = ms_since(start);
        CHECK_EQ("REV-3", "without waiting as for one that was stopped", given_up(), 0);
        CHECK("REV-3", "and soon", took < BOUND_MS);
        printf("  deregistered under a killed peer in %" PRId64 " ms\n", took);
        fill(at, KILLED_LONG, i);
        REQUIRE(WIFSIGNALED(child_status(peers[i].pid)));
        CHECK("REV-3", "nothing lands after that", filled(at, KILLED_LONG, i));
    }
    struct ibv_mr *mr = register_all(&n, at, KILLED_LONG);
    connect_with(&n, peers[KILLED]);
    CHECK_EQ("REV-3", "the next peer writes", writes_once(peers[KILLED], mr, NEW_PEER_BYTE), IBV_WC_SUCCESS);
    CHECK("REV-3", "what it writes is there", all_bytes(at, KILLED_LONG, NEW_PEER_BYTE));
    CHECK_EQ("REV-3", "the region is deregistered", ibv_dereg_mr(mr), 0);
    dismiss(peers[KILLED]);
    close_node(&n);
}

// ---- a running peer -----------------------------------------------------------------------------------------------

static void running(unsigned rounds)
{
    struct peer peer = raise_peer();
    struct node n = open_node();
    unsigned char *at = map_pages(MIB);
    unsigned refused = 0, landed = 0, kept = 0, private = 0;
    for (unsigned round = 0; round < rounds; round++) {
        connect_with(&n, peer);
        memset(at, 0, MIB);
        struct ibv_mr *mr = register_all(&n, at, MIB);
        set_to_work(peer, (struct job){WRITE_MIXED_ON, mr->rkey, (uintptr_t)at, MIB, PEER_BYTE});
        // The first and the last byte, the middle, and anything between: the call comes at all points of a write.
        wait_for_byte(at + (uint64_t)round * 7919 % MIB, PEER_BYTE);
        REQUIRE(ibv_dereg_mr(mr) == 0);
        private += adopted_bytes(at, MIB) == 0;
        // Every other time the same pages are where peers can write them again, under a key that nobody is told.
        mr = round % 2 ? register_all(&n, at, MIB) : NULL;
        fill(at, MIB, round);
        kept += filled(at, MIB, round);
        // The peer reports when its last request has completed: nothing of it is under way any more.
        refused += report_of(peer) == IBV_WC_REM_ACCESS_ERR;
        landed += !filled(at, MIB, round);
        REQUIRE(!mr || ibv_dereg_mr(mr) == 0);
    }
    CHECK_EQ("REV-1", "rounds in which the bytes were the program's own at once", kept, rounds);
    CHECK_EQ("REV-1", "rounds in which the pages were", private, rounds);
    CHECK_EQ("REV-1", "rounds in which the peer's request was refused for its key", refused, rounds);
    CHECK_EQ("REV-1", "rounds in which anything landed after the call had returned", landed, 0);
    dismiss(peer);
    close_node(&n);
}

// ---- device memory ------------------------------------------------------------------------------------------------

#define DEVICE_LONG (40u * MIB) // more than half of the 64 MiB there are
#define DEVICE_REST (20u * MIB)

static struct ibv_dm *allocate(struct node *n, size_t length)
{
    struct ibv_alloc_dm_attr attr = {.length = length};
    errno = 0;
    return ibv_alloc_dm(n->context, &attr);
}

static void wait_for_device_byte(struct ibv_dm *dm, uint64_t offset)
{
    unsigned char word[4] = {0};
    int64_t start = now_ns();
    while (word[0] != PEER_BYTE) {
        REQUIRE(ms_since(start) < PATIENCE_MS);
        REQUIRE(ibv_memcpy_from_dm(word, dm, offset, sizeof word) == 0);
    }
}

static bool device_memory_stopped_once(struct node *n, struct peer peer, unsigned char *copy)
{
    struct ibv_dm *dm, *rest;
    struct ibv_mr *mr;
    connect_with(n, peer);
    REQUIRE(dm = allocate(n, DEVICE_LONG));
    REQUIRE(mr = ibv_reg_dm_mr(n->pd, dm, 0, DEVICE_LONG, ALL_REMOTE | IBV_ACCESS_ZERO_BASED));
    set_to_work(peer, (struct job){WRITE_ON, mr->rkey, 0, DEVICE_LONG, PEER_BYTE});
    wait_for_device_byte(dm, DEVICE_LONG / 4);
    stop(peer);
    int before = given_up();
    int64_t start = now_ns();
    CHECK_EQ("REV-4", "device memory under a stopped peer is deregistered", ibv_dereg_mr(mr), 0);
    CHECK_EQ("REV-4", "and freed", ibv_free_dm(dm), 0);
    int64_t took = ms_since(start);
    CHECK("REV-4", "in bounded time", took < BOUND_MS);
    bool inside = given_up() > before;
    if (inside)
        CHECK_NULL("REV-4", "its place is not given out while the peer can write there", allocate(n, DEVICE_LONG),
                   ENOMEM);
    REQUIRE(rest = allocate(n, DEVICE_REST));
    fill(copy, DEVICE_REST, 9);
    REQUIRE(ibv_memcpy_to_dm(rest, 0, copy, DEVICE_REST) == 0);
    go_on(peer);
    CHECK("REV-4", "the request of the continued peer fails", report_of(peer) != IBV_WC_SUCCESS);
    REQUIRE(ibv_memcpy_from_dm(copy, rest, 0, DEVICE_REST) == 0);
    CHECK("REV-4", "and touches nothing of other device memory", filled(copy, DEVICE_REST, 9));
    REQUIRE(ibv_free_dm(rest) == 0);
    start = now_ns();
    while (!(dm = allocate(n, DEVICE_LONG)) && ms_since(start) < PATIENCE_MS)
        sched_yield();
    CHECK("REV-4", "its place is given out again once the peer has left", dm != NULL);
    REQUIRE(dm && ibv_memcpy_from_dm(copy, dm, 0, DEVICE_LONG) == 0);
    CHECK("REV-4", "as zeros", all_bytes(copy, DEVICE_LONG, 0));
    REQUIRE(ibv_free_dm(dm) == 0);
    return inside;
}

static void device_memory(void)
{
    struct peer peer = raise_peer();
    listen_to_the_library();
    struct node n = open_node();
    unsigned char *copy = map_pages(DEVICE_LONG);
    bool inside = false;
    for (int tries = 0; tries < 10 && !inside; tries++)
        inside = device_memory_stopped_once(&n, peer, copy);
    CHECK("REV-4", "the peer was stopped inside a copy", inside);
    dismiss(peer);
    close_node(&n);
}

// ---- a send that cannot be fetched --------------------------------------------------------------------------------

#define SENDS 8

// The longest mapping of a peer's pages, or our own.
static uint64_t longest_mapping(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[1024];
    uint64_t start, end, longest = 0;
    REQUIRE(maps);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && strstr(line, "nonic-pages") &&
            end - start > longest)
            longest = end - start;
    fclose(maps);
    return longest;
}

static void receives(struct node *n, unsigned char *at, struct ibv_mr *mr)
{
    // There is room for what a link needs, which may still be on its way, but for no window onto the sender's pages: the
    // smallest has 1 GiB.
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = ((uint64_t)status_kib("VmSize") << 10) + 768 * MIB;
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    for (unsigned i = 0; i < SENDS; i++) {
        memset(at, 0, MIB);
        REQUIRE(post_receive(n->qp, i, piece(at, MIB, mr->lkey)) == 0);
        meet();
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK_EQ("REV-5", "a send from memory that cannot be mapped arrives", wc.status, IBV_WC_SUCCESS);
        size_t length = MIB >> i % 4;
        CHECK_EQ("REV-5", "whole", wc.byte_len, length);
        CHECK("REV-5", "byte by byte", filled(at, length, i) && all_bytes(at + length, MIB - length, 0));
    }
    CHECK("REV-5", "nothing of the sender's was mapped", longest_mapping() < 1024 * MIB);
}

static void unreachable(void)
{
    split();
    struct node n = open_node();
    unsigned char *at = map_pages(MIB);
    struct ibv_mr *mr = register_all(&n, at, MIB);
    check_adopted("REV-5", at, MIB);
    bring_up(&n);
    if (self.active) {
        for (unsigned i = 0; i < SENDS; i++) {
            fill(at, MIB, i);
            meet();
            REQUIRE(post(n.qp, i, SEND, piece(at, MIB >> i % 4, mr->lkey), 0, 0) == 0);
            CHECK_EQ("REV-5", "the sender's request ends well", next_completion(n.send_cq).status, IBV_WC_SUCCESS);
        }
    } else {
        receives(&n, at, mr);
    }
    CHECK_EQ("REV-5", "the region is deregistered", ibv_dereg_mr(mr), 0);
    meet();
    close_node(&n);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    if (strcmp(what, "unreachable") == 0) {
        unreachable();
        return finish();
    }
    if (strcmp(what, "stopped") == 0)
        stopped();
    else if (strcmp(what, "killed") == 0)
        killed();
    else if (strcmp(what, "running") == 0 && argc > 2)
        running((unsigned)atoi(argv[2]));
    else if (strcmp(what, "device-memory") == 0)
        device_memory();
    else
        REQUIRE(!"one of the uses above");
    return finish_alone();
}
