// A nursery for programs whose peers are killed: it forks each victim anew from a process that has used nothing, so that
// every one starts from nothing; and what the rounds of all such programs have in common.

#ifndef NONIC_INTEROP_VICTIMS_H
#define NONIC_INTEROP_VICTIMS_H

#include "holdings.h"

#include <sys/prctl.h>

// What a victim needs to know.
struct order {
    uint32_t round, seed;
    uint64_t words[4];
};

// When a victim is killed.
enum when { WHILE_OPENING, WHILE_CONNECTING, UNDER_LOAD };

static UNUSED enum when when_of(uint32_t round)
{
    return round % 5 == 4 ? WHILE_OPENING : round % 5 == 2 ? WHILE_CONNECTING : UNDER_LOAD;
}

struct tally {
    int rounds, early, connected, hung, wrong, strayed;
    int64_t slowest_ms;
};

static struct tally tally;

static int nursery_line = -1;
static pid_t nursery_pid, victim_pid;

// Call it before anything is opened. `life` does not return.
static UNUSED void open_nursery(void (*life)(const struct order *))
{
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    REQUIRE((nursery_pid = fork()) >= 0);
    if (nursery_pid > 0) {
        close(ends[1]);
        nursery_line = ends[0];
        return;
    }
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct order order;
    while (recv(ends[1], &order, sizeof order, 0) == sizeof order) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            random_state = order.seed * 2654435761u + 88172645463325252u;
            life(&order);
        }
        // Not before the survivor knows the number, and is done with it: it must not be another process's by then.
        if (send(ends[1], &pid, sizeof pid, MSG_NOSIGNAL) != sizeof pid || recv(ends[1], &order, sizeof order, 0) <= 0 ||
            waitpid(pid, &status, 0) != pid || send(ends[1], &status, sizeof status, MSG_NOSIGNAL) != sizeof status)
            break;
    }
    _exit(0);
}

static UNUSED void raise_victim(uint32_t round, const uint64_t words[4])
{
    struct order order = {.round = round, .seed = random_below(UINT32_MAX)};
    memcpy(order.words, words, sizeof order.words);
    REQUIRE(send(nursery_line, &order, sizeof order, MSG_NOSIGNAL) == sizeof order);
    REQUIRE(recv(nursery_line, &victim_pid, sizeof victim_pid, 0) == sizeof victim_pid && victim_pid > 0);
}

static UNUSED void kill_victim(void)
{
    REQUIRE(kill(victim_pid, SIGKILL) == 0);
}

// Takes leave of the victim: its wait status. It was killed, or has ended.
static UNUSED int bury_victim(void)
{
    struct order go_on = {0};
    int status = -1;
    REQUIRE(send(nursery_line, &go_on, sizeof go_on, MSG_NOSIGNAL) == sizeof go_on);
    REQUIRE(recv(nursery_line, &status, sizeof status, 0) == sizeof status);
    return status;
}

// Whether the victim has ended, though nobody has taken leave of it.
static UNUSED bool victim_is_dead(void)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", victim_pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, text, sizeof text - 1) < 0)
            text[0] = 0;
        close(fd);
    }
    const char *state = strrchr(text, ')');
    return !state || state[2] == 'Z' || state[2] == 'X';
}

static uint32_t current_round;

static UNUSED void call_hangs(int number)
{
    (void)number;
    static const char text[] = "FAIL a call hangs though its peer was killed\n0 passed, 1 failed\n";
    if (write(1, text, sizeof text - 1) < 0)
        _exit(2);
    _exit(1);
}

static UNUSED void close_nursery(void)
{
    close(nursery_line);
    waitpid(nursery_pid, NULL, 0);
}

// Runs all rounds, and judges what they have in common. A round that hangs ends the program.
static UNUSED void survive(int rounds, void (*round_of)(uint32_t round))
{
    struct holdings before = {0};
    long resident_before = 0;
    REQUIRE(signal(SIGALRM, call_hangs) != SIG_ERR);
    for (int round = 0; round < rounds + WARM_UP; round++) {
        if (round == WARM_UP) {
            before = steady();
            resident_before = resident_kib();
        }
        current_round = (uint32_t)round;
        alarm(3 * PATIENCE_MS / 1000);
        round_of(current_round);
        alarm(0);
        tally.rounds++;
    }
    printf("     %d peers killed, %d of them before they were connected, %d under load; slowest %" PRId64 " ms\n",
           tally.rounds, tally.early, tally.connected, tally.slowest_ms);
    CHECK_EQ("kill", "no round hung", tally.hung, 0);
    CHECK_EQ("kill", "every error was the one that tells of the end", tally.wrong, 0);
    CHECK("kill", "and came in the time that is promised", tally.slowest_ms <= PROMISED_MS);
    CHECK_EQ("kill", "no byte outside what was granted has changed", tally.strayed, 0);
    CHECK("kill", "peers were connected and under load", tally.connected * 2 > tally.rounds);
    check_nothing_leaked(before, resident_before);
    close_nursery();
}

#endif
