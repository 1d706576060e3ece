//! Events: what a dispatcher hands out, and what it keeps until then.

use std::net::SocketAddr;
use std::sync::Arc;

use nonic_sys::Share;

use crate::connection_request::ConnectionRequest;
use crate::endpoint::Endpoint;
use crate::event_dispatcher::EventDispatcher;
use crate::interface_adapter::InterfaceAdapter;
use crate::remote_region::RemoteRegion;
use crate::service_point::{PublicServicePoint, ReservedServicePoint};
use crate::shared_receive_queue::SharedReceiveQueue;
use crate::values::{AsyncError, ConnectionEvent, TransferKind, TransferStatus};

/// An event as it is handed out, borrowed for the duration of that call.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A data transfer operation ended.
    Transfer {
        /// The endpoint it was posted to, or that took the receive.
        endpoint: &'a Arc<Endpoint>,
        /// The consumer's own mark.
        cookie: u64,
        /// How it ended.
        status: TransferStatus,
        /// Bytes received, sent, written or read; 0 unless it succeeded.
        length: u64,
        /// What it was.
        kind: TransferKind,
        /// The peer's word, of a receive that a write with immediate data has used up; else 0.
        immediate: u32,
    },
    /// The bind of an RMR ended.
    Bind {
        /// The RMR.
        region: &'a Arc<RemoteRegion>,
        /// The consumer's own mark.
        cookie: u64,
        /// How it ended.
        status: TransferStatus,
    },
    /// Somebody wants to connect.
    Request {
        /// Where.
        point: ServicePoint<'a>,
        /// The local address the peer asked for.
        address: SocketAddr,
        /// The connection qualifier the peer asked for.
        conn_qual: u64,
        /// The request.
        request: &'a Arc<ConnectionRequest>,
    },
    /// Something became of a connection.
    Connection {
        /// What.
        kind: ConnectionEvent,
        /// Whose.
        endpoint: &'a Arc<Endpoint>,
        /// What the peer said with it.
        private_data: &'a Arc<[u8]>,
    },
    /// An asynchronous error.
    Async {
        /// Which.
        kind: AsyncError,
        /// About what.
        object: AsyncObject<'a>,
        /// More about it (`DAT_*_ASYNC_ERROR_*` reasons), in the numbers of the kind of object.
        reason: i32,
    },
    /// A software event.
    Software {
        /// The pointer given to `dat_evd_post_se`.
        pointer: usize,
    },
}

/// A service point that got a request.
#[derive(Clone, Copy, Debug)]
pub enum ServicePoint<'a> {
    /// A public one.
    Public(&'a Arc<PublicServicePoint>),
    /// A reserved one.
    Reserved(&'a Arc<ReservedServicePoint>),
}

/// What an asynchronous error is about.
#[derive(Clone, Copy, Debug)]
pub enum AsyncObject<'a> {
    /// The adapter, or a dispatcher of it that overflowed.
    Adapter(&'a Arc<InterfaceAdapter>),
    /// A dispatcher.
    Dispatcher(&'a Arc<EventDispatcher>),
    /// An endpoint.
    Endpoint(&'a Arc<Endpoint>),
    /// A shared receive queue.
    SharedReceives(&'a Arc<SharedReceiveQueue>),
}

/// An event of any stream but completions, as a dispatcher keeps it.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    Request {
        point: KeptPoint,
        address: SocketAddr,
        conn_qual: u64,
        request: Arc<ConnectionRequest>,
        /// Of the dispatcher's events, for as long as it waits there.
        _place: Arc<Share>,
    },
    Connection {
        kind: ConnectionEvent,
        endpoint: Arc<Endpoint>,
        private_data: Arc<[u8]>,
    },
    Async {
        kind: AsyncError,
        object: KeptObject,
        reason: i32,
    },
    Software {
        pointer: usize,
    },
}

/// [`ServicePoint`], owned.
#[derive(Clone, Debug)]
pub(crate) enum KeptPoint {
    Public(Arc<PublicServicePoint>),
    Reserved(Arc<ReservedServicePoint>),
}

/// [`AsyncObject`], owned.
#[derive(Clone, Debug)]
pub(crate) enum KeptObject {
    Adapter(Arc<InterfaceAdapter>),
    Dispatcher(Arc<EventDispatcher>),
    Endpoint(Arc<Endpoint>),
    SharedReceives(Arc<SharedReceiveQueue>),
}

impl Kept {
    /// The event as it is handed out.
    pub(crate) fn event(&self) -> Event<'_> {
        match self {
            Self::Request { point, address, conn_qual, request, .. } => {
                let point = match point {
                    KeptPoint::Public(point) => ServicePoint::Public(point),
                    KeptPoint::Reserved(point) => ServicePoint::Reserved(point),
                };
                Event::Request { point, address: *address, conn_qual: *conn_qual, request }
            }
            Self::Connection { kind, endpoint, private_data } => {
                Event::Connection { kind: *kind, endpoint, private_data }
            }
            Self::Async { kind, object, reason } => {
                let object = match object {
                    KeptObject::Adapter(adapter) => AsyncObject::Adapter(adapter),
                    KeptObject::Dispatcher(dispatcher) => AsyncObject::Dispatcher(dispatcher),
                    KeptObject::Endpoint(endpoint) => AsyncObject::Endpoint(endpoint),
                    KeptObject::SharedReceives(queue) => AsyncObject::SharedReceives(queue),
                };
                Event::Async { kind: *kind, object, reason: *reason }
            }
            Self::Software { pointer } => Event::Software { pointer: *pointer },
        }
    }

    /// Whether it is about this endpoint.
    pub(crate) fn is_of_endpoint(&self, endpoint: &Endpoint) -> bool {
        match self {
            Self::Connection { endpoint: of, .. } | Self::Async { object: KeptObject::Endpoint(of), .. } => {
                std::ptr::eq(Arc::as_ptr(of), endpoint)
            }
            _ => false,
        }
    }
}
