//! Answering what programs ask by sockets that stand for those of `NETLINK_RDMA`.
//!
//! Such a socket is one of `NETLINK_USERSOCK`, by which programs of this network namespace send to each other: everything about it is the
//! kernel's. The answer is sent by the socket to itself, and to be sent nothing else: connected to its own port, it takes nothing from others.

use std::io;

use rustix::fd::BorrowedFd;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, bind, connect, getpeername, getsockname, recv, sendto};

use crate::facts::DeviceFacts;
use crate::netlink::{answer, first_datagram};

/// No datagram is longer: programs have room for 8192 bytes (libmnl), or for a page.
const DATAGRAM: usize = 4096;

/// Answers a request that was sent by this socket, without waiting: who does not read what has come gets `WouldBlock`.
pub(crate) fn respond(socket: BorrowedFd<'_>, request: &[u8], devices: &[DeviceFacts]) -> io::Result<()> {
    let port = own_port(socket)?;
    let reply = answer(request, port, devices);
    let mut left = &reply[..];
    while !left.is_empty() {
        let datagram = first_datagram(left, DATAGRAM);
        sendto(socket, datagram, SendFlags::DONTWAIT, &SocketAddrNetlink::new(port, 0))?;
        left = &left[datagram.len()..];
    }
    Ok(())
}

/// The socket's port, to which it is connected. One that has none is given one, as by the kernel when it sends.
fn own_port(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let own = || Ok::<_, io::Error>(SocketAddrNetlink::try_from(getsockname(socket)?)?.pid());
    if own()? == 0 {
        bind(socket, &SocketAddrNetlink::new(0, 0))?;
    }
    let port = own()?;
    let peer = getpeername(socket)?.and_then(|peer| SocketAddrNetlink::try_from(peer).ok());
    if peer.is_none_or(|peer| peer.pid() != port) {
        connect(socket, &SocketAddrNetlink::new(port, 0))?;
        // Nobody was asked before: what waits is a stranger's.
        while recv(socket, &mut [0u8; 1][..], RecvFlags::DONTWAIT).is_ok() {}
    }
    Ok(port)
}

#[cfg(test)]
mod tests {
    use rustix::fd::{AsFd, OwnedFd};
    use rustix::io::Errno;
    use rustix::net::netlink::USERSOCK;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

    use super::*;
    use crate::facts::tests::device;

    fn socket() -> OwnedFd {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(USERSOCK)).unwrap()
    }

    /// `struct nlmsghdr`: RDMA_NLDEV_CMD_GET for all devices.
    fn list() -> Vec<u8> {
        [16u32, 0x0301 << 16 | 5 << 10 | 1, 5, 0].iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn received(socket: &OwnedFd) -> Result<Vec<u8>, Errno> {
        let mut room = [0u8; 4096];
        let (length, _) = recv(socket, &mut room[..], RecvFlags::empty())?;
        Ok(room[..length].to_vec())
    }

    #[test]
    fn an_answer_waits_at_the_socket_that_asked() {
        let asking = socket();
        for _ in 0..2 {
            respond(asking.as_fd(), &list(), &[device(false)]).unwrap();
            assert!(received(&asking).unwrap().windows(7).any(|bytes| bytes == b"nonic0\0"));
        }
        respond(asking.as_fd(), &list()[..10], &[device(false)]).unwrap();
        assert_eq!(received(&asking).unwrap_err(), Errno::AGAIN);
    }

    #[test]
    fn what_a_stranger_sends_is_never_an_answer() {
        let (asking, stranger) = (socket(), socket());
        bind(&asking, &SocketAddrNetlink::new(0, 0)).unwrap();
        let port = SocketAddrNetlink::try_from(getsockname(&asking).unwrap()).unwrap();
        let lie = || sendto(&stranger, b"a lie", SendFlags::empty(), &port);
        lie().expect("nobody was asked yet");
        respond(asking.as_fd(), &list(), &[device(false)]).unwrap();
        assert_eq!(lie(), Err(Errno::CONNREFUSED));
        assert!(received(&asking).unwrap().windows(7).any(|bytes| bytes == b"nonic0\0"));
        assert_eq!(received(&asking).unwrap_err(), Errno::AGAIN);
    }
}
