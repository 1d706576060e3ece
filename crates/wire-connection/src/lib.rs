//! Connections to other hosts: the connection manager of RoCEv2 with its datagrams, its time and whom it tells, one of a process for
//! all layers above; and the ways to other hosts.
//!
//! What `nonic-connection` is within a host, this is between hosts. [`nonic_roce::ConnectionManager`] decides everything; layers
//! above [ask](Wire::connect) for connections to a [service](nonic_roce::Service) or [listen](Wire::listen) for requests, and hold
//! what comes of it as a [`WireConnection`]. Nothing of rdma_cm or uDAPL is in it but how their services are
//! [called](offering_user) among the processes of a host.

#![deny(unsafe_code)]

mod held;
mod inbox;
mod listener;
mod machine;
mod met_way;
mod services;
mod sinks;
mod way;
mod wire;

pub use held::{Question, WireConnection};
pub use listener::{ListenAt, WireListener, is_reached};
pub use met_way::{MetWay, near};
pub use services::{NUMBERS, name_of_ports, offering_user, wildcard_of};
pub use sinks::{Follows, Takes};
pub use way::{NoWay, Way, host_address, index_of, ip_address, number_of_host, route_from};
pub use wire::{Closed, Wire};
