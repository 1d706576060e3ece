// Speed of SCIF beside the machine's own limits, measured in turn within the same run: every round measures the limit, then
// the call, and the ratio is taken round by round. A row shows the least, the median and the most.
//
// Usage: bench [--quick]

#include "far.h"
#include "../bench.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#define MIB (1l << 20)
#define OWN 0x100000l   // offsets of this end's room and of the far end's
#define THERE 0x200000l

// ---- round trips -------------------------------------------------------------------------------------------------

// The other process answers in one of several ways, told by the mode word.
enum mode { STOP = 0, LINE, SPIN, BLOCK, SOCKET };

static struct board {
    _Alignas(128) volatile uint64_t to, _a[15];
    _Alignas(128) volatile uint64_t back, _b[15];
    _Alignas(128) volatile uint64_t mode, _c[15];
} *board;

static int sockets[2];
static int here_cpu, other_cpu;

// While it spins it looks at the board for another mode; where it sleeps, every message says what comes next.
static void answer_for_ever(scif_epd_t e)
{
    char text[8];
    uint64_t seen = 0;
    for (enum mode mode = LINE;;) {
        switch (mode) {
        case LINE:
            if (board->to != seen)
                board->back = seen = board->to;
            mode = (enum mode)board->mode;
            break;
        case SPIN:
            if (scif_recv(e, text, 8, 0) == 8)
                scif_send(e, text, 8, 0);
            mode = (enum mode)board->mode;
            break;
        case BLOCK:
            if (scif_recv(e, text, 8, SCIF_RECV_BLOCK) != 8 || scif_send(e, text, 8, SCIF_SEND_BLOCK) != 8)
                _exit(1);
            mode = (enum mode)text[0];
            break;
        case SOCKET:
            if (read(sockets[1], text, 8) != 8 || write(sockets[1], text, 8) != 8)
                _exit(1);
            mode = (enum mode)text[0];
            break;
        default:
            _exit(0);
        }
    }
}

static void set_mode(enum mode mode)
{
    char text[8] = {(char)mode};
    enum mode old = (enum mode)board->mode;
    board->mode = mode;
    if (old == mode)
        return;
    if (old == BLOCK && (scif_send(epd, text, 8, 1) != 8 || scif_recv(epd, text, 8, 1) != 8))
        _exit(1);
    if (old == SOCKET && (write(sockets[0], text, 8) != 8 || read(sockets[0], text, 8) != 8))
        _exit(1);
}

static double line_round_trip(int iterations)
{
    set_mode(LINE);
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++) {
        uint64_t next = board->to + 1;
        board->to = next;
        while (board->back != next)
            ;
    }
    return since(began, iterations);
}

static double spinning(int iterations)
{
    char text[8] = {0};
    set_mode(SPIN);
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++) {
        scif_send(epd, text, 8, 0);
        while (scif_recv(epd, text, 8, 0) == 0)
            ;
    }
    return since(began, iterations);
}

static double blocking(int iterations)
{
    char text[8] = {BLOCK};
    set_mode(BLOCK);
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++) {
        scif_send(epd, text, 8, 1);
        scif_recv(epd, text, 8, 1);
    }
    return since(began, iterations);
}

static double socket_round_trip(int iterations)
{
    char text[8] = {SOCKET};
    set_mode(SOCKET);
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        if (write(sockets[0], text, 8) != 8 || read(sockets[0], text, 8) != 8)
            return -1;
    return since(began, iterations);
}

static pid_t start_answering(bool one_cpu)
{
    int64_t port;
    board = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(board != MAP_FAILED && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    scif_epd_t listener = scif_open();
    REQUIRE((port = scif_bind(listener, 0)) > 0 && scif_listen(listener, 1) == 0);
    board->mode = LINE;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct scif_portID peer;
        scif_epd_t e;
        pin(one_cpu ? here_cpu : other_cpu);
        if (scif_accept(listener, &peer, &e, SCIF_ACCEPT_SYNC))
            _exit(1);
        answer_for_ever(e);
    }
    pin(here_cpu);
    struct scif_portID to = at_port(port);
    REQUIRE(child > 0 && (epd = scif_open()) >= 0 && scif_connect(epd, &to) > 0);
    scif_close(listener);
    return child;
}

static void stop_answering(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    scif_close(epd);
    close(sockets[0]);
    close(sockets[1]);
    munmap(board, PAGE);
}

static void round_trips(void)
{
    pid_t child;
    if (here_cpu != other_cpu) {
        child = start_answering(false);
        row("send and receive 8 B blocking (round trip)", blocking, "cache line round trip", line_round_trip, 20000, 3);
        row("... beside what waits in the kernel", blocking, "Unix socket", socket_round_trip, 3000, 1.3);
        row("... without BLOCK, again and again", spinning, "Unix socket", socket_round_trip, 3000, 0);
        stop_answering(child);
    }
    child = start_answering(true);
    board->mode = BLOCK;
    row("... blocking, both on one CPU", blocking, "Unix socket", socket_round_trip, 3000, 1.3);
    stop_answering(child);
    sched_setaffinity(0, sizeof(cpu_set_t), &(cpu_set_t){{~0ul}});
}

