//! The ways to a peer's bytes once the gate has said where they are: mapped here, or through the kernel.

use std::io;
use std::sync::Arc;

use nonic_memory::{AdoptedPages, OwnOperation, Place, SharedSlice, Translation};
use nonic_sys::{PeerMemory, SharedMapping};

use super::kernel_copy::{self, Way};
use super::{ControlPath, PeerView, Reach};
use crate::tier::Tier;

/// Where a peer's bytes can be reached from here.
#[derive(Debug)]
pub(super) enum Target<'a> {
    /// In an arena of the peer or in its adopted pages, mapped as long as the link.
    Mapped(SharedSlice<'a>),
    /// In a file of the peer.
    File { mapping: Arc<SharedMapping>, offset: usize, length: usize },
    /// In this process: a loopback link.
    Own(Place),
    /// Reached by the kernel.
    Kernel { peer: &'a PeerMemory, address: usize },
    /// Adopted pages with some bytes before them or after them that the kernel reaches.
    Mixed { peer: &'a PeerMemory, address: usize, head: usize, pages: SharedSlice<'a> },
}

impl Reach {
    /// The way to bytes of the peer, 1 or more, that are to be copied `way`; `None` if there is none. The caller holds an
    /// operation slot.
    #[inline]
    pub(super) fn target(&self, control: &impl ControlPath, way: Way, place: &Place) -> Option<Target<'_>> {
        // What is paged, only its owner looks for: others would pass what the program may not do itself.
        if matches!(place.translation(), Translation::OnDemand { .. } | Translation::Null) {
            return None;
        }
        if self.party.tier < Tier::Mapped {
            return self.by_kernel(way, place);
        }
        if self.is_loopback {
            // Who writes to a shadow notes it in its book.
            let is_shadow = matches!(place.translation(), Translation::Shadow { .. });
            return (!is_shadow).then_some(Target::Own(*place));
        }
        self.mapped(control, way, place).or_else(|| self.by_kernel(way, place))
    }

    /// The bytes, if all of them are mapped here by now.
    #[inline(always)]
    pub(super) fn mapped_now<'a>(
        &'a self,
        view: &'a PeerView,
        own: &'a OwnOperation<'_>,
        place: &Place,
    ) -> Option<SharedSlice<'a>> {
        if self.party.tier < Tier::Mapped {
            return None;
        }
        if self.is_loopback {
            debug_assert!(std::ptr::eq(own.memory(), &self.party.memory), "an operation on another memory");
            return own.standing_bytes(place);
        }
        mapped_slice(view, place)
    }

    #[inline]
    fn mapped(&self, control: &impl ControlPath, way: Way, place: &Place) -> Option<Target<'_>> {
        let length = usize::try_from(place.length()).ok()?;
        match place.translation() {
            Translation::Plain { .. }
            | Translation::Shadow { .. }
            | Translation::OnDemand { .. }
            | Translation::Null => None,
            Translation::Adopted { address, pages } => {
                let address = address.checked_add(usize::try_from(place.offset()).ok()?)?;
                if !pages.contain(address, length) {
                    return self.mixed(way, address, length, &pages);
                }
                mapped_slice(self.view()?, place).map(Target::Mapped)
            }
            Translation::Device { .. } => mapped_slice(self.view()?, place).map(Target::Mapped),
            Translation::SharedFile { file, offset, .. } => {
                let mapping = self.files.find(file, || control.ask_file(file))?;
                let offset = usize::try_from(offset.checked_add(place.offset())?).ok()?;
                SharedSlice::of_mapping(&mapping, offset, length)?;
                Some(Target::File { mapping, offset, length })
            }
        }
    }

    /// Bytes of which some are adopted and some are not. All or nothing: what the kernel does not reach is the owner's.
    fn mixed(&self, way: Way, address: usize, length: usize, pages: &AdoptedPages) -> Option<Target<'_>> {
        let (start, end) = (address.max(pages.start), address.checked_add(length)?.min(pages.end));
        if start >= end {
            return None;
        }
        let peer = self.peer_memory(way)?;
        let apertures = self.view()?.adopted.as_ref()?;
        let pages = apertures.slice(pages.file_offset(start), end - start)?;
        Some(Target::Mixed { peer, address, head: start - address, pages })
    }

    fn by_kernel(&self, way: Way, place: &Place) -> Option<Target<'_>> {
        let (Translation::Plain { address }
        | Translation::Adopted { address, .. }
        | Translation::SharedFile { address, .. }) = place.translation()
        else {
            return None;
        };
        let address = address.checked_add(usize::try_from(place.offset()).ok()?)?;
        Some(Target::Kernel { peer: self.peer_memory(way)?, address })
    }

    /// The peer's memory, if the kernel copies that way.
    fn peer_memory(&self, way: Way) -> Option<&PeerMemory> {
        let peer = self.peer_memory.get()?;
        (way == Way::In || peer.is_writable()).then_some(peer)
    }
}

