//! Messages that nobody answers, and what comes again.

use std::time::Duration;

use nonic_protocol::QpNumber;
use nonic_roce::{Answered, Disconnection, Event, Ids, Message, Reason, ServiceAnswer};

use crate::host::{
    Host, OUR_GUID, OUR_PAIR, REPLY_TIMEOUT, REQUEST_TIMEOUT, SERVICE, THEIR_PAIR, THEIRS, end, ends, ids,
    notice, our_ids, question, reply, request,
};

/// The one that gives up says so, and that it is it.
#[track_caller]
fn says_that_time_is_out(host: &mut Host, expected: Ids) {
    let Message::Reject(reject) = host.says() else { panic!("no rejection") };
    assert_eq!((reject.ids, reject.answered, reject.reason), (expected, Answered::Other, Reason::TIMEOUT));
    assert_eq!((reject.info_length, &reject.info[..8]), (8, &OUR_GUID.to_be_bytes()[..]));
}

#[test]
fn a_request_is_repeated_fifteen_times_and_then_the_peer_is_unreachable() {
    let mut host = Host::new();
    let id = host.manager.connect(
        host.now,
        ends(THEIRS),
        SERVICE,
        &crate::host::OFFER,
        &crate::host::SIDE,
        b"hello",
    );
    let (id, first) = (id.expect("it is asked"), host.says());
    for _ in 0..15 {
        host.waits(REQUEST_TIMEOUT);
        assert_eq!(host.says(), first);
        assert_eq!(host.manager.poll_event(), None);
    }
    host.waits(REQUEST_TIMEOUT);
    says_that_time_is_out(&mut host, Ids { local: id.number(), remote: 0 });
    assert_eq!(host.event(), Event::Unreachable { id });
    assert!(host.manager.is_empty() && host.manager.poll_timeout().is_none());
}

#[test]
fn a_reply_is_repeated_as_its_request_says_and_then_the_peer_is_unreachable() {
    for (timeout, retries, wait) in [(20, 15, REPLY_TIMEOUT), (10, 2, Duration::from_millis(4))] {
        let mut host = Host::new();
        let asked =
            nonic_roce::ConnectRequest { local_cm_timeout: timeout, max_cm_retries: retries, ..request() };
        host.hears(Message::ConnectRequest(asked));
        let Event::Asked { id, .. } = host.event() else { panic!("no request") };
        host.manager.accept(host.now, id, &crate::host::SIDE, b"yes").expect("there is a request");
        let first = host.says();
        for _ in 0..retries {
            host.waits(wait);
            assert_eq!(host.says(), first);
            assert_eq!(host.manager.poll_event(), None);
        }
        host.waits(wait);
        says_that_time_is_out(&mut host, our_ids(id));
        assert_eq!(host.event(), Event::Unreachable { id });
        assert!(host.manager.is_empty());
    }
}

#[test]
fn the_end_is_asked_for_as_often_and_comes_all_the_same() {
    let mut host = Host::new();
    let roles: [(fn(&mut Host) -> _, _, _); 2] =
        [(Host::is_connected, REQUEST_TIMEOUT, 512), (Host::has_accepted, REPLY_TIMEOUT, 2048)];
    for (connected, timeout, time_wait) in roles {
        let id = connected(&mut host);
        host.manager.disconnect(host.now, id, &[]).expect("there is a connection");
        let first = host.says();
        let Message::DisconnectRequest(asked) = first else { panic!("no end") };
        assert_eq!((asked.ids, asked.remote_qp_number), (our_ids(id), THEIR_PAIR));
        for _ in 0..15 {
            host.waits(timeout);
            assert_eq!(host.says(), first);
        }
        host.waits(timeout);
        assert_eq!(
            host.event(),
            Event::Disconnected { id, how: Disconnection::Unanswered, private_data: None }
        );
        host.is_unmoved();
        host.waits(Duration::from_millis(time_wait));
        assert_eq!(host.event(), Event::TimeWaitOver { id });
        assert!(host.manager.is_empty());
    }
}

