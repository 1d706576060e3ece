//! The kinds of objects programs hold pointers to, and the table of each.

use std::sync::Arc;

use nonic_device::{
    AddressHandle, AddressVector, CompletionChannel, CompletionQueue, Context, DeviceMemory, MemoryWindow,
    QpType, QueuePair, Region, SharedReceiveQueue, Zone, ZoneId,
};

use crate::abi::{
    ibv_ah, ibv_comp_channel, ibv_context, ibv_cq, ibv_dm, ibv_mr, ibv_mw, ibv_pd, ibv_qp, ibv_qp_ex,
    ibv_srq, verbs_context,
};
use crate::builder::Builder;
use crate::registry::{Face, Registry};

/// A queue pair, with what posting needs to know before it asks the engine.
#[derive(Clone)]
pub(crate) struct QueuePairParts {
    pub(crate) engine: Arc<QueuePair>,
    /// Only for these does a request's `wr.ud` mean anything.
    pub(crate) is_datagram: bool,
    /// If it was created with `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
    pub(crate) builder: Option<Arc<Builder>>,
}

impl QueuePairParts {
    /// `operations` are those its builder may be asked for, if it is to have one.
    pub(crate) fn new(engine: Arc<QueuePair>, operations: Option<u64>) -> Self {
        let is_datagram = engine.transport() == QpType::UnreliableDatagram;
        let builder = operations
            .map(|operations| Arc::new(Builder::new(operations, engine.capabilities(), is_datagram)));
        Self { engine, is_datagram, builder }
    }
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
pub(crate) static REGIONS: Registry<ibv_mr, Arc<Region>> = Registry::new();
pub(crate) static WINDOWS: Registry<ibv_mw, Arc<MemoryWindow>> = Registry::new();
pub(crate) static DEVICE_MEMORIES: Registry<ibv_dm, Arc<DeviceMemory>> = Registry::new();
pub(crate) static CHANNELS: Registry<ibv_comp_channel, Arc<CompletionChannel>> = Registry::new();
pub(crate) static COMPLETION_QUEUES: Registry<ibv_cq, Arc<CompletionQueue>> = Registry::new();
pub(crate) static SHARED_RECEIVE_QUEUES: Registry<ibv_srq, Arc<SharedReceiveQueue>> = Registry::new();
pub(crate) static QUEUE_PAIRS: Registry<ibv_qp_ex, QueuePairParts> = Registry::new();
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

faces_with_handle!(ibv_pd, ibv_mr, ibv_mw, ibv_dm, ibv_cq, ibv_srq, ibv_ah);

// SAFETY: the larger structure begins with the one the program's pointer is to; `handle` reads its field.
unsafe impl Face for ibv_qp_ex {
    type C = ibv_qp;
    const OFFSET: usize = 0;

    unsafe fn handle(this: *const ibv_qp) -> Option<u32> {
        // SAFETY: the caller says the structure is alive.
        Some(unsafe { (*this).handle })
    }
}

// SAFETY: the program's pointer is to the structure itself, which has no handle.
unsafe impl Face for ibv_comp_channel {
    type C = Self;
    const OFFSET: usize = 0;

    unsafe fn handle(_: *const Self) -> Option<u32> {
        None
    }
}

// SAFETY: the program's pointer is to the `context` at the end of the larger structure; there is no handle.
unsafe impl Face for verbs_context {
    type C = ibv_context;
    const OFFSET: usize = core::mem::offset_of!(verbs_context, context);

    unsafe fn handle(_: *const ibv_context) -> Option<u32> {
        None
    }
}
