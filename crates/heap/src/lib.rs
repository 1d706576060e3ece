//! The library's own memory, apart from the program's heap: the allocator of `libnonic.so`.
//!
//! A program may unmap around its own allocations, map over them, and free what is left, and it counts on the C library's heap
//! looking as if it were alone in it. It may bring an allocator of its own, which is in no state to be entered from a call of
//! ours. So what the engine allocates lies in address space of its own (`ranges.rs`), and no call of it enters the C library's
//! allocator.
//!
//! Three kinds of memory, told apart by address and size:
//! - *small* allocations are dlmalloc's;
//! - *large* ones are blocks of the ranges, and go back to the kernel at once;
//! - *lone* ones are mappings of their own: what is larger than a range, and whatever is asked for on a thread that is inside
//!   this allocator at that moment. That happens in a signal handler, and in handlers around `fork`. What such a caller frees of
//!   the first two kinds is lost: it is a few bytes, once.
//!
//! One lock, which a thread that forks holds until it has forked.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use dlmalloc::Dlmalloc;
use nonic_sys::{OwnedLock, PAGE, map_private_pages, unmap_range};

use ranges::{BLOCK, Ranges};

mod ranges;

/// From this many bytes on an allocation is large.
const LARGE: usize = 1 << 20;

static RANGES: Ranges = Ranges::new();
static LOCK: OwnedLock = OwnedLock::new();
static SMALL: Small = Small(UnsafeCell::new(Dlmalloc::new_with_allocator(Source)));
/// The thread that forks took the lock, and gives it back. Only who has the lock looks.
static TAKEN_TO_FORK: AtomicBool = AtomicBool::new(false);

/// The allocator, for `#[global_allocator]`: one in a process, whatever the number of values.
#[derive(Debug)]
pub struct Heap;

struct Small(UnsafeCell<Dlmalloc<Source>>);

// SAFETY: used by the thread that has `LOCK` only.
unsafe impl Sync for Small {}

/// Where dlmalloc's memory comes from.
struct Source;

/// Takes and gives back the lock around every fork from now on, so that no child finds the heap in the middle of a change.
/// Called when the library is loaded: handlers around `fork` that are known earlier run inside these, where the thread that
/// forks may allocate, but others not.
pub fn survive_forks() {
    nonic_sys::around_forks(before_fork, after_fork, after_fork_in_child);
}

extern "C" fn before_fork() {
    // A thread that forks in a signal handler, in the middle of a change, goes on with it in the child as well.
    if LOCK.lock() {
        TAKEN_TO_FORK.store(true, Ordering::Relaxed);
    }
}

extern "C" fn after_fork() {
    if TAKEN_TO_FORK.swap(false, Ordering::Relaxed) {
        LOCK.unlock();
    }
}

extern "C" fn after_fork_in_child() {
    if TAKEN_TO_FORK.swap(false, Ordering::Relaxed) {
        LOCK.unlock_in_child();
    }
}

/// Runs `change` with dlmalloc and the ranges to itself. `None`: this thread is in the middle of such a change.
#[inline]
fn alone<T>(change: impl FnOnce(&mut Dlmalloc<Source>) -> T) -> Option<T> {
    if !LOCK.lock() {
        return None;
    }
    let ends_in_order = AbortsIfDropped;
    // SAFETY: the lock is this thread's and was not before, so nobody else has a reference.
    let result = change(unsafe { &mut *SMALL.0.get() });
    std::mem::forget(ends_in_order);
    LOCK.unlock();
    Some(result)
}

/// Ends the process where dlmalloc finds that the heap was overwritten and panics: nobody could go on.
struct AbortsIfDropped;

impl Drop for AbortsIfDropped {
    fn drop(&mut self) {
        std::process::abort();
    }
}

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= BLOCK
}

// SAFETY: every kind of memory comes from one place and goes back there, as its address and layout tell; none is given out
// twice before it is freed. Nothing here unwinds.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let found = if is_large(layout) {
            alone(|_| RANGES.lend(layout.size()).map_or(ptr::null_mut(), |address| address as *mut u8))
        } else {
            // SAFETY: any size and power of two are taken.
            alone(|small| unsafe { small.malloc(layout.size(), layout.align()) })
        };
        match found {
            Some(place) if !place.is_null() => place,
            _ => map_alone(layout),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        let place = unsafe { self.alloc(layout) };
        let is_fresh = is_large(layout) || !RANGES.hold(place as usize);
        if !place.is_null() && !is_fresh {
            // SAFETY: `alloc` gave as many bytes.
            unsafe { place.write_bytes(0, layout.size()) };
        }
        place
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if !RANGES.hold(place as usize) {
            unmap_alone(place, layout);
            return;
        }
        // Lost where this thread is inside: see above.
        let _ = alone(|small| {
            // SAFETY: it came from `alloc` with this layout, and the caller is done with it.
            unsafe {
                if is_large(layout) {
                    let _ = RANGES.give_back(place as usize, layout.size());
                } else {
                    small.free(place, layout.size(), layout.align());
                }
            }
        });
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: `size` is not 0 and fits, by the caller's promise, and the alignment was a layout's before.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if !is_large(layout) && !is_large(wanted) && RANGES.hold(place as usize) {
            // SAFETY: dlmalloc gave it with this layout.
            let moved = alone(|small| unsafe { small.realloc(place, layout.size(), layout.align(), size) });
            if let Some(moved) = moved.filter(|moved| !moved.is_null()) {
                return moved;
            }
        }
        // SAFETY: both are as long as what is copied, and the old one is given up only if there is a new one.
        unsafe {
            let new = self.alloc(wanted);
            if !new.is_null() {
                ptr::copy_nonoverlapping(place, new, layout.size().min(size));
                self.dealloc(place, layout);
            }
            new
        }
    }
}

/// A mapping of its own.
#[cold]
fn map_alone(layout: Layout) -> *mut u8 {
    let length = layout.size().next_multiple_of(PAGE);
    let spare = if layout.align() > PAGE { layout.align() } else { 0 };
    let Some(all) = length.checked_add(spare) else { return ptr::null_mut() };
    let Ok(start) = map_private_pages(all) else { return ptr::null_mut() };
    let place = start.next_multiple_of(layout.align());
    let end = place + length;
    // SAFETY: mapped just now, and nobody knows of it.
    unsafe {
        if place > start {
            let _ = unmap_range(start, place - start);
        }
        if start + all > end {
            let _ = unmap_range(end, start + all - end);
        }
    }
    place as *mut u8
}

#[cold]
fn unmap_alone(place: *mut u8, layout: Layout) {
    // SAFETY: `map_alone` mapped it for this layout, and the caller is done with it.
    let _ = unsafe { unmap_range(place as usize, layout.size().next_multiple_of(PAGE)) };
}

// SAFETY: what is lent is used by nobody else until it comes back, and is of the length that is told.
unsafe impl dlmalloc::Allocator for Source {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        match RANGES.lend(size.next_multiple_of(BLOCK)) {
            Some(address) => (address as *mut u8, size.next_multiple_of(BLOCK), 0),
            None => (ptr::null_mut(), 0, 0),
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, place: *mut u8, old: usize, new: usize) -> bool {
        let kept = new.next_multiple_of(BLOCK);
        // SAFETY: dlmalloc had it from `alloc`, and is done with the end of it.
        kept == new && unsafe { RANGES.give_back(place as usize + new, old - new) }
    }

    fn free(&self, place: *mut u8, size: usize) -> bool {
        // SAFETY: as above.
        unsafe { RANGES.give_back(place as usize, size) }
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}
