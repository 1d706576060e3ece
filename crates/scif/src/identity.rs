//! Which open socket an endpoint is, whatever numbers it has.

use std::sync::atomic::{AtomicI32, Ordering};

use nonic_sys::{RawFd, socket_cookie};

use crate::ScifError;
use crate::stream_socket::StreamSocket;

/// Bad file descriptor, the same number on every machine.
const EBADF: i32 = 9;

/// An endpoint's socket. Numbers come and go (`dup`, `close`, `fork`); the kernel's cookie stays.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) cookie: u64,
    /// A number it had lately.
    number: AtomicI32,
}

impl Identity {
    pub(crate) fn new(cookie: u64, number: RawFd) -> Self {
        Self { cookie, number: AtomicI32::new(number) }
    }

    pub(crate) fn note(&self, number: RawFd) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// A number it has in this process now, if it has one.
    pub(crate) fn number(&self) -> Option<RawFd> {
        let noted = self.number.load(Ordering::Relaxed);
        if socket_cookie(noted).is_ok_and(|cookie| cookie == self.cookie) {
            return Some(noted);
        }
        let found = open_numbers().find(|(_, cookie)| *cookie == self.cookie).map(|(number, _)| number)?;
        self.note(found);
        Some(found)
    }

    /// The number noted last, for what does no harm if it is another file's by now.
    pub(crate) fn noted_number(&self) -> RawFd {
        self.number.load(Ordering::Relaxed)
    }

    /// Whether the peer has closed its end, or this process its own.
    pub(crate) fn is_disconnected(&self) -> bool {
        self.number().is_none_or(|number| StreamSocket(number).is_hung_up())
    }
}

/// The cookie of the socket a number is.
pub(crate) fn cookie_of(number: RawFd) -> Result<u64, ScifError> {
    socket_cookie(number).map_err(|error| match error.raw_os_error() {
        Some(EBADF) => ScifError::NotOpen,
        _ => ScifError::NotAnEndpoint,
    })
}

/// Every open socket of this process with its cookie.
pub(crate) fn open_numbers() -> impl Iterator<Item = (RawFd, u64)> {
    let numbers = nonic_sys::numbers_in("/proc/self/fd").unwrap_or_default();
    numbers.into_iter().filter_map(|number| Some((number, socket_cookie(number).ok()?)))
}
