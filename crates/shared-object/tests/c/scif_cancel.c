/* Threads that are cancelled while they work with endpoints: they end where they let themselves be ended, with no lock held. */
#define _GNU_SOURCE
#include <pthread.h>
#include <scif.h>
#include <stdio.h>
#include <stdlib.h>

#define TURNS 200

static int turns;

static void *work(void *unused)
{
	(void)unused;
	for (;;) {
		scif_epd_t epd = scif_open();
		if (epd < 0 || scif_bind(epd, 0) <= 0 || scif_close(epd) != 0) {
			perror("a cancelled thread");
			exit(1);
		}
		__atomic_add_fetch(&turns, 1, __ATOMIC_RELEASE);
		pthread_testcancel();
	}
}

int main(void)
{
	for (int turn = 0; turn < TURNS; turn++) {
		pthread_t thread;
		void *result;
		int before = __atomic_load_n(&turns, __ATOMIC_ACQUIRE);
		if (pthread_create(&thread, NULL, work, NULL) != 0)
			return 1;
		while (__atomic_load_n(&turns, __ATOMIC_ACQUIRE) == before)
			sched_yield();
		if (pthread_cancel(thread) != 0 || pthread_join(thread, &result) != 0 || result != PTHREAD_CANCELED)
			return 1;
	}
	/* Nothing is held: this thread can still work. */
	scif_epd_t epd = scif_open();
	if (epd < 0 || scif_bind(epd, 0) <= 0 || scif_close(epd) != 0)
		return 1;
	printf("%d threads cancelled\n", TURNS);
	return 0;
}
