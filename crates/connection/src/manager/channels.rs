//! Channels: one socket for all connections that one process's services have with another process. The side whose service
//! was asked opens it, by the name that came with the request, so that it leads to who asked and nobody else.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_sys::{AsFd, PacketSocket};

use super::timers::Timer;
use super::{Far, Heard, Manager, Stage, Watched, accept_on, hear};
use crate::names::process_name;
use crate::shared::DOOR;
use crate::sinks::End;
use crate::wire::{Message, ProcessName, Refusal};

/// How long a channel without connections stays open.
const IDLE: Duration = Duration::from_secs(1);
/// How long to wait when the other process's queue of connections is full.
const RETRY: Duration = Duration::from_millis(5);
/// Messages or connections handled before others have their turn.
const TURN: usize = 64;

/// A message that waits for room.
struct Queued {
    bytes: Vec<u8>,
    /// An attempt's socket, which is told when the message is out, and closed.
    then: Option<PacketSocket>,
}

/// A channel.
pub(super) struct Channel {
    /// None while it waits to be opened.
    pub(super) socket: Option<PacketSocket>,
    /// The process to which it was opened from here.
    pub(super) to: Option<ProcessName>,
    /// Connections that lead over it.
    pub(super) users: HashSet<u64>,
    queue: VecDeque<Queued>,
    /// Waits for room in the socket.
    waits: bool,
    /// The other side has said something.
    spoke: bool,
    /// Since when it has no users, if it has none and somebody looks after it.
    idle: Option<Instant>,
}

impl Channel {
    fn new(socket: Option<PacketSocket>, to: Option<ProcessName>) -> Self {
        let (users, queue) = (HashSet::new(), VecDeque::new());
        Self { socket, to, users, queue, waits: false, spoke: false, idle: None }
    }

    /// Whether it came from another process and was never used.
    pub(super) fn is_silent(&self) -> bool {
        self.to.is_none() && !self.spoke
    }

    /// Sends what waits, as far as there is room. Whether all is sent.
    fn flush(&mut self) -> bool {
        let Some(socket) = &self.socket else { return true };
        while let Some(next) = self.queue.front() {
            match socket.send(&next.bytes, &[]) {
                Err(error) if is_full(&error) => return false,
                // A socket that has hung up says so to whoever reads.
                Err(_) => {}
                Ok(()) => {
                    if let Some(attempt) = &next.then {
                        let _ = attempt.send(&Message::Moved.emit(), &[]);
                    }
                }
            }
            self.queue.pop_front();
        }
        true
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || matches!(error.raw_os_error(), Some(NO_BUFFERS | NO_MEMORY))
}

const NO_MEMORY: i32 = 12;
const NO_BUFFERS: i32 = 105;
const TOO_MANY_OF_THE_SYSTEM: i32 = 23;
const TOO_MANY_OF_THE_PROCESS: i32 = 24;

impl Manager {
    fn channel(&mut self, token: u64) -> Option<&mut Channel> {
        match self.sockets.get_mut(&token) {
            Some(Watched::Channel(channel)) => Some(channel),
            _ => None,
        }
    }

