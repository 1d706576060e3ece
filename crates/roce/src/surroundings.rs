//! What a connection needs of whoever drives it.

use nonic_protocol::{
    Arrived, AtomicChange, Event, Extent, FlushRequest, Happening, Key, LocalTurn, NotChanged, Operation,
    Receive, ReceiveQueue, RemoteRange, SendQueue, SrqNumber, Status,
};

use crate::packet::Packet;

/// What is around a connection: what carries its packets, the memory behind the gate, and the program that is told.
///
/// Memory is only named here. Bytes that came are in the driver's own buffer, and go from there into their place at once; bytes
/// that are sent the driver takes from where [`Payload`] says, into its buffer, with the check over what it took.
pub trait Surroundings {
    // What carries packets.

    /// Sends a packet with these bytes. What is said comes to nothing unless it is [`Sent::Sent`].
    fn send(&mut self, packet: &Packet, payload: Payload<'_>) -> Sent;
    /// There was no room; the connection is to go on when there is ([`Connection::pump`](crate::Connection::pump)).
    fn await_room(&mut self);

    // Memory of this side, behind the gate: the requester's.

    /// Whether the local keys of request `number` let a result be placed.
    fn takes_result(&mut self, send: &SendQueue, number: u64) -> bool;
    /// Places bytes of an answer, from `offset` on, where request `number` wants them. False: its keys do not allow it.
    fn place_answer(&mut self, send: &SendQueue, number: u64, offset: u32, bytes: &[u8]) -> bool;
    /// The same of what a word held before an atomic.
    fn place_old(&mut self, send: &SendQueue, number: u64, old: u64) -> bool;
    /// Carries out a request of which nothing happens at the peer: a memory window's.
    fn take_turn(&mut self, operation: &Operation) -> LocalTurn;

    // The responder's.

    /// On an extended connection: what the peer asks from now on concerns this shared receive queue, its receives and its zone.
    /// False: the domain has no such queue, and nothing has changed.
    fn turn_to(&mut self, queue: SrqNumber) -> bool;
    /// Places bytes of an RDMA Write of a peer's. The whole range is judged with every packet: the region may go at any time.
    /// False: it is not allowed.
    fn write(&mut self, remote: RemoteRange, extent: Extent, bytes: &[u8]) -> bool;
    /// Whether a peer may read this.
    fn may_be_read(&mut self, remote: RemoteRange, length: u32) -> bool;
    /// Whether a peer may flush this; then what it wrote before is where it wants it. The key is looked at whatever the length is.
    fn may_be_flushed(&mut self, flush: &FlushRequest) -> bool;
    /// Carries an atomic of a peer's out; what the word held before.
    fn change(&mut self, remote: RemoteRange, change: AtomicChange) -> Result<u64, NotChanged>;
    /// Whether a peer may take this key out of use.
    fn may_be_invalidated(&mut self, key: Key) -> bool;
    /// Takes it out of use for the peer; false: it no longer may.
    fn invalidate(&mut self, key: Key) -> bool;

    // Receives.

    /// The next receive: of the connection's `own`, or one that it shares with others.
    fn take_receive(&mut self, own: &mut ReceiveQueue) -> Option<Receive>;
    /// It is the next again.
    fn give_back_receive(&mut self, own: &mut ReceiveQueue, receive: Receive);
    /// Places bytes in a receive, from `offset` on. False: its keys do not allow it.
    fn fill(&mut self, receive: &Receive, offset: u32, bytes: &[u8]) -> bool;

    // The program.

    /// The oldest request has just ended, which was `number`.
    fn request_ended(&mut self, send: &SendQueue, number: u64, status: Status);
    /// A receive ended with a failure.
    fn receive_failed(&mut self, receive: &Receive, status: Status);
    /// A receive was filled; `id` is the program's mark of it.
    fn receive_filled(&mut self, id: u64, arrived: Arrived);
    /// Something the program is told of beside completions.
    fn raise(&mut self, event: Event);
    /// Every request and receive that was outstanding has been flushed; whether the queue pair failed by itself.
    fn was_flushed(&mut self, by_itself: bool);
    /// The peer has sent its first message, whatever it is: it is connected.
    fn peer_is_connected(&mut self) {}
    /// The peer has said nothing for as long as it may, though it was asked: the connection fails, and everything outstanding is flushed.
    fn peer_is_silent(&mut self) {}
    /// For whoever looks on.
    fn sees(&mut self, happening: Happening);
}

/// The bytes that come with a packet.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// None.
    None,
    /// Of a request of this side's, in its pieces or inline.
    Request {
        /// Where the request is.
        send: &'a SendQueue,
        /// Which one.
        number: u64,
        /// Offset of the first byte in the message.
        offset: u32,
        /// How many.
        count: u32,
    },
    /// Memory of this side that the peer reads.
    Read {
        /// The shared receive queue in whose zone it is, on an extended connection.
        queue: Option<SrqNumber>,
        /// The first byte.
        from: RemoteRange,
        /// How many; if it is 0, the key need not lead anywhere.
        count: u32,
    },
}

impl Payload<'_> {
    /// How many bytes.
    pub fn count(&self) -> u32 {
        match *self {
            Self::None => 0,
            Self::Request { count, .. } | Self::Read { count, .. } => count,
        }
    }
}

/// What came of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    Sent,
    /// There is no room.
    NoRoom,
    /// Its bytes are not there, or the keys do not allow to take them.
    Gone,
}
