//! What a responder does with requests that are right, and with those that come again, too early or in vain (IBTA vol. 1, 9.7.4,
//! 9.7.5).

use nonic_protocol::{
    AtomicChange, AtomicRequest, Event, Key, Operation, Psn, QpNumber, QpState, QpType, RemoteRange,
    SrqNumber,
};
use nonic_roce::{
    Aeth, Answer, Base, Body, FiveBits, Msn, Nak, Packet, Part, ReadPart, Request, Reth, Syndrome, Tail,
    UnreliableRequest,
};

use crate::pair::{MTU, Pair, acknowledged, done, refused, remote, reth, send_only, theirs};

pub(crate) const FULL: [u8; MTU as usize] = [7; MTU as usize];

pub(crate) fn add(offset: u64, add: u64) -> Request {
    Request::Atomic(AtomicRequest { remote: remote(offset), change: AtomicChange::FetchAdd { add } })
}

pub(crate) fn write(offset: u64, length: u32) -> Request {
    Request::Write(Part::Only(reth(offset, length), None))
}

pub(crate) fn read(offset: u64, length: u32) -> Request {
    Request::Read(reth(offset, length))
}

fn not_ready(msn: u32) -> Answer {
    Answer::Acknowledge(Aeth { syndrome: Syndrome::NotReady(FiveBits::masked(12)), msn: Msn::masked(msn) })
}

#[test]
fn what_is_not_for_this_queue_pair_is_met_with_silence() {
    let mut pair = Pair::reliable();
    let base = Base { ack_request: true, ..Base::new(QpNumber(8), theirs(0)) };
    let wrong = [
        Packet { base: Base { p_key: 0x1234, ..base }, body: Body::Request(write(0, 4)) },
        Packet { base, body: Body::ExtendedRequest(SrqNumber(1), write(0, 4)) },
        Packet { base, body: Body::Unreliable(UnreliableRequest::Send(Part::Only((), None))) },
    ];
    for packet in wrong {
        pair.take_packet(packet, &[1; 4]);
    }
    let mut low = Pair::reliable();
    low.connection.attributes.state = QpState::Init;
    low.take_packet(Packet { base, body: Body::Request(write(0, 4)) }, &[1; 4]);
    for pair in [&mut pair, &mut low] {
        assert_eq!(pair.answers(), []);
        assert_eq!(pair.host.memory[..4], [0; 4]);
    }
    // What may differ is not looked at.
    for (index, base) in [
        Base { p_key: 0x7fff, ..base },
        Base { migrated: false, forward_congestion: true, backward_congestion: true, ..base },
    ]
    .into_iter()
    .enumerate()
    {
        let base = Base { psn: theirs(index as u32), ..base };
        pair.take_packet(Packet { base, body: Body::Request(write(0, 4)) }, &[1; 4]);
        assert_eq!(pair.answers(), [(base.psn, done(index as u32 + 1))]);
    }
}

#[test]
fn of_a_gap_the_peer_is_told_once() {
    let mut pair = Pair::reliable();
    assert_eq!(pair.take(theirs(1), write(0, 4), &[1; 4]), [(theirs(0), refused(Nak::Sequence, 0))]);
    assert_eq!(pair.take(theirs(2), write(0, 4), &[1; 4]), []);
    assert_eq!(pair.host.memory[..4], [0; 4]);
    assert_eq!(pair.take(theirs(0), write(0, 4), &[1; 4]), [(theirs(0), done(1))]);
    assert_eq!(pair.take(theirs(2), write(0, 4), &[2; 4]), [(theirs(1), refused(Nak::Sequence, 1))]);
    assert_eq!((pair.host.memory[0], pair.state()), (1, QpState::ReadyToSend));
}

#[test]
fn a_peer_that_went_back_and_lost_the_same_packet_again_is_told_again() {
    let mut pair = Pair::reliable();
    let gap = [(theirs(0), refused(Nak::Sequence, 0))];
    assert_eq!(pair.take(theirs(1), write(0, 4), &[1; 4]), gap);
    for ahead in 2..5 {
        assert_eq!(pair.take(theirs(ahead), write(0, 4), &[1; 4]), [], "what was under way when it was told");
    }
    assert_eq!(pair.take(theirs(1), write(0, 4), &[1; 4]), gap);
    assert_eq!(pair.take(theirs(2), write(0, 4), &[1; 4]), []);
    assert_eq!(pair.take(theirs(0), write(0, 4), &[1; 4]), [(theirs(0), done(1))]);
    // A gap further on is another one.
    assert_eq!(pair.take(theirs(2), write(0, 4), &[2; 4]), [(theirs(1), refused(Nak::Sequence, 1))]);
    assert_eq!(pair.host.memory[..4], [1; 4]);
}

