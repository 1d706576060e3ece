//! Fences.

use core::ffi::c_int;

use nonic_scif::Descriptor;

use super::known;
use crate::calls::Offset;
use crate::flags;
use crate::guard::status;
use crate::program_words::Room;

pub(crate) unsafe extern "C" fn scif_fence_mark(epd: c_int, flags: c_int, mark: *mut c_int) -> c_int {
    status(|| {
        let (descriptor, initiator) = known(epd, flags::initiator(flags))?;
        let value = descriptor.fence_mark(initiator)?;
        Room::at(mark, 1)?.store(&[value]);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn scif_fence_wait(epd: c_int, mark: c_int) -> c_int {
    status(|| Ok(Descriptor::from_number(epd).fence_wait(mark)?))
}

pub(crate) unsafe extern "C" fn scif_fence_signal(
    epd: c_int,
    loff: Offset,
    lval: u64,
    roff: Offset,
    rval: u64,
    flags: c_int,
) -> c_int {
    status(|| {
        let (descriptor, (initiator, local, remote)) = known(epd, flags::signal(flags))?;
        let (local, remote) = (local.then_some((loff, lval)), remote.then_some((roff, rval)));
        Ok(descriptor.fence_signal(local, remote, initiator)?)
    })
}
