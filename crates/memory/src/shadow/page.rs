//! One page of memory as peers see it, and what is known of the processor's cache there.

use std::collections::TryReserveError;
use std::ops::Range;

use super::tosses::Tosses;

/// Bytes of a page.
pub(super) const SIZE: usize = 4096;
/// Bytes that a cache writes back together.
pub(super) const LINE: usize = 64;
const LINES: usize = SIZE / LINE;

/// One bit a byte of a line.
type Mask = u64;
/// The masks of the lines of a page.
type Masks = [Mask; LINES];

#[derive(Debug)]
#[repr(align(64))]
struct Bytes([u8; SIZE]);

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    /// One element. (A `Vec` says when there is no memory.)
    bytes: Vec<Bytes>,
    notes: Option<Box<Notes>>,
}

/// What peers wrote and the program was not shown.
#[derive(Debug)]
struct Notes {
    written: Masks,
    /// Of those, what the cache will write over when it is next made consistent.
    doomed: Masks,
    /// What the program's memory held when they were written; nothing elsewhere.
    before: [u8; SIZE],
}

impl Notes {
    fn none() -> Box<Self> {
        Box::new(Self { written: [0; LINES], doomed: [0; LINES], before: [0; SIZE] })
    }
}

/// The bits of the bytes `range` of line `line`, both counted in the page.
fn mask(line: usize, range: &Range<usize>) -> Mask {
    let from = range.start.clamp(line * LINE, (line + 1) * LINE) - line * LINE;
    let to = range.end.clamp(line * LINE, (line + 1) * LINE) - line * LINE;
    if from >= to { 0 } else { (Mask::MAX >> (LINE - (to - from))) << from }
}

fn lines(range: &Range<usize>) -> Range<usize> {
    if range.is_empty() { 0..0 } else { range.start / LINE..range.end.div_ceil(LINE) }
}

/// The part of a range that lies in a line.
fn in_line(line: usize, range: &Range<usize>) -> Range<usize> {
    range.start.max(line * LINE)..range.end.min((line + 1) * LINE)
}

/// The bits of the bytes of a mask for which something holds.
fn bits_that(mask: Mask, mut holds: impl FnMut(usize) -> bool) -> Mask {
    let (mut rest, mut bits) = (mask, 0);
    while rest != 0 {
        let bit = rest.trailing_zeros();
        bits |= Mask::from(holds(bit as usize)) << bit;
        rest &= rest - 1;
    }
    bits
}

/// Bytes of a page as [`Page::to_record`] writes it: what peers read, what the program's memory held, the two masks of each line.
pub(super) const RECORD: usize = SIZE + SIZE + 2 * LINES * size_of::<Mask>();
const WRITTEN: usize = 2 * SIZE;
const DOOMED: usize = WRITTEN + LINES * size_of::<Mask>();

impl Page {
    /// From a record, in which anything may stand: bits of no consequence are all that can be wrong.
    pub(super) fn from_record(record: &[u8; RECORD]) -> Result<Self, TryReserveError> {
        let mut page = Self::new()?;
        page.bytes_mut().copy_from_slice(&record[..SIZE]);
        let masks = |from: usize| -> Masks {
            let (words, _) = record[from..].as_chunks();
            std::array::from_fn(|line| Mask::from_ne_bytes(words[line]))
        };
        let written = masks(WRITTEN);
        if written != [0; LINES] {
            let mut before = [0; SIZE];
            before.copy_from_slice(&record[SIZE..WRITTEN]);
            page.notes = Some(Box::new(Notes { written, doomed: masks(DOOMED), before }));
        }
        Ok(page)
    }

    /// Into a record. What the program's memory held stays as it stands there if nothing is noted.
    pub(super) fn to_record(&self, record: &mut [u8; RECORD]) {
        record[..SIZE].copy_from_slice(self.bytes());
        record[WRITTEN..].fill(0);
        if let Some(notes) = &self.notes {
            record[SIZE..WRITTEN].copy_from_slice(&notes.before);
            for line in 0..LINES {
                let at = line * size_of::<Mask>();
                record[WRITTEN + at..][..size_of::<Mask>()]
                    .copy_from_slice(&notes.written[line].to_ne_bytes());
                record[DOOMED + at..][..size_of::<Mask>()].copy_from_slice(&notes.doomed[line].to_ne_bytes());
            }
        }
    }

