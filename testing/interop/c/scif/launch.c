// The library chooses the ports; a child serves the connection its parent accepted; the end of one end ends the other.

#include "pair.h"

// The child has what the parent accepted; the parent lets go of it.
static void serve(scif_epd_t epd, uint16_t peer_port)
{
    uint32_t said;
    receive_all(epd, &said, sizeof said);
    HOLDS(said == peer_port);
    said = (uint32_t)getpid();
    send_all(epd, &said, sizeof said);
    receive_all(epd, &said, sizeof said);
    HOLDS(said == 0);
    // No close: the end of the process does that.
    _exit(errno);
}

static int accepting(struct options *o)
{
    o->there.port = 0;
    scif_epd_t listener = listen_on(o, 5), epd = -1;
    HOLDS(o->there.port > 1088);
    tell_listening(o);
    struct scif_portID peer;
    MUST(scif_accept(listener, &peer, &epd, SCIF_ACCEPT_SYNC));
    HOLDS(peer.port > 1088);
    pid_t child = fork();
    HOLDS(child >= 0);
    if (child == 0)
        serve(epd, peer.port);
    MUST(scif_close(epd));
    int status;
    HOLDS(waitpid(child, &status, 0) == child);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return leave(listener, NULL);
}

static int connecting(struct options *o)
{
    // Not bound: connecting does that.
    scif_epd_t epd = MUST(scif_open());
    uint32_t port = (uint32_t)MUST(scif_connect(epd, &o->there)), child;
    send_all(epd, &port, sizeof port);
    receive_all(epd, &child, sizeof child);
    HOLDS(child != (uint32_t)getpid());
    struct scif_pollepd p = {.epd = epd, .events = SCIF_POLLIN, .revents = 0};
    HOLDS(MUST(scif_poll(&p, 1, 0)) == 0);
    uint32_t end = 0;
    send_all(epd, &end, sizeof end);
    HOLDS(MUST(scif_poll(&p, 1, PATIENCE_MS)) == 1 && (p.revents & SCIF_POLLHUP));
    REFUSED(scif_recv(epd, &end, sizeof end, SCIF_RECV_BLOCK), ECONNRESET);
    REFUSED(scif_send(epd, &end, sizeof end, SCIF_SEND_BLOCK), ECONNRESET);
    return leave(epd, NULL);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}
