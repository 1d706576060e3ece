// Objects of an open device under another name (ibv_import_device(3), ibv_import_pd(3), ibv_import_mr(3), ibv_import_dm(3)): what is
// done by either name is done to the one object, what goes by one is gone by the other, and a name goes without what it names. Between
// processes: imports.c.
//
// proves: verbs-abi 4 (imports), 5.3

#include "common.h"

#include <fcntl.h>
#include <sys/wait.h>

static struct ibv_context *import(struct node *n, int *descriptor)
{
    *descriptor = fcntl(n->context->cmd_fd, F_DUPFD_CLOEXEC, 0);
    REQUIRE(*descriptor >= 0);
    struct ibv_context *context = ibv_import_device(*descriptor);
    REQUIRE(context);
    return context;
}

static void a_device_has_a_second_name(struct node *n)
{
    int descriptor;
    struct ibv_context *second = import(n, &descriptor);
    CHECK("4", "an imported device is the same one", second != n->context && second->device == n->context->device && second->cmd_fd == descriptor);
    struct ibv_pd *pd = ibv_alloc_pd(second);
    CHECK("4", "and is used as the first", pd && pd->context == second);
    CHECK_EQ("4", "also to give back", ibv_dealloc_pd(pd), 0);
    CHECK_EQ("4", "it is closed", ibv_close_device(second), 0);
    CHECK("4", "with its descriptor", fcntl(descriptor, F_GETFD) == -1 && errno == EBADF);
    CHECK("4", "and no other", fcntl(n->context->cmd_fd, F_GETFD) != -1);
    struct ibv_context *same = ibv_import_device(n->context->cmd_fd);
    CHECK("4", "the first one's descriptor itself will do", same && ibv_close_device(same) == 0);
    CHECK("4", "and stays where it is", fcntl(n->context->cmd_fd, F_GETFD) != -1);
    int other = open("/dev/null", O_RDWR);
    CHECK_NULL("4", "a descriptor of something else is refused", ibv_import_device(other), EINVAL);
    CHECK("4", "and stays the program's", close(other) == 0);
    CHECK_NULL("4", "so is one of nothing", ibv_import_device(other), EINVAL);
    CHECK_NULL("4", "and no descriptor at all", ibv_import_device(-1), EINVAL);
}

