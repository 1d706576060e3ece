// dat_lmr_sync_rdma_write and dat_lmr_sync_rdma_read: what is stale before them and not after, and what they refuse.
// proves: SYNC-1 to SYNC-9. Where the adapter is coherent they change nothing, and refuse the same.

#include "ends.h"

#define AT (64 * PAGE)
#define LENGTH (4 * PAGE)
#define OLD 11
#define NEW 12

static unsigned char *own(size_t offset)
{
    return near->room + AT + offset;
}

static DAT_LMR_TRIPLET range(size_t offset, size_t length)
{
    return piece(near->local, own(offset), length);
}

// The far end writes the bytes that this range has under a seed.
static void far_writes(DAT_RMR_CONTEXT context, const unsigned char *at, size_t length, unsigned seed)
{
    at_far(fill_room, 0, length, seed);
    REQUIRE(at_far(write_there, 0, length, context, (int64_t)address_of(at), 0) == 0);
}

static bool far_reads(DAT_RMR_CONTEXT context, const unsigned char *at, size_t length, unsigned seed)
{
    at_far(fill_room, 0, length, 99);
    REQUIRE(at_far(read_there, 0, length, context, (int64_t)address_of(at), 0) == 0);
    return at_far(room_filled, 0, length, seed);
}

// The byte that the far end reads there.
static int64_t first_byte(struct end *e, const int64_t *a)
{
    (void)a;
    return e->room[0];
}

static int64_t far_sees(const unsigned char *at)
{
    far_reads(near->remote, at, 1, 0);
    return at_far(first_byte);
}

static void prepare(void)
{
    collect(near->ia, near->local, own(0), LENGTH);
    fill(own(0), LENGTH, OLD);
    publish(near->ia, near->local, own(0), LENGTH);
}

// What the program sees of a range that was written and not yet collected.
static bool is_stale(size_t offset, size_t length, unsigned old, unsigned new)
{
    return coherent ? filled(own(offset), length, new) : filled(own(offset), length, old);
}

static void signatures(void)
{
    chapter("the calls");
    DAT_RETURN (*write)(DAT_IA_HANDLE, const DAT_LMR_TRIPLET *, DAT_VLEN) = dat_lmr_sync_rdma_write;
    DAT_RETURN (*read)(DAT_IA_HANDLE, const DAT_LMR_TRIPLET *, DAT_VLEN) = dat_lmr_sync_rdma_read;
    DAT_LMR_TRIPLET p = range(0, LENGTH);
    DAT_LMR_TRIPLET before = p;
    CHECK_DONE("SYNC-1", "an adapter, segments and their number", write(near->ia, &p, 1));
    CHECK_DONE("SYNC-1", "the same of its sister", read(near->ia, &p, 1));
    CHECK("SYNC-1", "the segments are not changed", memcmp(&p, &before, sizeof p) == 0);
    CHECK_DONE("SYNC-1", "no segment at all", write(near->ia, &p, 0));
    CHECK_DONE("SYNC-1", "... nor an array", read(near->ia, NULL, 0));
}

static void attribute(int argc, char **argv)
{
    chapter("the attribute");
    bool asked = has_word(argc, argv, "noncoherent");
    CHECK_EQ("SYNC-3", "the provider says whether the calls are needed", coherent, !asked);
}

