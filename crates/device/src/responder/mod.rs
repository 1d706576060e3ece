//! The responder: takes a peer's requests in the order of the specification (sequence, resource, rights, execute,
//! acknowledge) and places every byte through the gate. Header fields are a checked copy; payload is copied once.

mod answers;
mod datagram;
mod express;
mod invalidates;
mod one_sided;
mod receives;
mod sends;

use std::sync::Arc;

use nonic_memory::SharedSlice;
use nonic_protocol::{AffiliatedError, BaseHeader, Conclusion, Outcome, Psn, QpState, QpType, Request};
use nonic_transport::Link;

use crate::async_event::AsyncEventKind;
use crate::happening::Happening;
use crate::queue_pair::{Delivery, Inner, QueuePair};

impl QueuePair {
    /// Whether a message of the peer has been taken since the queue pair became ready to receive.
    pub fn has_heard_peer(&self) -> bool {
        let inner = self.lock();
        inner.responder.expected() != Psn(inner.attributes.receive_psn)
    }

    pub(crate) fn take_request(
        &self,
        inner: &mut Inner,
        link: &Arc<Link>,
        base: BaseHeader,
        request: &Request,
        payload: SharedSlice<'_>,
    ) -> Delivery {
        let reliable = self.transport == QpType::ReliableConnection;
        if !inner.state().receives() || !self.is_peer(inner, link, base.source) {
            if reliable && request.is_declined_aloud(payload.length() as u32) {
                self.decline(inner, link, base);
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
        if request.is_first() {
            self.give_back_inbound(inner);
        }
        if !inner.responder.check_sequence(self.transport, base, request) {
            return Delivery::Quiet;
        }
        let outcome = match inner.responder.check_resources(self.transport, &inner.attributes, request) {
            Ok(()) => self.execute(inner, link, base, request, payload),
            Err(refused) => refused,
        };
        self.tell_of(base.psn, request, &outcome);
        match inner.responder.conclude(self.transport, base, request, outcome) {
            Conclusion::Quiet => Delivery::Quiet,
            Conclusion::Filled => Delivery::Filled,
            Conclusion::Held => Delivery::Held,
            Conclusion::BreakOff => {
                self.give_back_inbound(inner);
                Delivery::Quiet
            }
            Conclusion::End(error) => {
                self.answer(inner);
                self.end_refused(inner, error);
                Delivery::Quiet
            }
        }
    }

    /// What came of a message that was due.
    #[inline]
    fn tell_of(&self, psn: Psn, request: &Request, outcome: &Outcome) {
        let reliable = self.transport == QpType::ReliableConnection;
        self.witness.sees(match *outcome {
            Outcome::Done(receive) => Happening::Taken { psn, bytes: request.total(), receive },
            Outcome::Retry(refusal) | Outcome::Fatal(refusal, _) if reliable => {
                Happening::Refused { psn, refusal }
            }
            Outcome::Retry(_) | Outcome::Fatal(..) | Outcome::Dropped => Happening::Dropped,
            Outcome::More(..) | Outcome::Hold => return,
        });
    }

    /// Tells whoever asked that nobody takes its requests.
    fn decline(&self, inner: &mut Inner, link: &Arc<Link>, base: BaseHeader) {
        // A link that has ended carries nothing any more, though another to the same process may live.
        let own = inner.path.as_ref().filter(|path| !path.link.is_dead() && path.link.leads_where(link));
        if own.is_some() && inner.attributes.destination_qp == base.source {
            inner.responder.decline(base);
            self.answer(inner);
            return;
        }
        // Behind what was already said to that process.
        let link = own.map_or(&**link, |path| &path.link);
        if Self::refuse_request(link, base) {
            link.ring_bell();
        }
    }

    /// A request was refused for good, and the peer is told: the connection is over.
    fn end_refused(&self, inner: &mut Inner, error: Option<AffiliatedError>) {
        if !inner.state().receives() {
            // It is already: telling the peer found out that an older request is refused, too.
            return;
        }
        if let Some(error) = error {
            self.raise(match error {
                AffiliatedError::InvalidRequest => AsyncEventKind::QpRequestError,
                AffiliatedError::AccessViolation => AsyncEventKind::QpAccessError,
            });
        }
        self.enter_error(inner);
    }

    /// A message that broke off leaves its receive to the next.
    fn give_back_inbound(&self, inner: &mut Inner) {
        if let Some(receive) = inner.responder.break_off() {
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
