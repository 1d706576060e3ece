//! Giving pages back.

use std::io;

use nonic_sys::{AreaAdvice, Backing, is_locked, lock_pages};

use super::{ADDRESS_MASK, State, Tools, quietly};
use crate::adoption::places::offset_of;
use crate::adoption::process::Holder;
use crate::adoption::survey::{adopted_layer, layer_at_home};
use crate::adoption::switching::{self, Span};
use crate::adoption::telling::{MAY_BE_HELD, NOT_GIVEN_BACK};
use crate::adoption::{AdoptedPages, LAYER_BITS};

impl State {
    /// Gives back what could not be given back: because somebody held pages, if nobody does any more.
    pub(super) fn settle_held_back(&mut self) {
        if !self.held_back || self.tools.as_ref().is_none_or(|tools| tools.status.holder().is_some()) {
            return;
        }
        self.held_back = false;
        let idle: Vec<_> = self.places.adopted.all().filter(|(_, _, uses)| *uses == 0).collect();
        for (from, to, _) in idle {
            self.settle(from, to);
        }
    }

    /// Has idle pages given back when the next region begins or ends, and not now.
    fn put_off(&mut self) {
        self.held_back = true;
    }

    /// A region ends that used these pages.
    pub(in crate::adoption) fn release(&mut self, pages: &AdoptedPages) {
        self.settle_held_back();
        self.settle_idle_windows();
        let (from, to) = (offset_of(pages.layer, pages.start), offset_of(pages.layer, pages.end));
        self.places.adopted.release(from, to);
        self.settle(from, to);
    }

    /// Gives back the pages of a range of the file that nobody uses.
    pub(super) fn settle(&mut self, from: u64, to: u64) {
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
        let has_data = |tools: &Tools| {
            // Nobody holds pages that are not there.
            idle.iter().any(|(from, to)| !matches!(tools.file.next_page(*from, *to), Ok(None)))
        };
        let holder =
            self.tools.as_ref().filter(|tools| has_data(tools)).and_then(|tools| tools.status.holder());
        if let Some(holder) = holder {
            // Whoever holds pages goes on with them, so these have to stay the program's.
            if holder == Holder::Driver {
                MAY_BE_HELD.say();
            }
            return self.put_off();
        }
        if !self.windows.is_empty() && !self.is_alone() {
            let of_windows = |(from, to): &mut (u64, u64)| self.windows.overlaps(*from, *to);
            let left: Vec<_> = idle.extract_if(.., of_windows).collect();
            for (start, end) in left {
                self.leave_idle(start, end);
            }
        }
        let quiet = self.quiet.clone();
        quietly(quiet, || {
            for (start, end) in idle {
                self.give_back_places(start, end);
            }
        });
    }

    /// Leaves pages of ended windows as they are, as long as they are mapped somewhere.
    fn leave_idle(&mut self, from: u64, to: u64) {
        match self.mappings_of(from, to) {
            Ok(spans) if spans.is_empty() => {
                let Some(file) = self.tools.as_ref().map(|tools| tools.file) else { return };
                self.places.forget_gone_children(file);
                self.places.adopted.remove(from, to);
                self.windows.remove(from, to);
                self.forget_advice(from, to);
                self.places.leave_to_children(from, to);
                self.places.clear(file, from, to);
            }
            _ => self.idle_bytes += to - from,
        }
    }

    /// Has ended windows leave the places that new pages at these addresses could take: the program has mapped something else there.
    pub(super) fn make_way(&mut self, start: usize, end: usize) {
        if self.windows.is_empty() {
            return;
        }
        let last = self.windows.last_end().map_or(0, |end| ((end - 1) >> LAYER_BITS) as u16);
        for layer in 0..=last {
            let (from, to) = (offset_of(layer, start), offset_of(layer, end));
            let is_idle =
                |(from, to, uses): &(u64, u64, u32)| *uses == 0 && self.windows.overlaps(*from, *to);
            if self.places.adopted.within(from, to).any(|run| is_idle(&run)) {
                self.settle(from, to);
            }
        }
    }

    /// Gives back what ended windows left, if that is safe by now; else, if it has become much, what is not mapped any more.
    pub(super) fn settle_idle_windows(&mut self) {
        if self.idle_bytes == 0 || (self.idle_bytes <= self.idle_limit && !self.is_alone()) {
            return;
        }
        self.idle_bytes = 0;
        let idle: Vec<_> = self.places.adopted.all().filter(|(_, _, uses)| *uses == 0).collect();
        for (from, to, _) in idle {
            self.settle(from, to);
        }
        self.idle_limit = super::IDLE_LIMIT.max(2 * self.idle_bytes);
    }

