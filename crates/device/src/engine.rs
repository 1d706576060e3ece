//! The engine of a process: one for all its contexts and faces. It knows every queue pair and every link, and drives
//! them on whichever thread calls.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nonic_memory::{Arena, ZoneId};
use nonic_queue::QpNumber;
use nonic_sys::{AsFd, Epoll, PacketSocket, SharedMapping, fork_generation, yield_now};
use nonic_transport::{BLOCK_SIZE, BLOCKS_MAX, Block, Link, Party, claim_block};

use crate::agent;
use crate::completion_queue::{CompletionQueue, SendCredit};
use crate::config::Config;
use crate::context::Context;
use crate::error::{CreateError, OpenError, asked};
use crate::limits::QUEUE_PAIRS_MAX;
use crate::pair_table::PairTable;
use crate::queue_pair::{Delivery, QueuePair};

/// How long deregistration waits for a peer that is inside a copy but does not move (stopped, or in a debugger).
const PEER_PATIENCE: Duration = Duration::from_secs(2);
/// Messages handled in one call of a polling program.
const MESSAGES_PER_POLL: usize = 256;
/// Polls without result after which a polling thread lets others of its CPU go first.
const POLLS_PER_YIELD: u32 = 256;

/// Polls that found all they wanted after which the rings are looked at all the same.
const BUSY_POLLS_PER_LOOK: u32 = 16;

/// What is known of links.
#[derive(Debug)]
struct Links {
    all: Arc<Vec<Arc<Link>>>,
    by_block: HashMap<u32, Arc<Link>>,
    by_token: HashMap<u64, Arc<Link>>,
}

/// One process's engine.
#[derive(Debug)]
pub(crate) struct Engine {
    generation: u32,
    party: Arc<Party>,
    loopback: Arc<Link>,
    pairs: RwLock<PairTable>,
    links: RwLock<Links>,
    /// Listening sockets of the blocks, in the order of their claim.
    pub(crate) listeners: Mutex<Vec<Arc<PacketSocket>>>,
    /// Held by the one thread that reads rings.
    driver: Mutex<()>,
    credits: SharedMapping,
    zones: AtomicU32,
    tokens: AtomicU32,
    empty_polls: AtomicU32,
    busy_polls: AtomicU32,
    /// Deadlines of queue pairs that wait.
    timers: Mutex<BTreeSet<(Instant, QpNumber)>>,
    overruns: Mutex<Vec<Arc<CompletionQueue>>>,
    ended: Mutex<Vec<Arc<Link>>>,
    /// A program polled since the agent last looked.
    recent_poll: AtomicBool,
    /// Completion queues whose program wants an event.
    armed: AtomicUsize,
    /// The agent waits with a time limit and without its bell.
    pub(crate) timed: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) epoll: Epoll,
    agent: Mutex<Option<JoinHandle<()>>>,
}

/// What a look at all rings found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Messages were handled.
    pub(crate) worked: bool,
    /// A message waits for a receive that its program is about to post.
    pub(crate) held: bool,
    /// Another thread was at it.
    pub(crate) taken: bool,
}

/// Keeps an engine running; its last owner stops the agent.
#[derive(Debug)]
pub(crate) struct EngineOwner(Arc<Engine>);

impl Deref for EngineOwner {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        &self.0
    }
}

static CURRENT: Mutex<Weak<EngineOwner>> = Mutex::new(Weak::new());

impl EngineOwner {
    /// This process's engine, made if there is none.
    pub(crate) fn current(config: &Config) -> Result<Arc<Self>, OpenError> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = current.upgrade()
            && owner.is_current()
        {
            return Ok(owner);
        }
        let owner = Arc::new(Self(Arc::new(Engine::create(config)?)));
        nonic_sys::at_exit(say_goodbye);
        // In a child this drops the parent's only if the child held its last owner, which then stops nothing.
        *current = Arc::downgrade(&owner);
        Ok(owner)
    }

    /// Starts the agent: at first need, which is the first queue pair.
    pub(crate) fn ensure_agent(&self) -> io::Result<()> {
        let mut agent = lock(&self.0.agent);
        if agent.is_none() {
            self.0.epoll.add(self.0.party.doorbell.as_fd(), agent::DOORBELL)?;
            let engine = Arc::clone(&self.0);
            *agent = Some(nonic_sys::spawn_without_signals("nonic-agent", move || agent::run(&engine))?);
        }
        Ok(())
    }
}

