// dat_lmr_create: what a region is, what it allows, what is refused. proves: LMR-1 to LMR-17.

#include "ends.h"

#define AT (16 * PAGE) // of the near room: what most regions here cover
#define LENGTH (2 * PAGE)
#define SEED 3

struct region {
    DAT_LMR_HANDLE handle;
    DAT_LMR_CONTEXT local;
    DAT_RMR_CONTEXT remote;
    DAT_VLEN size;
    DAT_VADDR address;
};

static const DAT_MEM_PRIV_FLAGS SINGLE[] = {DAT_MEM_PRIV_LOCAL_READ_FLAG, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                                            DAT_MEM_PRIV_LOCAL_WRITE_FLAG, DAT_MEM_PRIV_REMOTE_WRITE_FLAG};
// Filled in before every call that is to be refused: nothing may change it.
static const struct region UNTOUCHED = {(void *)0x1234, 0x51515151, 0x61616161, 71, 81};

static DAT_RETURN create(DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION what, DAT_VLEN length, DAT_PZ_HANDLE pz,
                         DAT_MEM_PRIV_FLAGS privileges, struct region *r)
{
    *r = UNTOUCHED;
    return dat_lmr_create(near->ia, type, what, length, pz, privileges, &r->handle, &r->local, &r->remote, &r->size,
                          &r->address);
}

static DAT_REGION_DESCRIPTION at_address(const void *at)
{
    return (DAT_REGION_DESCRIPTION){.for_va = (void *)at};
}

static struct region virtual_region(const void *at, size_t length, DAT_MEM_PRIV_FLAGS privileges)
{
    struct region r;
    MUST(create(DAT_MEM_TYPE_VIRTUAL, at_address(at), length, near->pz, privileges, &r));
    return r;
}

// A refusal with this code that wrote nothing to its results and made nothing: where the zone could hold a region it is one of
// its own, and can go.
#define CHECK_NO_REGION(id, sentence, wanted, type, what, length, in_zone, privileges)                               \
    do {                                                                                                             \
        struct region r_;                                                                                            \
        DAT_PZ_HANDLE pz_ = (in_zone), own_pz_ = NULL;                                                               \
        if (pz_ == near->pz) {                                                                                       \
            MUST(dat_pz_create(near->ia, &own_pz_));                                                                 \
            pz_ = own_pz_;                                                                                           \
        }                                                                                                            \
        CHECK_CODE(id, sentence, create(type, what, length, pz_, privileges, &r_), wanted);                          \
        CHECK(id, "... and no result was written", memcmp(&r_, &UNTOUCHED, sizeof r_) == 0);                         \
        if (own_pz_)                                                                                                 \
            CHECK_DONE(id, "... nor a region made, so its zone can go", dat_pz_free(own_pz_));                       \
    } while (0)

static unsigned char *own(size_t offset)
{
    return near->room + AT + offset;
}

// The far end writes there: the status.
static int64_t far_writes(DAT_RMR_CONTEXT context, const void *address, size_t length, unsigned seed)
{
    at_far(fill_room, 0, length, seed);
    return at_far(write_there, 0, length, context, (int64_t)address_of(address), 0);
}

// The far end reads there what is filled with the seed: the status, or 100 if the bytes are others.
static int64_t far_reads(DAT_RMR_CONTEXT context, const void *address, size_t length, unsigned seed)
{
    at_far(fill_room, 0, length, 99);
    int64_t status = at_far(read_there, 0, length, context, (int64_t)address_of(address), 0);
    if (status)
        return at_far(room_filled, 0, length, 99) ? status : 101;
    return at_far(room_filled, 0, length, seed) ? 0 : 100;
}

static void prepare(void)
{
    fill(own(0), LENGTH, SEED);
}

static struct region *watched; // what stands over the range, if anything does

// The far end's access was refused, nothing moved, and the connection is gone; then there is a new one.
static void refused_there(const char *id, const char *what, int64_t status)
{
    CHECK_EQ(id, what, status, DAT_DTO_ERR_REMOTE_ACCESS);
    CHECK(id, "... it broke the connection at both ends", both_broken());
    if (watched)
        collect(near->ia, watched->local, (void *)(uintptr_t)watched->address, watched->size);
    CHECK(id, "... and no byte changed", filled(own(0), LENGTH, SEED));
    connect_again();
}

