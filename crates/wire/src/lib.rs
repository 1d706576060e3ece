//! RoCEv2 over the UDP sockets of an ordinary process: packets of `nonic_roce` go out in runs and come in by the dozen, and reach
//! whichever process of the user holds their queue pair.
//!
//! A [`Station`] is an address of this host on the wire: a socket that is bound to it and to UDP port 4791, which all processes of a
//! user share. [`Outgoing`] gathers packets into runs. [`Wire`] has the stations of one engine, takes what comes to them, and hands
//! on what is another process's (`handing.rs`).
//!
//! The crate for UDP offload (`quinn-udp`) takes and tells of the headers of IP the two bits of congestion only. A queue pair says
//! traffic class and hop limit of what it sends, and a datagram's receive shows those of what came.

#![forbid(unsafe_code)]

mod handing;
mod incoming;
mod losses;
mod outgoing;
mod proof;
mod station;
mod wire;

pub use handing::{MANAGERS_MAX, Share};
pub use incoming::{Arrival, Run, Taken};
pub use losses::Losses;
pub use outgoing::{Outgoing, Pushed};
pub use station::{Location, OpenError, Route, Station, largest_mtu, most_bytes};
pub use wire::Wire;
