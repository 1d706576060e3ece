//! What is owed to the peer: data in order, then the acknowledgement or refusal.

use nonic_memory::{Access, AddressRange};
use nonic_queue::QpNumber;
use nonic_transport::{FRAGMENT, Header, Link, MessageKind, Psn, Refusal};

use super::Response;
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    /// Answers a reliable request whose queue pair does not exist.
    pub(crate) fn refuse_unknown(link: &Link, header: &Header) {
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
            return;
        }
        let mut answer =
            Header::new(MessageKind::Refuse, header.source, header.destination, header.psn, header.attempt);
        answer.immediate = Some(Refusal::NoAnswer.to_number());
        // A full ring drops it; the requester then waits until this process is gone or it is told to stop.
        if link.push(&answer, &[]).is_ok() {
            link.ring_bell();
        }
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
        if !self.send_owed(inner, &path.link, peer) {
            path.link.add_stalled(self.number);
        }
        inner.path = Some(path);
        true
    }

    pub(super) fn send_owed(&self, inner: &mut Inner, link: &Link, peer: QpNumber) -> bool {
        while let Some(response) = inner.responder.responses.front().copied() {
            match self.send_response(link, peer, response) {
                Ok(None) => {
                    inner.responder.responses.pop_front();
                }
                Ok(Some(rest)) => {
                    if let Some(front) = inner.responder.responses.front_mut() {
                        *front = rest;
                    }
                    return false;
                }
                Err((psn, attempt)) => {
                    // The region went while it was being read.
                    inner.responder.responses.clear();
                    inner.responder.refuse = Some((psn, attempt, Refusal::Access));
                }
            }
        }
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
    pub(super) fn send_response(
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
                    let shadow;
                    let source = match self.remote_bytes(&guard, key, range, Access::REMOTE_READ) {
                        Some(source) => source,
                        None => {
                            let found = self.remote_shadow(&guard, key, range, Access::REMOTE_READ);
                            shadow = found.ok_or((psn, attempt))?;
                            shadow.slice()
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
