// Device memory, word for word as its manual pages promise it, between two processes.
//
// proves: DM-1, DM-2, DM-3, DM-4, DM-5, DM-6, DM-7, DM-8
//
// Usage: device_memory [BYTES [GRANULE]]: the size of the device memory the caller configured, compared with max_dm_size, and
// what copies are multiples of, 1 or 4.

#include "common.h"

#define ROOM 4096    // length of the buffer that most scenarios use
#define WINDOW_AT 64 // where the region begins inside it
#define WINDOW 1024  // and how long it is
#define DM_REMOTE (ALL_REMOTE | IBV_ACCESS_ZERO_BASED)

static struct ibv_dm *allocate(struct ibv_context *context, size_t length, uint32_t log_align)
{
    struct ibv_alloc_dm_attr attr = {.length = length, .log_align_req = log_align, .comp_mask = 0};
    errno = 0;
    return ibv_alloc_dm(context, &attr);
}

static uint64_t limit_of(struct ibv_context *context)
{
    struct ibv_device_attr_ex attr = {.comp_mask = 0};
    REQUIRE(ibv_query_device_ex(context, NULL, &attr) == 0);
    return attr.max_dm_size;
}

// The bytes of a buffer, read through the call under test.
static bool dm_filled(struct ibv_dm *dm, uint64_t offset, size_t length, unsigned seed)
{
    unsigned char *copy = malloc(length);
    bool good = ibv_memcpy_from_dm(copy, dm, offset, length) == 0 && filled(copy, length, seed);
    free(copy);
    return good;
}

static void dm_fill(struct ibv_dm *dm, uint64_t offset, size_t length, unsigned seed)
{
    unsigned char *bytes = malloc(length);
    fill(bytes, length, seed);
    REQUIRE(ibv_memcpy_to_dm(dm, offset, bytes, length) == 0);
    free(bytes);
}

// proves: DM-1
static void allocation_takes_length_alignment_and_mask(struct node *n)
{
    struct ibv_dm *dm = allocate(n->context, ROOM, 0);
    CHECK("DM-1", "alloc_dm returns the buffer", dm != NULL);
    REQUIRE(dm);
    CHECK("DM-1", "the buffer names its context", dm->context == n->context);
    CHECK_EQ("DM-1", "free_dm returns 0", ibv_free_dm(dm), 0);

    struct ibv_alloc_dm_attr unknown = {.length = ROOM, .comp_mask = 1u << 31};
    CHECK_NULL("DM-1", "a comp_mask bit nobody defined is refused with EINVAL", ibv_alloc_dm(n->context, &unknown),
               EINVAL);
    struct ibv_alloc_dm_attr empty = {.length = 0};
    CHECK_NULL("DM-1", "length 0 is refused with EINVAL", ibv_alloc_dm(n->context, &empty), EINVAL);
}

// proves: DM-3
static void allocation_stops_at_the_limit_and_freed_memory_comes_back(struct node *n, uint64_t configured)
{
    enum { PIECES = 16 };
    uint64_t limit = limit_of(n->context);
    CHECK("DM-3", "max_dm_size of the extended attributes is above 0", limit > 0);
    if (configured)
        CHECK_EQ("DM-3", "max_dm_size is what was configured", limit, configured);

    struct ibv_alloc_dm_attr above = {.length = limit + 1};
    CHECK_NULL("DM-3", "one byte more than max_dm_size is refused with EINVAL", ibv_alloc_dm(n->context, &above),
               EINVAL);

    struct ibv_dm *whole = allocate(n->context, limit, 0);
    CHECK("DM-3", "max_dm_size itself can be allocated", whole != NULL);
    CHECK("DM-3", "with everything taken another 64 bytes are refused", allocate(n->context, 64, 0) == NULL);
    CHECK_EQ("DM-3", "and errno says that there is no memory", errno, ENOMEM);
    if (whole) {
        unsigned char last[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};
        CHECK_EQ("DM-3", "the refusal left the buffer usable to its last bytes",
                 ibv_memcpy_to_dm(whole, limit - 8, last, 8), 0);
        CHECK_EQ("DM-3", "the last bytes can be read", ibv_memcpy_from_dm(back, whole, limit - 8, 8), 0);
        CHECK("DM-3", "the last bytes are those written", memcmp(last, back, 8) == 0);
        CHECK_EQ("DM-3", "the whole is freed", ibv_free_dm(whole), 0);
    }

    for (int round = 0; round < 2; round++) {
        struct ibv_dm *pieces[PIECES];
        int got = 0;
        for (int i = 0; i < PIECES; i++)
            if ((pieces[i] = allocate(n->context, limit / PIECES, 0)))
                got++;
        CHECK_EQ("DM-3", "after the free sixteen sixteenths fit", got, PIECES);
        CHECK("DM-3", "and a seventeenth does not", allocate(n->context, limit / PIECES, 0) == NULL);
        // Free from the middle outward, so that what comes back has to be joined again.
        for (int i = 0; i < PIECES; i++) {
            int at = (i + PIECES / 2) % PIECES;
            if (pieces[at])
                REQUIRE(ibv_free_dm(pieces[at]) == 0);
        }
    }
    whole = allocate(n->context, limit, 0);
    CHECK("DM-3", "what was freed in pieces can be allocated as one", whole != NULL);
    if (whole)
        REQUIRE(ibv_free_dm(whole) == 0);
}

