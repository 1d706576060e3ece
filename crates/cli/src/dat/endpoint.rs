//! Endpoints and listeners.

use std::rc::Rc;
use std::time::Duration;

use super::adapter::Adapter;
use super::event::{Connection, Event, RawEvent, Status};
use super::library::{DatError, Handle};
use super::region::{Privileges, Region, Remote, Window};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// `DAT_EVD_*_FLAG`: connection requests, completions, connection events, binds.
const REQUESTS: u32 = 0x10;
const COMPLETIONS: u32 = 0x20;
const CONNECTIONS: u32 = 0x40;
const BINDS: u32 = 0x80;

/// Events that each dispatcher has room for.
const EVENTS: i32 = 64;

/// The type of `DAT_QUEUE_EMPTY`.
const QUEUE_EMPTY: u32 = 0xd;

/// A queue of events; freed with this object.
struct Dispatcher {
    adapter: Rc<Adapter>,
    handle: Handle,
}

impl Dispatcher {
    fn new(adapter: &Rc<Adapter>, streams: u32) -> Result<Self, DatError> {
        let mut handle = 0;
        // SAFETY: the place holds a handle.
        let answer = unsafe {
            (adapter.library.functions.dat_evd_create)(adapter.handle, EVENTS, 0, streams, &raw mut handle)
        };
        adapter.library.check("dat_evd_create", answer)?;
        Ok(Self { adapter: Rc::clone(adapter), handle })
    }

