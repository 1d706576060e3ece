// scif_mmap and scif_munmap: every refusal, and that it mapped and replaced nothing; what a mapping is and how long.

#include "far.h"

#define LAST (INT64_MAX - PAGE + 1)
#define OFFSET 0x10000l // of the far end's first window, 4 pages; the next, 2 pages, is beside it

static unsigned char *place; // memory of this end that refused mappings must not replace

static bool unharmed(void)
{
    return filled(place, 8 * PAGE, 1);
}

static void *map(void *at, size_t pages, int prot, int flags, off_t offset)
{
    return scif_mmap(at, pages * PAGE, prot, flags, epd, offset);
}

static void refusals(void)
{
    place = fresh_pages(NULL, 8 * PAGE);
    fill(place, 8 * PAGE, 1);
    FAR_MUST(FAR_FILL, 0, 4 * PAGE, 2);
    REQUIRE(at_far(FAR_REGISTER, 0, 4 * PAGE, OFFSET, BOTH, FIXED) == OFFSET);
    CHECK_REFUSED("scif 3.4", "FIXED within a page", map(place + 8, 1, BOTH, FIXED, OFFSET), EINVAL);
    CHECK_REFUSED("scif 3.4", "an offset within a page", map(place, 1, BOTH, FIXED, OFFSET + 1), EINVAL);
    CHECK_REFUSED("scif 3.4", "no bytes", map(place, 0, BOTH, FIXED, OFFSET), EINVAL);
    CHECK_REFUSED("scif 3.4", "half a page", scif_mmap(place, PAGE / 2, BOTH, FIXED, epd, OFFSET), EINVAL);
    CHECK_REFUSED("scif 3.4", "unknown flags", map(place, 1, BOTH, FIXED | 1, OFFSET), EINVAL);
    CHECK_REFUSED("scif 3.4", "the kernel's flag", map(place, 1, BOTH, FIXED | SCIF_MAP_KERNEL, OFFSET), EINVAL);
    CHECK_REFUSED("scif 3.4", "unknown protection", map(place, 1, BOTH | 4, FIXED, OFFSET), EINVAL);
    CHECK_REFUSED("scif 3.4", "no window there", map(place, 1, BOTH, FIXED, 0x40000), ENXIO);
    CHECK_REFUSED("scif 3.4", "longer than the window", map(place, 5, BOTH, FIXED, OFFSET), ENXIO);
    CHECK_REFUSED("scif 3.4", "from before the window", map(place, 2, BOTH, FIXED, OFFSET - PAGE), ENXIO);
    CHECK_REFUSED("scif 3.4", "a negative offset", map(place, 1, BOTH, FIXED, -PAGE), ENXIO);
    CHECK_REFUSED("scif 3.4", "the lowest offset", map(place, 1, BOTH, FIXED, INT64_MIN), ENXIO);
    CHECK_REFUSED("scif 3.4", "the last page", map(place, 1, BOTH, FIXED, LAST), ENXIO);
    CHECK_REFUSED("scif 3.4", "no protection", map(place, 1, 0, FIXED, OFFSET), EINVAL);
    CHECK_REFUSED("scif 3.4", "a range that wraps", map(place, 2, BOTH, FIXED, LAST), ENXIO);
    CHECK_REFUSED("scif 3.4", "a length that wraps", scif_mmap(place, (size_t)-PAGE, BOTH, FIXED, epd, OFFSET), ENXIO);
    CHECK_REFUSED("scif 3.4", "at 2^62", map(place, 1, BOTH, FIXED, TOP), ENXIO);
    CHECK("scif 3.4", "and the memory there is what it was", unharmed());
    REQUIRE(at_far(FAR_REGISTER, 4 * PAGE, PAGE, OFFSET + 4 * PAGE, SCIF_PROT_READ, FIXED) > 0);
    REQUIRE(at_far(FAR_REGISTER, 5 * PAGE, PAGE, OFFSET + 5 * PAGE, SCIF_PROT_WRITE, FIXED) > 0);
    CHECK_REFUSED("SCIF-9", "writing where only reading is allowed", map(place, 1, BOTH, FIXED, OFFSET + 4 * PAGE),
                  EACCES);
    CHECK_REFUSED("SCIF-9", "... in the last page of several", map(place, 5, BOTH, FIXED, OFFSET), EACCES);
    CHECK_REFUSED("SCIF-9", "reading where only writing is allowed",
                  map(place, 1, SCIF_PROT_READ, FIXED, OFFSET + 5 * PAGE), EACCES);
    CHECK("SCIF-9", "and the memory there is what it was", unharmed());
    unsigned char *read_only = map(NULL, 5, SCIF_PROT_READ, 0, OFFSET);
    CHECK("SCIF-9", "reading alone is allowed", read_only != SCIF_MMAP_FAILED && filled(read_only, 4 * PAGE, 2));
    REQUIRE(scif_munmap(read_only, 5 * PAGE) == 0);
    FAR_MUST(FAR_UNREGISTER, OFFSET, 6 * PAGE);
    CHECK_REFUSED("scif 3.4", "a window that went", map(place, 1, BOTH, FIXED, OFFSET), ENXIO);
    CHECK_REFUSED("scif 3.4", "munmap within a page", scif_munmap(place + 8, PAGE), EINVAL);
    CHECK_REFUSED("scif 3.4", "munmap of no bytes", scif_munmap(place, 0), EINVAL);
    CHECK("scif 3.4", "and the memory there is what it was", unharmed());
}

