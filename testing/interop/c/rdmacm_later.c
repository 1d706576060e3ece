// Calls of releases later than the header's, asked for by name and version as programs that were built with those do: names that
// are looked up while the program goes on, and events of the program's own.
//
// proves: rdmacm 1, 6

#define _GNU_SOURCE
#include "rdmacm.h"

#include <dlfcn.h>

#define ADDRINFO_RESOLVED 16
#define ADDRINFO_ERROR 17
#define USER 18
#define INTERNAL 19
#define FROM_SA 0x10
#define FROM_DNS 0x20

static int (*resolve)(struct rdma_cm_id *, const char *, const char *, const struct rdma_addrinfo *);
static int (*query)(struct rdma_cm_id *, struct rdma_addrinfo **);
static int (*write_event)(struct rdma_cm_id *, int, int, uint64_t);

static void *symbol(const char *name)
{
    void *found = dlvsym(RTLD_DEFAULT, name, "RDMACM_1.4");
    REQUIRE(found);
    return found;
}

static void own_events(void)
{
    struct rdma_cm_id *id = make(RDMA_PS_TCP), *other = make(RDMA_PS_UDP);
    struct rdma_cm_event *event;
    uint64_t word;

    REFUSED("1", "no identifier", write_event(NULL, USER, 0, 0), EINVAL);
    REFUSED("1", "only the manager tells that it is established", write_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
    REFUSED("1", "nor are the library's own the program's", write_event(id, INTERNAL, 0, 0), EINVAL);
    REFUSED("1", "there is no event 20", write_event(id, 20, 0, 0), EINVAL);
    CHECK("1", "and nothing was told", is_quiet());
    REQUIRE(write_event(id, USER, -7, 0x0123456789abcdef) == 0);
    REQUIRE(write_event(other, USER, 3, 4) == 0);
    event = next(USER);
    memcpy(&word, &event->param, sizeof(word));
    CHECK("1", "an event of the program's brings a status and a word",
          event->id == id && event->status == -7 && word == 0x0123456789abcdef && !event->listen_id);
    CHECK("1", "and has a name", !strcmp(rdma_event_str(USER), "RDMA_CM_EVENT_USER"));
    REQUIRE(rdma_ack_cm_event(event) == 0);
    event = next(USER);
    memcpy(&word, &event->param, sizeof(word));
    CHECK("1", "in the order in which they were written", event->id == other && event->status == 3 && word == 4);
    REQUIRE(rdma_ack_cm_event(event) == 0);
    REQUIRE(write_event(other, USER, 0, 0) == 0);
    drop(other);
    drop(id);
    CHECK("1", "what was not got goes with its identifier", is_quiet());
}

static void names(void)
{
    struct rdma_addrinfo hints = {.ai_flags = FROM_DNS | RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP}, *first, *second;
    struct rdma_cm_id *id = make(RDMA_PS_TCP);
    struct sockaddr_in *address;
    struct rdma_cm_event *event;

    REFUSED("6", "neither name nor service nor hints", resolve(id, NULL, NULL, NULL), EINVAL);
    REFUSED("6", "no identifier", resolve(NULL, "127.0.0.1", "7", &hints), EINVAL);
    REFUSED("6", "nothing was found yet", query(id, &first), EINVAL);
    hints.ai_flags = FROM_SA;
    REFUSED("6", "there is no subnet administrator", resolve(id, "name", NULL, &hints), EOPNOTSUPP);
    CHECK("6", "and nothing was told", is_quiet());

    hints.ai_flags = FROM_DNS | RAI_NUMERICHOST;
    REQUIRE(resolve(id, "127.0.0.2", "7471", &hints) == 0);
    event = next(ADDRINFO_RESOLVED);
    CHECK("6", "the answer is an event", event->id == id && event->status == 0);
    REQUIRE(rdma_ack_cm_event(event) == 0);
    REFUSED("6", "no place", query(id, NULL), EINVAL);
    REQUIRE(query(id, &first) == 0 && query(id, &second) == 0);
    address = (struct sockaddr_in *)second->ai_dst_addr;
    CHECK("6", "which leads to what was found, as often as it is asked for",
          first != second && first->ai_dst_addr != second->ai_dst_addr && address->sin_port == htons(7471) &&
              ntohl(address->sin_addr.s_addr) == INADDR_LOOPBACK + 1 && second->ai_qp_type == IBV_QPT_RC &&
              second->ai_port_space == RDMA_PS_TCP);
    rdma_freeaddrinfo(first);
    CHECK_EQ("6", "and can be resolved", rdma_resolve_addr(id, NULL, second->ai_dst_addr, MS), 0);
    rdma_freeaddrinfo(second);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);

    REQUIRE(resolve(id, "no number", "7471", &hints) == 0);
    event = next(ADDRINFO_ERROR);
    CHECK_EQ("6", "a name that there is not is told with the C library's code", event->status, EAI_NONAME);
    REQUIRE(rdma_ack_cm_event(event) == 0);
    REQUIRE(query(id, &first) == 0);
    address = (struct sockaddr_in *)first->ai_dst_addr;
    CHECK("6", "and what was found before stays", address->sin_port == htons(7471));
    rdma_freeaddrinfo(first);
    drop(id);
    CHECK("3", "no event is left", is_quiet());
}

static void waits(void)
{
    struct rdma_addrinfo *found;
    struct rdma_cm_id *id;

    REQUIRE(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK_EQ("6", "a synchronous identifier waits for the answer", resolve(id, "127.0.0.1", "7", NULL), 0);
    CHECK("6", "and keeps it", id->event && (int)id->event->event == ADDRINFO_RESOLVED);
    REQUIRE(query(id, &found) == 0);
    rdma_freeaddrinfo(found);
    CHECK_EQ("6", "or fails", resolve(id, "127.0.0.1", "no service", NULL), -1);
    drop(id);
}

int main(void)
{
    self.active = true;
    setbuf(stdout, NULL);
    resolve = symbol("rdma_resolve_addrinfo");
    query = symbol("rdma_query_addrinfo");
    write_event = symbol("rdma_write_cm_event");
    REQUIRE(channel = rdma_create_event_channel());
    own_events();
    names();
    waits();
    rdma_destroy_event_channel(channel);
    return end();
}
