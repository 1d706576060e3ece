// Members of a multicast group on two hosts. Each gets every datagram once, its own among them, and who has left gets none.
//
//   wire_groups ADDRESS GROUP NAME MEMBERS
//
// Joins GROUP by ADDRESS with two queue pairs, says "joined", and takes part together with all others, numbered from 0 on: member 0,
// which is to be started when the others have joined, sends rounds of numbered datagrams. After the first round every process leaves
// with its second queue pair, and says so in the group. Within a host it may take a moment until a sender knows: member 0 asks until it
// does. The second round goes out from a queue pair that has joined to send only.

#include "rdmacm.h"

#define ROUND 16
#define DEPTH 256
#define MEMBERS_MAX 8
#define HEADER 40

struct word {
    uint32_t member, round, number;
};

enum { SAYS_LEFT = ROUND, SAYS_DONE, WORDS };
// In the place of a round: member 0 asks, and the others answer with twice the question's number, and one more if the queue pair that has left
// does not hear questions any more.
enum { ASKS = 2, ANSWERS };
#define ENOUGH 0x7fffffffu

struct side {
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    struct ibv_ah *ah;
    uint32_t qpn, qkey;
    unsigned char *buffer;
    // How often each word came.
    unsigned seen[MEMBERS_MAX][2][WORDS];
    // The last question, and the last answers.
    uint32_t question, answers[MEMBERS_MAX];
};

static struct sockaddr_storage own, group;

static void address(const char *text, struct sockaddr_storage *into)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found;
    REQUIRE(getaddrinfo(text, NULL, &hints, &found) == 0);
    memcpy(into, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
}

static void post(struct side *side, int slot)
{
    REQUIRE(rdma_post_recv(side->id, (void *)(uintptr_t)slot, side->buffer + slot * 64, 64, side->mr) == 0);
}

static struct side join(uint16_t flags)
{
    struct side side = {.id = make(RDMA_PS_UDP)};
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
    };
    struct rdma_cm_join_mc_attr_ex wanted = {
        .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
        .join_flags = flags,
        .addr = SA(group),
    };
    REQUIRE(rdma_bind_addr(side.id, SA(own)) == 0);
    REQUIRE(rdma_create_qp(side.id, NULL, &init) == 0);
    REQUIRE(side.buffer = calloc(DEPTH + 1, 64));
    REQUIRE(side.mr = rdma_reg_msgs(side.id, side.buffer, (DEPTH + 1) * 64));
    for (int slot = 0; slot < DEPTH; slot++)
        post(&side, slot);
    REQUIRE(rdma_join_multicast_ex(side.id, &wanted, &side) == 0);
    struct rdma_cm_event *event = next(RDMA_CM_EVENT_MULTICAST_JOIN);
    REQUIRE(event->param.ud.private_data == (void *)&side);
    REQUIRE(event->param.ud.qp_num == 0xffffff && event->param.ud.qkey == RDMA_UDP_QKEY);
    REQUIRE(side.ah = ibv_create_ah(side.id->pd, &event->param.ud.ah_attr));
    side.qpn = event->param.ud.qp_num;
    side.qkey = event->param.ud.qkey;
    REQUIRE(rdma_ack_cm_event(event) == 0);
    return side;
}

static void say(struct side *side, struct word word)
{
    struct ibv_wc wc;
    unsigned char *place = side->buffer + DEPTH * 64;
    memcpy(place, &word, sizeof word);
    REQUIRE(rdma_post_ud_send(side->id, NULL, place, sizeof word, side->mr, IBV_SEND_SIGNALED, side->ah, side->qpn) == 0);
    int64_t until = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    int count;
    while ((count = ibv_poll_cq(side->id->send_cq, 1, &wc)) == 0)
        REQUIRE(now_ns() < until);
    REQUIRE(count == 1 && wc.status == IBV_WC_SUCCESS);
}

// Takes what has come.
static void take_what_came(struct side *side)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(side->id->recv_cq, 1, &wc) == 1) {
        struct word word;
        REQUIRE(wc.status == IBV_WC_SUCCESS && wc.byte_len == HEADER + sizeof word && wc.wc_flags & IBV_WC_GRH);
        memcpy(&word, side->buffer + wc.wr_id * 64 + HEADER, sizeof word);
        REQUIRE(word.member < MEMBERS_MAX && word.round <= ANSWERS);
        if (word.round == ASKS) {
            side->question = word.number;
        } else if (word.round == ANSWERS) {
            side->answers[word.member] = word.number;
        } else {
            REQUIRE(word.number < WORDS);
            side->seen[word.member][word.round][word.number]++;
        }
        post(side, (int)wc.wr_id);
    }
}

