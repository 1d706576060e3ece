// A buffer from malloc that a mapping was laid over: unmapping leaves a hole in it, and freeing it works as long as it is the
// last thing in the heap, so that the C library only lowers the heap's end. Nothing of the library's may lie behind it, nor
// be put into the hole.

#include "far.h"

#include <malloc.h>
#include <unistd.h>

#define PAGES 64
#define OFFSET 0x10000l
#define OTHERS 40

static scif_epd_t others[OTHERS];

static bool is_mapped(const unsigned char *at)
{
    unsigned char present;
    return mincore((void *)at, PAGE, &present) == 0;
}

// What a program does meanwhile: calls of which each keeps something in the library.
static void keep_much(void)
{
    for (int i = 0; i < OTHERS; i++)
        REQUIRE((others[i] = scif_open()) >= 0 && scif_bind(others[i], 0) > 0);
    for (int i = 0; i < PAGES; i++)
        REQUIRE(scif_register(epd, near_room + i * PAGE, PAGE, OFFSET + i * PAGE, BOTH, FIXED) == OFFSET + i * PAGE);
}

static void keep_nothing(void)
{
    REQUIRE(scif_unregister(epd, OFFSET, PAGES * PAGE) == 0);
    for (int i = 0; i < OTHERS; i++)
        REQUIRE(scif_close(others[i]) == 0);
}

// A buffer of whole pages that begins with one and is the last thing in the heap.
static unsigned char *last_in_heap(void)
{
    unsigned char *before = malloc(PAGES * PAGE); // too much for any gap of the heap
    size_t behind = (size_t)before + malloc_usable_size(before) + sizeof(size_t);
    unsigned char *up_to_a_page = malloc(PAGES * PAGE + (-behind & (PAGE - 1)) - sizeof(size_t));
    unsigned char *buffer = malloc(PAGES * PAGE);
    REQUIRE((size_t)buffer % PAGE == 0 && buffer > up_to_a_page && buffer < (unsigned char *)sbrk(0));
    return buffer;
}

static void around(unsigned char *buffer)
{
    keep_much();
    CHECK("scif 3.4", "a mapping is laid over a buffer", scif_mmap(buffer, PAGES * PAGE, BOTH, FIXED, epd, OFFSET) == buffer);
    CHECK("scif 3.4", "... and shows the far bytes", filled(buffer, PAGES * PAGE, 2));
    REQUIRE(scif_munmap(buffer, PAGES * PAGE) == 0);
    keep_nothing();
    bool hole = true;
    for (int i = 0; i < PAGES; i++)
        hole &= !is_mapped(buffer + i * PAGE);
    CHECK("scif 3.4", "unmapping leaves a hole, and no call puts anything there", hole);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    connect_ends();
    FAR_MUST(FAR_FILL, 0, PAGES * PAGE, 2);
    REQUIRE(at_far(FAR_REGISTER, 0, PAGES * PAGE, OFFSET, BOTH, FIXED) == OFFSET);
    // Once without a buffer of the heap: threads, for which the C library allocates, are there then.
    around(fresh_pages(NULL, PAGES * PAGE));
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 0);
    mallopt(M_TRIM_THRESHOLD, PAGE);
    unsigned char *buffer = last_in_heap();
    memset(buffer, 1, PAGES * PAGE);
    unsigned char *end_with = sbrk(0);
    around(buffer);
    CHECK("MEM-9", "the library's calls let the program's heap alone", sbrk(0) == end_with);
    size_t low = (size_t)buffer + PAGE;
    free(buffer);
    CHECK("MEM-9", "freeing the buffer lowers the end of the heap", (size_t)sbrk(0) <= low);
    // The C library keeps a page behind the heap's last piece, which is of the hole: this program allocates nothing more.
    CHECK("scif 3.4", "the connection works still", at_far(FAR_PID) > 0);
    return end();
}
