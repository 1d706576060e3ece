//! Waiting for several sockets and other descriptors at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nonic_device::Context;
use nonic_sys::{POLL_IN, PollEntry, RawFd, cpu_relax};

use crate::inbox::{Entry, Inbox};
use crate::settings::Defaults;
use crate::stream::Stream;
use crate::table::Socket;
use crate::waiting::{Look, Looking, looked_in_vain};
use crate::{Error, Result};

/// What a number stands for, to whoever polls.
#[derive(Clone, Debug)]
pub struct Polled {
    socket: Socket,
    /// The descriptor itself shows something, too.
    also_plain: bool,
}

impl Polled {
    /// A stream, and nothing else.
    pub fn stream(stream: Arc<Stream>) -> Self {
        Self { socket: Socket::Stream(stream), also_plain: false }
    }

    /// A stream, and a descriptor of the kernel's under the same number.
    pub fn both(stream: Arc<Stream>) -> Self {
        Self { socket: Socket::Stream(stream), also_plain: true }
    }
}

/// Finds what a number stands for; `None`: a descriptor of the kernel's.
pub type Find<'a> = &'a dyn Fn(RawFd) -> Option<Polled>;

/// What a call waits for.
struct Watch<'a> {
    entries: &'a mut [PollEntry],
    /// The sockets among them, by their places.
    sockets: Vec<(usize, Socket)>,
    /// The others, and their places.
    plain: Vec<PollEntry>,
    places: Vec<usize>,
    /// The others are listeners only, who may wait a little while something else is ready.
    only_listeners: bool,
}

/// Polls that find something ready look at listeners every so often, and threads that look before they sleep at all others.
const PLAIN_TURN: u32 = 8;

impl<'a> Watch<'a> {
    fn new(entries: &'a mut [PollEntry], find: Find<'_>) -> Self {
        let (mut sockets, mut plain, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut only_listeners = true;
        for (place, entry) in entries.iter_mut().enumerate() {
            entry.revents = 0;
            let found = find(entry.number);
            if found.as_ref().is_none_or(|found| found.also_plain) {
                plain.push(*entry);
                places.push(place);
                only_listeners &= found.is_some();
            }
            if let Some(found) = found {
                sockets.push((place, found.socket));
            }
        }
        Self { entries, sockets, plain, places, only_listeners }
    }

    fn look_at_sockets(&mut self, look: Look) {
        for (place, socket) in &self.sockets {
            let entry = &mut self.entries[*place];
            entry.revents |= socket.ready(entry.events, look);
        }
    }

    fn look_at_plain(&mut self) -> Result<()> {
        if !self.plain.is_empty() && nonic_sys::poll(&mut self.plain, Some(Duration::ZERO))? > 0 {
            self.note_plain();
        }
        Ok(())
    }

    fn note_plain(&mut self) {
        for (found, place) in self.plain.iter().zip(&self.places) {
            self.entries[*place].revents |= found.revents;
        }
    }

    /// How many are ready.
    fn count(&self) -> usize {
        self.entries.iter().filter(|entry| entry.revents != 0).count()
    }

    fn look(&mut self) -> Result<usize> {
        static TURNS: AtomicU32 = AtomicU32::new(0);
        self.look_at_sockets(Look::Glance);
        // Once is enough for all: the device that is driven has the others' completions, too.
        let is_quiet = |(place, _): &&(usize, Socket)| self.entries[*place].revents == 0;
        if let Some((place, socket)) = self.sockets.iter().find(is_quiet) {
            let entry = &mut self.entries[*place];
            entry.revents |= socket.ready(entry.events, Look::Thorough);
            self.look_at_sockets(Look::Glance);
        }
        let may_wait = self.only_listeners && !self.plain.is_empty() && self.count() > 0;
        if !may_wait || TURNS.fetch_add(1, Ordering::Relaxed).is_multiple_of(PLAIN_TURN) {
            self.look_at_plain()?;
        }
        Ok(self.count())
    }

    /// The same, again and again: `turn` says how often before.
    fn look_again(&mut self, turn: u32) -> Result<usize> {
        self.look_at_sockets(Look::Thorough);
        if self.count() > 0 || turn.is_multiple_of(PLAIN_TURN) {
            self.look_at_plain()?;
        }
        Ok(self.count())
    }
}

/// Sockets that tell an inbox of what comes.
struct Armed<'a> {
    inbox: Arc<Inbox>,
    sockets: Vec<(&'a Socket, Arc<Entry>)>,
    context: Option<Arc<Context>>,
}

impl<'a> Armed<'a> {
    fn new(sockets: &'a [Socket]) -> Result<Self> {
        let inbox = Inbox::without_looking()?;
        let mut context = None;
        let add = |socket: &'a Socket| {
            let entry = Entry::new(&inbox, 0);
            socket.wakeup().add(&entry);
            context = socket.begin_wait().or(context.take());
            (socket, entry)
        };
        let sockets = sockets.iter().map(add).collect();
        Ok(Self { inbox, sockets, context })
    }

