// A peer calls exec under load, round after round. What was written to it must not reach the next program, which has
// memory of its own at the same addresses, and no read may bring that program's bytes.
//
// proves: HOST-15, 7.4 (no answer, flush)
//
// Usage: exec ROUNDS SEED NEXT_PROGRAM

#include "peers.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#define PLACE ((unsigned char *)0x320000000000)
#define LENGTH (2u << 20)

static const char *next_program;

// On a processor of its own, where there are two.
static void run_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

// As on a machine with much to do: the library's thread, which finds out that a peer is gone, shares a processor with the
// program and comes last.
static void let_the_library_wait(void)
{
    DIR *d = opendir("/proc/self/task");
    struct sched_param none = {0};
    REQUIRE(d);
    for (struct dirent *entry; (entry = readdir(d));)
        if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != getpid())
            sched_setscheduler(atoi(entry->d_name), SCHED_IDLE, &none);
    closedir(d);
}

// ---- the peer that calls exec --------------------------------------------------------------------------------------

static void becomes_another(int fd, uint32_t round)
{
    char place[32], length[32], number[32];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_on(1);
    struct node n = load_node();
    REQUIRE(ibv_dereg_mr(n.mr) == 0);
    free(n.buffer - GUARD);
    n.buffer = mmap(PLACE, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    REQUIRE(n.buffer == PLACE);
    memset(n.buffer, 0x11, LENGTH);
    REQUIRE(n.mr = ibv_reg_mr(n.pd, n.buffer, LENGTH, ALL_REMOTE));
    make_ready(&n);
    greet_survivor(&n, fd, round);
    // The peer is under load when it says so; then some time later, at any point of a request.
    struct message m = hear(fd, round, PATIENCE_MS);
    if (m.kind != READY)
        _exit(5);
    random_state += round * 88172645463325253u;
    int64_t until = now_ns() + random_below(1000000);
    while (now_ns() < until)
        ;
    REQUIRE(fcntl(fd, F_SETFD, 0) == 0);
    snprintf(place, sizeof place, "%p", (void *)PLACE);
    snprintf(length, sizeof length, "%u", LENGTH);
    snprintf(number, sizeof number, "%d", fd);
    execl(next_program, next_program, place, length, number, NULL);
    _exit(6);
}

// ---- the peer that writes and reads --------------------------------------------------------------------------------

struct tally {
    uint64_t landed, seen, done, wrong_status;
    int rounds, unanswered;
};

static const uint32_t lengths[] = {8, 64, 4096, 65536, 1 << 20};

static bool post_some(struct node *n, const struct card *there, uint64_t id)
{
    uint32_t length = lengths[id % 5];
    struct ibv_sge sge = piece(n->buffer, length, n->mr->lkey);
    uint64_t at = there->address + random_below(LENGTH / length) * (uint64_t)length;
    if (id / 5 % 2 == 0)
        return post(n->qp, id, IBV_WR_RDMA_WRITE, sge, at, there->rkey) == 0;
    sge.addr += LENGTH;
    return post(n->qp, id, IBV_WR_RDMA_READ, sge, at, there->rkey) == 0;
}

static bool round_of(struct node *n, int fd, uint32_t round, struct tally *t)
{
    REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
    REQUIRE(to_init(n) == 0);
    struct card ours = card_of(n), there;
    tell(fd, FORK, round, 0, NULL);
    struct message m;
    do
        m = hear(fd, round, PATIENCE_MS);
    while (m.kind == PID);
    if (m.kind != CARD)
        return false;
    there = m.card;
    tell(fd, CARD, round, 0, &ours);
    if (!connect_to(n, &there, ours.psn))
        return false;
    do
        m = hear(fd, round, PATIENCE_MS);
    while (m.kind == PID);
    if (m.kind != READY)
        return false;

    let_the_library_wait();
    uint64_t posted = 0, finished = 0;
    bool broken = false, told = false;
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while ((!broken || finished < posted) && now_ns() < deadline) {
        while (!broken && posted - finished < 4 && post_some(n, &there, posted))
            posted++;
        struct ibv_wc wc;
        while (ibv_poll_cq(n->send_cq, 1, &wc) == 1) {
            finished++;
            if (wc.status != IBV_WC_SUCCESS) {
                broken = true;
                t->wrong_status += wc.status != IBV_WC_WR_FLUSH_ERR && wc.status != IBV_WC_RETRY_EXC_ERR;
                continue;
            }
            t->done++;
            // What the peer had: zeros of ours, or what it filled its memory with.
            if (wc.opcode == IBV_WC_RDMA_READ)
                t->seen += memchr(n->buffer + LENGTH, 0x5a, lengths[wc.wr_id % 5]) != NULL;
        }
        if (!told && finished >= 10) {
            tell(fd, READY, round, 0, NULL);
            told = true;
        }
    }
    t->unanswered += finished < posted;
    drop_qp(n);
    // The next program looks only now.
    uint64_t landed = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (send(fd, "?", 1, MSG_NOSIGNAL) != 1 || poll(&p, 1, PATIENCE_MS) != 1 ||
        recv(fd, &landed, sizeof landed, 0) != sizeof landed)
        return false;
    t->landed += landed;
    do
        m = hear(fd, round, PATIENCE_MS);
    while (m.kind == PID);
    return m.kind == DIED && m.pid == 0;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20, ends[2];
    random_state = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)now_ns();
    next_program = argc > 3 ? argv[3] : "next_program";
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%d rounds, seed %" PRIu64 "\n", rounds, random_state);
    random_state = random_state * 2654435761u + 88172645463325252u;
    self.active = true;
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        nursery(ends[1], becomes_another);
    }
    close(ends[1]);
    self.other = pid;

    run_on(0);
    struct node n = load_node();
    REQUIRE(ibv_dereg_mr(n.mr) == 0);
    free(n.buffer - GUARD);
    // Written from the first half, read into the second.
    REQUIRE(posix_memalign((void **)&n.buffer, 4096, 2 * LENGTH) == 0);
    memset(n.buffer, 0, 2 * LENGTH);
    REQUIRE(n.mr = ibv_reg_mr(n.pd, n.buffer, 2 * LENGTH, ALL_REMOTE));
    struct tally t = {0};
    for (int round = 0; round < rounds; round++, t.rounds++)
        if (!round_of(&n, ends[0], round, &t)) {
            printf("FAIL the peer of round %d did not do what it should\n", round);
            self.failed++;
            break;
        }
    printf("     %d peers became another program; %" PRIu64 " requests succeeded before\n", t.rounds, t.done);
    CHECK_EQ("exec", "every round came to its end", t.rounds, rounds);
    CHECK_EQ("exec", "no byte of the next program was written", t.landed, 0);
    CHECK_EQ("exec", "none was read", t.seen, 0);
    CHECK_EQ("exec", "every request came back", t.unanswered, 0);
    CHECK_EQ("exec", "with flushed or retry exceeded", t.wrong_status, 0);
    tell(ends[0], QUIT, 0, 0, NULL);
    waitpid(pid, NULL, 0);
    close_node(&n);
    return finish_alone();
}
