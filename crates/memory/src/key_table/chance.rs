//! Numbers that nobody outside the process can guess, without a system call for each.

use std::hash::{BuildHasher, RandomState};

use nonic_sys::random_u64;

/// A function of numbers, drawn by chance.
#[derive(Debug)]
pub(super) struct Chance {
    secret: RandomState,
    /// What a child would have in common with its parent, and with its parent's other children, is the secret.
    own: [u64; 2],
    drawn: u64,
}

impl Chance {
    pub(super) fn new() -> Self {
        Self { secret: RandomState::new(), own: [random_u64(), random_u64()], drawn: 0 }
    }

    /// The number that belongs to `what`, the same each time.
    pub(super) fn of(&self, what: u32) -> u64 {
        self.secret.hash_one((self.own, false, what))
    }

    /// Another number.
    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.secret.hash_one((self.own, true, self.drawn))
    }
}
