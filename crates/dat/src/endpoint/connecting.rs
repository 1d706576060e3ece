//! Connecting: asking, accepting, and being established.
//!
//! State changes and their events are made under the endpoint's lock, so that events come in the order of the states. The
//! queue pair goes to error before an endpoint is DISCONNECTED, so that completions of what was outstanding come before that
//! event. ESTABLISHED is in its dispatcher before the state is CONNECTED, so that no receive is shown before it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use nonic_connection::{ConnectionSink, DATA_MAX, End, Response};
use nonic_sys::is_own_address;
use nonic_wire_connection::{MetWay, NUMBERS, Way};

use super::link::{describe, ready_to_transfer};
use super::{Core, Endpoint, forbidden_by};
use crate::asker::Asker;
use crate::error::{DatError, DatResult, HandleKind, Kind, Resource, StateKind, Subtype};
use crate::introduction::Introduction;
use crate::line::{Line, Path};
use crate::private_data::REQUEST_MAX;
use crate::values::{ConnectionEvent, EndpointState};

pub(super) const NO_ENDPOINT: DatError = DatError::handle(Subtype::Handle(HandleKind::Endpoint));

/// What an endpoint knows of its connection.
#[derive(Debug, Default)]
pub(crate) struct Connecting {
    /// Which connection of all of this process; 0: none.
    pub(super) number: u64,
    /// Its hold on the connection manager.
    pub(super) connection: Option<Line>,
    /// Number of the first packet this side sends; of a connection to another host, that the other side sends.
    pub(super) packet: u32,
    /// The way to a peer on another host that was asked.
    pub(super) way: Option<Way>,
    /// The way to one in another network namespace.
    met: Option<MetWay>,
    local_port: u64,
    pub(super) remote: Option<(SocketAddr, u64)>,
    /// What the peer said when it accepted; events point to it.
    private_data: Option<Arc<[u8]>>,
}

impl Connecting {
    /// The local port, and address and connection qualifier of the peer while there is one.
    pub(crate) fn addresses(&self) -> (u64, Option<(SocketAddr, u64)>) {
        (self.local_port, self.remote)
    }

    /// Begins another connection; returns its number.
    fn begin(&mut self) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let packet = nonic_sys::random_u64() as u32 & nonic_device::QpNumber::MASK;
        *self = Self { number, packet, ..Self::default() };
        number
    }
}

/// The endpoint is reset: forgets the last connection.
pub(super) fn reset(core: &mut Core) {
    core.connecting = Connecting::default();
}

/// The endpoint goes: the connection ends, without an event here.
pub(super) fn end(endpoint: &Endpoint) {
    let ended = std::mem::take(&mut endpoint.core().connecting);
    // Dropping the connection tells the peer.
    drop(ended);
}

/// Follows one connection of an endpoint.
pub(super) struct Follower {
    pub(super) endpoint: Weak<Endpoint>,
    pub(super) number: u64,
}

impl ConnectionSink for Follower {
    fn accepted(&self, facts: &[u8], data: &[u8]) -> Response {
        match nonic_connection::lend(&self.endpoint, |endpoint| endpoint.take_reply(self.number, facts, data))
        {
            Some(true) => Response::Confirmed,
            Some(false) | None => Response::Declined,
        }
    }

    fn established(&self) {
        nonic_connection::lend(&self.endpoint, |endpoint| {
            if let Some(mut core) = endpoint.core_of(self.number) {
                endpoint.establish_now(&mut core);
            }
        });
    }

    fn ended(&self, end: End<'_>) {
        nonic_connection::lend(&self.endpoint, |endpoint| endpoint.take_end(self.number, end.into()));
    }
}

pub(super) fn state_error(state: EndpointState) -> DatError {
    DatError::state(Subtype::State(forbidden_by(state)))
}

/// The numbers of arguments that may be wrong.
struct Arguments {
    timeout: u8,
    private_data: u8,
}

impl Endpoint {
    /// Asks for a connection to a service point of this host or of another one; what comes of it is told by an event.
    ///
    /// `timeout` is how long the attempt may take (`None`: for ever), and not 0. Errors: `INVALID_HANDLE|EVD_CONN` without a
    /// dispatcher of connection events, `INVALID_PARAMETER` (`ARG4` for the timeout, `ARG5` for too much private data, of which another
    /// host gets 88 bytes at most),
    /// `MODEL_NOT_SUPPORTED` for a quality of service other than best effort (0) or flags other than 0,
    /// `INVALID_STATE` with the state if that is not UNCONNECTED, or `EP_NOTREADY` without a protection zone,
    /// `INVALID_ADDRESS` for an address no host has.
    pub fn connect(
        self: &Arc<Self>,
        address: SocketAddr,
        conn_qual: u64,
        timeout: Option<Duration>,
        private_data: &[u8],
        qos: u32,
        flags: u32,
    ) -> DatResult<()> {
        let arguments = Arguments { timeout: 4, private_data: 5 };
        let mut core = self.judge_connect(timeout, private_data, qos, flags, &arguments)?;
        if address.ip().is_unspecified() || address.ip().is_multicast() {
            return Err(DatError::new(Kind::InvalidAddress, Subtype::AddressMalformed));
        }
        self.begin_connect(&mut core, address, conn_qual, timeout, private_data, &arguments)
    }

