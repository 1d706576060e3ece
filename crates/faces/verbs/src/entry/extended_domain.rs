//! XRC domains, and queue pairs that several have open.

use core::ffi::c_int;
use core::ptr;

use nonic_device::{DomainFile, QpNumber, QpState};
use nonic_sys::BorrowedFd;

use super::work_request;
use crate::abi::{
    IBV_QP_OPEN_ATTR_CONTEXT, IBV_QP_OPEN_ATTR_NUM, IBV_QP_OPEN_ATTR_TYPE, IBV_QP_OPEN_ATTR_XRCD,
    IBV_QPT_XRC_RECV, IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS, Synchronization, ibv_context, ibv_qp,
    ibv_qp_open_attr, ibv_srq, ibv_xrcd, ibv_xrcd_init_attr,
};
use crate::errno::Errno;
use crate::guard;
use crate::objects::{CONTEXTS, EXTENDED_DOMAINS, QUEUE_PAIRS, QueuePairParts, SHARED_RECEIVE_QUEUES};

/// `ibv_open_xrcd(3)`: NULL with `EINVAL` (not an open device, a member is missing in the mask, the file's domain exists and
/// `O_EXCL` is set), `EOPNOTSUPP` (an unknown bit in the mask), `EBADF` (no such descriptor), `EAGAIN` (the file has no domain and
/// `O_CREAT` is not set).
///
/// # Safety
/// `init` is readable.
pub(crate) unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    init: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    // SAFETY: the caller's promise is the same.
    guard::or_null(|| unsafe { open(context, init) })
}

/// Opens a domain; as `ibv_open_xrcd(3)`.
///
/// # Safety
/// `init` is readable.
pub unsafe fn open(
    context: *mut ibv_context,
    init: *const ibv_xrcd_init_attr,
) -> Result<*mut ibv_xrcd, Errno> {
    const MEMBERS: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    let engine = CONTEXTS.parent(context)?;
    // SAFETY: the caller's attributes are readable.
    let ibv_xrcd_init_attr { comp_mask, fd, oflags } = unsafe { init.read() };
    if comp_mask & !MEMBERS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if comp_mask != MEMBERS {
        return Err(Errno::EINVAL);
    }
    let file = match fd {
        -1 => None,
        ..-1 => return Err(Errno(libc::EBADF)),
        // SAFETY: it is not -1, and used for this call only: whether it names a file the kernel says.
        _ => Some(unsafe { BorrowedFd::borrow_raw(fd) }),
    };
    let file = file.map(|descriptor| DomainFile {
        descriptor,
        create: oflags & libc::O_CREAT != 0,
        exclusive: oflags & libc::O_EXCL != 0,
    });
    let domain = engine.open_extended_domain(file)?;
    Ok(EXTENDED_DOMAINS.reserve().fill(domain, |_| ibv_xrcd { context }))
}

/// `ibv_close_xrcd(3)`: 0, `ENOENT` (no such domain), `EBUSY` (queue pairs or shared receive queues made or opened through it are
/// there).
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
pub(crate) unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    guard::status(|| close(xrcd))
}

/// Closes a domain; as `ibv_close_xrcd(3)`.
pub fn close(xrcd: *mut ibv_xrcd) -> Result<(), Errno> {
    let claim = EXTENDED_DOMAINS.claim(xrcd)?;
    claim.engine().close()?;
    claim.retire();
    Ok(())
}

/// `ibv_get_srq_num(3)`: 0, `ENOENT` (unknown or overwritten handle), `EINVAL` (no queue of an XRC domain, which has no number).
///
/// # Safety
/// `srq_num` is writable.
pub(crate) unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int {
    guard::status(|| {
        let number = SHARED_RECEIVE_QUEUES.find(srq)?.number().ok_or(Errno::EINVAL)?;
        // SAFETY: the caller's place is writable.
        unsafe { srq_num.write(number.0) };
        Ok(())
    })
}

/// `ibv_open_qp(3)`: NULL with `EINVAL` (not an open device, a member that is needed is missing in the mask, a domain of another
/// context, no queue pair of that number in the domain, or none whose process answers), `EOPNOTSUPP` (an unknown bit in the mask, a type other than
/// `IBV_QPT_XRC_RECV`). Queue pairs are found of this process, and of others that have the domain open.
///
/// # Safety
/// `init` is readable.
pub(crate) unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    init: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    // SAFETY: the caller's promise is the same.
    guard::or_null(|| unsafe { open_queue_pair(context, init) })
}

/// # Safety
/// `init` is readable.
unsafe fn open_queue_pair(
    context: *mut ibv_context,
    init: *const ibv_qp_open_attr,
) -> Result<*mut ibv_qp, Errno> {
    const NEEDED: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    CONTEXTS.parent(context)?;
    // SAFETY: the caller's attributes are readable.
    let asked = unsafe { init.read() };
    if asked.comp_mask & !(NEEDED | IBV_QP_OPEN_ATTR_CONTEXT) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if asked.comp_mask & NEEDED != NEEDED {
        return Err(Errno::EINVAL);
    }
    if asked.qp_type != IBV_QPT_XRC_RECV {
        return Err(Errno::EOPNOTSUPP);
    }
    let domain = EXTENDED_DOMAINS.parent(asked.xrcd)?;
    // SAFETY: the domain was found.
    if unsafe { (*asked.xrcd).context } != context {
        return Err(Errno::EINVAL);
    }
    let reservation = QUEUE_PAIRS.reserve();
    let opened = domain.open_queue_pair(QpNumber(asked.qp_num), reservation.cookie())?;
    let has_context = asked.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT != 0;
    let qp_context = if has_context { asked.qp_context } else { ptr::null_mut() };
    Ok(reservation.fill(QueuePairParts::opened(opened), |handle| {
        work_request::extended(ibv_qp {
            context,
            qp_context,
            pd: ptr::null_mut(),
            send_cq: ptr::null_mut(),
            recv_cq: ptr::null_mut(),
            srq: ptr::null_mut(),
            handle,
            qp_num: asked.qp_num,
            state: QpState::Reset as c_int,
            qp_type: asked.qp_type,
            synchronization: Synchronization::NEW,
            events_completed: 0,
        })
    }))
}
