//! The endpoints of this process.
//!
//! What an endpoint is, the kernel knows: whether it has a port, listens, is connected. The registry adds what the kernel
//! has no place for, found by the socket's cookie, so that every copy of a descriptor leads to the same record. Copies of
//! which no number is left in this process are found and forgotten now and then; `close(2)` tells nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nonic_sys::{EventFd, RawFd, own_name, peer_name};

use crate::attempt::Attempt;
use crate::connection::Connection;
use crate::identity::{Identity, cookie_of, open_numbers};
use crate::kept_descriptor::KeptDescriptor;
use crate::meeting::Meetings;
use crate::node::fabric;
use crate::{ScifError, fork};

/// Endpoints more than after the last sweep that cause another.
const SWEEP_STEP: usize = 64;

/// One endpoint, whatever numbers it has.
#[derive(Debug)]
pub(crate) struct EndpointRecord {
    pub(crate) identity: Arc<Identity>,
    pub(crate) connection: OnceLock<Connection>,
}

/// What the registry knows about it besides.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) record: Arc<EndpointRecord>,
    /// The other end of the socket, until somebody has accepted it.
    pub(crate) other_end: Option<KeptDescriptor>,
    /// The attempt to connect that is under way, or not collected yet.
    pub(crate) attempt: Option<Attempt>,
    /// Requests that were taken from the kernel's queue and not yet accepted.
    pub(crate) meetings: Meetings,
    /// A connection of this process's waits at the listener, so that it shows them.
    pub(crate) shows_meetings: bool,
    /// Threads that wait in accept, and by which number.
    pub(crate) waiters: Vec<(RawFd, Arc<EventFd>)>,
    /// Whether the last sweep found no number.
    missed: bool,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Registry {
    entries: BTreeMap<u64, Entry>,
    sweep_at: usize,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { entries: BTreeMap::new(), sweep_at: SWEEP_STEP });

/// The registry of this process.
pub(crate) fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The endpoint that a number is.
pub(crate) fn find(number: RawFd) -> Result<Arc<EndpointRecord>, ScifError> {
    let cookie = cookie_of(number)?;
    let mut registry = lock();
    if let Some(entry) = registry.entries.get(&cookie) {
        entry.record.identity.note(number);
        return Ok(Arc::clone(&entry.record));
    }
    // A program that was started with an endpoint that has a port knows it by its name. A connected one was lost.
    let name = own_name(number).ok().flatten().ok_or(ScifError::NotAnEndpoint)?;
    if fabric().parse(&name).is_none() || peer_name(number).is_ok() {
        return Err(ScifError::NotAnEndpoint);
    }
    Ok(registry.insert(cookie, number))
}

impl Registry {
    /// Enters an endpoint.
    pub(crate) fn insert(&mut self, cookie: u64, number: RawFd) -> Arc<EndpointRecord> {
        fork::watch();
        if self.entries.len() >= self.sweep_at {
            self.sweep();
        }
        let identity = Arc::new(Identity::new(cookie, number));
        let record = Arc::new(EndpointRecord { identity, connection: OnceLock::new() });
        let entry = Entry {
            record: Arc::clone(&record),
            other_end: None,
            attempt: None,
            meetings: Meetings::default(),
            shows_meetings: false,
            waiters: Vec::new(),
            missed: false,
        };
        self.entries.insert(cookie, entry);
        record
    }

    pub(crate) fn entry(&mut self, cookie: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&cookie)
    }

    pub(crate) fn remove(&mut self, cookie: u64) -> Option<Entry> {
        self.entries.remove(&cookie)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Forgets endpoints without a number. One that two sweeps missed has none: while it is renumbered, one sweep may miss it.
    fn sweep(&mut self) {
        let open: BTreeSet<u64> = open_numbers().map(|(_, cookie)| cookie).collect();
        self.entries.retain(|cookie, entry| {
            let found = open.contains(cookie);
            let kept = found || !entry.missed || entry.has_windows();
            entry.missed = !found;
            kept
        });
        self.sweep_at = self.entries.len() + self.entries.len() / 2 + SWEEP_STEP;
    }
}

impl Entry {
    fn has_windows(&self) -> bool {
        let memory = self.record.connection.get().and_then(Connection::used_memory);
        memory.is_some_and(|memory| memory.has_windows())
    }
}
