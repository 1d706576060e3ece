//! uDAPL: interface adapters, endpoints, event dispatchers, service points, local and remote memory regions.
//!
//! What both versions of the C interface (1.2 and 2.0) and the Rust API share. Objects are `Arc`s that any thread may use;
//! sizes are in bytes, addresses are the program's own.

#![deny(unsafe_code)]

mod attributes;
mod coherence;
mod error;
mod interface_adapter;
mod local_region;
mod mark;
mod members;
mod protection_zone;
mod remote_region;
mod shared_memory;
mod shared_receive_queue;
mod use_count;
mod values;

pub use attributes::{AdapterAttributes, ProviderAttributes};
pub use error::{AccessKind, DatError, DatResult, HandleKind, Kind, Resource, StateKind, Subtype};
pub use interface_adapter::{AsyncEvents, InterfaceAdapter, OpenOptions};
pub use local_region::{Cookie, Description, LocalRegion, RegionFacts};
pub use mark::Mark;
pub use protection_zone::ProtectionZone;
pub use remote_region::{RemoteRegion, RemoteRegionFacts};
pub use shared_receive_queue::{SharedQueueAttributes, SharedQueueFacts, SharedReceiveQueue};
pub use values::{
    AsyncError, CompletionFlags, ConnectionEvent, EndpointState, Privileges, RemoteSegment, Segment, Streams,
    TransferKind, TransferStatus,
};

// Until the files of these objects are here.
mod event {
    use std::sync::Arc;

    use crate::{InterfaceAdapter, SharedReceiveQueue};

    #[derive(Clone, Copy, Debug)]
    #[allow(dead_code)]
    pub(crate) enum AsyncObject<'a> {
        Adapter(&'a Arc<InterfaceAdapter>),
        SharedReceives(&'a Arc<SharedReceiveQueue>),
    }
}
mod event_dispatcher {
    use std::sync::Arc;

    use crate::event::AsyncObject;
    use crate::{AsyncError, DatError, DatResult, InterfaceAdapter};

    /// Takes events and hands them out.
    #[derive(Debug)]
    pub struct EventDispatcher;

    impl EventDispatcher {
        pub(crate) fn create_async(adapter: &Arc<InterfaceAdapter>, length: i32) -> DatResult<Arc<Self>> {
            let _ = (adapter, length);
            Err(DatError::MODEL_NOT_SUPPORTED)
        }
        pub(crate) fn hold(&self) -> DatResult<()> {
            Ok(())
        }
        pub(crate) fn release(&self) {}
        pub(crate) fn abort(&self) {}
        pub(crate) fn push_async(&self, kind: AsyncError, object: AsyncObject<'_>, reason: i32) {
            let _ = (kind, object, reason);
        }
    }
}
mod endpoint {
    use std::sync::Arc;

    use crate::{CompletionFlags, DatError, DatResult, ProtectionZone, RemoteRegion};

    /// One end of a connection.
    #[derive(Debug)]
    pub struct Endpoint;

    impl Endpoint {
        pub(crate) fn zone(&self) -> Option<Arc<ProtectionZone>> {
            None
        }
        pub(crate) fn check_can_request(&self) -> DatResult<()> {
            Err(DatError::MODEL_NOT_SUPPORTED)
        }
        pub(crate) fn request_flags(&self) -> CompletionFlags {
            CompletionFlags::DEFAULT
        }
        pub(crate) fn post_bind(
            &self,
            region: &Arc<RemoteRegion>,
            operation: nonic_device::Operation,
            cookie: u64,
            flags: CompletionFlags,
        ) -> DatResult<()> {
            let _ = (region, operation, cookie, flags);
            Err(DatError::MODEL_NOT_SUPPORTED)
        }
    }
}
pub use endpoint::Endpoint;
pub use event_dispatcher::EventDispatcher;
