//! Attempts: what a process asks of others.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nonic_sys::{PacketSocket, Seldom};

use super::hearing::said_of;
use super::timers::Timer;
use super::{Entry, Far, Heard, Manager, Stage, Watched, hear, strangers};
use crate::names::connect_to_service;
use crate::shared::Attempt;
use crate::sinks::{End, Response};
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
    /// The channel over which those were asked for; none if it was by the name.
    way: Option<u64>,
    waiting: VecDeque<u64>,
    /// Those in front that were on their way before.
    returned: usize,
    /// A timer will go on.
    halted: bool,
}

impl Lane {
    /// One that was on its way waits again: before those that were not yet, behind those that came back before it.
    fn put_back(&mut self, number: u64) {
        self.waiting.insert(self.returned, number);
        self.returned += 1;
    }
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
            let Some(lane) = self.lanes.get(service) else { return };
            if lane.waiting.is_empty() && lane.on_their_way == 0 {
                self.lanes.remove(service);
                return;
            }
            if lane.waiting.is_empty() || lane.halted || lane.on_their_way >= LANE_WIDTH {
                return;
            }
            let way = self.route_to(service);
            let Some(lane) = self.lanes.get_mut(service) else { return };
            // Requests arrive in order on the same way only.
            if lane.on_their_way > 0 && lane.way != way {
                return;
            }
            lane.way = way;
            let Some(number) = lane.waiting.pop_front() else { return };
            match way {
                Some(channel) => self.ask_over(channel, number),
                None => self.ask_by_name(service, number),
            }
        }
    }

    /// Sends a request to who holds the name of the service.
    fn ask_by_name(&mut self, service: &Arc<str>, number: u64) {
        let Some(Entry { stage: Stage::Waiting(attempt), .. }) = self.connections.get(&number) else {
            return;
        };
        let message = Message::Request(attempt.inquiry.clone());
        let sent = self
            .unless_needed()
            .and_then(|()| connect_to_service(service))
            .and_then(|socket| socket.send(&message.emit(), &[]).map(|()| socket));
        match sent {
            Ok(socket) => self.wait_for_answer(number, service, socket),
            Err(error) if is_gone(&error) => self.ask_next(number),
            Err(error) => {
                tracing::debug!(%error, %service, "a request waits");
                if let Some(lane) = self.lanes.get_mut(service) {
                    lane.waiting.push_front(number);
                    lane.halted = true;
                }
                self.timers.set_after(RETRY, Timer::Lane(Arc::clone(service)));
            }
        }
    }

    /// Nobody offers the service that an attempt is for: asks for the next one.
    fn ask_next(&mut self, number: u64) {
        let Some(Entry { stage: Stage::Waiting(attempt), .. }) = self.connections.get_mut(&number) else {
            return;
        };
        let Some(next) = attempt.others.pop_front() else {
            return self.end(number, End::Refused(Refusal::NobodyListens));
        };
        attempt.service = Arc::clone(&next);
        self.lanes.entry(Arc::clone(&next)).or_default().waiting.push_back(number);
        self.advance(&next);
    }

    /// Sends a request to the process that offered the service the last time.
    fn ask_over(&mut self, channel: u64, number: u64) {
        let Some(entry) = self.connections.remove(&number) else { return };
        let Stage::Waiting(attempt) = entry.stage else {
            self.connections.insert(number, entry);
            return;
        };
        let message =
            Message::Ask { service: attempt.service.as_bytes().into(), inquiry: attempt.inquiry.clone() };
        if let Some(lane) = self.lanes.get_mut(&attempt.service) {
            lane.on_their_way += 1;
            lane.returned = 0;
        }
        self.connections.insert(number, Entry { stage: Stage::AskedOver { channel, attempt }, ..entry });
        if let Some(channel) = self.channel(channel) {
            channel.asked.push_back(number);
        }
        self.send(channel, &message, None);
    }

    /// A request that was sent over a channel is not on its way there any more.
    pub(super) fn note_answered(&mut self, channel: u64, number: u64, service: &Arc<str>) {
        if let Some(channel) = self.channel(channel) {
            channel.asked.retain(|asked| *asked != number);
        }
        self.leave_lane(service);
    }

    /// A request that was sent over a channel was not shown to anybody, and goes by the name.
    pub(super) fn ask_elsewhere(&mut self, channel: u64, number: u64) {
        let Some(entry) = self.connections.remove(&number) else { return };
        let Stage::AskedOver { attempt, .. } = entry.stage else {
            self.connections.insert(number, entry);
            return;
        };
        let service = Arc::clone(&attempt.service);
        self.connections.insert(number, Entry { stage: Stage::Waiting(attempt), ..entry });
        self.routes.forget(&service);
        if let Some(lane) = self.lanes.get_mut(&service) {
            lane.put_back(number);
        }
        self.note_answered(channel, number, &service);
    }

    /// The same for all that have no answer on a channel which has ended. Before a request is shown its answer is there to
    /// be read, and everything was read.
    pub(super) fn ask_all_elsewhere(&mut self, channel: u64) {
        self.routes.forget_channel(channel);
        let Some(Watched::Channel(ended)) = self.sockets.get_mut(&channel) else { return };
        for number in std::mem::take(&mut ended.asked) {
            self.ask_elsewhere(channel, number);
        }
    }

    fn wait_for_answer(&mut self, number: u64, service: &Arc<str>, socket: PacketSocket) {
        let token = self.shared.new_token();
        let holder = socket.peer().ok();
        let own = holder.is_some_and(|holder| self.users.is_own(holder.uid));
        if !self.watch(token, Watched::Attempt { socket, number }) {
            return self.end(number, End::Refused(Refusal::Unable));
        }
        if !own {
            self.timers.set_after(strangers::PATIENCE, Timer::Unanswered(token));
        }
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.stage = Stage::Asked { service: Arc::clone(service), socket: Some(token), holder };
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
            Heard::Message(_) | Heard::Nonsense | Heard::HungUp => {
                self.end(number, End::Refused(Refusal::NobodyListens))
            }
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
        let Some(Entry { stage: Stage::Asked { service, socket, .. }, .. }) =
            self.connections.get_mut(&number)
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
            Some(Stage::Asked { service, holder, .. }) => {
                let (service, holder) = (Arc::clone(service), *holder);
                self.learn_route(&service, holder, far.channel);
                self.close_attempt(number);
                None
            }
            Some(Stage::AskedOver { .. }) => None,
            Some(Stage::Taken(before)) => Some(*before),
            // Given up meanwhile.
            _ => return self.send(far.channel, &Message::Disconnect { to: far.number }, None),
        };
        if let Some(before) = before {
            self.unbind(before.channel, number);
            self.send(before.channel, &Message::Disconnect { to: before.number }, None);
        }
        self.bind(far.channel, number);
        let Some(entry) = self.connections.get_mut(&number) else { return };
        if let Stage::AskedOver { channel, attempt } = std::mem::replace(&mut entry.stage, Stage::Taken(far))
        {
            self.note_answered(channel, number, &attempt.service);
        }
    }

    /// The program of the service accepts.
    pub(super) fn take_reply(&mut self, number: u64, far: Far, facts: &[u8], data: &[u8]) {
        let Some(entry) = self.connections.get_mut(&number) else { return };
        if let Some(timer) = entry.timer.take() {
            self.timers.cancel(timer);
        }
        entry.stage = Stage::Answered(far);
        let sink = entry.sink.clone();
        match sink.map_or(Response::Declined, |sink| sink.accepted(facts, data)) {
            Response::Confirmed => self.confirm(number),
            Response::Later => {}
            Response::Declined => self.disconnect(number),
        }
    }

    /// Who asked is connected.
    pub(super) fn confirm(&mut self, number: u64) {
        let Some(entry) = self.connections.get_mut(&number) else { return };
        if let Stage::Answered(far) = entry.stage {
            entry.stage = Stage::Open(far);
            self.send(far.channel, &Message::Confirm { to: far.number }, None);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_come_back_keep_their_order_before_those_that_wait() {
        let mut lane = Lane { waiting: [4, 5].into(), ..Lane::default() };
        [1, 2, 3].into_iter().for_each(|number| lane.put_back(number));
        assert_eq!(lane.waiting, [1, 2, 3, 4, 5]);
    }
}
