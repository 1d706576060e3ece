//! Event polls (`epoll(7)`) that have sockets of ours: the program's event poll is the kernel's, and beside it stands a list of our
//! sockets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nonic_device::Context;
use nonic_rsocket::event_list::{ALWAYS, EDGE, EVENTS, EventList, ONCE, Watched, Watches};
use nonic_rsocket::{Entry, Error, Look, Result, Stream};
use nonic_sys::{PollEvent, RawFd, control_events};

use crate::Way;
use crate::socket::{Socket, State};
use crate::table::{self, Object};

const OUTPUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;

/// The sockets of ours in an event poll.
#[derive(Debug)]
pub(crate) struct EventSet {
    /// The event poll.
    number: RawFd,
    list: EventList<Interest>,
    /// Event polls that were added to it, by their numbers.
    within: Mutex<Vec<RawFd>>,
}

/// Event polls stand in each other no deeper; the kernel takes no more either.
const DEPTH_MOST: u32 = 5;

#[derive(Debug)]
pub(crate) struct Interest {
    socket: Arc<Socket>,
    /// The stream that tells what happens.
    watched: Option<(Arc<Stream>, Arc<Entry>)>,
    /// By edge: what was the count of calls that could not send all when room was told.
    room_told: Option<u32>,
    /// The kernel's event poll has the number, too.
    in_kernel: bool,
}

impl EventSet {
    fn new(number: RawFd) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { number, list: EventList::new()?, within: Mutex::default() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Watches<Interest>> {
        self.list.lock()
    }

    /// The one of an event poll, made if there is none.
    fn of(poll: RawFd) -> Result<Arc<Self>> {
        if let Some(set) = table::event_set(poll) {
            return Ok(set);
        }
        let set = Self::new(poll)?;
        drop(table::put(poll, Object::EventSet(Arc::clone(&set))));
        Ok(set)
    }

    /// Somebody looks at the event poll's descriptor: it shows from now on what is in the set.
    pub(crate) fn show(&self) {
        if let Err(error) = self.list.show_in(self.number) {
            tracing::warn!(number = self.number, %error, "an event poll within another one does not show its streams");
        }
    }

    /// What the descriptor shows is there, and so it is with those of event polls within.
    pub(crate) fn sift(&self) {
        self.sift_at(0);
    }

    fn sift_at(&self, depth: u32) {
        self.sift_within(depth);
        self.settle();
        self.list.sift();
    }

    fn sift_within(&self, depth: u32) {
        let mut numbers = self.within.lock().unwrap_or_else(PoisonError::into_inner);
        // Of those that are closed somebody else may have the number: then a look at it does no harm.
        numbers.retain(|number| table::event_set(*number).is_some());
        let sets: Vec<_> = numbers.iter().filter_map(|number| table::event_set(*number)).collect();
        drop(numbers);
        for set in sets.iter().filter(|_| depth < DEPTH_MOST) {
            set.sift_at(depth + 1);
        }
    }

    /// An event poll is added.
    fn nest(&self, number: RawFd) {
        let mut numbers = self.within.lock().unwrap_or_else(PoisonError::into_inner);
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }

    fn add(self: &Arc<Self>, socket: &Arc<Socket>, number: RawFd, event: PollEvent) -> Result<()> {
        let mut list = self.lock();
        if list.has(number) {
            return Err(Error::new(libc::EEXIST));
        }
        let interest =
            Interest { socket: Arc::clone(socket), watched: None, room_told: None, in_kernel: false };
        list.insert(number, interest, event);
        drop(list);
        socket.enter_set(self);
        self.renew(number);
        Ok(())
    }

    /// Watches what a number stands for now.
    pub(crate) fn renew(&self, number: RawFd) {
        let mut list = self.lock();
        let Some((interest, event)) = list.get(number) else { return };
        let (stream, listens) = match &mut *interest.socket.lock() {
            State::Listening(listening) => (listening.stream(), true),
            State::Connecting { stream, .. } | State::Connected(stream) => (Some(Arc::clone(stream)), false),
            State::Fresh | State::Failed(_) | State::Kernel => (None, false),
        };
        let mut device = None;
        if let (Some(stream), None) = (stream, &interest.watched) {
            let entry = Entry::new(self.list.inbox(), u64::from(number.cast_unsigned()));
            device = stream.begin_watch(&entry);
            interest.watched = Some((stream, entry));
        }
        if listens && !interest.in_kernel {
            interest.in_kernel = control_events(self.number, libc::EPOLL_CTL_ADD, number, event).is_ok();
        }
        let entry = interest.entry().cloned();
        list.set_device(device);
        list.make_due(number);
        drop(list);
        if let Some(entry) = entry {
            // Whoever waits looks at it.
            entry.tell();
        }
        self.list.sift();
    }

    fn change(&self, number: RawFd, event: PollEvent) -> Result<()> {
        let mut list = self.lock();
        if !list.change(number, event) {
            return Err(Error::new(libc::ENOENT));
        }
        if let Some((interest, event)) = list.get(number) {
            interest.room_told = None;
            if interest.in_kernel {
                control_events(self.number, libc::EPOLL_CTL_MOD, number, event)?;
            }
        }
        drop(list);
        self.renew(number);
        Ok(())
    }

    fn remove(&self, number: RawFd) -> Result<()> {
        let (interest, ..) = self.lock().remove(number).ok_or(Error::new(libc::ENOENT))?;
        if interest.in_kernel {
            control_events(self.number, libc::EPOLL_CTL_DEL, number, PollEvent::default())?;
        }
        interest.end();
        self.list.sift();
        Ok(())
    }

    /// A socket is given back: the last of its numbers is about to be closed, which takes it out of the kernel's event poll.
    pub(crate) fn remove_socket(&self, socket: &Arc<Socket>, _last: RawFd) {
        let mut list = self.lock();
        let numbers: Vec<RawFd> = list
            .iter_mut()
            .filter(|(_, interest)| Arc::ptr_eq(&interest.socket, socket))
            .map(|(number, _)| number)
            .collect();
        let gone: Vec<_> = numbers.iter().filter_map(|number| list.remove(*number)).collect();
        drop(list);
        gone.into_iter().for_each(|(interest, ..)| interest.end());
        self.list.sift();
    }

    /// A number is the kernel's from now on, and so is whether it is ready.
    pub(crate) fn hand_over(&self, number: RawFd) {
        let Some((interest, event, enabled)) = self.lock().remove(number) else { return };
        if !interest.in_kernel
            && let Err(error) = control_events(self.number, libc::EPOLL_CTL_ADD, number, event)
        {
            tracing::warn!(number, %error, "an event poll loses a socket that goes over TCP");
        }
        if !enabled {
            let silent = PollEvent { events: ONCE, data: event.data };
            let _ = control_events(self.number, libc::EPOLL_CTL_MOD, number, silent);
        }
        interest.end();
    }

    /// The event poll's number is closed.
    pub(crate) fn end(&self, _number: RawFd) {
        let gone = self.lock().remove_all();
        gone.into_iter().for_each(Interest::end);
    }

    /// In a child: the parent's streams tell it nothing.
    pub(crate) fn leave_to_parent(&self) {
        let mut list = self.lock();
        list.leave_device();
        for (_, interest) in list.iter_mut() {
            std::mem::forget(interest.watched.take());
        }
    }

    /// Lets those that have news and are connecting become what they are. One may become the kernel's, and leave this set.
    fn settle(&self) {
        let is_connecting = |(_, interest): &(RawFd, &Interest)| interest.socket.is_connecting();
        let connecting: Vec<(RawFd, Arc<Socket>)> = self
            .lock()
            .due()
            .filter(is_connecting)
            .map(|(number, interest)| (number, Arc::clone(&interest.socket)))
            .collect();
        connecting.into_iter().for_each(|(number, socket)| socket.settle(number));
    }
}

impl Watched for Interest {
    fn entry(&self) -> Option<&Arc<Entry>> {
        self.watched.as_ref().map(|(_, entry)| entry)
    }

