//! Programs that take their time.

use std::time::Duration;

use nonic_roce::{Answered, CommunicationId, Delay, Event, Message};

use crate::host::{Host, REPLY_TIMEOUT, REQUEST_TIMEOUT, THEIR_ID, ids, our_ids, reply, request};

/// Of a packet, both ways of which are waited for already.
const WAY: Duration = Duration::from_millis(256);

fn delay(id: CommunicationId, answered: Answered, service_timeout: u8) -> Message {
    Message::Delay(Delay { ids: ids(id), answered, service_timeout, private_data: [0; 222] })
}

#[test]
fn who_asks_again_while_the_program_thinks_is_told_to_wait() {
    let mut host = Host::new();
    let id = host.is_asked();
    for _ in 0..2 {
        host.hears(Message::ConnectRequest(request()));
        let Message::Delay(told) = host.says() else { panic!("it is not told to wait") };
        assert_eq!((told.ids, told.answered, told.service_timeout), (our_ids(id), Answered::Request, 24));
        assert_eq!(host.manager.poll_event(), None);
    }
    // The program is not told that it is late, and is not.
    assert_eq!(host.manager.poll_timeout(), None);
    host.manager.accept(host.now, id, &crate::host::SIDE, &[]).expect("there is a request");
    assert!(matches!(host.says(), Message::ConnectReply(_)));
}

#[test]
fn who_replies_again_while_the_program_thinks_is_told_to_wait() {
    let mut host = Host::new();
    let id = host.is_replied_to();
    host.hears(Message::ConnectReply(reply(id)));
    let Message::Delay(told) = host.says() else { panic!("it is not told to wait") };
    assert_eq!((told.ids, told.answered, told.service_timeout), (our_ids(id), Answered::Reply, 24));
    assert_eq!((host.manager.poll_event(), host.manager.poll_timeout()), (None, None));
}

#[test]
fn a_peer_that_thinks_is_waited_for_once() {
    let mut host = Host::new();
    let id = host.asks();
    host.passes(Duration::from_secs(1));
    host.hears(delay(id, Answered::Request, 24));
    host.is_unmoved();
    host.waits(Duration::from_millis(65_536) + WAY);
    assert!(matches!(host.says(), Message::ConnectRequest(_)));
    host.hears(delay(id, Answered::Request, 24));
    for _ in 0..14 {
        host.waits(REQUEST_TIMEOUT);
        host.says();
    }
    host.waits(REQUEST_TIMEOUT);
    assert_eq!(host.event(), Event::Unreachable { id });
}

#[test]
fn a_peer_that_thinks_about_the_reply_is_waited_for_once() {
    let mut host = Host::new();
    let id = host.accepts();
    host.hears(delay(id, Answered::Reply, 12));
    host.is_unmoved();
    host.waits(Duration::from_millis(16) + WAY);
    assert!(matches!(host.says(), Message::ConnectReply(_)));
    host.hears(delay(id, Answered::Reply, 12));
    host.waits(REPLY_TIMEOUT);
    assert!(matches!(host.says(), Message::ConnectReply(_)));
}

#[test]
fn a_peer_does_not_decide_to_be_waited_for_for_hours() {
    let mut host = Host::new();
    let id = host.asks();
    host.hears(delay(id, Answered::Request, 31));
    host.waits(Duration::from_millis(65_536) + WAY);
}

#[test]
fn a_delay_of_what_is_not_waited_for_changes_nothing() {
    let mut host = Host::new();
    let id = host.asks();
    let before = host.manager.poll_timeout();
    host.hears(delay(id, Answered::Reply, 24));
    host.hears(delay(id, Answered::Other, 24));
    assert_eq!((host.manager.poll_timeout(), THEIR_ID), (before, ids(id).local));
    let mut host = Host::new();
    let id = host.accepts();
    let before = host.manager.poll_timeout();
    host.hears(delay(id, Answered::Request, 24));
    host.hears(delay(id, Answered::Other, 24));
    assert_eq!(host.manager.poll_timeout(), before);
    host.is_unmoved();
}
