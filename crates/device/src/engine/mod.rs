//! An engine: it knows every queue pair of its contexts and every link, and drives them on whichever thread calls. A process may
//! have several, which are strangers to each other but for what is in their [`Commons`]; which of them the faces share is said
//! elsewhere.

mod commons;
mod driver;
mod links;
mod owner;
mod progress;
mod resting;
mod revocation;
mod standing;
mod stream;
mod waiter;
mod windows;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use nonic_memory::{Arena, ZoneId};
use nonic_protocol::QpNumber;
use nonic_sys::{
    AsFd, BiasedMutex, Epoll, PacketSocket, Seldom, SharedMapping, current_generation, fork_generation,
    own_user,
};
use nonic_transport::{BLOCK_SIZE, BLOCKS_MAX, Block, Link, Party, claim_block};

pub(crate) use self::commons::Commons;
use self::driver::Driver;
pub(crate) use self::owner::EngineOwner;
pub(crate) use self::progress::{Aside, Progress};
pub(crate) use self::revocation::Leaving;
use self::standing::Attended;
pub(crate) use self::standing::UsedLink;
pub(crate) use self::waiter::{Awaited, Drive, Next, Turn};
use crate::agent;
use crate::completion_queue::{CompletionQueue, SendCredit};
use crate::config::Config;
use crate::context::Context;
use crate::error::{CreateError, OpenError, asked};
use crate::limits::QUEUE_PAIRS_MAX;
use crate::pair_table::PairTable;
use crate::queue_pair::QueuePair;

/// What is known of links.
#[derive(Debug, Default)]
struct Links {
    all: Arc<Vec<Arc<Link>>>,
    /// Those that polls look at, or would if they did not rest.
    attended: Arc<Attended>,
    /// Buried, but their peers have not closed their ends: they may be inside an operation, or begin one before they
    /// notice.
    parted: Arc<Vec<Arc<Link>>>,
    by_block: HashMap<u32, Arc<Link>>,
    by_token: HashMap<u64, Arc<Link>>,
}

/// One engine.
#[derive(Debug)]
pub(crate) struct Engine {
    generation: u32,
    /// The user whose processes have a share of their own of everything.
    own_user: Option<u32>,
    party: Arc<Party>,
    loopback: Arc<Link>,
    pairs: RwLock<PairTable>,
    links: RwLock<Links>,
    /// Listening sockets of the blocks, in the order of their claim.
    pub(crate) listeners: Mutex<Vec<Arc<PacketSocket>>>,
    /// Held by the one thread that reads rings.
    driver: BiasedMutex<Driver>,
    /// Grows whenever a link that polls look at comes or goes.
    links_version: AtomicU64,
    credits: SharedMapping,
    zones: AtomicU32,
    tokens: AtomicU32,
    empty_polls: AtomicU32,
    busy_polls: AtomicU32,
    /// Polls that are to pass without a look at the rings.
    pause: AtomicU32,
    /// The program sent something since the rings were last looked at.
    sent: AtomicBool,
    /// Deadlines of queue pairs that wait.
    timers: Mutex<BTreeSet<(Instant, QpNumber)>>,
    overruns: Mutex<Vec<Arc<CompletionQueue>>>,
    ended: Mutex<Vec<Arc<Link>>>,
    pub(crate) windows: windows::WindowTable,
    /// What a stopped peer may be writing to.
    held_back: Mutex<Vec<revocation::HeldBack>>,
    may_use_again: AtomicBool,
    /// A program polled since the agent last looked.
    recent_poll: AtomicBool,
    /// Completion queues whose program wants an event.
    armed: AtomicUsize,
    /// Arrivals whose order was asked for.
    arrivals: AtomicU64,
    waiter: waiter::Waiter,
    /// The agent waits with a time limit and without its bell.
    pub(crate) timed: AtomicBool,
    /// Held from before this process introduces itself to a peer until the link is among the others: the peer may begin
    /// operations in between, and whoever takes memory back must find it.
    pub(crate) meeting: Mutex<()>,
    /// Held by the agent while it may touch memory of the program.
    pub(crate) at_work: Arc<Mutex<()>>,
    pub(crate) stop: AtomicBool,
    pub(crate) epoll: Epoll,
    agent: Mutex<Option<nonic_sys::Thread>>,
    departure: owner::Departure,
}