static void what_is_imported_is_the_thing_itself(struct node *n)
{
    int descriptor;
    struct ibv_context *second = import(n, &descriptor);
    struct ibv_pd *pd = ibv_import_pd(second, n->pd->handle);
    REQUIRE(pd);
    CHECK("4", "a domain is imported", pd != n->pd && pd->context == second && pd->handle == n->pd->handle);
    struct ibv_mr *mr = ibv_import_mr(pd, n->mr->handle);
    REQUIRE(mr);
    CHECK("4", "a region is, without an address",
          mr->context == second && mr->pd == pd && mr->addr == NULL && mr->length == n->mr->length && mr->handle == n->mr->handle &&
              mr->lkey == n->mr->lkey && mr->rkey == n->mr->rkey);
    struct ibv_mr *again = ibv_import_mr(pd, mr->handle);
    CHECK("4", "and once more by that name", again && again->lkey == mr->lkey);
    ibv_unimport_mr(again);

    // All of one queue pair by the other name.
    struct ibv_cq *cq = ibv_create_cq(second, 16, NULL, NULL, 0);
    REQUIRE(cq);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = n->recv_cq, .cap = n->cap, .qp_type = IBV_QPT_RC};
    REQUIRE(n->qp = ibv_create_qp(pd, &init));
    CHECK("4", "queue pairs may have something of either", n->qp->context == second);
    struct card here = card_of(n);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);
    fill(n->buffer, 64, 5);
    REQUIRE(post(n->qp, 1, WRITE, piece(n->buffer, 64, mr->lkey), (uintptr_t)n->buffer + 4096, mr->rkey) == 0);
    CHECK("4", "and move bytes by its keys", next_completion(cq).status == IBV_WC_SUCCESS && filled(n->buffer + 4096, 64, 5));
    struct ibv_mr *own = ibv_reg_mr(pd, n->buffer, 64, ALL_REMOTE);
    REQUIRE(own);
    REQUIRE(post(n->qp, 2, WRITE, piece(n->buffer, 64, own->lkey), (uintptr_t)n->buffer + 8192, n->mr->rkey) == 0);
    CHECK("4", "a region of the imported domain is one of the domain", next_completion(cq).status == IBV_WC_SUCCESS && filled(n->buffer + 8192, 64, 5));

    CHECK_EQ("4", "a domain in use cannot be given back by this name either", ibv_dealloc_pd(pd), EBUSY);
    CHECK("4", "an imported region is not registered anew", ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
    CHECK_NULL("4", "handles of nothing are refused", ibv_import_pd(second, 0), ENOENT);
    CHECK_NULL("4", "also of regions", ibv_import_mr(pd, UINT32_MAX), ENOENT);
    CHECK_NULL("4", "and of device memory", ibv_import_dm(second, UINT32_MAX), ENOENT);
    struct ibv_context *foreign = open_device();
    CHECK_NULL("4", "and those of another device", ibv_import_pd(foreign, n->pd->handle), ENOENT);
    struct ibv_pd *foreign_pd = ibv_alloc_pd(foreign);
    REQUIRE(foreign_pd);
    CHECK_NULL("4", "whatever they are of", ibv_import_mr(foreign_pd, n->mr->handle), ENOENT);
    REQUIRE(ibv_dealloc_pd(foreign_pd) == 0 && ibv_close_device(foreign) == 0);

    CHECK_EQ("4", "what was made by a name is destroyed", ibv_dereg_mr(own), 0);
    ibv_unimport_mr(mr);
    CHECK_EQ("4", "a name is gone when it was given back", ibv_dereg_mr(mr), ENOENT);
    REQUIRE(post(n->qp, 3, READ, piece(n->buffer, 64, n->mr->lkey), (uintptr_t)n->buffer + 64, n->mr->rkey) == 0);
    CHECK("4", "and what it named is not", next_completion(cq).status == IBV_WC_SUCCESS);
    struct ibv_qp *pair = n->qp;
    n->qp = NULL;
    REQUIRE(ibv_destroy_qp(pair) == 0 && ibv_destroy_cq(cq) == 0);
    ibv_unimport_pd(pd);
    CHECK_EQ("4", "nor is there a domain under a name that was given back", ibv_dealloc_pd(pd), ENOENT);
    REQUIRE(ibv_close_device(second) == 0);
    ibv_unimport_mr(n->mr);
    ibv_unimport_pd(n->pd);
    struct ibv_mr *still = ibv_reg_mr(n->pd, n->buffer, 64, 0);
    CHECK("4", "what was not imported stays when it is unimported", still && ibv_dereg_mr(still) == 0);
}

