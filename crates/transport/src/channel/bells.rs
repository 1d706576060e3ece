//! What a peer shows to be woken by.

use std::io;

use nonic_message::Descriptors;
use nonic_sys::EventFd;

use crate::calls::{CallNumber, PeerCalls};
use crate::ring::Sleeper;

/// The bells of a trusted peer.
#[derive(Debug)]
pub(crate) struct PeerBells {
    agent: EventFd,
    waiter: EventFd,
    /// By which it is called for a ring that rests.
    calls: Option<PeerCalls>,
}

impl PeerBells {
    /// From what the peer shows, and the number under which it wants to be called, if it does.
    pub(crate) fn from_peer(descriptors: &mut Descriptors, call: Option<CallNumber>) -> io::Result<Self> {
        let agent = EventFd::from_peer(descriptors.take()?);
        let waiter = EventFd::from_peer(descriptors.take()?);
        let calls = call.map(|number| PeerCalls::from_peer(descriptors.take()?, number)).transpose()?;
        Ok(Self { agent, waiter, calls })
    }

    /// Wakes one of the peer's threads.
    pub(super) fn wake(&self, sleeper: Sleeper) {
        match sleeper {
            Sleeper::Agent => self.agent.signal(),
            Sleeper::Waiter => self.waiter.signal(),
        }
    }

    pub(super) fn calls(&self) -> Option<&PeerCalls> {
        self.calls.as_ref()
    }

    /// Lets go of the peer's memory: whoever calls from now on calls nobody.
    pub(super) fn let_go(&self) {
        if let Some(calls) = &self.calls {
            calls.let_go();
        }
    }
}
