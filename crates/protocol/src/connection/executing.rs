//! Carrying out what the peer asks for (IBTA vol. 1, 9.4, 9.7.4, 9.7.5; what each refusal is for: 9.9.3).

use super::Connection;
use crate::completion::Status;
use crate::flush::FlushRequest;
use crate::message::{
    AtomicRequest, BaseHeader, InvalidateFragment, ReadRequest, Request, SendFragment, WriteFragment,
    WriteNotify,
};
use crate::number::RemoteRange;
use crate::receive_queue::Receive;
use crate::refusal::Refusal;
use crate::responder::{AffiliatedError, Outcome, Response};
use crate::state::QpType;
use crate::surroundings::{Arrived, NotChanged, Surroundings};
use crate::timer::Moment;
use crate::work_request::CompletionOpcode;

pub(super) const NO_ACCESS: Outcome = Outcome::Fatal(Refusal::Access, Some(AffiliatedError::AccessViolation));
const NO_SENSE: Outcome = Outcome::Fatal(Refusal::InvalidRequest, Some(AffiliatedError::InvalidRequest));

impl<P, T: Moment> Connection<P, T> {
    pub(super) fn execute<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        request: &Request,
        arrival: S::Arrival<'_>,
    ) -> Outcome {
        match request {
            Request::Send(send) => self.take_send(around, base, send, arrival),
            Request::Pull(pull) => around.take_pull(self, base, pull, arrival),
            Request::SendInvalidate(send) => self.take_send_invalidate(around, base, send, arrival),
            Request::Write(write) => self.take_write(around, base, write, arrival),
            Request::WriteNotify(write) => self.take_notice(around, base, write),
            Request::Read(read) => self.take_read(around, base, read),
            Request::Atomic(atomic) => self.take_atomic(around, base, atomic),
            Request::Flush(flush) => self.take_flush(around, base, flush),
        }
    }

    fn take_send<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        send: &SendFragment,
        arrival: S::Arrival<'_>,
    ) -> Outcome {
        let SendFragment { extent, immediate, solicited, .. } = *send;
        let receive = match self.receive_under_way(around, extent.total) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        if !around.fill(&receive, extent.offset, arrival) {
            return fail_receive(around, &receive, Status::LocalProtection, Refusal::Operation);
        }
        let received = extent.offset + S::length(arrival);
        if received < extent.total {
            return Outcome::More(received, Some(receive));
        }
        let (opcode, total) = (CompletionOpcode::Receive, extent.total);
        around.receive_filled(receive.id, base, Arrived { opcode, total, immediate, solicited });
        Outcome::Done(true)
    }

    /// The key is judged before the first byte is placed, and taken out of use behind the last (9.4.1.1.3).
    #[cold]
    fn take_send_invalidate<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        send: &InvalidateFragment,
        arrival: S::Arrival<'_>,
    ) -> Outcome {
        let InvalidateFragment { extent, key, solicited } = *send;
        let receive = match self.receive_under_way(around, extent.total) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        if !around.may_be_invalidated(key) {
            return fail_receive(around, &receive, Status::RemoteInvalidRequest, Refusal::Access);
        }
        if !around.fill(&receive, extent.offset, arrival) {
            return fail_receive(around, &receive, Status::LocalProtection, Refusal::Operation);
        }
        let received = extent.offset + S::length(arrival);
        if received < extent.total {
            return Outcome::More(received, Some(receive));
        }
        if !around.invalidate(key) {
            return fail_receive(around, &receive, Status::RemoteInvalidRequest, Refusal::Access);
        }
        let (opcode, immediate) = (CompletionOpcode::ReceiveInvalidate, Some(key.0));
        let total = extent.total;
        around.receive_filled(receive.id, base, Arrived { opcode, total, immediate, solicited });
        Outcome::Done(true)
    }

    fn take_write<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        write: &WriteFragment,
        arrival: S::Arrival<'_>,
    ) -> Outcome {
        let WriteFragment { extent, remote, immediate, solicited } = *write;
        if extent.offset == 0 && immediate.is_some() && !around.has_receive(self) {
            return self.without_receive(around);
        }
        if !around.write(remote, extent, arrival) {
            if immediate.is_some()
                && around.service() == QpType::ReliableConnection
                && let Ok(receive) = self.next_receive(around)
            {
                around.receive_failed(&receive, Status::LocalAccess);
            }
            return NO_ACCESS;
        }
        let received = extent.offset + S::length(arrival);
        if received < extent.total {
            return Outcome::More(received, None);
        }
        let Some(immediate) = immediate else { return Outcome::Done(false) };
        self.take_notice(around, base, &WriteNotify { total: extent.total, immediate, solicited })
    }

    /// The bytes of a write are there; its immediate data take a receive.
    fn take_notice<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        write: &WriteNotify,
    ) -> Outcome {
        let WriteNotify { total, immediate, solicited } = *write;
        let receive = match self.next_receive(around) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        let (opcode, immediate) = (CompletionOpcode::ReceiveWriteWithImmediate, Some(immediate));
        around.receive_filled(receive.id, base, Arrived { opcode, total, immediate, solicited });
        Outcome::Done(true)
    }

    fn take_read<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        read: &ReadRequest,
    ) -> Outcome {
        let ReadRequest { remote, total } = *read;
        if !around.may_be_read(remote, total) {
            return NO_ACCESS;
        }
        self.owe_read(base, remote, total);
        Outcome::Done(false)
    }

    /// These bytes are owed for a request.
    fn owe_read(&mut self, base: BaseHeader, remote: RemoteRange, total: u32) {
        let (psn, attempt) = (base.psn, base.attempt());
        let queue = self.responder.queue;
        self.responder.owe(Response::Read { psn, attempt, queue, remote, total, sent: 0 });
    }

    fn take_atomic<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        atomic: &AtomicRequest,
    ) -> Outcome {
        match around.change(atomic.remote, atomic.change) {
            Ok(old) => {
                self.responder.owe(Response::Atomic { psn: base.psn, attempt: base.attempt(), old });
                Outcome::Done(false)
            }
            Err(NotChanged::NotAllowed) => NO_ACCESS,
            Err(NotChanged::NoWord) => NO_SENSE,
        }
    }

    /// What was written before is there, since requests are carried out in their order. It is answered as a read of nothing.
    #[cold]
    fn take_flush<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        base: BaseHeader,
        flush: &FlushRequest,
    ) -> Outcome {
        if !around.may_be_flushed(flush) {
            return NO_ACCESS;
        }
        self.owe_read(base, flush.remote, 0);
        Outcome::Done(false)
    }

    // Receives.

    /// The receive that the message's earlier fragments went to, or a new one if this is the first.
    fn receive_under_way<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        total: u32,
    ) -> Result<Receive, Outcome> {
        match self.responder.break_off() {
            Some(receive) => Ok(receive),
            None => self.receive_for(around, total),
        }
    }

    /// Takes a receive that is long enough for the message.
    pub fn receive_for<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        total: u32,
    ) -> Result<Receive, Outcome> {
        let receive = self.next_receive(around)?;
        if u64::from(total) <= receive.pieces.length() {
            return Ok(receive);
        }
        if around.service() == QpType::ReliableConnection {
            return Err(fail_receive(around, &receive, Status::LocalLength, Refusal::InvalidRequest));
        }
        around.give_back_receive(self, receive);
        Err(Outcome::Dropped)
    }

    /// The next receive, or what to do without one.
    pub fn next_receive<S: Surroundings<P, T>>(&mut self, around: &mut S) -> Result<Receive, Outcome> {
        match around.take_receive(self) {
            Some(receive) => {
                self.responder.found_receive();
                Ok(receive)
            }
            None => Err(self.without_receive(around)),
        }
    }

    fn without_receive<S: Surroundings<P, T>>(&mut self, around: &S) -> Outcome {
        let timer = self.attributes.min_rnr_timer;
        self.responder.without_receive(around.service(), timer, || around.owes_poll(), || around.now())
    }
}

/// A receive that cannot take its message: it fails, and the connection with it.
pub fn fail_receive<P, T: Moment, S: Surroundings<P, T>>(
    around: &mut S,
    receive: &Receive,
    status: Status,
    refusal: Refusal,
) -> Outcome {
    around.receive_failed(receive, status);
    Outcome::Fatal(refusal, None)
}
