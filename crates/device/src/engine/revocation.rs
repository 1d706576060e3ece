//! Taking memory back: waiting for whoever is inside an operation on it, and what follows when somebody does not leave.
//!
//! A peer that was stopped inside a copy (`SIGSTOP`, a debugger) goes on with it when it is continued, whenever that
//! is. It is waited for only so long; then its link is closed, adopted pages are replaced under it, and neither their
//! place in the file nor device memory it may be writing to is used again before its process has ended. Nor is the place
//! of the key: the peer may stand between two words of the entry, and would take the rest from the next one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use nonic_memory::{Adoption, Inside, KeyPair};
use nonic_sys::FenceReach;
use nonic_transport::Link;

use super::{Engine, lock};

/// How long revocation waits for peers that are inside a copy but do not move, all of them together.
const PEER_PATIENCE: Duration = Duration::from_secs(2);

/// What is not used again as long as a stopped peer may still be looking at it or writing to it.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    held_back: Mutex<Vec<HeldBack>>,
    /// Such a peer may be gone.
    may_use_again: AtomicBool,
}

#[derive(Debug)]
enum HeldBack {
    /// Device memory that was freed.
    DeviceMemory { device: u32, offset: u64, length: u64 },
    /// The place of dead keys in the key table.
    Keys(KeyPair),
}

/// Who may still be inside an operation through the key of a memory window that is dead.
#[derive(Debug)]
pub(crate) enum Leaving {
    /// Nobody.
    Nobody,
    /// That is still to be found out.
    NotLooked,
    /// These were inside then; the link of those in other processes.
    These(Vec<(Option<Arc<Link>>, Inside)>),
}

impl Leaving {
    pub(crate) fn is_nobody(&self) -> bool {
        matches!(self, Self::Nobody)
    }
}

impl Engine {
    /// Whether nobody is inside any more, looking at it once. A peer that is stopped there leaves when it goes on or ends.
    pub(crate) fn have_left(&self, leaving: &mut Leaving) -> bool {
        if matches!(leaving, Leaving::NotLooked) {
            // A process that is being met may have seen the keys, and its link is not among the others yet.
            let meeting = match self.links.meeting.try_lock() {
                Err(TryLockError::WouldBlock) => return false,
                other => other,
            };
            let [links, parted] = self.links_and_parted();
            drop(meeting);
            let own = self.party.memory.slots().inside().map(|inside| (None, inside));
            let peers = links.iter().chain(parted.iter());
            let peers = peers.filter_map(|link| Some((Some(Arc::clone(link)), link.peer_inside()?)));
            *leaving = Leaving::These(own.into_iter().chain(peers).collect());
        }
        if let Leaving::These(inside) = leaving {
            inside.retain(|(link, inside)| {
                !inside.have_left() && link.as_ref().is_none_or(|link| link.peer_may_operate())
            });
            if inside.is_empty() {
                *leaving = Leaving::Nobody;
            }
        }
        leaving.is_nobody()
    }

    /// Waits until no operation that began before is under way on this process's memory, by its own threads or peers.
    /// False if a peer was given up that may still be inside one.
    pub(crate) fn wait_for_operations(&self) -> bool {
        drop(lock(&self.links.meeting));
        let [links, parted] = self.links_and_parted();
        // Only the link to itself: no other process can have anything under way.
        let alone = links.len() == 1 && parted.is_empty();
        nonic_sys::heavy_fence(if alone { FenceReach::Process } else { FenceReach::Machine });
        self.party.memory.slots().wait_idle(Duration::MAX / 4);
        let deadline = Instant::now() + PEER_PATIENCE;
        let mut all_left = true;
        for link in links.iter().chain(parted.iter()) {
            if !link.wait_for_peer(deadline.saturating_duration_since(Instant::now())) {
                all_left = false;
                if !link.is_dead() {
                    self.end_link(link);
                }
            }
        }
        all_left
    }

