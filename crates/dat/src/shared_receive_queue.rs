//! Shared receive queues: receives that several endpoints take.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nonic_device::{CreateError, Key, PostError, ReceiveRequest, ScatterGather, SharedReceiveObserver};
use nonic_sys::UseCount;

use crate::error::{DatError, DatResult, HandleKind, Resource, StateKind, Subtype};
use crate::event::AsyncObject;
use crate::interface_adapter::{ADAPTER_HANDLE, InterfaceAdapter};
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};
use crate::protection_zone::ProtectionZone;
use crate::values::{AsyncError, Segment};

/// Pieces of a receive at most.
const PIECES_MAX: usize = 32;
/// Bytes of a message at most.
const MESSAGE_MAX: u64 = 1 << 31;

/// Sizes of a shared receive queue (`DAT_SRQ_ATTR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedQueueAttributes {
    /// Receives, at least.
    pub max_receives: i32,
    /// Pieces in a receive.
    pub max_pieces: i32,
    /// 0 (`DAT_SRQ_LW_DEFAULT`) when it is created.
    pub low_watermark: i32,
}

/// What a shared receive queue is (`DAT_SRQ_PARAM`).
#[derive(Clone, Debug)]
pub struct SharedQueueFacts {
    /// Its zone.
    pub zone: Arc<ProtectionZone>,
    /// `DAT_SRQ_STATE`: whether it works.
    pub operational: bool,
    /// Its sizes.
    pub attributes: SharedQueueAttributes,
    /// Receives that no endpoint has taken.
    pub available: i32,
    /// Receives that were posted and whose completions were not handed out.
    pub outstanding: i32,
}

/// A shared receive queue (`dat_srq_create`).
#[derive(Debug)]
pub struct SharedReceiveQueue {
    mark: Mark,
    membership: Membership,
    zone: Arc<ProtectionZone>,
    queue: Arc<nonic_device::SharedReceiveQueue>,
    /// Endpoints.
    users: UseCount,
    attributes: Mutex<SharedQueueAttributes>,
}

const QUEUE_HANDLE: DatError = DatError::handle(Subtype::Handle(HandleKind::SharedReceiveQueue));
const IN_USE: DatError = DatError::state(Subtype::State(StateKind::SrqInUse));
const NONE_LEFT: DatError = DatError::resources(Subtype::Resource(Resource::SharedReceiveQueue));

impl SharedReceiveQueue {
    /// Makes a queue. `INVALID_HANDLE|PZ`; `INVALID_PARAMETER|ARG3` for sizes below 1 or a watermark, which is set later;
    /// `INSUFFICIENT_RESOURCES|SRQ` beyond the adapter's limits.
    pub fn create(
        adapter: &Arc<InterfaceAdapter>,
        zone: &Arc<ProtectionZone>,
        attributes: SharedQueueAttributes,
    ) -> DatResult<Arc<Self>> {
        adapter.check_open()?;
        let SharedQueueAttributes { max_receives, max_pieces, low_watermark } = attributes;
        if max_receives < 1 || max_pieces < 1 || low_watermark != 0 {
            return Err(DatError::argument(3));
        }
        zone.hold(adapter)?;
        let made = zone.zone().create_shared_receive_queue(max_receives as u32, max_pieces as u32, 0, 0);
        let queue = made.map_err(|_| {
            zone.release();
            NONE_LEFT
        })?;
        let created = Arc::new(Self {
            mark: Mark::default(),
            membership: Membership::new(MemberKind::SharedReceiveQueue),
            zone: Arc::clone(zone),
            queue,
            users: UseCount::default(),
            attributes: Mutex::new(attributes),
        });
        let queue = Arc::downgrade(&created);
        created.queue.observe(Arc::new(LowWatermark { queue }));
        adapter.join(&created)?;
        Ok(created)
    }

