use nonic_protocol::Psn;
use proptest::prelude::*;

use super::*;
use crate::address::{HostAddress, flow_label_of_ports};
use crate::packet::vectors::said;

type Bytes = [u8; ManagementDatagram::LENGTH];

/// What a captured packet said to the connection manager.
fn captured(name: &str) -> Bytes {
    let (_, payload) = said(name);
    payload.try_into().expect("a message has 256 bytes")
}

fn message(name: &str) -> Message {
    ManagementDatagram::parse(&captured(name)).expect(name).message
}

const ASKER: HostAddress = HostAddress::V4([10, 77, 1, 2]);
const ASKED: HostAddress = HostAddress::V4([10, 77, 1, 3]);
/// How the two kernels called the connection.
const ASKERS_ID: u32 = 0x3ef2_8637;
const ASKEDS_ID: u32 = 0x2804_56af;

#[test]
fn captured_messages_are_read_and_written_again_to_the_last_byte() {
    let names =
        ["CM REQ", "CM REP", "CM RTU", "CM DREQ", "CM DREP", "CM REJ, reason 8", "SIDR_REQ", "SIDR_REP"];
    for name in names {
        let bytes = captured(name);
        let read = ManagementDatagram::parse(&bytes).expect(name);
        assert_eq!(read.emit(), bytes, "{name}");
        assert_eq!(read.transaction_id >> 32, 4, "{name}");
    }
}

#[test]
fn a_captured_request_says_what_the_kernel_asked_for() {
    let Message::ConnectRequest(request) = message("CM REQ") else { panic!("no request") };
    assert_eq!((request.local_id, request.service_id), (ASKERS_ID, PortSpace::Tcp.service_id(7174)));
    assert_eq!((request.qp_number, request.starting_psn), (QpNumber(0x1b), Psn(0x9a_ae29)));
    assert_eq!((request.responder_resources, request.initiator_depth), (1, 1));
    assert_eq!((request.remote_cm_timeout, request.local_cm_timeout), (20, 20));
    assert_eq!((request.retry_count, request.rnr_retry, request.max_cm_retries), (7, 7, 15));
    assert_eq!((request.transport, request.p_key, request.path_mtu), (Transport::Reliable, 0xffff, 3));
    assert_eq!((request.has_srq, request.flow_control, request.alternate), (false, false, None));
    let path = request.primary;
    assert_eq!((path.local_gid, path.remote_gid), (ASKER.gid(), ASKED.gid()));
    assert_eq!((path.local_lid, path.remote_lid, path.hop_limit, path.ack_timeout), (0xffff, 0xffff, 64, 19));
    let header =
        AddressHeader::parse(&request.private_data).expect("it was made by the RDMA connection manager");
    let expected = AddressHeader { source_port: 0x892d, source: ASKER, destination: ASKED };
    assert_eq!(header, expected);
    assert_eq!(path.flow_label, flow_label_of_ports(header.source_port, 7174));
    assert_eq!(header.emit(), request.private_data[..AddressHeader::LENGTH]);
}

#[test]
fn what_follows_a_request_says_whose_it_is() {
    let Message::ConnectReply(reply) = message("CM REP") else { panic!("no reply") };
    assert_eq!(reply.ids, Ids { local: ASKEDS_ID, remote: ASKERS_ID });
    assert_eq!((reply.qp_number, reply.starting_psn), (QpNumber(0x11), Psn(0xa8_cfed)));
    assert_eq!((reply.target_ack_delay, reply.rnr_retry, reply.failover), (15, 7, 0));
    let ids = Ids { local: ASKERS_ID, remote: ASKEDS_ID };
    let Message::ReadyToUse(ready) = message("CM RTU") else { panic!("it is not ready") };
    assert_eq!(ready.ids, ids);
    let Message::DisconnectRequest(end) = message("CM DREQ") else { panic!("no end") };
    assert_eq!((end.ids, end.remote_qp_number), (ids, QpNumber(0x11)));
    let Message::DisconnectReply(end) = message("CM DREP") else { panic!("no end") };
    assert_eq!(end.ids, reply.ids);
    let Message::Reject(reject) = message("CM REJ, reason 8") else { panic!("no rejection") };
    assert_eq!((reject.ids.local, reject.answered), (0, Answered::Request));
    assert_eq!((reject.reason, reject.info_length), (Reason::INVALID_SERVICE_ID, 0));
}

