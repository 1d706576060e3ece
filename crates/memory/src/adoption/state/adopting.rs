//! Taking pages into the file.

use std::io;

use nonic_sys::{AddressFile, AreaAdvice, Reach, Userfault, is_locked, keep_from_children, populate};

use super::{Outcome, State, quietly};
use crate::adoption::places::{Planned, offset_of, whole};
use crate::adoption::process::Held;
use crate::adoption::survey::{Kind, Segment, adopted_layer, survey};
use crate::adoption::switching::{self, Protection, Span};
use crate::adoption::{AdoptedPages, PlainReason, Shield};

impl State {
    /// If live regions have adopted all of the pages `start..end` and they are still mapped: one more. All of `range`, which
    /// they are of, has to lie in one mapping, and to be readable, and writable if `write`.
    pub(in crate::adoption) fn share_covered(
        &mut self,
        range: (usize, usize),
        (start, end): (usize, usize),
        write: bool,
        window: bool,
    ) -> Option<AdoptedPages> {
        let tools = self.tools.as_ref()?;
        if !self.places.may_cover(start, end) {
            return None;
        }
        let area = tools.areas.at_or_above(range.0).ok()??;
        let layer = adopted_layer(tools.file, &area)?;
        if area.start > range.0 || area.end < range.1 || !area.allows(write) {
            return None;
        }
        let (from, to) = (offset_of(layer, start), offset_of(layer, end));
        self.places.adopted.add(from, to);
        if window {
            self.windows.keep(from, to);
        }
        Some(AdoptedPages { layer, start, end })
    }

