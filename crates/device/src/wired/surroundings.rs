//! What the machine for packets finds around it in a queue pair: memory behind the gate, completions and events, as the protocol's
//! connection does, and packets on their way out.

use nonic_memory::{Access, Key};
use nonic_protocol::{
    Arrived, AtomicChange, Event, Extent, FlushRequest, Happening, LocalTurn, NotChanged, Operation,
    QueueName, Receive, ReceiveQueue, RemoteRange, SendQueue, SrqNumber, Status,
};
use nonic_roce::{Packet, Payload, Sent, Surroundings};
use nonic_sys::Seldom;
use nonic_wire::Pushed;

use crate::bytes::{Slices, cut};
use crate::queue_pair::{Asked, Carrier, QueuePair};
use crate::wire_address::ip_address;

static SILENT: Seldom = Seldom::new();

/// A queue pair, and what carries its packets.
pub(crate) struct Around<'a> {
    pub(super) pair: &'a QueuePair,
    pub(super) carrier: &'a mut Carrier,
}

impl Around<'_> {
    fn push(&mut self, packet: &Packet, count: u32, fill: impl FnOnce(&mut [u8]) -> bool) -> Sent {
        let Carrier { wire, station, route, outgoing, is_closed, .. } = &mut *self.carrier;
        if *is_closed {
            return Sent::Sent;
        }
        self.pair.engine().note_packet();
        let outgoing = outgoing.get_or_insert_with(|| wire.outgoing());
        match outgoing.push(station, route, packet, count, fill) {
            Pushed::Pushed => Sent::Sent,
            Pushed::NoRoom => Sent::NoRoom,
            Pushed::Gone => Sent::Gone,
        }
    }
}

impl QueuePair {
    /// Puts bytes of a request into `place`, from `offset` on; false if its keys do not allow it.
    pub(super) fn gather(&self, send: &SendQueue, number: u64, offset: u32, place: &mut [u8]) -> bool {
        if send.slot(number).flags.inline {
            let bytes = send.inline_bytes(number, &self.capabilities);
            let Some(part) = bytes.get(offset as usize..offset as usize + place.len()) else { return false };
            place.copy_from_slice(part);
            return true;
        }
        let own = self.engine().party().memory.enter();
        let mut slices = Slices::new();
        if self.local_bytes(send, &own, number, Access::LOCAL_READ, &mut slices).is_err() {
            return false;
        }
        let mut rest = place;
        for slice in cut(&slices, offset as usize, rest.len()) {
            let (first, others) = rest.split_at_mut(slice.length());
            if !slice.try_read(first) {
                return false;
            }
            rest = others;
        }
        rest.is_empty() && !own.has_faulted()
    }

    /// Puts bytes that the peer reads into `place`; false if it may not.
    fn read_for_peer(&self, queue: Option<SrqNumber>, from: RemoteRange, place: &mut [u8]) -> bool {
        let queue = queue.map_or(QueueName::NONE, QueueName::of);
        match self.asked_through(queue) {
            Asked::Here(memory) => memory.read(from, place),
            Asked::Elsewhere(queue) => {
                let bytes = queue.read(from, place.len() as u32);
                bytes.inspect(|bytes| place.copy_from_slice(bytes)).is_some()
            }
            Asked::Nobody => false,
        }
    }
}

impl Surroundings for Around<'_> {
    fn send(&mut self, packet: &Packet, payload: Payload<'_>) -> Sent {
        let pair = self.pair;
        let count = payload.count();
        self.push(packet, count, |place| match payload {
            Payload::None => true,
            Payload::Request { send, number, offset, .. } => pair.gather(send, number, offset, place),
            Payload::Read { queue, from, .. } => pair.read_for_peer(queue, from, place),
        })
    }

    fn await_room(&mut self) {
        self.carrier.waits = true;
    }

    fn takes_result(&mut self, send: &SendQueue, number: u64) -> bool {
        self.pair.can_place_result(send, number)
    }

    fn place_answer(&mut self, send: &SendQueue, number: u64, offset: u32, bytes: &[u8]) -> bool {
        self.pair.place_result(send, number, offset as usize, bytes)
    }

    fn place_old(&mut self, send: &SendQueue, number: u64, old: u64) -> bool {
        self.pair.place_result(send, number, 0, &old.to_ne_bytes()[..])
    }

    fn take_turn(&mut self, operation: &Operation) -> LocalTurn {
        self.pair.turn(operation)
    }

    fn turn_to(&mut self, queue: SrqNumber) -> bool {
        self.pair.turn_to_queue(queue)
    }

    fn write(&mut self, remote: RemoteRange, extent: Extent, bytes: &[u8]) -> bool {
        self.pair.place_write(remote, extent, bytes)
    }

    fn may_be_read(&mut self, remote: RemoteRange, length: u32) -> bool {
        self.pair.may_read(remote, length)
    }

    fn may_be_flushed(&mut self, flush: &FlushRequest) -> bool {
        self.pair.may_flush(flush)
    }

    fn change(&mut self, remote: RemoteRange, change: AtomicChange) -> Result<u64, NotChanged> {
        self.pair.change_word(remote, change)
    }

    fn may_be_invalidated(&mut self, key: Key) -> bool {
        self.pair.window_of_peer(key).is_some()
    }

    fn invalidate(&mut self, key: Key) -> bool {
        let pair = self.pair;
        pair.window_of_peer(key).is_some_and(|window| window.invalidate_for_peer(pair.number(), key))
    }

    fn take_receive(&mut self, own: &mut ReceiveQueue) -> Option<Receive> {
        self.pair.first_receive(own)
    }

    fn give_back_receive(&mut self, own: &mut ReceiveQueue, receive: Receive) {
        self.pair.put_receive_back(own, receive);
    }

    fn fill(&mut self, receive: &Receive, offset: u32, bytes: &[u8]) -> bool {
        self.pair.place(receive, offset.into(), bytes)
    }

    fn request_ended(&mut self, send: &SendQueue, number: u64, status: Status) {
        self.pair.tell_request_ended(send, number, status);
    }

    fn receive_failed(&mut self, receive: &Receive, status: Status) {
        self.pair.complete_receive(receive, status);
    }

    fn receive_filled(&mut self, id: u64, arrived: Arrived) {
        self.pair.complete_message(id, self.carrier.peer, arrived);
    }

    fn raise(&mut self, event: Event) {
        self.pair.raise_event(event);
    }

    fn was_flushed(&mut self, by_itself: bool) {
        self.pair.tell_flushed();
        if by_itself {
            self.pair.tell_failure();
        }
    }

    fn peer_is_connected(&mut self) {
        if let Some(observer) = self.pair.engine().management_observer() {
            observer.is_connected(self.pair.number());
        }
    }

    fn peer_is_silent(&mut self) {
        let (peer, pair) = (self.carrier.peer.0, self.pair.number());
        if let (Some(unsaid), Some(silence)) = (SILENT.turn(), self.pair.engine().wire_silence()) {
            let host = ip_address(self.carrier.route.to);
            tracing::warn!(
                %host,
                peer,
                pair = pair.0,
                ?silence,
                unsaid,
                "a peer on another host does not answer any more, so the connection is over; NONIC_WIRE_SILENCE says how long it is \
                 waited for, 0 for ever"
            );
        }
        if let Some(observer) = self.pair.engine().management_observer() {
            observer.is_silent(pair);
        }
    }

    fn sees(&mut self, happening: Happening) {
        self.pair.witness.sees(happening);
    }
}