/// Bytes of a peer that lie in its adopted pages or an arena, if all of them do and are mapped here.
#[inline(always)]
fn mapped_slice<'a>(view: &'a PeerView, place: &Place) -> Option<SharedSlice<'a>> {
    let length = usize::try_from(place.length()).ok()?;
    match place.translation() {
        Translation::Adopted { address, pages } => {
            let address = address.checked_add(usize::try_from(place.offset()).ok()?)?;
            if !pages.contain(address, length) {
                return None;
            }
            view.adopted.as_ref()?.slice(pages.file_offset(address), length)
        }
        Translation::Device { device, offset } => {
            let start = usize::try_from(offset.checked_add(place.offset())?).ok()?;
            SharedSlice::of_mapping(view.arenas.get(device as usize)?, start, length)
        }
        Translation::Plain { .. }
        | Translation::SharedFile { .. }
        | Translation::Shadow { .. }
        | Translation::OnDemand { .. }
        | Translation::Null => None,
    }
}

impl<'a> Target<'a> {
    /// The bytes, if all of them are mapped here. `own` is the operation in which they were found.
    #[inline]
    pub(super) fn slice<'b>(&'b self, own: &'b OwnOperation<'_>) -> Option<SharedSlice<'b>> {
        match self {
            Self::Mapped(slice) => Some(*slice),
            Self::File { mapping, offset, length } => SharedSlice::of_mapping(mapping, *offset, *length),
            Self::Own(place) => own.bytes(place),
            Self::Kernel { .. } | Self::Mixed { .. } => None,
        }
    }

    /// Copies between `local` slices, one after the other, and there, from the first byte to the last.
    #[inline]
    pub(super) fn copy(&self, way: Way, own: &OwnOperation<'_>, local: &[SharedSlice<'_>]) -> io::Result<()> {
        match self {
            Self::Kernel { peer, address } => kernel_copy::copy(way, peer, local.iter().copied(), *address),
            Self::Mixed { peer, address, head, pages } => {
                copy_mixed(way, peer, local, *address, *head, *pages)
            }
            _ => {
                let bytes = self.slice(own).ok_or(io::ErrorKind::NotFound)?;
                copy_mapped(way, bytes, local.iter().copied());
                Ok(())
            }
        }
    }
}

#[inline]
fn copy_mapped<'a>(way: Way, bytes: SharedSlice<'_>, local: impl Iterator<Item = SharedSlice<'a>>) {
    let mut at = 0;
    for piece in local {
        let part = bytes.part(at, piece.length());
        match way {
            Way::Out => part.copy_from(piece),
            Way::In => piece.copy_near_from(part),
        }
        at += piece.length();
    }
}