    /// Takes channels that other processes open.
    pub(super) fn open_door(&mut self) {
        let shared = Arc::clone(&self.shared);
        for _ in 0..TURN {
            match self.unless_needed().and_then(|()| accept_on(&shared.door)) {
                Ok(Some(socket)) => {
                    let token = shared.new_token();
                    if self.watch(token, Watched::Channel(Channel::new(Some(socket), None))) {
                        self.serve_channel(token);
                        if self.channel(token).is_some_and(|channel| channel.is_silent()) {
                            self.note_stranger(token);
                        }
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    shared.epoll.remove(shared.door.as_fd());
                    return self.pause(DOOR, &error);
                }
            }
        }
    }

    /// The channel to a process, opened if there is none. `None` if the process is not there.
    pub(super) fn channel_to(&mut self, process: ProcessName) -> Option<u64> {
        if let Some(token) = self.channels.get(&process) {
            return Some(*token);
        }
        let token = self.shared.new_token();
        let socket = match PacketSocket::connect_abstract(&process_name(process)) {
            Ok(socket) => Some(socket),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return None,
            // Its queue is full, or something lacks.
            Err(error) => {
                self.note_lack(token, &error);
                None
            }
        };
        let open = socket.is_some();
        if !self.watch(token, Watched::Channel(Channel::new(socket, Some(process)))) {
            return None;
        }
        self.channels.insert(process, token);
        if !open {
            self.timers.set_after(RETRY, Timer::Open(token));
        }
        Some(token)
    }

    /// Tries again to open a channel.
    pub(super) fn reopen(&mut self, token: u64) {
        self.lacking.remove(&token);
        let Some(Channel { socket: None, to: Some(process), queue, .. }) = self.channel(token) else {
            return;
        };
        // What is held for those who gave up is of use elsewhere.
        for queued in queue.iter_mut() {
            queued.then.take_if(|attempt| attempt.is_hung_up());
        }
        match PacketSocket::connect_abstract(&process_name(*process)) {
            Ok(socket) if self.shared.epoll.add(socket.as_fd(), token).is_ok() => {
                if let Some(channel) = self.channel(token) {
                    channel.socket = Some(socket);
                }
                return self.flush(token);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return self.bury(token),
            Err(error) => self.note_lack(token, &error),
        }
        self.timers.set_after(RETRY, Timer::Open(token));
    }

    /// A channel could not be opened. If for want of a descriptor, the next one is for it: otherwise those who ask could hold
    /// them all until they have an answer, which takes the channel.
    fn note_lack(&mut self, token: u64, error: &io::Error) {
        if matches!(error.raw_os_error(), Some(TOO_MANY_OF_THE_SYSTEM | TOO_MANY_OF_THE_PROCESS)) {
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

    /// A connection leads over this channel from now on.
    pub(super) fn bind(&mut self, token: u64, number: u64) {
        if let Some(channel) = self.channel(token) {
            channel.users.insert(number);
        }
    }

    /// No longer.
    pub(super) fn unbind(&mut self, token: u64, number: u64) {
        let Some(channel) = self.channel(token) else { return };
        channel.users.remove(&number);
        // Who opened it closes it: the other side cannot know what is on its way.
        if channel.to.is_none() || !channel.users.is_empty() {
            return;
        }
        if channel.idle.replace(Instant::now()).is_none() {
            self.timers.set_after(IDLE, Timer::Idle(token));
        }
    }

    /// Closes a channel that has not been used for a while.
    pub(super) fn close_if_idle(&mut self, token: u64) {
        let Some(channel) = self.channel(token) else { return };
        let Some(since) = channel.idle.filter(|_| channel.users.is_empty()) else {
            channel.idle = None;
            return;
        };
        if since.elapsed() < IDLE || !channel.queue.is_empty() {
            self.timers.set_after(IDLE, Timer::Idle(token));
        } else {
            self.bury(token);
        }
    }

    /// Sends a message, at once or when there is room. `then` is told and closed when it is out.
    pub(super) fn send(&mut self, token: u64, message: &Message, then: Option<PacketSocket>) {
        let Some(channel) = self.channel(token) else { return };
        channel.queue.push_back(Queued { bytes: message.emit(), then });
        if channel.queue.len() == 1 {
            self.flush(token);
        }
    }

    fn flush(&mut self, token: u64) {
        let Some(Watched::Channel(channel)) = self.sockets.get_mut(&token) else { return };
        let waits = !channel.flush();
        if waits != channel.waits
            && let Some(socket) = &channel.socket
        {
            channel.waits = waits;
            if let Err(error) = self.shared.epoll.watch_room(socket.as_fd(), token, waits) {
                tracing::warn!(%error, "a channel cannot be waited for");
            }
        }
    }

    /// Sends and receives what there is.
    pub(super) fn serve_channel(&mut self, token: u64) {
        if self.channel(token).is_some_and(|channel| channel.waits) {
            self.flush(token);
        }
        for _ in 0..TURN {
            let Some(Watched::Channel(channel)) = self.sockets.get_mut(&token) else { return };
            let Channel { socket: Some(socket), spoke, .. } = channel else { return };
            match hear(socket) {
                Heard::Message(message) => {
                    *spoke = true;
                    if !self.take_message(token, message) {
                        tracing::warn!("a channel is closed that carries what does not belong there");
                        return self.bury(token);
                    }
                }
                Heard::Nothing => return,
                Heard::HungUp => {
                    self.shared.epoll.remove(socket.as_fd());
                    return self.dying.push(token);
                }
            }
        }
    }

    /// What connection `number` is about, if it leads over this channel.
    fn stage_on(&mut self, token: u64, number: u64) -> Option<&mut Stage> {
        let entry = self.connections.get_mut(&number)?;
        entry.stage.far().is_some_and(|far| far.channel == token).then_some(&mut entry.stage)
    }

    /// False if the message makes no sense on a channel. One about a connection that is not, or not any more, does.
    fn take_message(&mut self, token: u64, message: Message) -> bool {
        match message {
            Message::Request(_) | Message::Moved => return false,
            Message::Taken { to, own } => self.take_taken(to, Far { channel: token, number: own }),
            Message::Reply { to, facts, data } => {
                if let Some(Stage::Taken(far)) = self.stage_on(token, to) {
                    let far = *far;
                    self.take_reply(to, far, &facts, &data);
                }
            }
            Message::Reject { to, data } => {
                if let Some(Stage::Taken(_)) = self.stage_on(token, to) {
                    self.end(to, End::Rejected(&data));
                }
            }
            Message::Refused { to, reason } => {
                if let Some(Stage::Taken(_)) = self.stage_on(token, to) {
                    self.end(to, End::Refused(reason));
                }
            }
            Message::Confirm { to } => {
                if let Some(stage) = self.stage_on(token, to)
                    && let Stage::Replied(far) = *stage
                {
                    *stage = Stage::Open(far);
                    let sink = self.connections.get(&to).and_then(|entry| entry.sink.clone());
                    if let Some(sink) = sink {
                        sink.established();
                    }
                }
            }
            Message::Disconnect { to } => {
                if self.stage_on(token, to).is_some() {
                    self.end(to, End::Disconnected);
                }
            }
            Message::Goodbye => self.take_goodbye(token),
            Message::Break { to } => {
                if self.stage_on(token, to).is_some() {
                    self.end(to, End::Lost);
                }
            }
        }
        true
    }

    /// The other process ends in order.
    fn take_goodbye(&mut self, token: u64) {
        let Some(channel) = self.channel(token) else { return };
        for number in std::mem::take(&mut channel.users) {
            let asking = self.connections.get(&number).map(|entry| matches!(entry.stage, Stage::Taken(_)));
            let refused = End::Refused(Refusal::NobodyListens);
            self.end(number, if asking == Some(true) { refused } else { End::Disconnected });
        }
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
