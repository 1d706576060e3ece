//! Endpoints without a peer: making, changing, posting receives, freeing.

use std::sync::Arc;

use crate::common::{Pages, bad_handle, bad_state, open, part, register};
use nonic_dat::{
    CompletionFlags, DatError, DatResult, Endpoint, EndpointAttributes, EndpointChange, EndpointSetup,
    EndpointState, EventDispatcher, HandleKind, InterfaceAdapter, LocalRegion, Privileges, ProtectionZone,
    RemoteSegment, Resource, Segment, StateKind, Streams, Subtype,
};

const FAR: RemoteSegment = RemoteSegment { context: 1, address: 0, length: 64 };
const PLAIN: CompletionFlags = CompletionFlags::DEFAULT;

struct World {
    adapter: Arc<InterfaceAdapter>,
    zone: Arc<ProtectionZone>,
    transfers: Arc<EventDispatcher>,
    connections: Arc<EventDispatcher>,
    pages: Pages,
    region: Arc<LocalRegion>,
}

impl World {
    fn new() -> Self {
        let adapter = open(true);
        let zone = ProtectionZone::create(&adapter).unwrap();
        let dispatcher = |streams| EventDispatcher::create(&adapter, 64, None, streams).unwrap();
        let (transfers, connections) =
            (dispatcher(Streams::DATA_TRANSFER | Streams::BIND), dispatcher(Streams::CONNECTION));
        let pages = Pages::private(1);
        let region = register(&zone, &pages, Privileges::ALL).unwrap();
        Self { zone, transfers, connections, region, pages, adapter }
    }

    fn setup(&self) -> EndpointSetup {
        EndpointSetup {
            zone: Some(Arc::clone(&self.zone)),
            receive: Some(Arc::clone(&self.transfers)),
            request: Some(Arc::clone(&self.transfers)),
            connect: Some(Arc::clone(&self.connections)),
            ..EndpointSetup::default()
        }
    }

    fn create(&self, setup: EndpointSetup) -> DatResult<Arc<Endpoint>> {
        Endpoint::create(&self.adapter, setup)
    }

    fn endpoint(&self) -> Arc<Endpoint> {
        self.create(self.setup()).unwrap()
    }

    fn piece(&self) -> std::iter::Once<Segment> {
        std::iter::once(part(&self.region, 0, 64))
    }
}

fn with(attributes: EndpointAttributes, world: &World) -> EndpointSetup {
    EndpointSetup { attributes: Some(attributes), ..world.setup() }
}

#[test]
fn a_new_endpoint_is_unconnected_and_idle() {
    let world = World::new();
    let endpoint = world.endpoint();
    assert_eq!(endpoint.status(), Ok((EndpointState::Unconnected, true, true)));
    let facts = endpoint.facts().unwrap();
    assert_eq!(facts.state, EndpointState::Unconnected);
    assert_eq!((facts.local_port, facts.remote), (0, None));
    assert!(Arc::ptr_eq(&facts.zone.unwrap(), &world.zone));
    assert!(Arc::ptr_eq(&facts.request.unwrap(), &world.transfers));
    assert!(Arc::ptr_eq(&facts.connect.unwrap(), &world.connections));
    let attributes = facts.attributes;
    assert!(attributes.max_receives >= 16 && attributes.max_requests >= 16);
    assert_eq!((attributes.max_reads_in, attributes.max_reads_out), (8, 8));
    assert_eq!(attributes.max_message_size, 1 << 31);
}

#[test]
fn sizes_of_zero_and_the_hardwares_default_are_defaults() {
    let world = World::new();
    let asked = EndpointAttributes {
        max_message_size: 0,
        max_rdma_size: 0,
        max_receives: -1,
        max_requests: -1,
        max_receive_pieces: -1,
        max_request_pieces: -1,
        max_reads_in: -1,
        max_reads_out: -1,
        max_read_pieces: 0,
        max_write_pieces: 0,
        ..EndpointAttributes::default()
    };
    let got = world.create(with(asked, &world)).unwrap().facts().unwrap().attributes;
    let default = EndpointAttributes::default();
    assert_eq!(
        got,
        EndpointAttributes { max_receives: got.max_receives, max_requests: got.max_requests, ..default }
    );
}

