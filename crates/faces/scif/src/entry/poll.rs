//! Waiting for several endpoints.

use core::ffi::{c_int, c_long, c_uint};

use crate::calls::ScifPollEntry;
use crate::guard::answer;

pub(crate) unsafe extern "C" fn scif_poll(epds: *mut ScifPollEntry, nepds: c_uint, timeout: c_long) -> c_int {
    answer(|| Ok(nonic_scif::poll_at(epds.addr(), nepds, timeout)? as c_int)) // At most as many as descriptors.
}
