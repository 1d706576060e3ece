//! How two processes find out whether they are of one user, before one hands the other a packet: each has to show that the kernel lets
//! it at the other. A user's number is not enough (`nonic-trust`): who is taken in can say of a packet that it came from any address, and
//! who is handed packets can read them.
//!
//! ```text
//! who hands on                          who takes
//!   Ask       its question        --->
//!             <---  Reply     answer, its own question
//!   Answer    to that             --->
//!   packets                       --->
//! ```

use std::io;

use nonic_message::{Protocol, kinds, parts};
use nonic_sys::{AsFd, PacketSocket};
use nonic_trust::{Answer, Peer, Question, TrustedUsers};

const PROTOCOL: Protocol = Protocol::new(*b"nonichnd", "handing packets on");

/// Which word it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ask,
    Reply,
    Answer,
}

/// One of them. What a kind does not need is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    kind: Kind,
    question: Question,
    answer: Answer,
}

kinds!(Kind { 1 => Ask, 2 => Reply, 3 => Answer });
parts!(Word { kind, question, answer });

impl Word {
    fn read(bytes: &[u8], expected: Kind) -> Option<Self> {
        PROTOCOL.parse(bytes).ok().filter(|word: &Self| word.kind == expected)
    }
}

/// What one side wants to know of the other.
#[derive(Debug)]
pub(crate) struct Doubt {
    peer: Peer,
    doubt: nonic_trust::Doubt,
}

impl Doubt {
    /// About who is at the other end; `None` if there is no use in asking, since the number of its user is another.
    pub(crate) fn about(socket: &PacketSocket) -> io::Result<Option<Self>> {
        let peer = Peer::of(socket.as_fd())?;
        Ok(peer.may_be_own().then(|| Self { doubt: nonic_trust::Doubt::about(&peer), peer }))
    }

    /// The first word of who hands on.
    pub(crate) fn ask(&self) -> Vec<u8> {
        self.say(Kind::Ask, Answer::NOTHING)
    }

    /// What who takes says to that; `None` if it is no such word.
    pub(crate) fn reply(&self, ask: &[u8]) -> Option<Vec<u8>> {
        let word = Word::read(ask, Kind::Ask)?;
        Some(self.say(Kind::Reply, Answer::to(&word.question, &self.peer)))
    }

    /// What who hands on says to that; `None` if it proves nothing.
    pub(crate) fn settle_by_reply(&self, reply: &[u8], trusted: &TrustedUsers) -> Option<Vec<u8>> {
        let word = Word::read(reply, Kind::Reply)?;
        let is_settled = self.doubt.is_settled_by(&word.answer, trusted);
        is_settled.then(|| self.say(Kind::Answer, Answer::to(&word.question, &self.peer)))
    }

    /// Whether the last word of who hands on proves that it may.
    pub(crate) fn is_settled_by(&self, answer: &[u8], trusted: &TrustedUsers) -> bool {
        Word::read(answer, Kind::Answer).is_some_and(|word| self.doubt.is_settled_by(&word.answer, trusted))
    }

    fn say(&self, kind: Kind, answer: Answer) -> Vec<u8> {
        PROTOCOL.emit(&Word { kind, question: self.doubt.question(), answer })
    }
}

#[cfg(test)]
mod tests {
    use nonic_sys::{effective_user, listen_abstract, random_u64};

    use super::*;

    /// The doubts of who hands on and of who takes.
    fn doubts() -> [Doubt; 2] {
        let name = format!("nonic-wire.proof.{}", random_u64());
        let listener = listen_abstract(&name).unwrap();
        let giver = PacketSocket::connect_abstract(&name).unwrap();
        let taker = listener.accept().unwrap();
        [&giver, &taker].map(|socket| Doubt::about(socket).unwrap().unwrap())
    }

    #[test]
    fn both_sides_prove_that_the_kernel_lets_them_at_each_other() {
        let ([giver, taker], nobody) = (doubts(), TrustedUsers::default());
        let reply = taker.reply(&giver.ask()).unwrap();
        let answer = giver.settle_by_reply(&reply, &nobody).unwrap();
        assert!(taker.is_settled_by(&answer, &nobody));
    }

    #[test]
    fn what_proves_nothing_settles_nothing_but_for_a_user_who_is_trusted_by_name() {
        let [giver, taker] = doubts();
        let nobody = TrustedUsers::default();
        let own = TrustedUsers::parse(&effective_user().to_string()).unwrap();
        let question = taker.doubt.question();
        for kind in [Kind::Reply, Kind::Answer] {
            let word = PROTOCOL.emit(&Word { kind, question, answer: Answer([0; 16]) });
            let is_reply = kind == Kind::Reply;
            assert_eq!(giver.settle_by_reply(&word, &nobody), None);
            assert!(!taker.is_settled_by(&word, &nobody));
            assert_eq!(giver.settle_by_reply(&word, &own).is_some(), is_reply);
            assert_eq!(taker.is_settled_by(&word, &own), !is_reply);
        }
        for nonsense in [&[][..], &[0; 24], &giver.ask()[1..], &giver.say(Kind::Answer, Answer([0; 16]))] {
            assert_eq!(taker.reply(nonsense), None);
        }
    }
}
