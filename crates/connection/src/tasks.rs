//! What the manager's thread does for the layers above beside connections.

use std::cell::Cell;
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::shared::{Command, FAREWELL, Shared};

/// Runs `task` soon on the manager's thread, for those who hold locks under which they cannot do it themselves.
pub fn run(task: impl FnOnce() + Send + 'static) {
    run_after(Duration::ZERO, task);
}

/// Runs `task` on the manager's thread when `delay` is over.
pub fn run_after(delay: Duration, task: impl FnOnce() + Send + 'static) {
    match Shared::get() {
        Ok(shared) => shared.order(Command::Run { task: Box::new(task), at: Instant::now() + delay }),
        Err(error) => tracing::error!(%error, "the connection manager cannot be started: an event is lost"),
    }
}

/// Calls `parting` on the manager's thread when this process exits in order, before its connections end. It must not block.
pub fn run_at_exit(parting: fn()) {
    match Shared::get() {
        Ok(shared) => shared.add_parting(parting),
        Err(error) => tracing::error!(%error, "the connection manager cannot be started"),
    }
}

thread_local! {
    static IS_MANAGER: Cell<bool> = const { Cell::new(false) };
}

/// This thread is the manager's.
pub(crate) fn note_manager() {
    IS_MANAGER.set(true);
}

/// Waits until all that this process has asked of the manager before is on its way: what a process says and then ends, without
/// a chance for its other threads (`_exit(2)`), is said. Not to be called with a lock that a sink takes. On the manager's own thread it
/// does not wait, and anywhere for half a second at most.
pub fn flush() {
    if IS_MANAGER.get() {
        return;
    }
    let (done, is_done) = channel();
    run(move || {
        let _ = done.send(());
    });
    let _ = is_done.recv_timeout(FAREWELL);
}

/// Lends what the manager tells something about. If everybody else has let go of it meanwhile, it is dropped as a task: that may
/// give memory back, or close the device, and whoever is told may not.
pub fn lend<T: Send + Sync + 'static, R>(object: &Weak<T>, tell: impl FnOnce(&Arc<T>) -> R) -> Option<R> {
    let object = object.upgrade()?;
    let result = tell(&object);
    if let Some(last) = Arc::into_inner(object) {
        run(move || drop(last));
    }
    Some(result)
}
