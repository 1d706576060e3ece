//! Work requests, on the way to the engine: no allocation, no copy of the piece list.

use core::ffi::c_int;
use core::mem::{align_of, offset_of, size_of};
use core::slice;

use nonic_device::{
    DatagramDestination, Destination, Key, Operation, QpNumber, ReceiveRequest, RemoteRange, ScatterGather,
    SendFlags, SendRequest, SrqNumber,
};

use crate::abi::{
    IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_WR_ATOMIC_CMP_AND_SWP,
    IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE, IBV_WR_BIND_MW, IBV_WR_FLUSH, IBV_WR_LOCAL_INV,
    IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
    IBV_WR_SEND_WITH_INV, IBV_WR_TSO, ibv_ah, ibv_recv_wr, ibv_send_wr, ibv_sge,
};
use crate::errno::Errno;
use crate::objects::{AddressHandleParts, Addressing};
use crate::registry;

// The engine's piece and the program's are the same sixteen bytes.
const _: () = {
    assert!(size_of::<ScatterGather>() == size_of::<ibv_sge>());
    assert!(align_of::<ScatterGather>() == align_of::<ibv_sge>());
    assert!(offset_of!(ScatterGather, address) == offset_of!(ibv_sge, addr));
    assert!(offset_of!(ScatterGather, length) == offset_of!(ibv_sge, length));
    assert!(offset_of!(ScatterGather, key) == offset_of!(ibv_sge, lkey));
    assert!(size_of::<Key>() == size_of::<u32>());
};

/// The pieces of a request; `EINVAL` if their count is negative or there is a count but no list.
///
/// # Safety
/// `list` points to `count` pieces that nobody changes during `'a`.
pub(crate) unsafe fn pieces<'a>(list: *const ibv_sge, count: c_int) -> Result<&'a [ScatterGather], Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller vouches for the list; that the two types are the same bytes is asserted above, and
    // every pattern of bits is a valid piece.
    Ok(unsafe { slice::from_raw_parts(list.cast(), count) })
}

/// A receive request.
///
/// # Safety
/// `request` is a program's receive request, unchanged during `'a`.
pub(crate) unsafe fn receive_request<'a>(request: *const ibv_recv_wr) -> Result<ReceiveRequest<'a>, Errno> {
    // SAFETY: the caller vouches for the request and with it for its list.
    unsafe {
        Ok(ReceiveRequest { id: (*request).wr_id, pieces: pieces((*request).sg_list, (*request).num_sge)? })
    }
}

/// A send request. Unknown opcodes and flags are `EINVAL`, opcodes this release lacks `EOPNOTSUPP`; for what is wrong
/// with a bind see [`super::bind`].
///
/// # Safety
/// `request` is a program's send request, unchanged during `'a`, for a queue pair whose requests say where they go as
/// `addressing` says.
pub(crate) unsafe fn send_request<'a>(
    request: *const ibv_send_wr,
    addressing: Addressing,
) -> Result<SendRequest<'a>, Errno> {
    // SAFETY: the caller vouches for the request, its list, and for the address handle of a datagram.
    unsafe {
        Ok(SendRequest {
            id: (*request).wr_id,
            operation: operation(request)?,
            flags: flags((*request).send_flags)?,
            pieces: pieces((*request).sg_list, (*request).num_sge)?,
            destination: match addressing {
                Addressing::Peer => None,
                // Where a message has an address handle, others have an address.
                Addressing::Datagram if matches!((*request).opcode, IBV_WR_SEND | IBV_WR_SEND_WITH_IMM) => {
                    destination(request)?
                }
                Addressing::Datagram => None,
                Addressing::Queue => Some(Destination::Queue(SrqNumber::masked((*request).remote_srqn))),
            },
        })
    }
}

pub(crate) fn flags(bits: u32) -> Result<SendFlags, Errno> {
    let known = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
    if bits & !known != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(SendFlags {
        fence: bits & IBV_SEND_FENCE != 0,
        signaled: bits & IBV_SEND_SIGNALED != 0,
        solicited: bits & IBV_SEND_SOLICITED != 0,
        inline: bits & IBV_SEND_INLINE != 0,
    })
}

/// # Safety
/// `request` is a program's send request.
unsafe fn operation(request: *const ibv_send_wr) -> Result<Operation, Errno> {
    // SAFETY: the caller vouches for the request; every member of the union is plain numbers, valid whatever
    // was written there.
    let (opcode, immediate, rdma, atomic) =
        unsafe { ((*request).opcode, (*request).imm_data, (*request).wr.rdma, (*request).wr.atomic) };
    let remote = RemoteRange { address: rdma.remote_addr, key: Key(rdma.rkey) };
    let word = RemoteRange { address: atomic.remote_addr, key: Key(atomic.rkey) };
    Ok(match opcode {
        IBV_WR_SEND => Operation::Send { immediate: None },
        IBV_WR_SEND_WITH_IMM => Operation::Send { immediate: Some(immediate) },
        IBV_WR_RDMA_WRITE => Operation::Write { remote, immediate: None },
        IBV_WR_RDMA_WRITE_WITH_IMM => Operation::Write { remote, immediate: Some(immediate) },
        IBV_WR_RDMA_READ => Operation::Read { remote },
        IBV_WR_ATOMIC_CMP_AND_SWP => {
            Operation::CompareSwap { remote: word, compare: atomic.compare_add, swap: atomic.swap }
        }
        IBV_WR_ATOMIC_FETCH_AND_ADD => Operation::FetchAdd { remote: word, add: atomic.compare_add },
        IBV_WR_SEND_WITH_INV => Operation::SendInvalidate { key: Key(immediate) },
        IBV_WR_LOCAL_INV => Operation::Invalidate { key: Key(immediate) },
        // SAFETY: the caller vouches for the request.
        IBV_WR_BIND_MW => unsafe { super::bind_request(request) }?,
        IBV_WR_ATOMIC_WRITE => Operation::AtomicWrite { remote },
        // The structure has no place for what a flush says: `ibv_wr_flush` does.
        IBV_WR_TSO | IBV_WR_FLUSH => return Err(Errno::EOPNOTSUPP),
        _ => return Err(Errno::EINVAL),
    })
}

