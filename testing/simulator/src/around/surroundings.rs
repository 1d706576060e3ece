//! What the protocol asks of the surroundings.

use std::time::Duration;

use nonic_protocol::{
    Access, Answer, Arrived, AtomicChange, BaseHeader, Body, CompletionOpcode, Direct, Event, Extent,
    FlushRequest, Happening, Key, LocalTurn, Message, NotChanged, Operation, Outcome, QpNumber, QpType,
    QueueName, ReadPushed, Receive, Refusal, RemoteRange, Request, SendPull, Slot, SrqNumber, Status, Step,
    Surroundings,
};

use super::Around;
use crate::carrier::{Carried, FRAGMENT};
use crate::node::{AREA, LOOSE_KEY, QueuePair, WORD, contents};

impl Surroundings<(), Duration> for Around<'_> {
    type Arrival<'a> = &'a Carried;
    /// Which request it is.
    type Source<'a> = u64;

    const FRAGMENT: u32 = FRAGMENT as u32;

    fn service(&self) -> QpType {
        self.scene.service
    }

    fn number(&self) -> QpNumber {
        self.scene.nodes[self.side].number
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn find_path(&mut self, pair: &mut QueuePair) {
        pair.path = (!self.node().alone).then_some(());
        self.starting = pair.send.slot(pair.send.started).id;
    }

    fn has_ended(&self, (): &()) -> bool {
        false
    }

    fn push(&mut self, (): &(), message: &Message) -> bool {
        if matches!(message.body.request(), Some(Request::WriteNotify(_))) {
            // The peer has a part in it.
            self.node().moved = false;
        }
        let serial = if message.body.request().is_some() { self.starting } else { 0 };
        let pushed = self.scene.carriers[self.side].push(*message, Vec::new(), serial);
        if pushed && matches!(message.body, Body::Answer(Answer::AtomicResponse { .. })) {
            self.node().owed.pop_front();
        }
        pushed
    }

    fn push_bytes(&mut self, (): &(), message: &Message, serial: u64, offset: u64, count: u64) -> bool {
        self.scene.carriers[self.side].push(*message, contents(serial, offset..offset + count), serial)
    }

    fn push_read(
        &mut self,
        (): &(),
        message: &Message,
        queue: QueueName,
        from: RemoteRange,
        count: u32,
    ) -> ReadPushed {
        let oldest = *self.node().owed.front().expect("an answer is owed for a request");
        assert_eq!(self.scene.named_by(oldest), queue.number(), "a read is judged by another queue");
        let (address, end) = (from.address, from.address + u64::from(count));
        if !self.node().allows(from.key, address, count.into(), WORD) {
            let serial = self.node().owed.pop_front().expect("an answer is owed for a request");
            self.node().owed.clear();
            self.scene.ledgers[1 - self.side].refused(serial, Status::RemoteAccess);
            return ReadPushed::Gone;
        }
        if !self.scene.carriers[self.side].push(*message, contents(0, address..end), 0) {
            return ReadPushed::NoRoom;
        }
        if let Body::Answer(Answer::ReadResponse(extent)) = message.body
            && extent.offset + count == extent.total
        {
            self.node().owed.pop_front();
        }
        ReadPushed::Pushed
    }

    fn await_room(&mut self, (): &()) {
        self.scene.carriers[self.side].was_full = true;
    }

    fn call_peer(&mut self, (): &()) {}

    fn decline(&mut self, pair: &mut QueuePair, base: BaseHeader, _: &Carried) {
        self.scene.ledgers[1 - self.side].met_nobody();
        if self.node().is_from_peer(base) {
            pair.responder.decline(base);
            pair.answer(self);
        } else {
            self.scene.refuse(self.side, base);
        }
    }

    fn call_at(&mut self, _: Duration) {}

    fn length(carried: &Carried) -> u32 {
        carried.payload.len() as u32
    }

    fn everything_was_taken(&self, (): &()) -> bool {
        self.scene.carriers[self.side].is_empty()
    }

    fn reaches(&self, (): &(), remote: RemoteRange, length: u64, want: Access) -> bool {
        let end = if want == Access::REMOTE_WRITE { AREA } else { WORD + 8 };
        !self.scene.extended && self.there().allows(remote.key, remote.address, length, end)
    }

    fn write_directly(&mut self, (): &(), remote: RemoteRange, total: u64, serial: u64) -> Direct {
        if let Err(not) = self.can_go_directly(remote, total, AREA) {
            return not;
        }
        let start = remote.address as usize;
        let there = &mut self.scene.nodes[1 - self.side];
        there.memory[start..start + total as usize].copy_from_slice(&contents(serial, 0..total));
        self.node().moved = true;
        Direct::Done
    }

    fn read_directly(&mut self, _: &QueuePair, (): &(), _: u64, slot: &Slot, remote: RemoteRange) -> Direct {
        if let Err(not) = self.can_go_directly(remote, slot.total, WORD) {
            return not;
        }
        self.node().moved = true;
        Direct::Done
    }

    fn change_directly(
        &mut self,
        _: &QueuePair,
        (): &(),
        _: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Direct {
        if let Err(not) = self.can_go_directly(remote, slot.total, WORD + 8) {
            return not;
        }
        self.scene.nodes[1 - self.side].word += 1;
        self.node().moved = true;
        Direct::Done
    }

    fn push_to_be_pulled(&mut self, _: &QueuePair, (): &(), _: u64, _: &Slot, _: SendPull) -> Option<bool> {
        None
    }

    fn stop_pulls(&mut self, (): &()) {
        panic!("nothing is pulled here");
    }

    fn take_pull(&mut self, _: &mut QueuePair, _: BaseHeader, _: &SendPull, _: &Carried) -> Outcome {
        panic!("nothing is pulled here");
    }

    fn start_datagram(&mut self, _: &mut QueuePair, _: u64, _: &Slot) -> Step {
        panic!("these queue pairs are connected");
    }

    fn turn_to(&mut self, queue: SrqNumber) -> bool {
        let serial = self.arriving.expect("a message came");
        assert_eq!(self.scene.named_by(serial), Some(queue), "a message names another queue");
        let node = self.node();
        let known = (1..=node.shared.len()).contains(&(queue.0 as usize));
        if known {
            node.turned_to = Some(queue);
        }
        known
    }

    fn with_source<R>(
        &mut self,
        pair: &mut QueuePair,
        _: u64,
        slot: &Slot,
        body: impl FnOnce(&mut Self, &mut QueuePair, u64) -> R,
    ) -> Option<R> {
        Some(body(self, pair, slot.id))
    }

    fn takes_result(&self, _: &QueuePair, _: u64) -> bool {
        true
    }

    fn place_answer(&mut self, pair: &QueuePair, offset: u32, carried: &Carried) -> bool {
        let slot = *pair.send.slot(pair.send.finished);
        let Some(RemoteRange { address, .. }) = slot.operation.remote() else {
            panic!("bytes came for {slot:?}")
        };
        let from = address + u64::from(offset);
        let there = contents(0, from..from + carried.payload.len() as u64);
        assert_eq!(carried.payload, there, "a read brought what was not there: {slot:?}");
        let node = self.node();
        node.fetched = if offset == 0 { 0 } else { node.fetched };
        assert_eq!(node.fetched, offset.into(), "bytes of a read with a gap: {slot:?}");
        node.fetched += carried.payload.len() as u64;
        true
    }

    fn place_old(&mut self, pair: &QueuePair, old: u64) -> bool {
        let slot = *pair.send.slot(pair.send.finished);
        assert_eq!(self.scene.ledgers[self.side].found(slot.id), Some(old), "{slot:?}");
        self.node().fetched = slot.total;
        true
    }

    /// Somebody may still be inside.
    fn take_turn(&mut self, operation: &Operation) -> LocalTurn {
        let Operation::Invalidate { key } = *operation else { panic!("{operation:?} is not posted here") };
        if self.chance.once_in(2) {
            return LocalTurn::Wait;
        }
        self.scene.ledgers[self.side].executed(key.0.into(), None);
        self.node().moved = true;
        LocalTurn::Done
    }

    fn write(&mut self, remote: RemoteRange, extent: Extent, carried: &Carried) -> bool {
        let node = self.node();
        if !node.allows(remote.key, remote.address, extent.total.into(), AREA) {
            return false;
        }
        let start = remote.address as usize;
        let at = start + extent.offset as usize;
        node.memory[at..at + carried.payload.len()].copy_from_slice(&carried.payload);
        if extent.offset + Self::length(carried) == extent.total {
            let written = &node.memory[start..start + extent.total as usize];
            assert_eq!(written, contents(carried.serial, 0..extent.total.into()), "a write has other bytes");
        }
        true
    }

    fn may_be_read(&mut self, remote: RemoteRange, total: u32) -> bool {
        let serial = self.arriving;
        let node = self.node();
        let allowed = node.allows(remote.key, remote.address, total.into(), WORD);
        if allowed {
            node.owed.extend(serial);
        }
        allowed
    }

    fn may_be_flushed(&mut self, flush: &FlushRequest) -> bool {
        let FlushRequest { remote, length, .. } = *flush;
        let serial = self.arriving;
        let node = self.node();
        let allowed = node.allows(remote.key, remote.address, length.into(), WORD);
        if allowed {
            node.owed.extend(serial);
        }
        allowed
    }

    fn change(&mut self, remote: RemoteRange, _: AtomicChange) -> Result<u64, NotChanged> {
        let serial = self.arriving;
        let node = self.node();
        if !node.allows(remote.key, remote.address, 8, WORD + 8) {
            return Err(NotChanged::NotAllowed);
        }
        node.owed.extend(serial);
        let old = node.word;
        node.word += 1;
        self.executed(Some(old));
        Ok(old)
    }

    fn may_be_invalidated(&mut self, key: Key) -> bool {
        key == LOOSE_KEY && !self.node().loosened
    }

    fn invalidate(&mut self, key: Key) -> bool {
        let may = self.may_be_invalidated(key);
        self.node().loosened |= may;
        may
    }

    fn take_receive(&mut self, pair: &mut QueuePair) -> Option<Receive> {
        self.node().received.clear();
        self.node().turned().unwrap_or(&mut pair.receives).take()
    }

    fn give_back_receive(&mut self, pair: &mut QueuePair, receive: Receive) {
        self.node().turned().unwrap_or(&mut pair.receives).give_back(receive);
    }

    fn has_receive(&self, pair: &QueuePair) -> bool {
        let node = &self.scene.nodes[self.side];
        let turned = node.turned_to.map(|queue| &node.shared[queue.0 as usize - 1].0);
        turned.unwrap_or(&pair.receives).length() > 0
    }

    fn owes_poll(&self) -> bool {
        self.owes_poll
    }

    fn fill(&mut self, _: &Receive, offset: u32, carried: &Carried) -> bool {
        let received = &mut self.node().received;
        assert_eq!(received.len(), offset as usize, "fragments with a gap");
        received.extend_from_slice(&carried.payload);
        true
    }

    fn request_ended(&mut self, pair: &mut QueuePair, number: u64, status: Status) {
        let slot = *pair.send.slot(number);
        let node = self.node();
        let (moved, fetched) = (std::mem::take(&mut node.moved), std::mem::take(&mut node.fetched));
        if moved && status == Status::Success && !slot.operation.is_local() {
            let old = self.there().word.wrapping_sub(1);
            self.scene.ledgers[self.side].executed(slot.id, Some(old));
        } else if status == Status::Success && slot.awaits_data() {
            assert_eq!(fetched, slot.total, "a read has not all of its bytes: {slot:?}");
        }
        self.scene.ledgers[self.side].ended(slot.id, status);
    }

    fn receive_failed(&mut self, receive: &Receive, _: Status) {
        self.node().receive_ended(receive.id);
    }

    fn receive_filled(&mut self, id: u64, _: BaseHeader, arrived: Arrived) {
        self.node().receive_ended(id);
        if arrived.opcode != CompletionOpcode::ReceiveWriteWithImmediate {
            self.check_received(arrived.total);
        }
    }

    fn raise(&mut self, _: Event) {}

    fn withdraw(&mut self) {}

    fn was_flushed(&mut self) {}

    fn failed(&mut self) {}

    fn sees(&mut self, happening: Happening) {
        match happening {
            Happening::Denied { .. } => self.denied = true,
            Happening::Dropped => assert!(!self.denied, "a refusal makes no sense"),
            _ => self.denied = false,
        }
        match happening {
            Happening::Taken { .. } => self.executed(None),
            Happening::Refused { refusal, .. } => {
                let status = match refusal {
                    Refusal::Access => Status::RemoteAccess,
                    Refusal::InvalidRequest => Status::RemoteInvalidRequest,
                    Refusal::Operation => Status::RemoteOperation,
                    // It may be tried again.
                    _ => return,
                };
                if let Some(serial) = self.arriving {
                    self.scene.ledgers[1 - self.side].refused(serial, status);
                }
            }
            _ => {}
        }
    }
}
