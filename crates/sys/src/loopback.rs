//! TCP connections between a socket of the program's and its own process, over the loopback interface. Nothing here goes by the C
//! library's functions, which another library may stand in front of.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketFlags, SocketType};

use crate::{POLL_IN, PollEntry, connect_number, poll};

/// Connections that may wait at a listener.
const BACKLOG: i32 = 1024;
/// How long the kernel may take to connect two sockets of one host.
const PATIENCE: Duration = Duration::from_secs(5);

/// Listens on the loopback interface, on a port that the kernel chose.
#[derive(Debug)]
pub struct LoopbackListener(OwnedFd);

impl LoopbackListener {
    /// On `127.0.0.1`, or `::1`.
    pub fn open(v6: bool) -> io::Result<Self> {
        let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let ip = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        rustix::net::bind(&socket, &SocketAddr::new(ip, 0))?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self(socket))
    }

    /// Its number.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        address_of(rustix::net::getsockname(&self.0)?)
    }

    /// The next connection, and where it comes from. Never waits for one (`EAGAIN`).
    pub fn accept(&self) -> io::Result<(TcpEnd, SocketAddr)> {
        let socket = retried(|| rustix::net::accept_with(&self.0, SocketFlags::CLOEXEC))?;
        let peer = rustix::net::getpeername(&socket)?.ok_or(Errno::NOTCONN)?;
        Ok((TcpEnd(socket), address_of(peer)?))
    }
}

fn address_of(name: SocketAddrAny) -> io::Result<SocketAddr> {
    let address = SocketAddr::try_from(name)?;
    Ok(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

fn retried<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// The address of the program's socket; an address of IPv4 also where it is of IPv6 and stands for one.
pub fn name_of_number(number: RawFd) -> io::Result<SocketAddr> {
    // SAFETY: used for this call only, in which the kernel looks the number up itself.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    address_of(rustix::net::getsockname(socket)?)
}

/// Connects the program's socket, which is not connected, to a loopback listener, though it may not be one to wait. `EISCONN` if
/// it is connected to somebody, perhaps since just now.
pub fn connect_to_loopback(number: RawFd, v6: bool, listener: SocketAddr) -> io::Result<()> {
    let address = match listener {
        SocketAddr::V4(v4) if v6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        other => other,
    };
    match connect_number(number, address) {
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR)) =>
        {
            let mut entry = [PollEntry { number, events: crate::POLL_OUT, revents: 0 }];
            if retried_poll(&mut entry, Instant::now() + PATIENCE)? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // The kernel calls a socket connected that did not wait once it is asked again.
            match connect_number(number, address) {
                Err(error) if error.raw_os_error() != Some(libc::EISCONN) => return Err(error),
                _ => {}
            }
        }
        other => other?,
    }
    // SAFETY: used for this call only, in which the kernel looks the number up itself.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    match rustix::net::getpeername(socket)?.map(address_of).transpose()? {
        Some(peer) if peer == listener => Ok(()),
        _ => Err(Errno::ISCONN.into()),
    }
}

fn retried_poll(entries: &mut [PollEntry], end: Instant) -> io::Result<usize> {
    loop {
        match poll(entries, Some(end.saturating_duration_since(Instant::now()))) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Gives a TCP socket of the program's, which is not connected, another end in this process. `EISCONN` if it is connected.
pub fn give_tcp_end(number: RawFd, v6: bool) -> io::Result<TcpEnd> {
    let give = |over_v6: bool| {
        let listener = LoopbackListener::open(over_v6)?;
        connect_to_loopback(number, v6, listener.address()?)?;
        let own = name_of_number(number)?;
        let mut entry = [PollEntry { number: listener.number(), events: POLL_IN, revents: 0 }];
        let end = Instant::now() + PATIENCE;
        while retried_poll(&mut entry, end)? > 0 {
            // Whoever else found the listener is turned away.
            match listener.accept() {
                Ok((other, peer)) if peer == own => return Ok(other),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    };
    match give(v6) {
        // There may be no IPv6 on the loopback interface.
        Err(error) if v6 && error.raw_os_error() != Some(libc::EISCONN) => give(false),
        other => other,
    }
}

/// The end of a TCP connection that this process has for itself.
#[derive(Debug)]
pub struct TcpEnd(OwnedFd);

impl TcpEnd {
    /// The next bytes; 0 after the end. Waits for some.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        retried(|| rustix::net::recv(&self.0, &mut *bytes, RecvFlags::empty()).map(|(count, _)| count))
    }

    /// Sends all of it, without a signal. Waits until there is room.
    pub fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = retried(|| rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL))?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Nothing more is sent.
    pub fn end_sending(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Write);
    }

    /// Whether from now on its last close, by a process that is killed too, resets the connection.
    pub fn reset_when_closed(&self, reset: bool) {
        let linger = reset.then_some(Duration::ZERO);
        let _ = rustix::net::sockopt::set_socket_linger(&self.0, linger);
    }

    /// Resets the connection now: who waits in a call is told.
    pub fn reset(&self) {
        let _ = rustix::net::connect_unspec(&self.0);
    }

    /// Its number.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Small pieces go at once.
    pub fn do_not_delay(&self) {
        let _ = rustix::net::sockopt::set_tcp_nodelay(&self.0, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{close_number, open_tcp};

    #[test]
    fn a_socket_gets_another_end_once_and_bytes_go_both_ways() {
        for (v6, nonblocking) in [(false, false), (false, true), (true, false), (true, true)] {
            let number = open_tcp(v6, nonblocking, false).unwrap();
            let end = give_tcp_end(number, v6).unwrap();
            let again = give_tcp_end(number, v6).unwrap_err();
            assert_eq!(again.raw_os_error(), Some(libc::EISCONN));
            end.send_all(b"there").unwrap();
            // SAFETY: opened above, and closed below by its number.
            let program = unsafe { BorrowedFd::borrow_raw(number) };
            let mut bytes = [0; 8];
            assert!(matches!(crate::poll_now(number, POLL_IN), POLL_IN));
            assert_eq!(rustix::net::recv(program, &mut bytes, RecvFlags::empty()).unwrap().0, 5);
            rustix::net::send(program, b"back", SendFlags::empty()).unwrap();
            assert_eq!(end.receive(&mut bytes).unwrap(), 4);
            end.end_sending();
            assert_eq!(rustix::net::recv(program, &mut bytes, RecvFlags::empty()).unwrap().0, 0);
            close_number(number).unwrap();
            assert_eq!(end.receive(&mut bytes).unwrap(), 0);
        }
    }

    #[test]
    fn an_end_that_resets_is_no_orderly_end() {
        let number = open_tcp(false, false, false).unwrap();
        let end = give_tcp_end(number, false).unwrap();
        end.reset();
        // SAFETY: opened above, and closed below by its number.
        let program = unsafe { BorrowedFd::borrow_raw(number) };
        let refused = rustix::net::recv(program, &mut [0; 1][..], RecvFlags::empty());
        assert_eq!(refused.unwrap_err(), Errno::CONNRESET);
        close_number(number).unwrap();
    }
}
