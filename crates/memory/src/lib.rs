//! Registered memory: zones, regions, keys, device memory, and the one gate that leads into them.

#![deny(unsafe_code)]

mod access;
mod address;
mod arena;
mod gate;
mod key;
mod key_table;
mod operation_slots;
mod own_memory;
mod shared_files;
mod shared_slice;

pub use access::Access;
pub use address::{AddressRange, RegionAddress};
pub use arena::{Arena, ArenaError};
pub use gate::{AccessError, KeyUse, Place, resolve};
pub use key::{Key, ZoneId};
pub use key_table::{Entry, KeyPair, KeyTable, KeyTableView, Translation};
pub use operation_slots::{OperationGuard, OperationSlots};
pub use own_memory::OwnMemory;
pub use shared_files::SharedFiles;
pub use shared_slice::SharedSlice;