static void incoming(void)
{
    chapter("incoming writes");
    prepare();
    far_writes(near->remote, own(0), LENGTH, NEW);
    CHECK("SYNC-4", coherent ? "a coherent adapter shows them at once" : "they are invisible",
          is_stale(0, LENGTH, OLD, NEW));
    if (!coherent)
        CHECK("SYNC-4", "... however often one looks", filled(own(0), LENGTH, OLD));
    DAT_LMR_TRIPLET p = range(0, LENGTH);
    CHECK_DONE("SYNC-2", "after the call", dat_lmr_sync_rdma_write(near->ia, &p, 1));
    CHECK("SYNC-2", "... they are there", filled(own(0), LENGTH, NEW));

    // A byte is as good as a page.
    prepare();
    far_writes(near->remote, own(1001), 1, NEW);
    far_writes(near->remote, own(LENGTH - 1), 1, NEW);
    p = range(1001, 1);
    CHECK_DONE("SYNC-2", "the call for one byte", dat_lmr_sync_rdma_write(near->ia, &p, 1));
    CHECK_EQ("SYNC-2", "... shows it", own(1001)[0], pattern_byte(0, NEW));
    CHECK_EQ("SYNC-2", coherent ? "the other is there" : "... and not the other", own(LENGTH - 1)[0],
             coherent ? pattern_byte(0, NEW) : pattern_byte(LENGTH - 1, OLD));
    CHECK("SYNC-7", "... and nothing else changed",
          filled(own(0), 1001, OLD) && own(1002)[0] == pattern_byte(1002,
                                                            OLD) && own(LENGTH - 2)[0] == pattern_byte(LENGTH - 2,
                                                            OLD));
    collect(near->ia, near->local, own(0), LENGTH);
    CHECK_EQ("SYNC-2", "... which the next call shows", own(LENGTH - 1)[0], pattern_byte(0, NEW));

    // A range that only touches what was written.
    prepare();
    far_writes(near->remote, own(PAGE), PAGE, NEW);
    p = range(PAGE + 100, 200);
    MUST(dat_lmr_sync_rdma_write(near->ia, &p, 1));
    bool inside = true;
    for (size_t i = 100; i < 300; i++)
        inside &= own(PAGE)[i] == pattern_byte(i, NEW);
    CHECK("SYNC-2", "of a write that reaches further the part asked for is shown", inside);
    if (!coherent)
        CHECK("SYNC-7", "... and no byte beside it",
              own(PAGE + 99)[0] == pattern_byte(PAGE + 99, OLD) && own(PAGE + 300)[0] == pattern_byte(PAGE + 300, OLD));
    collect(near->ia, near->local, own(0), LENGTH);
    CHECK("SYNC-2", "... and the rest by the next call", filled(own(PAGE), PAGE, NEW) && filled(own(0), PAGE, OLD));
}

static void outgoing(void)
{
    chapter("outgoing reads");
    prepare();
    fill(own(0), LENGTH, NEW);
    CHECK("SYNC-4",
          coherent ? "a coherent adapter shows local stores to readers at once" : "the far end reads what was published",
          far_reads(near->remote, own(0), LENGTH, coherent ? NEW : OLD));
    DAT_LMR_TRIPLET p = range(0, LENGTH);
    CHECK_DONE("SYNC-2", "after the sister call", dat_lmr_sync_rdma_read(near->ia, &p, 1));
    CHECK("SYNC-2", "... it reads the new bytes", far_reads(near->remote, own(0), LENGTH, NEW));
    prepare();
    fill(own(0), 100, NEW);
    fill(own(PAGE), 100, NEW);
    p = range(PAGE, 100);
    MUST(dat_lmr_sync_rdma_read(near->ia, &p, 1));
    CHECK("SYNC-7", "only the range of the call is published",
          far_reads(near->remote, own(PAGE), 100, NEW) && far_reads(near->remote, own(0), 100, coherent ? NEW : OLD));
    // Sends are no RDMA: they always take the program's bytes.
    prepare();
    fill(own(0), 64, NEW);
    at_far(fill_room, PAGE, 64, 99);
    REQUIRE(at_far(receive, PAGE, 64, 1) == 0);
    p = range(0, 64);
    MUST(dat_ep_post_send(near->ep, 1, &p, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    REQUIRE(next_done(near->requests).status == 0 && at_far(received, 1, 64, 1) == 0);
    CHECK("SYNC-3", "a send needs no call", at_far(room_filled, PAGE, 64, NEW));
    p = range(0, 64);
    MUST(dat_ep_post_recv(near->ep, 1, &p, cookie(2), DAT_COMPLETION_DEFAULT_FLAG));
    at_far(fill_room, PAGE, 64, 33);
    REQUIRE(at_far(send_bytes, PAGE, 64, 0) == 0 && CALL(near, received, 1, 64, 2) == 0);
    CHECK("SYNC-3", "nor does a receive", filled(own(0), 64, 33));
}

static void batches(void)
{
    enum { SEGMENTS = 64 };
    chapter("many segments in one call");
    DAT_PZ_HANDLE other;
    DAT_LMR_HANDLE plain, on;
    DAT_LMR_CONTEXT plain_local, on_local;
    DAT_RMR_CONTEXT plain_remote;
    DAT_REGION_DESCRIPTION memory = {.for_va = own(8 * PAGE)}, base;
    MUST(dat_pz_create(near->ia, &other));
    MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, memory, 4 * PAGE, near->pz, ALL_PRIVILEGES, &plain,
                        &plain_local,
                        &plain_remote, NULL, NULL));
    base.for_lmr_handle = plain;
    MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_LMR, base, 0, other, DAT_MEM_PRIV_NONE_FLAG, &on, &on_local, NULL, NULL,
                        NULL));
    prepare();
    fill(own(8 * PAGE), 4 * PAGE, OLD);
    publish(near->ia, plain_local, own(8 * PAGE), 4 * PAGE);
    DAT_LMR_TRIPLET segments[SEGMENTS];
    for (size_t i = 0; i < SEGMENTS; i++) {
        // Every other one lies in the other region, named by a region on it of another zone.
        unsigned char *at = i % 2 ? own(8 * PAGE + i * 200) : own(i * 200);
        far_writes(i % 2 ? plain_remote : near->remote, at, 100, (unsigned)i);
        segments[i] = piece(i % 2 ? on_local : near->local, at, 100);
    }
    if (!coherent)
        CHECK("SYNC-4", "64 writes are invisible",
              filled(own(0), LENGTH, OLD) && filled(own(8 * PAGE), 4 * PAGE, OLD));
    // All but the last two.
    CHECK_DONE("SYNC-5", "one call for many, of two regions and two zones",
               dat_lmr_sync_rdma_write(near->ia, segments, SEGMENTS - 2));
    size_t shown = 0;
    for (size_t i = 0; i < SEGMENTS; i++)
        shown += filled(i % 2 ? own(8 * PAGE + i * 200) : own(i * 200), 100, (unsigned)i);
    CHECK_EQ("SYNC-5", "... shows each of its ranges and no other", shown, coherent ? SEGMENTS : SEGMENTS - 2);
    MUST(dat_lmr_sync_rdma_write(near->ia, segments, SEGMENTS));
    CHECK("SYNC-5", "... and the rest the next time",
          filled((unsigned char *)(uintptr_t)segments[SEGMENTS - 1].virtual_address, 100, SEGMENTS - 1) &&
              filled((unsigned char *)(uintptr_t)segments[SEGMENTS - 2].virtual_address, 100, SEGMENTS - 2));
    CHECK_DONE("SYNC-5", "a segment of no bytes does no harm",
               dat_lmr_sync_rdma_write(near->ia,
                                       &(DAT_LMR_TRIPLET){.lmr_context = near->local,
                                                          .virtual_address = address_of(own(0))}, 1));
    MUST(dat_lmr_free(on));
    MUST(dat_lmr_free(plain));
    MUST(dat_pz_free(other));
}