// ---- memory ------------------------------------------------------------------------------------------------------

static unsigned char *source, *target, *mapped, *small;

static void stream_copy(unsigned char *to, const unsigned char *from, size_t length)
{
#ifdef __x86_64__
    for (size_t i = 0; i < length; i += 64) {
        __m128i a = _mm_load_si128((const __m128i *)(from + i)), b = _mm_load_si128((const __m128i *)(from + i + 16)),
                c = _mm_load_si128((const __m128i *)(from + i + 32)), d = _mm_load_si128((const __m128i *)(from + i + 48));
        _mm_stream_si128((__m128i *)(to + i), a);
        _mm_stream_si128((__m128i *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(to + i + 48), d);
    }
    _mm_sfence();
#else
    memcpy(to, from, length);
#endif
}

static double non_temporal(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        stream_copy(target, source, MIB);
    return since(began, iterations);
}

static double write_large(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        if (scif_writeto(epd, OWN, MIB, THERE, SYNC))
            return -1;
    return since(began, iterations);
}

static double read_large(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        if (scif_readfrom(epd, OWN, MIB, THERE, SYNC))
            return -1;
    return since(began, iterations);
}

static double vwrite_large(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        if (scif_vwriteto(epd, source, MIB, THERE, SYNC))
            return -1;
    return since(began, iterations);
}

static double write_small(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        if (scif_writeto(epd, OWN, 8, THERE, SYNC | SCIF_RMA_USECPU))
            return -1;
    return since(began, iterations);
}

static double read_small(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        if (scif_readfrom(epd, OWN, 8, THERE, SYNC | SCIF_RMA_USECPU))
            return -1;
    return since(began, iterations);
}

static double vwrite_small(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        if (scif_vwriteto(epd, source, 8, THERE, SYNC | SCIF_RMA_USECPU))
            return -1;
    return since(began, iterations);
}

static double stores(volatile uint64_t *words, int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        for (int line = 0; line < 64; line++)
            words[line * 8] = (uint64_t)i;
    return since(began, iterations * 64);
}

static double plain_stores(int iterations)
{
    return stores((volatile uint64_t *)target, iterations);
}

static double mapped_stores(int iterations)
{
    return stores((volatile uint64_t *)mapped, iterations);
}

static double mark_and_wait(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++) {
        int mark;
        if (scif_fence_mark(epd, SCIF_FENCE_INIT_SELF, &mark) || scif_fence_wait(epd, mark))
            return -1;
    }
    return since(began, iterations);
}

static double signal_remote(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        if (scif_fence_signal(epd, 0, 0, THERE + 64, i, SCIF_FENCE_INIT_SELF | SCIF_SIGNAL_REMOTE))
            return -1;
    return since(began, iterations);
}

static double window_comes_and_goes(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++) {
        off_t at = scif_register(epd, small, PAGE, 0, BOTH, 0);
        if (at < 0 || scif_unregister(epd, at, PAGE))
            return -1;
    }
    return since(began, iterations);
}

static void memory(void)
{
    connect_ends();
    source = near_room;
    target = fresh_pages(NULL, MIB);
    small = fresh_pages(NULL, PAGE);
    memset(source, 1, MIB);
    memset(target, 1, MIB);
    memset(small, 1, PAGE);
    FAR_MUST(FAR_FILL, 0, MIB, 1);
    REQUIRE(scif_register(epd, source, MIB, OWN, BOTH, FIXED) == OWN);
    REQUIRE(at_far(FAR_REGISTER, 0, MIB, THERE, BOTH, FIXED) == THERE);
    mapped = scif_mmap(NULL, PAGE, BOTH, 0, epd, THERE + MIB - PAGE);
    REQUIRE(mapped != SCIF_MMAP_FAILED && scif_register(epd, small, PAGE, 0, BOTH, 0) >= 0);
    row("writeto 1 MiB SYNC", write_large, "non-temporal copy", non_temporal, 200, 1 / 0.9);
    row("readfrom 1 MiB SYNC", read_large, "non-temporal copy", non_temporal, 200, 1 / 0.9);
    row("vwriteto 1 MiB SYNC", vwrite_large, "non-temporal copy", non_temporal, 200, 1 / 0.9);
    row("writeto 8 B USECPU SYNC", write_small, NULL, NULL, 100000, 200);
    row("readfrom 8 B USECPU SYNC", read_small, NULL, NULL, 100000, 200);
    row("vwriteto 8 B USECPU SYNC", vwrite_small, NULL, NULL, 100000, 200);
    row("store through scif_mmap", mapped_stores, "plain store", plain_stores, 20000, 1.1);
    row("fence_mark and fence_wait, nothing pending", mark_and_wait, NULL, NULL, 100000, 0);
    row("fence_signal, remote", signal_remote, NULL, NULL, 100000, 0);
    row("register and unregister 4 KiB adopted before", window_comes_and_goes, NULL, NULL, 10000, 2000);
    part();
    munmap(target, MIB);
    munmap(small, PAGE);
}

