//! Why a call of the program was refused. A refused call changes nothing.

use std::io;

use nonic_memory::{Access, AddressRange, ArenaError, Key, LedgerError};
use nonic_protocol::TransitionError;
use nonic_sys::{CannotClose, UseCount};

/// Error returned by [`crate::Device::open`].
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel refused what a device needs.
    #[error(
        "the device cannot be opened: {what} failed: {source}; `nonic doctor` tells what this machine allows"
    )]
    System {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The engine was made before a `fork` by the parent, or its devices have failed.
    #[error(
        "the engine belongs to the parent, which made it before fork, or its devices have failed: make another"
    )]
    Gone,
}

/// Says what a system call was for.
pub(crate) fn asked<T>(what: &'static str, result: io::Result<T>) -> Result<T, OpenError> {
    result.map_err(|source| OpenError::System { what, source })
}

/// Error returned by the calls that create a zone, queue, channel or handle.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A size beyond the device's limits.
    #[error("{asked} {what}; the device goes from 1 to {limit}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// What was asked for.
        asked: u64,
        /// The most there is.
        limit: u64,
    },
    /// So many exist already.
    #[error("{limit} {what} exist already, which is the limit")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there can be.
        limit: u64,
    },
    /// An argument that makes no sense.
    #[error("{what} is not valid here")]
    Invalid {
        /// Which.
        what: &'static str,
    },
    /// Objects of different contexts.
    #[error("the objects belong to different device contexts")]
    OtherContext,
    /// An object that was given back already.
    #[error("an object that this needs was given back already")]
    Closed,
    /// The device was opened before a `fork` by the parent, or has failed.
    #[error("the device belongs to the parent, which opened it before fork, or has failed: open it again")]
    Gone,
    /// A queue cannot shrink below what it holds.
    #[error("the queue holds {entries} entries")]
    StillHolds {
        /// How many.
        entries: u32,
    },
    /// The kernel refused.
    #[error("the kernel refused: {0}")]
    System(#[from] io::Error),
}

/// Error returned by [`crate::Zone::register`].
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Address plus length runs over the end of the address space.
    #[error("address plus length runs over the end of the address space")]
    Wraps,
    /// Not mapped.
    #[error("nothing readable is mapped at {address:#x}")]
    NotMapped {
        /// The first such address.
        address: usize,
    },
    /// Not writable.
    #[error("the memory at {address:#x} is read-only and writing was asked for")]
    NotWritable {
        /// The first such address.
        address: usize,
    },
    /// Outside the device memory.
    #[error("offset plus length is beyond the device memory")]
    BeyondDeviceMemory,
    /// Objects of different contexts.
    #[error("zone and device memory belong to different device contexts")]
    OtherContext,
    /// Zone or device memory were given back already.
    #[error("zone or device memory were given back already")]
    Closed,
    /// It has windows.
    #[error("windows are bound to the region")]
    Bound,
    /// A region of device memory, which stays where it is, or of none.
    #[error("the region is not of the program's memory")]
    OfDevice,
    /// On-demand paging where the kernel does not copy for this process.
    #[error("a sandbox forbids process_vm_readv or process_vm_writev, which on-demand paging needs")]
    NoPaging,
    /// The right to have what was written made durable.
    #[error("the memory is not known to be persistent, so a flush to persistence cannot be let through")]
    NotPersistent,
    /// A shadow of a shadow.
    #[error("the region is a shadow itself")]
    AlreadyShadow,
    /// The kernel refused memory for a shadow.
    #[error("the kernel refused memory for a shadow: {0}")]
    System(#[from] io::Error),
    /// Nothing could be agreed on with the processes that share the memory.
    #[error("{0}")]
    Ledger(#[from] LedgerError),
    /// No more regions.
    #[error("the key table is full")]
    TableFull,
    /// The device was opened before a `fork` by the parent, or has failed.
    #[error("the device belongs to the parent, which opened it before fork, or has failed: open it again")]
    Gone,
}

/// Why nothing of another process can be used as this one's own.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It has nothing with this handle, or has closed the device.
    #[error("the process that opened the device has no such thing (any more)")]
    NotThere,
    /// It has ended, or is in another network namespace.
    #[error("the process that opened the device has ended, or is in another network namespace")]
    Gone,
    /// It does not answer: it is stopped.
    #[error("the process that opened the device does not answer; is it stopped?")]
    Silent,
    /// The two have not proved that the kernel lets them at each other.
    #[error(
        "this process and the one that opened the device may not reach each other's memory; nonic doctor says why"
    )]
    Untrusted,
    /// This process may not go there, or has no way to such memory.
    #[error("there is no way to memory of this kind from here, or none is allowed (NONIC_TIER)")]
    Unreachable,
    /// The device could not be opened here.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nothing could be created for it.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// It could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// Error returned by the device memory calls.
