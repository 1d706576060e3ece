// One process survives; those it is connected to by SCIF are killed with SIGKILL at random points under load.
//
// Each round a fresh process connects, both sides register windows, and both send, receive, copy, map and fence as fast as
// they can. Then the other dies. The survivor's calls must tell of the end, in time, and of nothing else; no byte but
// those of the window that was open for writing may have changed, then or afterwards; and nothing may be left of it.
//
// proves: HOST-6
//
// Usage: survivor ROUNDS SEED

// One file of a peer that has gone may be held until the next one goes. Endpoints without windows that were closed are forgotten
// by the second sweep, of which one comes when there are 64 and the next when there are 160: a copy may be anywhere.
#define DESCRIPTORS_MORE 1
static int mappings_more = 16;
#define MAPPINGS_MORE mappings_more

#include "../victims.h"
#include "../bytes.h"

#include <scif.h>

#define PAGE 4096l
#define BOTH (SCIF_PROT_READ | SCIF_PROT_WRITE)
// Offsets of the windows that each side opens: one for everything, one to be read only.
#define OPEN 0x100000
#define SHUT 0x800000
#define OPEN_LENGTH (64 * PAGE)
#define SHUT_LENGTH (8 * PAGE)
#define GUARDED 0x77

// Of either side: guard, the open window, guard, the read-only window, guard.
struct side {
    scif_epd_t epd;
    unsigned char *all, *open, *shut;
    void *mapped; // a page of the other's open window, or NULL
    unsigned char bytes[4096];
};

#define ALL_LENGTH (OPEN_LENGTH + SHUT_LENGTH + 3 * PAGE)

static scif_epd_t listener;
static struct scif_portID here;
static struct side ours;

