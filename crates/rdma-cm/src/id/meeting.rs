//! Peers in other network namespaces of this host that are met in a folder: their addresses lead there through memory.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nonic_device::{AddressVector, Context, GlobalRoute};
use nonic_meeting::Namespace;
use nonic_sys::interface_addresses;
use nonic_wire_connection::{host_address, index_of, route_from, wildcard_of};

use super::resolving::{HOST_UNREACHABLE, NO_DEVICE, Nowhere};
use super::{Core, State, device_context};
use crate::ports::source_port;
use crate::wire::WireRoute;
use crate::{EventKind, Id, Parameters};

/// Packets within a host have no length of their own.
const MTU: u8 = 5;
/// And pass no router.
const HOP_LIMIT: u8 = 1;

/// The way from an address of this namespace to one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meeting {
    pub(super) namespace: Namespace,
    /// Of this side's address in the GID table.
    index: u32,
    source: [u8; 16],
    destination: [u8; 16],
}

impl Meeting {
    /// The way between two addresses, if the second is another namespace's that is met.
    pub(super) fn between(context: &Context, own: IpAddr, theirs: IpAddr) -> Option<Self> {
        let (source, destination) = (host_address(own), host_address(theirs).gid());
        let namespace = nonic_meeting::place()?.namespace_now(&destination)?;
        Some(Self { namespace, index: index_of(context, source)?, source: source.gid(), destination })
    }

    /// What queue pairs are told of it.
    pub(super) fn vector(&self) -> AddressVector {
        AddressVector::along(GlobalRoute {
            destination: self.destination,
            source_index: self.index as u8,
            flow_label: 0,
            hop_limit: HOP_LIMIT,
            traffic_class: 0,
        })
    }

    /// What programs read of it.
    pub(super) fn route(&self) -> WireRoute {
        let Self { source, destination, .. } = *self;
        WireRoute { source, destination, path_mtu: MTU, traffic_class: 0, hop_limit: HOP_LIMIT }
    }
}

impl Id {
    /// Whether an address is another namespace's that is met.
    pub(super) fn is_met(core: &Core, destination: IpAddr) -> bool {
        if core.options.within_host || device_context().is_err() {
            return false;
        }
        let gid = host_address(destination).gid();
        nonic_meeting::place().is_some_and(|place| place.namespace_now(&gid).is_some())
    }

    /// Takes the way from `given`, if that says where from, to an address of another namespace that is met.
    pub(super) fn lead_to_other(
        &self,
        core: &mut Core,
        given: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<(), Nowhere> {
        let context = device_context().map_err(|error| Nowhere::because(NO_DEVICE, &error))?;
        let own = match given.map(|source| source.ip()).filter(|ip| !ip.is_unspecified()) {
            Some(own) => own,
            None => near(destination).ok_or_else(|| {
                Nowhere::because(HOST_UNREACHABLE, &"no address of that family others could answer to")
            })?,
        };
        let found = Meeting::between(&context, own, destination.ip());
        let why = "the address is none of the device's, or the process behind the other has just ended";
        let meeting = found.ok_or_else(|| Nowhere::because(NO_DEVICE, &why))?;
        let port = match given.map(|source| source.port()) {
            Some(port) if port != 0 => port,
            _ => source_port(self.space()).map_err(|error| Nowhere::because(HOST_UNREACHABLE, &error))?,
        };
        core.source = Some(SocketAddr::new(own, port));
        core.destination = Some(destination);
        core.context = Some(Arc::clone(&context));
        core.meeting = Some(meeting);
        core.state = State::AddressResolved;
        self.push(core, EventKind::AddressResolved, 0, Parameters::None);
        Ok(())
    }
}

/// The address from which another namespace's is reached: by the kernel's routes, or any that others may know.
fn near(destination: SocketAddr) -> Option<IpAddr> {
    let ip = destination.ip();
    if let Ok(own) = route_from(wildcard_of(ip), destination)
        && !own.is_loopback()
    {
        return Some(own);
    }
    let mut own = interface_addresses().into_iter().filter(|found| !found.loopback);
    own.find(|found| found.address.is_ipv4() == ip.is_ipv4()).map(|found| found.address)
}
