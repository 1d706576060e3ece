//! What an event poll (`epoll(7)`) watches that is not the kernel's.
//!
//! Beside an event poll of the kernel's, which has all that is the kernel's in it, stands a list of sockets. What happens to one is
//! told to the list's inbox, so that only those with news are looked at, and those that were ready the last time and are watched
//! by level.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nonic_device::Context;
use nonic_sys::{
    AsFd, AsRawFd, EventFd, EventKind, POLL_IN, PollEntry, PollEvent, RawFd, control_events, events_now,
    random_u64,
};

use crate::Result;
use crate::inbox::{Entry, Inbox};
use crate::waiting::looked_in_vain;

/// What is told whether it was asked for or not.
pub const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
/// `EPOLLET`.
pub const EDGE: u32 = libc::EPOLLET as u32;
/// `EPOLLONESHOT`.
pub const ONCE: u32 = libc::EPOLLONESHOT as u32;
/// The bits that say what there is; they are those of `poll(2)`.
pub const EVENTS: u32 = 0x3fff;
/// What the kernel is to tell of a descriptor of the list's.
const INPUT: u32 = libc::EPOLLIN as u32;
/// Waits that find something in the list look at the kernel's event poll every so often.
const KERNEL_TURN: u32 = 8;

/// What is watched under a number.
pub trait Watched {
    /// Its entry of the list's inbox, if it tells.
    fn entry(&self) -> Option<&Arc<Entry>>;

    /// Takes in what has come for it, of which it may tell.
    fn take_in(&self);

    /// What there is of what the program wants to know; from now on it tells of what comes later.
    fn look(&mut self, event: PollEvent) -> u32;

    /// The device that it goes over, once it has one.
    fn device(&self) -> Option<Arc<Context>>;
}

/// A list of what is watched.
#[derive(Debug)]
pub struct EventList<W> {
    inbox: Arc<Inbox>,
    watches: Mutex<Watches<W>>,
    /// What tells its descriptor in the kernel's event poll from the program's, if it has one there.
    mark: OnceLock<u64>,
}

/// What is in it.
#[derive(Debug)]
pub struct Watches<W> {
    watches: HashMap<RawFd, Watch<W>>,
    /// Numbers to be looked at.
    due: VecDeque<RawFd>,
    context: Option<Arc<Context>>,
    waits: u32,
}

#[derive(Debug)]
struct Watch<W> {
    watched: W,
    event: PollEvent,
    /// Not after it was told once and is to be told once.
    enabled: bool,
    is_due: bool,
}

impl<W: Watched> EventList<W> {
    /// An empty one. `EMFILE` without a descriptor for its inbox.
    pub fn new() -> Result<Self> {
        let watches = Watches { watches: HashMap::new(), due: VecDeque::new(), context: None, waits: 0 };
        Ok(Self { inbox: Inbox::new()?, watches: Mutex::new(watches), mark: OnceLock::new() })
    }

    /// Where those in it tell.
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// From now on the kernel's event poll is ready whenever there may be something in the list: for who watches it by `poll(2)` or
    /// by another event poll. Costs a system call for what happens.
    pub fn show_in(&self, kernel: RawFd) -> Result<()> {
        let _one = self.lock();
        if self.mark.get().is_none() {
            let event = EventFd::new(EventKind::All, true)?;
            let data = random_u64();
            let number = event.as_fd().as_raw_fd();
            control_events(kernel, libc::EPOLL_CTL_ADD, number, PollEvent { events: INPUT, data })?;
            self.mark.get_or_init(|| data);
            self.inbox.show(event);
        }
        Ok(())
    }

    /// Looks which of those that may have something have, so that the kernel's event poll is ready for no other.
    pub fn sift(&self) {
        if self.mark.get().is_none() {
            return;
        }
        self.take_news();
        let mut watches = self.lock();
        watches.sift();
        if watches.due.is_empty() {
            self.inbox.hide();
        }
    }

    /// What is in it, held still.
    pub fn lock(&self) -> MutexGuard<'_, Watches<W>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something of the list or of the kernel's event poll: what there is, `most` at most. `None` waits for ever.
    /// `settle` is called before each look, without the list's lock.
    pub fn wait(
        &self,
        kernel: RawFd,
        most: usize,
        timeout: Option<Duration>,
        settle: &mut dyn FnMut(),
    ) -> Result<Vec<PollEvent>> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        // What the last wait found of the kernel's, if it looked.
        let mut kernel_is_ready = None;
        loop {
            let mut found = Vec::new();
            self.take_news();
            settle();
            let (turn, context) = {
                let mut watches = self.lock();
                watches.collect(&mut found, most);
                if watches.due.is_empty() {
                    self.inbox.hide();
                }
                watches.waits = watches.waits.wrapping_add(1);
                (watches.waits.is_multiple_of(KERNEL_TURN), watches.context.clone())
            };
            let look = kernel_is_ready.unwrap_or(found.is_empty() || turn);
            if look && found.len() < most {
                let ours = found.len();
                found.resize(most, PollEvent::default());
                let count = events_now(kernel, &mut found[ours..]);
                found.truncate(ours + count.as_ref().copied().unwrap_or(0));
                if let Some(mark) = self.mark.get() {
                    let is_shown = |(place, event): (usize, &PollEvent)| place >= ours && event.data == *mark;
                    if let Some(place) = found.iter().enumerate().position(is_shown) {
                        found.remove(place);
                    }
                }
                if ours == 0 {
                    count?;
                }
            }
            if !found.is_empty() {
                return Ok(found);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                looked_in_vain();
                return Ok(found);
            }
            let mut entries = vec![PollEntry { number: kernel, events: POLL_IN, revents: 0 }];
            self.inbox.wait(context.as_deref(), &mut entries, end)?;
            kernel_is_ready = Some(entries[0].revents != 0);
        }
    }

    fn take_news(&self) {
        let mut news = Vec::new();
        self.inbox.take(&mut news);
        let mut watches = self.lock();
        for number in news {
            let number = number as RawFd;
            let entry = watches.get(number).and_then(|(watched, _)| watched.entry().cloned());
            // It may have been looked at since.
            if entry.is_none_or(|entry| entry.has_news()) {
                watches.make_due(number);
            }
        }
    }
}

