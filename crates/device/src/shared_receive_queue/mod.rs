//! Shared receive queues, and the domains in which peers name them.

mod domain;

pub use domain::{DomainError, DomainFile, ExtendedDomain};
pub(crate) use domain::{Domains, ForeignPair, ForeignQueue, HearsOfPair, Opener, PairOfDomain};

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use nonic_protocol::{PostError, Receive, ReceiveQueue, ReceiveRequest, SrqNumber};
use nonic_sys::UseCount;

use crate::async_event::{AsyncElement, AsyncEventKind};
use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::error::{Busy, CreateError};
use crate::events::EventAccount;
use crate::limits::{PIECES_MAX, REQUESTS_MAX};
use crate::zone::Zone;

#[derive(Debug)]
struct Inner {
    queue: ReceiveQueue,
    /// An event is raised once when fewer remain; 0: not armed.
    limit: u32,
}

/// Is told of what happens to a shared receive queue. It is called under locks of the engine, so it notes it, or hands it on,
/// and calls nothing of the engine; nor does it drop anything whose end calls the engine.
pub trait SharedReceiveObserver: Send + Sync + std::fmt::Debug {
    /// Fewer receives than the armed limit remain.
    fn limit_reached(&self);
}

/// A queue of receives that several queue pairs take from (`ibv_create_srq(3)`).
#[derive(Debug)]
pub struct SharedReceiveQueue {
    this: Weak<Self>,
    zone: Arc<Zone>,
    pieces: u32,
    cookie: usize,
    inner: Mutex<Inner>,
    /// Receives that queue pairs took and have not completed.
    taken: AtomicU32,
    pub(crate) users: UseCount,
    async_events: EventAccount,
    observer: OnceLock<Arc<dyn SharedReceiveObserver>>,
    /// If it belongs to an XRC domain.
    extended: Option<ExtendedPart>,
}

/// What a shared receive queue of an XRC domain has besides.
#[derive(Debug)]
pub(crate) struct ExtendedPart {
    domain: Arc<ExtendedDomain>,
    /// Where its receives complete.
    pub(crate) completions: Arc<CompletionQueue>,
    number: SrqNumber,
}

impl Zone {
    /// Creates a shared receive queue of an XRC domain, whose receives complete to `completions`. Peers of the domain's queue pairs
    /// name it by its number, and reach the memory of this zone through it.
    pub fn create_extended_receive_queue(
        self: &Arc<Self>,
        domain: &Arc<ExtendedDomain>,
        completions: &Arc<CompletionQueue>,
        (requests, pieces): (u32, u32),
        cookie: usize,
    ) -> Result<Arc<SharedReceiveQueue>, CreateError> {
        let same = |other: &Arc<Context>| Arc::ptr_eq(other, self.context());
        if !same(domain.context()) || !same(completions.context()) {
            return Err(CreateError::OtherContext);
        }
        if !domain.users.acquire() {
            return Err(CreateError::Closed);
        }
        if !completions.users.acquire() {
            domain.users.release();
            return Err(CreateError::Closed);
        }
        let made = self.check_new_queue(requests, pieces, 0).and_then(|()| {
            let added = domain.members().add_queue(&self.context().engine().domains, |number| {
                let (domain, completions) = (Arc::clone(domain), Arc::clone(completions));
                let extended = ExtendedPart { domain, completions, number };
                self.new_queue((requests, pieces), 0, cookie, Some(extended))
            });
            added.inspect_err(|_| self.users.release())
        });
        made.inspect_err(|_| {
            domain.users.release();
            completions.users.release();
        })
    }

    /// Creates a shared receive queue.
    pub fn create_shared_receive_queue(
        self: &Arc<Self>,
        requests: u32,
        pieces: u32,
        limit: u32,
        cookie: usize,
    ) -> Result<Arc<SharedReceiveQueue>, CreateError> {
        self.check_new_queue(requests, pieces, limit)?;
        Ok(self.new_queue((requests, pieces), limit, cookie, None))
    }

    /// Whether there may be a queue of these sizes; if so it uses the zone.
    fn check_new_queue(&self, requests: u32, pieces: u32, limit: u32) -> Result<(), CreateError> {
        self.context().check_current()?;
        let check = |what, asked: u32, most: u32| {
            let (asked, limit) = (u64::from(asked), u64::from(most));
            if asked > limit { Err(CreateError::Limit { what, asked, limit }) } else { Ok(()) }
        };
        if requests == 0 {
            return Err(CreateError::Limit { what: "requests", asked: 0, limit: u64::from(REQUESTS_MAX) });
        }
        check("requests", requests, REQUESTS_MAX)?;
        check("pieces in a request", pieces, PIECES_MAX as u32)?;
        check("as limit of a shared receive queue", limit, requests)?;
        if !self.users.acquire() {
            return Err(CreateError::Closed);
        }
        Ok(())
    }

    fn new_queue(
        self: &Arc<Self>,
        (requests, pieces): (u32, u32),
        limit: u32,
        cookie: usize,
        extended: Option<ExtendedPart>,
    ) -> Arc<SharedReceiveQueue> {
        let pieces = pieces.max(1);
        Arc::new_cyclic(|this| SharedReceiveQueue {
            this: Weak::clone(this),
            zone: Arc::clone(self),
            pieces,
            cookie,
            inner: Mutex::new(Inner { queue: ReceiveQueue::new(requests, pieces), limit }),
            taken: AtomicU32::new(0),
            users: UseCount::default(),
            async_events: EventAccount::default(),
            observer: OnceLock::new(),
            extended,
        })
    }
}

