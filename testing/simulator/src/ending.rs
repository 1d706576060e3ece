//! The end of a run: all that hinders is taken away, and then nothing may wait any longer.

use std::time::Duration;

use nonic_protocol::QpState;

use crate::chance::Chance;
use crate::node::{Node, begin_to_send};
use crate::pair::{Pair, Side};

/// Looks in which everything has to end: 8 requests of 5 fragments, each repeated as often as terms allow, and more.
const LOOKS: u32 = 20_000;
/// Receives that a program keeps posted.
const RECEIVES: usize = 4;

impl Pair {
    /// Takes away all that hinders and lets the two go on until nothing is left to do. Nothing may be left then that was asked
    /// for.
    pub(crate) fn settle(&mut self, chance: &mut Chance, now: &mut Duration) {
        for side in 0..2 {
            self.scene.nodes[side].stopped = false;
        }
        for side in 0..2 {
            if self.is_to_follow(side) {
                while !self.can_follow(side) && self.deliver(1 - side, chance, *now) {}
                self.notice(1 - side, chance, *now);
                if self.can_follow(side) {
                    self.follow(side, chance, *now);
                }
            }
        }
        for side in 0..2 {
            if self.scene.nodes[side].gone.is_none() {
                begin_to_send(&mut self.pairs[side]);
                if self.pairs[side].state() == QpState::SendQueueDrain {
                    self.drain(side, chance, *now);
                }
            }
        }
        for _ in 0..LOOKS {
            let went_on = [0, 1].map(|side| self.go_on(side, chance, *now));
            if went_on == [false, false] && !self.pass_time(chance, now) {
                break;
            }
        }
        for side in 0..2 {
            let node = &self.scene.nodes[side];
            if node.gone.is_none() && !node.unheard {
                assert_eq!(
                    self.scene.ledgers[side].open(),
                    0,
                    "requests wait for ever: {}",
                    self.describe(side)
                );
            }
        }
    }

    /// An end does everything that it can do now; whether that was anything.
    fn go_on(&mut self, side: Side, chance: &mut Chance, now: Duration) -> bool {
        if self.scene.nodes[side].gone.is_some() {
            return false;
        }
        let mut went_on = false;
        while self.deliver(side, chance, now) {
            went_on = true;
        }
        while self.pairs[side].state().receives() && self.receives(side) < RECEIVES {
            self.post_receive(side);
            went_on = true;
        }
        let was_alone = self.scene.nodes[side].alone;
        self.notice(side, chance, now);
        let before = self.standing(side);
        self.resume(side, chance, now);
        went_on || self.scene.nodes[side].alone != was_alone || self.standing(side) != before
    }

    /// Receives that wait; of shared receive queues in the one that has fewer.
    fn receives(&self, side: Side) -> usize {
        if self.scene.extended {
            self.scene.nodes[side].shorter().1
        } else {
            self.pairs[side].receives.length()
        }
    }

    /// What an end has done so far.
    fn standing(&self, side: Side) -> (u64, u64, u64, bool, usize) {
        let pair = &self.pairs[side];
        let (send, requester) = (&pair.send, &pair.requester);
        let length = self.scene.carriers[side].length();
        (send.started, send.finished, requester.sent, pair.responder.owes(), length)
    }

    /// How an end stands, in few words.
    pub(crate) fn describe(&self, side: Side) -> String {
        let Node { gone, stopped, alone, .. } = &self.scene.nodes[side];
        let pair = &self.pairs[side];
        let (send, wait) = (&pair.send, pair.requester.wait.map(|(_, reason)| reason));
        let receives = self.receives(side);
        format!(
            "{:?} {}/{}/{} receives {receives} waits {wait:?} sends {} gone {gone:?} stopped {stopped} alone {alone}",
            pair.state(),
            send.posted,
            send.started,
            send.finished,
            self.scene.carriers[side].length(),
        )
    }

    /// Time passes until something is due; false if nothing ever is.
    fn pass_time(&mut self, chance: &mut Chance, now: &mut Duration) -> bool {
        let due = [0, 1].map(|side| self.due(side));
        let Some(next) = due.into_iter().flatten().min() else { return false };
        // A message that is held is dropped after 20 ms.
        *now = (*now).max(next);
        for side in 0..2 {
            if self.scene.nodes[side].gone.is_none() {
                self.take_time(side, chance, *now);
            }
        }
        true
    }

    fn due(&self, side: Side) -> Option<Duration> {
        self.pairs[side].poll_timeout().filter(|_| self.scene.nodes[side].gone.is_none())
    }
}
