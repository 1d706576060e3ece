//! Opening and closing adapters, and what belongs to them.

mod common;

use common::peers::{Side, connect, far};
use common::waiting::{named_thread, until_asleep};
use common::{Pages, bad_handle, bad_state, open, register};
use nonic_dat::{
    AsyncEvents, ConnectionEvent, DatError, Event, EventDispatcher, HandleKind, InterfaceAdapter, Kind,
    NotificationObject, OpenOptions, Privileges, ProtectionZone, PublicServicePoint, RemoteRegion,
    ReservedServicePoint, Resource, SharedQueueAttributes, SharedReceiveQueue, StateKind, Streams, Subtype,
    TransferStatus,
};

const CLOSED: DatError = DatError::handle(Subtype::Handle(HandleKind::InterfaceAdapter));

#[test]
fn an_adapter_closes_gracefully_only_when_it_has_no_objects() {
    let adapter = open(true);
    let zone = ProtectionZone::create(&adapter).unwrap();
    let pages = Pages::private(1);
    let region = register(&zone, &pages, Privileges::ALL).unwrap();
    let remote = RemoteRegion::create(&zone).unwrap();
    let in_use = Err(bad_state(StateKind::IaInUse));
    assert_eq!(adapter.close(true), in_use);
    // A refused close changes nothing.
    remote.free().unwrap();
    assert_eq!(adapter.close(true), in_use);
    region.free().unwrap();
    assert_eq!(adapter.close(true), in_use);
    zone.free().unwrap();
    assert_eq!(adapter.close(true), Ok(()));
    assert_eq!(adapter.close(true), Err(CLOSED));
    assert_eq!(adapter.close(false), Err(CLOSED));
}

#[test]
fn an_abrupt_close_destroys_every_object() {
    let adapter = open(true);
    let zone = ProtectionZone::create(&adapter).unwrap();
    let pages = Pages::private(1);
    let region = register(&zone, &pages, Privileges::ALL).unwrap();
    let remote = RemoteRegion::create(&zone).unwrap();
    let attributes = SharedQueueAttributes { max_receives: 4, max_pieces: 1, low_watermark: 0 };
    let queue = SharedReceiveQueue::create(&adapter, &zone, attributes).unwrap();
    assert_eq!(adapter.close(false), Ok(()));
    assert_eq!(region.free(), Err(bad_handle(HandleKind::LocalRegion)));
    assert_eq!(remote.free(), Err(bad_handle(HandleKind::RemoteRegion)));
    assert_eq!(queue.free(), Err(bad_handle(HandleKind::SharedReceiveQueue)));
    assert_eq!(queue.post_receive(std::iter::empty(), 0), Err(bad_handle(HandleKind::SharedReceiveQueue)));
    assert_eq!(zone.free(), Err(bad_handle(HandleKind::ProtectionZone)));
    assert_eq!(ProtectionZone::create(&adapter).unwrap_err(), CLOSED);
    assert_eq!(RemoteRegion::create(&zone).unwrap_err(), CLOSED);
    assert_eq!(adapter.close(false), Err(CLOSED));
}

#[test]
fn objects_that_are_created_while_the_adapter_closes_go_with_it() {
    for _ in 0..50 {
        let adapter = open(true);
        let pages = Pages::private(1);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let Ok(zone) = ProtectionZone::create(&adapter) else { break };
                        let Ok(region) = register(&zone, &pages, Privileges::ALL) else { continue };
                        std::mem::forget((zone, region));
                    }
                });
            }
            adapter.close(false).unwrap();
        });
    }
}

#[test]
fn an_adapter_tells_its_name_and_an_address_of_this_machine() {
    let adapter = open(false);
    let attributes = adapter.attributes();
    assert_eq!(
        (attributes.adapter_name.as_str(), adapter.name()),
        ("nonic-noncoherent", "nonic-noncoherent")
    );
    assert_eq!((attributes.address, attributes.address.port()), (adapter.address(), 0));
    assert!(attributes.address.is_ipv4());
    assert!(std::net::TcpListener::bind(attributes.address).is_ok(), "an address of this machine");
    assert!(!adapter.is_coherent());
    adapter.close(true).unwrap();
}

#[test]
fn a_negative_length_of_the_dispatcher_is_refused() {
    let options = OpenOptions {
        name: "nonic".to_owned(),
        coherent: true,
        async_events: AsyncEvents::Own { length: -1 },
    };
    assert_eq!(InterfaceAdapter::open(options).unwrap_err(), DatError::argument(2));
}

