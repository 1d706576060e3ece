//! How peers call a process for rings that it does not look at: links over which nothing has come for a while *rest*. Their
//! rings ask to be called for, and the process looks at one word in place of all of them.
//!
//! The word stands in memory of the process's own, which it shows to peers that it trusts. A peer that has put a message into a
//! resting ring sets the bit of its link, then the bit of the group in which that is; the process takes them in the opposite
//! order, so that a bit of a link is never left behind. Whoever calls rings for who sleeps, as often as somebody sleeps: a peer
//! that is stopped between the two steps keeps nobody else's call back.

use std::io;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, PoisonError};

use nonic_sys::{AsFd, AtomicU64, BorrowedFd, OwnedFd, Protection, SharedMapping, SharedMemory};

use crate::layout::{CALLS_GROUPS, CALLS_LENGTH, CALLS_LINKS, CALLS_SLEEPER};
use crate::ring::Sleeper;

/// The number under which a peer calls for its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallNumber(pub u32);

impl CallNumber {
    /// Numbers there are.
    pub(crate) const COUNT: u32 = 64 * 64;

    fn group(self) -> usize {
        self.0 as usize / 64
    }
}

/// The calls of this process.
#[derive(Debug)]
pub struct Calls {
    memory: SharedMemory,
    words: CallWords,
    /// A bit for each number that a link has.
    taken: Mutex<Box<[u64; 64]>>,
}

impl Calls {
    pub(crate) fn create() -> io::Result<Self> {
        let memory = SharedMemory::create("nonic-calls", CALLS_LENGTH)?;
        let words = CallWords(memory.map(Protection::ReadWrite)?);
        Ok(Self { memory, words, taken: Mutex::new(Box::new([0; 64])) })
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// A number for a link; none if there are too many.
    pub(crate) fn assign(&self) -> Option<CallNumber> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (group, bits) = taken.iter_mut().enumerate().find(|(_, bits)| **bits != u64::MAX)?;
        let bit = bits.trailing_ones();
        *bits |= 1 << bit;
        Some(CallNumber(group as u32 * 64 + bit))
    }

    /// The link of a number is gone. A call of its peer may still come, for whoever has the number next, and finds nothing.
    pub(crate) fn release(&self, number: CallNumber) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)[number.group()] &= !(1 << (number.0 % 64));
    }

    /// This process itself calls for a link.
    pub(crate) fn call(&self, number: CallNumber) -> Option<Sleeper> {
        self.words.call(number)
    }

    /// Whether anybody calls.
    #[inline]
    pub fn any(&self) -> bool {
        self.words.groups().load(Ordering::Acquire) != 0
    }

    /// Takes the calls, each once.
    pub fn take(&self, mut called: impl FnMut(CallNumber)) {
        let each = |mut bits: u64, found: &mut dyn FnMut(u32)| {
            while bits != 0 {
                found(bits.trailing_zeros());
                bits &= bits - 1;
            }
        };
        each(self.words.groups().swap(0, Ordering::SeqCst), &mut |group| {
            let links = self.words.links(group as usize).swap(0, Ordering::SeqCst);
            each(links, &mut |bit| called(CallNumber(group * 64 + bit)));
        });
    }

    /// Says whom callers wake; returns whether somebody has called already.
    pub fn set_sleeping(&self, sleeper: Sleeper) -> bool {
        self.words.sleeper().store(sleeper.to_word(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.any()
    }

    /// Who slept has been woken: callers need not wake it again. Another who sleeps now is still to be woken.
    pub fn set_awake(&self, sleeper: Sleeper) {
        let word = self.words.sleeper();
        if word.load(Ordering::Relaxed) == sleeper.to_word() {
            let _ = word.compare_exchange(sleeper.to_word(), 0, Ordering::SeqCst, Ordering::Relaxed);
        }
    }
}

/// The calls of a peer, and the number under which it is called for a link.
#[derive(Debug)]
pub(crate) struct PeerCalls {
    words: CallWords,
    number: CallNumber,
}

impl PeerCalls {
    /// From what a trusted peer shows.
    pub(crate) fn from_peer(descriptor: OwnedFd, number: CallNumber) -> io::Result<Self> {
        if number.0 >= CallNumber::COUNT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a call number that is none"));
        }
        let memory = SharedMemory::from_peer(descriptor, CALLS_LENGTH)?;
        Ok(Self { words: CallWords(memory.map(Protection::ReadWrite)?), number })
    }

    /// Calls; returns who has to be woken.
    pub(crate) fn call(&self) -> Option<Sleeper> {
        self.words.call(self.number)
    }

    /// Lets go of the peer's memory: whoever calls from now on calls nobody.
    pub(crate) fn let_go(&self) {
        let _ = self.words.0.let_go(Protection::ReadWrite);
    }
}

