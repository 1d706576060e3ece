//! Adoption: ordinary private memory of the program, moved in place into a file that peers can map.
//!
//! The file is sparse and as large as the address space, several times over: the page at virtual address A stands at
//! offset A of a *layer*. So neighbouring pages merge into one mapping, one descriptor serves every region, and a peer
//! finds a page from its address alone.

use std::fmt;

use nonic_sys::BorrowedFd;

/// Log2 of the bytes of a layer: the address space of a program.
pub const LAYER_BITS: u32 = 47;

/// Whole pages of this process that lie in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdoptedPages {
    /// Which layer of the file.
    pub layer: u16,
    /// First byte, a multiple of the page size.
    pub start: usize,
    /// One past the last byte, a multiple of the page size.
    pub end: usize,
}

impl AdoptedPages {
    /// Offset in the file of the byte at `address`, which lies inside.
    pub fn file_offset(&self, address: usize) -> u64 {
        u64::from(self.layer) << LAYER_BITS | address as u64
    }
}

/// Why the bytes of a region, or some of them, stay where only the kernel or this process can copy them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PlainReason {
    /// There is none: all whole pages are adopted.
    #[default]
    None = 0,
    /// Adoption was not wanted.
    Disabled = 1,
    /// The region gives peers no rights and is too small for its sends to gain.
    LocalOnly = 2,
    /// The region has no whole page.
    NoWholePage = 3,
    /// The memory is no ordinary private memory: a private file mapping, huge pages, or something of the kernel's.
    NotOrdinary = 4,
    /// The memory is a stack.
    Stack = 5,
    /// The process has locked memory (`mlock(2)`), which would not stay locked.
    Locked = 6,
    /// The kernel holds pages of the process (`VmPin`: io_uring buffers), and would go on using the old ones.
    KernelPins = 7,
    /// Registrations like this one have been too short to gain.
    ShortLived = 8,
    /// Other threads run, and userfaultfd is refused: nothing could hold them back meanwhile.
    NoProtection = 9,
    /// Another region on the same pages is not adopted, or in another layer.
    OtherRegion = 10,
    /// No file as large as the address space can be made (`RLIMIT_FSIZE`, memory).
    NoFile = 11,
    /// A debugger's machine runs the program (valgrind), which does not know such mappings.
    Emulated = 12,
    /// A step failed, and everything is as it was.
    Failed = 13,
}

/// When to adopt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdoptionPolicy {
    /// Where it pays.
    #[default]
    Auto,
    /// Also where it does not pay, as long as it is safe.
    Always,
    /// Never.
    Never,
}

/// Whether peers have any use for a region's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Peers write, read or change it themselves.
    Remote,
    /// Only this process's own requests use it; peers fetch large sends from it.
    Local,
}

/// What registering a range came to; goes back to [`Adopter::give_back`] when the region ends.
#[derive(Debug)]
pub struct Adoption {
    /// The adopted part: one run of whole pages in one layer.
    pub pages: Option<AdoptedPages>,
    /// Why there is not more.
    pub reason: PlainReason,
}

/// The adopted memory of this process.
pub struct Adopter {
    policy: AdoptionPolicy,
}

impl fmt::Debug for Adopter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adopter").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Adopter {
    /// Nothing is made before the first adoption that needs it.
    pub fn new(policy: AdoptionPolicy) -> Self {
        Self { policy }
    }

    /// The file, for peers to map; made now if there is none yet. `None` if none can be made.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Adopts the whole pages of a range that is being registered, as far as that is possible. Never fails: what cannot
    /// be adopted stays plain.
    pub fn adopt(&self, _address: usize, _length: usize, _purpose: Purpose) -> Adoption {
        Adoption { pages: None, reason: PlainReason::Disabled }
    }

    /// Ends the registration of a range: pages that no other region uses are private again when this returns. No peer
    /// can be inside an operation on them any more, unless `stopped_peer` says that one is and did not leave: the pages
    /// are then replaced under it, and their place in the file is not used again before [`Adopter::peers_are_gone`].
    pub fn give_back(&self, _adoption: Adoption, _stopped_peer: bool) {}

    /// No peer is left that was stopped inside an operation: places given up under one can be used again.
    pub fn peers_are_gone(&self) {}
}
