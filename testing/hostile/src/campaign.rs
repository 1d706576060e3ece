//! What all liars have in common: they do one thing after the other, as a seed has it, and count.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::time::Instant;

use crate::chance::Chance;

/// Connections that are kept at most; an old one goes for each that comes.
pub(crate) const KEPT: usize = 600;
/// Messages of one flood.
pub(crate) const FLOOD: usize = 2000;

/// How often each action was tried, and how often it could be carried out.
#[derive(Debug)]
pub struct Record<A>(BTreeMap<A, (u64, u64)>);

impl<A> Default for Record<A> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<A: Ord + Copy> Record<A> {
    pub(crate) fn note<T>(&mut self, action: A, outcome: &io::Result<T>) {
        let done = self.0.entry(action).or_default();
        done.0 += 1;
        done.1 += u64::from(outcome.is_ok());
    }
}

impl<A: Debug> Record<A> {
    /// A line for each action.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(action, (tried, carried_out))| format!("{action:?}: {carried_out} of {tried}"))
    }
}

/// One who lies to one kind of victim.
pub trait Liar {
    /// The ways it has.
    type Action: Copy;

    /// Does one thing. That the victim is not there, or shuts its door, is no failure.
    fn act(&mut self, action: Self::Action);

    /// Its chance.
    fn chance(&mut self) -> &mut Chance;

    /// Connections that the victim has not closed by now.
    fn connections(&mut self) -> usize;

    /// What was done, in lines.
    fn report(&self) -> Vec<String>;

    /// Does one of `actions` after the other, as chance has it, `count` times or until `until`.
    fn run(&mut self, actions: &[Self::Action], count: u64, until: Instant) {
        for _ in 0..count {
            if Instant::now() >= until {
                return;
            }
            let action = self.chance().one_of(actions);
            self.act(action);
        }
    }
}

/// What is kept, up to a bound: one goes by chance for each that comes beyond it.
#[derive(Debug)]
pub(crate) struct Kept<T>(pub(crate) Vec<T>);

impl<T> Kept<T> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// How many are left of it, without those that are over.
    pub(crate) fn left(&mut self, is_over: impl Fn(&T) -> bool) -> usize {
        self.0.retain(|one| !is_over(one));
        self.0.len()
    }

    pub(crate) fn keep(&mut self, one: T, chance: &mut Chance) {
        if self.0.len() >= KEPT {
            self.0.swap_remove(chance.below(KEPT));
        }
        self.0.push(one);
    }

    /// One by chance, if there is any, which is not kept any more.
    pub(crate) fn take(&mut self, chance: &mut Chance) -> Option<T> {
        if self.0.is_empty() {
            return None;
        }
        let which = chance.below(self.0.len());
        Some(self.0.swap_remove(which))
    }
}

/// Changes, cuts or lengthens some of a message's bytes.
pub(crate) fn spoil(bytes: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..1 + chance.below(4) {
        let at = chance.below(bytes.len());
        bytes[at] = chance.number() as u8;
    }
    match chance.below(3) {
        0 => bytes.truncate(1 + chance.below(bytes.len())),
        1 => bytes.extend((0..chance.below(64)).map(|number| number as u8)),
        _ => {}
    }
}
