// The four RMA calls: every refusal, and that no byte moved; every alignment, ranges over several windows, rights.

#include "far.h"

#define LAST (INT64_MAX - PAGE + 1)
#define UNMAPPED ((void *)8)
#define HERE 0x100000l
#define THERE 0x200000l
// Windows of each side: 2 pages, 3 pages beside them, a gap of a page, a page only to read, a page only to write.
#define SIZE (5 * PAGE)
#define READ_ONLY (6 * PAGE)
#define WRITE_ONLY (7 * PAGE)
#define MIDDLE (2 * PAGE)

static unsigned char *room; // of this end; offset HERE + n is room + n
static unsigned char plain[8 * 4096];

static void windows(void)
{
    static const struct { long at, pages; int prot; } PARTS[] = {
        {0, 2, BOTH}, {2, 3, BOTH}, {6, 1, SCIF_PROT_READ}, {7, 1, SCIF_PROT_WRITE},
    };
    for (unsigned i = 0; i < 4; i++) {
        off_t at = PARTS[i].at * PAGE, length = PARTS[i].pages * PAGE;
        REQUIRE(scif_register(epd, room + at, length, HERE + at, PARTS[i].prot, FIXED) == HERE + at);
        REQUIRE(at_far(FAR_REGISTER, at, length, THERE + at, PARTS[i].prot, FIXED) == THERE + at);
    }
    fill(room, 8 * PAGE, 1);
    fill(plain, sizeof plain, 3);
    FAR_MUST(FAR_FILL, 0, 8 * PAGE, 2);
}

static bool nothing_moved(void)
{
    return filled(room, 8 * PAGE, 1) && filled(plain, sizeof plain, 3) && at_far(FAR_FILLED, 0, 8 * PAGE, 2) == 1;
}

// Each of the four calls with the same remote range and flags.
static void all_four(const char *sentence, off_t here, size_t length, off_t there, int flags, int error)
{
    CHECK_REFUSED("scif 3.5 readfrom", sentence, scif_readfrom(epd, here, length, there, flags), error);
    CHECK_REFUSED("scif 3.5 writeto", sentence, scif_writeto(epd, here, length, there, flags), error);
    CHECK_REFUSED("scif 3.5 vreadfrom", sentence, scif_vreadfrom(epd, plain, length, there, flags), error);
    CHECK_REFUSED("scif 3.5 vwriteto", sentence, scif_vwriteto(epd, plain, length, there, flags), error);
}

// The own range is wrong.
static void both_local(const char *sentence, off_t here, size_t length, int error)
{
    CHECK_REFUSED("scif 3.5 readfrom", sentence, scif_readfrom(epd, here, length, THERE, SYNC), error);
    CHECK_REFUSED("scif 3.5 writeto", sentence, scif_writeto(epd, here, length, THERE, SYNC), error);
}

static void refusals(void)
{
    static const int ALL[] = {0, SYNC, SCIF_RMA_USECPU, SYNC | SCIF_RMA_USECPU};
    all_four("no bytes", HERE, 0, THERE, SYNC, EINVAL);
    all_four("an unknown flag", HERE, 8, THERE, 0x10, EINVAL);
    all_four("an unknown flag beside SYNC", HERE, 8, THERE, 0x10 | SYNC, EINVAL);
    all_four("the sign flag", HERE, 8, THERE, INT32_MIN | SYNC, EINVAL);
    all_four("a remote range that wraps", HERE, 2 * PAGE, LAST, SYNC, ENXIO);
    all_four("a length that wraps", HERE, (size_t)-8, THERE, SYNC, ENXIO);
    all_four("a length with the sign bit", HERE, (size_t)1 << 63, THERE, SYNC, ENXIO);
    both_local("an own range that wraps", LAST, 2 * PAGE, ENXIO);
    for (unsigned i = 0; i < 4; i++) {
        all_four("no window there", HERE, 8, 0x900000, ALL[i], ENXIO);
        all_four("a byte before the window", HERE, 16, THERE - 1, ALL[i], ENXIO);
        all_four("a byte behind the windows", HERE, 16, THERE + SIZE - 15, ALL[i], ENXIO);
        all_four("over the gap", HERE, 2 * PAGE, THERE + SIZE - 8, ALL[i], ENXIO);
        all_four("a negative offset", HERE, 8, -8, ALL[i], ENXIO);
    }
    all_four("the lowest offset", HERE, 8, INT64_MIN, SYNC, ENXIO);
    all_four("at 2^62", HERE, 8, TOP, SYNC, ENXIO);
    all_four("just below 2^62", HERE, 8, TOP - 4, SYNC, ENXIO);
    all_four("the last bytes", HERE, 8, INT64_MAX - 8, SYNC, ENXIO);
    both_local("no own window there", 0x900000, 8, ENXIO);
    both_local("a byte before the own window", HERE - 1, 8, ENXIO);
    both_local("a byte behind the own windows", HERE + SIZE - 7, 8, ENXIO);
    both_local("a negative own offset", -8, 8, ENXIO);
    both_local("the far end's offset is not one's own", THERE, 8, ENXIO);
    CHECK("scif 3.5", "nothing moved", nothing_moved());
}

