//! Sockets by their descriptors.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use nonic_device::Context;
use nonic_sys::{PerProcess, RawFd};

use crate::datagram::Datagram;
use crate::stream::Stream;
use crate::waiting::{Awaited, Look};
use crate::wakeup::Wakeup;
use crate::{Error, Result};

/// A socket of either kind.
#[derive(Clone, Debug)]
pub(crate) enum Socket {
    Stream(Arc<Stream>),
    Datagram(Arc<Datagram>),
}

/// A child begins without any: those of its parent are connected to the parent's device.
static TABLE: PerProcess<RwLock<HashMap<RawFd, Socket>>> = PerProcess::new();

/// A number that is none of ours.
const NOT_OURS: Error = Error::new(libc::EBADF);

fn table() -> &'static RwLock<HashMap<RawFd, Socket>> {
    TABLE.get_or_make(RwLock::default)
}

impl Socket {
    /// That of a number.
    pub(crate) fn of(number: RawFd) -> Result<Self> {
        Self::find(number).ok_or(NOT_OURS)
    }

    /// The same, if it is one of ours.
    pub(crate) fn find(number: RawFd) -> Option<Self> {
        table().read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Its descriptor.
    pub(crate) fn number(&self) -> RawFd {
        match self {
            Self::Stream(stream) => stream.number(),
            Self::Datagram(socket) => socket.number(),
        }
    }

    /// Has it found by its number from now on, which this returns.
    pub(crate) fn enter(self) -> RawFd {
        let number = self.number();
        let old = table().write().unwrap_or_else(PoisonError::into_inner).insert(number, self);
        // One that a program closed behind our back; it is dropped when nobody looks at the table.
        drop(old);
        number
    }

    /// Takes the socket of a number out of the table.
    pub(crate) fn take(number: RawFd) -> Result<Self> {
        table().write().unwrap_or_else(PoisonError::into_inner).remove(&number).ok_or(NOT_OURS)
    }
}

/// What waiting for several of them needs of each.
impl Socket {
    /// What of `events` there is now.
    pub(crate) fn ready(&self, events: i16, look: Look) -> i16 {
        match self {
            Self::Stream(stream) => stream.ready(events, look),
            Self::Datagram(socket) => socket.ready(events, look),
        }
    }

    /// Whom it tells.
    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        match self {
            Self::Stream(stream) => stream.wakeup(),
            Self::Datagram(socket) => socket.wakeup(),
        }
    }

    /// The device that it goes over, once it has one.
    pub(crate) fn device(&self) -> Option<Arc<Context>> {
        match self {
            Self::Stream(stream) => stream.device(),
            Self::Datagram(socket) => socket.device(),
        }
    }

    /// A thread waits for it by an inbox. The device, if there is one yet.
    pub(crate) fn begin_wait(&self) -> Option<Arc<Context>> {
        match self {
            Self::Stream(stream) => stream.begin_wait(),
            Self::Datagram(socket) => socket.begin_wait(),
        }
    }

    /// It looks again before it sleeps.
    pub(crate) fn pause_wait(&self) {
        match self {
            Self::Stream(stream) => stream.pause_wait(),
            Self::Datagram(socket) => socket.pause_wait(),
        }
    }

    /// It does not any more.
    pub(crate) fn end_wait(&self) {
        match self {
            Self::Stream(stream) => stream.end_wait(),
            Self::Datagram(socket) => socket.end_wait(),
        }
    }
}
