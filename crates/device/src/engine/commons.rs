//! What the engines of one process have in common: its memory, and its threads that keep off it.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;

use nonic_memory::AdoptedMemory;

use super::lock;
use crate::config::Config;
use crate::faults::Faults;

/// Belongs to whoever makes the engines.
#[derive(Debug, Default)]
pub(crate) struct Commons {
    at_work: Arc<Mutex<()>>,
    serving: Arc<Mutex<()>>,
    adopted: Mutex<Weak<AdoptedMemory>>,
    /// When the first engine was made that follows a file of faults.
    began: OnceLock<Instant>,
}

impl Commons {
    /// Held by threads of the library while they may touch memory of the program.
    pub(crate) fn at_work(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.at_work)
    }

    /// Held in its place by those for which other processes wait: whoever holds the first may itself be waiting for another process.
    pub(crate) fn serving(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.serving)
    }

    /// What an engine that is made now will meet of the file of faults.
    pub(super) fn faults(&self, config: &Config) -> Faults {
        let Some(path) = &config.faults else { return Faults::default() };
        let now = Instant::now();
        Faults::read(path, *self.began.get_or_init(|| now), now)
    }

    /// Where all engines that live at the same time adopt memory: a page can be moved to one place only, and threads of any
    /// engine are threads of the library.
    pub(super) fn adopted_memory(&self) -> Arc<AdoptedMemory> {
        let mut adopted = lock(&self.adopted);
        adopted.upgrade().unwrap_or_else(|| {
            let new = Arc::new(AdoptedMemory::new());
            *adopted = Arc::downgrade(&new);
            new
        })
    }
}
