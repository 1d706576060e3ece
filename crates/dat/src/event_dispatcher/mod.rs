//! Event dispatchers: queues of events of one or several streams.
//!
//! Completions wait in a completion queue of the engine, all other events beside it, each with the count of the completions
//! that were there before it: so merged streams come out in the order in which they went in.

mod feeding;
mod lifetime;
mod settings;
mod taking;
mod waiting;
mod watch;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use nonic_device::CompletionQueue;
use nonic_sys::{BiasedMutex, Budget, UseCount};

use crate::endpoint::Endpoint;
use crate::error::{DatError, HandleKind, Subtype};
use crate::event::Kept;
use crate::interface_adapter::InterfaceAdapter;
use crate::mark::Mark;
use crate::members::Membership;
use crate::values::Streams;

use settings::Settings;
use taking::Front;
use watch::Watch;

pub use settings::DispatcherFacts;
use settings::Mode;

/// Events a dispatcher holds at most.
pub(crate) const EVENTS_MAX: i32 = 1 << 20;

/// `DAT_INVALID_HANDLE1`, which is what a wrong dispatcher is answered with.
const DISPATCHER_HANDLE: DatError = DatError::handle(Subtype::Handle(HandleKind::First));

/// A queue of events.
#[derive(Debug)]
pub struct EventDispatcher {
    this: Weak<Self>,
    mark: Mark,
    membership: Membership,
    adapter: Arc<InterfaceAdapter>,
    streams: Streams,
    /// Events it holds at most.
    length: AtomicI32,
    /// Where completions wait, if it takes any.
    completions: Option<Arc<CompletionQueue>>,
    /// The end at which events are taken.
    front: BiasedMutex<Front>,
    /// Completions that were taken out of their queue and not yet handed out.
    parked: AtomicU32,
    /// Events of the other streams, each with the count of completions added before it.
    others: Mutex<VecDeque<(u64, Kept)>>,
    /// How many those are, for a look without the lock.
    others_waiting: AtomicU32,
    /// When the oldest of them arrived ([`CompletionQueue::oldest_arrival`]).
    others_oldest: AtomicU64,
    settings: Mutex<Settings>,
    /// Which completions notify ([`Mode`]); set by the first endpoint.
    mode: AtomicU8,
    /// Some completions are not shown to the program, or do not notify: they have to be looked at to be counted.
    counts_by_looking: AtomicBool,
    /// So many completions may wait in the queue that are not shown, beside those that are.
    hidden_room: Mutex<u32>,
    /// Who is to be told of arrivals.
    watch: Arc<Watch>,
    unwaitable: AtomicBool,
    /// An event was lost.
    overflowed: AtomicBool,
    /// Its adapter was closed, or it was freed.
    ended: AtomicBool,
    /// Places of its events that connection requests take, by the user who asks.
    pub(crate) requests: Arc<Budget>,
    /// The same for those of other hosts, by the host.
    pub(crate) wire_requests: Arc<Budget>,
    /// Endpoints and service points that feed it, and adapters whose asynchronous errors it gets.
    pub(crate) users: UseCount,
}

impl EventDispatcher {
    /// The face's word.
    #[inline]
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        &self.adapter
    }

    /// The streams it takes.
    pub fn streams(&self) -> Streams {
        self.streams
    }

    /// Whether it triggers a notification object.
    #[inline]
    pub(crate) fn notifies(&self) -> bool {
        self.watch.notifies()
    }

    /// The engine's queue, if it takes completions.
    pub(crate) fn completion_queue(&self) -> Option<&Arc<CompletionQueue>> {
        self.completions.as_ref()
    }

    /// Events waiting in all, those that are not shown to the program among them.
    fn waiting(&self) -> u32 {
        let completions = self.completions.as_ref().map_or(0, |queue| queue.waiting());
        completions + self.parked.load(Ordering::Acquire) + self.others_waiting.load(Ordering::Acquire)
    }

    /// When the oldest of those arrived, in a number that is greater for later ones.
    pub(crate) fn oldest_arrival(&self) -> u64 {
        if self.parked.load(Ordering::Acquire) > 0 {
            return 0;
        }
        let completion = self.completions.as_ref().filter(|queue| queue.waiting() > 0);
        let other = self.others_waiting.load(Ordering::Acquire) > 0;
        let completion = completion.map_or(u64::MAX, |queue| queue.oldest_arrival());
        let other = if other { self.others_oldest.load(Ordering::Acquire) } else { u64::MAX };
        completion.min(other)
    }

    /// How many of those a program can take.
    fn visible(&self) -> u32 {
        let waiting = self.waiting();
        match &self.completions {
            Some(queue) if self.counts_by_looking.load(Ordering::Acquire) => {
                let hidden = queue.count(|completion, _| Endpoint::hides(completion));
                waiting.saturating_sub(hidden)
            }
            _ => waiting,
        }
    }

    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}