#[derive(Debug, thiserror::Error)]
pub enum DeviceMemoryError {
    /// The arena has no such piece.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// Beyond the end.
    #[error("{length} bytes at offset {offset} of device memory of {size} bytes")]
    OutOfRange {
        /// Offset asked for.
        offset: u64,
        /// Length asked for.
        length: u64,
        /// Length of the device memory.
        size: u64,
    },
    /// Not whole granules.
    #[error(
        "offset {offset} and length {length} must be multiples of {granule} (NONIC_DEVICE_MEMORY_GRANULE)"
    )]
    NotGranules {
        /// Offset asked for.
        offset: u64,
        /// Length asked for.
        length: u64,
        /// What they must be multiples of.
        granule: u64,
    },
    /// Freed already.
    #[error("the device memory was freed already")]
    Freed,
    /// It is another process's, which has freed it or has ended.
    #[error("the process that allocated the device memory has freed it, or has ended")]
    TakenBack,
    /// A child that takes some has a device of its own for it, which could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why a request about a memory window failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WindowError {
    /// The window was given back.
    #[error("the window was given back")]
    Gone,
    /// Window, region and queue pair are not of one zone.
    #[error("window, region and queue pair are not of one protection domain")]
    OtherZone,
    /// No region, or none to which windows can be bound.
    #[error("there is no such region, or it was registered without the right to bind windows")]
    NoRegion,
    /// The new key is the old one.
    #[error("key {key} is the window's last: a bind needs another")]
    SameKey {
        /// The key.
        key: Key,
    },
    /// A type 2 window that is bound.
    #[error("the window is bound: a type 2 window is taken out of use before it is bound again")]
    Bound,
    /// A type 2 window on no bytes.
    #[error("a type 2 window cannot be bound to no bytes")]
    Empty,
    /// Beyond the region.
    #[error("{range:?} is not inside the region")]
    OutOfRange {
        /// What was asked for.
        range: AddressRange,
    },
    /// Rights that cannot be given.
    #[error("{wanted}: the region gives {given}, and a peer's writes and atomics need its local write")]
    Rights {
        /// What was asked for.
        wanted: Access,
        /// The region's.
        given: Access,
    },
    /// The key is not that of a type 2 window bound through this queue pair.
    #[error("key {key} is not that of a type 2 window bound through this queue pair")]
    NotBoundHere {
        /// The key.
        key: Key,
    },
}

/// An object cannot go while others use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} is still used by {users} other objects")]
pub struct Busy {
    /// What was to go.
    pub what: &'static str,
    /// How many use it.
    pub users: u32,
}

impl Busy {
    /// Closes the count of an object's users, unless there are some. One that is closed stays so.
    pub(crate) fn unless_closed(users: &UseCount, what: &'static str) -> Result<(), Self> {
        match users.close() {
            Ok(()) | Err(CannotClose::Closed) => Ok(()),
            Err(CannotClose::Used(users)) => Err(Self { what, users }),
        }
    }
}

/// Error returned by [`crate::QueuePair::modify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModifyError {
    /// The move or its attributes.
    #[error(transparent)]
    Transition(#[from] TransitionError),
    /// A value out of range.
    #[error("{what} {value} is not valid here")]
    Value {
        /// Which attribute.
        what: &'static str,
        /// What was given.
        value: u64,
    },
    /// The queue pair was destroyed.
    #[error("the queue pair was destroyed")]
    Destroyed,
    /// Another process has the queue pair, and refuses it for one of these reasons.
    #[error("the process that has the queue pair refuses the change")]
    Elsewhere,
    /// The device was opened before a `fork` by the parent, or has failed; or it is another process's, which has ended.
    #[error("the device belongs to the parent, which opened it before fork, or has failed: open it again")]
    Gone,
}

/// More completions came than the queue holds, and it is unusable from then on (`IBV_EVENT_CQ_ERR`), or its device has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the completion queue overran, or its device has failed")]
pub struct CqOverrun;
