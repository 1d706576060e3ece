// Every call with every handle that is none: NULL, numbers, addresses of nothing, of other things, of other objects, of
// objects that were freed. All are refused by name, none crashes, and everything works afterwards.

#include "ends.h"

enum kind { IA, EP, LMR, RMR, PZ, PSP, RSP, CR, CNO, EVD, SRQ, KINDS };
static const char *const NAMES[KINDS] = {"IA", "EP", "LMR", "RMR", "PZ", "PSP", "RSP", "CR", "CNO", "EVD", "SRQ"};

static DAT_HANDLE live[KINDS], dead[KINDS];

typedef DAT_RETURN (*thunk)(DAT_HANDLE h);

struct call {
    const char *name;
    enum kind kind;
    thunk call;
    DAT_RETURN subtype; // 0: whatever
};

// Results go here, so that a call with a good handle would have places for them.
static union {
    DAT_IA_ATTR ia;
    DAT_PROVIDER_ATTR provider;
    DAT_EP_PARAM ep;
    DAT_EVD_PARAM evd;
    DAT_CNO_PARAM cno;
    DAT_CR_PARAM cr;
    DAT_PSP_PARAM psp;
    DAT_RSP_PARAM rsp;
    DAT_PZ_PARAM pz;
    DAT_LMR_PARAM lmr;
    DAT_RMR_PARAM rmr;
    DAT_SRQ_PARAM srq;
    DAT_EVENT event;
    DAT_CONTEXT context;
    DAT_HANDLE_TYPE type;
    DAT_HANDLE handle;
    DAT_CONN_QUAL qualifier;
    DAT_EP_STATE state;
    DAT_COUNT counts[2];
} out;

static DAT_LMR_TRIPLET segment;
static DAT_RMR_TRIPLET remote;
static DAT_EP_ATTR attributes;
static DAT_SRQ_ATTR srq_attributes = {.max_recv_dtos = 4, .max_recv_iov = 1, .low_watermark = DAT_SRQ_LW_DEFAULT};

#define NO_AGENT DAT_OS_WAIT_PROXY_AGENT_NULL

