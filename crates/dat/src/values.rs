//! Words of the specification that are numbers. Values are those of uDAPL 1.2; where 2.0 has others its face translates.

use std::ops::BitOr;

use nonic_device::Access;

macro_rules! flags {
    ($(#[$about:meta])* $name:ident: $all:literal { $($(#[$doc:meta])* $flag:ident = $value:literal),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
        pub struct $name(u32);

        impl $name {
            $($(#[$doc])* pub const $flag: Self = Self($value);)*

            /// The set from bits; `None` if a bit has no meaning.
            pub const fn from_bits(bits: u32) -> Option<Self> {
                if bits & !$all == 0 { Some(Self(bits)) } else { None }
            }

            /// The set as bits.
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// Whether every flag of `other` is in this set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any flag of `other` is in this set.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }
        }

        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}

flags! {
    /// `DAT_MEM_PRIV_FLAGS`.
    Privileges: 0x33 {
        /// No privilege.
        NONE = 0,
        /// Data transfer operations of this process may read.
        LOCAL_READ = 0x01,
        /// Peers may read.
        REMOTE_READ = 0x02,
        /// Data transfer operations of this process may write: receives, and the local side of RDMA reads.
        LOCAL_WRITE = 0x10,
        /// Peers may write.
        REMOTE_WRITE = 0x20,
        /// Either remote privilege.
        REMOTE = 0x22,
        /// All.
        ALL = 0x33,
        /// Peers may do atomic operations: an extension of 2.0, and no bit of 1.2.
        REMOTE_ATOMIC = 0x40,
    }
}

impl Privileges {
    /// The engine's rights.
    pub(crate) fn access(self) -> Access {
        let mut access = Access::default();
        for (privilege, right) in [
            (Self::LOCAL_WRITE, Access::LOCAL_WRITE),
            (Self::REMOTE_READ, Access::REMOTE_READ),
            (Self::REMOTE_WRITE, Access::REMOTE_WRITE),
            (Self::REMOTE_ATOMIC, Access::REMOTE_ATOMIC),
        ] {
            if self.contains(privilege) {
                access |= right;
            }
        }
        access
    }
}

flags! {
    /// `DAT_COMPLETION_FLAGS`.
    CompletionFlags: 0x1f {
        /// A completion that notifies.
        DEFAULT = 0,
        /// No completion on success.
        SUPPRESS = 0x01,
        /// The peer's receive completion wakes a peer that waits for such only.
        SOLICITED_WAIT = 0x02,
        /// The completion does not notify.
        UNSIGNALLED = 0x04,
        /// Starts only after all earlier RDMA reads and binds of the endpoint are done.
        BARRIER_FENCE = 0x08,
        /// For endpoints: waits count completions.
        EVD_THRESHOLD = 0x10,
    }
}

flags! {
    /// `DAT_EVD_FLAGS`: the streams of events that a dispatcher takes.
    Streams: 0x1f1 {
        /// Software events.
        SOFTWARE = 0x001,
        /// Connection requests.
        CONNECTION_REQUEST = 0x010,
        /// Completions of data transfer operations.
        DATA_TRANSFER = 0x020,
        /// Connection events.
        CONNECTION = 0x040,
        /// Completions of RMR binds.
        BIND = 0x080,
        /// Asynchronous errors.
        ASYNC = 0x100,
    }
}

/// `DAT_EP_STATE`. The numbers between are of endpoints that are not configured, and here every endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)] // The names are the specification's.
pub enum EndpointState {
    Unconnected = 0,
    Reserved = 2,
    PassiveConnectionPending = 4,
    ActiveConnectionPending = 6,
    TentativeConnectionPending = 7,
    Connected = 9,
    DisconnectPending = 10,
    Disconnected = 11,
    CompletionPending = 12,
}

/// How a data transfer operation or a bind ended (`DAT_DTO_COMPLETION_STATUS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum TransferStatus {
    Success = 0,
    Flushed = 1,
    LocalLength = 2,
    LocalEndpoint = 3,
    LocalProtection = 4,
    BadResponse = 5,
    RemoteAccess = 6,
    RemoteResponder = 7,
    Transport = 8,
    ReceiverNotReady = 9,
    PartialPacket = 10,
    BindFailed = 11,
}

/// What a completion is of (`DAT_DTOS` of 2.0; 1.2 does not tell).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum TransferKind {
    Send = 0,
    RdmaWrite = 1,
    RdmaRead = 2,
    Receive = 3,
    Bind = 5,
    /// Extensions from here on: what began a write that told the peer with a word.
    RdmaWriteImmediate = 8,
    /// A receive that such a write has used up.
    ReceiveImmediate = 9,
    FetchAdd = 10,
    CompareSwap = 11,
}

impl TransferKind {
    /// Whether it is of a receive.
    pub const fn is_receive(self) -> bool {
        matches!(self, Self::Receive | Self::ReceiveImmediate)
    }
}

/// `DAT_CONNECTION_EVENT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum ConnectionEvent {
    Established = 0x4001,
    PeerRejected = 0x4002,
    NonPeerRejected = 0x4003,
    AcceptCompletionError = 0x4004,
    Disconnected = 0x4005,
    Broken = 0x4006,
    TimedOut = 0x4007,
    Unreachable = 0x4008,
}

/// `DAT_ASYNC_ERROR_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum AsyncError {
    DispatcherOverflow = 0x8001,
    AdapterCatastrophic = 0x8002,
    EndpointBroken = 0x8003,
    TimedOut = 0x8004,
    ProviderInternalError = 0x8005,
}

/// A piece of local memory (`DAT_LMR_TRIPLET`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The region's LMR context.
    pub context: u32,
    /// First byte.
    pub address: u64,
    /// Length in bytes; pieces of length 0 are skipped.
    pub length: u64,
}

/// Memory of a peer (`DAT_RMR_TRIPLET`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSegment {
    /// RMR context of an LMR or an RMR of the peer.
    pub context: u32,
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
}
