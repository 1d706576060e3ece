// Thread domains and parent domains (ibv_alloc_td(3), ibv_alloc_parent_domain(3)): a parent domain is its protection domain by
// another name, and what it needs is kept as long as it lives. One process, a queue pair connected to itself.
//
// proves: verbs-abi 5.1 (domains in use), 6 (extended completion queues)

#include "common.h"

static int asked;

static void *allocate(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
    (void)pd, (void)context, (void)size, (void)alignment, (void)type;
    asked++;
    return IBV_ALLOCATOR_USE_DEFAULT;
}

static void release(struct ibv_pd *pd, void *context, void *memory, uint64_t type)
{
    (void)pd, (void)context, (void)memory, (void)type;
    asked++;
}

static struct ibv_pd *parent(struct ibv_context *context, struct ibv_parent_domain_init_attr attr)
{
    return ibv_alloc_parent_domain(context, &attr);
}

static void refusals_make_nothing(struct node *n)
{
    struct ibv_context *other = open_device();
    struct ibv_td_init_attr unknown = {.comp_mask = 1}, good = {0};
    CHECK_NULL("5.1", "a thread domain with unknown attributes is refused", ibv_alloc_td(n->context, &unknown), EINVAL);
    struct ibv_td *foreign = ibv_alloc_td(other, &good);
    struct ibv_pd *foreign_pd = ibv_alloc_pd(other);
    REQUIRE(foreign && foreign->context == other && foreign_pd);
    CHECK_NULL("5.1", "a parent domain of nothing is refused", parent(n->context, (struct ibv_parent_domain_init_attr){0}), EINVAL);
    CHECK_NULL("5.1", "one with unknown attributes, too",
               parent(n->context, (struct ibv_parent_domain_init_attr){.pd = n->pd, .comp_mask = 4}), EINVAL);
    CHECK_NULL("5.1", "and one of another context's domain",
               parent(n->context, (struct ibv_parent_domain_init_attr){.pd = foreign_pd}), EINVAL);
    CHECK_NULL("5.1", "or thread domain",
               parent(n->context, (struct ibv_parent_domain_init_attr){.pd = n->pd, .td = foreign}), EINVAL);
    CHECK_EQ("5.1", "no refused one keeps the thread domain", ibv_dealloc_td(foreign), 0);
    CHECK_EQ("5.1", "which then is gone", ibv_dealloc_td(foreign), ENOENT);
    CHECK_NULL("5.1", "and not to be found",
               parent(other, (struct ibv_parent_domain_init_attr){.pd = foreign_pd, .td = foreign}), EINVAL);
    CHECK_EQ("5.1", "nor the domain", ibv_dealloc_pd(foreign_pd), 0);
    REQUIRE(ibv_close_device(other) == 0);
}

static void what_is_made_in_either_belongs_together(struct node *n)
{
    struct ibv_td *td = ibv_alloc_td(n->context, &(struct ibv_td_init_attr){0});
    REQUIRE(td);
    struct ibv_parent_domain_init_attr attr = {
        .pd = n->pd,
        .td = td,
        .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
        .alloc = allocate,
        .free = release,
        .pd_context = &asked,
    };
    struct ibv_pd *own = n->pd, *other = parent(n->context, attr);
    REQUIRE(other && other != own && other->context == n->context);
    CHECK_EQ("5.1", "a parent domain keeps its thread domain", ibv_dealloc_td(td), EBUSY);

    struct ibv_cq_init_attr_ex queue = {.cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = own};
    CHECK_NULL("6", "a completion queue takes no plain domain for one", ibv_create_cq_ex(n->context, &queue), EINVAL);
    queue.parent_domain = other;
    struct ibv_cq_ex *cq = ibv_create_cq_ex(n->context, &queue);
    REQUIRE(cq);
    CHECK_EQ("6", "a completion queue keeps its parent domain", ibv_dealloc_pd(other), EBUSY);

    // The queue pair in the one, the region in the other, and the other way round.
    for (int turn = 0; turn < 2; turn++) {
        struct ibv_cq *before = n->send_cq;
        struct ibv_mr *mr = ibv_reg_mr(turn ? own : other, n->buffer, BUFFER, ALL_REMOTE), *whole = n->mr;
        REQUIRE(mr);
        n->pd = turn ? other : own;
        n->send_cq = ibv_cq_ex_to_cq(cq);
        REQUIRE(n->qp = make_qp(n, IBV_QPT_RC));
        n->mr = mr;
        struct card here = card_of(n);
        REQUIRE(to_init(n) == 0 && to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);
        fill(n->buffer, 4096, 7 + turn);
        REQUIRE(post(n->qp, 1, IBV_WR_RDMA_WRITE, piece(n->buffer, 4096, mr->lkey), (uintptr_t)n->buffer + 4096, mr->rkey) == 0);
        struct ibv_wc wc = next_completion(n->send_cq);
        CHECK("5.1", "memory of a domain is reached through a queue pair of its other name",
              wc.status == IBV_WC_SUCCESS && filled(n->buffer + 4096, 4096, 7 + turn));
        CHECK_EQ("5.1", "a domain in use is not given back, by either name", ibv_dealloc_pd(other), EBUSY);
        CHECK_EQ("5.1", "nor is the one it is a name for", ibv_dealloc_pd(own), EBUSY);
        drop_qp(n);
        REQUIRE(ibv_dereg_mr(mr) == 0);
        n->pd = own;
        n->mr = whole;
        n->send_cq = before;
    }
    REQUIRE(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
    CHECK_EQ("5.1", "nothing was asked of the program's allocators", asked, 0);
    struct ibv_mr *mr = n->mr;
    REQUIRE(ibv_dereg_mr(mr) == 0);
    CHECK_EQ("5.1", "a domain has to stay as long as it has another name", ibv_dealloc_pd(own), EBUSY);
    CHECK_EQ("5.1", "the other name goes first", ibv_dealloc_pd(other), 0);
    CHECK_EQ("5.1", "once", ibv_dealloc_pd(other), ENOENT);
    CHECK_EQ("5.1", "then the thread domain", ibv_dealloc_td(td), 0);
    REQUIRE(n->mr = ibv_reg_mr(own, n->buffer, BUFFER, ALL_REMOTE));
}

int main(void)
{
    self.active = true;
    struct node n = open_node();
    refusals_make_nothing(&n);
    what_is_made_in_either_belongs_together(&n);
    close_node(&n);
    return finish_alone();
}
