// librpma, which puts persistent memory of one host at the service of others: registration, a description of the region in the
// private data of a connection, writes, reads, a flush of either kind, an atomic write, messages with and without immediate data,
// a shared receive queue, advice about pages. The passive side owns the memory.
//
//     rpma ADDRESS PORT

#define _GNU_SOURCE
#include "bytes.h"
#include "harness.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <librpma.h>
#include <stdarg.h>

#define SIZE (1 << 20)
#define MESSAGE 64
#define IMMEDIATE 0x5eed1e55u

#define DO(call)                                                                                                    \
    do {                                                                                                            \
        int ret_ = (call);                                                                                          \
        if (ret_)                                                                                                   \
            printf("%s %s: %s\n", role(), #call, rpma_err_2str(ret_));                                              \
        REQUIRE(ret_ == 0);                                                                                         \
    } while (0)

// What the owner says of its memory, in private data.
struct offer {
    uint8_t size;
    char description[60];
};

static const char *address, *port;

static void complain(enum rpma_log_level level, const char *file, const int line, const char *function, const char *format, ...)
{
    va_list rest;
    if (level > RPMA_LOG_LEVEL_WARNING)
        return;
    printf("%s librpma, %s:%d %s: ", role(), file ? file : "", line, function ? function : "");
    va_start(rest, format);
    vprintf(format, rest);
    va_end(rest);
    printf("\n");
}

static uint8_t *pages(size_t size)
{
    uint8_t *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(found != MAP_FAILED);
    return found;
}

// The next completion, which is awaited by the queue's descriptor. An event may be of a completion that was taken before it.
static struct ibv_wc next(struct rpma_cq *queue)
{
    struct ibv_wc completion = {0};
    struct pollfd descriptor = {.events = POLLIN};
    int ret;
    DO(rpma_cq_get_fd(queue, &descriptor.fd));
    while ((ret = rpma_cq_get_wc(queue, 1, &completion, NULL)) == RPMA_E_NO_COMPLETION) {
        REQUIRE(poll(&descriptor, 1, PATIENCE_MS) == 1);
        DO(rpma_cq_wait(queue));
    }
    DO(ret);
    return completion;
}

static bool ended(struct rpma_cq *queue, const void *context, enum ibv_wc_opcode opcode)
{
    struct ibv_wc completion = next(queue);
    return completion.wr_id == (uintptr_t)context && completion.status == IBV_WC_SUCCESS && completion.opcode == opcode;
}

static enum rpma_conn_event event_of(struct rpma_conn *connection)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    struct pollfd descriptor = {.events = POLLIN};
    DO(rpma_conn_get_event_fd(connection, &descriptor.fd));
    REQUIRE(poll(&descriptor, 1, PATIENCE_MS) == 1);
    DO(rpma_conn_next_event(connection, &event));
    return event;
}

static struct rpma_peer *peer_of(enum rpma_util_ibv_context_type type)
{
    struct ibv_context *context;
    struct rpma_peer *peer;
    int paging = 0;
    DO(rpma_utils_get_ibv_context(address, type, &context));
    DO(rpma_utils_ibv_context_is_odp_capable(context, &paging));
    CHECK("rpma", "the device pages on demand", paging);
    DO(rpma_peer_new(context, &peer));
    return peer;
}

static void owner(void)
{
    struct rpma_peer *peer = peer_of(RPMA_UTIL_IBV_CONTEXT_LOCAL);
    uint8_t *memory = pages(SIZE), *inbox = pages(MESSAGE);
    struct rpma_mr_local *region, *inbox_region;
    struct rpma_ep *endpoint;
    struct rpma_conn_req *request;
    struct rpma_conn *connection;
    struct rpma_conn_cfg *settings;
    struct rpma_srq_cfg *shared_settings;
    struct rpma_srq *shared;
    struct rpma_cq *received;
    struct offer offer = {0};
    size_t size;

    DO(rpma_mr_reg(peer, memory, SIZE,
                   RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                       RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
                   &region));
    DO(rpma_mr_reg(peer, inbox, MESSAGE, RPMA_MR_USAGE_RECV, &inbox_region));
    CHECK_EQ("rpma", "pages are fetched when that is advised",
             rpma_mr_advise(region, 0, SIZE, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH), 0);
    DO(rpma_mr_get_descriptor_size(region, &size));
    REQUIRE(size <= sizeof(offer.description));
    offer.size = (uint8_t)size;
    DO(rpma_mr_get_descriptor(region, offer.description));

    DO(rpma_srq_cfg_new(&shared_settings));
    DO(rpma_srq_cfg_set_rq_size(shared_settings, 8));
    DO(rpma_srq_cfg_set_rcq_size(shared_settings, 8));
    DO(rpma_srq_new(peer, shared_settings, &shared));
    DO(rpma_conn_cfg_new(&settings));
    DO(rpma_conn_cfg_set_srq(settings, shared));
    DO(rpma_srq_get_rcq(shared, &received));

    DO(rpma_ep_listen(peer, address, port, &endpoint));
    meet();
    DO(rpma_ep_next_conn_req(endpoint, settings, &request));
    DO(rpma_srq_recv(shared, inbox_region, 0, MESSAGE, inbox));
    struct rpma_conn_private_data private = {.ptr = &offer, .len = sizeof(offer)};
    DO(rpma_conn_req_connect(&request, &private, &connection));
    CHECK_EQ("rpma", "the connection is established", event_of(connection), RPMA_CONN_ESTABLISHED);

    struct ibv_wc completion = next(received);
    CHECK("rpma", "a message comes to the shared receive queue", completion.status == IBV_WC_SUCCESS &&
          completion.opcode == IBV_WC_RECV && completion.byte_len == MESSAGE && filled(inbox, MESSAGE, 1));
    CHECK("rpma", "behind what was written before it", filled(memory, SIZE, 2));
    DO(rpma_srq_recv(shared, inbox_region, 0, MESSAGE, inbox));
    meet();
    completion = next(received);
    CHECK("rpma", "a write tells of itself by its immediate data", completion.status == IBV_WC_SUCCESS &&
          completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM && ntohl(completion.imm_data) == IMMEDIATE);
    CHECK("rpma", "when its bytes are there", filled(memory + SIZE / 2, SIZE / 2, 3));
    CHECK("rpma", "and those of the atomic write before it", !memcmp(memory, "8 bytes!", 8));
    meet();

    CHECK_EQ("rpma", "the other side's end is told", event_of(connection), RPMA_CONN_CLOSED);
    DO(rpma_conn_disconnect(connection));
    DO(rpma_conn_delete(&connection));
    DO(rpma_ep_shutdown(&endpoint));
    DO(rpma_conn_cfg_delete(&settings));
    DO(rpma_srq_delete(&shared));
    DO(rpma_srq_cfg_delete(&shared_settings));
    DO(rpma_mr_dereg(&inbox_region));
    DO(rpma_mr_dereg(&region));
    DO(rpma_peer_delete(&peer));
}