// proves: DM-4
static void copies_move_exactly_what_was_asked(struct node *n)
{
    struct ibv_dm *dm = allocate(n->context, ROOM, 0);
    unsigned char bytes[ROOM + 64], back[ROOM + 64];
    REQUIRE(dm);

    memset(back, 0xee, sizeof back);
    CHECK_EQ("DM-4", "a fresh buffer can be read", ibv_memcpy_from_dm(back, dm, 0, ROOM), 0);
    CHECK("DM-4", "and holds nobody's bytes but zeros", all_bytes(back, ROOM, 0));

    fill(bytes, ROOM, 1);
    CHECK_EQ("DM-4", "memcpy_to of the whole returns 0", ibv_memcpy_to_dm(dm, 0, bytes, ROOM), 0);
    CHECK("DM-4", "memcpy_from brings the same bytes", dm_filled(dm, 0, ROOM, 1));

    fill(bytes, 256, 2);
    CHECK_EQ("DM-4", "memcpy_to at a byte offset returns 0", ibv_memcpy_to_dm(dm, 1024, bytes, 256), 0);
    CHECK("DM-4", "the bytes are at that offset from the start", dm_filled(dm, 1024, 256, 2));
    CHECK_EQ("DM-4", "memcpy_from around it returns 0", ibv_memcpy_from_dm(back, dm, 0, ROOM), 0);
    fill(bytes, ROOM, 1);
    CHECK("DM-4", "nothing before the offset changed", memcmp(back, bytes, 1024) == 0);
    CHECK("DM-4", "nothing behind the length changed", memcmp(back + 1280, bytes + 1280, ROOM - 1280) == 0);

    memset(back, 0xee, sizeof back);
    CHECK_EQ("DM-4", "memcpy_from the last word returns 0", ibv_memcpy_from_dm(back, dm, ROOM - 4, 4), 0);
    CHECK("DM-4", "memcpy_from writes length bytes and no more",
          memcmp(back, bytes + ROOM - 4, 4) == 0 && all_bytes(back + 4, sizeof back - 4, 0xee));

    // Out of range: the reason comes back, nothing moves, in either direction.
    static const struct {
        uint64_t offset;
        size_t length;
        const char *to, *from;
    } outside[] = {
        {0, ROOM + 4, "memcpy_to longer than the buffer is refused", "memcpy_from longer than the buffer is refused"},
        {ROOM - 4, 8, "memcpy_to across the end is refused", "memcpy_from across the end is refused"},
        {ROOM, 4, "memcpy_to at the end is refused", "memcpy_from at the end is refused"},
        {(uint64_t)ROOM << 20, 4, "memcpy_to far behind the end is refused", "memcpy_from far behind the end is refused"},
        {UINT64_MAX - 3, 8, "memcpy_to whose offset plus length wraps is refused",
         "memcpy_from whose offset plus length wraps is refused"},
    };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        unsigned char rubbish[ROOM + 64];
        memset(rubbish, 0x5a, sizeof rubbish);
        CHECK_EQ("DM-4", outside[i].to, ibv_memcpy_to_dm(dm, outside[i].offset, rubbish, outside[i].length), EFAULT);
        CHECK_EQ("DM-4", "the buffer is readable after the refusal", ibv_memcpy_from_dm(back, dm, 0, ROOM), 0);
        CHECK("DM-4", "and holds only what it held",
              filled(back, 1024, 1) && memcmp(back + 1280, bytes + 1280, ROOM - 1280) == 0);
        memset(back, 0xee, sizeof back);
        CHECK_EQ("DM-4", outside[i].from, ibv_memcpy_from_dm(back, dm, outside[i].offset, outside[i].length), EFAULT);
        CHECK("DM-4", "and not one byte arrived", all_bytes(back, sizeof back, 0xee));
    }
    REQUIRE(ibv_free_dm(dm) == 0);
}

