//! What nonic's own thread does for uDAPL: connections, and what must not be done where it is found out, because locks of the
//! engine are held there.

use std::sync::{Arc, Weak};

use nonic_connection::{ThreadKeeper, keep_thread};
use nonic_device::OwnThread;

/// Keeps off the program's memory while pages are moved: so a program with one thread of its own needs no protection against
/// itself meanwhile.
struct Keeper(OwnThread);

impl ThreadKeeper for Keeper {
    fn work(&self, turn: &mut dyn FnMut()) {
        self.0.work(turn);
    }

    fn as_ordinary(&self, turn: &mut dyn FnMut()) {
        self.0.as_ordinary(turn);
    }

    fn when_started(&self) -> Box<dyn FnOnce()> {
        let starter = self.0.starter();
        Box::new(|| starter.has_started())
    }
}

/// Before anything else is asked of the connection manager.
pub(crate) fn prepare() {
    keep_thread(|| Box::new(Keeper(OwnThread::count())));
}

/// Runs a task soon, on the connection manager's thread. It may do anything that a thread of the program's may.
pub(crate) fn run(task: impl FnOnce() + Send + 'static) {
    nonic_connection::run(task);
}

/// Lends what the connection manager tells something about. If everybody else has let go of it meanwhile, it is dropped as a
/// task: that may give memory back, or close the device, and whoever is told may not.
pub(crate) fn lend<T: Send + Sync + 'static, R>(
    object: &Weak<T>,
    tell: impl FnOnce(&Arc<T>) -> R,
) -> Option<R> {
    let object = object.upgrade()?;
    let result = tell(&object);
    if let Some(last) = Arc::into_inner(object) {
        run(move || drop(last));
    }
    Some(result)
}