#define CALLS(X)                                                                                                     \
    X(IA, dat_ia_query, (h, NULL, DAT_IA_FIELD_ALL, &out.ia, 0, NULL))                                               \
    X(IA, dat_ia_close, (h, DAT_CLOSE_ABRUPT_FLAG))                                                                  \
    X(IA, dat_cno_create, (h, agent, &out.handle))                                                                   \
    X(IA, dat_evd_create, (h, 8, NULL, DAT_EVD_DTO_FLAG, &out.handle))                                               \
    X(IA, dat_ep_create, (h, near->pz, near->receives, near->requests, near->connections, NULL, &out.handle))        \
    X(IA, dat_ep_create_with_srq,                                                                                    \
      (h, near->pz, near->receives, near->requests, near->connections, live[SRQ], &attributes, &out.handle))         \
    X(IA, dat_lmr_create, (h, DAT_MEM_TYPE_VIRTUAL, here, PAGE, near->pz, ALL_PRIVILEGES, &out.handle, NULL, NULL, NULL, NULL)) \
    X(IA, dat_lmr_sync_rdma_read, (h, &segment, 1))                                                                  \
    X(IA, dat_lmr_sync_rdma_write, (h, &segment, 1))                                                                 \
    X(IA, dat_psp_create, (h, 4711, near->arrivals, DAT_PSP_CONSUMER_FLAG, &out.handle))                             \
    X(IA, dat_psp_create_any, (h, &out.qualifier, near->arrivals, DAT_PSP_CONSUMER_FLAG, &out.handle))               \
    X(IA, dat_rsp_create, (h, 4711, live[EP], near->arrivals, &out.handle))                                          \
    X(IA, dat_pz_create, (h, &out.handle))                                                                           \
    X(IA, dat_srq_create, (h, near->pz, &srq_attributes, &out.handle))                                               \
    X(EP, dat_ep_query, (h, DAT_EP_FIELD_ALL, &out.ep))                                                              \
    X(EP, dat_ep_modify, (h, DAT_EP_FIELD_PZ_HANDLE, &out.ep))                                                       \
    X(EP, dat_ep_get_status, (h, &out.state, NULL, NULL))                                                            \
    X(EP, dat_ep_connect, (h, address_of_end(near), 4711, PATIENCE, 0, NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG)) \
    X(EP, dat_ep_dup_connect, (h, near->ep, PATIENCE, 0, NULL, DAT_QOS_BEST_EFFORT))                                 \
    X(EP, dat_ep_disconnect, (h, DAT_CLOSE_ABRUPT_FLAG))                                                             \
    X(EP, dat_ep_reset, (h))                                                                                         \
    X(EP, dat_ep_free, (h))                                                                                          \
    X(EP, dat_ep_post_send, (h, 1, &segment, cookie(1), DAT_COMPLETION_DEFAULT_FLAG))                                \
    X(EP, dat_ep_post_recv, (h, 1, &segment, cookie(1), DAT_COMPLETION_DEFAULT_FLAG))                                \
    X(EP, dat_ep_post_rdma_read, (h, 1, &segment, cookie(1), &remote, DAT_COMPLETION_DEFAULT_FLAG))                  \
    X(EP, dat_ep_post_rdma_write, (h, 1, &segment, cookie(1), &remote, DAT_COMPLETION_DEFAULT_FLAG))                 \
    X(EP, dat_ep_recv_query, (h, &out.counts[0], &out.counts[1]))                                                    \
    X(EP, dat_ep_set_watermark, (h, 1, 2))                                                                           \
    X(LMR, dat_lmr_query, (h, DAT_LMR_FIELD_ALL, &out.lmr))                                                          \
    X(LMR, dat_lmr_free, (h))                                                                                        \
    X(RMR, dat_rmr_query, (h, DAT_RMR_FIELD_ALL, &out.rmr))                                                          \
    X(RMR, dat_rmr_bind, (h, &segment, DAT_MEM_PRIV_REMOTE_READ_FLAG, near->ep, cookie(1), DAT_COMPLETION_DEFAULT_FLAG, NULL)) \
    X(RMR, dat_rmr_free, (h))                                                                                        \
    X(PZ, dat_pz_query, (h, DAT_PZ_FIELD_ALL, &out.pz))                                                              \
    X(PZ, dat_pz_free, (h))                                                                                          \
    X(PZ, dat_rmr_create, (h, &out.handle))                                                                          \
    X(PSP, dat_psp_query, (h, DAT_PSP_FIELD_ALL, &out.psp))                                                          \
    X(PSP, dat_psp_free, (h))                                                                                        \
    X(RSP, dat_rsp_query, (h, DAT_RSP_FIELD_ALL, &out.rsp))                                                          \
    X(RSP, dat_rsp_free, (h))                                                                                        \
    X(CR, dat_cr_query, (h, DAT_CR_FIELD_ALL, &out.cr))                                                              \
    X(CR, dat_cr_accept, (h, live[EP], 0, NULL))                                                                     \
    X(CR, dat_cr_reject, (h))                                                                                        \
    X(CR, dat_cr_handoff, (h, 4711))                                                                                 \
    X(CNO, dat_cno_modify_agent, (h, agent))                                                                         \
    X(CNO, dat_cno_query, (h, DAT_CNO_FIELD_ALL, &out.cno))                                                          \
    X(CNO, dat_cno_wait, (h, 0, &out.handle))                                                                        \
    X(CNO, dat_cno_free, (h))                                                                                        \
    X(EVD, dat_evd_query, (h, DAT_EVD_FIELD_ALL, &out.evd))                                                          \
    X(EVD, dat_evd_modify_cno, (h, NULL))                                                                            \
    X(EVD, dat_evd_enable, (h))                                                                                      \
    X(EVD, dat_evd_disable, (h))                                                                                     \
    X(EVD, dat_evd_wait, (h, 0, 1, &out.event, &out.counts[0]))                                                      \
    X(EVD, dat_evd_resize, (h, 16))                                                                                  \
    X(EVD, dat_evd_post_se, (h, &software))                                                                          \
    X(EVD, dat_evd_dequeue, (h, &out.event))                                                                         \
    X(EVD, dat_evd_set_unwaitable, (h))                                                                              \
    X(EVD, dat_evd_clear_unwaitable, (h))                                                                            \
    X(EVD, dat_evd_free, (h))                                                                                        \
    X(SRQ, dat_srq_query, (h, DAT_SRQ_FIELD_ALL, &out.srq))                                                          \
    X(SRQ, dat_srq_post_recv, (h, 1, &segment, cookie(1)))                                                           \
    X(SRQ, dat_srq_resize, (h, 8))                                                                                   \
    X(SRQ, dat_srq_set_lw, (h, 1))                                                                                   \
    X(SRQ, dat_srq_free, (h))

