// What creating, querying, changing and destroying objects refuses, and that a refusal leaves everything as it was.
//
// proves: verbs-abi 3 (objects are found by handle), 4 (queries), 5.1 (registration), 6 (completion queues),
//         7.1 (creation), 7.3 (posting)
//
// One process: nothing here needs a peer. Queue pairs are connected to themselves where they must be connected.

#include "common.h"

static struct ibv_device_attr device;

// ---- registration (5.1) ----------------------------------------------------------------------------------------

static void registration_refuses_what_it_cannot_keep(struct node *n)
{
    unsigned char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    fill(pages, 4 * 4096, 1);

    CHECK_NULL("5.1", "remote write without local write is EINVAL",
               ibv_reg_mr(n->pd, pages, 4096, IBV_ACCESS_REMOTE_WRITE), EINVAL);
    CHECK_NULL("5.1", "remote atomics without local write are EINVAL",
               ibv_reg_mr(n->pd, pages, 4096, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ), EINVAL);
    CHECK_NULL("5.1", "an access bit nobody defined is EINVAL",
               ibv_reg_mr(n->pd, pages, 4096, IBV_ACCESS_LOCAL_WRITE | 1 << 19), EINVAL);
    CHECK_NULL("5.1", "another one, at the top, is EINVAL", ibv_reg_mr(n->pd, pages, 4096, 1 << 30), EINVAL);
    struct ibv_mr *mr = ibv_reg_mr(n->pd, pages, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING | 1 << 29);
    CHECK("5.1", "bits of the optional range that we do not know are dropped silently", mr != NULL);
    if (mr)
        REQUIRE(ibv_dereg_mr(mr) == 0);

    struct ibv_device_attr_ex extended = {0};
    REQUIRE(ibv_query_device_ex(n->context, NULL, &extended) == 0);
    if (!(extended.odp_caps.general_caps & IBV_ODP_SUPPORT))
        CHECK_NULL("5.1", "ON_DEMAND without that capability is EOPNOTSUPP",
                   ibv_reg_mr(n->pd, pages, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);

    REQUIRE(munmap(pages + 2 * 4096, 4096) == 0);
    struct ibv_mr *empty = ibv_reg_mr(n->pd, pages + 2 * 4096 + 8, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK("5.1", "a region of no bytes is registered, wherever it is", empty && empty->length == 0 && empty->lkey != empty->rkey);
    CHECK_EQ("5.1", "and deregistered", empty ? ibv_dereg_mr(empty) : ENOENT, 0);
    CHECK_NULL("5.1", "an unmapped page is EFAULT",
               ibv_reg_mr(n->pd, pages + 2 * 4096, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
    CHECK_NULL("5.1", "a hole in the middle is EFAULT", ibv_reg_mr(n->pd, pages, 4 * 4096, IBV_ACCESS_LOCAL_WRITE),
               EFAULT);
    CHECK_NULL("5.1", "one byte into an unmapped page is EFAULT", ibv_reg_mr(n->pd, pages, 2 * 4096 + 1, 0), EFAULT);
    REQUIRE(mprotect(pages, 4096, PROT_READ) == 0);
    CHECK_NULL("5.1", "read-only memory with write rights is EFAULT",
               ibv_reg_mr(n->pd, pages, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
    mr = ibv_reg_mr(n->pd, pages, 4096, IBV_ACCESS_REMOTE_READ);
    CHECK("5.1", "read-only memory with read rights is registered", mr != NULL);
    if (mr)
        REQUIRE(ibv_dereg_mr(mr) == 0);
    errno = 0;
    mr = ibv_reg_mr(n->pd, pages + 4096, SIZE_MAX - 64, IBV_ACCESS_LOCAL_WRITE);
    CHECK("5.1", "address plus length that wraps is refused", mr == NULL);
    CHECK_EITHER("5.1", "with EINVAL or EFAULT", errno, EINVAL, EFAULT);
    REQUIRE(mprotect(pages, 4096, PROT_READ | PROT_WRITE) == 0);
    CHECK("5.1", "no refused registration changed a byte", filled(pages, 2 * 4096, 1));

    mr = ibv_reg_mr(n->pd, pages + 100, 1000, ALL_REMOTE);
    REQUIRE(mr);
    CHECK("5.1", "addr and length are the user's own", mr->addr == pages + 100 && mr->length == 1000);
    CHECK("5.1", "local and remote key differ, so that mixing them up shows", mr->lkey != mr->rkey);
    CHECK("5.1", "the region names context and domain", mr->context == n->context && mr->pd == n->pd);
    struct ibv_mr *twin = ibv_reg_mr(n->pd, pages + 100, 1000, ALL_REMOTE);
    CHECK("5.1", "the same bytes can be registered twice, under other keys",
          twin && twin->rkey != mr->rkey && twin->lkey != mr->lkey);
    if (twin)
        REQUIRE(ibv_dereg_mr(twin) == 0);
    uint32_t old = mr->rkey;
    REQUIRE(ibv_dereg_mr(mr) == 0);
    mr = ibv_reg_mr(n->pd, pages + 100, 1000, ALL_REMOTE);
    CHECK("5.1", "a key is not used again at once", mr && mr->rkey != old);
    if (mr)
        REQUIRE(ibv_dereg_mr(mr) == 0);
    munmap(pages, 4 * 4096);
}

static void a_domain_in_use_is_busy(struct node *n)
{
    struct ibv_pd *pd = ibv_alloc_pd(n->context);
    REQUIRE(pd);
    struct card here = card_of(n);
    struct ibv_ah_attr route = route_to(&here);

    struct ibv_mr *mr = ibv_reg_mr(pd, n->buffer, 64, 0);
    REQUIRE(mr);
    CHECK_EQ("5.1", "dealloc_pd with a region alive is EBUSY", ibv_dealloc_pd(pd), EBUSY);
    CHECK_EQ("5.1", "the region survives the refusal", ibv_dereg_mr(mr), 0);

    struct ibv_ah *ah = ibv_create_ah(pd, &route);
    REQUIRE(ah);
    CHECK_EQ("5.1", "dealloc_pd with an address handle alive is EBUSY", ibv_dealloc_pd(pd), EBUSY);
    CHECK_EQ("5.1", "the address handle survives the refusal", ibv_destroy_ah(ah), 0);

    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);
    REQUIRE(srq);
    CHECK_EQ("5.1", "dealloc_pd with a shared receive queue alive is EBUSY", ibv_dealloc_pd(pd), EBUSY);

    struct ibv_qp_init_attr init = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .srq = srq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 4, .max_send_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    REQUIRE(qp);
    CHECK_EQ("7.5", "destroy_srq with a queue pair on it is EBUSY", ibv_destroy_srq(srq), EBUSY);
    CHECK_EQ("6", "destroy_cq with a queue pair on it is EBUSY", ibv_destroy_cq(n->send_cq), EBUSY);
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad = NULL;
    CHECK("7.1", "post_recv on a queue pair with a shared receive queue fails",
          ibv_post_recv(qp, &receive, &bad) > 0 && bad == &receive);
    CHECK_EQ("7.1", "the queue pair is destroyed", ibv_destroy_qp(qp), 0);
    CHECK_EQ("7.5", "then the shared receive queue", ibv_destroy_srq(srq), 0);
    CHECK_EQ("5.1", "then the domain", ibv_dealloc_pd(pd), 0);
}

// ---- handles (3) -------------------------------------------------------------------------------------------------

#define NONSENSE 0x5aa5f00du

// Overwrites `handle`, tries the call, restores, and expects the call to have been refused.
#define WITH_BAD_HANDLE(object, sentence, call)                                                                     \
    do {                                                                                                            \
        uint32_t kept_ = (object)->handle;                                                                          \
        (object)->handle = NONSENSE;                                                                                \
        int result_ = (call);                                                                                       \
        (object)->handle = kept_;                                                                                   \
        CHECK_EITHER("3", sentence, result_, ENOENT, EINVAL);                                                       \
    } while (0)

static void a_handle_the_program_overwrote_is_not_found(struct node *n)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp_init_attr init;
    struct ibv_srq_attr limits = {.srq_limit = 1};
    struct card here = card_of(n);
    struct ibv_ah_attr route = route_to(&here);
    struct ibv_pd *pd = ibv_alloc_pd(n->context);
    struct ibv_cq *cq = ibv_create_cq(n->context, 8, NULL, NULL, 0);
    struct ibv_mr *mr = ibv_reg_mr(n->pd, n->buffer, 64, 0);
    struct ibv_ah *ah = ibv_create_ah(n->pd, &route);
    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(n->pd, &srq_init);
    struct ibv_qp *qp = make_qp(n, IBV_QPT_RC);
    struct ibv_alloc_dm_attr dm_attr = {.length = 64};
    struct ibv_dm *dm = ibv_alloc_dm(n->context, &dm_attr);
    REQUIRE(pd && cq && mr && ah && srq && qp && dm);

    WITH_BAD_HANDLE(pd, "dealloc_pd", ibv_dealloc_pd(pd));
    WITH_BAD_HANDLE(cq, "destroy_cq", ibv_destroy_cq(cq));
    WITH_BAD_HANDLE(cq, "resize_cq", ibv_resize_cq(cq, 16));
    WITH_BAD_HANDLE(mr, "dereg_mr", ibv_dereg_mr(mr));
    WITH_BAD_HANDLE(ah, "destroy_ah", ibv_destroy_ah(ah));
    WITH_BAD_HANDLE(srq, "destroy_srq", ibv_destroy_srq(srq));
    WITH_BAD_HANDLE(srq, "modify_srq", ibv_modify_srq(srq, &limits, IBV_SRQ_LIMIT));
    WITH_BAD_HANDLE(srq, "query_srq", ibv_query_srq(srq, &limits));
    WITH_BAD_HANDLE(qp, "destroy_qp", ibv_destroy_qp(qp));
    WITH_BAD_HANDLE(qp, "modify_qp", ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    WITH_BAD_HANDLE(qp, "query_qp", ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
    WITH_BAD_HANDLE(dm, "free_dm", ibv_free_dm(dm));
    uint32_t kept = cq->handle;
    cq->handle = NONSENSE;
    int notified = ibv_req_notify_cq(cq, 0);
    cq->handle = kept;
    CHECK("3", "req_notify_cq with a bad handle is ENOENT, EFAULT or EINVAL",
          notified == ENOENT || notified == EFAULT || notified == EINVAL);

    CHECK_EQ("3", "after all refusals the queue pair is still in RESET", state_of(qp), IBV_QPS_RESET);
    CHECK_EQ("3", "and every object can be destroyed: queue pair", ibv_destroy_qp(qp), 0);
    CHECK_EQ("3", "shared receive queue", ibv_destroy_srq(srq), 0);
    CHECK_EQ("3", "address handle", ibv_destroy_ah(ah), 0);
    CHECK_EQ("3", "region", ibv_dereg_mr(mr), 0);
    CHECK_EQ("3", "completion queue", ibv_destroy_cq(cq), 0);
    CHECK_EQ("3", "domain", ibv_dealloc_pd(pd), 0);
    CHECK_EQ("3", "device memory", ibv_free_dm(dm), 0);
}

// The structures themselves are gone after a destroy; copies made before still carry the handles.
static void a_freed_object_is_not_found_again(struct node *n)
{
    struct card here = card_of(n);
    struct ibv_ah_attr route = route_to(&here);
    struct ibv_pd *pd = ibv_alloc_pd(n->context);
    struct ibv_cq *cq = ibv_create_cq(n->context, 8, NULL, NULL, 0);
    struct ibv_mr *mr = ibv_reg_mr(n->pd, n->buffer, 64, 0);
    struct ibv_ah *ah = ibv_create_ah(n->pd, &route);
    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(n->pd, &srq_init);
    struct ibv_qp *qp = make_qp(n, IBV_QPT_RC);
    struct ibv_alloc_dm_attr dm_attr = {.length = 64};
    struct ibv_dm *dm = ibv_alloc_dm(n->context, &dm_attr);
    REQUIRE(pd && cq && mr && ah && srq && qp && dm);
    struct ibv_pd pd_copy = *pd;
    struct ibv_cq cq_copy = *cq;
    struct ibv_mr mr_copy = *mr;
    struct ibv_ah ah_copy = *ah;
    struct ibv_srq srq_copy = *srq;
    struct ibv_qp qp_copy = *qp;
    struct ibv_dm dm_copy = *dm;
    REQUIRE(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) && !ibv_destroy_ah(ah) && !ibv_dereg_mr(mr));
    REQUIRE(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_free_dm(dm));

    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT};
    CHECK_EITHER("3", "a destroyed queue pair is not found again", ibv_destroy_qp(&qp_copy), ENOENT, EINVAL);
    CHECK_EITHER("3", "nor modified",
                 ibv_modify_qp(&qp_copy, &attr,
                               IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
                 ENOENT, EINVAL);
    CHECK_EITHER("3", "a destroyed shared receive queue", ibv_destroy_srq(&srq_copy), ENOENT, EINVAL);
    CHECK_EITHER("3", "a destroyed address handle", ibv_destroy_ah(&ah_copy), ENOENT, EINVAL);
    CHECK_EITHER("3", "a deregistered region", ibv_dereg_mr(&mr_copy), ENOENT, EINVAL);
    CHECK_EITHER("3", "a destroyed completion queue", ibv_destroy_cq(&cq_copy), ENOENT, EINVAL);
    CHECK_EITHER("3", "a deallocated domain", ibv_dealloc_pd(&pd_copy), ENOENT, EINVAL);
    CHECK_EITHER("3", "freed device memory", ibv_free_dm(&dm_copy), ENOENT, EINVAL);
    CHECK("3", "a region in a deallocated domain is refused", !ibv_reg_mr(&pd_copy, n->buffer, 64, 0));
}

// ---- queries (4) -------------------------------------------------------------------------------------------------

static void queries_refuse_what_does_not_exist(struct node *n)
{
    struct ibv_port_attr port;
    union ibv_gid gid;
    uint16_t pkey;
    REQUIRE(ibv_query_port(n->context, PORT, &port) == 0);
    CHECK_EQ("4", "query_port of port 0 is EINVAL", ibv_query_port(n->context, 0, &port), EINVAL);
    CHECK_EQ("4", "query_port beyond the last port is EINVAL",
             ibv_query_port(n->context, device.phys_port_cnt + 1, &port), EINVAL);
    REQUIRE(ibv_query_port(n->context, PORT, &port) == 0);
    CHECK_EQ("4", "query_gid beyond the table is -1", ibv_query_gid(n->context, PORT, port.gid_tbl_len, &gid), -1);
    CHECK_EQ("4", "query_gid of a bad port is -1", ibv_query_gid(n->context, 9, 0, &gid), -1);
    CHECK_EQ("4", "query_pkey beyond the table is -1", ibv_query_pkey(n->context, PORT, port.pkey_tbl_len, &pkey), -1);
    CHECK_EQ("4", "query_pkey of entry 0 is 0", ibv_query_pkey(n->context, PORT, 0, &pkey), 0);
    CHECK_EQ("4", "and the default key", pkey, 0xffff);

    struct ibv_gid_entry entries[256], entry;
    ssize_t count = ibv_query_gid_table(n->context, entries, 256, 0);
    CHECK("4", "query_gid_table counts at least one entry", count >= 1);
    CHECK_EQ("4", "query_gid_table into no room is -EINVAL", ibv_query_gid_table(n->context, entries, 0, 0), -EINVAL);
    CHECK_EQ("4", "query_gid_ex of entry 0 is 0", ibv_query_gid_ex(n->context, PORT, 0, &entry, 0), 0);
    REQUIRE(ibv_query_gid(n->context, PORT, 0, &gid) == 0);
    CHECK("4", "and tells the same as query_gid", memcmp(&gid, &entry.gid, sizeof gid) == 0);
    if (count < port.gid_tbl_len) {
        CHECK_EQ("4", "query_gid of an empty entry is 0",
                 ibv_query_gid(n->context, PORT, port.gid_tbl_len - 1, &gid), 0);
        CHECK("4", "and a zero GID", all_bytes(&gid, sizeof gid, 0));
        CHECK_EQ("4", "query_gid_ex of an empty entry is ENODATA",
                 ibv_query_gid_ex(n->context, PORT, port.gid_tbl_len - 1, &entry, 0), ENODATA);
    }

    struct ibv_query_device_ex_input input = {.comp_mask = 1};
    struct ibv_device_attr_ex extended;
    CHECK_EQ("2", "query_device_ex with an input bit is EINVAL", ibv_query_device_ex(n->context, &input, &extended),
             EINVAL);
    CHECK("4", "node_guid, sys_image_guid and vendor_id are not zero",
          device.node_guid && device.sys_image_guid && device.vendor_id);
    CHECK("4", "every limit is positive",
          device.max_qp > 0 && device.max_qp_wr > 0 && device.max_sge > 0 && device.max_cq > 0 && device.max_cqe > 0 &&
              device.max_mr > 0 && device.max_pd > 0 && device.max_ah > 0 && device.max_srq > 0 &&
              device.max_srq_wr > 0 && device.max_srq_sge > 0 && device.max_qp_rd_atom > 0 &&
              device.max_qp_init_rd_atom > 0 && device.max_pkeys > 0 && device.max_mr_size > 0);

    struct card here = card_of(n);
    struct ibv_ah_attr route = route_to(&here);
    route.port_num = 7;
    CHECK_NULL("7.2", "an address handle on a port that does not exist is EINVAL", ibv_create_ah(n->pd, &route), EINVAL);
    route = route_to(&here);
    route.grh.sgid_index = 255;
    CHECK_NULL("7.2", "an address handle from a GID that does not exist is EINVAL", ibv_create_ah(n->pd, &route), EINVAL);
}

// ---- creation (6, 7.1) -------------------------------------------------------------------------------------------

static void completion_queues_have_limits(struct node *n)
{
    CHECK_NULL("6", "create_cq with 0 entries is EINVAL", ibv_create_cq(n->context, 0, NULL, NULL, 0), EINVAL);
    CHECK_NULL("6", "create_cq with -1 entries is EINVAL", ibv_create_cq(n->context, -1, NULL, NULL, 0), EINVAL);
    CHECK_NULL("6", "create_cq above max_cqe is EINVAL",
               ibv_create_cq(n->context, device.max_cqe + 1, NULL, NULL, 0), EINVAL);
    CHECK_NULL("6", "create_cq on vector -1 is EINVAL", ibv_create_cq(n->context, 8, NULL, NULL, -1), EINVAL);
    CHECK_NULL("6", "create_cq on a vector beyond the last is EINVAL",
               ibv_create_cq(n->context, 8, NULL, NULL, n->context->num_comp_vectors), EINVAL);
    struct ibv_cq *cq = ibv_create_cq(n->context, device.max_cqe, NULL, NULL, 0);
    CHECK("6", "create_cq with max_cqe entries works", cq && cq->cqe >= device.max_cqe);
    if (cq)
        REQUIRE(ibv_destroy_cq(cq) == 0);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(n->context);
    REQUIRE(channel);
    cq = ibv_create_cq(n->context, 10, &device, channel, 0);
    REQUIRE(cq);
    CHECK("6", "cqe is at least what was asked", cq->cqe >= 10);
    CHECK("6", "context, channel and cq_context are those given",
          cq->context == n->context && cq->channel == channel && cq->cq_context == &device);
    CHECK_EQ("6", "destroy_comp_channel with a completion queue on it is EBUSY", ibv_destroy_comp_channel(channel),
             EBUSY);
    struct ibv_context *other = open_device();
    CHECK_NULL("6", "create_cq on a channel of another context is EINVAL", ibv_create_cq(other, 8, NULL, channel, 0),
               EINVAL);
    REQUIRE(ibv_close_device(other) == 0);
    CHECK_EQ("6", "resize to more works", ibv_resize_cq(cq, 500), 0);
    CHECK("6", "and shows", cq->cqe >= 500);
    CHECK_EQ("6", "resize above max_cqe is EINVAL", ibv_resize_cq(cq, device.max_cqe + 1), EINVAL);
    CHECK_EQ("6", "resize to 0 is EINVAL", ibv_resize_cq(cq, 0), EINVAL);
    CHECK("6", "a refused resize leaves the size", cq->cqe >= 500);
    CHECK_EQ("6", "the queue is destroyed", ibv_destroy_cq(cq), 0);
    CHECK_EQ("6", "then the channel", ibv_destroy_comp_channel(channel), 0);
}

static void queue_pairs_have_limits(struct node *n)
{
    struct ibv_qp_init_attr good = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .qp_type = IBV_QPT_RC, .cap = n->cap};
    struct ibv_qp_init_attr init = good;
    init.cap.max_send_wr = device.max_qp_wr + 1;
    CHECK_NULL("7.1", "a send queue above max_qp_wr is EINVAL", ibv_create_qp(n->pd, &init), EINVAL);
    init = good;
    init.cap.max_recv_wr = device.max_qp_wr + 1;
    CHECK_NULL("7.1", "a receive queue above max_qp_wr is EINVAL", ibv_create_qp(n->pd, &init), EINVAL);
    init = good;
    init.cap.max_send_sge = device.max_sge + 1;
    CHECK_NULL("7.1", "more send SGEs than max_sge are EINVAL", ibv_create_qp(n->pd, &init), EINVAL);
    init = good;
    init.cap.max_recv_sge = device.max_sge + 1;
    CHECK_NULL("7.1", "more receive SGEs than max_sge are EINVAL", ibv_create_qp(n->pd, &init), EINVAL);
    init = good;
    init.cap.max_inline_data = 1u << 30;
    CHECK_NULL("7.1", "a gigabyte of inline data is EINVAL", ibv_create_qp(n->pd, &init), EINVAL);
    init = good;
    init.qp_type = 77;
    CHECK_NULL("7.1", "a type nobody defined is EINVAL", ibv_create_qp(n->pd, &init), EINVAL);
    init = good;
    init.qp_type = IBV_QPT_RAW_PACKET;
    CHECK_NULL("7.1", "a known type we lack is EOPNOTSUPP", ibv_create_qp(n->pd, &init), EOPNOTSUPP);

    init = good;
    struct ibv_qp *one = ibv_create_qp(n->pd, &init), *two = ibv_create_qp(n->pd, &good);
    REQUIRE(one && two);
    CHECK("7.1", "the real capabilities are written back and at least those asked",
          init.cap.max_send_wr >= 32 && init.cap.max_recv_wr >= 32 && init.cap.max_send_sge >= 4 &&
              init.cap.max_recv_sge >= 4 && init.cap.max_inline_data >= 64);
    CHECK("7.1", "queue pair numbers are of 24 bits, above 1, and differ",
          one->qp_num > 1 && one->qp_num < 1 << 24 && two->qp_num > 1 && one->qp_num != two->qp_num);
    CHECK_EQ("7.1", "a fresh queue pair is in RESET", state_of(one), IBV_QPS_RESET);
    uint32_t number = one->qp_num;
    REQUIRE(ibv_destroy_qp(one) == 0);
    one = ibv_create_qp(n->pd, &init);
    REQUIRE(one);
    CHECK("7.1", "a number is not used again at once", one->qp_num != number);
    REQUIRE(ibv_destroy_qp(one) == 0 && ibv_destroy_qp(two) == 0);

    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = device.max_srq_wr + 1, .max_sge = 1}};
    CHECK_NULL("7.5", "a shared receive queue above max_srq_wr is EINVAL", ibv_create_srq(n->pd, &srq_init), EINVAL);
    srq_init.attr = (struct ibv_srq_attr){.max_wr = 4, .max_sge = device.max_srq_sge + 1};
    CHECK_NULL("7.5", "more SGEs than max_srq_sge are EINVAL", ibv_create_srq(n->pd, &srq_init), EINVAL);
}

// ---- posting (7.3) -----------------------------------------------------------------------------------------------

// A queue pair connected to itself, in RTS. Receives are only what the caller posts.
static void connect_to_itself(struct node *n)
{
    drop_qp(n);
    drain(n->send_cq);
    drain(n->recv_cq);
    REQUIRE(n->qp = make_qp(n, n->type));
    struct card here = card_of(n);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);
}

static void a_full_queue_stops_at_the_first_not_taken(struct node *n)
{
    enum { ROOM = 4096 };
    static struct ibv_recv_wr receives[ROOM];
    static struct ibv_send_wr sends[ROOM];
    struct ibv_qp_init_attr init = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_recv_wr *bad_receive = NULL;
    struct ibv_send_wr *bad_send = NULL;
    struct ibv_sge sge = piece(n->buffer, 8, n->mr->lkey);
    drop_qp(n);
    drain(n->send_cq);
    drain(n->recv_cq);
    REQUIRE(n->qp = ibv_create_qp(n->pd, &init));
    REQUIRE(init.cap.max_recv_wr < ROOM && init.cap.max_send_wr < ROOM);
    int recv_room = init.cap.max_recv_wr, send_room = init.cap.max_send_wr;

    for (int i = 0; i < ROOM; i++) {
        receives[i] = (struct ibv_recv_wr){.wr_id = i, .sg_list = &sge, .num_sge = 1};
        receives[i].next = i + 1 < ROOM ? &receives[i + 1] : NULL;
        sends[i] = (struct ibv_send_wr){.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                                        .send_flags = IBV_SEND_SIGNALED};
        sends[i].next = i + 1 < ROOM ? &sends[i + 1] : NULL;
    }
    CHECK_EQ("7.3", "post_recv in RESET is EINVAL", ibv_post_recv(n->qp, receives, &bad_receive), EINVAL);
    CHECK("7.3", "and bad_wr is the first", bad_receive == receives);
    CHECK_EQ("7.3", "post_send in RESET is EINVAL", ibv_post_send(n->qp, sends, &bad_send), EINVAL);
    CHECK("7.3", "and bad_wr is the first", bad_send == sends);
    REQUIRE(to_init(n) == 0);
    CHECK_EQ("7.3", "post_send of a NULL list is 0", ibv_post_send(n->qp, NULL, &bad_send), 0);

    CHECK_EQ("7.3", "a receive queue that gets full says ENOMEM", ibv_post_recv(n->qp, receives, &bad_receive), ENOMEM);
    CHECK_EQ("7.3", "bad_wr is the first receive not taken", bad_receive - receives, recv_room);
    struct card here = card_of(n);
    REQUIRE(to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);

    // To itself, with no more receives than the queue holds, later sends wait for a receive (rnr_retry 7: for ever).
    receives[0].next = NULL;
    int taken = 0, refused = 0;
    for (int i = 0; i < ROOM && !refused; i++) {
        sends[i].next = NULL;
        refused = ibv_post_send(n->qp, &sends[i], &bad_send);
        taken += !refused;
    }
    CHECK_EQ("7.3", "a send queue that gets full says ENOMEM", refused, ENOMEM);
    CHECK("7.3", "bad_wr is the send not taken", bad_send == &sends[taken]);
    CHECK("7.3", "everything up to the limit was taken", taken >= send_room);
    int arrived = 0;
    while (arrived < taken) {
        struct ibv_wc wc = next_completion(n->recv_cq);
        if (wc.status != IBV_WC_SUCCESS)
            break;
        arrived++;
        REQUIRE(ibv_post_recv(n->qp, &receives[0], &bad_receive) == 0);
    }
    CHECK_EQ("7.3", "exactly those taken arrive", arrived, taken);
    int in_order = 0;
    for (int i = 0; i < taken; i++) {
        struct ibv_wc wc = next_completion(n->send_cq);
        if (wc.status != IBV_WC_SUCCESS || wc.wr_id != (uint64_t)i)
            break;
        in_order++;
    }
    CHECK_EQ("7.3", "and complete in the order of posting", in_order, taken);
    drop_qp(n);
}

static void a_bad_request_stops_the_list_and_keeps_what_came_before(struct node *n)
{
    struct ibv_sge sges[64];
    struct ibv_qp_init_attr init = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .qp_type = IBV_QPT_RC, .cap = n->cap};
    connect_to_itself(n);
    struct ibv_qp_attr attr;
    REQUIRE(ibv_query_qp(n->qp, &attr, IBV_QP_CAP, &init) == 0);
    REQUIRE(init.cap.max_send_sge < 64 && init.cap.max_recv_sge < 64);
    for (int i = 0; i < 64; i++)
        sges[i] = piece(n->buffer + 64 * i, 8, n->mr->lkey);
    unsigned char *target = n->buffer + 32768;

    struct ibv_recv_wr receives[2] = {{.wr_id = 1, .next = &receives[1], .sg_list = sges, .num_sge = 1},
                                      {.wr_id = 2, .sg_list = sges, .num_sge = init.cap.max_recv_sge + 1}};
    struct ibv_recv_wr *bad_receive = NULL;
    CHECK_EQ("7.3", "a receive with too many SGEs is EINVAL", ibv_post_recv(n->qp, receives, &bad_receive), EINVAL);
    CHECK("7.3", "bad_wr is that receive", bad_receive == &receives[1]);

    static const char *names[] = {"too many SGEs are EINVAL", "inline data beyond the limit is EINVAL or ENOMEM",
                                  "an opcode nobody defined is EINVAL"};
    for (int i = 0; i < 3; i++) {
        memset(target, 0xee, 4096);
        fill(n->buffer, 64, i);
        struct ibv_sge first = piece(n->buffer, 8, n->mr->lkey), large = piece(n->buffer, 8192, n->mr->lkey);
        struct ibv_send_wr list[3], *bad = NULL;
        memset(list, 0, sizeof list);
        for (int k = 0; k < 3; k++) {
            list[k] = (struct ibv_send_wr){.wr_id = k, .next = k < 2 ? &list[k + 1] : NULL, .sg_list = &first,
                                           .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                                           .send_flags = IBV_SEND_SIGNALED};
            list[k].wr.rdma.remote_addr = (uintptr_t)target + 8 * k;
            list[k].wr.rdma.rkey = n->mr->rkey;
        }
        if (i == 0) {
            list[1].sg_list = sges;
            list[1].num_sge = init.cap.max_send_sge + 1;
        } else if (i == 1) {
            REQUIRE(init.cap.max_inline_data < 8192);
            list[1].sg_list = &large;
            list[1].send_flags |= IBV_SEND_INLINE;
        } else {
            list[1].opcode = 99;
        }
        int result = ibv_post_send(n->qp, list, &bad);
        CHECK_EITHER("7.3", names[i], result, EINVAL, i == 1 ? ENOMEM : EINVAL);
        CHECK("7.3", "bad_wr is that request", bad == &list[1]);
        struct ibv_wc wc = next_completion(n->send_cq);
        CHECK("7.3", "the request before it is carried out", wc.status == IBV_WC_SUCCESS && wc.wr_id == 0);
        // A later request of the same queue proves that nothing else is on its way.
        REQUIRE(post(n->qp, 50, IBV_WR_RDMA_WRITE, piece(n->buffer + 64, 0, 0), 0, 0) == 0);
        wc = next_completion(n->send_cq);
        CHECK("7.3", "the next completion is of the next request posted", wc.status == IBV_WC_SUCCESS && wc.wr_id == 50);
        CHECK("7.3", "its bytes, and only its, have moved",
              memcmp(target, n->buffer, 8) == 0 && all_bytes(target + 8, 4096 - 8, 0xee));
    }

    // INLINE: the bytes are taken during the call and the key is not looked at.
    struct ibv_sge inlined = piece(n->buffer, 32, 0xdeadbeef);
    struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &inlined, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}, *bad = NULL;
    wr.wr.rdma.remote_addr = (uintptr_t)target;
    wr.wr.rdma.rkey = n->mr->rkey;
    fill(n->buffer, 32, 9);
    CHECK_EQ("7.3", "inline data needs no key", ibv_post_send(n->qp, &wr, &bad), 0);
    memset(n->buffer, 0, 32);
    CHECK_EQ("7.3", "and is sent", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    CHECK("7.3", "as it was at the call", filled(target, 32, 9));
    static const enum ibv_wr_opcode fetching[] = {READ, SWAP, ADD};
    inlined = piece(n->buffer, 8, n->mr->lkey);
    for (size_t i = 0; i < sizeof fetching / sizeof *fetching; i++) {
        wr.opcode = fetching[i];
        wr.wr.atomic.remote_addr = (uintptr_t)target;
        wr.wr.atomic.rkey = n->mr->rkey;
        bad = NULL;
        CHECK("7.3", "what brings bytes here is not inline", ibv_post_send(n->qp, &wr, &bad) == EINVAL && bad == &wr);
    }
    CHECK("7.3", "and nothing of it happens", filled(target, 32, 9) && all_bytes(n->buffer, 32, 0));

    struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(n->pd, &srq_init);
    REQUIRE(srq);
    struct ibv_recv_wr shared = {.wr_id = 1, .sg_list = sges, .num_sge = srq_init.attr.max_sge + 1}, *bad_shared = NULL;
    CHECK_EQ("7.5", "a shared receive with too many SGEs is EINVAL", ibv_post_srq_recv(srq, &shared, &bad_shared),
             EINVAL);
    CHECK("7.5", "bad_wr is that receive", bad_shared == &shared);
    shared.num_sge = 1;
    int taken = 0, refused = 0;
    while (taken < 1 << 16 && !(refused = ibv_post_srq_recv(srq, &shared, &bad_shared)))
        taken++;
    CHECK_EQ("7.5", "a full shared receive queue says ENOMEM", refused, ENOMEM);
    CHECK_EQ("7.5", "after exactly max_wr receives", taken, srq_init.attr.max_wr);
    REQUIRE(ibv_destroy_srq(srq) == 0);
    drop_qp(n);
}

