// Memory lent for a while: remote memory regions of uDAPL 1.2.
//
//     make dat_window && nonic run -- ./dat_window              both sides here, or each in a terminal:
//     nonic run -- ./dat_window lend 45249
//     nonic run -- ./dat_window borrow 45249                or on another host, with the lender's address:
//     nonic run -- ./dat_window borrow 45249 10.0.0.1
//
// The lender has one region that peers cannot reach. It binds a part of it and sends the context in the message right
// behind, which no peer can get too early. When the borrower has written there, the lender binds another part: the old
// context is dead from then on, and the borrower that tries it anyway loses its connection and changes nothing.

#include <arpa/inet.h>
#include <dat/udat.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARTS 4
#define LENGTH 65536    // Bytes of a part.
#define SECONDS 1000000 // DAT_TIMEOUT is in microseconds.
#define MUST(call)                                                                                                  \
    do {                                                                                                            \
        DAT_RETURN answer_ = (call);                                                                                \
        if (answer_ != DAT_SUCCESS)                                                                                 \
            give_up(#call, answer_);                                                                                \
    } while (0)
#define ENSURE(what)                                                                                                \
    do {                                                                                                            \
        if (!(what)) {                                                                                              \
            fprintf(stderr, "not so: %s (line %d)\n", #what, __LINE__);                                             \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

static void give_up(const char *call, DAT_RETURN answer)
{
    const char *major = "?", *minor = "";
    dat_strerror(answer, &major, &minor);
    fprintf(stderr, "%s: %s %s\n", call, major, minor);
    exit(1);
}

static const DAT_DTO_COOKIE NONE = { .as_64 = 0 };

static DAT_IA_HANDLE adapter;
static DAT_PZ_HANDLE zone;
static DAT_EVD_HANDLE received, done, connection;
static DAT_EP_HANDLE endpoint;
static DAT_LMR_HANDLE region;
static DAT_LMR_CONTEXT context;

// The parts, and behind them messages: the one that comes and the one that goes.
static struct {
    unsigned char parts[PARTS][LENGTH];
    DAT_RMR_TRIPLET in, out;
} memory;

static DAT_LMR_TRIPLET piece(void *from, size_t length)
{
    DAT_LMR_TRIPLET piece;
    memset(&piece, 0, sizeof piece);
    piece.lmr_context = context;
    piece.virtual_address = (DAT_VADDR)(uintptr_t)from;
    piece.segment_length = length;
    return piece;
}

static DAT_EVENT next(DAT_EVD_HANDLE dispatcher)
{
    DAT_EVENT event;
    DAT_COUNT more;
    MUST(dat_evd_wait(dispatcher, 10 * SECONDS, 1, &event, &more));
    return event;
}

static void post_receive(void)
{
    DAT_LMR_TRIPLET in = piece(&memory.in, sizeof memory.in);
    MUST(dat_ep_post_recv(endpoint, 1, &in, NONE, DAT_COMPLETION_DEFAULT_FLAG));
}

static DAT_RMR_TRIPLET receive(void)
{
    DAT_EVENT event = next(received);
    ENSURE(event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS);
    DAT_RMR_TRIPLET message = memory.in;
    post_receive();
    return message;
}

static void post_message(DAT_RMR_TRIPLET message)
{
    memory.out = message;
    DAT_LMR_TRIPLET out = piece(&memory.out, sizeof memory.out);
    MUST(dat_ep_post_send(endpoint, 1, &out, NONE, DAT_COMPLETION_DEFAULT_FLAG));
}

static DAT_DTO_COMPLETION_STATUS ending(void)
{
    DAT_EVENT event = next(done);
    ENSURE(event.event_number == DAT_DTO_COMPLETION_EVENT);
    return event.event_data.dto_completion_event_data.status;
}

static void open_all(void)
{
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    DAT_REGION_DESCRIPTION description;
    DAT_RMR_CONTEXT remote = 1;
    DAT_VLEN size;
    DAT_VADDR address;
    MUST(dat_ia_open("nonic", 8, &errors, &adapter));
    MUST(dat_pz_create(adapter, &zone));
    MUST(dat_evd_create(adapter, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &received));
    MUST(dat_evd_create(adapter, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &done));
    MUST(dat_evd_create(adapter, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG | DAT_EVD_CR_FLAG, &connection));
    MUST(dat_ep_create(adapter, zone, received, done, connection, NULL, &endpoint));
    description.for_va = &memory;
    MUST(dat_lmr_create(adapter, DAT_MEM_TYPE_VIRTUAL, description, sizeof memory, zone,
                        DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &region, &context, &remote,
                        &size, &address));
    ENSURE(remote == 0); // Peers reach nothing of it by itself.
    post_receive();
}

// Binds a part and tells it to the peer by the next message.
static void lend(DAT_RMR_HANDLE window, int part)
{
    DAT_RMR_TRIPLET lent;
    DAT_LMR_TRIPLET bytes = piece(memory.parts[part], LENGTH);
    memset(&lent, 0, sizeof lent);
    lent.target_address = (DAT_VADDR)(uintptr_t)memory.parts[part];
    lent.segment_length = LENGTH;
    MUST(dat_rmr_bind(window, &bytes, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, endpoint, NONE, DAT_COMPLETION_DEFAULT_FLAG,
                      &lent.rmr_context));
    post_message(lent);

    DAT_EVENT event = next(done);
    ENSURE(event.event_number == DAT_RMR_BIND_COMPLETION_EVENT);
    ENSURE(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS);
    ENSURE(ending() == DAT_DTO_SUCCESS);
}

static void look_at(int part, unsigned char expected)
{
    DAT_LMR_TRIPLET written = piece(memory.parts[part], LENGTH);
    MUST(dat_lmr_sync_rdma_write(adapter, &written, 1));
    for (int i = 0; i < LENGTH; i++)
        ENSURE(memory.parts[part][i] == expected);
}

static void close_all(void)
{
    MUST(dat_ep_free(endpoint));
    MUST(dat_evd_free(received));
    MUST(dat_evd_free(done));
    MUST(dat_evd_free(connection));
    MUST(dat_lmr_free(region));
    MUST(dat_pz_free(zone));
    MUST(dat_ia_close(adapter, DAT_CLOSE_GRACEFUL_FLAG));
}

static void lender(DAT_CONN_QUAL number, int tell)
{
    DAT_PSP_HANDLE point;
    DAT_RMR_HANDLE window;
    open_all();
    MUST(dat_rmr_create(zone, &window));
    if (number)
        MUST(dat_psp_create(adapter, number, connection, DAT_PSP_CONSUMER_FLAG, &point));
    else
        MUST(dat_psp_create_any(adapter, &number, connection, DAT_PSP_CONSUMER_FLAG, &point));
    if (tell >= 0 && write(tell, &number, sizeof number) != sizeof number)
        exit(1);
    DAT_EVENT request = next(connection);
    ENSURE(request.event_number == DAT_CONNECTION_REQUEST_EVENT);
    MUST(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, endpoint, 0, NULL));
    ENSURE(next(connection).event_number == DAT_CONNECTION_EVENT_ESTABLISHED);
    MUST(dat_psp_free(point));

    for (int part = 0; part < PARTS; part++) {
        lend(window, part); // Takes the part before back.
        receive();          // The borrower has written.
        look_at(part, (unsigned char)(part + 1));
    }
    // The borrower now tries the first context, and the connection breaks.
    ENSURE(next(connection).event_number == DAT_CONNECTION_EVENT_BROKEN);
    look_at(0, 1);
    printf("lender: %d parts were written while they were lent, and nothing afterwards\n", PARTS);
    MUST(dat_rmr_free(window));
    close_all();
}

// The address of the lender's host, of IPv4 or IPv6.
static struct sockaddr_storage address_of(const char *text)
{
    struct sockaddr_storage address;
    struct sockaddr_in *four = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address;
    memset(&address, 0, sizeof address);
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
    } else if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
    } else {
        fprintf(stderr, "%s is no address\n", text);
        exit(2);
    }
    return address;
}

static void borrower(const char *host, DAT_CONN_QUAL number)
{
    open_all();
    struct sockaddr_storage lending = address_of(host);
    MUST(dat_ep_connect(endpoint, (DAT_IA_ADDRESS_PTR)&lending, number, 10 * SECONDS, 0, NULL, DAT_QOS_BEST_EFFORT,
                        DAT_CONNECT_DEFAULT_FLAG));
    ENSURE(next(connection).event_number == DAT_CONNECTION_EVENT_ESTABLISHED);

    DAT_RMR_TRIPLET first, lent;
    DAT_LMR_TRIPLET bytes = piece(memory.parts[0], LENGTH);
    memset(&first, 0, sizeof first);
    for (int part = 0; part < PARTS; part++) {
        lent = receive();
        if (part == 0)
            first = lent;
        memset(memory.parts[0], part + 1, LENGTH);
        MUST(dat_ep_post_rdma_write(endpoint, 1, &bytes, NONE, &lent, DAT_COMPLETION_DEFAULT_FLAG));
        post_message(lent);
        ENSURE(ending() == DAT_DTO_SUCCESS);
        ENSURE(ending() == DAT_DTO_SUCCESS);
    }
    memset(memory.parts[0], 0xff, LENGTH);
    MUST(dat_ep_post_rdma_write(endpoint, 1, &bytes, NONE, &first, DAT_COMPLETION_DEFAULT_FLAG));
    ENSURE(ending() == DAT_DTO_ERR_REMOTE_ACCESS);
    ENSURE(next(connection).event_number == DAT_CONNECTION_EVENT_BROKEN);
    printf("borrower: a write through a context that was taken back was refused\n");
    close_all();
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && !strcmp(argv[1], "lend")) {
        lender(strtoull(argv[2], NULL, 0), -1);
    } else if ((argc == 3 || argc == 4) && !strcmp(argv[1], "borrow")) {
        borrower(argc == 4 ? argv[3] : "127.0.0.1", strtoull(argv[2], NULL, 0));
    } else if (argc == 1) {
        int ends[2], status;
        DAT_CONN_QUAL number;
        if (pipe(ends))
            return 1;
        pid_t child = fork(); // Before anything is opened: a child opens its own.
        if (child == 0) {
            lender(0, ends[1]);
            exit(0);
        }
        close(ends[1]);
        if (child < 0 || read(ends[0], &number, sizeof number) != sizeof number)
            return 1;
        borrower("127.0.0.1", number);
        return waitpid(child, &status, 0) != child || status != 0;
    } else {
        fprintf(stderr, "usage: %s [lend NUMBER | borrow NUMBER [ADDRESS]]\n", argv[0]);
        return 2;
    }
    return 0;
}