static void signature(void)
{
    chapter("the call");
    DAT_RETURN (*call)(DAT_IA_HANDLE, DAT_MEM_TYPE, DAT_REGION_DESCRIPTION, DAT_VLEN, DAT_PZ_HANDLE, DAT_MEM_PRIV_FLAGS,
                       DAT_LMR_HANDLE *, DAT_LMR_CONTEXT *, DAT_RMR_CONTEXT *, DAT_VLEN *, DAT_VADDR *) = dat_lmr_create;
    struct region r = UNTOUCHED;
    CHECK_DONE("LMR-1", "it takes and gives what the page says",
               call(near->ia, DAT_MEM_TYPE_VIRTUAL, at_address(own(0)), LENGTH, near->pz, ALL_PRIVILEGES, &r.handle,
                    &r.local, &r.remote, &r.size, &r.address));
    CHECK("LMR-1", "every result is written", r.handle != UNTOUCHED.handle && r.local != UNTOUCHED.local &&
                                                  r.remote != UNTOUCHED.remote && r.size != UNTOUCHED.size &&
                                                  r.address != UNTOUCHED.address);
    MUST(dat_lmr_free(r.handle));
    DAT_LMR_HANDLE only = NULL;
    CHECK_DONE("LMR-1", "the results but the handle may be left out",
               call(near->ia, DAT_MEM_TYPE_VIRTUAL, at_address(own(0)), LENGTH, near->pz, ALL_PRIVILEGES, &only, NULL,
                    NULL, NULL, NULL));
    DAT_LMR_PARAM p;
    MUST(dat_lmr_query(only, DAT_LMR_FIELD_ALL, &p));
    CHECK("LMR-1", "... and can be asked for", p.lmr_context != 0 && p.rmr_context != 0 && p.length == LENGTH);
    MUST(dat_lmr_free(only));
    CHECK_CODE("LMR-16", "no place for the handle", call(near->ia, DAT_MEM_TYPE_VIRTUAL, at_address(own(0)), LENGTH,
                                                         near->pz, ALL_PRIVILEGES, NULL, &r.local, NULL, NULL, NULL),
               BAD_ARGUMENT(7));
}

static void is_queried_as_made(struct region *r, DAT_MEM_TYPE type, const void *at, size_t length,
                               DAT_MEM_PRIV_FLAGS privileges)
{
    DAT_LMR_PARAM p;
    memset(&p, 0x5a, sizeof p);
    CHECK_DONE("LMR-1", "a region tells what it is", dat_lmr_query(r->handle, DAT_LMR_FIELD_ALL, &p));
    CHECK("LMR-1", "... zone, privileges and contexts are those of its making",
          p.ia_handle == near->ia && p.pz_handle == near->pz && p.mem_priv == privileges && p.lmr_context == r->local &&
              p.rmr_context == r->remote && p.registered_size == r->size && p.registered_address == r->address);
    CHECK("LMR-1", "... and its memory",
          (p.mem_type == type || p.mem_type == DAT_MEM_TYPE_VIRTUAL || p.mem_type == DAT_MEM_TYPE_SO_VIRTUAL) &&
              p.region_desc.for_va == at && p.length == length);
}

static void plain(void)
{
    static const struct {
        size_t offset, length;
    } cases[] = {{0, PAGE}, {1, 1}, {7, 4089}, {4095, 2}, {100, 8000}, {8, 8}};
    DAT_MEM_TYPE types[] = {DAT_MEM_TYPE_VIRTUAL, DAT_MEM_TYPE_SO_VIRTUAL};
    chapter("a range of addresses, plain and strongly ordered");
    for (size_t t = 0; t < 2; t++) {
        const char *id = t ? "LMR-3" : "LMR-2";
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            unsigned char *at = own(cases[i].offset);
            size_t length = cases[i].length;
            struct region r;
            prepare();
            CHECK_DONE(id, "any byte may begin it and any may end it",
                       create(types[t], at_address(at), length, near->pz, ALL_PRIVILEGES, &r));
            CHECK("LMR-10", "what is registered contains what was asked for",
                  r.address <= address_of(at) && r.address + r.size >= address_of(at) + length);
            is_queried_as_made(&r, types[t], at, length, ALL_PRIVILEGES);
            CHECK_EQ("LMR-12", "the far end writes its first byte", far_writes(r.remote, at, 1, 50), 0);
            CHECK_EQ("LMR-12", "... and its last", far_writes(r.remote, at + length - 1, 1, 51), 0);
            collect(near->ia, r.local, at, length);
            unsigned char first = length > 1 ? pattern_byte(0, 50) : pattern_byte(0, 51);
            CHECK("LMR-12", "... and there they are", at[0] == first && at[length - 1] == pattern_byte(0, 51));
            fill(at, length, 60);
            publish(near->ia, r.local, at, length);
            CHECK_EQ("LMR-12", "the far end reads it whole", far_reads(r.remote, at, length, 60), 0);
            prepare();
            publish(near->ia, r.local, at, length);
            watched = &r;
            // What is not registered is out of reach.
            if (r.address + r.size == address_of(at) + length)
                refused_there(id, "one byte behind it is not written", far_writes(r.remote, at + length, 1, 9));
            if (r.address == address_of(at))
                refused_there(id, "a range that begins one byte before it is not read",
                              far_reads(r.remote, at - 1, 1, SEED));
            watched = NULL;
            MUST(dat_lmr_free(r.handle));
        }
    }
}