static DAT_OS_WAIT_PROXY_AGENT agent;
static DAT_REGION_DESCRIPTION here;
static DAT_EVENT software = {.event_number = DAT_SOFTWARE_EVENT};

#define THUNK(kind, name, arguments)                                                                                 \
    static DAT_RETURN call_##name(DAT_HANDLE h) { return name arguments; }
CALLS(THUNK)

#define ROW(kind, name, arguments) {#name, kind, call_##name, 0},
static const struct call TABLE[] = {CALLS(ROW)};
#define TABLE_ROWS (sizeof TABLE / sizeof *TABLE)

static const DAT_RETURN SUBTYPES[KINDS] = {
    DAT_INVALID_HANDLE_IA,  DAT_INVALID_HANDLE_EP,  DAT_INVALID_HANDLE_LMR, DAT_INVALID_HANDLE_RMR,
    DAT_INVALID_HANDLE_PZ,  DAT_INVALID_HANDLE_PSP, DAT_INVALID_HANDLE_RSP, DAT_INVALID_HANDLE_CR,
    DAT_INVALID_HANDLE_CNO, 0 /* OFED: EVD_REQUEST; illumos: HANDLE1 */,    DAT_INVALID_HANDLE_SRQ};

// ---- objects of every kind ----------------------------------------------------------------------------------------

