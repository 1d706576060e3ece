//! The requester of a queue pair: the numbers of its messages, its retries and its waits (IBTA vol. 1, 9.7.3, 9.7.6, 9.9.2.1).

use core::time::Duration;

use crate::attributes::QpAttributes;
use crate::number::Psn;
use crate::timer::Moment;

/// How often a request is repeated whose queue pair has no timeout: the specification leaves it to wait for ever.
pub const PATIENT_REPEAT: Duration = Duration::from_millis(100);

/// How long a copy that failed waits for the end of the peer's process to show. A process loses its memory before its
/// sockets when it is killed.
const FAULT_WAIT: Duration = Duration::from_millis(10);
/// How often in a row it waits so.
const FAULTS_MAX: u8 = 20;

/// Why nothing is sent for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The peer had no receive.
    NotReady,
    /// Nobody answers.
    NoAnswer,
    /// The peer's memory was found gone: is its process ending?
    Fault,
    /// Somebody is inside an operation through a key that is to be taken out of use.
    Occupied,
}

/// State of a queue pair as requester. `T` is an instant of the caller's clock.
#[derive(Debug)]
pub struct Requester<T> {
    /// Number of the next message.
    pub next: Psn,
    /// Number of the oldest message not yet answered.
    pub unanswered: Psn,
    /// Which attempt at it.
    pub attempt: u8,
    /// Bytes already sent of the request that is being sent in fragments.
    pub sent: u64,
    /// Reads and atomics under way.
    pub reads: u8,
    /// Bytes received of the oldest read.
    pub read_received: u32,
    /// Until when and why nothing is sent.
    pub wait: Option<(T, WaitReason)>,
    /// Retries left after timeouts.
    pub retries: u8,
    /// Retries left after RNR.
    pub rnr_retries: u8,
    /// The peer said that it takes what it declined, and nothing was answered since.
    pub heard_ready: bool,
    /// Direct copies that failed in a row.
    faults: u8,
    /// The first request that was not begun when others were last taken back to be repeated, in the count of the send queue.
    pub begun: u64,
    /// The same when the queue pair last went to SQD: there those before it are carried out, and no others (10.3.1).
    pub drain_until: u64,
    /// Its program was told that the queue is drained.
    pub drained_reported: bool,
    /// Messages were given to the carrier and the peer has not been called since.
    pub rings: bool,
}

impl<T> Default for Requester<T> {
    fn default() -> Self {
        Self {
            next: Psn(0),
            unanswered: Psn(0),
            attempt: 0,
            sent: 0,
            reads: 0,
            read_received: 0,
            wait: None,
            retries: 0,
            rnr_retries: 0,
            heard_ready: false,
            faults: 0,
            begun: 0,
            drain_until: 0,
            drained_reported: false,
            rings: false,
        }
    }
}

impl<T> Requester<T> {
    /// The queue pair goes to RTS.
    pub fn begin(&mut self, attributes: &QpAttributes) {
        let first = Psn(attributes.send_psn);
        *self = Self { next: first, unanswered: first, ..Self::default() };
        self.refill(attributes);
    }

    /// The peer answered: all retries are there again.
    #[inline]
    pub fn refill(&mut self, attributes: &QpAttributes) {
        (self.retries, self.rnr_retries, self.faults) = (attributes.retry_count, attributes.rnr_retry, 0);
        self.heard_ready = false;
    }

    /// A request was carried out directly.
    #[inline]
    pub fn has_copied(&mut self) {
        self.faults = 0;
    }

    /// A direct copy found nothing at the peer: either its process is ending, which will show soon, or its program has unmapped
    /// what it registered. How long to wait; nothing, if it has waited often enough.
    pub fn take_fault(&mut self) -> Option<Duration> {
        let waits = self.faults < FAULTS_MAX;
        self.faults += u8::from(waits);
        waits.then_some(FAULT_WAIT)
    }

    /// Whether the oldest request waits for those inside an operation.
    #[inline]
    pub fn is_held_up(&self) -> bool {
        matches!(self.wait, Some((_, WaitReason::Occupied)))
    }

    /// The queue pair goes to error.
    pub fn stop(&mut self) {
        (self.wait, self.sent, self.reads) = (None, 0, 0);
    }

    /// Begins again with the oldest unanswered message.
    pub fn restart(&mut self) {
        self.next = self.unanswered;
        self.attempt = self.attempt.wrapping_add(1);
        (self.wait, self.sent, self.reads, self.read_received) = (None, 0, 0, 0);
    }
}

impl<T: Moment> Requester<T> {
    /// Sends nothing for `wait`; until when.
    pub fn wait(&mut self, now: T, wait: Duration, reason: WaitReason) -> T {
        let until = now + wait;
        self.wait = Some((until, reason));
        until
    }
}
