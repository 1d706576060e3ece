//! Answers: bytes that a peer reads, and what is said to those whom nobody answers.

use std::sync::Arc;

use nonic_memory::{Access, AddressRange, SharedSlice};
use nonic_protocol::{Answer, BaseHeader, Body, Message, QueueName, ReadPushed, Refusal, RemoteRange};
use nonic_transport::{Incoming, Link};

use crate::bytes::gathered;
use crate::queue_pair::{Asked, Inner, QueuePair};

impl QueuePair {
    /// Answers a reliable request whose queue pair does not exist. Whether there is something in the ring for which its bell
    /// must be rung.
    pub(crate) fn refuse_unknown(link: &Link, incoming: &Incoming<'_>) -> bool {
        let length = incoming.payload.length() as u32;
        incoming.message.body.request().is_some_and(|request| request.is_declined_aloud(length))
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

    /// Tells whoever asked that nobody takes its requests.
    pub(crate) fn decline_request(&self, inner: &mut Inner, link: &Arc<Link>, base: BaseHeader) {
        // A link that has ended carries nothing any more, though another to the same process may live.
        let own = inner.path.as_ref().filter(|path| !path.link.is_dead() && path.link.leads_where(link));
        if own.is_some() && inner.attributes.destination_qp == base.source {
            inner.responder.decline(base);
            inner.answer(&mut { self });
            return;
        }
        if !inner.state().receives() {
            self.turns_away(link, base.source);
        }
        let closed = self.link_before(link);
        if closed.is_some() && inner.responder.owes_data() {
            // It is told when there is room again, or a way.
            inner.responder.decline(base);
            return;
        }
        // Behind what was already said to that process.
        let said = own.map(|path| &*path.link).or(closed.as_ref());
        let link = said.unwrap_or(link);
        if Self::refuse_request(link, base) {
            link.ring_bell();
        }
    }

    /// Sends bytes that the peer reads.
    pub(crate) fn push_read_bytes(
        &self,
        link: &Link,
        message: &Message,
        queue: QueueName,
        from: RemoteRange,
        count: u32,
    ) -> ReadPushed {
        let mut buffer: Box<[u8]>;
        let memory = match self.asked_through(queue) {
            Asked::Here(memory) => memory,
            Asked::Elsewhere(queue) => {
                let Some(bytes) = queue.read(from, count) else { return ReadPushed::Gone };
                buffer = bytes;
                return pushed(link, message, SharedSlice::of_private(&mut buffer));
            }
            Asked::Nobody => return ReadPushed::Gone,
        };
        let own = memory.memory.enter();
        let range = AddressRange::new(from.address, count.into());
        let source = match memory.bytes(&own, from.key, range, Access::REMOTE_READ) {
            Some(source) if source.is_paged() => {
                let Some(bytes) = gathered(&[source]) else { return ReadPushed::Gone };
                buffer = bytes.into();
                SharedSlice::of_private(&mut buffer)
            }
            Some(source) => source,
            None => {
                let Some(found) = memory.shadow(&own, from.key, range, Access::REMOTE_READ) else {
                    return ReadPushed::Gone;
                };
                buffer = found.read().into();
                SharedSlice::of_private(&mut buffer)
            }
        };
        pushed(link, message, source)
    }
}

fn pushed(link: &Link, message: &Message, source: SharedSlice<'_>) -> ReadPushed {
    if link.push(message, &[source]).is_ok() { ReadPushed::Pushed } else { ReadPushed::NoRoom }
}
