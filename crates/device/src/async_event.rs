//! Asynchronous events: what happened to an object outside any request (`ibv_get_async_event(3)`).

use std::sync::Arc;

use crate::completion_queue::CompletionQueue;
use crate::queue_pair::{OpenedQueuePair, QueuePair};
use crate::shared_receive_queue::SharedReceiveQueue;

/// What happened. The numbers are those of `enum ibv_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AsyncEventKind {
    /// A completion queue overran.
    CqError = 0,
    /// A queue pair went to error by a fault of its own device.
    QpFatal = 1,
    /// A peer asked a queue pair for what it cannot do.
    QpRequestError = 2,
    /// A peer asked a queue pair for what it may not have.
    QpAccessError = 3,
    /// The first message came while the queue pair was not yet ready to send.
    CommunicationEstablished = 4,
    /// The send queue has drained.
    SendQueueDrained = 5,
    /// The device is lost.
    DeviceFatal = 8,
    /// The port works.
    PortActive = 9,
    /// The port does not work.
    PortError = 10,
    /// The port has another LID.
    LidChange = 11,
    /// The P_Key table changed.
    PkeyChange = 12,
    /// Another subnet manager is there.
    SubnetManagerChange = 13,
    /// A shared receive queue failed.
    SrqError = 14,
    /// A shared receive queue fell below its limit.
    SrqLimitReached = 15,
    /// A queue pair in error takes no more from its shared receive queue.
    QpLastWqeReached = 16,
    /// The subnet manager asks to register again what was registered with it.
    ClientReregister = 17,
    /// The GID table changed.
    GidChange = 18,
}

/// What it happened to.
#[derive(Clone, Debug)]
pub enum AsyncElement {
    /// A completion queue.
    CompletionQueue(Arc<CompletionQueue>),
    /// A queue pair.
    QueuePair(Arc<QueuePair>),
    /// A queue pair, for one who opened it.
    OpenedQueuePair(Arc<OpenedQueuePair>),
    /// A shared receive queue.
    SharedReceiveQueue(Arc<SharedReceiveQueue>),
    /// A port, 1 based.
    Port(u8),
    /// The device.
    Device,
}

/// One event.
#[derive(Clone, Debug)]
pub struct AsyncEvent {
    /// What happened.
    pub kind: AsyncEventKind,
    /// To what.
    pub element: AsyncElement,
}

impl AsyncElement {
    pub(crate) fn delivered(&self) {
        match self {
            Self::CompletionQueue(queue) => queue.async_account().delivered(),
            Self::QueuePair(pair) => pair.async_account().delivered(),
            Self::OpenedQueuePair(pair) => pair.async_account().delivered(),
            Self::SharedReceiveQueue(queue) => queue.async_account().delivered(),
            Self::Port(_) | Self::Device => {}
        }
    }
}
