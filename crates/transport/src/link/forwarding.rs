//! What the parts of a link do for those who hold the link.

use nonic_memory::SharedSlice;
use nonic_protocol::{BaseHeader, Message, QpNumber};
use nonic_sys::BiasedGuard;

use super::Link;
use crate::calls::CallNumber;
use crate::channel::{BeginsRest, Stalled};
use crate::codec::ShortSend;
use crate::control::ControlMessage;
use crate::ring::{Consumer, RingFull, Sleeper};

/// The channel.
impl Link {
    /// Puts a message into the ring; [`Link::ring_bell`] afterwards, once for several.
    #[inline]
    pub fn push(&self, message: &Message, payload: &[SharedSlice<'_>]) -> Result<(), RingFull> {
        self.channel.push(message, payload)
    }

    /// Puts a short send into the ring, if that is done in a few steps. False: nothing was done, [`Link::push`] does it.
    #[inline]
    pub fn push_short(&self, send: ShortSend, payload: SharedSlice<'_>) -> bool {
        self.channel.push_short(send, payload)
    }

    /// Whether a message of the largest size would fit now.
    pub fn has_room(&self) -> bool {
        self.channel.has_room()
    }

    /// Whether the peer has read every message that was pushed.
    pub fn everything_was_read(&self) -> bool {
        self.channel.everything_was_read()
    }

    /// The reading end, if no other thread has it.
    #[inline]
    pub fn try_receive(&self) -> Option<BiasedGuard<'_, Consumer>> {
        self.channel.try_receive()
    }

    /// Wakes the peer if it sleeps.
    #[inline]
    pub fn ring_bell(&self) {
        self.channel.ring_bell(|| self.say_look());
    }

    /// Wakes the peer's agent.
    pub fn ring_bell_now(&self) {
        self.channel.ring_bell_now(|| self.say_look());
    }

    /// A word on the socket wakes the agent of a peer that has shown no bells.
    #[cold]
    fn say_look(&self) {
        let _ = self.tell(&ControlMessage::Look, &[]);
    }

    /// Says that this side has looked at the ring by itself for a while, so that the peer sends with less ado. To be said by
    /// the thread that looks.
    pub fn set_polled(&self) {
        let fences_reach = match self.view() {
            Some(view) => view.segment.light_fences(),
            None => self.is_loopback(),
        };
        if fences_reach {
            self.channel.set_polled();
        }
    }

    /// Says that this side looks at the ring by itself.
    pub fn set_awake(&self) {
        self.channel.set_awake();
    }

    /// Says that this side sleeps and whom to wake; returns whether a message waits all the same.
    pub fn set_sleeping(&self, sleeper: Sleeper) -> bool {
        self.channel.set_sleeping(sleeper, || self.say_look())
    }

    /// The number by which the link is called for.
    pub fn call_number(&self) -> Option<CallNumber> {
        self.channel.call_number()
    }

    /// Whether its ring is not looked at before it is called for.
    pub fn rests(&self) -> bool {
        self.channel.rests()
    }

    /// Whether nothing has come since this was last asked, and nothing waits.
    pub fn is_quiet(&self) -> bool {
        self.channel.is_quiet()
    }

    /// Has the peer call for the link from now on. `None`: it cannot rest, or somebody reads its ring.
    pub fn begin_rest(&self) -> Option<BeginsRest> {
        self.channel.begin_rest(|| self.say_look())
    }

    /// The look after the fence.
    pub fn is_still_quiet(&self) -> bool {
        self.channel.is_still_quiet()
    }

    /// The ring is looked at again.
    pub fn end_rest(&self) {
        self.channel.end_rest();
    }

    /// Remembers a queue pair that waits for room in the ring.
    pub fn add_stalled(&self, number: QpNumber) {
        self.channel.add_stalled(number);
    }

    /// Remembers a request that nobody takes, since there is no room to say so. Nothing is kept for a stranger.
    pub fn decline_later(&self, base: BaseHeader) {
        if !self.is_stranger() {
            self.channel.decline_later(base);
        }
    }

    /// What waits for room, if there is room now.
    #[inline]
    pub fn take_stalled(&self) -> Stalled {
        self.channel.take_stalled()
    }

    /// Whether anything waits for room.
    #[inline]
    pub fn has_stalled(&self) -> bool {
        self.channel.has_stalled()
    }
}
