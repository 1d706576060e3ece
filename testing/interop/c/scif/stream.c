// The byte stream: exactly 4095 bytes each way, every refusal of send and receive, and that nothing of it moves a byte.

#include "far.h"

#include <sys/syscall.h>

#define UNMAPPED ((void *)8)
#define HOLDS_MOST 4095

static unsigned char bytes[200000];

// How many bytes the far end has waiting: it takes them.
static int64_t far_has(unsigned seed)
{
    return at_far(FAR_RECV, 100000, seed, 0);
}

static void refusals_before_a_connection(void)
{
    scif_epd_t e = scif_open();
    REQUIRE(e >= 0);
    for (int bound = 0; bound < 2; bound++) {
        CHECK_REFUSED("scif 2.6", "send before a connection", scif_send(e, bytes, 1, 0), ENOTCONN);
        CHECK_REFUSED("scif 2.6", "blocking send before a connection", scif_send(e, bytes, 1, 1), ENOTCONN);
        CHECK_REFUSED("scif 2.6", "receive before a connection", scif_recv(e, bytes, 1, 0), ENOTCONN);
        CHECK_REFUSED("scif 2.6", "blocking receive before a connection", scif_recv(e, bytes, 1, 1), ENOTCONN);
        CHECK_DONE("scif 2.6", "no bytes are sent in any state", scif_send(e, bytes, 0, 1), 0);
        CHECK_DONE("scif 2.6", "no bytes are received in any state", scif_recv(e, bytes, 0, 1), 0);
        CHECK_DONE("scif 2.6", "... whatever the flags", scif_send(e, NULL, 0, 0x40), 0);
        CHECK_DONE("scif 2.6", "... of receive too", scif_recv(e, NULL, 0, 0x40), 0);
        REQUIRE(bound || scif_bind(e, 0) > 0);
    }
    scif_close(e);
}

static void refusals(void)
{
    memset(bytes, 'x', 100);
    CHECK_REFUSED("scif 2.6", "a negative length is not sent", scif_send(epd, bytes, -1, 0), EINVAL);
    CHECK_REFUSED("scif 2.6", "the lowest length is not sent", scif_send(epd, bytes, INT32_MIN, 1), EINVAL);
    CHECK_REFUSED("scif 2.6", "a negative length is not received", scif_recv(epd, bytes, -1, 1), EINVAL);
    CHECK_REFUSED("scif 2.6", "the lowest length is not received", scif_recv(epd, bytes, INT32_MIN, 0), EINVAL);
    CHECK_REFUSED("scif 2.6", "flags without bit 0", scif_send(epd, bytes, 4, 2), EINVAL);
    CHECK_REFUSED("scif 2.6", "... of receive", scif_recv(epd, bytes, 4, 2), EINVAL);
    CHECK_REFUSED("scif 2.6", "... all but bit 0", scif_send(epd, bytes, 4, ~1), EINVAL);
    CHECK_REFUSED("scif 2.6", "send from NULL", scif_send(epd, NULL, 4, 0), EFAULT);
    CHECK_REFUSED("scif 2.6", "blocking send from NULL", scif_send(epd, NULL, 4, 1), EFAULT);
    CHECK_REFUSED("scif 2.6", "send from an address that is not mapped", scif_send(epd, UNMAPPED, 4, 1), EFAULT);
    CHECK_REFUSED("scif 2.6", "send from the kernel's half", scif_send(epd, (void *)-4096l, 4, 1), EFAULT);
    unsigned char *pages = fresh_pages(NULL, 2 * PAGE);
    REQUIRE(munmap(pages + PAGE, PAGE) == 0);
    CHECK_REFUSED("scif 2.6", "send from memory that ends too early", scif_send(epd, pages + PAGE - 2, 4, 1), EFAULT);
    REQUIRE(mprotect(pages, PAGE, PROT_NONE) == 0);
    CHECK_REFUSED("scif 2.6", "send from memory that may not be read", scif_send(epd, pages, 4, 1), EFAULT);
    CHECK_EQ("scif 2.6", "and nothing has arrived", far_has(0), 0);

    REQUIRE(at_far(FAR_SEND, 10, 4, 1) == 10);
    CHECK_REFUSED("scif 2.6", "receive into NULL", scif_recv(epd, NULL, 4, 0), EFAULT);
    CHECK_REFUSED("scif 2.6", "receive into an address that is not mapped", scif_recv(epd, UNMAPPED, 4, 1), EFAULT);
    CHECK_REFUSED("scif 2.6", "receive into memory that may not be touched", scif_recv(epd, pages, 4, 1), EFAULT);
    REQUIRE(mprotect(pages, PAGE, PROT_READ) == 0);
    CHECK_REFUSED("scif 2.6", "receive into memory that may not be written", scif_recv(epd, pages, 4, 1), EFAULT);
    CHECK_REFUSED("scif 2.6", "receive into the program's text", scif_recv(epd, (void *)refusals, 4, 1), EFAULT);
    CHECK_EQ("scif 2.6", "read-only memory can be sent from", scif_send(epd, pages, 4, 1), 4);
    CHECK_EQ("scif 2.6", "... and arrives", at_far(FAR_RECV, 4, 0, 1) != -1, 1);
    REQUIRE(munmap(pages, PAGE) == 0);
    CHECK_EQ("scif 2.6", "after all that the bytes are there", scif_recv(epd, bytes, 100, 0), 10);
    CHECK("scif 2.6", "... unharmed, and no more were written", filled(bytes, 10, 4) && bytes[10] == 'x');
    CHECK_DONE("scif 2.6", "nothing there without BLOCK", scif_recv(epd, bytes, 100, 0), 0);
    CHECK_DONE("scif 2.6", "other flags beside BLOCK are ignored", scif_send(epd, bytes, 10, 0x7f), 10);
    CHECK_EQ("scif 2.6", "... indeed", far_has(4), 10);
}

