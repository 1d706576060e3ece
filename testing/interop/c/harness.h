// Two processes, a socket pair between them, and sentences that are checked and counted.
//
// The processes are forked before either opens a device, so that each has an engine of its own. Both run the same
// scenario function; `self.active` tells them apart, `meet()` keeps them in step, `give()` and `take()` carry values.
// A program ends with one line, "N passed, N failed", printed by the active side for both.

#ifndef NONIC_INTEROP_HARNESS_H
#define NONIC_INTEROP_HARNESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

// How long anything may take before a program gives up. Generous: it is never waited out when all is well.
#define PATIENCE_MS 20000

static struct {
    int peer;          // our end of the socket pair
    bool active;       // the parent: it usually acts, the child is usually the target
    pid_t other;       // the child's process id, in the parent
    int passed, failed;
} self;

static void give_up(void);

static UNUSED const char *role(void) { return self.active ? "active " : "passive"; }

static UNUSED int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// ---- sentences -------------------------------------------------------------------------------------------------

static UNUSED void verdict(bool good, int line, const char *id, const char *sentence)
{
    if (good)
        self.passed++;
    else
        self.failed++;
    printf("%s %s [%s] %s", good ? "ok  " : "FAIL", role(), id, sentence);
    if (!good)
        printf(" (line %d)", line);
}

// A condition that must hold.
#define CHECK(id, sentence, condition)                                                                              \
    do {                                                                                                            \
        verdict((condition), __LINE__, id, sentence);                                                               \
        printf("\n");                                                                                               \
    } while (0)

// Two numbers that must be equal; prints both when they are not.
#define CHECK_EQ(id, sentence, got, want)                                                                           \
    do {                                                                                                            \
        long long got_ = (long long)(got), want_ = (long long)(want);                                               \
        verdict(got_ == want_, __LINE__, id, sentence);                                                             \
        if (got_ != want_)                                                                                          \
            printf(": got %lld, expected %lld (%s)", got_, want_, #got);                                            \
        printf("\n");                                                                                               \
    } while (0)

// A number that must be one of two.
#define CHECK_EITHER(id, sentence, got, one, other)                                                                 \
    do {                                                                                                            \
        long long got_ = (long long)(got), one_ = (long long)(one), other_ = (long long)(other);                    \
        verdict(got_ == one_ || got_ == other_, __LINE__, id, sentence);                                            \
        if (got_ != one_ && got_ != other_)                                                                         \
            printf(": got %lld, expected %lld or %lld (%s)", got_, one_, other_, #got);                             \
        printf("\n");                                                                                               \
    } while (0)

// A call that returns a pointer and must refuse: NULL, and this errno.
#define CHECK_NULL(id, sentence, call, want_errno)                                                                  \
    do {                                                                                                            \
        errno = 0;                                                                                                  \
        void *object_ = (void *)(call);                                                                             \
        int errno_ = errno;                                                                                         \
        verdict(!object_ && errno_ == (want_errno), __LINE__, id, sentence);                                        \
        if (object_)                                                                                                \
            printf(": it was accepted (%s)", #call);                                                                \
        else if (errno_ != (want_errno))                                                                            \
            printf(": got errno %d (%s), expected %d (%s)", errno_, strerror(errno_), (want_errno),                 \
                   strerror(want_errno));                                                                           \
        printf("\n");                                                                                               \
    } while (0)

// Something without which the rest of the program makes no sense.
#define REQUIRE(condition)                                                                                          \
    do {                                                                                                            \
        errno = 0;                                                                                                  \
        if (!(condition)) {                                                                                         \
            printf("FAIL %s needed to go on, line %d of %s: %s (errno %d, %s)\n", role(), __LINE__, __FILE__,       \
                   #condition, errno, strerror(errno));                                                             \
            self.failed++;                                                                                          \
            give_up();                                                                                              \
        }                                                                                                           \
    } while (0)

// Prints the summary with what is known and ends both processes.
static UNUSED void give_up(void)
{
    if (self.active) {
        printf("%d passed, %d failed\n", self.passed, self.failed);
        if (self.other > 0)
            kill(self.other, SIGKILL);
    }
    fflush(stdout);
    _exit(1);
}

// ---- the other process -----------------------------------------------------------------------------------------

static UNUSED void give(const void *value, size_t size)
{
    if (send(self.peer, value, size, MSG_NOSIGNAL) != (ssize_t)size) {
        printf("FAIL %s the other process is gone (sending %zu bytes)\n", role(), size);
        self.failed++;
        give_up();
    }
}

static UNUSED void take(void *value, size_t size)
{
    char *at = value;
    size_t have = 0;
    while (have < size) {
        struct pollfd p = {.fd = self.peer, .events = POLLIN};
        int ready = poll(&p, 1, 3 * PATIENCE_MS);
        if (ready < 0 && errno == EINTR)
            continue;
        ssize_t n = ready > 0 ? recv(self.peer, at + have, size - have, 0) : -1;
        if (n <= 0) {
            printf("FAIL %s the other process %s\n", role(), ready == 0 ? "did not answer in time" : "is gone");
            self.failed++;
            give_up();
        }
        have += n;
    }
}

// Gives ours, takes the other's.
static UNUSED void swap_values(const void *ours, void *theirs, size_t size)
{
    give(ours, size);
    take(theirs, size);
}

// Returns when both processes have come here.
static UNUSED void meet(void)
{
    char here = 'm', there = 0;
    swap_values(&here, &there, 1);
    if (there != 'm') {
        printf("FAIL %s the two processes are out of step (got byte %d)\n", role(), there);
        self.failed++;
        give_up();
    }
}

// Forks. Call it before anything of verbs.
static UNUSED void split(void)
{
    int ends[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        perror("socketpair");
        exit(2);
    }
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(2);
    }
    self.active = child > 0;
    self.other = child;
    self.peer = ends[child > 0 ? 0 : 1];
    close(ends[child > 0 ? 1 : 0]);
}

// Adds the two counts, prints the summary, returns the exit status. The passive side never returns.
static UNUSED int finish(void)
{
    int counts[2] = {self.passed, self.failed};
    fflush(stdout);
    if (!self.active) {
        give(counts, sizeof counts);
        _exit(0);
    }
    take(counts, sizeof counts);
    int status = 0;
    waitpid(self.other, &status, 0);
    self.passed += counts[0];
    self.failed += counts[1];
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("FAIL the passive process ended with wait status 0x%x\n", status);
        self.failed++;
    }
    printf("%d passed, %d failed\n", self.passed, self.failed);
    return self.failed ? 1 : 0;
}

// The summary of a program that needs no second process.
static UNUSED int finish_alone(void)
{
    printf("%d passed, %d failed\n", self.passed, self.failed);
    return self.failed ? 1 : 0;
}

#endif
