// Windows: every refusal of register and unregister, and that it opened, closed and changed nothing; what a window is on
// memory of every kind.

#include "kinds.h"

#include <sys/resource.h>

#define LAST (INT64_MAX - PAGE + 1) // the last page of the address space
#define MEMLOCK "memlock"           // argument: the program runs with NONIC_SCIF_MEMLOCK=1 and a small limit

static unsigned char *room;

static off_t window(void *at, size_t pages, off_t offset, int prot, int flags)
{
    return scif_register(epd, at, pages * PAGE, offset, prot, flags);
}

// What the far end reads there, by RMA: 1 if it is the pattern, 0 if not, -1 with errno if it is refused.
static int64_t far_sees(off_t offset, size_t length, unsigned seed)
{
    int64_t read = at_far(FAR_VREAD, 0, length, offset, SYNC);
    return read ? read : at_far(FAR_FILLED, 0, length, seed);
}

static void is_no_window(off_t offset)
{
    CHECK_REFUSED("scif 3.1", "... and there is no window", far_sees(offset, 8, 0), ENXIO);
}

// Nothing is registered above 2^62: the first automatic window takes the lowest place.
static void is_empty(void)
{
    off_t at = window(room, 1, 0, BOTH, 0);
    CHECK_EQ("scif 3.1", "... and the address space is as it was", at, TOP);
    REQUIRE(at < 0 || scif_unregister(epd, at, PAGE) == 0);
}

static void arguments(void)
{
    CHECK_REFUSED("SCIF-10", "unknown map flags", window(room, 1, 0, BOTH, 1), EINVAL);
    CHECK_REFUSED("SCIF-10", "the kernel's map flag", window(room, 1, 0, BOTH, SCIF_MAP_KERNEL), EINVAL);
    CHECK_REFUSED("SCIF-10", "unknown map flags beside FIXED", window(room, 1, 0x1000, BOTH, FIXED | 1), EINVAL);
    CHECK_REFUSED("SCIF-10", "all map flags", window(room, 1, 0, BOTH, -1), EINVAL);
    is_no_window(0x1000);
    CHECK_REFUSED("SCIF-10", "no protection", window(room, 1, 0, 0, 0), EINVAL);
    CHECK_REFUSED("SCIF-10", "no protection, FIXED", window(room, 1, 0x1000, 0, FIXED), EINVAL);
    CHECK_REFUSED("SCIF-10", "unknown protection", window(room, 1, 0, 4, 0), EINVAL);
    CHECK_REFUSED("SCIF-10", "unknown protection beside known", window(room, 1, 0, BOTH | 8, 0), EINVAL);
    CHECK_REFUSED("SCIF-10", "a negative offset, FIXED", window(room, 1, -PAGE, BOTH, FIXED), EINVAL);
    CHECK_REFUSED("SCIF-10", "the lowest offset, FIXED", window(room, 1, INT64_MIN, BOTH, FIXED), EINVAL);
    CHECK_REFUSED("SCIF-10", "a negative hint", window(room, 1, -PAGE, BOTH, 0), EINVAL);
    CHECK_REFUSED("SCIF-10", "an offset within a page", window(room, 1, 0x1001, BOTH, FIXED), EINVAL);
    CHECK_REFUSED("SCIF-2", "an address within a page", window(room + 8, 1, 0, BOTH, 0), EINVAL);
    CHECK_REFUSED("SCIF-2", "half a page", scif_register(epd, room, PAGE / 2, 0, BOTH, 0), EINVAL);
    CHECK_REFUSED("SCIF-2", "a page and a byte", scif_register(epd, room, PAGE + 1, 0, BOTH, 0), EINVAL);
    CHECK_REFUSED("SCIF-2", "no bytes", scif_register(epd, room, 0, 0, BOTH, 0), EINVAL);
    CHECK_REFUSED("SCIF-2", "no bytes, FIXED", scif_register(epd, room, 0, 0x1000, BOTH, FIXED), EINVAL);
    is_no_window(0x1000);
    CHECK_REFUSED("SCIF-3", "FIXED over the end of the space", window(room, 2, LAST, BOTH, FIXED), EADDRINUSE);
    CHECK_REFUSED("SCIF-3", "FIXED, longer than the space",
                  scif_register(epd, room, (size_t)-PAGE, 0x1000, BOTH, FIXED), EADDRINUSE);
    is_no_window(0x1000);
    is_empty();
    CHECK_REFUSED("SCIF-3", "FIXED at 2^62", window(room, 1, TOP, BOTH, FIXED), EADDRINUSE);
    CHECK_REFUSED("SCIF-3", "FIXED across 2^62", window(room, 2, TOP - PAGE, BOTH, FIXED), EADDRINUSE);
    CHECK_REFUSED("SCIF-3", "FIXED at the last page", window(room, 1, LAST, BOTH, FIXED), EADDRINUSE);
    CHECK_REFUSED("SCIF-3", "FIXED between", window(room, 1, TOP + 0x100000, BOTH, FIXED), EADDRINUSE);
    is_no_window(TOP - PAGE);
    CHECK_DONE("SCIF-3", "FIXED below 2^62", window(room, 1, TOP - PAGE, BOTH, FIXED), TOP - PAGE);
    CHECK_DONE("SCIF-3", "... is a window", scif_unregister(epd, TOP - PAGE, PAGE), 0);
    CHECK_DONE("SCIF-3", "FIXED at 0", window(room, 1, 0, BOTH, FIXED), 0);
    CHECK_DONE("SCIF-3", "... is a window", scif_unregister(epd, 0, PAGE), 0);
    is_empty();
}

