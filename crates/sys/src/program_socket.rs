//! Sockets and event polls of the program, by their numbers. Nothing here goes by the C library's functions, which another library
//! may stand in front of.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// An event of an event poll (`struct epoll_event`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
pub struct PollEvent {
    /// `EPOLLIN` and others.
    pub events: u32,
    /// What the program said with the descriptor.
    pub data: u64,
}

const _: () = assert!(size_of::<PollEvent>() == size_of::<libc::epoll_event>());

/// A new TCP socket for the program, without a name.
pub fn open_tcp(v6: bool, nonblocking: bool, inherited: bool) -> io::Result<RawFd> {
    let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
    let mut flags = SocketFlags::empty();
    flags.set(SocketFlags::NONBLOCK, nonblocking);
    flags.set(SocketFlags::CLOEXEC, !inherited);
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?.into_raw_fd())
}

/// The inode of what is under a number of the program's.
pub fn inode_of_number(number: RawFd) -> io::Result<u64> {
    // SAFETY: used for this call only, in which the kernel looks the number up itself.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::fs::fstat(file)?.st_ino)
}

/// Connects the program's socket. A number that is not open is an error of the call.
pub fn connect_number(number: RawFd, address: SocketAddr) -> io::Result<()> {
    // SAFETY: used for this call only, in which the kernel looks the number up itself.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::net::connect(socket, &address)?)
}

/// An event poll for the program, without anything in it.
pub fn open_event_poll(closed_by_exec: bool) -> io::Result<RawFd> {
    let flags = if closed_by_exec { epoll::CreateFlags::CLOEXEC } else { epoll::CreateFlags::empty() };
    Ok(epoll::create(flags)?.into_raw_fd())
}

/// `epoll_ctl(2)`.
pub fn control_events(poll: RawFd, operation: i32, number: RawFd, event: PollEvent) -> io::Result<()> {
    // SAFETY: the event is a local in the layout that the kernel expects, which it only reads.
    let done = unsafe { libc::syscall(libc::SYS_epoll_ctl, poll, operation, number, &raw const event) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether a number is that of an event poll; false where `/proc` does not tell.
pub fn is_event_poll(number: RawFd) -> bool {
    std::fs::read_link(format!("/proc/self/fd/{number}"))
        .is_ok_and(|name| name.as_os_str() == "anon_inode:[eventpoll]")
}

/// What of an event poll's descriptors is ready now, as many as `events` holds; how many. Never waits.
pub fn events_now(poll: RawFd, events: &mut [PollEvent]) -> io::Result<usize> {
    let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
    // SAFETY: the array is exclusively borrowed, in the layout that the kernel expects, and as long as is said.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            poll,
            events.as_mut_ptr(),
            room,
            0,
            std::ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// The time of a `struct timespec`; `None` for one that is none.
pub fn time_of(seconds: i64, nanoseconds: i64) -> Option<Duration> {
    let nanoseconds = u32::try_from(nanoseconds).ok().filter(|count| *count < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanoseconds))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_socket_by_number_connects_and_an_event_poll_tells_of_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let epoll = crate::Epoll::new().unwrap();
        let poll = crate::AsFd::as_fd(&epoll).as_raw_fd();
        let event = PollEvent { events: libc::EPOLLIN as u32, data: 9 };
        control_events(poll, libc::EPOLL_CTL_ADD, listener.as_raw_fd(), event).unwrap();
        let mut events = [PollEvent::default(); 2];
        assert_eq!(events_now(poll, &mut events).unwrap(), 0);
        let number = open_tcp(false, false, false).unwrap();
        connect_number(number, listener.local_addr().unwrap()).unwrap();
        assert_eq!(events_now(poll, &mut events).unwrap(), 1);
        assert_eq!(events[0], event);
        crate::close_number(number).unwrap();
        let twice = control_events(poll, libc::EPOLL_CTL_ADD, listener.as_raw_fd(), event);
        assert_eq!(twice.unwrap_err().raw_os_error(), Some(libc::EEXIST));
    }
}
