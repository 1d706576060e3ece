//! The manager's thread. It alone knows the connections, so nothing of them is under a lock when a sink is called.

mod asking;
mod asks;
mod channels;
mod hearing;
mod idleness;
mod routes;
mod saying;
mod serving;
mod stage;
mod strangers;
mod timers;
mod users;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_device::OwnThread;
use nonic_sys::{AsFd, PacketSocket, Ready, Seldom, Share, wait_readable};

use crate::shared::{Command, DOOR, DOOR_FOR_OTHERS, DOORBELL, ListenerCore, Shared, Task};
use crate::sinks::{ConnectionSink, End};
use crate::tasks::note_manager;
use crate::wire::{Message, ProcessName, Refusal};
use asking::Lane;
use channels::Channel;
use hearing::{Heard, accept_on, hear, listens};
use routes::Routes;
use stage::{Far, Stage};
use strangers::Silent;
use timers::{Timer, TimerKey, Timers};
use users::{Users, Visitor};

/// How long a listener waits when the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(10);

/// How often what is ready is looked at before a process counts as gone.
const PASSES: usize = 64;

/// Runs as long as the process.
pub(crate) fn run(shared: &Arc<Shared>, thread: &OwnThread) {
    note_manager();
    let mut state = None;
    let mut ready = Vec::new();
    loop {
        let (mut timeout, mut tasks) = (None, false);
        thread.work(|| timeout = state.get_or_insert_with(|| Manager::new(shared)).timers.next());
        wait_readable(shared.epoll.as_fd(), timeout);
        thread.work(|| {
            if let Some(manager) = &mut state {
                manager.turn(&mut ready);
                tasks = !manager.tasks.is_empty();
            }
        });
        if tasks {
            thread.as_ordinary(|| {
                let tasks = state.as_mut().map(|manager| std::mem::take(&mut manager.tasks));
                tasks.into_iter().flatten().for_each(|task| task());
            });
        }
    }
}

/// A descriptor that is waited for.
enum Watched {
    Listener(Arc<ListenerCore>),
    /// Came to a listener and has said nothing yet.
    Stranger {
        visitor: Visitor,
        listener: Arc<ListenerCore>,
    },
    /// Of the attempt of this number.
    Attempt {
        socket: PacketSocket,
        number: u64,
    },
    /// On which the request of this number was handed to another process.
    Handed {
        socket: PacketSocket,
        number: u64,
    },
    Channel(Channel),
}

/// A connection, or what may become one.
struct Entry {
    stage: Stage,
    sink: Option<Arc<dyn ConnectionSink>>,
    /// Ends the attempt.
    timer: Option<TimerKey>,
    /// As long as it is undecided here.
    undecided: Option<Share>,
}

struct Manager {
    shared: Arc<Shared>,
    sockets: HashMap<u64, Watched>,
    connections: HashMap<u64, Entry>,
    /// Channels that this process opened.
    channels: HashMap<ProcessName, u64>,
    /// Channels that wait for a descriptor. Nobody else takes one meanwhile.
    lacking: HashSet<u64>,
    /// Attempts by service.
    lanes: HashMap<Arc<str>, Lane>,
    /// Where services were found.
    routes: Routes,
    timers: Timers,
    /// Sockets that have said nothing yet, or had not when they came.
    silent: Silent,
    /// What is spent on whom.
    users: Users,
    /// Sockets of strangers, by user and token.
    visits: BTreeSet<(u32, u64)>,
    /// The process exits and waits for the last messages to be sent.
    leaving: bool,
    /// Channels whose other end is gone.
    dying: Vec<u64>,
    /// Of the layer above, due.
    tasks: Vec<Task>,
}

impl Manager {
    fn new(shared: &Arc<Shared>) -> Self {
        let doors =
            [Some((&shared.door, DOOR)), shared.door_for_others.as_ref().map(|door| (door, DOOR_FOR_OTHERS))];
        let doors = doors.into_iter().flatten().map(|(door, token)| (door.as_fd(), token));
        for (descriptor, token) in doors.chain([(shared.doorbell.as_fd(), DOORBELL)]) {
            if let Err(error) = shared.epoll.add(descriptor, token) {
                tracing::error!(%error, "the connection manager cannot wait for its descriptors");
            }
        }
        Self {
            shared: Arc::clone(shared),
            sockets: HashMap::new(),
            connections: HashMap::new(),
            channels: HashMap::new(),
            lacking: HashSet::new(),
            lanes: HashMap::new(),
            routes: Routes::default(),
            timers: Timers::default(),
            silent: Silent::default(),
            users: Users::new(shared.own_user),
            visits: BTreeSet::new(),
            leaving: false,
            dying: Vec::new(),
            tasks: Vec::new(),
        }
    }

