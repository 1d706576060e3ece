//! Attempts: what a process asks of others.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nonic_sys::{PacketSocket, Seldom};

use super::hearing::said_of;
use super::timers::Timer;
use super::users::user_of;
use super::{Entry, Far, Heard, Manager, Stage, Watched, hear, strangers};
use crate::shared::Attempt;
use crate::sinks::End;
use crate::wire::{Message, Refusal};

/// Requests to one service that may be on their way at once: each has a socket. Who serves takes them off quickly, unless it
/// is stopped.
const LANE_WIDTH: usize = 16;
/// How long to wait when the service's queue is full or the process has no descriptors left.
const RETRY: Duration = Duration::from_millis(2);

/// The attempts at one service.
#[derive(Default)]
pub(super) struct Lane {
    on_their_way: usize,
    waiting: VecDeque<u64>,
    /// A timer will go on.
    halted: bool,
}

impl Manager {
    /// Begins an attempt.
    pub(super) fn ask(&mut self, attempt: Attempt) {
        let (number, service) = (attempt.inquiry.number, Arc::clone(&attempt.service));
        let timer = attempt.deadline.map(|deadline| self.timers.set(deadline, Timer::Attempt(number)));
        let sink = Some(Arc::clone(&attempt.sink));
        self.connections
            .insert(number, Entry { stage: Stage::Waiting(Box::new(attempt)), sink, timer, undecided: None });
        self.lanes.entry(Arc::clone(&service)).or_default().waiting.push_back(number);
        self.advance(&service);
    }

    /// A lane's timer.
    pub(super) fn go_on(&mut self, service: &Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(service) {
            lane.halted = false;
        }
        self.advance(service);
    }

    /// A request is no longer on its way.
    pub(super) fn leave_lane(&mut self, service: &Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(service) {
            lane.on_their_way -= 1;
        }
        self.advance(service);
    }

    /// Sends requests while there is room in the lane.
    fn advance(&mut self, service: &Arc<str>) {
        loop {
            let Some(lane) = self.lanes.get_mut(service) else { return };
            if lane.halted || lane.on_their_way >= LANE_WIDTH {
                return;
            }
            let Some(number) = lane.waiting.pop_front() else {
                if lane.on_their_way == 0 {
                    self.lanes.remove(service);
                }
                return;
            };
            let Some(Entry { stage: Stage::Waiting(attempt), .. }) = self.connections.get(&number) else {
                continue;
            };
            let message = Message::Request(attempt.inquiry.clone());
            let sent = self
                .unless_needed()
                .and_then(|()| PacketSocket::connect_abstract(service))
                .and_then(|socket| socket.send(&message.emit(), &[]).map(|()| socket));
            match sent {
                Ok(socket) => self.wait_for_answer(number, service, socket),
                Err(error) if is_gone(&error) => self.end(number, End::Refused(Refusal::NobodyListens)),
                Err(error) => {
                    tracing::debug!(%error, %service, "a request waits");
                    if let Some(lane) = self.lanes.get_mut(service) {
                        lane.waiting.push_front(number);
                        lane.halted = true;
                    }
                    self.timers.set_after(RETRY, Timer::Lane(Arc::clone(service)));
                    return;
                }
            }
        }
    }

    fn wait_for_answer(&mut self, number: u64, service: &Arc<str>, socket: PacketSocket) {
        let token = self.shared.new_token();
        let own = self.users.is_own(user_of(&socket));
        if !self.watch(token, Watched::Attempt { socket, number }) {
            return self.end(number, End::Refused(Refusal::Unable));
        }
        if !own {
            self.timers.set_after(strangers::PATIENCE, Timer::Unanswered(token));
        }
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.stage = Stage::Asked { service: Arc::clone(service), socket: Some(token) };
        }
        if let Some(lane) = self.lanes.get_mut(service) {
            lane.on_their_way += 1;
        }
    }

    /// Hears what an attempt's socket has to say, which is one word.
    pub(super) fn hear_answer(&mut self, token: u64) {
        let Some(Watched::Attempt { socket, number }) = self.sockets.get(&token) else { return };
        let number = *number;
        match hear(socket) {
            Heard::Nothing => {}
            Heard::Message(Message::Moved) => self.close_attempt(number),
            Heard::Message(Message::Refused { reason, .. }) => self.end(number, End::Refused(reason)),
            // The listener went, or its process, before the request was taken.
            Heard::Message(_) | Heard::HungUp => self.end(number, End::Refused(Refusal::NobodyListens)),
        }
    }

    /// A stranger may have taken the name of a service and say nothing. Whoever serves says at once that it has the request.
    pub(super) fn give_up_on_stranger(&mut self, token: u64) {
        static SILENT: Seldom = Seldom::new();
        let Some(Watched::Attempt { socket, number }) = self.sockets.get(&token) else { return };
        let number = *number;
        if let Some(unsaid) = SILENT.turn()
            && let Some(Entry { stage: Stage::Asked { service, .. }, .. }) = self.connections.get(&number)
        {
            let holder = said_of(socket);
            tracing::warn!(%service, %holder, unsaid, "who holds the name of a service does not answer");
        }
        self.end(number, End::Refused(Refusal::NobodyListens));
    }

    /// The socket of an attempt has done its work.
    fn close_attempt(&mut self, number: u64) {
        let Some(Entry { stage: Stage::Asked { service, socket }, .. }) = self.connections.get_mut(&number)
        else {
            return;
        };
        let service = Arc::clone(service);
        if let Some(token) = socket.take() {
            self.sockets.remove(&token);
            self.leave_lane(&service);
        }
    }

    /// The process of the service has the request. It may be another than before: requests can be handed on.
    pub(super) fn take_taken(&mut self, number: u64, far: Far) {
        let before = match self.connections.get(&number).map(|entry| &entry.stage) {
            Some(Stage::Asked { .. }) => {
                self.close_attempt(number);
                None
            }
            Some(Stage::Taken(before)) => Some(*before),
            // Given up meanwhile.
            _ => return self.send(far.channel, &Message::Disconnect { to: far.number }, None),
        };
        if let Some(before) = before {
            self.unbind(before.channel, number);
            self.send(before.channel, &Message::Disconnect { to: before.number }, None);
        }
        self.bind(far.channel, number);
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.stage = Stage::Taken(far);
        }
    }

    /// The program of the service accepts.
    pub(super) fn take_reply(&mut self, number: u64, far: Far, facts: &[u8], data: &[u8]) {
        let Some(entry) = self.connections.get_mut(&number) else { return };
        if let Some(timer) = entry.timer.take() {
            self.timers.cancel(timer);
        }
        let sink = entry.sink.clone();
        if sink.is_some_and(|sink| sink.accepted(facts, data)) {
            entry.stage = Stage::Open(far);
            self.send(far.channel, &Message::Confirm { to: far.number }, None);
        } else {
            self.disconnect(number);
        }
    }

    /// The time of an attempt is over.
    pub(super) fn time_out(&mut self, number: u64) {
        let Some(entry) = self.connections.get_mut(&number) else { return };
        entry.timer = None;
        let sink = entry.sink.take();
        self.disconnect(number);
        if let Some(sink) = sink {
            sink.ended(End::TimedOut);
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}
