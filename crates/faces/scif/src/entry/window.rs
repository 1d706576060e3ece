//! Registered memory, and mappings of the peer's.

use core::ffi::{c_int, c_void};
use core::ptr;

use nonic_scif::Descriptor;

use super::known;
use crate::calls::Offset;
use crate::flags;
use crate::guard::{answer, status};

pub(crate) unsafe extern "C" fn scif_register(
    epd: c_int,
    addr: *mut c_void,
    len: usize,
    offset: Offset,
    prot_flags: c_int,
    map_flags: c_int,
) -> Offset {
    answer(|| {
        let words = || Ok((flags::fixed(map_flags)?, flags::protection(prot_flags)?));
        let (descriptor, (fixed, protection)) = known(epd, words())?;
        Ok(descriptor.register(addr.addr(), len, offset, protection, fixed)?)
    })
}

pub(crate) unsafe extern "C" fn scif_unregister(epd: c_int, offset: Offset, len: usize) -> c_int {
    status(|| Ok(Descriptor::from_number(epd).unregister(offset, len)?))
}

pub(crate) unsafe extern "C" fn scif_mmap(
    addr: *mut c_void,
    len: usize,
    prot_flags: c_int,
    map_flags: c_int,
    epd: c_int,
    offset: Offset,
) -> *mut c_void {
    answer(|| {
        let words = || Ok((flags::fixed(map_flags)?, flags::protection(prot_flags)?));
        let (descriptor, (fixed, protection)) = known(epd, words())?;
        let address = descriptor.map(addr.addr(), len, protection, fixed, offset)?;
        Ok(ptr::with_exposed_provenance_mut(address))
    })
}

pub(crate) unsafe extern "C" fn scif_munmap(addr: *mut c_void, len: usize) -> c_int {
    status(|| Ok(nonic_scif::unmap(addr.addr(), len)?))
}
