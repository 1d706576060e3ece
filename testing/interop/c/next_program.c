// The program that a peer becomes by exec: it has memory of its own where the peer's region was, and says whether
// anybody wrote to it.
//
// Usage: next_program ADDRESS LENGTH SOCKET

#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    unsigned char *at = (unsigned char *)strtoull(argv[1], NULL, 0), byte;
    size_t length = strtoull(argv[2], NULL, 0);
    int fd = atoi(argv[3]);
    if (mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
        return 3;
    memset(at, 0x5a, length);
    // Until the peer has seen its requests fail.
    if (recv(fd, &byte, 1, 0) != 1)
        return 4;
    uint64_t wrong = 0;
    for (size_t i = 0; i < length; i++)
        wrong += at[i] != 0x5a;
    return send(fd, &wrong, sizeof wrong, MSG_NOSIGNAL) == sizeof wrong ? 0 : 5;
}
