// ibv_rereg_mr(3): domain, memory and rights of a region change, alone and together; nothing is reached by what held before, and
// a refusal changes nothing. Two processes: the passive one's region changes, the active one reaches for it.
//
// proves: verbs-abi 5.2

#include "common.h"

#define LENGTH 4096u
#define ALL_FLAGS (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS)

static unsigned char *other;

// What the active side reaches for next.
struct target {
    uint64_t address;
    uint32_t rkey, zero;
};

// The active side writes to where the passive one says, and is told how that has to end; bytes are looked at afterwards.
static void reach(struct node *n, struct target target, enum ibv_wc_status expected, const char *sentence)
{
    unsigned char *bytes = (unsigned char *)(uintptr_t)target.address;
    if (!self.active)
        memset(bytes, 0x11, LENGTH);
    bring_up(n);
    struct target theirs;
    swap_values(&target, &theirs, sizeof target);
    if (self.active) {
        memset(n->buffer, 0x77, LENGTH);
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, LENGTH, n->mr->lkey), theirs.address, theirs.rkey) == 0);
        CHECK_EQ("5.2", sentence, next_completion(n->send_cq).status, expected);
    }
    meet();
    if (!self.active)
        CHECK("5.2", "and the bytes say the same", all_bytes(bytes, LENGTH, expected == IBV_WC_SUCCESS ? 0x77 : 0x11));
    meet();
}

static struct target through(const void *bytes, uint32_t rkey)
{
    struct target target = {.address = (uintptr_t)bytes, .rkey = rkey};
    return target;
}

// Changes the passive side's region.
static void change(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *address, size_t length, int access)
{
    if (!self.active)
        REQUIRE(ibv_rereg_mr(mr, flags, pd, address, length, access) == 0);
}

static void each_change_holds_and_ends_what_was(struct node *n)
{
    struct ibv_pd *pd = ibv_alloc_pd(n->context);
    struct ibv_mr *mr = ibv_reg_mr(n->pd, n->buffer + 8192, LENGTH, ALL_REMOTE);
    REQUIRE(pd && mr);
    uint32_t first = mr->rkey;
    reach(n, through(n->buffer + 8192, mr->rkey), IBV_WC_SUCCESS, "a region is reached");

    change(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    reach(n, through(n->buffer + 8192, mr->rkey), IBV_WC_REM_ACCESS_ERR, "without the right to write it is not written to");
    CHECK_EQ("5.2", "it keeps its key", mr->rkey, first);
    change(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_REMOTE);
    reach(n, through(n->buffer + 8192, mr->rkey), IBV_WC_SUCCESS, "with the right back it is");

    uint32_t before = mr->rkey;
    change(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, LENGTH, 0);
    reach(n, through(other, mr->rkey), IBV_WC_SUCCESS, "moved, other memory is reached");
    reach(n, through(n->buffer + 8192, mr->rkey), IBV_WC_REM_ACCESS_ERR, "and the memory before not");
    reach(n, through(n->buffer + 8192, before), IBV_WC_REM_ACCESS_ERR, "by the key it had, either");
    if (!self.active)
        CHECK("5.2", "the structure says where it is", mr->addr == other && mr->length == LENGTH && mr->pd == n->pd);

    change(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0);
    reach(n, through(other, mr->rkey), IBV_WC_REM_ACCESS_ERR, "in another domain it is out of reach");
    if (!self.active) {
        CHECK("5.2", "and keeps that domain", mr->pd == pd && ibv_dealloc_pd(pd) == EBUSY);
        struct ibv_pd *empty = ibv_alloc_pd(n->context);
        REQUIRE(empty && ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, empty, NULL, 0, 0) == 0);
        CHECK_EQ("5.2", "and no longer the one before", ibv_dealloc_pd(pd), 0);
        REQUIRE((pd = ibv_alloc_pd(n->context)) && ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0) == 0);
        REQUIRE(ibv_dealloc_pd(empty) == 0);
    }
    change(mr, ALL_FLAGS, n->pd, n->buffer + 16384, LENGTH, ALL_REMOTE);
    reach(n, through(n->buffer + 16384, mr->rkey), IBV_WC_SUCCESS, "all changes together hold together");
    drop_qp(n);
    CHECK_EQ("5.2", "a changed region is deregistered", ibv_dereg_mr(mr), 0);
    CHECK_EQ("5.2", "and leaves its domains", ibv_dealloc_pd(pd), 0);
    meet();
}