    fn wait(&self, plain: &mut Vec<PollEntry>, until: Instant) -> Result<()> {
        let mut done = || self.sockets.iter().for_each(|(socket, _)| socket.pause_wait());
        self.inbox.wait_then(self.context.as_deref(), plain, Some(until), &mut done)
    }

    /// What was told is about to be looked at.
    fn clear(&self) {
        self.inbox.take(&mut Vec::new());
        self.sockets.iter().for_each(|(_, entry)| entry.is_looked_at());
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        for (socket, entry) in &self.sockets {
            socket.end_wait();
            socket.wakeup().remove(entry);
        }
    }
}

/// `poll(2)` for sockets of this crate and any other descriptors: how many are ready. `None` waits for ever; a signal ends the
/// wait with `EINTR`.
pub fn poll(entries: &mut [PollEntry], timeout: Option<Duration>) -> Result<usize> {
    let find = |number| Socket::find(number).map(|socket| Polled { socket, also_plain: false });
    poll_found(entries, timeout, &find)
}

/// The same for sockets that the caller finds.
pub fn poll_found(entries: &mut [PollEntry], timeout: Option<Duration>, find: Find<'_>) -> Result<usize> {
    let mut watch = Watch::new(entries, find);
    let count = watch.look()?;
    if count == 0 && timeout == Some(Duration::ZERO) {
        looked_in_vain();
        return Ok(0);
    }
    if count > 0 {
        return Ok(count);
    }
    let began = Instant::now();
    let end = timeout.and_then(|timeout| began.checked_add(timeout));
    let is_over = |now: Instant| end.is_some_and(|end| now >= end);
    if !watch.sockets.is_empty() {
        let looking = Looking::begin();
        let mut turn = 0u32;
        while !looking.is_over() {
            cpu_relax();
            turn = turn.wrapping_add(1);
            let count = watch.look_again(turn)?;
            if count > 0 || is_over(Instant::now()) {
                looking.end(count > 0);
                return Ok(count);
            }
        }
        looking.end(false);
    }
    let sockets: Vec<Socket> = watch.sockets.iter().map(|(_, socket)| socket.clone()).collect();
    let armed = Armed::new(&sockets)?;
    loop {
        armed.clear();
        watch.look_at_sockets(Look::Waiting);
        let now = Instant::now();
        if watch.count() > 0 || is_over(now) {
            // Those of the kernel's that became ready meanwhile are told, too.
            watch.look_at_plain()?;
            return Ok(watch.count());
        }
        let wake_up = now + Defaults::get().wake_up;
        let until = end.map_or(wake_up, |end| end.min(wake_up));
        armed.wait(&mut watch.plain, until)?;
        watch.note_plain();
    }
}

/// Descriptors of one set of `select(2)`: 1024 bits.
pub type DescriptorSet = [u64; 16];

const BITS: usize = 64;
const POLL_PRIORITY: i16 = libc::POLLPRI;

/// `select(2)` for the same, among the first `count` descriptors: those to read from, to write to, and with something
/// exceptional. What is not ready is taken out of the sets; how many are left. `EINVAL` for more descriptors than a set holds.
pub fn select(
    count: usize,
    sets: &mut [Option<DescriptorSet>; 3],
    timeout: Option<Duration>,
) -> Result<usize> {
    select_with(count, sets, &mut |entries| poll(entries, timeout))
}

/// The same with the caller's way to poll.
pub fn select_with(
    count: usize,
    sets: &mut [Option<DescriptorSet>; 3],
    poll: &mut dyn FnMut(&mut [PollEntry]) -> Result<usize>,
) -> Result<usize> {
    const EVENTS: [i16; 3] = [POLL_IN, nonic_sys::POLL_OUT, POLL_PRIORITY];
    if count > size_of::<DescriptorSet>() * 8 {
        return Err(Error::new(libc::EINVAL));
    }
    let mut entries = Vec::new();
    for number in 0..count {
        let mut events = 0;
        for (set, event) in sets.iter().zip(EVENTS) {
            if set.is_some_and(|set| set[number / BITS] >> (number % BITS) & 1 != 0) {
                events |= event;
            }
        }
        if events != 0 {
            entries.push(PollEntry { number: number as i32, events, revents: 0 });
        }
    }
    poll(&mut entries)?;
    if entries.iter().any(|entry| entry.revents & nonic_sys::POLL_INVALID != 0) {
        return Err(Error::new(libc::EBADF));
    }
    let failed = nonic_sys::POLL_ERROR | nonic_sys::POLL_HANG_UP;
    let shown = [POLL_IN | failed, nonic_sys::POLL_OUT | nonic_sys::POLL_ERROR, POLL_PRIORITY | failed];
    let mut total = 0;
    for ((set, event), shown) in sets.iter_mut().zip(EVENTS).zip(shown) {
        let Some(set) = set else { continue };
        *set = [0; 16];
        for entry in entries.iter().filter(|entry| entry.events & event != 0 && entry.revents & shown != 0) {
            let number = entry.number as usize;
            set[number / BITS] |= 1 << (number % BITS);
            total += 1;
        }
    }
    Ok(total)
}
