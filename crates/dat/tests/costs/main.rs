//! What calls and transfers cost. Prints figures: `cargo test --release -p nonic-dat --test costs -- --ignored --nocapture
//! --test-threads=1`.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../device/tests/common/mod.rs"]
mod engine;
mod memory;
mod transfers;
