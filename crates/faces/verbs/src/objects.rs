//! The kinds of objects programs hold pointers to, and the table of each.

use std::sync::Arc;

use nonic_device::{
    AddressHandle, AddressVector, AttributeMask, Busy, Capabilities, CompletionChannel, CompletionQueue,
    Context, DeviceMemory, ExtendedDomain, MemoryWindow, ModifyError, OpenedQueuePair, PostError,
    QpAttributes, QpNumber, QpType, QueuePair, Region, SharedReceiveQueue, ThreadDomain, Zone, ZoneId,
};

use crate::abi::{
    ibv_ah, ibv_comp_channel, ibv_context, ibv_counters, ibv_cq, ibv_cq_ex, ibv_dm, ibv_dmah, ibv_mr, ibv_mw,
    ibv_pd, ibv_qp, ibv_qp_ex, ibv_srq, ibv_td, ibv_xrcd, verbs_context,
};
use crate::builder::Builder;
use crate::entry::buffer::{Buffer, ibv_buf};
use crate::entry::counters::Counted;
use crate::errno::Errno;
use crate::reader::Reader;
use crate::registry::{Face, Registry};

/// The device behind a program's context; `EINVAL` for a pointer that is none, `EIO` if the device has failed.
pub(crate) fn working(context: *const ibv_context) -> Result<Arc<Context>, Errno> {
    let engine = CONTEXTS.parent(context)?;
    if engine.has_failed() { Err(Errno::EIO) } else { Ok(engine) }
}

/// What a request of a queue pair says of where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressing {
    /// Nothing: to the one peer.
    Peer,
    /// `wr.ud`.
    Datagram,
    /// `qp_type.xrc`.
    Queue,
}

/// A queue pair, with what posting needs to know before it asks the engine.
#[derive(Clone)]
pub(crate) struct QueuePairParts {
    engine: Had,
    /// Which of the members that say it mean anything.
    pub(crate) addressing: Addressing,
    /// If it was created with `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
    pub(crate) builder: Option<Arc<Builder>>,
}

/// How a program has a queue pair.
#[derive(Clone)]
enum Had {
    Created(Arc<QueuePair>),
    /// Somebody else created it, perhaps another process.
    Opened(Arc<OpenedQueuePair>),
}

impl QueuePairParts {
    /// `operations` are those its builder may be asked for, if it is to have one.
    pub(crate) fn new(engine: Arc<QueuePair>, operations: Option<u64>) -> Self {
        let addressing = match engine.transport() {
            QpType::UnreliableDatagram => Addressing::Datagram,
            QpType::ExtendedSend => Addressing::Queue,
            _ => Addressing::Peer,
        };
        let builder = operations
            .map(|operations| Arc::new(Builder::new(operations, engine.capabilities(), addressing)));
        Self { engine: Had::Created(engine), addressing, builder }
    }

    /// One that somebody else created.
    pub(crate) fn opened(opened: Arc<OpenedQueuePair>) -> Self {
        Self { engine: Had::Opened(opened), addressing: Addressing::Peer, builder: None }
    }

    /// What requests are posted to. One that another process has takes none, as it would not there: it only receives.
    #[inline]
    pub(crate) fn pair(&self) -> Result<&Arc<QueuePair>, PostError> {
        match &self.engine {
            Had::Created(pair) => Ok(pair),
            Had::Opened(opened) => {
                opened.pair().ok_or(PostError::WrongOperation { transport: QpType::ExtendedReceive })
            }
        }
    }

    pub(crate) fn number(&self) -> QpNumber {
        match &self.engine {
            Had::Created(pair) => pair.number(),
            Had::Opened(opened) => opened.number(),
        }
    }

    /// Everything that was set. `EIO` if its device has failed, or its process has ended.
    pub(crate) fn attributes(&self) -> Result<QpAttributes, Errno> {
        if self.pair().is_ok_and(|pair| pair.has_failed()) {
            return Err(Errno::EIO);
        }
        match &self.engine {
            Had::Created(pair) => Ok(pair.attributes()),
            Had::Opened(opened) => Ok(opened.attributes()?),
        }
    }

    /// Its sizes, and whether every send makes a completion.
    pub(crate) fn sizes(&self) -> (Capabilities, bool) {
        self.pair().map_or_else(|_| Default::default(), |pair| (pair.capabilities(), pair.signals_all()))
    }

    pub(crate) fn modify(&self, attributes: &QpAttributes, mask: AttributeMask) -> Result<(), ModifyError> {
        match &self.engine {
            Had::Created(pair) => pair.modify(attributes, mask),
            Had::Opened(opened) => opened.modify(attributes, mask),
        }
    }

    /// Gives it back.
    pub(crate) fn destroy(&self) -> Result<(), Busy> {
        match &self.engine {
            Had::Created(pair) => pair.destroy(),
            Had::Opened(opened) => {
                opened.close();
                Ok(())
            }
        }
    }

