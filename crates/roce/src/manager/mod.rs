//! The connection manager as a machine (IBTA vol. 1, 12.9 to 12.11; annex A11): it takes datagrams of queue pair 1
//! ([`ConnectionManager::handle`]), what programs want (`connect`, `accept`, ...) and the passing of time
//! ([`ConnectionManager::handle_timeout`]), and gives datagrams ([`ConnectionManager::poll_transmit`]) and what programs are to be
//! told ([`ConnectionManager::poll_event`]).
//!
//! Datagrams may be lost, doubled, late and forged. What nobody answers is repeated, as often and as long as was agreed on in the
//! request; what comes again is answered again. A message counts only if it comes from the address of its peer and names the
//! numbers of both, which nobody else can guess; what counts for nothing changes nothing. What strangers send takes no more room than
//! [`ManagerSettings`] say, and each datagram is answered by two at most, of the same length.
//!
//! Times, repeats and refusals are those of Linux, where the specification leaves a choice. Who drives the machine looks at the check of
//! packets, and at what [`ManagementDatagram::of_packet`] does.
//!
//! `calls` is what programs want, `requests` takes requests (12.9.8.2, 12.9.8.3), `claims` says whose they are, `answers` what follows them, `ending` the end
//! of connections (12.9.8.4), `services` questions for datagrams (12.11), `waiting` the passing of time.

mod answers;
mod calls;
mod claims;
mod communication;
mod ending;
mod event;
mod listeners;
mod requests;
mod services;
mod settings;
mod table;
mod waiting;

pub use claims::Claim;
pub use event::{
    Accepts, CallError, CommunicationId, ConnectionOffer, Disconnection, Ends, Event, Outgoing, Service,
    ServiceAnswer, Side, behind_header,
};
pub use settings::ManagerSettings;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use nonic_protocol::Moment;

use crate::address::HostAddress;
use crate::management::{Answered, Ids, ManagementDatagram, Message, Reason, Reject};
use communication::{Communication, RemoteKey, State};
use listeners::{HalfOpen, Listeners};
use settings::Numbers;
use table::Table;

/// Datagrams that wait to be sent at most; more are lost, as they may be on their way.
const OUTGOING_MAX: usize = 1024;
/// Who asks while so much waits to be told, is not heard.
const EVENTS_MAX: usize = 4096;

/// All that a host, or a process that has a host's queue pair 1, has with others.
#[derive(Debug)]
pub struct ConnectionManager<T> {
    settings: ManagerSettings,
    numbers: Numbers,
    listeners: Listeners,
    table: Table<T>,
    outgoing: VecDeque<Outgoing>,
    events: VecDeque<Event>,
}

