//! Giving pages back.

use std::io;

use nonic_sys::{Backing, is_locked, lock_pages};

use super::{ADDRESS_MASK, State, quietly};
use crate::adoption::places::offset_of;
use crate::adoption::survey::{adopted_layer, layer_at_home};
use crate::adoption::switching::{self, Span};
use crate::adoption::{AdoptedPages, LAYER_BITS};

impl State {
    /// Gives back what the kernel's pins forbade to give back, if there are none any more.
    pub(super) fn settle_held_back(&mut self) {
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
    pub(in crate::adoption) fn release(&mut self, pages: &AdoptedPages, stopped_peer: bool) {
        self.settle_held_back();
        self.settle_idle_windows();
        let (from, to) = (offset_of(pages.layer, pages.start), offset_of(pages.layer, pages.end));
        self.places.adopted.release(from, to);
        self.settle(from, to, stopped_peer);
    }

    /// Gives back the pages of a range of the file that nobody uses.
    pub(super) fn settle(&mut self, from: u64, to: u64, stopped_peer: bool) {
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
                self.give_back_places(start, end, stopped_peer);
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
                self.advised.retain(|(start, end, _)| *start < from || *end > to);
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
                self.settle(from, to, false);
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
            self.settle(from, to, false);
        }
        self.idle_limit = super::IDLE_LIMIT.max(2 * self.idle_bytes);
    }

    /// Makes the pages at these places of the file private again, wherever they are mapped.
    pub(super) fn give_back_places(&mut self, from: u64, to: u64, stopped_peer: bool) {
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
            self.advise_again(&span);
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
        self.advised.retain(|(start, end, _)| *start < from || *end > to);
        self.windows.remove(from, to);
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

    /// Every shared mapping in this process of a range of the file: at its own address, or where the program moved it.
    pub(super) fn mappings_of(&self, from: u64, to: u64) -> io::Result<Vec<Span>> {
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
