//! Memory of this process alone, out of address space that was reserved before.
//!
//! What is lent is in core dumps, as a program's heap is; what is only reserved is not. None of these calls changes `errno` or
//! asks for memory of the C library: an allocator stands on them.

use std::ffi::CStr;
use std::io;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// Keeps a reserved range out of core dumps.
pub fn leave_out_of_dumps(address: usize, length: usize) {
    // SAFETY: advice about dumps leaves bytes and rights alone. A kernel built without core dumps may refuse.
    let _ = unsafe { rustix::mm::madvise(address as *mut _, length, Advice::LinuxDontDump) };
}

/// Makes pages of a reserved range usable. They hold zeros. `/proc/PID/maps` shows the name beside them (Linux 5.17, where it
/// is built in).
///
/// # Safety
/// The range is of `reserve_addresses`, the caller's, and was not lent since, or was given back.
pub unsafe fn lend_pages(address: usize, length: usize, name: &'static CStr) -> io::Result<()> {
    const SET_VMA: libc::c_long = 0x5356_4d41;
    const ANONYMOUS_NAME: libc::c_long = 0;
    let _errno = crate::ErrnoKept::new();
    // SAFETY: the caller vouches for the range; nothing is there that rights could expose. The kernel copies the name; one
    // that knows no names refuses.
    unsafe {
        rustix::mm::mprotect(address as *mut _, length, MprotectFlags::READ | MprotectFlags::WRITE)?;
        let _ = rustix::mm::madvise(address as *mut _, length, Advice::LinuxDoDump);
        libc::syscall(libc::SYS_prctl, SET_VMA, ANONYMOUS_NAME, address, length, name.as_ptr());
    }
    Ok(())
}

/// Gives lent pages back to the kernel; the range stays reserved. Locked pages go too, which `madvise(2)` would refuse.
///
/// # Safety
/// The range was lent by [`lend_pages`] and nobody uses it any more.
pub unsafe fn take_pages_back(address: usize, length: usize) -> io::Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: what is replaced is the caller's.
    unsafe { rustix::mm::mmap_anonymous(address as *mut _, length, ProtFlags::empty(), flags)? };
    leave_out_of_dumps(address, length);
    Ok(())
}

/// New memory where the kernel chooses, zeros. `unmap_range` ends it.
pub fn map_private_pages(length: usize) -> io::Result<usize> {
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping where nothing is: without MAP_FIXED the kernel replaces nothing.
    let start =
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, rights, MapFlags::PRIVATE)? };
    Ok(start as usize)
}

/// Whether this process may have any amount of address space (`RLIMIT_AS`).
pub fn address_space_is_unlimited() -> bool {
    rustix::process::getrlimit(rustix::process::Resource::As).current.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGE, find_area, reserve_addresses, unmap_range};

    #[test]
    fn lent_pages_are_zeros_each_time_and_only_they_can_be_used() {
        let start = reserve_addresses(0, 4 * PAGE).unwrap();
        leave_out_of_dumps(start, 4 * PAGE);
        let usable = |page: usize| find_area(start + page * PAGE).unwrap().unwrap().allows(true);
        for _ in 0..2 {
            // SAFETY: the range was reserved above, and each turn gives back what it lent.
            unsafe {
                lend_pages(start + PAGE, 2 * PAGE, c"test").unwrap();
                let word = (start + PAGE) as *mut u64;
                assert_eq!(word.read(), 0);
                word.write(7);
                assert_eq!([0, 1, 2, 3].map(usable), [false, true, true, false]);
                take_pages_back(start + PAGE, 2 * PAGE).unwrap();
            }
            assert_eq!([0, 1, 2, 3].map(usable), [false; 4]);
        }
        // SAFETY: this test's own.
        unsafe { unmap_range(start, 4 * PAGE).unwrap() };
    }

    #[test]
    fn reserved_addresses_are_not_dumped_and_lent_ones_are() {
        let start = reserve_addresses(0, 3 * PAGE).unwrap();
        leave_out_of_dumps(start, 3 * PAGE);
        // In the area that the page is of: it may be one with a neighbour's.
        let holds = |line: &str, address: usize| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).ok();
            range.is_some_and(|(start, end)| {
                number(start).is_some_and(|start| start <= address)
                    && number(end).is_some_and(|end| address < end)
            })
        };
        let dumped = |page: usize| {
            // Areas that other threads change meanwhile may be missing from what is read.
            let find = |_| {
                let areas = std::fs::read_to_string("/proc/self/smaps").unwrap();
                let mut lines = areas.lines().skip_while(|line| !holds(line, start + page * PAGE));
                let flags = lines.find(|line| line.starts_with("VmFlags:"))?;
                Some(!flags.split(' ').any(|flag| flag == "dd"))
            };
            (0..1000).find_map(find).unwrap()
        };
        assert!(!dumped(0));
        // SAFETY: the range was reserved above.
        unsafe { lend_pages(start + PAGE, PAGE, c"test").unwrap() };
        assert_eq!([0, 1, 2].map(dumped), [false, true, false]);
        // SAFETY: it was lent just now; the range is this test's own.
        unsafe {
            take_pages_back(start + PAGE, PAGE).unwrap();
            assert!(!dumped(0));
            unmap_range(start, 3 * PAGE).unwrap();
        }
    }
}
