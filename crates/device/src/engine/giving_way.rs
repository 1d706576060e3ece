//! What a program does now and then that polls in vain.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Engine;
use crate::completion_queue::CompletionQueue;

/// Polls without result after which a polling thread lets others of its CPU go first: a few microseconds, in which an answer comes from
/// another CPU.
pub(super) const POLLS_PER_YIELD: u32 = 64;

/// The same where others on the CPU have something to do: each of these polls keeps them from it.
const POLLS_PER_YIELD_AMONG_OTHERS: u32 = 8;

/// Polls in vain of a thread that sleeps between its polls, until it says that it polls: it pays for that when it sleeps.
const POLLS_PER_SPARING: u32 = 4096;

/// Who was away for less has others beside it that poll in vain as well, and is back soon only because they yield. Who was away for more
/// finds its caches cold: it does better to wait for what comes meanwhile than to come again.
const OTHERS_WORK: Range<Duration> = Duration::from_micros(5)..Duration::from_micros(100);

impl Engine {
    /// Polls in vain after which there is to be a rest: a power of two.
    #[inline(always)]
    pub(super) fn polls_per_rest(&self, polled: Option<&CompletionQueue>) -> u32 {
        match polled {
            Some(_) => self.driving.polls_per_yield.load(Ordering::Relaxed),
            None => POLLS_PER_SPARING,
        }
    }

    /// Tells peers that this process polls, and lets others have the CPU.
    #[cold]
    pub(super) fn rest(&self, polled: Option<&CompletionQueue>) {
        let yielder = &self.driving.yielder;
        let crowded = polled.is_some_and(CompletionQueue::is_polled_by_several) && yielder.is_crowded();
        let mut waits_for_peer = false;
        self.of_watched(|link| {
            link.set_polled();
            // For who has not proved that it may, nobody waits.
            waits_for_peer |= crowded && link.is_trusted() && !link.is_loopback() && link.peer_stands_still();
        });
        let polls = || self.driving.polls();
        let away = match polled {
            Some(queue) if waits_for_peer => return yielder.doze(polls, |time| queue.doze(time)),
            Some(_) => yielder.give_way(polls),
            None => return,
        };
        let next = polls_per_yield(away);
        if next != self.driving.polls_per_yield.load(Ordering::Relaxed) {
            self.driving.polls_per_yield.store(next, Ordering::Relaxed);
        }
    }
}

/// After how many polls in vain there is to be a yield, a power of two, where the last let others have the CPU for so long.
fn polls_per_yield(away: Option<Duration>) -> u32 {
    let others_work = away.is_some_and(|away| OTHERS_WORK.contains(&away));
    if others_work { POLLS_PER_YIELD_AMONG_OTHERS } else { POLLS_PER_YIELD }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lets_others_work_yields_soon_again_and_who_spins_among_idle_ones_does_not() {
        let after = |away| polls_per_yield(Some(Duration::from_micros(away)));
        // It has the CPU alone, or beside others that poll in vain.
        assert_eq!([after(0), after(4)], [POLLS_PER_YIELD; 2]);
        assert_eq!([after(5), after(99)], [POLLS_PER_YIELD_AMONG_OTHERS; 2]);
        // There are very many; it is kept from yielding.
        assert_eq!([after(100), after(1_000_000), polls_per_yield(None)], [POLLS_PER_YIELD; 3]);
        for polls in [POLLS_PER_YIELD, POLLS_PER_YIELD_AMONG_OTHERS, POLLS_PER_SPARING] {
            assert!(polls.is_power_of_two());
        }
    }
}
