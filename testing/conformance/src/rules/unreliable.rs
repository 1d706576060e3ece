//! Unreliable connections and datagrams: section 7.4.

use nonic_device::{Access, Key, QpState, RemoteRange, ScatterGather, Status};

use crate::command::{Command, Send};
use crate::memory::{EVERYTHING, pattern};
use crate::options::{DATAGRAM, Options, UNRELIABLE};
use crate::pair::{Pair, Scene};
use crate::request::{send, write};

/// Bytes before a datagram.
const HEADER: u64 = 40;

/// A message of the client's that the server may or may not take, but of which the client learns nothing.
#[track_caller]
fn lost(pair: &mut Pair, scene: &Scene, request: Send) {
    assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
    pair.settle();
    pair.server.assert_quiet(scene.server.receive_queue);
    assert_eq!(pair.client.state(&scene.client), QpState::ReadyToSend);
    assert_eq!(pair.server.state(&scene.server), QpState::ReadyToSend);
    pair.server.assert_no_async_event();
}

/// The next message arrives as if nothing had been.
#[track_caller]
fn arrives(pair: &mut Pair, scene: &Scene) {
    pair.server.receive(&scene.server, 77, &[scene.far.all()]);
    let request = send(&[scene.near.piece(0, 100)]);
    assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
    let received = pair.server.received(&scene.server);
    assert_eq!((received.id, received.status, received.byte_length), (77, Status::Success, 100));
    pair.server.assert_holds(&scene.far, &Scene::bytes()[..100]);
}

pub(crate) fn an_unreliable_message_without_a_receive_is_lost_in_silence(pair: &mut Pair) {
    let scene = pair.scene(&UNRELIABLE);
    lost(pair, &scene, send(&[scene.near.all()]));
    pair.assert_nothing_moved(&scene);
    arrives(pair, &scene);
}

pub(crate) fn an_unreliable_message_longer_than_its_receive_is_lost_and_leaves_the_receive(pair: &mut Pair) {
    let scene = pair.scene(&UNRELIABLE);
    pair.server.receive(&scene.server, 1, &[scene.far.piece(0, 99)]);
    lost(pair, &scene, send(&[scene.near.piece(0, 100)]));
    pair.assert_nothing_moved(&scene);
    let request = send(&[scene.near.piece(0, 99)]);
    assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
    let received = pair.server.received(&scene.server);
    assert_eq!((received.id, received.byte_length), (1, 99));
}

pub(crate) fn an_unreliable_write_to_a_bad_key_or_range_is_lost_in_silence(pair: &mut Pair) {
    let scene = pair.scene(&UNRELIABLE);
    let other = pair.server.zone();
    let stranger = pair.server.register_again(scene.far, other, EVERYTHING);
    let reader = pair.server.register_again(scene.far, scene.server.zone, Access::REMOTE_READ);
    let wrong = [
        RemoteRange { key: Key(0xbad), ..scene.far.remote(0) },
        scene.far.remote(scene.far.registered - 7),
        stranger.remote(0),
        reader.remote(0),
    ];
    for remote in wrong {
        lost(pair, &scene, write(&[scene.near.piece(0, 8)], remote));
        pair.assert_nothing_moved(&scene);
    }
    arrives(pair, &scene);
}

pub(crate) fn an_unreliable_write_that_is_not_enabled_is_lost_in_silence(pair: &mut Pair) {
    let scene = pair.scene(&Options { access: Access::LOCAL_WRITE, ..UNRELIABLE });
    lost(pair, &scene, write(&[scene.near.piece(0, 8)], scene.far.remote(0)));
    pair.assert_nothing_moved(&scene);
    arrives(pair, &scene);
}

pub(crate) fn an_unreliable_connection_sends_and_writes(pair: &mut Pair) {
    let (client, server) = pair.connect(&UNRELIABLE);
    for length in [0, 1, 8192, 8193, 100_000] {
        let near = pair.client.memory(client.zone, length.max(1), EVERYTHING);
        let far = pair.server.memory(server.zone, 2 * length.max(1), EVERYTHING);
        let bytes = pattern(length, length);
        pair.client.write(&near, 0, &bytes);
        pair.server.receive(&server, length, &[far.piece(0, length)]);
        pair.server.receive(&server, length + 1, &[]);
        assert_eq!(
            pair.client.carry_out(&client, send(&[near.piece(0, length)]).immediate(3)),
            Status::Success
        );
        let received = pair.server.received(&server);
        assert_eq!((received.id, received.status, received.immediate), (length, Status::Success, Some(3)));
        let notice = write(&[near.piece(0, length)], far.remote(length)).immediate(4);
        assert_eq!(pair.client.carry_out(&client, notice), Status::Success);
        let received = pair.server.received(&server);
        assert_eq!((received.id, received.immediate), (length + 1, Some(4)));
        assert_eq!(u64::from(received.byte_length), length);
        pair.server.assert_holds(&far, &[&bytes[..], &bytes[..]].concat());
    }
}