static void through_windows(void)
{
    chapter("writes through an RMR, and through a region on a region");
    DAT_RMR_HANDLE rmr;
    DAT_RMR_CONTEXT context;
    DAT_LMR_HANDLE on;
    DAT_RMR_CONTEXT remote;
    DAT_LMR_TRIPLET p = range(PAGE, 512);
    DAT_REGION_DESCRIPTION base = {.for_lmr_handle = near->lmr};
    prepare();
    MUST(dat_rmr_create(near->pz, &rmr));
    MUST(dat_rmr_bind(rmr, &p, DAT_MEM_PRIV_ALL_FLAG, near->ep, cookie(1), DAT_COMPLETION_DEFAULT_FLAG, &context));
    REQUIRE(next_done(near->requests).status == 0);
    far_writes(context, own(PAGE), 512, NEW);
    CHECK("SYNC-4", coherent ? "an RMR shows its bytes" : "an RMR leads to the same stale memory",
          own(PAGE)[0] == (coherent ? pattern_byte(0, NEW) : pattern_byte(PAGE, OLD)));
    CHECK("SYNC-7", "what is in the adapter is read back by the peer, collected or not",
          far_reads(near->remote, own(PAGE), 512, NEW));
    CHECK_DONE("SYNC-2", "the call names the LMR below", dat_lmr_sync_rdma_write(near->ia, &p, 1));
    CHECK("SYNC-2", "... and shows them", filled(own(PAGE), 512, NEW));
    MUST(dat_rmr_free(rmr));
    prepare();
    MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_LMR, base, 0, near->pz, ALL_PRIVILEGES, &on, NULL, &remote, NULL, NULL));
    far_writes(remote, own(0), 100, NEW);
    p = range(0, 100);
    MUST(dat_lmr_sync_rdma_write(near->ia, &p, 1));
    CHECK("SYNC-2", "what came by a region on it is collected by the first", filled(own(0), 100, NEW));
    MUST(dat_lmr_free(on));
}