// Whatever way it takes: held back in INIT, or at once in RTS.
static void a_request_has_room_for_one_piece_whatever_was_asked_for(struct node *n)
{
    struct ibv_qp_init_attr init = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_recv_sge = 1, .max_inline_data = 64}};
    struct ibv_sge sges[2] = {piece(n->buffer, 8, n->mr->lkey), piece(n->buffer, 8, n->mr->lkey)};
    struct ibv_send_wr wr = {.wr_id = 7, .sg_list = sges, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)n->buffer + 4096;
    wr.wr.rdma.rkey = n->mr->rkey;
    drop_qp(n);
    drain(n->send_cq);
    REQUIRE(n->qp = ibv_create_qp(n->pd, &init));
    CHECK_EQ("7.1", "a queue pair that asked for no send SGE has one, and says so", init.cap.max_send_sge, 1);
    struct card here = card_of(n);
    REQUIRE(to_init(n) == 0);
    CHECK_EQ("7.3", "two are refused before it is connected", ibv_post_send(n->qp, &wr, &bad), EINVAL);
    wr.num_sge = 1;
    CHECK_EQ("7.3", "one is taken", ibv_post_send(n->qp, &wr, &bad), 0);
    REQUIRE(to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);
    CHECK_EQ("7.3", "and carried out", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    CHECK_EQ("7.3", "as is one afterwards", ibv_post_send(n->qp, &wr, &bad), 0);
    CHECK_EQ("7.3", "which is carried out", next_completion(n->send_cq).status, IBV_WC_SUCCESS);
    wr.num_sge = 2;
    CHECK_EQ("7.3", "two are refused then, too", ibv_post_send(n->qp, &wr, &bad), EINVAL);
    drop_qp(n);
}