#[test]
fn attributes_that_cannot_be_are_refused_and_nothing_is_made() {
    let world = World::new();
    let default = EndpointAttributes::default();
    let suppress = CompletionFlags::SUPPRESS.bits();
    let wrong = [
        EndpointAttributes { service_type: 1, ..default },
        EndpointAttributes { max_receives: 0, ..default },
        EndpointAttributes { max_requests: 0, ..default },
        EndpointAttributes { max_receives: -2, ..default },
        EndpointAttributes { max_requests: i32::MAX, ..default },
        EndpointAttributes { max_receive_pieces: 0, ..default },
        EndpointAttributes { max_request_pieces: 0, ..default },
        EndpointAttributes { max_request_pieces: 33, ..default },
        EndpointAttributes { max_reads_in: 17, ..default },
        EndpointAttributes { max_reads_out: -5, ..default },
        EndpointAttributes { max_read_pieces: 33, ..default },
        EndpointAttributes { max_write_pieces: -7, ..default },
        EndpointAttributes { max_message_size: (1 << 31) + 1, ..default },
        EndpointAttributes { max_rdma_size: u64::MAX, ..default },
        EndpointAttributes { receive_flags: suppress, ..default },
        EndpointAttributes { request_flags: 0x4000, ..default },
    ];
    for attributes in wrong {
        let refused = world.create(with(attributes, &world)).map(drop);
        assert_eq!(refused, Err(DatError::argument(6)), "{attributes:?}");
    }
    let quality = EndpointAttributes { qos: 2, ..default };
    assert_eq!(world.create(with(quality, &world)).map(drop), Err(DatError::MODEL_NOT_SUPPORTED));
    // A dispatcher without transfers of its direction, and transfers without a dispatcher.
    for (without_receive, without_request) in [(true, false), (false, true)] {
        let mut setup = with(default, &world);
        if without_receive {
            setup.receive = None;
        }
        if without_request {
            setup.request = None;
        }
        assert_eq!(world.create(setup).map(drop), Err(DatError::argument(6)));
    }
    // Whatever a refused endpoint had counted is free again.
    world.transfers.free().unwrap();
    world.connections.free().unwrap();
    world.region.free().unwrap();
    world.zone.free().unwrap();
    assert_eq!(world.adapter.close(true), Ok(()));
}

#[test]
fn objects_that_do_not_fit_are_refused_by_name() {
    let (world, other) = (World::new(), World::new());
    let refused = |setup: EndpointSetup| world.create(setup).map(drop).unwrap_err();
    let setup = EndpointSetup { receive: Some(Arc::clone(&world.connections)), ..world.setup() };
    assert_eq!(refused(setup), bad_handle(HandleKind::ReceiveDispatcher));
    let setup = EndpointSetup { request: Some(Arc::clone(&world.connections)), ..world.setup() };
    assert_eq!(refused(setup), bad_handle(HandleKind::RequestDispatcher));
    let setup = EndpointSetup { connect: Some(Arc::clone(&world.transfers)), ..world.setup() };
    assert_eq!(refused(setup), bad_handle(HandleKind::ConnectionDispatcher));
    let setup = EndpointSetup { receive: Some(Arc::clone(&other.transfers)), ..world.setup() };
    assert_eq!(refused(setup), bad_handle(HandleKind::ReceiveDispatcher));
    let setup = EndpointSetup { zone: Some(Arc::clone(&other.zone)), ..world.setup() };
    assert_eq!(refused(setup), bad_handle(HandleKind::ProtectionZone));
    // Neither adapter has kept anything.
    for world in [world, other] {
        world.transfers.free().unwrap();
        world.connections.free().unwrap();
        world.region.free().unwrap();
        world.zone.free().unwrap();
        assert_eq!(world.adapter.close(true), Ok(()));
    }
}

#[test]
fn what_an_endpoint_uses_is_not_freed_before_it() {
    let world = World::new();
    let endpoint = world.endpoint();
    let in_use = Err(bad_state(StateKind::EvdInUse));
    assert_eq!((world.transfers.free(), world.connections.free()), (in_use, in_use));
    world.region.free().unwrap();
    assert_eq!(world.zone.free(), Err(bad_state(StateKind::PzInUse)));
    endpoint.free().unwrap();
    assert_eq!(endpoint.free(), Err(bad_handle(HandleKind::Endpoint)));
    assert_eq!(
        (world.transfers.free(), world.connections.free(), world.zone.free()),
        (Ok(()), Ok(()), Ok(()))
    );
    assert_eq!(world.adapter.close(true), Ok(()));
}

