//! What an adopter knows, and the two things it does.

use std::fmt;
use std::io;
use std::sync::Arc;

use nonic_sys::{
    AddressFile, AreaMap, Backing, PageMap, Reach, SharedMemory, Threads, Userfault, fork_generation,
    is_locked, keep_from_children, lock_pages,
};

use super::file_cell::FileCell;
use super::fork::{Child, leave_file};
use super::learning::Learned;
use super::places::{Places, Planned, offset_of, whole};
use super::process::{Status, is_emulated};
use super::runs::Runs;
use super::survey::{Kind, Segment, adopted_layer, layer_at_home, survey};
use super::switching::{self, Protection, Span};
use super::{AdoptedPages, LAYER_BITS, PlainReason, Shield};

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
    /// `ibv_fork_init` was called: adopted memory is not in children at all.
    out_of_children: bool,
    /// Adoptions since it was searched last which once adopted memory is still mapped.
    since_search: u32,
    /// So many have to be between two searches.
    search_after: u32,
    pub(super) learned: Learned,
    /// Adopted pages that no region uses were not given back, since the kernel holds pages of the process; and whether a
    /// stopped peer may still write to some of them.
    held_back: Option<bool>,
}

/// Unless told otherwise, a fork copies this many bytes of adopted data.
const FORK_COPY_LIMIT: u64 = 256 << 20;

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
            out_of_children: false,
            since_search: 0,
            search_after: 1,
            learned: Learned::default(),
            held_back: None,
        }
    }

    /// Settings as a new adopter has them; what is known about memory stays.
    pub(super) fn reset_settings(&mut self) {
        (self.own_threads, self.shield, self.quiet) = (0, Shield::Best, None);
        (self.fork_copy_limit, self.out_of_children) = (FORK_COPY_LIMIT, false);
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
    pub(super) fn become_child(&mut self) {
        if let Some(tools) = &self.tools
            && (self.has_adopted() || !self.places.once.is_empty())
        {
            leave_file(tools.file, self.child_reads());
        }
        drop(self.tools.take());
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
        let (mut once, mut at) = (Runs::new(), 0);
        while let Ok(Some(area)) = tools.areas.at_or_above(at) {
            at = area.end;
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

    /// Whether the adopter of this process made what is here.
    pub(super) fn is_current(&self, generation: u32) -> bool {
        self.generation == generation
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// If live regions have adopted all of `start..end` and it is still mapped: one more.
    pub(super) fn share_covered(&mut self, start: usize, end: usize) -> Option<AdoptedPages> {
        let tools = self.tools.as_ref()?;
        let area = tools.areas.at_or_above(start).ok()??;
        let layer = adopted_layer(tools.file, &area)?;
        if area.start > start || area.end < end {
            return None;
        }
        self.places.adopted.add(offset_of(layer, start), offset_of(layer, end));
        Some(AdoptedPages { layer, start, end })
    }

    /// Adopts what can be adopted of `start..end`; `new` says whether pages may be that are not yet.
    pub(super) fn adopt(&mut self, start: usize, end: usize, new: Result<(), PlainReason>) -> Outcome {
        self.settle_held_back();
        let Some(tools) = self.tools() else { return Outcome::plain(PlainReason::NoFile) };
        let file = tools.file;
        let Ok(mut segments) = survey(&tools.areas, file, (start, end)) else {
            return Outcome::plain(PlainReason::Failed);
        };
        self.refuse_plain(&mut segments);
        let is_new = |segment: &Segment| matches!(segment.kind, Kind::Ordinary(_));
        if segments.iter().any(is_new)
            && let Err(why) = new.and_then(|()| self.may_adopt())
        {
            for segment in segments.iter_mut().filter(|segment| is_new(segment)) {
                segment.kind = Kind::Refused(why);
            }
        }
        self.tidy();
        let (mut plan, mut reason) = self.places.plan(file, &segments);
        // What is in the way may be memory that was adopted once and is long unmapped.
        if reason == PlainReason::OtherRegion && self.search_once_adopted() {
            (plan, reason) = self.places.plan(file, &segments);
        }
        let Some(pages) = whole(&plan) else { return Outcome::plain(reason) };
        let mut copied_pages = 0;
        if plan.iter().any(|planned| planned.new.is_some()) {
            let quiet = self.quiet.clone();
            match quietly(quiet, || self.adopt_new(&plan)) {
                Ok(copied) => copied_pages = copied,
                Err(why) => return Outcome::plain(why),
            }
        }
        self.places.adopted.add(offset_of(pages.layer, pages.start), offset_of(pages.layer, pages.end));
        Outcome { pages: Some(pages), reason, copied_pages, covered: false }
    }

    /// Takes out of `segments` the pages that peers of another live region reach through the kernel: what they write while
    /// the pages move could be lost.
    fn refuse_plain(&self, segments: &mut Vec<Segment>) {
        if self.places.plain.is_empty() {
            return;
        }
        let mut out = Vec::with_capacity(segments.len());
        for segment in segments.drain(..) {
            let mut at = segment.start;
            if let Kind::Ordinary(_) = segment.kind {
                for (from, to, _) in self.places.plain.within(segment.start as u64, segment.end as u64) {
                    if at < from as usize {
                        out.push(Segment { start: at, end: from as usize, ..segment });
                    }
                    let kind = Kind::Refused(PlainReason::OtherRegion);
                    out.push(Segment { start: from as usize, end: to as usize, kind });
                    at = to as usize;
                }
            }
            if at < segment.end {
                out.push(Segment { start: at, ..segment });
            }
        }
        *segments = out;
    }

    /// Whether pages may be adopted now that are not yet.
    fn may_adopt(&mut self) -> Result<(), PlainReason> {
        if !AddressFile::any_size_allowed() {
            return Err(PlainReason::NoFile);
        }
        let Some(tools) = self.tools() else { return Err(PlainReason::NoFile) };
        tools.status.check()?;
        self.protection().map(|_| ())
    }

    fn is_alone(&self) -> bool {
        let count = || self.tools.as_ref().and_then(|tools| tools.threads.count().ok());
        self.shield == Shield::Best && count().is_some_and(|count| count <= 1 + self.own_threads)
    }

    fn protection(&mut self) -> Result<Protection<'_>, PlainReason> {
        if self.is_alone() {
            return Ok(Protection::Alone);
        }
        let shield = self.shield;
        let tools = self.tools.as_mut().ok_or(PlainReason::NoFile)?;
        let userfault = tools.userfault.get_or_insert_with(|| match shield {
            Shield::Best => Userfault::open().ok(),
            Shield::Everything => Userfault::open_with(Reach::Everything).ok(),
            Shield::UserMode => Userfault::open_with(Reach::UserMode).ok(),
            Shield::None => None,
        });
        userfault.as_ref().map(Protection::Userfault).ok_or(PlainReason::NoProtection)
    }

    /// Adopts the parts of a plan that are not yet; returns the pages copied.
    fn adopt_new(&mut self, plan: &[Planned]) -> Result<usize, PlainReason> {
        let mut copied = 0;
        // Asked again: the hook may have taken its time.
        let alone = self.is_alone();
        if !alone {
            self.protection()?;
        }
        for (index, planned) in plan.iter().enumerate() {
            let Some(ordinary) = planned.new else { continue };
            let tools = self.tools.as_mut().ok_or(PlainReason::NoFile)?;
            let protection = match &tools.userfault {
                _ if alone => Protection::Alone,
                Some(Some(userfault)) => Protection::Userfault(userfault),
                _ => return Err(PlainReason::NoProtection),
            };
            let span = Span {
                start: planned.start,
                end: planned.end,
                offset: offset_of(planned.layer, planned.start),
                rights: ordinary.rights,
            };
            match switching::share(tools.file, &mut tools.pages, protection, span, ordinary.of_file) {
                Ok(pages) => copied += pages,
                Err((reached, _)) => {
                    self.undo(&plan[..index], planned, reached);
                    return Err(PlainReason::Failed);
                }
            }
            if self.out_of_children {
                let _ = keep_from_children(span.start, span.end - span.start);
            }
            self.replaced_once(planned);
        }
        Ok(copied)
    }

    /// Pages that were private mappings of the file look there no more.
    fn replaced_once(&mut self, planned: &Planned) {
        let Some(Planned { start, end, layer, .. }) = planned.new.and(Some(planned)) else { return };
        let Some(home) = planned.new.and_then(|ordinary| ordinary.layer) else { return };
        let (from, to) = (offset_of(home, *start), offset_of(home, *end));
        self.places.once.remove(from, to);
        if home != *layer
            && let Some(tools) = &self.tools
        {
            self.places.clear(tools.file, from, to);
        }
    }

    /// Gives back what a failed adoption had switched: `done`, and `failed` as far as `reached`.
    fn undo(&mut self, done: &[Planned], failed: &Planned, reached: usize) {
        let reached_part = Planned { end: reached, ..*failed };
        for planned in done.iter().chain([&reached_part]).filter(|planned| planned.new.is_some()) {
            let (from, to) = (offset_of(planned.layer, planned.start), offset_of(planned.layer, planned.end));
            if from < to {
                self.places.adopted.keep(from, to);
                self.give_back_places(from, to, false);
            }
        }
        let (from, to) = (offset_of(failed.layer, reached), offset_of(failed.layer, failed.end));
        if let Some(tools) = &self.tools
            && !self.places.once.overlaps(from, to)
        {
            self.places.clear(tools.file, from, to);
        }
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
            self.settle(from, to, false);
        }
    }

    /// Gives back what the kernel's pins forbade to give back, if there are none any more.
    fn settle_held_back(&mut self) {
        let Some(stopped_peer) = self.held_back else { return };
        if self.tools.as_ref().is_none_or(|tools| tools.status.has_pins()) {
            return;
        }
        self.held_back = None;
        let idle: Vec<_> = self.places.adopted.all().filter(|(_, _, uses)| *uses == 0).collect();
        for (from, to, _) in idle {
            self.settle(from, to, stopped_peer);
        }
    }

    /// A region ends that used these pages.
    pub(super) fn release(&mut self, pages: &AdoptedPages, stopped_peer: bool) {
        self.settle_held_back();
        let (from, to) = (offset_of(pages.layer, pages.start), offset_of(pages.layer, pages.end));
        self.places.adopted.release(from, to);
        self.settle(from, to, stopped_peer);
    }

    /// Gives back the pages of a range of the file that nobody uses.
    fn settle(&mut self, from: u64, to: u64, stopped_peer: bool) {
        let mut idle = Vec::new();
        for (start, end, uses) in self.places.adopted.within(from, to) {
            if uses > 0 {
                continue;
            }
            let layer = start & !ADDRESS_MASK;
            let mut at = start;
            for (low, high, _) in self.places.plain.within(start & ADDRESS_MASK, end - layer) {
                idle.push((at, low | layer));
                at = high | layer;
            }
            idle.push((at, end));
        }
        idle.retain(|(start, end)| start < end);
        if idle.is_empty() {
            return;
        }
        if self.tools.as_ref().is_some_and(|tools| tools.status.has_pins()) {
            // The kernel goes on with the pages it holds, so these have to stay the program's.
            self.held_back = Some(stopped_peer || self.held_back == Some(true));
            return;
        }
        let quiet = self.quiet.clone();
        quietly(quiet, || {
            for (start, end) in idle {
                self.give_back_places(start, end, stopped_peer);
            }
        });
    }

    /// Makes the pages at these places of the file private again, wherever they are mapped.
    fn give_back_places(&mut self, from: u64, to: u64, stopped_peer: bool) {
        let alone = self.is_alone();
        let Some(file) = self.tools.as_ref().map(|tools| tools.file) else { return };
        let Ok(spans) = self.mappings_of(from, to) else { return };
        self.places.forget_gone_children(file);
        // Piece by piece, if this is all there is to it.
        let is_all = |span: &Span| span.offset == from && span.end - span.start == (to - from) as usize;
        let empty = alone && matches!(&spans[..], [span] if is_all(span)) && !self.places.children_read();
        let (mut kept, mut failed) = (Vec::new(), false);
        for span in spans {
            let locked = is_locked(span.start, span.end - span.start);
            let given = if alone {
                switching::give_back_alone(file, span, empty)
            } else {
                kept.push((span.offset, span.offset + (span.end - span.start) as u64));
                switching::give_back_running(file, span, stopped_peer)
            };
            if locked {
                // The limit cannot be in the way: as much was locked until now.
                let _ = lock_pages(span.start, span.end - span.start);
            }
            failed |= given.is_err();
        }
        if failed {
            // The bytes are in the file, and some of the memory still shows it: it stays so, and the place stays taken.
            return;
        }
        self.places.adopted.remove(from, to);
        for (start, end) in kept {
            self.places.once.keep(start, end);
        }
        if stopped_peer {
            self.places.stopped.keep(from, to);
        }
        if !empty {
            self.places.leave_to_children(from, to);
            self.places.clear(file, from, to);
        }
    }

    /// Every shared mapping in this process of a range of the file: at its own address, or where the program moved it.
    fn mappings_of(&self, from: u64, to: u64) -> io::Result<Vec<Span>> {
        let tools = self.tools.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let layer = (from >> LAYER_BITS) as u16;
        let (start, end) = ((from & ADDRESS_MASK) as usize, (to & ADDRESS_MASK) as usize);
        let (mut spans, mut at) = (Vec::new(), start);
        let mut complete = true;
        while at < end {
            let area = tools.areas.at_or_above(at)?.filter(|area| area.start < end);
            let Some(area) = area else {
                complete = false;
                break;
            };
            complete &= area.start <= at;
            let (low, high) = (area.start.max(at), area.end.min(end));
            if adopted_layer(tools.file, &area) == Some(layer) {
                let rights = area.rights();
                spans.push(Span { start: low, end: high, offset: offset_of(layer, low), rights });
            } else {
                complete = false;
            }
            at = high;
        }
        if !complete {
            self.find_moved(from, to, &mut spans)?;
        }
        Ok(spans)
    }

    fn find_moved(&self, from: u64, to: u64, spans: &mut Vec<Span>) -> io::Result<()> {
        let tools = self.tools.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut at = 0;
        while let Some(area) = tools.areas.at_or_above(at)? {
            at = area.end;
            let Backing::SharedFile { device, inode, offset } = area.backing else { continue };
            if (device, inode) != tools.file.identity() || layer_at_home(&area, offset).is_some() {
                continue;
            }
            let area_end = offset + (area.end - area.start) as u64;
            if offset < to && area_end > from {
                // All of it: if the program let it grow, the rest belongs to it too.
                spans.push(Span { start: area.start, end: area.end, offset, rights: area.rights() });
            }
        }
        Ok(())
    }

    /// No stopped peer is left.
    pub(super) fn peers_are_gone(&mut self) {
        self.held_back = self.held_back.map(|_| false);
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