#[test]
fn a_shared_receive_queue_takes_what_it_was_made_for() {
    let adapter = open(true);
    let zone = ProtectionZone::create(&adapter).unwrap();
    let make = |max_receives, max_pieces, low_watermark| {
        let attributes = SharedQueueAttributes { max_receives, max_pieces, low_watermark };
        SharedReceiveQueue::create(&adapter, &zone, attributes)
    };
    for (receives, pieces, watermark) in [(0, 1, 0), (-1, 1, 0), (1, 0, 0), (1, -1, 0), (1, 1, 1), (1, 1, -1)]
    {
        assert_eq!(make(receives, pieces, watermark).unwrap_err(), DatError::argument(3));
    }
    let none_left = DatError::resources(Subtype::Resource(Resource::SharedReceiveQueue));
    let attributes = adapter.attributes();
    let most = attributes.max_receives_per_shared_receive_queue;
    assert_eq!(make(most + 1, 1, 0).unwrap_err(), none_left);
    assert_eq!(make(1, attributes.max_pieces_per_transfer + 1, 0).unwrap_err(), none_left);
    make(most, attributes.max_pieces_per_transfer, 0).unwrap().free().unwrap();

    let queue = make(3, 2, 0).unwrap();
    let pages = Pages::private(1);
    let region = register(&zone, &pages, Privileges::ALL).unwrap();
    let piece = common::part(&region, 0, 8);
    let nothing = nonic_dat::Segment { length: 0, ..piece };
    assert_eq!(queue.post_receive([piece; 3].into_iter(), 0), Err(DatError::argument(2)));
    // Pieces of no bytes are skipped.
    queue.post_receive([piece, nothing, piece, nothing].into_iter(), 1).unwrap();
    queue.post_receive(std::iter::empty(), 2).unwrap();
    queue.post_receive([piece].into_iter(), 3).unwrap();
    assert_eq!(queue.post_receive([piece].into_iter(), 4), Err(none_left));
    let facts = queue.facts().unwrap();
    assert_eq!((facts.available, facts.outstanding), (3, 3));
    assert_eq!((facts.attributes.max_receives, facts.attributes.max_pieces), (3, 2));
    assert!(facts.operational && std::sync::Arc::ptr_eq(&facts.zone, &zone));

    let in_use = Err(bad_state(StateKind::SrqInUse));
    assert_eq!(queue.resize(2), in_use);
    assert_eq!(queue.resize(0), Err(DatError::argument(2)));
    assert_eq!(queue.resize(most + 1), Err(none_left));
    queue.resize(4).unwrap();
    queue.post_receive([piece].into_iter(), 4).unwrap();
    assert_eq!(queue.post_receive([piece].into_iter(), 5), Err(none_left));
    assert_eq!(queue.set_low_watermark(5), Err(DatError::argument(2)));
    assert_eq!(queue.set_low_watermark(-1), Err(DatError::argument(2)));
    queue.set_low_watermark(4).unwrap();
    assert_eq!(zone.free(), Err(bad_state(StateKind::PzInUse)));
    queue.free().unwrap();
    assert_eq!(queue.free(), Err(bad_handle(HandleKind::SharedReceiveQueue)));
    region.free().unwrap();
    zone.free().unwrap();
    adapter.close(true).unwrap();
}

/// Everything there is, in use: connected, asked for, bound, waited on.
#[test]
fn an_abrupt_close_wakes_all_who_wait_and_tells_the_peer() {
    let (server, client) = (Side::with_async(), Side::new(true));
    connect(&server, &client);
    let adapter = &server.adapter;
    let remote = RemoteRegion::create(&server.zone).unwrap();
    server.bind(&remote, server.piece(0, 64), Privileges::REMOTE);
    let signals = NotificationObject::create(adapter, None).unwrap();
    let streams = Streams::CONNECTION_REQUEST | Streams::SOFTWARE;
    let requests = EventDispatcher::create(adapter, 8, None, streams).unwrap();
    let idle = EventDispatcher::create(adapter, 8, Some(&signals), Streams::SOFTWARE).unwrap();
    let (conn_qual, _point) = PublicServicePoint::create_any(adapter, &requests, true).unwrap();
    let reserved = server.endpoint_of(&server.zone);
    let _reserved_point =
        ReservedServicePoint::create(adapter, conn_qual + 100_000, &reserved, &requests).unwrap();
    let asking = client.endpoint_of(&client.zone);
    let address = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    asking.connect(address, conn_qual, None, b"", 0, 0).unwrap();
    let mut request = None;
    let (result, _) = requests.wait(None, 1, |event| {
        if let Event::Request { request: found, .. } = event {
            request = Some(std::sync::Arc::clone(found));
        }
    });
    result.unwrap();
    assert_eq!(adapter.close(true), Err(bad_state(StateKind::IaInUse)));
    // A refused close leaves everything working.
    let remote_context = remote.facts();
    assert_eq!(client.write(far(remote_context.context, remote_context.segment)), TransferStatus::Success);
    std::thread::scope(|scope| {
        let on_async = adapter.async_dispatcher().unwrap();
        let mut waits = vec![named_thread(scope, move || on_async.wait(None, 1, |_| ()).0)];
        for dispatcher in [&idle, &server.transfers] {
            waits.push(named_thread(scope, || dispatcher.wait(None, 1, |_| ()).0));
        }
        let (on_signals, name) = named_thread(scope, || signals.wait(None).map(drop));
        waits.iter().for_each(|(_, name)| until_asleep(*name));
        until_asleep(name);
        adapter.close(false).unwrap();
        for (wait, _) in waits {
            assert_eq!(wait.join().unwrap().unwrap_err().kind, Kind::Abort);
        }
        on_signals.join().unwrap().unwrap_err();
    });
    assert_eq!(client.connection_event(), ConnectionEvent::Disconnected);
    assert_eq!(client.connection_event(), ConnectionEvent::NonPeerRejected);
    assert_eq!(request.unwrap().reject(b""), Err(bad_handle(HandleKind::ConnectionRequest)));
    assert!(adapter.async_dispatcher().is_none());
    assert_eq!(signals.free(), Err(bad_handle(HandleKind::NotificationObject)));
    assert!(idle.free().is_err() && server.endpoint.free().is_err() && reserved.free().is_err());
    // The qualifier is free again.
    PublicServicePoint::create(&client.adapter, conn_qual, &client.connections, false)
        .unwrap()
        .free()
        .unwrap();
}

