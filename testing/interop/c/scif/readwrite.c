// Reads and writes between windows, both ways at once, with every flag, at offsets of both kinds, by two clients.

#include "pair.h"

// Of a window: what the other side reads, what it writes, what this side reads, and what nobody touches.
#define SOURCE 0
#define WRITTEN (4 * PAGE)
#define READ (8 * PAGE)
#define UNTOUCHED_PART (12 * PAGE)
#define LENGTH (16 * PAGE)

static const int FLAGS[] = {
    0,
    SCIF_RMA_SYNC,
    SCIF_RMA_USECPU,
    SCIF_RMA_USECPU | SCIF_RMA_SYNC,
    SCIF_RMA_SYNC | SCIF_RMA_ORDERED,
    SCIF_RMA_ORDERED,
    SCIF_RMA_USECACHE | SCIF_RMA_SYNC,
    SCIF_RMA_USECACHE | SCIF_RMA_USECPU | SCIF_RMA_SYNC | SCIF_RMA_ORDERED,
};
#define COUNT (int)(sizeof FLAGS / sizeof *FLAGS)

static bool only(const unsigned char *part, size_t from, size_t length, unsigned seed)
{
    for (size_t i = 0; i < from; i++)
        if (part[i])
            return false;
    for (size_t i = from + length; i < 4 * PAGE; i++)
        if (part[i])
            return false;
    return filled(part + from, length, seed);
}

// The same steps on both sides. Without SYNC nothing but one message tells that the bytes have arrived.
static void one_round(scif_epd_t epd, unsigned char *buffer, off_t here, off_t there, int round, unsigned own,
                      unsigned theirs)
{
    int flags = FLAGS[round % COUNT];
    // Aligned alike, aligned otherwise, small.
    size_t from = round % 3 ? 13 * (size_t)round : 0, to = round % 2 ? from : (size_t)round;
    size_t length = round % 5 == 4 ? 8 : 3 * PAGE - 77;
    memset(buffer, 0, LENGTH);
    fill(buffer + SOURCE + from, length, own);
    barrier(epd);
    MUST(scif_writeto(epd, here + SOURCE + from, length, there + WRITTEN + to, flags));
    MUST(scif_readfrom(epd, here + READ + to, length, there + SOURCE + from, flags));
    if (flags & SCIF_RMA_SYNC)
        HOLDS(only(buffer + READ, to, length, theirs));
    barrier(epd);
    HOLDS(only(buffer + WRITTEN, to, length, theirs));
    HOLDS(only(buffer + READ, to, length, theirs));
    HOLDS(only(buffer + SOURCE, from, length, own));
    for (size_t i = UNTOUCHED_PART; i < LENGTH; i++)
        HOLDS(buffer[i] == 0);
    barrier(epd);
}

static void all_rounds(scif_epd_t epd, unsigned own, unsigned theirs)
{
    unsigned char *buffer = heap_pages(LENGTH / PAGE);
    for (int fixed = 0; fixed < 2; fixed++) {
        off_t here = MUST(scif_register(epd, buffer, LENGTH, fixed ? 0x10000 * (off_t)own : 0,
                                        SCIF_PROT_READ | SCIF_PROT_WRITE, fixed ? SCIF_MAP_FIXED : 0));
        off_t there = exchange(epd, here);
        HOLDS(!fixed || (here == 0x10000 * (off_t)own && there == 0x10000 * (off_t)theirs));
        for (int round = 0; round < 2 * COUNT; round++)
            one_round(epd, buffer, here, there, round, own, theirs);
        MUST(scif_unregister(epd, here, LENGTH));
        barrier(epd);
    }
    free(buffer);
}

static int accepting(struct options *o)
{
    scif_epd_t listener = listen_on(o, 2);
    tell_listening(o);
    scif_epd_t epds[2];
    for (int i = 0; i < 2; i++) {
        int number;
        scif_epd_t epd = accept_one(listener);
        receive_all(epd, &number, sizeof number);
        HOLDS(number == 1 || number == 2);
        epds[number - 1] = epd;
    }
    for (int i = 0; i < 2; i++) {
        all_rounds(epds[i], 1, 2 + i);
        MUST(scif_close(epds[i]));
    }
    return leave(listener, NULL);
}

static int connecting(struct options *o)
{
    scif_epd_t epd = connect_to(o);
    send_all(epd, &o->number, sizeof o->number);
    all_rounds(epd, 1 + (unsigned)o->number, 1);
    return leave(epd, NULL);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 2, accepting, connecting);
}
