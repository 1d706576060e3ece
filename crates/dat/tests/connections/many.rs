//! Many connections, one after the other and at once.

use super::*;

#[test]
fn many_connections_come_and_go_on_the_same_endpoints() {
    let (near, far) = (Side::new(&Plan::default()), Side::new(&Plan::default()));
    let (requests, conn_qual, _point) = listening(&far.adapter, 4);
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut counts = Vec::new();
    for turn in 0..2000u64 {
        far.receive(turn, 8);
        ask(&near, conn_qual, b"");
        next_request(&requests).0.accept(Some(&far.endpoint), b"").unwrap();
        assert!(matches!(next(&near.connections), Seen::Connection(Established, _)));
        near.send(turn, 8, PLAIN).unwrap();
        assert_eq!(far.next(), done(turn, TransferKind::Receive, 8));
        assert_eq!(near.next(), done(turn, TransferKind::Send, 8));
        assert_eq!(next(&far.connections), told(Established));
        let (ends, other) = if turn % 2 == 0 { (&near, &far) } else { (&far, &near) };
        ends.endpoint.disconnect(turn % 3 == 0).unwrap();
        for side in [ends, other] {
            assert_eq!(next(&side.connections), told(Disconnected));
            side.endpoint.reset().unwrap();
        }
        if turn % 500 == 499 {
            counts.push(descriptors());
        }
    }
    // Other tests of this process come and go meanwhile.
    assert!(counts.iter().all(|count| *count < 700), "{counts:?}");
}

#[test]
fn ten_thousand_endpoints_are_connected_at_once() {
    let many: usize =
        std::env::var("NONIC_TEST_MANY").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let near = Side::new(&Plan { length: 64, ..Plan::default() });
    let connections =
        EventDispatcher::create(&near.adapter, 4 * many as i32, None, Streams::CONNECTION).unwrap();
    let (requests, conn_qual, _point) = listening(&near.adapter, 2 * many as i32);
    let setup = || EndpointSetup {
        zone: Some(Arc::clone(&near.zone)),
        receive: Some(Arc::clone(&near.transfers)),
        request: Some(Arc::clone(&near.transfers)),
        connect: Some(Arc::clone(&connections)),
        ..EndpointSetup::default()
    };
    let make = || (0..many).map(|_| Endpoint::create(&near.adapter, setup()).unwrap()).collect::<Vec<_>>();
    let (asking, serving) = (make(), make());
    let since = Instant::now();
    for endpoint in &asking {
        endpoint.connect(near.adapter.address(), conn_qual, None, b"", 0, 0).unwrap();
    }
    for endpoint in &serving {
        next_request(&requests).0.accept(Some(endpoint), b"").unwrap();
    }
    for _ in 0..2 * many {
        assert!(matches!(next(&connections), Seen::Connection(Established, _)));
    }
    println!("{many} connections in {:?}", since.elapsed());
    let since = Instant::now();
    asking.iter().for_each(|endpoint| endpoint.free().unwrap());
    for _ in 0..many {
        assert_eq!(next(&connections), told(Disconnected));
    }
    println!("ended in {:?}", since.elapsed());
    serving.iter().for_each(|endpoint| endpoint.free().unwrap());
}
