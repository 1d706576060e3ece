// Memory that a driver holds without telling anybody: the umem of AF_XDP. The driver goes on using the pages it has pinned,
// so they must stay the program's pages, whichever of the two registrations comes first or ends first.
//
// The socket is of a network of its own, which a helper makes and sends, so that an ordinary user can have it.
//
// proves: MEM-8

#include "remote.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <sched.h>
#include <sys/ioctl.h>

#define FRAMES 16u
#define LENGTH (FRAMES * PAGE)
#define FRAME 1024u
#define LOOPBACK 1

// An AF_XDP socket that sends, and one that hears it.
struct holder {
    int xdp, ear;
    uint32_t *producer;
    struct xdp_desc *ring;
};

// In a network of its own, with its loopback up: both sockets, sent to the program.
static void make_sockets(int line)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = LOOPBACK};
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        _exit(1);
    int any = socket(AF_INET, SOCK_DGRAM, 0), sockets[2] = {socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0),
                                                            socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))};
    if (any < 0 || sockets[0] < 0 || sockets[1] < 0 || ioctl(any, SIOCSIFFLAGS, &lo) != 0 ||
        bind(sockets[1], (struct sockaddr *)&at, sizeof at) != 0)
        _exit(1);
    char byte = 0, room[CMSG_SPACE(sizeof sockets)] = {0};
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof sockets)};
    memcpy(CMSG_DATA(head), sockets, sizeof sockets);
    _exit(sendmsg(line, &message, 0) == 1 ? 0 : 1);
}

static bool take_sockets(struct holder *c)
{
    int ends[2], sockets[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0)
        make_sockets(ends[1]);
    close(ends[1]);
    char byte, room[CMSG_SPACE(sizeof sockets)] = {0};
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    ssize_t count = recvmsg(ends[0], &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    bool came = child_status(child) == 0 && count == 1 && head && head->cmsg_len == CMSG_LEN(sizeof sockets);
    if (came) {
        memcpy(sockets, CMSG_DATA(head), sizeof sockets);
        *c = (struct holder){.xdp = sockets[0], .ear = sockets[1]};
    }
    close(ends[0]);
    return came;
}

// Has the card hold the memory.
static bool pin(struct holder *c, void *at)
{
    struct xdp_umem_reg umem = {.addr = (uintptr_t)at, .len = LENGTH, .chunk_size = PAGE};
    struct xdp_mmap_offsets offsets;
    socklen_t length = sizeof offsets;
    int entries = FRAMES;
    struct sockaddr_xdp to = {.sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY, .sxdp_ifindex = LOOPBACK};
    if (setsockopt(c->xdp, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem) != 0 ||
        setsockopt(c->xdp, SOL_XDP, XDP_UMEM_FILL_RING, &entries, sizeof entries) != 0 ||
        setsockopt(c->xdp, SOL_XDP, XDP_UMEM_COMPLETION_RING, &entries, sizeof entries) != 0 ||
        setsockopt(c->xdp, SOL_XDP, XDP_TX_RING, &entries, sizeof entries) != 0 ||
        getsockopt(c->xdp, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) != 0)
        return false;
    size_t bytes = offsets.tx.desc + FRAMES * sizeof(struct xdp_desc);
    char *ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, c->xdp, XDP_PGOFF_TX_RING);
    REQUIRE(ring != MAP_FAILED);
    c->producer = (uint32_t *)(ring + offsets.tx.producer);
    c->ring = (struct xdp_desc *)(ring + offsets.tx.desc);
    return bind(c->xdp, (struct sockaddr *)&to, sizeof to) == 0;
}