#[test]
fn an_acknowledgement_goes_behind_the_packet_that_goes_with_it() {
    let mut pair = Pair::reliable();
    let base = Base { ack_request: true, ..Base::new(QpNumber(8), theirs(0)) };
    pair.connection.handle(
        pair.now,
        &mut pair.host,
        &Packet { base, body: Body::Request(write(0, 4)) },
        &[1; 4],
    );
    assert!(pair.host.sent.is_empty(), "nothing is said before it is asked for");
    pair.post(Operation::Send { immediate: None }, 4);
    let kinds: Vec<_> =
        pair.host.sent.drain(..).map(|(packet, _)| matches!(packet.body, Body::Answer(_))).collect();
    assert_eq!(kinds, [false, true]);
}

#[test]
fn a_message_that_comes_again_is_acknowledged_and_not_carried_out() {
    let mut pair = Pair::reliable();
    pair.take(theirs(0), write(0, 4), &[1; 4]);
    pair.take(theirs(1), write(8, 4), &[1; 4]);
    pair.host.memory.fill(0);
    let base = Base::new(QpNumber(8), theirs(0));
    pair.take_packet(Packet { base, body: Body::Request(write(0, 4)) }, &[1; 4]);
    assert_eq!(pair.answers(), [(theirs(1), done(2))], "although it did not ask");
    // Also one from the far half of the numbers.
    assert_eq!(pair.take(theirs(0x90_0000), write(0, 4), &[1; 4]), [(theirs(1), done(2))]);
    assert!(pair.host.memory.iter().all(|byte| *byte == 0));
}

#[test]
fn a_read_is_answered_again_from_any_of_its_packets_on() {
    let mut pair = Pair::reliable();
    pair.host.memory.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 256) as u8);
    let first = pair.take(theirs(0), read(0, 600), &[]);
    let parts = [ReadPart::First(acknowledged(1)), ReadPart::Middle, ReadPart::Last(acknowledged(1))];
    let all: Vec<_> = parts.iter().zip(0..).map(|(part, at)| (theirs(at), Answer::Read(*part))).collect();
    assert_eq!(first, all);
    // A part, from the second packet on.
    pair.take_packet(
        Packet { base: Base::new(QpNumber(8), theirs(1)), body: Body::Request(read(256, 344)) },
        &[],
    );
    let again: Vec<_> = pair.host.sent.drain(..).map(|(packet, bytes)| (packet.base.psn, bytes)).collect();
    assert_eq!(again, [(theirs(1), vec![1; 256]), (theirs(2), vec![2; 88])]);
    // More than was asked for, other memory, another key, another number: silence.
    let other_key = Request::Read(Reth { remote: RemoteRange { key: Key(1), ..remote(256) }, length: 100 });
    for (at, request) in [(1, read(256, 345)), (1, read(0, 100)), (1, other_key), (0, read(256, 100))] {
        assert_eq!(pair.take(theirs(at), request, &[]), [], "{request:?}");
    }
    // The next request has the number behind the answer.
    assert_eq!(pair.take(theirs(3), write(0, 4), &[1; 4]), [(theirs(3), done(2))]);
    assert_eq!(pair.state(), QpState::ReadyToSend);
}

#[test]
fn an_atomic_that_comes_again_is_answered_with_what_it_found() {
    let mut pair = Pair::reliable();
    let answer = |old, msn| Answer::Atomic(acknowledged(msn), old);
    for index in 0..3 {
        assert_eq!(
            pair.take(theirs(index), add(0, 5), &[]),
            [(theirs(index), answer(u64::from(index) * 5, index + 1))]
        );
    }
    assert_eq!(pair.take(theirs(1), add(0, 5), &[]), [(theirs(1), answer(5, 3))]);
    assert_eq!(pair.take(theirs(2), add(0, 5), &[]), [(theirs(2), answer(10, 3))]);
    assert_eq!(pair.take(theirs(0), add(0, 5), &[]), [], "of two that may be under way two are kept");
    assert_eq!(pair.host.memory[..8], 15u64.to_ne_bytes());
}

