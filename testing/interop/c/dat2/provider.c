// What nonic's provider for uDAPL 2.0 does where 2.0 differs from 1.2, through the distribution's headers and its registry
// (libdat2): layouts, numbers, calls with other arguments, extensions, and the calls through the provider's table.
// One process, which connects to itself.

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dat2/udat.h>
#include <dat2/dat_registry.h>
#include <dat2/dat_ib_extensions.h>

#define DAT_ERROR(type, subtype) ((DAT_RETURN)(DAT_CLASS_ERROR | (type) | (subtype)))

#define SECONDS 1000000u
#define SERVICE 7700

static int passed, failed;

#define CHECK(sentence, condition)                                                                                  \
    do {                                                                                                            \
        bool good_ = (condition);                                                                                   \
        good_ ? passed++ : failed++;                                                                                \
        printf("%s %s%s%s\n", good_ ? "ok  " : "FAIL", sentence, good_ ? "" : ": ", good_ ? "" : #condition);       \
    } while (0)

#define RETURNS(sentence, call, want)                                                                               \
    do {                                                                                                            \
        DAT_RETURN got_ = (call), want_ = (want);                                                                   \
        got_ == want_ ? passed++ : failed++;                                                                        \
        printf("%s %s", got_ == want_ ? "ok  " : "FAIL", sentence);                                                 \
        if (got_ != want_)                                                                                          \
            printf(": got 0x%08x, expected 0x%08x (%s, line %d)", got_, want_, #call, __LINE__);                    \
        printf("\n");                                                                                               \
    } while (0)

#define REQUIRE(call)                                                                                               \
    do {                                                                                                            \
        DAT_RETURN got_ = (call);                                                                                   \
        if (got_ != DAT_SUCCESS) {                                                                                  \
            printf("FAIL needed to go on, line %d: 0x%08x (%s)\n%d passed, %d failed\n", __LINE__, got_, #call,     \
                   passed, failed + 1);                                                                             \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

#define OPEN_MAX 8

static DAT_IA_HANDLE ia;
static DAT_EVD_HANDLE async_evd, requests, connections, transfers;
static DAT_PZ_HANDLE pz;
static DAT_EP_HANDLE here, there;

// ---- helpers

static DAT_EVENT event;

static DAT_EVENT_NUMBER next(DAT_EVD_HANDLE evd)
{
    DAT_COUNT more;
    memset(&event, 0xee, sizeof event);
    REQUIRE(dat_evd_wait(evd, 10 * SECONDS, 1, &event, &more));
    return event.event_number;
}

#define transfer event.event_data.dto_completion_event_data
#define extension ((DAT_IB_EXTENSION_EVENT_DATA *)event.event_extension_data)

static DAT_EP_HANDLE endpoint(void)
{
    DAT_EP_ATTR attributes = {
        .max_recv_dtos = 16, .max_request_dtos = 16, .max_recv_iov = 2, .max_request_iov = 2,
        .max_rdma_read_in = 4, .max_rdma_read_out = 4,
    };
    DAT_EP_HANDLE ep;
    REQUIRE(dat_ep_create(ia, pz, transfers, transfers, connections, &attributes, &ep));
    return ep;
}

static DAT_LMR_TRIPLET local(DAT_LMR_CONTEXT context, void *address, uint32_t length)
{
    return (DAT_LMR_TRIPLET){
        .virtual_address = (uintptr_t)address, .segment_length = length, .lmr_context = context,
    };
}

static DAT_RMR_TRIPLET remote(DAT_RMR_CONTEXT context, void *address, uint32_t length)
{
    return (DAT_RMR_TRIPLET){
        .virtual_address = (uintptr_t)address, .segment_length = length, .rmr_context = context,
    };
}

static DAT_DTO_COOKIE cookie(uint64_t number) { return (DAT_DTO_COOKIE){ .as_64 = number }; }

static DAT_LMR_HANDLE register_memory(void *at, size_t length, DAT_MEM_PRIV_FLAGS privileges, DAT_LMR_CONTEXT *context,
                                      DAT_RMR_CONTEXT *for_peers)
{
    DAT_REGION_DESCRIPTION region = { .for_va = at };
    DAT_LMR_HANDLE lmr;
    DAT_VLEN size;
    DAT_VADDR address;
    REQUIRE(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz, privileges, DAT_VA_TYPE_VA, &lmr, context,
                           for_peers, &size, &address));
    return lmr;
}

// ---- parts

static void attributes(void)
{
    DAT_IA_ATTR adapter;
    DAT_PROVIDER_ATTR provider;
    DAT_EVD_HANDLE evd = NULL;
    memset(&adapter, 0xee, sizeof adapter);
    memset(&provider, 0xee, sizeof provider);
    REQUIRE(dat_ia_query(ia, &evd, DAT_IA_FIELD_ALL, &adapter, DAT_PROVIDER_FIELD_ALL, &provider));
    CHECK("the adapter has the name it was opened by", !strcmp(adapter.adapter_name, "nonic"));
    CHECK("its asynchronous events come to the dispatcher that opening made", evd == async_evd);
    CHECK("it has an address of this machine",
          ((struct sockaddr *)adapter.ia_address_ptr)->sa_family == AF_INET);
    CHECK("limits stand where 2.0 has them", adapter.max_pzs > 1 && adapter.max_rmrs > 1 && adapter.max_srqs > 1 &&
          adapter.max_iov_segments_per_rdma_read > 1 && adapter.max_rdma_read_in > 1);
    CHECK("sizes have the 32 bits of 2.0", adapter.max_message_size >= 1u << 30 && adapter.max_rdma_size >= 1u << 30);
    CHECK("it says that it has the extensions", adapter.extension_supported == DAT_EXTENSION_IB &&
          adapter.extension_version == DAT_IB_EXTENSION_VERSION && adapter.zb_supported == DAT_FALSE);
    CHECK("nothing is left unwritten at the end", adapter.num_vendor_attr == 0 && adapter.vendor_attr == NULL &&
          adapter.num_transport_attr == 0);
    CHECK("the provider is one of 2.0", provider.dapl_version_major == 2 && provider.dapl_version_minor == 0 &&
          provider.is_thread_safe == DAT_FALSE && provider.srq_supported == DAT_TRUE);
    CHECK("remote regions belong to a zone", provider.rmr_scope_supported == DAT_RMR_SCOPE_PZ &&
          provider.ha_supported == DAT_FALSE && provider.lmr_sync_req == DAT_FALSE);
    int found = 0;
    for (int i = 0; i < provider.num_provider_specific_attr; i++) {
        const DAT_NAMED_ATTR *attribute = &provider.provider_specific_attr[i];
        found += !strcmp(attribute->name, "DAT_IB_RDMA_READ") && !strcmp(attribute->value, "TRUE");
        found += !strcmp(attribute->name, DAT_IB_ATTR_IMMED_DATA) && !strcmp(attribute->value, "TRUE");
        found += !strcmp(attribute->name, DAT_IB_ATTR_UD);
    }
    CHECK("it has the named attributes of what it does, and not of what it does not", found == 2);
    RETURNS("nothing asked for is nothing written", dat_ia_query(ia, NULL, 0, NULL, 0, NULL), DAT_SUCCESS);
    RETURNS("unknown bits are refused", dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL + 1, &adapter, 0, NULL),
            DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    RETURNS("a missing structure is refused", dat_ia_query(ia, NULL, 1, NULL, 0, NULL),
            DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4));
}

static void handles(void)
{
    DAT_PZ_PARAM zone;
    REQUIRE(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &zone));
    CHECK("objects name the adapter as the program does", zone.ia_handle == ia);
    DAT_HANDLE_TYPE type;
    REQUIRE(dat_get_handle_type(pz, &type));
    CHECK("a handle has its type", type == DAT_HANDLE_TYPE_PZ);
    DAT_CONTEXT context = { .as_64 = 0x1122334455667788 }, back = { .as_64 = 0 };
    REQUIRE(dat_set_consumer_context(pz, context));
    REQUIRE(dat_get_consumer_context(pz, &back));
    CHECK("the program's word comes back", back.as_64 == context.as_64);
    RETURNS("a handle of another kind is refused", dat_pz_free(transfers),
            DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ));
    DAT_PZ_HANDLE other;
    REQUIRE(dat_pz_create(ia, &other));
    RETURNS("calls work through the table as macros make them", DAT_PZ_FREE(other), DAT_SUCCESS);
    RETURNS("a freed handle is refused", dat_pz_free(other), DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ));
    RETURNS("a zone in use is not freed", dat_pz_free(pz), DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE));
    const char *major, *minor;
    REQUIRE(dat_strerror(dat_pz_free(pz), &major, &minor));
    CHECK("the registry finds the words for it", !strcmp(minor, "DAT_INVALID_STATE_PZ_IN_USE"));
}

