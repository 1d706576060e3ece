// One process survives; those it is connected to by uDAPL are killed with SIGKILL at random points under load.
//
// Each round a fresh process opens an adapter, connects, and both sides send, write and read as fast as they can. Then the
// other dies. The survivor must get the event of the end, in time, and a completion for every transfer it posted; no byte
// but those that were granted may have changed, then or afterwards; and nothing may be left of it.
//
// proves: HOST-6, dat 4
//
// Usage: survivor ROUNDS SEED

#include "ends.h"
#include "../victims.h"

#define GRANTED (64 * PAGE) // bytes that the other may write and read
#define GUARDED 0x77
#define WINDOW 8  // transfers outstanding, of each direction
#define MESSAGE 1024

// What the other is told of one side.
struct card {
    DAT_RMR_CONTEXT context;
    uint64_t address;
    uint64_t round; // of the victim: who was killed may have asked, and be heard when the next is there
};

// One side of a connection under load.
struct side {
    struct end *end;
    unsigned char *around; // guard, the granted bytes, guard
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT local;
    struct card card, there;
    int sends, receives; // outstanding
    uint64_t wrong;      // completions that tell of neither success nor the end
    bool over;
};

static struct side ours = {.end = &near_end};
static DAT_CONN_QUAL service;

static void open_side(struct side *s)
{
    DAT_VLEN size;
    DAT_VADDR address;
    s->end->room = fresh_pages(ROOM, MAP_PRIVATE);
    open_end(s->end);
    s->around = fresh_pages(GRANTED + 2 * PAGE, MAP_PRIVATE);
    memset(s->around, GUARDED, GRANTED + 2 * PAGE);
    DAT_REGION_DESCRIPTION granted = {.for_va = s->around + PAGE};
    MUST(dat_lmr_create(s->end->ia, DAT_MEM_TYPE_VIRTUAL, granted, GRANTED, s->end->pz, ALL_PRIVILEGES, &s->lmr,
                        &s->local, &s->card.context, &size, &address));
    s->card.address = address_of(s->around + PAGE);
}

static bool is_all(const unsigned char *at, size_t length, unsigned char value)
{
    for (size_t i = 0; i < length; i++)
        if (at[i] != value)
            return false;
    return true;
}

static bool guards_stand(const struct side *s)
{
    return is_all(s->around, PAGE, GUARDED) && is_all(s->around + PAGE + GRANTED, PAGE, GUARDED);
}

static void post_receives(struct side *s)
{
    while (s->receives < 2 * WINDOW && CALL(s->end, receive, s->receives * PAGE, MESSAGE, 1) == 0)
        s->receives++;
}

// Posts one transfer of any kind. What cannot be posted belongs to a connection that is over.
static bool post_any(struct side *s)
{
    size_t length = 8 * (1 + random_below(GRANTED / 16)), at = 8 * random_below(GRANTED / 16);
    unsigned kind = random_below(4);
    if (kind == 0)
        length = 1 + random_below(MESSAGE);
    DAT_LMR_TRIPLET p = piece(s->end->local, s->end->room + 64 * PAGE, length);
    DAT_RMR_TRIPLET t = target(s->there.context, s->there.address + at, length);
    DAT_RETURN code;
    if (kind == 0)
        code = dat_ep_post_send(s->end->ep, 1, &p, cookie(2), DAT_COMPLETION_DEFAULT_FLAG);
    else if (kind == 1)
        code = dat_ep_post_rdma_read(s->end->ep, 1, &p, cookie(3), &t, DAT_COMPLETION_DEFAULT_FLAG);
    else
        code = dat_ep_post_rdma_write(s->end->ep, 1, &p, cookie(4), &t, DAT_COMPLETION_DEFAULT_FLAG);
    s->sends += code == DAT_SUCCESS;
    return code == DAT_SUCCESS;
}

static void count(struct side *s, const DAT_EVENT *event)
{
    DAT_DTO_COMPLETION_STATUS status = event->event_data.dto_completion_event_data.status;
    if (status == DAT_DTO_SUCCESS)
        return;
    s->over = true;
    s->wrong += status != DAT_DTO_ERR_FLUSHED && status != DAT_DTO_ERR_TRANSPORT;
}

// Takes what is complete.
static void reap(struct side *s)
{
    DAT_EVENT event;
    while (dat_evd_dequeue(s->end->requests, &event) == DAT_SUCCESS) {
        s->sends--;
        count(s, &event);
    }
    while (dat_evd_dequeue(s->end->receives, &event) == DAT_SUCCESS) {
        s->receives--;
        count(s, &event);
    }
}

static void pump(struct side *s)
{
    reap(s);
    if (!s->over)
        post_receives(s);
    while (!s->over && s->sends < WINDOW && post_any(s))
        ;
}

// ---- the process that will be killed -----------------------------------------------------------------------------

static void victim(const struct order *order)
{
    static struct side own = {.end = &far_end};
    self.active = false;
    open_side(&own);
    CALL(own.end, make_endpoint);
    post_receives(&own);
    own.card.round = order->round;
    if (ask(own.end, (DAT_CONN_QUAL)order->words[0], DAT_TIMEOUT_INFINITE, sizeof own.card, &own.card) ||
        CALL(own.end, next_connection) != DAT_CONNECTION_EVENT_ESTABLISHED || own.end->private_size < (int)sizeof own.there)
        _exit(4);
    memcpy(&own.there, own.end->private_data, sizeof own.there);
    while (!own.over && guards_stand(&own))
        pump(&own);
    _exit(own.over ? 5 : 6);
}

