//! What a fork does to endpoints: parent and child share them, and from then on exclude each other by locks of the kernel's.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::{MutexGuard, Once};

use nonic_sys::{ForkHandler, ForkLayer, on_fork};

use crate::connection::Connection;
use crate::helper;
use crate::registry::{self, Entry, Registry};

/// Has endpoints prepared for every fork from now on.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| on_fork(ForkLayer::Scif, &Watcher));
}

struct Watcher;

type Held = (MutexGuard<'static, Registry>, helper::Held);

thread_local! {
    // Without a destructor, which the C library would allocate for: it is taken out again after the fork.
    static HELD: RefCell<Option<ManuallyDrop<Held>>> = const { RefCell::new(None) };
}

fn take_held() -> Option<Held> {
    HELD.with(|place| place.borrow_mut().take()).map(ManuallyDrop::into_inner)
}

fn connections(registry: &Registry) -> impl Iterator<Item = &Connection> {
    registry.entries().filter_map(|entry: &Entry| entry.record.connection.get())
}

impl ForkHandler for Watcher {
    fn prepare(&self) {
        let registry = registry::lock();
        connections(&registry).for_each(Connection::prepare_fork);
        let held = (registry, helper::hold());
        HELD.with(|place| *place.borrow_mut() = Some(ManuallyDrop::new(held)));
    }

    fn parent(&self) {
        drop(take_held());
    }

    fn child(&self) {
        let Some((registry, helper)) = take_held() else { return };
        connections(&registry).for_each(Connection::become_child);
        helper.become_child();
    }
}
