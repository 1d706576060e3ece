//! What the responder does to memory and receives; its rules are the protocol's. It places every byte through the gate. Header fields
//! are a checked copy; payload is copied once.

mod answers;
mod datagram;
mod express;
mod one_sided;
mod pulled;
mod receives;
mod windows;

pub(crate) use datagram::DatagramFacts;
