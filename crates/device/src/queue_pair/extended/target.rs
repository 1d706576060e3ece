//! Where a queue pair has its receives from, and what is behind one that has none: the domain, and the shared receive queue that
//! the message under way names.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use nonic_memory::ZoneId;
use nonic_protocol::{AttributeMask, Completion, QpAttributes, QpNumber, QueueName, Receive, SrqNumber};

use super::opened::Openings;
use crate::bytes::Source;
use crate::completion_queue::{CompletionQueue, SendCredit};
use crate::engine::{Engine, lock};
use crate::error::CreateError;
use crate::peer_access::{PeerAccess, fill};
use crate::queue_pair::QueuePair;
use crate::shared_receive_queue::{ExtendedDomain, ForeignQueue, Opener, PairOfDomain, SharedReceiveQueue};

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
    current: Mutex<Option<Named>>,
    pub(crate) openings: Mutex<Openings>,
}

/// A shared receive queue that a message named.
#[derive(Clone, Debug)]
enum Named {
    Here(Arc<SharedReceiveQueue>),
    /// Of another process that has the domain open.
    Elsewhere(ForeignQueue),
}

/// Whose memory a request of the peer's is for.
pub(crate) enum Asked<'a> {
    /// This process's, which the queue pair or the shared receive queue leads to.
    Here(PeerAccess<'a>),
    /// What a shared receive queue of another process leads to.
    Elsewhere(ForeignQueue),
    /// The queue is gone.
    Nobody,
}

impl Target {
    pub(crate) fn new(domain: &Arc<ExtendedDomain>) -> Self {
        Self {
            domain: Arc::clone(domain),
            current: Mutex::new(None),
            openings: Mutex::new(Openings::default()),
        }
    }

    /// Turns to the queue with this number; false if the domain has none.
    fn turn_to(&self, number: SrqNumber, engine: &Engine) -> bool {
        let mut current = lock(&self.current);
        let is_it = |named: &Named| match named {
            Named::Here(queue) => queue.number() == Some(number),
            Named::Elsewhere(queue) => queue.number() == number && queue.is_reachable(),
        };
        if current.as_ref().is_some_and(is_it) {
            return true;
        }
        let Some(named) = self.find(number, engine) else { return false };
        *current = Some(named);
        true
    }

    fn find(&self, number: SrqNumber, engine: &Engine) -> Option<Named> {
        let members = self.domain.members();
        let here = members.queue(number).map(Named::Here);
        here.or_else(|| members.foreign_queue(number, engine).map(Named::Elsewhere))
    }

    pub(crate) fn take(&self) -> Option<Receive> {
        match lock(&self.current).as_ref()? {
            Named::Here(queue) => queue.take(),
            Named::Elsewhere(queue) => queue.take(),
        }
    }

