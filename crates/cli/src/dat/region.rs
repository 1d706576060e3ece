//! Memory: regions of this process, and parts of them for the peer.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::adapter::Adapter;
use super::library::{DatError, Handle};
use crate::verbs::Buffer;

/// `DAT_LMR_TRIPLET`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalTriplet {
    context: u32,
    address: u64,
    length: u64,
}

/// `DAT_RMR_TRIPLET`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteTriplet {
    context: u32,
    address: u64,
    length: u64,
}

/// `DAT_REGION_DESCRIPTION`: an address or a handle, and a word that only shared memory has. A union of the same size is
/// passed in the same two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RegionDescription {
    first: usize,
    second: usize,
}

const _: () = assert!(size_of::<LocalTriplet>() == 24 && size_of::<RegionDescription>() == 16);

/// `DAT_MEM_TYPE_VIRTUAL`, `DAT_MEM_TYPE_LMR`.
const VIRTUAL: i32 = 0;
const OF_REGION: i32 = 1;

/// What may be done with memory (`DAT_MEM_PRIV_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Privileges(u32);

impl Privileges {
    /// Everything here, nothing for peers.
    pub(crate) const LOCAL: Self = Self(0x11);
    /// Peers may write.
    pub(crate) const REMOTE_WRITE: Self = Self(0x20);
    /// Everything.
    pub(crate) const ALL: Self = Self(0x33);
    /// The bits.
    pub(super) fn bits(self) -> u32 {
        self.0
    }
}

/// What a peer is told about memory.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Remote {
    /// The RMR context.
    pub(crate) context: u32,
    /// The first byte.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) length: u64,
}

impl Remote {
    /// A part of it.
    pub(crate) fn part(self, from: usize, length: usize) -> Self {
        Self { address: self.address + from as u64, length: length as u64, ..self }
    }

    /// As words, which travel in a message.
    pub(crate) fn words(self) -> [u64; 3] {
        [self.context.into(), self.address, self.length]
    }

    /// From such words.
    pub(crate) fn from_words([context, address, length]: [u64; 3]) -> Self {
        Self { context: context as u32, address, length }
    }

    pub(super) fn triplet(self) -> RemoteTriplet {
        RemoteTriplet { context: self.context, address: self.address, length: self.length }
    }
}

/// A registered buffer; its registration ends with this object.
pub(crate) struct Region {
    adapter: Rc<Adapter>,
    buffer: Rc<Buffer>,
    handle: Handle,
    /// Its name here, and what peers call it; 0 without remote privileges.
    contexts: (u32, u32),
}

impl Region {
    /// Registers the whole buffer.
    pub(crate) fn new(
        adapter: &Rc<Adapter>,
        buffer: Buffer,
        privileges: Privileges,
    ) -> Result<Self, DatError> {
        let description = RegionDescription { first: buffer.as_ptr().addr(), second: 0 };
        let length = buffer.len();
        Self::create(adapter, Rc::new(buffer), VIRTUAL, description, length as u64, privileges)
    }

    /// Another region on the same memory.
    pub(crate) fn share(&self, privileges: Privileges) -> Result<Self, DatError> {
        let description = RegionDescription { first: self.handle, second: 0 };
        Self::create(&self.adapter, Rc::clone(&self.buffer), OF_REGION, description, 0, privileges)
    }

    fn create(
        adapter: &Rc<Adapter>,
        buffer: Rc<Buffer>,
        kind: i32,
        description: RegionDescription,
        length: u64,
        privileges: Privileges,
    ) -> Result<Self, DatError> {
        let (mut handle, mut contexts, mut size, mut address) = (0, (0, 0), 0, 0);
        // SAFETY: the places are of the types that the call stores; the memory is the buffer's, which outlives the region.
        let answer = unsafe {
            (adapter.library.functions.dat_lmr_create)(
                adapter.handle,
                kind,
                description,
                length,
                adapter.zone,
                privileges.bits(),
                &raw mut handle,
                &raw mut contexts.0,
                &raw mut contexts.1,
                &raw mut size,
                &raw mut address,
            )
        };
        adapter.library.check("dat_lmr_create", answer)?;
        Ok(Self { adapter: Rc::clone(adapter), buffer, handle, contexts })
    }

    /// Its memory.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// What a peer is told; no context if peers may do nothing.
    pub(crate) fn remote(&self) -> Remote {
        let (address, length) = (self.buffer.as_ptr().addr() as u64, self.buffer.len() as u64);
        Remote { context: self.contexts.1, address, length }
    }

    /// Some of its bytes, for the local side of an operation.
    pub(super) fn piece(&self, from: usize, length: usize) -> LocalTriplet {
        let address = self.buffer.as_ptr().addr() as u64 + from as u64;
        LocalTriplet { context: self.contexts.0, address, length: length as u64 }
    }

    /// Brings what peers have written there into this program's view.
    pub(crate) fn sync_writes(&self, from: usize, length: usize) -> Result<(), DatError> {
        let piece = self.piece(from, length);
        let library = &self.adapter.library;
        // SAFETY: one triplet, which outlives the call.
        let answer =
            unsafe { (library.functions.dat_lmr_sync_rdma_write)(self.adapter.handle, &raw const piece, 1) };
        library.check("dat_lmr_sync_rdma_write", answer)
    }

    /// Brings what this program has stored there into the view of peers that read.
    pub(crate) fn sync_reads(&self, from: usize, length: usize) -> Result<(), DatError> {
        let piece = self.piece(from, length);
        let library = &self.adapter.library;
        // SAFETY: as above.
        let answer =
            unsafe { (library.functions.dat_lmr_sync_rdma_read)(self.adapter.handle, &raw const piece, 1) };
        library.check("dat_lmr_sync_rdma_read", answer)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's alone. A window bound to it keeps the region, until the adapter is closed.
        unsafe { (self.adapter.library.functions.dat_lmr_free)(self.handle) };
    }
}

/// A remote memory region: a way for peers to a part of a region. Freed, and with it unbound, with this object.
pub(crate) struct Window {
    pub(super) adapter: Rc<Adapter>,
    pub(super) handle: Handle,
}

impl Window {
    /// One that is bound to nothing.
    pub(crate) fn new(adapter: &Rc<Adapter>) -> Result<Self, DatError> {
        let mut handle = 0;
        // SAFETY: the place holds a handle.
        let answer = unsafe { (adapter.library.functions.dat_rmr_create)(adapter.zone, &raw mut handle) };
        adapter.library.check("dat_rmr_create", answer)?;
        Ok(Self { adapter: Rc::clone(adapter), handle })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's alone.
        unsafe { (self.adapter.library.functions.dat_rmr_free)(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_is_told_survives_a_message_and_can_be_cut() {
        let remote = Remote { context: 7, address: 0x1000, length: 4096 };
        assert_eq!(Remote::from_words(remote.words()), remote);
        assert_eq!(remote.part(16, 8), Remote { context: 7, address: 0x1010, length: 8 });
    }
}
