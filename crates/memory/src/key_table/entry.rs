//! What an entry of the key table says.

use crate::{Access, AdoptedPages, PlainReason, RegionAddress, ZoneId};

/// Where a region's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// Private memory of the owner, from this address of the owner's address space.
    Plain {
        /// First byte.
        address: usize,
    },
    /// Private memory of which some pages were moved into the owner's file of adopted pages.
    Adopted {
        /// First byte.
        address: usize,
        /// The pages in the file. The region may begin before them and end after them.
        pages: AdoptedPages,
    },
    /// Device memory, from this offset of the device's arena.
    Device {
        /// Which device.
        device: u32,
        /// Offset in bytes.
        offset: u64,
    },
    /// Memory the program shares already: a file of the owner's list, and where the owner has it.
    SharedFile {
        /// Number of the file in the owner's list.
        file: u32,
        /// Offset of the first byte in the file.
        offset: u64,
        /// First byte in the owner's address space.
        address: usize,
    },
    /// A shadow of the owner's: what peers see of memory that is not coherent. Only the owner goes there, on their behalf.
    Shadow {
        /// Number of the shadow in the owner's list.
        shadow: u32,
        /// Offset in bytes.
        offset: u64,
    },
    /// Private memory of the owner, from this address on, which is looked for when it is used (on-demand paging). Only the owner
    /// goes there.
    OnDemand {
        /// First byte.
        address: usize,
    },
    /// No memory: what is written vanishes, and what is read is zero.
    Null,
}

impl Translation {
    /// The translation of what begins `offset` bytes further on, inside the same region.
    pub fn moved_by(self, by: u64) -> Self {
        match self {
            Self::Plain { address } => Self::Plain { address: address + by as usize },
            Self::Adopted { address, pages } => Self::Adopted { address: address + by as usize, pages },
            Self::Device { device, offset } => Self::Device { device, offset: offset + by },
            Self::SharedFile { file, offset, address } => {
                Self::SharedFile { file, offset: offset + by, address: address + by as usize }
            }
            Self::Shadow { shadow, offset } => Self::Shadow { shadow, offset: offset + by },
            Self::OnDemand { address } => Self::OnDemand { address: address.wrapping_add(by as usize) },
            Self::Null => Self::Null,
        }
    }
}

/// What protects and translates one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The zone that may use it.
    pub zone: ZoneId,
    /// Rights.
    pub access: Access,
    /// Address of the first byte as requests name it.
    pub base: RegionAddress,
    /// Length in bytes.
    pub length: u64,
    /// Where the bytes are.
    pub translation: Translation,
    /// Why not all of it is adopted.
    pub reason: PlainReason,
    /// Tag of the local key.
    pub local_tag: u8,
    /// Tag of the remote key.
    pub remote_tag: u8,
}