static void memory(void)
{
    unsigned char *pages = fresh_pages(NULL, 4 * PAGE);
    fill(pages, 4 * PAGE, 1);
    REQUIRE(munmap(pages + 2 * PAGE, PAGE) == 0);
    CHECK_REFUSED("SCIF-10", "NULL", window(NULL, 1, 0, BOTH, 0), EFAULT);
    CHECK_REFUSED("SCIF-10", "memory that is not mapped", window(pages + 2 * PAGE, 1, 0, BOTH, 0), EFAULT);
    CHECK_REFUSED("SCIF-10", "memory with a hole", window(pages, 4, 0, BOTH, 0), EFAULT);
    CHECK_REFUSED("SCIF-10", "... FIXED", window(pages, 4, 0x10000, BOTH, FIXED), EFAULT);
    is_no_window(0x10000);
    CHECK_REFUSED("SCIF-10", "the kernel's half", window((void *)-8192l, 1, 0, BOTH, 0), EFAULT);
    CHECK_REFUSED("SCIF-10", "memory of a terabyte", scif_register(epd, pages, 1ul << 40, 0, BOTH, 0), EFAULT);
    CHECK_REFUSED("SCIF-10", "more than there are offsets",
                  scif_register(epd, pages, (size_t)INT64_MAX & ~(PAGE - 1), 0, BOTH, 0), ENOMEM);
    is_empty();
    REQUIRE(mprotect(pages, PAGE, PROT_READ) == 0);
    CHECK_REFUSED("SCIF-10", "read-only memory to be written", window(pages, 2, 0, BOTH, 0), EFAULT);
    CHECK_REFUSED("SCIF-10", "... only written", window(pages, 1, 0, SCIF_PROT_WRITE, 0), EFAULT);
    REQUIRE(mprotect(pages, PAGE, PROT_NONE) == 0);
    CHECK_REFUSED("SCIF-10", "memory that may not be touched", window(pages, 1, 0, SCIF_PROT_READ, 0), EFAULT);
    REQUIRE(mprotect(pages, PAGE, PROT_READ | PROT_WRITE) == 0);
    is_empty();
    CHECK("SCIF-10", "and the memory is what it was", filled(pages, 2 * PAGE, 1));
    munmap(pages, 4 * PAGE);
    CHECK_DONE("SCIF-9", "a window to be written only", window(room, 1, 0, SCIF_PROT_WRITE, 0), TOP);
    CHECK_REFUSED("SCIF-9", "... is not read", far_sees(TOP, 8, 0), EACCES);
    REQUIRE(scif_unregister(epd, TOP, PAGE) == 0);
    CHECK_DONE("SCIF-9", "a window to be read only", window(room, 1, 0, SCIF_PROT_READ, 0), TOP);
    CHECK_REFUSED("SCIF-9", "... is not written", at_far(FAR_VWRITE, 0, 8, TOP, SYNC), EACCES);
    REQUIRE(scif_unregister(epd, TOP, PAGE) == 0);
}