static void mapped(void)
{
    FAR_MUST(FAR_FILL, 0, 4 * PAGE, 2);
    FAR_MUST(FAR_FILL, 8 * PAGE, 2 * PAGE, 3);
    REQUIRE(at_far(FAR_REGISTER, 0, 4 * PAGE, OFFSET, BOTH, FIXED) == OFFSET);
    REQUIRE(at_far(FAR_REGISTER, 8 * PAGE, 2 * PAGE, OFFSET + 4 * PAGE, BOTH, FIXED) > 0);
    CHECK("scif 3.4", "FIXED replaces what is there", map(place, 6, BOTH, FIXED, OFFSET) == place);
    CHECK("scif 3.4", "the windows are seen beside each other",
          filled(place, 4 * PAGE, 2) && filled(place + 4 * PAGE, 2 * PAGE, 3));
    for (size_t i = 6 * PAGE; i < 8 * PAGE; i++)
        if (place[i] != pattern_byte(i, 1)) {
            CHECK("scif 3.4", "and nothing behind them was replaced", false);
            break;
        }
    memset(place + PAGE, 0x11, 8);
    CHECK_EQ("scif 3.4", "a store is in the peer's memory", at_far(FAR_WORD, PAGE), 0x1111111111111111);
    FAR_MUST(FAR_FILL, 3 * PAGE, PAGE, 4);
    CHECK("scif 3.4", "and the peer's stores are here", filled(place + 3 * PAGE, PAGE, 4));
    unsigned char *middle = map(NULL, 2, BOTH, 0, OFFSET + 3 * PAGE);
    CHECK("scif 3.4", "any whole pages of windows can be mapped",
          middle != SCIF_MMAP_FAILED && filled(middle, PAGE, 4) && filled(middle + PAGE, PAGE, 3));
    middle[0] = 0x77;
    CHECK_EQ("scif 3.4", "and again elsewhere", place[3 * PAGE], 0x77);

    // The far end's pages leave its address; the windows and mappings keep them.
    FAR_MUST(FAR_FILL, 0, PAGE, 5);
    FAR_MUST(FAR_FRESH, 0, 4 * PAGE);
    CHECK("SCIF-7", "a mapping outlives the owner's munmap", filled(place, PAGE, 5));
    CHECK_DONE("scif 3.3", "unregister while mapped", at_far(FAR_UNREGISTER, OFFSET, 6 * PAGE), 0);
    CHECK("scif 3.3", "the mapping still reads", filled(place, PAGE, 5) && filled(place + 4 * PAGE, 2 * PAGE, 3));
    CHECK_REFUSED("scif 3.3", "a dying window is mapped by nobody", map(NULL, 1, BOTH, 0, OFFSET), ENXIO);
    CHECK_REFUSED("scif 3.3", "nor read", scif_vreadfrom(epd, near_room, 8, OFFSET, SYNC), ENXIO);
    CHECK_REFUSED("scif 3.3", "nor unregistered twice", at_far(FAR_UNREGISTER, OFFSET, 6 * PAGE), ENXIO);
    CHECK_REFUSED("scif 3.3", "its offsets stay taken",
                  at_far(FAR_REGISTER, 20 * PAGE, 4 * PAGE, OFFSET, BOTH, FIXED), EADDRINUSE);
    REQUIRE(scif_munmap(middle, 2 * PAGE) == 0);
    CHECK_REFUSED("scif 3.3", "... while one mapping is left",
                  at_far(FAR_REGISTER, 20 * PAGE, 4 * PAGE, OFFSET, BOTH, FIXED), EADDRINUSE);
    REQUIRE(scif_munmap(place, 4 * PAGE) == 0);
    CHECK("scif 3.4", "a part may be unmapped", filled(place + 4 * PAGE, 2 * PAGE, 3));
    REQUIRE(talks());
    CHECK_DONE("scif 3.3", "then they are free", at_far(FAR_REGISTER, 20 * PAGE, 4 * PAGE, OFFSET, BOTH, FIXED),
               OFFSET);
    CHECK_DONE("SCIF-4", "a suggestion counts what is mapped still as taken",
               at_far(FAR_REGISTER, 30 * PAGE, PAGE, OFFSET + 4 * PAGE, BOTH, 0), OFFSET + 6 * PAGE);
    FAR_MUST(FAR_UNREGISTER, OFFSET + 6 * PAGE, PAGE);
    // Plain munmap, and a new mapping over the old, end it as well.
    fresh_pages(place, 5 * PAGE);
    REQUIRE(munmap(place + 5 * PAGE, PAGE) == 0);
    CHECK_DONE("scif 3.4", "mappings that the library was not told of are no longer in the way",
               at_far(FAR_REGISTER, 24 * PAGE, 2 * PAGE, OFFSET + 4 * PAGE, BOTH, FIXED), OFFSET + 4 * PAGE);
    FAR_MUST(FAR_UNREGISTER, OFFSET, 6 * PAGE);
    at_far(FAR_REGISTER, 24 * PAGE, PAGE, OFFSET, BOTH, FIXED);
    unsigned char *again = map(NULL, 1, BOTH, 0, OFFSET);
    REQUIRE(again != SCIF_MMAP_FAILED);
    FAR_MUST(FAR_UNREGISTER, OFFSET, PAGE);
    REQUIRE(munmap(again, PAGE) == 0);
    CHECK_DONE("SCIF-4", "... and no more for suggestions either", at_far(FAR_REGISTER, 26 * PAGE, PAGE, OFFSET, BOTH, 0), OFFSET);
    FAR_MUST(FAR_UNREGISTER, OFFSET, PAGE);
    REQUIRE(munmap(place, 8 * PAGE) == 0);
}

