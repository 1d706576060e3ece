//! Two connected endpoints in one process, each of an adapter of its own.

#![allow(dead_code)] // Each test is a crate of its own and uses its part.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nonic_dat::{
    AsyncEvents, CompletionFlags, ConnectionEvent, DatError, DatResult, Endpoint, EndpointAttributes,
    EndpointSetup, Event, EventDispatcher, InterfaceAdapter, LocalRegion, OpenOptions, Privileges,
    ProtectionZone, PublicServicePoint, RemoteRegion, RemoteSegment, Segment, Streams, TransferKind,
    TransferStatus,
};

use crate::common::{Pages, open, part, register};

/// Nothing takes as long.
const LONG: Option<Duration> = Some(Duration::from_secs(20));
pub(crate) const PLAIN: CompletionFlags = CompletionFlags::DEFAULT;

/// An event of the request or receive dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Transfer { cookie: u64, status: TransferStatus, length: u64, kind: TransferKind },
    Bind { cookie: u64, status: TransferStatus },
}

impl Done {
    pub(crate) fn status(self) -> TransferStatus {
        match self {
            Self::Transfer { status, .. } | Self::Bind { status, .. } => status,
        }
    }
}

/// One side: an adapter with memory and an endpoint.
pub(crate) struct Side {
    pub(crate) adapter: Arc<InterfaceAdapter>,
    pub(crate) zone: Arc<ProtectionZone>,
    /// Data transfers and binds.
    pub(crate) transfers: Arc<EventDispatcher>,
    pub(crate) connections: Arc<EventDispatcher>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) pages: Pages,
    /// All of `pages`, with every privilege.
    pub(crate) region: Arc<LocalRegion>,
}

impl Side {
    pub(crate) fn new(coherent: bool) -> Self {
        Self::with(coherent, EndpointAttributes::default())
    }

    pub(crate) fn with(coherent: bool, attributes: EndpointAttributes) -> Self {
        Self::on(open(coherent), attributes)
    }

    /// With a dispatcher of asynchronous errors.
    pub(crate) fn with_async() -> Self {
        let options = OpenOptions {
            name: "nonic".to_owned(),
            coherent: true,
            async_events: AsyncEvents::Own { length: 8 },
        };
        Self::on(InterfaceAdapter::open(options).unwrap(), EndpointAttributes::default())
    }

    pub(crate) fn on(adapter: Arc<InterfaceAdapter>, attributes: EndpointAttributes) -> Self {
        let zone = ProtectionZone::create(&adapter).unwrap();
        let streams = Streams::DATA_TRANSFER | Streams::BIND;
        let transfers = EventDispatcher::create(&adapter, 256, None, streams).unwrap();
        let streams = Streams::CONNECTION | Streams::CONNECTION_REQUEST;
        let connections = EventDispatcher::create(&adapter, 16, None, streams).unwrap();
        let pages = Pages::private(4);
        let region = register(&zone, &pages, Privileges::ALL).unwrap();
        let endpoint = Endpoint::create(
            &adapter,
            EndpointSetup {
                zone: Some(Arc::clone(&zone)),
                receive: Some(Arc::clone(&transfers)),
                request: Some(Arc::clone(&transfers)),
                connect: Some(Arc::clone(&connections)),
                attributes: Some(attributes),
                ..EndpointSetup::default()
            },
        );
        Self { endpoint: endpoint.unwrap(), adapter, zone, transfers, connections, pages, region }
    }

    /// A further endpoint of the same kind.
    pub(crate) fn endpoint_of(&self, zone: &Arc<ProtectionZone>) -> Arc<Endpoint> {
        let setup = EndpointSetup {
            zone: Some(Arc::clone(zone)),
            receive: Some(Arc::clone(&self.transfers)),
            request: Some(Arc::clone(&self.transfers)),
            connect: Some(Arc::clone(&self.connections)),
            ..EndpointSetup::default()
        };
        Endpoint::create(&self.adapter, setup).unwrap()
    }

    /// The next completion.
    pub(crate) fn done(&self) -> Done {
        let mut done = None;
        let (result, _) = self.transfers.wait(LONG, 1, |event| done = Some(completion(event)));
        result.unwrap();
        done.unwrap()
    }

    /// Whether no completion waits.
    pub(crate) fn has_nothing(&self) -> bool {
        let mut found = None;
        let result = self.transfers.dequeue(|event| found = Some(completion(event)));
        assert!(found.is_none(), "{found:?}");
        result == Err(DatError::QUEUE_EMPTY)
    }

