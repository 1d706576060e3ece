//! Memory the program hands over by address for the length of a call: looked at first, so that a wrong address is an error
//! and not a crash.

#![allow(unsafe_code)]

use std::cell::Cell;

use nonic_memory::SharedSlice;
use nonic_sys::{find_area, own_stack, touch_pages};

use crate::ScifError;

/// A range that is known to be mapped.
#[derive(Clone, Copy)]
struct Known {
    start: usize,
    end: usize,
    writable: bool,
}

const NOTHING: Known = Known { start: 0, end: 0, writable: false };

thread_local! {
    /// The area asked for last. It is good for as long as this thread cannot have unmapped it: the calls of one lease.
    static KNOWN: Cell<Known> = const { Cell::new(NOTHING) };
    static IS_LEASED: Cell<bool> = const { Cell::new(false) };
}

/// A call begins: what is known stays known if the thread has done nothing since the last one.
#[inline]
pub(crate) fn begin_call(continued: bool) {
    if !continued {
        KNOWN.set(NOTHING);
    }
    IS_LEASED.set(true);
}

/// It ends.
#[inline]
pub(crate) fn end_call() {
    IS_LEASED.set(false);
}

/// Whether `length` bytes at `address` can be read, and written if `write`.
#[inline]
pub(crate) fn check(address: usize, length: usize, write: bool) -> Result<(), ScifError> {
    let end = address.checked_add(length).ok_or(ScifError::BadMemory { address })?;
    let known = KNOWN.get();
    if address >= known.start && end <= known.end && (known.writable || !write) && IS_LEASED.get() {
        return Ok(());
    }
    // Of a thread's stack what is in use is there: it lies above this function's own part.
    let here = 0u8;
    let here = std::ptr::from_ref(&here) as usize;
    if address >= here && own_stack().is_some_and(|(start, stack_end)| start <= here && end <= stack_end) {
        return Ok(());
    }
    ask(address, end, write)
}

#[cold]
fn ask(address: usize, end: usize, write: bool) -> Result<(), ScifError> {
    let mut at = address;
    while at < end {
        let refused = ScifError::BadMemory { address: at };
        match find_area(at) {
            Ok(Some(area)) if area.readable && (area.writable || !write) => {
                if IS_LEASED.get() {
                    KNOWN.set(Known { start: area.start, end: area.end, writable: area.writable });
                }
                at = area.end;
            }
            Ok(_) => return Err(refused),
            // Without `/proc` the pages themselves are asked.
            Err(_) => return touch_pages(at, end - at, write).map_err(|_| refused),
        }
    }
    Ok(())
}

/// Memory of the program that was [`check`]ed during this call.
#[inline]
pub(crate) fn checked_bytes<'a>(
    address: usize,
    length: usize,
    write: bool,
) -> Result<SharedSlice<'a>, ScifError> {
    check(address, length, write)?;
    // SAFETY: it was looked at just now. A program that unmaps memory in one thread while it passes it to a call in another
    // breaks the rules of that call.
    Ok(unsafe { SharedSlice::from_raw(address as *mut u8, length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mapped_or_not_writable_is_refused() {
        let mut here = [0u8; 64];
        let heap = vec![0u8; 1 << 16];
        let text = what_is_not_mapped_or_not_writable_is_refused as fn() as usize;
        for address in [here.as_mut_ptr() as usize, heap.as_ptr() as usize] {
            assert_eq!(check(address, 64, true), Ok(()));
        }
        assert_eq!(check(text, 1, false), Ok(()));
        assert_eq!(check(text, 1, true), Err(ScifError::BadMemory { address: text }));
        assert_eq!(check(8, 1, false), Err(ScifError::BadMemory { address: 8 }));
        assert!(check(usize::MAX, 2, false).is_err());
        assert!(check(heap.as_ptr() as usize, 1 << 46, false).is_err());
    }

    #[test]
    fn what_was_found_in_a_call_is_not_believed_after_it() {
        let mapping = nonic_sys::SharedMapping::anonymous(4096).unwrap();
        let address = mapping.as_ptr() as usize;
        begin_call(false);
        assert_eq!(check(address, 4096, true), Ok(()));
        end_call();
        drop(mapping);
        begin_call(false);
        let gone = check(address, 4096, true);
        end_call();
        // Another thread's memory may be there by now, but it was asked for.
        if gone.is_ok() {
            assert!(find_area(address).unwrap().is_some());
        }
        assert_eq!(KNOWN.get().start == 0, gone.is_err());
    }
}
