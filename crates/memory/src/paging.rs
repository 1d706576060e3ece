//! Memory that is looked for when it is used, and memory that is none.
//!
//! A slice says of itself that it is paged; that some of its bytes were missing is counted for the thread that copied, since a slice
//! of two words, which passes in registers, has no room to remember it. An operation asks by comparing ([`Faults`]).

use std::cell::Cell;

use nonic_sys::{read_own_memory, write_own_memory};

use crate::foreign;

std::thread_local! {
    /// How often bytes were missing that this thread copied.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Whether bytes were missing in the copies of an operation: those of its thread since its first paged slice.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The count before.
    before: Cell<Option<u64>>,
}

#[cfg(not(loom))]
impl Faults {
    /// A paged slice is about to be copied.
    #[cold]
    pub(crate) fn watch(&self) {
        if self.before.get().is_none() {
            self.before.set(Some(COUNT.get()));
        }
    }

    /// Whether some were missing.
    #[inline]
    pub(crate) fn are_any(&self) -> bool {
        self.before.get().is_some_and(|before| before != COUNT.get())
    }
}

/// What bytes are that do not simply stand mapped for as long as an operation lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    /// Memory of the program that is there if it is there (on-demand paging), or of another process ([`foreign`]).
    OnDemand,
    /// What is written vanishes, and what is read is zero.
    Null,
}

impl Paging {
    /// Copies bytes out; false, and counted, if not all are there.
    pub(crate) fn read(self, address: usize, bytes: &mut [u8]) -> bool {
        match self {
            Self::OnDemand if foreign::is_foreign(address) => note(
                foreign::find(address, bytes.len())
                    .is_some_and(|(memory, offset)| memory.read(offset, bytes)),
            ),
            Self::OnDemand => note(read_own_memory(address, bytes).is_ok()),
            Self::Null => {
                bytes.fill(0);
                true
            }
        }
    }

    /// Copies bytes in, the last word last; false, and counted, if not all are there.
    ///
    /// # Safety
    /// What stands at `address`, if it is a program's memory, is the caller's to overwrite.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn write(self, address: usize, bytes: &[u8]) -> bool {
        match self {
            Self::OnDemand if foreign::is_foreign(address) => note(
                foreign::find(address, bytes.len())
                    .is_some_and(|(memory, offset)| memory.write(offset, bytes)),
            ),
            // SAFETY: the caller's promise is the same.
            Self::OnDemand => note(unsafe { write_own_memory(address, bytes) }.is_ok()),
            Self::Null => true,
        }
    }
}

fn note(is_there: bool) -> bool {
    if !is_there {
        COUNT.set(COUNT.get() + 1);
    }
    is_there
}