static void numbers(void)
{
    DAT_EVD_HANDLE evd;
    RETURNS("arguments are counted as in 2.0", dat_evd_create(ia, 0, NULL, DAT_EVD_DTO_FLAG, &evd),
            DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    REQUIRE(dat_evd_create(ia, 4, NULL, DAT_EVD_DTO_FLAG | (DAT_EVD_FLAGS)DAT_IB_EVD_EXTENSION_FLAG, &evd));
    CHECK("a dispatcher may be asked for extended events", evd != NULL);
    RETURNS("an empty dispatcher says so without a class", dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY);
    DAT_COUNT more;
    RETURNS("a wait runs out", dat_evd_wait(evd, 1000, 1, &event, &more), DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
    REQUIRE(dat_evd_set_unwaitable(evd));
    RETURNS("states are counted as in 2.0", dat_evd_wait(evd, 0, 1, &event, &more),
            DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_UNWAITABLE));
    REQUIRE(dat_evd_free(evd));

    DAT_SRQ_ATTR wanted = { .max_recv_dtos = 10, .max_recv_iov = 1, .low_watermark = DAT_SRQ_LW_DEFAULT };
    DAT_SRQ_HANDLE srq;
    DAT_SRQ_PARAM queue;
    REQUIRE(dat_srq_create(ia, pz, &wanted, &srq));
    REQUIRE(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &queue));
    CHECK("a shared receive queue is in the state that 2.0 calls operational",
          queue.srq_state == DAT_SRQ_STATE_OPERATIONAL && queue.ia_handle == ia && queue.pz_handle == pz);
    REQUIRE(dat_srq_free(srq));

    DAT_CNO_HANDLE cno;
    DAT_CNO_PARAM object;
    REQUIRE(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
    REQUIRE(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &object));
    CHECK("a notification object says that it has no proxy",
          object.ia_handle == ia && object.proxy_type == DAT_PROXY_TYPE_NONE);
    DAT_EVD_HANDLE hint = cno;
    RETURNS("a wait on it runs out as in OFED", dat_cno_wait(cno, 1000, &hint), DAT_QUEUE_EMPTY);
    CHECK("and names no dispatcher", hint == NULL);
    REQUIRE(dat_cno_free(cno));
}

