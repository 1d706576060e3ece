//! Channels: one socket for all connections that one process's services have with another process. The side whose service
//! was asked opens it, by the name that came with the request, so that it leads to who asked and nobody else.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_sys::{AsFd, PacketSocket, Seldom, Share};

use super::asks::Ask;
use super::hearing::said_of;
use super::timers::Timer;
use super::users::{Turn, Visitor, user_of};
use super::{Heard, Manager, Watched, accept_on, hear, strangers};
use crate::names::connect_to_process;
use crate::wire::{Message, ProcessName, Refusal};

/// How long to wait when the other process's queue of connections is full.
const RETRY: Duration = Duration::from_millis(5);
/// Messages heard before others have their turn; fewer of a stranger.
const TURN: usize = 64;
const STRANGERS_TURN: usize = 8;
/// Messages heard while there are requests to decide about: one of the next may give one of them up.
const LOOKAHEAD: usize = 1024;
/// What a message that waits costs beside its bytes.
const QUEUED_COST: usize = 96;

/// A message that waits for room.
struct Queued {
    bytes: Vec<u8>,
    /// An attempt's socket, which is told when the message is out, and closed.
    then: Option<Visitor>,
    _share: Share,
}

/// A channel.
pub(super) struct Channel {
    /// None while it waits to be opened.
    pub(super) socket: Option<PacketSocket>,
    /// The process to which it was opened from here.
    pub(super) to: Option<ProcessName>,
    /// Of the user at the other end, or while it is not open, of who asked for it.
    pub(super) share: Share,
    since: Instant,
    /// Connections that lead over it.
    pub(super) users: HashSet<u64>,
    /// Those that were asked for over it and have no answer, in order.
    pub(super) asked: VecDeque<u64>,
    /// What the other side asked for over it, until it is decided about.
    pub(super) asks: VecDeque<Ask>,
    queue: VecDeque<Queued>,
    /// Waits for room in the socket.
    waits: bool,
    /// The other side has said something.
    spoke: bool,
    /// Since when it has no users, if it has none and somebody looks after it.
    pub(super) idle: Option<Instant>,
}

impl Channel {
    fn new(socket: Option<PacketSocket>, to: Option<ProcessName>, share: Share) -> Self {
        Self {
            socket,
            to,
            share,
            since: Instant::now(),
            users: HashSet::new(),
            asked: VecDeque::new(),
            asks: VecDeque::new(),
            queue: VecDeque::new(),
            waits: false,
            spoke: false,
            idle: None,
        }
    }

    /// Whether it came from another process and was never used.
    pub(super) fn is_silent(&self) -> bool {
        self.to.is_none() && !self.spoke
    }

    /// Whether nobody uses it, and nothing waits to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.users.is_empty() && self.asked.is_empty() && self.asks.is_empty() && self.queue.is_empty()
    }

    /// Sends what waits, as far as there is room. Whether all is sent.
    fn flush(&mut self) -> bool {
        let Some(socket) = &self.socket else { return true };
        while let Some(next) = self.queue.front() {
            if !send_on(socket, &next.bytes, next.then.as_ref()) {
                return false;
            }
            self.queue.pop_front();
        }
        true
    }
}

/// Sends a message; false if there is no room for it.
fn send_on(socket: &PacketSocket, bytes: &[u8], then: Option<&Visitor>) -> bool {
    match socket.send(bytes, &[]) {
        Err(error) if is_full(&error) => return false,
        // A socket that has hung up says so to whoever reads.
        Err(_) => {}
        Ok(()) => {
            if let Some(attempt) = then {
                let _ = attempt.socket.send(&Message::Moved.emit(), &[]);
            }
        }
    }
    true
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || matches!(error.raw_os_error(), Some(NO_BUFFERS | NO_MEMORY))
}

/// Whether it is for want of a descriptor.
fn is_lack(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(TOO_MANY_OF_THE_SYSTEM | TOO_MANY_OF_THE_PROCESS))
}

const NO_MEMORY: i32 = 12;
const NO_BUFFERS: i32 = 105;
const TOO_MANY_OF_THE_SYSTEM: i32 = 23;
const TOO_MANY_OF_THE_PROCESS: i32 = 24;

impl Manager {
    pub(super) fn channel(&mut self, token: u64) -> Option<&mut Channel> {
        match self.sockets.get_mut(&token) {
            Some(Watched::Channel(channel)) => Some(channel),
            _ => None,
        }
    }

