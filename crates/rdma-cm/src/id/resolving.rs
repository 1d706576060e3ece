//! Finding the way to an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nonic_sys::{interface_addresses, is_own_address};
use nonic_wire_connection::{NoWay, Wire, ip_address, route_from, wildcard_of};

use super::{Core, device_context};
use crate::address::{canonical, check_own, check_route, meant};
use crate::ports::source_port;
use crate::wire::roce_space;
use crate::{Error, EventKind, GidAddress, Id, Named, Parameters, State};

/// Status of ADDR_ERROR for an address that no wire leads to.
pub(super) const HOST_UNREACHABLE: i32 = -113;
/// Status of ADDR_ERROR where the device does not have the address that the way begins at.
pub(super) const NO_DEVICE: i32 = -19;

/// Why there is no way to another host.
#[derive(Debug)]
pub(super) struct Nowhere {
    status: i32,
    why: String,
}

impl Nowhere {
    pub(super) fn because(status: i32, why: &dyn std::fmt::Display) -> Self {
        Self { status, why: why.to_string() }
    }
}

impl Id {
    /// Finds the device that leads to an address (`rdma_resolve_addr(3)`): ADDR_RESOLVED, or ADDR_ERROR: -EHOSTUNREACH
    /// if the address is another host's and the wire is forbidden or closed, -ENODEV if the device does not have the address from which
    /// it is reached. Nobody is asked whether the other host is there, so `_timeout` has no effect.
    ///
    /// Errors: `State` unless IDLE or ADDR_BOUND, `Argument` for two families, `AddressNotOwn` for the source, `Unreachable`.
    pub fn resolve_address(
        self: &Arc<Self>,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        _timeout: Duration,
    ) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Idle, State::AddressBound])?;
        self.resolve_in(&mut core, source.map(Named::Ip), destination)
    }

    /// The same between addresses of either family, which is the identifier's from now on. Of a peer that is named by a GID any service may be
    /// asked for. Errors: also `Argument` for an identifier that is bound to an address of the other family, and `ForeignService` for the
    /// source, or in a space whose ports are no services.
    pub fn resolve_named(
        self: &Arc<Self>,
        source: Option<Named>,
        destination: Named,
        _timeout: Duration,
    ) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Idle, State::AddressBound])?;
        let (before, by_gid) = (self.is_by_gid(), destination.is_by_gid());
        let own_family = if core.state == State::Idle { source.map(Named::is_by_gid) } else { Some(before) };
        if own_family.is_some_and(|own| own != by_gid) {
            return Err(Error::Argument("source and destination are of two families"));
        }
        let ports = match (core.state, source, destination) {
            (State::Idle, Some(own), _) => self.ports_of(own)?,
            // Any of them.
            (State::Idle, None, Named::Gid(peer)) => {
                self.ports_of(Named::Gid(GidAddress { service: 0, mask: 0, ..peer }))?
            }
            _ => core.ports,
        };
        let service = match destination {
            Named::Gid(peer) => Some(peer.service),
            Named::Ip(_) => None,
        };
        // What comes of it may be read by another thread at once.
        let kept = (core.ports, core.service);
        (core.ports, core.service) = (ports, service);
        self.name_by_gid(by_gid);
        let begun = self.resolve_in(&mut core, source, destination.peers());
        if begun.is_err() {
            core.service = kept.1;
            // What it is bound to by now, it is bound to.
            if core.source.is_none() {
                core.ports = kept.0;
                self.name_by_gid(before);
            }
        }
        begun
    }

    fn resolve_in(
        &self,
        core: &mut Core,
        named: Option<Named>,
        destination: SocketAddr,
    ) -> Result<(), Error> {
        let destination = canonical(meant(destination));
        let source = named.map(|source| canonical(source.own()));
        let ends = if core.state == State::Idle { source } else { core.source };
        if ends
            .is_some_and(|source| source.is_ipv4() != destination.is_ipv4() && !source.ip().is_unspecified())
        {
            return Err(Error::Argument("source and destination are of two families"));
        }
        let to_group = destination.ip().is_multicast();
        if ends.is_some_and(|source| source.ip().is_loopback())
            && !destination.ip().is_loopback()
            && !to_group
        {
            return Err(Error::Argument("from a loopback address there is no way to another"));
        }
        let is_here = to_group || is_own_address(destination.ip());
        let is_met = !is_here && Self::is_met(core, destination.ip());
        if !is_here && !is_met {
            check_route(destination)?;
        }
        if core.state == State::Idle
            && let (Some(named), Some(source)) = (named, source)
        {
            if source.port() == 0 {
                check_own(source)?;
            } else {
                self.bind_in(core, named)?;
            }
        }
        let given = core.source.or(source);
        core.state = State::AddressBound;
        if is_here {
            return self.lead(core, given, destination);
        }
        let led = if is_met {
            self.lead_to_other(core, given, destination)
        } else {
            self.lead_out(core, given, destination)
        };
        match led {
            Ok(()) => Ok(()),
            Err(Nowhere { status, why }) => {
                tracing::info!(%destination, why, "no way leads to the address");
                self.push(core, EventKind::AddressError, status, Parameters::None);
                Ok(())
            }
        }
    }

    /// Takes the way from `given`, if that says where from, to an address of another host.
    fn lead_out(
        &self,
        core: &mut Core,
        given: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<(), Nowhere> {
        let context = device_context().map_err(|error| Nowhere::because(NO_DEVICE, &error))?;
        if roce_space(self.space()).is_none() || core.options.within_host {
            return Err(Nowhere::because(HOST_UNREACHABLE, &"there are no such ports on other hosts"));
        }
        let wire = Wire::get().map_err(|error| Nowhere::because(HOST_UNREACHABLE, &error))?;
        let from = given.map(|source| source.ip());
        let way = wire.find_way(from, destination, core.options.type_of_service);
        let way = way.map_err(|error| {
            let not_here = matches!(error, NoWay::NotInTable(_));
            Nowhere::because(if not_here { NO_DEVICE } else { HOST_UNREACHABLE }, &error)
        })?;
        let port = match given.map(|source| source.port()) {
            Some(port) if port != 0 => port,
            _ => source_port(core.ports).map_err(|error| Nowhere::because(HOST_UNREACHABLE, &error))?,
        };
        core.source = Some(SocketAddr::new(ip_address(way.ends.local), port));
        core.destination = Some(destination);
        core.context = Some(context);
        core.way = Some(way);
        core.state = State::AddressResolved;
        self.push(core, EventKind::AddressResolved, 0, Parameters::None);
        Ok(())
    }

    /// Takes the way from `given`, if that says where from, to an address of this host.
    fn lead(&self, core: &mut Core, given: Option<SocketAddr>, destination: SocketAddr) -> Result<(), Error> {
        let context = device_context()?;
        let port = match given.map(|source| source.port()) {
            Some(port) if port != 0 => port,
            _ => source_port(core.ports)?,
        };
        let ip = match given.map(|source| source.ip()) {
            Some(ip) if !ip.is_unspecified() => ip,
            _ => near(destination.ip()),
        };
        core.source = Some(SocketAddr::new(ip, port));
        core.destination = Some(destination);
        core.context = Some(context);
        core.state = State::AddressResolved;
        self.push(core, EventKind::AddressResolved, 0, Parameters::None);
        Ok(())
    }

    /// Finds a route (`rdma_resolve_route(3)`): ROUTE_RESOLVED. Errors: `State` unless ADDR_RESOLVED, `Argument` for no time.
    pub fn resolve_route(self: &Arc<Self>, timeout: Duration) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::AddressResolved])?;
        if timeout.is_zero() {
            return Err(Error::Argument("a route cannot be resolved in no time"));
        }
        core.state = State::RouteResolved;
        self.push(&core, EventKind::RouteResolved, 0, Parameters::None);
        Ok(())
    }
}

/// The address from which one of this host, or a group, is reached.
fn near(destination: IpAddr) -> IpAddr {
    match destination {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        group if group.is_multicast() => {
            if let Ok(own) = route_from(wildcard_of(group), SocketAddr::new(group, 0)) {
                return own;
            }
            let own = interface_addresses().into_iter().map(|found| found.address);
            let of_family = own.filter(|address| address.is_ipv4() == group.is_ipv4());
            // Those of loopback are last in importance: others may see the address.
            of_family.min_by_key(|address| address.is_loopback()).unwrap_or(wildcard_of(group))
        }
        own => own,
    }
}
