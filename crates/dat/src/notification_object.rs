//! Notification objects (CNO): one place to wait for several dispatchers.
//!
//! They are triggered by level: a wait returns at once while a dispatcher that is attached, enabled and not waited for itself
//! holds events, and names the one whose event arrived first. An agent is called once for an arrival and is then no more.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use nonic_device::WaitBell;

use crate::error::{DatError, DatResult, HandleKind, Kind, StateKind, Subtype};
use crate::event_dispatcher::EventDispatcher;
use crate::interface_adapter::InterfaceAdapter;
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};

/// What is called when events arrive; it gets the dispatcher.
pub type Agent = Box<dyn FnOnce(&Arc<EventDispatcher>) + Send>;

/// One place to wait for several dispatchers.
pub struct NotificationObject {
    mark: Mark,
    membership: Membership,
    adapter: Arc<InterfaceAdapter>,
    signal: Arc<Signal>,
    inner: Mutex<Inner>,
    ended: AtomicBool,
}

#[derive(Default)]
struct Inner {
    /// Each with when a wait last named it, counted as arrivals are.
    dispatchers: Vec<(Weak<EventDispatcher>, u64)>,
}

/// What arrivals set off. It stands apart from the object, for completions arrive under locks of the engine.
pub(crate) struct Signal {
    bell: WaitBell,
    waiters: AtomicU32,
    has_agent: AtomicBool,
    agent: Arc<Mutex<Option<Agent>>>,
}

impl Signal {
    /// Whether anybody is to be told of arrivals.
    pub(crate) fn is_wanted(&self) -> bool {
        self.has_agent.load(Ordering::SeqCst) || self.waiters.load(Ordering::SeqCst) > 0
    }

    /// Has those who wait look again.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// Something has arrived at a dispatcher.
    pub(crate) fn trigger(&self, dispatcher: &Weak<EventDispatcher>) {
        self.bell.ring();
        if self.has_agent.swap(false, Ordering::AcqRel) {
            let (agent, dispatcher) = (Arc::clone(&self.agent), Weak::clone(dispatcher));
            nonic_connection::run(move || {
                let agent = lock(&agent).take();
                if let (Some(agent), Some(dispatcher)) = (agent, dispatcher.upgrade()) {
                    agent(&dispatcher);
                }
            });
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("has_agent", &self.has_agent).finish_non_exhaustive()
    }
}

impl fmt::Debug for NotificationObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotificationObject").field("signal", &self.signal).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const OBJECT_HANDLE: DatError = DatError::handle(Subtype::Handle(HandleKind::NotificationObject));
const DEAD: DatError = DatError::state(Subtype::State(StateKind::CnoDead));

impl NotificationObject {
    /// Makes a notification object, with an agent or without.
    pub fn create(adapter: &Arc<InterfaceAdapter>, agent: Option<Agent>) -> DatResult<Arc<Self>> {
        adapter.check_open()?;
        let created = Arc::new(Self {
            mark: Mark::default(),
            membership: Membership::new(MemberKind::NotificationObject),
            adapter: Arc::clone(adapter),
            signal: Arc::new(Signal {
                bell: adapter.context().wait_bell(),
                waiters: AtomicU32::new(0),
                has_agent: AtomicBool::new(agent.is_some()),
                agent: Arc::new(Mutex::new(agent)),
            }),
            inner: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        adapter.join(&created)?;
        Ok(created)
    }

    /// The face's word.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        &self.adapter
    }

    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    fn check_alive(&self) -> DatResult<()> {
        if self.ended.load(Ordering::Acquire) { Err(OBJECT_HANDLE) } else { Ok(()) }
    }

    /// Replaces or removes the agent. If events wait, a new one is called for them at once.
    pub fn set_agent(&self, agent: Option<Agent>) -> DatResult<()> {
        self.check_alive()?;
        let has_agent = agent.is_some();
        let old = std::mem::replace(&mut *lock(&self.signal.agent), agent);
        self.signal.has_agent.store(has_agent, Ordering::SeqCst);
        drop(old);
        for dispatcher in self.dispatchers() {
            dispatcher.trigger_if_due();
        }
        Ok(())
    }

    fn dispatchers(&self) -> Vec<Arc<EventDispatcher>> {
        lock(&self.inner).dispatchers.iter().filter_map(|(one, _)| one.upgrade()).collect()
    }

    /// A dispatcher triggers it from now on; false if it was freed.
    pub(crate) fn attach(&self, dispatcher: &Arc<EventDispatcher>) -> bool {
        let mut inner = lock(&self.inner);
        if self.check_alive().is_err() {
            return false;
        }
        inner.dispatchers.push((Arc::downgrade(dispatcher), 0));
        drop(inner);
        // Who waits has one more to look at.
        self.signal.bell.ring();
        true
    }

    /// A dispatcher does not any more.
    pub(crate) fn detach(&self, dispatcher: &EventDispatcher) {
        let mut inner = lock(&self.inner);
        let place = inner.dispatchers.iter().position(|(one, _)| std::ptr::eq(one.as_ptr(), dispatcher));
        if let Some(place) = place {
            inner.dispatchers.swap_remove(place);
        }
    }

    /// Waits until an enabled dispatcher for which nobody waits holds events, and names it. That is a hint: others may hold
    /// events too, and another thread may take them first.
    ///
    /// Errors: `QUEUE_EMPTY` when the time is over; `INTERRUPTED_CALL` on a signal; `INVALID_STATE|CNO_DEAD` if the object goes
    /// meanwhile.
    pub fn wait(&self, timeout: Option<Duration>) -> DatResult<Arc<EventDispatcher>> {
        {
            let _inner = lock(&self.inner);
            self.check_alive()?;
            self.signal.waiters.fetch_add(1, Ordering::SeqCst);
        }
        let outcome = self.wait_inside(timeout);
        if self.signal.waiters.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.dispatchers().iter().for_each(|dispatcher| dispatcher.disarm());
        }
        outcome
    }

