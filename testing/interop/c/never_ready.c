/* Stands in front of the C library: what a connection manager says when its side is ready (RTU) is lost on its way, each time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

/* Behind the headers of a packet (12) and of a datagram (8), a management datagram says in two bytes (16) which message it is. */
enum { LENGTH = 12 + 8 + 256 + 4, MESSAGE = 12 + 8 + 16, READY_TO_USE = 0x14 };

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);
	if (!real)
		real = (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
	if (message->msg_iovlen == 1 && message->msg_iov->iov_len == LENGTH) {
		const unsigned char *bytes = message->msg_iov->iov_base;
		if ((bytes[MESSAGE] << 8 | bytes[MESSAGE + 1]) == READY_TO_USE)
			return write(2, "not said\n", 9) == 9 ? LENGTH : -1;
	}
	return real(fd, message, flags);
}
