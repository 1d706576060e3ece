//! Memory regions of program memory.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use nonic_device::{ProgramAddress, Region, RegionChange, RegionMemory, RegionRequest};

use super::buffer::{check_buffer, check_hints};
use crate::abi::{
    IBV_REG_MR_MASK_ADDR, IBV_REG_MR_MASK_BUF, IBV_REG_MR_MASK_DMAH, IBV_REG_MR_MASK_FD,
    IBV_REG_MR_MASK_FD_OFFSET, IBV_REG_MR_MASK_IOVA, IBV_REREG_MR_CHANGE_ACCESS, IBV_REREG_MR_CHANGE_PD,
    IBV_REREG_MR_CHANGE_TRANSLATION, IBV_REREG_MR_ERR_CMD, IBV_REREG_MR_ERR_INPUT, ibv_mr, ibv_mr_init_attr,
    ibv_pd,
};
use crate::convert;
use crate::errno::Errno;
use crate::guard;
use crate::objects::{REGIONS, ZONES};

versions! {
    nonic_ibv_reg_mr => "ibv_reg_mr@@IBVERBS_1.1";
    nonic_ibv_reg_mr_iova => "ibv_reg_mr_iova@@IBVERBS_1.7";
    nonic_ibv_reg_mr_iova2 => "ibv_reg_mr_iova2@@IBVERBS_1.8";
    nonic_ibv_reg_mr_ex => "ibv_reg_mr_ex@@IBVERBS_1.15";
    nonic_ibv_rereg_mr => "ibv_rereg_mr@@IBVERBS_1.1";
    nonic_ibv_dereg_mr => "ibv_dereg_mr@@IBVERBS_1.1";
}

/// `ibv_reg_mr(3)`: peers name the bytes by their own addresses, or from 0 with `IBV_ACCESS_ZERO_BASED`.
///
/// With `IBV_ACCESS_ON_DEMAND` nothing needs to be mapped before a request uses it, and `SIZE_MAX` bytes from NULL are the whole
/// address space.
///
/// NULL with `EINVAL` (unknown domain or access bits, remote write or atomic without local write,
/// address and length wrap around, the whole address space under another name than its own), `EFAULT` (not mapped, or not writable where writing is asked for),
/// `ENOMEM` (no more regions), `EOPNOTSUPP` (on-demand paging where a sandbox forbids what it needs, flushes to persistence).
///
/// # Safety
/// The memory stays the program's to describe: it is not read here, and what happens to it later happens
/// through the system or through mappings, never through a Rust reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_reg_mr(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    guard::or_null(|| register(pd, address, length, address.addr() as u64, access as u32))
}

/// `ibv_reg_mr_iova(3)`: as [`nonic_ibv_reg_mr`], but the first byte is named `iova`.
///
/// # Safety
/// As for [`nonic_ibv_reg_mr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    guard::or_null(|| register(pd, address, length, iova, access as u32))
}

/// What the header calls when the access bits are not constant or contain optional ones: as
/// [`nonic_ibv_reg_mr_iova`]. Optional bits are dropped.
///
/// # Safety
/// As for [`nonic_ibv_reg_mr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> *mut ibv_mr {
    guard::or_null(|| register(pd, address, length, iova, access))
}

/// `ibv_reg_mr_ex(3)` of release 60: as [`nonic_ibv_reg_mr_iova2`], with the address that `IBV_REG_MR_MASK_ADDR` announces, named by
/// `iova` if `IBV_REG_MR_MASK_IOVA` does; with `IBV_REG_MR_MASK_BUF` as [`super::buffer::nonic_ibv_reg_buf_mr`]. Hints
/// (`IBV_REG_MR_MASK_DMAH`) change nothing. Besides what those refuse: `EINVAL` (no address, unknown bits, unknown hints or those of
/// another context, a buffer and a descriptor), `EOPNOTSUPP` (memory of other devices).
///
/// # Safety
/// As for [`nonic_ibv_reg_mr`]; `attr` is readable, as far as its mask says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_reg_mr_ex(pd: *mut ibv_pd, attr: *const ibv_mr_init_attr) -> *mut ibv_mr {
    guard::or_null(|| {
        ZONES.parent(pd)?;
        // SAFETY: the caller says that they are readable, and members count only where the mask names them.
        let (mask, length, access, iova, address) =
            unsafe { ((*attr).comp_mask, (*attr).length, (*attr).access, (*attr).iova, (*attr).addr) };
        let of_others = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET;
        let given = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_DMAH | IBV_REG_MR_MASK_BUF;
        let has = |bit| mask & bit != 0;
        if mask & !(of_others | given) != 0 || (has(of_others) && has(IBV_REG_MR_MASK_BUF)) {
            return Err(Errno::EINVAL);
        }
        if has(of_others) {
            return Err(Errno::EOPNOTSUPP);
        }
        if !has(IBV_REG_MR_MASK_ADDR) {
            return Err(Errno::EINVAL);
        }
        if has(IBV_REG_MR_MASK_DMAH) {
            // SAFETY: the mask says that it is there.
            check_hints(pd, unsafe { (*attr).dmah })?;
        }
        if has(IBV_REG_MR_MASK_BUF) {
            // SAFETY: as above.
            check_buffer(pd, unsafe { (*attr).buf }, address, length)?;
        }
        let iova = if has(IBV_REG_MR_MASK_IOVA) { iova } else { address.addr() as u64 };
        register(pd, address, length, iova, access as u32)
    })
}

