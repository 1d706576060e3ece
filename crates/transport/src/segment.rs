//! The port segment: what a process shows trusted peers. Its owner writes it, peers map it read-only.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nonic_memory::{KeyTable, KeyTableView};
use nonic_protocol::QpNumber;
use nonic_sys::{
    AsFd, BorrowedFd, OwnedFd, Protection, SharedMapping, SharedMemory, SharedWords, light_fences_are_free,
    prepare_light_fences, show_fences,
};

use crate::counters::PairCounters;
use crate::layout::{
    BLOCK_SIZE, BLOCKS_MAX, KEYS_MAX, MAGIC, SEGMENT_BLOCK_COUNT, SEGMENT_BLOCKS, SEGMENT_CHANGING,
    SEGMENT_COUNTERS, SEGMENT_HEAVY_FENCES, SEGMENT_KEYS, SEGMENT_LENGTH, SEGMENT_OWNER, SEGMENT_QP_SLOTS,
    SEGMENT_SETTINGS, SEGMENT_VERSION, VERSION,
};
use crate::link_record::{LinkFacts, LinkRecord, LinkTable};
use crate::qp_slot::QpSlot;
use crate::segment_copy::Settings;

/// This process's own segment.
#[derive(Debug)]
pub struct Segment {
    memory: SharedMemory,
    mapping: Arc<SharedMapping>,
    keys: KeyTable,
    links: Arc<LinkTable>,
}

/// Name of the file, as `/proc` shows it.
pub const SEGMENT_NAME: &str = "nonic-segment";

impl Segment {
    /// An empty one, sealed so that nobody else can ever write to it.
    pub fn create() -> io::Result<Self> {
        let memory = SharedMemory::create(SEGMENT_NAME, SEGMENT_LENGTH)?;
        let mapping = Arc::new(memory.map(Protection::ReadWrite)?);
        // A kernel without this seal (before 5.1) only leaves a same-user peer the freedom to write.
        let _ = memory.seal_future_writes();
        mapping.word(SEGMENT_VERSION).store(u64::from(VERSION), Ordering::Relaxed);
        prepare_light_fences();
        show_fences(&mapping, SEGMENT_HEAVY_FENCES);
        mapping.word(SEGMENT_OWNER).store(u64::from(std::process::id()), Ordering::Relaxed);
        mapping.word(0).store(MAGIC, Ordering::Release);
        let keys = KeyTable::new(KeyTableView::new(Arc::clone(&mapping), SEGMENT_KEYS, KEYS_MAX));
        let links = Arc::new(LinkTable::new(Arc::clone(&mapping)));
        Ok(Self { memory, mapping, keys, links })
    }

    /// Says under which limits the owner works.
    pub(crate) fn publish_settings(&self, settings: Settings) {
        self.mapping.word(SEGMENT_SETTINGS).store(settings.to_word(), Ordering::Relaxed);
    }

    /// Says by which token the owner is asked to change its device ([`crate::listen_for_changes`]).
    pub fn publish_changing(&self, token: u64) {
        self.mapping.word(SEGMENT_CHANGING).store(token, Ordering::Relaxed);
    }

    /// Shows a link to those who look at the segment, until the record is dropped.
    pub(crate) fn record_link(&self, facts: LinkFacts) -> LinkRecord {
        LinkTable::enter(&self.links, facts)
    }

    /// The key table.
    pub fn keys(&self) -> &KeyTable {
        &self.keys
    }

    /// The counters of the queue pair whose word is the one of this number.
    pub fn counters(&self, number: u32) -> PairCounters {
        PairCounters::new(&self.mapping, 1 + number as usize)
    }

    /// A queue pair is destroyed: what it counted is not lost.
    pub fn retire(&self, counters: &PairCounters) {
        counters.retire_to(&PairCounters::new(&self.mapping, 0));
    }

    /// The file, for peers to map.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Enters a claimed block of queue-pair numbers; returns its ordinal. `None` if there are too many.
    pub fn add_block(&self, block: u32) -> Option<usize> {
        let count = self.mapping.word(SEGMENT_BLOCK_COUNT);
        let ordinal = count.load(Ordering::Relaxed) as usize;
        if ordinal >= BLOCKS_MAX {
            return None;
        }
        self.mapping.half_word(SEGMENT_BLOCKS + ordinal * 4).store(block, Ordering::Relaxed);
        count.store(ordinal as u64 + 1, Ordering::Release);
        Some(ordinal)
    }

    /// As this process's own queue pairs see it.
    pub fn view(&self) -> SegmentView {
        SegmentView::new(Arc::clone(&self.mapping), self.keys.view().clone())
    }

    /// Publishes what a queue pair takes, or that it takes nothing.
    pub fn publish(&self, number: QpNumber, slot: Option<QpSlot>) {
        if let Some(word) = self.view_slot(number) {
            word.store(slot.map_or(0, |slot| slot.pack()), Ordering::SeqCst);
        }
    }

    fn view_slot(&self, number: QpNumber) -> Option<&AtomicU64> {
        slot_offset(&self.mapping, number).map(|offset| self.mapping.word(offset))
    }
}

