//! Identifiers: listeners, those on the way to one, and the two ends of a connection.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use super::event::{Channel, Event, EventKind, unforeseen};
use super::library::RdmacmError;
use super::{abi, address};
use crate::verbs::{CallError, Maker, QueuePair, Session};

/// How long the library may look for an address or a route.
const RESOLVING_MS: c_int = 2000;

/// Requests that may wait at a listener.
const BACKLOG: c_int = 16;

/// How often a queue pair tries again: as often as there is a number for, and without end where the receiver is not ready.
const RETRIES: u8 = 7;

/// An identifier; destroyed with this object.
pub(crate) struct Identifier {
    channel: Rc<Channel>,
    raw: NonNull<abi::rdma_cm_id>,
}

impl Identifier {
    /// A new one for reliable connections, whose events come by that channel.
    pub(crate) fn new(channel: &Rc<Channel>) -> Result<Rc<Self>, RdmacmError> {
        let mut raw = null_mut();
        let create = channel.library.functions.create_id;
        // SAFETY: a channel of this library, a place for a pointer, and a context that nobody follows.
        let answer = unsafe { create(channel.raw.as_ptr(), &raw mut raw, null_mut(), abi::RDMA_PS_TCP) };
        CallError::check("rdma_create_id", answer)?;
        let raw = NonNull::new(raw).ok_or_else(|| CallError::last("rdma_create_id"))?;
        Ok(Rc::new(Self { channel: Rc::clone(channel), raw }))
    }

    /// Gives it that address of this host; port 0 is any that is free.
    pub(crate) fn bind(&self, address: SocketAddr) -> Result<(), RdmacmError> {
        let mut storage = address::written(address);
        // SAFETY: alive until this is dropped; the address outlives the call.
        let answer = unsafe {
            (self.channel.library.functions.bind_addr)(self.raw.as_ptr(), (&raw mut storage).cast())
        };
        Ok(CallError::check("rdma_bind_addr", answer)?)
    }

    /// Takes requests from now on.
    pub(crate) fn listen(&self) -> Result<(), RdmacmError> {
        // SAFETY: alive until this is dropped.
        let answer = unsafe { (self.channel.library.functions.listen)(self.raw.as_ptr(), BACKLOG) };
        Ok(CallError::check("rdma_listen", answer)?)
    }

    /// Finds the device that leads to an address.
    pub(crate) fn resolve_address(&self, address: SocketAddr) -> Result<(), RdmacmError> {
        let mut storage = address::written(address);
        let call = self.channel.library.functions.resolve_addr;
        // SAFETY: alive until this is dropped; the address outlives the call; none of this host is wanted.
        let answer = unsafe { call(self.raw.as_ptr(), null_mut(), (&raw mut storage).cast(), RESOLVING_MS) };
        CallError::check("rdma_resolve_addr", answer)?;
        self.expect(EventKind::ADDR_RESOLVED, 0).map(drop)
    }

    /// Finds the way there.
    pub(crate) fn resolve_route(&self) -> Result<(), RdmacmError> {
        // SAFETY: alive until this is dropped.
        let answer =
            unsafe { (self.channel.library.functions.resolve_route)(self.raw.as_ptr(), RESOLVING_MS) };
        CallError::check("rdma_resolve_route", answer)?;
        self.expect(EventKind::ROUTE_RESOLVED, 0).map(drop)
    }

    /// Asks for a connection, and returns.
    pub(crate) fn connect(&self, private_data: &[u8]) -> Result<(), RdmacmError> {
        let mut parameters = parameters("rdma_connect", private_data)?;
        // SAFETY: alive until this is dropped; the parameters and the bytes outlive the call, which copies them.
        let answer =
            unsafe { (self.channel.library.functions.connect)(self.raw.as_ptr(), &raw mut parameters) };
        Ok(CallError::check("rdma_connect", answer)?)
    }

    /// Answers a request, and returns.
    pub(crate) fn accept(&self, private_data: &[u8]) -> Result<(), RdmacmError> {
        let mut parameters = parameters("rdma_accept", private_data)?;
        // SAFETY: as of `connect`.
        let answer =
            unsafe { (self.channel.library.functions.accept)(self.raw.as_ptr(), &raw mut parameters) };
        Ok(CallError::check("rdma_accept", answer)?)
    }

    /// Refuses a request.
    pub(crate) fn reject(&self, private_data: &[u8]) -> Result<(), RdmacmError> {
        let length = length("rdma_reject", private_data)?;
        let start = private_data.as_ptr().cast();
        // SAFETY: alive until this is dropped; the bytes outlive the call, which copies them.
        let answer = unsafe { (self.channel.library.functions.reject)(self.raw.as_ptr(), start, length) };
        Ok(CallError::check("rdma_reject", answer)?)
    }

    /// Ends the connection, or agrees to its end.
    pub(crate) fn disconnect(&self) -> Result<(), RdmacmError> {
        // SAFETY: alive until this is dropped.
        let answer = unsafe { (self.channel.library.functions.disconnect)(self.raw.as_ptr()) };
        Ok(CallError::check("rdma_disconnect", answer)?)
    }

