//! What queue pairs say to each other, and the rules by which they say it, whatever carries it.
//!
//! Nothing here knows a lock, a clock, a system call or how bytes travel: the crate is built without the standard library,
//! so the compiler proves it. Time is what the caller says it is, memory is only named.

#![no_std]
#![forbid(unsafe_code)]

mod key;
mod message;
mod number;
mod refusal;

pub use key::{Key, ZoneId};
pub use message::{
    Answer, AtomicChange, AtomicRequest, BaseHeader, Body, Datagram, Extent, InvalidateFragment, Message,
    ReadRequest, Request, SendFragment, SendPull, WriteFragment, WriteNotify,
};
pub use number::{Psn, QpNumber, RemoteRange};
pub use refusal::Refusal;
