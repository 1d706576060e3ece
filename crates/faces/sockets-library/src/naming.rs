//! Making, connecting and naming sockets.

use core::ffi::{c_int, c_uint};
use core::mem::MaybeUninit;

use libc::{sockaddr, sockaddr_storage, socklen_t};
use nonic_neighbour::errno;

use crate::calls::KERNEL;
use crate::engine::{found, is_socket, table};
use crate::real;

/// `socket(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: as in C.
    let number = unsafe { real::socket(domain, kind, protocol) };
    let is_tcp = kind & 0xff == libc::SOCK_STREAM && matches!(protocol, 0 | libc::IPPROTO_TCP);
    if number >= 0 && is_tcp && matches!(domain, libc::AF_INET | libc::AF_INET6) {
        let nonblocking = kind & libc::SOCK_NONBLOCK;
        // SAFETY: the number is a new TCP socket.
        unsafe { (found().adopt)(number, domain, nonblocking) };
    }
    number
}

/// A name that the kernel tells.
struct Name {
    storage: MaybeUninit<sockaddr_storage>,
    length: socklen_t,
}

impl Name {
    /// That of a socket; one without length if it has none.
    fn of(number: c_int) -> Self {
        let mut name =
            Self { storage: MaybeUninit::zeroed(), length: size_of::<sockaddr_storage>() as socklen_t };
        // SAFETY: the place is as long as is said.
        let told =
            unsafe { real::getsockname(number, name.storage.as_mut_ptr().cast(), &raw mut name.length) };
        if told != 0 {
            name.length = 0;
        }
        name
    }

    fn as_ptr(&self) -> *const sockaddr {
        self.storage.as_ptr().cast()
    }

    /// Whether it has a port.
    fn is_bound(&self) -> bool {
        // SAFETY: zeros at first; both families have the port in the same place.
        let name = unsafe { self.as_ptr().cast::<libc::sockaddr_in>().read_unaligned() };
        self.length > 0 && name.sin_port != 0
    }
}

/// `listen(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn listen(number: c_int, backlog: c_int) -> c_int {
    if !is_socket(number) {
        // SAFETY: as in C.
        return unsafe { real::listen(number, backlog) };
    }
    let before = errno();
    let name = Name::of(number);
    if !name.is_bound() {
        // The kernel chooses a port.
        // SAFETY: as in C.
        let done = unsafe { real::listen(number, backlog) };
        if done == 0 {
            offer(number, backlog, &Name::of(number));
        }
        return done;
    }
    // By a stream first: who sees that the kernel listens finds the stream, too.
    offer(number, backlog, &name);
    // SAFETY: as in C.
    let done = unsafe { real::listen(number, backlog) };
    if done != 0 {
        let why = errno();
        // SAFETY: asks for nothing.
        unsafe { (table().cease_to_listen)(number) };
        return nonic_neighbour::fail(why);
    }
    nonic_neighbour::set_errno(before);
    done
}

fn offer(number: c_int, backlog: c_int, name: &Name) {
    let (mut only_v6, mut length): (c_int, socklen_t) = (0, size_of::<c_int>() as socklen_t);
    // SAFETY: places of this frame; the name is as long as it says.
    unsafe {
        let (value, length) = ((&raw mut only_v6).cast(), &raw mut length);
        // A socket of IPv4 has no such option.
        let _ = real::getsockopt(number, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, value, length);
        (table().listen)(number, backlog, name.as_ptr(), name.length, only_v6);
    }
}

/// `accept(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(
    number: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    if is_socket(number) {
        // SAFETY: the program's promise is the same.
        match unsafe { (table().accept)(number, address, length, 0) } {
            KERNEL => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::accept(number, address, length) }
}

/// `accept4(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(
    number: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    if is_socket(number) && flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) == 0 {
        // SAFETY: the program's promise is the same.
        match unsafe { (table().accept)(number, address, length, flags) } {
            KERNEL => {}
            answer => return answer,
        }
    }
    // SAFETY: as in C.
    unsafe { real::accept4(number, address, length, flags) }
}

/// `connect(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(number: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    if !is_socket(number) {
        // SAFETY: as in C.
        return unsafe { real::connect(number, address, length) };
    }
    let name = Name::of(number);
    let bound = if name.is_bound() { name.length } else { 0 };
    // SAFETY: the program's promise is the same; the name is as long as it says.
    match unsafe { (table().connect)(number, address, length, name.as_ptr(), bound) } {
        KERNEL => {}
        answer => return answer,
    }
    // SAFETY: as in C.
    let answer = unsafe { real::connect(number, address, length) };
    if answer == 0 || matches!(errno(), libc::EINPROGRESS | libc::EINTR | libc::EISCONN | libc::EALREADY) {
        let why = errno();
        // SAFETY: asks for nothing.
        unsafe { (table().forget)(number) };
        nonic_neighbour::set_errno(why);
    }
    answer
}

macro_rules! named {
    ($name:ident, $engine:ident) => {
        #[doc = concat!("`", stringify!($name), "(2)`.")]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            number: c_int,
            address: *mut sockaddr,
            length: *mut c_uint,
        ) -> c_int {
            if is_socket(number) {
                // SAFETY: the program's promise is the same.
                match unsafe { (table().$engine)(number, address, length) } {
                    KERNEL => {}
                    answer => return answer,
                }
            }
            // SAFETY: as in C.
            unsafe { real::$name(number, address, length) }
        }
    };
}

named!(getsockname, name);
named!(getpeername, peer_name);
