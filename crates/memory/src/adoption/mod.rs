//! Adoption: ordinary private memory of the program, moved in place into a file that peers can map.
//!
//! The file is sparse and as large as the address space, several times over: the page at virtual address A stands at
//! offset A of a *layer*. So neighbouring pages merge into one mapping, one descriptor serves every region, and a peer
//! finds a page from its address alone. The first layer is used wherever it can be; another one if the pages there belong
//! to a live region whose memory the program has unmapped or mapped anew, or may be written by a peer that was stopped, or
//! be read by a child.
//!
//! **Adopting** copies the pages that hold data into the file and maps the file over them, in pieces. Other threads go on
//! meanwhile: those that touch the piece wait ([`Shield`]). Where only the userfaultfd of ordinary users is to be had, a
//! system call that writes to the piece at that moment fails with `EFAULT`: programs do not read files or sockets into a
//! buffer while they register it. A program with no other thread needs no protection.
//!
//! **Giving back** makes the pages private again when the last region on them ends. Without other threads the memory is
//! anonymous as before. With other threads it becomes a private mapping of the file of which each page that holds data is the
//! process's own copy: one step that no thread and no system call notices, and that merges with its neighbours. (Moving
//! anonymous memory there instead, by `mremap`, would leave a mapping for each region that never merges again.) Such
//! memory is like anonymous memory but for this:
//!
//! - `MADV_FREE` is refused (`EINVAL`); allocators then use `MADV_DONTNEED`, which gives zeros as it should;
//! - grown by `mremap`, the new part is not promised to be zeros (`realloc` does not promise it either);
//! - it is named `/memfd:nonic-pages` in `/proc/self/maps`.
//!
//! It becomes anonymous when it is registered and given back once more without other threads.
//!
//! **Pages of windows** ([`Purpose::Window`]) are pages and not addresses: the program may unmap them, or map something else there,
//! at any time, also at the moment at which they would be given back, and then what it mapped would be replaced. So they are
//! given back only while the program has no other thread. Otherwise they stay shared as long as they are mapped, and the file
//! loses them when they are not.
//!
//! **While registered**, adopted memory is a shared mapping of a file: `MADV_DONTNEED` keeps the bytes (on a NIC the
//! device would go on with the old pages, and the program with new ones); memory that the program unmaps or maps anew stays with its region; memory moved by
//! `mremap` keeps its bytes, also after the region ends. What `fork` does is told in `fork.rs`.
//!
//! **What the program said about its memory.** Memory for a stack (`MAP_GROWSDOWN`), and memory that is kept out of children
//! or core dumps (`MADV_DONTFORK`, `MADV_WIPEONFORK`, `MADV_DONTDUMP`), stays as it is and plain; of a single page between
//! others that cannot be told without `/proc/self/smaps`, which takes as long as copying a thousand pages, so a single page
//! loses it. For a window ([`Purpose::Window`]) memory that is kept out of children or dumps is adopted too, and given the same
//! advice again, both ways. What the kernel would wipe in children (`MADV_WIPEONFORK`, which a mapping of a file cannot have) is
//! wiped by `leaving.rs`; it is given back only while the program has no other thread, since only anonymous memory can have it. Hints about speed (`MADV_HUGEPAGE`, `MADV_NOHUGEPAGE`, `MADV_SEQUENTIAL`, `MADV_RANDOM`, `MADV_MERGEABLE`, a
//! policy of `mbind`) are gone for the same reason. Memory that is locked while it is registered is locked afterwards too; other
//! advice given meanwhile ends with the region.
//!
//! **Locked memory** would not stay locked, so it stays where it is. Of each area the kernel is asked, if it says that there are
//! locked pages at all: what is beside it is adopted.
//!
//! **Pages that the kernel holds** (fixed buffers of io_uring), or may hold for a driver. Which ones the kernel tells to nobody: their
//! number (`VmPin`) says nothing of where they are, and what is known of a page (`/proc/kpageflags`) is root's to see and does not
//! show it. So any page of a process that has such pages may be one: it adopts no memory that was ever touched and gives
//! nothing back, so that kernel and program go on with the same pages: those of regions that ended stay shared,
//! and are given back when a region begins or ends after the kernel has let go. What drivers hold is in no count: a process
//! that has a device open whose driver might hold pages (`sys/open_descriptors.rs`) is taken to have them. Memory that was never
//! touched has no pages to hold, and is adopted. What the kernel holds for the time of one system call only
//! (direct input and output) it does not tell: no registration of that memory may begin or end meanwhile.