    /// Does what is to do now.
    fn turn(&mut self, ready: &mut Vec<Ready>) {
        let shared = Arc::clone(&self.shared);
        shared.epoll.wait(ready, Some(Duration::ZERO));
        for event in &*ready {
            self.handle(event.token);
        }
        self.bury_the_dead(ready);
        for command in shared.take_commands() {
            self.obey(command);
        }
        self.run_timers();
        if self.leaving && !self.has_unsent() {
            self.leaving = false;
            shared.farewell_is_said();
        }
    }

    fn handle(&mut self, token: u64) {
        let shared = Arc::clone(&self.shared);
        match self.sockets.get(&token) {
            // The doorbell is read with the commands.
            None if token == DOOR => self.open_door(&shared.door, DOOR),
            None if token == DOOR_FOR_OTHERS => {
                if let Some(door) = &shared.door_for_others {
                    self.open_door(door, DOOR_FOR_OTHERS);
                }
            }
            None => {}
            Some(Watched::Listener(listener)) => {
                let listener = Arc::clone(listener);
                self.greet(&listener);
            }
            Some(Watched::Stranger { .. }) => self.hear_stranger(token),
            Some(Watched::Attempt { .. }) => self.hear_answer(token),
            Some(Watched::Handed { .. }) => self.hear_of_handed(token),
            Some(Watched::Channel(_)) => self.serve_channel(token),
        }
    }

    /// Ends what led to processes that have ended. What others had said before comes first: a request may have been handed on
    /// by one that then ended.
    fn bury_the_dead(&mut self, ready: &mut Vec<Ready>) {
        if self.dying.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        for _ in 0..PASSES {
            shared.epoll.wait(ready, Some(Duration::ZERO));
            // A doorbell that rang is ready until its commands are taken.
            if ready.iter().all(|event| event.token == DOORBELL) {
                break;
            }
            for event in &*ready {
                self.handle(event.token);
            }
        }
        for token in std::mem::take(&mut self.dying) {
            self.ask_all_elsewhere(token);
            self.bury(token);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Listen(listener) => self.resume(&listener),
            Command::Unlisten { token } => {
                self.sockets.remove(&token);
            }
            Command::Connect(attempt) => self.ask(attempt),
            Command::Accept { number, facts, data, sink } => self.accept(number, facts, data, sink),
            Command::Reject { number, data } => {
                if let Some(far) = self.take_rejectable(number) {
                    self.send(far.channel, &Message::Reject { to: far.number, data }, None);
                }
            }
            Command::Confirm { number } => self.confirm(number),
            Command::Say { number, word } => self.say(number, word),
            Command::Refuse { number, reason } => {
                if let Some(far) = self.take_pending(number) {
                    self.send(far.channel, &Message::Refused { to: far.number, reason }, None);
                }
            }
            Command::HandWithin { number, listener } => self.hand_within(number, &listener),
            Command::HandOn { number, socket } => self.hand_on(number, socket),
            Command::Disconnect { number, failed } => self.part(number, failed),
            Command::Run { task, at } if at <= Instant::now() => self.tasks.push(task),
            Command::Run { task, at } => {
                self.timers.set(at, Timer::Task(task));
            }
            Command::Farewell => {
                self.shared.partings().into_iter().for_each(|parting| parting());
                self.say_goodbye();
                self.leaving = true;
            }
        }
    }

    fn run_timers(&mut self) {
        let now = Instant::now();
        while let Some(timer) = self.timers.due(now) {
            match timer {
                Timer::Attempt(number) => self.time_out(number),
                Timer::Unanswered(token) => self.give_up_on_stranger(token),
                Timer::Lane(name) => self.go_on(&name),
                Timer::Open(channel) => self.reopen(channel),
                Timer::Idle(channel) => self.close_if_idle(channel),
                Timer::Resume(token @ (DOOR | DOOR_FOR_OTHERS)) => {
                    let others = self.shared.door_for_others.as_ref().filter(|_| token == DOOR_FOR_OTHERS);
                    let door = others.unwrap_or(&self.shared.door);
                    if let Err(error) = self.shared.epoll.add(door.as_fd(), token) {
                        self.pause(token, &error);
                    }
                }
                Timer::Resume(token) => {
                    if let Some(Watched::Listener(listener)) = self.sockets.get(&token) {
                        let listener = Arc::clone(listener);
                        self.resume(&listener);
                    }
                }
                Timer::Strangers => self.dismiss_silent(),
                Timer::Task(task) => self.tasks.push(task),
            }
        }
    }

