//! What a requester makes of everything that a responder can say (IBTA vol. 1, 9.7.5, 9.7.6).

use std::time::Duration;

use nonic_protocol::{Key, Operation, Psn, QpNumber, QpState, SendFlags, Status};
use nonic_roce::{
    Aeth, Answer, Base, Body, Credits, FiveBits, Msn, Nak, Packet, Part, ReadPart, Request, Syndrome, Tail,
};

use crate::pair::{Pair, acknowledged, done, ours, refused, remote, reth};

pub(crate) const SEND: Operation = Operation::Send { immediate: None };

pub(crate) fn read(offset: u64) -> Operation {
    Operation::Read { remote: remote(offset) }
}

fn add() -> Operation {
    Operation::FetchAdd { remote: remote(0x8000), add: 1 }
}

#[test]
fn a_message_is_cut_into_packets_and_the_last_asks_for_an_answer() {
    let mut pair = Pair::reliable();
    let flags = SendFlags { solicited: true, ..SendFlags::default() };
    pair.post_with(
        Operation::Write { remote: remote(64), immediate: Some(3) },
        600,
        flags,
        reth(0, 0).remote.key,
    );
    let said: Vec<_> = pair.host.sent.drain(..).collect();
    let parts = [Part::First(reth(64, 600)), Part::Middle, Part::Last(Some(3))];
    for (at, ((packet, payload), part)) in said.iter().zip(parts).enumerate() {
        let last = at == 2;
        assert_eq!(packet.body, Body::Request(Request::Write(part)));
        assert_eq!((packet.base.psn, payload.len()), (ours(at as u32), if last { 88 } else { 256 }));
        assert_eq!((packet.base.ack_request, packet.base.solicited), (last, last));
    }
    assert_eq!(said.len(), 3);
    pair.post(SEND, 0);
    pair.post(SEND, 256);
    let only = Request::Send(Part::Only((), Tail::Plain));
    assert_eq!(pair.requests(), [(ours(3), only), (ours(4), only)]);
}

#[test]
fn a_long_message_asks_for_an_answer_on_its_way_and_no_more_than_a_window_is_under_way() {
    let mut pair = Pair::reliable();
    pair.post(SEND, 2000 * 256);
    let asks = asks(&mut pair);
    assert_eq!(asks.len(), 1024);
    assert!(are_asked_every(64, &asks));
    assert!(asks[1023], "the one that fills the window");
    assert_eq!(pair.hear(ours(63), done(0), &[]).len(), 64);
    // Congestion halves it.
    tell_of_congestion(&mut pair);
    assert_eq!(pair.hear(ours(63 + 511), done(0), &[]), []);
    // A whole window was acknowledged, so it is one larger.
    assert_eq!(pair.hear(ours(63 + 611), done(0), &[]).len(), 513 - (1024 - 611));
    assert_eq!(pair.connection.congestion_counts().notices_received, 1);
}

#[test]
fn answers_are_asked_for_more_often_once_the_window_is_smaller() {
    let mut pair = Pair::reliable();
    pair.post(SEND, 2000 * 256);
    pair.host.sent.clear();
    for _ in 0..3 {
        tell_of_congestion(&mut pair);
        pair.now += Duration::from_millis(1);
    }
    let answer = Body::Answer(done(0));
    let base = Base::new(QpNumber(8), ours(1023));
    pair.take_packet(Packet { base, body: answer }, &[]);
    let asks = asks(&mut pair);
    assert!((128..256).contains(&asks.len()) && are_asked_every(16, &asks[..128]), "{asks:?}");
}

/// Of each packet that was sent whether it asks for an answer.
fn asks(pair: &mut Pair) -> Vec<bool> {
    pair.host.sent.drain(..).map(|(packet, _)| packet.base.ack_request).collect()
}

fn are_asked_every(packets: usize, asks: &[bool]) -> bool {
    asks.chunks(packets).all(|chunk| chunk.iter().filter(|asks| **asks).count() == 1)
}

fn tell_of_congestion(pair: &mut Pair) {
    pair.take_packet(Packet { base: Base::new(QpNumber(8), Psn(0)), body: Body::Congestion }, &[]);
}

#[test]
fn one_acknowledgement_stands_for_all_before() {
    let mut pair = Pair::reliable();
    for length in [600, 0, 10, 300] {
        pair.post(SEND, length);
    }
    assert_eq!(pair.sent().len(), 7);
    pair.hear(ours(1), done(0), &[]);
    assert_eq!(pair.statuses(), []);
    pair.hear(ours(4), done(3), &[]);
    assert_eq!(pair.statuses(), [Status::Success; 3]);
    pair.hear(ours(6), done(4), &[]);
    assert_eq!(pair.statuses(), [Status::Success; 4]);
    assert_eq!(pair.connection.poll_timeout(), None);
}

