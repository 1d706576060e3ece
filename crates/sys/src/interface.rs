//! The addresses of this host, as the kernel tells them (`rtnetlink(7)`). What `getifaddrs(3)` would do, without the C library's
//! memory.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// One address of one interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Interface name.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Bytes of a packet that the interface carries, the header of IP included.
    pub mtu: u32,
}

/// All IP addresses of interfaces that are up, in the kernel's order; empty if they cannot be read.
pub fn interface_addresses() -> Vec<InterfaceAddress> {
    addresses().unwrap_or_default()
}

/// Whether an address is one of this host's network namespace: loopback, or of an interface that is up.
pub fn is_own_address(address: IpAddr) -> bool {
    address.is_loopback() || interface_addresses().iter().any(|found| found.address == address)
}

/// Tells that addresses or interfaces of this host come and go, not which: that is to be looked for.
#[derive(Debug)]
pub struct AddressWatch {
    socket: OwnedFd,
}

impl AddressWatch {
    /// From now on. Readable when something has changed.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        let groups = (libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as u32;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self { socket })
    }

    /// Whether something has changed since it was last asked.
    pub fn has_changed(&self) -> bool {
        let mut buffer = [0u8; 8 * 1024];
        let mut changed = false;
        loop {
            match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                // What did not fit is lost: something has changed in any case.
                Ok(_) | Err(Errno::NOBUFS) => changed = true,
                Err(Errno::INTR) => {}
                Err(_) => return changed,
            }
        }
    }
}

impl AsFd for AddressWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An interface.
struct Link {
    index: u32,
    flags: u32,
    name: String,
    mtu: u32,
}

fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    // Without a number it is the protocol of routes, links and addresses.
    let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, SocketType::RAW, flags, None)?;
    let (mut links, mut found) = (Vec::new(), Vec::new());
    dump(&socket, libc::RTM_GETLINK, libc::RTM_NEWLINK, |body| links.extend(link(body)))?;
    dump(&socket, libc::RTM_GETADDR, libc::RTM_NEWADDR, |body| found.extend(address(body, &links)))?;
    Ok(found)
}

