// The objects of a sequence of verbs calls, what each is made of, and memory whose bytes nobody has a right to change.

#ifndef NONIC_INTEROP_SEQUENCES_OBJECTS_H
#define NONIC_INTEROP_SEQUENCES_OBJECTS_H

#include "sequences.h"

#include <infiniband/verbs.h>

enum kind { CONTEXT, PD, CHANNEL, CQ, SRQ, QP, AH, MR, MW, DM, KINDS };
static UNUSED const char *const kind_names[] = {"context", "pd", "channel", "cq", "srq", "qp", "ah", "mr", "mw", "dm"};

#define PLACES 24 // of objects of a kind that live at once
#define GONE 24   // the last destroyed ones; the library promises to know the last 256

struct object {
    enum kind kind;
    bool live;
    void *at;
    int users;
    struct object *of[4];                // what it is made of, first its context or domain
    // Of a completion queue: sizes, and how many completions may still come; it may have overrun, and so may its queue
    // pairs.
    int entries;
    uint64_t owed;
    bool may_overrun;
    // got and not acknowledged; the second also of queue pairs and shared receive queues
    int events, async_events;
    // Of a queue pair: the sizes it was given, requests since it was last empty for certain, what its builder does.
    struct ibv_qp_cap cap;
    enum ibv_qp_type type;
    uint64_t sends, receives, sends_done, receives_done;
    bool builds;
    uint64_t operations;
    // Of a shared receive queue: sizes. Of a region: rights. Of device memory: the bytes in it, if no peer may write
    // there.
    uint32_t max_wr, max_sge;
    uint64_t posted;
    unsigned access;
    bool maybe_bound;                    // a window may be bound to the region
    size_t length;
    uint64_t base;                       // where peers begin to count
    unsigned char *bytes;
};

static struct object objects[KINDS][PLACES];
static void *gone[KINDS][GONE];
static unsigned gone_count[KINDS];

static UNUSED struct object *find_object(enum kind kind, const void *at)
{
    for (int i = 0; i < PLACES; i++)
        if (objects[kind][i].live && objects[kind][i].at == at)
            return &objects[kind][i];
    return NULL;
}

static UNUSED struct object *some(enum kind kind)
{
    uint32_t from = random_below(PLACES);
    for (int i = 0; i < PLACES; i++) {
        struct object *o = &objects[kind][(from + i) % PLACES];
        if (o->live)
            return o;
    }
    return NULL;
}

static UNUSED struct object *a_place(enum kind kind)
{
    for (int i = 0; i < PLACES; i++)
        if (!objects[kind][i].live) {
            objects[kind][i] = (struct object){.kind = kind};
            return &objects[kind][i];
        }
    return NULL;
}

static UNUSED void comes_to_life(struct object *o, void *at, struct object *a, struct object *b, struct object *c,
                                 struct object *d)
{
    struct object *of[4] = {a, b, c, d};
    o->live = true;
    o->at = at;
    for (int i = 0; i < 4; i++) {
        o->of[i] = of[i];
        if (of[i])
            of[i]->users++;
    }
}

static UNUSED void is_gone(struct object *o)
{
    o->live = false;
    gone[o->kind][gone_count[o->kind]++ % GONE] = o->at;
    for (int i = 0; i < 4; i++)
        if (o->of[i])
            o->of[i]->users--;
    free(o->bytes);
    o->bytes = NULL;
}

// One that was destroyed lately, and whose place no other one has taken.
static UNUSED void *a_gone(enum kind kind)
{
    unsigned count = gone_count[kind] < GONE ? gone_count[kind] : GONE;
    void *at = count ? gone[kind][random_below(count)] : NULL;
    return at && !find_object(kind, at) ? at : NULL;
}

// What is no object of the kind, for calls that look a pointer up before they follow it.
static UNUSED void *no_object(enum kind kind)
{
    static uint64_t zeros[64];
    enum kind other = random_below(KINDS);
    struct object *o = other == kind ? NULL : some(other);
    switch (random_below(6)) {
    case 0:
        return NULL;
    case 1:
        return (void *)(8 * (uintptr_t)random_below(4096));
    case 2:
        return zeros;
    case 3:
        return o ? o->at : zeros;
    default:
        return a_gone(kind);
    }
}

