//! Processes that connect: from the moment they are accepted until they have introduced themselves, or are sent away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nonic_sys::{AsFd, AsRawFd, PacketSocket, Seldom, is_out_of_descriptors};
use nonic_transport::{Link, LinkEvent};

use super::shares::{Held, Limits, most_silent, surplus};
use super::turns::{Rest, Turn};
use super::{Agent, LISTENERS, NEWCOMERS};
use crate::engine::lock;

/// How long a connection may wait for its introduction.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections taken before others have their turn.
const AT_ONCE: usize = 64;
/// How long that takes at most, if foreigners are among them.
const LONGEST: Duration = Duration::from_micros(500);
/// Connections that can wait in a listening socket, and some.
const BACKLOG: usize = 1100;
/// How long no connection is taken when there is no descriptor for it.
const DESCRIPTORS_MAY_COME: Duration = Duration::from_millis(100);

static NO_DESCRIPTORS: Seldom = Seldom::new();
static SENT_AWAY: Seldom = Seldom::new();
static NO_HELLO: Seldom = Seldom::new();

#[derive(Debug)]
struct Newcomer {
    socket: PacketSocket,
    user: u32,
    since: Instant,
    /// It came from another network namespace.
    is_elsewhere: bool,
}

/// Those who have not introduced themselves, by their tokens: the oldest first.
#[derive(Debug)]
pub(super) struct Newcomers {
    waiting: BTreeMap<u64, Newcomer>,
    next: u64,
    /// After foreigners were accepted.
    rest: Rest,
    /// Listening sockets that are not watched meanwhile.
    resting: Vec<usize>,
}

impl Default for Newcomers {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), next: NEWCOMERS, rest: Rest::new(3), resting: Vec::new() }
    }
}

impl Newcomers {
    fn held(&self) -> Vec<Held<u64>> {
        let held =
            |(token, newcomer): (&u64, &Newcomer)| Held { user: newcomer.user, heard: *token, which: *token };
        self.waiting.iter().map(held).collect()
    }
}

