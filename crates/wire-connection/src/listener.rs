//! Services for which requests of other hosts are taken: at one address, or at all that there are, also at those that come later.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use nonic_device::Context;
use nonic_roce::{Accepts, CallError, HostAddress, Naming};

use crate::sinks::Takes;
use crate::way::{host_address, index_of, ip_address};
use crate::wire::Wire;

/// At which addresses of this host requests are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAt {
    /// At one.
    Address(IpAddr),
    /// At all of these families that other hosts reach, also at those that come later.
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

    fn is_wildcard(self) -> bool {
        matches!(self, Self::Families { .. })
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

/// A service that requests are taken for.
pub(crate) struct Listened {
    service_id: u64,
    naming: Naming,
    meant: ListenAt,
    accepts: Accepts,
    taker: Arc<dyn Takes>,
    /// Where it is.
    at: Vec<HostAddress>,
}

/// A service that requests are taken for, until this is dropped.
#[derive(Debug)]
pub struct WireListener {
    wire: Weak<Wire>,
    number: u64,
}

impl Wire {
    /// Takes requests for a service from now on, which are named so or have no other listener. An address that cannot be opened is left out, and said in the log. Errors: `Listening` if
    /// somebody in this process does already.
    pub fn listen(
        &self,
        service_id: u64,
        naming: Naming,
        at: ListenAt,
        accepts: Accepts,
        taker: &Arc<dyn Takes>,
    ) -> Result<WireListener, CallError> {
        let taker = Arc::clone(taker);
        let listened = Listened { service_id, naming, meant: at, accepts, taker, at: Vec::new() };
        let number = self.with(|machine, _| {
            let number = machine.listened.last_key_value().map_or(0, |(last, _)| last + 1);
            machine.listened.insert(number, listened);
            number
        });
        let listener = WireListener { wire: self.downgrade(), number };
        if at.is_wildcard()
            && let Err(error) = self.watch_addresses()
        {
            tracing::info!(%error, "other hosts do not find listeners at addresses that come later");
        }
        // Once it is watched, so that none comes in between unseen.
        let is_known = match at {
            ListenAt::Address(ip) => index_of(self.context(), host_address(ip)).is_some(),
            ListenAt::Families { .. } => false,
        };
        if !is_known {
            self.context().look_for_addresses();
        }
        self.listen_at_all(number)?;
        Ok(listener)
    }

    /// Has listeners at wildcards be at addresses that have come.
    pub(crate) fn listen_at_new_addresses(&self) {
        self.context().look_for_addresses();
        let all: Vec<_> = self.with(|machine, _| {
            let wildcards = machine.listened.iter().filter(|(_, listened)| listened.meant.is_wildcard());
            wildcards.map(|(number, _)| *number).collect()
        });
        for number in all {
            if let Err(error) = self.listen_at_all(number) {
                tracing::info!(?error, "other hosts find no listener at an address that has come");
            }
        }
    }

    /// Has a listener be wherever it is to be, and is not.
    fn listen_at_all(&self, number: u64) -> Result<(), CallError> {
        for (index, address) in addresses(self.context()) {
            let own = ip_address(address);
            let is_wanted = self.with(|machine, _| {
                let listened = machine.listened.get(&number)?;
                let is_missing = listened.meant.means(own) && !listened.at.contains(&address);
                Some((is_missing, listened.meant.is_wildcard()))
            });
            let Some((true, is_wildcard)) = is_wanted else { continue };
            if let Err(error) = self.open(index) {
                // Who asks for all addresses gets those that there are.
                if is_wildcard {
                    tracing::info!(address = %own, %error, "other hosts find no listener at the address");
                } else {
                    tracing::warn!(address = %own, %error, "other hosts find no listener at the address");
                }
                continue;
            }
            self.with(|machine, _| {
                // Another thread may have ended it meanwhile, or have done the same.
                let listened = machine.listened.get_mut(&number);
                let Some(listened) = listened.filter(|listened| !listened.at.contains(&address)) else {
                    return Ok(());
                };
                let (service_id, naming) = (listened.service_id, listened.naming);
                machine.manager.listen(service_id, naming, Some(address), listened.accepts)?;
                listened.at.push(address);
                machine.takers.insert((service_id, naming, address), Arc::clone(&listened.taker));
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Drop for WireListener {
    fn drop(&mut self) {
        let Some(wire) = self.wire.upgrade().filter(|wire| wire.context().is_current()) else { return };
        let _gone = wire.with(|machine, _| {
            let gone = machine.listened.remove(&self.number)?;
            for address in &gone.at {
                machine.manager.stop_listening(gone.service_id, gone.naming, Some(*address));
                machine.takers.remove(&(gone.service_id, gone.naming, *address));
            }
            Some(gone)
        });
    }
}
