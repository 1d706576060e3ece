// The connection manager among threads and processes: a thread that is cancelled while it waits, a child after a fork, a peer
// that is killed.
//
// proves: rdmacm 1, 3.3, 6

#include "rdmacm.h"

static void *wait_for_event(void *unused)
{
    struct rdma_cm_event *event;

    (void)unused;
    rdma_get_cm_event(channel, &event);
    return NULL;
}

static void *wait_for_request(void *listen)
{
    struct rdma_cm_id *id;

    rdma_get_request(listen, &id);
    return NULL;
}

static bool is_cancelled(void *(*wait)(void *), void *argument)
{
    pthread_t thread;
    void *result;

    REQUIRE(pthread_create(&thread, NULL, wait, argument) == 0);
    usleep(20000);
    REQUIRE(pthread_cancel(thread) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    return result == PTHREAD_CANCELED;
}

static void cancellation(void)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
    struct sockaddr_in to = any4("127.0.0.1", 9);
    struct rdma_cm_id *listen, *id = make(RDMA_PS_TCP);

    CHECK("man", "a thread is cancelled while it waits for an event", is_cancelled(wait_for_event, NULL));
    REQUIRE(rdma_resolve_addr(id, NULL, SA(to), MS) == 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK("man", "and has taken none", is_quiet());
    drop(id);
    REQUIRE(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res) == 0);
    REQUIRE(rdma_create_ep(&listen, res, NULL, NULL) == 0);
    REQUIRE(rdma_listen(listen, 0) == 0);
    CHECK("man", "so is one that waits for a request", is_cancelled(wait_for_request, listen));
    rdma_freeaddrinfo(res);
    rdma_destroy_ep(listen);
}

// What a child does: 0, or the line that went wrong.
static int child(struct rdma_cm_id *parents, uint16_t port)
{
    struct sockaddr_in to = any4("127.0.0.1", port);
    struct rdma_conn_param param = {.private_data = "child", .private_data_len = 6, .retry_count = 7};
    struct ibv_context *before = parents->verbs;
    struct rdma_cm_id *id;

    if (rdma_listen(parents, 1) != -1 || errno != ENOENT)
        return __LINE__;
    if (rdma_destroy_id(parents))
        return __LINE__;
    if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) || rdma_resolve_addr(id, NULL, SA(to), MS) ||
        rdma_resolve_route(id, MS))
        return __LINE__;
    if (id->verbs == before)
        return __LINE__;
    add_qp(id);
    if (rdma_connect(id, &param))
        return __LINE__;
    // Killed here, neither disconnected nor destroyed.
    pause();
    return __LINE__;
}

static void processes(void)
{
    struct rdma_cm_id *l = listener(RDMA_PS_TCP, "127.0.0.1"), *new, *bound = make(RDMA_PS_TCP);
    struct sockaddr_in address = any4("127.0.0.1", 0);
    struct rdma_cm_event *event;
    int status;
    pid_t pid;

    REQUIRE(rdma_bind_addr(bound, SA(address)) == 0);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        _exit(child(bound, ntohs(rdma_get_src_port(l))));
    event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    new = event->id;
    CHECK("1", "a child connects by identifiers of its own", !strcmp(event->param.conn.private_data, "child"));
    rdma_ack_cm_event(event);
    add_qp(new);
    REQUIRE(rdma_accept(new, NULL) == 0);
    event = next(RDMA_CM_EVENT_ESTABLISHED);
    CHECK("3.2", "to its parent", event->id == new);
    rdma_ack_cm_event(event);
    REQUIRE(kill(pid, SIGKILL) == 0);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status))
        printf("the child stopped at line %d\n", WEXITSTATUS(status));
    CHECK("1", "and has none of its parent's", WIFSIGNALED(status));
    event = next(RDMA_CM_EVENT_DISCONNECTED);
    CHECK("3.3", "a peer that was killed has disconnected", event->id == new);
    rdma_ack_cm_event(event);
    CHECK_EQ("3.3", "which is answered as any other end", rdma_disconnect(new), 0);
    CHECK("1", "the parent's identifier is what it was", rdma_get_src_port(bound) && rdma_listen(bound, 1) == 0);
    drop(new);
    drop(bound);
    drop(l);
}

int main(void)
{
    self.active = true;
    setbuf(stdout, NULL);
    REQUIRE(channel = rdma_create_event_channel());
    cancellation();
    processes();
    rdma_destroy_event_channel(channel);
    return end();
}
