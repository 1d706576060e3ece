// A ring of messages in registered memory: its owner fills it with plain stores, the other side maps it and empties it
// with plain loads. No call is made while they run.

#include "pair.h"

#define SLOTS 63
#define MESSAGES 20000

struct message {
    uint64_t number, sum;
    unsigned char bytes[48];
};

// One cache line for each count; as many slots as fill the page.
struct ring {
    _Alignas(64) uint64_t written;
    _Alignas(64) uint64_t taken;
    _Alignas(64) struct message slots[SLOTS];
};

static uint64_t sum_of(const struct message *m)
{
    uint64_t sum = m->number * 0x9e3779b97f4a7c15u;
    for (unsigned i = 0; i < sizeof m->bytes; i++)
        sum = sum * 31 + m->bytes[i];
    return sum;
}

// Waits until the count is not `old` any more.
static uint64_t other_than(const uint64_t *count, uint64_t old)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    uint64_t now;
    while ((now = __atomic_load_n(count, __ATOMIC_ACQUIRE)) == old) {
        HOLDS(now_ms() < deadline);
        sched_yield();
    }
    return now;
}

static int accepting(struct options *o)
{
    size_t length = (sizeof(struct ring) + PAGE - 1) / PAGE * PAGE;
    struct ring *ring = (struct ring *)heap_pages(length / PAGE);
    scif_epd_t listener = listen_on(o, 1);
    tell_listening(o);
    scif_epd_t epd = accept_one(listener);
    MUST(scif_close(listener));
    off_t at = MUST(scif_register(epd, ring, length, 0, SCIF_PROT_READ | SCIF_PROT_WRITE, 0));
    send_all(epd, &at, sizeof at);
    for (uint64_t number = 0, taken = 0; number < MESSAGES; number++) {
        while (number - taken == SLOTS)
            taken = other_than(&ring->taken, taken);
        struct message *m = &ring->slots[number % SLOTS];
        m->number = number;
        memset(m->bytes, (int)number, sizeof m->bytes);
        m->sum = sum_of(m);
        __atomic_store_n(&ring->written, number + 1, __ATOMIC_RELEASE);
    }
    barrier(epd);
    HOLDS(ring->taken == MESSAGES);
    return leave(epd, ring);
}

static int connecting(struct options *o)
{
    size_t length = (sizeof(struct ring) + PAGE - 1) / PAGE * PAGE;
    scif_epd_t epd = connect_to(o);
    off_t there;
    receive_all(epd, &there, sizeof there);
    struct ring *ring = MUST(scif_mmap(NULL, length, SCIF_PROT_READ | SCIF_PROT_WRITE, 0, epd, there));
    for (uint64_t number = 0, written = 0; number < MESSAGES; number++) {
        if (written == number)
            written = other_than(&ring->written, written);
        HOLDS(written > number && written - number <= SLOTS);
        struct message m = ring->slots[number % SLOTS];
        HOLDS(m.number == number && m.bytes[47] == (unsigned char)number && m.sum == sum_of(&m));
        __atomic_store_n(&ring->taken, number + 1, __ATOMIC_RELEASE);
    }
    barrier(epd);
    MUST(scif_munmap(ring, length));
    return leave(epd, NULL);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 1, accepting, connecting);
}
