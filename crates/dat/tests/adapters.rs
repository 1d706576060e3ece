//! Opening and closing adapters, and what belongs to them.

mod common;

use common::{Pages, bad_handle, bad_state, open, register};
use nonic_dat::{
    AsyncEvents, DatError, HandleKind, InterfaceAdapter, OpenOptions, Privileges, ProtectionZone,
    RemoteRegion, Resource, SharedQueueAttributes, SharedReceiveQueue, StateKind, Subtype,
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
