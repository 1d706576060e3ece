//! Datagram sockets: a UDP socket, by which peers find each other, and a queue pair of datagrams.
//!
//! The first datagram to a peer goes by UDP, with the sender's queue pair in a header; the peer answers with its own, and from
//! then on datagrams go by the device. To other hosts, which the device does not lead to, all of them go by UDP.

mod header;
mod naming;
mod options;
mod port;
mod transfer;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_device::{Context, QpNumber, devices};
use nonic_sys::{
    AsFd, AsRawFd, OwnedFd, POLL_IN, POLL_OUT, RawFd, bind_datagram, datagram_name, open_datagram,
};

use self::port::{Port, Received};
use crate::settings::{Defaults, Sizes};
use crate::waiting::{Awaited, Look};
use crate::wakeup::Wakeup;
use crate::{Error, Result, service};

/// A datagram socket.
#[derive(Debug)]
pub(crate) struct Datagram {
    /// Its descriptor is the socket's number.
    udp: OwnedFd,
    wakeup: Arc<Wakeup>,
    nonblocking: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Made when something is to be sent or received.
    port: Option<Port>,
    /// Where datagrams go that are sent without an address.
    peer: Option<SocketAddr>,
    /// Queue pairs of peers on this host, as far as they have said.
    known: HashMap<SocketAddr, QpNumber>,
    /// This socket's address as those at another see it.
    own_names: HashMap<IpAddr, SocketAddr>,
    arrived: VecDeque<Arrived>,
    sizes: Sizes,
    waiters: usize,
    is_closed: bool,
}

/// A datagram that waits.
#[derive(Debug)]
enum Arrived {
    /// In a slot.
    ByDevice(Received),
    ByUdp(Box<[u8]>, SocketAddr),
}

impl Datagram {
    /// One that is not bound; `unbound` is of its family.
    pub(crate) fn new(unbound: SocketAddr) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            udp: open_datagram(unbound)?,
            wakeup: Arc::default(),
            nonblocking: AtomicBool::new(false),
            state: Mutex::new(State {
                port: None,
                peer: None,
                known: HashMap::new(),
                own_names: HashMap::new(),
                arrived: VecDeque::new(),
                sizes: Defaults::get().sizes,
                waiters: 0,
                is_closed: false,
            }),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its descriptor.
    pub(crate) fn number(&self) -> RawFd {
        self.udp.as_fd().as_raw_fd()
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Binds it; to a port of UDP too.
    pub(crate) fn bind(self: &Arc<Self>, address: SocketAddr) -> Result<()> {
        bind_datagram(&self.udp, address)?;
        self.open(&mut self.lock())
    }

    /// Its own address.
    pub(crate) fn name(&self) -> Result<SocketAddr> {
        Ok(datagram_name(&self.udp)?)
    }

    /// Where datagrams go that are sent without an address.
    pub(crate) fn peer_name(&self) -> Result<SocketAddr> {
        self.lock().peer.ok_or(Error::new(libc::ENOTCONN))
    }

    /// Sets that.
    pub(crate) fn connect(self: &Arc<Self>, address: SocketAddr) -> Result<()> {
        let mut state = self.lock();
        self.open(&mut state)?;
        state.peer = Some(address);
        Ok(())
    }

    /// Makes what is needed to send and receive, if it was not.
    fn open(self: &Arc<Self>, state: &mut State) -> Result<()> {
        if state.is_closed {
            return Err(Error::new(libc::EBADF));
        }
        if state.port.is_some() {
            return Ok(());
        }
        let mut name = self.name()?;
        if name.port() == 0 {
            bind_datagram(&self.udp, name)?;
            name = self.name()?;
        }
        let device = devices().into_iter().next().ok_or(Error::new(libc::ENODEV))?;
        let context = device.open().map_err(|_| Error::new(libc::ENODEV))?;
        let port = Port::new(&context, state.sizes, &self.wakeup)?;
        tracing::debug!(%name, queue_pair = port.number().0, "a datagram socket is opened");
        state.port = Some(port);
        service::watch(self)
    }

    /// Takes in what has come by now.
    fn update(&self, state: &mut State, look: Look) {
        let State { port: Some(port), arrived, .. } = state else { return };
        match look {
            Look::Glance if !port.endpoint().has_completions() => return,
            Look::Glance | Look::Thorough => {}
            Look::Armed => port.endpoint().arm(),
            Look::Waiting => port.endpoint().arm_to_wait(),
        }
        if port.reap(|received| arrived.push_back(Arrived::ByDevice(received))) {
            self.wakeup.ring();
        }
    }

    /// What of `events` there is now.
    pub(crate) fn ready(&self, events: i16, look: Look) -> i16 {
        let mut state = self.lock();
        self.update(&mut state, look);
        let can_send = state.port.as_ref().is_none_or(Port::can_send);
        let can_read = !state.arrived.is_empty();
        events & (if can_read { POLL_IN } else { 0 } | if can_send { POLL_OUT } else { 0 })
    }

    /// Nothing more is sent or received: nobody but this process need know.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let port = state.port.take();
        state.arrived.clear();
        drop(state);
        self.wakeup.ring();
        drop(port);
        service::forget(self.udp.as_fd());
    }
}

impl Datagram {
    /// The device that it goes over, once it has one.
    pub(crate) fn device(&self) -> Option<Arc<Context>> {
        self.lock().port.as_ref().map(|port| Arc::clone(port.context()))
    }
}

impl Awaited for Datagram {
    fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    fn begin_wait(&self) -> Option<Arc<Context>> {
        let mut state = self.lock();
        state.waiters += 1;
        state.port.as_ref().map(|port| Arc::clone(port.context()))
    }

    fn pause_wait(&self) {
        let state = self.lock();
        if let (1, Some(port)) = (state.waiters, &state.port) {
            port.endpoint().disarm();
        }
    }

    fn end_wait(&self) {
        let mut state = self.lock();
        state.waiters -= 1;
        if state.waiters == 0
            && let Some(port) = &state.port
        {
            port.endpoint().disarm();
        }
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        service::forget(self.udp.as_fd());
    }
}
