//! What two streams say to each other, and what each may send: without device, lock or clock, so that a sender can be run
//! against a receiver in a test.

mod entry;
mod introduction;
mod message;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use entry::{ByteOrder, Mapping, Target};
pub(crate) use introduction::{Introduction, exact_mappings};
pub(crate) use message::{Control, Message};
pub(crate) use receiver::{ReceiveBuffer, Receiver};
pub(crate) use sender::{Sender, Sent};

/// Entries in the list of targets that each side offers.
pub(crate) const TARGETS: usize = 2;
/// Messages about the stream itself, credit among them, that may be under way at a time.
pub(crate) const CONTROLS: u32 = 4;
