//! The requester of a connected queue pair: the numbers of its packets, its retries and its waits (IBTA vol. 1, 9.7.3, 9.9.2.1).

use nonic_protocol::{Psn, QpAttributes};

use crate::packet::{Aeth, FlushCheck, Msn, Syndrome};

/// Why nothing is sent for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitReason {
    /// The peer had no receive.
    NotReady,
    /// Somebody is inside an operation through a key that is to be taken out of use.
    Occupied,
}

/// State of a queue pair as requester. `T` is an instant of the caller's clock.
#[derive(Debug)]
pub(super) struct Requester<T> {
    /// Number of the next packet.
    pub(super) next: Psn,
    /// Number of the oldest packet not yet answered; of a read, of the packet of its answer that is due.
    pub(super) unanswered: Psn,
    /// The number behind the last that was ever sent: `next`, but while packets are sent again.
    pub(super) furthest: Psn,
    /// The first request that has no numbers yet, in the count of the send queue.
    pub(super) numbered: u64,
    /// Packets sent already of the request that is being sent.
    pub(super) sent: u32,
    /// Packets sent since one asked for an answer.
    pub(super) unasked: u32,
    /// Requests under way that are answered with data: pieces of reads, and atomics.
    pub(super) reads: u8,
    /// Packets of their answers that are due.
    pub(super) awaited: u32,
    /// Until when and why nothing is sent.
    pub(super) wait: Option<(T, WaitReason)>,
    /// When what is under way is sent again if no answer comes.
    pub(super) timer: Option<T>,
    /// How often, as part of the time for an answer was over, the oldest packet was sent once more, alone: whether what was sent was lost
    /// shows then.
    pub(super) probes: u8,
    /// All of that time has passed at least once since the last answer.
    pub(super) waited: bool,
    /// Retries left after timeouts and gaps.
    pub(super) retries: u8,
    /// Retries left after RNR.
    pub(super) rnr_retries: u8,
    /// For which packet an answer to a later one was taken as a refusal already.
    pub(super) implied: Option<Psn>,
    /// How the check of a flush is made: as the last time, unless that was not answered.
    pub(super) flush_check: FlushCheck,
    /// Messages that were answered (send sequence number, 9.7.7.1).
    answered: Msn,
    /// Those, and the ones that are under way.
    sent_messages: Msn,
    /// The last message that the peer has a receive for, if it says so.
    credit_limit: Option<Msn>,
    /// Where the queue stood when it last went to SQD: those before are carried out, and no others (10.3.1).
    pub(super) drain_until: u64,
    /// Its program was told that the queue is drained.
    pub(super) drained_reported: bool,
}

impl<T> Requester<T> {
    /// The queue pair goes to RTS; `numbered` requests came before.
    pub(super) fn new(attributes: &QpAttributes, numbered: u64) -> Self {
        let first = Psn(attributes.send_psn);
        Self {
            next: first,
            unanswered: first,
            furthest: first,
            numbered,
            sent: 0,
            unasked: 0,
            reads: 0,
            awaited: 0,
            wait: None,
            timer: None,
            probes: 0,
            waited: false,
            retries: attributes.retry_count,
            rnr_retries: attributes.rnr_retry,
            implied: None,
            flush_check: FlushCheck::Once,
            answered: Msn::default(),
            sent_messages: Msn::default(),
            credit_limit: None,
            drain_until: 0,
            drained_reported: false,
        }
    }

    /// Packets that were sent and not answered.
    pub(super) fn outstanding(&self) -> u32 {
        self.furthest.distance_from(self.unanswered)
    }

    /// Packets under way since the queue pair last went back.
    pub(super) fn under_way(&self) -> u32 {
        self.next.distance_from(self.unanswered)
    }

    /// Whether answers have overtaken what is sent again.
    pub(super) fn is_overtaken(&self) -> bool {
        self.under_way() > self.outstanding()
    }

    /// The next packets have these numbers.
    pub(super) fn pass(&mut self, packets: u32) {
        let (under_way, outstanding) = (self.under_way() + packets, self.outstanding());
        self.next = self.next.plus(packets);
        if under_way > outstanding {
            self.furthest = self.next;
        }
    }

