//! Queue pairs: creation, states, posting and the end. Requests are carried out in `requester`, a peer's requests in
//! `responder`, answers in `completer`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use nonic_memory::Access;
use nonic_queue::{
    AttributeMask, Capabilities, Completion, CompletionOpcode, PostError, QpAttributes, QpNumber, QpState,
    QpType, ReceiveRequest, SendRequest, Status, check_transition,
};
use nonic_transport::{Incoming, Link, MessageKind, QpSlot, SlotPlace};

use crate::async_event::{AsyncElement, AsyncEventKind};
use crate::completion_queue::{CompletionQueue, SendCredit};
use crate::context::Context;
use crate::engine::Engine;
use crate::error::{Busy, CreateError, ModifyError};
use crate::events::EventAccount;
use crate::limits::{INLINE_MAX, PIECES_MAX, READS_MAX, REQUESTS_MAX};
use crate::port::MTU_4096;
use crate::program_memory::copy_inline;
use crate::receive_queue::{Receive, ReceiveQueue};
use crate::requester::Requester;
use crate::responder::Responder;
use crate::send_queue::SendQueue;
use crate::shared_receive_queue::SharedReceiveQueue;
use crate::zone::Zone;

/// What a queue pair is made from.
#[derive(Clone, Debug)]
pub struct QueuePairRequest {
    /// Service.
    pub transport: QpType,
    /// Where sends complete.
    pub send_queue: Arc<CompletionQueue>,
    /// Where receives complete.
    pub receive_queue: Arc<CompletionQueue>,
    /// Where receives come from, if not from its own queue.
    pub shared_receive_queue: Option<Arc<SharedReceiveQueue>>,
    /// Sizes.
    pub capabilities: Capabilities,
    /// Whether every send makes a completion.
    pub signal_all: bool,
    /// The face's mark.
    pub cookie: usize,
}

/// A queue pair (`ibv_create_qp(3)`).
#[derive(Debug)]
pub struct QueuePair {
    this: Weak<Self>,
    pub(crate) zone: Arc<Zone>,
    pub(crate) send_completions: Arc<CompletionQueue>,
    pub(crate) receive_completions: Arc<CompletionQueue>,
    pub(crate) shared_receives: Option<Arc<SharedReceiveQueue>>,
    pub(crate) number: QpNumber,
    account: u32,
    pub(crate) transport: QpType,
    pub(crate) capabilities: Capabilities,
    signal_all: bool,
    cookie: usize,
    inner: Mutex<Inner>,
    async_events: EventAccount,
    destroyed: AtomicBool,
    /// Messages that were dropped because their sender is not the peer, or they made no sense.
    pub(crate) refused_messages: AtomicU64,
}

/// Where the peer is.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// The link to its process.
    pub(crate) link: Arc<Link>,
    /// The number that led there.
    pub(crate) number: QpNumber,
    /// Where it publishes what it takes, once that is known.
    pub(crate) slot: Option<SlotPlace>,
}

/// What changes while a queue pair lives.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) attributes: QpAttributes,
    pub(crate) path: Option<Path>,
    pub(crate) receives: ReceiveQueue,
    pub(crate) send: SendQueue,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
    pub(crate) established: bool,
}

/// What delivering a message did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// No receive was filled.
    Quiet,
    /// A receive was filled.
    Filled,
    /// The message must wait where it is.
    Held,
}

