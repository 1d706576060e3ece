// What is particular to SCIF between hosts, of which this one is node 0 and the other node 1: nodes, refusals, mappings, children,
// the ends of connections. As far.h has it, with "serve ADDRESS PORT" on one and "to ADDRESS PORT NODE" on the other.

#include "far.h"

#define HERE 0x100000l
#define THERE 0x200000l
// The last node of the list is a host that is not there.
#define NOBODY 2

static unsigned char bytes[200000];

static int connect_result(uint16_t node, uint16_t port)
{
    scif_epd_t e = scif_open();
    REQUIRE(e >= 0);
    struct scif_portID there = {.node = node, .port = port};
    int result = scif_connect(e, &there);
    int error = errno;
    scif_close(e);
    errno = error;
    return result;
}

static void nodes(void)
{
    uint16_t ids[8] = {9, 9, 9, 9}, own = 9;
    CHECK_EQ("scif hosts", "every host of the list is a node", scif_get_nodeIDs(ids, 8, &own), 3);
    CHECK("scif hosts", "in the order of the list", ids[0] == 0 && ids[1] == 1 && ids[2] == 2 && own == 0);
    // So that the other host answers at once.
    FAR_MUST(FAR_LISTEN);
    CHECK_REFUSED("scif 2.3", "nobody listens on that port of the other host", connect_result(1, 3), ECONNREFUSED);
    FAR_MUST(FAR_CLOSE_LISTENER);
    CHECK_REFUSED("scif 2.3", "a node that is not in the list", connect_result(3, 2050), ENODEV);
    CHECK_REFUSED("scif 2.3", "nobody listens here", connect_result(0, 2050), ECONNREFUSED);
    int64_t before = now_ns();
    CHECK_REFUSED("scif 2.3", "a host that is not there", connect_result(NOBODY, 2050), ECONNREFUSED);
    CHECK("scif 2.3", "... within the time that a card had", now_ns() - before < 15000000000);
}

// A listener that nobody accepts at: the call waits, and a signal ends it.
static void on_signal(int number) { (void)number; }

static void *interrupts(void *argument)
{
    pid_t caller = *(pid_t *)argument;
    await_asleep(getpid(), caller);
    kill(getpid(), SIGUSR1);
    return NULL;
}

static void interrupted(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    int64_t port = FAR_MUST(FAR_LISTEN);
    struct scif_portID there = at_port(port);
    REQUIRE((epd = scif_open()) >= 0);
    pid_t own = getpid();
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, interrupts, &own) == 0);
    CHECK_REFUSED("scif 2.3", "a signal ends the wait for a host that does not accept", scif_connect(epd, &there), EINTR);
    pthread_join(thread, NULL);
    FAR_MUST(FAR_CLOSE_LISTENER);
    port = FAR_MUST(FAR_LISTEN);
    connect_endpoint(epd, port);
    CHECK("scif 2.3", "... and the same endpoint connects later", talks());
    FAR_MUST(FAR_CLOSE_LISTENER);
    CHECK_REFUSED("scif 2.5", "after the listener was closed nobody listens", connect_result(1, (uint16_t)port),
                  ECONNREFUSED);
    CHECK("scif 2.5", "... and its connections go on", talks());
    part();
}

static int64_t far_has(unsigned seed, int64_t wanted)
{
    return at_far(FAR_RECV, wanted, seed, SCIF_RECV_BLOCK);
}

static void stream(void)
{
    fill(bytes, sizeof bytes, 1);
    CHECK_DONE("scif 2.6", "4095 bytes fit with nobody receiving", scif_send(epd, bytes, 4095, 1), 4095);
    CHECK_DONE("scif 2.6", "the next does not", scif_send(epd, bytes, 1, 0), 0);
    CHECK_EQ("scif 2.7", "and poll says so", ready(epd, POLLOUT, 50), 0);
    CHECK_EQ("scif 2.6", "all of them arrive", far_has(1, 4095), 4095);
    CHECK_EQ("scif 2.7", "then there is room", ready(epd, POLLOUT, PATIENCE_MS), POLLOUT);
    int wrong = 0;
    unsigned char *all = malloc(2 * 4095);
    for (int step = 0; step < 100; step++) {
        int length = 1 + step * 97 % 4095;
        fill(bytes, 4095, (unsigned)step);
        wrong += scif_send(epd, bytes, length, 1) != length;
        wrong += far_has(step, length) != length;
        wrong += at_far(FAR_SEND, length, step + 1, 1) != length;
        wrong += scif_recv(epd, all, length, 1) != length || !filled(all, length, (unsigned)step + 1);
    }
    free(all);
    CHECK_EQ("scif 2.6", "bytes of every length arrive whole at every place of the ring", wrong, 0);
    far_begins(FAR_RECV, 200000, 3, 1);
    fill(bytes, sizeof bytes, 3);
    CHECK_DONE("scif 2.6", "a long message goes as it is taken", scif_send(epd, bytes, 200000, 1), 200000);
    CHECK_EQ("scif 2.6", "... and arrives", far_ends(), 200000);
}