impl Drop for EngineOwner {
    fn drop(&mut self) {
        let agent = lock(&self.0.agent).take();
        let Some(agent) = agent else { return };
        if !self.0.is_current() {
            // The thread stayed in the parent.
            std::mem::forget(agent);
            return;
        }
        self.0.say_goodbye();
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.party.doorbell.signal();
        if agent.thread().id() != std::thread::current().id() {
            let _ = agent.join();
        }
    }
}

/// Runs when the process exits with devices still open.
extern "C" fn say_goodbye() {
    // Not if another thread is just opening a device: an exit must not wait for anything.
    let Ok(current) = CURRENT.try_lock() else { return };
    let owner = current.upgrade();
    drop(current);
    if let Some(owner) = owner {
        if owner.is_current() {
            owner.0.say_goodbye();
        }
        // Dropping it would join a thread that may need what the program's own exit handlers hold.
        std::mem::forget(owner);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    fn create(config: &Config) -> Result<Self, OpenError> {
        if config.allow_tracers {
            nonic_sys::allow_any_tracer();
        }
        let arenas = (0..config.devices.max(1))
            .map(|_| Arena::create(config.device_memory).map(Arc::new))
            .collect::<io::Result<Vec<_>>>();
        let arenas = asked("shared memory for device memory (memfd_create)", arenas)?;
        let party =
            asked("shared memory for the key table (memfd_create)", Party::create(config.tier, arenas))?;
        let party = Arc::new(party);
        let loopback = Arc::new(asked("memory for a ring (mmap)", Link::loopback(&party))?);
        let all = Arc::new(vec![Arc::clone(&loopback)]);
        Ok(Self {
            generation: fork_generation(),
            loopback,
            pairs: RwLock::new(PairTable::default()),
            links: RwLock::new(Links { all, by_block: HashMap::new(), by_token: HashMap::new() }),
            listeners: Mutex::new(Vec::new()),
            driver: Mutex::new(()),
            credits: asked(
                "memory for send queues (mmap)",
                SharedMapping::anonymous(BLOCKS_MAX * BLOCK_SIZE as usize * 8),
            )?,
            zones: AtomicU32::new(1),
            tokens: AtomicU32::new(0),
            empty_polls: AtomicU32::new(0),
            busy_polls: AtomicU32::new(0),
            timers: Mutex::new(BTreeSet::new()),
            overruns: Mutex::new(Vec::new()),
            ended: Mutex::new(Vec::new()),
            recent_poll: AtomicBool::new(false),
            armed: AtomicUsize::new(0),
            timed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            epoll: asked("a descriptor to wait on (epoll_create)", Epoll::new())?,
            agent: Mutex::new(None),
            party,
        })
    }

    /// Whether this process made it, and not its parent.
    pub(crate) fn is_current(&self) -> bool {
        self.generation == fork_generation()
    }

    pub(crate) fn party(&self) -> &Arc<Party> {
        &self.party
    }

    /// The device memory of a device.
    pub(crate) fn arena(&self, device: u32) -> &Arena {
        let arenas = self.party.memory.arenas();
        &arenas[(device as usize).min(arenas.len() - 1)]
    }

    pub(crate) fn next_zone(&self) -> ZoneId {
        ZoneId(self.zones.fetch_add(1, Ordering::Relaxed))
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
            let Block { number, socket } = claim_block()?;
            owner.ensure_agent()?;
            let limit = (BLOCKS_MAX as u64) * u64::from(BLOCK_SIZE);
            let Some(ordinal) = self.party.segment.add_block(number) else {
                return Err(CreateError::TooMany { what: "queue pair numbers", limit });
            };
            pairs.add_block(number, ordinal as u32);
            let mut listeners = lock(&self.listeners);
            self.epoll.add(socket.as_fd(), agent::LISTENERS + listeners.len() as u64)?;
            listeners.push(Arc::new(socket));
        }
        pairs
            .insert(make)
            .ok_or(CreateError::TooMany { what: "queue pairs", limit: u64::from(QUEUE_PAIRS_MAX) })
    }

    pub(crate) fn remove_pair(&self, number: QpNumber) {
        self.pairs.write().unwrap_or_else(PoisonError::into_inner).remove(number);
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
    pub(crate) fn credits(&self, account: u32) -> &std::sync::atomic::AtomicU64 {
        self.credits.word(account as usize * 8)
    }

    pub(crate) fn return_credit(&self, credit: SendCredit) {
        self.credits(credit.account).store(credit.next, Ordering::Release);
    }

    // Links.

    pub(crate) fn links(&self) -> Arc<Vec<Arc<Link>>> {
        Arc::clone(&self.links.read().unwrap_or_else(PoisonError::into_inner).all)
    }

    /// The link to the process that owns a queue-pair number; connects if there is none. `None`: nobody owns it.
    pub(crate) fn link_to(&self, number: QpNumber) -> Option<Arc<Link>> {
        let block = number.0 / BLOCK_SIZE;
        let own_blocks = self.own_blocks();
        if own_blocks.contains(&block) {
            return Some(Arc::clone(&self.loopback));
        }
        {
            let links = self.links.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(link) = links.by_block.get(&block)
                && !link.is_dead()
            {
                return Some(Arc::clone(link));
            }
        }
        match Link::connect(&self.party, number, &own_blocks) {
            Ok(link) => Some(self.add_link(Arc::new(link), Some(block))),
            Err(error) => {
                tracing::debug!(number = number.0, %error, "no process answers for this queue-pair number");
                None
            }
        }
    }

    /// Enters a link: to the owner of `block` if this process connected, else to whoever connected.
    pub(crate) fn add_link(&self, link: Arc<Link>, block: Option<u32>) -> Arc<Link> {
        let token = agent::LINKS + u64::from(self.tokens.fetch_add(1, Ordering::Relaxed));
        {
            let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
            let mut all = Vec::clone(&links.all);
            all.push(Arc::clone(&link));
            links.all = Arc::new(all);
            links.by_token.insert(token, Arc::clone(&link));
            for block in block.iter().chain(link.claimed_blocks()) {
                let known = links.by_block.get(block).is_some_and(|known| !known.is_dead());
                if !known {
                    links.by_block.insert(*block, Arc::clone(&link));
                }
            }
        }
        for watched in [link.socket(), link.process()].into_iter().flatten() {
            if let Err(error) = self.epoll.add(watched, token) {
                tracing::warn!(%error, "a link cannot be watched");
            }
        }
        // The agent must say on the new link's ring, too, that it sleeps.
        self.party.doorbell.signal();
        link
    }

    pub(crate) fn link_of_token(&self, token: u64) -> Option<Arc<Link>> {
        self.links.read().unwrap_or_else(PoisonError::into_inner).by_token.get(&token).cloned()
    }

    /// Takes leave of a link whose peer is gone: what it still sent is handled, then its queue pairs fail.
    pub(crate) fn bury(&self, link: &Arc<Link>) {
        {
            let _driver = lock(&self.driver);
            let mut progress = Progress::default();
            // What the peer said last may stand in another ring: two processes that connected to each other at the same
            // moment have two links. A ring's worth and some of each: a peer that closed its socket and goes on writing
            // is not listened to for ever.
            for ring in self.links().iter().filter(|other| other.leads_where(link)) {
                for _ in 0..64 {
                    if !self.drain(ring, usize::MAX, &mut progress) {
                        break;
                    }
                }
            }
            if progress.held {
                // What waits for a receive is not lost with its sender: once more, later.
                lock(&self.ended).push(Arc::clone(link));
                return;
            }
        }
        link.close();
        {
            let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
            let keep = |other: &Arc<Link>| !Arc::ptr_eq(other, link);
            links.all = Arc::new(links.all.iter().filter(|other| keep(other)).cloned().collect());
            links.by_block.retain(|_, other| keep(other));
            links.by_token.retain(|_, other| keep(other));
        }
        for watched in [link.socket(), link.process()].into_iter().flatten() {
            self.epoll.remove(watched);
        }
        for pair in self.all_pairs() {
            pair.peer_is_gone(link);
        }
    }

    fn say_goodbye(&self) {
        for link in self.links().iter() {
            link.say_goodbye();
        }
    }

    /// Waits until no operation that began before is under way on this process's memory, by its own threads or peers.
    pub(crate) fn wait_for_operations(&self) {
        self.party.memory.slots().wait_idle(Duration::MAX / 4, &|| false);
        for link in self.links().iter() {
            if !link.wait_for_peer(PEER_PATIENCE) {
                self.end_link(link);
            }
        }
    }

    /// Closes a link; the agent buries it, when nobody holds a lock.
    fn end_link(&self, link: &Arc<Link>) {
        link.close();
        lock(&self.ended).push(Arc::clone(link));
        self.party.doorbell.signal();
    }

    /// Counts one region less on a file of the program; peers let go of it with the last.
    pub(crate) fn release_file(&self, file: u32) {
        if self.party.files.release(file) {
            for link in self.links().iter() {
                link.drop_file(file);
            }
        }
    }

    // Progress.

    pub(crate) fn note_poll(&self) {
        if !self.recent_poll.load(Ordering::Relaxed) {
            self.recent_poll.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a program drives the device itself. Asking forgets.
    pub(crate) fn program_polls(&self) -> bool {
        self.recent_poll.swap(false, Ordering::Relaxed) && self.armed.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn anyone_sleeps(&self) -> bool {
        self.armed.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn queue_armed(&self) {
        self.armed.fetch_add(1, Ordering::SeqCst);
        if self.timed.load(Ordering::SeqCst) {
            self.party.doorbell.signal();
        }
    }

    pub(crate) fn queue_disarmed(&self) {
        self.armed.fetch_sub(1, Ordering::SeqCst);
    }

    /// Handles messages until about `wanted` receives were filled. True if anything was handled.
    pub(crate) fn progress_for_poller(&self, wanted: usize) -> bool {
        let progress = self.progress(wanted.max(1));
        if progress.worked {
            return true;
        }
        let polls = self.empty_polls.load(Ordering::Relaxed).wrapping_add(1);
        self.empty_polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(POLLS_PER_YIELD) {
            yield_now();
        }
        // Another thread may have filled the queue meanwhile.
        progress.taken
    }

    /// Handles messages now and then for a program whose polls always find completions: its peers must not wait for it
    /// to run out of them.
    pub(crate) fn progress_for_busy_poller(&self) {
        let polls = self.busy_polls.load(Ordering::Relaxed).wrapping_add(1);
        self.busy_polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(BUSY_POLLS_PER_LOOK) {
            self.progress(1);
        }
    }

    /// Handles messages of every link, filling about `receives` receives at most.
    pub(crate) fn progress(&self, receives: usize) -> Progress {
        let mut progress = Progress::default();
        let Ok(_driver) = self.driver.try_lock() else {
            progress.taken = true;
            return progress;
        };
        for link in self.links().iter() {
            self.drain(link, receives, &mut progress);
        }
        progress
    }

    /// Handles messages of one link; true if there were any.
    fn drain(&self, link: &Arc<Link>, receives: usize, progress: &mut Progress) -> bool {
        let mut handled = 0;
        let mut filled = 0;
        let mut bell = false;
        let mut current: Option<Arc<QueuePair>> = None;
        if let Some(mut ring) = link.try_receive() {
            while handled < MESSAGES_PER_POLL && filled < receives {
                let incoming = match ring.peek() {
                    Ok(Some(incoming)) => incoming,
                    Ok(None) => break,
                    Err(error) => {
                        link.refused_messages.fetch_add(1, Ordering::Relaxed);
                        if !link.is_dead() {
                            let pid = link.credentials().pid;
                            tracing::warn!(pid, %error, "a peer broke the rules; its link is closed");
                            self.end_link(link);
                        }
                        break;
                    }
                };
                let number = incoming.header.destination;
                if current.as_ref().is_none_or(|pair| pair.number() != number || pair.is_destroyed()) {
                    if let Some(pair) = current.take() {
                        pair.answer_now();
                    }
                    current = self.find_pair(number);
                }
                let delivery = match &current {
                    Some(pair) => pair.deliver(link, &incoming),
                    None => {
                        QueuePair::refuse_unknown(link, &incoming.header);
                        Delivery::Quiet
                    }
                };
                match delivery {
                    Delivery::Held => {
                        progress.held = true;
                        break;
                    }
                    Delivery::Filled => filled += 1,
                    Delivery::Quiet => {}
                }
                handled += 1;
                bell |= ring.advance();
            }
            bell |= ring.report();
        }
        if let Some(pair) = current {
            pair.answer_now();
        }
        if bell {
            link.ring_bell_now();
        }
        for number in link.take_stalled() {
            if let Some(pair) = self.find_pair(number) {
                pair.resume();
                handled += 1;
            }
        }
        progress.worked |= handled > 0;
        handled > 0
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

    /// The blocks of numbers this process owns.
    pub(crate) fn own_blocks(&self) -> Vec<u32> {
        self.pairs.read().unwrap_or_else(PoisonError::into_inner).blocks()
    }
}
