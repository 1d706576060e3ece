//! What follows a request for a connection, and how one ends (IBTA vol. 1, 12.6.6 to 12.6.11).

use nonic_protocol::{Psn, QpNumber};

use super::fields::{Fields, FieldsMut};

/// How the two ends of a connection call it: the one that says so, and the one that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Of the one that sends the message; 0 if it has none.
    pub local: u32,
    /// Of the one that it is for.
    pub remote: u32,
}

impl Ids {
    fn parse(bytes: &[u8]) -> Self {
        let fields = Fields(bytes);
        Self { local: fields.u32(0), remote: fields.u32(4) }
    }

    fn emit(&self, bytes: &mut [u8]) {
        let mut fields = FieldsMut(bytes);
        fields.put(0, &self.local.to_be_bytes());
        fields.put(4, &self.remote.to_be_bytes());
    }
}

/// Which message is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The request.
    Request,
    /// The reply.
    Reply,
    /// Another one.
    Other,
}

impl Answered {
    fn parse(byte: u8) -> Self {
        match byte >> 6 {
            0 => Self::Request,
            1 => Self::Reply,
            _ => Self::Other,
        }
    }

    fn emit(self) -> u8 {
        (match self {
            Self::Request => 0,
            Self::Reply => 1,
            Self::Other => 2,
        }) << 6
    }
}

/// The request is accepted (REP, table 103).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectReply {
    /// Whose.
    pub ids: Ids,
    /// Q_Key, of a datagram service.
    pub q_key: u32,
    /// Queue pair of the one that was asked.
    pub qp_number: QpNumber,
    /// Number of the first packet that the other side is to send to it.
    pub starting_psn: Psn,
    /// Reads and atomics that it answers at a time.
    pub responder_resources: u8,
    /// Reads and atomics that it has under way.
    pub initiator_depth: u8,
    /// Exponent of the time that its acknowledgements take, 5 bits.
    pub target_ack_delay: u8,
    /// Whether another way was accepted, 2 bits.
    pub failover: u8,
    /// Whether it counts credits.
    pub flow_control: bool,
    /// RNR retries of the one that asked, 3 bits.
    pub rnr_retry: u8,
    /// Whether its queue pair takes its receives from a shared queue.
    pub has_srq: bool,
    /// GUID of its channel adapter.
    pub ca_guid: u64,
    /// The program's.
    pub private_data: [u8; 196],
}

impl ConnectReply {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let fields = Fields(bytes);
        let (delay, retry) = (fields.u8(26), fields.u8(27));
        Self {
            ids: Ids::parse(bytes),
            q_key: fields.u32(8),
            qp_number: QpNumber(fields.u24(12)),
            starting_psn: Psn(fields.u24(20)),
            responder_resources: fields.u8(24),
            initiator_depth: fields.u8(25),
            target_ack_delay: delay >> 3,
            failover: delay >> 1 & 3,
            flow_control: delay & 1 != 0,
            rnr_retry: retry >> 5,
            has_srq: retry & 0x10 != 0,
            ca_guid: fields.u64(28),
            private_data: fields.bytes(36),
        }
    }

    pub(super) fn emit(&self, bytes: &mut [u8]) {
        self.ids.emit(bytes);
        let mut fields = FieldsMut(bytes);
        fields.put(8, &self.q_key.to_be_bytes());
        fields.put_u24(12, self.qp_number.0);
        fields.put_u24(20, self.starting_psn.0);
        fields.put(24, &[self.responder_resources, self.initiator_depth]);
        let delay = self.target_ack_delay << 3 | (self.failover & 3) << 1 | u8::from(self.flow_control);
        fields.put(26, &[delay, self.rnr_retry << 5 | u8::from(self.has_srq) << 4]);
        fields.put(28, &self.ca_guid.to_be_bytes());
        fields.put(36, &self.private_data);
    }
}

/// Why a message is rejected (table 106).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub u16);

