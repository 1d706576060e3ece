//! What processes send to the connection manager.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nonic_connection::fuzzing::message(bytes));
