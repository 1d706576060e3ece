//! Two queue pairs of RoCEv2 on a wire that loses, doubles, delays, changes and marks datagrams, in virtual time, from one seed.
//!
//! A run is a few hundred steps: a request or a receive is posted, a datagram arrives, a timer fires, a queue is drained, a program
//! gives up. After each step what was told is compared with what was asked: each request ends once, in order, with a status that
//! has a cause; its bytes are those that were sent, and nothing comes twice. Ends take keys back, also of writes and reads that are
//! under way, and so do sends of the peer's, of keys that it was given (`windows`): then nothing lands there any more, nor in receives
//! and requests that have ended (`grants`), no byte that is written there later comes to a reader, and a request that came too late is
//! refused. A key that a send takes out of use is so when the receive's completion is seen. At the end the wire is made whole, and then
//! nothing may wait.

mod asking;
mod end;
mod grants;
mod host;
mod medium;
mod places;
mod windows;

use std::time::Duration;

use nonic_protocol::{QpState, QpType};

use crate::chance::Chance;
use crate::shrink::Scenario;
use end::End;
use medium::Medium;

pub use grants::Grants;
pub use host::{ADDRESS, Host, KEY, WINDOW};
pub use medium::Faults;

/// Things that happen after the wire is whole, at most: more than everything needs that may be under way then.
const PATIENCE: u32 = 100_000;

/// Everything there is in a run.
#[derive(Debug)]
pub struct Wire {
    chance: Chance,
    now: Duration,
    ends: [End; 2],
    medium: Medium,
    step: u64,
    tells: bool,
    /// What an end has to send or say was not sent yet.
    waits: [bool; 2],
}

impl Scenario for Wire {
    fn new(mut chance: Chance) -> Self {
        use QpType::{ExtendedReceive, ExtendedSend, ReliableConnection, UnreliableConnection};
        let kinds = match chance.below(6) {
            4 => [UnreliableConnection; 2],
            5 => [ExtendedSend, ExtendedReceive],
            _ => [ReliableConnection; 2],
        };
        let mtu = 1 + chance.below(2);
        let mut ends = [0, 1].map(|number| End::new(kinds[number], number, mtu, &mut chance));
        // As many reads and atomics as are agreed on are taken, and not one more.
        for number in 0..2 {
            let most = ends[1 - number].connection.attributes.max_rd_atomic;
            ends[number].connection.attributes.max_dest_rd_atomic = most;
        }
        let mut medium = Medium::default();
        let mut often = || if chance.once_in(2) { 5 + chance.below(60) } else { 0 };
        let [lost, doubled, late, changed, congested] = [(); 5].map(|()| often());
        let silent = if chance.once_in(6) { 40 } else { 0 };
        let busy = if chance.once_in(6) { 4 } else { 0 };
        medium.faults = Faults { lost, doubled, late, changed, congested, silent, busy };
        if kinds[0] == UnreliableConnection {
            // It takes the first packet of a message whatever its number is, so also when it comes again (9.8.2).
            (medium.faults.doubled, medium.faults.late) = (0, 0);
        }
        Self { chance, now: Duration::ZERO, ends, medium, step: 0, tells: false, waits: [false; 2] }
    }

    fn tell(&mut self) {
        self.tells = true;
    }

    fn step(&self) -> u64 {
        self.step
    }

    fn choices(&self) -> &[u32] {
        self.chance.taken()
    }

    fn run(&mut self, steps: u64) {
        while self.step < steps {
            self.step += 1;
            self.happen();
            self.check();
        }
        self.settle();
    }
}

impl Wire {
    fn happen(&mut self) {
        let number = self.chance.below(2) as usize;
        match self.chance.below(13) {
            12 => {
                let [first, second] = &mut self.ends;
                let (end, peer) = if number == 0 { (first, second) } else { (second, first) };
                end.take_back(peer, &mut self.chance, self.medium.harms);
            }
            0..=5 => self.advance(),
            6..=8 => {
                let [first, second] = &mut self.ends;
                let (end, peer) = if number == 0 { (first, second) } else { (second, first) };
                end.post(peer, &mut self.chance);
                self.pump_soon(number);
            }
            9 | 10 => self.ends[number].post_receive(),
            _ if self.chance.once_in(400) => self.ends[number].give_up(),
            _ => self.drain_or_go_on(number),
        }
    }

