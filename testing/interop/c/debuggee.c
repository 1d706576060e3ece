// A program with registered memory for debuggers, checkers and core dumps to look at.
//
// Usage: debuggee MODE
//     plain           registers heap memory, has it written and read by a peer, deregisters it, ends
//     stop            also calls `look_here(message, length)` while it is registered; a debugger is expected to change the
//                     byte at 100 to '!' there
//     crash           aborts while it is registered; `message` then says what the peer wrote
//     overflow        writes one byte behind a registered block
//     use-after-free  writes a byte of a block freed after its deregistration
//
// proves: MEM-7

#include "remote.h"

#define LENGTH (5 * PAGE)

static const char *mode;
static volatile char *volatile stale; // what the compiler does not see through

// Where a debugger stops; nothing may be optimised away.
__attribute__((noinline)) void look_here(volatile char *message, size_t length)
{
    __asm__ volatile("" : : "r"(message), "r"(length) : "memory");
}

static bool mode_is(const char *name) { return strcmp(mode, name) == 0; }

static void program(struct node *n)
{
    // Not from the start of a page, as malloc gives it.
    char *block = malloc(LENGTH), *message = block + 3 * PAGE / 2;
    REQUIRE(block);
    stale = block;
    memset(block, 'p', LENGTH);
    struct ibv_mr *mr = register_all(n, block, LENGTH);
    check_adopted("debuggee", block, LENGTH);
    CHECK_EQ("debuggee", "the peer writes", peer_writes(n, mr, message, 1024, 3), IBV_WC_SUCCESS);
    CHECK("debuggee", "and the program sees it", filled(message, 1024, 3));
    fill(message, 1024, 4);
    CHECK("debuggee", "the peer reads what the program writes", peer_reads(n, mr, message, 1024, 4));
    CHECK_EQ("debuggee", "the peer writes again", peer_writes(n, mr, message, 1024, 5), IBV_WC_SUCCESS);
    if (mode_is("stop")) {
        look_here(message, 1024);
        CHECK_EQ("debuggee", "the program sees what the debugger wrote", message[100], '!');
        CHECK("debuggee", "and the rest is as before", filled(message, 100, 5) && all_bytes(block, 100, 'p'));
    }
    if (mode_is("crash")) {
        fflush(stdout);
        abort();
    }
    if (mode_is("overflow"))
        ((volatile char *)block)[LENGTH] = 1;
    CHECK_EQ("debuggee", "the region is deregistered", ibv_dereg_mr(mr), 0);
    check_private("debuggee", block, LENGTH);
    CHECK("debuggee", "and keeps its bytes", filled(message, 100, 5) && all_bytes(block, 100, 'p'));
    free(block);
    if (mode_is("use-after-free"))
        stale[10] = 1;
}

int main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "plain";
    return with_a_peer(program);
}
