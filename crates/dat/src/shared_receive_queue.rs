//! Shared receive queues: receives that several endpoints take.

use std::sync::Arc;

use crate::error::{DatError, DatResult, HandleKind, Subtype};
use crate::interface_adapter::InterfaceAdapter;
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};
use crate::protection_zone::ProtectionZone;
use crate::use_count::UseCount;
use crate::values::Segment;

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
}

const QUEUE_HANDLE: DatError = DatError::handle(Subtype::Handle(HandleKind::SharedReceiveQueue));

impl SharedReceiveQueue {
    /// Makes a queue.
    pub fn create(
        adapter: &Arc<InterfaceAdapter>,
        zone: &Arc<ProtectionZone>,
        attributes: SharedQueueAttributes,
    ) -> DatResult<Arc<Self>> {
        adapter.check_open()?;
        let _ = (zone, attributes, MemberKind::SharedReceiveQueue);
        Err(QUEUE_HANDLE)
    }

    /// The face's word.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        self.zone.adapter()
    }

    /// Its zone.
    pub(crate) fn protection_zone(&self) -> &Arc<ProtectionZone> {
        &self.zone
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

    /// Posts a receive.
    pub fn post_receive(&self, pieces: impl ExactSizeIterator<Item = Segment>, cookie: u64) -> DatResult<()> {
        let _ = (pieces, cookie);
        Err(QUEUE_HANDLE)
    }

    /// What it is.
    pub fn facts(&self) -> DatResult<SharedQueueFacts> {
        Err(QUEUE_HANDLE)
    }

    /// Changes how many receives it takes.
    pub fn resize(&self, max_receives: i32) -> DatResult<()> {
        let _ = max_receives;
        Err(QUEUE_HANDLE)
    }

    /// Has one asynchronous event raised when fewer receives than this are left.
    pub fn set_low_watermark(&self, low_watermark: i32) -> DatResult<()> {
        let _ = low_watermark;
        Err(QUEUE_HANDLE)
    }

    /// Gives it back.
    pub fn free(&self) -> DatResult<()> {
        Err(QUEUE_HANDLE)
    }
}

impl Member for SharedReceiveQueue {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn end(&self) {}
}