// Copies of any offset and length, or of whole granules and no others.
// proves: DM-4
static void copies_are_as_exact_as_the_device(struct node *n, uint64_t granule)
{
    static const struct {
        uint64_t offset;
        size_t length;
    } ranges[] = {{1, 4}, {3, 7}, {0, 1}, {ROOM - 1, 1}, {7, 1001}, {5, 0}, {63, 66}, {2, 2}, {4, 2}, {ROOM - 3, 3}};
    unsigned char bytes[ROOM], expected[ROOM], back[ROOM];
    struct ibv_dm *dm = allocate(n->context, ROOM, 0);
    REQUIRE(dm);
    fill(expected, ROOM, 1);
    REQUIRE(ibv_memcpy_to_dm(dm, 0, expected, ROOM) == 0);
    for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        uint64_t offset = ranges[i].offset;
        size_t length = ranges[i].length;
        int wanted = offset % granule || length % granule ? EINVAL : 0;
        fill(bytes, length, 10 + i);
        CHECK_EQ("DM-4", "a copy to a byte offset does what the device allows", ibv_memcpy_to_dm(dm, offset, bytes, length),
                 wanted);
        if (!wanted)
            memcpy(expected + offset, bytes, length);
        memset(back, 0xee, ROOM);
        CHECK_EQ("DM-4", "and so does one from it", ibv_memcpy_from_dm(back, dm, offset, length), wanted);
        size_t copied = wanted ? 0 : length;
        CHECK("DM-4", "it brings those bytes and no others",
              memcmp(back, bytes, copied) == 0 && all_bytes(back + copied, ROOM - copied, 0xee));
        REQUIRE(ibv_memcpy_from_dm(back, dm, 0, ROOM) == 0);
        CHECK("DM-4", "and nothing beside them changed", memcmp(back, expected, ROOM) == 0);
    }
    REQUIRE(ibv_free_dm(dm) == 0);
}

// Where the device memory of this process begins; NULL if it is not mapped, or cannot be told.
static unsigned char *arena(void)
{
    char line[512];
    unsigned long start = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !start && fgets(line, sizeof line, maps))
        if (strstr(line, "nonic-device-memory"))
            start = strtoul(line, NULL, 16);
    if (maps)
        fclose(maps);
    return (unsigned char *)start;
}

// The start of a buffer in the device's memory, found by what stands there; -1 if it is not found.
static int64_t start_of(struct ibv_dm *dm)
{
    enum { LOOK = 1 << 17 }; // small buffers lie near the beginning
    static unsigned round;
    unsigned char mark[16], *memory = arena();
    fill(mark, sizeof mark, 1000 + round++);
    REQUIRE(memory && ibv_memcpy_to_dm(dm, 0, mark, sizeof mark) == 0);
    unsigned char *start = memmem(memory, LOOK, mark, sizeof mark);
    return start ? start - memory : -1;
}

// proves: DM-2
static void the_start_is_at_a_multiple_of_the_alignment(struct node *n)
{
    for (uint32_t align = 0; align <= 14; align++) {
        struct ibv_dm *before = allocate(n->context, 4, 0), *dm = allocate(n->context, 64, align);
        REQUIRE(before && dm);
        int64_t start = start_of(dm);
        CHECK("DM-2", "the buffer is found in the device's memory", start >= 0);
        CHECK_EQ("DM-2", "its start has the alignment that was asked for", start % (1u << align), 0);
        REQUIRE(ibv_free_dm(before) == 0 && ibv_free_dm(dm) == 0);
    }
}

