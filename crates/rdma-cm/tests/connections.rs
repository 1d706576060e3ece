//! Connections from the request to the end, in one process.

mod common;

use std::sync::Arc;

use common::{PATIENCE, Side, connect, connection, is_state, parameters, reached};
use nonic_device::{AttributeMask, QpNumber, QpState};
use nonic_rdma_cm::{Error, EventKind, Parameters, PortSpace, REJECT_CONSUMER, State};

const TCP: PortSpace = PortSpace::Tcp;

#[test]
fn a_connection_is_asked_for_accepted_established_and_ended() {
    let (near, far) = (Side::new(), Side::new());
    let listener = far.listener(TCP, "127.0.0.1", 0);
    let asking = near.asking(TCP, reached(&listener, "127.0.0.1"), b"question");

    let request = far.expect(EventKind::ConnectRequest);
    assert!(Arc::ptr_eq(request.listener.as_ref().unwrap(), &listener));
    let told = connection(&request);
    assert_eq!((told.private_data.len(), &told.private_data[..8]), (56, &b"question"[..]));
    // What the other side asks for is what this one answers.
    assert_eq!((told.responder_resources, told.initiator_depth), (2, 3));
    assert_eq!((told.retry_count, told.rnr_retry_count, told.queue_pair), (7, 6, QpNumber(77)));
    let asked = Arc::clone(&request.id);
    assert_eq!(asked.source(), asking.destination());
    assert_eq!(asked.destination(), asking.source());
    assert!(asked.context().is_some());
    drop(request);

    asked.accept(&parameters(b"answer", 88)).unwrap();
    let response = near.expect(EventKind::ConnectResponse);
    let told = connection(&response);
    assert_eq!((told.private_data.len(), &told.private_data[..6]), (196, &b"answer"[..]));
    assert_eq!(told.queue_pair, QpNumber(88));
    drop(response);
    assert!(far.is_silent(), "who asked is not ready yet");

    let (receives, _) = asking.queue_pair_attributes(QpState::ReadyToReceive).unwrap();
    let (sends, mask) = asked.queue_pair_attributes(QpState::ReadyToSend).unwrap();
    assert_eq!(receives.destination_qp, QpNumber(88));
    assert_eq!(receives.receive_psn, sends.send_psn);
    assert!(mask.has(AttributeMask::SQ_PSN) && sends.rnr_retry == 6 && sends.retry_count == 7);

    asking.establish().unwrap();
    far.expect(EventKind::Established);

    asking.disconnect().unwrap();
    far.expect(EventKind::Disconnected);
    assert!(near.is_silent(), "the other side has not answered");
    asked.disconnect().unwrap();
    near.expect(EventKind::Disconnected);
    near.expect(EventKind::TimewaitExit);
    far.expect(EventKind::TimewaitExit);
    // Again, on either side: nothing.
    asking.disconnect().unwrap();
    asked.disconnect().unwrap();
    assert_eq!((asking.state(), asked.state()), (State::Disconnect, State::Disconnect));
}

#[test]
fn both_sides_may_end_a_connection_at_the_same_time() {
    for _ in 0..20 {
        let (near, far) = (Side::new(), Side::new());
        let (asking, asked) = connect(&near, &far);
        asking.disconnect().unwrap();
        asked.disconnect().unwrap();
        near.expect(EventKind::Disconnected);
        far.expect(EventKind::Disconnected);
    }
}

#[test]
fn an_identifier_that_goes_ends_its_connection() {
    let (near, far) = (Side::new(), Side::new());
    let (asking, asked) = connect(&near, &far);
    asking.destroy();
    far.expect(EventKind::Disconnected);
    asked.disconnect().unwrap();

    let (asking, asked) = connect(&near, &far);
    drop(asked);
    near.expect(EventKind::Disconnected);
    drop(asking);
}

#[test]
fn a_request_is_rejected_with_private_data_and_a_reason() {
    let (near, far) = (Side::new(), Side::new());
    let listener = far.listener(TCP, "127.0.0.1", 0);
    let asking = near.asking(TCP, reached(&listener, "127.0.0.1"), b"");
    far.expect(EventKind::ConnectRequest).id.reject(b"no", REJECT_CONSUMER).unwrap();
    let rejected = near.expect(EventKind::Rejected);
    assert_eq!(rejected.status, 28);
    let told = connection(&rejected);
    assert_eq!((told.private_data.len(), &told.private_data[..3]), (148, &b"no\0"[..]));
    assert!(is_state(asking.connect(&parameters(b"", 77))), "it takes a new identifier");
}

#[test]
fn who_asked_may_reject_the_answer() {
    let (near, far) = (Side::new(), Side::new());
    let listener = far.listener(TCP, "127.0.0.1", 0);
    let asking = near.asking(TCP, reached(&listener, "127.0.0.1"), b"");
    let asked = Arc::clone(&far.expect(EventKind::ConnectRequest).id);
    asked.accept(&parameters(b"", 88)).unwrap();
    near.expect(EventKind::ConnectResponse);
    asking.reject(b"thanks", REJECT_CONSUMER).unwrap();
    let rejected = far.expect(EventKind::Rejected);
    assert_eq!(&connection(&rejected).private_data[..6], b"thanks");
}

