//! What a peer writes into a ring.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nonic_transport::fuzzing::ring(bytes));
