//! Long reads, which are asked for piece by piece.

use nonic_protocol::{Operation, Psn, SendFlags, Status};
use nonic_roce::{Answer, ReadPart, Request};
use nonic_simulator::wire::KEY;

use crate::pair::{MTU, Pair, acknowledged, done, ours, reth, send_only};
use crate::requester::{SEND, read};

/// Packets of a piece, of which a connection asks for so many bytes.
const PIECE: u32 = PIECE_BYTES / MTU;
const PIECE_BYTES: u32 = 128 << 10;
/// Three pieces, and a bit of one.
const LENGTH: u32 = 3 * PIECE_BYTES + 1000;

fn byte(packet: u32) -> u8 {
    (packet % 251) as u8
}

/// The question for what begins at a packet, up to the end of its piece.
fn question(packet: u32) -> (Psn, Request) {
    let (from, end) = (packet * MTU, (packet / PIECE + 1) * PIECE_BYTES);
    (ours(packet), Request::Read(reth(from.into(), end.min(LENGTH) - from)))
}

/// A packet of the answer comes; what is asked for then.
fn comes(pair: &mut Pair, packet: u32) -> Vec<(Psn, Request)> {
    let aeth = acknowledged(packet / PIECE + 1);
    let count = (LENGTH - packet * MTU).min(MTU);
    let is_last = count < MTU || (packet + 1).is_multiple_of(PIECE);
    let part = match (packet.is_multiple_of(PIECE), is_last) {
        (_, true) => ReadPart::Last(aeth),
        (true, false) => ReadPart::First(aeth),
        (false, false) => ReadPart::Middle,
    };
    pair.hear(ours(packet), Answer::Read(part), &vec![byte(packet); count as usize])
}

/// Packets from one up to another come; what is asked for meanwhile.
fn come(pair: &mut Pair, packets: std::ops::Range<u32>) -> Vec<(Psn, Request)> {
    packets.flat_map(|packet| comes(pair, packet)).collect()
}

fn is_whole(pair: &Pair) -> bool {
    let packets = pair.host.memory[..LENGTH as usize].chunks(MTU as usize);
    packets.zip(0..).all(|(bytes, packet)| bytes.iter().all(|found| *found == byte(packet)))
}

fn begun() -> Pair {
    let mut pair = Pair::reliable();
    pair.post(read(0), LENGTH);
    pair.post(SEND, 0);
    assert_eq!(pair.requests(), [question(0)], "the rest waits, and so does what is behind it");
    pair
}

#[test]
fn where_there_is_little_room_one_piece_comes_at_a_time() {
    let mut pair = begun();
    for piece in 0..2 {
        let first = piece * PIECE;
        assert_eq!(come(&mut pair, first..first + PIECE - 1), []);
        assert_eq!(comes(&mut pair, first + PIECE - 1), [question(first + PIECE)]);
    }
    let behind = (ours(3 * PIECE + 4), send_only());
    assert_eq!(come(&mut pair, 2 * PIECE..3 * PIECE), [question(3 * PIECE), behind]);
    assert_eq!(pair.statuses(), []);
    come(&mut pair, 3 * PIECE..3 * PIECE + 4);
    pair.hear(ours(3 * PIECE + 4), done(5), &[]);
    assert!(pair.statuses() == [Status::Success; 2] && is_whole(&pair));
}

#[test]
fn with_room_the_next_piece_is_asked_for_while_one_comes_as_far_as_was_agreed_on() {
    let mut pair = begun();
    pair.connection.set_little_room(false);
    // Two reads may be under way.
    assert_eq!(comes(&mut pair, 0), [question(PIECE)]);
    assert_eq!(come(&mut pair, 1..PIECE - 1), []);
    assert_eq!(comes(&mut pair, PIECE - 1), [question(2 * PIECE)]);
    let behind = (ours(3 * PIECE + 4), send_only());
    assert_eq!(come(&mut pair, PIECE..2 * PIECE), [question(3 * PIECE), behind]);
    come(&mut pair, 2 * PIECE..3 * PIECE + 4);
    pair.hear(ours(3 * PIECE + 4), done(5), &[]);
    assert!(pair.statuses() == [Status::Success; 2] && is_whole(&pair));
}

#[test]
fn what_was_lost_is_asked_for_again_up_to_the_end_of_its_piece() {
    let mut pair = begun();
    pair.connection.set_little_room(false);
    assert_eq!(comes(&mut pair, 0), [question(PIECE)]);
    // The rest of the first piece is lost.
    assert_eq!(comes(&mut pair, PIECE), [question(1), question(PIECE)]);
    assert_eq!(come(&mut pair, PIECE + 1..2 * PIECE), [], "it was on its way already");
    assert_eq!(come(&mut pair, 1..PIECE), [], "fewer packets are under way because some were lost");
    // Of what was asked for nothing comes: after a while one piece shows whether it was lost.
    assert_eq!(pair.wait(), [ours(PIECE)]);
    come(&mut pair, PIECE..3 * PIECE + 4);
    pair.hear(ours(3 * PIECE + 4), done(5), &[]);
    assert!(pair.statuses() == [Status::Success; 2] && is_whole(&pair));
}

#[test]
fn a_fence_waits_for_the_last_piece() {
    let mut pair = Pair::reliable();
    pair.post(read(0), LENGTH);
    let fence = SendFlags { fence: true, ..SendFlags::default() };
    pair.post_with(Operation::Send { immediate: None }, 0, fence, KEY);
    pair.sent();
    assert_eq!(come(&mut pair, 0..3 * PIECE + 3).len(), 3);
    assert_eq!(comes(&mut pair, 3 * PIECE + 3), [(ours(3 * PIECE + 4), send_only())]);
}
