//! Messages of the connection manager, as datagrams to queue pair 1 carry them (IBTA vol. 1, 12.6, 13.4.2, 16.7).
//!
//! What is reserved is written as zeros and not looked at. What a message means, and when one is repeated, is not known here.

mod answers;
mod fields;
mod request;
mod service;

pub use answers::{Answered, ConnectReply, Delay, DisconnectRequest, Ids, Notice, Reason, Reject};
pub use request::{ConnectRequest, Path, Transport};
pub use service::{AddressHeader, Front, Naming, PortSpace, ServiceReply, ServiceRequest};

use nonic_protocol::{Psn, QpNumber};

use crate::packet::{Base, Body, DEFAULT_P_KEY, Datagram, Packet};
use fields::{Fields, FieldsMut};

/// The queue pair that messages go to and come from.
pub const MANAGEMENT: QpNumber = QpNumber(1);
/// Its Q_Key (10.2.5.1).
pub const MANAGEMENT_Q_KEY: u32 = 0x8001_0000;

/// Base version, class (communication management), class version, and the method Send.
const CLASS: [u8; 4] = [1, 7, 2, 3];
const HEADER: usize = 24;
/// What carries a message.
const CARRIER: Datagram = Datagram { q_key: MANAGEMENT_Q_KEY, source: MANAGEMENT, immediate: None };

/// A datagram of the connection manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagementDatagram {
    /// What an answer repeats.
    pub transaction_id: u64,
    /// What it says.
    pub message: Message,
}

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// REQ.
    ConnectRequest(ConnectRequest),
    /// MRA.
    Delay(Delay),
    /// REJ.
    Reject(Reject),
    /// REP.
    ConnectReply(ConnectReply),
    /// RTU.
    ReadyToUse(Notice),
    /// DREQ.
    DisconnectRequest(DisconnectRequest),
    /// DREP.
    DisconnectReply(Notice),
    /// SIDR_REQ.
    ServiceRequest(ServiceRequest),
    /// SIDR_REP.
    ServiceReply(ServiceReply),
}

impl ManagementDatagram {
    /// Its bytes.
    pub const LENGTH: usize = 256;

    /// Reads one. `None`: it is not of the connection manager, or says what is not spoken here (LAP, APR, dead services); nobody
    /// answers such a one.
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Option<Self> {
        let (header, body) = bytes.split_at(HEADER);
        let fields = Fields(header);
        if fields.bytes(0) != CLASS {
            return None;
        }
        let message = match fields.u16(16) {
            0x10 => Message::ConnectRequest(ConnectRequest::parse(body)?),
            0x11 => Message::Delay(Delay::parse(body)),
            0x12 => Message::Reject(Reject::parse(body)),
            0x13 => Message::ConnectReply(ConnectReply::parse(body)),
            0x14 => Message::ReadyToUse(Notice::parse(body)),
            0x15 => Message::DisconnectRequest(DisconnectRequest::parse(body)),
            0x16 => Message::DisconnectReply(Notice::parse(body)),
            0x17 => Message::ServiceRequest(ServiceRequest::parse(body)),
            0x18 => Message::ServiceReply(ServiceReply::parse(body)),
            _ => return None,
        };
        Some(Self { transaction_id: fields.u64(8), message })
    }

    /// Reads the one that a packet carries. `None`: it is not from queue pair 1 to queue pair 1 of the default partition, has another
    /// Q_Key or another length, or it is as with [`ManagementDatagram::parse`]. Nobody answers such a one.
    pub fn of_packet(packet: &Packet, payload: &[u8]) -> Option<Self> {
        // A limited member is of the partition, too (10.9.3).
        const PARTITION: u16 = 0x7fff;
        let Body::Datagram(datagram) = packet.body else { return None };
        let Base { destination, p_key, .. } = packet.base;
        let is_right = destination == MANAGEMENT
            && p_key & PARTITION == DEFAULT_P_KEY & PARTITION
            && datagram == CARRIER;
        if is_right { Self::parse(payload.try_into().ok()?) } else { None }
    }

    /// The packet that carries one, whose bytes are its payload. Numbers of packets count up, and nobody looks at them.
    pub fn packet(psn: Psn) -> Packet {
        Packet { base: Base::new(MANAGEMENT, psn), body: Body::Datagram(CARRIER) }
    }

    /// Writes it.
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let (header, body) = bytes.split_at_mut(HEADER);
        let attribute: u16 = self.message.emit(body);
        let mut fields = FieldsMut(header);
        fields.put(0, &CLASS);
        fields.put(8, &self.transaction_id.to_be_bytes());
        fields.put(16, &attribute.to_be_bytes());
        bytes
    }
}

impl Message {
    /// Writes it; its attribute (table 98).
    fn emit(&self, body: &mut [u8]) -> u16 {
        match self {
            Self::ConnectRequest(message) => message.emit(body),
            Self::Delay(message) => message.emit(body),
            Self::Reject(message) => message.emit(body),
            Self::ConnectReply(message) => message.emit(body),
            Self::ReadyToUse(message) | Self::DisconnectReply(message) => message.emit(body),
            Self::DisconnectRequest(message) => message.emit(body),
            Self::ServiceRequest(message) => message.emit(body),
            Self::ServiceReply(message) => message.emit(body),
        }
        match self {
            Self::ConnectRequest(_) => 0x10,
            Self::Delay(_) => 0x11,
            Self::Reject(_) => 0x12,
            Self::ConnectReply(_) => 0x13,
            Self::ReadyToUse(_) => 0x14,
            Self::DisconnectRequest(_) => 0x15,
            Self::DisconnectReply(_) => 0x16,
            Self::ServiceRequest(_) => 0x17,
            Self::ServiceReply(_) => 0x18,
        }
    }
}

#[cfg(test)]
mod tests;
