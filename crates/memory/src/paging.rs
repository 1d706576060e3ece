//! Memory that is looked for when it is used, and memory that is none.

use std::cell::Cell;

use nonic_sys::{read_own_memory, write_own_memory};

/// What bytes are that do not simply stand mapped for as long as an operation lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Memory of the program that is there if it is there (on-demand paging).
    OnDemand,
    /// What is written vanishes, and what is read is zero.
    Null,
}

/// How an operation copies such bytes, and whether some were missing.
#[derive(Debug)]
pub struct Paging {
    kind: Kind,
    faulted: Cell<bool>,
}

impl Paging {
    /// Of the program's memory.
    #[inline]
    pub const fn on_demand() -> Self {
        Self { kind: Kind::OnDemand, faulted: Cell::new(false) }
    }

    /// Of no memory.
    #[inline]
    pub const fn null() -> Self {
        Self { kind: Kind::Null, faulted: Cell::new(false) }
    }

    /// Whether some bytes that were copied were not there.
    #[inline]
    pub(crate) fn has_faulted(&self) -> bool {
        self.faulted.get()
    }

    pub(crate) fn is_null(&self) -> bool {
        self.kind == Kind::Null
    }

    /// Copies bytes out; false, and remembered, if not all are there.
    pub(crate) fn read(&self, address: usize, bytes: &mut [u8]) -> bool {
        match self.kind {
            Kind::OnDemand => self.note(read_own_memory(address, bytes).is_ok()),
            Kind::Null => {
                bytes.fill(0);
                true
            }
        }
    }

    /// Copies bytes in, the last word last; false, and remembered, if not all are there.
    ///
    /// # Safety
    /// What stands at `address`, if it is a program's memory, is the caller's to overwrite.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn write(&self, address: usize, bytes: &[u8]) -> bool {
        match self.kind {
            // SAFETY: the caller's promise is the same.
            Kind::OnDemand => self.note(unsafe { write_own_memory(address, bytes) }.is_ok()),
            Kind::Null => true,
        }
    }

    fn note(&self, is_there: bool) -> bool {
        if !is_there {
            self.faulted.set(true);
        }
        is_there
    }
}
