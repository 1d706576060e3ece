//! Requests that come again (IBTA vol. 1, 9.7.4.1.2, 9.7.5.1.4, 9.7.5.1.5): what was done is not done again, but said again.

use nonic_protocol::{Happening, Moment, Psn, RemoteRange};

use super::Connection;
use super::responder::{KeptAnswer, OwedRead};
use crate::packet::{Request, Reth};
use crate::surroundings::Surroundings;

impl<T: Moment> Connection<T> {
    /// Takes a request that was taken before, `behind` numbers before the one that is due.
    pub(super) fn take_repeated<S: Surroundings>(
        &mut self,
        around: &mut S,
        psn: Psn,
        behind: u32,
        request: Request,
    ) {
        let answered = match request {
            // 9.7.5.1.4: acknowledged with the last that was done, asked for or not.
            Request::Send(_) | Request::Write(_) => {
                self.responder.acknowledge(self.responder.expected.before());
                true
            }
            Request::Read(reth) => self.read_again(psn, behind, reth),
            Request::Atomic(_) => self.say_old_again(psn, behind),
            Request::Flush(_) => self.flush_again(psn, behind),
        };
        if !answered {
            around.sees(Happening::Dropped);
        }
    }

    /// Answers a read again, from any packet of the old answer on, if what is asked for lies in what was (9.7.5.1.5). The memory is
    /// read anew, through the gate.
    fn read_again(&mut self, psn: Psn, behind: u32, reth: Reth) -> bool {
        let Some((kept, passed)) = self.responder.find_kept(behind) else { return false };
        let KeptAnswer::Read { queue, remote, length } = kept.what else { return false };
        let offset = passed * self.mtu().bytes();
        let from = RemoteRange { address: remote.address.wrapping_add(offset.into()), ..remote };
        let is_part = reth.remote == from && offset <= length && reth.length <= length - offset;
        if !is_part || !self.responder.may_answer_again(psn) {
            return false;
        }
        let read = OwedRead { queue, remote: reth.remote, length: reth.length };
        self.responder.owe_read(psn, read, true);
        true
    }

    /// Answers a flush again: what it was for is where it was to be (annex A19, oA19-14).
    fn flush_again(&mut self, psn: Psn, behind: u32) -> bool {
        let Some((kept, _)) = self.responder.find_kept(behind) else { return false };
        if !matches!(kept.what, KeptAnswer::Flush) || !self.responder.may_answer_again(psn) {
            return false;
        }
        self.responder.owe_read(psn, OwedRead::NOTHING, true);
        true
    }

    /// Says again what an atomic found: the word is not changed twice.
    fn say_old_again(&mut self, psn: Psn, behind: u32) -> bool {
        let Some((kept, _)) = self.responder.find_kept(behind) else { return false };
        let KeptAnswer::Atomic { old } = kept.what else { return false };
        if !self.responder.may_answer_again(psn) {
            return false;
        }
        self.responder.owe_old(psn, old, true);
        true
    }
}
