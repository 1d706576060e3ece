// When ibv_open_device returns, the library's thread has all that the C library allocates for it. Open MPI and UCX write over the
// code of munmap once they have a device, to learn of memory that goes: a thread that is inside at that moment, as the allocator
// is when it makes a heap for a new thread, comes back to half an instruction.
//
// The library comes by dlopen, as to them: what is loaded with the program has its variables in every thread from the beginning.
//
// Usage: begun_threads ROUNDS

#include "harness.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <sys/syscall.h>

extern void *__libc_malloc(size_t);

static _Atomic bool opened;
static _Atomic int before, late;

// In front of the C library's.
void *malloc(size_t length)
{
    if (syscall(SYS_gettid) != getpid())
        atomic_fetch_add(opened ? &late : &before, 1);
    return __libc_malloc(length);
}

// What a child that has opened a device ends with.
enum { GOOD, LATE, NEVER };

static int open_one(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    REQUIRE(library);
    struct ibv_device **(*get_device_list)(int *) = dlsym(library, "ibv_get_device_list");
    struct ibv_context *(*open_device)(struct ibv_device *) = dlsym(library, "ibv_open_device");
    int (*close_device)(struct ibv_context *) = dlsym(library, "ibv_close_device");
    REQUIRE(get_device_list && open_device && close_device);
    struct ibv_device **list = get_device_list(NULL);
    REQUIRE(list && list[0]);
    struct ibv_context *context = open_device(list[0]);
    opened = true;
    REQUIRE(context);
    for (int64_t began = now_ns(); !before && !late && now_ns() - began < PATIENCE_MS * 1000000ll;)
        usleep(100);
    REQUIRE(close_device(context) == 0);
    return late ? LATE : before ? GOOD : NEVER;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 50, counts[3] = {0}, others = 0;
    for (int i = 0; i < rounds; i++) {
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0)
            _exit(open_one());
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        if (WIFEXITED(status) && WEXITSTATUS(status) <= NEVER)
            counts[WEXITSTATUS(status)]++;
        else
            others++;
    }
    CHECK_EQ("threads", "every round ends as it should", others, 0);
    CHECK_EQ("threads", "the C library allocates for no thread of the library's when the device is open", counts[LATE], 0);
    CHECK_EQ("threads", "... and did before, so that this would have seen it", counts[GOOD], rounds);
    return finish_alone();
}
