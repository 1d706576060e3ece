/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dat_platform_specific.h - numbers and addresses of uDAPL 1.2 on Linux
 *
 * Everything is in host order. Lengths are bytes.
 */
#ifndef _DAT_PLATFORM_SPECIFIC_H_
#define _DAT_PLATFORM_SPECIFIC_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/socket.h>
#include <netinet/in.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An address that is a multiple of this suits every provider best. */
#ifndef DAT_OPTIMAL_ALIGNMENT
#define DAT_OPTIMAL_ALIGNMENT 256
#endif

typedef uint32_t DAT_UINT32;
typedef uint64_t DAT_UINT64;
/* The longest number of the compiler. */
#if defined(__cplusplus) && __cplusplus < 201103L
typedef unsigned long DAT_UVERYLONG;
#elif defined(__GNUC__)
__extension__ typedef unsigned long long DAT_UVERYLONG;
#else
typedef unsigned long long DAT_UVERYLONG;
#endif

typedef void *DAT_PVOID;
typedef int DAT_COUNT;
typedef DAT_UINT64 DAT_PADDR;

typedef struct sockaddr DAT_SOCK_ADDR;
typedef struct sockaddr_in6 DAT_SOCK_ADDR6;
#define DAT_AF_INET AF_INET
#define DAT_AF_INET6 AF_INET6

#ifndef UINT64_C
#define UINT64_C(number) number##UL
#endif

/* The number behind a handle of an interface adapter, and back. */
#define DAT_IA_HANDLE_TO_UL(handle) (unsigned long)(handle)
#define DAT_UL_TO_IA_HANDLE(number) (DAT_IA_HANDLE)(number)

/* Calling convention and linkage where those need words. */
#define DAT_API
#define DAT_EXPORT extern

/* Direction of an argument; for readers. */
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef INOUT
#define INOUT
#endif

#ifdef __cplusplus
}
#endif

#endif /* _DAT_PLATFORM_SPECIFIC_H_ */
