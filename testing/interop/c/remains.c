// A peer with much registered memory is killed. Whoever was connected to it keeps its failed queue pair, and nothing of the
// peer's memory: no mapping, and no descriptor of it.
//
// proves: HOST-16
//
// Usage: remains

#include "peers.h"

#include <sys/mman.h>

#define MUCH (256ul << 20)

// ---- the peer that will be killed --------------------------------------------------------------------------------

static void victim(int fd, uint32_t round)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct node n = load_node();
    REQUIRE(ibv_dereg_mr(n.mr) == 0);
    free(n.buffer - GUARD);
    n.buffer = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(n.buffer != MAP_FAILED);
    REQUIRE(n.mr = ibv_reg_mr(n.pd, n.buffer, MUCH, ALL_REMOTE));
    memset(n.buffer, 0x11, MUCH);
    make_ready(&n);
    greet_survivor(&n, fd, round);
    for (;;)
        pause();
}

// ---- who stays -----------------------------------------------------------------------------------------------------

// Mappings and descriptors of shared memory of the library's, whoever's it is, and of other processes' memory.
struct held {
    int mappings, descriptors;
};

static struct held held(void)
{
    struct held h = {.mappings = lines_of("/proc/self/maps", "memfd:nonic")};
    DIR *d = opendir("/proc/self/fd");
    REQUIRE(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        char link[300], name[256];
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(link, name, sizeof name - 1);
        name[length > 0 ? length : 0] = 0;
        h.descriptors += strstr(name, "memfd:nonic") || strstr(name, "/mem");
    }
    closedir(d);
    return h;
}

static bool holds_more(struct held now, struct held before)
{
    return now.mappings > before.mappings || now.descriptors > before.descriptors;
}

static void outlive_a_peer(struct node *n, int fd)
{
    REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
    REQUIRE(to_init(n) == 0);
    struct held before = held();
    struct card ours = card_of(n), there;
    tell(fd, FORK, 0, 0, NULL);
    struct message m;
    do
        m = hear(fd, 0, PATIENCE_MS);
    while (m.kind == PID);
    REQUIRE(m.kind == CARD);
    there = m.card;
    pid_t pid = m.pid;
    tell(fd, CARD, 0, 0, &ours);
    REQUIRE(connect_to(n, &there, ours.psn));
    do
        m = hear(fd, 0, PATIENCE_MS);
    while (m.kind == PID);
    REQUIRE(m.kind == READY);

    struct ibv_sge sge = piece(n->buffer, 4096, n->mr->lkey);
    for (uint64_t at = 0; at < MUCH; at += MUCH / 4)
        for (int reads = 0; reads < 2; reads++) {
            enum ibv_wr_opcode opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
            REQUIRE(post(n->qp, 0, opcode, sge, there.address + at, there.rkey) == 0);
            REQUIRE(next_completion(n->send_cq).status == IBV_WC_SUCCESS);
        }
    struct held connected = held();
    CHECK("remains", "something of the peer's is held while it lives", holds_more(connected, before));

    REQUIRE(kill(pid, SIGKILL) == 0);
    do
        m = hear(fd, 0, PATIENCE_MS);
    while (m.kind && m.kind != DIED);
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    struct held after;
    do
        after = held();
    while (holds_more(after, before) && now_ns() < deadline);
    printf("     before: %d mappings, %d descriptors; connected: %d, %d; after: %d, %d\n", before.mappings,
           before.descriptors, connected.mappings, connected.descriptors, after.mappings, after.descriptors);
    CHECK("remains", "nothing of it is mapped when it is dead", after.mappings <= before.mappings);
    CHECK("remains", "no descriptor keeps its memory", after.descriptors <= before.descriptors);

    // The queue pair is still there, and answers as one whose peer is gone.
    if (state_of(n->qp) != IBV_QPS_ERR) {
        CHECK_EQ("remains", "a request is taken", post(n->qp, 1, IBV_WR_RDMA_WRITE, sge, there.address, there.rkey), 0);
        CHECK_EQ("remains", "and fails", next_completion(n->send_cq).status, IBV_WC_RETRY_EXC_ERR);
    }
    CHECK_EQ("remains", "the queue pair has failed", state_of(n->qp), IBV_QPS_ERR);
    CHECK_EQ("remains", "a request is taken", post(n->qp, 2, IBV_WR_RDMA_READ, sge, there.address, there.rkey), 0);
    CHECK_EQ("remains", "and flushed", next_completion(n->send_cq).status, IBV_WC_WR_FLUSH_ERR);
}

int main(void)
{
    int ends[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        nursery(ends[1], victim);
    }
    close(ends[1]);
    self.other = pid;
    struct node n = load_node();
    outlive_a_peer(&n, ends[0]);
    tell(ends[0], QUIT, 0, 0, NULL);
    waitpid(pid, NULL, 0);
    close_load_node(&n);
    return finish_alone();
}