// The card sends what the program has just written.
static void card_and_program_agree(struct holder *c, unsigned char *at, unsigned seed, const char *when)
{
    unsigned char heard[PAGE];
    uint32_t tail = *c->producer, frame = tail % FRAMES;
    fill(at + frame * PAGE, FRAME, seed);
    // A frame of Ethernet, of a protocol that nobody else speaks.
    memset(at + frame * PAGE, 0, 12);
    at[frame * PAGE + 12] = 0x88, at[frame * PAGE + 13] = 0xb5;
    c->ring[frame] = (struct xdp_desc){.addr = (uint64_t)frame * PAGE, .len = FRAME};
    __atomic_store_n(c->producer, tail + 1, __ATOMIC_RELEASE);
    CHECK(when, "the card sends", sendto(c->xdp, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0);
    struct pollfd p = {.fd = c->ear, .events = POLLIN};
    do
        CHECK(when, "a frame comes", poll(&p, 1, PATIENCE_MS) == 1);
    while (p.revents && (recv(c->ear, heard, sizeof heard, 0) != FRAME || heard[12] != 0x88 || heard[13] != 0xb5));
    CHECK(when, "what the card sent is what the program wrote", memcmp(heard, at + frame * PAGE, FRAME) == 0);
    // Loopback shows each frame going and coming.
    while (recv(c->ear, heard, sizeof heard, MSG_DONTWAIT) >= 0)
        ;
}

static void let_go(struct holder *c)
{
    REQUIRE(close(c->xdp) == 0 && close(c->ear) == 0);
    // The ring keeps the socket alive.
    REQUIRE(munmap((void *)((uintptr_t)c->producer & ~(uintptr_t)(PAGE - 1)), PAGE) == 0);
}

static bool pinned_first(struct node *n, struct holder *c)
{
    const char *when = "held by a driver, then registered";
    unsigned char *at = map_pages(LENGTH);
    memset(at, 1, LENGTH);
    if (!take_sockets(c) || !pin(c, at))
        return false;
    card_and_program_agree(c, at, 1, when);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    CHECK_EQ(when, "pages that a driver holds are not moved", adopted_bytes(at, LENGTH), 0);
    card_and_program_agree(c, at, 2, when);
    CHECK_EQ(when, "the peer writes", peer_writes(n, mr, at, LENGTH, 3), IBV_WC_SUCCESS);
    card_and_program_agree(c, at, 4, when);
    CHECK_EQ(when, "the region is deregistered", ibv_dereg_mr(mr), 0);
    card_and_program_agree(c, at, 5, when);
    let_go(c);
    mr = register_all(n, at, LENGTH);
    check_adopted("let go by a driver, then registered", at, LENGTH);
    CHECK_EQ(when, "the region is deregistered", ibv_dereg_mr(mr), 0);
    REQUIRE(munmap(at, LENGTH) == 0);
    return true;
}

static bool registered_first(struct node *n, struct holder *c)
{
    const char *when = "registered, then held by a driver";
    unsigned char *at = map_pages(LENGTH);
    memset(at, 1, LENGTH);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    check_adopted(when, at, LENGTH);
    if (!take_sockets(c) || !pin(c, at))
        return false;
    card_and_program_agree(c, at, 1, when);
    CHECK_EQ(when, "the region is deregistered while a driver holds its pages", ibv_dereg_mr(mr), 0);
    card_and_program_agree(c, at, 2, when);
    memset(at, 7, LENGTH);
    let_go(c);
    CHECK(when, "the bytes stay when the driver lets go", all_bytes(at, LENGTH, 7));
    mr = register_all(n, at, LENGTH);
    CHECK_EQ(when, "the peer writes it in a later region", peer_writes(n, mr, at, LENGTH, 5), IBV_WC_SUCCESS);
    CHECK_EQ(when, "the later region is deregistered", ibv_dereg_mr(mr), 0);
    check_private(when, at, LENGTH);
    CHECK(when, "and keeps its bytes", filled(at, LENGTH, 5));
    REQUIRE(munmap(at, LENGTH) == 0);
    return true;
}

static void program(struct node *n)
{
    struct holder holder;
    if (!pinned_first(n, &holder) || !registered_first(n, &holder))
        printf("SKIPPED AF_XDP: a network of one's own, such a socket, or what it needs is refused\n");
}

int main(void)
{
    return with_a_peer(program);
}
