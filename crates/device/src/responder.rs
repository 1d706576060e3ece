//! The responder: takes a peer's requests in the order of the specification (sequence, resource, rights, execute,
//! acknowledge) and places every byte through the gate. Header fields are a checked copy; payload is copied once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nonic_memory::{Access, AddressRange, Key, KeyUse, OperationGuard, SharedSlice, ZoneId};
use nonic_queue::{Completion, CompletionOpcode, QpState, QpType, ScatterGather, Status};
use nonic_transport::{FRAGMENT, Header, Incoming, Link, MessageKind, Psn, Refusal, pull};

use crate::async_event::AsyncEventKind;
use crate::limits::{MESSAGE_MAX, PIECES_MAX};
use crate::queue_pair::{Delivery, Inner, QueuePair};
use crate::receive_queue::Receive;
use crate::requester::Slices;

/// How long an unreliable message may wait for a receive while the program has completions to poll: it is about to post
/// some. A network card would have room for as many packets; when the time is over the message is dropped.
const HOLD: Duration = Duration::from_millis(20);
/// Bytes before the data of a datagram.
const GLOBAL_HEADER: usize = 40;

/// An answer that carries data.
#[derive(Clone, Copy, Debug)]
enum Response {
    Read { psn: Psn, attempt: u8, address: u64, key: Key, total: u32, sent: u32 },
    Atomic { psn: Psn, attempt: u8, old: u64 },
}

/// A message of which fragments are still to come.
#[derive(Debug)]
struct Inbound {
    kind: MessageKind,
    psn: Psn,
    attempt: u8,
    received: u32,
    receive: Option<Receive>,
}

/// State of a queue pair as responder.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    expected: Psn,
    inbound: Option<Inbound>,
    responses: VecDeque<Response>,
    acknowledge: Option<Psn>,
    refuse: Option<(Psn, u8, Refusal)>,
    /// What was refused last: later messages of the same attempt are dropped without a word.
    refused: Option<(Psn, u8)>,
    held_since: Option<Instant>,
    /// Receives that were filled and not yet shown to the program: first the peer is told. A program that has seen a
    /// message may exit at once, and its peer must have the acknowledgement then.
    filled: Vec<(Completion, bool)>,
}

impl Responder {
    /// The queue pair goes to RTR.
    pub(crate) fn begin(&mut self, psn: u32) {
        *self = Self { expected: Psn(psn), ..Self::default() };
    }

    /// The queue pair goes to error; returns the receive that was being filled. What is owed stays owed.
    pub(crate) fn stop(&mut self) -> Option<Receive> {
        self.responses.clear();
        self.inbound.take().and_then(|inbound| inbound.receive)
    }
}

/// How a request ended.
enum Outcome {
    /// More fragments come.
    More,
    /// Done; whether a receive was filled.
    Done(bool),
    /// Nothing was done; the peer may try again.
    Retry(Refusal),
    /// The connection is over.
    Fatal(Refusal, Option<AsyncEventKind>),
    /// The program is about to post a receive.
    Hold,
    /// An unreliable message is lost.
    Dropped,
}

impl QueuePair {
    /// Answers a reliable request whose queue pair does not exist.
    pub(crate) fn refuse_unknown(link: &Link, header: &Header) {
        let request = matches!(
            header.kind,
            MessageKind::Send
                | MessageKind::SendPull
                | MessageKind::Write
                | MessageKind::WriteNotify
                | MessageKind::Read
                | MessageKind::Atomic
        );
        if !request || !header.is_first() {
            return;
        }
        let mut answer =
            Header::new(MessageKind::Refuse, header.source, header.destination, header.psn, header.attempt);
        answer.immediate = Some(Refusal::NoAnswer.to_number());
        // A full ring drops it; the requester then waits until this process is gone or it is told to stop.
        if link.push(&answer, &[]).is_ok() {
            link.ring_bell();
        }
    }

