//! What packets say, each operation with the headers it has and no others (IBTA vol. 1, 9.3, 9.4; opcodes: 9.2.1, table 38).

use nonic_protocol::{AtomicRequest, Key, QpNumber, RemoteRange, SrqNumber};

use super::acknowledgement::Aeth;

/// Where in its message a packet stands. `F` is what the first one says besides, `L` the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<F, L> {
    /// The first of several.
    First(F),
    /// One between the first and the last.
    Middle,
    /// The last of several.
    Last(L),
    /// All of it.
    Only(F, L),
}

impl<F, L> Part<F, L> {
    /// Whether a message begins with it.
    pub const fn begins(&self) -> bool {
        matches!(self, Self::First(_) | Self::Only(..))
    }

    /// Whether a message ends with it.
    pub const fn ends(&self) -> bool {
        matches!(self, Self::Last(_) | Self::Only(..))
    }
}

/// What the last packet of a send says besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Plain,
    /// Immediate data, in the sender's byte order (9.3.6).
    Immediate(u32),
    /// A key of the receiver's that is taken out of use (9.3.7).
    Invalidate(Key),
}

/// The RDMA extended transport header (9.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Where the first byte goes, or comes from.
    pub remote: RemoteRange,
    /// Length of the whole message in bytes.
    pub length: u32,
}

impl Reth {
    /// Its bytes.
    pub const LENGTH: usize = 16;
}

/// What a requester asks for on a reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A send (9.4.1).
    Send(Part<(), Tail>),
    /// An RDMA Write (9.4.3); the last packet may bring immediate data.
    Write(Part<Reth, Option<u32>>),
    /// An RDMA Read (9.4.4).
    Read(Reth),
    /// An atomic (9.4.5).
    Atomic(AtomicRequest),
    /// A flush (annex A19.4.1).
    Flush(Flush),
}

/// A flush, as its headers say it: what is reserved among its numbers is for the responder to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// What is flushed.
    pub reth: Reth,
    /// Where it is to be (FETH, placement type): four bits.
    pub placement: u8,
    /// How much is meant (FETH, selectivity level): two bits.
    pub selectivity: u8,
    /// How its check is made.
    pub check: FlushCheck,
}

/// What the check behind a flush is over. The Linux kernel's device takes the headers for the payload, too, and drops what does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushCheck {
    /// The packet, as of every other.
    Once,
    /// The packet, and then all of it once more, with nothing in it masked (rxe, seen with Linux 6.12).
    Twice,
}

impl FlushCheck {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Once => Self::Twice,
            Self::Twice => Self::Once,
        }
    }
}

impl Request {
    /// Whether a message ends with it.
    pub const fn ends(&self) -> bool {
        match self {
            Self::Send(part) => part.ends(),
            Self::Write(part) => part.ends(),
            Self::Read(_) | Self::Atomic(_) | Self::Flush(_) => true,
        }
    }
}

impl Body {
    /// The flush that it is.
    pub(super) fn flush(&self) -> Option<&Flush> {
        match self {
            Self::Request(Request::Flush(flush)) | Self::ExtendedRequest(_, Request::Flush(flush)) => {
                Some(flush)
            }
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(super) fn flush_mut(&mut self) -> Option<&mut Flush> {
        match self {
            Self::Request(Request::Flush(flush)) | Self::ExtendedRequest(_, Request::Flush(flush)) => {
                Some(flush)
            }
            _ => None,
        }
    }
}

/// What a requester sends on an unreliable connection (9.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreliableRequest {
    /// A send; the last packet may bring immediate data.
    Send(Part<(), Option<u32>>),
    /// An RDMA Write.
    Write(Part<Reth, Option<u32>>),
}

/// What a responder says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An acknowledgement of either kind (9.7.5.1).
    Acknowledge(Aeth),
    /// Bytes of a read; all but those in the middle say what an acknowledgement says (9.4.4).
    Read(ReadPart),
    /// What a word held before an atomic (9.4.5).
    Atomic(Aeth, u64),
}

/// Where in the answer to a read a packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPart {
    /// The first of several.
    First(Aeth),
    /// One between the first and the last.
    Middle,
    /// The last of several.
    Last(Aeth),
    /// All of it.
    Only(Aeth),
}

impl ReadPart {
    /// Whether the answer ends with it.
    pub const fn ends(&self) -> bool {
        matches!(self, Self::Last(_) | Self::Only(_))
    }

    /// What it says as an acknowledgement.
    pub const fn aeth(&self) -> Option<Aeth> {
        match *self {
            Self::First(aeth) | Self::Last(aeth) | Self::Only(aeth) => Some(aeth),
            Self::Middle => None,
        }
    }
}

/// An unreliable datagram (9.8.3), with its extended transport header (9.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The Q_Key, which has to be the receiver's.
    pub q_key: u32,
    /// Queue pair it comes from.
    pub source: QpNumber,
    /// Immediate data, in the sender's byte order.
    pub immediate: Option<u32>,
}

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// On a reliable connection.
    Request(Request),
    /// To a requester of a reliable connection.
    Answer(Answer),
    /// On an extended reliable connection, for a shared receive queue of the peer's domain (annex A14).
    ExtendedRequest(SrqNumber, Request),
    /// To a requester of an extended reliable connection.
    ExtendedAnswer(Answer),
    /// On an unreliable connection.
    Unreliable(UnreliableRequest),
    /// To a queue pair that has no connection.
    Datagram(Datagram),
    /// Packets of the receiver's met congestion on their way (annex A17, 17.9.3). Its base header has BECN set.
    Congestion,
}
