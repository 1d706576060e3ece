//! What the fuzzer calls (`fuzz/`): the parser of what other processes send.

use crate::wire::Message;

/// Reads a message; one that makes sense is the same again when it is written and read.
pub fn message(bytes: &[u8]) {
    if let Ok(message) = Message::parse(bytes) {
        assert_eq!(Message::parse(&message.emit()).as_ref(), Ok(&message));
    }
}