// ---- the survivor ------------------------------------------------------------------------------------------------

static void complain(const char *what, int64_t got)
{
    printf("     round %u: %s (0x%" PRIx64 ")\n", current_round, what, (uint64_t)got);
    tally.wrong++;
}

// Accepts the victim's request; false if it dies before it asks.
static bool accept_victim(uint32_t round)
{
    DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
    bool dead = false;
    while (cr == DAT_HANDLE_NULL) {
        DAT_EVENT event;
        DAT_COUNT more;
        DAT_CR_PARAM request;
        if (dat_evd_wait(near->arrivals, 2000, 1, &event, &more) != DAT_SUCCESS) {
            if (dead)
                return false;
            dead = victim_is_dead();
            continue;
        }
        REQUIRE(event.event_number == DAT_CONNECTION_REQUEST_EVENT);
        cr = event.event_data.cr_arrival_event_data.cr_handle;
        MUST(dat_cr_query(cr, DAT_CR_FIELD_ALL, &request));
        REQUIRE(request.private_data_size >= (int)sizeof ours.there);
        memcpy(&ours.there, request.private_data, sizeof ours.there);
        if (ours.there.round != round) {
            MUST(dat_cr_reject(cr));
            cr = DAT_HANDLE_NULL;
        }
    }
    CALL(near, make_endpoint);
    post_receives(&ours);
    MUST(dat_cr_accept(cr, near->ep, sizeof ours.card, &ours.card));
    return true;
}

// Whether the connection has ended; waits for that if it is told to. Any other event is wrong.
static bool has_ended(bool wait, bool *established)
{
    DAT_EVENT event;
    DAT_COUNT more;
    for (;;) {
        DAT_RETURN code = wait ? dat_evd_wait(near->connections, PATIENCE, 1, &event, &more)
                               : dat_evd_dequeue(near->connections, &event);
        if (code != DAT_SUCCESS)
            return false;
        switch (event.event_number) {
        case DAT_CONNECTION_EVENT_ESTABLISHED: *established = true; break;
        case DAT_CONNECTION_EVENT_BROKEN:
        case DAT_CONNECTION_EVENT_DISCONNECTED:
        case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR: return true;
        default: complain("an event of another kind", event.event_number); return true;
        }
    }
}

static void round_of(uint32_t round)
{
    enum when when = when_of(round);
    bool asleep = round % 3 == 0, killed = false, established = false, ended = false;
    const uint64_t words[4] = {service};
    int64_t start = 0;
    // What came after the end of the last one would show here.
    tally.strayed += !is_all(ours.around, GRANTED + 2 * PAGE, GUARDED);
    ours.sends = ours.receives = 0;
    ours.wrong = 0;
    ours.over = false;
    raise_victim(round, words);
    if (when == WHILE_OPENING) {
        nap_ns(8000000);
        kill_victim();
        killed = true;
    }
    if (!accept_victim(round)) {
        tally.early++;
        if (!killed)
            complain("it died by itself", 0);
        bury_victim();
        return;
    }
    start = now_ns();
    if (when == WHILE_CONNECTING) {
        nap_ns(300000);
        kill_victim();
        killed = true;
    }
    int64_t kill_at = 0;
    while (!ended) {
        ended = has_ended(killed && asleep, &established);
        if (established && !ended)
            pump(&ours);
        if (established && !kill_at)
            kill_at = now_ns() + random_below(20000) * 1000;
        if (!killed && established && now_ns() >= kill_at) {
            tally.connected++;
            kill_victim();
            killed = true;
            start = now_ns();
        }
        if (now_ns() - start > (int64_t)PATIENCE_MS * 1000000) {
            tally.hung++;
            break;
        }
    }
    if (!killed) {
        complain("the connection ended before it was killed", 0);
        kill_victim();
    }
    // Every transfer, and every receive, comes back.
    while (ours.sends + ours.receives > 0 && now_ns() - start < (int64_t)PATIENCE_MS * 1000000)
        reap(&ours);
    int64_t took_ms = (now_ns() - start) / 1000000;
    if (took_ms > tally.slowest_ms)
        tally.slowest_ms = took_ms;
    if (ours.sends + ours.receives != 0)
        complain("transfers that never completed, or twice", ours.sends + ours.receives);
    if (ours.wrong)
        complain("completions with another status than flushed and transport error", (int64_t)ours.wrong);
    if (CALL(near, state_of) != DAT_EP_STATE_DISCONNECTED)
        complain("the endpoint is in another state than disconnected", CALL(near, state_of));
    int status = bury_victim();
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        complain("the victim ended by itself", status);
    CALL(near, drop_endpoint);
    tally.strayed += !guards_stand(&ours);
    memset(ours.around + PAGE, GUARDED, GRANTED);
}

int main(int argc, char **argv)
{
    int rounds = rounds_and_seed(argc, argv);
    DAT_PSP_HANDLE psp;
    self.active = true;
    open_nursery(victim);
    open_side(&ours);
    MUST(dat_psp_create_any(near->ia, &service, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    survive(rounds, round_of);
    MUST(dat_psp_free(psp));
    return finish_alone();
}
