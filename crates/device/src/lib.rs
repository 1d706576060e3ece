//! The software RDMA device: contexts, zones, regions, queues and queue pairs, the engine that drives them and the agent
//! thread that does so while the program is busy.
//!
//! Everything here is what the C faces and the Rust API share. Objects are `Arc`s that any thread may use; sizes are
//! in bytes, addresses are the program's own.

#![deny(unsafe_code)]

// What the tests of the crate and those beside it share names it so.
#[cfg(test)]
extern crate self as nonic_device;

mod active_mtu;
mod agent;
mod async_event;
mod bytes;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
mod completion_channel;
mod completion_queue;
mod config;
mod context;
mod counted;
mod device;
mod device_memory;
mod engine;
mod engine_handle;
mod error;
mod ethernet;
mod event_wait;
mod events;
mod exports;
mod exposed;
mod faults;
mod gid_table;
mod group_membership;
mod happening;
mod importing;
mod known_memory;
mod limits;
mod logging;
mod management;
mod management_datagrams;
mod management_port;
mod memory_window;
mod multicast;
mod nowhere;
mod open_files;
mod origin;
mod own_thread;
mod pair_table;
mod peer_access;
mod peer_address;
mod port;
mod port_state;
mod presence;
mod process;
mod program_memory;
mod queue_pair;
mod region;
mod requester;
mod responder;
mod shadow;
mod shared_receive_queue;
mod surroundings;
mod turns;
mod wait_bell;
mod wire_address;
mod wired;
mod zone;

pub use async_event::{AsyncElement, AsyncEvent, AsyncEventKind};
pub use completion_channel::CompletionChannel;
pub use completion_queue::{
    BatchError, BatchReader, CompletionObserver, CompletionQueue, CompletionQueueOptions,
    Entry as CompletionEntry, Moderation, Stamp, raw_clock_ns,
};
pub use config::{Config, RestPolicy, WirePolicy};
pub use context::Context;
pub use counted::counters_of_user;
pub use device::{Device, devices, devices_with};
pub use device_memory::DeviceMemory;
pub use engine::{Observer, changes_made, observe_changes};
pub use engine_handle::EngineHandle;
pub use error::{
    Busy, CqOverrun, CreateError, DeviceMemoryError, ImportError, ModifyError, OpenError, RegisterError,
};
pub use ethernet::EthernetError;
pub use event_wait::{AsyncWait, ChannelWait, EventWait, Step};
pub use events::{EventAccount, EventQueue};
pub use exports::{Exported, Exporter, set_exporter};
pub use exposed::{
    ExposeError, Exposed, ExposedPlace, ExposedRun, expose, forget_own_pages, map_own_pages, own_pages,
};
pub use gid_table::{GidEntry, GidKind};
pub use group_membership::GroupMembership;
pub use importing::import_device;
pub use known_memory::SharedPlace;
pub use limits::Limits;
pub use logging::log_to_standard_error;
pub use management::{ManagementArrival, ManagementError, ManagementObserver};
pub use management_port::ManagementPort;
pub use memory_window::{MemoryWindow, WindowKind};
pub use multicast::GroupError;
pub use nonic_memory::*;
pub use nonic_protocol::{
    AddressVector, AttributeMask, Capabilities, Completion, CompletionOpcode, DatagramDestination,
    Destination, FlushRequest, GlobalRoute, Operation, Placement, PostError, QpAttributes, QpNumber, QpState,
    QpType, ReceiveRequest, RemoteRange, ScatterGather, Selectivity, SendFlags, SendRequest, SrqNumber,
    Status, TransitionError, WindowId, check_transition,
};
pub use nonic_transport::{Change, Counter, Counters, NoChange, Tier, Wanted};
pub use origin::Command;
pub use own_thread::{OwnThread, Starter};
pub use port::PortAttributes;
pub use process::{fork_init, is_fork_initialized};
pub use program_memory::ProgramAddress;
pub use queue_pair::{OpenedQueuePair, Posting, QueuePair, QueuePairObserver, QueuePairRequest};
pub use region::{PrefetchError, Region, RegionChange, RegionMemory, RegionRequest};
pub use shared_receive_queue::{
    DomainError, DomainFile, ExtendedDomain, SharedReceiveObserver, SharedReceiveQueue,
};
pub use wait_bell::{Among, WaitBell};
pub use zone::{AddressHandle, ThreadDomain, Zone};
