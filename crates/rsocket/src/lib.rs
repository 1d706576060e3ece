//! rsockets (`rsocket(7)`): byte streams with the interface of sockets, over connections of the RDMA connection manager.
//!
//! A socket is a number, that of a real descriptor, with which the calls of this crate find it. Data go by writes into a buffer
//! of the receiver's, each with a word that tells how much came: `protocol` says what may be sent when, `link` sends it with the
//! device, and `stream` is what a program sees. Memory of the program comes as shared bytes, and is copied. Who has descriptors of
//! its own for streams (`nonic-sockets`) holds the [`Stream`]s themselves.

#![deny(unsafe_code)]

mod calls;
mod datagram;
mod endpoint;
mod error;
pub mod event_list;
mod event_poll;
mod gather;
mod inbox;
mod link;
mod memory;
mod options;
mod poll;
mod posting;
mod protocol;
mod service;
mod settings;
mod stream;
mod table;
mod waiting;
mod wakeup;

pub use calls::*;
pub use error::{Error, Result};
pub use event_poll::{control_event_poll, create_event_poll, wait_event_poll};
pub use inbox::{Entry, Inbox};
pub use nonic_device::ProgramAddress;
pub use nonic_memory::SharedSlice;
pub use nonic_rdma_cm::PortSpace;
pub use nonic_sys::{PollEntry, PollEvent};
pub use options::{RDMA_INLINE, RDMA_MAPPINGS, RDMA_RECEIVE_QUEUE, RDMA_SEND_QUEUE, SOL_RDMA, Value};
pub use poll::{DescriptorSet, Find, Polled, poll, poll_found, select, select_with};
pub use stream::{Admission, Direction, Standing, Stream, TakenStream};
pub use waiting::Look;
