//! Remote reads and writes.

use core::ffi::{c_int, c_void};

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
    status(|| {
        let (descriptor, how) = known(epd, flags::rma(rma_flags))?;
        Ok(descriptor.read_from(loffset, len, roffset, how)?)
    })
}

pub(crate) unsafe extern "C" fn scif_writeto(
    epd: c_int,
    loffset: Offset,
    len: usize,
    roffset: Offset,
    rma_flags: c_int,
) -> c_int {
    status(|| {
        let (descriptor, how) = known(epd, flags::rma(rma_flags))?;
        Ok(descriptor.write_to(loffset, len, roffset, how)?)
    })
}

pub(crate) unsafe extern "C" fn scif_vreadfrom(
    epd: c_int,
    addr: *mut c_void,
    len: usize,
    roffset: Offset,
    rma_flags: c_int,
) -> c_int {
    status(|| {
        let (descriptor, how) = known(epd, flags::rma(rma_flags))?;
        Ok(descriptor.read_into(addr.addr(), len, roffset, how)?)
    })
}

pub(crate) unsafe extern "C" fn scif_vwriteto(
    epd: c_int,
    addr: *mut c_void,
    len: usize,
    roffset: Offset,
    rma_flags: c_int,
) -> c_int {
    status(|| {
        let (descriptor, how) = known(epd, flags::rma(rma_flags))?;
        Ok(descriptor.write_out(addr.addr(), len, roffset, how)?)
    })
}
