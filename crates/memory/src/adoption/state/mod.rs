//! What an adopter knows, and the two things it does.

mod adopting;
mod giving_back;
mod naming;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nonic_sys::{
    AddressFile, AreaAdvice, AreaMap, Backing, PageMap, SharedMemory, Threads, Userfault, fork_generation,
    keep_from_children,
};

use crate::adoption::file_cell::FileCell;
use crate::adoption::fork::Child;
use crate::adoption::handshake::Handshake;
use crate::adoption::learning::Learned;
use crate::adoption::leaving::Leaving;
use crate::adoption::places::Places;
use crate::adoption::process::{Status, is_emulated};
use crate::adoption::runs::Runs;
use crate::adoption::{AdoptedPages, LAYER_BITS, PlainReason, Shield};

/// Bits of an offset that are the address.
const ADDRESS_MASK: u64 = (1 << LAYER_BITS) - 1;
/// Adoptions between two searches for places that nothing looks at any more, at most.
const MOST_PATIENCE: u32 = 4096;
/// Runs what it is given while no thread of the library touches the program's memory.
pub(super) type QuietHook = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// What is opened once in each process.
#[derive(Debug)]
struct Tools {
    file: &'static AddressFile,
    areas: AreaMap,
    pages: PageMap,
    status: Status,
    threads: Threads,
    /// Opened when other threads run for the first time; `None` inside if it is refused.
    userfault: Option<Option<Userfault>>,
}

impl Tools {
    fn open(file: &'static FileCell) -> io::Result<Self> {
        Ok(Self {
            file: file.file()?,
            areas: AreaMap::open()?,
            pages: PageMap::open()?,
            status: Status::open()?,
            threads: Threads::open()?,
            userfault: None,
        })
    }
}

/// What an attempt to adopt came to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) pages: Option<AdoptedPages>,
    pub(super) reason: PlainReason,
    /// Pages that held data and were copied.
    pub(super) copied_pages: usize,
    /// Live regions had all of it.
    pub(super) covered: bool,
}

impl Outcome {
    pub(super) fn plain(reason: PlainReason) -> Self {
        Self { pages: None, reason, copied_pages: 0, covered: false }
    }
}

pub(super) struct State {
    generation: u32,
    file: &'static FileCell,
    tools: Option<Tools>,
    places: Places,
    pub(super) own_threads: usize,
    pub(super) shield: Shield,
    pub(super) quiet: Option<QuietHook>,
    /// Bytes of adopted data that a child copies; with more it reads from the file.
    pub(super) fork_copy_limit: u64,
    /// How long a fork waits for a child that gets nowhere.
    pub(super) fork_patience: Duration,
    /// `ibv_fork_init` was called: adopted memory is not in children at all.
    out_of_children: bool,
    /// Adoptions since it was searched last which once adopted memory is still mapped.
    since_search: u32,
    /// So many have to be between two searches.
    search_after: u32,
    pub(super) learned: Learned,
    /// Adopted pages that no region uses were not given back, since the kernel holds pages of the process.
    held_back: bool,
    /// Adopters of which a peer was stopped inside an operation. As long as there are any, pages are replaced under it whoever
    /// gives them back: it may have been at them by another's region.
    stopped_peers: usize,
    /// Addresses at which the file is mapped for its own sake, and not as the program's memory.
    views: Runs,
    /// Places of adopted memory that is or was a window's: the program may unmap it at any time, also while it is given back.
    windows: Runs,
    /// Bytes of ended windows' pages that are still mapped, and how many there may be before it is looked which.
    idle_bytes: u64,
    idle_limit: u64,
    /// Places of adopted memory that the program keeps out of children or core dumps.
    advised: Vec<(u64, u64, AreaAdvice)>,
}

/// Bytes of ended windows' pages that wait in any case until it is looked whether they are still mapped.
const IDLE_LIMIT: u64 = 16 << 20;