// A connection request that waits, from an endpoint of this end to itself.
static DAT_CR_HANDLE a_request(DAT_EP_HANDLE *asking)
{
    DAT_CONN_QUAL service;
    DAT_PSP_HANDLE psp;
    DAT_EP_HANDLE before = near->ep;
    MUST(dat_psp_create_any(near->ia, &service, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    CALL(near, make_endpoint);
    MUST(ask(near, service, PATIENCE, 0, NULL));
    DAT_CR_HANDLE cr = next_request(near);
    MUST(dat_psp_free(psp));
    *asking = near->ep;
    near->ep = before;
    return cr;
}

static void make_all(DAT_HANDLE *objects)
{
    DAT_CONN_QUAL number;
    DAT_PSP_HANDLE psp;
    DAT_EP_HANDLE asking;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    MUST(dat_ia_open((DAT_NAME_PTR)adapter_name(), 8, &async, &objects[IA]));
    MUST(dat_pz_create(near->ia, &objects[PZ]));
    MUST(dat_evd_create(near->ia, 8, NULL, DAT_EVD_DEFAULT_FLAG & ~DAT_EVD_ASYNC_FLAG, &objects[EVD]));
    MUST(dat_cno_create(near->ia, NO_AGENT, &objects[CNO]));
    MUST(dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->connections, NULL, &objects[EP]));
    MUST(dat_lmr_create(near->ia, DAT_MEM_TYPE_VIRTUAL, here, PAGE, near->pz, ALL_PRIVILEGES, &objects[LMR], NULL,
                        NULL, NULL, NULL));
    MUST(dat_rmr_create(near->pz, &objects[RMR]));
    MUST(dat_srq_create(near->ia, near->pz, &srq_attributes, &objects[SRQ]));
    MUST(dat_psp_create_any(near->ia, &number, near->arrivals, DAT_PSP_CONSUMER_FLAG, &objects[PSP]));
    MUST(dat_psp_create_any(near->ia, &number, near->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
    MUST(dat_psp_free(psp));
    DAT_EP_HANDLE reserved;
    MUST(dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->connections, NULL, &reserved));
    MUST(dat_rsp_create(near->ia, number, reserved, near->arrivals, &objects[RSP]));
    objects[CR] = a_request(&asking);
}

static void free_all(DAT_HANDLE *objects)
{
    MUST(dat_cr_reject(objects[CR]));
    REQUIRE(CALL(near, next_connection) == DAT_CONNECTION_EVENT_PEER_REJECTED);
    MUST(dat_rsp_free(objects[RSP]));
    MUST(dat_psp_free(objects[PSP]));
    MUST(dat_srq_free(objects[SRQ]));
    MUST(dat_rmr_free(objects[RMR]));
    MUST(dat_lmr_free(objects[LMR]));
    MUST(dat_ep_free(objects[EP]));
    MUST(dat_cno_free(objects[CNO]));
    MUST(dat_evd_free(objects[EVD]));
    MUST(dat_pz_free(objects[PZ]));
    MUST(dat_ia_close(objects[IA], DAT_CLOSE_ABRUPT_FLAG));
}

// ---- bad handles --------------------------------------------------------------------------------------------------

static size_t wrong_answers;

static void refuses(const struct call *c, DAT_HANDLE h, const char *what)
{
    DAT_RETURN code = c->call(h);
    DAT_RETURN wanted = SUBTYPES[c->kind];
    bool good = DAT_GET_TYPE(code) == DAT_INVALID_HANDLE && (code & DAT_CLASS_ERROR) &&
                (wanted == 0 || DAT_GET_SUBTYPE(code) == wanted);
    if (!good) {
        printf("# %s(%s, %p) answered %s\n", c->name, what, h, words(code));
        wrong_answers++;
    }
}

// Every call with this handle. Calls on a kind it is of are left out.
static void all_refuse(DAT_HANDLE h, const char *what, int except)
{
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        // Without a dispatcher there is nothing to tell: an async dispatcher out of scope.
        bool none = h == DAT_HANDLE_NULL && strcmp(TABLE[i].name, "dat_evd_query") == 0;
        if ((int)TABLE[i].kind != except && !none)
            refuses(&TABLE[i], h, what);
    }
}

static void rubbish(void)
{
    chapter("what is no handle at all");
    static uint64_t zeros[64], ones[64];
    uint64_t stack[64];
    unsigned char *unmapped = fresh_pages(PAGE, MAP_PRIVATE), *unreadable = fresh_pages(PAGE, MAP_PRIVATE);
    munmap(unmapped, PAGE);
    mprotect(unreadable, PAGE, PROT_NONE);
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 64; i++)
        stack[i] = (uint64_t)(uintptr_t)stack;
    struct {
        const char *what;
        DAT_HANDLE h;
    } list[] = {
        {"NULL", NULL}, {"999", (void *)999}, {"1000", (void *)1000}, {"65536", (void *)65536}, {"all ones",
                                                            (void *)-1l},
        {"a top bit", (void *)(1ul << 63)}, {"not canonical", (void *)0xdeadbeefcafebabe}, {"unmapped", unmapped},
        {"unreadable", unreadable}, {"zeros", zeros}, {"ones", ones}, {"stack", stack}, {"a function",
                                                            (void *)dat_strerror},
        {"a string", (void *)"not a handle"}, {"odd", (char *)zeros + 1}, {"the room", near->room},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        all_refuse(list[i].h, list[i].what, -1);
        DAT_CONTEXT context = {.as_64 = 1};
        CHECK_TYPE("handles", "no context for what is no handle", dat_set_consumer_context(list[i].h, context),
                   DAT_INVALID_HANDLE);
        CHECK_TYPE("handles", "... and none from it", dat_get_consumer_context(list[i].h, &context),
                   DAT_INVALID_HANDLE);
        CHECK_TYPE("handles", "... and no type", dat_get_handle_type(list[i].h, &out.type), DAT_INVALID_HANDLE);
        CHECK_EQ("handles", "... and nothing was written", context.as_64, 1);
    }
    munmap(unreadable, PAGE);
    CHECK_EQ("handles", "what is no handle is refused by every call, by name", wrong_answers, 0);
    DAT_EVD_PARAM none;
    memset(&none, 0x5a, sizeof none);
    CHECK_DONE("handles", "a query of no dispatcher", dat_evd_query(NULL, DAT_EVD_FIELD_ALL, &none));
    CHECK("handles", "... is zeros", none.evd_qlen == 0 && none.evd_state == 0 && none.ia_handle == NULL &&
          none.evd_flags == 0);
}