static void local_writes(void)
{
    chapter("local writes to a target of writes");
    prepare();
    fill(own(0), LENGTH, 21);
    collect(near->ia, near->local, own(0), LENGTH); // after the local write, before the remote one
    CHECK("SYNC-6", "a local write is not undone by the call", filled(own(0), LENGTH, 21));
    far_writes(near->remote, own(1000), 100, 22);
    collect(near->ia, near->local, own(0), LENGTH); // after the remote write, before the next local one
    CHECK("SYNC-6", "the remote write is there", filled(own(1000), 100, 22));
    bool around = filled(own(0), 1000, 21);
    for (size_t i = 1100; i < LENGTH; i++)
        around &= own(0)[i] == pattern_byte(i, 21);
    CHECK("SYNC-6", "... and around it the local one", around);
    fill(own(1000), 100, 23);
    collect(near->ia, near->local, own(0), LENGTH);
    CHECK("SYNC-7", "what was collected does not come again", filled(own(1000), 100, 23));
    publish(near->ia, near->local, own(0), LENGTH);
    CHECK("SYNC-6", "and after its sister the far end reads it", far_reads(near->remote, own(1000), 100, 23));
    // Published while a write is not yet collected: the write is newer.
    if (!coherent) {
        prepare();
        far_writes(near->remote, own(0), 64, NEW);
        publish(near->ia, near->local, own(0), LENGTH);
        CHECK("SYNC-7", "publishing does not undo a write that was not collected",
              far_reads(near->remote, own(0), 64, NEW));
        collect(near->ia, near->local, own(0), LENGTH);
        CHECK("SYNC-7", "... which is collected after that", filled(own(0), 64, NEW));
    }
}

// Regions on the same bytes: what is synchronized through one is synchronized.
static void one_memory(void)
{
    chapter("several regions on the same bytes");
    const struct {
        size_t at, length;
    } parts[] = {{0, LENGTH}, {1000, 2 * PAGE}, {1000, 2 * PAGE}, {PAGE + 7, 900}};
    enum { PARTS = 4 };
    for (int order = 0; order < PARTS; order++) {
        DAT_LMR_HANDLE lmr[PARTS];
        DAT_LMR_CONTEXT local[PARTS];
        DAT_RMR_CONTEXT remote[PARTS];
        prepare();
        for (int k = 0; k < PARTS; k++) {
            int i = (k + order) % PARTS;
            DAT_REGION_DESCRIPTION memory = {.for_va = own(parts[i].at)};
            MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, memory, parts[i].length, near->pz, ALL_PRIVILEGES,
                                &lmr[i], &local[i], &remote[i], NULL, NULL));
        }
        // All have these bytes.
        unsigned char *at = own(PAGE + 100);
        unsigned seed = 40;
        bool stale = true, collected = true, published = true, synchronized = true;
        // They go one after the other, the last made first.
        for (int left = PARTS; left > 1; left--) {
            int by = (order + left - 1) % PARTS, through = (order + left - 2) % PARTS;
            DAT_LMR_TRIPLET p = piece(local[through], at, 64);
            far_writes(remote[by], at, 64, ++seed);
            stale &= coherent || !filled(at, 64, seed);
            MUST(dat_lmr_sync_rdma_write(near->ia, &p, 1));
            collected &= filled(at, 64, seed);
            fill(at, 64, ++seed);
            MUST(dat_lmr_sync_rdma_read(near->ia, &p, 1));
            published &= far_reads(remote[by], at, 64, seed);
            fill(at, 64, ++seed);
            MUST(dat_lmr_sync_rdma_write(near->ia, &p, 1));
            synchronized &= far_reads(remote[by], at, 64, seed);
            // Not collected when its region goes.
            far_writes(remote[by], at, 64, ++seed);
            MUST(dat_lmr_free(lmr[by]));
            MUST(dat_lmr_sync_rdma_write(near->ia, &p, 1));
            collected &= filled(at, 64, seed);
        }
        MUST(dat_lmr_free(lmr[order]));
        CHECK("SYNC-4", "a write through one is invisible", stale);
        CHECK("SYNC-2", "... and collected through another, also when the first has gone", collected);
        CHECK("SYNC-2", "a store published through one is read through another", published);
        CHECK("SYNC-7", "... and so is one that dat_lmr_sync_rdma_write made consistent", synchronized);
    }
}

