// A datagram to another host costs the system call that sends it: nothing is looked up in files for it. From the second one on a filter
// ends the program if it asks the file system anything. Nobody has to be there: datagrams are not answered.
//
// Usage: wire_datagrams GID_INDEX ADDRESS

#include "common.h"

#include "filter.h"

#include <arpa/inet.h>

#define DATAGRAMS 100

static void ask_no_file(void)
{
    static const int asks[] = {SYS_readlink, SYS_readlinkat, SYS_open,  SYS_openat, SYS_stat,
                               SYS_lstat,    SYS_newfstatat, SYS_statx, SYS_access, SYS_faccessat};
    // For this thread, which sends.
    REQUIRE(filter_calls(asks, sizeof asks / sizeof *asks, SECCOMP_RET_KILL_PROCESS, 0) == 0);
}

int main(int argc, char **argv)
{
    struct card there = {.gid.raw = {[10] = 0xff, 0xff}};
    REQUIRE(argc == 3 && inet_pton(AF_INET, argv[2], there.gid.raw + 12) == 1);
    setbuf(stdout, NULL);
    self.active = true;

    struct node n = open_node();
    n.type = IBV_QPT_UD;
    REQUIRE(n.qp = make_qp(&n, n.type));
    REQUIRE(to_init(&n) == 0 && to_rtr(&n, &there) == 0 && to_rts(&n, 0) == 0);
    struct ibv_ah_attr route = route_to(&there);
    route.grh.sgid_index = atoi(argv[1]);
    struct ibv_ah *ah = ibv_create_ah(n.pd, &route);
    REQUIRE(ah);

    int sent = 0;
    for (int i = 0; i < DATAGRAMS; i++) {
        struct ibv_sge bytes = piece(n.buffer, 64, n.mr->lkey);
        struct ibv_send_wr wr = {.sg_list = &bytes, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
                                 .wr.ud = {.ah = ah, .remote_qpn = 0x123456, .remote_qkey = 0x11111111}}, *bad;
        REQUIRE(ibv_post_send(n.qp, &wr, &bad) == 0);
        sent += next_completion(n.send_cq).status == IBV_WC_SUCCESS;
        if (i == 0)
            ask_no_file();
    }
    CHECK_EQ("wire", "datagrams to another host ask for no file", sent, DATAGRAMS);
    printf("%d passed, %d failed\n", self.passed, self.failed);
    // What the library does when a program ends is another matter.
    _exit(self.failed != 0);
}
