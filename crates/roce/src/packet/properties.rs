//! Whatever a packet is, it is read as it was written; whatever bytes are, reading them ends.

use std::vec::Vec;

use nonic_protocol::{AtomicChange, AtomicRequest, Key, Psn, QpNumber, RemoteRange, SrqNumber};
use proptest::prelude::*;

use super::*;
use crate::icrc::Route;

fn remotes() -> impl Strategy<Value = RemoteRange> {
    (any::<u64>(), any::<u32>()).prop_map(|(address, key)| RemoteRange { address, key: Key(key) })
}

fn reths() -> impl Strategy<Value = Reth> {
    (remotes(), any::<u32>()).prop_map(|(remote, length)| Reth { remote, length })
}

fn parts<F: Clone + core::fmt::Debug + 'static, L: Clone + core::fmt::Debug + 'static>(
    first: impl Strategy<Value = F> + Clone + 'static,
    last: impl Strategy<Value = L> + Clone + 'static,
) -> impl Strategy<Value = Part<F, L>> {
    prop_oneof![
        first.clone().prop_map(Part::First),
        Just(Part::Middle),
        last.clone().prop_map(Part::Last),
        (first, last).prop_map(|(first, last)| Part::Only(first, last)),
    ]
}

fn requests() -> impl Strategy<Value = Request> {
    let tail = prop_oneof![
        Just(Tail::Plain),
        any::<u32>().prop_map(Tail::Immediate),
        any::<u32>().prop_map(|key| Tail::Invalidate(Key(key))),
    ]
    .boxed();
    let change = prop_oneof![
        (any::<u64>(), any::<u64>()).prop_map(|(compare, swap)| AtomicChange::CompareSwap { compare, swap }),
        any::<u64>().prop_map(|add| AtomicChange::FetchAdd { add }),
    ];
    let check = prop::sample::select([FlushCheck::Once, FlushCheck::Twice].as_slice());
    prop_oneof![
        parts(Just(()), tail).prop_map(Request::Send),
        parts(reths().boxed(), any::<Option<u32>>().boxed()).prop_map(Request::Write),
        reths().prop_map(Request::Read),
        (remotes(), change).prop_map(|(remote, change)| Request::Atomic(AtomicRequest { remote, change })),
        (reths(), 0u8..16, 0u8..4, check).prop_map(|(reth, placement, selectivity, check)| {
            Request::Flush(Flush { reth, placement, selectivity, check })
        }),
    ]
}

fn aeths() -> impl Strategy<Value = Aeth> {
    let nak = prop::sample::select(
        [Nak::Sequence, Nak::InvalidRequest, Nak::RemoteAccess, Nak::RemoteOperation, Nak::Other].as_slice(),
    );
    let five = any::<u8>().prop_map(FiveBits::masked);
    let syndrome = prop_oneof![
        five.clone().prop_map(|code| Syndrome::Acknowledge(Credits::from_code(code))),
        five.prop_map(Syndrome::NotReady),
        nak.prop_map(Syndrome::Refuse),
    ];
    (syndrome, any::<u32>()).prop_map(|(syndrome, msn)| Aeth { syndrome, msn: Msn::masked(msn) })
}

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        aeths().prop_map(Answer::Acknowledge),
        aeths().prop_map(|aeth| Answer::Read(ReadPart::First(aeth))),
        Just(Answer::Read(ReadPart::Middle)),
        aeths().prop_map(|aeth| Answer::Read(ReadPart::Last(aeth))),
        aeths().prop_map(|aeth| Answer::Read(ReadPart::Only(aeth))),
        (aeths(), any::<u64>()).prop_map(|(aeth, old)| Answer::Atomic(aeth, old)),
    ]
}

fn bodies() -> impl Strategy<Value = Body> {
    let immediate = any::<Option<u32>>().boxed();
    let datagram =
        (any::<u32>(), any::<u32>(), any::<Option<u32>>()).prop_map(|(q_key, source, immediate)| Datagram {
            q_key,
            source: QpNumber::masked(source),
            immediate,
        });
    prop_oneof![
        requests().prop_map(Body::Request),
        answers().prop_map(Body::Answer),
        (any::<u32>(), requests())
            .prop_map(|(queue, request)| Body::ExtendedRequest(SrqNumber::masked(queue), request)),
        answers().prop_map(Body::ExtendedAnswer),
        parts(Just(()), immediate.clone()).prop_map(|part| Body::Unreliable(UnreliableRequest::Send(part))),
        parts(reths().boxed(), immediate).prop_map(|part| Body::Unreliable(UnreliableRequest::Write(part))),
        datagram.prop_map(Body::Datagram),
        Just(Body::Congestion),
    ]
}