    pub(crate) fn acknowledge_async_event(&self) {
        match &self.engine {
            Had::Created(pair) => pair.acknowledge_async_event(),
            Had::Opened(opened) => opened.acknowledge_async_event(),
        }
    }
}

/// A completion queue as programs see it, and behind that where its reader is.
#[repr(C)]
pub(crate) struct CompletionQueueFace {
    pub(crate) shown: ibv_cq_ex,
    pub(crate) reader: Reader,
}

/// An address handle, with copies of what each datagram sent through it carries.
#[derive(Clone)]
pub(crate) struct AddressHandleParts {
    pub(crate) engine: Arc<AddressHandle>,
    pub(crate) vector: AddressVector,
    pub(crate) zone: ZoneId,
}

pub(crate) static CONTEXTS: Registry<verbs_context, Arc<Context>> = Registry::new();
pub(crate) static ZONES: Registry<ibv_pd, Arc<Zone>> = Registry::new();
pub(crate) static THREAD_DOMAINS: Registry<ibv_td, Arc<ThreadDomain>> = Registry::new();
pub(crate) static COUNTERS: Registry<ibv_counters, Arc<Counted>> = Registry::new();
pub(crate) static BUFFERS: Registry<ibv_buf, Arc<Buffer>> = Registry::new();
pub(crate) static HINTS: Registry<ibv_dmah, ()> = Registry::new();
pub(crate) static REGIONS: Registry<ibv_mr, Arc<Region>> = Registry::new();
pub(crate) static WINDOWS: Registry<ibv_mw, Arc<MemoryWindow>> = Registry::new();
pub(crate) static DEVICE_MEMORIES: Registry<ibv_dm, Arc<DeviceMemory>> = Registry::new();
pub(crate) static CHANNELS: Registry<ibv_comp_channel, Arc<CompletionChannel>> = Registry::new();
pub(crate) static COMPLETION_QUEUES: Registry<CompletionQueueFace, Arc<CompletionQueue>> = Registry::new();
pub(crate) static SHARED_RECEIVE_QUEUES: Registry<ibv_srq, Arc<SharedReceiveQueue>> = Registry::new();
pub(crate) static QUEUE_PAIRS: Registry<ibv_qp_ex, QueuePairParts> = Registry::new();
pub(crate) static EXTENDED_DOMAINS: Registry<ibv_xrcd, Arc<ExtendedDomain>> = Registry::new();
pub(crate) static ADDRESS_HANDLES: Registry<ibv_ah, AddressHandleParts> = Registry::new();

macro_rules! faces_with_handle {
    ($($name:ty),*) => {$(
        // SAFETY: the program's pointer is to the structure itself; `handle` reads its field.
        unsafe impl Face for $name {
            type C = Self;
            const OFFSET: usize = 0;

            unsafe fn handle(this: *const Self) -> Option<u32> {
                // SAFETY: the caller says the structure is alive.
                Some(unsafe { (*this).handle })
            }
        }
    )*};
}

faces_with_handle!(ibv_pd, ibv_mr, ibv_mw, ibv_dm, ibv_srq, ibv_ah);

// SAFETY: the larger structure begins with the one the program's pointer is to; `handle` reads its field.
unsafe impl Face for ibv_qp_ex {
    type C = ibv_qp;
    const OFFSET: usize = 0;

    unsafe fn handle(this: *const ibv_qp) -> Option<u32> {
        // SAFETY: the caller says the structure is alive.
        Some(unsafe { (*this).handle })
    }
}

// SAFETY: the larger structure begins with the one the program's pointer is to; `handle` reads its field.
unsafe impl Face for CompletionQueueFace {
    type C = ibv_cq;
    const OFFSET: usize = 0;

    unsafe fn handle(this: *const ibv_cq) -> Option<u32> {
        // SAFETY: the caller says the structure is alive.
        Some(unsafe { (*this).handle })
    }
}

/// Makes faces of structures that have no handle, and that the program's pointer is to.
#[macro_export]
macro_rules! faces_without_handle {
    ($($name:ty),*) => {$(
        // SAFETY: the program's pointer is to the structure itself, which has no handle.
        unsafe impl $crate::registry::Face for $name {
            type C = Self;
            const OFFSET: usize = 0;

            unsafe fn handle(_: *const Self) -> Option<u32> {
                None
            }
        }
    )*};
}

crate::faces_without_handle!(ibv_comp_channel, ibv_td, ibv_xrcd, ibv_counters, ibv_buf, ibv_dmah);

// SAFETY: the program's pointer is to the `context` at the end of the larger structure; there is no handle.
unsafe impl Face for verbs_context {
    type C = ibv_context;
    const OFFSET: usize = core::mem::offset_of!(verbs_context, context);

    unsafe fn handle(_: *const ibv_context) -> Option<u32> {
        None
    }
}