/// Unless told otherwise, a fork copies this many bytes of adopted data.
const FORK_COPY_LIMIT: u64 = 256 << 20;
/// Unless told otherwise, a fork waits so long for a child that gets nowhere.
pub(super) const FORK_PATIENCE: Duration = Duration::from_secs(10);

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("tools", &self.tools)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

fn quietly<R>(quiet: Option<QuietHook>, work: impl FnOnce() -> R) -> R {
    let Some(quiet) = quiet else { return work() };
    let (mut work, mut result) = (Some(work), None);
    quiet(&mut || {
        if let Some(work) = work.take() {
            result = Some(work());
        }
    });
    result.expect("the hook runs what it is given")
}

impl State {
    pub(super) fn new(file: &'static FileCell) -> Self {
        Self {
            generation: fork_generation(),
            file,
            tools: None,
            places: Places::new(),
            own_threads: 0,
            shield: Shield::Best,
            quiet: None,
            fork_copy_limit: FORK_COPY_LIMIT,
            fork_patience: FORK_PATIENCE,
            out_of_children: false,
            since_search: 0,
            search_after: 1,
            learned: Learned::default(),
            held_back: false,
            stopped_peers: 0,
            views: Runs::new(),
            windows: Runs::new(),
            idle_bytes: 0,
            idle_limit: IDLE_LIMIT,
            advised: Vec::new(),
        }
    }

    /// Settings as a new adopter has them; what is known about memory stays.
    pub(super) fn reset_settings(&mut self) {
        (self.own_threads, self.shield, self.quiet) = (0, Shield::Best, None);
        (self.fork_copy_limit, self.fork_patience) = (FORK_COPY_LIMIT, FORK_PATIENCE);
        self.out_of_children = false;
        self.stopped_peers = 0;
        self.learned = Learned::default();
        if let Some(tools) = &mut self.tools {
            tools.userfault = None;
        }
    }

    pub(super) fn has_adopted(&self) -> bool {
        !self.places.adopted.is_empty()
    }

    /// Whether a child forked now will read adopted data from the file.
    fn child_reads(&self) -> bool {
        self.has_adopted()
            && self.tools.as_ref().is_some_and(|tools| tools.file.data_bytes() > self.fork_copy_limit)
    }

    /// Whether a child forked now will look at places of the file after it has copied.
    pub(super) fn leaves_places_to_children(&self) -> bool {
        !self.places.once.is_empty() || self.child_reads()
    }

    /// A child was forked that has `sign` mapped as long as it looks at the places of now.
    pub(super) fn add_child(&mut self, sign: SharedMemory) {
        let mut holes = Runs::new();
        for (from, to, _) in self.places.once.all() {
            holes.keep(from, to);
        }
        let reads = self.child_reads();
        if reads || !holes.is_empty() {
            self.places.children.push(Child { sign: Some(sign), reads, holes });
        }
    }

    /// This is the child now: nothing is adopted any more. Frees nothing; what the parent knew is dropped by
    /// [`State::refresh`].
    pub(super) fn become_child(&mut self, parent: Option<&Handshake>) {
        let read_later = self.child_reads();
        let file = self.tools.as_ref().map(|tools| tools.file);
        // First of all: at the limit of descriptors these make room for the child's own.
        drop(self.tools.take());
        if let Some(file) = file
            && (self.has_adopted() || !self.places.once.is_empty())
        {
            let advised = &self.advised;
            Leaving { file, adopted: &self.places.adopted, advised, read_later, parent }.leave();
        }
        // Closed now: later their numbers may be the program's.
        for child in &mut self.places.children {
            drop(child.sign.take());
        }
    }

    /// In a child: takes a new state for what the parent left.
    pub(super) fn refresh(&mut self) {
        if !self.is_current(fork_generation()) {
            *self = Self::new(self.file);
        }
    }

    /// From now on adopted memory is not in children at all.
    pub(super) fn keep_out_of_children(&mut self) {
        self.out_of_children = true;
        let adopted: Vec<_> = self.places.adopted.all().collect();
        for (from, to, _) in adopted {
            for span in self.mappings_of(from, to).unwrap_or_default() {
                let _ = keep_from_children(span.start, span.end - span.start);
            }
        }
    }