impl<W: Watched> Watches<W> {
    /// Whether something is watched under the number.
    pub fn has(&self, number: RawFd) -> bool {
        self.watches.contains_key(&number)
    }

    /// Watches something; what was watched under the number is not any more.
    pub fn insert(&mut self, number: RawFd, watched: W, event: PollEvent) {
        self.watches.insert(number, Watch { watched, event, enabled: true, is_due: false });
    }

    /// What is watched under the number, and what for.
    pub fn get(&mut self, number: RawFd) -> Option<(&mut W, PollEvent)> {
        self.watches.get_mut(&number).map(|watch| (&mut watch.watched, watch.event))
    }

    /// Changes what it is watched for. False if nothing is watched under the number.
    pub fn change(&mut self, number: RawFd, event: PollEvent) -> bool {
        let Some(watch) = self.watches.get_mut(&number) else { return false };
        (watch.event, watch.enabled) = (event, true);
        true
    }

    /// Takes it out: what was watched, what for, and whether it would still be told.
    pub fn remove(&mut self, number: RawFd) -> Option<(W, PollEvent, bool)> {
        self.watches.remove(&number).map(|watch| (watch.watched, watch.event, watch.enabled))
    }

    /// Takes out everything.
    pub fn remove_all(&mut self) -> Vec<W> {
        std::mem::take(&mut self.watches).into_values().map(|watch| watch.watched).collect()
    }

    /// All that is watched, by numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (RawFd, &mut W)> {
        self.watches.iter_mut().map(|(number, watch)| (*number, &mut watch.watched))
    }

    /// What will be looked at next, in this order.
    pub fn due(&self) -> impl Iterator<Item = (RawFd, &W)> {
        self.due.iter().filter_map(|number| Some((*number, &self.watches.get(number)?.watched)))
    }

    /// Has it looked at.
    pub fn make_due(&mut self, number: RawFd) {
        if let Some(watch) = self.watches.get_mut(&number)
            && !watch.is_due
        {
            watch.is_due = true;
            self.due.push_back(number);
        }
    }

    /// The device that threads drive while they wait.
    pub fn set_device(&mut self, context: Option<Arc<Context>>) {
        self.context = context.or(self.context.take());
    }

    /// It is a parent's, who drops it.
    pub fn leave_device(&mut self) {
        std::mem::forget(self.context.take());
    }

    /// Looks at those that are due, and keeps those with something; of those by edge nobody can tell.
    fn sift(&mut self) {
        for _ in 0..self.due.len() {
            let Some(number) = self.due.pop_front() else { break };
            let Some(watch) = self.watches.get_mut(&number) else { continue };
            let by_edge = watch.event.events & EDGE != 0;
            if !by_edge && let Some(entry) = watch.watched.entry() {
                entry.is_looked_at();
            }
            watch.is_due = watch.enabled && (by_edge || watch.watched.look(watch.event) != 0);
            if watch.is_due {
                self.due.push_back(number);
            }
        }
    }

    /// Looks at those that are due, and puts what there is into `found`, which takes `most`.
    fn collect(&mut self, found: &mut Vec<PollEvent>, most: usize) {
        for _ in 0..self.due.len() {
            if found.len() == most {
                break;
            }
            let Some(number) = self.due.pop_front() else { break };
            let Some(watch) = self.watches.get_mut(&number) else { continue };
            watch.is_due = false;
            if watch.event.events & EDGE != 0 {
                // What it tells of while it is looked at is told now, and is no edge of its own.
                watch.watched.take_in();
            }
            if let Some(entry) = watch.watched.entry() {
                entry.is_looked_at();
            }
            let events = watch.watched.look(watch.event);
            if self.context.is_none() {
                self.context = watch.watched.device();
            }
            if !watch.enabled || events == 0 {
                continue;
            }
            found.push(PollEvent { events, data: watch.event.data });
            if watch.event.events & ONCE != 0 {
                watch.enabled = false;
            } else if watch.event.events & EDGE == 0 {
                watch.is_due = true;
                self.due.push_back(number);
            }
        }
    }
}
