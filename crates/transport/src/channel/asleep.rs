//! Both sides of a channel sleep unless somebody wakes them, and nothing waits for ever: whatever is lost of who has to be woken
//! shows here. In the device a poll, a timer or the next message would make good for it nearly always.

use std::cell::Cell;
use std::sync::atomic::{Ordering, fence};

use nonic_memory::SharedSlice;
use nonic_protocol::{BaseHeader, Psn, QpNumber};
use proptest::prelude::*;

use super::tests::{ends, loopback, show};
use super::*;
use crate::codec::FRAGMENT;
use crate::ring::Sleeper;

/// The only queue pair that each side has.
const PAIR: QpNumber = QpNumber(7);
/// Messages of a side: of all sizes together some times what a ring holds.
const MESSAGES: u32 = 1_000;

/// What may happen next; the first number says to which side.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Its program posts so many messages, of up to so many bytes, each of which may have to wait until everything before it was read.
    Post(u32, Kind),
    /// Its program notes that a message waits for room, as it does sometime after it found none.
    Note,
    /// Its agent, if it is awake, handles so many messages at most, and then what waits for room.
    Look(u32),
    /// Its agent, if it is awake, has its ring rest.
    Rest,
    /// Its agent falls asleep.
    Sleep,
}

/// Bytes of a message, and whether it goes only when everything before it was read, as what is written past the ring does.
type Kind = (usize, bool);

/// One side: a program that posts, and an agent that sleeps.
struct Side {
    channel: Channel,
    /// Messages that were posted and are not in the ring yet: their first, and one behind the last.
    unsent: (u32, u32),
    /// Of the messages, by their number modulo how many kinds there are.
    kinds: Vec<Kind>,
    /// No room was found, which is not noted yet.
    found_none: bool,
    /// It is noted.
    waits: bool,
    awake: bool,
    /// It has looked since it was woken, and there was nothing to do.
    looked: bool,
    /// Told by its peer, who knows no bell, to look.
    looks: Cell<u32>,
    received: u32,
}

impl Side {
    fn new(channel: Channel) -> Self {
        let (unsent, kinds, looks) = ((0, 0), vec![(0, false)], Cell::new(0));
        Self {
            channel,
            unsent,
            kinds,
            found_none: false,
            waits: false,
            awake: true,
            looked: false,
            looks,
            received: 0,
        }
    }

    /// Sends what was posted, until there is no room; `look` tells the peer to look.
    fn pump(&mut self, look: &dyn Fn()) {
        let mut bytes = [0; FRAGMENT];
        while self.unsent.0 < self.unsent.1 {
            let number = self.unsent.0;
            let (length, waits_for_others) = self.kinds[number as usize % self.kinds.len()];
            let payload = SharedSlice::of_private(&mut bytes[..length]);
            let base = BaseHeader::new(QpNumber(1), PAIR, Psn(number), 0);
            let send = ShortSend { base, solicited: false, acknowledges: None };
            let sent = (!waits_for_others || self.channel.everything_was_read())
                && (self.channel.push_short(send, payload)
                    || self.channel.push(&send.to_message(length as u32), &[payload]).is_ok());
            if !sent {
                self.found_none = true;
                break;
            }
            self.unsent.0 += 1;
        }
        self.channel.ring_bell(look);
    }

    fn note(&mut self) {
        if std::mem::take(&mut self.found_none) {
            self.channel.add_stalled(PAIR);
            self.waits = true;
        }
    }

    fn post(&mut self, count: u32, look: &dyn Fn()) {
        self.unsent.1 = (self.unsent.1 + count).min(MESSAGES);
        if !self.found_none && !self.waits {
            self.pump(look);
        }
    }

    /// As the device's engine does (`drain`). A message that it finds and does not handle is one that is held back.
    fn look(&mut self, most: u32, look: &dyn Fn()) {
        let (mut handled, mut bell, mut held) = (0, false, false);
        if let Some(mut ring) = self.channel.try_receive()
            && ring.has_work()
        {
            while let Some(found) = ring.peek().unwrap() {
                assert_eq!(found.message.base.psn, Psn(self.received), "a message comes out of turn");
                held = handled == most;
                if held {
                    break;
                }
                self.received += 1;
                handled += 1;
                bell |= ring.advance();
            }
            bell |= ring.report();
        }
        if bell {
            self.channel.ring_bell_now(look);
        }
        let resumed = self.channel.stalled_may_go_on() && self.channel.take_stalled_pair().is_some();
        if resumed {
            self.waits = false;
            self.pump(look);
            self.note();
        }
        self.looked = handled == 0 && !held && !resumed;
    }

