/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * scif.h - the Symmetric Communications Interface, as nonic offers it
 *
 * SCIF joins programs on several nodes by endpoints. Two connected endpoints have a byte stream each way, and each has
 * a registered address space: offsets, not addresses, behind which stand pages of the process. The other side reads,
 * writes and maps those pages by their offsets, without the owner's help.
 *
 * Programs link with -lscif (libscif.so.0). Types, names and values are those that programs written for MPSS 3.x and
 * 4.x use, so these compile unchanged, as C and as C++. What differs from the cards is said in scif(7); each call has a
 * page in section 3 of the manual.
 *
 * Units: lengths and offsets are bytes. "Page" means 4096 bytes. Times are milliseconds.
 *
 * Results: unless its text says otherwise a call answers 0 or a positive value when it succeeds, and -1 with errno set
 * when it fails. A call that succeeds leaves errno as it was. A call that fails has changed nothing, except where its
 * text says so.
 *
 * Errors that every call with an endpoint has, and that are not repeated below:
 *   EINVAL      the number is no endpoint
 *   ENXIO       the engine (libnonic.so) was not found beside libscif.so.0; the reason is on standard error
 *   EIO         a fault of the library itself, with details on standard error
 * Calls that need a connection (register, unregister, mmap, all RMA, all fences) have these besides:
 *   ENOTCONN    the endpoint is not connected
 *   ECONNRESET  it was, and the peer has closed it or ended
 */
#ifndef __SCIF_H__
#define __SCIF_H__

#include <sys/types.h>
#include <stdint.h>
#include <unistd.h>
#include <errno.h>
#include <sys/select.h>
#include <poll.h>

#ifndef MICACCESSAPI
#define MICACCESSAPI
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types ------------------------------------------------------------------------------------------------------ */

/*
 * An endpoint: a file descriptor. poll(2), select(2), epoll(7), fcntl(2), dup(2), fork(2) and close(2) work on it; an
 * endpoint ends when the last copy of its descriptor is closed.
 */
typedef int scif_epd_t;

/* Where an endpoint is, for all nodes. */
struct scif_portID {
	uint16_t node; /* number of the node; 0 is the host */
	uint16_t port; /* port on that node, 1 to 65535 */
};

/* One entry of scif_poll(). Its layout is that of struct pollfd. */
struct scif_pollepd {
	scif_epd_t epd; /* an endpoint or any other descriptor; a negative number is skipped */
	short events;   /* what to wait for: SCIF_POLLIN, SCIF_POLLOUT or both */
	short revents;  /* what has happened */
};

/* Results of the calls that cannot answer -1 as an int. */
#define SCIF_OPEN_FAILED ((scif_epd_t)(-1))
#define SCIF_REGISTER_FAILED ((off_t)(-1))
#define SCIF_MMAP_FAILED ((void *)(-1))

/* Names from before version 1 of the interface, which many programs still use. */
#define portID scif_portID
typedef struct scif_portID portID_t;

/* ---- Flags ------------------------------------------------------------------------------------------------------ */

/* Of scif_accept(), scif_send() and scif_recv(): wait. */
#define SCIF_ACCEPT_SYNC 1
#define SCIF_SEND_BLOCK 1
#define SCIF_RECV_BLOCK 1
#define ACCEPT_SYNC SCIF_ACCEPT_SYNC
#define SEND_BLOCK SCIF_SEND_BLOCK
#define RECV_BLOCK SCIF_RECV_BLOCK

/* Of scif_register() and scif_mmap(): what may be done with a window, or through a mapping. As PROT_* of mmap(2). */
enum {
	SCIF_PROT_READ = 0x1,
	SCIF_PROT_WRITE = 0x2
};

/* Of scif_register() and scif_mmap(): take exactly the place named. The second one is for kernels, and refused here. */
enum {
	SCIF_MAP_FIXED = 0x10,
	SCIF_MAP_KERNEL = 0x20
};

