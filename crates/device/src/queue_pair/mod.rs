//! Queue pairs: creation, states, posting and the end. The rules are the protocol's, which finds `surroundings` around it; what its requester
//! and responder do to memory stands in the folders of these names.

mod core;
mod creation;
mod datagram_run;
mod delivery;
mod extended;
#[allow(unsafe_code)] // `post_send` is an unsafe function: what it is given are the program's pointers.
mod posting;
mod replies;
mod states;
mod way;

pub(crate) use self::core::{Carrier, Core, DatagramWay, Wired};
pub(crate) use datagram_run::{DatagramRun, InRun};
pub(crate) use delivery::Arrival;
pub use extended::OpenedQueuePair;
use extended::Target;
pub(crate) use extended::{Asked, ReceivesFrom};
pub use posting::Posting;
pub(crate) use replies::Replies;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use nonic_protocol::{Capabilities, Connection, Psn, QpAttributes, QpNumber, QpState, QpType};
use nonic_sys::{BiasedGuard, BiasedMutex};
use nonic_transport::{Link, SlotPlace};

use crate::async_event::{AsyncElement, AsyncEventKind};
use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::engine::{Engine, UsedLink};
use crate::error::Busy;
use crate::events::EventAccount;
use crate::happening::Witness;
use crate::peer_address::PeerAddress;
use crate::shared_receive_queue::SharedReceiveQueue;
use crate::zone::Zone;

/// What a queue pair is made from.
#[derive(Clone, Debug)]
pub struct QueuePairRequest {
    /// Service.
    pub transport: QpType,
    /// Where sends complete.
    pub send_queue: Arc<CompletionQueue>,
    /// Where receives complete.
    pub receive_queue: Arc<CompletionQueue>,
    /// Where receives come from, if not from its own queue.
    pub shared_receive_queue: Option<Arc<SharedReceiveQueue>>,
    /// Sizes.
    pub capabilities: Capabilities,
    /// Whether every send makes a completion.
    pub signal_all: bool,
    /// The face's mark.
    pub cookie: usize,
    /// Is told when it fails.
    pub observer: Option<Weak<dyn QueuePairObserver>>,
}

/// Is told of what happens to a queue pair by itself. It may be dropped where it is called, so it owns nothing whose end calls
/// the engine: what it tells about stands behind a `Weak` that only others upgrade.
pub trait QueuePairObserver: Send + Sync {
    /// It went to error by itself: a request of its own or of the peer's failed, the peer's process ended without leave, or a
    /// completion queue overran. Once each time, after every outstanding request was flushed; not for what the program asked for
    /// ([`QueuePair::modify`]). Called under locks of the engine, the queue pair's among them: it must not block, nor call
    /// anything of the engine but [`crate::WaitBell::ring`].
    fn failed(&self);

    /// A receive that it took from a shared queue is about to be in its completion queue. Called as `failed` is.
    fn receive_completed(&self) {}

    /// No send request is outstanding any more, for which [`QueuePair::idle_or_tell`] was called. Called as `failed` is, and
    /// before it if it was a failure that ended the last one.
    fn requests_ended(&self) {}
}

/// A queue pair (`ibv_create_qp(3)`).
#[derive(Debug)]
pub struct QueuePair {
    this: Weak<Self>,
    pub(crate) zone: Arc<Zone>,
    /// That of its context, for those in a hurry.
    engine: Arc<Engine>,
    pub(crate) send_completions: Arc<CompletionQueue>,
    pub(crate) receive_completions: Arc<CompletionQueue>,
    pub(crate) receives_from: ReceivesFrom,
    pub(crate) number: QpNumber,
    account: u32,
    pub(crate) transport: QpType,
    /// By whose rules it sends and answers ([`QpType::service`]).
    pub(crate) service: QpType,
    pub(crate) capabilities: Capabilities,
    signal_all: bool,
    /// Whether requests and messages may take the express ways: it is reliable, and no setting forbids them.
    pub(crate) express: bool,
    cookie: usize,
    observer: Option<Weak<dyn QueuePairObserver>>,
    inner: BiasedMutex<Core>,
    /// Where the peer was when the port closed.
    closed_way: Mutex<Option<Path>>,
    /// Who was declined last while it took nothing yet, and over which link.
    turned_away: Mutex<Option<(Weak<Link>, QpNumber)>>,
    async_events: EventAccount,
    destroyed: AtomicBool,
    /// What it sends to a group it does not receive itself.
    pub(crate) skips_own_multicast: AtomicBool,
    pub(crate) witness: Witness,
    /// Of datagrams to other hosts.
    pub(crate) datagram_way: Mutex<Option<DatagramWay>>,
    /// Datagrams to other hosts that go together.
    pub(crate) datagrams: Mutex<DatagramRun>,
}

