//! What is owed to the peer: data in order, then the acknowledgement or refusal.

use nonic_memory::{Access, AddressRange, SharedSlice};
use nonic_queue::QpNumber;
use nonic_transport::{FRAGMENT, Header, Link, MessageKind, Psn, Refusal};

use super::Response;
use crate::async_event::AsyncEventKind;
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    /// Answers a reliable request whose queue pair does not exist. Whether there is something in the ring for which its bell
    /// must be rung.
    pub(crate) fn refuse_unknown(link: &Link, header: &Header) -> bool {
        let request = matches!(
            header.kind,
            MessageKind::Send
                | MessageKind::SendPull
                | MessageKind::SendInvalidate
                | MessageKind::Write
                | MessageKind::WriteNotify
                | MessageKind::Read
                | MessageKind::Atomic
        );
        if !request || !header.is_first() {
            return false;
        }
        let mut answer =
            Header::new(MessageKind::Refuse, header.source, header.destination, header.psn, header.attempt);
        answer.immediate = Some(Refusal::NoAnswer.to_number());
        // A full ring drops it; the requester then waits until this process is gone or it is told to stop.
        link.push(&answer, &[]).is_ok()
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
        if let Err((psn, attempt)) = sent {
            // The region went while it was being read. Requests behind the read may have been carried out meanwhile.
            inner.responder.responses.clear();
            inner.responder.refuse(psn, attempt, Refusal::Access);
        }
        if sent == Ok(false) || !self.send_verdict(inner, &path.link, peer) {
            path.link.add_stalled(self.number);
        }
        inner.path = Some(path);
        if sent.is_err() {
            self.end_refused(inner, Some(AsyncEventKind::QpAccessError));
        }
        true
    }

    /// Sends answers with data in their order; whether all of them, or which can no longer be given.
    fn send_responses(&self, inner: &mut Inner, link: &Link, peer: QpNumber) -> Result<bool, (Psn, u8)> {
        while let Some(response) = inner.responder.responses.front_mut() {
            match self.send_response(link, peer, *response)? {
                None => {
                    inner.responder.responses.pop_front();
                }
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
        if let Some(psn) = inner.responder.acknowledge {
            let header = Header::new(MessageKind::Acknowledge, peer, self.number, psn, 0);
            if link.push(&header, &[]).is_err() {
                return false;
            }
            inner.responder.acknowledge = None;
        }
        if let Some((psn, attempt, refusal)) = inner.responder.refuse {
            let mut header = Header::new(MessageKind::Refuse, peer, self.number, psn, attempt);
            header.immediate = Some(refusal.to_number());
            if link.push(&header, &[]).is_err() {
                return false;
            }
            inner.responder.refuse = None;
        }
        true
    }

    /// Sends one response; `Ok(Some)` what is left of it when the ring is full, `Err` if its memory is gone.
    fn send_response(
        &self,
        link: &Link,
        peer: QpNumber,
        response: Response,
    ) -> Result<Option<Response>, (Psn, u8)> {
        match response {
            Response::Atomic { psn, attempt, old } => {
                let mut header = Header::new(MessageKind::AtomicResponse, peer, self.number, psn, attempt);
                header.operand = old;
                Ok(link.push(&header, &[]).is_err().then_some(response))
            }
            Response::Read { psn, attempt, address, key, total, mut sent } => {
                let mut header = Header::new(MessageKind::ReadResponse, peer, self.number, psn, attempt);
                header.total = total;
                loop {
                    let count = (total - sent).min(FRAGMENT as u32);
                    let guard = self.engine().party().memory.enter();
                    let range = AddressRange::new(address.wrapping_add(sent.into()), count.into());
                    header.offset = sent;
                    let mut shadow;
                    let source = match self.remote_bytes(&guard, key, range, Access::REMOTE_READ) {
                        Some(source) => source,
                        None => {
                            let found = self.remote_shadow(&guard, key, range, Access::REMOTE_READ);
                            shadow = found.ok_or((psn, attempt))?.read();
                            SharedSlice::of_private(&mut shadow)
                        }
                    };
                    if link.push(&header, &[source]).is_err() {
                        return Ok(Some(Response::Read { psn, attempt, address, key, total, sent }));
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
