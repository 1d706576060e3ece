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
use std::sync::Arc;
use std::time::Instant;

use nonic_memory::Key;
use nonic_queue::{QpState, QpType};
use nonic_transport::{Header, Incoming, Link, MessageKind, Psn, Refusal};

use crate::async_event::AsyncEventKind;
use crate::limits::MESSAGE_MAX;
use crate::queue_pair::{Delivery, Inner, QueuePair};
use crate::receive_queue::Receive;

/// An answer that carries data.
#[derive(Clone, Copy, Debug)]
enum Response {
    Read { psn: Psn, attempt: u8, address: u64, key: Key, total: u32, sent: u32 },
    Atomic { psn: Psn, attempt: u8, old: u64 },
}

/// A message of which fragments are still to come.
#[derive(Debug)]
struct Inbound {
    kind: MessageKind,
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
    /// More fragments come.
    More,
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
        incoming: &Incoming<'_>,
    ) -> Delivery {
        let header = &incoming.header;
        let reliable = self.transport == QpType::ReliableConnection;
        if !inner.state().receives() || !self.is_peer(inner, link, header.source) {
            if reliable {
                // Behind what was already said to this peer, if it is the peer.
                let own = inner
                    .path
                    .as_ref()
                    .map(|path| &*path.link)
                    // A link that has ended carries nothing any more, though another to the same process may live.
                    .filter(|own| !own.is_dead() && own.leads_where(link));
                let link = own.unwrap_or(link);
                if Self::refuse_unknown(link, header) {
                    link.ring_bell();
                }
            }
            return Delivery::Quiet;
        }
        if inner.state() == QpState::ReadyToReceive && !inner.established {
            inner.established = true;
            self.raise(AsyncEventKind::CommunicationEstablished);
        }
        if let Some(psn) = header.acknowledges {
            self.take_acknowledge(inner, psn);
        }
        if !self.is_next(inner, header) {
            return Delivery::Quiet;
        }
        let outcome = self.execute(inner, link, incoming);
        match outcome {
            Outcome::More => Delivery::Quiet,
            Outcome::Done(filled) => {
                inner.responder.inbound = None;
                inner.responder.refused = None;
                if reliable {
                    inner.responder.expected = header.psn.next();
                    let answered = matches!(header.kind, MessageKind::Read | MessageKind::Atomic);
                    inner.responder.acknowledge = if answered { None } else { Some(header.psn) };
                }
                if filled { Delivery::Filled } else { Delivery::Quiet }
            }
            Outcome::Hold => Delivery::Held,
            Outcome::Retry(refusal) if reliable => {
                inner.responder.refuse(header.psn, header.attempt, refusal);
                Delivery::Quiet
            }
            Outcome::Fatal(refusal, event) if reliable => {
                inner.responder.refuse(header.psn, header.attempt, refusal);
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
    fn is_next(&self, inner: &mut Inner, header: &Header) -> bool {
        if !header.is_first() {
            return inner.responder.inbound.as_ref().is_some_and(|inbound| {
                (inbound.kind, inbound.psn, inbound.attempt) == (header.kind, header.psn, header.attempt)
                    && inbound.received == header.offset
            });
        }
        self.give_back_inbound(inner);
        if self.transport != QpType::ReliableConnection {
            return true;
        }
        let expected = inner.responder.expected;
        match header.psn.ahead_of(expected) {
            0 => true,
            1.. => {
                // After a refusal the messages behind it were on their way already.
                let known =
                    matches!(inner.responder.refused, Some((_, attempt)) if attempt == header.attempt);
                if !known {
                    inner.responder.refuse(header.psn, header.attempt, Refusal::OutOfSequence);
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
            match &self.shared_receives {
                Some(queue) => queue.give_back(receive),
                None => inner.receives.give_back(receive),
            }
        }
    }

    fn execute(&self, inner: &mut Inner, link: &Arc<Link>, incoming: &Incoming<'_>) -> Outcome {
        let header = &incoming.header;
        if header.total > MESSAGE_MAX {
            return Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpRequestError));
        }
        match header.kind {
            MessageKind::Send => self.take_send(inner, incoming),
            MessageKind::SendPull => self.take_pull(inner, link, incoming),
            MessageKind::SendInvalidate => self.take_send_invalidate(inner, incoming),
            MessageKind::Write => self.take_write(inner, incoming),
            MessageKind::WriteNotify => match self.take_receive(inner) {
                Ok(receive) => self.complete_write(receive.id, header),
                Err(outcome) => outcome,
            },
            MessageKind::Read => self.take_read(inner, header),
            _ => self.take_atomic(inner, header),
        }
    }
}

fn inbound(header: &Header, received: u32, receive: Option<Receive>) -> Inbound {
    Inbound { kind: header.kind, psn: header.psn, attempt: header.attempt, received, receive }
}