mod adopted_memory;
mod choices;
mod file_cell;
mod fork;
mod handshake;
mod learning;
mod leaving;
mod offspring;
mod places;
mod process;
mod runs;
mod shared_parts;
mod state;
mod survey;
mod switching;
mod telling;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

pub use adopted_memory::AdoptedMemory;
pub use choices::{AdoptionPolicy, Purpose, Shield};
use nonic_sys::{AsFd, BorrowedFd, OwnedFd, PAGE};
pub use offspring::watch_offspring;
use state::{Outcome, State};

use crate::{AdoptedPages, LAYER_BITS, PlainReason};

/// What registering a range came to; goes back to [`Adopter::give_back`] when the region ends.
#[derive(Debug)]
pub struct Adoption {
    /// The adopted part: one run of whole pages in one layer.
    pub pages: Option<AdoptedPages>,
    /// Why there is not more.
    pub reason: PlainReason,
    generation: u32,
    /// Pages that peers reach through the kernel: start and end, on both sides of the adopted part.
    plain: [(usize, usize); 2],
    /// What can be learned when it ends.
    life: Option<Life>,
}

/// When a registration began, and what it took or would have taken.
#[derive(Debug)]
struct Life {
    since: Instant,
    bytes: usize,
    copied_pages: usize,
}

/// Adopts memory of this process for one whose regions lie there.
pub struct Adopter {
    policy: AdoptionPolicy,
    /// Regions stay plain.
    windows_only: bool,
    memory: Arc<AdoptedMemory>,
    /// It said that a peer was stopped inside an operation, and not yet that none is left.
    has_stopped_peer: AtomicBool,
}

impl fmt::Debug for Adopter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own_threads = self.state().own_threads;
        let mut shown = f.debug_struct("Adopter");
        shown.field("policy", &self.policy).field("own_threads", &own_threads).finish_non_exhaustive()
    }
}

/// Bytes of whole pages from which on a region that peers do not use is adopted: its sends are long enough to be fetched.
const LOCAL_BYTES: usize = 8 << 10;

impl Adopter {
    /// One with a memory of its own.
    pub fn new(policy: AdoptionPolicy) -> Self {
        Self::of(Arc::default(), policy)
    }

    /// One that shares its memory with others.
    pub fn of(memory: Arc<AdoptedMemory>, policy: AdoptionPolicy) -> Self {
        Self { policy, windows_only: false, memory, has_stopped_peer: AtomicBool::new(false) }
    }

    /// The same for the memory of windows only ([`Purpose::Window`]).
    pub fn for_windows(memory: Arc<AdoptedMemory>, policy: AdoptionPolicy) -> Self {
        let mut adopter = Self::of(memory, policy);
        adopter.windows_only = true;
        adopter
    }

    /// What it shares with others.
    pub fn memory(&self) -> &AdoptedMemory {
        &self.memory
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.memory.state()
    }

    /// So many more threads of this process (or fewer), other than those that adopt and give back, are the library's own and
    /// keep off the program's memory while the hook of [`Adopter::set_quiet_hook`] runs. A program with one thread besides needs
    /// no protection against itself.
    pub fn add_own_threads(&self, more: isize) {
        let mut state = self.state();
        state.own_threads = state.own_threads.saturating_add_signed(more);
    }

    /// Runs `map`, which maps some of the file for the library's own use or the program's, and returns where; that mapping is
    /// then left alone when pages are given back. Nothing is adopted or given back meanwhile.
    pub fn map_view(&self, map: &mut dyn FnMut() -> Option<(usize, usize)>) {
        let mut state = self.state();
        if let Some((start, end)) = map() {
            state.add_view(start, end);
        }
    }

    /// What [`Adopter::map_view`] mapped there is no more.
    pub fn forget_view(&self, start: usize, end: usize) {
        self.state().remove_view(start, end);
    }

