//! What `libdaplnonic.so.2` and `libnonic.so` share: the two functions through which the registry of uDAPL 2.0 loads and
//! unloads a provider. The library includes this file, so that it needs nothing of this crate.

use core::ffi::{c_char, c_void};

/// The one symbol through which `libdaplnonic.so.2` reaches the engine.
#[repr(C)]
#[derive(Debug)]
pub struct ProviderTable {
    /// [`PROVIDER_TABLE_VERSION`] of whoever made it. At the same place in every version.
    pub version: usize,
    /// `dat_provider_init`: the entry of dat.conf as a `DAT_PROVIDER_INFO`, and its parameters.
    pub init: unsafe extern "C" fn(*const c_void, *const c_char),
    /// `dat_provider_fini`, for the same entry.
    pub fini: unsafe extern "C" fn(*const c_void),
}

/// Says that both sides mean the same table: a number in the upper half that nothing else has, the version below.
pub const PROVIDER_TABLE_VERSION: usize = 0x0da7_2ab1_0000_0001;