// proves: DM-5
static void a_window_leads_to_device_memory(struct node *n)
{
    struct ibv_dm *dm = allocate(n->context, ROOM, 0);
    REQUIRE(dm);
    struct ibv_mr *mr = ibv_reg_dm_mr(n->pd, dm, WINDOW_AT, WINDOW, DM_REMOTE | IBV_ACCESS_MW_BIND);
    struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
    CHECK("DM-5", "window binding is a right of a region of device memory", mr != NULL);
    REQUIRE(mr && mw);
    dm_fill(dm, 0, ROOM, 20 + self.active);
    bring_up(n);
    uint32_t key, theirs;
    unsigned char own[ROOM], now[ROOM];
    struct ibv_mw_bind bind = {.wr_id = 5, .send_flags = IBV_SEND_SIGNALED};
    bind.bind_info.mr = mr;
    bind.bind_info.addr = 100; // of the region
    bind.bind_info.length = 200;
    bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
    CHECK_EQ("DM-5", "a window is bound to a part of it", ibv_bind_mw(n->qp, mw, &bind), 0);
    CHECK_EQ("DM-5", "and is bound", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    key = mw->rkey;
    swap_values(&key, &theirs, sizeof key);
    fill(n->buffer, 64, 30 + self.active);
    REQUIRE(post(n->qp, 6, IBV_WR_RDMA_WRITE, piece(n->buffer, 64, n->mr->lkey), 236, theirs) == 0);
    CHECK_EQ("DM-5", "a peer writes through it", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    meet();
    fill(own, ROOM, 20 + self.active);
    fill(own + WINDOW_AT + 236, 64, 30 + !self.active);
    REQUIRE(ibv_memcpy_from_dm(now, dm, 0, ROOM) == 0);
    CHECK("DM-5", "to the bytes that the address means in the region", memcmp(now, own, ROOM) == 0);
    meet();
    REQUIRE(post(n->qp, 7, IBV_WR_RDMA_WRITE, piece(n->buffer, 64, n->mr->lkey), 237, theirs) == 0);
    CHECK("DM-5", "one byte beyond the window is refused", next_completion(n->send_cq).status != IBV_WC_SUCCESS);
    meet();
    REQUIRE(ibv_memcpy_from_dm(now, dm, 0, ROOM) == 0);
    CHECK("DM-5", "and nothing came there", memcmp(now, own, ROOM) == 0);
    REQUIRE(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0 && ibv_free_dm(dm) == 0);
}

// proves: DM-5
static void registration_takes_a_range_and_insists_on_zero_based(struct node *n)
{
    struct ibv_dm *dm = allocate(n->context, ROOM, 0);
    REQUIRE(dm);
    struct ibv_mr *mr = ibv_reg_dm_mr(n->pd, dm, WINDOW_AT, WINDOW, DM_REMOTE);
    CHECK("DM-5", "a range of the buffer is registered", mr != NULL);
    REQUIRE(mr);
    CHECK("DM-5", "the region names its context and its domain", mr->context == n->context && mr->pd == n->pd);
    CHECK_EQ("DM-5", "the region is as long as was asked", mr->length, WINDOW);
    CHECK("DM-5", "local and remote key differ", mr->lkey != mr->rkey);
    struct ibv_mr *second = ibv_reg_dm_mr(n->pd, dm, 0, ROOM, IBV_ACCESS_ZERO_BASED);
    CHECK("DM-5", "a second region on the same bytes is allowed", second != NULL);
    if (second)
        CHECK_EQ("DM-5", "and deregistered", ibv_dereg_mr(second), 0);
    CHECK_EQ("DM-5", "the first is deregistered", ibv_dereg_mr(mr), 0);
    struct ibv_mr *empty = ibv_reg_dm_mr(n->pd, dm, ROOM, 0, DM_REMOTE);
    CHECK("DM-5", "a region of no bytes is registered, as on cards", empty != NULL);
    if (empty) {
        CHECK_EQ("DM-5", "and holds the buffer", ibv_free_dm(dm), EBUSY);
        CHECK_EQ("DM-5", "until it is deregistered", ibv_dereg_mr(empty), 0);
    }

    CHECK_NULL("DM-5", "without IBV_ACCESS_ZERO_BASED registration is refused with EINVAL",
               ibv_reg_dm_mr(n->pd, dm, 0, WINDOW, ALL_REMOTE), EINVAL);
    CHECK_NULL("DM-5", "access 0 lacks it too and is refused", ibv_reg_dm_mr(n->pd, dm, 0, WINDOW, 0), EINVAL);
    CHECK_NULL("DM-5", "one byte beyond the buffer is refused with EINVAL",
               ibv_reg_dm_mr(n->pd, dm, 0, ROOM + 1, DM_REMOTE), EINVAL);
    CHECK_NULL("DM-5", "a range across the end is refused with EINVAL",
               ibv_reg_dm_mr(n->pd, dm, ROOM - 8, 16, DM_REMOTE), EINVAL);
    CHECK_NULL("DM-5", "an offset plus length that wraps is refused with EINVAL",
               ibv_reg_dm_mr(n->pd, dm, UINT64_MAX - 7, 16, DM_REMOTE), EINVAL);
    CHECK_NULL("DM-5", "an access bit that device memory does not know is refused with EINVAL",
               ibv_reg_dm_mr(n->pd, dm, 0, WINDOW, DM_REMOTE | IBV_ACCESS_ON_DEMAND), EINVAL);
    CHECK_NULL("DM-5", "remote write without local write is refused with EINVAL",
               ibv_reg_dm_mr(n->pd, dm, 0, WINDOW, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE), EINVAL);
    CHECK_EQ("DM-5", "no refused registration holds the buffer: free returns 0", ibv_free_dm(dm), 0);
}

// proves: DM-2
static void the_start_honours_the_alignment_so_that_atomics_work(struct node *n)
{
    static const uint32_t align[] = {3, 4, 6, 9, 12};
    enum { N = sizeof align / sizeof *align };
    struct ibv_dm *odd[N], *dm[N] = {0};
    struct ibv_mr *mr[N] = {0};
    struct card theirs = bring_up(n);
    uint32_t keys[N], their_keys[N];
    (void)theirs;

    for (int i = 0; i < N; i++) {
        odd[i] = allocate(n->context, 4 + 4 * i, 0); // moves the next start off any alignment it had by luck
        CHECK("DM-1", "a small buffer with no alignment wish is allocated", odd[i] != NULL);
        dm[i] = allocate(n->context, 16, align[i]);
        CHECK("DM-2", "a buffer with an alignment wish is allocated", dm[i] != NULL);
        REQUIRE(dm[i]);
        mr[i] = ibv_reg_dm_mr(n->pd, dm[i], 0, 16, DM_REMOTE);
        REQUIRE(mr[i]);
        uint64_t start = 40 + i;
        REQUIRE(ibv_memcpy_to_dm(dm[i], 0, &start, 8) == 0);
        keys[i] = mr[i]->rkey;
    }
    swap_values(keys, their_keys, sizeof keys);
    if (self.active)
        for (int i = 0; i < N; i++) {
            struct ibv_sge sge = piece(n->buffer, 8, n->mr->lkey);
            memset(n->buffer, 0xee, 8);
            REQUIRE(post_atomic(n->qp, i, IBV_WR_ATOMIC_FETCH_AND_ADD, sge, 0, their_keys[i], 2, 0) == 0);
            struct ibv_wc wc = next_completion(n->send_cq);
            uint64_t before;
            memcpy(&before, n->buffer, 8);
            CHECK_EQ("DM-2", "an atomic may target the start of an aligned buffer", wc.status, IBV_WC_SUCCESS);
            CHECK_EQ("DM-2", "and returns what was there", before, 40 + i);
        }
    meet();
    for (int i = 0; i < N; i++) {
        uint64_t value = 0;
        REQUIRE(ibv_memcpy_from_dm(&value, dm[i], 0, 8) == 0);
        if (!self.active)
            CHECK_EQ("DM-2", "the atomic changed the buffer of the other process", value, 42 + i);
        REQUIRE(ibv_dereg_mr(mr[i]) == 0 && ibv_free_dm(dm[i]) == 0);
        if (odd[i])
            REQUIRE(ibv_free_dm(odd[i]) == 0);
    }
    struct ibv_alloc_dm_attr huge = {.length = 64, .log_align_req = 63};
    struct ibv_dm *refused = ibv_alloc_dm(n->context, &huge);
    CHECK("DM-2", "an alignment nobody can give is refused, not ignored", refused == NULL);
    if (refused)
        ibv_free_dm(refused);
}

// One side's device memory with a region on its middle, and the other's keys.
struct dm_side {
    struct ibv_dm *dm;
    struct ibv_mr *mr;
    uint32_t their_rkey;
};

static struct dm_side dm_up(struct node *n, unsigned seed)
{
    struct dm_side s = {0};
    REQUIRE(s.dm = allocate(n->context, ROOM, 3));
    REQUIRE(s.mr = ibv_reg_dm_mr(n->pd, s.dm, WINDOW_AT, WINDOW, DM_REMOTE));
    dm_fill(s.dm, 0, ROOM, seed);
    swap_values(&s.mr->rkey, &s.their_rkey, sizeof s.their_rkey);
    return s;
}

static void dm_down(struct dm_side *s)
{
    meet();
    REQUIRE(ibv_dereg_mr(s->mr) == 0);
    REQUIRE(ibv_free_dm(s->dm) == 0);
}

static struct ibv_sge at_offset(uint64_t offset, uint32_t length, struct ibv_mr *mr)
{
    struct ibv_sge sge = {.addr = offset, .length = length, .lkey = mr->lkey};
    return sge;
}

// proves: DM-6
static void the_lkey_serves_in_sends_and_receives(struct node *n)
{
    struct dm_side s = dm_up(n, self.active ? 1 : 2);
    bring_up(n);
    // Offsets of an SGE count from the beginning of the region, which begins WINDOW_AT into the buffer.
    if (!self.active)
        REQUIRE(post_receive(n->qp, 7, at_offset(128, 256, s.mr)) == 0);
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 8, IBV_WR_SEND, at_offset(16, 200, s.mr), 0, 0) == 0);
        struct ibv_wc wc = next_completion(n->send_cq);
        CHECK_EQ("DM-6", "a send may gather from device memory", wc.status, IBV_WC_SUCCESS);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK_EQ("DM-6", "a receive may scatter into device memory", wc.status, IBV_WC_SUCCESS);
        CHECK_EQ("DM-6", "the receive tells the length", wc.byte_len, 200);
        unsigned char sent[ROOM], now[ROOM], own[ROOM];
        fill(sent, ROOM, 1);
        fill(own, ROOM, 2);
        REQUIRE(ibv_memcpy_from_dm(now, s.dm, 0, ROOM) == 0);
        CHECK("DM-6", "an sge address is the byte offset from the beginning of the region, on both sides",
              memcmp(now + WINDOW_AT + 128, sent + WINDOW_AT + 16, 200) == 0);
        CHECK("DM-6", "not a byte before or behind the message changed",
              memcmp(now, own, WINDOW_AT + 128) == 0 &&
                  memcmp(now + WINDOW_AT + 328, own + WINDOW_AT + 328, ROOM - WINDOW_AT - 328) == 0);
    }
    dm_down(&s);
}

