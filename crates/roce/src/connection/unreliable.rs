//! The receiver of an unreliable connection (IBTA vol. 1, 9.8.2): what is lost or makes no sense is dropped with the rest of its
//! message, and nobody is told.

use nonic_protocol::{Happening, Moment, Psn};

use super::Connection;
use super::executing::Outcome;
use super::responder::Portion;
use super::taking::Arrival;
use crate::packet::{Part, Tail, UnreliableRequest};
use crate::surroundings::Surroundings;

impl<T: Moment> Connection<T> {
    /// Takes a packet. One that begins a message is due whatever its number is; another one only behind the last.
    pub(super) fn take_unreliable<S: Surroundings>(
        &mut self,
        around: &mut S,
        psn: Psn,
        request: UnreliableRequest,
        arrival: Arrival<'_>,
    ) {
        self.note_established(around);
        let portion = match request {
            UnreliableRequest::Write(part) => Portion::Write(part),
            UnreliableRequest::Send(part) => Portion::Send(as_reliable(part)),
        };
        if portion.begins() || psn != self.responder.expected || !self.is_in_sequence(Some(portion)) {
            self.break_off(around);
        }
        if !self.is_in_sequence(Some(portion)) {
            return around.sees(Happening::Dropped);
        }
        self.responder.expected = psn.next();
        match self.take_portion(around, None, portion, arrival) {
            Ok(Outcome::Taken { ends, bytes, receive }) => {
                if ends {
                    around.sees(Happening::Taken { psn, bytes, receive });
                }
            }
            _ => {
                self.break_off(around);
                around.sees(Happening::Dropped);
            }
        }
    }

    /// A message that broke off leaves its receive to the next.
    fn break_off<S: Surroundings>(&mut self, around: &mut S) {
        if let Some(receive) = self.responder.break_off() {
            around.give_back_receive(&mut self.receives, receive);
        }
    }
}

fn as_reliable(part: Part<(), Option<u32>>) -> Part<(), Tail> {
    let tail = |immediate: Option<u32>| immediate.map_or(Tail::Plain, Tail::Immediate);
    match part {
        Part::First(()) => Part::First(()),
        Part::Middle => Part::Middle,
        Part::Last(immediate) => Part::Last(tail(immediate)),
        Part::Only((), immediate) => Part::Only((), tail(immediate)),
    }
}
