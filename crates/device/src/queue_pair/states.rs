//! The states of a queue pair: moving between them, and what ends when it goes to error or back to reset.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use nonic_memory::Access;
use nonic_protocol::{
    AffiliatedError, AttributeMask, Completion, CompletionOpcode, Event, Happening, Psn, QpAttributes,
    QpState, QpType, Receive, Responder, SendQueue, Status, check_transition,
};
use nonic_transport::QpSlot;

use super::{Core, Inner, QueuePair};
use crate::async_event::AsyncEventKind;
use crate::completion_queue::SendCredit;
use crate::error::ModifyError;
use crate::limits::READS_MAX;
use crate::port::MTU_4096;
use crate::queue_pair::ReceivesFrom;

impl QueuePair {
    /// Changes state and attributes as `ibv_modify_qp(3)` does; a refused change changes nothing. What the peer has said before is taken
    /// before the change to the error state, and the agent is waited for that takes who has connected: a caller with a lock that a
    /// thread inside [`crate::OwnThread::work`] waits for uses [`Self::fail`].
    pub fn modify(&self, attributes: &QpAttributes, mask: AttributeMask) -> Result<(), ModifyError> {
        if mask.has(AttributeMask::STATE) && attributes.state == QpState::Error && self.context().is_usable()
        {
            // What it acknowledged may stand in the ring of a connection that it has only just made.
            self.engine().meet_all();
        }
        self.change(attributes, mask)
    }

    /// Changes to the error state. What the peer has said before is taken if it stands in a ring that was taken in; waits for no other
    /// thread but one that reads a ring, and for that not for long.
    pub fn fail(&self) -> Result<(), ModifyError> {
        let attributes = QpAttributes { state: QpState::Error, ..QpAttributes::default() };
        self.change(&attributes, AttributeMask::STATE)
    }

    fn change(&self, attributes: &QpAttributes, mask: AttributeMask) -> Result<(), ModifyError> {
        use AttributeMask as A;
        if !self.context().is_usable() {
            return Err(ModifyError::Gone);
        }
        let mask = mask.concerning(self.transport);
        if mask.has(A::STATE) && attributes.state == QpState::Error {
            // What the peer acknowledged before is no matter of what is flushed now: a card would have taken it as it came.
            self.engine().look_before_sending();
        }
        let mut inner = self.lock();
        if self.is_destroyed() {
            return Err(ModifyError::Destroyed);
        }
        let to = if mask.has(A::STATE) { attributes.state } else { inner.state() };
        let comes_too_late = inner.lost_in_rtr && to == QpState::ReadyToSend;
        let from = if comes_too_late { QpState::ReadyToReceive } else { inner.state() };
        if mask.has(A::CURRENT_STATE) && attributes.current_state != from {
            return Err(ModifyError::Value { what: "current state", value: attributes.current_state as u64 });
        }
        check_transition(self.transport, from, to, mask)?;
        self.check_values(attributes, mask)?;
        if comes_too_late {
            // A card learns of a peer's end only when it sends: programs do not expect this call to fail for that. What is
            // posted now is flushed.
            return Ok(());
        }
        match to {
            QpState::Reset => {
                self.reset(&mut inner);
                drop(inner);
                let windows = self.engine().windows.of_pair(self.number);
                if windows.iter().any(|window| window.serves(self.number)) {
                    // A window of type 2 stays bound for the next peer: nothing of the last one may be under way then.
                    self.engine().wait_for_operations();
                }
                return Ok(());
            }
            QpState::Error if inner.is_wired() => {
                self.stop_on_wire(&mut inner);
                return Ok(());
            }
            QpState::Error => {
                // What was received was received: its sender is told first.
                inner.answer(&mut { self });
                inner.stop(&mut { self });
                return Ok(());
            }
            _ => {}
        }
        self.stays_with_its_carrier(&inner, attributes, mask)?;
        inner.attributes.apply(attributes, mask);
        inner.attributes.state = to;
        if from == QpState::Init && to == QpState::ReadyToReceive || mask.has(A::ADDRESS_VECTOR) {
            self.find_wire(&mut inner);
        }
        if inner.is_wired() {
            self.move_on_wire(&mut inner, from, to);
            return Ok(());
        }
        match (from, to) {
            (QpState::Init, QpState::ReadyToReceive) => {
                if self.transport == QpType::UnreliableDatagram {
                    self.engine().be_reached_from_anywhere(self.context().port_state());
                }
                inner.responder = Responder::new(Psn(inner.attributes.receive_psn));
                // Looking for the peer now spares the first message the search; it may well not be there yet.
                self.find_path(&mut inner);
                self.calls_back(&mut inner);
            }
            (QpState::ReadyToReceive, QpState::ReadyToSend) => {
                let attributes = inner.attributes;
                inner.requester.begin(&attributes);
            }
            (QpState::ReadyToSend, QpState::SendQueueDrain) => {
                inner.requester.drain_until = inner.begun();
                inner.requester.drained_reported = false;
            }
            (QpState::SendQueueDrain, QpState::ReadyToSend) => {
                // What was waited for may have come meanwhile.
                if let Some(until) = inner.poll_timeout() {
                    self.engine().schedule(until, self.number);
                }
            }
            (QpState::SendQueueDrain, QpState::SendQueueDrain) if mask.has(A::ADDRESS_VECTOR) => {
                inner.path = None
            }
            _ => {}
        }
        self.publish(&inner);
        if inner.responder.owes_more() {
            inner.answer(&mut { self });
        }
        inner.pump(&mut { self });
        Ok(())
    }

