//! Events.

use core::ffi::{CStr, c_char, c_int};

use nonic_rdma_cm::{EventKind, Parameters};
use nonic_verbs::cancellable;
use nonic_verbs::errno::Errno;

use super::zero;
use crate::abi::{rdma_cm_event, rdma_cm_id, rdma_event_channel};
use crate::delivery::Delivery;
use crate::errno::refused;
use crate::objects::{EVENTS, identifier};

/// `rdma_get_cm_event(3)`: 0 with the event, or -1 with `EINVAL` (no such channel, no place for the event), `EAGAIN` (the program
/// made the descriptor non-blocking and there is none), `EINTR`. A point of cancellation.
pub(crate) unsafe extern "C-unwind" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    let begin = || if event.is_null() { Err(Errno::EINVAL) } else { Delivery::begin(channel) };
    // SAFETY: the program's place is writable.
    let found = |happened| unsafe { event.write(happened) };
    // SAFETY: this frame owns nothing.
    unsafe { cancellable::wait(begin, found) }
}

/// `rdma_ack_cm_event(3)`: -1 with `EINVAL` (no such event). The event and its private data are gone then.
pub(crate) unsafe extern "C-unwind" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    zero(|| acknowledge(event))
}

/// `rdma_write_cm_event(3)`: an event of the program's own behind those that wait; -1 with `EINVAL` (no such identifier, a kind
/// other than `RDMA_CM_EVENT_USER`).
pub(crate) unsafe extern "C-unwind" fn rdma_write_cm_event(
    id: *mut rdma_cm_id,
    event: c_int,
    status: c_int,
    arg: u64,
) -> c_int {
    zero(|| {
        if event != EventKind::User as c_int {
            return Err(Errno::EINVAL);
        }
        identifier(id)?.engine.report(EventKind::User, status, Parameters::Word(arg)).map_err(refused)
    })
}

/// Acknowledges an event: dropping the machine's part of it is what tells whoever waits.
pub(crate) fn acknowledge(event: *mut rdma_cm_event) -> Result<(), Errno> {
    EVENTS.claim(event).map_err(|_| Errno::EINVAL)?.retire();
    Ok(())
}

const NAMES: [&CStr; 20] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
    c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
    c"RDMA_CM_EVENT_ADDRINFO_ERROR",
    c"RDMA_CM_EVENT_USER",
    c"RDMA_CM_EVENT_INTERNAL",
];

/// `rdma_event_str(3)`: the name of a kind of event; `UNKNOWN EVENT` for a number that is none.
pub(crate) unsafe extern "C-unwind" fn rdma_event_str(event: c_int) -> *const c_char {
    let name = usize::try_from(event).ok().and_then(|event| NAMES.get(event));
    name.copied().unwrap_or(c"UNKNOWN EVENT").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_the_name_of_its_number_and_other_numbers_have_none() {
        // SAFETY: the function takes any number, and answers a text of this file.
        let name = |event| unsafe { CStr::from_ptr(rdma_event_str(event)) };
        assert_eq!(name(EventKind::Established as c_int), c"RDMA_CM_EVENT_ESTABLISHED");
        assert_eq!(name(EventKind::TimewaitExit as c_int), c"RDMA_CM_EVENT_TIMEWAIT_EXIT");
        assert_eq!(name(EventKind::User as c_int), c"RDMA_CM_EVENT_USER");
        assert_eq!(name(20), c"UNKNOWN EVENT");
        assert_eq!(name(-1), c"UNKNOWN EVENT");
    }
}
