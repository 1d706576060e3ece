//! The requester: carries out the requests of a send queue, in order.
//!
//! A one-sided request runs directly, on the peer's memory, if nothing older is under way and the peer's tables allow it
//! beyond doubt. Everything else travels as a message through the ring; the peer's responder judges it, and the
//! completer takes the answer.

mod connected;
mod datagram;
mod express;
mod local;
mod one_sided;
mod pulled;
mod windows;

pub(crate) use local::cut;
pub(crate) use one_sided::DIRECT_CHUNK;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use nonic_memory::SharedSlice;
use nonic_protocol::Psn;
use nonic_queue::{Operation, QpAttributes, QpState, QpType, Status};
use nonic_transport::{FRAGMENT, Link};

use crate::async_event::AsyncEventKind;
use crate::limits::PIECES_MAX;
use crate::queue_pair::{Inner, QueuePair};

/// How often a request is repeated whose queue pair has no timeout: the specification leaves it to wait for ever.
const PATIENT_REPEAT: Duration = Duration::from_millis(100);

/// How long a copy that failed waits for the end of the peer's process to show, and how often. A process loses its
/// memory before its sockets when it is killed.
const FAULT_WAIT: Duration = Duration::from_millis(10);
const FAULTS_MAX: u8 = 20;

/// The local bytes of a request, one slice a piece.
pub(crate) type Slices<'a> = ArrayVec<SharedSlice<'a>, PIECES_MAX>;

/// Why nothing is sent for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// The peer had no receive.
    NotReady,
    /// Nobody answers.
    NoAnswer,
    /// The kernel found the peer's memory gone: is its process ending?
    Fault,
    /// Somebody is inside an operation through a key that is to be taken out of use.
    Occupied,
}

/// State of a queue pair as requester.
#[derive(Debug, Default)]
pub(crate) struct Requester {
    /// Number of the next message.
    pub(crate) next: Psn,
    /// Number of the oldest message not yet answered.
    pub(crate) unanswered: Psn,
    /// Which attempt at it.
    pub(crate) attempt: u8,
    /// Bytes already sent of the request that is being sent in fragments.
    pub(crate) sent: u64,
    /// Reads and atomics under way.
    pub(crate) reads: u8,
    /// Bytes received of the oldest read.
    pub(crate) read_received: u32,
    /// Until when and why nothing is sent.
    pub(crate) wait: Option<(Instant, WaitReason)>,
    /// Retries left after timeouts and after RNR.
    pub(crate) retries: u8,
    pub(crate) rnr_retries: u8,
    /// Direct copies that failed in a row.
    faults: u8,
    /// The first request that was not begun when others were last taken back to be repeated, in the count of the send queue.
    pub(crate) begun: u64,
    /// The same when the queue pair last went to SQD: there those before it are carried out, and no others.
    pub(crate) drain_until: u64,
    pub(crate) drained_reported: bool,
    /// Messages were put into the ring and the peer's bell has not been looked at since.
    pub(crate) rings: bool,
}

impl Requester {
    /// The queue pair goes to RTS.
    pub(crate) fn begin(&mut self, attributes: &QpAttributes) {
        *self =
            Self { next: Psn(attributes.send_psn), unanswered: Psn(attributes.send_psn), ..Self::default() };
        self.refill(attributes);
    }

    /// The peer answered: all retries are there again.
    pub(crate) fn refill(&mut self, attributes: &QpAttributes) {
        (self.retries, self.rnr_retries, self.faults) = (attributes.retry_count, attributes.rnr_retry, 0);
    }

    /// Whether the oldest request waits for those inside an operation.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        matches!(self.wait, Some((_, WaitReason::Occupied)))
    }

    /// The queue pair goes to error.
    pub(crate) fn stop(&mut self) {
        (self.wait, self.sent, self.reads) = (None, 0, 0);
    }

    /// Begins again with the oldest unanswered message.
    pub(crate) fn restart(&mut self) {
        self.next = self.unanswered;
        self.attempt = self.attempt.wrapping_add(1);
        (self.wait, self.sent, self.reads, self.read_received) = (None, 0, 0, 0);
    }
}

/// What starting a request came to.
enum Step {
    /// Done.
    Finished,
    /// On its way; the peer answers.
    InFlight,
    /// The ring is full.
    Blocked,
    /// Something older must end first.
    Later,
    /// Failed here.
    Failed(Status),
    /// Nobody to send it to.
    Unreachable,
    /// The peer's memory is not there.
    Fault,
}

