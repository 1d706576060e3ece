/*
 * A program as it was linked long ago: it knows no header of ours. Types are its own, written down from the binary interface;
 * structures are passed by value, and calls are also made through the provider's table, by the places of its functions. It
 * connects to itself and moves data.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint32_t u32;
typedef uint64_t u64;

union cookie { void *pointer; u64 number; };
union region { void *address; void *handle; struct { void *address; char (*name)[40]; } shared; };
struct agent { void *instance; void (*function)(void *, void *); };
struct piece { u32 context, pad; u64 address, length; };
struct event { u32 number; void *evd; u64 data[4]; };

extern u32 dat_ia_openv(const char *, int, void **, void **, u32, u32, u32);
extern u32 dat_ia_query(void *, void **, u64, void *, u64, void *);
extern u32 dat_ia_close(void *, u32);
extern u32 dat_set_consumer_context(void *, union cookie);
extern u32 dat_get_consumer_context(void *, union cookie *);
extern u32 dat_get_handle_type(void *, u32 *);
extern u32 dat_pz_create(void *, void **);
extern u32 dat_cno_create(void *, struct agent, void **);
extern u32 dat_cno_query(void *, u32, void *);
extern u32 dat_evd_create(void *, int, void *, u32, void **);
extern u32 dat_evd_wait(void *, u32, int, struct event *, int *);
extern u32 dat_evd_post_se(void *, const struct event *);
extern u32 dat_ep_create(void *, void *, void *, void *, void *, const void *, void **);
extern u32 dat_ep_query(void *, u64, void *);
extern u32 dat_ep_connect(void *, void *, u64, u32, int, const void *, u32, u32);
extern u32 dat_ep_disconnect(void *, u32);
extern u32 dat_ep_post_recv(void *, int, struct piece *, union cookie, u32);
extern u32 dat_psp_create_any(void *, u64 *, void *, u32, void **);
extern u32 dat_cr_query(void *, u32, void *);
extern u32 dat_cr_accept(void *, void *, int, const void *);
extern u32 dat_lmr_create(void *, u32, union region, u64, void *, u32, void **, u32 *, u32 *, u64 *, u64 *);
extern u32 dat_lmr_query(void *, u32, void *);
extern u32 dat_rmr_create(void *, void **);
extern u32 dat_rmr_bind(void *, const struct piece *, u32, void *, union cookie, u32, u32 *);
extern u32 dat_strerror(u32, const char **, const char **);

static int checks;

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		checks++;                                                                                              \
		if (!(condition)) {                                                                                    \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                 \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static void done(u32 answer, int line)
{
	const char *type = "", *subtype = "";
	if (answer) {
		dat_strerror(answer, &type, &subtype);
		printf("%s:%d: %#x %s %s\n", __FILE__, line, answer, type, subtype);
		exit(1);
	}
	checks++;
}
#define DONE(call) done((call), __LINE__)

static u64 word(const void *structure, int offset)
{
	u64 value;
	memcpy(&value, (const char *)structure + offset, sizeof value);
	return value;
}

static u32 half(const void *structure, int offset)
{
	u32 value;
	memcpy(&value, (const char *)structure + offset, sizeof value);
	return value;
}

/* The n-th function of the table to which an object's first word leads; n counts from `ia_open_func`. */
static void *function(void *object, int n)
{
	return (*(void ***)object)[2 + n];
}

static struct event next(void *evd)
{
	struct event event;
	int more = -1;
	memset(&event, 0xaa, sizeof event);
	DONE(dat_evd_wait(evd, 10 * 1000 * 1000, 1, &event, &more));
	CHECK(event.evd == evd && more >= 0);
	return event;
}

static void *seen_instance, *seen_evd;
static int seen;

/* Called on a thread of the library's. */
static void agent(void *instance, void *evd)
{
	seen_instance = instance;
	seen_evd = evd;
	__atomic_store_n(&seen, 1, __ATOMIC_RELEASE);
}

