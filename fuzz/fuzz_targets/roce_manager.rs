//! What hosts say to a connection manager that keep to nothing, and what its program does meanwhile.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nonic_simulator::managers::try_hostile(bytes));