pub(crate) fn a_datagram_has_40_bytes_before_it_and_says_who_sent_it(pair: &mut Pair) {
    let (client, server) = pair.connect(&DATAGRAM);
    let destination = pair.server_as_destination(&client, &server, DATAGRAM.q_key);
    for (length, pieces) in [(0, 1), (1, 1), (100, 3), (4096, 1), (4096, 7)] {
        let near = pair.client.memory(client.zone, 4096, EVERYTHING);
        let far = pair.server.memory(server.zone, 4096 + HEADER, EVERYTHING);
        let bytes = pattern(length, length);
        pair.client.write(&near, 0, &bytes);
        let part = length / pieces;
        let mut list: Vec<ScatterGather> = (0..pieces - 1).map(|i| near.piece(i * part, part)).collect();
        list.push(near.piece((pieces - 1) * part, length - (pieces - 1) * part));
        // The header does not end where a piece ends.
        let first = far.piece(0, HEADER - 1);
        pair.server.receive(&server, 5, &[first, far.piece(HEADER - 1, length + 1)]);
        assert_eq!(pair.client.carry_out(&client, send(&list).immediate(6).to(destination)), Status::Success);
        let received = pair.server.received(&server);
        assert_eq!((received.id, received.status), (5, Status::Success));
        assert_eq!(u64::from(received.byte_length), length + HEADER);
        assert_eq!((received.source_qp, received.immediate), (client.number, Some(6)));
        assert_eq!(received.has_global_header, destination.vector.global.is_some());
        assert_eq!(pair.server.read(&far, HEADER, length), bytes);
        if !received.has_global_header {
            assert_eq!(received.source_lid, destination.vector.destination_lid);
        }
        let image = [pair.server.read(&far, 0, HEADER), bytes].concat();
        pair.server.assert_holds(&far, &image);
    }
}

pub(crate) fn a_datagram_with_a_wrong_key_is_counted_and_lost(pair: &mut Pair) {
    let scene = pair.scene(&DATAGRAM);
    pair.server.receive(&scene.server, 1, &[scene.far.all()]);
    let before = pair.server.ask(Command::KeyViolations {})[0];
    for wrong in [0, DATAGRAM.q_key + 1, 0x7fff_ffff] {
        let destination = pair.server_as_destination(&scene.client, &scene.server, wrong);
        lost(pair, &scene, send(&[scene.near.piece(0, 8)]).to(destination));
    }
    pair.assert_nothing_moved(&scene);
    assert_eq!(pair.server.ask(Command::KeyViolations {})[0], before + 3);
    // With the top bit set the sender's own key counts, which is the same as the server's here.
    let destination = pair.server_as_destination(&scene.client, &scene.server, 0x8000_0000);
    let request = send(&[scene.near.piece(0, 8)]).to(destination);
    assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
    assert_eq!(pair.server.received(&scene.server).byte_length, 48);
}

pub(crate) fn a_datagram_without_room_or_receive_or_receiver_is_lost(pair: &mut Pair) {
    let scene = pair.scene(&DATAGRAM);
    let destination = pair.server_as_destination(&scene.client, &scene.server, DATAGRAM.q_key);
    let request = send(&[scene.near.piece(0, 60)]).to(destination);
    lost(pair, &scene, request.clone());
    pair.server.receive(&scene.server, 1, &[scene.far.piece(0, 99)]);
    lost(pair, &scene, request);
    pair.assert_nothing_moved(&scene);
    let mut nobody = destination;
    nobody.number = nonic_device::QpNumber(0xff_fffe);
    lost(pair, &scene, send(&[scene.near.piece(0, 8)]).to(nobody));
    let fits = send(&[scene.near.piece(0, 59)]).to(destination);
    assert_eq!(pair.client.carry_out(&scene.client, fits), Status::Success);
    let received = pair.server.received(&scene.server);
    assert_eq!((received.id, received.byte_length), (1, 99));
}

pub(crate) fn a_datagram_longer_than_the_mtu_is_refused_locally(pair: &mut Pair) {
    let (client, server) = pair.connect(&DATAGRAM);
    let destination = pair.server_as_destination(&client, &server, DATAGRAM.q_key);
    let near = pair.client.memory(client.zone, 5000, EVERYTHING);
    let far = pair.server.memory(server.zone, 5000, EVERYTHING);
    pair.server.receive(&server, 1, &[far.all()]);
    let long = send(&[near.piece(0, 4097)]).to(destination);
    assert_eq!(pair.client.carry_out(&client, long), Status::LocalLength);
    assert_eq!(pair.client.state(&client), QpState::SendQueueError);
    pair.settle();
    pair.server.assert_untouched(&far);
    pair.server.assert_quiet(server.receive_queue);
}