#[test]
fn a_freed_endpoint_is_refused_everywhere() {
    let world = World::new();
    let endpoint = world.endpoint();
    endpoint.free().unwrap();
    let gone = Err(bad_handle(HandleKind::Endpoint));
    assert_eq!(endpoint.facts().map(drop), gone);
    assert_eq!(endpoint.status().map(drop), gone);
    assert_eq!(endpoint.reset(), gone);
    assert_eq!(endpoint.modify(EndpointChange::default()), gone);
    assert_eq!(endpoint.post_receive(world.piece(), 1, PLAIN), gone);
}

#[test]
fn requests_need_a_connection_and_receives_do_not() {
    let world = World::new();
    let endpoint = world.endpoint();
    let unconnected = Err(bad_state(StateKind::EpUnconnected));
    assert_eq!(endpoint.post_send(world.piece(), 1, PLAIN), unconnected);
    assert_eq!(endpoint.post_rdma_write(world.piece(), 1, FAR, PLAIN), unconnected);
    assert_eq!(endpoint.post_rdma_read(world.piece(), 1, FAR, PLAIN), unconnected);
    assert_eq!(endpoint.status(), Ok((EndpointState::Unconnected, true, true)));
    endpoint.post_receive(world.piece(), 1, PLAIN).unwrap();
    assert_eq!(endpoint.status(), Ok((EndpointState::Unconnected, false, true)));
    assert_eq!(world.transfers.dequeue(|_| panic!("nothing came")), Err(DatError::QUEUE_EMPTY));
}

#[test]
fn receives_beyond_the_limits_are_refused() {
    let world = World::new();
    let attributes = EndpointAttributes {
        max_receives: 20,
        max_receive_pieces: 2,
        max_message_size: 100,
        ..EndpointAttributes::default()
    };
    let endpoint = world.create(with(attributes, &world)).unwrap();
    let piece = part(&world.region, 0, 10);
    let pieces = |count: usize| vec![piece; count].into_iter();
    assert_eq!(endpoint.post_receive(pieces(3), 1, PLAIN), Err(DatError::argument(2)));
    let too_long = DatError::new(nonic_dat::Kind::LengthError, Subtype::None);
    let long = Segment { length: 101, ..piece };
    assert_eq!(endpoint.post_receive(std::iter::once(long), 1, PLAIN), Err(too_long));
    let endless = [Segment { length: u64::MAX, ..piece }; 2];
    assert_eq!(endpoint.post_receive(endless.into_iter(), 1, PLAIN), Err(too_long));
    for flags in [
        CompletionFlags::SUPPRESS,
        CompletionFlags::SOLICITED_WAIT,
        CompletionFlags::UNSIGNALLED,
        CompletionFlags::BARRIER_FENCE,
        CompletionFlags::EVD_THRESHOLD,
    ] {
        assert_eq!(endpoint.post_receive(pieces(1), 1, flags), Err(DatError::argument(5)), "{flags:?}");
    }
    assert_eq!(endpoint.status(), Ok((EndpointState::Unconnected, true, true)));
    let limit = endpoint.facts().unwrap().attributes.max_receives;
    assert!(limit >= 20);
    // Empty receives and empty pieces are allowed.
    endpoint.post_receive(pieces(0), 1, PLAIN).unwrap();
    let empty = Segment { context: 0, address: 0, length: 0 };
    endpoint.post_receive([empty, piece].into_iter(), 1, PLAIN).unwrap();
    for _ in 2..limit {
        endpoint.post_receive(pieces(2), 1, PLAIN).unwrap();
    }
    let full = Err(DatError::resources(Subtype::Resource(Resource::Credits)));
    assert_eq!(endpoint.post_receive(pieces(1), 1, PLAIN), full);
}

#[test]
fn an_endpoint_without_zone_takes_receives_once_it_has_one() {
    let world = World::new();
    let endpoint = world.create(EndpointSetup::default()).unwrap();
    let not_ready = Err(bad_state(StateKind::EpNotReady));
    assert_eq!(endpoint.post_receive(world.piece(), 1, PLAIN), not_ready);
    endpoint
        .modify(EndpointChange { zone: Some(Some(Arc::clone(&world.zone))), ..EndpointChange::default() })
        .unwrap();
    let no_dispatcher = Err(bad_state(StateKind::EpReceiveDispatcher));
    assert_eq!(endpoint.post_receive(world.piece(), 1, PLAIN), no_dispatcher);
    let receive = Some(Some(Arc::clone(&world.transfers)));
    endpoint.modify(EndpointChange { receive, ..EndpointChange::default() }).unwrap();
    endpoint.post_receive(world.piece(), 1, PLAIN).unwrap();
    assert_eq!(endpoint.status(), Ok((EndpointState::Unconnected, false, true)));
    endpoint.free().unwrap();
    world.transfers.free().unwrap();
}