#[test]
fn of_no_bytes_the_key_is_not_looked_at() {
    let mut pair = Pair::reliable();
    let nowhere = Reth { remote: RemoteRange { address: 3, key: Key(1) }, length: 0 };
    assert_eq!(pair.take(theirs(0), Request::Write(Part::Only(nowhere, None)), &[]), [(theirs(0), done(1))]);
    let only = Answer::Read(ReadPart::Only(acknowledged(2)));
    assert_eq!(pair.take(theirs(1), Request::Read(nowhere), &[]), [(theirs(1), only)]);
}

#[test]
fn without_a_receive_the_peer_is_to_come_again() {
    let mut pair = Pair::reliable();
    assert_eq!(pair.take(theirs(0), send_only(), &[1; 4]), [(theirs(0), not_ready(0))]);
    // What was sent behind it says nothing new; what comes again is judged again.
    assert_eq!(pair.take(theirs(1), send_only(), &[1; 4]), []);
    assert_eq!(pair.take(theirs(0), send_only(), &[1; 4]), [(theirs(0), not_ready(0))]);
    // It may be another request.
    assert_eq!(pair.take(theirs(0), write(0, 4), &[1; 4]), [(theirs(0), done(1))]);
    pair.post_receive(1, 0x4000, 4);
    assert_eq!(pair.take(theirs(1), send_only(), &[9; 4]), [(theirs(1), done(2))]);
    assert_eq!((pair.host.filled.len(), &pair.host.memory[0x4000..0x4004]), (1, [9; 4].as_slice()));
}

#[test]
fn the_last_packet_of_a_write_with_immediate_data_waits_for_a_receive() {
    let mut pair = Pair::reliable();
    pair.take(theirs(0), Request::Write(Part::First(reth(0, 260))), &FULL);
    let last = Request::Write(Part::Last(Some(5)));
    assert_eq!(pair.take(theirs(1), last, &[8; 4]), [(theirs(1), not_ready(0))]);
    assert_eq!(pair.host.memory[256], 0, "nothing of it was done");
    pair.post_receive(1, 0x4000, 0);
    assert_eq!(pair.take(theirs(1), last, &[8; 4]), [(theirs(1), done(1))]);
    let (id, arrived) = pair.host.filled[0];
    assert_eq!((id, arrived.immediate, arrived.total), (1, Some(5), 260));
    assert_eq!(pair.host.memory[256..260], [8; 4]);
}

#[test]
fn an_answer_is_given_when_it_is_asked_for_and_once_for_a_batch() {
    let mut pair = Pair::reliable();
    let base = Base::new(QpNumber(8), theirs(0));
    pair.take_packet(Packet { base, body: Body::Request(write(0, 4)) }, &[1; 4]);
    assert_eq!(pair.answers(), []);
    for index in 1..4 {
        let base = Base { ack_request: true, ..Base::new(QpNumber(8), theirs(index)) };
        let packet = Packet { base, body: Body::Request(write(0, 4)) };
        pair.connection.handle(pair.now, &mut pair.host, &packet, &[1; 4]);
    }
    assert!(pair.connection.owes());
    pair.connection.pump(pair.now, &mut pair.host);
    assert_eq!(pair.answers(), [(theirs(3), done(4))]);
}

#[test]
fn what_is_owed_keeps_its_order() {
    let mut pair = Pair::reliable();
    pair.host.room = 0;
    pair.take(theirs(0), write(0, 4), &[1; 4]);
    pair.take(theirs(1), read(0, 4), &[]);
    pair.take(theirs(2), write(0, 4), &[2; 4]);
    pair.take(theirs(3), write(0, 4), &[3; 4]);
    pair.host.room = 10;
    pair.connection.pump(pair.now, &mut pair.host);
    let data = Answer::Read(ReadPart::Only(acknowledged(2)));
    assert_eq!(pair.answers(), [(theirs(1), data), (theirs(3), done(4))]);
}

#[test]
fn what_is_owed_again_is_not_counted_as_one_more_read() {
    let mut pair = Pair::reliable();
    pair.take(theirs(0), read(0, 4), &[]);
    // There is no room; the peer asks again, has its answer after all, and goes on.
    pair.host.room = 0;
    for index in [0, 0, 1, 2] {
        pair.take(theirs(index), read(0, 4), &[]);
    }
    assert_eq!(pair.state(), QpState::ReadyToSend);
    pair.host.room = 10;
    pair.connection.pump(pair.now, &mut pair.host);
    let answered: Vec<_> = pair.answers().into_iter().map(|(psn, _)| psn).collect();
    assert_eq!(answered, [0, 1, 2].map(theirs), "and each once");
}

