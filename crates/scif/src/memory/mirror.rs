//! A process's own copy of a side's table of windows, for looking up offsets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use nonic_memory::SharedSlice;
use nonic_sys::{FileIdentity, PeerMemory, process_is_ending};

use super::area::{Area, LOG_LENGTH, RECORDS, Table};
use super::far;
use super::record::{Place, Record, State};
use super::view::View;
use crate::ScifError;
use crate::options::Protection;

/// Attempts to copy a table whole that changes meanwhile.
const ATTEMPTS: u32 = 100;

/// The copy, ordered by offset.
#[derive(Debug)]
pub(super) struct Mirror {
    area: Area,
    version: u64,
    /// First offsets of the live runs, ascending, and the lines of their records.
    starts: Vec<u64>,
    lines: Vec<u32>,
    /// By line.
    runs: Vec<Option<Run>>,
    /// Where the last lookup ended.
    last: usize,
    /// Runs for each byte of the space, if they lie evenly: programs open many windows of one size, one after the other.
    density: f64,
    /// Views that are worth keeping although no window lies in them.
    kept: Vec<Arc<View>>,
}

/// A live run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) record: Record,
    /// With the offset there of the run's first byte.
    view: Option<(Arc<View>, u64)>,
    memory: Option<Arc<PeerMemory>>,
    /// This process cannot attach the segment that it lies in.
    unattached: bool,
}

impl Run {
    fn new(record: Record) -> Self {
        Self { record, view: None, memory: None, unattached: false }
    }
}

