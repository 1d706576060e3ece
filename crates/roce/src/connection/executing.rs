//! Carrying out what the peer asks for (IBTA vol. 1, 9.4, 9.7.4; what each refusal is for: 9.9.3).

use nonic_protocol::{
    Access, AffiliatedError, Arrived, AtomicRequest, CompletionOpcode, Extent, FlushRequest, MESSAGE_MAX,
    Moment, NotChanged, Placement, Receive, Selectivity, SrqNumber, Status,
};

use super::Connection;
use super::responder::{Inbound, InboundKind, Portion};
use super::taking::{Arrival, portion};
use crate::packet::{Flush, Nak, Part, Request, Reth, Tail};
use crate::surroundings::Surroundings;

/// How a packet ended that was due.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Its bytes are in their place; whether the message ended with it, how long it was, and whether it filled a receive.
    Taken { ends: bool, bytes: u32, receive: bool },
    /// The peer may read this.
    Read { reth: Reth, queue: Option<SrqNumber> },
    /// A word was changed.
    Atomic { old: u64 },
    /// What was written before is where it was to be.
    Flushed,
    /// There is no receive. Nothing was done; the peer may try again.
    NotReady,
    /// The connection is over.
    Fatal(Nak, Option<AffiliatedError>),
}

pub(super) const NO_ACCESS: Outcome =
    Outcome::Fatal(Nak::RemoteAccess, Some(AffiliatedError::AccessViolation));
const NO_SENSE: Outcome = Outcome::Fatal(Nak::InvalidRequest, Some(AffiliatedError::InvalidRequest));
const NOT_ENABLED: Outcome = Outcome::Fatal(Nak::InvalidRequest, Some(AffiliatedError::AccessViolation));

impl<T: Moment> Connection<T> {
    /// Carries out a request whose number is due.
    pub(super) fn execute<S: Surroundings>(
        &mut self,
        around: &mut S,
        queue: Option<SrqNumber>,
        request: Request,
        arrival: Arrival<'_>,
    ) -> Outcome {
        let portion = portion(&request);
        if !self.is_in_sequence(portion) {
            // The receive of the message that broke off is used up (9.9.3: the message ends in error).
            if let Some(receive) = self.responder.break_off() {
                around.receive_failed(&receive, Status::RemoteInvalidRequest);
            }
            return NO_SENSE;
        }
        let outcome = match (request, portion) {
            (_, Some(portion)) => self.take_portion(around, queue, portion, arrival),
            (Request::Read(reth), None) => self.take_read_request(around, queue, reth),
            (Request::Atomic(atomic), None) => self.take_atomic_request(around, atomic),
            (Request::Flush(flush), None) => self.take_flush(around, flush),
            (Request::Send(_) | Request::Write(_), None) => unreachable!("these come in portions"),
        };
        outcome.unwrap_or_else(|refused| refused)
    }

    /// 9.7.4.1.3: whether a packet follows the last one, as first, middle and last do.
    pub(super) fn is_in_sequence(&self, portion: Option<Portion>) -> bool {
        match (&self.responder.inbound, portion) {
            (None, None) => true,
            (None, Some(portion)) => portion.begins(),
            (Some(_), None) => false,
            (Some(inbound), Some(portion)) => {
                !portion.begins()
                    && matches!(
                        (&inbound.kind, portion),
                        (InboundKind::Send(_), Portion::Send(_)) | (InboundKind::Write(_), Portion::Write(_))
                    )
            }
        }
    }

    /// Takes a packet of a send or a write whose place in the sequence is right.
    pub(super) fn take_portion<S: Surroundings>(
        &mut self,
        around: &mut S,
        queue: Option<SrqNumber>,
        portion: Portion,
        arrival: Arrival<'_>,
    ) -> Result<Outcome, Outcome> {
        if let Portion::Write(_) = portion
            && !self.attributes.access.contains(Access::REMOTE_WRITE)
        {
            return Err(NOT_ENABLED);
        }
        // 9.7.4.1.6: each packet but the last is full, and the last of several is not empty.
        let (length, mtu) = (arrival.length(), self.mtu().bytes());
        let fits =
            if portion.ends() { length <= mtu && (length > 0 || portion.begins()) } else { length == mtu };
        if !fits {
            return Err(self.fail_inbound(around, NO_SENSE));
        }
        match portion {
            Portion::Send(part) => self.take_send(around, queue, part, arrival),
            Portion::Write(part) => self.take_write(around, queue, part, arrival),
        }
    }

