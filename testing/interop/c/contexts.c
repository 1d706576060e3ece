// A program whose own memory only the library's objects lead to when it ends: its leak checker finds it there.

#include "common.h"

static struct ibv_context *device;
static struct ibv_cq *queue;

static __attribute__((noinline)) void create(void)
{
    char *words = malloc(1000);
    strcpy(words, "behind the queue");
    REQUIRE(queue = ibv_create_cq(device, 16, words, NULL, 0));
}

// What the calls left on the stack must not lead to it.
static __attribute__((noinline)) void forget(void)
{
    volatile char stack[1 << 16];
    for (size_t i = 0; i < sizeof stack; i++)
        stack[i] = 0;
}

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    REQUIRE(list && (device = ibv_open_device(list[0])));
    ibv_free_device_list(list);
    create();
    forget();
    CHECK("MEM-7", "a context is what it was", strcmp(queue->cq_context, "behind the queue") == 0);
    return finish_alone();
}
