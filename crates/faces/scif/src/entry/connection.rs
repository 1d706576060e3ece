//! Endpoints and what leads to a connection. The first calls of any program are among these: they have the library's messages
//! said.

use core::ffi::c_int;

use nonic_scif::{Descriptor, Endpoint, PortId, log_to_standard_error};

use super::known;
use crate::calls::ScifPortId;
use crate::errno::Errno;
use crate::flags;
use crate::guard::{answer, status};
use crate::program_words::{Room, fetch};

pub(crate) unsafe extern "C" fn scif_open() -> c_int {
    answer(|| {
        log_to_standard_error();
        Ok(Endpoint::open()?.into_number())
    })
}

pub(crate) unsafe extern "C" fn scif_close(epd: c_int) -> c_int {
    status(|| Ok(Descriptor::from_number(epd).close()?))
}

pub(crate) unsafe extern "C" fn scif_bind(epd: c_int, pn: u16) -> c_int {
    answer(|| Ok(Descriptor::from_number(epd).bind(pn)?.into()))
}

pub(crate) unsafe extern "C" fn scif_listen(epd: c_int, backlog: c_int) -> c_int {
    status(|| {
        // Whoever is started with an endpoint begins here, or accepts.
        log_to_standard_error();
        Ok(Descriptor::from_number(epd).listen(backlog)?)
    })
}

pub(crate) unsafe extern "C" fn scif_connect(epd: c_int, dst: *mut ScifPortId) -> c_int {
    answer(|| {
        let target = if dst.is_null() { Err(Errno::EINVAL) } else { fetch(dst) };
        let (descriptor, ScifPortId { node, port }) = known(epd, target)?;
        Ok(descriptor.connect(PortId { node, port })?.into())
    })
}

pub(crate) unsafe extern "C" fn scif_accept(
    epd: c_int,
    peer: *mut ScifPortId,
    newepd: *mut c_int,
    flags: c_int,
) -> c_int {
    status(|| {
        log_to_standard_error();
        let words = || {
            let wait = flags::accept(flags)?;
            if peer.is_null() || newepd.is_null() {
                return Err(Errno::EINVAL);
            }
            // Before a request is taken that could not be handed over.
            Ok((wait, Room::at(peer, 1)?, Room::at(newepd, 1)?))
        };
        let (descriptor, (wait, peer, newepd)) = known(epd, words())?;
        let (endpoint, PortId { node, port }) = descriptor.accept(wait)?;
        peer.store(&[ScifPortId { node, port }]);
        newepd.store(&[endpoint.into_number()]);
        Ok(())
    })
}
