// Two sides find each other and exchange bytes, blocking and not; ports and endpoints are bound once.

#include "pair.h"

// Around the 4095 bytes that a direction holds, and far beyond.
static const int LENGTHS[] = {1, 2, 4, 4094, 4095, 4096, 4097, 12345, 200000};
#define COUNT (sizeof LENGTHS / sizeof *LENGTHS)
#define LONGEST 200000

static void send_in_pieces(scif_epd_t epd, const unsigned char *bytes, int length)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    for (int done = 0; done < length;) {
        int n = MUST(scif_send(epd, (void *)(bytes + done), length - done, 0));
        HOLDS(n >= 0 && n <= 4095 && n <= length - done);
        HOLDS(n > 0 || now_ms() < deadline);
        if (n == 0)
            sched_yield();
        done += n;
    }
}

static void receive_in_pieces(scif_epd_t epd, unsigned char *bytes, int length)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    for (int done = 0; done < length;) {
        int n = MUST(scif_recv(epd, bytes + done, length - done, 0));
        HOLDS(n >= 0 && n <= 4095 && n <= length - done);
        HOLDS(n > 0 || now_ms() < deadline);
        if (n == 0)
            sched_yield();
        done += n;
    }
}

static void bound_once(struct options *o, scif_epd_t listener)
{
    scif_epd_t second = MUST(scif_open());
    HOLDS(second != listener);
    REFUSED(scif_bind(second, o->there.port), EINVAL);
    int other = MUST(scif_bind(second, 0));
    HOLDS(other > 0 && other != o->there.port);
    REFUSED(scif_bind(second, 0), EINVAL);
    REFUSED(scif_bind(second, (uint16_t)other), EINVAL);
    REFUSED(scif_bind(listener, 0), EISCONN);
    MUST(scif_close(second));
}

static int accepting(struct options *o)
{
    unsigned char *bytes = malloc(LONGEST);
    scif_epd_t listener = listen_on(o, 16);
    bound_once(o, listener);
    tell_listening(o);
    scif_epd_t epd = accept_one(listener);
    HOLDS(fcntl(epd, F_GETFD) == 0 && fcntl(listener, F_GETFD) == FD_CLOEXEC);
    for (unsigned i = 0; i < COUNT; i++) {
        memset(bytes, 0, LONGEST);
        receive_all(epd, bytes, LENGTHS[i]);
        HOLDS(filled(bytes, LENGTHS[i], i));
        send_all(epd, bytes, LENGTHS[i]);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        memset(bytes, 0, LONGEST);
        receive_in_pieces(epd, bytes, LENGTHS[i]);
        HOLDS(filled(bytes, LENGTHS[i], 100 + i));
        send_in_pieces(epd, bytes, LENGTHS[i]);
    }
    MUST(scif_close(listener));
    // The connecting side closes first: nothing is left, so that shows.
    unsigned char byte;
    REFUSED(scif_recv(epd, &byte, 1, SCIF_RECV_BLOCK), ECONNRESET);
    REFUSED(scif_send(epd, &byte, 1, 0), ECONNRESET);
    return leave(epd, bytes);
}

static int connecting(struct options *o)
{
    unsigned char *bytes = malloc(LONGEST), *back = malloc(LONGEST);
    scif_epd_t epd = connect_to(o);
    REFUSED(scif_connect(epd, &o->there), EISCONN);
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        int length = LENGTHS[i % COUNT];
        unsigned seed = i < COUNT ? i : 100 + i - COUNT;
        fill(bytes, length, seed);
        memset(back, 0, LONGEST);
        if (i < COUNT) {
            send_all(epd, bytes, length);
            receive_all(epd, back, length);
        } else {
            send_in_pieces(epd, bytes, length);
            receive_in_pieces(epd, back, length);
        }
        HOLDS(filled(back, length, seed));
    }
    free(back);
    return leave(epd, bytes);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}
