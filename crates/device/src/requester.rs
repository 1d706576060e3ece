//! The requester: carries out the requests of a send queue, in order.
//!
//! A one-sided request runs directly, on the peer's memory, if nothing older is under way and the peer's tables allow it
//! beyond doubt. Everything else travels as a message through the ring; the peer's responder judges it, and the
//! completer takes the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use nonic_memory::{Access, AccessError, AddressRange, KeyUse, OperationGuard, SharedSlice};
use nonic_queue::{Operation, QpAttributes, QpNumber, QpState, QpType, RemoteRange, Status};
use nonic_transport::{DirectAccess, DirectRequest, FRAGMENT, Header, Link, MessageKind, Psn};

use crate::async_event::AsyncEventKind;
use crate::limits::{DATAGRAM_MAX, MESSAGE_MAX, PIECES_MAX};
use crate::queue_pair::{Inner, Path, QueuePair};
use crate::send_queue::Slot;

/// From here on a send's bytes are taken by the receiver from the sender's memory instead of travelling through the
/// ring: one copy by the kernel then costs less than two through the ring.
const PULL_MIN: u64 = 16 * 1024;
/// A direct copy looks at the key again after so many bytes, so that revocation never waits longer than one takes.
const DIRECT_CHUNK: u64 = 1 << 20;
/// How often a request is repeated whose queue pair has no timeout: the specification leaves it to wait for ever.
const PATIENT_REPEAT: Duration = Duration::from_millis(100);

/// How long a copy that failed waits for the end of the peer's process to show, and how often. A process loses its
/// memory before its sockets when it is killed.
const FAULT_WAIT: Duration = Duration::from_millis(10);
const FAULTS_MAX: u8 = 20;

/// The local bytes of a request, one slice a piece.
pub(crate) type Slices<'a> = ArrayVec<SharedSlice<'a>, PIECES_MAX>;

/// Why nothing is sent for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// The peer had no receive.
    NotReady,
    /// Nobody answers.
    NoAnswer,
    /// The kernel found the peer's memory gone: is its process ending?
    Fault,
}

/// State of a queue pair as requester.
#[derive(Debug, Default)]
pub(crate) struct Requester {
    /// Number of the next message.
    pub(crate) next: Psn,
    /// Number of the oldest message not yet answered.
    pub(crate) unanswered: Psn,
    /// Which attempt at it.
    pub(crate) attempt: u8,
    /// Bytes already sent of the request that is being sent in fragments.
    pub(crate) sent: u64,
    /// Reads and atomics under way.
    pub(crate) reads: u8,
    /// Bytes received of the oldest read.
    pub(crate) read_received: u32,
    /// Until when and why nothing is sent.
    pub(crate) wait: Option<(Instant, WaitReason)>,
    /// Retries left after timeouts and after RNR.
    pub(crate) retries: u8,
    pub(crate) rnr_retries: u8,
    /// Direct copies that failed in a row.
    faults: u8,
    pub(crate) drained_reported: bool,
}

impl Requester {
    /// The queue pair goes to RTS.
    pub(crate) fn begin(&mut self, attributes: &QpAttributes) {
        *self =
            Self { next: Psn(attributes.send_psn), unanswered: Psn(attributes.send_psn), ..Self::default() };
        self.refill(attributes);
    }

    /// The peer answered: all retries are there again.
    pub(crate) fn refill(&mut self, attributes: &QpAttributes) {
        (self.retries, self.rnr_retries, self.faults) = (attributes.retry_count, attributes.rnr_retry, 0);
    }

    /// The queue pair goes to error.
    pub(crate) fn stop(&mut self) {
        (self.wait, self.sent, self.reads) = (None, 0, 0);
    }

    /// Begins again with the oldest unanswered message.
    pub(crate) fn restart(&mut self) {
        self.next = self.unanswered;
        self.attempt = self.attempt.wrapping_add(1);
        (self.wait, self.sent, self.reads, self.read_received) = (None, 0, 0, 0);
    }
}