// Over the own registered buffer.
static void over_own_window(void)
{
    unsigned char *own = fresh_pages(NULL, 2 * PAGE);
    fill(own, 2 * PAGE, 6);
    off_t here = scif_register(epd, own, 2 * PAGE, 0, BOTH, 0);
    FAR_MUST(FAR_FILL, 0, 2 * PAGE, 7);
    off_t there = at_far(FAR_REGISTER, 0, 2 * PAGE, 0, BOTH, 0);
    REQUIRE(here >= 0 && there >= 0);
    CHECK("SCIF-7", "the peer's window over the own buffer", map(own, 2, BOTH, FIXED, there) == own);
    CHECK("SCIF-7", "shows the peer's pages", filled(own, 2 * PAGE, 7));
    CHECK("SCIF-7", "and the own window shows the own",
          at_far(FAR_VREAD, 8 * PAGE, 2 * PAGE, here, SYNC) == 0 && at_far(FAR_FILLED, 8 * PAGE, 2 * PAGE, 6) == 1);
    REQUIRE(scif_munmap(own, 2 * PAGE) == 0);
    CHECK("SCIF-7", "... after munmap too", at_far(FAR_VREAD, 9 * PAGE, 2 * PAGE, here, SYNC) == 0 &&
                                                at_far(FAR_FILLED, 9 * PAGE, 2 * PAGE, 6) == 1);
    REQUIRE(scif_unregister(epd, here, 2 * PAGE) == 0);
    FAR_MUST(FAR_UNREGISTER, there, 2 * PAGE);
}

