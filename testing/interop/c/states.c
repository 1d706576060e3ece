// The queue pair state machine, every move of RC, UC and UD: what each move requires, what it allows, and that a
// refused move changes nothing.
//
// proves: verbs-abi 7.2
//
// One process; queue pairs are connected to themselves. SQE cannot be entered by a call and is in unreliable.c.

#include "common.h"

#define AV IBV_QP_AV
#define MTU IBV_QP_PATH_MTU
#define CUR IBV_QP_CUR_STATE
#define ACCESS IBV_QP_ACCESS_FLAGS
#define PKEY IBV_QP_PKEY_INDEX
#define PORT_BIT IBV_QP_PORT
#define QKEY IBV_QP_QKEY
#define ALT IBV_QP_ALT_PATH
#define MIG IBV_QP_PATH_MIG_STATE
#define TIMEOUT IBV_QP_TIMEOUT
#define RETRY IBV_QP_RETRY_CNT
#define RNR IBV_QP_RNR_RETRY
#define MAX_RD IBV_QP_MAX_QP_RD_ATOMIC
#define MAX_DEST IBV_QP_MAX_DEST_RD_ATOMIC
#define MIN_RNR IBV_QP_MIN_RNR_TIMER
#define SQ_PSN IBV_QP_SQ_PSN
#define RQ_PSN IBV_QP_RQ_PSN
#define DEST IBV_QP_DEST_QPN
#define NOTIFY IBV_QP_EN_SQD_ASYNC_NOTIFY
// Allowed by the table, but an alternate path is refused for other reasons on a device without path migration.
#define NOT_TRIED (ALT | MIG)
// Newer kernels allow it where older ones do not.
#define UNDECIDED (IBV_QP_RATE_LIMIT | IBV_QP_CAP)

struct move {
    enum ibv_qp_state from, to;
    int required, optional;
};

#define RESET IBV_QPS_RESET
#define INIT IBV_QPS_INIT
#define RTR IBV_QPS_RTR
#define RTS IBV_QPS_RTS
#define SQD IBV_QPS_SQD
#define ERR IBV_QPS_ERR

#define TO_RESET_OR_ERR                                                                                             \
    {RESET, RESET, 0, 0}, {INIT, RESET, 0, 0}, {INIT, ERR, 0, 0}, {RTR, RESET, 0, 0}, {RTR, ERR, 0, 0},             \
        {RTS, RESET, 0, 0}, {RTS, ERR, 0, 0}, {SQD, RESET, 0, 0}, {SQD, ERR, 0, 0}, {ERR, RESET, 0, 0},             \
        {ERR, ERR, 0, 0}

static const struct move ud[] = {
    {RESET, INIT, PKEY | PORT_BIT | QKEY, 0},
    {INIT, INIT, 0, PKEY | PORT_BIT | QKEY},
    {INIT, RTR, 0, PKEY | QKEY},
    {RTR, RTS, SQ_PSN, CUR | QKEY},
    {RTS, RTS, 0, CUR | QKEY},
    {RTS, SQD, 0, NOTIFY},
    {SQD, SQD, 0, PKEY | QKEY},
    {SQD, RTS, 0, CUR | QKEY},
    TO_RESET_OR_ERR,
};

static const struct move uc[] = {
    {RESET, INIT, PKEY | PORT_BIT | ACCESS, 0},
    {INIT, INIT, 0, PKEY | PORT_BIT | ACCESS},
    {INIT, RTR, AV | MTU | DEST | RQ_PSN, ALT | ACCESS | PKEY},
    {RTR, RTS, SQ_PSN, CUR | ALT | ACCESS | MIG},
    {RTS, RTS, 0, CUR | ACCESS | ALT | MIG},
    {RTS, SQD, 0, NOTIFY},
    {SQD, SQD, 0, AV | ALT | ACCESS | PKEY | MIG},
    {SQD, RTS, 0, CUR | ACCESS | ALT | MIG},
    TO_RESET_OR_ERR,
};

static const struct move rc[] = {
    {RESET, INIT, PKEY | PORT_BIT | ACCESS, 0},
    {INIT, INIT, 0, PKEY | PORT_BIT | ACCESS},
    {INIT, RTR, AV | MTU | DEST | RQ_PSN | MAX_DEST | MIN_RNR, ALT | ACCESS | PKEY},
    {RTR, RTS, TIMEOUT | RETRY | RNR | SQ_PSN | MAX_RD, CUR | ALT | ACCESS | MIG | MIN_RNR},
    {RTS, RTS, 0, CUR | ACCESS | ALT | MIG | MIN_RNR},
    {RTS, SQD, 0, NOTIFY},
    {SQD, SQD, 0, AV | ALT | ACCESS | PKEY | MIG | PORT_BIT | TIMEOUT | RETRY | RNR | MAX_RD | MAX_DEST | MIN_RNR},
    {SQD, RTS, 0, CUR | ACCESS | ALT | MIG | MIN_RNR},
    TO_RESET_OR_ERR,
};

