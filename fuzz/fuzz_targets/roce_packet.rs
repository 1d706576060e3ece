//! A packet of RoCEv2 whose check was right.
#![no_main]

use nonic_roce::Packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok((packet, payload)) = Packet::parse(bytes) {
        let headers = packet.headers(payload.len() as u32);
        let again = [headers.as_slice(), payload, headers.padding()].concat();
        assert_eq!(again.len(), bytes.len());
        assert_eq!(Packet::parse(&again), Ok((packet, payload)));
    }
});