    fn take_in(&self) {
        if let Some((stream, _)) = &self.watched {
            stream.ready(0, Look::Thorough);
        }
    }

    fn look(&mut self, event: PollEvent) -> u32 {
        if let State::Failed(_) = &*self.socket.lock() {
            return (event.events & EVENTS & (OUTPUT | libc::EPOLLIN as u32)) | ALWAYS;
        }
        let Some((stream, _)) = &self.watched else { return 0 };
        let wanted = event.events & EVENTS;
        let ready = stream.ready(wanted as i16, Look::Armed);
        let mut events = u32::from(ready.cast_unsigned()) & (wanted | ALWAYS);
        if event.events & EDGE != 0 && events & OUTPUT != 0 {
            let blocked = self.socket.blocked();
            if self.room_told.replace(blocked) == Some(blocked) {
                events &= !OUTPUT;
            }
        }
        events
    }

    fn device(&self) -> Option<Arc<Context>> {
        self.watched.as_ref().and_then(|(stream, _)| stream.device())
    }
}

impl Interest {
    fn end(self) {
        if let Some((stream, entry)) = &self.watched {
            stream.end_watch(entry);
        }
    }
}

/// `epoll_ctl(2)` for a socket of ours, and for what is added.
pub fn control(poll: RawFd, operation: i32, number: RawFd, event: PollEvent) -> Result<Way<()>> {
    let Some(socket) = table::socket(number) else {
        if operation == libc::EPOLL_CTL_ADD && table::has_place(number) && nonic_sys::is_event_poll(number) {
            // Sockets that are added to it later show in the outer one, too.
            let set = EventSet::of(number)?;
            set.show();
            set.sift();
            if table::has_place(poll) && nonic_sys::is_event_poll(poll) {
                EventSet::of(poll)?.nest(number);
            }
        }
        return Ok(Way::Kernel);
    };
    if socket.is_foreign() {
        return socket.claim(number).map(|()| Way::Kernel);
    }
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
            EventSet::of(poll)?
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
    let mut settle = || {
        set.sift_within(0);
        set.settle();
    };
    set.list.wait(poll, most, timeout, &mut settle).map(Way::Done)
}
