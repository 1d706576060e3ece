//! Whether the two sides of a link trust each other, and what follows: only who has proved that it may is shown memory, and
//! only of such a one anything is mapped, waited for or written to.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use nonic_sys::{Mark, OwnedFd, PeerMemory, Protection, SharedMemory};
use nonic_trust::{Answer, Challenge, Question, answer};

use super::{Link, PeerView};
use crate::channel::PeerBells;
use crate::control::{ControlMessage, Shown, ShownDescriptors};
use crate::link_record::{Answered, Probe, Standing};
use crate::party::Tier;
use crate::segment::SegmentView;
use crate::windows::Windows;

impl Link {
    /// Whether the peer has proved that it could reach this process's memory anyway, or people said that it may.
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.trusted.load(Ordering::SeqCst)
    }

    /// What the peer is to answer; nothing if its user is trusted by name.
    pub(super) fn ask(&self) -> Option<Question> {
        if self.party.trusted_users.contain(self.credentials.uid) {
            self.trust(Standing::Named);
            return None;
        }
        let challenge = Challenge::new(self.credentials);
        let question = challenge.question();
        *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = Some(challenge);
        Some(question)
    }

    /// Answers what the peer asked, if the kernel lets this process.
    pub(super) fn reply(&self, question: Option<Question>) -> Option<Answer> {
        let (question, peer) = question.zip(self.peer.as_ref())?;
        let answered = answer(&question, peer);
        let pid = self.credentials.pid;
        match &answered {
            Ok((_, route)) => tracing::debug!(pid, ?route, "a peer was shown that it can be reached"),
            Err(silence) => tracing::debug!(pid, %silence, "a peer cannot be shown that it can be reached"),
        }
        self.note(|facts| facts.answered = Answered::from(&answered));
        answered.ok().map(|(answer, _)| answer)
    }

    /// Takes the peer's answer. There is one, and a wrong one is a lie.
    pub(super) fn take_answer(&self, answer: &Answer) -> io::Result<()> {
        let challenge = self.challenge.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !challenge.is_some_and(|challenge| challenge.is_answered_by(answer)) {
            return Err(io::Error::other("an answer that is none"));
        }
        self.trust(Standing::Proved);
        Ok(())
    }

    fn trust(&self, standing: Standing) {
        self.trusted.store(true, Ordering::SeqCst);
        self.note(|facts| facts.standing = standing);
    }

    /// Shows a trusted peer this process's memory. The link is among the engine's: whoever takes memory back after this finds
    /// it there, and the peer cannot begin before.
    pub(super) fn show(&self) -> io::Result<()> {
        if !self.is_trusted() || self.shown.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let (shown, descriptors) = self.party.shown(self.channel.call_number());
        self.tell(&ControlMessage::Show(shown), &descriptors)
    }

    /// Takes what a trusted peer shows. Of a stranger nothing is taken: its bells could block whoever rings them, its memory
    /// fill this process's addresses, its tables send this process round in circles.
    pub(super) fn take_shown(&self, shown: &Shown, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        if !self.is_trusted() {
            tracing::debug!(pid = self.credentials.pid, "a stranger shows its memory; it is not looked at");
            return Ok(());
        }
        let mut descriptors = ShownDescriptors::new(descriptors);
        self.channel.take_bells(PeerBells::from_peer(&mut descriptors, shown.call)?)?;
        if !shown.keys {
            return Ok(());
        }
        let segment = SegmentView::from_peer(descriptors.take()?)?;
        let mut arenas = Vec::new();
        for _ in 0..shown.arenas {
            let arena = SharedMemory::from_peer_whole(descriptors.take()?)?;
            arenas.push(arena.map(Protection::ReadWrite)?);
        }
        let mut adopted = None;
        if shown.adopts {
            let file = descriptors.take()?;
            if self.party.tier == Tier::Mapped {
                adopted = Some(Windows::new(file, self.record.clone())?);
            }
        }
        self.probe(shown);
        if self.party.tier > Tier::Ring {
            let _ = self.view.set(PeerView { segment, arenas, adopted });
        }
        self.note(|facts| {
            facts.shown = self.view().is_some();
            facts.adopts = shown.adopts;
            facts.can_map = self.can_map();
        });
        self.tell_reach()
    }

    /// Tells the peer how this process can reach its memory, if it can.
    fn tell_reach(&self) -> io::Result<()> {
        // Without its keys nothing of it is touched.
        let (kernel, mapping) = (self.can_reach() && self.view().is_some(), self.can_map());
        if !kernel && !mapping {
            return Ok(());
        }
        self.tell(&ControlMessage::CanReach { kernel, mapping }, &[])
    }

    /// Tries whether the kernel lets this process into the memory of a trusted peer. (A stranger's could be a page that never
    /// comes.)
    pub(super) fn probe(&self, shown: &Shown) {
        if self.party.tier < Tier::Kernel || self.credentials.pid <= 0 {
            return;
        }
        let mark = Mark { address: shown.probe_address, value: shown.probe_value };
        // A process of the same number in another pid namespace does not hold the random value.
        let outcome = match PeerMemory::reach(self.credentials.pid, mark) {
            Ok(memory) => {
                let _ = self.peer_memory.set(memory);
                Probe::Reached
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Probe::OtherProcess,
            Err(error) => Probe::Refused(error.raw_os_error().unwrap_or_default() as u16),
        };
        self.note(|facts| facts.probe = outcome);
    }
}