/* Of the fences: which side's RMAs are meant, those this endpoint started or those its peer started. */
enum {
	SCIF_FENCE_INIT_SELF = 0x1,
	SCIF_FENCE_INIT_PEER = 0x2
};

/* Known by name, refused by every call. */
enum {
	SCIF_FENCE_RAS_SELF = 0x4,
	SCIF_FENCE_RAS_PEER = 0x8
};

/* Of scif_fence_signal(): in whose registered address space a value is stored. */
enum {
	SCIF_SIGNAL_LOCAL = 0x10,
	SCIF_SIGNAL_REMOTE = 0x20
};

/* Of the RMA calls. */
#define SCIF_RMA_USECPU 0x1   /* the calling thread copies; the bytes have arrived when the call returns */
#define SCIF_RMA_USECACHE 0x2 /* a hint about pinning; taken and without effect */
#define SCIF_RMA_SYNC 0x4     /* return when the bytes have arrived */
#define SCIF_RMA_ORDERED 0x8  /* the last cache line of the source appears at the target after all others */

/* Of scif_poll(). */
#define SCIF_POLLIN POLLIN
#define SCIF_POLLOUT POLLOUT
#define SCIF_POLLERR POLLERR
#define SCIF_POLLHUP POLLHUP
#define SCIF_POLLNVAL POLLNVAL

/* ---- Ports ------------------------------------------------------------------------------------------------------ */

/* Below this a bind needs privilege: CAP_SYS_ADMIN, or an operator who has set NONIC_SCIF_PORT_MIN. */
#define SCIF_ADMIN_PORT_END 1024
/* Ports chosen for a program lie above this one. */
#define SCIF_PORT_RSVD 1088

/* Ports that MPSS gave to its own services. nonic reserves none of them; programs name them. */
/* The offload runtime. */
#define SCIF_COI_PORT_0 40
#define SCIF_COI_PORT_1 41
#define SCIF_COI_PORT_2 42
#define SCIF_COI_PORT_3 43
#define SCIF_COI_PORT_4 44
#define SCIF_COI_PORT_5 45
#define SCIF_COI_PORT_6 46
#define SCIF_COI_PORT_7 47
#define SCIF_COI_PORT_8 48
#define SCIF_COI_PORT_9 49
/* Verbs over SCIF. */
#define SCIF_OFED_PORT_0 60
#define SCIF_OFED_PORT_1 61
#define SCIF_OFED_PORT_2 62
#define SCIF_OFED_PORT_3 63
#define SCIF_OFED_PORT_4 64
#define SCIF_OFED_PORT_5 65
#define SCIF_OFED_PORT_6 66
#define SCIF_OFED_PORT_7 67
#define SCIF_OFED_PORT_8 68
#define SCIF_OFED_PORT_9 69
/* The network interface of a card. */
#define SCIF_NETDEV_PORT_0 80
#define SCIF_NETDEV_PORT_1 81
#define SCIF_NETDEV_PORT_2 82
#define SCIF_NETDEV_PORT_3 83
#define SCIF_NETDEV_PORT_4 84
#define SCIF_NETDEV_PORT_5 85
#define SCIF_NETDEV_PORT_6 86
#define SCIF_NETDEV_PORT_7 87
#define SCIF_NETDEV_PORT_8 88
#define SCIF_NETDEV_PORT_9 89
/* Reliability and service. */
#define SCIF_RAS_PORT_0 100
#define SCIF_RAS_PORT_1 101
#define SCIF_RAS_PORT_2 102
#define SCIF_RAS_PORT_3 103
#define SCIF_RAS_PORT_4 104
#define SCIF_RAS_PORT_5 105
#define SCIF_RAS_PORT_6 106
#define SCIF_RAS_PORT_7 107
#define SCIF_RAS_PORT_8 108
#define SCIF_RAS_PORT_9 109
/* Power management. */
#define SCIF_PM_PORT_0 120
#define SCIF_PM_PORT_1 121
#define SCIF_PM_PORT_2 122
#define SCIF_PM_PORT_3 123
#define SCIF_PM_PORT_4 124
#define SCIF_PM_PORT_5 125
#define SCIF_PM_PORT_6 126
#define SCIF_PM_PORT_7 127
#define SCIF_PM_PORT_8 128
#define SCIF_PM_PORT_9 129
/* Tools of the boards. */
#define SCIF_BT_PORT_0 130
#define SCIF_BT_PORT_1 131
#define SCIF_BT_PORT_2 132
#define SCIF_BT_PORT_3 133
#define SCIF_BT_PORT_4 134
#define SCIF_BT_PORT_5 135
#define SCIF_BT_PORT_6 136
#define SCIF_BT_PORT_7 137
#define SCIF_BT_PORT_8 138
#define SCIF_BT_PORT_9 139
/* The daemon that started cards. */
#define MPSSD_MONRECV 160
#define MIC_NOTIFY 161
#define MPSSD_CRED 162
#define MPSSD_MONSEND 163
#define MPSSD_MICCTRL 164
#define MPSSD_RESV5 165
#define MPSSD_RESV6 166
#define MPSSD_RESV7 167
#define MPSSD_RESV8 168
#define MPSSD_RESV9 169
/* Its successor in 4.x. */
#define SCIF_COSM_LISTEN_PORT 201
/* Shared virtual memory. */
#define SCIF_MYO_PORT_0 1025
#define SCIF_MYO_PORT_1 1026
#define SCIF_MYO_PORT_2 1027
#define SCIF_MYO_PORT_3 1028
#define SCIF_MYO_PORT_4 1029
#define SCIF_MYO_PORT_5 1030
#define SCIF_MYO_PORT_6 1031
#define SCIF_MYO_PORT_7 1032
#define SCIF_MYO_PORT_8 1033
#define SCIF_MYO_PORT_9 1034
/* Other software tools. */
#define SCIF_ST_PORT_0 1044
#define SCIF_ST_PORT_1 1045
#define SCIF_ST_PORT_2 1046
#define SCIF_ST_PORT_3 1047
#define SCIF_ST_PORT_4 1048
#define SCIF_ST_PORT_5 1049
#define SCIF_ST_PORT_6 1050
#define SCIF_ST_PORT_7 1051
#define SCIF_ST_PORT_8 1052
#define SCIF_ST_PORT_9 1053

