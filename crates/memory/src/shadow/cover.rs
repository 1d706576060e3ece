//! How many regions there are on every byte.

use std::collections::BTreeMap;
use std::ops::Range;

/// From a position on, up to the next one: how many. Nothing is noted before the first, and the last is 0.
#[derive(Debug, Default)]
pub(super) struct Cover(BTreeMap<u64, u32>);

impl Cover {
    fn count(&self, at: u64) -> u32 {
        self.0.range(..=at).next_back().map_or(0, |(_, count)| *count)
    }

    fn change(&mut self, range: &Range<u64>, change: impl Fn(u32) -> u32) {
        if range.is_empty() {
            return;
        }
        for edge in [range.start, range.end] {
            let count = self.count(edge);
            self.0.insert(edge, count);
        }
        for (_, count) in self.0.range_mut(range.clone()) {
            *count = change(*count);
        }
        // Where nothing changes there is no edge.
        let edges: Vec<u64> = self.0.range(range.start..=range.end).map(|(edge, _)| *edge).collect();
        for edge in edges {
            let before = edge.checked_sub(1).map_or(0, |before| self.count(before));
            if self.count(edge) == before {
                self.0.remove(&edge);
            }
        }
    }

    /// One more region.
    pub(super) fn add(&mut self, range: &Range<u64>) {
        self.change(range, |count| count + 1);
    }

    /// One less. The range was added.
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        self.change(range, |count| count - 1);
    }

    /// The pieces of a range that regions are on, in ascending order.
    pub(super) fn covered(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let (mut covered, mut at) = (Vec::new(), range.start);
        let end = range.end..range.end;
        for bare in self.bare(range).into_iter().chain([end]) {
            if at < bare.start {
                covered.push(at..bare.start);
            }
            at = bare.end;
        }
        covered
    }

    /// The pieces of a range that no region is on, in ascending order.
    pub(super) fn bare(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let (mut bare, mut at, mut count) = (Vec::new(), range.start, self.count(range.start));
        let ends = self.0.range(range.clone()).map(|(edge, count)| (*edge, *count));
        for (edge, next) in ends.chain([(range.end, 0)]) {
            if count == 0 && at < edge {
                bare.push(at..edge);
            }
            (at, count) = (edge, next);
        }
        bare
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a count for every byte.
        #[test]
        fn every_byte_is_counted(ranges in prop::collection::vec((0u64..60, 0u64..20), 1..20)) {
            let mut cover = Cover::default();
            let mut counts = [0u32; 80];
            let range = |(start, length): (u64, u64)| start..start + length;
            let turns = ranges.iter().map(|part| (true, *part)).chain(ranges.iter().map(|part| (false, *part)));
            for (adds, part) in turns {
                if adds { cover.add(&range(part)) } else { cover.remove(&range(part)) }
                for at in range(part) {
                    let count = &mut counts[at as usize];
                    *count = if adds { *count + 1 } else { *count - 1 };
                }
                let bare = cover.bare(&(0..80));
                let mut all: Vec<_> = cover.covered(&(0..80)).into_iter().chain(bare.clone()).collect();
                all.sort_by_key(|piece| piece.start);
                prop_assert_eq!(all.iter().map(|piece| piece.end - piece.start).sum::<u64>(), 80);
                prop_assert!(all.is_sorted_by(|one, next| one.end == next.start));
                for at in 0..80u64 {
                    prop_assert_eq!(cover.count(at), counts[at as usize]);
                    let free = bare.iter().any(|range| range.contains(&at));
                    prop_assert_eq!(free, counts[at as usize] == 0);
                }
            }
            prop_assert!(cover.0.is_empty(), "{cover:?}");
        }
    }
}
