//! Groups of hosts (multicast: ip(7), ipv6(7), RFC 1112): a UDP socket that takes what is sent to one, and by which interface another sends.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use libc::c_int;

use crate::WireSocket;

/// `<linux/in.h>`, `<linux/in6.h>`, `<asm-generic/socket.h>`; not in the `libc` crate for every C library.
const IP_MULTICAST_ALL: c_int = 49;
const IPV6_MULTICAST_ALL: c_int = 29;
const SO_BINDTOIFINDEX: c_int = 62;

impl WireSocket {
    /// One that takes what is sent to a group, and to a port, and comes by an interface: the host joins the group there (IGMP, MLD), until
    /// the last such socket is closed. Anybody who asks for the same gets a copy of each datagram, processes of other users too.
    pub fn join(group: SocketAddr, interface: u32) -> io::Result<Self> {
        let socket = Self::open(group, libc::SO_REUSEADDR)?;
        // Of IPv6 the kernel looks at the group only and not by which interface a datagram came. Old kernels ask for a privilege.
        let _ = socket.set(libc::SOL_SOCKET, SO_BINDTOIFINDEX, interface as c_int);
        match group.ip() {
            // Nothing that only others of this host have joined.
            IpAddr::V4(_) => socket.set(libc::IPPROTO_IP, IP_MULTICAST_ALL, 0)?,
            IpAddr::V6(_) => drop(socket.set(libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)),
        }
        rustix::net::bind(&socket.fd, &group)?;
        match group.ip() {
            IpAddr::V4(four) => {
                let request = by_interface(four.octets(), interface);
                crate::set_any_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &request)?;
            }
            IpAddr::V6(six) => {
                // `struct ipv6_mreq`.
                let mut request = [0; 20];
                request[..16].copy_from_slice(&six.octets());
                request[16..].copy_from_slice(&interface.to_ne_bytes());
                crate::set_any_option(
                    socket.as_fd(),
                    libc::IPPROTO_IPV6,
                    libc::IPV6_ADD_MEMBERSHIP,
                    &request,
                )?;
            }
        }
        Ok(socket)
    }

    /// Has what it sends to groups go out by an interface, whatever the routes say, and not come back to this host.
    pub fn send_to_groups_by(&self, interface: u32) -> io::Result<()> {
        if self.is_v4() {
            send_by(self.as_fd(), true, interface)?;
            self.set(libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0)
        } else {
            send_by(self.as_fd(), false, interface)?;
            self.set(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, 0)
        }
    }

    /// Bytes of a packet of IP that go from here to there whole; to a group those that the interface carries.
    pub fn path_mtu(to: SocketAddr, interface: u32) -> io::Result<u32> {
        let socket = crate::open_datagram(to)?;
        if to.ip().is_multicast() {
            send_by(socket.as_fd(), to.is_ipv4(), interface)?;
        }
        rustix::net::connect(&socket, &to)?;
        let (level, name) = if to.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_MTU)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU)
        };
        let mut value = [0; 4];
        crate::any_option(socket.as_fd(), level, name, &mut value)?;
        Ok(u32::from_ne_bytes(value))
    }
}

fn send_by(socket: BorrowedFd<'_>, is_v4: bool, interface: u32) -> io::Result<()> {
    if is_v4 {
        let request = by_interface([0; 4], interface);
        crate::set_any_option(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
    } else {
        crate::set_any_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, &interface.to_ne_bytes())
    }
}

/// `struct ip_mreqn`.
fn by_interface(group: [u8; 4], interface: u32) -> [u8; 12] {
    let mut request = [0; 12];
    request[..4].copy_from_slice(&group);
    request[8..].copy_from_slice(&interface.to_ne_bytes());
    request
}
