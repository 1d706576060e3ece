//! The responder of a connected queue pair: which message is the next, what it is judged by, and what is owed for it
//! (IBTA vol. 1, 9.7.4 and 9.7.5; for unreliable service 9.8). The steps have the order of the specification: sequence,
//! resources and rights, execution, acknowledgement.
//!
//! A message is a packet here: a carrier whose packets are smaller puts messages together before.

mod outcome;

pub(crate) use outcome::Conclusion;
pub use outcome::{AffiliatedError, Outcome, OwedRefusal, Response};

use alloc::collections::VecDeque;
use core::mem::Discriminant;
use core::time::Duration;

use crate::access::Access;
use crate::attributes::QpAttributes;
use crate::message::{AtomicRequest, BaseHeader, Request};
use crate::number::{Psn, QueueName};
use crate::receive_queue::Receive;
use crate::refusal::Refusal;
use crate::state::QpType;
use crate::timer::Moment;

/// Bytes of a message at most (9.4.1).
pub const MESSAGE_MAX: u32 = 1 << 31;

/// How long an unreliable message may wait for a receive while the program has completions to poll: it is about to post
/// some. A network card would have room for as many packets; when the time is over the message is dropped.
const HOLD: Duration = Duration::from_millis(20);

/// A message of which fragments are still to come.
#[derive(Debug)]
struct Inbound {
    kind: Discriminant<Request>,
    psn: Psn,
    attempt: u8,
    received: u32,
    receive: Option<Receive>,
}

/// State of a queue pair as responder. `T` is an instant of the caller's clock.
#[derive(Debug)]
pub struct Responder<T> {
    expected: Psn,
    /// Something has been taken, so that there are numbers which may be repeated.
    has_begun: bool,
    inbound: Option<Inbound>,
    responses: VecDeque<Response>,
    acknowledge: Option<Psn>,
    refuse: Option<OwedRefusal>,
    /// The peer was declined before, and is to be told that it no longer is.
    owes_readiness: bool,
    /// What was refused last: later messages of the same attempt are dropped without a word.
    refused: Option<(Psn, u8)>,
    held_since: Option<T>,
    /// The shared receive queue that the last message was for, on an extended connection.
    pub(crate) queue: QueueName,
}

impl<T> Default for Responder<T> {
    fn default() -> Self {
        Self::new(Psn(0))
    }
}

impl<T> Responder<T> {
    /// The queue pair goes to RTR; `expected` is the first number it takes (10.3.1).
    pub fn new(expected: Psn) -> Self {
        Self {
            expected,
            has_begun: false,
            inbound: None,
            responses: VecDeque::new(),
            acknowledge: None,
            refuse: None,
            owes_readiness: false,
            refused: None,
            held_since: None,
            queue: QueueName::NONE,
        }
    }

    /// Number of the message that is due.
    #[inline]
    pub fn expected(&self) -> Psn {
        self.expected
    }

    // 9.7.4: sequence.

    /// Whether a message is the one that is due: the expected number, or the next fragment of the one under way. What is
    /// to be said of any other is owed from now on. Before the first fragment of a message comes here, one that broke off is
    /// over ([`Responder::break_off`]). Unreliable service has no numbers to go by.
    pub(crate) fn check_sequence(&mut self, transport: QpType, base: BaseHeader, request: &Request) -> bool {
        let (psn, attempt) = (base.psn, base.attempt());
        if !request.is_first() {
            return self.inbound.as_ref().is_some_and(|inbound| {
                (inbound.kind, inbound.psn, inbound.attempt) == (request.kind(), psn, attempt)
                    && inbound.received == request.offset()
            });
        }
        if transport != QpType::ReliableConnection {
            return true;
        }
        match psn.ahead_of(self.expected) {
            0 => true,
            1.. => {
                // After a refusal the messages behind it were on their way already.
                let known = matches!(self.refused, Some((_, refused)) if refused == attempt);
                if !known {
                    self.refuse(base, Refusal::OutOfSequence);
                }
                false
            }
            // Both sides were told of different numbers: nobody waits for one that never comes.
            _ if !self.has_begun => {
                self.refuse(base, Refusal::OutOfSequence);
                false
            }
            _ => {
                // A repetition of what was done: say so again.
                if self.responses.is_empty() {
                    self.acknowledge = Some(self.expected.before());
                }
                false
            }
        }
    }

