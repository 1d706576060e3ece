// Event polls over rsockets: calls of releases later than the header's, asked for by name and version as programs that were built
// with those do. One process holds both ends of each stream.
//
// proves: rdmacm 10

#define _GNU_SOURCE
#include "rdmacm.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <unistd.h>

static int (*repoll_create_)(int);
static int (*repoll_ctl_)(int, int, int, struct epoll_event *);
static int (*repoll_wait_)(int, struct epoll_event *, int, int);

static void *symbol(const char *name)
{
    void *found = dlvsym(RTLD_DEFAULT, name, "RDMACM_1.5");
    REQUIRE(found);
    return found;
}

static int control(int poll, int operation, int socket, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = 0xfedcba9800000000 | (uint32_t)socket};
    return repoll_ctl_(poll, operation, socket, &event);
}

// What there is for a socket within this time; 0: nothing. Nothing may be told of any other.
static uint32_t told(int poll, int socket, int timeout)
{
    struct epoll_event event;
    int count = repoll_wait_(poll, &event, 1, timeout);
    REQUIRE(count >= 0);
    if (!count)
        return 0;
    REQUIRE(event.data.u64 == (0xfedcba9800000000 | (uint32_t)socket));
    return event.events;
}

static int listening(struct sockaddr_in *address)
{
    socklen_t length = sizeof(*address);
    int listener = rsocket(AF_INET, SOCK_STREAM, 0);
    *address = any4("127.0.0.1", 0);
    REQUIRE(listener >= 0 && rbind(listener, SA(*address), sizeof(*address)) == 0);
    REQUIRE(rlisten(listener, 4) == 0 && rgetsockname(listener, SA(*address), &length) == 0);
    return listener;
}

