//! Why a call fails: by its errno, which is all that these calls say.

use std::io;

use nonic_device::{CreateError, ModifyError, PostError, RegisterError};

/// Why a call failed: its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", io::Error::from_raw_os_error(*.0))]
pub struct Error(i32);

/// What a call gives.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// With an errno.
    pub const fn new(errno: i32) -> Self {
        Self(errno)
    }

    /// The errno.
    pub const fn errno(self) -> i32 {
        self.0
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self(match (error.raw_os_error(), error.kind()) {
            (Some(errno), _) => errno,
            (None, io::ErrorKind::WouldBlock) => libc::EAGAIN,
            (None, io::ErrorKind::Interrupted) => libc::EINTR,
            (None, io::ErrorKind::OutOfMemory) => libc::ENOMEM,
            (None, _) => libc::EIO,
        })
    }
}

impl From<nonic_rdma_cm::Error> for Error {
    fn from(error: nonic_rdma_cm::Error) -> Self {
        use nonic_rdma_cm::Error as E;
        Self(match error {
            E::State(_) | E::Argument(_) => libc::EINVAL,
            E::AddressNotOwn(_) | E::AddressOverlaps(_) | E::NoPort => libc::EADDRNOTAVAIL,
            E::AddressInUse(_) => libc::EADDRINUSE,
            E::Denied(_) => libc::EACCES,
            E::Unreachable(_) => libc::ENETUNREACH,
            E::ForeignService(_) => libc::EPROTONOSUPPORT,
            E::NoDevice => libc::ENODEV,
            E::NoSuchOption => libc::ENOSYS,
            E::Removed => libc::ENXIO,
            E::Forked => libc::ENOENT,
            E::System(error) => return error.into(),
        })
    }
}

impl From<CreateError> for Error {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::System(error) => error.into(),
            CreateError::Limit { .. } | CreateError::Invalid { .. } | CreateError::OtherContext => {
                Self(libc::EINVAL)
            }
            CreateError::Gone => Self(libc::ENOENT),
            _ => Self(libc::ENOMEM),
        }
    }
}

impl From<RegisterError> for Error {
    fn from(error: RegisterError) -> Self {
        Self(match error {
            RegisterError::NotMapped { .. } | RegisterError::NotWritable { .. } => libc::EFAULT,
            RegisterError::Wraps => libc::EINVAL,
            RegisterError::Gone => libc::ENOENT,
            _ => libc::ENOMEM,
        })
    }
}

impl From<ModifyError> for Error {
    fn from(_: ModifyError) -> Self {
        Self(libc::EINVAL)
    }
}

impl From<PostError> for Error {
    fn from(_: PostError) -> Self {
        Self(libc::EIO)
    }
}
