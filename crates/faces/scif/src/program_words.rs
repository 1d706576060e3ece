//! Words that calls fetch and store through pointers of the program.
//!
//! A pointer that leads nowhere is `EFAULT`, as where the kernel does the storing, and never a fault. Unless the word is on
//! the thread's own stack, where most are, the kernel is asked about the pages first. Then the word is stored like any
//! other, so that memory which is being adopted meanwhile takes part as usual.

use nonic_sys::{find_area, own_stack, touch_pages};

use crate::errno::Errno;

/// A kind of word that has no invalid bits.
///
/// # Safety
///
/// Every pattern of bits is a value.
pub(crate) unsafe trait Word: Copy {}

// SAFETY: plain numbers, and two of them without padding.
unsafe impl Word for u16 {}
// SAFETY: as above.
unsafe impl Word for i32 {}
// SAFETY: as above.
unsafe impl Word for crate::calls::ScifPortId {}

/// Memory of the program with room for some words, which may be written.
#[derive(Debug)]
pub(crate) struct Room<T> {
    place: *mut T,
    count: usize,
}

impl<T: Word> Room<T> {
    /// Room for `count` words at `place`. Nothing is stored yet.
    pub(crate) fn at(place: *mut T, count: usize) -> Result<Self, Errno> {
        examine(place.addr(), count.checked_mul(size_of::<T>()).ok_or(Errno::EFAULT)?, true)?;
        Ok(Self { place, count })
    }

    /// Stores as many of `words` as there is room for.
    pub(crate) fn store(self, words: &[T]) {
        for (index, word) in words.iter().take(self.count).enumerate() {
            // SAFETY: the range was found writable when the call began. A program that unmaps its own arguments while
            // the call runs is hit as by any store of its own.
            unsafe { self.place.add(index).write_unaligned(*word) };
        }
    }
}

/// The word at `place`.
pub(crate) fn fetch<T: Word>(place: *const T) -> Result<T, Errno> {
    examine(place.addr(), size_of::<T>(), false)?;
    // SAFETY: the range was found readable just now (see `store`), and every pattern of bits is a value.
    Ok(unsafe { place.read_unaligned() })
}

/// Whether every byte of the range is mapped, and readable or writable.
fn examine(address: usize, length: usize, write: bool) -> Result<(), Errno> {
    let end = address.checked_add(length).ok_or(Errno::EFAULT)?;
    // Of a stack what is in use is there: it lies above this function's own part.
    let here = 0_u8;
    let here = core::ptr::from_ref(&here).addr();
    if address >= here && own_stack().is_some_and(|(start, stack_end)| start <= here && end <= stack_end) {
        return Ok(());
    }
    let mut at = address;
    while at < end {
        match find_area(at) {
            Ok(Some(area)) if area.readable && (area.writable || !write) => at = area.end,
            Ok(_) => return Err(Errno::EFAULT),
            // Without `/proc` the pages themselves are asked.
            Err(_) => return touch_pages(at, end - at, write).map_err(|_| Errno::EFAULT),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::ScifPortId;

    #[test]
    fn words_arrive_and_what_has_no_room_is_left_out() {
        let (mut on_stack, mut on_heap) = ([7_u16; 3], vec![7_u16; 3]);
        for words in [&mut on_stack[..], &mut on_heap] {
            Room::at(words.as_mut_ptr(), 2).expect("own memory").store(&[1, 2, 3]);
            assert_eq!(words, [1, 2, 7]);
        }
    }

    #[test]
    fn a_pointer_that_leads_nowhere_is_refused() {
        let nowhere = core::ptr::without_provenance_mut::<i32>(0x10);
        assert_eq!(Room::at(nowhere, 1).expect_err("nothing is there"), Errno::EFAULT);
        assert_eq!(fetch(nowhere.cast_const()).expect_err("nothing is there"), Errno::EFAULT);
        let end = core::ptr::without_provenance_mut::<i32>(usize::MAX - 1);
        assert_eq!(Room::at(end, 1).expect_err("it wraps"), Errno::EFAULT);
    }

    #[test]
    fn what_lies_below_the_stack_or_reaches_beyond_it_is_asked_about() {
        let (start, end) = own_stack().expect("the C library knows it");
        let below = core::ptr::without_provenance_mut::<i32>(start - 8);
        assert_eq!(Room::at(below, 1).expect_err("a guard page"), Errno::EFAULT);
        let last = core::ptr::without_provenance_mut::<u16>(end - 2);
        assert_eq!(Room::at(last, 1 << 46).expect_err("more than any machine maps"), Errno::EFAULT);
        assert!(Room::at(last, 1).is_ok());
    }

    #[test]
    fn memory_that_can_only_be_read_has_no_room_but_can_be_fetched_from() {
        static CONSTANT: ScifPortId = ScifPortId { node: 1, port: 2 };
        assert_eq!(fetch(&raw const CONSTANT), Ok(CONSTANT));
        assert_eq!(Room::at((&raw const CONSTANT).cast_mut(), 1).expect_err("read only"), Errno::EFAULT);
    }

    #[test]
    fn room_for_no_words_may_be_anywhere() {
        Room::<u16>::at(core::ptr::null_mut(), 0).expect("no byte is asked for").store(&[1, 2]);
    }
}
