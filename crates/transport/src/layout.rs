//! Where things stand in shared memory. Both sides compute every offset from here; none is ever received.

use nonic_memory::{KeyTableView, OperationSlots};

/// First word of every shared memory of this project.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"nonicRDM");
/// Changes whenever a layout or a message changes; peers of another version are refused, with a message.
pub const VERSION: u32 = 14;

pub(crate) const PAGE: usize = nonic_sys::PAGE;

/// Queue-pair numbers in a block.
pub const BLOCK_SIZE: u32 = 4096;
/// Blocks a process claims at most.
pub const BLOCKS_MAX: usize = 64;
/// Places for the keys of a process's regions and memory windows (entry 0 is never used).
pub const KEYS_MAX: u32 = 1 << 21;

// The port segment of a process: header, queue-pair slots, key table. Peers map it read-only.
pub(crate) const SEGMENT_VERSION: usize = 8;
pub(crate) const SEGMENT_BLOCK_COUNT: usize = 16;
/// 1 if the owner passes heavy fences that reach other processes when it revokes.
pub(crate) const SEGMENT_HEAVY_FENCES: usize = 24;
/// The limits the owner works under.
pub(crate) const SEGMENT_SETTINGS: usize = 32;
/// Links that found the table of links full.
pub(crate) const SEGMENT_LINKS_BEYOND: usize = 40;
/// The owner's process id.
pub(crate) const SEGMENT_OWNER: usize = 48;
/// What names the socket over which its device is changed; 0 if there is none.
pub(crate) const SEGMENT_CHANGING: usize = 56;
pub(crate) const SEGMENT_BLOCKS: usize = 64;
/// What the owner says of its links, for people who look. No device reads it.
pub(crate) const SEGMENT_LINKS: usize = 512;
/// Links of a process that are shown.
pub const LINKS_SHOWN: usize = 64;
/// Bytes of one of them: a stamp and two words.
pub(crate) const LINK_RECORD: usize = 32;
pub(crate) const SEGMENT_QP_SLOTS: usize = PAGE;
pub(crate) const SEGMENT_KEYS: usize = SEGMENT_QP_SLOTS + BLOCKS_MAX * BLOCK_SIZE as usize * 8;
/// Peers map what is before this. Behind it are the counters of the queue pairs that are gone, and of each that is there.
pub(crate) const SEGMENT_COUNTERS: usize = SEGMENT_KEYS + KeyTableView::length(KEYS_MAX);
/// Counters of a queue pair.
pub(crate) const COUNTERS: usize = 16;
/// Bytes of its counters.
pub(crate) const COUNTER_RECORD: usize = COUNTERS * 8;
pub(crate) const SEGMENT_LENGTH: usize = SEGMENT_COUNTERS
    + (1 + BLOCKS_MAX * BLOCK_SIZE as usize).next_multiple_of(PAGE / COUNTER_RECORD) * COUNTER_RECORD;

// The memory of a link: a page with a header and what the ends of each ring tell each other, a page with the slots of each side's
// operations, then the cells of each ring. What stands in one page stands 128 bytes apart: processors fetch cache lines in pairs.
pub(crate) const LINK_VERSION: usize = 8;
/// Bytes in a cell of a ring: half a cache line, so that two short messages travel in one.
pub(crate) const CELL: usize = 32;
/// Cells in a ring.
pub(crate) const CELLS: u64 = 8192;
/// How far the consumer has come, in cells since the beginning.
pub(crate) const RING_HEAD: usize = 128;
/// 1 while the producer waits for room.
pub(crate) const RING_PRODUCER_WAITS: usize = 256;
/// Whom to wake while the consumer sleeps, and 0 while it does not (`Sleeper`).
pub(crate) const RING_CONSUMER_SLEEPS: usize = 384;
/// Bytes of what the ends of a ring tell each other. The first line of the first ring's is the header's.
pub(crate) const RING_CONTROL_LENGTH: usize = 512;
/// Bytes of the cells of a ring.
pub(crate) const RING_CELLS_LENGTH: usize = CELL * CELLS as usize;
pub(crate) const LINK_LENGTH: usize = 2 * PAGE + 2 * RING_CELLS_LENGTH;

// The calls of a process: who sleeps and which groups of links are called for, in one line, then a word for each group.
pub(crate) const CALLS_SLEEPER: usize = 0;
/// A bit for each group.
pub(crate) const CALLS_GROUPS: usize = 8;
/// 64 words, each with a bit for each link of a group.
pub(crate) const CALLS_LINKS: usize = 64;
pub(crate) const CALLS_LENGTH: usize = PAGE;

/// Where a direction stands in a link's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direction {
    /// What the ends of its ring tell each other.
    pub(crate) control: usize,
    /// Slots of the producing side's one-sided operations on the consuming side's memory.
    pub(crate) slots: usize,
    pub(crate) cells: usize,
}

impl Direction {
    /// What the active side transmits.
    pub(crate) const FROM_ACTIVE: Self = Self::of_number(0);
    /// What the passive side does.
    const FROM_PASSIVE: Self = Self::of_number(1);

    const fn of_number(number: usize) -> Self {
        Self {
            control: number * RING_CONTROL_LENGTH,
            slots: PAGE + number * OperationSlots::LENGTH,
            cells: 2 * PAGE + number * RING_CELLS_LENGTH,
        }
    }
}

/// Which end of a link's memory a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// It connected.
    Active,
    /// It was connected to.
    Passive,
    /// Both: what it transmits it receives itself.
    Both,
}

impl LinkEnd {
    /// Where what this end transmits lies, and the slots of its operations.
    pub(crate) const fn transmits_at(self) -> Direction {
        match self {
            Self::Active | Self::Both => Direction::FROM_ACTIVE,
            Self::Passive => Direction::FROM_PASSIVE,
        }
    }

    /// Where what the other end transmits lies, and the slots of that one's operations.
    pub(crate) const fn receives_at(self) -> Direction {
        match self {
            Self::Passive | Self::Both => Direction::FROM_ACTIVE,
            Self::Active => Direction::FROM_PASSIVE,
        }
    }

    /// Whether there is no other end.
    pub(crate) const fn is_loopback(self) -> bool {
        matches!(self, Self::Both)
    }
}

const _: () = {
    assert!(SEGMENT_BLOCKS + BLOCKS_MAX * 4 <= SEGMENT_LINKS);
    assert!(SEGMENT_LINKS + LINKS_SHOWN * LINK_RECORD <= PAGE);
    assert!(2 * RING_CONTROL_LENGTH <= PAGE && 2 * OperationSlots::LENGTH <= PAGE);
    assert!(CELLS.is_power_of_two());
    assert!(SEGMENT_COUNTERS.is_multiple_of(PAGE) && PAGE.is_multiple_of(COUNTER_RECORD));
    assert!(CALLS_LINKS + 64 * 8 <= CALLS_LENGTH);
};
