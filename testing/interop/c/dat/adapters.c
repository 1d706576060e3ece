// Adapters, the registry, attributes, and words for codes: what is opened under which name, what every field says, what is
// refused, and what closing takes along.

#include "ends.h"

#define LONG_ENOUGH (1u << 20)

static DAT_IA_HANDLE ia = (void *)0x1234;
static DAT_EVD_HANDLE async;

static DAT_RETURN open_as(const char *name, int length, unsigned major, unsigned minor, DAT_BOOLEAN safe)
{
    async = DAT_HANDLE_NULL;
    ia = (void *)0x1234;
    return dat_ia_openv((DAT_NAME_PTR)name, length, &async, &ia, major, minor, safe);
}

#define NO_ADAPTER(sentence, call, wanted)                                                                           \
    do {                                                                                                             \
        CHECK_CODE("ia", sentence, call, wanted);                                                                    \
        CHECK("ia", "... and nothing was opened", ia == (void *)0x1234 && async == DAT_HANDLE_NULL);                 \
    } while (0)

static void opening(void)
{
    chapter("opening");
    static char long_name[400];
    const char *names[] = {"nonic", "nonic-noncoherent", "RO_AWARE_nonic", "OpenIB-cma", "ofa-v2-ib0",
                           "ofa-v2-mlx4_0-1u", "ibd0", "RO_AWARE_OpenIB-cma"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        DAT_IA_ATTR attributes;
        CHECK_DONE("ia", names[i], open_as(names[i], 8, DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_THREADSAFE));
        CHECK("ia", "... is opened, with an asynchronous dispatcher", ia != (void *)0x1234 && ia && async &&
              async != DAT_EVD_OUT_OF_SCOPE);
        MUST(dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attributes, 0, NULL));
        CHECK("ia", "... and says its name, without what only says how to open it",
              strcmp(attributes.adapter_name, strncmp(names[i], "RO_AWARE_", 9) ? names[i] : names[i] + 9) == 0);
        CHECK_DONE("ia", "... and closed", dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
    }
    memset(long_name, 'x', sizeof long_name - 1);
    NO_ADAPTER("no name", open_as(NULL, 8, 1, 2, DAT_FALSE), BAD_ARGUMENT(1));
    NO_ADAPTER("a name that is too long", open_as(long_name, 8, 1, 2, DAT_FALSE), BAD_ARGUMENT(1));
    NO_ADAPTER("a name that nobody has", open_as("no such adapter", 8, 1, 2, DAT_FALSE),
               ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
    NO_ADAPTER("an empty one", open_as("", 8, 1, 2, DAT_FALSE), ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
    NO_ADAPTER("another major version", open_as("nonic", 8, 7, 2, DAT_FALSE),
               ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND));
    NO_ADAPTER("another minor version", open_as("nonic", 8, 1, 77, DAT_FALSE),
               ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MINOR_NOT_FOUND));
    CHECK("ia", "... and nothing was opened", ia == (void *)0x1234);
    CHECK_CODE("ia", "no place for the handle", dat_ia_openv((DAT_NAME_PTR) "nonic", 8, &async, NULL, 1, 2, DAT_FALSE),
               BAD_HANDLE(IA));
    CHECK("ia", "no room for asynchronous events", open_as("nonic", -1, 1, 2, DAT_FALSE) != DAT_SUCCESS &&
          ia == (void *)0x1234);

    chapter("the asynchronous dispatcher");
    DAT_IA_HANDLE first, second;
    DAT_EVD_HANDLE own = DAT_HANDLE_NULL, given, asked;
    DAT_EVD_PARAM p;
    MUST(dat_ia_open((DAT_NAME_PTR) "nonic", 20, &own, &first));
    MUST(dat_evd_query(own, DAT_EVD_FIELD_ALL, &p));
    CHECK("ia", "has the room that was asked for", p.evd_qlen >= 20 && p.evd_flags == DAT_EVD_ASYNC_FLAG);
    given = own;
    CHECK_DONE("ia", "another adapter is given it", dat_ia_open((DAT_NAME_PTR) "nonic", 8, &given, &second));
    CHECK("ia", "... and has it", given == own && dat_ia_query(second, &asked, 0, NULL, 0, NULL) == DAT_SUCCESS &&
          asked == own);
    CHECK_TYPE("ia", "the first does not close under it", dat_ia_close(first, DAT_CLOSE_GRACEFUL_FLAG),
               DAT_INVALID_STATE);
    CHECK_DONE("ia", "the second closes", dat_ia_close(second, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_DONE("ia", "... and leaves it", dat_evd_query(own, DAT_EVD_FIELD_ALL, &p));
    given = DAT_EVD_ASYNC_EXISTS;
    CHECK_DONE("ia", "one that exists somewhere", dat_ia_open((DAT_NAME_PTR) "nonic", 8, &given, &second));
    CHECK("ia", "... is out of scope", given == DAT_EVD_OUT_OF_SCOPE);
    MUST(dat_ia_close(second, DAT_CLOSE_GRACEFUL_FLAG));
    given = (DAT_EVD_HANDLE)near->pz;
    second = (void *)0x1234;
    CHECK_TYPE("ia", "a zone is none", dat_ia_open((DAT_NAME_PTR) "nonic", 8, &given, &second), DAT_INVALID_HANDLE);
    given = near->receives;
    CHECK("ia", "nor is a dispatcher of other events",
          dat_ia_open((DAT_NAME_PTR) "nonic", 8, &given, &second) != DAT_SUCCESS && second == (void *)0x1234);
    MUST(dat_ia_close(first, DAT_CLOSE_GRACEFUL_FLAG));
}

static void attributes(void)
{
    chapter("attributes");
    DAT_IA_ATTR a;
    DAT_PROVIDER_ATTR p;
    DAT_EVD_HANDLE asked = DAT_HANDLE_NULL;
    memset(&a, 0x5a, sizeof a);
    memset(&p, 0x5a, sizeof p);
    MUST(dat_ia_query(near->ia, &asked, DAT_IA_FIELD_ALL, &a, DAT_PROVIDER_FIELD_ALL, &p));
    CHECK("ia", "the asynchronous dispatcher is told", asked == near->async);
    CHECK("ia", "names end", memchr(a.adapter_name, 0, 256) && memchr(a.vendor_name, 0, 256) &&
          memchr(p.provider_name, 0, 256) && a.vendor_name[0]);
    const int32_t counts[] = {a.max_eps, a.max_dto_per_ep, a.max_rdma_read_per_ep_in, a.max_rdma_read_per_ep_out,
                              a.max_evds, a.max_evd_qlen,
                              a.max_iov_segments_per_dto, a.max_lmrs, a.max_pzs, a.max_rmrs, a.max_srqs, a.max_ep_per_srq, a.max_recv_per_srq,
                              a.max_iov_segments_per_rdma_read, a.max_iov_segments_per_rdma_write, a.max_rdma_read_in, a.max_rdma_read_out};
    bool sensible = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        sensible &= counts[i] > 0 && counts[i] != 0x5a5a5a5a;
    CHECK("ia", "every limit is written, and above 0", sensible);
    CHECK("ia", "10,000 endpoints fit", a.max_eps >= 10000);
    CHECK("ia", "sizes are written", a.max_lmr_block_size && a.max_lmr_block_size != 0x5a5a5a5a5a5a5a5a &&
          a.max_message_size >= LONG_ENOUGH && a.max_rdma_size >= LONG_ENOUGH &&
                                         a.max_lmr_virtual_address > address_of(near->room) && a.max_rmr_target_address > address_of(near->room));
    CHECK("ia", "guarantees are written", a.max_rdma_read_per_ep_in_guaranteed == DAT_TRUE ||
          a.max_rdma_read_per_ep_in_guaranteed == DAT_FALSE);
    CHECK("ia", "lists have lengths", a.num_transport_attr >= 0 && a.num_transport_attr < 100 &&
          a.num_vendor_attr >= 0 && a.num_vendor_attr < 100);
    CHECK("ia", "the address is one of this host", a.ia_address_ptr &&
          (a.ia_address_ptr->sa_family == AF_INET || a.ia_address_ptr->sa_family == AF_INET6));
    ((struct sockaddr_in *)a.ia_address_ptr)->sin_port = htons(4711); // some programs write to it
    ((struct sockaddr_in *)a.ia_address_ptr)->sin_port = 0;
    CHECK("ia", "versions are those of the interface", p.dapl_version_major == 1 && p.dapl_version_minor == 2);
    CHECK("ia", "plain, derived and shared memory", (p.lmr_mem_types_supported & 3) == 3);
    CHECK("ia", "segments come back to the program", p.iov_ownership_on_return == DAT_IOV_CONSUMER);
    CHECK("ia", "one class of service", p.dat_qos_supported == DAT_QOS_BEST_EFFORT);
    CHECK("ia", "private data, alignment", p.max_private_data_size >= 64 &&
          p.optimal_buffer_alignment == DAT_OPTIMAL_ALIGNMENT);
    CHECK("ia", "one path", p.supports_multipath == DAT_FALSE);
    CHECK("ia", "endpoints by the provider if it is asked", p.ep_creator == DAT_PSP_CREATES_EP_IFASKED);
    CHECK("ia", "zones are unique", p.pz_support == DAT_PZ_UNIQUE);
    CHECK("ia", "shared receive queues", p.srq_supported == DAT_TRUE);
    CHECK("ia", "the rest is written", p.is_thread_safe <= 1 && p.lmr_sync_req <= 1 &&
          p.dto_async_return_guaranteed <= 1 &&
                                           p.rdma_write_for_rdma_read_req == DAT_FALSE && p.num_provider_specific_attr >= 0 && p.num_provider_specific_attr < 100);
    for (int i = 0; i < p.num_provider_specific_attr; i++)
        CHECK("ia", "named attributes have names and values", p.provider_specific_attr[i].name &&
              p.provider_specific_attr[i].value);
    bool merges = true;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            merges &= p.evd_stream_merging_supported[i][k] <= 1 && p.evd_stream_merging_supported[i][k] == p.evd_stream_merging_supported[k][i];
    CHECK("ia", "the table of merges is symmetric", merges);
    DAT_IA_ATTR before = a;
    CHECK_CODE("ia", "fields that do not exist", dat_ia_query(near->ia, NULL, 1ull << 40, &a, 0, NULL),
               BAD_ARGUMENT(3));
    CHECK_CODE("ia", "no place for them", dat_ia_query(near->ia, NULL, DAT_IA_FIELD_ALL, NULL, 0, NULL),
               BAD_ARGUMENT(4));
    CHECK_CODE("ia", "no place for the provider's",
               dat_ia_query(near->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, NULL), BAD_ARGUMENT(6));
    CHECK("ia", "... and nothing was written", memcmp(&before, &a, sizeof a) == 0);
    CHECK_DONE("ia", "nothing is asked for", dat_ia_query(near->ia, NULL, 0, NULL, 0, NULL));
}

static void registry(void)
{
    chapter("the registry");
    DAT_PROVIDER_INFO infos[512], *list[512];
    DAT_COUNT n = -7;
    for (int i = 0; i < 512; i++)
        list[i] = &infos[i];
    CHECK_CODE("registry", "no place for the number", dat_registry_list_providers(512, NULL, list), BAD_ARGUMENT(2));
    CHECK_CODE("registry", "no list", dat_registry_list_providers(512, &n, NULL), BAD_ARGUMENT(3));
    CHECK_CODE("registry", "a list of none tells how many there are", dat_registry_list_providers(0, &n, NULL),
               BAD_ARGUMENT(1));
    CHECK("registry", "... at least ours", n >= 1 && n <= 512);
    DAT_COUNT total = n;
    CHECK_DONE("registry", "the list", dat_registry_list_providers(512, &n, list));
    CHECK_EQ("registry", "... has as many", n, total);
    bool ours = false;
    for (int i = 0; i < n; i++)
        ours |= strcmp(infos[i].ia_name,
                       "nonic") == 0 && infos[i].dapl_version_major == 1 && infos[i].dapl_version_minor == 2;
    CHECK("registry", "... with ours", ours);
    DAT_PROVIDER provider;
    DAT_PROVIDER_INFO info;
    memset(&provider, 0, sizeof provider);
    memset(&info, 0, sizeof info);
    strcpy(info.ia_name, "an outside provider");
    info.dapl_version_major = 1;
    info.dapl_version_minor = 2;
    provider.device_name = info.ia_name;
    CHECK_CODE("registry", "no provider", dat_registry_add_provider(NULL, &info), BAD_ARGUMENT(1));
    CHECK_CODE("registry", "no description", dat_registry_add_provider(&provider, NULL), BAD_ARGUMENT(2));
    CHECK_DONE("registry", "one is added", dat_registry_add_provider(&provider, &info));
    CHECK_TYPE("registry", "... and not again", dat_registry_add_provider(&provider, &info),
               DAT_PROVIDER_ALREADY_REGISTERED);
    CHECK_DONE("registry", "... and removed", dat_registry_remove_provider(&provider, &info));
    CHECK("registry", "... and not again", dat_registry_remove_provider(&provider, &info) != DAT_SUCCESS);
}

static void in_words(void)
{
    chapter("codes in words");
    const char *major = NULL, *minor = NULL;
    int missing = 0, seen = 0;
    for (unsigned type = 0; type <= 0x14; type++)
        for (unsigned subtype = 0; subtype <= 102; subtype++) {
            DAT_RETURN code = (type ? DAT_CLASS_ERROR : 0) | type << 16 | subtype;
            major = minor = NULL;
            if (dat_strerror(code, &major, &minor) != DAT_SUCCESS || !major || !minor)
                missing += subtype < 102;
            else
                seen += strncmp(major, "DAT_", 4) == 0 && (subtype ? strncmp(minor, "DAT_", 4) == 0 : minor[0] == 0);
        }
    CHECK("strerror", "every code has words", missing == 0 && seen >= 0x15 * 102);
    MUST(dat_strerror(BAD_HANDLE(EP), &major, &minor));
    CHECK("strerror", "... the names of the header", strcmp(major, "DAT_INVALID_HANDLE") == 0 &&
          strcmp(minor, "DAT_INVALID_HANDLE_EP") == 0);
    MUST(dat_strerror(DAT_QUEUE_EMPTY, &major, &minor));
    CHECK("strerror", "... with and without the class", strcmp(major, "DAT_QUEUE_EMPTY") == 0 && minor[0] == 0);
    major = minor = (const char *)&seen;
    CHECK_CODE("strerror", "a type that does not exist", dat_strerror(0x80770000, &major, &minor),
               DAT_INVALID_PARAMETER);
    CHECK_CODE("strerror", "a subtype that does not exist", dat_strerror(0x80060777, &major, &minor),
               DAT_INVALID_PARAMETER);
    CHECK("strerror", "... and nothing was written", major == (const char *)&seen && minor == (const char *)&seen);
    CHECK("strerror", "no place for the words", dat_strerror(BAD_HANDLE(EP), NULL, NULL) != DAT_SUCCESS);
}

static void closing(void)
{
    chapter("closing");
    DAT_PZ_HANDLE pz;
    MUST(open_as(adapter_name(), 8, 1, 2, DAT_FALSE));
    CHECK_CODE("ia", "flags that do not exist", dat_ia_close(ia, (DAT_CLOSE_FLAGS)5), BAD_ARGUMENT(2));
    MUST(dat_pz_create(ia, &pz));
    CHECK_CODE("ia", "gracefully, with a zone in it", dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
    DAT_PZ_PARAM p;
    CHECK_DONE("ia", "... changes nothing", dat_pz_query(pz, DAT_PZ_FIELD_ALL, &p));
    CHECK("ia", "... at all", p.ia_handle == ia);
    CHECK_CODE("pz", "a query of fields that do not exist", dat_pz_query(pz, (DAT_PZ_PARAM_MASK)2, &p),
               BAD_ARGUMENT(2));
    CHECK_CODE("pz", "a query into nothing", dat_pz_query(pz, DAT_PZ_FIELD_ALL, NULL), BAD_ARGUMENT(3));
    CHECK_TYPE("pz", "no place for one", dat_pz_create(ia, NULL), DAT_INVALID_PARAMETER);
    MUST(dat_pz_free(pz));
    CHECK_DONE("ia", "without it closes", dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK_CODE("ia", "... once", dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
    // With everything in it, connected.
    struct end kept = *near;
    open_end(near);
    connect_ends();
    DAT_RMR_HANDLE rmr;
    DAT_RMR_CONTEXT context;
    DAT_LMR_TRIPLET part_of_room = piece(near->local, near->room, 64);
    DAT_CONN_QUAL service;
    DAT_CNO_HANDLE cno;
    MUST(dat_rmr_create(near->pz, &rmr));
    MUST(dat_rmr_bind(rmr, &part_of_room, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, near->ep, cookie(1), 0, &context));
    REQUIRE(next_done(near->requests).status == 0);
    MUST(dat_cno_create(near->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
    MUST(dat_evd_modify_cno(near->receives, cno));
    MUST(dat_psp_create_any(near->ia, &service, near->arrivals, DAT_PSP_CONSUMER_FLAG, &near->psp));
    REQUIRE(CALL(near, receive, 0, 64, 1) == 0);
    CHECK_DONE("ia", "abruptly, with everything in it", dat_ia_close(near->ia, DAT_CLOSE_ABRUPT_FLAG));
    CHECK_EQ("ia", "... its peer is told", at_far(next_connection), DAT_CONNECTION_EVENT_DISCONNECTED);
    at_far(drop_endpoint);
    *near = kept;
    CALL(near, make_endpoint);
    MUST(ask(near, service, PATIENCE, 0, NULL));
    CHECK_EQ("ia", "... nobody listens at its service point", CALL(near, next_connection),
             DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CALL(near, drop_endpoint);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    opening();
    attributes();
    registry();
    in_words();
    closing();
    connect_ends();
    REQUIRE(talks());
    part();
    return end();
}
