//! Names looked up while the program goes on: the answer is an event.
//!
//! The calls are of a release later than the header that the rest of this face follows (`RDMACM_1.4`).

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use std::ffi::CString;
use std::sync::{Arc, Weak};

use nonic_rdma_cm::{EventKind, Parameters};
use nonic_sys::spawn_without_signals;
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use super::address_info::{AddressInfo, look_up};
use super::zero;
use crate::abi::{RAI_SA, rdma_addrinfo, rdma_cm_id};
use crate::devices;
use crate::objects::{Identifier, identifier};
use crate::synchronous::complete;

/// What is asked.
struct Question {
    node: Option<CString>,
    service: Option<CString>,
    hints: Option<AddressInfo>,
}

/// `rdma_resolve_addrinfo(3)`: ADDRINFO_RESOLVED, or ADDRINFO_ERROR with a code of `getaddrinfo(3)` or a negative errno; or -1 with
/// `EINVAL` (no such identifier; neither name nor service nor hints), `EOPNOTSUPP` (`RAI_SA`: no subnet administrator is asked),
/// `EBUSY` (it looks a name up already), `ENODEV`, or what the system lacked.
pub(crate) unsafe extern "C-unwind" fn rdma_resolve_addrinfo(
    id: *mut rdma_cm_id,
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
) -> c_int {
    let begun = zero(|| {
        let identifier = identifier(id)?;
        if node.is_null() && service.is_null() && hints.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program's texts and hints are what the manual page asks for.
        let question = unsafe {
            if hints.as_ref().is_some_and(|hints| hints.ai_flags & RAI_SA != 0) {
                return Err(Errno::EOPNOTSUPP);
            }
            let text = |text: *const c_char| (!text.is_null()).then(|| CStr::from_ptr(text).to_owned());
            let hints = hints.as_ref().map(|hints| AddressInfo::copy(hints)).transpose()?;
            Question { node: text(node), service: text(service), hints }
        };
        devices::check_any()?;
        if core::mem::replace(&mut identifier.rest().looks_up, true) {
            return Err(Errno(libc::EBUSY));
        }
        let asked = Arc::downgrade(&identifier);
        let begun = spawn_without_signals("nonic-resolve", move || answer(&question, &asked));
        begun.map(drop).map_err(|error| {
            identifier.rest().looks_up = false;
            error.into()
        })
    });
    // SAFETY: this frame owns nothing.
    unsafe { complete(begun, id) }
}

/// Looks it up and tells the identifier, if it is still there.
fn answer(question: &Question, asked: &Weak<Identifier>) {
    let text = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    let (node, service) = (text(&question.node), text(&question.service));
    // SAFETY: all of it is the question's own.
    let found = unsafe { look_up(node, service, question.hints.as_ref().map(AddressInfo::entry)) };
    let Some(identifier) = asked.upgrade() else { return };
    let mut rest = identifier.rest();
    rest.looks_up = false;
    let (kind, status) = match found {
        Ok(Ok(found)) => {
            rest.address_info = Some(found);
            (EventKind::AddressInfoResolved, 0)
        }
        Ok(Err(code)) => (EventKind::AddressInfoError, code),
        Err(errno) => (EventKind::AddressInfoError, -errno.0),
    };
    drop(rest);
    // One that is being destroyed has nobody to tell.
    let _ = identifier.engine.report(kind, status, Parameters::None);
}

/// `rdma_query_addrinfo(3)`: what was found last, for `rdma_freeaddrinfo(3)`; -1 with `EINVAL` (no such identifier, no place, nothing was
/// found), `ENOMEM`.
pub(crate) unsafe extern "C-unwind" fn rdma_query_addrinfo(
    id: *mut rdma_cm_id,
    info: *mut *mut rdma_addrinfo,
) -> c_int {
    guard::or_minus_one(|| {
        let identifier = identifier(id)?;
        let rest = identifier.rest();
        let found = rest.address_info.as_ref().filter(|_| !info.is_null()).ok_or(Errno::EINVAL)?;
        // SAFETY: what was found is the identifier's own; the program's place is writable.
        unsafe { info.write(AddressInfo::copy(found.entry())?.into_raw()) };
        Ok(0)
    })
}