impl Agent<'_> {
    /// A listening socket has connections.
    pub(super) fn listener_called(&mut self, listener: usize) {
        self.newcomers.resting.push(listener);
        self.accept_some();
    }

    /// Takes connections of the listening sockets that have some, unless too many came.
    pub(super) fn accept_some(&mut self) {
        if self.newcomers.resting.is_empty() {
            return;
        }
        let began = Instant::now();
        if self.newcomers.rest.left(began).is_some() {
            return;
        }
        for listener in std::mem::take(&mut self.newcomers.resting) {
            if self.accept(listener, AT_ONCE) {
                // Foreigners among others: who connects in a loop must not keep this thread busy for ever.
                self.newcomers.rest.begin(began, Instant::now());
            }
            let socket = lock(&self.engine.links.listeners).get(listener).cloned();
            if let Some(socket) = socket {
                let token = LISTENERS + listener as u64;
                let _ = self.engine.agent.epoll.watch_once_more(socket.socket.as_fd(), token);
            }
        }
    }

    /// Takes every connection that waits, before a link is buried: the last that its peer said may stand in the ring of another
    /// that it had just made.
    pub(super) fn accept_all(&mut self) {
        let listeners = lock(&self.engine.links.listeners).len();
        for listener in 0..listeners {
            self.accept(listener, BACKLOG);
        }
        let tokens: Vec<_> = self.newcomers.waiting.keys().copied().collect();
        tokens.into_iter().for_each(|token| self.meet(token));
    }

    /// Takes `most` connections; whether a foreigner's was among them.
    fn accept(&mut self, listener: usize, most: usize) -> bool {
        let Some(listener) = lock(&self.engine.links.listeners).get(listener).cloned() else { return false };
        let (mut foreign, began) = (false, Instant::now());
        for _ in 0..most {
            if foreign && most < BACKLOG && began.elapsed() > LONGEST {
                break;
            }
            match listener.socket.accept() {
                Ok(socket) => foreign |= self.take_in(socket, listener.is_for_others),
                Err(error) if is_out_of_descriptors(&error) => {
                    if !self.make_room() {
                        if let Some(unsaid) = NO_DESCRIPTORS.turn() {
                            tracing::warn!(%error, unsaid, "connections cannot be taken now, and wait: are there too many open files?");
                        }
                        self.newcomers.rest.last(Instant::now(), DESCRIPTORS_MAY_COME);
                        return foreign;
                    }
                }
                Err(_) => return foreign,
            }
        }
        foreign
    }

    /// Takes a connection in; whether it is a foreigner's.
    fn take_in(&mut self, socket: PacketSocket, is_elsewhere: bool) -> bool {
        let Ok(credentials) = socket.peer() else { return true };
        let (user, number) = (credentials.uid, socket.as_fd().as_raw_fd() as usize);
        let foreign = !self.engine.is_own_user(user);
        let limits = Limits::now();
        // Numbers are given out from the least on: the process has as many descriptors as that, or more.
        if number >= limits.reserved_from && !self.make_room() && foreign {
            self.say_sent_away(user);
            return true;
        }
        let token = self.newcomers.next;
        self.newcomers.next += 1;
        let epoll = &self.engine.agent.epoll;
        let watched =
            if foreign { epoll.add_once(socket.as_fd(), token) } else { epoll.add(socket.as_fd(), token) };
        if watched.is_err() {
            return foreign;
        }
        let since = Instant::now();
        self.newcomers.waiting.insert(token, Newcomer { socket, user, since, is_elsewhere });
        self.count_newcomers();
        if !foreign {
            self.meet(token);
        }
        while let Some(token) = surplus(&self.newcomers.held(), self.engine.own_user(), limits.newcomers) {
            // It may have said something by now, and is heard if its user may have another link.
            let user = self.newcomers.waiting.get(&token).map(|newcomer| newcomer.user);
            if user.is_some_and(|user| self.may_have_link(user, limits.links)) {
                self.meet(token);
            }
            if let Some(user) = self.send_away(token) {
                self.say_sent_away(user);
            }
        }
        foreign
    }

    /// A connection that has not introduced itself has something to say, or is gone.
    pub(super) fn newcomer_called(&mut self, token: u64) {
        match self.newcomers.waiting.get(&token) {
            Some(newcomer) if self.engine.is_own_user(newcomer.user) => self.meet(token),
            Some(_) => self.others.add(Turn::Newcomer(token)),
            None => {}
        }
    }

    /// Takes a connection's introduction, if it has come.
    pub(super) fn meet(&mut self, token: u64) {
        let Some(newcomer) = self.newcomers.waiting.remove(&token) else { return };
        let Newcomer { socket, user, since, is_elsewhere } = newcomer;
        let meeting = lock(&self.engine.links.meeting);
        match Link::accept(self.engine.party(), socket, &self.engine.own_blocks()) {
            Ok(link) => {
                if let Some(socket) = link.socket() {
                    self.engine.agent.epoll.remove(socket);
                }
                let link = Arc::new(if is_elsewhere { link.lies_elsewhere() } else { link });
                link.attention.note_heard(self.moment());
                let token = self.engine.add_link(Arc::clone(&link), None);
                drop(meeting);
                if self.engine.is_foreign(&link) {
                    self.queue(token, link);
                } else if link.handle_socket() == LinkEvent::Ended {
                    self.engine.bury(&link);
                }
                self.part_from_surplus();
            }
            Err((_, Some(socket))) => {
                if !self.engine.is_own_user(user) {
                    let _ = self.engine.agent.epoll.watch_once_more(socket.as_fd(), token);
                }
                self.newcomers.waiting.insert(token, Newcomer { socket, user, since, is_elsewhere });
            }
            Err((error, None)) => {
                if let Some(unsaid) = NO_HELLO.turn() {
                    tracing::debug!(user, %error, unsaid, "a connection that is none of ours");
                }
            }
        }
        self.count_newcomers();
    }

    /// Shows the engine's other threads how many there are: they look while this one rests.
    fn count_newcomers(&self) {
        let count = self.newcomers.waiting.len();
        self.engine.links.admission.newcomers.store(count, Ordering::SeqCst);
    }

    /// Gives up a connection with a foreigner that nobody here needs, if there is one.
    fn make_room(&mut self) -> bool {
        let own = self.engine.own_user();
        let is_foreign = |user: u32| own != Some(user);
        if let Some(token) = most_silent(&self.newcomers.held(), |held| is_foreign(held.user)) {
            self.send_away(token);
            return true;
        }
        self.part_from_most_silent()
    }

    /// Closes a connection; whose it was.
    fn send_away(&mut self, token: u64) -> Option<u32> {
        self.others.forget(|turn| matches!(turn, Turn::Newcomer(waiting) if *waiting == token));
        let gone = self.newcomers.waiting.remove(&token);
        self.count_newcomers();
        gone.map(|newcomer| newcomer.user)
    }

    fn say_sent_away(&self, user: u32) {
        if let Some(unsaid) = SENT_AWAY.turn() {
            tracing::warn!(
                user,
                unsaid,
                "a user has more connections with this process than strangers may: one is closed"
            );
        }
    }

    /// Closes connections that never introduced themselves, and takes others that had to wait; returns when to look again.
    pub(super) fn look_after_newcomers(&mut self, now: Instant) -> Option<Duration> {
        self.accept_some();
        // All wait as long: the oldest is the first to go.
        let mut next = None;
        while let Some((token, oldest)) = self.newcomers.waiting.first_key_value() {
            let left = PATIENCE.saturating_sub(now.saturating_duration_since(oldest.since));
            if !left.is_zero() {
                next = Some(left);
                break;
            }
            self.send_away(*token);
        }
        let rests = !self.newcomers.resting.is_empty();
        let rest = rests.then(|| self.newcomers.rest.left(now).unwrap_or_default());
        [next, rest].into_iter().flatten().min()
    }
}