static void window(void)
{
    fill(bytes, sizeof bytes, 1);
    CHECK_DONE("scif 2.6", "4095 bytes fit with nobody receiving", scif_send(epd, bytes, HOLDS_MOST, 1), HOLDS_MOST);
    CHECK_DONE("scif 2.6", "the next does not", scif_send(epd, bytes, 1, 0), 0);
    CHECK_EQ("scif 2.6", "all of them arrive", far_has(1), HOLDS_MOST);
    CHECK_DONE("scif 2.6", "of 4096 bytes 4095 are taken", scif_send(epd, bytes, HOLDS_MOST + 1, 0), HOLDS_MOST);
    FAR_MUST(FAR_RECV, 1, 1, 1);
    CHECK_DONE("scif 2.6", "one byte received is one byte of room", scif_send(epd, bytes, 4096, 0), 1);
    CHECK_DONE("scif 2.6", "... and no more", scif_send(epd, bytes, 4096, 0), 0);
    unsigned char *all = malloc(2 * HOLDS_MOST);
    REQUIRE(at_far(FAR_RECV, 2 * HOLDS_MOST, 0, 0) != 0);

    // At every place of the ring, all of it.
    int wrong = 0;
    for (int step = 0; step < 300; step++) {
        int length = 1 + step * 97 % HOLDS_MOST;
        fill(bytes, HOLDS_MOST, (unsigned)step);
        wrong += scif_send(epd, bytes, length, 0) != length;
        wrong += at_far(FAR_RECV, length, step, 1) != length;
        wrong += at_far(FAR_SEND, length, step + 1, 0) != length;
        wrong += scif_recv(epd, all, 2 * HOLDS_MOST, 0) != length || !filled(all, length, (unsigned)step + 1);
    }
    CHECK_EQ("scif 2.6", "bytes of every length arrive whole at every place of the ring", wrong, 0);
    free(all);
    CHECK("scif 2.6", "the other direction holds 4095 too", at_far(FAR_SEND, 5000, 2, 0) == HOLDS_MOST);
    CHECK_EQ("scif 2.6", "... and they arrive", scif_recv(epd, bytes, 5000, 0), HOLDS_MOST);
    CHECK("scif 2.6", "... whole", filled(bytes, HOLDS_MOST, 2));
}

struct job {
    pthread_t thread;
    scif_epd_t epd;
    unsigned char *bytes;
    int length, result, error;
    bool receives;
    pid_t id;
};

