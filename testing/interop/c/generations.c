// Parent and child use the device before and after a fork, and each ends in order. Made for a leak detector: run under
// AddressSanitizer, neither may have lost track of what the other's generation allocated.
//
// proves: MEM-7

#include "remote.h"

#include <sys/wait.h>

#define LENGTH (16 * PAGE)

static void use_the_device(const char *when)
{
    struct node n = open_node();
    unsigned char *block = NULL;
    CHECK_EQ("generations", "a block is allocated", posix_memalign((void **)&block, PAGE, LENGTH), 0);
    fill(block, LENGTH, 1);
    struct ibv_mr *mr = register_all(&n, block, LENGTH);
    check_adopted(when, block, LENGTH);
    CHECK_EQ(when, "the region is deregistered", ibv_dereg_mr(mr), 0);
    CHECK(when, "and keeps its bytes", filled(block, LENGTH, 1));
    free(block);
    close_node(&n);
}

int main(void)
{
    use_the_device("before the fork");
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(child >= 0);
    use_the_device(child ? "in the parent" : "in the child");
    if (child == 0 && fork() == 0)
        use_the_device("in the grandchild");
    int status = 0;
    while (wait(&status) > 0)
        CHECK_EQ("generations", "a child ends in order, with nothing lost", status, 0);
    return finish_alone();
}