    pub(super) fn check_values(&self, new: &QpAttributes, mask: AttributeMask) -> Result<(), ModifyError> {
        use AttributeMask as A;
        let check = |bit, what, value: u64, valid: bool| {
            if mask.has(bit) && !valid { Err(ModifyError::Value { what, value }) } else { Ok(()) }
        };
        check(A::PORT, "port", new.port.into(), new.port == 1)?;
        check(A::PKEY_INDEX, "P_Key index", new.pkey_index.into(), new.pkey_index == 0)?;
        check(A::PATH_MTU, "path MTU", new.path_mtu.into(), (1..=MTU_4096).contains(&new.path_mtu))?;
        check(A::TIMEOUT, "timeout", new.timeout.into(), new.timeout <= 31)?;
        check(A::RETRY_COUNT, "retry count", new.retry_count.into(), new.retry_count <= 7)?;
        check(A::RNR_RETRY, "RNR retry count", new.rnr_retry.into(), new.rnr_retry <= 7)?;
        check(
            A::MAX_RD_ATOMIC,
            "reads as requester",
            new.max_rd_atomic.into(),
            new.max_rd_atomic <= READS_MAX,
        )?;
        let reads = new.max_dest_rd_atomic;
        check(A::MAX_DEST_RD_ATOMIC, "reads as responder", reads.into(), reads <= READS_MAX)?;
        check(A::ALTERNATE_PATH, "alternate path on port", 0, false)?;
        let migration = new.path_migration_state;
        check(A::PATH_MIGRATION_STATE, "path migration state", migration.into(), migration == 0)?;
        if mask.has(A::ADDRESS_VECTOR) {
            let Some(path) = &new.address_vector else {
                return Err(ModifyError::Value { what: "address vector", value: 0 });
            };
            self.context()
                .port_state()
                .accepts(path)
                .map_err(|(what, value)| ModifyError::Value { what, value })?;
        }
        Ok(())
    }

    /// Shows peers what this queue pair takes now.
    pub(super) fn publish(&self, inner: &Inner) {
        let attributes = &inner.attributes;
        // Who asks a queue pair that belongs to a domain says with every request what it concerns: one word cannot.
        let connected = !matches!(self.transport, QpType::UnreliableDatagram | QpType::ExtendedReceive);
        let takes =
            connected && attributes.state.receives() && self.context().port_state().serves(attributes);
        // (No right at all.)
        let access = if self.transport.responds() { attributes.access } else { Access::LOCAL_READ };
        let slot = takes.then(|| QpSlot {
            zone: self.zone.id(),
            peer: attributes.destination_qp,
            access,
            answers_reads: attributes.max_dest_rd_atomic > 0,
            transport: self.transport,
        });
        self.engine().party().segment.publish(self.number, slot);
    }

    /// Takes nothing more; when this returns no peer's direct operation is under way through this queue pair.
    pub(crate) fn withdraw(&self) {
        self.engine().party().segment.publish(self.number, None);
    }

    pub(super) fn reset(&self, inner: &mut Core) {
        self.begin_anew(inner);
        self.engine().credits(self.account).store(0, Ordering::Release);
        self.forget_completions();
    }

