//! Acknowledgements go with replies.

use nonic_device::Operation;
use nonic_protocol::Psn;
use nonic_roce::{Answer, Body, Packet};

use crate::common::End;
use crate::far::{Far, PEER, acknowledgement, context, end, message};
use crate::inside::is_inside;

/// Has the peer say message `number` to a program that polls, and the program reply. Whether the reply came before the acknowledgement.
fn is_acknowledged_behind_the_reply(peer: &Far, end: &End, number: u32) -> bool {
    end.post_receive(1);
    peer.say(&message(end, number), &[number as u8; 8]);
    assert_eq!(end.completion().id, 1);
    end.post(2, Operation::Send { immediate: None }, &[end.piece(0, 8)]);
    let mut has_reply = false;
    let is_behind = loop {
        let came = peer.hears().0;
        if is_acknowledgement_of(&came, number) {
            break has_reply;
        }
        // What a busy machine took too long to answer comes again.
        has_reply |= came.base.psn == Psn(number);
    };
    peer.say(&acknowledgement(end, Psn(number)), &[]);
    assert_eq!(end.completion().id, 2);
    is_behind
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
        let is_behind = is_acknowledged_behind_the_reply(&peer, &end, number);
        assert!(number >= 4 || !is_behind, "nobody knew that there would be a reply to message {number}");
        behind += u32::from(is_behind);
    }
    assert!(behind > 0, "no acknowledgement waited for the reply");
    // The last message has no reply, and nobody looks for another.
    end.post_receive(1);
    peer.say(&message(&end, 100), &[0; 8]);
    assert_eq!(end.completion().id, 1);
    while !is_acknowledgement_of(&peer.hears().0, 100) {}
}

fn is_acknowledgement_of(packet: &Packet, number: u32) -> bool {
    packet.base.psn == Psn(number) && matches!(packet.body, Body::Answer(Answer::Acknowledge(_)))
}
