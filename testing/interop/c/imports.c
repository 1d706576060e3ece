// What one process made, used by another that was given a descriptor and handles (ibv_import_device(3), ibv_import_pd(3),
// ibv_import_mr(3), ibv_import_dm(3)): the bytes are the owner's, wherever a request of the other names them, and are not reached any
// more when the owner takes them back or ends. Two processes: the active one owns, the passive one imports.
//
// proves: verbs-abi 4 (imports), 5.3

#include "common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#define DM_LENGTH 65536

// What the importer is told, beside the descriptor.
struct names {
    uint32_t pd, mr, dm, lkey, rkey, zero;
    uint64_t address, length;
};

static bool tier_is(const char *name)
{
    const char *tier = getenv("NONIC_TIER");
    return tier && strcmp(tier, name) == 0;
}

static void pass(int socket, int descriptor, const struct names *names)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec bytes = {.iov_base = (void *)names, .iov_len = sizeof *names};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    REQUIRE(sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *names);
}

static int passed(int socket, struct names *names)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec bytes = {.iov_base = names, .iov_len = sizeof *names};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct pollfd p = {.fd = socket, .events = POLLIN};
    REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
    REQUIRE(recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) == (ssize_t)sizeof *names && CMSG_FIRSTHDR(&message));
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

static struct names names_of(const struct node *n, const struct ibv_dm *dm)
{
    return (struct names){
        .pd = n->pd->handle,
        .mr = n->mr->handle,
        .dm = dm ? dm->handle : 0,
        .lkey = n->mr->lkey,
        .rkey = n->mr->rkey,
        .address = (uintptr_t)n->buffer,
        .length = n->mr->length,
    };
}

// The importer's side of a connection: everything of the owner's under names of its own.
static struct node imported_node(struct ibv_context *context, const struct names *names)
{
    struct node n = node_on(context);
    REQUIRE(n.pd = ibv_import_pd(context, names->pd));
    CHECK("4", "a domain is imported", n.pd->context == context && n.pd->handle == names->pd);
    REQUIRE(n.mr = ibv_import_mr(n.pd, names->mr));
    CHECK("4", "a region is, without an address",
          n.mr->context == context && n.mr->pd == n.pd && !n.mr->addr && n.mr->length == names->length && n.mr->handle == names->mr);
    REQUIRE(n.send_cq = ibv_create_cq(context, 128, NULL, NULL, 0));
    REQUIRE(n.recv_cq = ibv_create_cq(context, 128, NULL, NULL, 0));
    // The owner's address: as a region it is named by that here, too. Nothing is there.
    n.buffer = (void *)(uintptr_t)names->address;
    return n;
}

