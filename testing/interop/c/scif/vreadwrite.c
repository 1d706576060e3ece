// Reads and writes between plain memory and the peer's window: heap, stack and static memory, by two clients.

#include "pair.h"

#define LENGTH (8 * PAGE)
#define WRITTEN (4 * PAGE)

static const int FLAGS[] = {
    0, SCIF_RMA_SYNC, SCIF_RMA_USECPU, SCIF_RMA_USECPU | SCIF_RMA_SYNC, SCIF_RMA_SYNC | SCIF_RMA_USECACHE,
    SCIF_RMA_ORDERED | SCIF_RMA_SYNC,
};
#define COUNT (int)(sizeof FLAGS / sizeof *FLAGS)

// The window's first half is read, its second half written.
static void one_round(scif_epd_t epd, unsigned char *buffer, unsigned char *plain, off_t there, int round, unsigned own,
                      unsigned theirs)
{
    int flags = FLAGS[round % COUNT];
    size_t at = 7 * (size_t)round, length = round % 4 == 3 ? 8 : 2 * PAGE + 100;
    memset(buffer, 0, LENGTH);
    fill(buffer + at, length, own);
    barrier(epd);
    // Once as registered: the flag asks to remember the pages, and nobody may notice.
    for (int turn = 0; turn < 2; turn++) {
        memset(plain, 0, 3 * PAGE);
        MUST(scif_vreadfrom(epd, plain, length, there + at, flags));
        if (!(flags & SCIF_RMA_SYNC)) {
            int mark;
            MUST(scif_fence_mark(epd, SCIF_FENCE_INIT_SELF, &mark));
            MUST(scif_fence_wait(epd, mark));
        }
        HOLDS(filled(plain, length, theirs) && plain[length] == 0);
    }
    fill(plain, length, own + 50);
    MUST(scif_vwriteto(epd, plain, length, there + WRITTEN + at, flags));
    barrier(epd);
    HOLDS(filled(buffer + WRITTEN + at, length, theirs + 50));
    HOLDS(buffer[WRITTEN + at - 1] == 0 && buffer[WRITTEN + at + length] == 0);
    HOLDS(filled(buffer + at, length, own));
    barrier(epd);
}

static void all_rounds(scif_epd_t epd, unsigned own, unsigned theirs)
{
    static _Thread_local unsigned char fixed[3 * PAGE];
    unsigned char stack[3 * PAGE];
    unsigned char *heap = malloc(3 * PAGE + 3), *buffer = heap_pages(LENGTH / PAGE);
    off_t here = MUST(scif_register(epd, buffer, LENGTH, 0, SCIF_PROT_READ | SCIF_PROT_WRITE, 0));
    off_t there = exchange(epd, here);
    for (int round = 0; round < 2 * COUNT; round++) {
        one_round(epd, buffer, heap + 3, there, round, own, theirs);
        one_round(epd, buffer, stack, there, round, own, theirs);
        one_round(epd, buffer, fixed, there, round, own, theirs);
    }
    // Memory that comes to an address that was used before is other memory.
    unsigned char *mapped = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(mapped != MAP_FAILED);
    for (int turn = 0; turn < 2; turn++) {
        one_round(epd, buffer, mapped, there, 4, own, theirs);
        HOLDS(mmap(mapped, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == mapped);
        HOLDS(mapped[0] == 0);
    }
    munmap(mapped, 3 * PAGE);
    MUST(scif_unregister(epd, here, LENGTH));
    barrier(epd);
    free(buffer);
    free(heap);
}

static int accepting(struct options *o)
{
    scif_epd_t listener = listen_on(o, 2);
    tell_listening(o);
    for (int i = 0; i < 2; i++) {
        int number;
        scif_epd_t epd = accept_one(listener);
        receive_all(epd, &number, sizeof number);
        all_rounds(epd, 1, 1 + (unsigned)number);
        MUST(scif_close(epd));
    }
    return leave(listener, NULL);
}

static int connecting(struct options *o)
{
    scif_epd_t epd = connect_to(o);
    send_all(epd, &o->number, sizeof o->number);
    all_rounds(epd, 1 + (unsigned)o->number, 1);
    return leave(epd, NULL);
}

int main(int argc, char **argv)
{
    return run_sides(argc, argv, 2, accepting, connecting);
}
