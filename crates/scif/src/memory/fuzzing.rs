//! A side's area that the fuzzer fills, read through the copy that the other side keeps of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_sys::SharedMapping;

use super::area::{AREA_LENGTH, Area, LOG_LENGTH, Table};
use super::mirror::Mirror;
use crate::options::Protection;

/// Lines of the table that the fuzzer fills, a bit each in a word: a whole copy looks at all of them.
const LINES: usize = 16;

/// Does what `bytes` say, steps of ten bytes: writes a word of a record, a line of the log or the version, or has the copy
/// catch up and looks offsets up in it.
pub fn area(bytes: &[u8]) {
    thread_local! {
        static AREA: Area = Area::new(Arc::new(SharedMapping::anonymous(AREA_LENGTH).expect("there is memory")), 0);
    }
    AREA.with(|area| {
        let mut mirror = Mirror::new(area.clone());
        area.use_line(Table::Records, LINES - 1);
        let mut filled = 0u32;
        for step in bytes.as_chunks::<10>().0 {
            let [kind, at, value @ ..] = *step;
            let value = u64::from_le_bytes(value);
            match kind % 4 {
                0 => {
                    let (line, word) = (usize::from(at >> 3) % LINES, usize::from(at % 8));
                    filled |= 1 << line;
                    area.word(Table::Records, line, word).store(value, Ordering::Relaxed);
                }
                1 => area.changed(at.into()).store(value, Ordering::Relaxed),
                2 => area.version().store(value, Ordering::Relaxed),
                _ => look(&mut mirror, value, at),
            }
        }
        for line in (0..LINES).filter(|line| filled & 1 << line != 0) {
            (0..8).for_each(|word| area.word(Table::Records, line, word).store(0, Ordering::Relaxed));
        }
        (0..LOG_LENGTH).for_each(|version| area.changed(version).store(0, Ordering::Relaxed));
        area.version().store(0, Ordering::Relaxed);
    });
}

fn look(mirror: &mut Mirror, offset: u64, pages: u8) {
    mirror.refresh();
    let length = u64::from(pages) << 10;
    for wanted in [Protection::READ, Protection::READ_WRITE] {
        let (mut next, mut refused) = (offset, false);
        let found = mirror.walk(offset, length, wanted, pages % 2 == 1, |run, at, count| {
            refused |= at != next || count == 0 || at < run.record.offset || at + count > run.record.end();
            next = at + count;
        });
        assert!(!refused, "what is found is inside its run, in order");
        assert!(found.is_err() || next == offset + length, "and all of it");
    }
}
