//! Shadows: memory as peers see it where nothing keeps it the same as the program sees it (non-coherent memory).
//!
//! A shadow is a copy of bytes that regions are on, of the owner's alone. Caches hold memory and not regions, so a byte has one
//! shadow, however many regions there are on it. What peers write lands there, and is noted; what they read comes from
//! there. Nothing passes between the shadow and the program's memory but when the program says so.
//!
//! The program's memory stands for the processor's cache. What it stores and does not make consistent before a peer writes, or
//! stores to bytes that a peer wrote and it was not shown, is a cache line that goes back over the peer's bytes, or is
//! lost. Which, and when, follows from a seed. A line is harmed only if the two met in a byte of it: programs that keep
//! to their ranges are not hurt by what lies beside them.

mod common;
mod cover;
mod page;
mod slot;
mod state;
#[cfg(test)]
mod tests;
mod tosses;

use std::collections::{HashMap, TryReserveError};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

pub use self::common::CommonShadow;
use self::page::{Page, SIZE};
use self::state::{State, read};
use self::tosses::Tosses;
use crate::ledger::{LedgerError, MemoryFile};
use crate::{SharedSlice, Translation};

/// Where the positions of device memory begin, behind all addresses.
const DEVICES: u64 = 1 << 60;
/// Positions of a device.
const DEVICE: u32 = 48;

/// A region's part of the shadows.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    /// Position of its first byte: the same for the same byte, whatever region is on it.
    start: u64,
    length: u64,
    /// The program's memory.
    pub(crate) program: Translation,
}

impl Shadow {
    fn of(program: Translation, length: u64) -> Option<Self> {
        let start = match program {
            Translation::Plain { address }
            | Translation::Adopted { address, .. }
            | Translation::SharedFile { address, .. } => address as u64,
            Translation::Device { device, offset } => DEVICES + (u64::from(device) << DEVICE) + offset,
            Translation::Shadow { .. } | Translation::OnDemand { .. } | Translation::Null => return None,
        };
        start.checked_add(length)?;
        Some(Self { start, length, program })
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    fn all(&self) -> Range<u64> {
        self.start..self.start + self.length
    }

    /// Positions of `length` bytes from `offset`, if they are inside.
    pub(crate) fn positions(&self, offset: u64, length: u64) -> Option<Range<u64>> {
        let end = offset.checked_add(length).filter(|end| *end <= self.length)?;
        Some(self.start + offset..self.start + end)
    }
}

/// Why there is no shadow.
#[derive(Debug, thiserror::Error)]
pub enum ShadowError {
    /// The memory is a shadow itself.
    #[error("a shadow has no shadow")]
    OfShadow,
    /// All numbers are used up.
    #[error("no number is left")]
    NoNumber,
    /// No memory.
    #[error("no memory for a shadow: {0}")]
    Memory(#[from] TryReserveError),
    /// The kernel does not let a shadow that processes have in common be written.
    #[error("a shadow in common cannot be kept: {0}")]
    System(#[from] std::io::Error),
}

/// Bytes of the program, by their offsets in the region.
pub(crate) trait Program {
    /// `None`: there are none.
    fn bytes(&self, offsets: Range<u64>) -> Option<SharedSlice<'_>>;
}

/// The shadows of a process. Regions are known by numbers, none of which is used twice.
#[derive(Debug, Default)]
pub struct Shadows {
    numbered: RwLock<Numbered>,
    living: AtomicUsize,
    /// Held also while bytes are copied: what is noted is there, and nothing half copied is overwritten.
    state: Mutex<State>,
    /// Those of this process that others have, too.
    in_common: Mutex<HashMap<MemoryFile, Weak<CommonShadow>>>,
}

/// Where the memory under a shadow lies in what processes share.
#[derive(Clone, Copy, Debug)]
pub struct InCommon<'a> {
    /// The shadow of that.
    pub shadow: &'a Arc<CommonShadow>,
    /// Offset of the first byte, as far from the beginning of a page as its address.
    pub offset: u64,
}

#[derive(Debug, Default)]
struct Numbered {
    next: u32,
    regions: HashMap<u32, Arc<Shadow>>,
}

/// The parts of positions that lie in one page each: number of the page, place in it, positions.
fn parts(all: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>, Range<u64>)> {
    const PAGE: u64 = SIZE as u64;
    let numbers = if all.is_empty() { 0..0 } else { all.start / PAGE..(all.end - 1) / PAGE + 1 };
    numbers.map(move |number| {
        let part = all.start.max(number * PAGE)..all.end.min((number + 1) * PAGE);
        let from = (part.start - number * PAGE) as usize;
        (number, from..from + (part.end - part.start) as usize, part)
    })
}

impl Shadows {
    /// Where the tosses begin.
    pub fn set_seed(&self, seed: u64) {
        self.state().tosses = Tosses::of(seed);
    }

