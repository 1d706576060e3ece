//! The states of a queue pair: section 7.2, from a table of its own.

use nonic_device::{AttributeMask, Key, QpAttributes, QpState, QpType, ScatterGather};

use crate::command::Command;
use crate::memory::EVERYTHING;
use crate::options::{DATAGRAM, End, Options, RELIABLE, UNRELIABLE};
use crate::pair::{Change, Pair, to_init, to_receive, to_send};
use crate::request::send;

use AttributeMask as A;
use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueDrain, SendQueueError};

const STATES: [QpState; 7] =
    [Reset, Init, ReadyToReceive, ReadyToSend, SendQueueDrain, SendQueueError, Error];

fn union(bits: &[A]) -> A {
    bits.iter().fold(A::NONE, |all, bit| all | *bit)
}

/// Required and optional attributes of a move, as the table of section 7.2 has them; `None`: no such move.
fn table(transport: QpType, from: QpState, to: QpState) -> Option<(A, A)> {
    let both = |required: &[A], optional: &[A]| Some((union(required), union(optional)));
    match (transport, from, to) {
        (_, _, Reset) => both(&[], &[]),
        (_, Reset, Error) => None,
        (_, _, Error) => both(&[], &[]),
        (QpType::UnreliableDatagram, Reset, Init) => both(&[A::PKEY_INDEX, A::PORT, A::QKEY], &[]),
        (_, Reset, Init) => both(&[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS], &[]),
        (QpType::UnreliableDatagram, Init, Init) => both(&[], &[A::PKEY_INDEX, A::PORT, A::QKEY]),
        (_, Init, Init) => both(&[], &[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS]),
        (QpType::UnreliableDatagram, Init, ReadyToReceive) => both(&[], &[A::PKEY_INDEX, A::QKEY]),
        (QpType::UnreliableConnection | QpType::ExtendedSend, Init, ReadyToReceive) => both(
            &[A::ADDRESS_VECTOR, A::PATH_MTU, A::DESTINATION_QP, A::RQ_PSN],
            &[A::ALTERNATE_PATH, A::ACCESS_FLAGS, A::PKEY_INDEX],
        ),
        (QpType::ReliableConnection | QpType::ExtendedReceive, Init, ReadyToReceive) => both(
            &[
                A::ADDRESS_VECTOR,
                A::PATH_MTU,
                A::DESTINATION_QP,
                A::RQ_PSN,
                A::MAX_DEST_RD_ATOMIC,
                A::MIN_RNR_TIMER,
            ],
            &[A::ALTERNATE_PATH, A::ACCESS_FLAGS, A::PKEY_INDEX],
        ),
        (QpType::UnreliableDatagram, ReadyToReceive, ReadyToSend) => {
            both(&[A::SQ_PSN], &[A::CURRENT_STATE, A::QKEY])
        }
        (QpType::UnreliableConnection, ReadyToReceive, ReadyToSend) => both(
            &[A::SQ_PSN],
            &[A::CURRENT_STATE, A::ALTERNATE_PATH, A::ACCESS_FLAGS, A::PATH_MIGRATION_STATE],
        ),
        (QpType::ExtendedSend, ReadyToReceive, ReadyToSend) => both(
            &[A::TIMEOUT, A::RETRY_COUNT, A::RNR_RETRY, A::SQ_PSN, A::MAX_RD_ATOMIC],
            &[A::CURRENT_STATE, A::ALTERNATE_PATH, A::ACCESS_FLAGS, A::PATH_MIGRATION_STATE],
        ),
        (QpType::ExtendedReceive, ReadyToReceive, ReadyToSend) => both(
            &[A::TIMEOUT, A::SQ_PSN],
            &[
                A::CURRENT_STATE,
                A::ALTERNATE_PATH,
                A::ACCESS_FLAGS,
                A::PATH_MIGRATION_STATE,
                A::MIN_RNR_TIMER,
            ],
        ),
        (QpType::ReliableConnection, ReadyToReceive, ReadyToSend) => both(
            &[A::TIMEOUT, A::RETRY_COUNT, A::RNR_RETRY, A::SQ_PSN, A::MAX_RD_ATOMIC],
            &[
                A::CURRENT_STATE,
                A::ALTERNATE_PATH,
                A::ACCESS_FLAGS,
                A::PATH_MIGRATION_STATE,
                A::MIN_RNR_TIMER,
            ],
        ),
        (QpType::UnreliableDatagram, ReadyToSend | SendQueueDrain | SendQueueError, ReadyToSend) => {
            both(&[], &[A::CURRENT_STATE, A::QKEY])
        }
        (QpType::UnreliableConnection | QpType::ExtendedSend, ReadyToSend | SendQueueDrain, ReadyToSend) => {
            both(&[], &[A::CURRENT_STATE, A::ACCESS_FLAGS, A::ALTERNATE_PATH, A::PATH_MIGRATION_STATE])
        }
        (QpType::ReliableConnection | QpType::ExtendedReceive, ReadyToSend | SendQueueDrain, ReadyToSend) => {
            both(
                &[],
                &[
                    A::CURRENT_STATE,
                    A::ACCESS_FLAGS,
                    A::ALTERNATE_PATH,
                    A::PATH_MIGRATION_STATE,
                    A::MIN_RNR_TIMER,
                ],
            )
        }
        (QpType::UnreliableConnection, SendQueueError, ReadyToSend) => {
            both(&[], &[A::CURRENT_STATE, A::ACCESS_FLAGS])
        }
        (_, ReadyToSend, SendQueueDrain) => both(&[], &[A::ENABLE_DRAINED_NOTIFY]),
        (QpType::UnreliableDatagram, SendQueueDrain, SendQueueDrain) => both(&[], &[A::PKEY_INDEX, A::QKEY]),
        (QpType::UnreliableConnection, SendQueueDrain, SendQueueDrain) => both(
            &[],
            &[A::ADDRESS_VECTOR, A::ALTERNATE_PATH, A::ACCESS_FLAGS, A::PKEY_INDEX, A::PATH_MIGRATION_STATE],
        ),
        (QpType::ExtendedSend, SendQueueDrain, SendQueueDrain) => both(
            &[],
            &[
                A::ADDRESS_VECTOR,
                A::ALTERNATE_PATH,
                A::ACCESS_FLAGS,
                A::PKEY_INDEX,
                A::PATH_MIGRATION_STATE,
                A::PORT,
                A::TIMEOUT,
                A::RETRY_COUNT,
                A::RNR_RETRY,
                A::MAX_RD_ATOMIC,
            ],
        ),
        (QpType::ExtendedReceive, SendQueueDrain, SendQueueDrain) => both(
            &[],
            &[
                A::ADDRESS_VECTOR,
                A::ALTERNATE_PATH,
                A::ACCESS_FLAGS,
                A::PKEY_INDEX,
                A::PATH_MIGRATION_STATE,
                A::PORT,
                A::TIMEOUT,
                A::MAX_DEST_RD_ATOMIC,
                A::MIN_RNR_TIMER,
            ],
        ),
        (QpType::ReliableConnection, SendQueueDrain, SendQueueDrain) => both(
            &[],
            &[
                A::ADDRESS_VECTOR,
                A::ALTERNATE_PATH,
                A::ACCESS_FLAGS,
                A::PKEY_INDEX,
                A::PATH_MIGRATION_STATE,
                A::PORT,
                A::TIMEOUT,
                A::RETRY_COUNT,
                A::RNR_RETRY,
                A::MAX_RD_ATOMIC,
                A::MAX_DEST_RD_ATOMIC,
                A::MIN_RNR_TIMER,
            ],
        ),
        _ => None,
    }
}

