//! Remote reads and writes: carried out by whoever asks for them, on memory of both sides that it has mapped.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::copier::{self, Job, Work};
use super::copying::{Part, Transfer, program};
use super::mirror::Mirror;
use super::record::SPACE_END;
use super::slots::{PARKED_MOST, Range, Slot, enter, leave};
use super::{Mirrors, RegisteredMemory};
use crate::ScifError;
use crate::options::{Protection, RmaFlags};
use crate::program_memory::checked_bytes;

/// From so many bytes on a copy that nobody waits for is left to the copier: waking it takes as long as copying half of that.
const ASYNCHRONOUS_MIN: usize = 256 << 10;
/// Up to so many bytes are copied while the tables are held: nothing has to be written down to outlast that.
const NEAR_MOST: usize = 16 << 10;
/// Bytes of a line, which `SCIF_RMA_ORDERED` is about.
const LINE: u64 = 64;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// The near end of a copy.
#[derive(Clone, Copy, Debug)]
enum Near {
    /// Own windows.
    Windows(u64),
    /// Memory of the program.
    Program(usize),
}

/// Refuses a range of the registered address space that cannot be one; its first byte.
pub(crate) fn check(offset: i64, length: usize) -> Result<u64, ScifError> {
    if length == 0 {
        return Err(ScifError::Invalid("there is some length"));
    }
    // No window reaches beyond the end of the space.
    let start = u64::try_from(offset).map_err(|_| ScifError::NoWindow)?;
    let end = start.checked_add(length as u64).filter(|end| *end <= SPACE_END);
    end.map(|_| start).ok_or(ScifError::NoWindow)
}

impl RegisteredMemory {
    /// Copies from the peer's windows to own windows.
    pub(crate) fn read_from(
        self: &Arc<Self>,
        local: i64,
        length: usize,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        let local = check(local, length);
        let remote = check(remote, length);
        self.transfer(Way::In, Near::Windows(local?), remote?, length, flags)
    }

    /// Copies from own windows to the peer's windows.
    pub(crate) fn write_to(
        self: &Arc<Self>,
        local: i64,
        length: usize,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        let local = check(local, length);
        let remote = check(remote, length);
        self.transfer(Way::Out, Near::Windows(local?), remote?, length, flags)
    }

    /// Copies from the peer's windows to memory of the program.
    pub(crate) fn read_into(
        self: &Arc<Self>,
        address: usize,
        length: usize,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        self.transfer(Way::In, Near::Program(address), check(remote, length)?, length, flags)
    }

    /// Copies from memory of the program to the peer's windows.
    pub(crate) fn write_out(
        self: &Arc<Self>,
        address: usize,
        length: usize,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        self.transfer(Way::Out, Near::Program(address), check(remote, length)?, length, flags)
    }

    #[inline]
    fn transfer(
        self: &Arc<Self>,
        way: Way,
        near: Near,
        remote: u64,
        length: usize,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        let pid = self.process().pid;
        let own = match near {
            Near::Windows(start) => Range { start, length: length as u64 },
            Near::Program(_) => Range::default(),
        };
        let mut slot = Some(enter(&self.own, pid, own, Range { start: remote, length: length as u64 }));
        let outcome = self.transfer_inside(way, near, remote, length, flags, &mut slot);
        if let Some(slot) = slot {
            leave(&self.own, slot);
        }
        outcome
    }