static void user(void)
{
    struct rpma_peer *peer = peer_of(RPMA_UTIL_IBV_CONTEXT_REMOTE);
    uint8_t *out = pages(SIZE), *in = pages(SIZE);
    struct rpma_mr_local *source, *sink;
    struct rpma_mr_remote *remote;
    struct rpma_conn_req *request;
    struct rpma_conn *connection;
    struct rpma_conn_private_data private;
    struct rpma_peer_cfg *powers;
    struct rpma_cq *queue;
    struct offer offer;
    size_t size;

    DO(rpma_mr_reg(peer, out, SIZE, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND, &source));
    DO(rpma_mr_reg(peer, in, SIZE, RPMA_MR_USAGE_READ_DST, &sink));
    meet();
    DO(rpma_conn_req_new(peer, address, port, NULL, &request));
    DO(rpma_conn_req_connect(&request, NULL, &connection));
    CHECK_EQ("rpma", "the connection is established", event_of(connection), RPMA_CONN_ESTABLISHED);
    DO(rpma_conn_get_private_data(connection, &private));
    CHECK("rpma", "the private data comes with it", private.ptr && private.len >= sizeof(offer));
    memcpy(&offer, private.ptr, sizeof(offer));
    DO(rpma_mr_remote_from_descriptor(offer.description, offer.size, &remote));
    DO(rpma_mr_remote_get_size(remote, &size));
    CHECK_EQ("rpma", "the region is as large as its owner said", size, SIZE);
    DO(rpma_conn_get_cq(connection, &queue));

    fill(out, SIZE, 2);
    DO(rpma_write(connection, remote, 0, source, 0, SIZE, RPMA_F_COMPLETION_ON_ERROR, NULL));
    DO(rpma_flush(connection, remote, 0, SIZE, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, &size));
    CHECK("rpma", "a flush ends behind the write that was not signalled", ended(queue, &size, IBV_WC_RDMA_READ));
    DO(rpma_read(connection, sink, 0, remote, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, in));
    CHECK("rpma", "a read ends", ended(queue, in, IBV_WC_RDMA_READ));
    CHECK("rpma", "with what was written", filled(in, SIZE, 2));
    fill(out, MESSAGE, 1);
    DO(rpma_send(connection, source, 0, MESSAGE, RPMA_F_COMPLETION_ALWAYS, out));
    CHECK("rpma", "a message ends", ended(queue, out, IBV_WC_SEND));
    meet();

    // A flush into persistence needs an owner that has said that its writes go there.
    DO(rpma_peer_cfg_new(&powers));
    CHECK_EQ("rpma", "persistence is not promised unasked",
             rpma_flush(connection, remote, 0, SIZE, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, NULL), RPMA_E_NOSUPP);
    DO(rpma_peer_cfg_set_direct_write_to_pmem(powers, true));
    DO(rpma_conn_apply_remote_peer_cfg(connection, powers));
    DO(rpma_flush(connection, remote, 0, SIZE, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, powers));
    CHECK("rpma", "a flush into persistence ends", ended(queue, powers, IBV_WC_RDMA_READ));
    DO(rpma_peer_cfg_delete(&powers));

    DO(rpma_atomic_write(connection, remote, 0, "8 bytes!", RPMA_F_COMPLETION_ALWAYS, remote));
    CHECK("rpma", "an atomic write ends", ended(queue, remote, IBV_WC_RDMA_WRITE));
    fill(out, SIZE / 2, 3);
    DO(rpma_write_with_imm(connection, remote, SIZE / 2, source, 0, SIZE / 2, RPMA_F_COMPLETION_ALWAYS, IMMEDIATE, in));
    CHECK("rpma", "a write with immediate data ends", ended(queue, in, IBV_WC_RDMA_WRITE));
    meet();

    DO(rpma_conn_disconnect(connection));
    CHECK_EQ("rpma", "the end is told to who asked for it", event_of(connection), RPMA_CONN_CLOSED);
    DO(rpma_mr_remote_delete(&remote));
    DO(rpma_conn_delete(&connection));
    DO(rpma_mr_dereg(&sink));
    DO(rpma_mr_dereg(&source));
    DO(rpma_peer_delete(&peer));
}

int main(int count, char **words)
{
    if (count != 3) {
        fprintf(stderr, "usage: %s ADDRESS PORT\n", words[0]);
        return 2;
    }
    address = words[1];
    port = words[2];
    split();
    REQUIRE(rpma_log_set_function(complain) == 0);
    (self.active ? user : owner)();
    return finish();
}
