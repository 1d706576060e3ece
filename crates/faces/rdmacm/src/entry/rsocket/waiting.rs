//! Waiting for several sockets and other descriptors.

use core::ffi::{c_int, c_ulong};
use core::time::Duration;

use nonic_rsocket::{DescriptorSet, PollEntry, PollEvent};
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use super::refused;
use crate::abi::{epoll_event, fd_set, pollfd, timeval};

/// More entries than a process can have descriptors.
const ENTRIES_MAX: usize = 1 << 20;

const _: () = assert!(size_of::<PollEntry>() == size_of::<pollfd>());
const _: () = assert!(size_of::<PollEvent>() == size_of::<epoll_event>());
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

/// `repoll_create`: an event poll; -1 with `EMFILE` or `ENFILE`. Of `flags` only `EPOLL_CLOEXEC` counts, so that the sizes of
/// `epoll_create(2)` do no harm. It is given back with `rclose`.
pub(crate) unsafe extern "C-unwind" fn repoll_create(flags: c_int) -> c_int {
    guard::or_minus_one(|| {
        nonic_rsocket::create_event_poll(flags & libc::EPOLL_CLOEXEC != 0).map_err(refused)
    })
}

/// `repoll_ctl`: 0, or -1 with `EBADF` (no event poll, or nothing under the number), `EEXIST`, `ENOENT`, `EFAULT`, or `EINVAL`
/// (another operation, or an event poll in an event poll).
pub(crate) unsafe extern "C-unwind" fn repoll_ctl(
    poll: c_int,
    operation: c_int,
    socket: c_int,
    event: *mut epoll_event,
) -> c_int {
    guard::or_minus_one(|| {
        let asked = if operation == libc::EPOLL_CTL_DEL {
            PollEvent::default()
        } else if event.is_null() {
            return Err(Errno::EFAULT);
        } else {
            // SAFETY: the program's event is readable.
            unsafe { event.cast::<PollEvent>().read_unaligned() }
        };
        nonic_rsocket::control_event_poll(poll, operation, socket, asked).map_err(refused)?;
        Ok(0)
    })
}

/// `repoll_wait`: how many events there are; -1 with `EBADF` (no event poll), `EINVAL` (no room for any), `EFAULT`, `EINTR`.
pub(crate) unsafe extern "C-unwind" fn repoll_wait(
    poll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    guard::or_minus_one(|| {
        let most = usize::try_from(most).ok().filter(|most| *most > 0).ok_or(Errno::EINVAL)?;
        if events.is_null() {
            return Err(Errno::EFAULT);
        }
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        let found = nonic_rsocket::wait_event_poll(poll, most, timeout).map_err(refused)?;
        for (place, event) in found.iter().enumerate() {
            // SAFETY: the program's array has room for as many as it says, of which these are no more.
            unsafe { events.add(place).cast::<PollEvent>().write_unaligned(*event) };
        }
        Ok(c_int::try_from(found.len()).unwrap_or(c_int::MAX))
    })
}
