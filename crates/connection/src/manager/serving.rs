//! Requests that come to the listeners of this process, and what the program makes of them.

use std::sync::Arc;

use nonic_sys::{AsFd, PacketSocket, Share, random_u64};

use super::users::{STRANGERS_MESSAGES, Turn, Visitor, user_of};
use super::{Entry, Far, Heard, Manager, Stage, Watched, accept_on, hear, listens};
use crate::Request;
use crate::shared::{ListenerCore, lock};
use crate::sinks::{ConnectionSink, End};
use crate::wire::{Inquiry, Message, Refusal};

impl Manager {
    /// Begins to take requests of a listener, or goes on.
    pub(super) fn resume(&mut self, listener: &Arc<ListenerCore>) {
        let socket = lock(&listener.socket);
        let Some(socket) = socket.as_ref() else { return };
        if let Err(error) = self.shared.epoll.add(socket.as_fd(), listener.token) {
            self.pause(listener.token, &error);
        }
        self.sockets.insert(listener.token, Watched::Listener(Arc::clone(listener)));
    }

    /// Takes connections to a listener.
    pub(super) fn greet(&mut self, listener: &Arc<ListenerCore>) {
        let mut turn = Turn::default();
        while !turn.is_over() {
            let accepted = {
                let socket = lock(&listener.socket);
                let Some(socket) = socket.as_ref() else { return };
                self.unless_needed().and_then(|()| accept_on(socket)).inspect_err(|_| {
                    self.shared.epoll.remove(socket.as_fd());
                })
            };
            match accepted {
                Ok(Some(socket)) => {
                    let user = user_of(&socket);
                    turn.note(self.users.is_own(user));
                    match self.admit(user) {
                        Some(share) => self.meet(listener, Visitor { socket, share }),
                        None => refuse(&socket, Refusal::NoRoom),
                    }
                }
                Ok(None) => return,
                Err(error) => return self.pause(listener.token, &error),
            }
        }
    }

    /// Somebody came to a listener. The request is there already, as a rule.
    fn meet(&mut self, listener: &Arc<ListenerCore>, visitor: Visitor) {
        match hear(&visitor.socket) {
            Heard::Message(Message::Request(inquiry)) => self.take_request(listener, visitor, inquiry),
            Heard::Nothing => {
                let (token, user) = (self.shared.new_token(), visitor.share.user());
                if self.watch(token, Watched::Stranger { visitor, listener: Arc::clone(listener) }) {
                    self.note_silent(token, user);
                }
            }
            Heard::Message(_) | Heard::Nonsense | Heard::HungUp => {}
        }
    }

    pub(super) fn hear_stranger(&mut self, token: u64) {
        let Some(Watched::Stranger { visitor, .. }) = self.sockets.get(&token) else { return };
        let heard = hear(&visitor.socket);
        if matches!(heard, Heard::Nothing) {
            return;
        }
        if let (Some(Watched::Stranger { visitor, listener }), Heard::Message(Message::Request(inquiry))) =
            (self.unwatch(token), heard)
        {
            self.shared.epoll.remove(visitor.socket.as_fd());
            self.take_request(&listener, visitor, inquiry);
        }
    }

    fn take_request(&mut self, listener: &Arc<ListenerCore>, visitor: Visitor, inquiry: Inquiry) {
        let Visitor { socket, share } = &visitor;
        let user = share.user();
        // Whoever gave up is not presented to the program.
        if socket.is_hung_up() {
            return;
        }
        if !listens(listener) {
            return refuse(socket, Refusal::NobodyListens);
        }
        let Some(undecided) = self.users.undecided.take(user, 1) else {
            return refuse(socket, Refusal::NoRoom);
        };
        let channel = match self.channel_to(inquiry.process, user) {
            Ok(channel) => channel,
            Err(reason) => {
                tracing::debug!(user, %reason, "a request is not taken");
                return refuse(socket, reason);
            }
        };
        if !self.users.is_own(user) && self.unsent_on(channel) >= STRANGERS_MESSAGES {
            return refuse(socket, Refusal::NoRoom);
        }
        let own = random_u64();
        let far = Far { channel, number: inquiry.number };
        let request = self.note_request(own, far, inquiry, undecided);
        self.send(channel, &Message::Taken { to: far.number, own }, Some(visitor));
        listener.sink.request(request);
    }

