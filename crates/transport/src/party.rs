//! This process as its peers meet it.

use std::io;
use std::sync::Arc;

use nonic_memory::{Adopter, AdoptionPolicy, Arena, OwnMemory, SharedFiles};
use nonic_sys::{
    AsFd, Backing, BorrowedFd, EventFd, EventKind, FileIdentity, OwnedFd, file_identity, random_u64,
};

use crate::control::{Introduction, ProcessToken};
use crate::segment::Segment;
use crate::segment_copy::Settings;

/// The best way bytes may take to a peer; each is a limit, never a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Through the ring only; the receiver places every byte.
    Ring,
    /// Also by the kernel (`process_vm_readv`, `process_vm_writev`).
    Kernel,
    /// Also by the CPU, in memory both have mapped.
    Mapped,
}

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
    /// The best tier it uses and offers.
    pub tier: Tier,
    /// Its effective user.
    uid: u32,
    /// The file of adopted pages. Introducing oneself must not wait for an adoption under way, hence here, too.
    adopted_file: Option<(OwnedFd, FileIdentity)>,
    probe: Box<u64>,
}

impl Party {
    /// A new party with one arena for each device. Memory is adopted for peers only where they may map it.
    pub fn create(tier: Tier, adoption: AdoptionPolicy, arenas: Vec<Arc<Arena>>) -> io::Result<Self> {
        let adoption = if tier == Tier::Mapped { adoption } else { AdoptionPolicy::Never };
        let segment = Segment::create()?;
        let memory = OwnMemory::new(segment.keys().view().clone(), arenas)?;
        let adopter = Adopter::new(adoption);
        let adopted_file = match adopter.file() {
            Some(file) => Some((file.try_clone_to_owned()?, file_identity(file)?)),
            None => None,
        };
        segment.publish_settings(Settings { tier, adoption, has_file: adopted_file.is_some() });
        Ok(Self {
            token: ProcessToken([random_u64(), random_u64()]),
            segment,
            memory,
            adopter,
            files: SharedFiles::default(),
            doorbell: EventFd::new(EventKind::All, true)?,
            waiter_bell: EventFd::new(EventKind::All, false)?,
            tier,
            uid: nonic_sys::effective_user(),
            adopted_file,
            probe: Box::new(random_u64()),
        })
    }

    /// The file of adopted pages, and its identity.
    pub fn adopted_file(&self) -> Option<(BorrowedFd<'_>, FileIdentity)> {
        self.adopted_file.as_ref().map(|(file, identity)| (file.as_fd(), *identity))
    }

    /// Whether an area of this process shows its own file of adopted pages.
    pub fn is_adopted(&self, backing: &Backing) -> bool {
        let Backing::SharedFile { device, inode, .. } = backing else { return false };
        self.adopted_file.as_ref().is_some_and(|(_, identity)| *identity == (*device, *inode))
    }

    /// Whether a peer of user `uid` could trace this process anyway: there is nothing to protect from it.
    pub(crate) fn could_trace(&self, uid: u32) -> bool {
        uid == self.uid || uid == 0
    }

    /// Whether a peer of user `uid` may see keys and map memory.
    pub(crate) fn trusts(&self, uid: u32) -> bool {
        self.tier > Tier::Ring && self.could_trace(uid)
    }

    /// How this process introduces itself to a peer it trusts or not, and the descriptors that go with it.
    pub(crate) fn introduce(&self, trusts: bool, blocks: &[u32]) -> (Introduction, Vec<BorrowedFd<'_>>) {
        let mut descriptors = vec![self.doorbell.as_fd(), self.waiter_bell.as_fd()];
        let (mut arenas, mut adopts) = (0, false);
        if trusts {
            descriptors.push(self.segment.as_fd());
            if self.tier == Tier::Mapped {
                descriptors.extend(self.memory.arenas().iter().map(|arena| arena.as_fd()));
                arenas = self.memory.arenas().len() as u32;
                adopts = self.adopted_file.is_some();
                descriptors.extend(self.adopted_file.iter().map(|(file, _)| file.as_fd()));
            }
        }
        let introduction = Introduction {
            token: self.token,
            trusts,
            arenas,
            adopts,
            probe_address: &raw const *self.probe as u64,
            probe_value: *self.probe,
            blocks: blocks.to_vec(),
        };
        (introduction, descriptors)
    }
}
