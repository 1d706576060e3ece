//! Connection requests. A request that was answered is gone, and so is its handle.

use core::ffi::c_void;

use nonic_dat::{ConnectionRequest, DatResult, Endpoint, EndpointState, HandleKind};

use crate::calls::{Count, Handle, Return};
use crate::entry::dispatcher::program_bytes;
use crate::entry::{check_mask, find, find_if_given, private_data, room, shown};
use crate::guard::answer;
use crate::handles;
use crate::layouts::CrParam;
use crate::opened::opened_of;
use crate::version::Version;

const REQUEST: HandleKind = HandleKind::ConnectionRequest;

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn cr_query<V: Version>(cr: Handle, mask: u32, param: *mut c_void) -> Return {
    answer(V::NUMBERING, || {
        let request = find::<V, ConnectionRequest>(cr, REQUEST)?;
        check_mask(mask, 0x1f, 2)?;
        let param = room(param, 3)?;
        let facts = request.facts()?;
        let (private_data, private_data_size) = program_bytes(&facts.private_data);
        param.store(CrParam {
            remote_ia_address_ptr: opened_of::<V>(cr)?.address(facts.address),
            remote_port_qual: facts.port,
            private_data_size,
            private_data,
            local_ep_handle: shown::<V, _>(cr, facts.endpoint.as_ref()),
        });
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn cr_accept<V: Version>(
    cr: Handle,
    ep: Handle,
    size: Count,
    data: *const c_void,
) -> Return {
    answer(V::NUMBERING, || {
        let request = find::<V, ConnectionRequest>(cr, REQUEST)?;
        let endpoint = find_if_given::<V, Endpoint>(ep, HandleKind::Endpoint)?;
        let data = private_data(size, data, (3, 4))?;
        request.accept(endpoint.as_ref(), &data)?;
        handles::remove::<ConnectionRequest>(V::NUMBERING, cr);
        Ok(())
    })
}

/// `dat_cr_reject`, with private data for the peer.
pub(crate) fn reject<V: Version>(cr: Handle, data: &[u8]) -> DatResult<()> {
    let request = find::<V, ConnectionRequest>(cr, REQUEST)?;
    // An endpoint that was made for the request goes with it; one of a reserved service point is the program's.
    let made = request.facts()?.endpoint;
    let made = made.filter(|made| made.state() == EndpointState::TentativeConnectionPending);
    request.reject(data)?;
    if let Some(endpoint) = made {
        handles::remove::<Endpoint>(V::NUMBERING, endpoint.mark().get());
    }
    handles::remove::<ConnectionRequest>(V::NUMBERING, cr);
    Ok(())
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn cr_reject<V: Version>(cr: Handle) -> Return {
    answer(V::NUMBERING, || reject::<V>(cr, &[]))
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn cr_handoff<V: Version>(cr: Handle, conn_qual: u64) -> Return {
    answer(V::NUMBERING, || {
        find::<V, ConnectionRequest>(cr, REQUEST)?.hand_off(conn_qual)?;
        handles::remove::<ConnectionRequest>(V::NUMBERING, cr);
        Ok(())
    })
}
