//! Memory that is too much for a copy. In a process of its own: it needs most addresses there are.

mod common;

use common::open;
use nonic_dat::{DatError, Description, LocalRegion, Privileges, ProtectionZone, Resource, Subtype};

/// LMR-16: peers see a copy of memory that is not coherent, and there is no room for two of this length.
#[test]
fn memory_of_which_there_can_be_no_copy_is_refused_for_want_of_memory() {
    const LENGTH: usize = 70 << 40;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, which takes nothing before it is touched.
    let huge = unsafe { libc::mmap(std::ptr::null_mut(), LENGTH, libc::PROT_READ, flags, -1, 0) };
    assert_ne!(huge, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    let adapter = open(false);
    let zone = ProtectionZone::create(&adapter).unwrap();
    let create = |length: usize| {
        let description = Description::Virtual { address: common::program(huge as u64), strong_order: false };
        LocalRegion::create(&adapter, description, length as u64, &zone, Privileges::REMOTE_READ)
    };
    let no_memory = DatError::resources(Subtype::Resource(Resource::Memory));
    assert_eq!(create(LENGTH).map(drop), Err(no_memory));
    // Nothing holds the zone, and what can be copied is.
    zone.free().unwrap();
    let zone = ProtectionZone::create(&adapter).unwrap();
    let description = Description::Virtual { address: common::program(huge as u64), strong_order: false };
    let small = LocalRegion::create(&adapter, description, 64, &zone, Privileges::REMOTE_READ).unwrap();
    small.free().unwrap();
    // SAFETY: mapped above; no region is on it.
    unsafe { libc::munmap(huge, LENGTH) };
}
