//! Posting requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_memory::Access;
use nonic_protocol::{Happening, Operation, PostError, QpState, QpType, ReceiveRequest, SendRequest, Status};
use nonic_sys::BiasedGuard;

use super::{Core, QueuePair};
use crate::program_memory::copy_inline;
use crate::queue_pair::ReceivesFrom;

/// A queue pair while requests are being posted to it: one turn of its lock for a whole list.
#[derive(Debug)]
pub struct Posting<'a> {
    pair: &'a QueuePair,
    inner: BiasedGuard<'a, Core>,
    /// Its peer, if that is of this process and something was given to it. Let go of behind the lock: it may be the last to hold it.
    neighbour: Option<Arc<QueuePair>>,
}

impl Posting<'_> {
    /// Takes one send-queue request; [`Posting::ring_doorbell`] starts what was posted. In ERR and SQE it is taken and
    /// flushed, in INIT and RTR held until RTS, in RESET refused.
    ///
    /// # Safety
    /// The pieces of an inline request are readable memory of the program. The pieces of any other request lie in
    /// regions the program keeps mapped until it deregisters them.
    #[inline]
    pub unsafe fn post(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.admits(request)?;
        let Self { pair, inner, neighbour } = self;
        let freed = pair.engine().credits(pair.account).load(Ordering::Acquire);
        if !inner.is_wired()
            && inner.send.has_room(&pair.capabilities, freed)
            && (pair.express_within(inner, neighbour, request, |bytes| copy_inline(request, bytes))
                || pair.express_send(inner, request, |bytes| copy_inline(request, bytes))
                || pair.express(inner, request))
        {
            return Ok(());
        }
        inner
            .send
            .post(request, &pair.capabilities, pair.transport, freed, |bytes| copy_inline(request, bytes))?;
        pair.witness.sees(Happening::posted(request));
        if matches!(inner.state(), QpState::Error | QpState::SendQueueError) {
            inner.flush_sends(&mut { *pair });
        }
        Ok(())
    }

    /// Whether [`Posting::post`] will take the request behind `ahead` others; with the same error if not.
    pub fn check(&self, request: &SendRequest<'_>, ahead: u64) -> Result<(), PostError> {
        self.admits(request)?;
        let Self { pair, inner, .. } = self;
        let freed = pair.engine().credits(pair.account).load(Ordering::Acquire);
        inner.send.check(request, &pair.capabilities, pair.transport, freed, ahead)
    }

    /// Whether state and type of the queue pair allow the request.
    #[inline]
    fn admits(&self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let Self { pair, inner, .. } = self;
        if inner.state() == QpState::Reset || pair.is_destroyed() {
            return Err(PostError::WrongState { state: inner.state() });
        }
        if !operation_fits(pair.transport, request) {
            return Err(PostError::WrongOperation { transport: pair.transport });
        }
        Ok(())
    }

    /// Starts what was posted.
    pub fn ring_doorbell(self) {
        let Self { pair, inner, neighbour } = self;
        // What is declared later is dropped earlier: the lock first.
        let _neighbour = neighbour;
        let mut inner = inner;
        if inner.is_wired() {
            return pair.ring_wire(&mut inner);
        }
        pair.engine().note_send();
        if inner.send.started == inner.send.posted
            && inner.state() == QpState::ReadyToSend
            && !inner.responder.owes()
        {
            // All of it went the express way.
            if std::mem::take(&mut inner.requester.rings)
                && let Some(path) = &inner.path
            {
                path.link.ring_bell();
            }
            return;
        }
        let direct_later = !inner.send.nothing_in_flight()
            && inner.send.started < inner.send.posted
            && inner.send.slot(inner.send.started).operation.remote_access().is_some();
        if direct_later {
            // A one-sided request runs directly when what is under way has been answered; the answer may be here.
            drop(inner);
            pair.engine().progress(1);
            inner = pair.lock();
        }
        inner.pump(&mut { pair });
    }
}

impl QueuePair {
    /// Whether this process created it, and not the one before `fork`, of which every post is refused.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.engine().is_current()
    }

    /// Whether its device has failed while this process had it open.
    pub fn has_failed(&self) -> bool {
        self.context().has_failed()
    }

    /// Begins to post send-queue requests.
    #[inline]
    pub fn post(&self) -> Result<Posting<'_>, PostError> {
        if !self.engine().is_usable() {
            return Err(PostError::Gone);
        }
        Ok(Posting { pair: self, inner: self.lock(), neighbour: None })
    }

    /// Takes one send-queue request; [`QueuePair::ring_doorbell`] starts what was posted.
    ///
    /// # Safety
    /// As for [`Posting::post`].
    pub unsafe fn post_send(&self, request: &SendRequest<'_>) -> Result<(), PostError> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.post()?.post(request) }
    }

    /// Starts what was posted.
    pub fn ring_doorbell(&self) {
        if let Ok(posting) = self.post() {
            posting.ring_doorbell();
        }
    }

    /// Gives back the places of all requests that have finished, but for those whose completions wait to be polled; whether
    /// there is room then. In verbs a place comes back with a polled completion only; elsewhere a request that ended without
    /// one is over. Costs a look at everything that waits in the completion queue, so it is for a queue that was found full.
    #[cold]
    pub fn reclaim(&self) -> bool {
        let inner = self.lock();
        // Nothing of this queue pair can be added meanwhile. What is polled meanwhile gives back a part of the same places.
        let waiting = self.send_completions.waiting_for(self.account);
        let freed = inner.send.finished.saturating_sub(waiting);
        self.engine().credits(self.account).store(freed, Ordering::Release);
        inner.send.has_room(&self.capabilities, freed)
    }

    /// Takes one receive. In ERR it is taken and flushed, in RESET refused.
    pub fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<(), PostError> {
        if !self.engine().is_usable() {
            return Err(PostError::Gone);
        }
        match &self.receives_from {
            ReceivesFrom::Shared(_) => return Err(PostError::HasSharedReceiveQueue),
            ReceivesFrom::Own if self.transport.responds() => {}
            _ => return Err(PostError::WrongOperation { transport: self.transport }),
        }
        let mut inner = self.lock();
        if inner.state() == QpState::Reset || self.is_destroyed() {
            return Err(PostError::WrongState { state: inner.state() });
        }
        inner.receives.post(request, self.zone.id())?;
        if inner.state() == QpState::Error
            && let Some(receive) = inner.receives.take()
        {
            self.complete_receive(&receive, Status::Flushed);
        }
        Ok(())
    }
}

pub(super) fn operation_fits(transport: QpType, request: &SendRequest<'_>) -> bool {
    match (transport.service(), request.operation.remote_access()) {
        _ if !transport.requests() => false,
        (QpType::ReliableConnection, _) => true,
        (QpType::UnreliableConnection, _) if matches!(request.operation, Operation::AtomicWrite { .. }) => {
            false
        }
        (QpType::UnreliableConnection, access) => access.is_none_or(|access| access == Access::REMOTE_WRITE),
        // One-sided requests of a service that has none fail when their turn comes, as on cards.
        (_, access) => access.is_some() || matches!(request.operation, Operation::Send { .. }),
    }
}
