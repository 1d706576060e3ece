// What a device without silicon answers: families that it does not have are refused and change nothing, what needs no silicon works.
// And what keeps datagrams apart: keys of queues and of partitions, and a sender that does not want to hear itself. One process.
//
// proves: verbs-abi 4, 7.1, 7.2, 7.4, 7.5

#include "common.h"

#include <dlfcn.h>

static const union ibv_gid group = {.raw = {0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0e, 7, 7, 7}};
#define GROUP_LID 0xc0de

static void families_that_are_not_there_say_so(struct node *n)
{
    struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = n->pd, .cq = n->recv_cq};
    CHECK_NULL("4", "no work queues", ibv_create_wq(n->context, &wq), EOPNOTSUPP);
    struct ibv_rwq_ind_table_init_attr table = {0};
    CHECK_NULL("4", "no indirection tables", ibv_create_rwq_ind_table(n->context, &table), EOPNOTSUPP);
    struct ibv_flow_action_esp_attr esp = {0};
    CHECK_NULL("4", "no flow actions", ibv_create_flow_action_esp(n->context, &esp), EOPNOTSUPP);
    struct ibv_qp_cap cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
    struct ibv_qp_init_attr init = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .cap = cap, .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp(n->pd, &init);
    REQUIRE(qp);
    struct ibv_flow_attr flow = {.size = sizeof flow, .port = PORT};
    CHECK_NULL("4", "no flow steering", ibv_create_flow(qp, &flow), EOPNOTSUPP);
    struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1000};
    CHECK_EQ("4", "no packet pacing", ibv_modify_qp_rate_limit(qp, &rate), EOPNOTSUPP);
    struct ibv_device_attr_ex attr;
    REQUIRE(ibv_query_device_ex(n->context, NULL, &attr) == 0);
    CHECK("4", "and none is announced", attr.packet_pacing_caps.qp_rate_limit_max == 0 && attr.packet_pacing_caps.supported_qpts == 0 &&
                                            attr.max_wq_type_rq == 0 && attr.rss_caps.supported_qpts == 0 && attr.tm_caps.max_num_tags == 0);
    struct ibv_ece ece = {.vendor_id = 1};
    CHECK_EQ("4", "no enhanced connection options are told", ibv_query_ece(qp, &ece), EOPNOTSUPP);
    CHECK_EQ("4", "and none are taken", ibv_set_ece(qp, &ece), EOPNOTSUPP);
    CHECK_NULL("4", "no memory of other devices", ibv_reg_dmabuf_mr(n->pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE), EOPNOTSUPP);
    CHECK_EQ("4", "children need no preparation", ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
    CHECK_EQ("4", "a queue pair that was refused much is destroyed", ibv_destroy_qp(qp), 0);
}

static bool resolves(struct node *n, struct ibv_ah_attr *path, uint8_t *mac, uint16_t *vlan, int error)
{
    memset(mac, 0x77, 6);
    *vlan = 7;
    errno = 0;
    int answer = ibv_resolve_eth_l2_from_gid(n->context, path, mac, vlan);
    return error ? answer == -1 && errno == error && all_bytes(mac, 6, 0x77) && *vlan == 7 : answer == 0 && *vlan == 0xffff;
}

