// A side whose host loses the other: three connections, one in a receive, one in copies, one that says nothing and polls, when the other
// process is killed. Each sees the end.

#include "pair.h"

#define CONNECTIONS 3
#define PAGES 256ul
#define THERE 0x80000

enum call { RECEIVES, COPIES, POLLS };

// The accepting side is killed in the middle of this.
static int accepting(struct options *o)
{
    scif_epd_t listener = listen_on(o, 4);
    tell_listening(o);
    for (int i = 0; i < CONNECTIONS; i++) {
        scif_epd_t epd = accept_one(listener);
        unsigned char *room = heap_pages(PAGES);
        int prot = SCIF_PROT_READ | SCIF_PROT_WRITE;
        HOLDS(MUST(scif_register(epd, room, PAGES * PAGE, THERE, prot, SCIF_MAP_FIXED)) == THERE);
        barrier(epd);
    }
    while (pause())
        ;
    return 1;
}

struct connection {
    pthread_t thread;
    enum call call;
    scif_epd_t epd;
};

static void *loses(void *argument)
{
    struct connection *c = argument;
    unsigned char byte = 0, *room = heap_pages(PAGES);
    int64_t deadline = now_ms() + 3 * PATIENCE_MS;
    struct scif_pollepd p = {.epd = c->epd, .events = SCIF_POLLIN, .revents = 0};
    side = "connecting";
    switch (c->call) {
    case RECEIVES:
        REFUSED(scif_recv(c->epd, &byte, 1, SCIF_RECV_BLOCK), ECONNRESET);
        break;
    case COPIES:
        while (scif_vwriteto(c->epd, room, PAGES * PAGE, THERE, SCIF_RMA_SYNC) == 0)
            HOLDS(now_ms() < deadline);
        HOLDS(errno == ECONNRESET);
        break;
    case POLLS:
        HOLDS(MUST(scif_poll(&p, 1, 3 * PATIENCE_MS)) == 1 && p.revents == SCIF_POLLHUP);
    }
    REFUSED(scif_send(c->epd, &byte, 1, 0), ECONNRESET);
    REFUSED(scif_vreadfrom(c->epd, room, 8, THERE, SCIF_RMA_SYNC), ECONNRESET);
    MUST(scif_close(c->epd));
    free(room);
    return NULL;
}

static int connecting(struct options *o)
{
    struct connection all[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        all[i] = (struct connection){.call = (enum call)i, .epd = connect_to(o)};
        barrier(all[i].epd);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        HOLDS(pthread_create(&all[i].thread, NULL, loses, &all[i]) == 0);
    printf("connected\n");
    fflush(stdout);
    for (int i = 0; i < CONNECTIONS; i++)
        HOLDS(pthread_join(all[i].thread, NULL) == 0);
    errno = 0;
    return errno;
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}