    fn take_send<S: Surroundings>(
        &mut self,
        around: &mut S,
        queue: Option<SrqNumber>,
        part: Part<(), Tail>,
        arrival: Arrival<'_>,
    ) -> Result<Outcome, Outcome> {
        let (receive, offset) = match self.responder.inbound.take() {
            Some(Inbound { kind: InboundKind::Send(receive), received, .. }) => (receive, received),
            _ => (around.take_receive(&mut self.receives).ok_or(Outcome::NotReady)?, 0),
        };
        let total = offset + arrival.length();
        if u64::from(total) > receive.pieces.length() || total > MESSAGE_MAX {
            return Err(self.fail_receive(around, receive, Status::LocalLength, Nak::InvalidRequest));
        }
        let tail = match part {
            Part::First(()) | Part::Middle => None,
            Part::Last(tail) | Part::Only((), tail) => Some(tail),
        };
        // A key is judged before the last byte is placed, and taken out of use behind it (9.4.1.1.3).
        if let Some(Tail::Invalidate(key)) = tail
            && !around.may_be_invalidated(key)
        {
            return Err(self.fail_receive(around, receive, Status::RemoteInvalidRequest, Nak::RemoteAccess));
        }
        if !arrival.payload.is_empty() && !around.fill(&receive, offset, arrival.payload) {
            return Err(self.fail_receive(around, receive, Status::LocalProtection, Nak::RemoteOperation));
        }
        let Some(tail) = tail else {
            let kind = InboundKind::Send(receive);
            self.responder.inbound = Some(Inbound { kind, received: total, queue });
            return Ok(Outcome::Taken { ends: false, bytes: total, receive: false });
        };
        let (opcode, immediate) = match tail {
            Tail::Plain => (CompletionOpcode::Receive, None),
            Tail::Immediate(immediate) => (CompletionOpcode::Receive, Some(immediate)),
            Tail::Invalidate(key) => (CompletionOpcode::ReceiveInvalidate, Some(key.0)),
        };
        if let Tail::Invalidate(key) = tail
            && !around.invalidate(key)
        {
            return Err(self.fail_receive(around, receive, Status::RemoteInvalidRequest, Nak::RemoteAccess));
        }
        let solicited = arrival.solicited;
        around.receive_filled(receive.id, Arrived { opcode, total, immediate, solicited });
        Ok(Outcome::Taken { ends: true, bytes: total, receive: true })
    }

    fn take_write<S: Surroundings>(
        &mut self,
        around: &mut S,
        queue: Option<SrqNumber>,
        part: Part<Reth, Option<u32>>,
        arrival: Arrival<'_>,
    ) -> Result<Outcome, Outcome> {
        let (reth, offset) = match (part, &self.responder.inbound) {
            (Part::First(reth) | Part::Only(reth, _), _) => (reth, 0),
            (_, Some(Inbound { kind: InboundKind::Write(reth), received, .. })) => (*reth, *received),
            _ => return Err(NO_SENSE),
        };
        let (total, received) = (reth.length, u64::from(offset) + u64::from(arrival.length()));
        let ends = part.ends();
        // 9.7.4.1.6: the packets bring as many bytes as the first one said.
        let adds_up = if ends { received == u64::from(total) } else { received < u64::from(total) };
        if total > MESSAGE_MAX || !adds_up {
            return Err(NO_SENSE);
        }
        let immediate = match part {
            Part::Last(immediate) | Part::Only(_, immediate) => immediate,
            Part::First(_) | Part::Middle => None,
        };
        // Immediate data take a receive; without one nothing of their packet is done.
        let receive = match immediate {
            Some(_) => Some(around.take_receive(&mut self.receives).ok_or(Outcome::NotReady)?),
            None => None,
        };
        let extent = Extent { total, offset };
        // 9.7.4.1.4: of no bytes the key is not looked at.
        if total > 0 && !around.write(reth.remote, extent, arrival.payload) {
            self.responder.inbound = None;
            match receive {
                Some(receive) if self.is_reliable() => around.receive_failed(&receive, Status::LocalAccess),
                Some(receive) => around.give_back_receive(&mut self.receives, receive),
                None => {}
            }
            return Err(NO_ACCESS);
        }
        if !ends {
            let kind = InboundKind::Write(reth);
            self.responder.inbound = Some(Inbound { kind, received: received as u32, queue });
            return Ok(Outcome::Taken { ends, bytes: total, receive: false });
        }
        self.responder.inbound = None;
        if let Some(receive) = &receive {
            let (opcode, solicited) = (CompletionOpcode::ReceiveWriteWithImmediate, arrival.solicited);
            around.receive_filled(receive.id, Arrived { opcode, total, immediate, solicited });
        }
        Ok(Outcome::Taken { ends, bytes: total, receive: receive.is_some() })
    }

