//! The move of shared memory into a file, mapping by mapping.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::Ordering;

use nonic_sys::{
    AreaAdvice, PAGE, Rights, SharedMapping, SharedMemory, duplicate_at, has_swap, pages_in_memory,
    set_rights,
};

/// Pages that the kernel is asked about at once.
const PIECE_PAGES: usize = 256;

/// A mapping of shared memory in this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) start: usize,
    pub(super) length: usize,
    /// Offset in the memory of the byte at `start`.
    pub(super) offset: u64,
    pub(super) rights: Rights,
    /// What the program said of it.
    pub(super) advice: AreaAdvice,
}

/// Moves shared memory into `file`: `whole` is all of it, for the library alone, and `parts` are the program's mappings. No other
/// process has it, no other thread exists, no signal handler runs. An error means that nothing has changed.
pub(super) fn name(file: &SharedMemory, whole: &SharedMapping, parts: &[Part]) -> io::Result<()> {
    let start = whole.as_ptr() as usize;
    copy_in(file, whole, has_swap())?;
    for (index, part) in parts.iter().enumerate() {
        // SAFETY: the file holds what the memory holds, and nobody stores to it.
        let mapped = unsafe { file.map_over(part.start, part.length, part.rights, part.offset) };
        if let Err(error) = mapped {
            for done in &parts[..index] {
                let from = start + done.offset as usize;
                // SAFETY: the memory still holds everything.
                let back = unsafe { duplicate_at(from, done.length, done.rights, done.start) };
                assert!(back.is_ok(), "shared memory cannot be mapped again where it was: {back:?}");
                let _ = done.advice.give_exactly(done.start, done.length);
            }
            return Err(error);
        }
        // A kernel built without core dumps may refuse.
        let _ = part.advice.give(part.start, part.length);
    }
    Ok(())
}

/// Copies shared memory into a file of its length, and leaves holes where nothing was ever stored. `swap`: what is not in memory may
/// be swapped out.
fn copy_in(file: &SharedMemory, whole: &SharedMapping, swap: bool) -> io::Result<()> {
    let (start, mut at) = (whole.as_ptr() as usize, 0);
    while at < file.length() {
        let mut pages = [0; PIECE_PAGES];
        let count = PIECE_PAGES.min((file.length() - at) / PAGE);
        pages_in_memory(start + at, &mut pages[..count])?;
        // Also if there is swap space since a moment ago.
        let swap = swap || has_swap();
        for (index, page) in pages[..count].iter_mut().enumerate() {
            *page = u8::from(*page & 1 == 1 || (swap && holds_data(whole, at + index * PAGE)));
        }
        for run in pages[..count].chunk_by(|page, next| page == next) {
            let length = run.len() * PAGE;
            if run[0] == 1 {
                file.write_from(start + at, length, at as u64)?;
            }
            at += length;
        }
    }
    Ok(())
}

/// Whether some byte of a page is not zero. Makes a page of a hole.
fn holds_data(whole: &SharedMapping, page: usize) -> bool {
    (page..page + PAGE).step_by(8).any(|at| whole.word(at).load(Ordering::Relaxed) != 0)
}

/// Gives a mapping of the library's own these rights.
pub(super) fn allow(mapping: &SharedMapping, rights: Rights) -> io::Result<()> {
    // SAFETY: only what may be done with it becomes more or less; nothing refers to what it holds.
    unsafe { set_rights(mapping.as_ptr() as usize, mapping.length(), rights) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_data_is_copied_and_holes_stay_also_where_there_may_be_swap() {
        const PAGES: usize = 600;
        for swap in [false, true] {
            let memory = SharedMapping::anonymous(PAGES * PAGE).unwrap();
            let stored = [0, 3, 4, 255, 256, 511, 512, 599];
            for page in stored {
                memory.word(page * PAGE + 4088).store(page as u64 + 1, Ordering::Relaxed);
            }
            let file = SharedMemory::create("copied", PAGES * PAGE).unwrap();
            copy_in(&file, &memory, swap).unwrap();
            let copy = file.map(nonic_sys::Protection::Read).unwrap();
            let mut present = [0; PAGES];
            pages_in_memory(copy.as_ptr() as usize, &mut present).unwrap();
            for (page, present) in present.into_iter().enumerate() {
                let expected = if stored.contains(&page) { page as u64 + 1 } else { 0 };
                assert!(present & 1 == u8::from(expected > 0) || has_swap(), "page {page}");
                assert_eq!(copy.word(page * PAGE + 4088).load(Ordering::Relaxed), expected);
            }
        }
    }
}