impl Zone {
    /// Creates a queue pair in state RESET.
    pub fn create_queue_pair(
        self: &Arc<Self>,
        request: QueuePairRequest,
    ) -> Result<Arc<QueuePair>, CreateError> {
        let context = self.context();
        context.check_current()?;
        check_capabilities(&request)?;
        let same = |other: &Arc<Context>| Arc::ptr_eq(other, context);
        let queue_fits =
            request.shared_receive_queue.as_ref().is_none_or(|queue| same(queue.zone().context()));
        if !same(request.send_queue.context()) || !same(request.receive_queue.context()) || !queue_fits {
            return Err(CreateError::OtherContext);
        }
        let users = [
            Some(&self.users),
            Some(&request.send_queue.users),
            Some(&request.receive_queue.users),
            request.shared_receive_queue.as_ref().map(|queue| &queue.users),
        ];
        let users: Vec<_> = users.into_iter().flatten().collect();
        for (count, user) in users.iter().enumerate() {
            if !user.acquire() {
                users[..count].iter().for_each(|user| user.release());
                return Err(CreateError::Closed);
            }
        }
        let mut capabilities = rounded(&request.capabilities);
        if request.shared_receive_queue.is_some() {
            (capabilities.receive_requests, capabilities.receive_pieces) = (0, 0);
        }
        let owner = context.engine_owner();
        let made = owner.add_pair(owner, |number, account| {
            owner.credits(account).store(0, Ordering::Relaxed);
            Arc::new_cyclic(|this| QueuePair {
                this: Weak::clone(this),
                zone: Arc::clone(self),
                send_completions: Arc::clone(&request.send_queue),
                receive_completions: Arc::clone(&request.receive_queue),
                shared_receives: request.shared_receive_queue.clone(),
                number,
                account,
                transport: request.transport,
                capabilities,
                signal_all: request.signal_all,
                cookie: request.cookie,
                inner: Mutex::new(Inner::new(&capabilities)),
                async_events: EventAccount::default(),
                destroyed: AtomicBool::new(false),
                refused_messages: AtomicU64::new(0),
            })
        });
        made.inspect_err(|_| users.iter().for_each(|user| user.release()))
    }
}

/// The sizes a queue pair really gets. Network cards round queues up to a power of two and never make tiny ones, and
/// programs have come to lean on that (perftest's event mode leaves a completion unpolled now and then).
fn rounded(asked: &Capabilities) -> Capabilities {
    const LEAST: u32 = 16;
    let round = |requests: u32| if requests == 0 { 0 } else { requests.next_power_of_two().max(LEAST) };
    Capabilities {
        send_requests: round(asked.send_requests),
        receive_requests: round(asked.receive_requests),
        ..*asked
    }
}

fn check_capabilities(request: &QueuePairRequest) -> Result<(), CreateError> {
    let asked = &request.capabilities;
    let shared = request.shared_receive_queue.is_some();
    let checks = [
        ("send requests", asked.send_requests, REQUESTS_MAX),
        ("receive requests", if shared { 0 } else { asked.receive_requests }, REQUESTS_MAX),
        ("pieces in a send request", asked.send_pieces, PIECES_MAX as u32),
        ("pieces in a receive request", if shared { 0 } else { asked.receive_pieces }, PIECES_MAX as u32),
        ("inline bytes", asked.inline_bytes, INLINE_MAX),
    ];
    for (what, asked, limit) in checks {
        if asked > limit {
            return Err(CreateError::Limit { what, asked: u64::from(asked), limit: u64::from(limit) });
        }
    }
    Ok(())
}

impl Inner {
    fn new(capabilities: &Capabilities) -> Self {
        Self {
            attributes: QpAttributes::default(),
            path: None,
            receives: ReceiveQueue::new(capabilities.receive_requests, capabilities.receive_pieces),
            send: SendQueue::new(),
            requester: Requester::default(),
            responder: Responder::default(),
            established: false,
        }
    }

    pub(crate) fn state(&self) -> QpState {
        self.attributes.state
    }
}

impl QueuePair {
    /// The face's mark.
    pub fn cookie(&self) -> usize {
        self.cookie
    }

    /// Its number, the same host-wide until some time after it is destroyed.
    pub fn number(&self) -> QpNumber {
        self.number
    }

    /// Its service.
    pub fn transport(&self) -> QpType {
        self.transport
    }

    /// Its sizes.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Whether every send makes a completion.
    pub fn signals_all(&self) -> bool {
        self.signal_all
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.lock().state()
    }