static void a_refusal_changes_nothing(struct node *n)
{
    struct ibv_context *context = open_device();
    struct ibv_pd *foreign = ibv_alloc_pd(context);
    struct ibv_mr *mr = ibv_reg_mr(n->pd, n->buffer + 8192, LENGTH, ALL_REMOTE | IBV_ACCESS_MW_BIND);
    unsigned char *unmapped = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(foreign && mr && unmapped != MAP_FAILED && munmap(unmapped, LENGTH) == 0);
    struct ibv_mr before = *mr;
    const struct {
        const char *sentence;
        int flags;
        struct ibv_pd *pd;
        void *address;
        size_t length;
        int access, code;
        bool by_library;
    } cases[] = {
        {"no flags are refused", 0, n->pd, other, LENGTH, 0, EINVAL, false},
        {"unknown flags are refused", 8 | IBV_REREG_MR_CHANGE_PD, n->pd, NULL, 0, 0, EINVAL, true},
        {"no address is refused", IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, LENGTH, 0, EINVAL, true},
        {"no length is refused", IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, 0, 0, EINVAL, true},
        {"memory that is not there is refused", IBV_REREG_MR_CHANGE_TRANSLATION, NULL, unmapped, LENGTH, 0, EFAULT, false},
        {"memory beyond the end is refused", IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, SIZE_MAX, 0, EINVAL, false},
        {"rights that are not announced are refused", IBV_REREG_MR_CHANGE_PD, n->pd, NULL, 0, 1, EINVAL, true},
        {"unknown rights are refused", IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1 << 10, EINVAL, false},
        {"rights that contradict each other are refused", IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL, false},
        {"no domain is refused", IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0, EINVAL, true},
        {"a domain of another context is refused", IBV_REREG_MR_CHANGE_PD, foreign, NULL, 0, 0, EINVAL, false},
        {"one of several changes that cannot be ends all", ALL_FLAGS, foreign, other, LENGTH, ALL_REMOTE, EINVAL, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        errno = 0;
        int code = ibv_rereg_mr(mr, cases[i].flags, cases[i].pd, cases[i].address, cases[i].length, cases[i].access);
        int refused = cases[i].by_library ? IBV_REREG_MR_ERR_INPUT : IBV_REREG_MR_ERR_CMD;
        CHECK("5.2", cases[i].sentence, code == refused && errno == cases[i].code);
    }
    CHECK("5.2", "the structure is as it was", memcmp(&before, mr, sizeof before) == 0);
    reach(n, through(n->buffer + 8192, mr->rkey), IBV_WC_SUCCESS, "a region that refused to change is reached as before");

    struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = {.wr_id = 9, .send_flags = IBV_SEND_SIGNALED,
                               .bind_info = {.mr = mr, .addr = (uintptr_t)mr->addr, .length = LENGTH,
                                             .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
    REQUIRE(mw && ibv_bind_mw(n->qp, mw, &bind) == 0 && next_completion(n->send_cq).status == IBV_WC_SUCCESS);
    meet();
    errno = 0;
    CHECK("5.2", "a region with a window does not change",
          ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1) == IBV_REREG_MR_ERR_CMD && errno == EBUSY &&
              memcmp(&before, mr, sizeof before) == 0);
    struct target target = through(n->buffer + 8192, mw->rkey), theirs;
    swap_values(&target, &theirs, sizeof target);
    if (self.active) {
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 8, n->mr->lkey), theirs.address, theirs.rkey) == 0);
        CHECK_EQ("5.2", "and the window works", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    }
    meet();
    REQUIRE(ibv_dealloc_mw(mw) == 0);
    CHECK_EQ("5.2", "without it, it does", ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1), 0);
    REQUIRE(ibv_dereg_mr(mr) == 0);
    errno = 0;
    CHECK("5.2", "a region that is gone is not changed",
          ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1) == IBV_REREG_MR_ERR_CMD && errno == ENOENT);
    drop_qp(n);
    REQUIRE(ibv_dealloc_pd(foreign) == 0 && ibv_close_device(context) == 0);
}

int main(void)
{
    split();
    struct node n = open_node();
    REQUIRE(posix_memalign((void **)&other, 4096, LENGTH) == 0);
    each_change_holds_and_ends_what_was(&n);
    a_refusal_changes_nothing(&n);
    close_node(&n);
    free(other);
    return finish();
}
