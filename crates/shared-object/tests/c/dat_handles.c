/*
 * Every call with every kind of wrong handle: NULL, numbers, garbage, the address of something else, of a place between
 * objects, handles of other kinds, freed ones, those of a closed adapter. Each is refused with the subtype of its place, nothing
 * crashes, and the objects that are left work afterwards.
 */
#include <dat/udat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks;

static void refused(const char *call, DAT_RETURN answer, DAT_RETURN_SUBTYPE subtype, DAT_HANDLE wrong)
{
	const char *type, *name;
	checks++;
	if (answer == DAT_ERROR(DAT_INVALID_HANDLE, subtype))
		return;
	if (dat_strerror(answer, &type, &name) != DAT_SUCCESS)
		type = name = "?";
	printf("%s with %p: %#x %s %s\n", call, wrong, answer, type, name);
	exit(1);
}
#define REFUSED(call, subtype) refused(#call, (call), (subtype), h)

static void done(const char *call, DAT_RETURN answer)
{
	checks++;
	if (answer != DAT_SUCCESS) {
		printf("%s: %#x\n", call, answer);
		exit(1);
	}
}
#define DONE(call) done(#call, (call))

struct objects {
	DAT_IA_HANDLE ia;
	DAT_EVD_HANDLE async, evd, connections, requests;
	DAT_CNO_HANDLE cno;
	DAT_PZ_HANDLE pz;
	DAT_EP_HANDLE ep;
	DAT_PSP_HANDLE psp;
	DAT_RSP_HANDLE rsp;
	DAT_EP_HANDLE reserved;
	DAT_LMR_HANDLE lmr;
	DAT_RMR_HANDLE rmr;
	DAT_SRQ_HANDLE srq;
};

static char memory[4096];

static struct objects make(void)
{
	struct objects o;
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_CONTEXT context;
	DAT_CONN_QUAL any;
	DAT_SRQ_ATTR sizes = { 8, 2, DAT_SRQ_LW_DEFAULT };
	o.async = DAT_HANDLE_NULL;
	DONE(dat_ia_open("nonic", 8, &o.async, &o.ia));
	DONE(dat_pz_create(o.ia, &o.pz));
	DONE(dat_cno_create(o.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &o.cno));
	DONE(dat_evd_create(o.ia, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &o.evd));
	DONE(dat_evd_create(o.ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &o.connections));
	DONE(dat_evd_create(o.ia, 16, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &o.requests));
	DONE(dat_ep_create(o.ia, o.pz, o.evd, o.evd, o.connections, NULL, &o.ep));
	DONE(dat_ep_create(o.ia, o.pz, o.evd, o.evd, o.connections, NULL, &o.reserved));
	DONE(dat_psp_create_any(o.ia, &any, o.requests, DAT_PSP_CONSUMER_FLAG, &o.psp));
	DONE(dat_rsp_create(o.ia, any + 0x100000, o.reserved, o.requests, &o.rsp));
	region.for_va = memory;
	DONE(dat_lmr_create(o.ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof memory, o.pz, DAT_MEM_PRIV_ALL_FLAG, &o.lmr, &context,
			    NULL, NULL, NULL));
	DONE(dat_rmr_create(o.pz, &o.rmr));
	DONE(dat_srq_create(o.ia, o.pz, &sizes, &o.srq));
	return o;
}

/* Room for every result, and arguments that would be right. */
static union {
	DAT_IA_ATTR ia;
	DAT_EP_PARAM ep;
	DAT_EVENT event;
	unsigned char bytes[1024];
} room;
static DAT_HANDLE result;
static DAT_COUNT count;
static DAT_CONN_QUAL number;

static void as_adapter(const struct objects *o, DAT_HANDLE h)
{
	DAT_REGION_DESCRIPTION region;
	DAT_SRQ_ATTR sizes = { 8, 2, 0 };
	region.for_va = memory;
	REFUSED(dat_ia_query(h, &result, DAT_IA_FIELD_ALL, &room.ia, 0, NULL), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_ia_close(h, DAT_CLOSE_ABRUPT_FLAG), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_cno_create(h, DAT_OS_WAIT_PROXY_AGENT_NULL, &result), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_evd_create(h, 8, NULL, DAT_EVD_DTO_FLAG, &result), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_ep_create(h, o->pz, NULL, NULL, NULL, NULL, &result), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_ep_create_with_srq(h, o->pz, NULL, NULL, NULL, o->srq, NULL, &result), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_lmr_create(h, DAT_MEM_TYPE_VIRTUAL, region, 16, o->pz, 0, &result, NULL, NULL, NULL, NULL),
		DAT_INVALID_HANDLE_IA);
	REFUSED(dat_lmr_sync_rdma_read(h, NULL, 0), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_lmr_sync_rdma_write(h, NULL, 0), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_psp_create(h, 77, o->requests, DAT_PSP_CONSUMER_FLAG, &result), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_psp_create_any(h, &number, o->requests, DAT_PSP_CONSUMER_FLAG, &result), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_rsp_create(h, 77, o->ep, o->requests, &result), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_pz_create(h, &result), DAT_INVALID_HANDLE_IA);
	REFUSED(dat_srq_create(h, o->pz, &sizes, &result), DAT_INVALID_HANDLE_IA);
}

