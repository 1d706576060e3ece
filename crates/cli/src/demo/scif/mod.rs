//! `nonic demo scif`: a host (node 0, the initiator) and a card (node 1, the target), joined by two endpoints.

mod connection;
mod fence;
mod map;
mod peer;
mod window;
mod write;

use std::path::Path;
use std::process::Command;

pub(crate) use peer::{PeerArguments, main as peer_main};

use super::exchange::Exchange;
use super::failure::Outcome;
use super::peer::Role;
use super::step::Done;
use crate::scif::Endpoint;

/// The steps, in order.
pub(super) const STEPS: [&str; 5] = ["connection", "window", "remote-write", "remote-map", "fence"];

/// Arguments and settings of one of the two processes.
pub(super) fn complete<'a>(command: &'a mut Command, role: Role, library: &Path) -> &'a mut Command {
    command.arg("demo-scif-peer").arg(role.name()).arg(library);
    // A fabric of the demo's own, so that nobody's ports are in the way.
    command.env("NONIC_SCIF_FABRIC", format!("demo-{}", std::process::id()));
    command.env("NONIC_SCIF_NODE", node(role).to_string()).env("NONIC_SCIF_NODES", "0-1")
}

/// The node that a process is on.
fn node(role: Role) -> u16 {
    match role {
        Role::Initiator => 0,
        Role::Target => 1,
    }
}

/// What a step has to work with.
struct Stage {
    /// Connected to the other process.
    endpoint: Endpoint,
    /// The way to the other process beside SCIF.
    exchange: Exchange,
}

/// One side of a step.
type Part<T> = fn(&mut Stage) -> Outcome<T>;

/// Both sides of each step, in the order of [`STEPS`].
const PARTS: [(Part<Done>, Part<()>); STEPS.len()] = [
    (connection::initiate, connection::serve),
    (window::initiate, window::serve),
    (write::initiate, write::serve),
    (map::initiate, map::serve),
    (fence::initiate, fence::serve),
];