/// What starting a request came to.
enum Step {
    /// Done.
    Finished,
    /// On its way; the peer answers.
    InFlight,
    /// The ring is full.
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

/// What trying a request directly came to.
enum Direct {
    Done,
    /// Not possible, or not allowed beyond doubt: ask the peer.
    Declined,
    /// The local memory is not allowed.
    LocalRefused,
    /// The peer's memory is not there.
    Fault,
}

impl QueuePair {
    /// Starts everything that can start.
    pub(crate) fn pump(&self, inner: &mut Inner) {
        // What is owed goes first: a peer that gets a reply has the acknowledgement of what it replies to, as on a wire.
        let mut pushed = self.push_owed(inner);
        while inner.state() == QpState::ReadyToSend
            && inner.requester.wait.is_none()
            && inner.send.started < inner.send.posted
        {
            let number = inner.send.started;
            let slot = inner.send.slot(number);
            let (step, link) = match self.transport {
                QpType::UnreliableDatagram => self.start_datagram(inner, number, &slot),
                _ => self.start_connected(inner, number, &slot),
            };
            if matches!(step, Step::InFlight | Step::Blocked) || self.transport != QpType::ReliableConnection
            {
                ring_other(&mut pushed, link);
            }
            match step {
                Step::Finished => {
                    inner.send.started += 1;
                    inner.requester.faults = 0;
                    self.finish(inner, Status::Success);
                }
                Step::InFlight => {
                    inner.send.set_psn(number, inner.requester.next);
                    inner.requester.next = inner.requester.next.next();
                    inner.requester.reads += u8::from(slot.awaits_data());
                    inner.send.started += 1;
                }
                Step::Blocked | Step::Later => break,
                Step::Failed(_) if !inner.send.nothing_in_flight() => break,
                Step::Failed(status) => {
                    self.fail_oldest(inner, status);
                    break;
                }
                Step::Fault => {
                    self.take_fault(inner);
                    break;
                }
                Step::Unreachable => {
                    if inner.send.nothing_in_flight() {
                        self.wait_for_answer(inner);
                    }
                    break;
                }
            }
        }
        if let Some(link) = pushed {
            link.ring_bell();
        }
        self.report_drained(inner);
    }

    fn report_drained(&self, inner: &mut Inner) {
        let drained = inner.state() == QpState::SendQueueDrain && inner.send.nothing_in_flight();
        if drained && inner.attributes.drained_notify && !inner.requester.drained_reported {
            inner.requester.drained_reported = true;
            self.raise(AsyncEventKind::SendQueueDrained);
        }
    }

    /// Ends the oldest request with a failure, and what that entails for the others (IBTA vol. 1, 10.3.1).
    pub(crate) fn fail_oldest(&self, inner: &mut Inner, status: Status) {
        if inner.send.finished < inner.send.posted {
            self.finish(inner, status);
        }
        if self.transport == QpType::ReliableConnection {
            self.enter_error(inner);
        } else {
            inner.attributes.state = QpState::SendQueueError;
            inner.requester.stop();
            self.flush_sends(inner);
        }
    }

    // Waiting.

    /// Nobody answers: waits for the timeout, then repeats.
    pub(crate) fn wait_for_answer(&self, inner: &mut Inner) {
        let wait = ack_timeout(inner.attributes.timeout).unwrap_or(PATIENT_REPEAT);
        self.wait(inner, wait, WaitReason::NoAnswer);
    }

    /// Sends nothing for `wait`.
    pub(crate) fn wait(&self, inner: &mut Inner, wait: Duration, reason: WaitReason) {
        let until = Instant::now() + wait;
        inner.requester.wait = Some((until, reason));
        self.engine().schedule(until, self.number);
    }

