//! Places of a table that were never used, in an order that nobody can guess: a key is all that a packet from another host shows.

use std::ops::Range;

use super::chance::Chance;
use super::view::KeyTableView;

/// Places in a page.
const BLOCK: u32 = (4096 / KeyTableView::ENTRY) as u32;
/// Pages of which places come, from the first on: who knows one key knows one of so many pages. A megabyte, when all are touched.
const PAGES: usize = 256;
/// Places of begun pages at least, as long as there are others.
const CHOICE: usize = PAGES * BLOCK as usize / 2;

/// The places of a table that were never used.
#[derive(Debug)]
pub(super) struct FreshPlaces {
    capacity: u32,
    /// Pages of which no place was used. Listed for the first place that is asked for.
    blocks: Option<Vec<u32>>,
    /// Pages that were begun.
    begun: usize,
    /// What is left of them.
    places: Vec<u32>,
}

impl FreshPlaces {
    /// All of a table of `capacity` places but the first.
    pub(super) fn of(capacity: u32) -> Self {
        Self { capacity, blocks: None, begun: 0, places: Vec::new() }
    }

    /// Takes one by chance. `None` if there is none left.
    ///
    /// The first are of a page each, so that they can be anywhere. Later ones are of pages that were begun: memory is touched for
    /// few places as it is for many.
    pub(super) fn take(&mut self, chance: &mut Chance) -> Option<u32> {
        let drawn = chance.draw();
        let (one, other) = (drawn as u32, (drawn >> 32) as u32);
        if self.begun < PAGES || self.places.len() < CHOICE {
            let blocks = self.blocks.get_or_insert_with(|| (0..self.capacity.div_ceil(BLOCK)).collect());
            if let Some(block) = take_any(blocks, one) {
                self.begun += 1;
                let mut places: Vec<_> = places_of(block, self.capacity).collect();
                let place = take_any(&mut places, other);
                self.places.append(&mut places);
                if place.is_some() {
                    return place;
                }
            }
        }
        take_any(&mut self.places, one)
    }
}

/// Place 0 leads nowhere.
fn places_of(block: u32, capacity: u32) -> Range<u32> {
    (block * BLOCK).max(1)..((block + 1) * BLOCK).min(capacity)
}

fn take_any(all: &mut Vec<u32>, chance: u32) -> Option<u32> {
    if all.is_empty() {
        return None;
    }
    Some(all.swap_remove(chance as usize % all.len()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn take_all(places: &mut FreshPlaces) -> Vec<u32> {
        let mut chance = Chance::new();
        std::iter::from_fn(|| places.take(&mut chance)).collect()
    }

    #[test]
    fn every_place_but_the_first_comes_once() {
        for capacity in [2, 8, BLOCK, 16 * BLOCK, 1024 * BLOCK] {
            let taken = take_all(&mut FreshPlaces::of(capacity));
            let set: HashSet<_> = taken.iter().copied().collect();
            assert_eq!((taken.len(), set), (capacity as usize - 1, (1..capacity).collect()));
        }
    }

    #[test]
    fn the_first_place_of_a_process_cannot_be_guessed() {
        // 2^20 places: two of a hundred are the same in one of 200 runs, fifty of them never.
        let first: HashSet<_> =
            (0..100).map(|_| FreshPlaces::of(1 << 20).take(&mut Chance::new()).unwrap()).collect();
        assert!(first.len() > 50, "{} different ones of a hundred", first.len());
        assert!(first.iter().any(|place| *place > 1 << 18), "{first:?}");
    }

    #[test]
    fn who_knows_a_place_does_not_know_the_next() {
        let (mut places, mut chance) = (FreshPlaces::of(1 << 20), Chance::new());
        let taken: Vec<_> = (0..5000).map(|_| places.take(&mut chance).unwrap()).collect();
        let beside = taken.windows(2).filter(|pair| pair[0] / BLOCK == pair[1] / BLOCK).count();
        // One of 256, 20 of 5000; 100 never.
        assert!(beside < 100, "{beside} of 5000 places are in the page of the one before");
    }

    #[test]
    fn few_pages_are_begun() {
        let (mut places, mut chance) = (FreshPlaces::of(1 << 20), Chance::new());
        let mut pages = |count| {
            (0..count).map(|_| places.take(&mut chance).unwrap() / BLOCK).collect::<HashSet<_>>().len()
        };
        assert_eq!(pages(PAGES), PAGES);
        assert!(pages(CHOICE - 2 * PAGES) <= PAGES);
        assert_eq!(places.begun, PAGES);
    }
}
