//! In which order the tags of a place follow one another: in another for each place and process, which nobody can guess.

use super::chance::Chance;

/// The orders of a table's places.
#[derive(Debug)]
pub(super) struct Tags(Chance);

/// Rounds that exchange the halves of a tag. An even number.
const ROUNDS: u32 = 4;

impl Tags {
    pub(super) fn by_chance() -> Self {
        Self(Chance::new())
    }

    /// The tag that is number `nth` of the place's, 0 to 255. Each number has another one.
    pub(super) fn tag(&self, index: u32, nth: u8) -> u8 {
        let hash = self.0.of(index);
        (0..ROUNDS).fold(nth, |tag, round| {
            let (high, low) = (tag >> 4, tag & 0xf);
            low << 4 | (high ^ scramble(hash, round, low))
        })
    }

    /// Which number that tag of the place has.
    pub(super) fn number(&self, index: u32, tag: u8) -> u8 {
        let hash = self.0.of(index);
        (0..ROUNDS).rev().fold(tag, |tag, round| {
            let (low, mixed) = (tag >> 4, tag & 0xf);
            (mixed ^ scramble(hash, round, low)) << 4 | low
        })
    }
}

/// Four bits of the hash, others in each round for each half.
fn scramble(hash: u64, round: u32, half: u8) -> u8 {
    (hash.rotate_right(16 * round + u32::from(half)) & 0xf) as u8
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_number_of_a_place_has_a_tag_of_its_own() {
        let tags = Tags::by_chance();
        for index in 0..1000 {
            let all: HashSet<_> = (0..=u8::MAX).map(|nth| tags.tag(index, nth)).collect();
            assert_eq!(all.len(), 256, "place {index}");
            assert!((0..=u8::MAX).all(|nth| tags.number(index, tags.tag(index, nth)) == nth));
        }
    }

    #[test]
    fn a_tag_does_not_tell_the_next() {
        // By how much the next differs, at many places: each of 255 differences is about as frequent as any other.
        let tags = Tags::by_chance();
        let mut counts = [0u32; 256];
        for index in 0..1000 {
            for nth in 0..u8::MAX {
                counts[usize::from(tags.tag(index, nth + 1).wrapping_sub(tags.tag(index, nth)))] += 1;
            }
        }
        let most = counts.iter().max().unwrap();
        assert!(*most < 4 * 1000, "of 255,000 steps {most} are the same: {counts:?}");
    }

    #[test]
    fn two_tables_have_different_orders() {
        let (one, other) = (Tags::by_chance(), Tags::by_chance());
        let same = (0..1000).filter(|index| one.tag(*index, 0) == other.tag(*index, 0)).count();
        assert!(same < 100, "{same} of 1000 places begin alike");
    }
}