    fn take_read_request<S: Surroundings>(
        &mut self,
        around: &mut S,
        queue: Option<SrqNumber>,
        reth: Reth,
    ) -> Result<Outcome, Outcome> {
        self.may_answer(Access::REMOTE_READ)?;
        if reth.length > MESSAGE_MAX {
            return Err(NO_SENSE);
        }
        if reth.length > 0 && !around.may_be_read(reth.remote, reth.length) {
            return Err(NO_ACCESS);
        }
        Ok(Outcome::Read { reth, queue })
    }

    fn take_atomic_request<S: Surroundings>(
        &mut self,
        around: &mut S,
        atomic: AtomicRequest,
    ) -> Result<Outcome, Outcome> {
        self.may_answer(Access::REMOTE_ATOMIC)?;
        if !atomic.remote.address.is_multiple_of(AtomicRequest::LENGTH.into()) {
            return Err(NO_SENSE);
        }
        match around.change(atomic.remote, atomic.change) {
            Ok(old) => Ok(Outcome::Atomic { old }),
            Err(NotChanged::NotAllowed) => Err(NO_ACCESS),
            Err(NotChanged::NoWord) => Err(NO_SENSE),
        }
    }

    /// Annex A19.4.1. What came before is in its place: packets are taken in their order.
    fn take_flush<S: Surroundings>(&mut self, around: &mut S, flush: Flush) -> Result<Outcome, Outcome> {
        let placement = Placement::from_bits(flush.placement).ok_or(NO_SENSE)?;
        let selectivity = Selectivity::from_number(flush.selectivity).ok_or(NO_SENSE)?;
        self.may_answer(placement.access())?;
        let Reth { remote, length } = flush.reth;
        if !around.may_be_flushed(&FlushRequest { remote, length, placement, selectivity }) {
            return Err(NO_ACCESS);
        }
        Ok(Outcome::Flushed)
    }

    /// 9.7.4.1.4, 9.7.4.1.7: whether the queue pair takes requests that are answered with data, and one more of them.
    fn may_answer(&self, wanted: Access) -> Result<(), Outcome> {
        if !self.attributes.access.contains(wanted) {
            return Err(NOT_ENABLED);
        }
        if self.responder.answers_owed() >= usize::from(self.attributes.max_dest_rd_atomic) {
            return Err(NO_SENSE);
        }
        Ok(())
    }

    /// A message under way makes no sense any more: its receive is used up, or of an unreliable one the next one's.
    fn fail_inbound<S: Surroundings>(&mut self, around: &mut S, outcome: Outcome) -> Outcome {
        match self.responder.break_off() {
            Some(receive) if self.is_reliable() => {
                around.receive_failed(&receive, Status::RemoteInvalidRequest)
            }
            Some(receive) => around.give_back_receive(&mut self.receives, receive),
            None => {}
        }
        outcome
    }

    /// A receive cannot take its message: it fails, and the connection with it. An unreliable message leaves it to the next.
    fn fail_receive<S: Surroundings>(
        &mut self,
        around: &mut S,
        receive: Receive,
        status: Status,
        nak: Nak,
    ) -> Outcome {
        if self.is_reliable() {
            around.receive_failed(&receive, status);
        } else {
            around.give_back_receive(&mut self.receives, receive);
        }
        Outcome::Fatal(nak, None)
    }
}