    /// Takes channels that other processes open.
    pub(super) fn open_door(&mut self, door: &PacketSocket, token: u64) {
        let shared = Arc::clone(&self.shared);
        let mut turn = Turn::default();
        while !turn.is_over() {
            match self.unless_needed().and_then(|()| accept_on(door)) {
                Ok(Some(socket)) => {
                    let (token, user) = (shared.new_token(), user_of(&socket));
                    turn.note(self.users.is_own(user));
                    let Some(share) = self.admit(user) else { continue };
                    if self.watch(token, Watched::Channel(Channel::new(Some(socket), None, share))) {
                        self.serve_channel(token);
                        if self.channel(token).is_some_and(|channel| channel.is_silent()) {
                            self.note_silent(token, user);
                        }
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    shared.epoll.remove(door.as_fd());
                    return self.pause(token, &error);
                }
            }
        }
    }

    /// The channel to a process, opened if there is none, because `user` asks for something. Why not: the process is not there,
    /// or its user has all it may have.
    pub(super) fn channel_to(&mut self, process: ProcessName, user: u32) -> Result<u64, Refusal> {
        if let Some(token) = self.channels.get(&process) {
            return Ok(*token);
        }
        let token = self.shared.new_token();
        let socket = match connect_to_process(process) {
            Ok(socket) => Some(socket),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(Refusal::NobodyListens);
            }
            // The last descriptors are not for strangers.
            Err(error) if is_lack(&error) && !self.users.is_own(user) => return Err(Refusal::NoRoom),
            // Its queue is full, or something lacks.
            Err(error) => {
                self.note_lack(token, &error);
                None
            }
        };
        let open = socket.is_some();
        let share = self.admit(socket.as_ref().map_or(user, user_of)).ok_or(Refusal::NoRoom)?;
        if !self.watch(token, Watched::Channel(Channel::new(socket, Some(process), share))) {
            return Err(Refusal::Unable);
        }
        self.channels.insert(process, token);
        if !open {
            self.timers.set_after(RETRY, Timer::Open(token));
        }
        Ok(token)
    }

    /// How many messages wait on a channel.
    pub(super) fn unsent_on(&mut self, token: u64) -> usize {
        self.channel(token).map_or(0, |channel| channel.queue.len())
    }

    /// Tries again to open a channel.
    pub(super) fn reopen(&mut self, token: u64) {
        self.lacking.remove(&token);
        let Some(Channel { socket: None, to: Some(process), queue, share, since, .. }) = self.channel(token)
        else {
            return;
        };
        let (process, payer, since) = (*process, share.user(), *since);
        // What is held for those who gave up is of use elsewhere.
        for queued in queue.iter_mut() {
            queued.then.take_if(|attempt| attempt.socket.is_hung_up());
        }
        match connect_to_process(process) {
            Ok(socket) => {
                // From now on whoever is there pays.
                let user = user_of(&socket);
                if user == payer || self.change_payer(token, user) {
                    if self.shared.epoll.add(socket.as_fd(), token).is_ok() {
                        if let Some(channel) = self.channel(token) {
                            channel.socket = Some(socket);
                        }
                        return self.flush(token);
                    }
                } else {
                    return self.bury(token);
                }
            }
            // Strangers are not waited for.
            Err(_) if !self.users.is_own(payer) && since.elapsed() >= strangers::PATIENCE => {
                return self.bury(token);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return self.bury(token),
            Err(error) => self.note_lack(token, &error),
        }
        self.timers.set_after(RETRY, Timer::Open(token));
    }

    /// Has a channel be of another user's share.
    fn change_payer(&mut self, token: u64, user: u32) -> bool {
        let Some(share) = self.admit(user) else { return false };
        let Some(Watched::Channel(channel)) = self.sockets.get_mut(&token) else { return false };
        let before = std::mem::replace(&mut channel.share, share);
        self.visits.remove(&(before.user(), token));
        if !self.users.is_own(user) {
            self.visits.insert((user, token));
        }
        true
    }

    /// A channel could not be opened. If for want of a descriptor, the next one is for it: otherwise those who ask could hold
    /// them all until they have an answer, which takes the channel.
    fn note_lack(&mut self, token: u64, error: &io::Error) {
        if is_lack(error) {
            tracing::debug!(%error, "a channel to another process waits for a descriptor");
            self.lacking.insert(token);
        }
    }

    /// Whether a descriptor may be taken for something else than a channel of this process's own.
    pub(super) fn unless_needed(&self) -> io::Result<()> {
        if self.lacking.is_empty() {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(TOO_MANY_OF_THE_PROCESS))
        }
    }