// proves: DM-6
static void the_rkey_serves_in_write_read_and_atomics(struct node *n)
{
    struct dm_side s = dm_up(n, self.active ? 3 : 4);
    bring_up(n);
    unsigned char theirs[ROOM], back[ROOM];
    fill(theirs, ROOM, 4);
    if (self.active) {
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_READ, piece(n->buffer, 300, n->mr->lkey), 100, s.their_rkey) == 0);
        CHECK_EQ("DM-6", "RDMA read of device memory succeeds", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        CHECK("DM-6", "and reads from the byte offset", memcmp(n->buffer, theirs + WINDOW_AT + 100, 300) == 0);

        REQUIRE(post(n->qp, 2, IBV_WR_RDMA_READ, at_offset(512, 64, s.mr), 0, s.their_rkey) == 0);
        CHECK_EQ("DM-6", "RDMA read from device memory into device memory succeeds",
                 next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        REQUIRE(ibv_memcpy_from_dm(back, s.dm, WINDOW_AT + 512, 64) == 0);
        CHECK("DM-6", "and brings those bytes", memcmp(back, theirs + WINDOW_AT, 64) == 0);

        REQUIRE(post(n->qp, 3, IBV_WR_RDMA_WRITE, at_offset(8, 40, s.mr), 600, s.their_rkey) == 0);
        CHECK_EQ("DM-6", "RDMA write from device memory to device memory succeeds",
                 next_completion(n->send_cq).status, IBV_WC_SUCCESS);

        uint64_t word, expected;
        memcpy(&expected, theirs + WINDOW_AT + 800, 8);
        REQUIRE(post_atomic(n->qp, 4, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(n->buffer, 8, n->mr->lkey), 800,
                            s.their_rkey, 5, 0) == 0);
        CHECK_EQ("DM-6", "fetch and add on device memory succeeds", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
        memcpy(&word, n->buffer, 8);
        CHECK("DM-6", "fetch and add returns the old value in host order", word == expected);

        REQUIRE(post_atomic(n->qp, 5, IBV_WR_ATOMIC_CMP_AND_SWP, piece(n->buffer, 8, n->mr->lkey), 800,
                            s.their_rkey, expected, 99) == 0);
        CHECK_EQ("DM-6", "compare and swap that does not match succeeds", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
        memcpy(&word, n->buffer, 8);
        CHECK("DM-6", "it returns the value that is there", word == expected + 5);
        REQUIRE(post_atomic(n->qp, 6, IBV_WR_ATOMIC_CMP_AND_SWP, piece(n->buffer, 8, n->mr->lkey), 800,
                            s.their_rkey, expected + 5, 1234) == 0);
        CHECK_EQ("DM-6", "compare and swap that matches succeeds", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);

        // The last byte of the region is inside, for reads and for writes.
        REQUIRE(post(n->qp, 7, IBV_WR_RDMA_READ, piece(n->buffer, 8, n->mr->lkey), WINDOW - 8, s.their_rkey) == 0);
        CHECK_EQ("DM-6", "the last bytes of the region can be read", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
        CHECK("DM-6", "and are those", memcmp(n->buffer, theirs + WINDOW_AT + WINDOW - 8, 8) == 0);
    }
    meet();
    if (!self.active) {
        unsigned char written[ROOM], expected[ROOM];
        uint64_t swapped = 1234;
        fill(written, ROOM, 3);
        memcpy(expected, theirs, ROOM);
        memcpy(expected + WINDOW_AT + 600, written + WINDOW_AT + 8, 40);
        memcpy(expected + WINDOW_AT + 800, &swapped, 8);
        REQUIRE(ibv_memcpy_from_dm(back, s.dm, 0, ROOM) == 0);
        CHECK("DM-6", "the target holds what was written and swapped, and nothing else changed",
              memcmp(back, expected, ROOM) == 0);
    }
    dm_down(&s);
}

// proves: DM-6 (the bounds)
static void beyond_the_region_is_refused_and_moves_nothing(struct node *n)
{
    struct dm_side s = dm_up(n, self.active ? 5 : 6);
    static const struct {
        enum ibv_wr_opcode opcode;
        uint64_t address;
        uint32_t length;
        const char *sentence;
    } bad[] = {
        {IBV_WR_RDMA_WRITE, WINDOW - 8, 16, "a write across the end of the region is REM_ACCESS_ERR"},
        {IBV_WR_RDMA_READ, WINDOW - 8, 16, "a read across the end of the region is REM_ACCESS_ERR"},
        {IBV_WR_RDMA_WRITE, WINDOW, 8, "a write at the end of the region is REM_ACCESS_ERR, though the buffer goes on"},
        {IBV_WR_RDMA_WRITE, UINT64_MAX - 7, 16, "a write whose address wraps is REM_ACCESS_ERR"},
        {IBV_WR_RDMA_READ, UINT64_MAX - 7, 16, "a read whose address wraps is REM_ACCESS_ERR"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bring_up(n);
        if (self.active) {
            memset(n->buffer, 0xee, 64);
            REQUIRE(post(n->qp, i, bad[i].opcode, piece(n->buffer, bad[i].length, n->mr->lkey), bad[i].address,
                         s.their_rkey) == 0);
            CHECK_EQ("DM-6", bad[i].sentence, next_completion(n->send_cq).status, IBV_WC_REM_ACCESS_ERR);
            CHECK("DM-6", "and the local buffer is untouched", all_bytes(n->buffer, 64, 0xee));
        }
        meet();
        if (!self.active)
            CHECK("DM-6", "and the device memory is untouched", dm_filled(s.dm, 0, ROOM, 6));
    }
    bring_up(n);
    if (self.active) {
        REQUIRE(post(n->qp, 9, IBV_WR_RDMA_WRITE, at_offset(WINDOW - 8, 16, s.mr), 0, s.their_rkey) == 0);
        CHECK_EQ("DM-6", "a local sge across the end of the region is LOC_PROT_ERR",
                 next_completion(n->send_cq).status, IBV_WC_LOC_PROT_ERR);
    }
    meet();
    if (!self.active)
        CHECK("DM-6", "and nothing reached the target", dm_filled(s.dm, 0, ROOM, 6));
    dm_down(&s);
}

// proves: DM-7
static void free_fails_while_a_region_exists_and_loses_nothing(struct node *n)
{
    struct dm_side s = dm_up(n, 7);
    bring_up(n);
    if (!self.active) {
        CHECK_EQ("DM-7", "free fails with EBUSY while a region of the buffer exists", ibv_free_dm(s.dm), EBUSY);
        CHECK_EQ("DM-7", "and again", ibv_free_dm(s.dm), EBUSY);
        CHECK("DM-7", "the refused free lost not a byte", dm_filled(s.dm, 0, ROOM, 7));
        dm_fill(s.dm, 0, ROOM, 8);
    }
    meet();
    if (self.active) {
        fill(n->buffer, 64, 9);
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 64, n->mr->lkey), 0, s.their_rkey) == 0);
        CHECK_EQ("DM-7", "the region still works after the refused free", next_completion(n->send_cq).status,
                 IBV_WC_SUCCESS);
    }
    meet();
    if (!self.active) {
        CHECK("DM-7", "a write after the refused free lands", dm_filled(s.dm, WINDOW_AT, 64, 9));
        CHECK_EQ("DM-7", "the region is deregistered", ibv_dereg_mr(s.mr), 0);
        CHECK_EQ("DM-7", "then free returns 0", ibv_free_dm(s.dm), 0);
    }
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 2, IBV_WR_RDMA_WRITE, piece(n->buffer, 64, n->mr->lkey), 0, s.their_rkey) == 0);
        CHECK_EQ("DM-7", "the key of the freed region is refused with REM_ACCESS_ERR",
                 next_completion(n->send_cq).status, IBV_WC_REM_ACCESS_ERR);
        REQUIRE(ibv_dereg_mr(s.mr) == 0 && ibv_free_dm(s.dm) == 0);
    } else {
        struct ibv_dm *again = allocate(n->context, limit_of(n->context), 0);
        CHECK("DM-3", "all of it is available again", again != NULL);
        if (again)
            REQUIRE(ibv_free_dm(again) == 0);
    }
    meet();
}

