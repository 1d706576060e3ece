// A datagram to another host costs the system call that sends it: nothing is looked up in files for it. From the second one on a filter
// ends the program if it asks the file system anything. Nobody has to be there: datagrams are not answered.
//
// Usage: wire_datagrams GID_INDEX ADDRESS

#include "common.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define DATAGRAMS 100

static void ask_no_file(void)
{
    static const int asks[] = {SYS_readlink, SYS_readlinkat, SYS_open,  SYS_openat,  SYS_stat,
                               SYS_lstat,    SYS_newfstatat, SYS_statx, SYS_access, SYS_faccessat};
    struct sock_filter program[2 * sizeof asks / sizeof *asks + 2];
    unsigned short length = 0;
    program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, asks[i], 0, 1);
        program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {.len = length, .filter = program};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    // For this thread, which sends.
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

int main(int argc, char **argv)
{
    struct in6_addr there = {0};
    REQUIRE(argc == 3);
    there.s6_addr[10] = there.s6_addr[11] = 0xff;
    REQUIRE(inet_pton(AF_INET, argv[2], there.s6_addr + 12) == 1);
    setbuf(stdout, NULL);
    self.active = true;

    struct ibv_context *context = open_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    char *buffer = calloc(1, 4096);
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    REQUIRE(pd && cq && buffer && mr && qp);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111};
    REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    attr.qp_state = IBV_QPS_RTR;
    REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    attr.qp_state = IBV_QPS_RTS;
    REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
    struct ibv_ah_attr route = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = atoi(argv[1]), .hop_limit = 64}};
    memcpy(route.grh.dgid.raw, &there, 16);
    struct ibv_ah *ah = ibv_create_ah(pd, &route);
    REQUIRE(ah);

    int sent = 0;
    for (int i = 0; i < DATAGRAMS; i++) {
        struct ibv_sge piece = {.addr = (uintptr_t)buffer, .length = 64, .lkey = mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
                                 .wr.ud = {.ah = ah, .remote_qpn = 0x123456, .remote_qkey = 0x11111111}}, *bad;
        REQUIRE(ibv_post_send(qp, &wr, &bad) == 0);
        sent += next_completion(cq).status == IBV_WC_SUCCESS;
        if (i == 0)
            ask_no_file();
    }
    CHECK_EQ("wire", "datagrams to another host ask for no file", sent, DATAGRAMS);
    printf("%d passed, %d failed\n", self.passed, self.failed);
    // What the library does when a program ends is another matter.
    _exit(sent == DATAGRAMS ? 0 : 1);
}
