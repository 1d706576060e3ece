//! Programs that do not want to know any more, at every point.

use std::time::Duration;

use nonic_roce::{
    Answered, CallError, CommunicationId, DisconnectRequest, Disconnection, Event, Message, Reason,
    ServiceAnswer,
};

use crate::host::{
    Host, OUR_GUID, REQUEST_TIMEOUT, SERVICE, THEIRS, end, ends, notice, our_ids, question, reply, request,
};

#[track_caller]
fn leaves(host: &mut Host, id: CommunicationId) {
    host.manager.release(host.now, id).expect("it is known");
    assert_eq!(host.manager.release(host.now, id), Err(CallError::Unknown));
    assert_eq!(host.manager.disconnect(host.now, id, &[]), Err(CallError::Unknown));
}

#[track_caller]
fn rejects(host: &mut Host, answered: Answered, reason: Reason) -> Vec<u8> {
    let Message::Reject(told) = host.says() else { panic!("no rejection") };
    assert_eq!((told.answered, told.reason), (answered, reason));
    told.info[..told.info_length.into()].to_vec()
}

#[test]
fn who_asked_and_leaves_says_that_its_time_is_out() {
    let mut host = Host::new();
    let id = host.asks();
    leaves(&mut host, id);
    assert_eq!(rejects(&mut host, Answered::Other, Reason::TIMEOUT), OUR_GUID.to_be_bytes());
    // The reply is under way.
    host.hears(Message::ConnectReply(reply(id)));
    let info = rejects(&mut host, Answered::Reply, Reason::TIMEOUT);
    assert_eq!(info, OUR_GUID.to_be_bytes());
    host.passes(2 * REQUEST_TIMEOUT);
    host.is_unmoved();
    assert!(host.manager.is_empty());
}

#[test]
fn who_is_asked_or_has_replied_and_leaves_rejects() {
    type Reached = fn(&mut Host) -> CommunicationId;
    let cases: [(Reached, Answered); 3] = [
        (Host::is_asked, Answered::Request),
        (Host::is_replied_to, Answered::Reply),
        (Host::accepts, Answered::Other),
    ];
    for (reached, answered) in cases {
        let mut host = Host::new();
        let id = reached(&mut host);
        leaves(&mut host, id);
        rejects(&mut host, answered, Reason::CONSUMER);
        // Whatever its peer says again has the same answer.
        let again = match answered {
            Answered::Request => Message::ConnectRequest(request()),
            Answered::Reply => Message::ConnectReply(reply(id)),
            Answered::Other => Message::ReadyToUse(notice(id)),
        };
        host.hears(again);
        rejects(&mut host, answered, Reason::CONSUMER);
        host.passes(2 * REQUEST_TIMEOUT);
        host.is_unmoved();
        assert!(host.manager.is_empty());
    }
}

#[test]
fn who_leaves_a_connection_ends_it_and_hears_nothing_of_it() {
    for connected in [Host::is_connected, Host::has_accepted] as [fn(&mut Host) -> CommunicationId; 2] {
        let mut host = Host::new();
        let id = connected(&mut host);
        leaves(&mut host, id);
        assert!(matches!(host.says(), Message::DisconnectRequest(asked) if asked.ids == our_ids(id)));
        host.passes(REQUEST_TIMEOUT);
        assert!(matches!(host.says(), Message::DisconnectRequest(_)));
        host.hears(Message::DisconnectReply(notice(id)));
        host.is_unmoved();
        host.passes(Duration::from_millis(2048));
        host.is_unmoved();
        assert!(host.manager.is_empty());
    }
}

#[test]
fn who_leaves_when_the_peer_has_ended_it_agrees() {
    let mut host = Host::new();
    let id = host.is_connected();
    host.hears(Message::DisconnectRequest(end(id)));
    host.event();
    leaves(&mut host, id);
    assert!(matches!(host.says(), Message::DisconnectReply(told) if told.ids == our_ids(id)));
    host.passes(Duration::from_millis(512));
    host.is_unmoved();
    assert!(host.manager.is_empty());
}

#[test]
fn who_asked_for_a_service_and_leaves_says_nothing_and_who_is_asked_refuses() {
    let mut host = Host::new();
    let id = host.manager.resolve_service(host.now, ends(THEIRS), SERVICE, &[]).expect("it is asked");
    host.says();
    leaves(&mut host, id);
    host.is_unmoved();
    assert!(host.manager.is_empty());
    host.hears(Message::ServiceRequest(question()));
    let Event::ServiceAsked { id, .. } = host.event() else { panic!("no question") };
    leaves(&mut host, id);
    assert!(matches!(host.says(), Message::ServiceReply(told) if told.status == 2));
}

#[test]
fn what_is_over_for_its_program_is_not_known_by_its_old_name() {
    let mut host = Host::new();
    let id = host.is_asked();
    host.manager.reject(host.now, id, Reason::CONSUMER, &[], &[]).expect("there is a request");
    assert_eq!(host.manager.release(host.now, id), Err(CallError::Unknown));
    host.says();
    host.hears(Message::ServiceRequest(question()));
    let Event::ServiceAsked { id, .. } = host.event() else { panic!("no question") };
    host.manager.answer_service(host.now, id, ServiceAnswer::Refused(3), &[]).expect("there is a question");
    let again = host.manager.answer_service(host.now, id, ServiceAnswer::Refused(3), &[]);
    assert_eq!(again, Err(CallError::Unknown));
    assert!(matches!(host.says(), Message::ServiceReply(told) if told.status == 3));
}

#[test]
fn what_is_said_with_the_end_of_a_connection_arrives_with_it_and_not_more_than_fits() {
    let said: Vec<u8> = (1..=220).collect();
    let mut host = Host::new();
    let id = host.is_connected();
    let too_much = CallError::PrivateData { length: 221, room: 220 };
    assert_eq!(host.manager.disconnect(host.now, id, &[7; 221]), Err(too_much));
    host.is_unmoved();
    host.manager.disconnect(host.now, id, &said).expect("there is a connection");
    let Message::DisconnectRequest(asked) = host.says() else { panic!("no end") };
    assert_eq!(asked.private_data[..], said);

    let mut host = Host::new();
    let id = host.is_connected();
    host.hears(Message::DisconnectRequest(DisconnectRequest { private_data: asked.private_data, ..end(id) }));
    let private_data = Some(Box::new(asked.private_data));
    assert_eq!(host.event(), Event::Disconnected { id, how: Disconnection::ByPeer, private_data });
}
