//! `poll(2)`, `select(2)` and their sisters.

use core::ffi::{c_int, c_ulong};
use core::mem::MaybeUninit;
use core::ptr;

use libc::{fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use nonic_neighbour::fail;

use crate::engine::{is_known, table};
use crate::real;

/// A number of milliseconds as the engine takes it; `None`: for ever.
pub(crate) fn milliseconds(timeout: c_int) -> Option<timespec> {
    let timeout = i64::from(u32::try_from(timeout).ok()?);
    Some(timespec { tv_sec: timeout / 1000, tv_nsec: timeout % 1000 * 1_000_000 })
}

pub(crate) fn pointer(time: Option<&timespec>) -> *const timespec {
    time.map_or(ptr::null(), ptr::from_ref)
}

/// Calls `work` with the thread's signals masked as `mask` says, if it says something.
///
/// # Safety
/// `mask` is NULL or readable.
pub(crate) unsafe fn masked(mask: *const sigset_t, work: impl FnOnce() -> c_int) -> c_int {
    if mask.is_null() {
        return work();
    }
    let mut before = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: the caller says so; the place is a local, which is filled in if the call succeeds.
    unsafe {
        let failed = libc::pthread_sigmask(libc::SIG_SETMASK, mask, before.as_mut_ptr());
        if failed != 0 {
            return fail(failed);
        }
        let answer = work();
        let errno = nonic_neighbour::errno();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        nonic_neighbour::set_errno(errno);
        answer
    }
}

/// Whether one of the entries is the engine's.
///
/// # Safety
/// `entries` is NULL or leads to `count` entries.
unsafe fn has_known(entries: *const pollfd, count: nfds_t) -> bool {
    // SAFETY: the caller says so.
    !entries.is_null() && (0..count as usize).any(|place| is_known(unsafe { (*entries.add(place)).fd }))
}

/// `poll(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(entries: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the program's promise is the same.
    unsafe {
        if !has_known(entries, count) {
            return real::poll(entries, count, timeout);
        }
        let time = milliseconds(timeout);
        (table().poll)(entries, count as usize, pointer(time.as_ref()))
    }
}

/// `ppoll(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    entries: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's promise is the same.
    unsafe {
        if !has_known(entries, count) {
            return real::ppoll(entries, count, timeout, mask);
        }
        masked(mask, || (table().poll)(entries, count as usize, timeout))
    }
}

unsafe extern "C" {
    /// Ends a program that would write beyond a buffer.
    fn __chk_fail() -> !;
}

fn check(count: nfds_t, bytes: usize) {
    if count as usize > bytes / size_of::<pollfd>() {
        // SAFETY: ends the program.
        unsafe { __chk_fail() };
    }
}

/// `poll` of a program compiled with `_FORTIFY_SOURCE`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
    entries: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    bytes: usize,
) -> c_int {
    check(count, bytes);
    // SAFETY: as in C.
    unsafe { poll(entries, count, timeout) }
}

/// `ppoll` of a program compiled with `_FORTIFY_SOURCE`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    entries: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    bytes: usize,
) -> c_int {
    check(count, bytes);
    // SAFETY: as in C.
    unsafe { ppoll(entries, count, timeout, mask) }
}

const BITS: usize = c_ulong::BITS as usize;

/// Whether one of the numbers in the sets is the engine's.
///
/// # Safety
/// Each set is NULL or as long as `count` asks for.
unsafe fn has_known_bit(count: c_int, sets: [*const fd_set; 3]) -> bool {
    let count = usize::try_from(count).unwrap_or(0).min(libc::FD_SETSIZE);
    sets.iter().filter(|set| !set.is_null()).any(|set| {
        (0..count.div_ceil(BITS)).any(|word| {
            // SAFETY: the caller says so.
            let mut bits = unsafe { set.cast::<c_ulong>().add(word).read_unaligned() };
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                if word * BITS + bit < count && is_known((word * BITS + bit) as c_int) {
                    return true;
                }
                bits &= bits - 1;
            }
            false
        })
    })
}

/// `select(2)`. The time that is left is not told.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    input: *mut fd_set,
    output: *mut fd_set,
    exceptions: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the program's promise is the same.
    unsafe {
        if !has_known_bit(count, [input, output, exceptions].map(<*mut fd_set>::cast_const)) {
            return real::select(count, input, output, exceptions, timeout);
        }
        let time = (!timeout.is_null()).then(|| {
            let time = timeout.read_unaligned();
            let seconds = time.tv_sec.saturating_add(time.tv_usec.div_euclid(1_000_000));
            timespec { tv_sec: seconds, tv_nsec: time.tv_usec.rem_euclid(1_000_000) * 1000 }
        });
        (table().select)(count, input, output, exceptions, pointer(time.as_ref()))
    }
}

/// `pselect(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    input: *mut fd_set,
    output: *mut fd_set,
    exceptions: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's promise is the same.
    unsafe {
        if !has_known_bit(count, [input, output, exceptions].map(<*mut fd_set>::cast_const)) {
            return real::pselect(count, input, output, exceptions, timeout, mask);
        }
        masked(mask, || (table().select)(count, input, output, exceptions, timeout))
    }
}