    /// `slot` is empty afterwards if the copier has it, and frees it.
    #[inline]
    fn transfer_inside(
        self: &Arc<Self>,
        way: Way,
        near: Near,
        remote: u64,
        length: usize,
        flags: RmaFlags,
        slot: &mut Option<Slot>,
    ) -> Result<(), ScifError> {
        let (at_near, at_peer) = match way {
            Way::In => (Protection::WRITE, Protection::READ),
            Way::Out => (Protection::READ, Protection::WRITE),
        };
        let mut guard = self.process().mirrors.lock();
        let Mirrors { own, peer } = &mut *guard;
        own.refresh();
        peer.refresh();
        // The last line is all there is, or its order is of no interest.
        let source = match (way, near) {
            (Way::In, _) => remote,
            (Way::Out, Near::Windows(local)) => local,
            (Way::Out, Near::Program(address)) => address as u64,
        };
        let in_order = !flags.ordered || source % LINE + length as u64 <= LINE;
        if length <= NEAR_MOST
            && in_order
            && let Some(far) = peer.slice(remote, length, at_peer)
        {
            let near = match near {
                Near::Windows(local) => own.slice(local, length, at_near),
                Near::Program(address) => Some(checked_bytes(address, length, at_near.write)?),
            };
            if let Some(near) = near {
                match way {
                    Way::In => near.copy_from(far),
                    Way::Out => far.copy_from(near),
                }
                return Ok(());
            }
        }
        let near_parts = match near {
            Near::Windows(local) => Some(parts(own, local, length, at_near)),
            Near::Program(_) => None,
        };
        let (near_parts, far_parts) = match near_parts {
            // A byte in no window comes before a window that does not allow it, whichever side it is on.
            Some(Err(ScifError::Protected)) => {
                parts(peer, remote, length, Protection::NONE)?;
                return Err(ScifError::Protected);
            }
            Some(near_parts) => (near_parts?, parts(peer, remote, length, at_peer)?),
            None => (Vec::new(), parts(peer, remote, length, at_peer)?),
        };
        drop(guard);
        let near_parts = match near {
            Near::Windows(_) => near_parts,
            Near::Program(address) => vec![program(address, length, way == Way::In)?],
        };
        let source_end = source.wrapping_add(length as u64);
        // What only the kernel reaches, and memory of the program that has no window, is copied before this returns.
        let can_wait = matches!(near, Near::Windows(_))
            && length >= ASYNCHRONOUS_MIN
            && !(flags.sync || flags.use_cpu)
            && !near_parts.iter().chain(&far_parts).any(Part::is_far);
        let (destination, source) = match way {
            Way::In => (near_parts, far_parts),
            Way::Out => (far_parts, near_parts),
        };
        let transfer = Transfer::new(destination, source, flags.ordered, source_end);
        if !can_wait {
            return transfer.run();
        }
        transfer.prepare()?;
        let Some(taken) = slot.take() else { return transfer.run() };
        match self.leave_to_copier(Work::Copy(transfer), taken) {
            Ok(()) => Ok(()),
            Err((work, taken)) => {
                *slot = Some(taken);
                copier::carry_out(work)
            }
        }
    }

    /// Has the copier carry something out after what it has to do for this endpoint already. Only one process of a family keeps
    /// that order, and it is the first that asks; nor is it done if the copier has so much to do that few slots are left.
    pub(super) fn leave_to_copier(self: &Arc<Self>, work: Work, slot: Slot) -> Result<(), (Work, Slot)> {
        let process = self.process();
        let owner = self.own.queue_owner();
        let pid = process.pid as u64;
        let is_mine = owner.load(Ordering::Relaxed) == pid
            || owner.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !is_mine || process.parked.load(Ordering::Relaxed) >= PARKED_MOST {
            return Err((work, slot));
        }
        process.parked.fetch_add(1, Ordering::Relaxed);
        let job = Job { memory: Arc::clone(self), work, slot: Some(slot) };
        copier::push(job).map_err(|job| {
            process.parked.fetch_sub(1, Ordering::Relaxed);
            job.into_parts()
        })
    }
}

/// The parts of the windows that hold `length` bytes at `offset`.
pub(super) fn parts(
    mirror: &mut Mirror,
    offset: u64,
    length: usize,
    wanted: Protection,
) -> Result<Vec<Part>, ScifError> {
    parts_of(mirror, offset, length, wanted, false)
}

/// The same; `one_window`: refused if they lie in several.
pub(super) fn parts_of(
    mirror: &mut Mirror,
    offset: u64,
    length: usize,
    wanted: Protection,
    one_window: bool,
) -> Result<Vec<Part>, ScifError> {
    let (mut parts, mut refused, mut kept) = (Vec::with_capacity(1), None, None);
    mirror.walk(offset, length as u64, wanted, one_window, |run, at, length| {
        let length = length as usize;
        match run.view(at) {
            Ok(Some((view, offset))) => {
                kept = Some(Arc::clone(view));
                parts.push(Part::File { view: Arc::clone(view), offset, length });
            }
            Ok(None) => match run.memory(at) {
                Ok((memory, address)) => {
                    parts.push(Part::Process { memory: Arc::clone(memory), address, length });
                }
                Err(error) => refused = Some(error),
            },
            Err(error) => refused = Some(error),
        }
    })?;
    if let Some(view) = kept {
        mirror.keep(&view);
    }
    match refused {
        None => Ok(parts),
        Some(error) => Err(error),
    }
}
