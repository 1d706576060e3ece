// Peers that write again and again, for programs that take memory back from them while they do.

#ifndef NONIC_INTEROP_WRITERS_H
#define NONIC_INTEROP_WRITERS_H

#include "remote.h"

#define MIB (1024u * 1024u)
#define LONG (256u * MIB)
#define PEER_BYTE 0xab

// ---- peers --------------------------------------------------------------------------------------------------------

enum task { CONNECT = 1, WRITE_ON, WRITE_MIXED_ON, WRITE_ONCE, END };

struct job {
    enum task task;
    uint32_t rkey;
    uint64_t address, length;
    int byte;
};

// Of the first request that failed, or of the last.
struct report {
    int status;
};

struct peer {
    pid_t pid;
    int line;
};

// Long requests follow each other alone; of mixed ones, which have 8 bytes or all, eight are under way.
static UNUSED struct report write_on(struct node *n, const struct job *job, struct ibv_mr *mr)
{
    struct report report = {IBV_WC_SUCCESS};
    int window = job->task == WRITE_MIXED_ON ? 8 : 1, outstanding = 0;
    uint64_t posted = 0;
    while (report.status == IBV_WC_SUCCESS || outstanding > 0) {
        while (report.status == IBV_WC_SUCCESS && outstanding < window) {
            uint32_t length = job->task == WRITE_MIXED_ON && posted % 2 == 0 ? 8 : (uint32_t)job->length;
            REQUIRE(post(n->qp, posted++, WRITE, piece(mr->addr, length, mr->lkey), job->address, job->rkey) == 0);
            outstanding++;
        }
        int status = next_completion(n->send_cq).status;
        outstanding--;
        if (report.status == IBV_WC_SUCCESS)
            report.status = status;
        if (job->task == WRITE_ONCE)
            break;
    }
    return report;
}

// The whole life of a peer.
static UNUSED void serve_jobs(void)
{
    struct job job;
    struct node n = open_node();
    unsigned char *bytes = map_pages(LONG);
    struct ibv_mr *mr = NULL;
    n.timeout = 10; // 4 ms
    n.retries = 2;
    for (take(&job, sizeof job); job.task != END; take(&job, sizeof job)) {
        if (job.task == CONNECT) {
            bring_up(&n);
            continue;
        }
        if (!mr || mr->length != job.length || bytes[0] != job.byte) {
            if (mr)
                REQUIRE(ibv_dereg_mr(mr) == 0);
            memset(bytes, job.byte, job.length);
            REQUIRE(mr = ibv_reg_mr(n.pd, bytes, job.length, IBV_ACCESS_LOCAL_WRITE));
        }
        struct report report = write_on(&n, &job, mr);
        give(&report, sizeof report);
    }
    _exit(0);
}

// Before this process opens a device.
static UNUSED struct peer raise_peer(void)
{
    int ends[2];
    struct peer peer;
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    REQUIRE((peer.pid = fork()) >= 0);
    if (peer.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        self.active = false;
        self.peer = ends[1];
        serve_jobs();
    }
    close(ends[1]);
    peer.line = ends[0];
    return peer;
}

static UNUSED void set_to_work(struct peer peer, struct job job)
{
    self.peer = peer.line;
    give(&job, sizeof job);
}

static UNUSED void connect_with(struct node *n, struct peer peer)
{
    set_to_work(peer, (struct job){.task = CONNECT});
    bring_up(n);
}

static UNUSED int report_of(struct peer peer)
{
    struct report report;
    self.peer = peer.line;
    take(&report, sizeof report);
    return report.status;
}

static UNUSED void dismiss(struct peer peer)
{
    set_to_work(peer, (struct job){.task = END});
    CHECK_EQ("end", "the peer ends well", child_status(peer.pid), 0);
}

static UNUSED int writes_once(struct peer peer, const struct ibv_mr *mr, int byte)
{
    set_to_work(peer, (struct job){WRITE_ONCE, mr->rkey, (uintptr_t)mr->addr, mr->length, byte});
    return report_of(peer);
}

// Returns when the peer is stopped, not only told to.
static UNUSED void stop(struct peer peer)
{
    int status = 0;
    REQUIRE(kill(peer.pid, SIGSTOP) == 0);
    REQUIRE(waitpid(peer.pid, &status, WUNTRACED) == peer.pid && WIFSTOPPED(status));
}

static UNUSED void go_on(struct peer peer) { REQUIRE(kill(peer.pid, SIGCONT) == 0); }

static UNUSED int64_t ms_since(int64_t start) { return (now_ns() - start) / 1000000; }

// Until a byte that a peer writes has changed.
static UNUSED void wait_for_byte(const unsigned char *at, int byte)
{
    int64_t start = now_ns();
    while (*(const volatile unsigned char *)at != byte) {
        REQUIRE(ms_since(start) < PATIENCE_MS);
        sched_yield();
    }
}

#endif
