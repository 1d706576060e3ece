//! The captured conversations of two kernels (Linux 6.1 asks, 6.12 is asked), each side played by the machine, to the last byte.

use core::time::Duration;
use std::collections::VecDeque;

use nonic_protocol::{Psn, QpNumber};

use super::*;
use crate::management::{Naming, PortSpace, Transport};
use crate::packet::vectors::said;

const ASKER: HostAddress = HostAddress::V4([10, 77, 1, 2]);
const ASKED: HostAddress = HostAddress::V4([10, 77, 1, 3]);
const NOW: Duration = Duration::from_secs(5);
const TRANSACTION: u64 = 0x4_3786_f23e;

fn captured(name: &str) -> [u8; ManagementDatagram::LENGTH] {
    said(name).1.try_into().expect("a message has 256 bytes")
}

fn read(name: &str) -> ManagementDatagram {
    ManagementDatagram::parse(&captured(name)).expect(name)
}

/// One side, which takes these numbers where others take some by chance.
struct Host {
    manager: ConnectionManager<Duration>,
    ends: Ends,
}

impl Host {
    fn new(local: HostAddress, remote: HostAddress, settings: ManagerSettings, numbers: &[u64]) -> Self {
        let mut numbers = VecDeque::from(numbers.to_vec());
        let next = move || numbers.pop_front().expect("there is a number left");
        Self { manager: ConnectionManager::new(settings, Box::new(next)), ends: Ends { local, remote } }
    }

    fn hears(&mut self, name: &str) {
        self.manager.handle(NOW, self.ends, &read(name));
    }

    #[track_caller]
    fn says(&mut self, name: &str) {
        let outgoing = self.manager.poll_transmit().expect(name);
        assert_eq!((outgoing.ends, outgoing.datagram), (self.ends, read(name)));
        assert_eq!(outgoing.datagram.emit(), captured(name), "{name}");
        assert_eq!(self.manager.poll_transmit(), None);
    }

    fn event(&mut self) -> Event {
        self.manager.poll_event().expect("something happened")
    }
}

/// What the kernel said of its queue pair.
fn side(qp_number: u32, starting_psn: u32, reads: u8) -> Side {
    Side {
        qp_number: QpNumber(qp_number),
        starting_psn: Psn(starting_psn),
        responder_resources: reads,
        initiator_depth: reads,
        rnr_retry: 7,
        flow_control: false,
        has_srq: false,
        q_key: 0,
    }
}

fn offer() -> ConnectionOffer {
    ConnectionOffer {
        transport: Transport::Reliable,
        path_mtu: 3,
        retry_count: 7,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: None,
    }
}

fn guid(name: &str) -> u64 {
    match read(name).message {
        Message::ConnectRequest(request) => request.ca_guid,
        Message::ConnectReply(reply) => reply.ca_guid,
        other => panic!("no GUID in {other:?}"),
    }
}

#[test]
fn who_asks_says_what_a_kernel_said() {
    // Linux 6.1 lets packets live longer.
    let settings = ManagerSettings { packet_lifetime: 18, ..ManagerSettings::new(guid("CM REQ")) };
    let mut host = Host::new(ASKER, ASKED, settings, &[0x3ef2_8637, TRANSACTION]);
    let service = Service::Port { space: PortSpace::Tcp, port: 7174, source_port: 0x892d };
    let (ends, side) = (host.ends, side(0x1b, 0x9a_ae29, 1));
    let id = host.manager.connect(NOW, ends, service, &offer(), &side, &[]).expect("it is asked");
    host.says("CM REQ");
    host.hears("CM REP");
    let Event::Replied { id: replied, reply } = host.event() else { panic!("no reply") };
    assert_eq!((replied, reply.qp_number), (id, QpNumber(0x11)));
    host.manager.establish(id, &[]).expect("there is a reply");
    host.says("CM RTU");
    host.hears("CM REP");
    host.says("CM RTU");
    host.manager.disconnect(NOW, id, &[]).expect("there is a connection");
    host.says("CM DREQ");
    host.hears("CM DREP");
    assert_eq!(host.event(), Event::Disconnected { id, how: Disconnection::Agreed, private_data: None });
    // 2^(19 - 8) ms.
    let over = NOW + Duration::from_millis(2048);
    assert_eq!(host.manager.poll_timeout(), Some(over));
    host.manager.handle_timeout(over);
    assert_eq!((host.event(), host.manager.is_empty()), (Event::TimeWaitOver { id }, true));
}

