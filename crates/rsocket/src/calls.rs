//! The calls, by descriptor. `EBADF` for a number that is none of ours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use nonic_device::ProgramAddress;
use nonic_memory::SharedSlice;
use nonic_sys::RawFd;

use crate::datagram::Datagram;
use crate::event_poll;
use crate::options::Value;
use crate::stream::{Direction, Stream};
use crate::table::Socket;
use crate::{Error, Result};

/// The family of addresses that are GIDs.
pub const AF_IB: i32 = 27;

/// Makes a socket (`rsocket`): of IPv4 or IPv6, a stream or one of datagrams, or a stream whose addresses are GIDs ([`is_by_gid`]).
/// `EAFNOSUPPORT` for datagrams between GIDs, since the first of each goes over UDP; `ENOTSUP` for everything else.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<RawFd> {
    let unsupported = Error::new(libc::ENOTSUP);
    let unbound = match domain {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        libc::AF_INET6 | AF_IB => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return Err(unsupported),
    };
    let unbound = SocketAddr::new(unbound, 0);
    match (kind, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => {
            let stream = Stream::new(unbound)?;
            stream.name_by_gid(domain == AF_IB);
            Ok(Socket::Stream(stream).enter())
        }
        (libc::SOCK_DGRAM, _) if domain == AF_IB => Err(Error::new(libc::EAFNOSUPPORT)),
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Ok(Socket::Datagram(Datagram::new(unbound)?).enter()),
        _ => Err(unsupported),
    }
}

/// Whether a socket's addresses are GIDs.
pub fn is_by_gid(number: RawFd) -> Result<bool> {
    Ok(match Socket::of(number)? {
        Socket::Stream(stream) => stream.is_by_gid(),
        Socket::Datagram(_) => false,
    })
}

/// Binds it to an address of this host (`rbind`).
pub fn bind(number: RawFd, address: SocketAddr) -> Result<()> {
    match Socket::of(number)? {
        Socket::Stream(stream) => stream.bind(address),
        Socket::Datagram(socket) => socket.bind(address),
    }
}

/// Takes connections from now on (`rlisten`).
pub fn listen(number: RawFd, backlog: i32) -> Result<()> {
    match Socket::of(number)? {
        Socket::Stream(stream) => stream.listen(backlog),
        Socket::Datagram(_) => Err(Error::new(libc::EOPNOTSUPP)),
    }
}

/// The next connection, and the peer's address (`raccept`). It does not inherit that calls do not block. `EBADF` if nobody
/// listens.
pub fn accept(number: RawFd) -> Result<(RawFd, Option<SocketAddr>)> {
    match Socket::of(number)? {
        Socket::Stream(stream) => {
            let accepted = stream.accept()?;
            let peer = accepted.peer_name().ok();
            Ok((Socket::Stream(accepted).enter(), peer))
        }
        Socket::Datagram(_) => Err(Error::new(libc::EOPNOTSUPP)),
    }
}

/// Connects a stream, or sets where datagrams go (`rconnect`).
pub fn connect(number: RawFd, address: SocketAddr) -> Result<()> {
    match Socket::of(number)? {
        Socket::Stream(stream) => stream.connect(address),
        Socket::Datagram(socket) => socket.connect(address),
    }
}

/// Ends one half or both (`rshutdown`).
pub fn shut_down(number: RawFd, how: i32) -> Result<()> {
    let direction = Direction::of_number(how).ok_or(Error::new(libc::EINVAL))?;
    match Socket::of(number)? {
        Socket::Stream(stream) => stream.shut_down(direction),
        // There is no connection to end.
        Socket::Datagram(_) => Ok(()),
    }
}

/// Gives it back, its descriptor too (`rclose`): a socket, which no event poll watches any more, or an event poll.
pub fn close(number: RawFd) -> Result<()> {
    if event_poll::close(number)? {
        return Ok(());
    }
    match Socket::take(number)? {
        Socket::Stream(stream) => stream.close(),
        Socket::Datagram(socket) => socket.close(),
    }
    Ok(())
}

/// Receives (`rrecv`, `rread`), with `MSG_DONTWAIT`, `MSG_PEEK` and `MSG_WAITALL`. 0 after the end of a stream.
pub fn receive(number: RawFd, target: SharedSlice<'_>, flags: i32) -> Result<usize> {
    match Socket::of(number)? {
        Socket::Stream(stream) => stream.receive(target, flags),
        Socket::Datagram(socket) => Ok(socket.receive(target, flags)?.0),
    }
}