    /// Ends the adoption of a region's pages. `all_left` is what [`Engine::wait_for_operations`] said.
    pub(crate) fn give_back(&self, adoption: Adoption, all_left: bool) {
        if all_left {
            self.party.adopter.give_back(adoption, false);
        } else {
            let held_back = lock(&self.withheld.held_back);
            self.party.adopter.give_back(adoption, true);
            drop(held_back);
            self.wake_to_use_again();
        }
    }

    /// Lets the place of dead keys be used again, now or when no stopped peer is left.
    pub(crate) fn recycle_keys(&self, keys: KeyPair, all_left: bool) {
        if all_left {
            self.party.segment.keys().recycle(keys);
        } else {
            self.hold_back(HeldBack::Keys(keys));
        }
    }

    fn hold_back(&self, what: HeldBack) {
        lock(&self.withheld.held_back).push(what);
        // That peer may be gone by now.
        self.wake_to_use_again();
    }

    /// Gives device memory back, now or when no stopped peer is left. `all_left` says whether every peer had left every
    /// region on it.
    pub(crate) fn release_device_memory(&self, device: u32, offset: u64, length: u64, all_left: bool) {
        if all_left {
            self.arena(device).release(offset, length);
        } else {
            self.hold_back(HeldBack::DeviceMemory { device, offset, length });
        }
    }

    fn has_stopped_peers(&self) -> bool {
        let [links, parted] = self.links_and_parted();
        links.iter().chain(parted.iter()).any(|link| link.was_given_up() && link.peer_may_operate())
    }

    /// The links there are, and the parted ones.
    fn links_and_parted(&self) -> [Arc<Vec<Arc<Link>>>; 2] {
        let links = self.links.known.read().unwrap_or_else(PoisonError::into_inner);
        [Arc::clone(&links.all), Arc::clone(&links.parted)]
    }

    /// Whether a link was buried while its peer could still be inside an operation.
    pub(crate) fn is_parted(&self, link: &Arc<Link>) -> bool {
        self.links_and_parted()[1].iter().any(|other| Arc::ptr_eq(other, link))
    }

    /// Something happened to the peer of a buried link. If it has closed its end or has ended, nothing of it can be
    /// under way any more.
    pub(crate) fn watch_parted(&self, link: &Arc<Link>) {
        link.discard_messages();
        if link.peer_may_operate() {
            return;
        }
        {
            let mut links = self.links.known.write().unwrap_or_else(PoisonError::into_inner);
            let keep = |other: &Arc<Link>| !Arc::ptr_eq(other, link);
            links.parted = Arc::new(links.parted.iter().filter(|other| keep(other)).cloned().collect());
            links.by_token.retain(|_, other| keep(other));
        }
        self.stop_watching(link);
        if link.was_given_up() {
            self.wake_to_use_again();
        }
        link.let_go();
    }

    pub(crate) fn stop_watching(&self, link: &Link) {
        for watched in [link.socket(), link.process()].into_iter().flatten() {
            self.agent.epoll.remove(watched);
        }
    }

    /// Has the agent look whether what was held back can be used again.
    pub(super) fn wake_to_use_again(&self) {
        self.withheld.may_use_again.store(true, Ordering::SeqCst);
        self.party.doorbell.signal();
    }

    /// Lets what was held back be used again, if no stopped peer is left. Whoever gives something up later wakes the
    /// agent once more.
    pub(crate) fn use_again(&self) {
        if !self.withheld.may_use_again.swap(false, Ordering::SeqCst) {
            return;
        }
        let mut held_back = lock(&self.withheld.held_back);
        if self.has_stopped_peers() {
            return;
        }
        self.party.adopter.peers_are_gone();
        for held in held_back.drain(..) {
            match held {
                HeldBack::DeviceMemory { device, offset, length } => {
                    self.arena(device).release(offset, length)
                }
                HeldBack::Keys(keys) => self.party.segment.keys().recycle(keys),
            }
        }
    }
}
