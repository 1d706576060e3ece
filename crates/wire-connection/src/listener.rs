//! Taking requests of other hosts.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use nonic_device::Context;
use nonic_roce::{Accepts, CallError, HostAddress};

use crate::machine::Place;
use crate::sinks::Takes;
use crate::way::ip_address;
use crate::wire::Wire;

/// At which addresses of this host requests are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAt {
    /// At one.
    Address(IpAddr),
    /// At all of these families that other hosts reach and that there are at that time.
    Families {
        /// IPv4.
        four: bool,
        /// IPv6.
        six: bool,
    },
}

impl ListenAt {
    fn means(self, own: IpAddr) -> bool {
        match self {
            Self::Address(address) => own == address,
            Self::Families { four, six } => !own.is_loopback() && if own.is_ipv4() { four } else { six },
        }
    }
}

/// The addresses of interfaces in a GID table, each with its index.
fn addresses(context: &Context) -> Vec<(u32, HostAddress)> {
    let table = context.gid_table();
    let of_interfaces = table.iter().filter(|entry| entry.interface_index != 0);
    of_interfaces.map(|entry| (entry.index, HostAddress::of_gid(entry.gid))).collect()
}

/// Whether this host has an address that others reach.
pub fn is_reached(context: &Context) -> bool {
    addresses(context).iter().any(|(_, address)| !ip_address(*address).is_loopback())
}

/// A service that requests are taken for, until this is dropped.
#[derive(Debug)]
pub struct WireListener {
    wire: Weak<Wire>,
    places: Vec<Place>,
}

impl Wire {
    /// Takes requests for a service from now on. An address that cannot be opened is left out, and said in the log. Errors: `Listening` if
    /// somebody in this process does already.
    pub fn listen(
        &self,
        service_id: u64,
        at: ListenAt,
        accepts: Accepts,
        taker: &Arc<dyn Takes>,
    ) -> Result<WireListener, CallError> {
        let mut listener = WireListener { wire: self.downgrade(), places: Vec::new() };
        for (index, address) in addresses(self.context()) {
            let place = (service_id, address);
            if !at.means(ip_address(address)) || listener.places.contains(&place) {
                continue;
            }
            if let Err(error) = self.open(index) {
                let own = ip_address(address);
                // Who asks for all addresses gets those that there are.
                match at {
                    ListenAt::Families { .. } => {
                        tracing::info!(address = %own, %error, "other hosts find no listener at the address");
                    }
                    ListenAt::Address(_) => {
                        tracing::warn!(address = %own, %error, "other hosts find no listener at the address");
                    }
                }
                continue;
            }
            self.take_at(place, accepts, taker)?;
            listener.places.push(place);
        }
        Ok(listener)
    }
}

impl Drop for WireListener {
    fn drop(&mut self) {
        if let Some(wire) = self.wire.upgrade() {
            wire.take_no_more(&self.places);
        }
    }
}