fn slot_offset(mapping: &SharedMapping, number: QpNumber) -> Option<usize> {
    let count = mapping.word(SEGMENT_BLOCK_COUNT).load(Ordering::Acquire).min(BLOCKS_MAX as u64) as usize;
    let block = number.0 / BLOCK_SIZE;
    let ordinal =
        (0..count).find(|i| mapping.half_word(SEGMENT_BLOCKS + i * 4).load(Ordering::Relaxed) == block)?;
    Some(SEGMENT_QP_SLOTS + (ordinal * BLOCK_SIZE as usize + (number.0 % BLOCK_SIZE) as usize) * 8)
}

/// A segment as its readers see it.
#[derive(Clone, Debug)]
pub struct SegmentView {
    mapping: Arc<SharedMapping>,
    keys: KeyTableView,
    heavy_fences: SharedWords,
    /// The owner's heavy fences, if it has any, reach this process: that was settled when it prepared for them.
    is_reached: bool,
}

/// Where a peer's queue pair publishes what it takes.
#[derive(Clone, Copy, Debug)]
pub struct SlotPlace(usize);

impl SegmentView {
    /// Maps what a peer sent, if it is a segment of this version.
    pub fn from_peer(fd: OwnedFd) -> io::Result<Self> {
        let mapping = Arc::new(SharedMemory::from_peer(fd, SEGMENT_COUNTERS)?.map(Protection::Read)?);
        let version = mapping.word(SEGMENT_VERSION).load(Ordering::Relaxed);
        if mapping.word(0).load(Ordering::Acquire) != MAGIC || version != u64::from(VERSION) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a segment of version {version}"),
            ));
        }
        let keys = KeyTableView::new(Arc::clone(&mapping), SEGMENT_KEYS, KEYS_MAX);
        Ok(Self::new(mapping, keys))
    }

    fn new(mapping: Arc<SharedMapping>, keys: KeyTableView) -> Self {
        let heavy_fences = SharedWords::new(Arc::clone(&mapping), SEGMENT_HEAVY_FENCES, 1);
        Self { mapping, keys, heavy_fences, is_reached: light_fences_are_free() }
    }

    /// Whether operations of this process on the owner's memory need no fence of their own: the owner passes heavy ones
    /// when it revokes, and they reach this process. To be asked each time, once the operation's slot is taken: the owner's
    /// kernel may begin to refuse them.
    #[inline(always)]
    pub fn light_fences(&self) -> bool {
        self.is_reached && self.heavy_fences.at(0).load(Ordering::Acquire) != 0
    }

    /// The key table.
    pub fn keys(&self) -> &KeyTableView {
        &self.keys
    }

    /// Finds a queue pair's slot; `None` if the number is not of this process.
    pub fn slot_place(&self, number: QpNumber) -> Option<SlotPlace> {
        slot_offset(&self.mapping, number).map(SlotPlace)
    }

    /// Lets go of a peer's segment: it says from now on that there is nothing.
    pub(crate) fn let_go(&self) {
        let _ = self.mapping.let_go(Protection::Read);
    }

    /// What the queue pair takes now.
    #[inline(always)]
    pub fn slot(&self, place: SlotPlace) -> Option<QpSlot> {
        QpSlot::unpack(self.mapping.word(place.0).load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_memory::{Access, ZoneId};
    use nonic_protocol::QpType;

    #[test]
    fn a_peer_reads_what_the_owner_publishes_and_cannot_write() {
        let segment = Segment::create().unwrap();
        segment.add_block(7).unwrap();
        let number = QpNumber(7 * BLOCK_SIZE + 5);
        let slot = QpSlot {
            zone: ZoneId(1),
            peer: QpNumber(99),
            access: Access::REMOTE_READ,
            answers_reads: true,
            transport: QpType::ReliableConnection,
        };
        let fd = segment.as_fd().try_clone_to_owned().unwrap();
        let peer = SegmentView::from_peer(fd).unwrap();
        let place = peer.slot_place(number).unwrap();
        assert_eq!(peer.slot(place), None);
        segment.publish(number, Some(slot));
        assert_eq!(peer.slot(place), Some(slot));
        segment.publish(number, None);
        assert_eq!(peer.slot(place), None);
        assert!(peer.slot_place(QpNumber(8 * BLOCK_SIZE)).is_none());
        assert!(segment.memory.map(Protection::ReadWrite).is_err());
    }

    #[test]
    fn blocks_beyond_the_limit_are_refused() {
        let segment = Segment::create().unwrap();
        for block in 0..BLOCKS_MAX as u32 {
            assert!(segment.add_block(block + 1).is_some());
        }
        assert_eq!(segment.add_block(1000), None);
    }

    #[test]
    fn memory_that_is_no_segment_is_refused() {
        let other = SharedMemory::create("other", SEGMENT_LENGTH).unwrap();
        assert!(SegmentView::from_peer(other.as_fd().try_clone_to_owned().unwrap()).is_err());
    }
}
