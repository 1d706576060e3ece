//! Where a queue pair has its receives from, and what is behind one that has none: the domain, and the shared receive queue that
//! the message under way names.

use std::sync::{Arc, Mutex, Weak};

use nonic_memory::ZoneId;
use nonic_protocol::{Completion, QpNumber, QueueName, Receive, SrqNumber};

use super::opened::Openings;
use crate::completion_queue::{CompletionQueue, SendCredit};
use crate::engine::lock;
use crate::error::CreateError;
use crate::queue_pair::QueuePair;
use crate::shared_receive_queue::{ExtendedDomain, SharedReceiveQueue, TakesFromDomain};

/// Where a queue pair has its receives from.
#[derive(Debug)]
pub(crate) enum ReceivesFrom {
    /// Its own queue.
    Own,
    /// A shared receive queue.
    Shared(Arc<SharedReceiveQueue>),
    /// Whatever shared receive queue of its domain a message names.
    Domain(Box<Target>),
}

/// What a queue pair of a domain has in place of receives.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) domain: Arc<ExtendedDomain>,
    /// What the last message named. It changes under the queue pair's lock.
    current: Mutex<Option<Arc<SharedReceiveQueue>>>,
    pub(crate) openings: Mutex<Openings>,
}

impl Target {
    pub(crate) fn new(domain: &Arc<ExtendedDomain>) -> Self {
        Self {
            domain: Arc::clone(domain),
            current: Mutex::new(None),
            openings: Mutex::new(Openings::default()),
        }
    }

    fn with_current<R>(&self, work: impl FnOnce(&SharedReceiveQueue) -> R) -> Option<R> {
        lock(&self.current).as_deref().map(work)
    }

    /// Turns to the queue with this number; false if the domain has none.
    fn turn_to(&self, number: SrqNumber) -> bool {
        let mut current = lock(&self.current);
        if current.as_ref().is_some_and(|queue| queue.number() == Some(number)) {
            return true;
        }
        let Some(queue) = self.domain.members().queue(number) else { return false };
        *current = Some(queue);
        true
    }

    pub(crate) fn take(&self) -> Option<Receive> {
        self.with_current(SharedReceiveQueue::take).flatten()
    }

    pub(crate) fn give_back(&self, receive: Receive) {
        self.with_current(|queue| queue.give_back(receive));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.with_current(SharedReceiveQueue::is_empty).unwrap_or(true)
    }

    /// A receive that was taken is over.
    pub(crate) fn taken_is_over(&self) {
        self.with_current(SharedReceiveQueue::taken_is_over);
    }

    /// Shows the program a receive; if its queue is gone nobody is told.
    pub(crate) fn complete(&self, solicited: bool, fill: impl FnOnce(&mut Completion)) {
        let completions = self.with_current(|queue| {
            queue.taken_is_over();
            queue.extended().map(|part| Arc::clone(&part.completions))
        });
        if let Some(completions) = completions.flatten() {
            completions.push(SendCredit::NONE, solicited, fill);
        }
    }

    /// The zone by which the message under way is judged.
    fn zone(&self) -> Option<ZoneId> {
        self.with_current(|queue| queue.zone().id())
    }
}

impl ExtendedDomain {
    /// Creates a queue pair of type [`QpType::ExtendedReceive`](crate::QpType::ExtendedReceive) in state RESET. It has neither
    /// queues nor a zone: a request is judged by the zone of the shared receive queue that it names, takes a receive from there,
    /// and completes where that does.
    pub fn create_queue_pair(self: &Arc<Self>, cookie: usize) -> Result<Arc<QueuePair>, CreateError> {
        if !self.users.acquire() {
            return Err(CreateError::Closed);
        }
        let (zone, completions) = self.stand_ins();
        let made = zone.create_target(self, completions, cookie);
        match &made {
            Ok(pair) => {
                let pair: Weak<QueuePair> = Arc::downgrade(pair);
                self.members().add_pair(pair);
            }
            Err(_) => self.users.release(),
        }
        made
    }
}

impl TakesFromDomain for QueuePair {
    fn number(&self) -> QpNumber {
        QueuePair::number(self)
    }

    fn turn_away_from(&self, queue: &Arc<SharedReceiveQueue>) {
        let Some(target) = self.target() else { return };
        let _inner = self.lock();
        let mut current = lock(&target.current);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, queue)) {
            *current = None;
        }
    }
}

impl QueuePair {
    /// What it has in place of receives, if it belongs to a domain.
    pub(crate) fn target(&self) -> Option<&Target> {
        match &self.receives_from {
            ReceivesFrom::Domain(target) => Some(target),
            ReceivesFrom::Own | ReceivesFrom::Shared(_) => None,
        }
    }

    /// What a peer asks from now on concerns this shared receive queue; false if there is no such queue.
    pub(crate) fn turn_to_queue(&self, number: SrqNumber) -> bool {
        self.target().is_some_and(|target| target.turn_to(number))
    }

    /// The zone by which a request of a peer's is judged: the queue pair's own, or that of the shared receive queue it names.
    #[inline]
    pub(crate) fn asked_zone(&self) -> Option<ZoneId> {
        match self.target() {
            None => Some(self.zone.id()),
            Some(target) => target.zone(),
        }
    }

    /// The same for an answer that is sent later.
    #[inline]
    pub(crate) fn zone_of_queue(&self, queue: QueueName) -> Option<ZoneId> {
        let Some(target) = self.target() else { return Some(self.zone.id()) };
        target.domain.members().queue(queue.number()?).map(|queue| queue.zone().id())
    }

    /// Whether receives of it may complete there.
    pub(crate) fn receives_complete_to(&self, completions: &Arc<CompletionQueue>) -> bool {
        match self.target() {
            None => Arc::ptr_eq(&self.receive_completions, completions),
            Some(target) => target.domain.members().completes_to(completions),
        }
    }
}
