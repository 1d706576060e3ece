//! Asynchronous events: section 7.6.

use nonic_device::{AsyncEventKind, AttributeMask, QpAttributes, QpState, Status};

use crate::command::{Command, Job};
use crate::memory::EVERYTHING;
use crate::options::{DATAGRAM, RELIABLE, UNRELIABLE};
use crate::pair::{Pair, to_init, to_receive, to_send};
use crate::request::{send, write};
use crate::side::{NEVER, SOON};

pub(crate) fn the_first_message_of_a_queue_pair_in_rtr_is_announced_once(pair: &mut Pair) {
    for options in [RELIABLE, UNRELIABLE] {
        let (client, server) = (pair.client.end(&options), pair.server.end(&options));
        let near = pair.client.memory(client.zone, 8, EVERYTHING);
        pair.ready_to_receive(&client, &options, &server, &options);
        pair.server.assert_no_async_event();
        for _ in 0..2 {
            pair.server.receive(&server, 1, &[]);
        }
        pair.client.modify(client.pair, to_send(&options));
        for _ in 0..2 {
            assert_eq!(pair.client.carry_out(&client, send(&[near.piece(0, 0)])), Status::Success);
        }
        pair.server.async_event(AsyncEventKind::CommunicationEstablished, server.pair);
        pair.server.completions(server.receive_queue, 2);
        pair.server.assert_no_async_event();
        pair.reset();
    }
}

fn drain(notify: bool) -> (QpAttributes, AttributeMask) {
    let attributes =
        QpAttributes { state: QpState::SendQueueDrain, drained_notify: notify, ..QpAttributes::default() };
    (attributes, AttributeMask::STATE | AttributeMask::ENABLE_DRAINED_NOTIFY)
}

pub(crate) fn a_drained_send_queue_is_announced_where_that_was_asked_for(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    pair.client.modify(scene.client.pair, drain(false));
    pair.client.assert_no_async_event();
    pair.client.move_to(&scene.client, QpState::ReadyToSend);
    pair.client.modify(scene.client.pair, drain(true));
    pair.client.async_event(AsyncEventKind::SendQueueDrained, scene.client.pair);
    pair.client.move_to(&scene.client, QpState::ReadyToSend);
    // What is under way ends first.
    let requests = (0..20).map(|_| write(&[scene.near.all()], scene.far.remote(0))).collect();
    pair.client.post_all(&scene.client, requests);
    pair.client.completions(scene.client.send_queue, 20);
    pair.client.modify(scene.client.pair, drain(true));
    pair.client.async_event(AsyncEventKind::SendQueueDrained, scene.client.pair);
    pair.client.assert_no_async_event();
}

pub(crate) fn a_send_queue_is_not_drained_while_a_send_waits_for_a_receive(pair: &mut Pair) {
    for sends in [1, 3] {
        let scene = pair.scene(&RELIABLE);
        let requests = (0..sends).map(|_| send(&[scene.near.piece(0, 8)])).collect();
        pair.client.post_all(&scene.client, requests);
        // Long enough for the peer to have said that it has none.
        pair.client.assert_quiet(scene.client.send_queue);
        pair.client.modify(scene.client.pair, drain(true));
        // Not begun before, so it waits.
        pair.client.post(&scene.client, write(&[scene.near.all()], scene.far.remote(0)));
        pair.client.assert_no_async_event();
        for _ in 0..sends {
            pair.server.receive(&scene.server, 1, &[scene.far.piece(0, 8)]);
        }
        // What was begun ends in SQD, and then the queue is drained.
        pair.client.async_event(AsyncEventKind::SendQueueDrained, scene.client.pair);
        pair.client.completions(scene.client.send_queue, sends);
        pair.server.completions(scene.server.receive_queue, sends);
        pair.client.assert_quiet(scene.client.send_queue);
        pair.client.assert_no_async_event();
        pair.client.move_to(&scene.client, QpState::ReadyToSend);
        assert_eq!(pair.client.sent(&scene.client).status, Status::Success);
        pair.reset();
    }
}

pub(crate) fn destroying_a_queue_pair_waits_until_its_events_are_acknowledged(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let nowhere = nonic_device::RemoteRange { address: 0, key: nonic_device::Key(1) };
    let refused = write(&[scene.near.piece(0, 8)], nowhere);
    assert_eq!(pair.client.carry_out(&scene.client, refused), Status::RemoteAccess);
    let event = pair.server.ask(Command::NextAsyncEvent { within_ms: SOON });
    assert_eq!(event, [AsyncEventKind::QpAccessError as u64, 2, u64::from(scene.server.pair)]);
    pair.server.background(Job::DestroyPair { pair: scene.server.pair });
    pair.server.refuses(Command::Join { within_ms: NEVER }, "the job has not ended");
    pair.server.must(Command::AcknowledgeAsyncEvent { element: 2, number: scene.server.pair });
    pair.server.join();
}

pub(crate) fn an_event_nobody_took_goes_with_its_queue_pair(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let nowhere = nonic_device::RemoteRange { address: 0, key: nonic_device::Key(1) };
    let refused = write(&[scene.near.piece(0, 8)], nowhere);
    assert_eq!(pair.client.carry_out(&scene.client, refused), Status::RemoteAccess);
    assert_eq!(pair.server.state(&scene.server), QpState::Error);
    pair.server.must(Command::DestroyPair { pair: scene.server.pair });
    pair.server.assert_no_async_event();
}

pub(crate) fn datagrams_establish_nothing(pair: &mut Pair) {
    let (client, server) = (pair.client.end(&DATAGRAM), pair.server.end(&DATAGRAM));
    let path = pair.server.path();
    for end in [(&mut pair.client, &client), (&mut pair.server, &server)] {
        end.0.modify(end.1.pair, to_init(&DATAGRAM));
        end.0.modify(end.1.pair, to_receive(&DATAGRAM, server.number, path));
    }
    pair.client.modify(client.pair, to_send(&DATAGRAM));
    let far = pair.server.memory(server.zone, 40, EVERYTHING);
    pair.server.receive(&server, 1, &[far.all()]);
    let to_server = pair.server_as_destination(&client, &server, DATAGRAM.q_key);
    assert_eq!(pair.client.carry_out(&client, send(&[]).to(to_server)), Status::Success);
    pair.server.received(&server);
    pair.server.assert_no_async_event();
}

pub(crate) fn a_queue_pair_without_a_shared_queue_announces_no_last_receive(pair: &mut Pair) {
    let (client, _) = pair.connect(&RELIABLE);
    pair.client.move_to(&client, QpState::Error);
    pair.client.assert_no_async_event();
}
