//! Registered memory: zones, regions, keys, device memory, and the one gate that leads into them.

#![deny(unsafe_code)]

mod address;
mod adopted_pages;
#[cfg(not(loom))]
mod adoption;
#[cfg(not(loom))]
mod arena;
mod crossing;
#[cfg(not(loom))]
mod flushing;
mod foreign;
mod gate;
mod key_table;
#[cfg(not(loom))]
mod ledger;
mod operation_slots;
#[cfg(not(loom))]
mod own_memory;
#[cfg(not(loom))]
mod own_shadows;
mod paging;
#[cfg(not(loom))]
mod shadow;
#[cfg(not(loom))]
mod shared_files;
mod shared_slice;

pub use address::{AddressRange, RegionAddress};
pub use adopted_pages::{AdoptedPages, LAYER_BITS, PlainReason};
#[cfg(not(loom))]
pub use adoption::{AdoptedMemory, Adopter, Adoption, AdoptionPolicy, Purpose, Shield, watch_offspring};
#[cfg(not(loom))]
pub use arena::{Arena, ArenaError};
pub use crossing::Crossing;
pub use foreign::{ForeignMemory, ForeignPlace, is_foreign};
pub use gate::{AccessError, KeyUse, Place, admit, resolve};
pub use key_table::{Entry, KeyPair, KeyTable, KeyTableView, Translation};
#[cfg(not(loom))]
pub use ledger::{Claim, Cookie, LedgerError, MemoryFile, SharedMemoryRange, claim_cookie};
pub use nonic_protocol::{Access, Key, ZoneId};
pub use operation_slots::{Inside, OperationGuard, OperationSlots, OwnSlots};
#[cfg(not(loom))]
pub use own_memory::{OwnMemory, OwnOperation};
#[cfg(not(loom))]
pub use own_shadows::ShadowBytes;
#[cfg(not(loom))]
pub use shadow::{CommonShadow, InCommon, Shadow, ShadowError, Shadows};
#[cfg(not(loom))]
pub use shared_files::SharedFiles;
pub use shared_slice::SharedSlice;
