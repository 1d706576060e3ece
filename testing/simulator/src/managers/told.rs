//! What a program may be told, and when.

use std::time::Duration;

use nonic_protocol::QpNumber;
use nonic_roce::{CommunicationId, Disconnection, Event, Reason, ServiceAnswer, behind_header};

use super::attempts::Attempts;
use super::program::{Known, Phase, Program, Q_KEY, token_of};

impl Program {
    pub(super) fn is_told(&mut self, now: Duration, event: Event, attempts: &mut Attempts, harms: u64) {
        let (me, other) = (self.number, 1 - self.number);
        let unheard = harms > 0 || attempts.kills > 0;
        match event {
            Event::Asked { id, header, request, .. } => {
                let token = token_of(behind_header(header, &request.private_data));
                let attempt = attempts.of(token);
                assert_eq!((attempt.asker, attempt.asker_pair), (other, request.qp_number));
                assert!(attempt.is_listened_for, "asked where nobody listens");
                let again = self.known.values().any(|known| known.token == token);
                assert!(!again, "told twice of one request");
                self.known.insert(id, Known { phase: Phase::Asked, token, pair: QpNumber(0) });
            }
            Event::Replied { id, reply } => {
                let token = self.expect(id, &[Phase::Asking]);
                assert_eq!(token, token_of(&reply.private_data), "a reply to another request");
                let accepted = attempts.of(token).accepted.contains(&reply.qp_number);
                assert!(accepted, "another queue pair");
                attempts.of(token).replied_by = reply.ids.local;
                self.enter(id, Phase::Replied);
            }
            Event::Established { id } => {
                let token = self.expect(id, &[Phase::Accepted]);
                let attempt = attempts.of(token);
                assert!(
                    attempt.is_ready && !attempt.was_established,
                    "established for no reason: {attempt:?}"
                );
                attempt.was_established = true;
                self.enter(id, Phase::Connected);
            }
            Event::Rejected { id, reason, .. } => self.is_rejected(now, id, reason, attempts),
            Event::Unreachable { id } => {
                let token = self.expect(id, &[Phase::Asking, Phase::Accepted, Phase::Resolving]);
                assert!(unheard || attempts.of(token).deeds[other].is_gone, "somebody was there");
                attempts.of(token).deeds[me].is_gone = true;
                self.forget(now, id);
            }
            Event::Disconnected { id, how: Disconnection::ByPeer, .. } => {
                let token = self.expect(id, &[Phase::Connected, Phase::Accepted]);
                let wanted = attempts.of(token).deeds[other].wanted_end || attempts.kills > 0;
                assert!(wanted, "ended for no reason");
                self.enter(id, Phase::EndedByPeer);
            }
            Event::Disconnected { id, how, .. } => {
                // Of what the other side has left it may ask again with the same queue pair.
                let token = self.expect(id, &[Phase::Ending, Phase::Connected]);
                let is_left = attempts.of(token).deeds[other].is_gone || attempts.kills > 0;
                let has_cause = self.known[&id].phase == Phase::Ending || is_left;
                assert!(has_cause, "ended for no reason");
                if how == Disconnection::Unanswered {
                    assert!(unheard, "somebody was there");
                    attempts.of(token).deeds[me].is_gone = true;
                }
                self.enter(id, Phase::TimeWait);
            }
            Event::TimeWaitOver { id } => {
                let token = self.expect(id, &[Phase::TimeWait]);
                attempts.of(token).deeds[me].is_over = true;
                self.forget(now, id);
            }
            Event::ServiceAsked { id, header, request, .. } => {
                let token = token_of(behind_header(header, &request.private_data));
                assert_eq!(attempts.of(token).asker, other);
                self.known.insert(id, Known { phase: Phase::Resolved, token, pair: QpNumber(0) });
            }
            Event::ServiceAnswered { id, answer, .. } => {
                let token = self.expect(id, &[Phase::Resolving]);
                let attempt = attempts.of(token);
                match answer {
                    ServiceAnswer::QueuePair { number, q_key } => {
                        assert_eq!((number, q_key), (QpNumber(token as u32), Q_KEY), "another queue pair");
                    }
                    ServiceAnswer::Refused(1) => assert!(!attempt.is_listened_for, "somebody listens"),
                    ServiceAnswer::Refused(_) => assert!(attempt.deeds[other].rejected, "nobody refused"),
                }
                self.forget(now, id);
            }
        }
    }

    fn is_rejected(&mut self, now: Duration, id: CommunicationId, reason: Reason, attempts: &mut Attempts) {
        use Phase::{Accepted, Asked, Asking, Connected, Replied};
        let (me, other) = (self.number, 1 - self.number);
        let token = self.expect(id, &[Asking, Replied, Asked, Accepted, Connected]);
        let phase = self.known[&id].phase;
        let kills = attempts.kills;
        let attempt = attempts.of(token);
        let deeds = attempt.deeds[other];
        let has_cause = match reason {
            Reason::CONSUMER => deeds.rejected,
            Reason::TIMEOUT | Reason::INVALID_COMMUNICATION_ID => deeds.is_gone || deeds.is_over,
            Reason::INVALID_SERVICE_ID => !attempt.is_listened_for,
            // The queue pair was connected before, and that has not ended yet on the other side.
            Reason::STALE_CONNECTION => true,
            _ => false,
        };
        assert!(has_cause, "rejected for no reason: {reason:?}, {attempt:?}, {kills} kills");
        attempt.deeds[me].is_gone = true;
        let is_over = matches!(phase, Asking | Asked | Accepted) && reason != Reason::STALE_CONNECTION;
        if is_over {
            self.forget(now, id);
        } else {
            self.enter(id, Phase::TimeWait);
        }
    }
}
