//! Sending what is owed to the peer, in the order in which it came to be owed (IBTA vol. 1, 9.7.5; annex A17, 17.9.3).

use nonic_protocol::{AffiliatedError, Moment, Psn, QpNumber, RemoteRange};

use super::Connection;
use super::responder::{Owed, OwedRead};
use crate::packet::{Aeth, Answer, Base, Body, Credits, Packet, ReadPart, Syndrome};
use crate::surroundings::{Payload, Sent, Surroundings};

impl<T: Moment> Connection<T> {
    /// Sends what is owed, as far as there is room; whether all of it.
    pub(super) fn push_owed<S: Surroundings>(&mut self, around: &mut S) -> bool {
        while let Some(owed) = self.responder.first_owed().copied() {
            let sent = match owed {
                Owed::Acknowledge { psn, aeth } => self.say(around, psn, Answer::Acknowledge(aeth)),
                Owed::Atomic { psn, msn, old, .. } => {
                    let aeth = Aeth { syndrome: Syndrome::Acknowledge(Credits::UNKNOWN), msn };
                    self.say(around, psn, Answer::Atomic(aeth, old))
                }
                Owed::Read { .. } => self.push_read(around, owed),
            };
            if !sent {
                return false;
            }
            self.responder.has_sent_first();
        }
        if self.congestion.owes_notice() {
            if !self.push_notice(around) {
                return false;
            }
            self.congestion.has_noticed();
        }
        true
    }

    /// Sends the bytes of a read; whether all of them.
    fn push_read<S: Surroundings>(&mut self, around: &mut S, owed: Owed) -> bool {
        let Owed::Read { psn, msn, read, sent: mut done, again } = owed else { return true };
        let OwedRead { queue, remote, length } = read;
        let (mtu, packets) = (self.mtu().bytes(), self.mtu().packets(length));
        let aeth = Aeth { syndrome: Syndrome::Acknowledge(Credits::UNKNOWN), msn };
        while done < packets {
            let offset = done * mtu;
            let part = match (done == 0, done + 1 == packets) {
                (true, true) => ReadPart::Only(aeth),
                (true, false) => ReadPart::First(aeth),
                (false, false) => ReadPart::Middle,
                (false, true) => ReadPart::Last(aeth),
            };
            let from = RemoteRange { address: remote.address.wrapping_add(offset.into()), ..remote };
            let payload = Payload::Read { queue, from, count: mtu.min(length - offset) };
            let packet = self.answer(psn.plus(done), Answer::Read(part));
            match around.send(&packet, payload) {
                Sent::Sent => done += 1,
                Sent::NoRoom => {
                    if let Some(first) = self.responder.first_owed() {
                        *first = Owed::Read { psn, msn, read, sent: done, again };
                    }
                    return false;
                }
                Sent::Gone if again => {
                    // Who waits for it is told. But what comes again may be a late copy of a request that has long ended, by a key
                    // that the peer gave up since: no reason to end the connection (9.7.5.1.5).
                    self.responder.cannot_answer_again(psn.plus(done));
                    return self.push_refusal(around);
                }
                Sent::Gone => {
                    // The region went while it was being read. What comes behind it is not answered any more.
                    self.responder.cannot_answer(psn.plus(done));
                    self.end_refused(around, Some(AffiliatedError::AccessViolation));
                    return self.push_refusal(around);
                }
            }
        }
        true
    }

    /// Sends the refusal that is the first of what is owed.
    fn push_refusal<S: Surroundings>(&mut self, around: &mut S) -> bool {
        match self.responder.first_owed().copied() {
            Some(Owed::Acknowledge { psn, aeth }) => self.say(around, psn, Answer::Acknowledge(aeth)),
            _ => true,
        }
    }

    /// Sends an answer without bytes; whether there was room.
    fn say<S: Surroundings>(&self, around: &mut S, psn: Psn, answer: Answer) -> bool {
        around.send(&self.answer(psn, answer), Payload::None) == Sent::Sent
    }

    fn answer(&self, psn: Psn, answer: Answer) -> Packet {
        let base = Base::new(self.attributes.destination_qp, psn);
        let body = if self.is_extended() { Body::ExtendedAnswer(answer) } else { Body::Answer(answer) };
        Packet { base, body }
    }

    /// Tells the peer that its packets met congestion.
    fn push_notice<S: Surroundings>(&self, around: &mut S) -> bool {
        let destination: QpNumber = self.attributes.destination_qp;
        let base = Base { migrated: false, backward_congestion: true, ..Base::new(destination, Psn(0)) };
        around.send(&Packet { base, body: Body::Congestion }, Payload::None) == Sent::Sent
    }
}
