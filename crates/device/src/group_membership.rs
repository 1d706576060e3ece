//! That a program has joined a multicast group by an address of its host.

use std::sync::Arc;

use nonic_wire::Location;

use crate::context::Context;
use crate::multicast::GroupError;
use crate::wire_address::location_of;

/// A group that was joined on the network of an address of this host, until this is dropped. Queue pairs that are attached to it
/// ([`crate::QueuePair::attach_multicast`]) receive what other hosts there send, and what they send from the address goes there.
#[derive(Debug)]
pub struct GroupMembership {
    context: Arc<Context>,
    gid: [u8; 16],
    from: Location,
    receives: bool,
}

impl Context {
    /// Whether other hosts may be talked with.
    pub fn may_use_wire(&self) -> bool {
        self.engine_owner().may_use_wire()
    }

    /// Joins a group on the network of the address at an index of the GID table: opens the UDP socket of RoCEv2 there, and if it
    /// `receives`, has the kernel join the group of IP that the GID is (IGMP, MLD). Within the host members need no such thing.
    pub fn join_group(
        self: &Arc<Self>,
        index: u32,
        gid: [u8; 16],
        receives: bool,
    ) -> Result<GroupMembership, GroupError> {
        let owner = self.engine_owner();
        let no = |reason: String| GroupError::NotOnWire { reason };
        if !owner.may_use_wire() {
            return Err(no("NONIC_WIRE=off: no other host is talked with".to_owned()));
        }
        owner.ensure_agent().map_err(|_| no("no thread can be started that takes what comes".to_owned()))?;
        let entry = self.port_state().gid_entry(index);
        let from = entry.as_ref().and_then(location_of);
        let from = from.ok_or_else(|| no(format!("entry {index} of the GID table is no address")))?;
        owner.join_on_wire(gid, from, receives).map_err(no)?;
        Ok(GroupMembership { context: Arc::clone(self), gid, from, receives })
    }
}

impl Drop for GroupMembership {
    fn drop(&mut self) {
        // A child has none of its parent's sockets.
        if self.context.is_current() {
            self.context.engine().leave_on_wire(self.gid, self.from, self.receives);
        }
    }
}
