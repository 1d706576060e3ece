//! What the fuzzer calls (`fuzz/`): parsers of what other processes send and write.

pub use crate::memory::fuzzing::area;

use crate::proof::{Kind, Word};
use crate::wire::Header;

/// Reads the header of a frame of another host; one that makes sense is the same again when it is written.
pub fn frame(bytes: &[u8]) {
    let Some(first) = bytes.first_chunk() else { return };
    if let Some(header) = Header::parse(first) {
        assert_eq!(header.emit(), *first);
    }
}

/// Reads a word of a meeting, as each of the kinds there are; one that makes sense is the same again when it is written.
pub fn request(bytes: &[u8]) {
    for kind in [Kind::Request, Kind::Question, Kind::Reply, Kind::Answer, Kind::Enclosed] {
        if let Some(word) = Word::from_bytes(bytes, kind) {
            assert_eq!(word.to_bytes(), bytes);
        }
    }
}
