// An endpoint is a descriptor: dup, close, fork in every state, poll, select, epoll by level and by edge.

#include "far.h"

#include <sys/select.h>

static unsigned char *room;

static int wait_for(pid_t child)
{
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}

// In a child, which prints nothing: every condition must hold.
#define CHILD_MUST(condition)                                                                                        \
    do {                                                                                                             \
        if (!(condition)) {                                                                                          \
            fprintf(stderr, "child, line %d: %s (errno %d)\n", __LINE__, #condition, errno);                         \
            _exit(1);                                                                                                \
        }                                                                                                            \
    } while (0)

static bool sends(scif_epd_t e, unsigned seed)
{
    unsigned char bytes[32];
    fill(bytes, sizeof bytes, seed);
    return scif_send(e, bytes, sizeof bytes, SCIF_SEND_BLOCK) == sizeof bytes;
}

static void duplicates(void)
{
    scif_epd_t first = scif_open(), second = fcntl(first, F_DUPFD_CLOEXEC, 50);
    REQUIRE(first >= 0 && second >= 50);
    int port = scif_bind(first, 0);
    CHECK_REFUSED("scif 2.5", "a copy of an unbound endpoint is bound with it", scif_bind(second, 0), EINVAL);
    CHECK_DONE("scif 2.5", "a copy listens for both", scif_listen(second, 4), 0);
    CHECK_DONE("scif 2.5", "close of one", scif_close(first), 0);
    scif_epd_t e = scif_open(), accepted = -1;
    struct scif_portID there = at_port(port), peer;
    set_nonblocking(e, true);
    REQUIRE(scif_connect(e, &there) == -1 && errno == EINPROGRESS);
    scif_epd_t copy = dup(e);
    REQUIRE(copy >= 0);
    CHECK_DONE("scif 2.5", "the other still accepts", scif_accept(second, &peer, &accepted, 1), 0);
    CHECK("scif 2.5", "a copy of a connecting endpoint is decided with it",
          ready(copy, POLLOUT, PATIENCE_MS) == POLLOUT && scif_connect(copy, &there) == peer.port);
    CHECK_REFUSED("scif 2.5", "... and connected", scif_connect(e, &there), EISCONN);
    REQUIRE(scif_close(e) == 0);
    CHECK("scif 2.5", "a copy of a connected endpoint outlives it", sends(copy, 1));
    unsigned char bytes[32];
    CHECK("scif 2.5", "... as its peer sees", scif_recv(accepted, bytes, 32, 1) == 32 && filled(bytes, 32, 1));
    CHECK_EQ("scif 2.5", "... without an end", ready(accepted, POLLIN, 0), 0);
    REQUIRE(close(copy) == 0);
    CHECK_EQ("scif 2.5", "the last close is the end", ready(accepted, POLLIN, PATIENCE_MS), POLLHUP);
    scif_close(accepted);
    scif_close(second);
    e = scif_open();
    CHECK_DONE("scif 2.5", "and the port is free", scif_bind(e, (uint16_t)port), port);
    scif_close(e);
}

// close(2) instead of scif_close: the peer sees the end, windows go, the number serves anew.
static void plain_close(void)
{
    for (int with_window = 0; with_window < 2; with_window++) {
        connect_ends();
        if (with_window) {
            REQUIRE(scif_register(epd, room, PAGE, 0x1000, BOTH, FIXED) == 0x1000);
            REQUIRE(at_far(FAR_VREAD, 0, 8, 0x1000, SYNC) == 0);
        }
        scif_epd_t old = epd;
        REQUIRE(close(epd) == 0);
        CHECK_EQ("scif 2.5", "after close(2) the peer receives no more", at_far(FAR_RECV, 8, 0, 1), -1);
        CHECK_EQ("scif 2.5", "... with ECONNRESET", errno, ECONNRESET);
        CHECK_EQ("scif 2.5", "... and reads no window", at_far(FAR_VREAD, 0, 8, 0x1000, SYNC), -1);
        CHECK_EQ("scif 2.5", "... with ECONNRESET", errno, ECONNRESET);
        FAR_MUST(FAR_CLOSE);
        connect_ends();
        CHECK("scif 2.1", "the number of a closed endpoint serves anew", talks());
        CHECK_REFUSED("scif 2.1", "... without the windows of the old", at_far(FAR_VREAD, 0, 8, 0x1000, SYNC), ENXIO);
        CHECK("scif 2.1", "(it is the same number, or another is free)", epd == old || epd >= 0);
        part();
    }
}

static void forks(void)
{
    // Unbound: the child binds, and both are bound.
    scif_epd_t e = scif_open(), accepted = -1;
    pid_t child = fork();
    if (child == 0) {
        CHILD_MUST(scif_bind(e, 0) > 0);
        _exit(0);
    }
    CHECK_EQ("scif 2.5", "a child binds", wait_for(child), 0);
    CHECK_REFUSED("scif 2.5", "what its parent then cannot bind again", scif_bind(e, 0), EINVAL);

    // Bound: the parent listens, the child connects to it and is accepted by its parent.
    int port;
    REQUIRE(scif_close(e) == 0 && (e = scif_open()) >= 0 && (port = scif_bind(e, 0)) > 0 && scif_listen(e, 2) == 0);
    struct scif_portID there = at_port(port), peer;
    child = fork();
    if (child == 0) {
        scif_epd_t own = scif_open();
        CHILD_MUST(own >= 0 && scif_connect(own, &there) > 0 && sends(own, 3));
        exit(0);
    }
    CHECK_DONE("scif 2.4", "a child of the listener connects to it", scif_accept(e, &peer, &accepted, 1), 0);
    unsigned char bytes[64];
    CHECK("scif 2.6", "... and sends", scif_recv(accepted, bytes, 32, 1) == 32 && filled(bytes, 32, 3));
    CHECK_EQ("scif 2.6", "... and ends well", wait_for(child), 0);
    CHECK_EQ("scif 2.5", "which ends the connection", ready(accepted, POLLIN, PATIENCE_MS), POLLHUP);
    scif_close(accepted);

    // Listening: the child accepts in its parent's place.
    child = fork();
    if (child == 0) {
        CHILD_MUST(scif_accept(e, &peer, &accepted, 1) == 0 && sends(accepted, 4));
        CHILD_MUST(scif_recv(accepted, bytes, 1, 1) == -1 && errno == ECONNRESET);
        _exit(0);
    }
    scif_epd_t own = scif_open();
    CHECK("scif 2.4", "a child accepts on its parent's listener", own >= 0 && scif_connect(own, &there) > 0);
    CHECK("scif 2.6", "... and sends", scif_recv(own, bytes, 32, 1) == 32 && filled(bytes, 32, 4));
    scif_close(own);
    CHECK_EQ("scif 2.5", "... and sees the end", wait_for(child), 0);

    // Connecting: the child ends meanwhile.
    own = scif_open();
    set_nonblocking(own, true);
    REQUIRE(scif_connect(own, &there) == -1 && errno == EINPROGRESS);
    child = fork();
    if (child == 0) {
        CHILD_MUST(scif_close(own) == 0);
        exit(0);
    }
    CHECK_EQ("scif 2.5", "a child closes a connecting endpoint", wait_for(child), 0);
    CHECK_EQ("scif 2.5", "... which its parent does not notice", ready(own, POLLOUT, 0), 0);
    CHECK_DONE("scif 2.4", "it is accepted", scif_accept(e, &peer, &accepted, 0), 0);
    CHECK("scif 2.3", "... and collected", ready(own, POLLOUT, PATIENCE_MS) && scif_connect(own, &there) > 0);
    CHECK("scif 2.6", "... and sends", sends(own, 5) && scif_recv(accepted, bytes, 32, 1) == 32);
    scif_close(accepted);

    // Disconnected: both see the end.
    child = fork();
    if (child == 0) {
        CHILD_MUST(scif_recv(own, bytes, 1, 1) == -1 && errno == ECONNRESET);
        _exit(0);
    }
    CHECK_EQ("scif 2.5", "a child sees the end of its parent's connection", wait_for(child), 0);
    CHECK_REFUSED("scif 2.5", "... as its parent does", scif_recv(own, bytes, 1, 1), ECONNRESET);
    scif_close(own);
    scif_close(e);
}

// A program that is started with a listener accepts on it.
static void start_program(const char *self_path)
{
    scif_epd_t listener = scif_open(), own = scif_open();
    int port = scif_bind(listener, 0);
    REQUIRE(port > 0 && own >= 0 && scif_listen(listener, 1) == 0 && fcntl(listener, F_SETFD, 0) == 0);
    struct scif_portID there = at_port(port);
    char number[16];
    snprintf(number, sizeof number, "%d", listener);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", self_path, "inherited", number, (char *)NULL);
        _exit(2);
    }
    REQUIRE(scif_close(listener) == 0);
    unsigned char bytes[32];
    CHECK("scif 2.5", "a program that was started with a listener accepts", scif_connect(own, &there) > 0);
    CHECK("scif 2.6", "... and sends", scif_recv(own, bytes, 32, 1) == 32 && filled(bytes, 32, 7));
    CHECK_EQ("scif 2.6", "... and ends well", wait_for(child), 0);
    CHECK_REFUSED("scif 2.5", "which ends the connection", scif_recv(own, bytes, 1, 1), ECONNRESET);
    scif_close(own);
}

