//! What is said on the way to a SCIF connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nonic_scif::fuzzing::request(bytes));