// In the child: 0, or the line of what was wrong.
static int child_with_its_parents_memory(struct node *n, struct ibv_dm *dm)
{
    unsigned char bytes[256], back[256];
    fill(bytes, sizeof bytes, 2);
    if (!dm_filled(dm, 0, sizeof bytes, 7) || ibv_memcpy_to_dm(dm, 0, bytes, sizeof bytes) != 0)
        return __LINE__;
    struct ibv_dm *own = allocate(n->context, ROOM, 0);
    if (!own || own->context != n->context)
        return __LINE__;
    if (ibv_memcpy_from_dm(back, own, ROOM - sizeof back, sizeof back) != 0 || !all_bytes(back, sizeof back, 0))
        return __LINE__;
    if (ibv_memcpy_to_dm(own, 0, bytes, sizeof bytes) != 0 || !dm_filled(own, 0, sizeof bytes, 2))
        return __LINE__;
    // A domain of the parent's makes no regions here, of whatever memory.
    errno = 0;
    if (ibv_reg_dm_mr(n->pd, own, 0, ROOM, DM_REMOTE) || errno != EIO)
        return __LINE__;
    if (ibv_free_dm(own) != 0 || ibv_free_dm(dm) != 0)
        return __LINE__;
    // Left behind, at the place that the parent gives out next.
    struct ibv_dm *left = allocate(n->context, ROOM, 12);
    if (!left || ibv_memcpy_to_dm(left, 0, bytes, sizeof bytes) != 0)
        return __LINE__;
    return 0;
}