impl<T: Moment> ConnectionManager<T> {
    /// One that knows nobody yet. `numbers` gives numbers that nobody can guess.
    ///
    /// # Panics
    /// If there is no such place among those of the settings.
    pub fn new(settings: ManagerSettings, numbers: Box<dyn FnMut() -> u64 + Send>) -> Self {
        let ManagerSettings { place, places, .. } = settings;
        assert!(places.is_power_of_two() && place < places, "there is no place {place} of {places}");
        Self {
            settings,
            numbers: Numbers(numbers),
            listeners: Listeners::default(),
            table: Table::new(HalfOpen::new(&settings)),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// What it was told.
    pub fn settings(&self) -> &ManagerSettings {
        &self.settings
    }

    /// How many communications it remembers, those among them that no program knows any more.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it remembers none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next datagram to be sent.
    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`ConnectionManager::handle_timeout`] wants to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<T> {
        self.table.next_deadline()
    }

    /// A datagram came to queue pair 1, between these addresses, in a packet that is right.
    pub fn handle(&mut self, now: T, ends: Ends, datagram: &ManagementDatagram) {
        if ends.local.is_group() || ends.remote.is_group() {
            return;
        }
        let transaction_id = datagram.transaction_id;
        match &datagram.message {
            Message::ConnectRequest(request) => self.handle_request(now, ends, transaction_id, request),
            Message::Delay(delay) => self.handle_delay(now, ends, delay),
            Message::Reject(reject) => self.handle_reject(now, ends, reject),
            Message::ConnectReply(reply) => self.handle_reply(now, ends, transaction_id, reply),
            Message::ReadyToUse(ready) => self.handle_ready(ends, ready),
            Message::DisconnectRequest(request) => self.handle_disconnect(now, ends, transaction_id, request),
            Message::DisconnectReply(reply) => self.handle_disconnected(now, ends, reply),
            Message::ServiceRequest(request) => self.handle_question(ends, transaction_id, request),
            Message::ServiceReply(reply) => self.handle_answer(ends, reply),
        }
    }

    /// Says something, once.
    fn send(&mut self, ends: Ends, transaction_id: u64, message: Message) {
        self.send_again(Outgoing { ends, datagram: ManagementDatagram { transaction_id, message } });
    }

    fn send_again(&mut self, outgoing: Outgoing) {
        if self.outgoing.len() < OUTGOING_MAX {
            self.outgoing.push_back(outgoing);
        }
    }

    /// Says something and remembers it; as an answer if it is one.
    fn say(&mut self, number: u32, is_answer: bool, message: Message) {
        let found = self.table.known(number);
        let transaction_id = if is_answer { found.peers_transaction_id } else { found.transaction_id };
        let outgoing =
            Outgoing { ends: found.ends, datagram: ManagementDatagram { transaction_id, message } };
        found.last = Some(Box::new(outgoing));
        self.send_again(outgoing);
    }

    /// Says what it said last once more.
    fn say_again(&mut self, number: u32) {
        if let Some(last) = self.table.known(number).last.as_deref().copied() {
            self.send_again(last);
        }
    }

    /// Goes on to a state in which what was said is repeated until there is an answer.
    fn await_answer(&mut self, now: T, number: u32, state: State) {
        let found = self.table.known(number);
        found.repeats_left = found.timing.repeats;
        found.was_delayed = false;
        let deadline = now + found.timing.timeout;
        self.table.enter(number, state, Some(deadline));
    }

    /// Goes on to where late packets may come.
    fn enter_time_wait(&mut self, now: T, number: u32) {
        let deadline = now + self.table.known(number).timing.time_wait;
        self.table.enter(number, State::TimeWait, Some(deadline));
    }

    /// Tells the program, if it wants to know.
    fn tell(&mut self, number: u32, event: Event) {
        if !self.table.known(number).is_released {
            self.events.push_back(event);
        }
    }

    /// Tells the program the last there is to tell of a communication, and forgets it.
    fn end(&mut self, number: u32, event: Event) {
        self.tell(number, event);
        self.table.remove(number);
    }

    /// The communication that a message is for that names both numbers.
    fn find(&mut self, ends: Ends, ids: Ids) -> Option<&mut Communication<T>> {
        let key = RemoteKey { remote: ends.remote, guid: None, number: ids.local };
        let found = self.table.of_both(key, ids.remote)?;
        (!matches!(found.state, State::ServiceSent | State::ServiceReceived | State::ServiceAnswered))
            .then_some(found)
    }
}

/// Checks that there is a way between two addresses.
fn check_ends(ends: Ends) -> Result<(), CallError> {
    let (local, remote) = (ends.local, ends.remote);
    let same_family = matches!(local, HostAddress::V4(_)) == matches!(remote, HostAddress::V4(_));
    let goes = same_family && !local.is_group() && !remote.is_group();
    if goes { Ok(()) } else { Err(CallError::Addresses) }
}

/// A rejection of what a peer said, without a communication.
fn rejection(ids: Ids, answered: Answered, reason: Reason, info: &[u8]) -> Reject {
    let mut place = [0; 72];
    place[..info.len()].copy_from_slice(info);
    Reject { ids, answered, reason, info_length: info.len() as u8, info: place, private_data: [0; 148] }
}

#[cfg(test)]
mod tests;