    /// The face's word.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        self.zone.adapter()
    }

    /// The engine's queue.
    pub(crate) fn queue(&self) -> &Arc<nonic_device::SharedReceiveQueue> {
        &self.queue
    }

    /// Counts an endpoint; `INVALID_HANDLE|SRQ` if it was freed.
    pub(crate) fn hold(&self) -> DatResult<()> {
        if self.users.acquire() { Ok(()) } else { Err(QUEUE_HANDLE) }
    }

    /// Counts an endpoint less.
    pub(crate) fn release(&self) {
        self.users.release();
    }

    fn attributes(&self) -> MutexGuard<'_, SharedQueueAttributes> {
        self.attributes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_alive(&self) -> DatResult<()> {
        if self.users.is_closed() { Err(QUEUE_HANDLE) } else { Ok(()) }
    }

    /// Posts a receive; its completion comes from the endpoint that takes it. Pieces of length 0 are skipped. Contexts,
    /// bounds and privileges are judged when a message comes. `INVALID_PARAMETER|ARG2` for too many pieces,
    /// `INSUFFICIENT_RESOURCES|SRQ` if the queue is full.
    pub fn post_receive(&self, pieces: impl ExactSizeIterator<Item = Segment>, cookie: u64) -> DatResult<()> {
        self.check_alive()?;
        let mut list = [ScatterGather { address: 0, length: 0, key: Key(0) }; PIECES_MAX];
        let mut count = 0;
        if pieces.len() > PIECES_MAX {
            return Err(DatError::argument(2));
        }
        for Segment { context, address, length } in pieces {
            if length > 0 {
                // No message is longer, so that what is cut off would never be written to.
                let length = length.min(MESSAGE_MAX) as u32;
                list[count] = ScatterGather { address, length, key: Key(context) };
                count += 1;
            }
        }
        let posted = self.queue.post_receive(&ReceiveRequest { id: cookie, pieces: &list[..count] });
        posted.map_err(|error| match error {
            PostError::TooManyPieces { .. } => DatError::argument(2),
            PostError::Gone => ADAPTER_HANDLE,
            _ => NONE_LEFT,
        })
    }

    /// What it is. `INVALID_HANDLE|SRQ` if it was freed.
    pub fn facts(&self) -> DatResult<SharedQueueFacts> {
        self.check_alive()?;
        Ok(SharedQueueFacts {
            zone: Arc::clone(&self.zone),
            operational: true,
            attributes: *self.attributes(),
            available: self.available(),
            outstanding: self.outstanding(),
        })
    }

    fn available(&self) -> i32 {
        self.queue.waiting() as i32
    }

    /// Those that wait, those that messages are being placed in, and those whose completions nobody was handed yet.
    fn outstanding(&self) -> i32 {
        let unfinished = self.queue.unfinished();
        (unfinished + self.adapter().receives_to_show(self)) as i32
    }

    /// Changes how many receives it takes; those that are there stay. `INVALID_PARAMETER|ARG2` below 1,
    /// `INSUFFICIENT_RESOURCES|SRQ` beyond the adapter's limit, `INVALID_STATE|SRQ_IN_USE` below what is outstanding or below
    /// the low watermark.
    pub fn resize(&self, max_receives: i32) -> DatResult<()> {
        self.check_alive()?;
        if max_receives < 1 {
            return Err(DatError::argument(2));
        }
        let mut attributes = self.attributes();
        if max_receives < self.outstanding() || max_receives < attributes.low_watermark {
            return Err(IN_USE);
        }
        self.queue.resize(max_receives as u32).map_err(|error| match error {
            CreateError::StillHolds { .. } => IN_USE,
            CreateError::Gone => ADAPTER_HANDLE,
            _ => NONE_LEFT,
        })?;
        attributes.max_receives = max_receives;
        Ok(())
    }

    /// Has one asynchronous event (`SRQ_LOW_WATERMARK`) raised when fewer receives than this are left, at once if that is so
    /// already. 0 takes it back. `INVALID_PARAMETER|ARG2` below 0 or above the size of the queue.
    pub fn set_low_watermark(&self, low_watermark: i32) -> DatResult<()> {
        self.check_alive()?;
        let mut attributes = self.attributes();
        if low_watermark < 0 || low_watermark > attributes.max_receives {
            return Err(DatError::argument(2));
        }
        attributes.low_watermark = low_watermark;
        drop(attributes);
        self.queue.set_limit(low_watermark as u32).map_err(|_| DatError::argument(2))
    }

    /// Gives it back; receives in it are gone without completions. `INVALID_STATE|SRQ_IN_USE` while endpoints use it.
    pub fn free(&self) -> DatResult<()> {
        if self.users.close().is_err() {
            return Err(if self.users.is_closed() { QUEUE_HANDLE } else { IN_USE });
        }
        self.let_go();
        Ok(())
    }

    fn let_go(&self) {
        let _ = self.queue.destroy();
        self.zone.release();
        self.adapter().leave(&self.membership);
    }
}

/// Raises the event when few receives are left.
#[derive(Debug)]
struct LowWatermark {
    queue: Weak<SharedReceiveQueue>,
}

/// `DAT_SRQ_LOW_WATERMARK_EVENT`.
const LOW_WATERMARK: i32 = 2;

impl SharedReceiveObserver for LowWatermark {
    fn limit_reached(&self) {
        let queue = Weak::clone(&self.queue);
        nonic_connection::run(move || {
            if let Some(queue) = queue.upgrade() {
                let about = AsyncObject::SharedReceives(&queue);
                queue.adapter().raise(AsyncError::ProviderInternalError, about, LOW_WATERMARK);
            }
        });
    }
}

impl Member for SharedReceiveQueue {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn end(&self) {
        if self.users.close_anyway() {
            self.let_go();
        }
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        self.end();
    }
}
