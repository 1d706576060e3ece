//! The queue pair of an endpoint, and what posting to it needs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use nonic_device::{
    Access, AttributeMask, Capabilities, CompletionQueue, Key, QpAttributes, QpState, QpType, QueuePair,
    QueuePairObserver, QueuePairRequest,
};

use super::completing::{HIDDEN, SILENT, Shown};
use super::numbered::{Numbered, Tags};
use super::watermarks::Observer;
use super::{Core, Endpoint};
use crate::error::{DatError, DatResult, Resource, StateKind, Subtype};
use crate::event_dispatcher::EventDispatcher;
use crate::remote_region::RemoteRegion;
use crate::values::{CompletionFlags, Streams, TransferStatus};

/// The one port of the engine's device.
const PORT: u8 = 1;

/// Zone and dispatchers of an endpoint, led to a queue pair. When they change while there is one, a new wiring takes the
/// place of the old at the end of the chain; what posts never waits for that.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) pair: Arc<QueuePair>,
    pub(super) receive: Option<Arc<EventDispatcher>>,
    pub(super) request: Option<Arc<EventDispatcher>>,
    /// Takes the completions of a direction that has no dispatcher, and therefore no requests.
    idle_queue: Option<Arc<CompletionQueue>>,
    /// Told by the engine what happens to the queue pair. Kept here, for the engine does not.
    pub(super) observer: Arc<Observer>,
    /// Receives come from a shared queue, and are counted.
    pub(super) is_shared: bool,
    /// Limits that posting looks at.
    pub(super) limits: PostLimits,
    /// Binds under way, oldest first.
    binds: Mutex<VecDeque<Bind>>,
    /// Cookies of requests that are numbered.
    pub(super) tags: Option<Box<Tags>>,
    live: AtomicBool,
    ended: AtomicBool,
    /// Ends of binds were asked not to be shown.
    hides: AtomicBool,
    pub(super) next: OnceLock<Box<Wiring>>,
}

/// What a single request may ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostLimits {
    pub(super) receive_pieces: usize,
    pub(super) send_pieces: usize,
    pub(super) read_pieces: usize,
    pub(super) write_pieces: usize,
    pub(super) message: u64,
    pub(super) rdma: u64,
    /// Receives and requests may be posted not to notify.
    pub(super) silent_receives: bool,
    pub(super) silent_requests: bool,
}

#[derive(Debug)]
struct Bind {
    cookie: u64,
    region: Arc<RemoteRegion>,
    key: Key,
    /// Its success is not shown.
    suppressed: bool,
}

impl Wiring {
    /// Whether posting may use it.
    #[inline]
    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// Whether who waits for its completions may wait for those of both directions at once, and learns of their order.
    #[inline]
    pub(super) fn notifies(&self) -> bool {
        [&self.request, &self.receive].into_iter().flatten().any(|dispatcher| dispatcher.notifies())
    }

    /// Whether everything is known that endpoints usually have.
    pub(super) fn is_ready(core: &Core) -> bool {
        let setup = &core.setup;
        setup.zone.is_some() && setup.receive.is_some() && setup.request.is_some()
    }