// 0xf000 to 0x15000 is taken, all else is free.
static void suggestions(void)
{
    static const struct {
        const char *sentence;
        off_t suggestion;
        size_t pages;
        off_t place;
    } CASES[] = {
        {"a free place that is suggested is taken", 0x8000, 2, 0x8000},
        {"... below 2^62", 0x100000, 1, 0x100000},
        {"... right behind a window", 0x15000, 1, 0x15000},
        {"... from 2^62 up", TOP + 0x100000, 3, TOP + 0x100000},
        {"... across 2^62", TOP - PAGE, 2, TOP - PAGE},
        {"... at the end of the space", LAST, 1, LAST},
        {"... the lowest that is none", PAGE, 1, PAGE},
        {"a place within a page is the next page", 0x8001, 1, 0x9000},
        {"... also in the first", 1, 1, 0x1000},
        {"... and at the end of one", 0x8fff, 1, 0x9000},
        {"where a window is, the nearest free place above", 0xf000, 1, 0x15000},
        {"... also from within", 0x11000, 4, 0x15000},
        {"where a window begins too soon, that above it", 0xe000, 2, 0x15000},
        {"... and where it does not, the place itself", 0xd000, 2, 0xd000},
        {"with nothing free above, the library's choice", LAST, 2, TOP},
        {"... also behind the last page", INT64_MAX, 1, TOP},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        fill(room, 4 * PAGE, 20 + (unsigned)i);
        CHECK_DONE("SCIF-4", CASES[i].sentence, window(room, CASES[i].pages, CASES[i].suggestion, BOTH, 0), CASES[i].place);
        CHECK("SCIF-4", "... and is a window there",
              far_sees(CASES[i].place, CASES[i].pages * PAGE, 20 + (unsigned)i) == 1);
        REQUIRE(scif_unregister(epd, CASES[i].place, CASES[i].pages * PAGE) == 0);
        is_no_window(CASES[i].place);
    }
    // The last page of the space is as good as any.
    REQUIRE(window(room, 1, LAST, BOTH, 0) == LAST);
    fill(room, PAGE, 7);
    FAR_MUST(FAR_FILL, 0, 1, 8);
    CHECK_DONE("SCIF-4", "the last byte of the space is written", at_far(FAR_VWRITE, 0, 1, INT64_MAX, SYNC), 0);
    CHECK("SCIF-4", "... and no other", filled(room, PAGE - 1, 7) && room[PAGE - 1] == pattern_byte(0, 8));
    CHECK_REFUSED("SCIF-4", "a byte behind it is in no window", at_far(FAR_VWRITE, 0, 2, INT64_MAX, SYNC), ENXIO);
    int64_t mapped = FAR_MUST(FAR_MMAP, LAST, PAGE, SCIF_PROT_READ);
    FAR_MUST(FAR_MUNMAP, mapped, PAGE);
    REQUIRE(scif_unregister(epd, LAST, PAGE) == 0);
    CHECK_DONE("SCIF-3", "what was taken by a suggestion", window(room, 1, 0x20000, BOTH, 0), 0x20000);
    CHECK_REFUSED("SCIF-3", "... is taken for FIXED", window(room, 1, 0x20000, BOTH, FIXED), EADDRINUSE);
    REQUIRE(scif_unregister(epd, 0x20000, PAGE) == 0);
    CHECK_REFUSED("SCIF-10", "a suggestion below 0", window(room, 1, -1, BOTH, 0), EINVAL);
    is_empty();
    fill(room, 4 * PAGE, 2);
}