#[test]
fn what_answers_nothing_changes_nothing() {
    let mut pair = Pair::reliable();
    pair.post(SEND, 600);
    pair.sent();
    let data = Answer::Read(ReadPart::Only(acknowledged(1)));
    let fatal = refused(Nak::RemoteAccess, 0);
    for (psn, answer) in [
        (ours(3), done(1)),
        (ours(0x40_0000), done(1)),
        (ours(0).before(), fatal),
        (ours(3), fatal),
        (ours(0), data),
        (ours(0), Answer::Atomic(acknowledged(1), 5)),
    ] {
        assert_eq!(pair.hear(psn, answer, &[]), [], "{answer:?}");
        assert_eq!((pair.statuses(), pair.connection.unanswered()), (vec![], ours(0)));
        assert_eq!(pair.state(), QpState::ReadyToSend);
    }
}

#[test]
fn bytes_of_a_read_are_placed_packet_by_packet() {
    let mut pair = Pair::reliable();
    pair.post(read(0x1000), 600);
    pair.post(SEND, 0);
    let asked =
        [(ours(0), Request::Read(reth(0x1000, 600))), (ours(3), Request::Send(Part::Only((), Tail::Plain)))];
    assert_eq!(pair.requests(), asked);
    pair.hear(ours(0), Answer::Read(ReadPart::First(acknowledged(1))), &[1; 256]);
    pair.hear(ours(1), Answer::Read(ReadPart::Middle), &[2; 256]);
    assert_eq!(pair.statuses(), []);
    pair.hear(ours(2), Answer::Read(ReadPart::Last(acknowledged(1))), &[3; 88]);
    assert_eq!(pair.statuses(), [Status::Success]);
    assert!(pair.host.memory[..600] == [[1; 256].as_slice(), &[2; 256], &[3; 88]].concat());
    assert_eq!(pair.host.memory[600], 0);
    pair.hear(ours(3), done(2), &[]);
    assert_eq!(pair.statuses().len(), 2);
}

#[test]
fn data_that_were_not_asked_for_fail_the_read() {
    let aeth = acknowledged(1);
    for (part, length) in [
        (ReadPart::Only(aeth), 256),
        (ReadPart::First(aeth), 255),
        (ReadPart::First(aeth), 260),
        (ReadPart::Middle, 256),
        (ReadPart::Last(aeth), 88),
    ] {
        let mut pair = Pair::reliable();
        pair.post(read(0), 600);
        pair.sent();
        pair.hear(ours(0), Answer::Read(part), &[1; 260][..length]);
        assert_eq!((pair.statuses(), pair.state()), (vec![Status::BadResponse], QpState::Error), "{part:?}");
        assert_eq!(pair.host.memory[0], 0);
    }
    let mut pair = Pair::reliable();
    pair.post(read(0), 300);
    pair.sent();
    pair.hear(ours(0), Answer::Read(ReadPart::First(aeth)), &[1; 256]);
    pair.hear(ours(1), Answer::Read(ReadPart::Last(aeth)), &[2; 45]);
    assert_eq!((pair.statuses(), pair.host.memory[256]), (vec![Status::BadResponse], 0));
}

#[test]
fn a_read_goes_on_where_its_answer_broke_off() {
    let mut pair = Pair::reliable();
    pair.post(read(0x1000), 600);
    pair.post(SEND, 0);
    pair.sent();
    pair.hear(ours(0), Answer::Read(ReadPart::First(acknowledged(1))), &[1; 256]);
    // The rest was lost: the last packet says so, and then the answer to the send, which is nothing new.
    let last = Answer::Read(ReadPart::Last(acknowledged(1)));
    let send = (ours(3), Request::Send(Part::Only((), Tail::Plain)));
    assert_eq!(pair.hear(ours(2), last, &[3; 88]), [(ours(1), Request::Read(reth(0x1100, 344))), send]);
    assert_eq!(pair.hear(ours(3), done(2), &[]), []);
    assert_eq!(pair.statuses(), []);
    // The new answer may begin in the middle, or anew.
    pair.hear(ours(1), Answer::Read(ReadPart::First(acknowledged(1))), &[2; 256]);
    pair.hear(ours(2), last, &[3; 88]);
    pair.hear(ours(3), done(2), &[]);
    assert_eq!(pair.statuses(), [Status::Success; 2]);
    assert!(pair.host.memory[..600] == [[1; 256].as_slice(), &[2; 256], &[3; 88]].concat());
}

#[test]
fn an_acknowledgement_is_no_answer_to_an_atomic() {
    let mut pair = Pair::reliable();
    pair.post(add(), 8);
    pair.sent();
    assert_eq!(pair.hear(ours(0), done(1), &[]).len(), 1, "the answer was lost: it is asked again");
    pair.hear(ours(0), Answer::Atomic(acknowledged(1), 77), &[]);
    assert_eq!(
        (pair.statuses(), &pair.host.memory[..8]),
        (vec![Status::Success], 77u64.to_ne_bytes().as_slice())
    );
}