// Windows and mappings: what the page says of other hosts.
static void windows(void)
{
    REQUIRE(scif_register(epd, near_room, 4 * PAGE, HERE, BOTH, FIXED) == HERE);
    REQUIRE(at_far(FAR_REGISTER, 0, 4 * PAGE, THERE, BOTH, FIXED) == THERE);
    fill(near_room, 4 * PAGE, 1);
    FAR_MUST(FAR_FILL, 0, 4 * PAGE, 2);
    errno = 0;
    void *mapped = scif_mmap(NULL, PAGE, BOTH, 0, epd, THERE);
    CHECK("scif 3.4", "memory of another host cannot be mapped", mapped == SCIF_MMAP_FAILED && errno == ENODEV);
    CHECK_REFUSED("scif 3.4", "... nor this one's there", at_far(FAR_MMAP, HERE, PAGE, BOTH), ENODEV);

    // Windows are pages: what the program puts at their addresses later is not theirs.
    fresh_pages(near_room, PAGE);
    fill(near_room, PAGE, 9);
    FAR_MUST(FAR_READ, THERE, 4 * PAGE, HERE, SYNC);
    CHECK_EQ("SCIF-1", "a window keeps its pages", at_far(FAR_FILLED, 0, 4 * PAGE, 1), 1);
    FAR_MUST(FAR_FILL, 0, 4 * PAGE, 2);
    CHECK_DONE("scif 3.5", "and is written to where it was", at_far(FAR_WRITE, THERE, PAGE, HERE, SYNC), 0);
    CHECK("SCIF-1", "... not where its address is", filled(near_room, PAGE, 9));

    // Revoked: nothing lands, and the connection goes on.
    CHECK_DONE("scif 3.3", "a window is closed", scif_unregister(epd, HERE, 4 * PAGE), 0);
    fill(near_room, 4 * PAGE, 5);
    CHECK_REFUSED("scif 3.3", "then nobody writes to it", at_far(FAR_WRITE, THERE, PAGE, HERE, SYNC), ENXIO);
    CHECK_REFUSED("scif 3.3", "... nor reads", at_far(FAR_READ, THERE, PAGE, HERE, SYNC), ENXIO);
    CHECK("scif 3.3", "nothing landed", filled(near_room, 4 * PAGE, 5));
    CHECK_EQ("scif 3.3", "nor was anything read", at_far(FAR_FILLED, 0, 4 * PAGE, 2), 1);
    CHECK("scif 3.3", "and the connection goes on", talks());
}

// A child has the stream, and no copies: these are its parent's.
static void children(void)
{
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        fill(bytes, 64, 4);
        bool ok = scif_send(epd, bytes, 64, SCIF_SEND_BLOCK) == 64;
        ok &= scif_vreadfrom(epd, bytes, 64, THERE, SYNC) == -1 && errno == EOPNOTSUPP;
        ok &= filled(bytes, 64, 4);
        ok &= scif_recv(epd, bytes, 64, SCIF_RECV_BLOCK) == 64 && filled(bytes, 64, 6);
        _exit(ok ? 0 : 1);
    }
    CHECK_EQ("scif hosts", "a child sends by its parent's connection", far_has(4, 64), 64);
    CHECK_DONE("scif hosts", "and receives", at_far(FAR_SEND, 64, 6, 1), 64);
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ("scif hosts", "and its copies are refused", status, 0);
    CHECK("scif hosts", "the parent goes on", talks());
}

// What was sent before the end is received after it.
static void ends(void)
{
    CHECK_DONE("scif 2.5", "the other host sends", at_far(FAR_SEND, 100, 7, 1), 100);
    FAR_MUST(FAR_CLOSE);
    CHECK_EQ("scif 2.5", "and closes: the last bytes come", scif_recv(epd, bytes, 100, 1), 100);
    CHECK("scif 2.5", "... whole", filled(bytes, 100, 7));
    CHECK_REFUSED("scif 2.5", "then nothing", scif_recv(epd, bytes, 1, 1), ECONNRESET);
    CHECK_REFUSED("scif 2.5", "nothing can be sent", scif_send(epd, bytes, 1, 1), ECONNRESET);
    CHECK_REFUSED("scif 3.5", "nor copied", scif_vreadfrom(epd, bytes, 8, THERE, SYNC), ECONNRESET);
    CHECK_EQ("scif 2.7", "and poll says so", ready(epd, POLLIN, 0) & POLLHUP, POLLHUP);
    scif_close(epd);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    nodes();
    interrupted();
    connect_ends();
    stream();
    windows();
    children();
    ends();
    return end();
}