static void entries_survive_a_resize_and_hold_off_a_smaller_one(struct node *n)
{
    connect_to_itself(n);
    for (int i = 0; i < 20; i++)
        REQUIRE(post(n->qp, i, IBV_WR_RDMA_WRITE, piece(n->buffer, 8, n->mr->lkey), (uintptr_t)n->buffer + 4096,
                     n->mr->rkey) == 0);
    // The last completion is in the queue once a receive completion of a later send is in the other.
    REQUIRE(post_receive(n->qp, 1, piece(n->buffer, 8, n->mr->lkey)) == 0);
    REQUIRE(post(n->qp, 20, IBV_WR_SEND, piece(n->buffer, 8, n->mr->lkey), 0, 0) == 0);
    CHECK_EQ("6", "a send to oneself arrives", next_completion(n->recv_cq).status, IBV_WC_SUCCESS);
    CHECK_EQ("6", "resize below the number of waiting entries is EINVAL", ibv_resize_cq(n->send_cq, 5), EINVAL);
    CHECK_EQ("6", "resize above it works", ibv_resize_cq(n->send_cq, 64), 0);
    int in_order = 0;
    for (int i = 0; i <= 20; i++) {
        struct ibv_wc wc = next_completion(n->send_cq);
        in_order += wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i;
    }
    CHECK_EQ("6", "every entry survived both, in order", in_order, 21);
    drop_qp(n);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    struct node n = open_node();
    REQUIRE(ibv_query_device(n.context, &device) == 0);
    registration_refuses_what_it_cannot_keep(&n);
    a_domain_in_use_is_busy(&n);
    a_handle_the_program_overwrote_is_not_found(&n);
    a_freed_object_is_not_found_again(&n);
    queries_refuse_what_does_not_exist(&n);
    completion_queues_have_limits(&n);
    queue_pairs_have_limits(&n);
    a_full_queue_stops_at_the_first_not_taken(&n);
    a_bad_request_stops_the_list_and_keeps_what_came_before(&n);
    a_request_has_room_for_one_piece_whatever_was_asked_for(&n);
    entries_survive_a_resize_and_hold_off_a_smaller_one(&n);
    close_node(&n);
    return finish_alone();
}
