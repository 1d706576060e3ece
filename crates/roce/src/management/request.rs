//! The request for a connection (IBTA vol. 1, 12.6.5, table 99).

use nonic_protocol::{Psn, QpNumber};

use super::fields::{Fields, FieldsMut};

/// The service that a connection is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Reliable.
    Reliable,
    /// Unreliable.
    Unreliable,
    /// Extended reliable (annex A14).
    Extended,
}

/// The way between the two ends, as the one that asks sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Local identifier of the one that asks; by IP all ones.
    pub local_lid: u16,
    /// Of the one that is asked.
    pub remote_lid: u16,
    /// GID of the one that asks.
    pub local_gid: [u8; 16],
    /// Of the one that is asked.
    pub remote_gid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Packet rate, 6 bits, as `enum ibv_rate`; 0 is the port's.
    pub packet_rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub service_level: u8,
    /// Whether both ends are in one subnet.
    pub subnet_local: bool,
    /// Exponent of the time after which the one that is asked repeats, 5 bits.
    pub ack_timeout: u8,
}

impl Path {
    const LENGTH: usize = 44;

    fn parse(bytes: &[u8]) -> Self {
        let fields = Fields(bytes);
        let label = fields.u32(36);
        Self {
            local_lid: fields.u16(0),
            remote_lid: fields.u16(2),
            local_gid: fields.bytes(4),
            remote_gid: fields.bytes(20),
            flow_label: label >> 12,
            packet_rate: label as u8 & 0x3f,
            traffic_class: fields.u8(40),
            hop_limit: fields.u8(41),
            service_level: fields.u8(42) >> 4,
            subnet_local: fields.u8(42) & 8 != 0,
            ack_timeout: fields.u8(43) >> 3,
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        let mut fields = FieldsMut(bytes);
        fields.put(0, &self.local_lid.to_be_bytes());
        fields.put(2, &self.remote_lid.to_be_bytes());
        fields.put(4, &self.local_gid);
        fields.put(20, &self.remote_gid);
        let label = self.flow_label << 12 | u32::from(self.packet_rate & 0x3f);
        fields.put(36, &label.to_be_bytes());
        let level = self.service_level << 4 | u8::from(self.subnet_local) << 3;
        fields.put(40, &[self.traffic_class, self.hop_limit, level, self.ack_timeout << 3]);
    }
}

/// The request for a connection (REQ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// How the one that asks calls the connection.
    pub local_id: u32,
    /// What is asked for.
    pub service_id: u64,
    /// GUID of the channel adapter that asks.
    pub ca_guid: u64,
    /// Q_Key, of a datagram service.
    pub q_key: u32,
    /// Queue pair of the one that asks.
    pub qp_number: QpNumber,
    /// Reads and atomics that it answers at a time.
    pub responder_resources: u8,
    /// Reads and atomics that it would have under way.
    pub initiator_depth: u8,
    /// Exponent of the time in which the one that is asked should answer a message of this connection, 5 bits.
    pub remote_cm_timeout: u8,
    /// The service.
    pub transport: Transport,
    /// Whether the one that asks counts credits.
    pub flow_control: bool,
    /// Number of the first packet that the other side is to send to it.
    pub starting_psn: Psn,
    /// Exponent of the time in which it answers a message of this connection, 5 bits.
    pub local_cm_timeout: u8,
    /// Retries of the one that is asked, 3 bits.
    pub retry_count: u8,
    /// Partition.
    pub p_key: u16,
    /// Payload of a packet, as `enum ibv_mtu`, 4 bits.
    pub path_mtu: u8,
    /// RNR retries of the one that is asked, 3 bits.
    pub rnr_retry: u8,
    /// How often messages of this connection are repeated, 4 bits.
    pub max_cm_retries: u8,
    /// Whether the queue pair takes its receives from a shared queue.
    pub has_srq: bool,
    /// The way.
    pub primary: Path,
    /// Another way; all zeros if there is none.
    pub alternate: Option<Path>,
    /// The program's.
    pub private_data: [u8; 92],
}

const PRIMARY: usize = 52;
const ALTERNATE: usize = PRIMARY + Path::LENGTH;
const PRIVATE: usize = ALTERNATE + Path::LENGTH;

impl ConnectRequest {
    /// `None`: a service of which nothing is known.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let fields = Fields(bytes);
        let (service, timeout) = (fields.u8(43), fields.u8(47));
        let (limits, retries) = (fields.u8(50), fields.u8(51));
        let transport = match (service >> 1 & 3, retries & 7) {
            (0, _) => Transport::Reliable,
            (1, _) => Transport::Unreliable,
            (3, 1) => Transport::Extended,
            _ => return None,
        };
        let alternate = Path::parse(&bytes[ALTERNATE..PRIVATE]);
        Some(Self {
            local_id: fields.u32(0),
            service_id: fields.u64(8),
            ca_guid: fields.u64(16),
            q_key: fields.u32(28),
            qp_number: QpNumber(fields.u24(32)),
            responder_resources: fields.u8(35),
            initiator_depth: fields.u8(39),
            remote_cm_timeout: service >> 3,
            transport,
            flow_control: service & 1 != 0,
            starting_psn: Psn(fields.u24(44)),
            local_cm_timeout: timeout >> 3,
            retry_count: timeout & 7,
            p_key: fields.u16(48),
            path_mtu: limits >> 4,
            rnr_retry: limits & 7,
            max_cm_retries: retries >> 4,
            has_srq: retries & 8 != 0,
            primary: Path::parse(&bytes[PRIMARY..ALTERNATE]),
            alternate: (alternate != Path::parse(&[0; Path::LENGTH])).then_some(alternate),
            private_data: fields.bytes(PRIVATE),
        })
    }

    pub(super) fn emit(&self, bytes: &mut [u8]) {
        let mut fields = FieldsMut(bytes);
        let (service, kind) = match self.transport {
            Transport::Reliable => (0, 0),
            Transport::Unreliable => (1, 0),
            Transport::Extended => (3, 1),
        };
        fields.put(0, &self.local_id.to_be_bytes());
        fields.put(8, &self.service_id.to_be_bytes());
        fields.put(16, &self.ca_guid.to_be_bytes());
        fields.put(28, &self.q_key.to_be_bytes());
        fields.put_u24(32, self.qp_number.0);
        fields.put(35, &[self.responder_resources]);
        fields.put(39, &[self.initiator_depth]);
        fields.put(43, &[self.remote_cm_timeout << 3 | service << 1 | u8::from(self.flow_control)]);
        fields.put_u24(44, self.starting_psn.0);
        fields.put(47, &[self.local_cm_timeout << 3 | self.retry_count & 7]);
        fields.put(48, &self.p_key.to_be_bytes());
        fields.put(50, &[self.path_mtu << 4 | self.rnr_retry & 7]);
        fields.put(51, &[self.max_cm_retries << 4 | u8::from(self.has_srq) << 3 | kind]);
        self.primary.emit(&mut fields.0[PRIMARY..ALTERNATE]);
        if let Some(alternate) = &self.alternate {
            alternate.emit(&mut fields.0[ALTERNATE..PRIVATE]);
        }
        fields.put(PRIVATE, &self.private_data);
    }
}
