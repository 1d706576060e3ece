//! Waiting for several descriptors.

use core::ffi::c_int;

use libc::{epoll_event, fd_set, pollfd, timespec};
use nonic_sockets::{DescriptorSet, PollEntry, PollEvent, Way};
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use super::{kept, refused, time};
use crate::calls::KERNEL;

/// More entries than a process can have descriptors.
const ENTRIES_MAX: usize = 1 << 20;
/// Events that one call tells of at most.
const EVENTS_MAX: usize = 4096;

const _: () = assert!(size_of::<PollEntry>() == size_of::<pollfd>());
const _: () = assert!(size_of::<DescriptorSet>() == size_of::<fd_set>());
const _: () = assert!(size_of::<PollEvent>() == size_of::<epoll_event>());

/// `poll`; the time as with `ppoll`.
pub(crate) unsafe extern "C" fn poll(fds: *mut pollfd, count: usize, timeout: *const timespec) -> c_int {
    let work = || {
        if count > ENTRIES_MAX {
            return Err(Errno::EINVAL);
        }
        if fds.is_null() && count > 0 {
            return Err(Errno::EFAULT);
        }
        // SAFETY: the program's time is NULL or readable.
        let timeout = unsafe { time(timeout)? };
        // SAFETY: the program's array has as many entries as it says.
        let read = |place| unsafe { fds.add(place).cast::<PollEntry>().read_unaligned() };
        let mut entries: Vec<PollEntry> = (0..count).map(read).collect();
        let ready = nonic_sockets::poll(&mut entries, timeout).map_err(refused)?;
        for (place, entry) in entries.iter().enumerate() {
            // SAFETY: as above; they are the program's to be written.
            unsafe { (&raw mut (*fds.add(place)).revents).write_unaligned(entry.revents) };
        }
        Ok(c_int::try_from(ready).unwrap_or(c_int::MAX))
    };
    kept(|| guard::or_minus_one(work))
}

/// `select`; the time as with `pselect`.
pub(crate) unsafe extern "C" fn select(
    count: c_int,
    input: *mut fd_set,
    output: *mut fd_set,
    exceptions: *mut fd_set,
    timeout: *const timespec,
) -> c_int {
    let work = || {
        let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the program's time is NULL or readable.
        let timeout = unsafe { time(timeout)? };
        let places = [input, output, exceptions].map(<*mut fd_set>::cast::<DescriptorSet>);
        // SAFETY: a set of the program's is NULL or as long as every set.
        let read = |place: *mut DescriptorSet| (!place.is_null()).then(|| unsafe { place.read_unaligned() });
        let mut sets = places.map(read);
        let ready = nonic_sockets::select(count, &mut sets, timeout).map_err(refused)?;
        for (place, set) in places.into_iter().zip(sets) {
            if let Some(set) = set {
                // SAFETY: read from there just now; it is the program's to be written.
                unsafe { place.write_unaligned(set) };
            }
        }
        Ok(c_int::try_from(ready).unwrap_or(c_int::MAX))
    };
    kept(|| guard::or_minus_one(work))
}

/// `epoll_ctl` for a socket of the engine's.
pub(crate) unsafe extern "C" fn control(
    poll: c_int,
    operation: c_int,
    number: c_int,
    event: *mut epoll_event,
) -> c_int {
    super::answered(|| {
        let event = if operation == libc::EPOLL_CTL_DEL {
            PollEvent::default()
        } else if event.is_null() {
            return Err(nonic_sockets::Error::new(libc::EFAULT));
        } else {
            // SAFETY: the program's event is readable, and has the same layout.
            unsafe { event.cast::<PollEvent>().read_unaligned() }
        };
        Ok(match nonic_sockets::control(poll, operation, number, event)? {
            Way::Done(()) => Way::Done(0),
            Way::Kernel => Way::Kernel,
        })
    })
}

/// `epoll_wait`; the time as with `epoll_pwait2`.
pub(crate) unsafe extern "C" fn wait(
    poll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
) -> c_int {
    let work = || {
        let most = usize::try_from(most).ok().filter(|most| *most > 0).ok_or(Errno::EINVAL)?;
        // SAFETY: the library's time is NULL or readable.
        let timeout = unsafe { time(timeout)? };
        if events.is_null() {
            return Err(Errno::EFAULT);
        }
        let found = match nonic_sockets::wait(poll, most.min(EVENTS_MAX), timeout).map_err(refused)? {
            Way::Done(found) => found,
            Way::Kernel => return Ok(KERNEL),
        };
        for (place, event) in found.iter().enumerate() {
            // SAFETY: no more than the program has room for, in the same layout.
            unsafe { events.add(place).cast::<PollEvent>().write_unaligned(*event) };
        }
        Ok(found.len() as c_int)
    };
    kept(|| guard::or_minus_one(work))
}
