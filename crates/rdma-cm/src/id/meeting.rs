//! Peers in other network namespaces of this host that are met in a folder: their addresses lead there through memory.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nonic_wire_connection::{MetWay, near};

use super::resolving::{HOST_UNREACHABLE, NO_DEVICE, Nowhere};
use super::{Core, State, device_context};
use crate::ports::source_port;
use crate::{EventKind, Id, Parameters};

impl Id {
    /// Whether an address is another namespace's that is met.
    pub(super) fn is_met(core: &Core, destination: IpAddr) -> bool {
        !core.options.within_host && device_context().is_ok() && MetWay::leads_to(destination)
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
        let found = MetWay::between(&context, own, destination.ip());
        let why = "the address is none of the device's, or the process behind the other has just ended";
        let met = found.ok_or_else(|| Nowhere::because(NO_DEVICE, &why))?;
        let port = match given.map(|source| source.port()) {
            Some(port) if port != 0 => port,
            _ => source_port(core.ports).map_err(|error| Nowhere::because(HOST_UNREACHABLE, &error))?,
        };
        core.source = Some(SocketAddr::new(own, port));
        core.destination = Some(destination);
        core.context = Some(Arc::clone(&context));
        core.met = Some(met);
        core.state = State::AddressResolved;
        self.push(core, EventKind::AddressResolved, 0, Parameters::None);
        Ok(())
    }
}