impl Mirror {
    /// An empty copy: the first lookup fills it.
    pub(super) fn new(area: Area) -> Self {
        let (starts, lines, runs, kept) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { area, version: 0, starts, lines, runs, last: 0, density: 0.0, kept }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.area.clone());
    }

    /// Makes the copy what the table is now.
    #[inline]
    pub(super) fn refresh(&mut self) {
        let version = self.area.version().load(Ordering::Acquire);
        if version != self.version {
            self.catch_up(version);
        }
    }

    #[cold]
    fn catch_up(&mut self, version: u64) {
        self.learn_changes(version);
        self.density = match (self.starts.first(), self.starts.last()) {
            (Some(first), Some(last)) if last > first => {
                (self.starts.len() - 1) as f64 / (last - first) as f64
            }
            _ => 0.0,
        };
    }

    fn learn_changes(&mut self, version: u64) {
        let behind = version.wrapping_sub(self.version);
        if behind <= LOG_LENGTH / 2 {
            let mut lines = [0; LOG_LENGTH as usize];
            for (line, step) in lines.iter_mut().zip(1..=behind) {
                *line = self.area.changed(self.version.wrapping_add(step)).load(Ordering::Relaxed) as usize;
            }
            fence(Ordering::Acquire);
            // What was overwritten meanwhile is newer than half the log.
            let now = self.area.version().load(Ordering::Relaxed);
            if now.wrapping_sub(self.version) <= LOG_LENGTH / 2 {
                for line in &lines[..behind as usize] {
                    self.take_line(*line);
                }
                self.version = version;
                return;
            }
        }
        self.copy_whole();
    }

    /// A record that changes while it is read is in a later entry of the log, too.
    fn take_line(&mut self, line: usize) {
        if line >= RECORDS {
            return;
        }
        self.remove(line);
        let record = self.area.read_line(Table::Records, line).and_then(Record::from_words);
        let Some(record) = record.filter(|record| record.state == State::Live) else { return };
        let at = self.starts.partition_point(|start| *start < record.offset);
        if self.overlaps(at, &record) {
            return;
        }
        self.starts.insert(at, record.offset);
        self.lines.insert(at, line as u32);
        if self.runs.len() <= line {
            self.runs.resize_with(line + 1, || None);
        }
        self.runs[line] = Some(Run::new(record));
    }

    /// Whether a run would lie over a neighbour: then the other side makes no sense.
    fn overlaps(&self, at: usize, record: &Record) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.at(before));
        before.is_some_and(|run| run.record.end() > record.offset)
            || self.starts.get(at).is_some_and(|start| *start < record.end())
    }

    fn remove(&mut self, line: usize) {
        let Some(run) = self.runs.get_mut(line).and_then(Option::take) else { return };
        let at = self.starts.partition_point(|start| *start < run.record.offset);
        if self.starts.get(at) == Some(&run.record.offset) {
            self.starts.remove(at);
            self.lines.remove(at);
        }
    }

    fn copy_whole(&mut self) {
        for _ in 0..ATTEMPTS {
            let version = self.area.version().load(Ordering::Acquire);
            (self.version, self.last) = (version, 0);
            self.starts.clear();
            self.lines.clear();
            self.runs.clear();
            let mut live = Vec::new();
            for line in 0..self.area.used(Table::Records) {
                let record = self.area.read_line(Table::Records, line).and_then(Record::from_words);
                if let Some(record) = record.filter(|record| record.state == State::Live) {
                    live.push((record, line));
                }
            }
            live.sort_unstable_by_key(|(record, _)| record.offset);
            for (record, line) in live {
                if self.overlaps(self.starts.len(), &record) {
                    continue;
                }
                self.starts.push(record.offset);
                self.lines.push(line as u32);
                if self.runs.len() <= line {
                    self.runs.resize_with(line + 1, || None);
                }
                self.runs[line] = Some(Run::new(record));
            }
            if self.area.version().load(Ordering::Acquire) == version {
                return;
            }
        }
        // Nobody opens windows that fast. What is known is a table of some moment, and every lookup comes here again.
        self.version = self.version.wrapping_sub(1);
    }

    fn at(&self, index: usize) -> Option<&Run> {
        self.runs.get(*self.lines.get(index)? as usize)?.as_ref()
    }

    /// The index of the run with the byte at `offset`.
    #[inline]
    fn find(&mut self, offset: u64) -> Option<usize> {
        // Whether it is the last that begins at or before the offset.
        let is_it = |index: usize| {
            self.starts.get(index).is_some_and(|start| *start <= offset)
                && self.starts.get(index + 1).is_none_or(|next| offset < *next)
        };
        let guess = |first: u64| ((offset.saturating_sub(first)) as f64 * self.density) as usize;
        let mut index = self.last;
        if !is_it(index) {
            index = guess(*self.starts.first()?);
            if !is_it(index) {
                index = self.starts.partition_point(|start| *start <= offset).checked_sub(1)?;
            }
            self.last = index;
        }
        self.at(index).is_some_and(|run| offset < run.record.end()).then_some(index)
    }

    /// The runs that hold `length` bytes at `offset`, in order, each with the first byte in it and how many there are, given to
    /// `each`. Refused if a byte is in no window, or else if a window does not allow what is wanted. `one_window`: the bytes lie
    /// in one.
    #[inline]
    pub(super) fn walk(
        &mut self,
        offset: u64,
        length: u64,
        wanted: Protection,
        one_window: bool,
        mut each: impl FnMut(&mut Run, u64, u64),
    ) -> Result<(), ScifError> {
        let end = offset.checked_add(length).ok_or(ScifError::NoWindow)?;
        let first = self.find(offset).ok_or(ScifError::NoWindow)?;
        let (mut index, mut at, mut allowed) = (first, offset, true);
        let window = self.at(first).map(|run| run.record.window);
        while at < end {
            let run = self.at(index).filter(|run| run.record.offset <= at && at < run.record.end());
            let run = run.ok_or(ScifError::NoWindow)?;
            if one_window && Some(run.record.window) != window {
                return Err(ScifError::NoWindow);
            }
            allowed &= run.record.protection.allows(wanted);
            (at, index) = (run.record.end(), index + 1);
        }
        if !allowed {
            return Err(ScifError::Protected);
        }
        (index, at) = (first, offset);
        while at < end {
            let line = self.lines[index] as usize;
            let run = self.runs[line].as_mut().ok_or(ScifError::NoWindow)?;
            let stop = run.record.end().min(end);
            each(run, at, stop - at);
            (at, index) = (stop, index + 1);
        }
        Ok(())
    }

    /// The bytes at `offset`, if they lie in one run, in a file that can be mapped, and the window allows what is wanted.
    #[inline]
    pub(super) fn slice(
        &mut self,
        offset: u64,
        length: usize,
        wanted: Protection,
    ) -> Option<SharedSlice<'_>> {
        let index = self.find(offset)?;
        let run = self.runs[self.lines[index] as usize].as_mut()?;
        if run.record.end() - offset < length as u64 || !run.record.protection.allows(wanted) {
            return None;
        }
        let (view, at) = run.view(offset).ok()??;
        view.slice(at, length, wanted.write).filter(|slice| slice.length() == length)
    }

    /// Keeps a view that later windows will lie in, too.
    pub(super) fn keep(&mut self, view: &Arc<View>) {
        if view.is_of_all_windows() && !self.kept.iter().any(|kept| Arc::ptr_eq(kept, view)) {
            self.kept.push(Arc::clone(view));
        }
    }
}

impl Run {
    /// The file or segment it lies in, opened now if it is not yet, and the offset there of the byte at `at`. `Ok(None)` if it lies
    /// in none that can be mapped; an error if the file cannot be reached.
    #[inline]
    pub(super) fn view(&mut self, at: u64) -> Result<Option<(&Arc<View>, u64)>, ScifError> {
        if self.view.is_none() {
            self.view = self.open_view()?;
        }
        Ok(self.view.as_ref().map(|(view, offset)| (view, offset + (at - self.record.offset))))
    }

