// Windows at offsets chosen in three ways (-m 0 by the library, -m 1 at 0x80000, -m 2 at the buffer's own address), which
// the peer maps; with 1 and 2 over its own registered buffer. With -u a window is unregistered while the peer has it
// mapped. At the end memory is freed that is still registered.

#include "pair.h"

#define PAGES 8
#define LENGTH (PAGES * PAGE)

static int mode(const struct options *o)
{
    return has_option(o, "1") ? 1 : has_option(o, "2") ? 2 : 0;
}

static off_t open_window(scif_epd_t epd, unsigned char *buffer, int m)
{
    off_t wanted = m == 1 ? 0x80000 : m == 2 ? (off_t)(uintptr_t)buffer : 0;
    off_t at = MUST(scif_register(epd, buffer, LENGTH, wanted, SCIF_PROT_READ | SCIF_PROT_WRITE,
                                  m ? SCIF_MAP_FIXED : 0));
    HOLDS(at % (off_t)PAGE == 0 && (m ? at == wanted : at >= 0x4000000000000000));
    return at;
}

// Ends the mapping. Over a buffer of the heap there must be memory again before it can be freed. Where the other side is
// a thread, nothing of its own may come into the hole in between.
static void unmap(struct options *o, unsigned char *mapped, bool over_heap)
{
    if (!o->one_process || !over_heap)
        MUST(scif_munmap(mapped, LENGTH));
    if (over_heap)
        HOLDS(mmap(mapped, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == mapped);
}

// What each side does with the other's window; `own` and `theirs` are the seeds of the patterns.
static void use_windows(scif_epd_t epd, unsigned char *buffer, unsigned char *mapped, off_t offset, off_t there,
                        unsigned own, unsigned theirs)
{
    HOLDS(filled(mapped, LENGTH, theirs));
    barrier(epd);
    fill(mapped, PAGE, 10 + own);
    barrier(epd);
    if (mapped != buffer) {
        HOLDS(filled(buffer, PAGE, 10 + theirs));
        for (size_t i = PAGE; i < LENGTH; i++)
            HOLDS(buffer[i] == pattern_byte(i, own) && mapped[i] == pattern_byte(i, theirs));
        barrier(epd);
        return;
    }
    // The own pages are not at their address any more, but still in the window.
    MUST(scif_writeto(epd, offset, 2 * PAGE, there + 4 * PAGE, SCIF_RMA_SYNC));
    HOLDS(filled(mapped + 4 * PAGE, PAGE, 10 + theirs));
    for (size_t i = PAGE; i < 2 * PAGE; i++)
        HOLDS(mapped[4 * PAGE + i] == pattern_byte(i, own));
    barrier(epd);
}

static int run(struct options *o, scif_epd_t epd, bool owner)
{
    unsigned own = owner ? 1 : 2, theirs = 3 - own;
    int m = mode(o);
    unsigned char *buffer = heap_pages(PAGES), *second = heap_pages(PAGES), *peek = malloc(LENGTH);
    fill(buffer, LENGTH, own);
    off_t offset = open_window(epd, buffer, m), there = exchange(epd, offset);
    unsigned char *mapped = MUST(scif_mmap(m ? buffer : NULL, LENGTH, SCIF_PROT_READ | SCIF_PROT_WRITE,
                                           m ? SCIF_MAP_FIXED : 0, epd, there));
    HOLDS(m == 0 || mapped == buffer);
    use_windows(epd, buffer, mapped, offset, there, own, theirs);
    if (has_option(o, "-u") && owner) {
        fill(second, LENGTH, 5);
        MUST(scif_unregister(epd, offset, LENGTH));
        REFUSED(scif_unregister(epd, offset, LENGTH), ENXIO);
        REFUSED(scif_register(epd, second, LENGTH, offset, SCIF_PROT_READ, SCIF_MAP_FIXED), EADDRINUSE);
        REFUSED(scif_writeto(epd, offset, 8, there, SCIF_RMA_SYNC), ENXIO);
        barrier(epd);
        barrier(epd);
        off_t again = MUST(scif_register(epd, second, LENGTH, offset, SCIF_PROT_READ, SCIF_MAP_FIXED));
        HOLDS(again == offset);
        barrier(epd);
    } else if (has_option(o, "-u")) {
        barrier(epd);
        HOLDS(filled(mapped, PAGE, 10 + own));
        REFUSED(scif_vreadfrom(epd, peek, PAGE, there, SCIF_RMA_SYNC), ENXIO);
        REFUSED(scif_mmap(NULL, PAGE, SCIF_PROT_READ, 0, epd, there), ENXIO);
        unmap(o, mapped, m != 0);
        barrier(epd);
        barrier(epd);
        MUST(scif_vreadfrom(epd, peek, LENGTH, there, SCIF_RMA_SYNC));
        HOLDS(filled(peek, LENGTH, 5));
    }
    barrier(epd);
    if (owner || !has_option(o, "-u"))
        unmap(o, mapped, m != 0);
    barrier(epd);
    free(peek);
    free(second);
    return leave(epd, buffer);
}

static int accepting(struct options *o)
{
    scif_epd_t listener = listen_on(o, 1);
    tell_listening(o);
    scif_epd_t epd = accept_one(listener);
    MUST(scif_close(listener));
    return run(o, epd, true);
}

static int connecting(struct options *o)
{
    return run(o, connect_to(o), false);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}
