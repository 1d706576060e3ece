//! A segment as `nonic doctor` reads it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nonic_transport::fuzzing::segment(bytes));
