//! Waking threads that wait for something of a socket.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nonic_device::{CompletionObserver, Context, WaitBell};
use nonic_sys::{AsFd, AsRawFd, EventFd, EventKind, PerProcess, RawFd};

use crate::Result;

/// Wakes whoever waits for a socket: with [`Context::wait`], or asleep in `poll(2)` with a [`Waker`] among other descriptors.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    /// There is one once the socket has a device.
    bell: OnceLock<WaitBell>,
    pollers: AtomicUsize,
    wakers: Mutex<Vec<Arc<EventFd>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wakeup {
    /// The bell of a device.
    pub(crate) fn bell(&self, context: &Context) -> &WaitBell {
        self.bell.get_or_init(|| context.wait_bell())
    }

    /// Has those who wait look again. Calls nothing of the engine but the bell: completions ring it under the engine's locks.
    pub(crate) fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
        if self.pollers.load(Ordering::SeqCst) > 0 {
            lock(&self.wakers).iter().for_each(|waker| waker.signal());
        }
    }
}

impl CompletionObserver for Wakeup {
    fn completion_added(&self) {
        self.ring();
    }

    fn overran(&self) {
        self.ring();
    }
}

/// Descriptors of wakers that nobody uses now, for the next who wait.
static UNUSED: PerProcess<Mutex<Vec<Arc<EventFd>>>> = PerProcess::new();
const UNUSED_MOST: usize = 16;

/// A descriptor that becomes readable when something happens to one of several sockets.
#[derive(Debug)]
pub(crate) struct Waker {
    event: Arc<EventFd>,
    sockets: Vec<Arc<Wakeup>>,
}

impl Waker {
    /// Of no socket yet.
    pub(crate) fn new() -> Result<Self> {
        let unused = lock(UNUSED.get_or_make(Mutex::default)).pop();
        let event = match unused {
            Some(event) => event,
            None => Arc::new(EventFd::new(EventKind::All, true)?),
        };
        Ok(Self { event, sockets: Vec::new() })
    }

    /// From now on what happens to this socket counts too.
    pub(crate) fn add(&mut self, socket: &Arc<Wakeup>) {
        lock(&socket.wakers).push(Arc::clone(&self.event));
        socket.pollers.fetch_add(1, Ordering::SeqCst);
        self.sockets.push(Arc::clone(socket));
    }

    /// The descriptor.
    pub(crate) fn number(&self) -> RawFd {
        self.event.as_fd().as_raw_fd()
    }

    /// What happened has been noticed; it is looked at after this.
    pub(crate) fn clear(&self) {
        self.event.take_if_ready();
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        for socket in &self.sockets {
            let mut wakers = lock(&socket.wakers);
            // One entry for each time the socket was added.
            if let Some(place) = wakers.iter().position(|waker| Arc::ptr_eq(waker, &self.event)) {
                wakers.swap_remove(place);
                socket.pollers.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.clear();
        let mut unused = lock(UNUSED.get_or_make(Mutex::default));
        if unused.len() < UNUSED_MOST {
            unused.push(Arc::clone(&self.event));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_sys::{POLL_IN, poll_now};

    #[test]
    fn a_waker_tells_of_each_of_its_sockets_and_of_none_once_it_is_gone() {
        let sockets = [Arc::new(Wakeup::default()), Arc::new(Wakeup::default())];
        sockets[0].ring();
        let mut waker = Waker::new().unwrap();
        sockets.iter().for_each(|socket| waker.add(socket));
        assert_eq!(poll_now(waker.number(), POLL_IN), 0);
        for socket in &sockets {
            socket.ring();
            assert_eq!(poll_now(waker.number(), POLL_IN), POLL_IN);
            waker.clear();
            assert_eq!(poll_now(waker.number(), POLL_IN), 0);
        }
        let event = Arc::clone(&waker.event);
        drop(waker);
        sockets[1].ring();
        assert!(!event.take_if_ready());
    }
}