static void rights(void)
{
    CHECK_REFUSED("SCIF-9", "read from what may be written only", scif_readfrom(epd, HERE, 8, THERE + WRITE_ONLY, SYNC),
                  EACCES);
    CHECK_REFUSED("SCIF-9", "write to what may be read only", scif_writeto(epd, HERE, 8, THERE + READ_ONLY, SYNC),
                  EACCES);
    CHECK_REFUSED("SCIF-9", "vread from what may be written only",
                  scif_vreadfrom(epd, plain, 8, THERE + WRITE_ONLY, SYNC), EACCES);
    CHECK_REFUSED("SCIF-9", "vwrite to what may be read only", scif_vwriteto(epd, plain, 8, THERE + READ_ONLY, SYNC),
                  EACCES);
    CHECK_REFUSED("SCIF-9", "read into the own that may be read only", scif_readfrom(epd, HERE + READ_ONLY, 8, THERE, SYNC),
                  EACCES);
    CHECK_REFUSED("SCIF-9", "write from the own that may be written only",
                  scif_writeto(epd, HERE + WRITE_ONLY, 8, THERE, SYNC), EACCES);
    CHECK_REFUSED("SCIF-9", "across a border into what may be read only",
                  scif_writeto(epd, HERE, 16, THERE + READ_ONLY + PAGE - 8, SYNC), EACCES);
    CHECK("SCIF-9", "nothing moved", nothing_moved());
    CHECK_DONE("SCIF-9", "what may be read is", scif_vreadfrom(epd, plain, 8, THERE + READ_ONLY, SYNC), 0);
    CHECK_DONE("SCIF-9", "what may be written is", scif_vwriteto(epd, plain, 8, THERE + WRITE_ONLY, SYNC), 0);
    CHECK("SCIF-9", "... with these bytes", at_far(FAR_WORD, READ_ONLY) == at_far(FAR_WORD, WRITE_ONLY));
    FAR_MUST(FAR_FILL, 0, 8 * PAGE, 2);
    fill(plain, sizeof plain, 3);
}

static void buffers(void)
{
    unsigned char *pages = fresh_pages(NULL, 3 * PAGE);
    fill(pages, PAGE, 5);
    REQUIRE(munmap(pages + PAGE, PAGE) == 0);
    int flags[] = {0, SYNC, SCIF_RMA_USECPU | SYNC, SCIF_RMA_USECACHE};
    for (unsigned i = 0; i < 4; i++) {
        CHECK_REFUSED("scif 3.5", "read into NULL", scif_vreadfrom(epd, NULL, 8, THERE, flags[i]), EFAULT);
        CHECK_REFUSED("scif 3.5", "write from NULL", scif_vwriteto(epd, NULL, 8, THERE, flags[i]), EFAULT);
        CHECK_REFUSED("scif 3.5", "read into what is not mapped", scif_vreadfrom(epd, UNMAPPED, 8, THERE, flags[i]),
                      EFAULT);
        CHECK_REFUSED("scif 3.5", "write from what is not mapped", scif_vwriteto(epd, UNMAPPED, 8, THERE, flags[i]),
                      EFAULT);
        CHECK_REFUSED("scif 3.5", "read into memory that ends too early",
                      scif_vreadfrom(epd, pages + PAGE - 8, 16, THERE, flags[i]), EFAULT);
        CHECK_REFUSED("scif 3.5", "write from memory that ends too early",
                      scif_vwriteto(epd, pages + PAGE - 8, 16, THERE, flags[i]), EFAULT);
        CHECK_REFUSED("scif 3.5", "write from memory with a hole", scif_vwriteto(epd, pages, 3 * PAGE, THERE, flags[i]),
                      EFAULT);
        CHECK_REFUSED("scif 3.5", "read into the kernel's half", scif_vreadfrom(epd, (void *)-64l, 8, THERE, flags[i]),
                      EFAULT);
        CHECK_REFUSED("scif 3.5", "write from around the end", scif_vwriteto(epd, (void *)-4l, 8, THERE, flags[i]), EFAULT);
    }
    CHECK("scif 3.5", "no byte was read", filled(pages, PAGE, 5));
    REQUIRE(mprotect(pages, PAGE, PROT_READ) == 0);
    CHECK_REFUSED("scif 3.5", "read into read-only memory", scif_vreadfrom(epd, pages, 8, THERE, SYNC), EFAULT);
    CHECK_REFUSED("scif 3.5", "read into the program's text", scif_vreadfrom(epd, (void *)buffers, 8, THERE, SYNC), EFAULT);
    CHECK("scif 3.5", "nothing moved", filled(pages, PAGE, 5) && nothing_moved());
    CHECK_DONE("scif 3.5", "read-only memory can be written from", scif_vwriteto(epd, pages, 64, THERE, SYNC), 0);
    REQUIRE(mprotect(pages, PAGE, PROT_NONE) == 0);
    CHECK_REFUSED("scif 3.5", "memory that may not be touched cannot", scif_vwriteto(epd, pages, 64, THERE + 64, SYNC),
                  EFAULT);
    FAR_MUST(FAR_FILL, 0, 8 * PAGE, 2);
    munmap(pages, 3 * PAGE);
}

