//! Every message survives its words, and nothing else is taken for one.

use nonic_protocol::Refusal;
use proptest::prelude::*;

use super::*;

const BASE: BaseHeader = BaseHeader::new(QpNumber(2), QpNumber(3), Psn(0), 0);

fn emitted(body: Body, payload: u32) -> [u64; HEADER_WORDS] {
    let mut words = [0; HEADER_WORDS];
    words[0] = emit(&Message { base: BASE, body }, 1, payload, |at, word| words[at] = word);
    words
}

#[test]
fn a_fragment_beyond_its_message_makes_no_sense() {
    let extent = Extent { total: 100, offset: 90 };
    let bodies = [
        Body::Request(Request::Send(SendFragment {
            extent,
            immediate: None,
            solicited: false,
            acknowledges: None,
        })),
        Body::Request(Request::SendInvalidate(InvalidateFragment { extent, key: Key(7), solicited: false })),
        Body::Request(Request::Write(WriteFragment {
            extent,
            remote: RemoteRange { address: 0, key: Key(7) },
            immediate: None,
            solicited: false,
        })),
        Body::Answer(Answer::ReadResponse(extent)),
    ];
    for body in bodies {
        assert!(parse(&emitted(body, 10)).is_some(), "{body:?}");
        assert!(parse(&emitted(body, 11)).is_none(), "{body:?}");
    }
}

#[test]
fn every_refusal_survives_the_ring_and_no_other_number_is_one() {
    let all = [
        Refusal::NotReady { timer: 31 },
        Refusal::NoAnswer,
        Refusal::OutOfSequence,
        Refusal::InvalidRequest,
        Refusal::Access,
        Refusal::Operation,
        Refusal::RequesterMemory,
        Refusal::CannotPull,
    ];
    for refusal in all {
        assert_eq!(refusal_of(number_of(refusal)), Some(refusal));
    }
    for number in [0u32, 9, 32 << 8 | 1, 1 << 8 | 2] {
        let mut words = emitted(Body::Answer(Answer::Refuse(Refusal::NoAnswer)), 0);
        words[2] = words[2] & 0xffff_ffff | u64::from(number) << 32;
        assert!(parse(&words).is_none(), "{number:#x}");
    }
}

#[test]
fn what_a_kind_needs_and_does_not_say_makes_no_sense() {
    let notify = WriteNotify { total: 9, immediate: 5, solicited: false };
    let invalidate = InvalidateFragment { extent: Extent::whole(9), key: Key(7), solicited: false };
    let remote = RemoteRange { address: 0, key: Key(7) };
    let (placement, selectivity) = (Placement::GLOBAL, Selectivity::Region);
    let flush = Body::Request(Request::Flush(FlushRequest { remote, length: 9, placement, selectivity }));
    let bodies = [
        flush,
        Body::Request(Request::WriteNotify(notify)),
        Body::Request(Request::SendInvalidate(invalidate)),
        Body::Answer(Answer::Refuse(Refusal::Access)),
    ];
    for body in bodies {
        let mut words = emitted(body, 9);
        assert!(parse(&words).is_some(), "{body:?}");
        words[0] &= !(IMMEDIATE << 24);
        assert!(parse(&words).is_none(), "{body:?}");
    }
    // Nor does a flush to nowhere, or of what is nothing.
    for (placement, selectivity, rest) in [(0, 0, 0), (4, 0, 0), (1, 2, 0), (1, 0, 1)] {
        let mut words = emitted(flush, 0);
        words[2] = words[2] & u64::from(u32::MAX) | (placement | selectivity << 8 | rest << 16) << 32;
        assert!(parse(&words).is_none(), "{placement} {selectivity} {rest}");
    }
    // Nor does a fragment of what has none.
    let mut words = emitted(Body::Request(Request::WriteNotify(notify)), 0);
    words[3] |= 1 << 32;
    assert!(parse(&words).is_none());
}

#[test]
fn only_requests_are_for_a_shared_receive_queue_and_its_number_has_24_bits() {
    let send =
        SendFragment { extent: Extent::whole(9), immediate: None, solicited: false, acknowledges: None };
    let plain = emitted(Body::Request(Request::Send(send)), 9);
    let queue = QueueName::of(SrqNumber(77));
    let extended = Message { base: BASE.for_queue(queue), body: Body::Request(Request::Send(send)) };
    let mut words = [0; HEADER_WORDS];
    words[0] = emit(&extended, 0, 9, |at, word| words[at] = word);
    assert!(parse(&words).is_some() && words_of(words[0]) == words_of(plain[0]).map(|count| count + 1));
    for wrong in [0, 1 << 24, u64::MAX] {
        let mut words = words;
        words[3] = wrong;
        assert!(parse(&words).is_none(), "{wrong:#x}");
    }
    for body in [
        Body::Answer(Answer::Acknowledge),
        Body::Answer(Answer::Ready),
        Body::Answer(Answer::AtomicResponse { old: 1 }),
    ] {
        let mut words = emitted(body, 0);
        words[0] |= EXTENDED << 24;
        assert!(parse(&words).is_none(), "{body:?}");
    }
}

