//! Requests that come over the channels which this process opened, for those of its services that were found before.
//!
//! They are heard until there is nothing more to hear, so that those that were given up meanwhile are not shown to the
//! program. And a request is shown only after its sender can read so: if the channel ends without that, it can be made
//! elsewhere without being made twice.

use std::sync::Arc;

use nonic_sys::random_u64;

use super::{Far, Manager, listens};
use crate::shared::{ListenerCore, lock};
use crate::wire::{Inquiry, Message, Refusal};

/// Requests of one process that wait at most until it reads.
const MOST: usize = 1024;

/// A request for the service of this name.
pub(super) struct Ask {
    service: Box<[u8]>,
    inquiry: Inquiry,
}

impl Manager {
    /// Takes note of a request; false if it does not belong on this channel.
    pub(super) fn hear_ask(&mut self, token: u64, service: Box<[u8]>, inquiry: Inquiry) -> bool {
        let Some(channel) = self.channel(token) else { return true };
        if channel.to != Some(inquiry.process) {
            return false;
        }
        let (user, waiting, to) = (channel.share.user(), channel.asks.len(), inquiry.number);
        // Others ask by the name, where they are known by what they are then.
        if !self.users.is_own(user) || waiting >= MOST {
            self.send(token, &Message::Elsewhere { to }, None);
        } else if let Some(channel) = self.channel(token) {
            channel.asks.push_back(Ask { service, inquiry });
        }
        true
    }

    /// Who asked has given up. If the request was shown already, who asked says so again when it reads that.
    pub(super) fn drop_ask(&mut self, token: u64, number: u64) {
        if let Some(channel) = self.channel(token) {
            channel.asks.retain(|ask| ask.inquiry.number != number);
        }
    }

    /// Decides about what was heard, as long as there is room for answers.
    pub(super) fn take_asks(&mut self, token: u64) {
        while self.unsent_on(token) == 0 {
            let Some(ask) = self.channel(token).and_then(|channel| channel.asks.pop_front()) else { return };
            if let Err(ask) = self.take_ask(token, ask) {
                if let Some(channel) = self.channel(token) {
                    channel.asks.push_front(ask);
                }
                return;
            }
        }
    }

    /// Takes a request. It comes back if who asks cannot be told so now.
    fn take_ask(&mut self, token: u64, ask: Ask) -> Result<(), Ask> {
        let to = ask.inquiry.number;
        let Some(listener) = self.listener_of(&ask.service) else {
            self.send(token, &Message::Elsewhere { to }, None);
            return Ok(());
        };
        let user = self.channel(token).map(|channel| channel.share.user());
        let Some(undecided) = user.and_then(|user| self.users.undecided.take(user, 1)) else {
            self.send(token, &Message::Refused { to, reason: Refusal::NoRoom }, None);
            return Ok(());
        };
        let own = random_u64();
        if !self.send_at_once(token, &Message::Taken { to, own }) {
            return Err(ask);
        }
        let request = self.note_request(own, Far { channel: token, number: to }, ask.inquiry, undecided);
        listener.sink.request(request);
        Ok(())
    }

    fn listener_of(&self, service: &[u8]) -> Option<Arc<ListenerCore>> {
        let name = std::str::from_utf8(service).ok()?;
        let listener = lock(&self.shared.listeners).get(name).map(Arc::clone)?;
        listens(&listener).then_some(listener)
    }
}