#[cold]
fn copy_mixed(
    way: Way,
    peer: &PeerMemory,
    local: &[SharedSlice<'_>],
    address: usize,
    head: usize,
    pages: SharedSlice<'_>,
) -> io::Result<()> {
    let tail = head + pages.length();
    kernel_copy::copy(way, peer, parts(local, 0, head), address)?;
    copy_mapped(way, pages, parts(local, head, pages.length()));
    kernel_copy::copy(way, peer, parts(local, tail, usize::MAX), address + tail)
}

/// `count` bytes, or as many as there are, from `offset` of slices that stand one after the other.
fn parts<'a>(
    slices: &[SharedSlice<'a>],
    mut offset: usize,
    mut count: usize,
) -> impl Iterator<Item = SharedSlice<'a>> {
    slices.iter().filter_map(move |slice| {
        let skipped = offset.min(slice.length());
        let length = count.min(slice.length() - skipped);
        (offset, count) = (offset - skipped, count - length);
        (length > 0).then(|| slice.part(skipped, length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_sys::Witness;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_of_slices_are_the_bytes_asked_for(
            lengths in prop::collection::vec(0usize..7, 0..6), offset in 0usize..40, count in 0usize..40
        ) {
            let mut pieces: Vec<Vec<u8>> = Vec::new();
            let mut next = 0u8;
            for length in lengths {
                pieces.push((0..length).map(|_| { next += 1; next }).collect());
            }
            let all = pieces.concat();
            let slices: Vec<_> = pieces.iter_mut().map(|piece| SharedSlice::of_private(piece)).collect();
            let mut seen = Vec::new();
            for part in parts(&slices, offset, count) {
                let mut bytes = vec![0; part.length()];
                part.read(&mut bytes);
                seen.extend(bytes);
            }
            let start = offset.min(all.len());
            prop_assert_eq!(&seen, &all[start..(start + count).min(all.len())]);
        }
    }

    /// A stand-in for a peer: this process, whose middle pages lie elsewhere.
    #[test]
    fn a_mixed_access_moves_head_pages_and_tail_in_order() {
        let witness = Witness::create().unwrap();
        let peer = PeerMemory::reach(std::process::id() as i32, witness.mark()).unwrap();
        let plain = SharedMapping::anonymous(3 * 4096).unwrap();
        let file = SharedMapping::anonymous(4096).unwrap();
        let pages = SharedSlice::of_mapping(&file, 0, 4096).unwrap();
        let (head, tail) = (100, 50);
        let address = plain.as_ptr() as usize + 4096 - head;
        let mut bytes: Vec<u8> = (0..head + 4096 + tail).map(|i| (i % 251) as u8).collect();
        let expected = bytes.clone();
        let (first, rest) = bytes.split_at_mut(37);
        let (second, third) = rest.split_at_mut(1000);
        let local = [first, second, third].map(SharedSlice::of_private);
        copy_mixed(Way::Out, &peer, &local, address, head, pages).unwrap();
        let seen = |slice: SharedSlice<'_>| {
            let mut seen = vec![0; slice.length()];
            slice.read(&mut seen);
            seen
        };
        let around = |offset, length| seen(SharedSlice::of_mapping(&plain, offset, length).unwrap());
        assert_eq!(around(4096 - head, head), expected[..head]);
        assert_eq!(seen(pages), expected[head..head + 4096]);
        assert_eq!(around(8192, tail), expected[head + 4096..]);
        // Not one byte beside it: the pages' own place is the owner's and was left alone.
        assert!(around(0, 4096 - head).iter().chain(&around(4096, 4096)).all(|byte| *byte == 0));
        assert!(around(8192 + tail, 4096 - tail).iter().all(|byte| *byte == 0));

        let mut back = vec![0; expected.len()];
        let (first, rest) = back.split_at_mut(4000);
        let local = [first, rest].map(SharedSlice::of_private);
        copy_mixed(Way::In, &peer, &local, address, head, pages).unwrap();
        assert_eq!(back, expected);
    }
}