static void what_goes_by_one_name_is_gone_by_the_other(struct node *n)
{
    int descriptor;
    struct ibv_context *second = import(n, &descriptor);
    struct ibv_pd *first_pd = ibv_alloc_pd(n->context), *pd = first_pd ? ibv_import_pd(second, first_pd->handle) : NULL;
    REQUIRE(pd);
    struct ibv_mr *first_mr = ibv_reg_mr(first_pd, n->buffer, 4096, ALL_REMOTE), *mr = first_mr ? ibv_import_mr(pd, first_mr->handle) : NULL;
    REQUIRE(mr);
    CHECK_EQ("4", "a domain with a region stays", ibv_dealloc_pd(first_pd), EBUSY);
    CHECK_EQ("4", "a region is deregistered by the second name", ibv_dereg_mr(mr), 0);
    CHECK_EQ("4", "and then not by the first", ibv_dereg_mr(first_mr), ENOENT);
    CHECK_NULL("4", "nor imported", ibv_import_mr(pd, first_mr->handle), ENOENT);
    CHECK_EQ("4", "a domain is given back by the first", ibv_dealloc_pd(first_pd), 0);
    CHECK_EQ("4", "and then not by the second", ibv_dealloc_pd(pd), ENOENT);
    CHECK_NULL("4", "and has nothing in it any more", ibv_reg_mr(pd, n->buffer, 64, 0), EINVAL);
    ibv_unimport_pd(pd);

    struct ibv_alloc_dm_attr attr = {.length = 4096};
    struct ibv_dm *dm = ibv_alloc_dm(n->context, &attr);
    REQUIRE(dm);
    struct ibv_dm *shared = ibv_import_dm(second, dm->handle);
    REQUIRE(shared);
    unsigned char bytes[64];
    fill(bytes, sizeof bytes, 9);
    REQUIRE(ibv_memcpy_to_dm(dm, 128, bytes, sizeof bytes) == 0);
    memset(bytes, 0, sizeof bytes);
    CHECK("5.3", "device memory is the same by both names",
          shared->context == second && shared->handle == dm->handle && ibv_memcpy_from_dm(bytes, shared, 128, sizeof bytes) == 0 && filled(bytes, sizeof bytes, 9));
    struct ibv_mr *on_shared = ibv_reg_dm_mr(n->pd, shared, 0, 4096, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
    CHECK("5.3", "regions are on either", on_shared != NULL);
    CHECK_EQ("5.3", "so that the other cannot be freed", ibv_free_dm(dm), EBUSY);
    CHECK("5.3", "until they are gone", ibv_dereg_mr(on_shared) == 0 && ibv_free_dm(dm) == 0);
    CHECK_EQ("5.3", "what is freed by one is freed by the other", ibv_free_dm(shared), ENOENT);
    CHECK("5.3", "and cannot be read", ibv_memcpy_from_dm(bytes, shared, 0, sizeof bytes) != 0);
    ibv_unimport_dm(shared);
    REQUIRE(ibv_close_device(second) == 0);
}

static void a_device_is_open_until_its_last_name_is_closed(struct node *n)
{
    int descriptor = dup(n->context->cmd_fd);
    struct ibv_context *first = open_device();
    struct ibv_context *second = ibv_import_device(dup(first->cmd_fd));
    REQUIRE(second && descriptor >= 0);
    struct ibv_cq *cq = ibv_create_cq(second, 16, NULL, NULL, 0);
    struct ibv_pd *pd = ibv_alloc_pd(second);
    struct ibv_mr *mr = pd ? ibv_reg_mr(pd, n->buffer, 4096, ALL_REMOTE) : NULL;
    REQUIRE(cq && mr);
    CHECK_EQ("4", "the first name is closed", ibv_close_device(first), 0);
    struct node rest = *n;
    rest.context = second, rest.pd = pd, rest.mr = mr, rest.send_cq = rest.recv_cq = cq;
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = n->cap, .qp_type = IBV_QPT_RC};
    REQUIRE(rest.qp = ibv_create_qp(pd, &init));
    struct card here = card_of(&rest);
    REQUIRE(to_init(&rest) == 0 && to_rtr(&rest, &here) == 0 && to_rts(&rest, here.psn) == 0);
    fill(n->buffer, 64, 6);
    REQUIRE(post(rest.qp, 1, WRITE, piece(n->buffer, 64, mr->lkey), (uintptr_t)n->buffer + 2048, mr->rkey) == 0);
    CHECK("4", "and the device works on under the second", next_completion(cq).status == IBV_WC_SUCCESS && filled(n->buffer + 2048, 64, 6));
    REQUIRE(ibv_destroy_qp(rest.qp) == 0 && ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_destroy_cq(cq) == 0);
    CHECK_EQ("4", "which is closed then", ibv_close_device(second), 0);
    CHECK_EQ("4", "once", ibv_close_device(second), -1);
    REQUIRE(close(descriptor) == 0);
}

static void a_child_imports_its_parents_device(struct node *n)
{
    pid_t child = fork();
    if (child == 0) {
        struct ibv_context *context = ibv_import_device(dup(n->context->cmd_fd));
        struct ibv_pd *pd = context ? ibv_import_pd(context, n->pd->handle) : NULL;
        struct ibv_mr *mr = pd ? ibv_import_mr(pd, n->mr->handle) : NULL;
        _exit(mr && mr->length == n->mr->length ? 0 : 1);
    }
    int status = 1;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ("4", "a child imports what its parent made", status, 0);
    char byte = 0;
    int descriptor = n->context->cmd_fd;
    CHECK("4", "the descriptor can be used for nothing else", write(descriptor, &byte, 1) == -1 && ftruncate(descriptor, 0) == -1);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    struct node n = open_node();
    a_device_has_a_second_name(&n);
    what_is_imported_is_the_thing_itself(&n);
    what_goes_by_one_name_is_gone_by_the_other(&n);
    a_device_is_open_until_its_last_name_is_closed(&n);
    a_child_imports_its_parents_device(&n);
    close_node(&n);
    return finish_alone();
}
