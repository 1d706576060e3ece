//! Ranges with use counts: neighbours of the same count are one entry, so a million regions in one heap cost little.

use std::collections::BTreeMap;

/// Half-open ranges of numbers, each with how often it is in use. A range can be in use not at all and still be there.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Start to end and uses; entries never overlap.
    entries: BTreeMap<u64, (u64, u32)>,
    /// Stretches without a gap, whatever the counts.
    stretches: usize,
}

impl Runs {
    pub(super) const fn new() -> Self {
        Self { entries: BTreeMap::new(), stretches: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many stretches without a gap there are: as many mappings, if the ranges are addresses.
    pub(super) fn stretches(&self) -> usize {
        self.stretches
    }

    /// The end of the last entry.
    pub(super) fn last_end(&self) -> Option<u64> {
        self.entries.last_key_value().map(|(_, &(end, _))| end)
    }

    /// Start, end and uses of each entry that touches `start..end`, cut to it.
    pub(super) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        let first = self.entries.range(..=start).next_back().filter(|(_, (last, _))| *last > start);
        let rest = self.entries.range(start.saturating_add(1)..end.max(start.saturating_add(1)));
        first
            .into_iter()
            .chain(rest)
            .map(move |(&from, &(to, uses))| (from.max(start), to.min(end), uses))
            .filter(|(from, to, _)| from < to)
    }

    /// All entries.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        self.entries.iter().map(|(&start, &(end, uses))| (start, end, uses))
    }

    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.within(start, end).next().is_some()
    }

    /// Whether every number of the range is there.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        for (from, to, _) in self.within(start, end) {
            if from != at {
                return false;
            }
            at = to;
        }
        at == end
    }

    /// Whether a stretch begins or ends exactly beside the range, so that adding it makes no new one.
    pub(super) fn touches(&self, start: u64, end: u64) -> bool {
        let ends_here = self.entries.range(..start).next_back().is_some_and(|(_, &(last, _))| last == start);
        ends_here || self.entries.contains_key(&end) || self.overlaps(start, end)
    }

    /// Adds one use to every number of the range; those that were not there come with one.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        self.change(start, end, |uses| uses.saturating_add(1), 1);
    }

    /// Makes the range be there, with no more uses than it has.
    pub(super) fn keep(&mut self, start: u64, end: u64) {
        self.change(start, end, |uses| uses, 0);
    }

    fn change(&mut self, start: u64, end: u64, count: impl Fn(u32) -> u32, new: u32) {
        if start >= end {
            return;
        }
        self.split_at(start);
        self.split_at(end);
        let mut at = start;
        while at < end {
            match self.entries.range_mut(at..end).next() {
                Some((&from, (to, uses))) if from == at => {
                    (*uses, at) = (count(*uses), *to);
                }
                next => {
                    let gap_end = next.map_or(end, |(&from, _)| from);
                    self.fill(at, gap_end, new);
                    at = gap_end;
                }
            }
        }
        self.join(start, end);
    }

    fn fill(&mut self, start: u64, end: u64, uses: u32) {
        let before = self.entries.range(..start).next_back().is_some_and(|(_, &(last, _))| last == start);
        let after = self.entries.contains_key(&end);
        self.entries.insert(start, (end, uses));
        self.stretches = self.stretches + 1 - usize::from(before) - usize::from(after);
    }

    /// Takes one use from every number of the range that has one.
    pub(super) fn release(&mut self, start: u64, end: u64) {
        self.split_at(start);
        self.split_at(end);
        for (_, (_, uses)) in self.entries.range_mut(start..end) {
            *uses = uses.saturating_sub(1);
        }
        self.join(start, end);
    }

    /// Takes the range out, used or not.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        self.split_at(start);
        self.split_at(end);
        while let Some((&from, &(to, _))) = self.entries.range(start..end).next() {
            self.entries.remove(&from);
            let before = self.entries.range(..from).next_back().is_some_and(|(_, &(last, _))| last == from);
            let after = self.entries.contains_key(&to);
            self.stretches = self.stretches + usize::from(before) + usize::from(after) - 1;
        }
    }

    fn split_at(&mut self, at: u64) {
        if let Some((_, (end, uses))) = self.entries.range_mut(..at).next_back()
            && *end > at
        {
            let rest = (*end, *uses);
            *end = at;
            self.entries.insert(at, rest);
        }
    }

    /// Makes one entry of neighbours with the same count, from the one that ends at `start` to the one that begins at `end`.
    fn join(&mut self, start: u64, end: u64) {
        let mut at = self
            .entries
            .range(..start)
            .next_back()
            .filter(|(_, (last, _))| *last == start)
            .map_or(start, |(&from, _)| from);
        while at < end {
            let Some((&from, &(to, uses))) = self.entries.range(at..).next() else { return };
            match self.entries.get(&to) {
                Some(&(next_end, next_uses)) if next_uses == uses && from <= end => {
                    self.entries.remove(&to);
                    self.entries.insert(from, (next_end, uses));
                    at = from;
                    if to > end {
                        return;
                    }
                }
                _ => at = to,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_of_one_count_are_one_entry() {
        let mut runs = Runs::new();
        for page in 0..1000 {
            runs.add(page * 4096, (page + 1) * 4096);
        }
        assert_eq!(runs.all().collect::<Vec<_>>(), [(0, 1000 * 4096, 1)]);
        assert_eq!(runs.stretches(), 1);
        runs.add(8192, 12288);
        assert_eq!(runs.all().count(), 3);
        runs.release(8192, 12288);
        assert_eq!(runs.all().count(), 1);
    }

    proptest! {
        #[test]
        fn the_counts_are_those_of_single_numbers(
            steps in prop::collection::vec((0u64..40, 1u64..20, 0u8..4), 1..60)
        ) {
            let mut runs = Runs::new();
            let mut model = vec![None::<u32>; 64];
            for (start, length, step) in steps {
                let (end, range) = (start + length, start as usize..(start + length) as usize);
                match step {
                    0 | 1 => {
                        runs.add(start, end);
                        for slot in &mut model[range] {
                            *slot = Some(slot.unwrap_or(0) + 1);
                        }
                    }
                    2 => {
                        runs.release(start, end);
                        for slot in model[range].iter_mut().flatten() {
                            *slot = slot.saturating_sub(1);
                        }
                    }
                    _ => {
                        runs.remove(start, end);
                        model[range].fill(None);
                    }
                }
                let mut seen = vec![None; 64];
                for (from, to, uses) in runs.all() {
                    prop_assert!(from < to);
                    seen[from as usize..to as usize].fill(Some(uses));
                }
                prop_assert_eq!(&seen, &model);
                let stretches = (0..64).filter(|&at| model[at].is_some() && (at == 0 || model[at - 1].is_none()));
                prop_assert_eq!(runs.stretches(), stretches.count());
                let all: Vec<_> = runs.all().collect();
                prop_assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].0 || pair[0].2 != pair[1].2), "{:?}", all);
                prop_assert_eq!(runs.covers(10, 20), model[10..20].iter().all(Option::is_some));
                prop_assert_eq!(runs.overlaps(10, 20), model[10..20].iter().any(Option::is_some));
            }
        }
    }
}