    /// Whether there are none.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.living.load(Ordering::Relaxed) == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shadow that processes have in common of a file's memory.
    pub fn in_common(&self, memory: MemoryFile) -> Result<Arc<CommonShadow>, LedgerError> {
        let mut known = self.in_common.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shadow) = known.get(&memory).and_then(Weak::upgrade) {
            return Ok(shadow);
        }
        known.retain(|_, shadow| shadow.strong_count() > 0);
        let shadow = Arc::new(CommonShadow::open(memory)?);
        known.insert(memory, Arc::downgrade(&shadow));
        Ok(shadow)
    }

    /// A number for a shadow of `length` bytes, which peers see as the program sees them now, all but what they wrote to them
    /// through other regions. With a shadow in common, those of other processes are among them.
    pub(crate) fn add(
        &self,
        memory: Translation,
        length: u64,
        program: &impl Program,
        in_common: Option<InCommon<'_>>,
    ) -> Result<u32, ShadowError> {
        let shadow = Shadow::of(memory, length).ok_or(ShadowError::OfShadow)?;
        let mut state = self.state();
        state.make_room(&shadow.all(), in_common)?;
        self.living.fetch_add(1, Ordering::Relaxed);
        let covered = state.cover(&shadow.all(), in_common);
        drop(state);
        let filled = covered.map_err(ShadowError::from).and_then(|()| self.fill(&shadow, program));
        let number = filled.and_then(|()| self.enter(shadow));
        number.inspect_err(|_| self.leave(&shadow))
    }