    fn wait_inside(&self, timeout: Option<Duration>) -> DatResult<Arc<EventDispatcher>> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut found = None;
        let mut ready = || {
            if self.ended.load(Ordering::Acquire) {
                return true;
            }
            found = self.find_due();
            found.is_some()
        };
        let waited = self.adapter.context().wait(&self.signal.bell, until, &mut ready);
        if self.ended.load(Ordering::Acquire) {
            return Err(DEAD);
        }
        match waited {
            Ok(_) => found.ok_or(DatError::QUEUE_EMPTY),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                Err(DatError::new(Kind::InterruptedCall, Subtype::Interrupted))
            }
            Err(_) => Err(DatError::new(Kind::InternalError, Subtype::None)),
        }
    }

    /// Of the dispatchers that hold events the one whose event arrived first; one that was named and left as it is counts as if its
    /// had arrived then. All of them ring from now on.
    fn find_due(&self) -> Option<Arc<EventDispatcher>> {
        let dispatchers: Vec<_> = {
            let inner = lock(&self.inner);
            inner.dispatchers.iter().filter_map(|(one, named)| Some((one.upgrade()?, *named))).collect()
        };
        let first_due = || {
            let due = dispatchers.iter().filter(|(one, _)| one.is_due_for_notification());
            due.min_by_key(|(one, named)| one.oldest_arrival().max(*named))
        };
        // What arrived at one after it was looked at may have come before what then arrived at another: it is there by now.
        let (found, _) = first_due().and_then(|_| first_due())?;
        let now = self.adapter.context().number_arrival();
        let mut inner = lock(&self.inner);
        let entry = inner.dispatchers.iter_mut().find(|(one, _)| std::ptr::eq(one.as_ptr(), &**found));
        if let Some((_, named)) = entry {
            *named = now;
        }
        Some(Arc::clone(found))
    }

    /// Gives the object back. `INVALID_STATE|CNO_IN_USE` while dispatchers trigger it or a thread waits.
    pub fn free(&self) -> DatResult<()> {
        {
            let inner = lock(&self.inner);
            self.check_alive()?;
            if !inner.dispatchers.is_empty() || self.signal.waiters.load(Ordering::SeqCst) > 0 {
                return Err(DatError::state(Subtype::State(StateKind::CnoInUse)));
            }
            self.ended.store(true, Ordering::Release);
        }
        self.let_go();
        Ok(())
    }

    fn let_go(&self) {
        self.signal.bell.ring();
        self.signal.has_agent.store(false, Ordering::Release);
        let agent = lock(&self.signal.agent).take();
        drop(agent);
        self.adapter.leave(&self.membership);
    }
}

impl Member for NotificationObject {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn end(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.let_go();
        }
    }
}
