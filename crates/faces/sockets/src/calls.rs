//! The calls through which `libnonic-sockets.so` reaches the engine, once for both: the table of the face, and the library (which
//! includes this file).
//!
//! A call answers as the C library's function would: -1 with `errno` set. [`KERNEL`] says that it is the kernel's to carry out, by
//! the C library's function; the engine has changed nothing.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::AtomicU8;

use libc::{epoll_event, fd_set, iovec, pollfd, sockaddr, timespec};

/// The C library's function has to be called.
pub const KERNEL: c_int = -2;

/// Hands every call to `$use`, with its arguments and its result.
macro_rules! for_each_call {
    ($use:ident) => {
        $use! {
            adopt(number: c_int, domain: c_int, nonblocking: c_int) -> c_int;
            listen(number: c_int, backlog: c_int, name: *const sockaddr, length: c_uint, only_v6: c_int) -> c_int;
            cease_to_listen(number: c_int) -> c_int;
            accept(number: c_int, address: *mut sockaddr, length: *mut c_uint, flags: c_int) -> c_int;
            connect(
                number: c_int, address: *const sockaddr, length: c_uint, name: *const sockaddr, name_length: c_uint
            ) -> c_int;
            forget(number: c_int) -> c_int;
            receive(
                number: c_int, places: *const iovec, count: usize, flags: c_int, address: *mut sockaddr,
                length: *mut c_uint
            ) -> isize;
            send(number: c_int, places: *const iovec, count: usize, flags: c_int) -> isize;
            shut_down(number: c_int, how: c_int) -> c_int;
            close(number: c_int) -> c_int;
            close_range(first: c_uint, last: c_uint) -> c_int;
            duplicate(number: c_int, other: c_int) -> c_int;
            name(number: c_int, address: *mut sockaddr, length: *mut c_uint) -> c_int;
            peer_name(number: c_int, address: *mut sockaddr, length: *mut c_uint) -> c_int;
            option(number: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut c_uint) -> c_int;
            note_option(number: c_int, level: c_int, name: c_int, value: *const c_void, length: c_uint) -> c_int;
            set_nonblocking(number: c_int, nonblocking: c_int) -> c_int;
            waiting(number: c_int) -> c_int;
            poll(entries: *mut pollfd, count: usize, timeout: *const timespec) -> c_int;
            select(
                count: c_int, input: *mut fd_set, output: *mut fd_set, exceptions: *mut fd_set,
                timeout: *const timespec
            ) -> c_int;
            control(poll: c_int, operation: c_int, number: c_int, event: *mut epoll_event) -> c_int;
            wait(poll: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec) -> c_int;
            say_goodbye() -> c_int;
            around_fork(fork: unsafe extern "C" fn() -> c_int) -> c_int;
        }
    };
}

macro_rules! table {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        /// The calls as pointers: the one symbol through which `libnonic-sockets.so` reaches the engine.
        #[repr(C)]
        #[derive(Debug)]
        pub struct SocketsTable {
            /// [`TABLE_VERSION`] of whoever made it. At the same place in every version.
            pub version: usize,
            /// What each number stands for; 0: the kernel's alone.
            pub kinds: &'static [AtomicU8; NUMBERS],
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub $name: unsafe extern "C" fn($($type),*) -> $result,
            )*
        }
    };
}

for_each_call!(table);

/// Numbers that the table tells of.
pub const NUMBERS: usize = 1 << 16;

/// A number that stands for an event poll with sockets of the engine's; any other but 0 is a socket.
pub const EVENT_SET: u8 = 2;

/// Says that both sides mean the same table: a number in the upper half that nothing else has, the version below.
pub const TABLE_VERSION: usize = 0x50c7_7ab1_0000_0001;

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn a_table_is_its_version_its_kinds_and_a_pointer_for_each_call() {
        assert_eq!(offset_of!(SocketsTable, version), 0);
        assert_eq!(size_of::<SocketsTable>(), (2 + 24) * size_of::<usize>());
    }
}
