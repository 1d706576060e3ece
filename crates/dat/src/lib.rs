//! uDAPL: interface adapters, endpoints, event dispatchers, service points, local and remote memory regions.
//!
//! What both versions of the C interface (1.2 and 2.0) and the Rust API share. Objects are `Arc`s that any thread may use;
//! sizes are in bytes, addresses are the program's own.

#![deny(unsafe_code)]

mod asker;
mod attributes;
mod coherence;
mod connection_request;
mod endpoint;
mod error;
mod event;
mod event_dispatcher;
mod interface_adapter;
mod introduction;
mod line;
mod local_region;
mod mark;
mod members;
mod notification_object;
mod private_data;
mod protection_zone;
mod remote_region;
mod service_point;
mod shared_memory;
mod shared_receive_queue;
mod values;

pub use attributes::{AdapterAttributes, ProviderAttributes};
pub use connection_request::{ConnectionRequest, RequestFacts};
pub use endpoint::{
    AtomicChange, Endpoint, EndpointAttributes, EndpointChange, EndpointFacts, EndpointSetup, forbidden_by,
};
pub use error::{AccessKind, DatError, DatResult, HandleKind, Kind, Resource, StateKind, Subtype};
pub use event::{AsyncObject, Event, ServicePoint};
pub use event_dispatcher::{DispatcherFacts, EventDispatcher};
pub use interface_adapter::{AsyncEvents, InterfaceAdapter, OpenOptions};
pub use local_region::{Cookie, Description, LocalRegion, RegionFacts};
pub use mark::Mark;
pub use nonic_device::{ProgramAddress, log_to_standard_error};
pub use notification_object::{Agent, NotificationObject};
pub use protection_zone::ProtectionZone;
pub use remote_region::{RemoteRegion, RemoteRegionFacts};
pub use service_point::{PublicPointFacts, PublicServicePoint, ReservedPointFacts, ReservedServicePoint};
pub use shared_receive_queue::{SharedQueueAttributes, SharedQueueFacts, SharedReceiveQueue};
pub use values::{
    AsyncError, CompletionFlags, ConnectionEvent, EndpointState, Privileges, RemoteSegment, Segment, Streams,
    TransferKind, TransferStatus,
};
