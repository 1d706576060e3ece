//! The agent: one thread a process that drives the device while the program does something else. It sleeps on one
//! descriptor, runs with every signal blocked, and starts with the first queue pair.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nonic_sys::{AsFd, PacketSocket, Ready, prefer_short_slices, timer_slack_ns, yield_now};
use nonic_transport::{Link, LinkEvent, Sleeper};

use crate::engine::{Engine, Progress, lock};

/// Tokens of the descriptors the agent waits on.
pub(crate) const DOORBELL: u64 = 0;
/// First token of listening sockets.
pub(crate) const LISTENERS: u64 = 1 << 32;
/// First token of links.
pub(crate) const LINKS: u64 = 2 << 32;
/// First token of connections that have not introduced themselves.
const STRANGERS: u64 = 3 << 32;

/// While a program polls, the agent looks this often whether it still does: messages wait at most twice this long for a
/// program that stopped polling.
const TICK: Duration = Duration::from_micros(250);
/// What the agent asks of the scheduler: to run soon, and briefly. The least there is.
const SLICE_NS: u64 = 100_000;
/// How long the agent goes on looking after it has handled something for a program that does not poll: the next
/// message of a stream then finds it awake.
const LINGER: Duration = Duration::from_micros(50);
/// Connections that may wait for their introduction.
const STRANGERS_MAX: usize = 256;
/// Links at most, so that strangers cannot take every descriptor this process may have.
const LINKS_MAX: usize = 1024;
/// How long they may.
const STRANGER_PATIENCE: Duration = Duration::from_secs(5);

struct Stranger {
    socket: PacketSocket,
    since: Instant,
}

struct Agent<'a> {
    engine: &'a Engine,
    strangers: HashMap<u64, Stranger>,
    next_stranger: u64,
    /// Something woke the agent that it has not looked after yet, though a thread of the program may drive.
    rung: bool,
}

/// Runs until the engine stops.
pub(crate) fn run(engine: &Engine) {
    timer_slack_ns(1);
    prefer_short_slices(SLICE_NS);
    let mut agent = Agent { engine, strangers: HashMap::new(), next_stranger: STRANGERS, rung: true };
    let mut ready = Vec::new();
    while !engine.stop.load(Ordering::SeqCst) {
        let timeout = agent.work();
        engine.epoll.wait(&mut ready, timeout);
        engine.timed.store(false, Ordering::SeqCst);
        let at_work = lock(&engine.at_work);
        agent.rung |= !ready.is_empty();
        for event in &ready {
            agent.handle(*event);
        }
        drop(at_work);
    }
}

impl Agent<'_> {
    /// Does what is to do; returns how long to wait for more.
    fn work(&mut self) -> Option<Duration> {
        let mut lingering: Option<Instant> = None;
        loop {
            self.engine.use_again();
            let at_work = lock(&self.engine.at_work);
            let next_timer = self.engine.run_timers();
            if self.engine.has_deferred() {
                self.accept_all();
            }
            self.engine.run_deferred();
            let until_timer = |most: Option<Duration>| match next_timer
                .map(|when| when.saturating_duration_since(Instant::now()))
            {
                Some(left) => Some(most.map_or(left, |most| most.min(left))),
                None => most,
            };
            if self.engine.stop.load(Ordering::SeqCst) {
                return Some(Duration::ZERO);
            }
            let patience = self.dismiss_strangers();
            if !self.rung && self.engine.has_waiter() {
                return until_timer(patience);
            }
            if self.engine.program_polls() {
                self.engine.timed.store(true, Ordering::SeqCst);
                // A program that asked for an event since then did not see the flag.
                if self.engine.anyone_sleeps() {
                    continue;
                }
                return until_timer(Some(TICK));
            }
            let progress = self.engine.progress(usize::MAX);
            drop(at_work);
            if progress.any_of(Progress::WORKED) {
                lingering = Some(Instant::now() + LINGER);
                continue;
            }
            if progress.any_of(Progress::HELD | Progress::TAKEN) || self.engine.has_deferred() {
                return until_timer(Some(TICK));
            }
            let watched = self.engine.anyone_sleeps() || self.engine.has_waiter();
            if !watched && lingering.is_some_and(|until| Instant::now() < until) {
                yield_now();
                continue;
            }
            if self.fall_asleep() {
                self.rung = false;
                return until_timer(patience);
            }
        }
    }

    /// Says on every ring whose bell must be rung; false if a message came meanwhile.
    fn fall_asleep(&self) -> bool {
        let sleeper = || if self.engine.has_waiter() { Sleeper::Waiter } else { Sleeper::Agent };
        let chosen = sleeper();
        // A waiter that left before the rings named it did not know that they would.
        self.engine.say_asleep(chosen) && sleeper() == chosen
    }

    fn handle(&mut self, event: Ready) {
        match event.token {
            DOORBELL => {
                let _ = self.engine.party().doorbell.take();
            }
            token if token >= STRANGERS => self.meet(token),
            token if token >= LINKS => {
                let Some(link) = self.engine.link_of_token(token) else { return };
                if self.engine.is_parted(&link) {
                    self.engine.watch_parted(&link);
                } else if link.handle_socket() == LinkEvent::Ended || link.process_ended() {
                    self.accept_all();
                    self.engine.bury(&link);
                }
            }
            token => self.accept((token - LISTENERS) as usize),
        }
    }

    /// Takes every connection that waits, before a link is buried: the last that its peer said may stand in the ring of another
    /// that it had just made.
    fn accept_all(&mut self) {
        let listeners = lock(&self.engine.listeners).len();
        (0..listeners).for_each(|listener| self.accept(listener));
        let strangers: Vec<_> = self.strangers.keys().copied().collect();
        strangers.into_iter().for_each(|token| self.meet(token));
    }

    fn accept(&mut self, listener: usize) {
        let Some(listener) = lock(&self.engine.listeners).get(listener).cloned() else { return };
        while let Ok(socket) = listener.accept() {
            if self.strangers.len() >= STRANGERS_MAX || self.engine.links().len() >= LINKS_MAX {
                tracing::warn!("too many connections; a new one is refused");
                continue;
            }
            let token = self.next_stranger;
            self.next_stranger += 1;
            if self.engine.epoll.add(socket.as_fd(), token).is_ok() {
                self.strangers.insert(token, Stranger { socket, since: Instant::now() });
                self.meet(token);
            }
        }
    }

    /// Takes a connection's introduction, if it has come.
    fn meet(&mut self, token: u64) {
        let Some(Stranger { socket, since }) = self.strangers.remove(&token) else { return };
        let meeting = lock(&self.engine.meeting);
        match Link::accept(self.engine.party(), socket, &self.engine.own_blocks()) {
            Ok(link) => {
                if let Some(socket) = link.socket() {
                    self.engine.epoll.remove(socket);
                }
                let link = self.engine.add_link(Arc::new(link), None);
                drop(meeting);
                if link.handle_socket() == LinkEvent::Ended {
                    self.engine.bury(&link);
                }
            }
            Err((_, Some(socket))) => {
                self.strangers.insert(token, Stranger { socket, since });
            }
            Err((error, None)) => tracing::debug!(%error, "a connection that is none of ours"),
        }
    }

    /// Closes connections that never introduced themselves; returns when to look again.
    fn dismiss_strangers(&mut self) -> Option<Duration> {
        self.strangers.retain(|_, stranger| stranger.since.elapsed() < STRANGER_PATIENCE);
        (!self.strangers.is_empty()).then_some(STRANGER_PATIENCE)
    }
}
