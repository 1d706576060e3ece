// A process that talks with more peers than it looks at: those that have said nothing for a while are looked at again as
// soon as they do, whatever the process does meanwhile (polls, sleeps for an event, sleeps in a poll(2) of its own), and
// whatever has become of the others.
//
// proves: HOST-11, HOST-22

#include "common.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define PEERS 24
// With the process itself as many as it looks at whatever they do, if it has no others.
#define TALKERS 3
#define ROUNDS 8
// Several times as long as it takes until a link without a message rests.
#define SILENCE_NS 10000000
// Bytes of the memory in which peers call.
#define CALLS 4096
// Where peers are written to.
#define WRITTEN 4096

static struct peer {
    pid_t pid;
    int line;
    struct node node;
    struct card there;
    uint64_t said;
} peers[PEERS];

static struct node hub;

// ---- the peers -----------------------------------------------------------------------------------------------------

// Says the numbers it is told, until that is 0; then tells what was written to it.
static void live_as_peer(void)
{
    struct node n = open_node();
    bring_up(&n);
    uint64_t number;
    for (take(&number, sizeof number); number != 0; take(&number, sizeof number)) {
        memcpy(n.buffer, &number, sizeof number);
        REQUIRE(post(n.qp, number, SEND, piece(n.buffer, sizeof number, n.mr->lkey), 0, 0) == 0);
        REQUIRE(next_completion(n.send_cq).status == IBV_WC_SUCCESS);
    }
    give(n.buffer + WRITTEN, sizeof number);
    _exit(0);
}

static void raise_peers(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < PEERS; i++) {
        int ends[2];
        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        REQUIRE((peers[i].pid = fork()) >= 0);
        self.active = peers[i].pid > 0;
        self.peer = peers[i].line = ends[self.active ? 0 : 1];
        close(ends[self.active ? 1 : 0]);
        if (!self.active) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            live_as_peer();
        }
    }
}

static void tell(struct peer *p, uint64_t number)
{
    self.peer = p->line;
    give(&number, sizeof number);
}

static void ask_for_receive(int i)
{
    REQUIRE(post_receive(peers[i].node.qp, (uint64_t)i, piece(hub.buffer + i * 64, 64, hub.mr->lkey)) == 0);
}

// What an empty poll costs at best, in ps: what else the machine does costs more only. A batch is shorter than what lies
// between two of the library's turns to give the processor to others, who may have much to do.
static int64_t cost_of_a_poll(void)
{
    enum { POLLS = 32, BATCHES = 15000 };
    int64_t best = INT64_MAX;
    struct ibv_wc wc;
    for (int batch = 0; batch < BATCHES; batch++) {
        int64_t start = now_ns();
        for (int i = 0; i < POLLS; i++)
            REQUIRE(ibv_poll_cq(hub.recv_cq, 1, &wc) == 0);
        int64_t taken = now_ns() - start;
        best = taken < best ? taken : best;
    }
    return best * 1000 / POLLS;
}

static int64_t open_hub(void)
{
    hub = open_node();
    REQUIRE(ibv_destroy_cq(hub.recv_cq) == 0);
    REQUIRE(hub.channel = ibv_create_comp_channel(hub.context));
    REQUIRE(hub.recv_cq = ibv_create_cq(hub.context, 128, NULL, hub.channel, 0));
    // With a queue pair the process has everything that is driven.
    REQUIRE(hub.qp = make_qp(&hub, IBV_QPT_RC));
    int64_t alone = cost_of_a_poll();
    drop_qp(&hub);
    return alone;
}

static void meet_peers(void)
{
    for (int i = 0; i < PEERS; i++) {
        self.peer = peers[i].line;
        peers[i].node = hub;
        peers[i].there = bring_up(&peers[i].node);
        ask_for_receive(i);
    }
}

// ---- ways to wait --------------------------------------------------------------------------------------------------

