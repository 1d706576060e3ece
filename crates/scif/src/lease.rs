//! From the number a program passes to the endpoint it means.
//!
//! The kernel is asked at every call what the number is now, because a program may close and reuse it at any time: two system
//! calls. A call that follows the thread's last one on the same number sooner than any system call could have ended in
//! between needs not ask again, for a while: it has a *lease*.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use nonic_sys::{RawFd, at_thread_end, ticks, ticks_in};

use crate::connection::Connection;
use crate::registry::{self, EndpointRecord};
use crate::stream_socket::StreamSocket;
use crate::{ScifError, program_memory};

/// Less than any `close(2)`, `dup2(2)` or `munmap(2)` takes from call to return.
const GAP: Duration = Duration::from_nanos(60);
/// How long other threads' doings may stay unnoticed.
const SPAN: Duration = Duration::from_micros(20);

/// What this thread last did.
struct Lease {
    number: Cell<RawFd>,
    record: Cell<Option<Arc<EndpointRecord>>>,
    /// Whether it was also asked if the peer is there.
    alive: Cell<bool>,
    /// When the kernel was asked, and when the last call ended.
    asked: Cell<u64>,
    ended: Cell<u64>,
    /// The two limits in ticks; 0 where there is no clock.
    gap: Cell<u64>,
    span: Cell<u64>,
    standing: Cell<Standing>,
}

/// Whether the thread can have leases: a record that it keeps has to be given back at its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    New,
    /// Its end is seen to.
    Known,
    /// It is ending.
    Ending,
}

thread_local! {
    // Without a destructor of its own: see `at_thread_end`.
    static LEASE: ManuallyDrop<Lease> = const {
        ManuallyDrop::new(Lease {
            number: Cell::new(-1),
            record: Cell::new(None),
            alive: Cell::new(false),
            asked: Cell::new(0),
            ended: Cell::new(0),
            gap: Cell::new(0),
            span: Cell::new(0),
            standing: Cell::new(Standing::New),
        })
    };
}

impl Lease {
    fn keep(&self, record: Arc<EndpointRecord>) {
        if self.standing.get() == Standing::New {
            self.standing.set(if at_thread_end(end_with_thread) {
                Standing::Known
            } else {
                Standing::Ending
            });
        }
        if self.standing.get() == Standing::Known {
            self.record.set(Some(record));
        }
    }
}

fn end_with_thread() {
    end();
    LEASE.with(|lease| lease.standing.set(Standing::Ending));
}

/// Measures the clock, once.
pub(crate) fn prepare() {
    let _ = ticks_in(GAP);
}

/// Calls `act` with the connection that `number` is. `alive`: a peer that is gone is an error; without it, what it sent
/// before can still be received.
#[inline]
pub(crate) fn with_connection<R>(
    number: RawFd,
    alive: bool,
    act: impl FnOnce(&Connection) -> Result<R, ScifError>,
) -> Result<R, ScifError> {
    let begun = ticks();
    let leased = LEASE.with(|lease| {
        let holds = lease.number.get() == number
            && begun.wrapping_sub(lease.ended.get()) < lease.gap.get()
            && begun.wrapping_sub(lease.asked.get()) < lease.span.get();
        if holds { lease.record.take().map(|record| (record, lease.alive.get())) } else { None }
    });
    let continued = leased.is_some();
    let (record, known_alive) = match leased {
        Some(leased) => leased,
        None => (connected(number)?, false),
    };
    let Some(connection) = record.connection.get() else { return Err(ScifError::NotConnected) };
    if alive && !known_alive && is_gone(number, connection) {
        return Err(ScifError::Reset);
    }
    program_memory::begin_call(continued);
    let outcome = act(connection);
    program_memory::end_call();
    LEASE.with(|lease| {
        if outcome.is_err() {
            lease.number.set(-1);
            return;
        }
        if !continued {
            lease.number.set(number);
            // Asked after `begun`; a peer that went since shows at the end of the span.
            lease.asked.set(begun);
            lease.gap.set(ticks_in(GAP).unwrap_or(0));
            lease.span.set(ticks_in(SPAN).unwrap_or(0));
        }
        lease.alive.set(known_alive || alive);
        lease.keep(record);
        lease.ended.set(ticks());
    });
    outcome
}

/// Forgets what this thread knows: it is about to change it.
pub(crate) fn end() {
    LEASE.with(|lease| {
        lease.number.set(-1);
        lease.record.take();
    });
}

#[cold]
fn connected(number: RawFd) -> Result<Arc<EndpointRecord>, ScifError> {
    let record = registry::find(number)?;
    if record.connection.get().is_none() {
        // It may have been accepted a moment ago.
        if let Some(entry) = registry::lock().entry(record.identity.cookie) {
            entry.standing();
        }
        if record.connection.get().is_none() {
            return Err(ScifError::NotConnected);
        }
    }
    Ok(record)
}

#[cold]
fn is_gone(number: RawFd, connection: &Connection) -> bool {
    let gone = StreamSocket(number).is_hung_up();
    if gone && let Some(memory) = connection.used_memory() {
        memory.peer_closed();
    }
    gone
}
