//! The memory that is adopted in a process, whoever adopts it.

use std::fmt;
use std::sync::{MutexGuard, PoisonError};

use nonic_sys::FileIdentity;

use super::fork::{Shared, return_slot, take_slot};
use super::state::State;

/// One file of adopted pages, and what is known of the memory that was moved there. [`Adopter`](super::Adopter)s of one such
/// memory may adopt the same pages: these are private again when the last region of any of them has ended, and no peer of any of
/// them may still be writing there. What is said to one about threads, forks and protection holds for all.
pub struct AdoptedMemory {
    pub(super) shared: &'static Shared,
}

impl AdoptedMemory {
    /// With settings as new. Nothing is made before the first adoption that needs it.
    pub fn new() -> Self {
        let memory = Self { shared: take_slot() };
        memory.state().reset_settings();
        memory
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.refresh();
        state
    }

    /// Whether its file has been made and is this one.
    pub fn is_in(&self, file: FileIdentity) -> bool {
        self.shared.file.made().is_some_and(|made| made.identity() == file)
    }
}

impl Default for AdoptedMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for AdoptedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdoptedMemory")
            .field("own_threads", &self.state().own_threads)
            .finish_non_exhaustive()
    }
}

impl Drop for AdoptedMemory {
    fn drop(&mut self) {
        return_slot(self.shared);
    }
}
