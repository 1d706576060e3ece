//! UDP sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libc::socklen_t;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType};

/// A new one, of the family of an address, that programs this one starts do not inherit.
pub fn open_datagram(like: SocketAddr) -> io::Result<OwnedFd> {
    let family = if like.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// Binds it.
pub fn bind_datagram(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    Ok(rustix::net::bind(socket, &address)?)
}

/// Where it is bound.
pub fn datagram_name(socket: &OwnedFd) -> io::Result<SocketAddr> {
    let name: SocketAddrAny = rustix::net::getsockname(socket)?;
    Ok(SocketAddr::try_from(name)?)
}

/// Which of this host's addresses leads to another.
pub fn source_towards(destination: SocketAddr) -> io::Result<SocketAddr> {
    let socket = open_datagram(destination)?;
    rustix::net::connect(&socket, &destination)?;
    datagram_name(&socket)
}

/// Sends a datagram. Never waits.
pub fn send_datagram(socket: &OwnedFd, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
    rustix::net::sendto(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &to)?;
    Ok(())
}

/// Takes the next datagram: its length, and from whom. Never waits; what does not fit is lost.
pub fn receive_datagram(socket: &OwnedFd, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    let (length, _, from) = rustix::net::recvfrom(socket, bytes, RecvFlags::DONTWAIT)?;
    let from = from.ok_or_else(|| io::Error::other("a datagram from nowhere"))?;
    Ok((length, SocketAddr::try_from(from)?))
}

/// Sets an option of any level, as the program gives it (`setsockopt(2)`).
pub fn set_any_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let length = value.len() as socklen_t;
    // SAFETY: the kernel reads as many bytes as the slice has.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What an option of any level is; how many bytes.
pub fn any_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
    let mut length = value.len() as socklen_t;
    // SAFETY: the kernel writes as many bytes as the slice has at most; the length is a local.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(length as usize) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_datagram_arrives_with_the_name_of_its_sender() {
        let at: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let sockets = [(); 2].map(|()| {
            let socket = open_datagram(at).unwrap();
            bind_datagram(&socket, at).unwrap();
            let name = datagram_name(&socket).unwrap();
            (socket, name)
        });
        let [(near, near_name), (far, far_name)] = sockets;
        let mut bytes = [0; 8];
        assert_eq!(receive_datagram(&far, &mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        send_datagram(&near, b"hello", far_name).unwrap();
        assert!(crate::wait_readable(far.as_fd(), Some(std::time::Duration::from_secs(20))));
        assert_eq!(receive_datagram(&far, &mut bytes).unwrap(), (5, near_name));
        assert_eq!(&bytes[..5], b"hello");
        assert_eq!(source_towards(far_name).unwrap().ip(), at.ip());
        let on = 1i32.to_ne_bytes();
        set_any_option(near.as_fd(), libc::SOL_SOCKET, libc::SO_BROADCAST, &on).unwrap();
        let mut value = [0; 4];
        assert_eq!(any_option(near.as_fd(), libc::SOL_SOCKET, libc::SO_BROADCAST, &mut value).unwrap(), 4);
        assert_ne!(value, [0; 4]);
    }
}
