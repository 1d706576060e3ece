//! Which errno each refusal of the engine becomes: one table per error type, and nothing else decides.

use core::ffi::c_int;
use std::io;

use nonic_device::{
    AccessError, ArenaError, BatchError, Busy, CqOverrun, CreateError, DeviceMemoryError, DomainError,
    EthernetError, ImportError, ModifyError, OpenError, PostError, PrefetchError, RegisterError,
};

/// An errno, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

macro_rules! named {
    ($($name:ident),* $(,)?) => {
        impl Errno { $(#[doc = concat!("`", stringify!($name), "`")] pub const $name: Self = Self(libc::$name);)* }
    };
}

named! {
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EAGAIN, EBUSY, ECONNREFUSED, EFAULT, EFBIG, EHOSTUNREACH, EINTR, EINVAL, EIO, ENETUNREACH, ENODATA,
    ENODEV, ENOENT, ENOMEM, ENOSYS, ENXIO, EOPNOTSUPP, EPERM,
}

impl Errno {
    /// Stores it where C programs look, and gives it back.
    pub fn set(self) -> Self {
        // SAFETY: the C library keeps one errno per thread, always writable by its thread.
        unsafe { *libc::__errno_location() = self.0 };
        self
    }
}

/// The object was never created, is gone, or its handle was overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchObject;

impl From<NoSuchObject> for Errno {
    fn from(_: NoSuchObject) -> Self {
        Self::ENOENT
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Self(number),
            None => match error.kind() {
                io::ErrorKind::WouldBlock => Self::EAGAIN,
                io::ErrorKind::Interrupted => Self::EINTR,
                io::ErrorKind::OutOfMemory => Self::ENOMEM,
                io::ErrorKind::FileTooLarge => Self::EFBIG,
                _ => Self::EIO,
            },
        }
    }
}

impl From<Busy> for Errno {
    fn from(_: Busy) -> Self {
        Self::EBUSY
    }
}

impl From<CqOverrun> for Errno {
    fn from(_: CqOverrun) -> Self {
        Self::EIO
    }
}

impl From<BatchError> for Errno {
    fn from(error: BatchError) -> Self {
        match error {
            BatchError::Overrun(error) => error.into(),
            BatchError::Begun | BatchError::NotBegun => Self::EINVAL,
        }
    }
}

impl From<OpenError> for Errno {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::System { source, .. } => source.into(),
            OpenError::Gone => Self::EIO,
        }
    }
}

impl From<CreateError> for Errno {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Limit { .. }
            | CreateError::Invalid { .. }
            | CreateError::OtherContext
            | CreateError::Closed
            | CreateError::StillHolds { .. } => Self::EINVAL,
            CreateError::TooMany { .. } => Self::ENOMEM,
            CreateError::Gone => Self::EIO,
            CreateError::System(error) => error.into(),
        }
    }
}

impl From<ImportError> for Errno {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::NotThere => Self::ENOENT,
            ImportError::Gone => Self::ENODEV,
            ImportError::Silent => Self::EAGAIN,
            ImportError::Untrusted => Self::EPERM,
            ImportError::Unreachable => Self::EOPNOTSUPP,
            ImportError::Open(error) => error.into(),
            ImportError::Create(error) => error.into(),
            ImportError::Register(error) => error.into(),
        }
    }
}

impl From<EthernetError> for Errno {
    fn from(error: EthernetError) -> Self {
        match error {
            EthernetError::NotEthernet => Self::EOPNOTSUPP,
            EthernetError::Unknown => Self::EHOSTUNREACH,
        }
    }
}

impl From<DomainError> for Errno {
    fn from(error: DomainError) -> Self {
        match error {
            DomainError::NoneThere => Self::EAGAIN,
            DomainError::Exists => Self::EINVAL,
            DomainError::File(error) => error.into(),
            DomainError::Create(error) => error.into(),
        }
    }
}

impl From<RegisterError> for Errno {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Wraps
            | RegisterError::BeyondDeviceMemory
            | RegisterError::OtherContext
            | RegisterError::Closed => Self::EINVAL,
            RegisterError::NotMapped { .. } | RegisterError::NotWritable { .. } => Self::EFAULT,
            RegisterError::AlreadyShadow | RegisterError::OfDevice => Self::EINVAL,
            RegisterError::NoPaging | RegisterError::NotPersistent => Self::EOPNOTSUPP,
            RegisterError::Bound => Self::EBUSY,
            RegisterError::TableFull | RegisterError::System(_) | RegisterError::Ledger(_) => Self::ENOMEM,
            RegisterError::Gone => Self::EIO,
        }
    }
}

impl From<PrefetchError> for Errno {
    fn from(error: PrefetchError) -> Self {
        match error {
            PrefetchError::Refused(AccessError::UnknownKey { .. }) => Self::ENOENT,
            PrefetchError::Refused(AccessError::OtherZone { .. } | AccessError::NotAllowed { .. }) => {
                Self::EPERM
            }
            PrefetchError::Refused(AccessError::OutOfRange { .. } | AccessError::NotThere)
            | PrefetchError::NotThere => Self::EFAULT,
            PrefetchError::Gone => Self::EIO,
        }
    }
}

impl From<DeviceMemoryError> for Errno {
    fn from(error: DeviceMemoryError) -> Self {
        match error {
            DeviceMemoryError::Arena(
                ArenaError::Empty | ArenaError::TooLong { .. } | ArenaError::Alignment { .. },
            )
            | DeviceMemoryError::NotGranules { .. }
            | DeviceMemoryError::Freed => Self::EINVAL,
            DeviceMemoryError::TakenBack => Self::ENOENT,
            DeviceMemoryError::Arena(ArenaError::NoRoom { .. }) => Self::ENOMEM,
            DeviceMemoryError::OutOfRange { .. } => Self::EFAULT,
            DeviceMemoryError::Open(error) => error.into(),
        }
    }
}

impl From<ModifyError> for Errno {
    fn from(error: ModifyError) -> Self {
        match error {
            ModifyError::Transition(_)
            | ModifyError::Value { .. }
            | ModifyError::Elsewhere
            | ModifyError::Destroyed => Self::EINVAL,
            ModifyError::Gone => Self::EIO,
        }
    }
}

impl From<PostError> for Errno {
    fn from(error: PostError) -> Self {
        match error {
            PostError::QueueFull { .. } => Self::ENOMEM,
            PostError::TooManyPieces { .. }
            | PostError::InlineTooLong { .. }
            | PostError::InlineResult
            | PostError::NoWord
            | PostError::WrongState { .. }
            | PostError::WrongOperation { .. }
            | PostError::HasSharedReceiveQueue
            | PostError::NoDestination => Self::EINVAL,
            PostError::Gone => Self::EIO,
        }
    }
}
