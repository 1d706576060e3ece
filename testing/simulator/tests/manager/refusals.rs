//! What is refused of what a peer asks for, and what it refuses.

use std::time::Duration;

use nonic_protocol::QpNumber;
use nonic_roce::{
    Answered, CallError, CommunicationId, ConnectRequest, Disconnection, Event, Ids, Message, PortSpace,
    Reason, Reject, Transport,
};

use crate::host::{
    Host, OFFER, OUR_PAIR, OURS, PORT, SERVICE, SIDE, STRANGE, THEIR_GUID, THEIR_ID, THEIR_PAIR, THEIRS, end,
    ends, ids, our_ids, reply, request,
};

fn reject(ids: Ids, answered: Answered, reason: Reason) -> Reject {
    Reject { ids, answered, reason, info_length: 0, info: [0; 72], private_data: [7; 148] }
}

fn changed(change: impl FnOnce(&mut ConnectRequest)) -> ConnectRequest {
    let mut changed = request();
    change(&mut changed);
    changed
}

#[test]
fn a_request_is_refused_for_its_reason_and_nothing_is_kept() {
    let udp = PortSpace::Udp.service_id(PORT);
    let cases: [(&str, ConnectRequest, Reason, bool); 15] = [
        ("no listener", changed(|r| r.service_id += 1), Reason::INVALID_SERVICE_ID, false),
        ("partition", changed(|r| r.p_key = 0x1234), Reason::INVALID_GID, true),
        ("its GID", changed(|r| r.primary.local_gid = STRANGE.gid()), Reason::INVALID_GID, true),
        ("our GID", changed(|r| r.primary.remote_gid = STRANGE.gid()), Reason::INVALID_GID, true),
        ("no MTU", changed(|r| r.path_mtu = 0), Reason::INVALID_MTU, false),
        ("MTU", changed(|r| r.path_mtu = 6), Reason::INVALID_MTU, false),
        ("UC for RC", changed(|r| r.transport = Transport::Unreliable), Reason::CONSUMER, false),
        ("XRC for RC", changed(|r| r.transport = Transport::Extended), Reason::CONSUMER, false),
        ("connection to datagrams", changed(|r| r.service_id = udp), Reason::CONSUMER, false),
        ("version", changed(|r| r.private_data[0] = 1), Reason::CONSUMER, false),
        (
            "loopback",
            changed(|r| r.private_data[16..20].copy_from_slice(&[127, 0, 0, 1])),
            Reason::CONSUMER,
            false,
        ),
        ("group", changed(|r| r.private_data[16] = 239), Reason::CONSUMER, false),
        ("another source", changed(|r| r.private_data[19] = 9), Reason::CONSUMER, false),
        ("another destination", changed(|r| r.private_data[35] = 9), Reason::CONSUMER, false),
        ("IPv6 by IPv4", changed(|r| r.private_data[1] = 0x60), Reason::CONSUMER, false),
    ];
    for (name, asked, reason, has_gid) in cases {
        let mut host = Host::new();
        host.hears(Message::ConnectRequest(asked));
        let Message::Reject(told) = host.says() else { panic!("{name}: no rejection") };
        assert_eq!((told.answered, told.reason), (Answered::Request, reason), "{name}");
        assert_eq!(told.ids, Ids { local: 0, remote: THEIR_ID }, "{name}");
        let info = if has_gid { &OURS.gid()[..] } else { &[] };
        assert_eq!(&told.info[..told.info_length.into()], info, "{name}");
        host.is_unmoved();
        assert!(host.manager.is_empty(), "{name}");
        // Nothing of it counts as used.
        host.is_asked();
    }
}

#[test]
fn what_may_differ_is_taken() {
    for asked in [
        changed(|r| r.p_key = 0x7fff),
        changed(|r| r.path_mtu = 5),
        changed(|r| r.primary.hop_limit = 1),
        changed(|r| (r.primary.local_lid, r.primary.remote_lid) = (1, 2)),
        changed(|r| r.alternate = Some(nonic_roce::Path { hop_limit: 3, ..r.primary })),
    ] {
        let mut host = Host::new();
        host.hears(Message::ConnectRequest(asked));
        assert!(matches!(host.event(), Event::Asked { request, .. } if *request == asked));
        host.is_unmoved();
    }
}

