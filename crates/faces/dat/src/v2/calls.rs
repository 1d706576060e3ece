//! The calls that 2.0 has otherwise than 1.2, and those that it adds.

use core::ffi::{CStr, c_char, c_void};

use nonic_dat::{DatError, DatResult, HandleKind, LocalRegion, RemoteRegion};

use super::numbers::{EVD_EXTENSION, VA_TYPE_VA, VA_TYPE_ZB};
use super::registry::provider_named;
use super::version::V2;
use crate::calls::{Context, Count, Handle, RegionDescription, Return};
use crate::entry::connection_request::reject;
use crate::entry::local_region::{Results, Wanted, create};
use crate::entry::remote_region::{Bind, bind};
use crate::entry::{adapter, dispatcher, fetch, find, private_data, room};
use crate::error::Numbering;
use crate::guard::{answer, quick_answer};
use crate::opened::opened;
use crate::version::Version;

pub(crate) use super::extensions::handle_extendedop;

const NUMBERING: Numbering = V2::NUMBERING;

/// `ia_open_func`: the registry calls it with a name that the provider was registered under.
///
/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn ia_open(
    name: *const c_char,
    async_qlen: Count,
    async_evd: *mut Handle,
    ia: *mut Handle,
) -> Return {
    answer(NUMBERING, || {
        if name.is_null() {
            return Err(DatError::argument(1));
        }
        // SAFETY: not NULL, and a string by the call's contract.
        let name = unsafe { CStr::from_ptr(name) };
        let provider = provider_named(name).ok_or(DatError::argument(1))?;
        let name = name.to_string_lossy();
        let coherent = crate::names::is_coherent(&name);
        let table = core::ptr::from_ref(provider).addr();
        // SAFETY: the caller's promise.
        unsafe { adapter::open::<V2>(&name, coherent, table, async_qlen, async_evd, ia) }
    })
}

/// As in 1.2, but that a program may also ask for the stream of extensions. Their completions are in the stream of transfers.
///
/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn evd_create(
    ia: Handle,
    min_qlen: Count,
    cno: Handle,
    flags: u32,
    evd: *mut Handle,
) -> Return {
    // SAFETY: the caller's promise.
    unsafe { dispatcher::evd_create::<V2>(ia, min_qlen, cno, flags & !EVD_EXTENSION, evd) }
}

/// With private data for the peer.
///
/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn cr_reject(cr: Handle, size: Count, data: *const c_void) -> Return {
    answer(NUMBERING, || {
        find::<V2, nonic_dat::ConnectionRequest>(cr, HandleKind::ConnectionRequest)?;
        reject::<V2>(cr, &private_data(size, data, (2, 3))?)
    })
}

/// Addresses are the program's own: regions whose addresses begin at 0 are not supported, as the attributes say.
fn check_address_type(va_type: u32, argument: u8) -> DatResult<()> {
    match va_type {
        VA_TYPE_VA => Ok(()),
        VA_TYPE_ZB => Err(DatError::MODEL_NOT_SUPPORTED),
        _ => Err(DatError::argument(argument)),
    }
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
#[allow(clippy::too_many_arguments)] // The interface has them.
pub(crate) unsafe extern "C" fn lmr_create(
    ia: Handle,
    memory_type: u32,
    region: RegionDescription,
    length: u64,
    pz: Handle,
    privileges: u32,
    va_type: u32,
    lmr: *mut Handle,
    lmr_context: *mut u32,
    rmr_context: *mut u32,
    size: *mut u64,
    address: *mut u64,
) -> Return {
    answer(NUMBERING, || {
        opened::<V2>(ia)?;
        check_address_type(va_type, 7)?;
        let wanted = Wanted { ia, memory_type, region, length, pz, privileges, handle_argument: 8 };
        create::<V2>(&wanted, &Results { lmr, lmr_context, rmr_context, size, address })
    })
}

/// The region is told twice, by its handle and in the triplet; both have to be the same, but to unbind.
///
/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe extern "C" fn rmr_bind(
    rmr: Handle,
    lmr: Handle,
    triplet: *const c_void,
    privileges: u32,
    va_type: u32,
    ep: Handle,
    cookie: Context,
    flags: u32,
    rmr_context: *mut u32,
) -> Return {
    quick_answer(NUMBERING, || {
        find::<V2, RemoteRegion>(rmr, HandleKind::RemoteRegion)?;
        let segment = V2::segment(&fetch(triplet, 3)?);
        if segment.length > 0 {
            let region = find::<V2, LocalRegion>(lmr, HandleKind::LocalRegion)?;
            if region.facts().local_context != segment.context {
                return Err(DatError::argument(3));
            }
        }
        check_address_type(va_type, 5)?;
        let (privileges, flags) = ((privileges, 4), (flags, 8));
        bind::<V2>(&Bind { rmr, segment, privileges, ep, cookie, flags, rmr_context })
    })
}

/// Whether another adapter would take over for this one: no two are related.
///
/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn ia_ha_related(ia: Handle, name: *const c_char, related: *mut u32) -> Return {
    answer(NUMBERING, || {
        opened::<V2>(ia)?;
        if name.is_null() {
            return Err(DatError::argument(2));
        }
        room::<u32>(related.cast(), 3)?.store(0);
        Ok(())
    })
}

macro_rules! not_supported {
    ($($(#[$about:meta])* $name:ident;)*) => {$(
        $(#[$about])*
        pub(crate) extern "C" fn $name() -> Return {
            answer(NUMBERING, || Err(DatError::MODEL_NOT_SUPPORTED))
        }
    )*};
}

not_supported! {
    /// Service points that name a communicator instead of a service: a machine's sockets, which nonic has none of.
    csp_create;
    /// There is none.
    csp_query;
    /// There is none.
    csp_free;
    /// Nobody can listen for it.
    ep_common_connect;
    /// Remote regions belong to a protection zone, as the attributes say, and not to one endpoint.
    rmr_create_for_ep;
    /// Only remote regions of one endpoint could be invalidated by its peer.
    ep_post_send_with_invalidate;
    /// Reads go to local regions.
    ep_post_rdma_read_to_rmr;
    /// Notification objects wake by a call or wait; the registry has no function for these two.
    cno_fd_create;
    /// See `cno_fd_create`.
    cno_trigger;
}