// ---- many --------------------------------------------------------------------------------------------------------

#define WINDOWS 10000
static off_t places[8192];
static int spread;

// A read of 8 bytes from changing windows. The places are shuffled beforehand; their table stays in the cache.
static double read_somewhere(int iterations)
{
    int64_t began = now_ns();
    for (int i = 0; i < iterations; i++)
        if (scif_vreadfrom(epd, source, 8, places[i % spread], SYNC | SCIF_RMA_USECPU))
            return -1;
    return since(began, iterations);
}

static void lookups(void)
{
    struct series found = {0}, one = {0}, many = {0};
    connect_ends();
    FAR_MUST(FAR_FILL, 0, PAGE, 1);
    int64_t began = now_ns();
    for (int i = 0; i < WINDOWS; i++)
        FAR_MUST(FAR_REGISTER, 0, PAGE, (int64_t)(1 + 2 * i) * PAGE, BOTH, FIXED);
    printf("%-46s%10.1f\n", "registered 10,000 windows, each", since(began, WINDOWS));
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < rounds; i++) {
        spread = 1;
        places[0] = PAGE;
        read_somewhere(1000);
        one.value[one.count++] = read_somewhere((int)(100000 * quick));
        // All in one page of the target: what differs is the window alone.
        spread = 8192;
        for (int j = 0; j < spread; j++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            places[j] = (off_t)(1 + 2 * (random % WINDOWS)) * PAGE;
        }
        read_somewhere(10000);
        many.value[many.count++] = read_somewhere((int)(100000 * quick));
        found.value[found.count] = many.value[many.count - 1] - one.value[one.count - 1];
        found.count++;
    }
    printf("%-46s", "vreadfrom 8 B, one window of 10,000");
    triple(&one, "%10.1f");
    printf("\n%-46s", "vreadfrom 8 B, random windows of 10,000");
    triple(&many, "%10.1f");
    printf("\n%-46s", "lookup: the difference");
    triple(&found, "%10.1f");
    double result = at_rank(&found, 50);
    missed += result > 50;
    printf("   %-28s%10s  %7s%7s%7s   at most 50 ns: %s\n", "", "", "", "", "", result <= 50 ? "kept" : "MISSED");
    part();
}

#define ENDPOINTS 1000

static long resident_kib(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long kib = -1;
    while (f && fgets(line, sizeof line, f) && sscanf(line, "VmRSS: %ld", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return kib;
}

// All of them in this process, in pairs.
static void endpoints(void)
{
    static scif_epd_t ends[ENDPOINTS];
    struct scif_portID peer, to;
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    scif_epd_t listener = scif_open();
    int port = scif_bind(listener, 0), bad = 0;
    REQUIRE(port > 0 && scif_listen(listener, 8) == 0);
    to = at_port(port);
    long before = resident_kib();
    int64_t began = now_ns();
    for (int i = 0; i < ENDPOINTS; i += 2) {
        REQUIRE((ends[i] = scif_open()) >= 0);
        set_nonblocking(ends[i], true);
        REQUIRE(scif_connect(ends[i], &to) == -1 && errno == EINPROGRESS);
        REQUIRE(scif_accept(listener, &peer, &ends[i + 1], SCIF_ACCEPT_SYNC) == 0 && scif_connect(ends[i], &to) > 0);
    }
    double each = since(began, ENDPOINTS / 2);
    began = now_ns();
    for (int i = 0; i < ENDPOINTS; i++) {
        char text[8] = {0};
        bad += scif_send(ends[i], text, 8, 1) != 8 || scif_recv(ends[i ^ 1], text, 8, 1) != 8;
    }
    printf("%-46s%10.1f\n", "1,000 endpoints: open, connect, accept, a pair", each);
    printf("%-46s%10.1f   (%d failed)\n", "... 8 B through each", since(began, ENDPOINTS), bad);
    printf("%-46s%10ld KiB\n", "... resident memory of a pair", (resident_kib() - before) / (ENDPOINTS / 2));
    began = now_ns();
    for (int i = 0; i < ENDPOINTS; i++)
        bad += scif_close(ends[i]) != 0;
    printf("%-46s%10.1f\n", "... close, each", since(began, ENDPOINTS));
    missed += bad;
    scif_close(listener);
}

int main(int argc, char **argv)
{
    cpu_set_t allowed;
    if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
        rounds = 3;
        quick = 0.1;
    }
    REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    for (int cpu = CPU_SETSIZE - 1, seen = 0; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &allowed)) {
            if (seen++ == 0)
                other_cpu = cpu;
            here_cpu = cpu;
        }
    begin(1, argv);
    printf("%-46s%10s%10s%10s   %-28s%10s  %7s%7s%7s\n", "nanoseconds", "least", "median", "most", "limit", "median",
           "least", "ratio", "most");
    round_trips();
    memory();
    lookups();
    endpoints();
    if (missed)
        printf("%d goals missed\n", missed);
    return 0;
}
