//! UDP sockets for datagrams that come and go by the dozen: runs of equal ones in one call each way (`UDP_SEGMENT`, `UDP_GRO`: udp(7)),
//! several of those in one more (`recvmmsg(2)`), and what the headers of IP said.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_void, iovec, mmsghdr, msghdr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::control_messages::{CONTROL, Control};
use crate::fork::{forget_in_children, keep_in_children};

/// Bytes that one call sends, and that one message of a batch brings, at most.
pub const DATAGRAM_RUN_MAX: usize = 65_507;
/// Datagrams that one call sends at most: what kernels before 6.9 take.
pub const DATAGRAM_SEGMENTS_MAX: usize = 64;
/// Messages of a batch.
const BATCH: usize = 8;
/// Room of one: a whole datagram of IP.
const MESSAGE: usize = 1 << 16;
/// What a socket is to keep until it is read; the kernel gives what its limits let it (`net.core.rmem_max`).
const BUFFER: c_int = 4 << 20;

const UDP_SEGMENT: c_int = 103;
const UDP_GRO: c_int = 104;
const UDP_NO_CHECK6_RX: c_int = 102;
/// Never divided, and no path MTU is learned for it either: who sends chose the length.
const PROBE: c_int = libc::IP_PMTUDISC_PROBE;

/// A UDP socket of an address, which shares its port with others of the same user. It never blocks.
#[derive(Debug)]
pub struct WireSocket {
    pub(crate) fd: OwnedFd,
    is_v4: bool,
}

/// How a run of datagrams is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramRoute {
    /// Where to.
    pub to: SocketAddr,
    /// Traffic class, or type of service.
    pub traffic_class: u8,
    /// Hop limit, or time to live.
    pub hop_limit: u8,
}

/// What came of sending.
#[derive(Debug)]
pub enum RunSent {
    /// The kernel has it.
    Sent,
    /// The kernel has no room now.
    NoRoom,
    /// It went to an interface that takes no runs.
    NoRuns,
    /// The kernel refused it.
    Refused(io::Error),
}

/// What came with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Where it comes from.
    pub from: SocketAddr,
    /// Bytes of each datagram but the last, if several came as one.
    pub segment: usize,
    /// Traffic class, or type of service.
    pub traffic_class: u8,
    /// Hop limit, or time to live.
    pub hop_limit: u8,
}

/// Room for a batch of messages.
pub struct DatagramBatch {
    bytes: Vec<u8>,
}

impl std::fmt::Debug for DatagramBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DatagramBatch")
    }
}

impl Default for DatagramBatch {
    fn default() -> Self {
        Self { bytes: vec![0; BATCH * MESSAGE] }
    }
}

impl WireSocket {
    /// One that is bound to an address and a port, together with others of the same user's that are bound so. `AddrInUse` if another
    /// user's is.
    pub fn bind(at: SocketAddr) -> io::Result<Self> {
        let socket = Self::open(at, libc::SO_REUSEPORT)?;
        rustix::net::bind(&socket.fd, &at)?;
        Ok(socket)
    }

