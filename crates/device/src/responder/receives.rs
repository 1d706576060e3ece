//! Receives: taking one, and showing it to the program.

use nonic_protocol::{Arrived, QpNumber, Receive, ReceiveQueue, Status};

use crate::queue_pair::ReceivesFrom;
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    /// The next receive: its own, or one of those it shares.
    pub(crate) fn first_receive(&self, own: &mut ReceiveQueue) -> Option<Receive> {
        match &self.receives_from {
            ReceivesFrom::Own => own.take(),
            ReceivesFrom::Shared(queue) => queue.take(),
            ReceivesFrom::Domain(target) => target.take(),
        }
    }

    /// A receive is the next again: what it was taken for did not come.
    pub(crate) fn put_receive_back(&self, own: &mut ReceiveQueue, receive: Receive) {
        match &self.receives_from {
            ReceivesFrom::Own => own.give_back(receive),
            ReceivesFrom::Shared(queue) => queue.give_back(receive),
            ReceivesFrom::Domain(target) => target.give_back(receive),
        }
    }

    pub(crate) fn has_some_receive(&self, inner: &Inner) -> bool {
        match &self.receives_from {
            ReceivesFrom::Own => inner.receives.length() > 0,
            ReceivesFrom::Shared(queue) => !queue.is_empty(),
            ReceivesFrom::Domain(target) => !target.is_empty(),
        }
    }

    #[inline]
    pub(crate) fn complete_message(&self, id: u64, source: QpNumber, arrived: Arrived) {
        self.show_receive(arrived.solicited, |completion| {
            completion.set_bare(id, arrived.opcode, Status::Success, self.number);
            completion.byte_length = arrived.total;
            completion.immediate = arrived.immediate;
            completion.source_qp = source;
        });
    }
}