// The far end writes 8 KiB and then, by another request, one word; whoever sees the word sees all bytes.
static int64_t stream_rounds(struct end *e, const int64_t *a)
{
    DAT_LMR_TRIPLET bytes = piece(e->local, e->room, 2 * PAGE), word = piece(e->local, e->room + 2 * PAGE, 8);
    DAT_RMR_TRIPLET there = target((DAT_RMR_CONTEXT)a[0], (uint64_t)a[1], 2 * PAGE);
    DAT_RMR_TRIPLET flag = target((DAT_RMR_CONTEXT)a[0], (uint64_t)a[1] + 2 * PAGE, 8);
    for (uint64_t round = 1; round <= (uint64_t)a[2]; round++) {
        memset(e->room, (int)round, 2 * PAGE);
        memcpy(e->room + 2 * PAGE, &round, 8);
        MUST(dat_ep_post_rdma_write(e->ep, 1, &bytes, cookie(round), &there, DAT_COMPLETION_SUPPRESS_FLAG));
        MUST(dat_ep_post_rdma_write(e->ep, 1, &word, cookie(round), &flag, DAT_COMPLETION_DEFAULT_FLAG));
        struct done d = next_done(e->requests);
        REQUIRE(d.status == 0 && d.cookie == round);
        // The near end takes a turn: it clears the word by a word of its own.
        int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
        while (*(volatile uint64_t *)(e->room + 3 * PAGE) != round && now_ns() < deadline)
            sched_yield();
    }
    return 0;
}

static void strong_order(DAT_MEM_TYPE type)
{
    enum { ROUNDS = 300 };
    struct region r;
    if (alone || !coherent)
        return; // The ends share a thread; or the page wants a call between the write and the look.
    chapter("order of writes");
    memset(own(0), 0, 4 * PAGE);
    MUST(create(type, at_address(own(0)), 3 * PAGE, near->pz, ALL_PRIVILEGES, &r));
    struct {
        DAT_RMR_CONTEXT context;
        uint64_t address;
    } far_room = {(DAT_RMR_CONTEXT)at_far(far_context), (uint64_t)at_far(far_address)};
    size_t torn = 0;
    far_begins(stream_rounds, r.remote, (int64_t)address_of(own(0)), ROUNDS);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        volatile uint64_t *word = (volatile uint64_t *)own(2 * PAGE);
        int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
        while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != round && now_ns() < deadline)
            sched_yield();
        for (size_t i = 0; i < 2 * PAGE; i += 8)
            torn += own(i)[0] != (unsigned char)round;
        memcpy(near->room, &round, 8);
        REQUIRE(CALL(near, write_there, 0, 8, far_room.context, (int64_t)far_room.address + 3 * PAGE, 0) == 0);
    }
    REQUIRE(far_ends() == 0);
    CHECK_EQ("LMR-3", "who sees the word of a later write sees all bytes of the earlier one", torn, 0);
    MUST(dat_lmr_free(r.handle));
}

static void on_regions(void)
{
    chapter("a region on a region");
    DAT_PZ_HANDLE other;
    struct region base = virtual_region(own(0), LENGTH, ALL_PRIVILEGES), on, second;
    MUST(dat_pz_create(near->ia, &other));
    DAT_REGION_DESCRIPTION what = {.for_lmr_handle = base.handle};
    DAT_VLEN lengths[] = {0, 1, LENGTH, 1ull << 60};
    for (size_t i = 0; i < 4; i++) {
        CHECK_DONE("LMR-4", "the length is ignored",
                   create(DAT_MEM_TYPE_LMR, what, lengths[i], near->pz, DAT_MEM_PRIV_REMOTE_READ_FLAG, &on));
        CHECK("LMR-4", "... it covers the same memory", on.size == base.size && on.address == base.address);
        CHECK("LMR-4", "... with contexts of its own", on.local != base.local && on.remote != base.remote);
        if (i < 3)
            MUST(dat_lmr_free(on.handle));
    }
    prepare();
    publish(near->ia, base.local, own(0), LENGTH);
    CHECK_EQ("LMR-4", "it is read by its own context, whole", far_reads(on.remote, own(0), LENGTH, SEED), 0);
    watched = &base;
    refused_there("LMR-4", "its privileges are its own: it is not written", far_writes(on.remote, own(0), 8, 9));
    CHECK_DONE("LMR-4", "one in another zone", create(DAT_MEM_TYPE_LMR, what, 0, other, ALL_PRIVILEGES, &second));
    refused_there("LMR-13", "is out of reach for an endpoint of this one", far_writes(second.remote, own(0), 8, 9));
    watched = NULL;
    DAT_LMR_PARAM p;
    MUST(dat_lmr_query(second.handle, DAT_LMR_FIELD_ALL, &p));
    CHECK("LMR-4", "it says what it lies on",
          p.mem_type == DAT_MEM_TYPE_LMR && p.region_desc.for_lmr_handle == base.handle && p.pz_handle == other);
    CHECK_DONE("LMR-4", "the first may go", dat_lmr_free(base.handle));
    CHECK_EQ("LMR-4", "... and the others stay", far_reads(on.remote, own(0), LENGTH, SEED), 0);
    CHECK_NO_REGION("LMR-16", "... but there are no more on it", BAD_HANDLE(LMR), DAT_MEM_TYPE_LMR, what, 0, near->pz,
                    ALL_PRIVILEGES);
    MUST(dat_lmr_free(second.handle));
    MUST(dat_lmr_free(on.handle));
    MUST(dat_pz_free(other));
}

