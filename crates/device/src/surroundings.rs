//! What the protocol's connection finds around it in a queue pair: the link, memory behind the gate, completions and events.

use std::time::Instant;

use nonic_memory::{Access, Key, SharedSlice};
use nonic_protocol::{
    Arrived, AtomicChange, BaseHeader, Direct, Event, Extent, FlushRequest, Happening, LocalTurn, Message,
    NotChanged, Operation, Outcome, QpAttributes, QpNumber, QpType, QueueName, ReadPushed, Receive,
    RemoteRange, SendPull, Slot, SrqNumber, Status, Step, Surroundings,
};
use nonic_transport::FRAGMENT;

use crate::bytes::{cut, gathered};
use crate::nowhere;
use crate::queue_pair::{Arrival, Inner, Path, QueuePair};

impl Surroundings<Path, Instant> for &QueuePair {
    type Arrival<'a> = Arrival<'a>;
    type Source<'a> = &'a [SharedSlice<'a>];

    const FRAGMENT: u32 = FRAGMENT as u32;

    #[inline]
    fn service(&self) -> QpType {
        self.service
    }

    #[inline]
    fn number(&self) -> QpNumber {
        self.number
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn find_path(&mut self, connection: &mut Inner) {
        QueuePair::find_path(self, connection);
        if let Some(path) = &mut connection.path
            && path.slot.is_none()
        {
            path.slot = path.link.view().and_then(|view| view.segment.slot_place(path.address.number()));
        }
    }

    #[inline]
    fn has_ended(&self, path: &Path) -> bool {
        path.link.is_dead()
    }

    #[inline]
    fn push(&mut self, path: &Path, message: &Message) -> bool {
        path.link.push(message, &[]).is_ok()
    }

    #[inline]
    fn push_bytes(
        &mut self,
        path: &Path,
        message: &Message,
        source: &[SharedSlice<'_>],
        offset: u64,
        count: u64,
    ) -> bool {
        if source.iter().any(SharedSlice::is_paged) {
            return match gathered(&cut(source, offset as usize, count as usize)) {
                Some(mut bytes) => path.link.push(message, &[SharedSlice::of_private(&mut bytes)]).is_ok(),
                // The request fails as soon as `with_source` is through with it.
                None => true,
            };
        }
        let total: usize = source.iter().map(|slice| slice.length()).sum();
        if count as usize == total {
            path.link.push(message, source).is_ok()
        } else {
            path.link.push(message, &cut(source, offset as usize, count as usize)).is_ok()
        }
    }

    fn push_read(
        &mut self,
        path: &Path,
        message: &Message,
        queue: QueueName,
        from: RemoteRange,
        count: u32,
    ) -> ReadPushed {
        self.push_read_bytes(&path.link, message, queue, from, count)
    }

    fn await_room(&mut self, path: &Path) {
        path.link.add_stalled(self.number);
    }

    #[inline]
    fn call_peer(&mut self, path: &Path) {
        path.link.ring_bell();
    }

    fn decline(&mut self, connection: &mut Inner, base: BaseHeader, arrival: Arrival<'_>) {
        self.decline_request(connection, arrival.link, base);
    }

    fn call_at(&mut self, moment: Instant) {
        self.engine().schedule(moment, self.number);
    }

    #[inline]
    fn length(arrival: Arrival<'_>) -> u32 {
        arrival.bytes.length() as u32
    }

    #[inline]
    fn everything_was_taken(&self, path: &Path) -> bool {
        path.link.everything_was_read()
    }

    fn reaches(&self, path: &Path, remote: RemoteRange, length: u64, want: Access) -> bool {
        QueuePair::reaches(self, path, remote, length, want)
    }

    #[inline]
    fn write_directly(
        &mut self,
        path: &Path,
        remote: RemoteRange,
        total: u64,
        source: &[SharedSlice<'_>],
    ) -> Direct {
        QueuePair::write_directly(self, path, remote, total, source)
    }

    #[inline]
    fn read_directly(
        &mut self,
        connection: &Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Direct {
        QueuePair::read_directly(self, connection, path, number, slot.total, remote)
    }

    #[inline]
    fn change_directly(
        &mut self,
        connection: &Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Direct {
        QueuePair::change_directly(self, connection, path, number, &slot.operation, remote)
    }

    #[inline]
    fn push_to_be_pulled(
        &mut self,
        connection: &Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        pull: SendPull,
    ) -> Option<bool> {
        self.may_be_pulled(connection, &path.link, number, slot)
            .then(|| self.push_list(connection, &path.link, pull, number))
    }

    fn stop_pulls(&mut self, path: &Path) {
        path.link.stop_pulls();
    }

    fn take_pull(
        &mut self,
        connection: &mut Inner,
        base: BaseHeader,
        pull: &SendPull,
        arrival: Arrival<'_>,
    ) -> Outcome {
        QueuePair::take_pull(self, connection, arrival.link, base, pull, arrival.bytes)
    }

    fn start_datagram(&mut self, connection: &mut Inner, number: u64, slot: &Slot) -> Step {
        QueuePair::start_datagram(self, connection, number, slot)
    }

    fn turn_to(&mut self, queue: SrqNumber) -> bool {
        self.turn_to_queue(queue)
    }

    #[inline]
    fn with_source<R>(
        &mut self,
        connection: &mut Inner,
        number: u64,
        slot: &Slot,
        body: impl FnOnce(&mut Self, &mut Inner, Self::Source<'_>) -> R,
    ) -> Option<R> {
        let pair = *self;
        pair.with_source(connection, number, slot, |connection, source| body(self, connection, source)).ok()
    }

    fn takes_result(&self, connection: &Inner, number: u64) -> bool {
        self.can_place_result(&connection.send, number)
    }

    fn place_answer(&mut self, connection: &Inner, offset: u32, arrival: Arrival<'_>) -> bool {
        self.place_result(&connection.send, connection.send.finished, offset as usize, arrival.bytes)
    }

    fn place_old(&mut self, connection: &Inner, old: u64) -> bool {
        self.place_result(&connection.send, connection.send.finished, 0, &old.to_ne_bytes()[..])
    }

    fn take_turn(&mut self, operation: &Operation) -> LocalTurn {
        self.turn(operation)
    }

    fn write(&mut self, remote: RemoteRange, extent: Extent, arrival: Arrival<'_>) -> bool {
        self.place_write(remote, extent, arrival.bytes)
    }

    fn may_be_read(&mut self, remote: RemoteRange, total: u32) -> bool {
        self.may_read(remote, total)
    }

    fn may_be_flushed(&mut self, flush: &FlushRequest) -> bool {
        self.may_flush(flush)
    }

    fn change(&mut self, remote: RemoteRange, change: AtomicChange) -> Result<u64, NotChanged> {
        self.change_word(remote, change)
    }

    fn may_be_invalidated(&mut self, key: Key) -> bool {
        self.window_of_peer(key).is_some()
    }

    fn invalidate(&mut self, key: Key) -> bool {
        self.window_of_peer(key).is_some_and(|window| window.invalidate_for_peer(self.number, key))
    }

    #[inline]
    fn take_receive(&mut self, connection: &mut Inner) -> Option<Receive> {
        self.first_receive(&mut connection.receives)
    }

    fn give_back_receive(&mut self, connection: &mut Inner, receive: Receive) {
        self.put_receive_back(&mut connection.receives, receive);
    }

    fn has_receive(&self, connection: &Inner) -> bool {
        self.has_some_receive(connection)
    }

    fn owes_poll(&self) -> bool {
        self.receive_completions.has_entries()
    }

    #[inline]
    fn fill(&mut self, receive: &Receive, offset: u32, arrival: Arrival<'_>) -> bool {
        self.place(receive, offset.into(), arrival.bytes)
    }

    #[inline]
    fn request_ended(&mut self, connection: &mut Inner, number: u64, status: Status) {
        self.tell_request_ended(&connection.send, number, status);
        if status == Status::RetryExceeded && connection.path.is_none() {
            let QpAttributes { destination_qp, address_vector, .. } = &connection.attributes;
            nowhere::is_nobodys(*destination_qp, address_vector.as_ref());
        }
        if connection.send.tells_end && connection.send.is_empty() {
            self.tell_end(connection);
        }
    }

    fn receive_failed(&mut self, receive: &Receive, status: Status) {
        self.complete_receive(receive, status);
    }

    #[inline]
    fn receive_filled(&mut self, id: u64, base: BaseHeader, arrived: Arrived) {
        self.complete_message(id, base.source, arrived);
    }

    fn raise(&mut self, event: Event) {
        self.raise_event(event);
    }

    fn withdraw(&mut self) {
        QueuePair::withdraw(self);
    }

    fn was_flushed(&mut self) {
        self.tell_flushed();
    }

    fn failed(&mut self) {
        self.tell_failure();
    }

    #[inline(always)]
    fn sees(&mut self, happening: Happening) {
        self.witness.sees(happening);
    }
}
