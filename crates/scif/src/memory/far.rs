//! Memory of processes that only the kernel reaches: windows that lie in no file, such as those on stacks.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nonic_sys::{Mark, PeerMemory, PerProcess, Witness, process_is_ending};

use crate::ScifError;

static WITNESS: PerProcess<Option<Witness>> = PerProcess::new();
static REACHED: PerProcess<Mutex<Vec<Weak<PeerMemory>>>> = PerProcess::new();

/// What others know this process's memory by; `None` if there is no room for that.
pub(super) fn own_mark() -> Option<Mark> {
    WITNESS.get_or_make(|| Witness::create().ok()).as_ref().map(Witness::mark)
}

/// The memory of process `pid`, if it is the one that has the mark.
pub(super) fn reach(pid: i32, mark: Mark) -> Result<Arc<PeerMemory>, ScifError> {
    let mut reached = REACHED.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |memory: &Arc<PeerMemory>| memory.pid() == pid && memory.mark() == mark;
    if let Some(memory) = reached.iter().filter_map(Weak::upgrade).find(is_it) {
        return Ok(memory);
    }
    reached.retain(|memory| memory.strong_count() > 0);
    let memory = Arc::new(PeerMemory::reach(pid, mark).map_err(|error| refusal(pid, &error, 0))?);
    reached.push(Arc::downgrade(&memory));
    Ok(memory)
}

/// A copy of `count` bytes that ended early ended at memory that is not there, or in the middle because its owner did.
pub(super) fn whole(
    memory: &PeerMemory,
    copied: io::Result<usize>,
    count: usize,
    address: usize,
) -> Result<(), ScifError> {
    match copied {
        Ok(copied) if copied == count => Ok(()),
        Ok(_) => Err(missing(memory.pid(), address)),
        Err(error) => Err(refusal(memory.pid(), &error, address)),
    }
}

/// There is nothing at an address in a process.
fn missing(pid: i32, address: usize) -> ScifError {
    // What has ended has lost all of it.
    if process_is_ending(pid) { ScifError::NoWindow } else { ScifError::BadMemory { address } }
}

fn refusal(pid: i32, error: &io::Error, address: usize) -> ScifError {
    const EPERM: i32 = 1;
    const EACCES: i32 = 13;
    const EFAULT: i32 = 14;
    if error.kind() == io::ErrorKind::NotFound {
        // The owner is gone, or has become another program, and its memory with it.
        return ScifError::NoWindow;
    }
    match error.raw_os_error() {
        Some(EFAULT) => missing(pid, address),
        Some(EPERM | EACCES) if process_is_ending(pid) => ScifError::NoWindow,
        Some(EPERM | EACCES) => {
            tracing::warn!(
                "the kernel does not let this process copy a window that lies in no file, such as one on a stack; \
                 NONIC_PTRACE=any in the process that has the window allows it"
            );
            ScifError::System(EPERM)
        }
        other => ScifError::System(other.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_reached_once_and_by_its_own_mark_only() {
        let (pid, mark) = (std::process::id() as i32, own_mark().unwrap());
        let memory = reach(pid, mark).unwrap();
        assert!(Arc::ptr_eq(&memory, &reach(pid, mark).unwrap()));
        let other = Mark { value: !mark.value, ..mark };
        assert_eq!(reach(pid, other).unwrap_err(), ScifError::NoWindow);
    }

    #[test]
    fn a_copy_whose_owner_ends_in_the_middle_finds_no_window_and_not_bad_memory() {
        let pid = std::process::id() as i32;
        let memory = reach(pid, own_mark().unwrap()).unwrap();
        assert_eq!(whole(&memory, Ok(16), 16, 0x1000), Ok(()));
        assert_eq!(whole(&memory, Ok(8), 16, 0x1000), Err(ScifError::BadMemory { address: 0x1000 }));
        // Nobody has taken leave of it, so its number is no other's.
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let id = ended.id() as i32;
        while !process_is_ending(id) {
            std::thread::yield_now();
        }
        assert_eq!(missing(id, 0x1000), ScifError::NoWindow);
        assert_eq!(refusal(id, &io::Error::from_raw_os_error(14), 0x1000), ScifError::NoWindow);
        ended.wait().unwrap();
    }
}
