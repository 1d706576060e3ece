// Programs that call exit() in a signal handler, at any moment: whatever the interrupted thread holds, each ends soon. And
// what a program sent before it exits in order has arrived.
//
// Usage: exits COUNT SEED

#include "own_pair.h"

#include <pthread.h>
#include <sys/time.h>

// An exit may wait for a moment for what its peers should know, and a loaded machine takes its own time. One that hangs, hangs
// for ever.
#define SOON_MS 30000

enum work { POLLING, WRITING, WAITING, REGISTERING, CREATING, KINDS };

static const char *const names[KINDS] = {"polling", "writing", "waiting", "registering", "creating"};

static void leave(int signal)
{
    (void)signal;
    exit(0);
}

static void *poll_beside(void *unused)
{
    (void)unused;
    struct ibv_wc wc;
    for (;;)
        ibv_poll_cq(cq, 1, &wc);
    return NULL;
}

// Works until it is interrupted for ever. With `beside` another thread polls, so that either may be interrupted.
static void work(enum work kind, bool beside, uint32_t until_us)
{
    struct ibv_qp *pair[2];
    struct ibv_wc wc;
    pthread_t thread;
    context = open_device();
    REQUIRE(pd = ibv_alloc_pd(context));
    REQUIRE(channel = ibv_create_comp_channel(context));
    REQUIRE(cq = ibv_create_cq(context, 64, NULL, channel, 0));
    REQUIRE(posix_memalign((void **)&buffer, 4096, 65536) == 0);
    REQUIRE(mr = ibv_reg_mr(pd, buffer, 65536, ALL_REMOTE));
    REQUIRE((pair[0] = new_qp(NULL)) && (pair[1] = new_qp(NULL)));
    connect_to(pair[0], pair[1]);
    connect_to(pair[1], pair[0]);
    if (beside)
        REQUIRE(pthread_create(&thread, NULL, poll_beside, NULL) == 0);
    struct itimerval timer = {.it_value = {.tv_sec = 0, .tv_usec = until_us}};
    signal(SIGALRM, leave);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (uint64_t i = 0;; i++) {
        switch (kind) {
        case POLLING:
            ibv_poll_cq(cq, 1, &wc);
            break;
        case WRITING:
            if (post(pair[0], i, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, piece(buffer, 64, mr->lkey),
                     (uintptr_t)buffer + 4096, mr->rkey) == 0)
                while (!beside && ibv_poll_cq(cq, 1, &wc) == 0)
                    ;
            if (i % 3 == 0 && post_receive(pair[1], i, piece(buffer, 64, mr->lkey)) == 0)
                post(pair[0], i, IBV_WR_SEND, piece(buffer, 64, mr->lkey), 0, 0);
            break;
        case WAITING: {
            struct ibv_cq *which;
            void *unused;
            ibv_req_notify_cq(cq, 0);
            ibv_get_cq_event(channel, &which, &unused);
            break;
        }
        case REGISTERING: {
            struct ibv_mr *more = ibv_reg_mr(pd, buffer, 65536, ALL_REMOTE);
            if (more)
                ibv_dereg_mr(more);
            break;
        }
        default: {
            struct ibv_qp *more = new_qp(NULL);
            if (more)
                ibv_destroy_qp(more);
        }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: exits COUNT SEED\n");
        return 2;
    }
    int count = atoi(argv[1]), late = 0, bad = 0;
    srandom(strtoul(argv[2], NULL, 0));
    setvbuf(stdout, NULL, _IOLBF, 0);
    self.active = true;
    int64_t longest = 0;
    for (int i = 0; i < count; i++) {
        enum work kind = i % KINDS;
        bool beside = i / KINDS % 2;
        uint32_t until_us = 500 + random() % 4000;
        int ready[2];
        REQUIRE(pipe(ready) == 0);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            close(ready[0]);
            work(kind, beside, until_us);
        }
        close(ready[1]);
        // The last copy of the other end goes with the process. It may take its time until its timer runs.
        struct pollfd p = {.fd = ready[0], .events = POLLIN};
        int64_t began = now_ns();
        bool ended = poll(&p, 1, SOON_MS) == 1;
        int64_t took = (now_ns() - began) / 1000000;
        longest = took > longest ? took : longest;
        int status = 0;
        if (!ended) {
            printf("FAIL %d: a program that exits while %s%s is still there\n", i, names[kind],
                   beside ? " beside a polling thread" : "");
            late++;
            kill(child, SIGKILL);
        }
        REQUIRE(waitpid(child, &status, 0) == child);
        bad += ended && status != 0;
        close(ready[0]);
    }
    printf("  %d programs left from a signal handler, the slowest after %lld ms\n", count, (long long)longest);
    CHECK_EQ("exit", "every program that exits in a signal handler ends soon", late, 0);
    CHECK_EQ("exit", "and in order", bad, 0);
    return finish_alone();
}