    #[cold]
    fn open_view(&mut self) -> Result<Option<(Arc<View>, u64)>, ScifError> {
        match self.record.place {
            Place::File { number, identity, offset } => {
                let until = offset + self.record.length;
                Ok(Some((self.open_file(number, identity, until)?, offset)))
            }
            Place::Address { address, space: Some(space), .. } if !self.unattached => {
                let view = View::of_segment(self.record.pid, address, self.record.length as usize, space);
                // Else it is reached through the kernel, as all memory without a file.
                self.unattached = view.is_err();
                Ok(view
                    .inspect_err(|error| tracing::debug!(%error, "a window's segment cannot be attached"))
                    .ok())
            }
            Place::Address { .. } => Ok(None),
        }
    }

    fn open_file(&self, number: i32, identity: FileIdentity, until: u64) -> Result<Arc<View>, ScifError> {
        View::open(self.record.pid, number, identity, until).map_err(|error| {
            tracing::debug!(%error, pid = self.record.pid, "a window's file cannot be reached");
            // A process that has ended has no windows; one that is there has, but this one lacks something.
            if error.kind() == io::ErrorKind::NotFound || process_is_ending(self.record.pid) {
                ScifError::NoWindow
            } else {
                ScifError::NoMemory
            }
        })
    }

    /// The memory it lies in, if that is no file, reached now if it is not yet, and the address there of the byte at `at`.
    pub(super) fn memory(&mut self, at: u64) -> Result<(&Arc<PeerMemory>, usize), ScifError> {
        let Place::Address { address, mark, .. } = self.record.place else { return Err(ScifError::NoWindow) };
        let address = address + (at - self.record.offset) as usize;
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None => far::reach(self.record.pid, mark)?,
        };
        Ok((self.memory.insert(memory), address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::area::AREA_LENGTH;
    use nonic_sys::{Mark, PAGE, SharedMapping};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const UNIT: u64 = PAGE as u64;

    fn write(area: &Area, version: &mut u64, line: u32, record: Option<Record>) {
        area.use_line(Table::Records, line as usize);
        match record {
            Some(record) => area.write_line(Table::Records, line as usize, record.to_words()),
            None => area.word(Table::Records, line as usize, 0).store(0, Ordering::Release),
        }
        *version += 1;
        area.changed(*version).store(u64::from(line), Ordering::Release);
        area.version().store(*version, Ordering::Release);
    }

    proptest! {
        #[test]
        fn lookups_agree_with_a_map_however_far_behind_the_copy_was(
            steps in prop::collection::vec((0u32..90, 0u64..120, 1u64..5, 0u8..6), 1..400)
        ) {
            let area = Area::new(Arc::new(SharedMapping::anonymous(AREA_LENGTH).unwrap()), 0);
            let mut mirror = Mirror::new(area.clone());
            // First offset to line and length.
            let mut model = BTreeMap::<u64, (u32, u64)>::new();
            let (mut version, mut sequence) = (0, 0);
            for (line, at, length, step) in steps {
                let taken = |model: &BTreeMap<u64, (u32, u64)>| {
                    model.iter().any(|(start, (_, units))| *start < at + length && start + units > at)
                };
                let of_line = model.iter().find(|(_, (other, _))| *other == line).map(|(start, _)| *start);
                match (of_line, step) {
                    (Some(start), 0..3) => {
                        model.remove(&start);
                        write(&area, &mut version, line, None);
                    }
                    (None, 0..5) if !taken(&model) => {
                        model.insert(at, (line, length));
                        sequence += 1;
                        let record = Record {
                            state: State::Live,
                            sequence,
                            offset: at * UNIT,
                            length: length * UNIT,
                            window: at * UNIT,
                            protection: Protection::READ,
                            pid: 1,
                            place: Place::Address {
                                address: PAGE,
                                mark: Mark { address: 0, value: 0 },
                                space: None,
                            },
                        };
                        write(&area, &mut version, line, Some(record));
                    }
                    (_, 5) => {
                        mirror.refresh();
                        for unit in 0..130 {
                            let expected = model.range(..=unit).next_back().filter(|(start, (_, units))| *start + units > unit);
                            let mut found = None;
                            let walked = mirror.walk(unit * UNIT + 7, 1, Protection::READ, true, |run, at, length| {
                                found = Some((run.record.offset / UNIT, at, length));
                            });
                            prop_assert_eq!(walked.is_ok(), expected.is_some());
                            prop_assert_eq!(found, expected.map(|(start, _)| (*start, unit * UNIT + 7, 1)));
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
