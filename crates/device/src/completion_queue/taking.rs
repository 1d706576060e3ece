//! Taking entries out of a queue: what the program gets, and what its send queues get back.

use std::slice;

use nonic_protocol::Ring;

use super::{CompletionQueue, Entry, SendCredit};

impl CompletionQueue {
    /// Shows the oldest entries, `most` at most, and takes them away. Returns how many. A program that reads singly pays for no more
    /// than one.
    #[inline(always)]
    pub(super) fn take_oldest(
        &self,
        entries: &mut Ring<Entry>,
        most: usize,
        mut out: impl FnMut(&[Entry]),
    ) -> usize {
        if most == 1 {
            let Some(entry) = entries.first() else { return 0 };
            self.give_credit(entry.credit);
            out(slice::from_ref(entry));
            entries.pass_first();
            return 1;
        }
        // A later credit of an account stands for all before it: one store for those of a queue pair that follow each other.
        let mut credit = SendCredit::NONE;
        let count = entries.pass(most, |some| {
            for entry in some {
                if entry.credit.account != credit.account {
                    self.give_credit(credit);
                }
                credit = entry.credit;
            }
            out(some);
        });
        self.give_credit(credit);
        count
    }

    #[inline(always)]
    pub(super) fn give_credit(&self, credit: SendCredit) {
        if credit != SendCredit::NONE {
            self.engine.return_credit(credit);
        }
    }
}
