//! Receives: taking one, placing bytes in it, and showing it to the program.

use nonic_memory::{Access, AddressRange, KeyUse, OwnOperation, ZoneId};
use nonic_protocol::{Arrived, QpNumber, Receive, ReceiveQueue, ScatterGather, Status};

use crate::queue_pair::ReceivesFrom;
use crate::queue_pair::{Inner, QueuePair};
use crate::requester::{Slices, Source};

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

    /// Puts into `slices` the parts of a receive's pieces that hold `count` bytes from `offset`. False: its keys do not
    /// allow it, or it is shorter.
    pub(super) fn receive_bytes<'a>(
        &self,
        own: &'a OwnOperation<'_>,
        receive: &Receive,
        offset: u64,
        count: u64,
        slices: &mut Slices<'a>,
    ) -> bool {
        let resolve = |zone: ZoneId, piece: &ScatterGather, skip: u64, length: u64| {
            let range = AddressRange::new(piece.address.checked_add(skip)?, length);
            own.resolve(zone, piece.key, KeyUse::Local, range, Access::LOCAL_WRITE).ok()
        };
        let (mut offset, mut count) = (offset, count);
        for piece in receive.pieces.as_slice() {
            if count == 0 {
                break;
            }
            let length = u64::from(piece.length);
            if offset >= length {
                offset -= length;
                continue;
            }
            let take = count.min(length - offset);
            let Some(slice) = resolve(receive.zone, piece, offset, take) else { return false };
            slices.push(slice);
            (offset, count) = (0, count - take);
        }
        count == 0
    }

    /// Places bytes in a receive, from `offset` on; false if its keys do not allow it.
    pub(crate) fn place(&self, receive: &Receive, offset: u64, payload: impl Source) -> bool {
        let own = self.engine().party().memory.enter();
        let mut slices = Slices::new();
        if !self.receive_bytes(&own, receive, offset, payload.length() as u64, &mut slices) {
            return false;
        }
        let mut at = 0;
        for slice in &slices {
            payload.copy_part(at, slice);
            at += slice.length();
        }
        own.memory().device_wrote(&slices);
        !own.has_faulted()
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