static void placement(void)
{
    CHECK_DONE("SCIF-3", "FIXED takes its place", window(room, 4, 0x10000, BOTH, FIXED), 0x10000);
    fill(room, 4 * PAGE, 2);
    CHECK_REFUSED("SCIF-3", "the same again", window(room, 4, 0x10000, BOTH, FIXED), EADDRINUSE);
    CHECK_REFUSED("SCIF-3", "its last page", window(room + 8 * PAGE, 1, 0x13000, BOTH, FIXED), EADDRINUSE);
    CHECK_REFUSED("SCIF-3", "into its beginning", window(room + 8 * PAGE, 2, 0xf000, BOTH, FIXED), EADDRINUSE);
    CHECK_REFUSED("SCIF-3", "around it", window(room + 8 * PAGE, 8, 0xe000, BOTH, FIXED), EADDRINUSE);
    CHECK_REFUSED("SCIF-3", "the place comes before the memory", window((void *)PAGE, 1, 0x10000, BOTH, FIXED), EADDRINUSE);
    is_no_window(0xf000);
    CHECK_EQ("SCIF-3", "it has its own pages still", far_sees(0x10000, 4 * PAGE, 2), 1);
    CHECK_DONE("SCIF-3", "beside it", window(room + 8 * PAGE, 1, 0xf000, BOTH, FIXED), 0xf000);
    CHECK_DONE("SCIF-3", "on its other side", window(room + 9 * PAGE, 1, 0x14000, BOTH, FIXED), 0x14000);

    CHECK_DONE("SCIF-4", "the library's choice is the lowest place from 2^62", window(room, 2, 0, BOTH, 0), TOP);
    CHECK_DONE("SCIF-4", "the next is beside it", window(room, 3, 0, BOTH, 0), TOP + 2 * PAGE);
    CHECK_DONE("SCIF-4", "a suggestion that is taken goes to the next free place above", window(room, 1, TOP, BOTH, 0),
               TOP + 5 * PAGE);
    CHECK_DONE("SCIF-4", "one within a page goes to the next page", window(room, 1, TOP + 5 * PAGE + 1, BOTH, 0),
               TOP + 6 * PAGE);
    REQUIRE(scif_unregister(epd, TOP + 2 * PAGE, 3 * PAGE) == 0);
    CHECK_DONE("SCIF-4", "what does not fit a gap goes behind", window(room, 4, 0, BOTH, 0), TOP + 7 * PAGE);
    CHECK_DONE("SCIF-4", "what fits takes the gap", window(room, 3, 0, BOTH, 0), TOP + 2 * PAGE);
    CHECK_DONE("scif 3.3", "all of them go at once", scif_unregister(epd, TOP, 11 * PAGE), 0);
    is_empty();
    suggestions();
    CHECK_EQ("SCIF-6", "the windows on the same pages are as they were", far_sees(0x10000, 4 * PAGE, 2), 1);
}

// 0xf000 to 0x15000 are three windows of 1, 4 and 1 page.
static void unregistering(void)
{
    CHECK_REFUSED("scif 3.3", "no bytes", scif_unregister(epd, 0x10000, 0), EINVAL);
    CHECK_REFUSED("scif 3.3", "half a page", scif_unregister(epd, 0x10000, PAGE / 2), EINVAL);
    CHECK_REFUSED("scif 3.3", "an offset within a page", scif_unregister(epd, 0x10008, PAGE), EINVAL);
    CHECK_REFUSED("scif 3.3", "a negative offset", scif_unregister(epd, -PAGE, PAGE), EINVAL);
    CHECK_REFUSED("scif 3.3", "a range that wraps", scif_unregister(epd, LAST, 2 * PAGE), ENXIO);
    CHECK_REFUSED("scif 3.3", "a length that wraps", scif_unregister(epd, 0x10000, (size_t)-PAGE), ENXIO);
    CHECK_REFUSED("scif 3.3", "the beginning of a window", scif_unregister(epd, 0x10000, PAGE), EINVAL);
    CHECK_REFUSED("scif 3.3", "the end of a window", scif_unregister(epd, 0x12000, 2 * PAGE), EINVAL);
    CHECK_REFUSED("scif 3.3", "the middle of a window", scif_unregister(epd, 0x11000, PAGE), EINVAL);
    CHECK_REFUSED("scif 3.3", "a window and a part of the next", scif_unregister(epd, 0xf000, 3 * PAGE), EINVAL);
    CHECK_REFUSED("scif 3.3", "a part of a window and the next", scif_unregister(epd, 0x13000, 2 * PAGE), EINVAL);
    CHECK_REFUSED("scif 3.3", "no window at all", scif_unregister(epd, 0x20000, PAGE), ENXIO);
    CHECK_REFUSED("scif 3.3", "no window at all, from 2^62", scif_unregister(epd, TOP, PAGE), ENXIO);
    CHECK_REFUSED("scif 3.3", "the last page", scif_unregister(epd, LAST, PAGE), ENXIO);
    fill(room, 4 * PAGE, 3);
    fill(room + 8 * PAGE, PAGE, 4);
    fill(room + 9 * PAGE, PAGE, 5);
    CHECK("scif 3.3", "after all that every window is there",
          far_sees(0xf000, PAGE, 4) == 1 && far_sees(0x10000, 4 * PAGE, 3) == 1 && far_sees(0x14000, PAGE, 5) == 1);
    CHECK_DONE("scif 3.3", "several windows and gaps around them", scif_unregister(epd, 0x5000, 0x20000), 0);
    CHECK_REFUSED("scif 3.3", "are gone", far_sees(0x10000, 8, 3), ENXIO);
    CHECK_REFUSED("scif 3.3", "... all", far_sees(0xf000, 8, 3), ENXIO);
    CHECK_REFUSED("scif 3.3", "... of them", far_sees(0x14000, 8, 3), ENXIO);
    CHECK_REFUSED("scif 3.3", "twice", scif_unregister(epd, 0x5000, 0x20000), ENXIO);
    CHECK_DONE("scif 3.3", "their place is free", window(room, 4, 0x10000, BOTH, FIXED), 0x10000);
    CHECK_DONE("scif 3.3", "exactly one", scif_unregister(epd, 0x10000, 4 * PAGE), 0);
}

