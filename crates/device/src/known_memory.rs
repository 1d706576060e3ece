//! What is known of the program's memory: which regions hold it, and whether the program shares it.

use nonic_memory::{Access, AddressRange, Key, MemoryFile, ZoneId};
use nonic_sys::{Backing, find_area, is_system_v, namespace_number};

use crate::context::Context;
use crate::error::RegisterError;

/// A place in a file that the program maps shared; the same in every process that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPlace {
    /// The file.
    pub file: MemoryFile,
    /// Offset of the first byte.
    pub offset: u64,
}

impl Context {
    /// Zone and rights of the living region of this process with the local key `key`, if the whole range is inside it. Takes no
    /// lock; holds for this moment only.
    #[inline]
    pub fn registered(&self, key: Key, range: AddressRange) -> Option<(ZoneId, Access)> {
        self.engine().party().segment.keys().view().region_around(key, range)
    }

    /// Where the program shares this memory: `None` if it does not, or not as a whole. Memory that was adopted is private to
    /// the program, though it looks shared.
    pub fn shared_place(&self, address: usize, length: usize) -> Result<Option<SharedPlace>, RegisterError> {
        let end = address.checked_add(length).ok_or(RegisterError::Wraps)?;
        let party = self.engine().party();
        let mut place: Option<SharedPlace> = None;
        let mut segments = 0;
        let mut at = address;
        while at < end {
            let found = find_area(at).ok().flatten().filter(|area| area.readable);
            let area = found.ok_or(RegisterError::NotMapped { address: at })?;
            let Backing::SharedFile { device, inode, offset } = area.backing else { return Ok(None) };
            if party.is_adopted(&area.backing) {
                return Ok(None);
            }
            if place.is_none() {
                segments = namespace_of_segments(at)?;
            }
            let file = MemoryFile { device, inode, segments };
            let here = SharedPlace { file, offset: offset + (at - area.start) as u64 };
            let first = *place.get_or_insert(here);
            if here.file != first.file || here.offset != first.offset + (at - address) as u64 {
                return Ok(None);
            }
            at = area.end;
        }
        Ok(place)
    }
}

/// Where System V numbered the segment at an address; 0 if there is none, but a file.
fn namespace_of_segments(address: usize) -> Result<u64, RegisterError> {
    let told = is_system_v(address).and_then(|is| if is { namespace_number("ipc") } else { Ok(0) });
    told.map_err(|_| RegisterError::NotMapped { address })
}
