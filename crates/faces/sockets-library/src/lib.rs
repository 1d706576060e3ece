//! `libnonic-sockets.so`: what `nonic run --sockets` has the loader put in front of the C library, for programs that know only TCP.
//!
//! It has the C library's functions that take a socket. Each looks one byte up, by the number that it is called with; for a number
//! that the engine has nothing to do with it calls the C library's function and is out of the way. The engine lies in `libnonic.so`
//! beside it, and is loaded when the program makes its first TCP socket.
//!
//! A thread may be cancelled in the C library's functions, which unwinds it through the ones here: none of these owns anything
//! while it calls there.

// The functions are public to C, by their names; the list of calls is public in the crate it belongs to.
#![allow(unreachable_pub)]

#[path = "../../sockets/src/calls.rs"]
#[macro_use]
mod calls;
mod descriptors;
mod engine;
mod event_poll;
mod naming;
mod options;
mod real;
mod receiving;
mod sending;
mod waiting;