// A window keeps the pages it was opened on.
static void pages_stay(void)
{
    unsigned char *pages = fresh_pages(NULL, 4 * PAGE);
    fill(pages, 4 * PAGE, 6);
    off_t at = window(pages, 4, 0, BOTH, 0), second;
    CHECK_EQ("SCIF-1", "a window shows its pages", far_sees(at, 4 * PAGE, 6), 1);
    fill(pages, 4 * PAGE, 7);
    CHECK_EQ("SCIF-5", "and every store to them", far_sees(at, 4 * PAGE, 7), 1);
    FAR_MUST(FAR_FILL, 0, PAGE, 8);
    CHECK_DONE("SCIF-5", "what the peer writes", at_far(FAR_VWRITE, 0, PAGE, at + PAGE, SYNC), 0);
    CHECK("SCIF-5", "... is in them", filled(pages + PAGE, PAGE, 8));
    fresh_pages(pages, 4 * PAGE);
    CHECK("SCIF-7", "new memory at the address is new", pages[0] == 0 && pages[PAGE] == 0);
    CHECK_EQ("SCIF-7", "the window has the old pages", far_sees(at, PAGE, 7), 1);
    memset(pages, 0x55, 4 * PAGE);
    CHECK_EQ("SCIF-7", "... whatever is stored there now", far_sees(at + PAGE, PAGE, 8), 1);
    second = window(pages, 4, 0, BOTH, 0);
    CHECK_EQ("SCIF-7", "the new pages get a window of their own", second, at + 4 * PAGE);
    REQUIRE(munmap(pages, 4 * PAGE) == 0);
    CHECK_EQ("SCIF-7", "after munmap the first window reads as before", far_sees(at, PAGE, 7), 1);
    CHECK("SCIF-7", "... and the second", at_far(FAR_VREAD, 0, 8, second, SYNC) == 0 &&
                                              at_far(FAR_WORD, 0) == 0x5555555555555555);
    FAR_MUST(FAR_FILL, 0, PAGE, 9);
    CHECK_DONE("SCIF-7", "and is written", at_far(FAR_VWRITE, 0, PAGE, at, SYNC), 0);
    CHECK_EQ("SCIF-7", "... and read again", far_sees(at, PAGE, 9), 1);
    CHECK_REFUSED("scif 3.5", "the own windows are none of the peer's", scif_writeto(epd, at, 8, second, SYNC), ENXIO);
    REQUIRE(scif_unregister(epd, at, 8 * PAGE) == 0);
}

