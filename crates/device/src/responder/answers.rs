//! What is owed to the peer: data in order, then the acknowledgement or refusal.

use nonic_memory::{Access, AddressRange, SharedSlice};
use nonic_protocol::{
    AffiliatedError, Answer, BaseHeader, Body, Extent, Message, OwedRefusal, Psn, QpNumber, Refusal,
    RemoteRange, Response,
};
use nonic_transport::{FRAGMENT, Incoming, Link};

use crate::queue_pair::{Inner, QueuePair};

/// The memory that an answer is read from is there no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gone;

impl QueuePair {
    /// Answers a reliable request whose queue pair does not exist. Whether there is something in the ring for which its bell
    /// must be rung.
    pub(crate) fn refuse_unknown(link: &Link, incoming: &Incoming<'_>) -> bool {
        let length = incoming.payload.length() as u32;
        matches!(&incoming.message.body, Body::Request(request) if request.is_declined_aloud(length))
            && Self::refuse_request(link, incoming.message.base)
    }

    /// The same for one that is to be declined aloud; if there is no room, as soon as there is.
    pub(crate) fn refuse_request(link: &Link, base: BaseHeader) -> bool {
        let body = Body::Answer(Answer::Refuse(Refusal::NoAnswer));
        let pushed = link.push(&Message { base: base.answer(), body }, &[]).is_ok();
        if !pushed {
            link.decline_later(base);
        }
        pushed
    }

    /// An answer of this queue pair to its peer.
    fn answer_of(&self, peer: QpNumber, psn: Psn, attempt: u8, answer: Answer) -> Message {
        let base = BaseHeader { destination: peer, source: self.number, psn, attempt };
        Message { base, body: Body::Answer(answer) }
    }

    /// Sends what is owed: answers with data in their order, then the acknowledgement or refusal that is newer.
    pub(crate) fn answer(&self, inner: &mut Inner) {
        if self.push_owed(inner)
            && let Some(path) = &inner.path
        {
            path.link.ring_bell();
        }
    }

    /// The same, but leaves it to the caller to ring the bell of the path's link, if this returns true.
    pub(crate) fn push_owed(&self, inner: &mut Inner) -> bool {
        if !inner.responder.owes() {
            return false;
        }
        // Taken out meanwhile, so that its counts need not change; then put back.
        let Some(path) = inner.path.take() else { return false };
        let peer = inner.attributes.destination_qp;
        let sent = self.send_responses(inner, &path.link, peer);
        if sent.is_err() {
            // The region went while it was being read.
            inner.responder.cannot_respond();
        }
        if sent == Ok(false) || !self.send_verdict(inner, &path.link, peer) {
            path.link.add_stalled(self.number);
        }
        inner.path = Some(path);
        if sent.is_err() {
            self.end_refused(inner, Some(AffiliatedError::AccessViolation));
        }
        true
    }

    /// Sends answers with data in their order; whether all of them. An error: the first that is left can no longer be given.
    fn send_responses(&self, inner: &mut Inner, link: &Link, peer: QpNumber) -> Result<bool, Gone> {
        while let Some(response) = inner.responder.first_response() {
            match self.send_response(link, peer, *response)? {
                None => inner.responder.has_responded(),
                Some(rest) => {
                    *response = rest;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Sends the acknowledgement or refusal that is owed; whether there was room for it.
    fn send_verdict(&self, inner: &mut Inner, link: &Link, peer: QpNumber) -> bool {
        if let Some(psn) = inner.responder.acknowledge() {
            if link.push(&self.answer_of(peer, psn, 0, Answer::Acknowledge), &[]).is_err() {
                return false;
            }
            inner.responder.has_acknowledged();
        }
        if let Some(OwedRefusal { psn, attempt, refusal }) = inner.responder.owed_refusal() {
            if link.push(&self.answer_of(peer, psn, attempt, Answer::Refuse(refusal)), &[]).is_err() {
                return false;
            }
            inner.responder.has_refused();
        }
        true
    }

    /// Sends one response; `Ok(Some)` what is left of it when the ring is full.
    fn send_response(
        &self,
        link: &Link,
        peer: QpNumber,
        response: Response,
    ) -> Result<Option<Response>, Gone> {
        match response {
            Response::Atomic { psn, attempt, old } => {
                let answer = self.answer_of(peer, psn, attempt, Answer::AtomicResponse { old });
                Ok(link.push(&answer, &[]).is_err().then_some(response))
            }
            Response::Read { psn, attempt, remote, total, mut sent } => {
                let RemoteRange { address, key } = remote;
                loop {
                    let count = (total - sent).min(FRAGMENT as u32);
                    let guard = self.engine().party().memory.enter();
                    let range = AddressRange::new(address.wrapping_add(sent.into()), count.into());
                    let mut shadow;
                    let source = match self.remote_bytes(&guard, key, range, Access::REMOTE_READ) {
                        Some(source) => source,
                        None => {
                            let found = self.remote_shadow(&guard, key, range, Access::REMOTE_READ);
                            shadow = found.ok_or(Gone)?.read();
                            SharedSlice::of_private(&mut shadow)
                        }
                    };
                    let answer = Answer::ReadResponse(Extent { total, offset: sent });
                    if link.push(&self.answer_of(peer, psn, attempt, answer), &[source]).is_err() {
                        return Ok(Some(Response::Read { psn, attempt, remote, total, sent }));
                    }
                    sent += count;
                    if sent == total {
                        return Ok(None);
                    }
                }
            }
        }
    }
}
