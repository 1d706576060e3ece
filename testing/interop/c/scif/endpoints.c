// Every refusal of open, bind, listen, connect, accept, close, get_nodeIDs and poll, each with a proof that the endpoint
// is what it was before.

#include "far.h"

#include <sys/resource.h>

#define LOW 700     // below 1024: privileged
#define UNMAPPED ((void *)8)

static scif_epd_t open_one(void)
{
    scif_epd_t e = scif_open();
    REQUIRE(e >= 0);
    return e;
}

static scif_epd_t listening(int backlog, int *port)
{
    scif_epd_t e = open_one();
    *port = scif_bind(e, 0);
    REQUIRE(*port > 0 && scif_listen(e, backlog) == 0);
    return e;
}

// A number that no descriptor has.
static int closed_number(void)
{
    int number = fcntl(0, F_DUPFD_CLOEXEC, 700);
    REQUIRE(number >= 700 && close(number) == 0);
    return number;
}

// Every call with an endpoint, tried on a number that is none.
static void not_an_endpoint(int number, const char *what)
{
    struct scif_portID p = at_port(2000);
    scif_epd_t new_one = -7;
    int mark = -7;
    char byte = 'x';
    printf("# %s\n", what);
    CHECK_REFUSED("scif 2.1", "bind of no endpoint", scif_bind(number, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "listen on no endpoint", scif_listen(number, 1), EINVAL);
    CHECK_REFUSED("scif 2.1", "connect of no endpoint", scif_connect(number, &p), EINVAL);
    CHECK_REFUSED("scif 2.1", "accept on no endpoint", scif_accept(number, &p, &new_one, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "send on no endpoint", scif_send(number, &byte, 1, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "receive on no endpoint", scif_recv(number, &byte, 1, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "register with no endpoint",
                  scif_register(number, near_room, PAGE, 0, BOTH, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "unregister with no endpoint", scif_unregister(number, 0, PAGE), EINVAL);
    CHECK_REFUSED("scif 2.1", "mmap of no endpoint", scif_mmap(NULL, PAGE, BOTH, 0, number, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "readfrom of no endpoint", scif_readfrom(number, 0, 8, 0, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "writeto of no endpoint", scif_writeto(number, 0, 8, 0, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "vreadfrom of no endpoint", scif_vreadfrom(number, near_room, 8, 0, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "vwriteto of no endpoint", scif_vwriteto(number, near_room, 8, 0, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "mark of no endpoint", scif_fence_mark(number, SCIF_FENCE_INIT_SELF, &mark), EINVAL);
    CHECK_REFUSED("scif 2.1", "wait of no endpoint", scif_fence_wait(number, 0), EINVAL);
    CHECK_REFUSED("scif 2.1", "signal of no endpoint",
                  scif_fence_signal(number, 0, 1, 0, 1, SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL), EINVAL);
    CHECK("scif 2.1", "and nothing was stored", new_one == -7 && mark == -7 && byte == 'x' && p.port == 2000);
}

static void other_descriptors(void)
{
    int pipes[2], sockets[2], file = open("/dev/null", O_RDWR | O_CLOEXEC), data;
    REQUIRE(pipe2(pipes, O_CLOEXEC) == 0 && file >= 0);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    not_an_endpoint(-1, "a negative number");
    not_an_endpoint(INT32_MIN, "the lowest number");
    not_an_endpoint(INT32_MAX, "the highest number");
    not_an_endpoint(closed_number(), "a closed number");
    not_an_endpoint(file, "a file");
    not_an_endpoint(pipes[0], "a pipe");
    REQUIRE(write(sockets[1], "abcd", 4) == 4);
    not_an_endpoint(sockets[0], "a socket of another kind");
    char bytes[8];
    data = (int)read(sockets[0], bytes, 8);
    CHECK("scif 2.1", "and the socket has its bytes still", data == 4 && memcmp(bytes, "abcd", 4) == 0);
    CHECK_REFUSED("scif 2.5", "close of a closed number", scif_close(closed_number()), EINVAL);
    CHECK_REFUSED("scif 2.5", "close of a negative number", scif_close(-1), EINVAL);
    close(pipes[0]);
    close(pipes[1]);
    close(file);
    close(sockets[0]);
    close(sockets[1]);
}

// Numbers come back as something else: what stood there before must not answer.
static void reused_numbers(void)
{
    scif_epd_t e = open_one();
    REQUIRE(scif_bind(e, 0) > 0 && close(e) == 0);
    int file = open("/dev/null", O_RDWR | O_CLOEXEC);
    REQUIRE(file >= 0 && (file == e || dup2(file, e) == e));
    CHECK_REFUSED("scif 2.1", "a file at the number of an endpoint is no endpoint", scif_bind(e, 0), EINVAL);
    close(file);
    if (file != e)
        close(e);

    connect_ends();
    scif_epd_t old = epd, fresh = open_one();
    REQUIRE(dup2(fresh, old) == old);
    char byte = 1;
    CHECK_REFUSED("scif 2.1", "an endpoint over a connected one is not connected", scif_send(old, &byte, 1, 0), ENOTCONN);
    CHECK("scif 2.5", "the connection under it is gone", at_far(FAR_RECV, 1, 0, SCIF_RECV_BLOCK) == -1);
    CHECK_EQ("scif 2.5", "... with ECONNRESET", errno, ECONNRESET);
    CHECK("scif 2.1", "both numbers are the same endpoint", scif_bind(old, 0) > 0);
    CHECK_REFUSED("scif 2.1", "... bound by either", scif_bind(fresh, 0), EINVAL);
    close(fresh);
    part();
}

static void opening(void)
{
    scif_epd_t e = open_one();
    CHECK_EQ("scif 2.2", "a new endpoint is close-on-exec", fcntl(e, F_GETFD), FD_CLOEXEC);
    CHECK_EQ("scif 2.2", "its descriptor is its number", scif_get_fd(e), e);
    CHECK_DONE("scif 2.2", "close", scif_close(e), 0);
    CHECK_REFUSED("scif 2.5", "a second close", scif_close(e), EINVAL);

    struct rlimit before, none;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 3;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK_REFUSED("scif 2.2", "without a free descriptor", scif_open(), EMFILE);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    e = scif_open();
    CHECK("scif 2.2", "and open works again afterwards", e >= 0);
    scif_close(e);
}

static void binding(void)
{
    scif_epd_t e = open_one(), other = open_one();
    CHECK_REFUSED("scif 2.2", "a privileged port", scif_bind(e, LOW), EACCES);
    CHECK_REFUSED("scif 2.2", "the first port", scif_bind(e, 1), EACCES);
    CHECK_REFUSED("scif 2.2", "the last privileged port", scif_bind(e, 1023), EACCES);
    CHECK_REFUSED("scif 2.2", "it is unbound still", scif_listen(e, 1), EINVAL);
    int port = scif_bind(e, 0);
    CHECK("scif 1.4", "a chosen port is above 1088", port > SCIF_PORT_RSVD && port < 65536);
    CHECK_REFUSED("scif 2.2", "bound already", scif_bind(e, 0), EINVAL);
    CHECK_REFUSED("scif 2.2", "a privileged port comes before the state", scif_bind(e, LOW), EACCES);
    CHECK_REFUSED("scif 2.2", "a port taken", scif_bind(other, (uint16_t)port), EINVAL);
    int second = scif_bind(other, 0);
    CHECK("scif 2.2", "the one refused takes another", second > 0 && second != port);
    scif_close(other);
    CHECK_DONE("scif 2.2", "the bound one listens on its port", scif_listen(e, 1), 0);
    CHECK_REFUSED("scif 2.2", "bind while listening", scif_bind(e, 0), EISCONN);
    CHECK_REFUSED("scif 2.2", "... a privileged port", scif_bind(e, LOW), EACCES);
    scif_close(e);
    e = open_one();
    CHECK_DONE("scif 2.5", "the port is free after close", scif_bind(e, (uint16_t)port), port);
    scif_close(e);
    static const uint16_t PORTS[] = {1024, 1088, 65535};
    for (unsigned i = 0; i < 3; i++) {
        e = open_one();
        CHECK_DONE("scif 1.4", "the ports 1024, 1088 and 65535 are for everybody", scif_bind(e, PORTS[i]), PORTS[i]);
        scif_close(e);
    }
}

static void listening_states(void)
{
    scif_epd_t e = open_one();
    int port;
    CHECK_REFUSED("scif 2.2", "listen unbound", scif_listen(e, 1), EINVAL);
    REQUIRE(scif_bind(e, 0) > 0);
    CHECK_REFUSED("scif 2.2", "no backlog", scif_listen(e, 0), EINVAL);
    CHECK_REFUSED("scif 2.2", "a negative backlog", scif_listen(e, -1), EINVAL);
    CHECK_REFUSED("scif 2.2", "the lowest backlog", scif_listen(e, INT32_MIN), EINVAL);
    struct scif_portID peer;
    scif_epd_t new_one = -7;
    CHECK_REFUSED("scif 2.4", "it listens not yet", scif_accept(e, &peer, &new_one, 0), EINVAL);
    CHECK_DONE("scif 2.2", "a huge backlog is taken", scif_listen(e, INT32_MAX), 0);
    CHECK_REFUSED("scif 2.2", "listen twice", scif_listen(e, 1), EISCONN);
    CHECK_REFUSED("scif 2.2", "backlog comes before the state", scif_listen(e, 0), EINVAL);
    struct scif_portID somewhere = at_port(2000);
    CHECK_REFUSED("scif 2.3", "a listener connects nowhere", scif_connect(e, &somewhere), EOPNOTSUPP);
    char byte;
    CHECK_REFUSED("scif 2.6", "a listener sends nothing", scif_send(e, &byte, 1, 0), ENOTCONN);
    CHECK_REFUSED("scif 2.6", "a listener receives nothing", scif_recv(e, &byte, 1, 0), ENOTCONN);
    scif_close(e);

    e = listening(2, &port);
    struct scif_portID there = at_port(port);
    scif_epd_t asking[3];
    for (int i = 0; i < 3; i++) {
        asking[i] = open_one();
        set_nonblocking(asking[i], true);
    }
    for (int i = 0; i < 2; i++)
        CHECK_REFUSED("scif 2.3", "a request is queued", scif_connect(asking[i], &there), EINPROGRESS);
    CHECK_REFUSED("scif 2.3", "one more is decided at once", scif_connect(asking[2], &there), EINPROGRESS);
    CHECK("scif 2.3", "... as it shows", ready(asking[2], POLLOUT, PATIENCE_MS) & POLLOUT);
    CHECK_REFUSED("scif 2.3", "... refused by a full backlog", scif_connect(asking[2], &there), ECONNREFUSED);
    for (int i = 0; i < 2; i++) {
        CHECK_DONE("scif 2.4", "requests are taken", scif_accept(e, &peer, &new_one, 0), 0);
        int own = scif_connect(asking[i], &there);
        CHECK("scif 2.4", "... in the order they came", own == peer.port && peer.node == own_node());
        scif_close(new_one);
    }
    for (int i = 0; i < 3; i++)
        scif_close(asking[i]);
    scif_close(e);
}

static void connecting(void)
{
    int port;
    scif_epd_t listener = listening(4, &port), e = open_one(), new_one = -7;
    struct scif_portID there = at_port(port), nobody = at_port(65432), zero = at_port(0), peer;
    struct scif_portID lost = {.node = 250, .port = (uint16_t)port};
    CHECK_REFUSED("scif 2.3", "connect to NULL", scif_connect(e, NULL), EINVAL);
    CHECK_REFUSED("scif 2.3", "connect to port 0", scif_connect(e, &zero), EINVAL);
    CHECK_REFUSED("scif 2.3", "connect to an unknown node", scif_connect(e, &lost), ENODEV);
    lost.node = 65535;
    CHECK_REFUSED("scif 2.3", "connect to a node beyond all", scif_connect(e, &lost), ENODEV);
    CHECK_REFUSED("scif 2.3", "an unknown node comes before the state", scif_connect(listener, &lost), ENODEV);
    CHECK_REFUSED("scif 2.3", "connect to an address that is not mapped", scif_connect(e, UNMAPPED), EFAULT);
    CHECK_REFUSED("scif 2.1", "it is unbound still", scif_listen(e, 1), EINVAL);
    CHECK_REFUSED("scif 2.3", "nobody listens", scif_connect(e, &nobody), ECONNREFUSED);
    CHECK_REFUSED("scif 2.1", "a refused endpoint is bound", scif_bind(e, 0), EINVAL);
    CHECK_REFUSED("scif 2.3", "refused again", scif_connect(e, &nobody), ECONNREFUSED);
    CHECK_EQ("scif 2.7", "a refused endpoint shows POLLERR", ready(e, POLLIN | POLLOUT, 0), POLLERR);

    set_nonblocking(e, true);
    CHECK_REFUSED("scif 2.3", "undecided", scif_connect(e, &there), EINPROGRESS);
    CHECK_REFUSED("scif 2.3", "still undecided", scif_connect(e, &there), EINPROGRESS);
    CHECK_EQ("scif 2.7", "undecided shows nothing", ready(e, POLLIN | POLLOUT, 0), 0);
    struct pollfd plain = {.fd = e, .events = POLLIN | POLLOUT, .revents = 0};
    CHECK_EQ("scif 2.7", "... in plain poll too", poll(&plain, 1, 0), 0);
    CHECK_REFUSED("scif 2.2", "bind while connecting", scif_bind(e, 0), EISCONN);
    CHECK_REFUSED("scif 2.2", "listen while connecting", scif_listen(e, 1), EISCONN);
    char byte = 1;
    CHECK_REFUSED("scif 2.6", "send while connecting", scif_send(e, &byte, 1, 0), ENOTCONN);
    CHECK_EQ("scif 2.7", "the listener shows POLLIN", ready(listener, POLLIN, PATIENCE_MS), POLLIN);
    CHECK_DONE("scif 2.4", "accept", scif_accept(listener, &peer, &new_one, 0), 0);
    CHECK_EQ("scif 2.7", "decided shows POLLOUT", ready(e, POLLIN | POLLOUT, PATIENCE_MS), POLLOUT);
    errno = UNTOUCHED;
    int own = scif_connect(e, &there);
    CHECK("scif 2.3", "collected: the own port", own > 0 && own == peer.port && errno == UNTOUCHED);
    CHECK_REFUSED("scif 2.3", "connected already", scif_connect(e, &there), EISCONN);
    CHECK_REFUSED("scif 2.3", "the accepted one is connected already", scif_connect(new_one, &there), EISCONN);
    CHECK_REFUSED("scif 2.2", "bind while connected", scif_bind(e, 0), EISCONN);
    CHECK_REFUSED("scif 2.2", "bind of an accepted one", scif_bind(new_one, 0), EISCONN);
    CHECK_REFUSED("scif 2.2", "listen while connected", scif_listen(e, 1), EISCONN);
    CHECK_REFUSED("scif 2.4", "accept on a connected one", scif_accept(e, &peer, &own, 0), EINVAL);
    CHECK_EQ("scif 2.2", "an accepted endpoint is inherited by programs that are started", fcntl(new_one, F_GETFD), 0);
    CHECK("scif 2.3", "O_NONBLOCK is shown", fcntl(e, F_GETFL) & O_NONBLOCK);
    scif_close(new_one);
    CHECK_REFUSED("scif 2.3", "connect of a disconnected one", scif_connect(e, &there), EINVAL);
    CHECK_REFUSED("scif 2.2", "listen on a disconnected one", scif_listen(e, 1), EINVAL);
    scif_close(e);

    // Refused while it waits: the listener closes.
    e = open_one();
    set_nonblocking(e, true);
    CHECK_REFUSED("scif 2.3", "undecided", scif_connect(e, &there), EINPROGRESS);
    REQUIRE(scif_close(listener) == 0);
    CHECK("scif 2.7", "a late refusal shows POLLOUT", ready(e, POLLOUT, PATIENCE_MS) & POLLOUT);
    CHECK_REFUSED("scif 2.5", "a closed listener refuses those that wait", scif_connect(e, &there), ECONNREFUSED);
    CHECK_REFUSED("scif 2.1", "and they stay bound", scif_bind(e, 0), EINVAL);
    // The same descriptor connects after all.
    listener = listening(1, &port);
    there = at_port(port);
    CHECK_REFUSED("scif 2.3", "another try", scif_connect(e, &there), EINPROGRESS);
    CHECK_DONE("scif 2.4", "... is accepted", scif_accept(listener, &peer, &new_one, SCIF_ACCEPT_SYNC), 0);
    CHECK("scif 2.3", "... decided", ready(e, POLLOUT, PATIENCE_MS) & POLLOUT);
    CHECK("scif 2.3", "... collected", scif_connect(e, &there) == peer.port);
    CHECK_EQ("scif 2.6", "and bytes go through", scif_send(e, &byte, 1, 1), 1);
    CHECK_EQ("scif 2.6", "... and arrive", scif_recv(new_one, &byte, 1, 1), 1);
    scif_close(new_one);
    scif_close(e);
    scif_close(listener);
}

// With room for no descriptor, then one, and so on: the request is not lost by any of the refusals.
static void accept_with_few_descriptors(scif_epd_t listener, struct scif_portID *peer, scif_epd_t *new_one)
{
    struct rlimit before, few;
    int refused = 0, others = 0, result = -1;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = before;
    for (few.rlim_cur = 3; result && few.rlim_cur < 256; few.rlim_cur++) {
        REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
        errno = 0;
        result = scif_accept(listener, peer, new_one, 0);
        refused += result == -1 && errno == EMFILE;
        others += result == -1 && errno != EMFILE;
    }
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK("scif 2.4", "without a free descriptor accept is refused with EMFILE", refused > 0 && others == 0);
    CHECK_EQ("scif 2.4", "and with one the request is accepted", result, 0);
}

static void accepting(void)
{
    int port;
    scif_epd_t listener = listening(4, &port), new_one = -7, e = open_one();
    struct scif_portID peer = {77, 77}, there = at_port(port);
    CHECK_REFUSED("scif 2.4", "nothing queued", scif_accept(listener, &peer, &new_one, 0), EAGAIN);
    CHECK_REFUSED("scif 2.4", "unknown flags", scif_accept(listener, &peer, &new_one, 2), EINVAL);
    CHECK_REFUSED("scif 2.4", "unknown flags beside SYNC", scif_accept(listener, &peer, &new_one, 3), EINVAL);
    CHECK_REFUSED("scif 2.4", "negative flags", scif_accept(listener, &peer, &new_one, -1), EINVAL);
    CHECK_REFUSED("scif 2.4", "no place for the peer", scif_accept(listener, NULL, &new_one, 0), EINVAL);
    CHECK_REFUSED("scif 2.4", "no place for the descriptor", scif_accept(listener, &peer, NULL, 0), EINVAL);
    CHECK_REFUSED("scif 2.4", "accept on an unbound one", scif_accept(e, &peer, &new_one, 0), EINVAL);
    CHECK("scif 2.4", "nothing was stored", new_one == -7 && peer.node == 77 && peer.port == 77);
    set_nonblocking(e, true);
    REQUIRE(scif_connect(e, &there) == -1 && errno == EINPROGRESS);
    CHECK_REFUSED("scif 2.4", "the peer's place is not mapped", scif_accept(listener, UNMAPPED, &new_one, 0), EFAULT);
    CHECK_REFUSED("scif 2.4", "the descriptor's place is not mapped", scif_accept(listener, &peer, UNMAPPED, 0),
                  EFAULT);
    CHECK_EQ("scif 2.4", "and the request waits still", ready(listener, POLLIN, 0), POLLIN);
    accept_with_few_descriptors(listener, &peer, &new_one);
    CHECK("scif 2.4", "... and collected", ready(e, POLLOUT, PATIENCE_MS) && scif_connect(e, &there) == peer.port);
    scif_close(new_one);
    scif_close(e);

    // A connector that gave up: no connection is made of it.
    e = open_one();
    set_nonblocking(e, true);
    REQUIRE(scif_connect(e, &there) == -1 && errno == EINPROGRESS);
    scif_close(e);
    new_one = -7;
    CHECK_REFUSED("scif 2.4", "the connector vanished", scif_accept(listener, &peer, &new_one, 0), EAGAIN);
    CHECK_EQ("scif 2.4", "and no descriptor came of it", new_one, -7);

    // One that closed after accept, but before anybody looked: its bytes are there.
    REQUIRE((e = open_one()) >= 0);
    set_nonblocking(e, true);
    REQUIRE(scif_connect(e, &there) == -1 && errno == EINPROGRESS);
    REQUIRE(scif_accept(listener, &peer, &new_one, 0) == 0);
    REQUIRE(ready(e, POLLOUT, PATIENCE_MS) && scif_connect(e, &there) > 0);
    REQUIRE(scif_send(e, "last words", 10, 1) == 10 && scif_close(e) == 0);
    char bytes[16] = "";
    CHECK_DONE("scif 2.5", "what was sent can be received", scif_recv(new_one, bytes, 16, 0), 10);
    CHECK("scif 2.5", "... whole", memcmp(bytes, "last words", 10) == 0);
    CHECK_REFUSED("scif 2.6", "then the end", scif_recv(new_one, bytes, 16, 0), ECONNRESET);
    scif_close(new_one);
    scif_close(listener);

    // Accepted connections outlive the listener.
    connect_ends();
    CHECK("scif 2.5", "endpoints accepted before outlive the listener", talks());
    part();
}

static void node_numbers(void)
{
    uint16_t nodes[8] = {0}, own = 0xffff;
    memset(nodes, 0xee, sizeof nodes);
    CHECK("scif 2.2", "the own node is counted", scif_get_nodeIDs(nodes, 8, &own) >= 1);
    int count = scif_get_nodeIDs(nodes, 8, &own), among = 0;
    for (int i = 0; i < count && i < 8; i++) {
        among += nodes[i] == own;
        CHECK("scif 2.2", "nodes are ascending", i == 0 || nodes[i] > nodes[i - 1]);
    }
    CHECK_EQ("scif 2.2", "the own node is among them", among, 1);
    CHECK("scif 2.2", "no more is stored than there is", count >= 8 || nodes[count] == 0xeeee);
    memset(nodes, 0xee, sizeof nodes);
    CHECK_DONE("scif 2.2", "no more is stored than asked for", scif_get_nodeIDs(nodes, 1, &own), count);
    CHECK("scif 2.2", "... indeed", nodes[0] != 0xeeee && nodes[1] == 0xeeee);
    CHECK_DONE("scif 2.2", "nothing but the count", scif_get_nodeIDs(NULL, 0, &own), count);
    CHECK_REFUSED("scif 2.2", "nodes not mapped", scif_get_nodeIDs(UNMAPPED, 4, &own), EFAULT);
    CHECK_REFUSED("scif 2.2", "own node's place not mapped", scif_get_nodeIDs(nodes, 4, UNMAPPED), EFAULT);
}

static void polling(void)
{
    int pipes[2];
    REQUIRE(pipe2(pipes, O_CLOEXEC) == 0);
    connect_ends();
    scif_epd_t fresh = open_one();
    struct scif_pollepd set[] = {
        {.epd = epd, .events = SCIF_POLLIN | SCIF_POLLOUT},
        {.epd = -1, .events = SCIF_POLLIN, .revents = 77},
        {.epd = closed_number(), .events = SCIF_POLLIN},
        {.epd = pipes[1], .events = SCIF_POLLOUT},
        {.epd = fresh, .events = SCIF_POLLIN | SCIF_POLLOUT},
    };
    CHECK_DONE("scif 2.7", "poll of everything", scif_poll(set, 5, 1000), 4);
    CHECK_EQ("scif 2.7", "a connected one has room", set[0].revents, SCIF_POLLOUT);
    CHECK_EQ("scif 2.7", "a negative number is skipped", set[1].revents, 0);
    CHECK_EQ("scif 2.7", "a closed number is shown", set[2].revents, SCIF_POLLNVAL);
    CHECK_EQ("scif 2.7", "other descriptors may be mixed in", set[3].revents, SCIF_POLLOUT);
    CHECK_EQ("scif 2.7", "an unbound one shows POLLERR", set[4].revents, SCIF_POLLERR);
    REQUIRE(scif_bind(fresh, 0) > 0);
    CHECK_EQ("scif 2.7", "a bound one shows POLLERR", ready(fresh, POLLIN, 1000), SCIF_POLLERR);
    CHECK_REFUSED("scif 2.7", "entries not mapped", scif_poll(UNMAPPED, 1, 0), EFAULT);
    CHECK_REFUSED("scif 2.7", "more entries than descriptors", scif_poll(set, UINT32_MAX, 0), EINVAL);
    CHECK_DONE("scif 2.7", "no entries", scif_poll(NULL, 0, 0), 0);
    set[0].events = SCIF_POLLIN;
    int64_t began = now_ns();
    CHECK_DONE("scif 2.7", "nothing comes in time", scif_poll(set, 1, 30), 0);
    CHECK("scif 2.7", "and the time was waited out", now_ns() - began >= 30000000);
    REQUIRE(at_far(FAR_SEND, 3, 1, 0) == 3);
    CHECK_EQ("scif 2.7", "a byte shows", ready(epd, POLLIN, PATIENCE_MS), POLLIN);
    char bytes[4];
    REQUIRE(scif_recv(epd, bytes, 2, 0) == 2);
    CHECK_EQ("scif 2.7", "... as long as one is unread", ready(epd, POLLIN, 0), POLLIN);
    REQUIRE(scif_recv(epd, bytes, 2, 0) == 1);
    CHECK_EQ("scif 2.7", "... and no longer", ready(epd, POLLIN, 0), 0);
    unsigned char ring[4095] = {0};
    REQUIRE(scif_send(epd, ring, 4095, 0) == 4095);
    CHECK_EQ("scif 2.7", "a full direction has no POLLOUT", ready(epd, POLLOUT, 0), 0);
    REQUIRE(at_far(FAR_RECV, 1, 0, 0) != -1);
    CHECK_EQ("scif 2.7", "one byte of room shows", ready(epd, POLLOUT, PATIENCE_MS), POLLOUT);
    REQUIRE(at_far(FAR_SEND, 3, 1, 0) == 3);
    FAR_MUST(FAR_CLOSE);
    CHECK_EQ("scif 2.7", "a disconnected one with bytes", ready(epd, POLLIN, PATIENCE_MS) & (POLLIN | POLLHUP),
             POLLIN | POLLHUP);
    REQUIRE(scif_recv(epd, bytes, 4, 0) == 3);
    CHECK_EQ("scif 2.7", "a disconnected one without", ready(epd, POLLIN, 0), POLLHUP);
    scif_close(epd);
    scif_close(fresh);
    close(pipes[0]);
    close(pipes[1]);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    opening();
    other_descriptors();
    binding();
    listening_states();
    connecting();
    accepting();
    reused_numbers();
    node_numbers();
    polling();
    return end();
}