#[test]
fn a_question_for_a_service_is_asked_sixteen_times() {
    let mut host = Host::new();
    let id = host.manager.resolve_service(host.now, ends(THEIRS), SERVICE, &[]).expect("it is asked");
    let first = host.says();
    for _ in 0..15 {
        host.waits(REPLY_TIMEOUT);
        assert_eq!(host.says(), first);
    }
    host.waits(REPLY_TIMEOUT);
    assert_eq!(host.event(), Event::Unreachable { id });
    host.is_silent();
    assert!(host.manager.is_empty());
}

#[test]
fn a_request_that_comes_again_after_the_reply_is_left_to_the_reply() {
    let mut host = Host::new();
    host.accepts();
    let before = host.manager.poll_timeout();
    host.hears(Message::ConnectRequest(request()));
    host.is_unmoved();
    assert_eq!(host.manager.poll_timeout(), before);
    host.waits(REPLY_TIMEOUT);
    assert!(matches!(host.says(), Message::ConnectReply(_)));
}

#[test]
fn a_reply_that_comes_again_is_answered_that_this_side_is_ready() {
    let mut host = Host::new();
    let id = host.is_replied_to();
    host.manager.establish(id, b"go").expect("there is a reply");
    let first = host.says();
    let Message::ReadyToUse(ready) = first else { panic!("it is not ready") };
    assert_eq!((ready.ids, &ready.private_data[..2]), (our_ids(id), &b"go"[..]));
    for _ in 0..3 {
        host.hears(Message::ConnectReply(reply(id)));
        assert_eq!(host.says(), first);
        assert_eq!(host.manager.poll_event(), None);
    }
}

#[test]
fn the_first_packet_stands_for_a_message_that_the_peer_is_ready() {
    let mut host = Host::new();
    let id = host.accepts();
    host.manager.communication_established(id).expect("it was accepted");
    assert_eq!(host.event(), Event::Established { id });
    assert_eq!(host.manager.poll_timeout(), None);
    // It comes late, and once more; so does the packet.
    host.hears(Message::ReadyToUse(notice(id)));
    host.hears(Message::ReadyToUse(notice(id)));
    host.manager.communication_established(id).expect("there is a connection");
    host.is_unmoved();
}

#[test]
fn the_first_packet_to_a_queue_pair_stands_for_that_message_too() {
    let mut host = Host::new();
    let id = host.accepts();
    for nobodys in [THEIR_PAIR, QpNumber(OUR_PAIR.0 + 1)] {
        host.manager.pair_is_connected(nobodys);
        assert_eq!(host.manager.poll_event(), None);
    }
    host.manager.pair_is_connected(OUR_PAIR);
    assert_eq!((host.event(), host.manager.poll_timeout()), (Event::Established { id }, None));
    // The reply is not repeated any more, whatever else comes.
    host.manager.pair_is_connected(OUR_PAIR);
    host.hears(Message::ReadyToUse(notice(id)));
    host.is_unmoved();
    host.manager.disconnect(host.now, id, &[]).expect("there is a connection");
}

#[test]
fn a_peer_that_does_not_answer_on_its_queue_pair_is_disconnected_at_once_and_told_so_once() {
    let mut host = Host::new();
    let id = host.accepts();
    host.manager.pair_is_silent(host.now, OUR_PAIR);
    assert_eq!(host.manager.poll_event(), None, "it has not said that it is ready");
    host.manager.pair_is_connected(OUR_PAIR);
    host.event();
    host.manager.pair_is_silent(host.now, QpNumber(OUR_PAIR.0 + 1));
    host.is_unmoved();
    host.manager.pair_is_silent(host.now, OUR_PAIR);
    assert!(matches!(host.says(), Message::DisconnectRequest(asked) if asked.ids == our_ids(id)));
    assert_eq!(host.event(), Event::Disconnected { id, how: Disconnection::Unanswered, private_data: None });
    host.manager.pair_is_silent(host.now, OUR_PAIR);
    host.is_unmoved();
    // It lives after all, and wants the end as well, or has it.
    host.hears(Message::DisconnectReply(notice(id)));
    host.is_unmoved();
    host.hears(Message::DisconnectRequest(end(id)));
    assert!(matches!(host.says(), Message::DisconnectReply(reply) if reply.ids == our_ids(id)));
    host.waits(Duration::from_millis(2048));
    assert_eq!(host.event(), Event::TimeWaitOver { id });
    assert!(host.manager.is_empty());
    host.manager.pair_is_silent(host.now, OUR_PAIR);
    host.is_unmoved();
}