// What a program leaves out, and what it believes to find in the end: `believed` of it.
static bool is_as_believed(size_t length, const unsigned char *believed)
{
    return memcmp(own(0), believed, length) == 0;
}

static void omissions(void)
{
    static unsigned char believed[LENGTH];
    chapter("what the page says must be called, left out");
    // With every call.
    prepare();
    fill(own(0), PAGE, 61);
    collect(near->ia, near->local, own(0), PAGE);
    CHECK("SYNC-7", "after a store and the call a peer reads the store", far_reads(near->remote, own(0), PAGE, 61));
    far_writes(near->remote, own(0), PAGE, 62);
    collect(near->ia, near->local, own(0), PAGE);
    CHECK("SYNC-6", "... and a peer's write after it is all there", filled(own(0), PAGE, 62));
    fill(own(0), PAGE, 63);
    collect(near->ia, near->local, own(0), PAGE);
    CHECK("SYNC-6", "... and so is a store after the next call", filled(own(0), PAGE, 63) &&
          far_reads(near->remote, own(0), PAGE, 63));

    // Before the write.
    for (size_t length = 1; length <= PAGE; length *= 16) {
        prepare();
        fill(own(0), length, 70);
        far_writes(near->remote, own(0), length, 71);
        collect(near->ia, near->local, own(0), LENGTH);
        fill(believed, length, 71);
        CHECK_EQ("SYNC-6", coherent ? "a store before a write needs no call" : "a store, no call and a write: bytes of the write are lost",
                 is_as_believed(length, believed), coherent);
        bool after = true;
        for (size_t i = length; i < LENGTH; i++)
            after &= own(i)[0] == pattern_byte(i, OLD);
        CHECK("SYNC-7", "... and nothing behind it", after);
    }
    // After it, of some of its bytes and of all.
    for (size_t stored = 8; stored <= PAGE; stored *= 8) {
        prepare();
        far_writes(near->remote, own(0), PAGE, 72);
        fill(own(0), stored, 73);
        collect(near->ia, near->local, own(0), LENGTH);
        fill(believed, PAGE, 72);
        fill(believed, stored, 73);
        CHECK_EQ("SYNC-6", coherent ? "a store after a write needs no call" : "a write, no call and a store: one of the two is lost",
                 is_as_believed(PAGE, believed), coherent);
        bool after = true;
        for (size_t i = PAGE; i < LENGTH; i++)
            after &= own(i)[0] == pattern_byte(i, OLD);
        CHECK("SYNC-7", "... and nothing behind it", after);
    }
    // Beside it, in the same cache line, is not in it.
    prepare();
    for (size_t i = 0; i < 1024; i += 16) {
        fill(own(i), 8, 74);
        far_writes(near->remote, own(i + 8), 8, 75);
    }
    collect(near->ia, near->local, own(0), LENGTH);
    bool all = true;
    for (size_t i = 0; i < 1024; i += 16)
        all &= filled(own(i), 8, 74) && filled(own(i + 8), 8, 75);
    CHECK("SYNC-7", "a store beside a write harms neither", all);
    // What the adapter itself placed is no store.
    prepare();
    DAT_LMR_TRIPLET p = range(0, 64);
    MUST(dat_ep_post_recv(near->ep, 1, &p, cookie(3), DAT_COMPLETION_DEFAULT_FLAG));
    at_far(fill_room, PAGE, 64, 76);
    REQUIRE(at_far(send_bytes, PAGE, 64, 0) == 0 && CALL(near, received, 1, 64, 3) == 0);
    CHECK("SYNC-3", "what a receive brought is read by peers without a call", far_reads(near->remote, own(0), 64, 76));
    far_writes(near->remote, own(0), 64, 77);
    collect(near->ia, near->local, own(0), 64);
    CHECK("SYNC-3", "... and may be written over without one", filled(own(0), 64, 77));
}