static UNUSED struct ibv_context *context_of(const struct object *o)
{
    while (o->kind != CONTEXT)
        o = o->of[0];
    return o->at;
}

// ---- memory --------------------------------------------------------------------------------------------------------

#define PAGE 4096ul
#define OPEN (64 * PAGE)    // anything may happen to it
#define CLOSED (16 * PAGE)  // registered without any right to write
#define APART (8 * PAGE)    // registered with every right, in a domain that no queue pair has
#define SEALED (4 * PAGE)   // read-only

static unsigned char *open_memory, *closed_memory, *apart_memory, *sealed_memory, *no_memory;

static UNUSED void map_memory(void)
{
    if (open_memory)
        return;
    size_t all = OPEN + CLOSED + APART + SEALED;
    open_memory = mmap(NULL, all + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(open_memory != MAP_FAILED);
    closed_memory = open_memory + OPEN;
    apart_memory = closed_memory + CLOSED;
    sealed_memory = apart_memory + APART;
    no_memory = sealed_memory + SEALED;
    for (size_t i = 0; i < all; i++)
        open_memory[i] = (unsigned char)(i * 31 ^ i >> 8);
    REQUIRE(mprotect(sealed_memory, SEALED, PROT_READ) == 0 && mprotect(no_memory, PAGE, PROT_NONE) == 0);
}

static UNUSED void check_memory(void)
{
    for (size_t i = OPEN; i < OPEN + CLOSED + APART + SEALED; i++)
        if (open_memory[i] != (unsigned char)(i * 31 ^ i >> 8))
            wrong("byte %zu of memory that nobody may write to has changed", i - OPEN);
}

// An address that requests name: mostly of memory there is.
static UNUSED uint64_t some_address(void)
{
    uint64_t all = OPEN + CLOSED + APART + SEALED;
    switch (random_below(8)) {
    case 0:
        return wild();
    case 1:
        return random_below(65536); // of a zero based region
    case 2:
        return (uintptr_t)open_memory + random_below((uint32_t)all) - 64;
    default:
        return (uintptr_t)open_memory + random_below(OPEN / 8) * 8;
    }
}

static UNUSED uint32_t some_length(void)
{
    return one_in(8) ? (uint32_t)wild() : one_in(4) ? random_below(65536) : random_below(64);
}

// A key of something, of something that was, or of nothing.
static uint32_t old[16];

static UNUSED uint32_t some_key(bool remote)
{
    struct object *o = one_in(5) ? some(MW) : some(MR);
    uint32_t key = 0;
    if (o && o->kind == MW)
        key = ((struct ibv_mw *)o->at)->rkey;
    else if (o)
        key = remote != one_in(16) ? ((struct ibv_mr *)o->at)->rkey : ((struct ibv_mr *)o->at)->lkey;
    uint32_t *kept = &old[random_below(16)];
    switch (random_below(12)) {
    case 0:
        return (uint32_t)random_word();
    case 1:
        return key + ONE_OF(1u, -1u, 256u);
    case 2:
        return *kept;
    default:
        *kept = key;
        return key;
    }
}

// A region, mostly one with such rights, and bytes in it as requests name them.
static UNUSED struct object *some_bytes(struct object *pd, unsigned access, uint64_t *address, uint32_t *length)
{
    struct object *mr = NULL;
    for (int tries = 0; tries < 6 && (!mr || mr->of[0] != pd || (mr->access & access) != access); tries++)
        mr = some(MR);
    if (!mr || mr->length == 0)
        return NULL;
    uint64_t offset = random_below(mr->length < UINT32_MAX ? (uint32_t)mr->length : UINT32_MAX) & ~7ull;
    *address = mr->base + offset;
    *length = random_below(mr->length - offset < 5000 ? (uint32_t)(mr->length - offset) + 1 : 5000);
    return mr;
}

// Nothing of an earlier sequence counts.
static UNUSED void begin_objects(void)
{
    memset(gone_count, 0, sizeof gone_count);
    memset(old, 0, sizeof old);
}

#endif
