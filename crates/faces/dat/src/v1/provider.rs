//! A provider as programs and the registry see it: `DAT_PROVIDER`, a table of functions that every handle's first word leads to.

use core::ffi::c_char;
use core::ptr;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use crate::calls::{Count, Handle, ProviderCalls, Return};
use crate::entry;
use crate::error::Numbering;
use crate::guard::answer;
use crate::names;
use crate::v1::V1;

/// `ia_open_func`. On Solaris it has a fifth argument, whether the name began with `RO_AWARE_`, which who does not know it does
/// not see.
pub(crate) type OpenCall = unsafe extern "C" fn(*const c_char, Count, *mut Handle, *mut Handle) -> Return;

/// `DAT_PROVIDER`.
#[repr(C)]
pub(crate) struct ProviderTable {
    /// Name of the interface adapter.
    pub(crate) device_name: *const c_char,
    /// The provider's own.
    pub(crate) extension: usize,
    /// Opens an interface adapter.
    pub(crate) ia_open: OpenCall,
    /// All other calls.
    pub(crate) calls: ProviderCalls,
}

// SAFETY: never written to after it is made; the name is never freed.
unsafe impl Send for ProviderTable {}
// SAFETY: as above.
unsafe impl Sync for ProviderTable {}

macro_rules! own_calls {
    ($($name:ident $short:ident $first:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// The calls of this provider.
        pub(crate) const OWN_CALLS: ProviderCalls = {
            use entry::adapter::*;
            use entry::connection_request::*;
            use entry::context::*;
            use entry::dispatcher::*;
            use entry::endpoint::*;
            use entry::local_region::*;
            use entry::notification_object::*;
            use entry::posting::*;
            use entry::remote_region::*;
            use entry::service_point::*;
            use entry::shared_receive_queue::*;
            use entry::zone::*;
            ProviderCalls { $($short: $short::<V1>),* }
        };
    };
}

for_each_provider_call!(own_calls);

/// The tables of this provider, one for each name it was opened by. As with the original, a table belongs to a name; it is
/// kept, since programs may read the first word of a handle whenever they like.
static TABLES: Mutex<Option<HashMap<String, &'static ProviderTable>>> = Mutex::new(None);

/// The table for a name.
pub(crate) fn table(name: &str) -> &'static ProviderTable {
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    tables.get_or_insert_default().entry(name.to_owned()).or_insert_with(|| {
        let device_name = CString::new(name).unwrap_or_default().into_raw();
        Box::leak(Box::new(ProviderTable { device_name, extension: 0, ia_open, calls: OWN_CALLS }))
    })
}

/// Opens an interface adapter of this provider under a name that the registry found to be one of its own.
///
/// # Safety
/// The pointers are NULL or lead to handles.
pub(crate) unsafe fn open(
    name: &str,
    async_qlen: Count,
    async_evd: *mut Handle,
    ia: *mut Handle,
) -> nonic_dat::DatResult<()> {
    let provider = ptr::from_ref(table(name)).expose_provenance();
    // SAFETY: the caller's promise.
    unsafe { entry::adapter::open::<V1>(name, names::is_coherent(name), provider, async_qlen, async_evd, ia) }
}

/// # Safety
/// As in C: the name ends with 0, the other pointers are NULL or lead to handles.
unsafe extern "C" fn ia_open(
    name: *const c_char,
    async_qlen: Count,
    async_evd: *mut Handle,
    ia: *mut Handle,
) -> Return {
    answer(Numbering::V1_2, || {
        // SAFETY: the caller's promise.
        let name = unsafe { names::of_program(name) }?;
        // SAFETY: as above.
        unsafe { open(&name, async_qlen, async_evd, ia) }
    })
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn the_table_has_the_layout_of_the_interface() {
        assert_eq!(size_of::<ProviderTable>(), 560);
        assert_eq!((offset_of!(ProviderTable, device_name), offset_of!(ProviderTable, extension)), (0, 8));
        assert_eq!((offset_of!(ProviderTable, ia_open), offset_of!(ProviderTable, calls)), (16, 24));
        let first = offset_of!(ProviderTable, calls);
        // Functions, counted from `ia_open_func` = 0.
        let place = |number: usize| 16 + number * 8;
        assert_eq!(first + offset_of!(ProviderCalls, ia_query), place(1));
        assert_eq!(first + offset_of!(ProviderCalls, cno_create), place(6));
        assert_eq!(first + offset_of!(ProviderCalls, cr_query), place(11));
        assert_eq!(first + offset_of!(ProviderCalls, evd_create), place(15));
        assert_eq!(first + offset_of!(ProviderCalls, evd_wait), place(20));
        assert_eq!(first + offset_of!(ProviderCalls, ep_create), place(25));
        assert_eq!(first + offset_of!(ProviderCalls, ep_post_send), place(31));
        assert_eq!(first + offset_of!(ProviderCalls, lmr_create), place(37));
        assert_eq!(first + offset_of!(ProviderCalls, rmr_bind), place(42));
        assert_eq!(first + offset_of!(ProviderCalls, psp_create), place(44));
        assert_eq!(first + offset_of!(ProviderCalls, pz_free), place(52));
        assert_eq!(first + offset_of!(ProviderCalls, psp_create_any), place(53));
        assert_eq!(first + offset_of!(ProviderCalls, lmr_sync_rdma_read), place(57));
        assert_eq!(first + offset_of!(ProviderCalls, srq_set_lw), place(67));
        assert_eq!(place(68), size_of::<ProviderTable>());
    }

    #[test]
    fn every_name_has_one_table_that_says_it() {
        let (one, again, other) = (table("nonic"), table("nonic"), table("OpenIB-cma"));
        assert!(ptr::eq(one, again) && !ptr::eq(one, other));
        // SAFETY: the name was made from a text and is never freed.
        let name = unsafe { core::ffi::CStr::from_ptr(other.device_name) };
        assert_eq!(name.to_str(), Ok("OpenIB-cma"));
    }
}