    /// Whether peers wrote here and the program was not shown.
    pub(super) fn has_notes(&self) -> bool {
        self.notes.is_some()
    }

    /// Takes over what another page of the same bytes knows of peers: in `range` what they wrote to it, and what they read
    /// there, but for bytes that they wrote to this one.
    pub(super) fn absorb(&mut self, other: &Page, range: &Range<usize>) {
        for line in lines(range) {
            let wanted = mask(line, range);
            let (theirs, ours) = (other.written(line) & wanted, self.written(line));
            for at in (0..LINE).filter(|bit| (wanted & (theirs | !ours)) >> bit & 1 == 1) {
                let at = line * LINE + at;
                self.bytes_mut()[at] = other.bytes()[at];
            }
            let Some(from) = other.notes.as_ref().filter(|_| theirs != 0) else { continue };
            let notes = self.notes.get_or_insert_with(Notes::none);
            for at in (0..LINE).filter(|bit| theirs >> bit & 1 == 1).map(|bit| line * LINE + bit) {
                notes.before[at] = from.before[at];
            }
            notes.written[line] |= theirs;
            notes.doomed[line] = notes.doomed[line] & !theirs | from.doomed[line] & theirs;
        }
    }

    pub(super) fn new() -> Result<Self, TryReserveError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(1)?;
        bytes.push(Bytes([0; SIZE]));
        Ok(Self { bytes, notes: None })
    }

    /// As peers read it.
    pub(super) fn bytes(&self) -> &[u8; SIZE] {
        &self.bytes[0].0
    }

    fn bytes_mut(&mut self) -> &mut [u8; SIZE] {
        &mut self.bytes[0].0
    }

    fn written(&self, line: usize) -> Mask {
        self.notes.as_ref().map_or(0, |notes| notes.written[line])
    }

    /// Has a peer change `range` by `write`, where the program's memory holds `program`. Answers the lines in which the program
    /// had stored to these bytes since they were last made consistent.
    pub(super) fn land<R>(
        &mut self,
        range: Range<usize>,
        program: &[u8],
        write: impl FnOnce(&mut [u8]) -> R,
    ) -> (R, Vec<usize>) {
        let notes = self.notes.take();
        let mut notes = notes.unwrap_or_else(Notes::none);
        let bytes = self.bytes_mut();
        let stored_to = |line: &usize| {
            let part = in_line(*line, &range);
            if notes.written[*line] == 0 {
                return bytes[part.clone()] != program[part.start - range.start..part.end - range.start];
            }
            let stored = bits_that(mask(*line, &range), |bit| {
                let at = line * LINE + bit;
                let known = notes.written[*line] >> bit & 1 == 1;
                program[at - range.start] != if known { notes.before[at] } else { bytes[at] }
            });
            stored != 0
        };
        let conflicts = lines(&range).filter(stored_to).collect();
        let result = write(&mut bytes[range.clone()]);
        notes.before[range.clone()].copy_from_slice(program);
        for line in lines(&range) {
            let new = mask(line, &range);
            notes.written[line] |= new;
            notes.doomed[line] &= !new;
        }
        self.notes = Some(notes);
        (result, conflicts)
    }

    /// The cache writes a line back, as far as it lies in `range`: now, or when it is next made consistent. What peers wrote there
    /// is lost then.
    pub(super) fn write_back(&mut self, line: usize, range: &Range<usize>, program: &[u8], now: bool) {
        let Some(notes) = &mut self.notes else { return };
        let lost = notes.written[line] & mask(line, range);
        if !now {
            notes.doomed[line] |= lost;
            return;
        }
        self.forget(line, lost);
        for at in (0..LINE).filter(|bit| lost >> bit & 1 == 1).map(|bit| line * LINE + bit) {
            self.bytes_mut()[at] = program[at - range.start];
        }
    }

    fn forget(&mut self, line: usize, bits: Mask) {
        if let Some(notes) = &mut self.notes {
            notes.written[line] &= !bits;
            notes.doomed[line] &= !bits;
        }
    }

    /// The cache is about to be made consistent in `range`, where the program's memory holds `program`. What it does with bytes that
    /// peers wrote and the program stored to afterwards: the line goes back over all that peers wrote there, or is dropped and
    /// with it what was stored. Either way something is lost that the program counts on.
    pub(super) fn settle(&mut self, range: &Range<usize>, program: &[u8], tosses: &mut Tosses) {
        for line in lines(range) {
            let bytes = &self.bytes[0].0;
            let Some(notes) = &self.notes else { return };
            let wanted = mask(line, range);
            let mut lost = notes.doomed[line] & wanted;
            let written = notes.written[line] & wanted & !lost;
            let value = |bit: usize| program[line * LINE + bit - range.start];
            let part = in_line(line, range);
            let as_before = program[part.start - range.start..part.end - range.start] == notes.before[part];
            let stored = if as_before {
                0
            } else {
                bits_that(written, |bit| value(bit) != notes.before[line * LINE + bit])
            };
            if stored != 0 {
                let differs = |bit: usize| value(bit) != bytes[line * LINE + bit];
                let by_dropping = bits_that(stored, differs) != 0;
                let by_writing = bits_that(written & !stored, differs) != 0;
                if by_writing && (!by_dropping || tosses.toss()) {
                    lost |= written;
                }
            }
            self.forget(line, lost);
        }
    }

    /// Has peers see `program`, all but where they wrote themselves.
    pub(super) fn publish(&mut self, range: &Range<usize>, program: &[u8]) {
        if self.notes.is_none() {
            self.bytes_mut()[range.clone()].copy_from_slice(program);
            return;
        }
        for line in lines(range) {
            let theirs = self.written(line);
            if theirs == 0 {
                let part = in_line(line, range);
                let held = &program[part.start - range.start..part.end - range.start];
                self.bytes_mut()[part].copy_from_slice(held);
                continue;
            }
            let ours = mask(line, range) & !theirs;
            for at in (0..LINE).filter(|bit| ours >> bit & 1 == 1).map(|bit| line * LINE + bit) {
                self.bytes_mut()[at] = program[at - range.start];
            }
        }
        self.tidy();
    }

    /// Hands what peers wrote in `range` to `show`, piece by piece in ascending order, and forgets it.
    pub(super) fn take(&mut self, range: &Range<usize>, mut show: impl FnMut(Range<usize>, &[u8])) {
        if self.notes.is_none() {
            return;
        }
        let mut piece = range.start..range.start;
        for line in lines(range) {
            let taken = self.written(line) & mask(line, range);
            if taken == Mask::MAX && piece.end == line * LINE {
                piece.end += LINE;
                self.forget(line, taken);
                continue;
            }
            for at in (0..LINE).filter(|bit| taken >> bit & 1 == 1).map(|bit| line * LINE + bit) {
                if piece.end < at {
                    if !piece.is_empty() {
                        show(piece.clone(), &self.bytes()[piece.clone()]);
                    }
                    piece.start = at;
                }
                piece.end = at + 1;
            }
            self.forget(line, taken);
        }
        if !piece.is_empty() {
            show(piece.clone(), &self.bytes()[piece]);
        }
        self.tidy();
    }

    /// The device itself wrote `bytes` to the program's memory, so both sides see them.
    pub(super) fn place(&mut self, range: &Range<usize>, bytes: &[u8]) {
        self.drop_notes(range);
        self.bytes_mut()[range.clone()].copy_from_slice(bytes);
    }

    /// What peers wrote there is forgotten.
    pub(super) fn drop_notes(&mut self, range: &Range<usize>) {
        for line in lines(range) {
            self.forget(line, mask(line, range));
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        if self.notes.as_ref().is_some_and(|notes| notes.written == [0; LINES]) {
            self.notes = None;
        }
    }
}