int main(void)
{
	void *async = NULL, *ia, *pz, *transfers, *connections, *requests, *mine, *cno, *ep[2], *psp, *lmr, *rmr;
	DONE(dat_ia_openv("OpenIB-cma", 8, &async, &ia, 1, 2, 0));
	/* As OFED's: a small number. */
	CHECK((uintptr_t)ia > 0 && (uintptr_t)ia < 4096 && async != NULL);

	/* Structures of the size they had: nothing is written behind them. */
	static unsigned char adapter[688 + 16], provider[504 + 16];
	memset(adapter, 0xaa, sizeof adapter);
	memset(provider, 0xaa, sizeof provider);
	void *found = NULL;
	DONE(dat_ia_query(ia, &found, 0x7ffffffffULL, adapter, 0x3ffffff, provider));
	CHECK(found == async && !strcmp((char *)adapter, "OpenIB-cma"));
	for (int i = 0; i < 16; i++)
		CHECK(adapter[688 + i] == 0xaa && provider[504 + i] == 0xaa);
	for (int at = 536; at <= 656; at += 4) {
		/* Behind three numbers of 4 bytes stand 4 bytes that belong to nobody. */
		if (at != 588 && at != 612)
			CHECK(half(adapter, at) != 0xaaaaaaaa);
	}
	for (int at = 256; at <= 488; at += 4)
		CHECK(half(provider, at) != 0xaaaaaaaa);
	CHECK(half(provider, 264) == 1 && half(provider, 268) == 2 && half(provider, 288) == 0);
	void *address = (void *)(uintptr_t)word(adapter, 528);
	CHECK(address != NULL && *(unsigned short *)address == 2);

	DONE(dat_pz_create(ia, &pz));
	CHECK(((uintptr_t)pz & 7) == 0);
	CHECK(!strcmp(**(char ***)pz, "OpenIB-cma"));
	union cookie context = { .number = 0x1122334455667788 }, kept = { .number = 1 };
	DONE(dat_get_consumer_context(pz, &kept));
	CHECK(kept.number == 0);
	DONE(dat_set_consumer_context(pz, context));
	DONE(((u32(*)(void *, union cookie *))function(pz, 4))(pz, &kept));
	CHECK(kept.number == context.number);
	u32 kind = 99;
	DONE(dat_get_handle_type(pz, &kind));
	CHECK(kind == 6);
	DONE(dat_get_handle_type(ia, &kind));
	CHECK(kind == 3);

	/* A structure of 16 bytes by value. */
	struct agent proxy = { &checks, agent };
	DONE(dat_cno_create(ia, proxy, &cno));
	unsigned char cno_param[24];
	DONE(dat_cno_query(cno, 3, cno_param));
	CHECK(word(cno_param, 0) == (uintptr_t)ia && word(cno_param, 8) == (uintptr_t)&checks);
	CHECK(word(cno_param, 16) == (uintptr_t)agent);
	DONE(dat_evd_create(ia, 8, cno, 0x001, &mine));
	struct event posted = { 0x10001, NULL, { (uintptr_t)&posted } };
	DONE(dat_evd_post_se(mine, &posted));
	for (int i = 0; i < 10000 && !__atomic_load_n(&seen, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	CHECK(seen && seen_instance == &checks && seen_evd == mine);
	DONE(dat_cno_query(cno, 3, cno_param));
	CHECK(word(cno_param, 16) == 0);
	struct event event;
	DONE(((u32(*)(void *, struct event *))function(mine, 23))(mine, &event));
	CHECK(event.number == 0x10001 && event.evd == mine && event.data[0] == (uintptr_t)&posted);
	/* An empty queue is told without a class, as programs compare it. */
	CHECK(((u32(*)(void *, struct event *))function(mine, 23))(mine, &event) == 0x000d0000);

	DONE(dat_evd_create(ia, 32, NULL, 0x020 | 0x080, &transfers));
	DONE(dat_evd_create(ia, 8, NULL, 0x040, &connections));
	DONE(dat_evd_create(ia, 8, NULL, 0x010, &requests));
	for (int i = 0; i < 2; i++)
		DONE(dat_ep_create(ia, pz, transfers, transfers, connections, NULL, &ep[i]));
	u64 service = 0;
	DONE(dat_psp_create_any(ia, &service, requests, 0, &psp));
	CHECK(service != 0);

	/* A union of 16 bytes by value, in the middle of eleven arguments. */
	static char memory[4096];
	union region region;
	memset(&region, 0xaa, sizeof region);
	region.address = memory;
	u32 local = 0, remote = 0;
	u64 size = 0, start = 0;
	DONE(dat_lmr_create(ia, 0, region, sizeof memory, pz, 0x33, &lmr, &local, &remote, &size, &start));
	CHECK(local != 0 && remote != 0 && start <= (uintptr_t)memory && start + size >= (uintptr_t)memory + 4096);
	unsigned char lmr_param[80];
	DONE(dat_lmr_query(lmr, 0x3ff, lmr_param));
	CHECK(word(lmr_param, 0) == (uintptr_t)ia && word(lmr_param, 16) == (uintptr_t)memory);
	CHECK(word(lmr_param, 32) == 4096 && word(lmr_param, 40) == (uintptr_t)pz && half(lmr_param, 48) == 0x33);
	CHECK(half(lmr_param, 52) == local && half(lmr_param, 56) == remote && word(lmr_param, 72) == start);

	DONE(dat_ep_connect(ep[0], address, service, 5 * 1000 * 1000, 6, "please", 0, 0));
	event = next(requests);
	CHECK(event.number == 0x2001 && event.data[0] == (uintptr_t)psp && event.data[2] == service);
	void *request = (void *)(uintptr_t)event.data[3];
	unsigned char cr_param[40];
	DONE(dat_cr_query(request, 0x1f, cr_param));
	CHECK(half(cr_param, 16) == 6 && !memcmp((void *)(uintptr_t)word(cr_param, 24), "please", 6));
	CHECK(word(cr_param, 32) == 0 && word(cr_param, 0) != 0);
	union cookie cookie = { .number = 41 };
	struct piece into = { local, 0xaaaaaaaa, (uintptr_t)memory + 2048, 64 };
	DONE(dat_ep_post_recv(ep[1], 1, &into, cookie, 0));
	DONE(dat_cr_accept(request, ep[1], 4, "sure"));
	for (int i = 0; i < 2; i++) {
		event = next(connections);
		CHECK(event.number == 0x4001);
		if (event.data[0] == (uintptr_t)ep[0])
			CHECK((u32)event.data[1] == 4 && !memcmp((void *)(uintptr_t)event.data[2], "sure", 4));
		else
			CHECK(event.data[0] == (uintptr_t)ep[1] && (u32)event.data[1] == 0);
	}
	unsigned char ep_param[192];
	DONE(dat_ep_query(ep[0], 0x7ffff7ff, ep_param));
	CHECK(word(ep_param, 0) == (uintptr_t)ia && half(ep_param, 8) == 9 && word(ep_param, 40) == service);
	CHECK(word(ep_param, 48) == (uintptr_t)pz && word(ep_param, 72) == (uintptr_t)connections);
	CHECK(word(ep_param, 80) == 0 && half(ep_param, 88 + 36) > 0);

	/* Calls through the table: a bind, whose context travels in a send, and an RDMA write with it. */
	DONE(dat_rmr_create(pz, &rmr));
	struct piece window = { local, 0, (uintptr_t)memory + 1024, 512 };
	u32 window_context = 0;
	cookie.number = 42;
	u32 (*bind)(void *, const struct piece *, u32, void *, union cookie, u32, u32 *) = function(rmr, 42);
	DONE(bind(rmr, &window, 0x20, ep[1], cookie, 0, &window_context));
	event = next(transfers);
	CHECK(event.number == 0x1001 && event.data[0] == (uintptr_t)rmr && event.data[1] == 42 && (u32)event.data[2] == 0);
	strcpy(memory, "through the table");
	struct piece from = { local, 0, (uintptr_t)memory, 18 };
	struct piece to = { window_context, 0, (uintptr_t)memory + 1024, 18 };
	cookie.number = 43;
	u32 (*rdma_write)(void *, int, struct piece *, union cookie, const struct piece *, u32) = function(ep[0], 34);
	DONE(rdma_write(ep[0], 1, &from, cookie, &to, 0));
	event = next(transfers);
	CHECK(event.number == 1 && event.data[0] == (uintptr_t)ep[0] && event.data[1] == 43 && (u32)event.data[2] == 0);
	CHECK(event.data[3] == 18 && !strcmp(memory + 1024, "through the table"));
	cookie.number = 44;
	u32 (*post_send)(void *, int, struct piece *, union cookie, u32) = function(ep[0], 31);
	DONE(post_send(ep[0], 1, &from, cookie, 0x01));
	event = next(transfers);
	CHECK(event.number == 1 && event.data[0] == (uintptr_t)ep[1] && event.data[1] == 41 && event.data[3] == 18);
	CHECK(!strcmp(memory + 2048, "through the table"));

	DONE(dat_ep_disconnect(ep[0], 1));
	for (int i = 0; i < 2; i++)
		CHECK(next(connections).number == 0x4005);
	CHECK(dat_ia_close(ia, 1) == 0x8007004f);
	DONE(dat_ia_close(ia, 0));
	CHECK(dat_ia_close(ia, 0) == 0x8005000b && dat_get_handle_type(pz, &kind) == 0x8005001a);
	printf("%d checks\n", checks);
	return 0;
}
