// Several connections of one listener. With -e the listener is closed: accept on it and a second close fail, and what it
// accepted lives on.

#include "pair.h"

#define CONNECTIONS 6

static int accepting(struct options *o)
{
    scif_epd_t listener = listen_on(o, CONNECTIONS), epds[CONNECTIONS], extra = -1;
    struct scif_portID peer, others[CONNECTIONS];
    tell_listening(o);
    for (int i = 0; i < CONNECTIONS; i++) {
        MUST(scif_accept(listener, &others[i], &epds[i], SCIF_ACCEPT_SYNC));
        for (int j = 0; j < i; j++)
            HOLDS(epds[j] != epds[i] && others[j].port != others[i].port);
        int number = i;
        send_all(epds[i], &number, sizeof number);
    }
    if (has_option(o, "-e")) {
        MUST(scif_close(listener));
        REFUSED(scif_accept(listener, &peer, &extra, SCIF_ACCEPT_SYNC), EINVAL);
        REFUSED(scif_close(listener), EINVAL);
    }
    // In whatever order the others speak: each is answered on its own connection.
    int answered = 0;
    struct scif_pollepd set[CONNECTIONS];
    while (answered < CONNECTIONS) {
        for (int i = 0; i < CONNECTIONS; i++)
            set[i] = (struct scif_pollepd){.epd = epds[i], .events = SCIF_POLLIN, .revents = 0};
        int count = MUST(scif_poll(set, CONNECTIONS, PATIENCE_MS)), seen = 0;
        HOLDS(count > 0);
        for (int i = 0; i < CONNECTIONS; i++) {
            if (!(set[i].revents & SCIF_POLLIN))
                continue;
            int number;
            receive_all(epds[i], &number, sizeof number);
            HOLDS(number == 1000 + i);
            number += 1000;
            send_all(epds[i], &number, sizeof number);
            answered++;
            seen++;
        }
        HOLDS(seen == count);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        barrier(epds[i]);
        MUST(scif_close(epds[i]));
    }
    if (has_option(o, "-e"))
        return errno;
    return leave(listener, NULL);
}

static int connecting(struct options *o)
{
    scif_epd_t epds[CONNECTIONS];
    int numbers[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        epds[i] = connect_to(o);
        receive_all(epds[i], &numbers[i], sizeof numbers[i]);
        HOLDS(numbers[i] == i);
    }
    for (int i = CONNECTIONS; i-- > 0;) {
        numbers[i] += 1000;
        send_all(epds[i], &numbers[i], sizeof numbers[i]);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        receive_all(epds[i], &numbers[i], sizeof numbers[i]);
        HOLDS(numbers[i] == 2000 + i);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        barrier(epds[i]);
    for (int i = 1; i < CONNECTIONS; i++)
        MUST(scif_close(epds[i]));
    return leave(epds[0], NULL);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}
