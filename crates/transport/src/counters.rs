//! What the queue pairs of a process have done, counted in its port segment for whoever looks. No device reads it, and peers do not
//! map it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_sys::{SharedBlock, SharedMapping};

use crate::layout::{COUNTER_RECORD as RECORD, COUNTERS, PAGE, SEGMENT_COUNTERS, SEGMENT_LENGTH};
use crate::segment_copy::for_each_page;

/// What is counted. Those of the first eight belong to requests of this process that ended well, and lie in one cache line: how
/// many of a kind, and behind that their bytes. The others belong to requests of its peers, and to what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Sends.
    Sends = 0,
    /// Their bytes.
    SendBytes = 1,
    /// RDMA Writes.
    Writes = 2,
    /// Their bytes.
    WriteBytes = 3,
    /// RDMA Reads.
    Reads = 4,
    /// Their bytes.
    ReadBytes = 5,
    /// Atomics.
    Atomics = 6,
    /// Their bytes.
    AtomicBytes = 7,
    /// Messages that filled a receive.
    Received = 8,
    /// Their bytes.
    ReceivedBytes = 9,
    /// Writes, reads and atomics that this process carried out because a peer asked for it.
    Served = 10,
    /// Their bytes.
    ServedBytes = 11,
    /// Requests that failed, but for those that were flushed behind one.
    Failed = 12,
    /// Requests of peers that were refused, or dropped without a word.
    Refused = 13,
    /// Writes, reads and atomics that were sent to the peer to be carried out there. All others this process carries out itself on
    /// the peer's memory.
    Asked = 14,
    /// How often what was under way was sent again.
    Repeated = 15,
}

impl Counter {
    /// All of them, each in its place, with its name.
    pub const ALL: [(Self, &'static str); COUNTERS] = [
        (Self::Sends, "sends"),
        (Self::SendBytes, "send_bytes"),
        (Self::Writes, "writes"),
        (Self::WriteBytes, "write_bytes"),
        (Self::Reads, "reads"),
        (Self::ReadBytes, "read_bytes"),
        (Self::Atomics, "atomics"),
        (Self::AtomicBytes, "atomic_bytes"),
        (Self::Received, "received"),
        (Self::ReceivedBytes, "received_bytes"),
        (Self::Served, "served"),
        (Self::ServedBytes, "served_bytes"),
        (Self::Failed, "failed"),
        (Self::Refused, "refused"),
        (Self::Asked, "asked"),
        (Self::Repeated, "repeated"),
    ];
}

/// The counters of one queue pair. Only one thread at a time counts: the one that has the queue pair's lock.
#[derive(Clone, Debug)]
pub struct PairCounters(SharedBlock<COUNTERS>);

impl PairCounters {
    /// Those in place `place` of the segment; 0 is that of the queue pairs that are gone.
    pub(crate) fn new(mapping: &Arc<SharedMapping>, place: usize) -> Self {
        Self(SharedBlock::new(Arc::clone(mapping), SEGMENT_COUNTERS + place * RECORD))
    }

    /// Counts `amount` more.
    #[inline(always)]
    pub fn add(&self, counter: Counter, amount: u64) {
        let word = &self.0.words()[counter as usize % COUNTERS];
        word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// The queue pair is destroyed: what it counted goes to that of all that are gone.
    pub(crate) fn retire_to(&self, gone: &Self) {
        for (counter, sum) in self.0.words().iter().zip(gone.0.words()) {
            let counted = counter.swap(0, Ordering::Relaxed);
            if counted > 0 {
                sum.fetch_add(counted, Ordering::Relaxed);
            }
        }
    }
}

/// What all queue pairs of a process have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters([u64; COUNTERS]);

impl Counters {
    /// One of them.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(count);
        }
        self
    }
}

impl FromIterator<(Counter, u64)> for Counters {
    /// Those named, and none of the others.
    fn from_iter<I: IntoIterator<Item = (Counter, u64)>>(counted: I) -> Self {
        let mut counters = Self::default();
        for (counter, count) in counted {
            counters.0[counter as usize] += count;
        }
        counters
    }
}

/// Adds up what the queue pairs of a segment have counted, those that are gone included. Others count meanwhile, so the sums of
/// two counters need not fit.
pub fn read_segment_counters(file: &File) -> io::Result<Counters> {
    let mut sums = Counters::default();
    for_each_page(file, SEGMENT_COUNTERS..SEGMENT_LENGTH, |page| {
        let mut bytes = [0u8; PAGE];
        file.read_exact_at(&mut bytes, page)?;
        for record in bytes.as_chunks::<RECORD>().0 {
            for (sum, word) in sums.0.iter_mut().zip(record.as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
        }
        Ok(())
    })?;
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Segment;

    #[test]
    fn every_counter_is_named_in_its_place() {
        let places = Counter::ALL.map(|(counter, _)| counter as usize);
        assert_eq!(places, std::array::from_fn(|place| place));
    }

    #[test]
    fn what_queue_pairs_count_is_added_up_and_stays_when_they_are_gone() {
        let segment = Segment::create().unwrap();
        let file: File = segment.as_fd().try_clone_to_owned().unwrap().into();
        assert_eq!(read_segment_counters(&file).unwrap(), Counters::default());
        let [first, far] = [0, 100_000].map(|number| segment.counters(number));
        first.add(Counter::Writes, 3);
        far.add(Counter::Writes, 4);
        far.add(Counter::Asked, 1);
        let read = || {
            let sums = read_segment_counters(&file).unwrap();
            [Counter::Writes, Counter::Asked, Counter::Sends].map(|counter| sums.get(counter))
        };
        assert_eq!(read(), [7, 1, 0]);
        segment.retire(&far);
        assert_eq!(read(), [7, 1, 0]);
        segment.counters(100_000).add(Counter::Writes, 1);
        assert_eq!(read(), [8, 1, 0]);
    }
}