// ---- shared memory ------------------------------------------------------------------------------------------------

static unsigned char *common; // mapped shared by both ends before they part
static struct region far_region;

static DAT_REGION_DESCRIPTION shared_at(void *at, unsigned char *name)
{
    DAT_REGION_DESCRIPTION what;
    what.for_shared_memory.virtual_address = at;
    what.for_shared_memory.shared_memory_id = (DAT_LMR_COOKIE)name;
    return what;
}

static DAT_RETURN create_shared(struct end *e, void *at, size_t length, unsigned char *name, struct region *r)
{
    *r = UNTOUCHED;
    return dat_lmr_create(e->ia, DAT_MEM_TYPE_SHARED_VIRTUAL, shared_at(at, name), length, e->pz, ALL_PRIVILEGES, &r->handle,
                          &r->local,
                          &r->remote, &r->size, &r->address);
}

// Of the first process, for names that no other program has.
static pid_t program;

// 40 bytes with a zero in the middle: the last byte and the fill are told.
static void make_name(unsigned char *name, int fill_byte, int last)
{
    memset(name, fill_byte, 40);
    name[4] = 0;
    memcpy(name + 5, &program, sizeof program);
    name[39] = (unsigned char)last;
}

static int64_t share(struct end *e, const int64_t *a)
{
    unsigned char name[40];
    make_name(name, (int)a[0], (int)a[1]);
    return -(int64_t)create_shared(e, common, LENGTH, name, &far_region);
}

static int64_t stop_sharing(struct end *e, const int64_t *a)
{
    (void)e, (void)a;
    return dat_lmr_free(far_region.handle);
}

// The far end writes through its own registration of the common memory, by the endpoint at this end.
static void shared(void)
{
    unsigned char name[40], other[40];
    struct region r, second;
    int private_byte = 0x61 + alone;
    chapter("shared memory");
    make_name(name, private_byte, 1);
    make_name(other, private_byte, 2);
    fill(common, LENGTH, SEED);
    CHECK_DONE("LMR-5", "memory that is shared is registered under 40 bytes",
               create_shared(near, common, LENGTH, name, &r));
    CHECK_EQ("LMR-5", "... and by the far end under the same", at_far(share, private_byte, 1), 0);
    publish(near->ia, r.local, common, LENGTH);
    CHECK_EQ("LMR-5", "it is reached as any other", far_reads(r.remote, common, LENGTH, SEED), 0);
    CHECK_EQ("LMR-5", "... and written", far_writes(r.remote, common, 512, 70), 0);
    collect(near->ia, r.local, common, 512);
    CHECK("LMR-5", "... where all who share it see it", filled(common, 512, 70));
    DAT_LMR_PARAM p;
    MUST(dat_lmr_query(r.handle, DAT_LMR_FIELD_ALL, &p));
    CHECK("LMR-5", "it says how it was made",
          p.mem_type == DAT_MEM_TYPE_SHARED_VIRTUAL && p.region_desc.for_shared_memory.virtual_address == common &&
              p.length == LENGTH);
    CHECK_DONE("LMR-6", "other memory under bytes that differ in the last, behind a zero, is another region",
               create_shared(near, common + LENGTH, LENGTH, other, &second));
    CHECK("LMR-6", "... at its own place", second.address == address_of(common + LENGTH));
    struct region none;
    CHECK_TYPE("LMR-6", "other memory under the same 40 bytes is refused",
               create_shared(near, common + LENGTH, LENGTH, name, &none), DAT_INVALID_PARAMETER);
    CHECK("LMR-6", "... and nothing was made", memcmp(&none, &UNTOUCHED, sizeof none) == 0);
    MUST(dat_lmr_free(second.handle));
    CHECK_DONE("LMR-5", "the same memory under the same bytes is one registration more",
               create_shared(near, common, LENGTH, name, &second));
    MUST(dat_lmr_free(r.handle));
    publish(near->ia, second.local, common, LENGTH);
    at_far(fill_room, 0, LENGTH, 99);
    CHECK_EQ("LMR-5", "... which outlives the first",
             at_far(read_there, 0, 512, second.remote, (int64_t)address_of(common), 0), 0);
    CHECK("LMR-5", "... with its bytes", at_far(room_filled, 0, 512, 70));
    MUST(dat_lmr_free(second.handle));
    CHECK_EQ("LMR-5", "the far end's goes by itself", at_far(stop_sharing), DAT_SUCCESS);
    CHECK_NO_REGION("LMR-7", "private memory is not shared memory: invalid state", ERROR(DAT_INVALID_STATE, 0),
                    DAT_MEM_TYPE_SHARED_VIRTUAL, shared_at(own(0), name), LENGTH, near->pz, ALL_PRIVILEGES);
    CHECK_NO_REGION("LMR-16", "no 40 bytes", BAD_ARGUMENT(3), DAT_MEM_TYPE_SHARED_VIRTUAL, shared_at(common, NULL),
                    LENGTH, near->pz, ALL_PRIVILEGES);
}