static void ethernet_addresses_are_what_the_system_knows(struct node *n)
{
    struct ibv_port_attr port;
    struct ibv_ah_attr path = {.port_num = PORT, .is_global = 1, .grh = {.dgid = group, .sgid_index = GID_INDEX}};
    uint8_t mac[6];
    uint16_t vlan;
    REQUIRE(ibv_query_port(n->context, PORT, &port) == 0);
    if (port.link_layer != IBV_LINK_LAYER_ETHERNET) {
        CHECK("4", "an InfiniBand port has no Ethernet addresses", resolves(n, &path, mac, &vlan, EOPNOTSUPP));
        return;
    }
    static const uint8_t of_group[6] = {0x33, 0x33, 0x0e, 7, 7, 7};
    CHECK("4", "a group has the address of its standard", resolves(n, &path, mac, &vlan, 0) && memcmp(mac, of_group, 6) == 0);
    static const union ibv_gid neighbour = {.raw = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x12, 0x34, 0x56}};
    static const uint8_t inside[6] = {0x52, 0x54, 0, 0x12, 0x34, 0x56};
    path.grh.dgid = neighbour;
    CHECK("4", "a link-local address the one in it", resolves(n, &path, mac, &vlan, 0) && memcmp(mac, inside, 6) == 0);
    static const union ibv_gid loopback = {.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1}}, nobody = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 77}};
    path.grh.dgid = loopback;
    CHECK("4", "an interface of the host its own", resolves(n, &path, mac, &vlan, 0) && all_bytes(mac, 6, 0));
    path.grh.dgid = nobody;
    CHECK("4", "of who is no neighbour none is known", resolves(n, &path, mac, &vlan, EHOSTUNREACH));
    path.grh.dgid = group, path.port_num = PORT + 1;
    CHECK("4", "nor through a port that is not there", resolves(n, &path, mac, &vlan, EINVAL));
    path.port_num = PORT, path.grh.sgid_index = 200;
    CHECK("4", "nor from an address that is not there", resolves(n, &path, mac, &vlan, EINVAL));
    path.grh.sgid_index = GID_INDEX, path.is_global = 0;
    CHECK("4", "nor without a global route", resolves(n, &path, mac, &vlan, EINVAL));
}

