//! Which registrations are too short to gain: programs that register for each message pay for adoption and for giving back, and
//! copy less than that.

use std::time::Duration;

use nonic_sys::PAGE;

/// Sizes by powers of two of pages.
const SIZES: usize = 32;
/// So many short lives in a row, and a size is left plain.
const SHORT_IN_A_ROW: u8 = 8;
/// A registration gains if it lives at least this long ...
const LEAST: Duration = Duration::from_micros(200);
/// ... and this much longer for each page that had to be copied: some ten times what that costs, both ways.
const PER_PAGE: Duration = Duration::from_micros(20);

/// How long registrations of each size have lived: short ones since the last long one.
#[derive(Debug, Default)]
pub(super) struct Learned {
    short: [u8; SIZES],
}

fn class(bytes: usize) -> usize {
    ((bytes / PAGE).max(1).ilog2() as usize).min(SIZES - 1)
}

impl Learned {
    /// Whether registrations of this size have been too short.
    pub(super) fn is_short_lived(&self, bytes: usize) -> bool {
        self.short[class(bytes)] >= SHORT_IN_A_ROW
    }

    /// A registration of this size has ended that had, or would have had, so many pages copied.
    pub(super) fn note(&mut self, bytes: usize, copied_pages: usize, lived: Duration) {
        let short = &mut self.short[class(bytes)];
        let pages = u32::try_from(copied_pages).unwrap_or(u32::MAX);
        if lived < LEAST + PER_PAGE.saturating_mul(pages) {
            *short = short.saturating_add(1);
        } else {
            *short = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_left_plain_after_eight_short_lives_and_until_a_long_one() {
        let mut learned = Learned::default();
        let note = |learned: &mut Learned, micros| {
            learned.note(16 * PAGE, 16, Duration::from_micros(micros));
        };
        for _ in 0..7 {
            note(&mut learned, 519);
        }
        assert!(!learned.is_short_lived(16 * PAGE));
        note(&mut learned, 519);
        assert!(learned.is_short_lived(16 * PAGE) && learned.is_short_lived(31 * PAGE));
        assert!(!learned.is_short_lived(15 * PAGE) && !learned.is_short_lived(32 * PAGE));
        note(&mut learned, 520);
        assert!(!learned.is_short_lived(16 * PAGE));
    }

    #[test]
    fn a_long_life_between_short_ones_keeps_a_size_adopted() {
        let mut learned = Learned::default();
        for round in 0..100 {
            learned.note(PAGE, 1, Duration::from_micros(if round % 8 == 7 { 10_000 } else { 1 }));
            assert!(!learned.is_short_lived(PAGE));
        }
    }
}
