//! A world: some pairs, one clock, and a chance for everything that can happen.

use std::time::Duration;

use crate::chance::Chance;
use crate::node::{Gone, begin_to_send};
use crate::pair::{Pair, Side};
use crate::shrink::Scenario;

/// Everything there is in a run.
#[derive(Debug)]
pub struct World {
    chance: Chance,
    now: Duration,
    pairs: Vec<Pair>,
    step: u64,
    tells: bool,
}

impl Scenario for World {
    fn new(mut chance: Chance) -> Self {
        let count = 1 + chance.below(3);
        let pairs = (0..count).map(|_| Pair::new(&mut chance)).collect();
        Self { chance, now: Duration::ZERO, pairs, step: 0, tells: false }
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
        for pair in &mut self.pairs {
            pair.settle(&mut self.chance, &mut self.now);
        }
    }
}

impl World {
    /// One thing happens.
    fn happen(&mut self) {
        let chance = &mut self.chance;
        let which = chance.below(self.pairs.len() as u32) as usize;
        let side: Side = chance.below(2) as usize;
        let (pair, now) = (&mut self.pairs[which], self.now);
        let acts = pair.scene.nodes[side].acts();
        let what = match chance.below(64) {
            0..24 => {
                pair.deliver(side, chance, now);
                "takes a message"
            }
            24..36 if acts => {
                if pair.post(side, chance, now) && chance.once_in(2) {
                    pair.pump(side, chance, now);
                }
                "posts a request"
            }
            36..44 if acts => {
                pair.post_receive(side);
                "posts a receive"
            }
            44..48 if acts => {
                pair.pump(side, chance, now);
                "starts what can start"
            }
            48..50 if acts => {
                pair.answer(side, chance, now);
                "sends what it owes"
            }
            50..52 if acts && pair.scene.may_resume[side] => {
                pair.resume(side, chance, now);
                "has room again"
            }
            52..55 => {
                let most = 1 << (10 + chance.below(14));
                self.now += Duration::from_nanos(chance.below(most).into());
                if acts {
                    pair.take_time(side, chance, self.now);
                }
                "sees that time passed"
            }
            55..57 if acts => {
                begin_to_send(&mut pair.pairs[side]);
                "goes to RTS"
            }
            57..60 if acts => {
                pair.notice(side, chance, now);
                "looks after its peer"
            }
            _ => self.happen_rarely(which, side),
        };
        if self.tells {
            let standing = [0, 1].map(|side| self.pairs[which].describe(side));
            println!("{:4} {which}.{side} {what:22} {} | {}", self.step, standing[0], standing[1]);
        }
    }

    /// Something happens that ends or hinders others.
    fn happen_rarely(&mut self, which: usize, side: Side) -> &'static str {
        let chance = &mut self.chance;
        let (pair, now) = (&mut self.pairs[which], self.now);
        let (acts, lives) = (pair.scene.nodes[side].acts(), pair.scene.nodes[side].gone.is_none());
        match chance.below(32) {
            0..6 => {
                let node = &mut pair.scene.nodes[side];
                node.stopped = !node.stopped;
                "stops or goes on"
            }
            6..8 => {
                let node = &mut pair.scene.nodes[side];
                node.withheld = !node.withheld;
                "takes or gives its key"
            }
            8..14 if acts => {
                pair.drain(side, chance, now);
                "drains, or has drained"
            }
            14..16 if !pair.is_to_follow(0) && !pair.is_to_follow(1) => {
                pair.agree(chance);
                "agrees on a new pair"
            }
            16..22 if pair.can_follow(side) => {
                pair.follow(side, chance, now);
                "sets up the new pair"
            }
            22 if lives => {
                pair.end(side, Gone::Killed);
                "is killed"
            }
            23 if lives => {
                pair.end(side, Gone::Left);
                "leaves"
            }
            24 if acts => {
                pair.give_up(side, chance, now);
                "goes to error"
            }
            _ => "does nothing",
        }
    }
}
