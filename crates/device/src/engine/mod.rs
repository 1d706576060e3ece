//! An engine: it knows every queue pair of its contexts and every link, and drives them on whichever thread calls. Those of one
//! process share what is in their [`Commons`], and know nothing else of each other; which of them the faces share is said elsewhere.

mod catching_up;
mod changes;
mod commons;
mod driver;
mod expected;
mod giving_way;
mod groups;
mod links;
mod meeting;
mod owner;
mod pairs;
mod progress;
mod resting;
mod revocation;
mod standing;
mod stream;
mod tellings;
mod timers;
mod waiter;
mod windows;
mod wire_groups;
mod wire_looks;
mod wires;

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_meeting::Place;
use nonic_memory::{Arena, ZoneId};
use nonic_sys::{current_generation, fork_generation, own_user};
use nonic_transport::Party;

pub(crate) use self::changes::{Changer, Changes, OpenDevice};
pub use self::changes::{Observer, changes_made, observe_changes};
pub(crate) use self::commons::Commons;
use self::driver::Driving;
use self::groups::Groups;
use self::links::Links;
use self::owner::AgentThread;
pub(crate) use self::owner::EngineOwner;
use self::pairs::{Errand, Pairs};
pub(crate) use self::progress::{Aside, Progress};
pub(crate) use self::revocation::Leaving;
use self::revocation::Withheld;
pub(crate) use self::standing::UsedLink;
use self::tellings::Tellings;
use self::timers::Timers;
use self::waiter::Waiter;
pub(crate) use self::waiter::{Awaited, Drive, Next, Turn};
use self::windows::WindowTable;
use self::wire_groups::WireGroups;
use self::wire_looks::WireLooks;
use self::wires::Wires;
use crate::config::Config;
use crate::error::{OpenError, asked};
use crate::shared_receive_queue::Domains;

/// One engine.
#[derive(Debug)]
pub(crate) struct Engine {
    generation: u32,
    /// The same as long as its devices work, and [`NEVER`] from then on.
    works_in: AtomicU32,
    /// The user whose processes have a share of their own of everything.
    own_user: Option<u32>,
    party: Arc<Party>,
    zones: AtomicU32,
    pairs: Pairs,
    timers: Timers,
    pub(crate) windows: WindowTable,
    pub(crate) domains: Domains,
    pub(crate) groups: Groups,
    pub(crate) links: Links,
    pub(crate) changes: Changes,
    driving: Driving,
    waiter: Waiter,
    tellings: Tellings,
    withheld: Withheld,
    wires: Wires,
    wire_looks: WireLooks,
    wire_groups: WireGroups,
    /// Where other network namespaces are met.
    meeting: Option<Arc<Place>>,
    pub(crate) agent: AgentThread,
}

/// No generation of a process: they count from its start.
const NEVER: u32 = u32::MAX;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    fn create(config: &Config, commons: &Commons) -> Result<Self, OpenError> {
        if config.allow_tracers {
            nonic_sys::allow_any_tracer();
        }
        let arenas = (0..config.devices.max(1))
            .map(|_| Arena::create(config.device_memory).map(Arc::new))
            .collect::<io::Result<Vec<_>>>();
        let arenas = asked("shared memory for device memory (memfd_create)", arenas)?;
        let (adopted, trusted) = (commons.adopted_memory(), config.trusted_users.clone());
        let party = Party::create(config.tier, config.adoption, adopted, arenas, trusted);
        let party = asked("shared memory for the key table (memfd_create)", party)?;
        let party = Arc::new(party);
        if let Some(bytes) = config.fork_copy {
            party.adopter.set_fork_copy_limit(bytes);
        }
        party.memory.shadows().set_seed(config.cache_seed);
        let at_work = commons.at_work();
        let resting = [Arc::clone(&at_work), commons.serving()];
        // Pages of a program with one thread are moved without protection: not while the agent uses them.
        party.adopter.set_quiet_hook(move |switch| {
            let resting = resting.each_ref().map(|mutex| lock(mutex));
            switch();
            drop(resting);
        });
        Ok(Self {
            generation: fork_generation(),
            works_in: AtomicU32::new(fork_generation()),
            own_user: own_user(),
            zones: AtomicU32::new(1),
            pairs: Pairs::new()?,
            timers: Timers::default(),
            windows: WindowTable::default(),
            domains: Domains::default(),
            groups: Groups::default(),
            links: Links::new(&party)?,
            changes: Changes::new(config, commons.faults(config)),
            driving: Driving::new(config.rest),
            waiter: Waiter::default(),
            tellings: Tellings::default(),
            withheld: Withheld::default(),
            wires: Wires::new(config),
            wire_looks: WireLooks::default(),
            wire_groups: WireGroups::default(),
            meeting: meeting::join(config),
            agent: AgentThread::new(at_work)?,
            party,
        })
    }

    /// Whether this process made it, and not its parent.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.generation == current_generation()
    }

    /// Whether its devices work: this process made it, and they have not failed.
    #[inline]
    pub(crate) fn is_usable(&self) -> bool {
        self.works_in.load(Ordering::Relaxed) == current_generation()
    }

    /// Its devices have failed.
    fn end_use(&self) {
        self.works_in.store(NEVER, Ordering::Relaxed);
    }

    pub(crate) fn party(&self) -> &Arc<Party> {
        &self.party
    }

    /// The device memory of a device.
    pub(crate) fn arena(&self, device: u32) -> &Arena {
        let arenas = self.party.memory.arenas();
        &arenas[(device as usize).min(arenas.len() - 1)]
    }

    pub(crate) fn next_zone(&self) -> Option<ZoneId> {
        let next = |id: u32| (id < ZoneId::of_one_pair(0).0).then_some(id + 1);
        self.zones.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(ZoneId)
    }

    /// Does what was left until nobody holds a lock.
    pub(crate) fn run_deferred(&self) {
        // Taken out first: what follows may add to both lists.
        let overruns = std::mem::take(&mut *lock(&self.pairs.overruns));
        let ended = std::mem::take(&mut *lock(&self.links.ended));
        let errands = std::mem::take(&mut *lock(&self.pairs.errands));
        errands.into_iter().for_each(Errand::run);
        for queue in overruns {
            for pair in self.all_pairs() {
                pair.queue_overran(&queue);
            }
        }
        for link in ended {
            self.bury(&link);
        }
    }

    /// Whether links wait to be buried.
    pub(crate) fn has_deferred(&self) -> bool {
        !lock(&self.links.ended).is_empty()
    }

    /// Whether one of them is of somebody whose last words matter.
    pub(crate) fn has_deferred_talk(&self) -> bool {
        lock(&self.links.ended).iter().any(|link| self.is_attended(link))
    }
}
