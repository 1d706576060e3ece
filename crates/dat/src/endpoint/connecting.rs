//! Connecting and disconnecting.

use std::net::SocketAddr;

use super::{Core, Endpoint};

/// What an endpoint knows of its connection.
#[derive(Debug, Default)]
pub(crate) struct Connecting {}

impl Connecting {
    /// The local port, and address and connection qualifier of the peer while there is one.
    pub(crate) fn addresses(&self) -> (u64, Option<(SocketAddr, u64)>) {
        (0, None)
    }
}

/// The endpoint is reset: forgets the last connection.
pub(super) fn reset(core: &mut Core) {
    core.connecting = Connecting::default();
}

/// The endpoint goes: the connection ends, without an event here.
pub(super) fn end(endpoint: &Endpoint) {
    let _ = endpoint;
}

impl Endpoint {
    /// A receive is about to be shown before ESTABLISHED was.
    pub(crate) fn establish(&self) {}

    /// The queue pair has failed, or a failure is about to be shown.
    pub(crate) fn break_connection(&self) {}
}