static void counters_count_what_no_rule_sees(struct node *n)
{
    struct ibv_counters_init_attr init = {.comp_mask = 1};
    CHECK_NULL("4", "counters with unknown attributes are refused", ibv_create_counters(n->context, &init), EINVAL);
    init.comp_mask = 0;
    struct ibv_counters *counters = ibv_create_counters(n->context, &init);
    REQUIRE(counters && counters->context == n->context);
    uint64_t values[4] = {7, 7, 7, 7};
    CHECK_EQ("4", "a place that was not set up is not read", ibv_read_counters(counters, values, 1, 0), EINVAL);
    struct ibv_counter_attach_attr attach = {.counter_desc = IBV_COUNTER_PACKETS, .index = 0};
    CHECK_EQ("4", "a place counts packets", ibv_attach_counters_point_flow(counters, &attach, NULL), 0);
    attach = (struct ibv_counter_attach_attr){.counter_desc = IBV_COUNTER_BYTES, .index = 2};
    CHECK_EQ("4", "another counts bytes", ibv_attach_counters_point_flow(counters, &attach, NULL), 0);
    attach.counter_desc = IBV_COUNTER_BYTES + 1;
    CHECK_EQ("4", "there is nothing else to count", ibv_attach_counters_point_flow(counters, &attach, NULL), ENOTSUP);
    attach = (struct ibv_counter_attach_attr){.index = 64};
    CHECK_EQ("4", "there are 64 places", ibv_attach_counters_point_flow(counters, &attach, NULL), EINVAL);
    attach.index = 0;
    struct ibv_flow *flow = (struct ibv_flow *)counters;
    CHECK_EQ("4", "there is no rule that could be given", ibv_attach_counters_point_flow(counters, &attach, flow), EINVAL);
    CHECK_EQ("4", "unknown flags are refused", ibv_read_counters(counters, values, 1, 2), EINVAL);
    CHECK_EQ("4", "and more places than there are", ibv_read_counters(counters, values, 4, 0), EINVAL);
    CHECK("4", "and nothing is written then", values[0] == 7 && values[3] == 7);
    CHECK_EQ("4", "they are read", ibv_read_counters(counters, values, 3, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
    CHECK("4", "and no rule saw anything", values[0] == 0 && values[1] == 0 && values[2] == 0 && values[3] == 7);
    CHECK_EQ("4", "they are destroyed", ibv_destroy_counters(counters), 0);
    CHECK_EQ("4", "once", ibv_destroy_counters(counters), ENOENT);
}

// What a header of release 64 has; this one has it not.
struct mr_init_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    void *dmah;
    void *buf;
};

struct dmah_init_attr {
    uint32_t comp_mask, cpu_id;
    uint8_t ph, tph_mem_type;
};

static void *symbol(const char *name, const char *version)
{
    void *found = dlvsym(RTLD_DEFAULT, name, version);
    REQUIRE(found);
    return found;
}

static void calls_of_later_releases_do_what_they_can(struct node *n)
{
    enum { IOVA = 1, ADDR = 2, FD = 4, OFFSET = 8, HINTS = 16, BUFFER_HANDLE = 32 };
    struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct mr_init_attr *) = symbol("ibv_reg_mr_ex", "IBVERBS_1.15");
    int (*query_speed)(struct ibv_context *, uint32_t, uint64_t *) = symbol("ibv_query_port_speed", "IBVERBS_1.16");
    uint64_t speed = 7;
    CHECK("4", "a port tells its speed", query_speed(n->context, PORT, &speed) == 0 && speed == 1000);
    speed = 7;
    CHECK("4", "one that is not there does not",
          query_speed(n->context, 2, &speed) == EINVAL && query_speed(n->context, 257, &speed) == EINVAL && speed == 7);

    struct mr_init_attr attr = {.length = 4096, .access = ALL_REMOTE, .comp_mask = ADDR, .addr = n->buffer, .fd = -1};
    struct ibv_mr *plain = reg_mr_ex(n->pd, &attr);
    attr.comp_mask = ADDR | IOVA;
    attr.iova = 0x10000;
    struct ibv_mr *named = reg_mr_ex(n->pd, &attr);
    REQUIRE(plain && named);
    CHECK("5.1", "a region is what was asked for", plain->addr == n->buffer && plain->length == 4096 && named->pd == n->pd);
    struct ibv_qp_init_attr init = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .cap = n->cap, .qp_type = IBV_QPT_RC};
    REQUIRE(n->qp = ibv_create_qp(n->pd, &init));
    struct card here = card_of(n);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);
    fill(n->buffer, 64, 3);
    struct ibv_sge from = {.addr = (uintptr_t)n->buffer, .length = 64, .lkey = plain->lkey};
    REQUIRE(post(n->qp, 1, WRITE, from, 0x10000 + 128, named->rkey) == 0);
    CHECK("5.1", "and is reached by its name", next_completion(n->send_cq).status == IBV_WC_SUCCESS && filled(n->buffer + 128, 64, 3));
    drop_qp(n);
    CHECK("5.1", "and deregistered", ibv_dereg_mr(plain) == 0 && ibv_dereg_mr(named) == 0);
    const struct { const char *sentence; uint64_t mask; int error; } wrong[] = {
        {"no address is refused", IOVA, EINVAL}, {"so are bits that nobody knows", ADDR | 1ull << 40, EINVAL},
        {"memory of others is not there", FD | IOVA | OFFSET, EOPNOTSUPP}, {"hints that nobody made are refused", ADDR | HINTS, EINVAL},
        {"and buffers that nobody made", ADDR | BUFFER_HANDLE, EINVAL}, {"and a buffer of others' memory", ADDR | BUFFER_HANDLE | FD, EINVAL},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        attr.comp_mask = wrong[i].mask;
        CHECK_NULL("5.1", wrong[i].sentence, reg_mr_ex(n->pd, &attr), wrong[i].error);
    }
    attr.comp_mask = ADDR;
    attr.access = IBV_ACCESS_REMOTE_WRITE;
    CHECK_NULL("5.1", "rights are judged as ever", reg_mr_ex(n->pd, &attr), EINVAL);
    CHECK_NULL("5.1", "and so are domains", reg_mr_ex(NULL, &attr), EINVAL);
}

