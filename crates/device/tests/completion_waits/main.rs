//! Threads that wait for completions, by the events of a channel and by objects that are told.
//!
//! In one program, for the time that it takes to build (see `device_rules`), and not in that one: these tests have signals end
//! waits, and say which thread drives.

#[path = "../common/mod.rs"]
mod common;
mod observing;
mod waiting;

use std::sync::Mutex;

/// One at a time: a process has one thread that drives while it waits, and these tests say which.
static TURN: Mutex<()> = Mutex::new(());
