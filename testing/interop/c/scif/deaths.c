// Processes that are killed in the middle of a call, and calls that a signal interrupts: who is left sees the end, takes
// what was sent, and goes on.

#include "../harness.h"
#include "../asleep.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <scif.h>

#define PAGE 4096l
#define BOTH (SCIF_PROT_READ | SCIF_PROT_WRITE)
#define SYNC SCIF_RMA_SYNC
#define LARGE (1l << 20)

static scif_epd_t listener = -1, epd = -1;
static struct scif_portID there;
static unsigned char bytes[200000];
static pid_t child;

static short ready(scif_epd_t e, short events, int timeout)
{
    struct scif_pollepd p = {.epd = e, .events = events, .revents = 0};
    REQUIRE(scif_poll(&p, 1, timeout) >= 0);
    return p.revents;
}

// ---- a child with a connection to this process -------------------------------------------------------------------

enum call { IDLE, RECEIVE, SEND, POLL, ACCEPT, CONNECT, TRANSFER, MAP };

static void be_child(enum call call, int tell)
{
    static char text[16];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    scif_close(listener);
    scif_epd_t own = scif_open();
    if (call == ACCEPT) {
        struct scif_portID peer;
        int port = scif_bind(own, 0);
        scif_epd_t accepted;
        if (port <= 0 || scif_listen(own, 4) || write(tell, &port, sizeof port) != sizeof port)
            _exit(1);
        scif_accept(own, &peer, &accepted, SCIF_ACCEPT_SYNC);
        _exit(1);
    }
    int port = call == CONNECT ? 1 : 0;
    if (call == CONNECT && write(tell, &port, sizeof port) != sizeof port)
        _exit(1);
    if (scif_connect(own, &there) < 0 || write(tell, &port, sizeof port) != sizeof port)
        _exit(1);
    if (scif_send(own, "last", 4, 1) != 4)
        _exit(1);
    struct scif_pollepd p = {.epd = own, .events = SCIF_POLLIN, .revents = 0};
    switch (call) {
    case RECEIVE:
        scif_recv(own, text, 16, 1);
        break;
    case SEND:
        scif_send(own, bytes, sizeof bytes, 1);
        break;
    case POLL:
        scif_poll(&p, 1, -1);
        break;
    case TRANSFER: {
        unsigned char *large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        off_t window;
        if (scif_recv(own, &window, 8, 1) != 8)
            _exit(1);
        for (int i = 0;; i++) {
            memset(large, i, LARGE);
            if (scif_vwriteto(own, large, LARGE, window, i % 2 ? SYNC : 0) || scif_vreadfrom(own, large, LARGE, window, 0))
                _exit(1);
        }
    }
    case MAP: {
        off_t window;
        if (scif_recv(own, &window, 8, 1) != 8)
            _exit(1);
        volatile uint64_t *mapped = scif_mmap(NULL, PAGE, BOTH, 0, own, window);
        if (mapped == SCIF_MMAP_FAILED)
            _exit(1);
        for (uint64_t i = 1;; i++)
            *mapped = i;
    }
    default:
        pause();
    }
    _exit(1);
}

// Starts it; returns what it told. It is connected unless it accepts or still connects.
static int start_child(enum call call)
{
    int told[2], value = 0;
    REQUIRE(pipe2(told, O_CLOEXEC) == 0);
    fflush(stdout);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0)
        be_child(call, told[1]);
    close(told[1]);
    if (call != ACCEPT && call != CONNECT) {
        struct scif_portID peer;
        REQUIRE(scif_accept(listener, &peer, &epd, SCIF_ACCEPT_SYNC) == 0);
    }
    REQUIRE(read(told[0], &value, sizeof value) == sizeof value);
    close(told[0]);
    return value;
}

