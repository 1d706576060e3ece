//! Queues of events that a program reads through a descriptor, and the account of what it has acknowledged.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use nonic_sys::{AsFd, AsRawFd, BorrowedFd, ShownEvent, Sleep};

/// Events behind a descriptor that is readable while any wait. The program may set `O_NONBLOCK` on it and hand it to
/// poll, select and epoll, level or edge triggered: every event is one write to it.
#[derive(Debug)]
pub struct EventQueue<T> {
    descriptor: ShownEvent,
    inner: Mutex<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    events: VecDeque<T>,
    /// Events that were not written to the descriptor, because a thread that drives the device takes one as soon as it
    /// looks: at most one.
    unwritten: usize,
    waiter: Waiter,
}

/// The thread that drives the device until this queue has an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiter {
    None,
    Awake,
    Asleep,
}

impl<T> Inner<T> {
    fn take_unwritten(&mut self) -> Option<T> {
        if self.unwritten == 0 {
            return None;
        }
        self.unwritten -= 1;
        self.events.pop_front()
    }
}

impl<T> EventQueue<T> {
    /// No events yet. Fails if the kernel gives no descriptors: it takes two.
    pub fn new() -> io::Result<Self> {
        let inner = Inner { events: VecDeque::new(), unwritten: 0, waiter: Waiter::None };
        Ok(Self { descriptor: ShownEvent::new()?, inner: Mutex::new(inner) })
    }

    /// Readable while events wait, never writable. For the program, which must not read it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The read that waits for an event: as long as there is none, unless the program made the descriptor non-blocking.
    /// [`EventQueue::after_read`] is what comes then.
    pub fn read(&self) -> Sleep {
        self.read_as_set().0
    }

    /// The same, and whether it blocks.
    pub(crate) fn read_as_set(&self) -> (Sleep, bool) {
        let (counter, blocks) = self.descriptor.to_read();
        (Sleep::Read(counter.as_raw_fd()), blocks)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. True if a thread sleeps elsewhere that wants it, and must be woken there.
    pub fn push(&self, event: T) -> bool {
        let mut inner = self.lock();
        inner.events.push_back(event);
        if inner.waiter != Waiter::None && inner.unwritten == 0 {
            inner.unwritten = 1;
            return inner.waiter == Waiter::Asleep;
        }
        // Under the lock: a waiter that sees the event finds it on the descriptor too, or another thread has it.
        self.descriptor.signal();
        false
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().events.is_empty()
    }

    /// A thread begins to drive the device until there is an event. One at a time.
    pub(crate) fn begin_wait(&self) {
        self.lock().waiter = Waiter::Awake;
    }

    /// The oldest event if there is one, for the thread that began to wait, or for one that does not wait.
    pub fn try_next<R>(&self, deliver: impl Fn(&T) -> R) -> Option<(T, R)> {
        let mut inner = self.lock();
        if inner.events.is_empty() {
            return None;
        }
        let event = match inner.take_unwritten() {
            Some(event) => event,
            // What was written belongs to whoever reads it; another thread may have done so and not have taken the event.
            None if self.descriptor.take_if_ready() => inner.events.pop_front()?,
            None => return None,
        };
        let result = deliver(&event);
        Some((event, result))
    }

    /// [`EventQueue::try_next`]; if there is none, the next event wakes the thread.
    pub(crate) fn fall_asleep<R>(&self, deliver: impl Fn(&T) -> R) -> Option<(T, R)> {
        self.lock().waiter = Waiter::Asleep;
        self.try_next(deliver)
    }

    /// The thread looks by itself again.
    pub(crate) fn wake(&self) {
        self.lock().waiter = Waiter::Awake;
    }

    /// The thread goes. What another thread left for it meanwhile shows on the descriptor from now on.
    pub(crate) fn end_wait(&self) {
        let mut inner = self.lock();
        inner.waiter = Waiter::None;
        for _ in 0..std::mem::take(&mut inner.unwritten) {
            self.descriptor.signal();
        }
    }

    /// The thread goes, with the event that was left for it if there is one.
    pub(crate) fn end_wait_with<R>(&self, deliver: impl Fn(&T) -> R) -> Option<(T, R)> {
        let mut inner = self.lock();
        inner.waiter = Waiter::None;
        let event = inner.take_unwritten()?;
        let result = deliver(&event);
        Some((event, result))
    }

    /// The oldest event, for who has read the descriptor, handed to `deliver` while no other thread can remove it. `None`: the
    /// one that was read for was removed with its object; then the next is to be waited for.
    pub fn after_read<R>(&self, deliver: impl Fn(&T) -> R) -> Option<(T, R)> {
        let mut inner = self.lock();
        let event = inner.events.pop_front()?;
        let result = deliver(&event);
        Some((event, result))
    }

    /// Whoever has read the descriptor does not take the event: another may.
    pub fn undo_read(&self) {
        self.descriptor.signal();
    }

    /// Takes back the events of an object that goes, in their order.
    pub fn remove(&self, concerns: impl Fn(&T) -> bool) -> Vec<T> {
        let mut inner = self.lock();
        if !inner.events.iter().any(&concerns) {
            return Vec::new();
        }
        let (removed, kept): (Vec<_>, Vec<_>) = inner.events.drain(..).partition(concerns);
        inner.events.extend(kept);
        let unwritten = removed.len().min(inner.unwritten);
        inner.unwritten -= unwritten;
        for _ in unwritten..removed.len() {
            self.descriptor.take_if_ready();
        }
        removed
    }
}

/// How many events of an object were delivered and not yet acknowledged. Destroying the object waits for zero.
#[derive(Debug, Default)]
pub struct EventAccount {
    open: Mutex<u64>,
    changed: Condvar,
}

impl EventAccount {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event was delivered.
    pub fn delivered(&self) {
        *self.lock() += 1;
    }

