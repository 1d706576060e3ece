//! The RDMA connection manager (`rdma_cm(7)`): identifiers that are bound, resolved, connected and listen in one of four
//! port spaces, and channels on which their events come.
//!
//! An [`Id`] is what `struct rdma_cm_id` stands for: it makes one connection, or listens for many. It does not know queue pairs:
//! who uses it says the number of one, and moves it with the attributes that the identifier gives for each state
//! ([`Id::queue_pair_attributes`]). Every change that takes time ends in an [`Event`] on the identifier's [`EventChannel`].
//!
//! Addresses are those of this host's network namespace, loopback included; ports are of their own space and have nothing to
//! do with those of TCP and UDP.

#![deny(unsafe_code)]

mod address;
mod channel;
mod error;
mod event;
mod facts;
mod gid;
mod id;
mod names;
mod option;
mod port_space;
mod ports;
mod private_data;
mod shown;
mod wait;
mod wire;

pub use channel::EventChannel;
pub use error::Error;
pub use event::{
    ConnectionParameters, DatagramParameters, Ece, Event, EventKind, Parameters, REJECT_CONSUMER,
    REJECT_INVALID_SERVICE, REJECT_VENDOR_OPTION,
};
pub use gid::{GidAddress, Named, address_of_gid, gid_of_address};
pub use id::{Id, MulticastGroup, State};
pub use option::IdOption;
pub use port_space::PortSpace;
pub use ports::listening_user;
pub use shown::{IDENTIFIERS_NAME, IdentifierFacts, Progress, ShownIdentifiers, read_identifiers};
pub use wait::EventChannelWait;
pub use wire::WireRoute;