    pub(crate) fn take_request(
        &self,
        inner: &mut Inner,
        link: &Arc<Link>,
        incoming: &Incoming<'_>,
    ) -> Delivery {
        let header = &incoming.header;
        let reliable = self.transport == QpType::ReliableConnection;
        if !inner.state().receives() || !self.is_peer(inner, link, header.source) {
            if reliable {
                // Behind what was already said to this peer, if it is the peer.
                let own = inner.path.as_ref().map(|path| &path.link).filter(|own| own.leads_where(link));
                Self::refuse_unknown(own.unwrap_or(link), header);
            }
            return Delivery::Quiet;
        }
        if inner.state() == QpState::ReadyToReceive && !inner.established {
            inner.established = true;
            self.raise(AsyncEventKind::CommunicationEstablished);
        }
        if !self.is_next(inner, header) {
            return Delivery::Quiet;
        }
        let outcome = self.execute(inner, link, incoming);
        match outcome {
            Outcome::More => Delivery::Quiet,
            Outcome::Done(filled) => {
                inner.responder.inbound = None;
                inner.responder.refused = None;
                if reliable {
                    inner.responder.expected = header.psn.next();
                    let answered = matches!(header.kind, MessageKind::Read | MessageKind::Atomic);
                    inner.responder.acknowledge = if answered { None } else { Some(header.psn) };
                }
                if filled { Delivery::Filled } else { Delivery::Quiet }
            }
            Outcome::Hold => Delivery::Held,
            Outcome::Retry(refusal) if reliable => {
                self.refuse(inner, header, refusal);
                Delivery::Quiet
            }
            Outcome::Fatal(refusal, event) if reliable => {
                self.refuse(inner, header, refusal);
                self.answer(inner);
                if let Some(event) = event {
                    self.raise(event);
                }
                self.enter_error(inner);
                Delivery::Quiet
            }
            Outcome::Retry(_) | Outcome::Fatal(..) | Outcome::Dropped => {
                self.give_back_inbound(inner);
                Delivery::Quiet
            }
        }
    }

    fn refuse(&self, inner: &mut Inner, header: &Header, refusal: Refusal) {
        inner.responder.refused = Some((header.psn, header.attempt));
        inner.responder.refuse = Some((header.psn, header.attempt, refusal));
    }

    /// Whether a message is the one that is due: the expected number, or the next fragment of the one under way.
    fn is_next(&self, inner: &mut Inner, header: &Header) -> bool {
        if !header.is_first() {
            return inner.responder.inbound.as_ref().is_some_and(|inbound| {
                (inbound.kind, inbound.psn, inbound.attempt) == (header.kind, header.psn, header.attempt)
                    && inbound.received == header.offset
            });
        }
        self.give_back_inbound(inner);
        if self.transport != QpType::ReliableConnection {
            return true;
        }
        let expected = inner.responder.expected;
        match header.psn.ahead_of(expected) {
            0 => true,
            1.. => {
                // After a refusal the messages behind it were on their way already.
                let known =
                    matches!(inner.responder.refused, Some((_, attempt)) if attempt == header.attempt);
                if !known {
                    self.refuse(inner, header, Refusal::OutOfSequence);
                }
                false
            }
            _ => {
                // A repetition of what was done: say so again.
                if inner.responder.responses.is_empty() {
                    inner.responder.acknowledge = Some(Psn(expected.0.wrapping_sub(1) & 0xff_ffff));
                }
                false
            }
        }
    }

    /// A message that broke off leaves its receive to the next.
    fn give_back_inbound(&self, inner: &mut Inner) {
        if let Some(Inbound { receive: Some(receive), .. }) = inner.responder.inbound.take() {
            match &self.shared_receives {
                Some(queue) => queue.give_back(receive),
                None => inner.receives.give_back(receive),
            }
        }
    }

