//! The functions behind these: the C library's, or those of a library between.

use core::ffi::{c_int, c_uint, c_ulong, c_void};

use libc::{
    epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off_t, off64_t, pid_t, pollfd, sigset_t, sockaddr,
    socklen_t, ssize_t, timespec, timeval,
};

nonic_neighbour::next! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    listen(number: c_int, backlog: c_int) -> c_int;
    accept4(number: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    accept(number: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    connect(number: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    shutdown(number: c_int, how: c_int) -> c_int;
    close(number: c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    read(number: c_int, buffer: *mut c_void, count: usize) -> ssize_t;
    readv(number: c_int, places: *const iovec, count: c_int) -> ssize_t;
    recv(number: c_int, buffer: *mut c_void, count: usize, flags: c_int) -> ssize_t;
    recvfrom(
        number: c_int, buffer: *mut c_void, count: usize, flags: c_int, address: *mut sockaddr, length: *mut socklen_t
    ) -> ssize_t;
    recvmsg(number: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(number: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    write(number: c_int, buffer: *const c_void, count: usize) -> ssize_t;
    writev(number: c_int, places: *const iovec, count: c_int) -> ssize_t;
    send(number: c_int, buffer: *const c_void, count: usize, flags: c_int) -> ssize_t;
    sendto(
        number: c_int, buffer: *const c_void, count: usize, flags: c_int, address: *const sockaddr, length: socklen_t
    ) -> ssize_t;
    sendmsg(number: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(number: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    sendfile(to: c_int, from: c_int, offset: *mut off_t, count: usize) -> ssize_t;
    splice(
        from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, count: usize, flags: c_uint
    ) -> ssize_t;
    pread(number: c_int, buffer: *mut c_void, count: usize, offset: off_t) -> ssize_t;
    getsockopt(number: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int;
    setsockopt(number: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int;
    getsockname(number: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    getpeername(number: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    fcntl(number: c_int, command: c_int, argument: c_ulong) -> c_int;
    ioctl(number: c_int, request: c_ulong, argument: c_ulong) -> c_int;
    dup(number: c_int) -> c_int;
    dup2(number: c_int, other: c_int) -> c_int;
    dup3(number: c_int, other: c_int, flags: c_int) -> c_int;
    poll(entries: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    ppoll(entries: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    select(
        count: c_int, input: *mut fd_set, output: *mut fd_set, exceptions: *mut fd_set, timeout: *mut timeval
    ) -> c_int;
    pselect(
        count: c_int, input: *mut fd_set, output: *mut fd_set, exceptions: *mut fd_set, timeout: *const timespec,
        mask: *const sigset_t
    ) -> c_int;
    epoll_ctl(poll: c_int, operation: c_int, number: c_int, event: *mut epoll_event) -> c_int;
    epoll_pwait(
        poll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t
    ) -> c_int;
    epoll_pwait2(
        poll: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int;
    epoll_wait(poll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int;
}

/// The next `fork`, for the engine to call.
pub(crate) unsafe extern "C" fn fork() -> pid_t {
    static NEXT: nonic_neighbour::Next = nonic_neighbour::Next::new(c"fork");
    // SAFETY: the C library's function of this name is of this type, and it always has one.
    let function: unsafe extern "C" fn() -> pid_t = unsafe { core::mem::transmute(NEXT.address()) };
    // SAFETY: asks for nothing.
    unsafe { function() }
}
