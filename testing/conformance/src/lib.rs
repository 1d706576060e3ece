//! The conformance suite: what the device promises, each promise once, tried over every way bytes can take.
//!
//! A rule is a function whose name is the promise; it is tied to an id of the list of clauses or to a section of the
//! facts about verbs. It speaks to two sides, client and server, through commands, and does not know whether the other
//! side is the same thread, another thread or another process, nor which tier carries the bytes: that is the
//! arrangement, one line of `arrangement`'s table. Each arrangement runs in a process of its own, because a process
//! reads its settings once.
//!
//! `NONIC_CONFORMANCE_ONLY=text` runs only the rules and arrangements whose name contains the text.

#![deny(unsafe_code)]

mod arrangement;
mod background;
mod command;
mod endpoints;
mod executor;
mod harness;
mod memory;
mod objects;
mod options;
mod pair;
#[allow(unsafe_code)]
// The one place with pointers: memory of the program, and the calls that take its addresses.
mod program_memory;
mod request;
mod rules;
mod side;
mod table;
mod transport;
mod wire;

/// Runs the suite, or, where the environment says so, one part of it on behalf of the process that runs the suite.
pub fn run() -> std::process::ExitCode {
    harness::run()
}
