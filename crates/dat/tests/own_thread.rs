//! Threads of the library that keep the agent from its work for a moment.

mod common;

use common::peers::connected;
use nonic_dat::TransferStatus;
use nonic_device::OwnThread;

/// It would wait for the agent, which waits for it.
#[test]
fn a_thread_at_work_may_drop_the_last_trace_of_the_device() {
    let (server, client) = connected(true);
    server.adapter.close(false).unwrap();
    client.adapter.close(false).unwrap();
    // What the connection manager holds of them goes by itself.
    let last = (std::sync::Arc::downgrade(&server.endpoint), std::sync::Arc::downgrade(&client.endpoint));
    while (last.0.strong_count(), last.1.strong_count()) != (1, 1) {
        std::thread::yield_now();
    }
    OwnThread::count().work(move || drop((server, client)));
    // What comes next is a device like any other.
    let (server, client) = connected(true);
    server.post_receive(1, 0, 8).unwrap();
    client.post_send(2, 0, 8).unwrap();
    client.expect(2, TransferStatus::Success);
    server.expect(1, TransferStatus::Success);
}