static void several_windows(void)
{
    unsigned char *pages = fresh_pages(NULL, 2 * PAGE);
    fill(pages, 2 * PAGE, 1);
    off_t one = window(pages, 2, 0, BOTH, 0), other = window(pages + PAGE, 1, 0x8000, SCIF_PROT_READ, FIXED);
    CHECK("SCIF-6", "a page in two windows", one == TOP && other == 0x8000);
    FAR_MUST(FAR_FILL, 0, PAGE, 2);
    CHECK_DONE("SCIF-6", "written through one", at_far(FAR_VWRITE, 0, PAGE, one + PAGE, SYNC), 0);
    CHECK_EQ("SCIF-6", "is read through the other", far_sees(other, PAGE, 2), 1);
    CHECK_REFUSED("SCIF-9", "which has rights of its own", at_far(FAR_VWRITE, 0, 8, other, SYNC), EACCES);
    REQUIRE(scif_unregister(epd, one, 2 * PAGE) == 0);
    CHECK_EQ("SCIF-6", "the end of one is not the end of the other", far_sees(other, PAGE, 2), 1);
    CHECK("SCIF-6", "... nor of the memory", filled(pages + PAGE, PAGE, 2));
    REQUIRE(scif_unregister(epd, other, PAGE) == 0);
    munmap(pages, 2 * PAGE);
}

static void shows(const char *kind, void *at, size_t pages, bool writable)
{
    printf("# %s\n", kind);
    off_t offset = window(at, pages, 0, writable ? BOTH : SCIF_PROT_READ, 0);
    CHECK("scif 3.2", "it can be registered", offset == TOP);
    if (offset < 0)
        return;
    if (writable)
        fill(at, pages * PAGE, 3);
    CHECK_DONE("scif 3.2", "the peer reads it", at_far(FAR_VREAD, 0, 64, offset + 100, SYNC), 0);
    int64_t word;
    memcpy(&word, (char *)at + 100, 8);
    CHECK_EQ("scif 3.2", "... as it is", at_far(FAR_WORD, 0), word);
    if (writable) {
        FAR_MUST(FAR_FILL, 0, 4000, 4);
        CHECK_DONE("scif 3.2", "the peer writes it", at_far(FAR_VWRITE, 0, 4000, offset + 50, SYNC), 0);
        CHECK("scif 3.2", "... and that is there", filled((char *)at + 50, 4000, 4));
    } else {
        CHECK_REFUSED("scif 3.2", "the peer does not write it", at_far(FAR_VWRITE, 0, 8, offset, SYNC), EACCES);
    }
    CHECK_DONE("scif 3.2", "it is unregistered", scif_unregister(epd, offset, pages * PAGE), 0);
    if (writable)
        CHECK("scif 3.2", "... and keeps its bytes", filled((char *)at + 50, 4000, 4));
}

static _Alignas(4096) unsigned char static_pages[3 * 4096];

__attribute__((aligned(4096))) static int text_page(int x)
{
    return x * 3 + 1;
}

static void kinds(void)
{
    _Alignas(4096) unsigned char stack_pages[2 * 4096];
    void *heap;
    REQUIRE(posix_memalign(&heap, PAGE, 3 * PAGE) == 0);
    shows("memory of the heap", heap, 3, true);
    free(heap);
    shows("static memory", static_pages, 3, true);
    if (has_process_vm)
        shows("the stack", stack_pages, 2, true);
    REQUIRE(text_page(1) == 4);
    shows("the program's text", (void *)((uintptr_t)text_page & ~(PAGE - 1)), 1, false);
}

static void from_scif_mmap(void)
{
    off_t there = at_far(FAR_REGISTER, 0, 2 * PAGE, 0, BOTH, 0);
    unsigned char *mapped = scif_mmap(NULL, 2 * PAGE, BOTH, 0, epd, there);
    REQUIRE(there >= 0 && mapped != SCIF_MMAP_FAILED);
    CHECK_REFUSED("scif 3.2", "memory from scif_mmap", window(mapped, 2, 0, BOTH, 0), EFAULT);
    CHECK_REFUSED("scif 3.2", "... a part of it", window(mapped + PAGE, 1, 0, SCIF_PROT_READ, 0), EFAULT);
    is_empty();
    REQUIRE(scif_munmap(mapped, 2 * PAGE) == 0);
    FAR_MUST(FAR_UNREGISTER, there, 2 * PAGE);
}