static void registration(void)
{
    static char memory[4096];
    DAT_REGION_DESCRIPTION region = { .for_va = memory };
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT context;
    DAT_RMR_CONTEXT for_peers;
    DAT_VLEN size;
    DAT_VADDR address;
#define CREATE(privileges, kind, out)                                                                               \
    dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof memory, pz, (privileges), (kind), (out), &context,      \
                   &for_peers, &size, &address)
    RETURNS("addresses that begin at 0 are not supported", CREATE(DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB, &lmr),
            DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
    RETURNS("an unknown kind of address is refused", CREATE(DAT_MEM_PRIV_ALL_FLAG, (DAT_VA_TYPE)7, &lmr),
            DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG7));
    RETURNS("the place of the handle is the eighth argument", CREATE(DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, NULL),
            DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG8));
    RETURNS("privileges without a meaning are refused", CREATE(0x80, DAT_VA_TYPE_VA, &lmr),
            DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6));
    REQUIRE(CREATE(DAT_MEM_PRIV_ALL_FLAG | (DAT_MEM_PRIV_FLAGS)DAT_IB_MEM_PRIV_REMOTE_ATOMIC, DAT_VA_TYPE_VA, &lmr));
    DAT_LMR_PARAM facts;
    REQUIRE(dat_lmr_query(lmr, DAT_LMR_FIELD_ALL, &facts));
    CHECK("a region says what it is, in the layout of 2.0",
          facts.ia_handle == ia && facts.pz_handle == pz && facts.region_desc.for_va == memory &&
          facts.length == sizeof memory && facts.va_type == DAT_VA_TYPE_VA && facts.lmr_context == context &&
          facts.rmr_context == for_peers && facts.registered_size >= sizeof memory);
    REQUIRE(dat_lmr_free(lmr));
    RETURNS("a cleared adapter's number is no adapter", dat_pz_create((DAT_IA_HANDLE)60, &lmr),
            DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
}

