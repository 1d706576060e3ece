// A mapping longer than the window is refused with ENXIO; with a second window beside the first it succeeds.

#include "pair.h"

#define FIRST (4 * PAGE)
#define SECOND (3 * PAGE)
#define AT 0x40000

static int accepting(struct options *o)
{
    unsigned char *one = heap_pages(FIRST / PAGE), *other = heap_pages(SECOND / PAGE);
    scif_epd_t listener = listen_on(o, 1);
    tell_listening(o);
    scif_epd_t epd = accept_one(listener);
    MUST(scif_close(listener));
    fill(one, FIRST, 1);
    fill(other, SECOND, 2);
    HOLDS(MUST(scif_register(epd, one, FIRST, AT, SCIF_PROT_READ | SCIF_PROT_WRITE, SCIF_MAP_FIXED)) == AT);
    barrier(epd);
    barrier(epd);
    HOLDS(MUST(scif_register(epd, other, SECOND, AT + FIRST, SCIF_PROT_READ | SCIF_PROT_WRITE, SCIF_MAP_FIXED)) ==
          (off_t)(AT + FIRST));
    barrier(epd);
    // Stores across the border of the windows.
    await_word((uint64_t *)other, 77);
    HOLDS(filled(one, FIRST - PAGE, 1) && filled(one + FIRST - PAGE, PAGE, 3));
    HOLDS(other[8] == pattern_byte(8, 2));
    fill(one, FIRST, 4);
    barrier(epd);
    barrier(epd);
    MUST(scif_unregister(epd, AT, FIRST + SECOND));
    barrier(epd);
    free(other);
    return leave(epd, one);
}

static int connecting(struct options *o)
{
    unsigned char *place = mmap(NULL, FIRST + SECOND, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(place != MAP_FAILED);
    fill(place, FIRST + SECOND, 9);
    scif_epd_t epd = connect_to(o);
    barrier(epd);
    int prot = SCIF_PROT_READ | SCIF_PROT_WRITE;
    REFUSED(scif_mmap(place, FIRST + SECOND, prot, SCIF_MAP_FIXED, epd, AT), ENXIO);
    REFUSED(scif_mmap(place, FIRST + PAGE, prot, SCIF_MAP_FIXED, epd, AT), ENXIO);
    REFUSED(scif_mmap(place, FIRST, prot, SCIF_MAP_FIXED, epd, AT - PAGE), ENXIO);
    // What is refused replaces nothing.
    HOLDS(filled(place, FIRST + SECOND, 9));
    barrier(epd);
    barrier(epd);
    HOLDS(MUST(scif_mmap(place, FIRST + SECOND, prot, SCIF_MAP_FIXED, epd, AT)) == place);
    HOLDS(filled(place, FIRST, 1) && filled(place + FIRST, SECOND, 2));
    fill(place + FIRST - PAGE, PAGE, 3);
    __atomic_store_n((uint64_t *)(place + FIRST), 77, __ATOMIC_RELEASE);
    barrier(epd);
    HOLDS(filled(place, FIRST, 4));
    // Page by page: a hole may be cut.
    MUST(scif_munmap(place + PAGE, PAGE));
    for (size_t i = 2 * PAGE; i < FIRST; i++)
        HOLDS(place[i] == pattern_byte(i, 4));
    HOLDS(filled(place, PAGE, 4));
    MUST(scif_munmap(place, FIRST + SECOND));
    barrier(epd);
    barrier(epd);
    return leave(epd, NULL);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}