    pub(crate) fn give_back(&self, receive: Receive) {
        match &*lock(&self.current) {
            Some(Named::Here(queue)) => queue.give_back(receive),
            Some(Named::Elsewhere(queue)) => queue.give_back(&receive),
            None => {}
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &*lock(&self.current) {
            Some(Named::Here(queue)) => queue.is_empty(),
            Some(Named::Elsewhere(queue)) => !queue.has_receive(),
            None => true,
        }
    }

    /// A receive that was taken is over, and nobody is told.
    pub(crate) fn taken_is_over(&self, receive: &Receive) {
        match &*lock(&self.current) {
            Some(Named::Here(queue)) => queue.taken_is_over(),
            Some(Named::Elsewhere(queue)) => queue.give_back(receive),
            None => {}
        }
    }

    /// Shows the program a receive; if its queue is gone nobody is told.
    pub(crate) fn complete(&self, solicited: bool, fill: impl FnOnce(&mut Completion)) {
        let named = lock(&self.current).clone();
        match named {
            Some(Named::Here(queue)) => {
                queue.taken_is_over();
                if let Some(part) = queue.extended() {
                    part.completions.push(SendCredit::NONE, solicited, fill);
                }
            }
            Some(Named::Elsewhere(queue)) => {
                let mut completion = Completion::default();
                fill(&mut completion);
                queue.complete(&completion, solicited);
            }
            None => {}
        }
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

impl PairOfDomain for QueuePair {
    fn number(&self) -> QpNumber {
        QueuePair::number(self)
    }

    fn turn_away_from(&self, queue: &Arc<SharedReceiveQueue>) {
        let Some(target) = self.target() else { return };
        let _inner = self.lock();
        let mut current = lock(&target.current);
        let is_it = |named: &Named| matches!(named, Named::Here(current) if Arc::ptr_eq(current, queue));
        if current.as_ref().is_some_and(is_it) {
            *current = None;
        }
    }

    fn open_for(&self, opener: Opener) -> bool {
        self.target().is_some_and(|target| lock(&target.openings).add_elsewhere(opener))
    }

    fn close_for(&self, conversation: u64, wholly: bool) {
        let Some(target) = self.target() else { return };
        if lock(&target.openings).close_elsewhere(conversation, wholly)
            && let Some(this) = self.this.upgrade()
        {
            self.engine().have_agent_do(move || {
                this.destroy_now();
            });
        }
    }

    fn try_attributes(&self) -> Option<QpAttributes> {
        self.try_lock().map(|inner| inner.shown_attributes())
    }

    fn modify_soon(&self, attributes: QpAttributes, mask: AttributeMask) -> Arc<OnceLock<bool>> {
        let done = Arc::new(OnceLock::new());
        match self.this.upgrade() {
            Some(this) => {
                let noted = Arc::clone(&done);
                self.engine().have_agent_do(move || {
                    let _ = noted.set(this.modify(&attributes, mask).is_ok());
                });
            }
            None => {
                let _ = done.set(false);
            }
        }
        done
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
        self.target().is_some_and(|target| target.turn_to(number, self.engine()))
    }

    /// Whose memory a request of the peer's is for: by the queue pair's own zone, or by that of the shared receive queue it names.
    #[inline]
    pub(crate) fn asked(&self) -> Asked<'_> {
        let Some(target) = self.target() else { return self.asked_in(self.zone.id()) };
        self.asked_of(lock(&target.current).as_ref())
    }

    /// The same for an answer that is sent later.
    #[inline]
    pub(crate) fn asked_through(&self, queue: QueueName) -> Asked<'_> {
        let Some(target) = self.target() else { return self.asked_in(self.zone.id()) };
        let found = queue.number().and_then(|number| {
            let current = lock(&target.current);
            match &*current {
                Some(Named::Elsewhere(queue)) if queue.number() == number => current.clone(),
                _ => target.find(number, self.engine()),
            }
        });
        self.asked_of(found.as_ref())
    }

    #[inline]
    fn asked_in(&self, zone: ZoneId) -> Asked<'_> {
        Asked::Here(PeerAccess { memory: &self.engine().party().memory, zone, through: self.number })
    }

    fn asked_of(&self, named: Option<&Named>) -> Asked<'_> {
        match named {
            Some(Named::Here(queue)) => self.asked_in(queue.zone().id()),
            Some(Named::Elsewhere(queue)) => Asked::Elsewhere(queue.clone()),
            None => Asked::Nobody,
        }
    }

    /// Places bytes of a message in a receive, from `offset` on; false if its keys do not allow it.
    #[inline]
    pub(crate) fn place(&self, receive: &Receive, offset: u64, payload: impl Source) -> bool {
        if let Some(target) = self.target()
            && let Some(Named::Elsewhere(queue)) = &*lock(&target.current)
        {
            return queue.fill(receive, offset, payload.to_bytes());
        }
        fill(&self.engine().party().memory, receive, offset, payload)
    }

    /// Whether the message under way is for this process.
    pub(crate) fn is_asked_here(&self) -> bool {
        self.target().is_none_or(|target| !matches!(&*lock(&target.current), Some(Named::Elsewhere(_))))
    }

    /// Whether receives of it may complete there.
    pub(crate) fn receives_complete_to(&self, completions: &Arc<CompletionQueue>) -> bool {
        match self.target() {
            None => Arc::ptr_eq(&self.receive_completions, completions),
            Some(target) => target.domain.members().completes_to(completions),
        }
    }
}
