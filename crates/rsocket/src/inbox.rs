//! What several sockets tell one who waits for all of them.
//!
//! A socket has a list of whom it tells (`wakeup.rs`). An inbox takes down which of its sockets something happened to, each once
//! until it is looked at, and wakes the thread that waits: so who waits for a thousand sockets looks at those that have news.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use nonic_device::{Among, Context, WaitBell};
use nonic_sys::{AsFd, AsRawFd, EventFd, EventKind, POLL_IN, PerProcess, PollEntry};

use crate::Result;

/// Descriptors of inboxes that are gone, for the next.
static UNUSED: PerProcess<Mutex<Vec<EventFd>>> = PerProcess::new();
const UNUSED_MOST: usize = 16;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where several sockets tell what happens.
#[derive(Debug)]
pub struct Inbox {
    /// Of those sockets that have news, what they were added with.
    news: Mutex<Vec<u64>>,
    /// For a thread that drives the device while it waits.
    bell: OnceLock<WaitBell>,
    /// For one that does not.
    event: Option<EventFd>,
    asleep: AtomicBool,
    /// Readable while there may be news, for who does not look here.
    shown: OnceLock<EventFd>,
    /// Who waits looks for a while before it sleeps.
    looks: bool,
}

/// One socket's entry of an inbox.
#[derive(Debug)]
pub struct Entry {
    inbox: Arc<Inbox>,
    token: u64,
    told: AtomicBool,
}

impl Inbox {
    /// An empty one.
    pub fn new() -> Result<Arc<Self>> {
        Self::of(true)
    }

    /// One for a thread that has looked before it waits.
    pub(crate) fn without_looking() -> Result<Arc<Self>> {
        Self::of(false)
    }

    fn of(looks: bool) -> Result<Arc<Self>> {
        let unused = lock(UNUSED.get_or_make(Mutex::default)).pop();
        let event = match unused {
            Some(event) => event,
            None => EventFd::new(EventKind::All, true)?,
        };
        Ok(Arc::new(Self {
            news: Mutex::default(),
            bell: OnceLock::new(),
            event: Some(event),
            asleep: AtomicBool::new(false),
            shown: OnceLock::new(),
            looks,
        }))
    }

    /// Takes out of whom there is news, in the order in which it came.
    pub fn take(&self, into: &mut Vec<u64>) {
        into.append(&mut lock(&self.news));
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        lock(&self.news).is_empty()
    }

    /// From now on `event` is readable while there may be news; the first that is given counts.
    pub(crate) fn show(&self, event: EventFd) {
        self.shown.get_or_init(|| event).signal();
    }

    /// What was told has been looked at, and nothing of it is left.
    pub(crate) fn hide(&self) {
        let Some(shown) = self.shown.get() else { return };
        shown.take_if_ready();
        // What was told meanwhile.
        if !self.is_empty() {
            shown.signal();
        }
    }

    /// Wakes who waits.
    pub(crate) fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(event) = &self.event
        {
            event.signal();
        }
    }

    /// Waits until there is news, one of `entries` is ready, or the time `until` has come; the thread drives the device
    /// meanwhile, if there is one and no other thread does. A signal ends the wait with `EINTR`.
    pub fn wait(
        &self,
        context: Option<&Context>,
        entries: &mut Vec<PollEntry>,
        until: Option<Instant>,
    ) -> Result<()> {
        self.wait_then(context, entries, until, &mut || ())
    }

    /// The same; `done` is called when a thread that drove the device ceases to.
    pub(crate) fn wait_then(
        &self,
        context: Option<&Context>,
        entries: &mut Vec<PollEntry>,
        until: Option<Instant>,
        done: &mut dyn FnMut(),
    ) -> Result<()> {
        if let Some(context) = context {
            let bell = self.bell.get_or_init(|| match self.looks {
                true => context.wait_bell(),
                false => context.wait_bell().without_looking(),
            });
            match context.wait_among(bell, entries, until, &mut || !self.is_empty(), done)? {
                Among::Ready | Among::TimedOut => return Ok(()),
                Among::Left => {}
            }
        }
        let Some(event) = &self.event else { return Ok(()) };
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            self.asleep.store(false, Ordering::Relaxed);
            return Ok(());
        }
        entries.push(PollEntry { number: event.as_fd().as_raw_fd(), events: POLL_IN, revents: 0 });
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let polled = nonic_sys::poll(entries, left);
        let is_signalled = entries.pop().is_some_and(|entry| entry.revents != 0);
        self.asleep.store(false, Ordering::SeqCst);
        if is_signalled {
            event.take_if_ready();
        }
        polled?;
        Ok(())
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let Some(event) = self.event.take() else { return };
        event.take_if_ready();
        let mut unused = lock(UNUSED.get_or_make(Mutex::default));
        if unused.len() < UNUSED_MOST {
            unused.push(event);
        }
    }
}

impl Entry {
    /// An entry of whom `token` tells apart from others.
    pub fn new(inbox: &Arc<Inbox>, token: u64) -> Arc<Self> {
        Arc::new(Self { inbox: Arc::clone(inbox), token, told: AtomicBool::new(false) })
    }

    /// Something happened to the socket. Under locks of the engine: it takes note, wakes, and does nothing else.
    pub fn tell(&self) {
        if !self.told.swap(true, Ordering::SeqCst) {
            lock(&self.inbox.news).push(self.token);
            self.inbox.ring();
            if let Some(shown) = self.inbox.shown.get() {
                shown.signal();
            }
        }
    }

    /// Whether it has told something that was not looked at.
    pub fn has_news(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }

    /// What it told is about to be looked at: what happens from now on it tells anew.
    pub fn is_looked_at(&self) {
        self.told.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wakeup::Wakeup;

    fn taken(inbox: &Inbox) -> Vec<u64> {
        let mut news = Vec::new();
        inbox.take(&mut news);
        news
    }

    #[test]
    fn an_inbox_tells_of_each_of_its_sockets_once_until_it_is_looked_at() {
        let sockets = [Wakeup::default(), Wakeup::default()];
        let inbox = Inbox::new().unwrap();
        sockets[0].ring();
        let entries = [7, 8].map(|token| Entry::new(&inbox, token));
        sockets.iter().zip(&entries).for_each(|(socket, entry)| socket.add(entry));
        assert!(inbox.is_empty());
        sockets[1].ring();
        sockets[1].ring();
        sockets[0].ring();
        assert_eq!(taken(&inbox), [8, 7]);
        sockets[1].ring();
        assert!(inbox.is_empty(), "it was not looked at since");
        entries[1].is_looked_at();
        sockets[1].ring();
        assert_eq!(taken(&inbox), [8]);
        sockets[0].remove(&entries[0]);
        entries[0].is_looked_at();
        sockets[0].ring();
        assert!(inbox.is_empty(), "it was taken out");
    }

    #[test]
    fn news_wakes_who_waits_and_no_news_lets_it_sleep() {
        let inbox = Inbox::new().unwrap();
        let entry = Entry::new(&inbox, 1);
        let soon = Instant::now() + Duration::from_millis(5);
        inbox.wait(None, &mut Vec::new(), Some(soon)).unwrap();
        assert!(Instant::now() >= soon && inbox.is_empty());
        std::thread::scope(|scope| {
            scope.spawn(|| entry.tell());
            inbox.wait(None, &mut Vec::new(), None).unwrap();
        });
        assert_eq!(taken(&inbox), [1]);
    }
}