    /// Sends a message, at once or when there is room. `then` is told and closed when it is out. A channel whose receiver reads
    /// nothing while more waits than may is closed, and its connections are lost.
    pub(super) fn send(&mut self, token: u64, message: &Message, then: Option<Visitor>) {
        static UNREAD: Seldom = Seldom::new();
        let Some(Watched::Channel(channel)) = self.sockets.get_mut(&token) else { return };
        let bytes = message.emit();
        if channel.queue.is_empty()
            && channel.socket.as_ref().is_some_and(|socket| send_on(socket, &bytes, then.as_ref()))
        {
            return;
        }
        let user = channel.share.user();
        let Some(share) = self.users.owed.take(user, bytes.len() + QUEUED_COST) else {
            if let Some(unsaid) = UNREAD.turn() {
                let peer = channel.socket.as_ref().map_or_else(|| format!("user {user}"), said_of);
                tracing::warn!(%peer, unsaid, "a channel is closed to a process that does not read what it is told");
            }
            return self.bury(token);
        };
        channel.queue.push_back(Queued { bytes, then, _share: share });
        if channel.queue.len() == 1 {
            self.flush(token);
        }
    }

    /// Sends a message at once, or not at all. When there is room, or the end, the channel is served again.
    pub(super) fn send_at_once(&mut self, token: u64, message: &Message) -> bool {
        let Some(Channel { socket: Some(socket), queue, .. }) = self.channel(token) else { return false };
        if !queue.is_empty() {
            return false;
        }
        let sent = socket.send(&message.emit(), &[]);
        if sent.as_ref().is_err_and(is_full) {
            self.wait_for_room(token, true);
        }
        sent.is_ok()
    }

    fn flush(&mut self, token: u64) {
        let Some(channel) = self.channel(token) else { return };
        let waits = !channel.flush();
        self.wait_for_room(token, waits);
    }

    fn wait_for_room(&mut self, token: u64, waits: bool) {
        let Some(Watched::Channel(channel)) = self.sockets.get_mut(&token) else { return };
        if waits != channel.waits
            && let Some(socket) = &channel.socket
        {
            channel.waits = waits;
            if let Err(error) = self.shared.epoll.watch_room(socket.as_fd(), token, waits) {
                static UNABLE: Seldom = Seldom::new();
                if let Some(unsaid) = UNABLE.turn() {
                    tracing::warn!(%error, unsaid, "a channel cannot be waited for");
                }
            }
        }
    }

    /// Sends and receives what there is.
    pub(super) fn serve_channel(&mut self, token: u64) {
        let Some(channel) = self.channel(token) else { return };
        let (waits, user) = (channel.waits, channel.share.user());
        if waits {
            self.flush(token);
        }
        let turn = if self.users.is_own(user) { TURN } else { STRANGERS_TURN };
        for heard in 0..LOOKAHEAD {
            let Some(Watched::Channel(channel)) = self.sockets.get_mut(&token) else { return };
            let Channel { socket: Some(socket), spoke, asks, .. } = channel else { return };
            if heard >= turn && asks.is_empty() {
                return;
            }
            match hear(socket) {
                Heard::Message(message) => {
                    *spoke = true;
                    if !self.take_message(token, message) {
                        static MISPLACED: Seldom = Seldom::new();
                        if let Some(unsaid) = MISPLACED.turn() {
                            tracing::warn!(
                                user,
                                unsaid,
                                "a channel is closed that carries what does not belong there"
                            );
                        }
                        return self.bury(token);
                    }
                }
                Heard::Nothing => break,
                Heard::Nonsense => return self.bury(token),
                Heard::HungUp => {
                    self.shared.epoll.remove(socket.as_fd());
                    return self.dying.push(token);
                }
            }
        }
        self.take_asks(token);
    }

    /// This process ends in order: tells every other that it has to do with.
    pub(super) fn say_goodbye(&mut self) {
        self.connections.clear();
        let channels = self.sockets.iter().filter(|(_, watched)| matches!(watched, Watched::Channel(_)));
        let tokens: Vec<_> = channels.map(|(token, _)| *token).collect();
        for token in tokens {
            self.send(token, &Message::Goodbye, None);
        }
    }

    /// Whether messages wait for room.
    pub(super) fn has_unsent(&self) -> bool {
        let unsent = |channel: &Channel| channel.socket.is_some() && !channel.queue.is_empty();
        self.sockets.values().any(|watched| matches!(watched, Watched::Channel(channel) if unsent(channel)))
    }
}