static void refusals(void)
{
    chapter("refusals");
    DAT_LMR_HANDLE gone;
    DAT_LMR_CONTEXT stale;
    DAT_REGION_DESCRIPTION memory = {.for_va = own(0)};
    MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, memory, PAGE, near->pz, ALL_PRIVILEGES, &gone, &stale, NULL,
                        NULL, NULL));
    MUST(dat_lmr_free(gone));
    const struct {
        const char *sentence;
        DAT_LMR_TRIPLET p;
    } wrong[] = {
        {"a byte behind its LMR", piece(near->local, near->room + ROOM - 63, 64)},
        {"a byte before it", piece(near->local, near->room - 1, 64)},
        {"a range around the end of all addresses", piece(near->local, own(0), (size_t)-1)},
        {"a range that begins there", piece(near->local, (void *)-8l, 16)},
        {"a context that was made up", piece(0x00badbad, own(0), 64)},
        {"the context 0", piece(0, own(0), 64)},
        {"an RMR context", piece(near->remote, own(0), 64)},
        {"the context of a freed LMR", piece(stale, own(0), 64)},
    };
    typedef DAT_RETURN (*sync_call)(DAT_IA_HANDLE, const DAT_LMR_TRIPLET *, DAT_VLEN);
    sync_call calls[] = {dat_lmr_sync_rdma_write, dat_lmr_sync_rdma_read};
    for (int c = 0; c < 2; c++)
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            prepare();
            far_writes(near->remote, own(0), 64, NEW);
            fill(own(PAGE), 64, NEW);
            // Good segments before and behind it.
            DAT_LMR_TRIPLET segments[] = {range(0, 64), range(PAGE, 64), wrong[i].p, range(0, 64)};
            CHECK_CODE("SYNC-8", wrong[i].sentence, calls[c](near->ia, segments, 4), BAD_ARGUMENT(2));
            CHECK("SYNC-8", "... and what was good is as it was",
                  is_stale(0, 64, OLD,
                           NEW) && far_sees(own(PAGE)) == (coherent ? pattern_byte(0, NEW) : pattern_byte(PAGE, OLD)));
        }
    for (int c = 0; c < 2; c++) {
        DAT_LMR_TRIPLET p = range(0, 64);
        CHECK_CODE("SYNC-8", "no array", calls[c](near->ia, NULL, 1), BAD_ARGUMENT(2));
        CHECK_CODE("SYNC-8", "no adapter", calls[c](NULL, &p, 1), BAD_HANDLE(IA));
        CHECK_CODE("SYNC-8", "a zone for an adapter", calls[c](near->pz, &p, 1), BAD_HANDLE(IA));
        CHECK_CODE("SYNC-8", "a number for an adapter", calls[c]((DAT_IA_HANDLE)0x7777, &p, 1), BAD_HANDLE(IA));
    }
    CHECK("SYNC-8", "... and what was written is as stale as before", is_stale(0, 64, OLD, NEW));
    collect(near->ia, near->local, own(0), LENGTH);
    CHECK("SYNC-8", "the good call still works", filled(own(0), 64, NEW));
}

// ---- threads ------------------------------------------------------------------------------------------------------

static bool stop;

static void *sync_for_ever(void *argument)
{
    uintptr_t number = (uintptr_t)argument, refused = 0;
    for (size_t i = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); i++) {
        DAT_LMR_TRIPLET p = range((i * 64) % (LENGTH - 512), 512);
        refused += (number ? dat_lmr_sync_rdma_read(near->ia, &p, 1) : dat_lmr_sync_rdma_write(near->ia, &p,
                                                            1)) != DAT_SUCCESS;
    }
    return (void *)refused;
}

static void threads(void)
{
    chapter("threads that call it at once, against the contract");
    pthread_t ids[3];
    uintptr_t refused = 0;
    prepare();
    for (uintptr_t i = 0; i < 3; i++)
        REQUIRE(pthread_create(&ids[i], NULL, sync_for_ever, (void *)(i % 2)) == 0);
    for (unsigned i = 0; i < 200; i++)
        far_writes(near->remote, own(i * 64 % LENGTH), 64, i);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(ids[i], &result);
        refused += (uintptr_t)result;
    }
    CHECK_EQ("SYNC-9", "no call of theirs is refused", refused, 0);
    collect(near->ia, near->local, own(0), LENGTH);
    bool all = true;
    for (unsigned i = 0; i < 200; i++)
        all &= filled(own(i * 64 % LENGTH), 64, i);
    CHECK("SYNC-9", "and after the last call every byte is the last that was written", all);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    connect_ends();
    signatures();
    attribute(argc, argv);
    incoming();
    outgoing();
    batches();
    through_windows();
    local_writes();
    one_memory();
    omissions();
    refusals();
    threads();
    REQUIRE(talks());
    part();
    return end();
}
