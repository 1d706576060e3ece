// A process whose peers write rubbish: over the memory they share with it, down the sockets, into files they handed
// over. It must refuse what makes no sense, keep its own memory intact, and go on serving peers that behave.
//
// Rounds alternate: a peer that misbehaves in one of the ways below, then one that behaves and is served in full.
//
// proves: HOST-1
//
// Usage: rubbish ROUNDS SEED

#include "peers.h"

#include <sys/stat.h>
#include <sys/un.h>

#define SECRET 65536
#define ATTACK_MS 20

enum attack { SCRIBBLE, FLIP_BITS, FILL, REPLAY, TRUNCATE, SOCKETS, STRANGER, ATTACKS };

static const char *const attack_names[] = {
    "random words over shared memory", "single bits flipped in shared memory", "shared memory filled with one value",
    "parts of shared memory copied to other parts", "shared files truncated", "rubbish down the sockets",
    "a stranger who sends rubbish to every name",
};

static enum attack attack_of(uint32_t round) { return (enum attack)(round / 2 % ATTACKS); }

// ---- the peer that misbehaves ------------------------------------------------------------------------------------

struct shared_memory {
    unsigned char *start;
    size_t length;
};

// The writable mappings of memory files: all that this process shares with others.
static int find_shared(struct shared_memory *found, int most)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    int count = 0;
    while (f && count < most && fgets(line, sizeof line, f)) {
        unsigned long start, end;
        char access[8];
        if (strstr(line, "/memfd:") && sscanf(line, "%lx-%lx %7s", &start, &end, access) == 3 && access[1] == 'w')
            found[count++] = (struct shared_memory){(unsigned char *)start, end - start};
    }
    if (f)
        fclose(f);
    return count;
}

// A place in the memory: mostly near the start, where headers and rings are.
static size_t somewhere(const struct shared_memory *m, size_t room)
{
    size_t length = random_below(4) && m->length > (1 << 20) ? 1 << 20 : m->length;
    return length > room ? (random_below((uint32_t)((length - room) / 8)) * 8) : 0;
}

static void disturb_memory(enum attack attack)
{
    struct shared_memory shared[32];
    int count = find_shared(shared, 32);
    for (int i = 0; i < count; i++) {
        struct shared_memory *m = &shared[i];
        for (int k = 0; k < 400; k++) {
            uint64_t word = (uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX);
            size_t at = somewhere(m, 256), from = somewhere(m, 256);
            if (attack == SCRIBBLE)
                memcpy(m->start + at, &word, 8);
            else if (attack == FLIP_BITS)
                m->start[at + random_below(8)] ^= 1u << random_below(8);
            else if (attack == FILL)
                memset(m->start + at, word & 1 ? 0xff : word & 2 ? 0x00 : 0x80, 256);
            else
                memmove(m->start + at, m->start + from, 8 + random_below(248));
        }
    }
}

// Everything this process has open that it shares with others, by /proc/self/fd.
static void disturb_files(enum attack attack, int ours)
{
    unsigned char rubbish[512];
    for (size_t i = 0; i < sizeof rubbish; i++)
        rubbish[i] = (unsigned char)random_below(256);
    for (int fd = 3; fd < 256; fd++) {
        char path[64], target[256];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0 || fd == ours)
            continue;
        target[length] = 0;
        if (attack == TRUNCATE && strstr(target, "memfd:")) {
            if (ftruncate(fd, random_below(2) ? 0 : 4096) != 0)
                errno = 0; // sealed, as it should be
        } else if (attack == SOCKETS && strncmp(target, "socket:", 7) == 0) {
            send(fd, rubbish, 1 + random_below(sizeof rubbish), MSG_NOSIGNAL | MSG_DONTWAIT);
        } else if (attack == SOCKETS && strstr(target, "eventfd")) {
            uint64_t many = random_below(1000) + 1;
            int flags = fcntl(fd, F_GETFL);
            fcntl(fd, F_SETFL, flags | O_NONBLOCK);
            if (write(fd, &many, 8) != 8)
                errno = 0; // full
        }
    }
}