    /// The next connection event.
    pub(crate) fn connection_event(&self) -> ConnectionEvent {
        let mut found = None;
        let (result, _) = self.connections.wait(LONG, 1, |event| match event {
            Event::Connection { kind, .. } => found = Some(*kind),
            other => panic!("{other:?}"),
        });
        result.unwrap();
        found.unwrap()
    }

    /// The next transfer ends so.
    #[track_caller]
    pub(crate) fn expect(&self, wanted: u64, wanted_status: TransferStatus) {
        match self.done() {
            Done::Transfer { cookie, status, .. } => assert_eq!((cookie, status), (wanted, wanted_status)),
            other => panic!("{other:?}"),
        }
    }

    /// The next bind ends so.
    #[track_caller]
    pub(crate) fn expect_bind(&self, cookie: u64, status: TransferStatus) {
        assert_eq!(self.done(), Done::Bind { cookie, status });
    }

    /// Binds and waits for the completion.
    #[track_caller]
    pub(crate) fn bind(&self, remote: &Arc<RemoteRegion>, segment: Segment, privileges: Privileges) -> u32 {
        let context = remote.bind(segment, privileges, &self.endpoint, 77, PLAIN).unwrap();
        self.expect_bind(77, TransferStatus::Success);
        context
    }

    /// A part of its region.
    pub(crate) fn piece(&self, offset: u64, length: u64) -> Segment {
        part(&self.region, offset, length)
    }

    /// Writes `length` bytes from offset 0 of its own memory to a peer's, and says how it ended.
    pub(crate) fn write(&self, remote: RemoteSegment) -> TransferStatus {
        let piece = self.piece(0, remote.length);
        self.endpoint.post_rdma_write(std::iter::once(piece), 1, remote, PLAIN).unwrap();
        self.done().status()
    }

    /// Reads a peer's memory to offset 0 of its own.
    pub(crate) fn read(&self, remote: RemoteSegment) -> TransferStatus {
        let piece = self.piece(0, remote.length);
        self.endpoint.post_rdma_read(std::iter::once(piece), 2, remote, PLAIN).unwrap();
        self.done().status()
    }

    pub(crate) fn post_receive(&self, cookie: u64, offset: u64, length: u64) -> DatResult<()> {
        self.endpoint.post_receive(std::iter::once(self.piece(offset, length)), cookie, PLAIN)
    }

    pub(crate) fn post_send(&self, cookie: u64, offset: u64, length: u64) -> DatResult<()> {
        self.endpoint.post_send(std::iter::once(self.piece(offset, length)), cookie, PLAIN)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // The test may have done it.
        let _ = self.adapter.close(false);
    }
}

fn completion(event: &Event<'_>) -> Done {
    match *event {
        Event::Transfer { cookie, status, length, kind, .. } => {
            Done::Transfer { cookie, status, length, kind }
        }
        Event::Bind { cookie, status, .. } => Done::Bind { cookie, status },
        ref other => panic!("{other:?}"),
    }
}

/// Connects `client`'s endpoint to `server`'s.
pub(crate) fn connect(server: &Side, client: &Side) {
    connect_endpoints((server, &server.endpoint), (client, &client.endpoint));
}

/// Connects any two.
pub(crate) fn connect_endpoints(server: (&Side, &Arc<Endpoint>), client: (&Side, &Arc<Endpoint>)) {
    let (conn_qual, point) =
        PublicServicePoint::create_any(&server.0.adapter, &server.0.connections, false).unwrap();
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    client.1.connect(address, conn_qual, LONG, b"", 0, 0).unwrap();
    let mut request = None;
    let (result, _) = server.0.connections.wait(LONG, 1, |event| match event {
        Event::Request { request: found, .. } => request = Some(Arc::clone(found)),
        other => panic!("{other:?}"),
    });
    result.unwrap();
    request.unwrap().accept(Some(server.1), b"").unwrap();
    assert_eq!(client.0.connection_event(), ConnectionEvent::Established);
    assert_eq!(server.0.connection_event(), ConnectionEvent::Established);
    point.free().unwrap();
}

/// Two connected sides; the server's memory is coherent or not.
pub(crate) fn connected(coherent: bool) -> (Side, Side) {
    let (server, client) = (Side::new(coherent), Side::new(true));
    connect(&server, &client);
    (server, client)
}

/// What a peer names.
pub(crate) fn far(context: u32, segment: Segment) -> RemoteSegment {
    RemoteSegment { context, address: segment.address, length: segment.length }
}

/// Both ends of a connection are told that it broke.
#[track_caller]
pub(crate) fn expect_broken(server: &Side, client: &Side) {
    assert_eq!(client.connection_event(), ConnectionEvent::Broken);
    assert_eq!(server.connection_event(), ConnectionEvent::Broken);
}