    /// Notes a request that the program has to decide about, and makes what the program is given.
    pub(super) fn note_request(&mut self, own: u64, far: Far, inquiry: Inquiry, undecided: Share) -> Request {
        let request = Request::new(&self.shared, own, undecided.user(), &inquiry.facts, &inquiry.data);
        let stage = Stage::Pending(far, Box::new(inquiry));
        self.connections.insert(own, Entry { stage, sink: None, timer: None, undecided: Some(undecided) });
        self.bind(far.channel, own);
        request
    }

    /// Forgets a request that the program has decided about; who asked, if that is still of interest.
    pub(super) fn take_pending(&mut self, number: u64) -> Option<Far> {
        match self.connections.get(&number)?.stage {
            Stage::Pending(far, _) => {
                self.remove(number);
                Some(far)
            }
            _ => None,
        }
    }

    /// The same; or forgets a connection that was accepted and not confirmed.
    pub(super) fn take_rejectable(&mut self, number: u64) -> Option<Far> {
        match self.connections.get(&number)?.stage {
            Stage::Answered(far) => {
                self.remove(number);
                Some(far)
            }
            _ => self.take_pending(number),
        }
    }

    /// The program accepts.
    pub(super) fn accept(
        &mut self,
        number: u64,
        facts: Box<[u8]>,
        data: Box<[u8]>,
        sink: Arc<dyn ConnectionSink>,
    ) {
        let Some(entry) = self.connections.get_mut(&number) else {
            return sink.ended(End::Disconnected);
        };
        let Stage::Pending(far, _) = entry.stage else { return sink.ended(End::Disconnected) };
        (entry.stage, entry.sink, entry.undecided) = (Stage::Replied(far), Some(sink), None);
        self.send(far.channel, &Message::Reply { to: far.number, facts, data }, None);
    }

    /// Hands a request to another listener of this process.
    pub(super) fn hand_within(&mut self, number: u64, listener: &Arc<ListenerCore>) {
        let Some(Entry { stage: Stage::Pending(_, inquiry), undecided: Some(undecided), .. }) =
            self.connections.get(&number)
        else {
            return;
        };
        if listens(listener) {
            let (facts, data) = (&inquiry.facts, &inquiry.data);
            listener.sink.request(Request::new(&self.shared, number, undecided.user(), facts, data));
        } else {
            self.disconnect(number);
        }
    }

    /// Hands a request to another process, by a socket connected to its listener.
    pub(super) fn hand_on(&mut self, number: u64, socket: PacketSocket) {
        let Some(Entry { stage: Stage::Pending(far, inquiry), .. }) = self.connections.get(&number) else {
            return;
        };
        let far = *far;
        let message = Message::Request((**inquiry).clone());
        let token = self.shared.new_token();
        let sent = socket.send(&message.emit(), &[]).is_ok();
        if !sent || !self.watch(token, Watched::Handed { socket, number }) {
            return self.disconnect(number);
        }
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.stage = Stage::HandedOn { far, socket: Some(token) };
        }
    }

    /// What the other process makes of a request that was handed to it.
    pub(super) fn hear_of_handed(&mut self, token: u64) {
        let Some(Watched::Handed { socket, number }) = self.sockets.get(&token) else { return };
        let number = *number;
        let reason = match hear(socket) {
            Heard::Nothing => return,
            Heard::Message(Message::Moved) => {
                // Who asked says when it knows.
                self.sockets.remove(&token);
                if let Some(Entry { stage: Stage::HandedOn { socket, .. }, .. }) =
                    self.connections.get_mut(&number)
                {
                    *socket = None;
                }
                return;
            }
            Heard::Message(Message::Refused { reason, .. }) => reason,
            Heard::Message(_) | Heard::Nonsense | Heard::HungUp => Refusal::NobodyListens,
        };
        if let Some(far) = self.remove(number).and_then(|entry| entry.stage.far()) {
            self.send(far.channel, &Message::Refused { to: far.number, reason }, None);
        }
    }
}

/// Answers a request on the socket it came by.
fn refuse(socket: &PacketSocket, reason: Refusal) {
    let _ = socket.send(&Message::Refused { to: 0, reason }.emit(), &[]);
}
