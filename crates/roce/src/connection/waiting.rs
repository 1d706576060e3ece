//! Waits of the requester: for answers, for receives of the peer's, and for what is in the way (IBTA vol. 1, 9.9.2.1).

use core::time::Duration;

use nonic_protocol::{Happening, Moment, PATIENT_REPEAT, ack_timeout, answer_time};

use super::Connection;
use super::requester::WaitReason;
use crate::surroundings::Surroundings;

/// When to look again whether those who were inside an operation have left.
pub(super) const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// What part of the time for an answer is over when the oldest packet is sent once more, alone; and again after twice, four and eight times
/// as long. Then as much is left.
const PROBE_PART: u32 = 16;
/// How often it is.
const PROBES: u8 = 4;
/// Before that it is not: a peer that is a process may not run for a moment.
const PROBE_MIN: Duration = Duration::from_millis(1);

impl<T: Moment> Connection<T> {
    /// When [`Connection::handle_timeout`] wants to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<T> {
        let wait = self.requester.wait.map(|(until, _)| until);
        [wait, self.requester.timer, self.silence.look()].into_iter().flatten().min()
    }

    /// It is `now`: goes on after a wait, sends again what was not answered, or gives up, if it is time.
    pub fn handle_timeout<S: Surroundings>(&mut self, now: T, around: &mut S) {
        if let Some((until, reason)) = self.requester.wait
            && until <= now
        {
            self.requester.wait = None;
            if reason == WaitReason::NotReady {
                around.sees(Happening::Repeated);
                self.go_back();
            }
        }
        if self.requester.timer.is_some_and(|timer| timer <= now) {
            self.requester.timer = None;
            if self.may_probe() {
                // An answer that was lost, or a request behind which none came, costs a part of the time only, and no retry.
                self.requester.probes += 1;
                around.sees(Happening::Repeated);
                self.go_back();
                return self.pump(now, around);
            }
            (self.requester.probes, self.requester.waited) = (0, true);
            self.requester.implied = None;
            self.congestion.were_lost();
            // A queue pair without a timeout repeats, too, but never gives up.
            let gives_up = ack_timeout(self.attributes.timeout).is_some();
            if !gives_up || self.spend_retry(around) {
                around.sees(Happening::Repeated);
                self.go_back();
            }
        }
        if self.silence.look().is_some_and(|look| look <= now) {
            self.look_for_peer(now, around);
        }
        self.pump(now, around);
    }

    /// From now on answers are waited for, if any are due and they are not yet.
    pub(super) fn arm(&mut self, now: T) {
        let due = self.is_reliable() && self.is_sending() && self.requester.under_way() > 0;
        if !due {
            self.requester.timer = None;
        } else if self.requester.timer.is_none() && self.requester.wait.is_none() {
            let spent = self.attributes.retry_count.saturating_sub(self.requester.retries);
            let in_vain = if self.requester.waited { spent } else { 0 };
            let wait = answer_time(self.attributes.timeout, in_vain).unwrap_or(PATIENT_REPEAT);
            let part = |parts| (wait / PROBE_PART * parts).max(PROBE_MIN).min(wait);
            let wait = match self.requester.probes {
                _ if self.requester.waited => wait,
                PROBES => part(1),
                probes => part(1 << probes),
            };
            self.requester.timer = Some(now + wait);
        }
    }

    /// Whether the next that is done for want of an answer is to ask with one packet. Retries that gaps have cost do not matter: what was
    /// sent again may be lost as well as what was sent first.
    fn may_probe(&self) -> bool {
        self.requester.probes < PROBES && !self.requester.waited
    }
}
