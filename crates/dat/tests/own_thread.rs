//! Threads of the library that keep the agent from its work for a moment.

mod common;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::connected::{PLAIN, Seen, dequeue, pair, told};
use common::peers::connected;
use nonic_dat::{ConnectionEvent, DatError, TransferStatus};
use nonic_device::OwnThread;

/// Whoever waits for the agent waits for longer, and then goes on in any case.
const SOON: Duration = Duration::from_secs(1);

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

/// The connection manager's thread is at work when it tells an endpoint of the end of its connection. If a call of the program that has the
/// same endpoint breaks the connection at that moment and waits for the agent, none of the three goes on.
#[test]
fn a_connection_breaks_in_a_call_while_a_thread_at_work_keeps_the_agent_waiting() {
    let (near, far) = pair();
    let ((begun, has_begun), (over, is_over)) = (channel(), channel::<()>());
    let at_work = std::thread::spawn(move || {
        OwnThread::count().work(|| {
            begun.send(()).unwrap();
            let _ = is_over.recv_timeout(Duration::from_secs(20));
        });
    });
    has_begun.recv().unwrap();
    let mut remote = far.remote(0, 8);
    remote.context ^= 1 << 20;
    near.endpoint.post_rdma_write(std::iter::once(near.piece(0, 8)), 7, remote, PLAIN).unwrap();
    let mut longest = Duration::ZERO;
    let seen = loop {
        let call = Instant::now();
        let seen = dequeue(&near.transfers);
        longest = longest.max(call.elapsed());
        if seen != Err(DatError::QUEUE_EMPTY) {
            break seen.unwrap();
        }
        std::thread::yield_now();
    };
    assert!(matches!(seen, Seen::Transfer { cookie: 7, .. }), "{seen:?}");
    assert_eq!(dequeue(&near.connections).unwrap(), told(ConnectionEvent::Broken));
    assert!(longest < SOON, "a call took {longest:?}");
    over.send(()).unwrap();
    at_work.join().unwrap();
}
