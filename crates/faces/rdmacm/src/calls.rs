//! The calls of `librdmacm.so.1` and their types, once for all who need the list: the table of the face, and the library that
//! forwards to it (which includes this file). What their pointers lead to each of the two says in its module `abi`.

use core::ffi::{c_char, c_int, c_ulong, c_void};

use crate::abi::*;

/// Hands every call to `$use`, with the node that its symbol stands under, its arguments and its result.
macro_rules! for_each_call {
    ($use:ident) => {
        $use! {
            "RDMACM_1.0" rdma_create_event_channel() -> *mut rdma_event_channel;
            "RDMACM_1.0" rdma_destroy_event_channel(channel: *mut rdma_event_channel) -> ();
            "RDMACM_1.0" rdma_create_id(
                channel: *mut rdma_event_channel, id: *mut *mut rdma_cm_id, context: *mut c_void, ps: c_int
            ) -> c_int;
            "RDMACM_1.0" rdma_destroy_id(id: *mut rdma_cm_id) -> c_int;
            "RDMACM_1.0" rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int;
            "RDMACM_1.0" rdma_create_ep(
                id: *mut *mut rdma_cm_id, res: *mut rdma_addrinfo, pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr
            ) -> c_int;
            "RDMACM_1.0" rdma_destroy_ep(id: *mut rdma_cm_id) -> ();
            "RDMACM_1.0" rdma_get_request(listen: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> c_int;
            "RDMACM_1.0" rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int;
            "RDMACM_1.0" rdma_resolve_addr(
                id: *mut rdma_cm_id, src_addr: *mut sockaddr, dst_addr: *mut sockaddr, timeout_ms: c_int
            ) -> c_int;
            "RDMACM_1.0" rdma_resolve_route(id: *mut rdma_cm_id, timeout_ms: c_int) -> c_int;
            "RDMACM_1.0" rdma_get_src_port(id: *mut rdma_cm_id) -> u16;
            "RDMACM_1.0" rdma_get_dst_port(id: *mut rdma_cm_id) -> u16;
            "RDMACM_1.0" rdma_create_qp(
                id: *mut rdma_cm_id, pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr
            ) -> c_int;
            "RDMACM_1.0" rdma_create_qp_ex(id: *mut rdma_cm_id, qp_init_attr: *mut ibv_qp_init_attr_ex) -> c_int;
            "RDMACM_1.0" rdma_destroy_qp(id: *mut rdma_cm_id) -> ();
            "RDMACM_1.2" rdma_init_qp_attr(
                id: *mut rdma_cm_id, qp_attr: *mut ibv_qp_attr, qp_attr_mask: *mut c_int
            ) -> c_int;
            "RDMACM_1.0" rdma_create_srq(
                id: *mut rdma_cm_id, pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr
            ) -> c_int;
            "RDMACM_1.0" rdma_create_srq_ex(id: *mut rdma_cm_id, attr: *mut ibv_srq_init_attr_ex) -> c_int;
            "RDMACM_1.0" rdma_destroy_srq(id: *mut rdma_cm_id) -> ();
            "RDMACM_1.0" rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int;
            "RDMACM_1.0" rdma_connect(id: *mut rdma_cm_id, conn_param: *mut rdma_conn_param) -> c_int;
            "RDMACM_1.2" rdma_establish(id: *mut rdma_cm_id) -> c_int;
            "RDMACM_1.0" rdma_accept(id: *mut rdma_cm_id, conn_param: *mut rdma_conn_param) -> c_int;
            "RDMACM_1.0" rdma_reject(id: *mut rdma_cm_id, private_data: *const c_void, private_data_len: u8) -> c_int;
            "RDMACM_1.3" rdma_reject_ece(
                id: *mut rdma_cm_id, private_data: *const c_void, private_data_len: u8
            ) -> c_int;
            "RDMACM_1.0" rdma_notify(id: *mut rdma_cm_id, event: c_int) -> c_int;
            "RDMACM_1.0" rdma_disconnect(id: *mut rdma_cm_id) -> c_int;
            "RDMACM_1.3" rdma_set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int;
            "RDMACM_1.3" rdma_get_remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int;
            "RDMACM_1.0" rdma_join_multicast(id: *mut rdma_cm_id, addr: *mut sockaddr, context: *mut c_void) -> c_int;
            "RDMACM_1.1" rdma_join_multicast_ex(
                id: *mut rdma_cm_id, mc_join_attr: *mut rdma_cm_join_mc_attr_ex, context: *mut c_void
            ) -> c_int;
            "RDMACM_1.0" rdma_leave_multicast(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int;
            "RDMACM_1.0" rdma_get_cm_event(channel: *mut rdma_event_channel, event: *mut *mut rdma_cm_event) -> c_int;
            "RDMACM_1.0" rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int;
            "RDMACM_1.0" rdma_event_str(event: c_int) -> *const c_char;
            "RDMACM_1.0" rdma_get_devices(num_devices: *mut c_int) -> *mut *mut ibv_context;
            "RDMACM_1.0" rdma_free_devices(list: *mut *mut ibv_context) -> ();
            "RDMACM_1.0" rdma_set_option(
                id: *mut rdma_cm_id, level: c_int, optname: c_int, optval: *mut c_void, optlen: usize
            ) -> c_int;
            "RDMACM_1.0" rdma_getaddrinfo(
                node: *const c_char, service: *const c_char, hints: *const rdma_addrinfo, res: *mut *mut rdma_addrinfo
            ) -> c_int;
            "RDMACM_1.0" rdma_freeaddrinfo(res: *mut rdma_addrinfo) -> ();
            "RDMACM_1.4" rdma_resolve_addrinfo(
                id: *mut rdma_cm_id, node: *const c_char, service: *const c_char, hints: *const rdma_addrinfo
            ) -> c_int;
            "RDMACM_1.4" rdma_query_addrinfo(id: *mut rdma_cm_id, info: *mut *mut rdma_addrinfo) -> c_int;
            "RDMACM_1.4" rdma_write_cm_event(id: *mut rdma_cm_id, event: c_int, status: c_int, arg: u64) -> c_int;

            "RDMACM_1.0" rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
            "RDMACM_1.0" rbind(socket: c_int, addr: *const sockaddr, addrlen: u32) -> c_int;
            "RDMACM_1.0" rlisten(socket: c_int, backlog: c_int) -> c_int;
            "RDMACM_1.0" raccept(socket: c_int, addr: *mut sockaddr, addrlen: *mut u32) -> c_int;
            "RDMACM_1.0" rconnect(socket: c_int, addr: *const sockaddr, addrlen: u32) -> c_int;
            "RDMACM_1.0" rshutdown(socket: c_int, how: c_int) -> c_int;
            "RDMACM_1.0" rclose(socket: c_int) -> c_int;
            "RDMACM_1.0" rrecv(socket: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize;
            "RDMACM_1.0" rrecvfrom(
                socket: c_int, buf: *mut c_void, len: usize, flags: c_int, src_addr: *mut sockaddr, addrlen: *mut u32
            ) -> isize;
            "RDMACM_1.0" rrecvmsg(socket: c_int, msg: *mut msghdr, flags: c_int) -> isize;
            "RDMACM_1.0" rsend(socket: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize;
            "RDMACM_1.0" rsendto(
                socket: c_int, buf: *const c_void, len: usize, flags: c_int, dest_addr: *const sockaddr, addrlen: u32
            ) -> isize;
            "RDMACM_1.0" rsendmsg(socket: c_int, msg: *const msghdr, flags: c_int) -> isize;
            "RDMACM_1.0" rread(socket: c_int, buf: *mut c_void, count: usize) -> isize;
            "RDMACM_1.0" rreadv(socket: c_int, iov: *const iovec, iovcnt: c_int) -> isize;
            "RDMACM_1.0" rwrite(socket: c_int, buf: *const c_void, count: usize) -> isize;
            "RDMACM_1.0" rwritev(socket: c_int, iov: *const iovec, iovcnt: c_int) -> isize;
            "RDMACM_1.0" rpoll(fds: *mut pollfd, nfds: c_ulong, timeout: c_int) -> c_int;
            "RDMACM_1.0" rselect(
                nfds: c_int, readfds: *mut fd_set, writefds: *mut fd_set, exceptfds: *mut fd_set, timeout: *mut timeval
            ) -> c_int;
            "RDMACM_1.5" repoll_create(flags: c_int) -> c_int;
            "RDMACM_1.5" repoll_ctl(poll: c_int, operation: c_int, socket: c_int, event: *mut epoll_event) -> c_int;
            "RDMACM_1.5" repoll_wait(poll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int;
            "RDMACM_1.0" rgetpeername(socket: c_int, addr: *mut sockaddr, addrlen: *mut u32) -> c_int;
            "RDMACM_1.0" rgetsockname(socket: c_int, addr: *mut sockaddr, addrlen: *mut u32) -> c_int;
            "RDMACM_1.0" rsetsockopt(
                socket: c_int, level: c_int, optname: c_int, optval: *const c_void, optlen: u32
            ) -> c_int;
            "RDMACM_1.0" rgetsockopt(
                socket: c_int, level: c_int, optname: c_int, optval: *mut c_void, optlen: *mut u32
            ) -> c_int;
            "RDMACM_1.0" rfcntl(socket: c_int, cmd: c_int, argument: c_ulong) -> c_int;
            "RDMACM_1.0" riomap(
                socket: c_int, buf: *mut c_void, len: usize, prot: c_int, flags: c_int, offset: i64
            ) -> i64;
            "RDMACM_1.0" riounmap(socket: c_int, buf: *mut c_void, len: usize) -> c_int;
            "RDMACM_1.0" riowrite(
                socket: c_int, buf: *const c_void, count: usize, offset: i64, flags: c_int
            ) -> usize;
        }
    };
}

macro_rules! table {
    ($($node:literal $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        /// The calls as pointers: the one symbol through which `librdmacm.so.1` reaches the engine. A thread may be cancelled in
        /// some of them, so a cancellation passes through all.
        #[repr(C)]
        #[derive(Debug)]
        pub struct RdmacmTable {
            /// [`TABLE_VERSION`] of whoever made it. At the same place in every version.
            pub version: usize,
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub $name: unsafe extern "C-unwind" fn($($type),*) -> $result,
            )*
        }
    };
}

for_each_call!(table);

/// Says that both sides mean the same table: a number in the upper half that nothing else has, the version below.
pub const TABLE_VERSION: usize = 0x0cda_7ab1_0000_0002;

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn a_table_is_its_version_and_a_pointer_for_each_call() {
        assert_eq!(offset_of!(RdmacmTable, version), 0);
        assert_eq!(size_of::<RdmacmTable>(), (1 + 44 + 30) * size_of::<usize>());
    }
}