static NO_BLOCK: Seldom = Seldom::new();

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
        let resting = Arc::clone(&at_work);
        // Pages of a program with one thread are moved without protection: not while the agent uses them.
        party.adopter.set_quiet_hook(move |switch| {
            let resting = lock(&resting);
            switch();
            drop(resting);
        });
        let loopback = Arc::new(asked("memory for a ring (mmap)", Link::loopback(&party))?);
        let all = Arc::new(vec![Arc::clone(&loopback)]);
        let attended = Arc::new(Attended { links: vec![Arc::clone(&loopback)], own: 1 });
        Ok(Self {
            generation: fork_generation(),
            own_user: own_user(),
            loopback,
            pairs: RwLock::new(PairTable::default()),
            listeners: Mutex::new(Vec::new()),
            driver: BiasedMutex::new(Driver::new(config.rest)),
            links: RwLock::new(Links { all, attended, ..Links::default() }),
            links_version: AtomicU64::new(1),
            credits: asked(
                "memory for send queues (mmap)",
                SharedMapping::anonymous(BLOCKS_MAX * BLOCK_SIZE as usize * 8),
            )?,
            zones: AtomicU32::new(1),
            tokens: AtomicU32::new(0),
            empty_polls: AtomicU32::new(0),
            busy_polls: AtomicU32::new(0),
            pause: AtomicU32::new(0),
            sent: AtomicBool::new(false),
            timers: Mutex::new(BTreeSet::new()),
            overruns: Mutex::new(Vec::new()),
            ended: Mutex::new(Vec::new()),
            held_back: Mutex::new(Vec::new()),
            may_use_again: AtomicBool::new(false),
            recent_poll: AtomicBool::new(false),
            armed: AtomicUsize::new(0),
            arrivals: AtomicU64::new(1),
            waiter: waiter::Waiter::default(),
            timed: AtomicBool::new(false),
            windows: windows::WindowTable::default(),
            meeting: Mutex::new(()),
            at_work,
            stop: AtomicBool::new(false),
            epoll: asked("a descriptor to wait on (epoll_create)", Epoll::new())?,
            agent: Mutex::new(None),
            departure: owner::Departure::default(),
            party,
        })
    }

    /// Whether this process made it, and not its parent.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.generation == current_generation()
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

    // Queue pairs.

    /// Enters a new queue pair, which `make` builds from its number and the place of its credit account.
    pub(crate) fn add_pair(
        &self,
        owner: &EngineOwner,
        make: impl FnOnce(QpNumber, u32) -> Arc<QueuePair>,
    ) -> Result<Arc<QueuePair>, CreateError> {
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        if pairs.count() >= QUEUE_PAIRS_MAX {
            return Err(CreateError::TooMany { what: "queue pairs", limit: u64::from(QUEUE_PAIRS_MAX) });
        }
        if pairs.is_full() {
            let Block { number, socket } = claim_block().inspect_err(|error| {
                if let Some(unsaid) = NO_BLOCK.turn() {
                    tracing::error!(%error, unsaid, "a queue pair cannot be created");
                }
            })?;
            owner.ensure_agent()?;
            let limit = (BLOCKS_MAX as u64) * u64::from(BLOCK_SIZE);
            let Some(ordinal) = self.party.segment.add_block(number) else {
                return Err(CreateError::TooMany { what: "queue pair numbers", limit });
            };
            pairs.add_block(number, ordinal as u32);
            let mut listeners = lock(&self.listeners);
            self.epoll.add_once(socket.as_fd(), agent::LISTENERS + listeners.len() as u64)?;
            listeners.push(Arc::new(socket));
        }
        pairs
            .insert(make)
            .ok_or(CreateError::TooMany { what: "queue pairs", limit: u64::from(QUEUE_PAIRS_MAX) })
    }

    pub(crate) fn remove_pair(&self, number: QpNumber) {
        self.pairs.write().unwrap_or_else(PoisonError::into_inner).remove(number);
        // The driver must not keep it alive: with it its context, and this engine.
        self.driver.lock().forget(number);
    }

    pub(crate) fn find_pair(&self, number: QpNumber) -> Option<Arc<QueuePair>> {
        self.pairs.read().unwrap_or_else(PoisonError::into_inner).find(number)
    }

    fn all_pairs(&self) -> Vec<Arc<QueuePair>> {
        self.pairs.read().unwrap_or_else(PoisonError::into_inner).all()
    }

    pub(crate) fn queue_pairs_of(&self, context: &Context) -> Vec<Arc<QueuePair>> {
        let mut pairs = self.all_pairs();
        pairs.retain(|pair| std::ptr::eq(Arc::as_ptr(pair.context()), context));
        pairs
    }

    /// How many send slots of a queue pair's account were given back, since the beginning.
    pub(crate) fn credits(&self, account: u32) -> &AtomicU64 {
        self.credits.word(account as usize * 8)
    }

    pub(crate) fn return_credit(&self, credit: SendCredit) {
        self.credits(credit.account).store(credit.next, Ordering::Release);
    }

    // What the agent does for others.

    /// Has a queue pair's timer fire at `when`.
    pub(crate) fn schedule(&self, when: Instant, number: QpNumber) {
        lock(&self.timers).insert((when, number));
        self.party.doorbell.signal();
    }

    /// Fires what is due; returns when the next is.
    pub(crate) fn run_timers(&self) -> Option<Instant> {
        loop {
            let now = Instant::now();
            let number = {
                let mut timers = lock(&self.timers);
                let (when, number) = *timers.first()?;
                if when > now {
                    return Some(when);
                }
                timers.pop_first();
                number
            };
            if let Some(pair) = self.find_pair(number) {
                pair.timer_fired(now);
            }
        }
    }

    /// A completion queue overran: its queue pairs go to error, later, when nobody holds their locks.
    pub(crate) fn overrun(&self, queue: Arc<CompletionQueue>) {
        lock(&self.overruns).push(queue);
        self.party.doorbell.signal();
    }

    pub(crate) fn run_deferred(&self) {
        // Taken out first: what follows may add to both lists.
        let overruns = std::mem::take(&mut *lock(&self.overruns));
        let ended = std::mem::take(&mut *lock(&self.ended));
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
        !lock(&self.ended).is_empty()
    }

    /// Whether one of them is of somebody whose last words matter.
    pub(crate) fn has_deferred_talk(&self) -> bool {
        lock(&self.ended).iter().any(|link| self.is_attended(link))
    }

    /// The blocks of numbers this process owns.
    pub(crate) fn own_blocks(&self) -> Vec<u32> {
        self.pairs.read().unwrap_or_else(PoisonError::into_inner).blocks()
    }
}