// ---- privileges ---------------------------------------------------------------------------------------------------

static void privileges(void)
{
    chapter("privileges");
    CHECK("LMR-8", "their values are those of the page",
          DAT_MEM_PRIV_NONE_FLAG == 0 && DAT_MEM_PRIV_LOCAL_READ_FLAG == 1 && DAT_MEM_PRIV_REMOTE_READ_FLAG == 2 &&
              DAT_MEM_PRIV_LOCAL_WRITE_FLAG == 0x10 && DAT_MEM_PRIV_REMOTE_WRITE_FLAG == 0x20 &&
              DAT_MEM_PRIV_ALL_FLAG == 0x33);
    for (unsigned bits = 0; bits < 16; bits++) {
        unsigned set = 0;
        for (int i = 0; i < 4; i++)
            set |= bits >> i & 1 ? SINGLE[i] : 0;
        struct region r;
        bool reads = set & DAT_MEM_PRIV_REMOTE_READ_FLAG, writes = set & DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
        prepare();
        CHECK_DONE("LMR-8", "every set of the four is taken",
                   create(DAT_MEM_TYPE_VIRTUAL, at_address(own(0)), LENGTH, near->pz, set, &r));
        CHECK("LMR-9", "there is an RMR context if and only if a remote privilege was asked for",
              (r.remote != 0) == (reads || writes));
        watched = &r;
        if (reads)
            CHECK_EQ("LMR-9", "remote read reads", far_reads(r.remote, own(0), 64, SEED) , 0);
        if (writes) {
            CHECK_EQ("LMR-9", "remote write writes", far_writes(r.remote, own(0), 64, SEED), 0);
            collect(near->ia, r.local, own(0), LENGTH);
        }
        if (writes && !reads)
            refused_there("LMR-9", "... and does not read", far_reads(r.remote, own(0), 64, SEED));
        if (reads && !writes)
            refused_there("LMR-9", "... and does not write", far_writes(r.remote, own(0), 64, 9));
        if (!reads && !writes) {
            refused_there("LMR-9", "without either 0 leads nowhere", far_writes(0, own(0), 64, 9));
            refused_there("LMR-11", "... and the LMR context is no RMR context", far_reads(r.local, own(0), 64, SEED));
        }
        watched = NULL;
        MUST(dat_lmr_free(r.handle));
    }
    unsigned wrong[] = {0x04, 0x08, 0x40, 0x80, 0x100, 0x37, 0x133, 0x80000000u, 0xffffffffu};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_NO_REGION("LMR-8", "any other bit is refused", BAD_ARGUMENT(6), DAT_MEM_TYPE_VIRTUAL, at_address(own(0)),
                        LENGTH, near->pz, (DAT_MEM_PRIV_FLAGS)wrong[i]);
}

// ---- local use ----------------------------------------------------------------------------------------------------

// A send of this end from that piece is refused at once or fails, and nothing arrives.
static void local_use_refused(const char *id, const char *sentence, DAT_LMR_TRIPLET p)
{
    at_far(fill_room, 0, LENGTH, 99);
    REQUIRE(at_far(receive, 0, LENGTH, 5) == 0);
    DAT_RETURN code = dat_ep_post_send(near->ep, 1, &p, cookie(9), DAT_COMPLETION_DEFAULT_FLAG);
    if (code == DAT_SUCCESS) {
        CHECK_EQ(id, sentence, next_done(near->requests).status, DAT_DTO_ERR_LOCAL_PROTECTION);
        CHECK_EQ(id, "... and breaks the connection", CALL(near, next_connection), DAT_CONNECTION_EVENT_BROKEN);
    } else {
        CHECK(id, sentence, DAT_GET_TYPE(code) == DAT_PROTECTION_VIOLATION ||
              DAT_GET_TYPE(code) == DAT_PRIVILEGES_VIOLATION ||
                                DAT_GET_TYPE(code) == DAT_INVALID_PARAMETER || DAT_GET_TYPE(code) == DAT_LENGTH_ERROR);
        CHECK_EQ(id, "... at once, and the connection stands", CALL(near, state_of), DAT_EP_STATE_CONNECTED);
    }
    CHECK(id, "... and nothing arrives", at_far(room_filled, 0, LENGTH, 99));
    connect_again();
}

