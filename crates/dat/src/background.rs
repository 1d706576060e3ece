//! What must not be done where it is found out, because locks of the engine are held there.

/// Runs a task soon, on the connection manager's thread.
pub(crate) fn run(task: impl FnOnce() + Send + 'static) {
    nonic_connection::run(task);
}