static bool same_range(const unsigned char *got, size_t from, size_t length, size_t source, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        if (got[from + i] != pattern_byte(source + i, seed))
            return false;
    return true;
}

// Every alignment of both ends, lengths around lines and pages, over the border of two windows.
static void moves(void)
{
    static const size_t LENGTHS[] = {1, 7, 8, 9, 63, 64, 65, 127, 1000, 4095, 4096, 4097, 8191};
    int wrong = 0, tried = 0;
    for (unsigned l = 0; l < sizeof LENGTHS / sizeof *LENGTHS; l++)
        for (unsigned way = 0; way < 24; way++) {
            size_t length = LENGTHS[l], from = way * 13 % 67, to = way * 29 % 71;
            int flags = (way & 1 ? SYNC : SCIF_RMA_USECPU | SYNC) | (way & 2 ? SCIF_RMA_ORDERED : 0);
            // Half of the ranges go over the border of two windows on the source side, a third on the other.
            from += way % 2 ? MIDDLE - length / 2 - 40 : 0;
            to += way % 3 == 2 ? MIDDLE - length / 2 - 40 : 0;
            memset(room, 0, SIZE);
            wrong += scif_readfrom(epd, HERE + to, length, THERE + from, flags) != 0;
            wrong += !same_range(room, to, length, from, 2) || (to > 0 && room[to - 1]) || room[to + length];
            memset(plain, 0, SIZE);
            wrong += scif_vreadfrom(epd, plain + to, length, THERE + from, flags) != 0;
            wrong += !same_range(plain, to, length, from, 2) || (to > 0 && plain[to - 1]) || plain[to + length];
            // To the far end and back: that it came there is checked by another route.
            fill(room, SIZE, way + 10);
            wrong += scif_writeto(epd, HERE + from, length, THERE + to, flags) != 0;
            memset(plain, 0, SIZE);
            wrong += scif_vreadfrom(epd, plain, length, THERE + to, SYNC) != 0;
            wrong += !same_range(plain, 0, length, from, way + 10);
            FAR_MUST(FAR_FILL, 0, SIZE, 2);
            fill(plain, SIZE, way + 60);
            wrong += scif_vwriteto(epd, plain + from, length, THERE + to, flags) != 0;
            memset(room, 0, SIZE);
            wrong += scif_readfrom(epd, HERE, length, THERE + to, SYNC) != 0;
            wrong += !same_range(room, 0, length, from, way + 60);
            FAR_MUST(FAR_FILL, 0, SIZE, 2);
            tried += 6;
        }
    CHECK("scif 3.5", "transfers of every alignment and length were tried", tried == 13 * 24 * 6);
    CHECK_EQ("scif 3.5", "every byte arrives, and none beside them", wrong, 0);
}