    /// Goes on after a wait, or gives up.
    pub(crate) fn wait_is_over(&self, inner: &mut Inner, now: Instant) {
        let Some((until, reason)) = inner.requester.wait else { return };
        if now < until || inner.state() != QpState::ReadyToSend {
            return;
        }
        if reason == WaitReason::NoAnswer && ack_timeout(inner.attributes.timeout).is_some() {
            if inner.requester.retries == 0 {
                self.fail_oldest(inner, Status::RetryExceeded);
                return;
            }
            inner.requester.retries -= 1;
        }
        inner.send.started = inner.send.finished;
        inner.requester.restart();
        self.pump(inner);
    }

    // Local bytes.

    /// The local bytes of a request: the pieces its keys lead to, or its inline bytes.
    pub(crate) fn local_bytes<'a>(
        &'a self,
        inner: &Inner,
        guard: &'a OperationGuard<'_>,
        number: u64,
        want: Access,
    ) -> Result<Slices<'a>, AccessError> {
        let memory = &self.engine().party().memory;
        let mut slices = Slices::new();
        for piece in inner.send.pieces(number, &self.capabilities) {
            if piece.length > 0 {
                let range = AddressRange::new(piece.address, piece.length.into());
                slices.push(memory.resolve(guard, self.zone.id(), piece.key, KeyUse::Local, range, want)?);
            }
        }
        Ok(slices)
    }

    /// Runs `body` with the local bytes of a request that sends them.
    fn with_source<R>(
        &self,
        inner: &mut Inner,
        number: u64,
        slot: &Slot,
        body: impl FnOnce(&mut Inner, &[SharedSlice<'_>]) -> R,
    ) -> Result<R, AccessError> {
        if slot.flags.inline {
            let range = inner.send.inline_range(number, &self.capabilities);
            let mut inline = inner.send.lend_inline();
            let result = body(inner, &[SharedSlice::of_private(&mut inline[range])]);
            inner.send.put_inline_back(inline);
            return Ok(result);
        }
        let guard = self.engine().party().memory.enter();
        let slices = self.local_bytes(inner, &guard, number, Access::LOCAL_READ)?;
        Ok(body(inner, &slices))
    }

    // Connected services.

    fn start_connected(&self, inner: &mut Inner, number: u64, slot: &Slot) -> (Step, Option<Arc<Link>>) {
        self.find_path(inner);
        let Some(path) = self.usable_path(inner) else {
            let unreachable =
                if self.transport == QpType::ReliableConnection { Step::Unreachable } else { Step::Finished };
            return (unreachable, None);
        };
        if slot.total > u64::from(MESSAGE_MAX) {
            return (Step::Failed(Status::LocalLength), None);
        }
        if slot.flags.fence && inner.requester.reads > 0 {
            return (Step::Later, None);
        }
        let step = match slot.operation {
            Operation::Send { immediate } => self.start_send(inner, &path, number, slot, immediate),
            Operation::Write { remote, immediate } => {
                self.start_write(inner, &path, number, slot, remote, immediate)
            }
            Operation::Read { remote } => self.start_read(inner, &path, number, slot, remote),
            Operation::CompareSwap { remote, .. } | Operation::FetchAdd { remote, .. } => {
                self.start_atomic(inner, &path, number, slot, remote)
            }
        };
        (step, Some(path.link))
    }

    fn usable_path(&self, inner: &mut Inner) -> Option<Path> {
        let path = inner.path.as_mut().filter(|path| !path.link.is_dead())?;
        if path.slot.is_none() {
            path.slot = path.link.view().and_then(|view| view.segment.slot_place(path.number));
        }
        Some(path.clone())
    }

    fn header(&self, inner: &Inner, kind: MessageKind, slot: &Slot) -> Header {
        let peer = inner.attributes.destination_qp;
        let mut header = Header::new(kind, peer, self.number, inner.requester.next, inner.requester.attempt);
        header.total = slot.total as u32;
        header.solicited = slot.flags.solicited;
        header
    }

    /// What a request comes to once all of it stands in the ring.
    fn sent(&self) -> Step {
        if self.transport == QpType::ReliableConnection { Step::InFlight } else { Step::Finished }
    }

    fn start_send(
        &self,
        inner: &mut Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        immediate: Option<u32>,
    ) -> Step {
        let sent = self.with_source(inner, number, slot, |inner, source| {
            let mut header = self.header(inner, MessageKind::Send, slot);
            header.immediate = immediate;
            // Once a fragment is in the ring the rest must follow it there.
            let by_pull = slot.total >= PULL_MIN
                && inner.requester.sent == 0
                && self.transport == QpType::ReliableConnection
                && !slot.flags.inline
                && path.link.peer_can_reach();
            if by_pull {
                header.kind = MessageKind::SendPull;
                return self.push_list(&path.link, header, source);
            }
            self.push_fragments(inner, &path.link, header, source)
        });
        sent.unwrap_or(Step::Failed(Status::LocalProtection))
    }

    /// Pushes a message whose payload is the list of the sender's pieces.
    fn push_list(&self, link: &Link, header: Header, source: &[SharedSlice<'_>]) -> Step {
        let mut list = ArrayVec::<u8, { PIECES_MAX * 16 }>::new();
        for slice in source {
            for word in [slice.address() as u64, slice.length() as u64] {
                let _ = list.try_extend_from_slice(&word.to_le_bytes());
            }
        }
        match link.push(&header, &[SharedSlice::of_private(&mut list)]) {
            Ok(()) => self.sent(),
            Err(_) => self.blocked(link),
        }
    }

    fn blocked(&self, link: &Link) -> Step {
        link.add_stalled(self.number);
        Step::Blocked
    }

    /// Pushes a message in fragments, from where the last attempt stopped.
    fn push_fragments(
        &self,
        inner: &mut Inner,
        link: &Link,
        mut header: Header,
        source: &[SharedSlice<'_>],
    ) -> Step {
        let total = u64::from(header.total);
        loop {
            let offset = inner.requester.sent;
            assert!(offset <= total, "{offset} bytes are sent of a message of {total}");
            let count = (total - offset).min(FRAGMENT as u64);
            header.offset = offset as u32;
            if link.push(&header, &cut(source, offset as usize, count as usize)).is_err() {
                return self.blocked(link);
            }
            inner.requester.sent += count;
            if inner.requester.sent >= total {
                inner.requester.sent = 0;
                return self.sent();
            }
        }
    }

    // One-sided operations.

    fn direct<'a>(
        &self,
        path: &'a Path,
        remote: RemoteRange,
        offset: u64,
        length: u64,
        want: Access,
    ) -> Option<DirectAccess<'a>> {
        let request = DirectRequest {
            source: self.number,
            transport: self.transport,
            target: path.slot?,
            key: remote.key,
            range: AddressRange::new(remote.address.checked_add(offset)?, length),
            want,
        };
        path.link.direct(&request)
    }

    fn start_write(
        &self,
        inner: &mut Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
        immediate: Option<u32>,
    ) -> Step {
        let step = self.with_source(inner, number, slot, |inner, source| {
            // Once a fragment is in the ring the rest must follow it there.
            if inner.requester.sent == 0 && slot.total > 0 {
                if inner.send.nothing_in_flight() {
                    match self.write_directly(path, remote, slot.total, source) {
                        Direct::Done if immediate.is_none() => return Step::Finished,
                        Direct::Done => {
                            let mut header = self.header(inner, MessageKind::WriteNotify, slot);
                            header.immediate = immediate;
                            return match path.link.push(&header, &[]) {
                                Ok(()) => self.sent(),
                                Err(_) => self.blocked(&path.link),
                            };
                        }
                        Direct::Fault => return self.fault(),
                        Direct::Declined | Direct::LocalRefused => {}
                    }
                } else if slot.total > FRAGMENT as u64
                    && self.direct(path, remote, 0, slot.total, Access::REMOTE_WRITE).is_some()
                {
                    return Step::Later;
                }
            }
            let mut header = self.header(inner, MessageKind::Write, slot);
            header.immediate = immediate;
            (header.address, header.key) = (remote.address, remote.key);
            self.push_fragments(inner, &path.link, header, source)
        });
        step.unwrap_or(Step::Failed(Status::LocalProtection))
    }

    /// The kernel found the peer's memory gone. An unreliable service never knows.
    fn fault(&self) -> Step {
        if self.transport == QpType::ReliableConnection { Step::Fault } else { Step::Finished }
    }

    /// A direct copy failed: either the peer's process is ending, which its link will show soon, or its program has
    /// unmapped what it registered.
    fn take_fault(&self, inner: &mut Inner) {
        if inner.requester.faults < FAULTS_MAX {
            inner.requester.faults += 1;
            self.wait(inner, FAULT_WAIT, WaitReason::Fault);
        } else {
            self.fail_oldest(inner, Status::RemoteOperation);
        }
    }

    fn write_directly(
        &self,
        path: &Path,
        remote: RemoteRange,
        total: u64,
        source: &[SharedSlice<'_>],
    ) -> Direct {
        let mut offset = 0;
        // The whole range is judged before the first byte moves.
        let Some(mut access) = self.direct(path, remote, 0, total, Access::REMOTE_WRITE) else {
            return Direct::Declined;
        };
        if total > DIRECT_CHUNK {
            drop(access);
            loop {
                let count = (total - offset).min(DIRECT_CHUNK);
                match self.direct(path, remote, offset, count, Access::REMOTE_WRITE) {
                    Some(part) => access = part,
                    None => return Direct::Declined,
                }
                if access.write(&cut(source, offset as usize, count as usize)).is_err() {
                    return Direct::Fault;
                }
                offset += count;
                if offset == total {
                    return Direct::Done;
                }
                drop(access);
            }
        }
        if access.write(source).is_err() { Direct::Fault } else { Direct::Done }
    }

    fn start_read(
        &self,
        inner: &mut Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Step {
        if inner.attributes.max_rd_atomic == 0 {
            return Step::Failed(Status::LocalQpOperation);
        }
        if slot.total > 0 {
            if inner.send.nothing_in_flight() {
                match self.read_directly(inner, path, number, slot.total, remote) {
                    Direct::Done => return Step::Finished,
                    Direct::LocalRefused => return Step::Failed(Status::LocalProtection),
                    Direct::Fault => return self.fault(),
                    Direct::Declined => {}
                }
            } else if self.direct(path, remote, 0, slot.total, Access::REMOTE_READ).is_some() {
                return Step::Later;
            }
        }
        let mut header = self.header(inner, MessageKind::Read, slot);
        (header.address, header.key) = (remote.address, remote.key);
        self.push_read(inner, &path.link, &header)
    }

    fn push_read(&self, inner: &Inner, link: &Link, header: &Header) -> Step {
        if inner.requester.reads >= inner.attributes.max_rd_atomic {
            return Step::Later;
        }
        match link.push(header, &[]) {
            Ok(()) => Step::InFlight,
            Err(_) => self.blocked(link),
        }
    }

    fn read_directly(
        &self,
        inner: &Inner,
        path: &Path,
        number: u64,
        total: u64,
        remote: RemoteRange,
    ) -> Direct {
        if self.direct(path, remote, 0, total, Access::REMOTE_READ).is_none() {
            return Direct::Declined;
        }
        let mut offset = 0;
        while offset < total {
            let count = (total - offset).min(DIRECT_CHUNK);
            let Some(access) = self.direct(path, remote, offset, count, Access::REMOTE_READ) else {
                return Direct::Declined;
            };
            let guard = self.engine().party().memory.enter();
            let Ok(target) = self.local_bytes(inner, &guard, number, Access::LOCAL_WRITE) else {
                return Direct::LocalRefused;
            };
            if access.read(&cut(&target, offset as usize, count as usize)).is_err() {
                return Direct::Fault;
            }
            offset += count;
        }
        Direct::Done
    }

    fn start_atomic(
        &self,
        inner: &mut Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Step {
        const WORD: u64 = 8;
        if inner.attributes.max_rd_atomic == 0 {
            return Step::Failed(Status::LocalQpOperation);
        }
        if slot.total != WORD {
            return Step::Failed(Status::LocalLength);
        }
        // Judged by the peer: its refusal names the cause.
        if remote.address.is_multiple_of(WORD)
            && let Some(access) = self.direct(path, remote, 0, WORD, Access::REMOTE_ATOMIC)
            && let Some(word) = access.atomic_word()
        {
            if !inner.send.nothing_in_flight() {
                return Step::Later;
            }
            let guard = self.engine().party().memory.enter();
            let Ok(target) = self.local_bytes(inner, &guard, number, Access::LOCAL_WRITE) else {
                return Step::Failed(Status::LocalProtection);
            };
            let old = match slot.operation {
                Operation::CompareSwap { compare, swap, .. } => word.compare_swap(compare, swap),
                Operation::FetchAdd { add, .. } => word.fetch_add(add),
                _ => return Step::Failed(Status::LocalQpOperation),
            };
            scatter(&target, &old.to_ne_bytes());
            return Step::Finished;
        }
        let mut header = self.header(inner, MessageKind::Atomic, slot);
        (header.address, header.key) = (remote.address, remote.key);
        (header.operand, header.swap) = match slot.operation {
            // The peer judges first, and then this side has no place for the result: the word must not change.
            _ if !self.takes_result(inner, number) => (0, None),
            Operation::CompareSwap { compare, swap, .. } => (compare, Some(swap)),
            Operation::FetchAdd { add, .. } => (add, None),
            _ => return Step::Failed(Status::LocalQpOperation),
        };
        self.push_read(inner, &path.link, &header)
    }

    /// Whether the local keys of a request let its result be placed.
    fn takes_result(&self, inner: &Inner, number: u64) -> bool {
        let guard = self.engine().party().memory.enter();
        self.local_bytes(inner, &guard, number, Access::LOCAL_WRITE).is_ok()
    }

    // Datagrams.

    fn start_datagram(&self, inner: &mut Inner, number: u64, slot: &Slot) -> (Step, Option<Arc<Link>>) {
        const TOP_BIT: u32 = 1 << 31;
        let destination = inner.send.destination(number);
        if slot.total > u64::from(DATAGRAM_MAX) {
            return (Step::Failed(Status::LocalLength), None);
        }
        if destination.zone != self.zone.id() {
            return (Step::Failed(Status::LocalQpOperation), None);
        }
        let port = self.context().port_state();
        let link = if port.reaches(&destination.vector) {
            self.datagram_link(inner, destination.qp_number)
        } else {
            None
        };
        let immediate = match slot.operation {
            Operation::Send { immediate } => immediate,
            _ => return (Step::Failed(Status::LocalQpOperation), None),
        };
        let step = self.with_source(inner, number, slot, |inner, source| {
            // Datagrams to nowhere are lost, which their sender does not learn.
            let Some(link) = &link else { return Step::Finished };
            let mut header = self.header(inner, MessageKind::Datagram, slot);
            header.destination = destination.qp_number;
            header.immediate = immediate;
            let own_key = destination.q_key & TOP_BIT != 0;
            header.key = nonic_memory::Key(if own_key { inner.attributes.q_key } else { destination.q_key });
            header.operand = u64::from(port.lid());
            let mut global =
                destination.vector.global.map(|route| port.global_header(&route, slot.total as u32));
            let mut payload = ArrayVec::<SharedSlice<'_>, { PIECES_MAX + 1 }>::new();
            if let Some(bytes) = &mut global {
                header.global_header = true;
                payload.push(SharedSlice::of_private(bytes));
            }
            payload.extend(source.iter().copied());
            header.total = payload.iter().map(SharedSlice::length).sum::<usize>() as u32;
            match link.push(&header, &payload) {
                Ok(()) => Step::Finished,
                Err(_) => self.blocked(link),
            }
        });
        (step.unwrap_or(Step::Failed(Status::LocalProtection)), link)
    }

    fn datagram_link(&self, inner: &mut Inner, number: QpNumber) -> Option<Arc<Link>> {
        let known = |path: &Path| path.number == number && !path.link.is_dead();
        if !inner.path.as_ref().is_some_and(known) {
            inner.path = self.engine().link_to(number).map(|link| Path { link, number, slot: None });
        }
        inner.path.as_ref().map(|path| Arc::clone(&path.link))
    }
}

/// Remembers whose bell to ring; rings the last one's when another follows.
fn ring_other(pushed: &mut Option<Arc<Link>>, link: Option<Arc<Link>>) {
    let Some(link) = link else { return };
    match pushed {
        Some(before) if Arc::ptr_eq(before, &link) => {}
        _ => {
            if let Some(before) = pushed.replace(link) {
                before.ring_bell();
            }
        }
    }
}

/// `count` bytes from `offset` of slices that stand one after the other.
pub(crate) fn cut<'a>(slices: &[SharedSlice<'a>], mut offset: usize, mut count: usize) -> Slices<'a> {
    let mut part = Slices::new();
    for slice in slices {
        if count == 0 {
            break;
        }
        if offset >= slice.length() {
            offset -= slice.length();
            continue;
        }
        let length = count.min(slice.length() - offset);
        part.push(slice.part(offset, length));
        (offset, count) = (0, count - length);
    }
    part
}

/// Copies bytes over slices that stand one after the other.
fn scatter(slices: &[SharedSlice<'_>], bytes: &[u8]) {
    let mut at = 0;
    for slice in slices {
        let length = slice.length().min(bytes.len() - at);
        slice.write(&bytes[at..at + length]);
        at += length;
    }
}

/// How long an answer may take: 4.096 µs · 2^exponent (IBTA vol. 1, 9.9.2.1); 0 is for ever.
fn ack_timeout(exponent: u8) -> Option<Duration> {
    (exponent > 0).then(|| Duration::from_nanos(4096 << exponent.min(31)))
}

/// How long to wait after RNR: the 32 values of IBTA vol. 1, table 45, in units of 10 µs.
pub(crate) fn rnr_wait(code: u8) -> Duration {
    const TENS_OF_US: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    Duration::from_micros(TENS_OF_US[usize::from(code & 31)] * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_those_of_the_specification() {
        assert_eq!(rnr_wait(0), Duration::from_micros(655_360));
        assert_eq!(rnr_wait(1), Duration::from_micros(10));
        assert_eq!(rnr_wait(12), Duration::from_micros(640));
        assert_eq!(rnr_wait(31), Duration::from_micros(491_520));
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(14), Some(Duration::from_nanos(67_108_864)));
    }

    #[test]
    fn cutting_slices_finds_the_right_bytes() {
        let (mut one, mut two, mut three) = (*b"abc", *b"", *b"defgh");
        let slices = [
            SharedSlice::of_private(&mut one),
            SharedSlice::of_private(&mut two),
            SharedSlice::of_private(&mut three),
        ];
        for offset in 0..=8 {
            for count in 0..=8 - offset {
                let mut seen = Vec::new();
                for slice in cut(&slices, offset, count) {
                    let mut bytes = vec![0; slice.length()];
                    slice.read(&mut bytes);
                    seen.extend(bytes);
                }
                assert_eq!(seen, &b"abcdefgh"[offset..offset + count]);
            }
        }
    }
}