/* ---- Endpoints and connections ---------------------------------------------------------------------------------- */

/*
 * A new endpoint, close-on-exec, bound to nothing. SCIF_OPEN_FAILED on failure.
 *   EMFILE, ENFILE  no descriptor is left
 *   ENOMEM          no memory
 */
MICACCESSAPI scif_epd_t scif_open(void);

/*
 * Gives the endpoint a port of this process's node; answers the port. pn 0: the lowest free port above SCIF_PORT_RSVD.
 * Tested in this order:
 *   EACCES   pn is below SCIF_ADMIN_PORT_END and the caller has no privilege (whatever the state is)
 *   EINVAL   the endpoint is bound already
 *   EISCONN  it is listening, connecting or connected
 *   EINVAL   the port is taken
 *   ENOSPC   pn is 0 and no port is free
 */
MICACCESSAPI int scif_bind(scif_epd_t epd, uint16_t pn);

/*
 * Makes a bound endpoint take requests. At most backlog of them wait to be accepted; above 1024 the number counts as
 * 1024. From now on the endpoint can only accept and be closed.
 *   EINVAL   backlog is not positive; the endpoint is unbound, or its peer is gone
 *   EISCONN  it is listening already, connecting or connected
 */
MICACCESSAPI int scif_listen(scif_epd_t epd, int backlog);

