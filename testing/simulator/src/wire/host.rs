//! What is around a connection: memory of one region, receives, and what its program was told.

use std::collections::VecDeque;
use std::ops::Range;

use nonic_protocol::{
    Arrived, AtomicChange, CompletionOpcode, Event, Extent, FlushRequest, Happening, Key, LocalTurn,
    NotChanged, Operation, Receive, ReceiveQueue, RemoteRange, Selectivity, SendQueue, SrqNumber, Status,
};
use nonic_roce::{Packet, Payload, Sent, Surroundings};

use super::grants::Grants;

/// Address of the first byte of the region.
pub const ADDRESS: u64 = 0x1_0000;
/// The region's key, for either side.
pub const KEY: Key = Key(0x1234_5678);
/// A key that a send may take out of use.
pub const WINDOW: Key = Key(0x77);
/// A key that somebody else than the peer was given.
pub(super) const FOREIGN: Key = Key(0x78);

/// A host with one region, of which a peer may use all bytes from [`ADDRESS`] on.
#[derive(Debug)]
pub struct Host {
    /// The region's bytes.
    pub memory: Vec<u8>,
    /// Packets that were sent, with their bytes.
    pub sent: VecDeque<(Packet, Vec<u8>)>,
    /// Packets for which there is room.
    pub room: usize,
    /// The connection is to be told of room.
    pub awaits_room: bool,
    /// Requests that ended: the program's mark, and how.
    pub ended: Vec<(u64, Status)>,
    /// Receives that were filled.
    pub filled: Vec<(u64, Arrived)>,
    /// Receives that failed.
    pub failed: Vec<(u64, Status)>,
    /// What the program was told besides.
    pub events: Vec<Event>,
    /// Everything was flushed, and whether by itself.
    pub flushed: Option<bool>,
    /// The region is known.
    pub is_registered: bool,
    /// The key that may be taken out of use still may.
    pub has_window: bool,
    /// What a window's bind comes to, how often before it is done.
    pub turns_to_wait: u32,
    /// Shared receive queues of an XRC domain.
    pub queues: Vec<SrqNumber>,
    /// The last one that was turned to.
    pub queue: Option<SrqNumber>,
    /// Capabilities of the connection: pieces of a request at most.
    pub pieces_max: u32,
    /// How often it was told that the peer is connected.
    pub connected: u32,
    /// How often it was told that the peer is silent.
    pub silences: u32,
    /// What happened.
    pub seen: Vec<Happening>,
    /// What else it has given to peers, and what it has taken back.
    pub grants: Grants,
}

impl Host {
    /// One with so many bytes, all of them 0.
    pub fn new(length: usize) -> Self {
        Self {
            memory: vec![0; length],
            sent: VecDeque::new(),
            room: usize::MAX,
            awaits_room: false,
            ended: Vec::new(),
            filled: Vec::new(),
            failed: Vec::new(),
            events: Vec::new(),
            flushed: None,
            is_registered: true,
            has_window: true,
            turns_to_wait: 0,
            queues: Vec::new(),
            queue: None,
            pieces_max: 1,
            connected: 0,
            silences: 0,
            seen: Vec::new(),
            grants: Grants::default(),
        }
    }

    /// Where a key and an address lead to.
    fn resolve(&self, key: Key, address: u64, length: usize) -> Option<Range<usize>> {
        if !self.is_registered {
            return None;
        }
        let start = usize::try_from(address.checked_sub(ADDRESS)?).ok()?;
        let place = start..start.checked_add(length)?;
        let may = key == KEY || self.grants.leads_to(key, &place);
        (may && place.end <= self.memory.len()).then_some(place)
    }

    /// The bytes there.
    fn read(&self, key: Key, address: u64, length: usize) -> Option<Vec<u8>> {
        self.resolve(key, address, length).map(|place| self.memory[place].to_vec())
    }

    /// Puts bytes there; false if the key does not lead there.
    fn store(&mut self, key: Key, address: u64, bytes: &[u8]) -> bool {
        let Some(place) = self.resolve(key, address, bytes.len()) else { return false };
        self.grants.lands(&place);
        self.memory[place].copy_from_slice(bytes);
        true
    }

    /// Places bytes in pieces of memory of this side, from `offset` on.
    fn scatter(&mut self, pieces: &[nonic_protocol::ScatterGather], offset: u32, bytes: &[u8]) -> bool {
        let [piece] = pieces else { return bytes.is_empty() };
        let ends = offset as usize + bytes.len();
        assert!(ends <= piece.length as usize, "{ends} bytes for a piece of {}", piece.length);
        self.store(piece.key, piece.address + u64::from(offset), bytes)
    }

    fn capabilities(&self) -> nonic_protocol::Capabilities {
        nonic_protocol::Capabilities { send_pieces: self.pieces_max, ..Default::default() }
    }

    fn pieces(&self, send: &SendQueue, number: u64) -> Vec<nonic_protocol::ScatterGather> {
        send.pieces(number, &self.capabilities()).to_vec()
    }
}

