// Marks, waits and signals: every refusal, and that no word was stored.

#include "far.h"

#define UNMAPPED ((int *)8)
#define HERE 0x100000l
#define THERE 0x200000l
#define READ_ONLY (2 * PAGE) // a page of each side behind two that may be written
#define SELF SCIF_FENCE_INIT_SELF
#define PEER SCIF_FENCE_INIT_PEER
#define LOCAL SCIF_SIGNAL_LOCAL
#define REMOTE SCIF_SIGNAL_REMOTE

static unsigned char *room;

static void windows(void)
{
    REQUIRE(scif_register(epd, room, 2 * PAGE, HERE, BOTH, FIXED) == HERE);
    REQUIRE(scif_register(epd, room + READ_ONLY, PAGE, HERE + READ_ONLY, SCIF_PROT_READ, FIXED) > 0);
    REQUIRE(at_far(FAR_REGISTER, 0, PAGE, THERE, BOTH, FIXED) == THERE);
    REQUIRE(at_far(FAR_REGISTER, PAGE, PAGE, THERE + PAGE, BOTH, FIXED) > 0);
    REQUIRE(at_far(FAR_REGISTER, READ_ONLY, PAGE, THERE + READ_ONLY, SCIF_PROT_READ, FIXED) > 0);
    fill(room, 3 * PAGE, 1);
    FAR_MUST(FAR_FILL, 0, 3 * PAGE, 2);
}

static bool nothing_stored(void)
{
    return filled(room, 3 * PAGE, 1) && at_far(FAR_FILLED, 0, 3 * PAGE, 2) == 1;
}

static void marks(void)
{
    static const int BAD[] = {0, SELF | PEER, 4, 8, SELF | 4, PEER | 8, SELF | LOCAL, PEER | REMOTE, 0x40 | SELF, -1};
    int mark = 4711, other;
    for (unsigned i = 0; i < sizeof BAD / sizeof *BAD; i++)
        CHECK_REFUSED("scif 3.6", "flags that are not exactly one INIT", scif_fence_mark(epd, BAD[i], &mark), EINVAL);
    CHECK_EQ("scif 3.6", "no mark was stored", mark, 4711);
    CHECK_REFUSED("scif 3.6", "a mark nowhere", scif_fence_mark(epd, SELF, NULL), EFAULT);
    CHECK_REFUSED("scif 3.6", "a mark in memory that is not mapped", scif_fence_mark(epd, SELF, UNMAPPED), EFAULT);
    CHECK_REFUSED("scif 3.6", "a mark in the program's text", scif_fence_mark(epd, PEER, (int *)marks), EFAULT);
    CHECK_DONE("scif 3.6", "a mark with nothing started", scif_fence_mark(epd, SELF, &mark), 0);
    CHECK_DONE("scif 3.6", "is waited for", scif_fence_wait(epd, mark), 0);
    CHECK_DONE("scif 3.6", "... twice", scif_fence_wait(epd, mark), 0);
    CHECK_DONE("scif 3.6", "a mark at the peer", scif_fence_mark(epd, PEER, &other), 0);
    CHECK_DONE("scif 3.6", "is waited for", scif_fence_wait(epd, other), 0);
    CHECK_DONE("scif 3.6", "... twice", scif_fence_wait(epd, other), 0);
    CHECK_DONE("scif 3.6", "and the other still", scif_fence_wait(epd, mark), 0);
    CHECK_REFUSED("scif 3.6", "a mark nobody gave", scif_fence_wait(epd, 0x3fffffff), EINVAL);
    CHECK_DONE("scif 3.6", "many marks", scif_fence_mark(epd, SELF, &mark), 0);
    int wrong = 0;
    for (int i = 0; i < 5000; i++) {
        wrong += scif_vwriteto(epd, room, 64, THERE + 1024, 0) != 0;
        wrong += scif_fence_mark(epd, i % 2 ? SELF : PEER, &mark) != 0;
        wrong += i % 7 == 0 && scif_fence_wait(epd, mark) != 0;
    }
    wrong += scif_fence_wait(epd, mark) != 0;
    CHECK_EQ("scif 3.6", "... between many transfers", wrong, 0);
    FAR_MUST(FAR_FILL, 0, 3 * PAGE, 2);
}

