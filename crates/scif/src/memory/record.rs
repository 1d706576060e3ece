//! A part of a window as it stands in the table that the other side reads.

use nonic_sys::{FileIdentity, Mark, PAGE};

use crate::options::Protection;

/// First offset that no registered address space has.
pub(super) const SPACE_END: u64 = 1 << 63;

/// Whether a record's pages can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// They can.
    Live,
    /// The window has ended, but somebody still uses it: its offsets stay taken.
    Dying,
}

/// Where the bytes of a record are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a file that the owner has open.
    File {
        /// Its number there.
        number: i32,
        /// What it is known by.
        identity: FileIdentity,
        /// Offset of the first byte.
        offset: u64,
    },
    /// In the owner's memory only.
    Address {
        /// Of the first byte.
        address: usize,
        /// What that memory is known by.
        mark: Mark,
        /// If a System V segment is attached there: the space that its number belongs to.
        space: Option<u16>,
    },
}

/// A run of pages of one window in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) state: State,
    /// Changes with every use of the line.
    pub(super) sequence: u64,
    /// First byte in the registered address space.
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Where its window begins.
    pub(super) window: u64,
    pub(super) protection: Protection,
    /// The owner's process.
    pub(super) pid: i32,
    pub(super) place: Place,
}

const LIVE: u64 = 1;
const DYING: u64 = 2;
const KIND_FILE: u64 = 1;
const KIND_ADDRESS: u64 = 2;
const KIND_SEGMENT: u64 = 3;
const READ: u64 = 1;
const WRITE: u64 = 2;

/// The stamp of a record.
pub(super) fn stamp(state: State, sequence: u64) -> u64 {
    sequence << 8
        | match state {
            State::Live => LIVE,
            State::Dying => DYING,
        }
}

impl Record {
    /// One past the last byte.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.length
    }

    pub(super) fn to_words(self) -> [u64; 8] {
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let protection = flag(self.protection.read, READ) | flag(self.protection.write, WRITE);
        let (kind, file, inode, at) = match self.place {
            Place::File { number, identity: ((major, minor), inode), offset } => {
                let device = u64::from(major) << 20 | u64::from(minor);
                (KIND_FILE, u64::from(number as u32) << 32 | device, inode, offset)
            }
            Place::Address { address, mark, space } => {
                let kind = space.map_or(KIND_ADDRESS, |space| u64::from(space) << 8 | KIND_SEGMENT);
                (kind, mark.address, mark.value, address as u64)
            }
        };
        [
            stamp(self.state, self.sequence),
            self.offset,
            self.length,
            self.window,
            u64::from(self.pid as u32) << 32 | kind << 8 | protection,
            file,
            inode,
            at,
        ]
    }

    /// From the words of a line, which may be another process's: `None` if they are no record that can be.
    pub(super) fn from_words(words: [u64; 8]) -> Option<Self> {
        let [stamp, offset, length, window, rights, file, inode, at] = words;
        let state = match stamp & 0xff {
            LIVE => State::Live,
            DYING => State::Dying,
            _ => return None,
        };
        let page = PAGE as u64;
        let whole = offset.is_multiple_of(page) && length.is_multiple_of(page) && length > 0;
        if !whole || offset.checked_add(length)? > SPACE_END || window > offset {
            return None;
        }
        let place = match rights >> 8 & 0xff {
            KIND_FILE if at.is_multiple_of(page) && at.checked_add(length).is_some() => {
                let device = ((file >> 20 & 0xfff) as u32, (file & 0xf_ffff) as u32);
                Place::File { number: (file >> 32) as i32, identity: (device, inode), offset: at }
            }
            kind @ (KIND_ADDRESS | KIND_SEGMENT) if at.checked_add(length).is_some() => {
                let space = (kind == KIND_SEGMENT).then_some((rights >> 16) as u16);
                Place::Address { address: at as usize, mark: Mark { address: file, value: inode }, space }
            }
            _ => return None,
        };
        let protection = Protection { read: rights & READ != 0, write: rights & WRITE != 0 };
        let pid = (rights >> 32) as i32;
        (pid > 0).then_some(Self {
            state,
            sequence: stamp >> 8,
            offset,
            length,
            window,
            protection,
            pid,
            place,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGES: u64 = PAGE as u64;

    fn record(place: Place) -> Record {
        Record {
            state: State::Live,
            sequence: 77,
            offset: 5 * PAGES,
            length: 2 * PAGES,
            window: 3 * PAGES,
            protection: Protection::READ,
            pid: 4711,
            place,
        }
    }

    #[test]
    fn a_record_survives_its_words() {
        let file = Place::File { number: 9, identity: ((4095, 0xf_ffff), u64::MAX), offset: 1 << 61 };
        let mark = Mark { address: 0x3fff_0000_1000, value: u64::MAX };
        let address = |space| Place::Address { address: 0x7fff_0000_1000, mark, space };
        for place in [file, address(None), address(Some(0)), address(Some(u16::MAX))] {
            for state in [State::Live, State::Dying] {
                let record = Record { state, ..record(place) };
                assert_eq!(Record::from_words(record.to_words()), Some(record));
            }
        }
    }

    proptest! {
        #[test]
        fn any_words_are_nothing_or_whole_pages_of_the_space(mut words: [u64; 8], small: [bool; 8]) {
            for (word, small) in words.iter_mut().zip(small) {
                if small {
                    *word %= 8 * PAGES;
                }
            }
            words[0] %= 4;
            if let Some(record) = Record::from_words(words) {
                prop_assert!(record.length > 0 && record.end() <= SPACE_END && record.window <= record.offset);
                prop_assert!(record.offset % PAGES == 0 && record.length % PAGES == 0 && record.pid > 0);
                prop_assert_eq!(Record::from_words(record.to_words()), Some(record));
            }
        }
    }
}