/// Where the peer is.
#[derive(Debug)]
pub(crate) struct Path {
    /// The link to its process.
    pub(crate) link: UsedLink,
    /// What led there.
    pub(crate) address: PeerAddress,
    /// Where it publishes what it takes, once that is known.
    pub(crate) slot: Option<SlotPlace>,
    /// The peer itself, if it is of this process and reached otherwise than through rings.
    pub(crate) neighbour: Option<Weak<QueuePair>>,
}

/// What changes while a queue pair lives.
pub(crate) type Inner = Connection<Path, Instant>;

impl QueuePair {
    /// The face's mark.
    pub fn cookie(&self) -> usize {
        self.cookie
    }

    /// Its number, the same host-wide until some time after it is destroyed.
    pub fn number(&self) -> QpNumber {
        self.number
    }

    /// Its service.
    pub fn transport(&self) -> QpType {
        self.transport
    }

    /// Its sizes.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Whether every send makes a completion.
    pub fn signals_all(&self) -> bool {
        self.signal_all
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.lock().state()
    }

    /// Everything that was set.
    pub fn attributes(&self) -> QpAttributes {
        self.lock().shown_attributes()
    }

    /// Whether a message of the peer has been taken since the queue pair became ready to receive.
    pub fn has_heard_peer(&self) -> bool {
        let inner = self.lock();
        inner.hears_on_wire().unwrap_or(inner.responder.expected() != Psn(inner.attributes.receive_psn))
    }

    /// Whether no send request, and no receive of its own queue, is outstanding. What has completed is not, polled or not.
    pub fn idle(&self) -> (bool, bool) {
        let inner = self.lock();
        let receives =
            inner.receives.length() == 0 && !inner.responder.is_receiving() && !inner.receives_on_wire();
        (inner.send.is_empty(), receives)
    }

    /// Whether no send request is outstanding; if one is, the observer is told when the last has ended, once.
    pub fn idle_or_tell(&self) -> bool {
        let mut inner = self.lock();
        let idle = inner.send.is_empty();
        inner.send.tells_end = !idle;
        idle
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        self.zone.context()
    }

    #[inline]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    #[inline]
    pub(crate) fn lock(&self) -> BiasedGuard<'_, Core> {
        self.inner.lock()
    }

    /// Unless somebody else has it.
    pub(crate) fn try_lock(&self) -> Option<BiasedGuard<'_, Core>> {
        self.inner.try_lock()
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    pub(crate) fn async_account(&self) -> &EventAccount {
        &self.async_events
    }

    /// Acknowledges an asynchronous event.
    pub fn acknowledge_async_event(&self) {
        self.async_events.acknowledge(1);
    }

    pub(crate) fn raise(&self, kind: AsyncEventKind) {
        self.witness.sees_event(kind);
        if self.tell_openers(kind)
            && let Some(this) = self.this.upgrade()
        {
            self.context().raise(kind, AsyncElement::QueuePair(this));
        }
    }

    // The end.

    /// Gives the queue pair back: its requests and completions vanish, unless others have it open still. Blocks until every
    /// asynchronous event got from it was acknowledged.
    pub fn destroy(&self) -> Result<(), Busy> {
        match self.creator_leaves() {
            None => return Ok(()),
            Some(is_last) if is_last && !self.destroy_now() => return Ok(()),
            Some(_) => self.async_events.wait_for_all(),
        }
        Ok(())
    }

    /// The same without waiting for acknowledgements; false if it was destroyed before.
    pub(crate) fn destroy_now(&self) -> bool {
        if self.destroyed.swap(true, Ordering::AcqRel) {
            return false;
        }
        if !self.context().is_current() {
            return true;
        }
        self.begin_anew(&mut self.lock());
        self.engine().party().segment.retire(self.witness.counters());
        self.engine().forget_groups(self.number);
        self.engine().remove_pair(self.number);
        for window in self.engine().windows.of_pair(self.number) {
            window.lose_pair(self.number);
        }
        self.engine().wait_for_operations();
        self.forget_completions();
        self.forget_own_events();
        self.zone.users.release();
        self.send_completions.users.release();
        self.receive_completions.users.release();
        match &self.receives_from {
            ReceivesFrom::Own => {}
            ReceivesFrom::Shared(queue) => queue.users.release(),
            ReceivesFrom::Domain(target) => {
                target.domain.members().remove_pair(self.number);
                self.engine().domains.end_if_over(target.domain.members());
            }
        }
        true
    }

    /// Takes back the events that its creator has not got.
    pub(crate) fn forget_own_events(&self) {
        self.context().forget_events(|element| {
            matches!(element, AsyncElement::QueuePair(pair) if std::ptr::eq(Arc::as_ptr(pair), self))
        });
    }
}
