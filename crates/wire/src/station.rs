//! An address of this host on the wire.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nonic_roce::{Envelope, HostAddress, PORT, PathMtu};
use nonic_sys::{AsFd, BorrowedFd, DatagramRoute, RunSent, Seldom, WireSocket};

use crate::losses::Losses;

/// Bytes that stand in a packet of IP beside its payload at most: headers of IP without options, UDP, base and the longest extension
/// headers of a packet with payload, and the check.
const HEADERS: u32 = 80;

/// Where a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The address.
    pub address: HostAddress,
    /// The interface that has it; tells link-local addresses apart.
    pub interface: u32,
}

/// Why there is no station.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another user's processes share the port, or somebody has it alone.
    #[error(
        "UDP port {PORT} of {address} is taken by another user, or by a program that does not share it: RoCEv2 has no other port, \
         so give each user an address of his own"
    )]
    Taken {
        /// The address.
        address: IpAddr,
    },
    /// The kernel refuses.
    #[error("no socket for UDP port {PORT} of {address}: {error}")]
    Refused {
        /// The address.
        address: IpAddr,
        /// Why.
        error: io::Error,
    },
}

/// An address of this host on the wire, or of a group that it has joined: a socket bound to it.
#[derive(Debug)]
pub struct Station {
    pub(crate) location: Location,
    socket: WireSocket,
    /// Whether several datagrams may be sent in one call: not every interface can.
    sends_runs: AtomicBool,
    losses: Arc<Losses>,
}

static UNSENT: Seldom = Seldom::new();

impl Station {
    pub(crate) fn open(location: Location, losses: &Arc<Losses>) -> Result<Arc<Self>, OpenError> {
        let at = socket_address(location.address, location.interface);
        let address = at.ip();
        let socket = WireSocket::bind(at).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => OpenError::Taken { address },
            _ => OpenError::Refused { address, error },
        })?;
        if let Err(error) = socket.send_to_groups_by(location.interface) {
            tracing::debug!(%address, %error, "what is sent to groups goes by the kernel's routes");
        }
        Ok(Arc::new(Self { location, socket, sends_runs: AtomicBool::new(true), losses: Arc::clone(losses) }))
    }

    /// Joins a group on an interface: what comes to it there comes to this.
    pub(crate) fn join(location: Location) -> Result<Arc<Self>, OpenError> {
        let group = socket_address(location.address, location.interface);
        let address = group.ip();
        let refused = |error| OpenError::Refused { address, error };
        let socket = WireSocket::join(group, location.interface).map_err(refused)?;
        Ok(Arc::new(Self { location, socket, sends_runs: AtomicBool::new(false), losses: Arc::default() }))
    }

    /// Its address.
    pub fn address(&self) -> HostAddress {
        self.location.address
    }

    /// Whether its address is that of a group, from which nothing is sent.
    pub fn is_group(&self) -> bool {
        self.location.address.is_group()
    }

    /// Whether the packet that would be sent now is lost.
    pub(crate) fn loses_one(&self) -> bool {
        self.losses.take_one()
    }

    pub(crate) fn sends_runs(&self) -> bool {
        self.sends_runs.load(Ordering::Relaxed)
    }

    pub(crate) fn socket(&self) -> &WireSocket {
        &self.socket
    }

    /// Sends a run; false if there is no room. One that the kernel does not send is lost, as on any wire.
    pub(crate) fn send(&self, route: &Route, bytes: &[u8], segment: usize) -> bool {
        match self.socket.send(&route.datagram_route(self.location.interface), bytes, segment) {
            RunSent::Sent => {}
            RunSent::NoRoom => return false,
            // What was in the run comes again, one by one.
            RunSent::NoRuns => self.sends_runs.store(false, Ordering::Relaxed),
            RunSent::Refused(error) => {
                if let Some(unsaid) = UNSENT.turn() {
                    let to = ip_address(route.to);
                    tracing::warn!(%to, %error, bytes = segment, unsaid, "packets are not sent");
                }
            }
        }
        true
    }
}

impl AsFd for Station {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The way from a station to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The other host.
    pub to: HostAddress,
    /// Traffic class; by IPv4 the type of service.
    pub traffic_class: u8,
    /// Hop limit; by IPv4 the time to live.
    pub hop_limit: u8,
}

impl Route {
    fn datagram_route(&self, interface: u32) -> DatagramRoute {
        let to = socket_address(self.to, interface);
        DatagramRoute { to, traffic_class: self.traffic_class, hop_limit: self.hop_limit }
    }

    /// The largest path MTU that a station has on this way, by what its interface, or a router that said so, carries.
    pub fn path_mtu(&self, from: &Station) -> io::Result<Option<PathMtu>> {
        let interface = from.location.interface;
        let carried = WireSocket::path_mtu(socket_address(self.to, interface), interface)?;
        Ok(largest_mtu(carried))
    }
}

/// The largest path MTU where packets of so many bytes are carried, the header of IP included.
pub fn largest_mtu(carried: u32) -> Option<PathMtu> {
    (1..=5).rev().filter_map(PathMtu::from_number).find(|mtu| mtu.bytes() + HEADERS <= carried)
}

/// The headers before a packet between two hosts, which is the number `index` of a run: by IPv4 the kernel numbers the datagrams of
/// one from 0 on, and a single one, which may not be divided, has the number 0 (`inet_gso_segment`, `ip_select_ident`).
pub(crate) fn envelope(
    from: HostAddress,
    to: HostAddress,
    source_port: u16,
    index: usize,
) -> Option<Envelope> {
    let mut envelope = Envelope { source_port, ..Envelope::between(from, to, 0)? };
    if let nonic_roce::Route::V4 { identification, .. } = &mut envelope.route {
        *identification = index as u16;
    }
    Some(envelope)
}

pub(crate) fn ip_address(address: HostAddress) -> IpAddr {
    match address {
        HostAddress::V4(bytes) => Ipv4Addr::from(bytes).into(),
        HostAddress::V6(bytes) => Ipv6Addr::from(bytes).into(),
    }
}

pub(crate) fn host_address(address: IpAddr) -> HostAddress {
    match address {
        IpAddr::V4(address) => HostAddress::V4(address.octets()),
        IpAddr::V6(address) => HostAddress::V6(address.octets()),
    }
}

fn socket_address(address: HostAddress, interface: u32) -> SocketAddr {
    match ip_address(address) {
        IpAddr::V6(v6) => {
            // Scopes of groups: of an interface, of a link (RFC 4291, 2.7).
            let [first, second, ..] = v6.octets();
            let is_of_link = first == 0xff && matches!(second & 0xf, 1 | 2);
            let scope = if v6.is_unicast_link_local() || is_of_link { interface } else { 0 };
            SocketAddrV6::new(v6, PORT, 0, scope).into()
        }
        v4 => SocketAddr::new(v4, PORT),
    }
}

/// Bytes of a datagram at most, with all its headers and the check.
pub fn most_bytes(mtu: PathMtu) -> usize {
    (mtu.bytes() + HEADERS) as usize
}
