//! Starting requests: in the order in which they were posted, as far as states, waits and room allow (IBTA vol. 1, 9.7.3, 10.8.2).

use super::Connection;
use crate::completion::Status;
use crate::happening::Happening;
use crate::requester::WaitReason;
use crate::state::QpType;
use crate::surroundings::{Event, Step, Surroundings};
use crate::timer::Moment;

impl<P, T: Moment> Connection<P, T> {
    /// Starts everything that can start.
    pub fn pump<S: Surroundings<P, T>>(&mut self, around: &mut S) {
        let service = around.service();
        // What is owed goes first, or with the first message: a peer that gets a reply has the acknowledgement of what it
        // replies to, as on a wire.
        let mut calls = core::mem::take(&mut self.requester.rings);
        if !self.next_says_what_is_owed(service, S::FRAGMENT.into()) {
            calls |= self.push_owed(around);
        }
        while self.has_next() {
            let number = self.send.started;
            let slot = *self.send.slot(number);
            let step = if service == QpType::UnreliableDatagram {
                around.start_datagram(self, number, &slot)
            } else {
                self.start(around, number, &slot)
            };
            calls |= matches!(step, Step::InFlight | Step::Blocked) || service != QpType::ReliableConnection;
            match step {
                Step::Finished => {
                    self.send.started += 1;
                    self.requester.has_copied();
                    self.finish(around, Status::Success);
                }
                Step::InFlight => {
                    around.sees(Happening::Started { psn: self.requester.next });
                    self.has_sent();
                }
                Step::Blocked | Step::Later => break,
                Step::Failed(_) if !self.send.nothing_in_flight() => break,
                Step::Failed(status) => {
                    self.fail_oldest(around, status);
                    break;
                }
                Step::Fault => {
                    self.take_fault(around);
                    break;
                }
                Step::Unreachable => {
                    if self.send.nothing_in_flight() {
                        self.wait_for_answer(around);
                    }
                    break;
                }
            }
        }
        calls |= self.push_owed(around);
        if calls && let Some(path) = &self.path {
            around.call_peer(path);
        }
        if self.has_just_drained() {
            around.raise(Event::SendQueueDrained);
        }
    }

    /// Goes on after there was no room.
    pub fn resume<S: Surroundings<P, T>>(&mut self, around: &mut S) {
        self.answer(around);
        self.pump(around);
    }

    /// The peer's memory was not there.
    fn take_fault<S: Surroundings<P, T>>(&mut self, around: &mut S) {
        match self.requester.take_fault() {
            Some(wait) => self.wait(around, wait, WaitReason::Fault),
            None => self.fail_oldest(around, Status::RemoteOperation),
        }
    }
}
