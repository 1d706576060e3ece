// A filter of system calls (seccomp(2)): those that are named end in `action`, all others are let through. Needs no privilege, and none
// can be had any more.

#ifndef NONIC_INTEROP_FILTER_H
#define NONIC_INTEROP_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILTERED_MAX 63

// For this thread, or for all there are with SECCOMP_FILTER_FLAG_TSYNC in `flags`; 0, or -1 with errno.
static int filter_calls(const int *calls, size_t count, unsigned action, unsigned flags)
{
    struct sock_filter program[2 * FILTERED_MAX + 2];
    unsigned short length = 0;
    if (count > FILTERED_MAX)
        return -1;
    program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    }
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {.len = length, .filter = program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) ? -1 : 0;
}

#endif
