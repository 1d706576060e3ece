//! Fences: marks in the order of asynchronous operations, and what waits for them.
//!
//! An operation that is carried out in the call itself is complete when the call returns, so only those left to the copier
//! count. A mark is how many of them a side had started; each side's numbers stand in its area of the segment, where the other
//! side reads them without its program's help.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use nonic_sys::{cpu_relax, nap, process_has_ended, yield_now};

use super::RegisteredMemory;
use super::area::Area;
use super::copier::{self, Work};
use super::copying::{self, Part, Transfer};
use super::rma::parts_of;
use super::slots::{Range, enter, leave};
use crate::ScifError;
use crate::options::{Initiator, Protection};

/// The bit of a mark that says that it is the peer's.
const OF_PEER: u32 = 1 << 31;
/// Bits of a mark that are the number.
const NUMBER: u64 = OF_PEER as u64 - 1;
/// Bytes of what a signal stores.
const VALUE: usize = 8;
/// Looks before a wait begins to sleep, and between two of them.
const SPINS: u32 = 2000;
const NAP: Duration = Duration::from_micros(50);
/// A wait this long asks whether the process is alive that it waits for.
const NAPS_UNTIL_DOUBT: u32 = 100;

/// The store of a signal: into bytes of one window.
#[derive(Debug)]
pub(super) struct Store {
    destination: Vec<Part>,
    value: u64,
}

impl Store {
    /// Has its place mapped.
    pub(super) fn prepare(&self) -> Result<(), ScifError> {
        self.destination.iter().try_for_each(|part| part.prepare(true))
    }

    pub(super) fn run(self) -> Result<(), ScifError> {
        // The value is this function's own and stands as long as the copy runs.
        let value = self.value.to_ne_bytes();
        Transfer::new(self.destination, vec![copying::bytes_out(&value)], false, 0).run()
    }
}

/// How far the asynchronous operations of a side are.
fn is_complete(area: &Area, target: u64) -> bool {
    area.completed().load(Ordering::Acquire).wrapping_sub(target) as i64 >= 0
}

/// Whether the process that carries out a side's operations is there no more: then nothing is under way.
pub(super) fn is_abandoned(area: &Area) -> bool {
    let pid = area.queue_owner().load(Ordering::Relaxed) as i32;
    pid != 0 && process_has_ended(pid)
}

/// Whether what a side had started up to `target` is over.
pub(super) fn is_over(area: &Area, target: u64, thorough: bool) -> bool {
    is_complete(area, target) || (thorough && is_abandoned(area))
}

impl RegisteredMemory {
    fn side(&self, initiator: Initiator) -> &Area {
        match initiator {
            Initiator::Own => &self.own,
            Initiator::Peer => &self.peer,
        }
    }

    /// Marks what a side has started so far.
    pub(crate) fn fence_mark(&self, initiator: Initiator) -> Result<i32, ScifError> {
        let number = (self.side(initiator).started().load(Ordering::Acquire) & NUMBER) as u32;
        Ok(match initiator {
            Initiator::Own => number,
            Initiator::Peer => number | OF_PEER,
        } as i32)
    }

    /// Waits until all that was marked is complete.
    pub(crate) fn fence_wait(&self, mark: i32) -> Result<(), ScifError> {
        let mark = mark as u32;
        let initiator = if mark & OF_PEER != 0 { Initiator::Peer } else { Initiator::Own };
        let area = self.side(initiator);
        let started = area.started().load(Ordering::Acquire);
        // The last position of this number.
        let back = started.wrapping_sub(u64::from(mark)) & NUMBER;
        let target = started.checked_sub(back).ok_or(ScifError::Invalid("no such mark was given"))?;
        self.wait_for(area, target, true)
    }

    fn wait_for(&self, area: &Area, target: u64, interruptible: bool) -> Result<(), ScifError> {
        let (mut rounds, mut naps) = (0u32, 0u32);
        while !is_complete(area, target) {
            rounds += 1;
            if rounds < SPINS {
                if rounds.is_multiple_of(64) {
                    yield_now()
                } else {
                    cpu_relax()
                }
                continue;
            }
            if nap(NAP) && interruptible {
                return Err(ScifError::Interrupted);
            }
            naps += 1;
            if naps.is_multiple_of(NAPS_UNTIL_DOUBT) && is_abandoned(area) {
                break;
            }
            if area.is(&self.peer) && (self.peer_is_gone)() {
                return Err(ScifError::Reset);
            }
        }
        Ok(())
    }

    /// Waits until what this side has started is complete; at once if there is nothing.
    #[inline]
    pub(crate) fn settle(&self) {
        let started = self.own.started().load(Ordering::Acquire);
        if self.own.completed().load(Ordering::Acquire) != started {
            let _ = self.wait_for(&self.own, started, false);
        }
    }

    /// Stores values into own windows and then into the peer's when all that a side has started so far is complete.
    pub(crate) fn fence_signal(
        self: &Arc<Self>,
        local: Option<(i64, u64)>,
        remote: Option<(i64, u64)>,
        initiator: Initiator,
    ) -> Result<(), ScifError> {
        for (offset, _) in local.iter().chain(&remote) {
            if offset % 4 != 0 {
                return Err(ScifError::Invalid("the offset of a signal is a multiple of 4"));
            }
        }
        let range = |place: Option<(i64, u64)>| -> Result<Range, ScifError> {
            let Some((offset, _)) = place else { return Ok(Range::default()) };
            let start = u64::try_from(offset).map_err(|_| ScifError::NoWindow)?;
            Ok(Range { start, length: VALUE as u64 })
        };
        let (own_range, peer_range) = (range(local)?, range(remote)?);
        let slot = enter(&self.own, self.process().pid, own_range, peer_range);
        let stores = match self.stores(local, remote) {
            Ok(stores) => stores,
            Err(error) => {
                leave(&self.own, slot);
                return Err(error);
            }
        };
        let area = self.side(initiator);
        let target = area.started().load(Ordering::Acquire);
        if is_complete(area, target) {
            fence(Ordering::SeqCst);
            let stored = stores.into_iter().try_for_each(Store::run);
            leave(&self.own, slot);
            return stored;
        }
        let work = match initiator {
            Initiator::Own => Work::Signal(stores),
            Initiator::Peer => Work::SignalAfterPeer { target, stores },
        };
        if let Err(error) = work.prepare() {
            leave(&self.own, slot);
            return Err(error);
        }
        let Err((work, slot)) = self.leave_to_copier(work, slot) else { return Ok(()) };
        // Nobody else can wait for it: this call does.
        let waited = self.wait_for(area, target, true);
        let stored = waited.and_then(|()| copier::carry_out(work));
        leave(&self.own, slot);
        stored
    }

    fn stores(&self, local: Option<(i64, u64)>, remote: Option<(i64, u64)>) -> Result<Vec<Store>, ScifError> {
        let mut mirrors = self.process().mirrors.lock();
        mirrors.own.refresh();
        mirrors.peer.refresh();
        let mut stores = Vec::with_capacity(2);
        if let Some((offset, value)) = local {
            let destination = parts_of(&mut mirrors.own, offset as u64, VALUE, Protection::WRITE, true)?;
            stores.push(Store { destination, value });
        }
        if let Some((offset, value)) = remote {
            let destination = parts_of(&mut mirrors.peer, offset as u64, VALUE, Protection::WRITE, true)?;
            stores.push(Store { destination, value });
        }
        Ok(stores)
    }

    /// The numbers of this side, for the copier.
    pub(super) fn started(&self) -> &AtomicU64 {
        self.own.started()
    }
}
