//! The one place past which everything goes that happens to requests and messages of a queue pair, direct operations too. Who looks:
//! the counters in the port segment, which `nonic doctor --pid` prints; and whoever listens to `tracing` at the level of a trace
//! (`NONIC_LOG=trace`), if he listens when the queue pair is created. The express ways only count: a queue pair that is listened to
//! does not take them.

use nonic_protocol::{CompletionOpcode, Happening, QpNumber, Status};
use nonic_transport::{Counter, PairCounters};
use tracing::level_filters::LevelFilter;

use crate::async_event::AsyncEventKind;

/// Whom everything is told that happens to a queue pair.
#[derive(Debug)]
pub(crate) struct Witness {
    number: QpNumber,
    counters: PairCounters,
    /// Somebody listened when the queue pair was created.
    traced: bool,
}

impl Witness {
    pub(crate) fn new(number: QpNumber, counters: PairCounters) -> Self {
        Self { number, counters, traced: LevelFilter::current() >= LevelFilter::TRACE }
    }

    pub(crate) fn counters(&self) -> &PairCounters {
        &self.counters
    }

    /// Tells it. What is counted is told under the queue pair's lock.
    #[inline(always)]
    pub(crate) fn sees(&self, happening: Happening) {
        self.count(happening);
        if self.traced {
            self.trace(happening);
        }
    }

    /// Tells that the program is told of something by an asynchronous event.
    pub(crate) fn sees_event(&self, kind: AsyncEventKind) {
        if self.traced {
            tracing::trace!(queue_pair = self.number.0, ?kind, "an asynchronous event is raised");
        }
    }

    /// Whether somebody listens. Then nothing takes an express way, where only counting is done.
    pub(crate) fn is_listened_to(&self) -> bool {
        self.traced
    }

    /// Counts one more of a kind, and its bytes, for the express ways.
    #[inline(always)]
    pub(crate) fn counts(&self, [kind, amount]: [Counter; 2], bytes: u32) {
        self.counters.add(kind, 1);
        self.counters.add(amount, bytes.into());
    }

    #[inline(always)]
    fn count(&self, happening: Happening) {
        use CompletionOpcode as Opcode;
        use Counter as C;
        let counters = &self.counters;
        let count = |kind, amount, bytes| self.counts([kind, amount], bytes);
        match happening {
            Happening::Completed { operation, status: Status::Success, bytes, .. } => match operation {
                Opcode::Send => count(C::Sends, C::SendBytes, bytes),
                Opcode::RdmaWrite | Opcode::WriteWithImmediate => count(C::Writes, C::WriteBytes, bytes),
                Opcode::RdmaRead => count(C::Reads, C::ReadBytes, bytes),
                Opcode::CompareSwap | Opcode::FetchAdd => count(C::Atomics, C::AtomicBytes, bytes),
                // Nothing of those happens at a peer, or they are no requests.
                _ => {}
            },
            Happening::Completed { status: Status::Flushed, .. } => {}
            Happening::Completed { .. } => counters.add(C::Failed, 1),
            Happening::Asked => counters.add(C::Asked, 1),
            Happening::Taken { bytes, receive: true, .. } => count(C::Received, C::ReceivedBytes, bytes),
            Happening::Taken { bytes, receive: false, .. } => count(C::Served, C::ServedBytes, bytes),
            Happening::Refused { .. } | Happening::Dropped => counters.add(C::Refused, 1),
            Happening::Repeated => counters.add(C::Repeated, 1),
            // Each is counted by what comes of it.
            Happening::Posted { .. }
            | Happening::Started { .. }
            | Happening::Moved { .. }
            | Happening::Denied { .. } => {}
        }
    }

    #[cold]
    #[inline(never)]
    fn trace(&self, happening: Happening) {
        let queue_pair = self.number.0;
        match happening {
            Happening::Posted { id, operation, pieces } => {
                tracing::trace!(queue_pair, id, ?operation, pieces, "a request is posted");
            }
            Happening::Started { psn } => tracing::trace!(queue_pair, psn = psn.0, "a request is on its way"),
            Happening::Asked => tracing::trace!(queue_pair, "the peer is asked to carry the request out"),
            Happening::Moved { bytes } => {
                tracing::trace!(queue_pair, bytes, "a request is carried out directly on the peer's memory");
            }
            Happening::Completed { id, operation, status, bytes } => {
                tracing::trace!(queue_pair, id, ?operation, ?status, bytes, "a request ends");
            }
            Happening::Taken { psn, bytes, receive } => {
                tracing::trace!(
                    queue_pair,
                    psn = psn.0,
                    bytes,
                    receive,
                    "a message of the peer's is carried out"
                );
            }
            Happening::Refused { psn, refusal } => {
                tracing::trace!(queue_pair, psn = psn.0, ?refusal, "a message of the peer's is refused");
            }
            Happening::Denied { psn, refusal } => {
                tracing::trace!(queue_pair, psn = psn.0, ?refusal, "the peer refuses a request");
            }
            Happening::Repeated => tracing::trace!(queue_pair, "what is under way is sent again"),
            Happening::Dropped => tracing::trace!(queue_pair, "a message is dropped"),
        }
    }
}
