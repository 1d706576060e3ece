//! The passing of time: what is repeated, what is given up, and what is forgotten (IBTA vol. 1, 12.7, 12.9.8.5).

use nonic_protocol::Moment;

use super::communication::State;
use super::ending::ended;
use super::event::{Disconnection, Event};
use super::{ConnectionManager, rejection};
use crate::management::{Answered, Message, Reason};

impl<T: Moment> ConnectionManager<T> {
    /// It is `now`: repeats what was not answered, gives up, and forgets, as far as it is time.
    pub fn handle_timeout(&mut self, now: T) {
        while let Some(number) = self.table.take_due(now) {
            let found = self.table.known(number);
            let waits = matches!(
                found.state,
                State::RequestSent | State::ReplySent | State::DisconnectSent | State::ServiceSent
            );
            if waits && found.repeats_left > 0 {
                found.repeats_left -= 1;
                let deadline = now + found.timing.timeout;
                self.say_again(number);
                self.table.wait_until(number, Some(deadline));
            } else {
                self.give_up(now, number);
            }
        }
    }

    fn give_up(&mut self, now: T, number: u32) {
        let found = self.table.known(number);
        let (id, ends, ids) = (found.id, found.ends, found.ids());
        match found.state {
            State::RequestSent | State::ReplySent => {
                let is_asked = found.state == State::ReplySent;
                let transaction_id = if is_asked { found.peers_transaction_id } else { found.transaction_id };
                // The peer may have heard everything, and be the one that is not heard.
                let guid = self.settings.ca_guid.to_be_bytes();
                let reject = rejection(ids, Answered::Other, Reason::TIMEOUT, &guid);
                self.send(ends, transaction_id, Message::Reject(reject));
                self.end(number, Event::Unreachable { id });
            }
            State::ServiceSent => self.end(number, Event::Unreachable { id }),
            State::DisconnectSent => {
                self.tell(number, ended(id, Disconnection::Unanswered));
                self.enter_time_wait(now, number);
            }
            State::TimeWait => self.end(number, Event::TimeWaitOver { id }),
            State::Rejected | State::ServiceAnswered => self.table.remove(number),
            State::RequestReceived
            | State::ReplyReceived
            | State::Established
            | State::DisconnectReceived
            | State::ServiceReceived => unreachable!("nothing is waited for in {:?}", found.state),
        }
    }
}