impl Surroundings for Host {
    fn send(&mut self, packet: &Packet, payload: Payload<'_>) -> Sent {
        if self.sent.len() >= self.room {
            return Sent::NoRoom;
        }
        let bytes = match payload {
            _ if payload.count() == 0 => Some(Vec::new()),
            Payload::None => Some(Vec::new()),
            Payload::Request { send, number, offset, count } => {
                self.grants.uses_request(number);
                let pieces = self.pieces(send, number);
                let [piece] = pieces[..] else { return Sent::Gone };
                assert!(offset + count <= piece.length, "bytes behind the request's end are sent");
                self.read(piece.key, piece.address + u64::from(offset), count as usize)
            }
            Payload::Read { from, count, .. } => {
                let place = self.resolve(from.key, from.address, count as usize);
                place.map(|place| {
                    self.grants.is_read(from.key, &place);
                    self.memory[place].to_vec()
                })
            }
        };
        let Some(bytes) = bytes else { return Sent::Gone };
        self.sent.push_back((*packet, bytes));
        Sent::Sent
    }

    fn await_room(&mut self) {
        self.awaits_room = true;
    }

    fn takes_result(&mut self, send: &SendQueue, number: u64) -> bool {
        let pieces = self.pieces(send, number);
        pieces.iter().all(|piece| self.resolve(piece.key, piece.address, piece.length as usize).is_some())
    }

    fn place_answer(&mut self, send: &SendQueue, number: u64, offset: u32, bytes: &[u8]) -> bool {
        self.grants.uses_request(number);
        let pieces = self.pieces(send, number);
        self.scatter(&pieces, offset, bytes)
    }

    fn place_old(&mut self, send: &SendQueue, number: u64, old: u64) -> bool {
        self.grants.uses_request(number);
        let pieces = self.pieces(send, number);
        self.scatter(&pieces, 0, &old.to_ne_bytes())
    }

    fn take_turn(&mut self, _operation: &Operation) -> LocalTurn {
        if self.turns_to_wait == 0 {
            return LocalTurn::Done;
        }
        self.turns_to_wait -= 1;
        LocalTurn::Wait
    }

    fn turn_to(&mut self, queue: SrqNumber) -> bool {
        let known = self.queues.contains(&queue);
        if known {
            self.queue = Some(queue);
        }
        known
    }

    fn write(&mut self, remote: RemoteRange, extent: Extent, bytes: &[u8]) -> bool {
        assert!(extent.holds(bytes.len() as u32), "bytes behind the end of a write are placed");
        if self.resolve(remote.key, remote.address, extent.total as usize).is_none() {
            return false;
        }
        self.store(remote.key, remote.address + u64::from(extent.offset), bytes)
    }

    fn may_be_read(&mut self, remote: RemoteRange, length: u32) -> bool {
        self.resolve(remote.key, remote.address, length as usize).is_some()
    }

    fn may_be_flushed(&mut self, flush: &FlushRequest) -> bool {
        let FlushRequest { remote, length, selectivity, .. } = *flush;
        let is_inside = self.resolve(remote.key, remote.address, length as usize).is_some();
        self.is_registered && remote.key == KEY && (selectivity == Selectivity::Region || is_inside)
    }

    fn change(&mut self, remote: RemoteRange, change: AtomicChange) -> Result<u64, NotChanged> {
        let word = self.read(remote.key, remote.address, 8).ok_or(NotChanged::NotAllowed)?;
        let old = u64::from_ne_bytes(word.try_into().expect("a word has eight bytes"));
        let new = match change {
            AtomicChange::CompareSwap { compare, swap } if compare == old => swap,
            AtomicChange::CompareSwap { .. } => old,
            AtomicChange::FetchAdd { add } => old.wrapping_add(add),
        };
        self.store(remote.key, remote.address, &new.to_ne_bytes());
        Ok(old)
    }

    fn may_be_invalidated(&mut self, key: Key) -> bool {
        key == WINDOW && self.has_window || self.grants.may_be_invalidated(key)
    }

    fn invalidate(&mut self, key: Key) -> bool {
        let may = self.may_be_invalidated(key);
        self.has_window &= key != WINDOW;
        self.grants.take_back(key, &self.memory);
        may
    }

    fn take_receive(&mut self, own: &mut ReceiveQueue) -> Option<Receive> {
        let taken = own.take()?;
        self.grants.begin_receive(taken.id);
        Some(taken)
    }

    fn give_back_receive(&mut self, own: &mut ReceiveQueue, receive: Receive) {
        self.grants.end_receive(receive.id);
        own.give_back(receive);
    }

    fn fill(&mut self, receive: &Receive, offset: u32, bytes: &[u8]) -> bool {
        self.grants.fills(receive.id);
        self.scatter(receive.pieces.as_slice(), offset, bytes)
    }

    fn request_ended(&mut self, send: &SendQueue, number: u64, status: Status) {
        self.grants.end_request(number);
        self.ended.push((send.slot(number).id, status));
    }

    fn receive_failed(&mut self, receive: &Receive, status: Status) {
        self.grants.end_receive(receive.id);
        self.failed.push((receive.id, status));
    }

    fn receive_filled(&mut self, id: u64, arrived: Arrived) {
        if arrived.opcode == CompletionOpcode::ReceiveInvalidate {
            let key = Key(arrived.immediate.expect("the completion names the key"));
            let is_usable = if key == WINDOW { self.has_window } else { self.grants.has(key) };
            assert!(!is_usable, "{key:?} is in use when the completion says that it is not any more");
        }
        self.grants.end_receive(id);
        self.filled.push((id, arrived));
    }

    fn raise(&mut self, event: Event) {
        self.events.push(event);
    }

    fn was_flushed(&mut self, by_itself: bool) {
        self.flushed = Some(by_itself);
    }

    fn peer_is_connected(&mut self) {
        self.connected += 1;
    }

    fn peer_is_silent(&mut self) {
        self.silences += 1;
    }

    fn sees(&mut self, happening: Happening) {
        self.seen.push(happening);
    }
}