    /// Acknowledging more than was delivered is the program's mistake; the account stays at zero.
    pub fn acknowledge(&self, count: u32) {
        let mut open = self.lock();
        *open = open.saturating_sub(u64::from(count));
        self.changed.notify_all();
    }

    /// Waits until all are acknowledged.
    pub fn wait_for_all(&self) {
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
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    fn next<T: Copy>(queue: &EventQueue<T>) -> T {
        queue.read().here().unwrap();
        queue.after_read(|event| *event).expect("nobody else takes any").1
    }

    /// What used to stand still for ever: taking an event back looked at the descriptor, then read it, and another thread
    /// had read it in between.
    #[test]
    fn taking_events_back_never_waits_for_who_reads_them() {
        let queue = EventQueue::new().unwrap();
        let (taken, rounds) = (AtomicU32::new(0), 100_000);
        std::thread::scope(|scope| {
            let queue = &queue;
            for _ in 0..2 {
                scope.spawn(|| {
                    while queue.read().here().is_ok() {
                        match queue.after_read(|event| *event) {
                            Some((0, _)) => return,
                            Some(_) => drop(taken.fetch_add(1, Ordering::Relaxed)),
                            None => {}
                        }
                    }
                });
            }
            for round in 1..=rounds {
                queue.push(round);
                queue.remove(|event| *event == round);
            }
            queue.push(0);
            queue.push(0);
        });
        assert!(queue.is_empty());
        assert!(taken.load(Ordering::Relaxed) <= rounds);
    }

    #[test]
    fn the_descriptor_is_readable_while_events_wait() {
        let queue = EventQueue::new().unwrap();
        let next = || next(&queue);
        let readable = || wait_readable(queue.descriptor(), Some(Duration::ZERO));
        assert!(!readable());
        queue.push(1);
        queue.push(2);
        assert!(readable());
        assert_eq!(next(), 1);
        assert!(readable());
        queue.remove(|event| *event == 2);
        assert!(!readable());
        queue.push(3);
        assert_eq!(next(), 3);
        // Who has read and goes leaves the event to another.
        queue.push(4);
        queue.read().here().unwrap();
        assert!(!readable());
        queue.undo_read();
        assert_eq!(next(), 4);
    }

    #[test]
    fn events_that_a_waiting_thread_takes_never_show_on_the_descriptor_and_all_others_do() {
        let queue = EventQueue::new().unwrap();
        let readable = || wait_readable(queue.descriptor(), Some(Duration::ZERO));
        queue.begin_wait();
        assert!(!queue.push(1), "it looks by itself");
        assert!(!readable());
        assert_eq!(queue.try_next(|_| ()), Some((1, ())));
        assert_eq!(queue.fall_asleep(|_| ()), None);
        assert!(queue.push(2), "it must be woken");
        assert!(!readable());
        // More than it takes is everybody's.
        assert!(!queue.push(3));
        assert!(readable());
        queue.wake();
        assert_eq!(queue.try_next(|_| ()), Some((2, ())));
        assert_eq!(queue.try_next(|_| ()), Some((3, ())));
        assert!(!readable());
    }

    #[test]
    fn an_event_left_for_a_thread_that_goes_is_not_lost() {
        let queue = EventQueue::new().unwrap();
        let readable = || wait_readable(queue.descriptor(), Some(Duration::ZERO));
        queue.begin_wait();
        queue.push(1);
        queue.end_wait();
        assert!(readable());
        assert_eq!(next(&queue), 1);
        queue.begin_wait();
        queue.push(2);
        assert_eq!(queue.end_wait_with(|_| ()), Some((2, ())));
        assert!(!readable());
        // One whose object went is nobody's.
        queue.begin_wait();
        queue.push(3);
        queue.remove(|event| *event == 3);
        queue.end_wait();
        assert!(!readable());
        queue.push(4);
        assert!(readable());
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
