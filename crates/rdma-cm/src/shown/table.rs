//! The owner's side of the file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_sys::{
    PerProcess, Protection, SharedMapping, SharedMemory, current_generation, fork_generation,
    write_shown_record,
};

use super::{BEYOND, COUNT, IDENTIFIERS_NAME, IdentifierFacts, LENGTH, MAGIC, OWNER, RECORD, RECORDS, Words};

#[derive(Debug)]
struct Table {
    mapping: SharedMapping,
    /// Open for as long as it is to be found.
    _memory: SharedMemory,
    places: Mutex<Places>,
    generation: u32,
}

#[derive(Debug, Default)]
struct Places {
    free: Vec<u16>,
    /// Those from here on were never used.
    next: u16,
}

/// A child has a file of its own. `None` where the system gives none: then nothing is shown.
static TABLE: PerProcess<Option<Arc<Table>>> = PerProcess::new();

impl Table {
    fn create() -> std::io::Result<Arc<Self>> {
        let memory = SharedMemory::create(IDENTIFIERS_NAME, LENGTH)?;
        let mapping = memory.map(Protection::ReadWrite)?;
        // A kernel without this seal (before 5.1) leaves a process of the same user the freedom to write what is only shown.
        let _ = memory.seal_future_writes();
        mapping.word(OWNER).store(u64::from(std::process::id()), Ordering::Relaxed);
        mapping.word(0).store(MAGIC, Ordering::Release);
        let generation = fork_generation();
        Ok(Arc::new(Self { mapping, _memory: memory, places: Mutex::default(), generation }))
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn beyond(&self) -> &AtomicU64 {
        self.mapping.word(BEYOND)
    }
}

/// The record of an identifier, until it is dropped.
#[derive(Debug)]
pub(crate) struct Record {
    table: Option<Arc<Table>>,
    /// Its place; `None` if all are taken: then it is only counted.
    place: Option<u16>,
    /// What stands there.
    shown: Words,
}

impl Record {
    /// A record for a new identifier. Nothing is shown yet.
    pub(crate) fn new() -> Self {
        let table = TABLE.get_or_make(|| {
            Table::create().inspect_err(|error| tracing::debug!(%error, "identifiers are not shown")).ok()
        });
        let mut record = Self { table: table.clone(), place: None, shown: Words::default() };
        if let Some(table) = &record.table {
            let mut places = table.lock();
            record.place = places.free.pop().or_else(|| {
                let new = places.next;
                places.next += u16::from(usize::from(new) < COUNT);
                (usize::from(new) < COUNT).then_some(new)
            });
            if record.place.is_none() {
                table.beyond().fetch_add(1, Ordering::Relaxed);
            }
        }
        record
    }

    /// Shows what has changed. One thread at a time.
    pub(crate) fn show(&mut self, facts: &IdentifierFacts) {
        self.write(facts.to_words());
    }

    fn write(&mut self, words: Words) {
        let (Some(table), Some(place)) = (&self.table, self.place) else { return };
        if words == self.shown || table.generation != current_generation() {
            return;
        }
        let at = RECORDS + usize::from(place) * RECORD;
        write_shown_record(&table.mapping, at, &words);
        self.shown = words;
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.write(Words::default());
        // In a child the parent's lock may be held by a thread that is not there.
        let Some(table) = self.table.as_ref().filter(|table| table.generation == current_generation()) else {
            return;
        };
        match self.place {
            Some(place) => table.lock().free.push(place),
            None => {
                table.beyond().fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}
