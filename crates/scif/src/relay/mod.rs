//! Relays: what stands between an endpoint of this host and one of another.
//!
//! A connection to another host is two connections within a host and a stream between these: each endpoint is connected to a relay of
//! its own host, as to any other endpoint, and the two relays tell each other what their programs do, by a stream over the wire. So an
//! endpoint is the same thing wherever its peer is, and what the kernel says of it (readable, writable, hung up) is true.
//!
//! A relay is a thread. It keeps nothing of a stream: bytes stay in the ring of whoever sends until the other program has taken them, so
//! each direction holds as many as within a host.

mod asking;
mod exit;
mod feed;
mod line;
mod running;
mod serving;
mod tap;
#[cfg(test)]
mod tests;

pub(crate) use asking::{Question, ask};
pub(crate) use line::Line;
pub(crate) use running::{Local, SILENCE_SECONDS, start};

/// Why a relay ends.
pub(crate) type Why = &'static str;
