//! Posting requests.

use std::sync::atomic::Ordering;

use nonic_memory::Access;
use nonic_queue::{PostError, QpState, QpType, ReceiveRequest, SendRequest, Status};

use super::QueuePair;
use crate::program_memory::copy_inline;

impl QueuePair {
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
}

pub(super) fn operation_fits(transport: QpType, request: &SendRequest<'_>) -> bool {
    match (transport, request.operation.remote_access()) {
        (_, None) | (QpType::ReliableConnection, Some(_)) => true,
        (QpType::UnreliableConnection, Some(access)) => access == Access::REMOTE_WRITE,
        (QpType::UnreliableDatagram, Some(_)) => false,
    }
}
