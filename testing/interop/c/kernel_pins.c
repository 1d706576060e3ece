// Memory that the kernel holds itself: fixed buffers of io_uring. The kernel goes on using the pages it has pinned, so
// they must stay the program's pages, whichever of the two registrations comes first or ends first.
//
// proves: MEM-8

#include "remote.h"

#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define LENGTH (16 * PAGE)

// One request at a time.
struct ring {
    int fd;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
};

static bool open_ring(struct ring *r)
{
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    r->fd = (int)syscall(SYS_io_uring_setup, 4, &p);
    if (r->fd < 0)
        return false;
    size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    size_t cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    char *sq = mmap(NULL, sq_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, cq_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_CQ_RING);
    r->sqes = mmap(NULL, p.sq_entries * sizeof *r->sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd,
                   IORING_OFF_SQES);
    REQUIRE(sq != MAP_FAILED && cq != MAP_FAILED && (void *)r->sqes != MAP_FAILED);
    r->sq_tail = (unsigned *)(sq + p.sq_off.tail);
    r->sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
    r->sq_array = (unsigned *)(sq + p.sq_off.array);
    r->cq_head = (unsigned *)(cq + p.cq_off.head);
    r->cq_tail = (unsigned *)(cq + p.cq_off.tail);
    r->cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
    r->cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    return true;
}

static bool pin(struct ring *r, void *at)
{
    struct iovec piece = {.iov_base = at, .iov_len = LENGTH};
    return syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_BUFFERS, &piece, 1) == 0;
}

static void unpin(struct ring *r)
{
    REQUIRE(syscall(SYS_io_uring_register, r->fd, IORING_UNREGISTER_BUFFERS, NULL, 0) == 0);
}

// Moves the whole buffer from or to a file, through the pages the kernel has pinned.
static bool move(struct ring *r, int opcode, int file, void *at)
{
    unsigned tail = *r->sq_tail, slot = tail & *r->sq_mask;
    struct io_uring_sqe *sqe = &r->sqes[slot];
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = (uint8_t)opcode;
    sqe->fd = file;
    sqe->addr = (uintptr_t)at;
    sqe->len = LENGTH;
    r->sq_array[slot] = slot;
    __atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, r->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
        return false;
    unsigned head = *r->cq_head;
    if (head == __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE))
        return false;
    int result = r->cqes[head & *r->cq_mask].res;
    __atomic_store_n(r->cq_head, head + 1, __ATOMIC_RELEASE);
    return result == LENGTH;
}

// The kernel sees what the program sees, and the other way round.
static void kernel_and_program_agree(struct ring *r, unsigned char *at, unsigned seed, const char *when)
{
    static unsigned char bytes[LENGTH];
    int file = memfd_create("file", MFD_CLOEXEC);
    REQUIRE(file >= 0);
    fill(at, LENGTH, seed);
    CHECK(when, "the kernel writes the buffer out", move(r, IORING_OP_WRITE_FIXED, file, at));
    CHECK(when, "as the program left it", pread(file, bytes, LENGTH, 0) == LENGTH && filled(bytes, LENGTH, seed));
    fill(bytes, LENGTH, seed + 1);
    REQUIRE(pwrite(file, bytes, LENGTH, 0) == LENGTH);
    CHECK(when, "the kernel reads into the buffer", move(r, IORING_OP_READ_FIXED, file, at));
    CHECK(when, "and the program sees it", filled(at, LENGTH, seed + 1));
    close(file);
}

