//! Words of the C interface to words of the engine and back. Nothing here decides anything but what only the
//! C encoding can get wrong: unknown bits, unknown numbers, negative counts.

mod access;
mod address;
mod completion;
mod post;
mod queue_pair;
mod window;

pub(crate) use access::{
    access_flags, device_memory_rights, queue_pair_access, region_rights, window_rights,
};
pub use address::from_vector;
pub(crate) use address::to_vector;
pub(crate) use completion::{completion_flags, completion_opcode, to_wc};
pub(crate) use post::{datagram_destination, flags as send_flags, pieces, receive_request, send_request};
pub use queue_pair::query_answer;
pub(crate) use queue_pair::{
    capabilities_from_c, capabilities_to_c, modify_request, send_operations, transport_from_c,
};
pub(crate) use window::{bind, bind_request, show_key};

use core::ffi::c_int;

/// A count of the engine where C has an `int`.
pub(crate) fn int(count: impl TryInto<c_int>) -> c_int {
    count.try_into().unwrap_or(c_int::MAX)
}
