// The same transfers by verbs, for comparison: in a file of its own, because both interfaces have words of the same name.

#ifndef NONIC_DAT_BENCH_VERBS_SIDE_H
#define NONIC_DAT_BENCH_VERBS_SIDE_H

#include <stdbool.h>
#include <sys/types.h>

// Opens and connects; both ends at once. `peer` is the socket between them.
void verbs_connect(int peer, bool active, pid_t other);
// Sends 8 bytes and waits for as many back, so often; the other end echoes.
void verbs_send(int iterations);
void verbs_echo(int iterations);
// Writes so many bytes, each time waiting for the completion.
void verbs_write(int iterations, unsigned length);

#endif
