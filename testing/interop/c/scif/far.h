// A connection whose far end is told what to do, step by step: by another process, or, with the argument "alone", by this
// one. So one program reads from top to bottom and proves the same between processes and within one. Between hosts, too: with
// "serve ADDRESS PORT" it is only the far end, which a TCP connection tells what to do, and with "to ADDRESS PORT NODE" the other.
//
// Sentences are checked and counted as in harness.h. A refusal is followed by a proof that nothing moved.

#ifndef NONIC_SCIF_FAR_H
#define NONIC_SCIF_FAR_H

#include "../harness.h"
#include "../asleep.h"
#include "../bytes.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include <scif.h>

#define PAGE 4096l
#define ROOM_PAGES 512l
#define ROOM (ROOM_PAGES * PAGE)
#define BOTH (SCIF_PROT_READ | SCIF_PROT_WRITE)
#define FIXED SCIF_MAP_FIXED
#define SYNC SCIF_RMA_SYNC
#define TOP 0x4000000000000000l // 2^62: below it FIXED, from it on the library's choice
#define UNTOUCHED 4242          // no errno has this value

// A call that is refused with this errno.
#define CHECK_REFUSED(id, sentence, call, want_errno)                                                                \
    do {                                                                                                             \
        errno = 0;                                                                                                   \
        int64_t got_ = (int64_t)(call);                                                                              \
        int errno_ = errno;                                                                                          \
        verdict(got_ == -1 && errno_ == (want_errno), __LINE__, id, sentence);                                       \
        if (got_ != -1)                                                                                              \
            printf(": it answered %" PRId64 " (%s)", got_, #call);                                                   \
        else if (errno_ != (want_errno))                                                                             \
            printf(": got errno %d (%s), expected %d (%s)", errno_, strerror(errno_), (want_errno),                  \
                   strerror(want_errno));                                                                            \
        printf("\n");                                                                                                \
    } while (0)

// A call that succeeds with this result and leaves errno alone.
#define CHECK_DONE(id, sentence, call, want)                                                                         \
    do {                                                                                                             \
        errno = UNTOUCHED;                                                                                           \
        int64_t got_ = (int64_t)(call), want_ = (int64_t)(want);                                                     \
        int errno_ = errno;                                                                                          \
        verdict(got_ == want_ && errno_ == UNTOUCHED, __LINE__, id, sentence);                                       \
        if (got_ != want_)                                                                                           \
            printf(": got %" PRId64 " (errno %d, %s), expected %" PRId64 " (%s)", got_, errno_, strerror(errno_),    \
                   want_, #call);                                                                                    \
        else if (errno_ != UNTOUCHED)                                                                                \
            printf(": errno became %d", errno_);                                                                     \
        printf("\n");                                                                                                \
    } while (0)

// ---- the far end -----------------------------------------------------------------------------------------------

enum step {
    FAR_LISTEN = 1, // port of a new listener
    FAR_ACCEPT,     // accepts; replaces the connection
    FAR_CLOSE,
    FAR_CLOSE_LISTENER,
    FAR_REGISTER,   // at, length, offset, prot, flags: a part of the room
    FAR_UNREGISTER, // offset, length
    FAR_FILL,       // at, length, seed
    FAR_FILLED,     // at, length, seed: 1 or 0
    FAR_WORD,       // at: 8 bytes
    FAR_FRESH,      // at, length: new pages at these addresses of the room
    FAR_SEND,       // length, seed, flags
    FAR_RECV,       // length, seed, flags: what came, or -2 if the bytes are others
    FAR_WRITE,      // local offset, length, remote offset, flags
    FAR_READ,
    FAR_VWRITE,     // at, length, remote offset, flags
    FAR_VREAD,
    FAR_MMAP,       // offset, length, prot: where it is mapped
    FAR_MUNMAP,     // address, length
    FAR_PID,
    FAR_EXIT,       // ends without closing anything
};

struct far_call {
    int64_t step, a[5];
};

struct far_result {
    int64_t value;
    int error;
};

static struct {
    bool alone;
    bool elsewhere; // on another host, node `node`
    uint16_t node;
    // of the far end
    scif_epd_t listener, epd;
    unsigned char *room;
} far = {.listener = -1, .epd = -1};

static unsigned char *near_room; // of the near end
static scif_epd_t epd = -1;      // its connection

static UNUSED unsigned char *fresh_pages(void *at, size_t length)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0);
    unsigned char *pages = mmap(at, length, PROT_READ | PROT_WRITE, flags, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    return pages;
}

static UNUSED int64_t far_listen(void)
{
    REQUIRE((far.listener = scif_open()) >= 0);
    int port = scif_bind(far.listener, 0);
    REQUIRE(port > 0 && scif_listen(far.listener, 8) == 0);
    return port;
}

static UNUSED int64_t far_stream(const struct far_call *c)
{
    int length = (int)c->a[0];
    unsigned char *bytes = malloc(length > 0 ? length : 1);
    int64_t got;
    if (c->step == FAR_SEND) {
        fill(bytes, length > 0 ? length : 0, (unsigned)c->a[1]);
        got = scif_send(far.epd, bytes, length, (int)c->a[2]);
    } else {
        got = scif_recv(far.epd, bytes, length, (int)c->a[2]);
        if (got > 0 && !filled(bytes, got, (unsigned)c->a[1]))
            got = -2;
    }
    int error = errno;
    free(bytes);
    errno = error;
    return got;
}

static UNUSED int64_t far_step(const struct far_call *c)
{
    unsigned char *at = far.room + c->a[0];
    size_t length = (size_t)c->a[1];
    struct scif_portID peer;
    switch (c->step) {
    case FAR_LISTEN:
        return far_listen();
    case FAR_ACCEPT:
        return scif_accept(far.listener, &peer, &far.epd, SCIF_ACCEPT_SYNC);
    case FAR_CLOSE:
        return scif_close(far.epd);
    case FAR_CLOSE_LISTENER:
        return scif_close(far.listener);
    case FAR_REGISTER:
        return scif_register(far.epd, at, length, c->a[2], (int)c->a[3], (int)c->a[4]);
    case FAR_UNREGISTER:
        return scif_unregister(far.epd, c->a[0], length);
    case FAR_FILL:
        fill(at, length, (unsigned)c->a[2]);
        return 0;
    case FAR_FILLED:
        return filled(at, length, (unsigned)c->a[2]);
    case FAR_WORD: {
        int64_t word;
        memcpy(&word, at, 8);
        return word;
    }
    case FAR_FRESH:
        fresh_pages(at, length);
        return 0;
    case FAR_SEND:
    case FAR_RECV:
        return far_stream(c);
    case FAR_WRITE:
        return scif_writeto(far.epd, c->a[0], length, c->a[2], (int)c->a[3]);
    case FAR_READ:
        return scif_readfrom(far.epd, c->a[0], length, c->a[2], (int)c->a[3]);
    case FAR_VWRITE:
        return scif_vwriteto(far.epd, at, length, c->a[2], (int)c->a[3]);
    case FAR_VREAD:
        return scif_vreadfrom(far.epd, at, length, c->a[2], (int)c->a[3]);
    case FAR_MMAP:
        return (int64_t)scif_mmap(NULL, length, (int)c->a[2], 0, far.epd, c->a[0]);
    case FAR_MUNMAP:
        return scif_munmap((void *)c->a[0], length);
    case FAR_PID:
        return getpid();
    default:
        _exit(0);
    }
}

// The far end does this; its result and errno are as if the call had been made here.
#define at_far(step, ...) at_far_(&(struct far_call){step, {__VA_ARGS__}})
static UNUSED int64_t at_far_(const struct far_call *c)
{
    if (far.alone)
        return far_step(c);
    struct far_result r;
    int before = errno;
    give(c, sizeof *c);
    take(&r, sizeof r);
    errno = r.value == -1 ? r.error : before;
    return r.value;
}

// Something the far end has to do for the rest to make sense.
#define FAR_MUST(step, ...)                                                                                          \
    ({                                                                                                               \
        int64_t done_ = at_far(step, __VA_ARGS__);                                                                   \
        REQUIRE(done_ >= 0);                                                                                         \
        done_;                                                                                                       \
    })

// Begins a step that ends only when this end does something: no answer is taken yet.
#define far_begins(step, ...) far_begins_(&(struct far_call){step, {__VA_ARGS__}})
static UNUSED void far_begins_(const struct far_call *c)
{
    give(c, sizeof *c);
}

static UNUSED int64_t far_ends(void)
{
    struct far_result r;
    take(&r, sizeof r);
    errno = r.error;
    return r.value;
}

static UNUSED void be_far(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        struct far_call c;
        take(&c, sizeof c);
        errno = 0;
        struct far_result r = {.value = far_step(&c)};
        r.error = errno;
        give(&r, sizeof r);
    }
}

