//! The local bytes of a request.

use nonic_memory::{Access, AccessError, AddressRange, KeyUse, OwnOperation, SharedSlice};
use nonic_protocol::{SendQueue, Slot};

use crate::bytes::{Slices, Source, cut};
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    /// Puts the local bytes of a request into `slices`: what its keys lead to. (Into, because the list is long and is
    /// not to be moved about.)
    pub(crate) fn local_bytes<'a>(
        &self,
        send: &SendQueue,
        own: &'a OwnOperation<'_>,
        number: u64,
        want: Access,
        slices: &mut Slices<'a>,
    ) -> Result<(), AccessError> {
        for piece in send.pieces(number, &self.capabilities) {
            if piece.length > 0 {
                let range = AddressRange::new(piece.address, piece.length.into());
                slices.push(own.resolve(self.zone.id(), piece.key, KeyUse::Local, range, want)?);
            }
        }
        Ok(())
    }

    /// Runs `body` with the local bytes of a request that sends them.
    pub(crate) fn with_source<R>(
        &self,
        inner: &mut Inner,
        number: u64,
        slot: &Slot,
        body: impl FnOnce(&mut Inner, &[SharedSlice<'_>]) -> R,
    ) -> Result<R, AccessError> {
        if slot.flags.inline {
            let range = inner.send.inline_range(number, &self.capabilities);
            let mut inline = inner.send.lend_inline();
            let result = body(inner, &[SharedSlice::of_private(&mut inline[range])]);
            inner.send.put_inline_back(inline);
            return Ok(result);
        }
        let own = self.engine().party().memory.enter();
        let mut slices = Slices::new();
        self.local_bytes(&inner.send, &own, number, Access::LOCAL_READ, &mut slices)?;
        let result = body(inner, &slices);
        // Memory that is paged on demand was not there.
        if own.has_faulted() { Err(AccessError::NotThere) } else { Ok(result) }
    }

    /// Whether the local keys of a request let its result be placed.
    pub(crate) fn can_place_result(&self, send: &SendQueue, number: u64) -> bool {
        let own = self.engine().party().memory.enter();
        self.local_bytes(send, &own, number, Access::LOCAL_WRITE, &mut Slices::new()).is_ok()
    }

    /// Copies data to the local memory of a request, from `offset` on; false if its keys do not allow it.
    pub(crate) fn place_result(
        &self,
        send: &SendQueue,
        number: u64,
        offset: usize,
        data: impl Source,
    ) -> bool {
        let own = self.engine().party().memory.enter();
        let mut slices = Slices::new();
        if self.local_bytes(send, &own, number, Access::LOCAL_WRITE, &mut slices).is_err() {
            return false;
        }
        let mut at = 0;
        let slices = cut(&slices, offset, data.length());
        for slice in &slices {
            data.copy_part(at, slice);
            at += slice.length();
        }
        own.memory().device_wrote(&slices);
        !own.has_faulted()
    }
}

/// Copies bytes over slices that stand one after the other.
pub(super) fn scatter(slices: &[SharedSlice<'_>], bytes: &[u8]) {
    let mut at = 0;
    for slice in slices {
        let length = slice.length().min(bytes.len() - at);
        slice.write(&bytes[at..at + length]);
        at += length;
    }
}