static void local_use(void)
{
    chapter("local use");
    DAT_PZ_HANDLE other;
    struct region r = virtual_region(own(0), LENGTH, DAT_MEM_PRIV_NONE_FLAG), foreign;
    prepare();
    REQUIRE(at_far(receive, 0, LENGTH, 5) == 0);
    DAT_LMR_TRIPLET p = piece(r.local, own(100), 1000);
    CHECK_DONE("LMR-11", "a region serves as the source of a send, whatever its privileges",
               dat_ep_post_send(near->ep, 1, &p, cookie(9), DAT_COMPLETION_DEFAULT_FLAG));
    CHECK_EQ("LMR-11", "... which completes", next_done(near->requests).status, 0);
    CHECK_EQ("LMR-11", "... and arrives", at_far(received, 1, 1000, 5), 0);
    local_use_refused("LMR-11", "a byte behind the region is not sent", piece(r.local, own(LENGTH - 7), 8));
    local_use_refused("LMR-11", "nor one before it", piece(r.local, own(0) - 1, 8));
    local_use_refused("LMR-11", "nor a range around the end of all addresses", piece(r.local, own(0), (size_t)-1));
    local_use_refused("LMR-11", "an RMR context is no LMR context", piece(near->remote, near->room, 8));
    local_use_refused("LMR-11", "nor is a number that was made up", piece(0x00badbad, own(0), 8));
    MUST(dat_pz_create(near->ia, &other));
    MUST(create(DAT_MEM_TYPE_VIRTUAL, at_address(own(0)), LENGTH, other, ALL_PRIVILEGES, &foreign));
    local_use_refused("LMR-13", "a region of another zone is not sent from", piece(foreign.local, own(0), 8));
    // What is received or read needs local write: the bytes stay what they were.
    DAT_LMR_TRIPLET into[] = {piece(r.local, own(0), 64), piece(foreign.local, own(0), 64)};
    for (int i = 0; i < 2; i++) {
        const char *id = i ? "LMR-13" : "LMR-9";
        prepare();
        DAT_RETURN code = dat_ep_post_recv(near->ep, 1, &into[i], cookie(4), DAT_COMPLETION_DEFAULT_FLAG);
        if (code == DAT_SUCCESS) {
            int64_t status = at_far(send_bytes, 0, 64, 0);
            CHECK(id, "what may not be written locally is not received into", status > 0);
            CHECK_EQ(id, "... and the receive says so", CALL(near, received), DAT_DTO_ERR_LOCAL_PROTECTION);
        } else {
            CHECK(id, "what may not be written locally is not received into",
                  DAT_GET_TYPE(code) == DAT_PRIVILEGES_VIOLATION || DAT_GET_TYPE(code) == DAT_PROTECTION_VIOLATION);
        }
        CHECK(id, "... and nothing was written", filled(own(0), LENGTH, SEED));
        connect_again();
        DAT_RMR_TRIPLET t = target((DAT_RMR_CONTEXT)at_far(far_context), (uint64_t)at_far(far_address), 64);
        code = dat_ep_post_rdma_read(near->ep, 1, &into[i], cookie(4), &t, DAT_COMPLETION_DEFAULT_FLAG);
        if (code == DAT_SUCCESS)
            CHECK_EQ(id, "nor is it read into", next_done(near->requests).status, DAT_DTO_ERR_LOCAL_PROTECTION);
        else
            CHECK(id, "nor is it read into",
                  DAT_GET_TYPE(code) == DAT_PRIVILEGES_VIOLATION || DAT_GET_TYPE(code) == DAT_PROTECTION_VIOLATION);
        CHECK(id, "... and nothing was written", filled(own(0), LENGTH, SEED));
        connect_again();
    }
    MUST(dat_lmr_free(foreign.handle));
    MUST(dat_lmr_free(r.handle));
    MUST(dat_pz_free(other));
}

// ---- the end of a region, and memory that is not there ------------------------------------------------------------

static void freed(void)
{
    chapter("a freed region");
    struct region r = virtual_region(own(0), LENGTH, ALL_PRIVILEGES);
    prepare();
    publish(near->ia, r.local, own(0), LENGTH);
    CHECK_EQ("LMR-14", "before, its context serves", far_reads(r.remote, own(0), LENGTH, SEED), 0);
    CHECK_DONE("LMR-14", "it is freed", dat_lmr_free(r.handle));
    refused_there("LMR-14", "its context is dead for writes", far_writes(r.remote, own(0), 8, 9));
    refused_there("LMR-14", "... and for reads", far_reads(r.remote, own(0), 8, SEED));
    local_use_refused("LMR-14", "nor is it sent from", piece(r.local, own(0), 8));
    CHECK_CODE("LMR-16", "it is not freed twice", dat_lmr_free(r.handle), BAD_HANDLE(LMR));
    // A new region on the same place is none of its old contexts.
    struct region again = virtual_region(own(0), LENGTH, ALL_PRIVILEGES);
    CHECK("LMR-14", "a new region has new contexts", again.remote != r.remote && again.local != r.local);
    refused_there("LMR-14", "... and the old one is still dead", far_writes(r.remote, own(0), 8, 9));
    MUST(dat_lmr_free(again.handle));
}

