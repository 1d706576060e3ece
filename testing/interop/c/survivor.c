// One process survives; its peers are killed with SIGKILL at random points under load, one after another.
//
// Each round a fresh peer opens a device, connects, and both sides send, write, read and add as fast as they can.
// Then the peer dies. The survivor must get a completion for every request it posted, in time, with a status that
// tells the truth, must be able to connect to the next peer, and must lose nothing by it: no descriptor, no mapping,
// no socket name, no memory.
//
// proves: HOST-6, 7.4 (no answer, flush)
//
// Usage: survivor ROUNDS SEED

#include "peers.h"

// ---- the peer that will be killed --------------------------------------------------------------------------------

static void victim(int fd, uint32_t round)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct node n = load_node();
    REQUIRE(n.qp = make_qp(&n, IBV_QPT_RC));
    REQUIRE(to_init(&n) == 0);
    struct load l = {.node = &n};
    post_receives(&l);
    struct card ours = card_of(&n);
    tell(fd, CARD, round, getpid(), &ours);
    struct message m = hear(fd, round, PATIENCE_MS);
    if (m.kind != CARD)
        _exit(4);
    l.there = m.card;
    REQUIRE(connect_to(&n, &m.card, ours.psn));
    tell(fd, READY, round, getpid(), NULL);
    m = hear(fd, round, PATIENCE_MS);
    while (m.kind == READY)
        pump(&l);
    _exit(5);
}

// ---- the survivor ------------------------------------------------------------------------------------------------

enum when { WHILE_OPENING, WHILE_CONNECTING, UNDER_LOAD }; // and every third round asleep on the channel

struct tally {
    int rounds, unanswered, hung, wrong_status, early, connected;
    int statuses[32];
    int64_t slowest_ms;
};

// One peer's life and death. Returns false when the machinery itself failed.
static bool round_of(struct node *n, int fd, uint32_t round, struct tally *t)
{
    enum when when = round % 5 == 4 ? WHILE_OPENING : round % 5 == 2 ? WHILE_CONNECTING : UNDER_LOAD;
    bool asleep = round % 3 == 0;
    struct load l = {.node = n};
    drain(n->send_cq);
    drain(n->recv_cq);
    REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
    REQUIRE(to_init(n) == 0);
    post_receives(&l);
    struct card ours = card_of(n);

    tell(fd, FORK, round, 0, NULL);
    struct message m = hear(fd, round, PATIENCE_MS);
    if (m.kind == CARD) // the peer was faster than the nursery
        l.there = m.card;
    bool have_card = m.kind == CARD;
    pid_t pid = m.pid;
    if (m.kind != PID && m.kind != CARD)
        return false;
    if (when == WHILE_OPENING) {
        struct timespec a_moment = {.tv_nsec = random_below(4000000)};
        nanosleep(&a_moment, NULL);
        kill(pid, SIGKILL);
    }
    while (!have_card) {
        m = hear(fd, round, PATIENCE_MS);
        if (m.kind == CARD) {
            l.there = m.card;
            have_card = true;
        } else if (m.kind == DIED) {
            t->early++;
            drop_qp(n);
            return true;
        } else if (m.kind != PID) {
            return false;
        }
    }
    tell(fd, CARD, round, 0, &ours);
    if (!connect_to(n, &l.there, ours.psn)) {
        // Only a peer that died meanwhile excuses this: the queue pair is then in ERR and its receives are flushed.
        if (when == UNDER_LOAD || state_of(n->qp) != IBV_QPS_ERR) {
            printf("     round %u: the pair could not be connected, and is in state %d\n", round, state_of(n->qp));
            t->wrong_status++;
        }
        l.broken = true;
        kill(pid, SIGKILL);
    }
    bool died = false;
    if (when == UNDER_LOAD) {
        do
            m = hear(fd, round, PATIENCE_MS);
        while (m.kind == PID);
        if (m.kind != READY)
            return false;
        t->connected++;
        tell(fd, READY, round, 0, NULL);
    } else if (when == WHILE_CONNECTING) {
        struct timespec a_moment = {.tv_nsec = random_below(300000)};
        nanosleep(&a_moment, NULL);
        kill(pid, SIGKILL);
    }

    int64_t kill_at = now_ns() + random_below(20000) * 1000, start = 0;
    bool killed = when != UNDER_LOAD;
    if (killed)
        start = now_ns();
    // Until the first error; after the kill it has to come, because requests go on being posted.
    while (!l.broken) {
        pump(&l);
        if (killed && asleep && !l.broken)
            sleep_until_told(&l);
        if (!killed && now_ns() >= kill_at) {
            kill(pid, SIGKILL);
            killed = true;
            start = now_ns();
        }
        if (killed && now_ns() - start > (int64_t)PATIENCE_MS * 1000000)
            break;
    }
    if (!killed) {
        printf("     round %u: status %d (%s) before the peer was killed\n", round, l.first_status,
               ibv_wc_status_str(l.first_status));
        t->wrong_status++;
        kill(pid, SIGKILL);
        start = now_ns();
    }
    if (!l.broken)
        t->hung++;
    // Every request, and every receive, comes back.
    while (l.sends + l.receives > 0 && now_ns() - start < (int64_t)PATIENCE_MS * 1000000)
        if (!reap(&l))
            sched_yield();
    int64_t took_ms = (now_ns() - start) / 1000000;
    if (took_ms > t->slowest_ms)
        t->slowest_ms = took_ms;
    if (l.sends + l.receives > 0) {
        printf("     round %u: %d sends and %d receives never completed\n", round, l.sends, l.receives);
        t->unanswered++;
    }
    if (l.wrong) {
        printf("     round %u: %" PRIu64 " completions with a status other than flushed and retry exceeded, first %d\n",
               round, l.wrong, l.first_status);
        t->wrong_status++;
    }
    if (l.first_status)
        t->statuses[l.first_status & 31]++;
    if (l.broken && state_of(n->qp) != IBV_QPS_ERR)
        t->wrong_status++;
    while (!died) {
        m = hear(fd, round, PATIENCE_MS);
        died = m.kind == DIED;
        if (!m.kind)
            return false;
    }
    drop_qp(n);
    return true;
}

