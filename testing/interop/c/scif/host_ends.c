// A side whose host loses the other: it waits in a receive (argument "receive"), in a copy ("copy") or says nothing and polls ("poll")
// while the other process is killed, and sees the end. Usage: host_ends accept PORT | connect NODE:PORT NUMBER CALL

#include "pair.h"

// The accepting side is killed in the middle of this.
static int accepting(struct options *o)
{
    scif_epd_t listener = listen_on(o, 4);
    tell_listening(o);
    scif_epd_t epd = accept_one(listener);
    unsigned char *room = heap_pages(256);
    HOLDS(MUST(scif_register(epd, room, 256 * PAGE, 0x80000, SCIF_PROT_READ | SCIF_PROT_WRITE, SCIF_MAP_FIXED)) == 0x80000);
    barrier(epd);
    while (pause())
        ;
    return 1;
}

static int connecting(struct options *o)
{
    scif_epd_t epd = connect_to(o);
    barrier(epd);
    printf("connected\n");
    fflush(stdout);
    unsigned char byte = 0, *room = heap_pages(256);
    if (has_option(o, "receive")) {
        REFUSED(scif_recv(epd, &byte, 1, SCIF_RECV_BLOCK), ECONNRESET);
    } else if (has_option(o, "copy")) {
        int64_t deadline = now_ms() + 3 * PATIENCE_MS;
        while (scif_vwriteto(epd, room, 256 * PAGE, 0x80000, SCIF_RMA_SYNC) == 0)
            HOLDS(now_ms() < deadline);
        HOLDS(errno == ECONNRESET);
    } else {
        struct scif_pollepd p = {.epd = epd, .events = SCIF_POLLIN, .revents = 0};
        HOLDS(MUST(scif_poll(&p, 1, 3 * PATIENCE_MS)) == 1 && p.revents == SCIF_POLLHUP);
    }
    REFUSED(scif_send(epd, &byte, 1, 0), ECONNRESET);
    REFUSED(scif_vreadfrom(epd, room, 8, 0x80000, SCIF_RMA_SYNC), ECONNRESET);
    printf("reset\n");
    return leave(epd, room);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}
