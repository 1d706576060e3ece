//! The objects of an adapter: who is there when it closes, and in which order they go.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::shared_receive_queue::SharedReceiveQueue;

/// Kinds of objects, in the order in which an abrupt close ends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberKind {
    RemoteRegion,
    ReservedServicePoint,
    Endpoint,
    SharedReceiveQueue,
    LocalRegion,
    PublicServicePoint,
    ConnectionRequest,
    ProtectionZone,
    EventDispatcher,
    NotificationObject,
}

impl MemberKind {
    pub(crate) const ALL: [Self; 10] = [
        Self::RemoteRegion,
        Self::ReservedServicePoint,
        Self::Endpoint,
        Self::SharedReceiveQueue,
        Self::LocalRegion,
        Self::PublicServicePoint,
        Self::ConnectionRequest,
        Self::ProtectionZone,
        Self::EventDispatcher,
        Self::NotificationObject,
    ];
}

/// An object of an adapter.
pub(crate) trait Member: Send + Sync + 'static {
    /// Its membership.
    fn membership(&self) -> &Membership;

    /// The adapter closes abruptly: the object goes, whatever uses it, and whoever waits on it is woken.
    fn end(&self);

    /// Completions of receives from a shared queue that wait to be handed out.
    fn receives_to_show(&self, queue: &SharedReceiveQueue) -> u32 {
        let _ = queue;
        0
    }

    /// What others wait for may be done by now: see whether it is.
    fn look_again(&self) {}
}

/// What an object knows of its place among the members; it joins once and leaves once.
#[derive(Debug)]
pub(crate) struct Membership {
    kind: MemberKind,
    /// Place among those of its kind, from 1; 0: not a member.
    place: AtomicU32,
}

impl Membership {
    /// Of an object that has not joined.
    pub(crate) fn new(kind: MemberKind) -> Self {
        Self { kind, place: AtomicU32::new(0) }
    }
}

/// All of them. They are not kept alive here.
#[derive(Default)]
pub(crate) struct Members {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    closed: bool,
    count: usize,
    kinds: [Places; MemberKind::ALL.len()],
}

#[derive(Default)]
struct Places {
    places: Vec<Option<Weak<dyn Member>>>,
    free: Vec<u32>,
}

impl Members {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a member in; false once they are closed.
    pub(crate) fn join<M: Member>(&self, member: &Arc<M>) -> bool {
        let membership = member.membership();
        let weak = Arc::downgrade(member);
        let mut inner = self.lock();
        if inner.closed {
            return false;
        }
        inner.count += 1;
        let Places { places, free } = &mut inner.kinds[membership.kind as usize];
        let place = match free.pop() {
            Some(place) => place,
            None => {
                places.push(None);
                places.len() as u32 - 1
            }
        };
        places[place as usize] = Some(weak);
        membership.place.store(place + 1, Ordering::Release);
        true
    }

    /// Lets a member go; harmless if it has gone.
    pub(crate) fn leave(&self, membership: &Membership) {
        if membership.place.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut inner = self.lock();
        let place = membership.place.swap(0, Ordering::AcqRel);
        if place == 0 {
            return;
        }
        let Places { places, free } = &mut inner.kinds[membership.kind as usize];
        let was = places[place as usize - 1].take();
        free.push(place - 1);
        inner.count -= 1;
        drop(inner);
        // The last trace of an object is not dropped under the lock.
        drop(was);
    }

    /// Takes no more members; false if there are some.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut inner = self.lock();
        inner.closed |= inner.count == 0;
        inner.count == 0
    }

    /// Takes no more members.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// The members of a kind.
    pub(crate) fn of_kind(&self, kind: MemberKind) -> Vec<Arc<dyn Member>> {
        self.lock().kinds[kind as usize].places.iter().flatten().filter_map(Weak::upgrade).collect()
    }
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = self.lock();
        write!(f, "Members({}{})", inner.count, if inner.closed { ", closed" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Object(Membership);

    impl Member for Object {
        fn membership(&self) -> &Membership {
            &self.0
        }
        fn end(&self) {}
    }

    fn object() -> Arc<Object> {
        Arc::new(Object(Membership::new(MemberKind::Endpoint)))
    }

    #[test]
    fn members_leave_once_and_their_places_are_used_again() {
        let members = Members::default();
        let (one, two) = (object(), object());
        assert!(members.join(&one) && members.join(&two));
        assert!(!members.close_if_empty());
        members.leave(&one.0);
        members.leave(&one.0);
        assert_eq!(members.of_kind(MemberKind::Endpoint).len(), 1);
        let three = object();
        assert!(members.join(&three));
        assert_eq!(three.0.place.load(Ordering::Relaxed), 1);
        members.leave(&two.0);
        members.leave(&three.0);
        assert!(members.close_if_empty());
        assert!(!members.join(&one) && members.of_kind(MemberKind::Endpoint).is_empty());
    }

    #[test]
    fn members_are_not_kept_alive() {
        let members = Members::default();
        let one = object();
        assert!(members.join(&one));
        drop(one);
        assert!(members.of_kind(MemberKind::Endpoint).is_empty());
    }

    #[test]
    fn the_order_of_ending_is_that_of_the_kinds() {
        for (index, kind) in MemberKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
    }
}
