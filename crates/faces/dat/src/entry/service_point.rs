//! Service points, public and reserved.

use core::ffi::c_void;

use nonic_dat::{
    DatError, DatResult, Endpoint, EventDispatcher, HandleKind, PublicServicePoint, ReservedServicePoint,
};

use crate::calls::{Handle, Return};
use crate::entry::{check_mask, find, hand_out, room, shown, shown_adapter};
use crate::guard::answer;
use crate::handles;
use crate::layouts::{PspParam, RspParam};
use crate::opened::opened;
use crate::version::Version;

const EVENTS: HandleKind = HandleKind::RequestDispatcherOfRequests;

/// Whether endpoints are made for requests (`DAT_PSP_FLAGS`).
fn makes_endpoints(flags: u32) -> DatResult<bool> {
    match flags {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DatError::argument(4)),
    }
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn psp_create<V: Version>(
    ia: Handle,
    conn_qual: u64,
    evd: Handle,
    flags: u32,
    psp: *mut Handle,
) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        let dispatcher = find::<V, EventDispatcher>(evd, EVENTS)?;
        let makes_endpoints = makes_endpoints(flags)?;
        let psp = room::<Handle>(psp.cast(), 5)?;
        let point = PublicServicePoint::create(&opened.adapter, conn_qual, &dispatcher, makes_endpoints)?;
        psp.store(hand_out::<V, _>(ia, &point, |point| point.free())?);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn psp_create_any<V: Version>(
    ia: Handle,
    conn_qual: *mut u64,
    evd: Handle,
    flags: u32,
    psp: *mut Handle,
) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        let conn_qual = room::<u64>(conn_qual.cast(), 2)?;
        let dispatcher = find::<V, EventDispatcher>(evd, EVENTS)?;
        let makes_endpoints = makes_endpoints(flags)?;
        let psp = room::<Handle>(psp.cast(), 5)?;
        let (found, point) = PublicServicePoint::create_any(&opened.adapter, &dispatcher, makes_endpoints)?;
        psp.store(hand_out::<V, _>(ia, &point, |point| point.free())?);
        conn_qual.store(found);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn psp_query<V: Version>(psp: Handle, mask: u32, param: *mut c_void) -> Return {
    answer(V::NUMBERING, || {
        let point = find::<V, PublicServicePoint>(psp, HandleKind::PublicServicePoint)?;
        check_mask(mask, 0xf, 2)?;
        let param = room(param, 3)?;
        let facts = point.facts()?;
        param.store(PspParam {
            ia_handle: shown_adapter::<V>(psp)?,
            conn_qual: facts.conn_qual,
            evd_handle: shown::<V, _>(psp, Some(&facts.dispatcher)),
            psp_flags: facts.makes_endpoints.into(),
        });
        Ok(())
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn psp_free<V: Version>(psp: Handle) -> Return {
    answer(V::NUMBERING, || {
        find::<V, PublicServicePoint>(psp, HandleKind::PublicServicePoint)?.free()?;
        handles::remove::<PublicServicePoint>(V::NUMBERING, psp);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn rsp_create<V: Version>(
    ia: Handle,
    conn_qual: u64,
    ep: Handle,
    evd: Handle,
    rsp: *mut Handle,
) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        let endpoint = find::<V, Endpoint>(ep, HandleKind::Endpoint)?;
        let dispatcher = find::<V, EventDispatcher>(evd, EVENTS)?;
        let rsp = room::<Handle>(rsp.cast(), 5)?;
        let point = ReservedServicePoint::create(&opened.adapter, conn_qual, &endpoint, &dispatcher)?;
        rsp.store(hand_out::<V, _>(ia, &point, |point| point.free())?);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn rsp_query<V: Version>(rsp: Handle, mask: u32, param: *mut c_void) -> Return {
    answer(V::NUMBERING, || {
        let point = find::<V, ReservedServicePoint>(rsp, HandleKind::ReservedServicePoint)?;
        check_mask(mask, 0xf, 2)?;
        let param = room(param, 3)?;
        let facts = point.facts()?;
        param.store(RspParam {
            ia_handle: shown_adapter::<V>(rsp)?,
            conn_qual: facts.conn_qual,
            evd_handle: shown::<V, _>(rsp, Some(&facts.dispatcher)),
            ep_handle: shown::<V, _>(rsp, Some(&facts.endpoint)),
        });
        Ok(())
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn rsp_free<V: Version>(rsp: Handle) -> Return {
    answer(V::NUMBERING, || {
        find::<V, ReservedServicePoint>(rsp, HandleKind::ReservedServicePoint)?.free()?;
        handles::remove::<ReservedServicePoint>(V::NUMBERING, rsp);
        Ok(())
    })
}
