//! Flags of the C interface as words of the engine. What has no meaning is refused.

use core::ffi::c_int;

use nonic_scif::{Initiator, Protection, RmaFlags};

use crate::errno::Errno;

/// `SCIF_ACCEPT_SYNC`, `SCIF_SEND_BLOCK` and `SCIF_RECV_BLOCK`.
pub(crate) const WAIT: c_int = 1;
/// `SCIF_PROT_READ`.
pub(crate) const PROT_READ: c_int = 1;
/// `SCIF_PROT_WRITE`.
pub(crate) const PROT_WRITE: c_int = 2;
/// `SCIF_MAP_FIXED`.
pub(crate) const MAP_FIXED: c_int = 0x10;
/// `SCIF_FENCE_INIT_SELF`.
pub(crate) const FENCE_INIT_SELF: c_int = 1;
/// `SCIF_FENCE_INIT_PEER`.
pub(crate) const FENCE_INIT_PEER: c_int = 2;
/// `SCIF_SIGNAL_LOCAL`.
pub(crate) const SIGNAL_LOCAL: c_int = 0x10;
/// `SCIF_SIGNAL_REMOTE`.
pub(crate) const SIGNAL_REMOTE: c_int = 0x20;
/// `SCIF_RMA_USECPU`.
pub(crate) const RMA_USECPU: c_int = 1;
/// `SCIF_RMA_USECACHE`.
pub(crate) const RMA_USECACHE: c_int = 2;
/// `SCIF_RMA_SYNC`.
pub(crate) const RMA_SYNC: c_int = 4;
/// `SCIF_RMA_ORDERED`.
pub(crate) const RMA_ORDERED: c_int = 8;

/// Whether `scif_accept` waits.
pub(crate) fn accept(flags: c_int) -> Result<bool, Errno> {
    match flags {
        0 => Ok(false),
        WAIT => Ok(true),
        _ => Err(Errno::EINVAL),
    }
}

/// Whether `scif_send` or `scif_recv` waits. Beside the flag other bits mean nothing, as they always have.
#[inline]
pub(crate) fn block(flags: c_int) -> Result<bool, Errno> {
    if flags != 0 && flags & WAIT == 0 { Err(Errno::EINVAL) } else { Ok(flags != 0) }
}

/// What a window or a mapping allows: one or more things.
pub(crate) fn protection(flags: c_int) -> Result<Protection, Errno> {
    only(flags, PROT_READ | PROT_WRITE)?;
    if flags == 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Protection { read: flags & PROT_READ != 0, write: flags & PROT_WRITE != 0 })
}

/// Whether a place is fixed.
pub(crate) fn fixed(flags: c_int) -> Result<bool, Errno> {
    only(flags, MAP_FIXED)?;
    Ok(flags != 0)
}

/// How bytes are copied. `SCIF_RMA_USECACHE` speaks of pinned pages, of which there are none.
#[inline]
pub(crate) fn rma(flags: c_int) -> Result<RmaFlags, Errno> {
    only(flags, RMA_USECPU | RMA_USECACHE | RMA_SYNC | RMA_ORDERED)?;
    Ok(RmaFlags {
        use_cpu: flags & RMA_USECPU != 0,
        sync: flags & RMA_SYNC != 0,
        ordered: flags & RMA_ORDERED != 0,
    })
}

/// Whose operations a mark is about.
pub(crate) fn initiator(flags: c_int) -> Result<Initiator, Errno> {
    match flags {
        FENCE_INIT_SELF => Ok(Initiator::Own),
        FENCE_INIT_PEER => Ok(Initiator::Peer),
        _ => Err(Errno::EINVAL),
    }
}

/// Whose operations a signal waits for, and whether it is stored on the own and on the other side.
pub(crate) fn signal(flags: c_int) -> Result<(Initiator, bool, bool), Errno> {
    let sides = SIGNAL_LOCAL | SIGNAL_REMOTE;
    let initiator = initiator(flags & !sides)?;
    if flags & sides == 0 {
        return Err(Errno::EINVAL);
    }
    Ok((initiator, flags & SIGNAL_LOCAL != 0, flags & SIGNAL_REMOTE != 0))
}

#[inline]
fn only(flags: c_int, known: c_int) -> Result<(), Errno> {
    if flags & !known == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every single bit, none, and all.
    fn words() -> impl Iterator<Item = c_int> {
        (0..32).map(|bit| (1u32 << bit) as c_int).chain([0, -1])
    }

    #[test]
    fn every_bit_without_a_meaning_is_refused() {
        for flags in words() {
            assert_eq!(accept(flags).is_ok(), [0, 1].contains(&flags), "accept {flags:#x}");
            assert_eq!(protection(flags).is_ok(), [1, 2].contains(&flags), "protection {flags:#x}");
            assert_eq!(fixed(flags).is_ok(), [0, 0x10].contains(&flags), "map {flags:#x}");
            assert_eq!(rma(flags).is_ok(), [0, 1, 2, 4, 8].contains(&flags), "rma {flags:#x}");
            assert_eq!(
                rma(flags | RMA_SYNC).is_ok(),
                [0, 1, 2, 4, 8].contains(&flags),
                "rma {flags:#x} and sync"
            );
            assert_eq!(initiator(flags).is_ok(), [1, 2].contains(&flags), "mark {flags:#x}");
        }
    }

    #[test]
    fn bits_beside_the_one_that_blocks_are_ignored_and_alone_refused() {
        assert_eq!(block(0), Ok(false));
        assert_eq!(block(1), Ok(true));
        assert_eq!(block(0x101), Ok(true));
        assert_eq!(block(2), Err(Errno::EINVAL));
        assert_eq!(block(i32::MIN), Err(Errno::EINVAL));
    }

    #[test]
    fn a_signal_names_one_initiator_and_at_least_one_side() {
        assert_eq!(signal(0x11), Ok((Initiator::Own, true, false)));
        assert_eq!(signal(0x32), Ok((Initiator::Peer, true, true)));
        for flags in [0, 1, 2, 0x10, 0x30, 0x13, 0x14, 0x18, 0x31 | 0x40, 0x15] {
            assert_eq!(signal(flags), Err(Errno::EINVAL), "{flags:#x}");
        }
    }
}