static void other_kinds(void)
{
    chapter("handles of other objects");
    wrong_answers = 0;
    for (int k = 0; k < KINDS; k++)
        all_refuse(live[k], NAMES[k], k);
    CHECK_EQ("handles", "an object of another kind is refused by every call, by name", wrong_answers, 0);
    // A pointer into an object, or beside it, is none.
    wrong_answers = 0;
    for (int k = 0; k < KINDS; k++) {
        all_refuse((char *)live[k] + 1, "beside", -1);
        if (k != IA)
            all_refuse((char *)live[k] + 8, "behind", -1);
    }
    CHECK_EQ("handles", "neither is what lies beside one", wrong_answers, 0);
    DAT_HANDLE_TYPE types[KINDS] = {DAT_HANDLE_TYPE_IA,  DAT_HANDLE_TYPE_EP,  DAT_HANDLE_TYPE_LMR, DAT_HANDLE_TYPE_RMR,
                                    DAT_HANDLE_TYPE_PZ,  DAT_HANDLE_TYPE_PSP, DAT_HANDLE_TYPE_RSP, DAT_HANDLE_TYPE_CR,
                                    DAT_HANDLE_TYPE_CNO, DAT_HANDLE_TYPE_EVD, DAT_HANDLE_TYPE_SRQ};
    for (int k = 0; k < KINDS; k++) {
        DAT_HANDLE_TYPE type = (DAT_HANDLE_TYPE)99;
        DAT_CONTEXT context = {.as_64 = 99};
        CHECK_DONE("handles", NAMES[k], dat_get_handle_type(live[k], &type));
        CHECK_EQ("handles", "... says what it is", type, types[k]);
        CHECK_DONE("handles", "... has a context", dat_get_consumer_context(live[k], &context));
        CHECK_EQ("handles", "... which is 0 at first", context.as_64, 0);
        context.as_64 = 0x1122334455667788u + (unsigned)k;
        CHECK_DONE("handles", "... and is set", dat_set_consumer_context(live[k], context));
    }
    for (int k = 0; k < KINDS; k++) {
        DAT_CONTEXT context;
        MUST(dat_get_consumer_context(live[k], &context));
        CHECK_EQ("handles", "each keeps its own", context.as_64, 0x1122334455667788u + (unsigned)k);
        CHECK_TYPE("handles", "no place for it", dat_get_consumer_context(live[k], NULL), DAT_INVALID_PARAMETER);
        CHECK_TYPE("handles", "no place for the type", dat_get_handle_type(live[k], NULL), DAT_INVALID_PARAMETER);
    }
}

static void freed(void)
{
    chapter("handles of objects that were freed");
    wrong_answers = 0;
    for (int round = 0; round < 3; round++) {
        make_all(dead);
        free_all(dead);
        for (int k = 0; k < KINDS; k++)
            all_refuse(dead[k], NAMES[k], -1);
    }
    CHECK_EQ("handles", "a freed object is refused by every call, by name", wrong_answers, 0);
    DAT_HANDLE again[KINDS];
    make_all(again);
    size_t same = 0;
    for (int k = 0; k < KINDS; k++)
        same += again[k] == dead[k];
    CHECK_EQ("handles", "a new object does not have the handle of one just freed", same, 0);
    free_all(again);
    // An endpoint handed out by its adapter dies with it.
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL, evd;
    DAT_PZ_HANDLE pz;
    DAT_LMR_HANDLE lmr;
    MUST(dat_ia_open((DAT_NAME_PTR)adapter_name(), 8, &async, &ia));
    MUST(dat_pz_create(ia, &pz));
    MUST(dat_evd_create(ia, 8, NULL, DAT_EVD_DTO_FLAG, &evd));
    MUST(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, here, PAGE, pz, ALL_PRIVILEGES, &lmr, NULL, NULL, NULL, NULL));
    MUST(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
    wrong_answers = 0;
    all_refuse(ia, "closed IA", -1);
    all_refuse(pz, "PZ of a closed IA", -1);
    all_refuse(evd, "EVD of a closed IA", -1);
    all_refuse(lmr, "LMR of a closed IA", -1);
    all_refuse(async, "async EVD of a closed IA", -1);
    CHECK_EQ("handles", "an adapter that closes takes its objects along", wrong_answers, 0);
}

// ---- handles among the arguments ----------------------------------------------------------------------------------