pub(crate) fn an_address_handle_of_another_zone_does_not_serve(pair: &mut Pair) {
    let scene = pair.scene(&DATAGRAM);
    pair.server.receive(&scene.server, 1, &[scene.far.all()]);
    let mut destination = pair.server_as_destination(&scene.client, &scene.server, DATAGRAM.q_key);
    destination.zone = pair.client.zone();
    let request = send(&[scene.near.piece(0, 8)]).to(destination);
    assert_eq!(pair.client.carry_out(&scene.client, request), Status::LocalQpOperation);
    pair.settle();
    pair.assert_nothing_moved(&scene);
}

pub(crate) fn an_address_handle_for_an_unknown_port_is_refused(pair: &mut Pair) {
    let zone = pair.client.zone();
    let path = pair.client.path();
    for port in [0, 2] {
        let vector = nonic_device::AddressVector { port, ..path };
        pair.client.refuses(Command::AddressHandle { zone, vector }, "Invalid");
    }
    pair.client.make(Command::AddressHandle { zone, vector: path });
}

/// A local failure stops the send queue alone, and RTS brings it back.
fn stops_only_sending(pair: &mut Pair, options: &Options) {
    let scene = pair.scene(options);
    let destination = pair.server_as_destination(&scene.client, &scene.server, options.q_key);
    let back = pair.client.path();
    let back = crate::command::Destination {
        vector: back,
        zone: scene.server.zone,
        number: scene.client.number,
        q_key: options.q_key,
    };
    let bad = ScatterGather { key: Key(0xbad), ..scene.near.piece(0, 8) };
    let good = send(&[scene.near.piece(0, 8)]).to(destination);
    let requests = vec![send(&[bad]).to(destination).id(1), good.clone().id(2)];
    pair.server.receive(&scene.server, 60, &[scene.far.all()]);
    pair.client.post_all(&scene.client, requests);
    let ended = pair.client.completions(scene.client.send_queue, 2);
    let seen: Vec<_> = ended.iter().map(|completion| (completion.id, completion.status)).collect();
    assert_eq!(seen, [(1, Status::LocalProtection), (2, Status::Flushed)]);
    assert_eq!(pair.client.state(&scene.client), QpState::SendQueueError);
    // What is posted now is flushed, and nothing of it arrives.
    assert_eq!(pair.client.carry_out(&scene.client, good.clone().id(3)), Status::Flushed);
    pair.settle();
    pair.assert_nothing_moved(&scene);
    // Receiving goes on.
    let sink = pair.client.memory(scene.client.zone, 128, EVERYTHING);
    pair.client.receive(&scene.client, 9, &[sink.all()]);
    let news = send(&[scene.far.piece(0, 4)]).to(back);
    assert_eq!(pair.server.carry_out(&scene.server, news), Status::Success);
    assert_eq!(pair.client.received(&scene.client).id, 9);
    // And sending begins again.
    pair.client.move_to(&scene.client, QpState::ReadyToSend);
    assert_eq!(pair.client.carry_out(&scene.client, good), Status::Success);
    let received = pair.server.received(&scene.server);
    assert_eq!((received.id, received.status), (60, Status::Success));
}

pub(crate) fn a_local_failure_of_an_unreliable_connection_stops_only_its_send_queue(pair: &mut Pair) {
    stops_only_sending(pair, &UNRELIABLE);
}

pub(crate) fn a_local_failure_of_a_datagram_queue_pair_stops_only_its_send_queue(pair: &mut Pair) {
    stops_only_sending(pair, &DATAGRAM);
}

pub(crate) fn a_datagram_queue_pair_hears_many_and_talks_to_many(pair: &mut Pair) {
    let (first, hub) = pair.connect(&DATAGRAM);
    let (second, other) = pair.connect(&DATAGRAM);
    let far = pair.server.memory(hub.zone, 512, EVERYTHING);
    let near =
        [pair.client.memory(first.zone, 8, EVERYTHING), pair.client.memory(second.zone, 8, EVERYTHING)];
    for round in 0..3 {
        for (client, near) in [(first, near[0]), (second, near[1])] {
            pair.server.receive(&hub, round, &[far.piece(0, 48)]);
            let to_hub = pair.server_as_destination(&client, &hub, DATAGRAM.q_key);
            assert_eq!(pair.client.carry_out(&client, send(&[near.all()]).to(to_hub)), Status::Success);
            assert_eq!(pair.server.received(&hub).source_qp, client.number);
        }
    }
    let elsewhere = pair.server.memory(other.zone, 64, EVERYTHING);
    pair.server.receive(&other, 1, &[elsewhere.piece(0, 48)]);
    let to_other = pair.server_as_destination(&first, &other, DATAGRAM.q_key);
    assert_eq!(pair.client.carry_out(&first, send(&[near[0].all()]).to(to_other)), Status::Success);
    assert_eq!(pair.server.received(&other).source_qp, first.number);
}