static DAT_PSP_HANDLE listen_at(void)
{
    DAT_PSP_HANDLE psp;
    REQUIRE(dat_psp_create(ia, SERVICE, requests, DAT_PSP_CONSUMER_FLAG, &psp));
    DAT_PSP_HANDLE second;
    RETURNS("a number that is taken is refused", DAT_GET_TYPE(dat_psp_create(ia, SERVICE, requests,
            DAT_PSP_CONSUMER_FLAG, &second)), DAT_CONN_QUAL_IN_USE);
    return psp;
}

static DAT_CR_HANDLE arrival(DAT_PSP_HANDLE psp, const char *data)
{
    DAT_IA_ATTR adapter;
    REQUIRE(dat_ia_query(ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &adapter, 0, NULL));
    REQUIRE(dat_ep_connect(here, adapter.ia_address_ptr, SERVICE, 10 * SECONDS, (int)strlen(data), (void *)data,
                           DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    CHECK("a request arrives", next(requests) == DAT_CONNECTION_REQUEST_EVENT);
    DAT_CR_ARRIVAL_EVENT_DATA *arrived = &event.event_data.cr_arrival_event_data;
    CHECK("it says where, and that nothing was cut off", arrived->sp_handle.psp_handle == psp &&
          arrived->conn_qual == SERVICE && arrived->truncate_flag == DAT_FALSE);
    DAT_CR_HANDLE cr = arrived->cr_handle;
    DAT_CR_PARAM facts;
    REQUIRE(dat_cr_query(cr, DAT_CR_FIELD_ALL, &facts));
    CHECK("it brings the private data, whole and with its size", facts.private_data_size == (int)strlen(data) &&
          !memcmp(facts.private_data, data, strlen(data)));
    return cr;
}

static void connecting(void)
{
    DAT_PSP_HANDLE psp = listen_at();
    DAT_CR_HANDLE cr = arrival(psp, "let me in");
    RETURNS("data without an address cannot be sent with a rejection", dat_cr_reject(cr, 4, NULL),
            DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    REQUIRE(dat_cr_reject(cr, 9, (void *)"no, sorry"));
    CHECK("the peer hears that it was rejected", next(connections) == DAT_CONNECTION_EVENT_PEER_REJECTED);
    DAT_CONNECTION_EVENT_DATA *data = &event.event_data.connect_event_data;
    CHECK("and why", data->ep_handle == here && data->private_data_size == 9 &&
          !memcmp(data->private_data, "no, sorry", 9));
    REQUIRE(dat_ep_reset(here));

    cr = arrival(psp, "once more");
    REQUIRE(dat_cr_accept(cr, there, 2, (void *)"ok"));
    int established = 0;
    for (int i = 0; i < 2; i++) {
        established += next(connections) == DAT_CONNECTION_EVENT_ESTABLISHED;
        if (data->ep_handle == here)
            CHECK("the acceptance brings private data", data->private_data_size == 2 &&
                  !memcmp(data->private_data, "ok", 2));
    }
    CHECK("both sides are told that they are connected", established == 2);
    REQUIRE(dat_psp_free(psp));

    DAT_EP_PARAM ep;
    memset(&ep, 0xee, sizeof ep);
    REQUIRE(dat_ep_query(here, DAT_EP_FIELD_ALL, &ep));
    CHECK("an endpoint says what it is, in the layout of 2.0", ep.ia_handle == ia && ep.pz_handle == pz &&
          ep.ep_state == DAT_EP_STATE_CONNECTED && ep.recv_evd_handle == transfers && ep.srq_handle == NULL &&
          ep.connect_evd_handle == connections && ep.remote_port_qual == SERVICE && ep.comm.domain == AF_INET &&
          ep.ep_attr.max_rdma_read_in == 4 && ep.ep_attr.ep_provider_specific == NULL);
    RETURNS("how an endpoint communicates cannot be changed", dat_ep_modify(here, DAT_EP_FIELD_COMM, &ep),
            DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
}

static void moving(void)
{
    static char mine[64], theirs[64];
    DAT_LMR_CONTEXT my_context, their_context;
    DAT_RMR_CONTEXT ignored, for_peers;
    DAT_LMR_HANDLE my_lmr = register_memory(mine, sizeof mine, DAT_MEM_PRIV_ALL_FLAG, &my_context, &ignored);
    DAT_LMR_HANDLE their_lmr = register_memory(theirs, sizeof theirs, DAT_MEM_PRIV_ALL_FLAG, &their_context, &for_peers);
    DAT_LMR_TRIPLET from = local(my_context, mine, 16), to = local(their_context, theirs, 64);
    DAT_RMR_TRIPLET at = remote(for_peers, theirs + 32, 16);

    strcpy(mine, "a message");
    REQUIRE(dat_ep_post_recv(there, 1, &to, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    REQUIRE(dat_ep_post_send(here, 1, &from, cookie(2), DAT_COMPLETION_DEFAULT_FLAG));
    for (int i = 0; i < 2; i++) {
        CHECK("a transfer completes", next(transfers) == DAT_DTO_COMPLETION_EVENT && transfer.status == DAT_DTO_SUCCESS);
        bool receive = transfer.ep_handle == there;
        CHECK("its event says which, how long and what it was",
              transfer.user_cookie.as_64 == (receive ? 1 : 2) && transfer.transfered_length == 16 &&
              transfer.operation == (receive ? DAT_DTO_RECEIVE : DAT_DTO_SEND));
    }
    CHECK("the message is there", !strcmp(theirs, "a message"));

    strcpy(mine, "written");
    REQUIRE(dat_ep_post_rdma_write(here, 1, &from, cookie(3), &at, DAT_COMPLETION_DEFAULT_FLAG));
    CHECK("a write says so", next(transfers) == DAT_DTO_COMPLETION_EVENT && transfer.operation == DAT_DTO_RDMA_WRITE &&
          transfer.transfered_length == 16 && transfer.user_cookie.as_64 == 3);
    CHECK("it is there", !strcmp(theirs + 32, "written"));
    strcpy(theirs + 32, "to be read");
    REQUIRE(dat_ep_post_rdma_read(here, 1, &from, cookie(4), &at, DAT_COMPLETION_DEFAULT_FLAG));
    CHECK("a read says so", next(transfers) == DAT_DTO_COMPLETION_EVENT && transfer.operation == DAT_DTO_RDMA_READ);
    CHECK("it is here", !strcmp(mine, "to be read"));

    at.segment_length = 64;
    REQUIRE(dat_ep_post_rdma_read(here, 1, &from, cookie(5), &at, DAT_COMPLETION_DEFAULT_FLAG));
    CHECK("the remote segment's own length does not count, as in OFED",
          next(transfers) == DAT_DTO_COMPLETION_EVENT && transfer.status == DAT_DTO_SUCCESS &&
          transfer.transfered_length == 16);

    // Windows.
    DAT_RMR_HANDLE rmr;
    DAT_RMR_CONTEXT bound = 0;
    DAT_RMR_PARAM facts;
    DAT_LMR_TRIPLET part = local(their_context, theirs + 32, 16);
    REQUIRE(dat_rmr_create(pz, &rmr));
#define BIND(lmr, kind, flags) \
    dat_rmr_bind(rmr, (lmr), &part, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, (kind), there, cookie(6), (flags), &bound)
    RETURNS("the region of a bind is told twice, and has to be the same", BIND(my_lmr, DAT_VA_TYPE_VA, 0),
            DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    RETURNS("its handle is judged", BIND(rmr, DAT_VA_TYPE_VA, 0),
            DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR));
    RETURNS("windows do not begin at 0", BIND(their_lmr, DAT_VA_TYPE_ZB, 0), DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
    RETURNS("flags are the eighth argument", BIND(their_lmr, DAT_VA_TYPE_VA, 0x1000),
            DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG8));
    REQUIRE(BIND(their_lmr, DAT_VA_TYPE_VA, DAT_COMPLETION_DEFAULT_FLAG));
    CHECK("a bind completes with its own event", next(transfers) == DAT_RMR_BIND_COMPLETION_EVENT &&
          event.event_data.rmr_completion_event_data.rmr_handle == rmr &&
          event.event_data.rmr_completion_event_data.user_cookie.as_64 == 6 &&
          event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS);
    REQUIRE(dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, &facts));
    CHECK("a window says what it is, in the layout of 2.0", facts.ia_handle == ia && facts.pz_handle == pz &&
          facts.lmr_triplet.virtual_address == (uintptr_t)(theirs + 32) && facts.lmr_triplet.segment_length == 16 &&
          facts.lmr_triplet.lmr_context == their_context && facts.rmr_context == bound &&
          facts.rmr_scope == DAT_RMR_SCOPE_PZ && facts.va_type == DAT_VA_TYPE_VA &&
          facts.mem_priv == DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    strcpy(mine, "by window");
    at = remote(bound, theirs + 32, 16);
    REQUIRE(dat_ep_post_rdma_write(here, 1, &from, cookie(7), &at, DAT_COMPLETION_DEFAULT_FLAG));
    CHECK("a write goes through it", next(transfers) == DAT_DTO_COMPLETION_EVENT && !strcmp(theirs + 32, "by window"));
    REQUIRE(dat_rmr_free(rmr));
    REQUIRE(dat_lmr_free(my_lmr));
    REQUIRE(dat_lmr_free(their_lmr));
}

static void extensions(void)
{
    static _Alignas(64) uint64_t before, word;
    static char mine[32], theirs[32];
    const DAT_MEM_PRIV_FLAGS atomic = DAT_MEM_PRIV_ALL_FLAG | (DAT_MEM_PRIV_FLAGS)DAT_IB_MEM_PRIV_REMOTE_ATOMIC;
    DAT_LMR_CONTEXT result_context, word_context, my_context, their_context;
    DAT_RMR_CONTEXT ignored, word_for_peers, for_peers;
    DAT_LMR_HANDLE regions[4] = {
        register_memory(&before, 8, DAT_MEM_PRIV_ALL_FLAG, &result_context, &ignored),
        register_memory(&word, 8, atomic, &word_context, &word_for_peers),
        register_memory(mine, sizeof mine, DAT_MEM_PRIV_ALL_FLAG, &my_context, &ignored),
        register_memory(theirs, sizeof theirs, DAT_MEM_PRIV_ALL_FLAG, &their_context, &for_peers),
    };
    DAT_LMR_TRIPLET result = local(result_context, &before, 8);
    DAT_RMR_TRIPLET at = remote(word_for_peers, &word, 8);

    word = 40;
    REQUIRE(dat_ib_post_fetch_and_add(here, 2, &result, cookie(10), &at, DAT_COMPLETION_DEFAULT_FLAG));
    CHECK("a fetch and add ends with an extended event", next(transfers) == (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT &&
          extension->type == DAT_IB_FETCH_AND_ADD && transfer.status == DAT_DTO_SUCCESS &&
          transfer.user_cookie.as_64 == 10 && transfer.operation == (DAT_DTOS)DAT_IB_DTO_FETCH_ADD);
    CHECK("it added, and tells what was there", word == 42 && before == 40);
    REQUIRE(dat_ib_post_cmp_and_swap(here, 42, 7, &result, cookie(11), &at, DAT_COMPLETION_DEFAULT_FLAG));
    CHECK("so does a compare and swap", next(transfers) == (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT &&
          extension->type == DAT_IB_CMP_AND_SWAP && transfer.user_cookie.as_64 == 11);
    CHECK("it swapped what was equal", word == 7 && before == 42);
    REQUIRE(dat_ib_post_cmp_and_swap(here, 42, 8, &result, cookie(12), &at, DAT_COMPLETION_DEFAULT_FLAG));
    next(transfers);
    CHECK("and nothing that was not", word == 7 && before == 7);

    DAT_LMR_TRIPLET from = local(my_context, mine, 32), to = local(their_context, theirs, 32);
    at = remote(for_peers, theirs, 32);
    strcpy(mine, "with a word");
    REQUIRE(dat_ep_post_recv(there, 1, &to, cookie(20), DAT_COMPLETION_DEFAULT_FLAG));
    REQUIRE(dat_ib_post_rdma_write_immed(here, 1, &from, cookie(21), &at, 0x12345678, DAT_COMPLETION_DEFAULT_FLAG));
    for (int i = 0; i < 2; i++) {
        CHECK("a write with immediate data ends with an extended event",
              next(transfers) == (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT && transfer.status == DAT_DTO_SUCCESS);
        if (transfer.ep_handle == here)
            CHECK("its initiator is told so", extension->type == DAT_IB_RDMA_WRITE_IMMED &&
                  transfer.user_cookie.as_64 == 21 && transfer.transfered_length == 32);
        else
            CHECK("its target has the data, the length and the word", extension->type == DAT_IB_RDMA_WRITE_IMMED_DATA &&
                  extension->val.immed.data == 0x12345678 && transfer.user_cookie.as_64 == 20 &&
                  transfer.transfered_length == 32 && !strcmp(theirs, "with a word"));
    }
    RETURNS("what is not there is not supported", dat_extension_op(here, DAT_IB_COLLECTIVE_BARRIER_OP, 0),
            DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
    RETURNS("extensions are for endpoints", dat_ib_post_fetch_and_add(pz, 2, &result, cookie(10), &at, 0),
            DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
    for (int i = 0; i < 4; i++)
        REQUIRE(dat_lmr_free(regions[i]));

    // A word that peers have no right to change: the connection breaks, as with every forbidden access.
    DAT_LMR_HANDLE no_right = register_memory(&word, 8, DAT_MEM_PRIV_ALL_FLAG, &word_context, &word_for_peers);
    DAT_LMR_HANDLE place = register_memory(&before, 8, DAT_MEM_PRIV_ALL_FLAG, &result_context, &ignored);
    result = local(result_context, &before, 8);
    at = remote(word_for_peers, &word, 8);
    REQUIRE(dat_ib_post_fetch_and_add(here, 2, &result, cookie(30), &at, DAT_COMPLETION_DEFAULT_FLAG));
    next(transfers);
    CHECK("without the privilege an atomic is refused", transfer.status == DAT_DTO_ERR_REMOTE_ACCESS && word == 7);
    CHECK("and the connection is broken", next(connections) == DAT_CONNECTION_EVENT_BROKEN);
    CHECK("at both ends", next(connections) == DAT_CONNECTION_EVENT_BROKEN);
    REQUIRE(dat_lmr_free(no_right));
    REQUIRE(dat_lmr_free(place));
}

static void not_there(void)
{
    DAT_EP_PARAM ep;
    REQUIRE(dat_ep_query(here, DAT_EP_FIELD_ALL, &ep));
    CHECK("without a peer there is an address to look at all the same, and it says nothing",
          ep.ep_state == DAT_EP_STATE_DISCONNECTED && ep.remote_ia_address_ptr &&
          ep.remote_ia_address_ptr->sa_family == AF_UNSPEC);
    DAT_PROVIDER *table = DAT_HANDLE_TO_PROVIDER(pz);
    const DAT_RETURN refusal = DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, 0);
    CHECK("the table has the name of the adapter", !strcmp(table->device_name, "nonic"));
    RETURNS("no descriptors for notification objects", table->cno_fd_create_func(NULL, NULL, NULL), refusal);
    RETURNS("no common service points", table->csp_create_func(NULL, NULL, NULL, NULL, NULL), refusal);
    RETURNS("no connecting to them", table->ep_common_connect_func(here, NULL, 0, 0, NULL), refusal);
    RETURNS("no windows of one endpoint", table->rmr_create_for_ep_func(pz, NULL), refusal);
    RETURNS("no reads to windows", table->ep_post_rdma_read_to_rmr_func(here, NULL, cookie(0), NULL, 0), refusal);
}

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void names(void)
{
    static char *all[] = { "nonic", "nonic-noncoherent", "ofa-v2-ib0", "OpenIB-cma" };
    DAT_PROVIDER_INFO infos[128], *list[128];
    for (int i = 0; i < 128; i++)
        list[i] = &infos[i];
    DAT_COUNT count = 0;
    REQUIRE(dat_registry_list_providers(128, &count, list));
    int found = 0;
    for (int i = 0; i < count; i++)
        for (int name = 0; name < 4; name++)
            found += !strcmp(infos[i].ia_name, all[name]);
    CHECK("the registry lists the adapter by its names", found == 4);
    for (int name = 0; name < 4; name++) {
        DAT_EVD_HANDLE evd = NULL;
        DAT_IA_HANDLE other;
        DAT_IA_ATTR adapter;
        DAT_PROVIDER_ATTR provider;
        REQUIRE(dat_ia_open(all[name], 8, &evd, &other));
        REQUIRE(dat_ia_query(other, NULL, DAT_IA_FIELD_ALL, &adapter, DAT_PROVIDER_FIELD_ALL, &provider));
        CHECK("an adapter has the name by which it was opened", !strcmp(adapter.adapter_name, all[name]));
        CHECK("only the one that says so by its name has to be synchronized", provider.lmr_sync_req == (name == 1));
        REQUIRE(dat_ia_close(other, DAT_CLOSE_GRACEFUL_FLAG));
    }
    DAT_IA_HANDLE none;
    DAT_EVD_HANDLE evd = NULL;
    RETURNS("a name that is in no file is not found", DAT_GET_TYPE(dat_ia_open("no-such-adapter", 8, &evd, &none)),
            DAT_PROVIDER_NOT_FOUND);

    int before = descriptors();
    for (int i = 0; i < 50; i++) {
        DAT_IA_HANDLE open[OPEN_MAX];
        for (int j = 0; j < OPEN_MAX; j++) {
            DAT_EVD_HANDLE own = NULL;
            DAT_PZ_HANDLE zone;
            REQUIRE(dat_ia_open(all[j % 4], 8, &own, &open[j]));
            REQUIRE(dat_pz_create(open[j], &zone));
        }
        for (int j = 0; j < OPEN_MAX; j++)
            REQUIRE(dat_ia_close(open[j], DAT_CLOSE_ABRUPT_FLAG));
    }
    CHECK("opening and closing leaves no descriptor behind", descriptors() <= before);
}

int main(void)
{
    REQUIRE(dat_ia_open("nonic", 8, &async_evd, &ia));
    REQUIRE(dat_pz_create(ia, &pz));
    REQUIRE(dat_evd_create(ia, 8, NULL, DAT_EVD_CR_FLAG, &requests));
    REQUIRE(dat_evd_create(ia, 8, NULL, DAT_EVD_CONNECTION_FLAG, &connections));
    REQUIRE(dat_evd_create(ia, 64, NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &transfers));
    here = endpoint();
    there = endpoint();
    attributes();
    handles();
    numbers();
    registration();
    connecting();
    moving();
    extensions();
    not_there();
    RETURNS("a graceful close is refused while there are objects", dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG),
            DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE));
    REQUIRE(dat_ep_free(here));
    REQUIRE(dat_ep_free(there));
    REQUIRE(dat_evd_free(requests));
    REQUIRE(dat_evd_free(connections));
    REQUIRE(dat_evd_free(transfers));
    REQUIRE(dat_pz_free(pz));
    RETURNS("and done when they are gone", dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
    names();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