/*
 * Connects to a listening endpoint and answers the own port, which is chosen as by scif_bind(epd, 0) if there is none
 * yet. Returns when the other side has accepted. After a refusal the endpoint stays bound and may try again.
 * With O_NONBLOCK set on the descriptor (fcntl(2)) the first call fails with EINPROGRESS; the descriptor becomes
 * writable when the request is decided, and the next call collects the result.
 *   EINVAL        dst is NULL or its port 0; the endpoint's peer is gone
 *   ENODEV        the node is unknown (tested before the endpoint's state), or no way leads to its host
 *   EOPNOTSUPP    the endpoint is listening
 *   EISCONN       it is connected, or another thread is connecting it
 *   ENOSPC        it has no port and none is free
 *   ECONNREFUSED  nobody listens on that port, too many requests wait there, or the listener closed
 *   EINPROGRESS   with O_NONBLOCK: not decided yet
 *   EINTR         a signal came first
 *   ENOMEM, ENOBUFS, EMFILE  no memory, no descriptor
 */
MICACCESSAPI int scif_connect(scif_epd_t epd, struct scif_portID *dst);

/*
 * Takes the oldest request of a listening endpoint. Stores the connector's node and port in *peer, and in *newepd a new
 * connected endpoint, which is not close-on-exec and has the listener's port. With SCIF_ACCEPT_SYNC it waits for one.
 * If the connector is gone again already, the new endpoint still gives what it had sent.
 *   EINVAL  flags are not 0 or SCIF_ACCEPT_SYNC; peer or newepd is NULL; the endpoint is not listening
 *   EAGAIN  without SCIF_ACCEPT_SYNC: no request waits, or its connector gave up
 *   EINTR   a signal came first, or another thread closed the endpoint
 *   EFAULT  peer or newepd is not writable memory
 *   EMFILE, ENFILE, ENOMEM  no descriptor, no memory
 */
MICACCESSAPI int scif_accept(scif_epd_t epd, struct scif_portID *peer, scif_epd_t *newepd, int flags);

/*
 * Closes the descriptor, as close(2) does. The last copy ends the endpoint: a listener refuses the requests that wait
 * (those accepted live on); a connected one finishes its RMAs, unregisters its windows and tells the peer, which may
 * still receive what was sent and keeps its mappings.
 */
MICACCESSAPI int scif_close(scif_epd_t epd);

/* ---- The byte stream -------------------------------------------------------------------------------------------- */

/*
 * Puts up to len bytes into the stream and answers how many. 4095 bytes fit into each direction. Without
 * SCIF_SEND_BLOCK: what fits now, which may be 0. With it: all of them, in pieces if they are more. Bytes arrive after
 * the RMAs that this endpoint started before. Messages of several threads that block are not mixed.
 * len 0 is answered with 0 in any state.
 *   EINVAL      len is negative; flags are not 0 and lack SCIF_SEND_BLOCK
 *   ENOTCONN    the endpoint was never connected
 *   ECONNRESET  the peer is gone and nothing was taken before
 *   EINTR       a signal came before the first byte was taken
 *   EFAULT      msg is not readable memory
 */
MICACCESSAPI int scif_send(scif_epd_t epd, void *msg, int len, int flags);

/*
 * Takes up to len bytes from the stream and answers how many. Without SCIF_RECV_BLOCK: what is there now, which may be
 * 0. With it: all of them. There are no message borders. When the peer is gone the bytes it left come first, then
 * ECONNRESET; the end of the stream is never answered with 0.
 *   EINVAL, ENOTCONN, ECONNRESET, EINTR as scif_send()
 *   EFAULT      msg is not writable memory
 */
MICACCESSAPI int scif_recv(scif_epd_t epd, void *msg, int len, int flags);

/*
 * poll(2) on an array: waits up to timeout milliseconds (0: does not wait, negative: for ever) and answers how many
 * entries have revents. For endpoints:
 *   unbound, or bound and idle          SCIF_POLLERR
 *   connecting without waiting          nothing until it is decided, then SCIF_POLLOUT
 *   listening                           SCIF_POLLIN when a request waits
 *   connected                           SCIF_POLLIN with a byte to receive, SCIF_POLLOUT with room for one
 *   the peer is gone                    SCIF_POLLHUP, and SCIF_POLLIN while bytes are left (SCIF_POLLOUT means nothing)
 * A closed number gives SCIF_POLLNVAL. Other descriptors may be in the array.
 *   EFAULT  epds is not readable and writable memory
 *   EINTR   a signal came first
 *   EINVAL  nepds is more than the process may have descriptors
 */