    /// The peer answered: all retries are there again (9.7.5.1.1), and waiting begins anew.
    pub(super) fn refill(&mut self, attributes: &QpAttributes) {
        (self.retries, self.rnr_retries) = (attributes.retry_count, attributes.rnr_retry);
        (self.timer, self.implied, self.probes, self.waited) = (None, None, 0, false);
        if matches!(self.wait, Some((_, WaitReason::NotReady))) {
            self.wait = None;
        }
    }

    /// Data of so many packets are asked for.
    pub(super) fn has_asked_for(&mut self, packets: u32) {
        self.reads += 1;
        self.awaited += packets;
    }

    /// The answer to a piece of a read has come, which was a message of its own.
    pub(super) fn has_piece(&mut self) {
        self.reads = self.reads.saturating_sub(1);
        self.has_finished();
    }

    /// All of a message has been sent.
    pub(super) fn has_sent(&mut self) {
        self.sent_messages = self.sent_messages.next();
    }

    /// A message was answered.
    pub(super) fn has_finished(&mut self) {
        self.answered = self.answered.next();
    }

    /// Nothing is under way that was not answered.
    pub(super) fn take_back(&mut self) {
        (self.next, self.sent_messages) = (self.unanswered, self.answered);
        (self.unasked, self.reads, self.awaited, self.timer) = (0, 0, 0, None);
    }

    /// What an acknowledgement says of receives (9.7.7.2).
    pub(super) fn take_credits(&mut self, aeth: Aeth) {
        if let Syndrome::Acknowledge(credits) = aeth.syndrome {
            let limit = |messages| Msn::masked(aeth.msn.get().wrapping_add(messages));
            self.credit_limit = credits.messages().map(limit);
        }
    }

    /// Whether the peer has a receive for the next message. One more than it has may go: its answer brings new credits.
    pub(super) fn has_credit(&self) -> bool {
        self.credit_limit.is_none_or(|limit| self.sent_messages.next().ahead_of(limit) <= 1)
    }

    /// The queue pair goes to error.
    pub(super) fn stop(&mut self) {
        (self.wait, self.timer, self.reads, self.awaited, self.sent) = (None, None, 0, 0, 0);
    }

    /// Whether the oldest request waits for those inside an operation.
    pub(super) fn is_held_up(&self) -> bool {
        matches!(self.wait, Some((_, WaitReason::Occupied)))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::packet::{Credits, FiveBits};

    fn requester() -> Requester<Duration> {
        let attributes = QpAttributes { send_psn: 0xff_fffe, retry_count: 3, ..QpAttributes::default() };
        Requester::new(&attributes, 0)
    }

    #[test]
    fn numbers_wrap_and_what_was_sent_once_stays_counted() {
        let mut requester = requester();
        requester.pass(5);
        assert_eq!((requester.next, requester.outstanding(), requester.under_way()), (Psn(3), 5, 5));
        requester.take_back();
        assert_eq!((requester.outstanding(), requester.under_way()), (5, 0));
        requester.pass(2);
        assert_eq!((requester.outstanding(), requester.furthest), (5, Psn(3)));
        requester.unanswered = Psn(2);
        assert!(requester.is_overtaken());
        requester.take_back();
        assert!(!requester.is_overtaken());
        requester.pass(2);
        assert_eq!((requester.furthest, requester.outstanding()), (Psn(4), 2));
    }

    #[test]
    fn a_peer_that_says_how_many_receives_it_has_gets_one_message_more() {
        let mut requester = requester();
        assert!(requester.has_credit(), "nothing was said");
        let say = |code, msn| Aeth {
            syndrome: Syndrome::Acknowledge(Credits::from_code(FiveBits::masked(code))),
            msn: Msn::masked(msn),
        };
        requester.take_credits(say(1, 0));
        requester.has_sent();
        assert!(requester.has_credit());
        requester.has_sent();
        assert!(!requester.has_credit());
        requester.take_back();
        assert!(requester.has_credit(), "what is sent again is not counted twice");
        requester.has_sent();
        requester.has_sent();
        requester.take_credits(say(0, 2));
        assert!(requester.has_credit());
        requester.has_sent();
        requester.take_credits(say(31, 2));
        assert!(requester.has_credit());
    }
}
