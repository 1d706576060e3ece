// Processes that are killed at every step of a connection, that exit, fork or become another program; and signals that come
// while a call waits. Who is left sees an event, and everything of his own goes on.

#include "ends.h"

#include <dirent.h>
#include <sys/time.h>

static pid_t child;
static int told; // the child's word: it has come to its step

enum step { ASKING, LISTENING, ASKED, CONNECTED, WAITING, WRITING, EXITING, EXECUTING, HANDING_ON };

static int64_t next_is(void) { return CALL(near, next_connection); }

// The next connection event, which must be this for the rest to make sense.
static void must_be(int64_t wanted)
{
    int64_t got = next_is();
    if (got != wanted)
        printf("# the event is 0x%" PRIx64 ", not 0x%" PRIx64 "\n", got, wanted);
    REQUIRE(got == wanted);
}

static int64_t state(void) { return CALL(near, state_of); }

static void tell(int pipe_end, uint64_t value)
{
    if (write(pipe_end, &value, 8) != 8)
        _exit(1);
}

// What the child needs to know of its parent.
static struct {
    DAT_CONN_QUAL service, other;
    DAT_RMR_CONTEXT remote;
    uint64_t address;
} parent;

static void be_child(enum step step, int pipe_end)
{
    static struct end own; // the parent's objects are none of the child's
    struct end *e = &own;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    e->room = fresh_pages(ROOM, MAP_PRIVATE);
    open_end(e);
    if (step == LISTENING || step == ASKED || step == HANDING_ON) {
        tell(pipe_end, (uint64_t)CALL(e, listen_any));
        if (step == ASKED || step == HANDING_ON) {
            DAT_CR_HANDLE cr = next_request(e);
            if (step == HANDING_ON && dat_cr_handoff(cr, parent.other))
                _exit(1);
            tell(pipe_end, 1);
        }
        pause();
    }
    CALL(e, make_endpoint);
    if (ask(e, parent.service, DAT_TIMEOUT_INFINITE, 4, (void *)"last"))
        _exit(1);
    if (step == ASKING) {
        tell(pipe_end, 1);
        pause();
    }
    if (CALL(e, next_connection) != DAT_CONNECTION_EVENT_ESTABLISHED)
        _exit(1);
    // One message that the parent has a receive for.
    memcpy(e->room, "last", 4);
    if (CALL(e, send_bytes, 0, 4, 0))
        _exit(1);
    tell(pipe_end, 1);
    switch (step) {
    case WAITING:
        CALL(e, receive, 0, 64, 1);
        CALL(e, received);
        _exit(1);
    case WRITING:
        for (unsigned i = 0;; i++) {
            memset(e->room, (int)i, ROOM / 4);
            if (CALL(e, write_there, 0, ROOM / 4, parent.remote, (int64_t)parent.address, 0))
                _exit(1);
        }
    case EXITING:
        exit(0);
    case EXECUTING:
        execl("/bin/sleep", "sleep", "60", (char *)NULL);
        _exit(1);
    default:
        pause();
    }
    _exit(1);
}

static uint64_t take_word(void)
{
    uint64_t value = 0;
    REQUIRE(read(told, &value, 8) == 8);
    return value;
}

static void start_child(enum step step)
{
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    fflush(stdout);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0)
        be_child(step, ends[1]);
    close(ends[1]);
    told = ends[0];
}

