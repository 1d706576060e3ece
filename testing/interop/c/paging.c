// Memory that is looked for when it is used (IBV_ACCESS_ON_DEMAND, a part of the address space and all of it), memory that is none
// (ibv_alloc_null_mr), and advice (ibv_advise_mr): what is there is reached, however late it came, and what is not there ends a
// request with an error and nothing else. Two processes: the passive one's memory comes and goes, the active one reaches for it.
//
// proves: verbs-abi 5.1

#include "common.h"
#include "flush.h"

#include <pthread.h>
#include <stdatomic.h>

#define PAGE 4096u
#define PAGES 64u
#define PAGED (ALL_REMOTE | IBV_ACCESS_ON_DEMAND)

// Addresses without memory, both processes have the same number of them.
static unsigned char *hole;

static void map_pages(unsigned first, unsigned count, int rights)
{
    void *at = hole + first * PAGE;
    REQUIRE(mmap(at, count * PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
}

static void unmap_pages(unsigned first, unsigned count)
{
    REQUIRE(munmap(hole + first * PAGE, count * PAGE) == 0);
}

static void find_hole(void)
{
    // Far from where the kernel puts what has no address asked for: whatever is mapped meanwhile, a thread's stack, is not put here.
    hole = mmap((void *)0x200000000000, PAGES * PAGE, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    REQUIRE(hole != MAP_FAILED);
    unmap_pages(0, PAGES);
}

struct target {
    uint64_t address;
    uint32_t rkey, zero;
};

static struct target theirs_for(const void *address, uint32_t rkey)
{
    struct target ours = {.address = (uintptr_t)address, .rkey = rkey}, theirs;
    swap_values(&ours, &theirs, sizeof ours);
    return theirs;
}

// One request of the active side's, with a fresh connection; how it ended.
static void one(struct node *n, const char *sentence, enum ibv_wr_opcode opcode, struct ibv_sge sge, const void *there, uint32_t rkey,
                enum ibv_wc_status expected)
{
    bring_up(n);
    struct target theirs = theirs_for(there, rkey);
    if (self.active) {
        if (opcode == ADD)
            REQUIRE(post_atomic(n->qp, 1, ADD, sge, theirs.address, theirs.rkey, 1, 0) == 0);
        else
            REQUIRE(post(n->qp, 1, opcode, sge, theirs.address, theirs.rkey) == 0);
        CHECK_EQ("5.1", sentence, next_completion(n->send_cq).status, expected);
    }
    meet();
}

static void whatever_is_there_is_reached(struct node *n, struct ibv_mr *mr)
{
    static const uint32_t lengths[] = {1, 8, 64, 4095, 4096, 20000, 100000};
    map_pages(0, 40, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t length = lengths[i];
        bring_up(n);
        struct target theirs = theirs_for(hole + 3, mr->rkey);
        if (self.active) {
            fill(hole + 5, length, length);
            REQUIRE(post(n->qp, 1, WRITE, piece(hole + 5, length, mr->lkey), theirs.address, theirs.rkey) == 0);
            REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
            memset(hole + 5, 0, length);
            REQUIRE(post(n->qp, 2, READ, piece(hole + 5, length, mr->lkey), theirs.address, theirs.rkey) == 0);
            CHECK_EQ("5.1", "a paged region is written and read", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
            CHECK("5.1", "and the bytes come back", filled(hole + 5, length, length));
        }
        meet();
        if (!self.active) {
            CHECK("5.1", "they were there", filled(hole + 3, length, length) && hole[2] == 0 && hole[3 + length] == 0);
            memset(hole, 0, length + 8);
            REQUIRE(post_receive(n->qp, 7, piece(hole + 1, length, mr->lkey)) == 0);
        }
        meet();
        if (self.active)
            REQUIRE(post(n->qp, 3, SEND, piece(hole + 5, length, mr->lkey), 0, 0) == 0);
        CHECK_EQ("5.1", "a message goes from a paged region to another",
                 next_completion(self.active ? n->send_cq : n->recv_cq).status, IBV_WC_SUCCESS);
        if (!self.active)
            CHECK("5.1", "all of it", filled(hole + 1, length, length) && hole[1 + length] == 0);
        meet();
        memset(hole, 0, 40 * PAGE);
        meet();
    }
    // New pages at the same addresses.
    unmap_pages(0, 40);
    map_pages(0, 40, PROT_READ | PROT_WRITE);
    memset(n->buffer, 0x21, 9);
    one(n, "memory that was mapped anew is reached", WRITE, piece(n->buffer, 9, n->mr->lkey), hole + 7, mr->rkey, IBV_WC_SUCCESS);
    if (!self.active)
        CHECK("5.1", "where it is now", all_bytes(hole + 7, 9, 0x21));
    unmap_pages(0, 40);
    meet();
}

// What a word was before an atomic comes back as bytes that are read do: only the word itself cannot be paged. Page 1 may be written,
// page 2 read, and behind page 23 there is nothing.
static void results_are_placed_as_bytes_read(struct node *n, struct ibv_mr *mr)
{
    uint64_t *word = (uint64_t *)n->buffer, *result = (uint64_t *)(hole + 2 * PAGE - 8);
    if (!self.active)
        *word = 41;
    map_pages(1, 1, PROT_READ | PROT_WRITE);
    one(n, "the result of an atomic is placed on paged memory, never touched", ADD, piece(result, 8, mr->lkey), word, n->mr->rkey,
        IBV_WC_SUCCESS);
    if (self.active)
        CHECK_EQ("5.1", "the result is what was there before", *result, 41);
    else
        CHECK_EQ("5.1", "and one was added", *word, 42);
    one(n, "a result for where nothing is fails here", ADD, piece(hole + 24 * PAGE, 8, mr->lkey), word, n->mr->rkey,
        IBV_WC_LOC_PROT_ERR);
    one(n, "a result for what may only be read fails here", ADD, piece(hole + 2 * PAGE, 8, mr->lkey), word, n->mr->rkey,
        IBV_WC_LOC_PROT_ERR);
    if (self.active)
        CHECK("5.1", "and it stays as it is", all_bytes(hole + 2 * PAGE, PAGE, 0));
    else
        CHECK_EQ("5.1", "but both were executed there, as on cards", *word, 44);
    meet();
}

static void what_is_missing_is_an_error(struct node *n, struct ibv_mr *mr)
{
    struct ibv_sge good = piece(n->buffer, 3 * PAGE, n->mr->lkey), bad = piece(hole + PAGE, 3 * PAGE, mr->lkey);
    struct ibv_sge large = piece(n->buffer, 12 * PAGE, n->mr->lkey);
    memset(n->buffer, 0x5a, BUFFER);
    // Nothing there at all, then a gap in the middle.
    one(n, "a write to nothing is refused", WRITE, good, hole, mr->rkey, IBV_WC_REM_ACCESS_ERR);
    one(n, "a read of nothing is refused", READ, good, hole, mr->rkey, IBV_WC_REM_ACCESS_ERR);
    one(n, "a read into nothing fails here", READ, bad, n->buffer, n->mr->rkey, IBV_WC_LOC_PROT_ERR);
    one(n, "a write from nothing fails here", WRITE, bad, n->buffer + 8192, n->mr->rkey, IBV_WC_LOC_PROT_ERR);
    one(n, "a message from nothing fails here", SEND, bad, NULL, 0, IBV_WC_LOC_PROT_ERR);
    map_pages(1, 1, PROT_READ | PROT_WRITE);
    map_pages(3, 20, PROT_READ | PROT_WRITE);
    one(n, "a write over a gap is refused", WRITE, good, hole + PAGE, mr->rkey, IBV_WC_REM_ACCESS_ERR);
    one(n, "a read over a gap is refused", READ, good, hole + PAGE, mr->rkey, IBV_WC_REM_ACCESS_ERR);
    one(n, "a long message from over a gap fails here", SEND, piece(hole + PAGE, 12 * PAGE, mr->lkey), NULL, 0, IBV_WC_LOC_PROT_ERR);
    map_pages(1, 12, PROT_READ);
    one(n, "what may only be read is not written", WRITE, large, hole + PAGE, mr->rkey, IBV_WC_REM_ACCESS_ERR);
    CHECK("5.1", "and stays as it is", all_bytes(hole + PAGE, 12 * PAGE, 0));
    one(n, "but read", READ, large, hole + PAGE, mr->rkey, IBV_WC_SUCCESS);
    map_pages(1, 1, PROT_READ | PROT_WRITE);
    one(n, "there are no atomics on it", ADD, piece(n->buffer, 8, n->mr->lkey), hole + PAGE, mr->rkey, IBV_WC_REM_ACCESS_ERR);
    CHECK("5.1", "so nothing changed", all_bytes(hole + PAGE, PAGE, 0));
    results_are_placed_as_bytes_read(n, mr);
    unmap_pages(0, PAGES);

    bring_up(n);
    if (!self.active)
        REQUIRE(post_receive(n->qp, 1, bad) == 0);
    meet();
    if (self.active)
        REQUIRE(post(n->qp, 1, SEND, piece(n->buffer, 64, n->mr->lkey), 0, 0) == 0);
    CHECK_EQ("5.1", "a message to where nothing is fails on both sides",
             next_completion(self.active ? n->send_cq : n->recv_cq).status,
             self.active ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR);
    meet();
}

static atomic_bool ended;

static void *come_and_go(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&ended)) {
        map_pages(0, 4, PROT_READ | PROT_WRITE);
        sched_yield();
        unmap_pages(0, 4);
    }
    return NULL;
}

// The memory goes while it is used, again and again: some requests succeed, some do not, and nobody is harmed.
static void memory_that_goes_meanwhile_harms_nobody(struct node *n, struct ibv_mr *mr)
{
    pthread_t thread;
    atomic_store(&ended, false);
    if (!self.active)
        REQUIRE(pthread_create(&thread, NULL, come_and_go, NULL) == 0);
    for (int round = 0; round < 60; round++) {
        bring_up(n);
        struct target theirs = theirs_for(hole, mr->rkey);
        enum ibv_wc_status status = IBV_WC_SUCCESS;
        for (int i = 0; self.active && i < 20 && status == IBV_WC_SUCCESS; i++) {
            REQUIRE(post(n->qp, i, i % 2 ? READ : WRITE, piece(n->buffer, 4 * PAGE, n->mr->lkey), theirs.address, theirs.rkey) == 0);
            status = next_completion(n->send_cq).status;
        }
        if (status != IBV_WC_SUCCESS && status != IBV_WC_REM_ACCESS_ERR)
            CHECK_EQ("5.1", "memory that goes is refused", status, IBV_WC_REM_ACCESS_ERR);
        meet();
    }
    if (!self.active) {
        atomic_store(&ended, true);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    CHECK("5.1", "whoever has memory that comes and goes lives", true);
    meet();
}

static void a_null_region_swallows_and_gives_zeros(struct node *n)
{
    struct ibv_mr *null = ibv_alloc_null_mr(n->pd);
    REQUIRE(null);
    CHECK("5.1", "a null region has no address, every length, and no remote key", !null->addr && null->length == SIZE_MAX && !null->rkey);
    static const uint32_t lengths[] = {1, 64, 5000, 60000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t length = lengths[i];
        struct ibv_sge nothing = piece((void *)(uintptr_t)(0x123456789 * (i + 1)), length, null->lkey);
        memset(n->buffer, 0x33, BUFFER);
        one(n, "zeros are written from nowhere", WRITE, nothing, n->buffer, n->mr->rkey, IBV_WC_SUCCESS);
        if (!self.active)
            CHECK("5.1", "as many as were asked for", all_bytes(n->buffer, length, 0) && n->buffer[length] == 0x33);
        one(n, "what is read vanishes", READ, nothing, n->buffer, n->mr->rkey, IBV_WC_SUCCESS);
        bring_up(n);
        if (!self.active)
            REQUIRE(post_receive(n->qp, 1, piece(n->buffer, BUFFER, n->mr->lkey)) == 0);
        else
            REQUIRE(post_receive(n->qp, 1, nothing) == 0);
        memset(n->buffer, 0x44, BUFFER);
        meet();
        REQUIRE(post(n->qp, 2, SEND, self.active ? nothing : piece(n->buffer, length, n->mr->lkey), 0, 0) == 0);
        CHECK_EQ("5.1", "a message goes out", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("5.1", "and one comes", wc.status == IBV_WC_SUCCESS && wc.byte_len == length);
        if (!self.active)
            CHECK("5.1", "of zeros", all_bytes(n->buffer, length, 0));
        meet();
    }
    one(n, "nobody reaches nothing by its local key", WRITE, piece(n->buffer, 8, n->mr->lkey), NULL, null->lkey, IBV_WC_REM_ACCESS_ERR);
    one(n, "nor by the key beside it", READ, piece(n->buffer, 8, n->mr->lkey), NULL, null->lkey ^ 1, IBV_WC_REM_ACCESS_ERR);
    struct ibv_mr before = *null;
    errno = 0;
    CHECK("5.1", "a null region is not registered anew",
          ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL &&
              memcmp(&before, null, sizeof before) == 0);
    CHECK_EQ("5.1", "a null region is deregistered", ibv_dereg_mr(null), 0);
    drop_qp(n);
    meet();
}

static void datagrams_are_paged(struct node *n, struct ibv_mr *mr)
{
    map_pages(0, 2, PROT_READ | PROT_WRITE);
    fill(hole + 100, 500, 3);
    n->type = IBV_QPT_UD;
    struct card there = bring_up(n);
    struct ibv_ah_attr route = route_to(&there);
    struct ibv_ah *ah = ibv_create_ah(n->pd, &route);
    REQUIRE(ah && post_receive(n->qp, 1, piece(hole + PAGE, 1000, mr->lkey)) == 0);
    meet();
    struct ibv_sge sge = piece(hole + 100, 500, mr->lkey);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = there.qpn;
    wr.wr.ud.remote_qkey = there.qkey;
    REQUIRE(ibv_post_send(n->qp, &wr, &bad) == 0 && next_completion(n->send_cq).status == IBV_WC_SUCCESS);
    CHECK_EQ("5.1", "a datagram is received in a paged region", next_completion(n->recv_cq).status, IBV_WC_SUCCESS);
    CHECK("5.1", "all of it", filled(hole + PAGE + 40, 500, 3));
    unmap_pages(0, 2);
    REQUIRE(ibv_post_send(n->qp, &wr, &bad) == 0);
    CHECK_EQ("5.1", "one from where nothing is fails", next_completion(n->send_cq).status, IBV_WC_LOC_PROT_ERR);
    meet();
    drop_qp(n);
    REQUIRE(ibv_destroy_ah(ah) == 0);
    n->type = IBV_QPT_RC;
}

static void advice_is_taken_and_judged(struct node *n, struct ibv_mr *mr)
{
    struct ibv_pd *other = ibv_alloc_pd(n->context);
    struct ibv_mr *readable = ibv_reg_mr(n->pd, hole, PAGES * PAGE, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
    REQUIRE(other && readable);
    map_pages(0, 4, PROT_READ | PROT_WRITE);
    map_pages(4, 1, PROT_READ);
    const struct {
        const char *sentence;
        struct ibv_pd *pd;
        int advice;
        uint32_t flags;
        struct ibv_sge sge;
        int expected;
    } cases[] = {
        {"pages are fetched", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1, piece(hole, 5 * PAGE, mr->lkey), 0},
        {"pages are fetched to be written", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 1, piece(hole, 4 * PAGE, mr->lkey), 0},
        {"pages are fetched by and by", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, piece(hole, 5 * PAGE, mr->lkey), 0},
        {"pages that are there are told of", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 1, piece(hole, 60 * PAGE, mr->lkey), 0},
        {"what is there already is fetched", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 1, piece(n->buffer, 9, n->mr->lkey), 0},
        {"what is not there cannot be fetched", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1, piece(hole, 6 * PAGE, mr->lkey), EFAULT},
        {"but nobody waits for it", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, piece(hole, 6 * PAGE, mr->lkey), 0},
        {"what may only be read is not written", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 1, piece(hole, 5 * PAGE, mr->lkey), EFAULT},
        {"a region that may only be read, either", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 1, piece(hole, 8, readable->lkey), EPERM},
        {"one byte too many", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1, piece(n->buffer + 1, BUFFER, n->mr->lkey), EFAULT},
        {"a key of nothing", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1, piece(hole, 8, 0xffffff00), ENOENT},
        {"a key of another domain", other, IBV_ADVISE_MR_ADVICE_PREFETCH, 1, piece(hole, 8, mr->lkey), EPERM},
        {"unknown advice", n->pd, 77, 1, piece(hole, 8, mr->lkey), EOPNOTSUPP},
        {"unknown flags", n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, piece(hole, 8, mr->lkey), EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ibv_sge sge = cases[i].sge;
        CHECK_EQ("5.1", cases[i].sentence, ibv_advise_mr(cases[i].pd, cases[i].advice, cases[i].flags, &sge, 1), cases[i].expected);
    }
    CHECK_EQ("5.1", "advice about nothing", ibv_advise_mr(n->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1, NULL, 0), EINVAL);
    unmap_pages(0, 5);
    REQUIRE(ibv_dereg_mr(readable) == 0 && ibv_dealloc_pd(other) == 0);
}

static void a_region_becomes_paged_and_ordinary_again(struct node *n)
{
    map_pages(0, 2, PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = ibv_reg_mr(n->pd, hole, 2 * PAGE, ALL_REMOTE);
    struct ibv_sge sge = piece(n->buffer, PAGE, n->mr->lkey);
    REQUIRE(mr && ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, PAGED) == 0);
    unmap_pages(0, 2);
    one(n, "a region that became paged misses what is gone", WRITE, sge, hole, mr->rkey, IBV_WC_REM_ACCESS_ERR);
    errno = 0;
    CHECK("5.2", "it does not become ordinary without memory",
          ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_REMOTE) == IBV_REREG_MR_ERR_CMD && errno == EFAULT);
    map_pages(0, 2, PROT_READ | PROT_WRITE);
    one(n, "and is reached when it is back", WRITE, sge, hole, mr->rkey, IBV_WC_SUCCESS);
    REQUIRE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_REMOTE) == 0);
    one(n, "a region that became ordinary takes atomics", ADD, piece(n->buffer, 8, n->mr->lkey), hole, mr->rkey, IBV_WC_SUCCESS);
    REQUIRE(ibv_dereg_mr(mr) == 0);
    unmap_pages(0, 2);
    meet();
}

static void what_is_announced_is_there(struct node *n)
{
    struct ibv_device_attr_ex attr;
    REQUIRE(ibv_query_device_ex(n->context, NULL, &attr) == 0);
    uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV, reliable = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_SRQ_RECV | FLUSH_PAGED;
    CHECK_EQ("5.1", "paging is announced", attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
    CHECK_EQ("5.1", "for RC", attr.odp_caps.per_transport_caps.rc_odp_caps, messages | reliable);
    CHECK_EQ("5.1", "for UC", attr.odp_caps.per_transport_caps.uc_odp_caps, messages | IBV_ODP_SUPPORT_WRITE);
    CHECK_EQ("5.1", "for UD", attr.odp_caps.per_transport_caps.ud_odp_caps, messages | IBV_ODP_SUPPORT_SRQ_RECV);
    CHECK_EQ("5.1", "for XRC", attr.xrc_odp_caps, messages | reliable);
    CHECK_NULL("5.1", "nor more than there can be", ibv_reg_mr(n->pd, hole, SIZE_MAX, PAGED), EINVAL);
    CHECK_NULL("5.1", "nor with rights that contradict each other",
               ibv_reg_mr(n->pd, hole, PAGE, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_WRITE), EINVAL);
    CHECK_NULL("5.1", "the whole address space has no other name", ibv_reg_mr_iova(n->pd, NULL, SIZE_MAX, 4096, PAGED), EINVAL);
}

int main(void)
{
    split();
    find_hole();
    struct node n = open_node();
    what_is_announced_is_there(&n);
    for (int implicit = 0; implicit < 2; implicit++) {
        struct ibv_mr *mr = implicit ? ibv_reg_mr(n.pd, NULL, SIZE_MAX, PAGED) : ibv_reg_mr(n.pd, hole, PAGES * PAGE, PAGED);
        REQUIRE(mr);
        whatever_is_there_is_reached(&n, mr);
        what_is_missing_is_an_error(&n, mr);
        memory_that_goes_meanwhile_harms_nobody(&n, mr);
        datagrams_are_paged(&n, mr);
        advice_is_taken_and_judged(&n, mr);
        drop_qp(&n);
        CHECK_EQ("5.1", "a paged region is deregistered", ibv_dereg_mr(mr), 0);
        meet();
    }
    a_region_becomes_paged_and_ordinary_again(&n);
    a_null_region_swallows_and_gives_zeros(&n);
    close_node(&n);
    return finish();
}
