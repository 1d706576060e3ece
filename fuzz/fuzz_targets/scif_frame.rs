//! What another host says over a SCIF connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nonic_scif::fuzzing::frame(bytes));
