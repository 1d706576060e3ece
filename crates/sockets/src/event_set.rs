//! Event polls (`epoll(7)`) that have sockets of ours.
//!
//! The program's event poll is the kernel's and has all that is the kernel's in it. Beside it stands a set of our sockets: what
//! happens to one is told to the set's inbox, so that only those with news are looked at, and those that were ready the last
//! time and are watched by level.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_device::Context;
use nonic_rsocket::{Entry, Error, Inbox, Look, Result, Stream};
use nonic_sys::{POLL_IN, PollEntry, PollEvent, RawFd, control_events, events_now};

use crate::Way;
use crate::socket::{Socket, State};
use crate::table::{self, Object};

/// What is told whether it was asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
const OUTPUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;
/// The bits that say what there is; they are those of `poll(2)`.
const EVENTS: u32 = 0x3fff;
/// Waits that find sockets of ours look at the kernel's every so often.
const KERNEL_TURN: u32 = 8;

/// The sockets of ours in an event poll.
#[derive(Debug)]
pub(crate) struct EventSet {
    /// The event poll.
    number: RawFd,
    inbox: Arc<Inbox>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    interests: HashMap<RawFd, Interest>,
    /// Numbers to be looked at.
    due: VecDeque<RawFd>,
    context: Option<Arc<Context>>,
    waits: u32,
}

#[derive(Debug)]
struct Interest {
    socket: Arc<Socket>,
    /// The stream that tells what happens.
    watched: Option<(Arc<Stream>, Arc<Entry>)>,
    event: PollEvent,
    /// Not after it was told once and is to be told once.
    enabled: bool,
    is_due: bool,
    /// By edge: what was the count of calls that could not send all when room was told.
    room_told: Option<u32>,
    /// The kernel's event poll has the number, too.
    in_kernel: bool,
}

impl EventSet {
    fn new(number: RawFd) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { number, inbox: Inbox::new()?, inner: Mutex::default() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, socket: &Arc<Socket>, number: RawFd, event: PollEvent) -> Result<()> {
        let mut inner = self.lock();
        if inner.interests.contains_key(&number) {
            return Err(Error::new(libc::EEXIST));
        }
        let interest = Interest {
            socket: Arc::clone(socket),
            watched: None,
            event,
            enabled: true,
            is_due: false,
            room_told: None,
            in_kernel: false,
        };
        inner.interests.insert(number, interest);
        drop(inner);
        socket.enter_set(self);
        self.renew(number);
        Ok(())
    }

    /// Watches what a number stands for now.
    pub(crate) fn renew(&self, number: RawFd) {
        let mut inner = self.lock();
        let Inner { interests, due, context, .. } = &mut *inner;
        let Some(interest) = interests.get_mut(&number) else { return };
        let (stream, listens) = match &mut *interest.socket.lock() {
            State::Listening(listening) => (listening.stream(), true),
            State::Connecting { stream, .. } | State::Connected(stream) => (Some(Arc::clone(stream)), false),
            State::Fresh | State::Failed(_) | State::Kernel => (None, false),
        };
        if let (Some(stream), None) = (stream, &interest.watched) {
            let entry = Entry::new(&self.inbox, u64::from(number.cast_unsigned()));
            *context = stream.begin_watch(&entry).or(context.take());
            interest.watched = Some((stream, entry));
        }
        if listens && !interest.in_kernel {
            let added = control_events(self.number, libc::EPOLL_CTL_ADD, number, interest.event);
            interest.in_kernel = added.is_ok();
        }
        if !interest.is_due {
            interest.is_due = true;
            due.push_back(number);
        }
        drop(inner);
        if let Some(entry) = self.entry(number) {
            // Whoever waits looks at it.
            entry.tell();
        }
    }

    fn entry(&self, number: RawFd) -> Option<Arc<Entry>> {
        let inner = self.lock();
        let (_, entry) = inner.interests.get(&number)?.watched.as_ref()?;
        Some(Arc::clone(entry))
    }