static void refused_signals(void)
{
    static const int BAD[] = {0, SELF, PEER, LOCAL, LOCAL | REMOTE, SELF | PEER | LOCAL, SELF | LOCAL | 4,
                              PEER | REMOTE | 8, SELF | LOCAL | 0x40, -1};
    for (unsigned i = 0; i < sizeof BAD / sizeof *BAD; i++)
        CHECK_REFUSED("scif 3.6", "flags that are not one INIT and a SIGNAL",
                      scif_fence_signal(epd, HERE, 1, THERE, 2, BAD[i]), EINVAL);
    static const int INIT[] = {SELF, PEER};
    for (int i = 0; i < 2; i++) {
        int local = INIT[i] | LOCAL, remote = INIT[i] | REMOTE, both = local | REMOTE;
        CHECK_REFUSED("scif 3.6", "a local word out of line", scif_fence_signal(epd, HERE + 2, 1, 0, 0, local), EINVAL);
        CHECK_REFUSED("scif 3.6", "a remote word out of line", scif_fence_signal(epd, 0, 0, THERE + 1, 1, remote),
                      EINVAL);
        CHECK_REFUSED("scif 3.6", "one of two out of line", scif_fence_signal(epd, HERE, 1, THERE + 3, 1, both), EINVAL);
        CHECK_REFUSED("scif 3.6", "no local window", scif_fence_signal(epd, 0x900000, 1, 0, 0, local), ENXIO);
        CHECK_REFUSED("scif 3.6", "no remote window", scif_fence_signal(epd, 0, 0, 0x900000, 1, remote), ENXIO);
        CHECK_REFUSED("scif 3.6", "one of two in no window", scif_fence_signal(epd, HERE, 1, 0x900000, 1, both), ENXIO);
        CHECK_REFUSED("scif 3.6", "the other of two", scif_fence_signal(epd, 0x900000, 1, THERE, 1, both), ENXIO);
        CHECK_REFUSED("scif 3.6", "a negative local offset", scif_fence_signal(epd, -8, 1, 0, 0, local), ENXIO);
        CHECK_REFUSED("scif 3.6", "a negative remote offset", scif_fence_signal(epd, 0, 0, -8, 1, remote), ENXIO);
        CHECK_REFUSED("scif 3.6", "a word half behind the window",
                      scif_fence_signal(epd, HERE + 3 * PAGE - 4, 1, 0, 0, local), ENXIO);
        CHECK_REFUSED("scif 3.6", "a word in two windows",
                      scif_fence_signal(epd, 0, 0, THERE + PAGE - 4, 1, remote), ENXIO);
        CHECK_REFUSED("scif 3.6", "the last offset", scif_fence_signal(epd, 0, 0, INT64_MAX - 3, 1, remote), ENXIO);
        CHECK_REFUSED("SCIF-9", "a local window not to be written",
                      scif_fence_signal(epd, HERE + READ_ONLY, 1, 0, 0, local), EACCES);
        CHECK_REFUSED("SCIF-9", "a remote window not to be written",
                      scif_fence_signal(epd, 0, 0, THERE + READ_ONLY, 1, remote), EACCES);
    }
    CHECK("scif 3.6", "no word was stored", nothing_stored());
}

static uint64_t word_at(size_t at)
{
    uint64_t word;
    memcpy(&word, room + at, 8);
    return word;
}

// Until the word has come, at this end or the other.
static bool comes(size_t at, uint64_t wanted, bool there)
{
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while ((there ? (uint64_t)at_far(FAR_WORD, (int64_t)at) : word_at(at)) != wanted) {
        if (now_ns() > deadline)
            return false;
        sched_yield();
    }
    return true;
}

static void signals(void)
{
    static const int INIT[] = {SELF, PEER};
    for (int i = 0; i < 2; i++) {
        uint64_t value = 0x1122334455667700u + i;
        size_t at = 64 * (i + 1);
        CHECK_DONE("scif 3.6", "a local word", scif_fence_signal(epd, HERE + at, value, -3, 9, INIT[i] | LOCAL), 0);
        CHECK("scif 3.6", "... is stored", comes(at, value, false));
        CHECK_DONE("scif 3.6", "a remote word", scif_fence_signal(epd, -3, 9, THERE + at, value, INIT[i] | REMOTE), 0);
        CHECK("scif 3.6", "... is stored", comes(at, value, true));
        CHECK_DONE("scif 3.6", "both", scif_fence_signal(epd, HERE + at + 8, value + 8, THERE + at + 8, value + 9,
                                                         INIT[i] | LOCAL | REMOTE), 0);
        CHECK("scif 3.6", "... are stored", comes(at + 8, value + 8, false) && comes(at + 8, value + 9, true));
        CHECK_DONE("scif 3.6", "in the middle of a word", scif_fence_signal(epd, 0, 0, THERE + at + 20, value,
                                                                            INIT[i] | REMOTE), 0);
        CHECK("scif 3.6", "... 8 bytes are stored", comes(at + 20, value, true));
        CHECK_DONE("scif 3.6", "the last word of a window",
                   scif_fence_signal(epd, 0, 0, THERE + PAGE - 8, value, INIT[i] | REMOTE), 0);
        CHECK("scif 3.6", "... is stored", comes(PAGE - 8, value, true));
    }
    CHECK("scif 3.6", "and nothing beside them", room[63] == pattern_byte(63, 1) && room[80] == pattern_byte(80, 1) &&
                                                     room[160] == pattern_byte(160, 1));
    CHECK_EQ("scif 3.6", "... at the far end neither", at_far(FAR_FILLED, 0, 64, 2), 1);
}

