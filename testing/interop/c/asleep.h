// The last kind of event a test can wait for.

#ifndef NONIC_INTEROP_ASLEEP_H
#define NONIC_INTEROP_ASLEEP_H

#include "harness.h"

// Returns when the thread, of any process, sleeps in the kernel. Who hides /proc shows it at /mnt.
static UNUSED void await_asleep(pid_t process, pid_t thread)
{
    char path[64], line[512];
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    const char *proc = access("/proc/self", F_OK) == 0 ? "/proc" : "/mnt";
    snprintf(path, sizeof path, "%s/%d/task/%d/stat", proc, process, thread);
    for (int seen = 0; seen < 3;) {
        FILE *f = fopen(path, "re");
        REQUIRE(f && fgets(line, sizeof line, f));
        fclose(f);
        char *after_name = strrchr(line, ')');
        seen = after_name && after_name[2] == 'S' ? seen + 1 : 0;
        REQUIRE(now_ns() < deadline);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

#endif