    fn change(&self, number: RawFd, event: PollEvent) -> Result<()> {
        let mut inner = self.lock();
        let interest = inner.interests.get_mut(&number).ok_or(Error::new(libc::ENOENT))?;
        (interest.event, interest.enabled, interest.room_told) = (event, true, None);
        if interest.in_kernel {
            control_events(self.number, libc::EPOLL_CTL_MOD, number, event)?;
        }
        drop(inner);
        self.renew(number);
        Ok(())
    }

    fn remove(&self, number: RawFd) -> Result<()> {
        let interest = self.lock().interests.remove(&number).ok_or(Error::new(libc::ENOENT))?;
        if interest.in_kernel {
            control_events(self.number, libc::EPOLL_CTL_DEL, number, PollEvent::default())?;
        }
        interest.end();
        Ok(())
    }

    /// A socket is given back: the last of its numbers is about to be closed, which takes it out of the kernel's event poll.
    pub(crate) fn remove_socket(&self, socket: &Arc<Socket>, _last: RawFd) {
        let mut inner = self.lock();
        let gone: Vec<RawFd> = inner
            .interests
            .iter()
            .filter(|(_, interest)| Arc::ptr_eq(&interest.socket, socket))
            .map(|(number, _)| *number)
            .collect();
        let gone: Vec<Interest> = gone.iter().filter_map(|number| inner.interests.remove(number)).collect();
        drop(inner);
        gone.into_iter().for_each(Interest::end);
    }

    /// A number is the kernel's from now on, and so is whether it is ready.
    pub(crate) fn hand_over(&self, number: RawFd) {
        let Some(interest) = self.lock().interests.remove(&number) else { return };
        if !interest.in_kernel
            && let Err(error) = control_events(self.number, libc::EPOLL_CTL_ADD, number, interest.event)
        {
            tracing::warn!(number, %error, "an event poll loses a socket that goes over TCP");
        }
        if !interest.enabled {
            let silent = PollEvent { events: ONCE, data: interest.event.data };
            let _ = control_events(self.number, libc::EPOLL_CTL_MOD, number, silent);
        }
        interest.end();
    }

    /// The event poll's number is closed.
    pub(crate) fn end(&self, _number: RawFd) {
        let gone = std::mem::take(&mut self.lock().interests);
        gone.into_values().for_each(Interest::end);
    }

    /// In a child: the parent's streams tell it nothing.
    pub(crate) fn leave_to_parent(&self) {
        let mut inner = self.lock();
        inner.context = std::mem::take(&mut inner.context).and_then(|context| {
            std::mem::forget(context);
            None
        });
        for interest in inner.interests.values_mut() {
            std::mem::forget(interest.watched.take());
        }
    }

    /// Looks at those with news, and puts what there is into `found`, which takes `most`.
    fn collect(&self, found: &mut Vec<PollEvent>, most: usize) {
        let mut news = Vec::new();
        self.inbox.take(&mut news);
        let mut inner = self.lock();
        for number in news {
            let number = number as RawFd;
            let Inner { interests, due, .. } = &mut *inner;
            if let Some(interest) = interests.get_mut(&number)
                && !interest.is_due
            {
                interest.is_due = true;
                due.push_back(number);
            }
        }
        for _ in 0..inner.due.len() {
            if found.len() == most {
                break;
            }
            let Some(number) = inner.due.pop_front() else { break };
            let Some(interest) = inner.interests.get_mut(&number) else { continue };
            interest.is_due = false;
            if let Some((_, entry)) = &interest.watched {
                entry.is_looked_at();
            }
            if interest.socket.is_connecting() {
                let socket = Arc::clone(&interest.socket);
                drop(inner);
                // It may become the kernel's, and leave this set.
                socket.settle(number);
                inner = self.lock();
            }
            let Inner { interests, due, context, .. } = &mut *inner;
            let Some(interest) = interests.get_mut(&number) else { continue };
            let events = interest.look(context);
            if events == 0 {
                continue;
            }
            found.push(PollEvent { events, data: interest.event.data });
            if interest.event.events & ONCE != 0 {
                interest.enabled = false;
            } else if interest.event.events & EDGE == 0 {
                interest.is_due = true;
                due.push_back(number);
            }
        }
    }
}

