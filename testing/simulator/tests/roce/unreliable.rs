//! An unreliable connection: nobody answers, and what makes no sense is dropped with its message (IBTA vol. 1, 9.8.2).

use nonic_protocol::{Key, Operation, QpState, QpType, RemoteRange, Status};
use nonic_roce::{Body, Part, Reth, UnreliableRequest};

use crate::pair::{Pair, remote, reth, theirs};
use crate::responder::FULL;

fn pair() -> Pair {
    let mut pair = Pair::new(QpType::UnreliableConnection);
    pair.post_receive(1, 0x4000, 300);
    pair
}

fn send(part: Part<(), Option<u32>>) -> UnreliableRequest {
    UnreliableRequest::Send(part)
}

const LAST: Part<(), Option<u32>> = Part::Last(None);
const ONLY: Part<(), Option<u32>> = Part::Only((), Some(5));

#[test]
fn requests_end_when_they_are_sent_and_ask_for_nothing() {
    let mut pair = pair();
    pair.post(Operation::Send { immediate: Some(4) }, 300);
    pair.post(Operation::Write { remote: remote(0), immediate: None }, 4);
    assert_eq!((pair.statuses(), pair.connection.poll_timeout()), (vec![Status::Success; 2], None));
    let said: Vec<_> = pair.host.sent.drain(..).map(|(packet, _)| packet).collect();
    assert!(said.iter().all(|packet| !packet.base.ack_request));
    let bodies: Vec<_> = said.into_iter().map(|packet| packet.body).collect();
    let expected = [
        send(Part::First(())),
        send(Part::Last(Some(4))),
        UnreliableRequest::Write(Part::Only(reth(0, 4), None)),
    ];
    assert_eq!(bodies, expected.map(Body::Unreliable));
    pair.post(Operation::Read { remote: remote(0) }, 4);
    assert_eq!((pair.statuses()[2], pair.state()), (Status::LocalQpOperation, QpState::SendQueueError));
}

#[test]
fn a_message_with_a_gap_is_dropped_and_leaves_its_receive_to_the_next() {
    let mut pair = pair();
    pair.take_unreliable(theirs(0), send(Part::First(())), &FULL);
    pair.take_unreliable(theirs(2), send(LAST), &[1; 4]);
    pair.take_unreliable(theirs(3), send(LAST), &[1; 4]);
    assert_eq!(pair.host.filled.len(), 0);
    // The next one that begins is due, whatever its number is.
    pair.take_unreliable(theirs(100), send(ONLY), &[2; 4]);
    let (id, arrived) = pair.host.filled[0];
    assert_eq!((id, arrived.total, arrived.immediate), (1, 4, Some(5)));
    assert_eq!(pair.host.memory[0x4000..0x4004], [2; 4]);
}

#[test]
fn a_message_that_begins_ends_the_one_before() {
    let mut pair = pair();
    pair.take_unreliable(theirs(0), send(Part::First(())), &FULL);
    pair.take_unreliable(theirs(1), send(Part::First(())), &FULL);
    pair.take_unreliable(theirs(2), send(LAST), &[1; 4]);
    assert_eq!(
        pair.host.filled.iter().map(|(id, arrived)| (*id, arrived.total)).collect::<Vec<_>>(),
        [(1, 260)]
    );
}

#[test]
fn what_makes_no_sense_is_dropped_and_the_connection_lives() {
    let mut pair = pair();
    let bad = Reth { remote: RemoteRange { key: Key(1), ..remote(0) }, length: 4 };
    let wrong: [(UnreliableRequest, &[u8]); 8] = [
        (send(Part::Middle), &FULL),
        (send(LAST), &[1; 4]),
        (send(Part::First(())), &FULL[..4]),
        (send(ONLY), &[1; 257]),
        (UnreliableRequest::Write(Part::Only(bad, None)), &[1; 4]),
        (UnreliableRequest::Write(Part::Only(bad, Some(5))), &[1; 4]),
        (UnreliableRequest::Write(Part::Only(reth(0, 5), None)), &[1; 4]),
        (UnreliableRequest::Write(Part::Last(None)), &[1; 4]),
    ];
    for (at, (request, payload)) in (0..).zip(wrong) {
        pair.take_unreliable(theirs(at), request, payload);
        assert_eq!((pair.host.filled.len(), pair.host.failed.len()), (0, 0), "{request:?}");
        assert_eq!((pair.state(), pair.host.memory[0]), (QpState::ReadyToSend, 0), "{request:?}");
    }
    // Too long for the receive, in its last packet: the receive is there for the next.
    pair.take_unreliable(theirs(20), send(Part::First(())), &FULL);
    pair.take_unreliable(theirs(21), send(LAST), &[1; 45]);
    pair.take_unreliable(theirs(22), send(ONLY), &[3; 4]);
    pair.take_unreliable(theirs(23), send(ONLY), &[4; 4]);
    assert_eq!((pair.host.filled.len(), pair.host.memory[0x4000]), (1, 3), "there is no other receive");
}