// A page that is locked concerns nobody but the windows on it: the others hold pages and can be mapped.
static void locked_elsewhere(void)
{
    unsigned char *locked = fresh_pages(NULL, PAGE), *pages = fresh_pages(NULL, 8 * PAGE);
    REQUIRE(mlock(locked, PAGE) == 0);
    fill(pages, 4 * PAGE, 6);
    off_t at = window(pages, 4, 0, BOTH, 0);
    CHECK("SCIF-5", "with a page locked elsewhere a window opens", at == TOP && far_sees(at, 4 * PAGE, 6) == 1);
    int64_t mapped = at_far(FAR_MMAP, at, 4 * PAGE, BOTH);
    CHECK("SCIF-5", "... and the peer maps it", mapped != -1);
    REQUIRE(mapped == -1 || at_far(FAR_MUNMAP, mapped, 4 * PAGE) == 0);
    fresh_pages(pages, 4 * PAGE);
    CHECK_EQ("SCIF-7", "... and it keeps its pages", far_sees(at, 4 * PAGE, 6), 1);
    REQUIRE(scif_unregister(epd, at, 4 * PAGE) == 0);

    if (!has_process_vm) {
        REQUIRE(munmap(pages, 8 * PAGE) == 0 && munlock(locked, PAGE) == 0 && munmap(locked, PAGE) == 0);
        return;
    }
    // Two pages of eight are locked.
    REQUIRE(mlock(pages + 2 * PAGE, 2 * PAGE) == 0);
    fill(pages, 8 * PAGE, 7);
    at = window(pages, 8, 0, BOTH, 0);
    CHECK("SCIF-5", "a window on locked pages and others opens", at == TOP && far_sees(at, 8 * PAGE, 7) == 1);
    CHECK_REFUSED("scif 3.4", "what is locked is not mapped", at_far(FAR_MMAP, at + 2 * PAGE, 2 * PAGE, BOTH), ENOMEM);
    for (int i = 0; i < 2; i++) {
        mapped = at_far(FAR_MMAP, at + i * 4 * PAGE, (2 + 2 * i) * PAGE, BOTH);
        CHECK("SCIF-5", "... but what is beside it", mapped != -1);
        REQUIRE(mapped == -1 || at_far(FAR_MUNMAP, mapped, (2 + 2 * i) * PAGE) == 0);
    }
    FAR_MUST(FAR_FILL, 0, 8 * PAGE, 8);
    CHECK_DONE("SCIF-5", "the peer writes all of it", at_far(FAR_VWRITE, 0, 8 * PAGE, at, SYNC), 0);
    CHECK("SCIF-5", "... and that is there", filled(pages, 8 * PAGE, 8));
    REQUIRE(scif_unregister(epd, at, 8 * PAGE) == 0);
    CHECK("SCIF-5", "... still, when the window is closed", filled(pages, 8 * PAGE, 8));
    REQUIRE(munlock(pages, 8 * PAGE) == 0 && munmap(pages, 8 * PAGE) == 0);
    REQUIRE(munlock(locked, PAGE) == 0 && munmap(locked, PAGE) == 0);
}

// A table of windows has so many lines, and a window on one page takes one.
#define WINDOWS_MOST 65536l

static void table_is_full(void)
{
    long windows = 0;
    fill(room, ROOM, 1);
    while (windows <= WINDOWS_MOST && window(room, 1, 0, BOTH, 0) == TOP + windows * PAGE)
        windows++;
    CHECK_EQ("SCIF-10", "as many windows as there is room for", windows, WINDOWS_MOST);
    CHECK_REFUSED("SCIF-10", "one more", window(room + PAGE, 1, 0, BOTH, 0), ENOMEM);
    CHECK_REFUSED("SCIF-10", "... FIXED", window(room + PAGE, 1, 0x1000, BOTH, FIXED), ENOMEM);
    is_no_window(TOP + WINDOWS_MOST * PAGE);
    is_no_window(0x1000);
    CHECK("SCIF-10", "the last window is what it was, and so is the memory",
          far_sees(TOP + (WINDOWS_MOST - 1) * PAGE, PAGE, 1) == 1 && filled(room, ROOM, 1));
    CHECK_DONE("SCIF-10", "all are unregistered", scif_unregister(epd, TOP, WINDOWS_MOST * PAGE), 0);
    is_empty();
}

