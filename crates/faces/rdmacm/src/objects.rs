//! The kinds of objects programs hold pointers to, and the table of each.

use std::net::IpAddr;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_rdma_cm::{Ece, Event, EventChannel, Id};
use nonic_verbs::errno::Errno;
use nonic_verbs::registry::Registry;

use crate::abi::{ibv_qp_init_attr, ibv_sa_path_rec, rdma_cm_event, rdma_cm_id, rdma_event_channel};
use crate::entry::address_info::AddressInfo;

/// What stands behind `struct rdma_cm_id`.
#[derive(Debug)]
pub(crate) struct Identifier {
    pub(crate) engine: Arc<Id>,
    rest: Mutex<Rest>,
}

/// What the original library keeps of an identifier beside the kernel.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// It has a channel of its own, on which its calls wait for their events.
    pub(crate) synchronous: bool,
    /// Of an endpoint that listens: what queue pairs are to be created with.
    pub(crate) template: Option<Template>,
    /// Of an endpoint that connects: what stands before the program's private data.
    pub(crate) connect_data: Box<[u8]>,
    /// Depths asked for, or those of the request.
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) local_ece: Ece,
    /// Groups joined to send to only.
    pub(crate) send_only: Vec<IpAddr>,
    /// CONNECT_ERROR was reported; what the connection's end brings after that is nobody's business.
    pub(crate) has_failed: bool,
    /// A name is being looked up, and what was found for the last one.
    pub(crate) looks_up: bool,
    pub(crate) address_info: Option<AddressInfo>,
    /// What `route.path_rec` points to.
    path: Option<Box<Path>>,
}

/// `qp_init_attr` of an endpoint.
#[derive(Clone, Copy)]
pub(crate) struct Template(pub(crate) ibv_qp_init_attr);

// SAFETY: the pointers in it are the program's, and looked up before they are followed.
unsafe impl Send for Template {}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Template").field("qp_type", &self.0.qp_type).finish_non_exhaustive()
    }
}

struct Path(ibv_sa_path_rec);

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Path").field("mtu", &self.0.mtu).finish_non_exhaustive()
    }
}

impl Identifier {
    pub(crate) fn new(engine: Arc<Id>, synchronous: bool) -> Arc<Self> {
        Arc::new(Self { engine, rest: Mutex::new(Rest { synchronous, ..Rest::default() }) })
    }

    pub(crate) fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_synchronous(&self) -> bool {
        self.rest().synchronous
    }
}

impl Rest {
    /// Keeps a path for as long as the identifier lives, in the place of the one before. The pointer is the program's.
    pub(crate) fn keep_path(&mut self, record: ibv_sa_path_rec) -> *mut ibv_sa_path_rec {
        &raw mut self.path.insert(Box::new(Path(record))).0
    }
}

/// What stands behind `struct rdma_cm_event`. The private data that the structure points to lies in it.
pub(crate) type EventParts = Arc<Event>;

pub(crate) static CHANNELS: Registry<rdma_event_channel, Arc<EventChannel>> = Registry::new();
pub(crate) static IDENTIFIERS: Registry<rdma_cm_id, Arc<Identifier>> = Registry::new();
pub(crate) static EVENTS: Registry<rdma_cm_event, EventParts> = Registry::new();

/// The object behind a program's identifier; `EINVAL` for a pointer that is none.
pub(crate) fn identifier(id: *const rdma_cm_id) -> Result<Arc<Identifier>, Errno> {
    IDENTIFIERS.parent(id)
}

/// The structure that the program knows the machine's identifier by; NULL if there is none, which is so before the request that
/// made it was delivered.
pub(crate) fn pointer_to(engine: &Id) -> *mut rdma_cm_id {
    ptr::with_exposed_provenance_mut(engine.cookie())
}

nonic_verbs::faces_without_handle!(rdma_event_channel, rdma_cm_id, rdma_cm_event);