static void buffers_and_hints_of_later_releases(struct node *n)
{
    enum { IOVA = 1, ADDR = 2, HINTS = 16, BUFFER_HANDLE = 32, CPU = 1, HINT = 2, KIND = 4 };
    struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct mr_init_attr *) = symbol("ibv_reg_mr_ex", "IBVERBS_1.15");
    void *(*alloc_buf)(struct ibv_pd *, size_t, void **) = symbol("ibv_alloc_buf", "IBVERBS_1.17");
    void (*free_buf)(void *) = symbol("ibv_free_buf", "IBVERBS_1.17");
    struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *, void *, void *, size_t, int) = symbol("ibv_reg_buf_mr", "IBVERBS_1.17");
    void *(*alloc_dmah)(struct ibv_context *, struct dmah_init_attr *) = symbol("ibv_alloc_dmah", "IBVERBS_1.15");
    int (*dealloc_dmah)(void *) = symbol("ibv_dealloc_dmah", "IBVERBS_1.15");
    struct ibv_pd *other = ibv_alloc_pd(n->context);
    void *buffer = NULL;
    unsigned char *bytes = alloc_buf(n->pd, 10000, &buffer);
    REQUIRE(bytes && buffer && other);
    CHECK("5.1", "a buffer is memory that is zero", all_bytes(bytes, 10000, 0) && (uintptr_t)bytes % 4096 == 0);
    void *none = NULL;
    CHECK_NULL("5.1", "one of no bytes is refused", alloc_buf(n->pd, 0, &none), EINVAL);
    CHECK_NULL("5.1", "and one of no domain", alloc_buf(NULL, 64, &none), EINVAL);
    CHECK_NULL("5.1", "and one of more bytes than there are", alloc_buf(n->pd, (size_t)1 << 60, &none), ENOMEM);
    CHECK("5.1", "and none is told", none == NULL);
    CHECK_NULL("5.1", "a region of it is in the domain that it was allocated from", reg_buf_mr(other, buffer, bytes, 64, 0), EINVAL);
    CHECK_NULL("5.1", "and not beyond its end", reg_buf_mr(n->pd, buffer, bytes + 1, 10000, 0), EINVAL);
    CHECK_NULL("5.1", "nor before its beginning", reg_buf_mr(n->pd, buffer, bytes - 1, 10, 0), EINVAL);
    CHECK_NULL("5.1", "nor of what is no buffer", reg_buf_mr(n->pd, bytes, bytes, 10, 0), EINVAL);
    struct ibv_mr *region = reg_buf_mr(n->pd, buffer, bytes + 100, 9900, ALL_REMOTE);
    struct mr_init_attr attr = {.length = 10000, .access = ALL_REMOTE, .comp_mask = ADDR | IOVA | BUFFER_HANDLE, .iova = 0x40000, .addr = bytes, .fd = -1, .buf = buffer};
    struct ibv_mr *named = reg_mr_ex(n->pd, &attr);
    REQUIRE(region && named);
    CHECK("5.1", "a region of a buffer is one of its memory", region->addr == bytes + 100 && region->length == 9900);
    struct ibv_qp_init_attr init = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .cap = n->cap, .qp_type = IBV_QPT_RC};
    REQUIRE(n->qp = ibv_create_qp(n->pd, &init));
    struct card here = card_of(n);
    REQUIRE(to_init(n) == 0 && to_rtr(n, &here) == 0 && to_rts(n, here.psn) == 0);
    fill(n->buffer, 4096, 4);
    REQUIRE(post(n->qp, 1, WRITE, piece(n->buffer, 4096, n->mr->lkey), (uintptr_t)bytes + 100, region->rkey) == 0);
    CHECK("5.1", "that peers write to", next_completion(n->send_cq).status == IBV_WC_SUCCESS && filled(bytes + 100, 4096, 4));
    REQUIRE(post(n->qp, 2, READ, piece(n->buffer + 8192, 4096, n->mr->lkey), 0x40000 + 100, named->rkey) == 0);
    CHECK("5.1", "and read by the name they know", next_completion(n->send_cq).status == IBV_WC_SUCCESS && filled(n->buffer + 8192, 4096, 4));
    drop_qp(n);
    REQUIRE(ibv_dereg_mr(region) == 0 && ibv_dereg_mr(named) == 0);
    free_buf(buffer);
    free_buf(buffer);
    CHECK_NULL("5.1", "a buffer that was freed has no memory", reg_buf_mr(n->pd, buffer, bytes, 10, 0), EINVAL);
    REQUIRE(ibv_dealloc_pd(other) == 0);

    struct dmah_init_attr hints = {.comp_mask = CPU | HINT | KIND, .cpu_id = 0, .ph = 3, .tph_mem_type = 1};
    void *dmah = alloc_dmah(n->context, &hints);
    REQUIRE(dmah);
    attr = (struct mr_init_attr){.length = 4096, .access = ALL_REMOTE, .comp_mask = ADDR | HINTS, .addr = n->buffer, .fd = -1, .dmah = dmah};
    struct ibv_mr *hinted = reg_mr_ex(n->pd, &attr);
    CHECK("5.1", "hints change nothing", hinted && hinted->addr == n->buffer && ibv_dereg_mr(hinted) == 0);
    struct ibv_context *foreign = open_device();
    void *theirs = alloc_dmah(foreign, &(struct dmah_init_attr){0});
    REQUIRE(theirs);
    attr.dmah = theirs;
    CHECK_NULL("5.1", "those of another context are refused", reg_mr_ex(n->pd, &attr), EINVAL);
    REQUIRE(dealloc_dmah(theirs) == 0 && ibv_close_device(foreign) == 0);
    CHECK_EQ("5.1", "hints go", dealloc_dmah(dmah), 0);
    CHECK_EQ("5.1", "once", dealloc_dmah(dmah), ENOENT);
    const struct dmah_init_attr wrong[] = {{.comp_mask = 8}, {.comp_mask = CPU, .cpu_id = 1 << 20}, {.comp_mask = HINT, .ph = 4}, {.comp_mask = KIND, .tph_mem_type = 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hints = wrong[i];
        CHECK_NULL("5.1", "hints that mean nothing are refused", alloc_dmah(n->context, &hints), EINVAL);
    }
}