    /// One that is not bound yet, and shares what it will be bound to with others that have the same option.
    pub(crate) fn open(at: SocketAddr, shares_by: c_int) -> io::Result<Self> {
        let is_v4 = at.is_ipv4();
        let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
        let socket = Self { fd, is_v4 };
        socket.set(libc::SOL_SOCKET, shares_by, 1)?;
        if is_v4 {
            socket.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, PROBE)?;
            socket.set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
            socket.set(libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
        } else {
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, PROBE)?;
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
            // Cards and the kernel's driver send none; the check at the end of a packet covers what it would.
            let _ = socket.set(libc::IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
        }
        let _ = socket.set(libc::IPPROTO_UDP, UDP_GRO, 1);
        let _ = socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER);
        let _ = socket.set(libc::SOL_SOCKET, libc::SO_SNDBUF, BUFFER);
        // A child of this process must not take what is for this process.
        forget_in_children(socket.fd.as_fd());
        Ok(socket)
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.is_v4
    }

    pub(crate) fn set(&self, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
        crate::set_any_option(self.fd.as_fd(), level, name, &value.to_ne_bytes())
    }

    /// Sends bytes as datagrams of `segment` bytes each, of which the last may be shorter: at most [`DATAGRAM_SEGMENTS_MAX`], and [`DATAGRAM_RUN_MAX`]
    /// bytes in all.
    pub fn send(&self, how: &DatagramRoute, bytes: &[u8], segment: usize) -> RunSent {
        let (mut name, length) = socket_name(how.to);
        let mut control = Control::new();
        let (level, class, hops) = if self.is_v4 {
            (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT)
        };
        control.push(level, class, &c_int::from(how.traffic_class).to_ne_bytes());
        control.push(level, hops, &c_int::from(how.hop_limit.max(1)).to_ne_bytes());
        if bytes.len() > segment {
            control.push(libc::IPPROTO_UDP, UDP_SEGMENT, &(segment as u16).to_ne_bytes());
        }
        let mut part = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: a structure of numbers and pointers, for which zeros are valid.
        let mut message: msghdr = unsafe { zeroed() };
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = length;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.bytes.as_mut_ptr().cast();
        message.msg_controllen = control.length;
        // SAFETY: name, part and control are locals that outlive the call, and the part is the caller's bytes, which are only read.
        let sent = unsafe {
            libc::sendmsg(self.fd.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
        };
        if sent >= 0 {
            return RunSent::Sent;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => RunSent::NoRoom,
            Some(libc::EIO) if bytes.len() > segment => RunSent::NoRuns,
            _ => RunSent::Refused(error),
        }
    }

    /// Takes messages that have come, as far as the batch has room, and gives each to `take`. How many; 0 if there was none.
    pub fn receive(&self, batch: &mut DatagramBatch, take: impl FnMut(&DatagramHeader, &mut [u8])) -> usize {
        self.receive_up_to::<BATCH>(batch, take)
    }

    /// Takes one: to find out that there is no other would cost as much again.
    pub fn receive_one(
        &self,
        batch: &mut DatagramBatch,
        take: impl FnMut(&DatagramHeader, &mut [u8]),
    ) -> usize {
        self.receive_up_to::<1>(batch, take)
    }

    fn receive_up_to<const MOST: usize>(
        &self,
        batch: &mut DatagramBatch,
        mut take: impl FnMut(&DatagramHeader, &mut [u8]),
    ) -> usize {
        // SAFETY: structures of numbers and pointers, for which zeros are valid.
        let (mut names, mut messages): ([sockaddr_storage; MOST], [mmsghdr; MOST]) =
            unsafe { (zeroed(), zeroed()) };
        let mut controls = [const { Control::new() }; MOST];
        let mut parts = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST];
        for (index, place) in batch.bytes.chunks_exact_mut(MESSAGE).enumerate().take(MOST) {
            parts[index] = iovec { iov_base: place.as_mut_ptr().cast::<c_void>(), iov_len: MESSAGE };
            let message = &mut messages[index].msg_hdr;
            message.msg_name = (&raw mut names[index]).cast();
            message.msg_namelen = size_of::<sockaddr_storage>() as socklen_t;
            message.msg_iov = &raw mut parts[index];
            message.msg_iovlen = 1;
            message.msg_control = controls[index].bytes.as_mut_ptr().cast();
            message.msg_controllen = CONTROL;
        }
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        let count = if let [one] = &mut messages[..] {
            // SAFETY: name, part and control are locals that outlive the call, the part the first place in the batch.
            let length = unsafe { libc::recvmsg(fd, &raw mut one.msg_hdr, flags) };
            one.msg_len = length.max(0) as u32;
            if length < 0 { -1 } else { 1 }
        } else {
            // SAFETY: as above; each part is a place of its own in the batch.
            unsafe {
                libc::recvmmsg(fd, messages.as_mut_ptr(), MOST as u32, flags as _, std::ptr::null_mut())
            }
        };
        let Ok(count) = usize::try_from(count) else { return 0 };
        for (index, place) in batch.bytes.chunks_exact_mut(MESSAGE).enumerate().take(count) {
            let (message, length) = (&messages[index].msg_hdr, messages[index].msg_len as usize);
            let Some(from) = address_of(&names[index]) else { continue };
            let bytes = &mut place[..length.min(MESSAGE)];
            let mut envelope = DatagramHeader { from, segment: bytes.len(), traffic_class: 0, hop_limit: 0 };
            let filled = message.msg_controllen.min(CONTROL);
            controls[index].each(filled, |level, kind, value| match (level, kind) {
                (libc::IPPROTO_UDP, UDP_GRO) => envelope.segment = value as usize,
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    envelope.traffic_class = value as u8;
                }
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    envelope.hop_limit = value as u8;
                }
                _ => {}
            });
            if envelope.segment == 0 {
                envelope.segment = bytes.len();
            }
            take(&envelope, bytes);
        }
        count
    }
}