// What was written is what the owner's loads see, not only what RMA reads back.
static void at_the_target(void)
{
    fill(plain, SIZE, 7);
    REQUIRE(scif_vwriteto(epd, plain, SIZE, THERE, SYNC) == 0);
    CHECK_EQ("scif 3.5", "bytes written with SYNC are in the target's memory", at_far(FAR_FILLED, 0, SIZE, 7), 1);
    fill(room, SIZE, 8);
    REQUIRE(scif_writeto(epd, HERE, SIZE, THERE, 0) == 0);
    REQUIRE(talks());
    CHECK_EQ("scif 3.5", "bytes written without are, once a message has come", at_far(FAR_FILLED, 0, SIZE, 8), 1);
    CHECK_DONE("scif 3.5", "the far end reads and writes as well", at_far(FAR_READ, THERE, 4 * PAGE, HERE, SYNC), 0);
    FAR_MUST(FAR_FILL, 0, PAGE, 9);
    CHECK_DONE("scif 3.5", "... both ways", at_far(FAR_WRITE, THERE, PAGE, HERE + PAGE, SYNC), 0);
    CHECK("scif 3.5", "... into this end's memory", filled(room + PAGE, PAGE, 9) && filled(room, PAGE, 8));
}

// Long transfers that are not waited for one by one: a fence says when they are done.
static void large(void)
{
    size_t length = 1536 << 10, odd = 5;
    unsigned char *own = fresh_pages(NULL, length), *copy = fresh_pages(NULL, length);
    off_t here = scif_register(epd, own, length, 0, BOTH, 0);
    off_t there = at_far(FAR_REGISTER, 16 * PAGE, length, 0, BOTH, 0);
    int mark;
    REQUIRE(here == TOP && there == TOP);
    for (unsigned seed = 1; seed <= 4; seed++) {
        int flags = seed % 2 ? 0 : SCIF_RMA_ORDERED;
        fill(own + odd, length - odd, seed);
        CHECK_DONE("scif 3.5", "a long write", scif_writeto(epd, here + odd, length - odd, there + odd, flags), 0);
        CHECK_DONE("scif 3.6", "a mark behind it", scif_fence_mark(epd, SCIF_FENCE_INIT_SELF, &mark), 0);
        CHECK_DONE("scif 3.6", "is waited for", scif_fence_wait(epd, mark), 0);
        CHECK_EQ("scif 3.5", "it has arrived", at_far(FAR_FILLED, 16 * PAGE + odd, length - odd, seed), 1);
        FAR_MUST(FAR_FILL, 16 * PAGE, length, seed + 10);
        CHECK_DONE("scif 3.5", "a long read into plain memory", scif_vreadfrom(epd, copy, length, there, flags), 0);
        CHECK_DONE("scif 3.5", "and one into a window", scif_readfrom(epd, here, length, there, flags), 0);
        REQUIRE(talks());
        CHECK("scif 3.5", "both are done when a message has come",
              filled(copy, length, seed + 10) && filled(own, length, seed + 10));
        fill(copy, length, seed + 20);
        CHECK_DONE("scif 3.5", "a long write from plain memory", scif_vwriteto(epd, copy, length, there, flags), 0);
        REQUIRE(talks());
        CHECK_EQ("scif 3.5", "has arrived when a message has", at_far(FAR_FILLED, 16 * PAGE, length, seed + 20), 1);
    }
    REQUIRE(scif_unregister(epd, here, length) == 0);
    FAR_MUST(FAR_UNREGISTER, there, length);
    munmap(own, length);
    munmap(copy, length);
}

static void states(void)
{
    scif_epd_t e = scif_open();
    for (int bound = 0; bound < 2; bound++) {
        CHECK_REFUSED("scif 3.5", "readfrom unconnected", scif_readfrom(e, HERE, 8, THERE, SYNC), ENOTCONN);
        CHECK_REFUSED("scif 3.5", "writeto unconnected", scif_writeto(e, HERE, 8, THERE, SYNC), ENOTCONN);
        CHECK_REFUSED("scif 3.5", "vreadfrom unconnected", scif_vreadfrom(e, plain, 8, THERE, SYNC), ENOTCONN);
        CHECK_REFUSED("scif 3.5", "vwriteto unconnected", scif_vwriteto(e, plain, 8, THERE, SYNC), ENOTCONN);
        REQUIRE(bound || scif_bind(e, 0) > 0);
    }
    scif_close(e);
    FAR_MUST(FAR_CLOSE);
    REQUIRE(ready(epd, 0, PATIENCE_MS) & POLLHUP);
    fill(room, 8 * PAGE, 1);
    all_four("after the peer closed", HERE, 8, THERE, SYNC, ECONNRESET);
    CHECK("scif 3.8", "nothing moved", filled(room, 8 * PAGE, 1));
    scif_close(epd);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    room = near_room;
    connect_ends();
    windows();
    refusals();
    rights();
    buffers();
    moves();
    at_the_target();
    large();
    CHECK("scif 3.5", "the connection works after every refusal", talks());
    states();
    return end();
}