static void as_dispatcher(const struct objects *o, DAT_HANDLE h)
{
	/* NULL stands for the dispatcher of asynchronous errors that is elsewhere. */
	if (h)
		REFUSED(dat_evd_query(h, DAT_EVD_FIELD_ALL, (DAT_EVD_PARAM *)&room), DAT_INVALID_HANDLE1);
	REFUSED(dat_evd_modify_cno(h, o->cno), DAT_INVALID_HANDLE1);
	REFUSED(dat_evd_enable(h), DAT_INVALID_HANDLE1);
	REFUSED(dat_evd_disable(h), DAT_INVALID_HANDLE1);
	REFUSED(dat_evd_wait(h, 0, 1, &room.event, &count), DAT_INVALID_HANDLE1);
	REFUSED(dat_evd_dequeue(h, &room.event), DAT_INVALID_HANDLE1);
	REFUSED(dat_evd_post_se(h, &room.event), DAT_INVALID_HANDLE1);
	REFUSED(dat_evd_resize(h, 8), DAT_INVALID_HANDLE1);
	REFUSED(dat_evd_set_unwaitable(h), DAT_INVALID_HANDLE1);
	REFUSED(dat_evd_clear_unwaitable(h), DAT_INVALID_HANDLE1);
	REFUSED(dat_evd_free(h), DAT_INVALID_HANDLE1);
	/* As another object's. */
	REFUSED(dat_psp_create(o->ia, 77, h, DAT_PSP_CONSUMER_FLAG, &result), DAT_INVALID_HANDLE_EVD_CR);
	REFUSED(dat_rsp_create(o->ia, 77, o->ep, h, &result), DAT_INVALID_HANDLE_EVD_CR);
	if (h) {
		REFUSED(dat_ep_create(o->ia, o->pz, h, o->evd, o->connections, NULL, &result), DAT_INVALID_HANDLE_EVD_RECV);
		REFUSED(dat_ep_create(o->ia, o->pz, o->evd, h, o->connections, NULL, &result), DAT_INVALID_HANDLE_EVD_REQUEST);
		REFUSED(dat_ep_create(o->ia, o->pz, o->evd, o->evd, h, NULL, &result), DAT_INVALID_HANDLE_EVD_CONN);
		DAT_EVD_HANDLE given = h;
		if (h != DAT_EVD_ASYNC_EXISTS)
			REFUSED(dat_ia_open("nonic", 8, &given, &result), DAT_INVALID_HANDLE_EVD_ASYNC);
	}
}

