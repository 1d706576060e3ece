// Memory is registered and deregistered by a program that may have half as much again: a control group counts the pages of the
// file that peers map as well as private ones, and whoever had all of it twice would be killed.
//
//   memory_limit alone|threads
//
// proves: MEM-1

#include "remote.h"

#include <pthread.h>

#define MEMORY (256ul << 20)

static bool threads;

static void *stand_by(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

// One byte of each page, so that the test takes no longer than the kernel.
static void mark(unsigned char *at, unsigned char value)
{
    for (size_t page = 0; page < MEMORY; page += PAGE)
        at[page] = (unsigned char)(value + page / PAGE);
}

static bool marked(const unsigned char *at, unsigned char value)
{
    for (size_t page = 0; page < MEMORY; page += PAGE)
        if (at[page] != (unsigned char)(value + page / PAGE))
            return false;
    return true;
}

static void program(struct node *n)
{
    unsigned char *at = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    pthread_t thread;
    REQUIRE(!threads || pthread_create(&thread, NULL, stand_by, NULL) == 0);
    for (unsigned char turn = 1; turn < 4; turn++) {
        mark(at, turn);
        struct ibv_mr *mr = ibv_reg_mr(n->pd, at, MEMORY, ALL_REMOTE);
        CHECK("limit", "as much as two thirds of what is allowed can be registered", mr != NULL);
        if (!mr)
            return;
        check_adopted("limit", at, MEMORY);
        CHECK("limit", "the bytes from before are there", marked(at, turn));
        unsigned char *last = at + MEMORY - PAGE;
        CHECK_EQ("limit", "the peer writes", peer_writes(n, mr, last, PAGE, 2), IBV_WC_SUCCESS);
        CHECK("limit", "and the program sees it", filled(last, PAGE, 2));
        mark(at, turn);
        CHECK_EQ("limit", "it is deregistered", ibv_dereg_mr(mr), 0);
        check_private("limit", at, MEMORY);
        CHECK("limit", "and keeps its bytes", marked(at, turn));
    }
    REQUIRE(munmap(at, MEMORY) == 0);
}

int main(int count, char **words)
{
    threads = count > 1 && strcmp(words[1], "threads") == 0;
    return with_a_peer(program);
}
