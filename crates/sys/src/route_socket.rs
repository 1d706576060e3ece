//! What is asked of the kernel about interfaces of the network, in the language of `rtnetlink(7)`.

use std::io;
use std::net::Ipv4Addr;

use rustix::fd::OwnedFd;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// What describes the other end of a cable, in what describes the cable (`linux/veth.h`).
const VETH_INFO_PEER: u16 = 1;

/// A socket of the namespace in which the thread was that opened it.
pub(crate) struct RouteSocket {
    socket: OwnedFd,
}

impl RouteSocket {
    pub(crate) fn open() -> io::Result<Self> {
        let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
        Ok(Self { socket: rustix::net::socket_with(family, SocketType::RAW, flags, None)? })
    }

    /// Makes a pair of virtual Ethernet interfaces, one here and one in the network namespace that a descriptor leads to.
    pub(crate) fn make_cable(&mut self, here: &str, there: &str, elsewhere: i32, mtu: u32) -> io::Result<()> {
        let mut question = Question::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        question.push(&link(0));
        question.name(here);
        question.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
        question.nest(libc::IFLA_LINKINFO, |question| {
            question.attribute(libc::IFLA_INFO_KIND, b"veth");
            question.nest(libc::IFLA_INFO_DATA, |question| {
                question.nest(VETH_INFO_PEER, |question| {
                    question.push(&link(0));
                    question.name(there);
                    question.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
                    question.attribute(libc::IFLA_NET_NS_FD, &elsewhere.to_ne_bytes());
                });
            });
        });
        self.ask(question)
    }

    /// Has an interface up.
    pub(crate) fn set_up(&mut self, name: &str) -> io::Result<()> {
        let mut question = Question::new(libc::RTM_NEWLINK, 0);
        question.push(&link(libc::IFF_UP as u32));
        question.name(name);
        self.ask(question)
    }

    /// Gives an interface an address, in a network of 256.
    pub(crate) fn add_address(&mut self, name: &str, address: Ipv4Addr) -> io::Result<()> {
        let index = name_to_index(&self.socket_for_names()?, name)?;
        let mut question = Question::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        // `struct ifaddrmsg`: family, length of the prefix, flags, scope, index.
        question.push(&[libc::AF_INET as u8, 24, 0, 0]);
        question.push(&index.to_ne_bytes());
        question.attribute(libc::IFA_LOCAL, &address.octets());
        question.attribute(libc::IFA_ADDRESS, &address.octets());
        self.ask(question)
    }

    /// Only sockets of IP know interfaces by name.
    fn socket_for_names(&self) -> io::Result<OwnedFd> {
        let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
        Ok(rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?)
    }

    /// Asks, and waits for the kernel's answer, which is there at once.
    fn ask(&mut self, question: Question) -> io::Result<()> {
        rustix::net::send(&self.socket, &question.finish(), SendFlags::empty())?;
        let mut answer = [0u8; 4096];
        let (length, _) = rustix::net::recv(&self.socket, answer.as_mut_slice(), RecvFlags::empty())?;
        // `struct nlmsgerr` behind the header: 0, or an error less than that.
        match answer[..length].get(HEADER..HEADER + 4) {
            Some(&[first, second, third, fourth]) => {
                match i32::from_ne_bytes([first, second, third, fourth]) {
                    0 => Ok(()),
                    error => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
                }
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// `struct ifinfomsg` of any family, with flags to set.
fn link(flags: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

/// A message with its attributes.
struct Question {
    bytes: Vec<u8>,
}

impl Question {
    fn new(kind: u16, flags: i32) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Self { bytes }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nest(kind, |question| question.push(value));
    }

    fn name(&mut self, name: &str) {
        self.nest(libc::IFLA_IFNAME, |question| {
            question.push(name.as_bytes());
            question.push(&[0]);
        });
    }

    /// An attribute whose value is what `fill` adds. The next one begins at a multiple of four.
    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        fill(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_their_length_and_begin_at_multiples_of_four() {
        let mut question = Question::new(libc::RTM_NEWLINK, 0);
        question.nest(7, |question| {
            question.attribute(1, b"veth");
            question.attribute(2, &[9]);
        });
        question.attribute(3, b"abc");
        let bytes = question.finish();
        let words = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len());
        assert_eq!((words(16), words(18)), (4 + 8 + 8, 7)); // What a nest has inside is padded, and counts.
        assert_eq!((words(20), words(22), &bytes[24..28]), (8, 1, &b"veth"[..]));
        assert_eq!((words(28), words(30), bytes[32]), (5, 2, 9));
        assert_eq!((words(36), words(38), &bytes[40..43]), (7, 3, &b"abc"[..]));
        assert_eq!(bytes.len(), 44);
    }

    #[test]
    fn the_kernel_says_what_it_does_not_have() {
        let error = RouteSocket::open().unwrap().set_up("no-such-thing").unwrap_err();
        // Without the right to change anything it says that first.
        let known = [libc::ENODEV, libc::EPERM].contains(&error.raw_os_error().unwrap());
        assert!(known, "{error}");
    }
}
