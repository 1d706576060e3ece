//! The connection manager: services by number, requests, replies, private data, timeouts, and the end of peers.
//!
//! A process that [listens](listen) on a number gets [requests](Request), which it accepts or rejects; who asks for a
//! [connection](connect) learns which, or that nobody listens, or that time ran out. Either side learns when the other
//! ends the connection, or when its process ends. What a connection is used for is the business of the layer above,
//! which passes its own facts along.
//!
//! One thread per process does all of it and calls the *sinks* of the layer above. There is no descriptor per
//! connection: two processes have one channel, or two if each asked the other.

#![deny(unsafe_code)]

#[cfg(fuzzing)]
pub mod fuzzing;
mod handles;
mod manager;
mod names;
mod shared;
mod sinks;
mod tasks;
mod wire;

pub use handles::{
    Connection, HandError, Listener, Request, Reservation, connect, connect_to_other, listen, listen_all,
};
pub use names::{Service, service_user, services};
pub use sinks::{ConnectionSink, End, Response, ServiceSink};
pub use tasks::{flush, lend, run, run_after, run_at_exit};
pub use wire::Refusal;

/// Bytes of private data in a request, a reply or a rejection at most.
pub const DATA_MAX: usize = 256;
/// Bytes of facts of the layer above in a request or a reply at most.
pub const FACTS_MAX: usize = 96;