MICACCESSAPI int scif_poll(struct scif_pollepd *epds, unsigned int nepds, long timeout);

/* ---- Registered memory ------------------------------------------------------------------------------------------ */

/*
 * Opens a window: len bytes of the endpoint's registered address space, backed by the pages that are at addr now.
 * Answers the window's offset. The window keeps these pages until it is unregistered, whatever is done at addr later.
 * prot_flags say what the peer, and RMA of this side, may do through it. With SCIF_MAP_FIXED it stands at offset, which
 * is below 2^62; otherwise at the lowest free place from offset up, or from 2^62 up if offset is 0 or nothing is free
 * above it. It never replaces a window. Pages may be in several windows, of several endpoints. SCIF_REGISTER_FAILED on failure.
 *   EINVAL      flags unknown, prot_flags 0; addr, len or offset is no multiple of a page; len is 0; offset is negative
 *   EADDRINUSE  SCIF_MAP_FIXED: some of the range is registered, or was and is still in use, or reaches beyond 2^62
 *   EFAULT      some of the memory is not mapped, or not writable with SCIF_PROT_WRITE, or comes from scif_mmap()
 *   ENOMEM      no memory or no room
 *   EAGAIN      more than RLIMIT_MEMLOCK, if NONIC_SCIF_MEMLOCK is 1
 */
MICACCESSAPI off_t scif_register(scif_epd_t epd, void *addr, size_t len, off_t offset, int prot_flags, int map_flags);

/*
 * Closes every window in the range, all of them or none. A window in use (mapped by the peer, RMA or signal pending)
 * stays until that use ends: no new one begins, its pages stay and its offsets remain taken.
 *   EINVAL  offset or len is no multiple of a page, len is 0, offset is negative; a window lies partly outside
 *   ENXIO   no window lies in the range
 */
MICACCESSAPI int scif_unregister(scif_epd_t epd, off_t offset, size_t len);

/*
 * Maps len bytes of the peer's windows, from offset of its registered address space, and answers the address. Loads and
 * stores then act on the peer's own pages. With SCIF_MAP_FIXED the mapping replaces what is at addr. The range may lie
 * in several windows without a gap. The mapping holds the pages until it is unmapped, even if the peer unregisters,
 * closes or ends; children made by fork(2) do not have it. SCIF_MMAP_FAILED on failure.
 *   EINVAL  flags unknown, prot_flags 0; offset, len, or addr with SCIF_MAP_FIXED is no multiple of a page; len is 0
 *   ENXIO   some of the range is in no window of the peer
 *   EACCES  a window does not allow what prot_flags ask for
 *   ENOMEM  no memory or address space; or the window is on memory that cannot be shared, see scif(7)
 *   ENODEV  the peer is on another host
 */
MICACCESSAPI void *scif_mmap(void *addr, size_t len, int prot_flags, int map_flags, scif_epd_t epd, off_t offset);

/*
 * Ends mappings in the range, as munmap(2) does, which may be used as well.
 *   EINVAL  addr is no multiple of a page, len is 0 or the range wraps
 */
MICACCESSAPI int scif_munmap(void *addr, size_t len);

/* ---- Remote memory access --------------------------------------------------------------------------------------- */

/*
 * Copies len bytes from the peer's window at roffset to the own window at loffset. Nothing needs to be aligned; a range
 * may go through several windows without a gap. Without SCIF_RMA_SYNC or SCIF_RMA_USECPU the call may return before the
 * copy is done, and several copies may end in any order: a fence tells. The peer's program does nothing.
 *   EINVAL  rma_flags unknown; len is 0
 *   ENXIO   some of a range is in no window
 *   EACCES  the source window lacks SCIF_PROT_READ or the destination window SCIF_PROT_WRITE
 *   EOPNOTSUPP  the peer is on another host, and another process than this one connected or listened
 */
