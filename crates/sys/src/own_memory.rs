//! Memory of this process of which nobody knows whether it is there: copied by the kernel, so that a page that is missing, or may
//! not be written to, is an answer and not a signal.

use std::io;
use std::sync::OnceLock;

use crate::process_memory::{Piece, read_process, write_process};

/// The last bytes of a copy that come after all others, if they stand there as one aligned word.
const WORD: usize = 8;

/// Copies what stands at `address` into `bytes`; an error if not all of it is there to be read.
pub fn read_own_memory(address: usize, bytes: &mut [u8]) -> io::Result<()> {
    let remote = [Piece { address, length: bytes.len() }];
    let local = [Piece { address: bytes.as_mut_ptr() as usize, length: bytes.len() }];
    // SAFETY: the local piece is `bytes`, which the caller lends to be overwritten.
    whole(unsafe { read_process(own_process(), &local, &remote)? }, bytes.len())
}

/// Copies `bytes` to `address`, the last aligned word after all that is before it; an error if not all of it may be written to,
/// and then a part may have been.
///
/// # Safety
/// What stands there is the caller's to overwrite: no reference of this language leads to it.
pub unsafe fn write_own_memory(address: usize, bytes: &[u8]) -> io::Result<()> {
    let remote = [Piece { address, length: bytes.len() }];
    let start = bytes.as_ptr() as usize;
    let last_word = address.saturating_add(bytes.len()).saturating_sub(1) / WORD * WORD;
    let body = last_word.saturating_sub(address);
    let local =
        [Piece { address: start, length: body }, Piece { address: start + body, length: bytes.len() - body }];
    whole(write_process(own_process(), &local, &remote)?, bytes.len())
}

/// Whether the kernel copies so for this process: a sandbox may forbid it. Asked once.
pub fn copies_own_memory() -> bool {
    static COPIES: OnceLock<bool> = OnceLock::new();
    *COPIES.get_or_init(|| {
        let (from, to, mut seen) = ([7u8; 16], [0u8; 16], [0u8; 16]);
        let to = std::cell::UnsafeCell::new(to);
        // SAFETY: `to` is a variable of this function's, in a cell.
        let wrote = unsafe { write_own_memory(to.get() as usize, &from) };
        wrote.is_ok() && read_own_memory(to.get() as usize, &mut seen).is_ok() && seen == from
    })
}

fn own_process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The kernel ends a copy early where memory ends.
fn whole(copied: usize, wanted: usize) -> io::Result<()> {
    if copied == wanted { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGE, SharedMapping};

    #[test]
    fn a_page_that_is_missing_or_not_to_be_written_is_an_answer() {
        assert!(copies_own_memory());
        let pages = SharedMapping::anonymous(4 * PAGE).unwrap();
        let start = pages.as_ptr() as usize;
        let bytes: Vec<u8> = (0..100).collect();
        let mut seen = vec![0; 100];
        for at in [start, start + 3, start + PAGE - 50] {
            // SAFETY: pages of this test's own, to which no reference leads.
            unsafe { write_own_memory(at, &bytes) }.unwrap();
            read_own_memory(at, &mut seen).unwrap();
            assert_eq!(seen, bytes);
        }
        // SAFETY: as above; they stay mapped, with fewer rights.
        unsafe {
            assert_eq!(libc::mprotect((start + 2 * PAGE) as *mut _, PAGE, libc::PROT_READ), 0);
            assert_eq!(libc::mprotect((start + 3 * PAGE) as *mut _, PAGE, libc::PROT_NONE), 0);
        }
        // SAFETY: as above.
        let write = |at| unsafe { write_own_memory(at, &bytes) };
        assert!(write(start + 2 * PAGE - 1).is_err() && write(start + 2 * PAGE).is_err());
        assert!(read_own_memory(start + 3 * PAGE - 99, &mut seen).is_err());
        assert!(read_own_memory(start + 3 * PAGE - 100, &mut seen).is_ok());
        for nowhere in [0, PAGE, usize::MAX, 1 << 63] {
            assert!(write(nowhere).is_err() && read_own_memory(nowhere, &mut seen).is_err());
        }
        assert!(read_own_memory(0, &mut []).is_ok());
    }
}
