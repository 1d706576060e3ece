//! What a peer sends over the socket of a link.
#![no_main]

use nonic_transport::ControlMessage;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = ControlMessage::parse(bytes) {
        assert_eq!(ControlMessage::parse(&message.emit()).as_ref(), Ok(&message));
    }
});
