//! Sends of a peer that take a key of this process out of use.

use nonic_memory::SharedSlice;
use nonic_protocol::{BaseHeader, CompletionOpcode, InvalidateFragment, Outcome, Refusal, Status};

use super::receives::Arrived;
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    /// The key is judged before the first byte is placed, and taken out of use behind the last.
    #[cold]
    pub(super) fn take_send_invalidate(
        &self,
        inner: &mut Inner,
        base: BaseHeader,
        send: &InvalidateFragment,
        payload: SharedSlice<'_>,
    ) -> Outcome {
        let InvalidateFragment { extent, key, solicited } = *send;
        let receive = match self.receive_under_way(inner, extent.total) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        let window = self.engine().windows.find(key);
        let Some(window) = window.filter(|window| window.is_bound_for(self.number, key)) else {
            return self.fail_receive(&receive, Status::RemoteInvalidRequest, Refusal::Access);
        };
        if !self.place(&receive, extent.offset.into(), payload) {
            return self.fail_receive(&receive, Status::LocalProtection, Refusal::Operation);
        }
        let received = extent.offset + payload.length() as u32;
        if received < extent.total {
            return Outcome::More(received, Some(receive));
        }
        if !window.invalidate_for_peer(self.number, key) {
            return self.fail_receive(&receive, Status::RemoteInvalidRequest, Refusal::Access);
        }
        let (opcode, immediate) = (CompletionOpcode::ReceiveInvalidate, Some(key.0));
        self.complete_message(receive.id, base, Arrived { opcode, total: extent.total, immediate, solicited })
    }
}
