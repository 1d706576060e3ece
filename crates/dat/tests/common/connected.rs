//! Two endpoints of one process, connected.

use std::sync::Arc;
use std::time::Duration;

use nonic_dat::{
    AsyncEvents, CompletionFlags, ConnectionEvent, ConnectionRequest, DatError, DatResult, Endpoint,
    EndpointAttributes, EndpointSetup, Event, EventDispatcher, InterfaceAdapter, LocalRegion, OpenOptions,
    Privileges, ProtectionZone, PublicServicePoint, RemoteSegment, Segment, SharedReceiveQueue, Streams,
    TransferKind, TransferStatus,
};

use super::{Pages, part, register};

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
pub(crate) const PLAIN: CompletionFlags = CompletionFlags::DEFAULT;

/// What a side is made with.
pub(crate) struct Plan {
    /// Completions and connection events come to one dispatcher.
    pub(crate) merged: bool,
    /// Length of the dispatcher of completions.
    pub(crate) length: i32,
    pub(crate) attributes: EndpointAttributes,
    pub(crate) privileges: Privileges,
    pub(crate) shared_receives: Option<i32>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            merged: false,
            length: 256,
            attributes: EndpointAttributes::default(),
            privileges: Privileges::ALL,
            shared_receives: None,
        }
    }
}

/// One side: an adapter and what a program has on it.
pub(crate) struct Side {
    pub(crate) adapter: Arc<InterfaceAdapter>,
    pub(crate) zone: Arc<ProtectionZone>,
    pub(crate) transfers: Arc<EventDispatcher>,
    pub(crate) connections: Arc<EventDispatcher>,
    pub(crate) shared: Option<Arc<SharedReceiveQueue>>,
    pub(crate) pages: Pages,
    pub(crate) region: Arc<LocalRegion>,
    pub(crate) endpoint: Arc<Endpoint>,
}

/// An event, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Transfer { cookie: u64, status: TransferStatus, length: u64, kind: TransferKind },
    Bind { cookie: u64, status: TransferStatus },
    Connection(ConnectionEvent, Vec<u8>),
    Software(usize),
    Overflow,
    Request,
}

pub(crate) fn seen(event: &Event<'_>) -> Seen {
    match event {
        &Event::Transfer { cookie, status, length, kind, .. } => {
            Seen::Transfer { cookie, status, length, kind }
        }
        &Event::Bind { cookie, status, .. } => Seen::Bind { cookie, status },
        Event::Connection { kind, private_data, .. } => Seen::Connection(*kind, private_data.to_vec()),
        Event::Software { pointer } => Seen::Software(*pointer),
        Event::Async { .. } => Seen::Overflow,
        Event::Request { .. } => Seen::Request,
    }
}

/// The next event, if one is there.
pub(crate) fn dequeue(dispatcher: &EventDispatcher) -> DatResult<Seen> {
    let mut found = None;
    dispatcher.dequeue(|event| found = Some(seen(event)))?;
    Ok(found.expect("a success delivers"))
}

/// The next event, whenever it comes.
pub(crate) fn next(dispatcher: &EventDispatcher) -> Seen {
    let mut found = None;
    dispatcher.wait(PATIENCE, 1, |event| found = Some(seen(event))).0.expect("an event must come");
    found.expect("a success delivers")
}

pub(crate) fn done(cookie: u64, kind: TransferKind, length: u64) -> Seen {
    Seen::Transfer { cookie, status: TransferStatus::Success, length, kind }
}

pub(crate) fn failed(cookie: u64, kind: TransferKind, status: TransferStatus) -> Seen {
    Seen::Transfer { cookie, status, length: 0, kind }
}

pub(crate) fn flushed(cookie: u64, kind: TransferKind) -> Seen {
    failed(cookie, kind, TransferStatus::Flushed)
}

pub(crate) fn told(kind: ConnectionEvent) -> Seen {
    Seen::Connection(kind, Vec::new())
}