fn descriptors() -> usize {
    nonic_second_process::descriptors(std::process::id())
}

/// The same when nothing changes any more: a channel that nobody needs stays open for a second.
fn settled_descriptors() -> usize {
    let (mut count, mut since) = (descriptors(), std::time::Instant::now());
    while since.elapsed() < std::time::Duration::from_secs(2) {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let now = descriptors();
        if now != count {
            (count, since) = (now, std::time::Instant::now());
        }
    }
    count
}

fn resident_pages() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

/// In a process of its own, so that other tests do not count.
#[test]
fn adapters_that_come_and_go_leave_nothing() {
    const ALONE: &str = "NONIC_TEST_ADAPTERS_ALONE";
    let name = "adapters_that_come_and_go_leave_nothing";
    if std::env::var_os(ALONE).is_none() {
        let program = std::env::current_exe().unwrap();
        let run = std::process::Command::new(program)
            .args(["--exact", name, "--test-threads=1"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        return;
    }
    let turn = |graceful: bool| {
        let (server, client) = (Side::with_async(), Side::new(true));
        connect(&server, &client);
        let remote = RemoteRegion::create(&server.zone).unwrap();
        server.bind(&remote, server.piece(0, 64), Privileges::REMOTE);
        if graceful {
            client.endpoint.disconnect(true).unwrap();
            assert_eq!(server.connection_event(), ConnectionEvent::Disconnected);
        }
    };
    // Keys are of places drawn by chance: a region each, until every page of them that a process touches is there.
    let (keeper, page) = (Side::new(true), Pages::private(1));
    let regions: Vec<_> = (0..300).map(|_| register(&keeper.zone, &page, Privileges::ALL).unwrap()).collect();
    regions.into_iter().for_each(|region| region.free().unwrap());
    let turns = || (0..400).for_each(|count| turn(count % 2 == 0));
    turns();
    let descriptors_before = settled_descriptors();
    // Objects take the next place each, so that pages of the tables come one by one until each has been the next; the heaps grow by
    // jumps. Both come to an end, and what is left behind does not: 800 adapters more that cost less than a page for twenty are enough.
    let mut pages = vec![resident_pages()];
    let ended = (0..12).any(|_| {
        turns();
        pages.push(resident_pages());
        pages[pages.len() - 1] < pages[pages.len() - 2] + 40
    });
    assert_eq!(descriptors_before, settled_descriptors(), "descriptors");
    assert!(ended, "pages after 800 adapters each: {pages:?}");
}

#[test]
fn an_adapter_has_the_zones_it_says_and_no_more() {
    let (adapter, other) = (open(true), open(true));
    let limit = adapter.attributes().max_zones;
    let mut zones: Vec<_> = (0..limit).map(|_| ProtectionZone::create(&adapter).unwrap()).collect();
    let none_left = DatError::resources(Subtype::Resource(Resource::ProtectionDomain));
    for _ in 0..2 {
        assert_eq!(ProtectionZone::create(&adapter).unwrap_err(), none_left);
    }
    // Those of another adapter are others.
    ProtectionZone::create(&other).unwrap();
    let freed = zones.swap_remove(7);
    freed.free().unwrap();
    zones.push(ProtectionZone::create(&adapter).unwrap());
    assert_eq!(ProtectionZone::create(&adapter).unwrap_err(), none_left);
    zones.iter().for_each(|zone| zone.free().unwrap());
    ProtectionZone::create(&adapter).unwrap();
}
