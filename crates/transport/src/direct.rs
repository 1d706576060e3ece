//! One-sided operations that run in the initiator: find the bytes, copy, done. Everything that is in doubt is left to
//! the target, which judges it by the same gate; so this path never refuses, it only declines.

use std::io;
use std::sync::Arc;

use nonic_memory::{Access, AddressRange, Key, KeyUse, OperationGuard, SharedSlice, Translation, resolve};
use nonic_queue::{QpNumber, QpType};
use nonic_sys::SharedMapping;

use crate::kernel_copy;
use crate::link::{Link, PeerFile};
use crate::party::Tier;
use crate::segment::SlotPlace;

/// What an operation wants of the peer's memory.
#[derive(Clone, Copy, Debug)]
pub struct DirectRequest {
    /// The queue pair that asks.
    pub source: QpNumber,
    /// The service it expects of its peer.
    pub transport: QpType,
    /// Where the peer's queue pair publishes itself.
    pub target: SlotPlace,
    /// The remote key.
    pub key: Key,
    /// The bytes.
    pub range: AddressRange,
    /// The right that is needed.
    pub want: Access,
}

/// The peer's bytes, held so that revocation waits.
#[derive(Debug)]
pub struct DirectAccess<'a> {
    guard: OperationGuard<'a>,
    link: &'a Link,
    target: Target<'a>,
}

#[derive(Debug)]
enum Target<'a> {
    /// In an arena of the peer, mapped as long as the link.
    Arena(SharedSlice<'a>),
    /// In a file of the peer.
    File { mapping: Arc<SharedMapping>, offset: usize, length: usize },
    /// In this process: a loopback link.
    Own { place: nonic_memory::Place, length: u64 },
    /// Reached by the kernel.
    Kernel { address: usize },
}

impl Link {
    /// The peer's bytes, if the operation is allowed beyond doubt and they can be reached from here.
    pub fn direct(&self, request: &DirectRequest) -> Option<DirectAccess<'_>> {
        let (view, keys) = (self.view()?, self.keys()?);
        if self.is_dead() {
            return None;
        }
        let guard = self.own_operations.enter(view.segment.light_fences());
        let slot = view.segment.slot(request.target)?;
        let allowed = slot.peer == request.source
            && slot.transport == request.transport
            && slot.access.contains(request.want)
            && (slot.answers_reads || request.want == Access::REMOTE_WRITE);
        if !allowed {
            return None;
        }
        let place =
            resolve(keys, slot.zone, request.key, KeyUse::Remote, request.range, request.want).ok()?;
        let length = request.range.length;
        let target = if self.is_loopback() && self.party().tier == Tier::Mapped {
            Target::Own { place, length }
        } else {
            self.mapped(&place, length).or_else(|| self.by_kernel(&place))?
        };
        Some(DirectAccess { guard, link: self, target })
    }

    fn mapped(&self, place: &nonic_memory::Place, length: u64) -> Option<Target<'_>> {
        if self.party().tier < Tier::Mapped {
            return None;
        }
        match place.translation {
            Translation::Plain { .. } => None,
            Translation::Device { device, offset } => {
                let arena = self.view()?.arenas.get(device as usize)?;
                let start = usize::try_from(offset.checked_add(place.offset)?).ok()?;
                SharedSlice::of_mapping(arena, start, usize::try_from(length).ok()?).map(Target::Arena)
            }
            Translation::SharedFile { file, offset, .. } => {
                let mapping = self.peer_file(file)?;
                let (offset, length) =
                    (usize::try_from(offset.checked_add(place.offset)?).ok()?, length as usize);
                SharedSlice::of_mapping(&mapping, offset, length)?;
                Some(Target::File { mapping, offset, length })
            }
        }
    }

    /// A file of the peer; asks for it the first time and does without until it comes.
    fn peer_file(&self, file: u32) -> Option<Arc<SharedMapping>> {
        let mut files = self.lock_files();
        match files.get(&file) {
            Some(PeerFile::Mapped(mapping)) => Some(Arc::clone(mapping)),
            Some(PeerFile::Asked | PeerFile::Refused) => None,
            None => {
                files.insert(file, PeerFile::Asked);
                drop(files);
                self.ask_file(file);
                None
            }
        }
    }

    fn by_kernel(&self, place: &nonic_memory::Place) -> Option<Target<'_>> {
        let (Translation::Plain { address } | Translation::SharedFile { address, .. }) = place.translation
        else {
            return None;
        };
        let address = address.checked_add(usize::try_from(place.offset).ok()?)?;
        self.can_reach().then_some(Target::Kernel { address })
    }
}

impl DirectAccess<'_> {
    /// The bytes, if they are mapped here.
    fn slice(&self) -> Option<SharedSlice<'_>> {
        match &self.target {
            Target::Arena(slice) => Some(*slice),
            Target::File { mapping, offset, length } => SharedSlice::of_mapping(mapping, *offset, *length),
            Target::Own { place, length } => self.link.party().memory.bytes(&self.guard, place, *length),
            Target::Kernel { .. } => None,
        }
    }

    /// Writes `local` slices there, one after the other. The last byte comes last.
    pub fn write(&self, local: &[SharedSlice<'_>]) -> io::Result<()> {
        if let Target::Kernel { address } = self.target {
            return kernel_copy::write(self.link.credentials().pid, local, address);
        }
        let target = self.slice().ok_or(io::ErrorKind::NotFound)?;
        let mut at = 0;
        for piece in local {
            target.part(at, piece.length()).copy_from(*piece);
            at += piece.length();
        }
        Ok(())
    }

    /// Reads from there into `local` slices, one after the other.
    pub fn read(&self, local: &[SharedSlice<'_>]) -> io::Result<()> {
        if let Target::Kernel { address } = self.target {
            return kernel_copy::read(self.link.credentials().pid, local, address);
        }
        let source = self.slice().ok_or(io::ErrorKind::NotFound)?;
        let mut at = 0;
        for piece in local {
            piece.copy_near_from(source.part(at, piece.length()));
            at += piece.length();
        }
        Ok(())
    }

    /// The bytes as an aligned word for an atomic, if they are mapped here.
    pub fn atomic_word(&self) -> Option<SharedSlice<'_>> {
        let slice = self.slice()?;
        (slice.length() == 8 && slice.address().is_multiple_of(8)).then_some(slice)
    }
}

/// Takes the bytes of a send from the sender's memory: `remote` pieces, one after the other, into `local` ones.
pub fn pull(link: &Link, remote: &[(u64, u64)], local: &[SharedSlice<'_>]) -> io::Result<()> {
    let mut slices = local.iter().copied();
    let mut current = SharedSlice::EMPTY;
    for &(address, length) in remote {
        let (mut address, mut left) = (address as usize, length as usize);
        while left > 0 {
            if current.is_empty() {
                current = slices.next().ok_or(io::ErrorKind::InvalidInput)?;
                continue;
            }
            let count = left.min(current.length());
            kernel_copy::read(link.credentials().pid, &[current.part(0, count)], address)?;
            current = current.part(count, current.length() - count);
            (address, left) = (address + count, left - count);
        }
    }
    Ok(())
}
