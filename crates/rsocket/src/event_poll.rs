//! Event polls (`epoll(7)`) over sockets of this crate and any other descriptors: `repoll_create`, `repoll_ctl`, `repoll_wait`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use nonic_device::Context;
use nonic_sys::{PerProcess, PollEvent, RawFd, close_number, control_events, open_event_poll};

use crate::event_list::{ALWAYS, EVENTS, EventList, Watched};
use crate::inbox::Entry;
use crate::table::Socket;
use crate::waiting::Look;
use crate::{Error, Result};

/// Events of one wait at most; what is left comes with the next.
const EVENTS_MOST: usize = 1024;

/// A child begins without any, as without sockets.
static POLLS: PerProcess<RwLock<HashMap<RawFd, Arc<EventPoll>>>> = PerProcess::new();

fn polls() -> &'static RwLock<HashMap<RawFd, Arc<EventPoll>>> {
    POLLS.get_or_make(RwLock::default)
}

/// An event poll.
#[derive(Debug)]
struct EventPoll {
    /// That of the kernel's. It is the program's, who may close it behind our back: it is closed when asked for, and not with this.
    number: RawFd,
    list: EventList<Interest>,
}

#[derive(Debug)]
struct Interest {
    socket: Socket,
    entry: Arc<Entry>,
}

impl EventPoll {
    fn of(number: RawFd) -> Result<Arc<Self>> {
        let found = polls().read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
        found.ok_or(Error::new(libc::EBADF))
    }

    fn add(&self, socket: Socket, number: RawFd, event: PollEvent) -> Result<()> {
        let mut list = self.list.lock();
        if list.has(number) {
            return Err(Error::new(libc::EEXIST));
        }
        let entry = Entry::new(self.list.inbox(), u64::from(number.cast_unsigned()));
        socket.wakeup().add(&entry);
        list.set_device(socket.begin_wait());
        list.insert(number, Interest { socket, entry: Arc::clone(&entry) }, event);
        drop(list);
        // Whoever waits looks at it.
        entry.tell();
        Ok(())
    }

    fn change(&self, number: RawFd, event: PollEvent) -> Result<()> {
        let mut list = self.list.lock();
        if !list.change(number, event) {
            return Err(Error::new(libc::ENOENT));
        }
        list.make_due(number);
        let entry = list.get(number).map(|(interest, _)| Arc::clone(&interest.entry));
        drop(list);
        entry.iter().for_each(|entry| entry.tell());
        Ok(())
    }

    /// False if it is not watched.
    fn remove(&self, number: RawFd) -> bool {
        let removed = self.list.lock().remove(number);
        removed.is_some_and(|(interest, ..)| {
            interest.end();
            true
        })
    }
}

impl Drop for EventPoll {
    fn drop(&mut self) {
        self.list.lock().remove_all().into_iter().for_each(Interest::end);
    }
}

impl Watched for Interest {
    fn entry(&self) -> Option<&Arc<Entry>> {
        Some(&self.entry)
    }

    fn take_in(&self) {
        self.socket.ready(0, Look::Thorough);
    }

    fn look(&mut self, event: PollEvent) -> u32 {
        let wanted = event.events & EVENTS;
        u32::from(self.socket.ready(wanted as i16, Look::Armed).cast_unsigned()) & (wanted | ALWAYS)
    }

    fn device(&self) -> Option<Arc<Context>> {
        self.socket.device()
    }
}

impl Interest {
    fn end(self) {
        self.socket.end_wait();
        self.socket.wakeup().remove(&self.entry);
    }
}

/// Makes an event poll (`repoll_create`), whose descriptor is closed by an `exec` if `closed_by_exec`; its number. It is given back
/// with [`crate::close`].
pub fn create_event_poll(closed_by_exec: bool) -> Result<RawFd> {
    let list = EventList::new()?;
    let number = open_event_poll(closed_by_exec)?;
    let poll = Arc::new(EventPoll { number, list });
    let old = polls().write().unwrap_or_else(PoisonError::into_inner).insert(number, poll);
    // One that a program closed behind our back; it is dropped when nobody looks at the table.
    drop(old);
    Ok(number)
}

/// Adds, changes or removes what an event poll watches (`repoll_ctl`), as `epoll_ctl(2)`: `EBADF` (no event poll, or nothing under
/// the number), `EEXIST`, `ENOENT`, `EINVAL` (another operation, or one event poll in another).
pub fn control_event_poll(poll: RawFd, operation: i32, number: RawFd, event: PollEvent) -> Result<()> {
    let poll = EventPoll::of(poll)?;
    if EventPoll::of(number).is_ok() {
        return Err(Error::new(libc::EINVAL));
    }
    let Some(socket) = Socket::find(number) else {
        return Ok(control_events(poll.number, operation, number, event)?);
    };
    match operation {
        libc::EPOLL_CTL_ADD => poll.add(socket, number, event),
        libc::EPOLL_CTL_MOD => poll.change(number, event),
        libc::EPOLL_CTL_DEL if poll.remove(number) => Ok(()),
        libc::EPOLL_CTL_DEL => Err(Error::new(libc::ENOENT)),
        _ => Err(Error::new(libc::EINVAL)),
    }
}

/// Waits for what an event poll watches (`repoll_wait`), `most` at most; `None` waits for ever. By level, by edge and once, as
/// `epoll_wait(2)`; by edge, room to send is told with every change of the socket. A signal ends the wait with `EINTR`.
pub fn wait_event_poll(poll: RawFd, most: usize, timeout: Option<Duration>) -> Result<Vec<PollEvent>> {
    let poll = EventPoll::of(poll)?;
    poll.list.wait(poll.number, most.min(EVENTS_MOST), timeout, &mut || {})
}

/// A number is given back: an event poll's, or that of a socket, which no event poll watches any more. Whether it was an event poll,
/// which is then closed.
pub(crate) fn close(number: RawFd) -> Result<bool> {
    let Some(polls) = POLLS.get() else { return Ok(false) };
    let poll = polls.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    if poll.is_some() {
        close_number(number)?;
        return Ok(true);
    }
    let all: Vec<_> = polls.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
    for poll in all {
        poll.remove(number);
    }
    Ok(false)
}