#[test]
fn who_is_asked_says_what_a_kernel_said() {
    let settings = ManagerSettings::new(guid("CM REP"));
    let mut host = Host::new(ASKED, ASKER, settings, &[0x2804_56af, 99]);
    let connections = Accepts::Connections(Transport::Reliable);
    host.manager
        .listen(PortSpace::Tcp.service_id(7174), Naming::Ip, None, connections)
        .expect("nobody listens");
    host.hears("CM REQ");
    let Event::Asked { id, ends, header, request } = host.event() else { panic!("no request") };
    assert_eq!((ends, request.qp_number), (host.ends, QpNumber(0x1b)));
    let header = header.expect("it is for a port");
    assert_eq!((header.source, header.destination, header.source_port), (ASKER, ASKED, 0x892d));
    assert_eq!(behind_header(Some(header), &request.private_data), [0; 56]);
    host.manager.accept(NOW, id, &side(0x11, 0xa8_cfed, 1), &[]).expect("there is a request");
    host.says("CM REP");
    host.hears("CM RTU");
    assert_eq!(host.event(), Event::Established { id });
    host.hears("CM DREQ");
    assert_eq!(
        host.event(),
        Event::Disconnected { id, how: Disconnection::ByPeer, private_data: Some(Box::new([0; 220])) }
    );
    host.manager.disconnect(NOW, id, &[]).expect("there was a connection");
    host.says("CM DREP");
    host.hears("CM DREQ");
    host.says("CM DREP");
}

#[test]
fn where_nobody_listens_the_answer_is_that_of_a_kernel() {
    let mut host = Host::new(ASKED, ASKER, ManagerSettings::new(7), &[]);
    let mut request = read("CM REQ");
    let Message::ConnectRequest(asked) = &mut request.message else { panic!("no request") };
    // Of another conversation, so with other numbers.
    let answer = read("CM REJ, reason 8");
    let Message::Reject(reject) = answer.message else { panic!("no rejection") };
    asked.local_id = reject.ids.remote;
    request.transaction_id = answer.transaction_id;
    host.manager.handle(NOW, host.ends, &request);
    host.says("CM REJ, reason 8");
    assert!(host.manager.is_empty() && host.manager.poll_event().is_none());
}

#[test]
fn questions_for_a_service_and_their_answers_are_those_of_a_kernel() {
    let question = read("SIDR_REQ");
    let Message::ServiceRequest(asked) = question.message else { panic!("no question") };
    let header = crate::AddressHeader::parse(&asked.private_data).expect("it is for a port");
    let numbers = [asked.request_id.into(), question.transaction_id];
    let mut asker = Host::new(ASKER, ASKED, ManagerSettings::new(7), &numbers);
    let port = asked.service_id as u16;
    let service = Service::Port { space: PortSpace::Udp, port, source_port: header.source_port };
    let ends = asker.ends;
    let id = asker.manager.resolve_service(NOW, ends, service, &[]).expect("it is asked");
    asker.says("SIDR_REQ");

    let mut host = Host::new(ASKED, ASKER, ManagerSettings::new(8), &[1, 2]);
    host.manager
        .listen(asked.service_id, Naming::Ip, Some(ASKED), Accepts::Datagrams)
        .expect("nobody listens");
    host.hears("SIDR_REQ");
    let Event::ServiceAsked { id: question, header: found, .. } = host.event() else { panic!("no question") };
    assert_eq!(found, Some(header));
    let answer = ServiceAnswer::QueuePair { number: QpNumber(0x12), q_key: 0x0123_4567 };
    host.manager.answer_service(NOW, question, answer, &[]).expect("there is a question");
    host.says("SIDR_REP");

    asker.hears("SIDR_REP");
    let Event::ServiceAnswered { id: answered, answer: found, .. } = asker.event() else {
        panic!("no answer")
    };
    assert_eq!((answered, found, asker.manager.is_empty()), (id, answer, true));
}
