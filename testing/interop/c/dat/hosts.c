// uDAPL between two hosts: what connecting leads to, on both sides, and what of memory arrives.
//
//     hosts serve ADAPTER NUMBER
//     hosts ask ADAPTER NUMBER ADDRESS SILENT NOWHERE    an address where nobody is, and one that no way leads to
//     hosts hold ADAPTER NUMBER                          serves one connection until it is killed
//     hosts miss ADAPTER NUMBER ADDRESS                  writes there until that fails
//
// Of uDAPL 1.2, and with DAT2 of 2.0. Both sides go through the same chapters; what keeps them in step are the connections themselves.

#ifdef DAT2
#include <dat2/udat.h>
#else
#include <dat/udat.h>
#endif
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS 1000000 // DAT_TIMEOUT is in microseconds.
#define PATIENCE (30 * SECONDS)
#define PAGE 4096
#define REQUEST_MAX 88
#define REPLY_MAX 192
#define ERROR(type, subtype) ((DAT_RETURN)(DAT_CLASS_ERROR | (type) | (subtype)))

#define ENSURE(what)                                                                                                \
    do {                                                                                                            \
        if (!(what)) {                                                                                              \
            printf("not so: %s (line %d)\n", #what, __LINE__);                                                      \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)
#define ANSWERS(call, wanted)                                                                                       \
    do {                                                                                                            \
        DAT_RETURN got_ = (call), wanted_ = (wanted);                                                               \
        if (got_ != wanted_) {                                                                                      \
            printf("%s answers %#x and not %#x (line %d)\n", #call, (unsigned)got_, (unsigned)wanted_, __LINE__);   \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)
#define MUST(call) ANSWERS(call, DAT_SUCCESS)
#define EVENT(dispatcher, wanted)                                                                                   \
    do {                                                                                                            \
        last = next(dispatcher, __LINE__);                                                                          \
        if (last.event_number != (wanted)) {                                                                        \
            printf("event %#x and not %s (line %d)\n", (unsigned)last.event_number, #wanted, __LINE__);             \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

// What the versions call differently. Only 2.0 has private data in rejections.
#ifdef DAT2
#define REJECTION 144
#define VA_TYPE DAT_VA_TYPE_VA,
#define TARGET virtual_address
#define REJECT(cr) reject_with(cr)
#else
#define REJECTION 0
#define VA_TYPE
#define TARGET target_address
#define REJECT(cr) dat_cr_reject(cr)
#endif

static DAT_IA_HANDLE adapter;
static DAT_PZ_HANDLE zone;
static DAT_EVD_HANDLE received, done, connection, arrivals;
static DAT_LMR_HANDLE region;
static DAT_LMR_CONTEXT local;
static DAT_RMR_CONTEXT remote;
static bool coherent;
static DAT_CONN_QUAL base;
static struct sockaddr_storage there;
static DAT_EVENT last;

// What the peer writes and reads, and messages.
struct message {
    DAT_RMR_TRIPLET page;
    unsigned step;
};

static struct {
    _Alignas(PAGE) unsigned char page[PAGE];
    _Alignas(PAGE) struct message in, out;
    unsigned char copy[PAGE];
} memory;

static DAT_EVENT next(DAT_EVD_HANDLE dispatcher, int line)
{
    DAT_EVENT event;
    DAT_COUNT more;
    DAT_RETURN answer = dat_evd_wait(dispatcher, PATIENCE, 1, &event, &more);
    if (answer != DAT_SUCCESS) {
        printf("no event: %#x (line %d)\n", (unsigned)answer, line);
        exit(1);
    }
    return event;
}

static struct sockaddr_storage address_of(const char *text)
{
    struct sockaddr_storage address;
    struct sockaddr_in *four = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address;
    memset(&address, 0, sizeof address);
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1)
        four->sin_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1)
        six->sin6_family = AF_INET6;
    else
        ENSURE(!"an address");
    return address;
}

static void open_all(const char *name)
{
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    DAT_REGION_DESCRIPTION whole = { .for_va = &memory };
    DAT_VLEN size;
    DAT_VADDR address;
    MUST(dat_ia_open((DAT_NAME_PTR)name, 8, &errors, &adapter));
    coherent = strcmp(name, "nonic-noncoherent") != 0;
    MUST(dat_pz_create(adapter, &zone));
    MUST(dat_evd_create(adapter, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &received));
    MUST(dat_evd_create(adapter, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &done));
    MUST(dat_evd_create(adapter, 64, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connection));
    MUST(dat_evd_create(adapter, 64, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &arrivals));
    MUST(dat_lmr_create(adapter, DAT_MEM_TYPE_VIRTUAL, whole, sizeof memory, zone, DAT_MEM_PRIV_ALL_FLAG, VA_TYPE
                        &region, &local, &remote, &size, &address));
}

static DAT_LMR_TRIPLET piece(void *from, size_t length)
{
    DAT_LMR_TRIPLET piece;
    memset(&piece, 0, sizeof piece);
    piece.lmr_context = local;
    piece.virtual_address = (DAT_VADDR)(uintptr_t)from;
    piece.segment_length = length;
    return piece;
}

static const DAT_DTO_COOKIE NONE = { .as_64 = 0 };

static void post_receive(DAT_EP_HANDLE ep)
{
    DAT_LMR_TRIPLET in = piece(&memory.in, sizeof memory.in);
    MUST(dat_ep_post_recv(ep, 1, &in, NONE, DAT_COMPLETION_DEFAULT_FLAG));
}

static DAT_EP_HANDLE endpoint(void)
{
    DAT_EP_HANDLE ep;
    MUST(dat_ep_create(adapter, zone, received, done, connection, NULL, &ep));
    post_receive(ep);
    return ep;
}

// ---- messages

static DAT_DTO_COMPLETION_STATUS status_of(DAT_EVD_HANDLE dispatcher)
{
    EVENT(dispatcher, DAT_DTO_COMPLETION_EVENT);
    return last.event_data.dto_completion_event_data.status;
}

static void say(DAT_EP_HANDLE ep, unsigned step)
{
    memory.out.step = step;
    memory.out.page.rmr_context = remote;
    memory.out.page.TARGET = (DAT_VADDR)(uintptr_t)memory.page;
    memory.out.page.segment_length = PAGE;
    DAT_LMR_TRIPLET out = piece(&memory.out, sizeof memory.out);
    MUST(dat_ep_post_send(ep, 1, &out, NONE, DAT_COMPLETION_DEFAULT_FLAG));
    ENSURE(status_of(done) == DAT_DTO_SUCCESS);
}

static DAT_RMR_TRIPLET hear(DAT_EP_HANDLE ep, unsigned step)
{
    ENSURE(status_of(received) == DAT_DTO_SUCCESS);
    ENSURE(last.event_data.dto_completion_event_data.ep_handle == ep);
    ENSURE(memory.in.step == step);
    DAT_RMR_TRIPLET page = memory.in.page;
    post_receive(ep);
    return page;
}

static DAT_DTO_COMPLETION_STATUS write_there(DAT_EP_HANDLE ep, DAT_RMR_TRIPLET page)
{
    DAT_LMR_TRIPLET from = piece(memory.copy, PAGE);
    MUST(dat_ep_post_rdma_write(ep, 1, &from, NONE, &page, DAT_COMPLETION_DEFAULT_FLAG));
    return status_of(done);
}

static DAT_DTO_COMPLETION_STATUS read_there(DAT_EP_HANDLE ep, DAT_RMR_TRIPLET page)
{
    DAT_LMR_TRIPLET to = piece(memory.copy, PAGE);
    MUST(dat_ep_post_rdma_read(ep, 1, &to, NONE, &page, DAT_COMPLETION_DEFAULT_FLAG));
    return status_of(done);
}

static bool is_full_of(const unsigned char *page, int byte)
{
    for (int i = 0; i < PAGE; i++)
        if (page[i] != byte)
            return false;
    return true;
}

// ---- connections

static void private_bytes(unsigned char *bytes, int count)
{
    for (int i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + count);
}

static void are_private_bytes(const void *data, int size, int count)
{
    unsigned char bytes[512];
    private_bytes(bytes, count);
    ENSURE(size == count);
    ENSURE(count == 0 || memcmp(data, bytes, count) == 0);
}

static DAT_RETURN connect_to(DAT_EP_HANDLE ep, struct sockaddr_storage *address, int number, int size,
                             DAT_TIMEOUT timeout)
{
    unsigned char bytes[512];
    private_bytes(bytes, size);
    return dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)address, base + number, timeout, size, bytes, DAT_QOS_BEST_EFFORT,
                          DAT_CONNECT_DEFAULT_FLAG);
}

static void established(int size)
{
    EVENT(connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    DAT_CONNECTION_EVENT_DATA *data = &last.event_data.connect_event_data;
    are_private_bytes(data->private_data, data->private_data_size, size);
}

// The request that comes, which is for that number and says so many bytes.
static DAT_CR_HANDLE asked(int number, int size)
{
    DAT_CR_PARAM facts;
    EVENT(arrivals, DAT_CONNECTION_REQUEST_EVENT);
    DAT_CR_ARRIVAL_EVENT_DATA *arrival = &last.event_data.cr_arrival_event_data;
    ENSURE(arrival->conn_qual == base + number);
    MUST(dat_cr_query(arrival->cr_handle, DAT_CR_FIELD_ALL, &facts));
    are_private_bytes(facts.private_data, facts.private_data_size, size);
    ENSURE(facts.remote_port_qual != 0);
    int family = ((struct sockaddr *)facts.remote_ia_address_ptr)->sa_family;
    ENSURE(family == AF_INET || family == AF_INET6);
    return arrival->cr_handle;
}

static void accept_with(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, int size)
{
    unsigned char bytes[512];
    private_bytes(bytes, size);
    MUST(dat_cr_accept(cr, ep, size, bytes));
}

#ifdef DAT2
static DAT_RETURN reject_with(DAT_CR_HANDLE cr)
{
    unsigned char bytes[REJECTION + 1];
    private_bytes(bytes, REJECTION);
    ANSWERS(dat_cr_reject(cr, REJECTION + 1, bytes), ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    return dat_cr_reject(cr, REJECTION, bytes);
}
#endif

static DAT_EP_STATE state_of(DAT_EP_HANDLE ep)
{
    DAT_EP_STATE state;
    MUST(dat_ep_get_status(ep, &state, NULL, NULL));
    return state;
}

static void ends_here(DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS how)
{
    MUST(dat_ep_disconnect(ep, how));
    EVENT(connection, DAT_CONNECTION_EVENT_DISCONNECTED);
}

static void ends_there(void)
{
    EVENT(connection, DAT_CONNECTION_EVENT_DISCONNECTED);
}

// The receive that was posted is flushed when a connection ends.
static void flushed(void)
{
    ENSURE(status_of(received) == DAT_DTO_ERR_FLUSHED);
}

static void chapter(const char *name)
{
    printf("%s\n", name);
}

// Both sides: the connection brings bytes each way.
static void talk(DAT_EP_HANDLE ep, bool serves, unsigned step)
{
    if (serves) {
        hear(ep, step);
        say(ep, step + 1000);
    } else {
        say(ep, step);
        hear(ep, step + 1000);
    }
}

// ---- the two sides

static void serve(void)
{
    DAT_PSP_HANDLE points[3];
    DAT_RSP_HANDLE reserved;
    DAT_EP_HANDLE first = endpoint(), second = endpoint(), kept = endpoint();
    DAT_CR_HANDLE cr, other;
    unsigned char bytes[512] = { 0 };
    MUST(dat_psp_create(adapter, base, arrivals, DAT_PSP_CONSUMER_FLAG, &points[0]));
    MUST(dat_psp_create(adapter, base + 1, arrivals, DAT_PSP_PROVIDER_FLAG, &points[1]));
    MUST(dat_rsp_create(adapter, base + 2, kept, arrivals, &reserved));
    MUST(dat_psp_create(adapter, base + 3, arrivals, DAT_PSP_CONSUMER_FLAG, &points[2]));

    chapter("private data");
    cr = asked(0, REQUEST_MAX);
    ANSWERS(dat_cr_accept(cr, first, REPLY_MAX + 1, bytes), ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    ENSURE(state_of(first) == DAT_EP_STATE_UNCONNECTED);
    accept_with(cr, first, REPLY_MAX);
    established(0);
    talk(first, true, 1);

    chapter("once more the same way");
    accept_with(asked(0, 5), second, 0);
    established(0);
    talk(second, true, 2);
    ends_there();
    flushed();
    say(first, 3);
    ends_there();
    flushed();

    chapter("the same endpoints again");
    MUST(dat_ep_reset(first));
    post_receive(first);
    accept_with(asked(0, 0), first, 1);
    established(0);
    talk(first, true, 4);
    ends_here(first, DAT_CLOSE_GRACEFUL_FLAG);
    flushed();

    chapter("rejected, and accepted then");
    MUST(REJECT(asked(0, 0)));
    MUST(dat_ep_free(second));
    second = endpoint();
    accept_with(asked(0, 0), second, 0);
    established(0);
    talk(second, true, 5);
    ends_there();
    flushed();

    chapter("too late");
    MUST(dat_ep_free(first));
    MUST(dat_ep_free(second));
    first = endpoint(), second = endpoint();
    cr = asked(0, 0);
    other = asked(3, 0);
    MUST(dat_cr_accept(cr, first, 0, NULL));
    EVENT(connection, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    flushed();
    accept_with(other, second, 0);
    established(0);
    talk(second, true, 6);
    ends_there();
    flushed();

    chapter("a reserved service point");
    cr = asked(2, 0);
    ENSURE(state_of(kept) == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    accept_with(cr, DAT_HANDLE_NULL, 0);
    established(0);
    talk(kept, true, 7);
    ends_there();
    flushed();

    chapter("an endpoint that the service point makes");
    DAT_CR_PARAM facts;
    DAT_EP_PARAM wanted;
    cr = asked(1, 0);
    MUST(dat_cr_query(cr, DAT_CR_FIELD_ALL, &facts));
    memset(&wanted, 0, sizeof wanted);
    wanted.pz_handle = zone;
    wanted.recv_evd_handle = received;
    wanted.request_evd_handle = done;
    wanted.connect_evd_handle = connection;
    MUST(dat_ep_modify(facts.local_ep_handle,
                       DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE
                           | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                       &wanted));
    post_receive(facts.local_ep_handle);
    accept_with(cr, DAT_HANDLE_NULL, 0);
    established(0);
    talk(facts.local_ep_handle, true, 8);
    ends_there();
    flushed();

    chapter("handed off");
    MUST(dat_ep_free(second));
    second = endpoint();
    cr = asked(0, 9);
    ANSWERS(dat_cr_handoff(cr, base + 9), ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    MUST(dat_cr_handoff(cr, base + 3));
    accept_with(asked(3, 9), second, 0);
    established(0);
    talk(second, true, 9);

    chapter("memory");
    memset(memory.page, 1, PAGE);
    DAT_LMR_TRIPLET page = piece(memory.page, PAGE);
    MUST(dat_lmr_sync_rdma_read(adapter, &page, 1));
    say(second, 10);
    hear(second, 11); // 2 was written.
    ENSURE(is_full_of(memory.page, coherent ? 2 : 1));
    MUST(dat_lmr_sync_rdma_write(adapter, &page, 1));
    ENSURE(is_full_of(memory.page, 2));
    memset(memory.page, 3, PAGE);
    say(second, 12);
    hear(second, 13); // It was read.
    MUST(dat_lmr_sync_rdma_read(adapter, &page, 1));
    say(second, 14);
    hear(second, 15);

    // The process ends, and says nothing of it, nor of a request that it has not decided.
    asked(0, 0);
    say(second, 16);
    chapter("served");
    exit(0);
}

static void refused(DAT_EP_HANDLE *ep)
{
    ENSURE(state_of(*ep) == DAT_EP_STATE_DISCONNECTED);
    flushed();
    MUST(dat_ep_free(*ep));
    *ep = endpoint();
}

static void ask(struct sockaddr_storage *silent, struct sockaddr_storage *nowhere)
{
    DAT_EP_HANDLE first = endpoint(), second = endpoint();

    chapter("private data");
    ANSWERS(connect_to(first, &there, 0, REQUEST_MAX + 1, PATIENCE), ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5));
    ENSURE(state_of(first) == DAT_EP_STATE_UNCONNECTED);
    MUST(connect_to(first, &there, 0, REQUEST_MAX, PATIENCE));
    established(REPLY_MAX);
    talk(first, false, 1);

    chapter("once more the same way");
    unsigned char bytes[5];
    private_bytes(bytes, 5);
    MUST(dat_ep_dup_connect(second, first, PATIENCE, 5, bytes, DAT_QOS_BEST_EFFORT));
    established(0);
    talk(second, false, 2);
    ends_here(second, DAT_CLOSE_ABRUPT_FLAG);
    flushed();
    hear(first, 3);
    ends_here(first, DAT_CLOSE_GRACEFUL_FLAG);
    flushed();

    chapter("the same endpoints again");
    MUST(dat_ep_reset(first));
    post_receive(first);
    MUST(connect_to(first, &there, 0, 0, PATIENCE));
    established(1);
    talk(first, false, 4);
    ends_there();
    flushed();

    chapter("rejected, and accepted then");
    MUST(dat_ep_free(first));
    first = endpoint();
    MUST(connect_to(first, &there, 0, 0, PATIENCE));
    EVENT(connection, DAT_CONNECTION_EVENT_PEER_REJECTED);
    are_private_bytes(last.event_data.connect_event_data.private_data,
                      last.event_data.connect_event_data.private_data_size, REJECTION);
    flushed();
    MUST(dat_ep_reset(first));
    post_receive(first);
    MUST(connect_to(first, &there, 0, 0, PATIENCE));
    established(0);
    talk(first, false, 5);
    ends_here(first, DAT_CLOSE_GRACEFUL_FLAG);
    flushed();
    MUST(dat_ep_free(first));
    first = endpoint();

    chapter("nobody there");
    MUST(connect_to(first, &there, 9, 0, PATIENCE));
    EVENT(connection, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    refused(&first);
    MUST(connect_to(first, nowhere, 0, 0, PATIENCE));
    EVENT(connection, DAT_CONNECTION_EVENT_UNREACHABLE);
    refused(&first);
    MUST(connect_to(first, silent, 0, 0, 300000));
    EVENT(connection, DAT_CONNECTION_EVENT_TIMED_OUT);
    refused(&first);

    chapter("too late");
    MUST(connect_to(first, &there, 0, 0, SECONDS / 2));
    EVENT(connection, DAT_CONNECTION_EVENT_TIMED_OUT);
    refused(&first);
    MUST(connect_to(first, &there, 3, 0, PATIENCE));
    established(0);
    talk(first, false, 6);
    ends_here(first, DAT_CLOSE_ABRUPT_FLAG);
    refused(&first);

    chapter("a reserved service point");
    MUST(connect_to(first, &there, 2, 0, PATIENCE));
    established(0);
    talk(first, false, 7);
    ends_here(first, DAT_CLOSE_ABRUPT_FLAG);
    refused(&first);

    chapter("an endpoint that the service point makes");
    MUST(connect_to(first, &there, 1, 0, PATIENCE));
    established(0);
    talk(first, false, 8);
    ends_here(first, DAT_CLOSE_ABRUPT_FLAG);
    refused(&first);

    chapter("handed off");
    MUST(connect_to(first, &there, 0, 9, PATIENCE));
    established(0);
    talk(first, false, 9);

    chapter("memory");
    DAT_RMR_TRIPLET page = hear(first, 10);
    memset(memory.copy, 2, PAGE);
    ENSURE(write_there(first, page) == DAT_DTO_SUCCESS);
    say(first, 11);
    hear(first, 12); // It holds 3, as its owner sees it.
    ENSURE(read_there(first, page) == DAT_DTO_SUCCESS);
    ENSURE(is_full_of(memory.copy, coherent ? 3 : 2));
    say(first, 13);
    hear(first, 14);
    ENSURE(read_there(first, page) == DAT_DTO_SUCCESS);
    ENSURE(is_full_of(memory.copy, 3));
    say(first, 15);

    chapter("the end of the other process");
    MUST(dat_ep_free(second));
    second = endpoint();
    MUST(connect_to(second, &there, 0, 0, PATIENCE));
    hear(first, 16);
    bool ended = false, rejected = false;
    while (!ended || !rejected) {
        last = next(connection, __LINE__);
        DAT_EP_HANDLE ep = last.event_data.connect_event_data.ep_handle;
        bool *which = ep == first ? &ended : &rejected;
        ENSURE(last.event_number
               == (ep == first ? DAT_CONNECTION_EVENT_DISCONNECTED : DAT_CONNECTION_EVENT_PEER_REJECTED));
        ENSURE(!*which);
        *which = true;
    }
    flushed();
    flushed();
    chapter("asked");
}

static void hold(void)
{
    DAT_PSP_HANDLE point;
    DAT_EP_HANDLE ep = endpoint();
    MUST(dat_psp_create(adapter, base, arrivals, DAT_PSP_CONSUMER_FLAG, &point));
    accept_with(asked(0, 0), ep, 0);
    established(0);
    talk(ep, true, 1);
    for (;;)
        pause();
}

static void miss(void)
{
    DAT_EP_HANDLE ep = endpoint();
    DAT_DTO_COMPLETION_STATUS status;
    MUST(connect_to(ep, &there, 0, 0, PATIENCE));
    established(0);
    say(ep, 1);
    DAT_RMR_TRIPLET page = hear(ep, 1001);
    chapter("connected");
    while ((status = write_there(ep, page)) == DAT_DTO_SUCCESS)
        usleep(1000);
    ENSURE(status == DAT_DTO_ERR_TRANSPORT);
    EVENT(connection, DAT_CONNECTION_EVENT_BROKEN);
    flushed();
    ENSURE(state_of(ep) == DAT_EP_STATE_DISCONNECTED);
    chapter("missed");
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    ENSURE(argc >= 4);
    base = strtoull(argv[3], NULL, 0);
    if (argc >= 5)
        there = address_of(argv[4]);
    open_all(argv[2]);
    if (!strcmp(argv[1], "serve") && argc == 4) {
        serve();
    } else if (!strcmp(argv[1], "ask") && argc == 7) {
        struct sockaddr_storage silent = address_of(argv[5]), nowhere = address_of(argv[6]);
        ask(&silent, &nowhere);
    } else if (!strcmp(argv[1], "hold") && argc == 4) {
        hold();
    } else if (!strcmp(argv[1], "miss") && argc == 5) {
        miss();
    } else {
        return 2;
    }
    return 0;
}