    /// If all pages of a range are adopted already, and lie in one mapping that can be read, and written if `write`: adopts them
    /// once more. Takes one question to the kernel, and none if they are not.
    pub fn adopt_covered(
        &self,
        address: usize,
        length: usize,
        write: bool,
        purpose: Purpose,
    ) -> Option<Adoption> {
        let pages = self.whole_pages(address, length, purpose).ok()?;
        let mut state = self.state();
        let range = (address, address.checked_add(length)?);
        let pages = state.share_covered(range, pages, write, purpose == Purpose::Window)?;
        let plain = self.note_plain(&mut state, address, length, purpose, Some(pages));
        let (reason, generation) = (PlainReason::None, state.generation());
        Some(Adoption { pages: Some(pages), reason, generation, plain, life: None })
    }

    /// Has every switch of pages run inside `hook`, which calls what it is given, once, while no thread of the library reads
    /// or writes memory of the program. The hook must not adopt or give back, and whoever it waits for must not either;
    /// [`Adopter::file`] is free to be asked.
    pub fn set_quiet_hook(&self, hook: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) {
        self.state().quiet = Some(Arc::new(hook));
    }

    /// Uses this protection and no better one. To be said before anything is adopted.
    pub fn set_shield(&self, shield: Shield) {
        self.state().shield = shield;
    }

    /// A fork copies up to this many bytes of adopted data into the child, before it returns (256 MiB unless told otherwise).
    /// With more, the child reads from the file what it has not written, and so sees what the parent and its peers write
    /// later.
    pub fn set_fork_copy_limit(&self, bytes: u64) {
        self.state().fork_copy_limit = bytes;
    }

    /// A fork waits so long for a child that does not get on with copying (10 s unless told otherwise). Then the child does
    /// without what it has not copied: it is not mapped there.
    pub fn set_fork_patience(&self, patience: Duration) {
        self.state().fork_patience = patience;
    }

    /// Moves the shared anonymous memory at `address`, all of it, into a file of its own; that file. `None` if it stays as it is: if
    /// another process might have it (see [`watch_offspring`]), the program has another thread, or something else forbids it.
    pub fn name_shared(&self, address: usize) -> Option<OwnedFd> {
        if self.policy == AdoptionPolicy::Never {
            return None;
        }
        self.state().name_shared(address)
    }

    /// A registration of memory that is not to be moved: peers reach it through the kernel.
    pub fn leave_plain(&self, address: usize, length: usize, purpose: Purpose) -> Adoption {
        let mut state = self.state();
        let plain = self.note_plain(&mut state, address, length, purpose, None);
        let (reason, generation) = (PlainReason::NotOrdinary, state.generation());
        Adoption { pages: None, reason, generation, plain, life: None }
    }

    /// From now on adopted pages are not in children at all, as registered memory after `ibv_fork_init(3)`.
    pub fn fork_init(&self) {
        self.state().keep_out_of_children();
    }

