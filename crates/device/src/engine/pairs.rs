//! The queue pairs of an engine: their numbers, and the accounts of their send slots.

use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nonic_protocol::QpNumber;
use nonic_sys::{AsFd, Seldom, SharedMapping};
use nonic_transport::{BLOCK_SIZE, BLOCKS_MAX, Block, claim_block};

use super::links::BlockListener;
use super::{Engine, EngineOwner, lock};
use crate::agent;
use crate::completion_queue::{CompletionQueue, SendCredit};
use crate::error::{CreateError, OpenError, asked};
use crate::limits::QUEUE_PAIRS_MAX;
use crate::pair_table::PairTable;
use crate::queue_pair::QueuePair;

/// What is known of queue pairs.
#[derive(Debug)]
pub(super) struct Pairs {
    table: RwLock<PairTable>,
    /// How many send slots each was given back.
    credits: SharedMapping,
    /// Completion queues whose queue pairs are to fail.
    pub(super) overruns: Mutex<Vec<Arc<CompletionQueue>>>,
    /// What is to be done to them.
    pub(super) errands: Mutex<Vec<Errand>>,
}

/// Something that may wait for other threads, and for the peers of a queue pair.
pub(crate) struct Errand(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Errand {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Errand")
    }
}

impl Errand {
    pub(super) fn run(self) {
        (self.0)();
    }
}

static NO_BLOCK: Seldom = Seldom::new();
static NO_THREAD: Seldom = Seldom::new();

impl Pairs {
    /// None.
    pub(super) fn new() -> Result<Self, OpenError> {
        let credits = SharedMapping::anonymous(BLOCKS_MAX * BLOCK_SIZE as usize * 8);
        Ok(Self {
            table: RwLock::new(PairTable::default()),
            credits: asked("memory for send queues (mmap)", credits)?,
            overruns: Mutex::new(Vec::new()),
            errands: Mutex::default(),
        })
    }
}

impl Engine {
    /// Enters a new queue pair, which `make` builds from its number and the place of its credit account.
    pub(crate) fn add_pair(
        &self,
        owner: &EngineOwner,
        make: impl FnOnce(QpNumber, u32) -> Arc<QueuePair>,
    ) -> Result<Arc<QueuePair>, CreateError> {
        let mut pairs = self.pairs.table.write().unwrap_or_else(PoisonError::into_inner);
        if pairs.count() >= QUEUE_PAIRS_MAX {
            return Err(CreateError::TooMany { what: "queue pairs", limit: u64::from(QUEUE_PAIRS_MAX) });
        }
        if pairs.is_full() {
            let block = claim_block().inspect_err(|error| {
                if let Some(unsaid) = NO_BLOCK.turn() {
                    tracing::error!(%error, unsaid, "a queue pair cannot be created");
                }
            })?;
            owner.ensure_agent().inspect_err(|error| {
                if let Some(unsaid) = NO_THREAD.turn() {
                    tracing::error!(
                        %error,
                        unsaid,
                        "a queue pair cannot be created: no thread can be started, which takes what peers send; raise the limit on \
                         processes (ulimit -u, or --pids-limit of a container)"
                    );
                }
            })?;
            self.answer_to(block, &mut pairs)?;
        }
        pairs
            .insert(make)
            .ok_or(CreateError::TooMany { what: "queue pairs", limit: u64::from(QUEUE_PAIRS_MAX) })
    }

    /// Takes in a block of numbers.
    fn answer_to(&self, block: Block, pairs: &mut PairTable) -> Result<(), CreateError> {
        let Block { number, socket } = block;
        let limit = (BLOCKS_MAX as u64) * u64::from(BLOCK_SIZE);
        let Some(ordinal) = self.party.segment.add_block(number) else {
            return Err(CreateError::TooMany { what: "queue pair numbers", limit });
        };
        pairs.add_block(number, ordinal as u32);
        self.claim_on_wire(number);
        let mut listeners = lock(&self.links.listeners);
        let for_others = self.listen_for_others(number);
        let here = BlockListener { socket, is_for_others: false };
        for listener in iter::once(here).chain(for_others) {
            self.agent.epoll.add_once(listener.socket.as_fd(), agent::LISTENERS + listeners.len() as u64)?;
            listeners.push(Arc::new(listener));
        }
        Ok(())
    }

    /// A block of numbers that leads to this process, claimed if there is none. Called by the agent.
    pub(crate) fn any_block(&self) -> Result<u32, CreateError> {
        let mut pairs = self.pairs.table.write().unwrap_or_else(PoisonError::into_inner);
        if pairs.blocks().is_empty() {
            self.answer_to(claim_block()?, &mut pairs)?;
        }
        Ok(pairs.blocks()[0])
    }

    pub(crate) fn remove_pair(&self, number: QpNumber) {
        self.pairs.table.write().unwrap_or_else(PoisonError::into_inner).remove(number);
        // The driver must not keep it alive: with it its context, and this engine.
        self.driving.driver.lock().forget(number);
    }

    pub(crate) fn find_pair(&self, number: QpNumber) -> Option<Arc<QueuePair>> {
        self.pairs.table.read().unwrap_or_else(PoisonError::into_inner).find(number)
    }

    pub(crate) fn all_pairs(&self) -> Vec<Arc<QueuePair>> {
        self.pairs.table.read().unwrap_or_else(PoisonError::into_inner).all()
    }

    /// How many send slots of a queue pair's account were given back, since the beginning.
    #[inline]
    pub(crate) fn credits(&self, account: u32) -> &AtomicU64 {
        self.pairs.credits.word(account as usize * 8)
    }

    #[inline]
    pub(crate) fn return_credit(&self, credit: SendCredit) {
        self.credits(credit.account).store(credit.next, Ordering::Release);
    }

    /// A completion queue overran: its queue pairs go to error, later, when nobody holds their locks.
    pub(crate) fn overrun(&self, queue: Arc<CompletionQueue>) {
        lock(&self.pairs.overruns).push(queue);
        self.party.doorbell.signal();
    }

    /// Has the agent do something, when nobody holds a lock.
    pub(crate) fn have_agent_do(&self, errand: impl FnOnce() + Send + 'static) {
        lock(&self.pairs.errands).push(Errand(Box::new(errand)));
        self.party.doorbell.signal();
    }

    /// The blocks of numbers this process owns.
    pub(crate) fn own_blocks(&self) -> Vec<u32> {
        self.pairs.table.read().unwrap_or_else(PoisonError::into_inner).blocks()
    }
}
