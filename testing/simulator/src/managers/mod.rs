//! Two connection managers, their programs, and a wire between them that loses datagrams, doubles them, changes them and lets one
//! overtake another, for a while all of a direction.
//!
//! A run is a few hundred steps in virtual time: a program asks for a connection or for a service, answers, ends a connection, does
//! not want to know any more; a datagram arrives, a timer fires; a host is killed and comes back with nothing in its memory. After
//! each step what was told is compared with what was done (`told`): whatever is told has a cause on the other side, once.
//! At the end the wire is made whole and programs answer everything. Then nothing may wait, both sides are connected with each other or
//! know that they are not, and when all connections are ended nobody remembers any.

mod attempts;
mod hostile;
mod medium;
mod program;
mod told;

use std::time::Duration;

use nonic_roce::ManagementDatagram;

use crate::chance::Chance;
use crate::shrink::Scenario;
use attempts::Attempts;
use medium::Medium;
use program::Program;

pub use hostile::try_hostile;

/// Things that happen after the wire is whole, at most: more than everything needs that may be under way then.
const PATIENCE: u32 = 100_000;

/// Everything there is in a run.
#[derive(Debug)]
pub struct Managers {
    chance: Chance,
    now: Duration,
    programs: [Program; 2],
    attempts: Attempts,
    medium: Medium,
    step: u64,
    tells: bool,
}

impl Scenario for Managers {
    fn new(mut chance: Chance) -> Self {
        let mut medium = Medium::default();
        // Up to three of ten are lost, or none.
        let mut often = |least| if chance.once_in(3) { 0 } else { least + chance.below(40) };
        let [lost, doubled, late, changed] = [3, 3, 2, 5].map(&mut often);
        medium.faults = medium::Faults { lost, doubled, late, changed, silent: 0 };
        medium.faults.silent = if chance.once_in(3) { 30 } else { 0 };
        let programs = [0, 1].map(|number| Program::new(number, &mut chance));
        let attempts = Attempts::default();
        Self { chance, now: Duration::ZERO, programs, attempts, medium, step: 0, tells: false }
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
        }
        self.settle();
    }
}

impl Managers {
    fn happen(&mut self) {
        let number = self.chance.below(2) as usize;
        let what = self.chance.below(16);
        let Self { chance, now, programs, attempts, .. } = self;
        let program = &mut programs[number];
        match what {
            0..=7 => return self.advance(),
            8 | 9 => program.ask(chance, *now, attempts),
            10 => program.ask_for_service(chance, *now, attempts),
            11..=13 => program.answer(chance, *now, attempts),
            14 => program.leave(chance, *now, attempts),
            _ if chance.once_in(30) => {
                attempts.killed(number);
                *program = Program::new(number, chance);
                self.say(|| format!("{number} is killed, and comes back"));
            }
            _ => program.hear_packet(attempts),
        }
        self.carry(number);
    }

    /// What a host says is on its way; its program is told what it is told.
    fn carry(&mut self, number: usize) {
        while let Some(outgoing) = self.programs[number].manager.poll_transmit() {
            self.say(|| format!("{number} says {:?}", outgoing.datagram.message));
            let bytes = outgoing.datagram.emit();
            self.medium.carry(&mut self.chance, self.now, number, bytes);
        }
        while let Some(event) = self.programs[number].manager.poll_event() {
            self.say(|| format!("{number} is told {event:?}"));
            self.programs[number].is_told(self.now, event, &mut self.attempts, self.medium.harms);
        }
    }

    /// Time passes until something happens.
    fn advance(&mut self) {
        let timers = [0, 1].map(|number| self.programs[number].manager.poll_timeout());
        let next = timers.into_iter().flatten().chain(self.medium.next_at()).min();
        let Some(next) = next else { return };
        self.now = self.now.max(next);
        if self.medium.next_at() == Some(next) {
            let Some((number, bytes)) = self.medium.take_next() else { return };
            let datagram = ManagementDatagram::parse(&bytes).expect("what was written is read");
            let ends = program::ends(number);
            self.programs[number].manager.handle(self.now, ends, &datagram);
            return self.carry(number);
        }
        for number in (0..2).filter(|number| timers[*number] == Some(next)) {
            self.say(|| format!("{number}: it is {next:?}"));
            self.programs[number].manager.handle_timeout(self.now);
            self.carry(number);
        }
    }

    /// The wire is whole from now on, and programs answer: then nothing waits, and both sides say the same.
    fn settle(&mut self) {
        self.medium.heal();
        self.come_to_rest();
        let [first, second] = &self.programs;
        self.attempts.check_agreement([first, second], self.medium.harms);
        for number in 0..2 {
            self.programs[number].end_all(&mut self.chance, self.now, &mut self.attempts);
            self.carry(number);
        }
        self.come_to_rest();
        for program in &self.programs {
            program.check_nothing_is_left();
        }
    }

    fn come_to_rest(&mut self) {
        for _ in 0..PATIENCE {
            for number in 0..2 {
                self.programs[number].answer_all(&mut self.chance, self.now, &mut self.attempts);
                self.carry(number);
            }
            let waits = self.programs.iter().any(|program| program.manager.poll_timeout().is_some());
            if !waits && self.medium.next_at().is_none() {
                return;
            }
            self.advance();
        }
        panic!("something waits for ever: {:?}", self.programs);
    }

    fn say(&self, text: impl FnOnce() -> String) {
        if self.tells {
            println!("step {}, {:?}: {}", self.step, self.now, text());
        }
    }
}
