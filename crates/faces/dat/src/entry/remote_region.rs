//! Remote memory regions.

use core::ffi::c_void;

use nonic_dat::{
    CompletionFlags, DatError, DatResult, Endpoint, HandleKind, ProtectionZone, RemoteRegion, Segment,
};

use crate::calls::{Context, Handle, Return};
use crate::entry::{check_mask, fetch, find, hand_out, room, room_if_given, shown, shown_adapter, with};
use crate::guard::{answer, quick_answer};
use crate::handles;
use crate::version::{RemoteRegionWords, Version};

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn rmr_create<V: Version>(pz: Handle, rmr: *mut Handle) -> Return {
    answer(V::NUMBERING, || {
        let zone = find::<V, ProtectionZone>(pz, HandleKind::ProtectionZone)?;
        let rmr = room::<Handle>(rmr.cast(), 2)?;
        let region = RemoteRegion::create(&zone)?;
        rmr.store(hand_out::<V, _>(pz, &region, |region| region.free())?);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn rmr_query<V: Version>(rmr: Handle, mask: u32, param: *mut c_void) -> Return {
    answer(V::NUMBERING, || {
        let region = find::<V, RemoteRegion>(rmr, HandleKind::RemoteRegion)?;
        check_mask(mask, V::RMR_MASK, 2)?;
        let param = room(param, 3)?;
        let facts = region.facts();
        param.store(V::rmr_param(&RemoteRegionWords {
            adapter: shown_adapter::<V>(rmr)?,
            zone: shown::<V, _>(rmr, Some(&facts.zone)),
            segment: facts.segment,
            privileges: facts.privileges.bits(),
            context: facts.context,
        }));
        Ok(())
    })
}

/// What a bind is told besides the bytes.
#[derive(Clone, Copy)]
pub(crate) struct Bind {
    pub(crate) rmr: Handle,
    pub(crate) segment: Segment,
    /// With the number of its argument.
    pub(crate) privileges: (u32, u8),
    pub(crate) ep: Handle,
    pub(crate) cookie: Context,
    /// With the number of its argument.
    pub(crate) flags: (u32, u8),
    pub(crate) rmr_context: *mut u32,
}

/// `dat_rmr_bind`. An unbind leaves the place of the context alone.
pub(crate) fn bind<V: Version>(wanted: &Bind) -> DatResult<()> {
    with::<V, RemoteRegion, _>(wanted.rmr, HandleKind::RemoteRegion, |region| {
        with::<V, Endpoint, _>(wanted.ep, HandleKind::Endpoint, |endpoint| {
            let privileges = V::privileges(wanted.privileges.0);
            let privileges = privileges.ok_or(DatError::argument(wanted.privileges.1))?;
            let flags = CompletionFlags::from_bits(wanted.flags.0);
            let flags = flags.ok_or(DatError::argument(wanted.flags.1))?;
            let context = region.bind(wanted.segment, privileges, endpoint, wanted.cookie, flags)?;
            if wanted.segment.length > 0
                && let Some(room) = room_if_given(wanted.rmr_context)
            {
                room.store(context);
            }
            Ok(())
        })
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn rmr_bind<V: Version>(
    rmr: Handle,
    segment: *const c_void,
    privileges: u32,
    ep: Handle,
    cookie: Context,
    flags: u32,
    rmr_context: *mut u32,
) -> Return {
    quick_answer(V::NUMBERING, || {
        // The handle is judged before what else is wrong.
        with::<V, RemoteRegion, _>(rmr, HandleKind::RemoteRegion, |_| Ok(()))?;
        let segment = V::segment(&fetch(segment, 2)?);
        let (privileges, flags) = ((privileges, 3), (flags, 6));
        bind::<V>(&Bind { rmr, segment, privileges, ep, cookie, flags, rmr_context })
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn rmr_free<V: Version>(rmr: Handle) -> Return {
    answer(V::NUMBERING, || {
        find::<V, RemoteRegion>(rmr, HandleKind::RemoteRegion)?.free()?;
        handles::remove::<RemoteRegion>(V::NUMBERING, rmr);
        Ok(())
    })
}
