//! The engine as a library that forwards to it sees it.

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A face's table of functions: the engine's, or what stands in for it where there is no engine. A static of the library that
/// forwards.
#[derive(Debug)]
pub struct Engine<Table: 'static>(AtomicPtr<Table>);

impl<Table: Sync> Engine<Table> {
    /// Not found yet.
    pub const fn absent(stand_in: &'static Table) -> Self {
        Self(AtomicPtr::new(ptr::from_ref(stand_in).cast_mut()))
    }

    /// The functions to call.
    #[inline(always)]
    pub fn table(&self) -> &'static Table {
        // SAFETY: holds the stand-in or the table of a library that is never unloaded; neither is ever written to. Stored while
        // the library was loaded, which is before any of its functions can be called.
        unsafe { &*self.0.load(Ordering::Relaxed) }
    }

    /// Finds the engine's table `symbol`. Says so if that cannot be, and what it means for the program: the loader, which
    /// calls this when it has loaded `library`, must not fail, as the program may live without it.
    ///
    /// # Safety
    ///
    /// A table of this name that begins with `version` is a `Table`.
    pub unsafe fn connect(&self, library: &CStr, symbol: &CStr, version: usize, consequence: &CStr) {
        match crate::table((&raw const self.0).cast(), symbol, version) {
            Ok(table) => self.0.store(table.cast_mut().cast(), Ordering::Release),
            Err(reason) => crate::complain(library, reason, consequence),
        }
    }
}

/// Gives a function its version and takes its plain name away (`@@@`). It has to stand in the module that defines the
/// function: the assembler can only do this to a symbol it sees defined.
#[macro_export]
macro_rules! versioned {
    ($name:ident, $node:literal) => {
        #[cfg(not(test))] // Unit tests are a program, which has no versions.
        core::arch::global_asm!(concat!(
            ".symver ",
            stringify!($name),
            ", ",
            stringify!($name),
            "@@@",
            $node
        ));
    };
}
