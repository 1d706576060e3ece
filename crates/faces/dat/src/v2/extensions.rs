//! `dat_extension_op`: atomics and writes with immediate data, as OFED's `dat_ib_extensions.h` has them. Unreliable datagrams,
//! counters and collectives are not supported; the attributes that would promise them are not there.

use core::ffi::c_void;

use nonic_dat::{AtomicChange, DatError, DatResult, Endpoint, HandleKind};

use super::arguments::VaList;
use super::numbers::{OP_CMP_AND_SWAP, OP_FETCH_AND_ADD, OP_RDMA_WRITE_IMMED};
use super::version::V2;
use crate::calls::{Context, Count, Handle, Return};
use crate::entry::posting::{flags, pieces, remote};
use crate::entry::with;
use crate::guard::quick_answer;
use crate::version::Version;

/// # Safety
/// As in C: the list holds the arguments of the operation, and pointers among them lead to what it expects.
pub(crate) unsafe extern "C" fn handle_extendedop(
    handle: Handle,
    operation: u32,
    arguments: *mut VaList,
) -> Return {
    quick_answer(V2::NUMBERING, || {
        // SAFETY: the caller's promise.
        let arguments = unsafe { arguments.as_mut() }.ok_or(DatError::argument(3))?;
        // SAFETY: as above, in the order and with the types of the header's macros.
        unsafe {
            match operation {
                OP_FETCH_AND_ADD => {
                    let change = AtomicChange::Add(arguments.word());
                    atomic(handle, change, &mut *arguments)
                }
                OP_CMP_AND_SWAP => {
                    let change = AtomicChange::Swap { compare: arguments.word(), swap: arguments.word() };
                    atomic(handle, change, &mut *arguments)
                }
                OP_RDMA_WRITE_IMMED => write_immediate(handle, &mut *arguments),
                _ => Err(DatError::MODEL_NOT_SUPPORTED),
            }
        }
    })
}

/// # Safety
/// The list goes on with the local buffer, the cookie, the remote buffer and the flags.
unsafe fn atomic(ep: Handle, change: AtomicChange, arguments: &mut VaList) -> DatResult<()> {
    // SAFETY: the caller's promise.
    let (local, cookie, at): (*const c_void, Context, *const c_void) =
        unsafe { (arguments.pointer(), arguments.word(), arguments.pointer()) };
    // SAFETY: as above.
    let bits = unsafe { arguments.number() };
    with::<V2, Endpoint, _>(ep, HandleKind::Endpoint, |endpoint| {
        // SAFETY: as above.
        let (mut local, mut remote) = unsafe { (pieces::<V2>(1, local)?, remote::<V2>(at)?) };
        let result = local.next().ok_or(DatError::argument(4))?;
        // A buffer may be longer than the word.
        remote.length = remote.length.max(result.length);
        endpoint.post_atomic(change, result, cookie, remote, flags(bits, 7)?)
    })
}

/// # Safety
/// The list goes on with the number of segments, the segments, the cookie, the remote buffer, the word and the flags.
unsafe fn write_immediate(ep: Handle, arguments: &mut VaList) -> DatResult<()> {
    // SAFETY: the caller's promise.
    let (count, segments, cookie, at): (Count, *const c_void, Context, *const c_void) =
        unsafe { (arguments.number() as Count, arguments.pointer(), arguments.word(), arguments.pointer()) };
    // SAFETY: as above.
    let (immediate, bits) = unsafe { (arguments.number(), arguments.number()) };
    with::<V2, Endpoint, _>(ep, HandleKind::Endpoint, |endpoint| {
        // SAFETY: as above.
        let (pieces, mut remote) = unsafe { (pieces::<V2>(count, segments)?, remote::<V2>(at)?) };
        remote.length = u64::MAX;
        endpoint.post_rdma_write_immediate(pieces, cookie, remote, immediate, flags(bits, 8)?)
    })
}