/// The words, as both sides see them.
#[derive(Debug)]
struct CallWords(SharedMapping);

impl CallWords {
    fn sleeper(&self) -> &AtomicU64 {
        self.0.word(CALLS_SLEEPER)
    }

    /// A bit for each word of links that has one.
    #[inline]
    fn groups(&self) -> &AtomicU64 {
        self.0.word(CALLS_GROUPS)
    }

    fn links(&self, group: usize) -> &AtomicU64 {
        self.0.word(CALLS_LINKS + group * 8)
    }

    /// Each step is a full fence: who falls asleep after these has said so before, or sees the call.
    fn call(&self, number: CallNumber) -> Option<Sleeper> {
        self.links(number.group()).fetch_or(1 << (number.0 % 64), Ordering::SeqCst);
        self.groups().fetch_or(1 << number.group(), Ordering::SeqCst);
        Sleeper::from_word(self.sleeper().load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(calls: &Calls) -> Vec<u32> {
        let mut taken = Vec::new();
        calls.take(|number| taken.push(number.0));
        taken
    }

    #[test]
    fn each_call_is_taken_once() {
        let calls = Calls::create().unwrap();
        assert!(!calls.any());
        let descriptor = || calls.as_fd().try_clone_to_owned().unwrap();
        let peers = [0, 63, 64, CallNumber::COUNT - 1]
            .map(|number| PeerCalls::from_peer(descriptor(), CallNumber(number)).unwrap());
        for peer in peers.iter().chain(&peers) {
            assert_eq!(peer.call(), None);
        }
        assert!(calls.any());
        assert_eq!(taken(&calls), [0, 63, 64, CallNumber::COUNT - 1]);
        assert!(!calls.any() && taken(&calls).is_empty());
    }

    #[test]
    fn whoever_calls_wakes_the_sleeper_and_nobody_who_is_awake() {
        let calls = Calls::create().unwrap();
        assert!(!calls.set_sleeping(Sleeper::Waiter));
        assert_eq!(calls.call(CallNumber(7)), Some(Sleeper::Waiter));
        assert_eq!(calls.call(CallNumber(8)), Some(Sleeper::Waiter), "who called before may be stopped");
        assert!(calls.set_sleeping(Sleeper::Agent), "there are calls");
        calls.set_awake(Sleeper::Waiter);
        assert_eq!(calls.call(CallNumber(7)), Some(Sleeper::Agent));
        calls.set_awake(Sleeper::Agent);
        assert_eq!(calls.call(CallNumber(7)), None);
        assert_eq!(taken(&calls), [7, 8]);
    }

    #[test]
    fn numbers_are_assigned_until_there_are_none_and_again_when_given_back() {
        let calls = Calls::create().unwrap();
        for number in 0..CallNumber::COUNT {
            assert_eq!(calls.assign(), Some(CallNumber(number)));
        }
        assert_eq!(calls.assign(), None);
        calls.release(CallNumber(100));
        assert_eq!(calls.assign(), Some(CallNumber(100)));
    }

    #[test]
    fn a_number_that_is_none_is_refused() {
        let calls = Calls::create().unwrap();
        let descriptor = calls.as_fd().try_clone_to_owned().unwrap();
        assert!(PeerCalls::from_peer(descriptor, CallNumber(CallNumber::COUNT)).is_err());
    }
}