impl Reason {
    /// There is no room for it.
    pub const NO_RESOURCES: Self = Self(3);
    /// The other end waited in vain.
    pub const TIMEOUT: Self = Self(4);
    /// No communication has this number.
    pub const INVALID_COMMUNICATION_ID: Self = Self(6);
    /// Nobody listens there.
    pub const INVALID_SERVICE_ID: Self = Self(8);
    /// The queue pair is connected already, as far as is known.
    pub const STALE_CONNECTION: Self = Self(10);
    /// No such GID, or partition, here.
    pub const INVALID_GID: Self = Self(12);
    /// No payload has this size.
    pub const INVALID_MTU: Self = Self(26);
    /// The program's own.
    pub const CONSUMER: Self = Self(28);
}

/// A message is rejected (REJ, table 105).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Whose.
    pub ids: Ids,
    /// Which message.
    pub answered: Answered,
    /// Why.
    pub reason: Reason,
    /// So many bytes more are said of the reason: 72 at most.
    pub info_length: u8,
    /// They.
    pub info: [u8; 72],
    /// The program's.
    pub private_data: [u8; 148],
}

impl Reject {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let fields = Fields(bytes);
        let info = fields.bytes(12);
        Self {
            ids: Ids::parse(bytes),
            answered: Answered::parse(fields.u8(8)),
            reason: Reason(fields.u16(10)),
            info_length: (fields.u8(9) >> 1).min(72),
            info,
            private_data: fields.bytes(84),
        }
    }

    pub(super) fn emit(&self, bytes: &mut [u8]) {
        self.ids.emit(bytes);
        let mut fields = FieldsMut(bytes);
        fields.put(8, &[self.answered.emit(), self.info_length.min(72) << 1]);
        fields.put(10, &self.reason.0.to_be_bytes());
        fields.put(12, &self.info);
        fields.put(84, &self.private_data);
    }
}

/// The message came, and its answer takes its time (MRA, table 104).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Whose.
    pub ids: Ids,
    /// Which message.
    pub answered: Answered,
    /// Exponent of the time, 5 bits.
    pub service_timeout: u8,
    /// The program's.
    pub private_data: [u8; 222],
}

impl Delay {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let fields = Fields(bytes);
        Self {
            ids: Ids::parse(bytes),
            answered: Answered::parse(fields.u8(8)),
            service_timeout: fields.u8(9) >> 3,
            private_data: fields.bytes(10),
        }
    }

    pub(super) fn emit(&self, bytes: &mut [u8]) {
        self.ids.emit(bytes);
        let mut fields = FieldsMut(bytes);
        fields.put(8, &[self.answered.emit(), self.service_timeout << 3]);
        fields.put(10, &self.private_data);
    }
}

/// The reply came (RTU, table 107), or the connection has ended (DREP, table 109).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whose.
    pub ids: Ids,
    /// The program's.
    pub private_data: [u8; 224],
}

impl Notice {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self { ids: Ids::parse(bytes), private_data: Fields(bytes).bytes(8) }
    }

    pub(super) fn emit(&self, bytes: &mut [u8]) {
        self.ids.emit(bytes);
        FieldsMut(bytes).put(8, &self.private_data);
    }
}

/// The connection is to end (DREQ, table 108).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisconnectRequest {
    /// Whose.
    pub ids: Ids,
    /// Queue pair of the one that is asked.
    pub remote_qp_number: QpNumber,
    /// The program's.
    pub private_data: [u8; 220],
}

impl DisconnectRequest {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let fields = Fields(bytes);
        let remote_qp_number = QpNumber(fields.u24(8));
        Self { ids: Ids::parse(bytes), remote_qp_number, private_data: fields.bytes(12) }
    }

    pub(super) fn emit(&self, bytes: &mut [u8]) {
        self.ids.emit(bytes);
        let mut fields = FieldsMut(bytes);
        fields.put_u24(8, self.remote_qp_number.0);
        fields.put(12, &self.private_data);
    }
}