impl QueuePair {
    /// Starts everything that can start.
    pub(crate) fn pump(&self, inner: &mut Inner) {
        // What is owed goes first, or with the first message: a peer that gets a reply has the acknowledgement of what it
        // replies to, as on a wire.
        let mut rings = std::mem::take(&mut inner.requester.rings);
        if !self.next_says_what_is_owed(inner) {
            rings |= self.push_owed(inner);
        }
        let mut pushed = None;
        while inner.may_start() && inner.send.started < inner.send.posted {
            let number = inner.send.started;
            let slot = *inner.send.slot(number);
            let step = if self.transport == QpType::UnreliableDatagram {
                let (step, link) = self.start_datagram(inner, number, &slot);
                ring_other(&mut pushed, link);
                step
            } else {
                self.start_connected(inner, number, &slot)
            };
            rings |= matches!(step, Step::InFlight | Step::Blocked)
                || self.transport == QpType::UnreliableConnection;
            match step {
                Step::Finished => {
                    inner.send.started += 1;
                    inner.requester.faults = 0;
                    self.finish(inner, Status::Success);
                }
                Step::InFlight => {
                    inner.send.set_psn(number, inner.requester.next);
                    inner.requester.next = inner.requester.next.next();
                    inner.requester.reads += u8::from(slot.awaits_data());
                    inner.send.started += 1;
                }
                Step::Blocked | Step::Later => break,
                Step::Failed(_) if !inner.send.nothing_in_flight() => break,
                Step::Failed(status) => {
                    self.fail_oldest(inner, status);
                    break;
                }
                Step::Fault => {
                    self.take_fault(inner);
                    break;
                }
                Step::Unreachable => {
                    if inner.send.nothing_in_flight() {
                        self.wait_for_answer(inner);
                    }
                    break;
                }
            }
        }
        rings |= self.push_owed(inner);
        if rings && let Some(path) = &inner.path {
            path.link.ring_bell();
        }
        if let Some(link) = pushed {
            link.ring_bell();
        }
        self.report_drained(inner);
    }

    /// Whether the next request will be a message that can say all that is owed to the peer.
    #[inline]
    fn next_says_what_is_owed(&self, inner: &Inner) -> bool {
        inner.responder.owes()
            && !inner.responder.owes_more()
            && self.transport == QpType::ReliableConnection
            && inner.may_start()
            && inner.requester.sent == 0
            && inner.send.started < inner.send.posted
            && {
                let slot = inner.send.slot(inner.send.started);
                matches!(slot.operation, Operation::Send { immediate: None }) && slot.total <= FRAGMENT as u64
            }
    }

    /// Says that the queue is drained, once, when everything that was begun has ended (IBTA vol. 1, 10.3.1).
    fn report_drained(&self, inner: &mut Inner) {
        let drained = inner.state() == QpState::SendQueueDrain && !inner.is_sending();
        if drained && inner.attributes.drained_notify && !inner.requester.drained_reported {
            inner.requester.drained_reported = true;
            self.raise(AsyncEventKind::SendQueueDrained);
        }
    }

    /// Ends the oldest request with a failure, and what that entails for the others (IBTA vol. 1, 10.3.1).
    pub(crate) fn fail_oldest(&self, inner: &mut Inner, status: Status) {
        if inner.send.finished < inner.send.posted {
            self.finish(inner, status);
        }
        if self.transport == QpType::ReliableConnection {
            self.enter_error(inner);
        } else {
            inner.attributes.state = QpState::SendQueueError;
            inner.requester.stop();
            self.flush_sends(inner);
        }
    }

    // Waiting.

    /// Nobody answers: waits for the timeout, then repeats.
    pub(crate) fn wait_for_answer(&self, inner: &mut Inner) {
        let wait = ack_timeout(inner.attributes.timeout).unwrap_or(PATIENT_REPEAT);
        self.wait(inner, wait, WaitReason::NoAnswer);
    }

    /// Sends nothing for `wait`.
    pub(crate) fn wait(&self, inner: &mut Inner, wait: Duration, reason: WaitReason) {
        let until = Instant::now() + wait;
        inner.requester.wait = Some((until, reason));
        self.engine().schedule(until, self.number);
    }

    /// Goes on after a wait, or gives up.
    pub(crate) fn wait_is_over(&self, inner: &mut Inner, now: Instant) {
        let Some((until, reason)) = inner.requester.wait else { return };
        if now < until || !inner.is_sending() {
            return;
        }
        if reason == WaitReason::NoAnswer && ack_timeout(inner.attributes.timeout).is_some() {
            if inner.requester.retries == 0 {
                self.fail_oldest(inner, Status::RetryExceeded);
                return;
            }
            inner.requester.retries -= 1;
        }
        inner.take_back();
        inner.requester.restart();
        self.pump(inner);
    }
}

/// Remembers whose bell to ring; rings the last one's when another follows.
fn ring_other(pushed: &mut Option<Arc<Link>>, link: Option<Arc<Link>>) {
    let Some(link) = link else { return };
    match pushed {
        Some(before) if Arc::ptr_eq(before, &link) => {}
        _ => {
            if let Some(before) = pushed.replace(link) {
                before.ring_bell();
            }
        }
    }
}

/// How long an answer may take: 4.096 µs · 2^exponent (IBTA vol. 1, 9.9.2.1); 0 is for ever.
fn ack_timeout(exponent: u8) -> Option<Duration> {
    (exponent > 0).then(|| Duration::from_nanos(4096 << exponent.min(31)))
}

/// How long to wait after RNR: the 32 values of IBTA vol. 1, table 45, in units of 10 µs.
pub(crate) fn rnr_wait(code: u8) -> Duration {
    const TENS_OF_US: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    Duration::from_micros(TENS_OF_US[usize::from(code & 31)] * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_those_of_the_specification() {
        assert_eq!(rnr_wait(0), Duration::from_micros(655_360));
        assert_eq!(rnr_wait(1), Duration::from_micros(10));
        assert_eq!(rnr_wait(12), Duration::from_micros(640));
        assert_eq!(rnr_wait(31), Duration::from_micros(491_520));
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(14), Some(Duration::from_nanos(67_108_864)));
    }
}