// Sends and receives whose bytes are the owner's on the importer's side. The owner's buffer: what is sent from 0, what arrives from 32768.
static void messages(struct node *n, uint32_t length)
{
    bring_up(n);
    if (self.active) {
        memset(n->buffer, 0, BUFFER);
        fill(n->buffer, length, length);
        REQUIRE(post_receive(n->qp, 1, piece(n->buffer + 32768, length, n->mr->lkey)) == 0);
    }
    meet();
    if (!self.active) {
        REQUIRE(post(n->qp, 1, SEND, piece(n->buffer, length, n->mr->lkey), 0, 0) == 0);
        CHECK_EQ("4", "bytes of the owner's are sent by who imported them", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    } else {
        struct ibv_wc wc = next_completion(n->recv_cq);
        CHECK("4", "and arrive", wc.status == IBV_WC_SUCCESS && wc.byte_len == length && filled(n->buffer + 32768, length, length));
        memset(n->buffer + 32768, 0, length);
    }
    if (!self.active)
        REQUIRE(post_receive(n->qp, 2, piece(n->buffer + 32768, length, n->mr->lkey)) == 0);
    meet();
    if (self.active) {
        REQUIRE(post(n->qp, 2, SEND, piece(n->buffer, length, n->mr->lkey), 0, 0) == 0);
        CHECK_EQ("4", "who imported takes messages", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        CHECK("4", "into the owner's memory", filled(n->buffer + 32768, length, length) && all_bytes(n->buffer + 32768 + length, 1000, 0));
    } else {
        CHECK_EQ("4", "and is told", next_completion(n->recv_cq).status, IBV_WC_SUCCESS);
    }
    meet();
}

static void one_sided(struct node *n, uint32_t length)
{
    struct card theirs = bring_up(n);
    if (self.active) {
        memset(n->buffer, 0, BUFFER);
        fill(n->buffer, length, 3);
    }
    meet();
    // By the importer, from and to the imported region; the target is the owner's region by the owner's key.
    if (!self.active) {
        REQUIRE(post(n->qp, 1, WRITE, piece(n->buffer, length, n->mr->lkey), theirs.address + 32768, theirs.rkey) == 0);
        CHECK_EQ("4", "bytes of the owner's are written by who imported them", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    if (self.active) {
        CHECK("4", "and are there", filled(n->buffer + 32768, length, 3));
        memset(n->buffer, 0, length);
    }
    meet();
    if (!self.active) {
        REQUIRE(post(n->qp, 2, READ, piece(n->buffer, length, n->mr->lkey), theirs.address + 32768, theirs.rkey) == 0);
        CHECK_EQ("4", "what is read is placed there", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        REQUIRE(post_atomic(n->qp, 3, ADD, piece(n->buffer + 65528, 8, n->mr->lkey), theirs.address + 65520, theirs.rkey, 5, 0) == 0);
        CHECK_EQ("4", "and the result of an atomic", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    // By a peer of the importer, which here is the owner.
    if (self.active) {
        CHECK("4", "in the owner's memory", filled(n->buffer, length, 3));
        memset(n->buffer + 32768, 0, length);
        REQUIRE(post(n->qp, 4, WRITE, piece(n->buffer, length, n->mr->lkey), theirs.address + 32768, theirs.rkey) == 0);
        CHECK_EQ("4", "peers of who imported write there by the key it has here", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        CHECK("4", "whole", filled(n->buffer + 32768, length, 3));
        memset(n->buffer, 0, length);
        REQUIRE(post(n->qp, 5, READ, piece(n->buffer, length, n->mr->lkey), theirs.address + 32768, theirs.rkey) == 0);
        CHECK_EQ("4", "and read", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        CHECK("4", "the same", filled(n->buffer, length, 3));
        REQUIRE(post_atomic(n->qp, 6, ADD, piece(n->buffer, 8, n->mr->lkey), theirs.address + 65520, theirs.rkey, 1, 0) == 0);
        CHECK_EQ("4", "but there are no atomics on it", next_completion(n->send_cq).status, IBV_WC_REM_ACCESS_ERR);
        uint64_t word;
        memcpy(&word, n->buffer + 65520, sizeof word);
        CHECK_EQ("4", "so nothing changed", word, 5);
    }
    meet();
}

static struct ibv_dm *copied;
static atomic_int copies;

// More threads than can be seen inside the owner's memory at a time.
static void *copy_often(void *nothing)
{
    unsigned char bytes[4096];
    (void)nothing;
    for (int i = 0; i < 200; i++)
        if (ibv_memcpy_from_dm(bytes, copied, DM_LENGTH - sizeof bytes, sizeof bytes) == 0 && filled(bytes, sizeof bytes, 2))
            copies++;
    return NULL;
}

static void many_copy_at_once(struct ibv_dm *dm)
{
    enum { THREADS = 24 };
    pthread_t threads[THREADS];
    copied = dm;
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, copy_often, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ("5.3", "many threads copy at once", copies, THREADS * 200);
    pid_t child = fork();
    if (child == 0) {
        unsigned char byte[4];
        _exit(ibv_memcpy_from_dm(byte, dm, 0, sizeof byte) == EIO && ibv_import_dm(dm->context, dm->handle) == NULL && errno == EIO ? 0 : 1);
    }
    int status = 1;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ("5.3", "a child has nothing of what its parent imported", status, 0);
}

static void device_memory(struct node *n, struct ibv_dm *dm, const struct names *names)
{
    static unsigned char bytes[4096];
    if (tier_is("kernel")) {
        if (!self.active)
            CHECK_NULL("5.3", "device memory is not reached where nothing is mapped", ibv_import_dm(n->context, names->dm), EOPNOTSUPP);
        meet();
        if (self.active)
            REQUIRE(ibv_free_dm(dm) == 0);
        return;
    }
    struct ibv_mr *mr = NULL, *source = NULL;
    if (self.active) {
        fill(bytes, sizeof bytes, 1);
        REQUIRE(ibv_memcpy_to_dm(dm, 4096, bytes, sizeof bytes) == 0);
    }
    meet();
    struct card ours = {0}, theirs = bring_up(n);
    if (!self.active) {
        REQUIRE(dm = ibv_import_dm(n->context, names->dm));
        CHECK("5.3", "device memory is imported", dm->context == n->context && dm->handle == names->dm);
        CHECK("5.3", "and holds what its owner put there", ibv_memcpy_from_dm(bytes, dm, 4096, sizeof bytes) == 0 && filled(bytes, sizeof bytes, 1));
        fill(bytes, sizeof bytes, 2);
        CHECK_EQ("5.3", "bytes are put there", ibv_memcpy_to_dm(dm, DM_LENGTH - sizeof bytes, bytes, sizeof bytes), 0);
        CHECK_EQ("5.3", "but not beyond its end", ibv_memcpy_to_dm(dm, DM_LENGTH - sizeof bytes + 4, bytes, sizeof bytes), EFAULT);
        many_copy_at_once(dm);
        REQUIRE(mr = ibv_reg_dm_mr(n->pd, dm, 0, DM_LENGTH, IBV_ACCESS_ZERO_BASED | ALL_REMOTE));
        CHECK("5.3", "a region of it is not registered anew", ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD);
        ours.rkey = mr->rkey;
    }
    swap_values(&ours, &theirs, sizeof ours);
    if (self.active) {
        CHECK("5.3", "where the owner finds them", ibv_memcpy_from_dm(bytes, dm, DM_LENGTH - sizeof bytes, sizeof bytes) == 0 && filled(bytes, sizeof bytes, 2));
        fill(n->buffer, 8192, 4);
        REQUIRE(post(n->qp, 1, WRITE, piece(n->buffer, 8192, n->mr->lkey), 8192, theirs.rkey) == 0);
        CHECK_EQ("5.3", "peers reach it through a region of who imported it", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        static unsigned char large[8192];
        CHECK("5.3", "and it holds what they wrote", ibv_memcpy_from_dm(large, dm, 8192, sizeof large) == 0 && filled(large, sizeof large, 4));
        REQUIRE(source = ibv_reg_dm_mr(n->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE));
        CHECK_EQ("5.3", "a region of the owner's keeps it", ibv_free_dm(dm), EBUSY);
        REQUIRE(ibv_dereg_mr(source) == 0);
    }
    meet();
    if (!self.active) {
        CHECK_EQ("5.3", "and one of who imported the name", ibv_free_dm(dm), EBUSY);
        struct ibv_dm *second = ibv_import_dm(n->context, names->dm);
        CHECK("5.3", "a name that is freed", second && ibv_free_dm(second) == 0);
        CHECK_EQ("5.3", "leaves the memory to its owner", ibv_memcpy_from_dm(bytes, dm, 8192, 64), 0);
    }
    meet();
    if (self.active)
        CHECK_EQ("5.3", "the owner frees it all the same", ibv_free_dm(dm), 0);
    meet();
    if (!self.active) {
        fill(bytes, sizeof bytes, 9);
        CHECK_EQ("5.3", "then it is gone", ibv_memcpy_from_dm(bytes, dm, 0, 64), ENOENT);
        CHECK("5.3", "and nothing moves", filled(bytes, sizeof bytes, 9) && ibv_memcpy_to_dm(dm, 0, bytes, 64) == ENOENT);
        CHECK_NULL("5.3", "and it is not imported any more", ibv_import_dm(n->context, names->dm), ENOENT);
        REQUIRE(ibv_dereg_mr(mr) == 0);
        ibv_unimport_dm(dm);
    }
    meet();
}

static void names_and_refusals(struct node *n, const struct names *names)
{
    if (!self.active) {
        struct ibv_pd *pd = ibv_import_pd(n->context, names->pd);
        REQUIRE(pd && pd != n->pd);
        struct ibv_mr *mr = ibv_import_mr(pd, names->mr);
        REQUIRE(mr);
        unsigned char *own = malloc(4096);
        struct ibv_mr *own_mr = ibv_reg_mr(pd, own, 4096, ALL_REMOTE);
        REQUIRE(own_mr);
        bring_up(n);
        fill(own, 4096, 6);
        REQUIRE(post(n->qp, 1, SEND, piece(own, 4096, own_mr->lkey), 0, 0) == 0);
        CHECK_EQ("4", "memory of one's own is registered in an imported domain", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        REQUIRE(post(n->qp, 2, SEND, piece(n->buffer, 64, mr->lkey), 0, 0) == 0);
        CHECK_EQ("4", "a second name of a region is used as the first", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
        CHECK_EQ("4", "a domain with a region stays", ibv_dealloc_pd(pd), EBUSY);
        REQUIRE(ibv_dereg_mr(own_mr) == 0);
        free(own);
        CHECK("4", "an imported region is not registered anew", ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
        CHECK_NULL("4", "handles of nothing are refused", ibv_import_pd(n->context, 0xfffffff0), ENOENT);
        CHECK_NULL("4", "also of regions", ibv_import_mr(n->pd, 0xfffffff0), ENOENT);
        CHECK_NULL("4", "and of device memory", ibv_import_dm(n->context, 0xfffffff0), ENOENT);
        CHECK_EQ("4", "a name that is deregistered leaves the region to its owner", ibv_dereg_mr(mr), 0);
        ibv_unimport_pd(pd);
    } else {
        bring_up(n);
        REQUIRE(post_receive(n->qp, 1, piece(n->buffer + 8192, 4096, n->mr->lkey)) == 0);
        REQUIRE(post_receive(n->qp, 2, piece(n->buffer + 16384, 4096, n->mr->lkey)) == 0);
        CHECK("4", "which the owner sees", next_completion(n->recv_cq).status == IBV_WC_SUCCESS && filled(n->buffer + 8192, 4096, 6));
        CHECK_EQ("4", "both times", next_completion(n->recv_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    messages(n, 64);
}

// A region that the owner takes back while the other has it imported.
static void what_is_taken_back(struct node *n)
{
    struct names names = {0}, nothing = {0};
    struct ibv_mr *region = NULL;
    unsigned char *memory = NULL;
    if (self.active) {
        REQUIRE(posix_memalign((void **)&memory, 4096, 8192) == 0);
        fill(memory, 8192, 1);
        REQUIRE(region = ibv_reg_mr(n->pd, memory, 8192, ALL_REMOTE));
        names = (struct names){.mr = region->handle, .address = (uintptr_t)memory};
        swap_values(&names, &nothing, sizeof names);
    } else {
        swap_values(&nothing, &names, sizeof names);
        REQUIRE(region = ibv_import_mr(n->pd, names.mr));
    }
    for (int turn = 0; turn < 3; turn++) {
        struct card theirs = bring_up(n), ours = {.rkey = region->rkey};
        swap_values(&ours, &theirs, sizeof ours);
        if (self.active && turn == 0) {
            CHECK_EQ("4", "the owner takes a region back that others have imported", ibv_dereg_mr(region), 0);
            memset(memory, 0x5a, 8192);
            memset(n->buffer, 0x33, BUFFER);
        }
        if (self.active && turn == 0)
            REQUIRE(post_receive(n->qp, 1, piece(n->buffer, 4096, n->mr->lkey)) == 0);
        if (!self.active && turn == 1)
            REQUIRE(post_receive(n->qp, 1, piece((void *)(uintptr_t)names.address, 4096, region->lkey)) == 0);
        meet();
        if (!self.active && turn == 0) {
            REQUIRE(post(n->qp, 1, SEND, piece((void *)(uintptr_t)names.address, 4096, region->lkey), 0, 0) == 0);
            CHECK_EQ("4", "then it is not sent from", next_completion(n->send_cq).status, IBV_WC_LOC_PROT_ERR);
            CHECK_NULL("4", "nor imported", ibv_import_mr(n->pd, names.mr), ENOENT);
        }
        if (self.active && turn == 1) {
            REQUIRE(post(n->qp, 2, SEND, piece(n->buffer + 8192, 4096, n->mr->lkey), 0, 0) == 0);
            CHECK_EQ("4", "nor received into", next_completion(n->send_cq).status, IBV_WC_REM_OP_ERR);
        }
        if (self.active && turn == 2) {
            REQUIRE(post(n->qp, 3, WRITE, piece(n->buffer, 4096, n->mr->lkey), names.address, theirs.rkey) == 0);
            CHECK("4", "nor written to by peers of who imported it", next_completion(n->send_cq).status != IBV_WC_SUCCESS);
        }
        meet();
        if (self.active)
            CHECK("4", "and nothing moves", all_bytes(memory, 8192, 0x5a) && all_bytes(n->buffer, BUFFER, 0x33));
        meet();
    }
    if (self.active)
        free(memory);
    else
        ibv_unimport_mr(region);
}

// More processes than an owner listens to at a time.
static void a_crowd_imports(int descriptor, const struct names *names)
{
    enum { CROWD = 24 };
    pid_t children[CROWD];
    for (int i = 0; i < CROWD; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct ibv_context *context = ibv_import_device(dup(descriptor));
            struct ibv_pd *pd = context ? ibv_import_pd(context, names->pd) : NULL;
            _exit(pd && ibv_import_mr(pd, names->mr) ? 0 : 1);
        }
        REQUIRE(children[i] > 0);
    }
    int done = 0;
    for (int i = 0; i < CROWD; i++) {
        int status = 1;
        REQUIRE(waitpid(children[i], &status, 0) == children[i]);
        done += status == 0;
    }
    CHECK_EQ("4", "many processes import the same at once", done, CROWD);
}

// A third process, which makes everything, tells its names and stays until it is killed.
static int owner(int socket, const char *how)
{
    if (strcmp(how, "hidden") == 0)
        REQUIRE(prctl(PR_SET_DUMPABLE, 0) == 0);
    struct node n = open_node();
    struct ibv_alloc_dm_attr attr = {.length = DM_LENGTH};
    struct names names = names_of(&n, ibv_alloc_dm(n.context, &attr));
    pass(socket, n.context->cmd_fd, &names);
    char byte;
    return (int)read(socket, &byte, 1);
}

static pid_t start_owner(const char *program, const char *how, int *descriptor, struct names *names)
{
    int ends[2];
    char number[16];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, number, how, (char *)NULL);
        _exit(9);
    }
    REQUIRE(child > 0 && close(ends[1]) == 0);
    *descriptor = passed(ends[0], names);
    // The other end stays open as long as this process lives.
    return child;
}

static void owners_that_end(const char *program)
{
    int descriptor, copy;
    struct names names;
    pid_t child = start_owner(program, "plain", &descriptor, &names);
    REQUIRE((copy = dup(descriptor)) >= 0);
    struct ibv_context *context = ibv_import_device(descriptor);
    REQUIRE(context);
    struct node n = imported_node(context, &names);
    struct ibv_dm *dm = tier_is("kernel") ? NULL : ibv_import_dm(context, names.dm);
    REQUIRE(dm || tier_is("kernel"));
    // A queue pair that is connected to itself.
    REQUIRE(n.qp = make_qp(&n, IBV_QPT_RC));
    struct card here = card_of(&n);
    REQUIRE(to_init(&n) == 0 && to_rtr(&n, &here) == 0 && to_rts(&n, here.psn) == 0);
    struct node spare = n;
    REQUIRE(spare.qp = make_qp(&spare, IBV_QPT_RC));
    struct card there = card_of(&spare);
    REQUIRE(to_init(&spare) == 0 && to_rtr(&spare, &there) == 0 && to_rts(&spare, there.psn) == 0);
    REQUIRE(post(n.qp, 1, WRITE, piece(n.buffer, 4096, n.mr->lkey), here.address + 8192, n.mr->rkey) == 0);
    CHECK_EQ("4", "memory of a third process is used within one", next_completion(n.send_cq).status, IBV_WC_SUCCESS);
    int status;
    REQUIRE(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    // As soon as that is known here: until then what both had mapped is there.
    enum ibv_wc_status ended = IBV_WC_SUCCESS;
    for (int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000; ended == IBV_WC_SUCCESS && now_ns() < end; sched_yield()) {
        REQUIRE(post(n.qp, 2, WRITE, piece(n.buffer, 4096, n.mr->lkey), here.address + 8192, n.mr->rkey) == 0);
        ended = next_completion(n.send_cq).status;
    }
    if (ended == IBV_WC_WR_FLUSH_ERR) {
        // It went in the middle of a request: the queue pair refused that as its target, and so flushed it.
        REQUIRE(post(spare.qp, 3, WRITE, piece(n.buffer, 4096, n.mr->lkey), there.address + 8192, n.mr->rkey) == 0);
        ended = next_completion(n.send_cq).status;
    }
    CHECK_EQ("4", "and is gone with its owner", ended, IBV_WC_LOC_PROT_ERR);
    REQUIRE(ibv_destroy_qp(spare.qp) == 0);
    unsigned char bytes[64];
    if (dm) {
        // Each is noticed by itself.
        int gone = 0;
        for (int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000; gone == 0 && now_ns() < end; sched_yield())
            gone = ibv_memcpy_from_dm(bytes, dm, 0, sizeof bytes);
        CHECK_EQ("5.3", "so is device memory", gone, ENOENT);
        ibv_unimport_dm(dm);
    }
    CHECK_NULL("4", "nothing more is imported", ibv_import_pd(context, names.pd), ENODEV);
    CHECK_NULL("4", "nor the device", ibv_import_device(copy), ENODEV);
    CHECK("4", "whose descriptor stays the program's", close(copy) == 0);
    REQUIRE(ibv_destroy_qp(n.qp) == 0 && ibv_destroy_cq(n.send_cq) == 0 && ibv_destroy_cq(n.recv_cq) == 0);
    ibv_unimport_mr(n.mr);
    ibv_unimport_pd(n.pd);
    CHECK_EQ("4", "what is imported is given back without it", ibv_close_device(context), 0);
    CHECK("4", "with its descriptor", fcntl(descriptor, F_GETFD) == -1 && errno == EBADF);

    if (!tier_is("auto"))
        return;
    child = start_owner(program, "hidden", &descriptor, &names);
    CHECK_NULL("4", "a process whose memory is hidden lends none", ibv_import_device(descriptor), EPERM);
    REQUIRE(close(descriptor) == 0 && kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    child = start_owner(program, "plain", &descriptor, &names);
    REQUIRE(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child);
    CHECK_NULL("4", "one that is stopped is not waited for", ibv_import_device(descriptor), EAGAIN);
    REQUIRE(kill(child, SIGCONT) == 0);
    context = ibv_import_device(descriptor);
    CHECK("4", "and is asked again when it goes on", context && ibv_close_device(context) == 0);
    REQUIRE(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
}

int main(int count, char **words)
{
    if (count > 2) {
        self.active = true;
        return owner(atoi(words[1]), words[2]);
    }
    split();
    struct names names;
    struct node n;
    struct ibv_dm *dm = NULL;
    if (self.active) {
        n = open_node();
        struct ibv_alloc_dm_attr attr = {.length = DM_LENGTH};
        REQUIRE(dm = ibv_alloc_dm(n.context, &attr));
        names = names_of(&n, dm);
        pass(self.peer, n.context->cmd_fd, &names);
        meet();
    } else {
        int descriptor = passed(self.peer, &names);
        if (tier_is("ring")) {
            CHECK_NULL("4", "where no process goes to another's memory nothing is imported", ibv_import_device(descriptor), EOPNOTSUPP);
            CHECK("4", "and the descriptor stays the program's", close(descriptor) == 0);
            meet();
            meet();
            return finish();
        }
        if (tier_is("auto"))
            a_crowd_imports(descriptor, &names);
        struct ibv_context *context = ibv_import_device(descriptor);
        REQUIRE(context);
        CHECK("4", "a device that another process opened is imported", context->cmd_fd == descriptor && context->device);
        n = imported_node(context, &names);
        meet();
    }
    if (!tier_is("ring")) {
        static const uint32_t lengths[] = {8, 5000, 20000};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            messages(&n, lengths[i]);
            one_sided(&n, lengths[i]);
        }
        device_memory(&n, dm, &names);
        names_and_refusals(&n, &names);
        what_is_taken_back(&n);
    } else {
        REQUIRE(ibv_free_dm(dm) == 0);
    }
    if (self.active) {
        close_node(&n);
        meet();
        return finish();
    }
    int copy = dup(n.context->cmd_fd);
    REQUIRE(copy >= 0);
    drop_qp(&n);
    REQUIRE(ibv_destroy_cq(n.send_cq) == 0 && ibv_destroy_cq(n.recv_cq) == 0);
    ibv_unimport_mr(n.mr);
    ibv_unimport_pd(n.pd);
    CHECK_EQ("4", "an imported device is closed", ibv_close_device(n.context), 0);
    meet();
    CHECK("4", "one that its owner has closed is not imported", !ibv_import_device(copy) && (errno == ENODEV || errno == ENOENT));
    REQUIRE(close(copy) == 0);
    owners_that_end(words[0]);
    return finish();
}
