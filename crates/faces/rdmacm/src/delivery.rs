//! Events on their way to the program: what the original library does with each before a program sees it.

use core::ffi::c_int;
use core::ptr;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nonic_device::{EventWait, Step};
use nonic_rdma_cm::{Event, EventChannel, EventChannelWait, EventKind, Parameters, REJECT_CONSUMER};
use nonic_verbs::errno::Errno;

use crate::abi::{rdma_cm_event, rdma_cm_id, rdma_event_channel};
use crate::connection_parameters;
use crate::entry::{channel, identifier, multicast};
use crate::objects::{CHANNELS, EVENTS, IDENTIFIERS, Identifier, pointer_to};
use crate::{queue_pairs, route};

/// How long a thread that asks for an event of a channel which another thread has just destroyed is kept.
const AFTERMATH: Duration = Duration::from_secs(1);

/// A wait for an event that a program is to see.
pub(crate) struct Delivery {
    channel: Arc<EventChannel>,
    wait: EventChannelWait,
}

impl Delivery {
    /// Begins to wait on a channel; `EINVAL` if there is none.
    ///
    /// Programs end so (`rping`): one thread destroys the channel and returns from `main`, while another that handles events
    /// acknowledges the last one and asks for the next, and takes an error for a reason to exit with it. With a card that one as
    /// a rule is in the kernel by then, where it waits for ever. Here it waits for a while, in which its process ends.
    pub(crate) fn begin(pointer: *const rdma_event_channel) -> Result<Self, Errno> {
        let channel = CHANNELS.parent(pointer).inspect_err(|_| {
            if CHANNELS.was_destroyed(pointer) {
                std::thread::sleep(AFTERMATH);
            }
        })?;
        Ok(Self { wait: channel.begin_wait(), channel })
    }
}

impl EventWait for Delivery {
    type Event = *mut rdma_cm_event;

    fn go_on(&mut self, mut slept: io::Result<()>) -> io::Result<Step<Self::Event>> {
        loop {
            let event = match self.wait.go_on(slept)? {
                Step::Found(event) => event,
                Step::Sleep(sleep) => return Ok(Step::Sleep(sleep)),
            };
            if let Some(event) = deliver(event) {
                return Ok(Step::Found(event));
            }
            self.wait = self.channel.begin_wait();
            slept = Ok(());
        }
    }

    fn abandon(self, has_read: bool) {
        self.wait.abandon(has_read);
    }
}

/// The event for the program; `None` if it is not to see it.
fn deliver(mut event: Event) -> Option<*mut rdma_cm_event> {
    let listener = event.listener.as_deref().map_or(ptr::null_mut(), pointer_to);
    let id = if listener.is_null() { pointer_to(&event.id) } else { welcome(&event, listener)? };
    let identifier = IDENTIFIERS.find(id).ok()?;
    // SAFETY: the identifier was found, and whoever destroys it waits until this event is dropped.
    if !unsafe { prepare(id, &identifier, &mut event) } {
        return None;
    }
    let event = Arc::new(event);
    let face = rdma_cm_event {
        id,
        listen_id: listener,
        event: event.kind as c_int,
        status: event.status,
        param: connection_parameters::to_c(&event.parameters),
    };
    Some(EVENTS.reserve().fill(event, |_| face))
}

/// Does what an event is the time for; false if the program is not to see it.
///
/// # Safety
/// `id` is alive, and this identifier's.
unsafe fn prepare(id: *mut rdma_cm_id, identifier: &Identifier, event: &mut Event) -> bool {
    // SAFETY: the caller's promise is the same for each of them.
    unsafe {
        match event.kind {
            EventKind::AddressResolved => {
                or_error(event, EventKind::AddressError, route::show(id, identifier))
            }
            EventKind::RouteResolved => {
                or_error(event, EventKind::RouteError, route::show_path(id, identifier));
            }
            EventKind::ConnectResponse if !(*id).qp.is_null() => establish(id, identifier, event),
            EventKind::Rejected | EventKind::Disconnected if identifier.rest().has_failed => return false,
            EventKind::MulticastJoin => {
                if let Parameters::Datagram(joined) = &event.parameters {
                    let attached = multicast::attach(id, identifier, joined);
                    or_error(event, EventKind::MulticastError, attached);
                }
            }
            EventKind::Rejected => queue_pairs::fail(id),
            _ => {}
        }
    }
    true
}

/// What has become of an event whose part in this library failed.
fn or_error(event: &mut Event, error: EventKind, done: Result<(), Errno>) {
    if let Err(errno) = done {
        (event.kind, event.status) = (error, -errno.0);
    }
}

/// Moves the queue pair of a connection that was accepted, and says so to the other side.
///
/// # Safety
/// `id` is alive, and this identifier's.
unsafe fn establish(id: *mut rdma_cm_id, identifier: &Identifier, event: &mut Event) {
    let engine = &identifier.engine;
    // SAFETY: the caller says that the structure is alive; the queue pair is looked up.
    let moved = queue_pairs::connect(unsafe { (*id).qp }, engine, None);
    match moved.and_then(|()| engine.establish().map_err(crate::errno::refused)) {
        Ok(()) => event.kind = EventKind::Established,
        Err(errno) => {
            (event.kind, event.status) = (EventKind::ConnectError, -errno.0);
            identifier.rest().has_failed = true;
            // SAFETY: as above.
            unsafe { queue_pairs::fail(id) };
            let _ = engine.reject(&[], REJECT_CONSUMER);
        }
    }
}

/// Makes the structure of an identifier that came with a request; a request that cannot be shown is rejected.
fn welcome(event: &Event, listener: *mut rdma_cm_id) -> Option<*mut rdma_cm_id> {
    let id = adopt(event, listener);
    if id.is_err() {
        let _ = event.id.reject(&[], REJECT_CONSUMER);
    }
    id.ok()
}

fn adopt(event: &Event, listener: *mut rdma_cm_id) -> Result<*mut rdma_cm_id, Errno> {
    let synchronous = IDENTIFIERS.parent(listener)?.is_synchronous();
    // SAFETY: the listener was found; the memory of one that is destroyed at this moment is kept for longer than this.
    let (mut events, context, space, qp_type) =
        unsafe { ((*listener).channel, (*listener).context, (*listener).ps, (*listener).qp_type) };
    if synchronous {
        // Its calls wait as those of its listener do.
        events = channel::create()?;
        let moved =
            CHANNELS.parent(events).and_then(|own| event.id.migrate(&own).map_err(crate::errno::refused));
        if let Err(errno) = moved {
            channel::destroy(events);
            return Err(errno);
        }
    }
    let new = Identifier::new(Arc::clone(&event.id), synchronous);
    if let Parameters::Connection(asked) = &event.parameters {
        let mut rest = new.rest();
        rest.responder_resources = asked.responder_resources;
        rest.initiator_depth = asked.initiator_depth;
    }
    let reservation = IDENTIFIERS.reserve();
    event.id.set_cookie(reservation.cookie());
    let face = identifier::blank(events, context, space, qp_type);
    let id = reservation.fill(Arc::clone(&new), |_| face);
    // SAFETY: it was made just now, and nobody knows it yet.
    if let Err(errno) = unsafe { route::show_path(id, &new) } {
        identifier::forget(id);
        return Err(errno);
    }
    Ok(id)
}
