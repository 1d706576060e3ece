//! Who sleeps, and who wakes whom: the bells of a channel. A peer that has shown none, or not yet, is told to look at its ring
//! in some other way, which whoever wakes it names: `say_look`.

use nonic_sys::light_fences_are_free;

use super::Channel;
use crate::ring::{Sleeper, Wanted};

impl Channel {
    /// Wakes the peer if it sleeps.
    #[inline(always)]
    pub(crate) fn ring_bell(&self, say_look: impl Fn()) {
        match self.bell.wanted() {
            None => {}
            Some(Wanted::Wake(sleeper)) => self.wake(sleeper, &say_look),
            Some(Wanted::Call) => self.call(&say_look),
        }
    }

    /// Calls the peer, which does not look at this ring otherwise.
    #[cold]
    fn call(&self, say_look: &dyn Fn()) {
        match self.peer_bells.get().and_then(|bells| bells.calls()) {
            Some(calls) => {
                if let Some(sleeper) = calls.call() {
                    self.wake(sleeper, say_look);
                }
            }
            // Whoever hears it knows from whom it comes.
            None => say_look(),
        }
    }

    /// Wakes the peer's agent.
    pub(crate) fn ring_bell_now(&self, say_look: impl Fn()) {
        self.wake(Sleeper::Agent, &say_look);
    }

    /// Wakes one of the peer's threads, which is this process's over a loopback. Not inlined: whoever rings for nobody, as nearly
    /// always, has little to pass over.
    #[inline(never)]
    fn wake(&self, sleeper: Sleeper, say_look: &dyn Fn()) {
        if self.end.is_loopback() {
            return self.party.wake(sleeper);
        }
        match self.peer_bells.get() {
            Some(bells) => bells.wake(sleeper),
            None => say_look(),
        }
    }

    /// Says that this side has looked at the ring by itself for a while, so that the peer sends with less ado. To be said by
    /// the thread that looks, and only if heavy fences of this process reach the peer.
    pub(crate) fn set_polled(&self) {
        if light_fences_are_free()
            && let Some(mut consumer) = self.try_receive()
        {
            consumer.set_polled();
        }
    }

    /// Says that this side looks at the ring by itself.
    pub(crate) fn set_awake(&self) {
        if let Some(consumer) = self.try_receive() {
            consumer.set_awake();
        }
    }

    /// Says that this side sleeps and whom to wake; returns whether a message waits all the same.
    pub(crate) fn set_sleeping(&self, sleeper: Sleeper, say_look: impl Fn()) -> bool {
        match self.try_receive() {
            Some(mut consumer) => {
                consumer.set_sleeping(sleeper);
                // Behind the fence: a producer that waits for room is seen now, or sees this side's place.
                if consumer.report() {
                    self.ring_bell_now(say_look);
                }
                consumer.has_message()
            }
            // Whoever reads right now will not see the flag: do not sleep.
            None => true,
        }
    }
}
