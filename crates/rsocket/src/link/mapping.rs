//! Memory of the program that the peer may write to directly (`riomap`).

use std::collections::VecDeque;
use std::sync::Arc;

use nonic_device::{Access, ProgramAddress, Region, RegionMemory, RegionRequest};

use super::Link;
use crate::protocol::{Mapping, Target};
use crate::{Error, Result};

/// The mappings that this side made.
#[derive(Debug, Default)]
pub(crate) struct OwnMappings {
    /// Entries in the peer's table.
    room: u32,
    made: Vec<OwnMapping>,
    /// Those that the peer was not told of, and their places in its table.
    news: VecDeque<(u32, Mapping)>,
}

#[derive(Debug)]
struct OwnMapping {
    region: Arc<Region>,
    address: usize,
    length: usize,
    /// Its place in the peer's table.
    index: Option<u32>,
}

impl OwnMappings {
    pub(super) fn set_room(&mut self, room: u32) {
        self.room = room;
    }

    /// Whether the peer is to be told of some.
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The first that the peer is to be told of.
    pub(super) fn news(&self) -> Option<(u32, Mapping)> {
        self.news.front().copied()
    }

    /// It was told.
    pub(super) fn told(&mut self) {
        self.news.pop_front();
    }

    fn free_index(&self) -> Option<u32> {
        (0..self.room).find(|index| self.made.iter().all(|mapping| mapping.index != Some(*index)))
    }
}

impl Link {
    /// Maps memory of the program. One that may be written to is known to the peer by `offset`.
    pub(crate) fn map(
        &mut self,
        address: ProgramAddress,
        length: usize,
        writable: bool,
        offset: u64,
    ) -> Result<()> {
        let index = match writable {
            true => Some(self.own_mappings.free_index().ok_or(Error::new(libc::ENOMEM))?),
            false => None,
        };
        let count = u32::try_from(length).map_err(|_| Error::new(libc::EINVAL))?;
        let access = if writable { Access::LOCAL_WRITE | Access::REMOTE_WRITE } else { Access::LOCAL_WRITE };
        let memory = RegionMemory::Program { address, length };
        let base = address.get() as u64;
        let region = self.zone.register(RegionRequest { memory, base, access })?;
        if let Some(index) = index {
            let target = Target { address: base, key: region.remote_key().0, length: count };
            self.own_mappings.news.push_back((index, Mapping { offset, target }));
        }
        let address = address.get();
        self.own_mappings.made.push(OwnMapping { region, address, length, index });
        Ok(())
    }

    /// Ends a mapping, of exactly this memory. The peer is not told; its writes fail from now on.
    pub(crate) fn unmap(&mut self, address: usize, length: usize) -> Result<()> {
        let OwnMappings { made, news, .. } = &mut self.own_mappings;
        let is_it = |mapping: &OwnMapping| mapping.address == address && mapping.length == length;
        let place = made.iter().position(is_it).ok_or(Error::new(libc::EINVAL))?;
        let mapping = made.swap_remove(place);
        news.retain(|(index, _)| Some(*index) != mapping.index);
        // No window is ever bound to it.
        let _ = mapping.region.deregister();
        Ok(())
    }
}
