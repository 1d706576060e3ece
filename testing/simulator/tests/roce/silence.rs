//! A peer that says nothing: who only receives asks whether it is there, and what it asks harms nobody (IBTA vol. 1, 9.7.5.1.4).

use std::time::Duration;

use nonic_protocol::{Key, QpNumber, QpState, QpType, RemoteRange, Status};
use nonic_roce::{Base, Body, Packet, Part, Request, Reth};

use crate::pair::{Pair, done, ours, send_only, theirs};
use crate::requester::SEND;

const LIMIT: Duration = Duration::from_secs(16);
/// A quarter of it is waited for, then sixteenths.
const FIRST: Duration = Duration::from_secs(4);
const THEN: Duration = Duration::from_secs(1);

/// What is asked: an RDMA Write of no bytes.
const ASKED: Request =
    Request::Write(Part::Only(Reth { remote: RemoteRange { address: 0, key: Key(0) }, length: 0 }, None));

fn limited(kind: QpType) -> Pair {
    let mut pair = Pair::new(kind);
    pair.connection.limit_silence(Some(LIMIT));
    pair.connection.pump(pair.now, &mut pair.host);
    pair
}

/// Waits until its next timer, and what it sends then.
fn waits(pair: &mut Pair) -> Vec<Packet> {
    pair.now = pair.connection.poll_timeout().expect("nothing is waited for");
    pair.connection.handle_timeout(pair.now, &mut pair.host);
    pair.host.sent.drain(..).map(|(packet, _)| packet).collect()
}

#[test]
fn who_hears_nothing_asks_by_an_old_number_and_gives_up_after_twelve_times() {
    let mut pair = limited(QpType::ReliableConnection);
    for id in 0..3 {
        pair.post_receive(id, 0, 8);
    }
    let base = Base { ack_request: true, ..Base::new(QpNumber(9), ours(0).before()) };
    let question = Packet { base, body: Body::Request(ASKED) };
    for number in 0..12 {
        assert_eq!(waits(&mut pair), [question]);
        assert_eq!(pair.now, FIRST + THEN * number);
        assert_eq!((pair.state(), pair.host.silences), (QpState::ReadyToSend, 0));
    }
    assert_eq!(waits(&mut pair), []);
    assert_eq!((pair.now, pair.host.silences), (LIMIT, 1));
    assert_eq!((pair.state(), pair.host.flushed), (QpState::Error, Some(true)));
    assert_eq!(pair.host.failed, [0, 1, 2].map(|id| (id, Status::Flushed)));
    assert_eq!(pair.connection.poll_timeout(), None);
}

#[test]
fn whatever_comes_is_an_answer() {
    let mut pair = limited(QpType::ReliableConnection);
    for round in 0..10 {
        for _ in 0..12 {
            assert_eq!(waits(&mut pair).len(), 1);
        }
        // The answer to one of them, or a message of its own.
        if round % 2 == 0 {
            assert_eq!(pair.hear(ours(0).before(), done(0), &[]), []);
        } else {
            pair.post_receive(round, 0, 8);
            pair.take(theirs(round as u32 / 2), send_only(), &[]);
        }
        let heard = pair.now;
        assert_eq!(pair.connection.poll_timeout(), Some(heard + THEN));
        assert_eq!(waits(&mut pair), [], "it was heard a moment ago");
        assert_eq!(pair.connection.poll_timeout(), Some(heard + FIRST));
    }
    assert_eq!((pair.state(), pair.host.silences), (QpState::ReadyToSend, 0));
}

#[test]
fn what_is_asked_is_acknowledged_and_changes_nothing() {
    let mut pair = Pair::reliable();
    pair.post_receive(1, 0, 8);
    let memory = pair.host.memory.clone();
    for messages in 0..2 {
        let expected = pair.connection.expected();
        for _ in 0..3 {
            let answer = pair.take(expected.before(), ASKED, &[]);
            assert_eq!(answer, [(expected.before(), done(messages))]);
        }
        assert_eq!((pair.connection.expected(), pair.connection.receives.length()), (expected, 1));
        assert!(pair.host.ended.is_empty() && pair.host.failed.is_empty() && pair.host.memory == memory);
        // The next message is as good as ever.
        assert_eq!(pair.take(theirs(messages), send_only(), &[]), [(theirs(messages), done(messages + 1))]);
        assert_eq!(pair.host.filled.len() as u32, messages + 1);
        pair.post_receive(2, 0, 8);
    }
}

#[test]
fn who_has_something_under_way_does_not_ask_and_misses_its_peer_as_it_was_told_to() {
    let mut pair = limited(QpType::ReliableConnection);
    pair.connection.attributes.timeout = 0;
    pair.post(SEND, 0);
    pair.sent();
    while pair.now < 10 * LIMIT {
        let sent = waits(&mut pair);
        assert!(sent.iter().all(|packet| packet.base.psn == ours(0)), "{sent:?}");
    }
    assert_eq!((pair.state(), pair.host.silences), (QpState::ReadyToSend, 0));
    // Answered, it counts from then on.
    pair.hear(ours(0), done(1), &[]);
    let heard = pair.now;
    let question = loop {
        if let [question] = waits(&mut pair)[..] {
            break question;
        }
    };
    assert_eq!((question.base.psn, question.body), (ours(0), Body::Request(ASKED)));
    assert_eq!(pair.now, heard + FIRST);
}

#[test]
fn nobody_asks_who_was_not_told_to_or_cannot() {
    let mut pair = Pair::reliable();
    pair.connection.pump(pair.now, &mut pair.host);
    assert_eq!(pair.connection.poll_timeout(), None);
    for kind in [QpType::UnreliableConnection, QpType::ExtendedSend, QpType::ExtendedReceive] {
        assert_eq!(limited(kind).connection.poll_timeout(), None, "{kind:?}");
    }
}

#[test]
fn silence_that_is_this_sides_fault_does_not_count() {
    let mut pair = limited(QpType::ReliableConnection);
    for _ in 0..100 {
        for _ in 0..12 {
            waits(&mut pair);
        }
        pair.connection.excuse_silence(pair.now);
    }
    assert_eq!((pair.state(), pair.host.silences), (QpState::ReadyToSend, 0));
}

#[test]
fn the_first_message_says_once_that_the_peer_is_connected() {
    let mut pair = Pair::reliable();
    assert_eq!(pair.host.connected, 0);
    pair.hear(ours(0).before(), done(0), &[]);
    assert_eq!(pair.host.connected, 0, "an answer is no message");
    for number in 0..3 {
        pair.post_receive(1, 0, 8);
        pair.take(theirs(number), send_only(), &[]);
        assert_eq!(pair.host.connected, 1);
    }
    assert_eq!(pair.host.events, [], "it was ready to send");
}