#[test]
fn a_queue_pair_that_asks_again_has_lost_its_connection_which_ends() {
    for connected in [Host::has_accepted, Host::is_connected] as [fn(&mut Host) -> CommunicationId; 2] {
        let mut host = Host::new();
        let id = connected(&mut host);
        let again = changed(|r| r.local_id = 99);
        host.hears(Message::ConnectRequest(again));
        let first = host.manager.poll_transmit().expect("it is refused").datagram;
        let Message::Reject(told) = first.message else { panic!("no rejection") };
        assert_eq!((told.ids, told.reason), (Ids { local: 0, remote: 99 }, Reason::STALE_CONNECTION));
        let Message::DisconnectRequest(asked) = host.says() else { panic!("no end") };
        assert_eq!((asked.ids, asked.remote_qp_number), (our_ids(id), THEIR_PAIR));
        assert_eq!(host.manager.poll_event(), None);
        // Once more: the end is under way.
        host.hears(Message::ConnectRequest(again));
        assert!(matches!(host.says(), Message::Reject(told) if told.reason == Reason::STALE_CONNECTION));
        // It agrees; when no late packet can come any more, it may be connected.
        host.hears(Message::DisconnectReply(crate::host::notice(id)));
        assert_eq!(host.event(), Event::Disconnected { id, how: Disconnection::Agreed, private_data: None });
        host.hears(Message::ConnectRequest(again));
        assert!(matches!(host.says(), Message::Reject(told) if told.reason == Reason::STALE_CONNECTION));
        host.passes(Duration::from_millis(2048));
        assert_eq!(host.event(), Event::TimeWaitOver { id });
        host.hears(Message::ConnectRequest(again));
        assert!(matches!(host.event(), Event::Asked { .. }));
    }
}

#[test]
fn a_queue_pair_that_asks_while_it_is_asked_about_is_refused_and_the_first_request_stands() {
    let mut host = Host::new();
    let id = host.is_asked();
    host.hears(Message::ConnectRequest(changed(|r| r.local_id = 99)));
    assert!(matches!(host.says(), Message::Reject(told) if told.reason == Reason::STALE_CONNECTION));
    host.is_unmoved();
    host.manager.accept(host.now, id, &SIDE, &[]).expect("there is a request");
}

#[test]
fn a_queue_pair_that_was_rejected_may_ask_again_at_once() {
    let mut host = Host::new();
    let id = host.is_asked();
    host.manager.reject(host.now, id, Reason::CONSUMER, &[], &[]).expect("there is a request");
    assert!(matches!(host.says(), Message::Reject(told) if told.reason == Reason::CONSUMER));
    host.hears(Message::ConnectRequest(changed(|r| r.local_id = 99)));
    assert!(matches!(host.event(), Event::Asked { id: other, .. } if other != id));
    // What was rejected before is rejected still, if it comes again.
    host.hears(Message::ConnectRequest(request()));
    assert!(matches!(host.says(), Message::Reject(told) if told.reason == Reason::CONSUMER));
}

#[test]
fn another_host_may_have_the_same_numbers() {
    let mut host = Host::new();
    host.has_accepted();
    let asked = changed(|r| {
        r.primary.local_gid = STRANGE.gid();
        r.private_data[19] = 4;
    });
    host.hears_from(STRANGE, Message::ConnectRequest(asked));
    assert!(matches!(host.event(), Event::Asked { ends, .. } if ends.remote == STRANGE));
    host.is_unmoved();
}

#[test]
fn a_request_of_a_connection_that_has_ended_is_stale() {
    let mut host = Host::new();
    let id = host.has_accepted();
    host.hears(Message::DisconnectRequest(end(id)));
    host.event();
    host.manager.disconnect(host.now, id, &[]).expect("there was a connection");
    host.says();
    host.hears(Message::ConnectRequest(request()));
    assert!(matches!(host.says(), Message::Reject(told) if told.reason == Reason::STALE_CONNECTION));
    host.is_unmoved();
}