    /// Makes the queue pair, in INIT; without a zone `INVALID_STATE|EP_NOTREADY`. A direction without a dispatcher takes no
    /// requests. The attributes become what it really got.
    pub(super) fn new(endpoint: &Endpoint, core: &mut Core) -> DatResult<Self> {
        let (setup, attributes) = (&core.setup, &mut core.attributes);
        let not_ready = DatError::state(Subtype::State(StateKind::EpNotReady));
        let zone = setup.zone.clone().ok_or(not_ready)?;
        let shared = setup.shared_receives.clone();
        let no_pair = DatError::resources(Subtype::Resource(Resource::TransportEndpoint));
        let queue_of = |dispatcher: &Option<Arc<EventDispatcher>>| {
            dispatcher.as_ref().and_then(|dispatcher| dispatcher.completion_queue().cloned())
        };
        let (receive, request) = (queue_of(&setup.receive), queue_of(&setup.request));
        let idle_queue = if receive.is_none() || request.is_none() {
            let context = endpoint.adapter.context();
            Some(context.create_completion_queue(1, 0, None, 0).map_err(|_| no_pair)?)
        } else {
            None
        };
        let or_idle =
            |queue: Option<Arc<CompletionQueue>>| queue.or_else(|| idle_queue.clone()).ok_or(no_pair);
        let count = |number: i32| number.max(0).unsigned_abs();
        let count_if = |there: bool, number: i32| if there { count(number) } else { 0 };
        let observer = Arc::new(Observer::new(Weak::clone(&endpoint.this), attributes.shared_soft_watermark));
        let told: Weak<dyn QueuePairObserver> = {
            let weak: Weak<Observer> = Arc::downgrade(&observer);
            weak
        };
        let send_pieces =
            attributes.max_request_pieces.max(attributes.max_read_pieces).max(attributes.max_write_pieces);
        let asked = QueuePairRequest {
            transport: QpType::ReliableConnection,
            send_queue: or_idle(request)?,
            receive_queue: or_idle(receive)?,
            shared_receive_queue: shared.as_ref().map(|shared| Arc::clone(shared.queue())),
            capabilities: Capabilities {
                send_requests: count_if(setup.request.is_some(), attributes.max_requests),
                receive_requests: count_if(setup.receive.is_some(), attributes.max_receives),
                send_pieces: count(send_pieces).max(1),
                receive_pieces: count(attributes.max_receive_pieces).max(1),
                inline_bytes: 0,
            },
            signal_all: false,
            cookie: 0,
            observer: Some(told),
        };
        let pair = zone.zone().create_queue_pair(asked).map_err(|_| no_pair)?;
        to_init(&pair)?;
        let got = pair.capabilities();
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        if setup.request.is_some() {
            attributes.max_requests = number(got.send_requests);
        }
        if shared.is_none() && setup.receive.is_some() {
            attributes.max_receives = number(got.receive_requests);
        }
        let silent = |flags: u32| flags & CompletionFlags::UNSIGNALLED.bits() != 0;
        let tags = (silent(attributes.receive_flags) || silent(attributes.request_flags)).then(|| {
            Box::new(Tags {
                requests: Numbered::new(got.send_requests),
                receives: (shared.is_none() && silent(attributes.receive_flags))
                    .then(|| Numbered::new(got.receive_requests)),
            })
        });
        if let Some(receive) = &setup.receive {
            receive.take_mode(attributes.receive_flags);
        }
        if let Some(request) = &setup.request {
            // Nobody solicits the completions of one's own requests.
            request.take_mode(attributes.request_flags & !CompletionFlags::SOLICITED_WAIT.bits());
        }
        let pieces = |number: i32| number.max(0) as usize;
        Ok(Self {
            limits: PostLimits {
                receive_pieces: pieces(attributes.max_receive_pieces),
                send_pieces: pieces(attributes.max_request_pieces),
                read_pieces: pieces(attributes.max_read_pieces),
                write_pieces: pieces(attributes.max_write_pieces),
                message: attributes.max_message_size,
                rdma: attributes.max_rdma_size,
                silent_receives: silent(attributes.receive_flags),
                silent_requests: silent(attributes.request_flags),
            },
            pair,
            receive: setup.receive.clone(),
            request: setup.request.clone(),
            idle_queue,
            observer,
            is_shared: shared.is_some(),
            binds: Mutex::new(VecDeque::new()),
            tags,
            live: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            hides: AtomicBool::new(false),
            next: OnceLock::new(),
        })
    }

    /// Shows the endpoint's completions to its dispatchers.
    pub(super) fn connect_dispatchers(&self, endpoint: &Arc<Endpoint>) {
        for dispatcher in [&self.receive, &self.request].into_iter().flatten() {
            dispatcher.add_endpoint(self.pair.number(), endpoint);
        }
    }

    /// Nothing is posted to it any more.
    pub(super) fn retire(&self) {
        self.live.store(false, Ordering::Release);
    }

