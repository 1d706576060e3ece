//! What the device promises to queue pairs, regions, windows and engines of one process.
//!
//! These tests stand in one program because each program compiles and optimizes the engine once more, which takes longer than
//! the tests. A file is a program of its own, beside this folder, if what it does or measures is its whole process's: if it forks,
//! starts or kills processes, installs handlers of signals or a subscriber, is in a namespace, counts allocations or
//! descriptors, takes many of these, has a peer stand still in this process's memory, or says who drives the device. Tests
//! here run side by side: they share the process's engine, so they count nothing but on engines of their own.

mod changes;
#[path = "../common/mod.rs"]
mod common;
mod domain_scene;
mod extended;
mod many_threads;
mod neighbours;
mod opened_elsewhere;
mod several_engines;
mod shadows;
mod shared_domains;
mod shared_receives;
mod window_keys;
mod writing_now;
