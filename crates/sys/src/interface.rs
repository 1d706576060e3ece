//! The addresses of this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
}

/// All IP addresses of interfaces that are up, in the kernel's order; empty if they cannot be read.
pub fn interface_addresses() -> Vec<InterfaceAddress> {
    let mut found = Vec::new();
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `list` is a local; on success it holds a list that is walked and freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return found;
    }
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` is a member of the list `getifaddrs` returned, not yet freed.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        if entry.ifa_addr.is_null() || entry.ifa_flags & libc::IFF_UP as u32 == 0 {
            continue;
        }
        // SAFETY: `ifa_addr` is not null and begins with its family, which tells the structure's real type.
        let address = unsafe {
            match i32::from((*entry.ifa_addr).sa_family) {
                libc::AF_INET => {
                    let v4 = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
                    IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)))
                }
                libc::AF_INET6 => {
                    let v6 = &*entry.ifa_addr.cast::<libc::sockaddr_in6>();
                    IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr))
                }
                _ => continue,
            }
        };
        // SAFETY: `ifa_name` is a string of the list.
        let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
        // SAFETY: the same string; the call reads it only.
        let index = unsafe { libc::if_nametoindex(entry.ifa_name) };
        let loopback = entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0;
        found.push(InterfaceAddress { name: name.to_string_lossy().into_owned(), index, address, loopback });
    }
    // SAFETY: `list` came from `getifaddrs` and is freed once.
    unsafe { libc::freeifaddrs(list) };
    found
}