int main(int argc, char **argv)
{
    int rounds = rounds_and_seed(argc, argv), ends[2];
    self.active = true;
    // The nursery reports deaths by its own exit status only; messages keep their borders.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
        perror("socketpair");
        return 2;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        nursery(ends[1], victim);
    }
    close(ends[1]);
    self.other = pid;

    struct node n = load_node();
    struct tally t = {0};
    int strayed = 0;
    struct holdings before = {0};
    long resident_before = 0;
    for (int round = 0; round < rounds + WARM_UP; round++) {
        if (round == WARM_UP) {
            before = steady();
            resident_before = resident_kib();
        }
        if (!round_of(&n, ends[0], round, &t)) {
            printf("FAIL the peer of round %d did not come up\n", round);
            self.failed++;
            break;
        }
        t.rounds++;
        strayed += !guards_stand(&n);
    }
    printf("     %d peers killed, %d of them before they were known, %d connected; first statuses: %d flushed, "
           "%d retry exceeded; slowest %" PRId64 " ms\n",
           t.rounds, t.early, t.connected, t.statuses[IBV_WC_WR_FLUSH_ERR], t.statuses[IBV_WC_RETRY_EXC_ERR],
           t.slowest_ms);
    CHECK_EQ("kill", "every peer could be connected to, whatever befell the one before", t.rounds, rounds + WARM_UP);
    CHECK_EQ("kill", "no round hung", t.hung, 0);
    CHECK_EQ("kill", "every request came back", t.unanswered, 0);
    CHECK_EQ("kill", "with flushed or retry exceeded", t.wrong_status, 0);
    CHECK("kill", "in the time that is promised", t.slowest_ms <= PROMISED_MS);
    CHECK_EQ("kill", "no byte outside the registered room has changed", strayed, 0);
    check_nothing_leaked(before, resident_before);
    tell(ends[0], QUIT, 0, 0, NULL);
    waitpid(pid, NULL, 0);
    close_load_node(&n);
    return finish_alone();
}
