//! Two ends of connections, with the calls that programs make in a row.

#![allow(dead_code)] // Each test program uses some of it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nonic_device::QpNumber;
use nonic_rdma_cm::{
    ConnectionParameters, Error, Event, EventChannel, EventKind, Id, Parameters, PortSpace, State,
};
use nonic_sys::wait_readable;

/// Longer than anything takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(2);

/// A channel and what comes on it.
pub(crate) struct Side {
    pub(crate) channel: Arc<EventChannel>,
}

impl Side {
    pub(crate) fn new() -> Self {
        Self { channel: EventChannel::create().unwrap() }
    }

    pub(crate) fn id(&self, space: PortSpace) -> Arc<Id> {
        Id::create(&self.channel, space, 0).unwrap()
    }

    /// The next event.
    pub(crate) fn next(&self) -> Event {
        assert!(wait_readable(self.channel.fd(), Some(PATIENCE)), "no event comes");
        self.channel.next_event().unwrap()
    }

    /// The next event, which is of this kind.
    pub(crate) fn expect(&self, kind: EventKind) -> Event {
        let event = self.next();
        assert_eq!(event.kind, kind, "{event:?}");
        event
    }

    pub(crate) fn is_silent(&self) -> bool {
        !wait_readable(self.channel.fd(), Some(Duration::ZERO))
    }

    /// One that listens at a free port of an address.
    pub(crate) fn listener(&self, space: PortSpace, ip: &str, backlog: i32) -> Arc<Id> {
        let id = self.id(space);
        id.bind(SocketAddr::new(ip.parse::<IpAddr>().unwrap(), 0)).unwrap();
        id.listen(backlog).unwrap();
        assert_eq!(id.state(), State::Listen);
        id
    }

    /// One that has a route to an address.
    pub(crate) fn routed(&self, space: PortSpace, to: SocketAddr) -> Arc<Id> {
        let id = self.id(space);
        id.resolve_address(None, to, SOON).unwrap();
        assert_eq!(self.expect(EventKind::AddressResolved).status, 0);
        id.resolve_route(SOON).unwrap();
        self.expect(EventKind::RouteResolved);
        id
    }

    /// One that asks.
    pub(crate) fn asking(&self, space: PortSpace, to: SocketAddr, data: &[u8]) -> Arc<Id> {
        let id = self.routed(space, to);
        id.connect(&parameters(data, 77)).unwrap();
        id
    }
}

/// Parameters of a queue pair of this number.
pub(crate) fn parameters(data: &[u8], queue_pair: u32) -> ConnectionParameters {
    ConnectionParameters {
        private_data: data.into(),
        responder_resources: 3,
        initiator_depth: 2,
        retry_count: 7,
        rnr_retry_count: 6,
        queue_pair: QpNumber(queue_pair),
        ..ConnectionParameters::default()
    }
}

/// Where one that listens at a loopback address or a wildcard is reached.
pub(crate) fn reached(listener: &Id, ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), listener.source().unwrap().port())
}

pub(crate) fn connection(event: &Event) -> &ConnectionParameters {
    match &event.parameters {
        Parameters::Connection(parameters) => parameters,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn is_state(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::State(_)))
}

/// Two that are connected: who asked, and who was asked.
pub(crate) fn connect(near: &Side, far: &Side) -> (Arc<Id>, Arc<Id>) {
    let listener = far.listener(PortSpace::Tcp, "127.0.0.1", 0);
    let asking = near.asking(PortSpace::Tcp, reached(&listener, "127.0.0.1"), b"");
    let asked = Arc::clone(&far.expect(EventKind::ConnectRequest).id);
    asked.accept(&parameters(b"", 88)).unwrap();
    near.expect(EventKind::ConnectResponse);
    asking.establish().unwrap();
    far.expect(EventKind::Established);
    (asking, asked)
}
