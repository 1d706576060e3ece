//! What waits for room in a channel's ring.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use nonic_protocol::{BaseHeader, QpNumber};

use super::Channel;
use crate::ring::Sleeper;

/// Queue pairs of the peer's to which it is kept that nobody takes their requests, at most.
const DECLINED_MAX: usize = 64;

/// What waits for room.
#[derive(Debug, Default)]
pub(super) struct Stalled {
    /// Queue pairs that have more to send, who waits for longest first; each once.
    pairs: VecDeque<QpNumber>,
    known: HashSet<QpNumber>,
    /// Requests that nobody takes, of which the peer is to be told.
    declined: Vec<BaseHeader>,
}

impl Stalled {
    fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.declined.is_empty()
    }
}

impl Channel {
    /// Remembers a queue pair that waits for room in the ring.
    pub(crate) fn add_stalled(&self, number: QpNumber) {
        self.keep(|Stalled { pairs, known, .. }| {
            if known.insert(number) {
                pairs.push_back(number);
            }
        });
    }

    /// Remembers a request that nobody takes, since there is no room to say so. Of each queue pair that asked the first request
    /// of its latest attempt is kept, and of no more than 64.
    pub(crate) fn decline_later(&self, base: BaseHeader) {
        self.keep(|Stalled { declined, .. }| {
            match declined.iter().position(|known| known.source == base.source) {
                Some(place) if declined[place].attempt() == base.attempt() => {}
                Some(place) => declined[place] = base,
                None if declined.len() < DECLINED_MAX => declined.push(base),
                None => {}
            }
        });
    }

    fn keep(&self, change: impl FnOnce(&mut Stalled)) {
        let mut stalled = self.lock_stalled();
        change(&mut stalled);
        self.has_stalled.store(true, Ordering::Release);
        drop(stalled);
        self.disturb();
        // The peer may have made room, and rung, before anybody could know for whom: who heard it has gone to sleep again. What
        // the peer took of the producer's word since tells; if it is still there, the peer is still to ring.
        if !self.transmit.lock().awaits_ring() {
            self.party.wake(Sleeper::Agent);
        }
    }

    /// How many queue pairs wait for room.
    pub(crate) fn stalled_pairs(&self) -> usize {
        self.lock_stalled().pairs.len()
    }

    /// Whether those who wait may go on: there is room, and the peer has taken the producer's word since, which is still to ring
    /// otherwise. Who waits until everything was read finds room at once, and would be tried again and again, for ever if the peer
    /// is stopped.
    pub(crate) fn stalled_may_go_on(&self) -> bool {
        if !self.has_stalled() {
            return false;
        }
        let mut producer = self.transmit.lock();
        // In this order: a producer that finds no room at first says that it waits, and may find some all the same.
        !producer.awaits_ring() && producer.has_room_for_fragment()
    }

    /// The queue pair that waits for longest, as long as there is room. What is left waits for the peer to read what fills the ring, and
    /// for nothing else: whoever went on before may have sent nothing for which the peer would ever ring.
    pub(crate) fn take_stalled_pair(&self) -> Option<QpNumber> {
        if !self.transmit.lock().has_room_for_fragment() {
            return None;
        }
        self.take(|Stalled { pairs, known, .. }| {
            let number = pairs.pop_front()?;
            known.remove(&number);
            Some(number)
        })
    }

    /// The requests that nobody takes.
    pub(crate) fn take_declined(&self) -> Vec<BaseHeader> {
        self.take(|stalled| std::mem::take(&mut stalled.declined))
    }

    fn take<T>(&self, take: impl FnOnce(&mut Stalled) -> T) -> T {
        let mut stalled = self.lock_stalled();
        let taken = take(&mut stalled);
        self.has_stalled.store(!stalled.is_empty(), Ordering::Release);
        taken
    }

    fn lock_stalled(&self) -> MutexGuard<'_, Stalled> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything waits for room.
    #[inline]
    pub(crate) fn has_stalled(&self) -> bool {
        self.has_stalled.load(Ordering::Acquire)
    }
}
