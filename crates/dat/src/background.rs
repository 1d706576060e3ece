//! What must not be done where it is found out, because locks of the engine are held there.

/// Runs a task soon, on a thread of nonic's own.
pub(crate) fn run(task: impl FnOnce() + Send + 'static) {
    std::thread::spawn(task);
}
