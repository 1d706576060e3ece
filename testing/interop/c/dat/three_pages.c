// The life of the three reference pages, in their order: memory of each type is registered (dat_lmr_create), bound
// (dat_rmr_bind), advertised in a send, written by the peer, made visible (dat_lmr_sync_rdma_write), bound anew, and what
// is over is refused. proves: LMR-2 LMR-3 LMR-4 LMR-5 LMR-12 LMR-14 SYNC-2 SYNC-3 SYNC-4 RMR-2 RMR-3 RMR-5 RMR-7 RMR-10

#include "ends.h"

#define LENGTH (3 * PAGE)

// What travels in sends: where to write, and what was written.
struct advertisement {
    uint64_t address, length;
    DAT_RMR_CONTEXT context;
    unsigned seed;
};

// The peer: takes an advertisement, writes what it asks for, and says so in a send behind the write.
static int64_t serve(struct end *e, const int64_t *a)
{
    struct advertisement ad;
    (void)a;
    if (CALL(e, received))
        return -1;
    memcpy(&ad, e->room, sizeof ad);
    fill(e->room + PAGE, ad.length, ad.seed);
    int64_t status = CALL(e, write_there, PAGE, (int64_t)ad.length, ad.context, (int64_t)ad.address, 0);
    // On a broken connection there is nobody to tell.
    return status ? status : CALL(e, send_bytes, 0, sizeof ad, 0);
}

static void advertise(DAT_RMR_CONTEXT context, void *at, uint64_t length, unsigned seed)
{
    struct advertisement ad = {address_of(at), length, context, seed};
    memcpy(near->room, &ad, sizeof ad);
    REQUIRE(at_far(receive, 0, sizeof ad, 0) == 0);
    REQUIRE(CALL(near, receive, PAGE, sizeof ad, 0) == 0);
    REQUIRE(CALL(near, send_bytes, 0, sizeof ad, 0) == 0);
}

// The peer was refused: it saw a protection violation, and both ends see the end of the connection.
static void refused(const char *id, const char *sentence, unsigned char *memory, unsigned seed, DAT_LMR_CONTEXT local)
{
    CHECK_EQ(id, sentence, at_far(serve), DAT_DTO_ERR_REMOTE_ACCESS);
    CHECK(id, "... and the connection is broken", both_broken());
    if (local)
        collect(near->ia, local, memory, LENGTH);
    CHECK(id, "... and no byte moved", filled(memory, LENGTH, seed));
    connect_again();
}