static int be_started(scif_epd_t listener)
{
    struct scif_portID peer;
    scif_epd_t accepted;
    CHILD_MUST(scif_accept(listener, &peer, &accepted, SCIF_ACCEPT_SYNC) == 0 && sends(accepted, 7));
    return 0;
}

// A connected endpoint with windows, in parent and child.
static void connected_forks(void)
{
    connect_ends();
    unsigned char *pages = fresh_pages(NULL, 2 * PAGE);
    fill(pages, 2 * PAGE, 1);
    off_t at = scif_register(epd, pages, 2 * PAGE, 0, BOTH, 0), there = at_far(FAR_REGISTER, 0, 2 * PAGE, 0, BOTH, 0);
    REQUIRE(at == TOP && there == TOP);
    int begin_child[2], char_ = 0;
    REQUIRE(pipe2(begin_child, O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
        unsigned char bytes[32];
        CHILD_MUST(read(begin_child[0], &char_, 1) == 1);
        CHILD_MUST(filled(pages, PAGE, 1));
        fill(pages, 2 * PAGE, 99);
        CHILD_MUST(sends(epd, 2) && scif_recv(epd, bytes, 32, 1) == 32 && filled(bytes, 32, 3));
        CHILD_MUST(scif_vwriteto(epd, pages, 8, there, SYNC) == 0);
        CHILD_MUST(scif_writeto(epd, at + PAGE, PAGE, there + PAGE, SYNC) == 0);
        CHILD_MUST(filled(pages, 2 * PAGE, 99));
        CHILD_MUST(scif_close(epd) == 0);
        exit(0);
    }
    fill(pages, PAGE, 4);
    REQUIRE(write(begin_child[1], "g", 1) == 1);
    REQUIRE(at_far(FAR_RECV, 32, 2, 1) == 32 && at_far(FAR_SEND, 32, 3, 1) == 32);
    CHECK_EQ("SCIF-8", "a child uses its parent's connection and windows, and closes its copy", wait_for(child), 0);
    CHECK("SCIF-8", "its stores are not in its parent's memory", filled(pages, PAGE, 4));
    CHECK("SCIF-8", "... nor in its windows", at_far(FAR_VREAD, 8 * PAGE, PAGE, at, SYNC) == 0 &&
                                                   at_far(FAR_FILLED, 8 * PAGE, PAGE, 4) == 1);
    uint64_t word = 0;
    memcpy(&word, &(unsigned char[8]){pattern_byte(0, 99), pattern_byte(1, 99), pattern_byte(2, 99),
                                      pattern_byte(3, 99), pattern_byte(4, 99), pattern_byte(5, 99),
                                      pattern_byte(6, 99), pattern_byte(7, 99)}, 8);
    CHECK_EQ("scif 3.2", "what it wrote from its own memory came", at_far(FAR_WORD, 0), word);
    CHECK("scif 3.2", "what it wrote from its parent's window came too",
          at_far(FAR_WORD, PAGE) == *(int64_t *)(pages + PAGE));
    CHECK("scif 2.5", "the connection outlives the child", talks());
    for (int i = 0; i < 5; i++) {
        child = fork();
        if (child == 0)
            exit(0);
        REQUIRE(wait_for(child) == 0);
    }
    fill(pages, 2 * PAGE, 5);
    CHECK("SCIF-8", "windows outlive children that do nothing",
          at_far(FAR_VREAD, 8 * PAGE, 2 * PAGE, at, SYNC) == 0 && at_far(FAR_FILLED, 8 * PAGE, 2 * PAGE, 5) == 1);
    // A child that is killed with the endpoint, then one that keeps it after its parent let go.
    child = fork();
    if (child == 0) {
        kill(getpid(), SIGKILL);
        _exit(0);
    }
    CHECK_EQ("scif 2.5", "a child is killed", wait_for(child), SIGKILL);
    CHECK("scif 2.5", "and the connection is as it was", talks());
    child = fork();
    if (child == 0) {
        CHILD_MUST(read(begin_child[0], &char_, 1) == 1);
        CHILD_MUST(sends(epd, 6));
        _exit(0);
    }
    REQUIRE(scif_close(epd) == 0 && write(begin_child[1], "g", 1) == 1);
    CHECK_EQ("scif 2.5", "a child keeps the connection its parent closed", at_far(FAR_RECV, 32, 6, 1), 32);
    REQUIRE(wait_for(child) == 0);
    CHECK_EQ("scif 2.5", "until it ends", at_far(FAR_RECV, 32, 6, 1), -1);
    CHECK_EQ("scif 2.5", "... with ECONNRESET", errno, ECONNRESET);
    FAR_MUST(FAR_CLOSE);
    close(begin_child[0]);
    close(begin_child[1]);
    munmap(pages, 2 * PAGE);
}

// Windows a child registers on its parent's endpoint are its own pages.
static void windows_of_a_child(void)
{
    connect_ends();
    off_t mine = scif_register(epd, room, PAGE, 0, BOTH, 0);
    REQUIRE(mine == TOP);
    int told[2];
    REQUIRE(pipe2(told, O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
        unsigned char *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char byte;
        fill(own, PAGE, 7);
        off_t at = scif_register(epd, own, PAGE, 0, BOTH, 0);
        CHILD_MUST(at == TOP + PAGE && sends(epd, 1));
        CHILD_MUST(scif_recv(epd, &byte, 1, 1) == 1);
        CHILD_MUST(filled(own, PAGE, 8));
        _exit(0);
    }
    REQUIRE(at_far(FAR_RECV, 32, 1, 1) == 32);
    CHECK("scif 3.2", "the peer reads a window that a child registered",
          at_far(FAR_VREAD, 0, PAGE, mine + PAGE, SYNC) == 0 && at_far(FAR_FILLED, 0, PAGE, 7) == 1);
    FAR_MUST(FAR_FILL, 0, PAGE, 8);
    CHECK_DONE("scif 3.2", "... and writes it", at_far(FAR_VWRITE, 0, PAGE, mine + PAGE, SYNC), 0);
    REQUIRE(at_far(FAR_SEND, 1, 0, 1) == 1);
    CHECK_EQ("scif 3.2", "... as the child sees", wait_for(child), 0);
    fill(room, PAGE, 9);
    CHECK("scif 3.2", "the parent's window is as it was",
          at_far(FAR_VREAD, 0, PAGE, mine, SYNC) == 0 && at_far(FAR_FILLED, 0, PAGE, 9) == 1);
    close(told[0]);
    close(told[1]);
    part();
}

static int events_of(int set, struct epoll_event *e, int timeout)
{
    e->events = 0;
    return epoll_wait(set, e, 1, timeout);
}

static void edges(void)
{
    connect_ends();
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.fd = epd};
    unsigned char bytes[8192] = {0};
    REQUIRE(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, epd, &e) == 0);
    CHECK_EQ("scif 2.7", "epoll by edge: nothing at first", events_of(set, &e, 0), 0);
    for (int i = 0; i < 3; i++) {
        REQUIRE(at_far(FAR_SEND, 10, 1, 0) == 10);
        CHECK_EQ("scif 2.7", "... each arrival is an edge, read or not", events_of(set, &e, PATIENCE_MS), 1);
        CHECK_EQ("scif 2.7", "... of one kind", e.events, EPOLLIN);
        CHECK_EQ("scif 2.7", "... once", events_of(set, &e, 0), 0);
    }
    CHECK_EQ("scif 2.7", "all of it is there", scif_recv(epd, bytes, 100, 0), 30);
    REQUIRE(at_far(FAR_SEND, 10, 1, 0) == 10);
    CHECK_EQ("scif 2.7", "... an edge after it was empty", events_of(set, &e, PATIENCE_MS), 1);
    CHECK_EQ("scif 2.7", "... part of it is taken", scif_recv(epd, bytes, 4, 0), 4);
    CHECK_EQ("scif 2.7", "... which is no edge", events_of(set, &e, 0), 0);
    REQUIRE(scif_recv(epd, bytes, 100, 0) == 6);

    // Room, by edge.
    e = (struct epoll_event){.events = EPOLLOUT | EPOLLET};
    REQUIRE(epoll_ctl(set, EPOLL_CTL_MOD, epd, &e) == 0);
    CHECK_EQ("scif 2.7", "room shows at first", events_of(set, &e, PATIENCE_MS), 1);
    for (int i = 0; i < 3; i++) {
        while (scif_send(epd, bytes, 4095, 0) > 0)
            ;
        while (events_of(set, &e, 0) > 0)
            ;
        CHECK_EQ("scif 2.7", "a full direction is not writable", ready(epd, POLLOUT, 0), 0);
        REQUIRE(at_far(FAR_RECV, 4095, 0, 1) != -1);
        CHECK_EQ("scif 2.7", "room after that is an edge", events_of(set, &e, PATIENCE_MS), 1);
        CHECK_EQ("scif 2.7", "... of one kind", e.events, EPOLLOUT);
    }
    // By level, the end of the peer.
    e = (struct epoll_event){.events = EPOLLIN};
    REQUIRE(epoll_ctl(set, EPOLL_CTL_MOD, epd, &e) == 0);
    CHECK_EQ("scif 2.7", "epoll by level: nothing", events_of(set, &e, 0), 0);
    REQUIRE(at_far(FAR_SEND, 10, 1, 0) == 10);
    for (int i = 0; i < 3; i++)
        CHECK("scif 2.7", "... again and again while bytes are unread",
              events_of(set, &e, PATIENCE_MS) == 1 && e.events == EPOLLIN);
    REQUIRE(scif_recv(epd, bytes, 100, 0) == 10);
    CHECK_EQ("scif 2.7", "... and no longer", events_of(set, &e, 0), 0);
    FAR_MUST(FAR_CLOSE);
    CHECK("scif 2.7", "the peer's end", events_of(set, &e, PATIENCE_MS) == 1 && (e.events & EPOLLHUP));
    close(set);
    scif_close(epd);
}