    fn execute(&self, inner: &mut Inner, link: &Arc<Link>, incoming: &Incoming<'_>) -> Outcome {
        let header = &incoming.header;
        if header.total > MESSAGE_MAX {
            return Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpRequestError));
        }
        match header.kind {
            MessageKind::Send => self.take_send(inner, incoming),
            MessageKind::SendPull => self.take_pull(inner, link, incoming),
            MessageKind::Write => self.take_write(inner, incoming),
            MessageKind::WriteNotify => match self.take_receive(inner) {
                Ok(receive) => self.complete_write(inner, &receive, header),
                Err(outcome) => outcome,
            },
            MessageKind::Read => self.take_read(inner, header),
            _ => self.take_atomic(inner, header),
        }
    }

    // Receives.

    /// The next receive, or what to do without one.
    fn take_receive(&self, inner: &mut Inner) -> Result<Receive, Outcome> {
        let receive = match &self.shared_receives {
            Some(queue) => queue.take(),
            None => inner.receives.take(),
        };
        if let Some(receive) = receive {
            inner.responder.held_since = None;
            return Ok(receive);
        }
        Err(self.without_receive(inner))
    }

    fn has_receive(&self, inner: &Inner) -> bool {
        match &self.shared_receives {
            Some(queue) => !queue.is_empty(),
            None => inner.receives.length() > 0,
        }
    }

    fn without_receive(&self, inner: &mut Inner) -> Outcome {
        if self.transport == QpType::ReliableConnection {
            return Outcome::Retry(Refusal::NotReady { timer: inner.attributes.min_rnr_timer });
        }
        let since = *inner.responder.held_since.get_or_insert_with(Instant::now);
        let owes_poll = self.receive_completions.has_entries() || !inner.responder.filled.is_empty();
        if owes_poll && since.elapsed() < HOLD {
            return Outcome::Hold;
        }
        Outcome::Dropped
    }

    /// The parts of a receive's pieces that hold `count` bytes from `offset`.
    fn receive_bytes<'a>(
        &'a self,
        guard: &'a OperationGuard<'_>,
        receive: &Receive,
        offset: u64,
        count: u64,
    ) -> Option<Slices<'a>> {
        let memory = &self.engine().party().memory;
        let resolve = |zone: ZoneId, piece: &ScatterGather, skip: u64, length: u64| {
            let range = AddressRange::new(piece.address.checked_add(skip)?, length);
            memory.resolve(guard, zone, piece.key, KeyUse::Local, range, Access::LOCAL_WRITE).ok()
        };
        let mut slices = Slices::new();
        let (mut offset, mut count) = (offset, count);
        for piece in receive.pieces.as_slice() {
            if count == 0 {
                break;
            }
            let length = u64::from(piece.length);
            if offset >= length {
                offset -= length;
                continue;
            }
            let take = count.min(length - offset);
            slices.push(resolve(receive.zone, piece, offset, take)?);
            (offset, count) = (0, count - take);
        }
        (count == 0).then_some(slices)
    }

    fn place(&self, receive: &Receive, offset: u64, payload: SharedSlice<'_>) -> bool {
        let guard = self.engine().party().memory.enter();
        let Some(slices) = self.receive_bytes(&guard, receive, offset, payload.length() as u64) else {
            return false;
        };
        let mut at = 0;
        for slice in slices {
            slice.copy_from(payload.part(at, slice.length()));
            at += slice.length();
        }
        true
    }

    /// A receive that cannot take its message: it fails, and the connection with it.
    fn fail_receive(
        &self,
        inner: &mut Inner,
        receive: &Receive,
        status: Status,
        refusal: Refusal,
    ) -> Outcome {
        self.complete_receive(inner, receive, status);
        Outcome::Fatal(refusal, None)
    }

    fn complete_send(&self, inner: &mut Inner, receive: &Receive, header: &Header) -> Outcome {
        self.complete_message(inner, receive, header, CompletionOpcode::Receive)
    }

    fn complete_write(&self, inner: &mut Inner, receive: &Receive, header: &Header) -> Outcome {
        self.complete_message(inner, receive, header, CompletionOpcode::ReceiveWriteWithImmediate)
    }

    fn complete_message(
        &self,
        inner: &mut Inner,
        receive: &Receive,
        header: &Header,
        opcode: CompletionOpcode,
    ) -> Outcome {
        let mut completion = Completion::bare(receive.id, opcode, Status::Success, self.number);
        completion.byte_length = header.total;
        completion.immediate = header.immediate;
        completion.source_qp = header.source;
        inner.responder.filled.push((completion, header.solicited));
        Outcome::Done(true)
    }

    /// Shows the program the receives that were filled.
    pub(crate) fn show_filled(&self, inner: &mut Inner) {
        for (completion, solicited) in inner.responder.filled.drain(..) {
            self.receive_completions.push(completion, None, solicited);
        }
    }

    // Sends.

    fn take_send(&self, inner: &mut Inner, incoming: &Incoming<'_>) -> Outcome {
        let header = &incoming.header;
        let receive = match inner.responder.inbound.take() {
            Some(Inbound { receive: Some(receive), .. }) => receive,
            _ => match self.receive_for(inner, header) {
                Ok(receive) => receive,
                Err(outcome) => return outcome,
            },
        };
        if !self.place(&receive, header.offset.into(), incoming.payload) {
            return self.fail_receive(inner, &receive, Status::LocalProtection, Refusal::Operation);
        }
        let received = header.offset + incoming.payload.length() as u32;
        if received < header.total {
            inner.responder.inbound = Some(inbound(header, received, Some(receive)));
            return Outcome::More;
        }
        self.complete_send(inner, &receive, header)
    }

    /// Takes a receive that is long enough for the message.
    fn receive_for(&self, inner: &mut Inner, header: &Header) -> Result<Receive, Outcome> {
        let receive = self.take_receive(inner)?;
        if u64::from(header.total) <= receive.pieces.length() {
            return Ok(receive);
        }
        if self.transport == QpType::ReliableConnection {
            return Err(self.fail_receive(inner, &receive, Status::LocalLength, Refusal::InvalidRequest));
        }
        inner.responder.inbound = Some(inbound(header, 0, Some(receive)));
        self.give_back_inbound(inner);
        Err(Outcome::Dropped)
    }

    /// A send whose bytes are still in the sender's memory.
    fn take_pull(&self, inner: &mut Inner, link: &Arc<Link>, incoming: &Incoming<'_>) -> Outcome {
        let header = &incoming.header;
        let Some(list) = parse_list(incoming.payload, header.total) else {
            return Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpRequestError));
        };
        if !link.can_reach() {
            return Outcome::Fatal(Refusal::Operation, None);
        }
        let receive = match self.receive_for(inner, header) {
            Ok(receive) => receive,
            Err(outcome) => return outcome,
        };
        let guard = self.engine().party().memory.enter();
        let Some(slices) = self.receive_bytes(&guard, &receive, 0, header.total.into()) else {
            return self.fail_receive(inner, &receive, Status::LocalProtection, Refusal::Operation);
        };
        if pull(link, &list, &slices).is_err() {
            return self.fail_receive(inner, &receive, Status::General, Refusal::RequesterMemory);
        }
        self.complete_send(inner, &receive, header)
    }

    // One-sided requests.

    fn take_write(&self, inner: &mut Inner, incoming: &Incoming<'_>) -> Outcome {
        let header = &incoming.header;
        if header.is_first() {
            if !inner.attributes.access.contains(Access::REMOTE_WRITE) {
                return Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpAccessError));
            }
            if header.immediate.is_some() && !self.has_receive(inner) {
                return self.without_receive(inner);
            }
        }
        let guard = self.engine().party().memory.enter();
        // The whole range is judged with every fragment: the region may go at any time.
        let range = AddressRange::new(header.address, header.total.into());
        let target = self.remote_bytes(&guard, header.key, range, Access::REMOTE_WRITE);
        let Some(target) = target else {
            if header.immediate.is_some()
                && self.transport == QpType::ReliableConnection
                && let Ok(receive) = self.take_receive(inner)
            {
                self.complete_receive(inner, &receive, Status::LocalAccess);
            }
            return Outcome::Fatal(Refusal::Access, Some(AsyncEventKind::QpAccessError));
        };
        target.part(header.offset as usize, incoming.payload.length()).copy_from(incoming.payload);
        drop(guard);
        let received = header.offset + incoming.payload.length() as u32;
        if received < header.total {
            inner.responder.inbound = Some(inbound(header, received, None));
            return Outcome::More;
        }
        if header.immediate.is_none() {
            return Outcome::Done(false);
        }
        match self.take_receive(inner) {
            Ok(receive) => self.complete_write(inner, &receive, header),
            Err(outcome) => outcome,
        }
    }

    /// Bytes of this process that a peer names.
    fn remote_bytes<'a>(
        &'a self,
        guard: &'a OperationGuard<'_>,
        key: Key,
        range: AddressRange,
        want: Access,
    ) -> Option<SharedSlice<'a>> {
        self.engine().party().memory.resolve(guard, self.zone.id(), key, KeyUse::Remote, range, want).ok()
    }

    /// Whether one more read or atomic can be taken on.
    fn check_read(&self, inner: &Inner, want: Access) -> Result<(), Outcome> {
        if self.transport != QpType::ReliableConnection {
            return Err(Outcome::Dropped);
        }
        if !inner.attributes.access.contains(want) {
            return Err(Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpAccessError)));
        }
        if inner.responder.responses.len() >= usize::from(inner.attributes.max_dest_rd_atomic) {
            return Err(Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpRequestError)));
        }
        Ok(())
    }

    fn take_read(&self, inner: &mut Inner, header: &Header) -> Outcome {
        if let Err(outcome) = self.check_read(inner, Access::REMOTE_READ) {
            return outcome;
        }
        let guard = self.engine().party().memory.enter();
        let range = AddressRange::new(header.address, header.total.into());
        if self.remote_bytes(&guard, header.key, range, Access::REMOTE_READ).is_none() {
            return Outcome::Fatal(Refusal::Access, Some(AsyncEventKind::QpAccessError));
        }
        let (psn, attempt) = (header.psn, header.attempt);
        let (address, key, total) = (header.address, header.key, header.total);
        self.owe(inner, Response::Read { psn, attempt, address, key, total, sent: 0 });
        Outcome::Done(false)
    }

    fn take_atomic(&self, inner: &mut Inner, header: &Header) -> Outcome {
        let misaligned = Outcome::Fatal(Refusal::InvalidRequest, Some(AsyncEventKind::QpRequestError));
        if !header.address.is_multiple_of(8) {
            return misaligned;
        }
        if let Err(outcome) = self.check_read(inner, Access::REMOTE_ATOMIC) {
            return outcome;
        }
        let guard = self.engine().party().memory.enter();
        let range = AddressRange::new(header.address, 8);
        let Some(word) = self.remote_bytes(&guard, header.key, range, Access::REMOTE_ATOMIC) else {
            return Outcome::Fatal(Refusal::Access, Some(AsyncEventKind::QpAccessError));
        };
        if !word.address().is_multiple_of(8) {
            return misaligned;
        }
        let old = match header.swap {
            Some(swap) => word.compare_swap(header.operand, swap),
            None => word.fetch_add(header.operand),
        };
        drop(guard);
        self.owe(inner, Response::Atomic { psn: header.psn, attempt: header.attempt, old });
        Outcome::Done(false)
    }

    fn owe(&self, inner: &mut Inner, response: Response) {
        inner.responder.responses.push_back(response);
    }

    // Answers.

    /// Sends what is owed: answers with data in their order, then the acknowledgement or refusal that is newer.
    pub(crate) fn answer(&self, inner: &mut Inner) {
        if let Some(link) = self.push_owed(inner) {
            link.ring_bell();
        }
    }

    /// The same, but leaves it to the caller to ring the bell of the link it returns.
    pub(crate) fn push_owed(&self, inner: &mut Inner) -> Option<Arc<Link>> {
        let owes = inner.responder.acknowledge.is_some()
            || inner.responder.refuse.is_some()
            || !inner.responder.responses.is_empty();
        let link = inner.path.as_ref().filter(|_| owes).map(|path| Arc::clone(&path.link));
        if let Some(link) = &link {
            let peer = inner.attributes.destination_qp;
            if !self.send_owed(inner, link, peer) {
                link.add_stalled(self.number);
            }
        }
        self.show_filled(inner);
        link
    }

    fn send_owed(&self, inner: &mut Inner, link: &Link, peer: nonic_queue::QpNumber) -> bool {
        while let Some(response) = inner.responder.responses.front().copied() {
            match self.send_response(link, peer, response) {
                Ok(None) => {
                    inner.responder.responses.pop_front();
                }
                Ok(Some(rest)) => {
                    if let Some(front) = inner.responder.responses.front_mut() {
                        *front = rest;
                    }
                    return false;
                }
                Err((psn, attempt)) => {
                    // The region went while it was being read.
                    inner.responder.responses.clear();
                    inner.responder.refuse = Some((psn, attempt, Refusal::Access));
                }
            }
        }
        if let Some(psn) = inner.responder.acknowledge {
            let header = Header::new(MessageKind::Acknowledge, peer, self.number, psn, 0);
            if link.push(&header, &[]).is_err() {
                return false;
            }
            inner.responder.acknowledge = None;
        }
        if let Some((psn, attempt, refusal)) = inner.responder.refuse {
            let mut header = Header::new(MessageKind::Refuse, peer, self.number, psn, attempt);
            header.immediate = Some(refusal.to_number());
            if link.push(&header, &[]).is_err() {
                return false;
            }
            inner.responder.refuse = None;
        }
        true
    }

    /// Sends one response; `Ok(Some)` what is left of it when the ring is full, `Err` if its memory is gone.
    fn send_response(
        &self,
        link: &Link,
        peer: nonic_queue::QpNumber,
        response: Response,
    ) -> Result<Option<Response>, (Psn, u8)> {
        match response {
            Response::Atomic { psn, attempt, old } => {
                let mut header = Header::new(MessageKind::AtomicResponse, peer, self.number, psn, attempt);
                header.operand = old;
                Ok(link.push(&header, &[]).is_err().then_some(response))
            }
            Response::Read { psn, attempt, address, key, total, mut sent } => {
                let mut header = Header::new(MessageKind::ReadResponse, peer, self.number, psn, attempt);
                header.total = total;
                loop {
                    let count = (total - sent).min(FRAGMENT as u32);
                    let guard = self.engine().party().memory.enter();
                    let range = AddressRange::new(address.wrapping_add(sent.into()), count.into());
                    let Some(source) = self.remote_bytes(&guard, key, range, Access::REMOTE_READ) else {
                        return Err((psn, attempt));
                    };
                    header.offset = sent;
                    if link.push(&header, &[source]).is_err() {
                        return Ok(Some(Response::Read { psn, attempt, address, key, total, sent }));
                    }
                    sent += count;
                    if sent == total {
                        return Ok(None);
                    }
                }
            }
        }
    }

    // Datagrams.

    pub(crate) fn take_datagram(&self, inner: &mut Inner, incoming: &Incoming<'_>) -> Delivery {
        let header = &incoming.header;
        if self.transport != QpType::UnreliableDatagram || !inner.state().receives() {
            return Delivery::Quiet;
        }
        if header.key.0 != inner.attributes.q_key {
            self.context().port_state().qkey_violations.fetch_add(1, Ordering::Relaxed);
            return Delivery::Quiet;
        }
        let head = if header.global_header { GLOBAL_HEADER } else { 0 };
        let Some(length) = incoming.payload.length().checked_sub(head) else { return Delivery::Quiet };
        let fits = |receive: &Receive| (length + GLOBAL_HEADER) as u64 <= receive.pieces.length();
        let receive = match self.take_receive(inner) {
            Ok(receive) => receive,
            Err(Outcome::Hold) => return Delivery::Held,
            Err(_) => return Delivery::Quiet,
        };
        if !fits(&receive) {
            inner.responder.inbound = Some(inbound(header, 0, Some(receive)));
            self.give_back_inbound(inner);
            return Delivery::Quiet;
        }
        let placed = (head == 0 || self.place(&receive, 0, incoming.payload.part(0, GLOBAL_HEADER)))
            && self.place(&receive, GLOBAL_HEADER as u64, incoming.payload.part(head, length));
        if !placed {
            self.complete_receive(inner, &receive, Status::LocalProtection);
            self.enter_error(inner);
            return Delivery::Filled;
        }
        let opcode = CompletionOpcode::Receive;
        let mut completion = Completion::bare(receive.id, opcode, Status::Success, self.number);
        completion.byte_length = (length + GLOBAL_HEADER) as u32;
        completion.immediate = header.immediate;
        completion.source_qp = header.source;
        completion.has_global_header = header.global_header;
        completion.source_lid = header.operand as u16;
        self.receive_completions.push(completion, None, header.solicited);
        Delivery::Filled
    }
}

fn inbound(header: &Header, received: u32, receive: Option<Receive>) -> Inbound {
    Inbound { kind: header.kind, psn: header.psn, attempt: header.attempt, received, receive }
}

/// The sender's pieces of a send that is pulled: pairs of address and length that add up to the message.
fn parse_list(payload: SharedSlice<'_>, total: u32) -> Option<arrayvec::ArrayVec<(u64, u64), PIECES_MAX>> {
    const PAIR: usize = 16;
    let length = payload.length();
    if length % PAIR != 0 || length > PIECES_MAX * PAIR {
        return None;
    }
    let mut bytes = [0; PIECES_MAX * PAIR];
    payload.read(&mut bytes[..length]);
    let mut list = arrayvec::ArrayVec::new();
    let mut sum = 0u64;
    for pair in bytes[..length].as_chunks::<PAIR>().0 {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| pair[at + i]));
        sum = sum.checked_add(word(8))?;
        list.push((word(0), word(8)));
    }
    (sum == u64::from(total)).then_some(list)
}