    /// Takes notice of children that are gone, and forgets the holes that no mapping looks at any more if they are in the way.
    fn tidy(&mut self) {
        let Some(tools) = &self.tools else { return };
        self.places.forget_gone_children(tools.file);
        self.since_search += 1;
        if self.places.is_crowded() {
            self.search_once_adopted();
        }
    }

    /// Forgets places where memory was once adopted that no mapping looks at any more; not if that was of no use lately.
    /// Whether there were any.
    fn search_once_adopted(&mut self) -> bool {
        let Some(tools) = &self.tools else { return false };
        if self.since_search < self.search_after {
            return false;
        }
        let mut once = Runs::new();
        for area in tools.areas.walk(0) {
            // Half an answer would make places free that are not.
            let Ok(area) = area else { return false };
            if let Backing::PrivateFile { device, inode, offset } = area.backing
                && (device, inode) == tools.file.identity()
            {
                once.keep(offset, offset + (area.end - area.start) as u64);
            }
        }
        // What is in use is not to be searched for again and again.
        let found_some = self.places.replace_once(tools.file, once);
        self.search_after = if found_some { 1 } else { (self.search_after * 2).min(MOST_PATIENCE) };
        self.since_search = 0;
        found_some
    }

    fn tools(&mut self) -> Option<&mut Tools> {
        if self.tools.is_none() {
            self.tools = Tools::open(self.file).ok();
        }
        self.tools.as_mut()
    }

    /// The library maps the file there.
    pub(super) fn add_view(&mut self, start: usize, end: usize) {
        self.views.keep(start as u64, end as u64);
    }

    /// It does so no more.
    pub(super) fn remove_view(&mut self, start: usize, end: usize) {
        self.views.remove(start as u64, end as u64);
    }

    /// Whether the adopter of this process made what is here.
    pub(super) fn is_current(&self, generation: u32) -> bool {
        self.generation == generation
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// A live region reaches these addresses through the kernel, from peers.
    pub(super) fn add_plain(&mut self, start: usize, end: usize) {
        self.places.plain.add(start as u64, end as u64);
    }

    /// It does so no more.
    pub(super) fn remove_plain(&mut self, start: usize, end: usize) {
        let plain = &mut self.places.plain;
        plain.release(start as u64, end as u64);
        let idle: Vec<_> = plain.within(start as u64, end as u64).filter(|(_, _, uses)| *uses == 0).collect();
        for (from, to, _) in idle {
            plain.remove(from, to);
        }
        // Adopted pages that waited for this.
        let waiting: Vec<_> = self
            .places
            .adopted
            .all()
            .filter(|(from, to, uses)| {
                let (low, high) = (from & ADDRESS_MASK, to & ADDRESS_MASK);
                *uses == 0 && low < end as u64 && high > start as u64
            })
            .collect();
        for (from, to, _) in waiting {
            self.settle(from, to);
        }
    }

    /// So many more adopters (or fewer) have stopped peers.
    pub(super) fn note_stopped_peers(&mut self, more: isize) {
        self.stopped_peers = self.stopped_peers.saturating_add_signed(more);
    }

    /// Uses places again that were given up under stopped peers, if none is left.
    pub(super) fn use_stopped_places(&mut self) {
        if self.stopped_peers > 0 {
            return;
        }
        let places: Vec<_> = self.places.stopped.all().collect();
        for (from, to, _) in places {
            self.places.stopped.remove(from, to);
            if let Some(tools) = &self.tools {
                self.places.clear(tools.file, from, to);
            }
        }
    }

    /// Mappings that adopted memory takes, at most.
    pub(super) fn stretches(&self) -> usize {
        self.places.adopted.stretches()
    }
}

/// Whether this process can adopt anything at all.
pub(super) fn process_allows() -> Result<(), PlainReason> {
    if is_emulated() { Err(PlainReason::Emulated) } else { Ok(()) }
}
