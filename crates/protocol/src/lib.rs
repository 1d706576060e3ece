//! What programs ask of queue pairs, what these say to each other, and the rules by which they do, whatever carries it.
//!
//! [`Connection`] is a queue pair as a machine: requester, responder, completer, their numbers, retries and waits. Whoever drives it
//! gives it [`Surroundings`]: what carries messages, the memory behind the gate, the program that is told.
//!
//! Nothing here knows a lock, a clock, a system call or how bytes travel: the crate is built without the standard library,
//! so the compiler proves it. Time is what the caller says it is, memory is only named.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod access;
mod attributes;
mod completion;
mod connection;
mod flush;
mod happening;
mod key;
mod message;
mod number;
mod receive_queue;
mod refusal;
mod requester;
mod responder;
mod ring;
mod send_queue;
mod state;
mod surroundings;
mod timer;
mod work_request;

pub use access::Access;
pub use attributes::{Capabilities, QpAttributes};
pub use completion::{Completion, Status};
pub use connection::{Connection, fail_receive};
pub use flush::{FlushRequest, Placement, Selectivity};
pub use happening::Happening;
pub use key::{Key, ZoneId};
pub use message::{
    Answer, AtomicChange, AtomicRequest, BaseHeader, Body, Datagram, Extent, InvalidateFragment, Message,
    ReadRequest, Request, SendFragment, SendPull, WriteFragment, WriteNotify,
};
pub use number::{Psn, QpNumber, QueueName, RemoteRange, SrqNumber};
pub use receive_queue::{Pieces, Receive, ReceiveQueue};
pub use refusal::Refusal;
pub use requester::{PATIENT_REPEAT, Requester, WaitReason};
pub use responder::{AffiliatedError, MESSAGE_MAX, Outcome, OwedRefusal, Responder, Response};
pub use ring::Ring;
pub use send_queue::{SendQueue, Slot};
pub use state::{AttributeMask, QpState, QpType, TransitionError, check_transition};
pub use surroundings::{
    Arrived, Delivery, Direct, Event, LocalTurn, NotChanged, ReadPushed, Step, Surroundings,
};
pub use timer::{Moment, ack_timeout, answer_time, rnr_wait};
pub use work_request::*;
