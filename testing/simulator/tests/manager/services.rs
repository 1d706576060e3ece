//! Questions where datagrams go to.

use nonic_protocol::QpNumber;
use nonic_roce::{
    CallError, Event, Message, PortSpace, ServiceAnswer, ServiceReply, ServiceRequest, behind_header,
};

use crate::host::{
    Host, PORT, SERVICE, STRANGE, THEIR_ID, THEIRS, ends, question, request as request_of_a_port,
};

fn answer(request_id: u32, status: u8) -> ServiceReply {
    ServiceReply {
        request_id,
        status,
        info_length: 0,
        qp_number: QpNumber(0x12),
        service_id: PortSpace::Udp.service_id(PORT),
        q_key: 0x0123_4567,
        info: [0; 72],
        private_data: [9; 136],
    }
}

#[test]
fn who_is_asked_is_told_by_whom_and_says_where() {
    let mut host = Host::new();
    host.hears(Message::ServiceRequest(question()));
    let Event::ServiceAsked { id, ends: told, header, request } = host.event() else { panic!("no question") };
    assert_eq!((told, *request), (ends(THEIRS), question()));
    assert_eq!(behind_header(header, &request.private_data), [0xcd; 180]);
    assert_eq!(host.manager.accept(host.now, id, &crate::host::SIDE, &[]), Err(CallError::State));
    let there = ServiceAnswer::QueuePair { number: QpNumber(0x12), q_key: 5 };
    let too_long = Err(CallError::PrivateData { length: 137, room: 136 });
    assert_eq!(host.manager.answer_service(host.now, id, there, &[0; 137]), too_long);
    let nothing = ServiceAnswer::Refused(0);
    assert_eq!(host.manager.answer_service(host.now, id, nothing, &[]), Err(CallError::Range));
    host.is_unmoved();
    host.manager.answer_service(host.now, id, there, b"data").expect("there is a question");
    let Message::ServiceReply(reply) = host.says() else { panic!("no answer") };
    assert_eq!((reply.request_id, reply.status), (THEIR_ID, 0));
    assert_eq!((reply.qp_number, reply.q_key, &reply.private_data[..4]), (QpNumber(0x12), 5, &b"data"[..]));
}

#[test]
fn who_asks_by_gids_has_no_addresses_in_front_and_the_listener_is_told_so() {
    for family in [0x00, 0x50, 0xf0] {
        let mut host = Host::new();
        let mut asked = question();
        asked.private_data = [0xcd; 216];
        asked.private_data[..2].copy_from_slice(&[0, family]);
        host.hears(Message::ServiceRequest(asked));
        let Event::ServiceAsked { header, request, .. } = host.event() else { panic!("no question") };
        assert_eq!((header, *request), (None, asked));
        assert_eq!(behind_header(header, &request.private_data), asked.private_data);

        let mut asked = request_of_a_port();
        asked.private_data = [0xcd; 92];
        asked.private_data[..2].copy_from_slice(&[0, family]);
        host.hears(Message::ConnectRequest(asked));
        let Event::Asked { header, request, .. } = host.event() else { panic!("no request") };
        assert_eq!((header, behind_header(header, &request.private_data)), (None, &asked.private_data[..]));
    }
}

#[test]
fn a_question_is_refused_for_its_reason_and_nothing_is_kept() {
    let mut cases = [(question(), 1), (question(), 2), (question(), 2), (question(), 2)];
    cases[0].0.service_id += 1;
    cases[1].0.service_id = PortSpace::Tcp.service_id(PORT);
    cases[2].0.private_data[0] = 1;
    cases[3].0.private_data[19] = 9;
    for (asked, status) in cases {
        let mut host = Host::new();
        host.hears(Message::ServiceRequest(asked));
        let Message::ServiceReply(reply) = host.says() else { panic!("no answer") };
        assert_eq!((reply.request_id, reply.status, reply.service_id), (THEIR_ID, status, asked.service_id));
        host.is_unmoved();
        assert!(host.manager.is_empty());
    }
}

#[test]
fn the_answer_is_told_once_and_only_the_peers() {
    for (status, told) in [
        (0, ServiceAnswer::QueuePair { number: QpNumber(0x12), q_key: 0x0123_4567 }),
        (1, ServiceAnswer::Refused(1)),
        (2, ServiceAnswer::Refused(2)),
    ] {
        let mut host = Host::new();
        let id = host.manager.resolve_service(host.now, ends(THEIRS), SERVICE, &[]).expect("it is asked");
        host.says();
        let reply = answer(id.number(), status);
        host.hears_from(STRANGE, Message::ServiceReply(reply));
        host.hears(Message::ServiceReply(answer(id.number() + 1, status)));
        host.is_unmoved();
        host.hears(Message::ServiceReply(reply));
        assert_eq!(host.event(), Event::ServiceAnswered { id, answer: told, reply: Box::new(reply) });
        assert!(host.manager.is_empty());
        host.hears(Message::ServiceReply(reply));
        host.is_unmoved();
    }
}

#[test]
fn a_question_and_a_request_may_have_the_same_number() {
    let mut host = Host::new();
    let id = host.is_asked();
    host.hears(Message::ServiceRequest(ServiceRequest { request_id: THEIR_ID, ..question() }));
    assert!(matches!(host.event(), Event::ServiceAsked { id: other, .. } if other != id));
    assert_eq!(host.manager.len(), 2);
}
