//! Which offsets of the own registered address space are taken.

use std::collections::BTreeMap;

use super::record::SPACE_END;

/// From here on the library chooses offsets where it is left to it; below, programs do (`SCIF_MAP_FIXED`, and suggestions).
pub(super) const CHOSEN_FROM: u64 = 1 << 62;

/// A window as its owner keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) length: u64,
    /// Ended, but in use.
    pub(super) dying: bool,
    /// The lines of its records, in order.
    pub(super) lines: Vec<u32>,
}

/// The windows by their first offset; they never overlap.
#[derive(Debug)]
pub(super) struct Space {
    windows: BTreeMap<u64, Window>,
    /// What is free: start and end, never touching each other.
    gaps: BTreeMap<u64, u64>,
}

impl Default for Space {
    fn default() -> Self {
        Self { windows: BTreeMap::new(), gaps: BTreeMap::from([(0, SPACE_END)]) }
    }
}

/// What lies in a range that is to be unregistered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// These windows, whole.
    Whole(Vec<u64>),
    /// No window.
    Nothing,
    /// A part of a window.
    Part,
}

impl Space {
    /// The windows that have bytes in a range, with where they begin.
    pub(super) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Window)> {
        let first =
            self.windows.range(..start).next_back().filter(move |(at, window)| **at + window.length > start);
        first.into_iter().chain(self.windows.range(start..end)).map(|(at, window)| (*at, window))
    }

    /// All windows.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &Window)> {
        self.windows.iter().map(|(at, window)| (*at, window))
    }

    pub(super) fn get_mut(&mut self, start: u64) -> Option<&mut Window> {
        self.windows.get_mut(&start)
    }

    /// The lowest free place for `length` bytes that the library may choose.
    pub(super) fn choose(&self, length: u64) -> Option<u64> {
        self.above(CHOSEN_FROM, length)
    }

    /// The place for `length` bytes that is nearest to a suggestion: there or above it; without any, what [`Space::choose`] finds.
    pub(super) fn near(&self, suggestion: u64, length: u64) -> Option<u64> {
        self.above(suggestion, length).or_else(|| self.choose(length))
    }

    /// The lowest free place for `length` bytes from an offset on.
    fn above(&self, from: u64, length: u64) -> Option<u64> {
        let around = self.gaps.range(..from).next_back().filter(|(_, end)| **end > from);
        let mut free = around.into_iter().chain(self.gaps.range(from..));
        free.find_map(|(start, end)| {
            let start = from.max(*start);
            (end - start >= length).then_some(start)
        })
    }

    /// Takes a range that is free.
    pub(super) fn insert(&mut self, start: u64, window: Window) {
        let end = start + window.length;
        debug_assert!(self.within(start, end).next().is_none(), "the range is taken");
        self.windows.insert(start, window);
        if let Some((&low, &high)) = self.gaps.range(..=start).next_back().filter(|(_, high)| **high >= end) {
            self.gaps.remove(&low);
            for (low, high) in [(low, start), (end, high)] {
                if low < high {
                    self.gaps.insert(low, high);
                }
            }
        }
    }

    /// Frees the range of a window.
    pub(super) fn remove(&mut self, start: u64) -> Option<Window> {
        let window = self.windows.remove(&start)?;
        let before = self.gaps.range(..start).next_back().filter(|(_, high)| **high == start);
        let low = before.map_or(start, |(low, _)| *low);
        let end = start + window.length;
        let high = self.gaps.remove(&end).unwrap_or(end);
        self.gaps.insert(low, high);
        Some(window)
    }

    /// What `scif_unregister` of a range is about: windows that are not dying.
    pub(super) fn inside(&self, start: u64, end: u64) -> Inside {
        let mut whole = Vec::new();
        for (at, window) in self.within(start, end).filter(|(_, window)| !window.dying) {
            if at < start || at + window.length > end {
                return Inside::Part;
            }
            whole.push(at);
        }
        if whole.is_empty() { Inside::Nothing } else { Inside::Whole(whole) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(length: u64) -> Window {
        Window { length, dying: false, lines: Vec::new() }
    }

    #[test]
    fn the_lowest_gap_that_is_long_enough_is_chosen() {
        let mut space = Space::default();
        for length in [1, 2, 3, 4] {
            let at = space.choose(length).unwrap();
            space.insert(at, window(length));
        }
        assert_eq!(space.choose(1), Some(CHOSEN_FROM + 10));
        space.remove(CHOSEN_FROM + 1);
        space.remove(CHOSEN_FROM + 6);
        assert_eq!((space.choose(3), space.choose(2)), (Some(CHOSEN_FROM + 6), Some(CHOSEN_FROM + 1)));
        assert_eq!((space.choose(1 << 61), space.choose(1 << 62)), (Some(CHOSEN_FROM + 6), None));
    }

    #[test]
    fn a_suggestion_is_taken_or_the_nearest_place_above_it_or_the_librarys_choice() {
        let mut space = Space::default();
        for (at, length) in [(100, 10), (112, 8), (SPACE_END - 5, 5)] {
            assert_eq!(space.near(at, length), Some(at));
            space.insert(at, window(length));
        }
        assert_eq!((space.near(90, 10), space.near(91, 10)), (Some(90), Some(120)));
        assert_eq!((space.near(99, 2), space.near(105, 2)), (Some(110), Some(110)));
        assert_eq!((space.near(111, 1), space.near(111, 2)), (Some(111), Some(120)));
        assert_eq!(
            space.near(CHOSEN_FROM - 1, 2),
            Some(CHOSEN_FROM - 1),
            "the two parts of the space are one"
        );
        space.remove(112);
        assert_eq!((space.near(105, 2), space.near(112, 20)), (Some(110), Some(112)));
        for nothing_above in [SPACE_END - 5, SPACE_END - 1, SPACE_END] {
            assert_eq!(space.near(nothing_above, 1), Some(CHOSEN_FROM));
        }
        assert_eq!(space.near(200, 1 << 62), Some(200), "it fits only below");
        assert_eq!(space.near(CHOSEN_FROM, 1 << 62), None);
    }

    /// Units of the model, each free or taken by the window that begins at a unit.
    const UNITS: usize = 48;

    proptest! {
        #[test]
        fn offsets_are_those_of_a_map_of_single_units(
            steps in prop::collection::vec((0u8..5, 0u64..40, 1u64..9), 1..80)
        ) {
            let mut space = Space::default();
            let mut model: Vec<Option<u64>> = vec![None; UNITS];
            for (step, at, length) in steps {
                let range = at as usize..((at + length) as usize).min(UNITS);
                let fits = |start: usize| {
                    model[start..(start + length as usize).min(UNITS)].iter().all(Option::is_none)
                };
                match step {
                    0 | 1 | 4 => {
                        let from = if step == 4 { at } else { 0 };
                        let expected = (from as usize..UNITS).find(|&start| fits(start)).unwrap_or(UNITS) as u64;
                        let chosen = match step {
                            4 => space.near(CHOSEN_FROM + at, length),
                            _ => space.choose(length),
                        };
                        let chosen = chosen.unwrap() - CHOSEN_FROM;
                        prop_assert_eq!(chosen, expected);
                        if chosen + length <= UNITS as u64 {
                            space.insert(CHOSEN_FROM + chosen, window(length));
                            model[chosen as usize..(chosen + length) as usize].fill(Some(chosen));
                        }
                    }
                    2 => {
                        let taken: Vec<_> = space.within(CHOSEN_FROM + at, CHOSEN_FROM + range.end as u64).collect();
                        prop_assert_eq!(taken.is_empty(), model[range].iter().all(Option::is_none));
                    }
                    _ => {
                        let in_range: std::collections::BTreeSet<_> = model[range.clone()].iter().flatten().copied().collect();
                        let is_whole = |start: &u64| {
                            (0..UNITS).filter(|&unit| model[unit] == Some(*start)).all(|unit| range.contains(&unit))
                        };
                        let expected = if in_range.is_empty() {
                            Inside::Nothing
                        } else if in_range.iter().all(is_whole) {
                            Inside::Whole(in_range.iter().map(|start| CHOSEN_FROM + start).collect())
                        } else {
                            Inside::Part
                        };
                        let inside = space.inside(CHOSEN_FROM + at, CHOSEN_FROM + range.end as u64);
                        prop_assert_eq!(&inside, &expected);
                        if let Inside::Whole(starts) = inside {
                            for start in starts {
                                space.remove(start);
                                for unit in &mut model {
                                    if *unit == Some(start - CHOSEN_FROM) {
                                        *unit = None;
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
