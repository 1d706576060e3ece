//! Many connections at once and one after the other, ended from both sides at any moment.

use std::collections::HashMap;
use std::iter::once;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common;
use crate::common::connected::{PATIENCE, PLAIN, Plan, Side};
use nonic_dat::{
    ConnectionEvent, Endpoint, EndpointSetup, EndpointState, Event, EventDispatcher, PublicServicePoint,
    Streams, TransferKind, TransferStatus,
};

/// A number that is different every time and the same in every run.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn connection_event(dispatcher: &EventDispatcher) -> ConnectionEvent {
    let mut found = None;
    let (result, _) = dispatcher.wait(PATIENCE, 1, |event| {
        let Event::Connection { kind, .. } = event else { panic!("{event:?}") };
        found = Some(*kind);
    });
    result.unwrap();
    found.unwrap()
}

/// Waits until an endpoint is disconnected; what it was told on the way.
fn last_of(side: &Side) -> Vec<ConnectionEvent> {
    let mut told = Vec::new();
    while told.last().is_none_or(|kind| *kind == ConnectionEvent::Established) {
        told.push(connection_event(&side.connections));
    }
    told
}

/// Whether the receive that ends next was filled: by this connection then, whose number came.
fn is_filled_by(far: &Side, turn: u32) -> bool {
    let mut filled = None;
    far.transfers
        .wait(PATIENCE, 1, |event| {
            let Event::Transfer { cookie, status, kind: TransferKind::Receive, .. } = event else {
                panic!("{event:?}")
            };
            filled = (*status == TransferStatus::Success).then_some(*cookie);
        })
        .0
        .unwrap();
    let Some(place) = filled else { return false };
    let at = 4096 + place as usize * 8;
    let bytes = [0, 1, 2, 3].map(|byte| far.pages.read(at + byte));
    assert_eq!(u32::from_le_bytes(bytes), turn, "a message of another connection");
    true
}

#[test]
fn nothing_of_an_earlier_connection_comes_through_a_later_one() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let requests = EventDispatcher::create(&far.adapter, 4, None, Streams::CONNECTION_REQUEST).unwrap();
    let (conn_qual, _point) = PublicServicePoint::create_any(&far.adapter, &requests, false).unwrap();
    let mut dice = Dice(1);
    let mut received = 0;
    for turn in 1..=1500u32 {
        let receives = dice.throw(4);
        for place in 0..receives {
            let piece = far.piece(4096 + place * 8, 8);
            far.endpoint.post_receive(once(piece), place, PLAIN).unwrap();
        }
        near.endpoint.connect(far.adapter.address(), conn_qual, PATIENCE, b"", 0, 0).unwrap();
        let mut request = None;
        requests
            .wait(PATIENCE, 1, |event| {
                let Event::Request { request: came, .. } = event else { panic!("{event:?}") };
                request = Some(Arc::clone(came));
            })
            .0
            .unwrap();
        request.unwrap().accept(Some(&far.endpoint), b"").unwrap();
        assert_eq!(connection_event(&near.connections), ConnectionEvent::Established);
        // The number of the connection is what is sent.
        for (at, byte) in turn.to_le_bytes().into_iter().enumerate() {
            near.pages.write(at, byte);
        }
        let sends = dice.throw(6);
        for cookie in 0..sends {
            near.send(cookie, 4, PLAIN).unwrap();
        }
        let pause = dice.throw(3);
        let ending = dice.throw(3);
        if pause == 1 {
            std::thread::sleep(Duration::from_micros(dice.throw(300)));
        }
        // Whether a message comes before the end is chance, but for some turns, in which one is waited for.
        let mut ended = 0;
        if pause == 2 && receives.min(sends) > 0 {
            assert!(is_filled_by(&far, turn), "a message was lost");
            (received, ended) = (received + 1, 1);
        }
        if ending != 1 {
            near.endpoint.disconnect(false).unwrap();
        }
        if ending != 0 {
            far.endpoint.disconnect(false).unwrap();
        }
        assert_eq!(last_of(&near), [ConnectionEvent::Disconnected]);
        let told = last_of(&far);
        assert!(
            told == [ConnectionEvent::Established, ConnectionEvent::Disconnected]
                || told == [ConnectionEvent::Disconnected]
                || told == [ConnectionEvent::AcceptCompletionError],
            "{told:?}"
        );
        // Every receive has ended, and one that was filled was filled by this connection.
        for _ in ended..receives {
            received += u32::from(is_filled_by(&far, turn));
        }
        near.endpoint.reset().unwrap();
        far.endpoint.reset().unwrap();
        assert!(near.is_quiet() && far.is_quiet(), "something is left behind in turn {turn}");
    }
    assert!(received > 100, "{received} messages in all");
}

