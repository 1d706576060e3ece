//! Who hands packets to this process: from the moment it connects until it has proved that it may.

use nonic_sys::PacketSocket;
use nonic_trust::TrustedUsers;

use super::send;
use crate::proof::Doubt;

/// A process that hands packets to this one.
#[derive(Debug)]
pub(super) struct Giver {
    pub(super) number: u64,
    pub(super) socket: PacketSocket,
    stage: Stage,
}

/// How far a process is that wants to hand packets to this one.
#[derive(Debug)]
enum Stage {
    /// It has to ask first.
    Came(Doubt),
    /// It has to prove that it may.
    Asked(Doubt),
    Known,
}

impl Giver {
    pub(super) fn new(number: u64, socket: PacketSocket, doubt: Doubt) -> Self {
        Self { number, socket, stage: Stage::Came(doubt) }
    }

    /// Whether it has proved that it may.
    pub(super) fn is_known(&self) -> bool {
        matches!(self.stage, Stage::Known)
    }

    /// It says something before it has proved that it may; whether it is heard further.
    pub(super) fn hear(&mut self, word: &[u8], trusted: &TrustedUsers) -> bool {
        let (stage, stays) = match std::mem::replace(&mut self.stage, Stage::Known) {
            Stage::Came(doubt) => {
                let stays = doubt.reply(word).is_some_and(|reply| send(&self.socket, &reply));
                (Stage::Asked(doubt), stays)
            }
            Stage::Asked(doubt) if !doubt.is_settled_by(word, trusted) => (Stage::Asked(doubt), false),
            Stage::Asked(_) | Stage::Known => (Stage::Known, true),
        };
        self.stage = stage;
        stays
    }
}