static bool polls(struct ibv_wc *wc)
{
    *wc = next_completion(hub.recv_cq);
    return (int)wc->status != -1;
}

static bool takes_event(int patience)
{
    struct pollfd p = {.fd = hub.channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;
    if (patience >= 0 && poll(&p, 1, patience) != 1)
        return false;
    if (ibv_get_cq_event(hub.channel, &cq, &context) != 0)
        return false;
    ibv_ack_cq_events(cq, 1);
    return true;
}

// Arms, looks once more as one has to, then sleeps in a poll(2), or in the library.
static bool sleeps(struct ibv_wc *wc, int patience)
{
    for (;;) {
        REQUIRE(ibv_req_notify_cq(hub.recv_cq, 0) == 0);
        if (ibv_poll_cq(hub.recv_cq, 1, wc) == 1) {
            // The event has come, or it comes for a later message.
            takes_event(0);
            return true;
        }
        if (!takes_event(patience))
            return false;
        if (ibv_poll_cq(hub.recv_cq, 1, wc) == 1)
            return true;
    }
}

static bool sleeps_in_the_library(struct ibv_wc *wc) { return sleeps(wc, -1); }
static bool sleeps_in_poll(struct ibv_wc *wc) { return sleeps(wc, PATIENCE_MS); }

// ---- what is tried -------------------------------------------------------------------------------------------------

static void let_them_be_silent(void)
{
    struct ibv_wc wc;
    for (int64_t until = now_ns() + SILENCE_NS; now_ns() < until;)
        REQUIRE(ibv_poll_cq(hub.recv_cq, 1, &wc) == 0);
}

static void silent_peers_cost_nothing(const char *sentence, int64_t alone)
{
    let_them_be_silent();
    int64_t beside = cost_of_a_poll();
    printf("  an empty poll: %" PRId64 " ps without peers, %" PRId64 " beside %d silent ones\n", alone, beside, PEERS);
    CHECK("silent", sentence, beside * 2 < alone * 5);
}

// A message of each of `count` peers; all of them come, each once.
static bool messages_come(int first, int count, bool (*wait)(struct ibv_wc *))
{
    bool came[PEERS] = {false};
    for (int i = first; i < first + count; i++)
        tell(&peers[i], ++peers[i].said);
    for (int i = 0; i < count; i++) {
        struct ibv_wc wc;
        if (!wait(&wc) || wc.status != IBV_WC_SUCCESS || wc.wr_id >= PEERS || came[wc.wr_id])
            return false;
        came[wc.wr_id] = true;
        if (memcmp(hub.buffer + wc.wr_id * 64, &peers[wc.wr_id].said, sizeof(uint64_t)) != 0)
            return false;
        ask_for_receive((int)wc.wr_id);
    }
    return true;
}

// The others have long been silent when the last few fall silent, too.
static void the_last_to_talk_cost_nothing(int64_t alone)
{
    bool come = true;
    for (int64_t until = now_ns() + SILENCE_NS; come && now_ns() < until;)
        come = messages_come(0, TALKERS, polls);
    CHECK("silent", "a few talk while the others are silent", come);
    silent_peers_cost_nothing("nor does a poll beside silent peers of which a few talked longer", alone);
}

// Of the peers from `first` on.
static void every_way_to_wait(int first)
{
    static const struct {
        const char *sentence;
        bool (*wait)(struct ibv_wc *);
    } ways[] = {
        {"a program that polls hears silent peers", polls},
        {"a program that sleeps for an event hears silent peers", sleeps_in_the_library},
        {"a program that sleeps in poll(2) hears silent peers", sleeps_in_poll},
    };
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        int wrong = 0;
        for (int round = 0; round < ROUNDS; round++) {
            let_them_be_silent();
            wrong += !messages_come(first + round % (PEERS - first), 1, ways[way].wait);
            // Some of them before they rest again, some after.
            wrong += !messages_come(first, PEERS - first, ways[way].wait);
            let_them_be_silent();
            wrong += !messages_come(first, PEERS - first, ways[way].wait);
        }
        CHECK_EQ("silent", ways[way].sentence, wrong, 0);
    }
}