static void life(const char *id, const char *name, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION what, DAT_VLEN length,
                 unsigned char *memory)
{
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT local;
    DAT_RMR_CONTEXT remote, first, second;
    DAT_VLEN size;
    DAT_VADDR address;
    DAT_RMR_HANDLE rmr;
    printf("# %s\n", name);

    // dat_lmr_create
    fill(memory, LENGTH, 1);
    CHECK_DONE(id, "the memory is registered",
               dat_lmr_create(near->ia, type, what, length, near->pz, ALL_PRIVILEGES, &lmr, &local, &remote, &size,
                              &address));
    CHECK(id, "... all of it", address <= address_of(memory) && address + size >= address_of(memory) + LENGTH);
    publish(near->ia, local, memory, LENGTH);

    // dat_rmr_bind, and the context in a send behind it
    MUST(dat_rmr_create(near->pz, &rmr));
    DAT_LMR_TRIPLET whole = piece(local, memory, LENGTH), half = piece(local, memory + PAGE, PAGE);
    CHECK_DONE("RMR-2", "it is bound", dat_rmr_bind(rmr, &whole, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, near->ep, cookie(7),
                                                    DAT_COMPLETION_SUPPRESS_FLAG, &first));
    advertise(first, memory, LENGTH, 2);
    CHECK_EQ("RMR-5", "the peer writes by the context it was sent", at_far(serve), 0);
    CHECK_EQ("RMR-5", "... and says so in a send behind the write", CALL(near, received), 0);

    // dat_lmr_sync_rdma_write
    if (!coherent)
        CHECK("SYNC-4", "before the call the old bytes are there", filled(memory, LENGTH, 1));
    CHECK_DONE("SYNC-2", "the segment is synchronized", dat_lmr_sync_rdma_write(near->ia, &whole, 1));
    CHECK("SYNC-2", "... and the new bytes are there", filled(memory, LENGTH, 2));

    // bound anew
    MUST(dat_rmr_bind(rmr, &half, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, near->ep, cookie(8), DAT_COMPLETION_DEFAULT_FLAG,
                      &second));
    struct done d = next_done(near->requests);
    CHECK("RMR-3", "it is bound anew, with an event", d.status == 0 && d.cookie == 8 && d.ep == rmr);
    CHECK("RMR-2", "... under another context", second != first);
    advertise(first, memory, PAGE, 3);
    refused("RMR-7", "the old context is refused", memory, 2, local);
    advertise(second, memory, PAGE, 3);
    refused("RMR-2", "so is the new one outside its range", memory, 2, local);
    advertise(second, memory + PAGE, PAGE, 4);
    CHECK_EQ("RMR-2", "inside it serves", at_far(serve), 0);
    CHECK_EQ("RMR-2", "... and the send comes", CALL(near, received), 0);
    MUST(dat_lmr_sync_rdma_write(near->ia, &half, 1));
    CHECK("SYNC-2", "... and the bytes are there", filled(memory + PAGE, PAGE, 4) && filled(memory, PAGE, 2));

    // unbound, and freed
    CHECK("LMR-16", "a region with a bound RMR stays", DAT_GET_TYPE(dat_lmr_free(lmr)) == DAT_INVALID_STATE);
    half.segment_length = 0;
    MUST(dat_rmr_bind(rmr, &half, DAT_MEM_PRIV_NONE_FLAG, near->ep, cookie(9), DAT_COMPLETION_DEFAULT_FLAG, NULL));
    CHECK_EQ("RMR-10", "it is unbound", next_done(near->requests).status, 0);
    fill(memory, LENGTH, 5);
    publish(near->ia, local, memory, LENGTH);
    advertise(second, memory + PAGE, PAGE, 6);
    refused("RMR-10", "then its context is refused", memory, 5, local);
    MUST(dat_rmr_free(rmr));
    advertise(remote, memory, PAGE, 2);
    CHECK_EQ("LMR-12", "the region's own context serves", at_far(serve), 0);
    CHECK_EQ("LMR-12", "... and the send comes", CALL(near, received), 0);
    MUST(dat_lmr_sync_rdma_write(near->ia, &whole, 1));
    CHECK("LMR-12", "... and the bytes", filled(memory, PAGE, 2));
    fill(memory, LENGTH, 5);
    CHECK_DONE("LMR-14", "the region is freed", dat_lmr_free(lmr));
    advertise(remote, memory, PAGE, 7);
    refused("LMR-14", "and its context with it", memory, 5, 0);
    CHECK_CODE("SYNC-8", "there is nothing to synchronize any more", dat_lmr_sync_rdma_write(near->ia, &whole, 1),
               BAD_ARGUMENT(2));
}

int main(int argc, char **argv)
{
    static unsigned char name[40] = "all of these bytes count\0not only these";
    // No other program's name.
    pid_t program = getpid();
    memcpy(name + 30, &program, sizeof program);
    begin(argc, argv);
    connect_ends();
    unsigned char *memory = near->room + 100 * PAGE + 40;
    unsigned char *common = fresh_pages(LENGTH, MAP_SHARED);
    life("LMR-2", "plain memory", DAT_MEM_TYPE_VIRTUAL, (DAT_REGION_DESCRIPTION){.for_va = memory}, LENGTH, memory);
    life("LMR-3", "strongly ordered memory", DAT_MEM_TYPE_SO_VIRTUAL, (DAT_REGION_DESCRIPTION){.for_va = memory},
         LENGTH, memory);
    DAT_LMR_HANDLE base;
    DAT_REGION_DESCRIPTION below = {.for_va = memory}, shared;
    MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, below, LENGTH, near->pz, ALL_PRIVILEGES, &base, NULL, NULL,
                        NULL, NULL));
    life("LMR-4", "a region on a region", DAT_MEM_TYPE_LMR, (DAT_REGION_DESCRIPTION){.for_lmr_handle = base}, 0,
         memory);
    MUST(dat_lmr_free(base));
    shared.for_shared_memory.virtual_address = common;
    shared.for_shared_memory.shared_memory_id = (DAT_LMR_COOKIE)name;
    life("LMR-5", "shared memory", DAT_MEM_TYPE_SHARED_VIRTUAL, shared, LENGTH, common);
    part();
    return end();
}
