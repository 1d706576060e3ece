//! SCIF (Symmetric Communications Interface) without cards: endpoints that are real descriptors, byte streams between
//! them, registered address spaces, remote reads, writes and mappings, and fences.

#![deny(unsafe_code)]

mod accepting;
mod attempt;
mod closing;
mod connecting;
mod connection;
mod descriptor;
mod direction;
mod door;
mod error;
mod far_memory;
mod fork;
#[cfg(fuzzing)]
pub mod fuzzing;
mod helper;
mod hosts;
mod identity;
mod incoming;
mod kept_descriptor;
mod last_close;
mod lease;
mod meeting;
mod memory;
mod node;
mod options;
mod outgoing;
mod patience;
mod poll;
mod port_id;
mod program_memory;
mod proof;
mod registry;
mod relay;
mod segment;
mod side;
mod stream_socket;
mod wire;

pub use descriptor::{Descriptor, Endpoint, unmap};
pub use error::ScifError;
pub use node::node_ids;
pub use nonic_device::log_to_standard_error;
pub use nonic_sys::PollEntry;
pub use options::{Initiator, Protection, RmaFlags};
pub use poll::{poll, poll_at};
pub use port_id::PortId;
