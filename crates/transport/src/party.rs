//! This process as its peers meet it.

use std::io;
use std::sync::Arc;

use nonic_memory::{AdoptedMemory, Adopter, AdoptionPolicy, Arena, OwnMemory, SharedFiles};
use nonic_sys::{
    AsFd, Backing, BorrowedFd, EventFd, EventKind, FileIdentity, OwnedFd, Witness, file_identity, random_u64,
};

use nonic_trust::{Question, TrustedUsers};

use crate::calls::{CallNumber, Calls};
use crate::control::{Introduction, ProcessToken, Shown};
use crate::ring::Sleeper;
use crate::segment::Segment;
use crate::segment_copy::Settings;
pub(crate) use crate::tier::Tier;

/// What this process is and offers, shared by all its links.
#[derive(Debug)]
pub struct Party {
    /// Its name among processes.
    pub token: ProcessToken,
    /// Its segment.
    pub segment: Segment,
    /// Its registered memory.
    pub memory: OwnMemory,
    /// Private memory of the program that peers can map.
    pub adopter: Adopter,
    /// Files behind its regions.
    pub files: SharedFiles,
    /// Rung by peers, and by its own threads, to wake the agent.
    pub doorbell: EventFd,
    /// The same for the thread of the program that drives the device while it waits for a completion event.
    pub waiter_bell: EventFd,
    /// Which of its links peers call for.
    pub calls: Calls,
    /// The best tier it uses and offers.
    pub tier: Tier,
    /// Users whose processes see its memory without a proof.
    pub trusted_users: TrustedUsers,
    /// The file of adopted pages. Introducing oneself must not wait for an adoption under way, hence here, too.
    adopted_file: Option<(OwnedFd, FileIdentity)>,
    /// What tells this process's memory from all others.
    pub witness: Witness,
}

impl Party {
    /// A new party with one arena for each device. Memory of regions is adopted only where peers may map it; windows know no
    /// tiers. All parties of a process that register its memory share what is `adopted`.
    pub fn create(
        tier: Tier,
        adoption: AdoptionPolicy,
        adopted: Arc<AdoptedMemory>,
        arenas: Vec<Arc<Arena>>,
        trusted_users: TrustedUsers,
    ) -> io::Result<Self> {
        let segment = Segment::create()?;
        let memory = OwnMemory::new(segment.keys().view().clone(), arenas)?;
        let (adopter, adoption) = match tier {
            Tier::Mapped => (Adopter::of(adopted, adoption), adoption),
            Tier::Kernel | Tier::Ring => (Adopter::for_windows(adopted, adoption), AdoptionPolicy::Never),
        };
        let adopted_file = match adopter.file() {
            Some(file) => Some((file.try_clone_to_owned()?, file_identity(file)?)),
            None => None,
        };
        let has_file = adoption != AdoptionPolicy::Never && adopted_file.is_some();
        segment.publish_settings(Settings { tier, adoption, has_file });
        Ok(Self {
            token: ProcessToken([random_u64(), random_u64()]),
            segment,
            memory,
            adopter,
            files: SharedFiles::default(),
            doorbell: EventFd::new(EventKind::All, true)?,
            waiter_bell: EventFd::new(EventKind::All, false)?,
            calls: Calls::create()?,
            tier,
            trusted_users,
            adopted_file,
            witness: Witness::create()?,
        })
    }

    /// The file of adopted pages, and its identity.
    pub fn adopted_file(&self) -> Option<(BorrowedFd<'_>, FileIdentity)> {
        self.adopted_file.as_ref().map(|(file, identity)| (file.as_fd(), *identity))
    }

    /// Whether an area of this process shows its own file of adopted pages: also if only another party adopts.
    pub fn is_adopted(&self, backing: &Backing) -> bool {
        let Backing::SharedFile { device, inode, .. } = backing else { return false };
        self.adopter.memory().is_in((*device, *inode))
    }

    /// Wakes one of this process's own threads.
    pub(crate) fn wake(&self, sleeper: Sleeper) {
        match sleeper {
            Sleeper::Agent => self.doorbell.signal(),
            Sleeper::Waiter => self.waiter_bell.signal(),
        }
    }

    /// How this process introduces itself to anybody.
    pub(crate) fn introduction(&self, blocks: &[u32], question: Option<Question>) -> Introduction {
        Introduction { token: self.token, question, blocks: blocks.to_vec() }
    }

    /// What this process shows a peer that it trusts, which calls for its link by a number, and the descriptors that go with it.
    pub(crate) fn shown(&self, call: Option<CallNumber>) -> (Shown, Vec<BorrowedFd<'_>>) {
        let mut descriptors = vec![self.doorbell.as_fd(), self.waiter_bell.as_fd()];
        descriptors.extend(call.map(|_| self.calls.as_fd()));
        let (mut arenas, mut adopts) = (0, false);
        if self.tier > Tier::Ring {
            descriptors.push(self.segment.as_fd());
        }
        if self.tier == Tier::Mapped {
            descriptors.extend(self.memory.arenas().iter().map(|arena| arena.as_fd()));
            arenas = self.memory.arenas().len() as u32;
            adopts = self.adopted_file.is_some();
            descriptors.extend(self.adopted_file.iter().map(|(file, _)| file.as_fd()));
        }
        let shown = Shown {
            call,
            keys: self.tier > Tier::Ring,
            arenas,
            adopts,
            probe_address: self.witness.mark().address,
            probe_value: self.witness.mark().value,
        };
        (shown, descriptors)
    }
}
