//! How completion queues come into being.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};

use nonic_protocol::Ring;
use nonic_sys::{BiasedMutex, Sleepers, UseCount};

use super::batch::NOBODY;
use super::dozing::Dozing;
use super::notifying::{CompletionObserver, Notification, ReportsTo};
use super::{CompletionQueue, Inner};
use crate::completion_channel::CompletionChannel;
use crate::context::Context;
use crate::error::CreateError;
use crate::events::EventAccount;
use crate::limits::COMPLETIONS_MAX;
use crate::zone::Zone;

/// What a completion queue is to be besides its size (`ibv_create_cq_ex(3)`).
#[derive(Clone, Debug, Default)]
pub struct CompletionQueueOptions {
    /// It belongs to this zone, which was derived from another, and keeps it.
    pub zone: Option<Arc<Zone>>,
    /// The program reads its batches ([`CompletionQueue::begin_batch`]) on one thread at a time, and sees to that itself.
    pub single_threaded: bool,
    /// When it is full, a new completion takes the place of the oldest; it never overruns.
    pub overwrites: bool,
    /// It notes when each completion was added, which costs two looks at the clock each.
    pub stamps: bool,
}

impl Context {
    /// Creates a completion queue of at least `entries`.
    pub fn create_completion_queue(
        self: &Arc<Self>,
        entries: u32,
        vector: u32,
        channel: Option<&Arc<CompletionChannel>>,
        cookie: usize,
    ) -> Result<Arc<CompletionQueue>, CreateError> {
        let options = CompletionQueueOptions::default();
        self.create_extended_completion_queue(entries, vector, channel, cookie, options)
    }

    /// Creates a completion queue of at least `entries` with options.
    pub fn create_extended_completion_queue(
        self: &Arc<Self>,
        entries: u32,
        vector: u32,
        channel: Option<&Arc<CompletionChannel>>,
        cookie: usize,
        options: CompletionQueueOptions,
    ) -> Result<Arc<CompletionQueue>, CreateError> {
        self.check_current()?;
        check_entries(entries)?;
        if vector >= self.limits().completion_vectors {
            return Err(CreateError::Invalid { what: "the completion vector" });
        }
        if channel.is_some_and(|channel| !channel.is_of(self)) {
            return Err(CreateError::OtherContext);
        }
        if channel.is_some_and(|channel| !channel.users.acquire()) {
            return Err(CreateError::Closed);
        }
        let zone = options.zone.as_ref();
        let refusal = match zone {
            Some(zone) if !zone.is_derived() => {
                Some(CreateError::Invalid { what: "a domain that is no parent domain" })
            }
            Some(zone) if !Arc::ptr_eq(zone.context(), self) => Some(CreateError::OtherContext),
            Some(zone) if !zone.users.acquire() => Some(CreateError::Closed),
            _ => None,
        };
        if let Some(refusal) = refusal {
            if let Some(channel) = channel {
                channel.users.release();
            }
            return Err(refusal);
        }
        let reports_to = channel.cloned().map_or(ReportsTo::Nobody, ReportsTo::Channel);
        Ok(CompletionQueue::new(self, entries, reports_to, cookie, options))
    }

    /// Creates a completion queue of at least `entries` that tells `observer` of its completions. The queue keeps the observer
    /// as long as it lives.
    pub fn create_observed_completion_queue(
        self: &Arc<Self>,
        entries: u32,
        observer: Arc<dyn CompletionObserver>,
    ) -> Result<Arc<CompletionQueue>, CreateError> {
        self.check_current()?;
        check_entries(entries)?;
        let options = CompletionQueueOptions::default();
        Ok(CompletionQueue::new(self, entries, ReportsTo::Observer(observer), 0, options))
    }
}

pub(super) fn check_entries(entries: u32) -> Result<(), CreateError> {
    if entries == 0 || entries > COMPLETIONS_MAX {
        let (asked, limit) = (u64::from(entries), u64::from(COMPLETIONS_MAX));
        return Err(CreateError::Limit { what: "completion queue entries", asked, limit });
    }
    Ok(())
}

impl CompletionQueue {
    fn new(
        context: &Arc<Context>,
        entries: u32,
        reports_to: ReportsTo,
        cookie: usize,
        options: CompletionQueueOptions,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            context: Arc::clone(context),
            engine: Arc::clone(context.engine_owner().engine()),
            reports_to,
            cookie,
            waiting: AtomicU32::new(0),
            added: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            numbers: AtomicBool::new(false),
            oldest: AtomicU64::new(0),
            inner: BiasedMutex::new(Inner {
                entries: Ring::new(),
                capacity: entries,
                notification: Notification::default(),
                overrun: false,
                overwrites: options.overwrites,
                gone: Vec::new(),
                stamps: options.stamps.then(Box::default),
                dozing: Dozing::default(),
            }),
            reader: AtomicUsize::new(NOBODY),
            departures: AtomicU32::new(0),
            vain_poller: AtomicUsize::new(NOBODY),
            sleepers: Sleepers::default(),
            single_threaded: options.single_threaded,
            zone: options.zone,
            users: UseCount::default(),
            completion_events: EventAccount::default(),
            async_events: EventAccount::default(),
        })
    }
}
