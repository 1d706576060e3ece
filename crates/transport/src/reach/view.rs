//! What a trusted peer lets this process see, taken and let go.

use std::io;
use std::sync::Arc;

use nonic_message::Descriptors;
use nonic_sys::{Mark, PeerMemory, Protection, SharedMapping, SharedMemory};

use super::Reach;
use crate::apertures::Apertures;
use crate::control::Shown;
use crate::link_record::{LinkRecord, Probe};
use crate::segment::SegmentView;
use crate::tier::Tier;

/// What a trusted peer lets this process see.
#[derive(Debug)]
pub struct PeerView {
    /// Its queue pairs and keys.
    pub segment: SegmentView,
    pub(super) arenas: Vec<SharedMapping>,
    pub(super) adopted: Option<Apertures>,
}

impl Reach {
    /// Takes the memory a trusted peer shows: its keys, and what follows them. What is mapped of it is shown in `record`. `pid` is
    /// the peer's process; the answer is whether the kernel lets this one at it.
    pub(crate) fn take_view(
        &self,
        shown: &Shown,
        descriptors: &mut Descriptors,
        pid: i32,
        record: Option<Arc<LinkRecord>>,
    ) -> io::Result<Probe> {
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
                adopted = Some(Apertures::new(file, record)?);
            }
        }
        let probe = self.probe(pid, Mark { address: shown.probe_address, value: shown.probe_value });
        if self.party.tier > Tier::Ring {
            let _ = self.view.set(PeerView { segment, arenas, adopted });
        }
        Ok(probe)
    }

    /// The same of this process itself, for a loopback.
    pub(crate) fn view_itself(&self) {
        let tier = self.party.tier;
        if tier == Tier::Ring {
            return;
        }
        let view = PeerView { segment: self.party.segment.view(), arenas: Vec::new(), adopted: None };
        let _ = self.view.set(view);
        let probe = self.probe(std::process::id() as i32, self.party.witness.mark());
        self.set_peer_ways(probe == Probe::Reached, true);
    }

    /// Tries whether the kernel lets this process into the memory of a trusted peer. (A stranger's could be a page that never
    /// comes.)
    fn probe(&self, pid: i32, mark: Mark) -> Probe {
        if self.party.tier < Tier::Kernel || pid <= 0 {
            return Probe::NotTried;
        }
        // A process of the same number in another pid namespace does not hold the random value.
        match PeerMemory::reach(pid, mark) {
            Ok(memory) => {
                let _ = self.peer_memory.set(memory);
                Probe::Reached
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Probe::OtherProcess,
            Err(error) => Probe::Refused(error.raw_os_error().unwrap_or_default() as u16),
        }
    }

    /// What the peer lets this process see, if it trusts it and has said so.
    #[inline]
    pub(crate) fn view(&self) -> Option<&PeerView> {
        self.view.get()
    }

    /// Whether a heavy fence of this process reaches the peer, as far as is known.
    pub(crate) fn fences_reach_peer(&self) -> bool {
        match self.view() {
            Some(view) => view.segment.light_fences(),
            None => self.is_loopback,
        }
    }

    /// Takes the file the peer was asked for, or that it cannot be had. The program behind a peer can shrink its own file, and
    /// using what is gone kills (`SIGBUS`): only from a peer that could kill this process anyway.
    pub(crate) fn take_file(&self, file: u32, memory: Option<SharedMemory>) {
        self.files.take(file, memory.and_then(|memory| memory.map(Protection::ReadWrite).ok()));
    }

    /// The peer needs no more of a file.
    pub(crate) fn forget_file(&self, file: u32) {
        self.files.forget(file);
    }

    /// Lets go of the peer's memory, while no operation of this process is inside and none can begin. Mappings stay where they
    /// are and hold zeros, for whoever still looks.
    pub(crate) fn let_go(&self) {
        if let Some(view) = self.view() {
            view.segment.let_go();
            for arena in &view.arenas {
                let _ = arena.let_go(Protection::Read);
            }
            if let Some(apertures) = &view.adopted {
                apertures.let_go();
            }
        }
        self.files.clear();
        if let Some(memory) = self.peer_memory.get() {
            memory.close();
        }
    }
}