    /// The queue of an end is drained, or goes on.
    fn drain_or_go_on(&mut self, number: usize) {
        let connection = &mut self.ends[number].connection;
        match connection.state() {
            QpState::ReadyToSend if self.chance.once_in(6) => connection.begin_to_drain(),
            QpState::SendQueueDrain => connection.go_on_sending(),
            _ => return,
        }
        self.pump(number);
    }

    /// An end has something to do; it does so now, or when more has come.
    fn pump_soon(&mut self, number: usize) {
        self.waits[number] = true;
        if !self.chance.once_in(4) {
            self.pump(number);
        }
    }

    fn pump(&mut self, number: usize) {
        self.waits[number] = false;
        let End { connection, host, .. } = &mut self.ends[number];
        connection.pump(self.now, host);
        self.carry(number);
    }

    /// What an end sent is on its way; there is room again.
    fn carry(&mut self, number: usize) {
        let busy = self.medium.faults.busy;
        if busy > 0 && self.chance.once_in(busy) {
            // What is sent waits, and takes room. It may be late then.
            self.waits[number] = true;
            self.medium.harms += 1;
            return;
        }
        loop {
            while let Some((packet, payload)) = self.ends[number].host.sent.pop_front() {
                self.say(|| {
                    format!("{number} sends {:?} {:?}, {} bytes", packet.base.psn, packet.body, payload.len())
                });
                self.medium.carry(&mut self.chance, self.now, number, &packet, &payload);
            }
            let End { connection, host, .. } = &mut self.ends[number];
            if !std::mem::take(&mut host.awaits_room) {
                break;
            }
            connection.pump(self.now, host);
        }
    }

    /// Time passes until something happens.
    fn advance(&mut self) {
        for number in 0..2 {
            if self.waits[number] {
                self.pump(number);
            }
        }
        let timers = [0, 1].map(|number| self.ends[number].connection.poll_timeout());
        let next = timers.into_iter().flatten().chain(self.medium.next_at()).min();
        let Some(next) = next else { return };
        self.now = self.now.max(next);
        if self.medium.next_at() == Some(next) {
            return self.deliver();
        }
        for number in (0..2).filter(|number| timers[*number] == Some(next)) {
            self.say(|| format!("{number}: it is {next:?}"));
            let End { connection, host, .. } = &mut self.ends[number];
            connection.handle_timeout(self.now, host);
            self.carry(number);
        }
    }

    /// The next datagram arrives.
    fn deliver(&mut self) {
        let Some(datagram) = self.medium.take_next() else { return };
        let number = datagram.to;
        let End { connection, host, .. } = &mut self.ends[number];
        if datagram.congested {
            connection.handle_congestion(self.now);
        }
        let Some((packet, payload)) = datagram.read() else { return };
        connection.handle(self.now, host, &packet, payload);
        self.say(|| format!("{number} takes {:?} {:?}", packet.base.psn, packet.body));
        self.pump_soon(number);
    }

    fn check(&mut self) {
        let [first, second] = &mut self.ends;
        first.check(second, self.medium.harms);
        second.check(first, self.medium.harms);
        first.check(second, self.medium.harms);
    }

    /// The wire is whole from now on, and programs post what receives it takes: then everything ends.
    fn settle(&mut self) {
        self.medium.faults = Faults::default();
        for _ in 0..PATIENCE {
            for number in 0..2 {
                self.ends[number].post_receive();
                self.ends[number].host.room = usize::MAX;
                if self.ends[number].connection.state() == QpState::SendQueueDrain {
                    self.ends[number].connection.go_on_sending();
                    self.waits[number] = true;
                }
            }
            self.advance();
            self.check();
            let idle = self.medium.next_at().is_none() && self.waits == [false; 2];
            if idle && self.ends.iter().all(|end| end.open() == 0) {
                let [first, second] = &self.ends;
                first.check_all(second);
                second.check_all(first);
                return;
            }
        }
        panic!("a request waits for ever: {} and {} are open", self.ends[0].open(), self.ends[1].open());
    }

    fn say(&self, text: impl FnOnce() -> String) {
        if self.tells {
            println!("step {}, {:?}: {}", self.step, self.now, text());
        }
    }
}
