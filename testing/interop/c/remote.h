// For programs that look closely at their own memory: a second process that writes it and reads it on request, and
// what the kernel says about the pages.
//
// The active process is the program under test and runs alone in `main`; the passive one does what it is told. So a
// scenario reads from top to bottom, and the bytes still come from another process.

#ifndef NONIC_INTEROP_REMOTE_H
#define NONIC_INTEROP_REMOTE_H

#include "peers.h"

#include <pthread.h>

#define PAGE 4096u

enum errand { WRITE_ERRAND = 1, READ_ERRAND, END_ERRAND };

// Both without padding, which valgrind would call uninitialised.
struct order {
    enum errand errand;
    uint32_t rkey;
    uint64_t address, length, seed;
};

struct outcome {
    int status;  // of the first completion that was none of success
    int right;   // whether what was read is the pattern
};

static pthread_mutex_t errands = PTHREAD_MUTEX_INITIALIZER;

static UNUSED int transfer(struct node *n, const struct order *order, uint64_t at, uint32_t length)
{
    enum ibv_wr_opcode opcode = order->errand == WRITE_ERRAND ? WRITE : READ;
    REQUIRE(post(n->qp, at, opcode, piece(n->buffer, length, n->mr->lkey), order->address + at, order->rkey) == 0);
    return next_completion(n->send_cq).status;
}

static UNUSED struct outcome carry_out(struct node *n, const struct order *order)
{
    struct outcome outcome = {.status = IBV_WC_SUCCESS, .right = 1};
    unsigned char *pattern;
    REQUIRE(pattern = malloc(order->length ? order->length : 1));
    fill(pattern, order->length, (unsigned)order->seed);
    for (uint64_t at = 0; at < order->length && outcome.status == IBV_WC_SUCCESS; at += BUFFER) {
        uint32_t length = order->length - at < BUFFER ? (uint32_t)(order->length - at) : BUFFER;
        if (order->errand == WRITE_ERRAND)
            memcpy(n->buffer, pattern + at, length);
        outcome.status = transfer(n, order, at, length);
        if (order->errand == READ_ERRAND && memcmp(n->buffer, pattern + at, length) != 0)
            outcome.right = 0;
    }
    free(pattern);
    return outcome;
}

// The whole life of the passive process. A failed queue pair is of no more use: both sides make theirs anew.
static UNUSED void serve(struct node *n)
{
    struct order order;
    bring_up(n);
    for (take(&order, sizeof order); order.errand != END_ERRAND; take(&order, sizeof order)) {
        struct outcome outcome = carry_out(n, &order);
        give(&outcome, sizeof outcome);
        if (outcome.status != IBV_WC_SUCCESS)
            bring_up(n);
    }
}

static UNUSED struct outcome send_out(struct node *n, const struct order *order)
{
    struct outcome outcome;
    pthread_mutex_lock(&errands);
    give(order, sizeof *order);
    take(&outcome, sizeof outcome);
    if (outcome.status != IBV_WC_SUCCESS)
        bring_up(n);
    pthread_mutex_unlock(&errands);
    return outcome;
}

// The other process writes a pattern. Returns the status of the completion it got.
static UNUSED int peer_writes(struct node *n, const struct ibv_mr *mr, void *at, size_t length, unsigned seed)
{
    struct order order = {WRITE_ERRAND, mr->rkey, (uintptr_t)at, length, seed};
    return send_out(n, &order).status;
}

// The other process reads and compares with the pattern. Returns whether it could and the bytes were right.
static UNUSED bool peer_reads(struct node *n, const struct ibv_mr *mr, const void *at, size_t length, unsigned seed)
{
    struct order order = {READ_ERRAND, mr->rkey, (uintptr_t)at, length, seed};
    struct outcome outcome = send_out(n, &order);
    return outcome.status == IBV_WC_SUCCESS && outcome.right;
}

static UNUSED int peer_tries_to_read(struct node *n, const struct ibv_mr *mr, const void *at, size_t length)
{
    struct order order = {READ_ERRAND, mr->rkey, (uintptr_t)at, length, 0};
    return send_out(n, &order).status;
}

// Both processes: the passive one serves until `program` has returned in the active one.
static UNUSED int with_a_peer(void (*program)(struct node *n))
{
    split();
    struct node n = open_node();
    if (self.active) {
        struct order end = {.errand = END_ERRAND};
        bring_up(&n);
        program(&n);
        give(&end, sizeof end);
    } else {
        serve(&n);
    }
    close_node(&n);
    return finish();
}

// Registers or gives up: where registration is not what is tried.
static UNUSED struct ibv_mr *register_all(struct node *n, void *at, size_t length)
{
    struct ibv_mr *mr;
    REQUIRE(mr = ibv_reg_mr(n->pd, at, length, ALL_REMOTE));
    return mr;
}

static UNUSED void *map_pages(size_t length)
{
    void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    return at;
}

// ---- what the kernel says -----------------------------------------------------------------------------------------

// Bytes of [at, at + length) that are mapped *shared* from the file that peers map.
static UNUSED size_t adopted_bytes(const void *at, size_t length)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[1024], mode[8];
    uint64_t start, end, from = (uintptr_t)at, to = from + length, adopted = 0;
    REQUIRE(maps);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, mode) == 3 && mode[3] == 's' &&
            strstr(line, "nonic-pages") && start < to && end > from)
            adopted += (end < to ? end : to) - (start > from ? start : from);
    fclose(maps);
    return adopted;
}

// The whole pages of a range.
static UNUSED size_t whole_pages(const void *at, size_t length)
{
    uint64_t from = ((uintptr_t)at + PAGE - 1) / PAGE * PAGE, to = ((uintptr_t)at + length) / PAGE * PAGE;
    return to > from ? to - from : 0;
}

// What whoever starts the program expects of its registered memory: `adopted`, `plain`, or nothing in particular.
static UNUSED bool expected(const char *pages)
{
    const char *value = getenv("EXPECT_PAGES");
    return value && strcmp(value, pages) == 0;
}

// Checks that a registered range is adopted, if that is expected, and that it is not, if that is.
static UNUSED void check_adopted(const char *id, const void *at, size_t length)
{
    if (expected("adopted"))
        CHECK_EQ(id, "the whole pages of the region are adopted", adopted_bytes(at, length), whole_pages(at, length));
    if (expected("plain"))
        CHECK_EQ(id, "no page of the region is adopted", adopted_bytes(at, length), 0);
}

// Checks that nothing of a range is shared with anybody after its deregistration.
static UNUSED void check_private(const char *id, const void *at, size_t length)
{
    CHECK_EQ(id, "no page of the range is shared any more", adopted_bytes(at, length), 0);
}

// A field of /proc/self/status that is in KiB.
static UNUSED long status_kib(const char *field)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long kib = -1;
    size_t length = strlen(field);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, field, length) == 0 && line[length] == ':') {
            kib = strtol(line + length + 1, NULL, 10);
            break;
        }
    if (f)
        fclose(f);
    return kib;
}

// The wait status of a child of ours.
static UNUSED int child_status(pid_t child)
{
    int status = -1;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

#endif
