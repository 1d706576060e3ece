//! The responder: takes a peer's requests in the order of the specification (sequence, resource, rights, execute,
//! acknowledge) and places every byte through the gate. Header fields are a checked copy; payload is copied once.

mod answers;
mod datagram;
mod express;
mod invalidates;
mod one_sided;
mod receives;
mod sends;

use std::collections::VecDeque;
use std::mem::Discriminant;
use std::sync::Arc;
use std::time::Instant;

use nonic_memory::SharedSlice;
use nonic_protocol::{BaseHeader, Psn, Refusal, RemoteRange, Request};
use nonic_queue::{QpState, QpType};
use nonic_transport::Link;

use crate::async_event::AsyncEventKind;
use crate::limits::MESSAGE_MAX;
use crate::queue_pair::{Delivery, Inner, QueuePair};
use crate::receive_queue::Receive;

/// An answer that carries data.
#[derive(Clone, Copy, Debug)]
enum Response {
    Read { psn: Psn, attempt: u8, remote: RemoteRange, total: u32, sent: u32 },
    Atomic { psn: Psn, attempt: u8, old: u64 },
}

/// A message of which fragments are still to come.
#[derive(Debug)]
struct Inbound {
    kind: Discriminant<Request>,
    psn: Psn,
    attempt: u8,
    received: u32,
    receive: Option<Receive>,
}

/// State of a queue pair as responder.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    expected: Psn,
    inbound: Option<Inbound>,
    responses: VecDeque<Response>,
    acknowledge: Option<Psn>,
    refuse: Option<(Psn, u8, Refusal)>,
    /// What was refused last: later messages of the same attempt are dropped without a word.
    refused: Option<(Psn, u8)>,
    held_since: Option<Instant>,
}

impl Responder {
    /// The queue pair goes to RTR.
    pub(crate) fn begin(&mut self, psn: u32) {
        *self = Self { expected: Psn(psn), ..Self::default() };
    }

    /// The message is refused; the peer is told when what is owed is sent.
    fn refuse(&mut self, psn: Psn, attempt: u8, refusal: Refusal) {
        self.refused = Some((psn, attempt));
        self.refuse = Some((psn, attempt, refusal));
    }

    /// Whether data or a refusal is owed to the peer.
    #[inline]
    pub(crate) fn owes_more(&self) -> bool {
        self.refuse.is_some() || !self.responses.is_empty()
    }

    /// The acknowledgement that is owed, for a message that says it as well.
    #[inline]
    pub(crate) fn acknowledge(&self) -> Option<Psn> {
        self.acknowledge
    }

    /// That message was sent.
    #[inline]
    pub(crate) fn has_acknowledged(&mut self) {
        self.acknowledge = None;
    }

    /// Whether a message is being placed in a receive.
    pub(crate) fn is_receiving(&self) -> bool {
        self.inbound.as_ref().is_some_and(|inbound| inbound.receive.is_some())
    }

    /// Whether something is owed to the peer.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        self.acknowledge.is_some() || self.owes_more()
    }

    /// The queue pair goes to error; returns the receive that was being filled. What is owed stays owed.
    pub(crate) fn stop(&mut self) -> Option<Receive> {
        self.responses.clear();
        self.inbound.take().and_then(|inbound| inbound.receive)
    }
}

/// How a request ended.
enum Outcome {
    /// So many bytes have come, and more fragments follow; the receive that is being filled.
    More(u32, Option<Receive>),
    /// Done; whether a receive was filled.
    Done(bool),
    /// Nothing was done; the peer may try again.
    Retry(Refusal),
    /// The connection is over.
    Fatal(Refusal, Option<AsyncEventKind>),
    /// The program is about to post a receive.
    Hold,
    /// An unreliable message is lost.
    Dropped,
}

impl QueuePair {
    /// Whether a message of the peer has been taken since the queue pair became ready to receive.
    pub fn has_heard_peer(&self) -> bool {
        let inner = self.lock();
        inner.responder.expected != Psn(inner.attributes.receive_psn)
    }

