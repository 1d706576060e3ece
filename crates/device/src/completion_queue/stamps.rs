//! When completions were added, for queues that say so.

use nonic_protocol::Ring;
pub use nonic_sys::raw_clock_ns;
use nonic_sys::wall_clock_ns;

/// When a completion was added to its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds of [`raw_clock_ns`].
    pub raw_ns: u64,
    /// Nanoseconds since 1970.
    pub wall_ns: u64,
}

/// The stamps of the entries that wait, in their order.
#[derive(Debug, Default)]
pub(super) struct Stamps(Ring<Stamp>);

impl Stamps {
    /// An entry was added now.
    pub(super) fn add(&mut self) {
        *self.0.add() = Stamp { raw_ns: raw_clock_ns(), wall_ns: wall_clock_ns() };
    }

    /// An entry was put before the others.
    pub(super) fn put_first(&mut self, stamp: Stamp) {
        self.0.put_first(stamp);
    }

    /// The oldest entries were taken, so many.
    pub(super) fn pass(&mut self, count: usize, look: impl FnMut(&[Stamp])) {
        self.0.pass(count, look);
    }

    /// Of the entries those stay of which `stay` says so, one after the other.
    pub(super) fn retain(&mut self, mut stay: impl Iterator<Item = bool>) {
        self.0.retain(|_| stay.next().unwrap_or(true));
    }
}