    /// Adopts what can be adopted of `start..end`; `new` says whether pages may be that are not yet.
    pub(in crate::adoption) fn adopt(
        &mut self,
        start: usize,
        end: usize,
        new: Result<(), PlainReason>,
        window: bool,
    ) -> Outcome {
        self.settle_held_back();
        self.settle_idle_windows();
        self.make_way(start, end);
        let Some(tools) = self.tools() else { return Outcome::plain(PlainReason::NoFile) };
        let file = tools.file;
        let Ok(mut segments) = survey(&tools.areas, file, (start, end), window) else {
            return Outcome::plain(PlainReason::Failed);
        };
        self.refuse_plain(&mut segments);
        let is_new = |segment: &Segment| matches!(segment.kind, Kind::Ordinary(_));
        let mut pinned = false;
        if segments.iter().any(is_new) {
            let held = new.and_then(|()| self.may_adopt());
            pinned = held.is_ok_and(|held| held.pinned);
            for segment in segments.iter_mut().filter(|segment| is_new(segment)) {
                match held {
                    // An area is locked as a whole or not at all.
                    Ok(held) if !held.locked || !is_locked(segment.start, segment.end - segment.start) => {}
                    Ok(_) => segment.kind = Kind::Refused(PlainReason::Locked),
                    Err(why) => segment.kind = Kind::Refused(why),
                }
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
            match quietly(quiet, || self.adopt_new(&plan, pinned)) {
                Ok(copied) => copied_pages = copied,
                Err(why) => return Outcome::plain(why),
            }
        }
        let (from, to) = (offset_of(pages.layer, pages.start), offset_of(pages.layer, pages.end));
        self.places.adopted.add(from, to);
        if window {
            self.windows.keep(from, to);
        }
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

    /// Whether pages may be adopted now that are not yet, and which of the process's are held.
    fn may_adopt(&mut self) -> Result<Held, PlainReason> {
        if !AddressFile::any_size_allowed() {
            return Err(PlainReason::NoFile);
        }
        let Some(tools) = self.tools() else { return Err(PlainReason::NoFile) };
        let held = tools.status.held()?;
        self.protection().map(|_| held)
    }

    pub(super) fn is_alone(&self) -> bool {
        let count = || self.tools.as_ref().and_then(|tools| tools.threads.count().ok());
        self.shield == Shield::Best && count().is_some_and(|count| count <= self.threads_if_alone())
    }

    /// The program's one, and those of this library.
    fn threads_if_alone(&self) -> usize {
        1 + self.own_threads
    }

    fn protection(&mut self) -> Result<Protection<'_>, PlainReason> {
        if self.is_alone() {
            return Ok(Protection::Alone);
        }
        let (shield, most) = (self.shield, self.threads_if_alone());
        let tools = self.tools.as_mut().ok_or(PlainReason::NoFile)?;
        let userfault = tools.userfault.get_or_insert_with(|| match shield {
            Shield::Best => Userfault::open().ok(),
            Shield::Everything => Userfault::open_with(Reach::Everything).ok(),
            Shield::UserMode => Userfault::open_with(Reach::UserMode).ok(),
            Shield::None => None,
        });
        match userfault {
            Some(userfault) => Ok(Protection::Userfault(userfault)),
            // Its program may just have joined the others.
            None if shield == Shield::Best && tools.threads.are_at_most(most) => Ok(Protection::Alone),
            None => Err(PlainReason::NoProtection),
        }
    }

    /// Adopts the parts of a plan that are not yet; returns the pages copied. `pinned`: the kernel holds pages of the process.
    fn adopt_new(&mut self, plan: &[Planned], pinned: bool) -> Result<usize, PlainReason> {
        let mut copied = 0;
        // Nobody holds a page that was never touched, so this is asked only before the first that was.
        let mut holder = None;
        // Asked again: the hook may have taken its time.
        let alone = self.is_alone();
        if !alone {
            self.protection()?;
        }
        for (index, planned) in plan.iter().enumerate() {
            let Some(ordinary) = planned.new else { continue };
            let span = Span {
                start: planned.start,
                end: planned.end,
                offset: offset_of(planned.layer, planned.start),
                rights: ordinary.rights,
            };
            if ordinary.of_other_file && populate(span.start, span.end - span.start, true).is_err() {
                self.undo(&plan[..index], planned, planned.start);
                return Err(PlainReason::Failed);
            }
            let tools = self.tools.as_mut().ok_or(PlainReason::NoFile)?;
            let protection = match &tools.userfault {
                _ if alone => Protection::Alone,
                Some(Some(userfault)) => Protection::Userfault(userfault),
                _ => return Err(PlainReason::NoProtection),
            };
            if ordinary.advice != AreaAdvice::NONE {
                let to = span.offset + (span.end - span.start) as u64;
                match self.advised.last_mut() {
                    Some((_, end, advice)) if *end == span.offset && *advice == ordinary.advice => *end = to,
                    _ => self.advised.push((span.offset, to, ordinary.advice)),
                }
            }
            let status = &tools.status;
            let look = || match pinned {
                true => Some(PlainReason::KernelPins),
                false => status.has_driver().then_some(PlainReason::DriverPins),
            };
            let mut before_data = || match holder.get_or_insert_with(look) {
                Some(_) => Err(io::ErrorKind::ResourceBusy.into()),
                None => Ok(()),
            };
            match switching::share(
                tools.file,
                &mut tools.pages,
                protection,
                span,
                ordinary.of_file,
                &mut before_data,
            ) {
                Ok(pages) => copied += pages,
                Err((reached, _)) => {
                    self.undo(&plan[..index], planned, reached);
                    return Err(holder.flatten().unwrap_or(PlainReason::Failed));
                }
            }
            if ordinary.advice != AreaAdvice::NONE {
                // That it is wiped on a fork is nothing that a mapping of a file can be told.
                let _ = ordinary.advice.give(span.start, span.end - span.start);
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
                self.give_back_places(from, to);
            }
        }
        let (from, to) = (offset_of(failed.layer, reached), offset_of(failed.layer, failed.end));
        self.forget_advice(from, to);
        if let Some(tools) = &self.tools
            && !self.places.once.overlaps(from, to)
        {
            self.places.clear(tools.file, from, to);
        }
    }
}
