//! Peers in other network namespaces of this host, which are met in a folder that both have: names there lead to them as abstract names do to
//! those of the own namespace, and everything behind that is the same.

use std::io;
use std::sync::Arc;

use nonic_meeting::{Namespace, Place};
use nonic_protocol::QpNumber;
use nonic_sys::{PacketSocket, Seldom};
use nonic_transport::{
    BLOCK_SIZE, GROUP_MAX, GroupAddress, GroupName, met_block_name, met_member, met_member_name,
};

use super::Engine;
use super::groups::Members;
use super::links::BlockListener;
use crate::config::Config;
use crate::port::gids_for_others;

static NOT_MET: Seldom = Seldom::new();

/// The place that the settings name. Where there can be none people are told, and peers are reached by the wire.
pub(super) fn join(config: &Config) -> Option<Arc<Place>> {
    let path = config.meet.as_ref()?;
    match nonic_meeting::join(path, &gids_for_others(config.devices)) {
        Ok(place) if place.path() == path => Some(place),
        Ok(place) => {
            tracing::warn!(folder = %path.display(), other = %place.path().display(), "a process meets others in one folder: in the first");
            Some(place)
        }
        Err(error) => {
            tracing::error!(
                folder = %path.display(), %error,
                "nobody is met in the folder of NONIC_MEET: it has to be there, and to let this user make folders in it"
            );
            None
        }
    }
}

impl Engine {
    /// Takes what comes for a block from other network namespaces, if they are met.
    pub(super) fn listen_for_others(&self, block: u32) -> Option<BlockListener> {
        let place = self.meeting.as_ref()?;
        match place.listen(&met_block_name(block)) {
            Ok(socket) => Some(BlockListener { socket, is_for_others: true }),
            Err(error) => {
                if let Some(unsaid) = NOT_MET.turn() {
                    tracing::error!(folder = %place.path().display(), %error, unsaid, "queue pairs are not met by other network namespaces");
                }
                None
            }
        }
    }

    /// Shows others that a queue pair is in a group.
    pub(super) fn show_member(&self, number: QpNumber, group: GroupAddress) {
        let Some(place) = &self.meeting else { return };
        if let Err(error) = place.show(&met_member_name(group, number))
            && let Some(unsaid) = NOT_MET.turn()
        {
            tracing::error!(folder = %place.path().display(), %error, unsaid, "what other network namespaces send to a group does not come");
        }
    }

    /// It is not any more.
    pub(super) fn hide_member(&self, number: QpNumber, group: GroupAddress) {
        if let Some(place) = &self.meeting {
            place.forget(&met_member_name(group, number));
        }
    }

    /// Where the queue pairs are that are attached to a group.
    pub(crate) fn members_of(&self, group: GroupName) -> Members {
        let is_own = |number: QpNumber| self.own_blocks().contains(&(number.0 / BLOCK_SIZE));
        self.groups.members(group, is_own, || {
            let Some(place) = &self.meeting else { return Vec::new() };
            let mut met = place.names(met_member(group));
            met.sort_unstable();
            met.dedup();
            met.truncate(GROUP_MAX);
            met
        })
    }

    /// Whether the owner of a number at an address is one who sends to groups by the folder, too.
    pub(super) fn sends_by_folder(&self, gid: &[u8; 16], number: QpNumber) -> bool {
        let Some(place) = &self.meeting else { return false };
        place.has_name(gid, &met_block_name(number.0 / BLOCK_SIZE))
    }

    /// Connects to the owner of a number in another namespace.
    pub(super) fn connect_to_other(
        &self,
        namespace: Namespace,
        number: QpNumber,
    ) -> io::Result<PacketSocket> {
        let place = self.meeting.as_ref().ok_or(io::ErrorKind::ConnectionRefused)?;
        place.connect(namespace, &met_block_name(number.0 / BLOCK_SIZE))
    }
}
