//! What follows a request: the reply, that both are ready, that somebody takes its time, and rejections (IBTA vol. 1, 12.9.8.2).

use alloc::boxed::Box;

use nonic_protocol::Moment;

use super::communication::{PairKey, RemoteKey, State};
use super::ending::ended;
use super::event::{Disconnection, Ends, Event};
use super::settings::{peers_thinking, time};
use super::{ConnectionManager, rejection};
use crate::management::{Answered, ConnectReply, Delay, Ids, Message, Notice, Reason, Reject};

impl<T: Moment> ConnectionManager<T> {
    /// The peer accepts.
    pub(super) fn handle_reply(&mut self, now: T, ends: Ends, transaction_id: u64, reply: &ConnectReply) {
        let (number, swapped) = (reply.ids.remote, Ids { local: reply.ids.remote, remote: reply.ids.local });
        let found = self.table.get(number).filter(|found| found.ends.remote == ends.remote);
        let Some(found) = found else {
            if !self.settings.is_own(number) {
                return;
            }
            // Who waits for an answer that cannot come, is told.
            let reject = rejection(swapped, Answered::Reply, Reason::INVALID_COMMUNICATION_ID, &[]);
            return self.send(ends, transaction_id, Message::Reject(reject));
        };
        let (id, state) = (found.id, found.state);
        if state == State::RequestSent {
            let remote =
                RemoteKey { remote: ends.remote, guid: Some(reply.ca_guid), number: reply.ids.local };
            let pair = PairKey { remote: ends.remote, guid: reply.ca_guid, number: reply.qp_number };
            if self.table.of_remote(&remote).is_some() {
                return;
            }
            if self.table.of_pair(&pair).is_some() {
                return self.refuse_stale_reply(now, ends, transaction_id, swapped);
            }
            self.table.known(number).peers_transaction_id = transaction_id;
            self.table.learn(number, remote, Some(pair));
            self.table.enter(number, State::ReplyReceived, None);
            return self.tell(number, Event::Replied { id, reply: Box::new(*reply) });
        }
        if state == State::Rejected {
            return self.reject_again(number, reply.ids.local);
        }
        self.handle_repeated_reply(ends, transaction_id, reply);
    }

    /// The queue pair that replied is connected, as far as is known here. The same reply might come once more when it is not: so
    /// nothing can come of this request.
    fn refuse_stale_reply(&mut self, now: T, ends: Ends, transaction_id: u64, ids: Ids) {
        let (answered, reason) = (Answered::Reply, Reason::STALE_CONNECTION);
        self.send(ends, transaction_id, Message::Reject(rejection(ids, answered, reason, &[])));
        let id = self.table.known(ids.local).id;
        self.tell(ids.local, Event::Rejected { id, answered, reason, private_data: Box::new([0; 148]) });
        self.enter_time_wait(now, ids.local);
    }

    /// A reply came again.
    fn handle_repeated_reply(&mut self, ends: Ends, transaction_id: u64, reply: &ConnectReply) {
        let service_timeout = self.settings.service_timeout;
        let Some(found) = self.find(ends, reply.ids) else { return };
        let (number, ids) = (found.id.number, found.ids());
        match found.state {
            State::ReplyReceived => {
                let delay = Delay { ids, answered: Answered::Reply, service_timeout, private_data: [0; 222] };
                self.send(ends, transaction_id, Message::Delay(delay));
            }
            State::Established => self.say_again(number),
            _ => (),
        }
    }

    /// What was rejected, or given up, is asked for again.
    fn reject_again(&mut self, number: u32, remote: u32) {
        let last = self.table.known(number).last.as_deref().copied();
        let Some(mut last) = last else { return };
        if let Message::Reject(reject) = &mut last.datagram.message {
            reject.ids.remote = remote;
            reject.answered = Answered::Reply;
            self.send_again(last);
        }
    }

    /// The peer is ready, too.
    pub(super) fn handle_ready(&mut self, ends: Ends, ready: &Notice) {
        let Some(found) = self.find(ends, ready.ids) else { return };
        let (id, state) = (found.id, found.state);
        match state {
            State::ReplySent => {
                self.table.enter(id.number, State::Established, None);
                self.tell(id.number, Event::Established { id });
            }
            State::Rejected => self.say_again(id.number),
            _ => (),
        }
    }

    /// The peer takes its time: it is waited for so long, once, before what was said is repeated.
    pub(super) fn handle_delay(&mut self, now: T, ends: Ends, delay: &Delay) {
        let way = time(self.settings.packet_lifetime);
        let found = match delay.answered {
            Answered::Request => {
                let found = self.table.get(delay.ids.remote);
                found.filter(|found| found.state == State::RequestSent && found.ends.remote == ends.remote)
            }
            Answered::Reply => self.find(ends, delay.ids).filter(|found| found.state == State::ReplySent),
            Answered::Other => None,
        };
        let Some(found) = found.filter(|found| !found.was_delayed) else { return };
        found.was_delayed = true;
        let number = found.id.number;
        self.table.wait_until(number, Some(now + (peers_thinking(delay.service_timeout) + way)));
    }

    /// The peer rejects.
    pub(super) fn handle_reject(&mut self, now: T, ends: Ends, reject: &Reject) {
        use State::{DisconnectSent, Established, ReplyReceived, ReplySent, RequestReceived, RequestSent};
        let Some(number) = self.rejected(ends, reject) else { return };
        let found = self.table.known(number);
        let (id, state) = (found.id, found.state);
        let Reject { answered, reason, .. } = *reject;
        let event = Event::Rejected { id, answered, reason, private_data: Box::new(reject.private_data) };
        match state {
            RequestSent | RequestReceived | ReplySent if reason != Reason::STALE_CONNECTION => {
                self.end(number, event);
            }
            RequestSent | RequestReceived | ReplySent | ReplyReceived | Established => {
                self.tell(number, event);
                self.enter_time_wait(now, number);
            }
            DisconnectSent => {
                self.tell(number, ended(id, Disconnection::Agreed));
                self.enter_time_wait(now, number);
            }
            _ => (),
        }
    }

    /// Which communication a rejection is for. Who gives up before it has heard of this side names itself by its GUID.
    fn rejected(&mut self, ends: Ends, reject: &Reject) -> Option<u32> {
        if reject.reason == Reason::TIMEOUT && reject.info_length >= 8 {
            let guid = reject.info.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            let key = RemoteKey { remote: ends.remote, guid, number: reject.ids.local };
            if let Some(number) = self.table.of_remote(&key) {
                return Some(number);
            }
        }
        if let Some(found) = self.find(ends, reject.ids).filter(|found| found.remote_number != 0) {
            return Some(found.id.number);
        }
        // A request is rejected by one that has no number for it, or whose reply is still on its way: the number is not known yet.
        let found = self.table.get(reject.ids.remote)?;
        let is_request = reject.answered != Answered::Reply && found.state == State::RequestSent;
        (is_request && found.ends.remote == ends.remote).then_some(found.id.number)
    }
}