/// Whether an attribute concerns a queue pair of this type: those of the other end of an extended connection do not.
fn concerns(transport: QpType, bit: A) -> bool {
    match transport {
        QpType::ExtendedSend => !(A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER).has(bit),
        QpType::ExtendedReceive => !(A::MAX_RD_ATOMIC | A::RETRY_COUNT | A::RNR_RETRY).has(bit),
        _ => true,
    }
}

/// A queue pair of the client in a state; `None` if the type has no such state.
fn in_state(pair: &mut Pair, options: &Options, state: QpState) -> Option<End> {
    let end = pair.client.end(options);
    let path = pair.client.path();
    let steps = [to_init(options), to_receive(options, end.number, path), to_send(options)];
    let count = match state {
        Reset => 0,
        Init => 1,
        ReadyToReceive => 2,
        SendQueueError if options.transport.service() == QpType::ReliableConnection => return None,
        _ => 3,
    };
    for step in &steps[..count] {
        pair.client.modify(end.pair, *step);
    }
    match state {
        SendQueueDrain | Error => pair.client.move_to(&end, state),
        SendQueueError => {
            let nowhere = ScatterGather { address: 0, length: 8, key: Key(0) };
            let mut request = send(&[nowhere]);
            if options.transport == QpType::UnreliableDatagram {
                let destination = crate::command::Destination {
                    vector: path,
                    zone: end.zone,
                    number: end.number,
                    q_key: options.q_key,
                };
                request = request.to(destination);
            }
            pair.client.post(&end, request);
            pair.client.sent(&end);
        }
        _ => {}
    }
    assert_eq!(pair.client.state(&end), state);
    Some(end)
}

