// Three or more ranks that pass messages, meet in collective calls, and reach into each other's windows. Every byte is checked.
//
// Compiled by the distribution's mpicc. Ends with "N ranks: all that was sent has come", or says what has not and aborts.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

#define REQUIRE(condition, ...)                                                                                     \
    do {                                                                                                            \
        if (!(condition)) {                                                                                         \
            printf("FAIL rank %d, line %d: ", rank, __LINE__);                                                      \
            printf(__VA_ARGS__);                                                                                    \
            printf("\n");                                                                                           \
            fflush(stdout);                                                                                         \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                           \
        }                                                                                                           \
    } while (0)

// The byte at a place of what a rank sends in a round.
static uint8_t byte(int from, int round, size_t place)
{
    return (uint8_t)(from * 31 + round * 7 + place * 13 + (place >> 8));
}

// Messages of every size around the ring, some at a time.
static void ring(void)
{
    enum { TOGETHER = 4 };
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    for (size_t size = 1; size <= 4 << 20; size = size < 16384 ? size * 4 + 3 : size * 8) {
        uint8_t *out[TOGETHER], *in[TOGETHER];
        MPI_Request requests[2 * TOGETHER];
        for (int i = 0; i < TOGETHER; i++) {
            out[i] = malloc(size);
            in[i] = calloc(size, 1);
            REQUIRE(out[i] && in[i], "no memory");
            for (size_t at = 0; at < size; at++)
                out[i][at] = byte(rank, i, at);
        }
        for (int i = 0; i < TOGETHER; i++) {
            MPI_Irecv(in[i], (int)size, MPI_BYTE, last, i, MPI_COMM_WORLD, &requests[i]);
            MPI_Isend(out[i], (int)size, MPI_BYTE, next, i, MPI_COMM_WORLD, &requests[TOGETHER + i]);
        }
        MPI_Waitall(2 * TOGETHER, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < TOGETHER; i++) {
            for (size_t at = 0; at < size; at++)
                REQUIRE(in[i][at] == byte(last, i, at), "byte %zu of message %d of %zu bytes is %u", at, i, size, in[i][at]);
            free(out[i]), free(in[i]);
        }
    }
}

// Many short messages from all to one, which takes them as they come.
static void many(void)
{
    enum { COUNT = 500 };
    if (rank != 0) {
        for (int i = 0; i < COUNT; i++)
            MPI_Send(&i, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
        return;
    }
    int *expected = calloc((size_t)ranks, sizeof(int));
    REQUIRE(expected, "no memory");
    for (int i = 0; i < COUNT * (ranks - 1); i++) {
        int value;
        MPI_Status status;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &status);
        REQUIRE(value == expected[status.MPI_SOURCE]++, "message %d of rank %d came out of turn", value, status.MPI_SOURCE);
    }
    free(expected);
}

static void together(void)
{
    enum { COUNT = 5000 };
    int64_t *mine = malloc(COUNT * sizeof(*mine)), *sum = calloc(COUNT, sizeof(*sum));
    int *all_out = malloc((size_t)ranks * COUNT * sizeof(int)), *all_in = calloc((size_t)ranks * COUNT, sizeof(int));
    REQUIRE(mine && sum && all_out && all_in, "no memory");
    for (int i = 0; i < COUNT; i++)
        mine[i] = (int64_t)rank * i;
    MPI_Allreduce(mine, sum, COUNT, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        REQUIRE(sum[i] == (int64_t)ranks * (ranks - 1) / 2 * i, "sum %d is %lld", i, (long long)sum[i]);
    for (int i = 0; i < ranks * COUNT; i++)
        all_out[i] = rank * 1000000 + i;
    MPI_Alltoall(all_out, COUNT, MPI_INT, all_in, COUNT, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks * COUNT; i++)
        REQUIRE(all_in[i] == i / COUNT * 1000000 + rank * COUNT + i % COUNT, "place %d of all to all is %d", i, all_in[i]);
    free(mine), free(sum), free(all_out), free(all_in);
}

// Puts, gets and a counter that all add to.
static void windows(void)
{
    enum { COUNT = 20000, TURNS = 200 };
    int64_t *base;
    MPI_Win window;
    MPI_Win_allocate((COUNT + 1) * sizeof(*base), sizeof(*base), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    int64_t *out = malloc(COUNT * sizeof(*out)), *in = calloc(COUNT, sizeof(*in)), one = 1, old = -1;
    REQUIRE(out && in, "no memory");
    for (int i = 0; i < COUNT; i++)
        out[i] = (int64_t)rank << 32 | i, base[i] = -1;
    base[COUNT] = 0;
    MPI_Win_fence(0, window);
    MPI_Put(out, COUNT, MPI_INT64_T, next, 0, COUNT, MPI_INT64_T, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++)
        REQUIRE(base[i] == ((int64_t)last << 32 | i), "place %d of the window is %llx", i, (long long)base[i]);
    MPI_Get(in, COUNT, MPI_INT64_T, next, 0, COUNT, MPI_INT64_T, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++)
        REQUIRE(in[i] == out[i], "place %d that was got is %llx", i, (long long)in[i]);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < TURNS; i++) {
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, COUNT, MPI_SUM, window);
        MPI_Win_flush(0, window);
        REQUIRE(old >= i && old < (int64_t)TURNS * ranks, "the counter was %lld", (long long)old);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        REQUIRE(base[COUNT] == (int64_t)TURNS * ranks, "the counter is %lld", (long long)base[COUNT]);
        MPI_Win_unlock(0, window);
    }
    MPI_Win_free(&window);
    free(out), free(in);
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    ring();
    many();
    together();
    // MPICH 4.0.2 of Debian 12 puts one place off in a window of one host, over any transport.
    if (count < 2 || strcmp(words[1], "two-sided"))
        windows();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks: all that was sent has come\n", ranks);
    MPI_Finalize();
    return 0;
}