static void lay_out(struct side *s)
{
    s->all = mmap(NULL, ALL_LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(s->all != MAP_FAILED);
    s->open = s->all + PAGE;
    s->shut = s->open + OPEN_LENGTH + PAGE;
    memset(s->all, GUARDED, ALL_LENGTH);
    fill(s->shut, SHUT_LENGTH, 3);
}

static bool is_all(const unsigned char *at, size_t length, unsigned char value)
{
    for (size_t i = 0; i < length; i++)
        if (at[i] != value)
            return false;
    return true;
}

// What nobody was granted, and what was granted for reading only.
static bool guards_stand(const struct side *s)
{
    return is_all(s->all, PAGE, GUARDED) && is_all(s->open + OPEN_LENGTH, PAGE, GUARDED) &&
           is_all(s->shut + SHUT_LENGTH, PAGE, GUARDED) && filled(s->shut, SHUT_LENGTH, 3);
}

// Opens the windows of this side and waits until the other's are open; false if the other has gone.
static bool open_windows(struct side *s)
{
    char ready = 'r';
    return scif_register(s->epd, s->open, OPEN_LENGTH, OPEN, BOTH, SCIF_MAP_FIXED) == OPEN &&
           scif_register(s->epd, s->shut, SHUT_LENGTH, SHUT, SCIF_PROT_READ, SCIF_MAP_FIXED) == SHUT &&
           scif_send(s->epd, &ready, 1, SCIF_SEND_BLOCK) == 1 && scif_recv(s->epd, &ready, 1, SCIF_RECV_BLOCK) == 1;
}

// A write where none is allowed. It must be refused, whatever else happens; then the answer is that of the end, or 0.
static int trespass(struct side *s)
{
    bool beyond = random_below(2);
    off_t at = beyond ? OPEN + OPEN_LENGTH - 8 : SHUT;
    if (scif_vwriteto(s->epd, s->bytes, 16, at, SCIF_RMA_SYNC) == 0)
        return EPERM;
    return errno == (beyond ? ENXIO : EACCES) ? 0 : errno;
}

// One call of any kind: 0, or what it failed with. EAGAIN-like answers of calls that do not wait are no failures.
static int operate(struct side *s)
{
    long length = 8 * (1 + random_below(OPEN_LENGTH / 16)), far_at = 8 * random_below(OPEN_LENGTH / 16);
    int mark, got = 0;
    errno = 0;
    switch (random_below(10)) {
    case 0: got = scif_send(s->epd, s->bytes, 1 + (int)random_below(sizeof s->bytes), 0); break;
    case 1: got = scif_recv(s->epd, s->bytes, 1 + (int)random_below(sizeof s->bytes), 0); break;
    case 2: got = scif_vwriteto(s->epd, s->open, length, OPEN + far_at, random_below(2) ? SCIF_RMA_SYNC : 0); break;
    case 3: got = scif_vreadfrom(s->epd, s->open, length, OPEN + far_at, random_below(2) ? SCIF_RMA_SYNC : 0); break;
    case 4: got = scif_writeto(s->epd, OPEN, length, OPEN + far_at, random_below(2) ? SCIF_RMA_USECPU : 0); break;
    case 5:
        got = random_below(2) ? scif_readfrom(s->epd, OPEN, length, OPEN + far_at, 0)
                              : scif_readfrom(s->epd, OPEN, SHUT_LENGTH, SHUT, 0);
        break;
    case 6:
        got = scif_fence_mark(s->epd, random_below(2) ? SCIF_FENCE_INIT_SELF : SCIF_FENCE_INIT_PEER, &mark);
        if (got == 0)
            got = scif_fence_wait(s->epd, mark);
        break;
    case 7:
        got = scif_fence_signal(s->epd, OPEN, 1, OPEN + 8, 2,
                                SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_LOCAL | SCIF_SIGNAL_REMOTE);
        break;
    case 8:
        if (s->mapped) {
            memset(s->mapped, (int)length, PAGE);
            got = scif_munmap(s->mapped, PAGE);
            s->mapped = NULL;
        } else {
            void *mapped = scif_mmap(NULL, PAGE, BOTH, 0, s->epd, OPEN + PAGE * random_below(OPEN_LENGTH / PAGE));
            if (mapped == SCIF_MMAP_FAILED)
                got = errno == ENOMEM ? 0 : -1; // memory that was left in its place cannot be mapped
            else
                memset(s->mapped = mapped, (int)length, PAGE);
        }
        break;
    default: return trespass(s);
    }
    return got < 0 ? errno : 0;
}

// One with much memory takes a while to end: when that is gone already, its descriptors and connections still stand.
static bool ends_slowly(uint32_t round)
{
    return round % 15 == 2;
}

// ---- the process that will be killed -----------------------------------------------------------------------------

static void victim(const struct order *order)
{
    static struct side own;
    struct scif_portID there = {.node = (uint16_t)order->words[0], .port = (uint16_t)order->words[1]};
    lay_out(&own);
    own.epd = scif_open();
    if (ends_slowly(order->round))
        mmap(NULL, 128 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (own.epd < 0 || scif_connect(own.epd, &there) < 0 || !open_windows(&own)) {
        fprintf(stderr, "the victim of round %u cannot connect: %s\n", order->round, strerror(errno));
        _exit(4);
    }
    for (;;) {
        int error = operate(&own);
        if (error) {
            fprintf(stderr, "the victim of round %u: %s\n", order->round, strerror(error));
            _exit(5);
        }
        if (!guards_stand(&own))
            _exit(6);
    }
}

// ---- the survivor ------------------------------------------------------------------------------------------------

// Takes the connection of the victim; false if it dies before.
static bool accept_victim(void)
{
    for (;;) {
        bool dead = victim_is_dead();
        struct scif_portID peer;
        struct scif_pollepd p = {.epd = listener, .events = SCIF_POLLIN, .revents = 0};
        if (scif_accept(listener, &peer, &ours.epd, 0) == 0)
            return true;
        if (dead)
            return false;
        REQUIRE(scif_poll(&p, 1, 2) >= 0);
    }
}

static void complain(const char *what, int error)
{
    printf("     round %u: %s (%s)\n", current_round, what, strerror(error));
    tally.wrong++;
}

// Waits for the end in a call that blocks.
static int wait_for_the_end(uint32_t how)
{
    struct scif_pollepd p = {.epd = ours.epd, .events = SCIF_POLLIN, .revents = 0};
    int got;
    do {
        errno = 0;
        if (how % 2) {
            got = scif_recv(ours.epd, ours.bytes, sizeof ours.bytes, SCIF_RECV_BLOCK);
        } else {
            got = scif_poll(&p, 1, -1) == 1 && !(p.revents & SCIF_POLLHUP) ? 0 : -1;
            while (got == 0 && scif_recv(ours.epd, ours.bytes, sizeof ours.bytes, 0) > 0)
                ;
            errno = ECONNRESET;
        }
    } while (got >= 0);
    return errno;
}

static void round_of(uint32_t round)
{
    enum when when = when_of(round);
    bool asleep = round % 3 == 0, killed = false;
    const uint64_t words[4] = {here.node, here.port};
    int64_t start = 0;
    // What came after the end of the last one would show here.
    tally.strayed += !is_all(ours.open, OPEN_LENGTH, GUARDED) || !guards_stand(&ours);
    raise_victim(round, words);
    if (when == WHILE_OPENING) {
        nap_ns(1000000);
        kill_victim();
        killed = true;
    }
    if (!accept_victim()) {
        tally.early++;
        if (!killed)
            complain("it died by itself", 0);
        bury_victim();
        return;
    }
    if (when == WHILE_CONNECTING && !ends_slowly(round)) {
        nap_ns(300000);
        kill_victim();
        killed = true;
    }
    start = now_ns();
    errno = 0;
    int error = open_windows(&ours) ? 0 : errno ? errno : ECONNRESET;
    tally.connected += !error;
    if (!error && ends_slowly(round)) {
        // Nothing of its windows was looked at yet.
        kill_victim();
        killed = true;
        start = now_ns();
        nap_ns(1000000);
    }
    int64_t kill_at = now_ns() + random_below(20000) * 1000;
    while (!error) {
        if (!killed && now_ns() >= kill_at) {
            kill_victim();
            killed = true;
            start = now_ns();
        }
        error = killed && asleep ? wait_for_the_end(round) : operate(&ours);
        // A process loses its windows a moment before its connections.
        if (killed && error == ENXIO)
            error = 0;
        if (killed && now_ns() - start > (int64_t)PATIENCE_MS * 1000000) {
            tally.hung++;
            break;
        }
    }
    if (!killed) {
        complain("an error before it was killed", error);
        kill_victim();
    } else if (error != ECONNRESET) {
        complain("another error than ECONNRESET", error);
    }
    int64_t took_ms = (now_ns() - start) / 1000000;
    if (took_ms > tally.slowest_ms)
        tally.slowest_ms = took_ms;
    if (scif_send(ours.epd, ours.bytes, 1, SCIF_SEND_BLOCK) != -1 || errno != ECONNRESET)
        complain("a send after the end", errno);
    int status = bury_victim();
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        printf("     round %u: the victim ended with status 0x%x\n", round, status);
        tally.wrong++;
    }
    tally.strayed += !guards_stand(&ours);
    if (ours.mapped && scif_munmap(ours.mapped, PAGE) != 0)
        complain("a page of the dead cannot be unmapped", errno);
    ours.mapped = NULL;
    if (scif_close(ours.epd) != 0)
        complain("the endpoint cannot be closed", errno);
    memset(ours.open, GUARDED, OPEN_LENGTH);
}

int main(int argc, char **argv)
{
    int rounds = rounds_and_seed(argc, argv), port;
    if (rounds > 100)
        mappings_more = 160;
    self.active = true;
    open_nursery(victim);
    lay_out(&ours);
    REQUIRE(scif_get_nodeIDs(NULL, 0, &here.node) > 0);
    REQUIRE((listener = scif_open()) >= 0 && (port = scif_bind(listener, 0)) > 0 && scif_listen(listener, 16) == 0);
    here.port = (uint16_t)port;
    survive(rounds, round_of);
    CHECK_EQ("kill", "the listener is closed", scif_close(listener), 0);
    return finish_alone();
}
