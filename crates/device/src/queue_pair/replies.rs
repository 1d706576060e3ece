//! Whether acknowledgements wait for replies: a request of a program that answers each message takes the acknowledgement of that message
//! along, and a run of two packets costs both sides hardly more than one.
//!
//! Only for programs that poll, and have answered a few messages before they looked again: the last of a conversation is what
//! they may end with, and a peer that gets no acknowledgement because its sender was killed then waits for it in vain.

/// So many messages were answered, each that was not counting half of them.
const ENOUGH: u8 = 4;
/// More do not count: a program that answers no more is known after a few.
const MOST: u8 = 2 * ENOUGH;

/// What is known of a queue pair's program.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    answered: u8,
    /// An acknowledgement is all that is owed.
    owes_one: bool,
    /// The program has a message, and has not looked for another since.
    is_due: bool,
}

impl Replies {
    /// A packet was taken; whether an acknowledgement is all that is owed now.
    pub(crate) fn has_taken(&mut self, owes_one: bool) {
        self.owes_one = owes_one;
    }

    /// The program that polls gets what was taken. Whether a reply will take along what is owed.
    pub(crate) fn expect(&mut self) -> bool {
        self.is_due = self.owes_one;
        self.is_due && self.answered >= ENOUGH
    }

    /// The program sends something.
    pub(crate) fn has_sent(&mut self) {
        if std::mem::take(&mut self.is_due) {
            self.answered = (self.answered + 1).min(MOST);
        }
    }

    /// It looks for another message, or does something else.
    pub(crate) fn has_looked(&mut self) {
        if std::mem::take(&mut self.is_due) {
            self.answered /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_expected_of_who_has_replied_some_times_and_no_more_when_they_stay_away() {
        let mut replies = Replies::default();
        for _ in 0..ENOUGH {
            replies.has_taken(true);
            assert!(!replies.expect());
            replies.has_sent();
        }
        replies.has_taken(false);
        assert!(!replies.expect(), "more is owed than an acknowledgement");
        replies.has_looked();
        replies.has_taken(true);
        assert!(replies.expect());
        replies.has_sent();
        replies.has_sent();
        replies.has_looked();
        assert!(replies.expect(), "it has looked after its reply");
        replies.has_looked();
        assert!(!replies.expect());
        for _ in 0..100 {
            replies.has_sent();
            replies.expect();
        }
        replies.has_looked();
        assert!(replies.expect(), "one is not all");
        replies.has_looked();
        assert!(!replies.expect());
    }
}