static void as_endpoint(const struct objects *o, DAT_HANDLE h)
{
	DAT_DTO_COOKIE cookie;
	DAT_LMR_TRIPLET piece;
	DAT_RMR_TRIPLET remote;
	DAT_EP_STATE state;
	DAT_RMR_CONTEXT context;
	cookie.as_64 = 0;
	memset(&piece, 0, sizeof piece);
	memset(&remote, 0, sizeof remote);
	REFUSED(dat_ep_query(h, DAT_EP_FIELD_ALL, &room.ep), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_modify(h, 0, &room.ep), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_get_status(h, &state, NULL, NULL), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_connect(h, NULL, 77, 1, 0, NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_dup_connect(h, o->ep, 1, 0, NULL, DAT_QOS_BEST_EFFORT), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_dup_connect(o->ep, h, 1, 0, NULL, DAT_QOS_BEST_EFFORT), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_disconnect(h, DAT_CLOSE_ABRUPT_FLAG), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_reset(h), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_free(h), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_post_send(h, 0, NULL, cookie, 0), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_post_recv(h, 0, NULL, cookie, 0), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_post_rdma_read(h, 0, NULL, cookie, &remote, 0), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_post_rdma_write(h, 0, NULL, cookie, &remote, 0), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_recv_query(h, &count, &count), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_ep_set_watermark(h, 1, 2), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_rmr_bind(o->rmr, &piece, 0, h, cookie, 0, &context), DAT_INVALID_HANDLE_EP);
	REFUSED(dat_rsp_create(o->ia, 77, h, o->requests, &result), DAT_INVALID_HANDLE_EP);
}

static void as_others(const struct objects *o, DAT_HANDLE h, const char *except)
{
	DAT_REGION_DESCRIPTION region;
	DAT_DTO_COOKIE cookie;
	DAT_LMR_TRIPLET piece;
	DAT_SRQ_ATTR sizes = { 8, 2, 0 };
	cookie.as_64 = 0;
	memset(&piece, 0, sizeof piece);
	if (strcmp(except, "cno")) {
		REFUSED(dat_cno_modify_agent(h, DAT_OS_WAIT_PROXY_AGENT_NULL), DAT_INVALID_HANDLE_CNO);
		REFUSED(dat_cno_query(h, DAT_CNO_FIELD_ALL, (DAT_CNO_PARAM *)&room), DAT_INVALID_HANDLE_CNO);
		REFUSED(dat_cno_wait(h, 0, &result), DAT_INVALID_HANDLE_CNO);
		REFUSED(dat_cno_free(h), DAT_INVALID_HANDLE_CNO);
		if (h) {
			REFUSED(dat_evd_create(o->ia, 8, h, DAT_EVD_DTO_FLAG, &result), DAT_INVALID_HANDLE_CNO);
			REFUSED(dat_evd_modify_cno(o->evd, h), DAT_INVALID_HANDLE_CNO);
		}
	}
	REFUSED(dat_cr_query(h, DAT_CR_FIELD_ALL, (DAT_CR_PARAM *)&room), DAT_INVALID_HANDLE_CR);
	REFUSED(dat_cr_accept(h, o->ep, 0, NULL), DAT_INVALID_HANDLE_CR);
	REFUSED(dat_cr_reject(h), DAT_INVALID_HANDLE_CR);
	REFUSED(dat_cr_handoff(h, 77), DAT_INVALID_HANDLE_CR);
	if (strcmp(except, "pz")) {
		REFUSED(dat_pz_query(h, DAT_PZ_FIELD_ALL, (DAT_PZ_PARAM *)&room), DAT_INVALID_HANDLE_PZ);
		REFUSED(dat_pz_free(h), DAT_INVALID_HANDLE_PZ);
		REFUSED(dat_rmr_create(h, &result), DAT_INVALID_HANDLE_PZ);
		REFUSED(dat_srq_create(o->ia, h, &sizes, &result), DAT_INVALID_HANDLE_PZ);
		region.for_va = memory;
		REFUSED(dat_lmr_create(o->ia, DAT_MEM_TYPE_VIRTUAL, region, 16, h, 0, &result, NULL, NULL, NULL, NULL),
			DAT_INVALID_HANDLE_PZ);
		if (h)
			REFUSED(dat_ep_create(o->ia, h, o->evd, o->evd, o->connections, NULL, &result), DAT_INVALID_HANDLE_PZ);
	}
	if (strcmp(except, "lmr")) {
		REFUSED(dat_lmr_query(h, DAT_LMR_FIELD_ALL, (DAT_LMR_PARAM *)&room), DAT_INVALID_HANDLE_LMR);
		REFUSED(dat_lmr_free(h), DAT_INVALID_HANDLE_LMR);
		region.for_lmr_handle = h;
		REFUSED(dat_lmr_create(o->ia, DAT_MEM_TYPE_LMR, region, 16, o->pz, 0, &result, NULL, NULL, NULL, NULL),
			DAT_INVALID_HANDLE_LMR);
	}
	if (strcmp(except, "rmr")) {
		REFUSED(dat_rmr_query(h, DAT_RMR_FIELD_ALL, (DAT_RMR_PARAM *)&room), DAT_INVALID_HANDLE_RMR);
		REFUSED(dat_rmr_bind(h, &piece, 0, o->ep, cookie, 0, NULL), DAT_INVALID_HANDLE_RMR);
		REFUSED(dat_rmr_free(h), DAT_INVALID_HANDLE_RMR);
	}
	if (strcmp(except, "psp")) {
		REFUSED(dat_psp_query(h, DAT_PSP_FIELD_ALL, (DAT_PSP_PARAM *)&room), DAT_INVALID_HANDLE_PSP);
		REFUSED(dat_psp_free(h), DAT_INVALID_HANDLE_PSP);
	}
	if (strcmp(except, "rsp")) {
		REFUSED(dat_rsp_query(h, DAT_RSP_FIELD_ALL, (DAT_RSP_PARAM *)&room), DAT_INVALID_HANDLE_RSP);
		REFUSED(dat_rsp_free(h), DAT_INVALID_HANDLE_RSP);
	}
	if (strcmp(except, "srq")) {
		REFUSED(dat_srq_query(h, DAT_SRQ_FIELD_ALL, (DAT_SRQ_PARAM *)&room), DAT_INVALID_HANDLE_SRQ);
		REFUSED(dat_srq_post_recv(h, 0, NULL, cookie), DAT_INVALID_HANDLE_SRQ);
		REFUSED(dat_srq_resize(h, 8), DAT_INVALID_HANDLE_SRQ);
		REFUSED(dat_srq_set_lw(h, 1), DAT_INVALID_HANDLE_SRQ);
		REFUSED(dat_srq_free(h), DAT_INVALID_HANDLE_SRQ);
		REFUSED(dat_ep_create_with_srq(o->ia, o->pz, o->evd, o->evd, o->connections, h, NULL, &result),
			DAT_INVALID_HANDLE_SRQ);
	}
}

/* A handle that stands for nothing at all. */
static void nothing(const struct objects *o, DAT_HANDLE h)
{
	DAT_CONTEXT context;
	DAT_HANDLE_TYPE type;
	context.as_64 = 1;
	as_adapter(o, h);
	as_dispatcher(o, h);
	as_endpoint(o, h);
	as_others(o, h, "");
	REFUSED(dat_set_consumer_context(h, context), DAT_INVALID_HANDLE1);
	REFUSED(dat_get_consumer_context(h, &context), DAT_INVALID_HANDLE1);
	REFUSED(dat_get_handle_type(h, &type), DAT_INVALID_HANDLE1);
}

static void free_all(struct objects *o)
{
	DONE(dat_srq_free(o->srq));
	DONE(dat_rmr_free(o->rmr));
	DONE(dat_lmr_free(o->lmr));
	DONE(dat_rsp_free(o->rsp));
	DONE(dat_psp_free(o->psp));
	DONE(dat_ep_free(o->reserved));
	DONE(dat_ep_free(o->ep));
	DONE(dat_evd_free(o->requests));
	DONE(dat_evd_free(o->connections));
	DONE(dat_evd_free(o->evd));
	DONE(dat_cno_free(o->cno));
	DONE(dat_pz_free(o->pz));
}

int main(void)
{
	struct objects o = make();
	int local = 0;
	DAT_HANDLE garbage[] = {
		NULL, (DAT_HANDLE)4095, (DAT_HANDLE)4096, (DAT_HANDLE)0xdeadbeef, (DAT_HANDLE)-1L, (DAT_HANDLE)-8L,
		(DAT_HANDLE)0x7ffffffff000, &local, memory, (char *)o.ep + 1, (char *)o.ep + 8, (char *)o.ep + 64 * 100000,
		(char *)o.ep - 64 * 1000000, (DAT_HANDLE)main, (DAT_HANDLE)0x8000000000000000,
	};
	for (unsigned i = 0; i < sizeof garbage / sizeof *garbage; i++)
		nothing(&o, garbage[i]);

	/* Handles of other kinds. */
	DAT_HANDLE others[] = { o.cno, o.pz, o.lmr, o.rmr, o.psp, o.rsp, o.srq };
	const char *kinds[] = { "cno", "pz", "lmr", "rmr", "psp", "rsp", "srq" };
	for (unsigned i = 0; i < 7; i++) {
		as_adapter(&o, others[i]);
		as_dispatcher(&o, others[i]);
		as_endpoint(&o, others[i]);
		as_others(&o, others[i], kinds[i]);
	}
	as_adapter(&o, o.ep);
	as_adapter(&o, o.evd);
	as_dispatcher(&o, o.ia);
	as_dispatcher(&o, o.ep);
	as_endpoint(&o, o.ia);
	as_endpoint(&o, o.evd);
	as_others(&o, o.ia, "");
	as_others(&o, o.ep, "");
	as_others(&o, o.evd, "");

	/* Freed ones, and those of an adapter that was closed, also abruptly. */
	for (int graceful = 0; graceful < 2; graceful++) {
		struct objects gone = make();
		if (graceful)
			free_all(&gone);
		DONE(dat_ia_close(gone.ia, graceful ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG));
		nothing(&o, gone.ia);
		nothing(&o, gone.async);
		nothing(&o, gone.evd);
		nothing(&o, gone.cno);
		nothing(&o, gone.pz);
		nothing(&o, gone.ep);
		nothing(&o, gone.psp);
		nothing(&o, gone.rsp);
		nothing(&o, gone.lmr);
		nothing(&o, gone.rmr);
		nothing(&o, gone.srq);
	}

	/* Nothing was hurt. */
	free_all(&o);
	DONE(dat_ia_close(o.ia, DAT_CLOSE_GRACEFUL_FLAG));
	printf("%d checks\n", checks);
	return 0;
}
