//! Who sleeps, and who wakes whom: the bells of a link.

use nonic_sys::light_fences_are_free;

use super::Link;
use crate::control::ControlMessage;
use crate::ring::{Sleeper, Wanted};

impl Link {
    /// Wakes the peer if it sleeps.
    #[inline]
    pub fn ring_bell(&self) {
        match self.bell.wanted() {
            None => {}
            Some(Wanted::Wake(sleeper)) => self.wake(sleeper),
            Some(Wanted::Call) => self.call(),
        }
    }

    /// Calls the peer, which does not look at this link's ring otherwise.
    #[cold]
    fn call(&self) {
        match self.peer_calls.get() {
            Some(calls) => {
                if let Some(sleeper) = calls.call() {
                    self.wake(sleeper);
                }
            }
            // It has not shown them, or not yet: a word on the socket wakes its agent, which knows from whom it comes.
            None => drop(self.tell(&ControlMessage::Look, &[])),
        }
    }

    /// Wakes the peer's agent.
    pub fn ring_bell_now(&self) {
        self.wake(Sleeper::Agent);
    }

    /// Wakes one of the peer's threads, which is this process's over a loopback.
    fn wake(&self, sleeper: Sleeper) {
        if self.is_loopback() {
            return self.party.wake(sleeper);
        }
        let bell = match sleeper {
            Sleeper::Agent => &self.peer_doorbell,
            Sleeper::Waiter => &self.peer_waiter_bell,
        };
        match bell.get() {
            Some(bell) => bell.signal(),
            None => drop(self.tell(&ControlMessage::Look, &[])),
        }
    }

    /// Says that this side has looked at the ring by itself for a while, so that the peer sends with less ado. To be said by
    /// the thread that looks.
    pub fn set_polled(&self) {
        let fences_reach = match self.view() {
            Some(view) => view.segment.light_fences(),
            None => self.is_loopback(),
        };
        if fences_reach
            && light_fences_are_free()
            && let Some(mut consumer) = self.try_receive()
        {
            consumer.set_polled();
        }
    }

    /// Says that this side looks at the ring by itself.
    pub fn set_awake(&self) {
        if let Some(consumer) = self.try_receive() {
            consumer.set_awake();
        }
    }

    /// Says that this side sleeps and whom to wake; returns whether a message waits all the same.
    pub fn set_sleeping(&self, sleeper: Sleeper) -> bool {
        match self.try_receive() {
            Some(mut consumer) => {
                consumer.set_sleeping(sleeper);
                // Behind the fence: a producer that waits for room is seen now, or sees this side's place.
                if consumer.report() {
                    self.ring_bell_now();
                }
                consumer.has_message()
            }
            // Whoever reads right now will not see the flag: do not sleep.
            None => true,
        }
    }
}
