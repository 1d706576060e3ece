//! Listening, and accepting.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Weak};

use nonic_rdma_cm::{Event, EventKind, Id, Parameters, REJECT_CONSUMER};
use nonic_sys::{POLL_IN, PollEntry};

use super::connecting::{introduction_of, own_channel};
use super::{Phase, Stream};
use crate::poll::{Polled, poll_found};
use crate::{Error, Result, service};

/// Connections that wait to be accepted at most, whatever is asked for.
const MOST: usize = 1024;

/// Whether another host may ask for connections, by the address that its packets come from.
pub type Admission = fn(IpAddr) -> bool;

/// What a listening stream keeps, and what one knows that a listening stream made.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    most: usize,
    /// Who may ask; `None`: everybody.
    admits: Option<Admission>,
    /// Accepted, and not known to the peer yet.
    accepting: Vec<Arc<Stream>>,
    ready: VecDeque<Arc<Stream>>,
    listener: Weak<Stream>,
}

impl Backlog {
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    fn has_room(&self) -> bool {
        self.accepting.len() + self.ready.len() < self.most
    }

    pub(super) fn listener(&self) -> Option<Arc<Stream>> {
        self.listener.upgrade()
    }

    /// All who nobody will accept now.
    pub(super) fn take_all(&mut self) -> Vec<Arc<Stream>> {
        self.accepting.drain(..).chain(self.ready.drain(..)).collect()
    }
}

impl Stream {
    /// Takes connections from now on.
    pub fn listen(self: &Arc<Self>, backlog: i32) -> Result<()> {
        let mut state = self.lock();
        match state.phase {
            Phase::Listening => return Ok(()),
            Phase::Idle => {}
            _ => return Err(Error::new(libc::EINVAL)),
        }
        self.id.listen(backlog)?;
        let most = usize::try_from(backlog).unwrap_or(0);
        state.backlog.most = if (1..=MOST).contains(&most) { most } else { MOST };
        state.phase = Phase::Listening;
        drop(state);
        service::watch(self)
    }

    /// From now on only hosts may ask whom `admits` admits, and nobody of this one; others are rejected before anything is made for them.
    pub fn admit(&self, admits: Admission) {
        self.lock().backlog.admits = Some(admits);
    }

    /// The connection that waits longest, once there is one.
    pub(crate) fn accept(self: &Arc<Self>) -> Result<Arc<Self>> {
        loop {
            if let Some(stream) = self.try_accept()? {
                return Ok(stream);
            }
            if self.is_nonblocking() {
                return Err(Error::new(libc::EAGAIN));
            }
            let mut entries = [PollEntry { number: self.number(), events: POLL_IN, revents: 0 }];
            poll_found(&mut entries, None, &|_| Some(Polled::stream(Arc::clone(self))))?;
        }
    }

    /// The connection that waits longest, if there is one. `EBADF` if nobody listens.
    pub fn try_accept(self: &Arc<Self>) -> Result<Option<Arc<Self>>> {
        let mut state = self.lock();
        if state.phase != Phase::Listening {
            return Err(Error::new(libc::EBADF));
        }
        let had_room = state.backlog.has_room();
        let stream = state.backlog.ready.pop_front();
        drop(state);
        if stream.is_some() && !had_room {
            // The service thread left requests where they were.
            service::watch(self)?;
        }
        Ok(stream)
    }

    /// The service thread's turn: accepts what was asked for, as long as there is room. Whether to go on.
    pub(super) fn accept_requests(self: &Arc<Self>) -> bool {
        loop {
            let state = self.lock();
            if state.phase != Phase::Listening {
                return false;
            }
            if !state.backlog.has_room() {
                return false;
            }
            drop(state);
            let Some(event) = self.channel.try_next_event() else { return true };
            if event.kind == EventKind::ConnectRequest
                && let Err(error) = self.accept_one(event)
            {
                tracing::debug!(%error, "a request for a stream is refused");
            }
        }
    }

    fn accept_one(self: &Arc<Self>, event: Event) -> Result<()> {
        let id = Arc::clone(&event.id);
        let introduction = introduction_of(&event);
        let Parameters::Connection(asked) = event.parameters.clone() else {
            return Err(Error::new(libc::EINVAL));
        };
        // Whoever moves an identifier waits until its events were let go of.
        drop(event);
        let peer = introduction.inspect_err(|_| drop(id.reject(&[], REJECT_CONSUMER)))?;
        let (options, admits) = {
            let state = self.lock();
            (state.options.inherited(), state.backlog.admits)
        };
        if admits.is_some_and(|admits| !host_of(&id).is_some_and(admits)) {
            let _ = id.reject(&[], REJECT_CONSUMER);
            return Err(Error::new(libc::EACCES));
        }
        let channel = own_channel(&id)?;
        let stream = Arc::new(Self::of(id, channel, self.unbound, Phase::Accepting, options));
        stream.lock().backlog.listener = Arc::downgrade(self);
        // Known before the peer can answer.
        self.lock().backlog.accepting.push(Arc::clone(&stream));
        let accepted = stream.accept_request(&peer, &asked).and_then(|()| service::watch(&stream));
        if accepted.is_err() {
            let _ = stream.id.reject(&[], REJECT_CONSUMER);
            self.accepted(&stream, false);
        }
        accepted
    }

    /// The other host, if the peer is on one: the address that its packets come from, whatever it says of itself.
    pub fn peer_host(&self) -> Option<IpAddr> {
        host_of(&self.id)
    }

    /// A connection that was accepted is there, or failed.
    pub(super) fn accepted(&self, stream: &Arc<Self>, is_there: bool) {
        let mut state = self.lock();
        let accepting = &mut state.backlog.accepting;
        let Some(place) = accepting.iter().position(|other| Arc::ptr_eq(other, stream)) else { return };
        let stream = accepting.swap_remove(place);
        if is_there {
            state.backlog.ready.push_back(stream);
        }
        drop(state);
        self.wakeup.ring();
    }
}

/// The host that packets of a peer come from; `None` if it is of this host.
fn host_of(id: &Id) -> Option<IpAddr> {
    let route = id.wire_route()?;
    Some(IpAddr::V6(Ipv6Addr::from(route.destination)).to_canonical())
}
