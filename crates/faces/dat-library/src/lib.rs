//! `libdat.so.1`: what uDAPL 1.2 programs load.
//!
//! The engine lies in `libnonic.so`, whose name for the loader is that of the verbs library; uDAPL programs ask for another
//! name and another version node, so they get this small library. When it is loaded it finds `libnonic.so` in its own folder
//! and from then on forwards every call through the table there (`engine.rs`). A process that uses several of these libraries
//! has one engine: the loader knows `libnonic.so` by its inode, whatever name it was loaded by.

// The functions are public to C, by their names; the list of calls is public in the crate it belongs to.
#![allow(unreachable_pub)]

#[path = "../../dat/src/calls.rs"]
#[macro_use]
mod calls;
mod engine;
mod exports;