// Two endpoints are two address spaces.
static void two_spaces(void)
{
    scif_epd_t first = epd, first_far = far.epd;
    if (!far.alone)
        return;
    REQUIRE(window(room, 1, 0x9000, BOTH, FIXED) == 0x9000);
    connect_ends();
    CHECK_REFUSED("scif 3.1", "a window of one endpoint is none of another", far_sees(0x9000, 8, 0), ENXIO);
    fill(room + PAGE, PAGE, 1);
    CHECK_DONE("scif 3.1", "the same offset serves there too", window(room + PAGE, 1, 0x9000, BOTH, FIXED), 0x9000);
    CHECK_EQ("scif 3.1", "... for other pages", far_sees(0x9000, PAGE, 1), 1);
    part();
    epd = first;
    far.epd = first_far;
    REQUIRE(scif_unregister(epd, 0x9000, PAGE) == 0);
}

static void states(void)
{
    scif_epd_t e = scif_open();
    REQUIRE(e >= 0);
    for (int bound = 0; bound < 3; bound++) {
        CHECK_REFUSED("SCIF-10", "register unconnected", scif_register(e, room, PAGE, 0, BOTH, 0), ENOTCONN);
        CHECK_REFUSED("SCIF-10", "arguments come before the state", scif_register(e, room, 0, 0, BOTH, 0), EINVAL);
        CHECK_REFUSED("scif 3.3", "unregister unconnected", scif_unregister(e, 0, PAGE), ENOTCONN);
        REQUIRE(bound != 0 || scif_bind(e, 0) > 0);
        REQUIRE(bound != 1 || scif_listen(e, 1) == 0);
    }
    scif_close(e);
    off_t at = window(room, 1, 0, BOTH, 0);
    REQUIRE(at == TOP);
    fill(room, PAGE, 1);
    FAR_MUST(FAR_CLOSE);
    REQUIRE(ready(epd, 0, PATIENCE_MS) & POLLHUP);
    CHECK_REFUSED("SCIF-10", "register disconnected", window(room, 1, 0, BOTH, 0), ECONNRESET);
    CHECK_REFUSED("scif 3.3", "unregister disconnected", scif_unregister(epd, at, PAGE), ECONNRESET);
    CHECK("SCIF-10", "and the memory is what it was", filled(room, PAGE, 1));
    REQUIRE(scif_close(epd) == 0);
}

static void locked_memory(void)
{
    struct rlimit limit = {.rlim_cur = 16 * PAGE, .rlim_max = 16 * PAGE};
    REQUIRE(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    connect_ends();
    CHECK_REFUSED("SCIF-10", "more than RLIMIT_MEMLOCK", window(room, 17, 0, BOTH, 0), EAGAIN);
    is_empty();
    CHECK_DONE("SCIF-10", "as much as that", window(room, 16, 0, BOTH, 0), TOP);
    CHECK_REFUSED("SCIF-10", "a page more", window(room + 20 * PAGE, 1, 0, BOTH, 0), EAGAIN);
    REQUIRE(scif_unregister(epd, TOP, 16 * PAGE) == 0);
    CHECK_DONE("SCIF-10", "what is unregistered counts no more", window(room + 20 * PAGE, 1, 0, BOTH, 0), TOP);
    part();
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    room = near_room;
    if (argc > 2 && strcmp(argv[2], MEMLOCK) == 0) {
        locked_memory();
        return end();
    }
    connect_ends();
    arguments();
    memory();
    placement();
    unregistering();
    pages_stay();
    several_windows();
    look_at_environment();
    kinds();
    every_kind(false);
    every_kind_beside_a_thread();
    from_scif_mmap();
    locked_elsewhere();
    table_is_full();
    two_spaces();
    CHECK("scif 3.1", "the connection works after every refusal", talks());
    states();
    return end();
}
