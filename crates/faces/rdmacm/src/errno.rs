//! Which errno each refusal of the machine becomes: one table, and nothing else decides.

use nonic_rdma_cm::Error;
use nonic_verbs::errno::Errno;

/// The errno of a refusal.
#[cold]
pub(crate) fn refused(error: Error) -> Errno {
    match error {
        Error::State(_) | Error::Argument(_) => Errno::EINVAL,
        Error::AddressNotOwn(_) | Error::AddressOverlaps(_) | Error::NoPort => Errno::EADDRNOTAVAIL,
        Error::AddressInUse(_) => Errno::EADDRINUSE,
        Error::Denied(_) => Errno::EACCES,
        Error::Unreachable(_) => Errno::ENETUNREACH,
        Error::ForeignService(_) => Errno(libc::EPROTONOSUPPORT),
        Error::NoDevice => Errno::ENODEV,
        Error::NoSuchOption => Errno::ENOSYS,
        Error::Removed => Errno::ENXIO,
        Error::Forked => Errno::ENOENT,
        Error::System(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_the_kernel_answered_is_passed_on_as_it_is() {
        let error = io::Error::from_raw_os_error(libc::EMFILE);
        assert_eq!(refused(Error::System(error)), Errno(libc::EMFILE));
        assert_eq!(refused(Error::System(io::ErrorKind::WouldBlock.into())), Errno::EAGAIN);
    }

    #[test]
    fn the_same_address_and_one_that_overlaps_are_two_errnos() {
        assert_eq!(refused(Error::AddressInUse(1)), Errno::EADDRINUSE);
        assert_eq!(refused(Error::AddressOverlaps(1)), Errno::EADDRNOTAVAIL);
    }
}
