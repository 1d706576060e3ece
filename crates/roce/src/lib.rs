//! RoCEv2: packets, their check, and queue pairs as machines that speak in them (IBTA vol. 1, chapter 9; annex A17).
//!
//! Nothing here knows a socket, a lock or a clock: the crate is built without the standard library, so the compiler proves it.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod address;
mod congestion;
mod connection;
mod datagram;
mod icrc;
mod identification;
mod malformed;
mod management;
mod manager;
mod packet;
mod path_mtu;
mod surroundings;

pub use address::{GLOBAL_HEADER, GROUP, HostAddress, flow_label_of_pairs, flow_label_of_ports, source_port};
pub use congestion::CongestionCounts;
pub use connection::Connection;
pub use datagram::{DatagramEnd, datagram_room};
pub use icrc::{Envelope, ICRC_LENGTH, PORT, Route};
pub use malformed::Malformed;
pub use management::{
    AddressHeader, Answered, ConnectReply, ConnectRequest, Delay, DisconnectRequest, Front, Ids, MANAGEMENT,
    MANAGEMENT_Q_KEY, ManagementDatagram, Message, Naming, Notice, Path, PortSpace, Reason, Reject,
    ServiceReply, ServiceRequest, Transport,
};
pub use manager::{
    Accepts, CallError, Claim, CommunicationId, ConnectionManager, ConnectionOffer, Disconnection, Ends,
    Event, ManagerSettings, Outgoing, Service, ServiceAnswer, Side, behind_header,
};
pub use packet::{
    Aeth, Answer, Base, Body, Credits, DEFAULT_P_KEY, Datagram, FiveBits, Flush, FlushCheck, HEADERS_MAX,
    Headers, Msn, Nak, Packet, Part, ReadPart, Request, Reth, Syndrome, Tail, UnreliableRequest,
};
pub use path_mtu::PathMtu;
pub use surroundings::{Payload, Sent, Surroundings};
