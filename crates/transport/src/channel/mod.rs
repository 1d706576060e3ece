//! A channel: the two rings between this process and a peer, the bells by which each side wakes the other, and what waits for
//! room. It is memory and nothing else: who the peer is, and whether it is still there, others know.

#[cfg(test)]
mod asleep;
mod bells;
mod resting;
mod stalled;
#[cfg(test)]
mod tests;
mod waking;

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use nonic_memory::SharedSlice;
use nonic_protocol::Message;
use nonic_sys::{BiasedGuard, BiasedMutex, Protection, SharedMapping};

pub(crate) use self::bells::PeerBells;
pub use self::resting::BeginsRest;
use self::resting::Rest;
use self::stalled::Stalled;
use crate::calls::CallNumber;
use crate::codec::ShortSend;
use crate::layout::LinkEnd;
use crate::party::Party;
use crate::ring::{Bell, Consumer, Producer, RingFull, RingMemory};

/// This process's end of two rings.
#[derive(Debug)]
pub(crate) struct Channel {
    party: Arc<Party>,
    /// Both rings.
    memory: Arc<SharedMapping>,
    end: LinkEnd,
    /// Under which number the peer calls for this channel.
    call_number: Option<CallNumber>,
    /// Of the peer, who reads what is transmitted.
    bell: Bell,
    transmit: BiasedMutex<Producer>,
    /// Nothing before the peer has shown them.
    peer_bells: OnceLock<PeerBells>,
    receive: BiasedMutex<Consumer>,
    stalled: Mutex<Stalled>,
    has_stalled: AtomicBool,
    rest: Rest,
}

impl Channel {
    /// One `end` of the rings in `memory`.
    pub(crate) fn new(party: Arc<Party>, memory: Arc<SharedMapping>, end: LinkEnd) -> Self {
        let ring = |direction| RingMemory::new(Arc::clone(&memory), direction);
        Self {
            call_number: if end.is_loopback() { None } else { party.calls.assign() },
            bell: Bell::new(ring(end.transmits_at())),
            transmit: BiasedMutex::new(Producer::new(ring(end.transmits_at()))),
            peer_bells: OnceLock::new(),
            receive: BiasedMutex::new(Consumer::new(ring(end.receives_at()))),
            stalled: Mutex::default(),
            has_stalled: AtomicBool::new(false),
            rest: Rest::default(),
            party,
            memory,
            end,
        }
    }

    /// Puts a message into the ring; [`Channel::ring_bell`] afterwards, once for several.
    #[inline]
    pub(crate) fn push(&self, message: &Message, payload: &[SharedSlice<'_>]) -> Result<(), RingFull> {
        self.transmit.lock().push(message, payload)
    }

    /// Puts a short send into the ring, if that is done in a few steps. False: nothing was done, [`Channel::push`] does it.
    #[inline]
    pub(crate) fn push_short(&self, send: ShortSend, payload: SharedSlice<'_>) -> bool {
        self.transmit.lock().push_short(send, payload)
    }

    /// Whether messages wait for the peer of which it has read none since this was last asked; false if another thread writes one.
    pub(crate) fn peer_stands_still(&self) -> bool {
        self.transmit.try_lock().is_some_and(|mut ring| ring.consumer_stands_still())
    }

    /// Whether the peer has read every message that was pushed.
    pub(crate) fn everything_was_read(&self) -> bool {
        self.transmit.lock().everything_was_read()
    }

    /// The reading end, if no other thread has it.
    #[inline]
    pub(crate) fn try_receive(&self) -> Option<BiasedGuard<'_, Consumer>> {
        self.receive.try_lock()
    }

    /// The number by which it is called for.
    pub(crate) fn call_number(&self) -> Option<CallNumber> {
        self.call_number
    }

    /// Takes the bells that a trusted peer shows, once.
    pub(crate) fn take_bells(&self, bells: PeerBells) -> io::Result<()> {
        self.peer_bells.set(bells).map_err(|_| io::Error::other("memory shown twice"))
    }

    /// Lets go of the page in which the peer is called.
    pub(crate) fn let_go_of_calls(&self) {
        if let Some(bells) = self.peer_bells.get() {
            bells.let_go();
        }
    }

    /// Lets go of the rings, of which what was said is known: they stay where they are and hold zeros.
    pub(crate) fn let_go(&self) {
        let _ = self.memory.let_go(Protection::ReadWrite);
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Some(number) = self.call_number {
            self.party.calls.release(number);
        }
    }
}