// proves: DM-8
static void a_child_has_device_memory_of_its_own(struct node *n)
{
    static const size_t lengths[] = {256, 64 * 1024}; // a part of a page, and whole pages
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct ibv_dm *dm = allocate(n->context, lengths[i], 12);
        REQUIRE(dm);
        dm_fill(dm, 0, lengths[i], 7);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            int line = child_with_its_parents_memory(n, dm);
            if (line)
                fprintf(stderr, "the child: line %d, errno %d\n", line, errno);
            _exit(line != 0);
        }
        int status = -1;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ("DM-8", "a child has memory of its own on its parent's context, and copies to its parent's", status, 0);
        CHECK("DM-8", "its copy reaches the parent, as on cards, and its free takes nothing", dm_filled(dm, 0, 256, 2));
        dm_fill(dm, 0, lengths[i], 7);
        struct ibv_dm *next = allocate(n->context, lengths[i], 12);
        unsigned char seen[256];
        REQUIRE(next && ibv_memcpy_from_dm(seen, next, 0, sizeof seen) == 0);
        CHECK("DM-8", "what it wrote to its own is not in its parent's", all_bytes(seen, sizeof seen, 0));
        dm_fill(next, 0, lengths[i], 8);
        CHECK("DM-8", "nor is it given out again", dm_filled(dm, 0, lengths[i], 7));
        REQUIRE(ibv_free_dm(next) == 0 && ibv_free_dm(dm) == 0);
    }
}

int main(int argc, char **argv)
{
    uint64_t configured = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
    split();
    struct node n = open_node();
    allocation_takes_length_alignment_and_mask(&n);
    allocation_stops_at_the_limit_and_freed_memory_comes_back(&n, configured);
    copies_move_exactly_what_was_asked(&n);
    copies_are_as_exact_as_the_device(&n, argc > 2 ? strtoull(argv[2], NULL, 0) : 1);
    registration_takes_a_range_and_insists_on_zero_based(&n);
    the_start_is_at_a_multiple_of_the_alignment(&n);
    the_start_honours_the_alignment_so_that_atomics_work(&n);
    a_window_leads_to_device_memory(&n);
    the_lkey_serves_in_sends_and_receives(&n);
    the_rkey_serves_in_write_read_and_atomics(&n);
    beyond_the_region_is_refused_and_moves_nothing(&n);
    free_fails_while_a_region_exists_and_loses_nothing(&n);
    a_child_has_device_memory_of_its_own(&n);
    close_node(&n);
    return finish();
}