MICACCESSAPI int scif_readfrom(scif_epd_t epd, off_t loffset, size_t len, off_t roffset, int rma_flags);

/* The same from the own window at loffset to the peer's at roffset. */
MICACCESSAPI int scif_writeto(scif_epd_t epd, off_t loffset, size_t len, off_t roffset, int rma_flags);

/*
 * Copies len bytes from the peer's window at roffset to the memory at addr, which need not be registered. Without
 * SCIF_RMA_SYNC the memory must be left alone until a fence.
 *   EFAULT  some of the memory is not mapped, or not writable
 *   EINVAL, ENXIO, EACCES, EOPNOTSUPP as scif_readfrom()
 */
MICACCESSAPI int scif_vreadfrom(scif_epd_t epd, void *addr, size_t len, off_t roffset, int rma_flags);

/*
 * Copies len bytes from the memory at addr to the peer's window at roffset.
 *   EFAULT  some of the memory is not mapped
 *   EINVAL, ENXIO, EACCES, EOPNOTSUPP as scif_writeto()
 */
MICACCESSAPI int scif_vwriteto(scif_epd_t epd, void *addr, size_t len, off_t roffset, int rma_flags);

/* ---- Fences ----------------------------------------------------------------------------------------------------- */

/*
 * Marks the RMAs that have been started so far, by this endpoint (SCIF_FENCE_INIT_SELF) or by its peer
 * (SCIF_FENCE_INIT_PEER), and stores the mark in *mark. Marks mean nothing to programs and may be waited for several
 * times.
 *   EINVAL  flags are not exactly one of the two
 *   EFAULT  mark is not writable memory
 *   ENOMEM  no memory
 *   EOPNOTSUPP  the peer is on another host, and another process than this one connected or listened
 */
MICACCESSAPI int scif_fence_mark(scif_epd_t epd, int flags, int *mark);

/*
 * Returns when all RMAs that were marked are complete: their bytes are visible at their targets.
 *   EINVAL  scif_fence_mark() never gave this mark
 *   EINTR   a signal came first
 *   EOPNOTSUPP  the peer is on another host, and another process than this one connected or listened
 */
MICACCESSAPI int scif_fence_wait(scif_epd_t epd, int mark);

/*
 * Marks as scif_fence_mark() does and returns. When the marked RMAs are complete, stores 8 bytes: lval at loff of the
 * own registered address space (SCIF_SIGNAL_LOCAL), then rval at roff of the peer's (SCIF_SIGNAL_REMOTE). Who sees the
 * value sees the bytes of the RMAs. What belongs to a side that is not asked is ignored.
 *   EINVAL  flags are not exactly one INIT and one or both SIGNAL; an offset is no multiple of 4
 *   ENXIO   the 8 bytes are not in one window
 *   EACCES  the window lacks SCIF_PROT_WRITE
 *   ENOMEM  no memory
 *   EOPNOTSUPP  the peer is on another host, and another process than this one connected or listened
 */
MICACCESSAPI int scif_fence_signal(scif_epd_t epd, off_t loff, uint64_t lval, off_t roff, uint64_t rval, int flags);

/* ---- Nodes and descriptors -------------------------------------------------------------------------------------- */

/*
 * Answers how many nodes can be reached, the own one included. Stores the lowest len of their numbers in nodes,
 * ascending, and the own number in *self. With len 0 nodes may be NULL.
 *   EFAULT  nodes or self is not writable memory, or self is NULL
 *   EINVAL  len is negative
 */
MICACCESSAPI int scif_get_nodeIDs(uint16_t *nodes, int len, uint16_t *self);

/* The descriptor of an endpoint, for poll(2) and its relatives: the same number. Never fails. */
MICACCESSAPI int scif_get_fd(scif_epd_t epd);

#ifdef __cplusplus
}
#endif

#endif /* __SCIF_H__ */
