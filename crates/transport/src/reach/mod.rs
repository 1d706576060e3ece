//! Reach: what this process does to a peer's memory by itself, without asking. Views of what the peer shows, direct operations
//! on it, pulls out of it, and the slots by which each side waits for the operations of the other. Only processes of one host
//! have it.

mod direct;
mod files;
mod kernel_copy;
mod pull;
mod target;
#[cfg(test)]
mod tests;
mod view;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nonic_memory::{Inside, OperationGuard, OperationSlots, OwnOperation};
use nonic_sys::{PeerMemory, SharedMapping};

pub use self::direct::{DirectAccess, DirectRequest, NamedMemory, NotNamed};
use self::files::PeerFiles;
pub use self::pull::{PullAccess, PullError, PullPiece};
pub use self::view::PeerView;
use crate::layout::{Direction, LinkEnd};
use crate::party::Party;
use crate::tier::Tier;

/// What operations on a peer's memory need of the session with the peer.
pub(crate) trait ControlPath {
    /// Whether the session has ended on this side: then no operation begins.
    fn is_dead(&self) -> bool;

    /// Asks the peer for a file of its list, which comes later or never.
    fn ask_file(&self, file: u32);
}

/// How far this process reaches into a peer's memory, and the peer into this one's.
#[derive(Debug)]
pub(crate) struct Reach {
    party: Arc<Party>,
    /// The peer is this process itself.
    is_loopback: bool,
    /// Held while this process operates on the peer's memory.
    own_operations: OperationSlots,
    peer_operations: OperationSlots,
    view: OnceLock<PeerView>,
    files: PeerFiles,
    /// The peer's memory, once it was shown that the kernel lets this process at it.
    peer_memory: OnceLock<PeerMemory>,
    peer_can_reach: AtomicBool,
    peer_can_map: AtomicBool,
}

impl Reach {
    /// Of the process that has one `end` of `memory`, in which the slots of both sides are. Nothing is reached before the peer
    /// shows something.
    pub(crate) fn new(party: Arc<Party>, memory: &Arc<SharedMapping>, end: LinkEnd) -> Self {
        let slots = |at: Direction| OperationSlots::new(Arc::clone(memory), at.slots);
        Self {
            party,
            is_loopback: end.is_loopback(),
            own_operations: slots(end.transmits_at()),
            peer_operations: slots(end.receives_at()),
            view: OnceLock::new(),
            files: PeerFiles::default(),
            peer_memory: OnceLock::new(),
            peer_can_reach: AtomicBool::new(false),
            peer_can_map: AtomicBool::new(false),
        }
    }

    /// Begins an operation of this process on the peer's memory; `None` if the session has ended, or so many threads are
    /// inside that the peer could not see this one. The look comes after the slots were taken, one that the peer waits for and
    /// one of this process: whoever closes the link waits for the latter, which no peer can write to.
    #[inline]
    fn enter(&self, control: &impl ControlPath, view: &PeerView) -> Option<Entered<'_>> {
        let own = self.party.memory.enter();
        // Of this process itself only its own slots are waited for.
        let shown = match self.is_loopback {
            true => None,
            false => Some(self.own_operations.enter(|| view.segment.light_fences())?),
        };
        (!control.is_dead()).then_some(Entered { own, _shown: shown })
    }

    /// The same for a pull, of which there is one at a time, since whoever reads rings carries it out: the peer sees it,
    /// however many threads are inside.
    #[inline(always)]
    fn enter_to_pull(&self, control: &impl ControlPath, view: &PeerView) -> Option<Entered<'_>> {
        let own = self.party.memory.enter();
        let shown = self.own_operations.enter_alone(|| view.segment.light_fences())?;
        (!control.is_dead()).then_some(Entered { own, _shown: Some(shown) })
    }

    /// Whether the kernel lets this process into the peer's memory.
    #[inline]
    pub(crate) fn can_reach(&self) -> bool {
        self.peer_memory.get().is_some()
    }

    /// Whether this process can map the adopted pages of the peer.
    pub(crate) fn can_map(&self) -> bool {
        self.view.get().is_some_and(|view| view.adopted.is_some())
    }

    /// Whether the kernel lets the peer into this process's memory.
    #[inline]
    pub(crate) fn peer_can_reach(&self) -> bool {
        self.peer_can_reach.load(Ordering::Acquire)
    }

    /// Whether the peer can map the adopted pages of this process.
    #[inline]
    pub(crate) fn peer_can_map(&self) -> bool {
        self.peer_can_map.load(Ordering::Acquire)
    }

    /// Takes what a trusted peer says of its ways to this process's memory. A limit of this side's own holds for what it
    /// offers, too.
    pub(crate) fn set_peer_ways(&self, kernel: bool, mapping: bool) {
        let tier = self.party.tier;
        self.peer_can_reach.store(kernel && tier >= Tier::Kernel, Ordering::Release);
        self.peer_can_map.store(mapping && tier == Tier::Mapped, Ordering::Release);
    }

    /// Waits until every operation the peer has under way on this process's memory is over; false if `limit` ran out or the
    /// peer is `gone`.
    pub(crate) fn wait_for_peer(&self, limit: Duration, gone: &dyn Fn() -> bool) -> bool {
        self.peer_operations.wait_idle(limit, gone)
    }

    /// The operations the peer has under way on this process's memory. The caller has killed the key and passed the fence
    /// that goes with it.
    pub(crate) fn peer_inside(&self) -> Option<Inside> {
        self.peer_operations.inside()
    }
}

/// An operation of this process on a peer's memory; over when dropped.
#[derive(Debug)]
struct Entered<'a> {
    own: OwnOperation<'a>,
    _shown: Option<OperationGuard<'a>>,
}