pub(super) fn register(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> Result<*mut ibv_mr, Errno> {
    let zone = ZONES.parent(pd)?;
    let rights = convert::region_rights(access)?;
    // SAFETY: the contract of `ibv_reg_mr(3)`: the memory is the program's to keep until it deregisters.
    let first = unsafe { ProgramAddress::new(address.expose_provenance()) };
    let memory = match rights.on_demand {
        true => RegionMemory::OnDemand { address: first, length: length as u64 },
        false => RegionMemory::Program { address: first, length },
    };
    let base = if rights.zero_based { 0 } else { iova };
    let region = zone.register(RegionRequest { memory, base, access: rights.access })?;
    Ok(publish(pd, address, length, region))
}

/// Makes the program's structure for a new region.
pub(super) fn publish(pd: *mut ibv_pd, addr: *mut c_void, length: usize, region: Arc<Region>) -> *mut ibv_mr {
    // SAFETY: the domain was found a moment ago; a program that destroys it meanwhile would find it busy.
    let context = unsafe { (*pd).context };
    let (lkey, rkey) = (region.local_key().0, region.remote_key().0);
    REGIONS.reserve().fill(region, |handle| ibv_mr { context, pd, addr, length, handle, lkey, rkey })
}

/// `ibv_rereg_mr(3)`: 0, and domain, memory or rights are others; nothing is reached by what held before. Memory that changes is
/// named by its own addresses. The keys stay, but for one case, so a program reads them again: a peer was stopped in the middle of
/// an operation.
///
/// What the libraries of cards refuse is `IBV_REREG_MR_ERR_INPUT`, with `errno` `EINVAL`: unknown flags, rights without
/// `IBV_REREG_MR_CHANGE_ACCESS`, no address or length with `IBV_REREG_MR_CHANGE_TRANSLATION`, a null or imported region, no domain with
/// `IBV_REREG_MR_CHANGE_PD`. What their kernels refuse is `IBV_REREG_MR_ERR_CMD`, with `errno`: `ENOENT` (unknown or overwritten
/// handle), `EINVAL` (no flags, a domain of another context, a region of device memory, and what [`nonic_ibv_reg_mr`] refuses),
/// `EBUSY` (a window is bound to it), `EFAULT`, `ENOMEM`, `EOPNOTSUPP` as there. The region is as it was after either.
///
/// # Safety
/// As for [`nonic_ibv_reg_mr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let mut refused = IBV_REREG_MR_ERR_CMD;
    let done = guard::caught(|| {
        let claim = REGIONS.claim(mr)?;
        let all = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
        let changes = |flag: c_int| flags & flag != 0;
        let moves = changes(IBV_REREG_MR_CHANGE_TRANSLATION);
        if flags & !all != 0
            || (moves && (address.is_null() || length == 0))
            || (access != 0 && !changes(IBV_REREG_MR_CHANGE_ACCESS))
            || (changes(IBV_REREG_MR_CHANGE_PD) && pd.is_null())
            || claim.engine().is_null()
            || REGIONS.is_import(mr)
        {
            refused = IBV_REREG_MR_ERR_INPUT;
            return Err(Errno::EINVAL);
        }
        if flags == 0 {
            return Err(Errno::EINVAL);
        }
        let rights =
            changes(IBV_REREG_MR_CHANGE_ACCESS).then(|| convert::region_rights(access as u32)).transpose()?;
        let zone = changes(IBV_REREG_MR_CHANGE_PD).then(|| ZONES.parent(pd)).transpose()?;
        // SAFETY: the contract of `ibv_rereg_mr(3)`, as in `register`.
        let memory = moves.then(|| (unsafe { ProgramAddress::new(address.expose_provenance()) }, length));
        let region = claim.engine().change(RegionChange {
            zone,
            memory,
            on_demand: rights.map(|rights| rights.on_demand),
            zero_based: rights.is_some_and(|rights| rights.zero_based),
            access: rights.map(|rights| rights.access),
        })?;
        // SAFETY: the region is claimed, so its structure is alive, and nobody else changes it.
        unsafe {
            ((*mr).lkey, (*mr).rkey) = (region.local_key().0, region.remote_key().0);
            if changes(IBV_REREG_MR_CHANGE_PD) {
                (*mr).pd = pd;
            }
            if moves {
                ((*mr).addr, (*mr).length) = (address, length);
            }
        }
        claim.replace(region);
        Ok(0)
    });
    done.unwrap_or_else(|errno| {
        errno.set();
        refused
    })
}

/// `ibv_dereg_mr(3)`: 0, `ENOENT` (unknown or overwritten handle, or deregistered by another name), `EBUSY` (a window is bound to it). After
/// it returns nothing can reach the memory any more.
///
/// # Safety
/// None beyond the signature's: the pointer is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    guard::status(|| {
        let claim = REGIONS.claim(mr)?;
        if claim.engine().is_deregistered() {
            return Err(Errno::ENOENT);
        }
        claim.engine().deregister()?;
        claim.retire();
        Ok(())
    })
}
