//! Making a connection, from both sides.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_rdma_cm::{ConnectionParameters, Event, EventKind, Id, Parameters, REJECT_CONSUMER};
use nonic_sys::{POLL_IN, PollEntry, poll};

use super::{Phase, State, Stream};
use crate::link::Link;
use crate::protocol::Introduction;
use crate::waiting::Look;
use crate::{Error, Result, service};

/// How long an address and a route are looked for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes in front of what the peer says of itself in a request that came by a GID.
const FRONT: usize = 36;
/// How often a message is sent again.
const RETRIES: u8 = 7;

impl Stream {
    /// Connects it to a peer; without waiting if it does not block (`EINPROGRESS`), and goes on with what was begun before.
    pub fn connect(self: &Arc<Self>, address: SocketAddr) -> Result<()> {
        self.connect_from(None, address)
    }

    /// The same from an address of this host.
    pub fn connect_from(self: &Arc<Self>, source: Option<IpAddr>, address: SocketAddr) -> Result<()> {
        let mut state = self.lock();
        match state.phase {
            Phase::Idle => {
                let source = source.map(|ip| SocketAddr::new(ip, 0));
                self.id.resolve_address(source, address, PATIENCE)?;
                state.phase = Phase::Resolving;
                state.error = 0;
            }
            phase if phase.is_opening() => {}
            Phase::Connected => return Err(Error::new(libc::EISCONN)),
            _ => return Err(Error::new(libc::EINVAL)),
        }
        loop {
            self.update(&mut state, Look::Thorough);
            if !state.phase.is_opening() {
                break;
            }
            let blocks = !self.is_nonblocking();
            drop(state);
            let slept = if blocks { self.sleep_until_event() } else { Err(Error::new(libc::EINPROGRESS)) };
            if let Err(error) = slept {
                // It goes on without this thread.
                service::watch(self)?;
                return Err(error);
            }
            state = self.lock();
        }
        let result = match (state.phase, state.error) {
            (Phase::Refused, errno) => {
                state.error = 0;
                Err(Error::new(errno))
            }
            _ => Ok(()),
        };
        drop(state);
        if result.is_ok() {
            service::watch(self)?;
        }
        result
    }

    /// Waits for an event of the connection manager.
    fn sleep_until_event(&self) -> Result<()> {
        let mut entries = [PollEntry { number: self.number(), events: POLL_IN, revents: 0 }];
        poll(&mut entries, None)?;
        Ok(())
    }

    /// Handles the events that have come.
    pub(super) fn take_events(&self, state: &mut State) {
        while let Some(event) = self.channel.try_next_event() {
            tracing::trace!(kind = ?event.kind, status = event.status, phase = ?state.phase, "a stream is told");
            if let Err(error) = self.handle(state, &event) {
                state.refuse(error);
            }
            self.wakeup.ring();
        }
    }

    fn handle(&self, state: &mut State, event: &Event) -> Result<()> {
        let failed = |errno: i32| match event.status {
            status if status < 0 => Error::new(-status),
            _ => Error::new(errno),
        };
        match (event.kind, state.phase) {
            (EventKind::AddressResolved, Phase::Resolving) => {
                self.id.resolve_route(PATIENCE)?;
                state.phase = Phase::Routing;
            }
            (EventKind::AddressError | EventKind::RouteError, _) => return Err(failed(libc::EHOSTUNREACH)),
            (EventKind::RouteResolved, Phase::Routing) => {
                let link = self.make_link(state)?;
                let introduction = link.introduction().emit();
                // Behind what stands there in front of private data where addresses are of IP: as the original library says it.
                let front = self.id.address_header().filter(|_| self.id.is_by_gid());
                let front = front.as_ref().map_or(&[][..], |front| &front[..]);
                let parameters = ConnectionParameters {
                    private_data: [front, &introduction].concat().into(),
                    flow_control: true,
                    retry_count: RETRIES,
                    rnr_retry_count: RETRIES,
                    queue_pair: link.number(),
                    ..ConnectionParameters::default()
                };
                state.link = Some(link);
                self.id.connect(&parameters)?;
                state.phase = Phase::Connecting;
            }
            (EventKind::ConnectResponse, Phase::Connecting) => self.take_response(state, event)?,
            (EventKind::Established, Phase::Accepting) => state.begin(),
            (EventKind::Rejected, _) => return Err(Error::new(libc::ECONNREFUSED)),
            (EventKind::Unreachable, _) => return Err(failed(libc::ETIMEDOUT)),
            (EventKind::ConnectError, _) => return Err(failed(libc::ECONNREFUSED)),
            (EventKind::Disconnected, Phase::Connected) => self.peer_disconnected(state),
            (EventKind::Disconnected, _) if state.phase.is_opening() => {
                return Err(Error::new(libc::ECONNRESET));
            }
            (EventKind::DeviceRemoval, _) => return Err(Error::new(libc::ENODEV)),
            _ => {}
        }
        Ok(())
    }