    /// The file, for peers to map; made now if there is none yet. `None` if none can be made.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        if self.policy == AdoptionPolicy::Never {
            return None;
        }
        self.memory.shared.file.file().ok().map(AsFd::as_fd)
    }

    /// Adopts the whole pages of a range that is being registered, as far as that is possible. Never fails: what cannot
    /// be adopted stays plain.
    pub fn adopt(&self, address: usize, length: usize, purpose: Purpose) -> Adoption {
        let mut state = self.state();
        let wanted = self.whole_pages(address, length, purpose);
        let (outcome, life) = match wanted {
            Err(reason) => (Outcome::plain(reason), None),
            Ok((start, end)) => {
                let outcome = self.adopt_pages(&mut state, start, end, purpose);
                let learns = self.policy == AdoptionPolicy::Auto && purpose != Purpose::Window;
                let life = (learns && !outcome.covered).then(|| Life {
                    since: Instant::now(),
                    bytes: end - start,
                    copied_pages: match outcome.reason {
                        PlainReason::ShortLived => (end - start) / PAGE,
                        _ => outcome.copied_pages,
                    },
                });
                (outcome, life)
            }
        };
        let plain = self.note_plain(&mut state, address, length, purpose, outcome.pages);
        Adoption { pages: outcome.pages, reason: outcome.reason, generation: state.generation(), plain, life }
    }

    /// Notes the pages of a region that peers reach through the kernel, if they are to be kept as they are; returns them.
    fn note_plain(
        &self,
        state: &mut State,
        address: usize,
        length: usize,
        purpose: Purpose,
        pages: Option<AdoptedPages>,
    ) -> [(usize, usize); 2] {
        let counts = match purpose {
            Purpose::Remote => true,
            Purpose::Local => false,
            // What is left beside a run is asked for again, by itself.
            Purpose::Window => pages.is_none(),
        };
        if !counts {
            return [(0, 0); 2];
        }
        let plain = plain_parts(address, length, pages);
        for (start, end) in plain {
            if start < end {
                state.add_plain(start, end);
            }
        }
        plain
    }

    fn adopt_pages(&self, state: &mut State, start: usize, end: usize, purpose: Purpose) -> Outcome {
        let window = purpose == Purpose::Window;
        if let Some(pages) = state.share_covered((start, end), (start, end), false, window) {
            return Outcome { pages: Some(pages), reason: PlainReason::None, copied_pages: 0, covered: true };
        }
        if let Err(reason) = state::process_allows() {
            return Outcome::plain(reason);
        }
        let short =
            self.policy == AdoptionPolicy::Auto && !window && state.learned.is_short_lived(end - start);
        state.adopt(start, end, if short { Err(PlainReason::ShortLived) } else { Ok(()) }, window)
    }

    fn whole_pages(
        &self,
        address: usize,
        length: usize,
        purpose: Purpose,
    ) -> Result<(usize, usize), PlainReason> {
        if self.policy == AdoptionPolicy::Never || (self.windows_only && purpose != Purpose::Window) {
            return Err(PlainReason::Disabled);
        }
        let end = address.checked_add(length).ok_or(PlainReason::NotOrdinary)?;
        if end > 1 << LAYER_BITS {
            return Err(PlainReason::NotOrdinary);
        }
        let (start, end) = (address.next_multiple_of(PAGE), end / PAGE * PAGE);
        if start >= end {
            return Err(PlainReason::NoWholePage);
        }
        if purpose == Purpose::Local && self.policy == AdoptionPolicy::Auto && end - start < LOCAL_BYTES {
            return Err(PlainReason::LocalOnly);
        }
        Ok((start, end))
    }

    /// Ends the registration of a range: pages that no other region uses are private again when this returns. No peer
    /// can be inside an operation on them any more, unless `stopped_peer` says that one is and did not leave: the pages
    /// are then replaced under it, and their place in the file is not used again before [`Adopter::peers_are_gone`].
    pub fn give_back(&self, adoption: Adoption, stopped_peer: bool) {
        let mut state = self.state();
        if !state.is_current(adoption.generation) {
            return;
        }
        if stopped_peer && !self.has_stopped_peer.swap(true, Ordering::Relaxed) {
            state.note_stopped_peers(1);
        }
        if let Some(life) = &adoption.life {
            state.learned.note(life.bytes, life.copied_pages, life.since.elapsed());
        }
        for (start, end) in adoption.plain {
            if start < end {
                state.remove_plain(start, end);
            }
        }
        if let Some(pages) = &adoption.pages {
            state.release(pages);
        }
    }

    /// No peer is left that was stopped inside an operation: places given up under one can be used again, if the others who
    /// share the memory have none either.
    pub fn peers_are_gone(&self) {
        let mut state = self.state();
        if self.has_stopped_peer.swap(false, Ordering::Relaxed) {
            state.note_stopped_peers(-1);
        }
        state.use_stopped_places();
    }

    /// Separate stretches of adopted memory now: the mappings they take are as many.
    pub fn stretches(&self) -> usize {
        self.state().stretches()
    }
}

impl Drop for Adopter {
    fn drop(&mut self) {
        if *self.has_stopped_peer.get_mut() {
            self.state().note_stopped_peers(-1);
        }
    }
}

/// The pages of a range, whole or not, on both sides of its adopted part.
fn plain_parts(address: usize, length: usize, pages: Option<AdoptedPages>) -> [(usize, usize); 2] {
    let Some(end) = address.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE)) else {
        return [(0, 0); 2];
    };
    let start = address / PAGE * PAGE;
    match pages {
        Some(pages) => [(start, pages.start), (pages.end, end)],
        None => [(start, end), (end, end)],
    }
}
