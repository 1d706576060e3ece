//! Sends whose bytes the receiver takes from the sender's memory.

use std::io;

use nonic_memory::{Access, AddressRange, Key, KeyUse, SharedSlice, resolve};

use super::kernel_copy::Way;
use super::target::Target;
use super::{ControlPath, Entered, PeerView, Reach};
use crate::segment::SlotPlace;

/// A piece of a sender's memory, as its request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullPiece {
    /// The bytes, 1 or more.
    pub range: AddressRange,
    /// The sender's local key of them.
    pub key: Key,
}

impl PullPiece {
    /// Bytes of one in a message.
    pub const LENGTH: usize = 16;

    /// As it travels.
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.range.start.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.range.length as u32).to_le_bytes());
        bytes[12..].copy_from_slice(&self.key.0.to_le_bytes());
        bytes
    }

    /// From a message.
    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        let [start, rest] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i])));
        Self { range: AddressRange::new(start, rest & 0xffff_ffff), key: Key((rest >> 32) as u32) }
    }
}

/// Why a pull took nothing more.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The sender's queue pair takes part in nothing now: it has ended, or its port is closed.
    #[error("the sender's queue pair is withdrawn")]
    Withdrawn,
    /// The sender has taken a piece back, or is gone.
    #[error("the sender has taken its memory back")]
    Revoked,
    /// This process has no way to the bytes.
    #[error("this process has no way to the sender's bytes")]
    Unreachable,
    /// The copy failed.
    #[error("the sender's bytes could not be copied: {0}")]
    Copy(#[from] io::Error),
}

/// The bytes of a send, held so that the sender's revocation waits.
#[derive(Debug)]
pub struct PullAccess<'a> {
    entered: Entered<'a>,
    sender: SlotPlace,
    pieces: &'a [PullPiece],
    /// The bytes of a send of one piece, which need not be looked for again.
    only: Option<Target<'a>>,
}

impl Reach {
    /// Takes hold of all `pieces` of the queue pair that publishes itself at `sender`, if they are there and reached from here.
    pub(crate) fn begin_pull<'a>(
        &'a self,
        control: &impl ControlPath,
        sender: SlotPlace,
        pieces: &'a [PullPiece],
    ) -> Result<PullAccess<'a>, PullError> {
        let view = self.view().ok_or(PullError::Unreachable)?;
        let entered = self.enter_to_pull(control, view).ok_or_else(|| why_not_entered(control))?;
        let target = |piece: &PullPiece| self.pull_target(control, view, sender, piece.key, piece.range);
        let only = match pieces {
            [piece] => Some(target(piece)?),
            _ => {
                pieces.iter().try_for_each(|piece| target(piece).map(drop))?;
                None
            }
        };
        Ok(PullAccess { entered, sender, pieces, only })
    }

    /// Copies the bytes of the pieces that are held, one after the other, from the byte at `offset` on, into `local` slices until
    /// those are full.
    pub(crate) fn pull(
        &self,
        control: &impl ControlPath,
        access: &PullAccess<'_>,
        offset: u64,
        local: &[SharedSlice<'_>],
    ) -> Result<(), PullError> {
        let PullAccess { entered: Entered { own, .. }, sender, pieces, only } = access;
        let wanted: u64 = local.iter().map(|slice| slice.length() as u64).sum();
        if let (Some(target), [piece]) = (only, pieces)
            && wanted == piece.range.length
        {
            return Ok(target.copy(Way::In, own, local)?);
        }
        let view = self.view().ok_or(PullError::Unreachable)?;
        let mut pieces = pieces.iter();
        let (mut skip, mut range, mut key) = (offset, AddressRange::new(0, 0), Key(0));
        for slice in local {
            let mut slice = *slice;
            while !slice.is_empty() {
                if range.length == 0 {
                    let piece = pieces.next().ok_or(PullError::Revoked)?;
                    let skipped = skip.min(piece.range.length);
                    skip -= skipped;
                    (range, key) = (rest(piece.range, skipped)?, piece.key);
                    continue;
                }
                let count = range.length.min(slice.length() as u64);
                let target =
                    self.pull_target(control, view, *sender, key, AddressRange { length: count, ..range })?;
                target.copy(Way::In, own, &[slice.part(0, count as usize)])?;
                slice = slice.part(count as usize, slice.length() - count as usize);
                range = rest(range, count)?;
            }
        }
        Ok(())
    }

    fn pull_target(
        &self,
        control: &impl ControlPath,
        view: &PeerView,
        sender: SlotPlace,
        key: Key,
        range: AddressRange,
    ) -> Result<Target<'_>, PullError> {
        let slot = view.segment.slot(sender).ok_or(PullError::Withdrawn)?;
        let place = resolve(view.segment.keys(), slot.zone, key, KeyUse::Local, range, Access::LOCAL_READ)
            .map_err(|_| PullError::Revoked)?;
        self.target(control, Way::In, &place).ok_or(PullError::Unreachable)
    }
}

/// Without a slot, which only a peer can take from here, its bytes come in the ring.
fn why_not_entered(control: &impl ControlPath) -> PullError {
    if control.is_dead() { PullError::Revoked } else { PullError::Unreachable }
}

/// A range without its first `count` bytes.
fn rest(range: AddressRange, count: u64) -> Result<AddressRange, PullError> {
    let start = range.start.0.checked_add(count).ok_or(PullError::Revoked)?;
    Ok(AddressRange::new(start, range.length - count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_survives_its_bytes() {
        let piece = PullPiece { range: AddressRange::new(u64::MAX - 3, 0xffff_fffe), key: Key(0x8765_4321) };
        assert_eq!(PullPiece::from_bytes(&piece.to_bytes()), piece);
    }
}