static void among_arguments(void)
{
    chapter("handles among the arguments");
    DAT_HANDLE bad[] = {(void *)0x33, near->room, live[CNO], live[LMR], dead[PZ], dead[EVD], dead[EP], dead[SRQ]};
    DAT_CONN_QUAL q;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        DAT_HANDLE h = bad[i], made = (void *)0x1234;
        CHECK_CODE("handles", "a zone of an endpoint",
                   dat_ep_create(near->ia, h, near->receives, near->requests, near->connections, NULL,
                                 &made), BAD_HANDLE(PZ));
        CHECK_CODE("handles", "its receive dispatcher",
                   dat_ep_create(near->ia, near->pz, h, near->requests, near->connections, NULL,
                                 &made), BAD_HANDLE(EVD_RECV));
        CHECK_CODE("handles", "its request dispatcher",
                   dat_ep_create(near->ia, near->pz, near->receives, h, near->connections, NULL,
                                 &made), BAD_HANDLE(EVD_REQUEST));
        CHECK_CODE("handles", "its connect dispatcher",
                   dat_ep_create(near->ia, near->pz, near->receives, near->requests, h, NULL,
                                 &made), BAD_HANDLE(EVD_CONN));
        CHECK_CODE("handles", "its shared receive queue",
                   dat_ep_create_with_srq(near->ia, near->pz, near->receives, near->requests, near->connections, h,
                                          &attributes, &made), BAD_HANDLE(SRQ));
        CHECK_CODE("handles", "the zone of a shared receive queue",
                   dat_srq_create(near->ia, h, &srq_attributes, &made), BAD_HANDLE(PZ));
        CHECK_CODE("handles", "the dispatcher of a service point",
                   dat_psp_create(near->ia, 4711, h, DAT_PSP_CONSUMER_FLAG, &made), BAD_HANDLE(EVD_CR));
        CHECK_CODE("handles", "... of any number", dat_psp_create_any(near->ia, &q, h, DAT_PSP_CONSUMER_FLAG, &made),
                   BAD_HANDLE(EVD_CR));
        CHECK_CODE("handles", "... of a reserved one", dat_rsp_create(near->ia, 4711, live[EP], h, &made),
                   BAD_HANDLE(EVD_CR));
        CHECK_CODE("handles", "its endpoint", dat_rsp_create(near->ia, 4711, h, near->arrivals, &made), BAD_HANDLE(EP));
        CHECK_CODE("handles", "the endpoint of a request", dat_cr_accept(live[CR], h, 0, NULL), BAD_HANDLE(EP));
        CHECK_CODE("handles", "an endpoint to connect like",
                   dat_ep_dup_connect(live[EP], h, PATIENCE, 0, NULL, DAT_QOS_BEST_EFFORT), BAD_HANDLE(EP));
        if (h != live[CNO]) {
            CHECK_CODE("handles", "the notification object of a dispatcher",
                       dat_evd_create(near->ia, 8, h, DAT_EVD_DTO_FLAG, &made), BAD_HANDLE(CNO));
            CHECK_CODE("handles", "... of one that changes it", dat_evd_modify_cno(live[EVD], h), BAD_HANDLE(CNO));
        }
        CHECK("handles", "... and nothing was made", made == (void *)0x1234);
    }
    // Dispatchers that do not take the stream.
    DAT_HANDLE made = (void *)0x1234;
    CHECK_CODE("handles", "receives need a dispatcher of transfers",
               dat_ep_create(near->ia, near->pz, near->connections, near->requests, near->connections, NULL,
                             &made), BAD_HANDLE(EVD_RECV));
    CHECK_CODE("handles", "so do requests",
               dat_ep_create(near->ia, near->pz, near->receives, near->arrivals, near->connections, NULL,
                             &made), BAD_HANDLE(EVD_REQUEST));
    CHECK_CODE("handles", "connection events need one of theirs",
               dat_ep_create(near->ia, near->pz, near->receives, near->requests, near->receives, NULL,
                             &made), BAD_HANDLE(EVD_CONN));
    CHECK_CODE("handles", "requests for connections need one of theirs",
               dat_psp_create(near->ia, 4711, near->connections, DAT_PSP_CONSUMER_FLAG, &made), BAD_HANDLE(EVD_CR));
    CHECK("handles", "... and nothing was made", made == (void *)0x1234);
    // Objects of another adapter.
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    MUST(dat_ia_open((DAT_NAME_PTR)adapter_name(), 8, &async, &ia));
    CHECK_TYPE("handles", "a zone of another adapter",
               dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, here, PAGE, near->pz, ALL_PRIVILEGES, &made, NULL, NULL, NULL,
                              NULL), DAT_INVALID_HANDLE);
    CHECK_TYPE("handles", "a dispatcher of another adapter",
               dat_psp_create(ia, 4711, near->arrivals, DAT_PSP_CONSUMER_FLAG, &made), DAT_INVALID_HANDLE);
    CHECK("handles", "... and nothing was made", made == (void *)0x1234);
    MUST(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    connect_ends();
    here.for_va = near->room;
    segment = piece(near->local, near->room, 8);
    remote = target(near->remote, address_of(near->room), 8);
    DAT_EP_PARAM now;
    MUST(dat_ep_query(near->ep, DAT_EP_FIELD_ALL, &now));
    attributes = now.ep_attr;
    make_all(live);
    rubbish();
    other_kinds();
    freed();
    among_arguments();
    CHECK("handles", "after all that the connection works", talks());
    size_t dead_ones = 0;
    for (int k = 0; k < KINDS; k++)
        dead_ones += dat_get_handle_type(live[k], &out.type) != DAT_SUCCESS;
    CHECK_EQ("handles", "and every object is alive", dead_ones, 0);
    free_all(live);
    part();
    return end();
}
