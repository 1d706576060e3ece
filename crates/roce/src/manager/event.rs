//! What a connection manager is asked for, and what it tells.

use alloc::boxed::Box;

use nonic_protocol::{Psn, QpNumber};

use crate::address::HostAddress;
use crate::management::{
    AddressHeader, Answered, ConnectReply, ConnectRequest, ManagementDatagram, PortSpace, Reason,
    ServiceReply, ServiceRequest, Transport,
};

/// The two addresses between which a datagram goes, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// This side's.
    pub local: HostAddress,
    /// The peer's.
    pub remote: HostAddress,
}

/// How a program calls what it has with a peer: a connection, from the first request until the time in which late packets may
/// come is over; or a question for a datagram service. Never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommunicationId {
    /// As peers are told.
    pub(super) number: u32,
    pub(super) serial: u64,
}

impl CommunicationId {
    /// The number that stands for it in messages, this side's `Ids::local`.
    pub fn number(self) -> u32 {
        self.number
    }
}

/// Whom a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// A port of the RDMA connection manager, named by an address of IP: the addresses stand in front of the program's private data.
    Port {
        /// Which ports.
        space: PortSpace,
        /// The one that is asked.
        port: u16,
        /// Of the one that asks.
        source_port: u16,
    },
    /// A number of the program's own, or that of a port of which a GID was named: all the private data are the program's.
    Number(u64),
}

impl Service {
    pub(super) fn id(self) -> u64 {
        match self {
            Self::Port { space, port, .. } => space.service_id(port),
            Self::Number(number) => number,
        }
    }

    pub(super) fn header(self, ends: Ends) -> Option<AddressHeader> {
        let Self::Port { source_port, .. } = self else { return None };
        Some(AddressHeader { source_port, source: ends.local, destination: ends.remote })
    }
}

/// What a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Requests for a connection of this kind.
    Connections(Transport),
    /// Questions where datagrams go to.
    Datagrams,
}

/// What either side says of its queue pair, in the request and in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Queue pair.
    pub qp_number: QpNumber,
    /// Number of the first packet that the other side is to send to it.
    pub starting_psn: Psn,
    /// Reads and atomics that it answers at a time.
    pub responder_resources: u8,
    /// Reads and atomics that it has under way.
    pub initiator_depth: u8,
    /// RNR retries of the other side, 3 bits.
    pub rnr_retry: u8,
    /// Whether it counts credits.
    pub flow_control: bool,
    /// Whether it takes its receives from a shared queue.
    pub has_srq: bool,
    /// Its Q_Key, where it has one.
    pub q_key: u32,
}

/// What a request for a connection asks for, beside what each side says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionOffer {
    /// Which kind.
    pub transport: Transport,
    /// Payload of a packet, as `enum ibv_mtu`.
    pub path_mtu: u8,
    /// Retries of the one that is asked, 3 bits.
    pub retry_count: u8,
    /// Of the way, as it is meant for IP.
    pub traffic_class: u8,
    /// Of the way.
    pub hop_limit: u8,
    /// Of the way; `None`: that of the ports.
    pub flow_label: Option<u32>,
}

/// Where datagrams of a service go to, or that there is no such service (IBTA vol. 1, table 123).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceAnswer {
    /// To this queue pair.
    QueuePair {
        /// Its number.
        number: QpNumber,
        /// Its Q_Key.
        q_key: u32,
    },
    /// Nowhere, for this reason, which is not 0.
    Refused(u8),
}

/// A datagram that is to be sent, to queue pair 1 and from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Between these addresses.
    pub ends: Ends,
    /// What it says.
    pub datagram: ManagementDatagram,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disconnection {
    /// The peer asked for it, and is answered by `disconnect` or `release`.
    ByPeer,
    /// The peer has agreed.
    Agreed,
    /// The peer has not answered.
    Unanswered,
}

/// Something that happened, to a communication that the program knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer asks a listener for a connection: `accept` or `reject` it.
    Asked {
        /// The new one.
        id: CommunicationId,
        /// Addresses of both.
        ends: Ends,
        /// What stands in front of the private data, if the service is a port and who asks has not named it by a GID.
        header: Option<AddressHeader>,
        /// What was asked for.
        request: Box<ConnectRequest>,
    },
    /// The peer has accepted: `establish` or `reject` it.
    Replied {
        /// Which.
        id: CommunicationId,
        /// How.
        reply: Box<ConnectReply>,
    },
    /// The peer is ready, too.
    Established {
        /// Which.
        id: CommunicationId,
    },
    /// There is no connection, or no longer one, because the peer says so.
    Rejected {
        /// Which.
        id: CommunicationId,
        /// Which message the peer did not like.
        answered: Answered,
        /// Why.
        reason: Reason,
        /// The program's.
        private_data: Box<[u8; 148]>,
    },
    /// The peer does not answer. The communication is over.
    Unreachable {
        /// Which.
        id: CommunicationId,
    },
    /// The connection has ended.
    Disconnected {
        /// Which.
        id: CommunicationId,
        /// How.
        how: Disconnection,
        /// What the peer said when it asked for it, if it did.
        private_data: Option<Box<[u8; 220]>>,
    },
    /// No late packet will come any more, so the queue pair's number may be used again. The communication is over.
    TimeWaitOver {
        /// Which.
        id: CommunicationId,
    },
    /// A peer asks a listener where datagrams go to: `answer_service`.
    ServiceAsked {
        /// The new one.
        id: CommunicationId,
        /// Addresses of both.
        ends: Ends,
        /// What stands in front of the private data, if the service is a port and who asks has not named it by a GID.
        header: Option<AddressHeader>,
        /// What was asked for.
        request: Box<ServiceRequest>,
    },
    /// The peer says where its datagrams go to, or why there is no such place. The communication is over.
    ServiceAnswered {
        /// Which.
        id: CommunicationId,
        /// Where, or why not.
        answer: ServiceAnswer,
        /// All that it said.
        reply: Box<ServiceReply>,
    },
}

/// Why a call was refused. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It is over, or never was.
    #[error("there is no such communication any more")]
    Unknown,
    /// It has not come so far, or has come further.
    #[error("the communication is in another state")]
    State,
    /// More than the message has room for.
    #[error("{length} bytes of private data are too many, there is room for {room}")]
    PrivateData {
        /// So many there are.
        length: usize,
        /// So many there may be.
        room: usize,
    },
    /// From one family of addresses to the other, or to a group.
    #[error("there is no way between these addresses")]
    Addresses,
    /// Somebody listens there.
    #[error("somebody listens for this service at this address already")]
    Listening,
    /// A number that the field has no room for.
    #[error("a number is out of its range")]
    Range,
}

/// Private data with what stands in front of them, zeros behind.
pub(super) fn private_data<const N: usize>(
    header: Option<AddressHeader>,
    data: &[u8],
) -> Result<[u8; N], CallError> {
    let mut bytes = [0; N];
    let start = if header.is_some() { AddressHeader::LENGTH } else { 0 };
    if let Some(header) = header {
        bytes[..start].copy_from_slice(&header.emit());
    }
    let room = N - start;
    let place = bytes[start..].get_mut(..data.len());
    place.ok_or(CallError::PrivateData { length: data.len(), room })?.copy_from_slice(data);
    Ok(bytes)
}

/// What the program of the other side said: the private data behind the header.
pub fn behind_header(header: Option<AddressHeader>, private_data: &[u8]) -> &[u8] {
    &private_data[if header.is_some() { AddressHeader::LENGTH } else { 0 }..]
}
