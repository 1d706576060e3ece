// A program that polls the last byte of a write never sees it before the rest: every size below 1 KiB and a spread up to
// 64 KiB, at every alignment of a cache line. The reader never calls the library, so nothing but the bytes tells it.
//
// Usage: last_byte [quick]      only every seventh size
//
// proves: MEM-6

#include "remote.h"

#include <stdatomic.h>

#define ALIGNMENTS 64
#define LARGEST 65536

// Which write the reader waits for, and which it has seen: in memory of both, made before the processes part.
static struct turn {
    _Alignas(64) atomic_uint asked;
    _Alignas(64) atomic_uint seen;
    atomic_uint writer_failed;
} *turn;

static uint64_t looked, incomplete;

static size_t next_size(size_t size, size_t step)
{
    if (size < 1024)
        return size + step < 1024 ? size + step : 1024;
    if (size == LARGEST)
        return LARGEST + 1;
    // About six sizes for each doubling, odd ones.
    size += size / 8 + 13 * step;
    return size < LARGEST ? size | 1 : LARGEST;
}

// Without the library, so without its courtesy: yields now and then, since both may share a CPU.
static bool wait_for(atomic_uint *word, unsigned value)
{
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    for (unsigned spins = 0; atomic_load_explicit(word, memory_order_acquire) != value; spins++)
        if (spins % 4096 == 4095) {
            sched_yield();
            if (now_ns() > deadline || atomic_load(&turn->writer_failed))
                return false;
        }
    return true;
}

// Never 0, and another one than that of the writes before.
static unsigned char mark_of(unsigned number)
{
    return (unsigned char)(1 + number % 251);
}

static void read_one(unsigned char *at, size_t size, unsigned number)
{
    volatile unsigned char *last = at + size - 1;
    unsigned char mark = mark_of(number);
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    memset(at, 0, size);
    atomic_store_explicit(&turn->seen, number, memory_order_release);
    for (unsigned spins = 0; *last != mark; spins++)
        if (spins % 4096 == 4095) {
            sched_yield();
            if (now_ns() > deadline || atomic_load(&turn->writer_failed)) {
                CHECK("last-byte", "the last byte of a write comes", false);
                give_up();
            }
        }
    atomic_thread_fence(memory_order_acquire);
    // From the end: what is stored last is looked at first.
    for (size_t i = size; i-- > 0;)
        if (((volatile unsigned char *)at)[i] != mark) {
            if (incomplete++ < 10)
                printf("  %zu bytes at alignment %zu: byte %zu was missing\n", size, (uintptr_t)at % 64, i);
            break;
        }
    looked++;
}

static void write_one(struct node *n, const struct card *there, size_t size, unsigned number)
{
    // The source has an alignment of its own.
    unsigned char *from = n->buffer + number * 7 % 64;
    memset(from, mark_of(number), size);
    if (!wait_for(&turn->seen, number)) {
        CHECK("last-byte", "the reader looks", false);
        give_up();
    }
    int failed = post(n->qp, number, WRITE, piece(from, (uint32_t)size, n->mr->lkey), there->address, there->rkey);
    if (failed || next_completion(n->send_cq).status != IBV_WC_SUCCESS) {
        atomic_store(&turn->writer_failed, 1);
        CHECK("last-byte", "a write succeeds", false);
        give_up();
    }
}

// With an offset, writes end on a page that is not wholly in the region, and so on two kinds of memory if the others are
// adopted.
static void every_size_and_alignment(struct node *n, size_t offset, size_t step, const char *what)
{
    static unsigned number;
    size_t length = LARGEST + ALIGNMENTS + offset;
    unsigned char *block = NULL;
    struct ibv_mr *mr = NULL;
    struct card ours = {0}, theirs;
    if (self.active) {
        REQUIRE(block = map_pages(LARGEST + 4 * PAGE));
        memset(block, 0, LARGEST + 4 * PAGE);
        REQUIRE(mr = ibv_reg_mr(n->pd, block, length, ALL_REMOTE));
        check_adopted("last-byte", block, length);
        ours = (struct card){.address = (uintptr_t)block, .rkey = mr->rkey};
    }
    swap_values(&ours, &theirs, sizeof ours);
    looked = incomplete = 0;
    for (size_t size = 1; size <= LARGEST; size = next_size(size, step))
        for (size_t alignment = 0; alignment < ALIGNMENTS; alignment += size < 1024 ? 1 : step) {
            // Writes end where the region ends, give or take the alignment.
            size_t start = offset ? LARGEST - size + offset + alignment : alignment;
            number++;
            if (self.active) {
                read_one(block + start, size, number);
            } else {
                struct card at = {.address = theirs.address + start, .rkey = theirs.rkey};
                write_one(n, &at, size, number);
            }
        }
    meet();
    if (self.active) {
        printf("  %s: %" PRIu64 " writes\n", what, looked);
        CHECK("last-byte", "writes are seen", looked > 1000);
        CHECK_EQ("last-byte", "the last byte never comes before another", incomplete, 0);
        REQUIRE(ibv_dereg_mr(mr) == 0);
        munmap(block, LARGEST + 4 * PAGE);
    }
    meet();
}

// On one CPU the reader would only ever look between the writer's turns: each has its own, if there are two.
static void part_cpus(void)
{
    cpu_set_t allowed, own;
    REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    int wanted = self.active ? 0 : 1, cpu = 0;
    if (CPU_COUNT(&allowed) < 2)
        return;
    while (!CPU_ISSET(cpu, &allowed) || wanted-- > 0)
        cpu++;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    REQUIRE(sched_setaffinity(0, sizeof own, &own) == 0);
}

int main(int argc, char **argv)
{
    size_t step = argc > 1 && strcmp(argv[1], "quick") == 0 ? 7 : 1;
    turn = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (turn == MAP_FAILED) {
        perror("last_byte");
        return 2;
    }
    split();
    part_cpus();
    struct node n = open_node();
    // The writer's source needs room for an alignment of its own.
    REQUIRE(ibv_dereg_mr(n.mr) == 0);
    free(n.buffer);
    REQUIRE(posix_memalign((void **)&n.buffer, PAGE, BUFFER + PAGE) == 0);
    REQUIRE(n.mr = ibv_reg_mr(n.pd, n.buffer, BUFFER + PAGE, ALL_REMOTE));
    bring_up(&n);
    every_size_and_alignment(&n, 0, step, "whole pages");
    every_size_and_alignment(&n, 1000, step * 7, "ending on a page shared with others");
    close_node(&n);
    return finish();
}