#[test]
fn a_waiting_receiver_is_woken_by_the_last_packet_only() {
    let mut pair = Pair::reliable();
    for (id, (first, last)) in [(1, (true, false)), (2, (false, true))] {
        pair.post_receive(id, 0x4000, 300);
        let at = (id as u32 - 1) * 2;
        for (psn, part, solicited) in [(at, Part::First(()), first), (at + 1, Part::Last(Tail::Plain), last)]
        {
            let base = Base { solicited, ..Base::new(QpNumber(8), theirs(psn)) };
            let payload = if part.ends() { &FULL[..4] } else { &FULL };
            pair.take_packet(Packet { base, body: Body::Request(Request::Send(part)) }, payload);
        }
    }
    assert_eq!(
        pair.host.filled.iter().map(|(_, arrived)| arrived.solicited).collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn the_first_message_of_a_peer_establishes_the_connection() {
    let mut pair = Pair::reliable();
    pair.connection.begin_to_receive();
    for index in 0..2 {
        pair.take(theirs(index), write(0, 4), &[1; 4]);
    }
    assert_eq!(pair.host.events, [Event::CommunicationEstablished]);
}

#[test]
fn congestion_is_told_to_the_peer_now_and_then() {
    let mut pair = Pair::reliable();
    for _ in 0..3 {
        pair.connection.handle_congestion(pair.now);
        pair.connection.pump(pair.now, &mut pair.host);
    }
    let told: Vec<_> = pair.host.sent.drain(..).map(|(packet, _)| packet).collect();
    let [Packet { base, body: Body::Congestion }] = told[..] else { panic!("{told:?}") };
    assert!(base.backward_congestion && !base.ack_request);
    assert_eq!((base.destination, base.psn), (QpNumber(9), Psn(0)));
    assert_eq!(pair.connection.congestion_counts().notices_sent, 1);
}

#[test]
fn on_an_extended_connection_the_request_names_the_queue_and_answers_are_its_own() {
    let mut pair = Pair::new(QpType::ExtendedReceive);
    pair.host.queues = vec![SrqNumber(3), SrqNumber(4)];
    let take = |pair: &mut Pair, psn, queue, request, payload: &[u8]| {
        let base = Base { ack_request: true, ..Base::new(QpNumber(8), psn) };
        pair.take_packet(Packet { base, body: Body::ExtendedRequest(SrqNumber(queue), request) }, payload);
        pair.host.sent.drain(..).map(|(packet, _)| packet.body).collect::<Vec<_>>()
    };
    assert_eq!(take(&mut pair, theirs(0), 3, write(0, 4), &[1; 4]), [Body::ExtendedAnswer(done(1))]);
    assert_eq!(pair.host.queue, Some(SrqNumber(3)));
    let first = Request::Write(Part::First(reth(0, 260)));
    assert_eq!(take(&mut pair, theirs(1), 3, first, &FULL), [Body::ExtendedAnswer(done(1))]);
    // The message goes on for another queue; and a queue that the domain has not.
    let no = [Body::ExtendedAnswer(refused(Nak::RemoteAccess, 1))];
    assert_eq!(take(&mut pair, theirs(2), 4, Request::Write(Part::Last(None)), &[1; 4]), no);
    let mut other = Pair::new(QpType::ExtendedReceive);
    let no = [Body::ExtendedAnswer(refused(Nak::RemoteAccess, 0))];
    assert_eq!(take(&mut other, theirs(0), 9, write(0, 4), &[1; 4]), no);
    assert_eq!((other.state(), other.host.memory[0]), (QpState::Error, 0));
}

#[test]
fn what_is_owed_to_a_peer_that_nothing_can_be_sent_to_does_not_grow_with_what_it_sends() {
    let mut pair = Pair::reliable();
    pair.host.room = 0;
    for round in 0..1000u32 {
        // It goes back each time, and what is due is not among what it sends; or there is no receive for it.
        for (psn, request) in [(2, send_only()), (1, send_only()), (0, send_only()), (u32::MAX, write(0, 4))]
        {
            assert_eq!(pair.take(theirs(0).plus(psn), request, &[1; 4]), [], "round {round}");
        }
    }
    pair.host.room = usize::MAX;
    pair.connection.pump(pair.now, &mut pair.host);
    let said = pair.answers();
    assert!(said.len() <= 3, "{} answers for one packet that is due", said.len());
    assert_eq!(said.last(), Some(&(theirs(0).plus(u32::MAX), done(0))));
    assert!(said.contains(&(theirs(0), not_ready(0))), "{said:?}");
    assert_eq!(pair.host.memory[..4], [0; 4]);
}
