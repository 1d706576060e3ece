//! Network namespaces that this process makes, two of which a cable joins (`network_namespaces(7)`, `veth(4)`).

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::route_socket::RouteSocket;

/// A network namespace, which is there as long as this, or a process or thread in it.
#[derive(Debug)]
pub struct NetworkNamespace {
    descriptor: File,
}

/// An end of a cable: the name of the interface, and its address, which is of a network of 256.
#[derive(Clone, Copy, Debug)]
pub struct CableEnd<'a> {
    /// The namespace.
    pub namespace: &'a NetworkNamespace,
    /// Name of the interface, at most 15 bytes.
    pub interface: &'a str,
    /// Its address.
    pub address: Ipv4Addr,
}

/// The number of users and groups that a user namespace has no number for.
const NOBODY: u32 = 65534;
/// What such a user or group is in a namespace of its own, where that number stands for everybody else, too.
const SOMEBODY: u32 = 1000;

/// Puts this process, which must have one thread, into a user namespace of its own, in which it may make and change networks. Its user and
/// group are the same there, but for those with the number of nobody, which are 1000. What it executes from there on may do no more than
/// before, unless it is root.
pub fn enter_own_user_namespace() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: descriptors stay shared by the threads of the process.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
    // Without this an ordinary user may not say which group is which (`user_namespaces(7)`).
    std::fs::write("/proc/self/setgroups", "deny")?;
    let line = |number| format!("{} {number} 1", if number == NOBODY { SOMEBODY } else { number });
    std::fs::write("/proc/self/uid_map", line(user))?;
    std::fs::write("/proc/self/gid_map", line(group))
}

impl NetworkNamespace {
    /// Makes a new one, with its loopback interface up, and puts the calling thread there.
    pub fn enter_new() -> io::Result<Self> {
        // SAFETY: descriptors stay shared by the threads of the process.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        let descriptor = File::open("/proc/thread-self/ns/net")?;
        RouteSocket::open()?.set_up("lo")?;
        Ok(Self { descriptor })
    }

    /// Puts the calling thread there, and what it starts from then on.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.descriptor.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}

/// Joins two namespaces by a pair of virtual Ethernet interfaces, up and ready, that carry packets of IP of up to `mtu` bytes. The calling
/// thread is in the namespace of `far` afterwards.
pub fn lay_cable(near: CableEnd<'_>, far: CableEnd<'_>, mtu: u32) -> io::Result<()> {
    near.namespace.enter()?;
    let elsewhere = far.namespace.descriptor.as_raw_fd();
    RouteSocket::open()?.make_cable(near.interface, far.interface, elsewhere, mtu)?;
    for end in [near, far] {
        end.namespace.enter()?;
        let mut socket = RouteSocket::open()?;
        socket.add_address(end.interface, end.address)?;
        socket.set_up(end.interface)?;
    }
    Ok(())
}
