// One buffer in windows of two connections: what one client writes, by RMA or by a store, the other reads.

#include "pair.h"

#define LENGTH (4 * PAGE)

static int accepting(struct options *o)
{
    unsigned char *buffer = heap_pages(LENGTH / PAGE);
    scif_epd_t listener = listen_on(o, 2), epds[2];
    off_t offsets[2];
    tell_listening(o);
    for (int i = 0; i < 2; i++) {
        int number;
        scif_epd_t epd = accept_one(listener);
        receive_all(epd, &number, sizeof number);
        epds[number - 1] = epd;
    }
    for (int i = 0; i < 2; i++) {
        offsets[i] = MUST(scif_register(epds[i], buffer, LENGTH, i ? 0x7000 : 0, SCIF_PROT_READ | SCIF_PROT_WRITE,
                                        i ? SCIF_MAP_FIXED : 0));
        send_all(epds[i], &offsets[i], sizeof offsets[i]);
    }
    barrier(epds[0]); // the first has written by RMA
    HOLDS(filled(buffer, LENGTH, 1));
    barrier(epds[1]);
    barrier(epds[1]); // the second has read, and stored
    HOLDS(filled(buffer, LENGTH, 2));
    barrier(epds[0]);
    barrier(epds[0]); // the first has read
    MUST(scif_unregister(epds[0], offsets[0], LENGTH));
    fill(buffer, LENGTH, 3);
    barrier(epds[0]);
    barrier(epds[0]);
    barrier(epds[1]);
    barrier(epds[1]);
    MUST(scif_close(epds[0]));
    MUST(scif_close(epds[1]));
    return leave(listener, buffer);
}

static int connecting(struct options *o)
{
    unsigned char *bytes = malloc(LENGTH);
    scif_epd_t epd = connect_to(o);
    off_t there;
    send_all(epd, &o->number, sizeof o->number);
    receive_all(epd, &there, sizeof there);
    if (o->number == 1) {
        fill(bytes, LENGTH, 1);
        MUST(scif_vwriteto(epd, bytes, LENGTH, there, SCIF_RMA_SYNC));
        barrier(epd);
        barrier(epd);
        MUST(scif_vreadfrom(epd, bytes, LENGTH, there, SCIF_RMA_SYNC));
        HOLDS(filled(bytes, LENGTH, 2));
        barrier(epd);
        barrier(epd);
        REFUSED(scif_vreadfrom(epd, bytes, LENGTH, there, SCIF_RMA_SYNC), ENXIO);
        HOLDS(filled(bytes, LENGTH, 2));
    } else {
        barrier(epd);
        MUST(scif_vreadfrom(epd, bytes, LENGTH, there, SCIF_RMA_SYNC));
        HOLDS(filled(bytes, LENGTH, 1));
        unsigned char *mapped = MUST(scif_mmap(NULL, LENGTH, SCIF_PROT_READ | SCIF_PROT_WRITE, 0, epd, there));
        HOLDS(filled(mapped, LENGTH, 1));
        fill(mapped, LENGTH, 2);
        barrier(epd);
        barrier(epd);
        // The window of the other connection is gone, this one is not.
        HOLDS(filled(mapped, LENGTH, 3));
        MUST(scif_vreadfrom(epd, bytes, LENGTH, there, SCIF_RMA_SYNC));
        HOLDS(filled(bytes, LENGTH, 3));
        MUST(scif_munmap(mapped, LENGTH));
    }
    barrier(epd);
    return leave(epd, bytes);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 2, accepting, connecting);
}
