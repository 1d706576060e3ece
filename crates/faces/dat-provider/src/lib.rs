//! `libdaplnonic.so.2`: the provider of nonic for the registry of uDAPL 2.0 (`libdat2.so.2`), as `dat.conf` names it.
//!
//! The registry loads it when a program opens an adapter whose entry in `dat.conf` names it, and calls
//! `dat_provider_init`. The engine lies in `libnonic.so`, in the folder of this library; it gives the registry a table of
//! functions, and from then on calls go there and not through here.

#![allow(unreachable_pub)] // The functions are public to C, by their names.

use core::ffi::{c_char, c_void};
use core::ptr::NonNull;

use nonic_neighbour::versioned;

#[path = "../../dat/src/v2/entry_points.rs"]
mod entry_points;

use entry_points::{PROVIDER_TABLE_VERSION, ProviderTable};

/// The engine's table, if the engine is there. The loader remembers what it has loaded, so nothing is kept here.
fn engine(complain: bool) -> Option<&'static ProviderTable> {
    static PLACE: u8 = 0;
    match nonic_neighbour::table(
        (&raw const PLACE).cast(),
        c"nonic_dat_provider_table",
        PROVIDER_TABLE_VERSION,
    ) {
        // SAFETY: a table with this version is one, and stays where it is.
        Ok(table) => NonNull::new(table.cast_mut().cast()).map(|table| unsafe { table.as_ref() }),
        Err(reason) => {
            if complain {
                nonic_neighbour::complain(c"libdaplnonic.so.2", reason, c"Its adapters cannot be opened.");
            }
            None
        }
    }
}

/// Registers the adapter of an entry of `dat.conf`.
///
/// # Safety
///
/// The registry calls it with a `DAT_PROVIDER_INFO` and a string, or NULL, for `ia_params`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dat_provider_init(info: *const c_void, ia_params: *const c_char) {
    if let Some(engine) = engine(true) {
        // SAFETY: as the caller promises.
        unsafe { (engine.init)(info, ia_params) }
    }
}
versioned!(dat_provider_init, "DAPL_NONIC_2.0");

/// Takes it back.
///
/// # Safety
///
/// The registry calls it with the `DAT_PROVIDER_INFO` of an earlier `dat_provider_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dat_provider_fini(info: *const c_void) {
    if let Some(engine) = engine(false) {
        // SAFETY: as the caller promises.
        unsafe { (engine.fini)(info) }
    }
}
versioned!(dat_provider_fini, "DAPL_NONIC_2.0");

/// OFED's registry asks for it, to find out about operations of its own makers; there are none.
#[unsafe(no_mangle)]
pub extern "C" fn dapl_extensions() {}
versioned!(dapl_extensions, "DAPL_NONIC_2.0");
