//! What goes with a message beside its bytes, in either direction.

use libc::c_int;

/// Room for three control messages of a word.
pub(crate) const CONTROL: usize = 96;

/// Control messages (`cmsg(3)`), one after the other.
#[repr(C, align(8))]
pub(crate) struct Control {
    pub(crate) bytes: [u8; CONTROL],
    pub(crate) length: usize,
}

/// Of a control message.
const HEADER: usize = 16;

impl Control {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; CONTROL], length: 0 }
    }

    pub(crate) fn push(&mut self, level: c_int, kind: c_int, value: &[u8]) {
        let message = &mut self.bytes[self.length..];
        message[..8].copy_from_slice(&(HEADER + value.len()).to_ne_bytes());
        message[8..12].copy_from_slice(&level.to_ne_bytes());
        message[12..16].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER..HEADER + value.len()].copy_from_slice(value);
        self.length += HEADER + value.len().next_multiple_of(8);
    }

    /// Calls `take` with level, kind and value of each: a number of one byte, of two or of four.
    pub(crate) fn each(&self, filled: usize, mut take: impl FnMut(c_int, c_int, u32)) {
        let mut rest = &self.bytes[..filled];
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes);
        while rest.len() > HEADER {
            let length = word(&rest[..4]) as usize;
            let Some(value) = rest.get(HEADER..length) else { return };
            let number = match *value {
                [one] => u32::from(one),
                [one, two] => u16::from_ne_bytes([one, two]).into(),
                [one, two, three, four, ..] => u32::from_ne_bytes([one, two, three, four]),
                _ => 0,
            };
            take(word(&rest[8..12]) as c_int, word(&rest[12..16]) as c_int, number);
            rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
        }
    }
}