static void wait_for(struct side *side, unsigned member, int round, int number)
{
    int64_t until = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (!side->seen[member][round][number]) {
        take_what_came(side);
        if (now_ns() > until)
            printf("of member %u word %d of round %d does not come\n", member, number, round);
        REQUIRE(now_ns() < until);
        sched_yield();
    }
}

static bool has_once(struct side *side, int round)
{
    for (int number = 0; number < ROUND; number++)
        if (side->seen[0][round][number] != 1) {
            printf("word %d of round %d came %u times\n", number, round, side->seen[0][round][number]);
            return false;
        }
    return true;
}

// What member 0 has said.
static unsigned heard(struct side *side, int round)
{
    unsigned sum = 0;
    for (int number = 0; number < WORDS; number++)
        sum += side->seen[0][round][number];
    return sum;
}

// Until no process hears member 0 by a queue pair that has left. Questions and their answers go one after the other.
static void until_all_know(struct side *stays, struct side *leaves, unsigned name, unsigned members)
{
    int64_t until = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    bool all_know = false;
    for (uint32_t asked = 1;; asked++) {
        if (name == 0)
            say(stays, (struct word){0, ASKS, all_know ? ENOUGH : asked});
        while (stays->question < asked) {
            take_what_came(stays);
            REQUIRE(now_ns() < until);
            sched_yield();
        }
        if (stays->question == ENOUGH)
            return;
        // What was sent to it before this question is there.
        take_what_came(leaves);
        say(stays, (struct word){name, ANSWERS, 2 * asked + (asked > 1 && leaves->question < asked - 1)});
        all_know = name == 0;
        for (unsigned member = 0; name == 0 && member < members; member++) {
            while (stays->answers[member] < 2 * asked) {
                take_what_came(stays);
                REQUIRE(now_ns() < until);
                sched_yield();
            }
            all_know = all_know && stays->answers[member] % 2;
        }
    }
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 5);
    unsigned name = (unsigned)atoi(argv[3]), members = (unsigned)atoi(argv[4]);
    REQUIRE(name < members && members <= MEMBERS_MAX);
    address(argv[1], &own);
    address(argv[2], &group);
    REQUIRE(channel = rdma_create_event_channel());
    struct side stays = join(RDMA_MC_JOIN_FLAG_FULLMEMBER), leaves = join(RDMA_MC_JOIN_FLAG_FULLMEMBER);
    struct side only_sends = join(RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
    printf("joined\n");
    fflush(stdout);

    for (uint32_t number = 0; name == 0 && number < ROUND; number++)
        say(&stays, (struct word){0, 0, number});
    wait_for(&stays, 0, 0, ROUND - 1);
    wait_for(&leaves, 0, 0, ROUND - 1);
    CHECK("8", "a member gets each datagram once", has_once(&stays, 0));
    CHECK("8", "so does another of the same process", has_once(&leaves, 0));

    REQUIRE(rdma_leave_multicast(leaves.id, SA(group)) == 0);
    say(&stays, (struct word){name, 0, SAYS_LEFT});
    for (unsigned member = 0; member < members; member++)
        wait_for(&stays, member, 0, SAYS_LEFT);
    until_all_know(&stays, &leaves, name, members);
    for (uint32_t number = 0; name == 0 && number < ROUND; number++)
        say(&only_sends, (struct word){0, 1, number});
    wait_for(&stays, 0, 1, ROUND - 1);
    CHECK("8", "a member gets once what somebody sends that only sends", has_once(&stays, 1));
    say(&stays, (struct word){name, 1, SAYS_DONE});
    for (unsigned member = 0; member < members; member++)
        wait_for(&stays, member, 1, SAYS_DONE);
    take_what_came(&leaves);
    take_what_came(&only_sends);
    CHECK("8", "who has left gets nothing", heard(&leaves, 1) == 0);
    CHECK("8", "who only sends gets nothing", heard(&only_sends, 0) + heard(&only_sends, 1) == 0);
    bool once = true;
    for (unsigned member = 0; member < members; member++)
        once = once && stays.seen[member][0][SAYS_LEFT] == 1 && stays.seen[member][1][SAYS_DONE] == 1;
    CHECK("8", "what members say is heard once, one's own too", once);
    return end();
}
