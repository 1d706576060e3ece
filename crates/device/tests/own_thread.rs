//! Threads of the library that keep the agent from its work for a moment.

mod common;

use nonic_device::OwnThread;

/// It would wait for the agent, which waits for it.
#[test]
fn a_thread_at_work_may_drop_the_last_trace_of_the_device() {
    let (one, other) = common::connected();
    let thread = OwnThread::count();
    thread.work(move || drop((one, other)));
    // What comes next is a device like any other.
    let (one, other) = common::connected();
    other.post_receive(1);
    one.post(2, nonic_device::Operation::Send { immediate: None }, &[one.piece(0, 64)]);
    assert!(one.completion().status.is_success() && other.completion().status.is_success());
}
