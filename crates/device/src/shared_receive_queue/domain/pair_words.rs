//! What processes say to each other of a queue pair of their domain that one has and another opens: its attributes, and what happens
//! to it.

use nonic_memory::Access;
use nonic_message::parts;
use nonic_protocol::{AddressVector, GlobalRoute, QpAttributes, QpNumber, QpState};

use crate::async_event::AsyncEventKind;

/// Attributes of a queue pair ([`QpAttributes`]), each as its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PairAttributes {
    /// State, current state, path MTU, path migration state, Q_Key, first packet numbers of receiver and sender, the peer, what it may do.
    words: [u32; 9],
    pkey_index: u16,
    drained_notify: bool,
    /// Reads and atomics as requester and as responder, RNR timer, port, timeout, retries, retries after RNR.
    bytes: [u8; 7],
    path: Option<Path>,
}

/// The path part of them ([`AddressVector`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    destination_lid: u16,
    /// Service level, source path bits, static rate, port.
    bytes: [u8; 4],
    global: Option<Route>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    destination: [u8; 16],
    flow_label: u32,
    /// Index of the source, hop limit, traffic class.
    bytes: [u8; 3],
}

parts!(PairAttributes { words, pkey_index, drained_notify, bytes, path });
parts!(Path { destination_lid, bytes, global });
parts!(Route { destination, flow_label, bytes });

impl From<&QpAttributes> for PairAttributes {
    fn from(attributes: &QpAttributes) -> Self {
        let QpAttributes {
            state,
            current_state,
            path_mtu,
            path_migration_state,
            q_key,
            receive_psn,
            send_psn,
            destination_qp,
            access,
            address_vector,
            pkey_index,
            drained_notify,
            max_rd_atomic,
            max_dest_rd_atomic,
            min_rnr_timer,
            port,
            timeout,
            retry_count,
            rnr_retry,
        } = *attributes;
        Self {
            words: [
                state as u32,
                current_state as u32,
                path_mtu,
                path_migration_state,
                q_key,
                receive_psn,
                send_psn,
                destination_qp.0,
                access.bits(),
            ],
            pkey_index,
            drained_notify,
            bytes: [max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port, timeout, retry_count, rnr_retry],
            path: address_vector.as_ref().map(Path::of),
        }
    }
}

impl PairAttributes {
    /// The attributes, if their numbers mean some.
    pub(super) fn attributes(&self) -> Option<QpAttributes> {
        let [
            state,
            current_state,
            path_mtu,
            path_migration_state,
            q_key,
            receive_psn,
            send_psn,
            destination,
            access,
        ] = self.words;
        let [max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port, timeout, retry_count, rnr_retry] =
            self.bytes;
        Some(QpAttributes {
            state: QpState::from_number(state)?,
            current_state: QpState::from_number(current_state)?,
            path_mtu,
            path_migration_state,
            q_key,
            receive_psn,
            send_psn,
            destination_qp: QpNumber(destination),
            access: Access::from_bits(access)?,
            address_vector: self.path.as_ref().map(Path::vector),
            pkey_index: self.pkey_index,
            drained_notify: self.drained_notify,
            max_rd_atomic,
            max_dest_rd_atomic,
            min_rnr_timer,
            port,
            timeout,
            retry_count,
            rnr_retry,
        })
    }
}

impl Path {
    fn of(vector: &AddressVector) -> Self {
        let AddressVector { destination_lid, service_level, source_path_bits, static_rate, port, global } =
            *vector;
        let global = global.map(|route| Route {
            destination: route.destination,
            flow_label: route.flow_label,
            bytes: [route.source_index, route.hop_limit, route.traffic_class],
        });
        Self { destination_lid, bytes: [service_level, source_path_bits, static_rate, port], global }
    }

    fn vector(&self) -> AddressVector {
        let [service_level, source_path_bits, static_rate, port] = self.bytes;
        let global = self.global.map(|Route { destination, flow_label, bytes }| {
            let [source_index, hop_limit, traffic_class] = bytes;
            GlobalRoute { destination, source_index, flow_label, hop_limit, traffic_class }
        });
        let destination_lid = self.destination_lid;
        AddressVector { destination_lid, service_level, source_path_bits, static_rate, port, global }
    }
}

/// What can happen to a queue pair that only receives.
const EVENTS: [AsyncEventKind; 4] = [
    AsyncEventKind::QpFatal,
    AsyncEventKind::QpRequestError,
    AsyncEventKind::QpAccessError,
    AsyncEventKind::CommunicationEstablished,
];

/// The event with this number.
pub(super) fn event_of(number: u32) -> Option<AsyncEventKind> {
    EVENTS.into_iter().find(|kind| *kind as u32 == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_comes_back_as_it_was() {
        let route = GlobalRoute {
            destination: [7; 16],
            source_index: 1,
            flow_label: 2,
            hop_limit: 3,
            traffic_class: 4,
        };
        let vector = AddressVector {
            destination_lid: 5,
            service_level: 6,
            source_path_bits: 7,
            static_rate: 8,
            port: 9,
            global: Some(route),
        };
        let all = QpAttributes {
            state: QpState::ReadyToReceive,
            current_state: QpState::Init,
            path_mtu: 10,
            path_migration_state: 11,
            q_key: 12,
            receive_psn: 13,
            send_psn: 14,
            destination_qp: QpNumber(15),
            access: Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            address_vector: Some(vector),
            pkey_index: 16,
            drained_notify: true,
            max_rd_atomic: 17,
            max_dest_rd_atomic: 18,
            min_rnr_timer: 19,
            port: 20,
            timeout: 21,
            retry_count: 22,
            rnr_retry: 23,
        };
        let along_a_lid = AddressVector { global: None, ..vector };
        for attributes in [
            all,
            QpAttributes { address_vector: Some(along_a_lid), ..all },
            QpAttributes { address_vector: None, ..all },
            QpAttributes::default(),
        ] {
            assert_eq!(PairAttributes::from(&attributes).attributes(), Some(attributes));
        }
    }

    #[test]
    fn numbers_that_mean_nothing_are_no_attributes_and_no_events() {
        for place in [0, 1, 8] {
            let mut wrong = PairAttributes::from(&QpAttributes::default());
            wrong.words[place] = 0x80;
            assert_eq!(wrong.attributes(), None, "{place}");
        }
        assert_eq!(event_of(AsyncEventKind::QpAccessError as u32), Some(AsyncEventKind::QpAccessError));
        assert_eq!(event_of(AsyncEventKind::DeviceFatal as u32), None);
        assert_eq!(event_of(99), None);
    }
}