    /// As `let_rest` does.
    fn rest(&self, look: &dyn Fn()) {
        if self.channel.is_quiet() && self.channel.begin_rest(look).is_some() {
            fence(Ordering::SeqCst);
            if !self.channel.is_still_quiet() {
                self.channel.end_rest();
            }
        }
    }

    /// As `say_asleep` does.
    fn sleep(&mut self, look: &dyn Fn()) {
        let mut quiet = !self.channel.party.calls.set_sleeping(Sleeper::Agent);
        if !self.channel.rests() {
            quiet &= !self.channel.set_sleeping(Sleeper::Agent, look);
        }
        (self.awake, self.looked) = (!quiet, false);
    }

    /// Its agent wakes if it was rung for, and looks at what it was called for.
    fn wake(&mut self) {
        let told = self.looks.take() > 0;
        if self.channel.party.doorbell.take_if_ready() || told {
            (self.awake, self.looked) = (true, false);
            self.channel.party.calls.set_awake(Sleeper::Agent);
        }
        if self.awake && (told || self.channel.party.calls.any()) && self.channel.rests() {
            self.channel.party.calls.take(|_| ());
            self.channel.end_rest();
        }
    }
}

/// The sides of a channel: two, or of a loopback one, which is its own peer.
struct Sides(Vec<Side>);

impl Sides {
    fn step(&mut self, number: usize, step: Step) {
        let number = number % self.0.len();
        let told = Cell::new(0);
        let look = || told.set(told.get() + 1);
        let side = &mut self.0[number];
        side.wake();
        match step {
            Step::Post(count, kind) => {
                side.kinds.push(kind);
                side.post(count, &look);
            }
            Step::Note => side.note(),
            Step::Look(most) if side.awake => side.look(most, &look),
            Step::Rest if side.awake => side.rest(&look),
            Step::Sleep if side.awake && side.looked => side.sleep(&look),
            Step::Look(_) | Step::Rest | Step::Sleep => {}
        }
        let peer = self.0.len() - 1 - number;
        self.0[peer].looks.set(self.0[peer].looks.get() + told.get());
    }

    /// Nobody posts any more; everybody does what it does, and sleeps when there is nothing to do, until all sleep.
    fn settle(&mut self) {
        let count = self.0.len();
        loop {
            for number in 0..count {
                self.step(number, Step::Note);
                self.step(number, Step::Look(u32::MAX));
                self.step(number, Step::Sleep);
            }
            self.0.iter_mut().for_each(Side::wake);
            if self.0.iter().all(|side| !side.awake && !side.found_none) {
                break;
            }
        }
        for (number, side) in self.0.iter().enumerate() {
            let peer = &self.0[count - 1 - number];
            let (sent, posted) = side.unsent;
            assert_eq!((sent, peer.received), (posted, posted), "all sleep, and a message of {number} waits");
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let sizes = prop_oneof![0..64usize, Just(FRAGMENT), 0..=FRAGMENT];
    prop_oneof![
        4 => (1..40u32, (sizes, prop::bool::weighted(0.1))).prop_map(|(count, kind)| Step::Post(count, kind)),
        4 => Just(Step::Note),
        4 => prop_oneof![0..4u32, 0..60u32, Just(u32::MAX)].prop_map(Step::Look),
        1 => Just(Step::Rest),
        4 => Just(Step::Sleep),
    ]
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    proptest::collection::vec((0..2usize, step()), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn two_that_sleep_unless_they_are_rung_for_take_everything(steps in steps(), shown in any::<bool>()) {
        let ends = ends();
        if shown {
            show(&ends[0], &ends[1]);
            show(&ends[1], &ends[0]);
        }
        let mut sides = Sides(ends.map(Side::new).into());
        steps.into_iter().for_each(|(number, step)| sides.step(number, step));
        sides.settle();
    }

    #[test]
    fn one_that_sends_to_itself_takes_everything(steps in steps()) {
        let mut sides = Sides(vec![Side::new(loopback())]);
        steps.into_iter().for_each(|(number, step)| sides.step(number, step));
        sides.settle();
    }
}
