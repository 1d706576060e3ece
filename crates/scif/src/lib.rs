//! SCIF (Symmetric Communications Interface) without cards: endpoints that are real descriptors, byte streams between
//! them, registered address spaces, remote reads, writes and mappings, and fences.

mod descriptor;
mod error;
mod helper;
mod memory;
mod node;
mod options;
mod poll;
mod port_id;

pub use descriptor::{Descriptor, Endpoint, unmap};
pub use error::ScifError;
pub use node::node_ids;
pub use nonic_sys::PollEntry;
pub use options::{Initiator, Protection, RmaFlags};
pub use poll::{poll, poll_at};
pub use port_id::PortId;
