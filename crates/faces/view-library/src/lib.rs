//! `libnonic-view.so`: what `nonic run` has the loader put in front of the C library, for programs that look for a device's files
//! themselves.
//!
//! It has the C library's functions that take a path. Each looks whether the path can be one of the view (`path`), which costs
//! a search for a word; nearly all are not, and go to the C library's function as they came. The others are led to the tree that
//! the engine, in `libnonic.so` beside it, has put up (`place`), so that the kernel answers. The engine is loaded by the first such
//! path.
//!
//! Beside them it has those that make and send by sockets, for what programs ask the kernel of RDMA devices by netlink (`netlink`).
//!
//! A path that is NULL is the C library's to refuse. Any other is read here, so that one which cannot be read ends the program, as
//! it does in the C library's own functions that look at a path before the kernel does.

// The functions are public to C, by their names; the calls are public in the crate they belong to.
#![allow(unreachable_pub)]

#[path = "../../view/src/calls.rs"]
mod calls;
mod engine;
mod listing;
mod looking;
mod naming;
mod netlink;
mod opening;
mod path;
mod place;
mod real;
mod refusing;
mod streams;