    fn fill(&self, shadow: &Shadow, program: &impl Program) -> Result<(), ShadowError> {
        for (_, _, positions) in parts(shadow.all()) {
            let filled = self.publish(shadow, positions, program);
            filled.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::StorageFull))?;
        }
        Ok(())
    }

    fn enter(&self, shadow: Shadow) -> Result<u32, ShadowError> {
        let mut numbered = self.numbered.write().unwrap_or_else(PoisonError::into_inner);
        let number = numbered.next;
        numbered.next = number.checked_add(1).ok_or(ShadowError::NoNumber)?;
        numbered.regions.insert(number, Arc::new(shadow));
        Ok(number)
    }

    /// A region has gone. Bytes that no other is on lose their shadow, and what peers wrote there is dropped.
    pub fn remove(&self, number: u32) {
        let removed = self.numbered.write().unwrap_or_else(PoisonError::into_inner).regions.remove(&number);
        if let Some(shadow) = removed {
            self.leave(&shadow);
        }
    }

    fn leave(&self, shadow: &Shadow) {
        let mut state = self.state();
        state.cover.remove(&shadow.all());
        for bare in state.cover.bare(&shadow.all()) {
            for (number, place, _) in parts(bare) {
                if let Some(slot) = state.pages.get_mut(&number) {
                    slot.uncover(&place);
                }
                let whole = number * SIZE as u64..(number + 1) * SIZE as u64;
                if state.cover.bare(&whole) == [whole] {
                    state.pages.remove(&number);
                }
            }
        }
        drop(state);
        self.living.fetch_sub(1, Ordering::Relaxed);
    }

    /// The shadow of a number.
    pub fn find(&self, number: u32) -> Option<Arc<Shadow>> {
        self.numbered.read().unwrap_or_else(PoisonError::into_inner).regions.get(&number).cloned()
    }

    /// What peers read at some positions.
    pub(crate) fn read(&self, positions: Range<u64>, destination: &mut [u8]) {
        let (state, first) = (self.state(), positions.start);
        for (number, place, part) in parts(positions) {
            let Some(slot) = state.pages.get(&number) else { continue };
            let from = (part.start - first) as usize;
            slot.read(&place, &mut destination[from..from + place.len()]);
        }
    }

    /// Places what a peer writes.
    pub(crate) fn write(
        &self,
        shadow: &Shadow,
        positions: Range<u64>,
        source: SharedSlice<'_>,
        program: &impl Program,
    ) {
        let (mut state, first) = (self.state(), positions.start);
        let mut harmed = false;
        for (number, place, part) in parts(positions) {
            let from = source.part((part.start - first) as usize, place.len());
            let write = |bytes: &mut [u8]| from.read(bytes);
            state.land(shadow, (number, place, part), program, &mut harmed, write);
        }
    }

    /// Has a peer change the word at a position. `None`, and nothing happens, if it is not aligned.
    pub(crate) fn change<R>(
        &self,
        shadow: &Shadow,
        word: Range<u64>,
        program: &impl Program,
        change: impl FnOnce(SharedSlice<'_>) -> R,
    ) -> Option<R> {
        const WORD: u64 = 8;
        if word.end - word.start != WORD || !word.start.is_multiple_of(WORD) {
            return None;
        }
        let part = parts(word).next()?;
        let change = |bytes: &mut [u8]| change(SharedSlice::of_private(bytes));
        self.state().land(shadow, part, program, &mut false, change)
    }

    /// Makes positions consistent: the program sees what peers wrote there, and peers what the program stored.
    pub(crate) fn synchronize(&self, shadow: &Shadow, positions: Range<u64>, program: &impl Program) {
        self.for_pages(shadow, positions, program, |page, place, from, held, tosses| {
            page.settle(place, held, tosses);
            page.publish(place, held);
            page.take(place, |piece, bytes| {
                let offset = from + (piece.start - place.start) as u64;
                if let Some(target) = program.bytes(offset..offset + bytes.len() as u64) {
                    target.write(bytes);
                }
            });
        });
    }

    /// Has peers see what the program stored at positions, all but where they wrote themselves and the program was not shown.
    /// `None`: not all could be written.
    pub(crate) fn publish(
        &self,
        shadow: &Shadow,
        positions: Range<u64>,
        program: &impl Program,
    ) -> Option<()> {
        self.for_pages(shadow, positions, program, |page, place, _, held, tosses| {
            page.settle(place, held, tosses);
            page.publish(place, held);
        })
    }

    /// Runs `run` with every page of some positions: its part of them, where that begins in the region, and what the program's
    /// memory holds there. Peers are let in between two pages.
    fn for_pages(
        &self,
        shadow: &Shadow,
        positions: Range<u64>,
        program: &impl Program,
        mut run: impl FnMut(&mut Page, &Range<usize>, u64, &[u8], &mut Tosses),
    ) -> Option<()> {
        let (mut buffer, mut done) = ([0; SIZE], Some(()));
        for (number, place, part) in parts(positions) {
            let mut state = self.state();
            let State { pages, tosses, .. } = &mut *state;
            let Some(slot) = pages.get_mut(&number) else { continue };
            // In the page's turn: another process may be about to show the program what peers wrote.
            let ran = slot.with(|page| {
                if let Some(held) = read(shadow, program, &part, &mut buffer) {
                    run(page, &place, part.start - shadow.start, held, tosses);
                }
            });
            done = done.and(ran);
        }
        done
    }

    /// The device itself wrote to the program's memory: what it received or read. Peers see it too, and have written nothing
    /// since.
    pub(crate) fn device_wrote(&self, memory: Translation, bytes: SharedSlice<'_>) {
        let Some(written) = Shadow::of(memory, bytes.length() as u64).map(|shadow| shadow.all()) else {
            return;
        };
        let first = written.start;
        let mut state = self.state();
        let mut buffer = [0; SIZE];
        for (number, place, part) in parts(written) {
            let Some(slot) = state.pages.get_mut(&number) else { continue };
            let buffer = &mut buffer[..place.len()];
            bytes.part((part.start - first) as usize, place.len()).read(buffer);
            slot.with(|page| page.place(&place, buffer));
        }
    }
}