/// What an endpoint of the crowd was told last.
struct Crowd {
    side: Side,
    endpoints: Vec<Arc<Endpoint>>,
}

impl Crowd {
    fn new(count: usize) -> Self {
        let side = Side::new(&Plan { length: 4096, ..Plan::default() });
        side.connections.resize(1024).unwrap();
        let endpoints = (0..count)
            .map(|_| {
                let setup = EndpointSetup {
                    zone: Some(Arc::clone(&side.zone)),
                    receive: Some(Arc::clone(&side.transfers)),
                    request: Some(Arc::clone(&side.transfers)),
                    connect: Some(Arc::clone(&side.connections)),
                    ..EndpointSetup::default()
                };
                Endpoint::create(&side.adapter, setup).unwrap()
            })
            .collect();
        Self { side, endpoints }
    }

    fn index_of(&self, endpoint: &Arc<Endpoint>) -> usize {
        self.endpoints.iter().position(|own| Arc::ptr_eq(own, endpoint)).unwrap()
    }
}

#[test]
fn a_crowd_connects_and_disconnects_from_several_threads() {
    const EACH: usize = 12;
    const TURNS: u64 = 300;
    let server = Crowd::new(3 * EACH);
    let requests =
        EventDispatcher::create(&server.side.adapter, 64, None, Streams::CONNECTION_REQUEST).unwrap();
    let (conn_qual, _point) = PublicServicePoint::create_any(&server.side.adapter, &requests, false).unwrap();
    let (over, established) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Accepts with whatever is unconnected; ends every third connection itself.
        scope.spawn(|| {
            let mut free: Vec<_> = (0..server.endpoints.len()).collect();
            let mut dice = Dice(9);
            while !over.load(Ordering::Acquire) {
                let mut request = None;
                let _ = requests.dequeue(|event| {
                    let Event::Request { request: came, .. } = event else { panic!("{event:?}") };
                    request = Some(Arc::clone(came));
                });
                match (request, free.last().copied()) {
                    (Some(request), Some(index)) => {
                        request.accept(Some(&server.endpoints[index]), b"").unwrap();
                        free.pop();
                    }
                    (Some(request), None) => request.reject(b"").unwrap(),
                    (None, _) => std::thread::yield_now(),
                }
                let mut told = None;
                let _ = server.side.connections.dequeue(|event| {
                    let Event::Connection { kind, endpoint, .. } = event else { panic!("{event:?}") };
                    told = Some((*kind, server.index_of(endpoint)));
                });
                match told {
                    Some((ConnectionEvent::Established, index)) if dice.throw(3) == 0 => {
                        server.endpoints[index].disconnect(dice.throw(2) == 0).unwrap();
                    }
                    Some((ConnectionEvent::Established, _)) => {}
                    Some((ConnectionEvent::Disconnected | ConnectionEvent::AcceptCompletionError, index)) => {
                        server.endpoints[index].reset().unwrap();
                        free.push(index);
                    }
                    Some((kind, _)) => panic!("{kind:?}"),
                    None => {}
                }
            }
        });
        let clients: Vec<_> = (0..3)
            .map(|seed| {
                let (server, established) = (&server, &established);
                scope.spawn(move || {
                    let crowd = Crowd::new(EACH);
                    let mut dice = Dice(seed);
                    let mut turns: HashMap<usize, u64> = HashMap::new();
                    let connect = |index: usize, dice: &mut Dice| {
                        let time =
                            if dice.throw(8) == 0 { Some(Duration::from_micros(50)) } else { PATIENCE };
                        let address = server.side.adapter.address();
                        crowd.endpoints[index].connect(address, conn_qual, time, b"", 0, 0).unwrap();
                        // Given up at once, now and then.
                        if dice.throw(10) == 0 {
                            crowd.endpoints[index].disconnect(false).unwrap();
                        }
                    };
                    (0..EACH).for_each(|index| connect(index, &mut dice));
                    let mut left = EACH;
                    while left > 0 {
                        let mut told = None;
                        let (result, _) = crowd.side.connections.wait(PATIENCE, 1, |event| {
                            let Event::Connection { kind, endpoint, .. } = event else { panic!("{event:?}") };
                            told = Some((*kind, crowd.index_of(endpoint)));
                        });
                        result.unwrap();
                        let (kind, index) = told.unwrap();
                        if kind == ConnectionEvent::Established {
                            established.fetch_add(1, Ordering::Relaxed);
                            if dice.throw(2) == 0 {
                                crowd.endpoints[index].disconnect(dice.throw(2) == 0).unwrap();
                            } else {
                                let piece = once(crowd.side.piece(0, 0));
                                // It may have been disconnected meanwhile, or have no room after that.
                                let _ = crowd.endpoints[index].post_send(piece, 0, PLAIN);
                                crowd.endpoints[index].disconnect(false).unwrap();
                            }
                            continue;
                        }
                        assert!(
                            matches!(
                                kind,
                                ConnectionEvent::Disconnected
                                    | ConnectionEvent::TimedOut
                                    | ConnectionEvent::PeerRejected
                                    | ConnectionEvent::NonPeerRejected
                            ),
                            "{kind:?}"
                        );
                        assert_eq!(crowd.endpoints[index].state(), EndpointState::Disconnected);
                        crowd.endpoints[index].reset().unwrap();
                        let turn = turns.entry(index).or_default();
                        *turn += 1;
                        if *turn < TURNS { connect(index, &mut dice) } else { left -= 1 }
                    }
                    crowd.side.adapter.close(false).unwrap();
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        over.store(true, Ordering::Release);
    });
    assert!(established.load(Ordering::Relaxed) > TURNS, "{established:?}");
    println!("{established:?} connections");
    server.side.adapter.close(false).unwrap();
}

#[test]
fn a_message_that_was_received_was_sent_though_its_receiver_disconnects_at_once() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let mut dice = Dice(5);
    for turn in 0..1000 {
        common::connected::connect(&near, &far);
        let count = 1 + dice.throw(4);
        (0..count).for_each(|cookie| far.receive(cookie, 8));
        (0..count).for_each(|cookie| near.send(cookie, 8, PLAIN).unwrap());
        for cookie in 0..count {
            assert_eq!(far.next(), common::connected::done(cookie, TransferKind::Receive, 8));
        }
        far.endpoint.disconnect(false).unwrap();
        if dice.throw(2) == 0 {
            assert_eq!(last_of(&near), [ConnectionEvent::Disconnected]);
        }
        for cookie in 0..count {
            assert_eq!(near.next(), common::connected::done(cookie, TransferKind::Send, 8), "in turn {turn}");
        }
        if near.endpoint.state() != EndpointState::Disconnected || near.endpoint.reset().is_err() {
            last_of(&near);
            near.endpoint.reset().unwrap();
        } else {
            // Already told, or left behind by the reset.
            while near.connections.dequeue(|_| ()).is_ok() {}
        }
        last_of(&far);
        far.endpoint.reset().unwrap();
    }
}

#[test]
fn a_failure_breaks_its_own_connection_and_not_the_next() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    for turn in 0..400 {
        common::connected::connect(&near, &far);
        let wrong = nonic_dat::RemoteSegment { context: 0xdead_0000, ..far.remote(0, 8) };
        near.endpoint.post_rdma_write(once(near.piece(0, 8)), turn, wrong, PLAIN).unwrap();
        assert!(matches!(
            near.next(),
            common::connected::Seen::Transfer { status: TransferStatus::RemoteAccess, .. }
        ));
        for side in [&near, &far] {
            assert_eq!(last_of(side), [ConnectionEvent::Broken], "in turn {turn}");
            side.endpoint.reset().unwrap();
        }
        // What was found out about the last connection may be told to the endpoints only now.
        common::connected::connect(&near, &far);
        far.receive(turn, 8);
        near.send(turn, 8, PLAIN).unwrap();
        assert_eq!(far.next(), common::connected::done(turn, TransferKind::Receive, 8));
        assert_eq!(near.next(), common::connected::done(turn, TransferKind::Send, 8));
        near.endpoint.disconnect(true).unwrap();
        for side in [&near, &far] {
            assert_eq!(last_of(side), [ConnectionEvent::Disconnected], "in turn {turn}");
            side.endpoint.reset().unwrap();
        }
    }
}
