//! Queues of events that a program reads through a descriptor, and the account of what it has acknowledged.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use nonic_sys::{AsFd, BorrowedFd, EventFd, EventKind};

/// Events behind a descriptor that is readable while any wait. The program may set `O_NONBLOCK` on it and hand it to
/// poll, select and epoll, level or edge triggered: every event is one write to it.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    descriptor: EventFd,
    events: Mutex<VecDeque<T>>,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { descriptor: EventFd::new(EventKind::One, false)?, events: Mutex::new(VecDeque::new()) })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: T) {
        self.lock().push_back(event);
        self.descriptor.signal();
    }

    /// The oldest event, handed to `deliver` while no other thread can remove it. Blocks while there is none, unless
    /// the descriptor has `O_NONBLOCK`.
    pub(crate) fn next<R>(&self, deliver: impl Fn(&T) -> R) -> io::Result<(T, R)> {
        loop {
            self.descriptor.take()?;
            let mut events = self.lock();
            // An event that was removed with its object leaves its count behind; then wait for the next.
            if let Some(event) = events.pop_front() {
                let result = deliver(&event);
                return Ok((event, result));
            }
        }
    }

    /// Takes back the events of an object that goes.
    pub(crate) fn remove(&self, concerns: impl Fn(&T) -> bool) {
        let mut events = self.lock();
        let before = events.len();
        events.retain(|event| !concerns(event));
        for _ in events.len()..before {
            self.descriptor.take_if_ready();
        }
    }
}

/// How many events of an object were delivered and not yet acknowledged. Destroying the object waits for zero.
#[derive(Debug, Default)]
pub(crate) struct EventAccount {
    open: Mutex<u64>,
    changed: Condvar,
}

impl EventAccount {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn delivered(&self) {
        *self.lock() += 1;
    }

    /// Acknowledging more than was delivered is the program's mistake; the account stays at zero.
    pub(crate) fn acknowledge(&self, count: u32) {
        let mut open = self.lock();
        *open = open.saturating_sub(u64::from(count));
        self.changed.notify_all();
    }

    pub(crate) fn wait_for_all(&self) {
        let mut open = self.lock();
        while *open > 0 {
            open = self.changed.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_sys::wait_readable;
    use std::time::Duration;

    #[test]
    fn the_descriptor_is_readable_while_events_wait() {
        let queue = EventQueue::new().unwrap();
        let readable = || wait_readable(queue.descriptor(), Some(Duration::ZERO));
        assert!(!readable());
        queue.push(1);
        queue.push(2);
        assert!(readable());
        assert_eq!(queue.next(|_| ()).unwrap().0, 1);
        assert!(readable());
        queue.remove(|event| *event == 2);
        assert!(!readable());
        queue.push(3);
        assert_eq!(queue.next(|event| event * 2).unwrap(), (3, 6));
    }

    #[test]
    fn destruction_waits_for_the_last_acknowledgement() {
        let account = EventAccount::default();
        account.delivered();
        account.delivered();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| account.wait_for_all());
            account.acknowledge(1);
            assert!(!waiter.is_finished());
            account.acknowledge(1);
        });
        account.acknowledge(5);
        account.wait_for_all();
    }
}
