//! Multicast groups of queue pairs.

use std::io;
use std::sync::atomic::Ordering;

use nonic_protocol::{AddressVector, QpNumber, QpType};
use nonic_transport::{GroupAddress, GroupName};

use crate::queue_pair::QueuePair;

/// The LIDs that stand for groups (IBTA vol. 1, 4.1.3); the one behind them is the permissive LID.
const FIRST_LID: u16 = 0xc000;
const LAST_LID: u16 = 0xfffe;

/// The number of the queue pair that datagrams to a group are for.
pub(crate) const GROUP_NUMBER: QpNumber = QpNumber(QpNumber::MASK);

/// Why a queue pair is not attached to a group, or not detached.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// It does not receive datagrams.
    #[error("only queue pairs of unreliable datagrams are in multicast groups")]
    Transport,
    /// Not an address of a group.
    #[error("GID {gid:02x?} with LID {lid:#06x} is not a multicast group")]
    Address {
        /// The GID.
        gid: [u8; 16],
        /// The LID.
        lid: u16,
    },
    /// It is not attached to that.
    #[error("the queue pair is not in that group")]
    NotAttached,
    /// Other hosts cannot be reached by it.
    #[error("{reason}")]
    NotOnWire {
        /// Why.
        reason: String,
    },
    /// The kernel says why not.
    #[error("the group cannot be joined: {0}")]
    System(#[from] io::Error),
}

/// Whether a GID is that of a group: a multicast address of IPv6, or one of IPv4 as RoCE writes it.
fn is_group(gid: &[u8; 16]) -> bool {
    gid[0] == 0xff || gid[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] && gid[12] & 0xf0 == 0xe0
}

/// The group that a datagram's address leads to, if it does.
pub(crate) fn group_of(vector: &AddressVector) -> Option<GroupName> {
    match &vector.global {
        Some(route) => is_group(&route.destination).then_some(GroupName::Gid(route.destination)),
        None => (FIRST_LID..=LAST_LID)
            .contains(&vector.destination_lid)
            .then_some(GroupName::Lid(vector.destination_lid)),
    }
}

impl QueuePair {
    /// Has it receive what is sent to a group (`ibv_attach_mcast(3)`), whoever sends with its Q_Key, itself included. Again it has
    /// no effect. `lid` is 0xc000 to 0xfffe; on Ethernet it has no meaning.
    pub fn attach_multicast(&self, gid: [u8; 16], lid: u16) -> Result<(), GroupError> {
        let group = self.group(gid, lid)?;
        Ok(self.engine().attach_to_group(self.context().port_state(), self.number(), group)?)
    }

    /// Ends that (`ibv_detach_mcast(3)`).
    pub fn detach_multicast(&self, gid: [u8; 16], lid: u16) -> Result<(), GroupError> {
        let group = self.group(gid, lid)?;
        if self.engine().detach_from_group(self.number(), group) {
            Ok(())
        } else {
            Err(GroupError::NotAttached)
        }
    }

    /// From now on it does not receive what it sends itself to a group it is in (`IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`).
    pub fn skip_own_multicast(&self) {
        self.skips_own_multicast.store(true, Ordering::Relaxed);
    }

    fn group(&self, gid: [u8; 16], lid: u16) -> Result<GroupAddress, GroupError> {
        if self.transport() != QpType::UnreliableDatagram {
            return Err(GroupError::Transport);
        }
        let by_lid = !self.context().port().ethernet;
        if !is_group(&gid) || by_lid && !(FIRST_LID..=LAST_LID).contains(&lid) {
            return Err(GroupError::Address { gid, lid });
        }
        Ok(GroupAddress { gid, lid: if by_lid { lid } else { 0 } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multicast_addresses_of_both_families_are_groups_and_others_are_not() {
        let mapped = |first| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, first, 1, 2, 3];
        assert!(is_group(&[0xff; 16]) && is_group(&mapped(224)) && is_group(&mapped(239)));
        assert!(!is_group(&mapped(10)) && !is_group(&mapped(240)) && !is_group(&[0xfe; 16]));
    }
}