impl Side {
    pub(crate) fn new(plan: &Plan) -> Self {
        let adapter = InterfaceAdapter::open(OpenOptions {
            name: "nonic".to_owned(),
            coherent: true,
            async_events: AsyncEvents::Own { length: 8 },
        })
        .unwrap();
        let zone = ProtectionZone::create(&adapter).unwrap();
        let dispatcher = |length, streams| EventDispatcher::create(&adapter, length, None, streams).unwrap();
        let streams = Streams::DATA_TRANSFER | Streams::BIND | Streams::SOFTWARE;
        let (transfers, connections) = if plan.merged {
            let both = dispatcher(plan.length, streams | Streams::CONNECTION);
            (Arc::clone(&both), both)
        } else {
            (dispatcher(plan.length, streams), dispatcher(16, Streams::CONNECTION))
        };
        let pages = Pages::private(4);
        let region = register(&zone, &pages, plan.privileges).unwrap();
        let shared = plan.shared_receives.map(|max_receives| {
            let attributes =
                nonic_dat::SharedQueueAttributes { max_receives, max_pieces: 4, low_watermark: 0 };
            SharedReceiveQueue::create(&adapter, &zone, attributes).unwrap()
        });
        let endpoint = Endpoint::create(
            &adapter,
            EndpointSetup {
                zone: Some(Arc::clone(&zone)),
                receive: Some(Arc::clone(&transfers)),
                request: Some(Arc::clone(&transfers)),
                connect: Some(Arc::clone(&connections)),
                shared_receives: shared.clone(),
                attributes: Some(plan.attributes),
            },
        )
        .unwrap();
        Self { adapter, zone, transfers, connections, shared, pages, region, endpoint }
    }

    /// Part of this side's memory, for its own transfers.
    pub(crate) fn piece(&self, offset: u64, length: u64) -> Segment {
        part(&self.region, offset, length)
    }

    /// Part of this side's memory, for its peer.
    pub(crate) fn remote(&self, offset: u64, length: u64) -> RemoteSegment {
        let facts = self.region.facts();
        RemoteSegment { context: facts.remote_context, address: facts.address + offset, length }
    }

    pub(crate) fn send(&self, cookie: u64, length: u64, flags: CompletionFlags) -> DatResult<()> {
        self.endpoint.post_send(std::iter::once(self.piece(0, length)), cookie, flags)
    }

    pub(crate) fn receive(&self, cookie: u64, length: u64) {
        self.endpoint.post_receive(std::iter::once(self.piece(4096, length)), cookie, PLAIN).unwrap();
    }

    pub(crate) fn next(&self) -> Seen {
        next(&self.transfers)
    }

    /// Whether there is no event of a transfer.
    pub(crate) fn is_quiet(&self) -> bool {
        dequeue(&self.transfers) == Err(DatError::QUEUE_EMPTY)
    }
}

/// Connects two sides up to the point at which the passive one has accepted; no connection event is taken.
pub(crate) fn accept(active: &Side, passive: &Side) {
    let requests = EventDispatcher::create(&passive.adapter, 4, None, Streams::CONNECTION_REQUEST).unwrap();
    let (conn_qual, point) = PublicServicePoint::create_any(&passive.adapter, &requests, false).unwrap();
    active.endpoint.connect(passive.adapter.address(), conn_qual, PATIENCE, b"hello", 0, 0).unwrap();
    let mut request: Option<Arc<ConnectionRequest>> = None;
    requests
        .wait(PATIENCE, 1, |event| {
            let Event::Request { request: came, .. } = event else { panic!("{event:?}") };
            request = Some(Arc::clone(came));
        })
        .0
        .unwrap();
    request.unwrap().accept(Some(&passive.endpoint), b"welcome").unwrap();
    point.free().unwrap();
    requests.free().unwrap();
}

/// Connects two sides.
pub(crate) fn connect(active: &Side, passive: &Side) {
    accept(active, passive);
    let established = Seen::Connection(ConnectionEvent::Established, b"welcome".to_vec());
    assert_eq!(next(&active.connections), established);
    assert_eq!(next(&passive.connections), told(ConnectionEvent::Established));
}

/// Two connected sides.
pub(crate) fn connected(active: &Plan, passive: &Plan) -> (Side, Side) {
    let (active, passive) = (Side::new(active), Side::new(passive));
    connect(&active, &passive);
    (active, passive)
}

/// Two ordinary connected sides.
pub(crate) fn pair() -> (Side, Side) {
    connected(&Plan::default(), &Plan::default())
}