// A queue pair of datagrams that can send and receive.
static struct ibv_qp *datagrams(struct node *n, uint32_t create_flags, uint32_t qkey)
{
    struct ibv_qp_init_attr_ex init = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .cap = n->cap, .qp_type = IBV_QPT_UD, .pd = n->pd,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, .create_flags = create_flags};
    struct ibv_qp *qp = ibv_create_qp_ex(n->context, &init);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = qkey};
    REQUIRE(qp);
    attr.pkey_index = 1;
    CHECK_EQ("7.2", "there is one partition", ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), EINVAL);
    attr.pkey_index = 0;
    REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    attr.qp_state = IBV_QPS_RTR;
    REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    attr.qp_state = IBV_QPS_RTS;
    REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
    return qp;
}

static void send_to(struct node *n, struct ibv_qp *from, struct ibv_ah *ah, uint32_t number, uint32_t qkey, unsigned char value)
{
    memset(n->buffer, value, 8);
    struct ibv_sge sge = piece(n->buffer, 8, n->mr->lkey);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = number;
    wr.wr.ud.remote_qkey = qkey;
    REQUIRE(ibv_post_send(from, &wr, &bad) == 0 && next_completion(n->send_cq).status == IBV_WC_SUCCESS);
}

// The next datagram that comes, and to whom.
static bool comes(struct node *n, struct ibv_qp *to, unsigned char value)
{
    struct ibv_wc wc = next_completion(n->recv_cq);
    return wc.status == IBV_WC_SUCCESS && wc.qp_num == to->qp_num && wc.byte_len == 48 && wc.pkey_index == 0 &&
           n->buffer[4096 + 64 * wc.wr_id + 40] == value;
}

static void give_receives(struct node *n, struct ibv_qp *qp, unsigned first)
{
    for (unsigned i = first; i < first + 4; i++)
        REQUIRE(post_receive(qp, i, piece(n->buffer + 4096 + 64 * i, 64, n->mr->lkey)) == 0);
}

static uint32_t violations(struct node *n)
{
    struct ibv_port_attr port;
    REQUIRE(ibv_query_port(n->context, PORT, &port) == 0);
    return port.qkey_viol_cntr;
}