static void peer_agrees(struct node *n, struct ibv_mr *mr, struct ring *r, unsigned char *at, const char *when)
{
    static unsigned char bytes[LENGTH];
    int file = memfd_create("file", MFD_CLOEXEC);
    REQUIRE(file >= 0);
    CHECK_EQ(when, "the peer writes", peer_writes(n, mr, at, LENGTH, 40), IBV_WC_SUCCESS);
    CHECK(when, "the program sees it", filled(at, LENGTH, 40));
    CHECK(when, "and so does the kernel", move(r, IORING_OP_WRITE_FIXED, file, at) &&
                                             pread(file, bytes, LENGTH, 0) == LENGTH && filled(bytes, LENGTH, 40));
    fill(bytes, LENGTH, 41);
    REQUIRE(pwrite(file, bytes, LENGTH, 0) == LENGTH);
    CHECK(when, "the kernel reads into the buffer", move(r, IORING_OP_READ_FIXED, file, at));
    CHECK(when, "and the peer sees it", peer_reads(n, mr, at, LENGTH, 41));
    close(file);
}

static void pinned_first(struct node *n, struct ring *r)
{
    const char *when = "pinned, then registered";
    unsigned char *at = map_pages(LENGTH);
    memset(at, 1, LENGTH);
    REQUIRE(pin(r, at));
    kernel_and_program_agree(r, at, 1, when);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    CHECK_EQ(when, "pages that the kernel holds are not moved", adopted_bytes(at, LENGTH), 0);
    kernel_and_program_agree(r, at, 3, when);
    peer_agrees(n, mr, r, at, when);
    CHECK_EQ(when, "the region is deregistered", ibv_dereg_mr(mr), 0);
    kernel_and_program_agree(r, at, 5, when);
    unpin(r);
    REQUIRE(munmap(at, LENGTH) == 0);
}

static void registered_first(struct node *n, struct ring *r)
{
    const char *when = "registered, then pinned";
    unsigned char *at = map_pages(LENGTH);
    memset(at, 1, LENGTH);
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    check_adopted(when, at, LENGTH);
    REQUIRE(pin(r, at));
    kernel_and_program_agree(r, at, 1, when);
    peer_agrees(n, mr, r, at, when);
    CHECK_EQ(when, "the region is deregistered while the kernel holds its pages", ibv_dereg_mr(mr), 0);
    kernel_and_program_agree(r, at, 3, when);
    unpin(r);
    CHECK("registered, then pinned", "the bytes stay when the kernel lets go", filled(at, LENGTH, 4));
    mr = register_all(n, at, LENGTH);
    CHECK_EQ(when, "the peer writes it in a later region", peer_writes(n, mr, at, LENGTH, 5), IBV_WC_SUCCESS);
    CHECK_EQ(when, "the later region is deregistered", ibv_dereg_mr(mr), 0);
    check_private(when, at, LENGTH);
    CHECK(when, "and keeps its bytes", filled(at, LENGTH, 5));
    REQUIRE(munmap(at, LENGTH) == 0);
}

static void pinned_elsewhere(struct node *n, struct ring *r)
{
    const char *when = "pinned elsewhere";
    unsigned char *held = map_pages(LENGTH), *at = map_pages(LENGTH);
    memset(held, 1, LENGTH);
    REQUIRE(pin(r, held));
    struct ibv_mr *mr = register_all(n, at, LENGTH);
    check_adopted(when, at, LENGTH);
    CHECK_EQ(when, "the peer writes memory that nobody had touched", peer_writes(n, mr, at, LENGTH, 6), IBV_WC_SUCCESS);
    CHECK(when, "and the program sees it", filled(at, LENGTH, 6));
    kernel_and_program_agree(r, held, 7, when);
    CHECK_EQ(when, "the region is deregistered", ibv_dereg_mr(mr), 0);
    CHECK(when, "and the memory keeps its bytes", filled(at, LENGTH, 6));
    kernel_and_program_agree(r, held, 9, when);
    unpin(r);
    REQUIRE(munmap(held, LENGTH) == 0 && munmap(at, LENGTH) == 0);
}

static void program(struct node *n)
{
    struct ring ring;
    if (!open_ring(&ring)) {
        printf("SKIPPED io_uring: %s\n", strerror(errno));
        return;
    }
    registered_first(n, &ring);
    pinned_first(n, &ring);
    pinned_elsewhere(n, &ring);
    close(ring.fd);
}

int main(void)
{
    return with_a_peer(program);
}