#[test]
fn a_reply_with_a_queue_pair_that_is_connected_is_stale() {
    let mut host = Host::new();
    host.has_accepted();
    let id = host.asks();
    let again = nonic_roce::ConnectReply { ids: Ids { local: 5, ..ids(id) }, ..reply(id) };
    host.hears(Message::ConnectReply(again));
    let Message::Reject(told) = host.says() else { panic!("no rejection") };
    assert_eq!((told.ids, told.answered), (Ids { local: id.number(), remote: 5 }, Answered::Reply));
    assert_eq!(told.reason, Reason::STALE_CONNECTION);
    // The same reply might come again when nothing is stale any more, and its sender has gone.
    let reason = Reason::STALE_CONNECTION;
    let told = Event::Rejected { id, answered: Answered::Reply, reason, private_data: Box::new([0; 148]) };
    assert_eq!(host.event(), told);
    host.hears(Message::ConnectReply(again));
    host.is_unmoved();
    host.waits(Duration::from_millis(512));
    assert_eq!(host.event(), Event::TimeWaitOver { id });
    assert_eq!(host.manager.len(), 1);
}

#[test]
fn a_reply_to_nothing_is_told_so() {
    let mut host = Host::new();
    let ids = Ids { local: THEIR_ID, remote: 12_345 };
    let id = host.asks();
    host.manager.release(host.now, id).expect("it was asked");
    host.says();
    host.hears(Message::ConnectReply(nonic_roce::ConnectReply { ids, ..reply(id) }));
    let Message::Reject(told) = host.says() else { panic!("no rejection") };
    assert_eq!((told.ids, told.reason.0), (Ids { local: 12_345, remote: THEIR_ID }, 6));
    assert_eq!(host.manager.poll_event(), None);
}

#[test]
fn what_the_peer_refuses_is_told_and_over() {
    // Of which state, how the peer may call it, and whether late packets can come.
    type Reached = fn(&mut Host) -> CommunicationId;
    let unknown = |id: CommunicationId| Ids { local: 0, remote: id.number() };
    let cases: [(Reached, Answered, bool, Reason, bool); 8] = [
        (Host::asks, Answered::Request, false, Reason::INVALID_SERVICE_ID, false),
        (Host::asks, Answered::Request, false, Reason::CONSUMER, false),
        (Host::asks, Answered::Request, false, Reason::STALE_CONNECTION, true),
        (Host::is_replied_to, Answered::Other, true, Reason::CONSUMER, true),
        (Host::is_connected, Answered::Other, true, Reason::CONSUMER, true),
        (Host::accepts, Answered::Reply, true, Reason::CONSUMER, false),
        (Host::accepts, Answered::Reply, true, Reason::STALE_CONNECTION, true),
        (Host::has_accepted, Answered::Other, true, Reason::CONSUMER, true),
    ];
    for (index, (reached, answered, is_known, reason, late)) in cases.into_iter().enumerate() {
        let mut host = Host::new();
        let id = reached(&mut host);
        let called = if is_known { ids(id) } else { unknown(id) };
        host.hears(Message::Reject(reject(called, answered, reason)));
        let told = Event::Rejected { id, answered, reason, private_data: Box::new([7; 148]) };
        assert_eq!(host.event(), told, "case {index}");
        host.is_unmoved();
        assert_eq!(host.manager.poll_timeout().is_some(), late, "case {index}");
        host.hears(Message::Reject(reject(called, answered, reason)));
        host.is_unmoved();
        if late {
            host.passes(Duration::from_millis(2048));
            assert_eq!(host.event(), Event::TimeWaitOver { id }, "case {index}");
        }
        assert!(host.manager.is_empty(), "case {index}");
        assert_eq!(host.manager.disconnect(host.now, id, &[]), Err(CallError::Unknown));
    }
}

#[test]
fn who_gives_up_asking_is_known_by_its_guid() {
    for reached in [Host::is_asked, Host::accepts] as [fn(&mut Host) -> CommunicationId; 2] {
        for guid in [THEIR_GUID + 1, THEIR_GUID] {
            let mut host = Host::new();
            let id = reached(&mut host);
            // It has not heard of our number.
            let ids = Ids { local: THEIR_ID, remote: 0 };
            let mut gives_up = reject(ids, Answered::Request, Reason::TIMEOUT);
            gives_up.info[..8].copy_from_slice(&guid.to_be_bytes());
            host.hears(Message::Reject(gives_up));
            // Without its GUID it is nobody.
            host.is_unmoved();
            assert_eq!(host.manager.len(), 1);
            gives_up.info_length = 8;
            host.hears(Message::Reject(gives_up));
            if guid == THEIR_GUID {
                assert!(matches!(host.event(), Event::Rejected { id: told, .. } if told == id));
                assert!(host.manager.is_empty());
            }
            host.is_unmoved();
        }
    }
}

