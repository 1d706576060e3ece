// What a program expects of TCP, call by call. It is run twice: over TCP, which shows that the expectations are TCP's, and under
// `nonic run --sockets`. The argument says which way bytes have to take: "tcp" or "stream".

#include "harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static char big[1 << 20];
static volatile sig_atomic_t broken_pipes;

static void on_pipe(int number)
{
    (void)number;
    broken_pipes++;
}

static int last(long answer) { return answer < 0 ? errno : 0; }

static struct sockaddr_in local(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int port_of(int s, int peer)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int told = peer ? getpeername(s, (void *)&address, &length) : getsockname(s, (void *)&address, &length);
    return told == 0 && length == sizeof address ? ntohs(address.sin_port) : -1;
}

static int listener(int flags)
{
    int s = socket(AF_INET, SOCK_STREAM | flags, 0);
    struct sockaddr_in address = local(0);
    if (bind(s, (void *)&address, sizeof address) || listen(s, 16))
        return -1;
    return s;
}

static int connected(int to)
{
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = local(port_of(to, 0));
    return connect(s, (void *)&address, sizeof address) ? -1 : s;
}

// Two ends of one connection.
struct both {
    int a, b;
};

static struct both both(void)
{
    int l = listener(0);
    struct both p = {connected(l), -1};
    p.b = accept(l, NULL, NULL);
    close(l);
    return p;
}

static void end(struct both p)
{
    close(p.a);
    close(p.b);
}

static int shows(int s, int events, int timeout_ms)
{
    struct pollfd entry = {.fd = s, .events = events};
    return poll(&entry, 1, timeout_ms) < 0 ? -1 : entry.revents;
}

// Connections of the kernel's between two ports; one may be counted twice while others come and go. (One port may be another program's, too, which connects from it elsewhere.)
static int established(int port, int peer)
{
    char line[512];
    int count = 0;
    FILE *table = fopen("/proc/self/net/tcp", "r");
    while (table && fgets(line, sizeof line, table)) {
        unsigned local_port, remote_port, state;
        if (sscanf(line, " %*d: %*8x:%x %*8x:%x %x", &local_port, &remote_port, &state) == 3)
            count += (int)local_port == port && (int)remote_port == peer && state == 1;
    }
    if (table)
        fclose(table);
    return count;
}

