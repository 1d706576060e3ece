// Regions of 4 KiB in one heap, tens of thousands of them: each is written by the peer and checked, and the process stays
// far below the number of mappings that the kernel allows (vm.max_map_count, 65,530 by default).
//
// Usage: many_regions COUNT
//
// proves: MEM-5

#include "remote.h"

#include <malloc.h>

#define REGION PAGE
#define WINDOW_SIZE 16

// What the writer has to know of each region: in memory of both, made before the processes part.
struct place {
    uint64_t address;
    uint32_t rkey;
};

static struct place *places;
static unsigned char **regions;
static struct ibv_mr **mrs;
static unsigned many;

// Side by side in one block: neighbours merge into one mapping.
static unsigned char *side_by_side(unsigned i)
{
    static unsigned char *block;
    if (i == 0)
        REQUIRE(posix_memalign((void **)&block, PAGE, (size_t)many * REGION) == 0);
    return block + (size_t)i * REGION;
}

// Whole pages, the allocator's own bytes between them: every other page of the heap.
static unsigned char *each_on_its_page(unsigned i)
{
    unsigned char *at;
    (void)i;
    REQUIRE(posix_memalign((void **)&at, PAGE, REGION) == 0);
    return at;
}

// As `malloc` gives them: parts of two pages each.
static unsigned char *as_malloc_gives_them(unsigned i)
{
    unsigned char *at;
    (void)i;
    REQUIRE(at = malloc(REGION));
    return at;
}

static void write_all(struct node *n)
{
    unsigned posted = 0, done = 0, failed = 0;
    while (done < many) {
        while (posted < many && posted - done < WINDOW_SIZE) {
            unsigned char *from = n->buffer + (posted % WINDOW_SIZE) * REGION;
            fill(from, REGION, posted);
            REQUIRE(post(n->qp, posted, WRITE, piece(from, REGION, n->mr->lkey), places[posted].address,
                         places[posted].rkey) == 0);
            posted++;
        }
        failed += next_completion(n->send_cq).status != IBV_WC_SUCCESS;
        done++;
    }
    CHECK_EQ("regions", "every region is written", failed, 0);
}

static unsigned wrong_regions(void)
{
    unsigned wrong = 0;
    for (unsigned i = 0; i < many; i++)
        wrong += !filled(regions[i], REGION, i);
    return wrong;
}

static int allowed_mappings(void)
{
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
    int allowed = 65530;
    if (f && fscanf(f, "%d", &allowed) != 1)
        allowed = 65530;
    if (f)
        fclose(f);
    return allowed;
}

static void try_layout(struct node *n, const char *layout, unsigned char *(*next)(unsigned i), bool one_block)
{
    if (!self.active) {
        meet();
        write_all(n);
        meet();
        return;
    }
    int before = lines_of("/proc/self/maps", "-");
    int64_t started = now_ns();
    for (unsigned i = 0; i < many; i++) {
        regions[i] = next(i);
        memset(regions[i], 0x11, REGION);
    }
    for (unsigned i = 0; i < many; i++) {
        mrs[i] = register_all(n, regions[i], REGION);
        places[i] = (struct place){(uintptr_t)regions[i], mrs[i]->rkey};
    }
    int64_t registered = now_ns();
    int most = lines_of("/proc/self/maps", "-");
    size_t adopted = adopted_bytes((void *)PAGE, 1ul << 47);
    meet();
    meet();
    CHECK_EQ("regions", "and has its bytes", wrong_regions(), 0);
    if (one_block && expected("adopted"))
        CHECK("regions", "every page of the block is adopted", adopted >= (size_t)many * REGION);
    CHECK("regions", "mappings stay far below what the kernel allows", most < allowed_mappings() / 3);
    if (one_block)
        CHECK("regions", "and a block stays nearly one mapping", most < before + 64);
    int64_t deregistering = now_ns();
    // From both ends: neighbours part and merge.
    for (unsigned i = 0; i < many; i++)
        REQUIRE(ibv_dereg_mr(mrs[i % 2 ? many - 1 - i / 2 : i / 2]) == 0);
    int64_t ended = now_ns();
    int after = lines_of("/proc/self/maps", "-");
    CHECK_EQ("regions", "every region keeps its bytes after its deregistration", wrong_regions(), 0);
    CHECK("regions", "nothing stays shared", adopted_bytes((void *)PAGE, 1ul << 47) <= BUFFER);
    CHECK("regions", "and mappings are far below what the kernel allows", after < allowed_mappings() / 3);
    printf("  %u regions, %s: %d mappings before, %d registered, %d after; %zu KiB adopted; %.2f us to allocate and "
           "register each, %.2f us to deregister\n", many, layout, before, most, after, adopted / 1024,
           (registered - started) / 1e3 / many, (ended - deregistering) / 1e3 / many);
    for (unsigned i = 0; i < (one_block ? 1 : many); i++)
        free(regions[i]);
    malloc_trim(0);
}

int main(int argc, char **argv)
{
    unsigned asked = argc > 1 ? (unsigned)atoi(argv[1]) : 100000;
    places = mmap(NULL, asked * sizeof *places, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    regions = calloc(asked, sizeof *regions);
    mrs = calloc(asked, sizeof *mrs);
    if (places == MAP_FAILED || !regions || !mrs) {
        perror("many_regions");
        return 2;
    }
    split();
    struct node n = open_node();
    bring_up(&n);
    many = asked;
    try_layout(&n, "side by side", side_by_side, true);
    many = asked / 2;
    try_layout(&n, "each on a page of its own", each_on_its_page, false);
    try_layout(&n, "as malloc gives them", as_malloc_gives_them, false);
    close_node(&n);
    return finish();
}