/// Valid values for every attribute, none of them what a fresh queue pair has.
fn values(pair: &mut Pair, end: &End, from: QpState, to: QpState) -> QpAttributes {
    QpAttributes {
        state: to,
        current_state: from,
        path_mtu: 3,
        path_migration_state: 0,
        q_key: 0x7777,
        receive_psn: 0x1234,
        send_psn: 0x4321,
        destination_qp: end.number,
        access: EVERYTHING,
        address_vector: Some(pair.client.path()),
        pkey_index: 0,
        drained_notify: true,
        max_rd_atomic: 3,
        max_dest_rd_atomic: 5,
        min_rnr_timer: 9,
        port: 1,
        timeout: 11,
        retry_count: 2,
        rnr_retry: 4,
    }
}

/// Every move of a type: with exactly what it needs, with all it takes, without each part of what it needs, with each
/// thing it does not take.
fn moves(pair: &mut Pair, options: &Options) {
    for from in STATES {
        for to in STATES {
            let Some(end) = in_state(pair, options, from) else { continue };
            let attributes = values(pair, &end, from, to);
            let before = pair.client.attributes(end.pair);
            let try_move = |pair: &mut Pair, mask: A| {
                pair.client.run(Command::Modify { pair: end.pair, attributes, mask: A::STATE | mask })
            };
            let name = format!("{:?} {from:?} to {to:?}", options.transport);
            let Some((required, optional)) = table(options.transport, from, to) else {
                for mask in [A::NONE, A::PKEY_INDEX | A::PORT | A::ACCESS_FLAGS, A::SQ_PSN] {
                    assert!(try_move(pair, mask).is_err(), "{name} was taken");
                    assert_eq!(pair.client.attributes(end.pair), before, "{name} changed something");
                }
                pair.reset();
                continue;
            };
            for bit in (1..32).map(|bit| AttributeMask(1 << bit)) {
                if !concerns(options.transport, bit) {
                    // Neither refused nor looked at.
                    continue;
                }
                let refused = if required.has(bit) {
                    try_move(pair, AttributeMask(required.0 & !bit.0))
                } else if !optional.has(bit) {
                    try_move(pair, required | bit)
                } else {
                    continue;
                };
                assert!(refused.is_err(), "{name} was taken although attribute {bit:?} is wrong");
                assert_eq!(pair.client.attributes(end.pair), before, "{name} changed something");
            }
            assert!(try_move(pair, required).is_ok(), "{name} was refused");
            assert_eq!(pair.client.state(&end), to, "{name}");
            pair.reset();
            let Some(end) = in_state(pair, options, from) else { continue };
            let attributes = values(pair, &end, from, to);
            let all = AttributeMask((required | optional | A::STATE).0 & !A::ALTERNATE_PATH.0);
            pair.client.modify(end.pair, (attributes, all));
            assert_eq!(pair.client.state(&end), to, "{name} with all it takes");
            if to != Reset && to != Error {
                assert_took(&pair.client.attributes(end.pair), &attributes, all, &name);
            }
            pair.reset();
        }
    }
}

/// The attributes of `mask` have the new values.
fn assert_took(seen: &QpAttributes, new: &QpAttributes, mask: A, name: &str) {
    let mut expected = *seen;
    expected.apply(new, mask);
    assert_eq!(*seen, expected, "{name} lost something");
}

pub(crate) fn a_reliable_queue_pair_makes_exactly_the_moves_of_the_table(pair: &mut Pair) {
    moves(pair, &RELIABLE);
}

pub(crate) fn each_end_of_an_extended_connection_makes_exactly_the_moves_of_the_table(pair: &mut Pair) {
    for transport in [QpType::ExtendedSend, QpType::ExtendedReceive] {
        moves(pair, &Options { transport, ..RELIABLE });
    }
}

pub(crate) fn an_unreliable_queue_pair_makes_exactly_the_moves_of_the_table(pair: &mut Pair) {
    moves(pair, &UNRELIABLE);
}

pub(crate) fn a_datagram_queue_pair_makes_exactly_the_moves_of_the_table(pair: &mut Pair) {
    moves(pair, &DATAGRAM);
}