    /// Gives the queue pair back: nothing of it will be seen any more. The caller holds no lock.
    pub(super) fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        // Nobody acknowledges the asynchronous events of the engine, for nobody takes them.
        let _ = self.pair.destroy();
        for dispatcher in [&self.receive, &self.request].into_iter().flatten() {
            dispatcher.remove_endpoint(self.pair.number());
        }
        if let Some(request) = self.request.as_ref().filter(|_| self.hides.load(Ordering::Acquire)) {
            request.expect_less_hidden(self.pair.capabilities().send_requests);
        }
        if let Some(queue) = &self.idle_queue {
            let _ = queue.destroy();
        }
        self.flush_binds();
    }

    /// Back to the state in which receives can be posted, empty.
    pub(super) fn reset(&self) -> DatResult<()> {
        let attributes = QpAttributes { state: QpState::Reset, ..QpAttributes::default() };
        let internal = DatError::new(crate::error::Kind::InternalError, Subtype::None);
        self.pair.modify(&attributes, AttributeMask::STATE).map_err(|_| internal)?;
        for dispatcher in [&self.receive, &self.request].into_iter().flatten() {
            dispatcher.forget_completions(self.pair.number());
        }
        if let Some(tags) = &self.tags {
            tags.requests.forget();
            tags.receives.iter().for_each(Numbered::forget);
        }
        self.observer.reset();
        self.flush_binds();
        to_init(&self.pair)
    }

    // Binds.

    fn binds(&self) -> MutexGuard<'_, VecDeque<Bind>> {
        self.binds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a bind under a number of its own, which counts only if `post` took it.
    pub(super) fn post_bind(
        &self,
        region: &Arc<RemoteRegion>,
        key: Key,
        cookie: u64,
        suppressed: bool,
        silent: bool,
        post: impl FnOnce(u64) -> DatResult<()>,
    ) -> DatResult<()> {
        let id = if silent { SILENT } else { 0 } | if suppressed { HIDDEN } else { 0 };
        if suppressed
            && let Some(request) = &self.request
            && !self.hides.swap(true, Ordering::AcqRel)
        {
            request.expect_hidden(self.pair.capabilities().send_requests);
        }
        // Numbers of binds follow one another as the binds do in the queue pair: the lock is held while it is posted.
        let mut binds = self.binds();
        binds.push_back(Bind { cookie, region: Arc::clone(region), key, suppressed });
        let posted = post(id);
        if posted.is_err() {
            binds.pop_back();
        }
        posted
    }

    /// The oldest bind has ended.
    pub(super) fn end_bind(&self, status: TransferStatus) -> Option<Shown> {
        let bind = self.binds().pop_front()?;
        bind.region.bind_completed(bind.key);
        if bind.suppressed && status == TransferStatus::Success {
            return None;
        }
        Some(Shown::Bind { region: bind.region, cookie: bind.cookie, status })
    }

    /// Gives back the places of requests that are over, and whose completions do not wait to be taken; whether there is room
    /// then.
    pub(super) fn reclaim(&self) -> bool {
        if let Some(request) = &self.request {
            request.take_hidden();
        }
        self.pair.reclaim()
    }

    /// Binds whose end nobody will see.
    fn flush_binds(&self) {
        let binds = std::mem::take(&mut *self.binds());
        for bind in binds {
            bind.region.bind_completed(bind.key);
        }
    }

    /// Whether its dispatcher of requests takes the ends of binds.
    pub(super) fn takes_binds(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.streams().contains(Streams::BIND))
    }

    /// Whether the id of a completion says whether it notifies.
    pub(super) fn numbers(&self, is_receive: bool) -> bool {
        self.tags.as_ref().is_some_and(|tags| !is_receive || tags.receives.is_some())
    }

    /// The consumer's mark of a request whose completion is shown now.
    pub(super) fn cookie(&self, is_receive: bool, id: u64) -> u64 {
        match &self.tags {
            Some(tags) if is_receive => match &tags.receives {
                Some(receives) => receives.take(id),
                None => id,
            },
            Some(tags) => tags.requests.take(id),
            None => id,
        }
    }
}

/// Moves a new or reset queue pair to INIT. What peers may do is decided by privileges of memory alone.
fn to_init(pair: &QueuePair) -> DatResult<()> {
    use AttributeMask as A;
    let attributes = QpAttributes {
        state: QpState::Init,
        port: PORT,
        access: Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
        ..QpAttributes::default()
    };
    pair.modify(&attributes, A::STATE | A::PKEY_INDEX | A::PORT | A::ACCESS_FLAGS)
        .map_err(|_| DatError::resources(Subtype::Resource(Resource::TransportEndpoint)))
}
