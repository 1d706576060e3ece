/*
 * A program that forks while it has an adapter open. The child has none of its parent's handles, can open adapters of its own and
 * end as it likes; the parent goes on with what it has.
 */
#include <dat/udat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int checks;

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		checks++;                                                                                              \
		if (!(condition)) {                                                                                    \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                 \
			fflush(stdout);                                                                                \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)
#define DONE(call) CHECK((call) == DAT_SUCCESS)

static char memory[4096];

struct side {
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE transfers, connections, requests;
	DAT_EP_HANDLE ep[2];
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
};

static DAT_EVENT next(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;
	DAT_COUNT more;
	DONE(dat_evd_wait(evd, 10 * 1000 * 1000, 1, &event, &more));
	return event;
}

/* An adapter with two endpoints that are connected to each other. */
static struct side open_all(void)
{
	struct side s;
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_REGION_DESCRIPTION region;
	DAT_IA_ATTR attributes;
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL service;
	DONE(dat_ia_open("nonic", 8, &async, &s.ia));
	DONE(dat_ia_query(s.ia, NULL, DAT_IA_FIELD_ALL, &attributes, 0, NULL));
	DONE(dat_pz_create(s.ia, &s.pz));
	DONE(dat_evd_create(s.ia, 32, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &s.transfers));
	DONE(dat_evd_create(s.ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &s.connections));
	DONE(dat_evd_create(s.ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &s.requests));
	for (int i = 0; i < 2; i++)
		DONE(dat_ep_create(s.ia, s.pz, s.transfers, s.transfers, s.connections, NULL, &s.ep[i]));
	region.for_va = memory;
	DONE(dat_lmr_create(s.ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof memory, s.pz, DAT_MEM_PRIV_ALL_FLAG, &s.lmr,
			    &s.lmr_context, &s.rmr_context, NULL, NULL));
	DONE(dat_psp_create_any(s.ia, &service, s.requests, DAT_PSP_CONSUMER_FLAG, &psp));
	DONE(dat_ep_connect(s.ep[0], attributes.ia_address_ptr, service, 10 * 1000 * 1000, 0, NULL, DAT_QOS_BEST_EFFORT,
			    DAT_CONNECT_DEFAULT_FLAG));
	DONE(dat_cr_accept(next(s.requests).event_data.cr_arrival_event_data.cr_handle, s.ep[1], 0, NULL));
	for (int i = 0; i < 2; i++)
		CHECK(next(s.connections).event_number == DAT_CONNECTION_EVENT_ESTABLISHED);
	return s;
}

static void move(const struct side *s, const char *text)
{
	DAT_LMR_TRIPLET from = { 0 };
	DAT_RMR_TRIPLET to = { 0 };
	DAT_DTO_COOKIE cookie;
	cookie.as_64 = 7;
	strcpy(memory, text);
	from.lmr_context = s->lmr_context;
	from.virtual_address = (DAT_VADDR)(uintptr_t)memory;
	from.segment_length = to.segment_length = strlen(text) + 1;
	to.rmr_context = s->rmr_context;
	to.target_address = (DAT_VADDR)(uintptr_t)memory + 2048;
	DONE(dat_ep_post_rdma_write(s->ep[0], 1, &from, cookie, &to, DAT_COMPLETION_DEFAULT_FLAG));
	DAT_EVENT event = next(s->transfers);
	CHECK(event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS);
	CHECK(!strcmp(memory + 2048, text));
}

static int wrong(DAT_RETURN answer)
{
	return DAT_GET_TYPE(answer) == DAT_INVALID_HANDLE;
}

static void child(const struct side *parents)
{
	DAT_EVENT event;
	DAT_DTO_COOKIE cookie;
	DAT_HANDLE handle;
	cookie.as_64 = 0;
	CHECK(wrong(dat_pz_create(parents->ia, &handle)));
	CHECK(wrong(dat_evd_dequeue(parents->transfers, &event)));
	CHECK(wrong(dat_ep_post_send(parents->ep[0], 0, NULL, cookie, DAT_COMPLETION_DEFAULT_FLAG)));
	CHECK(wrong(dat_lmr_free(parents->lmr)));
	CHECK(wrong(dat_ep_free(parents->ep[1])));
	struct side own = open_all();
	move(&own, "by the child");
	CHECK(wrong(dat_pz_free(parents->pz)));
	/* Its own numbers may be those of its parent, its handles are not. */
	CHECK(own.pz != parents->pz);
	DONE(dat_ia_close(own.ia, DAT_CLOSE_ABRUPT_FLAG));
}

int main(void)
{
	struct side s = open_all();
	move(&s, "before");
	for (int turn = 0; turn < 3; turn++) {
		int status;
		fflush(stdout);
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			/* The last one ends without having called anything. */
			if (turn < 2)
				child(&s);
			if (turn == 1)
				_exit(0);
			return 0;
		}
		move(&s, "meanwhile");
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		move(&s, "afterwards");
	}
	DONE(dat_ia_close(s.ia, DAT_CLOSE_ABRUPT_FLAG));
	printf("%d checks\n", checks);
	return 0;
}
