//! Waiting for several endpoints at a time.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_memory::SharedSlice;
use nonic_sys::{
    ErrnoKept, POLL_ERROR, POLL_HANG_UP, POLL_IN, PollEntry, RawFd, is_listening, poll as poll_descriptors,
};

use crate::ScifError;
use crate::attempt::Standing;
use crate::connecting::system;
use crate::program_memory::checked_bytes;
use crate::registry::{self, EndpointRecord};
use crate::stream_socket::StreamSocket;

/// Entries at most: as many descriptors as a process can have.
const ENTRIES_MOST: u32 = 1 << 20;

/// Waits until one of `entries` is ready, at most `timeout_ms` milliseconds (negative: for ever); returns how many are. As
/// `poll(2)`, and exact where a socket alone is not: `POLLERR` for an endpoint that is not connected, `POLLIN` beside
/// `POLLHUP` only while bytes are left. Other descriptors may be among them.
pub fn poll(entries: &mut [PollEntry], timeout_ms: i64) -> Result<usize, ScifError> {
    let _errno = ErrnoKept::new();
    let until =
        u64::try_from(timeout_ms).ok().and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
    loop {
        let unconnected: Vec<bool> = entries.iter().map(|entry| is_unconnected(entry.number)).collect();
        let waits = !unconnected.contains(&true);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = if waits { left } else { Some(Duration::ZERO) };
        poll_descriptors(entries, left).map_err(|error| refusal(&error))?;
        for (entry, unconnected) in entries.iter_mut().zip(unconnected) {
            correct(entry, unconnected);
        }
        let ready = entries.iter().filter(|entry| entry.revents != 0).count();
        if ready > 0 || until.is_some_and(|until| Instant::now() >= until) {
            return Ok(ready);
        }
    }
}

/// [`poll`] on `count` entries of the program at `address`: [`ScifError::BadMemory`] if they are not there.
pub fn poll_at(address: usize, count: u32, timeout_ms: i64) -> Result<usize, ScifError> {
    let _errno = ErrnoKept::new();
    if count > ENTRIES_MOST {
        return Err(ScifError::Invalid("more entries than a process can have descriptors"));
    }
    if count == 0 {
        return poll(&mut [], timeout_ms);
    }
    let size = size_of::<PollEntry>();
    let array = checked_bytes(address, count as usize * size, true)?;
    let part = |index: usize| array.part(index * size, size);
    let mut entries: Vec<PollEntry> = (0..count as usize).map(|index| read_entry(part(index))).collect();
    let ready = poll(&mut entries, timeout_ms)?;
    for (index, entry) in entries.iter().enumerate() {
        part(index).part(size - 2, 2).write(&entry.revents.to_ne_bytes());
    }
    Ok(ready)
}

fn read_entry(bytes: SharedSlice<'_>) -> PollEntry {
    let mut raw = [0u8; size_of::<PollEntry>()];
    bytes.read(&mut raw);
    let [a, b, c, d, e, f, g, h] = raw;
    PollEntry {
        number: i32::from_ne_bytes([a, b, c, d]),
        events: i16::from_ne_bytes([e, f]),
        revents: i16::from_ne_bytes([g, h]),
    }
}

fn refusal(error: &io::Error) -> ScifError {
    match error.kind() {
        io::ErrorKind::InvalidInput => ScifError::Invalid("more entries than descriptors are allowed"),
        _ => system(error),
    }
}

/// The endpoint that a number is, if it is one.
fn endpoint(number: RawFd) -> Option<Arc<EndpointRecord>> {
    if number < 0 { None } else { registry::find(number).ok() }
}

/// Whether it is an endpoint that is neither connected nor about to be, and does not listen.
fn is_unconnected(number: RawFd) -> bool {
    let Some(record) = endpoint(number) else { return false };
    if record.connection.get().is_some() || is_listening(number) {
        return false;
    }
    let mut registry = registry::lock();
    registry.entry(record.identity.cookie).is_some_and(|entry| entry.standing() == Standing::Idle)
}

/// Makes of what a socket shows what an endpoint shows.
fn correct(entry: &mut PollEntry, unconnected: bool) {
    if unconnected {
        entry.revents = POLL_ERROR;
        return;
    }
    if entry.revents & (POLL_IN | POLL_ERROR) == 0 {
        return;
    }
    let Some(record) = endpoint(entry.number) else { return };
    let Some(connection) = record.connection.get() else { return };
    // Of a peer that went with tokens on their way to it.
    entry.revents &= !POLL_ERROR;
    if entry.revents & POLL_IN != 0 && !connection.has_bytes() {
        // Of a peer that is gone, or the token of bytes that another thread has just taken.
        entry.revents &= !POLL_IN;
        if entry.revents & POLL_HANG_UP == 0 {
            connection.settle_tokens(StreamSocket(entry.number));
        }
    }
}
