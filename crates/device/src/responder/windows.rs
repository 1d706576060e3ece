//! Keys of memory windows that a peer takes out of use.

use std::sync::Arc;

use nonic_memory::Key;

use crate::memory_window::MemoryWindow;
use crate::queue_pair::QueuePair;

impl QueuePair {
    /// The window that a peer may take this key of out of use.
    #[cold]
    pub(crate) fn window_of_peer(&self, key: Key) -> Option<Arc<MemoryWindow>> {
        self.engine().windows.find(key).filter(|window| window.is_bound_for(self.number, key))
    }
}
