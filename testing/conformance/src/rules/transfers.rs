//! Bytes of every size, in every cut, arrive as they were sent: sections 7.3 and 7.4.

use nonic_device::{CompletionOpcode, Key, RemoteRange, ScatterGather, Status};

use crate::memory::{EVERYTHING, Memory, UNTOUCHED, pattern};
use crate::options::RELIABLE;
use crate::pair::{Pair, Scene};
use crate::request::{read, send, write};

/// Sizes around everything that changes: nothing, a datagram's header, a fragment of the ring, the size from which a
/// send is pulled, and more than fits the ring.
const SIZES: [u64; 13] = [0, 1, 40, 41, 4095, 4096, 8191, 8192, 8193, 16383, 16384, 65536, (1 << 20) + 1];

/// Cuts `length` bytes into `count` pieces of different lengths, with holes of an odd size between them.
fn cut(memory: &Memory, length: u64, count: u64) -> Vec<ScatterGather> {
    let mut at = 0;
    let mut left = length;
    (0..count)
        .map(|place| {
            let rest = count - place;
            let take = if rest == 1 { left } else { (left / rest + place % 3).min(left) };
            let piece = memory.piece(at, take);
            at += take + HOLE;
            left -= take;
            piece
        })
        .collect()
}

const HOLE: u64 = 3;

fn room(length: u64, count: u64) -> u64 {
    length + HOLE * count
}

/// What a memory of `room` bytes looks like with `bytes` in the pieces and nothing elsewhere.
fn image(memory: &Memory, pieces: &[ScatterGather], bytes: &[u8]) -> Vec<u8> {
    let mut image = vec![UNTOUCHED; memory.length as usize];
    let mut rest = bytes;
    for piece in pieces {
        let (now, later) = rest.split_at(rest.len().min(piece.length as usize));
        image[(piece.address - memory.base) as usize..][..now.len()].copy_from_slice(now);
        rest = later;
    }
    assert!(rest.is_empty());
    image
}

fn cuts(length: u64) -> &'static [(u64, u64)] {
    if length > 100_000 { &[(1, 1), (32, 31)] } else { &[(1, 1), (1, 2), (3, 1), (2, 32), (32, 5), (32, 32)] }
}

pub(crate) fn a_send_of_any_size_and_cut_arrives_byte_by_byte(pair: &mut Pair) {
    for length in SIZES {
        for (out, into) in cuts(length).iter().copied() {
            let (client, server) = pair.connect(&RELIABLE);
            let near = pair.client.memory(client.zone, room(length, out), EVERYTHING);
            let far = pair.server.memory(server.zone, room(length, into) + 64, EVERYTHING);
            let bytes = pattern(length + out, length);
            let pieces = cut(&near, length, out);
            let source = image(&near, &pieces, &bytes);
            pair.client.write(&near, 0, &source);
            // The receive is longer than the message.
            let mut targets = cut(&far, length, into);
            targets.last_mut().expect("a piece").length += 60;
            pair.server.receive(&server, length, &targets);
            assert_eq!(pair.client.carry_out(&client, send(&pieces).immediate(0x0102_0304)), Status::Success);
            let received = pair.server.received(&server);
            assert_eq!((received.id, received.status), (length, Status::Success));
            assert_eq!((received.opcode, received.immediate), (CompletionOpcode::Receive, Some(0x0102_0304)));
            assert_eq!(u64::from(received.byte_length), length);
            pair.server.assert_holds(&far, &image(&far, &targets, &bytes));
            pair.client.assert_holds(&near, &source);
            pair.reset();
        }
    }
}

pub(crate) fn a_write_of_any_size_cut_and_alignment_arrives_byte_by_byte(pair: &mut Pair) {
    one_sided(pair, |pair, client, near, far, length, pieces, offset| {
        let bytes = pattern(length, length);
        pair.client.write(near, 0, &image(near, pieces, &bytes));
        assert_eq!(pair.client.carry_out(client, write(pieces, far.remote(offset))), Status::Success);
        let mut expected = vec![UNTOUCHED; far.length as usize];
        expected[offset as usize..][..length as usize].copy_from_slice(&bytes);
        pair.server.assert_holds(far, &expected);
    });
}

pub(crate) fn a_read_of_any_size_cut_and_alignment_arrives_byte_by_byte(pair: &mut Pair) {
    one_sided(pair, |pair, client, near, far, length, pieces, offset| {
        let bytes = pattern(length + 1, length);
        pair.server.write(far, offset, &bytes);
        let completion = {
            pair.client.post(client, read(pieces, far.remote(offset)));
            pair.client.sent(client)
        };
        assert_eq!((completion.status, completion.opcode), (Status::Success, CompletionOpcode::RdmaRead));
        assert_eq!(u64::from(completion.byte_length), length);
        pair.client.assert_holds(near, &image(near, pieces, &bytes));
    });
}

type Trial = fn(&mut Pair, &crate::options::End, &Memory, &Memory, u64, &[ScatterGather], u64);

fn one_sided(pair: &mut Pair, trial: Trial) {
    for length in SIZES {
        for (pieces, offset) in cuts(length).iter().map(|(out, _)| *out).zip([0, 1, 3, 8, 4095, 7]) {
            let (client, server) = pair.connect(&RELIABLE);
            let near = pair.client.memory(client.zone, room(length, pieces), EVERYTHING);
            let far = pair.server.memory(server.zone, length + 4200, EVERYTHING);
            let pieces = cut(&near, length, pieces);
            trial(pair, &client, &near, &far, length, &pieces, offset);
            pair.reset();
        }
    }
}

