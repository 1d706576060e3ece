//! Buffers that the library allocates as the device likes them, and hints about how a card should reach memory. A device without silicon
//! likes ordinary memory, and no hint makes a difference to it.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use std::sync::Arc;

use super::region;
use crate::abi::{
    IBV_DMAH_INIT_ATTR_MASK_CPU_ID, IBV_DMAH_INIT_ATTR_MASK_PH, IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE,
    ibv_context, ibv_dmah, ibv_dmah_init_attr, ibv_mr, ibv_pd,
};
use crate::errno::Errno;
use crate::guard;
use crate::objects::{BUFFERS, HINTS, ZONES, working};

versions! {
    nonic_ibv_alloc_buf => "ibv_alloc_buf@@IBVERBS_1.17";
    nonic_ibv_free_buf => "ibv_free_buf@@IBVERBS_1.17";
    nonic_ibv_reg_buf_mr => "ibv_reg_buf_mr@@IBVERBS_1.17";
    nonic_ibv_alloc_dmah => "ibv_alloc_dmah@@IBVERBS_1.15";
    nonic_ibv_dealloc_dmah => "ibv_dealloc_dmah@@IBVERBS_1.15";
}

/// What programs see of a buffer: nothing.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ibv_buf(u64);

/// Memory of whole pages, zero at first, that is no program's allocator's.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<c_void>,
    length: usize,
    /// The domain it was allocated from, as a number to compare.
    pd: usize,
}

// SAFETY: it is the memory's place and owner, and nothing is done with it but to give it back.
unsafe impl Send for Buffer {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Buffer {}

impl Buffer {
    fn allocate(pd: *const ibv_pd, length: usize) -> Result<Self, Errno> {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a mapping of its own, where nothing is.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, rights, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Errno::ENOMEM);
        }
        let start = NonNull::new(start).ok_or(Errno::ENOMEM)?;
        Ok(Self { start, length, pd: pd.addr() })
    }

    fn contains(&self, address: *const c_void, length: usize) -> bool {
        let offset = address.addr().checked_sub(self.start.as_ptr().addr());
        offset.is_some_and(|offset| offset <= self.length && length <= self.length - offset)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is this buffer's, and nobody uses it any more: the contract of `ibv_free_buf(3)`.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}

/// `ibv_alloc_buf(3)` of release 64: memory, and the buffer that it is. NULL with `EINVAL` (unknown domain, no bytes), `ENOMEM`.
///
/// # Safety
/// `buffer` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_alloc_buf(
    pd: *mut ibv_pd,
    length: usize,
    buffer: *mut *mut c_void,
) -> *mut c_void {
    guard::or_null(|| {
        ZONES.parent(pd)?;
        if length == 0 || buffer.is_null() {
            return Err(Errno::EINVAL);
        }
        let memory = Buffer::allocate(pd, length)?;
        let start = memory.start.as_ptr();
        let handle = BUFFERS.reserve().fill(Arc::new(memory), |_| ibv_buf(0));
        // SAFETY: the caller's place is writable.
        unsafe { buffer.write(handle.cast()) };
        Ok(start)
    })
}

/// `ibv_free_buf(3)` of release 64: the memory is gone. What is no buffer is left alone.
///
/// # Safety
/// Nobody uses the memory any more, and no region is registered on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_free_buf(buffer: *mut c_void) {
    guard::silent(|| {
        if let Ok(claim) = BUFFERS.claim(buffer.cast()) {
            claim.retire();
        }
    });
}

/// `ibv_reg_buf_mr(3)` of release 64: as [`region::nonic_ibv_reg_mr`], of bytes of a buffer. NULL with `EINVAL` (unknown buffer, another
/// domain than it was allocated from, not all in the buffer), and what that call says.
///
/// # Safety
/// As for [`region::nonic_ibv_reg_mr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_reg_buf_mr(
    pd: *mut ibv_pd,
    buffer: *mut c_void,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    guard::or_null(|| {
        check_buffer(pd, buffer, address, length)?;
        region::register(pd, address, length, address.addr() as u64, access as u32)
    })
}

/// Whether bytes may be registered as some of a buffer.
pub(super) fn check_buffer(
    pd: *const ibv_pd,
    buffer: *const c_void,
    address: *const c_void,
    length: usize,
) -> Result<(), Errno> {
    let memory = BUFFERS.parent(buffer.cast())?;
    if memory.pd == pd.addr() && memory.contains(address, length) { Ok(()) } else { Err(Errno::EINVAL) }
}

/// `ibv_alloc_dmah(3)` of release 59: hints for `ibv_reg_mr_ex(3)`. NULL with `EINVAL` (not an open device, unknown bits of `comp_mask`, a
/// processor that the machine cannot have, a processing hint above 3, an unknown kind of memory).
///
/// # Safety
/// `attr` is readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_alloc_dmah(
    context: *mut ibv_context,
    attr: *mut ibv_dmah_init_attr,
) -> *mut ibv_dmah {
    guard::or_null(|| {
        working(context)?;
        // SAFETY: the caller's structure is readable.
        let (mask, cpu, hint, kind) =
            unsafe { ((*attr).comp_mask, (*attr).cpu_id, (*attr).ph, (*attr).tph_mem_type) };
        let [of_cpu, of_hint, of_kind] = [
            IBV_DMAH_INIT_ATTR_MASK_CPU_ID,
            IBV_DMAH_INIT_ATTR_MASK_PH,
            IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE,
        ];
        // SAFETY: asks for a number.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        let wrong = mask & !(of_cpu | of_hint | of_kind) != 0
            || (mask & of_cpu != 0 && i64::from(cpu) >= cpus)
            || (mask & of_hint != 0 && hint > 3)
            || (mask & of_kind != 0 && kind > 1);
        if wrong {
            return Err(Errno::EINVAL);
        }
        Ok(HINTS.reserve().fill((), |_| ibv_dmah { context }))
    })
}

/// `ibv_dealloc_dmah(3)` of release 59: 0, `ENOENT` (unknown hints). Regions that were made with them stay.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_dealloc_dmah(hints: *mut ibv_dmah) -> c_int {
    guard::status(|| {
        HINTS.claim(hints)?.retire();
        Ok(())
    })
}

/// Whether hints may be given for a region of this domain: those of another context are no such.
pub(super) fn check_hints(pd: *const ibv_pd, hints: *const ibv_dmah) -> Result<(), Errno> {
    HINTS.parent(hints)?;
    // SAFETY: both were found; memory of what goes meanwhile is kept.
    if unsafe { (*hints).context == (*pd).context } { Ok(()) } else { Err(Errno::EINVAL) }
}