// Connects to every name of the engine and sends bytes and descriptors that mean nothing.
static void be_a_stranger(void)
{
    FILE *f = fopen("/proc/net/unix", "re");
    char line[512];
    while (f && fgets(line, sizeof line, f)) {
        char *name = strchr(line, '@');
        if (!name || !strstr(name, "nonic"))
            continue;
        name[strcspn(name, "\n")] = 0;
        static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            struct sockaddr_un address = {.sun_family = AF_UNIX};
            int fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            size_t length = strlen(name + 1);
            if (fd < 0 || length + 1 > sizeof address.sun_path)
                continue;
            memcpy(address.sun_path + 1, name + 1, length);
            socklen_t size = offsetof(struct sockaddr_un, sun_path) + 1 + length;
            if (connect(fd, (struct sockaddr *)&address, size) == 0) {
                unsigned char rubbish[4096];
                for (size_t k = 0; k < sizeof rubbish; k++)
                    rubbish[k] = (unsigned char)random_below(256);
                int pipes[2] = {-1, -1}, memory = memfd_create("rubbish", MFD_CLOEXEC);
                if (pipe2(pipes, O_CLOEXEC) != 0)
                    pipes[0] = pipes[1] = memory;
                char control[CMSG_SPACE(3 * sizeof(int))] = {0};
                struct iovec bytes = {rubbish, 1 + random_below(sizeof rubbish)};
                struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                                         .msg_controllen = sizeof control};
                struct cmsghdr *header = CMSG_FIRSTHDR(&message);
                header->cmsg_level = SOL_SOCKET;
                header->cmsg_type = SCM_RIGHTS;
                header->cmsg_len = CMSG_LEN(3 * sizeof(int));
                int passed[3] = {pipes[0], pipes[1], memory};
                memcpy(CMSG_DATA(header), passed, sizeof passed);
                sendmsg(fd, &message, MSG_NOSIGNAL);
                for (int k = 0; k < 3; k++)
                    close(passed[k]);
                // Some stay open, some hang up at once.
                if (random_below(2))
                    continue;
            }
            close(fd);
        }
    }
    if (f)
        fclose(f);
}

static void misbehave(int fd, uint32_t round)
{
    enum attack attack = attack_of(round);
    random_state += round * 7919u;
    if (attack == STRANGER) {
        struct card nobody = {0};
        tell(fd, CARD, round, getpid(), &nobody);
        if (hear(fd, round, PATIENCE_MS).kind != CARD)
            _exit(4);
        tell(fd, READY, round, getpid(), NULL);
        for (;;)
            be_a_stranger();
    }
    struct node n = load_node();
    struct load l = {.node = &n};
    REQUIRE(n.qp = make_qp(&n, IBV_QPT_RC));
    REQUIRE(to_init(&n) == 0);
    post_receives(&l);
    struct card ours = card_of(&n);
    tell(fd, CARD, round, getpid(), &ours);
    struct message m = hear(fd, round, PATIENCE_MS);
    if (m.kind != CARD)
        _exit(4);
    l.there = m.card;
    REQUIRE(connect_to(&n, &m.card, ours.psn));
    tell(fd, READY, round, getpid(), NULL);
    // Some honest traffic first, so that rings are in use and everything is mapped.
    int64_t until = now_ns() + 2000000;
    while (now_ns() < until)
        pump(&l);
    for (;;) {
        if (attack == TRUNCATE || attack == SOCKETS)
            disturb_files(attack, fd);
        else
            disturb_memory(attack);
        // What it posts now travels through what it has broken.
        if (random_below(4) == 0)
            pump(&l);
    }
}

// ---- the peer that behaves ---------------------------------------------------------------------------------------

static void behave(int fd, uint32_t round)
{
    struct node n = load_node();
    make_ready(&n);
    fill(n.buffer, ROOM, round);
    REQUIRE(post_receive(n.qp, 1, piece(n.buffer, 4096, n.mr->lkey)) == 0);
    greet_survivor(&n, fd, round);
    while (hear(fd, round, PATIENCE_MS).kind == READY)
        ;
    _exit(5);
}

static void life(int fd, uint32_t round)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    if (round % 2 == 0)
        misbehave(fd, round);
    behave(fd, round);
}

// ---- the victim --------------------------------------------------------------------------------------------------

static pid_t start_peer(struct node *n, int fd, uint32_t round, struct load *l, struct card *ours)
{
    drain(n->send_cq);
    drain(n->recv_cq);
    REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
    REQUIRE(to_init(n) == 0);
    *ours = card_of(n);
    tell(fd, FORK, round, 0, NULL);
    struct message m;
    do
        m = hear(fd, round, PATIENCE_MS);
    while (m.kind == PID);
    if (m.kind != CARD) {
        printf("FAIL the peer of round %u did not come up (message %d)\n", round, m.kind);
        self.failed++;
        give_up();
    }
    l->there = m.card;
    return m.pid;
}

static void wait_for(int fd, uint32_t round, enum kind kind)
{
    struct message m;
    do
        m = hear(fd, round, PATIENCE_MS);
    while (m.kind && m.kind != kind);
    if (!m.kind) {
        printf("FAIL round %u: message %d never came\n", round, kind);
        self.failed++;
        give_up();
    }
}

static int endured, statuses[32];

static void endure(struct node *n, int fd, uint32_t round)
{
    struct load l = {.node = n};
    struct card ours;
    pid_t pid = start_peer(n, fd, round, &l, &ours);
    tell(fd, CARD, round, 0, &ours);
    bool stranger = attack_of(round) == STRANGER;
    if (!stranger)
        REQUIRE(connect_to(n, &l.there, ours.psn));
    wait_for(fd, round, READY);
    int64_t until = now_ns() + (int64_t)ATTACK_MS * 1000000;
    while (now_ns() < until) {
        if (stranger || l.broken)
            sched_yield();
        else
            pump(&l);
    }
    kill(pid, SIGKILL);
    wait_for(fd, round, DIED);
    if (l.broken)
        statuses[l.first_status & 31]++;
    drop_qp(n);
    endured++;
}