static void keys_keep_datagrams_apart(struct node *n)
{
    uint16_t pkey;
    CHECK("4", "the partition is the default one", ibv_query_pkey(n->context, PORT, 0, &pkey) == 0 && pkey == 0xffff);
    CHECK_EQ("4", "and there is no other", ibv_query_pkey(n->context, PORT, 1, &pkey), -1);
    struct ibv_qp *one = datagrams(n, 0, 0x1234), *other = datagrams(n, 0, 0x5678);
    struct card here = card_of(n);
    struct ibv_ah_attr route = route_to(&here);
    struct ibv_ah *ah = ibv_create_ah(n->pd, &route);
    REQUIRE(ah);
    give_receives(n, one, 0);
    give_receives(n, other, 4);
    uint32_t before = violations(n);
    send_to(n, one, ah, other->qp_num, 0x1234, 1);
    send_to(n, one, ah, other->qp_num, 0x5678, 2);
    CHECK("7.4", "a datagram with another Q_Key does not come, the next does", comes(n, other, 2));
    CHECK_EQ("7.4", "and is counted", violations(n), before + 1);
    // The highest bit says: the sender's own.
    send_to(n, one, ah, one->qp_num, 0x80005678, 3);
    CHECK("7.4", "a Q_Key with its highest bit means that of the sender", comes(n, one, 3));
    send_to(n, one, ah, other->qp_num, 0x80005678, 4);
    send_to(n, other, ah, one->qp_num, 0x1234, 5);
    CHECK("7.4", "whatever else it says", comes(n, one, 5));
    CHECK_EQ("7.4", "so one more was wrong", violations(n), before + 2);
    REQUIRE(ibv_destroy_ah(ah) == 0 && ibv_destroy_qp(one) == 0 && ibv_destroy_qp(other) == 0);
}

static void a_sender_need_not_hear_itself(struct node *n)
{
    struct ibv_qp *deaf = datagrams(n, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, 0x1234), *hears = datagrams(n, 0, 0x1234);
    struct card here = card_of(n);
    struct ibv_ah_attr to_group = {.is_global = 1, .dlid = GROUP_LID, .port_num = PORT, .grh = {.dgid = group, .sgid_index = GID_INDEX, .hop_limit = 1}};
    struct ibv_ah_attr route = route_to(&here);
    struct ibv_ah *all = ibv_create_ah(n->pd, &to_group), *ah = ibv_create_ah(n->pd, &route);
    REQUIRE(all && ah && ibv_attach_mcast(deaf, &group, GROUP_LID) == 0 && ibv_attach_mcast(hears, &group, GROUP_LID) == 0);
    give_receives(n, deaf, 0);
    give_receives(n, hears, 4);
    send_to(n, deaf, all, 0xffffff, 0x1234, 1);
    CHECK("7.5", "what a sender says to its group comes to others", comes(n, hears, 1));
    send_to(n, deaf, ah, deaf->qp_num, 0x1234, 2);
    CHECK("7.5", "and not to itself, where it asked for that", comes(n, deaf, 2));
    send_to(n, hears, all, 0xffffff, 0x1234, 3);
    struct ibv_wc two[2] = {next_completion(n->recv_cq), next_completion(n->recv_cq)};
    bool both = (two[0].qp_num == deaf->qp_num && two[1].qp_num == hears->qp_num) ||
                (two[1].qp_num == deaf->qp_num && two[0].qp_num == hears->qp_num);
    for (int i = 0; i < 2; i++)
        both = both && two[i].status == IBV_WC_SUCCESS && n->buffer[4096 + 64 * two[i].wr_id + 40] == 3;
    CHECK("7.5", "others it hears, and who did not ask hears itself", both);
    CHECK("7.5", "the groups are left", ibv_detach_mcast(deaf, &group, GROUP_LID) == 0 && ibv_detach_mcast(hears, &group, GROUP_LID) == 0);
    struct ibv_qp_init_attr_ex init = {.send_cq = n->send_cq, .recv_cq = n->recv_cq, .cap = n->cap, .qp_type = IBV_QPT_UD, .pd = n->pd,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS};
    init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
    CHECK_NULL("7.1", "a flag of silicon is not there", ibv_create_qp_ex(n->context, &init), EOPNOTSUPP);
    init.create_flags = 1 << 30;
    CHECK_NULL("7.1", "and nobody knows this one", ibv_create_qp_ex(n->context, &init), EINVAL);
    REQUIRE(ibv_destroy_ah(all) == 0 && ibv_destroy_ah(ah) == 0 && ibv_destroy_qp(deaf) == 0 && ibv_destroy_qp(hears) == 0);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    struct node n = open_node();
    families_that_are_not_there_say_so(&n);
    ethernet_addresses_are_what_the_system_knows(&n);
    counters_count_what_no_rule_sees(&n);
    calls_of_later_releases_do_what_they_can(&n);
    buffers_and_hints_of_later_releases(&n);
    keys_keep_datagrams_apart(&n);
    a_sender_need_not_hear_itself(&n);
    close_node(&n);
    return finish_alone();
}