#[test]
fn a_call_that_cannot_be_is_refused_and_nothing_is_said() {
    let mut host = Host::new();
    let (now, here) = (host.now, ends(THEIRS));
    let v6 = nonic_roce::HostAddress::V6([0xfd; 16]);
    let group = nonic_roce::HostAddress::V4([239, 0, 0, 1]);
    for ends in [ends(v6), ends(group), nonic_roce::Ends { local: v6, remote: THEIRS }] {
        assert_eq!(host.manager.connect(now, ends, SERVICE, &OFFER, &SIDE, &[]), Err(CallError::Addresses));
    }
    let too_long = CallError::PrivateData { length: 57, room: 56 };
    assert_eq!(host.manager.connect(now, here, SERVICE, &OFFER, &SIDE, &[0; 57]), Err(too_long));
    let too_long = CallError::PrivateData { length: 181, room: 180 };
    assert_eq!(host.manager.resolve_service(now, here, SERVICE, &[0; 181]), Err(too_long));
    for path_mtu in [0, 6] {
        let offer = nonic_roce::ConnectionOffer { path_mtu, ..OFFER };
        assert_eq!(host.manager.connect(now, here, SERVICE, &offer, &SIDE, &[]), Err(CallError::Range));
    }
    let side = nonic_roce::Side { qp_number: QpNumber(1 << 24), ..SIDE };
    assert_eq!(host.manager.connect(now, here, SERVICE, &OFFER, &side, &[]), Err(CallError::Range));
    host.is_unmoved();
    assert!(host.manager.is_empty());

    let id = host.is_asked();
    let too_long = CallError::PrivateData { length: 197, room: 196 };
    assert_eq!(host.manager.accept(now, id, &SIDE, &[0; 197]), Err(too_long));
    let too_long = CallError::PrivateData { length: 149, room: 148 };
    assert_eq!(host.manager.reject(now, id, Reason::CONSUMER, &[], &[0; 149]), Err(too_long));
    assert_eq!(host.manager.reject(now, id, Reason::CONSUMER, &[0; 73], &[]), Err(CallError::Range));
    assert_eq!(host.manager.establish(id, &[]), Err(CallError::State));
    assert_eq!(host.manager.communication_established(id), Err(CallError::State));
    assert_eq!(host.manager.disconnect(now, id, &[]), Err(CallError::State));
    host.is_unmoved();
    host.manager.accept(now, id, &SIDE, &[0; 196]).expect("it fits");
    host.says();
    assert_eq!(host.manager.accept(now, id, &SIDE, &[]), Err(CallError::State));
    assert_eq!(host.manager.reject(now, id, Reason::CONSUMER, &[], &[]), Err(CallError::State));
    assert_eq!((OUR_PAIR, host.manager.disconnect(now, id, &[])), (SIDE.qp_number, Err(CallError::State)));
    host.is_unmoved();
}

#[test]
fn a_rejection_that_overtakes_the_reply_is_one() {
    // Who accepted and then gave up names both numbers, of which this side does not know the peer's yet.
    for reason in [Reason::CONSUMER, Reason::TIMEOUT] {
        let mut host = Host::new();
        let id = host.asks();
        host.hears_from(STRANGE, Message::Reject(reject(ids(id), Answered::Other, reason)));
        let other = Ids { remote: id.number() + 1, ..ids(id) };
        host.hears(Message::Reject(reject(other, Answered::Other, reason)));
        host.is_unmoved();
        host.hears(Message::Reject(reject(ids(id), Answered::Other, reason)));
        assert!(
            matches!(host.event(), Event::Rejected { id: told, reason: why, .. } if told == id && why == reason)
        );
        host.is_unmoved();
        // The reply comes too late.
        host.hears(Message::ConnectReply(reply(id)));
        let Message::Reject(told) = host.says() else { panic!("no rejection") };
        assert_eq!((told.answered, told.reason), (Answered::Reply, Reason::INVALID_COMMUNICATION_ID));
        host.is_unmoved();
    }
}