#[test]
fn a_refusal_fails_its_request_and_flushes_those_behind() {
    for (nak, status) in [
        (Nak::InvalidRequest, Status::RemoteInvalidRequest),
        (Nak::RemoteAccess, Status::RemoteAccess),
        (Nak::RemoteOperation, Status::RemoteOperation),
        (Nak::Other, Status::RemoteOperation),
    ] {
        let mut pair = Pair::reliable();
        for length in [0, 600, 0] {
            pair.post(SEND, length);
        }
        pair.post_receive(5, 0, 4);
        pair.sent();
        pair.hear(ours(2), refused(nak, 1), &[]);
        assert_eq!(pair.statuses(), [Status::Success, status, Status::Flushed]);
        assert_eq!((pair.state(), pair.host.flushed), (QpState::Error, Some(true)));
        assert_eq!(pair.host.failed, [(5, Status::Flushed)]);
        assert_eq!((pair.requests(), pair.connection.poll_timeout()), (vec![], None));
    }
}

#[test]
fn no_more_reads_are_under_way_than_were_agreed_on_and_a_fence_waits_for_them() {
    let mut pair = Pair::reliable();
    for operation in [read(0), add(), read(0)] {
        pair.post(operation, 8);
    }
    pair.post_with(SEND, 0, SendFlags { fence: true, ..SendFlags::default() }, Key(0));
    assert_eq!(pair.sent(), [ours(0), ours(1)]);
    let data = Answer::Read(ReadPart::Only(acknowledged(1)));
    assert_eq!(pair.hear(ours(0), data, &[1; 8]), [(ours(2), Request::Read(reth(0, 8)))]);
    pair.hear(ours(1), Answer::Atomic(acknowledged(2), 0), &[]);
    assert_eq!(pair.requests(), [], "the fence waits for the last of them");
    assert_eq!(pair.hear(ours(2), data, &[1; 8]).len(), 1);
    let mut none = Pair::reliable();
    none.connection.attributes.max_rd_atomic = 0;
    none.post(read(0), 8);
    assert_eq!((none.statuses(), none.requests()), (vec![Status::LocalQpOperation], vec![]));
}

#[test]
fn a_fenced_read_waits_its_turn_like_any_other() {
    let mut pair = Pair::reliable();
    pair.connection.attributes.max_rd_atomic = 1;
    pair.post(read(0), 8);
    pair.post_with(read(0), 8, SendFlags { fence: true, ..SendFlags::default() }, reth(0, 0).remote.key);
    assert_eq!(pair.sent(), [ours(0)]);
}

#[test]
fn a_peer_that_counts_its_receives_gets_no_more_messages_than_it_has() {
    let mut pair = Pair::reliable();
    pair.post(SEND, 0);
    pair.sent();
    let syndrome = Syndrome::Acknowledge(Credits::from_code(FiveBits::masked(0)));
    let none_left = Answer::Acknowledge(Aeth { syndrome, msn: Msn::masked(1) });
    pair.hear(ours(0), none_left, &[]);
    for operation in [SEND, SEND, Operation::Write { remote: remote(0), immediate: None }] {
        pair.post(operation, 0);
    }
    assert_eq!(pair.sent(), [ours(1)], "one more, which asks");
    // New credits come with the same number.
    assert_eq!(pair.hear(ours(0), done(1), &[]).len(), 2);
}

#[test]
fn a_local_key_that_is_wrong_fails_its_request_when_those_before_have_ended() {
    let mut pair = Pair::reliable();
    pair.post(SEND, 4);
    pair.post_with(SEND, 4, SendFlags::default(), Key(1));
    pair.post(SEND, 4);
    assert_eq!((pair.sent(), pair.statuses()), (vec![ours(0)], vec![]));
    pair.hear(ours(0), done(1), &[]);
    assert_eq!(pair.statuses(), [Status::Success, Status::LocalProtection, Status::Flushed]);
    // And one that takes the result.
    let mut pair = Pair::reliable();
    pair.post_with(read(0), 4, SendFlags::default(), Key(1));
    pair.sent();
    pair.hear(ours(0), Answer::Read(ReadPart::Only(acknowledged(1))), &[1; 4]);
    assert_eq!((pair.statuses(), pair.state()), (vec![Status::LocalProtection], QpState::Error));
}

#[test]
fn an_atomic_without_a_place_for_its_result_changes_nothing() {
    let mut pair = Pair::reliable();
    pair.post_with(add(), 8, SendFlags::default(), Key(1));
    let [(_, Request::Atomic(atomic))] = pair.requests()[..] else { panic!("an atomic is asked for") };
    assert_eq!(atomic.change, nonic_protocol::AtomicChange::FetchAdd { add: 0 });
    pair.hear(ours(0), Answer::Atomic(acknowledged(1), 0), &[]);
    assert_eq!(pair.statuses(), [Status::LocalProtection]);
}

#[test]
fn a_message_of_a_wrong_length_is_not_begun() {
    for (operation, length) in [(SEND, (1 << 31) + 1), (add(), 4), (add(), 16)] {
        let mut pair = Pair::reliable();
        pair.post(operation, length);
        assert_eq!((pair.statuses(), pair.requests()), (vec![Status::LocalLength], vec![]));
    }
}
