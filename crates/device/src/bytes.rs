//! Bytes on their way into memory or out of it.

use arrayvec::ArrayVec;
use nonic_memory::{ShadowBytes, SharedSlice};

use crate::limits::PIECES_MAX;

/// The bytes of a request, one slice a piece.
pub(crate) type Slices<'a> = ArrayVec<SharedSlice<'a>, PIECES_MAX>;

/// Bytes that came and go to their place.
pub(crate) trait Source: Copy {
    /// How many.
    fn length(self) -> usize;
    /// Fills `place` with those from `at` on.
    fn copy_part(self, at: usize, place: &SharedSlice<'_>);
    /// Writes all of them to a shadow.
    fn write_to(self, shadow: &ShadowBytes<'_>, at: usize);
    /// A copy of all of them.
    fn to_bytes(self) -> Box<[u8]>;
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

    fn to_bytes(self) -> Box<[u8]> {
        let mut bytes = vec![0; self.length()];
        self.read(&mut bytes);
        bytes.into()
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

    fn to_bytes(self) -> Box<[u8]> {
        self.into()
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
