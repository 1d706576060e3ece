//! Memory of this process alone: put in place of other memory, in one step, and what the kernel is told about it.

use std::io;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::address_file::{Reserve, Rights};

/// Replaces the memory at `address` by new private memory of zeros, in one step.
///
/// # Safety
/// The memory is the caller's to lose: what it holds stands elsewhere, and nobody else uses it meanwhile.
pub unsafe fn map_zeros_over(
    address: usize,
    length: usize,
    rights: Rights,
    reserve: Reserve,
) -> io::Result<()> {
    // SAFETY: the caller vouches for what is replaced.
    unsafe {
        rustix::mm::mmap_anonymous(
            address as *mut _,
            length,
            rights.map(),
            MapFlags::PRIVATE | MapFlags::FIXED | reserve.flags(),
        )?;
    }
    Ok(())
}

/// Replaces the memory at `address` by addresses that nobody can touch and that nothing else is mapped at; where even that is
/// refused, by none. Asks for no memory.
///
/// # Safety
/// The memory is the caller's to lose, and nobody touches it again.
pub unsafe fn map_nothing_over(address: usize, length: usize) -> io::Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the caller vouches for what is replaced.
    let mapped = unsafe { rustix::mm::mmap_anonymous(address as *mut _, length, ProtFlags::empty(), flags) };
    if mapped.is_err() {
        // SAFETY: as above.
        unsafe { rustix::mm::munmap(address as *mut _, length)? };
    }
    Ok(())
}

/// Changes what a mapping allows.
///
/// # Safety
/// The rights are those the program gave the memory, or more for a moment.
pub unsafe fn set_rights(address: usize, length: usize, rights: Rights) -> io::Result<()> {
    // SAFETY: the caller vouches for the rights.
    unsafe { rustix::mm::mprotect(address as *mut _, length, rights.protect())? };
    Ok(())
}

/// Makes the kernel enter the pages of a range into the page table, with their own copies where the mapping is private.
/// `write` needs the right to write. Contents stay. Kernels before 5.14, which do not know the call, are imitated: a locked
/// addition of zero to each page.
pub fn populate(address: usize, length: usize, write: bool) -> io::Result<()> {
    let advice = if write { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
    loop {
        // SAFETY: this advice changes no contents; on a range that is not mapped it fails.
        match unsafe { rustix::mm::madvise(address as *mut _, length, advice) } {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(rustix::io::Errno::INVAL) if write && !crate::virtual_memory::can_populate() => {
                for page in (address..address + length).step_by(crate::PAGE) {
                    // SAFETY: the caller's range is mapped and may be written; adding zero in one locked instruction changes
                    // nothing and loses no write of another thread.
                    unsafe {
                        std::sync::atomic::AtomicU8::from_ptr(page as *mut u8)
                            .fetch_add(0, std::sync::atomic::Ordering::Relaxed);
                    }
                }
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Keeps a range out of children (`MADV_DONTFORK`), as the device libraries do after `ibv_fork_init`.
pub fn keep_from_children(address: usize, length: usize) -> io::Result<()> {
    // SAFETY: this advice concerns children only.
    unsafe { rustix::mm::madvise(address as *mut _, length, Advice::LinuxDontFork)? };
    Ok(())
}