static void kill_child(void)
{
    int status;
    REQUIRE(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ("scif 3.8", "it was still in its call when it was killed", status, SIGKILL);
}

// What the survivor sees: the bytes left, then the end.
static void sees_the_end(void)
{
    char text[8] = "";
    CHECK("scif 3.8", "the end shows", ready(epd, SCIF_POLLIN, PATIENCE_MS) & SCIF_POLLHUP);
    CHECK_EQ("scif 2.6", "what was sent before is received", scif_recv(epd, text, 4, 1), 4);
    CHECK("scif 2.6", "... whole", memcmp(text, "last", 4) == 0);
    int left, sum = 0;
    while ((left = scif_recv(epd, bytes, sizeof bytes, 0)) > 0)
        sum += left;
    CHECK("scif 2.6", "then the end", left == -1 && errno == ECONNRESET && sum <= 4095);
    CHECK("scif 2.6", "nothing is sent any more", scif_send(epd, bytes, 1, 1) == -1 && errno == ECONNRESET);
    CHECK("scif 3.8", "nothing is registered any more",
          scif_register(epd, bytes, PAGE, 0, BOTH, 0) == -1 && (errno == ECONNRESET || errno == EINVAL));
    CHECK_EQ("scif 2.5", "and it is closed", scif_close(epd), 0);
}

// The other process is killed while it waits in a call.
static void killed_in(enum call call, const char *what)
{
    printf("# killed in %s\n", what);
    start_child(call);
    await_asleep(child, child);
    kill_child();
    sees_the_end();
}

static void killed_accepting(void)
{
    printf("# killed in accept\n");
    struct scif_portID port = there;
    port.port = (uint16_t)start_child(ACCEPT);
    await_asleep(child, child);
    kill_child();
    scif_epd_t e = scif_open();
    CHECK("scif 2.3", "nobody listens any more", scif_connect(e, &port) == -1 && errno == ECONNREFUSED);
    scif_close(e);
}

static void killed_connecting(void)
{
    printf("# killed in connect\n");
    start_child(CONNECT);
    await_asleep(child, child);
    CHECK_EQ("scif 2.7", "its request waits", ready(listener, SCIF_POLLIN, PATIENCE_MS), SCIF_POLLIN);
    kill_child();
    struct scif_portID peer;
    scif_epd_t e = -7;
    CHECK("scif 2.4", "a connector that vanished is no connection",
          scif_accept(listener, &peer, &e, 0) == -1 && errno == EAGAIN && e == -7);
    // With SYNC accept goes on waiting: for the next one.
    start_child(CONNECT);
    await_asleep(child, child);
    kill_child();
    start_child(RECEIVE);
    CHECK_EQ("scif 2.4", "and accept takes the next", scif_recv(epd, bytes, 4, 1), 4);
    kill_child();
    scif_close(epd);
}

// ---- this process waits while the other is killed ----------------------------------------------------------------

static pid_t main_thread;

static void *kill_when_asleep(void *unused)
{
    (void)unused;
    await_asleep(getpid(), main_thread);
    kill(child, SIGKILL);
    return NULL;
}

static int waits_in(enum call call)
{
    pthread_t thread;
    int got = -7, status;
    struct scif_pollepd p = {.epd = epd, .events = SCIF_POLLIN, .revents = 0};
    REQUIRE(call == CONNECT || scif_recv(epd, bytes, 4, 1) == 4);
    REQUIRE(pthread_create(&thread, NULL, kill_when_asleep, NULL) == 0);
    errno = 0;
    if (call == RECEIVE)
        got = scif_recv(epd, bytes, 100, 1);
    else if (call == SEND)
        got = scif_send(epd, bytes, sizeof bytes, 1);
    else if (call == POLL)
        got = scif_poll(&p, 1, -1) == 1 ? p.revents : -1;
    else
        got = scif_connect(epd, &there);
    int error = errno;
    pthread_join(thread, NULL);
    REQUIRE(waitpid(child, &status, 0) == child);
    errno = error;
    return got;
}

static void survivors(void)
{
    printf("# the other is killed while this process waits\n");
    start_child(IDLE);
    CHECK("scif 3.8", "a blocking receive ends", waits_in(RECEIVE) == -1 && errno == ECONNRESET);
    scif_close(epd);
    start_child(IDLE);
    CHECK_EQ("scif 3.8", "a blocking send ends with what was taken", waits_in(SEND), 4095);
    CHECK("scif 3.8", "... and is reset the next time", scif_send(epd, bytes, 1, 1) == -1 && errno == ECONNRESET);
    scif_close(epd);
    start_child(IDLE);
    CHECK("scif 3.8", "poll ends with POLLHUP", waits_in(POLL) & SCIF_POLLHUP);
    scif_close(epd);
    // A listener that nobody accepts on.
    struct scif_portID before = there;
    there.port = (uint16_t)start_child(ACCEPT);
    await_asleep(child, child);
    REQUIRE(kill(child, SIGSTOP) == 0 && (epd = scif_open()) >= 0);
    CHECK("scif 2.3", "connect is refused when the listener's process is killed",
          waits_in(CONNECT) == -1 && errno == ECONNREFUSED);
    there = before;
    scif_close(epd);
}

// ---- memory ------------------------------------------------------------------------------------------------------

static void killed_in_transfers(void)
{
    printf("# killed in the middle of transfers, and while it stores through a mapping\n");
    unsigned char *pages = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    for (int round = 0; round < 12; round++) {
        enum call call = round % 2 ? MAP : TRANSFER;
        memset(pages, 0, LARGE);
        start_child(call);
        REQUIRE(scif_recv(epd, bytes, 4, 1) == 4);
        off_t window = scif_register(epd, pages, LARGE, 0x10000, BOTH, SCIF_MAP_FIXED);
        REQUIRE(window == 0x10000 && scif_send(epd, &window, 8, 1) == 8);
        // It is at work when its bytes come.
        volatile unsigned char *word = pages + (call == TRANSFER ? LARGE - 1 : 0);
        int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
        while (*word == 0 && now_ns() < deadline)
            sched_yield();
        REQUIRE(*word);
        if (round % 3 == 0)
            CHECK_EQ("scif 3.3", "a window is closed while the other is at work", scif_unregister(epd, window, LARGE), 0);
        int status;
        REQUIRE(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
        CHECK("scif 3.8", "the end shows", ready(epd, 0, PATIENCE_MS) & SCIF_POLLHUP);
        CHECK_EQ("scif 2.5", "the endpoint is closed", scif_close(epd), 0);
        // Nothing lands any more: nobody is left who could.
        memset(pages, 0x5a, LARGE);
        size_t wrong = 0;
        for (long i = 0; i < LARGE; i++)
            wrong += pages[i] != 0x5a;
        CHECK_EQ("scif 3.8", "and its memory is its own", wrong, 0);
    }
    munmap(pages, LARGE);
}

// ---- signals -----------------------------------------------------------------------------------------------------

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

// A signal every 5 ms, for ever: one of them comes while the call waits.
static void alarms(bool on, int flags)
{
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = flags};
    struct itimerval often = {{0, on ? 5000 : 0}, {0, on ? 5000 : 0}};
    REQUIRE(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
}

#define INTERRUPTED(id, sentence, call)                                                                              \
    do {                                                                                                             \
        signals = 0;                                                                                                 \
        alarms(true, 0);                                                                                             \
        errno = 0;                                                                                                   \
        int result_ = (int)(call), error_ = errno;                                                                   \
        alarms(false, 0);                                                                                            \
        CHECK(id, sentence, result_ == -1 && error_ == EINTR && signals > 0);                                        \
    } while (0)

static void interrupted(void)
{
    printf("# signals\n");
    struct scif_portID peer;
    scif_epd_t e = -7;
    INTERRUPTED("scif 2.4", "accept ends with EINTR", scif_accept(listener, &peer, &e, SCIF_ACCEPT_SYNC));
    start_child(RECEIVE);
    REQUIRE(scif_recv(epd, bytes, 4, 1) == 4);
    await_asleep(child, child);
    INTERRUPTED("scif 2.6", "receive ends with EINTR", scif_recv(epd, bytes, 10, 1));
    struct scif_pollepd p = {.epd = epd, .events = SCIF_POLLIN, .revents = 0};
    INTERRUPTED("scif 2.7", "poll ends with EINTR", scif_poll(&p, 1, -1));
    int status;
    REQUIRE(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    // The receiver may have taken its 16 bytes before it stopped; it takes no more.
    int sent = 0, once;
    while ((once = scif_send(epd, bytes, 4095, 0)) > 0)
        sent += once;
    REQUIRE(once == 0);
    INTERRUPTED("scif 2.6", "send ends with EINTR", scif_send(epd, bytes, 10, 1));
    CHECK_EQ("scif 2.6", "... and nothing was taken", scif_send(epd, bytes, 10, 0), 0);
    CHECK("scif 2.6", "(the ring was full)", sent >= 4095 && sent <= 4095 + 16);
    REQUIRE(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && scif_close(epd) == 0);

    // Bytes that were moved before the signal count.
    start_child(IDLE);
    signals = 0;
    alarms(true, 0);
    int got = scif_recv(epd, bytes, 100, 1);
    alarms(false, 0);
    CHECK("scif 2.6", "a receive that had begun gives what it has", got == 4 && signals > 0);
    signals = 0;
    alarms(true, SA_RESTART);
    got = scif_send(epd, bytes, 5000, 1);
    alarms(false, 0);
    CHECK("scif 2.6", "a send that had begun says what it took", got == 4095 && signals > 0);
    REQUIRE(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && scif_close(epd) == 0);

    // connect: the same descriptor connects afterwards, once.
    scif_epd_t own = scif_open(), late = scif_open();
    int port = scif_bind(late, 0);
    struct scif_portID to = {.node = there.node, .port = (uint16_t)port};
    REQUIRE(own >= 0 && port > 0 && scif_listen(late, 4) == 0);
    INTERRUPTED("scif 2.3", "connect ends with EINTR", scif_connect(own, &to));
    REQUIRE(fcntl(own, F_SETFL, O_NONBLOCK) == 0);
    REQUIRE(scif_connect(own, &to) == -1 && errno == EINPROGRESS);
    CHECK_EQ("scif 2.4", "its request is accepted after all", scif_accept(late, &peer, &e, SCIF_ACCEPT_SYNC), 0);
    CHECK("scif 2.3", "and collected", (ready(own, SCIF_POLLOUT, PATIENCE_MS) & SCIF_POLLOUT) && scif_connect(own, &to) > 0);
    CHECK("scif 2.6", "and bytes go through", scif_send(own, "x", 1, 1) == 1 && scif_recv(e, bytes, 1, 1) == 1);
    scif_epd_t none = -7;
    CHECK("scif 2.4", "there is no second request", scif_accept(late, &peer, &none, 0) == -1 && errno == EAGAIN);
    scif_close(own);
    scif_close(late);
    scif_close(e);
}

// A listener that another thread closes wakes who waits on it.
static int accept_result, accept_error;

static void *accept_for_ever(void *argument)
{
    struct scif_portID peer;
    scif_epd_t e;
    __atomic_store_n(&main_thread, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    accept_result = scif_accept(*(scif_epd_t *)argument, &peer, &e, SCIF_ACCEPT_SYNC);
    accept_error = errno;
    return NULL;
}

static void closed_listener(void)
{
    scif_epd_t e = scif_open();
    pthread_t thread;
    REQUIRE(scif_bind(e, 0) > 0 && scif_listen(e, 1) == 0);
    __atomic_store_n(&main_thread, 0, __ATOMIC_RELEASE);
    REQUIRE(pthread_create(&thread, NULL, accept_for_ever, &e) == 0);
    while (!__atomic_load_n(&main_thread, __ATOMIC_ACQUIRE))
        sched_yield();
    await_asleep(getpid(), main_thread);
    CHECK_EQ("scif 2.5", "a listener on which a thread waits is closed", scif_close(e), 0);
    pthread_join(thread, NULL);
    CHECK("scif 2.4", "and the thread wakes with EINTR", accept_result == -1 && accept_error == EINTR);
    main_thread = getpid();
}

int main(void)
{
    uint16_t own;
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    main_thread = getpid();
    REQUIRE(scif_get_nodeIDs(NULL, 0, &own) > 0);
    REQUIRE((listener = scif_open()) >= 0);
    int port = scif_bind(listener, 0);
    REQUIRE(port > 0 && scif_listen(listener, 8) == 0);
    there = (struct scif_portID){.node = own, .port = (uint16_t)port};
    killed_in(RECEIVE, "receive");
    killed_in(SEND, "send");
    killed_in(POLL, "poll");
    killed_accepting();
    killed_connecting();
    survivors();
    killed_in_transfers();
    interrupted();
    closed_listener();
    return finish_alone();
}
