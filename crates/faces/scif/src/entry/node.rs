//! Nodes.

use core::ffi::c_int;

use crate::errno::Errno;
use crate::guard::answer;
use crate::program_words::Room;

#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn scif_get_nodeIDs(nodes: *mut u16, len: c_int, own: *mut u16) -> c_int {
    answer(|| {
        nonic_scif::log_to_standard_error();
        let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
        let (online, own_number) = nonic_scif::node_ids();
        let nodes = Room::at(nodes, len.min(online.len()))?;
        let own = Room::at(own, 1)?;
        nodes.store(&online);
        own.store(&[own_number]);
        Ok(online.len() as c_int) // Numbers of 16 bits.
    })
}
