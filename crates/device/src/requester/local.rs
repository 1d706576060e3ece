//! The local bytes of a request, and arithmetic on slices.

use nonic_memory::{Access, AccessError, AddressRange, KeyUse, OwnOperation, ShadowBytes, SharedSlice};
use nonic_protocol::{SendQueue, Slot};

use super::Slices;
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

/// Bytes that came and go to their place.
pub(crate) trait Source: Copy {
    /// How many.
    fn length(self) -> usize;
    /// Fills `place` with those from `at` on.
    fn copy_part(self, at: usize, place: &SharedSlice<'_>);
    /// Writes all of them to a shadow.
    fn write_to(self, shadow: &ShadowBytes<'_>, at: usize);
}

impl Source for SharedSlice<'_> {
    #[inline]
    fn length(self) -> usize {
        SharedSlice::length(&self)
    }

    #[inline]
    fn copy_part(self, at: usize, place: &SharedSlice<'_>) {
        place.copy_near_from(self.part(at, place.length()));
    }

    fn write_to(self, shadow: &ShadowBytes<'_>, at: usize) {
        shadow.write(at, self);
    }
}

impl Source for &[u8] {
    fn length(self) -> usize {
        self.len()
    }

    fn copy_part(self, at: usize, place: &SharedSlice<'_>) {
        place.write(&self[at..at + place.length()]);
    }

    fn write_to(self, shadow: &ShadowBytes<'_>, at: usize) {
        shadow.write(at, SharedSlice::of_private(&mut self.to_vec()));
    }
}

/// The bytes of slices of which some are paged, in one buffer, so that nobody is sent what is not there; `None` if it is not, which
/// the operation remembers.
#[cold]
pub(crate) fn gathered(slices: &[SharedSlice<'_>]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; slices.iter().map(SharedSlice::length).sum()];
    let mut rest = &mut bytes[..];
    for slice in slices {
        let (first, others) = rest.split_at_mut(slice.length());
        if !slice.try_read(first) {
            return None;
        }
        rest = others;
    }
    Some(bytes)
}

/// `count` bytes from `offset` of slices that stand one after the other.
pub(crate) fn cut<'a>(slices: &[SharedSlice<'a>], mut offset: usize, mut count: usize) -> Slices<'a> {
    let mut part = Slices::new();
    for slice in slices {
        if count == 0 {
            break;
        }
        if offset >= slice.length() {
            offset -= slice.length();
            continue;
        }
        let length = count.min(slice.length() - offset);
        part.push(slice.part(offset, length));
        (offset, count) = (0, count - length);
    }
    part
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_slices_finds_the_right_bytes() {
        let (mut one, mut two, mut three) = (*b"abc", *b"", *b"defgh");
        let slices = [
            SharedSlice::of_private(&mut one),
            SharedSlice::of_private(&mut two),
            SharedSlice::of_private(&mut three),
        ];
        for offset in 0..=8 {
            for count in 0..=8 - offset {
                let mut seen = Vec::new();
                for slice in cut(&slices, offset, count) {
                    let mut bytes = vec![0; slice.length()];
                    slice.read(&mut bytes);
                    seen.extend(bytes);
                }
                assert_eq!(seen, &b"abcdefgh"[offset..offset + count]);
            }
        }
    }
}
