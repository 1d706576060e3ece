//! What a connection needs of whoever drives it.

use crate::access::Access;
use crate::completion::Status;
use crate::connection::Connection;
use crate::flush::FlushRequest;
use crate::happening::Happening;
use crate::key::Key;
use crate::message::{AtomicChange, BaseHeader, Extent, Message, SendPull};
use crate::number::{QpNumber, QueueName, RemoteRange, SrqNumber};
use crate::receive_queue::Receive;
use crate::responder::{AffiliatedError, Outcome};
use crate::send_queue::Slot;
use crate::state::QpType;
use crate::timer::Moment;
use crate::work_request::{CompletionOpcode, Operation};

/// What is around a connection: what carries its messages, the memory behind the gate, and the program that is told. `P` is the
/// way to the peer, `T` an instant of its clock.
///
/// A connection calls these and nothing else, so whatever gives them can drive it: the device, over the rings within one host;
/// a simulator; a wire. All of it is resolved when the connection's methods are compiled, so nothing is called through a table.
pub trait Surroundings<P, T: Moment>: Sized {
    /// Bytes that came with a message, and the way by which they came.
    type Arrival<'a>: Copy;
    /// The local bytes of a request that sends them.
    type Source<'a>: Copy;

    /// Bytes of a message that are carried in one piece, at most.
    const FRAGMENT: u32;

    /// The service of the queue pair ([`QpType::service`]).
    fn service(&self) -> QpType;
    /// Its number.
    fn number(&self) -> QpNumber;
    /// What time it is.
    fn now(&self) -> T;

    // What carries messages.