#[track_caller]
fn refused(pair: &mut Pair, end: &End, good: Change, spoil: impl Fn(&mut QpAttributes)) {
    let (mut attributes, mask) = good;
    spoil(&mut attributes);
    let before = pair.client.attributes(end.pair);
    pair.client.refuses(Command::Modify { pair: end.pair, attributes, mask }, "Value");
    assert_eq!(pair.client.attributes(end.pair), before, "a refused move changed something");
}

pub(crate) fn a_value_out_of_range_is_refused_and_changes_nothing(pair: &mut Pair) {
    let end = pair.client.end(&RELIABLE);
    let path = pair.client.path();
    let init = to_init(&RELIABLE);
    for port in [0, 2, 255] {
        refused(pair, &end, init, |a| a.port = port);
    }
    refused(pair, &end, init, |a| a.pkey_index = 1);
    pair.client.modify(end.pair, init);
    let receive = to_receive(&RELIABLE, end.number, path);
    for path_mtu in [0, 6] {
        refused(pair, &end, receive, |a| a.path_mtu = path_mtu);
    }
    refused(pair, &end, receive, |a| a.max_dest_rd_atomic = 17);
    refused(pair, &end, receive, |a| a.address_vector = None);
    refused(pair, &end, receive, |a| {
        a.address_vector = Some(nonic_device::AddressVector { port: 2, ..path })
    });
    refused(pair, &end, (receive.0, receive.1 | A::ALTERNATE_PATH), |_| {});
    pair.client.modify(end.pair, receive);
    let send = to_send(&RELIABLE);
    refused(pair, &end, send, |a| a.timeout = 32);
    refused(pair, &end, send, |a| a.retry_count = 8);
    refused(pair, &end, send, |a| a.rnr_retry = 8);
    refused(pair, &end, send, |a| a.max_rd_atomic = 17);
    refused(pair, &end, (send.0, send.1 | A::CURRENT_STATE), |a| a.current_state = Init);
    pair.client.modify(end.pair, send);
}

pub(crate) fn packet_and_queue_pair_numbers_have_24_bits_and_rnr_timers_five(pair: &mut Pair) {
    let end = pair.client.end(&RELIABLE);
    let path = pair.client.path();
    pair.client.modify(end.pair, to_init(&RELIABLE));
    let (mut attributes, mask) = to_receive(&RELIABLE, nonic_device::QpNumber(0xab12_3456), path);
    attributes.receive_psn = 0xfe00_0001;
    attributes.min_rnr_timer = 0xe0 | 12;
    pair.client.modify(end.pair, (attributes, mask));
    let seen = pair.client.attributes(end.pair);
    assert_eq!((seen.destination_qp.0, seen.receive_psn, seen.min_rnr_timer), (0x12_3456, 1, 12));
}

pub(crate) fn a_path_without_a_gid_is_refused_on_ethernet(pair: &mut Pair) {
    let path = pair.client.path();
    pair.only(path.global.is_some(), "the port is InfiniBand");
    let end = pair.client.end(&RELIABLE);
    pair.client.modify(end.pair, to_init(&RELIABLE));
    let receive = to_receive(&RELIABLE, end.number, path);
    refused(pair, &end, receive, |a| {
        a.address_vector = Some(nonic_device::AddressVector { global: None, destination_lid: 1, ..path });
    });
    let wrong_index = path.global.map(|route| nonic_device::GlobalRoute { source_index: 200, ..route });
    refused(pair, &end, receive, |a| {
        a.address_vector = Some(nonic_device::AddressVector { global: wrong_index, ..path });
    });
}

pub(crate) fn a_queue_pair_reset_and_connected_again_works_like_a_new_one(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let unknown = nonic_device::RemoteRange { address: 0, key: Key(1) };
    pair.client.carry_out(&scene.client, crate::request::write(&[scene.near.all()], unknown));
    pair.server.async_event(nonic_device::AsyncEventKind::QpAccessError, scene.server.pair);
    for _ in 0..3 {
        pair.client.move_to(&scene.client, Reset);
        pair.server.move_to(&scene.server, Reset);
        pair.join(&scene.client, &RELIABLE, &scene.server, &RELIABLE);
        pair.server.receive(&scene.server, 1, &[scene.far.all()]);
        let request = send(&[scene.near.all()]);
        assert_eq!(pair.client.carry_out(&scene.client, request), nonic_device::Status::Success);
        assert_eq!(pair.server.received(&scene.server).status, nonic_device::Status::Success);
        pair.server.assert_holds(&scene.far, &crate::pair::Scene::bytes());
    }
}
