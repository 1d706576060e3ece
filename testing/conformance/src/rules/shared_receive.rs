//! Shared receive queues: section 7.5.

use nonic_device::{AsyncEventKind, QpState, Status};

use crate::command::{Command, Job, Receive};
use crate::memory::{EVERYTHING, pattern};
use crate::options::{End, Options, RELIABLE};
use crate::pair::Pair;
use crate::request::send;
use crate::side::NEVER;

const SHARED: Options = Options { shared: Some((16, 0)), ..RELIABLE };

fn shared_of(end: &End) -> u32 {
    end.shared.expect("it was asked for")
}

pub(crate) fn several_queue_pairs_take_from_one_queue(pair: &mut Pair) {
    let (first, one) = pair.connect_both(&RELIABLE, &SHARED);
    let second = pair.client.end(&RELIABLE);
    let two = pair.server.end_in(one.zone, &RELIABLE, Some(&one));
    pair.join(&second, &RELIABLE, &two, &RELIABLE);
    let near =
        [pair.client.memory(first.zone, 100, EVERYTHING), pair.client.memory(second.zone, 100, EVERYTHING)];
    let far = pair.server.memory(one.zone, 800, EVERYTHING);
    let bytes = pattern(3, 100);
    let mut expected = Vec::new();
    for id in 0..8u64 {
        pair.server.receive(&one, id, &[far.piece(id * 100, 100)]);
    }
    for id in 0..8u64 {
        let (client, near, server) =
            if id % 3 == 0 { (&second, &near[1], &two) } else { (&first, &near[0], &one) };
        let own: Vec<u8> = bytes.iter().map(|byte| byte ^ id as u8).collect();
        pair.client.write(near, 0, &own);
        assert_eq!(pair.client.carry_out(client, send(&[near.all()])), Status::Success);
        let received = pair.server.received(server);
        assert_eq!((received.id, received.status, received.qp_number), (id, Status::Success, server.number));
        expected.extend(own);
    }
    pair.server.assert_holds(&far, &expected);
}

pub(crate) fn a_shared_queue_has_a_limit_and_bounds(pair: &mut Pair) {
    let zone = pair.client.zone();
    let shared = |requests, pieces, limit| Command::Shared { zone, requests, pieces, limit };
    let most = pair.client.ask(Command::Limits {})[4] as u32;
    for command in [shared(0, 1, 0), shared(most + 1, 1, 0), shared(4, 33, 0), shared(4, 1, 5)] {
        pair.client.refuses(command, "Limit");
    }
    let queue = pair.client.make(shared(4, 2, 0));
    let near = pair.client.memory(zone, 8, EVERYTHING);
    let receive = |count| Receive { id: 1, pieces: vec![near.piece(0, 1); count] };
    pair.client.refuses(Command::PostShared { queue, receives: vec![receive(3)] }, "TooManyPieces");
    pair.client.must(Command::PostShared { queue, receives: vec![receive(2); 4] });
    pair.client.refuses(Command::PostShared { queue, receives: vec![receive(1)] }, "QueueFull");
    pair.client.refuses(Command::SetLimit { queue, limit: 5 }, "Limit");
}

pub(crate) fn a_shared_queue_is_resized_with_its_receives_in_it_or_not_at_all(pair: &mut Pair) {
    let (client, server) = pair.connect_both(&RELIABLE, &SHARED);
    let queue = shared_of(&server);
    let resize = |requests, limit| Command::ResizeShared { queue, requests, limit };
    let post = |id| Command::PostShared { queue, receives: vec![Receive { id, pieces: vec![] }] };
    let take = |pair: &mut Pair, id| {
        assert_eq!(pair.client.carry_out(&client, send(&[])), Status::Success);
        assert_eq!(pair.server.received(&server).id, id);
    };
    for id in 0..5 {
        pair.server.must(post(id));
    }
    let most = pair.server.ask(Command::Limits {})[4] as u32;
    pair.server.refuses(resize(4, None), "StillHolds");
    for (requests, limit) in [(0, None), (most + 1, None), (most + 1, Some(1)), (5, Some(6))] {
        pair.server.refuses(resize(requests, limit), "Limit");
    }
    // Nothing of it happened: it holds sixteen as before, and no limit is armed.
    for id in 5..16 {
        pair.server.must(post(id));
    }
    pair.server.refuses(post(16), "QueueFull");
    pair.server.must(resize(18, Some(17)));
    pair.server.async_event(AsyncEventKind::SrqLimitReached, queue);
    pair.server.must(post(16));
    pair.server.must(post(17));
    pair.server.refuses(post(18), "QueueFull");
    pair.server.must(resize(18, Some(17)));
    pair.server.refuses(resize(16, None), "StillHolds");
    (0..3).for_each(|id| take(pair, id));
    pair.server.async_event(AsyncEventKind::SrqLimitReached, queue);
    pair.server.must(resize(15, Some(15)));
    pair.server.refuses(post(18), "QueueFull");
    pair.server.assert_no_async_event();
    (3..5).for_each(|id| take(pair, id));
    pair.server.async_event(AsyncEventKind::SrqLimitReached, queue);
    (5..18).for_each(|id| take(pair, id));
}

