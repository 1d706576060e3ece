//! What comes before what: sections 7.3 and 7.4, and the order a program that polls memory sees.

use nonic_device::{Key, Status};

use crate::command::{Command, Job};
use crate::memory::{EVERYTHING, pattern};
use crate::options::{Options, RELIABLE};
use crate::pair::Pair;
use crate::request::{fetch_add, read, send, write};

pub(crate) fn a_fenced_request_sees_what_the_reads_before_it_brought(pair: &mut Pair) {
    const LENGTH: u64 = 20_000;
    let (client, server) = pair.connect(&RELIABLE);
    let near = pair.client.memory(client.zone, LENGTH, EVERYTHING);
    let far = pair.server.memory(server.zone, LENGTH, EVERYTHING);
    let back = pair.server.memory(server.zone, LENGTH, EVERYTHING);
    for round in 0..10 {
        let bytes = pattern(round, LENGTH);
        pair.server.write(&far, 0, &bytes);
        pair.server.receive(&server, round, &[back.piece(0, LENGTH / 2)]);
        let half = LENGTH / 2;
        pair.client.post_all(
            &client,
            vec![
                read(&[near.all()], far.remote(0)),
                send(&[near.piece(0, half)]).fence(),
                write(&[near.piece(half, half)], back.remote(half)).fence(),
            ],
        );
        let ended = pair.client.completions(client.send_queue, 3);
        assert!(ended.iter().all(|completion| completion.status == Status::Success), "{ended:?}");
        pair.server.received(&server);
        pair.server.assert_holds(&back, &bytes);
    }
}

pub(crate) fn a_fenced_request_sees_the_result_of_the_atomic_before_it(pair: &mut Pair) {
    let (client, server) = pair.connect(&RELIABLE);
    let near = pair.client.memory(client.zone, 8, EVERYTHING);
    let far = pair.server.memory(server.zone, 16, EVERYTHING);
    pair.server.write(&far, 0, &[0; 16]);
    for round in 0..20u64 {
        let atomic = fetch_add(near.all(), far.remote(0), 1);
        let copy = write(&[near.all()], far.remote(8)).fence();
        pair.client.post_all(&client, vec![atomic, copy]);
        pair.client.completions(client.send_queue, 2);
        assert_eq!([pair.server.word(&far, 0), pair.server.word(&far, 8)], [round + 1, round]);
    }
}

pub(crate) fn a_read_sees_the_write_posted_before_it(pair: &mut Pair) {
    for length in [8, 100, 9000, 40_000] {
        let (client, server) = pair.connect(&RELIABLE);
        let near = pair.client.memory(client.zone, length, EVERYTHING);
        let back = pair.client.memory(client.zone, length, EVERYTHING);
        let far = pair.server.memory(server.zone, length, EVERYTHING);
        for round in 0..10 {
            let bytes = pattern(round, length);
            pair.client.write(&near, 0, &bytes);
            // A request in flight, so that not everything can run at once.
            let first = write(&[], nonic_device::RemoteRange { address: 0, key: Key(0) });
            let requests =
                vec![first, write(&[near.all()], far.remote(0)), read(&[back.all()], far.remote(0))];
            pair.client.post_all(&client, requests);
            pair.client.completions(client.send_queue, 3);
            pair.client.assert_holds(&back, &bytes);
        }
        pair.reset();
    }
}

pub(crate) fn a_message_arrives_after_the_writes_posted_before_it(pair: &mut Pair) {
    for length in [1, 64, 9000, 70_000] {
        let (client, server) = pair.connect(&RELIABLE);
        let near = pair.client.memory(client.zone, length, EVERYTHING);
        let far = pair.server.memory(server.zone, length, EVERYTHING);
        for round in 0..10 {
            let bytes = pattern(round, length);
            pair.client.write(&near, 0, &bytes);
            pair.server.receive(&server, round, &[]);
            let message = if round % 2 == 0 {
                send(&[])
            } else {
                write(&[], nonic_device::RemoteRange { address: 0, key: Key(0) }).immediate(1)
            };
            pair.client.post_all(&client, vec![write(&[near.all()], far.remote(0)), message]);
            assert_eq!(pair.server.received(&server).id, round);
            pair.server.assert_holds(&far, &bytes);
            pair.client.completions(client.send_queue, 2);
        }
        pair.reset();
    }
}