static int end_child(int signal)
{
    int status;
    if (signal)
        REQUIRE(kill(child, signal) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
    close(told);
    return status;
}

// A connection from a child that has come to its step, with one message received.
static void connected_to(enum step step)
{
    start_child(step);
    DAT_CR_HANDLE cr = next_request(near);
    CALL(near, make_endpoint);
    REQUIRE(CALL(near, receive, 0, 64, 1) == 0);
    for (int i = 2; i < 5; i++)
        REQUIRE(CALL(near, receive, i * 64, 64, i) == 0);
    MUST(dat_cr_accept(cr, near->ep, 0, NULL));
    must_be(DAT_CONNECTION_EVENT_ESTABLISHED);
    take_word();
    CHECK("death", "what was sent is received", CALL(near, received, 1, 4, 1) == 0 &&
          memcmp(near->room, "last", 4) == 0);
}

// What who is left sees.
static void sees_the_end(int64_t one, int64_t other)
{
    CHECK_EITHER("death", "the end is told", next_is(), one, other);
    CHECK_EQ("death", "... and the endpoint is disconnected", state(), DAT_EP_STATE_DISCONNECTED);
    bool flushed = true;
    for (unsigned i = 2; i < 5; i++) {
        struct done d = next_done(near->receives);
        flushed &= d.status == DAT_DTO_ERR_FLUSHED && d.cookie == i;
    }
    CHECK("death", "... its receives are flushed", flushed);
    CHECK("death", "... and that is all", is_empty(near->connections) && is_empty(near->receives));
    CALL(near, drop_endpoint);
}

#define BROKEN DAT_CONNECTION_EVENT_BROKEN
#define DISCONNECTED DAT_CONNECTION_EVENT_DISCONNECTED

static void killed(void)
{
    chapter("killed while it is connected");
    connected_to(CONNECTED);
    CHECK_EQ("death", "killed", end_child(SIGKILL), SIGKILL);
    sees_the_end(BROKEN, BROKEN);
    chapter("killed while it waits for a message");
    connected_to(WAITING);
    await_asleep(child, child);
    CHECK_EQ("death", "killed", end_child(SIGKILL), SIGKILL);
    sees_the_end(BROKEN, BROKEN);
    chapter("killed with a send to it outstanding");
    connected_to(CONNECTED);
    REQUIRE(kill(child, SIGSTOP) == 0);
    int status;
    REQUIRE(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 64);
    MUST(dat_ep_post_send(near->ep, 1, &p, cookie(9), 0));
    CHECK_EQ("death", "killed", end_child(SIGKILL), SIGKILL);
    struct done d = next_done(near->requests);
    CHECK("death", "the send fails", d.cookie == 9 && d.status > 0);
    sees_the_end(BROKEN, BROKEN);
    chapter("killed in the middle of writes");
    for (int i = 0; i < 6; i++) {
        memset(near->room + PAGE, 0, ROOM / 4);
        connected_to(WRITING);
        if (coherent) {
            volatile unsigned char *last = near->room + PAGE + ROOM / 4 - 1;
            int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
            while (*last == 0 && now_ns() < deadline)
                sched_yield();
            REQUIRE(*last);
        }
        CHECK_EQ("death", "killed", end_child(SIGKILL), SIGKILL);
        sees_the_end(BROKEN, BROKEN);
        memset(near->room + PAGE, 0x5a, ROOM / 4);
        size_t wrong = 0;
        for (size_t k = 0; k < ROOM / 4; k++)
            wrong += near->room[PAGE + k] != 0x5a;
        CHECK_EQ("death", "and the memory is its owner's", wrong, 0);
        collect(near->ia, near->local, near->room, ROOM);
    }
}

// A peer that stands still: the answer is on its way for as long as it does.
static void answer_under_way(void)
{
    chapter("an answer that nobody takes");
    start_child(ASKING);
    DAT_CR_HANDLE cr = next_request(near);
    take_word();
    int status;
    REQUIRE(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    CALL(near, make_endpoint);
    REQUIRE(CALL(near, receive, 0, 64, 2) == 0);
    CHECK_DONE("death", "a request of a process that stands still is accepted", dat_cr_accept(cr, near->ep, 0, NULL));
    CHECK_EQ("death", "... which takes its time", state(), DAT_EP_STATE_COMPLETION_PENDING);
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 8);
    CHECK_CODE("death", "meanwhile nothing is sent", dat_ep_post_send(near->ep, 1, &p, cookie(1), 0),
               BAD_STATE(EP_COMPLPENDING));
    CHECK_CODE("death", "... nor reset", dat_ep_reset(near->ep), BAD_STATE(EP_COMPLPENDING));
    CHECK_CODE("death", "... nor connected", ask(near, parent.service, PATIENCE, 0, NULL), BAD_STATE(EP_COMPLPENDING));
    CHECK("death", "... and nothing has happened", is_empty(near->connections) && is_empty(near->requests) &&
          is_empty(near->receives));
    CHECK_DONE("death", "it is given up", dat_ep_disconnect(near->ep, DAT_CLOSE_ABRUPT_FLAG));
    CHECK_EQ("death", "... with its event", next_is(), DISCONNECTED);
    CHECK_EQ("death", "... and flushes", CALL(near, received), DAT_DTO_ERR_FLUSHED);
    CALL(near, drop_endpoint);
    end_child(SIGKILL);
    CHECK("death", "... and that was all", is_empty(near->connections));
}

static void killed_before(void)
{
    chapter("killed before the connection stands");
    start_child(ASKING);
    DAT_CR_HANDLE cr = next_request(near);
    take_word();
    CHECK_EQ("death", "the asking side is killed", end_child(SIGKILL), SIGKILL);
    CHECK("death", "... its words are still there", CALL(near, make_endpoint) == 0 && near->private_size == 4);
    REQUIRE(CALL(near, receive, 0, 64, 2) == 0);
    CHECK_DONE("death", "accepting it", dat_cr_accept(cr, near->ep, 0, NULL));
    CHECK_EQ("death", "... does not succeed", next_is(), DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    CHECK_EQ("death", "... and disconnects", state(), DAT_EP_STATE_DISCONNECTED);
    CHECK_EQ("death", "... and flushes", CALL(near, received), DAT_DTO_ERR_FLUSHED);
    CALL(near, drop_endpoint);
    start_child(ASKING);
    cr = next_request(near);
    take_word();
    end_child(SIGKILL);
    CHECK_DONE("death", "rejecting such a one", dat_cr_reject(cr));
    CHECK("death", "... is no event for anybody", is_empty(near->connections));

    start_child(LISTENING);
    DAT_CONN_QUAL service = take_word();
    REQUIRE(kill(child, SIGSTOP) == 0);
    CALL(near, make_endpoint);
    MUST(ask(near, service, DAT_TIMEOUT_INFINITE, 0, NULL));
    CHECK_EQ("death", "the listening side is killed before it looks", end_child(SIGKILL), SIGKILL);
    CHECK_EQ("death", "... which refuses", next_is(), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CALL(near, drop_endpoint);
    start_child(ASKED);
    service = take_word();
    CALL(near, make_endpoint);
    MUST(ask(near, service, DAT_TIMEOUT_INFINITE, 0, NULL));
    take_word();
    CHECK_EQ("death", "the listening side is killed before it answers", end_child(SIGKILL), SIGKILL);
    CHECK_EQ("death", "... which refuses", next_is(), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CALL(near, drop_endpoint);
    CALL(near, make_endpoint);
    MUST(ask(near, service, DAT_TIMEOUT_INFINITE, 0, NULL));
    CHECK_EQ("death", "and nobody listens there any more", next_is(), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CALL(near, drop_endpoint);

    chapter("killed after it handed a request on");
    parent.other = parent.service;
    start_child(HANDING_ON);
    service = take_word();
    CALL(near, make_endpoint);
    DAT_EP_HANDLE active = near->ep;
    MUST(ask(near, service, DAT_TIMEOUT_INFINITE, 4, (void *)"hand"));
    cr = next_request(near);
    CHECK("death", "the request comes here", near->private_size == 4 && memcmp(near->private_data, "hand", 4) == 0);
    take_word();
    end_child(SIGKILL);
    CALL(near, make_endpoint);
    CHECK_DONE("death", "and is accepted, though who handed it on is dead", dat_cr_accept(cr, near->ep, 0, NULL));
    CHECK("death", "... and stands", next_is() == DAT_CONNECTION_EVENT_ESTABLISHED &&
          next_is() == DAT_CONNECTION_EVENT_ESTABLISHED);
    MUST(dat_ep_free(active));
    must_be(DISCONNECTED);
    CALL(near, drop_endpoint);
}

static void ended(void)
{
    chapter("a process that exits, or becomes another");
    connected_to(EXITING);
    CHECK_EQ("death", "it exits", end_child(0), 0);
    sees_the_end(DISCONNECTED, DISCONNECTED);
    connected_to(EXECUTING);
    sees_the_end(BROKEN, DISCONNECTED);
    CHECK_EQ("death", "it is another program now", end_child(SIGKILL), SIGKILL);
}

// ---- forks --------------------------------------------------------------------------------------------------------

static size_t descriptors(void)
{
    size_t count = 0;
    DIR *d = opendir("/proc/self/fd");
    REQUIRE(d);
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static void forks(void)
{
    chapter("children of a connected process");
    connect_ends();
    for (int how = 0; how < 4; how++) {
        fflush(stdout);
        pid_t forked = fork();
        REQUIRE(forked >= 0);
        if (forked == 0) {
            if (how == 0)
                exit(0); // with all handlers
            if (how == 1)
                _exit(0);
            if (how == 2)
                kill(getpid(), SIGKILL);
            // The copy of the parent's memory is the child's to write.
            memset(near->room, 0xee, ROOM);
            _exit(0);
        }
        int status;
        REQUIRE(waitpid(forked, &status, 0) == forked);
        CHECK_EQ("fork", "a child ends", status, how == 2 ? SIGKILL : 0);
        CHECK_EQ("fork", "... and its parent's connection stands", state(), DAT_EP_STATE_CONNECTED);
        CHECK("fork", "... and works", talks());
    }
    // A child that uses what is its parent's: it is refused or served out of its own copies, and the parent notices nothing.
    fflush(stdout);
    pid_t meddler = fork();
    REQUIRE(meddler >= 0);
    if (meddler == 0) {
        DAT_EVENT event;
        DAT_EP_STATE seen;
        DAT_EP_PARAM param;
        DAT_LMR_TRIPLET p = piece(near->local, near->room, 8);
        DAT_RMR_TRIPLET t = target(near->remote, address_of(near->room), 8);
        DAT_EP_HANDLE made;
        alarm(10);
        dat_ep_get_status(near->ep, &seen, NULL, NULL);
        dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &param);
        dat_evd_dequeue(near->receives, &event);
        dat_ep_post_recv(near->ep, 1, &p, cookie(1), 0);
        dat_ep_post_send(near->ep, 1, &p, cookie(2), 0);
        dat_ep_post_rdma_write(near->ep, 1, &p, cookie(3), &t, 0);
        dat_lmr_sync_rdma_write(near->ia, &p, 1);
        dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->connections, NULL, &made);
        dat_ep_disconnect(near->ep, DAT_CLOSE_ABRUPT_FLAG);
        dat_ep_free(near->ep);
        dat_lmr_free(near->lmr);
        dat_ia_close(near->ia, DAT_CLOSE_ABRUPT_FLAG);
        exit(0);
    }
    int how_it_ended;
    REQUIRE(waitpid(meddler, &how_it_ended, 0) == meddler);
    CHECK_EQ("fork", "a child that uses its parent's objects ends", how_it_ended, 0);
    CHECK_EQ("fork", "... and its parent's connection stands", state(), DAT_EP_STATE_CONNECTED);
    CHECK("fork", "... and works", talks());
    // While a child lives, too; and the peer's end is seen though the child has copies of everything.
    int hold[2];
    REQUIRE(pipe(hold) == 0);
    pid_t forked = fork();
    REQUIRE(forked >= 0);
    if (forked == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(hold[0]);
    CHECK("fork", "beside a living child", talks());
    at_far(hang_up);
    CHECK_EQ("fork", "... the end is seen", next_is(), DISCONNECTED);
    at_far(drop_endpoint);
    CALL(near, drop_endpoint);
    DAT_CONN_QUAL service;
    DAT_PSP_HANDLE psp;
    MUST(dat_psp_create_any(near->ia, &service, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    MUST(dat_psp_free(psp));
    MUST(dat_psp_create(near->ia, service, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    MUST(dat_psp_free(psp));
    CHECK("fork", "... and a number that was freed is free, though the child was made while it was taken", true);
    close(hold[1]);
    int status;
    REQUIRE(waitpid(forked, &status, 0) == forked);
    CHECK_EQ("fork", "the child ends", status, 0);
}

// ---- signals ------------------------------------------------------------------------------------------------------

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

static void alarms(bool on)
{
    struct sigaction action = {.sa_handler = count_signal};
    struct itimerval often = {{0, on ? 5000 : 0}, {0, on ? 5000 : 0}};
    REQUIRE(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
}

static void interrupted(void)
{
    chapter("signals");
    DAT_EVENT event;
    DAT_COUNT more = -1;
    DAT_CNO_HANDLE cno;
    DAT_EVD_HANDLE evd, hint = (void *)0x1234;
    DAT_EVENT se = {.event_number = DAT_SOFTWARE_EVENT};
    MUST(dat_cno_create(near->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
    MUST(dat_evd_create(near->ia, 8, cno, DAT_EVD_SOFTWARE_FLAG, &evd));
    DAT_EVD_HANDLE list[] = {evd, near->receives, near->connections, near->async};
    for (int i = 0; i < 4; i++) {
        signals = 0;
        alarms(true);
        DAT_RETURN code = dat_evd_wait(list[i], DAT_TIMEOUT_INFINITE, 1, &event, &more);
        alarms(false);
        CHECK_TYPE("signal", "a wait for events ends", code, DAT_INTERRUPTED_CALL);
        CHECK("signal", "... by the signal", signals > 0);
    }
    signals = 0;
    alarms(true);
    DAT_RETURN code = dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &hint);
    alarms(false);
    CHECK_TYPE("signal", "so does one for a notification", code, DAT_INTERRUPTED_CALL);
    MUST(dat_evd_post_se(evd, &se));
    CHECK_DONE("signal", "and an event is waited for as before", dat_evd_wait(evd, PATIENCE, 1, &event, &more));
    MUST(dat_evd_free(evd));
    MUST(dat_cno_free(cno));
    // A storm of them while messages go to and fro.
    connect_ends();
    alarms(true);
    int wrong = 0;
    for (int i = 0; i < 300; i++) {
        if (CALL(near, receive, PAGE, 64, i) || at_far(send_bytes, 0, 8, 0))
            wrong++;
        do
            code = dat_evd_wait(near->receives, PATIENCE, 1, &event, &more);
        while (DAT_GET_TYPE(code) == DAT_INTERRUPTED_CALL);
        wrong += code != DAT_SUCCESS || event.event_data.dto_completion_event_data.user_cookie.as_64 != (uint64_t)i;
    }
    alarms(false);
    CHECK_EQ("signal", "in a storm of signals no message is lost", wrong, 0);
    part();
}

// ---- any moment ---------------------------------------------------------------------------------------------------

// A child that connects and disconnects, is asked and answers, without end.
static void restless_child(void)
{
    static struct end own;
    struct end *e = &own;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    e->room = fresh_pages(ROOM, MAP_PRIVATE);
    open_end(e);
    for (;;) {
        CALL(e, make_endpoint);
        if (ask(e, parent.service, DAT_TIMEOUT_INFINITE, 0, NULL) ||
            CALL(e, next_connection) != DAT_CONNECTION_EVENT_ESTABLISHED ||
            CALL(e, write_there, 0, PAGE, parent.remote, (int64_t)parent.address, 0))
            _exit(1);
        CALL(e, hang_up);
        CALL(e, drop_endpoint);
    }
}

static void any_moment(void)
{
    enum { ROUNDS = 24 };
    chapter("killed at any moment");
    size_t before = 0;
    int64_t begun = 0, answered = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round == 4)
            before = descriptors();
        fflush(stdout);
        pid_t restless = fork();
        REQUIRE(restless >= 0);
        if (restless == 0)
            restless_child();
        // Killed as it makes its n-th connection, a little later each time.
        int64_t when = 0;
        DAT_EVENT event;
        bool dead = false;
        for (int n = 0; !dead; n++) {
            DAT_COUNT more;
            if (dat_evd_wait(near->arrivals, PATIENCE, 1, &event, &more) != DAT_SUCCESS)
                break;
            DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
            begun++;
            CALL(near, make_endpoint);
            if (n == 1 + round % 3) {
                when = now_ns() + round * 7000;
                while (now_ns() < when)
                    ;
                REQUIRE(kill(restless, SIGKILL) == 0);
                dead = true;
            }
            DAT_RETURN code = dat_cr_accept(cr, near->ep, 0, NULL);
            REQUIRE(code == DAT_SUCCESS);
            int64_t first = next_is();
            if (first == DAT_CONNECTION_EVENT_ESTABLISHED)
                first = next_is();
            answered += first == BROKEN || first == DISCONNECTED || first == DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR;
            REQUIRE(state() == DAT_EP_STATE_DISCONNECTED);
            CALL(near, drop_endpoint);
        }
        int status;
        REQUIRE(dead && waitpid(restless, &status, 0) == restless && status == SIGKILL);
        // A request that it made last.
        while (dat_evd_dequeue(near->arrivals, &event) == DAT_SUCCESS)
            MUST(dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle));
    }
    CHECK_EQ("death", "every connection that was begun ended with an event", answered, begun);
    // The last of the dead is buried a moment later.
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (descriptors() > before + 2 && now_ns() < deadline)
        sched_yield();
    CHECK("death", "and no descriptor stays behind", descriptors() <= before + 2);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    DAT_PSP_HANDLE psp;
    MUST(dat_psp_create_any(near->ia, &parent.service, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    parent.remote = near->remote;
    parent.address = address_of(near->room) + PAGE;
    killed();
    answer_under_way();
    killed_before();
    ended();
    any_moment();
    MUST(dat_psp_free(psp));
    forks();
    interrupted();
    connect_ends();
    CHECK("death", "after all that a connection works", talks());
    part();
    return end();
}