pub(crate) fn a_queue_pair_with_a_shared_queue_takes_no_receives_of_its_own(pair: &mut Pair) {
    let capabilities = nonic_device::Capabilities { receive_requests: u32::MAX, ..RELIABLE.capabilities };
    let (_, server) = pair.connect_both(&RELIABLE, &Options { capabilities, ..SHARED });
    let receives = vec![Receive { id: 1, pieces: vec![] }];
    pair.server.refuses(Command::PostReceive { pair: server.pair, receives }, "HasSharedReceiveQueue");
}

pub(crate) fn the_limit_event_comes_once_when_fewer_remain(pair: &mut Pair) {
    let (client, server) = pair.connect_both(&RELIABLE, &SHARED);
    let queue = shared_of(&server);
    for id in 0..6 {
        pair.server.receive(&server, id, &[]);
    }
    pair.server.must(Command::SetLimit { queue, limit: 4 });
    let take = |pair: &mut Pair| {
        assert_eq!(pair.client.carry_out(&client, send(&[])), Status::Success);
        pair.server.received(&server);
    };
    take(pair);
    take(pair);
    pair.server.assert_no_async_event();
    take(pair);
    pair.server.async_event(AsyncEventKind::SrqLimitReached, queue);
    take(pair);
    pair.server.assert_no_async_event();
    pair.server.must(Command::SetLimit { queue, limit: 2 });
    pair.server.assert_no_async_event();
    take(pair);
    pair.server.async_event(AsyncEventKind::SrqLimitReached, queue);
}

pub(crate) fn receives_of_a_shared_queue_outlive_a_queue_pair_in_error(pair: &mut Pair) {
    let (client, one) = pair.connect_both(&RELIABLE, &SHARED);
    let near = pair.client.memory(client.zone, 8, EVERYTHING);
    let far = pair.server.memory(one.zone, 8, EVERYTHING);
    pair.server.receive(&one, 5, &[far.all()]);
    pair.server.move_to(&one, QpState::Error);
    pair.server.async_event(AsyncEventKind::QpLastWqeReached, one.pair);
    pair.server.assert_quiet(one.receive_queue);
    let second = pair.client.end_in(client.zone, &RELIABLE, None);
    let two = pair.server.end_in(one.zone, &RELIABLE, Some(&one));
    pair.join(&second, &RELIABLE, &two, &RELIABLE);
    assert_eq!(pair.client.carry_out(&second, send(&[near.all()])), Status::Success);
    assert_eq!(pair.server.received(&two).id, 5);
    pair.server.must(Command::DestroyPair { pair: one.pair });
}

pub(crate) fn an_empty_shared_queue_makes_the_sender_wait(pair: &mut Pair) {
    let (client, server) = pair.connect_both(&Options { rnr_retry: 7, ..RELIABLE }, &SHARED);
    pair.client.post(&client, send(&[]));
    assert!(pair.client.wait(client.send_queue, 1, NEVER).is_empty());
    pair.server.receive(&server, 1, &[]);
    assert_eq!(pair.client.sent(&client).status, Status::Success);
    assert_eq!(pair.server.received(&server).id, 1);
}

pub(crate) fn a_shared_queue_in_use_cannot_go_and_its_end_waits_for_its_events(pair: &mut Pair) {
    let (client, server) = pair.connect_both(&RELIABLE, &SHARED);
    let queue = shared_of(&server);
    pair.server.refuses(Command::DestroyShared { queue }, "Busy");
    pair.server.receive(&server, 1, &[]);
    pair.server.must(Command::SetLimit { queue, limit: 1 });
    assert_eq!(pair.client.carry_out(&client, send(&[])), Status::Success);
    let event = pair.server.ask(Command::NextAsyncEvent { within_ms: crate::side::SOON });
    assert_eq!(event, [AsyncEventKind::SrqLimitReached as u64, 3, u64::from(queue)]);
    pair.server.must(Command::DestroyPair { pair: server.pair });
    pair.server.background(Job::DestroyShared { queue });
    pair.server.refuses(Command::Join { within_ms: NEVER }, "the job has not ended");
    pair.server.must(Command::AcknowledgeAsyncEvent { element: 3, number: queue });
    pair.server.join();
}