/// Asks for everything of a kind and calls `take` with each message's content.
fn dump(socket: &OwnedFd, ask: u16, answer: u16, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    const HEADER: usize = 16;
    const DONE: u16 = libc::NLMSG_DONE as u16;
    const ERROR: u16 = libc::NLMSG_ERROR as u16;
    // The header, and a structure that says nothing but the family, which is any.
    let mut question = [0u8; HEADER + 16];
    let length = question.len() as u32;
    question[..4].copy_from_slice(&length.to_ne_bytes());
    question[4..6].copy_from_slice(&ask.to_ne_bytes());
    question[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    rustix::net::send(socket, &question, SendFlags::empty())?;
    let mut buffer = vec![0u8; 32 * 1024];
    loop {
        let length = match rustix::net::recv(socket, buffer.as_mut_slice(), RecvFlags::empty()) {
            Ok((length, _)) => length,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let mut rest = &buffer[..length];
        while let Some(length) = number(rest, 0) {
            let (Some(message), Some(kind)) = (rest.get(..length as usize), number(rest, 4)) else { break };
            let Some(body) = message.get(HEADER..) else { break };
            match kind as u16 {
                DONE => return Ok(()),
                ERROR => return Err(io::ErrorKind::Other.into()),
                kind if kind == answer => take(body),
                _ => {}
            }
            rest = rest.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The value of an attribute; the attributes begin behind `header` bytes.
fn attribute(body: &[u8], header: usize, wanted: u16) -> Option<&[u8]> {
    let mut rest = body.get(header..)?;
    loop {
        let head = number(rest, 0)?.to_ne_bytes();
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = rest.get(4..length)?;
        if u16::from_ne_bytes([head[2], head[3]]) == wanted {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// `struct ifinfomsg` and its attributes.
fn link(body: &[u8]) -> Option<Link> {
    Some(Link {
        index: number(body, 4)?,
        flags: number(body, 8)?,
        name: text(attribute(body, 16, libc::IFLA_IFNAME)?),
        mtu: number(attribute(body, 16, libc::IFLA_MTU)?, 0)?,
    })
}

/// `struct ifaddrmsg` and its attributes.
fn address(body: &[u8], links: &[Link]) -> Option<InterfaceAddress> {
    let index = number(body, 4)?;
    let Link { flags, name, mtu, .. } = links.iter().find(|link| link.index == index)?;
    if flags & libc::IFF_UP as u32 == 0 {
        return None;
    }
    // Of the two ends of a tunnel, this one.
    let bytes = attribute(body, 8, libc::IFA_LOCAL).or_else(|| attribute(body, 8, libc::IFA_ADDRESS))?;
    let address = match i32::from(*body.first()?) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    // An address may have a name of its own, as `eth0:1`.
    let name = attribute(body, 8, libc::IFA_LABEL).map_or_else(|| name.clone(), text);
    let loopback = flags & libc::IFF_LOOPBACK as u32 != 0;
    Some(InterfaceAddress { name, index, address, loopback, mtu: *mtu })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    /// What the C library says.
    fn by_the_c_library() -> Vec<(String, u32, IpAddr, bool)> {
        let mut found = Vec::new();
        let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
        // SAFETY: the list is walked as the manual page says, and freed once; an address begins with its family, which tells
        // its structure.
        unsafe {
            assert_eq!(libc::getifaddrs(&raw mut list), 0);
            let mut next = list;
            while !next.is_null() {
                let entry = &*next;
                next = entry.ifa_next;
                if entry.ifa_addr.is_null() || entry.ifa_flags & libc::IFF_UP as u32 == 0 {
                    continue;
                }
                let address = match i32::from((*entry.ifa_addr).sa_family) {
                    libc::AF_INET => {
                        let v4 = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
                        IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)))
                    }
                    libc::AF_INET6 => {
                        let v6 = &*entry.ifa_addr.cast::<libc::sockaddr_in6>();
                        IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr))
                    }
                    _ => continue,
                };
                let name = CStr::from_ptr(entry.ifa_name).to_string_lossy().into_owned();
                let index = libc::if_nametoindex(entry.ifa_name);
                found.push((name, index, address, entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0));
            }
            libc::freeifaddrs(list);
        }
        found
    }

    #[test]
    fn the_addresses_are_those_that_the_c_library_tells_in_its_order() {
        let ours = interface_addresses().into_iter();
        let ours: Vec<_> = ours.map(|a| (a.name, a.index, a.address, a.loopback)).collect();
        assert_eq!(ours, by_the_c_library());
    }

    #[test]
    fn loopback_carries_what_its_file_says() {
        let all = interface_addresses();
        let Some(found) = all.iter().find(|found| found.name == "lo") else { return };
        let said = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        assert_eq!(found.mtu, said.trim().parse().unwrap());
    }

    #[test]
    fn messages_that_end_too_early_are_left_out() {
        let links = [Link { index: 1, flags: libc::IFF_UP as u32, name: "eth0".to_owned(), mtu: 1500 }];
        let mut body = vec![libc::AF_INET as u8, 24, 0, 0, 1, 0, 0, 0];
        body.extend([8, 0, 2, 0, 10, 1, 2, 3]);
        let whole = address(&body, &links).unwrap();
        assert_eq!(
            (whole.address.to_string(), &*whole.name, whole.mtu),
            ("10.1.2.3".to_owned(), "eth0", 1500)
        );
        for length in 0..body.len() {
            assert_eq!(address(&body[..length], &links), None);
        }
        // An attribute of no length is the end, not the same again.
        body[8] = 0;
        assert_eq!(address(&body, &links), None);
    }
}
