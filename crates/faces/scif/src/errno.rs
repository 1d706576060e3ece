//! Which errno each refusal of the engine becomes: one table, and nothing else decides.

use core::ffi::c_int;

use nonic_scif::ScifError;

/// An errno, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

macro_rules! named {
    ($($name:ident),* $(,)?) => {
        impl Errno { $(pub(crate) const $name: Self = Self(libc::$name);)* }
    };
}

named! {
    EACCES, EADDRINUSE, EAGAIN, ECONNREFUSED, ECONNRESET, EFAULT, EINPROGRESS, EINTR, EINVAL, EIO, EISCONN,
    ENODEV, ENOMEM, ENOSPC, ENOTCONN, ENXIO, EOPNOTSUPP,
}

impl Errno {
    /// Where C programs of this thread look.
    #[inline]
    pub(crate) fn place() -> *mut c_int {
        // SAFETY: asks for nothing and always answers.
        unsafe { libc::__errno_location() }
    }
}

impl From<ScifError> for Errno {
    #[cold]
    fn from(error: ScifError) -> Self {
        match error {
            // No valid endpoint descriptor: the drivers answered `EBADF` and `ENOTTY`, the manual pages say this for both.
            ScifError::NotOpen | ScifError::NotAnEndpoint | ScifError::Invalid(_) => Self::EINVAL,
            ScifError::Privileged { .. } | ScifError::Protected => Self::EACCES,
            ScifError::Connected => Self::EISCONN,
            ScifError::NotConnected => Self::ENOTCONN,
            ScifError::Reset => Self::ECONNRESET,
            ScifError::Refused => Self::ECONNREFUSED,
            ScifError::InProgress => Self::EINPROGRESS,
            ScifError::Listening | ScifError::RelayElsewhere => Self::EOPNOTSUPP,
            ScifError::TryAgain(_) => Self::EAGAIN,
            ScifError::Interrupted => Self::EINTR,
            ScifError::NoNode | ScifError::NotMappable => Self::ENODEV,
            ScifError::NoWindow => Self::ENXIO,
            ScifError::OffsetsTaken => Self::EADDRINUSE,
            ScifError::BadMemory { .. } => Self::EFAULT,
            ScifError::NoMemory => Self::ENOMEM,
            ScifError::NoPort => Self::ENOSPC,
            ScifError::System(number) => Self(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_answered_is_passed_on_as_it_is() {
        assert_eq!(Errno::from(ScifError::System(libc::EMFILE)).0, libc::EMFILE);
    }

    #[test]
    fn whatever_is_no_endpoint_is_one_errno() {
        assert_eq!(Errno::from(ScifError::NotOpen), Errno::EINVAL);
        assert_eq!(Errno::from(ScifError::NotAnEndpoint), Errno::EINVAL);
    }

    #[test]
    fn two_kinds_of_missing_permission_are_one_errno() {
        assert_eq!(Errno::from(ScifError::Privileged { port: 40, limit: 1024 }), Errno::EACCES);
        assert_eq!(Errno::from(ScifError::Protected), Errno::EACCES);
    }
}
