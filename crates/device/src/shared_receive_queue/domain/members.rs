//! What is in a domain.

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use nonic_protocol::{AttributeMask, QpAttributes, QpNumber, SrqNumber};

use super::fellow::{ForeignQueue, Opener};
use super::file::SharedFile;
use super::{Domains, SharedReceiveQueue};
use crate::async_event::AsyncEventKind;
use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::engine::{Engine, lock};
use crate::error::CreateError;

/// A queue pair that takes its receives from the queues of a domain.
pub(crate) trait PairOfDomain: Send + Sync + std::fmt::Debug {
    /// Its number.
    fn number(&self) -> QpNumber;
    /// A queue goes: when this returns it takes no receive from there any more, nor completes one that it has taken.
    fn turn_away_from(&self, queue: &Arc<SharedReceiveQueue>);
    /// Another process opens it. False: the last who had it open is leaving.
    fn open_for(&self, opener: Opener) -> bool;
    /// A process closes it, once or as often as it has it open.
    fn close_for(&self, conversation: u64, wholly: bool);
    /// What was set of it, unless somebody is at it.
    fn try_attributes(&self) -> Option<QpAttributes>;
    /// Has it changed soon, and what came of it noted.
    fn modify_soon(&self, attributes: QpAttributes, mask: AttributeMask) -> Arc<OnceLock<bool>>;
}

/// Is told what happens to a queue pair of another process.
pub(crate) trait HearsOfPair: Send + Sync + std::fmt::Debug {
    /// The queue pair's number.
    fn number(&self) -> QpNumber;
    /// It happened.
    fn happened(&self, kind: AsyncEventKind);
    /// A context closes, or all of the device's: it is closed if it was opened through it.
    fn lose_context(&self, context: Option<&Context>);
}

/// What is in a domain, however many have it open.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// The file it is known by, and who else has it open.
    pub(super) file: Option<SharedFile>,
    /// How many have it open in this process; changes under the lock of the engine's list.
    pub(super) openings: AtomicU32,
    queues: RwLock<HashMap<SrqNumber, Weak<SharedReceiveQueue>>>,
    /// Its queue pairs that receive.
    pairs: Mutex<Vec<Weak<dyn PairOfDomain>>>,
    /// Those of other processes that were opened here.
    opened: Mutex<Vec<Weak<dyn HearsOfPair>>>,
}

impl Members {
    pub(super) fn of_file(file: SharedFile) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    /// Answers other processes from now on.
    pub(super) fn begin(self: &Arc<Self>, engine: &Engine) -> Result<(), CreateError> {
        match &self.file {
            Some(file) => Ok(file.begin(Arc::downgrade(self), engine)?),
            None => Ok(()),
        }
    }

    /// Nobody in this process has it open any more.
    pub(super) fn end(&self) {
        if let Some(file) = &self.file {
            file.close();
        }
    }

    pub(crate) fn queue(&self, number: SrqNumber) -> Option<Arc<SharedReceiveQueue>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner).get(&number)?.upgrade()
    }

    /// A queue of another process that has the domain open.
    pub(crate) fn foreign_queue(&self, number: SrqNumber, engine: &Engine) -> Option<ForeignQueue> {
        self.file.as_ref()?.find_queue(number, engine.own_user())
    }

    /// Does something with a queue that nobody takes out of the domain meanwhile.
    pub(super) fn with_queue<R>(
        &self,
        number: SrqNumber,
        work: impl FnOnce(&SharedReceiveQueue) -> R,
    ) -> Option<R> {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.get(&number)?.upgrade().map(|queue| work(&queue))
    }

    /// Enters a new queue, which `make` builds from its number.
    pub(crate) fn add_queue(
        &self,
        domains: &Domains,
        make: impl FnOnce(SrqNumber) -> Arc<SharedReceiveQueue>,
    ) -> Result<Arc<SharedReceiveQueue>, CreateError> {
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        let has = |number| queues.contains_key(&number);
        let number = match &self.file {
            Some(file) => file.free_number(has)?,
            None => domains.free_number(has),
        };
        let queue = make(number);
        queues.insert(number, Arc::downgrade(&queue));
        Ok(queue)
    }

    /// A queue goes: when this returns nobody takes receives from it any more, nor completes any.
    pub(crate) fn remove_queue(&self, number: SrqNumber) {
        let removed = self.queues.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
        let Some(queue) = removed.as_ref().and_then(Weak::upgrade) else { return };
        for pair in self.pairs() {
            pair.turn_away_from(&queue);
        }
    }

    pub(super) fn pair(&self, number: QpNumber) -> Option<Arc<dyn PairOfDomain>> {
        lock(&self.pairs).iter().filter_map(Weak::upgrade).find(|pair| pair.number() == number)
    }

    /// All of its queue pairs that receive, in this process.
    pub(super) fn pairs(&self) -> Vec<Arc<dyn PairOfDomain>> {
        lock(&self.pairs).iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn add_hearer(&self, hearer: Weak<dyn HearsOfPair>) {
        let mut opened = lock(&self.opened);
        opened.retain(|opened| opened.strong_count() > 0);
        opened.push(hearer);
    }

    /// Something happened to a queue pair of another process.
    pub(super) fn hear(&self, number: QpNumber, kind: AsyncEventKind) {
        self.hearers()
            .iter()
            .filter(|opened| opened.number() == number)
            .for_each(|opened| opened.happened(kind));
    }

    fn hearers(&self) -> Vec<Arc<dyn HearsOfPair>> {
        lock(&self.opened).iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn lose_context(&self, context: Option<&Context>) {
        self.hearers().iter().for_each(|opened| opened.lose_context(context));
    }

    /// Whether messages of its queue pairs may complete there.
    pub(crate) fn completes_to(&self, completions: &Arc<CompletionQueue>) -> bool {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues
            .values()
            .filter_map(Weak::upgrade)
            .any(|queue| queue.extended().is_some_and(|part| Arc::ptr_eq(&part.completions, completions)))
    }

    pub(crate) fn add_pair(&self, pair: Weak<dyn PairOfDomain>) {
        lock(&self.pairs).push(pair);
    }

    pub(crate) fn remove_pair(&self, number: QpNumber) {
        lock(&self.pairs).retain(|pair| pair.upgrade().is_some_and(|pair| pair.number() != number));
    }
}