static UNUSED int tcp(const char *address, const char *port, bool serves)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    REQUIRE(s >= 0 && inet_pton(AF_INET, address, &at.sin_addr) == 1);
    if (serves) {
        REQUIRE(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
        REQUIRE(bind(s, (void *)&at, sizeof at) == 0 && listen(s, 1) == 0);
        printf("serving\n");
        int listener = s;
        REQUIRE((s = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
        close(listener);
    } else {
        REQUIRE(connect(s, (void *)&at, sizeof at) == 0);
    }
    REQUIRE(setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    return s;
}

// Both ends have their rooms; the far end is another process unless the program was told otherwise.
static UNUSED void begin(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    far.alone = argc > 1 && strcmp(argv[1], "alone") == 0;
    far.room = fresh_pages(NULL, ROOM);
    self.active = true;
    if (argc > 3 && strcmp(argv[1], "serve") == 0) {
        self.active = false;
        self.peer = tcp(argv[2], argv[3], true);
        be_far();
    }
    if (argc > 4 && strcmp(argv[1], "to") == 0) {
        far.elsewhere = true;
        far.node = (uint16_t)atoi(argv[4]);
        self.peer = tcp(argv[2], argv[3], false);
    } else if (!far.alone) {
        split();
        if (!self.active)
            be_far();
    }
    near_room = fresh_pages(NULL, ROOM);
}

// ---- connections -----------------------------------------------------------------------------------------------

static UNUSED uint16_t own_node(void)
{
    uint16_t own = 0xffff;
    REQUIRE(scif_get_nodeIDs(NULL, 0, &own) > 0);
    return own;
}

static UNUSED struct scif_portID at_port(int64_t port)
{
    return (struct scif_portID){.node = far.elsewhere ? far.node : own_node(), .port = (uint16_t)port};
}

static UNUSED void set_nonblocking(scif_epd_t e, bool on)
{
    int flags = fcntl(e, F_GETFL);
    REQUIRE(flags >= 0 && fcntl(e, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0);
}

static UNUSED short ready(scif_epd_t e, short events, int timeout)
{
    struct scif_pollepd p = {.epd = e, .events = events, .revents = 0};
    REQUIRE(scif_poll(&p, 1, timeout) >= 0);
    return p.revents;
}

// Asks for a connection and lets the far end accept it; works within one thread.
static UNUSED void connect_endpoint(scif_epd_t e, int64_t port)
{
    struct scif_portID there = at_port(port);
    set_nonblocking(e, true);
    REQUIRE(scif_connect(e, &there) == -1 && errno == EINPROGRESS);
    FAR_MUST(FAR_ACCEPT);
    REQUIRE(ready(e, SCIF_POLLOUT, PATIENCE_MS) & SCIF_POLLOUT);
    REQUIRE(scif_connect(e, &there) > 0);
    set_nonblocking(e, false);
}

// A new connection, `epd` here and `far.epd` there. The listener goes at once.
static UNUSED void connect_ends(void)
{
    int64_t port = FAR_MUST(FAR_LISTEN);
    REQUIRE((epd = scif_open()) >= 0);
    connect_endpoint(epd, port);
    FAR_MUST(FAR_CLOSE_LISTENER);
}

// Closes both ends, whichever are still open.
static UNUSED void part(void)
{
    scif_close(epd);
    at_far(FAR_CLOSE);
}

// Ends the far process and prints the summary.
static UNUSED int end(void)
{
    if (far.elsewhere)
        far_begins(FAR_EXIT);
    else if (!far.alone && self.other > 0) {
        far_begins(FAR_EXIT);
        int status;
        REQUIRE(waitpid(self.other, &status, 0) == self.other);
        CHECK_EQ("far", "the far process lived until it was told to end", status, 0);
    }
    return finish_alone();
}

// The connection works, in both directions.
static UNUSED bool talks(void)
{
    unsigned char bytes[64];
    fill(bytes, sizeof bytes, 9);
    if (scif_send(epd, bytes, sizeof bytes, SCIF_SEND_BLOCK) != sizeof bytes)
        return false;
    if (at_far(FAR_RECV, sizeof bytes, 9, SCIF_RECV_BLOCK) != sizeof bytes)
        return false;
    if (at_far(FAR_SEND, sizeof bytes, 8, SCIF_SEND_BLOCK) != sizeof bytes)
        return false;
    return scif_recv(epd, bytes, sizeof bytes, SCIF_RECV_BLOCK) == sizeof bytes && filled(bytes, sizeof bytes, 8);
}

#endif