    /// Whether this number is due, and no message is under way in fragments.
    #[inline]
    pub fn is_next(&self, psn: Psn) -> bool {
        self.expected == psn && self.inbound.is_none()
    }

    /// A message of which fragments were still to come is over; the receive that was being filled.
    pub(crate) fn break_off(&mut self) -> Option<Receive> {
        self.inbound.take().and_then(|inbound| inbound.receive)
    }

    /// The message of which fragments are still to come: its number, and which attempt at it.
    pub(crate) fn is_taking(&self) -> Option<(Psn, u8)> {
        self.inbound.as_ref().map(|inbound| (inbound.psn, inbound.attempt))
    }

    /// Whether a message is being placed in a receive.
    pub fn is_receiving(&self) -> bool {
        self.inbound.as_ref().is_some_and(|inbound| inbound.receive.is_some())
    }

    // 9.7.4: resources and rights.

    /// What can be judged without a look at memory or receives: the length, the rights of the queue pair, the reads and
    /// atomics that were agreed on.
    pub(crate) fn check_resources(
        &self,
        transport: QpType,
        attributes: &QpAttributes,
        request: &Request,
    ) -> Result<(), Outcome> {
        let wrong = Outcome::Fatal(Refusal::InvalidRequest, Some(AffiliatedError::InvalidRequest));
        if request.total() > MESSAGE_MAX {
            return Err(wrong);
        }
        let wanted = match request {
            // Judged once, with the first fragment.
            Request::Write(write) if write.extent.offset == 0 => Access::REMOTE_WRITE,
            Request::Read(_) => Access::REMOTE_READ,
            Request::Flush(flush) => flush.placement.access(),
            Request::Atomic(atomic) => {
                if !atomic.remote.address.is_multiple_of(AtomicRequest::LENGTH.into()) {
                    return Err(wrong);
                }
                Access::REMOTE_ATOMIC
            }
            _ => return Ok(()),
        };
        if request.is_answered_with_data() && transport != QpType::ReliableConnection {
            return Err(Outcome::Dropped);
        }
        if !attributes.access.contains(wanted) {
            return Err(Outcome::Fatal(Refusal::InvalidRequest, Some(AffiliatedError::AccessViolation)));
        }
        if request.is_answered_with_data()
            && self.responses.len() >= usize::from(attributes.max_dest_rd_atomic)
        {
            return Err(wrong);
        }
        Ok(())
    }

    /// A receive was there for the message.
    pub(crate) fn found_receive(&mut self) {
        self.held_since = None;
    }

    // Execution is the caller's. 9.7.5: what is said of it.

    /// Notes how a request ended that [`Responder::check_sequence`] found due.
    pub(crate) fn conclude(
        &mut self,
        transport: QpType,
        base: BaseHeader,
        request: &Request,
        outcome: Outcome,
    ) -> Conclusion {
        let (psn, attempt) = (base.psn, base.attempt());
        let reliable = transport == QpType::ReliableConnection;
        match outcome {
            Outcome::More(received, receive) => {
                self.inbound = Some(Inbound { kind: request.kind(), psn, attempt, received, receive });
                Conclusion::Quiet
            }
            Outcome::Done(filled) => {
                (self.inbound, self.refused) = (None, None);
                if reliable {
                    (self.expected, self.has_begun) = (psn.next(), true);
                    // An answer with data says it as well.
                    self.acknowledge = if request.is_answered_with_data() { None } else { Some(psn) };
                }
                if filled { Conclusion::Filled } else { Conclusion::Quiet }
            }
            Outcome::Hold => Conclusion::Held,
            Outcome::Retry(refusal) if reliable => {
                self.refuse(base, refusal);
                Conclusion::Quiet
            }
            Outcome::Fatal(refusal, error) if reliable => {
                self.refuse(base, refusal);
                Conclusion::End(error)
            }
            Outcome::Retry(_) | Outcome::Fatal(..) | Outcome::Dropped => Conclusion::BreakOff,
        }
    }

    /// The message that was due was taken whole at once, into a receive.
    #[inline]
    pub fn has_taken(&mut self, psn: Psn) {
        (self.held_since, self.refused, self.has_begun) = (None, None, true);
        (self.expected, self.acknowledge) = (psn.next(), Some(psn));
    }