impl SharedReceiveQueue {
    /// The face's mark.
    pub fn cookie(&self) -> usize {
        self.cookie
    }

    /// Requests it holds, and pieces in each.
    pub fn limits(&self) -> (u32, u32) {
        (self.lock().queue.capacity(), self.pieces)
    }

    /// The armed limit, 0 if none.
    pub fn limit(&self) -> u32 {
        self.lock().limit
    }

    /// How many receives are posted and not taken by a queue pair.
    pub fn waiting(&self) -> u32 {
        self.lock().queue.length() as u32
    }

    /// How many are posted and not completed: those that wait, and those that messages are being placed in.
    pub fn unfinished(&self) -> u32 {
        let inner = self.lock();
        inner.queue.length() as u32 + self.taken.load(Ordering::Relaxed)
    }

    /// Changes how many receives it holds; those that wait stay. Refused for 0, beyond the device's limit, below the
    /// number of those that wait, and below an armed limit.
    pub fn resize(&self, requests: u32) -> Result<(), CreateError> {
        self.modify(Some(requests), None)
    }

    /// Arms the limit: one event when fewer receives than this remain. 0 disarms. Refused above the number it holds.
    pub fn set_limit(&self, limit: u32) -> Result<(), CreateError> {
        self.modify(None, Some(limit))
    }

    /// [`resize`](Self::resize), then [`set_limit`](Self::set_limit), or neither: the limit is judged by the new size, and
    /// nothing changes if one of them is refused.
    pub fn modify(&self, requests: Option<u32>, limit: Option<u32>) -> Result<(), CreateError> {
        self.context().check_current()?;
        let mut inner = self.lock();
        let waiting = inner.queue.length() as u32;
        let capacity = requests.unwrap_or(inner.queue.capacity());
        if capacity == 0 || capacity > REQUESTS_MAX {
            let (asked, limit) = (u64::from(capacity), u64::from(REQUESTS_MAX));
            return Err(CreateError::Limit { what: "requests", asked, limit });
        }
        if requests.is_some() && capacity < waiting {
            return Err(CreateError::StillHolds { entries: waiting });
        }
        let armed = limit.unwrap_or(inner.limit);
        if armed > capacity {
            let (asked, limit) = (u64::from(armed), u64::from(capacity));
            return Err(CreateError::Limit { what: "as limit of a shared receive queue", asked, limit });
        }
        inner.queue.set_capacity(capacity);
        let reached = limit.is_some_and(|limit| waiting < limit);
        inner.limit = if reached { 0 } else { armed };
        drop(inner);
        if reached {
            self.raise_limit();
        }
        Ok(())
    }

    /// Its zone.
    pub fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// Its number, by which peers name it, if it belongs to an XRC domain.
    pub fn number(&self) -> Option<SrqNumber> {
        self.extended.as_ref().map(|part| part.number)
    }

    fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.this)
    }

    pub(crate) fn extended(&self) -> Option<&ExtendedPart> {
        self.extended.as_ref()
    }

    fn context(&self) -> &Context {
        self.zone.context()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a receive.
    pub fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<(), PostError> {
        if !self.context().is_usable() {
            return Err(PostError::Gone);
        }
        self.lock().queue.post(request, self.zone.id())
    }

    pub(crate) fn take(&self) -> Option<Receive> {
        let mut inner = self.lock();
        let receive = inner.queue.take()?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        let reached = inner.limit > 0 && inner.queue.length() < inner.limit as usize;
        if reached {
            inner.limit = 0;
            drop(inner);
            self.raise_limit();
        }
        Some(receive)
    }

    pub(crate) fn give_back(&self, receive: Receive) {
        let mut inner = self.lock();
        self.taken.fetch_sub(1, Ordering::Relaxed);
        inner.queue.give_back(receive);
    }

    /// A receive that was taken has completed, or went with its queue pair.
    #[inline]
    pub(crate) fn taken_is_over(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().queue.length() == 0
    }

    /// Has `observer` told of the limit from now on, in place of an asynchronous event. A later one is ignored.
    pub fn observe(&self, observer: Arc<dyn SharedReceiveObserver>) {
        let _ = self.observer.set(observer);
    }

    fn raise_limit(&self) {
        if let Some(observer) = self.observer.get() {
            observer.limit_reached();
            return;
        }
        if let Some(this) = self.this.upgrade() {
            self.context().raise(AsyncEventKind::SrqLimitReached, AsyncElement::SharedReceiveQueue(this));
        }
    }

    pub(crate) fn async_account(&self) -> &EventAccount {
        &self.async_events
    }

    /// Acknowledges an asynchronous event.
    pub fn acknowledge_async_event(&self) {
        self.async_events.acknowledge(1);
    }

    /// Gives the queue back. Refused while queue pairs use it; blocks until its asynchronous events are acknowledged.
    pub fn destroy(&self) -> Result<(), Busy> {
        if self.users.is_closed() {
            return Ok(());
        }
        Busy::unless_closed(&self.users, "shared receive queue")?;
        if let Some(part) = &self.extended {
            part.domain.members().remove_queue(part.number);
        }
        self.context().forget_events(|element| {
            matches!(element, AsyncElement::SharedReceiveQueue(queue) if std::ptr::eq(Arc::as_ptr(queue), self))
        });
        self.async_events.wait_for_all();
        self.zone.users.release();
        if let Some(part) = &self.extended {
            part.completions.users.release();
            part.domain.users.release();
        }
        Ok(())
    }
}