#[test]
fn captured_questions_for_a_datagram_service_are_understood() {
    let Message::ServiceRequest(request) = message("SIDR_REQ") else { panic!("no question") };
    assert_eq!((request.service_id >> 16, request.p_key), (PortSpace::Udp as u64, 0xffff));
    let header = AddressHeader::parse(&request.private_data).expect("addresses are in front");
    assert_eq!((header.source, header.destination), (ASKER, ASKED));
    let Message::ServiceReply(reply) = message("SIDR_REP") else { panic!("no answer") };
    assert_eq!((reply.request_id, reply.service_id), (request.request_id, request.service_id));
    assert_eq!((reply.status, reply.qp_number, reply.q_key), (0, QpNumber(0x12), 0x0123_4567));
}

#[test]
fn what_is_not_of_the_connection_manager_is_not_understood() {
    let right = captured("CM REQ");
    for (at, value) in [(0, 2), (1, 3), (2, 1), (3, 1), (17, 0x19), (17, 0x1a), (16, 1), (24 + 43, 2 << 1)] {
        let mut wrong = right;
        wrong[at] = value;
        assert_eq!(ManagementDatagram::parse(&wrong), None, "byte {at}");
    }
    let data = AddressHeader { source_port: 1, source: ASKER, destination: ASKED }.emit();
    for (at, value) in [(0, 1), (1, 0x50), (1, 0)] {
        let mut wrong = data;
        wrong[at] = value;
        assert_eq!(AddressHeader::parse(&wrong), None, "byte {at}");
    }
    assert_eq!(AddressHeader::parse(&data[..35]), None);
    let v6 = [HostAddress::V6([1; 16]), HostAddress::V6([2; 16])];
    let header = AddressHeader { source_port: 9, source: v6[0], destination: v6[1] };
    assert_eq!(AddressHeader::parse(&header.emit()), Some(header));
}

#[test]
fn in_front_of_private_data_are_addresses_or_nothing_as_the_first_two_bytes_say() {
    let header = AddressHeader { source_port: 1, source: ASKER, destination: ASKED };
    let data = header.emit();
    assert_eq!(Front::read(&data), Some(Front::Addresses(header)));
    for family in [0x00, 0x0f, 0x30, 0x50, 0xf0] {
        let mut other = data;
        other[1] = family;
        assert_eq!(Front::read(&other), Some(Front::Nothing), "family {family:#x}");
        other[0] = 1;
        assert_eq!(Front::read(&other), None, "another version");
    }
    assert_eq!((Front::read(&data[..35]), Front::read(&data[..1])), (None, None));
}

#[test]
fn a_packet_carries_a_message_from_queue_pair_1_to_queue_pair_1() {
    let (captured, payload) = said("CM REQ");
    let read = ManagementDatagram::of_packet(&captured, &payload).expect("it carries one");
    assert_eq!(read.emit(), payload[..]);
    // That of a kernel asks for an answer that nobody gives, and says of its path what differs.
    let ours = ManagementDatagram::packet(captured.base.psn);
    assert_eq!((ours.body, ours.base.destination), (captured.body, captured.base.destination));
    assert_eq!(ManagementDatagram::of_packet(&ours, &payload), Some(read));
    assert_eq!(ours.headers(payload.len() as u32).as_slice().len(), Base::LENGTH + 8);

    let limited = Packet { base: Base { p_key: 0x7fff, ..captured.base }, ..captured };
    assert_eq!(ManagementDatagram::of_packet(&limited, &payload), Some(read));
    let other_base = |base| Packet { base, ..captured };
    let other_body = |body| Packet { body: Body::Datagram(body), ..captured };
    for (name, wrong) in [
        ("queue pair", other_base(Base { destination: QpNumber(2), ..captured.base })),
        ("partition", other_base(Base { p_key: 0x1234, ..captured.base })),
        ("Q_Key", other_body(Datagram { q_key: 0x0123_4567, ..CARRIER })),
        ("source", other_body(Datagram { source: QpNumber(2), ..CARRIER })),
        ("immediate data", other_body(Datagram { immediate: Some(0), ..CARRIER })),
        ("no datagram", Packet { body: Body::Congestion, ..captured }),
    ] {
        assert_eq!(ManagementDatagram::of_packet(&wrong, &payload), None, "{name}");
    }
    for wrong in [&payload[..255], &[&payload[..], &[0]].concat(), &[]] {
        assert_eq!(ManagementDatagram::of_packet(&captured, wrong), None, "{} bytes", wrong.len());
    }
}

proptest! {
    #[test]
    fn whatever_is_understood_is_written_as_it_was_read(
        attribute in 0x10u8..0x1c,
        body in prop::collection::vec(any::<u8>(), 232),
    ) {
        let mut bytes: Bytes = [0; ManagementDatagram::LENGTH];
        bytes[..4].copy_from_slice(&CLASS);
        bytes[17] = attribute;
        bytes[HEADER..].copy_from_slice(&body);
        if let Some(read) = ManagementDatagram::parse(&bytes) {
            prop_assert_eq!(ManagementDatagram::parse(&read.emit()), Some(read));
        }
    }
}