impl AsFd for WireSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for WireSocket {
    fn drop(&mut self) {
        keep_in_children(self.fd.as_fd());
    }
}

/// An address as the kernel wants it, and its length.
fn socket_name(address: SocketAddr) -> (sockaddr_storage, socklen_t) {
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut storage: sockaddr_storage = unsafe { zeroed() };
    let place = &raw mut storage;
    match address {
        SocketAddr::V4(v4) => {
            let name = sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage has room and alignment for the name of any socket.
            unsafe { place.cast::<sockaddr_in>().write(name) };
            (storage, size_of::<sockaddr_in>() as socklen_t)
        }
        SocketAddr::V6(v6) => {
            let name = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { place.cast::<sockaddr_in6>().write(name) };
            (storage, size_of::<sockaddr_in6>() as socklen_t)
        }
    }
}

fn address_of(storage: &sockaddr_storage) -> Option<SocketAddr> {
    let place = &raw const *storage;
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote a name of this family, and the storage has its size and alignment.
            let name = unsafe { place.cast::<sockaddr_in>().read() };
            let address = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddrV4::new(address, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { place.cast::<sockaddr_in6>().read() };
            let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(address, u16::from_be(name.sin6_port), 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pair(at: &str) -> Option<[(WireSocket, SocketAddr); 2]> {
        let at: SocketAddr = at.parse().unwrap();
        let bound = || {
            let socket = WireSocket::bind(at).ok()?;
            let fd = socket.fd.try_clone().unwrap();
            let name = crate::datagram_name(&fd).unwrap();
            Some((socket, name))
        };
        Some([bound()?, bound()?])
    }

    fn a_run_arrives(at: &str) {
        // A host may have no IPv6.
        let Some([(near, near_name), (far, far_name)]) = pair(at) else { return };
        let sending = DatagramRoute { to: far_name, traffic_class: 0x28, hop_limit: 9 };
        let bytes: Vec<u8> = (0..2500u32).map(|at| (at * 7) as u8).collect();
        assert!(matches!(near.send(&sending, &bytes, 1000), RunSent::Sent));
        let (mut batch, mut came) = (DatagramBatch::default(), Vec::new());
        while came.len() < bytes.len() {
            assert!(crate::wait_readable(far.as_fd(), Some(Duration::from_secs(20))), "nothing came");
            far.receive(&mut batch, |envelope, bytes| {
                assert_eq!((envelope.from, envelope.segment.min(1000)), (near_name, envelope.segment));
                assert_eq!((envelope.traffic_class, envelope.hop_limit), (0x28, 9));
                came.extend_from_slice(bytes);
            });
        }
        assert_eq!(came, bytes);
        assert_eq!(far.receive(&mut batch, |_, _| ()), 0);
        assert!(WireSocket::path_mtu(far_name, 0).unwrap() >= 1280);
    }

    #[test]
    fn a_run_of_datagrams_is_sent_in_one_call_and_arrives_with_what_its_headers_said() {
        a_run_arrives("127.0.0.1:0");
        a_run_arrives("[::1]:0");
    }

    #[test]
    fn a_port_is_shared_with_whoever_asks_for_the_same() {
        let at: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let first = WireSocket::bind(at).unwrap();
        let name = crate::datagram_name(&first.fd.try_clone().unwrap()).unwrap();
        WireSocket::bind(name).unwrap();
        let alone = crate::open_datagram(at).unwrap();
        assert_eq!(crate::bind_datagram(&alone, name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
