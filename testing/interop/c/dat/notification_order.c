// The order in which who waits on one notification object learns of the two queues of an endpoint. Old programs wait there for
// the completion of their own send, and take it for granted that it shows before a message that the peer sent afterwards: a
// card acknowledges what has arrived before it sends anything else, whether or not its program looks.
//
// Usage: notification_order [ROUNDS]

#include "ends.h"

static DAT_CNO_HANDLE object[2]; // of the near end, of the far one
static volatile int *ready;      // both ends are, in this round

static int64_t notify(struct end *e, const int64_t *a)
{
    (void)a;
    DAT_CNO_HANDLE *cno = &object[e != near];
    MUST(dat_cno_create(e->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno));
    MUST(dat_evd_modify_cno(e->receives, *cno));
    MUST(dat_evd_modify_cno(e->requests, *cno));
    return 0;
}

static int64_t ignore(struct end *e, const int64_t *a)
{
    (void)a;
    MUST(dat_evd_modify_cno(e->receives, DAT_HANDLE_NULL));
    MUST(dat_evd_modify_cno(e->requests, DAT_HANDLE_NULL));
    MUST(dat_cno_free(object[e != near]));
    return 0;
}

static int64_t post(struct end *e, const int64_t *a)
{
    (void)a;
    DAT_LMR_TRIPLET p = piece(e->local, e->room, 64);
    MUST(dat_ep_post_send(e->ep, 1, &p, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    return 0;
}

// Waits for the event of one queue. Whether another was named before it.
static int64_t another_first(struct end *e, DAT_EVD_HANDLE wanted)
{
    DAT_EVD_HANDLE named = DAT_HANDLE_NULL;
    MUST(dat_cno_wait(object[e != near], PATIENCE, &named));
    struct done d = next_done(wanted);
    REQUIRE(d.status == DAT_DTO_SUCCESS);
    return named != wanted;
}

// First the send's event, then the message's; or the other way round.
static int64_t send_first(struct end *e, const int64_t *a)
{
    (void)a;
    int64_t wrong = another_first(e, e->requests);
    return wrong | another_first(e, e->receives);
}

static int64_t message_first(struct end *e, const int64_t *a)
{
    (void)a;
    int64_t wrong = another_first(e, e->receives);
    return wrong | another_first(e, e->requests);
}

static int64_t at_once(struct end *e, const int64_t *a)
{
    __atomic_add_fetch(ready, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(ready, __ATOMIC_SEQ_CST) < 2 * a[0])
        ;
    CALL(e, post);
    return send_first(e, NULL);
}

static int64_t replies(struct end *e, const int64_t *a)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < a[0]; i++) {
        wrong += another_first(e, e->receives);
        CALL(e, receive, PAGE, 64, 1);
        CALL(e, post);
        wrong += another_first(e, e->requests);
    }
    return wrong;
}

// The peer sends without having looked at anything since the own message.
static void unseen(int rounds)
{
    chapter("a message that was sent afterwards");
    int64_t wrong = 0, wrong_there = 0;
    for (int i = 0; i < rounds; i++) {
        REQUIRE(CALL(near, receive, PAGE, 64, 1) == 0 && at_far(receive, PAGE, 64, 1) == 0);
        CALL(near, post);
        at_far(post);
        wrong += CALL(near, send_first);
        wrong_there += at_far(message_first);
    }
    CHECK_EQ("cno", "the own send is told before it", wrong, 0);
    CHECK_EQ("cno", "... and who sent it hears first what was there before", wrong_there, 0);
}

static void dialogue(int rounds)
{
    chapter("messages in turn");
    int64_t wrong = 0;
    REQUIRE(CALL(near, receive, PAGE, 64, 1) == 0 && at_far(receive, PAGE, 64, 1) == 0);
    far_begins(replies, rounds);
    for (int i = 0; i < rounds; i++) {
        CALL(near, post);
        wrong += another_first(near, near->requests);
        wrong += another_first(near, near->receives);
        CALL(near, receive, PAGE, 64, 1);
    }
    int64_t wrong_there = far_ends();
    CHECK_EQ("cno", "a send is told before what answers it", wrong, 0);
    CHECK_EQ("cno", "... and before what comes after the answer", wrong_there, 0);
}

// Here nothing can be promised, as with two cards.
static void at_the_same_time(int rounds)
{
    chapter("messages at the same time");
    int64_t other = 0, other_there = 0;
    for (int i = 1; i <= rounds; i++) {
        REQUIRE(CALL(near, receive, PAGE, 64, 1) == 0 && at_far(receive, PAGE, 64, 1) == 0);
        far_begins(at_once, i);
        other += CALL(near, at_once, i);
        other_there += far_ends();
    }
    printf("  the message was told first %lld and %lld times of %d\n", (long long)other, (long long)other_there, rounds);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 1000;
    ready = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(ready != MAP_FAILED);
    begin(argc, argv);
    connect_ends();
    // Whose process the peer is has to be known on both sides: until then a message may lie where nobody looks yet.
    REQUIRE(talks());
    REQUIRE(CALL(near, notify) == 0 && at_far(notify) == 0);
    unseen(rounds);
    if (!alone) {
        dialogue(rounds);
        at_the_same_time(rounds);
    }
    at_far(ignore);
    CALL(near, ignore);
    part();
    return end();
}
