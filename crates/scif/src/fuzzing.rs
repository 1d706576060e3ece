//! What the fuzzer calls (`fuzz/`): parsers of what other processes send and write.

pub use crate::memory::fuzzing::area;

use crate::proof::{Kind, Word};

/// Reads a word of a meeting, as each of the kinds there are; one that makes sense is the same again when it is written.
pub fn request(bytes: &[u8]) {
    for kind in [Kind::Request, Kind::Question, Kind::Reply, Kind::Answer, Kind::Enclosed] {
        if let Some(word) = Word::from_bytes(bytes, kind) {
            assert_eq!(word.to_bytes(), bytes);
        }
    }
}
