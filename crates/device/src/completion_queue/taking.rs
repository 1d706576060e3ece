//! Taking entries out of a queue: what the program gets, and what its send queues get back.

use nonic_protocol::Ring;

use super::{CompletionQueue, Entry, SendCredit};

impl CompletionQueue {
    /// Shows the oldest entries, `most` at most, and takes them away. Returns how many.
    #[inline(always)]
    pub(super) fn take_oldest(
        &self,
        entries: &mut Ring<Entry>,
        most: usize,
        mut out: impl FnMut(&[Entry]),
    ) -> usize {
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

    /// The same of one: a program that reads singly pays for no more.
    #[inline(always)]
    pub(super) fn take_one(&self, entries: &mut Ring<Entry>, out: impl FnOnce(&Entry)) -> usize {
        let Some(entry) = entries.first() else { return 0 };
        self.give_credit(entry.credit);
        out(entry);
        entries.pass_first();
        1
    }

    #[inline(always)]
    fn give_credit(&self, credit: SendCredit) {
        if credit != SendCredit::NONE {
            self.engine.return_credit(credit);
        }
    }
}
