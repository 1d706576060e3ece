//! A child leaves its parent's file: every mapping of it becomes memory of the child's own, or is no more.
//!
//! Nothing may be allocated or freed here: another thread of the parent may have held the allocator's lock.

use std::io;

use nonic_sys::{AddressFile, AreaAdvice, AreaMap, Backing, MemoryArea};

use super::LAYER_BITS;
use super::handshake::Handshake;
use super::runs::Runs;
use super::switching::{self, Span, block};
use super::telling::NOT_IN_CHILD;

/// Where nothing can be copied, so much is given up before it is tried again; the next time more.
const GIVEN_UP: usize = 256 << 10;

/// A child on its way out.
pub(super) struct Leaving<'a> {
    pub(super) file: &'a AddressFile,
    /// What the parent had adopted.
    pub(super) adopted: &'a Runs,
    /// Places of it that the program keeps out of children or core dumps.
    pub(super) advised: &'a [(u64, u64, AreaAdvice)],
    /// There is too much to copy: the child reads from the file what it has not written itself.
    pub(super) read_later: bool,
    /// None: the parent does not wait.
    pub(super) parent: Option<&'a Handshake>,
}

impl Leaving<'_> {
    /// Leaves.
    pub(super) fn leave(&self) {
        if !self.leave_all() {
            NOT_IN_CHILD.say();
        }
    }

    /// Whether nothing was lost.
    fn leave_all(&self) -> bool {
        let Ok(areas) = AreaMap::open() else {
            self.block_at_home(0);
            return false;
        };
        let (mut complete, mut at) = (true, 0);
        for area in areas.walk(0) {
            let Ok(area) = area else {
                self.block_at_home(at);
                return false;
            };
            at = area.end;
            complete &= self.leave_area(&area);
        }
        complete
    }

    fn leave_area(&self, area: &MemoryArea) -> bool {
        let Backing::SharedFile { device, inode, offset } = area.backing else { return true };
        if (device, inode) != self.file.identity() {
            return true;
        }
        let whole = Span { start: area.start, end: area.end, offset, rights: area.rights() };
        let (mut complete, mut at) = (true, area.start);
        while at < area.end {
            let (end, advice) = self.advice_at(&whole, at);
            let part = whole.part(at, end);
            if !advice.wipes_on_fork() {
                complete &= self.take_along(&part);
            } else if switching::wipe(&part).is_err() {
                complete = false;
                block(at, end);
            }
            // A kernel built without core dumps may refuse.
            let _ = advice.give(at, end - at);
            at = end;
        }
        complete
    }

    /// What the program said of the page at `at`, and where that ends.
    fn advice_at(&self, span: &Span, at: usize) -> (usize, AreaAdvice) {
        let (mut end, mut found) = (span.offset_of(span.end), AreaAdvice::NONE);
        let here = span.offset_of(at);
        for (from, to, advice) in self.advised {
            if (*from..*to).contains(&here) {
                (end, found) = (end.min(*to), *advice);
            } else if *from > here {
                end = end.min(*from);
            }
        }
        (at + (end - here) as usize, found)
    }

    /// Makes a part of the parent's file the child's own. Whether nothing was lost.
    fn take_along(&self, part: &Span) -> bool {
        let (mut at, mut given_up, mut complete) = (part.start, GIVEN_UP, true);
        while at < part.end {
            let Err((reached, _)) = self.copy(part.part(at, part.end)) else { break };
            complete = false;
            if reached > at {
                given_up = GIVEN_UP;
            }
            let end =
                if self.is_waited_for() { reached.saturating_add(given_up).min(part.end) } else { part.end };
            block(reached, end);
            (at, given_up) = (end, given_up.saturating_mul(2));
        }
        complete
    }

    fn is_waited_for(&self) -> bool {
        self.parent.is_some_and(Handshake::parent_waits)
    }

    fn copy(&self, span: Span) -> Result<(), (usize, io::Error)> {
        if self.read_later {
            return switching::map_privately(self.file, span, usize::MAX, false, |_| Ok(()));
        }
        if !self.is_waited_for() {
            return Err((span.start, io::ErrorKind::TimedOut.into()));
        }
        switching::give_back_alone(self.file, span, false, || {
            if self.is_waited_for() { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
        })
    }

    /// The kernel does not tell what is mapped: takes away all that was adopted, from `start` on, where it was when it was.
    fn block_at_home(&self, start: usize) {
        for (from, to, _) in self.adopted.all() {
            let address = |offset: u64| (offset & ((1 << LAYER_BITS) - 1)) as usize;
            let (low, high) = (address(from), address(to - 1) + 1);
            if high > start {
                block(low.max(start), high);
            }
        }
    }
}