static void on_demand(void)
{
    enum { PAGES = 64 };
    chapter("memory that nobody has touched yet");
    unsigned char *fresh = fresh_pages(PAGES * PAGE, MAP_PRIVATE);
    struct region r = virtual_region(fresh, PAGES * PAGE, ALL_PRIVILEGES);
    int64_t wrong = 0;
    for (int i = 0; i < PAGES; i += 7)
        wrong += far_writes(r.remote, fresh + i * PAGE + 8, 100, 30 + i);
    CHECK_EQ("LMR-15", "is written by the far end", wrong, 0);
    collect(near->ia, r.local, fresh, PAGES * PAGE);
    for (int i = 0; i < PAGES; i += 7)
        wrong += !filled(fresh + i * PAGE + 8, 100, 30 + i);
    CHECK_EQ("LMR-15", "... and has the bytes", wrong, 0);
    at_far(fill_room, 0, PAGE, 99);
    CHECK_EQ("LMR-15", "and read", at_far(read_there, 0, PAGE, r.remote, (int64_t)address_of(fresh + PAGE), 0), 0);
    CHECK("LMR-15", "... as zeros", !at_far(room_filled, 0, PAGE, 99));
    MUST(dat_lmr_free(r.handle));
    munmap(fresh, PAGES * PAGE);
}

static void results(void)
{
    chapter("refusals");
    unsigned char *hole = fresh_pages(3 * PAGE, MAP_PRIVATE), *gone = fresh_pages(PAGE, MAP_PRIVATE);
    REQUIRE(mprotect(hole + PAGE, PAGE, PROT_NONE) == 0 && munmap(gone, PAGE) == 0);
    DAT_MEM_PRIV_FLAGS all = ALL_PRIVILEGES;
    CHECK_NO_REGION("LMR-16", "memory that is not there", BAD_ARGUMENT(3), DAT_MEM_TYPE_VIRTUAL, at_address(gone), PAGE,
                    near->pz, all);
    CHECK_NO_REGION("LMR-16", "... not even at NULL", BAD_ARGUMENT(3), DAT_MEM_TYPE_VIRTUAL, at_address(NULL), PAGE,
                    near->pz, all);
    CHECK_NO_REGION("LMR-16", "memory with a hole", BAD_ARGUMENT(3), DAT_MEM_TYPE_VIRTUAL, at_address(hole), 3 * PAGE,
                    near->pz, all);
    CHECK_NO_REGION("LMR-16", "no bytes", BAD_ARGUMENT(4), DAT_MEM_TYPE_VIRTUAL, at_address(own(0)), 0, near->pz, all);
    CHECK_NO_REGION("LMR-16", "... of strong order", BAD_ARGUMENT(4), DAT_MEM_TYPE_SO_VIRTUAL, at_address(own(0)), 0,
                    near->pz, all);
    unsigned char name[40] = "no bytes";
    CHECK_NO_REGION("LMR-16", "... shared", BAD_ARGUMENT(4), DAT_MEM_TYPE_SHARED_VIRTUAL, shared_at(common, name), 0,
                    near->pz, all);
    CHECK_NO_REGION("LMR-16", "a range around the end of all addresses", BAD_ARGUMENT(4), DAT_MEM_TYPE_VIRTUAL,
                    at_address(own(0)), (DAT_VLEN)-1, near->pz, all);
    struct region none;
    CHECK_NO_REGION("LMR-16", "a type that does not exist: model not supported", ERROR(DAT_MODEL_NOT_SUPPORTED, 0),
                    (DAT_MEM_TYPE)4, at_address(own(0)), LENGTH, near->pz, all);
    CHECK_NO_REGION("LMR-16", "... nor one far off", ERROR(DAT_MODEL_NOT_SUPPORTED, 0), (DAT_MEM_TYPE)0x7fffffff,
                    at_address(own(0)), LENGTH, near->pz, all);
    CHECK_NO_REGION("LMR-16", "no zone", BAD_HANDLE(PZ), DAT_MEM_TYPE_VIRTUAL, at_address(own(0)), LENGTH, NULL, all);
    CHECK_NO_REGION("LMR-16", "an endpoint for a zone", BAD_HANDLE(PZ), DAT_MEM_TYPE_VIRTUAL, at_address(own(0)),
                    LENGTH,
                    near->ep, all);
    DAT_REGION_DESCRIPTION zone = {.for_lmr_handle = near->pz};
    CHECK_NO_REGION("LMR-16", "a zone for a region", BAD_HANDLE(LMR), DAT_MEM_TYPE_LMR, zone, LENGTH, near->pz, all);
    struct region r = UNTOUCHED;
    CHECK_CODE("LMR-16", "no adapter",
               dat_lmr_create(NULL, DAT_MEM_TYPE_VIRTUAL, at_address(own(0)), LENGTH, near->pz, all,
                                                      &r.handle, &r.local, &r.remote, &r.size, &r.address),
               BAD_HANDLE(IA));
    CHECK("LMR-16", "... and nothing was made", memcmp(&r, &UNTOUCHED, sizeof r) == 0);
    // A page that may only be read is no place to write.
    REQUIRE(mprotect(hole, 3 * PAGE, PROT_READ) == 0);
    CHECK_NO_REGION("LMR-16", "read-only memory where writing is asked for", BAD_ARGUMENT(6), DAT_MEM_TYPE_VIRTUAL,
                    at_address(hole), PAGE, near->pz, all);
    CHECK_DONE("LMR-16", "... and taken where not",
               create(DAT_MEM_TYPE_VIRTUAL, at_address(hole), PAGE, near->pz, DAT_MEM_PRIV_READ_FLAG, &none));
    MUST(dat_lmr_free(none.handle));
    munmap(hole, 3 * PAGE);
    // A zone that a region refers to stays.
    DAT_PZ_HANDLE pz;
    MUST(dat_pz_create(near->ia, &pz));
    MUST(create(DAT_MEM_TYPE_VIRTUAL, at_address(own(0)), LENGTH, pz, all, &none));
    CHECK_CODE("LMR-16", "a zone with a region cannot go", dat_pz_free(pz), BAD_STATE(PZ_IN_USE));
    MUST(dat_lmr_free(none.handle));
    CHECK_DONE("LMR-16", "... and does when it is gone", dat_pz_free(pz));
    // A region with a window bound to it stays.
    DAT_RMR_HANDLE rmr;
    DAT_RMR_CONTEXT context;
    none = virtual_region(own(0), LENGTH, all);
    DAT_LMR_TRIPLET p = piece(none.local, own(0), 64);
    MUST(dat_rmr_create(near->pz, &rmr));
    MUST(dat_rmr_bind(rmr, &p, DAT_MEM_PRIV_REMOTE_READ_FLAG, near->ep, cookie(1), DAT_COMPLETION_DEFAULT_FLAG,
                      &context));
    CHECK_TYPE("LMR-16", "a region to which a bind is on its way cannot go", dat_lmr_free(none.handle),
               DAT_INVALID_STATE);
    REQUIRE(next_done(near->requests).status == 0);
    CHECK_CODE("LMR-16", "... nor one with a bound RMR", dat_lmr_free(none.handle), BAD_STATE(LMR_IN_USE));
    prepare();
    publish(near->ia, none.local, own(0), LENGTH);
    CHECK_EQ("LMR-16", "... and both still serve",
             far_reads(context, own(0), 64, SEED) + far_reads(none.remote, own(0), 64, SEED), 0);
    MUST(dat_rmr_free(rmr));
    CHECK_DONE("LMR-16", "... and does when the RMR is gone", dat_lmr_free(none.handle));
}

