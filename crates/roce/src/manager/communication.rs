//! One communication with a peer: what is remembered of it (IBTA vol. 1, 12.9.5 to 12.9.7).

use alloc::boxed::Box;
use core::time::Duration;

use nonic_protocol::QpNumber;

use super::event::{CommunicationId, Ends, Outgoing};
use crate::address::HostAddress;
use crate::management::Ids;

/// How far it has come. Of the one that asks: request sent, reply received, established. Of the one that is asked: request
/// received, reply sent, established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A reply is waited for.
    RequestSent,
    /// The program is to be ready, or to reject.
    ReplyReceived,
    /// The program is to accept or to reject.
    RequestReceived,
    /// The peer is to say that it is ready.
    ReplySent,
    /// There is a connection.
    Established,
    /// It is to end; the peer's word is waited for.
    DisconnectSent,
    /// It is to end; the program's word is waited for.
    DisconnectReceived,
    /// It has ended; late packets may come.
    TimeWait,
    /// This side rejected; it says so again if it is asked again.
    Rejected,
    /// Where a service's datagrams go to is waited for.
    ServiceSent,
    /// The program is to say where they go to.
    ServiceReceived,
    /// It has said so; it says so again if it is asked again.
    ServiceAnswered,
}

/// What tells one communication of a peer from others: the one that a message comes again for is known by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RemoteKey {
    pub(super) remote: HostAddress,
    /// `None`: a question for a service, which has numbers of its own.
    pub(super) guid: Option<u64>,
    pub(super) number: u32,
}

/// A queue pair of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PairKey {
    pub(super) remote: HostAddress,
    pub(super) guid: u64,
    pub(super) number: QpNumber,
}

/// How long it waits, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// When a message is repeated.
    pub(super) timeout: Duration,
    /// How often.
    pub(super) repeats: u8,
    /// How long packets may be late.
    pub(super) time_wait: Duration,
}

/// What is remembered.
#[derive(Debug)]
pub(super) struct Communication<T> {
    pub(super) id: CommunicationId,
    pub(super) state: State,
    pub(super) ends: Ends,
    /// The number that the peer gave it; 0 as long as it is not known.
    pub(super) remote_number: u32,
    pub(super) local_pair: QpNumber,
    pub(super) remote_pair: QpNumber,
    /// Of a question for a service.
    pub(super) service_id: u64,
    /// Of what this side begins.
    pub(super) transaction_id: u64,
    /// Of what the peer began, and is answered.
    pub(super) peers_transaction_id: u64,
    pub(super) timing: Timing,
    /// What was said last, and is said again.
    pub(super) last: Option<Box<Outgoing>>,
    pub(super) repeats_left: u8,
    /// When to do something. Set by the table only.
    pub(super) deadline: Option<T>,
    /// The peer has said that its answer takes its time, as it may once.
    pub(super) was_delayed: bool,
    /// The program does not know it any more, and hears nothing of it.
    pub(super) is_released: bool,
    /// It counts as half open. Set by the table only.
    pub(super) is_half_open: bool,
    /// How it is found by what the peer says. Set by the table only.
    pub(super) remote_key: Option<RemoteKey>,
    pub(super) pair_key: Option<PairKey>,
}

impl<T> Communication<T> {
    pub(super) fn new(id: CommunicationId, state: State, ends: Ends, timing: Timing) -> Self {
        Self {
            id,
            state,
            ends,
            remote_number: 0,
            local_pair: QpNumber(0),
            remote_pair: QpNumber(0),
            service_id: 0,
            transaction_id: 0,
            peers_transaction_id: 0,
            timing,
            last: None,
            repeats_left: 0,
            deadline: None,
            was_delayed: false,
            is_released: false,
            is_half_open: false,
            remote_key: None,
            pair_key: None,
        }
    }

    /// How both sides call it.
    pub(super) fn ids(&self) -> Ids {
        Ids { local: self.id.number, remote: self.remote_number }
    }
}