    /// The oldest event, if there is one.
    fn poll(&self) -> Result<Option<Event>, DatError> {
        let mut event = RawEvent::default();
        let library = &self.adapter.library;
        // SAFETY: the place is of the type that the call stores.
        let answer = unsafe { (library.functions.dat_evd_dequeue)(self.handle, &raw mut event) };
        match library.check("dat_evd_dequeue", answer) {
            Ok(()) => Ok(Some(event.read())),
            Err(error) if error.kind() == QUEUE_EMPTY => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sleeps until there is an event.
    fn wait(&self) -> Result<Event, DatError> {
        let (mut event, mut more) = (RawEvent::default(), 0);
        let library = &self.adapter.library;
        let patience = PATIENCE.as_micros() as u32;
        // SAFETY: both places are of the types that the call stores.
        let answer = unsafe {
            (library.functions.dat_evd_wait)(self.handle, patience, 1, &raw mut event, &raw mut more)
        };
        library.check("dat_evd_wait", answer).map(|()| event.read())
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's alone; an endpoint that uses it is freed before (fields end in order).
        unsafe { (self.adapter.library.functions.dat_evd_free)(self.handle) };
    }
}

/// A service number that peers can connect to.
pub(crate) struct Listener {
    point: Handle,
    number: u64,
    requests: Dispatcher,
}

impl Listener {
    /// Takes a free number.
    pub(crate) fn new(adapter: &Rc<Adapter>) -> Result<Self, DatError> {
        let requests = Dispatcher::new(adapter, REQUESTS)?;
        let (mut number, mut point) = (0, 0);
        // SAFETY: the places hold a number and a handle.
        let answer = unsafe {
            (adapter.library.functions.dat_psp_create_any)(
                adapter.handle,
                &raw mut number,
                requests.handle,
                0,
                &raw mut point,
            )
        };
        adapter.library.check("dat_psp_create_any", answer)?;
        Ok(Self { point, number, requests })
    }

    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Waits for a request and gives it to the endpoint, which is connected then.
    pub(crate) fn accept(&self, endpoint: &Endpoint) -> Result<(), DatError> {
        let request = match self.requests.wait()? {
            Event::Request { request } => request,
            other => return Err(unforeseen("a request for a connection", other)),
        };
        let library = &endpoint.adapter.library;
        // SAFETY: handles only; there are no private data.
        let answer =
            unsafe { (library.functions.dat_cr_accept)(request, endpoint.handle, 0, std::ptr::null()) };
        library.check("dat_cr_accept", answer)?;
        endpoint.finish_connecting()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's alone.
        unsafe { (self.requests.adapter.library.functions.dat_psp_free)(self.point) };
    }
}

/// An endpoint with dispatchers of its own; ends with this object.
pub(crate) struct Endpoint {
    adapter: Rc<Adapter>,
    handle: Handle,
    requests: Dispatcher,
    receives: Dispatcher,
    connections: Dispatcher,
}

impl Endpoint {
    /// One that is not connected.
    pub(crate) fn new(adapter: &Rc<Adapter>) -> Result<Self, DatError> {
        let requests = Dispatcher::new(adapter, COMPLETIONS | BINDS)?;
        let receives = Dispatcher::new(adapter, COMPLETIONS)?;
        let connections = Dispatcher::new(adapter, CONNECTIONS)?;
        let mut handle = 0;
        // SAFETY: no attributes are given, and the place holds a handle.
        let answer = unsafe {
            (adapter.library.functions.dat_ep_create)(
                adapter.handle,
                adapter.zone,
                receives.handle,
                requests.handle,
                connections.handle,
                std::ptr::null(),
                &raw mut handle,
            )
        };
        adapter.library.check("dat_ep_create", answer)?;
        Ok(Self { adapter: Rc::clone(adapter), handle, requests, receives, connections })
    }

    /// Asks for a connection to whoever listens on that number of this host, and returns.
    pub(crate) fn start_connecting(&self, number: u64) -> Result<(), DatError> {
        // SAFETY: all zeros is a socket address.
        let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let patience = PATIENCE.as_micros() as u32;
        let place = (&raw mut address).cast();
        // SAFETY: the address outlives the call; there are no private data.
        let answer = unsafe {
            (self.adapter.library.functions.dat_ep_connect)(
                self.handle,
                place,
                number,
                patience,
                0,
                std::ptr::null(),
                0,
                0,
            )
        };
        self.adapter.library.check("dat_ep_connect", answer)
    }

    /// Waits until it is connected.
    pub(crate) fn finish_connecting(&self) -> Result<(), DatError> {
        self.expect(Connection::Established)
    }

    /// Waits for this to become of the connection.
    fn expect(&self, expected: Connection) -> Result<(), DatError> {
        match self.connections.wait()? {
            Event::Connection(event) if event == expected => Ok(()),
            other => Err(unforeseen(&format!("the connection event {expected:?}"), other)),
        }
    }

    /// After a connection has failed: waits until both sides know, and makes the endpoint ready for another one.
    pub(crate) fn recover(&self) -> Result<(), DatError> {
        self.expect(Connection::Broken)?;
        // SAFETY: the handle is this object's.
        let answer = unsafe { (self.adapter.library.functions.dat_ep_reset)(self.handle) };
        self.adapter.library.check("dat_ep_reset", answer)?;
        for dispatcher in [&self.receives, &self.requests] {
            while dispatcher.poll()?.is_some() {} // What was flushed.
        }
        Ok(())
    }

    /// Posts memory for a message.
    pub(crate) fn post_receive(&self, region: &Region, from: usize, length: usize) -> Result<(), DatError> {
        let piece = region.piece(from, length);
        // SAFETY: one triplet, which is copied; the library checks the memory, which is registered and outlives the
        // region.
        let answer = unsafe {
            (self.adapter.library.functions.dat_ep_post_recv)(self.handle, 1, &raw const piece, 0, 0)
        };
        self.adapter.library.check("dat_ep_post_recv", answer)
    }

    /// Sleeps until a message has arrived.
    pub(crate) fn received(&self) -> Result<(), DatError> {
        match self.receives.wait()? {
            Event::Transfer { status } if status.is_success() => Ok(()),
            other => Err(unforeseen("a message", other)),
        }
    }

    /// Posts a message.
    pub(crate) fn post_send(&self, region: &Region, from: usize, length: usize) -> Result<(), DatError> {
        let piece = region.piece(from, length);
        // SAFETY: as of `post_receive`.
        let answer = unsafe {
            (self.adapter.library.functions.dat_ep_post_send)(self.handle, 1, &raw const piece, 0, 0)
        };
        self.adapter.library.check("dat_ep_post_send", answer)
    }

    /// Posts a write of the bytes from `from` on to the peer's memory, as many as that has.
    pub(crate) fn post_write(&self, region: &Region, from: usize, remote: Remote) -> Result<(), DatError> {
        let (piece, target) = (region.piece(from, remote.length as usize), remote.triplet());
        // SAFETY: as of `post_receive`; the peer judges its memory.
        let answer = unsafe {
            (self.adapter.library.functions.dat_ep_post_rdma_write)(
                self.handle,
                1,
                &raw const piece,
                0,
                &raw const target,
                0,
            )
        };
        self.adapter.library.check("dat_ep_post_rdma_write", answer)
    }

    /// Posts a read of the peer's memory to the bytes from `from` on.
    pub(crate) fn post_read(&self, region: &Region, from: usize, remote: Remote) -> Result<(), DatError> {
        let (piece, source) = (region.piece(from, remote.length as usize), remote.triplet());
        // SAFETY: as of `post_write`.
        let answer = unsafe {
            (self.adapter.library.functions.dat_ep_post_rdma_read)(
                self.handle,
                1,
                &raw const piece,
                0,
                &raw const source,
                0,
            )
        };
        self.adapter.library.check("dat_ep_post_rdma_read", answer)
    }

    /// Posts a bind of the window to a part of the region; returns what the peer is to be told.
    pub(crate) fn post_bind(
        &self,
        window: &Window,
        region: &Region,
        (from, length): (usize, usize),
        privileges: Privileges,
    ) -> Result<Remote, DatError> {
        let piece = region.piece(from, length);
        let mut context = 0;
        // SAFETY: one triplet, which is copied, and a place for a context.
        let answer = unsafe {
            (self.adapter.library.functions.dat_rmr_bind)(
                window.handle,
                &raw const piece,
                privileges.bits(),
                self.handle,
                0,
                0,
                &raw mut context,
            )
        };
        self.adapter.library.check("dat_rmr_bind", answer)?;
        Ok(Remote { context, ..region.remote() }.part(from, length))
    }

    /// Sleeps until the oldest request has ended well.
    pub(crate) fn finish(&self) -> Result<(), DatError> {
        match self.requests.wait()? {
            Event::Transfer { status } | Event::Bind { status } if status.is_success() => Ok(()),
            other => Err(unforeseen("the good end of a request", other)),
        }
    }

    /// How the oldest request has ended, if it has.
    pub(crate) fn poll(&self) -> Result<Option<Status>, DatError> {
        match self.requests.poll()? {
            None => Ok(None),
            Some(Event::Transfer { status } | Event::Bind { status }) => Ok(Some(status)),
            Some(other) => Err(unforeseen("the end of a request", other)),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's alone.
        unsafe { (self.adapter.library.functions.dat_ep_free)(self.handle) };
    }
}

fn unforeseen(expected: &str, event: Event) -> DatError {
    DatError::Event(format!("waited for {expected}, and there was {event:x?}"))
}