// Who sees the value sees the bytes of the transfers before it, long ones too. The window of the word goes at once.
static void order(void)
{
    size_t length = 1 << 20;
    unsigned char *own = fresh_pages(NULL, length);
    int too_early = 0, wrong = 0, mark;
    REQUIRE(scif_register(epd, own, length, 0, BOTH, 0) == TOP);
    REQUIRE(at_far(FAR_REGISTER, 16 * PAGE, length, 0, BOTH, 0) == TOP);
    for (unsigned round = 1; round <= 12; round++) {
        FAR_MUST(FAR_FILL, 16 * PAGE, length, round);
        wrong += scif_readfrom(epd, TOP, length, TOP, 0) != 0;
        wrong += scif_fence_signal(epd, HERE + 8, 0x5000 + round, 0, 0, SELF | LOCAL) != 0;
        wrong += !comes(8, 0x5000 + round, false);
        too_early += !filled(own, length, round);

        fill(own, length, 100 + round);
        wrong += scif_writeto(epd, TOP, length, TOP, 0) != 0;
        wrong += scif_fence_signal(epd, 0, 0, THERE + 8, 0x6000 + round, SELF | REMOTE) != 0;
        wrong += !comes(8, 0x6000 + round, true);
        too_early += at_far(FAR_FILLED, 16 * PAGE, length, 100 + round) != 1;

        // What the far end has started; its program waits for the next step and does nothing.
        FAR_MUST(FAR_FILL, 16 * PAGE, length, 200 + round);
        wrong += at_far(FAR_WRITE, TOP, length, TOP, 0) != 0;
        wrong += scif_fence_mark(epd, PEER, &mark) != 0 || scif_fence_wait(epd, mark) != 0;
        too_early += !filled(own, length, 200 + round);
        FAR_MUST(FAR_FILL, 16 * PAGE, length, 300 + round);
        wrong += at_far(FAR_WRITE, TOP, length, TOP, 0) != 0;
        wrong += scif_fence_signal(epd, HERE + 16, 0x7000 + round, 0, 0, PEER | LOCAL) != 0;
        wrong += !comes(16, 0x7000 + round, false);
        too_early += !filled(own, length, 300 + round);
    }
    CHECK_EQ("scif 3.6", "every transfer, mark and signal is taken", wrong, 0);
    CHECK_EQ("scif 3.6", "no value comes before the bytes of the transfers before it", too_early, 0);
    CHECK_DONE("scif 3.6", "a long transfer", scif_readfrom(epd, TOP, length, TOP, 0), 0);
    CHECK_DONE("scif 3.6", "a signal behind it", scif_fence_signal(epd, HERE + PAGE, 0x77, 0, 0, SELF | LOCAL), 0);
    CHECK_DONE("scif 3.6", "the signal's window closed at once", scif_unregister(epd, HERE, 2 * PAGE), 0);
    CHECK_DONE("scif 3.6", "and the transfer's", scif_unregister(epd, TOP, length), 0);
    CHECK("scif 3.6", "both stay until the value is stored", comes(PAGE, 0x77, false));
    CHECK("scif 3.6", "... behind the bytes", filled(own, length, 312));
    FAR_MUST(FAR_UNREGISTER, TOP, length);
    munmap(own, length);
}

static void states(void)
{
    scif_epd_t e = scif_open();
    int mark = 4711;
    for (int bound = 0; bound < 2; bound++) {
        CHECK_REFUSED("scif 3.6", "mark unconnected", scif_fence_mark(e, SELF, &mark), ENOTCONN);
        CHECK_REFUSED("scif 3.6", "wait unconnected", scif_fence_wait(e, 1), ENOTCONN);
        CHECK_REFUSED("scif 3.6", "signal unconnected", scif_fence_signal(e, 0, 0, 0, 0, SELF | LOCAL), ENOTCONN);
        REQUIRE(bound || scif_bind(e, 0) > 0);
    }
    scif_close(e);
    FAR_MUST(FAR_CLOSE);
    REQUIRE(ready(epd, 0, PATIENCE_MS) & POLLHUP);
    CHECK_REFUSED("scif 3.6", "mark after the peer closed", scif_fence_mark(epd, SELF, &mark), ECONNRESET);
    CHECK_REFUSED("scif 3.6", "... at the peer", scif_fence_mark(epd, PEER, &mark), ECONNRESET);
    CHECK_REFUSED("scif 3.6", "wait after it", scif_fence_wait(epd, 1), ECONNRESET);
    CHECK_REFUSED("scif 3.6", "signal after it", scif_fence_signal(epd, HERE, 1, 0, 0, SELF | LOCAL), ECONNRESET);
    CHECK_EQ("scif 3.6", "no mark was stored", mark, 4711);
    scif_close(epd);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    room = near_room;
    connect_ends();
    windows();
    marks();
    refused_signals();
    signals();
    order();
    CHECK("scif 3.6", "the connection works after every refusal", talks());
    states();
    return end();
}
