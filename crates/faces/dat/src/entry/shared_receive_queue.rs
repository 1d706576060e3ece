//! Shared receive queues, but for posting.

use core::ffi::c_void;

use nonic_dat::{HandleKind, ProtectionZone, SharedQueueAttributes, SharedReceiveQueue};

use crate::calls::{Count, Handle, Return};
use crate::entry::{check_mask, fetch, find, hand_out, room, shown, shown_adapter};
use crate::guard::answer;
use crate::handles;
use crate::layouts::{SrqAttributes, SrqParam};
use crate::opened::opened;
use crate::version::Version;

const QUEUE: HandleKind = HandleKind::SharedReceiveQueue;

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn srq_create<V: Version>(
    ia: Handle,
    pz: Handle,
    attributes: *const c_void,
    srq: *mut Handle,
) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        let zone = find::<V, ProtectionZone>(pz, HandleKind::ProtectionZone)?;
        let SrqAttributes { max_recv_dtos, max_recv_iov, low_watermark } = fetch(attributes, 3)?;
        let srq = room::<Handle>(srq.cast(), 4)?;
        let attributes =
            SharedQueueAttributes { max_receives: max_recv_dtos, max_pieces: max_recv_iov, low_watermark };
        let queue = SharedReceiveQueue::create(&opened.adapter, &zone, attributes)?;
        srq.store(hand_out::<V, _>(ia, &queue, |queue| queue.free())?);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn srq_query<V: Version>(srq: Handle, mask: u32, param: *mut c_void) -> Return {
    answer(V::NUMBERING, || {
        let queue = find::<V, SharedReceiveQueue>(srq, QUEUE)?;
        check_mask(mask, 0xff, 2)?;
        let param = room(param, 3)?;
        let facts = queue.facts()?;
        param.store(SrqParam {
            ia_handle: shown_adapter::<V>(srq)?,
            srq_state: if facts.operational { V::SRQ_OPERATIONAL } else { 1 - V::SRQ_OPERATIONAL },
            pz_handle: shown::<V, _>(srq, Some(&facts.zone)),
            max_recv_dtos: facts.attributes.max_receives,
            max_recv_iov: facts.attributes.max_pieces,
            low_watermark: facts.attributes.low_watermark,
            available_dto_count: facts.available,
            outstanding_dto_count: facts.outstanding,
        });
        Ok(())
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn srq_resize<V: Version>(srq: Handle, max_recv_dtos: Count) -> Return {
    answer(V::NUMBERING, || find::<V, SharedReceiveQueue>(srq, QUEUE)?.resize(max_recv_dtos))
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn srq_set_lw<V: Version>(srq: Handle, low_watermark: Count) -> Return {
    answer(V::NUMBERING, || find::<V, SharedReceiveQueue>(srq, QUEUE)?.set_low_watermark(low_watermark))
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn srq_free<V: Version>(srq: Handle) -> Return {
    answer(V::NUMBERING, || {
        find::<V, SharedReceiveQueue>(srq, QUEUE)?.free()?;
        handles::remove::<SharedReceiveQueue>(V::NUMBERING, srq);
        Ok(())
    })
}
