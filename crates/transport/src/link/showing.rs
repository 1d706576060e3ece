//! What the two sides of a link show each other: only who is trusted is shown memory, and only of such a one anything is mapped,
//! waited for or written to.

use std::io;

use nonic_message::Descriptors;
use nonic_sys::OwnedFd;

use super::Link;
use crate::channel::PeerBells;
use crate::control::{ControlMessage, Shown};

impl Link {
    /// Shows a trusted peer this process's memory. The link is among the engine's: whoever takes memory back after this finds
    /// it there, and the peer cannot begin before.
    pub(super) fn show(&self) -> io::Result<()> {
        if !self.session.begin_to_show() {
            return Ok(());
        }
        let (shown, descriptors) = self.party.shown(self.channel.call_number());
        self.session.tell(&ControlMessage::Show(shown), &descriptors)
    }

    /// Takes what a trusted peer shows. Of a stranger nothing is taken: its bells could block whoever rings them, its memory
    /// fill this process's addresses, its tables send this process round in circles.
    pub(super) fn take_shown(&self, shown: &Shown, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let pid = self.credentials().pid;
        if !self.is_trusted() {
            tracing::debug!(pid, "a stranger shows its memory; it is not looked at");
            return Ok(());
        }
        let mut descriptors = Descriptors::new(descriptors);
        self.channel.take_bells(PeerBells::from_peer(&mut descriptors, shown.call)?)?;
        if !shown.keys {
            return Ok(());
        }
        let record = self.session.record().cloned();
        let probe = self.reach.take_view(shown, &mut descriptors, pid, record)?;
        let (is_seen, can_map) = (self.view().is_some(), self.can_map());
        self.session.note(|facts| {
            facts.probe = probe;
            facts.shown = is_seen;
            facts.adopts = shown.adopts;
            facts.can_map = can_map;
        });
        // Without its keys nothing of it is touched.
        let kernel = self.can_reach() && is_seen;
        if !kernel && !can_map {
            return Ok(());
        }
        self.session.tell(&ControlMessage::CanReach { kernel, mapping: can_map }, &[])
    }
}
