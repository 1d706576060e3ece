// A request is waited for with poll, then many pages cross without blocking, with a poll of 20 ms between attempts.

#include "pair.h"

#define LENGTH (64 * PAGE)
#define ATTEMPT_MS 20

static short ready(scif_epd_t epd, short events, long timeout)
{
    struct scif_pollepd p = {.epd = epd, .events = events, .revents = 0};
    int count = MUST(scif_poll(&p, 1, timeout));
    HOLDS(count == (p.revents != 0));
    return p.revents;
}

// Moves all bytes, in either direction.
static void move(scif_epd_t epd, unsigned char *bytes, bool outwards)
{
    short event = outwards ? SCIF_POLLOUT : SCIF_POLLIN;
    int64_t deadline = now_ms() + PATIENCE_MS;
    for (size_t done = 0; done < LENGTH;) {
        HOLDS(now_ms() < deadline);
        short seen = ready(epd, event, ATTEMPT_MS);
        HOLDS((seen & ~(event | SCIF_POLLHUP)) == 0);
        int left = (int)(LENGTH - done);
        int n = outwards ? MUST(scif_send(epd, bytes + done, left, 0)) : MUST(scif_recv(epd, bytes + done, left, 0));
        // What poll shows is there: nobody else uses this endpoint.
        HOLDS(n > 0 || !(seen & event));
        done += n;
    }
}

static int accepting(struct options *o)
{
    unsigned char *bytes = heap_pages(LENGTH / PAGE);
    scif_epd_t listener = listen_on(o, 1), epd = -1;
    struct scif_portID peer;
    HOLDS(ready(listener, SCIF_POLLIN, 0) == 0);
    REFUSED(scif_accept(listener, &peer, &epd, 0), EAGAIN);
    tell_listening(o);
    HOLDS(ready(listener, SCIF_POLLIN, -1) == SCIF_POLLIN);
    MUST(scif_accept(listener, &peer, &epd, 0));
    REFUSED(scif_accept(listener, &peer, &epd, 0), EAGAIN);
    HOLDS(ready(listener, SCIF_POLLIN, 0) == 0);
    MUST(scif_close(listener));
    move(epd, bytes, false);
    HOLDS(filled(bytes, LENGTH, 1));
    fill(bytes, LENGTH, 2);
    move(epd, bytes, true);
    // The end of the other side shows without being asked for.
    HOLDS(ready(epd, 0, PATIENCE_MS) == SCIF_POLLHUP);
    return leave(epd, bytes);
}

static int connecting(struct options *o)
{
    unsigned char *bytes = heap_pages(LENGTH / PAGE);
    scif_epd_t epd = connect_to(o);
    HOLDS(ready(epd, SCIF_POLLIN | SCIF_POLLOUT, 0) == SCIF_POLLOUT);
    fill(bytes, LENGTH, 1);
    move(epd, bytes, true);
    move(epd, bytes, false);
    HOLDS(filled(bytes, LENGTH, 2));
    return leave(epd, bytes);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}