impl Interest {
    /// What there is of what the program wants to know.
    fn look(&mut self, context: &mut Option<Arc<Context>>) -> u32 {
        if let State::Failed(_) = &*self.socket.lock() {
            return (self.event.events & EVENTS & (OUTPUT | libc::EPOLLIN as u32)) | ALWAYS;
        }
        let Some((stream, _)) = &self.watched else { return 0 };
        let wanted = self.event.events & EVENTS;
        let ready = stream.ready(wanted as i16, Look::Armed);
        if context.is_none() {
            *context = stream.device();
        }
        if !self.enabled {
            return 0;
        }
        let mut events = u32::from(ready.cast_unsigned()) & (wanted | ALWAYS);
        if self.event.events & EDGE != 0 && events & OUTPUT != 0 {
            let blocked = self.socket.blocked();
            if self.room_told.replace(blocked) == Some(blocked) {
                events &= !OUTPUT;
            }
        }
        events
    }

    fn end(self) {
        if let Some((stream, entry)) = &self.watched {
            stream.end_watch(entry);
        }
    }
}

/// `epoll_ctl(2)` for a socket of ours.
pub fn control(poll: RawFd, operation: i32, number: RawFd, event: PollEvent) -> Result<Way<()>> {
    let Some(socket) = table::socket(number) else { return Ok(Way::Kernel) };
    if !table::has_place(poll) {
        return Ok(Way::Kernel);
    }
    let set = match (table::event_set(poll), operation) {
        (Some(set), _) => set,
        (None, libc::EPOLL_CTL_ADD) => {
            // Whether it is an event poll the kernel says.
            let asked = control_events(poll, libc::EPOLL_CTL_DEL, number, PollEvent::default());
            if asked.is_err_and(|error| error.raw_os_error() != Some(libc::ENOENT)) {
                return Ok(Way::Kernel);
            }
            let set = EventSet::new(poll)?;
            drop(table::put(poll, Object::EventSet(Arc::clone(&set))));
            set
        }
        (None, _) => return Ok(Way::Kernel),
    };
    match operation {
        libc::EPOLL_CTL_ADD => set.add(&socket, number, event)?,
        libc::EPOLL_CTL_MOD => set.change(number, event)?,
        libc::EPOLL_CTL_DEL => set.remove(number)?,
        _ => return Err(Error::new(libc::EINVAL)),
    }
    Ok(Way::Done(()))
}

/// `epoll_wait(2)`: what there is, `most` at most. `None` waits for ever.
pub fn wait(poll: RawFd, most: usize, timeout: Option<Duration>) -> Result<Way<Vec<PollEvent>>> {
    let Some(set) = table::event_set(poll) else { return Ok(Way::Kernel) };
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    // What the last wait found of the kernel's, if it looked.
    let mut kernel_is_ready = None;
    loop {
        let mut found = Vec::new();
        set.collect(&mut found, most);
        let turn = {
            let mut inner = set.lock();
            inner.waits = inner.waits.wrapping_add(1);
            inner.waits.is_multiple_of(KERNEL_TURN)
        };
        let look = kernel_is_ready.unwrap_or(found.is_empty() || turn);
        if look && found.len() < most {
            let ours = found.len();
            found.resize(most, PollEvent::default());
            let count = events_now(poll, &mut found[ours..]);
            found.truncate(ours + count.as_ref().copied().unwrap_or(0));
            if ours == 0 {
                count?;
            }
        }
        if !found.is_empty() || end.is_some_and(|end| Instant::now() >= end) {
            return Ok(Way::Done(found));
        }
        let context = set.lock().context.clone();
        let mut entries = vec![PollEntry { number: poll, events: POLL_IN, revents: 0 }];
        set.inbox.wait(context.as_deref(), &mut entries, end)?;
        kernel_is_ready = Some(entries[0].revents != 0);
    }
}
