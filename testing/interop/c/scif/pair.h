// The two sides of a program that talks SCIF: one accepts, the others connect to it.
//
// Usage: NAME accept PORT [OPTIONS]              prints "listening on PORT" when it does
//        NAME connect NODE:PORT NUMBER [OPTIONS] the NUMBER-th of the connecting sides, from 1
//        NAME both PORT [OPTIONS]                all sides as threads of one process, through its own node
//
// A side exits with errno, as the tutorials of SCIF do: so a call that succeeds must leave errno alone. What is wrong is
// printed, and ends the process with 255.

#ifndef NONIC_SCIF_PAIR_H
#define NONIC_SCIF_PAIR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include <scif.h>

#include "../bytes.h"

#define PAGE 4096ul
// How often a connecting side tries, a second apart.
#define TRIES 20
// Nothing takes longer when all is well.
#define PATIENCE_MS 20000
// No errno has this value.
#define UNTOUCHED 4242

static _Thread_local const char *side = "?";

struct options {
    struct scif_portID there; // where the connecting sides find the other
    int number;               // of a connecting side, from 1
    int connecting;           // how many of them there are
    bool one_process;
    int argc;                 // what remains of the command line
    char **argv;
};

// ---- sentences -------------------------------------------------------------------------------------------------

static UNUSED void end_wrong(int line, const char *what, long long got)
{
    int error = errno;
    fprintf(stderr, "FAIL %s side, line %d: %s (got %lld, errno %d, %s)\n", side, line, what, got, error,
            strerror(error));
    fflush(NULL);
    _exit(255);
}

