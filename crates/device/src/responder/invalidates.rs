//! Sends of a peer that take a key of this process out of use.

use nonic_memory::Key;
use nonic_queue::{CompletionOpcode, Status};
use nonic_transport::{Incoming, Refusal};

use super::{Outcome, inbound};
use crate::async_event::AsyncEventKind;
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    /// The key is judged before the first byte is placed, and taken out of use behind the last.
    #[cold]
    pub(super) fn take_send_invalidate(&self, inner: &mut Inner, incoming: &Incoming<'_>) -> Outcome {
        let header = &incoming.header;
        let Some(key) = header.immediate.map(Key) else {
            return Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpRequestError));
        };
        let receive = match self.receive_under_way(inner, header) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        let window = self.engine().windows.find(key);
        let Some(window) = window.filter(|window| window.is_bound_for(self.number, key)) else {
            return self.fail_receive(&receive, Status::RemoteInvalidRequest, Refusal::Access);
        };
        if !self.place(&receive, header.offset.into(), incoming.payload) {
            return self.fail_receive(&receive, Status::LocalProtection, Refusal::Operation);
        }
        let received = header.offset + incoming.payload.length() as u32;
        if received < header.total {
            inner.responder.inbound = Some(inbound(header, received, Some(receive)));
            return Outcome::More;
        }
        if !window.invalidate_for_peer(self.number, key) {
            return self.fail_receive(&receive, Status::RemoteInvalidRequest, Refusal::Access);
        }
        self.complete_message(receive.id, header, CompletionOpcode::ReceiveInvalidate)
    }
}
