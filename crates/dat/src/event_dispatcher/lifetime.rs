//! Making dispatchers, and their end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use nonic_device::CompletionObserver;
use nonic_sys::{BiasedMutex, Budget, Shares, UseCount, own_user};

use super::settings::{Mode, Settings, check_length};
use super::taking::Front;
use super::watch::Watch;
use super::{DISPATCHER_HANDLE, EventDispatcher};
use crate::error::{DatError, DatResult, HandleKind, Resource, StateKind, Subtype};
use crate::interface_adapter::InterfaceAdapter;
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};
use crate::notification_object::NotificationObject;
use crate::values::Streams;

/// How many of a dispatcher's events may be requests of strangers: the other half is for requests of the own user, and for
/// what becomes of its connections, which must not be lost.
fn request_shares(length: usize) -> Shares {
    Shares { own: usize::MAX, stranger: (length / 4).max(1), strangers: (length / 2).max(1) }
}

/// The same of other hosts. One host may have many programs, which connect all at once: it may have what all hosts may. Of a dispatcher that
/// has nothing but requests that is everything.
fn shares_of_hosts(length: usize, streams: Streams) -> Shares {
    let most = if streams == Streams::CONNECTION_REQUEST { length } else { (length / 2).max(1) };
    Shares { own: 0, stranger: most, strangers: most }
}

impl EventDispatcher {
    /// Makes a dispatcher for at least `length` events, enabled and waitable. The streams may be any but the asynchronous
    /// errors, which are the adapter's own dispatcher's.
    ///
    /// Errors: `INVALID_PARAMETER|ARG2` for a length of 0 or less, `ARG4` for streams that cannot be;
    /// `INSUFFICIENT_RESOURCES|TEVD` for a length beyond the adapter's; `INVALID_HANDLE|CNO`.
    pub fn create(
        adapter: &Arc<InterfaceAdapter>,
        length: i32,
        notification: Option<&Arc<NotificationObject>>,
        streams: Streams,
    ) -> DatResult<Arc<Self>> {
        adapter.check_open()?;
        check_length(length)?;
        if streams.bits() == 0 || streams.contains(Streams::ASYNC) {
            return Err(DatError::argument(4));
        }
        if notification.is_some_and(|object| !Arc::ptr_eq(object.adapter(), adapter)) {
            return Err(DatError::handle(Subtype::Handle(HandleKind::NotificationObject)));
        }
        let created = Self::make(adapter, length, streams)?;
        adapter.join(&created)?;
        if notification.is_some() {
            created.modify_notification(notification).inspect_err(|_| created.abort())?;
        }
        Ok(created)
    }

    /// The dispatcher of an adapter's asynchronous errors, which goes with it.
    pub(crate) fn create_async(adapter: &Arc<InterfaceAdapter>, length: i32) -> DatResult<Arc<Self>> {
        check_length(length)?;
        Self::make(adapter, length, Streams::ASYNC)
    }

    fn make(adapter: &Arc<InterfaceAdapter>, length: i32, streams: Streams) -> DatResult<Arc<Self>> {
        let none_left = DatError::resources(Subtype::Resource(Resource::TransportEventDispatcher));
        let mut failed = None;
        let made = Arc::new_cyclic(|this: &Weak<Self>| {
            let watch = Arc::new(Watch::new(this.clone(), adapter.context().wait_bell()));
            let completions = if streams.intersects(Streams::DATA_TRANSFER | Streams::BIND) {
                let observer: Arc<dyn CompletionObserver> = Arc::clone(&watch) as Arc<_>;
                let queue =
                    adapter.context().create_observed_completion_queue(length.unsigned_abs(), observer);
                queue.inspect_err(|_| failed = Some(none_left)).ok()
            } else {
                None
            };
            Self {
                this: this.clone(),
                mark: Mark::default(),
                membership: Membership::new(MemberKind::EventDispatcher),
                adapter: Arc::clone(adapter),
                streams,
                length: AtomicI32::new(length),
                completions,
                front: BiasedMutex::new(Front::default()),
                parked: AtomicU32::new(0),
                others: Mutex::new(VecDeque::new()),
                others_waiting: AtomicU32::new(0),
                others_oldest: AtomicU64::new(0),
                settings: Mutex::new(Settings::default()),
                mode: AtomicU8::new(Mode::Open as u8),
                counts_by_looking: AtomicBool::new(false),
                hidden_room: Mutex::new(0),
                watch,
                unwaitable: AtomicBool::new(false),
                overflowed: AtomicBool::new(false),
                ended: AtomicBool::new(false),
                requests: Budget::new(own_user(), request_shares(length.unsigned_abs() as usize)),
                wire_requests: Budget::new(None, shares_of_hosts(length.unsigned_abs() as usize, streams)),
                users: UseCount::default(),
            }
        });
        failed.map_or(Ok(made), Err)
    }

    /// Counts a user; `INVALID_HANDLE` if the dispatcher was freed.
    pub(crate) fn hold(&self) -> DatResult<()> {
        if self.users.acquire() { Ok(()) } else { Err(DISPATCHER_HANDLE) }
    }

    /// Counts a user less.
    pub(crate) fn release(&self) {
        self.users.release();
    }

    /// Gives the dispatcher back; what it holds is lost. `INVALID_STATE|EVD_IN_USE` while endpoints, service points or
    /// adapters feed it, or a thread waits.
    pub fn free(&self) -> DatResult<()> {
        self.check_alive()?;
        let in_use = DatError::state(Subtype::State(StateKind::EvdInUse));
        if self.streams.contains(Streams::ASYNC) || !self.watch.enter_waiter() {
            return Err(in_use);
        }
        let closed = self.users.close().is_ok();
        self.watch.leave_waiter();
        if !closed {
            return Err(if self.users.is_closed() { DISPATCHER_HANDLE } else { in_use });
        }
        self.let_go();
        Ok(())
    }

    /// The end, whoever uses it: who waits is woken with `ABORT`.
    pub(crate) fn abort(&self) {
        self.users.close_anyway();
        self.let_go();
    }

    fn let_go(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        self.watch.wake_waiter();
        let notification = self.settings().notification.take();
        if let Some(object) = notification {
            self.watch.set_signal(None);
            object.detach(self);
        }
        if let Some(queue) = &self.completions {
            let _ = queue.destroy();
        }
        // What is dropped here may be the last trace of an object, so no lock is held.
        let events = std::mem::take(&mut *self.others());
        self.others_waiting.store(0, Ordering::Release);
        drop(events);
        let front = std::mem::take(&mut *self.front.lock());
        drop(front);
        self.adapter.leave(&self.membership);
    }
}

impl Member for EventDispatcher {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn end(&self) {
        self.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_leave_half_of_a_dispatcher_for_what_becomes_of_connections_unless_it_has_none() {
        let mixed = Streams::CONNECTION_REQUEST | Streams::CONNECTION;
        let of = |length, streams| shares_of_hosts(length, streams);
        assert_eq!(of(8, Streams::CONNECTION_REQUEST), Shares { own: 0, stranger: 8, strangers: 8 });
        assert_eq!(of(8, mixed), Shares { own: 0, stranger: 4, strangers: 4 });
        assert_eq!(of(1, mixed), Shares { own: 0, stranger: 1, strangers: 1 });
    }
}
