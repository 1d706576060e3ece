// What the kernel's RDMA subsystem would answer by netlink, asked for by each call that sends (view.c).

#pragma once

#include "harness.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

// Of rdma/rdma_netlink.h, which not every distribution's headers have.
enum { LIST_DEVICES = (5 << 10) + 1, CHANGE_DEVICE, ASK_SYSTEM = (5 << 10) + 6 };

struct asked {
    struct nlmsghdr header;
    char rest[64];
};

static struct asked request(uint16_t type, uint16_t flags)
{
    struct asked asked = {.header = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags, .nlmsg_seq = 7}};
    return asked;
}

enum sender { BY_SEND, BY_SENDTO, BY_SENDMSG, SENDERS };

static ssize_t send_by(enum sender sender, int fd, struct asked *asked)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    size_t length = asked->header.nlmsg_len, first = 5;
    struct iovec pieces[] = {{asked, first}, {(char *)asked + first, length - first}};
    struct msghdr message = {.msg_name = &kernel, .msg_namelen = sizeof(kernel), .msg_iov = pieces, .msg_iovlen = 2};
    switch (sender) {
    case BY_SEND:
        return send(fd, asked, length, 0);
    case BY_SENDTO:
        return sendto(fd, asked, length, 0, (struct sockaddr *)&kernel, sizeof(kernel));
    default:
        return sendmsg(fd, &message, 0);
    }
}

// What waits at the socket: the first message's type, 0 if nothing does. `content` is the whole of it.
static int waits(int fd, char *content, size_t room)
{
    memset(content, 0, room);
    struct nlmsghdr *header = (struct nlmsghdr *)content;
    ssize_t length = recv(fd, content, room, MSG_DONTWAIT);
    return length >= (ssize_t)sizeof(*header) && header->nlmsg_seq == 7 ? header->nlmsg_type : 0;
}

static int error_of(const char *content)
{
    return ((const struct nlmsgerr *)NLMSG_DATA(content))->error;
}

static void asking_by_netlink(void)
{
    _Alignas(struct nlmsghdr) char content[4096];
    struct asked list = request(LIST_DEVICES, NLM_F_DUMP), change = request(CHANGE_DEVICE, NLM_F_ACK), nothing = request(NLMSG_NOOP, 0);
    for (enum sender sender = BY_SEND; sender < SENDERS; sender++) {
        int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
        CHECK("VIEW", "there is a socket of the subsystem", fd >= 0 && waits(fd, content, sizeof(content)) == 0);
        CHECK_EQ("VIEW", "a request goes whole", send_by(sender, fd, &list), (ssize_t)list.header.nlmsg_len);
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        CHECK("VIEW", "an answer waits", poll(&readable, 1, 0) == 1 && readable.revents == POLLIN);
        CHECK("VIEW", "and names the device", waits(fd, content, sizeof(content)) == LIST_DEVICES && memmem(content, sizeof(content), "nonic0", 7));
        struct sockaddr_nl own = {0};
        socklen_t length = sizeof(own);
        CHECK("VIEW", "it is for the port that the socket was given",
              !getsockname(fd, (struct sockaddr *)&own, &length) && own.nl_pid && own.nl_pid == ((struct nlmsghdr *)content)->nlmsg_pid);
        int stranger = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
        errno = 0;
        CHECK("VIEW", "nobody else can send there", sendto(stranger, "a lie", 5, 0, (struct sockaddr *)&own, sizeof(own)) == -1 && errno == ECONNREFUSED);
        close(stranger);
        REQUIRE(send_by(sender, fd, &change) > 0);
        CHECK("VIEW", "changing a device is refused", waits(fd, content, sizeof(content)) == NLMSG_ERROR && error_of(content) == -EOPNOTSUPP);
        CHECK("VIEW", "what asks for nothing is not answered", send_by(sender, fd, &nothing) > 0 && waits(fd, content, sizeof(content)) == 0);
        close(fd);

        // Another socket with that number is none of these.
        int ends[2];
        REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
        REQUIRE(ends[0] == fd || dup2(ends[0], fd) == fd);
        ssize_t sent = sender == BY_SENDTO ? sendto(fd, "mine", 4, 0, NULL, 0) : send(fd, "mine", 4, 0);
        CHECK("VIEW", "a socket that has its number later is the program's", sent == 4 && recv(ends[1], content, 8, 0) == 4 && !memcmp(content, "mine", 4));
        close(ends[0]), close(ends[1]), close(fd);
    }
    struct ibv_device **devices = ibv_get_device_list(NULL);
    REQUIRE(devices && devices[0]);
    struct asked one = request(LIST_DEVICES, 0);
    uint32_t index = ibv_get_device_index(devices[0]);
    struct nlattr attribute = {.nla_len = NLA_HDRLEN + sizeof(index), .nla_type = 1 /* RDMA_NLDEV_ATTR_DEV_INDEX */};
    memcpy(one.rest, &attribute, sizeof(attribute));
    memcpy(one.rest + NLA_HDRLEN, &index, sizeof(index));
    one.header.nlmsg_len += attribute.nla_len;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
    CHECK("VIEW", "a device is known by the number that libibverbs says",
          send_by(BY_SEND, fd, &one) > 0 && waits(fd, content, sizeof(content)) == LIST_DEVICES && memmem(content, sizeof(content), "nonic0", 7));
    close(fd);
    ibv_free_device_list(devices);

    int own = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
    REQUIRE(own >= 0);
    errno = 0;
    CHECK("VIEW", "sockets of other protocols are the kernel's", send(own, &list, list.header.nlmsg_len, 0) == -1 && errno == ECONNREFUSED);
    close(own);
}