// Children do not have it, and it does not grow.
static void inheritance(void)
{
    FAR_MUST(FAR_FILL, 0, PAGE, 7);
    off_t there = at_far(FAR_REGISTER, 0, PAGE, 0, BOTH, 0);
    unsigned char *at = map(NULL, 1, BOTH, 0, there);
    REQUIRE(at != SCIF_MMAP_FAILED);
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), status;
    pid_t child = fork();
    if (child == 0)
        // The kernel says whether it is mapped.
        _exit(read(zero, at, 1) == -1 && errno == EFAULT ? 0 : 1);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ("scif 3.4", "a child does not have the mapping", status, 0);
    CHECK("scif 3.4", "its parent still does", filled(at, PAGE, 7));
    close(zero);
    REQUIRE(scif_munmap(at, PAGE) == 0);
    FAR_MUST(FAR_UNREGISTER, there, PAGE);
}

static void after_the_end(void)
{
    FAR_MUST(FAR_FILL, 0, 2 * PAGE, 8);
    off_t there = at_far(FAR_REGISTER, 0, 2 * PAGE, 0, BOTH, 0);
    unsigned char *at = map(NULL, 2, BOTH, 0, there);
    REQUIRE(at != SCIF_MMAP_FAILED);
    FAR_MUST(FAR_CLOSE);
    REQUIRE(ready(epd, 0, PATIENCE_MS) & POLLHUP);
    CHECK_REFUSED("scif 3.4", "mapping after the peer closed", map(NULL, 1, BOTH, 0, there), ECONNRESET);
    CHECK("scif 2.5", "mappings outlive the peer's close", filled(at, 2 * PAGE, 8));
    memset(at, 0x22, 8);
    CHECK_EQ("scif 2.5", "... and are its memory still", at_far(FAR_WORD, 0), 0x2222222222222222);
    scif_close(epd);
    CHECK("scif 2.5", "... and the own close", at[0] == 0x22 && at[PAGE] == pattern_byte(PAGE, 8));
    if (!far.alone) {
        int status;
        far_begins(FAR_EXIT);
        REQUIRE(waitpid(self.other, &status, 0) == self.other);
        self.other = 0;
        at[PAGE] = 0x33;
        CHECK("scif 3.4", "... and the end of its process", at[0] == 0x22 && at[PAGE] == 0x33);
    }
    REQUIRE(scif_munmap(at, 2 * PAGE) == 0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    connect_ends();
    refusals();
    mapped();
    over_own_window();
    inheritance();
    CHECK("scif 3.4", "the connection works after every refusal", talks());
    after_the_end();
    scif_epd_t e = scif_open();
    CHECK_REFUSED("scif 3.4", "mapping unconnected", scif_mmap(NULL, PAGE, BOTH, 0, e, 0), ENOTCONN);
    scif_close(e);
    return end();
}