    pub(crate) fn take_request(
        &self,
        inner: &mut Inner,
        link: &Arc<Link>,
        base: BaseHeader,
        request: &Request,
        payload: SharedSlice<'_>,
    ) -> Delivery {
        let BaseHeader { psn, attempt, .. } = base;
        let reliable = self.transport == QpType::ReliableConnection;
        if !inner.state().receives() || !self.is_peer(inner, link, base.source) {
            if reliable {
                // Behind what was already said to this peer, if it is the peer.
                let own = inner
                    .path
                    .as_ref()
                    .map(|path| &*path.link)
                    // A link that has ended carries nothing any more, though another to the same process may live.
                    .filter(|own| !own.is_dead() && own.leads_where(link));
                let link = own.unwrap_or(link);
                if request.is_first() && Self::refuse_request(link, base) {
                    link.ring_bell();
                }
            }
            return Delivery::Quiet;
        }
        if inner.state() == QpState::ReadyToReceive && !inner.established {
            inner.established = true;
            self.raise(AsyncEventKind::CommunicationEstablished);
        }
        if let Some(acknowledged) = request.acknowledges() {
            self.take_acknowledge(inner, acknowledged);
        }
        if !self.is_next(inner, base, request) {
            return Delivery::Quiet;
        }
        let outcome = self.execute(inner, link, base, request, payload);
        match outcome {
            Outcome::More(received, receive) => {
                let kind = request.kind();
                inner.responder.inbound = Some(Inbound { kind, psn, attempt, received, receive });
                Delivery::Quiet
            }
            Outcome::Done(filled) => {
                inner.responder.inbound = None;
                inner.responder.refused = None;
                if reliable {
                    inner.responder.expected = psn.next();
                    let answered = request.is_answered_with_data();
                    inner.responder.acknowledge = if answered { None } else { Some(psn) };
                }
                if filled { Delivery::Filled } else { Delivery::Quiet }
            }
            Outcome::Hold => Delivery::Held,
            Outcome::Retry(refusal) if reliable => {
                inner.responder.refuse(psn, attempt, refusal);
                Delivery::Quiet
            }
            Outcome::Fatal(refusal, event) if reliable => {
                inner.responder.refuse(psn, attempt, refusal);
                self.answer(inner);
                self.end_refused(inner, event);
                Delivery::Quiet
            }
            Outcome::Retry(_) | Outcome::Fatal(..) | Outcome::Dropped => {
                self.give_back_inbound(inner);
                Delivery::Quiet
            }
        }
    }

    /// A request was refused for good, and the peer is told: the connection is over.
    fn end_refused(&self, inner: &mut Inner, event: Option<AsyncEventKind>) {
        if !inner.state().receives() {
            // It is already: telling the peer found out that an older request is refused, too.
            return;
        }
        if let Some(event) = event {
            self.raise(event);
        }
        self.enter_error(inner);
    }

    /// Whether a message is the one that is due: the expected number, or the next fragment of the one under way.
    fn is_next(&self, inner: &mut Inner, base: BaseHeader, request: &Request) -> bool {
        let BaseHeader { psn, attempt, .. } = base;
        if !request.is_first() {
            return inner.responder.inbound.as_ref().is_some_and(|inbound| {
                (inbound.kind, inbound.psn, inbound.attempt) == (request.kind(), psn, attempt)
                    && inbound.received == request.offset()
            });
        }
        self.give_back_inbound(inner);
        if self.transport != QpType::ReliableConnection {
            return true;
        }
        let expected = inner.responder.expected;
        match psn.ahead_of(expected) {
            0 => true,
            1.. => {
                // After a refusal the messages behind it were on their way already.
                let known = matches!(inner.responder.refused, Some((_, refused)) if refused == attempt);
                if !known {
                    inner.responder.refuse(psn, attempt, Refusal::OutOfSequence);
                }
                false
            }
            _ => {
                // A repetition of what was done: say so again.
                if inner.responder.responses.is_empty() {
                    inner.responder.acknowledge = Some(Psn(expected.0.wrapping_sub(1) & 0xff_ffff));
                }
                false
            }
        }
    }

    /// A message that broke off leaves its receive to the next.
    fn give_back_inbound(&self, inner: &mut Inner) {
        if let Some(Inbound { receive: Some(receive), .. }) = inner.responder.inbound.take() {
            self.give_back_receive(inner, receive);
        }
    }

    fn execute(
        &self,
        inner: &mut Inner,
        link: &Arc<Link>,
        base: BaseHeader,
        request: &Request,
        payload: SharedSlice<'_>,
    ) -> Outcome {
        if request.total() > MESSAGE_MAX {
            return Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpRequestError));
        }
        match request {
            Request::Send(send) => self.take_send(inner, base, send, payload),
            Request::Pull(send) => self.take_pull(inner, link, base, send, payload),
            Request::SendInvalidate(send) => self.take_send_invalidate(inner, base, send, payload),
            Request::Write(write) => self.take_write(inner, base, write, payload),
            Request::WriteNotify(write) => self.take_notice(inner, base, write),
            Request::Read(read) => self.take_read(inner, base, read),
            Request::Atomic(atomic) => self.take_atomic(inner, base, atomic),
        }
    }
}