    /// Watches a socket; it is closed if that is not possible.
    fn watch(&mut self, token: u64, watched: Watched) -> bool {
        let (socket, share) = match &watched {
            Watched::Stranger { visitor: Visitor { socket, share }, .. } => (Some(socket), Some(share)),
            Watched::Attempt { socket, .. } | Watched::Handed { socket, .. } => (Some(socket), None),
            Watched::Channel(channel) => (channel.socket.as_ref(), Some(&channel.share)),
            Watched::Listener(_) => (None, None),
        };
        if let Some(socket) = socket
            && let Err(error) = self.shared.epoll.add(socket.as_fd(), token)
        {
            static UNABLE: Seldom = Seldom::new();
            if let Some(unsaid) = UNABLE.turn() {
                tracing::warn!(%error, unsaid, "a connection cannot be waited for, and is closed");
            }
            return false;
        }
        if let Some(user) = share.map(Share::user).filter(|user| !self.users.is_own(*user)) {
            self.visits.insert((user, token));
        }
        self.sockets.insert(token, watched);
        true
    }

    /// Watches a socket of a visitor or a channel no longer.
    fn unwatch(&mut self, token: u64) -> Option<Watched> {
        let watched = self.sockets.remove(&token);
        let share = match &watched {
            Some(Watched::Stranger { visitor, .. }) => Some(&visitor.share),
            Some(Watched::Channel(channel)) => Some(&channel.share),
            _ => None,
        };
        if let Some(share) = share {
            self.visits.remove(&(share.user(), token));
        }
        watched
    }

    /// Who comes to this door or listener, which is not watched now, has to wait. It is not said each time.
    fn pause(&mut self, token: u64, error: &io::Error) {
        static LACK: Seldom = Seldom::new();
        if let Some(unsaid) = LACK.turn() {
            tracing::warn!(%error, unsaid, "connections cannot be taken now, and wait: are there too many open files?");
        }
        self.timers.set_after(PAUSE, Timer::Resume(token));
    }

    /// Forgets a connection and what it occupies; returns it.
    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.connections.remove(&number)?;
        if let Some(timer) = entry.timer {
            self.timers.cancel(timer);
        }
        if let Some(far) = entry.stage.far() {
            self.unbind(far.channel, number);
        }
        match &entry.stage {
            Stage::Asked { service, socket: Some(socket), .. } => {
                let service = Arc::clone(service);
                self.sockets.remove(socket);
                self.leave_lane(&service);
            }
            Stage::AskedOver { channel, attempt } => {
                self.note_answered(*channel, number, &attempt.service);
            }
            Stage::HandedOn { socket: Some(socket), .. } => {
                self.sockets.remove(socket);
            }
            _ => {}
        }
        Some(entry)
    }

    /// Forgets a connection, and tells why.
    fn end(&mut self, number: u64, end: End<'_>) {
        if let Some(Entry { sink: Some(sink), .. }) = self.remove(number) {
            sink.ended(end);
        }
    }

    /// This side ends a connection, whatever its stage.
    fn disconnect(&mut self, number: u64) {
        self.part(number, false);
    }

    /// The same, perhaps because it has failed.
    fn part(&mut self, number: u64, failed: bool) {
        // Before those that wait have their turn.
        let over = self.give_up_route(number);
        let Some(entry) = self.remove(number) else { return };
        if let Some(channel) = over {
            return self.send(channel, &Message::Withdraw { number }, None);
        }
        let Some(far) = entry.stage.far() else { return };
        let message = match entry.stage {
            Stage::Pending(..) | Stage::HandedOn { .. } => {
                Message::Refused { to: far.number, reason: Refusal::NobodyListens }
            }
            _ if failed => Message::Break { to: far.number },
            _ => Message::Disconnect { to: far.number },
        };
        self.send(far.channel, &message, None);
    }

    /// Closes a socket; if it is a channel, all connections that lead over it are lost.
    fn bury(&mut self, token: u64) {
        let Some(Watched::Channel(channel)) = self.unwatch(token) else { return };
        if let Some(process) = channel.to
            && self.channels.get(&process) == Some(&token)
        {
            self.channels.remove(&process);
        }
        self.routes.forget_channel(token);
        for number in channel.asked.into_iter().chain(channel.users) {
            self.end(number, End::Lost);
        }
    }
}