// A call that succeeds, and leaves errno alone. Its result.
#define MUST(call)                                                                                                   \
    ({                                                                                                               \
        errno = UNTOUCHED;                                                                                           \
        __typeof__(call) result_ = (call);                                                                           \
        if (result_ == (__typeof__(call))-1)                                                                         \
            end_wrong(__LINE__, #call " failed", -1);                                                                \
        if (errno != UNTOUCHED)                                                                                      \
            end_wrong(__LINE__, #call " succeeded and changed errno", (long long)result_);                           \
        errno = 0;                                                                                                   \
        result_;                                                                                                     \
    })

// A call that is refused with this errno.
#define REFUSED(call, wanted)                                                                                        \
    do {                                                                                                             \
        errno = 0;                                                                                                   \
        __typeof__(call) result_ = (call);                                                                           \
        if (result_ != (__typeof__(call))-1 || errno != (wanted))                                                    \
            end_wrong(__LINE__, #call " should be refused with " #wanted, (long long)result_);                       \
        errno = 0;                                                                                                   \
    } while (0)

// A condition that holds.
#define HOLDS(condition)                                                                                             \
    do {                                                                                                             \
        if (!(condition))                                                                                            \
            end_wrong(__LINE__, #condition, 0);                                                                      \
    } while (0)

// ---- connections -----------------------------------------------------------------------------------------------

static UNUSED scif_epd_t listen_on(struct options *o, int backlog)
{
    scif_epd_t listener = MUST(scif_open());
    uint16_t port = (uint16_t)MUST(scif_bind(listener, o->there.port));
    HOLDS(o->there.port == 0 || port == o->there.port);
    MUST(scif_listen(listener, backlog));
    o->there.port = port;
    return listener;
}

// Tells the test, or the connecting threads, that connections are taken from now on.
static pthread_mutex_t listening_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t listening_now = PTHREAD_COND_INITIALIZER;
static uint16_t listening_port;

static UNUSED void tell_listening(struct options *o)
{
    printf("listening on %u\n", o->there.port);
    fflush(stdout);
    pthread_mutex_lock(&listening_lock);
    listening_port = o->there.port;
    pthread_cond_broadcast(&listening_now);
    pthread_mutex_unlock(&listening_lock);
}

static UNUSED scif_epd_t accept_one(scif_epd_t listener)
{
    struct scif_portID peer = {0xffff, 0};
    scif_epd_t connected = -1;
    MUST(scif_accept(listener, &peer, &connected, SCIF_ACCEPT_SYNC));
    HOLDS(connected >= 0 && connected != listener && peer.node != 0xffff && peer.port > 0);
    return connected;
}

// A refused endpoint keeps its port and connects again.
static UNUSED scif_epd_t connect_with(scif_epd_t epd, struct options *o)
{
    for (int tries = 1;; tries++) {
        int port = scif_connect(epd, &o->there);
        if (port >= 0) {
            HOLDS(port > 0);
            errno = 0;
            return epd;
        }
        if (errno != ECONNREFUSED || tries == TRIES)
            end_wrong(__LINE__, "scif_connect", port);
        printf("refused, trying again\n");
        fflush(stdout);
        sleep(1);
    }
}

static UNUSED scif_epd_t connect_to(struct options *o)
{
    return connect_with(MUST(scif_open()), o);
}

static UNUSED void send_all(scif_epd_t epd, const void *bytes, int length)
{
    HOLDS(MUST(scif_send(epd, (void *)bytes, length, SCIF_SEND_BLOCK)) == length);
}

static UNUSED void receive_all(scif_epd_t epd, void *bytes, int length)
{
    HOLDS(MUST(scif_recv(epd, bytes, length, SCIF_RECV_BLOCK)) == length);
}

// Returns when both sides have come here.
static UNUSED void barrier(scif_epd_t epd)
{
    int word = 0x51de;
    send_all(epd, &word, 4);
    word = 0;
    receive_all(epd, &word, 4);
    HOLDS(word == 0x51de);
}

// Gives one number, takes the other's.
static UNUSED off_t exchange(scif_epd_t epd, off_t ours)
{
    off_t theirs;
    send_all(epd, &ours, sizeof ours);
    receive_all(epd, &theirs, sizeof theirs);
    return theirs;
}

// The last steps of every side: free and close change nothing, and errno says so.
static UNUSED int leave(scif_epd_t epd, void *memory)
{
    errno = 0;
    free(memory);
    scif_close(epd);
    return errno;
}

// ---- memory ----------------------------------------------------------------------------------------------------

static UNUSED unsigned char *heap_pages(size_t pages)
{
    void *at = NULL;
    HOLDS(posix_memalign(&at, PAGE, pages * PAGE) == 0);
    memset(at, 0, pages * PAGE);
    return at;
}

static UNUSED int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Spins on a word that the other side stores to, as programs on registered memory do.
static UNUSED void await_word(const volatile uint64_t *word, uint64_t wanted)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != wanted) {
        if (now_ms() > deadline)
            end_wrong(__LINE__, "the word never came; it is", (long long)*word);
        sched_yield();
    }
}

// ---- sides -----------------------------------------------------------------------------------------------------

typedef int (*side_function)(struct options *o);

struct thread {
    pthread_t id;
    struct options options;
    side_function run;
};

static UNUSED void *run_thread(void *argument)
{
    struct thread *t = argument;
    side = "connecting";
    pthread_mutex_lock(&listening_lock);
    while (!listening_port)
        pthread_cond_wait(&listening_now, &listening_lock);
    t->options.there.port = listening_port;
    pthread_mutex_unlock(&listening_lock);
    return (void *)(intptr_t)t->run(&t->options);
}

static UNUSED int run_both(struct options *o, side_function accepts, side_function connects)
{
    struct thread threads[8];
    uint16_t own;
    HOLDS(o->connecting <= 8);
    MUST(scif_get_nodeIDs(NULL, 0, &own));
    o->there.node = own;
    o->one_process = true;
    for (int i = 0; i < o->connecting; i++) {
        threads[i] = (struct thread){.options = *o, .run = connects};
        threads[i].options.number = i + 1;
        HOLDS(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) == 0);
    }
    int status = accepts(o);
    for (int i = 0; i < o->connecting; i++) {
        void *other;
        pthread_join(threads[i].id, &other);
        status = status ? status : (int)(intptr_t)other;
    }
    return status;
}

static UNUSED int run_sides(int argc, char **argv, int connecting, side_function accepts, side_function connects)
{
    struct options o = {.connecting = connecting, .argc = argc - 3, .argv = argv + 3};
    if (argc >= 3 && strcmp(argv[1], "accept") == 0) {
        side = "accepting";
        o.there.port = (uint16_t)atoi(argv[2]);
        return accepts(&o);
    }
    if (argc >= 4 && strcmp(argv[1], "connect") == 0) {
        side = "connecting";
        HOLDS(sscanf(argv[2], "%hu:%hu", &o.there.node, &o.there.port) == 2);
        o.number = atoi(argv[3]);
        o.argc = argc - 4;
        o.argv = argv + 4;
        return connects(&o);
    }
    if (argc >= 3 && strcmp(argv[1], "both") == 0) {
        side = "accepting";
        o.there.port = (uint16_t)atoi(argv[2]);
        return run_both(&o, accepts, connects);
    }
    fprintf(stderr, "usage: %s accept PORT | connect NODE:PORT NUMBER | both PORT\n", argv[0]);
    return 2;
}

// Whether the command line has this option.
static UNUSED bool has_option(const struct options *o, const char *name)
{
    for (int i = 0; i < o->argc; i++)
        if (strcmp(o->argv[i], name) == 0)
            return true;
    return false;
}

#endif
