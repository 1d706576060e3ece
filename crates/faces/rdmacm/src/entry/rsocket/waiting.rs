//! Waiting for several sockets and other descriptors.

use core::ffi::{c_int, c_ulong};
use core::time::Duration;

use nonic_rsocket::{DescriptorSet, PollEntry};
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use super::refused;
use crate::abi::{fd_set, pollfd, timeval};

/// More entries than a process can have descriptors.
const ENTRIES_MAX: usize = 1 << 20;

const _: () = assert!(size_of::<PollEntry>() == size_of::<pollfd>());
const _: () = assert!(size_of::<DescriptorSet>() == size_of::<fd_set>());

/// `rpoll`: how many are ready; -1 with `EINTR`, `EINVAL`, `EFAULT`.
pub(crate) unsafe extern "C-unwind" fn rpoll(fds: *mut pollfd, nfds: c_ulong, timeout: c_int) -> c_int {
    guard::or_minus_one(|| {
        let count = usize::try_from(nfds).ok().filter(|count| *count <= ENTRIES_MAX).ok_or(Errno::EINVAL)?;
        if fds.is_null() && count > 0 {
            return Err(Errno::EFAULT);
        }
        // SAFETY: the program's array has as many entries as it says.
        let read = |place| unsafe { fds.add(place).cast::<PollEntry>().read_unaligned() };
        let mut entries: Vec<PollEntry> = (0..count).map(read).collect();
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        let ready = nonic_rsocket::poll(&mut entries, timeout).map_err(refused)?;
        for (place, entry) in entries.iter().enumerate() {
            // SAFETY: as above; they are the program's to be written.
            unsafe { (&raw mut (*fds.add(place)).revents).write_unaligned(entry.revents) };
        }
        Ok(c_int::try_from(ready).unwrap_or(c_int::MAX))
    })
}

/// `rselect`: how many are left in the sets; -1 with `EINTR`, `EINVAL`, `EBADF`.
pub(crate) unsafe extern "C-unwind" fn rselect(
    nfds: c_int,
    readfds: *mut fd_set,
    writefds: *mut fd_set,
    exceptfds: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    guard::or_minus_one(|| {
        let count = usize::try_from(nfds).map_err(|_| Errno::EINVAL)?;
        let timeout = if timeout.is_null() {
            None
        } else {
            // SAFETY: the program's time is readable.
            let time = unsafe { timeout.read_unaligned() };
            let number = |number: i64| u64::try_from(number).map_err(|_| Errno::EINVAL);
            Some(Duration::from_secs(number(time.tv_sec)?) + Duration::from_micros(number(time.tv_usec)?))
        };
        let places = [readfds, writefds, exceptfds].map(<*mut fd_set>::cast::<DescriptorSet>);
        // SAFETY: a set of the program's is NULL or as long as every set.
        let read = |place: *mut DescriptorSet| (!place.is_null()).then(|| unsafe { place.read_unaligned() });
        let mut sets = places.map(read);
        let ready = nonic_rsocket::select(count, &mut sets, timeout).map_err(refused)?;
        for (place, set) in places.into_iter().zip(sets) {
            if let Some(set) = set {
                // SAFETY: read from there just now; it is the program's to be written.
                unsafe { place.write_unaligned(set) };
            }
        }
        Ok(c_int::try_from(ready).unwrap_or(c_int::MAX))
    })
}