static void names_and_the_way(bool stream)
{
    int l = listener(0), a = connected(l);
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    int b = accept(l, (void *)&peer, &length);
    CHECK("names", "a port that the kernel chose is not 0", port_of(l, 0) > 0);
    CHECK_EQ("names", "the accepted end has the listener's port", port_of(b, 0), port_of(l, 0));
    CHECK_EQ("names", "accept tells the peer's port", ntohs(peer.sin_port), port_of(a, 0));
    CHECK_EQ("names", "accept tells the peer's address", peer.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    CHECK_EQ("names", "each end is the other's peer", port_of(a, 1), port_of(b, 0));
    CHECK_EQ("names", "and the other way round", port_of(b, 1), port_of(a, 0));
    CHECK_EQ("way", "bytes take the way that is asked for", established(port_of(l, 0), port_of(a, 0)) > 0, !stream);
    int yes = 0;
    length = sizeof yes;
    getsockopt(l, SOL_SOCKET, SO_ACCEPTCONN, &yes, &length);
    CHECK_EQ("names", "a listener says that it is one", yes, 1);
    struct sockaddr_in address = local(port_of(l, 0));
    int other = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ("names", "the port is taken", last(bind(other, (void *)&address, sizeof address)), EADDRINUSE);
    CHECK_EQ("names", "a second connect is refused", last(connect(a, (void *)&address, sizeof address)), EISCONN);
    CHECK_EQ("names", "who does not listen accepts nothing", last(accept(other, NULL, NULL)), EINVAL);
    CHECK_EQ("names", "who is not connected has no peer", last(port_of(other, 1) < 0 ? -1 : 0), ENOTCONN);
    CHECK_EQ("names", "and receives nothing", last(recv(other, big, 1, 0)), ENOTCONN);
    close(other);
    end((struct both){a, b});
    close(l);
}

static void every_call_moves_bytes(void)
{
    struct both p = both();
    char one[8], two[8] = "";
    CHECK_EQ("calls", "write", write(p.a, "abc", 3), 3);
    CHECK_EQ("calls", "read", read(p.b, one, 8), 3);
    CHECK_EQ("calls", "what was written is read", memcmp(one, "abc", 3), 0);
    struct iovec out[3] = {{"hel", 3}, {"", 0}, {"lo world", 8}}, in[2] = {{one, 4}, {two, 7}};
    CHECK_EQ("calls", "writev sends all places", writev(p.a, out, 3), 11);
    shows(p.b, POLLIN, -1);
    CHECK_EQ("calls", "readv fills all places", readv(p.b, in, 2), 11);
    CHECK("calls", "in order", !memcmp(one, "hell", 4) && !memcmp(two, "o world", 7));
    struct msghdr message = {.msg_iov = out, .msg_iovlen = 3};
    CHECK_EQ("calls", "sendmsg", sendmsg(p.b, &message, 0), 11);
    char control[64];
    struct sockaddr_in from;
    message = (struct msghdr){.msg_iov = in, .msg_iovlen = 2, .msg_control = control, .msg_controllen = 64,
                              .msg_name = &from, .msg_namelen = sizeof from};
    CHECK_EQ("calls", "recvmsg waits for all it is asked to", recvmsg(p.a, &message, MSG_WAITALL), 11);
    CHECK_EQ("calls", "nothing comes beside the bytes", message.msg_controllen + message.msg_namelen, 0);
    CHECK_EQ("calls", "sendto", sendto(p.a, "xyz", 3, 0, NULL, 0), 3);
    socklen_t length = sizeof from;
    CHECK_EQ("calls", "recvfrom", recvfrom(p.b, one, 8, 0, (void *)&from, &length), 3);
    struct iovec first = {"1", 1}, second = {"22", 2};
    struct mmsghdr several[2] = {{.msg_hdr = {.msg_iov = &first, .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = &second, .msg_iovlen = 1}}};
    CHECK_EQ("calls", "sendmmsg sends both", sendmmsg(p.a, several, 2, 0), 2);
    CHECK_EQ("calls", "and says how long each was", several[1].msg_len, 2);
    // The second may be late.
    int waiting = -1;
    CHECK_EQ("calls", "peeking waits for all it is asked to", recv(p.b, one, 3, MSG_PEEK | MSG_WAITALL), 3);
    CHECK_EQ("calls", "and takes nothing", recv(p.b, one, 3, MSG_PEEK), 3);
    ioctl(p.b, FIONREAD, &waiting);
    CHECK_EQ("calls", "FIONREAD counts what waits", waiting, 3);
    CHECK_EQ("calls", "recv takes it", recv(p.b, one, 8, 0), 3);
    CHECK_EQ("calls", "MSG_DONTWAIT waits for nothing", last(recv(p.b, one, 8, MSG_DONTWAIT)), EAGAIN);
    FILE *file = tmpfile();
    fwrite("0123456789", 1, 10, file);
    fflush(file);
    off_t offset = 3;
    CHECK_EQ("calls", "sendfile sends a part of a file", sendfile(p.a, fileno(file), &offset, 100), 7);
    CHECK_EQ("calls", "and says where it ended", offset, 10);
    CHECK_EQ("calls", "which comes", recv(p.b, one, 7, MSG_WAITALL), 7);
    CHECK_EQ("calls", "as it stands there", memcmp(one, "3456789", 7), 0);
    fclose(file);
    struct timeval time = {.tv_usec = 50000};
    setsockopt(p.b, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    int64_t began = now_ns();
    CHECK_EQ("calls", "a receive ends at its time", last(recv(p.b, one, 8, 0)), EAGAIN);
    CHECK("calls", "and not before", now_ns() - began >= 45000000);
    send(p.a, "xyz", 3, 0);
    began = now_ns();
    CHECK_EQ("calls", "who peeks is shown a part then", recv(p.b, one, 8, MSG_PEEK | MSG_WAITALL), 3);
    CHECK("calls", "and not before either", now_ns() - began >= 45000000);
    struct iovec parts[2] = {{one, 1}, {two, 7}};
    message = (struct msghdr){.msg_iov = parts, .msg_iovlen = 2};
    CHECK_EQ("calls", "peeking goes on into the next place", recvmsg(p.b, &message, MSG_PEEK), 3);
    CHECK("calls", "in order", one[0] == 'x' && !memcmp(two, "yz", 2));
    CHECK_EQ("calls", "and what was seen comes", recv(p.b, one, 3, MSG_WAITALL), 3);
    int on = 1, got = 0;
    length = sizeof got;
    CHECK_EQ("calls", "TCP_NODELAY can be set", setsockopt(p.a, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    getsockopt(p.a, IPPROTO_TCP, TCP_NODELAY, &got, &length);
    CHECK_EQ("calls", "and is", got, 1);
    struct tcp_info info;
    length = sizeof info;
    CHECK_EQ("calls", "TCP_INFO answers", getsockopt(p.a, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    CHECK_EQ("calls", "that there is a connection", info.tcpi_state, TCP_ESTABLISHED);
    CHECK_EQ("calls", "an option that there is not is refused",
             last(setsockopt(p.a, IPPROTO_TCP, 9999, &on, sizeof on)), ENOPROTOOPT);
    end(p);
}

static void nothing_waits_that_must_not(void)
{
    int l = listener(SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK_EQ("nonblocking", "accept", last(accept(l, NULL, NULL)), EAGAIN);
    CHECK_EQ("nonblocking", "a listener shows nothing", shows(l, POLLIN, 0), 0);
    int a = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = -1;
    struct sockaddr_in address = local(port_of(l, 0));
    int begun = last(connect(a, (void *)&address, sizeof address));
    CHECK_EITHER("nonblocking", "connect begins", begun, EINPROGRESS, 0);
    CHECK_EQ("nonblocking", "the listener shows it", shows(l, POLLIN, PATIENCE_MS), POLLIN);
    CHECK_EQ("nonblocking", "who connects can send at last", shows(a, POLLOUT, PATIENCE_MS), POLLOUT);
    socklen_t length = sizeof error;
    getsockopt(a, SOL_SOCKET, SO_ERROR, &error, &length);
    CHECK_EQ("nonblocking", "without an error", error, 0);
    int b = accept4(l, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK_EQ("nonblocking", "accept4 sets O_NONBLOCK", fcntl(b, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    CHECK_EQ("nonblocking", "and FD_CLOEXEC", fcntl(b, F_GETFD), FD_CLOEXEC);
    CHECK_EQ("nonblocking", "read", last(read(b, big, 1)), EAGAIN);
    size_t sent = 0, got = 0;
    ssize_t part;
    while ((part = send(a, big, sizeof big, 0)) > 0)
        sent += part;
    CHECK_EQ("nonblocking", "a send that finds no room", last(part), EAGAIN);
    CHECK_EQ("nonblocking", "there is no room", shows(a, POLLOUT, 0), 0);
    while (got < sent && (part = recv(b, big, sizeof big, 0)) != 0)
        got += part > 0 ? part : (shows(b, POLLIN, PATIENCE_MS), 0);
    CHECK_EQ("nonblocking", "all that was sent comes", got, sent);
    CHECK_EQ("nonblocking", "then there is room again", shows(a, POLLOUT, PATIENCE_MS), POLLOUT);
    int off = 0;
    ioctl(a, FIONBIO, &off);
    CHECK_EQ("nonblocking", "FIONBIO is O_NONBLOCK", fcntl(a, F_GETFL) & O_NONBLOCK, 0);
    end((struct both){a, b});
    close(l);
    a = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    begun = last(connect(a, (void *)&address, sizeof address));
    if (begun == EINPROGRESS) {
        shows(a, POLLOUT, PATIENCE_MS);
        getsockopt(a, SOL_SOCKET, SO_ERROR, &begun, &length);
    }
    CHECK_EQ("nonblocking", "nobody listens any more", begun, ECONNREFUSED);
    close(a);
}

static void ends_are_told(void)
{
    struct both p = both();
    send(p.a, "rest", 4, 0);
    CHECK_EQ("ends", "half of a connection ends", shutdown(p.a, SHUT_WR), 0);
    CHECK_EQ("ends", "which shows", shows(p.b, POLLIN | POLLRDHUP, PATIENCE_MS) & POLLIN, POLLIN);
    CHECK_EQ("ends", "what was sent before is there", recv(p.b, big, 8, MSG_WAITALL), 4);
    CHECK_EQ("ends", "then the end", recv(p.b, big, 8, 0), 0);
    CHECK_EQ("ends", "and again", recv(p.b, big, 8, 0), 0);
    CHECK_EQ("ends", "it is told apart", shows(p.b, POLLRDHUP, 0), POLLRDHUP);
    CHECK_EQ("ends", "nothing more can be sent there", last(send(p.a, "x", 1, MSG_NOSIGNAL)), EPIPE);
    CHECK_EQ("ends", "of which MSG_NOSIGNAL gives no signal", broken_pipes, 0);
    CHECK_EQ("ends", "a write fails the same way", last(write(p.a, "x", 1)), EPIPE);
    CHECK_EQ("ends", "with a signal", broken_pipes, 1);
    CHECK_EQ("ends", "the other half goes on", send(p.b, "back", 4, 0), 4);
    CHECK_EQ("ends", "and comes", recv(p.a, big, 8, 0), 4);
    close(p.b);
    CHECK_EQ("ends", "a close is the end, too", recv(p.a, big, 8, 0), 0);
    CHECK_EQ("ends", "a hang-up shows", shows(p.a, POLLIN, PATIENCE_MS) & (POLLIN | POLLHUP), POLLIN | POLLHUP);
    close(p.a);

    p = both();
    close(p.b);
    shows(p.a, POLLIN, PATIENCE_MS);
    int tries = 0, why = 0;
    while (tries++ < 100 && (why = last(send(p.a, "x", 1, MSG_NOSIGNAL))) == 0)
        poll(NULL, 0, 1);
    CHECK_EITHER("ends", "sending to who has closed fails soon", why, EPIPE, ECONNRESET);
    close(p.a);

    p = both();
    shutdown(p.a, SHUT_RDWR);
    CHECK_EQ("ends", "both halves end", recv(p.a, big, 1, 0), 0);
    CHECK_EQ("ends", "on both sides", recv(p.b, big, 1, 0), 0);
    end(p);
}

static void copies_of_numbers(void)
{
    struct both p = both();
    int copy = dup(p.a), other = fcntl(p.a, F_DUPFD_CLOEXEC, 100);
    CHECK("copies", "F_DUPFD starts where it is told", other >= 100 && fcntl(other, F_GETFD) == FD_CLOEXEC);
    close(p.a);
    CHECK_EQ("copies", "a copy sends when the first is closed", send(copy, "x", 1, 0), 1);
    CHECK_EQ("copies", "so does another", send(other, "y", 1, 0), 1);
    CHECK_EQ("copies", "the peer has both", recv(p.b, big, 2, MSG_WAITALL), 2);
    int file = open("/dev/null", O_RDWR);
    CHECK_EQ("copies", "dup3 puts a file in a connection's place", dup3(file, other, 0), other);
    CHECK_EQ("copies", "which it now is", write(other, "z", 1), 1);
    CHECK_EQ("copies", "nothing of that comes", last(recv(p.b, big, 1, MSG_DONTWAIT)), EAGAIN);
    CHECK_EQ("copies", "dup2 puts a connection in a file's place", dup2(copy, file), file);
    close(copy);
    CHECK_EQ("copies", "the peer still hears", send(file, "w", 1, 0) + recv(p.b, big, 1, 0), 2);
    close_range(file, file, 0);
    CHECK_EQ("copies", "with the last copy the connection ends", recv(p.b, big, 1, 0), 0);
    CHECK_EQ("copies", "a closed number is none", last(send(file, "x", 1, 0)), EBADF);
    close(p.b);
    close(other);
}

static void several_at_a_time(void)
{
    struct both p = both();
    int ends[2];
    if (pipe(ends))
        exit(1);
    struct pollfd entries[3] = {{p.a, POLLIN, 0}, {ends[0], POLLIN, 0}, {-1, POLLIN, 0}};
    CHECK_EQ("poll", "nothing is ready", poll(entries, 3, 0), 0);
    int64_t began = now_ns();
    CHECK_EQ("poll", "nor in a while", poll(entries, 3, 20), 0);
    CHECK("poll", "which is waited", now_ns() - began >= 19000000);
    CHECK_EQ("poll", "a pipe becomes ready", write(ends[1], "x", 1), 1);
    CHECK_EQ("poll", "which poll says", poll(entries, 3, PATIENCE_MS), 1);
    send(p.b, "x", 1, 0);
    CHECK_EQ("poll", "a socket, too", shows(p.a, POLLIN, PATIENCE_MS), POLLIN);
    CHECK_EQ("poll", "both are", poll(entries, 3, PATIENCE_MS), 2);
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(p.a, &in);
    FD_SET(ends[0], &in);
    FD_SET(p.a, &out);
    struct timeval time = {.tv_sec = 20};
    int most = p.a > ends[0] ? p.a : ends[0];
    CHECK_EQ("poll", "select counts each", select(most + 1, &in, &out, NULL, &time), 3);
    CHECK("poll", "and says which", FD_ISSET(p.a, &in) && FD_ISSET(ends[0], &in) && FD_ISSET(p.a, &out));
    recv(p.a, big, 1, 0);
    FD_ZERO(&in);
    FD_SET(p.a, &in);
    time = (struct timeval){0};
    CHECK_EQ("poll", "what is not ready is taken out", select(p.a + 1, &in, NULL, NULL, &time), 0);
    CHECK("poll", "of the set", !FD_ISSET(p.a, &in));
    close(ends[0]);
    close(ends[1]);
    end(p);
}

static void event_polls(void)
{
    struct both p = both();
    int e = epoll_create1(EPOLL_CLOEXEC), ends[2];
    if (pipe(ends))
        exit(1);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = 7}, found[4];
    CHECK_EQ("epoll", "MOD of who is not there", last(epoll_ctl(e, EPOLL_CTL_MOD, p.a, &event)), ENOENT);
    CHECK_EQ("epoll", "ADD", epoll_ctl(e, EPOLL_CTL_ADD, p.a, &event), 0);
    CHECK_EQ("epoll", "ADD twice", last(epoll_ctl(e, EPOLL_CTL_ADD, p.a, &event)), EEXIST);
    struct epoll_event other = {.events = EPOLLIN, .data.u64 = 8};
    epoll_ctl(e, EPOLL_CTL_ADD, ends[0], &other);
    CHECK_EQ("epoll", "nothing is ready", epoll_wait(e, found, 4, 0), 0);
    send(p.b, "ab", 2, 0);
    CHECK_EQ("epoll", "a socket is", epoll_wait(e, found, 4, PATIENCE_MS), 1);
    CHECK("epoll", "by the data it was added with", found[0].data.u64 == 7 && found[0].events == EPOLLIN);
    CHECK_EQ("epoll", "by level it is told again", epoll_wait(e, found, 4, PATIENCE_MS), 1);
    recv(p.a, big, 1, 0);
    CHECK_EQ("epoll", "as long as something is left", epoll_wait(e, found, 4, PATIENCE_MS), 1);
    recv(p.a, big, 1, 0);
    CHECK_EQ("epoll", "and no longer", epoll_wait(e, found, 4, 0), 0);
    CHECK_EQ("epoll", "a pipe is told by the kernel", write(ends[1], "x", 1), 1);
    CHECK("epoll", "in the same wait", epoll_wait(e, found, 4, PATIENCE_MS) == 1 && found[0].data.u64 == 8);

    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    epoll_ctl(e, EPOLL_CTL_DEL, ends[0], NULL);
    CHECK_EQ("epoll", "MOD to edges", epoll_ctl(e, EPOLL_CTL_MOD, p.a, &event), 0);
    CHECK("epoll", "room is told", epoll_wait(e, found, 4, PATIENCE_MS) == 1 && found[0].events == EPOLLOUT);
    CHECK_EQ("epoll", "once", epoll_wait(e, found, 4, 0), 0);
    send(p.b, "a", 1, 0);
    CHECK("epoll", "what comes is told", epoll_wait(e, found, 4, PATIENCE_MS) == 1 && found[0].events & EPOLLIN);
    send(p.b, "b", 1, 0);
    CHECK_EQ("epoll", "what comes then, too", epoll_wait(e, found, 4, PATIENCE_MS), 1);
    recv(p.a, big, 2, MSG_WAITALL);

    event.events = EPOLLIN | EPOLLONESHOT;
    epoll_ctl(e, EPOLL_CTL_MOD, p.a, &event);
    send(p.b, "a", 1, 0);
    CHECK_EQ("epoll", "one shot is told", epoll_wait(e, found, 4, PATIENCE_MS), 1);
    CHECK_EQ("epoll", "and no second", epoll_wait(e, found, 4, 20), 0);
    epoll_ctl(e, EPOLL_CTL_MOD, p.a, &event);
    struct timespec time = {.tv_sec = 20};
    CHECK_EQ("epoll", "before it is asked for again", epoll_pwait2(e, found, 4, &time, NULL), 1);
    recv(p.a, big, 1, 0);

    event.events = EPOLLIN | EPOLLRDHUP;
    epoll_ctl(e, EPOLL_CTL_MOD, p.a, &event);
    close(p.b);
    CHECK_EQ("epoll", "an end is told", epoll_wait(e, found, 4, PATIENCE_MS), 1);
    CHECK_EQ("epoll", "as one", found[0].events & (EPOLLIN | EPOLLRDHUP), EPOLLIN | EPOLLRDHUP);
    CHECK_EQ("epoll", "DEL", epoll_ctl(e, EPOLL_CTL_DEL, p.a, NULL), 0);
    CHECK_EQ("epoll", "DEL twice", last(epoll_ctl(e, EPOLL_CTL_DEL, p.a, NULL)), ENOENT);
    CHECK_EQ("epoll", "nothing is left", epoll_wait(e, found, 4, 0), 0);
    close(p.a);

    int l = listener(SOCK_NONBLOCK), a;
    event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 9};
    CHECK_EQ("epoll", "a listener is added", epoll_ctl(e, EPOLL_CTL_ADD, l, &event), 0);
    CHECK_EQ("epoll", "and waits", epoll_wait(e, found, 4, 0), 0);
    a = connected(l);
    CHECK("epoll", "until somebody comes", epoll_wait(e, found, 4, PATIENCE_MS) == 1 && found[0].data.u64 == 9);
    end((struct both){a, accept(l, NULL, NULL)});
    close(l);
    CHECK_EQ("epoll", "who is closed is gone", epoll_wait(e, found, 4, 0), 0);
    close(ends[0]);
    close(ends[1]);
    close(e);
}

static void event_polls_in_others(void)
{
    int outer = epoll_create1(EPOLL_CLOEXEC), inner = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1}, found[4];
    CHECK_EQ("nested", "an event poll is added to another", epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event), 0);
    struct both p = both(), q = both();
    event.data.u64 = 2;
    epoll_ctl(inner, EPOLL_CTL_ADD, p.a, &event);
    CHECK_EQ("nested", "both are quiet", epoll_wait(outer, found, 4, 0) + epoll_wait(inner, found, 4, 0), 0);
    send(p.b, "a", 1, 0);
    CHECK_EQ("nested", "the outer one is told", epoll_wait(outer, found, 4, PATIENCE_MS), 1);
    CHECK("nested", "of the inner one", found[0].data.u64 == 1 && found[0].events == EPOLLIN);
    struct pollfd look = {inner, POLLIN, 0};
    CHECK_EQ("nested", "poll sees it", poll(&look, 1, PATIENCE_MS), 1);
    CHECK("nested", "which says of whom", epoll_wait(inner, found, 4, 0) == 1 && found[0].data.u64 == 2);
    CHECK_EQ("nested", "and stays ready", epoll_wait(outer, found, 4, 0), 1);
    recv(p.a, big, 1, 0);
    CHECK_EQ("nested", "poll sees that all is taken", poll(&look, 1, 0), 0);
    CHECK_EQ("nested", "and so does the outer one", epoll_wait(outer, found, 4, 0), 0);

    // The outer one has a stream, too.
    event.data.u64 = 3;
    epoll_ctl(outer, EPOLL_CTL_ADD, q.a, &event);
    CHECK_EQ("nested", "nothing is ready", epoll_wait(outer, found, 4, 0), 0);
    send(p.b, "b", 1, 0);
    CHECK("nested", "one within is told", epoll_wait(outer, found, 4, PATIENCE_MS) == 1 && found[0].data.u64 == 1);
    recv(p.a, big, 1, 0);
    CHECK_EQ("nested", "the inner one has nothing then", epoll_wait(inner, found, 4, 0), 0);
    send(q.b, "c", 1, 0);
    CHECK("nested", "and its own", epoll_wait(outer, found, 4, PATIENCE_MS) == 1 && found[0].data.u64 == 3);
    recv(q.a, big, 1, 0);

    fd_set set;
    FD_ZERO(&set);
    FD_SET(inner, &set);
    struct timeval time = {.tv_sec = 20};
    send(p.b, "d", 1, 0);
    CHECK_EQ("nested", "select sees an event poll", select(inner + 1, &set, NULL, NULL, &time), 1);
    end(p);
    end(q);
    CHECK_EQ("nested", "who is closed is gone", epoll_wait(outer, found, 4, 0), 0);
    close(inner);
    close(outer);
}

static void *sender(void *number)
{
    char block[100000];
    for (int at = 0; at < 100; at++) {
        memset(block, at, sizeof block);
        if (send((int)(intptr_t)number, block, sizeof block, 0) != sizeof block)
            return "short";
    }
    shutdown((int)(intptr_t)number, SHUT_WR);
    return NULL;
}

static void much_both_ways_at_once(void)
{
    struct both p = both();
    int sides[2] = {p.a, p.b};
    pthread_t threads[2];
    size_t counts[2] = {0}, wrong = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, sender, (void *)(intptr_t)sides[i]);
    for (int open = 2; open;) {
        struct pollfd entries[2] = {{sides[0], POLLIN, 0}, {sides[1], POLLIN, 0}};
        if (poll(entries, 2, PATIENCE_MS) <= 0)
            break;
        for (int i = 0; i < 2; i++) {
            ssize_t got = entries[i].revents ? recv(sides[i], big, sizeof big, MSG_DONTWAIT) : -1;
            for (ssize_t at = 0; at < got; at++)
                wrong += big[at] != (char)((counts[i] + at) / 100000);
            counts[i] += got > 0 ? got : 0;
            if (got == 0) {
                sides[i] = -1;
                open--;
            }
        }
    }
    void *words[2];
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &words[i]);
    CHECK("much", "everything is sent", !words[0] && !words[1]);
    CHECK("much", "everything comes", counts[0] == 10000000 && counts[1] == 10000000);
    CHECK_EQ("much", "as it was sent", wrong, 0);
    end(p);
}

// Both the child's first call and the parent's close have the connection go on in the child, whichever comes first.
static void forks_in_the_middle(void)
{
    static char sent[15000], echoed[15000];
    bool all = true;
    for (int round = 0; round < 20; round++) {
        struct both p = both();
        memset(sent, round, sizeof sent);
        all &= send(p.a, sent, 10000, 0) == 10000 && recv(p.b, big, 5000, MSG_WAITALL) == 5000;
        pid_t child = fork();
        if (child == 0) {
            for (ssize_t got, left = 10000; left; left -= got)
                if ((got = recv(p.b, big, left, 0)) <= 0 || send(p.b, big, got, 0) != got)
                    _exit(1);
            _exit(0);
        }
        close(p.b);
        int status = -1;
        all &= send(p.a, sent, 5000, 0) == 5000 && recv(p.a, echoed, 10000, MSG_WAITALL) == 10000;
        all &= !memcmp(sent, echoed, 10000) && recv(p.a, big, 1, 0) == 0;
        waitpid(child, &status, 0);
        all &= status == 0;
        close(p.a);
    }
    CHECK("processes", "a child goes on where its parent stops, however fast either is", all);
}

static void other_processes(void)
{
    struct both p = both();
    pid_t child = vfork();
    if (child == 0) {
        close_range(3, ~0u, 0);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ("processes", "a child that closes everything is another", status, 0);
    child = fork();
    if (child == 0) {
        close(p.a);
        close(p.b);
        _exit(3);
    }
    waitpid(child, &status, 0);
    CHECK_EQ("processes", "and so is one that was forked", WEXITSTATUS(status), 3);
    CHECK_EQ("processes", "the connection goes on", send(p.a, "x", 1, 0) + recv(p.b, big, 1, 0), 2);
    end(p);

    int l = listener(0);
    child = fork();
    if (child == 0) {
        int b = accept(l, NULL, NULL);
        ssize_t got = recv(b, big, 5, MSG_WAITALL);
        send(b, big, got, 0);
        // Without a close: the end of the process is the connection's.
        _exit(0);
    }
    int a = connected(l);
    send(a, "hello", 5, 0);
    CHECK_EQ("processes", "a child accepts what its parent listens for", recv(a, big, 5, MSG_WAITALL), 5);
    CHECK_EQ("processes", "its end is the connection's", recv(a, big, 1, 0), 0);
    waitpid(child, &status, 0);
    close(a);
    close(l);
}

int main(int count, char **arguments)
{
    self.active = true;
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, on_pipe);
    names_and_the_way(count > 1 && !strcmp(arguments[1], "stream"));
    every_call_moves_bytes();
    nothing_waits_that_must_not();
    ends_are_told();
    copies_of_numbers();
    several_at_a_time();
    event_polls();
    event_polls_in_others();
    much_both_ways_at_once();
    forks_in_the_middle();
    other_processes();
    printf("%d passed, %d failed\n", self.passed, self.failed);
    return self.failed != 0;
}
