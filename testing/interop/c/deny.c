// Runs a program under a seccomp filter that refuses the system calls named, with EPERM, as container profiles do.
//
// Usage: deny CALL[,CALL...] PROGRAM [ARGS...]     with CALL one of process_vm, memfd, userfaultfd, membarrier

#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    int calls[2];
} known[] = {
    {"process_vm", {SYS_process_vm_readv, SYS_process_vm_writev}},
    {"memfd", {SYS_memfd_create, SYS_memfd_create}},
    {"userfaultfd", {SYS_userfaultfd, SYS_userfaultfd}},
    {"membarrier", {SYS_membarrier, SYS_membarrier}},
};

int main(int argc, char **argv)
{
    struct sock_filter program[64];
    unsigned short length = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: deny CALL[,CALL...] PROGRAM [ARGS...]\n");
        return 2;
    }
    program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ",")) {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(known[k].name, name) != 0)
            k++;
        if (k == sizeof known / sizeof *known) {
            fprintf(stderr, "deny: no such call: %s\n", name);
            return 2;
        }
        for (int i = 0; i < 2; i++) {
            program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, known[k].calls[i], 0, 1);
            program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
        }
    }
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {.len = length, .filter = program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        perror("deny: seccomp");
        return 2;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