    /// Looks for the way to the peer, if none is known or the one that is known has ended.
    fn find_path(&mut self, connection: &mut Connection<P, T>);
    /// Whether a way has ended.
    fn has_ended(&self, path: &P) -> bool;
    /// Gives a message without bytes to the carrier. False: there is no room, and nothing was done.
    fn push(&mut self, path: &P, message: &Message) -> bool;
    /// The same with `count` bytes of `source`, from `offset` on.
    fn push_bytes(
        &mut self,
        path: &P,
        message: &Message,
        source: Self::Source<'_>,
        offset: u64,
        count: u64,
    ) -> bool;
    /// The same with bytes that the peer reads (9.7.5, 9.4.4); on an extended connection memory of the zone of `queue`.
    fn push_read(
        &mut self,
        path: &P,
        message: &Message,
        queue: QueueName,
        from: RemoteRange,
        count: u32,
    ) -> ReadPushed;
    /// There was no room; the connection is to go on when there is ([`Connection::resume`]).
    fn await_room(&mut self, path: &P);
    /// Calls the peer, which may not be looking, to what was given to the carrier.
    fn call_peer(&mut self, path: &P);
    /// Tells whoever asked that nobody takes its requests: `base` is of one of them.
    fn decline(&mut self, connection: &mut Connection<P, T>, base: BaseHeader, arrival: Self::Arrival<'_>);
    /// [`Connection::handle_time`] is to be called at that moment.
    fn call_at(&mut self, moment: T);
    /// Length of what came, in bytes.
    fn length(arrival: Self::Arrival<'_>) -> u32;

    // What only a carrier within one host can do besides. Others decline.

    /// Whether everything that was given to the carrier has been taken by the peer.
    fn everything_was_taken(&self, path: &P) -> bool;
    /// Whether bytes of the peer's can be used from here with this right, beyond doubt.
    fn reaches(&self, path: &P, remote: RemoteRange, length: u64, want: Access) -> bool;
    /// Carries an RDMA Write out.
    fn write_directly(
        &mut self,
        path: &P,
        remote: RemoteRange,
        total: u64,
        source: Self::Source<'_>,
    ) -> Direct;
    /// Carries an RDMA Read out, which is request `number`.
    fn read_directly(
        &mut self,
        connection: &Connection<P, T>,
        path: &P,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Direct;
    /// Carries an atomic out, which is request `number`.
    fn change_directly(
        &mut self,
        connection: &Connection<P, T>,
        path: &P,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Direct;
    /// Sends request `number` in such a way that the peer takes its bytes from this side's memory, if that pays; whether there
    /// was room. `None`: it does not, or cannot be done.
    fn push_to_be_pulled(
        &mut self,
        connection: &Connection<P, T>,
        path: &P,
        number: u64,
        slot: &Slot,
        pull: SendPull,
    ) -> Option<bool>;
    /// The peer cannot take bytes from this side's memory after all.
    fn stop_pulls(&mut self, path: &P);
    /// Takes a send whose bytes are in the sender's memory.
    fn take_pull(
        &mut self,
        connection: &mut Connection<P, T>,
        base: BaseHeader,
        pull: &SendPull,
        arrival: Self::Arrival<'_>,
    ) -> Outcome;
    /// Starts a datagram, which is request `number` (9.8.3).
    fn start_datagram(&mut self, connection: &mut Connection<P, T>, number: u64, slot: &Slot) -> Step;

    /// On an extended connection: what the peer asks from now on concerns this shared receive queue, its receives and its zone.
    /// False: the domain has no such queue, and nothing has changed.
    fn turn_to(&mut self, queue: SrqNumber) -> bool;

    // Memory of this side, behind the gate.

    /// Runs `body` with the local bytes of request `number`. `None`: its keys do not allow it.
    fn with_source<R>(
        &mut self,
        connection: &mut Connection<P, T>,
        number: u64,
        slot: &Slot,
        body: impl FnOnce(&mut Self, &mut Connection<P, T>, Self::Source<'_>) -> R,
    ) -> Option<R>;
    /// Whether the local keys of request `number` let a result be placed.
    fn takes_result(&self, connection: &Connection<P, T>, number: u64) -> bool;
    /// Places bytes of a read's answer, from `offset` on, where the oldest request wants them. False: its keys do not allow it.
    fn place_answer(
        &mut self,
        connection: &Connection<P, T>,
        offset: u32,
        arrival: Self::Arrival<'_>,
    ) -> bool;
    /// The same of what a word held before an atomic.
    fn place_old(&mut self, connection: &Connection<P, T>, old: u64) -> bool;
    /// Carries out a request of which nothing happens at the peer: a memory window's.
    fn take_turn(&mut self, operation: &Operation) -> LocalTurn;
    /// Places a fragment of an RDMA Write of a peer's. The whole range is judged with every fragment: the region may go at any
    /// time. False: it is not allowed.
    fn write(&mut self, remote: RemoteRange, extent: Extent, arrival: Self::Arrival<'_>) -> bool;
    /// Whether a peer may read this.
    fn may_be_read(&mut self, remote: RemoteRange, total: u32) -> bool;
    /// Whether a peer may flush this; then what it wrote before is where it wants it. The key is looked at whatever the length is.
    fn may_be_flushed(&mut self, flush: &FlushRequest) -> bool;
    /// Carries an atomic of a peer's out; what the word held before.
    fn change(&mut self, remote: RemoteRange, change: AtomicChange) -> Result<u64, NotChanged>;
    /// Whether a peer may take this key out of use.
    fn may_be_invalidated(&mut self, key: Key) -> bool;
    /// Takes it out of use for the peer; false: it no longer may.
    fn invalidate(&mut self, key: Key) -> bool;

    // Receives.

    /// The next receive: the connection's own, or one that it shares with others.
    fn take_receive(&mut self, connection: &mut Connection<P, T>) -> Option<Receive>;
    /// It is the next again.
    fn give_back_receive(&mut self, connection: &mut Connection<P, T>, receive: Receive);
    /// Whether there is one.
    fn has_receive(&self, connection: &Connection<P, T>) -> bool;
    /// Whether the program has completions to poll, and so is about to post receives.
    fn owes_poll(&self) -> bool;
    /// Places bytes in a receive, from `offset` on. False: its keys do not allow it.
    fn fill(&mut self, receive: &Receive, offset: u32, arrival: Self::Arrival<'_>) -> bool;

    // The program.

    /// The oldest request has just ended, which was `number`.
    fn request_ended(&mut self, connection: &mut Connection<P, T>, number: u64, status: Status);
    /// A receive ended with a failure.
    fn receive_failed(&mut self, receive: &Receive, status: Status);
    /// A receive was filled; `id` is the program's mark of it.
    fn receive_filled(&mut self, id: u64, base: BaseHeader, arrived: Arrived);
    /// Something the program is told of beside completions.
    fn raise(&mut self, event: Event);
    /// The queue pair is about to stop: peers find nobody any more.
    fn withdraw(&mut self);
    /// Every request and receive that was outstanding has been flushed.
    fn was_flushed(&mut self);
    /// It failed by itself, and is flushed.
    fn failed(&mut self);
    /// For whoever looks on.
    fn sees(&mut self, happening: Happening);
}

/// What came of sending bytes that the peer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPushed {
    /// They are on their way.
    Pushed,
    /// There is no room.
    NoRoom,
    /// The memory is there no more, or not to be read any more.
    Gone,
}

/// What trying a request directly on the peer's memory came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// It was carried out.
    Done,
    /// Not possible, or not allowed beyond doubt: ask the peer.
    Declined,
    /// It failed on this side.
    Failed(Status),
    /// The peer's memory is not there.
    Fault,
}

/// What starting a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Done.
    Finished,
    /// On its way; the peer answers.
    InFlight,
    /// There is no room.
    Blocked,
    /// Something older must end first.
    Later,
    /// Failed here.
    Failed(Status),
    /// Nobody to send it to.
    Unreachable,
    /// The peer's memory is not there.
    Fault,
}

/// What came of a request of which nothing happens at the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalTurn {
    /// Done.
    Done,
    /// Somebody is inside an operation through the key: look again.
    Wait,
    /// It cannot be done.
    Failed,
}

/// Why an atomic of a peer's was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotChanged {
    /// Key, range, zone or right.
    NotAllowed,
    /// The bytes are no word that atomics can change.
    NoWord,
}

/// What the program is told of beside completions (affiliated asynchronous events, 11.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message came before the program had the queue pair ready to send.
    CommunicationEstablished,
    /// Everything that was begun has ended, as was asked for (10.3.1).
    SendQueueDrained,
    /// A request of the peer's ended the connection.
    Affiliated(AffiliatedError),
}

/// What the program is shown of a message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// What it was.
    pub opcode: CompletionOpcode,
    /// Length in bytes.
    pub total: u32,
    /// Immediate data, or the key that was taken out of use.
    pub immediate: Option<u32>,
    /// Wake a receiver that waits for solicited events only.
    pub solicited: bool,
}

/// What delivering a message did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// No receive was filled.
    Quiet,
    /// A receive was filled.
    Filled,
    /// The message must wait where it is.
    Held,
}
