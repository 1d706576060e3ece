//! What the requester does to memory and to the carrier; its rules are the protocol's.
//!
//! A one-sided request runs directly, on the peer's memory, if nothing older is under way and the peer's tables allow it
//! beyond doubt. Everything else travels as a message through the ring; the peer's responder judges it.

mod datagram;
mod express;
mod local;
mod one_sided;
mod pulled;
mod windows;
mod within;

pub(crate) use one_sided::DIRECT_CHUNK;