static void *run_job(void *argument)
{
    struct job *j = argument;
    __atomic_store_n(&j->id, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    errno = 0;
    int result = j->receives ? scif_recv(j->epd, j->bytes, j->length, 1) : scif_send(j->epd, j->bytes, j->length, 1);
    j->error = errno;
    j->result = result;
    return NULL;
}

static void start(struct job *j)
{
    REQUIRE(pthread_create(&j->thread, NULL, run_job, j) == 0);
    while (!__atomic_load_n(&j->id, __ATOMIC_ACQUIRE))
        sched_yield();
}

// A blocking call of a thread waits for exactly what is missing.
static void blocking(void)
{
    struct job send = {.epd = epd, .bytes = bytes, .length = HOLDS_MOST + 1};
    fill(bytes, sizeof bytes, 3);
    start(&send);
    await_asleep(getpid(), send.id);
    FAR_MUST(FAR_RECV, 1, 3, 1);
    pthread_join(send.thread, NULL);
    CHECK_EQ("scif 2.6", "the 4096th byte waits for room", send.result, HOLDS_MOST + 1);
    REQUIRE(at_far(FAR_RECV, HOLDS_MOST, 0, 1) != -1);

    unsigned char *into = malloc(9000);
    struct job receive = {.epd = epd, .bytes = into, .length = 9000, .receives = true};
    start(&receive);
    await_asleep(getpid(), receive.id);
    FAR_MUST(FAR_SEND, 3000, 5, 1);
    await_asleep(getpid(), receive.id);
    FAR_MUST(FAR_SEND, 3000, 6, 1);
    await_asleep(getpid(), receive.id);
    FAR_MUST(FAR_SEND, 3000, 7, 1);
    pthread_join(receive.thread, NULL);
    CHECK_EQ("scif 2.6", "a blocking receive takes all it wants, in pieces", receive.result, 9000);
    CHECK("scif 2.6", "... in order",
          filled(into, 3000, 5) && filled(into + 3000, 3000, 6) && filled(into + 6000, 3000, 7));
    CHECK_EQ("scif 2.7", "nothing is left, and poll says so", ready(epd, POLLIN, 0), 0);

    // A peer that closes ends both; what was moved before counts.
    struct job partly = {.epd = epd, .bytes = into, .length = 9000, .receives = true};
    FAR_MUST(FAR_SEND, 100, 5, 1);
    start(&partly);
    await_asleep(getpid(), partly.id);
    struct job stuck = {.epd = epd, .bytes = bytes, .length = 100000};
    start(&stuck);
    await_asleep(getpid(), stuck.id);
    FAR_MUST(FAR_CLOSE);
    pthread_join(partly.thread, NULL);
    pthread_join(stuck.thread, NULL);
    CHECK_EQ("scif 2.6", "a receive that the peer's close ends gives what came", partly.result, 100);
    CHECK_EQ("scif 2.6", "a send that it ends says what was taken", stuck.result, HOLDS_MOST);
    CHECK_REFUSED("scif 2.6", "then send is reset", scif_send(epd, bytes, 1, 1), ECONNRESET);
    CHECK_REFUSED("scif 2.6", "... without BLOCK too", scif_send(epd, bytes, 1, 0), ECONNRESET);
    CHECK_REFUSED("scif 2.6", "and receive is, never 0", scif_recv(epd, bytes, 1, 1), ECONNRESET);
    CHECK_REFUSED("scif 2.6", "... without BLOCK too", scif_recv(epd, bytes, 1, 0), ECONNRESET);
    CHECK_DONE("scif 2.6", "no bytes are still sent in any state", scif_send(epd, bytes, 0, 0), 0);
    free(into);
    scif_close(epd);
}

// Messages of several threads do not mix.
#define SENDERS 4
#define ROUNDS 30
#define MESSAGE 6000

static scif_epd_t shared;

static void *send_messages(void *argument)
{
    unsigned char *message = malloc(MESSAGE);
    memset(message, (int)(intptr_t)argument, MESSAGE);
    for (int i = 0; i < ROUNDS; i++)
        if (scif_send(shared, message, MESSAGE, 1) != MESSAGE)
            return (void *)1;
    free(message);
    return NULL;
}

static void threads(void)
{
    if (!far.alone)
        return;
    connect_ends();
    shared = epd;
    pthread_t ids[SENDERS];
    for (intptr_t i = 0; i < SENDERS; i++)
        REQUIRE(pthread_create(&ids[i], NULL, send_messages, (void *)(i + 1)) == 0);
    unsigned char *message = malloc(MESSAGE);
    int mixed = 0, counts[SENDERS + 1] = {0};
    for (int i = 0; i < SENDERS * ROUNDS; i++) {
        REQUIRE(scif_recv(far.epd, message, MESSAGE, 1) == MESSAGE);
        for (int at = 1; at < MESSAGE; at++)
            mixed += message[at] != message[0];
        REQUIRE(message[0] >= 1 && message[0] <= SENDERS);
        counts[message[0]]++;
    }
    for (int i = 0; i < SENDERS; i++) {
        void *result;
        pthread_join(ids[i], &result);
        CHECK("scif 2.6", "every thread's messages arrive", result == NULL && counts[i + 1] == ROUNDS);
    }
    CHECK_EQ("scif 2.6", "blocking messages of several threads are not mixed", mixed, 0);
    free(message);
    part();
}

// A fresh endpoint that nobody receives from, until it is full.
static void writable_as_long_as_there_is_room(void)
{
    int sent = 0, writable = 0, count;
    while ((count = scif_send(epd, bytes, 64, 0)) == 64) {
        sent++;
        writable += (ready(epd, SCIF_POLLOUT, 0) & SCIF_POLLOUT) != 0;
    }
    CHECK_EQ("scif 2.7", "an endpoint is writable after each of many messages that nobody takes", writable, sent);
    CHECK_EQ("scif 2.6", "until it is full", sent * 64 + count, HOLDS_MOST);
    CHECK_EQ("scif 2.7", "and then it is not", ready(epd, SCIF_POLLOUT, 0), 0);
    REQUIRE(at_far(FAR_RECV, HOLDS_MOST, -1, 1) != -1);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    refusals_before_a_connection();
    connect_ends();
    writable_as_long_as_there_is_room();
    refusals();
    CHECK("scif 2.6", "the connection works after every refusal", talks());
    window();
    blocking();
    threads();
    return end();
}
