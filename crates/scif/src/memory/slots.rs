//! Who is inside an operation, and on which offsets: what ending a window looks at.
//!
//! An operation takes a slot of its own side's area before it looks at a table, says there which offsets it is about, and
//! frees the slot after the last byte. Whoever ends a window first changes the table, then looks at the slots. A full fence
//! stands between the two steps on either side, so either the operation sees that the window has ended, or its slot is seen.

use std::cell::Cell;
use std::sync::atomic::{Ordering, fence};

use nonic_sys::{cpu_relax, process_has_ended, yield_now};

use super::area::{Area, SLOTS, Table};

/// Holder, own offset and length, the other side's offset and length, and the holder once more when these are written.
const HOLDER: usize = 0;
const RANGES: usize = 1;
const WRITTEN: usize = 5;

/// Operations that wait for their turn leave so many slots to others.
pub(super) const PARKED_MOST: usize = SLOTS / 2;

/// Looks at a slot whose ranges are not written yet, before it counts as being about everything.
const PATIENCE: u32 = 1000;

/// Offsets an operation is about. Empty: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) length: u64,
}

impl Range {
    fn touches(self, start: u64, end: u64) -> bool {
        self.length > 0 && self.start < end && self.start.saturating_add(self.length) > start
    }
}

/// A taken slot. It must be freed: it is no guard, because some operations are finished by another thread.
#[derive(Debug)]
#[must_use]
pub(super) struct Slot(usize);

thread_local! {
    static SEQUENCE: Cell<u32> = const { Cell::new(0) };
}

fn next_holder(pid: i32) -> u64 {
    let sequence = SEQUENCE.get().wrapping_add(1) | 1;
    SEQUENCE.set(sequence.wrapping_add(1));
    u64::from(pid as u32) << 32 | u64::from(sequence)
}

fn pid_of(holder: u64) -> i32 {
    (holder >> 32) as i32
}

/// Takes a slot in the own area for an operation on own offsets and the peer's. Waits if all are taken.
#[inline]
pub(super) fn enter(area: &Area, pid: i32, own: Range, peers: Range) -> Slot {
    let holder = next_holder(pid);
    let mut line = nonic_sys::thread_place().unwrap_or(0);
    let mut rounds = 0usize;
    loop {
        area.use_line(Table::Slots, line);
        let word = area.word(Table::Slots, line, HOLDER);
        // The exchange is a full fence: the table is looked at after it.
        if word.load(Ordering::Relaxed) == 0
            && word.compare_exchange(0, holder, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            break;
        }
        line = (line + 1) % SLOTS;
        rounds += 1;
        if rounds.is_multiple_of(SLOTS) {
            free_those_of_the_dead(area);
            yield_now();
        }
    }
    for (index, value) in [own.start, own.length, peers.start, peers.length].into_iter().enumerate() {
        area.word(Table::Slots, line, RANGES + index).store(value, Ordering::Relaxed);
    }
    area.word(Table::Slots, line, WRITTEN).store(holder, Ordering::Release);
    #[cfg(not(target_arch = "x86_64"))]
    fence(Ordering::SeqCst);
    Slot(line)
}

/// Frees a slot.
#[inline]
pub(super) fn leave(area: &Area, Slot(line): Slot) {
    area.word(Table::Slots, line, WRITTEN).store(0, Ordering::Release);
    area.word(Table::Slots, line, HOLDER).store(0, Ordering::Release);
}

/// All slots are taken: by processes that were killed inside?
#[cold]
fn free_those_of_the_dead(area: &Area) {
    for line in 0..SLOTS {
        let word = area.word(Table::Slots, line, HOLDER);
        let holder = word.load(Ordering::Relaxed);
        if holder != 0 && process_has_ended(pid_of(holder)) {
            let _ = word.compare_exchange(holder, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
    }
}

/// Whose offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Those of the side the area belongs to.
    Own,
    /// The other side's.
    Peers,
}

/// Whether an operation of the area's side is under way on offsets `start..end`. The caller has changed the table and passed
/// a full fence. `dead` is asked about a process that seems to be inside.
pub(super) fn is_busy(
    area: &Area,
    whose: Whose,
    (start, end): (u64, u64),
    dead: &dyn Fn(i32) -> bool,
) -> bool {
    let first = match whose {
        Whose::Own => RANGES,
        Whose::Peers => RANGES + 2,
    };
    (0..area.used(Table::Slots)).any(|line| {
        let word = |index| area.word(Table::Slots, line, index);
        let mut rounds = 0;
        loop {
            let holder = word(HOLDER).load(Ordering::SeqCst);
            if holder == 0 {
                return false;
            }
            if word(WRITTEN).load(Ordering::Acquire) == holder {
                let range = Range {
                    start: word(first).load(Ordering::Relaxed),
                    length: word(first + 1).load(Ordering::Relaxed),
                };
                fence(Ordering::Acquire);
                if word(WRITTEN).load(Ordering::Relaxed) == holder {
                    return range.touches(start, end) && !dead(pid_of(holder));
                }
            }
            rounds += 1;
            if rounds == PATIENCE {
                return !dead(pid_of(holder));
            }
            cpu_relax();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::area::AREA_LENGTH;
    use nonic_sys::SharedMapping;
    use std::sync::Arc;

    fn area() -> Area {
        Area::new(Arc::new(SharedMapping::anonymous(AREA_LENGTH).unwrap()), 0)
    }

    const NOBODY_IS_DEAD: &dyn Fn(i32) -> bool = &|_| false;

    #[test]
    fn an_operation_is_seen_on_the_offsets_it_is_about_and_on_no_others() {
        let area = area();
        let (own, peers) = (Range { start: 100, length: 50 }, Range { start: 1000, length: 1 });
        let slot = enter(&area, 7, own, peers);
        let busy = |whose, from, to| is_busy(&area, whose, (from, to), NOBODY_IS_DEAD);
        assert!(busy(Whose::Own, 149, 200) && busy(Whose::Own, 0, 101) && busy(Whose::Peers, 1000, 1001));
        assert!(!busy(Whose::Own, 150, 200) && !busy(Whose::Own, 0, 100) && !busy(Whose::Own, 1000, 1001));
        assert!(!busy(Whose::Peers, 1001, 2000) && !busy(Whose::Peers, 100, 150));
        assert!(!is_busy(&area, Whose::Own, (100, 150), &|pid| pid == 7), "a dead process is inside nothing");
        leave(&area, slot);
        assert!(!busy(Whose::Own, 0, u64::MAX) && !busy(Whose::Peers, 0, u64::MAX));
    }

    #[test]
    fn an_operation_that_has_not_said_its_offsets_may_be_about_any() {
        let area = area();
        let Slot(line) = enter(&area, 7, Range::default(), Range::default());
        area.word(Table::Slots, line, WRITTEN).store(0, Ordering::Relaxed);
        assert!(is_busy(&area, Whose::Own, (0, 1), NOBODY_IS_DEAD));
    }

    #[test]
    fn slots_of_processes_that_were_killed_inside_are_used_again() {
        let area = area();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id() as i32;
        child.wait().unwrap();
        for _ in 0..2 * SLOTS {
            let _ = enter(&area, dead, Range::default(), Range::default());
        }
    }
}
