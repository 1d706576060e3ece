//! The face of TCP sockets over RDMA: what `libnonic-sockets.so` calls, which stands in front of the C library for programs that
//! know only TCP.
//!
//! Everything about them is `nonic-sockets`'; here pointers become values.

#[macro_use]
pub mod calls;
mod address;
mod entry;
pub mod table;