    /// Everything that was set.
    pub fn attributes(&self) -> QpAttributes {
        let attributes = self.lock().attributes;
        QpAttributes { current_state: attributes.state, ..attributes }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        self.zone.context()
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.zone.context().engine()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    pub(crate) fn async_account(&self) -> &EventAccount {
        &self.async_events
    }

    /// Acknowledges an asynchronous event.
    pub fn acknowledge_async_event(&self) {
        self.async_events.acknowledge(1);
    }

    pub(crate) fn raise(&self, kind: AsyncEventKind) {
        if let Some(this) = self.this.upgrade() {
            self.context().raise(kind, AsyncElement::QueuePair(this));
        }
    }

    // States.

    /// Changes state and attributes as `ibv_modify_qp(3)` does; a refused change changes nothing.
    pub fn modify(&self, attributes: &QpAttributes, mask: AttributeMask) -> Result<(), ModifyError> {
        use AttributeMask as A;
        if !self.context().is_current() {
            return Err(ModifyError::Forked);
        }
        let mut inner = self.lock();
        if self.is_destroyed() {
            return Err(ModifyError::Destroyed);
        }
        let from = inner.state();
        if mask.has(A::CURRENT_STATE) && attributes.current_state != from {
            return Err(ModifyError::Value { what: "current state", value: attributes.current_state as u64 });
        }
        let to = if mask.has(A::STATE) { attributes.state } else { from };
        check_transition(self.transport, from, to, mask)?;
        self.check_values(attributes, mask)?;
        match to {
            QpState::Reset => {
                self.reset(&mut inner);
                return Ok(());
            }
            QpState::Error => {
                self.enter_error(&mut inner);
                return Ok(());
            }
            _ => {}
        }
        inner.attributes.apply(attributes, mask);
        inner.attributes.state = to;
        match (from, to) {
            (QpState::Init, QpState::ReadyToReceive) => {
                let psn = inner.attributes.receive_psn;
                inner.responder.begin(psn);
                // Looking for the peer now spares the first message the search; it may well not be there yet.
                self.find_path(&mut inner);
            }
            (QpState::ReadyToReceive, QpState::ReadyToSend) => {
                let attributes = inner.attributes;
                inner.requester.begin(&attributes);
            }
            (QpState::ReadyToSend, QpState::SendQueueDrain) => inner.requester.drained_reported = false,
            (QpState::SendQueueDrain, QpState::SendQueueDrain) if mask.has(A::ADDRESS_VECTOR) => {
                inner.path = None
            }
            _ => {}
        }
        self.publish(&inner);
        self.pump(&mut inner);
        Ok(())
    }

    fn check_values(&self, new: &QpAttributes, mask: AttributeMask) -> Result<(), ModifyError> {
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
        check(A::MIN_RNR_TIMER, "RNR timer", new.min_rnr_timer.into(), new.min_rnr_timer <= 31)?;
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
    fn publish(&self, inner: &Inner) {
        let attributes = &inner.attributes;
        let takes = self.transport != QpType::UnreliableDatagram && attributes.state.receives();
        let slot = takes.then(|| QpSlot {
            zone: self.zone.id(),
            peer: attributes.destination_qp,
            access: attributes.access,
            answers_reads: attributes.max_dest_rd_atomic > 0,
            transport: self.transport,
        });
        self.engine().party().segment.publish(self.number, slot);
    }

    /// Takes nothing more; when this returns no peer's direct operation is under way through this queue pair.
    fn withdraw(&self) {
        self.engine().party().segment.publish(self.number, None);
    }

    fn reset(&self, inner: &mut Inner) {
        self.withdraw();
        *inner = Inner::new(&self.capabilities);
        self.engine().credits(self.account).store(0, Ordering::Release);
        self.forget_completions();
    }

    fn forget_completions(&self) {
        self.send_completions.forget(self.number);
        self.receive_completions.forget(self.number);
    }

    /// Stops everything and flushes every queue. Harmless when done already.
    pub(crate) fn enter_error(&self, inner: &mut Inner) {
        if matches!(inner.state(), QpState::Error | QpState::Reset) {
            return;
        }
        self.withdraw();
        inner.attributes.state = QpState::Error;
        inner.requester.stop();
        self.flush_sends(inner);
        if let Some(receive) = inner.responder.stop() {
            self.complete_receive(inner, &receive, Status::Flushed);
        }
        while let Some(receive) = inner.receives.take() {
            self.complete_receive(inner, &receive, Status::Flushed);
        }
        if self.shared_receives.is_some() {
            self.raise(AsyncEventKind::QpLastWqeReached);
        }
    }

    pub(crate) fn flush_sends(&self, inner: &mut Inner) {
        while inner.send.finished < inner.send.posted {
            self.finish(inner, Status::Flushed);
        }
    }

    /// Ends the oldest unfinished request.
    pub(crate) fn finish(&self, inner: &mut Inner, status: Status) {
        let slot = inner.send.slot(inner.send.finished);
        inner.send.finished += 1;
        inner.send.started = inner.send.started.max(inner.send.finished);
        if !(slot.flags.signaled || self.signal_all || status != Status::Success) {
            return;
        }
        let mut completion =
            Completion::bare(slot.id, slot.operation.completion_opcode(), status, self.number);
        completion.byte_length = slot.total as u32;
        let credit = SendCredit { account: self.account, next: inner.send.finished };
        self.send_completions.push(completion, Some(credit), false);
    }

    pub(crate) fn complete_receive(&self, inner: &mut Inner, receive: &Receive, status: Status) {
        self.show_filled(inner);
        let completion = Completion::bare(receive.id, CompletionOpcode::Receive, status, self.number);
        self.receive_completions.push(completion, None, false);
    }

    // Posting.

    /// Takes one send-queue request; [`QueuePair::ring_doorbell`] starts what was posted. In ERR and SQE it is taken and
    /// flushed, in INIT and RTR held until RTS, in RESET refused.
    ///
    /// # Safety
    /// The pieces of an inline request are readable memory of the program. The pieces of any other request lie in
    /// regions the program keeps mapped until it deregisters them.
    pub unsafe fn post_send(&self, request: &SendRequest<'_>) -> Result<(), PostError> {
        if !self.context().is_current() {
            return Err(PostError::Forked);
        }
        let mut inner = self.lock();
        if inner.state() == QpState::Reset || self.is_destroyed() {
            return Err(PostError::WrongState { state: inner.state() });
        }
        if !operation_fits(self.transport, request) {
            return Err(PostError::WrongOperation { transport: self.transport });
        }
        let freed = self.engine().credits(self.account).load(Ordering::Acquire);
        inner
            .send
            .post(request, &self.capabilities, self.transport, freed, |bytes| copy_inline(request, bytes))?;
        if matches!(inner.state(), QpState::Error | QpState::SendQueueError) {
            self.flush_sends(&mut inner);
        }
        Ok(())
    }

    /// Starts what was posted.
    pub fn ring_doorbell(&self) {
        let mut inner = self.lock();
        let direct_later = !inner.send.nothing_in_flight()
            && inner.send.started < inner.send.posted
            && inner.send.slot(inner.send.started).operation.remote_access().is_some();
        if direct_later {
            // A one-sided request runs directly when what is under way has been answered; the answer may be here.
            drop(inner);
            self.engine().progress(1);
            inner = self.lock();
        }
        self.pump(&mut inner);
    }

    /// Takes one receive. In ERR it is taken and flushed, in RESET refused.
    pub fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<(), PostError> {
        if !self.context().is_current() {
            return Err(PostError::Forked);
        }
        if self.shared_receives.is_some() {
            return Err(PostError::HasSharedReceiveQueue);
        }
        let mut inner = self.lock();
        if inner.state() == QpState::Reset || self.is_destroyed() {
            return Err(PostError::WrongState { state: inner.state() });
        }
        inner.receives.post(request, self.zone.id())?;
        if inner.state() == QpState::Error
            && let Some(receive) = inner.receives.take()
        {
            self.complete_receive(&mut inner, &receive, Status::Flushed);
        }
        Ok(())
    }

    // What the engine calls.

    /// Handles a message that came for this queue pair.
    pub(crate) fn deliver(&self, link: &Arc<Link>, incoming: &Incoming<'_>) -> Delivery {
        let mut inner = self.lock();
        match incoming.header.kind {
            MessageKind::Padding => Delivery::Quiet,
            MessageKind::Acknowledge
            | MessageKind::Refuse
            | MessageKind::ReadResponse
            | MessageKind::AtomicResponse => {
                if self.is_peer(&mut inner, link, incoming.header.source) {
                    self.take_answer(&mut inner, incoming);
                } else {
                    self.refused_messages.fetch_add(1, Ordering::Relaxed);
                }
                Delivery::Quiet
            }
            MessageKind::Datagram => self.take_datagram(&mut inner, incoming),
            MessageKind::Send
            | MessageKind::SendPull
            | MessageKind::Write
            | MessageKind::WriteNotify
            | MessageKind::Read
            | MessageKind::Atomic => self.take_request(&mut inner, link, incoming),
        }
    }

    /// Whether a message of `source` over `link` comes from the queue pair this one is connected to.
    pub(crate) fn is_peer(&self, inner: &mut Inner, link: &Arc<Link>, source: QpNumber) -> bool {
        if self.transport == QpType::UnreliableDatagram || inner.attributes.destination_qp != source {
            return false;
        }
        self.find_path(inner);
        let Some(path) = &inner.path else { return false };
        Arc::ptr_eq(&path.link, link) || path.link.leads_where(link)
    }

    /// Finds the peer's process, if it is on this host and there.
    pub(crate) fn find_path(&self, inner: &mut Inner) {
        if inner.path.as_ref().is_some_and(|path| !path.link.is_dead())
            || self.transport == QpType::UnreliableDatagram
            || !inner.attributes.state.receives()
        {
            return;
        }
        let number = inner.attributes.destination_qp;
        let reachable = inner
            .attributes
            .address_vector
            .is_some_and(|vector| self.context().port_state().reaches(&vector));
        let link = if reachable { self.engine().link_to(number) } else { None };
        if let Some(link) = link {
            inner.path = Some(Path { link, number, slot: None });
        }
    }

    /// Sends what is owed to the peer.
    pub(crate) fn answer_now(&self) {
        self.answer(&mut self.lock());
    }

    /// Goes on after the ring was full.
    pub(crate) fn resume(&self) {
        let mut inner = self.lock();
        self.answer(&mut inner);
        self.pump(&mut inner);
    }

    pub(crate) fn timer_fired(&self, now: Instant) {
        self.wait_is_over(&mut self.lock(), now);
    }

    /// The process behind a link is gone. If it ended in order, what was under way to it gets no answer and fails when its
    /// retries are used up, and nothing else happens, as with a network card: programs that are done must not see their
    /// last requests fail. If it crashed the queue pair goes to error at once, so that a program which only receives
    /// learns of it too.
    pub(crate) fn peer_is_gone(&self, link: &Arc<Link>) {
        let mut inner = self.lock();
        if inner.path.as_ref().is_none_or(|path| !Arc::ptr_eq(&path.link, link)) {
            return;
        }
        // The path stays: another link to the same process may still hold what it sent, and the path tells who it is.
        if self.transport != QpType::ReliableConnection || !inner.state().receives() {
            return;
        }
        let waits = inner.send.finished < inner.send.posted && inner.state() == QpState::ReadyToSend;
        if link.peer_departed() {
            if waits && inner.requester.wait.is_none() {
                inner.send.started = inner.send.finished;
                inner.requester.restart();
                self.wait_for_answer(&mut inner);
            }
        } else if waits {
            self.fail_oldest(&mut inner, Status::RetryExceeded);
        } else {
            self.enter_error(&mut inner);
        }
    }

    /// One of its completion queues overran.
    pub(crate) fn queue_overran(&self, queue: &Arc<CompletionQueue>) {
        if Arc::ptr_eq(&self.send_completions, queue) || Arc::ptr_eq(&self.receive_completions, queue) {
            self.enter_error(&mut self.lock());
        }
    }

    // The end.

    /// Gives the queue pair back: its requests and completions vanish. Blocks until every asynchronous event got from
    /// it was acknowledged.
    pub fn destroy(&self) -> Result<(), Busy> {
        if self.destroy_now() {
            self.async_events.wait_for_all();
        }
        Ok(())
    }

    /// The same without waiting for acknowledgements; false if it was destroyed before.
    pub(crate) fn destroy_now(&self) -> bool {
        if self.destroyed.swap(true, Ordering::AcqRel) {
            return false;
        }
        if !self.context().is_current() {
            return true;
        }
        {
            let mut inner = self.lock();
            self.answer(&mut inner);
            self.withdraw();
            *inner = Inner::new(&self.capabilities);
        }
        self.engine().remove_pair(self.number);
        self.engine().wait_for_operations();
        self.forget_completions();
        self.context().forget_events(|element| {
            matches!(element, AsyncElement::QueuePair(pair) if std::ptr::eq(Arc::as_ptr(pair), self))
        });
        self.zone.users.release();
        self.send_completions.users.release();
        self.receive_completions.users.release();
        if let Some(queue) = &self.shared_receives {
            queue.users.release();
        }
        true
    }
}

fn operation_fits(transport: QpType, request: &SendRequest<'_>) -> bool {
    match (transport, request.operation.remote_access()) {
        (_, None) | (QpType::ReliableConnection, Some(_)) => true,
        (QpType::UnreliableConnection, Some(access)) => access == Access::REMOTE_WRITE,
        (QpType::UnreliableDatagram, Some(_)) => false,
    }
}
