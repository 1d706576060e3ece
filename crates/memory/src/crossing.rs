//! How bytes that another core reads next are best stored: learnt while they are.

use nonic_sys::{STREAM_MIN, ticks};

use crate::SharedSlice;

/// Bytes that go past the caches first: enough that pages which are new to this process no longer count.
const FIRST: u64 = 2 << 20;
/// Bytes that go past the caches before the other way is tried once more: at first, and at most. A trial that fails moves a few
/// hundred kilobytes five times slower.
const STRETCH: [u64; 2] = [64 << 20, 4 << 30];
/// After so many bytes through the caches a trial has not failed.
const PROVED: u64 = 64 << 20;
/// A copy through the caches is slow if it takes so many times what one past them does. That one leaves it to the reader to fetch the
/// bytes from memory, which takes about twice as long as to store them there.
const SLOW: u64 = 3;
/// So many slow copies more than fast ones end a trial, and twice as many what has proved itself.
const PATIENCE: u32 = 8;

/// Copies bytes that another core reads at once, while this one goes on.
///
/// Two ways are there. *Through* the caches a store first fetches its line from the cache of whoever used it last, and the reader
/// fetches it from this core's: the fastest way by far between cores that share a cache, if the place was not read just now, and the
/// slowest between cores that do not. *Past* the caches the bytes go to memory, which takes the same time wherever the reader is.
/// GB/s of a ring that one core fills and another empties, in pieces of 64 KiB, through and past (`examples/crossing_speed.rs`):
///
/// | ring | cores share a cache | cores far apart |
/// |---|---|---|
/// | 128 KiB | 8, 15 | |
/// | 1 MiB | 15, 15 | 2.4, 13 |
/// | 4 MiB | 38, 14 | 3.1, 13 |
///
/// Where threads run changes by the second, and nothing tells of it but how long a copy takes. So each direction of a stream has one
/// of these, which goes through the caches as long as that is not far slower than past them, and tries again later if it was.
#[derive(Debug)]
pub struct Crossing {
    way: Way,
    /// Ticks that a KiB takes past the caches, the least seen.
    past: u64,
    /// Bytes left of the stretch.
    left: u64,
    /// How long the next stretch past the caches is.
    stretch: u64,
    /// Slow copies that are borne yet.
    patience: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Past,
    Through,
}

impl Default for Crossing {
    fn default() -> Self {
        Self { way: Way::Past, past: u64::MAX / SLOW, left: FIRST, stretch: STRETCH[0], patience: PATIENCE }
    }
}

impl Crossing {
    /// Copies `source` to the start of `target`, in the order of [`SharedSlice::copy_from`].
    ///
    /// # Panics
    /// If `source` is longer.
    pub fn copy(&mut self, target: SharedSlice<'_>, source: SharedSlice<'_>) {
        let length = source.length();
        if length < STREAM_MIN {
            return target.copy_near_from(source);
        }
        let begun = ticks();
        match self.way {
            Way::Past => target.copy_from(source),
            Way::Through => target.copy_near_from(source),
        }
        self.took(length as u64, ticks().wrapping_sub(begun));
    }

    /// A copy the way it now goes took so long.
    fn took(&mut self, length: u64, ticks: u64) {
        let a_kib = (ticks << 10) / length;
        match self.way {
            Way::Past => self.past = self.past.min(a_kib),
            Way::Through if a_kib > SLOW * self.past => self.patience -= 1,
            Way::Through => self.patience = (self.patience + 1).min(2 * PATIENCE),
        }
        self.left = self.left.saturating_sub(length);
        match self.way {
            Way::Past if self.left == 0 => {
                (self.way, self.left, self.patience) = (Way::Through, PROVED, PATIENCE);
            }
            Way::Through if self.patience == 0 => {
                (self.way, self.left) = (Way::Past, self.stretch);
                self.stretch = (2 * self.stretch).min(STRETCH[1]);
            }
            Way::Through if self.left == 0 => self.stretch = STRETCH[0],
            Way::Past | Way::Through => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 64 << 10;

    /// Copies so many bytes, of which a KiB takes so many ticks through the caches, and 100 past them. Returns how many went past.
    fn go(crossing: &mut Crossing, bytes: u64, through: u64) -> u64 {
        let pieces = 0..bytes / PIECE;
        let past = pieces.filter(|_| {
            let is_past = crossing.way == Way::Past;
            crossing.took(PIECE, PIECE / 1024 * if is_past { 100 } else { through });
            is_past
        });
        past.count() as u64 * PIECE
    }

    #[test]
    fn bytes_go_through_the_caches_while_that_is_not_far_slower() {
        let mut crossing = Crossing::default();
        assert_eq!(go(&mut crossing, 1 << 30, 300), FIRST);
        // Single slow ones, as when the thread was not running, count for nothing.
        for _ in 0..1000 {
            assert_eq!(go(&mut crossing, 7 * PIECE, 100_000), 0);
            assert_eq!(go(&mut crossing, 9 * PIECE, 60), 0);
        }
    }

    #[test]
    fn they_go_past_them_where_it_is_and_the_trials_cost_little() {
        let mut crossing = Crossing::default();
        let all = 64 << 30;
        let through = all - go(&mut crossing, all, 1000);
        assert!(through < all / 1000, "{through} bytes of {all} went the slow way");
    }

    #[test]
    fn a_change_is_found_soon_in_either_direction() {
        let mut crossing = Crossing::default();
        go(&mut crossing, 1 << 30, 60);
        let through = |crossing: &mut Crossing| 4 * STRETCH[0] - go(crossing, 4 * STRETCH[0], 1000);
        assert!(through(&mut crossing) <= (2 + 1 + 1) * u64::from(PATIENCE) * PIECE, "it became slow");
        // Once it was slow for long it is tried less often, but tried it is.
        go(&mut crossing, 64 << 30, 1000);
        assert!(go(&mut crossing, 8 << 30, 60) <= STRETCH[1], "it became fast");
        // And what is known of the past is forgotten.
        go(&mut crossing, 1 << 30, 60);
        go(&mut crossing, 16 * PIECE, 1000);
        assert_eq!(go(&mut crossing, 1 << 30, 60), STRETCH[0]);
    }

    #[test]
    fn without_a_clock_all_but_the_first_go_through_the_caches() {
        let mut crossing = Crossing::default();
        for _ in 0..10_000 {
            crossing.took(PIECE, 0);
        }
        assert_eq!((crossing.way, crossing.past), (Way::Through, 0));
    }

    #[test]
    fn bytes_arrive_either_way_whatever_their_number() {
        let mut crossing = Crossing::default();
        let mut source: Vec<u8> = (0..100_000u32).map(|at| (at * 7 + at / 256) as u8).collect();
        let mut target = vec![0; source.len()];
        for way in [Way::Past, Way::Through] {
            for length in [0, 1, STREAM_MIN - 1, STREAM_MIN, source.len()] {
                (crossing.way, crossing.left) = (way, u64::MAX);
                target.fill(0);
                let source = SharedSlice::of_private(&mut source);
                crossing.copy(SharedSlice::of_private(&mut target), source.part(0, length));
                assert!(target[length..].iter().all(|byte| *byte == 0));
                let mut copied = vec![0; length];
                source.part(0, length).read(&mut copied);
                assert!(target[..length] == copied, "{way:?} {length}");
            }
        }
    }
}
