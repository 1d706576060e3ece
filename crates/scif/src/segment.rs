//! The memory two connected endpoints share.
//!
//! The side that connects makes it, sealed against shrinking, and sends it with its request. Whatever the other side wrote is
//! read once, checked, and used then: a peer that lies is a peer that is gone.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_sys::{
    OwnedFd, PAGE, Protection, SharedMapping, SharedMemory, SharedWords, prepare_light_fences, show_fences,
};

use crate::direction::Direction;
use crate::memory::AREA_LENGTH;
use crate::side::Side;

/// First word: tells this layout from all others.
const MAGIC: u64 = 0x6e6f_6e69_6353_0003;
const MAGIC_AT: usize = 0;
const DECISION_AT: usize = 8;
/// One word for each side, not 0 once the side has forked.
const FORKED_AT: usize = 16;
/// One word for each side, not 0 if its heavy fences reach others.
const FENCES_AT: usize = 32;
/// Which relay one side is ([`Segment::relay`]); 0: none.
const RELAY_AT: usize = 48;
const DIRECTIONS_AT: usize = 256;
const DIRECTION_LENGTH: usize = 512;
const RINGS_AT: usize = PAGE;
const AREAS_AT: usize = 3 * PAGE;
const LENGTH: usize = AREAS_AT + 2 * AREA_LENGTH;

const _: () = assert!(DIRECTIONS_AT + 2 * DIRECTION_LENGTH <= PAGE && AREA_LENGTH.is_multiple_of(PAGE));

/// What has become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing yet.
    Open,
    /// The other side took it.
    Accepted,
    /// It was refused, or this side gave it up.
    Off,
}

/// A mapping of it. Children inherit the mapping.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    mapping: Arc<SharedMapping>,
}

impl Segment {
    /// A new one, and the file to send.
    pub(crate) fn create() -> io::Result<(Self, OwnedFd)> {
        let memory = SharedMemory::create("nonic-scif", LENGTH)?;
        let mapping = Arc::new(memory.map(Protection::ReadWrite)?);
        mapping.word(MAGIC_AT).store(MAGIC, Ordering::Release);
        let segment = Self { mapping };
        segment.note_fences(Side::Connector);
        // While it connects the end of this side is hardly writable.
        segment.direction(Side::Connector).begins_lowered();
        Ok((segment, memory.into_descriptor()))
    }

    /// One that a peer sent.
    pub(crate) fn from_peer(file: OwnedFd) -> io::Result<Self> {
        let mapping = Arc::new(SharedMemory::from_peer(file, LENGTH)?.map(Protection::ReadWrite)?);
        if mapping.word(MAGIC_AT).load(Ordering::Acquire) != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "shared memory of another layout"));
        }
        let segment = Self { mapping };
        segment.note_fences(Side::Acceptor);
        Ok(segment)
    }

    fn note_fences(&self, side: Side) {
        prepare_light_fences();
        show_fences(&self.mapping, FENCES_AT + 8 * side.index());
    }

    /// Whether what is rare on `side` pays for the fences of what is frequent on the other: 1, as long as it does.
    pub(crate) fn fences_of(&self, side: Side) -> SharedWords {
        SharedWords::new(Arc::clone(&self.mapping), FENCES_AT + 8 * side.index(), 1)
    }

    pub(crate) fn mapping(&self) -> &Arc<SharedMapping> {
        &self.mapping
    }

    /// Where the registered memory of the connecting and of the accepting side is described.
    pub(crate) fn areas(&self) -> [usize; 2] {
        [AREAS_AT, AREAS_AT + AREA_LENGTH]
    }

    /// The stream that `side` sends.
    pub(crate) fn direction(&self, side: Side) -> Direction {
        let index = side.index();
        Direction::new(
            Arc::clone(&self.mapping),
            DIRECTIONS_AT + index * DIRECTION_LENGTH,
            RINGS_AT + index * PAGE,
        )
    }

    pub(crate) fn decision(&self) -> Decision {
        match self.mapping.word(DECISION_AT).load(Ordering::Acquire) {
            0 => Decision::Open,
            1 => Decision::Accepted,
            _ => Decision::Off,
        }
    }

    /// Decides an open request; whether it still was open.
    pub(crate) fn decide(&self, decision: Decision) -> bool {
        let word = self.mapping.word(DECISION_AT);
        word.compare_exchange(0, decision as u64, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// One of its sides is a relay of this number: the peer is on another host.
    pub(crate) fn set_relay(&self, number: u64) {
        self.mapping.word(RELAY_AT).store(number, Ordering::Release);
    }

    /// The number of the relay that one of its sides is.
    pub(crate) fn relay(&self) -> Option<u64> {
        Some(self.mapping.word(RELAY_AT).load(Ordering::Acquire)).filter(|number| *number != 0)
    }

    /// Whether several processes may act for `side`.
    #[inline]
    pub(crate) fn is_forked(&self, side: Side) -> bool {
        self.mapping.word(FORKED_AT + 8 * side.index()).load(Ordering::SeqCst) != 0
    }

    pub(crate) fn set_forked(&self, side: Side) {
        self.mapping.word(FORKED_AT + 8 * side.index()).store(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_decided_once_and_both_sides_see_it() {
        let (mine, file) = Segment::create().unwrap();
        let theirs = Segment::from_peer(file).unwrap();
        assert_eq!(theirs.decision(), Decision::Open);
        assert!(theirs.decide(Decision::Accepted) && !mine.decide(Decision::Off));
        assert_eq!(mine.decision(), Decision::Accepted);
        mine.set_forked(Side::Connector);
        assert!(theirs.is_forked(Side::Connector) && !theirs.is_forked(Side::Acceptor));
    }

    #[test]
    fn memory_of_another_layout_or_too_short_is_refused() {
        let other = SharedMemory::create("other", LENGTH).unwrap();
        assert!(Segment::from_peer(other.into_descriptor()).is_err());
        let short = SharedMemory::create("short", PAGE).unwrap();
        short.map(Protection::ReadWrite).unwrap().word(MAGIC_AT).store(MAGIC, Ordering::Relaxed);
        assert!(Segment::from_peer(short.into_descriptor()).is_err());
    }
}
