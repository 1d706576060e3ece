//! Registered memory: zones, regions, keys, device memory, and the one gate that leads into them.

#![deny(unsafe_code)]

mod access;
mod address;
mod key;

pub use access::Access;
pub use address::{AddressRange, RegionAddress};
pub use key::{Key, ZoneId};
