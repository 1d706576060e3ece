// One process writes numbers into the memory of another one, by uDAPL 1.2.
//
//     make dat_write && nonic run -- ./dat_write                both sides here, or each in a terminal:
//     nonic run -- ./dat_write listen 45248
//     nonic run -- ./dat_write connect 45248                or on another host, with the listener's address:
//     nonic run -- ./dat_write connect 45248 10.0.0.1
//     nonic run --noncoherent -- ./dat_write                    as on machines whose devices do not see the caches
//
// The listener registers memory and sends its context, address and length in a message. The connector writes numbers there
// and sends their sum: the message comes after the numbers. The listener makes them visible, which costs nothing where
// memory is coherent, and adds them up.

#include <arpa/inet.h>
#include <dat/udat.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBERS 100000
#define SECONDS 1000000 // DAT_TIMEOUT is in microseconds.
#define MUST(call)                                                                                                  \
    do {                                                                                                            \
        DAT_RETURN answer_ = (call);                                                                                \
        if (answer_ != DAT_SUCCESS)                                                                                 \
            give_up(#call, answer_);                                                                                \
    } while (0)

static void give_up(const char *call, DAT_RETURN answer)
{
    const char *major = "?", *minor = "";
    dat_strerror(answer, &major, &minor);
    fprintf(stderr, "%s: %s %s\n", call, major, minor);
    exit(1);
}

struct side {
    DAT_IA_HANDLE adapter;
    DAT_PZ_HANDLE zone;
    DAT_EVD_HANDLE received, done, connection;
    DAT_EP_HANDLE endpoint;
    DAT_LMR_HANDLE region;
    DAT_LMR_TRIPLET piece; // All of its memory.
};

// What travels in messages: where memory is, or a sum.
struct message {
    DAT_RMR_TRIPLET memory;
    uint64_t sum;
};

// The numbers of one side, and behind them its messages: first the one that comes, then the one that goes.
struct memory {
    uint64_t numbers[NUMBERS];
    struct message in, out;
};

static DAT_LMR_TRIPLET part(struct side *side, void *from, size_t length)
{
    DAT_LMR_TRIPLET piece = side->piece;
    piece.virtual_address = (DAT_VADDR)(uintptr_t)from;
    piece.segment_length = length;
    return piece;
}

static void open_side(struct side *side, struct memory *memory)
{
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    MUST(dat_ia_open("nonic", 8, &errors, &side->adapter));
    MUST(dat_pz_create(side->adapter, &side->zone));
    MUST(dat_evd_create(side->adapter, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &side->received));
    MUST(dat_evd_create(side->adapter, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &side->done));
    MUST(dat_evd_create(side->adapter, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG | DAT_EVD_CR_FLAG,
                        &side->connection));
    MUST(dat_ep_create(side->adapter, side->zone, side->received, side->done, side->connection, NULL,
                       &side->endpoint));

    DAT_REGION_DESCRIPTION description;
    DAT_RMR_CONTEXT context;
    DAT_VLEN size;
    DAT_VADDR address;
    description.for_va = memory;
    MUST(dat_lmr_create(side->adapter, DAT_MEM_TYPE_VIRTUAL, description, sizeof *memory, side->zone,
                        DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
                        &side->region, &side->piece.lmr_context, &context, &size, &address));

    memory->out.memory.rmr_context = context;
    memory->out.memory.target_address = (DAT_VADDR)(uintptr_t)memory->numbers;
    memory->out.memory.segment_length = sizeof memory->numbers;

    DAT_LMR_TRIPLET in = part(side, &memory->in, sizeof memory->in);
    DAT_DTO_COOKIE none = { .as_64 = 0 };
    MUST(dat_ep_post_recv(side->endpoint, 1, &in, none, DAT_COMPLETION_DEFAULT_FLAG));
}

// Waits for one event, which must be this one.
static DAT_EVENT expect(DAT_EVD_HANDLE dispatcher, DAT_EVENT_NUMBER number)
{
    DAT_EVENT event;
    DAT_COUNT more;
    MUST(dat_evd_wait(dispatcher, 10 * SECONDS, 1, &event, &more));
    if (event.event_number != number) {
        fprintf(stderr, "expected event %#x, got %#x\n", (unsigned)number, (unsigned)event.event_number);
        exit(1);
    }
    if (number == DAT_DTO_COMPLETION_EVENT
        && event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS) {
        fprintf(stderr, "an operation ended with status %d\n",
                (int)event.event_data.dto_completion_event_data.status);
        exit(1);
    }
    return event;
}

static void send_message(struct side *side, struct memory *memory)
{
    DAT_LMR_TRIPLET out = part(side, &memory->out, sizeof memory->out);
    DAT_DTO_COOKIE none = { .as_64 = 0 };
    MUST(dat_ep_post_send(side->endpoint, 1, &out, none, DAT_COMPLETION_DEFAULT_FLAG));
    expect(side->done, DAT_DTO_COMPLETION_EVENT);
}

static void close_side(struct side *side)
{
    MUST(dat_ep_free(side->endpoint));
    MUST(dat_evd_free(side->received));
    MUST(dat_evd_free(side->done));
    MUST(dat_evd_free(side->connection));
    MUST(dat_lmr_free(side->region));
    MUST(dat_pz_free(side->zone));
    MUST(dat_ia_close(side->adapter, DAT_CLOSE_GRACEFUL_FLAG)); // Refused if anything were left.
}

// Listens on that number, or on one that is free, and tells it to `tell` if that is a descriptor.
static void listener(DAT_CONN_QUAL number, int tell)
{
    static struct memory memory;
    struct side side;
    DAT_PSP_HANDLE point;
    open_side(&side, &memory);
    if (number)
        MUST(dat_psp_create(side.adapter, number, side.connection, DAT_PSP_CONSUMER_FLAG, &point));
    else
        MUST(dat_psp_create_any(side.adapter, &number, side.connection, DAT_PSP_CONSUMER_FLAG, &point));
    if (tell >= 0 && write(tell, &number, sizeof number) != sizeof number)
        exit(1);

    DAT_EVENT request = expect(side.connection, DAT_CONNECTION_REQUEST_EVENT);
    MUST(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, side.endpoint, 0, NULL));
    expect(side.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    send_message(&side, &memory);

    expect(side.received, DAT_DTO_COMPLETION_EVENT); // The sum, and so the numbers.
    DAT_LMR_TRIPLET written = part(&side, memory.numbers, sizeof memory.numbers);
    MUST(dat_lmr_sync_rdma_write(side.adapter, &written, 1));
    uint64_t sum = 0;
    for (int i = 0; i < NUMBERS; i++)
        sum += memory.numbers[i];
    if (sum != memory.in.sum) {
        printf("listener: the numbers add up to %llu, the connector says %llu\n", (unsigned long long)sum,
               (unsigned long long)memory.in.sum);
        exit(1);
    }
    printf("listener: %d numbers were written here and add up to %llu\n", NUMBERS, (unsigned long long)sum);
    MUST(dat_ep_disconnect(side.endpoint, DAT_CLOSE_GRACEFUL_FLAG));
    expect(side.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
    MUST(dat_psp_free(point));
    close_side(&side);
}

// The address of the listener's host, of IPv4 or IPv6.
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

static void connector(const char *host, DAT_CONN_QUAL number)
{
    static struct memory memory;
    struct side side;
    open_side(&side, &memory);
    struct sockaddr_storage listening = address_of(host);
    MUST(dat_ep_connect(side.endpoint, (DAT_IA_ADDRESS_PTR)&listening, number, 10 * SECONDS, 0, NULL,
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    expect(side.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    expect(side.received, DAT_DTO_COMPLETION_EVENT); // Where to write.
    struct message there = memory.in;

    memory.out.sum = 0;
    for (int i = 0; i < NUMBERS; i++)
        memory.out.sum += memory.numbers[i] = (uint64_t)i * 7 + 1;
    DAT_LMR_TRIPLET numbers = part(&side, memory.numbers, sizeof memory.numbers);
    DAT_DTO_COOKIE none = { .as_64 = 0 };
    MUST(dat_ep_post_rdma_write(side.endpoint, 1, &numbers, none, &there.memory, DAT_COMPLETION_SUPPRESS_FLAG));
    send_message(&side, &memory); // Behind the write, so nobody has to wait for that.

    expect(side.connection, DAT_CONNECTION_EVENT_DISCONNECTED); // The listener is content.
    printf("connector: %d numbers written to service %llu\n", NUMBERS, (unsigned long long)number);
    close_side(&side);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && !strcmp(argv[1], "listen")) {
        listener(strtoull(argv[2], NULL, 0), -1);
    } else if ((argc == 3 || argc == 4) && !strcmp(argv[1], "connect")) {
        connector(argc == 4 ? argv[3] : "127.0.0.1", strtoull(argv[2], NULL, 0));
    } else if (argc == 1) {
        int ends[2], status;
        DAT_CONN_QUAL number;
        if (pipe(ends))
            return 1;
        pid_t child = fork(); // Before anything is opened: a child opens its own.
        if (child == 0) {
            listener(0, ends[1]);
            exit(0);
        }
        close(ends[1]);
        if (child < 0 || read(ends[0], &number, sizeof number) != sizeof number)
            return 1;
        connector("127.0.0.1", number);
        return waitpid(child, &status, 0) != child || status != 0;
    } else {
        fprintf(stderr, "usage: %s [listen NUMBER | connect NUMBER [ADDRESS]]\n", argv[0]);
        return 2;
    }
    return 0;
}