/// The same, and from whom (`rrecvfrom`).
pub fn receive_from(
    number: RawFd,
    target: SharedSlice<'_>,
    flags: i32,
) -> Result<(usize, Option<SocketAddr>)> {
    match Socket::of(number)? {
        Socket::Stream(stream) => Ok((stream.receive(target, flags)?, stream.peer_name().ok())),
        Socket::Datagram(socket) => {
            let (count, from) = socket.receive(target, flags)?;
            Ok((count, Some(from)))
        }
    }
}

/// Sends what stands in several places (`rsend`, `rwritev`, ...). How many bytes were taken.
pub fn send(number: RawFd, slices: &[SharedSlice<'_>], flags: i32) -> Result<usize> {
    match Socket::of(number)? {
        Socket::Stream(stream) => stream.send(slices, flags),
        Socket::Datagram(socket) => socket.send(slices, flags, None),
    }
}

/// The same to an address (`rsendto`). `EISCONN` for a stream.
pub fn send_to(number: RawFd, slices: &[SharedSlice<'_>], flags: i32, address: SocketAddr) -> Result<usize> {
    match Socket::of(number)? {
        Socket::Stream(_) => Err(Error::new(libc::EISCONN)),
        Socket::Datagram(socket) => socket.send(slices, flags, Some(address)),
    }
}

/// Its own address (`rgetsockname`); the unspecified one while it has none.
pub fn name(number: RawFd) -> Result<SocketAddr> {
    match Socket::of(number)? {
        Socket::Stream(stream) => Ok(stream.name()),
        Socket::Datagram(socket) => socket.name(),
    }
}

/// The peer's address (`rgetpeername`). `ENOTCONN` without one.
pub fn peer_name(number: RawFd) -> Result<SocketAddr> {
    match Socket::of(number)? {
        Socket::Stream(stream) => stream.peer_name(),
        Socket::Datagram(socket) => socket.peer_name(),
    }
}

/// What an option is (`rgetsockopt`).
pub fn option(number: RawFd, level: i32, name: i32) -> Result<Value> {
    match Socket::of(number)? {
        Socket::Stream(stream) => stream.option(level, name),
        Socket::Datagram(socket) => socket.option(level, name),
    }
}

/// Sets an option (`rsetsockopt`).
pub fn set_option(number: RawFd, level: i32, name: i32, value: &[u8]) -> Result<()> {
    match Socket::of(number)? {
        Socket::Stream(stream) => stream.set_option(level, name, value),
        Socket::Datagram(socket) => socket.set_option(level, name, value),
    }
}

/// Whether calls that would wait fail instead (`rfcntl` with `F_GETFL`).
pub fn is_nonblocking(number: RawFd) -> Result<bool> {
    match Socket::of(number)? {
        Socket::Stream(stream) => Ok(stream.is_nonblocking()),
        Socket::Datagram(socket) => Ok(socket.is_nonblocking()),
    }
}

/// Has calls that would wait fail instead (`rfcntl` with `F_SETFL`).
pub fn set_nonblocking(number: RawFd, nonblocking: bool) -> Result<()> {
    match Socket::of(number)? {
        Socket::Stream(stream) => stream.set_nonblocking(nonblocking),
        Socket::Datagram(socket) => socket.set_nonblocking(nonblocking),
    }
    Ok(())
}

/// Maps memory of the program for the peer to write to as `offset`, or its address with -1 (`riomap`); with `PROT_NONE` it is only
/// known here. The offset. `ENOMEM` if the peer's table is full, `EINVAL` for other rights and without a connection.
pub fn map_memory(
    number: RawFd,
    address: ProgramAddress,
    length: usize,
    protection: i32,
    offset: i64,
) -> Result<i64> {
    if protection & !libc::PROT_WRITE != 0 {
        return Err(Error::new(libc::EINVAL));
    }
    let stream = stream(number)?;
    let offset = if offset == -1 { address.get() as i64 } else { offset };
    let writable = protection & libc::PROT_WRITE != 0;
    stream.map(address, length, writable, offset.cast_unsigned())?;
    Ok(offset)
}

/// Ends a mapping of exactly that memory (`riounmap`); else `EINVAL`.
pub fn unmap_memory(number: RawFd, address: usize, length: usize) -> Result<()> {
    let stream = stream(number)?;
    stream.unmap(address, length)
}

/// Writes to the peer's mapping that has `offset`, in order with what is sent (`riowrite`). How many bytes lay in mappings.
pub fn write_mapped(number: RawFd, source: SharedSlice<'_>, offset: i64, flags: i32) -> Result<usize> {
    let stream = stream(number)?;
    stream.write_mapped(source, offset.cast_unsigned(), flags)
}

/// A stream; only these have mappings.
fn stream(number: RawFd) -> Result<Arc<Stream>> {
    match Socket::of(number)? {
        Socket::Stream(stream) => Ok(stream),
        Socket::Datagram(_) => Err(Error::new(libc::EINVAL)),
    }
}
