//! `nonic demo cm`: a connector (the initiator) and a listener (the target), joined by the RDMA connection manager.

pub(super) mod connect;
mod connection;
mod end;
mod peer;
mod refuse;
mod resolve;
mod transfer;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::rc::Rc;

pub(crate) use peer::{PeerArguments, main as peer_main};

use super::exchange::Exchange;
use super::failure::{Failure, Outcome, ensure};
use super::peer::Role;
use super::step::Done;
use crate::library::LibraryFolder;
use crate::rdmacm::{Channel, Identifier, RdmacmError};

/// The steps, in order.
pub(super) const STEPS: [&str; 5] = ["resolve", "connect", "transfer", "refuse", "end"];

/// Bytes of private data in a request, a reply and a rejection of InfiniBand: what was said, and zeros behind.
const REQUEST_BYTES: usize = 56;
const REPLY_BYTES: usize = 196;
const REJECTION_BYTES: usize = 148;

/// Where the target listens.
const LOOPBACKS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Arguments of one of the two processes.
pub(super) fn complete<'a>(command: &'a mut Command, role: Role, folder: &LibraryFolder) -> &'a mut Command {
    let libraries = [folder.verbs_library(), folder.rdmacm_library()];
    command.arg("demo-cm-peer").arg(role.name()).args(libraries)
}

/// What a step has to work with.
pub(super) struct Stage {
    pub(super) channel: Rc<Channel>,
    /// Where the target listens; the first is the one of most steps.
    addresses: Vec<SocketAddr>,
    /// The target's listeners; the initiator has none.
    listeners: Vec<Rc<Identifier>>,
    /// The way to the other process beside the connection manager.
    pub(super) exchange: Exchange,
}

/// One side of a step.
type Part<T> = fn(&mut Stage) -> Outcome<T>;

/// Both sides of each step, in the order of [`STEPS`].
const PARTS: [(Part<Done>, Part<()>); STEPS.len()] = [
    (resolve::initiate, resolve::serve),
    (connect::initiate, connect::serve),
    (transfer::initiate, transfer::serve),
    (refuse::initiate, refuse::serve),
    (end::initiate, end::serve),
];

impl Stage {
    /// The target listens there, the initiator is told where.
    pub(super) fn settle(
        channel: Rc<Channel>,
        role: Role,
        mut exchange: Exchange,
        places: &[IpAddr],
    ) -> Result<Self, (Failure, Exchange)> {
        match listen_or_hear(&channel, role, &mut exchange, places) {
            Ok((addresses, listeners)) => Ok(Self { channel, addresses, listeners, exchange }),
            Err(failure) => Err((failure, exchange)),
        }
    }

    /// Where the target listens first of all.
    pub(super) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// The target's listener there.
    fn listener(&self) -> Outcome<Rc<Identifier>> {
        let first = self.listeners.first().cloned();
        first.ok_or_else(|| Failure::new("this process does not listen"))
    }

    /// An identifier that knows the way to that address.
    pub(super) fn resolve(&self, address: SocketAddr) -> Outcome<Rc<Identifier>> {
        let identifier = Identifier::new(&self.channel)?;
        identifier.resolve_address(address)?;
        identifier.resolve_route()?;
        Ok(identifier)
    }
}

/// The addresses, and the target's listeners there.
fn listen_or_hear(
    channel: &Rc<Channel>,
    role: Role,
    exchange: &mut Exchange,
    places: &[IpAddr],
) -> Outcome<(Vec<SocketAddr>, Vec<Rc<Identifier>>)> {
    if role == Role::Initiator {
        return Ok((exchange.hear()?, Vec::new()));
    }
    let listeners: Result<Vec<_>, _> =
        places.iter().map(|place| listen(channel, SocketAddr::new(*place, 0))).collect();
    let listeners = listeners?;
    let addresses: Outcome<Vec<_>> = listeners.iter().map(|listener| own_address(listener)).collect();
    let addresses = addresses?;
    exchange.tell(&addresses)?;
    Ok((addresses, listeners))
}

/// A listener on that address.
fn listen(channel: &Rc<Channel>, address: SocketAddr) -> Result<Rc<Identifier>, RdmacmError> {
    let listener = Identifier::new(channel)?;
    listener.bind(address)?;
    listener.listen()?;
    Ok(listener)
}

/// The address that a bound identifier has.
fn own_address(identifier: &Identifier) -> Outcome<SocketAddr> {
    let address = identifier.local_address().filter(|address| address.port() != 0);
    address.ok_or_else(|| Failure::new("a bound identifier has no address or no port"))
}

/// What the other side must see of private data: as many bytes as such a message has, zeros behind what was said.
fn check_private_data(found: &[u8], said: &[u8], length: usize) -> Outcome<()> {
    let right =
        found.len() == length && found.starts_with(said) && found[said.len()..].iter().all(|&byte| byte == 0);
    ensure(right, || {
        format!(
            "{} bytes of private data were sent, to be seen as {length}, and {found:02x?} came",
            said.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_have_their_length_and_zeros_behind_what_was_said() {
        let mut found = b"abc".to_vec();
        found.resize(REQUEST_BYTES, 0);
        assert!(check_private_data(&found, b"abc", REQUEST_BYTES).is_ok());
        assert!(check_private_data(&found[1..], b"abc", REQUEST_BYTES).is_err());
        assert!(check_private_data(&found, b"abd", REQUEST_BYTES).is_err());
        assert!(check_private_data(&found, b"abc", REPLY_BYTES).is_err());
        assert!(check_private_data(b"ab", b"abc", 2).is_err());
        found[REQUEST_BYTES - 1] = 1;
        assert!(check_private_data(&found, b"abc", REQUEST_BYTES).is_err());
    }
}
