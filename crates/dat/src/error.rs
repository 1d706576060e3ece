//! Why a call was refused: a type and a subtype of `DAT_RETURN`, which each version of the interface numbers its own way.

/// What a call answers.
pub type DatResult<T> = Result<T, DatError>;

/// A refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?}, {subtype:?}")]
pub struct DatError {
    /// The type.
    pub kind: Kind,
    /// The subtype.
    pub subtype: Subtype,
    /// Whether the class bit is left out: programs compare some codes with `==` (`DAT_QUEUE_EMPTY`).
    pub bare: bool,
}

impl DatError {
    /// Type and subtype.
    pub const fn new(kind: Kind, subtype: Subtype) -> Self {
        Self { kind, subtype, bare: false }
    }

    /// A type alone, without the class bit.
    pub const fn bare(kind: Kind) -> Self {
        Self { kind, subtype: Subtype::None, bare: true }
    }

    /// `DAT_INVALID_PARAMETER` for the argument of this number, from 1.
    pub const fn argument(number: u8) -> Self {
        Self::new(Kind::InvalidParameter, Subtype::Argument(number))
    }

    /// `DAT_INVALID_HANDLE`.
    pub const fn handle(subtype: Subtype) -> Self {
        Self::new(Kind::InvalidHandle, subtype)
    }

    /// `DAT_INVALID_STATE`.
    pub const fn state(subtype: Subtype) -> Self {
        Self::new(Kind::InvalidState, subtype)
    }

    /// `DAT_INSUFFICIENT_RESOURCES`.
    pub const fn resources(subtype: Subtype) -> Self {
        Self::new(Kind::InsufficientResources, subtype)
    }

    /// `DAT_MODEL_NOT_SUPPORTED`.
    pub const MODEL_NOT_SUPPORTED: Self = Self::new(Kind::ModelNotSupported, Subtype::None);
    /// What an empty dispatcher answers: bare, as programs compare it.
    pub const QUEUE_EMPTY: Self = Self::bare(Kind::QueueEmpty);
    /// A wait that ran out.
    pub const TIMEOUT_EXPIRED: Self = Self::new(Kind::TimeoutExpired, Subtype::None);
}

/// The type (bits 16 to 29), numbered as in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)] // The names are the specification's.
pub enum Kind {
    Abort = 1,
    ConnQualInUse,
    InsufficientResources,
    InternalError,
    InvalidHandle,
    InvalidParameter,
    InvalidState,
    LengthError,
    ModelNotSupported,
    ProviderNotFound,
    PrivilegesViolation,
    ProtectionViolation,
    QueueEmpty,
    QueueFull,
    TimeoutExpired,
    ProviderAlreadyRegistered,
    ProviderInUse,
    InvalidAddress,
    InterruptedCall,
    ConnQualUnavailable,
}

/// Which resource ran out (`DAT_RESOURCE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Resource {
    Memory = 2,
    Device,
    TransportEndpoint,
    TransportEventDispatcher,
    ProtectionDomain,
    MemoryRegion,
    ErrorHandler,
    Credits,
    SharedReceiveQueue,
}

/// Which handle is wrong (`DAT_INVALID_HANDLE_*`). Values are those of 1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum HandleKind {
    InterfaceAdapter = 11,
    Endpoint,
    LocalRegion,
    RemoteRegion,
    ProtectionZone,
    PublicServicePoint,
    ReservedServicePoint,
    ConnectionRequest,
    NotificationObject,
    RequestDispatcherOfRequests,
    RequestDispatcher,
    ReceiveDispatcher,
    ConnectionDispatcher,
    AsyncDispatcher,
    SharedReceiveQueue,
    /// `DAT_INVALID_HANDLE1`.
    First,
}

/// Which state forbids it (`DAT_INVALID_STATE_*`). Values are those of 1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum StateKind {
    EpUnconnected = 46,
    EpActiveConnectionPending,
    EpPassiveConnectionPending,
    EpTentativeConnectionPending,
    EpConnected,
    EpDisconnected,
    EpReserved,
    EpCompletionPending,
    EpDisconnectPending,
    EpProviderControl,
    EpNotReady,
    EpReceiveWatermark,
    EpZone,
    EpRequestDispatcher,
    EpReceiveDispatcher,
    EpConnectDispatcher,
    EpUnconfigured,
    EpUnconfiguredReserved,
    EpUnconfiguredPassive,
    EpUnconfiguredTentative,
    CnoInUse,
    CnoDead,
    EvdOpen,
    EvdEnabled,
    EvdDisabled,
    EvdWaitable,
    EvdUnwaitable,
    EvdInUse,
    EvdConfigNotify,
    EvdConfigSolicited,
    EvdConfigThreshold,
    EvdWaiter,
    EvdAsync,
    IaInUse,
    LmrInUse,
    LmrFree,
    PzInUse,
    PzFree,
    SrqOperational,
    SrqError,
    SrqInUse,
}

/// Privileges and protections (`DAT_PRIVILEGES_*`, `DAT_PROTECTION_*`), in the order of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum AccessKind {
    Read = 0,
    Write,
    RdmaRead,
    RdmaWrite,
}

/// The subtype (bits 0 to 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Subtype {
    None,
    Interrupted,
    Resource(Resource),
    Handle(HandleKind),
    Argument(u8),
    State(StateKind),
    Privileges(AccessKind),
    Protection(AccessKind),
    AddressUnsupported,
    AddressUnreachable,
    AddressMalformed,
    NameNotRegistered,
    MajorNotFound,
    MinorNotFound,
    ThreadSafetyNotFound,
}

impl Subtype {
    /// The number in uDAPL 1.2.
    pub const fn number(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Interrupted => 1,
            Self::Resource(kind) => kind as u16,
            Self::Handle(kind) => kind as u16,
            Self::Argument(number) => 35 + number as u16,
            Self::State(kind) => kind as u16,
            Self::Privileges(kind) => 87 + kind as u16,
            Self::Protection(kind) => 91 + kind as u16,
            Self::AddressUnsupported => 95,
            Self::AddressUnreachable => 96,
            Self::AddressMalformed => 97,
            Self::NameNotRegistered => 98,
            Self::MajorNotFound => 99,
            Self::MinorNotFound => 100,
            Self::ThreadSafetyNotFound => 101,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_subtypes_has_no_gap_and_no_overlap() {
        assert_eq!(Resource::SharedReceiveQueue as u16 + 1, HandleKind::InterfaceAdapter as u16);
        assert_eq!(HandleKind::First as u16 + 10, Subtype::Argument(1).number());
        assert_eq!(Subtype::Argument(10).number() + 1, StateKind::EpUnconnected as u16);
        assert_eq!(StateKind::SrqInUse as u16, 86);
        assert_eq!(Subtype::Privileges(AccessKind::Read).number(), 87);
        assert_eq!(Subtype::Protection(AccessKind::RdmaWrite).number() + 1, 95);
    }
}
