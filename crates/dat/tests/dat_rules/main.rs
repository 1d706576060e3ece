//! What endpoints, regions and dispatchers promise, with both sides in one process.
//!
//! These tests stand in one program because each program compiles and optimizes the engine once more, which takes longer than
//! the tests. A file is a program of its own, beside this folder, if what it does or measures is its whole process's: if it forks,
//! starts, kills or stops processes, installs handlers of signals, keeps the library's threads from their work, counts
//! descriptors or pages, takes many of these or most of the addresses there are, or looks at what time costs. Tests here run
//! side by side: they share the process's device, its connection manager and its cookies.

mod coherence;
#[path = "../common/mod.rs"]
mod common;
mod connection_stress;
mod endpoints;
mod local_regions;
mod notifying;
mod regions_with_peer;
mod remote_regions;
mod shared_receives;
mod transfers;
