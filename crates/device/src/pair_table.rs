//! The queue pairs of a process by number.

use std::sync::Arc;

use nonic_protocol::QpNumber;
use nonic_transport::BLOCK_SIZE;

use crate::queue_pair::QueuePair;

#[derive(Debug)]
struct BlockTable {
    number: u32,
    ordinal: u32,
    slots: Vec<Option<Arc<QueuePair>>>,
    used: u32,
    /// Where the search for a free slot begins: behind the last one given out, so that a number rests.
    next: u32,
}

/// Blocks of numbers, each a table.
#[derive(Debug, Default)]
pub(crate) struct PairTable {
    blocks: Vec<BlockTable>,
    count: u32,
}

impl PairTable {
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether no number is free in the blocks there are. A block counts as full a little early, so that numbers rest.
    pub(crate) fn is_full(&self) -> bool {
        self.blocks.iter().all(|block| block.used >= BLOCK_SIZE - BLOCK_SIZE / 64)
    }

    pub(crate) fn add_block(&mut self, number: u32, ordinal: u32) {
        self.blocks.push(BlockTable { number, ordinal, slots: Vec::new(), used: 0, next: 0 });
    }

    pub(crate) fn blocks(&self) -> Vec<u32> {
        self.blocks.iter().map(|block| block.number).collect()
    }

    pub(crate) fn insert(
        &mut self,
        make: impl FnOnce(QpNumber, u32) -> Arc<QueuePair>,
    ) -> Option<Arc<QueuePair>> {
        let block = self.blocks.iter_mut().find(|block| block.used < BLOCK_SIZE - BLOCK_SIZE / 64)?;
        if block.slots.is_empty() {
            block.slots.resize(BLOCK_SIZE as usize, None);
        }
        let slots = &block.slots;
        let free = (0..BLOCK_SIZE)
            .map(|step| (block.next + step) % BLOCK_SIZE)
            .find(|i| slots[*i as usize].is_none())?;
        let pair = make(QpNumber(block.number * BLOCK_SIZE + free), block.ordinal * BLOCK_SIZE + free);
        block.slots[free as usize] = Some(Arc::clone(&pair));
        block.next = (free + 1) % BLOCK_SIZE;
        block.used += 1;
        self.count += 1;
        Some(pair)
    }

    fn slot(&self, number: QpNumber) -> Option<&Option<Arc<QueuePair>>> {
        let block = self.blocks.iter().find(|block| block.number == number.0 / BLOCK_SIZE)?;
        block.slots.get((number.0 % BLOCK_SIZE) as usize)
    }

    pub(crate) fn find(&self, number: QpNumber) -> Option<Arc<QueuePair>> {
        self.slot(number)?.clone()
    }

    pub(crate) fn remove(&mut self, number: QpNumber) {
        let block = self.blocks.iter_mut().find(|block| block.number == number.0 / BLOCK_SIZE);
        if let Some(block) = block
            && let Some(slot) = block.slots.get_mut((number.0 % BLOCK_SIZE) as usize)
            && slot.take().is_some()
        {
            block.used -= 1;
            self.count -= 1;
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<QueuePair>> {
        self.blocks.iter().flat_map(|block| block.slots.iter().flatten().cloned()).collect()
    }
}
