//! uDAPL: interface adapters, endpoints, event dispatchers, service points, local and remote memory regions.
//!
//! What both versions of the C interface (1.2 and 2.0) and the Rust API share. Objects are `Arc`s that any thread may use;
//! sizes are in bytes, addresses are the program's own.

#![deny(unsafe_code)]

mod error;
mod mark;
mod values;

pub use error::{AccessKind, DatError, DatResult, HandleKind, Kind, Resource, StateKind, Subtype};
pub use mark::Mark;
pub use values::{
    AsyncError, CompletionFlags, ConnectionEvent, EndpointState, Privileges, RemoteSegment, Segment, Streams,
    TransferKind, TransferStatus,
};