static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
static const char *const type_names[] = {[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD"};
static const enum ibv_qp_state all_states[] = {RESET, INIT, RTR, RTS, SQD, ERR};

static struct card here;

// Values that are good in every move.
static struct ibv_qp_attr good_values(const struct node *n, enum ibv_qp_state from, enum ibv_qp_state to)
{
    struct ibv_qp_attr attr = {
        .qp_state = to,
        .cur_qp_state = from,
        .path_mtu = IBV_MTU_1024,
        .qkey = 0x11111111,
        .rq_psn = 0x123456,
        .sq_psn = 0x123456,
        .dest_qp_num = n->qp->qp_num,
        .qp_access_flags = n->qp_access,
        .pkey_index = 0,
        .max_rd_atomic = 4,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12,
        .port_num = PORT,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .ah_attr = route_to(&here),
        .path_mig_state = IBV_MIG_MIGRATED,
    };
    return attr;
}

static const struct move *find(const struct move *table, size_t count, enum ibv_qp_state from, enum ibv_qp_state to)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].from == from && table[i].to == to)
            return &table[i];
    return NULL;
}

static int move(struct node *n, enum ibv_qp_state to, int mask)
{
    struct ibv_qp_attr attr = good_values(n, state_of(n->qp), to);
    return ibv_modify_qp(n->qp, &attr, IBV_QP_STATE | mask);
}

// A fresh queue pair in `state`.
static void fresh_in(struct node *n, const struct move *table, size_t count, enum ibv_qp_state state)
{
    static const enum ibv_qp_state path[] = {RESET, INIT, RTR, RTS, SQD};
    drop_qp(n);
    REQUIRE(n->qp = make_qp(n, n->type));
    for (size_t i = 1; i < sizeof path / sizeof *path && state_of(n->qp) != state; i++) {
        enum ibv_qp_state next = state == ERR && i == 2 ? ERR : path[i];
        REQUIRE(move(n, next, find(table, count, path[i - 1], next)->required) == 0);
    }
    REQUIRE(state_of(n->qp) == state);
}

// One sentence per move; the details of a failure are printed before it.
static void every_move_of(struct node *n, enum ibv_qp_type type, const struct move *table, size_t count)
{
    char sentence[200];
    n->type = type;
    for (size_t f = 0; f < sizeof all_states / sizeof *all_states; f++)
        for (size_t t = 0; t < sizeof all_states / sizeof *all_states; t++) {
            enum ibv_qp_state from = all_states[f], to = all_states[t];
            const struct move *m = find(table, count, from, to);
            int required = m ? m->required : 0;
            fresh_in(n, table, count, from);
            if (!m) {
                snprintf(sentence, sizeof sentence, "%s %s to %s is EINVAL", type_names[type], state_names[from],
                         state_names[to]);
                CHECK_EQ("7.2", sentence, move(n, to, 0), EINVAL);
                CHECK_EQ("7.2", "and the state is what it was", state_of(n->qp), from);
                continue;
            }
            snprintf(sentence, sizeof sentence, "%s %s to %s takes what it requires", type_names[type],
                     state_names[from], state_names[to]);
            CHECK_EQ("7.2", sentence, move(n, to, required), 0);
            CHECK_EQ("7.2", "and the state is the new one", state_of(n->qp), to);
            CHECK_EQ("7.2", "the qp structure says so too", n->qp->state, to);

            int wrong = 0;
            for (int bit = CUR; bit <= DEST; bit <<= 1) {
                if (bit & (UNDECIDED | (NOT_TRIED & m->optional)))
                    continue;
                bool is_required = bit & required, is_optional = bit & m->optional;
                int mask = is_required ? required & ~bit : required | bit;
                int want = is_optional ? 0 : EINVAL;
                fresh_in(n, table, count, from);
                int got = move(n, to, mask);
                enum ibv_qp_state after = state_of(n->qp);
                if (got != want || after != (want ? from : to)) {
                    printf("     %s %s to %s %s attribute bit 0x%x: returned %d, expected %d, then in %s\n",
                           type_names[type], state_names[from], state_names[to],
                           is_required ? "without the required" : is_optional ? "with the optional" : "with the foreign",
                           bit, got, want, state_names[after]);
                    wrong++;
                }
            }
            snprintf(sentence, sizeof sentence,
                     "%s %s to %s refuses a missing required bit and a foreign one, takes each optional one",
                     type_names[type], state_names[from], state_names[to]);
            CHECK_EQ("7.2", sentence, wrong, 0);
        }
}

