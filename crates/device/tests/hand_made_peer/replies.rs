//! Acknowledgements go with replies.

use nonic_device::Operation;
use nonic_protocol::Psn;
use nonic_roce::{Answer, Body, Packet};

use crate::common::End;
use crate::far::{Far, PEER, acknowledgement, context, end, message};
use crate::inside::is_inside;

/// Has the peer say message `number` to a program that polls, and the program reply; what comes for it, in order.
fn is_replied_to(peer: &Far, end: &End, number: u32) -> [Packet; 2] {
    end.post_receive(1);
    peer.say(&message(end, number), &[number as u8; 8]);
    assert_eq!(end.completion().id, 1);
    end.post(2, Operation::Send { immediate: None }, &[end.piece(0, 8)]);
    let came = [(); 2].map(|()| peer.hears().0);
    peer.say(&acknowledgement(end, Psn(number)), &[]);
    assert_eq!(end.completion().id, 2);
    came
}

fn is_acknowledgement(packet: &Packet) -> bool {
    matches!(packet.body, Body::Answer(Answer::Acknowledge(_)))
}

#[test]
fn acknowledgements_go_with_the_replies_of_who_replies_and_alone_when_none_comes() {
    if !is_inside("replies::acknowledgements_go_with_the_replies_of_who_replies_and_alone_when_none_comes") {
        return;
    }
    let (peer, context) = (Far::at(PEER), context(None));
    let end = end(&context);
    let mut behind = 0;
    for number in 0..100 {
        let came = is_replied_to(&peer, &end, number);
        let place = came.iter().position(is_acknowledgement).expect("the message is acknowledged");
        assert!(number >= 4 || place == 0, "nobody knew that there would be a reply to message {number}");
        behind += place;
    }
    assert!(behind > 0, "no acknowledgement waited for the reply");
    // The last message has no reply, and nobody looks for another.
    end.post_receive(1);
    peer.say(&message(&end, 100), &[0; 8]);
    assert_eq!(end.completion().id, 1);
    let last = peer.hears().0;
    assert!(is_acknowledgement(&last) && last.base.psn == Psn(100));
}
