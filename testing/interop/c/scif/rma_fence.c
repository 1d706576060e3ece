// Several transfers of one page each, then a signal that tells when they are done, and the window closed at once: it
// stays until the signal is stored. The offsets the library chooses are the same on both sides.

#include "pair.h"

#define PAGES 16
#define LENGTH (PAGES * PAGE)
#define HINT 0x4000000000000000

static void write_pages(scif_epd_t epd, off_t from, off_t to)
{
    for (size_t i = 0; i < PAGES; i++)
        MUST(scif_writeto(epd, from + i * PAGE, PAGE, to + i * PAGE, 0));
}

static int run(scif_epd_t epd, bool first)
{
    unsigned own = first ? 1 : 2, theirs = 3 - own;
    unsigned char *source = heap_pages(PAGES), *target = heap_pages(PAGES);
    uint64_t *words = (uint64_t *)heap_pages(1);
    int both = SCIF_PROT_READ | SCIF_PROT_WRITE, mark;
    off_t from = MUST(scif_register(epd, source, LENGTH, HINT, both, 0));
    off_t to = MUST(scif_register(epd, target, LENGTH, HINT, both, 0));
    off_t at = MUST(scif_register(epd, words, PAGE, HINT, both, 0));
    HOLDS(exchange(epd, from) == from && exchange(epd, to) == to && exchange(epd, at) == at);

    // A mark, waited for twice.
    fill(source, LENGTH, own);
    write_pages(epd, from, to);
    MUST(scif_fence_mark(epd, SCIF_FENCE_INIT_SELF, &mark));
    MUST(scif_fence_wait(epd, mark));
    MUST(scif_fence_wait(epd, mark));
    barrier(epd);
    HOLDS(filled(target, LENGTH, theirs));

    // What the peer started: the mark is taken there, while its program does nothing.
    fill(source, LENGTH, 10 + own);
    barrier(epd);
    write_pages(epd, from, to);
    barrier(epd);
    MUST(scif_fence_mark(epd, SCIF_FENCE_INIT_PEER, &mark));
    MUST(scif_fence_wait(epd, mark));
    HOLDS(filled(target, LENGTH, 10 + theirs));
    barrier(epd);

    // Signals on both sides: local before remote.
    fill(source, LENGTH, 20 + own);
    barrier(epd);
    write_pages(epd, from, to);
    MUST(scif_fence_signal(epd, at + 8, 100 + own, at + 16, 200 + own,
                           SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL | SCIF_SIGNAL_REMOTE));
    await_word(&words[2], 200 + theirs);
    HOLDS(filled(target, LENGTH, 20 + theirs));
    await_word(&words[1], 100 + own);
    barrier(epd);

    // No transfer at all: a store into the peer's memory.
    MUST(scif_fence_signal(epd, 0, 0, at + 24, 300 + own, SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_REMOTE));
    await_word(&words[3], 300 + theirs);
    // At the middle of an aligned word: 8 bytes all the same.
    MUST(scif_fence_signal(epd, at + 36, 0x1122334455667788, 0, 0, SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL));
    barrier(epd);

    fill(source, LENGTH, 30 + own);
    barrier(epd);
    write_pages(epd, from, to);
    MUST(scif_fence_signal(epd, at, 400 + own, 0, 0, SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL));
    MUST(scif_unregister(epd, at, PAGE));
    REFUSED(scif_fence_signal(epd, at, 1, 0, 0, SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL), ENXIO);
    await_word(&words[0], 400 + own);
    barrier(epd);
    HOLDS(filled(target, LENGTH, 30 + theirs));
    HOLDS(words[1] == 100 + own && words[2] == 200 + theirs && words[3] == 300 + theirs);
    uint64_t middle;
    memcpy(&middle, (char *)words + 36, 8);
    HOLDS(middle == 0x1122334455667788);
    barrier(epd);
    MUST(scif_unregister(epd, from, LENGTH));
    MUST(scif_unregister(epd, to, LENGTH));
    barrier(epd);
    free(target);
    free(words);
    return leave(epd, source);
}

static int accepting(struct options *o)
{
    scif_epd_t listener = listen_on(o, 1);
    tell_listening(o);
    scif_epd_t epd = accept_one(listener);
    MUST(scif_close(listener));
    return run(epd, true);
}

static int connecting(struct options *o)
{
    return run(connect_to(o), false);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}
