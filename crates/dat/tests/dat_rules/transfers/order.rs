//! The order of completions, and of other events among them.

use super::*;

#[test]
fn completions_come_in_the_order_of_posting() {
    let (near, far) = pair();
    for round in 0..50 {
        (0..8).for_each(|number| far.receive(number, 64));
        for number in 0..8 {
            match number % 3 {
                0 => near.endpoint.post_rdma_read(once(near.piece(0, 8)), number, far.remote(0, 8), PLAIN),
                1 => near.endpoint.post_rdma_write(once(near.piece(0, 8)), number, far.remote(0, 8), PLAIN),
                _ => near.send(number, 8, PLAIN),
            }
            .unwrap();
        }
        let kinds = [RdmaRead, RdmaWrite, Send];
        for number in 0..8 {
            assert_eq!(near.next(), done(number, kinds[number as usize % 3], 8), "round {round}");
        }
        assert_eq!([far.next(), far.next()], [done(0, Receive, 8), done(1, Receive, 8)]);
        far.endpoint.status().unwrap();
        // The receives that were not used stay for the next round; too many must not gather.
        (2..8).for_each(|_| near.send(9, 8, SUPPRESS).unwrap());
        (2..8).for_each(|number| assert_eq!(far.next(), done(number, Receive, 8)));
    }
}

#[test]
fn a_disconnect_comes_behind_the_completions_in_a_dispatcher_of_both() {
    let merged = Plan { merged: true, ..Plan::default() };
    let (near, far) = connected(&merged, &merged);
    (1..=4).for_each(|number| far.receive(number, 64));
    (1..=2).for_each(|number| near.send(number, 8, PLAIN).unwrap());
    far.transfers.post_software(1).unwrap();
    assert_eq!([near.next(), near.next()], [done(1, Send, 8), done(2, Send, 8)]);
    near.endpoint.disconnect(false).unwrap();
    assert_eq!(near.next(), told(ConnectionEvent::Disconnected));
    let mut events = Vec::new();
    while events.last() != Some(&told(ConnectionEvent::Disconnected)) {
        events.push(far.next());
    }
    events.retain(|event| *event != Seen::Software(1));
    let last = told(ConnectionEvent::Disconnected);
    let expected = [done(1, Receive, 8), done(2, Receive, 8), flushed(3, Receive), flushed(4, Receive), last];
    assert_eq!(events, expected);
    assert!(far.is_quiet());
}

#[test]
fn merged_streams_come_out_in_the_order_in_which_they_went_in() {
    let (near, far) = pair();
    for round in 0..20 {
        for number in 0..3 {
            near.endpoint.post_rdma_read(once(near.piece(0, 8)), number, far.remote(0, 8), PLAIN).unwrap();
            // It is in the queue before the event is posted.
            while !near.endpoint.status().unwrap().2 {
                assert_eq!(far.transfers.dequeue(|_| {}), Err(DatError::QUEUE_EMPTY));
            }
            near.transfers.post_software(number as usize).unwrap();
        }
        for number in 0..3 {
            assert_eq!(near.next(), done(number, RdmaRead, 8), "round {round}");
            assert_eq!(near.next(), Seen::Software(number as usize));
        }
    }
}

#[test]
fn established_is_seen_before_the_first_receive() {
    for _ in 0..200 {
        let merged = Plan { merged: true, ..Plan::default() };
        let (near, far) = (Side::new(&Plan::default()), Side::new(&merged));
        far.receive(1, 64);
        accept(&near, &far);
        let welcome = Seen::Connection(ConnectionEvent::Established, b"welcome".to_vec());
        assert_eq!(next(&near.connections), welcome);
        near.send(2, 8, PLAIN).unwrap();
        // Whoever comes first, the message or the word that the connection stands.
        let first = loop {
            match dequeue(&far.transfers) {
                Ok(event) => break event,
                Err(DatError::QUEUE_EMPTY) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(first, told(ConnectionEvent::Established));
        assert_eq!(far.next(), done(1, Receive, 8));
        assert_eq!(near.next(), done(2, Send, 8));
        // Left open, 400 adapters take most of the descriptors that a process usually may have.
        for side in [near, far] {
            side.adapter.close(false).unwrap();
        }
    }
}