static int served, mistakes;

static void serve(struct node *n, int fd, uint32_t round)
{
    struct load l = {.node = n};
    struct card ours;
    pid_t pid = start_peer(n, fd, round, &l, &ours);
    REQUIRE(connect_to(n, &l.there, ours.psn));
    tell(fd, CARD, round, 0, &ours);
    wait_for(fd, round, READY);
    struct ibv_sge sge = piece(n->buffer, 65536, n->mr->lkey);
    int before = mistakes;
    fill(n->buffer, 65536, round + 1);
    REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, sge, l.there.address + 65536, l.there.rkey) == 0);
    mistakes += next_completion(n->send_cq).status != IBV_WC_SUCCESS;
    memset(n->buffer, 0, 65536);
    REQUIRE(post(n->qp, 2, IBV_WR_RDMA_READ, sge, l.there.address + 65536, l.there.rkey) == 0);
    mistakes += next_completion(n->send_cq).status != IBV_WC_SUCCESS;
    mistakes += !filled(n->buffer, 65536, round + 1);
    REQUIRE(post(n->qp, 3, IBV_WR_RDMA_READ, sge, l.there.address, l.there.rkey) == 0);
    mistakes += next_completion(n->send_cq).status != IBV_WC_SUCCESS;
    mistakes += !filled(n->buffer, 65536, round);
    sge.length = 4096;
    REQUIRE(post(n->qp, 4, IBV_WR_SEND, sge, 0, 0) == 0);
    mistakes += next_completion(n->send_cq).status != IBV_WC_SUCCESS;
    if (mistakes != before)
        printf("     round %u: a good peer was not served well, after: %s\n", round, attack_names[attack_of(round - 1)]);
    kill(pid, SIGKILL);
    wait_for(fd, round, DIED);
    drop_qp(n);
    served++;
}

int main(int argc, char **argv)
{
    int rounds = rounds_and_seed(argc, argv), ends[2];
    self.active = true;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
        perror("socketpair");
        return 2;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        nursery(ends[1], life);
    }
    close(ends[1]);
    self.other = pid;

    // Memory that no peer has any right to, registered for nobody's eyes but ours, and not registered at all.
    unsigned char *secret = aligned_alloc(4096, SECRET), *apart = aligned_alloc(4096, SECRET);
    REQUIRE(secret && apart);
    fill(secret, SECRET, 77);
    fill(apart, SECRET, 78);
    struct node n = load_node();
    struct ibv_mr *mr = ibv_reg_mr(n.pd, secret, SECRET, IBV_ACCESS_LOCAL_WRITE);
    REQUIRE(mr);
    struct holdings before = {0};
    int disturbed = 0;
    for (int round = 0; round < rounds + 2 * ATTACKS; round += 2) {
        if (round == 2 * ATTACKS) // every attack has been seen once
            before = steady();
        endure(&n, ends[0], round);
        serve(&n, ends[0], round + 1);
        if (!filled(secret, SECRET, 77) || !filled(apart, SECRET, 78)) {
            printf("     round %d: memory without any remote right has changed, after: %s\n", round,
                   attack_names[attack_of(round)]);
            disturbed++;
            fill(secret, SECRET, 77);
            fill(apart, SECRET, 78);
        }
    }
    struct holdings after = settled(before);
    printf("     %d attacks endured, %d good peers served; first statuses:", endured, served);
    for (int i = 0; i < 32; i++)
        if (statuses[i])
            printf(" %s %d,", ibv_wc_status_str(i), statuses[i]);
    printf("\n     before: %d descriptors, %d mappings, %d names; after: %d, %d, %d\n", before.descriptors,
           before.mappings, before.names, after.descriptors, after.mappings, after.names);
    CHECK_EQ("rubbish", "every attack was lived through", endured, (rounds + 2 * ATTACKS + 1) / 2);
    CHECK_EQ("rubbish", "every good peer was served", served, endured);
    CHECK_EQ("rubbish", "with the right bytes", mistakes, 0);
    CHECK_EQ("rubbish", "memory without remote rights never changed", disturbed, 0);
    CHECK("rubbish", "no descriptor leaked", after.descriptors <= before.descriptors);
    CHECK("rubbish", "no mapping leaked", after.mappings <= before.mappings + 2);
    tell(ends[0], QUIT, 0, 0, NULL);
    waitpid(pid, NULL, 0);
    REQUIRE(ibv_dereg_mr(mr) == 0);
    close_load_node(&n);
    return finish_alone();
}