#[test]
fn an_end_that_is_asked_for_again_is_agreed_to_again() {
    let mut host = Host::new();
    let id = host.has_accepted();
    host.hears(Message::DisconnectRequest(end(id)));
    assert_eq!(
        host.event(),
        Event::Disconnected { id, how: Disconnection::ByPeer, private_data: Some(Box::new([0; 220])) }
    );
    // The program has not said anything.
    host.hears(Message::DisconnectRequest(end(id)));
    host.is_unmoved();
    host.manager.disconnect(host.now, id, &[]).expect("there was a connection");
    let first = host.says();
    assert!(matches!(first, Message::DisconnectReply(reply) if reply.ids == our_ids(id)));
    host.hears(Message::DisconnectRequest(end(id)));
    assert_eq!(host.says(), first);
    assert_eq!(host.manager.poll_event(), None);
    host.waits(Duration::from_millis(2048));
    assert_eq!(host.event(), Event::TimeWaitOver { id });
    // Nobody remembers, and it is agreed to all the same.
    host.hears(Message::DisconnectRequest(end(id)));
    assert_eq!(host.says(), first);
    assert!(host.manager.is_empty());
}

#[test]
fn two_that_want_the_end_at_once_have_it_at_once() {
    let mut host = Host::new();
    let id = host.is_connected();
    host.manager.disconnect(host.now, id, &[]).expect("there is a connection");
    host.says();
    host.hears(Message::DisconnectRequest(end(id)));
    assert!(matches!(host.says(), Message::DisconnectReply(reply) if reply.ids == our_ids(id)));
    assert_eq!(host.event(), Event::Disconnected { id, how: Disconnection::Agreed, private_data: None });
    host.hears(Message::DisconnectReply(notice(id)));
    host.is_unmoved();
    host.waits(Duration::from_millis(512));
    assert_eq!(host.event(), Event::TimeWaitOver { id });
}

#[test]
fn a_connection_whose_peer_was_not_heard_to_be_ready_can_be_ended_by_it() {
    let mut host = Host::new();
    let id = host.accepts();
    host.hears(Message::DisconnectRequest(end(id)));
    assert_eq!(
        host.event(),
        Event::Disconnected { id, how: Disconnection::ByPeer, private_data: Some(Box::new([0; 220])) }
    );
    host.manager.disconnect(host.now, id, &[]).expect("there was a connection");
    assert!(matches!(host.says(), Message::DisconnectReply(reply) if reply.ids == our_ids(id)));
}

#[test]
fn an_answer_for_a_service_is_given_again_to_who_asks_again() {
    let mut host = Host::new();
    host.hears(Message::ServiceRequest(question()));
    let Event::ServiceAsked { id, .. } = host.event() else { panic!("no question") };
    host.hears(Message::ServiceRequest(question()));
    host.is_unmoved();
    let answer = ServiceAnswer::QueuePair { number: QpNumber(7), q_key: 3 };
    host.manager.answer_service(host.now, id, answer, b"there").expect("there is a question");
    let first = host.says();
    host.hears(Message::ServiceRequest(question()));
    assert_eq!(host.says(), first);
    host.passes(Duration::from_secs(10));
    assert!(host.manager.is_empty());
}

#[test]
fn a_rejection_is_said_again_to_who_asks_again_and_forgotten_after_two_repeats() {
    let mut host = Host::new();
    let id = host.is_asked();
    host.manager.reject(host.now, id, Reason::CONSUMER, &[], b"no").expect("there is a request");
    let first = host.says();
    let Message::Reject(reject) = first else { panic!("no rejection") };
    assert_eq!((reject.ids, reject.answered), (Ids { local: 0, remote: ids(id).local }, Answered::Request));
    assert_eq!((reject.reason, &reject.private_data[..2]), (Reason::CONSUMER, &b"no"[..]));
    host.passes(REQUEST_TIMEOUT);
    host.hears(Message::ConnectRequest(request()));
    assert_eq!(host.says(), first);
    host.passes(2 * REPLY_TIMEOUT - REQUEST_TIMEOUT);
    host.is_unmoved();
    assert!(host.manager.is_empty());
}