    /// Makes the pages at these places of the file private again, wherever they are mapped.
    pub(super) fn give_back_places(&mut self, from: u64, to: u64) {
        let stopped_peer = self.stopped_peers > 0;
        let alone = self.is_alone();
        let Some(file) = self.tools.as_ref().map(|tools| tools.file) else { return };
        let is_wiped = |(low, high, advice): &(u64, u64, AreaAdvice)| {
            advice.wipes_on_fork() && *low < to && *high > from
        };
        if !alone && self.advised.iter().any(is_wiped) {
            // What it would become could not be told to be wiped.
            return self.put_off();
        }
        let Ok(spans) = self.mappings_of(from, to) else { return self.put_off() };
        self.places.forget_gone_children(file);
        // Piece by piece, if this is all there is to it.
        let is_all = |span: &Span| span.offset == from && span.end - span.start == (to - from) as usize;
        let empty = matches!(&spans[..], [span] if is_all(span)) && !self.places.children_read();
        let (mut kept, mut show_file, mut failed) = (Vec::new(), Vec::new(), false);
        for span in spans {
            let locked = is_locked(span.start, span.end - span.start);
            let given = if alone {
                switching::give_back_alone(file, span, empty, || Ok(()))
            } else {
                let given = switching::give_back_running(file, span, stopped_peer, empty, &mut show_file);
                let reached = given.as_ref().map_or_else(|(reached, _)| *reached, |()| span.end);
                kept.push((span.offset, span.offset + (reached - span.start) as u64));
                given
            };
            self.advise_again(&span);
            if locked {
                // The limit cannot be in the way: as much was locked until now.
                let _ = lock_pages(span.start, span.end - span.start);
            }
            failed |= given.is_err();
        }
        for (start, end) in kept {
            self.places.once.keep(start, end);
        }
        for (start, end) in show_file {
            // For ever: the program reads these bytes from the file.
            self.places.adopted.add(start, end);
            failed = true;
        }
        if failed {
            // The bytes are in the file, and some of the memory still shows it: it stays so, and the place stays taken.
            NOT_GIVEN_BACK.say();
            return self.put_off();
        }
        self.places.adopted.remove(from, to);
        self.forget_advice(from, to);
        self.windows.remove(from, to);
        if stopped_peer {
            self.places.stopped.keep(from, to);
        }
        if !empty {
            self.places.leave_to_children(from, to);
            self.places.clear(file, from, to);
        }
    }

    /// Keeps memory that was given back out of children and dumps, if the program kept it out before.
    fn advise_again(&self, span: &Span) {
        let span_end = span.offset + (span.end - span.start) as u64;
        for (from, to, advice) in &self.advised {
            let (low, high) = ((*from).max(span.offset), (*to).min(span_end));
            if low < high {
                let _ = advice.give(span.start + (low - span.offset) as usize, (high - low) as usize);
            }
        }
    }

    /// The advice about a range of the file is no more.
    pub(super) fn forget_advice(&mut self, from: u64, to: u64) {
        let touching = |(low, high, _): &mut (u64, u64, AreaAdvice)| *low < to && *high > from;
        let touched: Vec<_> = self.advised.extract_if(.., touching).collect();
        for (low, high, advice) in touched {
            let parts = [(low, high.min(from), advice), (low.max(to), high, advice)];
            self.advised.extend(parts.into_iter().filter(|(low, high, _)| low < high));
        }
    }

    /// Every shared mapping in this process of a range of the file: at its own address, or where the program moved it.
    pub(super) fn mappings_of(&self, from: u64, to: u64) -> io::Result<Vec<Span>> {
        let tools = self.tools.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let layer = (from >> LAYER_BITS) as u16;
        let (start, end) = ((from & ADDRESS_MASK) as usize, (to & ADDRESS_MASK) as usize);
        let (mut spans, mut at) = (Vec::new(), start);
        let (mut complete, mut walk) = (true, tools.areas.walk(start));
        while at < end {
            let area = walk.next().transpose()?.filter(|area| area.start < end);
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
        for area in tools.areas.walk(0) {
            let area = area?;
            let Backing::SharedFile { device, inode, offset } = area.backing else { continue };
            if (device, inode) != tools.file.identity() || layer_at_home(&area, offset).is_some() {
                continue;
            }
            if self.views.overlaps(area.start as u64, area.end as u64) {
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
}