#define MOVES(table) (table), sizeof(table) / sizeof *(table)

// A value out of range: EINVAL, and the queue pair stays where it was, able to go on.
#define BAD_VALUE(sentence, from, to, change)                                                                       \
    do {                                                                                                            \
        fresh_in(n, MOVES(rc), from);                                                                               \
        struct ibv_qp_attr attr = good_values(n, from, to);                                                         \
        change;                                                                                                     \
        CHECK_EQ("7.2", sentence, ibv_modify_qp(n->qp, &attr, IBV_QP_STATE | find(MOVES(rc), from, to)->required),  \
                 EINVAL);                                                                                           \
        CHECK_EQ("7.2", "and the state is what it was", state_of(n->qp), from);                                     \
        CHECK_EQ("7.2", "and the right value still works", move(n, to, find(MOVES(rc), from, to)->required), 0);    \
    } while (0)

static void values_out_of_range_are_refused(struct node *n)
{
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    n->type = IBV_QPT_RC;
    REQUIRE(ibv_query_device(n->context, &device) == 0 && ibv_query_port(n->context, PORT, &port) == 0);
    BAD_VALUE("port 0", RESET, INIT, attr.port_num = 0);
    BAD_VALUE("a port beyond the last", RESET, INIT, attr.port_num = device.phys_port_cnt + 1);
    BAD_VALUE("a pkey index beyond the table", RESET, INIT, attr.pkey_index = port.pkey_tbl_len);
    BAD_VALUE("an MTU nobody defined", INIT, RTR, attr.path_mtu = 9);
    BAD_VALUE("MTU 0", INIT, RTR, attr.path_mtu = 0);
    BAD_VALUE("more incoming reads than the device holds", INIT, RTR, attr.max_dest_rd_atomic = 255);
    BAD_VALUE("a source GID that does not exist", INIT, RTR, attr.ah_attr.grh.sgid_index = 255);
    BAD_VALUE("a path from a port that does not exist", INIT, RTR, attr.ah_attr.port_num = 9);
    BAD_VALUE("a retry count above 7", RTR, RTS, attr.retry_cnt = 8);
    BAD_VALUE("an RNR retry count above 7", RTR, RTS, attr.rnr_retry = 8);
    BAD_VALUE("a timeout of more than 5 bits", RTR, RTS, attr.timeout = 32);
    BAD_VALUE("more outgoing reads than the device holds", RTR, RTS, attr.max_rd_atomic = 255);
    if (port.active_mtu < IBV_MTU_4096)
        BAD_VALUE("an MTU above the active one", INIT, RTR, attr.path_mtu = port.active_mtu + 1);
    if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
        BAD_VALUE("a path without GRH on Ethernet", INIT, RTR, attr.ah_attr.is_global = 0);

    fresh_in(n, MOVES(rc), INIT);
    struct ibv_qp_attr attr = {.qp_state = 42};
    CHECK_EQ("7.2", "a state nobody defined is EINVAL", ibv_modify_qp(n->qp, &attr, IBV_QP_STATE), EINVAL);
    attr = good_values(n, RTS, RTS);
    fresh_in(n, MOVES(rc), RTS);
    attr.cur_qp_state = INIT;
    CHECK_EQ("7.2", "a current state other than the real one is EINVAL",
             ibv_modify_qp(n->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
    CHECK_EQ("7.2", "and nothing changed", state_of(n->qp), RTS);
}

// A device without path migration: whatever the table allows, an alternate path is refused with everything beside it, and so is a
// migration that would need one.
static void alternate_paths_are_refused(struct node *n)
{
    static const struct {
        enum ibv_qp_state from, to;
    } moves[] = {{INIT, RTR}, {RTR, RTS}, {RTS, RTS}, {SQD, SQD}, {SQD, RTS}};
    static const enum ibv_mig_state wrong[] = {IBV_MIG_REARM, IBV_MIG_ARMED};
    n->type = IBV_QPT_RC;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        enum ibv_qp_state from = moves[i].from, to = moves[i].to;
        const struct move *m = find(MOVES(rc), from, to);
        int required = m->required;
        fresh_in(n, MOVES(rc), from);
        struct ibv_qp_attr attr = good_values(n, from, to), known;
        struct ibv_qp_init_attr init;
        attr.alt_ah_attr = attr.ah_attr;
        attr.alt_port_num = PORT;
        attr.alt_timeout = 14;
        attr.qp_access_flags = 0;
        CHECK_EQ("7.2", "an alternate path is EINVAL",
                 ibv_modify_qp(n->qp, &attr, IBV_QP_STATE | required | ALT | ACCESS), EINVAL);
        CHECK_EQ("7.2", "and the state is what it was", state_of(n->qp), from);
        for (int w = 0; w < 2 && m->optional & MIG; w++) {
            attr.path_mig_state = wrong[w];
            CHECK_EQ("7.2", "a migration that needs one is EINVAL",
                     ibv_modify_qp(n->qp, &attr, IBV_QP_STATE | required | MIG | ACCESS), EINVAL);
            CHECK_EQ("7.2", "and the state is what it was", state_of(n->qp), from);
        }
        REQUIRE(ibv_query_qp(n->qp, &known, (1 << 21) - 1, &init) == 0);
        CHECK_EQ("7.2", "what stood beside it has not changed either", known.qp_access_flags, n->qp_access);
        CHECK("7.2", "no alternate path is known, and the queue pair has migrated to the one there is",
              known.alt_port_num == 0 && known.alt_timeout == 0 && known.alt_ah_attr.port_num == 0 &&
                  known.path_mig_state == IBV_MIG_MIGRATED);
        CHECK_EQ("7.2", "without it the move is made, and says that it has migrated where it may",
                 move(n, to, required | (m->optional & MIG)), 0);
        CHECK_EQ("7.2", "and the state is the new one", state_of(n->qp), to);
    }
}

static void what_was_set_can_be_read(struct node *n)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    n->type = IBV_QPT_RC;
    fresh_in(n, MOVES(rc), INIT);
    attr = good_values(n, INIT, RTR);
    attr.rq_psn = 0xff123456;      // masked to 24 bits
    attr.dest_qp_num = 0xfe000007; // likewise
    attr.min_rnr_timer = 0xe0 | 12; // masked to 5 bits
    REQUIRE(ibv_modify_qp(n->qp, &attr, IBV_QP_STATE | find(MOVES(rc), INIT, RTR)->required) == 0);
    attr = good_values(n, RTR, RTS);
    attr.timeout = 11;
    attr.retry_cnt = 3;
    attr.rnr_retry = 2;
    REQUIRE(ibv_modify_qp(n->qp, &attr, IBV_QP_STATE | find(MOVES(rc), RTR, RTS)->required) == 0);
    memset(&attr, 0, sizeof attr);
    CHECK_EQ("7.2", "query_qp returns 0", ibv_query_qp(n->qp, &attr, (1 << 21) - 1, &init), 0);
    CHECK_EQ("7.2", "state", attr.qp_state, RTS);
    CHECK_EQ("7.2", "packet sequence numbers are masked to 24 bits", attr.rq_psn, 0x123456);
    CHECK_EQ("7.2", "queue pair numbers too", attr.dest_qp_num, 7);
    CHECK_EQ("7.2", "path MTU", attr.path_mtu, IBV_MTU_1024);
    CHECK_EQ("7.2", "timeout", attr.timeout, 11);
    CHECK_EQ("7.2", "retry count", attr.retry_cnt, 3);
    CHECK_EQ("7.2", "RNR retry count", attr.rnr_retry, 2);
    CHECK_EQ("7.2", "RNR timer, masked to 5 bits", attr.min_rnr_timer, 12);
    CHECK_EQ("7.2", "access flags", attr.qp_access_flags, n->qp_access);
    CHECK_EQ("7.2", "port", attr.port_num, PORT);
    CHECK_EQ("7.2", "outgoing reads", attr.max_rd_atomic, 4);
    CHECK_EQ("7.2", "incoming reads", attr.max_dest_rd_atomic, 4);
    CHECK("7.2", "destination GID", memcmp(&attr.ah_attr.grh.dgid, &here.gid, sizeof here.gid) == 0);
    CHECK("7.2", "the creation attributes come back too",
          init.send_cq == n->send_cq && init.recv_cq == n->recv_cq && init.qp_type == IBV_QPT_RC &&
              init.cap.max_send_wr >= 32);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    struct node n = open_node();
    here = card_of(&n);
    every_move_of(&n, IBV_QPT_UD, MOVES(ud));
    every_move_of(&n, IBV_QPT_UC, MOVES(uc));
    every_move_of(&n, IBV_QPT_RC, MOVES(rc));
    values_out_of_range_are_refused(&n);
    alternate_paths_are_refused(&n);
    what_was_set_can_be_read(&n);
    close_node(&n);
    return finish_alone();
}