fn packets() -> impl Strategy<Value = Packet> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (any::<u32>(), any::<u32>(), any::<u16>(), flags, bodies()).prop_map(|(to, psn, p_key, flags, body)| {
        let (solicited, migrated, ack_request, forward_congestion, backward_congestion) = flags;
        let base = Base {
            destination: QpNumber::masked(to),
            psn: Psn(psn & QpNumber::MASK),
            p_key,
            solicited,
            migrated,
            ack_request,
            forward_congestion,
            backward_congestion: backward_congestion || body == Body::Congestion,
        };
        Packet { base, body }
    })
}

fn envelopes() -> impl Strategy<Value = Envelope> {
    let v4 = (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u16>(), any::<bool>()).prop_map(
        |(source, destination, identification, dont_fragment)| Route::V4 {
            source,
            destination,
            identification,
            dont_fragment,
        },
    );
    let v6 = (any::<[u8; 16]>(), any::<[u8; 16]>())
        .prop_map(|(source, destination)| Route::V6 { source, destination });
    (prop_oneof![v4, v6], any::<u16>()).prop_map(|(route, source_port)| Envelope { route, source_port })
}

/// A packet as it travels, with as much of the payload as it may have.
fn written(envelope: &Envelope, packet: &Packet, payload: &[u8]) -> (Vec<u8>, usize) {
    let mut payload = if packet.body.has_payload() { payload } else { &[] };
    if packet.body.is_followed() {
        payload = &payload[..payload.len() & !3];
    }
    let headers = packet.headers(payload.len() as u32);
    let bytes = [headers.as_slice(), payload, headers.padding()].concat();
    let check = packet.check(envelope, &bytes);
    ([bytes.as_slice(), &check].concat(), payload.len())
}

proptest! {
    #[test]
    fn a_packet_is_read_as_it_was_written(
        envelope in envelopes(),
        packet in packets(),
        payload in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let (bytes, length) = written(&envelope, &packet, &payload);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(Packet::receive(&envelope, &bytes), Ok((packet, &payload[..length])));
    }

    #[test]
    fn headers_that_are_cut_short_are_refused(packet in packets(), cut in 0usize..HEADERS_MAX) {
        let headers = packet.headers(0);
        let bytes = headers.as_slice();
        if cut < bytes.len() {
            prop_assert!(Packet::parse(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_a_packet_or_refused(
        opcode in any::<u8>(),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = opcode;
        }
        if let Ok((packet, payload)) = Packet::parse(&bytes) {
            let headers = packet.headers(payload.len() as u32);
            prop_assert_eq!(headers.as_slice().len() + payload.len() + headers.padding().len(), bytes.len());
            let again = [headers.as_slice(), payload, headers.padding()].concat();
            prop_assert_eq!(Packet::parse(&again), Ok((packet, payload)));
        }
    }

    #[test]
    fn what_has_no_payload_is_refused_with_one(packet in packets(), length in 1usize..5) {
        if !packet.body.has_payload() {
            let with_payload = [packet.headers(0).as_slice(), [0; 20].split_at(length * 4).0].concat();
            let refused = matches!(Packet::parse(&with_payload), Err(Malformed::Payload { .. }));
            prop_assert!(refused);
        }
    }
}

#[test]
fn padding_is_behind_the_last_byte_of_a_message_only() {
    let mut bytes =
        Packet { base: Base::new(QpNumber(7), Psn(9)), body: Body::Request(Request::Send(Part::Middle)) }
            .headers(4)
            .as_slice()
            .to_vec();
    bytes.extend([1, 2, 3, 0]);
    assert_eq!(Packet::parse(&bytes).map(|(_, payload)| payload.len()), Ok(4));
    bytes[1] |= 1 << 4;
    assert_eq!(Packet::parse(&bytes), Err(Malformed::PaddedBeforeEnd { padding: 1 }));
    bytes[0] = 0x04;
    assert_eq!(Packet::parse(&bytes).map(|(_, payload)| payload), Ok([1, 2, 3].as_slice()));
    bytes.truncate(12);
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Padding { length: 0, padding: 1 }));
    bytes.extend([0; 5]);
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Padding { length: 5, padding: 1 }));
}

#[test]
fn opcodes_that_no_table_has_and_other_versions_are_refused() {
    let known: Vec<u8> = (0..=u8::MAX)
        .filter(|opcode| {
            let mut bytes = [0; HEADERS_MAX];
            bytes[0] = *opcode;
            !matches!(Packet::parse(&bytes), Err(Malformed::Opcode { .. }))
        })
        .collect();
    let reliable = (0x00..=0x14).chain([0x16, 0x17, 0x1c]);
    let expected: Vec<u8> = reliable
        .clone()
        .chain(0x20..=0x2b)
        .chain([0x64, 0x65, 0x81])
        .chain(reliable.map(|code| 0xa0 | code))
        .collect();
    assert_eq!(known, expected);
    let mut bytes = [0; Base::LENGTH];
    (bytes[0], bytes[1]) = (4, 1);
    assert_eq!(Packet::parse(&bytes), Err(Malformed::Version { version: 1 }));
}