    /// Waits, asleep, for its next event, which must be this one.
    pub(crate) fn expect(&self, kind: EventKind, status: i32) -> Result<Event, RdmacmError> {
        let event = self.channel.wait(self.raw, kind)?;
        if (event.kind, event.status) != (kind, status) {
            let error = unforeseen(&self.channel.library, (kind, status), &event);
            drop(self.adopt(&event));
            return Err(error);
        }
        Ok(event)
    }

    /// Waits, asleep, for the next request; returns it and the identifier that is made for it.
    pub(crate) fn request(&self) -> Result<(Event, Rc<Self>), RdmacmError> {
        let event = self.expect(EventKind::CONNECT_REQUEST, 0)?;
        let identifier = self.adopt(&event);
        let identifier = identifier
            .ok_or_else(|| RdmacmError::Event("a request came without an identifier".to_owned()))?;
        Ok((event, identifier))
    }

    /// The identifier of a request, whose event was taken from the channel and is not looked at again.
    fn adopt(&self, event: &Event) -> Option<Rc<Self>> {
        event.request.map(|raw| Rc::new(Self { channel: Rc::clone(&self.channel), raw }))
    }

    /// Its address here.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        // SAFETY: alive until this is dropped; the library changes it only within calls, of which none is under way.
        address::read(unsafe { &(*self.raw.as_ptr()).route.addr.src_storage })
    }

    /// The address it leads to.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        // SAFETY: as above.
        address::read(unsafe { &(*self.raw.as_ptr()).route.addr.dst_storage })
    }

    /// Ways that were found.
    pub(crate) fn path_count(&self) -> i32 {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).route.num_paths }
    }

    /// Whether it shows a device.
    pub(crate) fn has_device(&self) -> bool {
        // SAFETY: as above.
        unsafe { !(*self.raw.as_ptr()).verbs.is_null() }
    }

    /// A protection domain and a completion queue of the device that it shows.
    pub(crate) fn session(&self) -> Result<Rc<Session>, RdmacmError> {
        // SAFETY: as above.
        let context = NonNull::new(unsafe { (*self.raw.as_ptr()).verbs });
        let context =
            context.ok_or_else(|| RdmacmError::Event("an identifier shows no device".to_owned()))?;
        // SAFETY: a device of the library beside this one, which stays open as long as that is loaded
        // (rdma_get_devices(3)): until the process ends.
        Ok(unsafe { Session::on_open_device(&self.channel.library.verbs, context) }?)
    }

    /// Makes its queue pair, which completes to the session's queue.
    pub(crate) fn create_queue_pair(
        self: &Rc<Self>,
        session: &Rc<Session>,
    ) -> Result<QueuePair, RdmacmError> {
        Ok(QueuePair::create_by(session, Rc::clone(self) as Rc<dyn Maker>)?)
    }
}

// SAFETY: `rdma_create_qp` makes a queue pair with these attributes in this domain, and refuses a second one; only
// `rdma_destroy_qp` ends it.
unsafe impl Maker for Identifier {
    unsafe fn create(
        &self,
        domain: NonNull<c_void>,
        attributes: NonNull<c_void>,
    ) -> Result<NonNull<c_void>, CallError> {
        const CALL: &str = "rdma_create_qp";
        let create = self.channel.library.functions.create_qp;
        // SAFETY: alive until this is dropped; domain and attributes are what the caller promises.
        let answer = unsafe { create(self.raw.as_ptr(), domain.as_ptr(), attributes.as_ptr()) };
        CallError::check(CALL, answer)?;
        // SAFETY: as of `local_address`.
        NonNull::new(unsafe { (*self.raw.as_ptr()).qp }).ok_or_else(|| CallError::last(CALL))
    }

    unsafe fn destroy(&self) {
        // SAFETY: it has a queue pair, which nobody uses any more, by the caller's word.
        unsafe { (self.channel.library.functions.destroy_qp)(self.raw.as_ptr()) };
    }
}

impl Drop for Identifier {
    fn drop(&mut self) {
        self.channel.forget(self.raw);
        // SAFETY: created, or taken from its one event, and destroyed once; its queue pair held an Rc of it, and is gone.
        unsafe { (self.channel.library.functions.destroy_id)(self.raw.as_ptr()) };
    }
}

fn length(call: &'static str, private_data: &[u8]) -> Result<u8, RdmacmError> {
    u8::try_from(private_data.len()).map_err(|_| {
        RdmacmError::Event(format!("{call} takes at most 255 bytes and not {}", private_data.len()))
    })
}

fn parameters(call: &'static str, private_data: &[u8]) -> Result<abi::rdma_conn_param, RdmacmError> {
    Ok(abi::rdma_conn_param {
        private_data: private_data.as_ptr().cast(),
        private_data_len: length(call, private_data)?,
        responder_resources: abi::RDMA_MAX_DEPTH,
        initiator_depth: abi::RDMA_MAX_DEPTH,
        flow_control: 1,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        srq: 0,
        qp_num: 0,
    })
}