    /// The message is refused; the peer is told when what is owed is sent.
    fn refuse(&mut self, base: BaseHeader, refusal: Refusal) {
        let (psn, attempt) = (base.psn, base.attempt());
        self.refused = Some((psn, attempt));
        self.refuse = Some(OwedRefusal { psn, attempt, refusal });
    }

    /// A request came while the queue pair takes none, or none any more. Nobody is told before what is owed already is: the
    /// requester would take all of it for undone. What is owed for an attempt that it has given up says nothing to it.
    pub fn decline(&mut self, base: BaseHeader) {
        if self.refuse.is_none_or(|owed| owed.attempt != base.attempt()) {
            self.refuse(base, Refusal::NoAnswer);
        }
    }

    // What is owed.

    /// The peer, which was declined while the queue pair took nothing, is owed the word that it takes its requests.
    pub fn owe_readiness(&mut self) {
        self.owes_readiness = true;
    }

    /// Whether that is owed.
    pub(crate) fn owes_readiness(&self) -> bool {
        self.owes_readiness
    }

    /// It was said.
    pub(crate) fn has_said_ready(&mut self) {
        self.owes_readiness = false;
    }

    /// An answer with data is owed, behind those that are owed already.
    pub(crate) fn owe(&mut self, response: Response) {
        self.responses.push_back(response);
    }

    /// The oldest answer with data that is owed.
    pub(crate) fn first_response(&mut self) -> Option<&mut Response> {
        self.responses.front_mut()
    }

    /// It was sent.
    pub(crate) fn has_responded(&mut self) {
        self.responses.pop_front();
    }

    /// It can no longer be given, nor can those behind it: the request is refused after all. Requests behind it may have been
    /// carried out meanwhile.
    pub(crate) fn cannot_respond(&mut self) {
        if let Some(Response::Read { psn, attempt, .. } | Response::Atomic { psn, attempt, .. }) =
            self.responses.pop_front()
        {
            self.responses.clear();
            self.refused = Some((psn, attempt));
            self.refuse = Some(OwedRefusal { psn, attempt, refusal: Refusal::Access });
        }
    }

    /// The acknowledgement that is owed.
    #[inline]
    pub fn acknowledge(&self) -> Option<Psn> {
        self.acknowledge
    }

    /// It was sent, by itself or with a message that says it as well.
    #[inline]
    pub fn has_acknowledged(&mut self) {
        self.acknowledge = None;
    }

    /// The refusal that is owed.
    pub(crate) fn owed_refusal(&self) -> Option<OwedRefusal> {
        self.refuse
    }

    /// It was sent.
    pub(crate) fn has_refused(&mut self) {
        self.refuse = None;
    }

    /// Whether data, a refusal or another word that is waited for is owed to the peer.
    #[inline]
    pub fn owes_more(&self) -> bool {
        self.refuse.is_some() || self.owes_readiness || !self.responses.is_empty()
    }

    /// Whether answers with data are owed to the peer.
    pub fn owes_data(&self) -> bool {
        !self.responses.is_empty()
    }

    /// Whether something is owed to the peer.
    #[inline]
    pub fn owes(&self) -> bool {
        self.acknowledge.is_some() || self.owes_more()
    }

    /// The queue pair goes to error; the receive that was being filled. What is owed stays owed, data too: a refusal behind them
    /// means nothing to a requester that still waits for them.
    pub fn stop(&mut self) -> Option<Receive> {
        self.break_off()
    }
}

impl<T: Moment> Responder<T> {
    /// What becomes of a message that needs a receive when there is none: a reliable one is refused for as long as `timer`
    /// says (9.7.5, RNR NAK), an unreliable one is dropped, but that it may wait for 20 ms if the
    /// program `owes_poll`, and so is about to post some.
    pub(crate) fn without_receive(
        &mut self,
        transport: QpType,
        timer: u8,
        owes_poll: impl FnOnce() -> bool,
        now: impl FnOnce() -> T,
    ) -> Outcome {
        if transport == QpType::ReliableConnection {
            return Outcome::Retry(Refusal::NotReady { timer });
        }
        let now = now();
        let since = *self.held_since.get_or_insert(now);
        if owes_poll() && now < since + HOLD { Outcome::Hold } else { Outcome::Dropped }
    }
}

#[cfg(test)]
mod tests;
