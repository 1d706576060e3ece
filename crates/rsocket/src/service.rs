//! The service thread: it accepts connections, goes on with those that are being made, notices ends, and asks peers that are
//! silent whether they are there. So a program need not call for any of that to happen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use nonic_sys::{
    AsFd, AsRawFd, BorrowedFd, Epoll, EventFd, EventKind, PerProcess, RawFd, spawn_without_signals,
};

use crate::Result;

/// A socket that the service thread looks after.
pub(crate) trait Watched: Send + Sync {
    /// Readable when there is something to do.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Does what there is to do; whether to go on watching.
    fn turn(self: Arc<Self>) -> bool;

    /// Asks a silent peer whether it is there, if it is time; in what time to come again. `None`: not any more.
    fn keep_alive(&self, now: Instant) -> Option<Duration>;
}

/// Token of the service's own descriptor; others have their numbers.
const OWN: u64 = u64::MAX;

#[derive(Debug)]
struct Service {
    epoll: Epoll,
    wake: EventFd,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    watched: HashMap<RawFd, Weak<dyn Watched>>,
    keep_alive: Vec<(Instant, Weak<dyn Watched>)>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("watched", &self.watched.len()).finish_non_exhaustive()
    }
}

/// A child has a service of its own.
static SERVICE: PerProcess<Mutex<Option<Arc<Service>>>> = PerProcess::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn service() -> Result<Arc<Service>> {
    let mut running = lock(SERVICE.get_or_make(Mutex::default));
    if let Some(service) = &*running {
        return Ok(Arc::clone(service));
    }
    let (epoll, wake) = (Epoll::new()?, EventFd::new(EventKind::All, true)?);
    epoll.add(wake.as_fd(), OWN)?;
    let service = Arc::new(Service { epoll, wake, inner: Mutex::default() });
    let own = Arc::clone(&service);
    // Like a thread of the program's, and not one that keeps off its memory: it registers and gives back.
    spawn_without_signals("rsocket", move || own.run())?;
    *running = Some(Arc::clone(&service));
    Ok(service)
}

/// Watches a socket from now on.
pub(crate) fn watch<T: Watched + 'static>(socket: &Arc<T>) -> Result<()> {
    let service = service()?;
    let number = socket.descriptor().as_raw_fd();
    let weak: Weak<dyn Watched> = {
        let weak: Weak<T> = Arc::downgrade(socket);
        weak
    };
    let known = lock(&service.inner).watched.insert(number, weak).is_some();
    if known {
        service.epoll.watch_once_more(socket.descriptor(), token(number))?;
    } else {
        service.epoll.add_once(socket.descriptor(), token(number))?;
    }
    Ok(())
}

/// Ends that: the descriptor is about to be closed.
pub(crate) fn forget(descriptor: BorrowedFd<'_>) {
    let Some(running) = SERVICE.get() else { return };
    let Some(service) = lock(running).clone() else { return };
    let gone = lock(&service.inner).watched.remove(&descriptor.as_raw_fd());
    if gone.is_some() {
        service.epoll.remove(descriptor);
    }
}

/// Asks whether the peer is there whenever it was silent for so long.
pub(crate) fn keep_alive<T: Watched + 'static>(socket: &Arc<T>, period: Duration) -> Result<()> {
    let service = service()?;
    let weak: Weak<dyn Watched> = {
        let weak: Weak<T> = Arc::downgrade(socket);
        weak
    };
    let mut inner = lock(&service.inner);
    inner.keep_alive.retain(|(_, other)| !Weak::ptr_eq(other, &weak));
    inner.keep_alive.push((Instant::now() + period, weak));
    drop(inner);
    service.wake.signal();
    Ok(())
}

fn token(number: RawFd) -> u64 {
    u64::from(number.unsigned_abs())
}

impl Service {
    fn run(&self) {
        let mut ready = Vec::new();
        loop {
            let timeout = self.keep_alive_turn();
            self.epoll.wait(&mut ready, timeout);
            for one in &ready {
                if one.token == OWN {
                    self.wake.take_if_ready();
                } else {
                    self.turn_of(one.token);
                }
            }
        }
    }

    fn turn_of(&self, token: u64) {
        let Ok(number) = RawFd::try_from(token) else { return };
        let found = lock(&self.inner).watched.get(&number).and_then(Weak::upgrade);
        let Some(socket) = found else { return };
        if Arc::clone(&socket).turn() && lock(&self.inner).watched.contains_key(&number) {
            // The descriptor is open as long as the socket is here.
            let _ = self.epoll.watch_once_more(socket.descriptor(), token);
        }
    }

    /// Has those ask whose time has come. In what time the next is due.
    fn keep_alive_turn(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut due = Vec::new();
        lock(&self.inner).keep_alive.retain(|(when, socket)| {
            let is_due = *when <= now;
            if is_due {
                due.push(Weak::clone(socket));
            }
            !is_due
        });
        for weak in due {
            if let Some(again) = weak.upgrade().and_then(|socket| socket.keep_alive(now)) {
                lock(&self.inner).keep_alive.push((now + again, weak));
            }
        }
        let inner = lock(&self.inner);
        inner.keep_alive.iter().map(|(when, _)| when.saturating_duration_since(now)).min()
    }
}