static void refusals(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int poll = repoll_create_(EPOLL_CLOEXEC), plain = repoll_create_(10), pipes[2];
    int socket = rsocket(AF_INET, SOCK_STREAM, 0);

    REQUIRE(poll >= 0 && plain >= 0 && socket >= 0 && pipe(pipes) == 0);
    CHECK("10", "an event poll is closed by exec if asked", fcntl(poll, F_GETFD) == FD_CLOEXEC && fcntl(plain, F_GETFD) == 0);
    REFUSED("10", "a socket is no event poll", repoll_ctl_(socket, EPOLL_CTL_ADD, poll, &event), EBADF);
    REFUSED("10", "nor is a number without anything", repoll_wait_(1000, &event, 1, 0), EBADF);
    REFUSED("10", "nothing stands under the number", repoll_ctl_(poll, EPOLL_CTL_ADD, 1000, &event), EBADF);
    REFUSED("10", "an event poll in another", repoll_ctl_(poll, EPOLL_CTL_ADD, plain, &event), EINVAL);
    REFUSED("10", "no such operation", repoll_ctl_(poll, 9, socket, &event), EINVAL);
    REFUSED("10", "no event", repoll_ctl_(poll, EPOLL_CTL_ADD, socket, NULL), EFAULT);
    REFUSED("10", "not in it, to change", repoll_ctl_(poll, EPOLL_CTL_MOD, socket, &event), ENOENT);
    REFUSED("10", "nor to remove", repoll_ctl_(poll, EPOLL_CTL_DEL, socket, NULL), ENOENT);
    REQUIRE(repoll_ctl_(poll, EPOLL_CTL_ADD, socket, &event) == 0 && repoll_ctl_(poll, EPOLL_CTL_ADD, pipes[0], &event) == 0);
    REFUSED("10", "a socket twice", repoll_ctl_(poll, EPOLL_CTL_ADD, socket, &event), EEXIST);
    REFUSED("10", "another descriptor twice", repoll_ctl_(poll, EPOLL_CTL_ADD, pipes[0], &event), EEXIST);
    REFUSED("10", "no room for events", repoll_wait_(poll, &event, 0, 0), EINVAL);
    REFUSED("10", "no place for events", repoll_wait_(poll, NULL, 1, 0), EFAULT);
    REQUIRE(rclose(poll) == 0);
    CHECK("10", "an event poll is given back with its descriptor", fcntl(poll, F_GETFD) == -1 && errno == EBADF);
    REFUSED("10", "and is none any more", repoll_wait_(poll, &event, 1, 0), EBADF);
    REQUIRE(rclose(socket) == 0 && rclose(plain) == 0 && close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

static void streams(void)
{
    struct sockaddr_in address;
    int poll = repoll_create_(0), listener = listening(&address), pipes[2], sides[2], count = 0;
    char bytes[4] = "abc", read_[4];
    struct epoll_event both[4];

    REQUIRE(poll >= 0 && pipe(pipes) == 0);
    REQUIRE(control(poll, EPOLL_CTL_ADD, listener, EPOLLIN) == 0);
    CHECK("10", "a listener to whom nobody comes", told(poll, listener, 0) == 0);
    sides[0] = rsocket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(sides[0] >= 0 && rfcntl(sides[0], F_SETFL, O_NONBLOCK) == 0);
    REQUIRE(rconnect(sides[0], SA(address), sizeof(address)) == 0 || errno == EINPROGRESS);
    CHECK("10", "wakes who waits for a connection", told(poll, listener, PATIENCE_MS) == EPOLLIN);
    REQUIRE((sides[1] = raccept(listener, NULL, NULL)) >= 0);
    CHECK("10", "and is quiet when it is taken", told(poll, listener, 0) == 0);
    REQUIRE(rclose(listener) == 0);

    REQUIRE(control(poll, EPOLL_CTL_ADD, sides[0], EPOLLOUT | EPOLLONESHOT) == 0);
    CHECK("10", "who connects is told when there is room", told(poll, sides[0], PATIENCE_MS) == EPOLLOUT);
    CHECK("10", "once, if it is to be told once", told(poll, sides[0], 0) == 0);
    REQUIRE(control(poll, EPOLL_CTL_MOD, sides[0], EPOLLOUT | EPOLLONESHOT) == 0);
    CHECK("10", "and once more when that is asked for anew", told(poll, sides[0], PATIENCE_MS) == EPOLLOUT);

    REQUIRE(control(poll, EPOLL_CTL_ADD, sides[1], EPOLLIN) == 0);
    CHECK("10", "nothing came", told(poll, sides[1], 0) == 0);
    REQUIRE(rsend(sides[0], bytes, 3, 0) == 3);
    CHECK("10", "what comes is told", told(poll, sides[1], PATIENCE_MS) == EPOLLIN);
    CHECK("10", "by level until it is read", told(poll, sides[1], 0) == EPOLLIN);
    REQUIRE(control(poll, EPOLL_CTL_ADD, pipes[0], EPOLLIN) == 0 && write(pipes[1], bytes, 1) == 1);
    // Not each wait that finds a stream asks the kernel.
    for (int waits = 0; waits < 8 && count != 2; waits++)
        count = repoll_wait_(poll, both, 4, PATIENCE_MS);
    CHECK("10", "a pipe beside it, too", count == 2);
    REQUIRE(read(pipes[0], read_, 1) == 1);
    REQUIRE(rrecv(sides[1], read_, 4, 0) == 3 && !memcmp(read_, bytes, 3));
    CHECK("10", "and no longer", told(poll, sides[1], 0) == 0);
    REQUIRE(write(pipes[1], bytes, 1) == 1);
    CHECK("10", "who waits for streams is woken by a pipe", told(poll, pipes[0], PATIENCE_MS) == EPOLLIN);
    REQUIRE(read(pipes[0], read_, 1) == 1);

    REQUIRE(control(poll, EPOLL_CTL_MOD, sides[1], EPOLLIN | EPOLLET) == 0 && rsend(sides[0], bytes, 2, 0) == 2);
    CHECK("10", "by edge it is told", told(poll, sides[1], PATIENCE_MS) == EPOLLIN);
    CHECK("10", "and not again while nothing happens", told(poll, sides[1], 0) == 0);
    REQUIRE(rsend(sides[0], bytes, 1, 0) == 1);
    CHECK("10", "but when more comes", told(poll, sides[1], PATIENCE_MS) == EPOLLIN);
    REQUIRE(rrecv(sides[1], read_, 4, 0) == 3);

    REQUIRE(control(poll, EPOLL_CTL_MOD, sides[1], EPOLLIN | EPOLLRDHUP) == 0 && rclose(sides[0]) == 0);
    CHECK("10", "the end of a stream is told", told(poll, sides[1], PATIENCE_MS) & EPOLLIN);
    REQUIRE(rrecv(sides[1], read_, 4, 0) == 0);
    REQUIRE(control(poll, EPOLL_CTL_DEL, sides[1], 0) == 0);
    CHECK("10", "what was taken out is not", told(poll, sides[1], 0) == 0);
    REQUIRE(rclose(sides[1]) == 0 && rclose(poll) == 0 && close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

static void datagrams(void)
{
    struct sockaddr_in address = any4("127.0.0.1", 0);
    socklen_t length = sizeof(address);
    int poll = repoll_create_(0), from = rsocket(AF_INET, SOCK_DGRAM, 0), to = rsocket(AF_INET, SOCK_DGRAM, 0);
    char byte = 7;

    REQUIRE(poll >= 0 && from >= 0 && to >= 0 && rbind(to, SA(address), sizeof(address)) == 0);
    REQUIRE(rgetsockname(to, SA(address), &length) == 0 && control(poll, EPOLL_CTL_ADD, to, EPOLLIN) == 0);
    CHECK("10", "no datagram came", told(poll, to, 0) == 0);
    REQUIRE(rsendto(from, &byte, 1, 0, SA(address), sizeof(address)) == 1);
    CHECK("10", "one that comes is told", told(poll, to, PATIENCE_MS) == EPOLLIN);
    REQUIRE(rrecv(to, &byte, 1, 0) == 1 && byte == 7);
    CHECK("10", "until it is read", told(poll, to, 0) == 0);
    REQUIRE(rclose(to) == 0);
    CHECK("10", "and nothing of a socket that is closed", told(poll, to, 0) == 0);
    REQUIRE(rclose(from) == 0 && rclose(poll) == 0);
}

static void *send_later(void *socket)
{
    char byte = 1;
    REQUIRE(rsend(*(int *)socket, &byte, 1, 0) == 1);
    return NULL;
}

// Who sleeps is woken; many sockets are told of by the one that has news.
static void many(void)
{
    enum { COUNT = 64, ROUNDS = 200 };
    struct sockaddr_in address;
    int poll = repoll_create_(0), listener = listening(&address), ours[COUNT], theirs[COUNT], right = 0;
    char byte;

    REQUIRE(poll >= 0);
    for (int i = 0; i < COUNT; i++) {
        REQUIRE((ours[i] = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && rconnect(ours[i], SA(address), sizeof(address)) == 0);
        REQUIRE((theirs[i] = raccept(listener, NULL, NULL)) >= 0 && control(poll, EPOLL_CTL_ADD, theirs[i], EPOLLIN) == 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int i = round * 37 % COUNT;
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, send_later, &ours[i]) == 0);
        right += told(poll, theirs[i], PATIENCE_MS) == EPOLLIN && rrecv(theirs[i], &byte, 1, 0) == 1;
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    CHECK("10", "of 64 streams the one that has something is told of, each time", right == ROUNDS);
    for (int i = 0; i < COUNT; i++)
        REQUIRE(rclose(ours[i]) == 0 && rclose(theirs[i]) == 0);
    REQUIRE(rclose(listener) == 0 && rclose(poll) == 0);
}

int main(void)
{
    self.active = true;
    setbuf(stdout, NULL);
    REQUIRE(channel = rdma_create_event_channel());
    repoll_create_ = symbol("repoll_create");
    repoll_ctl_ = symbol("repoll_ctl");
    repoll_wait_ = symbol("repoll_wait");
    refusals();
    streams();
    datagrams();
    many();
    rdma_destroy_event_channel(channel);
    return end();
}
