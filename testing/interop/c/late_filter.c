// A program that installs a filter of system calls after it has opened the device: the kernel refuses membarrier(2) from
// then on, in one process or in both. Threads go on, memory is taken back, and nothing lands afterwards.
//
// Usage: late_filter active|passive|both ROUNDS

#include "common.h"

#include "filter.h"

#include <pthread.h>

#define REGION 16384
#define THREADS 3

static struct node node;
static struct card there;
static bool stop;

static void refuse_membarrier(void)
{
    static const int calls[] = {SYS_membarrier};
    // For all threads there are, the library's own among them.
    REQUIRE(filter_calls(calls, 1, SECCOMP_RET_ERRNO | EPERM, SECCOMP_FILTER_FLAG_TSYNC) == 0);
    REQUIRE(syscall(SYS_membarrier, 0, 0, 0) == -1 && errno == EPERM);
}

// Several threads share queue pair and completion queue: locks that have had a favourite thread change hands.
static uint64_t counted[THREADS];

static void *write_and_poll(void *argument)
{
    uint64_t *mine = argument;
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
        struct ibv_wc wc[8];
        post(node.qp, 1, IBV_WR_RDMA_WRITE, piece(node.buffer, 64, node.mr->lkey), there.address, there.rkey);
        int n = ibv_poll_cq(node.send_cq, 8, wc);
        for (int i = 0; i < n; i++)
            REQUIRE(wc[i].status == IBV_WC_SUCCESS);
        // One thread may take nearly all completions; what counts is that every thread comes out of its calls.
        __atomic_add_fetch(mine, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

// Whether every thread gets on, from now.
static bool all_count_on(void)
{
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    for (int i = 0; i < THREADS; i++) {
        uint64_t seen = __atomic_load_n(&counted[i], __ATOMIC_RELAXED);
        while (__atomic_load_n(&counted[i], __ATOMIC_RELAXED) < seen + 20) {
            if (now_ns() > deadline)
                return false;
            usleep(1000);
        }
    }
    return true;
}

// The passive side takes a region back again and again while the active side writes to it; the active side says which of its
// writes were refused, and goes on with a new queue pair.
static int landed_late, taken_back;

static void take_back(int rounds)
{
    unsigned char *memory;
    REQUIRE(posix_memalign((void **)&memory, 4096, REGION) == 0);
    for (int i = 0; i < rounds; i++) {
        struct ibv_mr *mr;
        memset(memory, 0, REGION);
        REQUIRE(mr = ibv_reg_mr(node.pd, memory, REGION, ALL_REMOTE));
        bring_up(&node);
        struct card target = card_of(&node);
        target.rkey = mr->rkey;
        target.address = (uintptr_t)memory;
        give(&target, sizeof target);
        while (__atomic_load_n((volatile uint64_t *)memory, __ATOMIC_ACQUIRE) < 20)
            drain(node.send_cq);
        REQUIRE(ibv_dereg_mr(mr) == 0);
        taken_back++;
        memset(memory, 0xaa, REGION);
        meet();
        for (int k = 0; k < REGION; k++)
            if (memory[k] != 0xaa) {
                landed_late++;
                break;
            }
    }
    free(memory);
}

static void write_until_refused(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        struct card target;
        bring_up(&node);
        take(&target, sizeof target);
        uint64_t *word = (uint64_t *)node.buffer, count = 0;
        for (bool refused = false; !refused;) {
            *word = ++count;
            struct ibv_sge sge = piece(node.buffer, count % 3 ? 8 : REGION, node.mr->lkey);
            REQUIRE(post(node.qp, 1, IBV_WR_RDMA_WRITE, sge, target.address, target.rkey) == 0);
            int status = next_completion(node.send_cq).status;
            REQUIRE(status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR);
            refused = status != IBV_WC_SUCCESS;
        }
        // What it wrote, it wrote before the region was gone.
        meet();
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : 0;
    if (argc != 3 || rounds <= 0) {
        fprintf(stderr, "usage: late_filter active|passive|both ROUNDS\n");
        return 2;
    }
    split();
    bool filters = strcmp(argv[1], "both") == 0 || strcmp(argv[1], self.active ? "active" : "passive") == 0;
    node = open_node();
    // Half of the time light fences are free, then no longer: in the middle of everything.
    there = bring_up(&node);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, write_and_poll, &counted[i]) == 0);
    bool before = all_count_on();
    if (filters)
        refuse_membarrier();
    CHECK("late-filter", "every thread goes on", before && all_count_on());
    __atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    meet();
    if (self.active)
        write_until_refused(rounds);
    else
        take_back(rounds);
    // And the other way round.
    if (self.active)
        take_back(rounds);
    else
        write_until_refused(rounds);
    CHECK_EQ("late-filter", "memory was taken back", taken_back, rounds);
    CHECK_EQ("late-filter", "nothing lands in memory that was taken back", landed_late, 0);
    return finish();
}
