//! What a provider says of itself by names.

use core::ffi::CStr;

use crate::layouts::NamedAttribute;

/// Attributes that programs of 2.0 ask for by name.
pub(super) struct Specific(pub(super) [NamedAttribute; 6]);

// SAFETY: the pointers lead to constants.
unsafe impl Sync for Specific {}

const fn specific(name: &'static CStr, value: &'static CStr) -> NamedAttribute {
    NamedAttribute { name: name.as_ptr(), value: value.as_ptr() }
}

pub(super) static SPECIFIC: Specific = Specific([
    specific(c"DAT_EXTENSION_INTERFACE", c"TRUE"),
    specific(c"DAT_IB_FETCH_AND_ADD", c"TRUE"),
    specific(c"DAT_IB_CMP_AND_SWAP", c"TRUE"),
    specific(c"DAT_IB_IMMED_DATA", c"TRUE"),
    specific(c"DAT_IB_RDMA_READ", c"TRUE"),
    specific(c"DAT_IB_TRANSPORT_MTU", c"4096"),
]);