static void selecting(void)
{
    connect_ends();
    fd_set in, out;
    struct timeval now = {0, 0};
    char bytes[8192] = {0};
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(epd, &in);
    FD_SET(scif_get_fd(epd), &out);
    CHECK_EQ("scif 2.7", "select: room, no bytes", select(epd + 1, &in, &out, NULL, &now), 1);
    CHECK("scif 2.7", "... indeed", !FD_ISSET(epd, &in) && FD_ISSET(epd, &out));
    REQUIRE(scif_send(epd, bytes, 4095, 0) == 4095 && at_far(FAR_SEND, 5, 1, 0) == 5);
    FD_SET(epd, &in);
    FD_SET(epd, &out);
    struct timeval patience = {PATIENCE_MS / 1000, 0};
    CHECK_EQ("scif 2.7", "select: bytes, no room", select(epd + 1, &in, &out, NULL, &patience), 1);
    CHECK("scif 2.7", "... indeed", FD_ISSET(epd, &in) && !FD_ISSET(epd, &out));
    part();
}

// What a listener shows.
static void listeners(void)
{
    scif_epd_t listener = scif_open(), accepted = -1;
    int port = scif_bind(listener, 0), set = epoll_create1(EPOLL_CLOEXEC);
    REQUIRE(port > 0 && scif_listen(listener, 8) == 0 && set >= 0);
    struct epoll_event e = {.events = EPOLLIN | EPOLLET};
    REQUIRE(epoll_ctl(set, EPOLL_CTL_ADD, listener, &e) == 0);
    struct scif_portID there = at_port(port), peer;
    scif_epd_t asking[3];
    for (int i = 0; i < 3; i++) {
        CHECK_EQ("scif 2.7", "a listener shows nothing twice", events_of(set, &e, 0), 0);
        asking[i] = scif_open();
        set_nonblocking(asking[i], true);
        REQUIRE(scif_connect(asking[i], &there) == -1 && errno == EINPROGRESS);
        CHECK_EQ("scif 2.7", "a request is an edge", events_of(set, &e, PATIENCE_MS), 1);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ("scif 2.7", "a listener shows requests", ready(listener, POLLIN | POLLOUT, 0), POLLIN);
        REQUIRE(scif_accept(listener, &peer, &accepted, 0) == 0);
        scif_close(accepted);
    }
    CHECK_EQ("scif 2.7", "until the last is accepted", ready(listener, POLLIN | POLLOUT, 0), 0);
    // Not before: whose turn it was is not asked here, and who goes unaccepted is no request any more.
    for (int i = 0; i < 3; i++)
        scif_close(asking[i]);
    scif_close(listener);
    close(set);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "inherited") == 0)
        return be_started(atoi(argv[2]));
    begin(argc, argv);
    room = near_room;
    duplicates();
    plain_close();
    forks();
    start_program(argv[0]);
    connected_forks();
    windows_of_a_child();
    edges();
    selecting();
    listeners();
    return end();
}