// ---- threads ------------------------------------------------------------------------------------------------------

#define THREADS 4
#define ALIVE 16

static uint64_t *owned; // one bit for every context there can be: whether a region has it

// Gives a context to a region. False: another has it.
static bool takes(DAT_LMR_CONTEXT context)
{
    uint64_t bit = 1ull << context % 64;
    return !(__atomic_fetch_or(&owned[context / 64], bit, __ATOMIC_SEQ_CST) & bit);
}

static void gives_back(DAT_LMR_CONTEXT context)
{
    __atomic_fetch_and(&owned[context / 64], ~(1ull << context % 64), __ATOMIC_SEQ_CST);
}

static void *make_and_free(void *argument)
{
    uintptr_t number = (uintptr_t)argument, clashes = 0;
    struct region alive[ALIVE] = {{0}};
    for (int i = 0; i < 800; i++) {
        struct region *r = &alive[i % ALIVE];
        if (r->handle) {
            gives_back(r->local);
            clashes += dat_lmr_free(r->handle) != DAT_SUCCESS;
        }
        DAT_REGION_DESCRIPTION base = {.for_lmr_handle = near->lmr};
        bool on_base = i % 3 == 0;
        if (create(on_base ? DAT_MEM_TYPE_LMR : DAT_MEM_TYPE_VIRTUAL,
                   on_base ? base : at_address(near->room + number * PAGE), PAGE, near->pz, ALL_PRIVILEGES, r))
            return (void *)1000000;
        clashes += !takes(r->local);
        DAT_LMR_PARAM p;
        clashes += dat_lmr_query(r->handle, DAT_LMR_FIELD_ALL, &p) != DAT_SUCCESS || p.lmr_context != r->local;
    }
    for (int i = 0; i < ALIVE; i++) {
        gives_back(alive[i].local);
        clashes += dat_lmr_free(alive[i].handle) != DAT_SUCCESS;
    }
    return (void *)clashes;
}

static void threads(void)
{
    chapter("threads");
    pthread_t ids[THREADS];
    uintptr_t wrong = 0;
    size_t size = (1ull << 32) / 8; // of which little is ever touched
    owned = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(owned != MAP_FAILED && takes(near->local) && !takes(near->local));
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, make_and_free, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(ids[i], &result);
        wrong += (uintptr_t)result;
    }
    munmap(owned, size);
    CHECK_EQ("LMR-17", "regions made and freed by four threads at once never share a context", wrong, 0);
    CHECK("LMR-17", "... and the connection works as before", talks());
}

int main(int argc, char **argv)
{
    common = fresh_pages(2 * LENGTH, MAP_SHARED);
    program = getpid();
    begin(argc, argv);
    connect_ends();
    REQUIRE(talks());
    signature();
    plain();
    strong_order(DAT_MEM_TYPE_VIRTUAL);
    strong_order(DAT_MEM_TYPE_SO_VIRTUAL);
    on_regions();
    shared();
    privileges();
    local_use();
    freed();
    on_demand();
    results();
    threads();
    part();
    return end();
}