#[test]
fn where_nobody_listens_a_request_is_rejected() {
    let near = Side::new();
    let free = near.id(TCP);
    free.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    // Bound, but nobody listens.
    let _asking = near.asking(TCP, reached(&free, "127.0.0.1"), b"");
    assert_eq!(near.expect(EventKind::Rejected).status, 8);
    let to = reached(&free, "127.0.0.1");
    free.destroy();
    let _asking = near.asking(TCP, to, b"");
    assert_eq!(near.expect(EventKind::Rejected).status, 8);
}

#[test]
fn a_wildcard_listener_is_found_over_every_address_of_its_family() {
    let (near, far) = (Side::new(), Side::new());
    let four = far.listener(TCP, "0.0.0.0", 0);
    assert!(four.context().is_none());
    for ip in ["127.0.0.1", "127.1.2.3"] {
        let asking = near.asking(TCP, reached(&four, ip), b"");
        let request = far.expect(EventKind::ConnectRequest);
        assert_eq!(request.id.source(), asking.destination());
    }
    let both = far.listener(TCP, "::", 0);
    for ip in ["::1", "127.0.0.1"] {
        let _asking = near.asking(TCP, reached(&both, ip), b"");
        assert_eq!(far.expect(EventKind::ConnectRequest).id.source().unwrap(), reached(&both, ip));
    }
    let _asking = near.asking(TCP, reached(&four, "::1"), b"");
    assert_eq!(near.expect(EventKind::Rejected).status, 8);
}

#[test]
fn requests_beyond_the_backlog_wait_until_one_is_got() {
    let (near, far) = (Side::new(), Side::new());
    let listener = far.listener(TCP, "127.0.0.1", 2);
    let to = reached(&listener, "127.0.0.1");
    let asking: Vec<_> = (0u8..5).map(|number| near.asking(TCP, to, &[number])).collect();
    let mut seen: Vec<_> =
        asking.iter().map(|_| connection(&far.expect(EventKind::ConnectRequest)).private_data[0]).collect();
    seen.sort();
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[test]
fn requests_that_nobody_got_are_rejected_when_the_listener_goes() {
    let (near, far) = (Side::new(), Side::new());
    let listener = far.listener(TCP, "127.0.0.1", 0);
    let _asking = near.asking(TCP, reached(&listener, "127.0.0.1"), b"");
    assert!(nonic_sys::wait_readable(far.channel.fd(), Some(PATIENCE)));
    listener.destroy();
    assert_eq!(near.expect(EventKind::Rejected).status, 28);
    assert!(far.is_silent());
}

#[test]
fn where_datagrams_go_is_told_and_there_is_no_connection() {
    let (near, far) = (Side::new(), Side::new());
    let listener = far.listener(PortSpace::Udp, "127.0.0.1", 0);
    let asking = near.asking(PortSpace::Udp, reached(&listener, "127.0.0.1"), b"who");
    let request = far.expect(EventKind::ConnectRequest);
    let Parameters::Datagram(told) = &request.parameters else { panic!("{request:?}") };
    assert_eq!((told.private_data.len(), &told.private_data[..3]), (180, &b"who"[..]));
    request.id.accept(&parameters(b"me", 99)).unwrap();
    let established = near.expect(EventKind::Established);
    let Parameters::Datagram(told) = &established.parameters else { panic!("{established:?}") };
    assert_eq!((told.queue_pair, told.queue_key), (QpNumber(99), 0x0123_4567));
    assert_eq!((told.private_data.len(), &told.private_data[..2]), (136, &b"me"[..]));
    drop(request);
    asking.disconnect().unwrap();
    assert!(far.is_silent() && near.is_silent());

    // Rejected, and nobody there.
    let _asking = near.asking(PortSpace::Udp, reached(&listener, "127.0.0.1"), b"");
    far.expect(EventKind::ConnectRequest).id.reject(b"no", REJECT_CONSUMER).unwrap();
    assert_eq!(near.expect(EventKind::Unreachable).status, 2);
    let to = reached(&listener, "127.0.0.1");
    listener.destroy();
    let _asking = near.asking(PortSpace::Udp, to, b"");
    assert_eq!(near.expect(EventKind::Unreachable).status, 1);
}

#[test]
fn more_private_data_than_fits_is_refused_and_the_identifier_is_as_before() {
    let (near, far) = (Side::new(), Side::new());
    let listener = far.listener(TCP, "127.0.0.1", 0);
    let asking = near.routed(TCP, reached(&listener, "127.0.0.1"));
    assert!(matches!(asking.connect(&parameters(&[1; 57], 77)), Err(Error::Argument(_))));
    assert_eq!(asking.state(), State::RouteResolved);
    asking.connect(&parameters(&[1; 56], 77)).unwrap();
    let asked = Arc::clone(&far.expect(EventKind::ConnectRequest).id);
    assert!(matches!(asked.accept(&parameters(&[1; 197], 88)), Err(Error::Argument(_))));
    assert!(matches!(asked.reject(&[1; 149], REJECT_CONSUMER), Err(Error::Argument(_))));
    asked.accept(&parameters(&[1; 196], 88)).unwrap();
    near.expect(EventKind::ConnectResponse);
}