pub(crate) fn a_write_with_immediate_uses_a_receive_and_puts_nothing_into_it(pair: &mut Pair) {
    for length in [0, 1, 100, 8192, 8193, 100_000] {
        let scene = pair.scene(&RELIABLE);
        let near = pair.client.memory(scene.client.zone, length.max(1), EVERYTHING);
        let far = pair.server.memory(scene.server.zone, length.max(1), EVERYTHING);
        let bytes = pattern(length, length);
        pair.client.write(&near, 0, &bytes);
        pair.server.receive(&scene.server, 31, &[scene.far.all()]);
        let remote = if length == 0 { RemoteRange { address: 1, key: Key(1) } } else { far.remote(0) };
        let request = write(&[near.piece(0, length)], remote).immediate(0xfeed_beef);
        assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
        let received = pair.server.received(&scene.server);
        assert_eq!((received.id, received.status), (31, Status::Success));
        assert_eq!(received.opcode, CompletionOpcode::ReceiveWriteWithImmediate);
        assert_eq!((received.immediate, u64::from(received.byte_length)), (Some(0xfeed_beef), length));
        pair.server.assert_holds(&far, &bytes);
        pair.server.assert_untouched(&scene.far);
        pair.reset();
    }
}

pub(crate) fn a_stream_of_messages_longer_than_the_ring_arrives_whole_and_in_order(pair: &mut Pair) {
    const LENGTH: u64 = 30_000;
    const COUNT: u64 = 60;
    let (client, server) = pair.connect(&RELIABLE);
    let near = pair.client.memory(client.zone, LENGTH + COUNT, EVERYTHING);
    let far = pair.server.memory(server.zone, LENGTH * COUNT, EVERYTHING);
    let bytes = pattern(8, LENGTH + COUNT);
    pair.client.write(&near, 0, &bytes);
    for id in 0..COUNT {
        pair.server.receive(&server, id, &[far.piece(id * LENGTH, LENGTH - id)]);
    }
    let requests = (0..COUNT).map(|id| send(&[near.piece(id, LENGTH - id)]).id(id)).collect();
    pair.client.post_all(&client, requests);
    let sent = pair.client.completions(client.send_queue, COUNT as u32);
    assert!(
        sent.iter().zip(0..).all(|(sent, id)| (sent.id, sent.status) == (id, Status::Success)),
        "{sent:?}"
    );
    let received = pair.server.completions(server.receive_queue, COUNT as u32);
    for (received, id) in received.iter().zip(0..) {
        assert_eq!((received.id, u64::from(received.byte_length)), (id, LENGTH - id));
    }
    let mut expected = vec![UNTOUCHED; (LENGTH * COUNT) as usize];
    for id in 0..COUNT {
        let part = &bytes[id as usize..LENGTH as usize];
        expected[(id * LENGTH) as usize..][..part.len()].copy_from_slice(part);
    }
    pair.server.assert_holds(&far, &expected);
}

pub(crate) fn both_sides_send_and_write_at_the_same_time(pair: &mut Pair) {
    const COUNT: u64 = 40;
    const LENGTH: u64 = 20_000;
    let (client, server) = pair.connect(&RELIABLE);
    let near = pair.client.memory(client.zone, 3 * LENGTH, EVERYTHING);
    let far = pair.server.memory(server.zone, 3 * LENGTH, EVERYTHING);
    let (mine, theirs) = (pattern(1, LENGTH), pattern(2, LENGTH));
    pair.client.write(&near, 0, &mine);
    pair.server.write(&far, 0, &theirs);
    for id in 0..COUNT / 2 {
        pair.client.receive(&client, id, &[near.piece(LENGTH, LENGTH)]);
        pair.server.receive(&server, id, &[far.piece(LENGTH, LENGTH)]);
    }
    let requests = |from: &Memory, to: &Memory| {
        (0..COUNT)
            .map(|id| match id % 2 {
                0 => send(&[from.piece(0, LENGTH)]),
                _ => write(&[from.piece(0, LENGTH)], to.remote(2 * LENGTH)),
            })
            .collect::<Vec<_>>()
    };
    pair.server.post_all(&server, requests(&far, &near));
    pair.client.post_all(&client, requests(&near, &far));
    assert!(
        pair.client
            .completions(client.send_queue, COUNT as u32)
            .iter()
            .all(|sent| sent.status == Status::Success)
    );
    assert!(
        pair.server
            .completions(server.send_queue, COUNT as u32)
            .iter()
            .all(|sent| sent.status == Status::Success)
    );
    pair.client.completions(client.receive_queue, (COUNT / 2) as u32);
    pair.server.completions(server.receive_queue, (COUNT / 2) as u32);
    pair.client.assert_holds(&near, &[&mine[..], &theirs[..], &theirs[..]].concat());
    pair.server.assert_holds(&far, &[&theirs[..], &mine[..], &mine[..]].concat());
}

pub(crate) fn a_side_talks_to_itself(pair: &mut Pair) {
    let (client, server) = (pair.client.end(&RELIABLE), pair.client.end(&RELIABLE));
    pair.client.connect_to_itself(&client, &server, &RELIABLE);
    let near = pair.client.memory(client.zone, Scene::LENGTH, EVERYTHING);
    let far = pair.client.memory(server.zone, Scene::LENGTH, EVERYTHING);
    pair.client.write(&near, 0, &Scene::bytes());
    pair.client.receive(&server, 1, &[far.piece(0, 100)]);
    assert_eq!(pair.client.carry_out(&client, send(&[near.piece(0, 100)])), Status::Success);
    assert_eq!(pair.client.received(&server).byte_length, 100);
    let rest = write(&[near.piece(100, 156)], far.remote(100));
    assert_eq!(pair.client.carry_out(&client, rest), Status::Success);
    pair.client.assert_holds(&far, &Scene::bytes());
}
