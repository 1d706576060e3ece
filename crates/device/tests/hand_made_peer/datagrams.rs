//! Datagrams that a program sends without ever looking at the wire.

use nonic_device::{
    Capabilities, DatagramDestination, Destination, Operation, QueuePair, SendFlags, SendRequest,
};
use nonic_roce::Body;

use crate::common::{End, datagram_pair};
use crate::far::{Far, HERE, NUMBER, PEER, context, lone};
use crate::inside::is_inside;

/// More than go in one run.
const COUNT: u32 = 150;
const Q_KEY: u32 = 7;

/// Sends each number up to [`COUNT`] to the peer, and looks at nothing.
fn send_all(end: &mut End, pair: &QueuePair) {
    let vector = end.way_between(HERE.gid(), PEER.gid());
    let destination = DatagramDestination { zone: end.zone.id(), vector, qp_number: NUMBER, q_key: Q_KEY };
    for number in 0..COUNT {
        let at = 4 * number as usize;
        end.buffer[at..at + 4].copy_from_slice(&number.to_be_bytes());
        let request = SendRequest {
            id: 0,
            operation: Operation::Send { immediate: None },
            flags: SendFlags::default(),
            pieces: &[end.piece(at, 4)],
            destination: Some(Destination::Datagram(destination)),
        };
        // SAFETY: the piece lies in the region over the end's own buffer.
        unsafe { pair.post_send(&request).unwrap() };
        pair.ring_doorbell();
    }
}

/// Sends them and has `then` happen; all come, in order.
fn all_go(then: impl FnOnce(&QueuePair)) {
    let (peer, mut end) = (Far::at(PEER), lone(context(None)));
    let capabilities = Capabilities {
        send_requests: COUNT,
        receive_requests: 1,
        send_pieces: 1,
        receive_pieces: 1,
        inline_bytes: 4,
    };
    let pair = datagram_pair(&end.zone, &end.completions, capabilities, false, Q_KEY);
    send_all(&mut end, &pair);
    then(&pair);
    for number in 0..COUNT {
        let (packet, payload) = peer.hears();
        assert!(matches!(packet.body, Body::Datagram(_)));
        assert_eq!(payload, number.to_be_bytes(), "in order, and none is missing");
    }
}

#[test]
fn datagrams_that_wait_for_a_look_go_though_the_program_never_looks() {
    if is_inside("datagrams::datagrams_that_wait_for_a_look_go_though_the_program_never_looks") {
        all_go(|_| ());
    }
}

#[test]
fn datagrams_that_wait_for_a_look_go_before_their_queue_pair_does() {
    if is_inside("datagrams::datagrams_that_wait_for_a_look_go_before_their_queue_pair_does") {
        all_go(|pair| pair.destroy().unwrap());
    }
}
