//! Waiting for events: at a dispatcher, and at a notification object for several.
//!
//! In one program, for the time that it takes to build (see `dat_rules`), and not in that one: these tests have a signal interrupt
//! waits, and its handler is the whole process's.

#[path = "../common/mod.rs"]
mod common;
mod dispatchers;
mod notification_objects;
