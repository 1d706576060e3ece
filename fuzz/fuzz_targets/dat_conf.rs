//! A `dat.conf`.
#![no_main]

use nonic_dat_conf::{Line, NAME_MAX, parse};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let lines = parse(&text);
    assert!(lines.len() <= text.lines().count());
    for line in lines {
        if let Line::Entry(entry) = line {
            assert!(entry.name.len() <= NAME_MAX && entry.line > 0);
            let _ = (entry.why_unused(), entry.is_nonic());
        }
    }
});