    /// Makes what a connection needs, on the device that leads to the peer.
    pub(super) fn make_link(&self, state: &State) -> Result<Link> {
        let context = self.id.context().ok_or(Error::new(libc::ENODEV))?;
        let link = Link::new(&context, state.options.sizes, &self.wakeup)?;
        link.prepare(&self.id)?;
        Ok(link)
    }

    fn take_response(&self, state: &mut State, event: &Event) -> Result<()> {
        let connected = introduction_of(event).and_then(|peer| {
            let link = state.link.as_mut().ok_or(Error::new(libc::EINVAL))?;
            link.connect(&self.id, &peer)
        });
        if let Err(error) = connected {
            let _ = self.id.reject(&[], REJECT_CONSUMER);
            return Err(error);
        }
        self.id.establish()?;
        state.begin();
        Ok(())
    }

    /// The peer's side of the connection is gone.
    fn peer_disconnected(&self, state: &mut State) {
        if let Some(link) = &state.link {
            // What it sent before counts, its own end among it.
            link.context().catch_up();
        }
        self.update(state, Look::Thorough);
        if state.phase == Phase::Connected {
            state.end(Phase::Disconnected);
        }
        self.wakeup.ring();
    }

    /// What a request that was accepted is answered with.
    pub(super) fn accept_request(&self, peer: &Introduction, asked: &ConnectionParameters) -> Result<()> {
        let mut state = self.lock();
        let mut link = self.make_link(&state)?;
        link.connect(&self.id, peer)?;
        let parameters = ConnectionParameters {
            private_data: Box::new(link.introduction().emit()),
            queue_pair: link.number(),
            ..asked.clone()
        };
        state.link = Some(link);
        Ok(self.id.accept(&parameters)?)
    }
}

/// What the peer says of itself with a request or a response; `ENOTSUP` if it is no stream of ours.
pub(super) fn introduction_of(event: &Event) -> Result<Introduction> {
    let Parameters::Connection(parameters) = &event.parameters else {
        return Err(Error::new(libc::EINVAL));
    };
    let said = match event.kind {
        EventKind::ConnectRequest if event.id.is_by_gid() => parameters.private_data.get(FRONT..),
        _ => Some(&parameters.private_data[..]),
    };
    said.and_then(Introduction::parse).ok_or(Error::new(libc::ENOTSUP))
}

impl State {
    /// Messages can come and go.
    fn begin(&mut self) {
        self.phase = Phase::Connected;
        self.readable = true;
        self.writable = true;
        self.active = Instant::now();
        self.talk();
    }

    fn refuse(&mut self, error: Error) {
        if self.phase == Phase::Connected {
            self.break_off(error);
            return;
        }
        self.end(Phase::Refused);
        self.error = error.errno();
        self.link = None;
    }
}

impl service::Watched for Stream {
    fn descriptor(&self) -> nonic_sys::BorrowedFd<'_> {
        self.channel.fd()
    }

    fn turn(self: Arc<Self>) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::Listening {
            drop(state);
            return self.accept_requests();
        }
        let was_accepting = state.phase == Phase::Accepting;
        self.take_events(&mut state);
        let (phase, listener) = (state.phase, state.backlog.listener());
        drop(state);
        self.wakeup.ring();
        if was_accepting
            && phase != Phase::Accepting
            && let Some(listener) = listener
        {
            listener.accepted(&self, phase == Phase::Connected);
        }
        phase.is_opening() || phase == Phase::Connected
    }

    fn keep_alive(&self, now: Instant) -> Option<Duration> {
        self.ask_if_silent(now)
    }
}

/// Moves a request's identifier off the channel of who listens.
pub(super) fn own_channel(id: &Id) -> Result<Arc<nonic_rdma_cm::EventChannel>> {
    let channel = nonic_rdma_cm::EventChannel::create()?;
    id.migrate(&channel)?;
    Ok(channel)
}