    /// As it was made. What was received was received: its sender is told first, by whoever is here. A thread that took it from the
    /// wire and has not come to saying so finds nothing to say any more.
    pub(super) fn begin_anew(&self, inner: &mut Core) {
        if inner.is_wired() {
            self.pump_wire(inner);
        } else {
            inner.answer(&mut { self });
        }
        self.flush_datagrams();
        self.withdraw();
        self.give_up_all(inner);
        if let Some(receive) = inner.stop_receiving() {
            match &self.receives_from {
                ReceivesFrom::Domain(target) => target.taken_is_over(&receive),
                ReceivesFrom::Own | ReceivesFrom::Shared(_) => self.receive_is_over(),
            }
        }
        *inner = Core::new(&self.capabilities);
        self.forget_way();
    }

    pub(super) fn forget_completions(&self) {
        self.send_completions.forget(self.number);
        self.receive_completions.forget(self.number);
    }

    /// A request has ended, which was `number`.
    #[inline]
    pub(crate) fn tell_request_ended(&self, send: &SendQueue, number: u64, status: Status) {
        let slot = send.slot(number);
        let shown = slot.flags.signaled || self.signal_all || status != Status::Success;
        let (id, opcode, length) = (slot.id, slot.operation.completion_opcode(), slot.total as u32);
        if status != Status::Success {
            self.give_up(slot);
        }
        self.witness.sees(Happening::Completed { id, operation: opcode, status, bytes: length });
        if shown {
            self.complete_send_request(send, id, opcode, status, length);
        }
    }

    /// Raises an event that the rules of a connection bring about.
    pub(crate) fn raise_event(&self, event: Event) {
        self.raise(match event {
            Event::CommunicationEstablished => AsyncEventKind::CommunicationEstablished,
            Event::SendQueueDrained => AsyncEventKind::SendQueueDrained,
            Event::Affiliated(AffiliatedError::InvalidRequest) => AsyncEventKind::QpRequestError,
            Event::Affiliated(AffiliatedError::AccessViolation) => AsyncEventKind::QpAccessError,
        });
    }

    /// Everything was flushed: it takes nothing more from a shared queue.
    pub(crate) fn tell_flushed(&self) {
        if matches!(self.receives_from, ReceivesFrom::Shared(_)) {
            self.raise(AsyncEventKind::QpLastWqeReached);
        }
    }

    /// Tells the observer that it failed by itself.
    pub(crate) fn tell_failure(&self) {
        if let Some(observer) = self.observer.as_ref().and_then(Weak::upgrade) {
            observer.failed();
        }
    }

    #[cold]
    pub(crate) fn tell_end(&self, inner: &mut Inner) {
        inner.send.tells_end = false;
        if let Some(observer) = self.observer.as_ref().and_then(Weak::upgrade) {
            observer.requests_ended();
        }
    }

    /// Shows the program the end of the request that has just finished.
    #[inline]
    pub(crate) fn complete_send_request(
        &self,
        send: &SendQueue,
        id: u64,
        opcode: CompletionOpcode,
        status: Status,
        length: u32,
    ) {
        let credit = SendCredit { account: self.account, next: send.finished };
        self.send_completions.push(credit, false, |completion| {
            completion.set_bare(id, opcode, status, self.number);
            completion.byte_length = length;
        });
    }

    /// A receive that was taken is over: a shared queue counts it.
    #[inline]
    pub(crate) fn receive_is_over(&self) {
        let ReceivesFrom::Shared(queue) = &self.receives_from else { return };
        queue.taken_is_over();
        if let Some(observer) = self.observer.as_ref().and_then(Weak::upgrade) {
            observer.receive_completed();
        }
    }

    pub(crate) fn complete_receive(&self, receive: &Receive, status: Status) {
        self.show_receive(false, |completion| {
            completion.set_bare(receive.id, CompletionOpcode::Receive, status, self.number);
        });
    }

    /// Shows the program the end of a receive.
    #[inline]
    pub(crate) fn show_receive(&self, solicited: bool, fill: impl FnOnce(&mut Completion)) {
        if let ReceivesFrom::Domain(target) = &self.receives_from {
            return target.complete(solicited, fill);
        }
        self.receive_is_over();
        self.receive_completions.push(SendCredit::NONE, solicited, fill);
    }
}
