//! Which queue pair takes datagrams of a service (IBTA vol. 1, 12.11: SIDR), and what the RDMA connection manager puts in front of
//! a program's private data (annex A11).

use nonic_protocol::QpNumber;

use super::fields::{Fields, FieldsMut};
use crate::address::HostAddress;

/// Which queue pair takes datagrams of a service? (SIDR_REQ, table 121)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRequest {
    /// Which question.
    pub request_id: u32,
    /// Partition.
    pub p_key: u16,
    /// The service.
    pub service_id: u64,
    /// The program's.
    pub private_data: [u8; 216],
}

impl ServiceRequest {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let fields = Fields(bytes);
        Self {
            request_id: fields.u32(0),
            p_key: fields.u16(4),
            service_id: fields.u64(8),
            private_data: fields.bytes(16),
        }
    }

    pub(super) fn emit(&self, bytes: &mut [u8]) {
        let mut fields = FieldsMut(bytes);
        fields.put(0, &self.request_id.to_be_bytes());
        fields.put(4, &self.p_key.to_be_bytes());
        fields.put(8, &self.service_id.to_be_bytes());
        fields.put(16, &self.private_data);
    }
}

/// This one, or none (SIDR_REP, table 122).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceReply {
    /// Which question.
    pub request_id: u32,
    /// 0: this one. 1: no such service, 2: rejected, 3: it has no queue pair, 4: elsewhere, 5: another version.
    pub status: u8,
    /// So many bytes more are said of the status: 72 at most.
    pub info_length: u8,
    /// The queue pair.
    pub qp_number: QpNumber,
    /// The service.
    pub service_id: u64,
    /// Q_Key of the queue pair.
    pub q_key: u32,
    /// What is said of the status.
    pub info: [u8; 72],
    /// The program's.
    pub private_data: [u8; 136],
}

impl ServiceReply {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let fields = Fields(bytes);
        Self {
            request_id: fields.u32(0),
            status: fields.u8(4),
            info_length: fields.u8(5).min(72),
            qp_number: QpNumber(fields.u24(8)),
            service_id: fields.u64(12),
            q_key: fields.u32(20),
            info: fields.bytes(24),
            private_data: fields.bytes(96),
        }
    }

    pub(super) fn emit(&self, bytes: &mut [u8]) {
        let mut fields = FieldsMut(bytes);
        fields.put(0, &self.request_id.to_be_bytes());
        fields.put(4, &[self.status, self.info_length.min(72)]);
        fields.put_u24(8, self.qp_number.0);
        fields.put(12, &self.service_id.to_be_bytes());
        fields.put(20, &self.q_key.to_be_bytes());
        fields.put(24, &self.info);
        fields.put(96, &self.private_data);
    }
}

/// A port space of the RDMA connection manager; the numbers are those of `enum rdma_port_space`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum PortSpace {
    /// Connections.
    Tcp = 0x106,
    /// Datagrams.
    Udp = 0x111,
    /// InfiniBand's own.
    Ib = 0x13f,
    /// Connections of SCIF: a space of nonic's own.
    Scif = 0x153,
}

impl PortSpace {
    /// The service that a port of this space is (annex A11, A11.2).
    pub const fn service_id(self, port: u16) -> u64 {
        (self as u64) << 16 | port as u64
    }

    /// Whether a service is a port: addresses stand in front of the private data of whoever asks for it, unless it names both by GIDs.
    pub const fn is_port(service_id: u64) -> bool {
        service_id >> 24 == 1
    }

    /// The space whose port a service is; `None` if it is none, or of a space that is not here.
    pub fn of_service(service_id: u64) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Ib, Self::Scif]
            .into_iter()
            .find(|space| service_id >> 16 == *space as u64)
    }
}

/// What stands in front of a program's private data in a request: who asks whom (annex A11, A11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressHeader {
    /// Port of the one that asks; the other one is in the service.
    pub source_port: u16,
    /// Address of the one that asks.
    pub source: HostAddress,
    /// Of the one that is asked, of the same family.
    pub destination: HostAddress,
}

impl AddressHeader {
    /// Its bytes.
    pub const LENGTH: usize = 36;

    /// Reads it at the beginning of private data. `None`: another version, or neither IPv4 nor IPv6.
    pub fn parse(private_data: &[u8]) -> Option<Self> {
        let fields = Fields(private_data.get(..Self::LENGTH)?);
        let address = |at| match fields.u8(1) >> 4 {
            4 => Some(HostAddress::V4(fields.bytes(at + 12))),
            6 => Some(HostAddress::V6(fields.bytes(at))),
            _ => None,
        };
        if fields.u8(0) != 0 {
            return None;
        }
        Some(Self { source_port: fields.u16(2), source: address(4)?, destination: address(20)? })
    }

    /// Writes it. The family is that of the source.
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let mut fields = FieldsMut(&mut bytes);
        let version = if matches!(self.source, HostAddress::V4(_)) { 4 } else { 6 };
        fields.put(1, &[version << 4]);
        fields.put(2, &self.source_port.to_be_bytes());
        for (at, address) in [(4, self.source), (20, self.destination)] {
            match address {
                HostAddress::V4(address) => fields.put(at + 12, &address),
                HostAddress::V6(address) => fields.put(at, &address),
            }
        }
        bytes
    }
}

/// What the private data of a request for a port begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Addresses of IP.
    Addresses(AddressHeader),
    /// Nothing that is not the program's: who asks has named both sides by GIDs.
    Nothing,
}

impl Front {
    /// Reads it, as Linux does: a version of 0, and then addresses if the next byte says so. `None`: another version.
    pub fn read(private_data: &[u8]) -> Option<Self> {
        match *private_data.first_chunk()? {
            [0, family] if matches!(family >> 4, 4 | 6) => {
                AddressHeader::parse(private_data).map(Self::Addresses)
            }
            [0, _] => Some(Self::Nothing),
            _ => None,
        }
    }
}

/// How who asks for a port names both sides, and how who listens there is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Naming {
    /// By addresses of IP. So is every service that is no port.
    Ip,
    /// By GIDs.
    Gid,
}

impl Naming {
    /// How who asks for a service has named it.
    pub fn of_request(service_id: u64, private_data: &[u8]) -> Self {
        let is_by_gid = PortSpace::is_port(service_id) && Front::read(private_data) == Some(Front::Nothing);
        if is_by_gid { Self::Gid } else { Self::Ip }
    }

    /// Whose listeners a request that is named so is for: for the others' only if there is none of its own.
    pub const fn in_order(self) -> [Self; 2] {
        match self {
            Self::Ip => [Self::Ip, Self::Gid],
            Self::Gid => [Self::Gid, Self::Ip],
        }
    }
}
