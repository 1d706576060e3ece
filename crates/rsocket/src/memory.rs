//! Memory of a socket's own that peers may write to: never behind a Rust reference.

#![allow(unsafe_code)]

use std::sync::Arc;

use nonic_device::{Access, ProgramAddress, Region, RegionMemory, RegionRequest, ScatterGather, Zone};
use nonic_memory::SharedSlice;
use nonic_sys::{PAGE, map_private_pages, unmap_range};

use crate::Result;

/// Private pages, zeros at first.
#[derive(Debug)]
struct Pages {
    start: usize,
    length: usize,
}

impl Pages {
    fn map(length: usize) -> Result<Self> {
        // A page that it shared with other memory could not be shown to peers.
        let length = length.next_multiple_of(PAGE);
        Ok(Self { start: map_private_pages(length)?, length })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and given out only for as long as this is borrowed.
        let unmapped = unsafe { unmap_range(self.start, self.length) };
        if let Err(error) = unmapped {
            tracing::debug!(%error, "a socket's memory stays");
        }
    }
}

/// Memory that is registered as long as it is there.
#[derive(Debug)]
pub(crate) struct Buffer {
    // Deregistered when it is dropped, which is before the pages are.
    region: Arc<Region>,
    pages: Pages,
    length: usize,
}

impl Buffer {
    /// Of `length` bytes, 1 or more.
    pub(crate) fn new(zone: &Arc<Zone>, length: usize, access: Access) -> Result<Self> {
        let pages = Pages::map(length)?;
        // SAFETY: what stands there is copied in and out as shared bytes, no reference leads there; the region ends before
        // the pages do, for they belong together and are dropped in this order.
        let address = unsafe { ProgramAddress::new(pages.start) };
        let memory = RegionMemory::Program { address, length };
        let region = zone.register(RegionRequest { memory, base: pages.start as u64, access })?;
        Ok(Self { region, pages, length })
    }

    /// All of its bytes.
    pub(crate) fn bytes(&self) -> SharedSlice<'_> {
        // SAFETY: the pages are mapped as long as this is borrowed, for reading and writing.
        unsafe { SharedSlice::from_raw(self.pages.start as *mut u8, self.length) }
    }

    /// Address of the first byte, as peers name it.
    pub(crate) fn address(&self) -> u64 {
        self.pages.start as u64
    }

    /// For peers.
    pub(crate) fn remote_key(&self) -> u32 {
        self.region.remote_key().0
    }

    /// A part, for a request.
    ///
    /// # Panics
    /// If it is not inside.
    pub(crate) fn piece(&self, offset: u32, length: u32) -> ScatterGather {
        assert!(offset as usize + length as usize <= self.length, "a piece outside of its buffer");
        ScatterGather { address: self.address() + u64::from(offset), length, key: self.region.local_key() }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _ = self.region.deregister();
    }
}
