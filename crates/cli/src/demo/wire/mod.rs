//! `nonic demo wire`: two processes in two networks, with a cable between them: everything goes by RoCEv2.

mod loss;
mod peer;

use std::process::Command;

pub(crate) use loss::lose;
pub(crate) use peer::{PeerArguments, main as peer_main};

use super::peer::Role;
use crate::library::LibraryFolder;

/// The steps, in order.
pub(super) const STEPS: [&str; 6] = ["connect", "two-sided", "one-sided", "atomics", "refusal", "loss"];

/// The end of the cable that a process is at.
pub(super) fn end_of(role: Role) -> usize {
    match role {
        Role::Initiator => 0,
        Role::Target => 1,
    }
}

/// Arguments of one of the two processes.
pub(super) fn complete<'a>(command: &'a mut Command, role: Role, folder: &LibraryFolder) -> &'a mut Command {
    let libraries = [folder.verbs_library(), folder.rdmacm_library()];
    command.arg("demo-wire-peer").arg(role.name()).args(libraries)
}