/// Any message, with the bytes it can have.
fn message() -> impl Strategy<Value = (Message, u32)> {
    let base =
        (0u32..1 << 24, 0u32..1 << 24, 0u32..1 << 24, any::<u8>()).prop_map(|(to, from, psn, attempt)| {
            BaseHeader::new(QpNumber(to), QpNumber(from), Psn(psn), attempt)
        });
    let fragment = (0u32..=8192, 0u32..1 << 30, 0u32..1 << 30)
        .prop_map(|(payload, offset, behind)| (Extent { total: offset + payload + behind, offset }, payload));
    let extent = prop_oneof![fragment, (0u32..=8192).prop_map(|payload| (Extent::whole(payload), payload))];
    let remote =
        (any::<u64>(), any::<u32>()).prop_map(|(address, key)| RemoteRange { address, key: Key(key) });
    let second = prop_oneof![
        Just((None, None)),
        any::<u32>().prop_map(|immediate| (Some(immediate), None)),
        (0u32..1 << 24).prop_map(|psn| (None, Some(Psn(psn)))),
    ];
    let immediate = prop::option::of(any::<u32>());
    let requests = (extent, remote, second, immediate, any::<bool>(), any::<u64>(), any::<u64>(), 0u8..16);
    let body = requests.prop_map(
        |((extent, payload), remote, (said, acknowledges), immediate, solicited, one, two, kind)| {
            let total = extent.total;
            let request = |request| (Body::Request(request), payload);
            match kind {
                0 | 1 => {
                    request(Request::Send(SendFragment { extent, immediate: said, solicited, acknowledges }))
                }
                2 => request(Request::Pull(SendPull { total, immediate: said, solicited, acknowledges })),
                3 => request(Request::SendInvalidate(InvalidateFragment {
                    extent,
                    key: remote.key,
                    solicited,
                })),
                4 => request(Request::Write(WriteFragment { extent, remote, immediate, solicited })),
                5 => request(Request::WriteNotify(WriteNotify { total, immediate: one as u32, solicited })),
                6 => request(Request::Read(ReadRequest { remote, total })),
                7 => request(Request::Atomic(AtomicRequest {
                    remote,
                    change: AtomicChange::CompareSwap { compare: one, swap: two },
                })),
                8 => request(Request::Atomic(AtomicRequest {
                    remote,
                    change: AtomicChange::FetchAdd { add: one },
                })),
                9 => (Body::Answer(Answer::Acknowledge), 0),
                10 => (Body::Answer(Answer::Refuse(Refusal::NotReady { timer: one as u8 & 31 })), 0),
                11 => (Body::Answer(Answer::ReadResponse(extent)), payload),
                12 => (Body::Answer(Answer::AtomicResponse { old: one }), 0),
                13 => (Body::Answer(Answer::Ready), 0),
                14 => (
                    Body::Request(Request::Flush(FlushRequest {
                        remote,
                        length: total,
                        placement: Placement::from_bits(one as u8 % 3 + 1).unwrap(),
                        selectivity: Selectivity::from_number(two as u8 & 1).unwrap(),
                    })),
                    0,
                ),
                _ => {
                    let (q_key, source_lid) = (remote.key.0, one as u16);
                    let global_header = two & 1 != 0;
                    let datagram = Datagram { q_key, source_lid, global_header, immediate, solicited };
                    (Body::Datagram(datagram), payload)
                }
            }
        },
    );
    let queue = prop::option::of((0u32..1 << 24).prop_map(SrqNumber));
    (base, body, queue).prop_map(|(base, (body, payload), queue)| {
        let queue = match (body, queue) {
            (Body::Request(_), Some(queue)) => QueueName::of(queue),
            _ => QueueName::NONE,
        };
        (Message { base: base.for_queue(queue), body }, payload)
    })
}

proptest! {
    #[test]
    fn rubbish_is_parsed_without_harm(words in prop::array::uniform8(any::<u64>())) {
        if let Some((_, count, _)) = parse(&words) {
            prop_assert!((3..=HEADER_WORDS).contains(&count));
        }
    }

    #[test]
    fn what_is_emitted_is_parsed((message, payload) in message(), stamp: u16) {
        let mut words = [0; HEADER_WORDS];
        words[0] = emit(&message, stamp, payload, |at, word| words[at] = word);
        let count = words_for(&message, payload);
        prop_assert_eq!(words[0] as u16, stamp);
        prop_assert_eq!(words_of(words[0]), Some(count));
        prop_assert_eq!(parse(&words), Some((Entry::Message(message), count, payload)));
    }
}
