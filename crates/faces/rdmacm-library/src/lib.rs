//! `librdmacm.so.1`: what programs of the RDMA connection manager load.
//!
//! The engine lies in `libnonic.so`, whose name for the loader is that of the verbs library; these programs ask for another
//! name and other version nodes as well, so they get this small library. When it is loaded it finds `libnonic.so` in its own
//! folder and from then on forwards every call through the table there (`engine.rs`). The objects that its calls hand out are
//! those of the verbs library: the loader knows `libnonic.so` by its inode, whatever name it was loaded by.

// The functions are public to C, by their names; the list of calls is public in the crate it belongs to.
#![allow(unreachable_pub)]

mod abi;
#[path = "../../rdmacm/src/calls.rs"]
#[macro_use]
mod calls;
mod engine;
mod exports;
