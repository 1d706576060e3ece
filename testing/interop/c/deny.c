// Runs a program under a seccomp filter that refuses the system calls named, with EPERM, as container profiles do.
//
// Usage: deny CALL[,CALL...] PROGRAM [ARGS...]     with CALL one of process_vm, memfd, userfaultfd, membarrier,
// and container: of what Docker's own profile refuses to a container without privileges, whatever has to do with memory,
// processes, files and namespaces. It allows process_vm on kernels since 4.8, so that has a name of its own.

#define _GNU_SOURCE
#include "filter.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int count;
    int calls[24];
} known[] = {
    {"process_vm", 2, {SYS_process_vm_readv, SYS_process_vm_writev}},
    {"memfd", 1, {SYS_memfd_create}},
    {"userfaultfd", 1, {SYS_userfaultfd}},
    {"membarrier", 1, {SYS_membarrier}},
    {"container", 21, {SYS_userfaultfd, SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy, SYS_move_pages, SYS_migrate_pages,
                       SYS_kcmp, SYS_pidfd_getfd, SYS_process_madvise, SYS_io_uring_setup, SYS_io_uring_enter,
                       SYS_io_uring_register, SYS_perf_event_open, SYS_bpf, SYS_keyctl, SYS_add_key, SYS_open_by_handle_at,
                       SYS_mount, SYS_unshare, SYS_setns, SYS_personality}},
};

int main(int argc, char **argv)
{
    int calls[FILTERED_MAX];
    size_t count = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: deny CALL[,CALL...] PROGRAM [ARGS...]\n");
        return 2;
    }
    for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ",")) {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(known[k].name, name) != 0)
            k++;
        if (k == sizeof known / sizeof *known) {
            fprintf(stderr, "deny: no such call: %s\n", name);
            return 2;
        }
        for (int i = 0; i < known[k].count; i++) {
            if (count == FILTERED_MAX) {
                fprintf(stderr, "deny: more than %d calls\n", FILTERED_MAX);
                return 2;
            }
            calls[count++] = known[k].calls[i];
        }
    }
    if (filter_calls(calls, count, SECCOMP_RET_ERRNO | EPERM, 0)) {
        perror("deny: seccomp");
        return 2;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