#[test]
fn a_change_is_done_as_a_whole_or_not_at_all() {
    let world = World::new();
    let endpoint = world.endpoint();
    let before = endpoint.facts().unwrap();
    let refused = EndpointChange {
        max_requests: Some(100),
        max_reads_in: Some(17),
        connect: Some(None),
        ..EndpointChange::default()
    };
    assert_eq!(endpoint.modify(refused), Err(DatError::argument(3)));
    let wrong = EndpointChange {
        max_requests: Some(100),
        connect: Some(Some(Arc::clone(&world.transfers))),
        ..EndpointChange::default()
    };
    assert_eq!(endpoint.modify(wrong), Err(bad_handle(HandleKind::ConnectionDispatcher)));
    let after = endpoint.facts().unwrap();
    assert_eq!(after.attributes, before.attributes);
    assert!(Arc::ptr_eq(&after.connect.unwrap(), &world.connections));
    let change = EndpointChange {
        max_requests: Some(100),
        max_reads_in: Some(3),
        connect: Some(None),
        ..EndpointChange::default()
    };
    endpoint.modify(change).unwrap();
    let changed = endpoint.facts().unwrap();
    assert!(changed.attributes.max_requests >= 100 && changed.attributes.max_reads_in == 3);
    assert!(changed.connect.is_none());
    world.connections.free().unwrap();
}

#[test]
fn posted_receives_stay_with_the_endpoint_when_its_queue_would_have_to_change() {
    let world = World::new();
    let endpoint = world.endpoint();
    endpoint.post_receive(world.piece(), 1, PLAIN).unwrap();
    let other = EventDispatcher::create(&world.adapter, 8, None, Streams::DATA_TRANSFER).unwrap();
    let change = EndpointChange { receive: Some(Some(Arc::clone(&other))), ..EndpointChange::default() };
    assert_eq!(endpoint.modify(change), Err(bad_state(StateKind::EpNotReady)));
    other.free().unwrap();
    assert_eq!(endpoint.status(), Ok((EndpointState::Unconnected, false, true)));
    // Where connection events go does not concern them.
    let change = EndpointChange { connect: Some(None), max_reads_out: Some(1), ..EndpointChange::default() };
    endpoint.modify(change).unwrap();
    assert_eq!(endpoint.status(), Ok((EndpointState::Unconnected, false, true)));
}

#[test]
fn resetting_an_unconnected_endpoint_leaves_its_receives() {
    let world = World::new();
    let endpoint = world.endpoint();
    endpoint.post_receive(world.piece(), 1, PLAIN).unwrap();
    endpoint.reset().unwrap();
    assert_eq!(endpoint.status(), Ok((EndpointState::Unconnected, false, true)));
}

#[test]
fn the_first_endpoint_decides_which_completions_notify() {
    let world = World::new();
    let flags = |flags: CompletionFlags| {
        let attributes = EndpointAttributes {
            receive_flags: flags.bits(),
            request_flags: flags.bits(),
            ..EndpointAttributes::default()
        };
        let dispatcher = EventDispatcher::create(&world.adapter, 8, None, Streams::DATA_TRANSFER).unwrap();
        let setup = EndpointSetup {
            receive: Some(Arc::clone(&dispatcher)),
            request: Some(Arc::clone(&dispatcher)),
            ..with(attributes, &world)
        };
        let _first = world.create(setup).unwrap();
        let _second = world.create(EndpointSetup { attributes: None, ..world.setup() }).unwrap();
        dispatcher.facts().unwrap().state & 0x30
    };
    assert_eq!(flags(CompletionFlags::DEFAULT), 0x30);
    assert_eq!(flags(CompletionFlags::EVD_THRESHOLD), 0x30);
    assert_eq!(flags(CompletionFlags::SOLICITED_WAIT), 0x20);
    assert_eq!(flags(CompletionFlags::UNSIGNALLED), 0x10);
    assert!(world.pages.length() > 0);
}

#[test]
fn thousands_of_endpoints_come_and_go() {
    let world = World::new();
    let all: Vec<_> = (0..2000).map(|_| world.endpoint()).collect();
    for endpoint in &all {
        endpoint.post_receive(world.piece(), 1, PLAIN).unwrap();
        endpoint.free().unwrap();
    }
    world.transfers.free().unwrap();
}
