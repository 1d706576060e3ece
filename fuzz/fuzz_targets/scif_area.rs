//! What the other side of a SCIF connection writes into its area.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nonic_scif::fuzzing::area(bytes));
