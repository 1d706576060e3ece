//! Unix stream sockets by their numbers, as a program holds them: it may close or replace a number at any time, so every call
//! can fail, and none trusts what a number was a moment ago.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, socklen_t};

use crate::Credentials;

/// Longest abstract name, without the zero byte it begins with.
const NAME_MOST: usize = 107;
/// Bytes of address family and zero byte before a name.
const NAME_AT: usize = 3;

/// A new socket that programs this one starts do not inherit.
pub fn open_stream() -> io::Result<OwnedFd> {
    new_descriptor(|| {
        // SAFETY: takes numbers only.
        unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) }
    })
}

fn new_descriptor(call: impl FnOnce() -> c_int) -> io::Result<OwnedFd> {
    match call() {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just made it for this call.
        number => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
    }
}

fn checked(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn option<T: Copy>(number: RawFd, name: c_int, zero: T) -> io::Result<T> {
    let (mut value, mut length) = (zero, size_of::<T>() as socklen_t);
    // SAFETY: both are locals, and the length is that of the value.
    checked(unsafe {
        libc::getsockopt(
            number,
            libc::SOL_SOCKET,
            name,
            std::ptr::from_mut(&mut value).cast(),
            &raw mut length,
        )
    })?;
    Ok(value)
}

pub(crate) fn set_option<T>(number: RawFd, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the value is borrowed for the call, and the length is its own.
    checked(unsafe {
        libc::setsockopt(
            number,
            libc::SOL_SOCKET,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as socklen_t,
        )
    })
}

/// A number that no other socket of this machine has had or will have. `EBADF` or `ENOTSOCK` if it is none.
#[inline]
pub fn socket_cookie(number: RawFd) -> io::Result<u64> {
    option(number, libc::SO_COOKIE, 0u64)
}

/// Whether it is a Unix stream socket.
pub fn is_unix_stream(number: RawFd) -> bool {
    option(number, libc::SO_DOMAIN, 0).is_ok_and(|domain: c_int| domain == libc::AF_UNIX)
        && option(number, libc::SO_TYPE, 0).is_ok_and(|kind: c_int| kind == libc::SOCK_STREAM)
}

/// Whether it listens.
pub fn is_listening(number: RawFd) -> bool {
    option(number, libc::SO_ACCEPTCONN, 0).is_ok_and(|listens: c_int| listens != 0)
}

/// The abstract name it is bound to, without the zero byte; `None` if it has none.
pub fn own_name(number: RawFd) -> io::Result<Option<String>> {
    // SAFETY: the closure's arguments are a buffer and its length.
    name_from(|address, length| unsafe { libc::getsockname(number, address, length) })
}

/// The abstract name of the socket at the other end.
pub fn peer_name(number: RawFd) -> io::Result<Option<String>> {
    // SAFETY: as in `own_name`.
    name_from(|address, length| unsafe { libc::getpeername(number, address, length) })
}

fn name_from(ask: impl FnOnce(*mut libc::sockaddr, *mut socklen_t) -> c_int) -> io::Result<Option<String>> {
    // SAFETY: an all-zero address is a valid one.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_un>() as socklen_t;
    checked(ask((&raw mut address).cast(), &raw mut length))?;
    let length = (length as usize).min(size_of::<libc::sockaddr_un>());
    if length <= NAME_AT || address.sun_path[0] != 0 {
        return Ok(None);
    }
    let bytes: Vec<u8> = address.sun_path[1..=length - NAME_AT].iter().map(|&byte| byte as u8).collect();
    Ok(String::from_utf8(bytes).ok())
}

fn address_of(name: &str) -> io::Result<(libc::sockaddr_un, socklen_t)> {
    // SAFETY: an all-zero address is a valid one.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if name.len() > NAME_MOST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (place, byte) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok((address, (NAME_AT + name.len()) as socklen_t))
}

/// Takes an abstract name; `EADDRINUSE` if another socket has it, `EINVAL` if this one has a name.
pub fn bind_name(number: RawFd, name: &str) -> io::Result<()> {
    let (address, length) = address_of(name)?;
    // SAFETY: the address is a local of at least that length.
    checked(unsafe { libc::bind(number, (&raw const address).cast(), length) })
}

/// Listens, with room for exactly `backlog` connections (at least 1) that wait. What waits for a connection in vain because
/// another took it waits no longer than the kernel's shortest time.
pub fn listen_for(number: RawFd, backlog: i32) -> io::Result<()> {
    let shortest = libc::timeval { tv_sec: 0, tv_usec: 1 };
    set_option(number, libc::SO_RCVTIMEO, &shortest)?;
    // SAFETY: takes numbers only. The kernel has room for one more than it is told.
    checked(unsafe { libc::listen(number, backlog - 1) })
}

/// The next connection of a listening socket; `EAGAIN` if there is none.
pub fn accept_stream(number: RawFd) -> io::Result<OwnedFd> {
    new_descriptor(|| {
        // SAFETY: no address is asked for.
        unsafe { libc::accept4(number, std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC) }
    })
}

/// A new socket connected to whoever listens under a name: `EAGAIN` if as many wait there as may, `ECONNREFUSED` if nobody
/// listens.
pub fn connect_stream(name: &str) -> io::Result<OwnedFd> {
    let socket = new_descriptor(|| {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes numbers only.
        unsafe { libc::socket(libc::AF_UNIX, kind, 0) }
    })?;
    let (address, length) = address_of(name)?;
    // SAFETY: the address is a local of at least that length.
    checked(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// Gives a socket, bound or not, another end, and returns that.
pub fn give_other_end(number: RawFd) -> io::Result<OwnedFd> {
    let listener = open_stream()?;
    // SAFETY: an all-zero address is a valid one; binding to a family alone has the kernel choose a name.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let mut length = size_of::<libc::sa_family_t>() as socklen_t;
    // SAFETY: the address is a local; the lengths are its own or less.
    unsafe {
        checked(libc::bind(listener.as_raw_fd(), (&raw const address).cast(), length))?;
        checked(libc::listen(listener.as_raw_fd(), 1))?;
        length = size_of::<libc::sockaddr_un>() as socklen_t;
        checked(libc::getsockname(listener.as_raw_fd(), (&raw mut address).cast(), &raw mut length))?;
        checked(libc::connect(number, (&raw const address).cast(), length))?;
    }
    let cookie = peer_of(number)?;
    // Whoever else found the listener is turned away.
    for _ in 0..16 {
        let other = accept_stream(listener.as_raw_fd())?;
        if peer_of(other.as_raw_fd())? == cookie && peer_name(other.as_raw_fd())? == own_name(number)? {
            return Ok(other);
        }
    }
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// Process and user at the other end, as the kernel says.
fn peer_of(number: RawFd) -> io::Result<(i32, u32)> {
    let zero = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    option(number, libc::SO_PEERCRED, zero).map(|peer| (peer.pid, peer.uid))
}

/// The user at the other end, as the kernel says.
pub fn peer_user(number: RawFd) -> io::Result<u32> {
    peer_of(number).map(|(_, user)| user)
}

/// Sets how much may be on its way before a socket is not writable; the kernel has a least and a most. Raising it wakes who
/// waits to write.
pub fn set_send_buffer(number: RawFd, bytes: i32) -> io::Result<()> {
    set_option(number, libc::SO_SNDBUF, &bytes)
}

/// Sends one byte, without waiting and without a signal.
pub fn send_byte(number: RawFd) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the byte is a constant that outlives the call.
    let sent = unsafe { libc::send(number, [1u8].as_ptr().cast(), 1, flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes up to `count` bytes (at most 64) without waiting; returns how many. None at all is `EAGAIN`, or 0 if the other end is
/// gone.
pub fn take_bytes(number: RawFd, count: usize) -> io::Result<usize> {
    let mut bytes = [0u8; 64];
    // SAFETY: the buffer is a local of at least the length given.
    let taken = unsafe { libc::recv(number, bytes.as_mut_ptr().cast(), count.min(64), libc::MSG_DONTWAIT) };
    if taken < 0 { Err(io::Error::last_os_error()) } else { Ok(taken as usize) }
}

/// Has the kernel say with whatever is received who sent it (see [`take_signed`]).
pub fn want_senders(number: RawFd) -> io::Result<()> {
    set_option(number, libc::SO_PASSCRED, &1)
}

/// Takes what one sender sent, up to `bytes`, without waiting, and without the descriptors that come with it: how much, and who
/// sent it as the kernel says, if that was wanted. 0: the other end is gone.
pub fn take_signed(number: RawFd, bytes: &mut [u8]) -> io::Result<(usize, Option<Credentials>)> {
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: an all-zero header is a valid one.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut piece, 1);
    // Room for the sender alone: descriptors are not installed.
    // SAFETY: computes a length.
    let room = unsafe { libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) } as usize;
    assert!(room <= size_of::<Control>(), "one sender fits in");
    (header.msg_control, header.msg_controllen) = ((&raw mut control).cast(), room as _);
    // SAFETY: the header leads to locals and to `bytes`, with their lengths.
    let taken =
        unsafe { libc::recvmsg(number, &raw mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
    if taken < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled the header, and the pointer is to a whole message of `control` or null.
    let sender = unsafe {
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        let whole = libc::CMSG_LEN(size_of::<libc::ucred>() as u32) as usize;
        (!message.is_null()
            && (*message).cmsg_level == libc::SOL_SOCKET
            && (*message).cmsg_type == libc::SCM_CREDENTIALS
            && (*message).cmsg_len as usize >= whole)
            .then(|| std::ptr::read_unaligned(libc::CMSG_DATA(message).cast::<libc::ucred>()))
    };
    Ok((taken as usize, sender.map(|sender| Credentials { pid: sender.pid, uid: sender.uid })))
}

/// Whether the program made it non-blocking.
pub fn is_nonblocking(number: RawFd) -> io::Result<bool> {
    // SAFETY: takes numbers only.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFL) };
    checked(flags).map(|()| flags & libc::O_NONBLOCK != 0)
}

/// Puts `source` in the place of `place`, under its number, which programs this one starts inherit.
pub fn replace_descriptor(place: OwnedFd, source: OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: both are open and owned here; what was at `place` is closed by the call.
    checked(unsafe { libc::dup3(source.as_raw_fd(), place.as_raw_fd(), 0) })?;
    Ok(place)
}

/// Puts an open file in the place of the program's under a number; what `fcntl(2)` shows of both is that of the old one.
pub fn replace_number(number: RawFd, source: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes numbers only; the program asked for what happens to `number`.
    unsafe {
        let (status, inherited) = (libc::fcntl(number, libc::F_GETFL), libc::fcntl(number, libc::F_GETFD));
        checked(status.min(inherited))?;
        checked(libc::fcntl(source.as_raw_fd(), libc::F_SETFL, status))?;
        let kept = if inherited & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
        checked(libc::dup3(source.as_raw_fd(), number, kept))
    }
}

/// Closes a number of the program's.
pub fn close_number(number: RawFd) -> io::Result<()> {
    // SAFETY: the program asked for it, and it is no descriptor of ours.
    checked(unsafe { libc::close(number) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, IntoRawFd};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_comes_is_signed_by_its_sender_and_comes_without_descriptors() {
        let (near, far) = UnixStream::pair().unwrap();
        want_senders(far.as_raw_fd()).unwrap();
        crate::send_message(near.as_fd(), b"word", &[near.as_fd()]).unwrap();
        let own = Credentials { pid: std::process::id() as i32, uid: crate::effective_user() };
        let mut bytes = [0; 8];
        assert_eq!(take_signed(far.as_raw_fd(), &mut bytes).unwrap(), (4, Some(own)));
        assert_eq!(&bytes[..4], b"word");
        assert_eq!(take_signed(far.as_raw_fd(), &mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // Nobody wanted to know.
        crate::send_message(far.as_fd(), b"word", &[]).unwrap();
        let (length, _) = take_signed(near.as_raw_fd(), &mut bytes).unwrap();
        assert_eq!(length, 4);
        close_number(near.into_raw_fd()).unwrap();
        // The end comes when nobody has the other one.
        assert!(crate::patience::comes_true(|| {
            take_signed(far.as_raw_fd(), &mut bytes).is_ok_and(|(length, _)| length == 0)
        }));
    }
}
