//! Remote reads and writes.

use core::ffi::{c_int, c_void};

use nonic_scif::{Descriptor, RmaFlags, ScifError};

use super::known;
use crate::calls::Offset;
use crate::flags;
use crate::guard::status;

pub(crate) unsafe extern "C" fn scif_readfrom(
    epd: c_int,
    loffset: Offset,
    len: usize,
    roffset: Offset,
    rma_flags: c_int,
) -> c_int {
    copy(epd, rma_flags, |descriptor, how| descriptor.read_from(loffset, len, roffset, how))
}

pub(crate) unsafe extern "C" fn scif_writeto(
    epd: c_int,
    loffset: Offset,
    len: usize,
    roffset: Offset,
    rma_flags: c_int,
) -> c_int {
    copy(epd, rma_flags, |descriptor, how| descriptor.write_to(loffset, len, roffset, how))
}

pub(crate) unsafe extern "C" fn scif_vreadfrom(
    epd: c_int,
    addr: *mut c_void,
    len: usize,
    roffset: Offset,
    rma_flags: c_int,
) -> c_int {
    copy(epd, rma_flags, |descriptor, how| descriptor.read_into(addr.addr(), len, roffset, how))
}

pub(crate) unsafe extern "C" fn scif_vwriteto(
    epd: c_int,
    addr: *mut c_void,
    len: usize,
    roffset: Offset,
    rma_flags: c_int,
) -> c_int {
    copy(epd, rma_flags, |descriptor, how| descriptor.write_out(addr.addr(), len, roffset, how))
}

/// A copy, by the method of the endpoint that `start` calls.
#[inline]
fn copy(
    epd: c_int,
    rma_flags: c_int,
    start: impl FnOnce(Descriptor, RmaFlags) -> Result<(), ScifError>,
) -> c_int {
    status(|| {
        let (descriptor, how) = known(epd, flags::rma(rma_flags))?;
        Ok(start(descriptor, how)?)
    })
}