static void what_is_written_to_them_is_acknowledged(void)
{
    int wrong = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        let_them_be_silent();
        for (int i = 0; i < PEERS; i++) {
            memcpy(hub.buffer + WRITTEN, &round, sizeof round);
            wrong += post(peers[i].node.qp, round, WRITE, piece(hub.buffer + WRITTEN, sizeof round, hub.mr->lkey),
                          peers[i].there.address + WRITTEN, peers[i].there.rkey) != 0;
            wrong += next_completion(hub.send_cq).status != IBV_WC_SUCCESS;
        }
    }
    CHECK_EQ("silent", "what is written to silent peers is acknowledged", wrong, 0);
}

// The memory in which peers of this process call for links, as they map it.
static _Atomic uint64_t *calls(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        char link[32], target[64] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof target - 1) > 0 && strstr(target, "nonic-calls")) {
            void *at = mmap(NULL, CALLS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            return at == MAP_FAILED ? NULL : at;
        }
    }
    return NULL;
}

static int64_t cpu_time_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// A peer that ends may have called for a link that nobody has any more.
static void a_call_for_nobody_keeps_nobody_awake(void)
{
    _Atomic uint64_t *words = calls();
    REQUIRE(words != NULL);
    let_them_be_silent();
    REQUIRE(ibv_req_notify_cq(hub.recv_cq, 0) == 0);
    // The last link of the last group; the groups are the second word, and theirs follow in the next line.
    atomic_fetch_or(&words[8 + 63], UINT64_C(1) << 63);
    atomic_fetch_or(&words[1], UINT64_C(1) << 63);
    int64_t before = cpu_time_ns();
    CHECK("silent", "nothing comes", !takes_event(500));
    int64_t spent = cpu_time_ns() - before;
    CHECK("silent", "a process that is called for a link it has not sleeps all the same", spent < 200000000);
    munmap((void *)words, CALLS);
}

static void a_killed_peer_is_noticed(int i)
{
    let_them_be_silent();
    REQUIRE(kill(peers[i].pid, SIGKILL) == 0);
    struct ibv_wc wc = next_completion(hub.recv_cq);
    CHECK("silent", "the receive of a silent peer that is killed ends",
          wc.wr_id == (uint64_t)i && wc.status == IBV_WC_WR_FLUSH_ERR);
}

int main(void)
{
    raise_peers();
    int64_t alone = open_hub();
    a_call_for_nobody_keeps_nobody_awake();
    meet_peers();
    silent_peers_cost_nothing("a poll beside silent peers costs less than two and a half without", alone);
    the_last_to_talk_cost_nothing(alone);
    every_way_to_wait(0);
    what_is_written_to_them_is_acknowledged();
    a_killed_peer_is_noticed(0);
    REQUIRE(kill(peers[1].pid, SIGSTOP) == 0);
    every_way_to_wait(2);
    REQUIRE(kill(peers[1].pid, SIGCONT) == 0);
    let_them_be_silent();
    CHECK("silent", "a peer that was stopped is heard when it goes on", messages_come(1, 1, polls));
    for (int i = 1; i < PEERS; i++) {
        uint64_t written = 0;
        tell(&peers[i], 0);
        take(&written, sizeof written);
        CHECK_EQ("silent", "the last write stands", written, ROUNDS);
        int status = -1;
        REQUIRE(waitpid(peers[i].pid, &status, 0) == peers[i].pid);
        CHECK_EQ("silent", "a peer ends in order", status, 0);
    }
    for (int i = 0; i < PEERS; i++)
        drop_qp(&peers[i].node);
    hub.qp = NULL;
    close_node(&hub);
    return finish_alone();
}
