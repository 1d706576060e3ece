//! Waiting for several sockets and other descriptors at a time.

use std::time::{Duration, Instant};

use nonic_sys::{POLL_IN, PollEntry, cpu_relax};

use crate::settings::Defaults;
use crate::table::Socket;
use crate::waiting::Look;
use crate::wakeup::Waker;
use crate::{Error, Result};

/// What a call waits for.
struct Watch<'a> {
    entries: &'a mut [PollEntry],
    /// The sockets among them, by their places.
    sockets: Vec<(usize, Socket)>,
    /// The others, and their places; when the call sleeps, its waker behind them.
    plain: Vec<PollEntry>,
    places: Vec<usize>,
}

impl<'a> Watch<'a> {
    fn new(entries: &'a mut [PollEntry]) -> Self {
        let (mut sockets, mut plain, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (place, entry) in entries.iter_mut().enumerate() {
            entry.revents = 0;
            match Socket::find(entry.number) {
                Some(socket) => sockets.push((place, socket)),
                None => {
                    plain.push(*entry);
                    places.push(place);
                }
            }
        }
        Self { entries, sockets, plain, places }
    }

    /// How many of the sockets are ready.
    fn look_at_sockets(&mut self, look: Look) -> usize {
        for (place, socket) in &self.sockets {
            let entry = &mut self.entries[*place];
            entry.revents = socket.ready(entry.events, look);
        }
        self.sockets.iter().filter(|(place, _)| self.entries[*place].revents != 0).count()
    }

    /// Sleeps until one of the others is ready, or the waker tells of a socket, if there is one.
    fn look_at_plain(&mut self, timeout: Option<Duration>) -> Result<usize> {
        if self.plain.is_empty() {
            return Ok(0);
        }
        nonic_sys::poll(&mut self.plain, timeout)?;
        let mut count = 0;
        for (found, place) in self.plain.iter().zip(&self.places) {
            self.entries[*place].revents = found.revents;
            count += usize::from(found.revents != 0);
        }
        Ok(count)
    }

    fn look(&mut self) -> Result<usize> {
        let mut count = self.look_at_sockets(Look::Glance);
        if count == 0 {
            count = self.look_at_sockets(Look::Thorough);
        }
        Ok(count + self.look_at_plain(Some(Duration::ZERO))?)
    }
}

/// Sockets that tell a waker of what comes.
struct Armed<'a> {
    waker: Waker,
    sockets: &'a [Socket],
}

impl<'a> Armed<'a> {
    fn new(sockets: &'a [Socket]) -> Result<Self> {
        let mut waker = Waker::new()?;
        for socket in sockets {
            waker.add(socket.wakeup());
            socket.begin_wait();
        }
        Ok(Self { waker, sockets })
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.sockets.iter().for_each(Socket::end_wait);
    }
}

/// `poll(2)` for sockets of this crate and any other descriptors: how many are ready. `None` waits for ever; a signal ends the
/// wait with `EINTR`.
pub fn poll(entries: &mut [PollEntry], timeout: Option<Duration>) -> Result<usize> {
    let mut watch = Watch::new(entries);
    let count = watch.look()?;
    if count > 0 || timeout == Some(Duration::ZERO) {
        return Ok(count);
    }
    let began = Instant::now();
    let end = timeout.and_then(|timeout| began.checked_add(timeout));
    let is_over = |now: Instant| end.is_some_and(|end| now >= end);
    let spin_end = began + Defaults::get().polling;
    while !watch.sockets.is_empty() && Instant::now() < spin_end {
        cpu_relax();
        let count = watch.look()?;
        if count > 0 || is_over(Instant::now()) {
            return Ok(count);
        }
    }
    let sockets: Vec<Socket> = watch.sockets.iter().map(|(_, socket)| socket.clone()).collect();
    let armed = Armed::new(&sockets)?;
    watch.plain.push(PollEntry { number: armed.waker.number(), events: POLL_IN, revents: 0 });
    loop {
        armed.waker.clear();
        let count = watch.look_at_sockets(Look::Armed);
        let now = Instant::now();
        let rest = if count > 0 || is_over(now) {
            Duration::ZERO
        } else {
            let left = end.map(|end| end - now);
            left.map_or(Defaults::get().wake_up, |left| left.min(Defaults::get().wake_up))
        };
        let count = count + watch.look_at_plain(Some(rest))?;
        if count > 0 {
            // Those that became ready while it slept are told, too.
            return Ok(count);
        }
        if is_over(Instant::now()) {
            return Ok(watch.look_at_sockets(Look::Thorough));
        }
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
    poll(&mut entries, timeout)?;
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
