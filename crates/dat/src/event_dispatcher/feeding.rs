//! Events that arrive, other than completions.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use nonic_sys::Share;

use super::EventDispatcher;
use crate::connection_request::ConnectionRequest;
use crate::endpoint::Endpoint;
use crate::error::{DatError, DatResult, Kind, Subtype};
use crate::event::{AsyncObject, Kept, KeptObject, KeptPoint};
use crate::values::{AsyncError, ConnectionEvent, Streams};

impl EventDispatcher {
    pub(super) fn others(&self) -> MutexGuard<'_, VecDeque<(u64, Kept)>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a software event. `QUEUE_FULL` if there is no room; the dispatcher is none the worse for it.
    pub fn post_software(&self, pointer: usize) -> DatResult<()> {
        self.check_alive()?;
        if !self.streams.contains(Streams::SOFTWARE) {
            return Err(DatError::argument(1));
        }
        if self.add(Kept::Software { pointer }) {
            Ok(())
        } else {
            Err(DatError::new(Kind::QueueFull, Subtype::None))
        }
    }

    /// Free places, for a backlog.
    pub(crate) fn room(&self) -> i32 {
        let waiting = i32::try_from(self.visible()).unwrap_or(i32::MAX);
        self.length.load(Ordering::Acquire).saturating_sub(waiting).max(0)
    }

    /// A connection event. Lost with an overflow if there is no room.
    pub(crate) fn push_connection(
        &self,
        kind: ConnectionEvent,
        endpoint: &Arc<Endpoint>,
        private_data: Arc<[u8]>,
    ) {
        self.push(Kept::Connection { kind, endpoint: Arc::clone(endpoint), private_data });
    }

    /// A connection request; false if there is no room, then nothing has happened.
    pub(crate) fn push_request(
        &self,
        point: KeptPoint,
        address: SocketAddr,
        conn_qual: u64,
        request: &Arc<ConnectionRequest>,
        place: Share,
    ) -> bool {
        let (request, _place) = (Arc::clone(request), Arc::new(place));
        self.add(Kept::Request { point, address, conn_qual, request, _place })
    }

    /// An asynchronous error. If there is no room it is lost and the dispatcher dies silently.
    pub(crate) fn push_async(&self, kind: AsyncError, object: AsyncObject<'_>, reason: i32) {
        let object = match object {
            AsyncObject::Adapter(adapter) => KeptObject::Adapter(Arc::clone(adapter)),
            AsyncObject::Dispatcher(dispatcher) => KeptObject::Dispatcher(Arc::clone(dispatcher)),
            AsyncObject::Endpoint(endpoint) => KeptObject::Endpoint(Arc::clone(endpoint)),
            AsyncObject::SharedReceives(queue) => KeptObject::SharedReceives(Arc::clone(queue)),
        };
        self.push(Kept::Async { kind, object, reason });
    }

    fn push(&self, event: Kept) {
        if !self.add(event) && !self.is_ended() {
            self.overflow();
        }
    }

    /// Adds an event and tells who is to be told; false if there is no room, or the dispatcher has ended.
    fn add(&self, event: Kept) -> bool {
        let mut others = self.others();
        if self.is_ended() || self.has_overflowed() || self.room() == 0 {
            return false;
        }
        if others.is_empty() {
            self.number_others();
        }
        let before = self.completions.as_ref().map_or(0, |queue| queue.added());
        if matches!(event, Kept::Connection { kind: ConnectionEvent::Established, .. }) {
            // Nothing of the endpoint may be shown before it, so it and those before it go before all completions.
            others.iter_mut().for_each(|(stamp, _)| *stamp = 0);
            others.push_back((0, event));
        } else {
            others.push_back((before, event));
        }
        self.others_waiting.store(others.len() as u32, Ordering::Release);
        drop(others);
        self.watch.arrived();
        true
    }

    /// The oldest of the other events counts as having arrived now.
    pub(super) fn number_others(&self) {
        self.others_oldest.store(self.adapter.context().number_arrival(), Ordering::Release);
    }

    #[inline]
    pub(super) fn has_overflowed(&self) -> bool {
        self.overflowed.load(Ordering::Acquire)
    }

    /// An event was lost: the dispatcher is dead, and the adapter's asynchronous dispatcher learns of it.
    pub(super) fn overflow(&self) {
        if self.overflowed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.watch.wake_waiter();
        if !self.streams.contains(Streams::ASYNC) {
            self.adapter.raise(AsyncError::DispatcherOverflow, AsyncObject::Adapter(&self.adapter), 0);
        }
    }

    /// Removes what tells of an endpoint that goes.
    pub(crate) fn forget_endpoint(&self, endpoint: &Endpoint) {
        let gone = {
            let mut others = self.others();
            let (gone, left): (VecDeque<_>, _) = std::mem::take(&mut *others)
                .into_iter()
                .partition(|(_, event)| event.is_of_endpoint(endpoint));
            *others = left;
            self.others_waiting.store(others.len() as u32, Ordering::Release);
            gone
        };
        // The last trace of an object is not dropped under the lock.
        drop(gone);
    }
}
