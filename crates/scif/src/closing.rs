//! Closing a number, and what ends with an endpoint's last one.

use std::io;
use std::time::Duration;

use nonic_sys::{BorrowedFd, RawFd, close_number};

use crate::connecting::{own_port, system};
use crate::connection::Connection;
use crate::helper::{self, Next};
use crate::registry::{self, EndpointRecord};
use crate::stream_socket::StreamSocket;
use crate::{ScifError, door, last_close, lease};

/// How often it is looked whether an endpoint with windows was closed without telling the library.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) fn close(number: RawFd) -> Result<(), ScifError> {
    let record = registry::find(number)?;
    lease::end();
    let memory = record.connection.get().and_then(Connection::used_memory);
    if let Some(memory) = memory {
        memory.settle();
    }
    let cookie = record.identity.cookie;
    let waiters = {
        let mut registry = registry::lock();
        let waiters = registry.entry(cookie).map(|entry| entry.waiters.clone()).unwrap_or_default();
        match close_number(number) {
            // The kernel has freed the number all the same.
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(system(&error)),
            _ => {}
        }
        let other_end = registry.entry(cookie).and_then(|entry| entry.other_end.as_ref());
        if other_end.is_some_and(|other_end| StreamSocket(other_end.number()).is_hung_up()) {
            // No copy is left. A listener that has the request finds the end hung up.
            if let Some(mut entry) = registry.remove(cookie) {
                entry.withdraw();
            }
        }
        waiters
    };
    for (_, waiter) in waiters.iter().filter(|(waited, _)| *waited == number) {
        waiter.signal();
    }
    if last_close::is_watched(cookie) {
        end_if_last(&record);
    }
    Ok(())
}

/// Lets other hosts in, as long as any copy of a listener is open.
pub(crate) fn open_door(descriptor: BorrowedFd<'_>, number: RawFd, backlog: i32) {
    let Ok(record) = registry::find(number) else { return };
    let Some(port) = own_port(number) else { return };
    if door::open(record.identity.cookie, port, backlog) {
        watch_windows(descriptor, number);
    }
}

/// Has windows end with the last copy of the endpoint, also if the program closes it by `close(2)` or another process does.
pub(crate) fn watch_windows(descriptor: BorrowedFd<'_>, number: RawFd) {
    let Ok(record) = registry::find(number) else { return };
    let cookie = record.identity.cookie;
    if last_close::is_watched(cookie) || !last_close::watch(descriptor, cookie) {
        return;
    }
    helper::add(Box::new(move || if end_if_last(&record) { Next::Done } else { Next::Again(LOOK) }));
}

/// Ends the windows of an endpoint that no process has open any more; whether that is so.
fn end_if_last(record: &EndpointRecord) -> bool {
    if last_close::is_open(record.identity.cookie) {
        return false;
    }
    if let Some(memory) = record.connection.get().and_then(Connection::used_memory) {
        memory.close();
    }
    door::close(record.identity.cookie);
    registry::lock().remove(record.identity.cookie);
    true
}
