//! What happens to identifiers.

use std::sync::Arc;

use nonic_device::{AddressVector, EventAccount, QpNumber};

use crate::Id;

/// Status of a rejection: nobody listens there (reason 8 of InfiniBand's REJ).
pub const REJECT_INVALID_SERVICE: i32 = 8;
/// Status of a rejection: the program rejects (reason 28).
pub const REJECT_CONSUMER: i32 = 28;
/// Status of a rejection: the program rejects the options of the vendor (reason 35).
pub const REJECT_VENDOR_OPTION: i32 = 35;

/// Kinds of events (`enum rdma_cm_event_type`). The numbers are those of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)] // The standard's names, one for one.
pub enum EventKind {
    AddressResolved = 0,
    AddressError,
    RouteResolved,
    RouteError,
    ConnectRequest,
    ConnectResponse,
    ConnectError,
    Unreachable,
    Rejected,
    Established,
    Disconnected,
    DeviceRemoval,
    MulticastJoin,
    MulticastError,
    AddressChange,
    TimewaitExit,
    AddressInfoResolved,
    AddressInfoError,
    User,
}

/// Options of a vendor that both sides take (`struct ibv_ece`); zero: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ece {
    /// Who gives the options their meaning.
    pub vendor: u32,
    /// The options.
    pub options: u32,
}

/// What the two sides of a connection tell each other (`struct rdma_conn_param`). In calls it is what this side says; in events
/// what the other side said, seen from here: there the peer's `initiator_depth` is `responder_resources` and the reverse.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ConnectionParameters {
    /// The program's own.
    pub private_data: Box<[u8]>,
    /// Reads and atomics of the peer that this side answers at once.
    pub responder_resources: u8,
    /// Reads and atomics that this side has under way at once.
    pub initiator_depth: u8,
    /// Whether the wire's flow control is used.
    pub flow_control: bool,
    /// How often a packet is sent again that nobody acknowledges, 0 to 7.
    pub retry_count: u8,
    /// How often one is that finds no receive, 0 to 7; 7: for ever.
    pub rnr_retry_count: u8,
    /// Whether the queue pair receives from a shared queue.
    pub shared_receive_queue: bool,
    /// The queue pair. Of a datagram service, where its datagrams go to.
    pub queue_pair: QpNumber,
    /// Q_Key of a datagram service's queue pair; 0 is the default, [`Id::DEFAULT_QUEUE_KEY`].
    pub queue_key: u32,
    /// Options of the vendor.
    pub ece: Ece,
}

/// Where to send datagrams (`struct rdma_ud_param`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramParameters {
    /// What the service said. In MULTICAST events empty.
    pub private_data: Box<[u8]>,
    /// In MULTICAST events what the program gave with the join.
    pub cookie: usize,
    /// The way there.
    pub address: AddressVector,
    /// The queue pair; 0xffffff for a group.
    pub queue_pair: QpNumber,
    /// Its Q_Key.
    pub queue_key: u32,
}

/// What an event brings beside its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameters {
    /// Nothing.
    None,
    /// Of a connection, or the request for one.
    Connection(ConnectionParameters),
    /// Of datagrams, or the request for where to send them.
    Datagram(DatagramParameters),
    /// A word of the program's own.
    Word(u64),
}

/// Something that happened. As long as it is there it counts as not acknowledged: [`Id::destroy`] waits until it is dropped.
#[derive(Debug)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// 0; of a failure a negative errno, or the reason for a rejection.
    pub status: i32,
    /// To whom. Of a request, the identifier that is new.
    pub id: Arc<Id>,
    /// Of a request, who listens.
    pub listener: Option<Arc<Id>>,
    /// What it brings.
    pub parameters: Parameters,
    pub(crate) _delivered: Delivered,
}

/// Counts an event as delivered to an identifier until it is dropped.
#[derive(Debug)]
pub(crate) struct Delivered(Arc<EventAccount>);

impl Delivered {
    pub(crate) fn count(owner: &Id) -> Self {
        let account = Arc::clone(owner.account());
        account.delivered();
        Self(account)
    }
}

impl Drop for Delivered {
    fn drop(&mut self) {
        self.0.acknowledge(1);
    }
}