/// Where a datagram goes: `None` without an address handle, which the engine refuses; `EINVAL` for a
/// destroyed one.
///
/// # Safety
/// `request` is a program's send request for a datagram queue pair; its address handle is NULL or came from
/// this library.
unsafe fn destination(request: *const ibv_send_wr) -> Result<Option<Destination>, Errno> {
    // SAFETY: the caller vouches for the request and its address handle.
    unsafe {
        let ud = (*request).wr.ud;
        datagram_destination(ud.ah, ud.remote_qpn, ud.remote_qkey)
    }
}

/// The queue pair `number` on the path of `ah`: `None` without an address handle, which the engine refuses; `EINVAL`
/// for a destroyed one.
///
/// # Safety
/// `ah` is NULL or came from this library.
#[inline]
pub(crate) unsafe fn datagram_destination(
    ah: *const ibv_ah,
    number: u32,
    q_key: u32,
) -> Result<Option<Destination>, Errno> {
    if ah.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller says where the handle came from.
    let handle = unsafe { registry::alive::<ibv_ah, AddressHandleParts>(ah) }.ok_or(Errno::EINVAL)?;
    Ok(Some(Destination::Datagram(DatagramDestination {
        vector: handle.vector,
        zone: handle.zone,
        qp_number: QpNumber::masked(number),
        q_key,
    })))
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;
    use crate::abi::{ibv_send_wr_atomic, ibv_send_wr_last, ibv_send_wr_remote, ibv_send_wr_tso};

    fn request(opcode: c_int, send_flags: u32) -> ibv_send_wr {
        let atomic = ibv_send_wr_atomic { remote_addr: 0x1000, compare_add: 3, swap: 4, rkey: 9 };
        ibv_send_wr {
            wr_id: 1,
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: 0,
            opcode,
            send_flags,
            imm_data: 77,
            wr: ibv_send_wr_remote { atomic },
            remote_srqn: 0,
            last: ibv_send_wr_last { tso: ibv_send_wr_tso { hdr: ptr::null_mut(), hdr_sz: 0, mss: 0 } },
        }
    }

    fn converted(opcode: c_int, send_flags: u32) -> Result<Operation, Errno> {
        // SAFETY: the request is complete and lives through the call.
        unsafe { send_request(&request(opcode, send_flags), Addressing::Peer) }
            .map(|request| request.operation)
    }

    #[test]
    fn operations_carry_their_own_members_only() {
        let remote = RemoteRange { address: 0x1000, key: Key(9) };
        assert_eq!(converted(IBV_WR_SEND, 0), Ok(Operation::Send { immediate: None }));
        assert_eq!(converted(IBV_WR_SEND_WITH_IMM, 0), Ok(Operation::Send { immediate: Some(77) }));
        assert_eq!(
            converted(IBV_WR_ATOMIC_CMP_AND_SWP, 0),
            Ok(Operation::CompareSwap { remote, compare: 3, swap: 4 })
        );
        assert_eq!(converted(IBV_WR_ATOMIC_FETCH_AND_ADD, 0), Ok(Operation::FetchAdd { remote, add: 3 }));
        // (Its key stands where that of a write does.)
        let word = RemoteRange { key: Key(3), ..remote };
        assert_eq!(converted(IBV_WR_ATOMIC_WRITE, 0), Ok(Operation::AtomicWrite { remote: word }));
        assert_eq!(converted(IBV_WR_SEND_WITH_INV, 0), Ok(Operation::SendInvalidate { key: Key(77) }));
        assert_eq!(converted(IBV_WR_LOCAL_INV, 0), Ok(Operation::Invalidate { key: Key(77) }));
    }

    #[test]
    fn what_is_unknown_is_invalid_and_what_is_missing_says_so() {
        assert_eq!(converted(99, 0), Err(Errno::EINVAL));
        assert_eq!(converted(-1, 0), Err(Errno::EINVAL));
        assert_eq!(converted(IBV_WR_SEND, 1 << 9), Err(Errno::EINVAL));
        assert_eq!(converted(IBV_WR_TSO, 0), Err(Errno::EOPNOTSUPP));
        assert_eq!(converted(IBV_WR_FLUSH, 0), Err(Errno::EOPNOTSUPP));
        // (No window.)
        assert_eq!(converted(IBV_WR_BIND_MW, 0), Err(Errno::EINVAL));
    }

    #[test]
    fn a_count_without_a_list_is_invalid_and_nothing_without_a_list_is_nothing() {
        // SAFETY: no list is read in any of these.
        unsafe {
            assert_eq!(pieces(ptr::null(), 1).err(), Some(Errno::EINVAL));
            assert_eq!(pieces(ptr::null(), -1).err(), Some(Errno::EINVAL));
            assert_eq!(pieces(ptr::null(), 0).map(<[_]>::len), Ok(0));
        }
    }
}