    /// Connects to where `other` is connected. As [`Endpoint::connect`], but that `ARG3` is the timeout and `ARG4` the private
    /// data; `INVALID_STATE` with the state of `other` if that is not CONNECTED.
    pub fn duplicate_connect(
        self: &Arc<Self>,
        other: &Self,
        timeout: Option<Duration>,
        private_data: &[u8],
        qos: u32,
    ) -> DatResult<()> {
        self.adapter.check_process()?;
        let remote = {
            let core = other.core();
            if core.freed {
                return Err(NO_ENDPOINT);
            }
            let remote = core.connecting.remote.filter(|_| other.state() == EndpointState::Connected);
            remote.ok_or(state_error(other.state()))
        };
        let arguments = Arguments { timeout: 3, private_data: 4 };
        let mut core = self.judge_connect(timeout, private_data, qos, 0, &arguments)?;
        let (address, conn_qual) = remote?;
        self.begin_connect(&mut core, address, conn_qual, timeout, private_data, &arguments)
    }

    /// Checks everything but the address.
    fn judge_connect(
        &self,
        timeout: Option<Duration>,
        private_data: &[u8],
        qos: u32,
        flags: u32,
        arguments: &Arguments,
    ) -> DatResult<MutexGuard<'_, Core>> {
        self.adapter.check_process()?;
        let core = self.core();
        if core.freed {
            return Err(NO_ENDPOINT);
        }
        if core.setup.connect.is_none() {
            return Err(DatError::handle(Subtype::Handle(HandleKind::ConnectionDispatcher)));
        }
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(DatError::argument(arguments.timeout));
        }
        if private_data.len() > DATA_MAX {
            return Err(DatError::argument(arguments.private_data));
        }
        if qos != 0 || flags != 0 {
            return Err(DatError::MODEL_NOT_SUPPORTED);
        }
        if self.state() != EndpointState::Unconnected {
            return Err(state_error(self.state()));
        }
        if core.setup.zone.is_none() {
            return Err(DatError::state(Subtype::State(StateKind::EpNotReady)));
        }
        Ok(core)
    }

    fn begin_connect(
        &self,
        core: &mut Core,
        address: SocketAddr,
        conn_qual: u64,
        timeout: Option<Duration>,
        private_data: &[u8],
        arguments: &Arguments,
    ) -> DatResult<()> {
        let is_own = is_own(address.ip(), self.adapter.address().ip());
        let met = if is_own { None } else { MetWay::to(self.adapter.context(), address) };
        let by_wire = !is_own && met.is_none();
        if by_wire && private_data.len() > REQUEST_MAX {
            return Err(DatError::argument(arguments.private_data));
        }
        let pair = self.prepare_queue_pair(core)?;
        let number = core.connecting.begin();
        let port = u64::from(pair.number().0);
        if !by_wire {
            // Who is in another namespace answers to the address by which it is asked.
            let own = met.map_or(self.adapter.address(), |way| SocketAddr::new(way.source, 0));
            let facts = describe(&pair, core.connecting.packet, &core.attributes, own, port).emit();
            let follower = Arc::new(Follower { endpoint: Weak::clone(&self.this), number });
            let services = [(NUMBERS, conn_qual)];
            let asked = match met {
                None => nonic_connection::connect(&services, &facts, private_data, timeout, follower),
                Some(MetWay { namespace, .. }) => nonic_connection::connect_to_other(
                    namespace,
                    &services,
                    &facts,
                    private_data,
                    timeout,
                    follower,
                ),
            };
            let Ok(connection) = asked else {
                core.connecting = Connecting::default();
                return Err(DatError::resources(Subtype::Resource(Resource::TransportEndpoint)));
            };
            core.connecting.connection = Some(Line::Host(connection));
            core.connecting.met = met;
        }
        (core.connecting.local_port, core.connecting.remote) = (port, Some((address, conn_qual)));
        self.set_state(core, EndpointState::ActiveConnectionPending);
        if by_wire {
            self.ask_by_wire(core, timeout, private_data);
        }
        Ok(())
    }

    /// Accepts a request whose sender told `peer`, in `state`, which the endpoint must be in. Nothing happens if this fails, and the
    /// request is where it was.
    pub(crate) fn accept(
        &self,
        state: EndpointState,
        peer: &Introduction,
        conn_qual: u64,
        private_data: &[u8],
        request: &mut Option<Asker>,
    ) -> DatResult<()> {
        let mut core = self.core();
        if core.freed || core.setup.zone.is_none() || core.setup.connect.is_none() {
            return Err(NO_ENDPOINT);
        }
        if self.state() != state {
            return Err(DatError::bare(Kind::InvalidState));
        }
        let pair = self.prepare_queue_pair(&mut core)?;
        let number = core.connecting.begin();
        let facts =
            describe(&pair, core.connecting.packet, &core.attributes, self.adapter.address(), conn_qual);
        let follower = Arc::new(Follower { endpoint: Weak::clone(&self.this), number });
        let path = request.as_ref().map_or(Path::Host, |asker| asker.path(self.adapter.context(), peer));
        let accepted = ready_to_transfer(&pair, self.adapter.context(), &path, &facts, peer)
            .and_then(|()| answer(request, &facts, private_data, follower));
        let connection = accepted.inspect_err(|_| core.connecting = Connecting::default())?;
        let by_wire = matches!(connection, Line::Wire(_));
        core.connecting.connection = Some(connection);
        core.connecting.local_port = conn_qual;
        core.connecting.remote = Some((peer.socket_address(), peer.port));
        self.set_state(&mut core, EndpointState::CompletionPending);
        if by_wire {
            self.reply_by_wire(&mut core, &facts, private_data);
        }
        Ok(())
    }

    /// Moves an endpoint that waits for requests, or has one, to another state; false if it is in none of `from`.
    pub(crate) fn change_state(&self, from: &[EndpointState], to: EndpointState) -> DatResult<()> {
        let mut core = self.core();
        if core.freed {
            return Err(NO_ENDPOINT);
        }
        if !from.contains(&self.state()) {
            return Err(state_error(self.state()));
        }
        self.set_state(&mut core, to);
        Ok(())
    }

    /// The lock, if the endpoint still has the connection of this number.
    pub(super) fn core_of(&self, number: u64) -> Option<MutexGuard<'_, Core>> {
        let core = self.core();
        (!core.freed && core.connecting.number == number).then_some(core)
    }

    pub(super) fn show(&self, core: &mut Core, kind: ConnectionEvent, data: &[u8]) {
        let data: Arc<[u8]> = data.into();
        core.connecting.private_data = Some(Arc::clone(&data));
        if let (Some(dispatcher), Some(this)) = (&core.setup.connect, self.this()) {
            dispatcher.push_connection(kind, &this, data);
        }
    }

    /// The peer accepts; false if there is no connection all the same.
    fn take_reply(&self, number: u64, facts: &[u8], data: &[u8]) -> bool {
        let Some(mut core) = self.core_of(number) else { return false };
        if self.state() != EndpointState::ActiveConnectionPending {
            return false;
        }
        let ready = self.pair().zip(Introduction::parse(facts)).is_some_and(|(pair, peer)| {
            let own = describe(pair, core.connecting.packet, &core.attributes, self.adapter.address(), 0);
            let path = core.connecting.met.map_or(Path::Host, Path::Met);
            ready_to_transfer(pair, self.adapter.context(), &path, &own, &peer).is_ok()
        });
        if ready {
            self.show(&mut core, ConnectionEvent::Established, data);
            self.set_state(&mut core, EndpointState::Connected);
        } else {
            self.finish(&mut core, ConnectionEvent::NonPeerRejected, &[]);
        }
        ready
    }

    /// A receive is about to be shown: the peer knows of the connection, whether or not that has been told. Harmless at any
    /// other time.
    pub(crate) fn establish(&self) {
        self.establish_now(&mut self.core());
    }

    pub(super) fn establish_now(&self, core: &mut Core) {
        if self.state() == EndpointState::CompletionPending && !core.freed {
            if let Some(line) = &core.connecting.connection {
                line.is_established();
            }
            self.show(core, ConnectionEvent::Established, &[]);
            self.set_state(core, EndpointState::Connected);
        }
    }
}

/// Accepts a request of this host; of one of another host takes what it is answered by. If it fails the request is where it was.
fn answer(
    request: &mut Option<Asker>,
    facts: &Introduction,
    private_data: &[u8],
    follower: Arc<Follower>,
) -> DatResult<Line> {
    const GONE: DatError = DatError::handle(Subtype::Handle(HandleKind::ConnectionRequest));
    match request.take().ok_or(GONE)? {
        Asker::Host(host) => {
            host.accept(&facts.emit(), private_data, follower).map(Line::Host).map_err(|(error, back)| {
                tracing::error!(%error, "a connection request cannot be accepted");
                *request = Some(Asker::Host(back));
                DatError::new(Kind::InternalError, Subtype::None)
            })
        }
        Asker::Wire(asker) => {
            let connection = asker.take().ok_or(GONE)?;
            connection.follow(follower);
            Ok(Line::Wire(connection))
        }
    }
}

/// Whether an address is one of this machine's. `adapter` is one of them.
fn is_own(address: IpAddr, adapter: IpAddr) -> bool {
    let address = address.to_canonical();
    address == adapter || is_own_address(address)
}