pub(crate) fn who_sees_the_last_byte_of_a_write_sees_all_of_it(pair: &mut Pair) {
    pair.only_concurrent();
    let (client, server) = pair.connect(&RELIABLE);
    let near = pair.client.memory(client.zone, 1 << 17, EVERYTHING);
    let far = pair.server.memory(server.zone, (1 << 17) + 64, EVERYTHING);
    let sizes =
        [1, 2, 7, 8, 9, 16, 63, 64, 65, 255, 256, 257, 1000, 4096, 8192, 8193, 20_000, 65_537, 1 << 17];
    let mut value = 0x10;
    for length in sizes {
        for offset in [0, 1, 5, 8, 63] {
            value = if value == 0x9F { 0x10 } else { value + 1 };
            pair.client.write(&near, 0, &vec![value; length as usize]);
            let (buffer, start) = (far.buffer, far.offset + offset);
            pair.server.background(Job::WatchRange { buffer, offset: start, length, value });
            let request = write(&[near.piece(0, length)], far.remote(offset));
            assert_eq!(pair.client.carry_out(&client, request), Status::Success);
            let stale = pair.server.join();
            assert_eq!(stale, 0, "{stale} of {length} bytes at offset {offset} were not there yet");
        }
    }
}

pub(crate) fn no_more_reads_are_under_way_than_both_sides_agreed(pair: &mut Pair) {
    for (reads, answers) in [(1, 1), (2, 2), (1, 16), (16, 16)] {
        let client = Options { max_rd_atomic: reads, ..RELIABLE };
        let server = Options { max_dest_rd_atomic: answers, ..RELIABLE };
        let (client, server) = pair.connect_both(&client, &server);
        let near = pair.client.memory(client.zone, 40 * 600, EVERYTHING);
        let far = pair.server.memory(server.zone, 40 * 600, EVERYTHING);
        let bytes = pattern(9, 40 * 600);
        pair.server.write(&far, 0, &bytes);
        let requests =
            (0..40).map(|id| read(&[near.piece(id * 600, 600)], far.remote(id * 600)).id(id)).collect();
        pair.client.post_all(&client, requests);
        let ended = pair.client.completions(client.send_queue, 40);
        assert!(
            ended.iter().zip(0..).all(|(read, id)| (read.id, read.status) == (id, Status::Success)),
            "{ended:?}"
        );
        pair.client.assert_holds(&near, &bytes);
        pair.reset();
    }
}

pub(crate) fn a_requester_that_may_have_no_reads_cannot_read(pair: &mut Pair) {
    for operation in 0..2 {
        let scene = pair.scene(&Options { max_rd_atomic: 0, ..RELIABLE });
        let (piece, far) = (scene.near.piece(0, 8), scene.far.remote(0));
        let request = [read(&[piece], far), fetch_add(piece, far, 1)][operation].clone();
        pair.assert_refused_here(&scene, request, Status::LocalQpOperation);
        pair.reset();
    }
}

pub(crate) fn sends_wait_in_a_drained_queue_until_it_runs_again(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    pair.client.move_to(&scene.client, nonic_device::QpState::SendQueueDrain);
    pair.client.post(&scene.client, write(&[scene.near.all()], scene.far.remote(0)));
    pair.client.assert_quiet(scene.client.send_queue);
    pair.assert_nothing_moved(&scene);
    // Receiving goes on.
    pair.client.receive(&scene.client, 4, &[scene.near.piece(0, 8)]);
    pair.server
        .must(Command::PostSend { pair: scene.server.pair, requests: vec![send(&[scene.far.piece(0, 8)])] });
    assert_eq!(pair.client.received(&scene.client).id, 4);
    pair.client.move_to(&scene.client, nonic_device::QpState::ReadyToSend);
    assert_eq!(pair.client.sent(&scene.client).status, Status::Success);
}
